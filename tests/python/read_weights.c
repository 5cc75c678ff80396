/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens each path that comes on stdin, a line each, as a checkpoint. Answers with a line of JSON:
 * all entries with their bytes, and whether they verify; or why the path was refused.
 */
#include "print_string.h"

#include <pawl/pawl.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_failure(pawl_status status, pawl_error *err) {
    (void)printf("{\"status\": \"%s\", \"text\": ", pawl_status_name(status));
    print_string(pawl_error_text(err));
    (void)fputs("}\n", stdout);
}

static pawl_status print_bytes(pawl_checkpoint *c, const pawl_entry_info *info, pawl_error *err) {
    AUTOFREE uint8_t *bytes = mem_alloc((size_t)info->bytes);
    pawl_status status =
        pawl_checkpoint_read(c, info->name, NULL, NULL, bytes, (size_t)info->bytes, err);
    if (status == PAWL_EUNSUPPORTED) {
        (void)fputs("null", stdout);
        return PAWL_OK;
    }
    (void)fputs("\"", stdout);
    for (uint64_t i = 0; status == PAWL_OK && i < info->bytes; i++) {
        (void)printf("%02x", bytes[i]);
    }
    (void)fputs("\"", stdout);
    return status;
}

static pawl_status print_entry(pawl_checkpoint *c, const pawl_entry_info *info, pawl_error *err) {
    (void)fputs("{\"name\": ", stdout);
    print_string(info->name);
    (void)printf(", \"dtype\": \"%s\", \"shape\": [", info->type);
    for (int d = 0; d < info->ndim; d++) {
        (void)printf("%s%" PRId64, d > 0 ? ", " : "", info->shape[d]);
    }
    (void)fputs("], \"data\": ", stdout);
    pawl_status status = print_bytes(c, info, err);
    (void)fputs("}", stdout);
    return status;
}

static pawl_status print_entries(pawl_checkpoint *c, pawl_error *err) {
    pawl_entries *walk = NULL;
    pawl_entry_info info = {.struct_size = sizeof info};
    const char *comma = "";
    int more = 1;
    pawl_status status = pawl_entries_open(c, "", &walk, err);
    while (status == PAWL_OK) {
        status = pawl_entries_next(walk, &info, &more, err);
        if (status != PAWL_OK || more == 0) {
            break;
        }
        (void)fputs(comma, stdout);
        comma = ", ";
        status = print_entry(c, &info, err);
    }
    pawl_entries_free(walk);
    return status;
}

static void answer(const char *path, pawl_error *err) {
    pawl_checkpoint *c = NULL;
    pawl_verify_result result = {.struct_size = sizeof result};
    pawl_status status = pawl_checkpoint_open(path, NULL, &c, err);
    if (status != PAWL_OK) {
        print_failure(status, err);
        return;
    }
    (void)fputs("{\"status\": \"ok\", \"tensors\": [", stdout);
    pawl_status read = print_entries(c, err);
    pawl_status verified = pawl_checkpoint_verify(c, NULL, &result, err);
    (void)printf("], \"read\": \"%s\", \"verified\": \"%s\"}\n", pawl_status_name(read),
                 pawl_status_name(verified));
    pawl_checkpoint_close(c);
}

int main(void) {
    char path[4096];
    pawl_error *err = pawl_error_new();
    while (fgets(path, sizeof path, stdin) != NULL) {
        path[strcspn(path, "\n")] = '\0';
        answer(path, err);
    }
    pawl_error_free(err);
    return 0;
}
