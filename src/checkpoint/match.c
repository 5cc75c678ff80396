/* SPDX-License-Identifier: Apache-2.0 */
/* What restoring a state from a checkpoint would report. */
#include "checkpoint/private.h"
#include "checkpoint/restore.h"

static uint64_t value_bytes(const candidate *a, const record_entry *source) {
    if (source->value != NULL) {
        return source->value_bytes;
    }
    const record_piece *piece = source->per_rank ? record_piece_of_rank(source, a->all->rank)
                                : source->piece_count > 0 ? &source->pieces[0]
                                                          : NULL;
    return piece != NULL ? piece->bytes : 0;
}

static void count_matched(const candidate *a, pawl_report *report) {
    pawl_report_counts *counts = report_counts(report);
    uint64_t values = 0;
    for (size_t i = 0; i < a->match->pair_count; i++) {
        const match_pair *pair = &a->match->pairs[i];
        if (pair->keep_caller) {
            continue;
        }
        counts->restored++;
        if (pair->wanted->kind == PAWL_KIND_TENSOR) {
            counts->cast += pair->wanted->dtype != pair->source->dtype;
        } else {
            values += value_bytes(a, pair->source);
        }
    }
    counts->bytes = restore_wanted_bytes(a) + values;
}

pawl_status checkpoint_match(pawl_checkpoint *c, pawl_state *state,
                             const pawl_restore_options *options, int rank, int world_size,
                             pawl_report **report, pawl_error *err) {
    interrupt stop = restore_interrupt(options);
    CLEANUP(restoration_free)
    restoration all = {.state = state,
                       .stop = &stop,
                       .options = options,
                       .rank = rank,
                       .world_size = world_size,
                       .report_wanted = true,
                       .only_match = true};
    *report = NULL;
    pawl_status status = restore_check_held(c, err);
    if (status == PAWL_OK) {
        status = restore_match(&all, c, err);
    }
    if (status == PAWL_OK) {
        count_matched(&all.now, all.report);
        status = report_finish(all.report, err);
    }
    if (status != PAWL_OK) {
        error_wrap(err, "restoring %s", c->source->label);
    }
    restore_take_back(&all);
    restore_end(&all, status, report);
    return status;
}
