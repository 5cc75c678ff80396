/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replicated boxes are shared out among the ranks that hold them. Each of these ranks does it by
 * itself and comes to the same: from names, dtypes, shapes and boxes of what has as many replicas,
 * never from what is the rank's own.
 *
 * Large boxes come first (by powers of two, then by name). A box that can be cut goes to the
 * replicas with the least so far, so that these are level afterwards: to as many of them as get
 * SLICE_BYTES each. What is left is whole, each to the replica with the least. At the end no two
 * replicas differ by more than the largest of
 *   - 2 * SLICE_BYTES,
 *   - a box that cannot be cut (of packed elements, or of one row),
 * and one row more of the box with the longest rows.
 */
#include "plan/share.h"

#include <string.h>

#define SLICE_BYTES ((uint64_t)512 << 10) /* no confetti */
#define ROW_BYTES   ((uint64_t)64 << 10)  /* rows that are short enough for any balance */
#define EVENNESS    20                    /* or those of which a replica's share has so many */
#define CLASSES     64                    /* sizes by powers of two */

/* ---- how much each replica has ---- */

typedef struct load {
    uint64_t bytes;
    int replica;
} load;

/* The replicas of one number of replicas: a heap with the least loaded in front. */
typedef struct share_group {
    load *heap;
    size_t count;
} share_group;

static bool less(const load *a, const load *b) {
    return a->bytes != b->bytes ? a->bytes < b->bytes : a->replica < b->replica;
}

static void sink(share_group *g, size_t at) {
    load moved = g->heap[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child + 1 < g->count && less(&g->heap[child + 1], &g->heap[child])) {
            child++;
        }
        if (child >= g->count || !less(&g->heap[child], &moved)) {
            break;
        }
        g->heap[at] = g->heap[child];
        at = child;
    }
    g->heap[at] = moved;
}

/* The last place of the heap becomes free, and keeps what was in front. */
static void pop(share_group *g) {
    load first = g->heap[0];
    g->count--;
    g->heap[0] = g->heap[g->count];
    g->heap[g->count] = first;
    if (g->count > 0) {
        sink(g, 0);
    }
}

