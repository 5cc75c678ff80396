/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams that are decompressed. All who have one open share a decoder, so that threads that read
 * one window after the other, each another one, decompress the stream once, not as often as there
 * are windows. It has the last bytes it made, until the last of them closes the stream. The one of
 * an archive that was closed last then rests where it was, with but a few of these bytes: whoever
 * reads one part after the other, and opens the stream for each, need not begin anew each time.
 */
#include "foreign/streams.h"
#include "foreign/unpack.h"

#include <stdio.h>
#include <string.h>

#define IN_BYTES ((size_t)128 << 10)

#define TAIL_BYTES ((size_t)64 << 10) /* kept while it rests: readers begin at a block's start */
#define STEP_BYTES ((size_t)1 << 20)  /* made in one turn: so long others wait for theirs */

typedef struct decoder decoder;

typedef struct packed_recipe {
    stream_recipe recipe;
    stream_packed packed;
    /* NULL: nobody has the stream open. The pointer is in the archive's memory; archive.packed.lock
     * is held. */
    decoder **shared;
} packed_recipe;

/* One who reads, on its thread's stack. */
typedef struct reading {
    uint64_t at;
    uint8_t *to;
    size_t left;
    struct reading *next;
} reading;

struct decoder {
    const packed_recipe *of;
    archive *a;
    size_t users; /* archive.packed.lock is held */
    monitor lock; /* of these two: */
    reading *readings;
    bool busy; /* one of them has its turn; all below is its own until that ends */
    store_file *file;
    unpacker *unpack;
    uint8_t *in;
    uint64_t taken; /* compressed bytes that were read */
    unpack_step step;
    uint8_t *kept; /* byte n of the stream is at n % room; NULL: nothing was read yet */
    size_t room;
    uint64_t made; /* bytes so far */
    uint32_t crc;  /* of these, if the stream is summed */
    uint64_t from; /* what was made before is not kept */
    bool rested;   /* what was made from there on is in `tail` */
    uint8_t tail[TAIL_BYTES];
    uint64_t good;      /* so many are right; `damage` is behind them */
    pawl_error *damage; /* NULL: none was found yet */
};

typedef struct packed_file {
    store_file base;
    store in;
    decoder *shared;
} packed_file;

/* ---- what is wrong ---- */

/* Compressed bytes that were used. */
static uint64_t used(const decoder *d) {
    return d->taken - d->step.in_bytes - d->step.over;
}

/* Adds where it is: the range will be that of the stream (store_read). Kept, so that nobody looks
 * for it again. */
static pawl_status is_damaged(decoder *d, pawl_error *err) {
    archive_error_file(d->a, archive_file_of(d->a, d->of->packed.stream), err);
    error_wrap(err, "at byte %llu of the file",
               (unsigned long long)(d->of->packed.offset + used(d)));
    if (d->damage == NULL) {
        d->damage = mem_dup(err, sizeof(*err));
        d->good = d->made;
    }
    return PAWL_EDAMAGED;
}

static pawl_status wrong_size(decoder *d, const char *what, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "compressed bytes %s", what);
    error_expected(err, "%llu bytes, decompressed, of %llu",
                   (unsigned long long)d->of->packed.bytes,
                   (unsigned long long)d->of->packed.packed_bytes);
    error_found(err, "%llu of %llu", (unsigned long long)d->made, (unsigned long long)used(d));
    return is_damaged(d, err);
}

static pawl_status wrong_sum(decoder *d, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "the checksum (CRC32) of compressed bytes differs");
    error_expected(err, "%08x, decompressed", d->of->packed.crc32);
    error_found(err, "%08x", d->crc);
    return is_damaged(d, err);
}

/* ---- decompressing ---- */

static pawl_status fill(decoder *d, pawl_error *err) {
    const stream_packed *p = &d->of->packed;
    uint64_t left = p->packed_bytes - d->taken;
    size_t n = left < IN_BYTES ? (size_t)left : IN_BYTES;
    if (d->step.in_bytes > 0 || n == 0) {
        return PAWL_OK;
    }
    TRY(store_read(d->file, p->offset + d->taken, d->in, n, err));
    d->taken += n;
    d->step.in = d->in;
    d->step.in_bytes = n;
    return PAWL_OK;
}

