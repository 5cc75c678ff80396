/* SPDX-License-Identifier: Apache-2.0 */
/* What a save says of its time: one clock, one beginning, one end, and parts that add up. */
#include "outside/job.h"

#include <pawl/pawl.h>

#include <inttypes.h>
#include <math.h>
#include <time.h>

#define RUN        "run"
#define MANY       20000
#define ROUNDING_S 1e-9

typedef struct fixture {
    char directory[64];
    pawl_error *err;
    pawl_run *run;
    pawl_state *values;
    float *numbers;
    pawl_event ended; /* of the last save; its pointers are gone */
    pawl_save_stats told;
    char log[256]; /* the last line that says that a step was saved */
} fixture;

static int set_up(void **state) {
    fixture *f = *state = calloc(1, sizeof *f);
    directory_enter_new(f->directory);
    f->err = pawl_error_new();
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    assert_ok(pawl_run_close(f->run, 0, f->err), f->err);
    pawl_state_free(f->values);
    pawl_error_free(f->err);
    free(f->numbers);
    directory_leave(f->directory);
    free(f);
    return 0;
}

static void on_event(void *context, const pawl_event *event) {
    fixture *f = context;
    if (event->kind == PAWL_EVENT_SAVE_ENDED) {
        f->ended = *event;
        f->told = *event->stats;
    }
}

static void on_log(void *context, pawl_log_level level, const char *text) {
    fixture *f = context;
    (void)level;
    if (strncmp(text, "saved step", 10) == 0) {
        (void)snprintf(f->log, sizeof f->log, "%s", text);
    }
}

static void open_run(fixture *f, pawl_run_options options) {
    options.struct_size = sizeof options;
    options.event = on_event;
    options.event_context = f;
    options.log = &(pawl_log){
        .struct_size = sizeof(pawl_log), .write = on_log, .context = f, .level = PAWL_LOG_INFO};
    assert_ok(pawl_run_open(RUN, &options, &f->run, f->err), f->err);
}

/* `entries` tensors of so many bytes each. */
static void fill(fixture *f, int entries, int64_t bytes) {
    const int64_t shape = bytes / (int64_t)sizeof(float);
    f->numbers = calloc((size_t)entries, (size_t)bytes);
    assert_non_null(f->numbers);
    assert_ok(pawl_state_new(&f->values, f->err), f->err);
    for (int i = 0; i < entries; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "p/%d", i);
        const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                    .name = name,
                                    .dtype = PAWL_F32,
                                    .ndim = 1,
                                    .shape = &shape,
                                    .data = f->numbers + i * shape};
        assert_ok(pawl_state_add_tensor(f->values, &tensor, f->err), f->err);
    }
}

static double parts_s(const pawl_save_stats *s) {
    return s->busy_wait_s + s->prepare_s + s->write_s + s->sync_s + s->commit_s;
}

static void assert_adds_up(const pawl_save_stats *s) {
    if (parts_s(s) > s->total_s + ROUNDING_S || s->group_wait_s > s->commit_s + ROUNDING_S) {
        fail_msg("wait %.6f prepare %.6f write %.6f sync %.6f commit %.6f (ranks %.6f) of %.6f s",
                 s->busy_wait_s, s->prepare_s, s->write_s, s->sync_s, s->commit_s, s->group_wait_s,
                 s->total_s);
    }
}

static void assert_same(const pawl_save_stats *a, const pawl_save_stats *b, double most_s) {
    assert_true(fabs(a->total_s - b->total_s) <= most_s);
    assert_true(fabs(a->busy_wait_s - b->busy_wait_s) <= most_s);
    assert_true(fabs(a->prepare_s - b->prepare_s) <= most_s);
    assert_true(fabs(a->write_s - b->write_s) <= most_s);
    assert_true(fabs(a->sync_s - b->sync_s) <= most_s);
    assert_true(fabs(a->commit_s - b->commit_s) <= most_s);
    assert_true(fabs(a->tidy_s - b->tidy_s) <= most_s);
}

