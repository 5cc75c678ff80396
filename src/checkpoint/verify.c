/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads every byte of a checkpoint, goes on after damage, and reports which entries it affects.
 *
 * What describes the entries comes first: everything else is judged by it. Damage of data files is
 * collected and reported at the end, after another walk over the entries, which tells those that
 * the damaged bytes belong to. Where the source has no checksums, a file can have another size or
 * be unreadable, and that is all that can be found. What this process may not read is told like
 * damage, but is none.
 */
#include "checkpoint/private.h"

#include <stdio.h>
#include <string.h>

#define DEFAULT_MAX_PROBLEMS 1000u

/* Damage of a data file, until it is known which entry it affects. */
typedef struct damage {
    uint32_t file;
    uint64_t offset, length;
    pawl_status status; /* PAWL_EPERMISSION: it may not be read, and may be as it was written */
    const char *attempt, *expected, *found, *system;
    bool told;
} damage;

typedef struct verification {
    pawl_checkpoint *checkpoint;
    struct source *source; /* its */
    pawl_verify_options options;
    pawl_verify_result *result;
    uint64_t done_bytes, of_bytes;
    bool index_damaged;
    uint32_t file;   /* being read */
    damage *damages; /* ascending by file, then offset */
    size_t damage_count, damage_capacity;
    arena memory;
    engine_reader *reader;
    struct pawl_error first; /* the first problem, for the caller's error; damage before all else */
    uint64_t denied;         /* of the problems: what may not be read */
    bool lost;               /* the step was removed meanwhile, which is no damage */
    struct pawl_error loss;
} verification;

/* ---- reporting ---- */

static bool enough(const verification *v) {
    return v->result->problems + v->damage_count >= v->options.max_problems;
}

static void tell_problem(verification *v, const char *file, const char *entry, pawl_error *story) {
    if (v->result->problems >= v->options.max_problems) {
        return;
    }
    error_step(story, v->source->step);
    if (entry != NULL) {
        error_entry(story, entry);
    }
    v->index_damaged = v->index_damaged ||
                       (v->source->index_name != NULL && strcmp(file, v->source->index_name) == 0);
    bool denied = story->status == PAWL_EPERMISSION;
    if (v->result->problems++ == 0 || (!denied && v->first.status == PAWL_EPERMISSION)) {
        v->first = *story;
    }
    v->denied += denied;
    if (v->options.problem != NULL) {
        pawl_problem problem = {.struct_size = sizeof(problem),
                                .file = file,
                                .entry = entry,
                                .offset = story->has_range ? story->offset : 0,
                                .length = story->has_range ? story->length : 0,
                                .text = error_text(story)};
        v->options.problem(v->options.context, &problem);
    }
}

/* Called throughout all that takes long, so the caller may stop it here. */
static pawl_status report_progress(void *context, uint64_t bytes, pawl_error *err) {
    verification *v = context;
    v->done_bytes += bytes;
    if (v->options.progress != NULL) {
        v->options.progress(v->options.context, v->done_bytes, v->of_bytes);
    }
    if (v->options.stop == NULL || v->options.stop(v->options.context) == 0) {
        return PAWL_OK;
    }
    error_set(err, PAWL_ECANCELED, "the verification was stopped by its caller");
    error_path(err, "%s", v->source->path);
    error_step(err, v->source->step);
    return PAWL_ECANCELED;
}

bool verify_is_damage(pawl_status status) {
    return status != PAWL_OK && status != PAWL_ENOMEM && status != PAWL_EINTERNAL &&
           status != PAWL_ECANCELED;
}

/* ---- entries that the source did not check ---- */

typedef struct comparing {
    const uint8_t *value;
    uint64_t base;
    bool differs;
} comparing;

static pawl_status compare_value(void *context, uint64_t offset, const uint8_t *bytes, size_t n,
                                 pawl_error *err) {
    comparing *c = context;
    (void)err;
    c->differs = c->differs || memcmp(c->value + (offset - c->base), bytes, n) != 0;
    return PAWL_OK;
}

pawl_status verify_value_copy(engine_reader *reader, const record_entry *entry, bool *differs,
                              pawl_error *err) {
    const record_piece *piece = &entry->pieces[0];
    struct pawl_error story = ERROR_INIT;
    comparing c = {.value = entry->value, .base = piece->offset};
    pawl_status status = engine_reader_read(reader, piece->file, piece->offset, piece->bytes,
                                            compare_value, &c, &story);
    if (status != PAWL_OK && !verify_is_damage(status)) {
        *err = story;
        return status;
    }
    *differs = status == PAWL_OK && c.differs;
    return PAWL_OK;
}

static const char *file_name(const verification *v, uint32_t file) {
    return v->source->ops->file(v->source, file).name;
}

/* What describes the entries, for a problem that has no file of its own. */
static const char *describing_file(const verification *v) {
    return v->source->index_name != NULL ? v->source->index_name : file_name(v, 0);
}

