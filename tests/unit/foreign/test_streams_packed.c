/* SPDX-License-Identifier: Apache-2.0 */
/* Streams that are decompressed as they are read: in any order, by any number of threads, once. */
#include "unit/foreign/made_zip.h"

#include "foreign/streams.h"
#include "lib/failing_memory.h"
#include "lib/stored.h"
#include "stores/stores.h"

#include <stdatomic.h>
#include <stdio.h>

#define NAME    "packed"
#define BEFORE  "before"
#define MIB     ((size_t)1 << 20)
#define THREADS 8

/* What the test's format adds: as many streams of the same bytes. */
static stream_packed spec;
static size_t streams;

static pawl_status read_format(archive *a, pawl_error *err) {
    uint32_t file;
    TRY(archive_add_file(a, NAME, &file, err));
    for (size_t i = 0; i < streams; i++) {
        char name[16];
        archive_part part = {.bytes = spec.bytes};
        int64_t shape[] = {(int64_t)spec.bytes};
        snprintf(name, sizeof(name), "t%zu", i);
        TRY(stream_add_packed(a, &spec, &part.stream, err));
        const archive_tensor tensor = {.name = name,
                                       .dtype = PAWL_U8,
                                       .ndim = 1,
                                       .shape = shape,
                                       .parts = &part,
                                       .part_count = 1};
        TRY(archive_add_tensor(a, &tensor, err));
    }
    return PAWL_OK;
}

static const archive_format format = {.name = "packed", .read = read_format};

typedef struct fixture {
    store *memory, *traced;
    _Atomic uint64_t read; /* bytes of the file */
    struct source *source;
    buffer plain, packed;
} fixture;

static void count_read(void *context, const store_trace_event *event) {
    fixture *f = context;
    if (event->op == STORE_OP_READ) {
        f->read += event->bytes;
    }
}

static int set_up(void **state) {
    struct pawl_error err = ERROR_INIT;
    fixture *f = mem_calloc(1, sizeof(*f));
    assert_non_null(f);
    assert_ok(store_mem(&f->memory, &err), &err);
    assert_ok(store_trace_wrap(f->memory, platform_system(), count_read, f, &f->traced, &err),
              &err);
    streams = 1;
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    if (f->source != NULL) {
        source_destroy(f->source);
    }
    store_destroy(f->traced);
    store_destroy(f->memory);
    buffer_free(&f->plain);
    buffer_free(&f->packed);
    mem_free(f);
    return 0;
}

/* Bytes that compress, but not to nothing. */
static void make_plain(fixture *f, size_t n) {
    struct pawl_error err = ERROR_INIT;
    uint32_t random = 12345;
    assert_ok(buffer_reserve(&f->plain, n, &err), &err);
    for (size_t i = 0; i < n; i++) {
        random = random * 1664525u + 1013904223u;
        f->plain.data[i] = (uint8_t)((random >> 24) % 11 + i / 4096);
    }
    f->plain.size = n;
}

static void pack(fixture *f, stream_packing packing) {
    static const uint16_t wrappers[] = {
        [STREAM_DEFLATE] = IGZIP_DEFLATE, [STREAM_ZLIB] = IGZIP_ZLIB, [STREAM_GZIP] = IGZIP_GZIP};
    f->packed.size = 0;
    made_bytes(&f->packed, BEFORE, strlen(BEFORE));
    made_deflate(&f->packed, f->plain.data, f->plain.size, wrappers[packing]);
    spec = (stream_packed){.offset = strlen(BEFORE),
                           .packed_bytes = f->packed.size - strlen(BEFORE),
                           .bytes = f->plain.size,
                           .packing = packing};
}

static pawl_status open_archive(fixture *f, pawl_error *err) {
    *err = ERROR_INIT;
    source_destroy(f->source);
    f->source = NULL;
    put_anew(f->memory, NAME, f->packed.data, f->packed.size);
    return archive_open(f->traced, false, &format, NAME, false, &f->source, err);
}

static store_file *open_stream(fixture *f, uint32_t number) {
    struct pawl_error err = ERROR_INIT;
    store_file *file;
    assert_ok(
        f->source->ops->open(f->source, ARCHIVE_PHASES + number, STORE_READ_BULK, &file, &err),
        &err);
    return file;
}

static uint64_t kept(const fixture *f) {
    return ((const archive *)f->source)->packed.kept;
}

