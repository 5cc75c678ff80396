/* SPDX-License-Identifier: Apache-2.0 */
/* Many slices in one call: the same bytes as by one call each, few reads, and what a failure leaves
 * is told. */
#include "lib/training.h"

#include "lib/failing_memory.h"

#define TENSORS 40
#define SLICES  300

typedef struct fixture {
    store *disk;
    pawl_run *run;
    pawl_state *state;
    pawl_checkpoint *checkpoint;
    uint8_t *memory; /* of the tensors */
    size_t memory_bytes;
    test_random random;
    simulated_platform os;
} fixture;

static int set_up(void **state) {
    struct pawl_error err = ERROR_INIT;
    store *seen;
    fixture *f = mem_calloc(1, sizeof(*f));
    assert_non_null(f);
    f->random.state = 12;
    f->memory_bytes = (size_t)8 << 20;
    f->memory = mem_alloc(f->memory_bytes);
    assert_non_null(f->memory);
    random_fill(&f->random, f->memory, f->memory_bytes);
    assert_ok(store_mem(&f->disk, &err), &err);
    assert_ok(store_trace_wrap(f->disk, platform_system(), NULL, NULL, &seen, &err), &err);
    assert_ok(run_open(seen, NULL, platform_system(), &f->run, &err), &err);
    assert_ok(state_new(&f->state, &err), &err);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    struct pawl_error err = ERROR_INIT;
    fixture *f = *state;
    pawl_checkpoint_close(f->checkpoint);
    if (f->run != NULL) {
        assert_ok(run_close(f->run, 0, &err), &err);
    }
    state_free(f->state);
    store_destroy(f->disk);
    mem_free(f->memory);
    mem_free(f);
    return 0;
}

static void save(fixture *f, int64_t step) {
    struct pawl_error err = ERROR_INIT;
    const pawl_save_options options = {.struct_size = sizeof(options)};
    assert_ok(run_save(f->run, f->state, step, &options, &err), &err);
    assert_ok(run_wait(f->run, 0, NULL, &err), &err);
    pawl_checkpoint_close(f->checkpoint);
    assert_ok(checkpoint_open(f->disk, false, step, platform_system(), NULL, &f->checkpoint, &err),
              &err);
}

static pawl_status read_many(fixture *f, pawl_slice *slices, size_t count, pawl_error *err) {
    const slice_array all = {.first = slices, .size = sizeof(*slices), .count = count};
    return checkpoint_read_many(f->checkpoint, &all, err);
}

/* ---- random states, random slices ---- */

typedef struct made_tensor {
    char name[24];
    pawl_dtype dtype;
    int ndim;
    int64_t shape[4];
} made_tensor;

/* Empty ones, some with strides, some in two boxes; a few of more than a block. */
static void add_any(fixture *f, made_tensor *t, int number) {
    static const pawl_dtype dtypes[] = {PAWL_F32, PAWL_BF16, PAWL_I64, PAWL_U8};
    struct pawl_error err = ERROR_INIT;
    test_random *r = &f->random;
    int64_t zero[4] = {0};
    int64_t upper[4] = {0};
    int64_t lower[4] = {0};
    int64_t lower_offset[4] = {0};
    snprintf(t->name, sizeof(t->name), "t/%03d", number);
    t->dtype = dtypes[random_below(r, 4)];
    t->ndim = (int)random_between(r, 0, 3);
    for (int d = 0; d < t->ndim; d++) {
        t->shape[d] = random_between(r, number % 9 == 0 ? 0 : 1, number % 5 == 0 ? 40 : 12);
        upper[d] = lower[d] = t->shape[d];
    }
    uint8_t *data = f->memory + random_below(r, 1000) * 8;
    const pawl_box boxes[] = {{.offset = zero, .extent = upper, .data = data},
                              {.offset = lower_offset, .extent = lower, .data = data + 800000}};
    bool split = t->ndim > 0 && t->shape[0] > 1 && number % 3 == 0;
    if (split) {
        upper[0] = t->shape[0] / 2;
        lower[0] = t->shape[0] - upper[0];
        lower_offset[0] = upper[0];
    }
    const pawl_tensor tensor = {.struct_size = sizeof(tensor),
                                .name = t->name,
                                .dtype = t->dtype,
                                .ndim = t->ndim,
                                .shape = t->shape,
                                .data = split ? NULL : data,
                                .nboxes = split ? 2 : 0,
                                .boxes = split ? boxes : NULL,
                                .box_size = sizeof(boxes[0])};
    assert_ok(state_add_tensor(f->state, &tensor, &err), &err);
}

