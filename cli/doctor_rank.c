/* SPDX-License-Identifier: Apache-2.0 */
/* Which rank of a job the command was started as. */
#include "doctor_rank.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int by_options(const arguments *args, output *out, doctor_rank *r) {
    const char *verb = "doctor";
    if (args->alone) {
        return output_usage(out, verb, "--alone and --rank or --ranks contradict each other");
    }
    if (args->rank < 0 || args->ranks < 0 || args->launch == NULL) {
        return output_usage(out, verb, "--rank, --ranks and --launch belong together");
    }
    if (args->rank >= args->ranks) {
        return output_usage(out, verb, "--rank %lld is not below --ranks %lld",
                            (long long)args->rank, (long long)args->ranks);
    }
    r->found.rank = (int)args->rank;
    r->found.world_size = (int)args->ranks;
    r->found.source = "options";
    (void)snprintf(r->found.text, sizeof r->found.text,
                   "rank %d of %d, as --rank and --ranks say; this start of the job is %s",
                   r->found.rank, r->found.world_size, args->launch);
    return EXIT_DONE;
}

static int by_environment(output *out, doctor_rank *r) {
    if (pawl_group_discover((const char *const *)environ, &r->found, out->err) != PAWL_OK) {
        (void)output_fail(out);
        return EXIT_FAILED; /* any other code would be a statement about the run */
    }
    return EXIT_DONE;
}

/* Every rank fails in this way, so only rank 0 prints it. */
static int refuse_nameless(output *out, const doctor_rank *r) {
    if (r->found.rank > 0) {
        output_withhold(out);
        return EXIT_USAGE;
    }
    return output_usage(out, "doctor",
                        "the ranks cannot find each other without a name for this start of the "
                        "job; give --launch ID, the same on all of them, or --alone (%s)",
                        r->found.text);
}

int doctor_rank_find(const arguments *args, output *out, doctor_rank *r) {
    int code = EXIT_DONE;
    *r = (doctor_rank){.group = {.struct_size = sizeof r->group, .world_size = 1},
                       .found = {.struct_size = sizeof r->found, .world_size = 1}};
    bool told = args->rank >= 0 || (args->ranks >= 0 && args->launch != NULL);
    if (told || (args->ranks >= 0 && args->alone)) {
        code = by_options(args, out, r);
    } else if (!args->alone) {
        code = by_environment(out, r);
    }
    if (code != EXIT_DONE || r->found.world_size == 1) {
        return code;
    }
    r->group.rank = r->found.rank;
    r->group.world_size = r->found.world_size;
    r->group.launch = args->launch != NULL ? args->launch : r->found.launch;
    return r->group.launch[0] != '\0' ? EXIT_DONE : refuse_nameless(out, r);
}
