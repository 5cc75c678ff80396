/* SPDX-License-Identifier: Apache-2.0 */
/* The remedies of every kind of difference: what a user may change or allow. */
#include "match/remedy.h"

#include <string.h>

/* The size stands before the first member of each, so that none can lack it. */
#define REMEDY(name, ...)                                                                          \
    { .struct_size = sizeof(pawl_remedy), .remain = -1, .option = (name), __VA_ARGS__ }
#define OPTION_ALLOW(name, ...)                                                                    \
    REMEDY(name, .policy = PAWL_POLICY_ALLOW, .value = "allow", __VA_ARGS__)
#define OPTION_CALLER(name, ...)                                                                   \
    REMEDY(name, .policy = PAWL_POLICY_CALLER, .value = "caller", __VA_ARGS__)

static const pawl_remedy just_model =
    REMEDY("model_only", .value = "1", .effect = "restore the model alone");
static const pawl_remedy convert = OPTION_ALLOW("cast", .effect = "convert it");
static const pawl_remedy keep_missing = OPTION_ALLOW("missing", .effect = "keep the state's value");
static const pawl_remedy leave_out = OPTION_ALLOW("unexpected", .effect = "leave it out");
static const pawl_remedy leave_out_there =
    OPTION_ALLOW("unexpected", .effect = "leave it out there");
static const pawl_remedy take_out = OPTION_ALLOW(
    "unexpected", .before = "take the entry out of the state", .effect = "leave it out");
static const pawl_remedy take_checkpoints =
    REMEDY("hyperparameter", .policy = PAWL_POLICY_CHECKPOINT, .value = "checkpoint",
           .effect = "take the checkpoint's value");
static const pawl_remedy keep_states =
    OPTION_CALLER("hyperparameter", .effect = "keep the state's");
static const pawl_remedy other_batches =
    OPTION_ALLOW("batch", .effect = "go on with other batches");
static const pawl_remedy own_values =
    OPTION_ALLOW("per_rank", .effect = "restore each rank's own value where it was saved");
static const pawl_remedy states_values =
    OPTION_CALLER("per_rank", .effect = "keep the state's values on all ranks");

static const pawl_remedy *const model_only[] = {&just_model};
static const pawl_remedy *const cast[] = {&convert};
static const pawl_remedy *const missing[] = {&keep_missing};
static const pawl_remedy *const unexpected[] = {&leave_out};
static const pawl_remedy *const unexpected_there[] = {&leave_out_there};
static const pawl_remedy *const taken_out[] = {&take_out};
static const pawl_remedy *const kept_kind[] = {&keep_states, &take_out};
static const pawl_remedy *const slot_cast[] = {&convert, &just_model};
static const pawl_remedy *const slot_missing[] = {&just_model, &keep_missing};
static const pawl_remedy *const slot_unexpected[] = {&just_model, &leave_out};
static const pawl_remedy *const hyperparameter[] = {&take_checkpoints, &keep_states};
static const pawl_remedy *const keep_hyperparameter[] = {&keep_states};
static const pawl_remedy *const batch[] = {&other_batches};
static const pawl_remedy *const per_rank[] = {&own_values, &states_values};

#define REMEDIES(item, list)                                                                       \
    do {                                                                                           \
        (item)->remedies = (list);                                                                 \
        (item)->remedy_count = ARRAY_LENGTH(list);                                                 \
    } while (0)

/* `side`: as side_text writes it, such as "[64, 10] F32". */
static bool side_castable(const char *side) {
    const char *space = side == NULL ? NULL : strrchr(side, ' ');
    return space != NULL && dtype_castable(pawl_dtype_from_name(space + 1));
}

static const char *const give_dtype =
    "only F64, F32, F16 and BF16 are converted into each other: give the state the checkpoint's "
    "dtype";

static void find_dtype_remedy(pawl_report_item *item) {
    if (side_castable(item->checkpoint) && side_castable(item->state)) {
        REMEDIES(item, cast);
    } else {
        item->change = give_dtype;
    }
}

static void find_slot_remedy(pawl_report_item *item, const sentence_facts *facts) {
    if (item->checkpoint == NULL) {
        REMEDIES(item, slot_missing);
        return;
    }
    if (item->state == NULL) {
        REMEDIES(item, slot_unexpected);
        return;
    }
    REMEDIES(item, model_only);
    if (facts->variable == SLOT_OTHER_DTYPE) {
        if (side_castable(item->checkpoint) && side_castable(item->state)) {
            REMEDIES(item, slot_cast);
        } else {
            item->change = give_dtype;
        }
    } else if (facts->variable == SLOT_VARIABLE_UNKNOWN) {
        item->change = "give the state's entry the role, the slot and the variable that it was "
                       "saved with";
    } else if (facts->variable == SLOT_STALE) {
        item->change = "rebuild the optimizer for the model";
    } else if (facts->variable == SLOT_VARIABLE_CHANGED) {
        item->change = "build the optimizer for the model, once that has the checkpoint's shape";
    } else if (facts->variable >= SLOT_VARIABLE_SAME) {
        item->change = "build the optimizer with the settings that it was saved with";
    }
}

