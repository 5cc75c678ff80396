/* SPDX-License-Identifier: Apache-2.0 */
/* Is a checkpoint whole (R08)? What all formats have in common, and what is below a directory. */
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
    uint64_t problems, denied; /* damage; and what this process may not read */
    uint64_t done_bytes, of_bytes;
} reading;

bool doctor_tell_unread(examination *x, const char *what, const pawl_error *story) {
    struct pawl_error told = *story;
    if (story->status != PAWL_EPERMISSION && story->status != PAWL_ENOMEM) {
        return false;
    }
    error_wrap(&told, "whether %s is whole could not be found out", what);
    doctor_tell_error(x, doctor_id_of_path_error(story), &told);
    return true;
}

/* A file that may not be opened is no damage. Only the line with the system's own words is looked
 * at: in others there are names, which may be anything. */
static const char *id_of_problem(const pawl_problem *problem) {
    const char *line = strstr(problem->text, "\n  system:");
    size_t n = line != NULL ? strcspn(line + 1, "\n") + 1 : 0;
    char system[256];
    (void)snprintf(system, sizeof system, "%.*s", (int)n, line != NULL ? line : "");
    bool denied = strstr(system, "(EACCES, ") != NULL || strstr(system, "(EPERM, ") != NULL;
    return denied ? "P02" : "R08";
}

static void tell_problem(void *context, const pawl_problem *problem) {
    reading *r = context;
    char first[600];
    const char *id = id_of_problem(problem);
    bool denied = strcmp(id, "P02") == 0;
    if (denied && r->denied++ > 0) {
        return; /* of each entry of the file */
    }
    r->problems += !denied;
    if (r->problems > MOST_PROBLEMS) {
        return;
    }
    (void)snprintf(first, sizeof first, "%.*s", (int)strcspn(problem->text, "\n"), problem->text);
    if (denied) {
        const char *found = strstr(problem->text, "found: ");
        if (found != NULL) {
            doctor_evidence(r->x, "%.*s", (int)strcspn(found, "\n"), found);
        }
        doctor_tell(r->x, id, r->severity, "look again as a user who may read it",
                    "%s could not be read: %s, in %s: permission denied", r->what, first,
                    problem->file != NULL ? problem->file : "a file of it");
        return;
    }
    doctor_evidence(r->x, "bytes %llu to %llu of the file", (unsigned long long)problem->offset,
                    (unsigned long long)(problem->offset + problem->length));
    doctor_tell(r->x, id, r->severity, NULL, "%s is damaged: %s, in %s", r->what, first,
                problem->file != NULL ? problem->file : "a file of it");
}

static int is_late(void *context) {
    const reading *r = context;
    if (doctor_is_stopped(r->x)) {
        return 1;
    }
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
    verdict.unread = r.denied > 0 && !verdict.damaged;
    verdict.finished = status == PAWL_OK || status == PAWL_EDAMAGED || verdict.unread;
    verdict.done_bytes = r.done_bytes;
    verdict.of_bytes = r.of_bytes;
    verdict.unverified = result.unverified;
    if (status != PAWL_OK && status != PAWL_ECANCELED && r.problems == 0 && !verdict.unread) {
        verdict.unread = doctor_tell_unread(x, what, &story);
        verdict.damaged = !verdict.unread;
        if (verdict.damaged) {
            doctor_tell_error_as(x, "R08", severity, &story);
        }
    }
    if (r.problems > MOST_PROBLEMS) {
        doctor_tell(x, "R08", severity, "'pawl verify' lists them", "%s is damaged in %llu more %s",
                    what, (unsigned long long)(r.problems - MOST_PROBLEMS),
                    text_noun(r.problems - MOST_PROBLEMS, "place, or entry", "places, or entries"));
    }
    return verdict;
}

/* ---- what else is below a directory --------------------------------------------------------- */

static void tell_found(examination *x, const pawl_found *found) {
    char word[1024];
    char path[2048];
    char next[1200];
    char bytes[32];
    const char *format = found->format != NULL ? found->format : "of an unknown format";
    bool itself = strcmp(found->path, ".") == 0;
    const char *name = itself ? x->path : found->path;
    (void)snprintf(path, sizeof path, "%s%s%s", x->path, itself ? "" : "/",
                   itself ? "" : found->path);
    doctor_evidence(x, "%llu file%s, %s", (unsigned long long)found->files,
                    found->files == 1 ? "" : "s", text_bytes(bytes, found->bytes));
    if (found->status == PAWL_STEP_UNFINISHED) {
        struct stat there;
        bool prefix = stat(path, &there) != 0; /* of TensorFlow: its files have endings */
        (void)snprintf(next, sizeof next,
                       "look whether a job is still writing it; else remove it: rm -r %s%s",
                       doctor_word(word, path), prefix ? ".*" : "");
        doctor_command(x, "rm -r %s%s", word, prefix ? ".*" : "");
        doctor_tell(x, "R09", PAWL_SEVERITY_WARNING, next, "%s (%s) is unfinished: %s", name,
                    format, found->why != NULL ? found->why : "its end is missing");
    } else if (found->status == PAWL_STEP_UNREADABLE) {
        doctor_tell(x, "P02", PAWL_SEVERITY_ERROR, "ask as a user who may read it; it may be whole",
                    "%s (%s) may not be read: %s", name, format, found->why);
    } else {
        doctor_command(x, "pawl verify %s", doctor_word(word, path));
        doctor_tell(x, "R08", PAWL_SEVERITY_ERROR, "restore another checkpoint",
                    "%s (%s) is damaged: %s", name, format,
                    found->why != NULL ? found->why : "some of it is missing");
    }
}

/* A run that has no step yet. */
static bool is_new_run(const pawl_found *found) {
    return found->status == PAWL_STEP_UNFINISHED &&
           (found->format == NULL || strcmp(found->format, "pawl") == 0);
}

/* The newest is read, as that of a run is. A run of pawl has a doctor of its own. */
static void read_newest(examination *x, const pawl_found *newest, const char *path) {
    struct pawl_error story = ERROR_INIT;
    pawl_checkpoint *c = NULL;
    if (newest->format == NULL || strcmp(newest->format, "pawl") == 0) {
        return;
    }
    pawl_status status = x->asked->open(path, x->storage, CHECKPOINT_NEWEST, &c, &story);
    if (status == PAWL_OK) {
        (void)doctor_verify(x, c, newest->path, PAWL_SEVERITY_ERROR, doctor_verify_deadline(x));
        pawl_checkpoint_close(c);
    } else if (status == PAWL_EDAMAGED) {
        doctor_tell_error(x, "R08", &story);
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
        if (strcmp(found->path, ".") == 0 && (x->broken || is_new_run(found))) {
            continue; /* what is wrong with it is told */
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
                    "%zu more %s unfinished or damaged", told - MOST_FOUND,
                    text_noun(told - MOST_FOUND, "checkpoint there is", "checkpoints there are"));
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
        read_newest(x, newest, path);
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
        tell_survey(x, survey, x->foreign == NULL && !x->broken);
        pawl_survey_free(survey);
    }
}
