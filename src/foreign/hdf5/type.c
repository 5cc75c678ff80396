/* SPDX-License-Identifier: Apache-2.0 */
/* Datatypes: which of them are dtypes, and how the others are called. */
#include "foreign/hdf5/file.h"

#include <stdio.h>

#define MAX_DEPTH 4 /* of types within types */

enum {
    CLASS_INTEGER,
    CLASS_FLOAT,
    CLASS_TIME,
    CLASS_STRING,
    CLASS_BITS,
    CLASS_OPAQUE,
    CLASS_COMPOUND,
    CLASS_REFERENCE,
    CLASS_ENUM,
    CLASS_VARIABLE,
    CLASS_ARRAY,
    CLASS_COMPLEX,
    CLASSES
};

typedef struct type_head {
    unsigned class, version;
    uint32_t bits; /* 24 */
    uint32_t bytes;
} type_head;

static pawl_status decode(hdf5_file *f, cursor *c, int depth, hdf5_type *out, pawl_error *err);

static void name_type(hdf5_type *out, const char *what, unsigned number) {
    out->dtype = 0;
    if (number > 0) {
        snprintf(out->name, sizeof(out->name), "%s%u", what, number);
    } else {
        snprintf(out->name, sizeof(out->name), "%s", what);
    }
}

/* ---- numbers ---- */

static void set_integer(hdf5_type *out, bool is_signed) {
    static const pawl_dtype plain[] = {PAWL_U8, PAWL_U16, PAWL_U32, PAWL_U64};
    static const pawl_dtype with_sign[] = {PAWL_I8, PAWL_I16, PAWL_I32, PAWL_I64};
    for (unsigned i = 0; i < 4; i++) {
        if (out->bytes == 1u << i) {
            out->dtype = is_signed ? with_sign[i] : plain[i];
            return;
        }
    }
    name_type(out, is_signed ? "I" : "U", 8 * (out->bytes & 0xffffff));
}

static pawl_status decode_integer(cursor *c, const type_head *h, hdf5_type *out, pawl_error *err) {
    uint64_t offset, precision;
    TRY(hdf5_number(c, 2, &offset, err));
    TRY(hdf5_number(c, 2, &precision, err));
    out->class = HDF5_NUMBERS;
    out->swap = (h->bits & 1) != 0 ? h->bytes : 1;
    set_integer(out, h->class == CLASS_INTEGER && (h->bits & 8) != 0);
    if (offset != 0 || precision != 8 * (uint64_t)h->bytes) {
        name_type(out, (h->bits & 8) != 0 ? "I" : "U", (unsigned)precision);
    }
    return PAWL_OK;
}

typedef struct float_layout {
    uint32_t bytes, exponent_at, exponent_bits, mantissa_bits, bias;
    pawl_dtype dtype;
} float_layout;

static pawl_dtype float_dtype(const float_layout *l, unsigned sign_at, unsigned normal) {
    static const float_layout known[] = {
        {1, 3, 4, 3, 7, PAWL_F8_E4M3}, {1, 2, 5, 2, 15, PAWL_F8_E5M2},
        {2, 10, 5, 10, 15, PAWL_F16},  {2, 7, 8, 7, 127, PAWL_BF16},
        {4, 23, 8, 23, 127, PAWL_F32}, {8, 52, 11, 52, 1023, PAWL_F64},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(known); i++) {
        const float_layout *k = &known[i];
        if (k->bytes == l->bytes && k->exponent_at == l->exponent_at &&
            k->exponent_bits == l->exponent_bits && k->mantissa_bits == l->mantissa_bits &&
            k->bias == l->bias && sign_at == 8 * l->bytes - 1 && normal == 2) {
            return k->dtype;
        }
    }
    return 0;
}

static pawl_status decode_float(cursor *c, const type_head *h, hdf5_type *out, pawl_error *err) {
    uint64_t offset, precision, exponent_at, exponent_bits, mantissa_at, mantissa_bits;
    uint32_t bias;
    TRY(hdf5_number(c, 2, &offset, err));
    TRY(hdf5_number(c, 2, &precision, err));
    TRY(hdf5_number(c, 1, &exponent_at, err));
    TRY(hdf5_number(c, 1, &exponent_bits, err));
    TRY(hdf5_number(c, 1, &mantissa_at, err));
    TRY(hdf5_number(c, 1, &mantissa_bits, err));
    TRY(cursor_u32le(c, &bias, err));
    const float_layout l = {.bytes = h->bytes,
                            .exponent_at = (uint32_t)exponent_at,
                            .exponent_bits = (uint32_t)exponent_bits,
                            .mantissa_bits = (uint32_t)mantissa_bits,
                            .bias = bias};
    bool whole = offset == 0 && precision == 8 * (uint64_t)h->bytes && mantissa_at == 0;
    bool vax = (h->bits & 0x40) != 0;
    out->class = HDF5_NUMBERS;
    out->swap = (h->bits & 1) != 0 ? h->bytes : 1;
    out->dtype = whole && !vax ? float_dtype(&l, h->bits >> 8 & 0xff, h->bits >> 4 & 3) : 0;
    if (out->dtype == 0) {
        name_type(out, "OTHER_FLOAT", (unsigned)precision);
    }
    return PAWL_OK;
}

