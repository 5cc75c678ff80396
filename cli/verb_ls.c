/* SPDX-License-Identifier: Apache-2.0 */
/* pawl ls: the checkpoints of a run, one checkpoint of another tool, or all below a directory. */
#include "about.h"
#include "cli.h"
#include "ls_below.h"
#include "ls_costs.h"
#include "ls_status.h"
#include "memory.h"
#include "metrics.h"
#include "text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The column NOTES: metrics, "pinned", "being read", why it is damaged. */
static char *notes_of(const pawl_step_info *step) {
    char *metrics = metrics_text(step->metrics_json);
    const char *pinned = step->pinned ? "pinned" : "";
    const char *read = step->being_read ? "being read" : "";
    const char *why = step->why != NULL ? step->why : "";
    const char *parts[] = {metrics, pinned, read, why};
    char *notes = must_strdup("");
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (*parts[i] != '\0') {
            notes = must_append(notes, "; ", parts[i]);
        }
    }
    free(metrics);
    return notes;
}

/* The columns that both tables begin with. */
static void put_common_cells(table *t, const pawl_step_info *step) {
    char size[TEXT_SIZE];
    char saved[TEXT_SIZE];
    table_cell(t, "%" PRId64, step->step);
    table_styled(t, ls_status_style(step->status), "%s", ls_status_name(step->status));
    table_cell(t, "%s", text_time_local(saved, step->unix_time_ns));
    table_cell(t, "%s", text_bytes(size, step->bytes));
}

static void put_step_row(table *t, const pawl_step_info *step) {
    SCOPED(scoped_free) char *notes = notes_of(step);
    bool committed = step->status == PAWL_STEP_COMMITTED;
    put_common_cells(t, step);
    table_cell(t, "%" PRIu64, step->files);
    if (committed) {
        table_cell(t, "%" PRIu64, step->entries);
        table_cell(t, "%d", step->world_size);
    } else {
        table_cell(t, "-");
        table_cell(t, "-");
    }
    table_cell(t, "%s", notes);
    table_row(t);
}

static void print_steps(output *out, const pawl_catalog *catalog) {
    static const column columns[] = {
        {.title = "STEP", .right = true},
        {.title = "STATUS"},
        {.title = "SAVED", .omit_turn = 4},
        {.title = "SIZE", .right = true, .omit_turn = 5},
        {.title = "FILES", .right = true, .omit_turn = 3},
        {.title = "ENTRIES", .right = true, .omit_turn = 2},
        {.title = "RANKS", .right = true, .omit_turn = 1},
        {.title = "NOTES", .shorten_turn = 1, .keeps = 20},
    };
    table *t = table_new(out, columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < pawl_catalog_count(catalog); i++) {
        put_step_row(t, pawl_catalog_get(catalog, i));
    }
    table_end(t);
}

/* ---- what the saves cost -------------------------------------------------------------------- */

static void put_cost(table *t, const event_copy *save) {
    char text[TEXT_SIZE];
    table_cell(t, "%s", text_duration(text, save->event.seconds));
    table_cell(t, "%.2f", event_gb_per_s(save));
    table_cell(t, "%s", text_duration(text, event_stall_s(save)));
    table_cell(t, "%s", text_duration(text, save->stats.fence_copy_s));
    table_cell(t, "%s", text_duration(text, event_waited_s(save)));
    table_cell(t, "%" PRIu64, save->stats.retries);
    table_styled(t, event_style(save), "%s", event_verdict(save));
}

static void put_cost_row(table *t, const pawl_step_info *step, const event_copy *save) {
    SCOPED(scoped_free) char *notes = notes_of(step);
    put_common_cells(t, step);
    if (save != NULL) {
        put_cost(t, save);
    }
    for (int unknown = 0; save == NULL && unknown < 7; unknown++) {
        table_cell(t, "-");
    }
    table_cell(t, "%s", notes);
    table_row(t);
}

static void print_costs(output *out, const pawl_catalog *catalog, const ls_costs *saves) {
    static const column columns[] = {
        {.title = "STEP", .right = true},
        {.title = "STATUS"},
        {.title = "SAVED", .omit_turn = 5},
        {.title = "SIZE", .right = true, .omit_turn = 7},
        {.title = "TOOK", .right = true, .omit_turn = 8},
        {.title = "GB/s", .right = true, .omit_turn = 4},
        {.title = "STALL", .right = true, .omit_turn = 6},
        {.title = "COPIED", .right = true, .omit_turn = 2},
        {.title = "WAITED", .right = true, .omit_turn = 3},
        {.title = "RETRIES", .right = true, .omit_turn = 1},
        {.title = "VERDICT"},
        {.title = "NOTES", .shorten_turn = 1, .keeps = 20},
    };
    table *t = table_new(out, columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < pawl_catalog_count(catalog); i++) {
        put_cost_row(t, pawl_catalog_get(catalog, i), ls_costs_of(saves, i));
    }
    table_end(t);
}

