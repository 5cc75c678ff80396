/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at readers' marks: who is believed to be reading. reader_mark.c makes them. */
#include "format/presence.h"
#include "run/run.h"

#include <stdio.h>
#include <string.h>

/* ---- looking at marks ---- */

/* A mark that cannot be judged by pid: when was it first seen with this counter? */
typedef struct watched {
    char directory[32];
    char name[256]; /* as long as a name may be */
    uint64_t counter;
    uint64_t since_ns;
    bool seen; /* in the present look */
} watched;

struct reader_watch {
    watched *items;
    size_t count, capacity;
};

pawl_status reader_watch_new(reader_watch **out, pawl_error *err) {
    *out = mem_calloc(1, sizeof(**out));
    return *out != NULL ? PAWL_OK : error_nomem(err, sizeof(**out));
}

void reader_watch_free(reader_watch *watch) {
    if (watch != NULL) {
        mem_free(watch->items);
        mem_free(watch);
    }
}

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

static watched *watch_find(const look *l, const char *name) {
    for (size_t i = 0; i < l->watch->count; i++) {
        watched *w = &l->watch->items[i];
        if (strcmp(w->name, name) == 0 && strcmp(w->directory, l->directory) == 0) {
            return w;
        }
    }
    return NULL;
}

/* Has the mark stood still for so long that no reader who lives would have left it so? */
static pawl_status watch_judge(const look *l, const char *name, uint64_t counter, bool *stale,
                               pawl_error *err) {
    watched *w = watch_find(l, name);
    *stale = false;
    if (w == NULL) {
        TRY(vec_reserve(&l->watch->items, &l->watch->capacity, l->watch->count + 1, sizeof(*w),
                        err));
        w = &l->watch->items[l->watch->count++];
        *w = (watched){.counter = counter, .since_ns = l->now_ns};
        snprintf(w->directory, sizeof(w->directory), "%s", l->directory);
        snprintf(w->name, sizeof(w->name), "%s", name);
    } else if (w->counter != counter) {
        w->counter = counter;
        w->since_ns = l->now_ns;
    } else {
        double still_s = l->lease_s > READER_STILL_S ? l->lease_s : READER_STILL_S;
        *stale = (double)(l->now_ns - w->since_ns) >= still_s * 1e9;
    }
    w->seen = true;
    return PAWL_OK;
}

static pawl_status look_at(look *l, const char *name, pawl_error *err) {
    char path[STORE_MAX_PATH];
    CLEANUP(buffer_free) buffer text = {0};
    snprintf(path, sizeof(path), "%s/%s", l->directory, name);
    pawl_status status = store_read_file(l->store, path, OWNER_MAX_RECORD, &text, err);
    if (status == PAWL_ENOTFOUND) {
        return PAWL_OK; /* its reader has just finished */
    }
    if (status == PAWL_ENOMEM) {
        return status;
    }
    reader_record record = {0};
    struct pawl_error ignored = ERROR_INIT;
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
        TRY(watch_judge(l, name, record.counter, &gone, err));
    }
    if (!gone) { /* before its mark is complete no reader looks for the manifest */
        l->being_read = l->being_read || complete;
        return PAWL_OK;
    }
    return l->stale != NULL ? l->stale(l->context, name, err) : PAWL_OK;
}

/* What is gone from the directory need not be remembered. */
static void forget_unseen(const look *l) {
    size_t kept = 0;
    for (size_t i = 0; l->watch != NULL && i < l->watch->count; i++) {
        watched *w = &l->watch->items[i];
        if (w->seen || strcmp(w->directory, l->directory) != 0) {
            l->watch->items[kept] = *w;
            l->watch->items[kept].seen = false;
            kept++;
        }
    }
    if (l->watch != NULL) {
        l->watch->count = kept;
    }
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
    forget_unseen(l);
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
