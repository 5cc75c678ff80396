/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foreign/hdf5/file: an HDF5 file while it is read, and what is in it. Private to this folder.
 *
 * An address counts from the base of the file, a position from the beginning of the stream that the
 * file is in. Errors name positions.
 */
#ifndef FOREIGN_HDF5_FILE_H
#define FOREIGN_HDF5_FILE_H

#include "foreign/hdf5/hdf5.h"

#include <string.h>

#define HDF5_NONE UINT64_MAX /* an address that is not there */

#define HDF5_SIGNATURE       "\x89HDF\r\n\x1a\n"
#define HDF5_SIGNATURE_BYTES ((size_t)8)

/* A collection of the global heap: the one that was looked into last. */
typedef struct hdf5_collection {
    uint64_t address; /* HDF5_NONE: none */
    buffer bytes;
    uint32_t *objects; /* by number: where it begins in the bytes; 0: it is not there */
} hdf5_collection;

typedef struct hdf5_file {
    archive *a;
    hdf5_place place;
    store_file *opened;
    uint64_t base; /* position of address 0 */
    uint64_t end;  /* position where the file ends */
    unsigned offset_bytes, length_bytes;
    uint64_t root; /* address of the object header of the root group */
    hdf5_usage *usage;
    buffer window; /* bytes that small loads are from */
    uint64_t window_at;
    hdf5_collection collection;
} hdf5_file;

/* ---- file.c --------------------------------------------------------------------------------- */

pawl_status hdf5_open(archive *a, const hdf5_place *place, hdf5_usage *usage, hdf5_file *out,
                      pawl_error *err) PAWL_MUST_CHECK;
void hdf5_close(hdf5_file *f);
/* PAWL_EDAMAGED: the file is wrong there; PAWL_EUNSUPPORTED: pawl does not read what is there. */
pawl_status hdf5_refuse(const hdf5_file *f, pawl_status status, uint64_t position, uint64_t n,
                        pawl_error *err, const char *format, ...) PRINTF_LIKE(6, 7);
pawl_status hdf5_beyond(const hdf5_file *f, const char *what, uint64_t most, pawl_error *err);
/* Instead of what is in `out`; the cursor is over it. */
pawl_status hdf5_load(hdf5_file *f, uint64_t address, uint64_t n, const char *what, buffer *out,
                      cursor *c, pawl_error *err) PAWL_MUST_CHECK;
/* Little-endian, of 1 to 8 bytes. */
pawl_status hdf5_number(cursor *c, unsigned bytes, uint64_t *out, pawl_error *err) PAWL_MUST_CHECK;
pawl_status hdf5_address(const hdf5_file *f, cursor *c, uint64_t *out, pawl_error *err)
    PAWL_MUST_CHECK;
pawl_status hdf5_length(const hdf5_file *f, cursor *c, uint64_t *out, pawl_error *err)
    PAWL_MUST_CHECK;
pawl_status hdf5_skip(cursor *c, size_t n, pawl_error *err) PAWL_MUST_CHECK;
/* Four characters, and a version. */
pawl_status hdf5_begin(const hdf5_file *f, cursor *c, const char *signature, unsigned version,
                       pawl_error *err) PAWL_MUST_CHECK;
/* All of the cursor's bytes but the last four, of which those are the checksum. */
pawl_status hdf5_checked(const hdf5_file *f, const cursor *c, pawl_error *err) PAWL_MUST_CHECK;
/* Jenkins' lookup3, hashlittle. */
uint32_t hdf5_lookup3(const uint8_t *data, size_t n);
/* Fletcher's sum of 16-bit words, as the filter of that name has it. */
typedef struct hdf5_fletcher {
    uint32_t one, two;
    uint8_t odd; /* a byte that waits for its second half */
    bool has_odd;
} hdf5_fletcher;
void hdf5_fletcher_add(hdf5_fletcher *s, const uint8_t *data, size_t n);
uint32_t hdf5_fletcher_end(hdf5_fletcher *s);