/* What the file has of the last save. */
static pawl_save_stats read_last(fixture *f) {
    pawl_events *events;
    pawl_event event = {.struct_size = sizeof event};
    pawl_save_stats last = {.struct_size = sizeof last, .step = -1};
    int more = 1;
    assert_ok(pawl_events_open(RUN, NULL, &events, f->err), f->err);
    while (more) {
        assert_ok(pawl_events_next(events, &event, &more, f->err), f->err);
        if (more && event.kind == PAWL_EVENT_SAVE_ENDED) {
            last = *event.stats;
        }
    }
    pawl_events_close(events);
    return last;
}

static int64_t micro(double seconds) {
    return llround(seconds * 1e6);
}

static void test_the_call_of_pawl_save_is_part_of_the_whole(void **state) {
    fixture *f = *state;
    pawl_save_stats s = {.struct_size = sizeof s};
    fill(f, MANY, sizeof(float));
    open_run(f, (pawl_run_options){0});
    double called_s = test_now_s();
    assert_ok(pawl_save(f->run, f->values, 1, NULL, f->err), f->err);
    double returned_s = test_now_s();
    assert_ok(pawl_wait(f->run, 0, &s, f->err), f->err);
    double ended_s = test_now_s();
    assert_adds_up(&s);
    assert_true(s.prepare_s <= returned_s - called_s);
    assert_true(s.total_s + s.tidy_s <= ended_s - called_s);
    /* To copy and lay out so many is most of what the call does. */
    assert_true(s.prepare_s > 0 && s.total_s > s.prepare_s);
}

static void test_all_who_tell_tell_the_same(void **state) {
    fixture *f = *state;
    pawl_save_stats s = {.struct_size = sizeof s};
    fill(f, MANY, sizeof(float));
    open_run(f, (pawl_run_options){0});
    assert_ok(pawl_save(f->run, f->values, 7, NULL, f->err), f->err);
    assert_ok(pawl_wait(f->run, 0, &s, f->err), f->err);
    assert_same(&s, &f->told, 0);
    assert_true(f->ended.seconds == s.total_s);
    pawl_save_stats kept = read_last(f);
    assert_same(&s, &kept, 1.001e-6); /* cut to microseconds */
    assert_true(micro(kept.busy_wait_s) + micro(kept.prepare_s) + micro(kept.write_s) +
                    micro(kept.sync_s) + micro(kept.commit_s) <=
                micro(kept.total_s));
    char took[64];
    char line[128];
    text_seconds(took, s.total_s);
    (void)snprintf(line, sizeof line, ") in %s", took);
    assert_says(f->log, line);
}

static void test_waiting_for_the_save_before_is_a_part(void **state) {
    fixture *f = *state;
    pawl_save_stats s = {.struct_size = sizeof s};
    fill(f, 1, 4 << 20);
    open_run(f, (pawl_run_options){.bandwidth_bytes_per_s = 16 << 20, .in_flight_bytes = 1 << 20});
    assert_ok(pawl_save(f->run, f->values, 1, NULL, f->err), f->err);
    double called_s = test_now_s();
    assert_ok(pawl_save(f->run, f->values, 2, NULL, f->err), f->err);
    assert_ok(pawl_wait(f->run, 0, &s, f->err), f->err);
    double waited_s = test_now_s() - called_s;
    assert_adds_up(&s);
    assert_true(s.busy_wait_s > 0 && s.total_s > s.busy_wait_s + s.write_s);
    assert_true(s.total_s <= waited_s);
    assert_same(&s, &f->told, 0);
}

static void test_what_follows_the_commit_is_told_apart(void **state) {
    fixture *f = *state;
    pawl_save_stats s = {.struct_size = sizeof s};
    fill(f, 1, 4096);
    open_run(f, (pawl_run_options){.retention = &(pawl_retention){
                                       .struct_size = sizeof(pawl_retention), .keep_last = 1}});
    for (int64_t step = 0; step < 3; step++) {
        assert_ok(pawl_save(f->run, f->values, step, NULL, f->err), f->err);
        assert_ok(pawl_wait(f->run, 0, &s, f->err), f->err);
        assert_adds_up(&s);
        assert_true(s.tidy_s > 0);
        assert_same(&s, &f->told, 0);
    }
}