/* At most n bytes to `to`; none only at the end. */
static pawl_status make_some(decoder *d, uint8_t *to, size_t n, size_t *got, pawl_error *err) {
    *got = 0;
    while (*got == 0) {
        TRY(fill(d, err));
        size_t before = d->step.in_bytes;
        d->step.out = to;
        d->step.room = n;
        pawl_status status = unpacker_step(d->unpack, &d->step, err);
        if (status != PAWL_OK) {
            return status == PAWL_EDAMAGED ? is_damaged(d, err) : status;
        }
        *got = n - d->step.room;
        if (*got == 0 && d->step.in_bytes == before) {
            return d->step.ended ? PAWL_OK : wrong_size(d, "end too early", err);
        }
    }
    return PAWL_OK;
}

/* All bytes were made: that was to be all. */
static pawl_status check_end(decoder *d, pawl_error *err) {
    uint8_t more;
    size_t got;
    TRY(make_some(d, &more, 1, &got, err));
    if (got > 0) {
        return wrong_size(d, "become more than they should", err);
    }
    if (used(d) != d->of->packed.packed_bytes) {
        return wrong_size(d, "end before their end", err);
    }
    return !d->of->packed.summed || d->crc == d->of->packed.crc32 ? PAWL_OK : wrong_sum(d, err);
}

/* Nothing behind `end`: who opens the stream once more goes on there. */
static pawl_status make_more(decoder *d, uint64_t end, pawl_error *err) {
    size_t at = (size_t)(d->made % d->room);
    uint64_t left = end - d->made;
    size_t n = d->room - at < left ? d->room - at : (size_t)left;
    size_t got;
    n = n < STEP_BYTES ? n : STEP_BYTES;
    TRY(make_some(d, d->kept + at, n, &got, err));
    if (d->of->packed.summed) {
        d->crc = crc32_zip(d->crc, d->kept + at, got);
    }
    d->made += got;
    if (got == 0) {
        return wrong_size(d, "become fewer than they should", err);
    }
    if (d->made == d->of->packed.bytes) {
        pawl_status status = check_end(d, err);
        if (status != PAWL_OK) {
            d->good = d->good < d->made ? d->good : d->made - 1; /* so its last byte is not read */
            return status;
        }
    }
    return PAWL_OK;
}

static void start_over(decoder *d) {
    unpacker_begin(d->unpack);
    d->step = (unpack_step){.in = d->in};
    d->taken = 0;
    d->made = 0;
    d->crc = 0;
    d->from = 0;
}

/* ---- memory ---- */

/* Few at a time keep much; with too many, each keeps little. */
static size_t claim_room(decoder *d) {
    struct archive_packed *all = &d->a->packed;
    uint64_t bytes = d->of->packed.bytes;
    uint64_t most = STREAM_KEPT;
    monitor_enter(&all->lock);
    if (all->kept + (bytes < most ? bytes : most) > STREAM_KEPT_IN_ALL) {
        most = STREAM_KEPT_LEAST;
    }
    size_t room = (size_t)(bytes < most ? bytes : most);
    all->kept += room;
    monitor_leave(&all->lock);
    return room;
}

/* Bytes from `from` on that were made: from the ring to `tail`, or back. */
static void move_tail(decoder *d, bool back) {
    size_t n = (size_t)(d->made - d->from);
    for (size_t done = 0; done < n;) {
        size_t at = (size_t)((d->from + done) % d->room);
        size_t part = d->room - at < n - done ? d->room - at : n - done;
        memcpy(back ? d->kept + at : d->tail + done, back ? d->tail + done : d->kept + at, part);
        done += part;
    }
}

static pawl_status get_ready(decoder *d, pawl_error *err) {
    const stream_packed *p = &d->of->packed;
    if (d->kept != NULL) {
        return PAWL_OK;
    }
    if (d->file == NULL) {
        TRY(archive_open_stream(d->a, p->stream, STORE_READ, &d->file, err));
    }
    if (d->unpack == NULL) {
        TRY(unpacker_new(p->packing, &d->unpack, err));
    }
    if (d->in == NULL) {
        d->in = mem_alloc(IN_BYTES);
        d->step.in = d->in;
    }
    d->room = d->room > 0 ? d->room : claim_room(d);
    d->kept = d->in != NULL ? mem_alloc(d->room) : NULL;
    if (d->kept == NULL) {
        return error_nomem(err, IN_BYTES + d->room);
    }
    if (d->rested) {
        move_tail(d, true);
        d->rested = false;
    }
    return PAWL_OK;
}

