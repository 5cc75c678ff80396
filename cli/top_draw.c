/* SPDX-License-Identifier: Apache-2.0 */
/* What `pawl top` prints or draws. */
#include "common/json.h"
#include "memory.h"
#include "text.h"
#include "top.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    PAGE_SAVES = 10,    /* how many saves are listed when not on a screen */
    WIDE_COLUMNS = 124, /* width of the full table */
    BAR_COLUMNS = 24,
    SHORT_BAR_COLUMNS = 10,
    TIME_COLUMNS = 8, /* "hh:mm:ss" at the end of a date */
    SILENT_S = 10,    /* without an event for so long a save is shown in red */
    OTHER_LINES = 9   /* lines of a screen beside saves, failure and restores */
};

typedef struct picture {
    const top_state *view;
    output *out;
    bool live;
} picture;

static double age_s(const top_state *v, int64_t unix_time_ns) {
    double age = ((double)v->now_ns - (double)unix_time_ns) / 1e9; /* int64_t might overflow */
    return age > 0 ? age : 0; /* the writer's clock may be ahead */
}

/* On a screen "12 s ago", elsewhere the time. */
static const char *when(char out[TEXT_SIZE], const picture *p, int64_t unix_time_ns) {
    double age = age_s(p->view, unix_time_ns);
    char text[TEXT_SIZE];
    if (!p->live || unix_time_ns == 0) {
        return text_time_local(out, unix_time_ns);
    }
    if (age < 60) {
        snprintf(out, TEXT_SIZE, "%d s ago", (int)age);
    } else {
        snprintf(out, TEXT_SIZE, "%.32s ago", text_duration(text, age));
    }
    return out;
}

/* ---- the owner ------------------------------------------------------------------------------ */

static void draw_owner(const picture *p) {
    static const struct {
        style style;
        const char *text;
    } states[] = {
        [PAWL_OWNER_NONE] = {STYLE_PLAIN, "nobody writes here now"},
        [PAWL_OWNER_ALIVE] = {STYLE_GOOD, "alive"},
        [PAWL_OWNER_GONE] = {STYLE_BAD, "gone without closing the run"},
        [PAWL_OWNER_UNKNOWN] = {STYLE_PLAIN, "not seen from here"},
    };
    const pawl_owner_info *o = &p->view->owner;
    char heartbeat[TEXT_SIZE] = "";
    bool silent = o->state == PAWL_OWNER_UNKNOWN && o->heartbeat_age_s > o->lease_s;
    if (o->heartbeat_age_s >= 0) {
        snprintf(heartbeat, sizeof heartbeat, ", heartbeat %.0f s ago", o->heartbeat_age_s);
    }
    if (o->state == PAWL_OWNER_NONE || o->attempt[0] == '\0') {
        output_field_styled(p->out, "owner", states[o->state].style, "%s", states[o->state].text);
        return;
    }
    output_field_styled(p->out, "owner", silent ? STYLE_WARNING : states[o->state].style,
                        "%s: host %s, pid %" PRId64 "%s", states[o->state].text, o->host, o->pid,
                        heartbeat);
}

static void draw_newest(const picture *p) {
    const top_state *v = p->view;
    char saved[TEXT_SIZE];
    char size[TEXT_SIZE];
    char count[TEXT_SIZE];
    if (!v->has_newest) {
        output_field(p->out, "newest", "no checkpoint yet");
        return;
    }
    output_field(p->out, "newest", "step %" PRId64 ", saved %s, %s; %s in all", v->newest.step,
                 when(saved, p, v->newest.unix_time_ns), text_bytes(size, v->newest.bytes),
                 text_count(count, v->committed, "checkpoint", "checkpoints"));
}

/* ---- the save in flight --------------------------------------------------------------------- */

static unsigned percent_of(const pawl_event *e) {
    double share = e->of_bytes > 0 ? (double)e->done_bytes / (double)e->of_bytes : 0;
    return share < 1 ? (unsigned)(share * 100) : 100;
}

