/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a save costs there (P09): files are written as a save writes, synced, and one is read back
 * and compared. First as pawl does by itself, past the page cache where the filesystem has direct
 * I/O; then through the page cache, to show what that is worth.
 *
 * Each file grows by rounds, each four times the one before, until the next would take too long. It
 * has no name once it is open, so that nothing stays whatever happens to this process.
 */
#include "doctor/examination.h"
#include "doctor/quota.h"
#include "format/format.h"
#include "path/path.h"
#include "store/queue.h"

#include <stdio.h>
#include <string.h>

#define PIECE_BYTES 262144u
#define PIECES      16u                  /* in memory, and in flight at most */
#define MOST_BYTES  (UINT64_C(22) << 20) /* of one file; both, and reading one, stay below 64 MiB */
#define WRITE_S     0.35
#define READ_S      0.2
#define FREE_SHARE  16u /* the probe takes at most this part of the room there is */

typedef struct probe {
    examination *x;
    store *s;
    uint8_t *pattern; /* PIECES * PIECE_BYTES: what is written */
    store_queue *queue;
    uint64_t most_bytes;
} probe;

/* What one file cost. */
typedef struct cost {
    uint64_t bytes, last_bytes; /* in all, and of the last round */
    double last_s;              /* written and synced */
} cost;

static double rate_of(const cost *c) {
    return c->last_s > 0 ? (double)c->last_bytes / c->last_s : 0;
}

/* ---- writing -------------------------------------------------------------------------------- */

static pawl_status take_back(store_queue *q, pawl_status so_far, pawl_error *err) {
    store_io *done = store_queue_wait(q, UINT64_MAX);
    if (done != NULL && done->status != PAWL_OK && so_far == PAWL_OK) {
        *err = done->story;
        return done->status;
    }
    return so_far;
}

/* `n` bytes from `at` on, several pieces at a time. */
static pawl_status write_pieces(probe *p, store_io *ios, store_file *file, uint64_t at, uint64_t n,
                                pawl_error *err) {
    pawl_status status = PAWL_OK;
    size_t under_way = 0;
    for (uint64_t done = 0; done < n && status == PAWL_OK; done += PIECE_BYTES) {
        size_t slot = (size_t)((at + done) / PIECE_BYTES % PIECES);
        if (under_way == PIECES) { /* all: a slot's piece must have come back */
            for (; under_way > 0; under_way--) {
                status = take_back(p->queue, status, err);
            }
        }
        if (status != PAWL_OK) {
            break;
        }
        ios[slot] = (store_io){.kind = STORE_IO_WRITE,
                               .file = file,
                               .at = at + done,
                               .memory = p->pattern + slot * PIECE_BYTES,
                               .n = PIECE_BYTES};
        store_queue_submit(p->queue, &ios[slot]);
        under_way++;
    }
    for (; under_way > 0; under_way--) {
        status = take_back(p->queue, status, err);
    }
    return status;
}

static pawl_status write_rounds(probe *p, store_io *ios, store_file *file, cost *out,
                                pawl_error *err) {
    const platform *os = p->x->os;
    uint64_t begun = platform_now_ns(os);
    for (uint64_t n = PIECE_BYTES; out->bytes + n <= p->most_bytes; n *= 4) {
        uint64_t round = platform_now_ns(os);
        TRY(write_pieces(p, ios, file, out->bytes, n, err));
        TRY(store_sync(file, err));
        out->last_s = platform_since_s(os, round);
        out->last_bytes = n;
        out->bytes += n;
        if (platform_since_s(os, begun) + 4 * out->last_s > WRITE_S) {
            break;
        }
    }
    return PAWL_OK;
}

/* ---- reading back --------------------------------------------------------------------------- */

