/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a rank says of its part of a save, and the reading of what another rank said.
 *
 * A vote is one table: what this rank alone would have put into an index (index.c), the sums of its
 * replicas, the head, and what it has of the values that all ranks share. It is
 * published by a rename and never synced: a save whose votes a power cut loses is not committed.
 */
#include "votes/private.h"

#include <stdio.h>
#include <string.h>

/* ---- writing -------------------------------------------------------------------------------- */

static bool is_shared_value(const state_entry *e) {
    return e->kind != PAWL_KIND_TENSOR && !e->per_rank;
}

/* The records of the shared values: their sum, and into `w` unless it is NULL. */
static pawl_status put_shared_values(const state_snapshot *snapshot, table_writer *w, uint32_t *sum,
                                     pawl_error *err) {
    CLEANUP(buffer_free) buffer key = {0};
    CLEANUP(buffer_free) buffer value = {0};
    *sum = 0;
    for (size_t i = 0; i < snapshot->count; i++) {
        const state_entry *e = snapshot->entries[i];
        if (!is_shared_value(e)) {
            continue;
        }
        const vote_value said = vote_value_of(e->kind, e->value, e->value_bytes);
        TRY(vote_key(&key, 'w', e->name, err));
        TRY(vote_value_encode(&said, &value, err));
        *sum = crc32c(crc32c(*sum, key.data, key.size), value.data, value.size);
        if (w != NULL) {
            TRY(table_writer_add(w, key.data, key.size, value.data, value.size, err));
        }
    }
    return PAWL_OK;
}

static pawl_status list_files(const plan_layout *layout, vote *head, arena *memory,
                              pawl_error *err) {
    head->files = arena_alloc(memory, layout->file_count * sizeof *head->files);
    if (head->files == NULL) {
        return error_nomem(err, layout->file_count * sizeof *head->files);
    }
    head->file_count = layout->file_count;
    for (size_t i = 0; i < layout->file_count; i++) {
        head->files[i] =
            (vote_file){.name = layout->files[i].name, .bytes = layout->files[i].bytes};
    }
    return PAWL_OK;
}

static pawl_status put_sums(job_ranks *ranks, const ballot *b, vote *head, pawl_error *err) {
    const plan_layout *layout = b->layout;
    CLEANUP(buffer_free) buffer text = {0};
    TRY(structure_make(layout->snapshot, &text, err));
    head->structure_crc32c = crc32c(0, text.data, text.size);
    head->structure_bytes = text.size;
    structure_leave(ranks, &text, head->structure_crc32c, b->left);
    return put_shared_values(layout->snapshot, NULL, &head->values_crc32c, err);
}

static bool is_durable(const ballot *b) {
    return !b->skipped && b->failed == NULL;
}

static pawl_status put_vote_head(job_ranks *ranks, const ballot *b, table_writer *w,
                                 pawl_error *err) {
    CLEANUP(arena_free) arena memory = {0};
    CLEANUP(buffer_free) buffer failed = {0};
    CLEANUP(buffer_free) buffer record = {0};
    process_identity who;
    TRY(ranks->platform->identity(ranks->platform->context, &who, err));
    vote head = {.step = b->step,
                 .rank = ranks->rank,
                 .world_size = ranks->world_size,
                 .tag = b->tag,
                 .host = who.host,
                 .pid = who.pid,
                 .skipped = b->skipped};
    if (b->failed != NULL) {
        TRY(failure_encode(b->failed, VOTE_MAX_STORY, &failed, err));
        head.failed = (const char *)failed.data;
        head.failed_bytes = failed.size;
    } else if (!b->skipped) {
        TRY(list_files(b->layout, &head, &memory, err));
        TRY(put_sums(ranks, b, &head, err));
        TRY(replica_sums_head(b->sums, &head, &memory, err));
    }
    TRY(vote_head_encode(&head, &record, err));
    return table_writer_add(w, "v", 1, record.data, record.size, err);
}

pawl_status vote_keep(job_ranks *ranks, const ballot *b, buffer *out, pawl_error *err) {
    CLEANUP(table_writer_free_pointer) table_writer *w = NULL;
    table_summary ignored;
    uint64_t count;
    uint32_t sum;
    out->size = 0;
    TRY(table_writer_new(byte_sink_buffer(out), &w, err));
    if (is_durable(b)) {
        TRY(index_write_records(b->input, w, &count, err));
    }
    if (is_durable(b) && b->sums != NULL) {
        TRY(replica_sums_write(b->sums, w, err));
    }
    TRY(put_vote_head(ranks, b, w, err));
    if (is_durable(b)) {
        TRY(put_shared_values(b->layout->snapshot, w, &sum, err));
    }
    return table_writer_finish(w, &ignored, err);
}

