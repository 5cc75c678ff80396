/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/data_files: reads the data files of one step whole, without its index; for rebuild. */
#ifndef CHECKPOINT_DATA_FILES_H
#define CHECKPOINT_DATA_FILES_H

#include "checkpoint/checkpoint.h"
#include "engine/engine.h"

typedef struct data_file {
    uint64_t bytes;
    int rank;
    uint32_t *sums; /* freed by data_files_free */
} data_file;

typedef struct data_files {
    data_file *files;
    engine_file *checksums; /* the same sums, for index_input */
    size_t file_count;
    int world_size;
    record_entry *entries; /* of all files; ascending by name after data_files_read */
    size_t entry_count, entry_capacity;
    size_t next; /* for data_files_entries */
    arena memory;
} data_files;

/* Reads every byte of the data files that `m` names (nothing else of `m` is used). PAWL_EDAMAGED
 * when they are not of one save, were never finished, or no longer have the sum that they were
 * finished with. With `overruled` a wrong sum is accepted, and logged there as a warning. */
pawl_status data_files_read(data_files *d, store *s, const char *directory, int64_t step,
                            const manifest *m, const pawl_log *overruled, pawl_error *err)
    PAWL_MUST_CHECK;
entry_source data_files_entries(data_files *d);
void data_files_free(data_files *d);

#endif
