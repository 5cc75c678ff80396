/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks open a run together, and find out whether all of them see the same directory.
 *
 *   1 rank 0 opens or makes the directory and becomes the owner; the others prepare
 *   2 first meeting: who they are; the answer tells the attempt and the owner's record
 *   3 the others open the directory, look for that record in it (P05, P06), and check that they can
 *     write there
 *   4 second meeting: what they saw; one answer for all
 *
 * Without callbacks the others open the directory before the first meeting, and wait until it is
 * there. Whatever fails on one rank it brings to the next meeting, so that it fails on all.
 */
#include "run/join.h"
#include "path/path.h"
#include "store/evidence.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char join_what[] = "open run";

typedef struct joining {
    pawl_run *run;
    const run_place *place;
    join_answer answer;
    join_card card;
    buffer answer_bytes;
} joining;

/* ---- the first meeting: who they are -------------------------------------------------------- */

/* The working directory matters only where the path is relative. */
static void describe_place(const joining *j, char *root, char *given, char *cwd) {
    const char *path = j->place->given;
    (void)snprintf(root, JOIN_TEXT_CHARS, "%s", j->run->store != NULL ? j->run->store->root : "");
    (void)snprintf(given, JOIN_TEXT_CHARS, "%s", path != NULL ? path : "");
    cwd[0] = '\0';
    if (path != NULL && path[0] != '/' && strstr(path, "://") == NULL &&
        getcwd(cwd, JOIN_TEXT_CHARS) == NULL) {
        cwd[0] = '\0';
    }
}

/* Only rank 0 makes the directory. */
static pawl_status wait_for_directory(joining *j, double timeout_s, pawl_error *err) {
    pawl_run *run = j->run;
    char waited[32];
    ranks_pause pause = {0};
    uint64_t deadline_ns = platform_deadline_ns(run->platform, timeout_s);
    pawl_status status = run_open_store(run, j->place, false, err);
    while (status == PAWL_ENOTFOUND && !platform_late(run->platform, deadline_ns)) {
        if (interrupt_said(&run->stop)) {
            (void)interrupt_error(err);
            error_wrap(err, "open run: waiting for rank 0 to make the directory");
            return PAWL_ECANCELED;
        }
        ranks_sleep(run->ranks, &pause, deadline_ns);
        status = run_open_store(run, j->place, false, err);
    }
    if (status != PAWL_ENOTFOUND) {
        return status;
    }
    describe_place(j, j->card.root, j->card.given, j->card.cwd);
    error_wrap(err, "open run: rank %d on host %s waited %s for rank 0 to make the directory",
               run->ranks->rank, rank_host(run->ranks, run->ranks->rank),
               text_seconds(waited, timeout_s));
    error_next(err,
               "see whether rank 0 runs, and whether its directory is on storage that this host "
               "shares%s%.200s%s",
               j->card.cwd[0] != '\0' ? "; the path is relative to the working directory " : "",
               j->card.cwd, j->card.cwd[0] != '\0' ? ": give all ranks the absolute path" : "");
    return PAWL_ENOTFOUND;
}

/* Without callbacks a rank reaches the others only through the directory, so it needs that also to
 * tell them of its failure. */
static pawl_status prepare_to_meet(joining *j, const pawl_run_options *o, pawl_error *err) {
    pawl_run *run = j->run;
    if (run->ranks->rank == 0) {
        return run_open_owner(run, j->place, o, err);
    }
    pawl_status status = run_open_guest(run, o, err);
    if (run->ranks->group->connected) {
        return status;
    }
    if (status != PAWL_OK) {
        struct pawl_error ignored = ERROR_INIT;
        (void)!wait_for_directory(j, ranks_appear_timeout_s(run->ranks), &ignored);
        return status;
    }
    return wait_for_directory(j, run->ranks->timeout_s, err);
}

static void fill_answer(joining *j) {
    join_answer *a = &j->answer;
    pawl_run *run = j->run;
    (void)snprintf(a->attempt, sizeof a->attempt, "%s", run->ranks->attempt);
    a->generation = owner_generation(run->owner);
    a->newest_step = atomic_load(&run->newest_step);
    a->lease_s = run->lease_s;
    describe_place(j, a->root, a->given, a->cwd);
}

