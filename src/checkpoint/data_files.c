/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the data files of one step without an index: headers, checksums, values, whole tensors. */
#include "checkpoint/data_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define READ_BYTES ENGINE_BUFFER_BYTES

void data_files_free(data_files *d) {
    for (size_t i = 0; i < d->file_count; i++) {
        mem_free(d->files[i].sums);
    }
    mem_free(d->files);
    mem_free(d->checksums);
    mem_free(d->entries);
    arena_free(&d->memory);
}

/* ---- one file ---- */

typedef struct data_file_reading {
    data_files *data;
    const pawl_log *overruled;
    store_file *file;
    uint32_t number;
    const char *name;
    int64_t step;
    uint8_t *window;
} data_file_reading;

/* The sums of the window's blocks; the number of blocks. */
static size_t sum_window(const uint8_t *window, size_t n, uint32_t *sums) {
    size_t count = 0;
    for (size_t at = 0; at < n; at += FORMAT_BLOCK_BYTES) {
        size_t left = n - at;
        sums[count++] =
            crc32c(0, window + at, left < FORMAT_BLOCK_BYTES ? left : FORMAT_BLOCK_BYTES);
    }
    return count;
}

static pawl_status make_sums(data_file_reading *r, pawl_error *err) {
    data_file *file = &r->data->files[r->number];
    uint64_t blocks = file->bytes / FORMAT_BLOCK_BYTES + (file->bytes % FORMAT_BLOCK_BYTES != 0);
    file->sums = mem_calloc(blocks, sizeof(*file->sums));
    if (file->sums == NULL) {
        return error_nomem(err, blocks * sizeof(*file->sums));
    }
    r->data->checksums[r->number] =
        (engine_file){.checksums = file->sums, .block_count = (size_t)blocks};
    return PAWL_OK;
}

/* Are the bytes those that the file was finished with? */
static pawl_status check_sum(const data_file_reading *r, const data_sum_reading *sum,
                             const safetensors_header *header, pawl_error *err) {
    const engine_file *blocks = &r->data->checksums[r->number];
    pawl_status status = data_sum_check(sum, header, blocks->checksums, blocks->block_count, err);
    if (status == PAWL_OK) {
        return PAWL_OK;
    }
    if (r->overruled == NULL) {
        error_safe(err, "nothing was changed");
        error_next(err,
                   "to take what is there now for what was written: pawl rebuild --force %s@%lld",
                   r->file->in->root, (long long)r->step);
        return status;
    }
    log_write(r->overruled, PAWL_LOG_WARN, "what is in %s now is taken for what was written: %s",
              r->name, error_text(err));
    return PAWL_OK;
}

static pawl_status read_sums(data_file_reading *r, const safetensors_header *header,
                             pawl_error *err) {
    uint64_t file_bytes = r->data->files[r->number].bytes;
    data_sum_reading sum = {.header_bytes = header->data_offset, .file_bytes = file_bytes};
    TRY(make_sums(r, err));
    uint32_t *next = r->data->files[r->number].sums;
    for (uint64_t at = 0; at < file_bytes;) {
        uint64_t left = file_bytes - at;
        size_t n = left < READ_BYTES ? (size_t)left : READ_BYTES;
        TRY(store_read(r->file, at, r->window, n, err));
        next += sum_window(r->window, n, next);
        data_sum_look(&sum, at, r->window, n);
        at += n;
    }
    return check_sum(r, &sum, header, err);
}

/* The index has a copy of every value that is not per rank. */
static pawl_status read_value(data_file_reading *r, record_entry *entry, pawl_error *err) {
    if (entry->kind == PAWL_KIND_TENSOR || entry->per_rank) {
        return PAWL_OK;
    }
    size_t n = (size_t)entry->pieces[0].bytes;
    if (entry->pieces[0].bytes > (uint64_t)PAWL_MAX_VALUE_BYTES) {
        error_set(err, PAWL_EDAMAGED, "a value is longer than values may be");
        error_entry(err, entry->name);
        return PAWL_EDAMAGED;
    }
    uint8_t *value = arena_take(&r->data->memory, n + 1, err);
    if (value == NULL) {
        return PAWL_ENOMEM;
    }
    TRY(store_read(r->file, entry->pieces[0].offset, value, n, err));
    entry->value = value;
    entry->value_bytes = n;
    return PAWL_OK;
}

