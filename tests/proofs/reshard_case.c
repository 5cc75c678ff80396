/* SPDX-License-Identifier: Apache-2.0 */
/* Random tensors, and random ways to lay them on ranks. */
#include "proofs/reshard_case.h"

#include "proofs/proof.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *must(void *memory) {
    if (memory == NULL) {
        abort();
    }
    return memory;
}

static bool is_packed(pawl_dtype dtype) {
    return pawl_dtype_bits(dtype) % 8 != 0;
}

/* ---- tensors -------------------------------------------------------------------------------- */

static void random_shape(reshard_tensor *t, test_random *r, bool large) {
    int64_t item = (pawl_dtype_bits(t->dtype) + 7) / 8;
    int64_t left = large ? ((int64_t)random_between(r, 1100, 3000) << 10) / item : 400;
    t->ndim = (int)random_between(r, large ? 1 : 0, RESHARD_NDIM);
    for (int d = 0; d < t->ndim; d++) {
        bool last = d + 1 == t->ndim;
        int64_t most = large ? 2000 : 12;
        most = most < left ? most : left;
        t->shape[d] = last && large ? left + 1 : random_between(r, 1, most > 0 ? most : 1);
        left = left / t->shape[d];
    }
    if (!large && t->ndim > 0 && random_below(r, 25) == 0) {
        t->shape[random_below(r, (uint64_t)t->ndim)] = 0;
    }
    if (is_packed(t->dtype)) { /* whole bytes */
        t->ndim = t->ndim == 0 ? 1 : t->ndim;
        t->shape[t->ndim - 1] = (t->shape[t->ndim - 1] / 8 + 1) * 8;
    }
}

static void random_tensor(reshard_tensor *t, test_random *r, size_t number, bool large) {
    static const pawl_dtype dtypes[] = {PAWL_U8,  PAWL_BOOL, PAWL_I16, PAWL_BF16, PAWL_F32,
                                        PAWL_F32, PAWL_I64,  PAWL_F64, PAWL_C64,  PAWL_F4};
    *t = (reshard_tensor){.dtype = dtypes[random_below(r, ARRAY_LENGTH(dtypes))]};
    snprintf(t->name, sizeof(t->name), "t%zu", number);
    random_shape(t, r, large);
    t->bytes = shape_bytes(t->dtype, t->ndim, t->shape);
    t->image = must(mem_alloc((size_t)t->bytes));
    random_fill(r, t->image, (size_t)t->bytes);
}

/* ---- partitions ----------------------------------------------------------------------------- */

/* Cuts part `i` along a dimension in at most `n`; the first stays in place, the rest come last. */
static void cut(reshard_placement *p, test_random *r, size_t i, int dimension, int n, bool even) {
    for (int left = n; left > 1 && p->count < RESHARD_PARTS; left--) {
        box *part = &p->parts[i];
        int64_t extent = part->extent[dimension];
        int64_t first = even ? (extent + left - 1) / left : random_between(r, 0, extent);
        box rest = *part;
        rest.offset[dimension] += first;
        rest.extent[dimension] -= first;
        part->extent[dimension] = first;
        i = p->count++;
        p->parts[i] = rest;
    }
}

static int random_dimension(test_random *r, const reshard_tensor *t) {
    return (int)random_below(r, (uint64_t)t->ndim);
}

/* A mesh: each part of before is cut again, along some dimension, in as many. */
static void cut_all(reshard_placement *p, test_random *r, const reshard_tensor *t, bool even) {
    int dimension = random_dimension(r, t);
    int n = (int)random_between(r, 1, 4);
    for (size_t i = 0, count = p->count; i < count; i++) {
        cut(p, r, i, dimension, n, even);
    }
}

static void cut_somewhere(reshard_placement *p, test_random *r, const reshard_tensor *t) {
    for (uint64_t cuts = random_below(r, RESHARD_PARTS); cuts > 0; cuts--) {
        cut(p, r, (size_t)random_below(r, p->count), random_dimension(r, t), 2, false);
    }
}

