/* SPDX-License-Identifier: Apache-2.0 */
/* state: the entries of a checkpoint. */
#include "state.h"

#include <stdio.h>
#include <string.h>

#include "die.h"

#define MODEL_PREFIX "model/"
#define RNG_NAME     "random/state"

/* ---- tensors -------------------------------------------------------------------------------- */

static pawl_tensor tensor_of(const struct variable *variable) {
    return (pawl_tensor){.struct_size = sizeof(pawl_tensor),
                         .name = variable->name,
                         .dtype = PAWL_F32,
                         .ndim = variable->ndim,
                         .shape = variable->shape,
                         .data = variable->value,
                         .replicated = 1,
                         .role = PAWL_ROLE_MODEL};
}

/*
 * A slot has dtype and shape of its variable. Since it names its variable, a restore cannot mistake
 * it for another slot, and finds it after the variable was renamed. This rank has some of its rows:
 * one box. The boxes of all ranks make up the whole.
 */
static pawl_status add_slot(pawl_state *state, const struct variable *variable,
                            const struct shard *shard, const char *slot, float *data,
                            pawl_error *err) {
    char name[PAWL_MAX_NAME_BYTES];
    snprintf(name, sizeof name, "optimizer/%s/%s", slot, variable->name + strlen(MODEL_PREFIX));
    pawl_box box = {.offset = shard->offset, .extent = shard->shape};
    box.data = data;
    pawl_tensor tensor = tensor_of(variable);
    tensor.name = name;
    tensor.data = NULL;
    tensor.replicated = 0;
    tensor.boxes = &box;
    tensor.nboxes = 1;
    tensor.box_size = sizeof box;
    tensor.role = PAWL_ROLE_SLOT;
    tensor.slot_of = variable->name;
    tensor.slot = slot;
    return pawl_state_add_tensor(state, &tensor, err);
}

static pawl_status add_variables(pawl_state *state, const struct model *model, pawl_error *err) {
    pawl_status status = PAWL_OK;
    for (int i = 0; status == PAWL_OK && i < VARIABLES; i++) {
        pawl_tensor tensor = tensor_of(&model->variables[i]);
        status = pawl_state_add_tensor(state, &tensor, err);
    }
    return status;
}

static pawl_status add_slots(pawl_state *state, const struct optimizer *optimizer,
                             pawl_error *err) {
    const struct optimizer_class *class = optimizer->class;
    pawl_status status = PAWL_OK;
    for (size_t slot = 0; slot < class->slot_count; slot++) {
        for (size_t i = 0; status == PAWL_OK && i < optimizer->variable_count; i++) {
            status = add_slot(state, &optimizer->variables[i], &optimizer->shards[i],
                              class->slots[slot], optimizer->slots[slot][i], err);
        }
    }
    return status;
}

/* ---- values --------------------------------------------------------------------------------- */

/* The integer values of a checkpoint, to save and to restore. */
enum { STEP, EPOCH, POSITION, SHUFFLE_SEED, NUMBERS };

static const struct {
    const char *name;
    pawl_role role;
} NUMBER[NUMBERS] = {
    [STEP] = {"training/step", PAWL_ROLE_STEP},
    [EPOCH] = {"data/epoch", PAWL_ROLE_DATA_POSITION},
    [POSITION] = {"data/position", PAWL_ROLE_DATA_POSITION},
    [SHUFFLE_SEED] = {"data/shuffle_seed", PAWL_ROLE_DATA_POSITION},
};

pawl_status state_refresh(pawl_state *state, const struct training *training, pawl_error *err) {
    const struct batcher *batcher = &training->batcher;
    const int64_t value[NUMBERS] = {[STEP] = training->step,
                                    [EPOCH] = batcher->epoch,
                                    [POSITION] = batcher->position,
                                    [SHUFFLE_SEED] = (int64_t)batcher->shuffle_seed};
    pawl_status status = PAWL_OK;
    for (int i = 0; status == PAWL_OK && i < NUMBERS; i++) {
        status = pawl_state_set_int64(state, NUMBER[i].name, NUMBER[i].role, value[i], err);
    }
    if (status == PAWL_OK) {
        status = pawl_state_set_rank_bytes(state, RNG_NAME, PAWL_ROLE_RNG, &training->rng,
                                           sizeof training->rng, err);
    }
    return status;
}

