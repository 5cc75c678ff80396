/* SPDX-License-Identifier: Apache-2.0 */
/* Stretches that lie in memory as in their file: every byte at its place, no other touched, and
 * none of a block that was not verified. */
#include "unit/engine/files.h"

#include <errno.h>

#define MARGIN     ((size_t)64)
#define MOST_BYTES ((size_t)5 << 20)
#define STRETCHES  40
#define UNTOUCHED  0xa5

/* Memory of a stretch: bytes around it, and any alignment. */
typedef struct target {
    uint8_t *memory;
    size_t bytes, shift;
} target;

typedef struct fixture {
    files disk;
    engine_stretch stretches[STRETCHES];
    target targets[STRETCHES];
    size_t count;
} fixture;

static int set_up(void **state) {
    fixture *f = mem_calloc(1, sizeof(*f));
    files_set_up(&f->disk);
    *state = f;
    return 0;
}

static void forget(fixture *f) {
    for (size_t i = 0; i < f->count; i++) {
        mem_free(f->targets[i].memory);
    }
    f->count = 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    forget(f);
    files_tear_down(&f->disk);
    mem_free(f);
    return 0;
}

static void want(fixture *f, uint64_t offset, uint64_t bytes, size_t shift) {
    target *t = &f->targets[f->count];
    assert_true(f->count < STRETCHES && shift < MARGIN && offset + bytes <= f->disk.sizes[0]);
    *t = (target){.bytes = bytes + 3 * MARGIN, .shift = MARGIN + shift};
    t->memory = mem_aligned(MARGIN, t->bytes);
    memset(t->memory, UNTOUCHED, t->bytes);
    f->stretches[f->count++] = (engine_stretch){
        .offset = offset, .bytes = bytes, .gap = 4 * BLOCK, .to = t->memory + t->shift};
}

static engine_stretch get_stretch(void *context, size_t i) {
    const fixture *f = context;
    return f->stretches[i];
}

static void take_none(void *context, size_t i, uint64_t offset, const uint8_t *bytes, size_t n) {
    (void)context;
    (void)i;
    (void)offset;
    (void)bytes;
    (void)n;
    fail_msg("a stretch that has memory of its own was handed on");
}

static pawl_status read_all(fixture *f, size_t *failed, pawl_error *err) {
    engine_read_job job = {.source = files_source(&f->disk),
                           .count = f->count,
                           .stretch = get_stretch,
                           .take = take_none,
                           .context = f};
    return engine_read_all(&job, failed, err);
}

static void one_file(fixture *f, uint64_t size) {
    test_random random = {.state = 5};
    for (uint32_t i = 0; i < FILES; i++) {
        files_make(&f->disk, i, i == 0 ? size : 1, &random);
    }
}

static bool all_untouched(const uint8_t *bytes, size_t n) {
    return n == 0 || (bytes[0] == UNTOUCHED && memcmp(bytes, bytes + 1, n - 1) == 0);
}

/* The first `n` bytes of the stretch are there, nothing else was touched. */
static void assert_placed(const fixture *f, size_t i, size_t n) {
    const target *t = &f->targets[i];
    const uint8_t *wanted = f->disk.bytes[0] + f->stretches[i].offset;
    assert_true(all_untouched(t->memory, t->shift));
    assert_memory_equal(t->memory + t->shift, wanted, n);
    assert_true(all_untouched(t->memory + t->shift + n, t->bytes - t->shift - n));
}

static void assert_reads(fixture *f) {
    struct pawl_error err = ERROR_INIT;
    size_t failed;
    assert_ok(read_all(f, &failed, &err), &err);
    for (size_t i = 0; i < f->count; i++) {
        assert_placed(f, i, f->stretches[i].bytes);
    }
}

/* ---- places ---- */