static pawl_status take_join_answer(joining *j, pawl_error *err) {
    pawl_run *run = j->run;
    TRY(join_answer_decode(j->answer_bytes.data, j->answer_bytes.size, &j->answer, err));
    (void)snprintf(run->ranks->attempt, sizeof run->ranks->attempt, "%s", j->answer.attempt);
    atomic_store(&run->newest_step, j->answer.newest_step);
    run->lease_s = j->answer.lease_s;
    return PAWL_OK;
}

static pawl_status meet_first(joining *j, pawl_status status, const pawl_error *story,
                              pawl_error *err) {
    pawl_run *run = j->run;
    const char *launch = run->ranks->group->launch != NULL ? run->ranks->group->launch : "";
    const meeting m = {.what = join_what,
                       .status = status,
                       .failed = story,
                       .mine = launch,
                       .mine_bytes = strlen(launch),
                       .judge = join_judge_ranks,
                       .context = &j->answer};
    if (run->ranks->rank == 0) {
        ranks_clear(run->ranks);
    }
    if (run->ranks->rank == 0 && status == PAWL_OK) {
        fill_answer(j);
    }
    TRY(ranks_meet(run->ranks, &m, &j->answer_bytes, err));
    if (run->ranks->rank != 0) {
        TRY(take_join_answer(j, err));
    }
    ranks_joined(run->ranks);
    return PAWL_OK;
}

/* ---- the second meeting: what they see ------------------------------------------------------ */

/* "; it is on ext4, mounted at /", or "" */
static void say_filesystem(const joining *j, char *out, size_t size) {
    store_space space = {0};
    struct pawl_error ignored = ERROR_INIT;
    pawl_status status = PAWL_ENOTFOUND;
    if (j->run->store != NULL) {
        status = store_space_of(j->run->store, &space, &ignored);
    } else if (j->place->given != NULL) {
        status = path_space(j->place->given, &space, &ignored);
    }
    out[0] = '\0';
    if (status == PAWL_OK && space.filesystem[0] != '\0') {
        (void)snprintf(out, size, "; it is on %s, mounted at %s", space.filesystem,
                       space.mount_point);
    }
}

static void say_next(const joining *j, pawl_error *err) {
    const join_answer *zero = &j->answer;
    const join_card *self = &j->card;
    if (self->cwd[0] != '\0' && strcmp(self->cwd, zero->cwd) != 0) {
        error_next(err,
                   "give the absolute path: \"%.200s\" is relative to the working directory, which "
                   "is %.150s on rank 0 and %.150s on rank %d",
                   self->given, zero->cwd, self->cwd, j->run->ranks->rank);
        return;
    }
    error_next(err,
               "give all ranks a directory on storage that their hosts share (NFS, Lustre, ...), "
               "mounted at the same path, in containers too; what is mounted there is told, on "
               "each host, by: findmnt -T %.200s",
               zero->root);
}

/* P05. *err is the error of opening it. */
static void fail_absent_directory(joining *j, pawl_error *err) {
    char filesystem[320];
    j->card.sight = JOIN_ABSENT;
    say_filesystem(j, filesystem, sizeof filesystem);
    error_expected(err, "the directory that rank 0 on host %.100s saves to: %.300s",
                   rank_host(j->run->ranks, 0), j->answer.root);
    error_found(err, "%.200s%.300s", err->found, filesystem);
    error_safe(err, "nothing was saved");
    say_next(j, err);
}

/* P06. */
static pawl_status fail_other_directory(joining *j, const owner_sight *seen, pawl_error *err) {
    char filesystem[320];
    j->card.sight = JOIN_OTHER;
    say_filesystem(j, filesystem, sizeof filesystem);
    error_set(err, PAWL_ENOTFOUND, "open run: rank 0's record of its ownership is not there");
    run_error_path(j->run, err, "");
    error_expected(err, "owner-%08llu of attempt %s, which rank 0 wrote to %.300s",
                   (unsigned long long)j->answer.generation, j->answer.attempt, j->answer.root);
    if (seen->readable) {
        error_found(err, "owner-%08llu of attempt %s, by host %.100s, pid %lld%s",
                    (unsigned long long)seen->generation, seen->attempt, seen->who.host,
                    (long long)seen->who.pid, filesystem);
    } else {
        error_found(err, "a directory without it%s", filesystem);
    }
    error_safe(err, "nothing was saved");
    say_next(j, err);
    return PAWL_ENOTFOUND;
}

