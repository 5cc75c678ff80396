/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the example trainer divides its work among ranks: parts, batches, gradients, the optimizer.
 * The ranks are played one after the other, in one process.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "digest.h"
#include "exchange.h"
#include "training.h"

static const char SENTENCE[] =
    "It is the catch that keeps a ratchet from slipping back, says the pawl.";

enum { CONTEXT = 3, HIDDEN = 5, BATCH = 8, MOST_RANKS = 12 };

/* One training per rank, all of them of the same job. */
struct job {
    struct text *text;
    int ranks;
    struct training *trainings;
};

static struct job open_job(int ranks, const char *optimizer, int keep_remainder) {
    struct job job = {.ranks = ranks, .text = malloc(sizeof *job.text)};
    job.text->size = sizeof SENTENCE - 1;
    job.text->bytes = malloc(job.text->size);
    memcpy(job.text->bytes, SENTENCE, job.text->size);
    job.trainings = calloc((size_t)ranks, sizeof *job.trainings);
    for (int rank = 0; rank < ranks; rank++) {
        const struct training_shape shape = {.context = CONTEXT,
                                             .hidden = HIDDEN,
                                             .batch_size = BATCH,
                                             .keep_remainder = keep_remainder,
                                             .optimizer = optimizer_find_class(optimizer),
                                             .seed = 11,
                                             .place = {rank, ranks}};
        training_open(&job.trainings[rank], &shape, job.text);
    }
    return job;
}

static void close_job(struct job *job) {
    for (int rank = 0; rank < job->ranks; rank++) {
        training_close(&job->trainings[rank]);
    }
    free(job->trainings);
    text_free(job->text);
    free(job->text);
}

/* ---- parts ---------------------------------------------------------------------------------- */

/* The parts of any number of ranks follow each other, cover everything once, and differ by one at
 * most. */
static void test_parts_cover_everything_once(void **state) {
    (void)state;
    for (int64_t total = 0; total <= 40; total++) {
        for (int ranks = 1; ranks <= MOST_RANKS; ranks++) {
            int64_t next = 0;
            for (int rank = 0; rank < ranks; rank++) {
                struct part part = part_of(total, (struct place){rank, ranks});
                assert_int_equal(part.begin, next);
                assert_in_range(part.count, total / ranks, total / ranks + (total % ranks > 0));
                next += part.count;
            }
            assert_int_equal(next, total);
        }
    }
}

/* A smaller whole never gives a rank a larger part: room for a full batch is enough for any. */
static void test_parts_grow_with_the_whole(void **state) {
    (void)state;
    for (int ranks = 1; ranks <= MOST_RANKS; ranks++) {
        for (int rank = 0; rank < ranks; rank++) {
            const struct place place = {rank, ranks};
            for (int64_t total = 0; total < 40; total++) {
                assert_true(part_of(total, place).count <= part_of(total + 1, place).count);
            }
        }
    }
}

/* A matrix of 4 rows is split by rows among 3 ranks; a bias of 5 among 6, of which one has none. */
static void test_shards_are_rows(void **state) {
    (void)state;
    const struct variable matrix = {.name = "matrix", .ndim = 2, .shape = {4, 7}};
    struct shard shard = shard_of(&matrix, (struct place){1, 3});
    assert_int_equal(shard.offset[0], 2);
    assert_int_equal(shard.offset[1], 0);
    assert_int_equal(shard.shape[0], 1);
    assert_int_equal(shard.shape[1], 7);
    assert_int_equal(shard.first, 14);
    assert_int_equal(shard.size, 7);
    const struct variable bias = {.name = "bias", .ndim = 1, .shape = {5}};
    shard = shard_of(&bias, (struct place){5, 6});
    assert_int_equal(shard.offset[0], 5);
    assert_int_equal(shard.shape[0], 0);
    assert_int_equal(shard.first, 5);
    assert_int_equal(shard.size, 0);
}

/* ---- batches -------------------------------------------------------------------------------- */

/* The samples of all ranks are the batch that one process sees, remainders of an epoch included. */
static void test_batches_are_the_same_for_any_ranks(void **state) {
    (void)state;
    struct job one = open_job(1, "sgd", 1);
    for (int ranks = 2; ranks <= MOST_RANKS; ranks++) {
        struct job many = open_job(ranks, "sgd", 1);
        batcher_seek(&one.trainings[0].batcher, 0, 0, many.trainings[0].batcher.shuffle_seed);
        for (int step = 0; step < 20; step++) { /* into epoch 2 */
            const struct batch *whole = batcher_next(&one.trainings[0].batcher);
            int64_t row = 0;
            for (int rank = 0; rank < ranks; rank++) {
                const struct batch *part = batcher_next(&many.trainings[rank].batcher);
                assert_int_equal(part->total, whole->total);
                assert_memory_equal(part->inputs, whole->inputs + row * CONTEXT,
                                    (size_t)(part->count * CONTEXT));
                assert_memory_equal(part->targets, whole->targets + row, (size_t)part->count);
                row += part->count;
            }
            assert_int_equal(row, whole->total);
        }
        assert_int_equal(one.trainings[0].batcher.epoch, 2);
        close_job(&many);
    }
    close_job(&one);
}

