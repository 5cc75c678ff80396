/* SPDX-License-Identifier: Apache-2.0 */
/* Fills a save's manifest, hyperparameters included, before anything is written. */
#include "run/save.h"

#include <stdlib.h>
#include <string.h>

static pawl_status value_json(const state_entry *entry, buffer *out, pawl_error *err) {
    int64_t integer;
    double number;
    switch (entry->kind) {
    case PAWL_KIND_BOOL:
        return buffer_printf(out, err, "%s", entry->value[0] != 0 ? "true" : "false");
    case PAWL_KIND_INT64:
        memcpy(&integer, entry->value, sizeof integer);
        return buffer_printf(out, err, "%lld", (long long)integer);
    case PAWL_KIND_FLOAT64:
        memcpy(&number, entry->value, sizeof number);
        return buffer_json_number(out, number, err);
    case PAWL_KIND_STRING:
        return buffer_json_string(out, (const char *)entry->value, entry->value_bytes, err);
    case PAWL_KIND_JSON:
        return buffer_append(out, entry->value, entry->value_bytes, err);
    case PAWL_KIND_TENSOR:
    case PAWL_KIND_BYTES:
        break;
    }
    return buffer_printf(out, err, "null");
}

static pawl_status keep_manifest_text(manifest *m, const char *text, const char **out,
                                      pawl_error *err) {
    *out = arena_strdup(&m->memory, text);
    return *out != NULL ? PAWL_OK : error_nomem(err, strlen(text) + 1);
}

static bool is_hyperparameter(const state_entry *value) {
    return value->role == PAWL_ROLE_HYPERPARAMETER && !value->per_rank &&
           value->kind != PAWL_KIND_BYTES;
}

static pawl_status add_hyperparameters(save *s, pawl_error *err) {
    manifest *m = &s->manifest;
    CLEANUP(buffer_free) buffer text = {0};
    size_t count = 0;
    for (size_t i = 0; i < s->snapshot->value_count; i++) {
        count += is_hyperparameter(state_snapshot_value(s->snapshot, i));
    }
    if (count > FORMAT_MAX_HYPERPARAMETERS) {
        error_set(err, PAWL_ELIMIT, "there are too many hyperparameters");
        error_expected(err, "at most %u values of that role", FORMAT_MAX_HYPERPARAMETERS);
        error_found(err, "%zu", count);
        error_next(err, "save most of them in one value of JSON, or with the role OTHER; nothing "
                        "was written");
        return PAWL_ELIMIT;
    }
    m->hyperparameters = arena_alloc(&m->memory, count * sizeof *m->hyperparameters);
    if (m->hyperparameters == NULL) {
        return error_nomem(err, count * sizeof *m->hyperparameters);
    }
    for (size_t i = 0; i < s->snapshot->value_count; i++) {
        const state_entry *entry = state_snapshot_value(s->snapshot, i);
        if (entry->role == PAWL_ROLE_BATCH_SIGNATURE && entry->kind == PAWL_KIND_JSON) {
            TRY(keep_manifest_text(m, (const char *)entry->value, &m->batch_signature, err));
        }
        if (is_hyperparameter(entry)) {
            manifest_value *value = &m->hyperparameters[m->hyperparameter_count++];
            text.size = 0;
            TRY(value_json(entry, &text, err));
            TRY(keep_manifest_text(m, entry->name, &value->name, err));
            TRY(keep_manifest_text(m, (const char *)text.data, &value->json, err));
        }
    }
    return PAWL_OK;
}

static pawl_status refuse_metric(const pawl_metric *metric, size_t i, const char *fault,
                                 pawl_error *err) {
    const char *name = metric->name != NULL ? metric->name : "";
    error_set(err, entry_name_refusal(strnlen(name, PAWL_MAX_NAME_BYTES + 1)),
              "the name of metric %zu %s", i, fault);
    error_found(err, "%.200s", name);
    error_next(err, "see pawl_save_options in pawl/run.h; nothing was written");
    return err->status;
}

static int by_metric_name(const void *a, const void *b) {
    const pawl_metric *const *left = a, *const *right = b;
    int order = strcmp((*left)->name, (*right)->name);
    return order != 0 ? order : (*left > *right) - (*left < *right);
}

