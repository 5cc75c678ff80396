/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ranks tell each other of themselves: whatever its encoder makes its decoder takes, whatever
 * bytes the texts hold; texts that fit and are UTF-8 come back as they were.
 */
#include "doctor/sight.h"
#include "ranks/meet.h"
#include "ranks/wire.h"
#include "run/join.h"
#include "unit/format/wild.h"

#include <stdio.h>

#define ROUNDS 3000

/* Into an array of `size`: UTF-8 that fits it exactly at most; or, where it is not `exact`, any
 * bytes. */
static bool fill_text(wild *w, char *to, size_t size) {
    bool exact = wild_below(w, 3) != 0;
    size_t n = (size_t)wild_below(w, wild_below(w, 2) == 0 ? size : size < 24 ? size : 24);
    memset(to, 0, size);
    for (size_t at = 0; at < n;) {
        at += wild_piece(w, to + at, n - at);
    }
    if (!exact) {
        random_fill(&w->random, to, n);
    }
    return utf8_valid(to, strlen(to));
}

static void assert_text(bool exact, const char *said, const char *heard) {
    assert_true(utf8_valid(heard, strlen(heard)));
    if (exact) {
        assert_string_equal(said, heard);
    } else {
        assert_int_equal(strlen(said), strlen(heard)); /* a '?' for each byte that is none */
    }
}

static void test_texts_come_back_or_are_cut(void **state) {
    (void)state;
    wild w = {.random = {61}};
    for (int round = 0; round < ROUNDS; round++) {
        struct pawl_error err = ERROR_INIT;
        CLEANUP(buffer_free) buffer bytes = {0};
        char said[1024], heard[1024];
        bool exact = fill_text(&w, said, sizeof(said));
        size_t limit = 3 + (size_t)wild_below(&w, sizeof(said) - 3);
        assert_ok(wire_put_text(&bytes, said, limit, &err), &err);
        cursor c = cursor_of(bytes.data, bytes.size, 0, "text");
        assert_ok(wire_take_text(&c, heard, limit + 1, &err), &err);
        assert_int_equal(cursor_left(&c), 0);
        if (strlen(said) <= limit) {
            assert_text(exact, said, heard);
        } else {
            assert_true(strlen(heard) <= limit);
            assert_string_equal(heard + strlen(heard) - 3, "...");
        }
    }
}

static void test_stories_arrive_whatever_they_hold(void **state) {
    (void)state;
    wild w = {.random = {62}};
    for (int round = 0; round < ROUNDS; round++) {
        struct pawl_error err = ERROR_INIT;
        struct pawl_error said = ERROR_INIT, heard = ERROR_INIT;
        CLEANUP(buffer_free) buffer bytes = {0};
        wild_begin(&w);
        said.status = (pawl_status)wild_int(&w, PAWL_OK + 1, STATUS_LAST);
        bool possible = w.valid;
        said.system_errno = wild_int(&w, 0, 4095);
        said.step = wild_number(&w, -1, INT64_MAX);
        bool numbers = w.valid;
        said.has_range = wild_below(&w, 2) == 0;
        said.offset = random_next(&w.random);
        said.length = random_next(&w.random);
        bool exact = fill_text(&w, said.attempt, sizeof(said.attempt));
        bool exact_next = fill_text(&w, said.next, sizeof(said.next));
        size_t limit = wild_below(&w, 2) == 0 ? SIZE_MAX : 256 + (size_t)wild_below(&w, 4000);
        w.valid = possible;
        if (!wild_taken(&w, failure_encode(&said, limit, &bytes, &err), &err)) {
            continue;
        }
        assert_true(bytes.size <= limit);
        assert_ok(failure_decode(bytes.data, bytes.size, &heard, &err), &err);
        assert_int_equal(heard.status, said.status);
        assert_true(!numbers ||
                    (heard.system_errno == said.system_errno && heard.step == said.step));
        if (limit == SIZE_MAX) {
            assert_text(exact, said.attempt, heard.attempt);
            assert_text(exact_next, said.next, heard.next);
        }
    }
    wild_begin(&w);
}

