/* SPDX-License-Identifier: Apache-2.0 */
/* Adding tensors: what is taken in, and every refusal of S15 with its whole text. */
#include "unit/state/fixture.h"

#include <stdio.h>

static void assert_refused_as(fixture *f, pawl_status status, const pawl_tensor *t,
                              const char *text) {
    size_t before = state_count(f->state);
    assert_int_equal(state_add_tensor(f->state, t, &f->err), status);
    assert_status_text(&f->err, status, text);
    assert_int_equal(state_count(f->state), before);
}

static void assert_refused(fixture *f, const pawl_tensor *t, const char *text) {
    assert_refused_as(f, PAWL_EUSAGE, t, text);
}

/* ---- names ---------------------------------------------------------------------------------- */

#define NAME_NEXT                                                                                  \
    "\n  next:     give it a name such as \"model/dense/kernel\": UTF-8, components separated by " \
    "'/', at most 1024 bytes"

static void assert_name_refused(fixture *f, const char *name, const char *text) {
    pawl_tensor t = plain_tensor(name);
    assert_refused(f, &t, text);
}

static void test_s15_null_name_is_refused(void **context) {
    assert_name_refused(*context, NULL, "cannot add the tensor: it has no name" NAME_NEXT);
}

static void test_s15_empty_name_is_refused(void **context) {
    assert_name_refused(*context, "", "cannot add the tensor: its name is empty" NAME_NEXT);
}

static void test_s15_leading_slash_is_refused(void **context) {
    assert_name_refused(
        *context, "/etc/passwd",
        "cannot add the tensor: its name begins with '/'\n  entry:    /etc/passwd" NAME_NEXT);
}

static void test_s15_dot_dot_is_refused(void **context) {
    assert_name_refused(
        *context, "a/../b",
        "cannot add the tensor: its name has a component \"..\"\n  entry:    a/../b" NAME_NEXT);
}

static void test_s15_dot_is_refused(void **context) {
    assert_name_refused(
        *context, "a/.",
        "cannot add the tensor: its name has a component \".\"\n  entry:    a/." NAME_NEXT);
}

static void test_s15_empty_component_is_refused(void **context) {
    assert_name_refused(
        *context, "a//b",
        "cannot add the tensor: its name has an empty component\n  entry:    a//b" NAME_NEXT);
}

static void test_s15_control_character_is_refused(void **context) {
    assert_name_refused(
        *context, "a\nb",
        "cannot add the tensor: its name has a control character\n  entry:    a\\x0ab" NAME_NEXT);
}

static void test_s15_not_utf8_is_refused(void **context) {
    assert_name_refused(
        *context, "a\xff",
        "cannot add the tensor: its name is not UTF-8\n  entry:    a\\xff" NAME_NEXT);
}

static void test_s15_too_long_name_is_refused(void **context) {
    fixture *f = *context;
    char name[PAWL_MAX_NAME_BYTES + 2];
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    pawl_tensor t = plain_tensor(name);
    assert_fails(state_add_tensor(f->state, &t, &f->err), PAWL_ELIMIT, &f->err);
    assert_string_equal(f->err.attempt,
                        "cannot add the tensor: its name is longer than 1024 bytes");
}

static void test_longest_name_is_taken(void **context) {
    fixture *f = *context;
    char name[PAWL_MAX_NAME_BYTES + 1];
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    add_plain(f, name);
    assert_non_null(state_find(f->state, name));
}

static void test_s15_name_reserved_by_data_files_is_refused(void **context) {
    assert_name_refused(*context, "__metadata__",
                        "cannot add the tensor: its name is reserved in data files\n"
                        "  entry:    __metadata__\n"
                        "  next:     give it another name");
}

static void test_s15_repeated_name_is_refused(void **context) {
    add_plain(*context, "dense/kernel");
    assert_name_refused(*context, "dense/kernel",
                        "cannot add the tensor: the state has an entry of that name already\n"
                        "  entry:    dense/kernel\n"
                        "  found:    a tensor [2, 3] F32\n"
                        "  next:     give it another name, or remove the entry first");
}

