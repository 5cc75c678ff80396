/* SPDX-License-Identifier: Apache-2.0 */
/*
 * state/tree: entries in the order of their names, in a balanced tree whose links are in the
 * entries themselves, so that an entry is in one tree at most.
 *
 * Threads: those of the state. Ownership: a tree has a reference to each of its entries; what is
 * taken out of it is the caller's again.
 */
#ifndef STATE_TREE_H
#define STATE_TREE_H

#include "state/entry.h"

typedef held_entry *entry_tree; /* NULL: empty */

/* NULL: none has that name. */
held_entry *tree_find(entry_tree tree, const char *name);
/* Inserts `e`, and returns NULL; or the entry that has its name already: then the tree stays as it
 * is. */
held_entry *tree_insert(entry_tree *tree, held_entry *e);
void tree_remove(entry_tree *tree, held_entry *e);
/* `next` takes the place of the entry that has its name, which is returned; NULL: none has it. */
held_entry *tree_replace(entry_tree *tree, held_entry *next);
/* All entries, ascending by name, to `out`, which has room for them. Returns how many. */
size_t tree_list(entry_tree tree, const state_entry **out);
/* Of `count` entries that ascend by name. Takes a fraction of the time that inserting them would
 * take. */
entry_tree tree_build(const state_entry *const *ascending, size_t count);
/* Lets go of every entry. */
void tree_free(entry_tree tree);

#endif
