/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The property of the encoders of what ranks and watchers are told, and of names: whatever is taken
 * is read back equal.
 */
#include "format/event.h"
#include "format/outcome.h"
#include "format/vote.h"
#include "unit/format/wild.h"

#include <math.h>
#include <stdio.h>

#define TAG "7f3a9c21e04b-1"

/* ---- votes ---------------------------------------------------------------------------------- */

static const char *wild_tag(wild *w) {
    static const char *const bad[] = {
        "",     "7f3a9c21e04b", "7f3a9c21e04b-01", "7F3A9C21E04B-1", "7f3a9c21e04b-4294967296",
        TAG "/"};
    static const char *const good[] = {TAG, "000000000000-0", "ffffffffffff-4294967295"};
    return wild_odd(w) ? bad[wild_below(w, ARRAY_LENGTH(bad))]
                       : good[wild_below(w, ARRAY_LENGTH(good))];
}

static void wild_part(wild *w, vote *v) {
    bool nameable = w->valid; /* a file's name follows from what else is said */
    v->file_count = (size_t)wild_below(w, 4);
    v->files = wild_take(w, v->file_count * sizeof(*v->files));
    for (size_t i = 0; i < v->file_count; i++) {
        char *name = wild_take(w, 80);
        name_data(name, nameable ? v->tag : TAG, v->world_size > 1 ? v->rank : -1, (uint32_t)i,
                  (uint32_t)v->file_count);
        v->files[i] = (vote_file){.name = wild_odd(w) ? "data" : name, .bytes = wild_size(w)};
    }
    v->structure_crc32c = (uint32_t)random_next(&w->random);
    v->structure_bytes = wild_size(w);
    v->values_crc32c = (uint32_t)random_next(&w->random);
}

static vote wild_vote(wild *w) {
    static const char story[VOTE_MAX_STORY + 8];
    vote v = {.step = wild_number(w, 0, INT64_MAX),
              .world_size = wild_int(w, 1, PAWL_MAX_RANKS),
              .tag = wild_tag(w),
              .pid = wild_number(w, 0, INT64_MAX),
              .host = wild_text(w, VOTE_MAX_HOST)};
    v.rank = wild_int(w, 0, v.world_size > 0 ? v.world_size - 1 : 0);
    if (wild_odd(w)) {
        v.host = "host\nname";
    }
    switch (wild_below(w, 3)) {
    case 0:
        v.skipped = true;
        break;
    case 1:
        v.failed = story;
        v.failed_bytes = (size_t)wild_number(w, 0, VOTE_MAX_STORY);
        v.failed_bytes = v.failed_bytes > VOTE_MAX_STORY ? VOTE_MAX_STORY + 1 : v.failed_bytes;
        v.skipped = wild_odd(w);
        break;
    default:
        wild_part(w, &v);
    }
    return v;
}

static void assert_same_vote(const vote *a, const vote *b) {
    assert_true(a->step == b->step && a->pid == b->pid);
    assert_true(a->rank == b->rank && a->world_size == b->world_size);
    assert_string_equal(a->tag, b->tag);
    assert_string_equal(a->host, b->host);
    assert_int_equal(a->skipped, b->skipped);
    assert_int_equal(a->failed != NULL, b->failed != NULL);
    assert_int_equal(a->failed_bytes, b->failed_bytes);
    assert_int_equal(a->file_count, b->file_count);
    for (size_t i = 0; i < a->file_count; i++) {
        assert_string_equal(a->files[i].name, b->files[i].name);
        assert_true(a->files[i].bytes == b->files[i].bytes);
    }
    assert_int_equal(a->structure_crc32c, b->structure_crc32c);
    assert_true(a->structure_bytes == b->structure_bytes);
    assert_int_equal(a->values_crc32c, b->values_crc32c);
}