static void test_s15_name_of_a_value_is_refused(void **context) {
    set_text(*context, "note", "text");
    assert_name_refused(*context, "note",
                        "cannot add the tensor: the state has an entry of that name already\n"
                        "  entry:    note\n"
                        "  found:    a value of kind string\n"
                        "  next:     give it another name, or remove the entry first");
}

/* ---- type, role and slot -------------------------------------------------------------------- */

static void test_wrong_struct_size_is_refused(void **context) {
    pawl_tensor t = plain_tensor("a");
    t.struct_size = 8;
    char text[128];
    snprintf(text, sizeof(text),
             "cannot add the tensor: its struct_size is 8\n  expected: %zu, which is "
             "sizeof(pawl_tensor)",
             sizeof(pawl_tensor));
    assert_refused(*context, &t, text);
}

static void test_s15_unknown_dtype_is_refused(void **context) {
    pawl_tensor t = plain_tensor("a");
    t.dtype = (pawl_dtype)99;
    assert_refused(*context, &t,
                   "cannot add the tensor: its dtype is no pawl_dtype\n"
                   "  entry:    a\n"
                   "  found:    dtype 99");
}

static void test_s15_unknown_role_is_refused(void **context) {
    pawl_tensor t = plain_tensor("a");
    t.role = (pawl_role)8;
    assert_refused(*context, &t,
                   "cannot add the tensor: its role is no pawl_role\n"
                   "  entry:    a\n"
                   "  found:    role 8");
}

#define SLOT_NEXT                                                                                  \
    "\n  next:     set slot_of to the name of the variable and slot to the name of the slot, "     \
    "such as "                                                                                     \
    "\"adam/m\""

static pawl_tensor slot_tensor(const char *slot_of, const char *slot) {
    pawl_tensor t = plain_tensor("opt/m");
    t.role = PAWL_ROLE_SLOT;
    t.slot_of = slot_of;
    t.slot = slot;
    return t;
}

static void test_s15_slot_without_variable_is_refused(void **context) {
    pawl_tensor t = slot_tensor(NULL, "adam/m");
    assert_refused(*context, &t,
                   "cannot add the tensor: an optimizer slot without slot_of\n"
                   "  entry:    opt/m" SLOT_NEXT);
}

static void test_s15_slot_without_its_name_is_refused(void **context) {
    pawl_tensor t = slot_tensor("dense/kernel", NULL);
    assert_refused(*context, &t,
                   "cannot add the tensor: an optimizer slot without slot\n"
                   "  entry:    opt/m" SLOT_NEXT);
}

static void test_s15_slot_of_a_bad_name_is_refused(void **context) {
    pawl_tensor t = slot_tensor("../kernel", "adam/m");
    assert_refused(*context, &t,
                   "cannot add the tensor: its slot_of has a component \"..\"\n"
                   "  entry:    opt/m" SLOT_NEXT);
}

static void test_s15_slot_of_itself_is_refused(void **context) {
    pawl_tensor t = slot_tensor("opt/m", "adam/m");
    assert_refused(*context, &t,
                   "cannot add the tensor: an optimizer slot of itself\n"
                   "  entry:    opt/m" SLOT_NEXT);
}

static void test_s15_slot_of_without_the_role_is_refused(void **context) {
    pawl_tensor t = slot_tensor("dense/kernel", NULL);
    t.role = PAWL_ROLE_MODEL;
    assert_refused(*context, &t,
                   "cannot add the tensor: slot_of or slot is set, but its role is model\n"
                   "  entry:    opt/m\n"
                   "  next:     set role to PAWL_ROLE_SLOT, or leave slot_of and slot NULL");
}

/* ---- shapes --------------------------------------------------------------------------------- */

