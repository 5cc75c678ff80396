/* SPDX-License-Identifier: Apache-2.0 */
/* R09: explains what is in a directory that has no checkpoint to restore. */
#include "checkpoint/private.h"
#include "format/presence_record.h"
#include "path/path.h"

#include <stdio.h>
#include <string.h>

#define MAX_LISTED  100u /* names looked at, and subdirectories looked into */
#define SHOWN_STEPS 5u
#define SHOWN_NAMES 3u
#define SHOWN_RUNS  8u

/* ---- there are steps, but none is committed ---- */

static pawl_status only_unfinished(store *s, const pawl_catalog *catalog, pawl_error *err) {
    size_t count = pawl_catalog_count(catalog);
    size_t damaged = 0;
    char text[256] = "";
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        const pawl_step_info *info = pawl_catalog_get(catalog, i);
        damaged += info->status != PAWL_STEP_UNFINISHED; /* or unreadable: none is committed */
        if (i < SHOWN_STEPS) {
            at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%lld", i > 0 ? ", " : "",
                                   (long long)info->step);
        }
    }
    error_set(err, damaged > 0 ? PAWL_EDAMAGED : PAWL_ENOTFOUND,
              "there is no intact checkpoint in this run");
    error_path(err, "%s", s->root);
    error_found(err, "%zu unfinished and %zu damaged or unreadable steps: %s%s", count - damaged,
                damaged, text, count > SHOWN_STEPS ? ", ..." : "");
    error_next(err,
               damaged > 0
                   ? "see why with: pawl ls %s"
                   : "training starts from the beginning; look at what is left with: pawl ls %s",
               s->root);
    return err->status;
}

/* ---- there are no steps ---- */

static pawl_status step_itself(store *s, pawl_error *err) {
    const char *slash = strrchr(s->root, '/');
    int length = slash == NULL || slash == s->root ? 1 : (int)(slash - s->root);
    error_set(err, PAWL_ENOTFOUND, "this is the directory of one step, not of a run");
    error_path(err, "%s", s->root);
    error_expected(err, "the directory that holds the step-... directories");
    error_found(err, "the files of one checkpoint");
    error_next(err, "name the run: pawl ls %.*s", length, s->root);
    return PAWL_ENOTFOUND;
}

static bool is_directory(store *s, const char *name) {
    store_stat stat;
    struct pawl_error ignored = ERROR_INIT;
    return store_stat_path(s, name, &stat, &ignored) == PAWL_OK && stat.type == STORE_DIR_TYPE;
}

/* What the names in a directory reveal. */
typedef struct inside {
    bool steps;
    const tool_checkpoint *other;
} inside;

static pawl_status note_special_name(void *context, const store_listed *found, pawl_error *err) {
    const char *name = found->name;
    (void)err;
    int64_t step;
    inside *in = context;
    in->steps = in->steps || name_step_parse(name, &step) ||
                strcmp(name, NAME_OWNER_OBJECT) == 0; /* of a run on an object store */
    in->other = in->other != NULL ? in->other : tool_checkpoint_by_unique_name(name);
    return PAWL_OK;
}

static inside list_special_names(store *s, const char *directory) {
    struct pawl_error ignored = ERROR_INIT;
    inside in = {0};
    const inside nothing = {0};
    return store_list(s, directory, note_special_name, &in, &ignored) == PAWL_OK ? in : nothing;
}

/* A count of names, and the first few. */
typedef struct named {
    size_t count;
    const char *first[SHOWN_RUNS];
} named;

static void named_add(named *n, const char *name) {
    if (n->count < SHOWN_RUNS) {
        n->first[n->count] = name;
    }
    n->count++;
}

/* "7, 8, 9, ..." */
static const char *named_text(const named *n, char out[400]) {
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < n->count && i < SHOWN_RUNS; i++) {
        at += (size_t)snprintf(out + at, 400 - at, "%s%.40s", i > 0 ? ", " : "", n->first[i]);
    }
    (void)snprintf(out + at, 400 - at, "%s", n->count > SHOWN_RUNS ? ", ..." : "");
    return out;
}

static pawl_status parent_of_runs(store *s, const named *runs, pawl_error *err) {
    char text[400];
    const char *run = runs->first[0];
    error_set(err, PAWL_ENOTFOUND,
              runs->count == 1 ? "there is no checkpoint here, but there is in a directory below"
                               : "there is no checkpoint here, but there are in directories below");
    error_path(err, "%s", s->root);
    error_expected(err, "the directory that holds the step-... directories");
    error_found(err, "%zu %s below it: %s", runs->count, runs->count == 1 ? "run" : "runs",
                named_text(runs, text));
    error_next(err, "name one of them, such as %s/%s. See them all with: pawl ls %s", s->root, run,
               s->root);
    if (runs->count == 1) {
        error_next(err, "did you mean %s/%s? See it with: pawl ls %s/%s", s->root, run, s->root,
                   run);
    }
    return PAWL_ENOTFOUND;
}

static pawl_status parent_of_others(store *s, const named *directories, const tool_checkpoint *r,
                                    pawl_error *err) {
    char text[400];
    error_set(err, PAWL_ENOTFOUND, "there is no checkpoint of pawl here, but below it %s", r->what);
    error_path(err, "%s", s->root);
    error_expected(err, "the directory of a run, which holds step-... directories");
    error_found(err, "%zu %s: %s", directories->count,
                directories->count == 1 ? "such directory" : "such directories",
                named_text(directories, text));
    error_next(err, "%s", r->next);
    if (r->opens) {
        error_next(err, "look at one, as with: pawl show %s/%s. See them all with: pawl ls %s",
                   s->root, directories->first[0], s->root);
    }
    return PAWL_ENOTFOUND;
}