static void test_any_bytes_come_to_any_alignment(void **state) {
    fixture *f = *state;
    static const uint64_t lengths[] = {1, 63, 64, 2047, 2048, 2049, 4096, 3 * BLOCK, MOST_BYTES};
    one_file(f, MOST_BYTES + 4711);
    for (uint64_t seed = 1; seed <= 60; seed++) {
        test_random random = {.state = seed};
        uint64_t at = random_below(&random, 3) * random_below(&random, BLOCK);
        forget(f);
        while (f->count < STRETCHES && at < f->disk.sizes[0]) {
            uint64_t left = f->disk.sizes[0] - at;
            uint64_t most = lengths[random_below(&random, ARRAY_LENGTH(lengths))];
            uint64_t n = random_below(&random, 2) == 0 ? most : 1 + random_below(&random, most);
            n = n < left ? n : left;
            want(f, at, n, (size_t)random_below(&random, MARGIN));
            at += n + random_below(&random, 2) * random_below(&random, BLOCK);
        }
        f->disk.cached->of = seed % 3 * 5; /* none, or some, of the reads are of cached bytes */
        f->disk.unsummed = seed % 2 == 0;
        assert_reads(f);
    }
}

static void test_stretches_may_share_a_block(void **state) {
    fixture *f = *state;
    one_file(f, 2 * BLOCK);
    files_cache_all(&f->disk);
    for (int unsummed = 0; unsummed < 2; unsummed++) {
        f->disk.unsummed = unsummed != 0;
        forget(f);
        want(f, 0, 4096, 0);
        want(f, 0, 2 * BLOCK, 1);
        want(f, 4096, BLOCK, 2);
        want(f, BLOCK + 1, BLOCK - 1, 3);
        assert_reads(f);
    }
}

static const fixture *watched;

/* Adds up in `of` what is read right to its place. */
static pawl_status watch_places(store_wrapper *w, store_call *call, pawl_error *err) {
    cached_store *c = (cached_store *)w;
    pawl_status status = store_call_inner(call, err);
    if (call->op == STORE_OP_READ) {
        const target *t = &watched->targets[0];
        const uint8_t *into = call->into;
        call->file->read_cached = true;
        c->of += into >= t->memory && into < t->memory + t->bytes ? *call->moved : 0;
    }
    return status;
}

/* Cached bytes without checksums are copied once; where other bytes are in the step, twice. */
static void test_what_has_no_checksums_is_read_to_its_place(void **state) {
    fixture *f = *state;
    const uint64_t step = (uint64_t)512 << 10;
    one_file(f, WINDOW);
    f->disk.refuse_threads = true;
    f->disk.cached->wrapper.around = watch_places;
    watched = f;
    for (int unsummed = 0; unsummed < 2; unsummed++) {
        f->disk.unsummed = unsummed != 0;
        f->disk.cached->of = 0;
        forget(f);
        want(f, 1, WINDOW - 2, 7);
        assert_reads(f);
        assert_int_equal(f->disk.cached->of, unsummed != 0 ? WINDOW - 2 * step : 0);
    }
}

static void test_short_reads_are_gone_on_with(void **state) {
    fixture *f = *state;
    one_file(f, WINDOW + 77);
    files_cache_all(&f->disk);
    for (uint64_t nth = 1; nth <= 9; nth++) {
        f->disk.unsummed = nth % 2 == 0;
        forget(f);
        want(f, 1, WINDOW + 76, 9);
        store_fault_set(f->disk.fault,
                        &(store_fault){.op = STORE_OP_READ, .nth = nth, .shorten = true});
        assert_reads(f);
        assert_true(store_fault_fired(f->disk.fault));
    }
}

/* ---- damage ---- */

/* One thread reads, so that what lies behind the damage is not placed either. */
static void test_r08_nothing_of_a_damaged_block_is_placed(void **state) {
    fixture *f = *state;
    const uint64_t size = 65 * BLOCK + 5; /* two steps of cached bytes, and three blocks */
    const uint64_t begin = 4096;
    one_file(f, size);
    f->disk.refuse_threads = true;
    files_cache_all(&f->disk);
    for (uint64_t k = 0; k * BLOCK < size; k++) {
        struct pawl_error err = ERROR_INIT;
        size_t failed = 1;
        forget(f);
        want(f, begin, size - begin, 4);
        f->disk.sums[0][k] ^= 1;
        assert_fails(read_all(f, &failed, &err), PAWL_EDAMAGED, &err);
        f->disk.sums[0][k] ^= 1;
        assert_int_equal(failed, 0);
        assert_int_equal(err.offset, k * BLOCK);
        assert_int_equal(err.length, (k + 1) * BLOCK < size ? BLOCK : size - k * BLOCK);
        assert_placed(f, 0, k * BLOCK > begin ? (size_t)(k * BLOCK - begin) : 0);
    }
}

