/* SPDX-License-Identifier: Apache-2.0 */
/* pawl_run_*, saving, pawl_restore. */
#include "run/run.h"
#include "api/api.h"
#include "path/path.h"

#include <math.h>

static pawl_status need_run(const pawl_run *run, const char *call, pawl_error *err) {
    TRY(need(run, call, "run", err));
    TRY(need_own(run_process(run), call, "run", "pawl_run_open", err));
    return run_refuse_callback(run, call, err);
}

/* ---- open and close ---- */

typedef struct opened_place {
    const pawl_storage *storage;
    const char *path;
    bool must_exist;
} opened_place;

/* A directory that must exist is opened without `create` first, so that it is never made by
 * mistake. */
static pawl_status open_storage(void *context, bool create, store **out, pawl_error *err) {
    const opened_place *o = context;
    if (create && o->must_exist) {
        TRY(storage_open_path(o->storage, o->path, false, out, err));
        store_destroy(*out);
        *out = NULL;
    }
    return open_retrying(o->storage, o->path, create, out, err);
}

/* What the options point to, as this library knows it. */
typedef struct nested_options {
    pawl_log log;
    pawl_retention retention;
    pawl_group group;
} nested_options;

static pawl_status take_run_options(pawl_run_options *to, nested_options *nested,
                                    const pawl_run_options *from, pawl_error *err) {
    static const char call[] = "pawl_run_open";
    TRY(take_options(to, sizeof(*to), from, call, "pawl_run_options", err));
    TRY(take_log(&to->log, &nested->log, call, err));
    if (to->retention != NULL) {
        TRY(take_options(&nested->retention, sizeof(nested->retention), to->retention, call,
                         "pawl_retention", err));
        to->retention = &nested->retention;
    }
    return take_group(&to->group, &nested->group, call, err);
}

static pawl_status open_run(const char *path, const pawl_run_options *options, pawl_run **run,
                            pawl_error *err) {
    static const char call[] = "pawl_run_open";
    pawl_run_options known;
    nested_options nested;
    TRY(need(path, call, "path", err));
    TRY(need(run, call, "run", err));
    *run = NULL;
    TRY(take_run_options(&known, &nested, options, err));
    opened_place o = {.storage = known.storage, .path = path, .must_exist = known.must_exist != 0};
    const char *given = storage_is_local(known.storage) ? path : NULL;
    const run_place place = {.context = &o, .open = open_storage, .given = given};
    return run_open_at(&place, &known, platform_system(), run, err);
}

pawl_status pawl_run_open(const char *path, const pawl_run_options *options, pawl_run **run,
                          pawl_error *err) {
    struct pawl_error story;
    return story_end(open_run(path, options, run, story_begin(&story)), &story, err);
}

static pawl_status close_run(pawl_run *run, double deadline_s, pawl_error *err) {
    TRY(need_run(run, "pawl_run_close", err));
    return run_close(run, deadline_s, err);
}

pawl_status pawl_run_close(pawl_run *run, double deadline_s, pawl_error *err) {
    struct pawl_error story;
    if (run == NULL) {
        return PAWL_OK;
    }
    return story_end(close_run(run, deadline_s, story_begin(&story)), &story, err);
}

/* ---- save ---- */

static pawl_status take_save(pawl_run *run, pawl_state *state, const pawl_save_options *options,
                             const char *call, pawl_save_options *known, void **metrics,
                             pawl_error *err) {
    TRY(need_run(run, call, err));
    TRY(need(state, call, "state", err));
    TRY(take_options(known, sizeof(*known), options, call, "pawl_save_options", err));
    const given_items given = {.items = known->metrics,
                               .count = known->metric_count,
                               .size = known->metric_size,
                               .known_size = sizeof(*known->metrics),
                               .call = call,
                               .name = "metrics",
                               .size_name = "metric_size",
                               .type = "pawl_metric"};
    TRY(take_items(&given, metrics, err));
    known->metrics = *metrics != NULL ? *metrics : known->metrics;
    return PAWL_OK;
}

