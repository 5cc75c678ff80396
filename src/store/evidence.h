/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/evidence: proof that a name is absent, where lookups may be out of date (the store's traits
 * do not say `coherent`).
 *
 * A system that caches names may say "no such file" from what it learned a minute ago, and list too
 * few names. But it never answers from its cache whether a name can be created that must be new. So
 * a directory is made under the name and removed again: making it succeeds only where nothing has
 * the name. Whoever looks meanwhile, or after a kill between the two, finds an empty directory,
 * which stands for nothing. On coherent storage one lookup is enough. On an object store that is
 * late, one that is made after waiting until it has caught up (store_catch_up) is.
 *
 * Owners ask for it before they remove or replace a file, readers before they report one missing.
 * Where the process may not create names, there is only the lookup. Any thread.
 */
#ifndef STORE_EVIDENCE_H
#define STORE_EVIDENCE_H

#include "store/store.h"

/* `absent`: it is proven that no file has that name; an empty directory of that name is removed.
 * False where there is a file, and where nothing is proven, as after a failure. */
pawl_status store_prove_absent(store *s, const char *path, bool *absent, pawl_error *err)
    PAWL_MUST_CHECK;
/* Removes a file, or proves that there is none: after PAWL_OK nothing has that name, and an earlier
 * operation on the file that takes effect late finds nothing. */
pawl_status store_unlink_for_certain(store *s, const char *path, pawl_error *err) PAWL_MUST_CHECK;
/* As store_open for reading, but PAWL_ENOTFOUND does not come from a cache. */
pawl_status store_open_for_certain(store *s, const char *path, store_mode mode, store_file **out,
                                   pawl_error *err) PAWL_MUST_CHECK;
/* Makes the system drop what it has cached of the directory: lookups and listings that follow show
 * what is there now. PAWL_ENOTFOUND: there is no such directory. A kill, or a lost reply, may leave
 * a directory of this name in it. */
#define STORE_LOOK_NAME ".pawl-look"
pawl_status store_look_anew(store *s, const char *directory, pawl_error *err) PAWL_MUST_CHECK;

#endif
