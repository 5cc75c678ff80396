/* SPDX-License-Identifier: Apache-2.0 */
/* Words for statuses, roles and kinds, and the names that entries may have. The words for roles and
 * kinds are part of the file format. */
#include "base/base.h"

#include <string.h>

const char *pawl_version(void) {
    return PAWL_VERSION;
}

static const char *const status_names[] = {
    [PAWL_OK] = "ok",
    [PAWL_EUSAGE] = "usage",
    [PAWL_ENOTFOUND] = "not found",
    [PAWL_EMISMATCH] = "mismatch",
    [PAWL_EDAMAGED] = "damaged",
    [PAWL_EUNSUPPORTED] = "unsupported",
    [PAWL_EBUSY] = "busy",
    [PAWL_ENOSPACE] = "no space",
    [PAWL_EPERMISSION] = "permission denied",
    [PAWL_EIO] = "storage failed",
    [PAWL_ETIMEOUT] = "timeout",
    [PAWL_ECANCELED] = "canceled",
    [PAWL_ENOMEM] = "out of memory",
    [PAWL_ELIMIT] = "limit passed",
    [PAWL_EINTERNAL] = "internal",
    [PAWL_EPEER] = "rank missing",
};

static const char *const role_names[] = {
    [PAWL_ROLE_MODEL] = "model",
    [PAWL_ROLE_SLOT] = "slot",
    [PAWL_ROLE_HYPERPARAMETER] = "hyperparameter",
    [PAWL_ROLE_STEP] = "step",
    [PAWL_ROLE_RNG] = "rng",
    [PAWL_ROLE_DATA_POSITION] = "data_position",
    [PAWL_ROLE_BATCH_SIGNATURE] = "batch_signature",
    [PAWL_ROLE_OTHER] = "other",
};

static const char *const kind_names[] = {
    [PAWL_KIND_TENSOR] = "tensor",   [PAWL_KIND_BOOL] = "bool",     [PAWL_KIND_INT64] = "int64",
    [PAWL_KIND_FLOAT64] = "float64", [PAWL_KIND_STRING] = "string", [PAWL_KIND_BYTES] = "bytes",
    [PAWL_KIND_JSON] = "json",
};

/* A number from outside may be any number, whatever its type says. */
static const char *name_at(const char *const *names, size_t count, long number) {
    if (number < 0 || (size_t)number >= count || names[number] == NULL) {
        return "unknown";
    }
    return names[number];
}

const char *pawl_status_name(pawl_status status) {
    return name_at(status_names, ARRAY_LENGTH(status_names), (long)status);
}

const char *pawl_role_name(pawl_role role) {
    return name_at(role_names, ARRAY_LENGTH(role_names), (long)role);
}

const char *pawl_kind_name(pawl_kind kind) {
    return name_at(kind_names, ARRAY_LENGTH(kind_names), (long)kind);
}

/* Position of `name`, or `count`. */
static size_t find_name(const char *const *names, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++) {
        if (names[i] != NULL && strcmp(names[i], name) == 0) {
            return i;
        }
    }
    return count;
}

bool role_from_name(const char *name, pawl_role *out) {
    size_t i = find_name(role_names, ARRAY_LENGTH(role_names), name);
    if (i == ARRAY_LENGTH(role_names)) {
        return false;
    }
    *out = (pawl_role)i;
    return true;
}

bool kind_from_name(const char *name, pawl_kind *out) {
    size_t i = find_name(kind_names, ARRAY_LENGTH(kind_names), name);
    if (i == ARRAY_LENGTH(kind_names)) {
        return false;
    }
    *out = (pawl_kind)i;
    return true;
}

/* ---- names of entries ----------------------------------------------------------------------- */

/* C0, DEL, and C1, which UTF-8 writes as 0xc2 0x80 to 0xc2 0x9f. */
static bool has_control_character(const char *name, size_t n) {
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)name[i];
        if (c < 0x20 || c == 0x7f) {
            return true;
        }
        if (c == 0xc2 && i + 1 < n && (unsigned char)name[i + 1] <= 0x9f) {
            return true;
        }
    }
    return false;
}

/* Nearly all names are, and this takes no branch per character. */
static bool is_printable_ascii(const char *name, size_t n) {
    unsigned others = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)name[i];
        others |= (unsigned)(c < 0x20) | (unsigned)(c >= 0x7f);
    }
    return others == 0;
}

static const char *component_fault(const char *component, size_t n) {
    if (n == 0) {
        return "has an empty component";
    }
    if (n == 1 && component[0] == '.') {
        return "has a component \".\"";
    }
    if (n == 2 && component[0] == '.' && component[1] == '.') {
        return "has a component \"..\"";
    }
    return NULL;
}

static const char *name_fault(const char *name, size_t n) {
    if (n == 0) {
        return "is empty";
    }
    if (n > PAWL_MAX_NAME_BYTES) {
        return "is longer than 1024 bytes";
    }
    if (!is_printable_ascii(name, n)) {
        if (memchr(name, '\0', n) != NULL) {
            return "has a NUL character";
        }
        if (!utf8_valid(name, n)) {
            return "is not UTF-8";
        }
        if (has_control_character(name, n)) {
            return "has a control character";
        }
    }
    if (name[0] == '/') {
        return "begins with '/'";
    }
    const char *fault = NULL;
    const char *begin = name;
    const char *end = name + n;
    while (begin != NULL && fault == NULL) {
        const char *slash = memchr(begin, '/', (size_t)(end - begin));
        fault = component_fault(begin, (size_t)((slash != NULL ? slash : end) - begin));
        begin = slash != NULL ? slash + 1 : NULL;
    }
    return fault;
}

_Static_assert(PAWL_MAX_NAME_BYTES == 1024, "name_fault says the number in words");

pawl_status entry_name_refusal(size_t n) {
    return n > PAWL_MAX_NAME_BYTES ? PAWL_ELIMIT : PAWL_EUSAGE;
}

bool entry_name_valid(const char *name, size_t n, const char **why) {
    const char *fault = name_fault(name, n);
    if (fault != NULL && why != NULL) {
        *why = fault;
    }
    return fault == NULL;
}
