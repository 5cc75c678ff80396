/* SPDX-License-Identifier: Apache-2.0 */
/* A reader whose mark was taken for one of a reader that is gone, as of a process that stood still,
 * says so where its step is gone, and has it kept again where it is not. */
#include "lib/at_step.h"
#include "outside/small_run.h"

#include <dirent.h>

#define ADVANCED_S 5.0 /* docs/format.md: so often a reader advances its mark */

static void remove_marks(const small_run *s, const char *step) {
    char directory[256];
    DIR *d = opendir(small_at(s, directory, step));
    assert_non_null(d);
    for (const struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        if (strncmp(e->d_name, "reader-", 7) == 0) {
            assert_int_equal(unlinkat(dirfd(d), e->d_name, 0), 0);
        }
    }
    closedir(d);
}

static void assert_lost(pawl_status status, pawl_error *err) {
    assert_fails(status, PAWL_EBUSY, err);
    assert_says(pawl_error_text(err), "step 1 was removed while it was open");
    assert_says(pawl_error_text(err), "no mark for a while");
    assert_says(pawl_error_text(err), "step 2 is committed");
}

/* As a writer does that takes a reader for gone, which only stood still: of a step that is gone
 * every call says so, though its files can still be read here; one that stayed is kept again. */
static void test_23_a_reader_whose_mark_was_lost_says_so(void **state) {
    small_run *s = *state;
    pawl_checkpoint *gone;
    pawl_checkpoint *there;
    pawl_view *seen;
    const void *bytes;
    char path[256];
    float w[SMALL_ELEMENTS];
    pawl_entry_info info = {.struct_size = sizeof info};
    pawl_entries *entries;
    small_make(s);
    assert_ok(pawl_checkpoint_open(s->path, AT_STEP(1), &gone, s->err), s->err);
    assert_ok(pawl_checkpoint_open(s->path, AT_STEP(2), &there, s->err), s->err);
    assert_ok(pawl_view_open(gone, "w", 0, &seen, s->err), s->err);
    remove_marks(s, "step-00000001");
    remove_marks(s, "step-00000002");
    assert_int_equal(unlink(small_at(s, path, "step-00000001/manifest.json")), 0);
    small_sleep(ADVANCED_S + 1);
    assert_lost(pawl_view_bytes(seen, 0, sizeof w, &bytes, s->err), s->err);
    assert_lost(pawl_checkpoint_find(gone, "w", &info, s->err), s->err);
    assert_lost(pawl_checkpoint_read(gone, "w", NULL, NULL, w, sizeof w, s->err), s->err);
    assert_lost(pawl_entries_open(gone, "", &entries, s->err), s->err);
    assert_lost(pawl_checkpoint_verify(gone, NULL, NULL, s->err), s->err);
    assert_lost(pawl_checkpoint_restore(gone, s->state, NULL, NULL, s->err), s->err);
    assert_ok(pawl_checkpoint_read(there, "w", NULL, NULL, w, sizeof w, s->err), s->err);
    pawl_view_close(seen);
    pawl_checkpoint_close(gone);
    pawl_checkpoint_close(there);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_23_a_reader_whose_mark_was_lost_says_so, small_set_up,
                                        small_tear_down),
    };
    return cmocka_run_group_tests_name("23: marks that were lost", tests, NULL, NULL);
}