static pawl_status other_tool(store *s, const char *name, const tool_checkpoint *r,
                              pawl_error *err) {
    error_set(err, PAWL_ENOTFOUND, "there is no checkpoint of pawl here, but %s", r->what);
    error_path(err, "%s", s->root);
    error_expected(err, "the directory of a run, which holds step-... directories");
    error_found(err, "%s", name);
    error_next(err, "%s", r->next);
    return PAWL_ENOTFOUND;
}

static pawl_status nothing_yet(store *s, const char *what, pawl_error *err) {
    error_set(err, PAWL_ENOTFOUND, "there is no checkpoint here");
    error_path(err, "%s", s->root);
    error_found(err, "%s", what);
    error_next(err, "training starts from the beginning: the first save makes the first "
                    "checkpoint; check the path if there should be one");
    return PAWL_ENOTFOUND;
}

static pawl_status other_files(store *s, char **names, size_t count, pawl_error *err) {
    char text[400] = "";
    size_t at = 0;
    for (size_t i = 0; i < count && i < SHOWN_NAMES; i++) {
        at +=
            (size_t)snprintf(text + at, sizeof(text) - at, "%s%.100s", i > 0 ? ", " : "", names[i]);
    }
    error_set(err, PAWL_ENOTFOUND, "there is no checkpoint here");
    error_path(err, "%s", s->root);
    error_expected(err, "the directory of a run, which holds step-... directories");
    error_found(err, "%zu other %s: %s%s", count, count == 1 ? "name" : "names", text,
                count > SHOWN_NAMES ? ", ..." : "");
    error_next(err, "check the path; a new run should begin in a directory of its own");
    return PAWL_ENOTFOUND;
}

static bool is_own_file(const char *name) {
    name_kind kind = name_classify(name, NULL);
    return kind == NAME_KIND_MANIFEST || kind == NAME_KIND_DATA || kind == NAME_KIND_INDEX;
}

/* What visitors, probes or a doctor left, in a run or not. */
static bool is_left_behind(const char *name) {
    char tag[FORMAT_TAG_CHARS];
    return name_root_classify(name, tag) != NAME_ROOT_FOREIGN;
}

typedef struct evidence {
    bool own_files; /* of a step's directory */
    size_t of_a_run, left_behind;
    named runs, others; /* directories that hold those */
    const char *other_name;
    const tool_checkpoint *other, *other_below; /* of other tools: here, one level below */
} evidence;

static void examine_directory(store *s, const char *name, evidence *e) {
    inside in = list_special_names(s, name);
    if (in.steps) {
        named_add(&e->runs, name);
    } else if (in.other != NULL && (e->other_below == NULL || e->other_below == in.other)) {
        named_add(&e->others, name);
        e->other_below = in.other;
    }
}

static evidence examine_names(store *s, char **names, size_t count) {
    evidence e = {0};
    size_t looked_at = 0;
    for (size_t i = 0; i < count; i++) {
        /* There may be thousands of a run's, which must not use up MAX_LISTED; steps are among
         * them, as one may have appeared since the listing. */
        if (name_makes_run(names[i]) ||
            (s->traits.objects && strcmp(names[i], NAME_OWNER_OBJECT) == 0)) {
            e.of_a_run++;
            continue;
        }
        if (is_left_behind(names[i])) {
            e.left_behind++;
            continue;
        }
        if (looked_at++ == MAX_LISTED) {
            break;
        }
        bool directory = is_directory(s, names[i]);
        const tool_checkpoint *r = tool_checkpoint_by_name(names[i], directory);
        e.own_files = e.own_files || is_own_file(names[i]);
        if (directory) {
            examine_directory(s, names[i], &e);
        }
        if (r != NULL && e.other == NULL) {
            e.other = r;
            e.other_name = names[i];
        }
    }
    return e;
}

static pawl_status explain_names(store *s, char **names, size_t count, pawl_error *err) {
    evidence e = examine_names(s, names, count);
    if (e.own_files) {
        return step_itself(s, err);
    }
    if (e.runs.count > 0) {
        return parent_of_runs(s, &e.runs, err);
    }
    if (e.other != NULL) {
        return other_tool(s, e.other_name, e.other, err);
    }
    if (e.others.count > 0) {
        return parent_of_others(s, &e.others, e.other_below, err);
    }
    if (count == 0) {
        return nothing_yet(s, "an empty directory", err);
    }
    if (e.left_behind == count) {
        return nothing_yet(s, "only files that a restore or a doctor left behind", err);
    }
    if (e.of_a_run + e.left_behind == count) {
        return nothing_yet(s, "a run that has no checkpoint yet", err);
    }
    return other_files(s, names, count, err);
}

pawl_status catalog_explain_missing(store *s, const pawl_catalog *catalog, pawl_error *err) {
    CLEANUP(arena_free) arena memory = {0};
    char **names;
    size_t count;
    if (catalog != NULL && pawl_catalog_count(catalog) > 0) {
        return only_unfinished(s, catalog, err);
    }
    TRY(store_names(s, "", FORMAT_MAX_NAMES, &memory, &names, &count, err));
    return explain_names(s, names, count, err);
}
