/* SPDX-License-Identifier: Apache-2.0 */
/* pawl rebuild: a new index from the data files. */
#include "cli.h"
#include "housekeeping.h"
#include "text.h"

#include <inttypes.h>

/* Opens the rebuilt checkpoint and says what it holds. */
static pawl_status report_rebuilt(output *out, const target *t) {
    SCOPED(scoped_checkpoint) pawl_checkpoint *checkpoint = NULL;
    pawl_checkpoint_info about = {.struct_size = sizeof about};
    char entries[TEXT_SIZE];
    char files[TEXT_SIZE];
    pawl_status status = target_open(t->run, t->step, out, &checkpoint);
    if (status == PAWL_OK) {
        status = pawl_checkpoint_describe(checkpoint, &about, out->err);
    }
    if (status != PAWL_OK) {
        return status;
    }
    if (out->as_json) {
        json_put_text(&out->json, "run", t->run);
        json_put_int(&out->json, "rebuilt", t->step);
        json_put_uint(&out->json, "entries", about.entries);
        json_put_uint(&out->json, "data_files", about.data_files);
        json_put_uint(&out->json, "data_bytes", about.data_bytes);
        return PAWL_OK;
    }
    printf("rebuilt the index of step %" PRId64 " from %s: %s\n", t->step,
           text_count(files, about.data_files, "data file", "data files"),
           text_count(entries, about.entries, "entry", "entries"));
    return PAWL_OK;
}

int verb_rebuild(const arguments *args, output *out) {
    const target *t = &args->targets[0];
    pawl_run *run = NULL;
    pawl_status status = housekeeping_open(args, out, &run);
    if (status == PAWL_OK) {
        status = pawl_run_rebuild(run, t->step, args->force, out->err);
    }
    if (status == PAWL_OK) {
        status = report_rebuilt(out, t);
    }
    return housekeeping_close(out, run, status);
}