/* Of two floats, of which `part` is one. */
static void set_complex(const hdf5_type *part, hdf5_type *out) {
    out->class = HDF5_NUMBERS;
    out->swap = part->swap;
    name_type(out, "C", out->bytes * 8 & 0xffff);
    out->paired = part->dtype == PAWL_F64;
    out->dtype = part->dtype == PAWL_F32 ? PAWL_C64 : out->paired ? PAWL_F64 : 0;
}

/* ---- types of other types ---- */

/* Up to its NUL; in the older versions so many bytes are a multiple of 8. */
static pawl_status read_name(cursor *c, bool padded, const char **out, pawl_error *err) {
    const uint8_t *start = c->data + c->at;
    const uint8_t *end = memchr(start, 0, cursor_left(c));
    size_t n = end != NULL ? (size_t)(end - start) + 1 : cursor_left(c) + 1;
    *out = (const char *)start;
    return hdf5_skip(c, padded ? (n + 7) / 8 * 8 : n, err);
}

static unsigned bytes_for(uint32_t most) {
    return most < 0x100 ? 1 : most < 0x10000 ? 2 : most < 0x1000000 ? 3 : 4;
}

typedef struct member {
    const char *name;
    uint64_t offset;
    hdf5_type type;
} member;

static pawl_status read_member(hdf5_file *f, cursor *c, const type_head *h, int depth, member *out,
                               pawl_error *err) {
    uint8_t ndim = 0;
    TRY(read_name(c, h->version < 3, &out->name, err));
    TRY(hdf5_number(c, h->version < 3 ? 4 : bytes_for(h->bytes), &out->offset, err));
    if (h->version == 1) {
        TRY(cursor_u8(c, &ndim, err));
        TRY(hdf5_skip(c, 27, err)); /* dimensions of an array, which the name says below */
    }
    TRY(decode(f, c, depth + 1, &out->type, err));
    if (ndim > 0) {
        name_type(&out->type, "ARRAY", 0);
    }
    return PAWL_OK;
}

/* h5py's complex numbers are two floats, r and i. Of others only that they are there is told. */
static pawl_status decode_compound(hdf5_file *f, cursor *c, const type_head *h, int depth,
                                   hdf5_type *out, pawl_error *err) {
    uint32_t count = h->bits & 0xffff;
    member two[2] = {{.name = ""}, {.name = ""}};
    name_type(out, "COMPOUND", h->bytes & 0xffffff);
    for (uint32_t i = 0; i < count && i < 2; i++) {
        TRY(read_member(f, c, h, depth, &two[i], err));
        if (two[i].type.class != HDF5_NUMBERS) {
            return PAWL_OK;
        }
    }
    const hdf5_type *r = &two[0].type;
    bool complex = count == 2 && strcmp(two[0].name, "r") == 0 && strcmp(two[1].name, "i") == 0 &&
                   two[0].offset == 0 && two[1].offset == r->bytes && h->bytes == 2 * r->bytes;
    const hdf5_type *i = &two[1].type;
    if (complex && r->dtype == i->dtype && r->swap == i->swap && r->bytes == i->bytes &&
        (r->dtype == PAWL_F16 || r->dtype == PAWL_F32 || r->dtype == PAWL_F64)) {
        set_complex(r, out);
    }
    return PAWL_OK;
}

/* FALSE and TRUE of one byte, as h5py has it. Others are the integers that they are made of. */
static pawl_status decode_enum(hdf5_file *f, cursor *c, const type_head *h, int depth,
                               hdf5_type *out, pawl_error *err) {
    const char *names[2] = {"", ""};
    const uint8_t *values = NULL;
    uint32_t count = h->bits & 0xffff;
    uint32_t bytes = out->bytes;
    TRY(decode(f, c, depth + 1, out, err));
    if (out->class != HDF5_NUMBERS || out->bytes != bytes) {
        name_type(out, "ENUM", 0);
        out->class = HDF5_OTHER;
        out->bytes = bytes;
        return PAWL_OK;
    }
    if (count != 2 || bytes != 1) {
        return PAWL_OK;
    }
    TRY(read_name(c, h->version < 3, &names[0], err));
    TRY(read_name(c, h->version < 3, &names[1], err));
    TRY(cursor_bytes(c, 2, &values, err));
    if (strcmp(names[0], "FALSE") == 0 && strcmp(names[1], "TRUE") == 0 && values[0] == 0 &&
        values[1] == 1) {
        out->dtype = PAWL_BOOL;
    }
    return PAWL_OK;
}

