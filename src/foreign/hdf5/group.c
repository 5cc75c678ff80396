/* SPDX-License-Identifier: Apache-2.0 */
/* Groups: their links, from symbol tables or link messages; and attributes of any object. */
#include "foreign/hdf5/file.h"

enum { CACHED_NOTHING, CACHED_GROUP, CACHED_LINK }; /* of a symbol */

/* ---- symbol tables -------------------------------------------------------------------------- */

typedef struct symbols {
    hdf5_file *f;
    hdf5_each_link each;
    void *context;
    buffer names; /* the local heap; the NUL of the buffer ends a last name that has none */
    uint64_t names_at;
    const char *last; /* names ascend: no node is come to twice */
} symbols;

static pawl_status load_names(symbols *s, uint64_t address, pawl_error *err) {
    CLEANUP(buffer_free) buffer head = {0};
    hdf5_file *f = s->f;
    cursor c;
    uint64_t bytes, ignored, data;
    TRY(hdf5_load(f, address, 8 + 2 * f->length_bytes + f->offset_bytes, "local heap", &head, &c,
                  err));
    TRY(hdf5_begin(f, &c, "HEAP", 0, err));
    TRY(hdf5_skip(&c, 3, err));
    TRY(hdf5_length(f, &c, &bytes, err));
    TRY(hdf5_length(f, &c, &ignored, err)); /* what is free */
    TRY(hdf5_address(f, &c, &data, err));
    TRY(hdf5_load(f, data, bytes, "names of a group", &s->names, &c, err));
    s->names_at = c.base;
    return PAWL_OK;
}

static pawl_status name_at(const symbols *s, uint64_t offset, uint64_t position, const char **out,
                           pawl_error *err) {
    if (offset >= s->names.size) {
        hdf5_refuse(s->f, PAWL_EDAMAGED, position, s->f->offset_bytes, err,
                    "a name is not in the local heap of its group");
        error_expected(err, "less than %zu", s->names.size);
        error_found(err, "%llu", (unsigned long long)offset);
        return PAWL_EDAMAGED;
    }
    *out = (const char *)s->names.data + offset;
    return PAWL_OK;
}

static pawl_status take_symbol(symbols *s, cursor *c, pawl_error *err) {
    uint64_t offset, kind, to;
    hdf5_link link = {.kind = HDF5_HARD, .at = c->base + c->at};
    TRY(hdf5_length(s->f, c, &offset, err));
    TRY(hdf5_address(s->f, c, &link.address, err));
    TRY(hdf5_number(c, 4, &kind, err));
    TRY(hdf5_skip(c, 4, err));
    TRY(hdf5_number(c, 4, &to, err));
    TRY(hdf5_skip(c, 12, err));
    TRY(name_at(s, offset, link.at, &link.name, err));
    link.n = strlen(link.name);
    if (kind == CACHED_LINK) {
        link.kind = HDF5_SOFT;
        TRY(name_at(s, to, link.at, &link.to, err));
        link.to_bytes = strlen(link.to);
    }
    if (s->last != NULL && strcmp(s->last, link.name) >= 0) {
        hdf5_refuse(s->f, PAWL_EDAMAGED, link.at, s->f->offset_bytes, err,
                    "the names of a group do not ascend");
        error_found(err, "\"%.200s\" after \"%.200s\"", link.name, s->last);
        return PAWL_EDAMAGED;
    }
    s->last = link.name;
    return s->each(s->context, &link, err);
}

static pawl_status read_symbols(symbols *s, uint64_t address, pawl_error *err) {
    CLEANUP(buffer_free) buffer node = {0};
    size_t each = s->f->length_bytes + s->f->offset_bytes + 24;
    cursor c;
    uint64_t count;
    TRY(hdf5_load(s->f, address, 8, "symbol table node", &node, &c, err));
    TRY(hdf5_begin(s->f, &c, "SNOD", 1, err));
    TRY(hdf5_skip(&c, 1, err));
    TRY(hdf5_number(&c, 2, &count, err));
    TRY(hdf5_load(s->f, address, 8 + count * each, "symbol table node", &node, &c, err));
    TRY(hdf5_skip(&c, 8, err));
    for (uint64_t i = 0; i < count; i++) {
        TRY(take_symbol(s, &c, err));
    }
    return PAWL_OK;
}

