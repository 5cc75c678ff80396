/* SPDX-License-Identifier: Apache-2.0 */
/* The formats that can be opened. */
#include "foreign/formats.h"
#include "foreign/orbax/orbax.h"
#include "foreign/safetensors/safetensors.h"

#define NO_CHECKSUMS_OF_SAFETENSORS                                                                \
    "not checked: the values, because safetensors files have no checksums"

const archive_format format_safetensors = {
    .name = "safetensors",
    .unverified = "checked: the header, the size, and that every byte can be "
                  "read; " NO_CHECKSUMS_OF_SAFETENSORS,
    .read = safetensors_read,
    .compare = safetensors_compare,
    .verify = safetensors_verify,
};

const archive_format format_safetensors_sharded = {
    .name = "safetensors, sharded",
    .unverified = "checked: the index against the headers, the headers, the sizes, and that every "
                  "byte can be read; " NO_CHECKSUMS_OF_SAFETENSORS,
    .read = safetensors_read,
    .compare = safetensors_compare,
    .verify = safetensors_verify,
};

const archive_format format_orbax = {
    .name = "Orbax",
    .unverified = "checked: the nodes of databases, with their checksums, what describes the "
                  "arrays, that all chunks can be decoded, and the checksums of those that have "
                  "one; not checked: values of chunks that have none",
    .read = orbax_read,
    .verify = orbax_verify,
};
