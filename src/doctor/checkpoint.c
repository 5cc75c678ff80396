/* SPDX-License-Identifier: Apache-2.0 */
/* Is a checkpoint whole (R08)? Of another tool, and what all formats have in common. */
#include "doctor/examination.h"
#include "path/path.h"
#include "survey/survey.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define MOST_PROBLEMS 3u /* told one by one: one block of bytes may hit many entries */
#define MOST_FOUND    12u

/* ---- reading -------------------------------------------------------------------------------- */

typedef struct reading {
    examination *x;
    const char *what;
    pawl_severity severity;
    uint64_t deadline_ns;
    uint64_t problems, done_bytes, of_bytes;
} reading;

static void tell_problem(void *context, const pawl_problem *problem) {
    reading *r = context;
    char first[600];
    if (r->problems++ >= MOST_PROBLEMS) {
        return;
    }
    (void)snprintf(first, sizeof first, "%.*s", (int)strcspn(problem->text, "\n"), problem->text);
    doctor_evidence(r->x, "bytes %llu to %llu of the file", (unsigned long long)problem->offset,
                    (unsigned long long)(problem->offset + problem->length));
    doctor_tell(r->x, "R08", r->severity, NULL, "%s is damaged: %s, in %s", r->what, first,
                problem->file != NULL ? problem->file : "a file of it");
}

static int is_late(void *context) {
    const reading *r = context;
    return r->deadline_ns != UINT64_MAX && platform_late(r->x->os, r->deadline_ns);
}

static void note_progress(void *context, uint64_t done_bytes, uint64_t of_bytes) {
    reading *r = context;
    r->done_bytes = done_bytes;
    r->of_bytes = of_bytes;
}

uint64_t doctor_verify_deadline(const examination *x) {
    double verify_s = x->asked->more->verify_s;
    return verify_s < 0 ? UINT64_MAX : platform_deadline_ns(x->os, verify_s);
}

doctor_verdict doctor_verify(examination *x, pawl_checkpoint *c, const char *what,
                             pawl_severity severity, uint64_t deadline_ns) {
    struct pawl_error story = ERROR_INIT;
    pawl_verify_result result = {.files = 0};
    reading r = {.x = x, .what = what, .severity = severity, .deadline_ns = deadline_ns};
    const pawl_verify_options options = {
        .problem = tell_problem, .progress = note_progress, .context = &r, .stop = is_late};
    doctor_verdict verdict = {.opened = true};
    pawl_status status = checkpoint_verify(c, &options, &result, &story);
    verdict.damaged = r.problems > 0;
    verdict.finished = status == PAWL_OK || status == PAWL_EDAMAGED;
    verdict.done_bytes = r.done_bytes;
    verdict.of_bytes = r.of_bytes;
    verdict.unverified = result.unverified;
    if (status != PAWL_OK && status != PAWL_ECANCELED && r.problems == 0) {
        verdict.damaged = true;
        doctor_tell_error_as(x, "R08", severity, &story);
    }
    if (r.problems > MOST_PROBLEMS) {
        doctor_tell(x, "R08", severity, "'pawl verify' lists them",
                    "%s is damaged in %llu more places, or entries", what,
                    (unsigned long long)(r.problems - MOST_PROBLEMS));
    }
    return verdict;
}

/* ---- a checkpoint of another tool ----------------------------------------------------------- */

/* Is that a failure of what is in a file, and not of the path? */
static bool is_of_file(const examination *x, const pawl_error *story) {
    struct stat found;
    char index[4096];
    bool content = story->status == PAWL_EDAMAGED || story->status == PAWL_ELIMIT ||
                   story->status == PAWL_EUNSUPPORTED;
    (void)snprintf(index, sizeof index, "%s.index", x->path); /* TensorFlow's prefix */
    return content && ((stat(x->path, &found) == 0 && S_ISREG(found.st_mode)) ||
                       (stat(index, &found) == 0 && S_ISREG(found.st_mode)));
}

/* Opening one of its steps would leave a mark there for a moment. */
static bool is_run(const examination *x) {
    static const pawl_log silent = {0};
    struct pawl_error ignored = ERROR_INIT;
    CLEANUP(store_destroy_pointer) store *s = NULL;
    pawl_catalog *catalog = NULL;
    if (storage_open_path(x->storage, x->path, false, &s, &ignored) != PAWL_OK ||
        catalog_open(s, x->os, &silent, &catalog, &ignored) != PAWL_OK) {
        return false;
    }
    bool has_steps = pawl_catalog_count(catalog) > 0;
    pawl_catalog_free(catalog);
    return has_steps;
}

void doctor_find_foreign(examination *x) {
    struct pawl_error story = ERROR_INIT;
    pawl_checkpoint *c = NULL;
    if (is_run(x)) {
        return;
    }
    if (x->asked->open(x->path, x->storage, CHECKPOINT_NEWEST, &c, &story) != PAWL_OK) {
        x->broken = is_of_file(x, &story);
        if (x->broken) { /* else why is told of the path, or of the run */
            x->part = "checkpoint";
            doctor_tell_error(x, "R08", &story);
        }
        return;
    }
    if (checkpoint_step(c) >= 0) {
        pawl_checkpoint_close(c);
    } else {
        x->foreign = c;
    }
}

/* ---- what else is below a directory --------------------------------------------------------- */