static pawl_status wrong_save(const data_file_reading *r, const char *what, long long expected,
                              long long found, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "the data files do not belong together: %s is of another %s",
              r->name, what);
    error_expected(err, "%s %lld", what, expected);
    error_found(err, "%s %lld", what, found);
    return PAWL_EDAMAGED;
}

/* Is it of the rank that its name says? */
static pawl_status check_rank(const data_file_reading *r, int rank, pawl_error *err) {
    char tag[FORMAT_TAG_CHARS];
    int named = -1;
    uint32_t number;
    uint32_t of;
    if (!name_data_parse(r->name, tag, &named, &number, &of) || named < 0 || named == rank) {
        return PAWL_OK;
    }
    return wrong_save(r, "rank", named, rank, err);
}

static pawl_status take_entries(data_file_reading *r, const safetensors_header *header,
                                pawl_error *err) {
    data_files *d = r->data;
    record_entry *entries;
    size_t count;
    int64_t step;
    int world_size;
    TRY(record_metadata_decode(header, r->number, &d->memory, &entries, &count, &step,
                               &d->files[r->number].rank, &world_size, err));
    if (step != r->step) {
        return wrong_save(r, "step", (long long)r->step, (long long)step, err);
    }
    TRY(check_rank(r, d->files[r->number].rank, err));
    d->world_size = r->number == 0 ? world_size : d->world_size;
    if (world_size != d->world_size) {
        return wrong_save(r, "world size", d->world_size, world_size, err);
    }
    TRY(vec_reserve(&d->entries, &d->entry_capacity, d->entry_count + count, sizeof(*d->entries),
                    err));
    for (size_t i = 0; i < count; i++) {
        TRY(read_value(r, &entries[i], err));
        d->entries[d->entry_count++] = entries[i];
    }
    return PAWL_OK;
}

/* Synced at the end: after an interrupted save its bytes may be in memory only. */
static pawl_status read_open_file(data_file_reading *r, pawl_error *err) {
    CLEANUP(safetensors_header_free) safetensors_header header = {0};
    byte_source source;
    TRY(store_source(r->file, &source, err));
    TRY(data_sum_begun(&source, err));
    TRY(safetensors_decode(&source, &header, err));
    TRY(data_sum_finished(&header, err));
    r->data->files[r->number].bytes = source.size;
    TRY(take_entries(r, &header, err));
    TRY(read_sums(r, &header, err));
    return store_sync(r->file, err);
}

static pawl_status read_file(data_file_reading *r, store *s, const char *directory,
                             pawl_error *err) {
    char path[STORE_MAX_PATH];
    CLEANUP(store_close_pointer) store_file *file = NULL;
    snprintf(path, sizeof(path), "%s/%s", directory, r->name);
    TRY(store_open(s, path, STORE_READ, &file, err));
    r->file = file;
    pawl_status status = read_open_file(r, err);
    if (status != PAWL_OK) {
        error_wrap(err, "reading a data file");
        error_path(err, "%s/%s", s->root, path);
    }
    return status;
}

/* ---- whole entries ---- */

static int compare_entries(const void *a, const void *b) {
    const record_entry *left = a;
    const record_entry *right = b;
    int order = strcmp(left->name, right->name);
    if (order != 0) {
        return order;
    }
    const record_piece *l = &left->pieces[0];
    const record_piece *r = &right->pieces[0];
    if (l->rank != r->rank) {
        return l->rank < r->rank ? -1 : 1;
    }
    if (l->file != r->file) {
        return l->file < r->file ? -1 : 1;
    }
    return (l->offset > r->offset) - (l->offset < r->offset);
}

