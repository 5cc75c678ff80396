/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks over the groups of an HDF5 file, and adds what is in them. Groups that are still to be
 * looked into are kept in a list, so that their depth does not matter. An object is read once; what
 * else leads to it is a value that names where.
 *
 * The name of a dataset is its path, that of an attribute the path of its object, @, and its own
 * name. In paths @ is written as %40, so that names are never the same.
 */
#include "foreign/hdf5/dataset.h"

#include <stdio.h>

typedef struct object {
    uint64_t address;
    const char *path;
} object;

typedef struct walk {
    hdf5_file *f;
    object *pending;
    size_t count, room;
    object *seen; /* by address, open addressing; a power of two of them */
    size_t seen_count, seen_room;
    const object *now;
    bool bfloat16; /* of the dataset that is looked at: Keras says so in an attribute */
} walk;

/* ---- names ---- */

static pawl_status count_name(hdf5_file *f, size_t n, pawl_error *err) {
    f->usage->name_bytes += n + 1;
    return f->usage->name_bytes <= FOREIGN_MAX_HDF5_NAMES
               ? PAWL_OK
               : hdf5_beyond(f, "bytes of names", FOREIGN_MAX_HDF5_NAMES, err);
}

/* Most names can be as they are. */
static bool is_plain(const char *name, size_t n) {
    for (size_t i = 0; i < n; i++) {
        unsigned char byte = (unsigned char)name[i];
        if (byte < 0x20 || byte == 0x7f || byte == '%' || byte == '@' || byte == '/') {
            return false;
        }
    }
    return n > 0 && name[0] != '.' && utf8_valid(name, n);
}

/* What cannot be in a name is escaped; `at`: and @. */
static pawl_status escape(walk *w, const char *name, size_t n, bool at, buffer *out,
                          pawl_error *err) {
    const char *escaped;
    if (is_plain(name, n)) {
        return buffer_append(out, name, n, err);
    }
    TRY(count_name(w->f, 3 * n, err));
    TRY(archive_escape_name(w->f->a, name, n, &escaped, err));
    for (const char *c = escaped; *c != '\0'; c++) {
        bool sign = at && *c == '@';
        TRY(buffer_append(out, sign ? "%40" : c, sign ? 3 : 1, err));
    }
    return PAWL_OK;
}

/* A path, a separator, and a name of `n` bytes that is escaped. */
static pawl_status make_name(walk *w, const char *separator, const char *name, size_t n,
                             const char **out, pawl_error *err) {
    CLEANUP(buffer_free) buffer text = {0};
    const char *path = w->now->path;
    TRY(count_name(w->f, strlen(path) + n, err));
    TRY(buffer_append(&text, path, strlen(path), err));
    TRY(buffer_append(&text, separator, strlen(separator), err));
    TRY(escape(w, name, n, separator[0] != '@', &text, err));
    *out = arena_strdup(&w->f->a->base.memory, (const char *)text.data);
    return *out != NULL ? PAWL_OK : error_nomem(err, text.size + 1);
}

static pawl_status name_link(walk *w, const hdf5_link *link, const char **out, pawl_error *err) {
    if (link->n == 0 || memchr(link->name, '/', link->n) != NULL ||
        memchr(link->name, 0, link->n) != NULL) {
        return hdf5_refuse(w->f, PAWL_EDAMAGED, link->at, 0, err,
                           "the name of a link is empty, or has a / or a NUL");
    }
    return make_name(w, w->now->path[0] != '\0' ? "/" : "", link->name, link->n, out, err);
}

/* As Keras names what is not the model's; others have no such names. */
static pawl_role role_of(const char *path) {
    if (strncmp(path, "optimizer/", 10) == 0 || strncmp(path, "optimizer_weights/", 18) == 0) {
        return PAWL_ROLE_OTHER;
    }
    return strstr(path, "/seed_generator/") != NULL || strncmp(path, "seed_generator/", 15) == 0
               ? PAWL_ROLE_RNG
               : PAWL_ROLE_MODEL;
}

