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

static pawl_status add_tensor(pawl_state *state, const pawl_tensor *tensor, pawl_error *err) {
    static const char call[] = "pawl_state_add_tensor";
    pawl_tensor known;
    TRY(need(state, call, "state", err));
    TRY(need(tensor, call, "tensor", err));
    TRY(take_options(&known, sizeof(known), tensor, call, "pawl_tensor", err));
    return state_add_tensor(state, &known, err);
}

pawl_status pawl_state_add_tensor(pawl_state *state, const pawl_tensor *tensor, pawl_error *err) {
    struct pawl_error story;
    return story_end(add_tensor(state, tensor, story_begin(&story)), &story, err);
}

/* ---- setting values ---- */

typedef struct value {
    const char *call;
    pawl_kind kind;
    bool per_rank;
    const void *bytes;
    size_t size;
} value;

static pawl_status check_and_set(pawl_state *state, const char *name, pawl_role role,
                                 const value *v, pawl_error *err) {
    TRY(need(state, v->call, "state", err));
    TRY(need(name, v->call, "name", err));
    TRY(need_items(v->bytes, v->size, v->call, "value", err));
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
    const void *to = size != NULL ? got : NULL;
    pawl_status status = find_state_value(state, name, &w, to, &entry, story_begin(&story));
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
