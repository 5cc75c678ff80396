/* SPDX-License-Identifier: Apache-2.0 */
/* Tries what is advised: one more match, with other options, rules, and a state without entries. */
#include "match/prove.h"

#include <stdlib.h>
#include <string.h>

#define MAX_TRIALS 32 /* 8 renames, 12 remedies, and a few for all together */

/* ---- which errors a report has -------------------------------------------------------------- */

bool prove_is_error(const pawl_report_item *item) {
    return item->severity == PAWL_SEVERITY_ERROR;
}

static error_key key_of(const pawl_report_item *item) {
    bool renamed = item->saved_as != NULL && item->difference != PAWL_DIFF_RENAMED;
    return (error_key){.difference = item->difference,
                       .name = renamed              ? item->saved_as
                               : item->name != NULL ? item->name
                                                    : ""};
}

static int by_key(const void *a, const void *b) {
    const error_key *left = a;
    const error_key *right = b;
    if (left->difference != right->difference) {
        return left->difference < right->difference ? -1 : 1;
    }
    return strcmp(left->name, right->name);
}

void error_keys_free(error_keys *keys) {
    mem_free(keys->items);
}

pawl_status error_keys_of(const pawl_report *report, error_keys *out, pawl_error *err) {
    out->items = mem_calloc(report->count, sizeof(*out->items));
    if (out->items == NULL) {
        return error_nomem(err, report->count * sizeof(*out->items));
    }
    for (size_t i = 0; i < report->count; i++) {
        if (prove_is_error(&report->items[i].seen)) {
            out->items[out->count++] = key_of(&report->items[i].seen);
        }
    }
    if (out->count > 1) {
        qsort(out->items, out->count, sizeof(*out->items), by_key);
    }
    return PAWL_OK;
}

bool error_keys_have(const error_keys *keys, const pawl_report_item *item) {
    const error_key key = key_of(item);
    return keys->count > 0 &&
           bsearch(&key, keys->items, keys->count, sizeof(*keys->items), by_key) != NULL;
}

void course_forget(course *c) {
    pawl_report_free(c->came.report);
    error_keys_free(&c->errors);
    c->came = (matcher_outcome){.report = NULL};
    c->errors = (error_keys){.items = NULL};
}

void course_free(course *c) {
    course_forget(c);
    mem_free(c->rules);
    mem_free(c->remedies);
    mem_free(c->left_out);
}

pawl_status course_start(const prover *p, course *c, pawl_error *err) {
    size_t given = p->m->options.rename_count;
    c->options = p->m->options;
    TRY(vec_reserve(&c->rules, &c->rule_capacity, given + 1, sizeof(*c->rules), err));
    if (given > 0) {
        memcpy(c->rules, p->m->options.renames, given * sizeof(*c->rules));
    }
    return PAWL_OK;
}

pawl_status course_add(course *c, const pawl_remedy *remedy, pawl_error *err) {
    TRY(vec_reserve(&c->remedies, &c->remedy_capacity, c->remedy_count + 1,
                    sizeof(const pawl_remedy *), err));
    c->remedies[c->remedy_count++] = remedy;
    if (remedy->from == NULL) {
        remedy_apply(remedy, &c->options);
        return PAWL_OK;
    }
    size_t count = c->options.rename_count;
    TRY(vec_reserve(&c->rules, &c->rule_capacity, count + 1, sizeof(*c->rules), err));
    c->rules[count] = (pawl_rename){.from = remedy->from, .to = remedy->to};
    c->options.rename_count = count + 1;
    return PAWL_OK;
}

pawl_status course_add_all(course *c, const pawl_report_item *item, pawl_error *err) {
    for (size_t i = 0; i < item->remedy_count; i++) {
        TRY(course_add(c, item->remedies[i], err));
    }
    return PAWL_OK;
}

pawl_status course_take_out(const prover *p, course *c, const pawl_remedy *remedy,
                            pawl_error *err) {
    size_t place = 0;
    c->left_out = mem_calloc(p->m->wanted->count, sizeof(*c->left_out));
    if (c->left_out == NULL) {
        return error_nomem(err, p->m->wanted->count);
    }
    for (size_t i = 0; i < p->report->count; i++) {
        const pawl_report_item *item = &p->report->items[i].seen;
        for (size_t k = 0; k < item->remedy_count; k++) {
            if (item->remedies[k] == remedy &&
                state_snapshot_find(p->m->wanted, item->name, &place) != NULL) {
                c->left_out[place] = true;
            }
        }
    }
    return PAWL_OK;
}

pawl_status course_try(prover *p, course *c, pawl_error *err) {
    course_forget(c);
    if (p->trials++ >= MAX_TRIALS) {
        c->came.dead_end = true;
        return PAWL_OK;
    }
    c->options.renames = c->rules;
    TRY(matcher_try(p->m, p->checkpoint, &c->options, c->left_out, &c->came, err));
    return error_keys_of(c->came.report, &c->errors, err);
}

/* ---- what came of it ------------------------------------------------------------------------ */

bool course_has_new(const prover *p, const course *c) {
    const pawl_report *now = c->came.report;
    for (int d = 0; d < REPORT_DIFFERENCES; d++) {
        if (now->errors_of_kind[d] > p->report->errors_of_kind[d]) {
            return true;
        }
    }
    for (size_t i = 0; i < now->count; i++) {
        const pawl_report_item *item = &now->items[i].seen;
        bool known = p->report->kept_of_kind[item->difference] < REPORT_MAX_ITEMS;
        if (prove_is_error(item) && known && !error_keys_have(&p->errors, item)) {
            return true;
        }
    }
    return false;
}

bool course_allows_its_own(const prover *p, const course *c, const pawl_remedy *remedy) {
    for (size_t i = 0; i < p->report->count; i++) {
        const pawl_report_item *item = &p->report->items[i].seen;
        for (size_t k = 0; prove_is_error(item) && k < item->remedy_count; k++) {
            if (item->remedies[k] == remedy && error_keys_have(&c->errors, item)) {
                return false;
            }
        }
    }
    return true;
}

/* Can no option allow it? */
static bool is_hard(const pawl_report_item *item) {
    for (size_t k = 0; k < item->remedy_count; k++) {
        if (item->remedies[k]->before == NULL) {
            return false;
        }
    }
    return prove_is_error(item);
}

bool course_leaves_hard_ones(const course *c) {
    for (size_t i = 0; i < c->came.report->count; i++) {
        if (is_hard(&c->came.report->items[i].seen)) {
            return true;
        }
    }
    return false;
}
