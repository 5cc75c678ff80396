/* SPDX-License-Identifier: Apache-2.0 */
/* The limits of this process, and the memory that is left to it. */
#include "doctor/limits.h"
#include "doctor/examination.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define LEAST_FILES 256u /* open at once: data files of a restore, and a trainer's own */
#define LEAST_LOCKED_BYTES                                                                         \
    65536u /* what kernels gave everyone for decades: io_uring asks for some */
#define DEFAULT_BUDGET (UINT64_C(256) << 20)

/* ---- judging -------------------------------------------------------------------------------- */

void limits_judge(const process_limits *limits, uint64_t need_bytes, limits_tell tell_each,
                  void *context) {
    char text[320];
    char seen[128];
    char bytes[32];
    if (limits->open_files < LEAST_FILES) {
        (void)snprintf(seen, sizeof seen, "RLIMIT_NOFILE %llu",
                       (unsigned long long)limits->open_files);
        (void)snprintf(text, sizeof text,
                       "a process may have %llu open files here: a restore opens the data files of "
                       "all ranks, and a trainer has files of its own",
                       (unsigned long long)limits->open_files);
        tell_each(context, "E01", "raise the limit: ulimit -n 4096", seen, text);
    }
    if (limits->locked_bytes < LEAST_LOCKED_BYTES && !limits->may_lock_anything) {
        (void)snprintf(seen, sizeof seen, "RLIMIT_MEMLOCK %llu",
                       (unsigned long long)limits->locked_bytes);
        (void)snprintf(
            text, sizeof text,
            "a process may lock %s of memory here: io_uring, and the memory that devices "
            "copy to, need more",
            text_bytes(bytes, limits->locked_bytes));
        tell_each(context, "E02", "raise the limit: ulimit -l 8192", seen, text);
    }
    if (limits->file_bytes != UINT64_MAX && need_bytes == 0) {
        (void)snprintf(seen, sizeof seen, "RLIMIT_FSIZE %llu",
                       (unsigned long long)limits->file_bytes);
        (void)snprintf(text, sizeof text,
                       "a file may have %s at most (ulimit -f): a larger part of a checkpoint "
                       "cannot be written",
                       text_bytes(bytes, limits->file_bytes));
        tell_each(context, "S06", "raise the limit: ulimit -f unlimited", seen, text);
    }
}

uint64_t staging_bytes(const staging_wanted *wanted) {
    uint64_t ranks = wanted->ranks > 0 ? (uint64_t)wanted->ranks : 1;
    uint64_t here = wanted->ranks_here > 0 ? (uint64_t)wanted->ranks_here : 1;
    uint64_t each = wanted->budget_bytes;
    uint64_t all = 0;
    if (wanted->need_bytes > 0 && wanted->need_bytes / ranks < each) {
        each = wanted->need_bytes / ranks;
    }
    return multiply_overflows(each, here, &all) ? UINT64_MAX : all;
}

bool memory_judge(const memory_room *room, const staging_wanted *wanted, limits_tell tell_each,
                  void *context) {
    char text[512];
    char seen[400];
    char next[128];
    char sizes[5][32];
    uint64_t staging = staging_bytes(wanted);
    if (room->free_bytes == UINT64_MAX || staging <= room->free_bytes) {
        return false;
    }
    uint64_t here = wanted->ranks_here > 0 ? (uint64_t)wanted->ranks_here : 1;
    (void)snprintf(seen, sizeof seen, "%s: %s, of which %s are used",
                   room->version > 0 ? room->group : "MemTotal and MemAvailable of /proc/meminfo",
                   text_bytes(sizes[0], room->limit_bytes), text_bytes(sizes[1], room->used_bytes));
    (void)snprintf(
        text, sizeof text,
        "a save may copy %s into memory (the staging budget of %llu rank%s here), but %s are left "
        "%s%s: the system would end a process",
        text_bytes(sizes[2], staging), (unsigned long long)here, here > 1 ? "s" : "",
        text_bytes(sizes[3], room->free_bytes),
        room->version > 0 ? "to this control group, which may have "
                          : "on this machine, which has ",
        text_bytes(sizes[4], room->limit_bytes));
    (void)snprintf(next, sizeof next, "give the run a budget_bytes of %s or less, or more memory",
                   text_bytes(sizes[0], room->free_bytes / 2 / here));
    tell_each(context, "S05", next, seen, text);
    return true;
}

/* ---- this process --------------------------------------------------------------------------- */

static uint64_t limit_of(int which) {
    struct rlimit limit;
    return getrlimit((__rlimit_resource_t)which, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY
               ? limit.rlim_cur
               : UINT64_MAX;
}

static void tell_limit(void *context, const char *id, const char *next, const char *evidence,
                       const char *text) {
    examination *x = context;
    doctor_evidence(x, "%s", evidence);
    if (strncmp(next, "raise the limit: ", 17) == 0) {
        doctor_command(x, "%s", next + 17);
    }
    doctor_tell(x, id, PAWL_SEVERITY_WARNING, next, "%s", text);
}

void doctor_examine_limits(examination *x) {
    const process_limits limits = {.open_files = limit_of(RLIMIT_NOFILE),
                                   .locked_bytes = limit_of(RLIMIT_MEMLOCK),
                                   .file_bytes = limit_of(RLIMIT_FSIZE),
                                   .may_lock_anything = geteuid() == 0};
    limits_judge(&limits, doctor_need(x), tell_limit, x);
}

void doctor_examine_memory(examination *x, int ranks_here) {
    memory_room room;
    char sizes[2][32];
    const pawl_doctor_options *more = x->asked->more;
    const staging_wanted wanted = {
        .budget_bytes = more->budget_bytes > 0 ? more->budget_bytes : DEFAULT_BUDGET,
        .need_bytes = doctor_need(x),
        .ranks = more->ranks > 0 ? (int)more->ranks : x->ranks->world_size,
        .ranks_here = ranks_here};
    memory_room_of("", &room);
    if (memory_judge(&room, &wanted, tell_limit, x) || room.free_bytes == UINT64_MAX) {
        return;
    }
    doctor_evidence(x, "%s", room.version > 0 ? room.group : "/proc/meminfo");
    doctor_tell(
        x, "ok", PAWL_SEVERITY_NOTE, NULL, "%s of memory are left, and a save stages %s at most",
        text_bytes(sizes[0], room.free_bytes), text_bytes(sizes[1], staging_bytes(&wanted)));
}
