/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Marks of readers: the file reader-<id> in a step's directory keeps the step from being removed
 * while somebody reads it (S14).
 *
 * A mark is advice between processes that may share no clock: it carries who made it, for those who
 * can judge that by pid, and a counter of fixed width that its maker advances in place while it
 * reads, for those who cannot. docs/format.md describes the bytes. A mark is never synced: after a
 * power loss its maker is gone too.
 */
#include "run/identity.h"
#include "run/reader_watch.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define READER_PREFIX         "reader-"
#define READER_ID_BYTES       6
#define READER_COUNTER_AT     12 /* of its first digit, after {"counter":" */
#define READER_COUNTER_DIGITS 20
#define READER_MAX_RECORD     65536u
#define READER_TOUCH_NS       1000000000u

/* ---- the record ---- */

typedef struct mark_record {
    bool readable;
    uint64_t counter;
    process_identity who;
} mark_record;

static pawl_status record_encode(const mark_record *r, buffer *out, pawl_error *err) {
    TRY(buffer_printf(out, err, "{\"counter\":\"%020llu\"", (unsigned long long)r->counter));
    TRY(identity_put_members(out, &r->who, err));
    return buffer_append(out, "}\n", 2, err);
}

/* A record that does not parse is one whose maker was interrupted, or still writes it. */
static void record_decode(const buffer *text, mark_record *out) {
    json_error_t where;
    const char *data = (const char *)text->data;
    *out = (mark_record){.readable = false};
    json_t *record = json_loadb(data, text->size, JSON_REJECT_DUPLICATES, &where);
    if (json_is_object(record)) {
        char counter[READER_COUNTER_DIGITS + 1];
        identity_take_text(record, "counter", counter, sizeof(counter));
        identity_take_members(record, &out->who);
        out->counter = strtoull(counter, NULL, 10);
        out->readable = out->who.pid > 0 && out->who.host[0] != '\0';
    }
    json_decref(record);
}

/* ---- making a mark ---- */

struct reader_mark {
    store *store;
    const platform *platform;
    pawl_log log;
    char path[STORE_MAX_PATH];
    mark_record record;
    uint64_t touched_ns;
};

static pawl_status mark_path(reader_mark *mark, const char *directory, pawl_error *err) {
    uint8_t random[READER_ID_BYTES];
    char id[2 * READER_ID_BYTES + 1];
    const platform *os = mark->platform;
    TRY(os->random_bytes(os->context, random, sizeof(random), err));
    for (size_t i = 0; i < sizeof(random); i++) {
        snprintf(id + 2 * i, 3, "%02x", random[i]);
    }
    snprintf(mark->path, sizeof(mark->path), "%s/" READER_PREFIX "%s", directory, id);
    return PAWL_OK;
}

static pawl_status mark_create(reader_mark *mark, pawl_error *err) {
    CLEANUP(buffer_free) buffer text = {0};
    CLEANUP(store_close_pointer) store_file *file = NULL;
    TRY(record_encode(&mark->record, &text, err));
    TRY(store_open(mark->store, mark->path, STORE_CREATE, &file, err));
    return store_write(file, 0, text.data, text.size, err);
}

static pawl_status mark_make(reader_mark *mark, const char *directory, pawl_error *err) {
    const platform *os = mark->platform;
    mark->record.counter = 1;
    TRY(os->identity(os->context, &mark->record.who, err));
    TRY(mark_path(mark, directory, err));
    mark->touched_ns = os->monotonic_ns(os->context);
    return mark_create(mark, err);
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
    struct pawl_error story = ERROR_INIT;
    pawl_status status = mark_make(mark, directory, &story);
    if (status == PAWL_OK) {
        *out = mark;
        return PAWL_OK;
    }
    reader_mark_free(mark);
    if (status == PAWL_ENOTFOUND) { /* what is there a moment later has no mark */
        *err = story;
        return status;
    }
    char root[1024];
    log_write(log, PAWL_LOG_INFO,
              "%s/%s is read without a mark, so a writer of the run may remove it: %s",
              text_shown(root, sizeof root, s->root), directory, error_text(&story));
    return PAWL_OK;
}

static pawl_status mark_advance(reader_mark *mark, pawl_error *err) {
    char digits[READER_COUNTER_DIGITS + 1];
    mark->record.counter++;
    snprintf(digits, sizeof(digits), "%020llu", (unsigned long long)mark->record.counter);
    CLEANUP(store_close_pointer) store_file *file = NULL;
    pawl_status status = store_open(mark->store, mark->path, STORE_UPDATE, &file, err);
    if (status == PAWL_ENOTFOUND) {
        return mark_create(mark, err); /* someone took it for stale */
    }
    if (status != PAWL_OK) {
        return status;
    }
    return store_write(file, READER_COUNTER_AT, digits, READER_COUNTER_DIGITS, err);
}