/* ---- objects that were seen ---- */

static object *seen_slot(const walk *w, uint64_t address) {
    size_t mask = w->seen_room - 1;
    size_t at = (size_t)((address * UINT64_C(0x9e3779b97f4a7c15)) >> 20) & mask;
    while (w->seen[at].path != NULL && w->seen[at].address != address) {
        at = (at + 1) & mask;
    }
    return &w->seen[at];
}

static pawl_status grow_seen(walk *w, pawl_error *err) {
    size_t room = w->seen_room > 0 ? 2 * w->seen_room : 256;
    object *old = w->seen;
    size_t old_room = w->seen_room;
    object *more = mem_calloc(room, sizeof(*more));
    if (more == NULL) {
        (void)error_nomem(err, room * sizeof(*more));
        return PAWL_ENOMEM;
    }
    w->seen = more;
    w->seen_room = room;
    for (size_t i = 0; old != NULL && i < old_room; i++) {
        if (old[i].path != NULL) {
            *seen_slot(w, old[i].address) = old[i];
        }
    }
    mem_free(old);
    return PAWL_OK;
}

/* To be looked into later, unless it was seen: then *there is its path. */
static pawl_status add_object(walk *w, uint64_t address, const char *path, const char **there,
                              pawl_error *err) {
    if (w->seen == NULL || 2 * w->seen_count >= w->seen_room) {
        TRY(grow_seen(w, err));
    }
    object *slot = seen_slot(w, address);
    *there = slot->path;
    if (slot->path != NULL) {
        return PAWL_OK;
    }
    TRY(vec_reserve(&w->pending, &w->room, w->count + 1, sizeof(*w->pending), err));
    *slot = (object){.address = address, .path = path};
    w->pending[w->count++] = *slot;
    w->seen_count++;
    return PAWL_OK;
}

/* ---- groups ---- */

/* A byte of flags, the file, a NUL, the path, a NUL: "file:path". */
static pawl_status note_outside(const walk *w, const char *name, const hdf5_link *link,
                                pawl_error *err) {
    CLEANUP(buffer_free) buffer text = {0};
    size_t n = link->to_bytes > 2 ? link->to_bytes - 2 : 0;
    TRY(buffer_append(&text, n > 0 ? link->to + 1 : "", n, err));
    uint8_t *end = n > 0 ? memchr(text.data, 0, n) : NULL;
    if (end != NULL) {
        *end = ':';
    }
    return hdf5_add_note(w->f, name, "external_link", (const char *)text.data, n, err);
}

static pawl_status take_link(void *context, const hdf5_link *link, pawl_error *err) {
    walk *w = context;
    const char *name = NULL;
    const char *there = NULL;
    if (++w->f->usage->links > FOREIGN_MAX_HDF5_LINKS) {
        return hdf5_beyond(w->f, "links", FOREIGN_MAX_HDF5_LINKS, err);
    }
    TRY(name_link(w, link, &name, err));
    switch (link->kind) {
    case HDF5_HARD:
        TRY(add_object(w, link->address, name, &there, err));
        return there == NULL ? PAWL_OK
                             : hdf5_add_note(w->f, name, "hard_link", there, strlen(there), err);
    case HDF5_SOFT:
        return hdf5_add_note(w->f, name, "soft_link", link->to, link->to_bytes, err);
    case HDF5_OUTSIDE:
        return note_outside(w, name, link, err);
    default:
        return hdf5_add_note(w->f, name, "unread", "a link of a kind of its own", 27, err);
    }
}

/* ---- attributes ---- */

