/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks two checkpoints in the order of names. Their files have another order. So entries wait
 * until they are some thousand: then the small tensors among them are read together, each block of
 * a file once, and all are compared in the order of names.
 */
#include "diff/private.h"

#include <string.h>

enum {
    MOST_WAITING = 4096,
    SMALL_BYTES = 256 * 1024,    /* of a tensor: larger ones are read slice by slice */
    MOST_BYTES = 4 * 1024 * 1024 /* of the small tensors, and of the copies, each */
};

typedef struct waiting_entry {
    pawl_entry_info a, b; /* copies */
    void *memory_a;       /* of the copies; NULL: that side has no such entry */
    void *memory_b;
    const char *name; /* by which it is compared */
    size_t slice;     /* which of the two to be read; SIZE_MAX: none */
} waiting_entry;

typedef struct queue {
    waiting_entry entries[MOST_WAITING];
    size_t count, copied_bytes;
    pawl_slice slices_a[MOST_WAITING], slices_b[MOST_WAITING];
    size_t slice_count, slice_bytes;
    uint8_t room_a[MOST_BYTES], room_b[MOST_BYTES];
} queue;

/* ---- going on ------------------------------------------------------------------------------- */

static uint64_t bytes_read(const comparison *c) {
    uint64_t bytes = checkpoint_reads(c->a).bytes;
    return c->a == c->b ? bytes : bytes + checkpoint_reads(c->b).bytes;
}

pawl_status diff_go_on(const comparison *c, pawl_error *err) {
    const pawl_diff_options *options = &c->options;
    if (options->progress != NULL) {
        uint64_t done = bytes_read(c) - c->read_before; /* the index, too, and some blocks twice */
        options->progress(options->context, done < c->of_bytes ? done : c->of_bytes, c->of_bytes);
    }
    if (options->stop == NULL || options->stop(options->context) == 0) {
        return PAWL_OK;
    }
    return error_set(err, PAWL_ECANCELED, "the comparison was stopped by its caller");
}

/* ---- copies --------------------------------------------------------------------------------- */

static size_t value_bytes(const pawl_entry_info *info) {
    return info->value != NULL ? (size_t)info->bytes : 0;
}

static size_t chars_bytes(const char *text) {
    return text != NULL ? strlen(text) + 1 : 0;
}

/* What `from` points to goes to *at. */
static const void *copy_bytes(uint8_t **at, const void *from, size_t n) {
    uint8_t *to = *at;
    *at += n;
    return from != NULL ? memcpy(to, from, n) : NULL;
}

/* `from` NULL: nothing. */
static pawl_status copy_entry(queue *q, pawl_entry_info *to, void **memory,
                              const pawl_entry_info *from, pawl_error *err) {
    if (from == NULL) {
        return PAWL_OK;
    }
    size_t shape_bytes = (size_t)from->ndim * sizeof(*from->shape);
    size_t bytes = shape_bytes + value_bytes(from) + chars_bytes(from->name) +
                   chars_bytes(from->slot_of) + chars_bytes(from->slot) + chars_bytes(from->type);
    uint8_t *at = mem_alloc(bytes);
    if (at == NULL) {
        return error_nomem(err, bytes);
    }
    *memory = at;
    *to = *from;
    to->struct_size = sizeof(*to);
    to->shape = copy_bytes(&at, from->shape, shape_bytes);
    to->value = copy_bytes(&at, from->value, value_bytes(from));
    to->name = copy_bytes(&at, from->name, chars_bytes(from->name));
    to->slot_of = copy_bytes(&at, from->slot_of, chars_bytes(from->slot_of));
    to->slot = copy_bytes(&at, from->slot, chars_bytes(from->slot));
    to->type = copy_bytes(&at, from->type, chars_bytes(from->type));
    q->copied_bytes += bytes;
    return PAWL_OK;
}

/* ---- reading and comparing ------------------------------------------------------------------ */

