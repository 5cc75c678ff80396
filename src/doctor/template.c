/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a state, whose tensors have no memory, of JSON or of a checkpoint. */
#include "doctor/template.h"

#include "base/json.h"
#include "format/limits.h"

#include <string.h>

/* ---- tensors without memory ----------------------------------------------------------------- */

static pawl_status has_none(void *context, const pawl_copy *const *copies, size_t count,
                            void **ticket, pawl_error *err) {
    (void)context;
    (void)copies;
    (void)count;
    (void)ticket;
    return error_set(err, PAWL_EUSAGE, "a model that is only described has no memory");
}

static const pawl_memory no_memory = {
    .struct_size = sizeof(no_memory), .name = "a description", .start_out = has_none};

static pawl_status add_tensor(pawl_state *to, pawl_tensor *tensor, pawl_error *err) {
    tensor->struct_size = sizeof(*tensor);
    tensor->memory = &no_memory;
    return state_add_tensor(to, tensor, err);
}

/* ---- of a checkpoint ------------------------------------------------------------------------ */

static pawl_status take_value(pawl_state *to, const pawl_entry_info *info, pawl_error *err) {
    static const uint64_t zero = 0; /* of a large one, and of one per rank, only the kind counts */
    size_t n = (size_t)info->bytes;
    const void *bytes = info->value;
    if (bytes == NULL || info->per_rank != 0) {
        bool sized = info->kind == PAWL_KIND_INT64 || info->kind == PAWL_KIND_FLOAT64;
        n = sized ? sizeof zero : info->kind == PAWL_KIND_BOOL ? 1 : 0;
        bytes = &zero;
        if (info->kind == PAWL_KIND_JSON) {
            bytes = "null";
            n = 4;
        }
    }
    return state_set_value(to, info->name, info->kind, info->role, info->per_rank != 0, bytes, n,
                           err);
}

static pawl_status take_entry(pawl_state *to, const pawl_entry_info *info, uint64_t *left_out,
                              pawl_error *err) {
    if (info->kind != PAWL_KIND_TENSOR) {
        return take_value(to, info, err);
    }
    if (info->dtype == 0) {
        (*left_out)++;
        return PAWL_OK;
    }
    pawl_tensor tensor = {.name = info->name,
                          .dtype = info->dtype,
                          .ndim = info->ndim,
                          .shape = info->shape,
                          .role = info->role,
                          .slot_of = info->slot_of,
                          .slot = info->slot};
    return add_tensor(to, &tensor, err);
}

static void free_entries(pawl_entries **walk) {
    pawl_entries_free(*walk);
}

pawl_status template_of_checkpoint(pawl_checkpoint *c, pawl_state *to, uint64_t *left_out,
                                   pawl_error *err) {
    CLEANUP(free_entries) pawl_entries *walk = NULL;
    pawl_entry_info info;
    int more = 1;
    *left_out = 0;
    TRY(entries_open(c, "", &walk, err));
    for (;;) {
        TRY(entries_next(walk, &info, &more, err));
        if (more == 0) {
            return PAWL_OK;
        }
        if (strcmp(info.name, NAME_OBJECT_GRAPH) != 0) { /* it is of no model */
            TRY(take_entry(to, &info, left_out, err));
        }
    }
}

/* ---- of JSON -------------------------------------------------------------------------------- */

/* One entry, as it is read. */
typedef struct described {
    buffer name, kind, role, dtype, slot_of, slot;
    json_span value;
    bool per_rank, has_shape, has_value;
    int ndim;
    int64_t shape[PAWL_MAX_NDIM];
    uint64_t at;
} described;

static void described_free(described *d) {
    buffer_free(&d->name);
    buffer_free(&d->kind);
    buffer_free(&d->role);
    buffer_free(&d->dtype);
    buffer_free(&d->slot_of);
    buffer_free(&d->slot);
}

static const char *text_of(const buffer *b) {
    return b->size > 0 ? (const char *)b->data : NULL;
}

static pawl_status refuse(const described *d, const char *expected, const char *found,
                          pawl_error *err) {
    error_set(err, PAWL_EUSAGE, "the description of the model is wrong at byte %llu",
              (unsigned long long)d->at);
    if (text_of(&d->name) != NULL) {
        error_entry(err, text_of(&d->name));
    }
    error_expected(err, "%s", expected);
    error_found(err, "%.200s", found);
    return PAWL_EUSAGE;
}

