/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/step_directory: what is in the directory of one step: its manifest, its files. */
#ifndef CHECKPOINT_STEP_DIRECTORY_H
#define CHECKPOINT_STEP_DIRECTORY_H

#include "format/manifest.h"
#include "store/store.h"

typedef struct step_listing {
    char **names; /* ascending */
    store_stat *stats;
    size_t count;
} step_listing;

/* Names and sizes of what is in a step's directory. */
pawl_status step_list(store *s, const char *directory, arena *memory, step_listing *out,
                      pawl_error *err) PAWL_MUST_CHECK;
/* Numbers of the names of steps in a run, ascending, whatever is in them, or is of that name. */
pawl_status step_numbers(store *s, arena *memory, int64_t **steps, size_t *count, pawl_error *err)
    PAWL_MUST_CHECK;
/* PAWL_EDAMAGED where the name of a step belongs to something else: a file, a link, a pipe. Nothing
 * of that kind is ever touched. */
pawl_status step_check_directory(store *s, const char *directory, pawl_error *err) PAWL_MUST_CHECK;
const char *step_not_directory_text(store_type type); /* "a file" */
/* PAWL_EBUSY where something is mounted on a name of the run: what lies behind a mount is not the
 * run's to remove. The other asks it of a step and of every name in it. */
pawl_status step_check_mount(store *s, const char *path, pawl_error *err) PAWL_MUST_CHECK;
pawl_status step_check_mounts(store *s, const char *directory, pawl_error *err) PAWL_MUST_CHECK;
/* *present is false only where there is none for certain: to pass a step over because the storage
 * failed would be to restore an older one without a word. */
pawl_status step_has_manifest(store *s, const char *directory, bool *present, pawl_error *err)
    PAWL_MUST_CHECK;
/* The same, of the run's owner: that none is seen is proven (store/evidence.h). */
pawl_status step_prove_manifest(store *s, const char *directory, bool *present, pawl_error *err)
    PAWL_MUST_CHECK;
/* PAWL_ENOTFOUND: the step is not committed. PAWL_EDAMAGED, PAWL_EUNSUPPORTED: by path
 * and reason. `text` is what was read, also then. */
pawl_status step_read_manifest(store *s, int64_t step, buffer *text, manifest *out, pawl_error *err)
    PAWL_MUST_CHECK;
/* What has become of a manifest since its text was read. While it is the same every file that it
 * names stays (I5); no two saves ever publish the same one. */
typedef enum step_manifest {
    STEP_MANIFEST_SAME,
    STEP_MANIFEST_OTHER, /* the step was saved again */
    STEP_MANIFEST_GONE,  /* the step was removed */
    STEP_MANIFEST_UNREAD /* it cannot be read */
} step_manifest;
step_manifest step_manifest_now(store *s, const char *directory, const buffer *was);
/* PAWL_EDAMAGED naming the first file of the manifest that is missing or has another size. */
pawl_status step_check_files(store *s, const char *directory, const manifest *m,
                             const step_listing *listing, pawl_error *err) PAWL_MUST_CHECK;
/* The error's `safe` and `next`: which other committed step there is, older ones first. */
void step_say_safe(store *s, int64_t step, pawl_error *err);

#endif
