/* SPDX-License-Identifier: Apache-2.0 */
/* Every difference has its remedies here, and nowhere else. */
#include "match/remedy.h"

#include <string.h>

#define OPTION_ALLOW(name, ...)                                                                    \
    { .option = name, .policy = PAWL_POLICY_ALLOW, .value = "allow", __VA_ARGS__ }
#define OPTION_CALLER(name, ...)                                                                   \
    { .option = name, .policy = PAWL_POLICY_CALLER, .value = "caller", __VA_ARGS__ }
#define MODEL_ONLY                                                                                 \
    { .option = "model_only", .value = "1", .effect = "restore the model alone" }

static const pawl_remedy model_only[] = {MODEL_ONLY};
static const pawl_remedy cast[] = {OPTION_ALLOW("cast", .effect = "convert it")};
static const pawl_remedy missing[] = {OPTION_ALLOW("missing", .effect = "keep the state's value")};
static const pawl_remedy unexpected[] = {OPTION_ALLOW("unexpected", .effect = "leave it out")};
static const pawl_remedy unexpected_there[] = {
    OPTION_ALLOW("unexpected", .effect = "leave it out there")};
static const pawl_remedy taken_out[] = {OPTION_ALLOW(
    "unexpected", .before = "take the entry out of the state", .effect = "leave it out")};
static const pawl_remedy slot_missing[] = {
    MODEL_ONLY, OPTION_ALLOW("missing", .effect = "keep the state's value")};
static const pawl_remedy slot_unexpected[] = {MODEL_ONLY,
                                              OPTION_ALLOW("unexpected", .effect = "leave it out")};
static const pawl_remedy hyperparameter[] = {
    {.option = "hyperparameter",
     .policy = PAWL_POLICY_CHECKPOINT,
     .value = "checkpoint",
     .effect = "take the checkpoint's value"},
    OPTION_CALLER("hyperparameter", .effect = "keep the state's")};
static const pawl_remedy keep_hyperparameter[] = {
    OPTION_CALLER("hyperparameter", .effect = "keep the state's")};
static const pawl_remedy batch[] = {OPTION_ALLOW("batch", .effect = "go on with other batches")};
static const pawl_remedy per_rank[] = {
    OPTION_ALLOW("per_rank", .effect = "take a rank's own where it was saved"),
    OPTION_CALLER("per_rank", .effect = "keep the state's on all ranks")};

#define REMEDIES(item, list)                                                                       \
    do {                                                                                           \
        (item)->remedies = (list);                                                                 \
        (item)->remedy_count = ARRAY_LENGTH(list);                                                 \
    } while (0)

/* Of "[64, 10] F32". */
static bool side_castable(const char *side) {
    const char *space = side == NULL ? NULL : strrchr(side, ' ');
    return space != NULL && dtype_castable(pawl_dtype_from_name(space + 1));
}

static void find_dtype(pawl_report_item *item) {
    if (side_castable(item->checkpoint) && side_castable(item->state)) {
        REMEDIES(item, cast);
    } else {
        item->change = "only F64, F32, F16 and BF16 are converted into each other: give the state "
                       "the checkpoint's dtype";
    }
}

static void find_slot(pawl_report_item *item, const sentence_facts *facts) {
    if (item->checkpoint == NULL) {
        REMEDIES(item, slot_missing);
        return;
    }
    if (item->state == NULL) {
        REMEDIES(item, slot_unexpected);
        return;
    }
    REMEDIES(item, model_only);
    if (facts->variable == SLOT_STALE) {
        item->change = "rebuild the optimizer for the model";
    } else if (facts->variable >= SLOT_VARIABLE_SAME) {
        item->change = "build the optimizer with the settings that it was saved with";
    }
}

