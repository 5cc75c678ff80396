/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports what happens to a run: to the callback of its options, and in events.jsonl.
 *
 * The file decides nothing, so a failure to write it is a warning and no more, and it is never
 * synced. A line cut by a crash stays; what follows it begins on a line of its own. On an object
 * store nothing is appended to: the file is put anew, smaller ones than elsewhere.
 *
 * That a save has begun is written together with its next event, within a second, by the engine's
 * thread: the trainer does not wait for the file, and a short save costs one write. Lines come from
 * the trainer's thread before a save begins and after it has ended, and from the engine's in
 * between, so never two at a time. A save that hangs is reported to the callback alone, because the
 * file lies on the storage that hangs.
 */
#include "run/private.h"

#include <errno.h>
#include <string.h>

struct events {
    store *store;
    const platform *platform;
    const pawl_log *log;
    owner *owner;
    bool to_file;
    void (*call)(void *context, const pawl_event *event); /* NULL: nobody asked */
    void *context;
    monitor turn;
    buffer later;     /* lines that wait for the next one */
    bool calling;     /* under `turn`, which is not held during a call */
    thread_id caller; /* while `calling` */
    bool whole_lines; /* the file's last byte ends a line */
    /* On an object store. */
    bool known; /* what is in the file, and which version it is: */
    buffer text;
    store_tag version;
    bool failing; /* and the log has said so */
};

pawl_status events_new(pawl_run *run, const pawl_run_options *o, pawl_error *err) {
    bool to_file = o->no_event_file == 0 && run->owner != NULL; /* the file is the owner's */
    if (o->event == NULL && !to_file) {
        return PAWL_OK;
    }
    events *e = mem_calloc(1, sizeof *e);
    if (e == NULL) {
        return error_nomem(err, sizeof *e);
    }
    *e = (events){.store = run->store,
                  .platform = run->platform,
                  .log = &run->log,
                  .owner = run->owner,
                  .to_file = to_file,
                  .call = o->event,
                  .context = o->event_context};
    pawl_status status = monitor_init(&e->turn, err);
    if (status != PAWL_OK) {
        mem_free(e);
        return status;
    }
    run->events = e;
    return PAWL_OK;
}

void events_free(events *e) {
    if (e != NULL) {
        monitor_destroy(&e->turn);
        buffer_free(&e->later);
        buffer_free(&e->text);
        mem_free(e);
    }
}

/* ---- the file ------------------------------------------------------------------------------- */

static pawl_status rename_to_old(const events *e, pawl_error *err) {
    return store_rename(e->store, NAME_EVENTS, NAME_EVENTS_OLD, err);
}

/* A copy of the run by hard links shares this file: the copy keeps it, and a new one is begun. */
static pawl_status leave_linked(events *e, pawl_error *err) {
    char why[512];
    error_line(why, sizeof why, err);
    TRY(rename_to_old(e, err));
    e->whole_lines = true;
    log_write(e->log, PAWL_LOG_WARN, "events go on in a new %s, the last ones are in %s: %s",
              NAME_EVENTS, NAME_EVENTS_OLD, why);
    return PAWL_OK;
}

static pawl_status open_events_file(events *e, store_file **file, uint64_t *size, pawl_error *err) {
    pawl_status status = store_open(e->store, NAME_EVENTS, STORE_UPDATE, file, err);
    if (status == PAWL_OK) {
        return store_size(*file, size, err);
    }
    if (err->system_errno == EMLINK) {
        TRY(leave_linked(e, err));
        status = PAWL_ENOTFOUND;
    }
    *size = 0;
    return status == PAWL_ENOTFOUND ? store_open(e->store, NAME_EVENTS, STORE_CREATE, file, err)
                                    : status;
}

