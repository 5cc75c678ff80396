/* SPDX-License-Identifier: Apache-2.0 */
/* pawl verify: reads every byte of one checkpoint, or of all. */
#include "about.h"
#include "cli.h"
#include "memory.h"
#include "signals.h"
#include "text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PROBLEMS = 1000 };

/* Lines of an error's text that repeat what is printed above it. */
static bool is_repeated(const char *line) {
    static const char *const labels[] = {"  path:", "  entry:", "  range:"};
    for (size_t i = 0; i < sizeof labels / sizeof labels[0]; i++) {
        if (strncmp(line, labels[i], strlen(labels[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* Remembers where the last problem was: often many entries lie in one damaged range. */
typedef struct verification {
    output *out;
    char *file;
    uint64_t offset, length;
} verification;

/* An error's text, indented and escaped; `first_only`: only its first line. */
static void print_error_lines(const char *text, bool first_only) {
    char *safe = text_safe(text, first_only ? strcspn(text, "\n") : strlen(text), true);
    for (char *line = safe; line != NULL;) {
        char *end = strchr(line, '\n');
        if (end != NULL) {
            *end = '\0';
        }
        if (!is_repeated(line)) {
            printf("    %s\n", line);
        }
        line = end != NULL ? end + 1 : NULL;
    }
    free(safe);
}

static bool same_place(const verification *v, const pawl_problem *problem) {
    return v->file != NULL && strcmp(v->file, problem->file) == 0 && v->offset == problem->offset &&
           v->length == problem->length;
}

static void print_place(verification *v, const pawl_problem *problem) {
    char *file = text_safe(problem->file, strlen(problem->file), false);
    printf("  ");
    output_styled(v->out, STYLE_BAD, file);
    free(file);
    if (problem->length == 1) {
        printf(", byte %" PRIu64, problem->offset);
    } else if (problem->length > 1) {
        bool beyond = problem->length - 1 > UINT64_MAX - problem->offset;
        printf(", bytes %" PRIu64 " to %" PRIu64, problem->offset,
               beyond ? UINT64_MAX : problem->offset + (problem->length - 1));
    }
    putchar('\n');
    free(v->file);
    v->file = must_strdup(problem->file);
    v->offset = problem->offset;
    v->length = problem->length;
}

static void print_problem(verification *v, const pawl_problem *problem) {
    bool same = same_place(v, problem);
    progress_hide(&v->out->progress);
    if (!same) {
        print_place(v, problem);
    }
    if (problem->entry != NULL) {
        char *entry = text_safe(problem->entry, strlen(problem->entry), false);
        printf("    entry %s\n", entry);
        free(entry);
    }
    if (!same || problem->entry == NULL) {
        print_error_lines(problem->text, same);
    }
}

static void put_problem(json *j, const pawl_problem *problem) {
    json_begin_object(j, NULL, JSON_INLINE);
    json_put_text(j, "file", problem->file);
    json_put_text(j, "entry", problem->entry);
    json_put_uint(j, "offset", problem->offset);
    json_put_uint(j, "length", problem->length);
    json_put_text(j, "text", problem->text);
    json_close(j);
}

static void on_problem(void *context, const pawl_problem *problem) {
    verification *v = context;
    if (v->out->as_json) {
        put_problem(&v->out->json, problem);
    } else {
        print_problem(v, problem);
    }
}

static void on_progress(void *context, uint64_t done_bytes, uint64_t of_bytes) {
    verification *v = context;
    progress_update(&v->out->progress, done_bytes, of_bytes);
}

static int is_stop_wanted(void *context) {
    (void)context;
    return signals_caught();
}

static void print_result(output *out, const char *name, const pawl_verify_result *result,
                         bool opened) {
    char files[TEXT_SIZE];
    char entries[TEXT_SIZE];
    char bytes[TEXT_SIZE];
    char problems[TEXT_SIZE];
    progress_hide(&out->progress);
    SCOPED(scoped_free) char *safe = text_safe(name, strlen(name), false);
    printf("%s: ", safe);
    if (result->problems == 0) {
        output_styled(out, STYLE_GOOD, result->unverified == NULL ? "good" : "nothing wrong found");
    } else {
        output_styled(out, STYLE_BAD, "damaged");
        printf(", %s%s", text_count(problems, result->problems, "problem", "problems"),
               result->problems >= MOST_PROBLEMS ? " at least" : "");
    }
    if (!opened) {
        printf("; it cannot be opened\n");
        return;
    }
    printf("; %s, %s and %s read\n", text_count(entries, result->entries, "entry", "entries"),
           text_count(files, result->files, "file", "files"), text_bytes(bytes, result->bytes));
    if (result->unverified != NULL) {
        output_line(out, "%s", result->unverified);
    }
}

static void put_result(json *j, const char *status, const pawl_verify_result *result) {
    json_put_text(j, "status", status);
    json_put_uint(j, "files", result->files);
    json_put_uint(j, "bytes", result->bytes);
    json_put_uint(j, "entries", result->entries);
    json_put_uint(j, "problem_count", result->problems);
    json_put_text(j, "unverified", result->unverified);
}

static pawl_status verify_opened(output *out, pawl_checkpoint *checkpoint,
                                 pawl_verify_result *result) {
    verification v = {.out = out};
    pawl_verify_options options = {
        .struct_size = sizeof options,
        .problem = on_problem,
        .progress = on_progress,
        .context = &v,
        .max_problems = MOST_PROBLEMS,
        .stop = is_stop_wanted,
    };
    progress_begin(&out->progress, "verifying");
    if (out->as_json) {
        json_begin_array(&out->json, "problems", JSON_LINES);
    }
    pawl_status status = pawl_checkpoint_verify(checkpoint, &options, result, out->err);
    if (out->as_json) {
        json_close(&out->json);
    }
    free(v.file);
    return status;
}

static const char *status_word(pawl_status status) {
    return status == PAWL_OK ? "good" : status == PAWL_EDAMAGED ? "damaged" : "unread";
}

/* A checkpoint that cannot be opened has one problem: out->err. */
static void report_unopenable(output *out, pawl_verify_result *result) {
    verification v = {.out = out};
    const char *path = pawl_error_get(out->err, PAWL_ERROR_PATH);
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;
    pawl_problem problem = {
        .struct_size = sizeof problem,
        .file = slash != NULL  ? slash + 1
                : path != NULL ? path
                               : "?",
        .entry = pawl_error_get(out->err, PAWL_ERROR_ENTRY),
        .text = pawl_error_text(out->err),
    };
    pawl_error_range(out->err, &problem.offset, &problem.length);
    result->problems = 1;
    if (out->as_json) {
        json_begin_array(&out->json, "problems", JSON_LINES);
    }
    on_problem(&v, &problem);
    free(v.file);
    if (out->as_json) {
        json_close(&out->json);
    }
}

/* Reports damage; any other failure is left in out->err. */
static pawl_status verify_step(output *out, const char *run, int64_t step) {
    SCOPED(scoped_checkpoint) pawl_checkpoint *checkpoint = NULL;
    pawl_checkpoint_info about = {.struct_size = sizeof about};
    pawl_verify_result result = {.struct_size = sizeof result};
    pawl_status status = target_open(run, step, out, &checkpoint);
    if (status == PAWL_OK) {
        status = pawl_checkpoint_describe(checkpoint, &about, out->err);
    } else {
        about.step = step != NEWEST_STEP ? step : pawl_error_step(out->err);
    }
    if (status != PAWL_OK && status != PAWL_EDAMAGED) {
        return status;
    }
    if (out->as_json) {
        json_begin_object(&out->json, NULL, JSON_INLINE);
        about_json_step(&out->json, about.step);
    }
    if (status == PAWL_EDAMAGED) {
        report_unopenable(out, &result);
    } else {
        status = verify_opened(out, checkpoint, &result);
    }
    if (out->as_json) {
        put_result(&out->json, status_word(status), &result);
    } else if (status == PAWL_OK || status == PAWL_EDAMAGED) {
        SCOPED(scoped_free)
        char *name = about_name(about.step, checkpoint != NULL ? about.path : run);
        print_result(out, name, &result, checkpoint != NULL);
    }
    if (out->as_json) {
        json_put_text(&out->json, "path", checkpoint != NULL ? about.path : NULL);
        json_close(&out->json);
    }
    return status;
}

/* Every step that has a manifest; goes on after a damaged one. */
static pawl_status verify_all(output *out, const char *run, bool *damaged) {
    SCOPED(scoped_catalog) pawl_catalog *catalog = NULL;
    size_t verified = 0;
    const pawl_open_options options = output_open_options(out);
    pawl_status status = pawl_catalog_open(run, &options, &catalog, out->err);
    if (status == PAWL_ENOTFOUND || status == PAWL_EUSAGE) {
        return verify_step(out, run, NEWEST_STEP); /* weights, perhaps */
    }
    if (status != PAWL_OK) {
        return status;
    }
    for (size_t i = 0; i < pawl_catalog_count(catalog); i++) {
        const pawl_step_info *step = pawl_catalog_get(catalog, i);
        if (step->status == PAWL_STEP_UNFINISHED) {
            continue;
        }
        status = verify_step(out, run, step->step);
        if (status == PAWL_ENOTFOUND) {
            continue; /* removed since it was listed */
        }
        if (status != PAWL_OK && status != PAWL_EDAMAGED) {
            return status;
        }
        *damaged = *damaged || status == PAWL_EDAMAGED;
        verified++;
    }
    /* If there is none, opening the newest fails with a message that says what is there. */
    return verified > 0 ? PAWL_OK : verify_step(out, run, NEWEST_STEP);
}

int verb_verify(const arguments *args, output *out) {
    const target *t = &args->targets[0];
    bool damaged = false;
    signals_catch();
    if (args->all && t->has_step) {
        return output_usage(out, "verify", "--all takes a whole run, not one step of it");
    }
    if (out->as_json) {
        json_put_text(&out->json, "run", t->run);
        json_begin_array(&out->json, "steps", JSON_LINES);
    }
    pawl_status status =
        args->all ? verify_all(out, t->run, &damaged) : verify_step(out, t->run, t->step);
    if (status == PAWL_EDAMAGED) {
        return EXIT_DIFFERENT;
    }
    if (status != PAWL_OK) {
        return output_fail(out);
    }
    return damaged ? EXIT_DIFFERENT : EXIT_DONE;
}
