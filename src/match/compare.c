/* SPDX-License-Identifier: Apache-2.0 */
/* Compares one entry of the checkpoint with the state's entry of the same name. */
#include "match/matcher.h"
#include "match/side.h"

#include <stdio.h>
#include <string.h>

/* What is being compared, with both sides as text. */
typedef struct comparing {
    matcher *m;
    const state_entry *wanted;
    const record_entry *record;
    const char *slot_of; /* the record's, renamed */
    char checkpoint[SIDE_BYTES], state[SIDE_BYTES];
    verdict *verdict;
    pawl_error *err;
} comparing;

static pawl_report_item item_of(const comparing *c, pawl_difference difference,
                                pawl_severity severity) {
    return (pawl_report_item){
        .difference = difference,
        .severity = severity,
        .name = c->wanted->name,
        .checkpoint = c->checkpoint,
        .state = c->state,
        .dimension = -1,
        .count = 1,
        .saved_as = strcmp(c->record->name, c->wanted->name) == 0 ? NULL : c->record->name};
}

static pawl_status add_difference(comparing *c, const pawl_report_item *item,
                                  const sentence_facts *facts) {
    if (item->severity == PAWL_SEVERITY_ERROR) {
        c->verdict->fits = false;
    }
    return report_add_facts(c->m->report, item, facts, c->err);
}

static void write_sides(comparing *c, bool with_kind) {
    side checkpoint = side_of_record(c->record);
    side state = side_of_state(c->wanted);
    for (int all = 0; all < 2; all++) {
        checkpoint.exact = state.exact = all == 1;
        side_text(c->checkpoint, &checkpoint, with_kind);
        side_text(c->state, &state, with_kind);
        if (strcmp(c->checkpoint, c->state) != 0) {
            break; /* two numbers that are alike but in their last digits are shown with these */
        }
    }
}

static bool is_slot_role(pawl_role role) {
    return role == PAWL_ROLE_SLOT;
}

/* ---- tensors -------------------------------------------------------------------------------- */

static pawl_status compare_shape(comparing *c) {
    const state_entry *wanted = c->wanted;
    const record_entry *record = c->record;
    if (shape_equal(wanted->ndim, wanted->shape, record->ndim, record->shape)) {
        return PAWL_OK;
    }
    c->verdict->other_shape = true;
    if (is_slot_role(wanted->role)) {
        c->verdict->fits = false; /* reported by matcher_slots, when its variable is known */
        return PAWL_OK;
    }
    pawl_report_item item = item_of(c, PAWL_DIFF_SHAPE, PAWL_SEVERITY_ERROR);
    item.dimension =
        side_first_difference(record->ndim, record->shape, wanted->ndim, wanted->shape);
    return add_difference(c, &item, &(sentence_facts){0});
}

/* A slot's is reported as the slot's; where its shape differs, with that. */
static pawl_status compare_dtype(comparing *c) {
    bool slot = is_slot_role(c->wanted->role);
    if (c->wanted->dtype == c->record->dtype || (slot && !c->verdict->fits)) {
        return PAWL_OK;
    }
    bool castable = dtype_castable(c->wanted->dtype) && dtype_castable(c->record->dtype);
    bool allowed = castable && c->m->options.cast == PAWL_POLICY_ALLOW;
    pawl_report_item item = item_of(c, slot ? PAWL_DIFF_SLOT : PAWL_DIFF_DTYPE,
                                    allowed ? PAWL_SEVERITY_NOTE : PAWL_SEVERITY_ERROR);
    item.other_name = slot ? c->wanted->slot_of : NULL;
    const sentence_facts facts = {.slot = c->wanted->slot, .variable = slot ? SLOT_OTHER_DTYPE : 0};
    return add_difference(c, &item, &facts);
}

/* The texts are written only where something differs: most of a million tensors have no
 * difference. */
static pawl_status compare_tensors(comparing *c) {
    const state_entry *wanted = c->wanted;
    const record_entry *record = c->record;
    if (wanted->dtype != record->dtype ||
        !shape_equal(wanted->ndim, wanted->shape, record->ndim, record->shape)) {
        write_sides(c, false);
        TRY(compare_shape(c));
        TRY(compare_dtype(c));
    }
    /* The checkpoint's value of a hyperparameter tensor has not been read yet, so no difference can
     * be reported; the policy decides. */
    c->verdict->keep_caller = c->wanted->role == PAWL_ROLE_HYPERPARAMETER &&
                              c->m->options.hyperparameter == PAWL_POLICY_CALLER;
    return PAWL_OK;
}