static pawl_status is_not_what_was_written(const probe *p, uint64_t at, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "what was read back from a new file is not what was written");
    error_path(err, "%s", p->s->root);
    error_range(err, at, PIECE_BYTES);
    error_found(err, "other bytes in the %u from %llu on", PIECE_BYTES, (unsigned long long)at);
    error_next(err, "save elsewhere, and have the storage checked");
    return PAWL_EDAMAGED;
}

static pawl_status read_rounds(probe *p, store_file *file, uint64_t written, cost *out,
                               pawl_error *err) {
    AUTOFREE uint8_t *room = mem_aligned(STORE_DIRECT_ALIGNMENT, PIECE_BYTES);
    uint64_t begun = platform_now_ns(p->x->os);
    if (room == NULL) {
        return error_nomem(err, PIECE_BYTES);
    }
    while (out->bytes < written && platform_since_s(p->x->os, begun) < READ_S) {
        TRY(store_read(file, out->bytes, room, PIECE_BYTES, err));
        size_t slot = (size_t)(out->bytes / PIECE_BYTES % PIECES);
        if (memcmp(room, p->pattern + slot * PIECE_BYTES, PIECE_BYTES) != 0) {
            return is_not_what_was_written(p, out->bytes, err);
        }
        out->bytes += PIECE_BYTES;
    }
    out->last_bytes = out->bytes;
    out->last_s = platform_since_s(p->x->os, begun);
    return PAWL_OK;
}

/* ---- one file ------------------------------------------------------------------------------- */

/* The file has a name for as long as it takes to open it twice. */
static pawl_status open_twice(probe *p, store_mode mode, store_file **to, store_file **from,
                              pawl_error *err) {
    struct pawl_error ignored = ERROR_INIT;
    char digits[17];
    char name[80];
    TRY(platform_random_hex(p->x->os, digits, 8, err));
    name_doctor(name, digits, -1);
    TRY(store_open(p->s, name, mode, to, err));
    bool readable = store_open(p->s, name, STORE_READ_BULK, from, &ignored) == PAWL_OK;
    pawl_status status = store_unlink(p->s, name, err);
    if (!readable) {
        *from = NULL;
    }
    return status == PAWL_ENOTFOUND ? PAWL_OK : status;
}

/* `read` NULL: nothing is read back. */
static pawl_status try_file(probe *p, store_mode mode, cost *written, cost *read, pawl_error *err) {
    store_file *to = NULL;
    store_file *from = NULL;
    AUTOFREE store_io *ios = mem_calloc(PIECES, sizeof(*ios));
    if (ios == NULL) {
        return error_nomem(err, PIECES * sizeof(*ios));
    }
    pawl_status status = open_twice(p, mode, &to, &from, err);
    if (status == PAWL_OK) {
        status = write_rounds(p, ios, to, written, err);
    }
    if (status == PAWL_OK && read != NULL && from != NULL) {
        status = read_rounds(p, from, written->bytes, read, err);
    }
    if (to != NULL) {
        store_queue_forget(p->queue, to);
    }
    store_close(to);
    store_close(from);
    return status;
}

/* ---- telling -------------------------------------------------------------------------------- */

static const char *rate_text(char out[40], double bytes_per_s) {
    char bytes[32];
    (void)snprintf(out, 40, "%s/s", text_bytes(bytes, (uint64_t)bytes_per_s));
    return out;
}

static void tell_costs(examination *x, const char *how, const cost *own, const cost *cached,
                       const cost *read, bool direct) {
    char bytes[32];
    char rates[3][40];
    char more[96] = "";
    if (read->bytes > 0) {
        (void)snprintf(more, sizeof more, ", and read back unchanged with %s",
                       rate_text(rates[2], rate_of(read)));
    }
    doctor_evidence(x,
                    "a file of %s with %s; the last %llu bytes of it took %.6f s with their sync, "
                    "through the page cache %llu bytes took %.6f s",
                    text_bytes(bytes, own->bytes), direct ? "direct I/O" : "no direct I/O",
                    (unsigned long long)own->last_bytes, own->last_s,
                    (unsigned long long)cached->last_bytes, cached->last_s);
    doctor_tell(x, "ok", PAWL_SEVERITY_NOTE, NULL,
                "a probe was written and synced %s %s with %s%s; through the page cache with %s",
                direct ? "past the page cache" : "without direct I/O", how,
                rate_text(rates[0], rate_of(own)), more, rate_text(rates[1], rate_of(cached)));
}

