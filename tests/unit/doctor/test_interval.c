/* SPDX-License-Identifier: Apache-2.0 */
/* How often to save, by the formulas of Young and of Daly. */
#include "lib/test.h"

#include "doctor/examination.h"

#include <math.h>

/* What is lost per second of training that saves every t seconds: the saves, and after a failure
 * half of the time between two, and the save. */
static double loss(double t, double cost, double mtbf) {
    return mtbf * exp(cost / mtbf) * (exp((t + cost) / mtbf) - 1) / t;
}

static void assert_near(double a, double b, double part) {
    assert_true(fabs(a - b) <= part * fabs(b));
}

/* Daly's own model of the time that a job takes: what is advised is its minimum, nearly. */
static void test_the_best_time_loses_least(void **state) {
    static const double costs[] = {0.001, 1, 60, 600, 3000};
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(costs); i++) {
        double mtbf = 86400;
        double best = doctor_best_interval_s(costs[i], mtbf);
        assert_true(loss(best, costs[i], mtbf) <= loss(best * 1.2, costs[i], mtbf));
        assert_true(loss(best, costs[i], mtbf) <= loss(best / 1.2, costs[i], mtbf));
    }
}

/* Where saves cost little it is Young's. */
static void test_it_becomes_youngs_formula(void **state) {
    (void)state;
    assert_near(doctor_best_interval_s(0.01, 1e6), sqrt(2 * 0.01 * 1e6), 0.001);
    assert_near(doctor_best_interval_s(300, 86400), 6971, 0.01);
}

static void test_saves_that_take_longer_than_the_job_lasts(void **state) {
    (void)state;
    assert_near(doctor_best_interval_s(1000, 100), 100, 1e-9);
}

static void test_the_median_is_in_the_middle(void **state) {
    double numbers[] = {5, 1, 100, 2, 3};
    (void)state;
    assert_near(doctor_median(numbers, 5), 3, 1e-9);
    assert_near(doctor_median(numbers, 0) + 1, 1, 1e-9);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_best_time_loses_least),
        cmocka_unit_test(test_it_becomes_youngs_formula),
        cmocka_unit_test(test_saves_that_take_longer_than_the_job_lasts),
        cmocka_unit_test(test_the_median_is_in_the_middle),
    };
    return cmocka_run_group_tests_name("interval", tests, NULL, NULL);
}
