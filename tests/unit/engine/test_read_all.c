/* SPDX-License-Identifier: Apache-2.0 */
/* Reading many stretches by many threads: every byte once, verified, and the first failure. */
#include "unit/engine/asking.h"
#include "unit/engine/files.h"

#include "lib/failing_memory.h"
#include "lib/local_group.h"
#include "lib/simulated_platform.h"

#include <errno.h>
#include <stdlib.h>

#define MOST_BYTES     ((size_t)13 << 20)
#define MOST_STRETCHES 3000
#define GAP            (4 * BLOCK)

typedef struct fixture {
    files disk;
    engine_stretch stretches[MOST_STRETCHES];
    size_t count, first;
    uint8_t *taken[MOST_STRETCHES];
    atomic_uint_fast64_t taken_bytes[MOST_STRETCHES];
    atomic_uint_fast64_t wrong; /* takes of bytes that are not those that were written */
} fixture;

static int set_up(void **state) {
    fixture *f = mem_calloc(1, sizeof(*f));
    files_set_up(&f->disk);
    *state = f;
    return 0;
}

static void forget(fixture *f) {
    for (size_t i = 0; i < f->count; i++) {
        mem_free(f->taken[i]);
        f->taken[i] = NULL;
        f->taken_bytes[i] = 0;
    }
    f->count = 0;
    f->first = 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    forget(f);
    files_tear_down(&f->disk);
    mem_free(f);
    return 0;
}

/* ---- the job ---- */

static engine_stretch get_stretch(void *context, size_t i) {
    const fixture *f = context;
    return f->stretches[i];
}

static void take(void *context, size_t i, uint64_t offset, const uint8_t *bytes, size_t n) {
    fixture *f = context;
    engine_stretch s = f->stretches[i];
    bool inside = offset >= s.offset && n > 0 && offset + n <= s.offset + s.bytes;
    bool cut = offset == s.offset || offset % BLOCK == 0;
    if (!inside || !cut || memcmp(bytes, f->disk.bytes[s.file] + offset, n) != 0) {
        f->wrong++;
        return;
    }
    memcpy(f->taken[i] + (offset - s.offset), bytes, n);
    f->taken_bytes[i] += n;
}

static pawl_status read_on(fixture *f, const platform *os, size_t *failed, pawl_error *err) {
    engine_read_job job = {.source = files_source(&f->disk),
                           .count = f->count,
                           .first = f->first,
                           .stretch = get_stretch,
                           .take = take,
                           .context = f};
    job.source.platform = os;
    return engine_read_all(&job, failed, err);
}

static pawl_status read_all(fixture *f, size_t *failed, pawl_error *err) {
    return read_on(f, &f->disk.os, failed, err);
}

static void want(fixture *f, uint32_t file, uint64_t offset, uint64_t bytes) {
    assert_true(f->count < MOST_STRETCHES && bytes > 0 && offset + bytes <= f->disk.sizes[file]);
    f->taken[f->count] = mem_calloc(1, bytes);
    f->stretches[f->count++] =
        (engine_stretch){.file = file, .offset = offset, .bytes = bytes, .gap = GAP};
}

/* Every byte of every stretch came, and came once. */
static void assert_all_taken(fixture *f) {
    assert_int_equal(f->wrong, 0);
    for (size_t i = 0; i < f->count; i++) {
        engine_stretch s = f->stretches[i];
        assert_int_equal(f->taken_bytes[i], s.bytes);
        assert_memory_equal(f->taken[i], f->disk.bytes[s.file] + s.offset, s.bytes);
    }
}

static void assert_reads(fixture *f) {
    struct pawl_error err = ERROR_INIT;
    size_t failed;
    assert_ok(read_all(f, &failed, &err), &err);
    assert_all_taken(f);
}

/* ---- jobs that the caller ends ---- */

static pawl_status read_asking(fixture *f, const platform *os, asked *a, pawl_error *err) {
    size_t failed;
    interrupt stop = {.ask = end_at, .context = a};
    engine_read_job job = {.source = files_source(&f->disk),
                           .count = f->count,
                           .stretch = get_stretch,
                           .take = take,
                           .interrupted = &stop,
                           .context = f};
    job.source.platform = os;
    a->thread = thread_self();
    return engine_read_all(&job, &failed, err);
}

static void make_files(fixture *f) {
    test_random random = {.state = 1};
    for (uint32_t i = 0; i < FILES; i++) {
        files_make(&f->disk, i, MOST_BYTES, &random);
        want(f, i, 0, MOST_BYTES);
    }
}

