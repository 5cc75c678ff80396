/* SPDX-License-Identifier: Apache-2.0 */
/* Verifies what describes the entries of a committed step: its manifest, then its index with every
 * record in it. The data files are verified by verify.c. */
#include "checkpoint/native.h"

#include "checkpoint/private.h"
#include "checkpoint/step_directory.h"

#include <string.h>

#define INDEX_WINDOW_BYTES (1u << 20)

typedef struct verification {
    native_source *source;
    source_verifier *to;
    bool index_damaged;
    engine_reader *reader; /* of values that are compared with their copies in the index */
} verification;

static pawl_status report_progress(verification *v, uint64_t bytes, pawl_error *err) {
    reader_mark_touch(v->source->mark);
    return v->to->progress(v->to->context, bytes, err);
}

static void tell_index(verification *v, pawl_error *story) {
    v->index_damaged = true;
    v->to->problem(v->to->context, v->source->base.index_name,
                   story->entry[0] != '\0' ? story->entry : NULL, story);
}

/* ---- manifest ---- */

/* What is verified are the files of the manifest that was read when the checkpoint was opened: the
 * mark keeps them. */
static void log_change(const native_source *c, bool gone) {
    log_write(&c->log, PAWL_LOG_WARN,
              "step %lld was %s since it was opened; what is verified is the checkpoint that was "
              "opened, whose files stay until it is closed",
              (long long)c->base.step, gone ? "removed from the run" : "saved again");
}

static pawl_status verify_manifest(verification *v, pawl_error *err) {
    native_source *c = v->source;
    struct pawl_error story = ERROR_INIT;
    CLEANUP(buffer_free) buffer text = {0};
    CLEANUP(manifest_free) manifest m = {0};
    pawl_status status = step_read_manifest(c->base.store, c->base.step, &text, &m, &story);
    if (status == PAWL_ENOTFOUND) {
        log_change(c, true);
    } else if (verify_is_damage(status)) {
        v->to->problem(v->to->context, NAME_MANIFEST, NULL, &story);
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
    const native_source *c = v->source;
    const manifest *m = &c->manifest;
    if (computed == m->index.crc32c || v->index_damaged) {
        return PAWL_OK;
    }
    error_set(err, PAWL_EDAMAGED, "the index is not the one that was written");
    error_path(err, "%s/%s", c->base.path, m->index_name);
    error_range(err, 0, m->index.bytes);
    error_expected(err, "CRC32C %08x, stored in the manifest", m->index.crc32c);
    error_found(err, "CRC32C %08x", computed);
    return PAWL_EDAMAGED;
}

static pawl_status sum_index(verification *v, pawl_error *err) {
    native_source *c = v->source;
    AUTOFREE uint8_t *window = mem_alloc(INDEX_WINDOW_BYTES);
    if (window == NULL) {
        return error_nomem(err, INDEX_WINDOW_BYTES);
    }
    uint32_t sum = 0;
    uint64_t size = c->manifest.index.bytes;
    for (uint64_t at = 0; at < size;) {
        size_t n = size - at < INDEX_WINDOW_BYTES ? (size_t)(size - at) : INDEX_WINDOW_BYTES;
        TRY(store_read(c->index_file, at, window, n, err));
        c->base.reads.reads++;
        c->base.reads.bytes += n;
        sum = crc32c(sum, window, n);
        at += n;
        TRY(report_progress(v, n, err));
    }
    return check_index_sum(v, sum, err);
}

/* A restore reads a value from the index, a rebuild from the data file: they must be the same. */
static pawl_status check_value_copy(verification *v, const record_entry *entry, pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    bool differs = false;
    if (entry->value == NULL) {
        return PAWL_OK;
    }
    TRY(report_progress(v, 0, err));
    pawl_status status = verify_value_copy(v->reader, entry, &differs, err);
    if (status == PAWL_OK && differs) {
        error_set(&story, PAWL_EDAMAGED,
                  "the value of an entry in the index is not the one in its data file");
        error_path(&story, "%s/%s", v->source->base.path, v->source->base.index_name);
        v->to->problem(v->to->context, v->source->base.index_name, entry->name, &story);
    }
    return status;
}

/* Cheap: slots and their variables are in the same order, so the block is mostly loaded already. */
static pawl_status check_slot_variable(verification *v, const record_entry *entry,
                                       pawl_error *err) {
    bool found = false;
    if (entry->role == PAWL_ROLE_SLOT) {
        TRY(native_has_tensor(v->source, entry->slot_of, &found, err));
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
    TRY(native_decode(v->source, at, memory, &entry, err));
    TRY(entry_check(&v->source->manifest, &entry, err));
    v->to->entries++;
    TRY(check_slot_variable(v, &entry, err));
    return check_value_copy(v, &entry, err);
}

static pawl_status walk_index(verification *v, pawl_error *err) {
    CLEANUP(table_cursor_free_pointer) table_cursor *at = NULL;
    TRY(table_cursor_new(v->source->index, &at, err));
    TRY(table_seek(at, "", 0, err));
    while (table_valid(at)) {
        CLEANUP(arena_free) arena memory = {0};
        TRY(check_item(v, at, &memory, err));
        TRY(table_next(at, err));
    }
    uint64_t expected = v->source->manifest.entries;
    if (v->to->entries != expected) {
        error_set(err, PAWL_EDAMAGED, "the index has another number of entries than was written");
        error_expected(err, "%llu, as the manifest says", (unsigned long long)expected);
        error_found(err, "%llu", (unsigned long long)v->to->entries);
        return PAWL_EDAMAGED;
    }
    return PAWL_OK;
}

static pawl_status verify_index(verification *v, pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    pawl_status status = walk_index(v, &story);
    if (verify_is_damage(status)) {
        native_index_failed(&v->source->base, status, &story);
        tell_index(v, &story);
        status = PAWL_OK;
    }
    if (status == PAWL_OK) {
        status = sum_index(v, &story);
    }
    if (verify_is_damage(status)) {
        tell_index(v, &story);
        status = PAWL_OK;
    }
    if (status != PAWL_OK) {
        *err = story;
    }
    return status;
}

pawl_status native_verify(struct source *s, source_verifier *to, pawl_error *err) {
    verification v = {.source = (native_source *)s, .to = to};
    const engine_source files = source_files(s, ((native_source *)s)->platform);
    TRY(engine_reader_new(&files, &v.reader, err));
    pawl_status status = verify_manifest(&v, err);
    if (status == PAWL_OK) {
        status = verify_index(&v, err);
    }
    engine_reader_free(v.reader);
    return status;
}