/* "float32" of NumPy, "torch.float32", "<dtype: 'float32'>" are written by people, too. */
static pawl_dtype dtype_from_words(const char *words) {
    static const struct {
        const char *word;
        pawl_dtype dtype;
    } known[] = {{"bool", PAWL_BOOL},   {"uint8", PAWL_U8},     {"int8", PAWL_I8},
                 {"uint16", PAWL_U16},  {"int16", PAWL_I16},    {"uint32", PAWL_U32},
                 {"int32", PAWL_I32},   {"uint64", PAWL_U64},   {"int64", PAWL_I64},
                 {"float16", PAWL_F16}, {"half", PAWL_F16},     {"bfloat16", PAWL_BF16},
                 {"float32", PAWL_F32}, {"float", PAWL_F32},    {"float64", PAWL_F64},
                 {"double", PAWL_F64},  {"complex64", PAWL_C64}};
    const char *dot = strrchr(words, '.');
    const char *bare = dot != NULL ? dot + 1 : words;
    for (size_t i = 0; i < ARRAY_LENGTH(known); i++) {
        if (strcmp(known[i].word, bare) == 0) {
            return known[i].dtype;
        }
    }
    return pawl_dtype_from_name(bare);
}

static pawl_status refuse_again(const described *d, const char *key, pawl_error *err) {
    return refuse(d, "each key of an entry once", key, err);
}

static pawl_status read_shape(json_reader *r, described *d, pawl_error *err) {
    bool more = false;
    if (d->has_shape) {
        return refuse_again(d, "a second \"shape\"", err);
    }
    d->has_shape = true;
    TRY(json_enter(r, '['));
    for (;;) {
        TRY(json_element(r, &more));
        if (!more) {
            return PAWL_OK;
        }
        if (d->ndim == PAWL_MAX_NDIM) {
            return refuse(d, "a shape of fewer dimensions", "too many", err);
        }
        TRY(json_i64(r, &d->shape[d->ndim++]));
    }
}

/* A text, or null, which stands for none. */
static pawl_status read_text(json_reader *r, buffer *out, pawl_error *err) {
    if (json_peek(r) == 'n') {
        return json_skip(r, NULL);
    }
    return json_text(r, out, err);
}

static pawl_status read_member(json_reader *r, const char *key, described *d, pawl_error *err) {
    const struct {
        const char *key;
        buffer *to;
    } texts[] = {{"name", &d->name},   {"kind", &d->kind},       {"role", &d->role},
                 {"dtype", &d->dtype}, {"slot_of", &d->slot_of}, {"slot", &d->slot}};
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
        if (strcmp(key, texts[i].key) == 0) {
            if (texts[i].to->size > 0) {
                return refuse_again(d, key, err);
            }
            return read_text(r, texts[i].to, err);
        }
    }
    if (strcmp(key, "shape") == 0 && json_peek(r) == '[') {
        return read_shape(r, d, err);
    }
    if (strcmp(key, "per_rank") == 0 && json_peek(r) != 'n') {
        return json_bool(r, &d->per_rank);
    }
    if (strcmp(key, "value") == 0 && json_peek(r) != 'n') {
        if (d->has_value) {
            return refuse_again(d, key, err);
        }
        d->has_value = true;
        return json_skip(r, &d->value);
    }
    return json_skip(r, NULL);
}

/* ---- what was read, as an entry ---- */

static pawl_status add_described_tensor(pawl_state *to, const described *d, pawl_role role,
                                        pawl_error *err) {
    const char *words = text_of(&d->dtype);
    pawl_tensor tensor = {.name = text_of(&d->name),
                          .dtype = words != NULL ? dtype_from_words(words) : 0,
                          .ndim = d->ndim,
                          .shape = d->shape,
                          .role = role,
                          .slot_of = text_of(&d->slot_of),
                          .slot = text_of(&d->slot)};
    if (!d->has_shape) {
        return refuse(d, "a \"shape\", such as [64, 10]", "none", err);
    }
    if (tensor.dtype == 0) {
        return refuse(d, "a \"dtype\", such as \"F32\" or \"float32\"",
                      words != NULL ? words : "none", err);
    }
    return add_tensor(to, &tensor, err);
}

/* The bytes of a value, in `out`: of a number or bool as it is kept, of a text its characters. */
static pawl_status value_bytes(const described *d, pawl_kind kind, buffer *out, pawl_error *err) {
    const char *text = d->value.text;
    int64_t integer = 0;
    double number = 0;
    json_reader r = json_reader_for(text, d->value.n, d->at, "value", err);
    uint8_t truth = d->value.n > 0 && text[0] == 't';
    switch (kind) {
    case PAWL_KIND_BOOL:
        return buffer_append(out, &truth, 1, err);
    case PAWL_KIND_INT64:
        if (d->has_value) {
            TRY(json_i64(&r, &integer));
        }
        return buffer_append(out, &integer, sizeof integer, err);
    case PAWL_KIND_FLOAT64:
        if (d->has_value && !json_number(d->value, &number)) {
            return refuse(d, "a number", "one that is too large, or none", err);
        }
        return buffer_append(out, &number, sizeof number, err);
    case PAWL_KIND_STRING:
        return d->has_value ? json_text(&r, out, err) : buffer_append(out, "", 0, err);
    case PAWL_KIND_JSON:
        return d->has_value ? buffer_append(out, text, d->value.n, err)
                            : buffer_append(out, "null", 4, err);
    default:
        return buffer_append(out, "", 0, err); /* of bytes only the kind counts */
    }
}

