/* SPDX-License-Identifier: Apache-2.0 */
#include "lag/rules.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rules {
    pthread_mutex_t lock;
    rule of[RULES_MAX];
    size_t count;
    uint64_t hits;
};

static const char *const operation_names[OP_COUNT] = {
    [OP_LOOK] = "look",         [OP_STAT] = "stat",        [OP_OPEN] = "open",
    [OP_CREATE] = "create",     [OP_READ] = "read",        [OP_WRITE] = "write",
    [OP_SYNC] = "sync",         [OP_SYNCDIR] = "syncdir",  [OP_CLOSE] = "close",
    [OP_LIST] = "list",         [OP_NAME] = "name",        [OP_RENAME] = "rename",
    [OP_UNLINK] = "unlink",     [OP_MKDIR] = "mkdir",      [OP_RMDIR] = "rmdir",
    [OP_TRUNCATE] = "truncate", [OP_ALLOCATE] = "allocate"};

static const char *const effect_names[EFFECT_COUNT] = {
    [EFFECT_NONE] = "none", [EFFECT_FAIL] = "fail", [EFFECT_LOSE] = "lose",
    [EFFECT_LATE] = "late", [EFFECT_SLOW] = "slow", [EFFECT_MISS] = "miss"};

rules *rules_new(void) {
    rules *all = calloc(1, sizeof *all);
    if (all != NULL) {
        pthread_mutex_init(&all->lock, NULL);
    }
    return all;
}

void rules_free(rules *all) {
    pthread_mutex_destroy(&all->lock);
    free(all);
}

/* The place of a word in a list of them; -1: it is not there. */
static int place_of(const char *word, const char *const *words, int count) {
    for (int i = 0; i < count; i++) {
        if (strcmp(word, words[i]) == 0) {
            return i;
        }
    }
    return -1;
}

static bool parse(const char *line, rule *r) {
    char op[16];
    char what[16];
    int end = -1;
    /* The width is that of `text`. */
    if (sscanf(line, "%15s %127s %15s %d %" SCNu64 " %" SCNu64 " %" SCNd64 " %n", op, r->text, what,
               &r->error, &r->first, &r->count, &r->delay_ms, &end) != 7 ||
        end < 0 || line[end] != '\0') {
        return false;
    }
    int at = place_of(op, operation_names, OP_COUNT);
    int does = place_of(what, effect_names, EFFECT_COUNT);
    if (at < 0 || does < 0 || r->first < 1 || r->count < 1 || r->error < 0 || r->delay_ms < 0) {
        return false;
    }
    r->op = (operation)at;
    r->effect = (effect)does;
    return true;
}

bool rules_add(rules *all, const char *line) {
    rule r = {0};
    if (!parse(line, &r)) {
        return false;
    }
    pthread_mutex_lock(&all->lock);
    bool fits = all->count < RULES_MAX;
    if (fits) {
        all->of[all->count++] = r;
    }
    pthread_mutex_unlock(&all->lock);
    return fits;
}

void rules_clear(rules *all) {
    pthread_mutex_lock(&all->lock);
    all->count = 0;
    all->hits = 0;
    pthread_mutex_unlock(&all->lock);
}

uint64_t rules_hits(rules *all) {
    pthread_mutex_lock(&all->lock);
    uint64_t hits = all->hits;
    pthread_mutex_unlock(&all->lock);
    return hits;
}

verdict rules_judge(rules *all, operation op, const char *path) {
    verdict v = {0};
    pthread_mutex_lock(&all->lock);
    for (size_t i = 0; i < all->count; i++) {
        rule *r = &all->of[i];
        if (r->op != op || strstr(path, r->text) == NULL) {
            continue;
        }
        r->fitted++;
        /* Subtraction: first + count may be past the last number. */
        if (v.effect == EFFECT_NONE && r->fitted >= r->first && r->fitted - r->first < r->count) {
            v = (verdict){.effect = r->effect, .error = r->error, .delay_ms = r->delay_ms};
            all->hits++;
        }
    }
    pthread_mutex_unlock(&all->lock);
    return v;
}
