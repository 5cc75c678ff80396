/* SPDX-License-Identifier: Apache-2.0 */
/* Advice of the library in words of the command. It has rename rules and no other option of a
 * restore: what else is to be allowed is for the program that restores. */
#include "doctor_words.h"
#include "memory.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

static const char set_option[] = "set options.";
static const char policy[] = "PAWL_POLICY_";
static const char add_rules[] = "add {\"";
static const char end_of_rules[] = " to options.renames";

typedef struct writing {
    char *at;
} writing;

static void put(writing *w, const char *text, size_t n) {
    memcpy(w->at, text, n);
    w->at += n;
}

static void put_text(writing *w, const char *text) {
    put(w, text, strlen(text));
}

static bool begins_with(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

/* A word for the shell; false: it would need more than quotes. */
static bool is_plain(const char *word, size_t n) {
    return memchr(word, '\'', n) == NULL && memchr(word, '"', n) == NULL &&
           memchr(word, '\\', n) == NULL && memchr(word, '=', n) == NULL;
}

static bool needs_quotes(const char *word, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (!isalnum((unsigned char)word[i]) && strchr("_./:-", word[i]) == NULL) {
            return true;
        }
    }
    return false;
}

/* `{"a", "b"}`: behind its first quote; returns what follows it, NULL where it is none, or cannot
 * be an option. */
static const char *put_rule(writing *w, const char *rule) {
    const char *middle = strstr(rule, "\", \"");
    const char *to = middle != NULL ? middle + strlen("\", \"") : NULL;
    const char *end = to != NULL ? strstr(to, "\"}") : NULL;
    if (end == NULL || !is_plain(rule, (size_t)(middle - rule)) ||
        !is_plain(to, (size_t)(end - to))) {
        return NULL;
    }
    const char *quote =
        needs_quotes(rule, (size_t)(middle - rule)) || needs_quotes(to, (size_t)(end - to)) ? "'"
                                                                                            : "";
    put_text(w, " --rename ");
    put_text(w, quote);
    put(w, rule, (size_t)(middle - rule));
    put_text(w, "=");
    put(w, to, (size_t)(end - to));
    put_text(w, quote);
    return end + strlen("\"}");
}

/* All rules, up to " to options.renames"; NULL, and nothing is put: it stays as it is. */
static const char *put_rules(writing *w, const char *text) {
    char *before = w->at;
    const char *rule = text + strlen(add_rules);
    put_text(w, "give");
    while (rule != NULL) {
        const char *next = put_rule(w, rule);
        if (next != NULL && begins_with(next, end_of_rules)) {
            return next + strlen(end_of_rules);
        }
        rule = next != NULL && begins_with(next, ", {\"") ? next + strlen(", {\"") : NULL;
    }
    w->at = before;
    return NULL;
}

static const char *put_policy(writing *w, const char *text) {
    text += strlen(policy);
    for (; isupper((unsigned char)*text); text++) {
        *w->at++ = (char)tolower((unsigned char)*text);
    }
    return text;
}

char *doctor_words(const char *advice) {
    if (advice == NULL) {
        return NULL;
    }
    char *words = must_alloc(3 * strlen(advice) + 1); /* `, {"", ""}` becomes ` --rename ''=''` */
    writing w = {.at = words};
    while (*advice != '\0') {
        const char *behind = begins_with(advice, add_rules) ? put_rules(&w, advice) : NULL;
        if (behind == NULL && begins_with(advice, set_option)) {
            put_text(&w, "restore with ");
            behind = advice + strlen(set_option);
        } else if (behind == NULL && begins_with(advice, policy)) {
            behind = put_policy(&w, advice);
        }
        if (behind == NULL) {
            *w.at++ = *advice;
            behind = advice + 1;
        }
        advice = behind;
    }
    *w.at = '\0';
    return words;
}
