/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torch/keys: keys of dicts as components of names, and back.
 *
 * A text is itself, with %XX for what no component may have; an empty one is "%". An integer is its
 * canonical decimal (0, 17, -3), and so is a place in a list: of a text that looks like one the
 * first character is escaped (%30). Any other key is "$" and its JSON: $true, $null, $1.5,
 * ${"$":"tuple","items":[1,2]}; of a text that looks like that the "$" is escaped.
 */
#ifndef FOREIGN_TORCH_KEYS_H
#define FOREIGN_TORCH_KEYS_H

#include "base/base.h"

typedef enum torch_key {
    TORCH_KEY_TEXT = 1,
    TORCH_KEY_INTEGER,
    TORCH_KEY_OTHER /* JSON, behind the "$" */
} torch_key;

/* Is it a canonical decimal? */
bool torch_is_integer(const char *text, size_t n);
/* Is it "$" and the JSON of what may be a key: no text, no list, and no dict without a tag? */
bool torch_is_other(const char *text, size_t n);
/* What a component of a name stands for; `n` bytes. TEXT: unescaped in place, *n is what is left.
 * OTHER: the same, with the "$". */
torch_key torch_key_of(char *component, size_t *n);
/* Pushes the key that a component of a name, of at most PAWL_MAX_NAME_BYTES, stands for. */
pawl_status torch_put_key(buffer *pickle, const char *component, size_t n, pawl_error *err)
    PAWL_MUST_CHECK;

#endif
