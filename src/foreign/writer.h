/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foreign/writer: writing a checkpoint in the format of another tool.
 *
 * A writer gets all names, types and shapes before the first byte of a tensor, so that it can write
 * in one pass; then it asks for the tensors, one after the other, in an order of its own. It writes
 * files into a new, empty directory; whoever called it makes them visible, the whole at once.
 *
 * Threads: a job belongs to one thread. Ownership: items and texts are the caller's.
 */
#ifndef FOREIGN_WRITER_H
#define FOREIGN_WRITER_H

#include "base/base.h"
#include "store/store.h"

#include <pawl/checkpoint.h>

/* A tensor or a value, under the name that it is to have. */
typedef struct writer_item {
    const char *name;
    pawl_kind kind;
    pawl_role role;
    const char *slot_of, *slot; /* NULL unless role is PAWL_ROLE_SLOT */
    pawl_dtype dtype;           /* tensors: never 0 */
    int ndim;
    const int64_t *shape;
    uint64_t bytes;       /* tensors */
    const uint8_t *value; /* values: as of pawl_kind, integers and floats of 8 bytes */
    size_t value_bytes;
} writer_item;

/* Takes bytes of a tensor, in order. */
typedef pawl_status (*writer_take)(void *to, const uint8_t *bytes, size_t n, pawl_error *err);

typedef struct writer_job {
    store *into;
    const platform *platform;
    const char
        *name; /* of the file; of several, the beginning of their names; of a directory: "" */
    const writer_item *items; /* ascending by name; none that the format refuses */
    size_t count;
    uint64_t shard_bytes; /* several files of at most about so many; 0: one */
    void *context;
    /* Once, first: all tensors that will be read, by their numbers, in the order of `read`. */
    pawl_status (*begin)(void *context, const size_t *order, size_t n, pawl_error *err);
    /* Reads the next tensor. */
    pawl_status (*read)(void *context, writer_take take, void *to, pawl_error *err);
} writer_job;

typedef enum writer_shape {
    WRITER_FILE,      /* one file */
    WRITER_PREFIX,    /* files NAME.something: the last one written is NAME.index */
    WRITER_DIRECTORY, /* a directory of files */
    /* A file, unless it is to be cut into several: then a directory */
    WRITER_FILE_OR_DIRECTORY
} writer_shape;

#define WRITER_MOST_ENDINGS 4

/* A format that is written. */
typedef struct writer_format {
    const char *name; /* "safetensors": what a user calls it */
    /* ".safetensors": of a path, where that says which format is meant; then NULL */
    const char *endings[WRITER_MOST_ENDINGS];
    writer_shape shape;
    /* Why the format has no place for an item, a clause; NULL: it has one. */
    const char *(*refuses)(const writer_item *item);
    /* Optional: NULL. As what else the format has it, a clause; NULL: as what it is. */
    const char *(*changes)(const writer_item *item);
    /* Optional: NULL. The name of an entry that tells of all others, and so is judged last. Such a
     * tensor of U8 becomes a value of bytes. */
    const char *last;
    /* Why it does not fit them, a clause; NULL: it does. `renamed`: some have other names now. */
    pawl_status (*misfit)(const writer_item *last, const writer_item *items, size_t count,
                          bool renamed, const char **why, pawl_error *err);
    pawl_status (*write)(const writer_job *job, pawl_error *err);
} writer_format;

/* ---- writers.c ------------------------------------------------------------------------------ */

/* By its name, or by the ending of a path; NULL: there is none. */
const writer_format *writer_by_name(const char *name);
const writer_format *writer_by_path(const char *path);
/* "safetensors, npz, torch": for messages. */
const char *writer_names(void);

/* Of all its tensors. */
uint64_t writer_tensor_bytes(const writer_job *job);
/* Begins a job that reads all tensors in the order of their names. */
pawl_status writer_begin_all(const writer_job *job, pawl_error *err) PAWL_MUST_CHECK;

/* ---- output.c: a file that is written from its beginning to its end ------------------------- */

/* While one piece of it is filled, others are being written. */
typedef struct output {
    store_file *file;
    const platform *platform;
    struct store_queue *queue;   /* NULL until the first piece is full */
    struct output_piece *pieces; /* with their memory */
    uint8_t *memory;
    size_t piece, used; /* the one that is filled, and how much of it is */
    uint64_t at;        /* where the next byte will be */
    uint64_t reserved;
} output;

/* `least`: so many bytes it will have, or more; room for them is reserved. */
pawl_status output_open(output *o, const writer_job *job, const char *path, uint64_t least,
                        pawl_error *err) PAWL_MUST_CHECK;
pawl_status output_write(output *o, const void *bytes, size_t n, pawl_error *err) PAWL_MUST_CHECK;
/* Zeros up to a multiple. */
pawl_status output_align(output *o, uint32_t alignment, pawl_error *err) PAWL_MUST_CHECK;
/* writer_take, `to` being the output. */
pawl_status output_take(void *to, const uint8_t *bytes, size_t n, pawl_error *err) PAWL_MUST_CHECK;
/* Makes all of it durable, and closes it. */
pawl_status output_end(output *o, pawl_error *err) PAWL_MUST_CHECK;
void output_close(output *o); /* for CLEANUP: nothing where it was ended */

/* The name of an item in a format that has no dicts, as its reader had it before it escaped it
 * (archive_escape_name). */
void writer_flat_name(const writer_item *item, char out[PAWL_MAX_NAME_BYTES + 1]);

/* ---- values.c ------------------------------------------------------------------------------- */

/*
 * All values of the items as one JSON object, for formats that have a place for a text, but not for
 * each kind of value: {"epoch": {"kind": "int64", "value": 3}, ...}. The value of "bytes" is
 * base64; that of "json" is the JSON itself. Nothing is appended where there are no values.
 */
pawl_status writer_values(const writer_item *items, size_t count, buffer *json, pawl_error *err)
    PAWL_MUST_CHECK;
struct archive;
/* Adds the values of such an object to what is read. PAWL_EDAMAGED with what is wrong. */
pawl_status archive_add_values(struct archive *a, const char *json, size_t n, pawl_error *err)
    PAWL_MUST_CHECK;

#endif