/* A vote that may be there counts as cast: rank 0 may commit with it. */
static pawl_status publish_vote(job_ranks *ranks, const ballot *b, const buffer *bytes,
                                pawl_error *err) {
    char name[80];
    char path[STORE_MAX_PATH];
    if (is_durable(b)) {
        TRY(store_sync_dir(ranks->store, b->directory, err)); /* G1 */
    }
    name_vote(name, b->tag, ranks->rank);
    snprintf(path, sizeof path, "%s/%s", b->directory, name);
    store_publish_end end;
    pawl_status status = store_try_replace(ranks->store, path, bytes->data, bytes->size, &end, err);
    if (status == PAWL_OK || end != STORE_MAYBE_PUBLISHED || !is_durable(b)) {
        return status;
    }
    log_write(&ranks->log, PAWL_LOG_WARN,
              "rank %d waits for the outcome of the save: its vote may be visible, although "
              "publishing it failed: %s",
              ranks->rank, error_text(err));
    return PAWL_OK;
}

pawl_status vote_cast(job_ranks *ranks, const ballot *b, pawl_error *err) {
    CLEANUP(buffer_free) buffer bytes = {0};
    pawl_status status = vote_keep(ranks, b, &bytes, err);
    if (status == PAWL_OK) {
        status = publish_vote(ranks, b, &bytes, err);
    }
    if (status != PAWL_OK) {
        error_wrap(err, "vote of rank %d", ranks->rank);
    }
    return status;
}

/* ---- reading -------------------------------------------------------------------------------- */

static pawl_status another_ones(const vote *head, const char *tag, int rank, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "it says that it is of another save or rank");
    error_expected(err, "rank %d, save %s", rank, tag);
    error_found(err, "rank %d, save %s", head->rank, head->tag);
    return PAWL_EDAMAGED;
}

static pawl_status find_head(const vote_table *t, arena *memory, vote *out, pawl_error *err) {
    CLEANUP(table_cursor_free_pointer) table_cursor *at = NULL;
    const uint8_t *value;
    size_t n;
    TRY(table_cursor_new(t->table, &at, err));
    TRY(vote_table_find(at, "v", 1, &value, &n, err));
    if (value == NULL) {
        return error_set(err, PAWL_EDAMAGED, "it has no head");
    }
    TRY(vote_head_decode(value, n, memory, out, err));
    return out->rank == t->rank && strcmp(out->tag, t->tag) == 0
               ? PAWL_OK
               : another_ones(out, t->tag, t->rank, err);
}

static pawl_status open_and_read(store *s, const buffer *own, const char *directory,
                                 const char *tag, int rank, arena *memory, vote *out,
                                 pawl_error *err) {
    CLEANUP(vote_table_close) vote_table t;
    TRY(vote_table_open(&t, s, own, directory, tag, rank, err));
    pawl_status status = find_head(&t, memory, out, err);
    return status == PAWL_OK ? PAWL_OK : vote_table_failed(&t, status, err);
}

pawl_status vote_read_head(store *s, const char *directory, const char *tag, int rank,
                           arena *memory, vote *out, pawl_error *err) {
    return open_and_read(s, NULL, directory, tag, rank, memory, out, err);
}

pawl_status votes_begin(job_ranks *ranks, const char *tag, votes *v, pawl_error *err) {
    size_t n = (size_t)ranks->world_size;
    v->heads = mem_calloc(n, sizeof *v->heads);
    v->came = mem_calloc(n, 1);
    if (v->heads == NULL || v->came == NULL) {
        return error_nomem(err, n * sizeof *v->heads);
    }
    TRY(open_and_read(ranks->store, &v->own, "", tag, 0, &v->memory, &v->heads[0], err));
    v->came[0] = 1;
    return PAWL_OK;
}

void votes_free(votes *v) {
    buffer_free(&v->own);
    mem_free(v->heads);
    mem_free(v->came);
    arena_free(&v->memory);
    *v = (votes){.heads = NULL};
}

/* ---- the manifest's files ------------------------------------------------------------------- */

static pawl_status count_files(int world_size, const votes *v, size_t *count, pawl_error *err) {
    *count = 0;
    for (int r = 0; r < world_size; r++) {
        *count += v->heads[r].file_count; /* each at most FORMAT_MAX_FILES */
    }
    if (*count <= FORMAT_MAX_FILES) {
        return PAWL_OK;
    }
    error_set(err, PAWL_ELIMIT, "the ranks together have too many data files");
    error_expected(err, "at most %u", FORMAT_MAX_FILES);
    error_found(err, "%zu", *count);
    return PAWL_ELIMIT;
}

pawl_status votes_manifest_files(int world_size, const votes *v, manifest *m, pawl_error *err) {
    size_t count;
    TRY(count_files(world_size, v, &count, err));
    m->files = arena_alloc(&m->memory, count * sizeof *m->files);
    if (m->files == NULL) {
        return error_nomem(err, count * sizeof *m->files);
    }
    m->file_count = 0;
    for (int r = 0; r < world_size; r++) {
        const vote *head = &v->heads[r];
        for (size_t i = 0; i < head->file_count; i++) {
            const char *name = arena_strdup(&m->memory, head->files[i].name);
            if (name == NULL) {
                return error_nomem(err, strlen(head->files[i].name) + 1);
            }
            m->files[m->file_count++] =
                (manifest_file){.name = name, .bytes = head->files[i].bytes, .rank = r};
        }
    }
    return PAWL_OK;
}