/* Reads that hang are under way: they are waited for, and the caller is asked meanwhile. */
static void release_later(void *context, int which) {
    fixture *f = context;
    if (which == 0) {
        while (!store_fault_fired(f->disk.fault)) {
            f->disk.os.sleep_ns(f->disk.os.context, 1000000);
        }
        f->disk.os.sleep_ns(f->disk.os.context, 5 * INTERRUPT_PERIOD_NS);
        store_fault_release(f->disk.fault);
        return;
    }
    struct pawl_error err = ERROR_INIT;
    asked a = {.ends_at = 2};
    assert_fails(read_asking(f, &f->disk.os, &a, &err), PAWL_ECANCELED, &err);
    assert_string_equal(err.attempt, "interrupted by the caller");
    assert_int_equal(a.times, 2);
    assert_false(a.elsewhere);
}

static void test_reading_ends_when_the_caller_says_so(void **state) {
    fixture *f = *state;
    make_files(f);
    store_fault_set(f->disk.fault, &(store_fault){.op = STORE_OP_READ, .nth = 1, .hang = true});
    local_group_run(2, release_later, f);
    assert_int_equal(f->wrong, 0);
}

/* Of 12 windows 8, one for each thread, are being read when it says so. */
static void test_what_was_not_begun_is_not_read(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    asked a = {.ends_at = 1};
    uint64_t taken = 0;
    make_files(f);
    store_fault_set(f->disk.fault, &(store_fault){.op = STORE_OP_READ,
                                                  .nth = 1,
                                                  .forever = true,
                                                  .delay_ns = 10 * INTERRUPT_PERIOD_NS});
    assert_fails(read_asking(f, &f->disk.os, &a, &err), PAWL_ECANCELED, &err);
    for (size_t i = 0; i < f->count; i++) {
        taken += f->taken_bytes[i];
    }
    assert_true(taken > 0 && taken <= 8 * WINDOW);
    assert_false(a.elsewhere);
}

/* Without other threads the caller's reads, and is asked before each window. */
static void test_without_threads_the_caller_is_asked_too(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    simulated_platform alone;
    asked a = {.ends_at = 3};
    simulated_platform_init(&alone, 1);
    make_files(f);
    assert_fails(read_asking(f, &alone.table, &a, &err), PAWL_ECANCELED, &err);
    assert_int_equal(a.times, 3);
    assert_int_equal(f->taken_bytes[0], 2 * WINDOW);
    assert_int_equal(f->taken_bytes[1], 0);
    f->disk.refuse_threads = true;
    a = (asked){.ends_at = 1};
    assert_fails(read_asking(f, &f->disk.os, &a, &err), PAWL_ECANCELED, &err);
    assert_int_equal(f->taken_bytes[0], 2 * WINDOW);
}

static void test_a_caller_that_goes_on_gets_all(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    asked a = {.ends_at = 1000000};
    make_files(f);
    assert_ok(read_asking(f, &f->disk.os, &a, &err), &err);
    assert_all_taken(f);
    assert_false(a.elsewhere);
}

/* ---- random jobs ---- */

static int by_place(const void *a, const void *b) {
    const engine_stretch *left = a;
    const engine_stretch *right = b;
    if (left->file != right->file) {
        return left->file < right->file ? -1 : 1;
    }
    return (left->offset > right->offset) - (left->offset < right->offset);
}

/* Near a place where windows, steps and blocks end, or anywhere. */
static uint64_t random_place(test_random *random, uint64_t size) {
    static const uint64_t edges[] = {BLOCK, 8 * BLOCK, (uint64_t)512 << 10, WINDOW};
    uint64_t edge = edges[random_below(random, ARRAY_LENGTH(edges))];
    uint64_t at = random_below(random, size);
    if (random_below(random, 2) == 0) {
        at = at / edge * edge + random_below(random, 3);
        at = at > 0 ? at - 1 : 0;
    }
    return at < size ? at : size - 1;
}

static void add_random(fixture *f, test_random *random, uint64_t most) {
    uint32_t file = (uint32_t)random_below(random, FILES);
    if (f->disk.sizes[file] == 0) {
        return;
    }
    uint64_t at = random_place(random, f->disk.sizes[file]);
    uint64_t left = f->disk.sizes[file] - at;
    uint64_t n = 1 + random_below(random, left < most ? left : most);
    uint64_t gap = random_below(random, 2) * GAP;
    f->stretches[f->count++] = (engine_stretch){.file = file, .offset = at, .bytes = n, .gap = gap};
}