static void test_a_save_that_does_not_begin_has_a_whole_too(void **state) {
    fixture *f = *state;
    const pawl_metric metrics[] = {{.name = "loss", .value = 1}, {.name = "loss", .value = 2}};
    const pawl_save_options options = {.struct_size = sizeof options,
                                       .metrics = metrics,
                                       .metric_count = 2,
                                       .metric_size = sizeof(pawl_metric)};
    pawl_save_stats s = {.struct_size = sizeof s};
    fill(f, 1, 4096);
    open_run(f, (pawl_run_options){0});
    assert_int_equal(pawl_save(f->run, f->values, 1, &options, f->err), PAWL_EUSAGE);
    assert_ok(pawl_wait(f->run, 0, &s, f->err), f->err);
    assert_true(s.prepare_s > 0);
    assert_true(fabs(s.total_s - parts_s(&s)) <= ROUNDING_S);
    assert_same(&s, &f->told, 0);
}

static void test_a_wait_that_is_too_short_tells_how_far_it_is(void **state) {
    fixture *f = *state;
    pawl_save_stats s = {.struct_size = sizeof s};
    fill(f, 1, 4 << 20);
    open_run(f, (pawl_run_options){.bandwidth_bytes_per_s = 16 << 20, .in_flight_bytes = 1 << 20});
    assert_ok(pawl_save(f->run, f->values, 1, NULL, f->err), f->err);
    assert_int_equal(pawl_wait(f->run, 0.05, &s, f->err), PAWL_ETIMEOUT);
    assert_true(s.total_s >= 0.05);
    assert_adds_up(&s);
    assert_ok(pawl_cancel(f->run, 0, f->err), f->err);
    assert_int_equal(pawl_wait(f->run, 0, &s, f->err), PAWL_ECANCELED);
    assert_adds_up(&s);
    assert_true(s.tidy_s == 0);
    assert_same(&s, &f->told, 0);
}

/* ---- ranks ---------------------------------------------------------------------------------- */

/* All ranks but the last have a row. */
static pawl_status add_row(const job *j, int rank, float *row, pawl_state *values,
                           pawl_error *err) {
    const int64_t shape[] = {j->ranks - 1, 4};
    const int64_t offset[] = {rank, 0};
    const int64_t extent[] = {1, 4};
    const pawl_box box = {.offset = offset, .extent = extent, .data = row};
    const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                .name = "w",
                                .dtype = PAWL_F32,
                                .ndim = 2,
                                .shape = shape,
                                .nboxes = 1,
                                .boxes = &box,
                                .box_size = sizeof(pawl_box)};
    return rank + 1 < j->ranks ? pawl_state_add_tensor(values, &tensor, err) : PAWL_OK;
}

static pawl_status save_as_rank(job *j, int rank, pawl_run *run, pawl_error *err) {
    float row[4] = {0};
    pawl_save_stats s = {.struct_size = sizeof s, .step = -1};
    pawl_state *values;
    pawl_status status = pawl_state_new(&values, err);
    status = status == PAWL_OK ? add_row(j, rank, row, values, err) : status;
    status = status == PAWL_OK ? pawl_save(run, values, 1, NULL, err) : status;
    status = status == PAWL_OK ? pawl_wait(run, 0, &s, err) : status;
    pawl_state_free(values);
    bool adds_up = parts_s(&s) <= s.total_s + ROUNDING_S && s.commit_s > 0 &&
                   s.group_wait_s <= s.commit_s + ROUNDING_S;
    bool tidied = rank == 0 ? s.tidy_s > 0 : s.tidy_s == 0;
    j->told[rank].wrong = !adds_up + !tidied;
    return status;
}

static void test_each_rank_measures_itself(void **state) {
    job *j = *state;
    j->ranks = 3;
    job_run(j, save_as_rank);
    assert_job_ok(j);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
        TEST(test_the_call_of_pawl_save_is_part_of_the_whole),
        TEST(test_all_who_tell_tell_the_same),
        TEST(test_waiting_for_the_save_before_is_a_part),
        TEST(test_what_follows_the_commit_is_told_apart),
        TEST(test_a_save_that_does_not_begin_has_a_whole_too),
        TEST(test_a_wait_that_is_too_short_tells_how_far_it_is),
        cmocka_unit_test_setup_teardown(test_each_rank_measures_itself, job_set_up, job_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
