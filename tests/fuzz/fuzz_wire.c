/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What another rank told, by its first byte: a failure, a card or a reply of a meeting, or what the
 * ranks that open a run tell each other. What is understood is within bounds, and written again it
 * is understood as the same.
 */
#include "fuzz.h"

#include "ranks/meet.h"
#include "run/join.h"

#include <stdio.h>

#define KINDS 5
#define CARD  1 /* this and the next end with a checksum */
#define REPLY 2

static void check_refusal(const pawl_error *err, pawl_status status) {
    fuzz_check_refusal(err, status);
}

static void look_at_failure(const uint8_t *data, size_t size) {
    CLEANUP(buffer_free) buffer again = {0};
    pawl_error err = ERROR_INIT;
    pawl_error failed = ERROR_INIT;
    pawl_error second = ERROR_INIT;
    pawl_status status = failure_decode(data, size, &failed, &err);
    if (status != PAWL_OK) {
        check_refusal(&err, status);
        return;
    }
    fuzz_accepted++;
    FUZZ_CHECK(failed.status > PAWL_OK && failed.status <= STATUS_LAST && failed.step >= -1);
    FUZZ_CHECK(strlen(error_text(&failed)) < sizeof failed.rendered);
    FUZZ_CHECK(failure_encode(&failed, SIZE_MAX, &again, &err) == PAWL_OK);
    FUZZ_CHECK(failure_decode(again.data, again.size, &second, &err) == PAWL_OK);
    FUZZ_CHECK(strcmp(failed.attempt, second.attempt) == 0 &&
               strcmp(failed.next, second.next) == 0);
    again.size = 0;
    FUZZ_CHECK(failure_encode(&failed, 256, &again, &err) == PAWL_OK && again.size <= 256);
    FUZZ_CHECK(failure_decode(again.data, again.size, &second, &err) == PAWL_OK);
}

static bool within(const uint8_t *part, size_t n, const buffer *whole) {
    return n == 0 || (part >= whole->data && n <= whole->size &&
                      (size_t)(part - whole->data) <= whole->size - n);
}

/* The same card, made by a rank that is what it says. */
static void make_card_again(const meet_envelope *s) {
    CLEANUP(buffer_free) buffer again = {0};
    pawl_error err = ERROR_INIT;
    job_ranks ranks = {
        .rank = s->rank, .world_size = s->world_size, .met = s->number, .self = s->who};
    const meeting m = {.what = s->what, .mine = s->card.bytes, .mine_bytes = s->card.n};
    meet_envelope back;
    memcpy(ranks.nonce, s->nonce, sizeof ranks.nonce);
    FUZZ_CHECK(meet_envelope_make(&ranks, &m, &again, &err) == PAWL_OK &&
               again.size == MEET_CARD_BYTES);
    FUZZ_CHECK(meet_envelope_decode(again.data, again.size, &back, &err) == PAWL_OK);
    FUZZ_CHECK(back.number == s->number && strcmp(back.what, s->what) == 0);
    FUZZ_CHECK(back.rank == s->rank && back.world_size == s->world_size);
    FUZZ_CHECK(memcmp(back.nonce, s->nonce, sizeof back.nonce) == 0);
    FUZZ_CHECK(strcmp(back.who.host, s->who.host) == 0 && back.who.pid == s->who.pid);
    FUZZ_CHECK(back.card.status == PAWL_OK && back.card.n == s->card.n);
    FUZZ_CHECK(back.card.n == 0 || memcmp(back.card.bytes, s->card.bytes, back.card.n) == 0);
}

static void look_at_card(const uint8_t *data, size_t size) {
    CLEANUP(buffer_free) buffer bytes = fuzz_copy(data, size);
    pawl_error err = ERROR_INIT;
    meet_envelope s;
    pawl_status status = meet_envelope_decode(bytes.data, bytes.size, &s, &err);
    if (status != PAWL_OK) {
        check_refusal(&err, status);
        return;
    }
    FUZZ_CHECK(s.rank >= 0 && s.rank < s.world_size && s.world_size <= PAWL_MAX_RANKS);
    FUZZ_CHECK(s.card.status <= STATUS_LAST && strlen(s.what) < MEET_WHAT_CHARS);
    FUZZ_CHECK(within(s.card.bytes, s.card.n, &bytes));
    FUZZ_CHECK(within(s.card.failure, s.card.failure_bytes, &bytes));
    FUZZ_CHECK(s.who.pid >= 0 && strlen(s.who.host) < sizeof s.who.host);
    fuzz_accepted++;
    if (s.card.status == PAWL_OK && s.card.n <= MEET_MAX_MINE) {
        make_card_again(&s);
    }
}

static void look_at_reply(const uint8_t *data, size_t size) {
    CLEANUP(buffer_free) buffer bytes = fuzz_copy(data, size);
    CLEANUP(buffer_free) buffer again = {0};
    pawl_error err = ERROR_INIT;
    meet_reply v;
    pawl_status status = meet_reply_decode(bytes.data, bytes.size, &v, &err);
    if (status != PAWL_OK) {
        check_refusal(&err, status);
        return;
    }
    fuzz_accepted++;
    FUZZ_CHECK(within(v.body, v.body_bytes, &bytes));
    FUZZ_CHECK(within(v.nonces, v.nonce_count * RANKS_NONCE_BYTES, &bytes));
    FUZZ_CHECK(meet_reply_encode(&v, &again, &err) == PAWL_OK);
    FUZZ_CHECK(meet_reply_decode(again.data, again.size, &v, &err) == PAWL_OK);
}

static void look_at_join_answer(const uint8_t *data, size_t size) {
    CLEANUP(buffer_free) buffer again = {0};
    pawl_error err = ERROR_INIT;
    join_answer a;
    pawl_status status = join_answer_decode(data, size, &a, &err);
    if (status != PAWL_OK) {
        check_refusal(&err, status);
        return;
    }
    fuzz_accepted++;
    FUZZ_CHECK(strlen(a.attempt) == 12 && a.newest_step >= -1 && a.lease_s > 0);
    FUZZ_CHECK(join_answer_encode(&a, &again, &err) == PAWL_OK);
    FUZZ_CHECK(again.size <= MEET_MAX_MINE);
    FUZZ_CHECK(join_answer_decode(again.data, again.size, &a, &err) == PAWL_OK);
}

static void look_at_join_card(const uint8_t *data, size_t size) {
    CLEANUP(buffer_free) buffer again = {0};
    pawl_error err = ERROR_INIT;
    join_card c;
    pawl_status status = join_card_decode(data, size, &c, &err);
    if (status != PAWL_OK) {
        check_refusal(&err, status);
        return;
    }
    fuzz_accepted++;
    FUZZ_CHECK(c.sight <= JOIN_FAILED);
    FUZZ_CHECK(join_card_encode(&c, &again, &err) == PAWL_OK);
    FUZZ_CHECK(again.size <= MEET_MAX_MINE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static void (*const looks[KINDS])(const uint8_t *, size_t) = {
        look_at_failure, look_at_card, look_at_reply, look_at_join_answer, look_at_join_card};
    if (size > 0) {
        CLEANUP(buffer_free) buffer rest = fuzz_copy(data + 1, size - 1);
        looks[data[0] % KINDS](rest.data, rest.size);
    }
    return 0;
}

size_t fuzz_repair(uint8_t *data, size_t size, size_t room) {
    unsigned kind = size > 0 ? data[0] % KINDS : 0;
    return kind == CARD || kind == REPLY ? 1 + fuzz_repair_tail(data + 1, size - 1, room - 1)
                                         : size;
}
