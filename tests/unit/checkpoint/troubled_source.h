/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source around another one that fails, ends too early, lies about sizes, and returns entries out
 * of order; or, without any of that, has no checksums and decodes its files by a function.
 */
#ifndef CHECKPOINT_TROUBLED_SOURCE_H
#define CHECKPOINT_TROUBLED_SOURCE_H

#include "source/source.h"

#include <string.h>

typedef struct troubled_source {
    struct source base;
    struct source *inner;
    source_ops ops; /* of this one: the test takes some away */
    bool decoded;   /* files are read through a function, a few bytes at a time */
    /* Calls until one fails with PAWL_EIO; 0: none does. */
    unsigned fail_walk, fail_next, fail_find, fail_open, fail_read;
    uint64_t ends_at;   /* decoded files end here, whatever size they name; 0: where they end */
    int64_t more_bytes; /* that a file is said to have */
    unsigned swapped;  /* the walk returns this entry, counted from 1, and the next the other way */
    unsigned repeated; /* the walk returns this entry twice */
    void (*change)(record_entry *entry, record_piece *piece); /* of every entry with a piece */
    const char *of;                                           /* but only of this one */
    unsigned reads;                                           /* of decoded files, so far */
} troubled_source;

typedef struct troubled_walk {
    source_walk base;
    source_walk *inner;
    unsigned returned;
    arena memory;
    record_entry entry, held;
    record_piece piece, held_piece;
    bool holds;
} troubled_walk;

static inline pawl_status trouble_now(unsigned *left, pawl_error *err) {
    return *left > 0 && --*left == 0 ? error_set(err, PAWL_EIO, "trouble") : PAWL_OK;
}

/* ---- entries ---- */

static inline void trouble_change(const troubled_source *t, record_entry *entry,
                                  record_piece *piece) {
    if (t->change == NULL || entry->piece_count == 0 ||
        (t->of != NULL && strcmp(t->of, entry->name) != 0)) {
        return;
    }
    *piece = entry->pieces[0];
    entry->pieces = piece;
    entry->piece_count = 1;
    t->change(entry, piece);
}

static inline pawl_status trouble_walk(struct source *s, const char *prefix, const char *from,
                                       source_walk **out, pawl_error *err) {
    troubled_source *t = (troubled_source *)s;
    TRY(trouble_now(&t->fail_walk, err));
    troubled_walk *w = mem_calloc(1, sizeof(*w));
    if (w == NULL) {
        return error_nomem(err, sizeof(*w));
    }
    w->base.of = s;
    pawl_status status = t->inner->ops->walk(t->inner, prefix, from, &w->inner, err);
    if (status != PAWL_OK) {
        mem_free(w);
        return status;
    }
    *out = &w->base;
    return PAWL_OK;
}

/* Names that outlive the inner walk's entry; what else is swapped has no pieces then. */
static inline void trouble_hold(troubled_walk *w, const record_entry *entry) {
    w->held = *entry;
    w->held.name = arena_strdup(&w->memory, entry->name);
    w->held_piece = entry->pieces[0];
    w->held.kind = PAWL_KIND_STRING;
    w->held.role = PAWL_ROLE_OTHER;
    w->held.slot = w->held.slot_of = NULL;
    w->held.per_rank = false;
    w->held.value = NULL;
    w->held_piece.bytes = 1;
    w->held.pieces = &w->held_piece;
    w->held.piece_count = 1;
    w->holds = w->held.name != NULL;
}

static inline pawl_status trouble_next(source_walk *base, const record_entry **out,
                                       pawl_error *err) {
    troubled_walk *w = (troubled_walk *)base;
    troubled_source *t = (troubled_source *)base->of;
    TRY(trouble_now(&t->fail_next, err));
    if (w->holds) {
        w->holds = false;
        *out = &w->held;
        return PAWL_OK;
    }
    const record_entry *entry;
    TRY(t->inner->ops->next(w->inner, &entry, err));
    w->returned++;
    if (entry != NULL && w->returned == t->repeated) {
        trouble_hold(w, entry);
    }
    if (entry != NULL && w->returned == t->swapped) {
        trouble_hold(w, entry);
        TRY(t->inner->ops->next(w->inner, &entry, err));
    }
    *out = entry != NULL ? &w->entry : NULL;
    if (entry != NULL) {
        w->entry = *entry;
        trouble_change(t, &w->entry, &w->piece);
    }
    return PAWL_OK;
}

static inline void trouble_end(source_walk *base) {
    troubled_walk *w = (troubled_walk *)base;
    ((troubled_source *)base->of)->inner->ops->end(w->inner);
    arena_free(&w->memory);
    mem_free(w);
}

