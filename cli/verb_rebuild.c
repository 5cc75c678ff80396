/* SPDX-License-Identifier: Apache-2.0 */
/* pawl rebuild: a new index from the data files. */
#include "cli.h"
#include "housekeeping.h"
#include "memory.h"
#include "text.h"

#include <inttypes.h>
#include <string.h>

static void count_data_problem(void *context, const pawl_problem *problem) {
    uint64_t *problems = context;
    *problems += strncmp(problem->file, "data-", strlen("data-")) == 0;
}

/* How many places in the data files are not what the present index says was written; 0 where there
 * is no index to say so. */
static uint64_t proven_damage(output *out, const target *t) {
    SCOPED(scoped_checkpoint) pawl_checkpoint *checkpoint = NULL;
    uint64_t problems = 0;
    pawl_verify_options options = {
        .struct_size = sizeof options,
        .problem = count_data_problem,
        .context = &problems,
    };
    if (pawl_checkpoint_open(t->run, t->step, &out->log, &checkpoint, NULL) == PAWL_OK &&
        pawl_checkpoint_verify(checkpoint, &options, NULL, NULL) == PAWL_OK) {
        return 0;
    }
    return problems;
}

static int refuse_damaged(output *out, const target *t) {
    SCOPED(scoped_free)
    char *attempt = must_printf("rebuilding step %" PRId64
                                ": data files are damaged, and its index proves it; a new index "
                                "would take the damage for what was written",
                                t->step);
    SCOPED(scoped_free)
    char *next = must_printf("see what is damaged with: pawl verify %s@%" PRId64
                             "; to rebuild all the same: pawl rebuild --force %s@%" PRId64,
                             t->run, t->step, t->run, t->step);
    return output_refuse(out, PAWL_EDAMAGED, attempt, next);
}

/* What the checkpoint holds now that it can be opened again. */
static pawl_status report(output *out, const target *t) {
    SCOPED(scoped_checkpoint) pawl_checkpoint *checkpoint = NULL;
    pawl_checkpoint_info about;
    char entries[TEXT_SIZE];
    char files[TEXT_SIZE];
    pawl_status status = pawl_checkpoint_open(t->run, t->step, &out->log, &checkpoint, out->err);
    if (status != PAWL_OK) {
        return status;
    }
    pawl_checkpoint_describe(checkpoint, &about);
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
    if (status == PAWL_OK && !args->force && proven_damage(out, t) > 0) {
        int code = refuse_damaged(out, t);
        (void)housekeeping_close(out, run, PAWL_OK);
        return code;
    }
    if (status == PAWL_OK) {
        status = pawl_run_rebuild(run, t->step, out->err);
    }
    if (status == PAWL_OK) {
        status = report(out, t);
    }
    return housekeeping_close(out, run, status);
}