static void assert_shape_refused_as(fixture *f, pawl_status status, pawl_dtype dtype, int ndim,
                                    const int64_t *shape, const char *text) {
    pawl_tensor t = plain_tensor("a");
    t.dtype = dtype;
    t.ndim = ndim;
    t.shape = shape;
    assert_refused_as(f, status, &t, text);
}

static void assert_shape_refused(fixture *f, pawl_dtype dtype, int ndim, const int64_t *shape,
                                 const char *text) {
    assert_shape_refused_as(f, PAWL_EUSAGE, dtype, ndim, shape, text);
}

static void test_s15_negative_shape_is_refused(void **context) {
    assert_shape_refused(*context, PAWL_F32, 2, (const int64_t[]){64, -1},
                         "cannot add the tensor: the shape cannot be used: an extent is negative\n"
                         "  entry:    a\n"
                         "  found:    [64, -1]");
}

static void test_s15_huge_shape_is_refused(void **context) {
    assert_shape_refused_as(
        *context, PAWL_ELIMIT, PAWL_F32, 1, (const int64_t[]){INT64_MAX},
        "cannot add the tensor: the shape cannot be used: it holds more than 2^62 "
        "elements or bytes\n"
        "  entry:    a\n"
        "  found:    [9223372036854775807]");
}

static void test_s15_overflowing_shape_is_refused(void **context) {
    assert_shape_refused_as(
        *context, PAWL_ELIMIT, PAWL_F32, 3,
        (const int64_t[]){(int64_t)1 << 32, (int64_t)1 << 32, 2},
        "cannot add the tensor: the shape cannot be used: it holds more than 2^62 "
        "elements or bytes\n"
        "  entry:    a\n"
        "  found:    [4294967296, 4294967296, 2]");
}

static void test_s15_too_many_dimensions_are_refused(void **context) {
    static const int64_t shape[PAWL_MAX_NDIM + 1];
    assert_shape_refused_as(*context, PAWL_ELIMIT, PAWL_F32, PAWL_MAX_NDIM + 1, shape,
                            "cannot add the tensor: the shape cannot be used: it has too many "
                            "dimensions\n"
                            "  entry:    a\n"
                            "  expected: 0 to 32 dimensions (PAWL_MAX_NDIM)\n"
                            "  found:    33");
}

static void test_s15_null_shape_is_refused(void **context) {
    assert_shape_refused(*context, PAWL_F32, 2, NULL,
                         "cannot add the tensor: it has 2 dimensions, but its shape is NULL\n"
                         "  entry:    a");
}

static void test_s15_half_bytes_are_refused(void **context) {
    assert_shape_refused(
        *context, PAWL_F4, 1, (const int64_t[]){3},
        "cannot add the tensor: the shape cannot be used: its elements do not fill "
        "whole bytes\n"
        "  entry:    a\n"
        "  expected: a multiple of 2 elements of F4\n"
        "  found:    [3]");
}

/* ---- memory --------------------------------------------------------------------------------- */

static void test_s15_null_data_with_bytes_is_refused(void **context) {
    pawl_tensor t = plain_tensor("a");
    t.data = NULL;
    assert_refused(*context, &t,
                   "cannot add the tensor: its data is NULL, but it has 24 bytes\n"
                   "  entry:    a\n"
                   "  next:     hand in the memory of its first element");
}

static void test_null_data_of_an_empty_tensor_is_taken(void **context) {
    fixture *f = *context;
    pawl_tensor t = plain_tensor("a");
    t.shape = (const int64_t[]){0, 3};
    t.data = NULL;
    assert_ok(state_add_tensor(f->state, &t, &f->err), &f->err);
}

static void assert_strides_refused(fixture *f, const int64_t *strides, const char *text) {
    pawl_tensor t = plain_tensor("a");
    t.strides = strides;
    assert_refused(f, &t, text);
}

