/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Marks of readers: the file reader-<id> in a step's directory keeps the step from being removed
 * while somebody reads it (S14).
 *
 * A mark says which process made it, for writers that can judge that by pid, and has a counter of
 * fixed width that is advanced, in place or by a put, for writers that cannot. No clocks are
 * compared.
 *
 * A handle may be idle for days, so each has a thread that advances its mark (reader_mark_keep).
 * One thread for all handles would need global state, which the library does not keep. Even where
 * the present writer can judge by pid the next may run on another host, or in another container. On
 * platforms without threads, calls on the handle advance the mark. It is never synced: after a
 * power loss the process that made it is gone, too.
 *
 * A reader that was stopped for longer than writers wait finds its mark gone. It makes the mark
 * again and then looks for the manifest, as when the step was opened (checkpoint_held): either the
 * step is still there, and is kept from now on, or the reader is told that it is gone.
 */
#include "format/format.h"
#include "presence/heartbeat.h"
#include "presence/presence.h"

#include <stdio.h>
#include <string.h>

#define READER_PREFIX   "reader-"
#define READER_ID_BYTES 6
#define READER_TOUCH_NS UINT64_C(1000000000)

struct reader_mark {
    store *store;
    const platform *platform;
    pawl_log log;
    char directory[32];
    _Atomic unsigned losses;
    monitor guard;
    heartbeat beat; /* without a thread what follows is the caller's; else the thread's */
    char path[STORE_MAX_PATH];
    reader_record record;
    store_tag version; /* on an object store */
    uint64_t touched_ns;
    bool failing; /* and the log has said so */
};

/* ---- making it ------------------------------------------------------------------------------ */

static pawl_status draw_path(reader_mark *mark, pawl_error *err) {
    char id[2 * READER_ID_BYTES + 1];
    TRY(platform_random_hex(mark->platform, id, READER_ID_BYTES, err));
    snprintf(mark->path, sizeof(mark->path), "%s/" READER_PREFIX "%s", mark->directory, id);
    return PAWL_OK;
}

/* Writers take a mark that could not be removed for one that is not advanced any more. */
static void remove_mark(const reader_mark *mark) {
    struct pawl_error story = ERROR_INIT;
    if (mark->path[0] != '\0' && store_unlink(mark->store, mark->path, &story) != PAWL_OK &&
        story.status != PAWL_ENOTFOUND && !atomic_load(&mark->beat.abandoned)) {
        log_write(&mark->log, PAWL_LOG_DEBUG, "%s", error_text(&story));
    }
}

static pawl_status create_mark(reader_mark *mark, pawl_error *err) {
    CLEANUP(buffer_free) buffer text = {0};
    TRY(reader_record_encode(&mark->record, &text, err));
    pawl_status status =
        store_create_small(mark->store, mark->path, text.data, text.size, &mark->version, err);
    store_catch_up(mark->store); /* the manifest is looked for as it was after that, or later */
    /* A mark without a record protects nothing; the next beat makes one. */
    if (status != PAWL_OK && status != PAWL_EBUSY && status != PAWL_ENOTFOUND) {
        remove_mark(mark);
    }
    return status;
}

static pawl_status make_mark(reader_mark *mark, pawl_error *err) {
    const platform *os = mark->platform;
    TRY(os->identity(os->context, &mark->record.who, err));
    if (mark->store->traits.objects) { /* where a mark would make the directory */
        store_stat found;
        TRY(store_stat_path(mark->store, mark->directory, &found, err));
    }
    mark->record.counter = 1;
    TRY(draw_path(mark, err));
    mark->touched_ns = platform_now_ns(os);
    return create_mark(mark, err);
}

pawl_status reader_mark_new(store *s, const char *directory, const platform *os,
                            const pawl_log *log, reader_mark **out, pawl_error *err) {
    *out = NULL;
    reader_mark *mark = mem_calloc(1, sizeof(*mark));
    if (mark == NULL) {
        return error_nomem(err, sizeof(*mark));
    }
    mark->store = s;
    mark->platform = os;
    mark->log = log != NULL ? *log : (pawl_log){0};
    mark->beat.platform = os;
    mark->beat.guard = &mark->guard;
    snprintf(mark->directory, sizeof(mark->directory), "%s", directory);
    pawl_status status = monitor_init(&mark->guard, err);
    if (status != PAWL_OK) {
        mem_free(mark);
        return status;
    }
    struct pawl_error story = ERROR_INIT;
    status = make_mark(mark, &story);
    if (status == PAWL_OK) {
        *out = mark;
        return PAWL_OK;
    }
    (void)reader_mark_free(mark);
    if (status == PAWL_ENOTFOUND) { /* should it appear a moment later, it would have no mark */
        *err = story;
        return status;
    }
    log_write(log, PAWL_LOG_INFO,
              "%s/%s is read without a mark, so a writer of the run may remove it: %s", s->root,
              directory, error_text(&story));
    return PAWL_OK;
}

