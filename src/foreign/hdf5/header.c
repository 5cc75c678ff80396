/* SPDX-License-Identifier: Apache-2.0 */
/* Object headers, version 1 and 2: the messages of all their blocks. */
#include "foreign/hdf5/file.h"

#define CONTINUATION_OVERHEAD 8u /* of version 2: a signature and a checksum */
#define MESSAGE_IS_SHARED     0x02u
#define MESSAGE_FAILS_UNKNOWN 0x80u
#define LAST_KNOWN_MESSAGE    0x18u

enum {
    FLAG_SIZE_BYTES = 0x03, /* of the first block: a power of two */
    FLAG_ORDER = 0x04,      /* messages say in which order they were made */
    FLAG_PHASES = 0x10,     /* attributes: when they are stored densely */
    FLAG_TIMES = 0x20
};

typedef struct block {
    uint64_t address, bytes;
} block;

typedef struct loading {
    hdf5_file *f;
    hdf5_header *out;
    unsigned version;
    bool ordered;
    block *blocks; /* first to last, as they are named */
    size_t count, room;
    uint64_t bytes; /* of all of them */
} loading;

static pawl_status add_block(loading *l, uint64_t address, uint64_t bytes, pawl_error *err) {
    if (bytes > FOREIGN_MAX_HDF5_HEADER || l->bytes + bytes > FOREIGN_MAX_HDF5_HEADER) {
        return hdf5_beyond(l->f, "bytes in one object header", FOREIGN_MAX_HDF5_HEADER, err);
    }
    l->bytes += bytes > 0 ? bytes : 1;
    TRY(vec_reserve(&l->blocks, &l->room, l->count + 1, sizeof(*l->blocks), err));
    l->blocks[l->count++] = (block){.address = address, .bytes = bytes};
    return PAWL_OK;
}

static pawl_status add_continuation(loading *l, const hdf5_message *m, pawl_error *err) {
    cursor c = hdf5_message_cursor(m, "continuation of an object header");
    uint64_t address, bytes;
    TRY(hdf5_address(l->f, &c, &address, err));
    TRY(hdf5_length(l->f, &c, &bytes, err));
    return add_block(l, address, bytes, err);
}

static pawl_status add_message(loading *l, const hdf5_message *m, unsigned flags, pawl_error *err) {
    hdf5_header *h = l->out;
    if (m->type == 0) {
        return PAWL_OK;
    }
    if (m->type == HDF5_CONTINUATION) {
        return add_continuation(l, m, err);
    }
    if (m->type > LAST_KNOWN_MESSAGE && (flags & MESSAGE_FAILS_UNKNOWN) != 0) {
        return hdf5_refuse(l->f, PAWL_EUNSUPPORTED, m->at, m->n, err,
                           "a message of type %u in an object header", m->type);
    }
    TRY(vec_reserve(&h->messages, &h->room, h->count + 1, sizeof(*h->messages), err));
    h->messages[h->count++] = *m;
    return PAWL_OK;
}

/* What is left of a block when no message fits is a gap. */
static pawl_status read_messages(loading *l, cursor *c, pawl_error *err) {
    bool old = l->version == 1;
    size_t head = old ? 8 : l->ordered ? 6 : 4;
    while (cursor_left(c) >= head) {
        hdf5_message m;
        uint64_t type, n, flags;
        TRY(hdf5_number(c, old ? 2 : 1, &type, err));
        TRY(hdf5_number(c, 2, &n, err));
        TRY(hdf5_number(c, 1, &flags, err));
        TRY(hdf5_skip(c, head - (old ? 5 : 4), err));
        m = (hdf5_message){.type = (unsigned)type,
                           .shared = (flags & MESSAGE_IS_SHARED) != 0,
                           .n = (size_t)n,
                           .at = c->base + c->at};
        TRY(cursor_bytes(c, m.n, &m.data, err));
        TRY(add_message(l, &m, (unsigned)flags, err));
    }
    return PAWL_OK;
}

/* A block that lives as long as the header. */
static pawl_status load_block(loading *l, uint64_t address, uint64_t size, cursor *c,
                              pawl_error *err) {
    CLEANUP(buffer_free) buffer bytes = {0};
    TRY(hdf5_load(l->f, address, size, "object header", &bytes, c, err));
    uint8_t *kept = arena_take(&l->out->memory, bytes.size + 1, err);
    if (kept == NULL) {
        return PAWL_ENOMEM;
    }
    memcpy(kept, bytes.data, bytes.size + 1);
    c->data = kept;
    return PAWL_OK;
}

