/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a file forwards, a window at a time. */
#include "foreign/gguf/scan.h"

static pawl_status too_short(const scan *s, uint64_t n, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "the file ends within its header");
    error_range(err, s->at, s->in.size - s->at);
    error_expected(err, "%llu bytes at byte %llu", (unsigned long long)n,
                   (unsigned long long)s->at);
    error_found(err, "%llu left", (unsigned long long)(s->in.size - s->at));
    error_next(err, "get the file again: it was cut off, or not copied to its end");
    return PAWL_EDAMAGED;
}

pawl_status scan_bytes(scan *s, size_t n, const uint8_t **out, pawl_error *err) {
    if (n > s->in.size - s->at) {
        return too_short(s, n, err);
    }
    if (s->at < s->window || s->at - s->window + n > s->in_window) {
        uint64_t left = s->in.size - s->at;
        s->window = s->at;
        s->in_window = left < SCAN_WINDOW ? (size_t)left : SCAN_WINDOW;
        TRY(s->in.read_at(s->in.context, s->window, s->bytes, s->in_window, err));
    }
    *out = s->bytes + (s->at - s->window);
    s->at += n;
    return PAWL_OK;
}

pawl_status scan_skip(scan *s, uint64_t n, pawl_error *err) {
    if (n > s->in.size - s->at) {
        return too_short(s, n, err);
    }
    s->at += n;
    return PAWL_OK;
}

pawl_status scan_u32(scan *s, uint32_t *out, pawl_error *err) {
    const uint8_t *bytes = NULL;
    TRY(scan_bytes(s, sizeof(*out), &bytes, err));
    cursor c = cursor_of(bytes, sizeof(*out), s->at, "number");
    return cursor_u32le(&c, out, err);
}

pawl_status scan_u64(scan *s, uint64_t *out, pawl_error *err) {
    const uint8_t *bytes = NULL;
    TRY(scan_bytes(s, sizeof(*out), &bytes, err));
    cursor c = cursor_of(bytes, sizeof(*out), s->at, "number");
    return cursor_u64le(&c, out, err);
}

pawl_status scan_text(scan *s, size_t limit, buffer *out, pawl_error *err) {
    uint64_t at = s->at;
    uint64_t n;
    TRY(scan_u64(s, &n, err));
    out->size = 0;
    if (n > s->in.size - s->at) {
        return too_short(s, n, err);
    }
    if (n > limit) {
        error_set(err, PAWL_ELIMIT, "a text in the header is too long");
        error_range(err, at, 8);
        error_expected(err, "at most %zu bytes", limit);
        error_found(err, "%llu bytes", (unsigned long long)n);
        return PAWL_ELIMIT;
    }
    for (size_t left = (size_t)n; left > 0;) {
        const uint8_t *bytes = NULL;
        size_t part = left < SCAN_WINDOW ? left : SCAN_WINDOW;
        TRY(scan_bytes(s, part, &bytes, err));
        TRY(buffer_append(out, bytes, part, err));
        left -= part;
    }
    return buffer_append(out, "", 0, err);
}
