/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout of a save, of any small tensors on a few ranks: gathered in any stretches a file has
 * the same bytes; its header is understood; and all files together have every element of every
 * tensor exactly once, with its bytes. A second way in has tensors so large that replicas share
 * them in slices: there, nothing is gathered.
 */
#include "grid.h"

#include "plan/plan.h"
#include "state/state.h"

#include <stdio.h>

#define MOST_RANKS   3
#define MOST_TENSORS 4
#define MOST_PARTS   6
#define TAG          "7f3a9c21e04b-1"

typedef struct made_tensor {
    grid g;
    pawl_dtype dtype;
    size_t width;
    bool replicated;
    size_t count;
    box parts[MOST_PARTS]; /* disjoint, all of the shape */
    int rank[MOST_PARTS];  /* that holds it; of what is replicated all do */
    char name[16];
} made_tensor;

typedef struct made {
    int world_size;
    size_t count;
    made_tensor tensors[MOST_TENSORS];
    grid seen[MOST_TENSORS];
    uint64_t split;
    size_t step; /* of gathering in stretches */
    arena memory;
} made;

/* Byte `b` of element `i` of tensor `t`. */
static uint8_t pattern(size_t t, int64_t i, size_t b) {
    return (uint8_t)(t * 101 + (size_t)i * 7 + b * 31 + 1);
}

/* The number of an element of the tensor, by its number in a box. */
static int64_t element_of(const grid *g, const box *b, int64_t in_box) {
    int64_t i = 0, scale = 1;
    for (int d = g->ndim; d-- > 0;) {
        i += (b->offset[d] + in_box % b->extent[d]) * scale;
        in_box /= b->extent[d];
        scale *= g->shape[d];
    }
    return i;
}

/* ---- what is saved -------------------------------------------------------------------------- */

static void make_tensor(made *m, fuzz_bytes *in) {
    static const pawl_dtype dtypes[] = {PAWL_U8, PAWL_F32, PAWL_I16, PAWL_F64};
    made_tensor *t = &m->tensors[m->count];
    *t = (made_tensor){.dtype = dtypes[fuzz_below(in, 4)], .count = 1};
    (void)snprintf(t->name, sizeof t->name, "%s/%u", m->count % 2 ? "b" : "a", (unsigned)m->count);
    grid_take(&t->g, in, 3);
    t->width = (size_t)pawl_dtype_bits(t->dtype) / 8;
    t->replicated = fuzz_below(in, 3) == 0;
    t->parts[0] = box_whole(t->g.ndim, t->g.shape);
    while (t->count < MOST_PARTS && t->g.ndim > 0 && fuzz_below(in, 3) != 0) {
        box *whole = &t->parts[fuzz_below(in, (unsigned)t->count)];
        int d = (int)fuzz_below(in, (unsigned)t->g.ndim);
        int64_t at = (int64_t)fuzz_below(in, (unsigned)whole->extent[d] + 1);
        t->parts[t->count] = *whole;
        t->parts[t->count].offset[d] += at;
        t->parts[t->count++].extent[d] -= at;
        whole->extent[d] = at;
    }
    for (size_t i = 0; i < t->count; i++) {
        t->rank[i] = (int)fuzz_below(in, (unsigned)m->world_size);
    }
    m->seen[m->count++] = t->g;
}

/* Dense, or with rows that stand apart. */
static void fill_box(made *m, size_t number, const box *b, bool apart, pawl_box *out) {
    const made_tensor *t = &m->tensors[number];
    int n = b->ndim;
    int64_t *numbers = arena_alloc(&m->memory, 3 * 3 * sizeof *numbers);
    int64_t stride = (int64_t)t->width;
    FUZZ_CHECK(numbers != NULL);
    for (int d = n; d-- > 0;) {
        numbers[d] = b->offset[d];
        numbers[3 + d] = b->extent[d];
        numbers[6 + d] = stride;
        stride *= b->extent[d] + (apart ? 1 : 0);
    }
    uint8_t *data = arena_alloc(&m->memory, (size_t)stride + 1);
    FUZZ_CHECK(data != NULL);
    memset(data, 0xee, (size_t)stride + 1);
    for (int64_t i = 0; i < (int64_t)box_elements(b); i++) {
        int64_t at = 0, rest = i;
        for (int d = n; d-- > 0;) {
            at += rest % b->extent[d] * numbers[6 + d];
            rest /= b->extent[d];
        }
        for (size_t k = 0; k < t->width; k++) {
            data[(size_t)at + k] = pattern(number, element_of(&t->g, b, i), k);
        }
    }
    *out = (pawl_box){.offset = numbers,
                      .extent = numbers + 3,
                      .data = data,
                      .strides = apart ? numbers + 6 : NULL};
}

