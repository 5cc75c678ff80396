/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foreign/gguf: GGUF files, versions 2 and 3, alone or split into several
 * (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).
 *
 * Tensors keep their names; shapes are row-major, that is, in the reverse order of the file.
 * A quantized tensor is listed with its type ("Q4_K") and its shape; its blocks are the bytes
 * NAME/blocks, rows of whole blocks. Metadata are values metadata/KEY; an array of numbers is a
 * tensor there, one of texts a list in JSON, or, where that is too large, listed as "STRING".
 */
#ifndef FOREIGN_GGUF_H
#define FOREIGN_GGUF_H

#include "foreign/archive.h"

/* By its first bytes. */
bool gguf_looks_like(const uint8_t *head, size_t n);
/* archive_format.read */
pawl_status gguf_read(archive *a, pawl_error *err) PAWL_MUST_CHECK;

#endif