static void test_places_arrive_whatever_they_hold(void **state) {
    (void)state;
    wild w = {.random = {63}};
    for (int round = 0; round < ROUNDS; round++) {
        struct pawl_error err = ERROR_INIT;
        CLEANUP(buffer_free) buffer bytes = {0};
        join_answer said = {.attempt = "0123456789ab",
                            .generation = random_next(&w.random),
                            .newest_step = random_between(&w.random, -1, INT64_MAX - 1),
                            .lease_s = 30};
        join_answer heard;
        join_card card = {.sight = (join_sight)wild_below(&w, JOIN_FAILED + 1)};
        join_card heard_card;
        bool exact = fill_text(&w, said.root, sizeof(said.root));
        memcpy(card.root, said.root, sizeof(card.root));
        (void)fill_text(&w, card.cwd, sizeof(card.cwd));
        assert_ok(join_answer_encode(&said, &bytes, &err), &err);
        assert_ok(join_answer_decode(bytes.data, bytes.size, &heard, &err), &err);
        assert_string_equal(said.attempt, heard.attempt);
        assert_true(said.generation == heard.generation && said.newest_step == heard.newest_step);
        assert_text(exact, said.root, heard.root);
        bytes.size = 0;
        assert_ok(join_card_encode(&card, &bytes, &err), &err);
        assert_true(bytes.size <= MEET_MAX_MINE); /* what a rank may hand in */
        assert_ok(join_card_decode(bytes.data, bytes.size, &heard_card, &err), &err);
        assert_int_equal(card.sight, heard_card.sight);
        assert_text(exact, card.root, heard_card.root);
    }
}

static void test_verdicts_arrive_whatever_their_host_is_called(void **state) {
    (void)state;
    wild w = {.random = {64}};
    for (int round = 0; round < ROUNDS; round++) {
        struct pawl_error err = ERROR_INIT;
        CLEANUP(buffer_free) buffer bytes = {0};
        uint8_t body[64];
        meet_reply said = {.number = random_next(&w.random),
                           .who = {.pid = random_between(&w.random, 0, INT32_MAX)},
                           .status = (pawl_status)wild_below(&w, STATUS_LAST + 1),
                           .body = body,
                           .body_bytes = (size_t)wild_below(&w, sizeof(body)),
                           .nonces = body,
                           .nonce_count = (size_t)wild_below(&w, 8)};
        meet_reply heard;
        bool exact = fill_text(&w, said.who.host, sizeof(said.who.host));
        random_fill(&w.random, body, sizeof(body));
        assert_ok(meet_reply_encode(&said, &bytes, &err), &err);
        assert_ok(meet_reply_decode(bytes.data, bytes.size, &heard, &err), &err);
        assert_true(said.number == heard.number && said.who.pid == heard.who.pid &&
                    said.status == heard.status && said.body_bytes == heard.body_bytes &&
                    said.nonce_count == heard.nonce_count);
        assert_memory_equal(said.body, heard.body, said.body_bytes);
        assert_text(exact, said.who.host, heard.who.host);
    }
}

static void test_sights_arrive_whatever_they_hold(void **state) {
    (void)state;
    wild w = {.random = {65}};
    for (int round = 0; round < ROUNDS; round++) {
        struct pawl_error err = ERROR_INIT;
        CLEANUP(buffer_free) buffer bytes = {0};
        sight said = {.pid = random_between(&w.random, 0, INT32_MAX), .saw = round % 2 == 0};
        sight heard;
        bool exact = fill_text(&w, said.host, sizeof(said.host));
        bool exact_given = fill_text(&w, said.given, sizeof(said.given));
        bool exact_trouble = fill_text(&w, said.trouble, sizeof(said.trouble));
        (void)fill_text(&w, said.here, sizeof(said.here));
        (void)fill_text(&w, said.place, sizeof(said.place));
        (void)fill_text(&w, said.nearest, sizeof(said.nearest));
        (void)fill_text(&w, said.point, sizeof(said.point));
        (void)fill_text(&w, said.trouble_id, sizeof(said.trouble_id));
        assert_ok(sight_encode(&said, &bytes, &err), &err);
        assert_true(bytes.size <= SIGHT_BYTES);
        assert_ok(sight_decode(bytes.data, bytes.size, &heard, &err), &err);
        assert_true(said.pid == heard.pid && said.saw == heard.saw);
        assert_text(exact, said.host, heard.host);
        assert_text(exact_given, said.given, heard.given);
        assert_text(exact_trouble, said.trouble, heard.trouble);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts_come_back_or_are_cut),
        cmocka_unit_test(test_stories_arrive_whatever_they_hold),
        cmocka_unit_test(test_places_arrive_whatever_they_hold),
        cmocka_unit_test(test_verdicts_arrive_whatever_their_host_is_called),
        cmocka_unit_test(test_sights_arrive_whatever_they_hold),
    };
    return cmocka_run_group_tests_name("what ranks tell is heard", tests, NULL, NULL);
}
