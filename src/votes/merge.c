/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes one index of all ranks' votes, by a merge of their tables.
 *
 * Checksums come first, rank by rank: the files of a rank are numbered behind those of the ranks
 * before it, so their records stay sorted. Then the entries, in the order of names: what several
 * ranks have of a name becomes one record, and is checked (merge_entry.c). Last come the sums of
 * replicas, where these are compared one by one: to name what differs, and in checking mode.
 *
 * Memory: per rank the index block of its vote and one data block, of FORMAT_TABLE_BLOCK bytes or
 * one large record: with 4096 ranks about 150 MB. One file is open at a time.
 */
#include "votes/merge.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROGRESS_ENTRIES 1024 /* after which the hang watchdog is told of progress */

static void close_voter(voter *v) {
    table_cursor_free(v->at);
    vote_table_close(&v->table);
}

void merge_close(merge *m) {
    if (m == NULL) {
        return;
    }
    for (size_t r = 0; m->voters != NULL && r < m->count; r++) {
        close_voter(&m->voters[r]);
    }
    mem_free(m->voters);
    mem_free(m->heap.items);
    mem_free(m->least);
    mem_free(m->ranks);
    merge_entry_free(&m->entry);
    mem_free(m);
}

static void show_progress(const merge *m) {
    if (m->watched != NULL) {
        engine_made_progress(m->watched);
    }
}

/* ---- one vote ------------------------------------------------------------------------------- */

static pawl_status voter_failed(const voter *v, pawl_status status, pawl_error *err) {
    return vote_table_failed(&v->table, status, err);
}

/* Takes the record at the cursor. The voter is at its end at the head, behind which comes nothing
 * to merge, and at the sums of replicas where these are not compared. */
static pawl_status take_voter_record(const merge *m, voter *v, pawl_error *err) {
    v->key = NULL;
    if (!table_valid(v->at)) {
        return PAWL_OK;
    }
    table_item(v->at, &v->key, &v->key_bytes, &v->value, &v->value_bytes);
    switch (v->key_bytes > 0 ? v->key[0] : 0) {
    case 'c':
    case 'e':
        return PAWL_OK;
    case 'r':
        v->key = m->compares ? v->key : NULL;
        return PAWL_OK;
    case 'v':
    case 'w':
        v->key = NULL;
        return PAWL_OK;
    default:
        v->key = NULL;
        return voter_failed(v, error_set(err, PAWL_EDAMAGED, "it has a record of an unknown kind"),
                            err);
    }
}

static pawl_status advance_voter(const merge *m, voter *v, pawl_error *err) {
    pawl_status status = table_next(v->at, err);
    return status == PAWL_OK ? take_voter_record(m, v, err) : voter_failed(v, status, err);
}

static pawl_status open_voter(merge *m, voter *v, int rank, pawl_error *err) {
    const vote *head = &m->votes->heads[rank];
    TRY(vote_table_open(&v->table, m->store, &m->votes->own, m->directory, m->tag, rank, err));
    TRY(table_cursor_new(v->table.table, &v->at, err));
    v->head = head;
    pawl_status status = table_seek(v->at, "c", 1, err);
    vote_table_rest(&v->table);
    return status == PAWL_OK ? take_voter_record(m, v, err) : voter_failed(v, status, err);
}

static pawl_status open_voters(merge *m, pawl_error *err) {
    uint64_t files = 0;
    bool differ = false;
    TRY(replica_sums_differ(m->votes, m->count, &differ, err));
    m->compares = differ || m->checking;
    for (size_t r = 0; r < m->count; r++) {
        voter *v = &m->voters[r];
        v->first_file = (uint32_t)files;
        TRY(open_voter(m, v, (int)r, err));
        show_progress(m);
        files += v->head->file_count;
        if (files > FORMAT_MAX_FILES) {
            error_set(err, PAWL_ELIMIT, "the ranks together have too many data files");
            error_expected(err, "at most %u", FORMAT_MAX_FILES);
            return PAWL_ELIMIT;
        }
    }
    return PAWL_OK;
}