static void test_heads_of_votes(void **state) {
    (void)state;
    wild w = {.random = {51}};
    int taken = 0;
    for (int round = 0; round < 30000; round++) {
        struct pawl_error err = ERROR_INIT;
        CLEANUP(buffer_free) buffer bytes = {0};
        CLEANUP(arena_free) arena memory = {0};
        wild_begin(&w);
        vote v = wild_vote(&w);
        vote back;
        if (wild_taken(&w, vote_head_encode(&v, &bytes, &err), &err)) {
            assert_ok(vote_head_decode(bytes.data, bytes.size, &memory, &back, &err), &err);
            assert_same_vote(&v, &back);
            taken++;
        }
    }
    wild_begin(&w);
    assert_in_range(taken, 5000, 29000);
}

static void test_values_in_votes(void **state) {
    (void)state;
    wild w = {.random = {52}};
    for (int round = 0; round < 20000; round++) {
        struct pawl_error err = ERROR_INIT;
        CLEANUP(buffer_free) buffer bytes = {0};
        static const size_t sizes[] = {
            [PAWL_KIND_BOOL] = 1, [PAWL_KIND_INT64] = 8, [PAWL_KIND_FLOAT64] = 8};
        wild_begin(&w);
        vote_value v = {.kind = (pawl_kind)wild_int(&w, PAWL_KIND_BOOL, PAWL_KIND_JSON),
                        .crc32c = (uint32_t)random_next(&w.random)};
        bool fixed = v.kind >= PAWL_KIND_BOOL && v.kind <= PAWL_KIND_FLOAT64;
        v.bytes = fixed && !wild_odd(&w) ? sizes[v.kind]
                                         : (uint64_t)wild_number(&w, 0, PAWL_MAX_VALUE_BYTES);
        v.shown_bytes = v.bytes < VOTE_SHOWN_BYTES ? (size_t)v.bytes : VOTE_SHOWN_BYTES;
        v.shown_bytes -= v.shown_bytes > 0 && wild_odd(&w);
        random_fill(&w.random, v.shown, v.shown_bytes);
        vote_value back;
        if (wild_taken(&w, vote_value_encode(&v, &bytes, &err), &err)) {
            assert_ok(vote_value_decode(bytes.data, bytes.size, &back, &err), &err);
            assert_true(v.kind == back.kind && v.crc32c == back.crc32c && v.bytes == back.bytes);
            assert_int_equal(v.shown_bytes, back.shown_bytes);
            assert_memory_equal(v.shown, back.shown, v.shown_bytes);
        }
    }
    wild_begin(&w);
}

static int64_t *wild_numbers(wild *w, int n) {
    int64_t *numbers = wild_take(w, (size_t)(n > 0 ? n : 0) * sizeof(*numbers));
    for (int i = 0; i < n; i++) {
        numbers[i] = wild_below(w, 200) == 0 ? wild_number(w, 0, INT64_MAX) : (int64_t)i;
    }
    return numbers;
}

static void test_replicas_in_votes(void **state) {
    (void)state;
    wild w = {.random = {53}};
    for (int round = 0; round < 4000; round++) {
        struct pawl_error err = ERROR_INIT;
        CLEANUP(buffer_free) buffer bytes = {0};
        CLEANUP(arena_free) arena memory = {0};
        vote_replica replicas[PAWL_MAX_BOXES + 1];
        vote_replica *back;
        size_t back_count;
        int back_ndim;
        wild_begin(&w);
        int ndim = wild_int(&w, 0, PAWL_MAX_NDIM);
        ndim = ndim > PAWL_MAX_NDIM ? PAWL_MAX_NDIM + 1 : ndim < 0 ? -1 : ndim;
        size_t count = (size_t)wild_below(&w, PAWL_MAX_BOXES + 1) + (wild_odd(&w) ? 1 : 0);
        for (size_t i = 0; i < count; i++) {
            replicas[i] = (vote_replica){.offset = wild_numbers(&w, ndim),
                                         .extent = wild_numbers(&w, ndim),
                                         .crc32c = (uint32_t)random_next(&w.random)};
        }
        pawl_status status = vote_replicas_encode(replicas, count, ndim, &bytes, &err);
        if (!wild_taken(&w, status, &err)) {
            continue;
        }
        assert_ok(vote_replicas_decode(bytes.data, bytes.size, &memory, &back, &back_count,
                                       &back_ndim, &err),
                  &err);
        assert_true(back_count == count && back_ndim == ndim);
        for (size_t i = 0; i < count; i++) {
            size_t n = (size_t)ndim * sizeof(int64_t);
            assert_int_equal(replicas[i].crc32c, back[i].crc32c);
            assert_true(n == 0 || (memcmp(replicas[i].offset, back[i].offset, n) == 0 &&
                                   memcmp(replicas[i].extent, back[i].extent, n) == 0));
        }
    }
    wild_begin(&w);
}