static pawl_status bad_entry(const record_entry *entry, const char *what, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "%s", what);
    error_entry(err, entry->name);
    error_found(err, "%zu pieces", entry->piece_count);
    return PAWL_EDAMAGED;
}

static pawl_status check_value_pieces(const record_entry *entry, pawl_error *err) {
    if (!entry->per_rank && entry->piece_count > 1) {
        return bad_entry(entry, "a value is there more than once", err);
    }
    for (size_t i = 1; i < entry->piece_count; i++) {
        if (entry->pieces[i].rank == entry->pieces[i - 1].rank) {
            return bad_entry(entry, "a rank has a value more than once", err);
        }
    }
    return PAWL_OK;
}

/* Entries [first, first + count) have the same name: the first one gets the pieces of all. */
static pawl_status merge_pieces(data_files *d, size_t first, size_t count, pawl_error *err) {
    record_entry *whole = &d->entries[first];
    if (count > 1) {
        record_piece *pieces = arena_take(&d->memory, count * sizeof(*pieces), err);
        if (pieces == NULL) {
            return PAWL_ENOMEM;
        }
        for (size_t i = 0; i < count; i++) {
            if (!record_entry_alike(whole, &whole[i])) {
                return bad_entry(whole, "data files describe an entry differently", err);
            }
            pieces[i] = whole[i].pieces[0];
        }
        whole->pieces = pieces;
        whole->piece_count = count;
    }
    return whole->kind == PAWL_KIND_TENSOR ? PAWL_OK : check_value_pieces(whole, err);
}

static pawl_status merge_entries(data_files *d, pawl_error *err) {
    size_t kept = 0;
    if (d->entry_count > 0) {
        qsort(d->entries, d->entry_count, sizeof(*d->entries), compare_entries);
    }
    for (size_t first = 0; first < d->entry_count;) {
        size_t end = first + 1;
        while (end < d->entry_count && strcmp(d->entries[first].name, d->entries[end].name) == 0) {
            end++;
        }
        TRY(merge_pieces(d, first, end - first, err));
        d->entries[kept++] = d->entries[first];
        first = end;
    }
    d->entry_count = kept;
    return PAWL_OK;
}

/* ---- all files ---- */

static pawl_status allocate_files(data_files *d, const manifest *m, pawl_error *err) {
    d->files = mem_calloc(m->file_count, sizeof(*d->files));
    d->checksums = mem_calloc(m->file_count, sizeof(*d->checksums));
    if (d->files == NULL || d->checksums == NULL) {
        return error_nomem(err, m->file_count * sizeof(*d->files));
    }
    d->file_count = m->file_count;
    return PAWL_OK;
}

pawl_status data_files_read(data_files *d, store *s, const char *directory, int64_t step,
                            const manifest *m, const pawl_log *overruled, pawl_error *err) {
    *d = (data_files){0};
    TRY(allocate_files(d, m, err));
    AUTOFREE uint8_t *window = mem_alloc(READ_BYTES);
    if (window == NULL) {
        return error_nomem(err, READ_BYTES);
    }
    for (size_t i = 0; i < m->file_count; i++) {
        data_file_reading r = {.data = d,
                               .overruled = overruled,
                               .number = (uint32_t)i,
                               .name = m->files[i].name,
                               .step = step,
                               .window = window};
        TRY(read_file(&r, s, directory, err));
    }
    return merge_entries(d, err);
}

static pawl_status next_merged(void *context, const record_entry **out, pawl_error *err) {
    (void)err;
    data_files *d = context;
    *out = d->next < d->entry_count ? &d->entries[d->next++] : NULL;
    return PAWL_OK;
}

entry_source data_files_entries(data_files *d) {
    d->next = 0;
    return (entry_source){.context = d, .next = next_merged};
}
