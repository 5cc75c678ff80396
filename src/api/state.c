/* SPDX-License-Identifier: Apache-2.0 */
/* pawl_state_*. */
#include "state/state.h"
#include "api/api.h"

#include <string.h>

static pawl_status new_state(pawl_state **state, pawl_error *err) {
    TRY(need(state, "pawl_state_new", "state", err));
    *state = NULL;
    return state_new(state, err);
}

pawl_status pawl_state_new(pawl_state **state, pawl_error *err) {
    struct pawl_error story;
    return story_end(new_state(state, story_begin(&story)), &story, err);
}

void pawl_state_free(pawl_state *state) {
    if (state != NULL) {
        state_free(state);
    }
}

size_t pawl_state_count(const pawl_state *state) {
    return state != NULL ? state_count(state) : 0;
}

/* Boxes that are not there, or too many, are left for the state to refuse: none is looked at. */
static pawl_status take_tensor(pawl_tensor *to, void **boxes, const pawl_tensor *from,
                               const char *call, pawl_error *err) {
    TRY(take_options(to, sizeof(*to), from, call, "pawl_tensor", err));
    bool fit = to->boxes != NULL && to->nboxes <= PAWL_MAX_BOXES;
    const given_items given = {.items = to->boxes,
                               .count = fit ? to->nboxes : 0,
                               .size = to->box_size,
                               .known_size = sizeof(*to->boxes),
                               .call = call,
                               .name = "boxes",
                               .size_name = "box_size",
                               .type = "pawl_box"};
    pawl_status status = take_items(&given, boxes, err);
    if (status != PAWL_OK && to->name != NULL) {
        error_entry(err, to->name);
    }
    TRY(status);
    to->boxes = *boxes != NULL ? *boxes : to->boxes;
    return PAWL_OK;
}

static pawl_status add_tensor(pawl_state *state, const pawl_tensor *tensor, pawl_error *err) {
    static const char call[] = "pawl_state_add_tensor";
    CLEANUP(mem_free_pointer) void *boxes = NULL;
    pawl_tensor known;
    TRY(need(state, call, "state", err));
    TRY(need(tensor, call, "tensor", err));
    TRY(take_tensor(&known, &boxes, tensor, call, err));
    return state_add_tensor(state, &known, err);
}

pawl_status pawl_state_add_tensor(pawl_state *state, const pawl_tensor *tensor, pawl_error *err) {
    struct pawl_error story;
    return story_end(add_tensor(state, tensor, story_begin(&story)), &story, err);
}

/* ---- many tensors ---- */

static pawl_status refuse_count(const char *call, size_t count, size_t size, pawl_error *err) {
    error_set(err, PAWL_EUSAGE, "%s: no memory can hold so many tensors", call);
    error_found(err, "%zu of %zu bytes", count, size);
    return PAWL_EUSAGE;
}

static pawl_status refuse_other_size(const char *call, size_t i, size_t expected, size_t found,
                                     pawl_error *err) {
    error_set(err, PAWL_EUSAGE, "%s: struct_size of tensors[%zu] is not that of tensors[0]", call,
              i);
    error_expected(err, "%zu", expected);
    error_found(err, "%zu", found);
    error_next(err, "set struct_size of every element to sizeof(pawl_tensor)");
    return PAWL_EUSAGE;
}

/* Copies of a caller's tensors, where its structs have other sizes than ours. */
typedef struct taken_tensors {
    pawl_tensor *ours;
    void **boxes;
    size_t count;
} taken_tensors;

static void taken_free(taken_tensors *t) {
    for (size_t i = 0; t->boxes != NULL && i < t->count; i++) {
        mem_free(t->boxes[i]);
    }
    mem_free(t->boxes);
    mem_free(t->ours);
}

static pawl_status copy_tensors(taken_tensors *t, const uint8_t *first, size_t size,
                                const char *call, pawl_error *err) {
    t->ours = mem_calloc(t->count, sizeof(*t->ours));
    t->boxes = mem_calloc(t->count, sizeof(*t->boxes));
    if (t->ours == NULL || t->boxes == NULL) {
        return error_nomem(err, t->count * sizeof(*t->ours));
    }
    for (size_t i = 0; i < t->count; i++) {
        const pawl_tensor *from = (const pawl_tensor *)(const void *)(first + i * size);
        pawl_status status = take_tensor(&t->ours[i], &t->boxes[i], from, call, err);
        if (status != PAWL_OK) {
            error_wrap(err, "tensors[%zu]", i);
            return status;
        }
    }
    return PAWL_OK;
}

/* PAWL_EUSAGE where an element has another size. *alike: all structs are ours. */
static pawl_status check_elements(const uint8_t *first, size_t count, size_t size, bool *alike,
                                  const char *call, pawl_error *err) {
    *alike = size == sizeof(pawl_tensor);
    for (size_t i = 0; i < count; i++) {
        size_t found;
        memcpy(&found, first + i * size, sizeof(found));
        if (found != size) {
            return refuse_other_size(call, i, size, found, err);
        }
        if (*alike) {
            const pawl_tensor *tensor = (const pawl_tensor *)(const void *)(first + i * size);
            *alike = tensor->nboxes == 0 || tensor->box_size == sizeof(pawl_box);
        }
    }
    return PAWL_OK;
}

