/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes, and scalar datasets of text: numbers and texts become values, lists of texts JSON,
 * arrays of numbers tensors. */
#include "foreign/hdf5/dataset.h"

#define MAX_VALUE ((size_t)PAWL_MAX_VALUE_BYTES)

/* ---- adding ---- */

static pawl_status add(hdf5_file *f, const hdf5_elements *e, pawl_kind kind, const void *bytes,
                       size_t n, pawl_error *err) {
    f->usage->value_bytes += n;
    if (f->usage->value_bytes > FOREIGN_MAX_HDF5_VALUES) {
        return hdf5_beyond(f, "bytes of attributes", FOREIGN_MAX_HDF5_VALUES, err);
    }
    return archive_add_value(f->a, e->name, PAWL_ROLE_OTHER, kind, bytes, n, err);
}

pawl_status hdf5_add_note(hdf5_file *f, const char *name, const char *key, const char *text,
                          size_t n, pawl_error *err) {
    CLEANUP(buffer_free) buffer json = {0};
    const hdf5_elements e = {.name = name};
    TRY(buffer_printf(&json, err, "{\"%s\":", key));
    TRY(buffer_json_shown(&json, text, n, err));
    TRY(buffer_append(&json, "}", 1, err));
    return add(f, &e, PAWL_KIND_JSON, json.data, json.size, err);
}

static pawl_status add_null(hdf5_file *f, const hdf5_elements *e, pawl_error *err) {
    return add(f, e, PAWL_KIND_JSON, "null", 4, err);
}

static pawl_status add_unread(hdf5_file *f, const hdf5_elements *e, pawl_error *err) {
    return hdf5_add_note(f, e->name, "unread", e->type->name, strlen(e->type->name), err);
}

/* Bytes that are a tensor of U8, where they lie. */
static pawl_status add_bytes(hdf5_file *f, const hdf5_elements *e, const hdf5_bytes *b,
                             pawl_error *err) {
    int64_t shape = (int64_t)b->n;
    const archive_part part = {.stream = f->place.stream, .offset = b->at, .bytes = b->n};
    const archive_tensor tensor = {.name = e->name,
                                   .dtype = PAWL_U8,
                                   .ndim = 1,
                                   .shape = &shape,
                                   .role = PAWL_ROLE_OTHER,
                                   .parts = &part,
                                   .part_count = 1};
    return archive_add_tensor(f->a, &tensor, err);
}

/* ---- texts ---- */

/* Without its padding. */
static size_t text_bytes_of(const hdf5_type *type, const uint8_t *text, size_t n) {
    if (type->spaces) {
        while (n > 0 && text[n - 1] == ' ') {
            n--;
        }
        return n;
    }
    const uint8_t *end = n > 0 ? memchr(text, 0, n) : NULL;
    return end != NULL ? (size_t)(end - text) : n;
}

/* The next element of fixed or variable length. */
static pawl_status next_text(hdf5_file *f, const hdf5_type *type, cursor *c, hdf5_bytes *out,
                             pawl_error *err) {
    if (type->class == HDF5_TEXTS) {
        return hdf5_variable(f, c, out, err);
    }
    out->at = c->base + c->at;
    TRY(cursor_bytes(c, type->bytes, &out->data, err));
    out->n = text_bytes_of(type, out->data, type->bytes);
    return PAWL_OK;
}

static pawl_status add_text(hdf5_file *f, hdf5_value *v, pawl_error *err) {
    hdf5_bytes text;
    TRY(next_text(f, v->elements.type, &v->bytes, &text, err));
    if (text.n > MAX_VALUE) {
        return add_bytes(f, &v->elements, &text, err);
    }
    bool valid = utf8_valid((const char *)text.data, text.n) &&
                 (text.n == 0 || memchr(text.data, 0, text.n) == NULL);
    return add(f, &v->elements, valid ? PAWL_KIND_STRING : PAWL_KIND_BYTES, text.data, text.n, err);
}

/* A text of a list. One that is no text is an object with its bytes. */
static pawl_status append_text(buffer *json, const hdf5_bytes *text, pawl_error *err) {
    if (utf8_valid((const char *)text->data, text->n)) {
        return buffer_json_shown(json, (const char *)text->data, text->n, err);
    }
    TRY(buffer_printf(json, err, "{\"bytes\":\""));
    for (size_t i = 0; i < text->n; i++) {
        TRY(buffer_printf(json, err, "%02x", text->data[i]));
    }
    return buffer_printf(json, err, "\"}");
}

