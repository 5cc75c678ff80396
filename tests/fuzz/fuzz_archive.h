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

typedef struct fuzz_world {
    store *disk;
    simulated_platform os;
} fuzz_world;

static inline fuzz_world *fuzz_world_of_files(void) {
    static fuzz_world world;
    pawl_error err = ERROR_INIT;
    if (world.disk == NULL) {
        simulated_platform_init(&world.os, 1);
        FUZZ_CHECK(store_mem(&world.disk, &err) == PAWL_OK);
    }
    return &world;
}

static inline void fuzz_put_file(const char *name, const uint8_t *data, size_t size) {
    pawl_error err = ERROR_INIT;
    FUZZ_CHECK(store_replace(fuzz_world_of_files()->disk, name, data, size, &err) == PAWL_OK);
}

static inline int fuzz_open_archive(const archive_format *format, const char *name,
                                    const uint8_t *data, size_t size) {
    fuzz_world *world = fuzz_world_of_files();
    pawl_error err = ERROR_INIT;
    struct source *source;
    pawl_checkpoint *c;
    fuzz_put_file(name, data, size);
    pawl_status status = archive_open(world->disk, false, format, name, false, &source, &err);
    if (status != PAWL_OK) {
        fuzz_check_refusal(&err, status);
        FUZZ_CHECK(err.path[0] != '\0');
        return 0;
    }
    fuzz_accepted++;
    FUZZ_CHECK(checkpoint_open_source(source, &world->os.table, NULL, &c, &err) == PAWL_OK);
    fuzz_read_entries(c);
    pawl_checkpoint_close(c);
    return 0;
}

#endif