/* ---- header.c: object headers --------------------------------------------------------------- */

typedef enum hdf5_message_type {
    HDF5_SPACE = 0x1,
    HDF5_LINK_INFO = 0x2,
    HDF5_TYPE = 0x3,
    HDF5_OLD_FILL = 0x4,
    HDF5_FILL = 0x5,
    HDF5_LINK = 0x6,
    HDF5_EXTERNAL = 0x7,
    HDF5_LAYOUT = 0x8,
    HDF5_FILTERS = 0xb,
    HDF5_ATTRIBUTE = 0xc,
    HDF5_CONTINUATION = 0x10,
    HDF5_SYMBOLS = 0x11,
    HDF5_ATTRIBUTE_INFO = 0x15
} hdf5_message_type;

typedef struct hdf5_message {
    unsigned type;
    bool shared; /* it is elsewhere: what is here says where */
    const uint8_t *data;
    size_t n;
    uint64_t at; /* position */
} hdf5_message;

typedef struct hdf5_header {
    hdf5_message *messages; /* without those that are none, and continuations */
    size_t count, room;
    uint64_t address;
    arena memory;
} hdf5_header;

pawl_status hdf5_header_load(hdf5_file *f, uint64_t address, hdf5_header *out, pawl_error *err)
    PAWL_MUST_CHECK;
void hdf5_header_free(hdf5_header *h);
/* The first of a type; NULL: there is none. */
const hdf5_message *hdf5_find(const hdf5_header *h, unsigned type);
cursor hdf5_message_cursor(const hdf5_message *m, const char *what);

/* ---- type.c, space.c ------------------------------------------------------------------------ */

typedef enum hdf5_class {
    HDF5_NUMBERS, /* has a dtype, or is one that pawl does not have */
    HDF5_TEXT,    /* of `bytes` bytes each */
    HDF5_TEXTS,   /* of any length, in the global heap */
    HDF5_OPAQUE,
    HDF5_OTHER
} hdf5_class;

typedef struct hdf5_type {
    hdf5_class class;
    uint32_t bytes;                  /* of an element */
    pawl_dtype dtype;                /* 0: none */
    bool paired;                     /* an element is two of dtype: complex128 */
    uint32_t swap;                   /* of so many bytes each the order is reversed; 1: none is */
    bool spaces;                     /* texts are padded with spaces, not zeros */
    char name[FORMAT_MAX_TYPE_NAME]; /* where there is no dtype, or it is paired */
} hdf5_type;

pawl_status hdf5_type_read(hdf5_file *f, const hdf5_message *m, hdf5_type *out, pawl_error *err)
    PAWL_MUST_CHECK;

typedef struct hdf5_space {
    bool null; /* no elements, and no shape */
    int ndim;
    int64_t shape[PAWL_MAX_NDIM];
    uint64_t most[PAWL_MAX_NDIM]; /* that it may grow to; UINT64_MAX: any */
} hdf5_space;

pawl_status hdf5_space_read(hdf5_file *f, const hdf5_message *m, hdf5_space *out, pawl_error *err)
    PAWL_MUST_CHECK;
/* Elements and bytes; PAWL_ELIMIT where they are too many. */
pawl_status hdf5_space_bytes(const hdf5_file *f, const hdf5_space *space, uint32_t element_bytes,
                             uint64_t *elements, uint64_t *bytes, pawl_error *err) PAWL_MUST_CHECK;

/* ---- group.c, dense.c: links and attributes ------------------------------------------------- */

typedef enum hdf5_link_kind { HDF5_HARD, HDF5_SOFT, HDF5_OUTSIDE, HDF5_UNKNOWN } hdf5_link_kind;

