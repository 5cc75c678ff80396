/* SPDX-License-Identifier: Apache-2.0 */
/* What the machine and the job's start say: ranks (S12), clock (E03), kernel. */
#include "doctor/examination.h"
#include "group/group.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define CLOCK_SLACK_S 60.0                               /* clocks of hosts differ by less */
#define BEFORE_PAWL   (INT64_C(1735689600) * 1000000000) /* 2025-01-01: no clock that is set */

/* Returns how many ranks are on this machine, as far as that is said. */
static int examine_ranks(examination *x) {
    struct pawl_error story = ERROR_INIT;
    pawl_group_found found = {.struct_size = sizeof(found)};
    const pawl_doctor_options *more = x->asked->more;
    if (more->environment == NULL) {
        return 1;
    }
    if (group_discover(more->environment, &found, &story) != PAWL_OK) {
        doctor_tell_error(x, "S12", &story);
        return 1;
    }
    if (more->ranks > 0 && found.world_size != more->ranks && found.source != NULL &&
        (found.world_size > 1 || x->ranks->world_size > 1)) {
        doctor_evidence(x, "%s", found.text);
        doctor_tell(x, "S12", PAWL_SEVERITY_ERROR,
                    "start as many ranks as the job has, or unset the variables that say otherwise",
                    "the job is to have %lld ranks, but its launcher says %d: %s",
                    (long long)more->ranks, found.world_size, found.text);
    } else {
        doctor_tell(x, "ok", PAWL_SEVERITY_NOTE, NULL, "%s", found.text);
    }
    return found.local_size > 1 ? found.local_size : 1;
}

static void examine_clock(examination *x) {
    char behind[32];
    int64_t now = x->os->unix_time_ns(x->os->context);
    double ahead_s = (double)(x->last_unix_ns - now) / NANOSECONDS;
    if (now < BEFORE_PAWL) {
        doctor_evidence(x, "%lld s since 1970", (long long)(now / 1000000000));
        doctor_tell(x, "E03", PAWL_SEVERITY_WARNING, "set the clock, for example by NTP",
                    "the clock of this machine is years behind: it was never set");
    } else if (x->last_unix_ns > 0 && ahead_s > CLOCK_SLACK_S) {
        doctor_evidence(x, "now %lld, the newest there %lld (ns since 1970)", (long long)now,
                        (long long)x->last_unix_ns);
        doctor_tell(
            x, "E03", PAWL_SEVERITY_WARNING,
            "set the clocks of all hosts, for example by NTP; no checkpoint depends on them",
            "what was saved there last is %s ahead of this machine's clock: one of the two "
            "clocks is wrong, and times that are shown are, too",
            text_seconds(behind, ahead_s));
    }
}

static void examine_kernel(examination *x) {
    struct utsname name;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    if (uname(&name) == 0) {
        doctor_tell(x, "ok", PAWL_SEVERITY_NOTE, NULL, "%s %s, %s, %ld processor%s", name.sysname,
                    name.release, name.machine, processors, processors == 1 ? "" : "s");
    }
}

void doctor_examine_environment(examination *x) {
    x->part = "environment";
    int ranks_here = examine_ranks(x);
    doctor_examine_memory(x, ranks_here);
    doctor_examine_limits(x);
    examine_clock(x);
    examine_kernel(x);
}
