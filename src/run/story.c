/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A failure that one rank tells the others: all that an error has, as bytes.
 *
 *   u8 version, u8 status, u32le errno, u64le step, u8 has_range, u64le offset, u64le length,
 *   then each text: varint bytes, UTF-8
 */
#include "run/ranks.h"
#include "run/wire.h"

#include <string.h>

#define STORY_VERSION   1
#define STORY_OVERHEAD  64u /* all but the texts */
#define STORY_MIN_LIMIT 256u
#define STORY_MAX_ERRNO 4095u

typedef struct story_part {
    size_t at, size;
} story_part;

#define PART(name)                                                                                 \
    { offsetof(struct pawl_error, name), sizeof(((struct pawl_error *)0)->name) }

static const story_part parts[] = {PART(attempt), PART(path),   PART(entry), PART(expected),
                                   PART(found),   PART(system), PART(safe),  PART(next)};

static size_t texts_bytes(const pawl_error *story, size_t most) {
    size_t sum = 0;
    for (size_t i = 0; i < ARRAY_LENGTH(parts); i++) {
        size_t n = strlen((const char *)story + parts[i].at);
        sum += n < most ? n : most;
    }
    return sum;
}

/* The longest texts are cut first. */
static size_t longest_text(const pawl_error *story, size_t room) {
    size_t most = sizeof story->attempt;
    while (texts_bytes(story, most) > room) {
        most--;
    }
    return most;
}

pawl_status story_encode(const pawl_error *story, size_t limit, buffer *out, pawl_error *err) {
    if (limit < STORY_MIN_LIMIT) {
        return error_set(err, PAWL_ELIMIT, "a story does not fit into %zu bytes", limit);
    }
    if (story->status <= PAWL_OK || story->status > STATUS_LAST) {
        return error_set(err, PAWL_EINTERNAL, "no failure has the status %d", (int)story->status);
    }
    size_t most = longest_text(story, limit - STORY_OVERHEAD);
    const uint8_t head[] = {STORY_VERSION, (uint8_t)story->status};
    /* A number that no failure has is left out: the rest is worth telling. */
    uint32_t system_errno = (uint32_t)story->system_errno;
    uint64_t step = story->step < 0 ? UINT64_MAX : (uint64_t)story->step;
    TRY(buffer_append(out, head, sizeof head, err));
    TRY(buffer_u32le(out, system_errno <= STORY_MAX_ERRNO ? system_errno : 0, err));
    TRY(buffer_u64le(out, step, err));
    TRY(buffer_append(out, &(const uint8_t){story->has_range}, 1, err));
    TRY(buffer_u64le(out, story->offset, err));
    TRY(buffer_u64le(out, story->length, err));
    for (size_t i = 0; i < ARRAY_LENGTH(parts); i++) {
        TRY(wire_put_text(out, (const char *)story + parts[i].at, most, err));
    }
    return PAWL_OK;
}

static pawl_status take_numbers(cursor *c, pawl_error *story, pawl_error *err) {
    uint8_t version = 0;
    uint8_t status = 0;
    uint8_t has_range = 0;
    uint32_t system_errno = 0;
    uint64_t step = 0;
    TRY(cursor_u8(c, &version, err));
    TRY(cursor_u8(c, &status, err));
    TRY(cursor_u32le(c, &system_errno, err));
    TRY(cursor_u64le(c, &step, err));
    TRY(cursor_u8(c, &has_range, err));
    TRY(cursor_u64le(c, &story->offset, err));
    TRY(cursor_u64le(c, &story->length, err));
    if (version != STORY_VERSION) {
        return wire_damaged(c, "its version is unknown", err);
    }
    if (status == PAWL_OK || status > STATUS_LAST || has_range > 1 ||
        system_errno > STORY_MAX_ERRNO || (step > INT64_MAX && step != UINT64_MAX)) {
        return wire_damaged(c, "no failure has such numbers", err);
    }
    story->status = (pawl_status)status;
    story->system_errno = (int)system_errno;
    story->step = step > INT64_MAX ? -1 : (int64_t)step;
    story->has_range = has_range != 0;
    return PAWL_OK;
}

pawl_status story_decode(const void *bytes, size_t n, pawl_error *story, pawl_error *err) {
    struct pawl_error told = ERROR_INIT;
    cursor c = cursor_of(bytes, n, 0, "story of another rank");
    TRY(take_numbers(&c, &told, err));
    for (size_t i = 0; i < ARRAY_LENGTH(parts); i++) {
        TRY(wire_take_text(&c, (char *)&told + parts[i].at, parts[i].size, err));
    }
    if (cursor_left(&c) != 0) {
        return wire_damaged(&c, "more follows its end", err);
    }
    *story = told;
    return PAWL_OK;
}

void story_of_rank(pawl_error *story, int rank, const char *host) {
    if (host != NULL && host[0] != '\0') {
        error_wrap(story, "rank %d (host %s)", rank, host);
    } else {
        error_wrap(story, "rank %d", rank);
    }
}