static pawl_status set_optimizer(pawl_state *state, const struct optimizer *optimizer,
                                 pawl_error *err) {
    pawl_status status = pawl_state_set_string(
        state, PAWL_OPTIMIZER_CLASS, PAWL_ROLE_HYPERPARAMETER, optimizer->class->name, err);
    for (size_t i = 0; status == PAWL_OK && i < optimizer->class->hyperparameter_count; i++) {
        const struct hyperparameter *each = &optimizer->hyperparameters[i];
        status =
            pawl_state_set_float64(state, each->name, PAWL_ROLE_HYPERPARAMETER, each->value, err);
    }
    return status;
}

/* What a full batch looks like. Shapes and dtypes are enough for that; no batch is used up. */
static pawl_status set_batch_signature(pawl_state *state, const struct batcher *batcher,
                                       pawl_error *err) {
    struct batch full = batcher->batch;
    full.total = batcher->batch_size;
    struct batch_entries entries;
    batch_describe(&full, &entries);

    pawl_batch_check *check = NULL;
    pawl_status status = pawl_batch_check_new(&check, err);
    if (status == PAWL_OK) {
        status =
            pawl_batch_check_next(check, entries.array, BATCH_ENTRIES, sizeof *entries.array, err);
    }
    if (status == PAWL_OK) {
        status = pawl_state_set_json(state, "data/batch_signature", PAWL_ROLE_BATCH_SIGNATURE,
                                     pawl_batch_check_signature(check), err);
    }
    pawl_batch_check_free(check);
    return status;
}

pawl_status state_describe(pawl_state *state, const struct training *training, pawl_error *err) {
    pawl_status status = add_variables(state, &training->model, err);
    if (status == PAWL_OK) {
        status = add_slots(state, &training->optimizer, err);
    }
    if (status == PAWL_OK) {
        status = set_optimizer(state, &training->optimizer, err);
    }
    if (status == PAWL_OK) {
        status = set_batch_signature(state, &training->batcher, err);
    }
    return status == PAWL_OK ? state_refresh(state, training, err) : status;
}

/* ---- after a restore ------------------------------------------------------------------------ */

static pawl_status take_back_rng(const pawl_state *state, struct rng *rng, pawl_error *err) {
    const void *bytes = NULL;
    size_t size = 0;
    pawl_status status = pawl_state_get_bytes(state, RNG_NAME, &bytes, &size, err);
    if (status == PAWL_OK && size != sizeof *rng) {
        die(1, "%s of the checkpoint has %zu bytes, this generator's state has %zu", RNG_NAME, size,
            sizeof *rng);
    }
    if (status == PAWL_OK) {
        memcpy(rng, bytes, sizeof *rng);
    }
    return status;
}

pawl_status state_take_back(const pawl_state *state, struct training *training, pawl_error *err) {
    int64_t value[NUMBERS] = {0};
    struct optimizer *optimizer = &training->optimizer;
    pawl_status status = PAWL_OK;
    for (int i = 0; status == PAWL_OK && i < NUMBERS; i++) {
        status = pawl_state_get_int64(state, NUMBER[i].name, &value[i], err);
    }
    for (size_t i = 0; status == PAWL_OK && i < optimizer->class->hyperparameter_count; i++) {
        struct hyperparameter *each = &optimizer->hyperparameters[i];
        status = pawl_state_get_float64(state, each->name, &each->value, err);
    }
    if (status == PAWL_OK) {
        status = take_back_rng(state, &training->rng, err);
    }
    if (status == PAWL_OK) {
        training->step = value[STEP];
        batcher_seek(&training->batcher, value[EPOCH], value[POSITION],
                     (uint64_t)value[SHUFFLE_SEED]);
    }
    return status;
}
