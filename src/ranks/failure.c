/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A failure that one rank tells the others: all that an error has, as bytes.
 *
 *   u8 version, u8 status, u32le errno, u64le step, u8 has_range, u64le offset, u64le length,
 *   then each text: varint bytes, UTF-8
 */
#include "ranks/ranks.h"
#include "ranks/wire.h"

#include <string.h>

#define FAILURE_VERSION   1
#define FAILURE_OVERHEAD  64u /* all but the texts */
#define FAILURE_MIN_LIMIT 256u
#define FAILURE_MAX_ERRNO 4095u

typedef struct text_part {
    size_t at, size;
} text_part;

#define PART(name)                                                                                 \
    { offsetof(struct pawl_error, name), sizeof(((struct pawl_error *)0)->name) }

static const text_part parts[] = {PART(attempt), PART(path),   PART(entry), PART(expected),
                                  PART(found),   PART(system), PART(safe),  PART(next)};

static size_t texts_bytes(const pawl_error *failed, size_t most) {
    size_t sum = 0;
    for (size_t i = 0; i < ARRAY_LENGTH(parts); i++) {
        size_t n = strlen((const char *)failed + parts[i].at);
        sum += n < most ? n : most;
    }
    return sum;
}

/* The longest texts are cut first. */
static size_t longest_text(const pawl_error *failed, size_t room) {
    size_t most = sizeof failed->attempt;
    while (texts_bytes(failed, most) > room) {
        most--;
    }
    return most;
}

pawl_status failure_encode(const pawl_error *failed, size_t limit, buffer *out, pawl_error *err) {
    if (limit < FAILURE_MIN_LIMIT) {
        return error_set(err, PAWL_ELIMIT, "a failure does not fit into %zu bytes", limit);
    }
    if (failed->status <= PAWL_OK || failed->status > STATUS_LAST) {
        return error_set(err, PAWL_EINTERNAL, "no failure has the status %d", (int)failed->status);
    }
    size_t most = longest_text(failed, limit - FAILURE_OVERHEAD);
    const uint8_t head[] = {FAILURE_VERSION, (uint8_t)failed->status};
    /* An errno out of range is left out: the rest of the failure is worth sending. */
    uint32_t system_errno = (uint32_t)failed->system_errno;
    uint64_t step = failed->step < 0 ? UINT64_MAX : (uint64_t)failed->step;
    TRY(buffer_append(out, head, sizeof head, err));
    TRY(buffer_u32le(out, system_errno <= FAILURE_MAX_ERRNO ? system_errno : 0, err));
    TRY(buffer_u64le(out, step, err));
    TRY(buffer_append(out, &(const uint8_t){failed->has_range}, 1, err));
    TRY(buffer_u64le(out, failed->offset, err));
    TRY(buffer_u64le(out, failed->length, err));
    for (size_t i = 0; i < ARRAY_LENGTH(parts); i++) {
        TRY(wire_put_text(out, (const char *)failed + parts[i].at, most, err));
    }
    return PAWL_OK;
}

static pawl_status read_numbers(cursor *c, pawl_error *failed, pawl_error *err) {
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
    TRY(cursor_u64le(c, &failed->offset, err));
    TRY(cursor_u64le(c, &failed->length, err));
    if (version != FAILURE_VERSION) {
        return wire_damaged(c, "unknown version", err);
    }
    if (status == PAWL_OK || status > STATUS_LAST || has_range > 1 ||
        system_errno > FAILURE_MAX_ERRNO || (step > INT64_MAX && step != UINT64_MAX)) {
        return wire_damaged(c, "a number is out of range", err);
    }
    failed->status = (pawl_status)status;
    failed->system_errno = (int)system_errno;
    failed->step = step > INT64_MAX ? -1 : (int64_t)step;
    failed->has_range = has_range != 0;
    return PAWL_OK;
}

pawl_status failure_decode(const void *bytes, size_t n, pawl_error *failed, pawl_error *err) {
    struct pawl_error read = ERROR_INIT;
    cursor c = cursor_of(bytes, n, 0, "failure of another rank");
    TRY(read_numbers(&c, &read, err));
    for (size_t i = 0; i < ARRAY_LENGTH(parts); i++) {
        TRY(wire_take_text(&c, (char *)&read + parts[i].at, parts[i].size, err));
    }
    if (cursor_left(&c) != 0) {
        return wire_damaged(&c, "more follows its end", err);
    }
    *failed = read;
    return PAWL_OK;
}
