/* SPDX-License-Identifier: Apache-2.0 */
/* torch/names: keys of dicts, as a pickle has them, as components of names (keys.h). */
#ifndef FOREIGN_TORCH_NAMES_H
#define FOREIGN_TORCH_NAMES_H

#include "foreign/archive.h"
#include "foreign/pickle/pickle.h"

/* Appends a key as a component. `whole`: it must not be taken for a name that has a meaning, and
 * its first character is escaped. Adds to *visits as torch_put_json. */
pawl_status torch_name_key(const pickle_node *key, bool whole, buffer *out, uint64_t *visits,
                           pawl_error *err) PAWL_MUST_CHECK;

#endif
