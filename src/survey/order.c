/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers in names: which one is a step, and how paths are ordered by them. */
#include "survey/private.h"

#include <string.h>

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* ---- the step ------------------------------------------------------------------------------- */

/* Words that a step follows, at the end of name[0..n]. */
static bool ends_with_word(const char *name, size_t n) {
    static const char *const words[] = {"step",      "steps", "ckpt",  "checkpoint", "iter",
                                        "iteration", "epoch", "model", "weights"};
    for (size_t i = 0; i < ARRAY_LENGTH(words); i++) {
        size_t of = strlen(words[i]);
        if (n >= of && strncmp(name + n - of, words[i], of) == 0) {
            return true;
        }
    }
    return false;
}

/* Of the first `end` bytes of a name: the digits at their end, where a step is written so. */
static int64_t step_before(const char *name, size_t end) {
    int64_t step = 0;
    size_t begin = end;
    while (begin > 0 && is_digit(name[begin - 1])) {
        begin--;
    }
    size_t before = begin;
    if (before > 0 && strchr("-_=.", name[before - 1]) != NULL) {
        before--;
    }
    if (begin == end || end - begin > 18 || (begin > 0 && !ends_with_word(name, before))) {
        return -1;
    }
    for (size_t i = begin; i < end; i++) {
        step = step * 10 + (name[i] - '0');
    }
    return step;
}

/* Of one component: at its end, or before an ending such as .pt, or .weights.h5. */
static int64_t step_in(const char *name, size_t n) {
    for (size_t end = n; end > 0;) {
        int64_t step = step_before(name, end);
        if (step >= 0) {
            return step;
        }
        do {
            end--;
        } while (end > 0 && name[end] != '.');
    }
    return -1;
}

int64_t survey_step_of(const char *path) {
    size_t end = strlen(path);
    for (int components = 0; components < 2 && end > 0; components++) {
        size_t begin = end;
        while (begin > 0 && path[begin - 1] != '/') {
            begin--;
        }
        int64_t step = step_in(path + begin, end - begin);
        if (step >= 0) {
            return step;
        }
        end = begin > 0 ? begin - 1 : 0;
    }
    return -1;
}

/* ---- the order ------------------------------------------------------------------------------ */

static size_t digits_at(const char *text) {
    size_t n = 0;
    while (is_digit(text[n])) {
        n++;
    }
    return n;
}

/* Both begin with digits. Moves both behind them. */
static int compare_numbers(const char **a, const char **b) {
    const char *from_a = *a + strspn(*a, "0");
    const char *from_b = *b + strspn(*b, "0");
    size_t n = digits_at(from_a);
    size_t m = digits_at(from_b);
    *a = from_a + n;
    *b = from_b + m;
    return n != m ? (n < m ? -1 : 1) : strncmp(from_a, from_b, n);
}

int survey_compare(const char *a, const char *b) {
    const char *x = a;
    const char *y = b;
    while (*x != '\0' && *y != '\0') {
        if (is_digit(*x) && is_digit(*y)) {
            int order = compare_numbers(&x, &y);
            if (order != 0) {
                return order;
            }
            continue;
        }
        if (*x != *y) {
            /* What is in a directory comes before what only begins with its name. */
            return *x == '/' || *y == '/' ? (*x == '/' ? -1 : 1)
                                          : ((unsigned char)*x < (unsigned char)*y ? -1 : 1);
        }
        x++;
        y++;
    }
    return *x != *y ? (*x == '\0' ? -1 : 1) : strcmp(a, b);
}
