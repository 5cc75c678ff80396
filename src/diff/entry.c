/* SPDX-License-Identifier: Apache-2.0 */
/* One entry that both checkpoints have: kind, dtype, shape, role, value or numbers. */
#include "diff/private.h"
#include "tensor/tensor.h"

#include <string.h>

/* How a difference is called: the place in the list is its kind. */
static const char *const names[] = {
    [PAWL_ONLY_IN_A] = "only_a",
    [PAWL_ONLY_IN_B] = "only_b",
    [PAWL_DIFFERS_IN_KIND] = "kind",
    [PAWL_DIFFERS_IN_DTYPE] = "dtype",
    [PAWL_DIFFERS_IN_SHAPE] = "shape",
    [PAWL_DIFFERS_IN_ROLE] = "role",
    [PAWL_DIFFERS_IN_HYPERPARAMETER] = "hyperparameter",
    [PAWL_DIFFERS_IN_VALUE] = "value",
    [PAWL_DIFFERS_IN_NUMBERS] = "numbers",
};

const char *pawl_diff_kind_name(pawl_diff_kind kind) {
    return (size_t)kind < ARRAY_LENGTH(names) ? names[kind] : NULL;
}

static void tell(const comparison *c, pawl_diff_item difference) {
    difference.struct_size = sizeof(difference);
    difference.name = c->name;
    difference.transposed =
        difference.a != NULL && difference.b != NULL && diff_is_transposed(c, difference.a);
    if (c->options.difference != NULL) {
        c->options.difference(c->options.context, &difference);
    }
}

void diff_tell(const comparison *c, pawl_diff_kind kind, const pawl_entry_info *a,
               const pawl_entry_info *b, const pawl_distances *distances) {
    tell(c, (pawl_diff_item){.kind = kind, .a = a, .b = b, .distances = distances});
}