/* Many small ones, some middling, a few long ones: in rows, with gaps, over each other. */
static void random_job(fixture *f, test_random *random) {
    forget(f);
    size_t small = (size_t)random_below(random, 400);
    for (size_t i = 0; i < small; i++) {
        add_random(f, random, 5000);
    }
    for (uint64_t i = random_below(random, 12); i > 0; i--) {
        add_random(f, random, 200000);
    }
    for (uint64_t i = random_below(random, 4); i > 0; i--) {
        add_random(f, random, MOST_BYTES);
    }
    qsort(f->stretches, f->count, sizeof(f->stretches[0]), by_place);
    for (size_t i = 0; i < f->count; i++) {
        f->taken[i] = mem_calloc(1, f->stretches[i].bytes);
    }
    f->first = random_below(random, 2) == 0 || f->count == 0 ? 0 : random_below(random, f->count);
}

static void random_files(fixture *f, test_random *random) {
    static const uint64_t round[] = {BLOCK, WINDOW, 2 * WINDOW, 3 * WINDOW};
    for (uint32_t i = 0; i < FILES; i++) {
        uint64_t size = round[random_below(random, ARRAY_LENGTH(round))];
        size = random_below(random, 2) == 0 ? size - 1 + random_below(random, 3)
                                            : 1 + random_below(random, MOST_BYTES);
        files_make(&f->disk, i, size, random);
    }
}

static void test_any_stretches_of_any_files(void **state) {
    fixture *f = *state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        test_random random = {.state = seed};
        if (seed % 8 == 1) {
            random_files(f, &random);
        }
        random_job(f, &random);
        f->disk.cached->of = seed % 4 == 0 ? 0 : seed % 4 * 5; /* steps of some size, or of any */
        assert_reads(f);
    }
    assert_true(f->disk.started > 0);
}

static bool flipped_in(const uint8_t *flipped, uint64_t from, uint64_t until) {
    for (uint64_t b = from / BLOCK; b * BLOCK < until; b++) {
        if (flipped[b] != 0) {
            return true;
        }
    }
    return false;
}

/* Flips a byte in some blocks of the storage, and marks those blocks. */
static void damage_some(fixture *f, test_random *random, uint8_t *flipped[FILES]) {
    for (uint64_t n = 1 + random_below(random, 6); n > 0; n--) {
        uint32_t file = (uint32_t)random_below(random, FILES);
        uint64_t at = random_place(random, f->disk.sizes[file]);
        files_flip(&f->disk, file, at);
        flipped[file][at / BLOCK] = 1;
    }
}

static size_t first_damaged(const fixture *f, uint8_t *const flipped[FILES]) {
    for (size_t k = 0; k < f->count; k++) {
        size_t i = (f->first + k) % f->count;
        engine_stretch s = f->stretches[i];
        if (flipped_in(flipped[s.file], s.offset, s.offset + s.bytes)) {
            return i;
        }
    }
    return f->count;
}

/* The failure is that of the first stretch in order, at its first damaged block. */
static void assert_first_failure(fixture *f, uint8_t *const flipped[FILES]) {
    struct pawl_error err = ERROR_INIT;
    size_t failed = 0;
    size_t expected = first_damaged(f, flipped);
    pawl_status status = read_all(f, &failed, &err);
    assert_int_equal(f->wrong, 0);
    if (expected == f->count) {
        assert_ok(status, &err);
        assert_all_taken(f);
        return;
    }
    engine_stretch s = f->stretches[expected];
    uint64_t block = s.offset / BLOCK;
    while (flipped[s.file][block] == 0) {
        block++;
    }
    assert_fails(status, PAWL_EDAMAGED, &err);
    assert_int_equal(failed, expected);
    assert_int_equal(err.offset, block * BLOCK);
    assert_says(err.path, file_names[s.file]);
}

static void test_r08_damage_is_told_of_the_first_stretch_and_never_taken(void **state) {
    fixture *f = *state;
    uint8_t marks[FILES][MOST_BYTES / BLOCK + 2];
    uint8_t *const flipped[FILES] = {marks[0], marks[1], marks[2]};
    for (uint64_t seed = 1; seed <= 40; seed++) {
        test_random random = {.state = 1000 + seed};
        memset(marks, 0, sizeof(marks));
        if (seed % 8 == 1) {
            random_files(f, &random);
        }
        for (uint32_t i = 0; i < FILES; i++) {
            files_write(&f->disk, i, f->disk.sizes[i]);
        }
        random_job(f, &random);
        damage_some(f, &random, (uint8_t **)flipped);
        f->disk.cached->of = seed % 3 * 7;
        assert_first_failure(f, flipped);
    }
}

