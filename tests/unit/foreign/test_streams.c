/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors that lie in a file in another way than pawl reads them, compared with what one finds
 * element by element. */
#include "lib/stored.h"

#include "lib/in_memory.h"
#include "lib/test.h"

#include "foreign/streams.h"
#include "stores/stores.h"
#include "tensor/tensor.h"

#include <string.h>

#define FILE_NAME "elements"

/* What the reader of the format below adds. */
static stream_layout layout;
static uint64_t stream_bytes;

static pawl_status read_layout(archive *a, pawl_error *err) {
    uint32_t file, stream;
    TRY(archive_add_file(a, FILE_NAME, &file, err));
    layout.stream = file;
    TRY(stream_add_strided(a, &layout, stream_bytes, &stream, err));
    const archive_part part = {.stream = stream, .bytes = a->streams[0].bytes};
    const archive_tensor tensor = {.name = "t",
                                   .type = "ELEMENTS",
                                   .ndim = layout.ndim,
                                   .shape = layout.shape,
                                   .parts = &part,
                                   .part_count = 1};
    return archive_add_tensor(a, &tensor, err);
}

static const archive_format format = {.name = "test", .unverified = "all", .read = read_layout};

/* ---- element by element ---- */

static void expect(const uint8_t *file, uint8_t *out, size_t bytes) {
    int64_t strides[PAWL_MAX_NDIM];
    int64_t stride = 1;
    for (int d = layout.ndim - 1; d >= 0; d--) {
        strides[d] = layout.strides != NULL ? layout.strides[d] : stride;
        stride *= layout.shape[d];
    }
    for (size_t i = 0; i < bytes / layout.element_bytes; i++) {
        size_t left = i;
        int64_t at = 0;
        for (int d = layout.ndim - 1; d >= 0; d--) {
            at += (int64_t)(left % (size_t)layout.shape[d]) * strides[d];
            left /= (size_t)layout.shape[d];
        }
        const uint8_t *from = file + (int64_t)layout.offset + at * (int64_t)layout.element_bytes;
        for (uint32_t k = 0; k < layout.element_bytes; k++) {
            uint32_t part = k / layout.swap_bytes * layout.swap_bytes;
            out[i * layout.element_bytes + k] =
                from[part + layout.swap_bytes - 1 - k % layout.swap_bytes];
        }
        out[(i + 1) * layout.element_bytes - 1] ^= layout.conjugated ? 0x80 : 0;
    }
}

/* Reads all of it, `step` bytes at a time, the pieces from the last to the first. */
static void assert_reads(store *s, const uint8_t *file, size_t step) {
    struct pawl_error err = ERROR_INIT;
    struct source *source;
    store_file *opened;
    assert_ok(archive_open(s, false, &format, FILE_NAME, false, &source, &err), &err);
    size_t bytes = (size_t)((archive *)source)->streams[0].bytes;
    AUTOFREE uint8_t *expected = mem_alloc(bytes + 1);
    AUTOFREE uint8_t *found = mem_calloc(bytes + 1, 1);
    expect(file, expected, bytes);
    assert_ok(source->ops->open(source, ARCHIVE_PHASES, STORE_READ, &opened, &err), &err);
    for (size_t end = bytes; end > 0;) {
        size_t at = end > step ? end - step : 0;
        assert_ok(store_read(opened, at, found + at, end - at, &err), &err);
        end = at;
    }
    assert_memory_equal(found, expected, bytes);
    store_close(opened);
    source_destroy(source);
}

static uint8_t *put_elements(store *s, size_t bytes) {
    uint8_t *file = mem_alloc(bytes + 1);
    assert_non_null(file);
    for (size_t i = 0; i < bytes; i++) {
        file[i] = (uint8_t)(i * 2654435761u >> 13);
    }
    put_anew(s, FILE_NAME, file, bytes);
    stream_bytes = bytes;
    return file;
}