typedef struct wanted {
    int64_t offset[4], extent[4];
} wanted;

static void want_any(fixture *f, const made_tensor *t, wanted *w, pawl_slice *slice) {
    uint64_t bytes = (uint64_t)pawl_dtype_bits(t->dtype) / 8;
    bool whole = random_below(&f->random, 3) == 0;
    for (int d = 0; d < t->ndim; d++) {
        w->offset[d] = whole ? 0 : random_between(&f->random, 0, t->shape[d]);
        w->extent[d] =
            whole ? t->shape[d] : random_between(&f->random, 0, t->shape[d] - w->offset[d]);
        bytes *= (uint64_t)w->extent[d];
    }
    bool by_null = whole && random_below(&f->random, 2) == 0;
    *slice = (pawl_slice){.name = t->name,
                          .offset = by_null ? NULL : w->offset,
                          .extent = by_null ? NULL : w->extent,
                          .to = mem_calloc(1, bytes + 1),
                          .to_bytes = (size_t)bytes,
                          .status = PAWL_EINTERNAL};
    assert_non_null(slice->to);
}

static void assert_as_single_reads(fixture *f, const pawl_slice *slices) {
    struct pawl_error err = ERROR_INIT;
    for (size_t i = 0; i < SLICES; i++) {
        const pawl_slice *s = &slices[i];
        AUTOFREE uint8_t *single = mem_calloc(1, s->to_bytes + 1);
        assert_non_null(single);
        assert_int_equal(s->status, PAWL_OK);
        assert_ok(checkpoint_read(f->checkpoint, s->name, s->offset, s->extent, single, s->to_bytes,
                                  &err),
                  &err);
        assert_memory_equal(s->to, single, s->to_bytes);
        assert_int_equal(((const uint8_t *)s->to)[s->to_bytes], 0); /* nothing behind it */
    }
}

static void test_the_same_bytes_as_by_single_reads(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    made_tensor tensors[TENSORS] = {0};
    static wanted wants[SLICES];
    static pawl_slice slices[SLICES];
    for (int i = 0; i < TENSORS; i++) {
        add_any(f, &tensors[i], i);
    }
    save(f, 1);
    for (int round = 0; round < 20; round++) {
        for (size_t i = 0; i < SLICES; i++) {
            want_any(f, &tensors[random_below(&f->random, TENSORS)], &wants[i], &slices[i]);
        }
        assert_ok(read_many(f, slices, SLICES, &err), &err);
        assert_as_single_reads(f, slices);
        for (size_t i = 0; i < SLICES; i++) {
            mem_free(slices[i].to);
        }
    }
}

/* ---- many ---- */

#define MANY 40000

typedef struct numbered {
    char name[24];
} numbered;

/* Dtypes alternate: neighbours in the order of names are far apart in the file. */
static size_t bytes_of(size_t i) {
    static const size_t bytes[] = {8, 2, 4, 1};
    return 24 * bytes[i % 4];
}

static numbered *add_many(fixture *f) {
    static const pawl_dtype dtypes[] = {PAWL_I64, PAWL_BF16, PAWL_F32, PAWL_U8};
    static const int64_t shape[] = {24};
    struct pawl_error err = ERROR_INIT;
    numbered *names = mem_calloc(MANY, sizeof(*names));
    AUTOFREE pawl_tensor *tensors = mem_calloc(MANY, sizeof(*tensors));
    assert_true(names != NULL && tensors != NULL);
    for (size_t i = 0; i < MANY; i++) {
        snprintf(names[i].name, sizeof(names[i].name), "many/%06zu", i);
        tensors[i] = (pawl_tensor){.struct_size = sizeof(tensors[i]),
                                   .name = names[i].name,
                                   .dtype = dtypes[i % 4],
                                   .ndim = 1,
                                   .shape = shape,
                                   .data = f->memory + i * 192};
    }
    const state_tensors all = {.first = tensors, .size = sizeof(tensors[0]), .count = MANY};
    assert_ok(state_add_tensors(f->state, &all, &err), &err);
    return names;
}

static uint64_t data_blocks(const fixture *f) {
    pawl_checkpoint_info info;
    checkpoint_describe(f->checkpoint, &info);
    return info.data_bytes / FORMAT_BLOCK_BYTES + info.data_files;
}

