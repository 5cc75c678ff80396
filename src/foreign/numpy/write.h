/* SPDX-License-Identifier: Apache-2.0 */
/* numpy/write: .npy files, and .npz archives of them. */
#ifndef FOREIGN_NUMPY_WRITE_H
#define FOREIGN_NUMPY_WRITE_H

#include "foreign/writer.h"

/* The member of an archive that has what writer_values makes. */
#define NUMPY_VALUES "pawl.values.json"

/* writer_format.refuses, write */
const char *npz_refuses(const writer_item *item);
pawl_status npz_write(const writer_job *job, pawl_error *err) PAWL_MUST_CHECK;
const char *npy_refuses(const writer_item *item);
pawl_status npy_write(const writer_job *job, pawl_error *err) PAWL_MUST_CHECK;

#endif
