/* SPDX-License-Identifier: Apache-2.0 */
/* Does another process write to the run (S10)? */
#include "doctor/examination.h"
#include "presence/presence.h"

#include <stdio.h>
#include <string.h>

/* ", heartbeat 3 s ago"; "" where the storage keeps no times. */
static const char *heartbeat_words(char out[48], const owner_sight *seen) {
    out[0] = '\0';
    if (seen->heartbeat_age_s >= 0) {
        snprintf(out, 48, ", heartbeat %.0f s ago", seen->heartbeat_age_s);
    }
    return out;
}

static bool is_this_process(const examination *x, const process_identity *who) {
    struct pawl_error ignored = ERROR_INIT;
    process_identity self;
    return x->os->identity(x->os->context, &self, &ignored) == PAWL_OK && self.pid == who->pid &&
           self.start_ticks == who->start_ticks && strcmp(self.host, who->host) == 0 &&
           strcmp(self.boot_id, who->boot_id) == 0 &&
           strcmp(self.pid_namespace, who->pid_namespace) == 0;
}

static void tell_owner(examination *x, const owner_sight *seen) {
    const char *host = seen->who.host;
    long long pid = (long long)seen->who.pid;
    char heartbeat[48];
    heartbeat_words(heartbeat, seen);
    if (is_this_process(x, &seen->who)) {
        doctor_tell(x, "S10", PAWL_SEVERITY_ERROR,
                    "ask before the run is opened, or close it: only one writes to a run",
                    "this process itself writes to this run: attempt %s%s", seen->attempt,
                    heartbeat);
    } else if (seen->alive == PROCESS_DEAD) {
        doctor_tell(
            x, "ok", PAWL_SEVERITY_NOTE, NULL,
            "the last writer (host %s, pid %lld) has ended without closing the run; opening it "
            "takes over",
            host, pid);
    } else if (seen->alive == PROCESS_ALIVE) {
        doctor_tell(x, "S10", PAWL_SEVERITY_ERROR,
                    "stop that process, or save to another directory",
                    "another process writes to this run: host %s, pid %lld, attempt %s%s", host,
                    pid, seen->attempt, heartbeat);
    } else {
        doctor_tell(
            x, "S10", PAWL_SEVERITY_WARNING,
            "opening the run watches its heartbeat, and takes over once it has stood still for a "
            "whole lease",
            "a process of another host may be writing to this run: host %s, pid %lld, attempt "
            "%s%s, lease %.0f s",
            host, pid, seen->attempt, heartbeat, seen->lease_s);
    }
}

void doctor_examine_owner(examination *x, store *s) {
    struct pawl_error story = ERROR_INIT;
    owner_sight seen;
    if (owner_look(s, x->os, &seen, &story) != PAWL_OK) {
        doctor_tell_error(x, doctor_id_of_path_error(&story), &story);
    } else if (!seen.present) {
        doctor_tell(x, "ok", PAWL_SEVERITY_NOTE, NULL, "no other process writes to this run");
    } else if (!seen.readable) {
        doctor_tell(x, "S10", PAWL_SEVERITY_WARNING, "look again in a few seconds",
                    "an owner record is just being written, or was left unfinished by a crash");
    } else {
        tell_owner(x, &seen);
    }
}