/* Opens the file, with room in it for `bytes` more. */
static pawl_status open_for(events *e, size_t bytes, store_file **file, uint64_t *size,
                            pawl_error *err) {
    TRY(open_events_file(e, file, size, err));
    if (*size + bytes <= PAWL_EVENTS_MAX_BYTES) {
        return PAWL_OK;
    }
    store_close(*file);
    *file = NULL;
    TRY(rename_to_old(e, err));
    return open_events_file(e, file, size, err);
}

static pawl_status ends_a_line(store_file *file, uint64_t size, bool *out, pawl_error *err) {
    char last = '\n';
    if (size > 0) {
        TRY(store_read(file, size - 1, &last, 1, err));
    }
    *out = last == '\n';
    return PAWL_OK;
}

#define OBJECT_EVENTS_BYTES ((size_t)256 << 10) /* it is put with each event */
#define OBJECT_TRIES        3

static pawl_status learn_object(events *e, pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    e->text.size = 0;
    pawl_status status = store_read_version(e->store, NAME_EVENTS, PAWL_EVENTS_MAX_BYTES, &e->text,
                                            &e->version, &story);
    if (status != PAWL_OK && status != PAWL_ENOTFOUND) {
        *err = story;
        return status;
    }
    e->known = true;
    return PAWL_OK;
}

static pawl_status version_of(store *s, const char *path, store_tag *out, pawl_error *err) {
    CLEANUP(store_close_pointer) store_file *file = NULL;
    struct pawl_error story = ERROR_INIT;
    *out = (store_tag){{0}};
    pawl_status status = store_open(s, path, STORE_READ, &file, &story);
    if (status == PAWL_OK) {
        *out = file->tag;
    } else if (status != PAWL_ENOTFOUND) {
        *err = story;
        return status;
    }
    return PAWL_OK;
}

/* Whoever put another old one has put, or is to put, another NAME_EVENTS: one that was put before
 * we looked is seen there, one that was put later refuses ours. */
static pawl_status put_old_object(events *e, pawl_error *err) {
    store_tag old, now;
    TRY(version_of(e->store, NAME_EVENTS_OLD, &old, err));
    store_catch_up(e->store);
    TRY(version_of(e->store, NAME_EVENTS, &now, err));
    if (!store_tag_same(&now, &e->version)) {
        e->known = false;
        return error_sys(err, EEXIST, "another process has put " NAME_EVENTS);
    }
    return store_put(e->store, NAME_EVENTS_OLD, e->text.data, e->text.size, &old, NULL, err);
}

static bool text_ends_with(const buffer *text, const void *bytes, size_t n) {
    return text->size >= n && memcmp(text->data + text->size - n, bytes, n) == 0;
}

static pawl_status put_object(events *e, const buffer *lines, pawl_error *err) {
    if (!e->known) {
        TRY(learn_object(e, err));
    }
    if (text_ends_with(&e->text, lines->data + 1, lines->size - 1)) {
        return PAWL_OK; /* by a put whose answer was lost */
    }
    if (e->text.size + lines->size > OBJECT_EVENTS_BYTES && e->text.size > 0) {
        TRY(put_old_object(e, err));
        e->text.size = 0;
    }
    size_t from = e->text.size == 0 || e->text.data[e->text.size - 1] == '\n' ? 1 : 0;
    e->known = false;
    TRY(buffer_append(&e->text, lines->data + from, lines->size - from, err));
    TRY(store_put(e->store, NAME_EVENTS, e->text.data, e->text.size, &e->version, &e->version,
                  err));
    e->known = true;
    return PAWL_OK;
}

/* Another process may have put it meanwhile, which is no longer the owner or does not know it
 * yet. */
static pawl_status put_lines(events *e, const buffer *lines, pawl_error *err) {
    pawl_status status = PAWL_OK;
    for (int i = 0; i < OBJECT_TRIES; i++) {
        struct pawl_error story = ERROR_INIT;
        status = put_object(e, lines, &story);
        if (status == PAWL_OK) {
            return PAWL_OK;
        }
        *err = story;
        if (!store_is_refused(&story) && status != PAWL_ETIMEOUT && status != PAWL_EIO) {
            return status;
        }
        store_catch_up(e->store);
    }
    return status;
}

