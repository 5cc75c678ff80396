/* SPDX-License-Identifier: Apache-2.0 */
/* Checks values (S15): their bytes fit their kind. */
#include "base/json.h"
#include "state/entry.h"

#include <string.h>

/* The reader reports bad JSON as a damaged file; here it is the caller's text. */
static pawl_status check_json(const char *json, size_t n, pawl_error *err) {
    pawl_status status = json_check(json, n, "value", err);
    if (status == PAWL_EDAMAGED) {
        err->status = PAWL_EUSAGE;
        err->has_range = false; /* of a file */
        return PAWL_EUSAGE;
    }
    return status;
}

static pawl_status check_string(const char *text, size_t n, pawl_error *err) {
    if (n > 0 && memchr(text, '\0', n) != NULL) {
        return error_set(err, PAWL_EUSAGE, "it is a string with a NUL character");
    }
    if (!utf8_valid(text, n)) {
        error_set(err, PAWL_EUSAGE, "it is a string that is not UTF-8");
        error_next(err, "set it as bytes, or encode it as UTF-8");
        return PAWL_EUSAGE;
    }
    return PAWL_OK;
}

static pawl_status check_size(pawl_kind kind, size_t wanted, size_t n, pawl_error *err) {
    if (n != wanted) {
        error_set(err, PAWL_EUSAGE, "it is of kind %s, but has %zu bytes", pawl_kind_name(kind), n);
        error_expected(err, "%zu", wanted);
        return PAWL_EUSAGE;
    }
    return PAWL_OK;
}

static pawl_status check_kind(pawl_kind kind, const void *bytes, size_t n, pawl_error *err) {
    switch (kind) {
    case PAWL_KIND_BOOL:
        TRY(check_size(kind, 1, n, err));
        return *(const uint8_t *)bytes <= 1
                   ? PAWL_OK
                   : error_set(err, PAWL_EUSAGE, "it is a bool that is neither 0 nor 1");
    case PAWL_KIND_INT64:
    case PAWL_KIND_FLOAT64:
        return check_size(kind, 8, n, err);
    case PAWL_KIND_STRING:
        return check_string(bytes, n, err);
    case PAWL_KIND_BYTES:
        return PAWL_OK;
    case PAWL_KIND_JSON:
        return check_json(bytes, n, err);
    default:
        return error_set(err, PAWL_EUSAGE, "it is of no kind that a value can have (%d)",
                         (int)kind);
    }
}

static pawl_status check_role(pawl_role role, pawl_error *err) {
    if (role == PAWL_ROLE_SLOT) {
        error_set(err, PAWL_EUSAGE, "a value cannot be an optimizer slot");
        error_next(err, "add slots as tensors, and numbers of the optimizer as hyperparameters");
        return PAWL_EUSAGE;
    }
    if (role < PAWL_ROLE_MODEL || role > PAWL_ROLE_OTHER) {
        error_set(err, PAWL_EUSAGE, "its role is no pawl_role");
        error_found(err, "role %d", (int)role);
        return PAWL_EUSAGE;
    }
    return PAWL_OK;
}

static pawl_status check_bytes_count(bool per_rank, const void *bytes, size_t n, pawl_error *err) {
    if (bytes == NULL && n > 0) {
        return error_set(err, PAWL_EUSAGE, "it is NULL, but has %zu bytes", n);
    }
    int most = per_rank ? PAWL_MAX_RANK_BYTES : PAWL_MAX_VALUE_BYTES;
    if (n > (size_t)most) {
        error_set(err, PAWL_ELIMIT, "it has %zu bytes", n);
        error_expected(err, "at most %d bytes (%s)", most,
                       per_rank ? "PAWL_MAX_RANK_BYTES" : "PAWL_MAX_VALUE_BYTES");
        error_next(err, "add large data as a tensor of U8");
        return PAWL_ELIMIT;
    }
    return PAWL_OK;
}

static pawl_status check_whole_value(pawl_kind kind, pawl_role role, bool per_rank,
                                     const void *bytes, size_t n, pawl_error *err) {
    TRY(check_role(role, err));
    TRY(check_bytes_count(per_rank, bytes, n, err));
    return check_kind(kind, bytes == NULL ? "" : bytes, n, err);
}

pawl_status value_check(const char *name, pawl_kind kind, pawl_role role, bool per_rank,
                        const void *bytes, size_t n, pawl_error *err) {
    TRY(entry_name_check(name, "cannot add the value", err));
    pawl_status status = check_whole_value(kind, role, per_rank, bytes, n, err);
    if (status != PAWL_OK) {
        error_wrap(err, "cannot set the value");
        error_entry(err, name);
    }
    return status;
}
