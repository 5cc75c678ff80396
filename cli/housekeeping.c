/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing a run for rm, gc and rebuild. */
#include "housekeeping.h"

enum { CLOSE_TIMEOUT_S = 60 };

/* The library logs at INFO whom it waits for: that goes to the progress line. */
static void on_log(void *context, pawl_log_level level, const char *text) {
    output *out = context;
    if (level <= out->log.level) {
        out->log.write(out->log.context, level, text);
    } else {
        progress_say(&out->progress, text);
    }
}

pawl_status housekeeping_open(const arguments *args, output *out, pawl_run **run) {
    const char *path = args->targets[0].run;
    SCOPED(scoped_catalog) pawl_catalog *catalog = NULL;
    /* Opening for writing creates files: make sure first that this is a run. */
    const pawl_open_options reading = output_open_options(out);
    pawl_status status = pawl_catalog_open(path, &reading, &catalog, out->err);
    if (status != PAWL_OK) {
        return status;
    }
    const pawl_log log = {
        .struct_size = sizeof log, .write = on_log, .context = out, .level = PAWL_LOG_INFO};
    pawl_run_options options = {.struct_size = sizeof options, .must_exist = 1, .log = &log};
    if (args->wait_s >= 0) {
        options.takeover_wait_s = args->wait_s > 0 ? args->wait_s : -1;
    }
    progress_begin(&out->progress, "opening");
    status = pawl_run_open(path, &options, run, out->err);
    progress_end(&out->progress);
    return status;
}

int housekeeping_close(output *out, pawl_run *run, pawl_status status) {
    int code = status == PAWL_OK ? EXIT_DONE : output_fail(out);
    if (run != NULL &&
        pawl_run_close(run, CLOSE_TIMEOUT_S, status == PAWL_OK ? out->err : NULL) != PAWL_OK) {
        code = status == PAWL_OK ? output_fail(out) : code;
    }
    return code;
}