/* Levels descend to 0 one by one: nothing comes back. `level` -1: any, of the root. */
static pawl_status read_tree(symbols *s, uint64_t address, int level, pawl_error *err) {
    CLEANUP(buffer_free) buffer node = {0};
    hdf5_file *f = s->f;
    size_t head = 8 + 2 * f->offset_bytes;
    cursor c;
    uint64_t type, is, count, child;
    TRY(hdf5_load(f, address, head, "B-tree of a group", &node, &c, err));
    if (memcmp(node.data, "TREE", 4) != 0) {
        return hdf5_begin(f, &c, "TREE", 0, err);
    }
    TRY(hdf5_skip(&c, 4, err));
    TRY(hdf5_number(&c, 1, &type, err));
    TRY(hdf5_number(&c, 1, &is, err));
    TRY(hdf5_number(&c, 2, &count, err));
    if (type != 0 || is >= FOREIGN_MAX_HDF5_LEVELS || (level >= 0 && is != (uint64_t)level)) {
        hdf5_refuse(f, PAWL_EDAMAGED, c.base, head, err, "a node of the B-tree of a group");
        error_found(err, "type %u at level %u", (unsigned)type, (unsigned)is);
        return PAWL_EDAMAGED;
    }
    TRY(hdf5_load(f, address, head + count * (f->length_bytes + f->offset_bytes) + f->length_bytes,
                  "B-tree of a group", &node, &c, err));
    TRY(hdf5_skip(&c, head, err));
    for (uint64_t i = 0; i < count; i++) {
        TRY(hdf5_skip(&c, f->length_bytes, err));
        TRY(hdf5_address(f, &c, &child, err));
        TRY(is == 0 ? read_symbols(s, child, err) : read_tree(s, child, (int)is - 1, err));
    }
    return PAWL_OK;
}

static pawl_status read_symbol_table(hdf5_file *f, const hdf5_message *m, hdf5_each_link each,
                                     void *context, pawl_error *err) {
    symbols s = {.f = f, .each = each, .context = context};
    cursor c = hdf5_message_cursor(m, "symbol table");
    uint64_t tree, heap;
    TRY(hdf5_address(f, &c, &tree, err));
    TRY(hdf5_address(f, &c, &heap, err));
    pawl_status status = load_names(&s, heap, err);
    if (status == PAWL_OK) {
        status = read_tree(&s, tree, -1, err);
    }
    buffer_free(&s.names);
    return status;
}

/* ---- link messages -------------------------------------------------------------------------- */

enum {
    LINK_SIZE_BYTES = 0x03, /* of the length of the name: a power of two */
    LINK_ORDER = 0x04,
    LINK_KIND = 0x08,
    LINK_CHARACTERS = 0x10,
    LINK_IS_HARD = 0,
    LINK_IS_SOFT = 1,
    LINK_IS_OUTSIDE = 64
};

static pawl_status decode_target(const hdf5_file *f, cursor *c, unsigned kind, hdf5_link *out,
                                 pawl_error *err) {
    const uint8_t *to = NULL;
    uint64_t n;
    if (kind == LINK_IS_HARD) {
        out->kind = HDF5_HARD;
        return hdf5_address(f, c, &out->address, err);
    }
    out->kind = kind == LINK_IS_SOFT      ? HDF5_SOFT
                : kind == LINK_IS_OUTSIDE ? HDF5_OUTSIDE
                                          : HDF5_UNKNOWN;
    TRY(hdf5_number(c, 2, &n, err));
    TRY(cursor_bytes(c, (size_t)n, &to, err));
    out->to = (const char *)to;
    out->to_bytes = (size_t)n;
    return PAWL_OK;
}

