/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random fields for the property of all encoders: what one takes is read back equal, and what is
 * within the limits is taken. Fields are drawn at, below and, now and then, beyond their limits;
 * one beyond makes the structure invalid.
 */
#ifndef UNIT_FORMAT_WILD_H
#define UNIT_FORMAT_WILD_H

#include "lib/random.h"
#include "lib/test.h"

#include <string.h>

#define UNUSED __attribute__((unused))

typedef struct wild {
    test_random random;
    arena memory;
    bool valid; /* no field of the present structure is beyond its limits */
} wild;

static UNUSED void wild_begin(wild *w) {
    arena_free(&w->memory);
    w->valid = true;
}

static UNUSED uint64_t wild_below(wild *w, uint64_t end) {
    return random_below(&w->random, end);
}

/* In about one of 20 fields. */
static UNUSED bool wild_odd(wild *w) {
    bool odd = wild_below(w, 20) == 0;
    w->valid = w->valid && !odd;
    return odd;
}

static UNUSED void *wild_take(wild *w, size_t bytes) {
    void *memory = arena_alloc(&w->memory, bytes + 1);
    assert_non_null(memory);
    return memory;
}

/* least <= most; beyond them there is something, unless they are the least and most there are. */
static UNUSED int64_t wild_number(wild *w, int64_t least, int64_t most) {
    bool above = most < INT64_MAX;
    bool below = least > INT64_MIN;
    if ((above || below) && wild_odd(w)) {
        bool go_above = above && (!below || wild_below(w, 2) == 0);
        bool far = wild_below(w, 2) == 0;
        return go_above ? (far ? INT64_MAX : most + 1) : (far ? INT64_MIN : least - 1);
    }
    switch (wild_below(w, 4)) {
    case 0:
        return least;
    case 1:
        return most;
    case 2: /* small */
        return least < 100 && most > 100 ? random_between(&w->random, least < 0 ? 0 : least, 100)
                                         : least;
    default:
        return (int64_t)((uint64_t)least +
                         wild_below(w, (uint64_t)most - (uint64_t)least) % UINT64_MAX);
    }
}

/* A size: anything up to 2^63 - 1. */
static UNUSED uint64_t wild_size(wild *w) {
    return (uint64_t)wild_number(w, 0, INT64_MAX);
}

/* Of an int, whose limits are well within it. */
static UNUSED int wild_int(wild *w, int least, int most) {
    int64_t number = wild_number(w, least, most);
    return number > INT32_MAX ? INT32_MAX : number < INT32_MIN ? INT32_MIN : (int)number;
}

static UNUSED size_t wild_piece(wild *w, char *to, size_t room) {
    static const char *const pieces[] = {"a",
                                         "Z",
                                         "\"",
                                         "\\",
                                         "/x",
                                         " ",
                                         "\xc3\xa4",
                                         "\xe2\x82\xac",
                                         "\xf0\x9f\x98\x80",
                                         "\xf4\x8f\xbf\xbf",
                                         "0",
                                         "%",
                                         "{",
                                         "\xe2\x80\xa8",
                                         "'",
                                         "\xef\xbf\xbd"};
    const char *piece = pieces[wild_below(w, ARRAY_LENGTH(pieces))];
    size_t n = strlen(piece);
    if (n > room) {
        piece = "x";
        n = 1;
    }
    memcpy(to, piece, n);
    return n;
}

/* UTF-8 of at most `most` bytes that names could have too; or longer, or bytes of any kind. */
static UNUSED const char *wild_text(wild *w, size_t most) {
    bool odd = wild_odd(w);
    bool longer = odd && wild_below(w, 2) == 0;
    size_t n = 1 + (size_t)wild_below(w, most < 20 ? most : 20);
    n = wild_below(w, 4) == 0 ? most : n;
    n = longer ? most + 1 + (size_t)wild_below(w, 8) : n;
    char *text = wild_take(w, n);
    for (size_t at = 0; at < n;) {
        at += wild_piece(w, text + at, n - at);
    }
    text[n] = '\0';
    text[0] = text[0] == '/' || text[0] == '.' ? 'x' : text[0];
    text[n - 1] = text[n - 1] == '/' ? 'x' : text[n - 1]; /* of one byte each */
    if (odd && !longer) {
        static const char bad[] = {'\xff', '\x80', '\xc0', '\xe2'};
        text[wild_below(w, n)] = bad[wild_below(w, sizeof(bad))];
        w->valid = false;
    }
    return text;
}

/* An encoder's answer: whatever it refuses must be beyond some limit, and told as that. */
static UNUSED bool wild_taken(const wild *w, pawl_status status, pawl_error *err) {
    if (w->valid) {
        assert_ok(status, err);
    }
    if (status != PAWL_OK) {
        assert_true(status == PAWL_EUSAGE || status == PAWL_ELIMIT || status == PAWL_EINTERNAL);
    }
    return status == PAWL_OK;
}

static UNUSED void assert_same_text(const char *a, const char *b) {
    if (a == NULL || b == NULL) {
        assert_true(a == b);
    } else {
        assert_string_equal(a, b);
    }
}

#endif