static void tell_found(examination *x, const pawl_found *found) {
    char word[1024];
    char path[2048];
    char next[1200];
    char bytes[32];
    const char *format = found->format != NULL ? found->format : "of an unknown format";
    (void)snprintf(path, sizeof path, "%s/%s", x->path, found->path);
    doctor_evidence(x, "%llu file%s, %s", (unsigned long long)found->files,
                    found->files == 1 ? "" : "s", text_bytes(bytes, found->bytes));
    if (found->status == PAWL_STEP_UNFINISHED) {
        struct stat there;
        bool prefix = stat(path, &there) != 0; /* of TensorFlow: its files have endings */
        (void)snprintf(next, sizeof next,
                       "look whether a job is still writing it; else remove it: rm -r %s%s",
                       doctor_word(word, path), prefix ? ".*" : "");
        doctor_command(x, "rm -r %s%s", word, prefix ? ".*" : "");
        doctor_tell(x, "R09", PAWL_SEVERITY_WARNING, next, "%s (%s) is unfinished: %s", found->path,
                    format, found->why != NULL ? found->why : "its end is missing");
    } else {
        doctor_command(x, "pawl verify %s", doctor_word(word, path));
        doctor_tell(x, "R08", PAWL_SEVERITY_ERROR, "restore another checkpoint",
                    "%s (%s) is damaged: %s", found->path, format,
                    found->why != NULL ? found->why : "some of it is missing");
    }
}

/* `alone`: nothing has been told of what is there yet. */
static void tell_survey(examination *x, const pawl_survey *survey, bool alone) {
    size_t count = pawl_survey_count(survey);
    size_t whole = 0;
    size_t told = 0;
    const pawl_found *newest = NULL;
    for (size_t i = 0; i < count; i++) {
        const pawl_found *found = pawl_survey_get(survey, i);
        if (strcmp(found->path, ".") == 0 && found->status == PAWL_STEP_UNFINISHED) {
            continue; /* the run itself, which has no step yet */
        }
        bool is_newer = newest == NULL || found->unix_time_ns > newest->unix_time_ns;
        whole += found->status == PAWL_STEP_COMMITTED;
        newest = found->status == PAWL_STEP_COMMITTED && is_newer ? found : newest;
        if (found->status != PAWL_STEP_COMMITTED && told++ < MOST_FOUND) {
            tell_found(x, found);
        }
    }
    if (told > MOST_FOUND) {
        doctor_tell(x, "R08", PAWL_SEVERITY_WARNING, "'pawl ls' lists them",
                    "%zu more checkpoints there are unfinished or damaged", told - MOST_FOUND);
    }
    if (whole > 0 && alone) {
        char word[1024];
        char path[2048];
        (void)snprintf(path, sizeof path, "%s/%s", x->path, newest->path);
        doctor_command(x, "pawl doctor %s", doctor_word(word, path));
        doctor_tell(x, "ok", PAWL_SEVERITY_NOTE, NULL,
                    "no run, but %zu checkpoint%s that %s complete by names and sizes; the newest "
                    "is %s (%s)",
                    whole, whole > 1 ? "s" : "", whole > 1 ? "are" : "is", newest->path,
                    newest->format != NULL ? newest->format : "pawl");
    }
}

void doctor_examine_below(examination *x, store *s) {
    struct pawl_error ignored = ERROR_INIT;
    CLEANUP(store_destroy_pointer) store *links = NULL;
    pawl_survey *survey = NULL;
    if (storage_is_local(x->storage) && path_open_of_links(s->root, &links, &ignored) != PAWL_OK) {
        links = NULL;
    }
    if (survey_open(s, links != NULL ? links : s, &survey, &ignored) == PAWL_OK) {
        tell_survey(x, survey, x->foreign == NULL);
        pawl_survey_free(survey);
    }
}

/* ---- the checkpoint itself, and what lies beside it ------------------------------------------ */

static void tell_foreign(examination *x) {
    pawl_checkpoint_info info;
    char word[1024];
    char bytes[32];
    char done[32];
    checkpoint_describe(x->foreign, &info);
    x->last_unix_ns = info.unix_time_ns;
    x->newest_bytes = info.data_bytes;
    doctor_verdict v = doctor_verify(x, x->foreign, checkpoint_label(x->foreign),
                                     PAWL_SEVERITY_ERROR, doctor_verify_deadline(x));
    if (v.damaged) {
        doctor_command(x, "pawl verify %s", doctor_word(word, x->path));
        doctor_tell(x, "R08", PAWL_SEVERITY_ERROR,
                    "restore another checkpoint; 'pawl verify' lists all that is damaged",
                    "%s (%s, %s) is not safe to restore", info.path, info.format,
                    text_bytes(bytes, info.data_bytes));
    } else if (v.finished) {
        doctor_tell(x, "ok", PAWL_SEVERITY_NOTE, NULL, "%s (%s, %s, %llu entries) is whole%s%s",
                    info.path, info.format, text_bytes(bytes, info.data_bytes),
                    (unsigned long long)info.entries, v.unverified != NULL ? ": " : "",
                    v.unverified != NULL ? v.unverified
                                         : ", and all of it is as its checksums say");
    } else {
        doctor_command(x, "pawl verify %s", doctor_word(word, x->path));
        doctor_tell(x, "ok", PAWL_SEVERITY_NOTE, "'pawl verify' reads all of it",
                    "%s (%s, %s, %llu entries): no damage in the %s that were read", info.path,
                    info.format, text_bytes(bytes, info.data_bytes),
                    (unsigned long long)info.entries, text_bytes(done, v.done_bytes));
    }
}

void doctor_examine_foreign(examination *x) {
    struct pawl_error ignored = ERROR_INIT;
    CLEANUP(store_destroy_pointer) store *s = NULL;
    tell_foreign(x);
    if (storage_open_path(x->storage, x->path, false, &s, &ignored) == PAWL_OK) {
        doctor_examine_below(x, s); /* the path is a directory */
    }
}