static uint32_t next_number(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static void test_layouts_of_all_kinds(void **state) {
    static const uint32_t sizes[] = {1, 2, 4, 8, 16};
    store *s = *state;
    AUTOFREE uint8_t *file = put_elements(s, 1u << 20);
    for (uint32_t seed = 1; seed <= 600; seed++) {
        uint32_t random = seed;
        int64_t shape[5], strides[5];
        uint64_t offset = 0;
        int64_t span = 1;
        layout.ndim = (int)(next_number(&random) % 6);
        layout.element_bytes = sizes[next_number(&random) % 5];
        layout.swap_bytes = layout.element_bytes;
        if (next_number(&random) % 2 == 0) {
            layout.swap_bytes = layout.element_bytes == 16 ? 8 : 1;
        }
        layout.conjugated = next_number(&random) % 3 == 0;
        for (int d = 0; d < layout.ndim; d++) {
            shape[d] = 1 + (int64_t)(next_number(&random) % 6);
            strides[d] = (int64_t)(next_number(&random) % 40) - 12;
            offset += strides[d] < 0 ? (uint64_t)((shape[d] - 1) * -strides[d]) : 0;
            span += (shape[d] - 1) * (strides[d] < 0 ? -strides[d] : strides[d]);
        }
        layout.shape = shape;
        layout.strides = next_number(&random) % 8 == 0 ? NULL : strides;
        layout.offset = offset * layout.element_bytes + next_number(&random) % 100;
        assert_true((uint64_t)span * layout.element_bytes < stream_bytes);
        assert_reads(s, file, 1 + next_number(&random) % 700);
    }
}

/* Too large for one tile, and for one read of what it is made of. */
static void test_large_column_major_and_permuted(void **state) {
    static const struct {
        int64_t shape[3], strides[3];
        uint64_t offset;
    } cases[] = {
        {{1, 1700, 1501}, {0, 1, 1700}, 5},          /* column-major */
        {{40, 251, 254}, {254, 10160, 1}, 0},        /* the first two are swapped */
        {{1, 1700, 1501}, {0, -1501, -1}, 20413592}, /* backwards */
        {{2, 3, 425000}, {1, 2, 6}, 4},              /* the fastest dimension comes first */
        {{1, 1, 2551690}, {0, 0, 1}, 8},             /* one long row */
        {{1, 3, 1000000}, {0, 1, 0}, 8},             /* repeated */
    };
    store *s = *state;
    AUTOFREE uint8_t *file = put_elements(s, 20413616);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        layout = (stream_layout){.offset = cases[i].offset,
                                 .element_bytes = 8,
                                 .swap_bytes = 8,
                                 .ndim = 3,
                                 .shape = cases[i].shape,
                                 .strides = cases[i].strides};
        assert_reads(s, file, 3000000);
    }
}

static void test_r14_elements_outside_of_the_stream(void **state) {
    static const struct {
        int64_t shape[2], strides[2];
        uint64_t offset;
    } cases[] = {
        {{2, 13}, {12, 1}, 0},       /* one too many */
        {{2, 12}, {12, 1}, 1},       /* a byte too far */
        {{2, 12}, {-12, 1}, 0},      /* before the beginning */
        {{2, 1}, {INT64_MAX, 1}, 0}, /* far away */
        {{2, 1}, {INT64_MIN, 1}, 0}, /* far away on the other side */
        {{INT64_MAX, 2}, {0, 0}, 0}, /* more than any memory */
        {{1, -1}, {1, 1}, 0},
    };
    store *s = *state;
    struct pawl_error err = ERROR_INIT;
    AUTOFREE uint8_t *file = put_elements(s, 96);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct source *source;
        layout = (stream_layout){.offset = cases[i].offset,
                                 .element_bytes = 4,
                                 .swap_bytes = 1,
                                 .ndim = 2,
                                 .shape = cases[i].shape,
                                 .strides = cases[i].strides};
        assert_fails(archive_open(s, false, &format, FILE_NAME, false, &source, &err),
                     PAWL_EDAMAGED, &err);
        assert_says(err.attempt, "elements outside");
    }
    layout.shape = (const int64_t[]){2, 12};
    layout.strides = (const int64_t[]){12, 1};
    assert_reads(s, file, 7);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        IN_MEMORY(test_layouts_of_all_kinds),
        IN_MEMORY(test_large_column_major_and_permuted),
        IN_MEMORY(test_r14_elements_outside_of_the_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
