/* SPDX-License-Identifier: Apache-2.0 */
/* Examines a path: one function per question, each telling what it found. */
#include "doctor/doctor.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* What the smallest checkpoint takes, and a few more. */
#define LEAST_BYTES  65536u
#define LEAST_INODES 16u

typedef struct examination {
    const char *path; /* as given */
    uint64_t need_bytes;
    const platform *os;
    doctor_each each;
    void *context;
    pawl_severity worst;
} examination;

static void tell(examination *x, const char *id, pawl_severity severity, const char *next,
                 const char *format, ...) PRINTF_LIKE(5, 6);

static void tell(examination *x, const char *id, pawl_severity severity, const char *next,
                 const char *format, ...) {
    char text[1536];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    x->worst = severity > x->worst ? severity : x->worst;
    if (x->each != NULL) {
        const pawl_finding finding = {.id = id, .severity = severity, .text = text, .next = next};
        x->each(x->context, &finding);
    }
}

/* An error of the library as a finding: what, where, expected, found, in one sentence. */
static void tell_error(examination *x, const char *id, const pawl_error *story) {
    char text[1536];
    size_t at = (size_t)snprintf(text, sizeof text, "%.*s", 500, story->attempt);
    const struct {
        const char *word, *part;
    } parts[] = {{"at", story->path},
                 {"expected", story->expected},
                 {"found", story->found},
                 {"the system says", story->system}};
    for (size_t i = 0; i < ARRAY_LENGTH(parts) && at < sizeof text; i++) {
        if (parts[i].part[0] != '\0') {
            at += (size_t)snprintf(text + at, sizeof text - at, "; %s %.*s", parts[i].word, 300,
                                   parts[i].part);
        }
    }
    tell(x, id, PAWL_SEVERITY_ERROR, story->next[0] != '\0' ? story->next : NULL, "%s", text);
}

/* ---- the path itself ------------------------------------------------------------------------ */

static const char *id_of_path_error(const pawl_error *story) {
    switch (story->status) {
    case PAWL_EPERMISSION:
        return story->system_errno == EROFS ? "P03" : "P02";
    case PAWL_ENOSPACE:
        return "P03";
    case PAWL_ENOTFOUND:
        return "P01";
    default:
        return "P08";
    }
}

/* The nearest directory above `path` that exists, and what of the path a save would
 * create in it. */
static pawl_status open_parent(const char *path, store **out, const char **rest, pawl_error *err) {
    AUTOFREE char *parent = mem_strdup(path);
    if (parent == NULL) {
        return error_nomem(err, strlen(path) + 1);
    }
    for (;;) {
        char *slash = strrchr(parent, '/');
        *rest = slash == NULL ? path : path + (slash - parent) + 1;
        if (slash == NULL || slash == parent) {
            return run_path_open(slash == NULL ? "." : "/", false, out, err);
        }
        *slash = '\0';
        pawl_status status = run_path_open(parent, false, out, err);
        if (status != PAWL_ENOTFOUND) {
            return status;
        }
    }
}

/* Opens the directory above a path that does not exist, and says what a save would make. */
static pawl_status examine_missing(examination *x, store **s, const char **rest, pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    pawl_status status = open_parent(x->path, s, rest, &story);
    if (status == PAWL_OK) {
        tell(x, "P01", PAWL_SEVERITY_NOTE, NULL,
             "%s does not exist yet; opening the run creates it, below %s", x->path, (*s)->root);
    } else if (status != PAWL_ENOTFOUND) { /* without a working directory nothing is found */
        *err = story;
    }
    return status;
}

/* Opens what is there of the path. *whole: the path itself exists. NULL: it was
 * explained why not. */
static store *examine_path(examination *x, bool *whole) {
    struct pawl_error story = ERROR_INIT;
    store *s = NULL;
    const char *rest = "";
    pawl_status status = run_path_open(x->path, false, &s, &story);
    *whole = status == PAWL_OK;
    if (status == PAWL_ENOTFOUND) {
        status = examine_missing(x, &s, &rest, &story);
    }
    if (status != PAWL_OK) {
        tell_error(x, id_of_path_error(&story), &story);
        return NULL;
    }
    if (x->path[0] != '/' && strstr(x->path, "://") == NULL) {
        tell(x, "P04", PAWL_SEVERITY_NOTE, "give the absolute path when jobs start elsewhere",
             "the relative path %s stands for %s%s%s", x->path, s->root, *whole ? "" : "/", rest);
    }
    return s;
}