static void assert_read(fixture *f, store_file *file, size_t at, size_t n) {
    struct pawl_error err = ERROR_INIT;
    uint8_t *bytes = mem_alloc(n);
    assert_non_null(bytes);
    assert_ok(store_read(file, at, bytes, n, &err), &err);
    assert_memory_equal(bytes, f->plain.data + at, n);
    mem_free(bytes);
}

/* ---- what is read ---- */

static void test_every_packing_in_any_order(void **state) {
    fixture *f = *state;
    struct pawl_error err;
    make_plain(f, 3 * MIB + 77);
    for (stream_packing p = STREAM_DEFLATE; p <= STREAM_GZIP; p++) {
        uint64_t size;
        pack(f, p);
        assert_ok(open_archive(f, &err), &err);
        store_file *file = open_stream(f, 0);
        assert_ok(store_size(file, &size, &err), &err);
        assert_int_equal(size, f->plain.size);
        assert_read(f, file, 0, f->plain.size);
        assert_read(f, file, 5, 1);
        assert_read(f, file, f->plain.size - 1, 1);
        for (size_t at = f->plain.size; at > 10001; at -= 10001) {
            assert_read(f, file, at - 10001, 10001);
        }
        assert_true(f->read < spec.packed_bytes + 4096); /* all of it was kept */
        assert_fails(store_read(file, f->plain.size, &size, 1, &err), PAWL_EDAMAGED, &err);
        store_close(file);
        assert_int_equal(kept(f), 0);
        f->read = 0;
    }
}

static void test_what_was_made_before_is_made_again(void **state) {
    fixture *f = *state;
    struct pawl_error err;
    make_plain(f, STREAM_KEPT + MIB);
    pack(f, STREAM_DEFLATE);
    assert_ok(open_archive(f, &err), &err);
    store_file *file = open_stream(f, 0);
    assert_read(f, file, 0, 10);
    assert_read(f, file, f->plain.size - 10, 10);
    assert_int_equal(f->read, spec.packed_bytes);
    assert_read(f, file, f->plain.size - STREAM_KEPT, 10);
    assert_int_equal(f->read, spec.packed_bytes);
    assert_read(f, file, f->plain.size - STREAM_KEPT - 1, 10);
    assert_true(f->read > spec.packed_bytes);
    assert_read(f, file, MIB, STREAM_KEPT);
    assert_int_equal(kept(f), STREAM_KEPT);
    store_close(file);
}

static void test_gzip_of_several_members(void **state) {
    fixture *f = *state;
    struct pawl_error err;
    make_plain(f, 300000);
    pack(f, STREAM_GZIP);
    f->packed.size = strlen(BEFORE);
    for (size_t i = 0; i < 3; i++) {
        made_deflate(&f->packed, f->plain.data + 100000 * i, 100000, IGZIP_GZIP);
    }
    spec.packed_bytes = f->packed.size - strlen(BEFORE);
    assert_ok(open_archive(f, &err), &err);
    store_file *file = open_stream(f, 0);
    assert_read(f, file, 0, 300000);
    store_close(file);
}

/* ---- memory ---- */

static void test_memory_is_bounded_and_given_back(void **state) {
    fixture *f = *state;
    struct pawl_error err;
    store_file *files[4], *same;
    streams = 4;
    make_plain(f, STREAM_KEPT + MIB);
    pack(f, STREAM_DEFLATE);
    assert_ok(open_archive(f, &err), &err);
    uint64_t before = failing_memory_live();
    for (uint32_t i = 0; i < 4; i++) {
        files[i] = open_stream(f, i);
        assert_read(f, files[i], 0, 1000);
    }
    assert_int_equal(kept(f), STREAM_KEPT_IN_ALL + 2 * STREAM_KEPT_LEAST);
    assert_read(f, files[3], MIB, MIB); /* little is kept, and all is there */
    assert_read(f, files[3], 0, MIB);
    same = open_stream(f, 0);
    store_close(files[0]);
    assert_read(f, same, 500, 1000);
    assert_int_equal(kept(f), STREAM_KEPT_IN_ALL + 2 * STREAM_KEPT_LEAST);
    store_close(same);
    assert_int_equal(kept(f), STREAM_KEPT + 2 * STREAM_KEPT_LEAST);
    for (uint32_t i = 1; i < 4; i++) {
        store_close(files[i]);
    }
    assert_int_equal(kept(f), 0);
    assert_int_equal(failing_memory_live(), before);
}