/* Also with threads: what was placed is whole blocks that were good. */
static void test_r08_threads_place_no_damaged_block(void **state) {
    fixture *f = *state;
    one_file(f, MOST_BYTES);
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct pawl_error err = ERROR_INIT;
        test_random random = {.state = seed};
        size_t failed;
        uint64_t k = random_below(&random, MOST_BYTES / BLOCK);
        forget(f);
        want(f, 0, MOST_BYTES, (size_t)(seed % MARGIN));
        f->disk.cached->of = seed % 2 * 1000000;
        f->disk.sums[0][k] ^= 1;
        assert_fails(read_all(f, &failed, &err), PAWL_EDAMAGED, &err);
        f->disk.sums[0][k] ^= 1;
        const uint8_t *placed = f->stretches[0].to;
        for (uint64_t at = 0; at < MOST_BYTES; at += BLOCK) {
            bool good = memcmp(placed + at, f->disk.bytes[0] + at, BLOCK) == 0;
            assert_true((good && at != k * BLOCK) || all_untouched(placed + at, BLOCK));
        }
    }
}

/* ---- a file that is cut while it is read ---- */

static pawl_status cut_short(store_wrapper *w, store_call *call, pawl_error *err) {
    cached_store *c = (cached_store *)w;
    pawl_status status = store_call_inner(call, err);
    if (call->op == STORE_OP_READ) {
        call->file->read_cached = true;
        if (status == PAWL_OK && call->at + *call->moved > c->of) {
            *call->moved = call->at < c->of ? (size_t)(c->of - call->at) : 0;
        }
    }
    return status;
}

static void test_r08_a_file_that_is_cut_meanwhile(void **state) {
    fixture *f = *state;
    const uint64_t step = (uint64_t)512 << 10;
    one_file(f, WINDOW);
    f->disk.refuse_threads = true;
    f->disk.cached->wrapper.around = cut_short;
    static const uint64_t ends[] = {0, 1, BLOCK, 5 * BLOCK - 1, 32 * BLOCK, WINDOW - 1};
    for (size_t i = 0; i < ARRAY_LENGTH(ends); i++) {
        struct pawl_error err = ERROR_INIT;
        size_t failed = 1;
        forget(f);
        want(f, 0, WINDOW, 0);
        f->disk.cached->of = ends[i];
        assert_fails(read_all(f, &failed, &err), PAWL_EDAMAGED, &err);
        assert_int_equal(failed, 0);
        assert_placed(f, 0, (size_t)(ends[i] / step * step));
    }
}

static void test_a_read_that_fails_leaves_what_was_verified(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    size_t failed = 1;
    one_file(f, WINDOW);
    f->disk.refuse_threads = true;
    files_cache_all(&f->disk);
    want(f, 0, WINDOW, 0);
    store_fault_set(f->disk.fault,
                    &(store_fault){.op = STORE_OP_READ, .nth = 3, .system_errno = EIO});
    assert_fails(read_all(f, &failed, &err), PAWL_EIO, &err);
    assert_placed(f, 0, (size_t)1 << 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
        TEST(test_any_bytes_come_to_any_alignment),
        TEST(test_stretches_may_share_a_block),
        TEST(test_what_has_no_checksums_is_read_to_its_place),
        TEST(test_short_reads_are_gone_on_with),
        TEST(test_r08_nothing_of_a_damaged_block_is_placed),
        TEST(test_r08_threads_place_no_damaged_block),
        TEST(test_r08_a_file_that_is_cut_meanwhile),
        TEST(test_a_read_that_fails_leaves_what_was_verified),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
