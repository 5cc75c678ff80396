/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors whose memory is a mapped file, or can only be read: saved by every way of writing, and
 * restored into a mapped file. */
#include "lib/random.h"
#include "unit/store/fixtures.h"

#include <pawl/pawl.h>

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES ((size_t)9 << 20) /* a large save: more than one buffer */

typedef struct fixture {
    directory dir;
    int file; /* has `bytes` */
    uint8_t *bytes;
} fixture;

static int set_up(void **state) {
    fixture *f = mem_calloc(1, sizeof(*f));
    char path[128];
    test_random random = {.state = 1};
    directory_make(&f->dir);
    (void)snprintf(path, sizeof(path), "%s/mapped", f->dir.path);
    f->bytes = mem_alloc(BYTES);
    random_fill(&random, f->bytes, BYTES);
    f->file = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    assert_true(f->file >= 0);
    assert_int_equal(write(f->file, f->bytes, BYTES), BYTES);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    close(f->file);
    directory_remove(&f->dir);
    mem_free(f->bytes);
    mem_free(f);
    return 0;
}

/* One byte beside all alignment, and a small one. */
static pawl_state *state_of(uint8_t *memory) {
    static const int64_t much[] = {BYTES - 1};
    static const int64_t little[] = {100};
    pawl_state *made = NULL;
    const pawl_tensor tensors[] = {{.struct_size = sizeof(pawl_tensor),
                                    .name = "much",
                                    .dtype = PAWL_U8,
                                    .ndim = 1,
                                    .shape = much,
                                    .data = memory + 1},
                                   {.struct_size = sizeof(pawl_tensor),
                                    .name = "little",
                                    .dtype = PAWL_U8,
                                    .ndim = 1,
                                    .shape = little,
                                    .data = memory + 5000}};
    assert_int_equal(pawl_state_new(&made, NULL), PAWL_OK);
    assert_int_equal(pawl_state_add_tensors(made, tensors, 2, NULL), PAWL_OK);
    return made;
}

static void save_and_compare(fixture *f, uint8_t *memory, pawl_io io) {
    static int64_t step;
    char path[128];
    const pawl_run_options options = {.struct_size = sizeof(options), .io = io};
    struct pawl_error err = ERROR_INIT;
    pawl_run *run = NULL;
    pawl_checkpoint *checkpoint = NULL;
    pawl_state *made = state_of(memory);
    (void)snprintf(path, sizeof(path), "%s/run", f->dir.path);
    if (pawl_run_open(path, &options, &run, &err) == PAWL_EUNSUPPORTED && io == PAWL_IO_URING) {
        pawl_state_free(made); /* the system has no io_uring */
        return;
    }
    assert_ok(err.status, &err);
    assert_ok(pawl_save(run, made, ++step, NULL, &err), &err);
    assert_ok(pawl_fence(run, 0, &err), &err);
    assert_ok(pawl_run_close(run, 0, &err), &err);
    pawl_state_free(made);
    AUTOFREE uint8_t *found = mem_alloc(BYTES - 1);
    assert_ok(pawl_checkpoint_open(path, NULL, &checkpoint, &err), &err);
    assert_ok(pawl_checkpoint_read(checkpoint, "much", NULL, NULL, found, BYTES - 1, &err), &err);
    assert_memory_equal(found, f->bytes + 1, BYTES - 1);
    assert_ok(pawl_checkpoint_read(checkpoint, "little", NULL, NULL, found, 100, &err), &err);
    assert_memory_equal(found, f->bytes + 5000, 100);
    pawl_checkpoint_close(checkpoint);
}

static void save_mapped(fixture *f, int protection, int flags) {
    bool anonymous = (flags & MAP_ANONYMOUS) != 0;
    uint8_t *memory = mmap(NULL, BYTES, protection, flags, anonymous ? -1 : f->file, 0);
    assert_true(memory != MAP_FAILED);
    if (anonymous) {
        memcpy(memory, f->bytes, BYTES);
        assert_int_equal(mprotect(memory, BYTES, PROT_READ), 0);
    }
    for (int io = PAWL_IO_AUTO; io <= PAWL_IO_BUFFERED; io++) {
        save_and_compare(f, memory, (pawl_io)io);
    }
    assert_int_equal(munmap(memory, BYTES), 0);
}

static void test_a_mapped_file_is_saved(void **state) {
    save_mapped(*state, PROT_READ, MAP_PRIVATE);
    save_mapped(*state, PROT_READ, MAP_SHARED);
    save_mapped(*state, PROT_READ | PROT_WRITE, MAP_SHARED);
}

static void test_memory_that_can_only_be_read_is_saved(void **state) {
    save_mapped(*state, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
}

static void test_a_mapped_file_is_restored(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    char path[128];
    pawl_checkpoint *checkpoint = NULL;
    AUTOFREE uint8_t *found = mem_alloc(BYTES);
    uint8_t *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, f->file, 0);
    assert_true(memory != MAP_FAILED);
    save_and_compare(f, memory, PAWL_IO_AUTO);
    memset(memory + 1, 0x55, BYTES - 1);
    (void)snprintf(path, sizeof(path), "%s/run", f->dir.path);
    pawl_state *made = state_of(memory);
    assert_ok(pawl_checkpoint_open(path, NULL, &checkpoint, &err), &err);
    assert_ok(pawl_checkpoint_restore(checkpoint, made, NULL, NULL, &err), &err);
    assert_int_equal(pread(f->file, found, BYTES, 0), BYTES);
    assert_memory_equal(found, f->bytes, BYTES);
    pawl_checkpoint_close(checkpoint);
    pawl_state_free(made);
    assert_int_equal(munmap(memory, BYTES), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
        T(test_a_mapped_file_is_saved),
        T(test_memory_that_can_only_be_read_is_saved),
        T(test_a_mapped_file_is_restored),
    };
    return cmocka_run_group_tests_name("mapped", tests, NULL, NULL);
}