/* ---- damage ---- */

static void one_file(fixture *f, uint64_t size) {
    test_random random = {.state = 3};
    for (uint32_t i = 0; i < FILES; i++) {
        files_make(&f->disk, i, i == 0 ? size : 1, &random);
    }
}

/* As if all of it had been written otherwise. */
static void damage_blocks(fixture *f, uint64_t first, uint64_t count) {
    for (uint64_t b = first; b < first + count; b++) {
        f->disk.sums[0][b] ^= 1;
    }
}

static void test_r08_neighbouring_blocks_are_one_range_over_steps(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    size_t failed;
    one_file(f, WINDOW + 5);
    want(f, 0, 0, WINDOW + 5);
    damage_blocks(f, 20, 60); /* from the first step into the third */
    files_cache_all(&f->disk);
    assert_fails(read_all(f, &failed, &err), PAWL_EDAMAGED, &err);
    assert_int_equal(err.offset, 20 * BLOCK);
    assert_int_equal(err.length, 60 * BLOCK);
    assert_says(err.found, " in the first of these blocks");
}

static void test_damage_that_nobody_wants_does_not_matter(void **state) {
    fixture *f = *state;
    one_file(f, WINDOW);
    want(f, 0, 100, 200);
    want(f, 0, 2 * BLOCK, BLOCK);
    want(f, 0, 5 * BLOCK - 1, 1);
    damage_blocks(f, 1, 1);
    damage_blocks(f, 3, 1);
    damage_blocks(f, 5, 1);
    assert_reads(f);
    assert_int_equal(f->disk.reads, 1);
}

static void test_damage_everywhere_is_told_of_the_beginning(void **state) {
    fixture *f = *state;
    for (int i = 0; i < 20; i++) {
        struct pawl_error err = ERROR_INIT;
        size_t failed = 1;
        forget(f);
        one_file(f, 3 * WINDOW);
        want(f, 0, 10, BLOCK);
        want(f, 0, 10 + BLOCK, 3 * WINDOW - 10 - BLOCK);
        damage_blocks(f, 0, 3 * WINDOW / BLOCK);
        assert_fails(read_all(f, &failed, &err), PAWL_EDAMAGED, &err);
        assert_int_equal(failed, 0);
        assert_int_equal(err.offset, 0);
        assert_int_equal(err.length, WINDOW);
    }
}

static void test_the_stored_checksums_fail(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    size_t failed;
    one_file(f, 2 * WINDOW);
    want(f, 0, 10, 2 * WINDOW - 10);
    f->disk.sums_fail = true;
    assert_fails(read_all(f, &failed, &err), PAWL_EDAMAGED, &err);
    assert_string_equal(err.attempt, "no checksums");
    assert_int_equal(failed, 0);
}

static void test_r08_files_that_are_not_as_written(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    size_t failed;
    one_file(f, 3 * WINDOW);
    want(f, 0, 10, 3 * WINDOW - 10);
    want(f, 1, 0, 1);
    files_write(&f->disk, 0, 3 * WINDOW - 1);
    assert_fails(read_all(f, &failed, &err), PAWL_EDAMAGED, &err);
    assert_string_equal(err.attempt, "a data file of the checkpoint is truncated");
    assert_int_equal(failed, 0);
    files_write(&f->disk, 0, 3 * WINDOW);
    assert_ok(store_unlink(f->disk.disk, "step/second", &err), &err);
    assert_fails(read_all(f, &failed, &err), PAWL_EDAMAGED, &err);
    assert_string_equal(err.attempt, "a data file of the checkpoint is missing");
    assert_int_equal(failed, 1);
}

static void test_a_stretch_behind_the_end_is_damage_before_anything_is_read(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    size_t failed;
    one_file(f, WINDOW);
    want(f, 0, 0, 100);
    want(f, 0, WINDOW - 1, 1);
    f->stretches[1].bytes = 2;
    assert_fails(read_all(f, &failed, &err), PAWL_EDAMAGED, &err);
    assert_string_equal(err.attempt, "the index points behind the end of a data file");
    assert_int_equal(failed, 1);
    f->stretches[1].bytes = UINT64_MAX;
    assert_fails(read_all(f, &failed, &err), PAWL_EDAMAGED, &err);
    assert_int_equal(f->disk.reads, 0);
}

