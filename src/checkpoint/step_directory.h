/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/step_directory: the directory of one step: its names, its manifest, its files. */
#ifndef CHECKPOINT_STEP_DIRECTORY_H
#define CHECKPOINT_STEP_DIRECTORY_H

#include "format/manifest.h"
#include "store/store.h"

/* ---- names ---------------------------------------------------------------------------------- */

typedef struct step_listing {
    const char **names; /* ascending */
    store_stat *stats;
    size_t count;
} step_listing;

/* What is in a step's directory. */
pawl_status step_list(store *s, const char *directory, arena *memory, step_listing *out,
                      pawl_error *err) PAWL_MUST_CHECK;
/* The step numbers among the names in a run's directory, ascending; what has such a name may be an
 * unfinished step, or no directory at all. */
pawl_status step_numbers(store *s, arena *memory, int64_t **steps, size_t *count, pawl_error *err)
    PAWL_MUST_CHECK;
/* PAWL_EDAMAGED where something else than a directory has the name of a step; it is left alone. */
pawl_status step_check_directory(store *s, const char *directory, pawl_error *err) PAWL_MUST_CHECK;
const char *step_not_directory_text(store_type type); /* what it is: "a file" */
/* PAWL_EBUSY where something is mounted on the path, or on the step or a name in it: what lies
 * behind a mount is not the run's to remove. */
pawl_status step_check_mount(store *s, const char *path, pawl_error *err) PAWL_MUST_CHECK;
pawl_status step_check_mounts(store *s, const char *directory, pawl_error *err) PAWL_MUST_CHECK;

/* ---- the manifest --------------------------------------------------------------------------- */

/* An error of the storage is returned, never taken for a missing manifest: an older step would be
 * restored without anybody noticing. */
pawl_status step_has_manifest(store *s, const char *directory, bool *present, pawl_error *err)
    PAWL_MUST_CHECK;
/* The same for the run's owner: where the storage may show names late, absence is proven
 * (store/evidence.h). */
pawl_status step_prove_manifest(store *s, const char *directory, bool *present, pawl_error *err)
    PAWL_MUST_CHECK;
/* The text of the manifest, and on an object store its version, which may be that of a placeholder
 * though there is no manifest. PAWL_ENOTFOUND: there is none. */
pawl_status step_manifest_text(store *s, const char *directory, buffer *text, store_tag *version,
                               pawl_error *err) PAWL_MUST_CHECK;
/* PAWL_ENOTFOUND: the step is not committed. With PAWL_EDAMAGED and PAWL_EUNSUPPORTED `text` is set
 * as well. */
pawl_status step_read_manifest(store *s, int64_t step, buffer *text, manifest *out, pawl_error *err)
    PAWL_MUST_CHECK;
/* What has become of a manifest since its text was read. While it is the same, every file that it
 * names stays (I5); no two saves publish the same text. */
typedef enum step_manifest {
    STEP_MANIFEST_SAME,
    STEP_MANIFEST_OTHER, /* the step was saved again */
    STEP_MANIFEST_GONE,  /* the step was removed */
    STEP_MANIFEST_UNREADABLE
} step_manifest;
step_manifest step_manifest_now(store *s, const char *directory, const buffer *was);
/* PAWL_EDAMAGED for the first file of the manifest that is missing or has another size. */
pawl_status step_check_files(store *s, const char *directory, const manifest *m,
                             const step_listing *listing, pawl_error *err) PAWL_MUST_CHECK;
/* Sets the error's `safe` and `next`: names another committed step, an older one if possible. */
void step_say_safe(store *s, int64_t step, pawl_error *err);

#endif
