/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of the example trainer: derivatives, batches, and what apply_gradients refuses (J05).
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "training.h"

static const char SENTENCE[] =
    "It is the catch that keeps a ratchet from slipping back, says the pawl.";

enum { CONTEXT = 3, HIDDEN = 5, BATCH = 4 };

struct fixture {
    struct text text;
    struct training training;
    pawl_array gradients[VARIABLES];
    pawl_error *err;
};

static int open_with(void **state, const char *optimizer) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    fixture->text.size = sizeof SENTENCE - 1;
    fixture->text.bytes = malloc(fixture->text.size);
    memcpy(fixture->text.bytes, SENTENCE, fixture->text.size);
    const struct training_shape shape = {.context = CONTEXT,
                                         .hidden = HIDDEN,
                                         .batch_size = BATCH,
                                         .optimizer = optimizer_find_class(optimizer),
                                         .seed = 11,
                                         .place = {0, 1}};
    training_open(&fixture->training, &shape, &fixture->text);
    for (int i = 0; i < VARIABLES; i++) {
        fixture->gradients[i] = optimizer_gradient(&fixture->training.optimizer, (size_t)i);
    }
    fixture->err = pawl_error_new();
    *state = fixture;
    return 0;
}

static int set_up_adamw(void **state) {
    return open_with(state, "adamw");
}

static int set_up_sgd(void **state) {
    return open_with(state, "sgd");
}

static int tear_down(void **state) {
    struct fixture *fixture = *state;
    training_close(&fixture->training);
    text_free(&fixture->text);
    pawl_error_free(fixture->err);
    free(fixture);
    return 0;
}

/* ---- J05 ------------------------------------------------------------------------------------ */

static pawl_status apply(struct fixture *fixture, size_t count) {
    return optimizer_apply_gradients(&fixture->training.optimizer, 1, fixture->gradients, count,
                                     fixture->err);
}

#define NOT_FINITE_NEXT                                                                            \
    "  next:     leave out this step, or go back to the last checkpoint with a smaller learning "  \
    "rate; look at this batch for NaN, division by zero or overflow"

/* Refused: the category, the whole text, and no variable was changed. */
static void assert_refused(struct fixture *fixture, size_t count, const char *text) {
    uint64_t before = model_digest(&fixture->training.model);
    assert_int_equal(apply(fixture, count), PAWL_EMISMATCH);
    assert_string_equal(pawl_error_text(fixture->err), text);
    assert_true(model_digest(&fixture->training.model) == before);
}

/* Gradients that fit are applied, and change the variables. */
static void test_gradients_that_fit_are_applied(void **state) {
    struct fixture *fixture = *state;
    const struct variable *bias = &fixture->training.model.variables[OUTPUT_BIAS];
    bias->gradient[0] = 2.0F;
    assert_int_equal(apply(fixture, VARIABLES), PAWL_OK);
    assert_true(bias->value[0] < 0.0F);
    assert_true(bias->value[1] == 0.0F);
}

/* A NaN in one gradient is refused, naming the variable and the element. */
static void test_j05_nan_is_refused(void **state) {
    struct fixture *fixture = *state;
    fixture->training.model.variables[DENSE2_KERNEL].gradient[7] = NAN;
    assert_refused(fixture, VARIABLES,
                   "the gradient of `model/dense2/kernel` is not finite: NaN at element 7\n"
                   "  entry:    model/dense2/kernel\n"
                   "  expected: 25 finite elements\n"
                   "  found:    1 NaN, 0 infinite\n" NOT_FINITE_NEXT);
}

/* An infinity in one gradient is refused, naming the variable and the element. */
static void test_j05_infinity_is_refused(void **state) {
    struct fixture *fixture = *state;
    fixture->training.model.variables[OUTPUT_BIAS].gradient[255] = -INFINITY;
    assert_refused(fixture, VARIABLES,
                   "the gradient of `model/output/bias` is not finite: infinity at element 255\n"
                   "  entry:    model/output/bias\n"
                   "  expected: 256 finite elements\n"
                   "  found:    0 NaN, 1 infinite\n" NOT_FINITE_NEXT);
}