static void test_s15_overflowing_strides_are_refused(void **context) {
    assert_strides_refused(*context, (const int64_t[]){4, INT64_MAX},
                           "cannot add the tensor: its strides overflow\n"
                           "  entry:    a\n"
                           "  found:    strides [4, 9223372036854775807], in bytes");
}

/* The memory of a tensor at the very end of the address space. */
static void test_s15_memory_beyond_the_address_space_is_refused(void **context) {
    fixture *f = *context;
    pawl_tensor t = plain_tensor("a");
    t.data = (void *)(UINTPTR_MAX - 22); /* 23 bytes to the end, 24 wanted */
    assert_fails(state_add_tensor(f->state, &t, &f->err), PAWL_EUSAGE, &f->err);
    assert_string_equal(f->err.attempt,
                        "cannot add the tensor: its memory would pass the end of the "
                        "address space");
    assert_string_equal(f->err.found, "0 bytes before and 23 bytes after the address "
                                      "0xffffffffffffffe9");
    t.data = (void *)(UINTPTR_MAX - 23);
    assert_ok(state_add_tensor(f->state, &t, &f->err), &f->err);
}

static void test_s15_strides_before_the_address_space_are_refused(void **context) {
    fixture *f = *context;
    pawl_tensor t = plain_tensor("a");
    t.strides = (const int64_t[]){-(INT64_MAX / 2), 4};
    assert_fails(state_add_tensor(f->state, &t, &f->err), PAWL_EUSAGE, &f->err);
    assert_string_equal(f->err.attempt,
                        "cannot add the tensor: its memory would pass the end of the "
                        "address space");
}

static void test_s15_broadcast_memory_is_refused(void **context) {
    assert_strides_refused(
        *context, (const int64_t[]){0, 4},
        "cannot add the tensor: its strides make elements share memory\n"
        "  entry:    a\n"
        "  expected: a stride in dimension 0 that steps over the other elements\n"
        "  found:    strides [0, 4], in bytes\n"
        "  next:     make the tensor contiguous before adding it; a restore could not write to "
        "broadcast memory");
}

static void test_s15_strides_of_packed_elements_are_refused(void **context) {
    pawl_tensor t = plain_tensor("a");
    t.dtype = PAWL_F4;
    t.shape = (const int64_t[]){2, 4};
    t.strides = (const int64_t[]){2, 1};
    assert_refused(*context, &t,
                   "cannot add the tensor: packed elements cannot have strides\n"
                   "  entry:    a\n"
                   "  found:    strides [2, 1], in bytes\n"
                   "  next:     hand in dense memory and leave strides NULL");
}

static void assert_strides_taken(fixture *f, const char *name, const int64_t *strides,
                                 ptrdiff_t first) {
    static uint8_t memory[256];
    pawl_tensor t = plain_tensor(name);
    t.strides = strides;
    t.data = memory + first;
    assert_ok(state_add_tensor(f->state, &t, &f->err), &f->err);
}

/* Transposed, stepped and reversed memory is what trainers have. */
static void test_usual_strides_are_taken(void **context) {
    assert_strides_taken(*context, "transposed", (const int64_t[]){4, 8}, 0);
    assert_strides_taken(*context, "stepped", (const int64_t[]){48, 8}, 0);
    assert_strides_taken(*context, "reversed", (const int64_t[]){-12, -4}, 20);
    assert_strides_taken(*context, "dense", (const int64_t[]){12, 4}, 0);
}

/* Strides that say what dense memory has anyway are forgotten. */
static void test_dense_strides_are_no_strides(void **context) {
    fixture *f = *context;
    assert_strides_taken(f, "dense", (const int64_t[]){12, 4}, 0);
    assert_null(state_entry_memory(state_find(f->state, "dense"), 0).strides);
}

/* ---- boxes ---------------------------------------------------------------------------------- */

static float box_data[64];

static pawl_box a_box(const int64_t *offset, const int64_t *extent) {
    return (pawl_box){.offset = offset, .extent = extent, .data = box_data};
}

