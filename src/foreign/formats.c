/* SPDX-License-Identifier: Apache-2.0 */
/* The formats that can be opened. */
#include "foreign/formats.h"
#include "foreign/hdf5/hdf5.h"
#include "foreign/keras/keras.h"
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

#define CHECKED_OF_HDF5                                                                            \
    "what describes the tensors, with its checksums where there are any, that every byte can be "  \
    "read, and the checksums of chunks that have one"
#define NO_CHECKSUMS_OF_HDF5                                                                       \
    "not checked: other values, because HDF5 files have no checksums of them"

const archive_format format_hdf5 = {
    .name = "hdf5",
    .unverified = "checked: " CHECKED_OF_HDF5 "; " NO_CHECKSUMS_OF_HDF5,
    .read = hdf5_read,
    .verify = hdf5_verify,
};

const archive_format format_keras = {
    .name = "keras",
    .unverified = NULL,
    .read = keras_read,
    .verify = keras_verify,
};

const archive_format format_keras_sharded = {
    .name = "keras, sharded",
    .unverified =
        "checked: the index against the files, " CHECKED_OF_HDF5 "; " NO_CHECKSUMS_OF_HDF5,
    .read = keras_read_sharded,
    .compare = keras_compare_sharded,
    .verify = hdf5_verify,
};
