/* SPDX-License-Identifier: Apache-2.0 */
/* Checks a tensor before it becomes an entry (S15): all that shows in this tensor alone. */
#include "base/structs.h"
#include "format/format.h"
#include "state/entry.h"

#include <inttypes.h>
#include <string.h>

#define DO_NAME                                                                                    \
    "give it a name such as \"model/dense/kernel\": UTF-8, components separated by '/', "          \
    "at most 1024 bytes"

pawl_status entry_name_check(const char *name, const char *attempt, pawl_error *err) {
    const char *why = NULL;
    if (name == NULL) {
        error_set(err, PAWL_EUSAGE, "%s: it has no name", attempt);
        error_next(err, DO_NAME);
        return PAWL_EUSAGE;
    }
    /* Bounded: a caller's text may have no end. */
    size_t n = strnlen(name, PAWL_MAX_NAME_BYTES + 1);
    if (!entry_name_valid(name, n, &why)) {
        error_set(err, entry_name_refusal(n), "%s: its name %s", attempt, why);
        error_next(err, DO_NAME);
    } else if (strcmp(name, SAFETENSORS_METADATA_KEY) == 0) {
        error_set(err, PAWL_EUSAGE, "%s: its name is reserved in data files", attempt);
        error_next(err, "give it another name");
    } else {
        return PAWL_OK;
    }
    error_entry(err, name);
    return err->status;
}

static pawl_status check_slot_name(const char *field, const char *text, pawl_error *err) {
    const char *why = NULL;
    if (text == NULL) {
        return error_set(err, PAWL_EUSAGE, "an optimizer slot without %s", field);
    }
    size_t n = strnlen(text, PAWL_MAX_NAME_BYTES + 1);
    if (!entry_name_valid(text, n, &why)) {
        return error_set(err, entry_name_refusal(n), "its %s %s", field, why);
    }
    return PAWL_OK;
}

static pawl_status check_slot_names(const pawl_tensor *tensor, pawl_error *err) {
    if (tensor->role != PAWL_ROLE_SLOT) {
        if (tensor->slot_of != NULL || tensor->slot != NULL) {
            error_set(err, PAWL_EUSAGE, "slot_of or slot is set, but its role is %s",
                      pawl_role_name(tensor->role));
            error_next(err, "set role to PAWL_ROLE_SLOT, or leave slot_of and slot NULL");
            return PAWL_EUSAGE;
        }
        return PAWL_OK;
    }
    pawl_status status = check_slot_name("slot_of", tensor->slot_of, err);
    if (status == PAWL_OK) {
        status = check_slot_name("slot", tensor->slot, err);
    }
    if (status == PAWL_OK && strcmp(tensor->slot_of, tensor->name) == 0) {
        status = error_set(err, PAWL_EUSAGE, "an optimizer slot of itself");
    }
    if (status != PAWL_OK) {
        error_next(err, "set slot_of to the name of the variable and slot to the name of the slot, "
                        "such as \"adam/m\"");
    }
    return status;
}

static pawl_status check_type(const pawl_tensor *tensor, pawl_error *err) {
    if (!dtype_valid(tensor->dtype)) {
        error_set(err, PAWL_EUSAGE, "its dtype is no pawl_dtype");
        error_found(err, "dtype %d", (int)tensor->dtype);
        return PAWL_EUSAGE;
    }
    if (tensor->role < PAWL_ROLE_MODEL || tensor->role > PAWL_ROLE_OTHER) {
        error_set(err, PAWL_EUSAGE, "its role is no pawl_role");
        error_found(err, "role %d", (int)tensor->role);
        return PAWL_EUSAGE;
    }
    return PAWL_OK;
}