/* Nobody uses it any more. */
static void free_decoder(decoder *d) {
    monitor_destroy(&d->lock);
    store_close(d->file);
    unpacker_free(d->unpack);
    mem_free(d->in);
    mem_free(d->kept);
    mem_free(d->damage);
    mem_free(d);
}

/* ---- reading ---- */

static bool is_kept(const decoder *d, uint64_t at) {
    return d->made <= at || (at >= d->from && d->made - at <= d->room);
}

/* Whose turn is it? Who wants what comes first of what need not be made again; else who wants what
 * comes first: in any order in which threads come, the stream is decompressed once, as long as none
 * comes later than those that are STREAM_KEPT ahead. */
static const reading *next_reading(const decoder *d) {
    const reading *best = d->readings;
    for (const reading *r = best->next; r != NULL; r = r->next) {
        bool kept = is_kept(d, r->at);
        bool best_kept = is_kept(d, best->at);
        if (kept == best_kept ? r->at < best->at : kept) {
            best = r;
        }
    }
    return best;
}

/* One turn of a reading: some of its bytes, or some of those before. */
static pawl_status take_turn(decoder *d, reading *r, pawl_error *err) {
    if (d->damage != NULL && r->at + r->left > d->good) {
        *err = *d->damage;
        return PAWL_EDAMAGED;
    }
    TRY(get_ready(d, err));
    if (!is_kept(d, r->at)) {
        start_over(d);
    }
    if (d->made <= r->at) {
        pawl_status status = make_more(d, r->at + r->left, err);
        if (status != PAWL_OK) {
            start_over(d);
            return status;
        }
    }
    while (r->left > 0 && r->at < d->made) {
        size_t from = (size_t)(r->at % d->room);
        size_t n = d->made - r->at < d->room - from ? (size_t)(d->made - r->at) : d->room - from;
        n = n < r->left ? n : r->left;
        memcpy(r->to, d->kept + from, n);
        r->to += n;
        r->at += n;
        r->left -= n;
    }
    return PAWL_OK;
}

static pawl_status read_all(decoder *d, reading *r, pawl_error *err) {
    pawl_status status = PAWL_OK;
    while (status == PAWL_OK && r->left > 0) {
        while (d->busy || next_reading(d) != r) {
            monitor_wait_until(&d->lock, UINT64_MAX);
        }
        d->busy = true;
        monitor_leave(&d->lock);
        status = take_turn(d, r, err);
        monitor_enter(&d->lock);
        d->busy = false;
        monitor_announce(&d->lock);
    }
    return status;
}

static pawl_status read_packed(store_file *f, uint64_t at, void *to, size_t n, size_t *got,
                               pawl_error *err) {
    decoder *d = ((packed_file *)f)->shared;
    uint64_t bytes = d->of->packed.bytes;
    uint64_t left = at < bytes ? bytes - at : 0;
    n = n < left ? n : (size_t)left;
    reading r = {.at = at, .to = to, .left = n};
    monitor_enter(&d->lock);
    r.next = d->readings;
    d->readings = &r;
    pawl_status status = read_all(d, &r, err);
    reading **link = &d->readings;
    while (*link != &r) {
        link = &(*link)->next;
    }
    *link = r.next;
    monitor_announce(&d->lock); /* the next one may have waited for this one to be gone */
    monitor_leave(&d->lock);
    *got = n - r.left;
    return status;
}

static pawl_status size_of_packed(store_file *f, uint64_t *out, pawl_error *err) {
    (void)err;
    *out = ((packed_file *)f)->shared->of->packed.bytes;
    return PAWL_OK;
}

/* ---- opening and closing ---- */

/* Nobody uses it, but somebody may go on. */
static void rest(decoder *d) {
    uint64_t n = d->made - d->from;
    store_close(d->file);
    d->file = NULL;
    if (d->kept != NULL) {
        n = n < d->room ? n : d->room;
        d->from = d->made - (n < TAIL_BYTES ? n : TAIL_BYTES);
        move_tail(d, false);
        d->rested = true;
        mem_free(d->kept);
        d->kept = NULL;
    }
    d->room = 0;
}

