/* SPDX-License-Identifier: Apache-2.0 */
/* One entry of a checkpoint, as text and as JSON. */
#include "entry.h"
#include "memory.h"
#include "numbers.h"
#include "text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

tensor_ref tensor_ref_of(const pawl_entry_info *info) {
    tensor_ref t = {.name = must_strdup(info->name),
                    .dtype = info->dtype,
                    .ndim = info->ndim,
                    .elements = 1,
                    .bytes = info->bytes};
    for (int i = 0; i < info->ndim; i++) {
        t.shape[i] = info->shape[i];
        t.elements *= (uint64_t)info->shape[i];
    }
    return t;
}

void tensor_ref_free(tensor_ref *t) {
    free(t->name);
    t->name = NULL;
}

const char *entry_type(const pawl_entry_info *info) {
    const char *name = info->kind == PAWL_KIND_TENSOR ? info->type : pawl_kind_name(info->kind);
    return name != NULL ? name : "?";
}

char *entry_shape(const pawl_entry_info *info) {
    return info->kind == PAWL_KIND_TENSOR ? text_shape(info->ndim, info->shape) : must_strdup("");
}

char *entry_hex(const void *bytes, size_t n, size_t most) {
    size_t shown = n < most ? n : most;
    size_t room = shown * 3 + sizeof "...";
    char *out = must_alloc(room);
    size_t at = 0;
    for (size_t i = 0; i < shown; i++) {
        at += (size_t)snprintf(out + at, room - at, "%s%02x", i > 0 ? " " : "",
                               ((const unsigned char *)bytes)[i]);
    }
    snprintf(out + at, room - at, "%s", n > shown ? "..." : "");
    return out;
}

pawl_status entry_read_rank(pawl_checkpoint *checkpoint, const char *name, int rank, size_t most,
                            char **bytes, size_t *size, pawl_error *err) {
    size_t there = 0;
    pawl_status status = pawl_checkpoint_read_rank(checkpoint, name, rank, NULL, 0, &there, err);
    if (status != PAWL_OK) {
        return status;
    }
    size_t wanted = there < most ? there : most;
    char *read = must_alloc(wanted > 0 ? wanted : 1);
    status = pawl_checkpoint_read_rank(checkpoint, name, rank, read, wanted, &there, err);
    if (status != PAWL_OK) {
        free(read);
        return status;
    }
    *bytes = read;
    *size = there;
    return PAWL_OK;
}

static int64_t int64_of(const pawl_entry_info *info) {
    int64_t value = 0;
    memcpy(&value, info->value, sizeof value);
    return value;
}

static double float64_of(const pawl_entry_info *info) {
    double value = 0;
    memcpy(&value, info->value, sizeof value);
    return value;
}

/* A string or JSON; of a very long one only the part that can be shown is copied. */
static char *text_value(const pawl_entry_info *info, size_t columns) {
    size_t most = columns * 4 + 4; /* UTF-8 takes at most 4 bytes a character */
    size_t n = info->bytes < most ? (size_t)info->bytes : most;
    char *safe = text_safe(info->value, n, false);
    char *cut = text_shorten(safe, columns);
    free(safe);
    return cut;
}

char *entry_value(const pawl_entry_info *info, size_t columns) {
    char number[NUMBER_SIZE];
    if (info->value == NULL) {
        return must_strdup("");
    }
    switch (info->kind) {
    case PAWL_KIND_BOOL:
        return must_strdup(*(const unsigned char *)info->value != 0 ? "true" : "false");
    case PAWL_KIND_INT64:
        return must_printf("%" PRId64, int64_of(info));
    case PAWL_KIND_FLOAT64:
        return must_strdup(number_text(number, float64_of(info), EXACT_DIGITS));
    case PAWL_KIND_STRING:
    case PAWL_KIND_JSON:
        return text_value(info, columns);
    case PAWL_KIND_BYTES:
        return entry_hex(info->value, (size_t)info->bytes, columns / 3);
    default:
        return must_strdup("");
    }
}

void entry_json_shape(json *j, const char *key, int ndim, const int64_t *shape) {
    json_begin_array(j, key, JSON_INLINE);
    for (int i = 0; i < ndim; i++) {
        json_put_int(j, NULL, shape[i]);
    }
    json_close(j);
}

void entry_json_value(json *j, const char *key, const pawl_entry_info *info) {
    if (info->value == NULL) {
        json_put_null(j, key);
        return;
    }
    switch (info->kind) {
    case PAWL_KIND_BOOL:
        json_put_bool(j, key, *(const unsigned char *)info->value != 0);
        break;
    case PAWL_KIND_INT64:
        json_put_int(j, key, int64_of(info));
        break;
    case PAWL_KIND_FLOAT64:
        json_put_number(j, key, float64_of(info), EXACT_DIGITS);
        break;
    case PAWL_KIND_STRING:
        json_put_text_n(j, key, info->value, (size_t)info->bytes);
        break;
    case PAWL_KIND_BYTES:
        json_put_hex(j, key, info->value, (size_t)info->bytes);
        break;
    case PAWL_KIND_JSON:
        json_put_raw_n(j, key, info->value, (size_t)info->bytes);
        break;
    default:
        json_put_null(j, key);
    }
}

void entry_json(json *j, const pawl_entry_info *info) {
    bool tensor = info->kind == PAWL_KIND_TENSOR;
    json_put_text(j, "name", info->name);
    json_put_text(j, "kind", pawl_kind_name(info->kind));
    json_put_text(j, "role", pawl_role_name(info->role));
    json_put_text(j, "dtype", tensor ? info->type : NULL);
    if (tensor) {
        entry_json_shape(j, "shape", info->ndim, info->shape);
    } else {
        json_put_null(j, "shape");
    }
    json_put_uint(j, "bytes", info->bytes);
    json_put_uint(j, "pieces", info->pieces);
    json_put_bool(j, "replicated", info->replicated != 0);
    json_put_bool(j, "per_rank", info->per_rank != 0);
    json_put_text(j, "slot_of", info->slot_of);
    json_put_text(j, "slot", info->slot);
    entry_json_value(j, "value", info);
}
