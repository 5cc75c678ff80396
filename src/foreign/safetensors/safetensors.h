/* SPDX-License-Identifier: Apache-2.0 */
/* foreign/safetensors: a safetensors file, or a Hugging Face directory of several with an index. */
#ifndef FOREIGN_SAFETENSORS_H
#define FOREIGN_SAFETENSORS_H

#include "foreign/archive.h"
#include "foreign/writer.h"

/* Of __metadata__: what writer_values makes. */
#define SAFETENSORS_VALUES_KEY "pawl.values"

/* By its name: an index, not a file of tensors. */
bool safetensors_is_index(const char *name);

/* archive_format.read, compare, verify */
pawl_status safetensors_read(archive *a, pawl_error *err) PAWL_MUST_CHECK;
pawl_status safetensors_compare(const archive *a, pawl_error *err) PAWL_MUST_CHECK;
pawl_status safetensors_verify(archive *a, source_verifier *v, pawl_error *err) PAWL_MUST_CHECK;

/* writer_format.refuses, write */
const char *safetensors_refuses(const writer_item *item);
pawl_status safetensors_write(const writer_job *job, pawl_error *err) PAWL_MUST_CHECK;

#endif