/* ---- storage ---- */

static void test_short_reads_are_gone_on_with(void **state) {
    fixture *f = *state;
    one_file(f, 2 * WINDOW + 77);
    want(f, 0, 1, 2 * WINDOW + 76);
    store_fault_set(f->disk.fault, &(store_fault){.op = STORE_OP_READ, .nth = 1, .shorten = true});
    assert_reads(f);
    assert_true(store_fault_fired(f->disk.fault));
}

static void test_each_operation_may_fail(void **state) {
    fixture *f = *state;
    static const store_op ops[] = {STORE_OP_READ, STORE_OP_OPEN, STORE_OP_SIZE};
    one_file(f, 3 * WINDOW);
    for (size_t k = 0; k < ARRAY_LENGTH(ops); k++) {
        bool fired = true;
        for (uint64_t nth = 1; fired; nth++) {
            struct pawl_error err = ERROR_INIT;
            size_t failed;
            forget(f);
            want(f, 0, 0, 3 * WINDOW);
            store_fault_set(f->disk.fault,
                            &(store_fault){.op = ops[k], .nth = nth, .system_errno = EIO});
            pawl_status status = read_all(f, &failed, &err);
            fired = store_fault_fired(f->disk.fault);
            assert_fails(status, fired ? PAWL_EIO : PAWL_OK, &err);
            assert_int_equal(f->wrong, 0);
        }
        assert_all_taken(f);
    }
}

static void test_all_that_fail_leave_one_failure(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    size_t failed = 1;
    one_file(f, 3 * WINDOW);
    want(f, 0, 0, WINDOW);
    want(f, 0, WINDOW, 2 * WINDOW);
    store_fault_set(
        f->disk.fault,
        &(store_fault){.op = STORE_OP_READ, .nth = 1, .system_errno = EIO, .forever = true});
    assert_fails(read_all(f, &failed, &err), PAWL_EIO, &err);
    assert_int_equal(failed, 0);
    assert_int_equal(f->taken_bytes[0] + f->taken_bytes[1], 0);
}

/* ---- cost ---- */

static void test_neighbours_are_one_read_and_start_no_thread(void **state) {
    fixture *f = *state;
    one_file(f, WINDOW);
    for (uint64_t i = 0; i < 2000; i++) {
        want(f, 0, BLOCK + i * 37, 16);
    }
    assert_reads(f);
    assert_int_equal(f->disk.reads, 1);
    assert_int_equal(f->disk.read_bytes, 5 * BLOCK);
    assert_int_equal(f->disk.started, 0);
}

static void test_a_wide_gap_is_not_read(void **state) {
    fixture *f = *state;
    one_file(f, WINDOW);
    want(f, 0, 0, 1);
    want(f, 0, 6 * BLOCK, 1);
    want(f, 0, 10 * BLOCK + 1, 1);
    assert_reads(f);
    assert_int_equal(f->disk.reads, 2);
    assert_int_equal(f->disk.read_bytes, 6 * BLOCK);
}

static void test_a_gap_that_is_not_to_be_read_is_not(void **state) {
    fixture *f = *state;
    one_file(f, WINDOW);
    want(f, 0, 0, 1);
    want(f, 0, 2 * BLOCK - 1, 1); /* the next block */
    want(f, 0, 3 * BLOCK, 1);
    for (size_t i = 0; i < f->count; i++) {
        f->stretches[i].gap = 0;
    }
    assert_reads(f);
    assert_int_equal(f->disk.reads, 2);
    assert_int_equal(f->disk.read_bytes, 3 * BLOCK);
}

/* Blocks of files that some stretch has bytes in. */
static uint64_t wanted_block_bytes(const fixture *f) {
    static uint8_t wanted[FILES][MOST_BYTES / BLOCK + 2];
    uint64_t bytes = 0;
    memset(wanted, 0, sizeof(wanted));
    for (size_t i = 0; i < f->count; i++) {
        engine_stretch s = f->stretches[i];
        for (uint64_t b = s.offset / BLOCK; b * BLOCK < s.offset + s.bytes; b++) {
            uint64_t left = f->disk.sizes[s.file] - b * BLOCK;
            bytes += wanted[s.file][b] != 0 ? 0 : left < BLOCK ? left : BLOCK;
            wanted[s.file][b] = 1;
        }
    }
    return bytes;
}

