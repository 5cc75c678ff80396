/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the events of a run while its owner may be writing them: events.old.jsonl first, then
 * events.jsonl, and on through rotations. Memory and work are bounded whatever the files hold: a
 * line that is too long is skipped, like any other that is no event, and of a file larger than
 * PAWL_EVENTS_MAX_BYTES only its last so many bytes are read.
 *
 * On an object store the file is put anew with each event, and again as the old one when it has
 * grown: so it is opened anew for each look, and recognised by how it begins.
 */
#include "run/run.h"

#include <string.h>

#define FOLLOW_TRIES 8
#define HEAD_BYTES   96u /* holds the time of the first line, so no two files begin alike */

struct pawl_events {
    process_id process; /* that opened it */
    store *store;
    bool own_store;
    store_file *file; /* NULL: there was none yet */
    store_file *next; /* to be read after `file`; or NULL */
    bool passed;      /* `file` is no longer events.jsonl: when it ends, another one follows */
    uint64_t at;      /* of the next byte to read */
    uint8_t head[HEAD_BYTES]; /* on an object store: how `file` begins, */
    size_t head_bytes;        /* as far as it was that long */
    size_t begin, end;        /* of what is in the window */
    bool skipping;            /* until the end of a line that is too long */
    event_decoded now;
    uint8_t window[FORMAT_MAX_EVENT_READ];
};

process_id events_process(const pawl_events *r) {
    return r->process;
}

void pawl_events_close(pawl_events *r) {
    if (r == NULL || !process_is_self(r->process)) {
        return;
    }
    event_decoded_free(&r->now);
    store_close(r->file);
    store_close(r->next);
    if (r->own_store) {
        store_destroy(r->store);
    }
    mem_free(r);
}

/* ---- which file ----------------------------------------------------------------------------- */

/* *out stays NULL where there is none. */
static pawl_status open_if_there(store *s, const char *name, store_file **out, pawl_error *err) {
    *out = NULL;
    pawl_status status = store_open(s, name, STORE_READ, out, err);
    return status == PAWL_ENOTFOUND ? PAWL_OK : status;
}

static pawl_status read_head(store_file *file, uint8_t head[HEAD_BYTES], pawl_error *err) {
    uint64_t size;
    memset(head, 0, HEAD_BYTES);
    TRY(store_size(file, &size, err));
    return store_read(file, 0, head, size < HEAD_BYTES ? (size_t)size : HEAD_BYTES, err);
}

static pawl_status same_file(store_file *a, store_file *b, bool *out, pawl_error *err) {
    uint8_t head_a[HEAD_BYTES];
    uint8_t head_b[HEAD_BYTES];
    TRY(read_head(a, head_a, err));
    TRY(read_head(b, head_b, err));
    *out = memcmp(head_a, head_b, HEAD_BYTES) == 0;
    return PAWL_OK;
}

/* events.jsonl is opened first: a rotation in between shows the same file twice, and hides none. */
static pawl_status open_files(pawl_events *r, pawl_error *err) {
    bool same = false;
    TRY(open_if_there(r->store, NAME_EVENTS, &r->next, err));
    TRY(open_if_there(r->store, NAME_EVENTS_OLD, &r->file, err));
    if (r->file != NULL && r->next != NULL) {
        TRY(same_file(r->file, r->next, &same, err));
    }
    if (r->file == NULL || same) {
        store_close(r->file);
        r->file = r->next;
        r->next = NULL;
    }
    r->passed = r->next != NULL || same;
    return PAWL_OK;
}

static pawl_status remember_head(pawl_events *r, pawl_error *err) {
    uint64_t size = 0;
    r->head_bytes = 0;
    if (r->file != NULL && r->store->traits.objects) {
        TRY(store_size(r->file, &size, err));
        TRY(read_head(r->file, r->head, err));
    }
    r->head_bytes = size < HEAD_BYTES ? (size_t)size : HEAD_BYTES;
    return PAWL_OK;
}

static pawl_status follow_as(pawl_events *r, const char *name, bool *found, pawl_error *err) {
    CLEANUP(store_close_pointer) store_file *file = NULL;
    uint8_t head[HEAD_BYTES];
    *found = false;
    TRY(open_if_there(r->store, name, &file, err));
    if (file != NULL) {
        TRY(read_head(file, head, err));
        *found = memcmp(head, r->head, r->head_bytes) == 0;
    }
    if (*found) {
        store_file *before = r->file;
        r->file = file;
        file = before;
    }
    return PAWL_OK;
}

/* What `file` is by now. Where it is neither of the two any more, what was seen of it is read
 * on. */
static pawl_status follow_object(pawl_events *r, pawl_error *err) {
    bool found = false;
    if (!r->passed) {
        TRY(follow_as(r, NAME_EVENTS, &found, err));
    }
    if (!found) {
        TRY(follow_as(r, NAME_EVENTS_OLD, &found, err));
        r->passed = true;
    }
    return remember_head(r, err);
}

/* `file` was read to its end: has it grown, or was it replaced? A new file that happens to have the
 * same size is noticed when it grows. */