static pawl_status count_entries(verification *v, pawl_error *err) {
    CLEANUP(entries_free_pointer) pawl_entries *walk = NULL;
    const record_entry *entry;
    TRY(entries_open(v->checkpoint, "", &walk, err));
    do {
        TRY(report_progress(v, 0, err));
        TRY(entries_next_record(walk, &entry, err));
        v->result->entries += entry != NULL;
    } while (entry != NULL);
    if (v->result->entries == v->source->entries) {
        return PAWL_OK;
    }
    error_set(err, PAWL_EDAMAGED, "the checkpoint has another number of entries than it says");
    error_path(err, "%s", v->source->path);
    error_expected(err, "%llu", (unsigned long long)v->source->entries);
    error_found(err, "%llu", (unsigned long long)v->result->entries);
    return PAWL_EDAMAGED;
}

static pawl_status verify_entries(verification *v, pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    pawl_status status = count_entries(v, &story);
    if (verify_is_damage(status)) {
        tell_problem(v, describing_file(v), story.entry[0] != '\0' ? story.entry : NULL, &story);
        return PAWL_OK;
    }
    if (status != PAWL_OK) {
        *err = story;
    }
    return status;
}

static void take_problem(void *context, const char *file, const char *entry, pawl_error *story) {
    tell_problem(context, file, entry, story);
}

static pawl_status verify_description(verification *v, pawl_error *err) {
    source_verifier to = {.context = v, .problem = take_problem, .progress = report_progress};
    TRY(v->source->ops->verify(v->source, &to, err));
    v->result->entries = to.entries;
    return v->source->checked || enough(v) ? PAWL_OK : verify_entries(v, err);
}

/* ---- data files ---- */

/* A checksum could not be read, out of the index. */
static bool is_of_index(const verification *v, const pawl_error *story) {
    char path[sizeof(story->path)];
    if (v->source->index_name == NULL) {
        return false;
    }
    snprintf(path, sizeof(path), "%s/%s", v->source->path, v->source->index_name);
    return strcmp(path, story->path) == 0;
}

static void tell_index(verification *v, pawl_error *story) {
    if (!v->index_damaged) {
        tell_problem(v, v->source->index_name, story->entry[0] != '\0' ? story->entry : NULL,
                     story);
    }
    v->index_damaged = true;
}

static pawl_status keep_damage_text(verification *v, const char *text, const char **out,
                                    pawl_error *err) {
    *out = arena_strdup(&v->memory, text);
    return *out != NULL ? PAWL_OK : error_nomem(err, strlen(text));
}

static pawl_status keep_damage(verification *v, uint64_t offset, uint64_t length,
                               const pawl_error *story, pawl_error *err) {
    damage d = {.file = v->file, .offset = offset, .length = length, .status = story->status};
    TRY(keep_damage_text(v, story->attempt, &d.attempt, err));
    TRY(keep_damage_text(v, story->expected, &d.expected, err));
    TRY(keep_damage_text(v, story->found, &d.found, err));
    TRY(keep_damage_text(v, story->system, &d.system, err));
    TRY(vec_reserve(&v->damages, &v->damage_capacity, v->damage_count + 1, sizeof(d), err));
    v->damages[v->damage_count++] = d;
    return PAWL_OK;
}

/* PAWL_ELIMIT stops reading the file: it is gone, or there are enough problems. */
static pawl_status note_damage(void *context, uint64_t offset, uint64_t length, pawl_error *story) {
    verification *v = context;
    if (is_of_index(v, story)) {
        tell_index(v, story);
        return PAWL_OK;
    }
    struct pawl_error err = ERROR_INIT;
    if (checkpoint_lost(v->checkpoint, file_name(v, v->file), &err)) {
        v->lost = true;
        v->loss = err;
        return PAWL_ELIMIT;
    }
    pawl_status status = keep_damage(v, offset, length, story, &err);
    if (status != PAWL_OK) {
        *story = err;
        return status;
    }
    return enough(v) ? PAWL_ELIMIT : PAWL_OK;
}

static pawl_status verify_data(verification *v, pawl_error *err) {
    for (uint32_t i = 0; i < v->source->files && !enough(v); i++) {
        v->file = i;
        pawl_status status =
            engine_reader_verify(v->reader, v->file, note_damage, report_progress, v, err);
        if (status != PAWL_OK && status != PAWL_ELIMIT) {
            return status;
        }
    }
    return PAWL_OK;
}

/* ---- which entries are affected ---- */

static void tell_damage(verification *v, damage *d, const record_entry *entry,
                        const record_piece *piece) {
    const char *file = file_name(v, d->file);
    struct pawl_error story = ERROR_INIT;
    error_set(&story, d->status == PAWL_EPERMISSION ? d->status : PAWL_EDAMAGED, "%s", d->attempt);
    checkpoint_file_path(v->checkpoint, d->file, &story);
    error_range(&story, d->offset, d->length);
    error_expected(&story, "%s", d->expected);
    error_found(&story, "%s", d->found);
    snprintf(story.system, sizeof(story.system), "%s", d->system);
    d->told = true;
    if (entry == NULL) {
        tell_problem(v, file, NULL, &story);
        return;
    }
    uint64_t begin = d->offset > piece->offset ? d->offset - piece->offset : 0;
    uint64_t end = d->offset + d->length - piece->offset;
    end = end < piece->bytes ? end : piece->bytes;
    error_wrap(&story, "%s, bytes %llu to %llu of %llu", entry->name, (unsigned long long)begin,
               (unsigned long long)(end - 1), (unsigned long long)piece->bytes);
    tell_problem(v, file, entry->name, &story);
}

