/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads every byte of a checkpoint, goes on after damage, and reports which entries it affects.
 *
 * Manifest and index come first: everything else is judged by them. Damage of data files is
 * collected and reported at the end, after another walk over the index, which tells the entries
 * that the damaged bytes belong to.
 */
#include "checkpoint/private.h"

#include <stdio.h>
#include <string.h>

#define DEFAULT_MAX_PROBLEMS 1000u
#define INDEX_WINDOW_BYTES   (1u << 20)

/* Damage of a data file, until it is known which entry it affects. */
typedef struct damage {
    uint32_t file;
    uint64_t offset, length;
    const char *attempt, *expected, *found, *system;
    bool told;
} damage;

typedef struct verification {
    pawl_checkpoint *checkpoint;
    pawl_verify_options options;
    pawl_verify_result *result;
    uint64_t done_bytes, of_bytes;
    bool index_damaged;
    uint32_t file;   /* being read */
    damage *damages; /* ascending by file, then offset */
    size_t damage_count, damage_capacity;
    arena memory;
    engine_reader *reader;
    struct pawl_error first; /* the first problem, for the caller's error */
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
    error_step(story, v->checkpoint->step);
    if (entry != NULL) {
        error_entry(story, entry);
    }
    if (v->result->problems++ == 0) {
        v->first = *story;
    }
    if (v->options.problem != NULL) {
        pawl_problem problem = {.file = file,
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
    reader_mark_touch(v->checkpoint->mark);
    if (v->options.progress != NULL) {
        v->options.progress(v->options.context, v->done_bytes, v->of_bytes);
    }
    if (v->options.stop == NULL || v->options.stop(v->options.context) == 0) {
        return PAWL_OK;
    }
    error_set(err, PAWL_ECANCELED, "the verification was stopped by its caller");
    error_path(err, "%s", v->checkpoint->path);
    error_step(err, v->checkpoint->step);
    return PAWL_ECANCELED;
}

static void tell_index(verification *v, pawl_error *story) {
    v->index_damaged = true;
    tell_problem(v, v->checkpoint->manifest.index_name,
                 story->entry[0] != '\0' ? story->entry : NULL, story);
}

/* False for what ends the verification instead. */
static bool is_damage(pawl_status status) {
    return status != PAWL_OK && status != PAWL_ENOMEM && status != PAWL_EINTERNAL &&
           status != PAWL_ECANCELED;
}

/* ---- manifest ---- */

/* What is verified are the files of the manifest that was read when the checkpoint was opened: the
 * mark keeps them. */
static void log_change(const pawl_checkpoint *c, bool gone) {
    log_write(&c->log, PAWL_LOG_WARN,
              "step %lld was %s since it was opened; what is verified is the checkpoint that was "
              "opened, whose files stay until it is closed",
              (long long)c->step, gone ? "removed from the run" : "saved again");
}

static pawl_status verify_manifest(verification *v, pawl_error *err) {
    pawl_checkpoint *c = v->checkpoint;
    struct pawl_error story = ERROR_INIT;
    CLEANUP(buffer_free) buffer text = {0};
    CLEANUP(manifest_free) manifest m = {0};
    pawl_status status = step_read_manifest(c->store, c->step, &text, &m, &story);
    if (status == PAWL_ENOTFOUND) {
        log_change(c, true);
    } else if (is_damage(status)) {
        tell_problem(v, NAME_MANIFEST, NULL, &story);
    } else if (status != PAWL_OK) {
        *err = story;
        return status;
    } else if (strcmp(m.index_name, c->manifest.index_name) != 0) {
        log_change(c, false);
    }
    return report_progress(v, c->manifest_text.size, err);
}

/* ---- index ---- */

static pawl_status check_index_sum(verification *v, uint32_t computed, pawl_error *err) {
    const manifest *m = &v->checkpoint->manifest;
    if (computed == m->index.crc32c || v->index_damaged) {
        return PAWL_OK;
    }
    error_set(err, PAWL_EDAMAGED, "the index is not the one that was written");
    error_path(err, "%s/%s", v->checkpoint->path, m->index_name);
    error_range(err, 0, m->index.bytes);
    error_expected(err, "CRC32C %08x, stored in the manifest", m->index.crc32c);
    error_found(err, "CRC32C %08x", computed);
    return PAWL_EDAMAGED;
}

static pawl_status sum_index(verification *v, pawl_error *err) {
    pawl_checkpoint *c = v->checkpoint;
    AUTOFREE uint8_t *window = mem_alloc(INDEX_WINDOW_BYTES);
    if (window == NULL) {
        return error_nomem(err, INDEX_WINDOW_BYTES);
    }
    uint32_t sum = 0;
    uint64_t size = c->manifest.index.bytes;
    for (uint64_t at = 0; at < size;) {
        size_t n = size - at < INDEX_WINDOW_BYTES ? (size_t)(size - at) : INDEX_WINDOW_BYTES;
        TRY(store_read(c->index_file, at, window, n, err));
        c->reads.reads++;
        c->reads.bytes += n;
        sum = crc32c(sum, window, n);
        at += n;
        TRY(report_progress(v, n, err));
    }
    return check_index_sum(v, sum, err);
}

/* A value in the index, compared with the one in the data file. */
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

/* A restore reads a value from the index, a rebuild from the data file: they must be the same.
 * Bytes that cannot be read are reported by verify_data. */
static pawl_status check_value_copy(verification *v, const record_entry *entry, pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    if (entry->value == NULL) {
        return PAWL_OK;
    }
    const record_piece *piece = &entry->pieces[0];
    comparing c = {.value = entry->value, .base = piece->offset};
    TRY(report_progress(v, 0, err));
    pawl_status status = engine_reader_read(v->reader, piece->file, piece->offset, piece->bytes,
                                            compare_value, &c, &story);
    if (status != PAWL_OK && !is_damage(status)) {
        *err = story;
        return status;
    }
    if (status == PAWL_OK && c.differs) {
        error_set(&story, PAWL_EDAMAGED,
                  "the value of an entry in the index is not the one in its data file");
        error_path(&story, "%s/%s", v->checkpoint->path, v->checkpoint->manifest.index_name);
        tell_problem(v, v->checkpoint->manifest.index_name, entry->name, &story);
    }
    return PAWL_OK;
}

/* Cheap: slots and their variables are in the same order, so the block is mostly loaded already. */
static pawl_status check_slot_variable(verification *v, const record_entry *entry,
                                       pawl_error *err) {
    bool found = false;
    if (entry->role == PAWL_ROLE_SLOT) {
        TRY(checkpoint_has_tensor(v->checkpoint, entry->slot_of, &found, err));
    }
    return entry_check_slot(entry, found, err);
}

static pawl_status check_item(verification *v, const table_cursor *at, arena *memory,
                              pawl_error *err) {
    const uint8_t *key;
    const uint8_t *value;
    size_t key_bytes;
    size_t value_bytes;
    record_entry entry;
    table_item(at, &key, &key_bytes, &value, &value_bytes);
    if (key_bytes > 0 && key[0] == 'c') {
        return PAWL_OK; /* checksums: used when the data files are read */
    }
    TRY(checkpoint_decode(v->checkpoint, at, memory, &entry, err));
    v->result->entries++;
    TRY(check_slot_variable(v, &entry, err));
    return check_value_copy(v, &entry, err);
}

static pawl_status walk_index(verification *v, pawl_error *err) {
    CLEANUP(table_cursor_free_pointer) table_cursor *at = NULL;
    TRY(table_cursor_new(v->checkpoint->index, &at, err));
    TRY(table_seek(at, "", 0, err));
    while (table_valid(at)) {
        CLEANUP(arena_free) arena memory = {0};
        TRY(check_item(v, at, &memory, err));
        TRY(table_next(at, err));
    }
    uint64_t expected = v->checkpoint->manifest.entries;
    if (v->result->entries != expected) {
        error_set(err, PAWL_EDAMAGED, "the index has another number of entries than was written");
        error_expected(err, "%llu entries, as the manifest says", (unsigned long long)expected);
        error_found(err, "%llu", (unsigned long long)v->result->entries);
        return PAWL_EDAMAGED;
    }
    return PAWL_OK;
}

static pawl_status verify_index(verification *v, pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    pawl_status status = walk_index(v, &story);
    if (is_damage(status)) {
        checkpoint_index_failed(v->checkpoint, status, &story);
        tell_index(v, &story);
        status = PAWL_OK;
    }
    if (status == PAWL_OK) {
        status = sum_index(v, &story);
    }
    if (is_damage(status)) {
        tell_index(v, &story);
        status = PAWL_OK;
    }
    if (status != PAWL_OK) {
        *err = story;
    }
    return status;
}

/* ---- data files ---- */

static bool is_of_index(const verification *v, const pawl_error *story) {
    char path[sizeof(story->path)];
    snprintf(path, sizeof(path), "%s/%s", v->checkpoint->path, v->checkpoint->manifest.index_name);
    return strcmp(path, story->path) == 0;
}

static pawl_status keep_damage_text(verification *v, const char *text, const char **out,
                                    pawl_error *err) {
    *out = arena_strdup(&v->memory, text);
    return *out != NULL ? PAWL_OK : error_nomem(err, strlen(text));
}

static pawl_status keep_damage(verification *v, uint64_t offset, uint64_t length,
                               const pawl_error *story, pawl_error *err) {
    damage d = {.file = v->file, .offset = offset, .length = length};
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
        if (!v->index_damaged) {
            tell_index(v, story);
        }
        return PAWL_OK;
    }
    struct pawl_error err = ERROR_INIT;
    if (checkpoint_lost(v->checkpoint, v->checkpoint->manifest.files[v->file].name, &err)) {
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
    pawl_checkpoint *c = v->checkpoint;
    for (size_t i = 0; i < c->manifest.file_count && !enough(v); i++) {
        v->file = (uint32_t)i;
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
    const char *file = v->checkpoint->manifest.files[d->file].name;
    struct pawl_error story = ERROR_INIT;
    error_set(&story, PAWL_EDAMAGED, "%s", d->attempt);
    error_path(&story, "%s/%s", v->checkpoint->path, file);
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
            tell_damage(v, &v->damages[k], entry, piece);
        }
    }
}

/* Damage of the index was reported before; here it only ends the walk. */
static pawl_status tell_entries(verification *v, pawl_error *err) {
    CLEANUP(entries_free_pointer) pawl_entries *walk = NULL;
    const record_entry *entry;
    TRY(entries_open(v->checkpoint, "", &walk, err));
    do {
        pawl_status status = entries_next_record(walk, &entry, err);
        if (status != PAWL_OK) {
            return is_damage(status) ? PAWL_OK : status;
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
    const pawl_checkpoint *c = v->checkpoint;
    v->result->files = c->manifest.file_count + 2; /* index and manifest */
    v->of_bytes = c->manifest_text.size + c->manifest.index.bytes;
    for (size_t i = 0; i < c->manifest.file_count; i++) {
        v->of_bytes += c->manifest.files[i].bytes;
    }
}

static pawl_status verify_all(verification *v, pawl_error *err) {
    const engine_source source = checksums_source(v->checkpoint);
    TRY(engine_reader_new(&source, &v->reader, err));
    TRY(verify_manifest(v, err));
    TRY(verify_index(v, err));
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
    *err = v->first;
    err->status = PAWL_EDAMAGED;
    bool all = v->result->problems < v->options.max_problems;
    error_wrap(err, "step %lld has %s%llu %s, the first", (long long)v->checkpoint->step,
               all ? "" : "at least ", (unsigned long long)v->result->problems,
               v->result->problems == 1 ? "problem" : "problems");
    step_say_safe(v->checkpoint->store, v->checkpoint->step, err);
    return PAWL_EDAMAGED;
}

pawl_status checkpoint_verify(pawl_checkpoint *c, const pawl_verify_options *options,
                              pawl_verify_result *result, pawl_error *err) {
    *result = (pawl_verify_result){0};
    TRY(checkpoint_held(c, err));
    verification *v = mem_calloc(1, sizeof(*v));
    if (v == NULL) {
        return error_nomem(err, sizeof(*v));
    }
    v->checkpoint = c;
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