/* ---- advancing it --------------------------------------------------------------------------- */

/* Somebody removed the mark as stale, or put something else in its place: a link, or what is not a
 * file. That is removed; where it cannot be, a new name is drawn. */
static pawl_status make_again(reader_mark *mark, pawl_status why, pawl_error *err) {
    struct pawl_error ignored = ERROR_INIT;
    pawl_status status = PAWL_OK;
    if (why != PAWL_ENOTFOUND && store_unlink(mark->store, mark->path, &ignored) != PAWL_OK) {
        status = draw_path(mark, err);
    }
    if (status == PAWL_OK) {
        status = create_mark(mark, err);
    }
    atomic_fetch_add(&mark->losses, 1); /* only now: this has the handle look for the manifest */
    return status;
}

/* On the condition that it is still there. */
static pawl_status put_mark(reader_mark *mark, pawl_error *err) {
    CLEANUP(buffer_free) buffer text = {0};
    TRY(reader_record_encode(&mark->record, &text, err));
    return store_put(mark->store, mark->path, text.data, text.size, &mark->version, &mark->version,
                     err);
}

/* On an object store it is also taken for gone where an answer was lost before: it is made
 * again. */
static pawl_status advance_mark(reader_mark *mark, pawl_error *err) {
    uint64_t counter = ++mark->record.counter;
    pawl_status status = mark->store->traits.objects
                             ? put_mark(mark, err)
                             : presence_write_counter(mark->store, mark->path, counter, err);
    bool gone = status == PAWL_ENOTFOUND || status == PAWL_EDAMAGED || store_is_refused(err);
    return gone ? make_again(mark, status, err) : status;
}

static void advance_and_say(reader_mark *mark) {
    struct pawl_error story = ERROR_INIT;
    mark->touched_ns = platform_now_ns(mark->platform);
    bool failed = advance_mark(mark, &story) != PAWL_OK;
    if (atomic_load(&mark->beat.abandoned)) {
        return; /* the handle was closed, and its log may be gone */
    }
    if (failed && !mark->failing) {
        log_write(&mark->log, PAWL_LOG_WARN,
                  "the mark of a reader cannot be advanced; if that lasts, writers on other hosts "
                  "take the reader for gone, and may remove what it reads: %s",
                  error_text(&story));
    } else if (!failed && mark->failing) {
        log_write(&mark->log, PAWL_LOG_INFO, "the mark of a reader is advanced again");
    }
    mark->failing = failed;
}

void reader_mark_touch(reader_mark *mark) {
    if (mark == NULL || mark->beat.thread != NULL) {
        return;
    }
    uint64_t now_ns = platform_now_ns(mark->platform);
    if (now_ns - mark->touched_ns >= READER_TOUCH_NS) {
        advance_and_say(mark);
    }
}

unsigned reader_mark_losses(reader_mark *mark) {
    return mark != NULL ? atomic_load(&mark->losses) : 0;
}

/* ---- the heartbeat -------------------------------------------------------------------------- */

static void keep_mark(void *argument) {
    const uint64_t advance_ns = (uint64_t)(READER_ADVANCE_S * NANOSECONDS);
    reader_mark *mark = argument;
    while (heartbeat_pause(&mark->beat, mark->touched_ns + advance_ns)) {
        advance_and_say(mark);
    }
    if (atomic_load(&mark->beat.abandoned)) {
        remove_mark(mark);
    }
    heartbeat_ended(&mark->beat);
}

void reader_mark_keep(reader_mark *mark) {
    struct pawl_error story = ERROR_INIT;
    if (mark != NULL && mark->platform->concurrent &&
        heartbeat_start(&mark->beat, keep_mark, mark, &story) != PAWL_OK) {
        log_write(
            &mark->log, PAWL_LOG_WARN,
            "nothing advances the mark of a reader while it is idle, so writers on other hosts "
            "may remove what it reads then: %s",
            error_text(&story));
    }
}

bool reader_mark_free(reader_mark *mark) {
    if (mark == NULL) {
        return true;
    }
    if (!heartbeat_stop(&mark->beat, READER_STILL_S)) {
        log_write(&mark->log, PAWL_LOG_WARN,
                  "the storage of %s does not answer: a reader's mark stays in %s",
                  mark->store->root, mark->directory);
        return false;
    }
    remove_mark(mark);
    monitor_destroy(&mark->guard);
    mem_free(mark);
    return true;
}
