/* SPDX-License-Identifier: Apache-2.0 */
/* The checkpoints of a run: every step's directory, and what its manifest says. */
#include "run/checkpoint.h"

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
} survey;

static pawl_status keep_text(survey *v, const char *text, const char **out, pawl_error *err) {
    *out = arena_strdup(&v->catalog->memory, text);
    return *out != NULL ? PAWL_OK : error_nomem(err, strlen(text));
}

/* Defects of ours and an exhausted machine end the survey; anything else is a property
 * of the step. */
static bool is_of_the_step(pawl_status status) {
    return status != PAWL_ENOMEM && status != PAWL_EINTERNAL;
}

static pawl_status describe_damage(survey *v, pawl_step_info *info, const pawl_error *story,
                                   pawl_error *err) {
    char text[2048];
    error_line(text, sizeof(text), story);
    info->status = PAWL_STEP_DAMAGED;
    return keep_text(v, text, &info->why, err);
}

static pawl_status describe_metrics(survey *v, pawl_step_info *info, const manifest *m,
                                    pawl_error *err) {
    CLEANUP(buffer_free) buffer json = {0};
    TRY(buffer_append(&json, "{", 1, err));
    for (size_t i = 0; i < m->metric_count; i++) {
        const manifest_value *metric = &m->metrics[i];
        TRY(buffer_printf(&json, err, i > 0 ? ", " : ""));
        TRY(buffer_json_string(&json, metric->name, strlen(metric->name), err));
        TRY(buffer_printf(&json, err, ": %s", metric->json));
    }
    TRY(buffer_append(&json, "}", 1, err));
    return keep_text(v, (const char *)json.data, &info->metrics_json, err);
}

static pawl_status describe_manifest(survey *v, pawl_step_info *info, const char *directory,
                                     const step_listing *listing, pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    CLEANUP(buffer_free) buffer text = {0};
    CLEANUP(manifest_free) manifest m = {0};
    pawl_status status = step_read_manifest(v->store, info->step, &text, &m, &story);
    if (status == PAWL_ENOTFOUND) {
        info->status = PAWL_STEP_UNFINISHED;
        return keep_text(v, "no manifest: a save in progress, or what an interrupted one left",
                         &info->why, err);
    }
    if (status == PAWL_OK) {
        info->entries = m.entries;
        info->unix_time_ns = m.unix_time_ns;
        info->world_size = m.world_size;
        TRY(describe_metrics(v, info, &m, err));
        status = step_check_files(v->store, directory, &m, listing, &story);
    }
    if (status == PAWL_OK) {
        info->status = PAWL_STEP_COMMITTED;
        return PAWL_OK;
    }
    if (!is_of_the_step(status)) {
        *err = story;
        return status;
    }
    return describe_damage(v, info, &story, err);
}

static void sum_files(pawl_step_info *info, const step_listing *listing) {
    for (size_t i = 0; i < listing->count; i++) {
        if (listing->stats[i].type != STORE_FILE_TYPE) {
            continue;
        }
        info->files++;
        info->bytes += listing->stats[i].size;
        if (name_classify(listing->names[i], NULL) == NAME_KIND_PINNED) {
            info->pinned = 1;
        }
    }
}

/* *present is false for a step that was removed meanwhile. */
static pawl_status describe_step(survey *v, int64_t step, pawl_step_info *info, bool *present,
                                 pawl_error *err) {
    CLEANUP(arena_free) arena memory = {0};
    struct pawl_error story = ERROR_INIT;
    char directory[32];
    step_listing listing;
    bool being_read = false;
    *info = (pawl_step_info){.step = step, .metrics_json = "{}"};
    name_step(directory, step);
    pawl_status status = step_list(v->store, directory, &memory, &listing, &story);
    *present = status != PAWL_ENOTFOUND;
    if (!*present) {
        return PAWL_OK;
    }
    if (status != PAWL_OK) {
        if (!is_of_the_step(status)) {
            *err = story;
            return status;
        }
        return describe_damage(v, info, &story, err);
    }
    sum_files(info, &listing);
    TRY(describe_manifest(v, info, directory, &listing, err));
    status = reader_look(v->store, directory, v->platform, 0, NULL, &being_read, &story);
    info->being_read = status == PAWL_OK && being_read;
    return PAWL_OK;
}

static pawl_status survey_all(survey *v, pawl_error *err) {
    CLEANUP(arena_free) arena memory = {0};
    int64_t *steps;
    size_t count;
    TRY(step_numbers(v->store, &memory, &steps, &count, err));
    pawl_catalog *catalog = v->catalog;
    catalog->steps = arena_alloc(&catalog->memory, count * sizeof(*catalog->steps));
    if (catalog->steps == NULL) {
        return error_nomem(err, count * sizeof(*catalog->steps));
    }
    for (size_t i = 0; i < count; i++) {
        bool present;
        TRY(describe_step(v, steps[i], &catalog->steps[catalog->count], &present, err));
        catalog->count += present;
    }
    return PAWL_OK;
}

pawl_status catalog_open(store *s, const platform *os, const pawl_log *log, pawl_catalog **out,
                         pawl_error *err) {
    pawl_catalog *catalog = mem_calloc(1, sizeof(*catalog));
    if (catalog == NULL) {
        return error_nomem(err, sizeof(*catalog));
    }
    survey v = {.store = s, .platform = os, .catalog = catalog};
    pawl_status status = survey_all(&v, err);
    if (status != PAWL_OK) {
        error_wrap(err, "listing the checkpoints of %s", s->root);
        pawl_catalog_free(catalog);
        return status;
    }
    log_write(log, PAWL_LOG_DEBUG, "%s: %zu steps", s->root, catalog->count);
    *out = catalog;
    return PAWL_OK;
}