typedef struct hdf5_link {
    hdf5_link_kind kind;
    const char *name; /* n bytes */
    size_t n;
    uint64_t address; /* of a hard link: an object header */
    const char *to;   /* of a soft link: to_bytes; of one out of the file: its file and path */
    size_t to_bytes;
    uint64_t at; /* position */
} hdf5_link;

typedef pawl_status (*hdf5_each_link)(void *context, const hdf5_link *link, pawl_error *err);
typedef pawl_status (*hdf5_each_message)(void *context, const hdf5_message *m, pawl_error *err);

bool hdf5_is_group(const hdf5_header *h);
pawl_status hdf5_links(hdf5_file *f, const hdf5_header *group, hdf5_each_link each, void *context,
                       pawl_error *err) PAWL_MUST_CHECK;
pawl_status hdf5_link_decode(const hdf5_file *f, const hdf5_message *m, hdf5_link *out,
                             pawl_error *err) PAWL_MUST_CHECK;
/* Those in the header, and those that are stored densely. */
pawl_status hdf5_attributes(hdf5_file *f, const hdf5_header *object, hdf5_each_message each,
                            void *context, pawl_error *err) PAWL_MUST_CHECK;
/* The objects of a fractal heap that a tree names. `tree_type`: of its records; those have the
 * object's id at `id_at`. Each object is a message of `type`. */
typedef struct hdf5_dense {
    uint64_t heap, tree; /* addresses */
    unsigned tree_type, id_at, type;
} hdf5_dense;
pawl_status hdf5_dense_each(hdf5_file *f, const hdf5_dense *dense, hdf5_each_message each,
                            void *context, pawl_error *err) PAWL_MUST_CHECK;

/* ---- tree.c: version 2 B-trees -------------------------------------------------------------- */

/* A record of a tree, at a position. */
typedef pawl_status (*hdf5_each_record)(void *context, cursor *record, pawl_error *err);
/* In order. `record_bytes` is set before the first record. */
pawl_status hdf5_tree_each(hdf5_file *f, uint64_t address, unsigned type, size_t *record_bytes,
                           hdf5_each_record each, void *context, pawl_error *err) PAWL_MUST_CHECK;

/* ---- global_heap.c -------------------------------------------------------------------------- */

/* Bytes of an object of the global heap: they live until the next call. */
typedef struct hdf5_bytes {
    const uint8_t *data;
    size_t n;
    uint64_t at; /* position */
} hdf5_bytes;
/* `reference`: how an element of variable length is stored. */
pawl_status hdf5_variable(hdf5_file *f, cursor *reference, hdf5_bytes *out, pawl_error *err)
    PAWL_MUST_CHECK;

/* ---- value.c: attributes and scalars -------------------------------------------------------- */

/* What is made of them: a tensor's name, type, shape and role. */
typedef struct hdf5_elements {
    const char *name;
    const hdf5_type *type;
    const hdf5_space *space;
    pawl_role role;
} hdf5_elements;

/* Elements that are in memory, and where they are in the file. */
typedef struct hdf5_value {
    hdf5_elements elements;
    cursor bytes;
    uint64_t at; /* position; HDF5_NONE: nowhere */
} hdf5_value;
pawl_status hdf5_add_value(hdf5_file *f, hdf5_value *v, pawl_error *err) PAWL_MUST_CHECK;
/* A value that says of something what it is: JSON, an object with one member. */
pawl_status hdf5_add_note(hdf5_file *f, const char *name, const char *key, const char *text,
                          size_t n, pawl_error *err) PAWL_MUST_CHECK;

/* An attribute, as its message has it. */
typedef struct hdf5_attribute {
    const char *name; /* n bytes */
    size_t n;
    hdf5_type type;
    hdf5_space space;
    cursor bytes;
    uint64_t at; /* position of them */
} hdf5_attribute;
pawl_status hdf5_attribute_decode(hdf5_file *f, const hdf5_message *m, hdf5_attribute *out,
                                  pawl_error *err) PAWL_MUST_CHECK;

#endif
