/* SPDX-License-Identifier: Apache-2.0 */
/* Every difference has its words here, and nowhere else. */
#include "plan/sentence.h"

#include <inttypes.h>
#include <string.h>

#define MODEL_ONLY "restore the model alone with --model-only (options.model_only)"

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

static pawl_status both_sides(const words *w) {
    return buffer_printf(w->out, w->err, "\"%s\" is %s in the checkpoint and %s in the state",
                         w->name, w->checkpoint, w->state);
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

/* Behind what is in the checkpoint: whose state lacks it. */
static pawl_status describe_lacking(const words *w) {
    const plan_job_fault *fault = w->facts->fault;
    TRY(buffer_printf(w->out, w->err, ", %s in the checkpoint, is ", w->checkpoint));
    if (fault == NULL) {
        return buffer_printf(w->out, w->err, "not in the state%s",
                             is_error(w->item) ? "" : ": it is left out");
    }
    switch (fault->error) {
    case PLAN_NOT_ALL:
        return buffer_printf(w->out, w->err,
                             "in the state of %s, as what all ranks have, and not in that of %s",
                             fault->holding, fault->lacking);
    case PLAN_NOT_WHOLE:
        return buffer_printf(w->out, w->err,
                             "only in part in the state of %s, and not in that of %s",
                             fault->holding, fault->lacking);
    case PLAN_NOBODY:
    default:
        return buffer_printf(w->out, w->err, "not in the state of any of the %d ranks",
                             w->facts->world_size);
    }
}

static pawl_status describe_unexpected(const words *w) {
    TRY(buffer_printf(w->out, w->err, "\"%s\"", w->name));
    return describe_lacking(w);
}

static pawl_status describe_renamed(const words *w) {
    uint64_t count = w->item->count;
    if (is_error(w->item)) {
        return buffer_printf(
            w->out, w->err,
            "\"%s\" of the checkpoint becomes \"%s\" by the rename rules, as another "
            "entry of the checkpoint does",
            w->name, w->other);
    }
    return buffer_printf(w->out, w->err, "renamed? %" PRIu64 "%s %s after \"%s\" -> \"%s\"", count,
                         w->facts->or_more ? " or more" : "",
                         count == 1 ? "entry matches" : "entries match", w->name, w->other);
}

/* A changed value, and whose stands where that is decided. */
static pawl_status describe_stands(const words *w) {
    if (w->facts->stands == NULL) {
        return PAWL_OK;
    }
    return buffer_printf(w->out, w->err, ": the %s's value stands", w->facts->stands);
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
    return describe_stands(w);
}

static pawl_status describe_slot(const words *w) {
    const pawl_report_item *item = w->item;
    TRY(buffer_printf(w->out, w->err, "the optimizer slot \"%s\" of \"%s\"",
                      text_or(w->facts->slot, w->name), w->other));
    if (item->checkpoint == NULL) {
        return buffer_printf(w->out, w->err, ", %s in the state, is not in the checkpoint%s",
                             w->state, is_error(item) ? "" : ": the state's value is kept");
    }
    if (item->state == NULL) {
        return describe_lacking(w);
    }
    TRY(buffer_printf(w->out, w->err, " is %s in the checkpoint and %s in the state", w->checkpoint,
                      w->state));
    if (w->facts->variable_side == NULL) {
        return PAWL_OK;
    }
    return buffer_printf(w->out, w->err, ", where its variable is %s", w->facts->variable_side);
}

static pawl_status describe_hyperparameter(const words *w) {
    TRY(both_sides(w));
    return describe_stands(w);
}

static pawl_status describe_kind(const words *w) {
    return buffer_printf(w->out, w->err,
                         "\"%s\" is of another kind: %s in the checkpoint, %s in the state",
                         w->name, w->checkpoint, w->state);
}

static pawl_status describe_batch(const words *w) {
    TRY(buffer_printf(w->out, w->err, "the batches changed: "));
    TRY(both_sides(w));
    return describe_stands(w);
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
    [PAWL_DIFF_KIND] = describe_kind,       [PAWL_DIFF_BATCH] = describe_batch,
    [PAWL_DIFF_RANKS] = describe_ranks,
};

/* ---- what to do ----------------------------------------------------------------------------- */

/* Of "[64, 10] F32". */
static bool side_castable(const char *side) {
    const char *space = side == NULL ? NULL : strrchr(side, ' ');
    return space != NULL && dtype_castable(pawl_dtype_from_name(space + 1));
}

static const char *advise_dtype(const pawl_report_item *item) {
    if (side_castable(item->checkpoint) && side_castable(item->state)) {
        return "pass --cast=allow to convert it (options.cast)";
    }
    return "only F64, F32, F16 and BF16 are converted into each other: give the state the "
           "checkpoint's dtype";
}

static const char *advise_slot(const pawl_report_item *item) {
    if (item->checkpoint == NULL) {
        return MODEL_ONLY ", or pass --missing=allow to keep the state's value (options.missing)";
    }
    if (item->state == NULL) {
        return MODEL_ONLY ", or pass --unexpected=allow to leave it out (options.unexpected)";
    }
    return MODEL_ONLY;
}

/* Of an error. NULL: the words are not fixed. */
static const char *advise(const pawl_report_item *item) {
    switch (item->difference) {
    case PAWL_DIFF_SHAPE:
        return "build the model with the checkpoint's shape, or leave the entry out of the state "
               "and pass --unexpected=allow (options.unexpected)";
    case PAWL_DIFF_DTYPE:
        return advise_dtype(item);
    case PAWL_DIFF_MISSING:
        return "pass --missing=allow to keep the state's value (options.missing)";
    case PAWL_DIFF_UNEXPECTED:
        return "pass --unexpected=allow to leave it out (options.unexpected)";
    case PAWL_DIFF_RENAMED:
        return "mend the rename rules (options.renames)";
    case PAWL_DIFF_OPTIMIZER:
        return MODEL_ONLY;
    case PAWL_DIFF_SLOT:
        return advise_slot(item);
    case PAWL_DIFF_HYPERPARAMETER:
        return "pass --hyperparameter=checkpoint or --hyperparameter=caller to say whose value "
               "stands (options.hyperparameter)";
    case PAWL_DIFF_KIND:
        return "give the state's entry the checkpoint's kind, or leave it out of the state and "
               "pass --unexpected=allow (options.unexpected)";
    case PAWL_DIFF_BATCH:
        return "feed the batches that the checkpoint was trained with, or pass --batch=allow "
               "(options.batch)";
    case PAWL_DIFF_RANKS:
        return "restore with as many ranks, or pass --per-rank=allow to take a rank's own where it "
               "was saved, or --per-rank=caller to keep the state's on all ranks "
               "(options.per_rank)";
    default:
        return NULL;
    }
}

static pawl_status write_advice(const words *w) {
    const pawl_report_item *item = w->item;
    if (w->facts->fault != NULL && w->facts->fault->error != PLAN_NOBODY) {
        return buffer_printf(w->out, w->err,
                             "; add it on %s, or pass --unexpected=allow there "
                             "(options.unexpected)",
                             w->facts->fault->lacking);
    }
    if (is_error(item)) {
        return buffer_printf(w->out, w->err, "; %s", advise(item));
    }
    if (item->difference == PAWL_DIFF_RENAMED) {
        return buffer_printf(w->out, w->err, "; pass --rename %s=%s (options.renames)", w->name,
                             w->other);
    }
    bool checkpoint_stands =
        w->facts->stands != NULL && strcmp(w->facts->stands, "checkpoint") == 0;
    if (item->difference == PAWL_DIFF_HYPERPARAMETER && checkpoint_stands) {
        return buffer_printf(w->out, w->err,
                             "; pass --hyperparameter=caller to keep the state's "
                             "(options.hyperparameter)");
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
    return write_advice(&w);
}
