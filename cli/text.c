/* SPDX-License-Identifier: Apache-2.0 */
/* Times, counts and shapes for people, and sizes from them. */
#include "text.h"
#include "memory.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define NS_PER_S INT64_C(1000000000)

bool text_parse_int(const char *text, int64_t *value) {
    int64_t sum = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++) {
        if (__builtin_mul_overflow(sum, 10, &sum) || __builtin_add_overflow(sum, *at - '0', &sum)) {
            return false;
        }
    }
    if (at == text || *at != '\0') {
        return false;
    }
    *value = sum;
    return true;
}

/* The factor of a unit such as "GB", "G" or "GiB"; 0 for anything else. */
static int64_t unit_factor(const char *unit) {
    static const char prefixes[] = "kMGTPE";
    if (*unit == '\0' || strcasecmp(unit, "B") == 0) {
        return 1;
    }
    const char *rest = unit + 1;
    bool binary = strcasecmp(rest, "iB") == 0 || strcasecmp(rest, "i") == 0;
    if (!binary && *rest != '\0' && strcasecmp(rest, "B") != 0) {
        return 0;
    }
    int64_t factor = 1;
    for (size_t i = 0; i < sizeof prefixes - 1; i++) {
        factor *= binary ? 1024 : 1000;
        if (strncasecmp(unit, &prefixes[i], 1) == 0) {
            return factor;
        }
    }
    return 0;
}

bool text_parse_bytes(const char *text, uint64_t *bytes) {
    char number[TEXT_SIZE];
    size_t digits = strspn(text, "0123456789."); /* strtod would take "inf", "0x1" and signs, too */
    if (digits == 0 || digits >= sizeof number) {
        return false;
    }
    memcpy(number, text, digits);
    number[digits] = '\0';
    int64_t factor = unit_factor(text + digits + strspn(text + digits, " "));
    int64_t whole = 0;
    if (text_parse_int(number, &whole)) {
        bool fits = !__builtin_mul_overflow(whole, factor, &whole) && whole >= 1;
        *bytes = fits ? (uint64_t)whole : 0;
        return fits;
    }
    char *end = NULL;
    double value = strtod(number, &end) * (double)factor;
    if (*end != '\0' || !(value >= 1) || value >= 0x1p63) {
        return false;
    }
    *bytes = (uint64_t)value;
    return true;
}

/* Whole seconds rounded down, so that times before 1970 are right as well. */
static time_t whole_seconds(int64_t unix_time_ns) {
    int64_t seconds = unix_time_ns / NS_PER_S;
    return (time_t)(unix_time_ns % NS_PER_S < 0 ? seconds - 1 : seconds);
}

const char *text_time_local(char out[TEXT_SIZE], int64_t unix_time_ns) {
    time_t seconds = whole_seconds(unix_time_ns);
    struct tm local;
    if (unix_time_ns == 0 || localtime_r(&seconds, &local) == NULL ||
        strftime(out, TEXT_SIZE, "%Y-%m-%d %H:%M:%S", &local) == 0) {
        snprintf(out, TEXT_SIZE, "-");
    }
    return out;
}

const char *text_time_utc(char out[TEXT_SIZE], int64_t unix_time_ns) {
    time_t seconds = whole_seconds(unix_time_ns);
    struct tm utc;
    char whole[TEXT_SIZE / 2];
    if (gmtime_r(&seconds, &utc) == NULL ||
        strftime(whole, sizeof whole, "%Y-%m-%dT%H:%M:%S", &utc) == 0) {
        snprintf(out, TEXT_SIZE, "-");
        return out;
    }
    int64_t rest = unix_time_ns % NS_PER_S;
    snprintf(out, TEXT_SIZE, "%s.%09" PRId64 "Z", whole, rest < 0 ? rest + NS_PER_S : rest);
    return out;
}

const char *text_duration(char out[TEXT_SIZE], double seconds) {
    double ms = seconds * 1e3;
    if (!(ms >= 0.005)) {
        snprintf(out, TEXT_SIZE, "0 ms");
    } else if (ms < 9.995) {
        snprintf(out, TEXT_SIZE, "%.2f ms", ms);
    } else if (ms < 999.5) {
        snprintf(out, TEXT_SIZE, "%.*f ms", ms < 99.95 ? 1 : 0, ms);
    } else if (seconds < 59.95) {
        snprintf(out, TEXT_SIZE, "%.*f s", seconds < 9.995 ? 2 : 1, seconds);
    } else if (seconds < 3599.5) {
        long whole = lround(seconds);
        snprintf(out, TEXT_SIZE, "%ld min %ld s", whole / 60, whole % 60);
    } else {
        double minutes = round((seconds < 1e15 ? seconds : 1e15) / 60);
        snprintf(out, TEXT_SIZE, "%.0f h %.0f min", floor(minutes / 60), fmod(minutes, 60));
    }
    return out;
}

const char *text_count(char out[TEXT_SIZE], uint64_t n, const char *one, const char *many) {
    snprintf(out, TEXT_SIZE, "%" PRIu64 " %s", n, text_noun(n, one, many));
    return out;
}

char *text_shape(int ndim, const int64_t *shape) {
    const size_t longest = sizeof "-9223372036854775808, ";
    size_t capacity = (size_t)ndim * longest + sizeof "[]";
    char *out = must_alloc(capacity);
    size_t at = 0;
    out[at++] = '[';
    for (int i = 0; i < ndim; i++) {
        at += (size_t)snprintf(out + at, capacity - at, "%s%" PRId64, i > 0 ? ", " : "", shape[i]);
    }
    out[at] = ']';
    return out;
}

const char *text_nearest(const char *word, const char *const *words) {
    const char *nearest = NULL;
    size_t best = strlen(word) / 2 + 1; /* up to half of the word may be wrong */
    for (; *words != NULL; words++) {
        size_t d = text_distance(word, *words);
        if (d < best) {
            best = d;
            nearest = *words;
        }
    }
    return nearest;
}
