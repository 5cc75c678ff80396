/* SPDX-License-Identifier: Apache-2.0 */
/* What is certain of a name, on a storage that remembers names as absent, as NFS and FUSE do. */
#include "fixtures.h"

#include "store/evidence.h"
#include "store/implement.h"
#include "store/wrap.h"

#include <errno.h>
#include <string.h>

/* Looks at this name, its removal, and all that is below it are answered from memory: there is
 * none. Making something of this name asks the storage, and what is remembered is forgotten. */
typedef struct forgetful {
    store_wrapper wrapper;
    char absent[64];
} forgetful;

static pawl_status around(store_wrapper *w, store_call *call, pawl_error *err) {
    forgetful *f = (forgetful *)w;
    bool of_it = f->absent[0] != '\0' && call->path != NULL && strcmp(call->path, f->absent) == 0;
    bool looks = call->op == STORE_OP_STAT || call->op == STORE_OP_UNLINK ||
                 (call->op == STORE_OP_OPEN && !store_mode_creates(call->mode));
    size_t n = strlen(f->absent);
    bool below = n > 0 && call->path != NULL && strncmp(call->path, f->absent, n) == 0 &&
                 call->path[n] == '/';
    if ((of_it && looks) || below) {
        return store_failure(&w->base, call->path, ENOENT, err, "cannot find the file");
    }
    if (of_it && call->op == STORE_OP_MAKE_DIR) {
        f->absent[0] = '\0';
    }
    return store_call_inner(call, err);
}

typedef struct fixture {
    store *truth, *seen;
    forgetful *memory;
} fixture;

static int set_up(void **state) {
    struct pawl_error err = ERROR_INIT;
    fixture *f = calloc(1, sizeof *f);
    assert_ok(store_mem(&f->truth, &err), &err);
    f->memory = mem_calloc(1, sizeof *f->memory);
    assert_ok(store_wrapper_init(&f->memory->wrapper, f->truth, &err), &err);
    f->memory->wrapper.around = around;
    f->seen = &f->memory->wrapper.base;
    assert_false(f->seen->traits.coherent);
    assert_ok(store_make_dir(f->truth, "d", &err), &err);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    store_destroy(f->seen);
    store_destroy(f->truth);
    free(f);
    return 0;
}

static void remember_absent(fixture *f, const char *path) {
    snprintf(f->memory->absent, sizeof f->memory->absent, "%s", path);
}

static bool proven_absent(store *s, const char *path) {
    struct pawl_error err = ERROR_INIT;
    bool absent;
    assert_ok(store_prove_absent(s, path, &absent, &err), &err);
    return absent;
}

/* A file that is remembered as absent is not proven absent. */
static void test_a_file_that_is_not_seen_is_not_absent(void **state) {
    fixture *f = *state;
    put_text(f->truth, "d/m", "there");
    remember_absent(f, "d/m");
    assert_false(is_there(f->seen, "d/m"));
    assert_false(proven_absent(f->seen, "d/m"));
    assert_text(f->truth, "d/m", "there");
}

/* What is not there is proven absent, and nothing is left of the proof. */
static void test_a_proof_leaves_nothing(void **state) {
    fixture *f = *state;
    assert_true(proven_absent(f->seen, "d/m"));
    assert_false(is_there(f->truth, "d/m"));
}

/* The directory that a killed proof has left counts as nothing, and goes. */
static void test_what_a_killed_proof_left_counts_as_nothing(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    assert_ok(store_make_dir(f->truth, "d/m", &err), &err);
    assert_true(proven_absent(f->seen, "d/m"));
    assert_false(is_there(f->truth, "d/m"));
}

/* A directory with something in it is neither a file nor nothing. */
static void test_a_full_directory_is_not_absent(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    assert_ok(store_make_dir(f->truth, "d/m", &err), &err);
    put_text(f->truth, "d/m/x", "there");
    assert_false(proven_absent(f->seen, "d/m"));
    assert_text(f->truth, "d/m/x", "there");
}

/* Where the directory is not seen nothing is proven. */
static void test_nothing_is_proven_below_a_directory_that_is_not_seen(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    bool absent = true;
    assert_fails(store_prove_absent(f->seen, "gone/m", &absent, &err), PAWL_ENOTFOUND, &err);
    assert_false(absent);
}

