/* SPDX-License-Identifier: Apache-2.0 */
/* pawl rm: removes one checkpoint. */
#include "cli.h"
#include "housekeeping.h"
#include "text.h"

#include <inttypes.h>

int verb_rm(const arguments *args, output *out) {
    const target *t = &args->targets[0];
    pawl_run *run = NULL;
    pawl_status status = housekeeping_open(args, out, &run);
    if (status == PAWL_OK) {
        status = pawl_run_remove(run, t->step, args->force, out->err);
    }
    if (status == PAWL_OK && out->as_json) {
        json_put_text(&out->json, "run", t->run);
        json_put_int(&out->json, "removed", t->step);
    } else if (status == PAWL_OK) {
        printf("removed step %" PRId64 "\n", t->step);
    }
    return housekeeping_close(out, run, status);
}