/* Every rank begins with the same weights, and with random numbers of its own. */
static void test_ranks_begin_alike(void **state) {
    (void)state;
    struct job job = open_job(3, "adamw", 0);
    for (int rank = 1; rank < job.ranks; rank++) {
        assert_true(model_digest(&job.trainings[rank].model) ==
                    model_digest(&job.trainings[0].model));
        assert_memory_not_equal(&job.trainings[rank].rng, &job.trainings[rank - 1].rng,
                                sizeof job.trainings[rank].rng);
    }
    close_job(&job);
}

/* ---- gradients ------------------------------------------------------------------------------ */

/* Terms are added in their order: other orders round to other sums. */
static void test_sum_is_taken_in_order(void **state) {
    (void)state;
    const float terms[3][2] = {{1e8F, 1.0F}, {-1e8F, 2.0F}, {1.0F, 4.0F}};
    float sum[2];
    sum_in_order(sum, terms[0], 3, 2);
    assert_true(sum[0] == 1.0F); /* from the right it would be 0 */
    assert_true(sum[1] == 7.0F);
}

/* A rank without samples adds nothing to loss and gradients. */
static void test_no_samples_add_nothing(void **state) {
    (void)state;
    struct job job = open_job(MOST_RANKS, "sgd", 0); /* more than a batch has samples */
    struct training *last = &job.trainings[MOST_RANKS - 1];
    const struct batch *batch = batcher_next(&last->batcher);
    assert_int_equal(batch->count, 0);
    for (int i = 0; i < VARIABLES; i++) {
        last->model.variables[i].gradient[0] = NAN;
    }
    assert_true(model_forward(&last->model, batch, &last->rng) == 0.0);
    model_backward(&last->model, batch);
    for (int i = 0; i < VARIABLES; i++) {
        for (size_t j = 0; j < variable_size(&last->model.variables[i]); j++) {
            assert_true(last->model.variables[i].gradient[j] == 0.0F);
        }
    }
    close_job(&job);
}

/* Loss and gradients of all ranks add up to those of one process; seen where dropout, which each
 * rank has of its own, drops every unit. */
static void test_gradients_add_up(void **state) {
    (void)state;
    struct job one = open_job(1, "sgd", 0), many = open_job(3, "sgd", 0);
    struct training *whole = &one.trainings[0];
    const struct rng none = {{0}}; /* draws nothing but zeros */
    double loss = 0.0;
    struct rng rng = none;
    const double expected = model_forward(&whole->model, batcher_next(&whole->batcher), &rng);
    model_backward(&whole->model, &whole->batcher.batch);
    const struct variable *bias = &whole->model.variables[OUTPUT_BIAS];
    float sum[CHARACTERS] = {0};
    for (int rank = 0; rank < many.ranks; rank++) {
        struct training *part = &many.trainings[rank];
        rng = none;
        loss += model_forward(&part->model, batcher_next(&part->batcher), &rng);
        model_backward(&part->model, &part->batcher.batch);
        for (int i = 0; i < CHARACTERS; i++) {
            sum[i] += part->model.variables[OUTPUT_BIAS].gradient[i];
        }
    }
    assert_true(fabs(loss - expected) < 1e-6);
    for (int i = 0; i < CHARACTERS; i++) {
        assert_true(fabsf(sum[i] - bias->gradient[i]) < 1e-6F);
    }
    close_job(&many);
    close_job(&one);
}

/* ---- the optimizer -------------------------------------------------------------------------- */

static void fill_gradients(struct training *training, uint64_t seed) {
    struct rng rng;
    rng_seed(&rng, seed);
    for (int i = 0; i < VARIABLES; i++) {
        for (size_t j = 0; j < variable_size(&training->model.variables[i]); j++) {
            training->model.variables[i].gradient[j] = rng_uniform(&rng, -1.0F, 1.0F);
        }
    }
}