/* Brackets and commas before element i of a list of lists. */
static pawl_status append_brackets(buffer *json, const hdf5_space *space, uint64_t i, bool end,
                                   pawl_error *err) {
    uint64_t size = 1;
    unsigned count = 0;
    for (int d = space->ndim - 1; d >= 0; d--) {
        size *= (uint64_t)space->shape[d];
        count += i % size == 0;
    }
    for (unsigned k = 0; i > 0 && k < count; k++) {
        TRY(buffer_append(json, "]", 1, err));
    }
    if (i > 0 && !end) {
        TRY(buffer_append(json, ",", 1, err));
    }
    for (unsigned k = 0; !end && k < count; k++) {
        TRY(buffer_append(json, "[", 1, err));
    }
    return PAWL_OK;
}

static pawl_status add_texts(hdf5_file *f, hdf5_value *v, uint64_t count, pawl_error *err) {
    CLEANUP(buffer_free) buffer json = {0};
    const hdf5_elements *e = &v->elements;
    for (uint64_t i = 0; i < count; i++) {
        hdf5_bytes text;
        TRY(append_brackets(&json, e->space, i, false, err));
        TRY(next_text(f, e->type, &v->bytes, &text, err));
        TRY(append_text(&json, &text, err));
        if (json.size > MAX_VALUE) {
            return hdf5_add_note(f, e->name, "unread", "texts of more than 1 MiB together", 33,
                                 err);
        }
    }
    if (count == 0) {
        TRY(buffer_append(&json, "[]", 2, err));
    } else {
        TRY(append_brackets(&json, e->space, count, true, err));
    }
    return add(f, e, PAWL_KIND_JSON, json.data, json.size, err);
}

/* ---- numbers ---- */

static void read_element(const hdf5_type *type, const uint8_t *from, uint8_t to[16]) {
    for (uint32_t i = 0; i < type->bytes; i++) {
        uint32_t unit = type->swap;
        to[i] = from[i / unit * unit + (unit - 1 - i % unit)];
    }
    if (type->swap <= 1) {
        memcpy(to, from, type->bytes);
    }
}

static bool is_signed(pawl_dtype dtype) {
    return dtype == PAWL_I8 || dtype == PAWL_I16 || dtype == PAWL_I32 || dtype == PAWL_I64;
}

static int64_t signed_of(const hdf5_type *type, uint64_t bits) {
    unsigned unused = 64 - 8 * type->bytes;
    uint64_t high = bits << unused;
    if (!is_signed(type->dtype) || high >> 63 == 0) {
        return (int64_t)bits;
    }
    return (int64_t)(bits | (unused > 0 ? UINT64_MAX << (64 - unused) : 0));
}

static pawl_status add_number(hdf5_file *f, hdf5_value *v, pawl_error *err) {
    const hdf5_type *type = v->elements.type;
    const uint8_t *bytes = NULL;
    uint8_t element[16] = {0};
    uint64_t bits = 0;
    double number;
    TRY(cursor_bytes(&v->bytes, type->bytes, &bytes, err));
    read_element(type, bytes, element);
    memcpy(&bits, element, sizeof(bits)); /* little-endian, as pawl runs on nothing else */
    if (type->dtype == PAWL_BOOL) {
        uint8_t truth = bits != 0;
        return add(f, &v->elements, PAWL_KIND_BOOL, &truth, 1, err);
    }
    if (dtype_castable(type->dtype)) {
        (void)cast_elements(PAWL_F64, &number, type->dtype, element, 1);
        return add(f, &v->elements, PAWL_KIND_FLOAT64, &number, sizeof(number), err);
    }
    if (type->dtype == PAWL_U64 && bits > INT64_MAX) {
        char digits[DECIMAL_DIGITS];
        return add(f, &v->elements, PAWL_KIND_JSON, digits, text_decimal(digits, bits), err);
    }
    int64_t integer = signed_of(type, bits);
    return add(f, &v->elements, PAWL_KIND_INT64, &integer, sizeof(integer), err);
}

