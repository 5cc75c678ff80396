/* SPDX-License-Identifier: Apache-2.0 */
/* Times of files that 64 bits of nanoseconds do not reach, before 1678 and after 2262, are unknown:
 * nothing is told of them, and nothing is removed by them. */
#include "outside/small_run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct fixture {
    char path[64];
    pawl_error *err;
} fixture;

/* The last one, counted in 64 bits of nanoseconds, was in 2001. */
static const int64_t far_off[] = {INT64_C(1) << 61, INT64_C(10000000000), INT64_C(-10000000000),
                                  -(INT64_C(1) << 61), INT64_C(19446744073)};

/* In memory, where such times can be kept. */
static int set_up(void **state) {
    static fixture f;
    directory_new(f.path, "/dev/shm");
    f.err = pawl_error_new();
    *state = &f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    directory_delete(f->path);
    pawl_error_free(f->err);
    return 0;
}

/* False where the filesystem keeps another time than it is told. */
static bool set_time(const fixture *f, const char *name, int64_t seconds) {
    struct stat found;
    const struct timespec times[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
    assert_int_equal(utimensat(AT_FDCWD, directory_path(f->path, name), times, 0), 0);
    assert_int_equal(stat(directory_path(f->path, name), &found), 0);
    return found.st_mtim.tv_sec == seconds;
}

static void put(const fixture *f, const char *name, const char *text) {
    small_write(directory_path(f->path, name), text, strlen(text));
}

/* How long ago an owner of another host wrote is unknown, not centuries ago nor this moment. */
static void test_31_an_age_beyond_all_clocks_is_unknown(void **state) {
    fixture *f = *state;
    pawl_owner_info owner = {.struct_size = sizeof owner};
    put(f, "owner-00000001",
        "{\"counter\":\"00000000000000000001\",\"host\":\"h\",\"pid\":1,\"boot_id\":\"b\","
        "\"pid_namespace\":\"p\",\"start_ticks\":1,\"attempt\":\"aaaaaaaaaaaa\",\"lease_s\":30}\n");
    for (size_t i = 0; i < ARRAY_LENGTH(far_off); i++) {
        if (!set_time(f, "owner-00000001", far_off[i])) {
            printf("SKIP: /dev/shm does not keep such times\n");
            skip();
        }
        assert_ok(pawl_owner_look(f->path, NULL, &owner, f->err), f->err);
        assert_int_equal(owner.state, PAWL_OWNER_UNKNOWN);
        assert_true(owner.heartbeat_age_s < 0);
    }
}

/* What goes only when it is old enough stays where nobody can tell how old it is. */
static void test_31_nothing_is_old_beyond_all_clocks(void **state) {
    fixture *f = *state;
    pawl_run *run;
    char name[80];
    const pawl_run_options options = {.struct_size = sizeof options};
    assert_ok(pawl_run_open(f->path, &options, &run, f->err), f->err);
    for (size_t i = 0; i < ARRAY_LENGTH(far_off); i++) {
        (void)snprintf(name, sizeof name, ".pawl-doctor-%012zx-r7", i);
        put(f, name, "");
        if (!set_time(f, name, far_off[i])) {
            printf("SKIP: /dev/shm does not keep such times\n");
            skip();
        }
        assert_ok(pawl_run_gc(run, 0, NULL, NULL, f->err), f->err);
        assert_int_equal(access(directory_path(f->path, name), F_OK), 0);
    }
    assert_ok(pawl_run_close(run, 0, f->err), f->err);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_31_an_age_beyond_all_clocks_is_unknown, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_31_nothing_is_old_beyond_all_clocks, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
