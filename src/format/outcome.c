/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes and decodes the file that says how a save of many ranks ended. */
#include "format/outcome.h"

#include <string.h>

#define MAGIC       "pawl-end"
#define MAGIC_BYTES 8u

/* There is a story unless the save is committed. */
static bool can_be_outcome(uint32_t end, uint64_t step, size_t story_bytes) {
    return step <= INT64_MAX && end >= SAVE_END_COMMITTED && end <= SAVE_END_UNKNOWN &&
           (end == SAVE_END_COMMITTED) == (story_bytes == 0);
}

pawl_status outcome_encode(const save_outcome *o, buffer *out, pawl_error *err) {
    if (o->story_bytes > OUTCOME_MAX_STORY) {
        return error_set(err, PAWL_ELIMIT, "an outcome's story of %zu bytes is longer than %u",
                         o->story_bytes, OUTCOME_MAX_STORY);
    }
    if (!can_be_outcome((uint32_t)o->end, (uint64_t)o->step, o->story_bytes)) {
        return error_set(err, PAWL_EINTERNAL, "the fields of an outcome contradict each other");
    }
    size_t begin = out->size;
    TRY(buffer_append(out, MAGIC, MAGIC_BYTES, err));
    TRY(buffer_u32le(out, OUTCOME_VERSION, err));
    TRY(buffer_u32le(out, (uint32_t)o->end, err));
    TRY(buffer_u64le(out, (uint64_t)o->step, err));
    TRY(buffer_u32le(out, (uint32_t)o->story_bytes, err));
    TRY(buffer_append(out, o->story, o->story_bytes, err));
    return buffer_u32le(out, crc32c(0, out->data + begin, out->size - begin), err);
}

static pawl_status damaged_outcome(const char *why, pawl_error *err) {
    return error_set(err, PAWL_EDAMAGED, "the outcome of a save cannot be used: %s", why);
}

static pawl_status get_outcome_head(cursor *c, uint32_t *end, uint64_t *step, uint32_t *story_bytes,
                                    pawl_error *err) {
    const uint8_t *magic;
    uint32_t version = 0;
    TRY(cursor_bytes(c, MAGIC_BYTES, &magic, err));
    TRY(cursor_u32le(c, &version, err));
    TRY(cursor_u32le(c, end, err));
    TRY(cursor_u64le(c, step, err));
    TRY(cursor_u32le(c, story_bytes, err));
    if (memcmp(magic, MAGIC, MAGIC_BYTES) != 0) {
        return damaged_outcome("it does not begin as outcomes do", err);
    }
    if (version != OUTCOME_VERSION) {
        error_set(err, PAWL_EUNSUPPORTED, "the outcome of a save is of another version of pawl");
        error_expected(err, "version %d", OUTCOME_VERSION);
        error_found(err, "version %u", version);
        error_next(err, "run the same pawl on all ranks");
        return PAWL_EUNSUPPORTED;
    }
    return PAWL_OK;
}

pawl_status outcome_decode(const uint8_t *bytes, size_t n, save_outcome *out, pawl_error *err) {
    uint32_t end = 0;
    uint64_t step = 0;
    uint32_t story_bytes = 0;
    uint32_t crc = 0;
    cursor c = cursor_of(bytes, n, 0, "outcome of a save");
    TRY(get_outcome_head(&c, &end, &step, &story_bytes, err));
    if (story_bytes > OUTCOME_MAX_STORY) {
        return damaged_outcome("its story is too long", err);
    }
    TRY(cursor_bytes(&c, story_bytes, &out->story, err));
    uint32_t want = crc32c(0, bytes, c.at);
    TRY(cursor_u32le(&c, &crc, err));
    if (cursor_left(&c) != 0 || crc != want) {
        return damaged_outcome("its bytes are not those that were written", err);
    }
    if (!can_be_outcome(end, step, story_bytes)) {
        return damaged_outcome("its fields contradict each other", err);
    }
    out->end = (save_end)end;
    out->step = (int64_t)step;
    out->story_bytes = story_bytes;
    return PAWL_OK;
}