/* ---- outcomes ------------------------------------------------------------------------------- */

static void test_outcomes_come_back_as_written(void **state) {
    (void)state;
    static const uint8_t story[OUTCOME_MAX_STORY + 1];
    wild w = {.random = {54}};
    for (int round = 0; round < 20000; round++) {
        struct pawl_error err = ERROR_INIT;
        CLEANUP(buffer_free) buffer bytes = {0};
        wild_begin(&w);
        save_outcome o = {.end = (save_end)wild_int(&w, SAVE_END_COMMITTED, SAVE_END_UNKNOWN),
                          .step = wild_number(&w, 0, INT64_MAX),
                          .story = story};
        save_outcome back;
        bool told = (o.end != SAVE_END_COMMITTED) != wild_odd(&w);
        o.story_bytes = told ? (size_t)wild_number(&w, 1, OUTCOME_MAX_STORY) : 0;
        o.story_bytes = o.story_bytes > OUTCOME_MAX_STORY ? OUTCOME_MAX_STORY + 1 : o.story_bytes;
        if (wild_taken(&w, outcome_encode(&o, &bytes, &err), &err)) {
            assert_true(bytes.size <= OUTCOME_MAX_BYTES);
            assert_ok(outcome_decode(bytes.data, bytes.size, &back, &err), &err);
            assert_true(o.end == back.end && o.step == back.step &&
                        o.story_bytes == back.story_bytes);
        }
    }
    wild_begin(&w);
}

/* ---- events --------------------------------------------------------------------------------- */

static double wild_seconds(wild *w) {
    static const double seconds[] = {0, 0.000001, 1.5, 86400, 8.9e9};
    return seconds[wild_below(w, ARRAY_LENGTH(seconds))];
}

static void assert_same_event(const pawl_event *a, const pawl_event *b) {
    bool ended = a->kind == PAWL_EVENT_SAVE_ENDED || a->kind == PAWL_EVENT_RESTORED;
    assert_true(a->kind == b->kind && a->step == b->step && a->unix_time_ns == b->unix_time_ns);
    if (ended) {
        assert_int_equal(a->status, b->status);
        assert_same_text(a->message, b->message);
    }
    if (a->kind != PAWL_EVENT_SAVE_BEGUN) {
        assert_true(a->done_bytes == b->done_bytes);
        assert_true(fabs(a->seconds - b->seconds) < 1e-5);
    }
    if (a->kind != PAWL_EVENT_RESTORED) {
        assert_true(a->of_bytes == b->of_bytes);
    }
    if (a->kind == PAWL_EVENT_SAVE_ENDED && a->stats != NULL) {
        assert_true(a->stats->files == b->stats->files && a->stats->retries == b->stats->retries);
        assert_true(a->stats->fence_copied_bytes == b->stats->fence_copied_bytes);
        assert_true(a->stats->budget_bytes == b->stats->budget_bytes);
        assert_true(a->stats->budget_wanted_bytes == b->stats->budget_wanted_bytes);
    }
}

