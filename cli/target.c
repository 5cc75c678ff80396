/* SPDX-License-Identifier: Apache-2.0 */
/* RUN[@STEP] on the command line, or the path of a file. */
#include "cli.h"
#include "memory.h"
#include "text.h"

#include <pawl/pawl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool is_newest(const char *word) {
    return strcmp(word, "newest") == 0 || strcmp(word, "latest") == 0;
}

/* Digits, perhaps after blanks or a sign; but not in a path that goes on after it. */
static bool begins_number(const char *word) {
    const char *digit = word + strspn(word, " \t+-");
    return *digit >= '0' && *digit <= '9' && strchr(digit, '/') == NULL;
}

/* A file, which has no steps: its name may have an '@'. */
static bool is_file(const char *text) {
    struct stat found;
    return stat(text, &found) == 0 && S_ISREG(found.st_mode);
}

target target_parse(const char *text) {
    target t = {.step = NEWEST_STEP};
    const char *at = strrchr(text, '@');
    if (at != NULL && at != text && !is_file(text)) {
        t.has_step = is_newest(at + 1) || text_parse_int(at + 1, &t.step);
        t.no_step = !t.has_step && begins_number(at + 1) ? at + 1 : NULL;
    }
    t.run = must_strndup(text, t.has_step ? (size_t)(at - text) : strlen(text));
    return t;
}

pawl_status target_open(const char *run, int64_t step, output *out, pawl_checkpoint **checkpoint) {
    pawl_open_options options = output_open_options(out);
    options.step = step != NEWEST_STEP ? &step : NULL;
    return pawl_checkpoint_open(run, &options, checkpoint, out->err);
}

void target_free(target *t) {
    free(t->run);
    t->run = NULL;
}