static pawl_status compare_waiting(comparison *c, const queue *q, const waiting_entry *w,
                                   pawl_error *err) {
    c->name = w->name;
    if (w->memory_b == NULL) {
        diff_tell(c, PAWL_ONLY_IN_A, &w->a, NULL, NULL);
        c->result->only_a++;
        return PAWL_OK;
    }
    if (w->memory_a == NULL) {
        diff_tell(c, PAWL_ONLY_IN_B, NULL, &w->b, NULL);
        c->result->only_b++;
        return PAWL_OK;
    }
    if (w->slice == SIZE_MAX || q->slices_a[w->slice].status != PAWL_OK ||
        q->slices_b[w->slice].status != PAWL_OK) {
        return diff_entry(c, &w->a, &w->b, NULL, err);
    }
    const tensor_bytes bytes = {.a = q->slices_a[w->slice].to, .b = q->slices_b[w->slice].to};
    return diff_entry(c, &w->a, &w->b, &bytes, err);
}

/* What could not be read with the others is read again by itself, when its turn comes: it is then
 * that damage is told. */
static pawl_status read_together(pawl_checkpoint *from, pawl_slice *slices, size_t count,
                                 pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    const slice_array all = {.first = slices, .size = sizeof(*slices), .count = count};
    slice_array_cancel(&all);
    if (checkpoint_read_many(from, &all, &story) == PAWL_ENOMEM) {
        *err = story;
        return PAWL_ENOMEM;
    }
    return PAWL_OK;
}

static void forget_entries(queue *q) {
    for (size_t i = 0; i < q->count; i++) {
        mem_free(q->entries[i].memory_a);
        mem_free(q->entries[i].memory_b);
    }
    q->count = q->copied_bytes = q->slice_count = q->slice_bytes = 0;
}

static pawl_status compare_queue(comparison *c, queue *q, pawl_error *err) {
    if (q->slice_count > 0) {
        TRY(read_together(c->a, q->slices_a, q->slice_count, err));
        TRY(read_together(c->b, q->slices_b, q->slice_count, err));
    }
    for (size_t i = 0; i < q->count; i++) {
        TRY(diff_go_on(c, err));
        TRY(compare_waiting(c, q, &q->entries[i], err));
    }
    forget_entries(q);
    return PAWL_OK;
}

/* ---- waiting -------------------------------------------------------------------------------- */

static void add_slices(queue *q, waiting_entry *w) {
    size_t bytes = (size_t)w->a.bytes;
    w->slice = q->slice_count++;
    q->slices_a[w->slice] =
        (pawl_slice){.name = w->a.name, .to = q->room_a + q->slice_bytes, .to_bytes = bytes};
    q->slices_b[w->slice] =
        (pawl_slice){.name = w->b.name, .to = q->room_b + q->slice_bytes, .to_bytes = bytes};
    q->slice_bytes += bytes;
}

static bool is_full(const queue *q) {
    return q->count == MOST_WAITING || q->copied_bytes > MOST_BYTES ||
           q->slice_bytes > MOST_BYTES - SMALL_BYTES;
}

/* What comes next in the order of names: an entry that both have, or one of them (the other is
 * NULL). `name`: what A's was renamed to, which lives as long as the comparison; else NULL. */
static pawl_status add_entry(comparison *c, queue *q, const char *name, const pawl_entry_info *a,
                             const pawl_entry_info *b, pawl_error *err) {
    waiting_entry *w = &q->entries[q->count++];
    *w = (waiting_entry){.slice = SIZE_MAX};
    TRY(copy_entry(q, &w->a, &w->memory_a, a, err));
    TRY(copy_entry(q, &w->b, &w->memory_b, b, err));
    w->name = name != NULL ? name : a != NULL ? w->a.name : w->b.name;
    if (a != NULL && b != NULL && c->options.structure_only == 0 && diff_tensors_alike(c, a, b) &&
        a->bytes > 0 && a->bytes <= SMALL_BYTES) {
        add_slices(q, w);
    }
    return is_full(q) ? compare_queue(c, q, err) : PAWL_OK;
}

/* A's entries in the order of the names by which they are compared. */
typedef struct walk_of_a {
    pawl_entries *entries;
    pawl_entry_info info;
    bool renames;
    renamed_entries renamed; /* where they are: which of these is next */
    size_t next;
    const char *name;
    int more;
} walk_of_a;

