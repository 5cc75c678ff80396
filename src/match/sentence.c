/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the sentence about a difference: what differs, and what to do. No other file words a
 * difference. */
#include "match/sentence.h"

#include <inttypes.h>
#include <string.h>

#define MAX_RULES_SHOWN 3 /* of a difference; all of them are in its remedies */

static const char *const difference_names[] = {
    [PAWL_DIFF_SHAPE] = "shape",     [PAWL_DIFF_DTYPE] = "dtype",
    [PAWL_DIFF_MISSING] = "missing", [PAWL_DIFF_UNEXPECTED] = "unexpected",
    [PAWL_DIFF_RENAMED] = "renamed", [PAWL_DIFF_OPTIMIZER] = "optimizer",
    [PAWL_DIFF_SLOT] = "slot",       [PAWL_DIFF_HYPERPARAMETER] = "hyperparameter",
    [PAWL_DIFF_KIND] = "kind",       [PAWL_DIFF_BATCH] = "batch",
    [PAWL_DIFF_RANKS] = "ranks",
};

const char *difference_name(pawl_difference difference) {
    size_t i = (size_t)difference;
    bool known = i < ARRAY_LENGTH(difference_names) && difference_names[i] != NULL;
    return known ? difference_names[i] : "unknown";
}

const char *severity_name(pawl_severity severity) {
    switch (severity) {
    case PAWL_SEVERITY_NOTE:
        return "note";
    case PAWL_SEVERITY_WARNING:
        return "warning";
    default:
        return "error";
    }
}

static const char *text_or(const char *text, const char *otherwise) {
    return text == NULL ? otherwise : text;
}

static bool is_error(const pawl_report_item *item) {
    return item->severity == PAWL_SEVERITY_ERROR;
}

/* ---- what differs --------------------------------------------------------------------------- */

typedef struct words {
    const pawl_report_item *item;
    const sentence_facts *facts;
    const char *name, *other, *checkpoint, *state;
    buffer *out;
    pawl_error *err;
} words;

static pawl_status say_name(const words *w) {
    TRY(buffer_printf(w->out, w->err, "\"%s\"", w->name));
    return w->item->saved_as == NULL
               ? PAWL_OK
               : buffer_printf(w->out, w->err, " (saved as \"%s\")", w->item->saved_as);
}

static pawl_status both_sides(const words *w) {
    TRY(say_name(w));
    return buffer_printf(w->out, w->err, " is %s in the checkpoint and %s in the state",
                         w->checkpoint, w->state);
}

static pawl_status describe_shape(const words *w) {
    TRY(both_sides(w));
    if (w->item->dimension < 0) {
        return buffer_printf(w->out, w->err, ": the number of dimensions differs");
    }
    return buffer_printf(w->out, w->err, ": dimension %d differs", w->item->dimension);
}

static pawl_status describe_dtype(const words *w) {
    TRY(both_sides(w));
    return is_error(w->item) ? PAWL_OK : buffer_printf(w->out, w->err, ": it is converted");
}

static pawl_status describe_missing(const words *w) {
    return buffer_printf(w->out, w->err, "\"%s\", %s in the state, is not in the checkpoint%s",
                         w->name, w->state, is_error(w->item) ? "" : ": the state's value is kept");
}

/* Written after the entry's name: what the checkpoint has, and whose state lacks it. */
static pawl_status describe_lacking(const words *w) {
    const match_job_fault *fault = w->facts->fault;
    TRY(buffer_printf(w->out, w->err, ", %s in the checkpoint, is ", w->checkpoint));
    if (fault == NULL) {
        return buffer_printf(w->out, w->err, "not in the state%s",
                             is_error(w->item) ? "" : ": it is left out");
    }
    switch (fault->error) {
    case MATCH_NOT_ALL:
        return buffer_printf(
            w->out, w->err,
            "in the state of %s, declared as the same on all ranks, but not in that "
            "of %s",
            fault->holding, fault->lacking);
    case MATCH_NOT_WHOLE:
        return buffer_printf(w->out, w->err,
                             "only in part in the state of %s, and not in that of %s",
                             fault->holding, fault->lacking);
    case MATCH_NOBODY:
    default:
        return buffer_printf(w->out, w->err, "not in the state of any of the %d ranks",
                             w->facts->world_size);
    }
}

static pawl_status describe_unexpected(const words *w) {
    TRY(say_name(w));
    return describe_lacking(w);
}

/* "a" -> "b", "c" -> "d" and 10 more */
static pawl_status say_rules(const words *w) {
    const sentence_facts *f = w->facts;
    size_t shown = f->rename_count > MAX_RULES_SHOWN + 1 ? MAX_RULES_SHOWN : f->rename_count;
    for (size_t i = 0; i < shown; i++) {
        TRY(buffer_printf(w->out, w->err, "%s\"%s\" -> \"%s\"", i > 0 ? ", " : "",
                          f->renames[i].from, f->renames[i].to));
    }
    return shown == f->rename_count
               ? PAWL_OK
               : buffer_printf(w->out, w->err, " and %zu more", f->rename_count - shown);
}

