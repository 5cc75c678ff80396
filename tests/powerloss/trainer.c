/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trainer of the powerloss rig. It knows the public headers alone.
 *
 *   trainer work run=DIR marks=FILE seed=N version=N operations=N columns=N [keep=N] [io=N]
 *                [end=close|exit|save] [rank=N world=N launch=TEXT]
 *       restores the newest step, then saves, saves again, cancels, pins, removes, collects
 *       garbage and rebuilds, in an order that the seed decides. Before and after whatever
 *       changes what a crash may leave it writes a line to `marks`:
 *           RUN RANK begin STEP VERSION PINNED, then durable|cancelled|failed STEP VERSION
 *           RUN RANK remove STEP, then removed STEP
 *           RUN RANK pin STEP 0|1, then pinned STEP 0|1
 *       It ends by closing the run, by ending without, or in the middle of a save.
 *   trainer look run=DIR columns=N
 *       one line for each step, "STEP step status pinned version", then "NEWEST step"
 *   trainer resume run=DIR columns=N version=N [rank=N world=N launch=TEXT]
 *       restores the newest step and no other, saves the next: "RESUMED newest saved"
 *   trainer noise run=DIR seed=N
 *       another user of the disk: writes, syncs and removes files of its own until it is killed
 *
 * What should not have failed is a line "NOTE ..." on the standard output.
 */
#include "lib/at_step.h"
#include "lib/random.h"
#include "powerloss/weights.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MOST_SAVES 256

typedef struct job {
    const char *run_path, *marks, *launch, *end;
    const char *name; /* of the run: the last part of its path */
    int64_t seed, version, operations, columns, keep, io, rank, world;
    int mark_fd;
    pawl_error *err;
} job;

/* ---- what it says ---------------------------------------------------------------------------- */

