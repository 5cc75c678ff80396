/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two texts that say what must be alike on all ranks, as two ranks left them; the first two bytes
 * say where the second begins. Of texts whose names ascend, as they do in every text of ours, the
 * explanation counts what differs as a slow comparison does, and names the first of them.
 */
#include "who.h"

#include "format/block.h"
#include "votes/private.h"

#include <stdio.h>

#define ATTEMPT    "7f3a9c21e04b"
#define TAG        ATTEMPT "-1"
#define MOST_LINES 64

typedef struct line {
    const char *name, *what; /* not ended */
    size_t name_bytes, what_bytes;
} line;

typedef struct lines {
    line items[MOST_LINES];
    size_t count;
    bool ascend; /* and there are not too many */
} lines;

static int compare(const line *a, const line *b) {
    return key_compare(a->name, a->name_bytes, b->name, b->name_bytes);
}

/* Up to what is no line any more. */
static lines lines_of(const uint8_t *text, size_t n) {
    lines out = {.ascend = true};
    for (size_t at = 0; at < n && out.ascend;) {
        const uint8_t *end = memchr(text + at, '\n', n - at);
        const uint8_t *tab =
            end != NULL ? memchr(text + at, '\t', (size_t)(end - text) - at) : NULL;
        if (tab == NULL) {
            break;
        }
        if (out.count == MOST_LINES) {
            out.ascend = false;
            break;
        }
        line *l = &out.items[out.count++];
        *l = (line){.name = (const char *)text + at,
                    .name_bytes = (size_t)(tab - text) - at,
                    .what = (const char *)tab + 1,
                    .what_bytes = (size_t)(end - tab) - 1};
        out.ascend = out.count == 1 || compare(l - 1, l) < 0;
        at = (size_t)(end - text) + 1;
    }
    return out;
}

/* Is it as in the other? */
static bool is_in(const line *l, const lines *other) {
    for (size_t i = 0; i < other->count; i++) {
        const line *o = &other->items[i];
        if (compare(l, o) == 0) {
            return l->what_bytes == o->what_bytes && memcmp(l->what, o->what, o->what_bytes) == 0;
        }
    }
    return false;
}

static bool has_name(const line *l, const lines *other) {
    for (size_t i = 0; i < other->count; i++) {
        if (compare(l, &other->items[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Names that differ: each counts once. */
static size_t count_differences(const lines *a, const lines *b, const line **first) {
    size_t count = 0;
    *first = NULL;
    for (size_t i = 0; i < a->count; i++) {
        if (!is_in(&a->items[i], b)) {
            count++;
            *first = *first == NULL ? &a->items[i] : *first;
        }
    }
    for (size_t i = 0; i < b->count; i++) {
        if (!has_name(&b->items[i], a)) {
            count++;
            *first = *first == NULL || compare(&b->items[i], *first) < 0 ? &b->items[i] : *first;
        }
    }
    return count;
}

static bool is_text(const uint8_t *text, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (text[i] < ' ' && text[i] != '\t' && text[i] != '\n') {
            return false;
        }
    }
    return utf8_valid((const char *)text, n);
}

static void check_told(const pawl_error *err, size_t count, const line *first) {
    char words[64];
    (void)snprintf(words, sizeof words, "in %zu entries", count);
    FUZZ_CHECK((strstr(err->attempt, words) != NULL) == (count > 1));
    FUZZ_CHECK((err->entry[0] != '\0') == (count > 0 && first->name_bytes > 0));
    if (count > 0 && first->name_bytes < 200) {
        FUZZ_CHECK(strlen(err->entry) == first->name_bytes);
        FUZZ_CHECK(memcmp(err->entry, first->name, first->name_bytes) == 0);
    }
}

/* Leaves a rank's text. */
static void leave(vote *head, int rank, const uint8_t *text, size_t n) {
    char name[80];
    *head = (vote){.step = 1,
                   .rank = rank,
                   .world_size = 2,
                   .tag = TAG,
                   .host = "h",
                   .structure_crc32c = crc32c(0, text, n),
                   .structure_bytes = n};
    name_structure(name, ATTEMPT, head->structure_crc32c, n);
    who_put(name, text, n);
}

static void forget(const vote *head) {
    char name[80];
    pawl_error err = ERROR_INIT;
    name_structure(name, ATTEMPT, head->structure_crc32c, head->structure_bytes);
    pawl_status status = store_unlink(who_store(), name, &err);
    FUZZ_CHECK(status == PAWL_OK || status == PAWL_ENOTFOUND); /* both may have left the same */
}

/* A vote without entries, as those of both ranks. */
static const buffer *empty_vote(void) {
    static buffer kept;
    pawl_error err = ERROR_INIT;
    table_writer *w = NULL;
    table_summary summary;
    if (kept.size == 0) {
        FUZZ_CHECK(table_writer_new(byte_sink_buffer(&kept), &w, &err) == PAWL_OK);
        FUZZ_CHECK(table_writer_finish(w, &summary, &err) == PAWL_OK);
        table_writer_free(w);
        char name[80], path[128];
        name_vote(name, TAG, 1);
        (void)snprintf(path, sizeof path, WHO_STEP "/%s", name);
        who_put(path, kept.data, kept.size);
    }
    return &kept;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) {
        return 0;
    }
    size_t n = (size_t)data[0] | (size_t)data[1] << 8;
    const uint8_t *first = data + 2;
    n = n < size - 2 ? n : size - 2;
    const uint8_t *second = first + n;
    size_t second_bytes = size - 2 - n;
    pawl_error err = ERROR_INIT;
    vote heads[2];
    const vote_sides sides = {.few = 1, .many_text = "rank 0", .few_text = "rank 1"};
    job_ranks ranks = {.store = who_store(), .world_size = 2, .attempt = ATTEMPT};
    votes v = {.heads = heads, .own = *empty_vote()};
    leave(&heads[0], 0, first, n);
    leave(&heads[1], 1, second, second_bytes);
    pawl_status status = structure_explain(&ranks, &v, WHO_STEP, &sides, &err);
    FUZZ_CHECK(status == err.status && err.attempt[0] != '\0');
    if (is_text(first, n) && is_text(second, second_bytes)) {
        lines a = lines_of(first, n), b = lines_of(second, second_bytes);
        const line *at = NULL;
        size_t count = count_differences(&a, &b, &at);
        FUZZ_CHECK(status == PAWL_EMISMATCH);
        if (a.ascend && b.ascend) {
            fuzz_accepted += a.count > 0 && b.count > 0;
            check_told(&err, count, at);
        }
    } else {
        FUZZ_CHECK(status == PAWL_EMISMATCH && err.entry[0] == '\0');
    }
    forget(&heads[0]);
    forget(&heads[1]);
    return 0;
}
