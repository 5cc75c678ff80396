/* SPDX-License-Identifier: Apache-2.0 */
/* Applies rename rules (R05) to names: they replace whole components at the front. */
#include "match/rename.h"

#include <string.h>

span span_of(const char *text) {
    return (span){.text = text, .length = strlen(text)};
}

bool rename_fits(span from, const char *name) {
    if (from.length == 0) {
        return true;
    }
    return strncmp(name, from.text, from.length) == 0 &&
           (name[from.length] == '\0' || name[from.length] == '/');
}

pawl_status rename_by(span from, span to, const char *name, buffer *out, pawl_error *err) {
    const char *rest = name + from.length;
    const char *why = NULL;
    out->size = 0;
    if (from.length > 0 && rest[0] == '/') {
        rest++;
    }
    TRY(buffer_append(out, to.text, to.length, err));
    TRY(buffer_append(out, "/", to.length > 0 && rest[0] != '\0', err));
    TRY(buffer_append(out, rest, strlen(rest), err));
    if (!entry_name_valid((const char *)out->data, out->size, &why)) {
        error_set(err, entry_name_refusal(out->size),
                  "the rename rule {\"%.*s\", \"%.*s\"} makes a name that %s", (int)from.length,
                  from.text, (int)to.length, to.text, why);
        error_entry(err, name);
        error_found(err, "\"%s\"", (const char *)out->data);
        error_next(err, "mend options.renames");
        return err->status;
    }
    return PAWL_OK;
}

bool rename_is_invalid(pawl_status status) {
    return status == PAWL_EUSAGE || status == PAWL_ELIMIT;
}

bool rename_swaps(const pawl_rename *rule) {
    return (strcmp(rule->from, "/") == 0 && strcmp(rule->to, ".") == 0) ||
           (strcmp(rule->from, ".") == 0 && strcmp(rule->to, "/") == 0);
}

static pawl_status swap(const pawl_rename *rule, const char *name, buffer *out, pawl_error *err) {
    const char *why = NULL;
    size_t n = strlen(name);
    if (name != (const char *)out->data) {
        out->size = 0;
        TRY(buffer_append(out, name, n + 1, err));
        out->size = n;
    }
    for (size_t i = 0; i < n; i++) {
        out->data[i] = out->data[i] == (uint8_t)rule->from[0] ? (uint8_t)rule->to[0] : out->data[i];
    }
    if (!entry_name_valid((const char *)out->data, n, &why)) {
        error_set(err, PAWL_EUSAGE, "the rename rule {\"%s\", \"%s\"} makes a name that %s",
                  rule->from, rule->to, why);
        error_entry(err, name);
        error_found(err, "\"%s\"", (const char *)out->data);
        error_next(err, "mend options.renames");
        return PAWL_EUSAGE;
    }
    return PAWL_OK;
}

pawl_status rename_apply(const pawl_restore_options *options, const char *name, buffer *out,
                         const char **renamed, pawl_error *err) {
    bool fits = false;
    *renamed = name;
    for (size_t i = 0; i < options->rename_count && !fits; i++) {
        const pawl_rename *rule = &options->renames[i];
        fits = !rename_swaps(rule) && rename_fits(span_of(rule->from), name);
        if (fits) {
            TRY(rename_by(span_of(rule->from), span_of(rule->to), name, out, err));
            *renamed = (const char *)out->data;
        }
    }
    for (size_t i = 0; i < options->rename_count; i++) {
        if (rename_swaps(&options->renames[i])) {
            TRY(swap(&options->renames[i], *renamed, out, err));
            *renamed = (const char *)out->data;
        }
    }
    return PAWL_OK;
}
