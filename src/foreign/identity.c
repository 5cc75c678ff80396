/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells weights from any others, by a sum over their headers and over samples of their bytes.
 *
 * Of the headers that is all that decides what is read: names, types, shapes and places of the
 * tensors, and the sizes of the files. Two checkpoints of one model have all of it in common, so
 * some bytes of each tensor take part. Where and when the files were made does not: each node may
 * have a copy of its own. Weights that differ in single values only, all of them outside of the
 * samples, are taken for the same.
 */
#include "foreign/weights.h"

#include <stdlib.h>
#include <string.h>

#define SAMPLE_BYTES  4096u
#define LEAST_SAMPLES 64u   /* also of a few large tensors */
#define MOST_SAMPLES  4096u /* of more tensors than that, some have none */

typedef struct sample {
    uint32_t shard;
    uint64_t offset;
    size_t bytes;
} sample;

typedef struct summing {
    weights *of;
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

static void sum_tensor(summing *s, const weight *w) {
    const safetensors_tensor *t = w->tensor;
    sum_text(s, t->name);
    sum_text(s, t->type != NULL ? t->type : pawl_dtype_name(t->dtype));
    sum_number(s, (uint64_t)t->ndim);
    for (int d = 0; d < t->ndim; d++) {
        sum_number(s, (uint64_t)t->shape[d]);
    }
    sum_number(s, w->shard);
    sum_number(s, t->offset);
    sum_number(s, t->bytes);
}

/* ---- samples ---- */

static pawl_status add_samples(summing *s, const weight *w, pawl_error *err) {
    const safetensors_tensor *t = w->tensor;
    size_t bytes = t->bytes < SAMPLE_BYTES ? (size_t)t->bytes : SAMPLE_BYTES;
    uint64_t fit = t->bytes > SAMPLE_BYTES ? t->bytes / SAMPLE_BYTES : 1;
    uint64_t n = fit < s->of_each ? fit : s->of_each;
    uint64_t apart = (t->bytes - bytes) / n;
    for (uint64_t i = 0; i < n && bytes > 0; i++) {
        TRY(vec_reserve(&s->samples, &s->room, s->count + 1, sizeof(*s->samples), err));
        s->samples[s->count++] = (sample){
            .shard = w->shard, .offset = t->offset + i * apart + apart / 2, .bytes = bytes};
    }
    return PAWL_OK;
}

static int by_place(const void *a, const void *b) {
    const sample *left = a;
    const sample *right = b;
    if (left->shard != right->shard) {
        return left->shard < right->shard ? -1 : 1;
    }
    return (left->offset > right->offset) - (left->offset < right->offset);
}

/* The first `n` of them, which are of one file. */
static pawl_status sum_samples(summing *s, const sample *samples, size_t n, pawl_error *err) {
    CLEANUP(store_close_pointer) store_file *file = NULL;
    uint8_t bytes[SAMPLE_BYTES];
    TRY(weights_open_file(s->of, samples->shard, 0, STORE_READ, &file, err));
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
        for (n = 1; at + n < s->count && first[n].shard == first->shard; n++) {
        }
        pawl_status status = sum_samples(s, first, n, err);
        if (status != PAWL_OK) {
            weights_file_path(s->of, s->of->shards[first->shard], err);
            return status;
        }
    }
    return PAWL_OK;
}

/* ---- all of it ---- */

static pawl_status sum_weights(summing *s, pawl_error *err) {
    const weights *w = s->of;
    size_t count = (size_t)w->base.entries;
    size_t every = (count + MOST_SAMPLES - 1) / MOST_SAMPLES;
    for (uint32_t i = 0; i < w->base.files; i++) {
        sum_number(s, w->headers[i].file_bytes);
    }
    for (size_t i = 0; i < count; i++) {
        sum_tensor(s, &w->entries[i]);
        if (i % every == 0) {
            TRY(add_samples(s, &w->entries[i], err));
        }
    }
    return sum_all_samples(s, err);
}

pawl_status weights_identity(struct source *base, uint32_t *sum, pawl_error *err) {
    uint64_t count = base->entries > 0 ? base->entries : 1;
    summing s = {.of = (weights *)base, .of_each = (LEAST_SAMPLES + count - 1) / count};
    pawl_status status = sum_weights(&s, err);
    mem_free(s.samples);
    *sum = s.sum;
    return status;
}