static void apply(struct training *training, int64_t step) {
    pawl_array gradients[VARIABLES];
    for (size_t i = 0; i < VARIABLES; i++) {
        gradients[i] = optimizer_gradient(&training->optimizer, i);
    }
    fill_gradients(training, (uint64_t)step);
    assert_int_equal(
        optimizer_apply_gradients(&training->optimizer, step, gradients, VARIABLES, NULL), PAWL_OK);
}

/* This rank's rows, of values and slots, are those of one process that has all of them. */
static void assert_rows_equal(const struct training *part, const struct training *whole) {
    for (size_t i = 0; i < VARIABLES; i++) {
        const struct shard *shard = &part->optimizer.shards[i];
        const size_t bytes = shard->size * sizeof(float);
        assert_memory_equal(part->model.variables[i].value + shard->first,
                            whole->model.variables[i].value + shard->first, bytes);
        for (size_t slot = 0; slot < part->optimizer.class->slot_count; slot++) {
            assert_memory_equal(part->optimizer.slots[slot][i],
                                whole->optimizer.slots[slot][i] + shard->first, bytes);
        }
    }
}

/* Ranks that update their own rows come to the bits of one process, for every optimizer. */
static void test_sharded_optimizer_is_the_whole_one(void **state) {
    (void)state;
    static const char *const OPTIMIZERS[] = {"adamw", "sgd"};
    static const int RANKS[] = {3, 4, 6, MOST_RANKS};
    for (size_t each = 0; each < sizeof OPTIMIZERS / sizeof *OPTIMIZERS; each++) {
        struct job one = open_job(1, OPTIMIZERS[each], 0);
        for (int64_t step = 1; step <= 3; step++) {
            apply(&one.trainings[0], step);
        }
        for (size_t i = 0; i < sizeof RANKS / sizeof *RANKS; i++) {
            struct job many = open_job(RANKS[i], OPTIMIZERS[each], 0);
            for (int rank = 0; rank < many.ranks; rank++) {
                for (int64_t step = 1; step <= 3; step++) {
                    apply(&many.trainings[rank], step);
                }
                assert_rows_equal(&many.trainings[rank], &one.trainings[0]);
            }
            close_job(&many);
        }
        close_job(&one);
    }
}

/* ---- digests -------------------------------------------------------------------------------- */

/* A rank's digest, as if it were alone: ranks_one.c has nobody to ask. */
static uint64_t slots_of(const struct training *training) {
    const struct ranks alone = {.place = {0, 1}};
    return digests_of(training, &alone).slots;
}

/* The digests of the ranks' slots add up to that of one process; one other bit changes it. */
static void test_digest_knows_no_ranks(void **state) {
    (void)state;
    struct job one = open_job(1, "adamw", 0), many = open_job(6, "adamw", 0);
    apply(&one.trainings[0], 1);
    uint64_t sum = 0;
    for (int rank = 0; rank < many.ranks; rank++) {
        apply(&many.trainings[rank], 1);
        sum += slots_of(&many.trainings[rank]);
    }
    assert_true(sum == slots_of(&one.trainings[0]));
    float *element = &one.trainings[0].optimizer.slots[1][DENSE2_KERNEL][3];
    *element = nextafterf(*element, 1.0F);
    assert_true(sum != slots_of(&one.trainings[0]));
    close_job(&many);
    close_job(&one);
}

/* Random numbers of a rank that was not saved depend on seed, step and rank, on nothing else. */
static void test_reseeded_ranks_differ(void **state) {
    (void)state;
    struct job job = open_job(2, "sgd", 0);
    struct training *training = &job.trainings[0];
    training_reseed(training, 11, 40, (struct place){1, 6});
    const struct rng first = training->rng;
    training_reseed(training, 11, 40, (struct place){2, 6});
    assert_memory_not_equal(&training->rng, &first, sizeof first);
    training_reseed(training, 11, 41, (struct place){1, 6});
    assert_memory_not_equal(&training->rng, &first, sizeof first);
    training_reseed(training, 11, 40, (struct place){1, 6});
    assert_memory_equal(&training->rng, &first, sizeof first);
    close_job(&job);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_cover_everything_once),
        cmocka_unit_test(test_parts_grow_with_the_whole),
        cmocka_unit_test(test_shards_are_rows),
        cmocka_unit_test(test_batches_are_the_same_for_any_ranks),
        cmocka_unit_test(test_ranks_begin_alike),
        cmocka_unit_test(test_sum_is_taken_in_order),
        cmocka_unit_test(test_no_samples_add_nothing),
        cmocka_unit_test(test_gradients_add_up),
        cmocka_unit_test(test_sharded_optimizer_is_the_whole_one),
        cmocka_unit_test(test_digest_knows_no_ranks),
        cmocka_unit_test(test_reseeded_ranks_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
