/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Divides replicated boxes among the ranks that hold them. Each of these ranks does it by itself,
 * with the same result: it uses only what all of them have alike, the names, dtypes, shapes and
 * boxes of all entries with the same number of replicas.
 *
 * Large boxes come first (by powers of two, then by name). A box that can be cut is divided among
 * the replicas with the fewest bytes so far, so that these have equally many afterwards: among as
 * many replicas as get SLICE_BYTES each. A box that cannot be cut goes to the replica with the
 * fewest bytes. At the end no two replicas differ by more than the largest of
 *   - 2 * SLICE_BYTES,
 *   - a box that cannot be cut (of packed elements, or of one row),
 * and one row more of the box with the longest rows.
 */
#include "plan/share.h"

#include "base/heap.h"

#include <string.h>

#define SLICE_BYTES ((uint64_t)512 << 10) /* a smaller slice is not worth a piece of its own */
#define ROW_BYTES   ((uint64_t)64 << 10)  /* rows this short can be balanced well */
#define EVENNESS    20                    /* and so can rows of which a share has this many */
#define CLASSES     64                    /* of sizes, by powers of two */

/* ---- how much each replica has ---- */

/* All entries with one number of replicas: what each replica has so far, the least in front. */
typedef struct share_group {
    heap replicas;
    uint64_t *bytes; /* of each */
} share_group;

static int compare_loads(const void *context, uint32_t a, uint32_t b) {
    const uint64_t *bytes = context;
    int order = (bytes[a] > bytes[b]) - (bytes[a] < bytes[b]);
    return order != 0 ? order : (a > b) - (a < b);
}

static void share_group_free(share_group *g) {
    if (g != NULL) {
        mem_free(g->replicas.items);
        mem_free(g->bytes);
        mem_free(g);
    }
}

/* NULL: no memory. */
static share_group *share_group_new(size_t replicas) {
    share_group *g = mem_calloc(1, sizeof(*g));
    if (g == NULL) {
        return NULL;
    }
    g->bytes = mem_calloc(replicas, sizeof(*g->bytes));
    g->replicas = (heap){.items = mem_calloc(replicas, sizeof(*g->replicas.items)),
                         .count = replicas,
                         .compare = compare_loads,
                         .context = g->bytes};
    if (g->bytes == NULL || g->replicas.items == NULL) {
        share_group_free(g);
        return NULL;
    }
    for (size_t i = 0; i < replicas; i++) {
        g->replicas.items[i] = (uint32_t)i;
    }
    return g;
}

static uint64_t least_load(const share_group *g) {
    return g->bytes[g->replicas.items[0]];
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
        share_group_free(s->groups[i]);
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
static share_group *replicas_with(sharing *s, const state_entry *e) {
    size_t n = (size_t)replicas_of(s, e);
    if (s->groups[n] == NULL) {
        s->groups[n] = share_group_new(n);
    }
    return s->groups[n];
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

static void dense_box_strides(const state_entry *e, const state_box *held, int64_t *strides) {
    int64_t stride = pawl_dtype_bits(e->dtype) / 8;
    for (int d = e->ndim - 1; d >= 0; d--) {
        strides[d] = stride;
        stride *= held->extent[d];
    }
}

/* Rows [first, first + count) of a held box. NULL: no memory. */
static const state_box *slice_box(const state_entry *e, const state_box *held, int dimension,
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
        dense_box_strides(e, held, strides);
    }
    int64_t begin = first * strides[dimension];
    bool host = e->memory == NULL;
    *part = (state_box){.data = host ? held->data + begin : held->data,
                        .begin = host ? 0 : begin,
                        .offset = offset,
                        .extent = extent,
                        .strides = dense_along(held, dimension) ? NULL : strides};
    return part;
}

/* ---- sharing out ---- */

/* Takes out of the heap the replicas that share a box: they are behind it then, the last one taken
 * first. *level: the bytes each of them has after the box is cut. */
static size_t choose_replicas(share_group *g, uint64_t bytes, uint64_t *level) {
    uint64_t sum = bytes;
    size_t chosen = 0;
    while (g->replicas.count > 0) {
        uint64_t next = (sum + least_load(g)) / (chosen + 1);
        if (chosen > 0 && next < least_load(g) + SLICE_BYTES) {
            break;
        }
        sum += least_load(g);
        *level = next;
        chosen++;
        heap_pop(&g->replicas);
    }
    return chosen;
}

/* Cuts the box so that its replicas have equally many bytes; *part: what this rank writes. */
static pawl_status share_cut(sharing *s, share_group *g, const share_item *item, int dimension,
                             const state_box **part, pawl_error *err) {
    uint64_t level = 0;
    int64_t rows = item->held->extent[dimension];
    uint64_t row = item->bytes / (uint64_t)rows;
    size_t chosen = choose_replicas(g, item->bytes, &level);
    uint64_t given = 0;
    int64_t first = 0;
    for (size_t i = 0; i < chosen; i++) {
        uint32_t to = g->replicas.items[g->replicas.count + (chosen - 1 - i)];
        given += level - g->bytes[to];
        int64_t end = i + 1 == chosen ? rows : (int64_t)((given + row / 2) / row);
        g->bytes[to] += (uint64_t)(end - first) * row;
        if ((int)to == replica_here(s, item->entry) && end > first) {
            *part = end - first == rows ? item->held
                                        : slice_box(item->entry, item->held, dimension, first,
                                                    end - first, s->memory);
            if (*part == NULL) {
                return error_nomem(err, sizeof(**part));
            }
        }
        first = end;
    }
    for (size_t i = 0; i < chosen; i++) {
        heap_push(&g->replicas);
    }
    return PAWL_OK;
}

static void share_whole(sharing *s, share_group *g, const share_item *item,
                        const state_box **part) {
    uint32_t least = g->replicas.items[0];
    if ((int)least == replica_here(s, item->entry)) {
        *part = item->held;
    }
    g->bytes[least] += item->bytes;
    heap_sink(&g->replicas, 0);
}

static pawl_status share_items(sharing *s, pawl_error *err) {
    for (size_t i = 0; i < s->parts.count; i++) {
        const share_item *item = &s->items[s->order[i]];
        const state_box **part = &s->parts.items[s->order[i]];
        share_group *g = replicas_with(s, item->entry);
        if (g == NULL) {
            return error_nomem(err, (size_t)replicas_of(s, item->entry) * sizeof(uint64_t));
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

static void collect_boxes(sharing *s, const state_snapshot *snapshot) {
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
static size_t size_class(uint64_t bytes) {
    return bytes == 0 ? CLASSES - 1 : (size_t)__builtin_clzll(bytes);
}

/* Counting sort: stable. */
static void order_items(sharing *s) {
    size_t places[CLASSES] = {0};
    for (size_t i = 0; i < s->parts.count; i++) {
        places[size_class(s->items[i].bytes)]++;
    }
    size_t first = 0;
    for (size_t c = 0; c < CLASSES; c++) {
        size_t count = places[c];
        places[c] = first;
        first += count;
    }
    for (size_t i = 0; i < s->parts.count; i++) {
        s->order[places[size_class(s->items[i].bytes)]++] = i;
    }
}

static pawl_status allocate_items(sharing *s, pawl_error *err) {
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
        TRY(allocate_items(&s, err));
        collect_boxes(&s, snapshot);
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