static pawl_status take_tensors(const pawl_tensor *tensors, size_t count, const char *call,
                                taken_tensors *copy, state_tensors *out, pawl_error *err) {
    uint64_t bytes;
    bool alike;
    *out = (state_tensors){.first = tensors, .size = sizeof(*tensors), .count = count};
    TRY(need_items(tensors, count, call, "tensors", err));
    if (count == 0) {
        return PAWL_OK;
    }
    TRY(need_output(tensors, call, "tensors", "pawl_tensor", err));
    size_t size = tensors[0].struct_size;
    if (multiply_overflows(count, size, &bytes) || bytes > (uint64_t)PTRDIFF_MAX) {
        return refuse_count(call, count, size, err);
    }
    const uint8_t *first = (const uint8_t *)tensors;
    TRY(check_elements(first, count, size, &alike, call, err));
    if (alike) {
        return PAWL_OK;
    }
    copy->count = count;
    out->size = sizeof(*copy->ours);
    TRY(copy_tensors(copy, first, size, call, err));
    out->first = copy->ours;
    return PAWL_OK;
}

typedef pawl_status (*many_tensors)(pawl_state *state, const state_tensors *tensors,
                                    pawl_error *err);

static pawl_status take_and_hand_on(many_tensors to, pawl_state *state, const pawl_tensor *tensors,
                                    size_t count, const char *call, pawl_error *err) {
    CLEANUP(taken_free) taken_tensors copy = {0};
    state_tensors all;
    TRY(need(state, call, "state", err));
    TRY(take_tensors(tensors, count, call, &copy, &all, err));
    return to(state, &all, err);
}

pawl_status pawl_state_add_tensors(pawl_state *state, const pawl_tensor *tensors, size_t count,
                                   pawl_error *err) {
    struct pawl_error story;
    return story_end(take_and_hand_on(state_add_tensors, state, tensors, count,
                                      "pawl_state_add_tensors", story_begin(&story)),
                     &story, err);
}

pawl_status pawl_state_update_tensors(pawl_state *state, const pawl_tensor *tensors, size_t count,
                                      pawl_error *err) {
    struct pawl_error story;
    return story_end(take_and_hand_on(state_update_tensors, state, tensors, count,
                                      "pawl_state_update_tensors", story_begin(&story)),
                     &story, err);
}

/* ---- setting values ---- */

typedef struct value {
    const char *call, *argument;
    pawl_kind kind;
    bool per_rank;
    const void *bytes;
    size_t size;
} value;

static pawl_status check_and_set(pawl_state *state, const char *name, pawl_role role,
                                 const value *v, pawl_error *err) {
    TRY(need(state, v->call, "state", err));
    TRY(need(name, v->call, "name", err));
    TRY(need_items(v->bytes, v->size, v->call, v->argument != NULL ? v->argument : "value", err));
    return state_set_value(state, name, v->kind, role, v->per_rank, v->bytes, v->size, err);
}

static pawl_status set_entry_value(pawl_state *state, const char *name, pawl_role role,
                                   const value *v, pawl_error *err) {
    struct pawl_error story;
    return story_end(check_and_set(state, name, role, v, story_begin(&story)), &story, err);
}

pawl_status pawl_state_set_bool(pawl_state *state, const char *name, pawl_role role, int set,
                                pawl_error *err) {
    uint8_t byte = set != 0;
    value v = {.call = "pawl_state_set_bool", .kind = PAWL_KIND_BOOL, .bytes = &byte, .size = 1};
    return set_entry_value(state, name, role, &v, err);
}

pawl_status pawl_state_set_int64(pawl_state *state, const char *name, pawl_role role, int64_t set,
                                 pawl_error *err) {
    value v = {.call = "pawl_state_set_int64",
               .kind = PAWL_KIND_INT64,
               .bytes = &set,
               .size = sizeof(set)};
    return set_entry_value(state, name, role, &v, err);
}

pawl_status pawl_state_set_float64(pawl_state *state, const char *name, pawl_role role, double set,
                                   pawl_error *err) {
    value v = {.call = "pawl_state_set_float64",
               .kind = PAWL_KIND_FLOAT64,
               .bytes = &set,
               .size = sizeof(set)};
    return set_entry_value(state, name, role, &v, err);
}

/* Not 0 for a null pointer, so that it is refused. */
static size_t size_of_text(const char *text) {
    return text != NULL ? strlen(text) : SIZE_MAX;
}

pawl_status pawl_state_set_string(pawl_state *state, const char *name, pawl_role role,
                                  const char *set, pawl_error *err) {
    value v = {.call = "pawl_state_set_string",
               .kind = PAWL_KIND_STRING,
               .bytes = set,
               .size = size_of_text(set)};
    return set_entry_value(state, name, role, &v, err);
}