pawl_status hdf5_link_decode(const hdf5_file *f, const hdf5_message *m, hdf5_link *out,
                             pawl_error *err) {
    cursor c = hdf5_message_cursor(m, "link");
    uint8_t version, flags, kind = LINK_IS_HARD;
    const uint8_t *name = NULL;
    uint64_t n;
    *out = (hdf5_link){.at = m->at};
    TRY(cursor_u8(&c, &version, err));
    TRY(cursor_u8(&c, &flags, err));
    if (version != 1 || m->shared) {
        return hdf5_refuse(f, PAWL_EUNSUPPORTED, m->at, m->n, err, "a link of version %u", version);
    }
    if ((flags & LINK_KIND) != 0) {
        TRY(cursor_u8(&c, &kind, err));
    }
    TRY(hdf5_skip(
        &c, ((flags & LINK_ORDER) != 0 ? 8u : 0u) + ((flags & LINK_CHARACTERS) != 0 ? 1u : 0u),
        err));
    TRY(hdf5_number(&c, 1u << (flags & LINK_SIZE_BYTES), &n, err));
    if (n > m->n) {
        return hdf5_refuse(f, PAWL_EDAMAGED, m->at, m->n, err, "the name of a link is too long");
    }
    TRY(cursor_bytes(&c, (size_t)n, &name, err));
    out->name = (const char *)name;
    out->n = (size_t)n;
    return decode_target(f, &c, kind, out, err);
}

typedef struct link_messages {
    hdf5_file *f;
    hdf5_each_link each;
    void *context;
} link_messages;

static pawl_status take_link(void *context, const hdf5_message *m, pawl_error *err) {
    const link_messages *l = context;
    hdf5_link link;
    TRY(hdf5_link_decode(l->f, m, &link, err));
    return l->each(l->context, &link, err);
}

/* Addresses of a heap and a tree, behind flags of what is there; HDF5_NONE: nothing is. */
static pawl_status decode_info(hdf5_file *f, const hdf5_message *m, size_t order_bytes,
                               hdf5_dense *out, pawl_error *err) {
    cursor c = hdf5_message_cursor(m, "link or attribute info");
    uint8_t version, flags;
    TRY(cursor_u8(&c, &version, err));
    TRY(cursor_u8(&c, &flags, err));
    if (version != 0) {
        return hdf5_refuse(f, PAWL_EUNSUPPORTED, m->at, m->n, err,
                           "link or attribute info of version %u", version);
    }
    TRY(hdf5_skip(&c, (flags & 1) != 0 ? order_bytes : 0, err));
    TRY(hdf5_address(f, &c, &out->heap, err));
    return hdf5_address(f, &c, &out->tree, err);
}

static pawl_status dense_of(hdf5_file *f, const hdf5_header *h, unsigned info, hdf5_dense *dense,
                            hdf5_each_message each, void *context, pawl_error *err) {
    const hdf5_message *m = hdf5_find(h, info);
    if (m == NULL) {
        return PAWL_OK;
    }
    TRY(decode_info(f, m, info == HDF5_LINK_INFO ? 8 : 2, dense, err));
    return dense->heap == HDF5_NONE ? PAWL_OK : hdf5_dense_each(f, dense, each, context, err);
}

bool hdf5_is_group(const hdf5_header *h) {
    return hdf5_find(h, HDF5_SYMBOLS) != NULL || hdf5_find(h, HDF5_LINK_INFO) != NULL ||
           hdf5_find(h, HDF5_LINK) != NULL;
}

pawl_status hdf5_links(hdf5_file *f, const hdf5_header *group, hdf5_each_link each, void *context,
                       pawl_error *err) {
    link_messages l = {.f = f, .each = each, .context = context};
    hdf5_dense dense = {.tree_type = 5, .id_at = 4, .type = HDF5_LINK};
    const hdf5_message *symbols_message = hdf5_find(group, HDF5_SYMBOLS);
    if (symbols_message != NULL) {
        TRY(read_symbol_table(f, symbols_message, each, context, err));
    }
    for (size_t i = 0; i < group->count; i++) {
        if (group->messages[i].type == HDF5_LINK) {
            TRY(take_link(&l, &group->messages[i], err));
        }
    }
    return dense_of(f, group, HDF5_LINK_INFO, &dense, take_link, &l, err);
}

pawl_status hdf5_attributes(hdf5_file *f, const hdf5_header *object, hdf5_each_message each,
                            void *context, pawl_error *err) {
    hdf5_dense dense = {.tree_type = 8, .id_at = 0, .type = HDF5_ATTRIBUTE};
    for (size_t i = 0; i < object->count; i++) {
        const hdf5_message *m = &object->messages[i];
        if (m->type == HDF5_ATTRIBUTE) {
            TRY(each(context, m, err));
        }
    }
    return dense_of(f, object, HDF5_ATTRIBUTE_INFO, &dense, each, context, err);
}
