/* SPDX-License-Identifier: Apache-2.0 */
/* pawl_error_*, and how the error of a failed call reaches the caller's. */
#include "api/api.h"

#include <string.h>

pawl_error *story_begin(struct pawl_error *story) {
    (void)error_set(story, PAWL_OK, "%s", "");
    return story;
}

pawl_status story_end(pawl_status status, const struct pawl_error *story, pawl_error *err) {
    if (status != PAWL_OK && err != NULL) {
        *err = *story;
        err->status = status;
        err->rendered[0] = '\0';
    }
    return status;
}

pawl_error *pawl_error_new(void) {
    pawl_error *err = mem_alloc(sizeof(*err));
    return err != NULL ? story_begin(err) : NULL;
}

void pawl_error_free(pawl_error *err) {
    mem_free(err);
}

pawl_status pawl_error_status(const pawl_error *err) {
    return err != NULL ? err->status : PAWL_OK;
}

int pawl_error_errno(const pawl_error *err) {
    return err != NULL ? err->system_errno : 0;
}

int64_t pawl_error_step(const pawl_error *err) {
    return err != NULL ? err->step : -1;
}

int pawl_error_range(const pawl_error *err, uint64_t *offset, uint64_t *length) {
    if (err == NULL || !err->has_range) {
        return 0;
    }
    if (offset != NULL) {
        *offset = err->offset;
    }
    if (length != NULL) {
        *length = err->length;
    }
    return 1;
}

static const char *part_text(const pawl_error *err, pawl_error_part part) {
    switch (part) {
    case PAWL_ERROR_ATTEMPT:
        return err->attempt;
    case PAWL_ERROR_PATH:
        return err->path;
    case PAWL_ERROR_ENTRY:
        return err->entry;
    case PAWL_ERROR_EXPECTED:
        return err->expected;
    case PAWL_ERROR_FOUND:
        return err->found;
    case PAWL_ERROR_SYSTEM:
        return err->system;
    case PAWL_ERROR_SAFE:
        return err->safe;
    case PAWL_ERROR_NEXT:
        return err->next;
    }
    return "";
}

const char *pawl_error_get(const pawl_error *err, pawl_error_part part) {
    const char *text = err != NULL ? part_text(err, part) : "";
    return text[0] != '\0' ? text : NULL;
}

const char *pawl_error_text(pawl_error *err) {
    return err != NULL ? error_text(err) : "";
}

const char *pawl_error_json(pawl_error *err) {
    return err != NULL ? error_json(err) : "{}";
}