static pawl_tensor boxed_tensor(const pawl_box *boxes, size_t n) {
    pawl_tensor t = plain_tensor("a");
    t.data = NULL;
    t.nboxes = n;
    t.boxes = boxes;
    static const int64_t shape[] = {4, 4};
    t.shape = shape;
    return t;
}

static void test_s15_overlapping_boxes_are_refused(void **context) {
    const pawl_box boxes[] = {a_box((const int64_t[]){0, 0}, (const int64_t[]){2, 4}),
                              a_box((const int64_t[]){1, 0}, (const int64_t[]){2, 2})};
    pawl_tensor t = boxed_tensor(boxes, 2);
    assert_refused(*context, &t,
                   "cannot add the tensor: its boxes 0 and 1 overlap\n"
                   "  entry:    a\n"
                   "  found:    [0:2, 0:4] and [1:3, 0:2]");
}

static void test_s15_box_outside_the_shape_is_refused(void **context) {
    const pawl_box boxes[] = {a_box((const int64_t[]){0, 0}, (const int64_t[]){2, 4}),
                              a_box((const int64_t[]){2, 0}, (const int64_t[]){3, 4})};
    pawl_tensor t = boxed_tensor(boxes, 2);
    assert_refused(*context, &t,
                   "cannot add the tensor: box 1: the box sticks out of its tensor in dimension 0\n"
                   "  entry:    a\n"
                   "  expected: a box inside the shape [4, 4]\n"
                   "  found:    [2:5, 0:4]");
}

static void test_s15_box_without_extent_is_refused(void **context) {
    const pawl_box boxes[] = {a_box((const int64_t[]){0, 0}, NULL)};
    pawl_tensor t = boxed_tensor(boxes, 1);
    assert_refused(*context, &t,
                   "cannot add the tensor: box 0: its offset or extent is NULL\n  entry:    a");
}

static void test_s15_box_without_data_is_refused(void **context) {
    pawl_box one = a_box((const int64_t[]){0, 0}, (const int64_t[]){2, 4});
    one.data = NULL;
    pawl_tensor t = boxed_tensor(&one, 1);
    assert_refused(*context, &t,
                   "cannot add the tensor: box 0: its data is NULL, but it has 32 bytes\n"
                   "  entry:    a\n"
                   "  next:     hand in the memory of its first element");
}

static void test_s15_boxes_without_memory_are_refused(void **context) {
    pawl_tensor t = boxed_tensor(NULL, 3);
    assert_refused(*context, &t,
                   "cannot add the tensor: it has 3 boxes, but boxes is NULL\n  entry:    a");
}

static void test_s15_too_many_boxes_are_refused(void **context) {
    pawl_box one = a_box((const int64_t[]){0, 0}, (const int64_t[]){1, 1});
    pawl_tensor t = boxed_tensor(&one, PAWL_MAX_BOXES + 1);
    assert_refused_as(*context, PAWL_ELIMIT, &t,
                      "cannot add the tensor: it has 4097 boxes\n"
                      "  entry:    a\n"
                      "  expected: at most 4096 (PAWL_MAX_BOXES)");
}

static void test_s15_replicated_without_cover_is_refused(void **context) {
    pawl_box one = a_box((const int64_t[]){0, 0}, (const int64_t[]){2, 4});
    pawl_tensor t = boxed_tensor(&one, 1);
    t.replicated = 1;
    assert_refused(
        *context, &t,
        "cannot add the tensor: it is declared replicated, but its boxes do not cover it\n"
        "  entry:    a\n"
        "  next:     hand in the whole tensor, say with replica_count how many ranks hold these "
        "boxes, or leave replicated 0");
}

#define REPLICA_NEXT                                                                               \
    "  entry:    a\n"                                                                              \
    "  found:    replica %d of %d\n"                                                               \
    "  next:     set replicated to 1, replica_count to how many ranks hold these boxes and "       \
    "replica to this rank's number among them, or leave both 0"