static pawl_status add_described(pawl_state *to, const described *d, pawl_error *err) {
    CLEANUP(buffer_free) buffer bytes = {0};
    pawl_kind kind = PAWL_KIND_TENSOR;
    pawl_role role = text_of(&d->slot_of) != NULL ? PAWL_ROLE_SLOT : PAWL_ROLE_MODEL;
    const char *role_name = text_of(&d->role);
    const char *kind_name = text_of(&d->kind);
    if (text_of(&d->name) == NULL) {
        return refuse(d, "an entry with a \"name\"", "none", err);
    }
    if (role_name != NULL && !role_from_name(role_name, &role)) {
        return refuse(d,
                      "a \"role\": model, slot, hyperparameter, step, rng, data_position, "
                      "batch_signature or other",
                      role_name, err);
    }
    if (kind_name != NULL && !kind_from_name(kind_name, &kind)) {
        return refuse(d, "a \"kind\": tensor, bool, int64, float64, string, bytes or json",
                      kind_name, err);
    }
    if (kind == PAWL_KIND_TENSOR) {
        return add_described_tensor(to, d, role, err);
    }
    TRY(value_bytes(d, kind, &bytes, err));
    return state_set_value(to, text_of(&d->name), kind, role, d->per_rank,
                           bytes.size > 0 ? bytes.data : (const void *)"", bytes.size, err);
}

static pawl_status read_entry(json_reader *r, const buffer *name, pawl_state *to, pawl_error *err) {
    CLEANUP(described_free) described d = {.at = json_position(r)};
    CLEANUP(buffer_free) buffer key = {0};
    bool more = false;
    if (name != NULL) {
        TRY(buffer_append(&d.name, name->data, name->size, err));
    }
    if (json_peek(r) != '{') {
        return refuse(&d, "an entry: an object with \"shape\" and \"dtype\"", "something else",
                      err);
    }
    TRY(json_enter(r, '{'));
    for (;;) {
        TRY(json_key(r, &key, &more, err));
        if (!more) {
            return add_described(to, &d, err);
        }
        TRY(read_member(r, (const char *)key.data, &d, err));
    }
}

static pawl_status read_list(json_reader *r, pawl_state *to, pawl_error *err) {
    bool more = false;
    TRY(json_enter(r, '['));
    for (;;) {
        TRY(json_element(r, &more));
        if (!more) {
            return PAWL_OK;
        }
        TRY(read_entry(r, NULL, to, err));
    }
}

/* Reads the members of the outermost object. `wanted`: only the list "entries"; *seen: it is there.
 * Else each member is an entry. */
static pawl_status read_object(json_reader *r, bool wanted, bool *seen, pawl_state *to,
                               pawl_error *err) {
    CLEANUP(buffer_free) buffer key = {0};
    bool more = false;
    TRY(json_enter(r, '{'));
    for (;;) {
        TRY(json_key(r, &key, &more, err));
        if (!more) {
            return PAWL_OK;
        }
        bool is_list = strcmp((const char *)key.data, "entries") == 0 && json_peek(r) == '[';
        if (!wanted) {
            TRY(read_entry(r, &key, to, err));
        } else if (is_list && !*seen) {
            *seen = true;
            TRY(read_list(r, to, err));
        } else {
            TRY(json_skip(r, NULL));
        }
    }
}

static pawl_status decode(const void *text, size_t n, pawl_state *to, pawl_error *err) {
    static const char what[] = "description of a model";
    json_reader r = json_reader_for(text, n, 0, what, err);
    bool seen = false;
    if (json_peek(&r) == '[') {
        TRY(read_list(&r, to, err));
        return json_end(&r);
    }
    TRY(read_object(&r, true, &seen, to, err));
    TRY(json_end(&r));
    if (seen) {
        return PAWL_OK;
    }
    r = json_reader_for(text, n, 0, what, err);
    return read_object(&r, false, &seen, to, err);
}

pawl_status template_decode(const void *text, size_t n, pawl_state *to, pawl_error *err) {
    state_snapshot *whole = NULL;
    TRY(decode(text, n, to, err));
    if (state_count(to) == 0) {
        error_set(err, PAWL_EUSAGE, "the description of the model has no entries");
        error_expected(err, "at least one, such as {\"model/kernel\": {\"shape\": [64, 10], "
                            "\"dtype\": \"F32\"}}");
        return PAWL_EUSAGE;
    }
    TRY(state_snapshot_take(to, 0, false, &whole, err)); /* each slot has its variable */
    state_snapshot_free(whole);
    return PAWL_OK;
}