static pawl_status read_continuation(loading *l, const block *b, pawl_error *err) {
    cursor c;
    TRY(load_block(l, b->address, b->bytes, &c, err));
    if (l->version == 2) {
        const uint8_t *signature = NULL;
        TRY(hdf5_checked(l->f, &c, err));
        c.size -= 4;
        TRY(cursor_bytes(&c, 4, &signature, err));
        if (memcmp(signature, "OCHK", 4) != 0) {
            return hdf5_refuse(l->f, PAWL_EDAMAGED, c.base, 4, err,
                               "the continuation of an object header does not begin as one");
        }
    }
    return read_messages(l, &c, err);
}

static pawl_status read_first_1(loading *l, uint64_t address, cursor *head, pawl_error *err) {
    cursor c;
    uint32_t bytes;
    TRY(hdf5_skip(head, 1 + 2 + 4, err)); /* reserved, how many messages, how many links */
    TRY(cursor_u32le(head, &bytes, err));
    l->version = 1;
    TRY(add_block(l, address + 16, bytes, err));
    TRY(load_block(l, address + 16, bytes, &c, err));
    return read_messages(l, &c, err);
}

static pawl_status read_first_2(loading *l, uint64_t address, cursor *head, pawl_error *err) {
    cursor c;
    uint8_t flags;
    uint64_t bytes;
    TRY(hdf5_begin(l->f, head, "OHDR", 2, err));
    TRY(cursor_u8(head, &flags, err));
    TRY(hdf5_skip(head, ((flags & FLAG_TIMES) != 0 ? 16 : 0) + ((flags & FLAG_PHASES) != 0 ? 4 : 0),
                  err));
    TRY(hdf5_number(head, 1u << (flags & FLAG_SIZE_BYTES), &bytes, err));
    if (bytes > FOREIGN_MAX_HDF5_HEADER) {
        return add_block(l, address, bytes, err);
    }
    l->version = 2;
    l->ordered = (flags & FLAG_ORDER) != 0;
    TRY(add_block(l, address, head->at + bytes + 4, err));
    TRY(load_block(l, address, head->at + bytes + 4, &c, err));
    TRY(hdf5_checked(l->f, &c, err));
    c.size -= 4;
    c.at = head->at;
    return read_messages(l, &c, err);
}

static pawl_status read_blocks(loading *l, uint64_t address, pawl_error *err) {
    CLEANUP(buffer_free) buffer bytes = {0};
    cursor head;
    uint64_t left = address < l->f->end - l->f->base ? l->f->end - l->f->base - address : 16;
    TRY(hdf5_load(l->f, address, left < 34 ? left : 34, "object header", &bytes, &head, err));
    if (bytes.size > 0 && bytes.data[0] == 1) {
        head.at = 1;
        TRY(read_first_1(l, address, &head, err));
    } else {
        TRY(read_first_2(l, address, &head, err));
    }
    for (size_t i = 1; i < l->count; i++) {
        const block b = l->blocks[i];
        TRY(read_continuation(l, &b, err));
    }
    return PAWL_OK;
}

pawl_status hdf5_header_load(hdf5_file *f, uint64_t address, hdf5_header *out, pawl_error *err) {
    loading l = {.f = f, .out = out};
    *out = (hdf5_header){.address = address};
    pawl_status status = read_blocks(&l, address, err);
    mem_free(l.blocks);
    if (status != PAWL_OK) {
        hdf5_header_free(out);
    }
    return status;
}

void hdf5_header_free(hdf5_header *h) {
    mem_free(h->messages);
    arena_free(&h->memory);
    *h = (hdf5_header){.messages = NULL};
}

const hdf5_message *hdf5_find(const hdf5_header *h, unsigned type) {
    for (size_t i = 0; i < h->count; i++) {
        if (h->messages[i].type == type) {
            return &h->messages[i];
        }
    }
    return NULL;
}

cursor hdf5_message_cursor(const hdf5_message *m, const char *what) {
    return cursor_of(m->data, m->n, m->at, what);
}
