/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/evidence: what is certain of a name where looks may be late (store_traits.coherent).
 *
 * A system that keeps names for a while answers a look from memory: "no such file" may be the
 * answer of a minute ago, a listing may miss names. It does not answer from memory what creates a
 * name that must be new. So a directory is made under the name and removed again: it can be made
 * only where nothing has the name. Whoever looks meanwhile, or after a kill between the two, finds
 * an empty directory, which stands for nothing. Where the storage is coherent one look does.
 *
 * Owners ask it of what they are about to remove or replace, readers of what they are about to call
 * missing; whoever may not create there is left with one look. Any thread.
 */
#ifndef STORE_EVIDENCE_H
#define STORE_EVIDENCE_H

#include "store/store.h"

/* *absent: the storage itself has said that no file has that name; an empty directory counts as
 * none, and is removed. A failure, too, leaves it unproven. */
pawl_status store_prove_absent(store *s, const char *path, bool *absent, pawl_error *err)
    PAWL_MUST_CHECK;
/* Removes a file, or proves that there is none: after PAWL_OK nothing has that name, and an
 * operation on the file that is still on its way finds nothing. */
pawl_status store_unlink_for_certain(store *s, const char *path, pawl_error *err) PAWL_MUST_CHECK;
/* As store_open, of a file to be read: PAWL_ENOTFOUND is not the answer of a memory. */
pawl_status store_open_for_certain(store *s, const char *path, store_mode mode, store_file **out,
                                   pawl_error *err) PAWL_MUST_CHECK;
/* What is listed in the directory, and looked at in it, is from here on as it is now.
 * PAWL_ENOTFOUND: there is no such directory. A kill, or a lost reply, may leave a directory of
 * this name in it. */
#define STORE_LOOK_NAME ".pawl-look"
pawl_status store_look_anew(store *s, const char *directory, pawl_error *err) PAWL_MUST_CHECK;

#endif