static pawl_status take_attribute(void *context, const hdf5_message *m, pawl_error *err) {
    walk *w = context;
    hdf5_attribute a;
    TRY(hdf5_attribute_decode(w->f, m, &a, err));
    hdf5_value v = {.bytes = a.bytes, .at = a.at};
    v.elements.type = &a.type;
    v.elements.space = &a.space;
    TRY(make_name(w, "@", a.name, a.n, &v.elements.name, err));
    return hdf5_add_value(w->f, &v, err);
}

static pawl_status look_for_bfloat16(void *context, const hdf5_message *m, pawl_error *err) {
    walk *w = context;
    hdf5_attribute a;
    hdf5_bytes text;
    TRY(hdf5_attribute_decode(w->f, m, &a, err));
    if (a.n != 5 || memcmp(a.name, "dtype", 5) != 0 || a.space.null || a.space.ndim != 0) {
        return PAWL_OK;
    }
    if (a.type.class == HDF5_TEXTS) {
        TRY(hdf5_variable(w->f, &a.bytes, &text, err));
    } else if (a.type.class == HDF5_TEXT) {
        TRY(cursor_bytes(&a.bytes, a.type.bytes, &text.data, err));
        text.n = strnlen((const char *)text.data, a.type.bytes);
    } else {
        return PAWL_OK;
    }
    w->bfloat16 = w->bfloat16 || (text.n == 8 && memcmp(text.data, "bfloat16", 8) == 0);
    return PAWL_OK;
}

/* ---- datasets ---- */

/* A dataset of one text: its elements are loaded. */
static pawl_status add_scalar_text(hdf5_file *f, const hdf5_elements *e, const hdf5_layout *layout,
                                   pawl_error *err) {
    CLEANUP(buffer_free) buffer bytes = {0};
    hdf5_value v = {.elements = *e, .at = layout->at};
    if (layout->at == HDF5_NONE) {
        v.bytes = cursor_of("", 0, f->base, "dataset");
        return e->type->class == HDF5_TEXTS
                   ? archive_add_value(f->a, e->name, PAWL_ROLE_OTHER, PAWL_KIND_STRING, "", 0, err)
                   : hdf5_add_elements(f, e, layout, err);
    }
    TRY(hdf5_load(f, layout->at - f->base, layout->bytes, "dataset", &bytes, &v.bytes, err));
    return hdf5_add_value(f, &v, err);
}

/* What is stored in a way that is not read is listed, and a value says why it is not. */
static pawl_status add_unread(const walk *w, const hdf5_elements *e, pawl_error *err) {
    const hdf5_type *type = e->type;
    hdf5_type unread = *type;
    hdf5_elements listed = *e;
    const hdf5_layout nowhere = {.at = HDF5_NONE};
    char why[512];
    error_path(err, "%s", "");
    error_line(why, sizeof(why), err);
    *err = ERROR_INIT;
    const char *was = type->dtype != 0 && !type->paired ? pawl_dtype_name(type->dtype) : type->name;
    unread.dtype = 0;
    (void)snprintf(unread.name, sizeof(unread.name), "unread %.20s", was);
    listed.type = &unread;
    TRY(hdf5_add_elements(w->f, &listed, &nowhere, err));
    const char *name = arena_printf(&w->f->a->base.memory, "%s@%%unread", e->name);
    if (name == NULL) {
        return error_nomem(err, strlen(e->name) + 16);
    }
    return hdf5_add_note(w->f, name, "unread", why, strlen(why), err);
}

