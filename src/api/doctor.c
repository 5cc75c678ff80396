/* SPDX-License-Identifier: Apache-2.0 */
/* pawl_doctor. */
#include "doctor/doctor.h"

#include "api/api.h"
#include "path/path.h"

#define DEFAULT_GROUP_DEADLINE_S 30.0
#define DEFAULT_ANSWER_S         5.0
#define DEFAULT_VERIFY_S         1.0

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

static pawl_status open_any(const char *path, const pawl_storage *storage, int64_t step,
                            pawl_checkpoint **out, pawl_error *err) {
    static const pawl_log silent = {0};
    const opening how = {.storage = storage, .log = &silent, .step = step};
    return open_checkpoint_at(path, &how, out, err);
}

static pawl_status refuse_option(const char *option, const char *expected, pawl_error *err) {
    error_set(err, PAWL_EUSAGE, "pawl_doctor: options.%s is wrong", option);
    error_expected(err, "%s", expected);
    return PAWL_EUSAGE;
}

/* What is left out gets its default. */
static pawl_status check_options(pawl_doctor_options *o, pawl_error *err) {
    if ((o->parts & ~(int64_t)PAWL_DOCTOR_ALL) != 0) {
        return refuse_option("parts", "of pawl_doctor_part", err);
    }
    if (!(o->answer_s >= 0) || !(o->every_s >= 0) || !(o->mtbf_s >= 0)) {
        return refuse_option("answer_s, every_s or mtbf_s", "0 or more seconds", err);
    }
    if (o->ranks < 0 || o->ranks > PAWL_MAX_RANKS) {
        return refuse_option("ranks", "0 to PAWL_MAX_RANKS", err);
    }
    if (o->model != NULL && o->state != NULL) {
        return refuse_option("state", "a model or a state, not both", err);
    }
    TRY(check_step(o->step, "pawl_doctor", err));
    TRY(check_step(o->model_step, "pawl_doctor", err));
    o->parts = o->parts == 0 ? PAWL_DOCTOR_PATH : o->parts;
    o->answer_s = o->answer_s > 0 ? o->answer_s : DEFAULT_ANSWER_S;
    o->verify_s = o->verify_s == 0 ? DEFAULT_VERIFY_S : o->verify_s;
    return PAWL_OK;
}

/* `how`: what the options say of a restore, whose rules are freed with *renames. */
static pawl_status take_restore(const pawl_doctor_options *options, pawl_restore_options *how,
                                void **renames, pawl_error *err) {
    TRY(take_restore_options(how, renames, options->restore, "pawl_doctor", err));
    if (how->group != NULL || how->supply != NULL || how->step != NULL) {
        return refuse_option("restore", "no group, no supply and no step", err);
    }
    return PAWL_OK;
}

static pawl_status examine_path(const char *path, const pawl_doctor_options *options,
                                doctor_each each, void *context, pawl_severity *worst,
                                pawl_error *err) {
    pawl_doctor_options known;
    pawl_severity unwanted;
    pawl_group given;
    pawl_restore_options how;
    rank_group *group = NULL;
    CLEANUP(mem_free_pointer) void *renames = NULL;
    CLEANUP(free_ranks) job_ranks *ranks = NULL;
    TRY(need(path, "pawl_doctor", "run_path", err));
    TRY(take_options(&known, sizeof(known), options, "pawl_doctor", "pawl_doctor_options", err));
    TRY(check_group_deadline(known.group_deadline_s, "pawl_doctor", err));
    TRY(check_options(&known, err));
    TRY(take_restore(&known, &how, &renames, err));
    TRY(take_group(&known.group, &given, "pawl_doctor", err));
    if (!storage_is_local(known.storage) && known.group != NULL && known.group->world_size > 1) {
        return only_one_process(err);
    }
    TRY(group_new(known.group, &group, err));
    TRY(ranks_new(group, platform_system(), &ranks, err));
    if (known.report != NULL) {
        *known.report = NULL;
    }
    const doctor_asked asked = {.path = path,
                                .storage = known.storage,
                                .need_bytes = known.need_bytes,
                                .ranks = ranks,
                                .group_deadline_s = known.group_deadline_s > 0
                                                        ? known.group_deadline_s
                                                        : DEFAULT_GROUP_DEADLINE_S,
                                .more = &known,
                                .restore = &how,
                                .open = open_any,
                                .report = known.report};
    return doctor_examine(&asked, each, context, worst != NULL ? worst : &unwanted, err);
}

pawl_status pawl_doctor(const char *run_path, const pawl_doctor_options *options,
                        void (*each)(void *context, const pawl_finding *finding), void *context,
                        pawl_severity *worst, pawl_error *err) {
    struct pawl_error story;
    return story_end(examine_path(run_path, options, each, context, worst, story_begin(&story)),
                     &story, err);
}