/* A gradient of another shape is refused, with both shapes. */
static void test_j05_other_shape_is_refused(void **state) {
    struct fixture *fixture = *state;
    static const int64_t SHAPE[2] = {HIDDEN, HIDDEN + 1};
    fixture->gradients[DENSE2_KERNEL].shape = SHAPE;
    assert_refused(fixture, VARIABLES,
                   "the gradient of `model/dense2/kernel` has shape [5, 6], the variable [5, 5]\n"
                   "  entry:    model/dense2/kernel\n"
                   "  expected: F32 [5, 5], as the variable\n"
                   "  found:    F32 [5, 6]\n"
                   "  next:     was the model rebuilt without the optimizer, or the gradient "
                   "reduced over a wrong dimension?");
}

/* A gradient of another dtype is refused, with both dtypes. */
static void test_j05_other_dtype_is_refused(void **state) {
    struct fixture *fixture = *state;
    fixture->gradients[DENSE1_BIAS].dtype = PAWL_BF16;
    assert_refused(fixture, VARIABLES,
                   "the gradient of `model/dense1/bias` has dtype BF16, the variable F32\n"
                   "  entry:    model/dense1/bias\n"
                   "  expected: F32 [5], as the variable\n"
                   "  found:    BF16 [5]\n"
                   "  next:     convert the gradient before it is applied");
}

/* A gradient that was never computed is refused, naming its variable. */
static void test_j05_missing_gradient_is_refused(void **state) {
    struct fixture *fixture = *state;
    fixture->gradients[EMBEDDING_TABLE].data = NULL;
    assert_refused(fixture, VARIABLES,
                   "the gradient of `model/embedding/table` is missing: it is a null pointer\n"
                   "  entry:    model/embedding/table\n"
                   "  expected: F32 [256, 64], as the variable\n"
                   "  found:    a null pointer\n"
                   "  next:     is the variable used by the loss? Freeze it by leaving it out of "
                   "both lists, or give it a gradient of zeros");
}

/* Fewer gradients than variables are refused, naming the first variable without one. */
static void test_j05_other_count_is_refused(void **state) {
    struct fixture *fixture = *state;
    assert_refused(fixture, VARIABLES - 1,
                   "the variable `model/output/bias` has no gradient\n"
                   "  entry:    model/output/bias\n"
                   "  expected: 7 gradients for 7 variables\n"
                   "  found:    6 gradients\n"
                   "  next:     is it used by the loss? Freeze it by leaving it out of both lists, "
                   "or give it a gradient of zeros");
}

/* ---- arithmetic ----------------------------------------------------------------------------- */

static double loss_at(struct fixture *fixture, const struct batch *batch) {
    struct rng dropout; /* the same units are dropped every time */
    rng_seed(&dropout, 3);
    return model_forward(&fixture->training.model, batch, &dropout);
}

/* Every variable's gradient is the slope of the loss: compared with finite differences. */
static void test_gradients_are_the_slope_of_the_loss(void **state) {
    struct fixture *fixture = *state;
    struct training *training = &fixture->training;
    const struct batch *batch = batcher_next(&training->batcher);
    loss_at(fixture, batch);
    model_backward(&training->model, batch);
    for (int i = 0; i < VARIABLES; i++) {
        struct variable *variable = &training->model.variables[i];
        for (size_t j = 0; j < variable_size(variable); j += 1 + variable_size(variable) / 50) {
            const float delta = 0.001F; /* small: ReLU has a kink */
            float kept = variable->value[j];
            variable->value[j] = kept + delta;
            double above = loss_at(fixture, batch);
            variable->value[j] = kept - delta;
            double below = loss_at(fixture, batch);
            variable->value[j] = kept;
            double slope = (above - below) / (2.0 * (double)delta);
            assert_true(fabs(slope - (double)variable->gradient[j]) < 0.005);
        }
    }
}

