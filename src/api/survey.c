/* SPDX-License-Identifier: Apache-2.0 */
/* pawl_survey_open; what cannot fail is in src/survey. */
#include "survey/survey.h"
#include "api/api.h"
#include "path/path.h"

static pawl_status survey_at(const char *path, const pawl_open_options *options,
                             pawl_survey **survey, pawl_error *err) {
    static const char call[] = "pawl_survey_open";
    CLEANUP(store_destroy_pointer) store *s = NULL;
    CLEANUP(store_destroy_pointer) store *links = NULL;
    opening how;
    TRY(need(path, call, "path", err));
    TRY(need(survey, call, "survey", err));
    *survey = NULL;
    TRY(take_opening(&how, options, false, call, err));
    TRY(open_retrying(how.storage, path, false, &s, err));
    if (storage_is_local(how.storage)) {
        TRY(open_links_retrying(how.storage, path, &links, err));
    }
    return survey_open(s, links != NULL ? links : s, survey, err);
}

pawl_status pawl_survey_open(const char *path, const pawl_open_options *options,
                             pawl_survey **survey, pawl_error *err) {
    struct pawl_error story;
    return story_end(survey_at(path, options, survey, story_begin(&story)), &story, err);
}
