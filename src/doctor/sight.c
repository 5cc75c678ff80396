/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one rank sees of a path, as bytes:
 *
 *   u8 version, u8 flags (1 whole, 2 saw, 4 wrote), u64le pid, then each text: varint bytes, UTF-8
 */
#include "doctor/sight.h"

#include "ranks/wire.h"

#include <string.h>

#define SIGHT_VERSION 1
#define FLAG_WHOLE    1
#define FLAG_SAW      2
#define FLAG_WROTE    4

typedef struct sight_text {
    size_t at, size;
} sight_text;

#define TEXT(name)                                                                                 \
    { offsetof(sight, name), sizeof(((sight *)0)->name) }

static const sight_text texts[] = {TEXT(host),       TEXT(given),      TEXT(here),  TEXT(place),
                                   TEXT(nearest),    TEXT(filesystem), TEXT(point), TEXT(source),
                                   TEXT(trouble_id), TEXT(trouble)};
/* The first byte of a length takes the place of the NUL; there may be a second one. */
_Static_assert(sizeof(sight) + ARRAY_LENGTH(texts) + 2 <= SIGHT_BYTES, "the longest sight fits");

pawl_status sight_encode(const sight *s, buffer *out, pawl_error *err) {
    const uint8_t head[] = {SIGHT_VERSION,
                            (uint8_t)((s->whole ? FLAG_WHOLE : 0) | (s->saw ? FLAG_SAW : 0) |
                                      (s->wrote ? FLAG_WROTE : 0))};
    TRY(buffer_append(out, head, sizeof(head), err));
    TRY(buffer_u64le(out, (uint64_t)s->pid, err));
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
        TRY(wire_put_text(out, (const char *)s + texts[i].at, texts[i].size - 1, err));
    }
    return PAWL_OK;
}

pawl_status sight_decode(const void *bytes, size_t n, sight *out, pawl_error *err) {
    cursor c = cursor_of(bytes, n, 0, "sight of another rank");
    uint8_t version = 0;
    uint8_t flags = 0;
    uint64_t pid = 0;
    *out = (sight){.pid = 0};
    TRY(cursor_u8(&c, &version, err));
    TRY(cursor_u8(&c, &flags, err));
    TRY(cursor_u64le(&c, &pid, err));
    if (version != SIGHT_VERSION || flags > (FLAG_WHOLE | FLAG_SAW | FLAG_WROTE) ||
        pid > INT32_MAX) {
        return wire_damaged(&c, "unknown version, flags or process number", err);
    }
    out->pid = (int64_t)pid;
    out->whole = (flags & FLAG_WHOLE) != 0;
    out->saw = (flags & FLAG_SAW) != 0;
    out->wrote = (flags & FLAG_WROTE) != 0;
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
        TRY(wire_take_text(&c, (char *)out + texts[i].at, texts[i].size, err));
    }
    return cursor_left(&c) == 0 ? PAWL_OK : wire_damaged(&c, "more follows its end", err);
}