/* Is it what keeps io_uring from being used here? Threads do the same work. */
static void tell_no_ring(examination *x, const pawl_error *why) {
    doctor_evidence(x, "%s%s%s", why->system, why->found[0] != '\0' ? "; " : "", why->found);
    doctor_tell(x, "P09", PAWL_SEVERITY_NOTE, why->next[0] != '\0' ? why->next : NULL,
                "io_uring does not work here%s%s: threads write instead, which costs them some "
                "processor time",
                why->found[0] != '\0' ? ": " : "", why->found);
}

/* ---- all of it ------------------------------------------------------------------------------ */

static void fill_pattern(uint8_t *to, size_t n) {
    uint64_t state = UINT64_C(0x9e3779b97f4a7c15); /* xorshift64: nothing that compresses */
    for (size_t i = 0; i + sizeof state <= n; i += sizeof state) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        memcpy(to + i, &state, sizeof state);
    }
}

static pawl_status open_queue(probe *p, pawl_io io, pawl_error *err) {
    const store_queue_options options = {
        .platform = p->x->os, .io = io, .depth = PIECES, .memory = NULL};
    return store_queue_new(&options, &p->queue, err);
}

static pawl_status try_both(probe *p, pawl_error *err) {
    struct pawl_error why = ERROR_INIT;
    cost own = {0};
    cost cached = {0};
    cost read = {0};
    bool direct = path_has_direct_io(p->s->root, p->x->os);
    bool ring = open_queue(p, PAWL_IO_URING, &why) == PAWL_OK;
    if (!ring) {
        TRY(open_queue(p, PAWL_IO_THREADS, err));
    }
    TRY(try_file(p, STORE_CREATE_BULK, &own, &read, err));
    TRY(try_file(p, STORE_CREATE_STREAM, &cached, NULL, err));
    p->x->probe_bytes_per_s = rate_of(&own);
    tell_costs(p->x, ring ? "by io_uring" : "by threads", &own, &cached, &read, direct);
    if (!ring && why.status == PAWL_EUNSUPPORTED) {
        tell_no_ring(p->x, &why);
    }
    return PAWL_OK;
}

void doctor_examine_speed(examination *x, store *s) {
    struct pawl_error story = ERROR_INIT;
    store_space space = {.free_bytes = 0};
    probe p = {.x = x, .s = s, .most_bytes = MOST_BYTES};
    if (store_space_of(s, &space, &story) != PAWL_OK) {
        return; /* told already */
    }
    doctor_quota quota;
    quota_of(s->root, &quota);
    uint64_t room = quota.free_bytes < space.free_bytes ? quota.free_bytes : space.free_bytes;
    room = space.max_file_bytes < room ? space.max_file_bytes : room;
    p.most_bytes = room / FREE_SHARE < MOST_BYTES ? room / FREE_SHARE : MOST_BYTES;
    if (p.most_bytes < PIECE_BYTES) {
        return;
    }
    p.pattern = mem_aligned(STORE_DIRECT_ALIGNMENT, (size_t)PIECES * PIECE_BYTES);
    if (p.pattern == NULL) {
        return;
    }
    fill_pattern(p.pattern, (size_t)PIECES * PIECE_BYTES);
    if (try_both(&p, &story) != PAWL_OK) {
        doctor_tell_error(
            x, story.status == PAWL_EDAMAGED ? "P09" : doctor_id_of_path_error(&story), &story);
    }
    store_queue_free(p.queue);
    mem_free(p.pattern);
}