/* ---- values --------------------------------------------------------------------------------- */

static bool has_piece_of(const record_entry *record, int rank) {
    for (size_t i = 0; i < record->piece_count; i++) {
        if (record->pieces[i].rank == rank) {
            return true;
        }
    }
    return false;
}

/* "rank 1 of 3 takes its own; the values of ranks 3 to 5 are left out" */
static void ranks_text(char *out, size_t size, const matcher *m, bool keeps) {
    /* Saved ranks from here on have no rank that takes their values. */
    int first = m->options.per_rank == PAWL_POLICY_CALLER ? 0 : m->ranks.world_size;
    int last = m->ranks.saved_world_size - 1;
    char left_out[96] = "";
    if (first < last) {
        snprintf(left_out, sizeof(left_out), "; the values of ranks %d to %d are left out", first,
                 last);
    } else if (first == last) {
        snprintf(left_out, sizeof(left_out), "; the value of rank %d is left out", first);
    }
    snprintf(out, size, "rank %d of %d %s%s", m->ranks.rank, m->ranks.world_size,
             keeps ? "keeps the state's value" : "takes its own", left_out);
}

/* R10: another number of ranks. */
static pawl_status compare_rank_counts(comparing *c) {
    matcher *m = c->m;
    if (m->ranks.saved_world_size == m->ranks.world_size) {
        return PAWL_OK;
    }
    char ranks[192];
    const char *plural[] = {"s", ""};
    snprintf(c->checkpoint, sizeof(c->checkpoint), "%d rank%s", m->ranks.saved_world_size,
             plural[m->ranks.saved_world_size == 1]);
    snprintf(c->state, sizeof(c->state), "%d rank%s", m->ranks.world_size,
             plural[m->ranks.world_size == 1]);
    if (m->options.per_rank == PAWL_POLICY_ERROR) {
        pawl_report_item item = item_of(c, PAWL_DIFF_RANKS, PAWL_SEVERITY_ERROR);
        return add_difference(c, &item, &(sentence_facts){0});
    }
    c->verdict->keep_caller =
        m->options.per_rank == PAWL_POLICY_CALLER || !has_piece_of(c->record, m->ranks.rank);
    ranks_text(ranks, sizeof(ranks), m, c->verdict->keep_caller);
    pawl_report_item item = item_of(c, PAWL_DIFF_RANKS, PAWL_SEVERITY_WARNING);
    return add_difference(c, &item, &(sentence_facts){.ranks = ranks});
}

/* R06: another class of optimizer. Reported at the end, with the number of slots that differ. A
 * caller who keeps its own hyperparameters keeps its own class, too; the checkpoint's cannot be
 * restored. */
static void note_optimizer(comparing *c) {
    c->m->optimizer = c->wanted;
    memcpy(c->m->optimizer_checkpoint, c->checkpoint, sizeof(c->checkpoint));
    if (c->m->options.hyperparameter == PAWL_POLICY_CALLER) {
        c->verdict->keep_caller = true;
    } else {
        c->verdict->fits = false;
    }
}

static pawl_status compare_hyperparameter(comparing *c) {
    pawl_policy policy = c->m->options.hyperparameter;
    if (policy == PAWL_POLICY_ERROR) {
        pawl_report_item item = item_of(c, PAWL_DIFF_HYPERPARAMETER, PAWL_SEVERITY_ERROR);
        return add_difference(c, &item, &(sentence_facts){0});
    }
    bool caller = policy == PAWL_POLICY_CALLER;
    c->verdict->keep_caller = caller;
    pawl_report_item item = item_of(c, PAWL_DIFF_HYPERPARAMETER, PAWL_SEVERITY_WARNING);
    return add_difference(c, &item,
                          &(sentence_facts){.used_side = caller ? "state" : "checkpoint"});
}

/* J06: other batches. The state's signature describes those that follow, so it is kept. */
static pawl_status compare_batch(comparing *c) {
    if (c->m->options.batch == PAWL_POLICY_ERROR) {
        pawl_report_item item = item_of(c, PAWL_DIFF_BATCH, PAWL_SEVERITY_ERROR);
        return add_difference(c, &item, &(sentence_facts){0});
    }
    c->verdict->keep_caller = true;
    pawl_report_item item = item_of(c, PAWL_DIFF_BATCH, PAWL_SEVERITY_WARNING);
    return add_difference(c, &item, &(sentence_facts){.used_side = "state"});
}