static pawl_status describe_numbers(const words *w) {
    if (w->facts->rename_count == 0) {
        return buffer_printf(w->out, w->err,
                             "renumbered? \"%s\" is only in the checkpoint and \"%s\" only in the "
                             "state; entries whose names differ from these in numbers alone match "
                             "by name, but may have been renumbered, too",
                             w->name, w->other);
    }
    TRY(buffer_printf(w->out, w->err, "renumbered? "));
    TRY(say_rules(w));
    return buffer_printf(w->out, w->err,
                         " would pair %" PRIu64 " entries; their names differ in numbers alone, so "
                         "those that match by name may have been renumbered, too",
                         w->item->count);
}

static pawl_status describe_renamed(const words *w) {
    uint64_t count = w->item->count;
    if (is_error(w->item)) {
        return buffer_printf(w->out, w->err,
                             "\"%s\" and \"%s\" of the checkpoint both become \"%s\" by the rename "
                             "rules",
                             text_or(w->item->saved_as, "another entry"), w->name, w->other);
    }
    if (w->item->severity == PAWL_SEVERITY_WARNING) {
        return describe_numbers(w);
    }
    TRY(buffer_printf(w->out, w->err, "renamed? %" PRIu64 "%s %s after ", count,
                      w->facts->or_more ? " or more" : "",
                      count == 1 ? "entry matches" : "entries match"));
    return say_rules(w);
}

/* Whose value is used, where that is decided. */
static pawl_status describe_used_side(const words *w) {
    if (w->facts->used_side == NULL) {
        return PAWL_OK;
    }
    return buffer_printf(w->out, w->err, ": the %s's value is used", w->facts->used_side);
}

static pawl_status describe_optimizer(const words *w) {
    TRY(buffer_printf(w->out, w->err,
                      "the optimizer changed from %s in the checkpoint to %s in the state",
                      w->checkpoint, w->state));
    uint64_t unexpected = w->facts->slots_unexpected;
    uint64_t missing = w->facts->slots_missing;
    if (unexpected > 0 || missing > 0) {
        TRY(buffer_printf(w->out, w->err,
                          " (%" PRIu64 " slot%s in the checkpoint only, %" PRIu64
                          " in the state only)",
                          unexpected, unexpected == 1 ? "" : "s", missing));
    }
    return describe_used_side(w);
}

/* Written after both sides of a slot. */
static pawl_status describe_variable(const words *w, const char *variable) {
    static const char *const endings[] = {
        [SLOT_VARIABLE_CHANGED] = "",
        [SLOT_VARIABLE_SAME] = " in both",
        [SLOT_HAD_ITS_SHAPE] = " in both: the slot was saved with its variable's shape",
        [SLOT_HAS_ITS_SHAPE] = " in both: the slot was saved with another shape than its variable",
    };
    return buffer_printf(w->out, w->err, ", where its variable is %s%s", variable,
                         endings[w->facts->variable]);
}

static pawl_status describe_slot(const words *w) {
    const pawl_report_item *item = w->item;
    TRY(buffer_printf(w->out, w->err, "the optimizer slot \"%s\" of \"%s\"",
                      text_or(w->facts->slot, w->name), w->other));
    if (item->saved_as != NULL) {
        TRY(buffer_printf(w->out, w->err, " (saved as \"%s\")", item->saved_as));
    }
    if (item->checkpoint == NULL) {
        return buffer_printf(w->out, w->err, ", %s in the state, is not in the checkpoint%s",
                             w->state, is_error(item) ? "" : ": the state's value is kept");
    }
    if (item->state == NULL) {
        return describe_lacking(w);
    }
    const char *variable = w->facts->variable_side;
    if (w->facts->variable == SLOT_OTHER_DTYPE) {
        return buffer_printf(w->out, w->err, " is %s in the checkpoint and %s in the state%s",
                             w->checkpoint, w->state, is_error(item) ? "" : ": it is converted");
    }
    if (w->facts->variable == SLOT_STALE) {
        return buffer_printf(
            w->out, w->err,
            " is %s, as its variable was when it was saved; the variable is %s now, "
            "so the slot does not fit it",
            w->state, text_or(variable, "another"));
    }
    TRY(buffer_printf(w->out, w->err, " is %s in the checkpoint and %s in the state", w->checkpoint,
                      w->state));
    return variable == NULL ? PAWL_OK : describe_variable(w, variable);
}

static pawl_status describe_hyperparameter(const words *w) {
    TRY(both_sides(w));
    return describe_used_side(w);
}

static pawl_status describe_kinds(const words *w) {
    return buffer_printf(w->out, w->err,
                         "\"%s\" is of another kind: %s in the checkpoint, %s in the state%s",
                         w->name, w->checkpoint, w->state,
                         w->facts->used_side != NULL ? ": the state's value is used" : "");
}

static pawl_status describe_batch(const words *w) {
    TRY(buffer_printf(w->out, w->err, "the batches changed: "));
    TRY(both_sides(w));
    return describe_used_side(w);
}