pawl_status merge_open(const merge_input *in, merge **out, pawl_error *err) {
    merge *m = mem_calloc(1, sizeof *m);
    if (m == NULL) {
        return error_nomem(err, sizeof *m);
    }
    m->store = in->store;
    m->votes = in->votes;
    m->checking = in->checking;
    m->watched = in->watched;
    m->count = (size_t)in->world_size;
    snprintf(m->directory, sizeof m->directory, "%s", in->directory);
    snprintf(m->tag, sizeof m->tag, "%s", in->tag);
    m->voters = mem_calloc(m->count, sizeof *m->voters);
    m->heap.items = mem_calloc(m->count, sizeof *m->heap.items);
    m->least = mem_calloc(m->count, sizeof *m->least);
    m->ranks = mem_calloc(m->count, sizeof *m->ranks);
    pawl_status status =
        m->voters != NULL && m->heap.items != NULL && m->least != NULL && m->ranks != NULL
            ? open_voters(m, err)
            : error_nomem(err, m->count * sizeof *m->voters);
    if (status != PAWL_OK) {
        merge_close(m);
        return status;
    }
    *out = m;
    return PAWL_OK;
}

/* ---- checksums ------------------------------------------------------------------------------ */

/* `file`: the first with wrong checksums; the number of files where there are more than theirs. */
static pawl_status wrong_checksums(const voter *v, size_t file, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "its checksums are not those of its data files");
    if (file < v->head->file_count) {
        error_expected(err, "a u32 for each %u bytes of %s", FORMAT_BLOCK_BYTES,
                       v->head->files[file].name);
    } else {
        error_expected(err, "those of %zu data files, and no more", v->head->file_count);
    }
    return voter_failed(v, PAWL_EDAMAGED, err);
}

/* All records of one file: exactly those that its size calls for. */
static pawl_status put_checksums_of(const merge *m, voter *v, size_t file, table_writer *w,
                                    pawl_error *err) {
    uint64_t bytes = v->head->files[file].bytes;
    for (uint64_t block = 0; record_checksums_count(bytes, block) > 0;
         block += FORMAT_BLOCKS_PER_RECORD) {
        uint8_t key[RECORD_CHECKSUMS_KEY];
        if (v->key == NULL || !record_checksums_whole((uint32_t)file, bytes, block, v->key,
                                                      v->key_bytes, v->value_bytes)) {
            return wrong_checksums(v, file, err);
        }
        record_checksums_key(key, v->first_file + (uint32_t)file, block);
        TRY(table_writer_add(w, key, sizeof key, v->value, v->value_bytes, err));
        TRY(advance_voter(m, v, err));
    }
    return PAWL_OK;
}

static pawl_status put_checksums(merge *m, table_writer *w, pawl_error *err) {
    for (size_t r = 0; r < m->count; r++) {
        voter *v = &m->voters[r];
        for (size_t file = 0; file < v->head->file_count; file++) {
            TRY(put_checksums_of(m, v, file, w, err));
        }
        show_progress(m);
        if (v->key != NULL && v->key[0] == 'c') {
            return wrong_checksums(v, v->head->file_count, err);
        }
    }
    return PAWL_OK;
}

/* ---- the heap ------------------------------------------------------------------------------- */

/* Of two voters; one at its end comes last. */
static int compare_voters(const void *context, uint32_t i, uint32_t j) {
    const merge *m = context;
    const voter *a = &m->voters[i];
    const voter *b = &m->voters[j];
    if (a->key == NULL || b->key == NULL) {
        return (a->key == NULL) - (b->key == NULL);
    }
    size_t n = a->key_bytes < b->key_bytes ? a->key_bytes : b->key_bytes;
    int order = memcmp(a->key, b->key, n);
    return order != 0 ? order : (a->key_bytes > b->key_bytes) - (a->key_bytes < b->key_bytes);
}