static pawl_status check_replica(const pawl_tensor *tensor, pawl_error *err) {
    int count = tensor->replica_count;
    bool unset = tensor->replica == 0 && count == 0;
    if (unset || (tensor->replicated != 0 && tensor->replica >= 0 && tensor->replica < count)) {
        return PAWL_OK;
    }
    if (tensor->replicated == 0) {
        error_set(err, PAWL_EUSAGE, "replica or replica_count is set, but it is not replicated");
    } else {
        error_set(err, PAWL_EUSAGE, "its replica is not 0 to replica_count - 1");
    }
    error_found(err, "replica %d of %d", tensor->replica, count);
    error_next(err, "set replicated to 1, replica_count to how many ranks hold these boxes and "
                    "replica to this rank's number among them, or leave both 0");
    return PAWL_EUSAGE;
}

static pawl_status check_shape(const pawl_tensor *tensor, pawl_error *err) {
    if (tensor->ndim > 0 && tensor->shape == NULL) {
        return error_set(err, PAWL_EUSAGE, "it has %d dimensions, but its shape is NULL",
                         tensor->ndim);
    }
    return shape_check(tensor->dtype, tensor->ndim, tensor->shape, NULL, NULL, err);
}

/* Checks pointer and strides of the memory of a box of that extent. */
static pawl_status check_tensor_memory(const pawl_tensor *tensor, const int64_t *extent,
                                       const int64_t *strides, const void *data, pawl_error *err) {
    uint64_t bytes = 0;
    TRY(shape_check(tensor->dtype, tensor->ndim, extent, NULL, &bytes, err));
    if (bytes == 0) {
        return PAWL_OK;
    }
    if (tensor->memory != NULL) {
        return provided_strides_check(tensor->dtype, tensor->ndim, extent, strides, err);
    }
    if (data == NULL) {
        error_set(err, PAWL_EUSAGE, "its data is NULL, but it has %" PRIu64 " bytes", bytes);
        error_next(err, "hand in the memory of its first element");
        return PAWL_EUSAGE;
    }
    return strides_check(tensor->dtype, tensor->ndim, extent, strides, data, err);
}

static pawl_status check_tensor_box(const pawl_tensor *tensor, size_t i, box *out,
                                    pawl_error *err) {
    const pawl_box *from = &tensor->boxes[i];
    if (tensor->ndim > 0 && (from->offset == NULL || from->extent == NULL)) {
        return error_set(err, PAWL_EUSAGE, "its offset or extent is NULL");
    }
    *out = box_of(tensor->ndim, from->offset, from->extent);
    TRY(box_check(out, tensor->ndim, tensor->shape, err));
    return check_tensor_memory(tensor, from->extent, from->strides, from->data, err);
}

static pawl_status check_boxes_together(const pawl_tensor *tensor, const box *boxes,
                                        pawl_error *err) {
    char first_text[160];
    char second_text[160];
    size_t first = 0;
    size_t second = 0;
    if (!boxes_disjoint(boxes, tensor->nboxes, &first, &second)) {
        error_set(err, PAWL_EUSAGE, "its boxes %zu and %zu overlap", first, second);
        error_found(err, "%s and %s", box_text(first_text, sizeof(first_text), &boxes[first]),
                    box_text(second_text, sizeof(second_text), &boxes[second]));
        return PAWL_EUSAGE;
    }
    /* With replica_count it may be a part of the tensor that only some ranks hold. */
    if (tensor->replicated != 0 && tensor->replica_count == 0 &&
        !boxes_cover(boxes, tensor->nboxes, tensor->ndim, tensor->shape)) {
        error_set(err, PAWL_EUSAGE, "it is declared replicated, but its boxes do not cover it");
        error_next(err, "hand in the whole tensor, say with replica_count how many ranks hold "
                        "these boxes, or leave replicated 0");
        return PAWL_EUSAGE;
    }
    return PAWL_OK;
}

