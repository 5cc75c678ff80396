/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the steps of a run: which are committed, or why not, and what they hold. */
#include "checkpoint/private.h"
#include "checkpoint/step_scan.h"
#include "presence/presence.h"

#include <stdio.h>
#include <string.h>

struct pawl_catalog {
    arena memory;
    pawl_step_info *steps;
    size_t count;
};

void pawl_catalog_free(pawl_catalog *catalog) {
    if (catalog != NULL) {
        arena_free(&catalog->memory);
        mem_free(catalog);
    }
}

size_t pawl_catalog_count(const pawl_catalog *catalog) {
    return catalog != NULL ? catalog->count : 0;
}

const pawl_step_info *pawl_catalog_get(const pawl_catalog *catalog, size_t i) {
    return i < pawl_catalog_count(catalog) ? &catalog->steps[i] : NULL;
}

typedef struct survey {
    store *store;
    const platform *platform;
    pawl_catalog *catalog;
    step_scan scan;
} survey;

static pawl_status keep_catalog_text(survey *v, const char *text, const char **out,
                                     pawl_error *err) {
    *out = arena_strdup(&v->catalog->memory, text);
    return *out != NULL ? PAWL_OK : error_nomem(err, strlen(text));
}

/* Out of memory and internal errors end the listing; any other failure is a fact about the step. */
static bool is_about_the_step(pawl_status status) {
    return status != PAWL_ENOMEM && status != PAWL_EINTERNAL;
}

static pawl_status describe_damage(survey *v, pawl_step_info *info, const pawl_error *story,
                                   pawl_error *err) {
    char text[2048];
    error_line(text, sizeof(text), story);
    info->status = story->status == PAWL_EPERMISSION ? PAWL_STEP_UNREADABLE : PAWL_STEP_DAMAGED;
    return keep_catalog_text(v, text, &info->why, err);
}

static pawl_status describe_metrics(survey *v, pawl_step_info *info, const manifest *m,
                                    pawl_error *err) {
    CLEANUP(buffer_free) buffer json = {0};
    TRY(manifest_metrics_json(m, &json, err));
    return keep_catalog_text(v, (const char *)json.data, &info->metrics_json, err);
}

/* What was found in the directory of a step. */
typedef struct finding {
    buffer text;
    manifest manifest;
    step_listing listing;
    arena memory; /* of the listing */
    bool present;
    bool changed;       /* removed or saved again meanwhile */
    bool not_directory; /* something else has the name */
} finding;

static void finding_free(finding *f) {
    manifest_free(&f->manifest);
    buffer_free(&f->text);
    arena_free(&f->memory);
}

/* What is so small on an object store is a placeholder. */
static bool lists_manifest(const store *s, const step_listing *listing) {
    uint64_t least = s->traits.objects ? FORMAT_MAX_PLACEHOLDER : 0;
    for (size_t i = 0; i < listing->count; i++) {
        if (strcmp(listing->names[i], NAME_MANIFEST) == 0) {
            return listing->stats[i].type != STORE_DIR_TYPE && listing->stats[i].size >= least;
        }
    }
    return false;
}

/* The manifest is read before the directory is listed: while it stays, its files are there (I5). */
static pawl_status examine_step(survey *v, const char *directory, const pawl_step_info *info,
                                finding *f, pawl_error *err) {
    f->not_directory = step_check_directory(v->store, directory, err) == PAWL_EDAMAGED;
    if (f->not_directory) {
        f->present = true;
        return PAWL_EDAMAGED;
    }
    pawl_status status = step_read_manifest(v->store, info->step, &f->text, &f->manifest, err);
    struct pawl_error story = ERROR_INIT;
    pawl_status listed = step_list(v->store, directory, &f->memory, &f->listing, &story);
    f->present = listed != PAWL_ENOTFOUND;
    if (listed != PAWL_OK) {
        *err = story;
        return listed;
    }
    if (status == PAWL_OK) {
        status = step_check_files(v->store, directory, &f->manifest, &f->listing, err);
    }
    if (status == PAWL_ENOTFOUND) {
        f->changed = lists_manifest(v->store, &f->listing);
    } else if (status != PAWL_OK && is_about_the_step(status)) {
        step_manifest now = step_manifest_now(v->store, directory, &f->text);
        f->changed = now == STEP_MANIFEST_GONE || now == STEP_MANIFEST_OTHER;
    }
    return status;
}

