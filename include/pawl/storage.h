/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pawl/storage.h: where runs are, and how they are opened.
 *
 * A path alone means the local filesystem, and whatever is mounted in it. A pawl_storage stands for
 * another place, with what it takes to reach it; paths are then names in that place. The same
 * handle serves any number of runs, checkpoints and readers:
 *
 *     pawl_storage *storage = NULL;
 *     must(pawl_storage_open("file", NULL, &storage, err));
 *     pawl_open_options options = {.struct_size = sizeof options, .storage = storage};
 *     must(pawl_checkpoint_open("runs/a", &options, &checkpoint, err));
 *     pawl_storage_close(storage);
 *
 * Any number of threads may use a storage at once. What was opened in it holds on to it: it may be
 * closed at any time. Everything comes from the call: the library reads no environment and no files
 * of settings or credentials.
 */
#ifndef PAWL_STORAGE_H
#define PAWL_STORAGE_H

#include <pawl/error.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pawl_storage pawl_storage;

/* What a kind of storage needs to know: an address, a region, credentials. An element of an array,
 * whose user says how large each is. */
typedef struct pawl_setting {
    const char *name;
    const char *value;
} pawl_setting;

typedef struct pawl_storage_options {
    size_t struct_size;           /* sizeof(pawl_storage_options) */
    const pawl_setting *settings; /* copied; each name once [none] */
    size_t setting_count;
    size_t setting_size; /* sizeof(pawl_setting); needed where setting_count is not 0 */
} pawl_storage_options;

/*
 * `kind`: NULL or "file" is the local filesystem, which has no settings; this build has no other:
 * PAWL_EUNSUPPORTED says which it has. PAWL_EUSAGE names a setting that the kind does not know.
 * Nothing is looked at until something is opened.
 */
PAWL_API pawl_status pawl_storage_open(const char *kind, const pawl_storage_options *options,
                                       pawl_storage **storage, pawl_error *err) PAWL_MUST_CHECK;
PAWL_API void pawl_storage_close(pawl_storage *storage); /* NULL is fine */

/* How something is opened for reading. */
typedef struct pawl_open_options {
    size_t struct_size;          /* sizeof(pawl_open_options) */
    const pawl_storage *storage; /* where it is [NULL: the local filesystem] */
    const pawl_log *log;         /* copied, but for what its context points to [none] */
    const int64_t *step;         /* pawl_checkpoint_open: this one [NULL: the newest] */
} pawl_open_options;

#ifdef __cplusplus
}
#endif

#endif
