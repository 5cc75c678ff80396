/* SPDX-License-Identifier: Apache-2.0 */
/* Owning a run for as long as it takes to tidy it. */
#include "housekeeping.h"

enum { DEADLINE_S = 60 };

pawl_status housekeeping_open(const arguments *args, output *out, pawl_run **run) {
    const char *path = args->targets[0].run;
    SCOPED(scoped_catalog) pawl_catalog *catalog = NULL;
    /* The catalog tells a run from any other directory, in which nothing must be written. */
    pawl_status status = pawl_catalog_open(path, &out->log, &catalog, out->err);
    if (status != PAWL_OK) {
        return status;
    }
    pawl_run_options options = {
        .struct_size = sizeof options,
        .must_exist = 1,
        .log = out->log,
    };
    if (args->wait_s >= 0) {
        options.takeover_wait_s = args->wait_s > 0 ? args->wait_s : -1;
    }
    return pawl_run_open(path, &options, run, out->err);
}

int housekeeping_close(output *out, pawl_run *run, pawl_status status) {
    int code = status == PAWL_OK ? EXIT_DONE : output_fail(out);
    if (run != NULL &&
        pawl_run_close(run, DEADLINE_S, status == PAWL_OK ? out->err : NULL) != PAWL_OK) {
        code = status == PAWL_OK ? output_fail(out) : code;
    }
    return code;
}