static inline pawl_status trouble_find(struct source *s, const char *name, arena *memory,
                                       record_entry *out, bool *found, pawl_error *err) {
    troubled_source *t = (troubled_source *)s;
    TRY(trouble_now(&t->fail_find, err));
    TRY(t->inner->ops->find(t->inner, name, memory, out, found, err));
    record_piece *piece = arena_take(memory, sizeof(*piece), err);
    if (piece == NULL) {
        return PAWL_ENOMEM;
    }
    if (*found) {
        trouble_change(t, out, piece);
    }
    return PAWL_OK;
}

/* ---- files ---- */

static inline source_file trouble_file(struct source *s, uint32_t number) {
    troubled_source *t = (troubled_source *)s;
    source_file file = t->inner->ops->file(t->inner, number);
    file.bytes += (uint64_t)t->more_bytes;
    return file;
}

typedef struct decoded_file {
    store_file base;
    store in;
    store_file *inner;
    troubled_source *of;
} decoded_file;

static inline pawl_status decoded_read(store_file *f, uint64_t at, void *to, size_t n, size_t *got,
                                       pawl_error *err) {
    decoded_file *d = (decoded_file *)f;
    troubled_source *t = d->of;
    size_t most = 1u << (t->reads++ % 17);
    TRY(trouble_now(&t->fail_read, err));
    n = n < most ? n : most;
    if (t->ends_at > 0) {
        uint64_t left = at < t->ends_at ? t->ends_at - at : 0;
        n = n < left ? n : (size_t)left;
    }
    *got = 0;
    return n > 0 ? d->inner->in->ops->read(d->inner, at, to, n, got, err) : PAWL_OK;
}

/* What it says it has, even if it ends before. */
static inline pawl_status decoded_size(store_file *f, uint64_t *out, pawl_error *err) {
    return store_size(((decoded_file *)f)->inner, out, err);
}

static inline void decoded_close(store_file *f) {
    store_close(((decoded_file *)f)->inner);
    mem_free(f);
}

static inline pawl_status trouble_open(struct source *s, uint32_t number, store_mode mode,
                                       store_file **out, pawl_error *err) {
    static const store_ops ops = {
        .read = decoded_read, .size = decoded_size, .close = decoded_close};
    troubled_source *t = (troubled_source *)s;
    TRY(trouble_now(&t->fail_open, err));
    TRY(t->inner->ops->open(t->inner, number, mode, out, err));
    if (!t->decoded) {
        return PAWL_OK;
    }
    decoded_file *d = mem_calloc(1, sizeof(*d));
    if (d == NULL) {
        store_close(*out);
        return error_nomem(err, sizeof(*d));
    }
    d->inner = *out;
    d->of = t;
    d->in = (store){.ops = &ops, .traits = s->store->traits, .root = s->store->root};
    d->base.in = &d->in;
    *out = &d->base;
    return PAWL_OK;
}

/* ---- the rest is passed on ---- */

static inline pawl_status trouble_checksums(struct source *s, uint32_t file, uint64_t first,
                                            size_t n, uint32_t *out, pawl_error *err) {
    struct source *inner = ((troubled_source *)s)->inner;
    return inner->ops->checksums(inner, file, first, n, out, err);
}

static inline pawl_status trouble_entry_failed(struct source *s, pawl_status status,
                                               pawl_error *err) {
    struct source *inner = ((troubled_source *)s)->inner;
    return inner->ops->entry_failed(inner, status, err);
}

static inline pawl_status trouble_verify(struct source *s, source_verifier *v, pawl_error *err) {
    struct source *inner = ((troubled_source *)s)->inner;
    TRY(inner->ops->verify(inner, v, err));
    v->entries = 0;
    return PAWL_OK;
}

static inline void trouble_destroy(struct source *s) {
    source_destroy(((troubled_source *)s)->inner);
    mem_free(s);
}

/* Takes `inner` over. Its entries count as unchecked. */
static inline troubled_source *troubled_source_around(struct source *inner) {
    static const source_ops ops = {.walk = trouble_walk,
                                   .next = trouble_next,
                                   .end = trouble_end,
                                   .find = trouble_find,
                                   .file = trouble_file,
                                   .open = trouble_open,
                                   .checksums = trouble_checksums,
                                   .entry_failed = trouble_entry_failed,
                                   .verify = trouble_verify,
                                   .destroy = trouble_destroy};
    troubled_source *t = mem_calloc(1, sizeof(*t));
    if (t == NULL) {
        return NULL;
    }
    t->base = *inner;
    t->base.memory = (arena){0};
    t->base.checked = false;
    t->inner = inner;
    t->ops = ops;
    t->base.ops = &t->ops;
    return t;
}

#endif
