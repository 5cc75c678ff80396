/* SPDX-License-Identifier: Apache-2.0 */
/* foreign/formats: what each format is called, and how it is read. Private to this folder. */
#ifndef FOREIGN_FORMATS_H
#define FOREIGN_FORMATS_H

#include "foreign/archive.h"

extern const archive_format format_safetensors, format_safetensors_sharded;
extern const archive_format format_orbax;

#endif