pawl_status pawl_state_set_json(pawl_state *state, const char *name, pawl_role role,
                                const char *json, pawl_error *err) {
    value v = {.call = "pawl_state_set_json",
               .argument = "json",
               .kind = PAWL_KIND_JSON,
               .bytes = json,
               .size = size_of_text(json)};
    return set_entry_value(state, name, role, &v, err);
}

pawl_status pawl_state_set_bytes(pawl_state *state, const char *name, pawl_role role,
                                 const void *set, size_t size, pawl_error *err) {
    value v = {.call = "pawl_state_set_bytes", .kind = PAWL_KIND_BYTES, .bytes = set, .size = size};
    return set_entry_value(state, name, role, &v, err);
}

pawl_status pawl_state_set_rank_bytes(pawl_state *state, const char *name, pawl_role role,
                                      const void *set, size_t size, pawl_error *err) {
    value v = {.call = "pawl_state_set_rank_bytes",
               .kind = PAWL_KIND_BYTES,
               .per_rank = true,
               .bytes = set,
               .size = size};
    return set_entry_value(state, name, role, &v, err);
}

/* ---- getting values ---- */

typedef struct wanted {
    const char *call;
    pawl_kind kind;
} wanted;

static pawl_status find_state_value(const pawl_state *state, const char *name, const wanted *w,
                                    const void *to, const state_entry **out, pawl_error *err) {
    TRY(need(state, w->call, "state", err));
    TRY(need(name, w->call, "name", err));
    TRY(need(to, w->call, "value", err));
    return state_get_value(state, name, w->kind, out, err);
}

/* A value of fixed size, copied out. */
static pawl_status copy_value(const pawl_state *state, const char *name, const wanted *w, void *to,
                              size_t size, pawl_error *err) {
    struct pawl_error story;
    const state_entry *entry = NULL;
    pawl_status status = find_state_value(state, name, w, to, &entry, story_begin(&story));
    if (status == PAWL_OK) {
        memcpy(to, entry->value, size);
    }
    return story_end(status, &story, err);
}

pawl_status pawl_state_get_bool(const pawl_state *state, const char *name, int *got,
                                pawl_error *err) {
    uint8_t byte = 0;
    wanted w = {.call = "pawl_state_get_bool", .kind = PAWL_KIND_BOOL};
    pawl_status status = copy_value(state, name, &w, got != NULL ? &byte : NULL, sizeof(byte), err);
    if (status == PAWL_OK && got != NULL) {
        *got = byte != 0;
    }
    return status;
}

pawl_status pawl_state_get_int64(const pawl_state *state, const char *name, int64_t *got,
                                 pawl_error *err) {
    wanted w = {.call = "pawl_state_get_int64", .kind = PAWL_KIND_INT64};
    return copy_value(state, name, &w, got, sizeof(*got), err);
}

pawl_status pawl_state_get_float64(const pawl_state *state, const char *name, double *got,
                                   pawl_error *err) {
    wanted w = {.call = "pawl_state_get_float64", .kind = PAWL_KIND_FLOAT64};
    return copy_value(state, name, &w, got, sizeof(*got), err);
}

pawl_status pawl_state_get_string(const pawl_state *state, const char *name, const char **got,
                                  pawl_error *err) {
    struct pawl_error story;
    const state_entry *entry = NULL;
    wanted w = {.call = "pawl_state_get_string", .kind = PAWL_KIND_STRING};
    if (state != NULL && name != NULL) {
        entry = state_find(state, name);
        w.kind = entry != NULL && entry->kind == PAWL_KIND_JSON ? PAWL_KIND_JSON : w.kind;
    }
    pawl_status status = find_state_value(state, name, &w, got, &entry, story_begin(&story));
    if (status == PAWL_OK) {
        *got = (const char *)entry->value;
    }
    return story_end(status, &story, err);
}

pawl_status pawl_state_get_bytes(const pawl_state *state, const char *name, const void **got,
                                 size_t *size, pawl_error *err) {
    struct pawl_error story;
    const state_entry *entry = NULL;
    wanted w = {.call = "pawl_state_get_bytes", .kind = PAWL_KIND_BYTES};
    pawl_status status = need(size, w.call, "size", story_begin(&story));
    if (status == PAWL_OK) {
        status = find_state_value(state, name, &w, got, &entry, &story);
    }
    if (status == PAWL_OK) {
        *got = entry->value;
        *size = entry->value_bytes;
    }
    return story_end(status, &story, err);
}

static pawl_status remove_entry(pawl_state *state, const char *name, pawl_error *err) {
    TRY(need(state, "pawl_state_remove", "state", err));
    TRY(need(name, "pawl_state_remove", "name", err));
    return state_remove(state, name, err);
}

pawl_status pawl_state_remove(pawl_state *state, const char *name, pawl_error *err) {
    struct pawl_error story;
    return story_end(remove_entry(state, name, story_begin(&story)), &story, err);
}
