/* SPDX-License-Identifier: Apache-2.0 */
#include "match/numbers.h"

#include <string.h>

#define MAX_DIGITS  9    /* longer runs of digits are text */
#define PLACEHOLDER '\1' /* where digits stood inside a component */

static bool is_number_digit(char c) {
    return c >= '0' && c <= '9';
}

static void append_number(numbers *out, const char *name, size_t begin, size_t end, size_t digits) {
    uint32_t value = 0;
    for (size_t i = digits; i < end; i++) {
        value = value * 10 + (uint32_t)(name[i] - '0');
    }
    out->value[out->count] = value;
    out->begin[out->count] = (uint16_t)begin;
    out->end[out->count] = (uint16_t)end;
    out->given[out->count] = end > begin;
    out->count++;
}

/* Where the number at the component's end begins, with its '_'; `end` when there is none. */
static size_t suffix_of(const char *name, size_t begin, size_t end) {
    size_t at = end;
    while (at > begin && is_number_digit(name[at - 1])) {
        at--;
    }
    bool is_number = at < end && end - at <= MAX_DIGITS && at > begin + 1 && name[at - 1] == '_';
    return is_number ? at - 1 : end;
}

/* Writes one component up to its suffix, a placeholder for each number. Returns the bytes
 * written. */
static size_t mask_component(const char *name, size_t begin, size_t end, char *mask, numbers *out) {
    size_t length = 0;
    for (size_t i = begin; i < end;) {
        size_t stop = i;
        while (stop < end && is_number_digit(name[stop])) {
            stop++;
        }
        if (stop > i && stop - i <= MAX_DIGITS && out->count < NUMBERS_MAX) {
            append_number(out, name, i, stop, i);
            mask[length++] = PLACEHOLDER;
            i = stop;
            continue;
        }
        stop = stop > i ? stop : i + 1;
        memcpy(mask + length, name + i, stop - i);
        length += stop - i;
        i = stop;
    }
    return length;
}

void numbers_read(const char *name, char mask[PAWL_MAX_NAME_BYTES + 1], numbers *out) {
    size_t length = 0;
    out->count = 0;
    for (size_t begin = 0;; begin++) {
        size_t end = begin + strcspn(name + begin, "/");
        size_t suffix = suffix_of(name, begin, end);
        length += mask_component(name, begin, suffix, mask + length, out);
        if (out->count < NUMBERS_MAX) {
            append_number(out, name, suffix, end, suffix < end ? suffix + 1 : end);
        } else {
            memcpy(mask + length, name + suffix, end - suffix);
            length += end - suffix;
        }
        if (name[end] == '\0') {
            break;
        }
        mask[length++] = '/';
        begin = end;
    }
    mask[length] = '\0';
}

int numbers_compare(const numbers *a, const numbers *b) {
    for (int i = 0; i < a->count && i < b->count; i++) {
        if (a->value[i] != b->value[i]) {
            return a->value[i] < b->value[i] ? -1 : 1;
        }
    }
    return (a->count > b->count) - (a->count < b->count);
}

int numbers_first_difference(const numbers *a, const numbers *b) {
    for (int i = 0; i < a->count && i < b->count; i++) {
        if (a->value[i] != b->value[i]) {
            return i;
        }
    }
    return -1;
}

static int next_given(const numbers *n, int i) {
    while (i < n->count && !n->given[i]) {
        i++;
    }
    return i;
}

bool numbers_same_given(const numbers *a, const numbers *b) {
    int i = next_given(a, 0);
    int k = next_given(b, 0);
    while (i < a->count && k < b->count && a->value[i] == b->value[k]) {
        i = next_given(a, i + 1);
        k = next_given(b, k + 1);
    }
    return i == a->count && k == b->count;
}

bool numbers_in_unit(const char *name, const char *of, const numbers *n, int i) {
    size_t length = n->end[i];
    if (strncmp(name, of, length) != 0) {
        return false;
    }
    return n->given[i] ? !is_number_digit(name[length])
                       : name[length] == '\0' || name[length] == '/';
}
