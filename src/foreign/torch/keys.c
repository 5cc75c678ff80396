/* SPDX-License-Identifier: Apache-2.0 */
/* What components of names stand for. */
#include "foreign/torch/keys.h"
#include "base/json.h"
#include "foreign/archive.h"
#include "foreign/pickle/write.h"
#include "foreign/torch/value.h"

#include <string.h>

#define MOST_DIGITS 600u /* what an integer of 255 bytes may have, and more is no integer */

/* ---- what a text looks like ------------------------------------------------------------------ */

bool torch_is_integer(const char *text, size_t n) {
    size_t i = n > 1 && text[0] == '-' ? 1 : 0;
    if (i == n || n > MOST_DIGITS || (text[i] == '0' && n > 1)) {
        return false;
    }
    for (; i < n; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
    }
    return true;
}

bool torch_is_other(const char *text, size_t n) {
    json_reader r = json_reader_of(text + 1, n > 0 ? n - 1 : 0);
    json_span all;
    if (n < 2 || text[0] != '$' || text[1] == '[' || text[1] == '"' || text[1] == ' ') {
        return false;
    }
    r.nul = true;
    return (text[1] != '{' || (n > 4 && memcmp(text + 1, "{\"$\"", 4) == 0)) &&
           json_skip(&r, &all) == PAWL_OK && json_end(&r) == PAWL_OK && all.n == n - 1;
}

/* ---- writing --------------------------------------------------------------------------------- */

static int byte_at(const char *name, size_t n, size_t at) {
    return at < n ? escaped_byte(name + at, n - at) : -1;
}

/* A character of ASCII, or of C1, which has two bytes. */
static size_t unescape(char *name, size_t n) {
    size_t at = 0;
    if (n == 1 && name[0] == '%') {
        return 0;
    }
    for (size_t i = 0; i < n;) {
        int byte = byte_at(name, n, i);
        int next = byte == 0xc2 ? byte_at(name, n, i + 3) : -1;
        if (byte >= 0 && byte < 0x80) {
            name[at++] = (char)byte;
            i += 3;
        } else if (next >= 0x80 && next < 0xc0) {
            name[at++] = (char)byte;
            name[at++] = (char)next;
            i += 6;
        } else {
            name[at++] = name[i++];
        }
    }
    return at;
}

torch_key torch_key_of(char *component, size_t *n) {
    bool marked = *n > 0 && component[0] == '$';
    if (torch_is_integer(component, *n)) {
        return TORCH_KEY_INTEGER;
    }
    *n = unescape(component, *n);
    return marked && torch_is_other(component, *n) ? TORCH_KEY_OTHER : TORCH_KEY_TEXT;
}

pawl_status torch_put_key(buffer *pickle, const char *component, size_t n, pawl_error *err) {
    char key[PAWL_MAX_NAME_BYTES + 1];
    memcpy(key, component, n);
    torch_key kind = torch_key_of(key, &n);
    if (kind == TORCH_KEY_INTEGER) {
        return pickle_json_scalar(pickle, (json_span){key, n}, err);
    }
    if (kind == TORCH_KEY_OTHER && torch_json_is_exact(key + 1, n - 1)) {
        return torch_put_python(pickle, key + 1, n - 1, err);
    }
    return pickle_text(pickle, key, n, err);
}
