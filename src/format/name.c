/* SPDX-License-Identifier: Apache-2.0 */
/*
 * name: names of a run's directories and files. A name is ours only if it is exactly what the
 * functions here would have made; anything else is foreign and never touched.
 */
#include "format/format.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ATTEMPT_CHARS    12
#define STEP_PREFIX      "step-"
#define DATA_PREFIX      "data-"
#define DATA_SUFFIX      ".safetensors"
#define INDEX_PREFIX     "index-"
#define READER_PREFIX    "reader-"
#define OWNER_PREFIX     "owner-"
#define VOTE_PREFIX      "vote-"
#define OUTCOME_PREFIX   "outcome-"
#define STRUCTURE_PREFIX "structure-"
#define MEET_PREFIX      "meet-"
#define VISIT_PREFIX     "visit-"
#define PROBE_PREFIX     ".pawl-probe-"
#define DOCTOR_PREFIX    ".pawl-doctor-"
#define PROBE_CHARS      16
#define TEMPORARY_SUFFIX ".tmp" /* of what is published by a rename */

static bool is_decimal_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_hex(char c) {
    return is_decimal_digit(c) || (c >= 'a' && c <= 'f');
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
    for (; is_decimal_digit(*at); at++) {
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

/* "-r00003"; nothing for a process alone. */
static const char *rank_part(char out[16], int rank) {
    out[0] = '\0';
    if (rank >= 0) {
        (void)snprintf(out, 16, "-r%05d", rank);
    }
    return out;
}

void name_data(char out[80], const char *tag, int rank, uint32_t number, uint32_t of) {
    char part[16];
    (void)snprintf(out, 80, DATA_PREFIX "%s%s-%05" PRIu32 "-of-%05" PRIu32 DATA_SUFFIX, tag,
                   rank_part(part, rank), number, of);
}

void name_vote(char out[80], const char *tag, int rank) {
    char part[16];
    (void)snprintf(out, 80, VOTE_PREFIX "%s%s", tag, rank_part(part, rank));
}

void name_index(char out[80], const char *tag) {
    (void)snprintf(out, 80, INDEX_PREFIX "%s", tag);
}

static bool pass_hex(const char **text, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (!is_hex((*text)[i])) {
            return false;
        }
    }
    *text += n;
    return true;
}

/* "-r00003"; false where that is not what follows. */
static bool pass_rank(const char **text, int *rank) {
    const char *at = *text;
    uint64_t value = 0;
    if (!pass(&at, "-r") || !pass_number(&at, 5, PAWL_MAX_RANKS - 1, &value)) {
        return false;
    }
    *text = at;
    *rank = (int)value;
    return true;
}

/* "7f3a9c21e04b-1" */
static bool pass_tag(const char **text, char tag[FORMAT_TAG_CHARS]) {
    const char *begin = *text;
    uint64_t number = 0;
    if (!pass_hex(text, ATTEMPT_CHARS) || !pass(text, "-") ||
        !pass_number(text, 1, UINT32_MAX, &number)) {
        return false;
    }
    size_t n = (size_t)(*text - begin);
    memcpy(tag, begin, n);
    tag[n] = '\0';
    return true;
}

bool name_data_parse(const char *name, char tag[FORMAT_TAG_CHARS], int *rank, uint32_t *number,
                     uint32_t *of) {
    uint64_t first = 0;
    uint64_t second = 0;
    *rank = -1;
    if (!pass(&name, DATA_PREFIX) || !pass_tag(&name, tag) ||
        (strncmp(name, "-r", 2) == 0 && !pass_rank(&name, rank)) || !pass(&name, "-") ||
        !pass_number(&name, 5, FORMAT_MAX_FILES, &first) || !pass(&name, "-of-") ||
        !pass_number(&name, 5, FORMAT_MAX_FILES, &second)) {
        return false;
    }
    *number = (uint32_t)first;
    *of = (uint32_t)second;
    return first < second && strcmp(name, DATA_SUFFIX) == 0;
}

static bool is_data_name(const char *name, char tag[FORMAT_TAG_CHARS]) {
    int rank = 0;
    uint32_t number = 0;
    uint32_t of = 0;
    return name_data_parse(name, tag, &rank, &number, &of);
}

static bool is_end(const char *text) {
    return *text == '\0' || strcmp(text, TEMPORARY_SUFFIX) == 0;
}

static bool pass_vote(const char **name, char tag[FORMAT_TAG_CHARS], int *rank) {
    return pass(name, VOTE_PREFIX) && pass_tag(name, tag) && pass_rank(name, rank);
}

bool name_vote_parse(const char *name, char tag[FORMAT_TAG_CHARS], int *rank) {
    return pass_vote(&name, tag, rank) && *name == '\0';
}

static bool is_vote_name(const char *name, char tag[FORMAT_TAG_CHARS]) {
    int rank = 0;
    return pass_vote(&name, tag, &rank) && is_end(name);
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
    } else if (strcmp(name, NAME_REMOVING) == 0) {
        kind = NAME_KIND_REMOVING;
    } else if (is_reader_name(name)) {
        kind = NAME_KIND_READER;
    } else if (is_data_name(name, found)) {
        kind = NAME_KIND_DATA;
    } else if (is_index_name(name, found)) {
        kind = NAME_KIND_INDEX;
    } else if (is_vote_name(name, found)) {
        kind = NAME_KIND_VOTE;
    }
    if (kind != NAME_KIND_DATA && kind != NAME_KIND_INDEX && kind != NAME_KIND_MANIFEST_TMP &&
        kind != NAME_KIND_VOTE) {
        found[0] = '\0';
    }
    if (tag != NULL) {
        memcpy(tag, found, FORMAT_TAG_CHARS);
    }
    return kind;
}

