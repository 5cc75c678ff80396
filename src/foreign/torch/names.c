/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of dicts as components of names. */
#include "foreign/torch/names.h"
#include "foreign/torch/keys.h"
#include "foreign/torch/object.h"

#include <string.h>

static pawl_status put_escaped(buffer *out, char first, pawl_error *err) {
    return buffer_printf(out, err, "%%%02X", (unsigned)(uint8_t)first);
}

static pawl_status name_text(pickle_text text, bool whole, buffer *out, pawl_error *err) {
    CLEANUP(arena_free) arena memory = {0};
    const char *escaped;
    bool first =
        whole || torch_is_integer(text.bytes, text.n) || torch_is_other(text.bytes, text.n);
    TRY(escape_key(&memory, text.bytes, text.n, &escaped, err));
    if (first && text.n > 0 && escaped[0] != '%' && (uint8_t)escaped[0] < 0x80) {
        TRY(put_escaped(out, escaped[0], err));
        escaped++;
    }
    return buffer_append(out, escaped, strlen(escaped), err);
}

pawl_status torch_name_key(const pickle_node *key, bool whole, buffer *out, uint64_t *visits,
                           pawl_error *err) {
    CLEANUP(buffer_free) buffer text = {0};
    CLEANUP(arena_free) arena memory = {0};
    const char *escaped;
    if (key->kind == PICKLE_TEXT) {
        return name_text(key->text, whole, out, err);
    }
    bool fits;
    TRY(buffer_append(&text, "$", 1, err));
    TRY(torch_put_json(key, PAWL_MAX_NAME_BYTES, &text, &fits, visits, err));
    if (!fits) {
        error_set(err, PAWL_EUNSUPPORTED,
                  "the name of a value is too long, at byte %u of the pickle", key->at);
        error_expected(err, "at most %d bytes", PAWL_MAX_NAME_BYTES);
        return PAWL_EUNSUPPORTED;
    }
    const char *name = (const char *)text.data;
    if (torch_is_integer(name + 1, text.size - 1)) {
        return buffer_append(out, name + 1, text.size - 1, err);
    }
    TRY(escape_key(&memory, name, text.size, &escaped, err));
    return buffer_append(out, escaped, strlen(escaped), err);
}