/* Values of other roles (the step, random state, ...) are expected to differ: they are restored. */
static pawl_status compare_pair_values(comparing *c) {
    if (c->wanted->per_rank) {
        return compare_rank_counts(c);
    }
    side checkpoint = side_of_record(c->record);
    side state = side_of_state(c->wanted);
    if (side_values_equal(&checkpoint, &state)) {
        return PAWL_OK;
    }
    write_sides(c, false);
    if (strcmp(c->wanted->name, PAWL_OPTIMIZER_CLASS) == 0) {
        note_optimizer(c);
        return PAWL_OK;
    }
    if (c->wanted->role == PAWL_ROLE_HYPERPARAMETER) {
        return compare_hyperparameter(c);
    }
    return c->wanted->role == PAWL_ROLE_BATCH_SIGNATURE ? compare_batch(c) : PAWL_OK;
}

/* ---- both ----------------------------------------------------------------------------------- */

/* A rate that was a number, and is a schedule now: the state's may stand, as a changed value's. */
static pawl_status compare_kind(comparing *c, bool *same) {
    *same = c->wanted->kind == c->record->kind && c->wanted->per_rank == c->record->per_rank;
    if (*same) {
        return PAWL_OK;
    }
    write_sides(c, true);
    bool hyperparameter =
        c->wanted->role == PAWL_ROLE_HYPERPARAMETER && c->record->role == PAWL_ROLE_HYPERPARAMETER;
    bool caller = hyperparameter && c->m->options.hyperparameter == PAWL_POLICY_CALLER;
    c->verdict->keep_caller = caller;
    pawl_report_item item =
        item_of(c, PAWL_DIFF_KIND, caller ? PAWL_SEVERITY_WARNING : PAWL_SEVERITY_ERROR);
    const sentence_facts facts = {.used_side = caller ? "state" : NULL,
                                  .hyperparameter = hyperparameter};
    return add_difference(c, &item, &facts);
}

static void slot_text(char out[SIDE_BYTES], pawl_role role, const char *slot, const char *slot_of) {
    char text[2 * PAWL_MAX_NAME_BYTES + 32];
    if (!is_slot_role(role)) {
        snprintf(out, SIDE_BYTES, "no slot");
        return;
    }
    size_t n = (size_t)snprintf(text, sizeof(text), "slot \"%s\" of \"%s\"", slot, slot_of);
    memcpy(out, text, n < SIDE_BYTES ? n + 1 : SIDE_BYTES);
    if (n >= SIDE_BYTES) {
        text_cut(out, SIDE_BYTES);
    }
}

/* The same name, but another slot, or a slot of another variable: not the same thing. */
static pawl_status compare_slot(comparing *c) {
    const state_entry *wanted = c->wanted;
    const record_entry *record = c->record;
    bool both = is_slot_role(wanted->role) && is_slot_role(record->role);
    bool neither = !is_slot_role(wanted->role) && !is_slot_role(record->role);
    if (neither || (both && strcmp(wanted->slot, record->slot) == 0 &&
                    strcmp(wanted->slot_of, c->slot_of) == 0)) {
        return PAWL_OK;
    }
    slot_text(c->checkpoint, record->role, record->slot, c->slot_of);
    slot_text(c->state, wanted->role, wanted->slot, wanted->slot_of);
    pawl_report_item item = item_of(c, PAWL_DIFF_SLOT, PAWL_SEVERITY_ERROR);
    item.other_name = is_slot_role(wanted->role) ? wanted->slot_of : c->slot_of;
    TRY(add_difference(c, &item, &(sentence_facts){.slot = wanted->name}));
    return PAWL_OK;
}

pawl_status matcher_compare(matcher *m, const state_entry *wanted, const record_entry *record,
                            const char *slot_of, verdict *out, pawl_error *err) {
    *out = (verdict){.fits = true};
    comparing c; /* not cleared: its texts are large */
    c.m = m;
    c.wanted = wanted;
    c.record = record;
    c.slot_of = slot_of;
    c.verdict = out;
    c.err = err;
    bool same_kind = false;
    TRY(compare_kind(&c, &same_kind));
    if (!same_kind) {
        return PAWL_OK;
    }
    TRY(compare_slot(&c));
    return wanted->kind == PAWL_KIND_TENSOR ? compare_tensors(&c) : compare_pair_values(&c);
}
