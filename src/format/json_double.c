/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a number of JSON rounds to a double, without rounding it: for formats whose other readers
 * refuse what does not. */
#include "format/json_read.h"

#include <string.h>

/* 2^1024 - 2^970, halfway between the largest double and what would come next: from here on there
 * is none. */
static const char halfway[] =
    "1797693134862315807937289714053034150799341327100378269361737789804449682927647509466490"
    "1797758720709633028641669288791094655554785194040263065748867150582068190890200070838367"
    "6273854845817711531764475730270069855571366959622842914819860834936475292719074168444365"
    "510704342711559699508093042880177904174497792";
#define HALFWAY_POWER 308 /* of ten, of its first digit */

/* The number after 'e', cut off far beyond what decides. */
static int64_t exponent_of(const char *text, size_t n) {
    int64_t value = 0;
    bool negative = n > 0 && *text == '-';
    for (size_t i = 0; i < n; i++) {
        if (text[i] >= '0' && text[i] <= '9' && value < INT64_MAX / 16) {
            value = value * 10 + (text[i] - '0');
        }
    }
    return negative ? -value : value;
}

/* Is what these digits begin with less than halfway, both with one digit before the point? */
static bool is_below_halfway(const char *digits, size_t n) {
    size_t k = 0;
    for (size_t i = 0; i < n && halfway[k] != '\0'; i++) {
        if (digits[i] != '.') {
            if (digits[i] != halfway[k]) {
                return digits[i] < halfway[k];
            }
            k++;
        }
    }
    return halfway[k] != '\0';
}

bool json_number_rounds(const char *text, size_t n) {
    size_t sign = n > 0 && *text == '-';
    const char *at = text + sign;
    size_t length = 0; /* without the exponent */
    while (sign + length < n && at[length] != 'e' && at[length] != 'E') {
        length++;
    }
    const char *point = memchr(at, '.', length);
    size_t whole = point != NULL ? (size_t)(point - at) : length;
    size_t first = 0;
    while (first < length && (at[first] == '0' || at[first] == '.')) {
        first++;
    }
    if (first == length) {
        return true; /* zero */
    }
    size_t behind = sign + length < n ? sign + length + 1 : n; /* the 'e' */
    int64_t power = exponent_of(text + behind, n - behind) + (int64_t)whole - (int64_t)first;
    power -= first < whole; /* of the first digit that is not zero */
    return power < HALFWAY_POWER ||
           (power == HALFWAY_POWER && is_below_halfway(at + first, length - first));
}