static void test_s15_replica_that_is_none_is_refused(void **context) {
    static const int cases[][2] = {{0, -1}, {-1, 2}, {2, 2}, {1, 0}};
    char text[512];
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        pawl_tensor t = plain_tensor("a");
        t.replicated = 1;
        t.replica = cases[i][0];
        t.replica_count = cases[i][1];
        snprintf(text, sizeof(text),
                 "cannot add the tensor: its replica is not 0 to replica_count - 1\n" REPLICA_NEXT,
                 cases[i][0], cases[i][1]);
        assert_refused(*context, &t, text);
    }
}

static void test_s15_replica_of_what_is_not_replicated_is_refused(void **context) {
    char text[512];
    pawl_tensor t = plain_tensor("a");
    t.replica = 1;
    t.replica_count = 2;
    snprintf(text, sizeof(text),
             "cannot add the tensor: replica or replica_count is set, but it is not "
             "replicated\n" REPLICA_NEXT,
             1, 2);
    assert_refused(*context, &t, text);
}

/* Shards that are replicated: each rank has some boxes, and some ranks have the same. */
static void test_replica_of_a_part_is_taken(void **context) {
    fixture *f = *context;
    pawl_box one = a_box((const int64_t[]){0, 0}, (const int64_t[]){2, 4});
    pawl_tensor t = boxed_tensor(&one, 1);
    t.replicated = 1;
    t.replica = 1;
    t.replica_count = 2;
    assert_ok(state_add_tensor(f->state, &t, &f->err), &f->err);
    const state_entry *e = state_find(f->state, "a");
    assert_true(e->replicated);
    assert_int_equal(e->replica, 1);
    assert_int_equal(e->replica_count, 2);
}

/* Everything that was handed in is seen again, from copies of the caller's arrays. */
static void test_boxes_are_copied(void **context) {
    fixture *f = *context;
    int64_t offset[] = {2, 0};
    int64_t extent[] = {2, 3};
    int64_t strides[] = {32, 4};
    pawl_box one = {.offset = offset, .extent = extent, .strides = strides, .data = box_data};
    pawl_tensor t = boxed_tensor(&one, 1);
    t.role = PAWL_ROLE_SLOT;
    t.slot_of = "dense/kernel";
    t.slot = "adam/m";
    assert_ok(state_add_tensor(f->state, &t, &f->err), &f->err);
    memset(offset, 0, sizeof(offset));
    memset(extent, 0, sizeof(extent));
    memset(strides, 0, sizeof(strides));
    const state_entry *e = state_find(f->state, "a");
    strided v = state_entry_memory(e, 0);
    box wanted = box_of(2, (const int64_t[]){2, 0}, (const int64_t[]){2, 3});
    assert_true(box_equal(&v.box, &wanted));
    assert_int_equal(v.strides[0], 32);
    assert_ptr_equal(v.data, box_data);
    assert_string_equal(e->slot_of, "dense/kernel");
    assert_string_equal(e->slot, "adam/m");
    assert_int_equal(e->box_count, 1);
    assert_int_equal(e->shape[1], 4);
}

static void test_scalar_is_taken(void **context) {
    fixture *f = *context;
    pawl_tensor t = plain_tensor("a");
    t.ndim = 0;
    t.shape = NULL;
    assert_ok(state_add_tensor(f->state, &t, &f->err), &f->err);
    strided v = state_entry_memory(state_find(f->state, "a"), 0);
    assert_int_equal(box_elements(&v.box), 1);
}

/* A scalar's box has no numbers to point at. */
static void test_box_of_a_scalar_is_taken(void **context) {
    fixture *f = *context;
    pawl_box one = {.data = box_data};
    pawl_tensor t = boxed_tensor(&one, 1);
    t.ndim = 0;
    t.shape = NULL;
    assert_ok(state_add_tensor(f->state, &t, &f->err), &f->err);
}