static void add_tensors(made *m, int rank, bool apart, pawl_state *state) {
    pawl_error err = ERROR_INIT;
    for (size_t k = 0; k < m->count; k++) {
        const made_tensor *t = &m->tensors[k];
        pawl_box boxes[MOST_PARTS];
        size_t n = 0;
        for (size_t i = 0; i < t->count; i++) {
            if (t->replicated || t->rank[i] == rank) {
                fill_box(m, k, &t->parts[i], apart, &boxes[n++]);
            }
        }
        const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                    .name = t->name,
                                    .dtype = t->dtype,
                                    .ndim = t->g.ndim,
                                    .shape = t->g.shape,
                                    .nboxes = n,
                                    .boxes = boxes,
                                    .replicated = t->replicated};
        if (n > 0) {
            FUZZ_CHECK(state_add_tensor(state, &tensor, &err) == PAWL_OK);
        }
    }
    FUZZ_CHECK(state_set_value(state, "step", PAWL_KIND_STRING, PAWL_ROLE_OTHER, false, "now", 3,
                               &err) == PAWL_OK);
    FUZZ_CHECK(state_set_value(state, "rng", PAWL_KIND_BYTES, PAWL_ROLE_OTHER, true, &rank,
                               sizeof rank, &err) == PAWL_OK);
}

/* ---- what is in the files ------------------------------------------------------------------- */

static void check_piece(made *m, const record_entry *e, const uint8_t *bytes) {
    const record_piece *p = &e->pieces[0];
    for (size_t k = 0; k < m->count; k++) {
        const made_tensor *t = &m->tensors[k];
        if (strcmp(t->name, e->name) != 0) {
            continue;
        }
        box b = box_of(e->ndim, p->box_offset, p->box_extent);
        FUZZ_CHECK(e->dtype == t->dtype && shape_equal(e->ndim, e->shape, t->g.ndim, t->g.shape));
        FUZZ_CHECK(p->bytes == box_elements(&b) * t->width);
        grid_add(&m->seen[k], &b);
        for (uint64_t i = 0; i < p->bytes; i++) {
            int64_t element = element_of(&t->g, &b, (int64_t)(i / t->width));
            FUZZ_CHECK(bytes[p->offset + i] == pattern(k, element, (size_t)(i % t->width)));
        }
    }
}

static void check_bytes(made *m, const plan_layout *layout, const buffer *file) {
    CLEANUP(arena_free) arena memory = {.blocks = NULL};
    byte_source source = byte_source_memory(file);
    pawl_error err = ERROR_INIT;
    safetensors_header header;
    record_entry *entries;
    size_t count;
    int64_t step;
    int rank, world_size;
    FUZZ_CHECK(safetensors_decode(&source, &header, &err) == PAWL_OK);
    FUZZ_CHECK(record_metadata_decode(&header, 0, &memory, &entries, &count, &step, &rank,
                                      &world_size, &err) == PAWL_OK);
    FUZZ_CHECK(rank == layout->rank && world_size == layout->world_size && step == layout->step);
    for (size_t i = 0; i < count; i++) {
        check_piece(m, &entries[i], file->data);
    }
    safetensors_header_free(&header);
}

/* The same in stretches, and where it lies in memory as in the file. */
static void check_stretches(const plan_layout *layout, size_t number, const buffer *whole,
                            size_t most) {
    uint8_t stretch[512];
    size_t going_on = 0, piece = 0;
    size_t begin = layout->files[number].header.size - 8;
    for (size_t at = begin; at < whole->size;) {
        size_t n = whole->size - at < most ? whole->size - at : most;
        plan_layout_gather_on(layout, number, at, n, stretch, &going_on);
        FUZZ_CHECK(memcmp(stretch, whole->data + at, n) == 0);
        const uint8_t *dense = plan_layout_dense(layout, number, at, n, &piece);
        FUZZ_CHECK(dense == NULL || memcmp(dense, stretch, n) == 0);
        at += n;
    }
}

static void check_file(made *m, const plan_layout *layout, size_t number) {
    size_t n = (size_t)layout->files[number].bytes;
    buffer whole = {.data = mem_alloc(n), .size = n, .capacity = n};
    FUZZ_CHECK(whole.data != NULL);
    plan_layout_gather(layout, number, 0, n, whole.data);
    check_bytes(m, layout, &whole);
    check_stretches(layout, number, &whole, m->step);
    buffer_free(&whole);
}

static bool save(made *m, int rank, bool apart) {
    pawl_error err = ERROR_INIT;
    pawl_state *state = NULL;
    state_snapshot *snapshot = NULL;
    plan_layout *layout = NULL;
    const plan_layout_options options = {
        .tag = TAG, .rank = rank, .world_size = m->world_size, .split_header_bytes = m->split};
    FUZZ_CHECK(state_new(&state, &err) == PAWL_OK);
    add_tensors(m, rank, apart, state);
    FUZZ_CHECK(state_snapshot_take(state, 5, false, &snapshot, &err) == PAWL_OK);
    FUZZ_CHECK(plan_layout_make(snapshot, &options, &layout, &err) == PAWL_OK);
    for (size_t i = 0; i < layout->file_count; i++) {
        check_file(m, layout, i);
    }
    plan_layout_free(layout);
    state_snapshot_free(snapshot);
    state_free(state);
    return true;
}