/* A line is one write, which the disk takes in its turn. */
static void mark(const job *j, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void mark(const job *j, const char *format, ...) {
    char line[200];
    int n = snprintf(line, sizeof line, "%s %" PRId64 " ", j->name, j->rank);
    va_list arguments;
    va_start(arguments, format);
    n += vsnprintf(line + n, sizeof line - (size_t)n - 1, format, arguments);
    va_end(arguments);
    line[n++] = '\n';
    if (write(j->mark_fd, line, (size_t)n) != n) {
        perror("marks");
        _exit(9);
    }
}

static void note(const job *j, const char *what, pawl_status status) {
    printf("NOTE %s rank %" PRId64 ", %s: %s: %s\n", j->name, j->rank, what,
           pawl_status_name(status), pawl_error_text(j->err));
    fflush(stdout);
}

/* ---- work ------------------------------------------------------------------------------------ */

typedef struct work {
    job *j;
    pawl_run *run;
    weights w;
    test_random dice; /* the same on all ranks, who so decide alike */
    int64_t newest;
    int64_t begun[MOST_SAVES]; /* steps */
    size_t begun_count;
} work;

static pawl_status open_run(job *j, pawl_run **run) {
    const pawl_group group = {.struct_size = sizeof group,
                              .rank = (int)j->rank,
                              .world_size = (int)j->world,
                              .launch = j->launch};
    const pawl_run_options options = {
        .struct_size = sizeof options,
        .framework = "powerloss",
        .lease_s = 5,
        .deadline_s = 60,
        .group = j->world > 1 ? &group : NULL,
        .group_deadline_s = 10,
        .retention = &(pawl_retention){.struct_size = sizeof(pawl_retention), .keep_last = j->keep},
        .io = (pawl_io)j->io};
    return pawl_run_open(j->run_path, &options, run, j->err);
}

/* The newest committed step and no other; -1: there is none. False: it failed, and was said. */
static bool restore_newest(job *j, pawl_run *run, weights *w, int64_t *newest) {
    const pawl_restore_options strict = {.struct_size = sizeof strict, .no_fallback = 1};
    pawl_status status = pawl_restore(run, w->state, &strict, NULL, j->err);
    *newest = -1;
    if (status == PAWL_ENOTFOUND) {
        return true;
    }
    if (status != PAWL_OK) {
        note(j, "restore", status);
        return false;
    }
    if (weights_version(w, newest) < 0) {
        note(j, "restored numbers that nobody saved", PAWL_EDAMAGED);
        return false;
    }
    return true;
}

static void pause_us(uint64_t us) {
    const struct timespec left = {.tv_nsec = (long)us * 1000};
    nanosleep(&left, NULL);
}

/* False: the job cannot go on. */
static bool told(work *k, int64_t step, int64_t version, pawl_status status) {
    if (status == PAWL_OK) {
        mark(k->j, "durable %" PRId64 " %" PRId64, step, version);
        k->newest = step > k->newest ? step : k->newest;
        return true;
    }
    if (status == PAWL_ECANCELED) {
        mark(k->j, "cancelled %" PRId64 " %" PRId64, step, version);
        return true;
    }
    mark(k->j, "failed %" PRId64 " %" PRId64, step, version);
    note(k->j, "save", status);
    return false;
}

static int64_t choose_step(work *k, bool again) {
    if (again && k->begun_count > 0) {
        return k->begun[random_below(&k->dice, k->begun_count)];
    }
    int64_t last = k->begun_count > 0 ? k->begun[k->begun_count - 1] : k->newest;
    return (last > k->newest ? last : k->newest) + random_between(&k->dice, 1, 3);
}

static bool save_one(work *k, bool again, bool is_last) {
    job *j = k->j;
    int64_t step = choose_step(k, again);
    int64_t version = j->version++;
    bool pinned = random_below(&k->dice, 12) == 0;
    bool cancels = random_below(&k->dice, 15) == 0;
    uint64_t pause = random_below(&k->dice, 20000);
    weights_fill(&k->w, step, version);
    const pawl_save_options options = {.struct_size = sizeof options, .pin = pinned};
    mark(j, "begin %" PRId64 " %" PRId64 " %d", step, version, pinned);
    pawl_status status = pawl_save(k->run, k->w.state, step, &options, j->err);
    if (status != PAWL_OK) {
        return told(k, step, version, status);
    }
    if (k->begun_count < MOST_SAVES) {
        k->begun[k->begun_count++] = step;
    }
    if (is_last && strcmp(j->end, "save") == 0) {
        pause_us(pause);
        _exit(0);
    }
    if (cancels) {
        (void)!pawl_cancel(k->run, 0, j->err);
    }
    return told(k, step, version, pawl_wait(k->run, 0, NULL, j->err));
}

/* Rank 0's alone. A step that is not there (any more), or is being read, is fine. */
static void note_unless_absent(work *k, const char *what, pawl_status status) {
    if (status != PAWL_OK && status != PAWL_ENOTFOUND && status != PAWL_EBUSY) {
        note(k->j, what, status);
    }
}

static void keep_house(work *k, uint64_t what) {
    job *j = k->j;
    int64_t step = k->begun[random_below(&k->dice, k->begun_count)];
    int pinned = (int)random_below(&k->dice, 2);
    if (j->rank != 0) {
        return;
    }
    if (what < 8) {
        mark(j, "remove %" PRId64, step);
        pawl_status status = pawl_run_remove(k->run, step, 0, j->err);
        note_unless_absent(k, "remove", status);
        if (status == PAWL_OK) {
            mark(j, "removed %" PRId64, step);
        }
    } else if (what < 16) {
        mark(j, "pin %" PRId64 " %d", step, pinned);
        pawl_status status = pawl_run_pin(k->run, step, pinned, j->err);
        note_unless_absent(k, "pin", status);
        if (status == PAWL_OK) {
            mark(j, "pinned %" PRId64 " %d", step, pinned);
        }
    } else if (what < 22) {
        note_unless_absent(k, "gc", pawl_run_gc(k->run, 0, NULL, NULL, j->err));
    } else {
        note_unless_absent(k, "rebuild", pawl_run_rebuild(k->run, step, 0, j->err));
    }
}

static void work_on(work *k) {
    for (int64_t i = 0; i < k->j->operations; i++) {
        uint64_t what = random_below(&k->dice, 100);
        bool is_last = i + 1 == k->j->operations;
        if (what < 30 && k->begun_count > 0 && !is_last) {
            keep_house(k, what);
        } else if (!save_one(k, what < 42, is_last)) {
            return;
        }
    }
    if (strcmp(k->j->end, "exit") == 0) {
        _exit(0);
    }
}

static int run_work(job *j) {
    work k = {.j = j, .dice = {.state = (uint64_t)j->seed}};
    j->mark_fd = open(j->marks, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (j->mark_fd < 0) {
        perror(j->marks);
        return 9;
    }
    weights_make(&k.w, (int)j->rank, (int)j->world, j->columns);
    pawl_status status = open_run(j, &k.run);
    if (status != PAWL_OK) {
        note(j, "open", status);
        return 0;
    }
    if (restore_newest(j, k.run, &k.w, &k.newest)) {
        work_on(&k);
    }
    status = pawl_run_close(k.run, 0, j->err);
    if (status != PAWL_OK) {
        note(j, "close", status);
    }
    weights_free(&k.w);
    return 0;
}

/* ---- look, resume ---------------------------------------------------------------------------- */

/* The version that a committed step holds, all its files verified; -1: it is not what was saved. */
static int64_t look_into(job *j, int64_t step) {
    pawl_checkpoint *checkpoint;
    pawl_status status = pawl_checkpoint_open(j->run_path, AT_STEP(step), &checkpoint, j->err);
    if (status != PAWL_OK) {
        note(j, "open checkpoint", status);
        return -1;
    }
    weights w;
    int64_t found;
    weights_make(&w, 0, 1, j->columns);
    status = pawl_checkpoint_verify(checkpoint, NULL, NULL, j->err);
    if (status == PAWL_OK) {
        status = pawl_checkpoint_restore(checkpoint, w.state, NULL, NULL, j->err);
    }
    if (status != PAWL_OK) {
        note(j, "restore checkpoint", status);
    }
    int64_t version = status == PAWL_OK ? weights_version(&w, &found) : -1;
    weights_free(&w);
    pawl_checkpoint_close(checkpoint);
    return version >= 0 && found == step ? version : -1;
}

static void look_at(job *j, const pawl_step_info *info) {
    static const char *const names[] = {
        [PAWL_STEP_COMMITTED] = "committed",
        [PAWL_STEP_UNFINISHED] = "unfinished",
        [PAWL_STEP_DAMAGED] = "damaged",
    };
    int64_t version = info->status == PAWL_STEP_COMMITTED ? look_into(j, info->step) : 0;
    printf("STEP %" PRId64 " %s %d %" PRId64 "\n", info->step, names[info->status], info->pinned,
           version);
    if (info->status == PAWL_STEP_DAMAGED) {
        printf("NOTE %s step %" PRId64 ": %s\n", j->name, info->step, info->why);
    }
}

static int run_look(job *j) {
    pawl_catalog *catalog;
    pawl_checkpoint *newest;
    pawl_status status = pawl_catalog_open(j->run_path, NULL, &catalog, j->err);
    if (status == PAWL_ENOTFOUND) {
        puts("NEWEST -1");
        return 0;
    }
    if (status != PAWL_OK) {
        note(j, "list", status);
        return 1;
    }
    for (size_t i = 0; i < pawl_catalog_count(catalog); i++) {
        look_at(j, pawl_catalog_get(catalog, i));
    }
    pawl_catalog_free(catalog);
    pawl_checkpoint_info info = {.struct_size = sizeof info, .step = -1};
    status = pawl_checkpoint_open(j->run_path, NULL, &newest, j->err);
    if (status == PAWL_OK) {
        status = pawl_checkpoint_describe(newest, &info, j->err);
        pawl_checkpoint_close(newest);
    } else if (status != PAWL_ENOTFOUND) {
        note(j, "open the newest", status);
    }
    printf("NEWEST %" PRId64 "\n", info.step);
    return 0;
}

static int run_resume(job *j) {
    pawl_run *run;
    weights w;
    int64_t newest;
    weights_make(&w, (int)j->rank, (int)j->world, j->columns);
    pawl_status status = open_run(j, &run);
    if (status != PAWL_OK) {
        note(j, "open", status);
        return 1;
    }
    bool good = restore_newest(j, run, &w, &newest);
    if (good) {
        weights_fill(&w, newest + 1, j->version);
        status = pawl_save(run, w.state, newest + 1, NULL, j->err);
        status = status == PAWL_OK ? pawl_wait(run, 0, NULL, j->err) : status;
        good = status == PAWL_OK;
        if (!good) {
            note(j, "save", status);
        }
    }
    status = pawl_run_close(run, 0, j->err);
    if (good && status != PAWL_OK) {
        note(j, "close", status);
        good = false;
    }
    weights_free(&w);
    if (good) {
        printf("RESUMED %" PRId64 " %" PRId64 "\n", newest, newest + 1);
    }
    return !good;
}

/* ---- noise ----------------------------------------------------------------------------------- */

static int run_noise(job *j) {
    static char bytes[20000];
    char path[4096];
    test_random dice = {.state = (uint64_t)j->seed};
    for (;;) {
        snprintf(path, sizeof path, "%s/noise-%d", j->run_path, (int)random_below(&dice, 9));
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0 || write(fd, bytes, random_below(&dice, sizeof bytes)) < 0 ||
            (random_below(&dice, 6) == 0 && fsync(fd) != 0)) {
            perror(path);
            return 1;
        }
        close(fd);
        if (random_below(&dice, 4) == 0) {
            (void)unlink(path);
        }
        pause_us(random_below(&dice, 60000));
    }
}

/* ---- options --------------------------------------------------------------------------------- */

static bool set(job *j, const char *name, size_t length, const char *value) {
    const struct {
        const char *name;
        const char **text;
        int64_t *number;
    } options[] = {{"run", &j->run_path, NULL},
                   {"marks", &j->marks, NULL},
                   {"launch", &j->launch, NULL},
                   {"end", &j->end, NULL},
                   {"seed", NULL, &j->seed},
                   {"version", NULL, &j->version},
                   {"operations", NULL, &j->operations},
                   {"columns", NULL, &j->columns},
                   {"keep", NULL, &j->keep},
                   {"io", NULL, &j->io},
                   {"rank", NULL, &j->rank},
                   {"world", NULL, &j->world}};
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        if (strlen(options[i].name) == length && memcmp(options[i].name, name, length) == 0) {
            if (options[i].text != NULL) {
                *options[i].text = value;
            } else {
                *options[i].number = strtoll(value, NULL, 10);
            }
            return true;
        }
    }
    return false;
}

int main(int count, char **words) {
    static const struct {
        const char *name;
        int (*run)(job *j);
    } verbs[] = {
        {"work", run_work}, {"look", run_look}, {"resume", run_resume}, {"noise", run_noise}};
    job j = {.run_path = "", .marks = "", .launch = "", .end = "close", .columns = 8, .world = 1};
    for (int i = 2; i < count; i++) {
        const char *equals = strchr(words[i], '=');
        if (equals == NULL || !set(&j, words[i], (size_t)(equals - words[i]), equals + 1)) {
            fprintf(stderr, "trainer: what is %s?\n", words[i]);
            return 2;
        }
    }
    const char *slash = strrchr(j.run_path, '/');
    j.name = slash != NULL ? slash + 1 : j.run_path;
    j.err = pawl_error_new();
    for (size_t i = 0; count > 1 && i < sizeof verbs / sizeof verbs[0]; i++) {
        if (strcmp(words[1], verbs[i].name) == 0) {
            int code = verbs[i].run(&j);
            pawl_error_free(j.err);
            return code;
        }
    }
    fputs("usage: trainer work|look|resume|noise NAME=VALUE...\n", stderr);
    return 2;
}