static bool is_narrow(const picture *p) {
    return p->out->columns > 0 && p->out->columns < WIDE_COLUMNS;
}

static void fill_bar(char bar[BAR_COLUMNS + 1], const picture *p, unsigned percent) {
    size_t columns = is_narrow(p) ? SHORT_BAR_COLUMNS : BAR_COLUMNS;
    size_t full = percent * columns / 100;
    memset(bar, '#', full);
    memset(bar + full, '-', columns - full);
    bar[columns] = '\0';
}

static void draw_interrupted(const picture *p, const pawl_event *e) {
    char told[TEXT_SIZE];
    output_field_styled(p->out, "saving", STYLE_WARNING,
                        "step %" PRId64 " was interrupted at %u%%: its writer ended; last event "
                        "%s%s",
                        e->step, percent_of(e), p->live ? "" : "at ",
                        when(told, p, e->unix_time_ns));
}

static void draw_silent(const picture *p, const pawl_event *e) {
    char done[TEXT_SIZE];
    char of[TEXT_SIZE];
    char silence[TEXT_SIZE];
    output_field_styled(p->out, "saving", STYLE_BAD,
                        "step %" PRId64 " at %u%%, %s of %s: no event for %s", e->step,
                        percent_of(e), text_bytes(done, e->done_bytes), text_bytes(of, e->of_bytes),
                        text_duration(silence, age_s(p->view, e->unix_time_ns)));
}

static void draw_progress(const picture *p, const event_copy *k) {
    const pawl_event *e = &k->event;
    char bar[BAR_COLUMNS + 1];
    char done[TEXT_SIZE];
    char of[TEXT_SIZE];
    char took[TEXT_SIZE];
    fill_bar(bar, p, percent_of(e));
    output_field(p->out, "saving", "step %" PRId64 "  [%s] %u%%  %s of %s  %.2f GB/s  %s", e->step,
                 bar, percent_of(e), text_bytes(done, e->done_bytes), text_bytes(of, e->of_bytes),
                 event_gb_per_s(k), text_duration(took, e->seconds));
}

static void draw_saving(const picture *p) {
    const event_copy *k = top_saving(p->view);
    if (k == NULL) {
        output_field(p->out, "saving", "nothing now");
    } else if (!top_writer_may_live(p->view)) {
        draw_interrupted(p, &k->event);
    } else if (p->live && age_s(p->view, k->event.unix_time_ns) >= SILENT_S) {
        draw_silent(p, &k->event);
    } else {
        draw_progress(p, k);
    }
}

/* ---- the last saves ------------------------------------------------------------------------- */

typedef enum save_column {
    COLUMN_STEP,
    COLUMN_ENDED,
    COLUMN_VERDICT,
    COLUMN_SIZE,
    COLUMN_TOOK,
    COLUMN_SPEED,
    COLUMN_PREPARE,
    COLUMN_WRITE,
    COLUMN_SYNC,
    COLUMN_COMMIT,
    COLUMN_STALL,
    COLUMN_COPIED,
    COLUMN_WAITED,
    COLUMN_RETRIES,
    COLUMNS
} save_column;

static const column save_columns[COLUMNS] = {
    [COLUMN_STEP] = {.title = "STEP", .right = true},
    [COLUMN_ENDED] = {.title = "ENDED", .omit_turn = 7},
    [COLUMN_VERDICT] = {.title = "VERDICT"},
    [COLUMN_SIZE] = {.title = "SIZE", .right = true},
    [COLUMN_TOOK] = {.title = "TOOK", .right = true, .omit_turn = 6},
    [COLUMN_SPEED] = {.title = "GB/s", .right = true, .omit_turn = 4},
    [COLUMN_PREPARE] = {.title = "PREPARE", .right = true},
    [COLUMN_WRITE] = {.title = "WRITE", .right = true, .omit_turn = 3},
    [COLUMN_SYNC] = {.title = "SYNC", .right = true, .omit_turn = 2},
    [COLUMN_COMMIT] = {.title = "COMMIT", .right = true, .omit_turn = 1},
    [COLUMN_STALL] = {.title = "STALL", .right = true, .omit_turn = 5},
    [COLUMN_COPIED] = {.title = "COPIED", .right = true},
    [COLUMN_WAITED] = {.title = "WAITED", .right = true},
    [COLUMN_RETRIES] = {.title = "RETRIES", .right = true},
};