static void test_each_block_is_read_once(void **state) {
    fixture *f = *state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        test_random random = {.state = 3000 + seed};
        if (seed % 8 == 1) {
            random_files(f, &random);
        }
        random_job(f, &random);
        f->first = 0;
        for (size_t i = 0; i < f->count; i++) {
            f->stretches[i].gap = 0;
        }
        f->disk.read_bytes = 0;
        assert_reads(f);
        assert_int_equal(f->disk.read_bytes, wanted_block_bytes(f));
    }
}

static void test_reading_begins_where_it_is_told_and_comes_round(void **state) {
    fixture *f = *state;
    one_file(f, 3 * WINDOW);
    for (uint64_t i = 0; i < 3; i++) {
        want(f, 0, i * WINDOW, WINDOW);
    }
    f->first = 1;
    f->disk.refuse_threads = true;
    files_flip(&f->disk, 0, 5);
    struct pawl_error err = ERROR_INIT;
    size_t failed = 0;
    assert_fails(read_all(f, &failed, &err), PAWL_EDAMAGED, &err);
    assert_int_equal(failed, 0);
    assert_int_equal(f->taken_bytes[1], WINDOW);
    assert_int_equal(f->taken_bytes[2], WINDOW);
}

static void test_cached_bytes_are_read_in_small_steps(void **state) {
    fixture *f = *state;
    one_file(f, WINDOW);
    want(f, 0, 0, WINDOW);
    files_cache_all(&f->disk);
    assert_reads(f);
    assert_int_equal(f->disk.reads, 8);
    forget(f);
    want(f, 0, 0, WINDOW);
    f->disk.cached->of = 0;
    assert_reads(f);
    assert_int_equal(f->disk.reads, 10); /* a small one to find out, and the rest */
}

static void test_nothing_to_read(void **state) {
    fixture *f = *state;
    one_file(f, 1);
    assert_reads(f);
    assert_int_equal(f->disk.reads, 0);
}

/* ---- threads and memory ---- */

static void test_threads_that_do_not_start_are_done_without(void **state) {
    fixture *f = *state;
    f->disk.refuse_threads = true;
    one_file(f, 3 * WINDOW);
    want(f, 0, 0, 3 * WINDOW);
    assert_reads(f);
    assert_true(f->disk.started > 0);
}

static void test_a_platform_without_threads(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    simulated_platform os;
    size_t failed;
    simulated_platform_init(&os, 1);
    one_file(f, 3 * WINDOW);
    want(f, 0, 0, 3 * WINDOW);
    assert_ok(read_on(f, &os.table, &failed, &err), &err);
    assert_all_taken(f);
    assert_int_equal(os.threads_started, 0);
}

static pawl_status read_with_failing_memory(void *context, pawl_error *err) {
    size_t failed;
    return read_on(context, NULL, &failed, err);
}

static void test_every_allocation_may_fail(void **state) {
    fixture *f = *state;
    one_file(f, 2 * WINDOW);
    want(f, 0, 0, 2 * WINDOW);
    want(f, 0, 5, WINDOW);
    assert_true(failing_memory_each(read_with_failing_memory, f) >= 5);
    assert_int_equal(f->wrong, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
        TEST(test_any_stretches_of_any_files),
        TEST(test_reading_ends_when_the_caller_says_so),
        TEST(test_what_was_not_begun_is_not_read),
        TEST(test_without_threads_the_caller_is_asked_too),
        TEST(test_a_caller_that_goes_on_gets_all),
        TEST(test_r08_damage_is_told_of_the_first_stretch_and_never_taken),
        TEST(test_r08_neighbouring_blocks_are_one_range_over_steps),
        TEST(test_damage_that_nobody_wants_does_not_matter),
        TEST(test_damage_everywhere_is_told_of_the_beginning),
        TEST(test_the_stored_checksums_fail),
        TEST(test_r08_files_that_are_not_as_written),
        TEST(test_a_stretch_behind_the_end_is_damage_before_anything_is_read),
        TEST(test_short_reads_are_gone_on_with),
        TEST(test_each_operation_may_fail),
        TEST(test_all_that_fail_leave_one_failure),
        TEST(test_neighbours_are_one_read_and_start_no_thread),
        TEST(test_a_wide_gap_is_not_read),
        TEST(test_a_gap_that_is_not_to_be_read_is_not),
        TEST(test_each_block_is_read_once),
        TEST(test_reading_begins_where_it_is_told_and_comes_round),
        TEST(test_cached_bytes_are_read_in_small_steps),
        TEST(test_nothing_to_read),
        TEST(test_threads_that_do_not_start_are_done_without),
        TEST(test_a_platform_without_threads),
        TEST(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