static pawl_status add_dataset(walk *w, const hdf5_header *h, pawl_error *err) {
    hdf5_file *f = w->f;
    hdf5_type type;
    hdf5_space space;
    hdf5_layout layout;
    hdf5_elements e = {.name = w->now->path, .type = &type, .space = &space};
    const hdf5_message *said_type = hdf5_find(h, HDF5_TYPE);
    const hdf5_message *said_space = hdf5_find(h, HDF5_SPACE);
    if (said_type == NULL || said_space == NULL) {
        return hdf5_refuse(f, PAWL_EDAMAGED, f->base + h->address, 0, err,
                           "a dataset has no datatype, or no dataspace");
    }
    e.role = role_of(e.name);
    TRY(hdf5_type_read(f, said_type, &type, err));
    TRY(hdf5_space_read(f, said_space, &space, err));
    if (type.class == HDF5_OPAQUE && type.bytes == 2) {
        w->bfloat16 = false;
        TRY(hdf5_attributes(f, h, look_for_bfloat16, w, err));
        type.dtype = w->bfloat16 ? PAWL_BF16 : 0;
    }
    if (space.null) {
        return archive_add_value(f->a, e.name, PAWL_ROLE_OTHER, PAWL_KIND_JSON, "null", 4, err);
    }
    pawl_status status = hdf5_layout_read(f, h, &space, &type, &layout, err);
    bool text = type.class == HDF5_TEXT || type.class == HDF5_TEXTS;
    if (status == PAWL_OK) {
        status = text && space.ndim == 0 && !layout.chunked
                     ? add_scalar_text(f, &e, &layout, err)
                     : hdf5_add_elements(f, &e, &layout, err);
    }
    return status == PAWL_EUNSUPPORTED ? add_unread(w, &e, err) : status;
}

/* ---- all of it ---- */

static pawl_status look_into(walk *w, const hdf5_header *h, pawl_error *err) {
    if (hdf5_is_group(h)) {
        TRY(hdf5_links(w->f, h, take_link, w, err));
    } else if (hdf5_find(h, HDF5_LAYOUT) != NULL || hdf5_find(h, HDF5_SPACE) != NULL) {
        TRY(add_dataset(w, h, err));
    } else if (hdf5_find(h, HDF5_TYPE) != NULL) {
        TRY(hdf5_add_note(w->f, w->now->path, "datatype", "a datatype with a name", 22, err));
    } else {
        hdf5_refuse(w->f, PAWL_EDAMAGED, w->f->base + h->address, 16, err,
                    "an object is neither a group nor a dataset");
        error_expected(err, "an object header with links, or with a type, a shape and a layout");
        return PAWL_EDAMAGED;
    }
    return hdf5_attributes(w->f, h, take_attribute, w, err);
}

static pawl_status walk_all(walk *w, pawl_error *err) {
    const char *there;
    TRY(add_object(w, w->f->root, "", &there, err));
    while (w->count > 0) {
        CLEANUP(hdf5_header_free) hdf5_header h = {.messages = NULL};
        const object now = w->pending[--w->count];
        w->now = &now;
        pawl_status status = hdf5_header_load(w->f, now.address, &h, err);
        status = status == PAWL_OK ? look_into(w, &h, err) : status;
        w->now = NULL;
        if (status != PAWL_OK) {
            if (err->entry[0] == '\0' && status != PAWL_ENOMEM) {
                error_entry(err, now.path[0] != '\0' ? now.path : "/");
            }
            return status;
        }
    }
    return PAWL_OK;
}

pawl_status hdf5_add(archive *a, const hdf5_place *place, hdf5_usage *usage, pawl_error *err) {
    hdf5_file f;
    pawl_status status = hdf5_open(a, place, usage, &f, err);
    if (status == PAWL_OK) {
        walk w = {.f = &f};
        status = walk_all(&w, err);
        mem_free(w.pending);
        mem_free(w.seen);
        hdf5_close(&f);
    }
    if (status != PAWL_OK && status != PAWL_ENOMEM && err->path[0] == '\0') {
        archive_error_file(a, archive_file_of(a, place->stream), err);
    }
    return status;
}

pawl_status hdf5_read(archive *a, pawl_error *err) {
    hdf5_usage usage = {.loaded = 0};
    uint32_t file;
    TRY(archive_add_file(a, a->name, &file, err));
    const hdf5_place place = {.stream = file, .bytes = a->files[file].was.size};
    return hdf5_add(a, &place, &usage, err);
}
