/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ranks hand in and hear at a meeting, as bytes.
 *
 *   card:     u32le magic, u64le number, text what, u32le rank, u32le world size, 8 bytes nonce,
 *             identity, u8 status, varint n, bytes, varint n, story, zeros, u32le crc32c
 *   verdict:  u32le magic, u64le number, identity, u8 status, varint n, body,
 *             varint n, nonces of 8 bytes, u32le crc32c
 */
#include "run/meet.h"
#include "run/wire.h"

#include <string.h>

#define CARD_MAGIC    0x324d5250u /* "PRM2" */
#define VERDICT_MAGIC 0x32565250u /* "PRV2" */
#define CRC_BYTES     4u

/* ---- bytes with a checksum at their end ----------------------------------------------------- */

static pawl_status seal(buffer *out, pawl_error *err) {
    return buffer_u32le(out, crc32c(0, out->data, out->size), err);
}

/* The cursor ends before the checksum. */
static pawl_status unseal(const uint8_t *bytes, size_t n, uint32_t magic, const char *what,
                          cursor *c, pawl_error *err) {
    uint32_t found = 0;
    *c = cursor_of(bytes, n, 0, what);
    if (n < CRC_BYTES) {
        return wire_damaged(c, "it is too short", err);
    }
    c->at = n - CRC_BYTES;
    TRY(cursor_u32le(c, &found, err));
    *c = cursor_of(bytes, n - CRC_BYTES, 0, what);
    if (found != crc32c(0, bytes, n - CRC_BYTES)) {
        return wire_damaged(c, "its checksum is another", err);
    }
    TRY(cursor_u32le(c, &found, err));
    return found == magic ? PAWL_OK : wire_damaged(c, "it begins otherwise", err);
}

static pawl_status put_bytes(buffer *out, const void *bytes, size_t n, pawl_error *err) {
    TRY(buffer_varint(out, n, err));
    return n > 0 ? buffer_append(out, bytes, n, err) : PAWL_OK;
}

static pawl_status take_bytes(cursor *c, const uint8_t **bytes, size_t *n, pawl_error *err) {
    uint32_t length = 0;
    TRY(cursor_varint32(c, &length, err));
    *n = length;
    return cursor_bytes(c, length, bytes, err);
}

static pawl_status take_status(cursor *c, pawl_status *status, pawl_error *err) {
    uint8_t byte = 0;
    TRY(cursor_u8(c, &byte, err));
    *status = (pawl_status)byte;
    return byte <= STATUS_LAST ? PAWL_OK : wire_damaged(c, "no call has such a status", err);
}

/* ---- cards ---------------------------------------------------------------------------------- */

static pawl_status put_head(const pawl_run *run, const meeting *m, buffer *out, pawl_error *err) {
    const struct ranks *r = run->ranks;
    TRY(buffer_u32le(out, CARD_MAGIC, err));
    TRY(buffer_u64le(out, r->met, err));
    TRY(wire_put_text(out, m->what, MEET_WHAT_CHARS - 1, err));
    TRY(buffer_u32le(out, (uint32_t)run->rank, err));
    TRY(buffer_u32le(out, (uint32_t)run->world_size, err));
    TRY(buffer_append(out, r->nonce, sizeof r->nonce, err));
    return wire_put_identity(out, &r->self, err);
}

/* All fits: what a rank hands in, its story, who it is, the call, and numbers. */
_Static_assert(MEET_BYTES / 2 + MEET_MAX_STORY + sizeof(process_identity) + MEET_WHAT_CHARS + 64 <=
                   MEET_BYTES,
               "a card has room for the longest of everything");