static pawl_status describe_status(survey *v, pawl_step_info *info, const finding *f,
                                   pawl_status status, const pawl_error *story, pawl_error *err) {
    if (f->not_directory) {
        TRY(describe_damage(v, info, story, err));
        info->status = PAWL_STEP_UNFINISHED; /* nothing is lost */
        return PAWL_OK;
    }
    if (status == PAWL_ENOTFOUND) {
        info->status = PAWL_STEP_UNFINISHED;
        return keep_catalog_text(
            v, "no manifest: a save in progress, or what an interrupted one left", &info->why, err);
    }
    if (f->manifest.index_name != NULL) { /* it was read */
        info->entries = f->manifest.entries;
        info->unix_time_ns = f->manifest.unix_time_ns;
        info->world_size = f->manifest.world_size;
        TRY(describe_metrics(v, info, &f->manifest, err));
    }
    if (status == PAWL_OK) {
        info->status = PAWL_STEP_COMMITTED;
        return PAWL_OK;
    }
    return describe_damage(v, info, story, err);
}

/* *marks: there are readers' marks. */
static void sum_files(pawl_step_info *info, const step_listing *listing, bool *marks) {
    *marks = false;
    for (size_t i = 0; i < listing->count; i++) {
        if (listing->stats[i].type != STORE_FILE_TYPE) {
            continue;
        }
        info->files++;
        info->bytes += listing->stats[i].size;
        name_kind kind = name_classify(listing->names[i], NULL);
        info->pinned = info->pinned || kind == NAME_KIND_PINNED;
        *marks = *marks || kind == NAME_KIND_READER;
    }
}

/* *present is false for a step that is gone, *changed true for one that changed meanwhile. */
static pawl_status describe_step_once(survey *v, int64_t step, pawl_step_info *info, bool *present,
                                      bool *changed, pawl_error *err) {
    CLEANUP(finding_free) finding f = {0};
    struct pawl_error story = ERROR_INIT;
    char directory[32];
    bool being_read = false, marks;
    *info = (pawl_step_info){.struct_size = sizeof(*info), .step = step, .metrics_json = "{}"};
    name_step(directory, step);
    pawl_status status = examine_step(v, directory, info, &f, &story);
    *present = f.present;
    *changed = f.changed;
    if (status != PAWL_OK && !is_about_the_step(status)) {
        *err = story;
        return status;
    }
    if (!f.present || f.changed) {
        return PAWL_OK;
    }
    sum_files(info, &f.listing, &marks);
    TRY(describe_status(v, info, &f, status, &story, err));
    if (!marks) {
        return PAWL_OK;
    }
    status = reader_look(v->store, directory, v->platform, 0, NULL, &being_read, &story);
    info->being_read = status == PAWL_OK && being_read;
    return PAWL_OK;
}

static pawl_status describe_step(survey *v, int64_t step, pawl_step_info *info, bool *present,
                                 pawl_error *err) {
    for (;;) {
        bool changed = false;
        TRY(describe_step_once(v, step, info, present, &changed, err));
        if (!changed) {
            return PAWL_OK;
        }
        TRY(step_scan_retry(&v->scan, err));
    }
}

static pawl_status survey_once(survey *v, bool *committed, pawl_error *err) {
    pawl_catalog *catalog = v->catalog;
    *committed = false;
    catalog->count = 0;
    TRY(step_scan_list(&v->scan, err));
    size_t count = v->scan.count;
    catalog->steps = arena_take(&catalog->memory, count * sizeof(*catalog->steps), err);
    if (catalog->steps == NULL) {
        return PAWL_ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        pawl_step_info *info = &catalog->steps[catalog->count];
        bool present;
        TRY(describe_step(v, v->scan.steps[i], info, &present, err));
        catalog->count += present;
        *committed = *committed || (present && info->status == PAWL_STEP_COMMITTED);
    }
    return PAWL_OK;
}