static pawl_status walk_next(walk_of_a *w, pawl_error *err) {
    if (!w->renames) {
        TRY(entries_next(w->entries, &w->info, &w->more, err));
        w->name = w->more != 0 ? w->info.name : NULL;
        return PAWL_OK;
    }
    w->more = w->next < w->renamed.count;
    w->name = w->more != 0 ? w->renamed.items[w->next++].name : NULL;
    return PAWL_OK;
}

/* What it is of; nothing else is to be asked of A's handle meanwhile. */
static pawl_status walk_find(comparison *c, walk_of_a *w, pawl_error *err) {
    return w->renames ? checkpoint_find(c->a, w->renamed.items[w->next - 1].from, &w->info, err)
                      : PAWL_OK;
}

static pawl_status merge_walks(comparison *c, queue *q, walk_of_a *a, pawl_entries *walk_b,
                               pawl_error *err) {
    pawl_entry_info b;
    int more_b = 1;
    int order = 0; /* which walk goes on: negative A's, positive B's, 0 both */
    for (;;) {
        if (order <= 0) {
            TRY(walk_next(a, err));
        }
        if (order >= 0) {
            TRY(entries_next(walk_b, &b, &more_b, err));
        }
        if (a->more == 0 && more_b == 0) {
            return compare_queue(c, q, err);
        }
        order = a->more == 0 ? 1 : more_b == 0 ? -1 : strcmp(a->name, b.name);
        if (order <= 0) {
            TRY(walk_find(c, a, err));
        }
        TRY(add_entry(c, q, order <= 0 && a->renames ? a->name : NULL, order <= 0 ? &a->info : NULL,
                      order >= 0 ? &b : NULL, err));
    }
}

/* What fits nothing would leave names, or numbers, as they are, and these are then different. */
static pawl_status check_given(comparison *c, pawl_error *err) {
    const pawl_diff_options *o = &c->options;
    const given_names renames = {.rules = o->renames, .count = o->rename_count};
    const given_names transpose = {
        .what = "transpose", .names = o->transpose, .count = o->transpose_count};
    TRY(checkpoint_check_given(c->a, &renames, err));
    return checkpoint_check_given(c->a, &transpose, err);
}

static pawl_status walk_both(comparison *c, queue *q, walk_of_a *a, pawl_error *err) {
    pawl_entries *walk_b = NULL;
    TRY(check_given(c, err));
    pawl_status status =
        a->renames ? diff_rename(c, &a->renamed, err) : entries_open(c->a, "", &a->entries, err);
    if (status == PAWL_OK) {
        status = entries_open(c->b, "", &walk_b, err);
    }
    if (status == PAWL_OK) {
        status = merge_walks(c, q, a, walk_b, err);
    }
    pawl_entries_free(walk_b);
    return status;
}

pawl_status checkpoint_diff(pawl_checkpoint *a, pawl_checkpoint *b,
                            const pawl_diff_options *options, pawl_diff_result *result,
                            pawl_error *err) {
    pawl_checkpoint_info about_a;
    pawl_checkpoint_info about_b;
    checkpoint_describe(a, &about_a);
    checkpoint_describe(b, &about_b);
    comparison c = {.a = a,
                    .b = b,
                    .options = *options,
                    .result = result,
                    .renames = {.struct_size = sizeof(c.renames),
                                .renames = options->renames,
                                .rename_size = sizeof(pawl_rename),
                                .rename_count = options->rename_count}};
    walk_of_a walk = {.renames = options->rename_count > 0};
    c.world_size =
        about_a.world_size > about_b.world_size ? about_a.world_size : about_b.world_size;
    c.of_bytes = about_a.data_bytes + about_b.data_bytes;
    c.read_before = bytes_read(&c);
    queue *q = mem_alloc(sizeof(*q));
    if (q == NULL) {
        return error_nomem(err, sizeof(*q));
    }
    q->count = q->copied_bytes = q->slice_count = q->slice_bytes = 0;
    *result = (pawl_diff_result){.struct_size = sizeof(*result)};
    pawl_status status = walk_both(&c, q, &walk, err);
    pawl_entries_free(walk.entries);
    renamed_entries_free(&walk.renamed);
    buffer_free(&c.slot_of);
    forget_entries(q);
    mem_free(q);
    return status;
}
