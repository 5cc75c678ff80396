/* SPDX-License-Identifier: Apache-2.0 */
/* Judges readers' marks: is anybody reading a step? reader_mark.c makes the marks. */
#include "format/format.h"
#include "presence/presence.h"
#include "presence/reader_watch.h"

#include <stdio.h>
#include <string.h>

typedef struct mark_look {
    store *store;
    const char *directory;
    const platform *platform;
    double lease_s;
    reader_watch *watch;
    reader_stale_fn stale; /* or NULL */
    void *context;
    uint64_t now_ns;
    bool being_read;
} mark_look;

static pawl_status judge_mark(mark_look *l, const char *name, pawl_error *err) {
    char path[STORE_MAX_PATH];
    CLEANUP(buffer_free) buffer text = {0};
    struct pawl_error ignored = ERROR_INIT;
    store_stat found = {.type = STORE_FILE_TYPE};
    snprintf(path, sizeof(path), "%s/%s", l->directory, name);
    if (store_stat_path(l->store, path, &found, &ignored) == PAWL_OK &&
        found.type != STORE_FILE_TYPE) {
        return PAWL_OK; /* not a file, so no reader made it */
    }
    pawl_status status = store_read_file(l->store, path, OWNER_MAX_RECORD, &text, err);
    if (status == PAWL_ENOTFOUND) {
        return PAWL_OK; /* its reader has just removed it */
    }
    if (status == PAWL_ENOMEM) {
        return status;
    }
    reader_record record = {0};
    bool read = status == PAWL_OK;
    bool readable =
        read && reader_record_decode(text.data, text.size, &record, &ignored) == PAWL_OK;
    bool complete = readable || !read;
    liveness alive = PROCESS_UNKNOWN;
    if (readable) {
        alive = l->platform->process_alive(l->platform->context, &record.who);
    }
    bool gone = alive == PROCESS_DEAD;
    if (alive == PROCESS_UNKNOWN && l->watch != NULL) {
        double still_s = l->lease_s > READER_STILL_S ? l->lease_s : READER_STILL_S;
        /* A mark without permission to read it still shows by its time that it is advanced. */
        uint64_t counter = read ? record.counter : (uint64_t)found.modified_unix_ns;
        TRY(reader_watch_judge(l->watch, l->directory, name, counter, l->now_ns, still_s, &gone,
                               err));
    }
    if (!gone) { /* a reader opens the manifest only once its mark is complete */
        l->being_read = l->being_read || complete;
        return PAWL_OK;
    }
    return l->stale != NULL ? l->stale(l->context, name, err) : PAWL_OK;
}

static pawl_status judge_marks(mark_look *l, pawl_error *err) {
    CLEANUP(arena_free) arena memory = {0};
    char **names;
    size_t count;
    pawl_status status =
        store_names(l->store, l->directory, FORMAT_MAX_NAMES, &memory, &names, &count, err);
    if (status == PAWL_ENOTFOUND) {
        return PAWL_OK; /* the directory is gone, and its readers with it */
    }
    if (status != PAWL_OK) {
        return status;
    }
    for (size_t i = 0; i < count && status == PAWL_OK; i++) {
        if (name_classify(names[i], NULL) == NAME_KIND_READER) {
            status = judge_mark(l, names[i], err);
        }
    }
    if (l->watch != NULL) {
        reader_watch_end(l->watch, l->directory);
    }
    return status;
}

pawl_status reader_look_stale(store *s, const char *directory, const platform *os, double lease_s,
                              reader_watch *watch, reader_stale_fn stale, void *context,
                              bool *being_read, pawl_error *err) {
    mark_look l = {.store = s,
                   .directory = directory,
                   .platform = os,
                   .lease_s = lease_s,
                   .watch = watch,
                   .stale = stale,
                   .context = context,
                   .now_ns = platform_now_ns(os)};
    TRY(judge_marks(&l, err));
    *being_read = l.being_read;
    return PAWL_OK;
}

pawl_status reader_look(store *s, const char *directory, const platform *os, double lease_s,
                        reader_watch *watch, bool *being_read, pawl_error *err) {
    return reader_look_stale(s, directory, os, lease_s, watch, NULL, NULL, being_read, err);
}
