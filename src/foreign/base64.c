/* SPDX-License-Identifier: Apache-2.0 */
/* Base64, as bytes are in JSON. */
#include "foreign/base64.h"

pawl_status base64_put(buffer *json, const uint8_t *bytes, size_t n, pawl_error *err) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    TRY(buffer_append(json, "\"", 1, err));
    for (size_t i = 0; i < n; i += 3) {
        uint32_t left = n - i < 3 ? (uint32_t)(n - i) : 3;
        uint32_t v = (uint32_t)bytes[i] << 16 | (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                     (left > 2 ? (uint32_t)bytes[i + 2] : 0);
        char four[4] = {digits[v >> 18], digits[v >> 12 & 63u], '=', '='};
        if (left > 1) {
            four[2] = digits[v >> 6 & 63u];
        }
        if (left > 2) {
            four[3] = digits[v & 63u];
        }
        TRY(buffer_append(json, four, sizeof(four), err));
    }
    return buffer_append(json, "\"", 1, err);
}

static int digit_of(char c) {
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }
    if (c >= 'a' && c <= 'z') {
        return c - 'a' + 26;
    }
    if (c >= '0' && c <= '9') {
        return c - '0' + 52;
    }
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool base64_take(json_span text, uint8_t *out, size_t *n) {
    size_t padding = 0;
    *n = 0;
    if (text.n % 4 != 0) {
        return false;
    }
    while (padding < 2 && padding < text.n && text.text[text.n - 1 - padding] == '=') {
        padding++;
    }
    for (size_t i = 0; i < text.n; i += 4) {
        uint32_t v = 0;
        size_t digits = i + 4 < text.n ? 4 : 4 - padding;
        for (size_t k = 0; k < 4; k++) {
            int digit = k < digits ? digit_of(text.text[i + k]) : 0;
            if (digit < 0) {
                return false;
            }
            v = v << 6 | (uint32_t)digit;
        }
        for (size_t k = 0; k + 1 < digits; k++) {
            out[(*n)++] = (uint8_t)(v >> (16 - 8 * k));
        }
    }
    return true;
}