/* ---- can it be written to? ------------------------------------------------------------------ */

static pawl_status write_probe(store *s, const char *name, pawl_error *err) {
    static const char text[] = "written by pawl doctor; safe to remove\n";
    CLEANUP(store_close_pointer) store_file *file = NULL;
    TRY(store_open(s, name, STORE_CREATE, &file, err));
    TRY(store_write(file, 0, text, sizeof text - 1, err));
    return store_sync(file, err);
}

static void examine_writing(examination *x, store *s) {
    struct pawl_error story = ERROR_INIT;
    struct pawl_error ignored = ERROR_INIT;
    uint64_t number = 0;
    char name[48];
    if (x->os->random_bytes(x->os->context, &number, sizeof number, &story) != PAWL_OK) {
        return;
    }
    snprintf(name, sizeof name, ".pawl-doctor-%016llx", (unsigned long long)number);
    pawl_status status = write_probe(s, name, &story);
    bool made = status == PAWL_OK || store_unlink(s, name, &ignored) == PAWL_OK;
    if (status == PAWL_OK) {
        status = store_unlink(s, name, &story);
    }
    if (status == PAWL_OK) {
        status = store_sync_dir(s, "", &story);
    }
    if (status == PAWL_OK) {
        tell(x, "ok", PAWL_SEVERITY_NOTE, NULL, "files can be created, synced and removed in %s",
             s->root);
        return;
    }
    struct pawl_error explained = ERROR_INIT;
    if (!made && story.status == PAWL_EPERMISSION && story.system_errno != EROFS) {
        run_path_explain_access(s->root, &explained);
        tell_error(x, "P02", &explained);
        return;
    }
    tell_error(x, id_of_path_error(&story), &story);
}

/* ---- is there room? ------------------------------------------------------------------------- */

static uint64_t newest_bytes(examination *x, store *s) {
    struct pawl_error ignored = ERROR_INIT;
    pawl_catalog *catalog = NULL;
    const pawl_log silent = {0};
    uint64_t bytes = 0;
    if (catalog_open(s, x->os, &silent, &catalog, &ignored) != PAWL_OK) {
        return 0;
    }
    for (size_t i = 0; i < pawl_catalog_count(catalog); i++) {
        const pawl_step_info *info = pawl_catalog_get(catalog, i);
        bytes = info->status == PAWL_STEP_COMMITTED ? info->bytes : bytes;
    }
    pawl_catalog_free(catalog);
    return bytes;
}

static void examine_need(examination *x, const store_space *space, uint64_t need) {
    char need_text[32];
    char free_text[32];
    char lack[32];
    char next[128];
    text_bytes(need_text, need);
    text_bytes(free_text, space->free_bytes);
    if (need > space->free_bytes) {
        snprintf(next, sizeof next, "free %s, or keep fewer checkpoints",
                 text_bytes(lack, need - space->free_bytes));
        tell(x, "S06", PAWL_SEVERITY_ERROR, next,
             "a checkpoint needs %s, but %s are free on the filesystem at %s (%s)", need_text,
             free_text, space->mount_point, space->filesystem);
    } else if (need > space->max_file_bytes) {
        tell(
            x, "S06", PAWL_SEVERITY_ERROR, "raise the limit: ulimit -f unlimited",
            "a checkpoint needs %s, but a file may have at most %s (ulimit -f, or the limit of %s)",
            need_text, text_bytes(lack, space->max_file_bytes), space->filesystem);
    } else if (need > 0 && space->free_bytes / 2 < need) {
        tell(x, "S06", PAWL_SEVERITY_WARNING, "free some space, or keep fewer checkpoints",
             "%s are free at %s (%s): room for one more checkpoint of %s, not for two", free_text,
             space->mount_point, space->filesystem, need_text);
    } else {
        tell(x, "ok", PAWL_SEVERITY_NOTE, NULL, "%s are free at %s (%s)", free_text,
             space->mount_point, space->filesystem);
    }
}

