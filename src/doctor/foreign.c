/* SPDX-License-Identifier: Apache-2.0 */
/* The path is a checkpoint of another tool, or was to be one: is it whole (R08, R09)? */
#include "doctor/examination.h"
#include "format/format.h"
#include "path/path.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Opening one of its steps would leave a mark there for a moment. */
static bool is_run(const examination *x) {
    static const pawl_log silent = {0};
    struct pawl_error ignored = ERROR_INIT;
    CLEANUP(store_destroy_pointer) store *s = NULL;
    pawl_catalog *catalog = NULL;
    if (storage_open_path(x->storage, x->path, false, &s, &ignored) != PAWL_OK ||
        catalog_open(s, x->os, &silent, &catalog, &ignored) != PAWL_OK) {
        return false;
    }
    bool has_steps = pawl_catalog_count(catalog) > 0;
    pawl_catalog_free(catalog);
    return has_steps;
}

/* ---- what cannot be opened ------------------------------------------------------------------ */

static pawl_status note_file_of_step(void *context, const store_listed *found, pawl_error *err) {
    char tag[FORMAT_TAG_CHARS];
    bool *of_step = context;
    name_kind kind = name_classify(found->name, tag);
    (void)err;
    *of_step = *of_step || kind == NAME_KIND_DATA || kind == NAME_KIND_INDEX;
    return PAWL_OK;
}

/* A run that begins in the directory of a step goes with that step when retention removes it. */
static bool tell_of_step(examination *x, const pawl_error *story) {
    struct pawl_error ignored = ERROR_INIT;
    CLEANUP(store_destroy_pointer) store *s = NULL;
    bool of_step = false;
    if (storage_open_path(x->storage, x->path, false, &s, &ignored) != PAWL_OK ||
        store_list(s, "", note_file_of_step, &of_step, &ignored) != PAWL_OK || !of_step) {
        return false;
    }
    doctor_tell_error(x, "P08", story);
    return true;
}

typedef struct prefix_files {
    const char *name;
    size_t length, data;
} prefix_files;

static pawl_status note_data_of_prefix(void *context, const store_listed *found, pawl_error *err) {
    prefix_files *p = context;
    (void)err;
    p->data += strncmp(found->name, p->name, p->length) == 0 &&
               strncmp(found->name + p->length, ".data-", strlen(".data-")) == 0;
    return PAWL_OK;
}

/* TensorFlow's data files of that prefix are there, and no index. */
static bool tell_unfinished_prefix(examination *x) {
    struct pawl_error ignored = ERROR_INIT;
    CLEANUP(store_destroy_pointer) store *s = NULL;
    struct stat found;
    char word[1024];
    char next[1200];
    AUTOFREE char *parent = mem_strdup(x->path);
    char *slash = parent != NULL ? strrchr(parent, '/') : NULL;
    if (parent == NULL || !storage_is_local(x->storage) || stat(x->path, &found) == 0) {
        return false;
    }
    prefix_files p = {.name = slash != NULL ? x->path + (slash - parent) + 1 : x->path};
    p.length = strlen(p.name);
    if (slash != NULL) {
        slash[slash == parent] = '\0';
    }
    if (p.length == 0 || path_open(slash != NULL ? parent : ".", false, &s, &ignored) != PAWL_OK ||
        store_list(s, "", note_data_of_prefix, &p, &ignored) != PAWL_OK || p.data == 0) {
        return false;
    }
    (void)snprintf(next, sizeof next,
                   "look whether a job is still writing it; else remove it: rm %s.data-*",
                   doctor_word(word, x->path));
    doctor_evidence(x, "%zu data file%s, no %s.index", p.data, p.data == 1 ? "" : "s", p.name);
    doctor_tell(x, "R09", PAWL_SEVERITY_WARNING, next,
                "%s (TensorFlow) is unfinished: its .index is missing, which is written last",
                x->path);
    return true;
}

/* Else the path itself is what may not be looked at. */
static bool may_list(const examination *x) {
    struct pawl_error ignored = ERROR_INIT;
    CLEANUP(store_destroy_pointer) store *s = NULL;
    bool any = false;
    return storage_open_path(x->storage, x->path, false, &s, &ignored) == PAWL_OK &&
           store_list(s, "", note_file_of_step, &any, &ignored) == PAWL_OK;
}

