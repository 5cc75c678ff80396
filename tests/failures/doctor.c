/* SPDX-License-Identifier: Apache-2.0 */
/* What the doctor says of a path. */
#include "failures.h"

static void note_finding(void *context, const pawl_finding *finding) {
    static const char *const severities[] = {"", "note", "warning", "error"};
    doctor_said *said = context;
    size_t at = strlen(said->text);
    if (!said->wanted(finding)) {
        return;
    }
    said->worst = finding->severity > said->worst ? finding->severity : said->worst;
    at += (size_t)snprintf(said->text + at, sizeof(said->text) - at, "%s %s: %s\n",
                           severities[finding->severity], finding->id, finding->text);
    if (finding->next != NULL) {
        (void)snprintf(said->text + at, sizeof(said->text) - at, "  next: %s\n", finding->next);
    }
}

bool is_of_storage(const pawl_finding *finding) {
    return strcmp(finding->id, "P07") == 0 || strcmp(finding->id, "P09") == 0;
}

pawl_severity doctor_ask(doctor_said *said, const char *path, const pawl_doctor_options *options) {
    pawl_severity worst = PAWL_SEVERITY_NOTE;
    pawl_error *err = pawl_error_new();
    said->text[0] = '\0';
    said->worst = PAWL_SEVERITY_NOTE;
    assert_works(pawl_doctor(path, options, note_finding, said, &worst, err), err);
    pawl_error_free(err);
    return worst;
}
