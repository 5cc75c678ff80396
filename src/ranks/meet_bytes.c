/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What travels at a meeting, as bytes.
 *
 *   card:     u32le magic, u64le number, text what, u32le rank, u32le world size, 8 bytes nonce,
 *             identity, u8 status, varint n, bytes, varint n, failure, zeros, u32le crc32c
 *   reply:    u32le magic, u64le number, identity, u8 status, varint n, body,
 *             varint n, nonces of 8 bytes, u32le crc32c
 */
#include "ranks/meet.h"
#include "ranks/wire.h"

#include <string.h>

#define CARD_MAGIC  0x324d5250u /* "PRM2" */
#define REPLY_MAGIC 0x32565250u /* "PRV2" */
#define CRC_BYTES   4u

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
        return wire_damaged(c, "its checksum does not match", err);
    }
    TRY(cursor_u32le(c, &found, err));
    return found == magic ? PAWL_OK : wire_damaged(c, "wrong magic number", err);
}

static pawl_status put_counted_bytes(buffer *out, const void *bytes, size_t n, pawl_error *err) {
    TRY(buffer_varint(out, n, err));
    return n > 0 ? buffer_append(out, bytes, n, err) : PAWL_OK;
}

static pawl_status read_bytes(cursor *c, const uint8_t **bytes, size_t *n, pawl_error *err) {
    uint32_t length = 0;
    TRY(cursor_varint32(c, &length, err));
    *n = length;
    return cursor_bytes(c, length, bytes, err);
}

static pawl_status read_status(cursor *c, pawl_status *status, pawl_error *err) {
    uint8_t byte = 0;
    TRY(cursor_u8(c, &byte, err));
    *status = (pawl_status)byte;
    return byte <= STATUS_LAST ? PAWL_OK : wire_damaged(c, "unknown status", err);
}

/* ---- cards ---------------------------------------------------------------------------------- */

static pawl_status put_card_head(const job_ranks *ranks, const meeting *m, buffer *out,
                                 pawl_error *err) {
    TRY(buffer_u32le(out, CARD_MAGIC, err));
    TRY(buffer_u64le(out, ranks->met, err));
    TRY(wire_put_text(out, m->what, MEET_WHAT_CHARS - 1, err));
    TRY(buffer_u32le(out, (uint32_t)ranks->rank, err));
    TRY(buffer_u32le(out, (uint32_t)ranks->world_size, err));
    TRY(buffer_append(out, ranks->nonce, sizeof ranks->nonce, err));
    return wire_put_identity(out, &ranks->self, err);
}

/* What a rank hands in, its failure, who it is, the call, and numbers. */
_Static_assert(MEET_MAX_MINE + MEET_MAX_FAILURE + sizeof(process_identity) + MEET_WHAT_CHARS + 64 <=
                   MEET_CARD_BYTES,
               "a card has room for the longest of everything");

pawl_status meet_envelope_make(job_ranks *ranks, const meeting *m, buffer *out, pawl_error *err) {
    static const uint8_t zeros[MEET_CARD_BYTES] = {0};
    CLEANUP(buffer_free) buffer failure = {0};
    if (m->mine_bytes > MEET_MAX_MINE) {
        return error_set(err, PAWL_EINTERNAL, "%s: a rank hands in too much", m->what);
    }
    if (m->status != PAWL_OK) {
        TRY(failure_encode(m->failed, MEET_MAX_FAILURE, &failure, err));
    }
    TRY(put_card_head(ranks, m, out, err));
    TRY(buffer_append(out, &(const uint8_t){(uint8_t)m->status}, 1, err));
    TRY(put_counted_bytes(out, m->mine, m->mine_bytes, err));
    TRY(put_counted_bytes(out, failure.data, failure.size, err));
    TRY(buffer_append(out, zeros, MEET_CARD_BYTES - CRC_BYTES - out->size, err));
    return seal(out, err);
}

static pawl_status read_ranks(cursor *c, meet_envelope *out, pawl_error *err) {
    uint32_t rank = 0;
    uint32_t world_size = 0;
    TRY(cursor_u32le(c, &rank, err));
    TRY(cursor_u32le(c, &world_size, err));
    if (world_size == 0 || world_size > PAWL_MAX_RANKS || rank >= world_size) {
        return wire_damaged(c, "its rank or world size is out of range", err);
    }
    out->rank = (int)rank;
    out->world_size = (int)world_size;
    return PAWL_OK;
}

pawl_status meet_envelope_decode(const uint8_t *bytes, size_t n, meet_envelope *out,
                                 pawl_error *err) {
    cursor c;
    const uint8_t *nonce = NULL;
    meet_card *card = &out->card;
    memset(out, 0, sizeof *out);
    if (n > MEET_CARD_BYTES) {
        return error_set(err, PAWL_ELIMIT, "the card of a rank is larger than %u bytes",
                         MEET_CARD_BYTES);
    }
    TRY(unseal(bytes, n, CARD_MAGIC, "card of a rank", &c, err));
    TRY(cursor_u64le(&c, &out->number, err));
    TRY(wire_take_text(&c, out->what, sizeof out->what, err));
    TRY(read_ranks(&c, out, err));
    TRY(cursor_bytes(&c, RANKS_NONCE_BYTES, &nonce, err));
    memcpy(out->nonce, nonce, RANKS_NONCE_BYTES);
    TRY(wire_take_identity(&c, &out->who, err));
    TRY(read_status(&c, &card->status, err));
    TRY(read_bytes(&c, &card->bytes, &card->n, err));
    TRY(read_bytes(&c, &card->failure, &card->failure_bytes, err));
    card->came = true;
    return PAWL_OK;
}

/* ---- replies -------------------------------------------------------------------------------- */

pawl_status meet_reply_encode(const meet_reply *r, buffer *out, pawl_error *err) {
    TRY(buffer_u32le(out, REPLY_MAGIC, err));
    TRY(buffer_u64le(out, r->number, err));
    TRY(wire_put_identity(out, &r->who, err));
    TRY(buffer_append(out, &(const uint8_t){(uint8_t)r->status}, 1, err));
    TRY(put_counted_bytes(out, r->body, r->body_bytes, err));
    TRY(put_counted_bytes(out, r->nonces, r->nonce_count * RANKS_NONCE_BYTES, err));
    return seal(out, err);
}

pawl_status meet_reply_decode(const uint8_t *bytes, size_t n, meet_reply *out, pawl_error *err) {
    cursor c;
    size_t nonces = 0;
    memset(out, 0, sizeof *out);
    TRY(unseal(bytes, n, REPLY_MAGIC, "answer of rank 0", &c, err));
    TRY(cursor_u64le(&c, &out->number, err));
    TRY(wire_take_identity(&c, &out->who, err));
    TRY(read_status(&c, &out->status, err));
    TRY(read_bytes(&c, &out->body, &out->body_bytes, err));
    TRY(read_bytes(&c, &out->nonces, &nonces, err));
    if (nonces % RANKS_NONCE_BYTES != 0 || cursor_left(&c) != 0) {
        return wire_damaged(&c, "its size is wrong", err);
    }
    out->nonce_count = nonces / RANKS_NONCE_BYTES;
    return PAWL_OK;
}
