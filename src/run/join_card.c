/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks that open a run tell each other of its directory, as bytes. */
#include "ranks/wire.h"
#include "run/join.h"

#include <math.h>
#include <string.h>

#define ATTEMPT_CHARS 12

static pawl_status check_end(const cursor *c, pawl_error *err) {
    return cursor_left(c) == 0 ? PAWL_OK : wire_damaged(c, "more follows its end", err);
}

static pawl_status put_place(buffer *out, const char *root, const char *given, const char *cwd,
                             pawl_error *err) {
    TRY(wire_put_text(out, root, JOIN_TEXT_CHARS - 1, err));
    TRY(wire_put_text(out, given, JOIN_TEXT_CHARS - 1, err));
    return wire_put_text(out, cwd, JOIN_TEXT_CHARS - 1, err);
}

static pawl_status take_place(cursor *c, char *root, char *given, char *cwd, pawl_error *err) {
    TRY(wire_take_text(c, root, JOIN_TEXT_CHARS, err));
    TRY(wire_take_text(c, given, JOIN_TEXT_CHARS, err));
    return wire_take_text(c, cwd, JOIN_TEXT_CHARS, err);
}

pawl_status join_answer_encode(const join_answer *a, buffer *out, pawl_error *err) {
    uint64_t lease;
    memcpy(&lease, &a->lease_s, sizeof lease);
    TRY(wire_put_text(out, a->attempt, sizeof a->attempt - 1, err));
    TRY(buffer_u64le(out, a->generation, err));
    TRY(buffer_u64le(out, (uint64_t)a->newest_step, err));
    TRY(buffer_u64le(out, lease, err));
    return put_place(out, a->root, a->given, a->cwd, err);
}

static bool is_attempt_id(const char *text) {
    return strlen(text) == ATTEMPT_CHARS && strspn(text, "0123456789abcdef") == ATTEMPT_CHARS;
}

pawl_status join_answer_decode(const uint8_t *bytes, size_t n, join_answer *out, pawl_error *err) {
    cursor c = cursor_of(bytes, n, 0, "answer of rank 0");
    uint64_t step = 0;
    uint64_t lease = 0;
    TRY(wire_take_text(&c, out->attempt, sizeof out->attempt, err));
    TRY(cursor_u64le(&c, &out->generation, err));
    TRY(cursor_u64le(&c, &step, err));
    TRY(cursor_u64le(&c, &lease, err));
    TRY(take_place(&c, out->root, out->given, out->cwd, err));
    TRY(check_end(&c, err));
    memcpy(&out->lease_s, &lease, sizeof out->lease_s);
    out->newest_step = step > INT64_MAX ? -1 : (int64_t)step;
    if (!is_attempt_id(out->attempt) || !(out->lease_s > 0 && out->lease_s <= OWNER_MAX_LEASE_S)) {
        return wire_damaged(&c, "its attempt or lease is invalid", err);
    }
    return PAWL_OK;
}

pawl_status join_card_encode(const join_card *card, buffer *out, pawl_error *err) {
    TRY(buffer_append(out, &(const uint8_t){(uint8_t)card->sight}, 1, err));
    return put_place(out, card->root, card->given, card->cwd, err);
}

pawl_status join_card_decode(const uint8_t *bytes, size_t n, join_card *out, pawl_error *err) {
    cursor c = cursor_of(bytes, n, 0, "card of a rank");
    uint8_t seen = 0;
    TRY(cursor_u8(&c, &seen, err));
    if (seen > JOIN_FAILED) {
        return wire_damaged(&c, "unknown code for what it sees", err);
    }
    out->sight = (join_sight)seen;
    TRY(take_place(&c, out->root, out->given, out->cwd, err));
    return check_end(&c, err);
}
