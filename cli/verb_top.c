/* SPDX-License-Identifier: Apache-2.0 */
/* pawl top: a run while it saves. */
#include "screen.h"
#include "terminal.h"
#include "top.h"

#include <stdlib.h>
#include <string.h>

/* ---- for programs --------------------------------------------------------------------------- */

static void put_event(json *j, const char *key, const event_copy *k) {
    if (k != NULL) {
        json_put_raw(j, key, k->json);
    } else {
        json_put_null(j, key);
    }
}

static void put_owner(json *j, const pawl_owner_info *o) {
    static const char *const states[] = {
        [PAWL_OWNER_NONE] = "none",
        [PAWL_OWNER_ALIVE] = "alive",
        [PAWL_OWNER_GONE] = "gone",
        [PAWL_OWNER_UNKNOWN] = "unknown",
    };
    json_begin_object(j, "owner", JSON_INLINE);
    json_put_text(j, "state", states[o->state]);
    if (o->state != PAWL_OWNER_NONE) {
        json_put_text(j, "host", o->host);
        json_put_int(j, "pid", o->pid);
        json_put_text(j, "attempt", o->attempt);
        json_put_number(j, "lease_s", o->lease_s, 6);
        json_put_number(j, "heartbeat_age_s", o->heartbeat_age_s, 6);
    }
    json_close(j);
}

static void put_newest(json *j, const top_state *v) {
    if (!v->has_newest) {
        json_put_null(j, "newest");
        return;
    }
    json_begin_object(j, "newest", JSON_INLINE);
    json_put_int(j, "step", v->newest.step);
    json_put_int(j, "unix_time_ns", v->newest.unix_time_ns);
    json_put_uint(j, "bytes", v->newest.bytes);
    json_close(j);
}

static void put_saving(json *j, const top_state *v) {
    const event_copy *saving = top_saving(v);
    put_event(j, "saving", saving);
    json_put_bool(j, "interrupted", saving != NULL && !top_writer_may_live(v));
}

static void put_events(json *j, const char *key, const top_state *v,
                       const event_copy *(*get)(const top_state *v, size_t i)) {
    json_begin_array(j, key, JSON_LINES);
    for (size_t i = 0; get(v, i) != NULL; i++) {
        put_event(j, NULL, get(v, i));
    }
    json_close(j);
}

static void put_state(const top_state *v, json *j) {
    put_owner(j, &v->owner);
    put_newest(j, v);
    json_put_uint(j, "checkpoints", v->committed);
    put_saving(j, v);
    json_put_uint(j, "save_count", v->save_count);
    json_put_uint(j, "failed_count", v->failed_count);
    put_event(j, "failure", v->failure.json != NULL ? &v->failure : NULL);
    put_events(j, "saves", v, top_save);
    put_events(j, "restores", v, top_restore);
}

/* ---- on a terminal -------------------------------------------------------------------------- */

static void draw_frame(const top_state *v, output *out) {
    char *picture = NULL;
    size_t size = 0;
    int rows;
    screen_size(&rows, &out->columns);
    out->to = open_memstream(&picture, &size);
    if (out->to == NULL) {
        out->to = stdout;
        return;
    }
    top_draw(v, out, rows);
    bool whole = fclose(out->to) == 0;
    out->to = stdout;
    if (whole) {
        screen_draw(picture);
    }
    free(picture);
}

static int watch_run(top_state *v, const arguments *args, output *out) {
    screen_event event = SCREEN_TIME;
    pawl_status status = PAWL_OK;
    screen_open();
    while (event == SCREEN_TIME && status == PAWL_OK) {
        draw_frame(v, out);
        event = screen_wait(args->interval_s);
        status = event == SCREEN_TIME ? top_refresh(v, out) : PAWL_OK;
    }
    screen_close();
    if (event == SCREEN_SIGNAL) {
        screen_end_by_signal();
    }
    return status == PAWL_OK ? EXIT_DONE : output_fail(out);
}

/* ---- the verb ------------------------------------------------------------------------------- */

static int show_run(top_state *v, const arguments *args, output *out) {
    pawl_status status = top_open(v, args->targets[0].run, out);
    if (status == PAWL_OK) {
        status = top_refresh(v, out);
    }
    if (status != PAWL_OK) {
        return output_fail(out);
    }
    if (out->as_json) {
        put_state(v, &out->json);
        return EXIT_DONE;
    }
    if (!args->once && terminal_understands_escapes()) {
        return watch_run(v, args, out);
    }
    top_draw(v, out, 0);
    return EXIT_DONE;
}

int verb_top(const arguments *args, output *out) {
    top_state *v = calloc(1, sizeof *v); /* too large for a small stack */
    if (v == NULL) {
        return output_fail(out);
    }
    if (out->as_json) {
        json_put_text(&out->json, "run", args->targets[0].run);
    }
    int code = show_run(v, args, out);
    top_close(v);
    free(v);
    return code;
}