static void partition(reshard_placement *p, test_random *r, const reshard_tensor *t, int groups) {
    bool even = random_below(r, 2) == 0;
    switch (random_below(r, 4)) {
    case 0:
        cut(p, r, 0, 0, groups, even);
        break;
    case 1:
        cut(p, r, 0, random_dimension(r, t), groups, even);
        break;
    case 2:
        cut_all(p, r, t, even);
        cut_all(p, r, t, even);
        break;
    default:
        cut_somewhere(p, r, t);
    }
}

static void place_tensor(reshard_placement *p, test_random *r, const reshard_tensor *t,
                         const reshard_side *side) {
    bool grouped = random_below(r, 2) == 0;
    *p = (reshard_placement){.replicas = grouped ? side->replicas : 1, .count = 1};
    p->everywhere = random_below(r, 4) == 0;
    p->parts[0] = box_whole(t->ndim, t->shape);
    int groups = side->ranks / p->replicas;
    bool cuttable = t->ndim > 0 && !is_packed(t->dtype);
    if (!p->everywhere && cuttable && random_below(r, 8) > 0) {
        partition(p, r, t, groups);
    }
    bool in_turn = random_below(r, 2) == 0;
    for (size_t i = 0; i < p->count; i++) {
        p->groups[i] = in_turn ? (int)i % groups : (int)random_below(r, (uint64_t)groups);
    }
}

static int random_divisor(test_random *r, int n) {
    int divisor = (int)random_between(r, 1, n);
    while (n % divisor != 0) {
        divisor--;
    }
    return divisor;
}

static void random_side(reshard_side *side, test_random *r, const reshard_case *c) {
    side->ranks = (int)random_between(r, 1, RESHARD_RANKS);
    side->replicas = random_divisor(r, side->ranks);
    side->strided = random_below(r, 2) == 0;
    for (size_t i = 0; i < c->count; i++) {
        place_tensor(&side->placements[i], r, &c->tensors[i], side);
    }
}

void reshard_case_make(reshard_case *c, uint64_t seed) {
    test_random r = {.state = seed};
    *c = (reshard_case){.large = random_below(&r, 10) == 0};
    c->count = (size_t)random_between(&r, 1, c->large ? 2 : RESHARD_TENSORS);
    for (size_t i = 0; i < c->count; i++) {
        random_tensor(&c->tensors[i], &r, i, c->large);
    }
    random_side(&c->from, &r, c);
    random_side(&c->to, &r, c);
}

void reshard_case_free(reshard_case *c) {
    for (size_t i = 0; i < c->count; i++) {
        mem_free(c->tensors[i].image);
    }
}

/* ---- one rank ------------------------------------------------------------------------------- */

static strided view_of(const reshard_memory *m, const reshard_case *c) {
    return (strided){.dtype = c->tensors[m->tensor].dtype,
                     .box = m->part,
                     .strides = m->dense ? NULL : m->strides,
                     .data = m->data};
}

/* Dense, or with its dimensions in another order. */
static void random_strides(reshard_memory *m, const reshard_tensor *t, test_random *r) {
    m->dense = is_packed(t->dtype) || random_below(r, 3) > 0;
    int64_t stride = pawl_dtype_bits(t->dtype) / 8;
    for (int d = 0; d < t->ndim; d++) {
        m->strides[d] = stride;
        stride *= m->part.extent[d] > 0 ? m->part.extent[d] : 1;
    }
}

static void add_memory(reshard_rank *rank, const reshard_case *c, size_t tensor, const box *part,
                       bool filled, test_random *r) {
    const reshard_tensor *t = &c->tensors[tensor];
    reshard_memory *m = &rank->held[rank->held_count++];
    *m = (reshard_memory){.tensor = tensor, .part = *part};
    m->bytes = (size_t)shape_bytes(t->dtype, t->ndim, part->extent);
    m->data = must(mem_alloc(m->bytes + 1));
    random_strides(m, t, r);
    memset(m->data, 0xa5, m->bytes);
    if (!filled || m->bytes == 0) {
        return;
    }
    box whole = box_whole(t->ndim, t->shape);
    strided v = view_of(m, c);
    strided_place(&v, &whole, 0, (size_t)t->bytes, t->image);
}