/* The columns for a narrow terminal. */
static const save_column narrow[] = {COLUMN_STEP, COLUMN_ENDED,  COLUMN_VERDICT,
                                     COLUMN_TOOK, COLUMN_SPEED,  COLUMN_WRITE,
                                     COLUMN_SYNC, COLUMN_COMMIT, COLUMN_STALL};

static void put_seconds(table *t, double seconds) {
    char text[TEXT_SIZE];
    table_cell(t, "%s", text_duration(text, seconds));
}

static void put_ended(table *t, const event_copy *k, bool brief) {
    char text[TEXT_SIZE];
    const char *time = text_time_local(text, k->event.unix_time_ns);
    size_t length = strlen(time);
    table_cell(t, "%s", brief && length > TIME_COLUMNS ? time + length - TIME_COLUMNS : time);
}

static void put_cell(table *t, save_column c, const event_copy *k, bool brief) {
    char text[TEXT_SIZE];
    const double seconds[COLUMNS] = {
        [COLUMN_TOOK] = k->event.seconds,        [COLUMN_PREPARE] = k->stats.prepare_s,
        [COLUMN_WRITE] = k->stats.write_s,       [COLUMN_SYNC] = k->stats.sync_s,
        [COLUMN_COMMIT] = k->stats.commit_s,     [COLUMN_STALL] = event_stall_s(k),
        [COLUMN_COPIED] = k->stats.fence_copy_s, [COLUMN_WAITED] = event_waited_s(k)};
    switch (c) {
    case COLUMN_STEP:
        table_cell(t, "%" PRId64, k->event.step);
        break;
    case COLUMN_ENDED:
        put_ended(t, k, brief);
        break;
    case COLUMN_VERDICT:
        table_styled(t, event_style(k), "%s", event_verdict(k));
        break;
    case COLUMN_SIZE:
        table_cell(t, "%s", text_bytes(text, k->event.of_bytes));
        break;
    case COLUMN_SPEED:
        table_cell(t, "%.2f", event_gb_per_s(k));
        break;
    case COLUMN_RETRIES:
        table_cell(t, "%" PRIu64, k->stats.retries);
        break;
    default:
        put_seconds(t, seconds[c]);
    }
}

static void draw_saves(const picture *p, size_t most) {
    bool brief = is_narrow(p);
    size_t count = brief ? sizeof narrow / sizeof narrow[0] : COLUMNS;
    column columns[COLUMNS];
    for (size_t c = 0; c < count; c++) {
        columns[c] = save_columns[brief ? narrow[c] : c];
    }
    table *t = table_new(p->out, columns, count);
    for (size_t i = 0; i < most && top_save(p->view, i) != NULL; i++) {
        for (size_t c = 0; c < count; c++) {
            put_cell(t, brief ? narrow[c] : (save_column)c, top_save(p->view, i), brief);
        }
        table_row(t);
    }
    table_end_silently(t);
}

static void draw_count(const picture *p) {
    const top_state *v = p->view;
    char failed[TEXT_SIZE] = "none";
    if (v->failed_count > 0) {
        snprintf(failed, sizeof failed, "%zu", v->failed_count);
    }
    if (v->save_count > 0) {
        output_field_styled(p->out, "saves", v->failed_count > 0 ? STYLE_WARNING : STYLE_PLAIN,
                            "%zu on record, %s failed", v->save_count, failed);
    } else {
        output_field(p->out, "saves", "none on record");
    }
}

static void draw_failure(const picture *p) {
    const event_copy *k = &p->view->failure;
    char ended[TEXT_SIZE];
    if (event_copy_is_set(k)) {
        output_field_styled(p->out, "failed", STYLE_BAD, "%s: %s",
                            when(ended, p, k->event.unix_time_ns),
                            k->message != NULL ? k->message : event_verdict(k));
    }
}