static bool is_integer(pawl_dtype dtype) {
    return is_signed(dtype) || dtype == PAWL_U8 || dtype == PAWL_U16 || dtype == PAWL_U32 ||
           dtype == PAWL_U64;
}

/* Arrays are tensors, where they lie. */
static pawl_status add_numbers(hdf5_file *f, hdf5_value *v, pawl_error *err) {
    const hdf5_layout there = {.at = v->at, .bytes = cursor_left(&v->bytes)};
    const hdf5_elements e = {.name = v->elements.name,
                             .type = v->elements.type,
                             .space = v->elements.space,
                             .role = PAWL_ROLE_OTHER};
    return hdf5_add_elements(f, &e, &there, err);
}

pawl_status hdf5_add_value(hdf5_file *f, hdf5_value *v, pawl_error *err) {
    const hdf5_elements *e = &v->elements;
    uint64_t count, bytes;
    if (e->space->null) {
        return add_null(f, e, err);
    }
    TRY(hdf5_space_bytes(f, e->space, e->type->bytes, &count, &bytes, err));
    if (bytes > cursor_left(&v->bytes)) {
        hdf5_refuse(f, PAWL_EDAMAGED, v->bytes.base, v->bytes.size, err,
                    "an attribute has fewer bytes than its shape needs");
        error_expected(err, "%llu", (unsigned long long)bytes);
        error_found(err, "%zu", cursor_left(&v->bytes));
        return PAWL_EDAMAGED;
    }
    if (e->type->class == HDF5_TEXT || e->type->class == HDF5_TEXTS) {
        return e->space->ndim == 0 ? add_text(f, v, err) : add_texts(f, v, count, err);
    }
    if (e->type->dtype == 0) {
        return add_unread(f, e, err);
    }
    bool one = e->space->ndim == 0 && !e->type->paired &&
               (is_integer(e->type->dtype) || e->type->dtype == PAWL_BOOL ||
                dtype_castable(e->type->dtype));
    return one ? add_number(f, v, err) : add_numbers(f, v, err);
}

/* ---- attributes ---- */

typedef struct attribute_sizes {
    uint64_t name, type, space;
    bool padded;
} attribute_sizes;

static uint64_t padded(const attribute_sizes *s, uint64_t n) {
    return s->padded ? (n + 7) / 8 * 8 : n;
}

static pawl_status take_part(cursor *c, const attribute_sizes *s, uint64_t n, bool shared,
                             hdf5_message *out, pawl_error *err) {
    *out = (hdf5_message){.shared = shared, .n = (size_t)n, .at = c->base + c->at};
    return cursor_bytes(c, (size_t)padded(s, n), &out->data, err);
}

pawl_status hdf5_attribute_decode(hdf5_file *f, const hdf5_message *m, hdf5_attribute *out,
                                  pawl_error *err) {
    cursor c = hdf5_message_cursor(m, "attribute");
    hdf5_message name, type, space;
    attribute_sizes s;
    uint64_t version, flags;
    TRY(hdf5_number(&c, 1, &version, err));
    TRY(hdf5_number(&c, 1, &flags, err));
    if (m->shared || version < 1 || version > 3) {
        return hdf5_refuse(f, PAWL_EUNSUPPORTED, m->at, m->n, err,
                           "a shared attribute, or one of version %u", (unsigned)version);
    }
    flags = version == 1 ? 0 : flags;
    s.padded = version == 1;
    TRY(hdf5_number(&c, 2, &s.name, err));
    TRY(hdf5_number(&c, 2, &s.type, err));
    TRY(hdf5_number(&c, 2, &s.space, err));
    TRY(hdf5_skip(&c, version == 3 ? 1 : 0, err));
    TRY(take_part(&c, &s, s.name, false, &name, err));
    TRY(take_part(&c, &s, s.type, (flags & 1) != 0, &type, err));
    TRY(take_part(&c, &s, s.space, (flags & 2) != 0, &space, err));
    out->name = (const char *)name.data;
    out->n = strnlen(out->name, name.n);
    out->at = c.base + c.at;
    out->bytes = cursor_of(c.data + c.at, cursor_left(&c), out->at, "attribute");
    TRY(hdf5_type_read(f, &type, &out->type, err));
    return hdf5_space_read(f, &space, &out->space, err);
}
