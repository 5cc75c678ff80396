/* SPDX-License-Identifier: Apache-2.0 */
/*
 * name: names of a run's directories and files. A name is ours only if it is exactly what the
 * functions here would have made; anything else is foreign and never touched.
 */
#include "format/format.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ATTEMPT_CHARS 12
#define STEP_PREFIX   "step-"
#define DATA_PREFIX   "data-"
#define DATA_SUFFIX   ".safetensors"
#define INDEX_PREFIX  "index-"
#define READER_PREFIX "reader-"

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_hex(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'f');
}

/* Passes `prefix`; false when the text does not begin with it. */
static bool pass(const char **text, const char *prefix) {
    size_t n = strlen(prefix);
    if (strncmp(*text, prefix, n) != 0) {
        return false;
    }
    *text += n;
    return true;
}

/* Passes a number of at least `least` digits, zero-padded no further than that. */
static bool pass_number(const char **text, size_t least, uint64_t limit, uint64_t *out) {
    const char *at = *text;
    uint64_t value = 0;
    for (; is_digit(*at); at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (value > (limit - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    size_t n = (size_t)(at - *text);
    if (n < least || (n > least && **text == '0')) {
        return false;
    }
    *text = at;
    *out = value;
    return true;
}

void name_step(char out[32], int64_t step) {
    (void)snprintf(out, 32, STEP_PREFIX "%08" PRId64, step);
}

bool name_step_parse(const char *name, int64_t *step) {
    uint64_t value = 0;
    if (!pass(&name, STEP_PREFIX) || !pass_number(&name, 8, INT64_MAX, &value) || *name != '\0') {
        return false;
    }
    *step = (int64_t)value;
    return true;
}

void name_data(char out[80], const char *tag, uint32_t number, uint32_t of) {
    (void)snprintf(out, 80, DATA_PREFIX "%s-%05" PRIu32 "-of-%05" PRIu32 DATA_SUFFIX, tag, number,
                   of);
}

void name_index(char out[80], const char *tag) {
    (void)snprintf(out, 80, INDEX_PREFIX "%s", tag);
}

/* "7f3a9c21e04b-1" */
static bool pass_tag(const char **text, char tag[FORMAT_TAG_CHARS]) {
    const char *begin = *text;
    uint64_t number = 0;
    for (int i = 0; i < ATTEMPT_CHARS; i++) {
        if (!is_hex(begin[i])) {
            return false;
        }
    }
    *text += ATTEMPT_CHARS;
    if (!pass(text, "-") || !pass_number(text, 1, UINT32_MAX, &number)) {
        return false;
    }
    size_t n = (size_t)(*text - begin);
    memcpy(tag, begin, n);
    tag[n] = '\0';
    return true;
}

static bool is_data_name(const char *name, char tag[FORMAT_TAG_CHARS]) {
    uint64_t number = 0, of = 0;
    return pass(&name, DATA_PREFIX) && pass_tag(&name, tag) && pass(&name, "-") &&
           pass_number(&name, 5, FORMAT_MAX_FILES, &number) && pass(&name, "-of-") &&
           pass_number(&name, 5, FORMAT_MAX_FILES, &of) && number < of &&
           strcmp(name, DATA_SUFFIX) == 0;
}

static bool is_index_name(const char *name, char tag[FORMAT_TAG_CHARS]) {
    return pass(&name, INDEX_PREFIX) && pass_tag(&name, tag) && *name == '\0';
}

void name_manifest_tmp(char out[80], const char *tag) {
    (void)snprintf(out, 80, NAME_MANIFEST ".%s.tmp", tag);
}

static bool is_manifest_tmp_name(const char *name, char tag[FORMAT_TAG_CHARS]) {
    return pass(&name, NAME_MANIFEST ".") && pass_tag(&name, tag) && strcmp(name, ".tmp") == 0;
}

/* reader-<id>: letters, digits and '-'. */
static bool is_reader_name(const char *name) {
    if (!pass(&name, READER_PREFIX) || *name == '\0') {
        return false;
    }
    static const char allowed[] = "0123456789abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ-";
    return name[strspn(name, allowed)] == '\0';
}

name_kind name_classify(const char *name, char tag[FORMAT_TAG_CHARS]) {
    char found[FORMAT_TAG_CHARS] = "";
    name_kind kind = NAME_FOREIGN;
    if (strcmp(name, NAME_MANIFEST) == 0) {
        kind = NAME_KIND_MANIFEST;
    } else if (is_manifest_tmp_name(name, found)) {
        kind = NAME_KIND_MANIFEST_TMP;
    } else if (strcmp(name, "pinned") == 0) {
        kind = NAME_KIND_PINNED;
    } else if (is_reader_name(name)) {
        kind = NAME_KIND_READER;
    } else if (is_data_name(name, found)) {
        kind = NAME_KIND_DATA;
    } else if (is_index_name(name, found)) {
        kind = NAME_KIND_INDEX;
    }
    if (kind != NAME_KIND_DATA && kind != NAME_KIND_INDEX && kind != NAME_KIND_MANIFEST_TMP) {
        found[0] = '\0';
    }
    if (tag != NULL) {
        memcpy(tag, found, FORMAT_TAG_CHARS);
    }
    return kind;
}