static void test_many_tensors_take_fewer_reads_than_blocks(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    AUTOFREE numbered *names = add_many(f);
    AUTOFREE uint8_t *room = mem_calloc(MANY, 192);
    AUTOFREE pawl_slice *slices = mem_calloc(MANY, sizeof(*slices));
    assert_true(room != NULL && slices != NULL);
    save(f, 1);
    for (size_t i = 0; i < MANY; i++) {
        slices[i] =
            (pawl_slice){.name = names[i].name, .to = room + i * 192, .to_bytes = bytes_of(i)};
    }
    pawl_checkpoint_info info;
    checkpoint_describe(f->checkpoint, &info);
    pawl_read_stats before = checkpoint_reads(f->checkpoint);
    assert_ok(read_many(f, slices, MANY, &err), &err);
    pawl_read_stats after = checkpoint_reads(f->checkpoint);
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(slices[i].status, PAWL_OK);
        assert_memory_equal(room + i * 192, f->memory + i * 192, bytes_of(i));
    }
    /* Those of the index included, which has blocks of its own. */
    uint64_t index_blocks = info.index_bytes / 4096;
    assert_true(after.reads - before.reads <= data_blocks(f) + index_blocks + 50);
    assert_true(after.bytes - before.bytes <
                info.data_bytes + 2 * info.index_bytes + (uint64_t)100 * FORMAT_BLOCK_BYTES);
}

/* ---- failures ---- */

static void damage(fixture *f, const char *name) {
    CLEANUP(arena_free) arena memory = {0};
    struct pawl_error err = ERROR_INIT;
    record_entry entry = {0};
    char path[STORE_MAX_PATH];
    store_file *file;
    uint8_t byte;
    assert_ok(checkpoint_entry(f->checkpoint, name, &memory, &entry, &err), &err);
    source_file_path(f->checkpoint->source, entry.pieces[0].file, path);
    assert_ok(store_open(f->disk, path, STORE_UPDATE, &file, &err), &err);
    uint64_t at = entry.pieces[0].offset + entry.pieces[0].bytes / 2; /* no other's block */
    assert_ok(store_read(file, at, &byte, 1, &err), &err);
    byte ^= 1;
    assert_ok(store_write(file, at, &byte, 1, &err), &err);
    store_close(file);
}

static void add_large(fixture *f, const char *name, size_t megabyte) {
    struct pawl_error err = ERROR_INIT;
    const int64_t shape[] = {1 << 20};
    const pawl_tensor tensor = {.struct_size = sizeof(tensor),
                                .name = name,
                                .dtype = PAWL_U8,
                                .ndim = 1,
                                .shape = shape,
                                .data = f->memory + (megabyte << 20)};
    assert_ok(state_add_tensor(f->state, &tensor, &err), &err);
}

static void test_r08_damage_names_the_slice_and_what_the_others_hold(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    static const char *const names[] = {"a", "b", "c", "d"};
    AUTOFREE uint8_t *room = mem_calloc(6, 1 << 20);
    pawl_slice slices[6];
    assert_non_null(room);
    for (size_t i = 0; i < 4; i++) {
        add_large(f, names[i], i);
    }
    save(f, 1);
    damage(f, "c");
    /* In another order, "a" twice. */
    static const size_t order[] = {3, 2, 0, 1, 0};
    for (size_t i = 0; i < 5; i++) {
        slices[i] =
            (pawl_slice){.name = names[order[i]], .to = room + (i << 20), .to_bytes = 1 << 20};
    }
    assert_fails(read_many(f, slices, 5, &err), PAWL_EDAMAGED, &err);
    assert_string_equal(err.entry, "c");
    assert_says(err.attempt, "slices[1]: reading bytes ");
    for (size_t i = 0; i < 5; i++) {
        bool is_c = order[i] == 2;
        bool before_c = order[i] < 2; /* in the file: all of it was read */
        assert_true(slices[i].status == (is_c ? PAWL_EDAMAGED : PAWL_OK) ||
                    (!is_c && !before_c && slices[i].status == PAWL_ECANCELED));
        if (slices[i].status == PAWL_OK) {
            assert_memory_equal(slices[i].to, f->memory + (order[i] << 20), 1 << 20);
        }
    }
}

