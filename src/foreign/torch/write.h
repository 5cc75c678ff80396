/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torch/write: files as torch.save makes them, which torch.load reads with weights_only=True, and
 * with mmap=True.
 *
 * Names become nested dicts and lists (nest.h), values Python's own, and JSON what it was
 * (value.h).
 */
#ifndef FOREIGN_TORCH_WRITE_H
#define FOREIGN_TORCH_WRITE_H

#include "foreign/pickle/write.h"
#include "foreign/writer.h"
#include "foreign/zip/write.h"

/* writer_format.refuses, changes, write */
const char *torch_refuses(const writer_item *item);
const char *torch_changes(const writer_item *item);
pawl_status torch_write(const writer_job *job, pawl_error *err) PAWL_MUST_CHECK;

/* Pushes a dense tensor whose bytes are the storage `number` of the same file. The memo is that of
 * the pickle. */
pawl_status torch_put_tensor(buffer *pickle, pickle_memo *memo, const writer_item *item,
                             size_t number, pawl_error *err) PAWL_MUST_CHECK;
/* Pushes a value. */
pawl_status torch_put_value(buffer *pickle, const writer_item *item, pawl_error *err)
    PAWL_MUST_CHECK;
/* Begins a file with that object; then come `storages` storages, each begun by torch_begin_storage;
 * then torch_finish. */
pawl_status torch_begin(zip_writer *z, const buffer *pickle, pawl_error *err) PAWL_MUST_CHECK;
pawl_status torch_begin_storage(zip_writer *z, size_t number, uint64_t bytes, char name[64],
                                pawl_error *err) PAWL_MUST_CHECK;
pawl_status torch_finish(zip_writer *z, pawl_error *err) PAWL_MUST_CHECK;

#endif
