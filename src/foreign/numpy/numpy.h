/* SPDX-License-Identifier: Apache-2.0 */
/* foreign/numpy: arrays that numpy.save, numpy.savez and numpy.savez_compressed wrote. */
#ifndef FOREIGN_NUMPY_H
#define FOREIGN_NUMPY_H

#include "foreign/archive.h"

/* archive_format.read and .verify */
pawl_status npy_read(archive *a, pawl_error *err) PAWL_MUST_CHECK;
pawl_status npz_read(archive *a, pawl_error *err) PAWL_MUST_CHECK;
pawl_status npz_verify(archive *a, source_verifier *v, pawl_error *err) PAWL_MUST_CHECK;

#endif
