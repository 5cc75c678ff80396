/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foreign/hdf5: HDF5 files (HDF5 File Format Specification 3.0): all that h5py writes by default,
 * and most of what it writes with libver="latest".
 *
 * Nothing that a file says is trusted. Every block is loaded through hdf5_load, which compares its
 * place with the size of the file and counts its bytes; trees may neither be deep nor come back to
 * where they were: what is in them ascends. Links are not followed out of the file, and no object
 * is read twice. Private to src/foreign.
 */
#ifndef FOREIGN_HDF5_H
#define FOREIGN_HDF5_H

#include "foreign/archive.h"

/* What was used of maxima that are for all files of a checkpoint together. */
typedef struct hdf5_usage {
    uint64_t loaded; /* bytes of what describes the tensors */
    uint64_t links, chunks;
    uint64_t name_bytes, value_bytes;
} hdf5_usage;

/* Where an HDF5 file is: all of a file, or inside of another one. */
typedef struct hdf5_place {
    uint32_t stream;
    uint64_t offset, bytes;
} hdf5_place;

/* Adds a tensor of each dataset, and a value or tensor of each attribute. */
pawl_status hdf5_add(archive *a, const hdf5_place *place, hdf5_usage *usage, pawl_error *err)
    PAWL_MUST_CHECK;
/* By its first bytes. */
bool hdf5_looks_like(const uint8_t *head, size_t n);
/* Where a file of so many bytes begins: at byte 0, 512, 1024, ...; before it lies the user's. */
pawl_status hdf5_locate(store_file *file, uint64_t offset, uint64_t bytes, uint64_t *out,
                        bool *found, pawl_error *err) PAWL_MUST_CHECK;
/* archive_format.read: a->name is the file. */
pawl_status hdf5_read(archive *a, pawl_error *err) PAWL_MUST_CHECK;
/* archive_format.verify: unpacks all chunks, of all HDF5 files of the archive. */
pawl_status hdf5_verify(archive *a, source_verifier *v, pawl_error *err) PAWL_MUST_CHECK;

#endif