static void save_small(fuzz_bytes *in) {
    made m = {.world_size = 1 + (int)fuzz_below(in, MOST_RANKS)};
    bool apart = fuzz_below(in, 2) != 0;
    bool hole, overlap;
    m.split = fuzz_below(in, 2) != 0 ? 700 : 0;
    m.step = 1 + fuzz_below(in, 256) * 2;
    size_t count = 1 + fuzz_below(in, MOST_TENSORS);
    while (m.count < count) {
        make_tensor(&m, in);
    }
    for (int r = 0; r < m.world_size; r++) {
        fuzz_accepted += save(&m, r, apart);
    }
    for (size_t k = 0; k < m.count; k++) {
        FUZZ_CHECK(grid_whole(&m.seen[k], &hole, &overlap));
    }
    arena_free(&m.memory);
}

/* ---- what is large -------------------------------------------------------------------------- */

#define COLUMNS     65536 /* of F32: 256 KiB a row */
#define MOST_ROWS   64
#define ROW_BYTES   ((uint64_t)COLUMNS * 4)
#define MOST_LARGE  3
#define MOST_SHARES 16

typedef struct large {
    size_t count;
    int64_t rows[MOST_LARGE];
    size_t share_count[MOST_LARGE];
    box shares[MOST_LARGE][MOST_SHARES];
    int world_size;
} large;

static void note_shares(large *l, const plan_layout *layout) {
    for (size_t i = 0; i < layout->piece_count; i++) {
        const plan_piece *p = &layout->pieces[i];
        size_t k = (size_t)(p->entry->name[0] - 'a');
        FUZZ_CHECK(l->share_count[k] < MOST_SHARES);
        l->shares[k][l->share_count[k]++] = box_of(2, p->part->offset, p->part->extent);
    }
}

/* Do the ranks' shares make up the tensor, each element once? */
static void check_shares(const large *l, size_t k) {
    const int64_t shape[] = {l->rows[k], COLUMNS};
    pawl_error err = ERROR_INIT;
    plan_fault fault;
    FUZZ_CHECK(plan_cover(2, shape, l->shares[k], l->share_count[k], &fault, &err) == PAWL_OK);
    FUZZ_CHECK(!fault.hole && !fault.overlap);
}

/* No memory is looked at: the layout alone is made. */
static uint64_t share_large(large *l, int rank) {
    static uint8_t somewhere[8];
    pawl_error err = ERROR_INIT;
    pawl_state *state = NULL;
    state_snapshot *snapshot = NULL;
    plan_layout *layout = NULL;
    const plan_layout_options options = {.tag = TAG, .rank = rank, .world_size = l->world_size};
    FUZZ_CHECK(state_new(&state, &err) == PAWL_OK);
    for (size_t k = 0; k < l->count; k++) {
        const int64_t shape[] = {l->rows[k], COLUMNS};
        const char name[] = {(char)('a' + k), '\0'};
        const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                    .name = name,
                                    .dtype = PAWL_F32,
                                    .ndim = 2,
                                    .shape = shape,
                                    .data = somewhere,
                                    .replicated = 1};
        FUZZ_CHECK(state_add_tensor(state, &tensor, &err) == PAWL_OK);
    }
    FUZZ_CHECK(state_snapshot_take(state, 5, false, &snapshot, &err) == PAWL_OK);
    FUZZ_CHECK(plan_layout_make(snapshot, &options, &layout, &err) == PAWL_OK);
    note_shares(l, layout);
    uint64_t bytes = 0;
    for (size_t i = 0; i < layout->piece_count; i++) {
        bytes += layout->pieces[i].bytes;
    }
    plan_layout_free(layout);
    state_snapshot_free(snapshot);
    state_free(state);
    return bytes;
}

static void save_large(fuzz_bytes *in) {
    large l = {.world_size = 2 + (int)fuzz_below(in, 5), .count = 1 + fuzz_below(in, MOST_LARGE)};
    uint64_t least = UINT64_MAX, most = 0;
    for (size_t k = 0; k < l.count; k++) {
        l.rows[k] = 1 + (int64_t)fuzz_below(in, MOST_ROWS);
    }
    for (int r = 0; r < l.world_size; r++) {
        uint64_t bytes = share_large(&l, r);
        least = bytes < least ? bytes : least;
        most = bytes > most ? bytes : most;
    }
    for (size_t k = 0; k < l.count; k++) {
        check_shares(&l, k);
    }
    /* plan/share.c: two slices of 512 KiB, and a row. */
    FUZZ_CHECK(most - least <= ((uint64_t)1 << 20) + ROW_BYTES);
    fuzz_accepted++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_bytes in = {.data = data, .size = size};
    if (fuzz_below(&in, 8) == 7) {
        save_large(&in);
    } else {
        save_small(&in);
    }
    return 0;
}