void reader_mark_touch(reader_mark *mark) {
    if (mark == NULL) {
        return;
    }
    uint64_t now_ns = mark->platform->monotonic_ns(mark->platform->context);
    if (now_ns - mark->touched_ns < READER_TOUCH_NS) {
        return;
    }
    mark->touched_ns = now_ns;
    struct pawl_error story = ERROR_INIT;
    if (mark_advance(mark, &story) != PAWL_OK) {
        log_write(&mark->log, PAWL_LOG_DEBUG, "%s", error_text(&story));
    }
}

void reader_mark_free(reader_mark *mark) {
    if (mark == NULL) {
        return;
    }
    struct pawl_error story = ERROR_INIT;
    if (mark->path[0] != '\0' && store_unlink(mark->store, mark->path, &story) != PAWL_OK &&
        story.status != PAWL_ENOTFOUND) {
        log_write(&mark->log, PAWL_LOG_DEBUG, "%s", error_text(&story));
    }
    mem_free(mark);
}

/* ---- looking at marks ---- */

typedef struct look {
    store *store;
    const char *directory;
    const platform *platform;
    double lease_s;
    reader_watch *watch;
    reader_stale_fn stale; /* or NULL */
    void *context;
    uint64_t now_ns;
    bool being_read;
} look;

static pawl_status look_at(look *l, const char *name, pawl_error *err) {
    char path[STORE_MAX_PATH];
    CLEANUP(buffer_free) buffer text = {0};
    snprintf(path, sizeof(path), "%s/%s", l->directory, name);
    pawl_status status = store_read_file(l->store, path, READER_MAX_RECORD, &text, err);
    if (status == PAWL_ENOTFOUND) {
        return PAWL_OK; /* its reader has just finished */
    }
    if (status == PAWL_ENOMEM) {
        return status;
    }
    mark_record record = {.readable = false};
    bool complete = true;
    if (status == PAWL_OK) {
        record_decode(&text, &record);
        complete = record.readable;
    }
    liveness alive = PROCESS_UNKNOWN;
    if (record.readable) {
        alive = l->platform->process_alive(l->platform->context, &record.who);
    }
    bool gone = alive == PROCESS_DEAD;
    if (alive == PROCESS_UNKNOWN && l->watch != NULL) {
        TRY(reader_watch_judge(l->watch, l->directory, name, record.counter, l->now_ns, l->lease_s,
                               &gone, err));
    }
    if (!gone) { /* before its mark is complete no reader looks for the manifest */
        l->being_read = l->being_read || complete;
        return PAWL_OK;
    }
    return l->stale != NULL ? l->stale(l->context, name, err) : PAWL_OK;
}

static pawl_status look_at_all(look *l, pawl_error *err) {
    CLEANUP(arena_free) arena memory = {0};
    char **names;
    size_t count;
    pawl_status status =
        store_names(l->store, l->directory, RUN_MAX_NAMES, &memory, &names, &count, err);
    if (status == PAWL_ENOTFOUND) {
        return PAWL_OK; /* the directory is gone, and its readers with it */
    }
    if (status != PAWL_OK) {
        return status;
    }
    for (size_t i = 0; i < count; i++) {
        if (name_classify(names[i], NULL) == NAME_KIND_READER) {
            TRY(look_at(l, names[i], err));
        }
    }
    if (l->watch != NULL) {
        reader_watch_end(l->watch, l->directory);
    }
    return PAWL_OK;
}

pawl_status reader_look_stale(store *s, const char *directory, const platform *os, double lease_s,
                              reader_watch *watch, reader_stale_fn stale, void *context,
                              bool *being_read, pawl_error *err) {
    look l = {.store = s,
              .directory = directory,
              .platform = os,
              .lease_s = lease_s,
              .watch = watch,
              .stale = stale,
              .context = context,
              .now_ns = os->monotonic_ns(os->context)};
    TRY(look_at_all(&l, err));
    *being_read = l.being_read;
    return PAWL_OK;
}

pawl_status reader_look(store *s, const char *directory, const platform *os, double lease_s,
                        reader_watch *watch, bool *being_read, pawl_error *err) {
    return reader_look_stale(s, directory, os, lease_s, watch, NULL, NULL, being_read, err);
}
