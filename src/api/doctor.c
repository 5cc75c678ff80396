/* SPDX-License-Identifier: Apache-2.0 */
/* pawl_doctor. */
#include "doctor/doctor.h"

#include "api/api.h"
#include "path/path.h"

#define DEFAULT_GROUP_DEADLINE_S 30.0

static void free_ranks(job_ranks **ranks) {
    ranks_free(*ranks);
}

static pawl_status only_one_process(pawl_error *err) {
    error_set(err, PAWL_EUNSUPPORTED,
              "pawl_doctor: whether ranks see the same place is found out on the local filesystem "
              "alone");
    error_next(err, "ask without a group, on each rank");
    return PAWL_EUNSUPPORTED;
}

static pawl_status examine_path(const char *path, const pawl_doctor_options *options,
                                doctor_each each, void *context, pawl_severity *worst,
                                pawl_error *err) {
    pawl_doctor_options known;
    pawl_severity unwanted;
    pawl_group given;
    rank_group *group = NULL;
    CLEANUP(free_ranks) job_ranks *ranks = NULL;
    TRY(need(path, "pawl_doctor", "run_path", err));
    TRY(take_options(&known, sizeof(known), options, "pawl_doctor", "pawl_doctor_options", err));
    TRY(check_group_deadline(known.group_deadline_s, "pawl_doctor", err));
    TRY(take_group(&known.group, &given, "pawl_doctor", err));
    if (!storage_is_local(known.storage) && known.group != NULL && known.group->world_size > 1) {
        return only_one_process(err);
    }
    TRY(group_new(known.group, &group, err));
    TRY(ranks_new(group, platform_system(), &ranks, err));
    const doctor_asked asked = {.path = path,
                                .storage = known.storage,
                                .need_bytes = known.need_bytes,
                                .ranks = ranks,
                                .group_deadline_s = known.group_deadline_s > 0
                                                        ? known.group_deadline_s
                                                        : DEFAULT_GROUP_DEADLINE_S};
    return doctor_examine(&asked, each, context, worst != NULL ? worst : &unwanted, err);
}

pawl_status pawl_doctor(const char *run_path, const pawl_doctor_options *options,
                        void (*each)(void *context, const pawl_finding *finding), void *context,
                        pawl_severity *worst, pawl_error *err) {
    struct pawl_error story;
    return story_end(examine_path(run_path, options, each, context, worst, story_begin(&story)),
                     &story, err);
}