static pawl_status decode_complex(hdf5_file *f, cursor *c, int depth, hdf5_type *out,
                                  pawl_error *err) {
    hdf5_type part;
    TRY(decode(f, c, depth + 1, &part, err));
    name_type(out, "COMPLEX", out->bytes & 0xffffff);
    if (part.class == HDF5_NUMBERS && part.bytes <= 8 && out->bytes == 2 * part.bytes) {
        set_complex(&part, out);
    }
    return PAWL_OK;
}

/* ---- all of them ---- */

static pawl_status decode_class(hdf5_file *f, cursor *c, const type_head *h, int depth,
                                hdf5_type *out, pawl_error *err) {
    static const char *const names[CLASSES] = {
        [CLASS_TIME] = "TIME", [CLASS_REFERENCE] = "REFERENCE", [CLASS_ARRAY] = "ARRAY"};
    switch (h->class) {
    case CLASS_INTEGER:
    case CLASS_BITS:
        return decode_integer(c, h, out, err);
    case CLASS_FLOAT:
        return decode_float(c, h, out, err);
    case CLASS_STRING:
        out->class = HDF5_TEXT;
        out->spaces = (h->bits & 0xf) == 2;
        name_type(out, "STRING", h->bytes & 0xffffff);
        return PAWL_OK;
    case CLASS_OPAQUE:
        out->class = HDF5_OPAQUE;
        name_type(out, "OPAQUE", h->bytes & 0xffffff);
        return PAWL_OK;
    case CLASS_COMPOUND:
        return decode_compound(f, c, h, depth, out, err);
    case CLASS_ENUM:
        return decode_enum(f, c, h, depth, out, err);
    case CLASS_COMPLEX:
        return decode_complex(f, c, depth, out, err);
    case CLASS_VARIABLE:
        out->class = (h->bits & 0xf) == 1 ? HDF5_TEXTS : HDF5_OTHER;
        name_type(out, out->class == HDF5_TEXTS ? "STRING" : "VARIABLE", 0);
        return PAWL_OK;
    default:
        name_type(out, names[h->class], h->bytes & 0xffffff);
        return PAWL_OK;
    }
}

static pawl_status decode(hdf5_file *f, cursor *c, int depth, hdf5_type *out, pawl_error *err) {
    uint64_t at = c->base + c->at;
    uint64_t first, bits;
    type_head h;
    *out = (hdf5_type){.class = HDF5_OTHER, .swap = 1};
    TRY(hdf5_number(c, 1, &first, err));
    TRY(hdf5_number(c, 3, &bits, err));
    TRY(cursor_u32le(c, &h.bytes, err));
    h.class = (unsigned)first & 0xf;
    h.version = (unsigned)first >> 4;
    h.bits = (uint32_t)bits;
    out->bytes = h.bytes;
    if (h.class >= CLASSES || h.version < 1 || h.version > 5) {
        return hdf5_refuse(f, PAWL_EUNSUPPORTED, at, 8, err, "a datatype of class %u, version %u",
                           h.class, h.version);
    }
    if (h.bytes == 0) {
        return hdf5_refuse(f, PAWL_EDAMAGED, at, 8, err, "a datatype of 0 bytes");
    }
    if (depth > MAX_DEPTH) {
        name_type(out, "NESTED", 0);
        return PAWL_OK;
    }
    return decode_class(f, c, &h, depth, out, err);
}

/* A datatype with a name of its own, in another object's header. */
static pawl_status read_elsewhere(hdf5_file *f, const hdf5_message *m, hdf5_type *out,
                                  pawl_error *err) {
    CLEANUP(hdf5_header_free) hdf5_header h = {.messages = NULL};
    cursor c = hdf5_message_cursor(m, "shared datatype");
    uint64_t version, kind, address;
    TRY(hdf5_number(&c, 1, &version, err));
    TRY(hdf5_number(&c, 1, &kind, err));
    if (version < 1 || version > 3 || (version == 3 && kind != 2)) {
        return hdf5_refuse(f, PAWL_EUNSUPPORTED, m->at, m->n, err,
                           "a datatype in a heap of shared messages");
    }
    TRY(hdf5_skip(&c, version == 1 ? 6 : 0, err));
    TRY(hdf5_address(f, &c, &address, err));
    TRY(hdf5_header_load(f, address, &h, err));
    const hdf5_message *there = hdf5_find(&h, HDF5_TYPE);
    if (there == NULL || there->shared) {
        return hdf5_refuse(f, PAWL_EDAMAGED, m->at, m->n, err,
                           "a datatype is said to be where there is none");
    }
    c = hdf5_message_cursor(there, "datatype");
    return decode(f, &c, 0, out, err);
}

pawl_status hdf5_type_read(hdf5_file *f, const hdf5_message *m, hdf5_type *out, pawl_error *err) {
    cursor c = hdf5_message_cursor(m, "datatype");
    return m->shared ? read_elsewhere(f, m, out, err) : decode(f, &c, 0, out, err);
}
