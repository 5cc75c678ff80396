/* SPDX-License-Identifier: Apache-2.0 */
/* Texts and identities in what ranks tell each other. */
#include "ranks/wire.h"

#include <string.h>

#define WIRE_MAX_TEXT ((size_t)1024)

pawl_status wire_damaged(const cursor *c, const char *why, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "the %s is damaged: %s", c->what, why);
    error_range(err, c->base + c->at, cursor_left(c));
    return PAWL_EDAMAGED;
}

pawl_status wire_put_text(buffer *out, const char *text, size_t limit, pawl_error *err) {
    char copy[WIRE_MAX_TEXT];
    size_t most = limit < sizeof copy ? limit + 1 : sizeof copy;
    size_t n = strnlen(text, most);
    memcpy(copy, text, n < most ? n + 1 : n);
    if (n == most) {
        text_cut(copy, most);
    }
    n = strlen(copy);
    for (size_t i = 0; i < n;) {
        size_t length = utf8_character(copy + i, n - i);
        if (length == 0) {
            copy[i] = '?';
        }
        i += length > 0 ? length : 1;
    }
    TRY(buffer_varint(out, n, err));
    return buffer_append(out, copy, n, err);
}

pawl_status wire_take_text(cursor *c, char *to, size_t size, pawl_error *err) {
    uint32_t n = 0;
    const uint8_t *bytes = NULL;
    TRY(cursor_varint32(c, &n, err));
    if (n >= size) {
        return wire_damaged(c, "a text is longer than it can be", err);
    }
    TRY(cursor_bytes(c, n, &bytes, err));
    if (memchr(bytes, 0, n) != NULL || !utf8_valid((const char *)bytes, n)) {
        return wire_damaged(c, "a text is no UTF-8", err);
    }
    memcpy(to, bytes, n);
    to[n] = '\0';
    return PAWL_OK;
}

pawl_status wire_put_identity(buffer *out, const process_identity *who, pawl_error *err) {
    TRY(wire_put_text(out, who->host, sizeof who->host - 1, err));
    TRY(wire_put_text(out, who->boot_id, sizeof who->boot_id - 1, err));
    TRY(wire_put_text(out, who->pid_namespace, sizeof who->pid_namespace - 1, err));
    TRY(wire_put_text(out, who->time_namespace, sizeof who->time_namespace - 1, err));
    TRY(buffer_u64le(out, (uint64_t)who->pid, err));
    return buffer_u64le(out, who->start_ticks, err);
}

pawl_status wire_take_identity(cursor *c, process_identity *who, pawl_error *err) {
    uint64_t pid = 0;
    TRY(wire_take_text(c, who->host, sizeof who->host, err));
    TRY(wire_take_text(c, who->boot_id, sizeof who->boot_id, err));
    TRY(wire_take_text(c, who->pid_namespace, sizeof who->pid_namespace, err));
    TRY(wire_take_text(c, who->time_namespace, sizeof who->time_namespace, err));
    TRY(cursor_u64le(c, &pid, err));
    if (pid > INT32_MAX) {
        return wire_damaged(c, "no process has such a number", err);
    }
    who->pid = (int64_t)pid;
    return cursor_u64le(c, &who->start_ticks, err);
}
