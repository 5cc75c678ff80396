/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retention: which checkpoints stay (the last n, every n steps or hours, the best, pinned ones),
 * and removing the others. Runs after a commit only (I7), so that the last good one is never at
 * risk; the one just committed and the newest stay whatever the rules say.
 */
#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "commit/commit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NANOSECONDS_PER_HOUR 3600e9

static bool has_rules(const pawl_retention *policy) {
    return policy->keep_last > 0 || policy->keep_every_steps > 0 || policy->keep_every_hours > 0 ||
           policy->keep_best > 0;
}

/* Walking from the oldest, the first of each stretch of so many hours stays. The distance is
 * absolute for the sake of a clock that ran ahead for a while: all later checkpoints would seem too
 * early. */
static void keep_by_hours(double hours, retention_step *steps, size_t count) {
    double last = -INFINITY;
    for (size_t i = 0; i < count; i++) {
        double at = (double)steps[i].unix_time_ns;
        if (fabs(at - last) >= hours * NANOSECONDS_PER_HOUR) {
            steps[i].keep = true;
            last = at;
        }
    }
}

static bool has_metric(const retention_step *step) {
    return step->has_metric && !isnan(step->metric);
}

static int by_step(const void *a, const void *b) {
    const retention_step *left = a;
    const retention_step *right = b;
    return (left->step > right->step) - (left->step < right->step);
}

/* The smallest first, of equals the newest; then those that have none. */
static int by_metric(const retention_step *a, const retention_step *b) {
    if (!has_metric(a) || !has_metric(b)) {
        return (int)has_metric(b) - (int)has_metric(a);
    }
    int order = (a->metric > b->metric) - (a->metric < b->metric);
    return order != 0 ? order : by_step(b, a);
}

static int smallest_first(const void *a, const void *b) {
    return by_metric(a, b);
}

static int largest_first(const void *a, const void *b) {
    retention_step left = *(const retention_step *)a;
    retention_step right = *(const retention_step *)b;
    left.metric = -left.metric;
    right.metric = -right.metric;
    return by_metric(&left, &right);
}

/* Sorts by the metric, and back by step: comparing all pairs would take too long. */
static void keep_best(const pawl_retention *policy, retention_step *steps, size_t count) {
    qsort(steps, count, sizeof *steps, policy->metric_max ? largest_first : smallest_first);
    for (size_t i = 0; i < count && i < (uint64_t)policy->keep_best; i++) {
        steps[i].keep = steps[i].keep || has_metric(&steps[i]);
    }
    qsort(steps, count, sizeof *steps, by_step);
}

void retention_choose(const pawl_retention *policy, int64_t just_committed, retention_step *steps,
                      size_t count) {
    for (size_t i = 0; i < count; i++) {
        bool by_count = policy->keep_last > 0 && count - i <= (uint64_t)policy->keep_last;
        bool by_step =
            policy->keep_every_steps > 0 && steps[i].step % policy->keep_every_steps == 0;
        steps[i].keep = !has_rules(policy) || by_count || by_step || steps[i].pinned ||
                        steps[i].step == just_committed || i + 1 == count;
    }
    if (policy->keep_every_hours > 0) {
        keep_by_hours(policy->keep_every_hours, steps, count);
    }
    if (policy->keep_best > 0 && policy->metric != NULL && count > 0) {
        keep_best(policy, steps, count);
    }
}

/* ---- applying it ---------------------------------------------------------------------------- */

static void fill_metric(const char *metrics_json, const char *metric, retention_step *step) {
    if (metric != NULL) {
        json_field field = {.key = metric, .type = FIELD_NUMBER, .to = &step->metric};
        step->has_metric = json_fields(metrics_json, strlen(metrics_json), &field, 1) &&
                           field.found == FIELD_FOUND;
    }
}

/* Committed checkpoints only: retention neither counts nor removes damaged or unfinished ones. */
static size_t list_committed(const pawl_catalog *catalog, const char *metric,
                             retention_step *steps) {
    size_t count = 0;
    for (size_t i = 0; i < pawl_catalog_count(catalog); i++) {
        const pawl_step_info *info = pawl_catalog_get(catalog, i);
        if (info->status == PAWL_STEP_COMMITTED) {
            steps[count] = (retention_step){
                .step = info->step, .unix_time_ns = info->unix_time_ns, .pinned = info->pinned};
            fill_metric(info->metrics_json, metric, &steps[count]);
            count++;
        }
    }
    return count;
}

/* The step that the run continued from stays until the run has committed a newer one. */
static bool is_origin(const pawl_run *run, int64_t step, int64_t just_committed) {
    return step == run->restored_step && just_committed <= step;
}

static void remove_unkept(pawl_run *run, int64_t just_committed, const retention_step *steps,
                          size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct pawl_error story = ERROR_INIT;
        if (steps[i].keep || is_origin(run, steps[i].step, just_committed)) {
            continue;
        }
        pawl_status status = step_remove(run, steps[i].step, &story);
        if (status == PAWL_OK) {
            log_write(&run->log, PAWL_LOG_INFO, "retention removed step %lld",
                      (long long)steps[i].step);
        } else if (status == PAWL_EBUSY) {
            log_write(&run->log, PAWL_LOG_INFO, "retention left step %lld: %s",
                      (long long)steps[i].step, error_text(&story));
        } else {
            log_write(&run->log, PAWL_LOG_WARN, "retention: %s", error_text(&story));
        }
    }
}

void retention_run(pawl_run *run, int64_t just_committed) {
    struct pawl_error story = ERROR_INIT;
    pawl_catalog *catalog = NULL;
    if (!has_rules(&run->retention)) {
        return;
    }
    if (catalog_open(run->store, run->platform, &run->log, &catalog, &story) != PAWL_OK) {
        log_write(&run->log, PAWL_LOG_WARN, "retention: %s", error_text(&story));
        return;
    }
    AUTOFREE retention_step *steps = mem_calloc(pawl_catalog_count(catalog), sizeof *steps);
    if (steps != NULL) {
        size_t count = list_committed(catalog, run->retention.metric, steps);
        retention_choose(&run->retention, just_committed, steps, count);
        remove_unkept(run, just_committed, steps, count);
    } else {
        log_write(&run->log, PAWL_LOG_WARN, "retention: out of memory, nothing was removed");
    }
    pawl_catalog_free(catalog);
}
