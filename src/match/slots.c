/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports slots whose shape does not fit (R06). A slot may have any shape: a factored optimizer
 * keeps a row and a column for a matrix. Which shape it should have follows from the checkpoint
 * alone: the one that it was saved with, or that of its variable if it was saved with its
 * variable's shape.
 */
#include "match/matcher.h"
#include "match/side.h"

#include <string.h>

/* The record that differs from the state's entry at that place; NULL: none does. */
static const unfit_entry *unfit_at(const matcher *m, size_t place) {
    ptrdiff_t partner = m->partner[place];
    return partner < 0 ? &m->unfit[-partner - 1] : NULL;
}

typedef struct slot_owner {
    const state_entry *wanted; /* NULL: not a tensor that takes part */
    const unfit_entry *unlike; /* the checkpoint's, when its shape is another */
} slot_owner;

static slot_owner owner_of(const matcher *m, const state_entry *slot) {
    size_t place = 0;
    slot_owner v = {.wanted = state_snapshot_find(m->wanted, slot->slot_of, &place)};
    if (v.wanted != NULL) {
        const unfit_entry *unfit = unfit_at(m, place);
        v.unlike = unfit != NULL && unfit->other_shape ? unfit : NULL;
    }
    return v;
}

static bool shaped_like(int ndim, const int64_t *shape, const state_entry *e) {
    return e != NULL && shape_equal(ndim, shape, e->ndim, e->shape);
}

/* Reports a slot that was saved as `saved` (text: `checkpoint`) and is `slot` in the state. */
static pawl_status report_slot(matcher *m, const state_entry *slot, const char *saved,
                               const side *checkpoint, sentence_facts *facts,
                               const state_entry *owner, pawl_error *err) {
    char texts[3][SIDE_BYTES];
    side state = side_of_state(slot);
    pawl_report_item item = {.difference = PAWL_DIFF_SLOT,
                             .severity = PAWL_SEVERITY_ERROR,
                             .name = slot->name,
                             .other_name = slot->slot_of,
                             .checkpoint = side_text(texts[0], checkpoint, false),
                             .state = side_text(texts[1], &state, false),
                             .dimension = side_first_difference(checkpoint->ndim, checkpoint->shape,
                                                                state.ndim, state.shape),
                             .count = 1,
                             .saved_as = strcmp(saved, slot->name) == 0 ? NULL : saved};
    facts->slot = slot->slot;
    if (owner != NULL) {
        side text = side_of_state(owner);
        facts->variable_side = side_text(texts[2], &text, false);
    }
    return report_add_facts(m->report, &item, facts, err);
}

static pawl_status report_other_shape(matcher *m, const unfit_entry *unfit, pawl_error *err) {
    const state_entry *slot = m->wanted->entries[unfit->place];
    const loose_entry *saved = &unfit->record;
    slot_owner v = owner_of(m, slot);
    side checkpoint = {.kind = PAWL_KIND_TENSOR,
                       .dtype = saved->dtype,
                       .ndim = saved->ndim,
                       .shape = saved->shape};
    sentence_facts facts = {.variable = SLOT_VARIABLE_CHANGED};
    if (v.wanted != NULL && v.unlike == NULL) {
        bool had = shaped_like(saved->ndim, saved->shape, v.wanted);
        bool has = shaped_like(slot->ndim, slot->shape, v.wanted);
        facts.variable = had ? SLOT_HAD_ITS_SHAPE : has ? SLOT_HAS_ITS_SHAPE : SLOT_VARIABLE_SAME;
    }
    return report_slot(m, slot, saved->name, &checkpoint, &facts, v.wanted, err);
}

/* Reports a slot that has the shape it was saved with, its variable's at that time, while the
 * variable has another one now: the optimizer was not rebuilt with the model. */
static pawl_status report_stale(matcher *m, const match_pair *pair, pawl_error *err) {
    const state_entry *slot = pair->wanted;
    slot_owner v = owner_of(m, slot);
    if (v.unlike == NULL ||
        !shape_equal(slot->ndim, slot->shape, v.unlike->record.ndim, v.unlike->record.shape)) {
        return PAWL_OK;
    }
    side checkpoint = side_of_record(pair->source);
    sentence_facts facts = {.variable = SLOT_STALE};
    return report_slot(m, slot, pair->source->name, &checkpoint, &facts, v.wanted, err);
}

pawl_status matcher_slots(matcher *m, pawl_error *err) {
    bool variables = false;
    for (size_t i = 0; i < m->unfit_count; i++) {
        const unfit_entry *unfit = &m->unfit[i];
        bool slot = m->wanted->entries[unfit->place]->role == PAWL_ROLE_SLOT;
        if (unfit->other_shape && slot) {
            TRY(report_other_shape(m, unfit, err));
        }
        variables = variables || (unfit->other_shape && !slot);
    }
    for (size_t i = 0; variables && i < m->match->pair_count; i++) {
        const match_pair *pair = &m->match->pairs[i];
        if (pair->wanted->role == PAWL_ROLE_SLOT && pair->wanted->kind == PAWL_KIND_TENSOR) {
            TRY(report_stale(m, pair, err));
        }
    }
    return PAWL_OK;
}