/* Adds memory [first, held_count) as one tensor. */
static void add_tensor(reshard_rank *rank, const reshard_case *c, size_t tensor, size_t first,
                       pawl_tensor *t) {
    struct pawl_error err = ERROR_INIT;
    pawl_box boxes[RESHARD_PARTS];
    const reshard_tensor *of = &c->tensors[tensor];
    for (size_t i = first; i < rank->held_count; i++) {
        reshard_memory *m = &rank->held[i];
        boxes[i - first] = (pawl_box){.offset = m->part.offset,
                                      .extent = m->part.extent,
                                      .strides = m->dense ? NULL : m->strides,
                                      .data = m->data};
    }
    t->struct_size = sizeof(*t);
    t->name = of->name;
    t->dtype = of->dtype;
    t->ndim = of->ndim;
    t->shape = of->shape;
    t->boxes = boxes;
    t->nboxes = rank->held_count - first;
    proof_must(state_add_tensor(rank->state, t, &err), &err);
}

static void hold(reshard_rank *out, const reshard_case *c, const reshard_side *side, int rank,
                 size_t tensor, bool filled, test_random *r) {
    const reshard_placement *p = &side->placements[tensor];
    int groups = side->ranks / p->replicas;
    int group = side->strided ? rank % groups : rank / p->replicas;
    size_t first = out->held_count;
    for (size_t i = 0; i < p->count; i++) {
        if (p->everywhere || p->groups[i] == group) {
            add_memory(out, c, tensor, &p->parts[i], filled, r);
        }
    }
    if (out->held_count == first) {
        return;
    }
    pawl_tensor t = {.replicated = p->everywhere || p->replicas > 1};
    if (!p->everywhere && p->replicas > 1) {
        t.replica_count = p->replicas;
        t.replica = side->strided ? rank / groups : rank % p->replicas;
    }
    add_tensor(out, c, tensor, first, &t);
}

void reshard_rank_make(reshard_rank *r, const reshard_case *c, const reshard_side *side, int rank,
                       bool filled, test_random *random) {
    struct pawl_error err = ERROR_INIT;
    char seed[32];
    int64_t step = filled ? 7 : 0;
    *r = (reshard_rank){0};
    proof_must(state_new(&r->state, &err), &err);
    for (size_t i = 0; i < c->count; i++) {
        hold(r, c, side, rank, i, filled, random);
    }
    int n = snprintf(seed, sizeof(seed), "%s %d", filled ? "saved by" : "of", rank);
    proof_must(state_set_value(r->state, "step", PAWL_KIND_INT64, PAWL_ROLE_STEP, false, &step,
                               sizeof(step), &err),
               &err);
    if (!c->large) {
        proof_must(state_set_value(r->state, "seed", PAWL_KIND_BYTES, PAWL_ROLE_RNG, true, seed,
                                   (size_t)n, &err),
                   &err);
    }
}

void reshard_rank_free(reshard_rank *r) {
    state_free(r->state);
    for (size_t i = 0; i < r->held_count; i++) {
        mem_free(r->held[i].data);
    }
}

static bool differs(const reshard_memory *m, const reshard_case *c) {
    const reshard_tensor *t = &c->tensors[m->tensor];
    if (m->bytes == 0) {
        return false;
    }
    AUTOFREE uint8_t *found = must(mem_alloc(m->bytes));
    AUTOFREE uint8_t *wanted = must(mem_alloc(m->bytes));
    box whole = box_whole(t->ndim, t->shape);
    strided expected = {.dtype = t->dtype, .box = m->part, .data = wanted};
    strided v = view_of(m, c);
    strided_place(&expected, &whole, 0, (size_t)t->bytes, t->image);
    strided_gather(&v, 0, m->bytes, found);
    return memcmp(found, wanted, m->bytes) != 0;
}

const char *reshard_rank_differs(const reshard_rank *r, const reshard_case *c) {
    for (size_t i = 0; i < r->held_count; i++) {
        if (differs(&r->held[i], c)) {
            return c->tensors[r->held[i].tensor].name;
        }
    }
    return NULL;
}