/* Either may be NULL. */
static bool same_text(const char *a, const char *b) {
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static bool same_type(const pawl_entry_info *a, const pawl_entry_info *b) {
    return a->dtype == b->dtype && same_text(a->type, b->type);
}

/* Is it `prefix`, or below it? "" is above all. */
static bool is_below(const char *name, const char *prefix) {
    size_t n = strlen(prefix);
    return n == 0 || (strncmp(name, prefix, n) == 0 && (name[n] == '\0' || name[n] == '/'));
}

bool diff_is_transposed(const comparison *c, const pawl_entry_info *a) {
    const pawl_diff_options *o = &c->options;
    bool named = false;
    for (size_t i = 0; a->kind == PAWL_KIND_TENSOR && a->ndim == 2 && i < o->transpose_count; i++) {
        named = named || is_below(a->name, o->transpose[i]);
    }
    return named;
}

static bool same_shape(const comparison *c, const pawl_entry_info *a, const pawl_entry_info *b) {
    if (diff_is_transposed(c, a)) {
        return b->ndim == 2 && a->shape[0] == b->shape[1] && a->shape[1] == b->shape[0];
    }
    return shape_equal(a->ndim, a->shape, b->ndim, b->shape);
}

/* The variable of A's slot may be renamed, too. */
static pawl_status compare_roles(comparison *c, const pawl_entry_info *a, const pawl_entry_info *b,
                                 bool *same, pawl_error *err) {
    const char *slot_of = a->slot_of;
    if (slot_of != NULL) {
        TRY(rename_apply(&c->renames, a->slot_of, &c->slot_of, &slot_of, err));
    }
    *same = a->role == b->role && same_text(slot_of, b->slot_of) && same_text(a->slot, b->slot);
    return PAWL_OK;
}

static bool is_tensor(const pawl_entry_info *info) {
    return info->kind == PAWL_KIND_TENSOR;
}

bool diff_tensors_alike(const comparison *c, const pawl_entry_info *a, const pawl_entry_info *b) {
    return is_tensor(a) && is_tensor(b) && a->dtype != (pawl_dtype)0 && same_type(a, b) &&
           same_shape(c, a, b);
}

/* Each of these tells what differs, and makes *same false. */

static void compare_values(const comparison *c, const pawl_entry_info *a, const pawl_entry_info *b,
                           bool *same) {
    bool hyperparameter =
        a->role == PAWL_ROLE_HYPERPARAMETER || b->role == PAWL_ROLE_HYPERPARAMETER;
    if (a->value == NULL || b->value == NULL ||
        (c->options.structure_only != 0 && !hyperparameter) ||
        (a->bytes == b->bytes && memcmp(a->value, b->value, (size_t)a->bytes) == 0)) {
        return;
    }
    diff_tell(c, hyperparameter ? PAWL_DIFFERS_IN_HYPERPARAMETER : PAWL_DIFFERS_IN_VALUE, a, b,
              NULL);
    *same = false;
}

static pawl_status compare_numbers(comparison *c, const pawl_entry_info *a,
                                   const pawl_entry_info *b, const tensor_bytes *bytes, bool *same,
                                   pawl_error *err) {
    pawl_distances d;
    TRY(diff_numbers(c, a, b, bytes, &d, err));
    if (d.differing == 0 && d.compared != 0) {
        return PAWL_OK;
    }
    diff_tell(c, PAWL_DIFFERS_IN_NUMBERS, a, b, &d);
    c->result->max_abs = d.max_abs > c->result->max_abs ? d.max_abs : c->result->max_abs;
    c->result->uncompared += d.compared == 0;
    *same = false;
    return PAWL_OK;
}

/* What one rank has of an entry; `*size` is SIZE_MAX for a rank that there is not. */
static pawl_status read_rank(pawl_checkpoint *from, const char *name, int rank, uint8_t **bytes,
                             size_t *size, pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    pawl_status status = checkpoint_read_rank(from, name, rank, NULL, 0, size, &story);
    if (status == PAWL_ENOTFOUND) {
        *size = SIZE_MAX;
        return PAWL_OK;
    }
    if (status != PAWL_OK) {
        *err = story;
        return status;
    }
    size_t room = *size;
    *bytes = mem_alloc(room);
    if (*bytes == NULL) {
        return error_nomem(err, room);
    }
    return checkpoint_read_rank(from, name, rank, *bytes, room, size, err);
}

static pawl_status compare_rank(const comparison *c, const char *name_a, const char *name_b,
                                int rank, bool *same, pawl_error *err) {
    AUTOFREE uint8_t *bytes_a = NULL;
    AUTOFREE uint8_t *bytes_b = NULL;
    size_t size_a = 0;
    size_t size_b = 0;
    TRY(read_rank(c->a, name_a, rank, &bytes_a, &size_a, err));
    TRY(read_rank(c->b, name_b, rank, &bytes_b, &size_b, err));
    *same = size_a == size_b && (size_a == SIZE_MAX || memcmp(bytes_a, bytes_b, size_a) == 0);
    return PAWL_OK;
}

static pawl_status compare_ranks(const comparison *c, const pawl_entry_info *a,
                                 const pawl_entry_info *b, bool *same, pawl_error *err) {
    int differing = 0;
    for (int rank = 0; rank < c->world_size; rank++) {
        bool same_rank = true;
        TRY(diff_go_on(c, err));
        TRY(compare_rank(c, a->name, b->name, rank, &same_rank, err));
        differing += !same_rank;
    }
    if (differing > 0) {
        tell(c, (pawl_diff_item){.kind = PAWL_DIFFERS_IN_VALUE,
                                 .a = a,
                                 .b = b,
                                 .ranks = differing,
                                 .of_ranks = c->world_size});
        *same = false;
    }
    return PAWL_OK;
}

/* They are of one kind. */
static pawl_status compare_alike(comparison *c, const pawl_entry_info *a, const pawl_entry_info *b,
                                 const tensor_bytes *bytes, bool *same, pawl_error *err) {
    bool dtype = !is_tensor(a) || same_type(a, b);
    bool shape = !is_tensor(a) || same_shape(c, a, b);
    bool role;
    TRY(compare_roles(c, a, b, &role, err));
    if (!dtype) {
        diff_tell(c, PAWL_DIFFERS_IN_DTYPE, a, b, NULL);
    }
    if (!shape) {
        diff_tell(c, PAWL_DIFFERS_IN_SHAPE, a, b, NULL);
    }
    if (!role) {
        diff_tell(c, PAWL_DIFFERS_IN_ROLE, a, b, NULL);
    }
    *same = dtype && shape && role;
    compare_values(c, a, b, same);
    if (c->options.structure_only != 0) {
        return PAWL_OK;
    }
    if (a->per_rank != 0) {
        return compare_ranks(c, a, b, same, err);
    }
    return is_tensor(a) && dtype && shape ? compare_numbers(c, a, b, bytes, same, err) : PAWL_OK;
}

pawl_status diff_entry(comparison *c, const pawl_entry_info *a, const pawl_entry_info *b,
                       const tensor_bytes *bytes, pawl_error *err) {
    bool same = a->kind == b->kind && (a->per_rank != 0) == (b->per_rank != 0);
    if (same) {
        TRY(compare_alike(c, a, b, bytes, &same, err));
    } else {
        diff_tell(c, PAWL_DIFFERS_IN_KIND, a, b, NULL);
    }
    c->result->same += same;
    c->result->different += !same;
    return PAWL_OK;
}
