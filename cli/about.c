/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint in a few words: what it is called, where it comes from, a row of pawl ls. */
#include "about.h"
#include "cli.h"
#include "memory.h"
#include "text.h"

#include <inttypes.h>
#include <string.h>

char *about_name(int64_t step, const char *path) {
    const char *slash = strrchr(path, '/');
    if (step >= 0) {
        return must_printf("step %" PRId64, step);
    }
    return must_strdup(slash != NULL && slash[1] != '\0' ? slash + 1 : path);
}

char *about_origin(const pawl_checkpoint_info *about) {
    char time[TEXT_SIZE];
    text_time_local(time, about->unix_time_ns);
    return about->step >= 0 ? must_printf("step %" PRId64 ", saved %s", about->step, time)
                            : must_printf("%s, changed %s", about->format, time);
}

void about_json_step(json *j, int64_t step) {
    if (step >= 0) {
        json_put_int(j, "step", step);
    } else {
        json_put_null(j, "step");
    }
}

/* ---- pawl ls -------------------------------------------------------------------------------- */

static void put_row(output *out, const pawl_checkpoint_info *about) {
    static const column columns[] = {
        {.title = "FORMAT"},
        {.title = "CHANGED", .omit_turn = 3},
        {.title = "SIZE", .right = true, .omit_turn = 2},
        {.title = "FILES", .right = true, .omit_turn = 1},
        {.title = "ENTRIES", .right = true},
    };
    char time[TEXT_SIZE];
    char size[TEXT_SIZE];
    table *t = table_new(out, columns, sizeof columns / sizeof columns[0]);
    table_cell(t, "%s", about->format);
    table_cell(t, "%s", text_time_local(time, about->unix_time_ns));
    table_cell(t, "%s", text_bytes(size, about->data_bytes));
    table_cell(t, "%" PRIu64, about->data_files);
    table_cell(t, "%" PRIu64, about->entries);
    table_row(t);
    table_end(t);
}

static void put_json(json *j, const pawl_checkpoint_info *about) {
    json_begin_array(j, "steps", JSON_LINES);
    json_close(j);
    json_begin_object(j, "weights", JSON_INLINE);
    json_put_text(j, "format", about->format);
    json_put_text(j, "path", about->path);
    json_put_int(j, "unix_time_ns", about->unix_time_ns);
    json_put_uint(j, "bytes", about->data_bytes);
    json_put_uint(j, "files", about->data_files);
    json_put_uint(j, "entries", about->entries);
    json_close(j);
}

static void list_opened(output *out, const pawl_checkpoint_info *about) {
    if (out->as_json) {
        put_json(&out->json, about);
    } else {
        put_row(out, about);
    }
}

bool about_list(output *out, const char *path, bool alone, int *code) {
    SCOPED(scoped_checkpoint) pawl_checkpoint *checkpoint = NULL;
    pawl_checkpoint_info about = {.struct_size = sizeof about};
    const pawl_open_options options = output_open_options(out);
    pawl_error *first = out->err;
    pawl_error *err = pawl_error_new();
    pawl_status status = pawl_checkpoint_open(path, &options, &checkpoint, err);
    *code = EXIT_DONE;
    if (status == PAWL_OK) {
        status = pawl_checkpoint_describe(checkpoint, &about, err);
    }
    if (status == PAWL_OK) {
        list_opened(out, &about);
    } else if (status != PAWL_ENOTFOUND && alone) {
        out->err = err; /* there are weights, or should be, and something is wrong with them */
        *code = output_fail(out);
        out->err = first;
    }
    pawl_error_free(err);
    return status == PAWL_OK || (status != PAWL_ENOTFOUND && alone);
}
