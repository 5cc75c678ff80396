/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torch/value: JSON as objects of Python, for torch.load(weights_only=True).
 *
 * What JSON has not is an object whose first member is "$", which names what it is: json.c makes
 * them of a pickle, docs/formats.md has them all. Tuples, sets, bytes, complex numbers, infinities,
 * dicts with keys of any kind, OrderedDict, Counter, torch.Size, device and dtype are made again; a
 * number of NumPy becomes a number. Others would be refused by torch.load: they are written as the
 * dict that the JSON is.
 */
#ifndef FOREIGN_TORCH_VALUE_H
#define FOREIGN_TORCH_VALUE_H

#include "base/json.h"

/* Pushes a JSON text that was checked. */
pawl_status torch_put_python(buffer *pickle, const char *text, size_t n, pawl_error *err)
    PAWL_MUST_CHECK;
/* Is all of it made again, and nothing a dict that only describes? */
bool torch_json_is_exact(const char *text, size_t n);

#endif
