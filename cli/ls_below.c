/* SPDX-License-Identifier: Apache-2.0 */
/* pawl ls of a directory that is no run: what there is in it, of any format. */
#include "ls_below.h"
#include "about.h"
#include "cli.h"
#include "ls_status.h"
#include "memory.h"
#include "text.h"

#include <inttypes.h>

pawl_survey *ls_below_look(const output *out, const char *path) {
    pawl_survey *survey = NULL;
    const pawl_open_options options = output_open_options(out);
    pawl_error *err = pawl_error_new();
    if (pawl_survey_open(path, &options, &survey, err) != PAWL_OK) {
        survey = NULL;
    }
    pawl_error_free(err);
    return survey;
}

static void put_row(table *t, const pawl_found *f) {
    char text[TEXT_SIZE];
    table_cell(t, "%s", f->path);
    table_cell(t, "%s", f->format != NULL ? f->format : "-");
    table_styled(t, ls_status_style(f->status), "%s", ls_status_name(f->status));
    if (f->step >= 0) {
        table_cell(t, "%" PRId64, f->step);
    } else {
        table_cell(t, "-");
    }
    table_cell(t, "%s", text_time_local(text, f->unix_time_ns));
    table_cell(t, "%s", text_bytes(text, f->bytes));
    if (f->why != NULL) {
        table_cell(t, "%s", f->why);
    } else if (f->steps > 0) {
        table_cell(t, "%s", text_count(text, f->steps, "step", "steps"));
    }
    table_row(t);
}

static void put_table(output *out, const pawl_survey *survey) {
    static const column columns[] = {
        {.title = "PATH", .shorten_turn = 2},
        {.title = "FORMAT"},
        {.title = "STATUS"},
        {.title = "STEP", .right = true},
        {.title = "CHANGED", .omit_turn = 1},
        {.title = "SIZE", .right = true, .omit_turn = 2},
        {.title = "NOTES", .shorten_turn = 1, .keeps = 20},
    };
    table *t = table_new(out, columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < pawl_survey_count(survey); i++) {
        put_row(t, pawl_survey_get(survey, i));
    }
    table_end(t);
    if (pawl_survey_left_out(survey) != NULL) {
        putchar('\n');
        output_line(out, "not looked at: %s", pawl_survey_left_out(survey));
    }
}

static void put_json(json *j, const pawl_survey *survey) {
    json_begin_array(j, "checkpoints", JSON_LINES);
    for (size_t i = 0; i < pawl_survey_count(survey); i++) {
        const pawl_found *f = pawl_survey_get(survey, i);
        json_begin_object(j, NULL, JSON_INLINE);
        json_put_text(j, "path", f->path);
        json_put_text(j, "format", f->format);
        json_put_text(j, "status", ls_status_name(f->status));
        about_json_step(j, f->step);
        json_put_uint(j, "steps", f->steps);
        json_put_uint(j, "bytes", f->bytes);
        json_put_uint(j, "files", f->files);
        json_put_int(j, "unix_time_ns", f->unix_time_ns);
        json_put_text(j, "why", f->why);
        json_close(j);
    }
    json_close(j);
    json_put_text(j, "left_out", pawl_survey_left_out(survey));
}

int ls_below_print(output *out, const pawl_survey *survey) {
    bool damaged = false;
    for (size_t i = 0; i < pawl_survey_count(survey); i++) {
        damaged = damaged || ls_status_is_bad(pawl_survey_get(survey, i)->status);
    }
    if (out->as_json) {
        put_json(&out->json, survey);
    } else {
        put_table(out, survey);
    }
    return damaged ? EXIT_DIFFERENT : EXIT_DONE;
}