/* What is in the place behind the heap becomes part of it. */
static void push(share_group *g) {
    size_t at = g->count++;
    load moved = g->heap[at];
    while (at > 0 && less(&moved, &g->heap[(at - 1) / 2])) {
        g->heap[at] = g->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    g->heap[at] = moved;
}

/* ---- boxes ---- */

typedef struct share_item {
    const state_entry *entry;
    const state_box *held;
    uint64_t bytes;
} share_item;

typedef struct sharing {
    int rank, world_size;
    share_group **groups; /* by number of replicas; NULL: none yet */
    share_item *items;
    size_t *order;
    share_parts parts;
    arena *memory;
} sharing;

static void sharing_free(sharing *s) {
    for (int i = 0; s->groups != NULL && i <= s->world_size; i++) {
        if (s->groups[i] != NULL) {
            mem_free(s->groups[i]->heap);
            mem_free(s->groups[i]);
        }
    }
    mem_free(s->groups);
    mem_free(s->items);
    mem_free(s->order);
    share_free(&s->parts);
}

static int replicas_of(const sharing *s, const state_entry *e) {
    return e->replica_count == 0 ? s->world_size : e->replica_count;
}

static int replica_here(const sharing *s, const state_entry *e) {
    return e->replica_count == 0 ? s->rank : e->replica;
}

/* NULL: no memory. */
static share_group *group_of(sharing *s, const state_entry *e) {
    size_t n = (size_t)replicas_of(s, e);
    if (s->groups[n] != NULL) {
        return s->groups[n];
    }
    share_group *g = mem_calloc(1, sizeof(*g));
    load *heap = mem_calloc(n, sizeof(*heap));
    if (g == NULL || heap == NULL) {
        mem_free(g);
        mem_free(heap);
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        heap[i].replica = (int)i;
    }
    *g = (share_group){.heap = heap, .count = n};
    s->groups[n] = g;
    return g;
}

/* ---- cutting ---- */

/* The dimension to cut along; -1 when there is none. Slices along the first are dense in memory. */
static int cut_dimension(const share_item *item, int replicas) {
    uint64_t enough = item->bytes / ((uint64_t)EVENNESS * (uint64_t)replicas);
    enough = enough > ROW_BYTES ? enough : ROW_BYTES;
    int longest = -1;
    if (pawl_dtype_bits(item->entry->dtype) % 8 != 0 || item->bytes < 2 * SLICE_BYTES) {
        return -1;
    }
    for (int d = 0; d < item->entry->ndim; d++) {
        int64_t extent = item->held->extent[d];
        if (item->bytes / (uint64_t)extent <= enough) {
            return d;
        }
        if (extent > 1 && (longest < 0 || extent > item->held->extent[longest])) {
            longest = d;
        }
    }
    return longest;
}

static bool dense_along(const state_box *held, int dimension) {
    for (int d = 0; d < dimension; d++) {
        if (held->extent[d] != 1) {
            return false;
        }
    }
    return held->strides == NULL;
}

static void dense_strides(const state_entry *e, const state_box *held, int64_t *strides) {
    int64_t stride = pawl_dtype_bits(e->dtype) / 8;
    for (int d = e->ndim - 1; d >= 0; d--) {
        strides[d] = stride;
        stride *= held->extent[d];
    }
}

/* Rows [first, first + count) of a held box. NULL: no memory. */
static const state_box *slice(const state_entry *e, const state_box *held, int dimension,
                              int64_t first, int64_t count, arena *memory) {
    size_t n = (size_t)e->ndim;
    state_box *part = arena_alloc(memory, sizeof(*part) + 3 * n * sizeof(int64_t));
    if (part == NULL) {
        return NULL;
    }
    int64_t *offset = (int64_t *)(void *)(part + 1);
    int64_t *extent = offset + n;
    int64_t *strides = extent + n;
    memcpy(offset, held->offset, n * sizeof(*offset));
    memcpy(extent, held->extent, n * sizeof(*extent));
    offset[dimension] += first;
    extent[dimension] = count;
    if (held->strides != NULL) {
        memcpy(strides, held->strides, n * sizeof(*strides));
    } else {
        dense_strides(e, held, strides);
    }
    *part = (state_box){.data = held->data + first * strides[dimension],
                        .offset = offset,
                        .extent = extent,
                        .strides = dense_along(held, dimension) ? NULL : strides};
    return part;
}

/* ---- sharing out ---- */

/* Takes out of the heap the replicas that share a box; they stand behind it then, the first one
 * taken last. *level: what they have afterwards. */
static size_t choose_replicas(share_group *g, uint64_t bytes, uint64_t *level) {
    uint64_t sum = bytes;
    size_t chosen = 0;
    while (g->count > 0) {
        uint64_t next = (sum + g->heap[0].bytes) / (chosen + 1);
        if (chosen > 0 && next < g->heap[0].bytes + SLICE_BYTES) {
            break;
        }
        sum += g->heap[0].bytes;
        *level = next;
        chosen++;
        pop(g);
    }
    return chosen;
}

/* Cuts the box so that all who take part have as much; *part: what is this rank's. */
static pawl_status share_cut(sharing *s, share_group *g, const share_item *item, int dimension,
                             const state_box **part, pawl_error *err) {
    uint64_t level = 0;
    int64_t rows = item->held->extent[dimension];
    uint64_t row = item->bytes / (uint64_t)rows;
    size_t chosen = choose_replicas(g, item->bytes, &level);
    uint64_t given = 0;
    int64_t first = 0;
    for (size_t i = 0; i < chosen; i++) {
        load *to = &g->heap[g->count + (chosen - 1 - i)];
        given += level - to->bytes;
        int64_t end = i + 1 == chosen ? rows : (int64_t)((given + row / 2) / row);
        to->bytes += (uint64_t)(end - first) * row;
        if (to->replica == replica_here(s, item->entry) && end > first) {
            *part = end - first == rows
                        ? item->held
                        : slice(item->entry, item->held, dimension, first, end - first, s->memory);
            if (*part == NULL) {
                return error_nomem(err, sizeof(**part));
            }
        }
        first = end;
    }
    for (size_t i = 0; i < chosen; i++) {
        push(g);
    }
    return PAWL_OK;
}

static void share_whole(sharing *s, share_group *g, const share_item *item,
                        const state_box **part) {
    if (g->heap[0].replica == replica_here(s, item->entry)) {
        *part = item->held;
    }
    g->heap[0].bytes += item->bytes;
    sink(g, 0);
}

static pawl_status share_items(sharing *s, pawl_error *err) {
    for (size_t i = 0; i < s->parts.count; i++) {
        const share_item *item = &s->items[s->order[i]];
        const state_box **part = &s->parts.items[s->order[i]];
        share_group *g = group_of(s, item->entry);
        if (g == NULL) {
            return error_nomem(err, (size_t)replicas_of(s, item->entry) * sizeof(load));
        }
        int dimension = cut_dimension(item, replicas_of(s, item->entry));
        if (dimension < 0) {
            share_whole(s, g, item, part);
        } else {
            TRY(share_cut(s, g, item, dimension, part, err));
        }
    }
    return PAWL_OK;
}

/* ---- collecting ---- */

pawl_status share_check(const state_entry *e, int world_size, pawl_error *err) {
    if (e->replica_count <= world_size) {
        return PAWL_OK;
    }
    error_set(err, PAWL_EUSAGE,
              "cannot save the tensor: it has more replicas than there are ranks");
    error_entry(err, e->name);
    error_expected(err, "a replica_count of at most %d", world_size);
    error_found(err, "%d", e->replica_count);
    error_next(err, "set replica_count to how many ranks hold these boxes");
    return PAWL_EUSAGE;
}

bool share_is_shared(const state_entry *e, int world_size) {
    return e->kind == PAWL_KIND_TENSOR && e->replicated && world_size > 1;
}

static size_t count_boxes(const state_snapshot *snapshot, int world_size) {
    size_t count = 0;
    for (size_t k = 0; k < snapshot->count; k++) {
        const state_entry *e = snapshot->entries[k];
        if (k + STATE_ENTRIES_AHEAD < snapshot->count) {
            state_entry_expect(snapshot->entries[k + STATE_ENTRIES_AHEAD]);
        }
        count += share_is_shared(e, world_size) ? e->box_count : 0;
    }
    return count;
}

static void collect(sharing *s, const state_snapshot *snapshot) {
    size_t n = 0;
    for (size_t k = 0; k < snapshot->count; k++) {
        const state_entry *e = snapshot->entries[k];
        for (size_t i = 0; share_is_shared(e, s->world_size) && i < e->box_count; i++) {
            const state_box *held = state_entry_box(e, i);
            s->items[n++] = (share_item){
                .entry = e, .held = held, .bytes = shape_bytes(e->dtype, e->ndim, held->extent)};
        }
    }
}

/* 0 for the largest. */
static size_t class_of(uint64_t bytes) {
    return bytes == 0 ? CLASSES - 1 : (size_t)__builtin_clzll(bytes);
}

/* Counting sort: stable. */
static void order_items(sharing *s) {
    size_t places[CLASSES] = {0};
    for (size_t i = 0; i < s->parts.count; i++) {
        places[class_of(s->items[i].bytes)]++;
    }
    size_t first = 0;
    for (size_t c = 0; c < CLASSES; c++) {
        size_t count = places[c];
        places[c] = first;
        first += count;
    }
    for (size_t i = 0; i < s->parts.count; i++) {
        s->order[places[class_of(s->items[i].bytes)]++] = i;
    }
}

static pawl_status make_room(sharing *s, pawl_error *err) {
    size_t n = s->parts.count;
    s->groups = mem_calloc((size_t)s->world_size + 1, sizeof(share_group *));
    s->items = mem_calloc(n, sizeof(*s->items));
    s->order = mem_calloc(n, sizeof(*s->order));
    s->parts.items = mem_calloc(n, sizeof(const state_box *));
    if (s->groups == NULL || s->items == NULL || s->order == NULL || s->parts.items == NULL) {
        return error_nomem(err, n * sizeof(*s->items));
    }
    return PAWL_OK;
}

pawl_status share_make(const state_snapshot *snapshot, int rank, int world_size, arena *memory,
                       share_parts *out, pawl_error *err) {
    CLEANUP(sharing_free)
    sharing s = {.rank = rank, .world_size = world_size, .memory = memory};
    s.parts.count = world_size > 1 ? count_boxes(snapshot, world_size) : 0;
    if (s.parts.count > 0) {
        TRY(make_room(&s, err));
        collect(&s, snapshot);
        order_items(&s);
        TRY(share_items(&s, err));
    }
    *out = s.parts;
    s.parts = (share_parts){0};
    return PAWL_OK;
}

void share_free(share_parts *parts) {
    mem_free(parts->items);
    *parts = (share_parts){0};
}