static pawl_status check_write_access(const joining *j, pawl_error *err) {
    char name[80];
    pawl_run *run = j->run;
    name_meet(name, run->ranks->attempt, 1, run->ranks->rank);
    pawl_status status = store_create_small(run->store, name, "", 0, NULL, err);
    if (status == PAWL_OK) {
        status = store_unlink(run->store, name, err);
    }
    if (status == PAWL_EPERMISSION) {
        path_explain_access(run->store->root, err);
    }
    if (status != PAWL_OK) {
        error_wrap(err, "open run");
    }
    return status;
}

/* PAWL_ENOTFOUND: the directory or the record is not there, and may yet appear. */
static pawl_status check_directory(joining *j, pawl_error *err) {
    pawl_run *run = j->run;
    owner_sight seen;
    if (run->store == NULL) {
        pawl_status status = run_open_store(run, j->place, false, err);
        if (status == PAWL_ENOTFOUND) {
            fail_absent_directory(j, err);
        }
        if (status != PAWL_OK) {
            return status;
        }
    }
    describe_place(j, j->card.root, j->card.given, j->card.cwd);
    TRY(owner_look(run->store, run->platform, &seen, err));
    if (!seen.present || strcmp(seen.attempt, j->answer.attempt) != 0) {
        return fail_other_directory(j, &seen, err);
    }
    j->card.sight = JOIN_SEES;
    return check_write_access(j, err);
}

/* This host may show the directory as it was a minute ago, which is longer than this rank looks for
 * the record; after a change of its own it sees it as it is (evidence.h). */
static void refresh_listing(const pawl_run *run) {
    struct pawl_error story = ERROR_INIT;
    if (run->store != NULL && store_look_anew(run->store, "", &story) != PAWL_OK) {
        log_write(&run->log, PAWL_LOG_DEBUG, "%s", error_text(&story));
    }
}

static pawl_status look_for_shared_directory(joining *j, pawl_error *err) {
    pawl_run *run = j->run;
    ranks_pause pause = {0};
    uint64_t deadline_ns = platform_deadline_ns(run->platform, ranks_appear_timeout_s(run->ranks));
    describe_place(j, j->card.root, j->card.given, j->card.cwd);
    pawl_status status = check_directory(j, err);
    if (status == PAWL_ENOTFOUND) {
        refresh_listing(run);
        status = check_directory(j, err);
    }
    while (status == PAWL_ENOTFOUND && !platform_late(run->platform, deadline_ns)) {
        if (interrupt_said(&run->stop)) {
            j->card.sight = JOIN_FAILED;
            return interrupt_error(err);
        }
        ranks_sleep(run->ranks, &pause, deadline_ns);
        status = check_directory(j, err);
    }
    if (status != PAWL_OK && status != PAWL_ENOTFOUND) {
        j->card.sight = JOIN_FAILED;
    }
    return status;
}

static pawl_status meet_second(joining *j, pawl_error *err) {
    pawl_run *run = j->run;
    CLEANUP(buffer_free) buffer mine = {0};
    CLEANUP(buffer_free) buffer answer = {0};
    struct pawl_error story = ERROR_INIT;
    pawl_status status = run->ranks->rank == 0 ? PAWL_OK : look_for_shared_directory(j, &story);
    TRY(join_card_encode(&j->card, &mine, err));
    const meeting m = {.what = join_what,
                       .status = status,
                       .failed = &story,
                       .mine = mine.data,
                       .mine_bytes = mine.size,
                       .judge = join_judge_sights,
                       .context = &j->answer};
    return ranks_meet(run->ranks, &m, &answer, err);
}

/* ---- both ----------------------------------------------------------------------------------- */

pawl_status join_open(pawl_run *run, const run_place *place, const pawl_run_options *o,
                      pawl_error *err) {
    joining *j = mem_calloc(1, sizeof *j);
    struct pawl_error story = ERROR_INIT;
    if (j == NULL) {
        return error_nomem(err, sizeof *j);
    }
    j->run = run;
    j->place = place;
    pawl_status status = meet_first(j, prepare_to_meet(j, o, &story), &story, err);
    if (status == PAWL_OK) {
        status = meet_second(j, err);
    }
    if (status == PAWL_OK && run->ranks->rank == 0) {
        ranks_remove_earlier(run->ranks);
    }
    buffer_free(&j->answer_bytes);
    mem_free(j);
    return status;
}
