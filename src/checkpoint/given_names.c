/* SPDX-License-Identifier: Apache-2.0 */
/* Names that a caller has given: whether each is of an entry, or of what is above some. */
#include "checkpoint/private.h"
#include "match/rename.h"

#include <stdio.h>
#include <string.h>

#define NEAR_LOOKED_AT 20000u /* names that are compared */
#define NEAR_LIKENESS  0.5    /* two letters of five that changed places have 0.6 */

/* What was seen of one of the names. */
typedef struct use {
    span name;
    bool fits, used; /* an entry; one that no rule before it fits */
} use;

static bool is_rule(const given_names *given, size_t i) {
    return given->rules != NULL && !rename_swaps(&given->rules[i]);
}

/* "a/b/" is a/b; "" is above all, also where there is nothing; so is what swaps characters. */
static use use_of(const given_names *given, size_t i) {
    bool checked = given->rules == NULL || is_rule(given, i);
    span name = span_of(given->rules != NULL ? given->rules[i].from : given->names[i]);
    while (given->rules == NULL && name.length > 0 && name.text[name.length - 1] == '/') {
        name.length--;
    }
    bool fits = !checked || name.length == 0;
    return (use){.name = name, .fits = fits, .used = fits};
}

static void note_entry(const given_names *given, use *uses, const char *name) {
    bool taken = false; /* by a rule before */
    for (size_t i = 0; i < given->count; i++) {
        bool fits = (given->rules == NULL || is_rule(given, i)) && rename_fits(uses[i].name, name);
        uses[i].fits = uses[i].fits || fits;
        uses[i].used = uses[i].used || (fits && !taken);
        taken = taken || (fits && given->rules != NULL);
    }
}

static pawl_status note_entries(pawl_checkpoint *c, const given_names *given, use *uses,
                                pawl_error *err) {
    pawl_entries *walk = NULL;
    pawl_entry_info info = {0};
    int more = 1;
    TRY(entries_open(c, "", &walk, err));
    pawl_status status = entries_next(walk, &info, &more, err);
    while (status == PAWL_OK && more != 0) {
        note_entry(given, uses, info.name);
        status = entries_next(walk, &info, &more, err);
    }
    pawl_entries_free(walk);
    return status;
}

/* What was meant. */
typedef struct near_name {
    char wanted[PAWL_MAX_NAME_BYTES + 1], best[PAWL_MAX_NAME_BYTES + 1];
    char before[PAWL_MAX_NAME_BYTES + 1]; /* the name of the entry before */
    double likeness;
    unsigned looked_at;
} near_name;

/* "b/c" may be meant of "a/b/c". */
static bool ends_in(const char *name, size_t length, const char *wanted) {
    size_t n = strlen(wanted);
    return n < length && name[length - n - 1] == '/' && strncmp(name + length - n, wanted, n) == 0;
}

static void look_at(near_name *n, const char *name, size_t length) {
    char part[PAWL_MAX_NAME_BYTES + 1];
    (void)snprintf(part, sizeof(part), "%.*s", (int)length, name);
    double likeness = ends_in(part, length, n->wanted) ? 1 : text_likeness(n->wanted, part);
    n->looked_at++;
    if (likeness > n->likeness && utf8_valid(part, length)) {
        n->likeness = likeness;
        memcpy(n->best, part, length + 1);
    }
}

/* The name, and all above it that the entry before was not below. */
static void look_at_entry(near_name *n, const char *name) {
    size_t length = strlen(name);
    if (length > PAWL_MAX_NAME_BYTES) {
        return;
    }
    for (size_t i = 1; i <= length && n->looked_at < NEAR_LOOKED_AT; i++) {
        span part = {.text = name, .length = i};
        if ((name[i] == '/' || name[i] == '\0') && !rename_fits(part, n->before)) {
            look_at(n, name, i);
        }
    }
    memcpy(n->before, name, length + 1);
}

static bool find_near(pawl_checkpoint *c, span wanted, near_name *n) {
    struct pawl_error ignored = ERROR_INIT;
    pawl_entries *walk = NULL;
    pawl_entry_info info = {0};
    int more = 1;
    *n = (near_name){.likeness = NEAR_LIKENESS};
    (void)snprintf(n->wanted, sizeof(n->wanted), "%.*s", (int)wanted.length, wanted.text);
    if (entries_open(c, "", &walk, &ignored) != PAWL_OK) {
        return false;
    }
    while (n->looked_at < NEAR_LOOKED_AT && entries_next(walk, &info, &more, &ignored) == PAWL_OK &&
           more != 0) {
        look_at_entry(n, info.name);
    }
    pawl_entries_free(walk);
    return n->best[0] != '\0';
}

static void say_what_was_meant(pawl_checkpoint *c, span wanted, pawl_error *err) {
    AUTOFREE near_name *n = mem_alloc(sizeof(*n));
    if (n != NULL && find_near(c, wanted, n)) {
        error_next(err, "did you mean %s?", n->best);
    } else {
        checkpoint_say_how_to_list(c, err);
    }
}

static pawl_status refuse(pawl_checkpoint *c, const given_names *given, size_t i, const use *of,
                          pawl_error *err) {
    if (given->rules != NULL) {
        error_set(err, PAWL_EUSAGE, "the rename rule {\"%s\", \"%s\"} %s", given->rules[i].from,
                  given->rules[i].to, of->fits ? "is never used" : "fits no entry");
    } else {
        error_set(err, PAWL_EUSAGE, "%s: there is no entry \"%s\", and none below it", given->what,
                  given->names[i]);
    }
    error_path(err, "%s", c->source->path);
    error_step(err, c->source->step);
    if (of->fits) {
        error_expected(err, "an entry that no rule before it fits: the first that fits counts");
        error_next(err, "put it in front of the rule that fits them all, or leave it out");
    } else {
        error_expected(err, "the name of an entry, or what names of entries begin with, up to a /");
        say_what_was_meant(c, of->name, err);
    }
    return PAWL_EUSAGE;
}

pawl_status checkpoint_check_given(pawl_checkpoint *c, const given_names *given, pawl_error *err) {
    AUTOFREE use *uses = NULL;
    if (given->count == 0) {
        return PAWL_OK;
    }
    uses = mem_calloc(given->count, sizeof(*uses));
    if (uses == NULL) {
        return error_nomem(err, given->count * sizeof(*uses));
    }
    for (size_t i = 0; i < given->count; i++) {
        uses[i] = use_of(given, i);
    }
    TRY(note_entries(c, given, uses, err));
    for (size_t i = 0; i < given->count; i++) {
        if (!uses[i].fits || (given->rules != NULL && !uses[i].used)) {
            return refuse(c, given, i, &uses[i], err);
        }
    }
    return PAWL_OK;
}