/* ---- what ranks leave in the run's directory ------------------------------------------------ */

void name_outcome(char out[80], const char *tag) {
    (void)snprintf(out, 80, OUTCOME_PREFIX "%s", tag);
}

void name_structure(char out[80], const char *attempt, uint32_t crc32c, uint64_t bytes) {
    (void)snprintf(out, 80, STRUCTURE_PREFIX "%s-%08" PRIx32 "-%" PRIu64, attempt, crc32c, bytes);
}

static void name_card(char out[80], const char *prefix, const char *key, uint64_t number,
                      int rank) {
    char part[16];
    (void)snprintf(out, 80, "%s%s-%" PRIu64 "%s", prefix, key, number,
                   rank < 0 ? "-answer" : rank_part(part, rank));
}

void name_meet(char out[80], const char *key, uint64_t number, int rank) {
    name_card(out, MEET_PREFIX, key, number, rank);
}

void name_visit(char out[80], const char *key, uint64_t number, int rank) {
    name_card(out, VISIT_PREFIX, key, number, rank);
}

void name_doctor(char out[80], const char *digits, int rank) {
    char part[16] = "";
    if (rank >= 0) {
        (void)snprintf(part, sizeof part, "-r%d", rank); /* not padded, unlike everywhere else */
    }
    (void)snprintf(out, 80, DOCTOR_PREFIX "%s%s", digits, part);
}

static bool pass_key(const char **text, char tag[FORMAT_TAG_CHARS]) {
    memcpy(tag, *text, strnlen(*text, ATTEMPT_CHARS));
    tag[ATTEMPT_CHARS] = '\0';
    return pass_hex(text, ATTEMPT_CHARS);
}

static bool is_outcome_name(const char *name, char tag[FORMAT_TAG_CHARS]) {
    return pass(&name, OUTCOME_PREFIX) && pass_tag(&name, tag) && is_end(name);
}

static bool is_structure_name(const char *name, char tag[FORMAT_TAG_CHARS]) {
    uint64_t bytes = 0;
    return pass(&name, STRUCTURE_PREFIX) && pass_key(&name, tag) && pass(&name, "-") &&
           pass_hex(&name, 8) && pass(&name, "-") && pass_number(&name, 1, INT64_MAX, &bytes) &&
           is_end(name);
}

static bool is_card_name(const char *name, const char *prefix, char tag[FORMAT_TAG_CHARS]) {
    uint64_t number = 0;
    int rank = 0;
    return pass(&name, prefix) && pass_key(&name, tag) && pass(&name, "-") &&
           pass_number(&name, 1, INT64_MAX, &number) &&
           (pass_rank(&name, &rank) || pass(&name, "-answer")) && is_end(name);
}

static bool is_probe_name(const char *name) {
    return pass(&name, PROBE_PREFIX) && pass_hex(&name, PROBE_CHARS) && *name == '\0';
}

/* A probe, or the token and the cards of ranks that ask together (src/doctor/token.c). */
static bool is_doctor_name(const char *name) {
    uint64_t rank = 0;
    if (!pass(&name, DOCTOR_PREFIX)) {
        return false;
    }
    if (pass_hex(&name, PROBE_CHARS)) {
        return *name == '\0';
    }
    if (!pass_hex(&name, ATTEMPT_CHARS)) {
        return false;
    }
    return (!pass(&name, "-r") || pass_number(&name, 1, PAWL_MAX_RANKS, &rank)) && is_end(name);
}

name_root_kind name_root_classify(const char *name, char tag[FORMAT_TAG_CHARS]) {
    if (is_outcome_name(name, tag)) {
        return NAME_ROOT_OUTCOME;
    }
    if (is_structure_name(name, tag)) {
        return NAME_ROOT_STRUCTURE;
    }
    if (is_card_name(name, MEET_PREFIX, tag)) {
        return NAME_ROOT_MEET;
    }
    if (is_card_name(name, VISIT_PREFIX, tag)) {
        return NAME_ROOT_VISIT;
    }
    tag[0] = '\0';
    if (is_probe_name(name)) {
        return NAME_ROOT_PROBE;
    }
    return is_doctor_name(name) ? NAME_ROOT_DOCTOR : NAME_ROOT_FOREIGN;
}

bool name_makes_run(const char *name) {
    char tag[FORMAT_TAG_CHARS];
    int64_t step;
    name_root_kind kind = name_root_classify(name, tag);
    return kind == NAME_ROOT_OUTCOME || kind == NAME_ROOT_STRUCTURE || kind == NAME_ROOT_MEET ||
           name_step_parse(name, &step) || strcmp(name, NAME_LATEST) == 0 ||
           strcmp(name, NAME_EVENTS) == 0 || strcmp(name, NAME_EVENTS_OLD) == 0 ||
           strcmp(name, NAME_RESERVE) == 0 || pass(&name, OWNER_PREFIX);
}
