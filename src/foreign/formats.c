/* SPDX-License-Identifier: Apache-2.0 */
/* The formats that can be opened. */
#include "foreign/formats.h"
#include "foreign/numpy/numpy.h"
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

const archive_format format_npy = {
    .name = "npy",
    .unverified = "checked: the header, the size, and that every byte can be read; not checked: "
                  "the values, because npy files have no checksums",
    .read = npy_read,
};

const archive_format format_npz = {
    .name = "npz",
    .unverified = NULL,
    .read = npz_read,
    .verify = npz_verify,
};