pawl_status meet_sheet_make(pawl_run *run, const meeting *m, buffer *out, pawl_error *err) {
    static const uint8_t zeros[MEET_BYTES] = {0};
    CLEANUP(buffer_free) buffer story = {0};
    if (m->mine_bytes > MEET_BYTES / 2) {
        return error_set(err, PAWL_EINTERNAL, "%s: a rank hands in too much", m->what);
    }
    if (m->status != PAWL_OK) {
        TRY(story_encode(m->story, MEET_MAX_STORY, &story, err));
    }
    TRY(put_head(run, m, out, err));
    TRY(buffer_append(out, &(const uint8_t){(uint8_t)m->status}, 1, err));
    TRY(put_bytes(out, m->mine, m->mine_bytes, err));
    TRY(put_bytes(out, story.data, story.size, err));
    TRY(buffer_append(out, zeros, MEET_BYTES - CRC_BYTES - out->size, err));
    return seal(out, err);
}

static pawl_status take_ranks(cursor *c, meet_sheet *out, pawl_error *err) {
    uint32_t rank = 0;
    uint32_t world_size = 0;
    TRY(cursor_u32le(c, &rank, err));
    TRY(cursor_u32le(c, &world_size, err));
    if (world_size == 0 || world_size > PAWL_MAX_RANKS || rank >= world_size) {
        return wire_damaged(c, "there is no such rank", err);
    }
    out->rank = (int)rank;
    out->world_size = (int)world_size;
    return PAWL_OK;
}

pawl_status meet_sheet_decode(const uint8_t *bytes, size_t n, meet_sheet *out, pawl_error *err) {
    cursor c;
    const uint8_t *nonce = NULL;
    meet_card *card = &out->card;
    memset(out, 0, sizeof *out);
    if (n > MEET_BYTES) {
        return error_set(err, PAWL_ELIMIT, "the card of a rank is larger than %u bytes",
                         MEET_BYTES);
    }
    TRY(unseal(bytes, n, CARD_MAGIC, "card of a rank", &c, err));
    TRY(cursor_u64le(&c, &out->number, err));
    TRY(wire_take_text(&c, out->what, sizeof out->what, err));
    TRY(take_ranks(&c, out, err));
    TRY(cursor_bytes(&c, MEET_NONCE_BYTES, &nonce, err));
    memcpy(out->nonce, nonce, MEET_NONCE_BYTES);
    TRY(wire_take_identity(&c, &out->who, err));
    TRY(take_status(&c, &card->status, err));
    TRY(take_bytes(&c, &card->bytes, &card->n, err));
    TRY(take_bytes(&c, &card->story, &card->story_bytes, err));
    card->came = true;
    return PAWL_OK;
}

/* ---- verdicts ------------------------------------------------------------------------------- */

pawl_status meet_verdict_encode(const meet_verdict *v, buffer *out, pawl_error *err) {
    TRY(buffer_u32le(out, VERDICT_MAGIC, err));
    TRY(buffer_u64le(out, v->number, err));
    TRY(wire_put_identity(out, &v->who, err));
    TRY(buffer_append(out, &(const uint8_t){(uint8_t)v->status}, 1, err));
    TRY(put_bytes(out, v->body, v->body_bytes, err));
    TRY(put_bytes(out, v->nonces, v->nonce_count * MEET_NONCE_BYTES, err));
    return seal(out, err);
}

pawl_status meet_verdict_decode(const uint8_t *bytes, size_t n, meet_verdict *out,
                                pawl_error *err) {
    cursor c;
    size_t nonces = 0;
    memset(out, 0, sizeof *out);
    TRY(unseal(bytes, n, VERDICT_MAGIC, "answer of rank 0", &c, err));
    TRY(cursor_u64le(&c, &out->number, err));
    TRY(wire_take_identity(&c, &out->who, err));
    TRY(take_status(&c, &out->status, err));
    TRY(take_bytes(&c, &out->body, &out->body_bytes, err));
    TRY(take_bytes(&c, &out->nonces, &nonces, err));
    if (nonces % MEET_NONCE_BYTES != 0 || cursor_left(&c) != 0) {
        return wire_damaged(&c, "its end is not where it should be", err);
    }
    out->nonce_count = nonces / MEET_NONCE_BYTES;
    return PAWL_OK;
}