static pawl_status describe_ranks(const words *w) {
    const char *ranks = w->facts->ranks;
    return buffer_printf(
        w->out, w->err,
        "each rank has its own \"%s\": the checkpoint is of %s, the state of %s%s%s", w->name,
        w->checkpoint, w->state, ranks != NULL ? ": " : "", text_or(ranks, ""));
}

typedef pawl_status (*describer)(const words *w);
static const describer describers[] = {
    [PAWL_DIFF_SHAPE] = describe_shape,     [PAWL_DIFF_DTYPE] = describe_dtype,
    [PAWL_DIFF_MISSING] = describe_missing, [PAWL_DIFF_UNEXPECTED] = describe_unexpected,
    [PAWL_DIFF_RENAMED] = describe_renamed, [PAWL_DIFF_OPTIMIZER] = describe_optimizer,
    [PAWL_DIFF_SLOT] = describe_slot,       [PAWL_DIFF_HYPERPARAMETER] = describe_hyperparameter,
    [PAWL_DIFF_KIND] = describe_kinds,      [PAWL_DIFF_BATCH] = describe_batch,
    [PAWL_DIFF_RANKS] = describe_ranks,
};

/* ---- what to do ----------------------------------------------------------------------------- */

static const char *policy_word(pawl_policy policy) {
    switch (policy) {
    case PAWL_POLICY_ERROR:
        return "PAWL_POLICY_ERROR";
    case PAWL_POLICY_ALLOW:
        return "PAWL_POLICY_ALLOW";
    case PAWL_POLICY_CHECKPOINT:
        return "PAWL_POLICY_CHECKPOINT";
    case PAWL_POLICY_CALLER:
        return "PAWL_POLICY_CALLER";
    default:
        return "PAWL_POLICY_DEFAULT";
    }
}

/* Options are named in this form everywhere. */
pawl_status sentence_option(const pawl_remedy *remedy, buffer *out, pawl_error *err) {
    bool policy = remedy->policy != PAWL_POLICY_DEFAULT;
    return buffer_printf(out, err, "%s%sset options.%s = %s to %s", text_or(remedy->before, ""),
                         remedy->before != NULL ? " and " : "", remedy->option,
                         policy ? policy_word(remedy->policy) : remedy->value, remedy->effect);
}

/* The rules stand first among the remedies. */
static size_t count_rules(const pawl_report_item *item) {
    size_t count = 0;
    while (count < item->remedy_count && item->remedies[count]->from != NULL) {
        count++;
    }
    return count;
}

/* add {"a", "b"}, {"c", "d"} to options.renames, all of them */
static pawl_status say_renames(const pawl_report_item *item, buffer *out, pawl_error *err) {
    size_t count = count_rules(item);
    size_t shown = count > MAX_RULES_SHOWN + 1 ? MAX_RULES_SHOWN : count;
    TRY(buffer_printf(out, err, "add "));
    for (size_t i = 0; i < shown; i++) {
        TRY(buffer_printf(out, err, "%s{\"%s\", \"%s\"}", i > 0 ? ", " : "",
                          item->remedies[i]->from, item->remedies[i]->to));
    }
    if (shown < count) {
        TRY(buffer_printf(out, err, " and the %zu more of this difference's remedies",
                          count - shown));
    }
    TRY(buffer_printf(out, err, " to options.renames%s", count > 1 ? ", all of them" : ""));
    if (count < item->remedy_count) {
        TRY(buffer_printf(out, err, ", and "));
        return sentence_option(item->remedies[count], out, err);
    }
    return PAWL_OK;
}

pawl_status sentence_advise(const pawl_report_item *item, buffer *out, pawl_error *err) {
    bool together = item->difference == PAWL_DIFF_RENAMED;
    if (item->change == NULL && item->remedy_count == 0) {
        return PAWL_OK;
    }
    TRY(buffer_printf(out, err, "; %s", text_or(item->change, "")));
    const char *comma = item->change == NULL ? "" : together ? ", " : ", or ";
    if (together) {
        TRY(buffer_printf(out, err, "%s", item->remedy_count > 0 ? comma : ""));
        return item->remedy_count > 0 ? say_renames(item, out, err) : PAWL_OK;
    }
    for (size_t i = 0; i < item->remedy_count; i++) {
        TRY(buffer_printf(out, err, "%s", comma));
        TRY(sentence_option(item->remedies[i], out, err));
        comma = ", or ";
    }
    return PAWL_OK;
}

pawl_status sentence_write(const pawl_report_item *item, const sentence_facts *facts, buffer *out,
                           size_t *description, pawl_error *err) {
    words w = {.item = item,
               .facts = facts,
               .name = text_or(item->name, ""),
               .other = text_or(item->other_name, ""),
               .checkpoint = text_or(item->checkpoint, "absent"),
               .state = text_or(item->state, "absent"),
               .out = out,
               .err = err};
    size_t begin = out->size;
    TRY(describers[item->difference](&w));
    *description = out->size - begin;
    return sentence_advise(item, out, err);
}
