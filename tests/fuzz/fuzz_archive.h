/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_archive: any bytes as the one file of another tool's checkpoint. */
#ifndef FUZZ_ARCHIVE_H
#define FUZZ_ARCHIVE_H

#include "fuzz.h"

#include "checkpoint/private.h"
#include "foreign/archive.h"
#include "lib/simulated_platform.h"
#include "stores/stores.h"

#define FUZZ_READ_BYTES 65536u /* of a larger tensor nothing is read */

static inline void fuzz_read_entry(pawl_checkpoint *c, const pawl_entry_info *info) {
    pawl_error err = ERROR_INIT;
    if (info->kind != PAWL_KIND_TENSOR || info->dtype == 0 || info->bytes > FUZZ_READ_BYTES) {
        return;
    }
    AUTOFREE uint8_t *bytes = mem_alloc((size_t)info->bytes);
    FUZZ_CHECK(bytes != NULL);
    pawl_status status =
        checkpoint_read(c, info->name, NULL, NULL, bytes, (size_t)info->bytes, &err);
    if (status != PAWL_OK) {
        fuzz_check_refusal(&err, status);
    }
}

/* What is understood is walked over, read and verified. */
static inline void fuzz_read_entries(pawl_checkpoint *c) {
    pawl_error err = ERROR_INIT;
    pawl_entries *walk = NULL;
    pawl_entry_info info;
    pawl_verify_result result;
    int more = 1;
    pawl_status status = entries_open(c, "", &walk, &err);
    while (status == PAWL_OK && more != 0) {
        status = entries_next(walk, &info, &more, &err);
        if (status == PAWL_OK && more != 0) {
            fuzz_read_entry(c, &info);
        }
    }
    pawl_entries_free(walk);
    if (status != PAWL_OK) {
        fuzz_check_refusal(&err, status);
    }
    status = checkpoint_verify(c, NULL, &result, &err);
    FUZZ_CHECK(status == PAWL_OK || status == PAWL_EDAMAGED);
}

static inline store *fuzz_disk(void) {
    static store *disk;
    pawl_error err = ERROR_INIT;
    FUZZ_CHECK(disk != NULL || store_mem(&disk, &err) == PAWL_OK);
    return disk;
}

/* A file beside the one that is opened. */
static inline void fuzz_put_beside(const char *name, const void *bytes, size_t n) {
    pawl_error err = ERROR_INIT;
    FUZZ_CHECK(store_replace(fuzz_disk(), name, bytes, n, &err) == PAWL_OK);
}

static inline int fuzz_open_archive(const archive_format *format, const char *name,
                                    const uint8_t *data, size_t size) {
    static simulated_platform os;
    static bool begun;
    pawl_error err = ERROR_INIT;
    struct source *source;
    pawl_checkpoint *c;
    if (!begun) {
        simulated_platform_init(&os, 1);
        begun = true;
    }
    fuzz_put_beside(name, data, size);
    pawl_status status = archive_open(fuzz_disk(), false, format, name, false, &source, &err);
    if (status != PAWL_OK) {
        fuzz_check_refusal(&err, status);
        FUZZ_CHECK(err.path[0] != '\0');
        return 0;
    }
    fuzz_accepted++;
    FUZZ_CHECK(checkpoint_open_source(source, &os.table, NULL, &c, &err) == PAWL_OK);
    fuzz_read_entries(c);
    pawl_checkpoint_close(c);
    return 0;
}

#endif