/* Messages come back up to 1000 bytes here; what is longer, or no UTF-8, is only shown. */
static void test_events_come_back_as_written(void **state) {
    (void)state;
    wild w = {.random = {55}};
    for (int round = 0; round < 20000; round++) {
        struct pawl_error err = ERROR_INIT;
        CLEANUP(buffer_free) buffer line = {0};
        wild_begin(&w);
        const char *message = wild_below(&w, 4) == 0 ? NULL : wild_text(&w, 700);
        bool exact = w.valid;
        w.valid = true;
        pawl_save_stats stats = {.files = wild_size(&w),
                                 .retries = wild_size(&w),
                                 .fence_copied_bytes = wild_size(&w),
                                 .budget_bytes = (size_t)wild_size(&w),
                                 .budget_wanted_bytes = wild_size(&w),
                                 .write_s = wild_seconds(&w)};
        pawl_event e = {
            .kind = (pawl_event_kind)wild_int(&w, PAWL_EVENT_SAVE_BEGUN, PAWL_EVENT_RESTORED),
            .step = wild_number(&w, -1, INT64_MAX),
            .unix_time_ns = wild_number(&w, 0, INT64_MAX),
            .status = (pawl_status)wild_int(&w, PAWL_OK, STATUS_LAST),
            .message = message,
            .done_bytes = wild_size(&w),
            .of_bytes = wild_size(&w),
            .seconds = wild_seconds(&w),
            .stats = wild_below(&w, 4) == 0 ? NULL : &stats};
        event_decoded back;
        if (wild_taken(&w, event_encode(&e, NULL, &line, &err), &err)) {
            assert_true(line.size < FORMAT_MAX_EVENT_WRITTEN);
            assert_true(event_decode(line.data, line.size, &back));
            e.message = exact ? e.message : back.event.message;
            assert_same_event(&e, &back.event);
            event_decoded_free(&back);
        }
    }
    wild_begin(&w);
}

/* ---- names ---------------------------------------------------------------------------------- */

static void test_names_come_back_as_written(void **state) {
    (void)state;
    static const char *const tags[] = {TAG, "000000000000-0", "ffffffffffff-4294967295"};
    static const int ranks[] = {-1, 0, 99999, 12345, PAWL_MAX_RANKS - 1};
    static const uint32_t counts[] = {1, 2, 99999, 100000, FORMAT_MAX_FILES};
    static const int64_t steps[] = {0, 7, 99999999, 100000000, INT64_MAX};
    char name[80], step_name[32], tag[FORMAT_TAG_CHARS];
    int64_t step;
    int rank;
    uint32_t number, of;
    for (size_t i = 0; i < ARRAY_LENGTH(steps); i++) {
        name_step(step_name, steps[i]);
        assert_true(name_step_parse(step_name, &step) && step == steps[i]);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(tags) * ARRAY_LENGTH(ranks) * ARRAY_LENGTH(counts); i++) {
        const char *wanted = tags[i % ARRAY_LENGTH(tags)];
        int of_rank = ranks[i / ARRAY_LENGTH(tags) % ARRAY_LENGTH(ranks)];
        uint32_t count = counts[i / ARRAY_LENGTH(tags) / ARRAY_LENGTH(ranks)];
        name_data(name, wanted, of_rank, count - 1, count);
        assert_true(name_data_parse(name, tag, &rank, &number, &of));
        assert_string_equal(tag, wanted);
        assert_true(rank == of_rank && number == count - 1 && of == count);
        assert_int_equal(name_classify(name, tag), NAME_KIND_DATA);
        if (of_rank >= 0) {
            name_vote(name, wanted, of_rank);
            assert_true(name_vote_parse(name, tag, &rank) && rank == of_rank);
            name_meet(name, "0123456789ab", (uint64_t)steps[i % 5], of_rank);
            assert_int_equal(name_root_classify(name, tag), NAME_ROOT_MEET);
        }
        name_index(name, wanted);
        assert_int_equal(name_classify(name, tag), NAME_KIND_INDEX);
        name_manifest_tmp(name, wanted);
        assert_int_equal(name_classify(name, tag), NAME_KIND_MANIFEST_TMP);
        name_outcome(name, wanted);
        assert_int_equal(name_root_classify(name, tag), NAME_ROOT_OUTCOME);
        name_structure(name, "0123456789ab", UINT32_MAX, (uint64_t)steps[i % 5]);
        assert_int_equal(name_root_classify(name, tag), NAME_ROOT_STRUCTURE);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heads_of_votes),
        cmocka_unit_test(test_values_in_votes),
        cmocka_unit_test(test_replicas_in_votes),
        cmocka_unit_test(test_outcomes_come_back_as_written),
        cmocka_unit_test(test_events_come_back_as_written),
        cmocka_unit_test(test_names_come_back_as_written),
    };
    return cmocka_run_group_tests_name("what is told is read back", tests, NULL, NULL);
}
