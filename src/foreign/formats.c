/* SPDX-License-Identifier: Apache-2.0 */
/* The formats that can be opened. */
#include "foreign/formats.h"
#include "foreign/dcp/read.h"
#include "foreign/gguf/gguf.h"
#include "foreign/hdf5/hdf5.h"
#include "foreign/keras/keras.h"
#include "foreign/numpy/numpy.h"
#include "foreign/orbax/orbax.h"
#include "foreign/safetensors/safetensors.h"
#include "foreign/tensorflow/read.h"
#include "foreign/torch/read.h"

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

const archive_format format_gguf = {
    .name = "GGUF",
    .unverified = "checked: the header, the size, and that every byte can be read; not checked: "
                  "the values, because GGUF files have no checksums",
    .read = gguf_read,
};

const archive_format format_torch = {
    .name = "PyTorch",
    .unverified = NULL, /* each member of a zip has a checksum */
    .read = torch_zip_read,
    .sums = true,
    .sum = crc32_zip,
    .verify = torch_zip_verify,
};

const archive_format format_torch_sharded = {
    .name = "PyTorch, sharded",
    .unverified = NULL,
    .read = torch_sharded_read,
    .compare = torch_zip_compare,
    .sums = true,
    .sum = crc32_zip,
    .verify = torch_zip_verify,
};

const archive_format format_dcp = {
    .name = "PyTorch DCP",
    .unverified = NULL,
    .read = dcp_read,
    .sums = true,
    .sum = crc32_zip,
    .verify = dcp_verify,
};

#define NO_CHECKSUMS_OF_OLD_FILES                                                                  \
    "checked: that the file has all that it names, and that every byte can be read; not checked: " \
    "the values, because PyTorch files from before 1.6 have no checksums"

const archive_format format_torch_stream = {
    .name = "PyTorch, legacy",
    .unverified = NO_CHECKSUMS_OF_OLD_FILES,
    .read = torch_stream_read,
};

const archive_format format_torch_tar = {
    .name = "PyTorch, legacy tar",
    .unverified = NO_CHECKSUMS_OF_OLD_FILES,
    .read = torch_tar_read,
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
    .sums = true,
    .sum = crc32_zip,
    .verify = npz_verify,
};

#define CHECKED_OF_HDF5                                                                            \
    "what describes the tensors, with its checksums where there are any, that every byte can be "  \
    "read, and the checksums of chunks that have one"
#define NO_CHECKSUMS_OF_HDF5                                                                       \
    "not checked: other values, because HDF5 files have no checksums of them"

const archive_format format_hdf5 = {
    .name = "HDF5",
    .unverified = "checked: " CHECKED_OF_HDF5 "; " NO_CHECKSUMS_OF_HDF5,
    .read = hdf5_read,
    .verify = hdf5_verify,
};

const archive_format format_keras = {
    .name = "Keras",
    .unverified = NULL,
    .read = keras_read,
    .sums = true,
    .sum = crc32_zip,
    .verify = keras_verify,
};

const archive_format format_keras_sharded = {
    .name = "Keras, sharded",
    .unverified =
        "checked: the index against the files, " CHECKED_OF_HDF5 "; " NO_CHECKSUMS_OF_HDF5,
    .read = keras_read_sharded,
    .compare = keras_compare_sharded,
    .verify = hdf5_verify,
};

const archive_format format_tensorflow = {
    .name = "TensorFlow",
    .unverified = NULL, /* each tensor has a checksum */
    .read = tensorflow_read,
    .sums = true,
    .sum = crc32c,
    .verify = tensorflow_verify,
};

const archive_format format_orbax = {
    .name = "Orbax",
    .unverified = "checked: the nodes of databases, with their checksums, what describes the "
                  "arrays, that all chunks can be decoded, and the checksums of those that have "
                  "one; not checked: values of chunks that have none",
    .read = orbax_read,
    .verify = orbax_verify,
};
