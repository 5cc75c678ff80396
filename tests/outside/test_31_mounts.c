/* SPDX-License-Identifier: Apache-2.0 */
/* What is mounted inside a run is read, and not removed by gc, rm, retention, or the next owner.
 * The mounts are real ones, in a mount namespace of this program's own. */
#include "lib/at_step.h"
#include "outside/small_run.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define STEP     "run/step-00000010"
#define MANIFEST "manifest.json"
#define UNSEEN   "index-aaaaaaaaaaaa-9" /* what gc removes where no manifest names it */
#define TMP      "manifest.json.aaaaaaaaaaaa-9.tmp"

static void put(const small_run *s, const char *name) {
    small_write(directory_path(s->base, name), "", 0);
}

static void save(small_run *s, pawl_run *run, int64_t step) {
    assert_ok(small_save_to(s, run, step), s->err);
}

/* Steps 10 and 20; beside the run a directory "other" with what gc would remove. */
static int set_up(void **state) {
    (void)small_set_up(state);
    small_run *f = *state;
    pawl_run *run = small_open_keeping(f, 0);
    save(f, run, 10);
    save(f, run, 20);
    assert_ok(pawl_run_close(run, 0, f->err), f->err);
    assert_int_equal(mkdir(directory_path(f->base, "other"), 0777), 0);
    put(f, "other/" UNSEEN);
    put(f, "other/" TMP);
    return 0;
}

static int tear_down(void **state) {
    small_run *f = *state;
    (void)umount2(directory_path(f->base, STEP "/" MANIFEST), MNT_DETACH);
    (void)umount2(directory_path(f->base, STEP), MNT_DETACH);
    return small_tear_down(state);
}

static void bind(const small_run *f, const char *what, const char *where) {
    if (mount(directory_path(f->base, what), directory_path(f->base, where), NULL, MS_BIND, NULL) !=
        0) {
        fail_msg("cannot mount: %s", strerror(errno));
    }
}

static void assert_other_stays(const small_run *f) {
    assert_int_equal(access(directory_path(f->base, "other/" UNSEEN), F_OK), 0);
    assert_int_equal(access(directory_path(f->base, "other/" TMP), F_OK), 0);
}

/* gc names a step's directory that something is mounted on, and leaves what is there. */
static void test_31_gc_does_not_cross_a_mount(void **state) {
    small_run *f = *state;
    bind(f, "other", STEP);
    pawl_run *run = small_open_keeping(f, 0);
    assert_ok(pawl_run_gc(run, 0, NULL, NULL, f->err), f->err);
    assert_ok(pawl_run_close(run, 0, f->err), f->err);
    assert_says(f->log, "something is mounted on step-00000010");
    assert_other_stays(f);
}

/* A job that takes the run over, saves, and removes what it does not keep leaves it, too. */
static void test_31_a_job_does_not_cross_a_mount(void **state) {
    small_run *f = *state;
    bind(f, "other", STEP);
    pawl_run *run = small_open_keeping(f, 1);
    save(f, run, 30);
    assert_ok(pawl_run_close(run, 0, f->err), f->err);
    assert_int_equal(access(directory_path(f->base, "run/step-00000020"), F_OK), -1);
    assert_other_stays(f);
}

/* A checkpoint that is mounted is listed and read; rm says why it does not remove it. */
static void test_31_rm_leaves_a_mounted_checkpoint_whole(void **state) {
    small_run *f = *state;
    pawl_checkpoint *checkpoint;
    pawl_verify_result result = {.struct_size = sizeof result};
    const pawl_verify_options verify = {.struct_size = sizeof verify};
    assert_int_equal(rename(directory_path(f->base, STEP), directory_path(f->base, "saved")), 0);
    assert_int_equal(mkdir(directory_path(f->base, STEP), 0777), 0);
    bind(f, "saved", STEP);
    pawl_run *run = small_open_keeping(f, 1);
    assert_fails(pawl_run_remove(run, 10, 1, f->err), PAWL_EBUSY, f->err);
    assert_says(pawl_error_get(f->err, PAWL_ERROR_ATTEMPT),
                "something is mounted on step-00000010");
    save(f, run, 30); /* retention leaves it as well */
    assert_ok(pawl_run_close(run, 0, f->err), f->err);
    assert_ok(pawl_checkpoint_open(f->path, AT_STEP(10), &checkpoint, f->err), f->err);
    assert_ok(pawl_checkpoint_verify(checkpoint, &verify, &result, f->err), f->err);
    pawl_checkpoint_close(checkpoint);
}

/* What is mounted on a single file keeps the whole step: the rest goes with it, or not at all. */
static void test_31_rm_leaves_a_step_with_a_mounted_file(void **state) {
    small_run *f = *state;
    pawl_checkpoint *checkpoint;
    bind(f, STEP "/" MANIFEST, STEP "/" MANIFEST);
    pawl_run *run = small_open_keeping(f, 0);
    assert_fails(pawl_run_remove(run, 10, 1, f->err), PAWL_EBUSY, f->err);
    assert_says(pawl_error_get(f->err, PAWL_ERROR_ATTEMPT),
                "mounted on step-00000010/manifest.json");
    assert_ok(pawl_run_remove(run, 20, 1, f->err), f->err);
    assert_ok(pawl_run_close(run, 0, f->err), f->err);
    assert_ok(pawl_checkpoint_open(f->path, AT_STEP(10), &checkpoint, f->err), f->err);
    pawl_checkpoint_close(checkpoint);
}

/* A run that is itself what is mounted is like any other. */
static void test_31_a_run_may_be_a_mount(void **state) {
    small_run *f = *state;
    put(f, STEP "/" UNSEEN);
    bind(f, "run", "run");
    pawl_run *run = small_open_keeping(f, 0);
    assert_ok(pawl_run_gc(run, 0, NULL, NULL, f->err), f->err);
    assert_ok(pawl_run_remove(run, 20, 0, f->err), f->err);
    assert_ok(pawl_run_close(run, 0, f->err), f->err);
    assert_int_equal(access(directory_path(f->base, STEP "/" UNSEEN), F_OK), -1);
    assert_int_equal(umount(directory_path(f->base, "run")), 0);
}

#define MOUNTS_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        MOUNTS_TEST(test_31_gc_does_not_cross_a_mount),
        MOUNTS_TEST(test_31_a_job_does_not_cross_a_mount),
        MOUNTS_TEST(test_31_rm_leaves_a_mounted_checkpoint_whole),
        MOUNTS_TEST(test_31_rm_leaves_a_step_with_a_mounted_file),
        MOUNTS_TEST(test_31_a_run_may_be_a_mount),
    };
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
        printf("SKIP: no leave to mount here: %s\n", strerror(errno));
        return errno == EPERM ? 77 : 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