/* `lines` begin with "\n", which is left out where it is not needed. */
static pawl_status append_lines(events *e, const buffer *lines, pawl_error *err) {
    if (e->store->traits.objects) {
        return put_lines(e, lines, err);
    }
    CLEANUP(store_close_pointer) store_file *file = NULL;
    uint64_t size;
    TRY(open_for(e, lines->size, &file, &size, err));
    if (!e->whole_lines) {
        TRY(ends_a_line(file, size, &e->whole_lines, err));
    }
    size_t from = e->whole_lines ? 1 : 0;
    e->whole_lines = false;
    TRY(store_write(file, size, lines->data + from, lines->size - from, err));
    e->whole_lines = true;
    return PAWL_OK;
}

static void report_failing(events *e, pawl_status status, pawl_error *story) {
    if (status != PAWL_OK && !e->failing) {
        log_write(e->log, PAWL_LOG_WARN,
                  "events of the run are lost until they can be written again: %s",
                  error_text(story));
    } else if (status == PAWL_OK && e->failing) {
        log_write(e->log, PAWL_LOG_INFO, "events of the run are written again");
    }
    e->failing = status != PAWL_OK;
}

static pawl_status keep_for_later(events *e, const buffer *line, pawl_error *err) {
    if (e->later.size == 0) {
        TRY(buffer_append(&e->later, "\n", 1, err));
    }
    TRY(buffer_append(&e->later, line->data, line->size, err));
    return buffer_append(&e->later, "\n", 1, err);
}

/* A process that may no longer own the run leaves the file to the new owner. */
static void write_file(events *e, const buffer *line, bool later) {
    struct pawl_error story = ERROR_INIT;
    pawl_status status = keep_for_later(e, line, &story);
    if (status == PAWL_OK && later) {
        return;
    }
    if (owner_fresh(e->owner)) {
        report_failing(e, status == PAWL_OK ? append_lines(e, &e->later, &story) : status, &story);
    }
    e->later.size = 0;
}

/* ---- the callback --------------------------------------------------------------------------- */

static void call_back(events *e, const pawl_event *event) {
    monitor_enter(&e->turn);
    while (e->calling) {
        monitor_wait_until(&e->turn, UINT64_MAX);
    }
    e->calling = true;
    e->caller = thread_self();
    monitor_leave(&e->turn);
    e->call(e->context, event);
    monitor_enter(&e->turn);
    e->calling = false;
    monitor_announce(&e->turn);
    monitor_leave(&e->turn);
}

bool events_calls_us(events *e) {
    if (e == NULL || e->call == NULL) {
        return false;
    }
    monitor_enter(&e->turn);
    bool us = e->calling && thread_is_self(e->caller);
    monitor_leave(&e->turn);
    return us;
}

/* ---- reporting ------------------------------------------------------------------------------ */

void events_report(events *e, const pawl_event *what, const event_restore *restore, unsigned whom) {
    CLEANUP(buffer_free) buffer line = {0};
    struct pawl_error story = ERROR_INIT;
    if (e == NULL) {
        return;
    }
    pawl_event event = *what;
    event.struct_size = sizeof event;
    event.unix_time_ns = e->platform->unix_time_ns(e->platform->context);
    pawl_status status = event_encode(&event, restore, &line, &story);
    if (status != PAWL_OK) {
        report_failing(e, status, &story);
        return;
    }
    if (e->to_file && (whom & EVENTS_FILE) != 0) {
        write_file(e, &line, event.kind == PAWL_EVENT_SAVE_BEGUN);
    }
    if (e->call != NULL && (whom & EVENTS_CALL) != 0) {
        event.json = (const char *)line.data;
        call_back(e, &event);
    }
}
