/* SPDX-License-Identifier: Apache-2.0 */
/* Replicas that differ between ranks are told at the save, and no mixture of them is committed. */
#include "job.h"

#define VALUES 64
#define MANY   3000 /* more than the trainer's thread reads itself */
#define LARGE  (20 << 10)

/* What a rank adds, and in what it strays. */
typedef struct plan {
    int straying; /* this rank has one other byte; -1: none */
    int mesh;     /* ranks r and r + 2 hold the same half */
    int count;    /* tensors */
    int64_t values;
    int late; /* the byte changes after the fence */
} plan;

static pawl_status add(const plan *p, int rank, pawl_state *state, float *memory, int k,
                       pawl_error *err) {
    char name[32];
    int half = p->mesh ? rank % 2 : 0;
    const int64_t shape[] = {p->mesh ? 2 * p->values : p->values};
    const int64_t offset[] = {half * p->values};
    const int64_t extent[] = {p->values};
    for (int64_t i = 0; i < p->values; i++) {
        memory[i] = (float)(k + (int)i + 1000 * half);
    }
    (void)snprintf(name, sizeof name, "norm/%04d/scale", k);
    const pawl_box box = {.offset = offset, .extent = extent, .data = memory};
    const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                .name = name,
                                .dtype = PAWL_F32,
                                .ndim = 1,
                                .shape = shape,
                                .nboxes = 1,
                                .boxes = &box,
                                .box_size = sizeof(pawl_box),
                                .replicated = 1,
                                .replica = p->mesh ? rank / 2 : 0,
                                .replica_count = p->mesh ? 2 : 0};
    return pawl_state_add_tensor(state, &tensor, err);
}

static pawl_status save(job *j, int rank, pawl_run *run, pawl_error *err) {
    const plan *p = j->context;
    pawl_state *state = NULL;
    float *memory = calloc((size_t)p->count * (size_t)p->values, sizeof *memory);
    float *last = memory + (size_t)(p->count - 1) * (size_t)p->values;
    pawl_status status = pawl_state_new(&state, err);
    for (int k = 0; k < p->count && status == PAWL_OK; k++) {
        status = add(p, rank, state, memory + (size_t)k * (size_t)p->values, k, err);
    }
    last[0] += p->straying == rank && !p->late ? 1.0F : 0.0F;
    status = status == PAWL_OK ? pawl_save(run, state, 1, NULL, err) : status;
    status = status == PAWL_OK ? pawl_fence(run, 60, err) : status;
    last[0] += p->straying == rank && p->late ? 1.0F : 0.0F;
    status = status == PAWL_OK ? pawl_wait(run, 60, NULL, err) : status;
    pawl_state_free(state);
    free(memory);
    return status;
}

static void run_with(job *j, const plan *p) {
    j->context = p;
    j->ranks = 4;
    job_run(j, save);
}

static void assert_no_checkpoint(const job *j) {
    char path[128];
    (void)snprintf(path, sizeof path, "%s/step-00000001/manifest.json", j->path);
    assert_int_not_equal(access(path, F_OK), 0);
}

static void assert_told(const job *j, const char *entry, const char *found) {
    assert_job_fails(j, PAWL_EMISMATCH, "what the ranks saved does not fit together");
    assert_job_fails(j, PAWL_EMISMATCH, entry);
    assert_job_fails(j, PAWL_EMISMATCH, found);
    assert_no_checkpoint(j);
}

/* One rank's copy of a small tensor has another byte: all ranks hear which tensor and which rank.
 */
static void test_a_small_replica_that_differs_fails_the_save(void **state) {
    job *j = *state;
    run_with(j, &(plan){.straying = 2, .count = 3, .values = VALUES});
    assert_told(j, "norm/0002/scale", "[0:64] has other bytes on rank 2 than on ranks 0, 1 and 3");
}

static void test_a_replica_that_differs_is_told_through_callbacks(void **state) {
    job *j = *state;
    j->callbacks = 1;
    run_with(j, &(plan){.straying = 3, .count = 3, .values = VALUES});
    assert_told(j, "norm/0002/scale", "[0:64] has other bytes on rank 3 than on ranks 0 to 2");
}

/* Equal copies are saved, and restored by any rank. */
static void test_equal_replicas_are_saved(void **state) {
    job *j = *state;
    run_with(j, &(plan){.straying = -1, .count = 3, .values = VALUES});
    assert_job_ok(j);
}

/* So many that a thread of its own reads them: none is passed over. */
static void test_the_last_of_many_replicas_is_compared(void **state) {
    job *j = *state;
    run_with(j, &(plan){.straying = 1, .count = MANY, .values = VALUES});
    assert_told(j, "norm/2999/scale", "[0:64] has other bytes on rank 1 than on ranks 0, 2 and 3");
}

/* The fence lets go of copies that this rank does not write only when they are read. */
static void test_replicas_may_change_after_the_fence(void **state) {
    job *j = *state;
    run_with(j, &(plan){.straying = 1, .late = 1, .count = 2000, .values = 4096});
    assert_job_ok(j);
}

/* On a mesh the copies of one half are compared, and the other half is none of theirs. */
static void test_copies_on_a_mesh_are_compared(void **state) {
    job *j = *state;
    run_with(j, &(plan){.straying = -1, .mesh = 1, .count = 3, .values = VALUES});
    assert_job_ok(j);
}

static void test_a_copy_on_a_mesh_that_differs_fails_the_save(void **state) {
    job *j = *state;
    run_with(j, &(plan){.straying = 3, .mesh = 1, .count = 3, .values = VALUES});
    assert_told(j, "norm/0002/scale", "[64:128] has other bytes on rank 3 than on rank 1");
}

/* Larger ones are read twice only where that was asked for. */
static void test_large_replicas_are_compared_in_checking_mode(void **state) {
    job *j = *state;
    j->checking = 1;
    run_with(j, &(plan){.straying = 2, .count = 2, .values = LARGE});
    assert_told(j, "norm/0001/scale", "has other bytes on rank 2 than on ranks 0, 1 and 3");
}

static void test_replicas_of_64_kib_are_small(void **state) {
    job *j = *state;
    run_with(j, &(plan){.straying = 2, .count = 2, .values = 16 << 10});
    assert_told(j, "norm/0001/scale", "has other bytes on rank 2 than on ranks 0, 1 and 3");
}

int main(void) {
#define TEST(t) cmocka_unit_test_setup_teardown(t, job_set_up, job_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_a_small_replica_that_differs_fails_the_save),
        TEST(test_a_replica_that_differs_is_told_through_callbacks),
        TEST(test_equal_replicas_are_saved),
        TEST(test_the_last_of_many_replicas_is_compared),
        TEST(test_replicas_may_change_after_the_fence),
        TEST(test_copies_on_a_mesh_are_compared),
        TEST(test_a_copy_on_a_mesh_that_differs_fails_the_save),
        TEST(test_large_replicas_are_compared_in_checking_mode),
        TEST(test_replicas_of_64_kib_are_small),
    };
    return cmocka_run_group_tests_name("replicas that differ", tests, NULL, NULL);
}
