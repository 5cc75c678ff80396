/* SPDX-License-Identifier: Apache-2.0 */
/*
 * convert: what an open checkpoint has, written in another format.
 *
 * A plan says what becomes of each entry. A feed reads tensors ahead, in the order of the writer,
 * while the writer writes. A place keeps what is written out of sight until it is whole.
 *
 * Threads: a call uses the checkpoint on the caller's thread, then on one of its own, which has
 * ended when the call returns.
 */
#ifndef CONVERT_CONVERT_H
#define CONVERT_CONVERT_H

#include "base/base.h"
#include "checkpoint/checkpoint.h"
#include "foreign/writer.h"
#include "store/store.h"
#include "tensor/tensor.h"

#include <pawl/convert.h>

/* ---- plan.c --------------------------------------------------------------------------------- */

/* An entry that is converted. */
typedef struct plan_item {
    const writer_item *to; /* under its new name; set once all are planned */
    const char *from;
    pawl_dtype from_dtype;
    uint64_t from_bytes;
} plan_item;

typedef struct convert_plan {
    writer_item *writing; /* ascending by name */
    plan_item *items;     /* of each of those */
    size_t count, writing_room, item_room;
    uint64_t from_bytes; /* of all tensors */
    arena memory;
} convert_plan;

/* Decides on each entry, tells the caller, and counts in *result. `to` NULL: a run. */
pawl_status convert_plan_make(pawl_checkpoint *from, const writer_format *to,
                              const pawl_convert_options *options, convert_plan *plan,
                              pawl_convert_result *result, pawl_error *err) PAWL_MUST_CHECK;
void convert_plan_free(convert_plan *plan);

/* ---- to_files.c, to_run.c: what is planned -------------------------------------------------- */

/* Both: with `dry_run` only whether it could be written is looked at. */
/* To a format of another tool: `name` in `parent`. */
pawl_status convert_to_files(pawl_checkpoint *from, const convert_plan *plan, store *parent,
                             const char *name, const writer_format *to,
                             const pawl_convert_options *options, const platform *os,
                             pawl_convert_result *result, pawl_error *err) PAWL_MUST_CHECK;
/* To a step of the run that is, or will be, in `into`, which is taken over. */
pawl_status convert_to_run(pawl_checkpoint *from, const convert_plan *plan, store *into,
                           const pawl_convert_options *options, const platform *os,
                           pawl_convert_result *result, pawl_error *err) PAWL_MUST_CHECK;

/* ---- request.c: parts of tensors, read together --------------------------------------------- */

typedef struct request {
    pawl_slice *slices;
    size_t count, room;
    arena memory;
} request;

/* A box of the tensor, of so many bytes, as the checkpoint has it. */
pawl_status request_box(request *r, const plan_item *item, const box *b, void *to, size_t bytes,
                        pawl_error *err) PAWL_MUST_CHECK;
/* Elements [first, first + n) in row-major order. */
pawl_status request_elements(request *r, const plan_item *item, uint64_t first, uint64_t n,
                             uint8_t *to, pawl_error *err) PAWL_MUST_CHECK;
/* Reads all that was asked for; then nothing is. */
pawl_status request_read(request *r, pawl_checkpoint *from, pawl_error *err) PAWL_MUST_CHECK;
void request_free(request *r); /* for CLEANUP */

/* ---- feed.c --------------------------------------------------------------------------------- */

typedef struct feed feed;
/* writer_job.context, begin and read. */
pawl_status feed_new(pawl_checkpoint *from, const convert_plan *plan,
                     const pawl_convert_options *options, const platform *os, feed **out,
                     pawl_error *err) PAWL_MUST_CHECK;
pawl_status feed_begin(void *context, const size_t *order, size_t n, pawl_error *err)
    PAWL_MUST_CHECK;
pawl_status feed_read(void *context, writer_take take, void *to, pawl_error *err) PAWL_MUST_CHECK;
uint64_t feed_overflows(feed *f);
void feed_free(feed *f); /* ends its thread; NULL is fine */

/* ---- place.c -------------------------------------------------------------------------------- */

/* Where files are written: names that begin with a temporary one, in the directory where they will
 * be made, or a new directory of that name. */
typedef struct place {
    store *parent;
    store *inside;    /* of a directory */
    store *into;      /* one of the two */
    const char *name; /* that will be made in `parent` */
    writer_shape shape;
    char temporary[STORE_MAX_PATH];
    bool begun;
} place;

/* PAWL_EUSAGE: something of that name is there. */
pawl_status place_check(store *parent, const char *name, writer_shape shape, pawl_error *err)
    PAWL_MUST_CHECK;
/* The same, and makes what will be written to. */
pawl_status place_begin(place *p, store *parent, const char *name, writer_shape shape,
                        const platform *os, pawl_error *err) PAWL_MUST_CHECK;
/* writer_job.name */
const char *place_name(const place *p);
/* What was written gets its name; of several files the index last. */
pawl_status place_commit(place *p, pawl_error *err) PAWL_MUST_CHECK;
/* Removes what was not committed; for CLEANUP. */
void place_end(place *p);

#endif