/* ---- restores ------------------------------------------------------------------------------- */

/* "step 300: ..." of the first of a list of {"step": 300, "why": "..."}; "" for anything else. */
static char *first_fallback(json_span list) {
    int64_t step = 0;
    json_span first = {NULL, 0};
    json_span why = {NULL, 0};
    bool more = false;
    json_field fields[] = {{NULL, "step", &step, FIELD_INTEGER, 0},
                           {NULL, "why", &why, FIELD_STRING, 0}};
    json_reader r = json_reader_of(list.text, list.n);
    if (json_enter(&r, '[') != PAWL_OK || json_element(&r, &more) != PAWL_OK || !more ||
        json_skip(&r, &first) != PAWL_OK || !json_fields(first.text, first.n, fields, 2)) {
        return must_strdup("");
    }
    SCOPED(scoped_free) char *text = must_alloc(why.n + 1);
    text[json_decode(why, text, why.n)] = '\0';
    return must_printf("step %" PRId64 ": %s", step, text);
}

/* "; 1 newer checkpoint passed over: step 300: ..." */
static char *fallbacks_of(const event_copy *k) {
    uint64_t count = 0;
    json_span list = {NULL, 0};
    char text[TEXT_SIZE];
    json_field fields[] = {{NULL, "fallback_count", &count, FIELD_COUNT, 0},
                           {NULL, "fallbacks", &list, FIELD_ANY, 0}};
    if (!json_fields(k->json, strlen(k->json), fields, 2) || count == 0) {
        return must_strdup("");
    }
    SCOPED(scoped_free) char *first = first_fallback(list);
    return must_printf("; %s passed over: %s",
                       text_count(text, count, "newer checkpoint", "newer checkpoints"), first);
}

static void draw_restore(const picture *p, const event_copy *k) {
    const pawl_event *e = &k->event;
    char ended[TEXT_SIZE];
    char size[TEXT_SIZE];
    char took[TEXT_SIZE];
    when(ended, p, e->unix_time_ns);
    if (e->status == PAWL_ENOTFOUND && e->step < 0) {
        output_field(p->out, "restored", "%s: nothing, there was no checkpoint yet", ended);
        return;
    }
    if (e->status != PAWL_OK) {
        output_field_styled(p->out, "restored", STYLE_BAD, "%s: failed: %s", ended,
                            k->message != NULL ? k->message : event_verdict(k));
        return;
    }
    SCOPED(scoped_free) char *fallbacks = fallbacks_of(k);
    output_field_styled(p->out, "restored", *fallbacks != '\0' ? STYLE_WARNING : STYLE_PLAIN,
                        "%s: step %" PRId64 ", %s verified in %s (%.2f GB/s)%s", ended, e->step,
                        text_bytes(size, e->done_bytes), text_duration(took, e->seconds),
                        event_gb_per_s(k), fallbacks);
}

static size_t draw_restores(const picture *p) {
    size_t i = 0;
    while (i < TOP_RESTORES && top_restore(p->view, i) != NULL) {
        draw_restore(p, top_restore(p->view, i++));
    }
    return i;
}

/* ---- all of it ------------------------------------------------------------------------------ */

void top_draw(const top_state *v, output *out, int rows) {
    const picture p = {.view = v, .out = out, .live = rows > 0};
    char now[TEXT_SIZE];
    if (p.live) {
        text_time_local(now, v->now_ns);
        output_field(out, "pawl top", "%s    q quits", now);
    }
    output_field(out, "run", "%s", v->run);
    draw_owner(&p);
    draw_newest(&p);
    draw_saving(&p);
    size_t restores = draw_restores(&p);
    draw_count(&p);
    draw_failure(&p);
    size_t other = OTHER_LINES + restores + event_copy_is_set(&v->failure);
    size_t room = p.live && (size_t)rows > other ? (size_t)rows - other : p.live ? 1 : PAGE_SAVES;
    if (v->save_count > 0) {
        fputc('\n', out->to);
        draw_saves(&p, room);
    }
}