/* False when not even a small file can be created: trying it would only say so again. */
static bool examine_nothing_left(examination *x, const store_space *space) {
    char free_text[32];
    if (space->read_only) {
        tell(x, "P03", PAWL_SEVERITY_ERROR, "remount it read-write, or save elsewhere",
             "the filesystem at %s (%s) is mounted read-only (%s)", space->mount_point,
             space->filesystem, space->mount_options);
        return false;
    }
    if (space->free_inodes < LEAST_INODES) {
        tell(x, "P03", PAWL_SEVERITY_ERROR, "remove files there, or save elsewhere",
             "the filesystem at %s (%s) has %llu free inodes, fewer than the %u that checkpoints "
             "need",
             space->mount_point, space->filesystem, (unsigned long long)space->free_inodes,
             LEAST_INODES);
    }
    if (space->free_bytes < LEAST_BYTES) {
        tell(x, "P03", PAWL_SEVERITY_ERROR, "free some space there, or save elsewhere",
             "the filesystem at %s (%s) has %s free, less than the smallest checkpoint takes",
             space->mount_point, space->filesystem, text_bytes(free_text, space->free_bytes));
    }
    return space->free_inodes > 0 && space->free_bytes > 0;
}

/* Whether it makes sense to try to write. */
static bool examine_room(examination *x, store *s, bool whole) {
    struct pawl_error story = ERROR_INIT;
    store_space space;
    if (store_space_of(s, &space, &story) != PAWL_OK) {
        tell_error(x, "P03", &story);
        return true;
    }
    bool some = examine_nothing_left(x, &space);
    if (some && space.free_bytes >= LEAST_BYTES) {
        uint64_t need = x->need_bytes == 0 && whole ? newest_bytes(x, s) : x->need_bytes;
        examine_need(x, &space, need);
    }
    return some;
}

/* ---- is it someone else's? ------------------------------------------------------------------ */

/* ", heartbeat 3 s ago", where the storage tells times. */
static const char *heartbeat_words(char out[48], const owner_view *owner) {
    out[0] = '\0';
    if (owner->heartbeat_age_s >= 0) {
        snprintf(out, 48, ", heartbeat %.0f s ago", owner->heartbeat_age_s);
    }
    return out;
}

static void tell_owner(examination *x, const owner_view *owner) {
    const char *host = owner->who.host;
    long long pid = (long long)owner->who.pid;
    char heartbeat[48];
    heartbeat_words(heartbeat, owner);
    if (owner->alive == PROCESS_DEAD) {
        tell(x, "ok", PAWL_SEVERITY_NOTE, NULL,
             "the last writer (host %s, pid %lld) is gone without closing; opening the run takes "
             "over",
             host, pid);
    } else if (owner->alive == PROCESS_ALIVE) {
        tell(x, "S10", PAWL_SEVERITY_ERROR, "stop that process, or save to another directory",
             "another process writes to this run: host %s, pid %lld, attempt %s%s", host, pid,
             owner->attempt, heartbeat);
    } else {
        tell(
            x, "S10", PAWL_SEVERITY_WARNING,
            "opening the run watches its heartbeat, and takes over once it stood still for a lease",
            "a process of another host may be writing to this run: host %s, pid %lld, attempt "
            "%s%s, lease %.0f s",
            host, pid, owner->attempt, heartbeat, owner->lease_s);
    }
}

static void examine_owner(examination *x, store *s) {
    struct pawl_error story = ERROR_INIT;
    owner_view owner;
    if (owner_look(s, x->os, &owner, &story) != PAWL_OK) {
        tell_error(x, id_of_path_error(&story), &story);
    } else if (!owner.present) {
        tell(x, "ok", PAWL_SEVERITY_NOTE, NULL, "no other process writes to this run");
    } else if (!owner.readable) {
        tell(x, "S10", PAWL_SEVERITY_WARNING, "look again in a few seconds",
             "an owner record is just being written, or was left unfinished by a crash");
    } else {
        tell_owner(x, &owner);
    }
}

pawl_status doctor_examine(const char *path, uint64_t need_bytes, const platform *os,
                           doctor_each each, void *context, pawl_severity *worst, pawl_error *err) {
    examination x = {.path = path,
                     .need_bytes = need_bytes,
                     .os = os,
                     .each = each,
                     .context = context,
                     .worst = PAWL_SEVERITY_NOTE};
    bool whole;
    if (path == NULL) {
        return error_set(err, PAWL_EUSAGE, "examine path: the path is a null pointer");
    }
    store *s = examine_path(&x, &whole);
    if (s != NULL) {
        if (examine_room(&x, s, whole)) {
            examine_writing(&x, s);
        }
        if (whole) {
            examine_owner(&x, s);
        }
        store_destroy(s);
    }
    *worst = x.worst;
    return PAWL_OK;
}