static pawl_status read_with_failing_memory(void *context, pawl_error *err) {
    fixture *f = context;
    struct source *s;
    store_file *file = NULL;
    uint8_t bytes[10];
    TRY(archive_open(f->traced, false, &format, NAME, false, &s, err));
    pawl_status status = s->ops->open(s, ARCHIVE_PHASES, STORE_READ, &file, err);
    if (status == PAWL_OK) {
        status = store_read(file, 0, bytes, sizeof(bytes), err);
        store_close(file);
    }
    source_destroy(s);
    return status;
}

static void test_every_allocation_may_fail(void **state) {
    fixture *f = *state;
    make_plain(f, 1000);
    pack(f, STREAM_ZLIB);
    put_anew(f->memory, NAME, f->packed.data, f->packed.size);
    assert_true(failing_memory_each(read_with_failing_memory, f) > 12);
}

/* ---- what is refused ---- */

static void assert_damaged(fixture *f, uint64_t at, const char *says) {
    struct pawl_error err;
    uint8_t bytes[100];
    char place[64];
    assert_ok(open_archive(f, &err), &err);
    store_file *file = open_stream(f, 0);
    for (int again = 0; again < 2; again++) {
        err = ERROR_INIT;
        assert_fails(store_read(file, spec.bytes - 100, bytes, 100, &err), PAWL_EDAMAGED, &err);
        assert_says(err.attempt, says);
        assert_string_equal(err.path, "/mem/" NAME);
        snprintf(place, sizeof(place), at > 0 ? "at byte %llu of the file: " : "at byte ",
                 (unsigned long long)at);
        assert_says(err.attempt, place);
        f->read = again == 0 ? 0 : f->read;
    }
    assert_int_equal(f->read, 0); /* it is known */
    assert_read(f, file, 0, 100);
    store_close(file);
}

static void test_r14_another_number_of_bytes(void **state) {
    fixture *f = *state;
    make_plain(f, 3 * MIB);
    for (stream_packing p = STREAM_DEFLATE; p <= STREAM_GZIP; p++) {
        pack(f, p);
        uint64_t end = f->packed.size;
        spec.bytes++;
        assert_damaged(f, end, "become fewer than they should");
        spec.bytes -= 2;
        assert_damaged(f, 0, "become more than they should");
        spec.bytes = MIB;
        assert_damaged(f, 0, "become more than they should");
        spec.bytes = f->plain.size;
        spec.packed_bytes--;
        assert_damaged(f, end - 1, "end too early");
        spec.packed_bytes /= 2;
        assert_damaged(f, 0, "end too early");
        made_bytes(&f->packed, "more", 4);
        spec.packed_bytes = f->packed.size - strlen(BEFORE);
        assert_damaged(f, 0, p == STREAM_GZIP ? "end too early" : "end before their end");
    }
}

static void test_r14_bytes_that_are_damaged(void **state) {
    fixture *f = *state;
    make_plain(f, 3 * MIB);
    pack(f, STREAM_ZLIB);
    f->packed.data[f->packed.size - 1] ^= 1; /* Adler-32 */
    assert_damaged(f, 0, "the compressed bytes are damaged");
    pack(f, STREAM_GZIP);
    f->packed.data[f->packed.size - 8] ^= 1; /* CRC-32 */
    assert_damaged(f, 0, "the compressed bytes are damaged");
    pack(f, STREAM_DEFLATE);
    memset(f->packed.data + f->packed.size / 2, 0xff, 1000);
    assert_damaged(f, 0, "");
}

static void test_r14_what_cannot_be(void **state) {
    fixture *f = *state;
    struct pawl_error err;
    make_plain(f, 10);
    pack(f, STREAM_DEFLATE);
    spec.bytes = 1032 * spec.packed_bytes + 1;
    assert_fails(open_archive(f, &err), PAWL_EDAMAGED, &err);
    assert_says(err.attempt, "cannot become as many");
    spec.bytes = 10;
    spec.offset = UINT64_MAX;
    assert_fails(open_archive(f, &err), PAWL_EDAMAGED, &err);
    spec.packing = (stream_packing)99;
    assert_fails(open_archive(f, &err), PAWL_EUNSUPPORTED, &err);
}

