/* SPDX-License-Identifier: Apache-2.0 */
/* pawl_doctor. */
#include "doctor/doctor.h"

#include "api/api.h"

static pawl_status examine(const char *path, const pawl_doctor_options *options, doctor_each each,
                           void *context, pawl_severity *worst, pawl_error *err) {
    pawl_doctor_options known;
    pawl_severity unwanted;
    TRY(need(path, "pawl_doctor", "run_path", err));
    TRY(take_options(&known, sizeof(known), options, "pawl_doctor", "pawl_doctor_options", err));
    return doctor_examine(path, known.need_bytes, platform_system(), each, context,
                          worst != NULL ? worst : &unwanted, err);
}

pawl_status pawl_doctor(const char *run_path, const pawl_doctor_options *options,
                        void (*each)(void *context, const pawl_finding *finding), void *context,
                        pawl_severity *worst, pawl_error *err) {
    struct pawl_error story;
    return story_end(examine(run_path, options, each, context, worst, story_begin(&story)), &story,
                     err);
}