static void test_every_role_is_taken(void **context) {
    fixture *f = *context;
    for (int role = PAWL_ROLE_HYPERPARAMETER; role <= PAWL_ROLE_OTHER; role++) {
        pawl_tensor t = plain_tensor(pawl_role_name((pawl_role)role));
        t.role = (pawl_role)role;
        assert_ok(state_add_tensor(f->state, &t, &f->err), &f->err);
        assert_int_equal(state_find(f->state, t.name)->role, role);
    }
}

#define WITH_STATE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_STATE(test_s15_null_name_is_refused),
        WITH_STATE(test_s15_empty_name_is_refused),
        WITH_STATE(test_s15_leading_slash_is_refused),
        WITH_STATE(test_s15_dot_dot_is_refused),
        WITH_STATE(test_s15_dot_is_refused),
        WITH_STATE(test_s15_empty_component_is_refused),
        WITH_STATE(test_s15_control_character_is_refused),
        WITH_STATE(test_s15_not_utf8_is_refused),
        WITH_STATE(test_s15_too_long_name_is_refused),
        WITH_STATE(test_longest_name_is_taken),
        WITH_STATE(test_s15_name_reserved_by_data_files_is_refused),
        WITH_STATE(test_s15_repeated_name_is_refused),
        WITH_STATE(test_s15_name_of_a_value_is_refused),
        WITH_STATE(test_wrong_struct_size_is_refused),
        WITH_STATE(test_s15_unknown_dtype_is_refused),
        WITH_STATE(test_s15_unknown_role_is_refused),
        WITH_STATE(test_s15_slot_without_variable_is_refused),
        WITH_STATE(test_s15_slot_without_its_name_is_refused),
        WITH_STATE(test_s15_slot_of_a_bad_name_is_refused),
        WITH_STATE(test_s15_slot_of_itself_is_refused),
        WITH_STATE(test_s15_slot_of_without_the_role_is_refused),
        WITH_STATE(test_s15_negative_shape_is_refused),
        WITH_STATE(test_s15_huge_shape_is_refused),
        WITH_STATE(test_s15_overflowing_shape_is_refused),
        WITH_STATE(test_s15_too_many_dimensions_are_refused),
        WITH_STATE(test_s15_null_shape_is_refused),
        WITH_STATE(test_s15_half_bytes_are_refused),
        WITH_STATE(test_s15_null_data_with_bytes_is_refused),
        WITH_STATE(test_null_data_of_an_empty_tensor_is_taken),
        WITH_STATE(test_s15_overflowing_strides_are_refused),
        WITH_STATE(test_s15_memory_beyond_the_address_space_is_refused),
        WITH_STATE(test_s15_strides_before_the_address_space_are_refused),
        WITH_STATE(test_s15_broadcast_memory_is_refused),
        WITH_STATE(test_s15_strides_of_packed_elements_are_refused),
        WITH_STATE(test_usual_strides_are_taken),
        WITH_STATE(test_dense_strides_are_no_strides),
        WITH_STATE(test_s15_overlapping_boxes_are_refused),
        WITH_STATE(test_s15_box_outside_the_shape_is_refused),
        WITH_STATE(test_s15_box_without_extent_is_refused),
        WITH_STATE(test_s15_box_without_data_is_refused),
        WITH_STATE(test_s15_boxes_without_memory_are_refused),
        WITH_STATE(test_s15_too_many_boxes_are_refused),
        WITH_STATE(test_s15_replicated_without_cover_is_refused),
        WITH_STATE(test_s15_replica_that_is_none_is_refused),
        WITH_STATE(test_s15_replica_of_what_is_not_replicated_is_refused),
        WITH_STATE(test_replica_of_a_part_is_taken),
        WITH_STATE(test_boxes_are_copied),
        WITH_STATE(test_scalar_is_taken),
        WITH_STATE(test_box_of_a_scalar_is_taken),
        WITH_STATE(test_every_role_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