static void test_a_change_is_noticed(void **state) {
    fixture *f = *state;
    struct pawl_error err;
    uint8_t byte;
    make_plain(f, 3 * MIB);
    pack(f, STREAM_DEFLATE);
    assert_ok(open_archive(f, &err), &err);
    store_file *file = open_stream(f, 0);
    assert_read(f, file, 0, 1000);
    put_anew(f->memory, NAME, f->packed.data, f->packed.size - 1);
    assert_fails(store_read(file, f->plain.size - 1, &byte, 1, &err), PAWL_EBUSY, &err);
    store_close(file);
}

/* ---- threads ---- */

typedef struct crew {
    fixture *f;
    _Atomic size_t next, wrong;
    size_t window;
    bool backwards; /* in each turn of all threads */
} crew;

static void read_windows(void *context) {
    crew *c = context;
    struct pawl_error err = ERROR_INIT;
    fixture *f = c->f;
    store_file *file;
    uint8_t *bytes = mem_alloc(c->window);
    size_t windows = f->plain.size / c->window;
    if (f->source->ops->open(f->source, ARCHIVE_PHASES, STORE_READ_BULK, &file, &err) != PAWL_OK) {
        c->wrong++;
        return;
    }
    for (;;) {
        size_t i = c->next++;
        if (i >= windows) {
            break;
        }
        if (c->backwards) {
            i = i / THREADS * THREADS + THREADS - 1 - i % THREADS;
            i = i < windows ? i : 0;
        }
        if (store_read(file, i * c->window, bytes, c->window, &err) != PAWL_OK ||
            memcmp(bytes, f->plain.data + i * c->window, c->window) != 0) {
            c->wrong++;
        }
    }
    store_close(file);
    mem_free(bytes);
}

static void run_crew(crew *c) {
    const platform *os = platform_system();
    struct pawl_error err = ERROR_INIT;
    platform_thread *threads[THREADS];
    store_file *file = open_stream(c->f, 0); /* so that it stays while they come and go */
    c->f->read = 0;
    for (size_t i = 0; i < THREADS; i++) {
        assert_ok(os->thread_start(os->context, read_windows, c, &threads[i], &err), &err);
    }
    for (size_t i = 0; i < THREADS; i++) {
        os->thread_join(os->context, threads[i]);
    }
    store_close(file);
    assert_int_equal(c->wrong, 0);
    assert_int_equal(kept(c->f), 0);
}

/* Small windows and large: all threads together decompress the stream once, or a few times where
 * one of them was held up for long. */
static void test_threads_decompress_it_once(void **state) {
    fixture *f = *state;
    struct pawl_error err;
    make_plain(f, 64 * MIB);
    pack(f, STREAM_DEFLATE);
    assert_ok(open_archive(f, &err), &err);
    for (size_t window = 4096; window <= 4 * MIB; window *= 32) {
        crew c = {.f = f, .window = window};
        run_crew(&c);
        assert_true(f->read <= 3 * spec.packed_bytes);
        c = (crew){.f = f, .window = window, .backwards = true};
        run_crew(&c);
        assert_true(f->read <= 4 * spec.packed_bytes);
    }
}

static void test_threads_that_all_find_damage(void **state) {
    fixture *f = *state;
    struct pawl_error err;
    make_plain(f, 4 * MIB);
    pack(f, STREAM_GZIP);
    f->packed.data[f->packed.size - 8] ^= 1;
    assert_ok(open_archive(f, &err), &err);
    crew c = {.f = f, .window = 64 * 1024};
    const platform *os = platform_system();
    platform_thread *threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        assert_ok(os->thread_start(os->context, read_windows, &c, &threads[i], &err), &err);
    }
    for (size_t i = 0; i < THREADS; i++) {
        os->thread_join(os->context, threads[i]);
    }
    assert_true(c.wrong > 0 && c.wrong < 64);
    assert_int_equal(kept(f), 0);
}

#define IN_MEMORY(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_MEMORY(test_every_packing_in_any_order),
        IN_MEMORY(test_what_was_made_before_is_made_again),
        IN_MEMORY(test_gzip_of_several_members),
        IN_MEMORY(test_memory_is_bounded_and_given_back),
        IN_MEMORY(test_every_allocation_may_fail),
        IN_MEMORY(test_r14_another_number_of_bytes),
        IN_MEMORY(test_r14_bytes_that_are_damaged),
        IN_MEMORY(test_r14_what_cannot_be),
        IN_MEMORY(test_a_change_is_noticed),
        IN_MEMORY(test_threads_decompress_it_once),
        IN_MEMORY(test_threads_that_all_find_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