static pawl_status check_names_differ(const pawl_save_options *options, pawl_error *err) {
    size_t count = options->metric_count;
    AUTOFREE const pawl_metric **sorted = mem_calloc(count, sizeof(const pawl_metric *));
    if (sorted == NULL) {
        return error_nomem(err, count * sizeof(const pawl_metric *));
    }
    for (size_t i = 0; i < count; i++) {
        sorted[i] = &options->metrics[i];
    }
    if (count > 1) {
        qsort(sorted, count, sizeof(const pawl_metric *), by_metric_name);
    }
    for (size_t i = 1; i < count; i++) {
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0) {
            return refuse_metric(sorted[i], (size_t)(sorted[i] - options->metrics),
                                 "is also that of an earlier one", err);
        }
    }
    return PAWL_OK;
}

static pawl_status check_metrics(const pawl_save_options *options, pawl_error *err) {
    if (options->metric_count > PAWL_MAX_METRICS) {
        error_set(err, PAWL_ELIMIT, "there are too many metrics");
        error_expected(err, "at most %d (PAWL_MAX_METRICS)", PAWL_MAX_METRICS);
        error_found(err, "%zu", options->metric_count);
        error_next(err, "give only those by which people or retention choose a checkpoint; nothing "
                        "was written");
        return PAWL_ELIMIT;
    }
    for (size_t i = 0; i < options->metric_count; i++) {
        const pawl_metric *metric = &options->metrics[i];
        const char *fault = "is a null pointer";
        /* Bounded: the caller's text may lack its end. */
        if (metric->name == NULL ||
            !entry_name_valid(metric->name, strnlen(metric->name, PAWL_MAX_NAME_BYTES + 1),
                              &fault)) {
            return refuse_metric(metric, i, fault, err);
        }
    }
    return check_names_differ(options, err);
}

static pawl_status add_metrics(save *s, const pawl_save_options *options, pawl_error *err) {
    manifest *m = &s->manifest;
    CLEANUP(buffer_free) buffer text = {0};
    TRY(check_metrics(options, err));
    m->metrics = arena_alloc(&m->memory, options->metric_count * sizeof *m->metrics);
    if (m->metrics == NULL) {
        return error_nomem(err, options->metric_count * sizeof *m->metrics);
    }
    for (size_t i = 0; i < options->metric_count; i++) {
        const pawl_metric *metric = &options->metrics[i];
        manifest_value *value = &m->metrics[m->metric_count++];
        text.size = 0;
        TRY(buffer_json_number(&text, metric->value, err));
        TRY(keep_manifest_text(m, metric->name, &value->name, err));
        TRY(keep_manifest_text(m, (const char *)text.data, &value->json, err));
    }
    return PAWL_OK;
}

/* Refuses a manifest that could not be published, before anything is written: encodes one in which
 * the numbers that are not known yet have the most digits. Only the files of other ranks are added
 * later. */
static pawl_status try_manifest(const save *s, pawl_error *err) {
    char index_name[80];
    CLEANUP(buffer_free) buffer text = {0};
    manifest trial = s->manifest;
    name_index(index_name, s->tag);
    trial.index_name = index_name;
    trial.index.bytes = INT64_MAX;
    trial.entries = INT64_MAX;
    return manifest_encode(&trial, &text, err);
}

pawl_status save_fill_manifest(save *s, const pawl_save_options *options, pawl_error *err) {
    manifest *m = &s->manifest;
    const platform *os = s->run->platform;
    m->version = FORMAT_VERSION;
    m->step = s->step;
    m->unix_time_ns = os->unix_time_ns(os->context);
    m->world_size = s->run->ranks->world_size;
    m->attempt = s->run->ranks->attempt;
    m->framework = s->run->framework != NULL ? s->run->framework : "";
    m->writer = "pawl " PAWL_VERSION;
    m->files = arena_alloc(&m->memory, s->layout->file_count * sizeof *m->files);
    if (m->files == NULL) {
        return error_nomem(err, s->layout->file_count * sizeof *m->files);
    }
    for (size_t i = 0; i < s->layout->file_count; i++) {
        const plan_file *file = &s->layout->files[i];
        m->files[m->file_count++] =
            (manifest_file){.name = file->name, .bytes = file->bytes, .rank = s->run->ranks->rank};
    }
    TRY(add_metrics(s, options, err));
    TRY(add_hyperparameters(s, err));
    return try_manifest(s, err);
}