static pawl_status look_for_rotation(pawl_events *r, bool *more, pawl_error *err) {
    store_stat present;
    uint64_t size = 0;
    pawl_status status = store_stat_path(r->store, NAME_EVENTS, &present, err);
    *more = false;
    if (status != PAWL_OK) {
        return status == PAWL_ENOTFOUND ? PAWL_OK : status;
    }
    if (r->store->traits.objects) {
        return PAWL_OK; /* the next look tells (follow_object) */
    }
    if (present.size == r->at) {
        return PAWL_OK;
    }
    TRY(store_size(r->file, &size, err));
    r->passed = present.size < r->at || size <= r->at;
    *more = true;
    return PAWL_OK;
}

static pawl_status open_next(pawl_events *r, bool *more, pawl_error *err) {
    store_close(r->file);
    r->file = r->next;
    r->next = NULL;
    if (r->file == NULL) {
        TRY(open_if_there(r->store, NAME_EVENTS, &r->file, err));
    }
    r->passed = false;
    r->skipping = false;
    r->at = 0;
    r->begin = 0;
    r->end = 0;
    *more = r->file != NULL;
    return remember_head(r, err);
}

/* At the end of `file`: *more when there may be bytes to read now. */
static pawl_status continue_after_end(pawl_events *r, bool *more, pawl_error *err) {
    return r->file == NULL || r->passed ? open_next(r, more, err) : look_for_rotation(r, more, err);
}

/* ---- lines ---------------------------------------------------------------------------------- */

/* No writer makes a file larger than the maximum: of one that is, only the end is read. */
static void skip_to_last_bytes(pawl_events *r, uint64_t size) {
    if (size > r->at && size - r->at > PAWL_EVENTS_MAX_BYTES) {
        r->at = size - PAWL_EVENTS_MAX_BYTES;
        r->begin = r->end = 0;
        r->skipping = true; /* to the beginning of a line */
    }
}

static pawl_status fill_window(pawl_events *r, bool *more, pawl_error *err) {
    uint64_t size = 0;
    *more = false;
    if (r->file == NULL) {
        return PAWL_OK;
    }
    if (r->store->traits.objects) {
        TRY(follow_object(r, err));
    }
    TRY(store_size(r->file, &size, err));
    skip_to_last_bytes(r, size);
    memmove(r->window, r->window + r->begin, r->end - r->begin);
    r->end -= r->begin;
    r->begin = 0;
    uint64_t left = size > r->at ? size - r->at : 0;
    uint64_t room = sizeof(r->window) - r->end;
    size_t n = (size_t)(left < room ? left : room);
    TRY(store_read(r->file, r->at, r->window + r->end, n, err));
    r->at += n;
    r->end += n;
    *more = n > 0;
    return PAWL_OK;
}

/* The next whole line of the window; NULL when there is none. */
static const uint8_t *take_line(pawl_events *r, size_t *n) {
    for (;;) {
        const uint8_t *line = r->window + r->begin;
        const uint8_t *end = memchr(line, '\n', r->end - r->begin);
        if (end == NULL) {
            break;
        }
        bool whole = !r->skipping;
        *n = (size_t)(end - line);
        r->begin += *n + 1;
        r->skipping = false;
        if (whole) {
            return line;
        }
    }
    if (r->skipping || r->end - r->begin == sizeof(r->window)) {
        r->skipping = true;
        r->begin = r->end;
    }
    return NULL;
}

/* An object that is replaced while it is read is opened again. */
static pawl_status fill_window_in_time(pawl_events *r, bool *more, pawl_error *err) {
    pawl_status status = fill_window(r, more, err);
    for (int i = 0; i < FOLLOW_TRIES && status == PAWL_ENOTFOUND; i++) {
        status = fill_window(r, more, err);
    }
    return status;
}

static pawl_status find_event(pawl_events *r, int *more, pawl_error *err) {
    bool again = true;
    *more = 0;
    while (again) {
        size_t n;
        const uint8_t *line = take_line(r, &n);
        if (line != NULL) {
            if (event_decode(line, n, &r->now)) {
                *more = 1;
                return PAWL_OK;
            }
            continue;
        }
        TRY(fill_window_in_time(r, &again, err));
        if (!again) {
            TRY(continue_after_end(r, &again, err));
        }
    }
    return PAWL_OK;
}

pawl_status events_next(pawl_events *r, pawl_event *event, int *more, pawl_error *err) {
    event_decoded_free(&r->now);
    *event = (pawl_event){.step = -1};
    pawl_status status = find_event(r, more, err);
    if (status != PAWL_OK) {
        error_wrap(err, "reading the events of the run");
        return status;
    }
    if (*more != 0) {
        *event = r->now.event;
    }
    return PAWL_OK;
}

pawl_status events_open(store *s, bool own_store, pawl_events **out, pawl_error *err) {
    pawl_events *r = mem_calloc(1, sizeof(*r));
    if (r == NULL) {
        if (own_store) {
            store_destroy(s);
        }
        return error_nomem(err, sizeof(*r));
    }
    r->process = process_self();
    r->store = s;
    r->own_store = own_store;
    pawl_status status = open_files(r, err);
    if (status == PAWL_OK) {
        status = remember_head(r, err);
    }
    if (status != PAWL_OK) {
        error_wrap(err, "reading the events of the run");
        if (status == PAWL_EDAMAGED && err->next[0] == '\0') {
            error_next(err,
                       "move it away: nothing depends on it, and the next save begins a new one");
        }
        pawl_events_close(r);
        return status;
    }
    *out = r;
    return PAWL_OK;
}