/* What is there cannot be opened. True: a finding says why, of a checkpoint. False: that is to be
 * told of the path, or of a run. */
static bool tell_broken(examination *x, const pawl_error *story) {
    struct stat found;
    char index[4096];
    bool there = stat(x->path, &found) == 0;
    bool file = there && S_ISREG(found.st_mode);
    (void)snprintf(index, sizeof index, "%s.index", x->path); /* TensorFlow's prefix */
    switch (story->status) {
    case PAWL_EDAMAGED:
    case PAWL_ELIMIT:
    case PAWL_EUNSUPPORTED:
        if (!there && stat(index, &found) != 0) {
            return false;
        }
        doctor_tell_error(x, "R08", story);
        return true;
    case PAWL_EPERMISSION:
    case PAWL_ENOMEM:
        if (!file && !may_list(x)) {
            return false;
        }
        return doctor_tell_unread(x, "this checkpoint", story);
    case PAWL_ENOTFOUND:
    case PAWL_EUSAGE:
        if (file && tool_checkpoint_by_name(x->path, false) != NULL) {
            doctor_tell_error(x, "R08", story);
            return true;
        }
        return tell_of_step(x, story) || tell_unfinished_prefix(x);
    default:
        return false;
    }
}

/* What else is there, if the path is a directory. */
static void look_below(examination *x) {
    struct pawl_error ignored = ERROR_INIT;
    CLEANUP(store_destroy_pointer) store *s = NULL;
    if (storage_open_path(x->storage, x->path, false, &s, &ignored) == PAWL_OK) {
        doctor_examine_below(x, s);
    }
}

void doctor_find_foreign(examination *x) {
    struct pawl_error story = ERROR_INIT;
    pawl_checkpoint *c = NULL;
    if (is_run(x)) {
        return;
    }
    if (x->asked->open(x->path, x->storage, CHECKPOINT_NEWEST, &c, &story) != PAWL_OK) {
        const char *part = x->part;
        x->part = "checkpoint";
        x->broken = tell_broken(x, &story);
        if (x->broken) {
            look_below(x);
        }
        x->part = x->broken ? x->part : part;
        return;
    }
    if (checkpoint_step(c) >= 0) {
        pawl_checkpoint_close(c);
    } else {
        x->foreign = c;
    }
}

/* ---- the checkpoint itself, and what lies beside it ------------------------------------------ */

static void tell_foreign(examination *x) {
    pawl_checkpoint_info info;
    char word[1024];
    char bytes[32];
    char done[32];
    checkpoint_describe(x->foreign, &info);
    x->last_unix_ns = info.unix_time_ns;
    x->newest_bytes = info.data_bytes;
    doctor_verdict v = doctor_verify(x, x->foreign, checkpoint_label(x->foreign),
                                     PAWL_SEVERITY_ERROR, doctor_verify_deadline(x));
    if (v.unread || x->stopped) {
        return;
    }
    if (v.damaged) {
        doctor_command(x, "pawl verify %s", doctor_word(word, x->path));
        doctor_tell(x, "R08", PAWL_SEVERITY_ERROR,
                    "restore another checkpoint; 'pawl verify' lists all that is damaged",
                    "%s (%s, %s) is not safe to restore", info.path, info.format,
                    text_bytes(bytes, info.data_bytes));
    } else if (v.finished) {
        doctor_tell(
            x, "ok", PAWL_SEVERITY_NOTE, NULL, "%s (%s, %s, %llu %s) is whole%s%s", info.path,
            info.format, text_bytes(bytes, info.data_bytes), (unsigned long long)info.entries,
            text_noun(info.entries, "entry", "entries"), v.unverified != NULL ? ": " : "",
            v.unverified != NULL ? v.unverified : ", and all of it is as its checksums say");
    } else {
        doctor_command(x, "pawl verify %s", doctor_word(word, x->path));
        doctor_tell(x, "ok", PAWL_SEVERITY_NOTE, "'pawl verify' reads all of it",
                    "%s (%s, %s, %llu %s): no damage in the %s that were read", info.path,
                    info.format, text_bytes(bytes, info.data_bytes),
                    (unsigned long long)info.entries, text_noun(info.entries, "entry", "entries"),
                    text_bytes(done, v.done_bytes));
    }
}

void doctor_examine_foreign(examination *x) {
    tell_foreign(x);
    look_below(x);
}
