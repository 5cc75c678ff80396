/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foreign/huggingface/sharded: a Hugging Face directory: files of tensors, and the index that says
 * which tensor is in which of them. How a file is read is up to its format. Private to src/foreign.
 */
#ifndef FOREIGN_SHARDED_H
#define FOREIGN_SHARDED_H

#include "foreign/archive.h"
#include "foreign/huggingface/shard_index.h"

/* Reads the index, which is a->name, and adds the files that it names. shard_index_free also where
 * it fails. */
pawl_status sharded_read_index(archive *a, const shard_kind *kind, shard_index *out,
                               pawl_error *err) PAWL_MUST_CHECK;
/* Counts what describes the tensors of one more file: PAWL_ELIMIT where it is too much for all of
 * them together. */
pawl_status sharded_count(uint64_t *so_far, uint64_t bytes, pawl_error *err) PAWL_MUST_CHECK;
/* Has each file the tensors that the index says, and no others? For archive_format.compare. An
 * empty index: the file is alone. */
pawl_status sharded_compare(const archive *a, const shard_index *index, pawl_error *err)
    PAWL_MUST_CHECK;

#endif
