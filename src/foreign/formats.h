/* SPDX-License-Identifier: Apache-2.0 */
/* foreign/formats: what each format is called, and how it is read. Private to this folder. */
#ifndef FOREIGN_FORMATS_H
#define FOREIGN_FORMATS_H

#include "foreign/archive.h"

extern const archive_format format_safetensors, format_safetensors_sharded;
extern const archive_format format_gguf;
extern const archive_format format_torch, format_torch_sharded, format_dcp;
extern const archive_format format_torch_stream, format_torch_tar;
extern const archive_format format_npy, format_npz;
extern const archive_format format_tensorflow;
extern const archive_format format_hdf5, format_keras, format_keras_sharded;
extern const archive_format format_orbax;

#endif