/* Nor by a storage that refuses. */
static void test_a_refusal_proves_nothing(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    store *refusing;
    bool absent = true;
    assert_ok(store_fault_wrap(f->truth, NULL, &refusing, &err), &err);
    store_fault_set(refusing,
                    &(store_fault){.op = STORE_OP_MAKE_DIR, .nth = 1, .system_errno = ENOSPC});
    assert_fails(store_prove_absent(refusing, "d/m", &absent, &err), PAWL_ENOSPACE, &err);
    assert_false(absent);
    store_destroy(refusing);
}

/* A file that is remembered as absent is removed all the same. */
static void test_a_file_that_is_not_seen_is_removed_for_certain(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    put_text(f->truth, "d/t", "there");
    remember_absent(f, "d/t");
    assert_ok(store_unlink_for_certain(f->seen, "d/t", &err), &err);
    assert_false(is_there(f->truth, "d/t"));
}

/* What is not there need not be removed; what a killed proof left goes as well. */
static void test_nothing_is_removed_for_certain(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    assert_ok(store_unlink_for_certain(f->seen, "d/t", &err), &err);
    assert_ok(store_make_dir(f->truth, "d/t", &err), &err);
    assert_ok(store_unlink_for_certain(f->seen, "d/t", &err), &err);
    assert_false(is_there(f->truth, "d/t"));
}

/* A directory that is remembered as absent is found by a new look, which leaves nothing in it. */
static void test_a_new_look_finds_a_directory_that_is_not_seen(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    put_text(f->truth, "d/m", "there");
    remember_absent(f, "d");
    assert_false(is_there(f->seen, "d/m"));
    assert_ok(store_look_anew(f->seen, "d", &err), &err);
    assert_true(is_there(f->seen, "d/m"));
    assert_names(f->truth, "d", "m ");
}

/* One that is not there is not there afterwards, either. */
static void test_a_new_look_makes_no_directory(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    assert_fails(store_look_anew(f->seen, "gone", &err), PAWL_ENOTFOUND, &err);
    assert_names(f->truth, "", "d ");
}

/* Where looks are the truth one look does, and changes nothing: it needs no room. */
static void test_one_look_does_where_looks_are_the_truth(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    store *full;
    assert_ok(store_fault_wrap(f->truth, NULL, &full, &err), &err);
    full->traits.coherent = true;
    store_fault_set(
        full,
        &(store_fault){.op = STORE_OP_MAKE_DIR, .nth = 1, .system_errno = ENOSPC, .forever = true});
    put_text(f->truth, "d/m", "there");
    assert_false(proven_absent(full, "d/m"));
    assert_true(proven_absent(full, "d/n"));
    assert_ok(store_look_anew(full, "d", &err), &err);
    store_destroy(full);
}

/* A file that the system does not let go of (an immutable one) is told as that. */
static void test_a_refused_removal_keeps_its_cause(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    store *refusing;
    assert_ok(store_fault_wrap(f->truth, NULL, &refusing, &err), &err);
    store_fault_set(
        refusing,
        &(store_fault){.op = STORE_OP_UNLINK, .nth = 1, .system_errno = EPERM, .forever = true});
    put_text(f->truth, "d/m", "there");
    assert_fails(store_unlink_for_certain(refusing, "d/m", &err), PAWL_EPERMISSION, &err);
    assert_int_equal(err.system_errno, EPERM);
    assert_true(is_there(f->truth, "d/m"));
    store_destroy(refusing);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_file_that_is_not_seen_is_not_absent, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_proof_leaves_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_a_killed_proof_left_counts_as_nothing, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_full_directory_is_not_absent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_nothing_is_proven_below_a_directory_that_is_not_seen,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_refusal_proves_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_file_that_is_not_seen_is_removed_for_certain, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_nothing_is_removed_for_certain, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_new_look_finds_a_directory_that_is_not_seen, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_new_look_makes_no_directory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_one_look_does_where_looks_are_the_truth, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_refused_removal_keeps_its_cause, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