static void leave_decoder(decoder *d) {
    struct archive_packed *all = &d->a->packed;
    decoder *gone = NULL;
    monitor_enter(&all->lock);
    if (--d->users == 0) {
        all->kept -= d->room;
        rest(d);
        gone = all->resting;
        all->resting = d;
        if (gone != NULL) {
            *gone->of->shared = NULL;
        }
    }
    monitor_leave(&all->lock);
    if (gone != NULL) {
        free_decoder(gone);
    }
}

void stream_packed_end(archive *a) {
    if (a->packed.resting != NULL) {
        free_decoder(a->packed.resting);
    }
}

static pawl_status new_decoder(const packed_recipe *r, archive *a, pawl_error *err) {
    decoder *d = mem_calloc(1, sizeof(*d));
    if (d == NULL) {
        return error_nomem(err, sizeof(*d));
    }
    pawl_status status = monitor_init(&d->lock, err);
    if (status != PAWL_OK) {
        mem_free(d);
        return status;
    }
    d->of = r;
    d->a = a;
    *r->shared = d;
    return PAWL_OK;
}

static pawl_status join_decoder(const packed_recipe *r, archive *a, decoder **out,
                                pawl_error *err) {
    pawl_status status = PAWL_OK;
    monitor_enter(&a->packed.lock);
    if (*r->shared == NULL) {
        status = new_decoder(r, a, err);
    }
    decoder *d = *r->shared;
    if (status == PAWL_OK && d != NULL) {
        d->users++;
        a->packed.resting = a->packed.resting != d ? a->packed.resting : NULL;
    }
    *out = d;
    monitor_leave(&a->packed.lock);
    return status;
}

static void close_packed(store_file *f) {
    packed_file *file = (packed_file *)f;
    leave_decoder(file->shared);
    mem_free(file);
}

static const store_ops packed_ops = {
    .read = read_packed, .size = size_of_packed, .close = close_packed};

static pawl_status open_packed(const stream_recipe *recipe, archive *a, store_mode mode,
                               store_file **out, pawl_error *err) {
    const packed_recipe *r = (const packed_recipe *)recipe;
    AUTOFREE packed_file *file = mem_calloc(1, sizeof(*file));
    (void)mode;
    if (file == NULL) {
        return error_nomem(err, sizeof(*file));
    }
    TRY(join_decoder(r, a, &file->shared, err));
    file->in =
        (store){.ops = &packed_ops, .traits = a->base.store->traits, .root = a->base.store->root};
    file->base.in = &file->in;
    (void)snprintf(file->base.path, sizeof(file->base.path), "%s",
                   a->files[archive_file_of(a, r->packed.stream)].path);
    *out = &file->base;
    file = NULL;
    return PAWL_OK;
}

static pawl_status refuse_sizes(const archive *a, const stream_packed *p, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "compressed bytes cannot become as many as they should");
    archive_error_file(a, archive_file_of(a, p->stream), err);
    error_range(err, p->offset, p->packed_bytes);
    error_expected(err, "%llu bytes, decompressed", (unsigned long long)p->bytes);
    error_found(err, "%llu compressed ones", (unsigned long long)p->packed_bytes);
    return PAWL_EDAMAGED;
}

pawl_status stream_add_packed(archive *a, const stream_packed *packed, uint32_t *out,
                              pawl_error *err) {
    uint64_t end;
    bool fits;
    TRY(unpack_fits(packed->packing, packed->packed_bytes, packed->bytes, &fits, err));
    if (!fits || add_overflows(packed->offset, packed->packed_bytes, &end)) {
        return refuse_sizes(a, packed, err);
    }
    packed_recipe *r = arena_take(&a->base.memory, sizeof(*r), err);
    decoder **shared = arena_take(&a->base.memory, sizeof(decoder *), err);
    if (r == NULL || shared == NULL) {
        return PAWL_ENOMEM;
    }
    *shared = NULL;
    *r = (packed_recipe){.recipe = {open_packed}, .packed = *packed, .shared = shared};
    return archive_add_stream(a, archive_file_of(a, packed->stream), packed->bytes, &r->recipe, out,
                              err);
}