static pawl_status save_step(pawl_run *run, pawl_state *state, int64_t step,
                             const pawl_save_options *options, pawl_error *err) {
    pawl_save_options known;
    CLEANUP(mem_free_pointer) void *metrics = NULL;
    TRY(take_save(run, state, options, "pawl_save", &known, &metrics, err));
    return run_save(run, state, step, &known, err);
}

pawl_status pawl_save(pawl_run *run, pawl_state *state, int64_t step,
                      const pawl_save_options *options, pawl_error *err) {
    struct pawl_error story;
    return story_end(save_step(run, state, step, options, story_begin(&story)), &story, err);
}

static pawl_status save_final(pawl_run *run, pawl_state *state, int64_t step,
                              const pawl_save_options *options, double grace_s, pawl_error *err) {
    pawl_save_options known;
    CLEANUP(mem_free_pointer) void *metrics = NULL;
    TRY(take_save(run, state, options, "pawl_save_final", &known, &metrics, err));
    if (isnan(grace_s)) {
        error_set(err, PAWL_EUSAGE, "pawl_save_final: grace_s is not a number");
        error_expected(err, "seconds from now");
        return PAWL_EUSAGE;
    }
    return run_save_final(run, state, step, &known, grace_s, err);
}

pawl_status pawl_save_final(pawl_run *run, pawl_state *state, int64_t step,
                            const pawl_save_options *options, double grace_s, pawl_error *err) {
    struct pawl_error story;
    return story_end(save_final(run, state, step, options, grace_s, story_begin(&story)), &story,
                     err);
}

/* ---- the save in flight ---- */

static pawl_status fence_save(pawl_run *run, double deadline_s, pawl_error *err) {
    TRY(need_run(run, "pawl_fence", err));
    return run_fence(run, deadline_s, err);
}

pawl_status pawl_fence(pawl_run *run, double deadline_s, pawl_error *err) {
    struct pawl_error story;
    return story_end(fence_save(run, deadline_s, story_begin(&story)), &story, err);
}

static bool all_given(const char *const *names, size_t count) {
    bool given = names != NULL;
    for (size_t i = 0; given && i < count; i++) {
        given = names[i] != NULL;
    }
    return given;
}

void pawl_fenced_tensors(const pawl_run *run, const char *const *names, size_t count,
                         uint8_t *fenced) {
    struct pawl_error ignored;
    if (fenced == NULL) {
        return;
    }
    memset(fenced, 0, count);
    if (need_run(run, "pawl_fenced_tensors", story_begin(&ignored)) == PAWL_OK &&
        all_given(names, count)) {
        run_fenced_tensors(run, names, count, fenced);
    }
}

int pawl_fenced(const pawl_run *run) {
    struct pawl_error ignored;
    return need_run(run, "pawl_fenced", story_begin(&ignored)) == PAWL_OK ? run_fenced(run) : 0;
}

static pawl_status wait_for_save(pawl_run *run, double deadline_s, pawl_save_stats *stats,
                                 pawl_error *err) {
    pawl_save_stats known;
    TRY(need_run(run, "pawl_wait", err));
    if (stats == NULL) {
        return run_wait(run, deadline_s, NULL, err);
    }
    TRY(need_output(stats, "pawl_wait", "stats", "pawl_save_stats", err));
    pawl_status status = run_wait(run, deadline_s, &known, err);
    give_output(stats, &known, sizeof(known));
    return status;
}

pawl_status pawl_wait(pawl_run *run, double deadline_s, pawl_save_stats *stats, pawl_error *err) {
    struct pawl_error story;
    return story_end(wait_for_save(run, deadline_s, stats, story_begin(&story)), &story, err);
}

static pawl_status meet_ranks(pawl_run *run, double deadline_s, pawl_error *err) {
    TRY(need_run(run, "pawl_meet", err));
    return run_meet(run, deadline_s, err);
}

pawl_status pawl_meet(pawl_run *run, double deadline_s, pawl_error *err) {
    struct pawl_error story;
    return story_end(meet_ranks(run, deadline_s, story_begin(&story)), &story, err);
}

