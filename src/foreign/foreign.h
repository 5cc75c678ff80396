/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foreign: checkpoints of other tools, as sources. A folder for each format; formats.c lists them.
 * Nothing is ever written beside them.
 *
 * Nothing in them is trusted: lengths, offsets, counts, names and paths are checked before they are
 * used; refusals say the file and the byte. Nothing keeps them from being changed while they are
 * open, which is noticed (archive_file.c). Whether links are followed is up to the store.
 *
 * May include base, tensor, store, format, source. Threads and ownership: as of a source.
 */
#ifndef FOREIGN_FOREIGN_H
#define FOREIGN_FOREIGN_H

#include "source/source.h"

/* Does the name of a file say that foreign_open can open it? Others may be opened, too: what is in
 * them decides. */
bool foreign_opens(const char *name);

/* What a file in a store is called, by its head and end: none of its tensors is read. Fails as
 * foreign_open; PAWL_EDAMAGED also where it was cut off. */
pawl_status foreign_look(store *s, const char *name, const char **format, pawl_error *err)
    PAWL_MUST_CHECK;
/* The names of formats that several files make, for whoever tells them by names alone. */
typedef enum foreign_kind {
    FOREIGN_DCP,
    FOREIGN_ORBAX,
    FOREIGN_TENSORFLOW,
    FOREIGN_SAFETENSORS_SHARDED,
    FOREIGN_TORCH_SHARDED,
    FOREIGN_KERAS_SHARDED
} foreign_kind;
const char *foreign_kind_name(foreign_kind kind);
/* Is a file, or directory, of this name in checkpoints of Orbax alone? */
bool foreign_is_of_orbax(const char *name);

/* The file to open of a directory that is no run: model.safetensors, or the one index, or the one
 * safetensors file, or one of another format. *found is false where there is none, and where a run
 * or a step has files. PAWL_ENOTFOUND: there are several, and nothing says which. */
pawl_status foreign_find(store *s, char name[STORE_MAX_PATH], bool *found, pawl_error *err)
    PAWL_MUST_CHECK;

/* Opens a file in the root of a store, with the files that it names. `whole`: the path that is the
 * user's is the directory, not the file. The store is the source's when `own_store`, also when this
 * fails. PAWL_EUSAGE: it is no checkpoint that is known; PAWL_EDAMAGED, PAWL_ELIMIT,
 * PAWL_EUNSUPPORTED: with the file and the position. */
pawl_status foreign_open(store *s, bool own_store, const char *name, bool whole,
                         struct source **out, pawl_error *err) PAWL_MUST_CHECK;

#endif