static void expect_refused(fixture *f, pawl_slice bad, pawl_status status, const char *entry,
                           const char *words) {
    struct pawl_error err = ERROR_INIT;
    uint8_t to[4];
    const int64_t zero[] = {0};
    const int64_t four[] = {4};
    pawl_slice slices[] = {
        {.name = "a", .offset = zero, .extent = four, .to = to, .to_bytes = 4}, bad, {.name = "a"}};
    assert_fails(read_many(f, slices, 3, &err), status, &err);
    assert_string_equal(err.entry, entry);
    assert_says(err.attempt, "slices[1]: ");
    assert_says(err.attempt, words);
    assert_int_equal(slices[0].status, PAWL_ECANCELED);
    assert_int_equal(slices[1].status, status);
    assert_int_equal(slices[2].status, PAWL_ECANCELED);
}

static void test_bad_slices_are_refused_with_their_place(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    const int64_t zero[] = {0};
    const int64_t huge[] = {INT64_MAX};
    uint8_t to[4];
    add_large(f, "a", 0);
    assert_ok(
        state_set_value(f->state, "text", PAWL_KIND_STRING, PAWL_ROLE_OTHER, false, "x", 1, &err),
        &err);
    save(f, 1);
    expect_refused(f, (pawl_slice){.name = "aa", .to = to, .to_bytes = 4}, PAWL_ENOTFOUND, "aa",
                   "the checkpoint has no entry of this name");
    expect_refused(f, (pawl_slice){.name = "text", .to = to, .to_bytes = 1}, PAWL_EUSAGE, "text",
                   "only tensors have slices");
    expect_refused(f, (pawl_slice){.name = "a", .to = to, .to_bytes = 4}, PAWL_EUSAGE, "a",
                   "the memory for a slice has another size than the slice");
    expect_refused(f, (pawl_slice){.name = "a", .offset = zero, .to = to, .to_bytes = 4},
                   PAWL_EUSAGE, "a", "a slice has an offset and an extent, or neither");
    expect_refused(
        f, (pawl_slice){.name = "a", .offset = zero, .extent = huge, .to = to, .to_bytes = 4},
        PAWL_EUSAGE, "a", "");
}

static void test_none_is_no_failure(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    save(f, 1);
    assert_ok(read_many(f, NULL, 0, &err), &err);
}

static pawl_status read_with_failing_memory(void *context, pawl_error *err) {
    fixture *f = context;
    uint8_t to[3][4];
    const int64_t zero[] = {0};
    const int64_t four[] = {4};
    pawl_slice slices[3];
    for (size_t i = 0; i < 3; i++) {
        slices[i] =
            (pawl_slice){.name = "a", .offset = zero, .extent = four, .to = to[i], .to_bytes = 4};
    }
    pawl_checkpoint *c = NULL;
    const slice_array all = {.first = slices, .size = sizeof(slices[0]), .count = 3};
    TRY(checkpoint_open(f->disk, false, 1, &f->os.table, NULL, &c, err));
    pawl_status status = checkpoint_read_many(c, &all, err);
    for (size_t i = 0; i < 3; i++) {
        assert_true(slices[i].status == status || slices[i].status == PAWL_ECANCELED);
    }
    pawl_checkpoint_close(c);
    return status;
}

static void test_every_allocation_may_fail(void **state) {
    fixture *f = *state;
    add_large(f, "a", 0);
    save(f, 1);
    simulated_platform_init(&f->os, 1); /* without threads */
    struct pawl_error story = ERROR_INIT;
    pawl_checkpoint_close(f->checkpoint); /* their threads allocate, too */
    f->checkpoint = NULL;
    assert_ok(run_close(f->run, 0, &story), &story);
    f->run = NULL;
    bool fired = true;
    uint64_t refused = 0;
    for (uint64_t nth = 1; fired; nth++) { /* opening can do without some of them */
        struct pawl_error err = ERROR_INIT;
        uint64_t before = failing_memory_live();
        failing_memory_set(nth);
        pawl_status status = read_with_failing_memory(f, &err);
        fired = failing_memory_fired();
        failing_memory_set(0);
        assert_int_equal(failing_memory_live(), before);
        assert_true(status == PAWL_OK || (fired && status == PAWL_ENOMEM));
        refused += status == PAWL_ENOMEM;
    }
    assert_true(refused > 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
        TEST(test_the_same_bytes_as_by_single_reads),
        TEST(test_many_tensors_take_fewer_reads_than_blocks),
        TEST(test_r08_damage_names_the_slice_and_what_the_others_hold),
        TEST(test_bad_slices_are_refused_with_their_place),
        TEST(test_none_is_no_failure),
        TEST(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
