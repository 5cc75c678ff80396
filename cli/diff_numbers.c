/* SPDX-License-Identifier: Apache-2.0 */
/* pawl diff, the numbers of two tensors, in memory or read slice by slice. */
#include "diff.h"
#include "memory.h"
#include "numbers.h"
#include "signals.h"
#include "slices.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { AT_ONCE = 4096, MOST_PACKED_BYTES = 256 * 1024 * 1024 };

static void add_distances(distances *d, const double *distance, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (isnan(distance[i])) {
            continue;
        }
        d->max_abs = distance[i] > d->max_abs ? distance[i] : d->max_abs;
        if (isfinite(distance[i])) {
            d->sum += (long double)distance[i];
            d->finite++;
        }
    }
}

static void compare_elements(distances *d, pawl_dtype dtype, const char *a, const char *b,
                             size_t count) {
    double distance[AT_ONCE];
    size_t size = numbers_size(dtype);
    numbers_distance(dtype, a, b, distance, count);
    for (size_t i = 0; i < count; i++) {
        bool same = memcmp(a + i * size, b + i * size, size) == 0;
        d->differing += !same;
        d->nan += !same && isnan(distance[i]);
        distance[i] = same ? 0 : distance[i]; /* NaNs with the same bits are equal */
    }
    add_distances(d, distance, count);
}

static void compare_slice(distances *d, pawl_dtype dtype, const char *a, const char *b,
                          uint64_t count) {
    size_t size = numbers_size(dtype);
    d->elements += count;
    for (uint64_t done = 0; done < count; done += AT_ONCE) {
        size_t n = count - done < AT_ONCE ? (size_t)(count - done) : AT_ONCE;
        const char *from_a = a + done * size;
        const char *from_b = b + done * size;
        if (memcmp(from_a, from_b, n * size) == 0) {
            d->finite += n;
        } else {
            compare_elements(d, dtype, from_a, from_b, n);
        }
    }
}

static uint64_t bytes_read(const comparison *c, const pawl_checkpoint *checkpoint) {
    pawl_read_stats reads = {.struct_size = sizeof reads};
    return pawl_checkpoint_reads(checkpoint, &reads, c->out->err) == PAWL_OK ? reads.bytes : 0;
}

void diff_show_progress(const comparison *c) {
    progress_update(&c->out->progress, bytes_read(c, c->a) + bytes_read(c, c->b), c->of_bytes);
}

static pawl_status read_both(const comparison *c, const tensor_ref *t, const slices *s, char *a,
                             char *b, size_t bytes) {
    const int64_t *offset = s != NULL ? s->offset : NULL;
    const int64_t *extent = s != NULL ? s->extent : NULL;
    pawl_status status = pawl_checkpoint_read(c->a, t->name, offset, extent, a, bytes, c->out->err);
    if (status == PAWL_OK) {
        status = pawl_checkpoint_read(c->b, t->name, offset, extent, b, bytes, c->out->err);
    }
    diff_show_progress(c);
    return status;
}

/* Elements of packed types do not fill whole bytes: these tensors are compared byte by byte. */
static void compare_bytes(distances *d, const char *a, const char *b, size_t bytes) {
    d->elements = bytes;
    for (size_t i = 0; i < bytes; i++) {
        d->differing += a[i] != b[i];
    }
}

static pawl_status compare_packed(comparison *c, const tensor_ref *t, distances *d) {
    d->elements = t->bytes;
    if (t->bytes > MOST_PACKED_BYTES) {
        d->uncompared = true;
        return PAWL_OK;
    }
    size_t bytes = (size_t)t->bytes;
    SCOPED(scoped_free) char *a = must_alloc(bytes);
    SCOPED(scoped_free) char *b = must_alloc(bytes);
    pawl_status status = read_both(c, t, NULL, a, b, bytes);
    if (status == PAWL_OK) {
        compare_bytes(d, a, b, bytes);
    }
    return status;
}

static pawl_status compare_slices(comparison *c, const tensor_ref *t, distances *d) {
    size_t size = numbers_size(t->dtype);
    size_t most = t->bytes < SLICE_BYTES ? (size_t)t->bytes : SLICE_BYTES;
    SCOPED(scoped_free) char *a = must_alloc(most);
    SCOPED(scoped_free) char *b = must_alloc(most);
    slices s = slices_of(t->ndim, t->shape, SLICE_BYTES / size);
    while (slices_next(&s)) {
        if (signals_caught()) {
            return PAWL_ECANCELED;
        }
        pawl_status status = read_both(c, t, &s, a, b, (size_t)s.elements * size);
        if (status != PAWL_OK) {
            return status;
        }
        compare_slice(d, t->dtype, a, b, s.elements);
    }
    return PAWL_OK;
}

pawl_status diff_numbers(comparison *c, const tensor_ref *t, const tensor_bytes *bytes,
                         distances *d) {
    bool numbers = numbers_known(t->dtype);
    *d = (distances){0};
    if (t->dtype == (pawl_dtype)0) {
        d->uncompared = true;
        return PAWL_OK;
    }
    if (bytes == NULL) {
        return numbers ? compare_slices(c, t, d) : compare_packed(c, t, d);
    }
    if (numbers) {
        compare_slice(d, t->dtype, bytes->a, bytes->b, t->elements);
    } else {
        compare_bytes(d, bytes->a, bytes->b, (size_t)t->bytes);
    }
    return PAWL_OK;
}