/* ---- for programs --------------------------------------------------------------------------- */

static void put_json_cost(json *j, const event_copy *save) {
    if (save != NULL) {
        json_put_raw(j, "save", save->json);
    } else {
        json_put_null(j, "save");
    }
}

static void put_step_json(json *j, const pawl_step_info *step, bool stats, const event_copy *save) {
    char time[TEXT_SIZE];
    bool timed = step->unix_time_ns != 0;
    json_begin_object(j, NULL, JSON_INLINE);
    json_put_int(j, "step", step->step);
    json_put_text(j, "status", ls_status_name(step->status));
    json_put_uint(j, "bytes", step->bytes);
    json_put_uint(j, "files", step->files);
    json_put_uint(j, "entries", step->entries);
    json_put_int(j, "unix_time_ns", step->unix_time_ns);
    json_put_text(j, "time", timed ? text_time_utc(time, step->unix_time_ns) : NULL);
    json_put_int(j, "world_size", step->world_size);
    json_put_bool(j, "pinned", step->pinned != 0);
    json_put_bool(j, "being_read", step->being_read != 0);
    const char *metrics = step->metrics_json != NULL ? step->metrics_json : "{}";
    json_put_raw(j, "metrics", metrics);
    json_put_text(j, "why", step->why);
    if (stats) {
        put_json_cost(j, save);
    }
    json_close(j);
}

static void print_steps_json(output *out, const pawl_catalog *catalog, bool stats,
                             const ls_costs *saves) {
    json_begin_array(&out->json, "steps", JSON_LINES);
    for (size_t i = 0; i < pawl_catalog_count(catalog); i++) {
        put_step_json(&out->json, pawl_catalog_get(catalog, i), stats, ls_costs_of(saves, i));
    }
    json_close(&out->json);
}

static bool is_damaged(const pawl_catalog *catalog) {
    for (size_t i = 0; i < pawl_catalog_count(catalog); i++) {
        if (ls_status_is_bad(pawl_catalog_get(catalog, i)->status)) {
            return true;
        }
    }
    return false;
}

/* May all that was found be one checkpoint: files of one directory, and not several checkpoints of
 * TensorFlow, of which the newest would be opened? */
static bool may_be_one(const pawl_survey *survey) {
    size_t count = pawl_survey_count(survey);
    size_t of_tensorflow = 0;
    for (size_t i = 0; i < count; i++) {
        const pawl_found *f = pawl_survey_get(survey, i);
        of_tensorflow += f->format != NULL && strcmp(f->format, "TensorFlow") == 0;
        if (count > 1 && (strchr(f->path, '/') != NULL || of_tensorflow > 1)) {
            return false;
        }
    }
    return true;
}

/* What is there where there is no run. Of several files one that is damaged hides no other. */
static int list_others(output *out, const char *path) {
    SCOPED(scoped_survey) pawl_survey *survey = ls_below_look(out, path);
    int code = EXIT_FAILED;
    bool alone = pawl_survey_count(survey) <= 1;
    if (may_be_one(survey) && about_list(out, path, alone, &code)) {
        return code;
    }
    return pawl_survey_count(survey) > 0 ? ls_below_print(out, survey) : output_fail(out);
}

int verb_ls(const arguments *args, output *out) {
    SCOPED(scoped_catalog) pawl_catalog *catalog = NULL;
    SCOPED(ls_costs_free) ls_costs *saves = NULL;
    const char *run = args->targets[0].run;
    if (out->as_json) {
        json_put_text(&out->json, "run", run);
    }
    const pawl_open_options options = output_open_options(out);
    pawl_status status = pawl_catalog_open(run, &options, &catalog, out->err);
    if (status != PAWL_OK) {
        bool perhaps = status == PAWL_ENOTFOUND || status == PAWL_EUSAGE;
        return perhaps ? list_others(out, run) : output_fail(out);
    }
    if (args->stats && (saves = ls_costs_read(run, catalog, out)) == NULL) {
        return output_fail(out);
    }
    if (out->as_json) {
        print_steps_json(out, catalog, args->stats, saves);
    } else if (args->stats) {
        print_costs(out, catalog, saves);
    } else {
        print_steps(out, catalog);
    }
    return is_damaged(catalog) ? EXIT_DIFFERENT : EXIT_DONE;
}