static pawl_status check_boxes(const pawl_tensor *tensor, pawl_error *err) {
    if (tensor->nboxes > PAWL_MAX_BOXES) {
        error_set(err, PAWL_ELIMIT, "it has %zu boxes", tensor->nboxes);
        error_expected(err, "at most %d (PAWL_MAX_BOXES)", PAWL_MAX_BOXES);
        return PAWL_ELIMIT;
    }
    if (tensor->boxes == NULL) {
        return error_set(err, PAWL_EUSAGE, "it has %zu boxes, but boxes is NULL", tensor->nboxes);
    }
    AUTOFREE box *boxes = mem_alloc(tensor->nboxes * sizeof(*boxes));
    if (boxes == NULL) {
        return error_nomem(err, tensor->nboxes * sizeof(*boxes));
    }
    for (size_t i = 0; i < tensor->nboxes; i++) {
        pawl_status status = check_tensor_box(tensor, i, &boxes[i], err);
        if (status != PAWL_OK) {
            error_wrap(err, "box %zu", i);
            return status;
        }
    }
    return check_boxes_together(tensor, boxes, err);
}

static pawl_status check_provider(const pawl_memory *memory, pawl_error *err) {
    static const char next[] = "fill pawl_memory as pawl/memory.h says";
    if (memory == NULL) {
        return PAWL_OK;
    }
    if (memory->struct_size < sizeof(*memory) || !struct_size_valid(memory->struct_size)) {
        error_set(err, PAWL_EUSAGE, "struct_size of its memory is not set");
        error_expected(err, "%zu, which is sizeof(pawl_memory)", sizeof(*memory));
        error_found(err, "%zu", memory->struct_size);
        return PAWL_EUSAGE;
    }
    if (struct_has_more(memory, memory->struct_size, sizeof(*memory))) {
        return error_set(err, PAWL_EUNSUPPORTED,
                         "its pawl_memory has a field set that this library does not know");
    }
    if (memory->start_out == NULL || (memory->allocate == NULL) != (memory->release == NULL)) {
        error_set(err, PAWL_EUSAGE, "its memory %s",
                  memory->start_out == NULL ? "has no start_out"
                                            : "has one of allocate and release alone");
        error_next(err, next);
        return PAWL_EUSAGE;
    }
    const char *name = memory->name;
    size_t n = name != NULL ? strnlen(name, PAWL_MAX_MEMORY_NAME_BYTES + 1) : 0;
    bool plain = n > 0 && n <= PAWL_MAX_MEMORY_NAME_BYTES && utf8_valid(name, n);
    for (size_t i = 0; i < n && plain; i++) {
        plain = (unsigned char)name[i] >= ' ' && name[i] != 0x7f;
    }
    if (!plain) {
        bool longer = n > PAWL_MAX_MEMORY_NAME_BYTES;
        error_set(err, longer ? PAWL_ELIMIT : PAWL_EUSAGE, "its memory has %s",
                  longer ? "too long a name" : "no name that can be shown");
        error_expected(err, "1 to %d bytes of UTF-8", PAWL_MAX_MEMORY_NAME_BYTES);
        error_next(err, next);
        return err->status;
    }
    return PAWL_OK;
}

static pawl_status check_whole_tensor(const pawl_tensor *tensor, pawl_error *err) {
    TRY(check_type(tensor, err));
    TRY(check_slot_names(tensor, err));
    TRY(check_replica(tensor, err));
    TRY(check_shape(tensor, err));
    TRY(check_provider(tensor->memory, err));
    if (tensor->nboxes > 0) {
        return check_boxes(tensor, err);
    }
    return check_tensor_memory(tensor, tensor->shape, tensor->strides, tensor->data, err);
}

pawl_status tensor_check(const pawl_tensor *tensor, const char *attempt, pawl_error *err) {
    if (tensor->struct_size != sizeof(*tensor)) {
        error_set(err, PAWL_EUSAGE, "%s: its struct_size is %zu", attempt, tensor->struct_size);
        error_expected(err, "%zu, which is sizeof(pawl_tensor)", sizeof(*tensor));
        return PAWL_EUSAGE;
    }
    TRY(entry_name_check(tensor->name, attempt, err));
    pawl_status status = check_whole_tensor(tensor, err);
    if (status != PAWL_OK) {
        error_wrap(err, "%s", attempt);
        error_entry(err, tensor->name);
    }
    return status;
}