/* The first damage that ends after a position of a file. */
static size_t first_damage(const verification *v, uint32_t file, uint64_t at) {
    size_t low = 0;
    size_t high = v->damage_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const damage *d = &v->damages[middle];
        if (d->file < file || (d->file == file && d->offset + d->length <= at)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void tell_entry(verification *v, const record_entry *entry) {
    for (size_t i = 0; i < entry->piece_count; i++) {
        const record_piece *piece = &entry->pieces[i];
        uint64_t end = piece->offset + piece->bytes;
        for (size_t k = first_damage(v, piece->file, piece->offset);
             k < v->damage_count && v->damages[k].file == piece->file && v->damages[k].offset < end;
             k++) {
            if (v->damages[k].status != PAWL_EPERMISSION) { /* which is told of the file */
                tell_damage(v, &v->damages[k], entry, piece);
            }
        }
    }
}

/* Entries that cannot be read were reported before; here they only end the walk. */
static pawl_status tell_entries(verification *v, pawl_error *err) {
    CLEANUP(entries_free_pointer) pawl_entries *walk = NULL;
    const record_entry *entry;
    TRY(entries_open(v->checkpoint, "", &walk, err));
    do {
        pawl_status status = entries_next_record(walk, &entry, err);
        if (status != PAWL_OK) {
            return verify_is_damage(status) ? PAWL_OK : status;
        }
        if (entry != NULL) {
            tell_entry(v, entry);
        }
    } while (entry != NULL);
    return PAWL_OK;
}

static pawl_status tell_damages(verification *v, pawl_error *err) {
    if (v->damage_count == 0) {
        return PAWL_OK;
    }
    struct pawl_error story = ERROR_INIT;
    pawl_status status = tell_entries(v, &story);
    if (status != PAWL_OK) {
        *err = story;
        return status;
    }
    for (size_t i = 0; i < v->damage_count; i++) {
        if (!v->damages[i].told) {
            tell_damage(v, &v->damages[i], NULL, NULL);
        }
    }
    return PAWL_OK;
}

/* ---- all of it ---- */

static void count_work(verification *v) {
    struct source *s = v->source;
    v->result->files = s->files + s->described_files;
    v->of_bytes = s->described_bytes;
    for (uint32_t i = 0; i < s->files; i++) {
        v->of_bytes += s->ops->file(s, i).bytes;
    }
}

/* There are problems, none of which is damage. */
static pawl_status may_not_be_read(const verification *v, pawl_error *err) {
    *err = v->first;
    error_wrap(err, "%s could not be read whole, so whether it is damaged is not known",
               v->source->label);
    error_next(err, "verify it as a user who may read it");
    return PAWL_EPERMISSION;
}

static pawl_status verify_all(verification *v, pawl_error *err) {
    const struct source *s = v->source;
    const engine_source files = source_files(v->source, v->checkpoint->platform);
    TRY(engine_reader_new(&files, &v->reader, err));
    TRY(verify_description(v, err));
    TRY(verify_data(v, err));
    TRY(tell_damages(v, err));
    v->result->bytes = v->done_bytes;
    if (v->result->problems == 0 && v->lost) {
        *err = v->loss;
        error_wrap(err, "verifying");
        return err->status;
    }
    if (v->result->problems == 0) {
        return PAWL_OK;
    }
    if (v->denied == v->result->problems) {
        return may_not_be_read(v, err);
    }
    *err = v->first;
    err->status = PAWL_EDAMAGED;
    bool all = v->result->problems < v->options.max_problems;
    error_wrap(err, "%s has %s%llu %s, the first", s->label, all ? "" : "at least ",
               (unsigned long long)v->result->problems,
               v->result->problems == 1 ? "problem" : "problems");
    checkpoint_say_safe(v->checkpoint, err);
    return PAWL_EDAMAGED;
}

pawl_status checkpoint_verify(pawl_checkpoint *c, const pawl_verify_options *options,
                              pawl_verify_result *result, pawl_error *err) {
    *result = (pawl_verify_result){.unverified = c->source->unverified};
    TRY(checkpoint_held(c, err));
    verification *v = mem_calloc(1, sizeof(*v));
    if (v == NULL) {
        return error_nomem(err, sizeof(*v));
    }
    v->checkpoint = c;
    v->source = c->source;
    v->result = result;
    v->first = ERROR_INIT;
    if (options != NULL) {
        v->options = *options;
    }
    if (v->options.max_problems == 0) {
        v->options.max_problems = DEFAULT_MAX_PROBLEMS;
    }
    count_work(v);
    pawl_status status = verify_all(v, err);
    arena_free(&v->memory);
    engine_reader_free(v->reader);
    mem_free(v->damages);
    mem_free(v);
    return status;
}