/* Of a difference that is an error. */
static void find_error_remedy(pawl_report_item *item, const sentence_facts *facts) {
    switch (item->difference) {
    case PAWL_DIFF_SHAPE:
        item->change = "build the model with the checkpoint's shape";
        REMEDIES(item, taken_out);
        break;
    case PAWL_DIFF_DTYPE:
        find_dtype_remedy(item);
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
        find_slot_remedy(item, facts);
        break;
    case PAWL_DIFF_HYPERPARAMETER:
        REMEDIES(item, hyperparameter);
        break;
    case PAWL_DIFF_KIND:
        item->change = "give the state's entry the checkpoint's kind";
        REMEDIES(item, taken_out);
        if (facts->hyperparameter) {
            REMEDIES(item, kept_kind);
        }
        break;
    case PAWL_DIFF_BATCH:
        item->change = "feed the batches that the checkpoint was trained with";
        REMEDIES(item, batch);
        break;
    case PAWL_DIFF_RANKS:
        item->change = "restore with as many ranks as saved it";
        REMEDIES(item, per_rank);
        break;
    }
}

/* Some ranks of a job have it, and others lack it. */
static pawl_status find_lacking_remedy(pawl_report_item *item, const match_job_fault *fault,
                                       arena *memory, pawl_error *err) {
    item->change = arena_printf(memory, "add it on %s", fault->lacking);
    if (item->change == NULL) {
        return error_nomem(err, strlen(fault->lacking));
    }
    REMEDIES(item, unexpected_there);
    return PAWL_OK;
}

/* Of names that changed: the rules, and what else is needed. */
static pawl_status find_rename_remedies(pawl_report_item *item, const sentence_facts *facts,
                                        arena *memory, pawl_error *err) {
    size_t count = facts->rename_count + (facts->needs_cast ? 1 : 0);
    pawl_remedy *remedies = arena_take(memory, count * sizeof(*remedies), err);
    const pawl_remedy **list = arena_take(memory, count * sizeof(const pawl_remedy *), err);
    if (remedies == NULL || list == NULL) {
        return PAWL_ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        list[i] = &remedies[i];
    }
    for (size_t i = 0; i < facts->rename_count; i++) {
        remedies[i] =
            (pawl_remedy)REMEDY("renames", .from = arena_strdup(memory, facts->renames[i].from),
                                .to = arena_strdup(memory, facts->renames[i].to));
        if (remedies[i].from == NULL || remedies[i].to == NULL) {
            return error_nomem(err, strlen(facts->renames[i].from));
        }
    }
    if (facts->needs_cast) {
        remedies[count - 1] = convert;
        remedies[count - 1].effect = "convert what has another dtype";
    }
    if (item->severity == PAWL_SEVERITY_WARNING) {
        item->change = count > 0 ? "compare the two models, and if their entries were renumbered"
                                 : "compare the two models before you allow what is missing or "
                                   "unexpected";
    }
    item->remedies = list;
    item->remedy_count = count;
    return PAWL_OK;
}

pawl_status remedy_find(pawl_report_item *item, const sentence_facts *facts, arena *memory,
                        pawl_error *err) {
    bool is_error = item->severity == PAWL_SEVERITY_ERROR;
    item->change = NULL;
    item->remedies = NULL;
    item->remedy_count = 0;
    if (facts->fault != NULL && facts->fault->error != MATCH_NOBODY) {
        return find_lacking_remedy(item, facts->fault, memory, err);
    }
    if (item->difference == PAWL_DIFF_RENAMED && !is_error) {
        return find_rename_remedies(item, facts, memory, err);
    }
    if (is_error) {
        find_error_remedy(item, facts);
    } else if (item->difference == PAWL_DIFF_HYPERPARAMETER && facts->used_side != NULL &&
               strcmp(facts->used_side, "checkpoint") == 0) {
        REMEDIES(item, keep_hyperparameter);
    }
    return PAWL_OK;
}

/* ---- asking for it -------------------------------------------------------------------------- */

bool remedy_is_model_only(const pawl_remedy *remedy) {
    return strcmp(remedy->option, just_model.option) == 0;
}

void remedy_apply(const pawl_remedy *remedy, pawl_restore_options *options) {
    const struct {
        const char *name;
        pawl_policy *field;
    } policies[] = {{"missing", &options->missing}, {"unexpected", &options->unexpected},
                    {"cast", &options->cast},       {"hyperparameter", &options->hyperparameter},
                    {"batch", &options->batch},     {"per_rank", &options->per_rank}};
    options->model_only |= remedy_is_model_only(remedy);
    for (size_t i = 0; i < ARRAY_LENGTH(policies); i++) {
        if (strcmp(remedy->option, policies[i].name) == 0) {
            *policies[i].field = remedy->policy;
        }
    }
}