static void order_voters(merge *m) {
    m->heap.count = m->count;
    m->heap.compare = compare_voters;
    m->heap.context = m;
    for (size_t r = 0; r < m->count; r++) {
        m->heap.items[r] = (uint32_t)r;
    }
    heap_make(&m->heap);
}

/* Thousands of votes are scattered over memory: prefetches a voter some places ahead. */
static void prefetch_voter(const merge *m, size_t k, size_t n) {
    if (k + VOTERS_AHEAD < n) {
        const voter *v = &m->voters[m->heap.items[m->least[k + VOTERS_AHEAD]]];
        const char *cursor_bytes = (const char *)v->at;
        __builtin_prefetch(cursor_bytes);
        __builtin_prefetch(cursor_bytes + 64);
        __builtin_prefetch(cursor_bytes + 128);
        __builtin_prefetch(v->key);
        __builtin_prefetch(v->value + v->value_bytes);
    }
}

/* Advances the `n` voters at m->least, and restores the heap from the lowest position up. */
static pawl_status advance_least(merge *m, size_t n, pawl_error *err) {
    for (size_t k = 0; k < n; k++) {
        prefetch_voter(m, k, n);
        TRY(advance_voter(m, &m->voters[m->heap.items[m->least[k]]], err));
    }
    for (size_t k = n; k-- > 0;) {
        heap_sink(&m->heap, m->least[k]);
    }
    return PAWL_OK;
}

/* ---- entries and replicas ------------------------------------------------------------------- */

static int compare_rank_numbers(const void *a, const void *b) {
    const uint32_t *x = a;
    const uint32_t *y = b;
    return (*x > *y) - (*x < *y);
}

/* The voters at the places in `least`, by rank. */
static pawl_status take_voters(merge *m, size_t n, pawl_error *err) {
    merge_entry *e = &m->entry;
    TRY(vec_reserve(&e->voters, &e->voter_capacity, n, sizeof(voter *), err));
    for (size_t k = 0; k < n; k++) {
        m->ranks[k] = m->heap.items[m->least[k]];
    }
    qsort(m->ranks, n, sizeof *m->ranks, compare_rank_numbers);
    for (size_t k = 0; k < n; k++) {
        e->voters[k] = &m->voters[m->ranks[k]];
    }
    e->voter_count = n;
    return PAWL_OK;
}

static pawl_status put_entries(merge *m, table_writer *w, uint64_t *count, pawl_error *err) {
    *count = 0;
    order_voters(m);
    for (;;) {
        const voter *top = &m->voters[m->heap.items[0]];
        if (top->key == NULL) {
            return PAWL_OK;
        }
        size_t n = heap_least(&m->heap, m->least);
        TRY(take_voters(m, n, err));
        if (top->key[0] == 'r') {
            TRY(merge_check_replicas(&m->entry, &m->faults, err));
        } else {
            TRY(merge_put_entry(&m->entry, w, &m->faults, err));
            (*count)++;
        }
        if (*count % PROGRESS_ENTRIES == 0 || n > PROGRESS_ENTRIES) {
            show_progress(m);
        }
        TRY(advance_least(m, n, err));
    }
}

pawl_status merge_write(void *context, byte_sink sink, table_summary *summary,
                        uint64_t *entry_count, pawl_error *err) {
    merge *m = context;
    CLEANUP(table_writer_free_pointer) table_writer *w = NULL;
    TRY(table_writer_new(sink, &w, err));
    TRY(put_checksums(m, w, err));
    TRY(put_entries(m, w, entry_count, err));
    TRY(mismatches_end(&m->faults, "what the ranks saved does not fit together",
                       "each element from one rank, and entries alike on all ranks", err));
    return table_writer_finish(w, summary, err);
}
