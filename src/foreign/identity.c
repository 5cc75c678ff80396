/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells a checkpoint of another tool from any others, by a sum over what describes it, and over
 * samples of its bytes.
 *
 * The first is all that decides what is read: names, types, shapes and places of the tensors, the
 * values, and the sizes of the files. Two checkpoints of one model have all of it in common, so
 * some bytes of each tensor take part. Where and when the files were made does not: each node may
 * have a copy of its own. Checkpoints that differ in single values only, all of them outside of the
 * samples, are taken for the same.
 */
#include "foreign/archive.h"

#include <stdlib.h>
#include <string.h>

#define SAMPLE_BYTES  4096u
#define LEAST_SAMPLES 64u   /* also of a few large tensors */
#define MOST_SAMPLES  4096u /* of more tensors than that, some have none */

typedef struct sample {
    uint32_t stream;
    uint64_t offset;
    size_t bytes;
} sample;

typedef struct summing {
    archive *of;
    uint32_t sum;
    uint64_t of_each; /* so many samples of a tensor */
    sample *samples;
    size_t count, room;
} summing;

static void sum_number(summing *s, uint64_t number) {
    uint8_t bytes[8];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)(number >> (8 * i));
    }
    s->sum = crc32c(s->sum, bytes, sizeof bytes);
}

static void sum_text(summing *s, const char *text) {
    s->sum = crc32c(s->sum, text, strlen(text) + 1);
}

static void sum_entry(summing *s, const record_entry *e) {
    const char *type = record_entry_type(e);
    sum_text(s, e->name);
    sum_text(s, type != NULL ? type : pawl_kind_name(e->kind));
    sum_number(s, (uint64_t)e->ndim);
    for (int d = 0; d < e->ndim; d++) {
        sum_number(s, (uint64_t)e->shape[d]);
    }
    if (e->value != NULL) {
        sum_number(s, e->value_bytes);
        s->sum = crc32c(s->sum, e->value, e->value_bytes);
    }
    for (size_t i = 0; i < e->piece_count; i++) {
        sum_number(s, e->pieces[i].file);
        sum_number(s, e->pieces[i].offset);
        sum_number(s, e->pieces[i].bytes);
    }
}

/* ---- samples ---- */

static pawl_status add_samples(summing *s, const record_piece *piece, pawl_error *err) {
    size_t bytes = piece->bytes < SAMPLE_BYTES ? (size_t)piece->bytes : SAMPLE_BYTES;
    uint64_t fit = piece->bytes > SAMPLE_BYTES ? piece->bytes / SAMPLE_BYTES : 1;
    uint64_t n = fit < s->of_each ? fit : s->of_each;
    uint64_t apart = (piece->bytes - bytes) / n;
    for (uint64_t i = 0; i < n && bytes > 0; i++) {
        TRY(vec_reserve(&s->samples, &s->room, s->count + 1, sizeof(*s->samples), err));
        s->samples[s->count++] = (sample){
            .stream = piece->file, .offset = piece->offset + i * apart + apart / 2, .bytes = bytes};
    }
    return PAWL_OK;
}

static int by_place(const void *a, const void *b) {
    const sample *left = a;
    const sample *right = b;
    if (left->stream != right->stream) {
        return left->stream < right->stream ? -1 : 1;
    }
    return (left->offset > right->offset) - (left->offset < right->offset);
}

/* The first `n` of them, which are of one stream. */
static pawl_status sum_samples(summing *s, const sample *samples, size_t n, pawl_error *err) {
    CLEANUP(store_close_pointer) store_file *file = NULL;
    uint8_t bytes[SAMPLE_BYTES];
    TRY(archive_open_stream(s->of, samples->stream, STORE_READ, &file, err));
    for (size_t i = 0; i < n; i++) {
        TRY(store_read(file, samples[i].offset, bytes, samples[i].bytes, err));
        s->sum = crc32c(s->sum, bytes, samples[i].bytes);
        s->of->base.reads.reads++;
        s->of->base.reads.bytes += samples[i].bytes;
    }
    return PAWL_OK;
}

static pawl_status sum_all_samples(summing *s, pawl_error *err) {
    size_t n = 0;
    if (s->count > 1) {
        qsort(s->samples, s->count, sizeof(*s->samples), by_place);
    }
    for (size_t at = 0; at < s->count; at += n) {
        const sample *first = &s->samples[at];
        for (n = 1; at + n < s->count && first[n].stream == first->stream; n++) {
        }
        pawl_status status = sum_samples(s, first, n, err);
        if (status != PAWL_OK) {
            archive_error_file(s->of, archive_file_of(s->of, first->stream), err);
            return status;
        }
    }
    return PAWL_OK;
}

/* ---- all of it ---- */

static pawl_status sum_archive(summing *s, pawl_error *err) {
    const archive *a = s->of;
    size_t count = (size_t)a->base.entries;
    size_t every = (count + MOST_SAMPLES - 1) / MOST_SAMPLES;
    for (uint32_t i = 0; i < a->base.files; i++) {
        sum_number(s, a->files[i].was.size);
    }
    for (size_t i = 0; i < count; i++) {
        const record_entry *e = &a->entries[i];
        sum_entry(s, e);
        if (i % every == 0 && e->value == NULL && e->piece_count > 0) {
            TRY(add_samples(s, &e->pieces[i % e->piece_count], err));
        }
    }
    return sum_all_samples(s, err);
}

pawl_status archive_identity(struct source *base, uint32_t *sum, pawl_error *err) {
    uint64_t count = base->entries > 0 ? base->entries : 1;
    summing s = {.of = (archive *)base, .of_each = (LEAST_SAMPLES + count - 1) / count};
    pawl_status status = sum_archive(&s, err);
    mem_free(s.samples);
    *sum = s.sum;
    return status;
}