/* Of an error. */
static void find_error(pawl_report_item *item, const sentence_facts *facts) {
    switch (item->difference) {
    case PAWL_DIFF_SHAPE:
        item->change = "build the model with the checkpoint's shape";
        REMEDIES(item, taken_out);
        break;
    case PAWL_DIFF_DTYPE:
        find_dtype(item);
        break;
    case PAWL_DIFF_MISSING:
        REMEDIES(item, missing);
        break;
    case PAWL_DIFF_UNEXPECTED:
        REMEDIES(item, unexpected);
        break;
    case PAWL_DIFF_RENAMED:
        item->change = "correct the rename rules";
        break;
    case PAWL_DIFF_OPTIMIZER:
        REMEDIES(item, model_only);
        break;
    case PAWL_DIFF_SLOT:
        find_slot(item, facts);
        break;
    case PAWL_DIFF_HYPERPARAMETER:
        REMEDIES(item, hyperparameter);
        break;
    case PAWL_DIFF_KIND:
        item->change = "give the state's entry the checkpoint's kind";
        REMEDIES(item, taken_out);
        break;
    case PAWL_DIFF_BATCH:
        item->change = "feed the batches that the checkpoint was trained with";
        REMEDIES(item, batch);
        break;
    case PAWL_DIFF_RANKS:
        item->change = "restore with as many ranks";
        REMEDIES(item, per_rank);
        break;
    }
}

/* In a job: some ranks have it, and others lack it. */
static pawl_status find_lacking(pawl_report_item *item, const plan_job_fault *fault, arena *memory,
                                pawl_error *err) {
    static const char begin[] = "add it on ";
    size_t bytes = sizeof(begin) + strlen(fault->lacking);
    char *change = arena_alloc(memory, bytes);
    if (change == NULL) {
        return error_nomem(err, bytes);
    }
    memcpy(change, begin, sizeof(begin) - 1);
    memcpy(change + sizeof(begin) - 1, fault->lacking, strlen(fault->lacking) + 1);
    item->change = change;
    REMEDIES(item, unexpected_there);
    return PAWL_OK;
}

/* Of names that changed: the rules, and what else is needed. */
static pawl_status find_renames(pawl_report_item *item, const sentence_facts *facts, arena *memory,
                                pawl_error *err) {
    size_t count = facts->rename_count + (facts->needs_cast ? 1 : 0);
    pawl_remedy *remedies = arena_alloc(memory, count * sizeof(*remedies));
    if (remedies == NULL) {
        return error_nomem(err, count * sizeof(*remedies));
    }
    for (size_t i = 0; i < facts->rename_count; i++) {
        remedies[i] = (pawl_remedy){.option = "renames",
                                    .from = arena_strdup(memory, facts->renames[i].from),
                                    .to = arena_strdup(memory, facts->renames[i].to)};
        if (remedies[i].from == NULL || remedies[i].to == NULL) {
            return error_nomem(err, strlen(facts->renames[i].from));
        }
    }
    if (facts->needs_cast) {
        remedies[count - 1] = cast[0];
        remedies[count - 1].effect = "convert what has another dtype";
    }
    if (item->severity == PAWL_SEVERITY_WARNING) {
        item->change = count > 0 ? "compare the two models, and if their entries were renumbered"
                                 : "compare the two models before you allow what is missing or "
                                   "unexpected";
    }
    item->remedies = remedies;
    item->remedy_count = count;
    return PAWL_OK;
}

pawl_status remedy_find(pawl_report_item *item, const sentence_facts *facts, arena *memory,
                        pawl_error *err) {
    bool is_error = item->severity == PAWL_SEVERITY_ERROR;
    item->change = NULL;
    item->remedies = NULL;
    item->remedy_count = 0;
    if (facts->fault != NULL && facts->fault->error != PLAN_NOBODY) {
        return find_lacking(item, facts->fault, memory, err);
    }
    if (item->difference == PAWL_DIFF_RENAMED && !is_error) {
        return find_renames(item, facts, memory, err);
    }
    if (is_error) {
        find_error(item, facts);
    } else if (item->difference == PAWL_DIFF_HYPERPARAMETER && facts->stands != NULL &&
               strcmp(facts->stands, "checkpoint") == 0) {
        REMEDIES(item, keep_hyperparameter);
    }
    return PAWL_OK;
}