/* Repeating one batch makes its loss small: the optimizer goes downhill. */
static void test_training_lowers_the_loss(void **state) {
    struct fixture *fixture = *state;
    struct training *training = &fixture->training;
    const struct batch *batch = batcher_next(&training->batcher);
    double first = loss_at(fixture, batch);
    for (int64_t step = 1; step <= 200; step++) {
        loss_at(fixture, batch);
        model_backward(&training->model, batch);
        assert_int_equal(optimizer_apply_gradients(&training->optimizer, step, fixture->gradients,
                                                   VARIABLES, fixture->err),
                         PAWL_OK);
    }
    assert_true(loss_at(fixture, batch) < first / 2);
}

/* ---- batcher -------------------------------------------------------------------------------- */

/* Batches after a seek are those that came after the place that was sought, over an epoch's end. */
static void test_seek_continues_the_sequence(void **state) {
    struct fixture *fixture = *state;
    struct training *training = &fixture->training;
    struct batcher *batcher = &training->batcher;
    for (int i = 0; i < 20; i++) { /* into epoch 1 */
        batcher_next(batcher);
    }
    assert_int_equal(batcher->epoch, 1);
    struct batcher kept = *batcher;
    unsigned char inputs[20][BATCH * CONTEXT];
    for (int i = 0; i < 20; i++) {
        memcpy(inputs[i], batcher_next(batcher)->inputs, sizeof inputs[i]);
    }
    batcher_seek(batcher, kept.epoch, kept.position, kept.shuffle_seed);
    for (int i = 0; i < 20; i++) {
        const struct batch *batch = batcher_next(batcher);
        assert_memory_equal(batch->inputs, inputs[i], sizeof inputs[i]);
    }
}

/* An epoch without its remainder shows every sample at most once. */
static void test_epoch_shows_no_sample_twice(void **state) {
    struct fixture *fixture = *state;
    struct training *training = &fixture->training;
    struct batcher *batcher = &training->batcher;
    int64_t batches = batcher->samples / BATCH;
    int *shown = calloc((size_t)batcher->samples, sizeof *shown);
    for (int64_t i = 0; i < batcher->samples; i++) {
        shown[batcher->order[i]]++;
    }
    for (int64_t i = 0; i < batcher->samples; i++) {
        assert_int_equal(shown[i], 1);
    }
    for (int64_t i = 0; i < batches; i++) {
        assert_int_equal(batcher_next(batcher)->count, BATCH);
    }
    assert_int_equal(batcher->epoch, 0);
    batcher_next(batcher);
    assert_int_equal(batcher->epoch, 1);
    free(shown);
}

/* Seeking outside of the text stays inside of it: a checkpoint's numbers are not to be trusted. */
static void test_seek_stays_inside_the_text(void **state) {
    struct fixture *fixture = *state;
    struct batcher *batcher = &fixture->training.batcher;
    batcher_seek(batcher, 0, INT64_MAX, 1);
    assert_int_equal(batcher->position, batcher->samples);
    batcher_seek(batcher, 0, -1, 1);
    assert_int_equal(batcher->position, 0);
}

#define WITH(set_up, test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(set_up_adamw, test_gradients_that_fit_are_applied),
        WITH(set_up_adamw, test_j05_nan_is_refused),
        WITH(set_up_adamw, test_j05_infinity_is_refused),
        WITH(set_up_adamw, test_j05_other_shape_is_refused),
        WITH(set_up_adamw, test_j05_other_dtype_is_refused),
        WITH(set_up_adamw, test_j05_missing_gradient_is_refused),
        WITH(set_up_adamw, test_j05_other_count_is_refused),
        WITH(set_up_adamw, test_gradients_are_the_slope_of_the_loss),
        WITH(set_up_adamw, test_training_lowers_the_loss),
        WITH(set_up_sgd, test_training_lowers_the_loss),
        WITH(set_up_adamw, test_seek_continues_the_sequence),
        WITH(set_up_adamw, test_epoch_shows_no_sample_twice),
        WITH(set_up_adamw, test_seek_stays_inside_the_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
