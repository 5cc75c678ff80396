/* SPDX-License-Identifier: Apache-2.0 */
/* What interrupted saves of the run left behind, and whose it is (S09). */
#include "doctor/examination.h"
#include "presence/presence.h"

#include <stdio.h>
#include <string.h>

#define MOST_UNFINISHED 8u
#define MOST_FILES      1000000u
#define ATTEMPT_DIGITS  12u

/* The attempt that a file's name has: "data-4f0c9a1be287-1-00000-of-00001.safetensors". */
static bool attempt_in(const char *name, char out[16]) {
    const char *dash = strchr(name, '-');
    if (dash == NULL || strspn(dash + 1, "0123456789abcdef") != ATTEMPT_DIGITS) {
        return false;
    }
    (void)snprintf(out, 16, "%.*s", (int)ATTEMPT_DIGITS, dash + 1);
    return true;
}

/* "": none of the files there says. */
static void find_attempt(store *s, int64_t step, char out[16]) {
    struct pawl_error ignored = ERROR_INIT;
    CLEANUP(arena_free) arena memory = {0};
    char directory[64];
    char **names = NULL;
    size_t count = 0;
    out[0] = '\0';
    name_step(directory, step);
    if (store_names(s, directory, MOST_FILES, &memory, &names, &count, &ignored) != PAWL_OK) {
        return;
    }
    for (size_t i = 0; i < count && !attempt_in(names[i], out); i++) {
    }
}

/* Whose attempt it is, as far as the owner's record tells. */
static void describe_writer(char out[400], const char *attempt, const owner_sight *holder) {
    if (attempt[0] == '\0') {
        (void)snprintf(out, 400, "nothing says of which attempt");
    } else if (holder->readable && strcmp(attempt, holder->attempt) == 0) {
        (void)snprintf(out, 400, "of attempt %s (host %.200s, pid %lld%s)", attempt,
                       holder->who.host, (long long)holder->who.pid,
                       !holder->present                ? ", which has closed the run"
                       : holder->alive == PROCESS_DEAD ? ", which has ended"
                                                       : "");
    } else {
        (void)snprintf(out, 400, "of attempt %s, an earlier one", attempt);
    }
}

static void tell_unfinished(examination *x, store *s, const pawl_step_info *info,
                            const owner_sight *holder) {
    char attempt[16];
    char writer[400];
    char bytes[32];
    char word[1024];
    find_attempt(s, info->step, attempt);
    describe_writer(writer, attempt, holder);
    bool at_work = holder->present && holder->readable && holder->alive != PROCESS_DEAD;
    if (at_work && attempt[0] == '\0') { /* a step is removed beginning with its manifest */
        doctor_tell(x, "ok", PAWL_SEVERITY_NOTE, NULL,
                    "step %lld is being removed, or begun, by the job", (long long)info->step);
        return;
    }
    if (at_work && strcmp(attempt, holder->attempt) == 0) {
        doctor_tell(x, "ok", PAWL_SEVERITY_NOTE, NULL, "step %lld is being saved, %s",
                    (long long)info->step, writer);
        return;
    }
    doctor_evidence(x, "%llu %s, no manifest", (unsigned long long)info->files,
                    text_noun(info->files, "file", "files"));
    doctor_command(x, "pawl gc %s", doctor_word(word, x->path));
    doctor_tell(x, "S09", PAWL_SEVERITY_WARNING,
                "nothing needs to be done: the next job removes it after its first save; 'pawl gc' "
                "does so now",
                "step %lld was left unfinished by a save that was interrupted, %s: %s in %llu %s",
                (long long)info->step, writer, text_bytes(bytes, info->bytes),
                (unsigned long long)info->files, text_noun(info->files, "file", "files"));
}

void doctor_examine_unfinished(examination *x, store *s, const pawl_catalog *catalog) {
    struct pawl_error ignored = ERROR_INIT;
    owner_sight holder = {.present = false};
    size_t told = 0;
    if (owner_look(s, x->os, &holder, &ignored) != PAWL_OK) {
        holder = (owner_sight){.present = false};
    }
    for (size_t i = 0; i < pawl_catalog_count(catalog); i++) {
        const pawl_step_info *info = pawl_catalog_get(catalog, i);
        if (info->status == PAWL_STEP_UNFINISHED && told++ < MOST_UNFINISHED) {
            tell_unfinished(x, s, info, &holder);
        }
    }
    if (told > MOST_UNFINISHED) {
        doctor_tell(x, "S09", PAWL_SEVERITY_WARNING, "'pawl ls' lists them",
                    "%zu more %s left unfinished", told - MOST_UNFINISHED,
                    text_noun(told - MOST_UNFINISHED, "step was", "steps were"));
    }
}