static pawl_status survey_all(survey *v, pawl_error *err) {
    for (;;) {
        bool committed;
        TRY(survey_once(v, &committed, err));
        if (committed || step_scan_confirms_empty(&v->scan)) {
            return PAWL_OK;
        }
        TRY(step_scan_retry(&v->scan, err));
        arena_free(&v->catalog->memory);
    }
}

pawl_status catalog_open(store *s, const platform *os, const pawl_log *log, pawl_catalog **out,
                         pawl_error *err) {
    pawl_catalog *catalog = mem_calloc(1, sizeof(*catalog));
    if (catalog == NULL) {
        return error_nomem(err, sizeof(*catalog));
    }
    survey v = {.store = s, .platform = os, .catalog = catalog, .scan = step_scan_of(s, os)};
    pawl_status status = survey_all(&v, err);
    step_scan_free(&v.scan);
    if (status != PAWL_OK) {
        error_wrap(err, "listing the checkpoints of %s", s->root);
        pawl_catalog_free(catalog);
        return status;
    }
    char root[1024];
    log_write(log, PAWL_LOG_DEBUG, "%s: %zu steps", text_shown(root, sizeof(root), s->root),
              catalog->count);
    *out = catalog;
    return PAWL_OK;
}

/* Of a step without a manifest nothing more is looked at. */
static pawl_status newest_once(survey *v, int64_t *newest, pawl_error *err) {
    *newest = -1;
    TRY(step_scan_list(&v->scan, err));
    for (size_t i = v->scan.count; i > 0 && *newest < 0; i--) {
        pawl_step_info info = {.status = PAWL_STEP_UNFINISHED};
        struct pawl_error story = ERROR_INIT;
        char directory[32];
        bool present = false;
        name_step(directory, v->scan.steps[i - 1]);
        pawl_status status = step_has_manifest(v->store, directory, &present, &story);
        if (status != PAWL_OK && !is_about_the_step(status)) {
            *err = story;
            return status;
        }
        if (present) {
            TRY(describe_step(v, v->scan.steps[i - 1], &info, &present, err));
        }
        *newest = present && info.status == PAWL_STEP_COMMITTED ? info.step : -1;
    }
    return PAWL_OK;
}

pawl_status catalog_newest(store *s, const platform *os, int64_t *out, pawl_error *err) {
    pawl_catalog catalog = {0}; /* memory for what is told of the steps */
    survey v = {.store = s, .platform = os, .catalog = &catalog, .scan = step_scan_of(s, os)};
    pawl_status status = newest_once(&v, out, err);
    while (status == PAWL_OK && *out < 0 && !step_scan_confirms_empty(&v.scan)) {
        status = step_scan_retry(&v.scan, err);
        status = status == PAWL_OK ? newest_once(&v, out, err) : status;
    }
    step_scan_free(&v.scan);
    arena_free(&catalog.memory);
    if (status != PAWL_OK) {
        error_wrap(err, "looking for the newest checkpoint of %s", s->root);
    }
    return status;
}

static bool has_committed(const pawl_catalog *catalog) {
    for (size_t i = 0; i < pawl_catalog_count(catalog); i++) {
        if (catalog->steps[i].status == PAWL_STEP_COMMITTED) {
            return true;
        }
    }
    return false;
}

pawl_status checkpoint_explain_missing(store *s, const platform *os, pawl_error *err) {
    pawl_catalog *catalog = NULL;
    TRY(catalog_open(s, os, NULL, &catalog, err));
    pawl_status status =
        has_committed(catalog) ? PAWL_OK : catalog_explain_missing(s, catalog, err);
    pawl_catalog_free(catalog);
    return status;
}