static pawl_status cancel_save(pawl_run *run, double deadline_s, pawl_error *err) {
    TRY(need_run(run, "pawl_cancel", err));
    return run_cancel(run, deadline_s, err);
}

pawl_status pawl_cancel(pawl_run *run, double deadline_s, pawl_error *err) {
    struct pawl_error story;
    return story_end(cancel_save(run, deadline_s, story_begin(&story)), &story, err);
}

int pawl_due(const pawl_run *run, int64_t step) {
    return run != NULL && process_is_self(run_process(run)) ? run_due(run, step) : 0;
}

/* ---- restore ---- */

static pawl_status refuse_group(const pawl_restore_options *options, pawl_error *err) {
    if (options->group == NULL && options->group_deadline_s == 0) {
        return PAWL_OK;
    }
    error_set(err, PAWL_EUSAGE, "pawl_restore: the options have a group of their own");
    error_expected(err, "group and group_deadline_s unset: the run's group restores");
    error_next(err, "leave them unset, or restore with pawl_checkpoint_restore");
    return PAWL_EUSAGE;
}

static pawl_status restore_run(pawl_run *run, pawl_state *state,
                               const pawl_restore_options *options, pawl_report **report,
                               pawl_error *err) {
    pawl_restore_options known;
    CLEANUP(mem_free_pointer) void *renames = NULL;
    TRY(need_run(run, "pawl_restore", err));
    TRY(need(state, "pawl_restore", "state", err));
    TRY(take_restore_options(&known, &renames, options, "pawl_restore", err));
    TRY(refuse_group(&known, err));
    TRY(check_step(known.step, "pawl_restore", err));
    return run_restore(run, state, &known, report, err);
}

pawl_status pawl_restore(pawl_run *run, pawl_state *state, const pawl_restore_options *options,
                         pawl_report **report, pawl_error *err) {
    struct pawl_error story;
    if (report != NULL) {
        *report = NULL;
    }
    return story_end(restore_run(run, state, options, report, story_begin(&story)), &story, err);
}

/* ---- housekeeping ---- */

static pawl_status pin_step(pawl_run *run, int64_t step, int pinned, pawl_error *err) {
    TRY(need_run(run, "pawl_run_pin", err));
    return run_pin(run, step, pinned != 0, err);
}

pawl_status pawl_run_pin(pawl_run *run, int64_t step, int pinned, pawl_error *err) {
    struct pawl_error story;
    return story_end(pin_step(run, step, pinned, story_begin(&story)), &story, err);
}

static pawl_status remove_step(pawl_run *run, int64_t step, int force, pawl_error *err) {
    TRY(need_run(run, "pawl_run_remove", err));
    return run_remove(run, step, force != 0, err);
}

pawl_status pawl_run_remove(pawl_run *run, int64_t step, int force, pawl_error *err) {
    struct pawl_error story;
    return story_end(remove_step(run, step, force, story_begin(&story)), &story, err);
}

static pawl_status gc_run(pawl_run *run, int dry_run, pawl_gc_fn each, void *context,
                          pawl_error *err) {
    TRY(need_run(run, "pawl_run_gc", err));
    return run_gc(run, dry_run != 0, each, context, err);
}

pawl_status pawl_run_gc(pawl_run *run, int dry_run, pawl_gc_fn each, void *context,
                        pawl_error *err) {
    struct pawl_error story;
    return story_end(gc_run(run, dry_run, each, context, story_begin(&story)), &story, err);
}

static pawl_status rebuild_step(pawl_run *run, int64_t step, int force, pawl_error *err) {
    TRY(need_run(run, "pawl_run_rebuild", err));
    return run_rebuild(run, step, force != 0, err);
}

pawl_status pawl_run_rebuild(pawl_run *run, int64_t step, int force, pawl_error *err) {
    struct pawl_error story;
    return story_end(rebuild_step(run, step, force, story_begin(&story)), &story, err);
}
