/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api: what include/pawl/ exports: checks arguments, fills in what the caller left out, calls down.
 *
 * May include everything below it. Every call gives the layers below an error of its own and copies
 * it to the caller's only after a failure: a caller may pass NULL, and success leaves its error
 * untouched.
 */
#ifndef API_API_H
#define API_API_H

#include "base/base.h"
#include "base/structs.h"
#include "store/store.h"

#include <pawl/check.h>
#include <pawl/checkpoint.h>
#include <pawl/doctor.h>

/* ---- errors: error.c ------------------------------------------------------------------------ */

/* Empties the call's own error, without writing all of its bytes. */
pawl_error *story_begin(struct pawl_error *story);
/* Passes a failure to the caller, if it wants to know. */
pawl_status story_end(pawl_status status, const struct pawl_error *story, pawl_error *err);

/* ---- arguments: arguments.c ----------------------------------------------------------------- */

/* Fills PAWL_EUSAGE: "pawl_save: state is a null pointer". */
void null_pointer(const char *call, const char *argument, pawl_error *err);

static inline PAWL_MUST_CHECK pawl_status need(const void *pointer, const char *call,
                                               const char *argument, pawl_error *err) {
    if (pointer == NULL) {
        null_pointer(call, argument, err);
        return PAWL_EUSAGE;
    }
    return PAWL_OK;
}

/* An array, or a buffer: it may be NULL when there is nothing in it. */
static inline PAWL_MUST_CHECK pawl_status need_items(const void *items, size_t count,
                                                     const char *call, const char *argument,
                                                     pawl_error *err) {
    return count > 0 ? need(items, call, argument, err) : PAWL_OK;
}

/* PAWL_EUSAGE in a process other than the one that opened the handle, which is a forked child. To
 * be asked first: in a child the handle's locks and threads are not usable. `what`: "run"; `opens`:
 * the call that opens one. */
pawl_status need_own(process_id process, const char *call, const char *what, const char *opens,
                     pawl_error *err) PAWL_MUST_CHECK;
/* A checkpoint, not NULL, that this process opened. */
pawl_status need_checkpoint(const pawl_checkpoint *checkpoint, const char *call, pawl_error *err)
    PAWL_MUST_CHECK;

/* PAWL_EUNSUPPORTED: a caller's struct of `found` bytes has something set behind the first
 * `expected`. */
pawl_status newer_struct(const char *call, const char *type, size_t expected, size_t found,
                         pawl_error *err);

/*
 * Copies a caller's struct, whose first field is its size, to one of ours. Fields that an older
 * caller does not have become zero; fields that only a newer caller has must be zero. `from` NULL:
 * all zero.
 */
pawl_status take_options(void *to, size_t to_bytes, const void *from, const char *call,
                         const char *type, pawl_error *err) PAWL_MUST_CHECK;

/* An array of a caller's structs that have no struct_size of their own. */
typedef struct given_items {
    const void *items;
    size_t count, size;                         /* of an element, as the caller says */
    size_t known_size;                          /* of ours */
    const char *call, *name, *size_name, *type; /* "pawl_restore", "renames", "rename_size", ... */
} given_items;

/* As take_options, for each element. *copy: an array of ours, for the caller to free by mem_free;
 * NULL: the given one has our elements. */
pawl_status take_items(const given_items *given, void **copy, pawl_error *err) PAWL_MUST_CHECK;

/* Something that the call fills: not NULL, and with its size. Asked before anything is done. */
pawl_status need_output(const void *to, const char *call, const char *argument, const char *type,
                        pawl_error *err) PAWL_MUST_CHECK;
/* Fills it: members that an older caller does not have are left out, those that only a newer caller
 * has become zero, and its size stays. */
void give_output(void *to, const void *from, size_t from_bytes);

/* The copies of the rename rules are freed by mem_free. */
pawl_status take_restore_options(pawl_restore_options *to, void **renames,
                                 const pawl_restore_options *from, const char *call,
                                 pawl_error *err) PAWL_MUST_CHECK;
/* take_options for what a caller's options point to, if they do: they point to `known` afterwards.
 */
pawl_status take_log(const pawl_log **log, pawl_log *known, const char *call, pawl_error *err)
    PAWL_MUST_CHECK;
/* An argument that is an array of pawl_array; *copy is freed by mem_free. */
pawl_status take_arrays(const pawl_array **arrays, size_t count, size_t array_size, void **copy,
                        const char *call, const char *name, pawl_error *err) PAWL_MUST_CHECK;
/* group.c */
pawl_status take_group(const pawl_group **group, pawl_group *known, const char *call,
                       pawl_error *err) PAWL_MUST_CHECK;
pawl_status check_group_deadline(double deadline_s, const char *call, pawl_error *err)
    PAWL_MUST_CHECK;

/* ---- opening: open.c, open_checkpoint.c ----------------------------------------------------- */

/* storage_open_path, as a store that repeats what fails for a passing reason. */
pawl_status open_retrying(const pawl_storage *storage, const char *path, bool create, store **out,
                          pawl_error *err) PAWL_MUST_CHECK;
/* The same of a directory of another tool: as path_open_of_links. */
pawl_status open_links_retrying(const pawl_storage *storage, const char *path, store **out,
                                pawl_error *err) PAWL_MUST_CHECK;
/* The same of a path that may be a file which foreign_open opens: as path_open_file. */
pawl_status open_file_retrying(const pawl_storage *storage, const char *path, store **out,
                               char **file, pawl_error *err) PAWL_MUST_CHECK;

typedef struct opening {
    const pawl_storage *storage; /* NULL: the local filesystem */
    const pawl_log *log;         /* NULL: none */
    int64_t step;                /* CHECKPOINT_NEWEST: none was given */
    pawl_log known_log;
} opening;

/* `with_step`: the call opens a step; PAWL_EUSAGE where one is given to another call. */
pawl_status take_opening(opening *to, const pawl_open_options *from, bool with_step,
                         const char *call, pawl_error *err) PAWL_MUST_CHECK;
/* Of options that name a step, or none (NULL): PAWL_EUSAGE for a negative one. */
pawl_status check_step(const int64_t *step, const char *call, pawl_error *err) PAWL_MUST_CHECK;
/* Opens what there is at a path: a checkpoint of a run, or weights of another tool. */
pawl_status open_checkpoint_at(const char *path, const opening *how, pawl_checkpoint **out,
                               pawl_error *err) PAWL_MUST_CHECK;

#endif
