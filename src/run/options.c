/* SPDX-License-Identifier: Apache-2.0 */
/* Refuses invalid options of a run, with what is allowed and what was given. */
#include "run/private.h"

#include <math.h>
#include <string.h>

#define MIN_IN_FLIGHT_BYTES ((int64_t)1 << 20)
#define MAX_IN_FLIGHT_BYTES ((int64_t)1 << 30) /* far more than any storage needs to be busy */

static pawl_status refuse_option(const char *option, pawl_error *err) {
    error_set(err, PAWL_EUSAGE, "open run: the option %s has an invalid value", option);
    error_next(err, "see pawl_run_options in pawl/run.h");
    return PAWL_EUSAGE;
}

/* NaN is within no bounds. */
static pawl_status check_number(const char *option, double value, double least, double most,
                                pawl_error *err) {
    if (value >= least && value <= most) {
        return PAWL_OK;
    }
    (void)refuse_option(option, err);
    if (isinf(least)) {
        error_expected(err, "a number");
    } else if (isinf(most)) {
        error_expected(err, "%g or more", least);
    } else {
        error_expected(err, "%.0f to %.0f", least, most);
    }
    error_found(err, "%g", value);
    err->status = value > most ? PAWL_ELIMIT : PAWL_EUSAGE;
    return err->status;
}

static pawl_status check_whole(const char *option, int64_t value, int64_t least, int64_t most,
                               const char *expected, pawl_error *err) {
    if (value >= least && value <= most) {
        return PAWL_OK;
    }
    (void)refuse_option(option, err);
    error_expected(err, "%s", expected);
    error_found(err, "%lld", (long long)value);
    return PAWL_EUSAGE;
}

static pawl_status check_count(const char *option, int64_t value, pawl_error *err) {
    return check_whole(option, value, 0, INT64_MAX, "0 or more", err);
}

static pawl_status check_times(const pawl_run_options *o, pawl_error *err) {
    if (o->lease_s != 0) {
        TRY(check_number("lease_s", o->lease_s, OWNER_MIN_LEASE_S, OWNER_MAX_LEASE_S, err));
    }
    TRY(check_number("takeover_wait_s", o->takeover_wait_s, -INFINITY, INFINITY, err));
    TRY(check_number("deadline_s", o->deadline_s, 0, INFINITY, err));
    TRY(check_number("group_deadline_s", o->group_deadline_s, 0, INFINITY, err));
    TRY(check_number("hang_deadline_s", o->hang_deadline_s, 0, INFINITY, err));
    return check_number("save_every_s", o->save_every_s, 0, INFINITY, err);
}

static int64_t whole(size_t bytes) {
    return bytes < INT64_MAX ? (int64_t)bytes : INT64_MAX;
}

static pawl_status check_memory_options(const pawl_run_options *o, pawl_error *err) {
    int64_t budget_bytes = whole(run_budget(o));
    int64_t most = budget_bytes < MAX_IN_FLIGHT_BYTES ? budget_bytes : MAX_IN_FLIGHT_BYTES;
    TRY(check_whole("budget_bytes", budget_bytes, ENGINE_MIN_BUDGET, INT64_MAX,
                    "at least 8 MiB (8388608)", err));
    int64_t in_flight_bytes = whole(o->in_flight_bytes);
    if (in_flight_bytes == 0 ||
        check_whole("in_flight_bytes", in_flight_bytes, MIN_IN_FLIGHT_BYTES, most,
                    "1 MiB (1048576) to 1 GiB (1073741824), and at most the budget",
                    err) == PAWL_OK) {
        return PAWL_OK;
    }
    err->status = in_flight_bytes > MAX_IN_FLIGHT_BYTES ? PAWL_ELIMIT : PAWL_EUSAGE;
    return err->status;
}

/* Enums begin at 0. */
static pawl_status check_choices(const pawl_run_options *o, pawl_error *err) {
    TRY(check_whole("on_busy", (int64_t)o->on_busy, 0, PAWL_ON_BUSY_ERROR,
                    "PAWL_ON_BUSY_WAIT, _SKIP or _ERROR", err));
    TRY(check_whole("io", (int64_t)o->io, 0, PAWL_IO_BUFFERED,
                    "PAWL_IO_AUTO, _URING, _THREADS or _BUFFERED", err));
    return check_whole("io_priority", (int64_t)o->io_priority, 0, PAWL_IO_PRIORITY_IDLE,
                       "PAWL_IO_PRIORITY_DEFAULT, _LOW or _IDLE", err);
}

static pawl_status check_processors(const pawl_run_options *o, pawl_error *err) {
    if (o->cpus == NULL && o->cpu_count != 0) {
        (void)refuse_option("cpus", err);
        error_expected(err, "cpu_count (%zu) numbers of processors", o->cpu_count);
        error_found(err, "a null pointer");
        return PAWL_EUSAGE;
    }
    for (size_t i = 0; i < o->cpu_count; i++) {
        TRY(check_count("cpus", o->cpus[i], err));
    }
    return PAWL_OK;
}

static pawl_status check_framework(const char *text, pawl_error *err) {
    if (text == NULL) {
        return PAWL_OK;
    }
    size_t n = strnlen(text, PAWL_MAX_FRAMEWORK_BYTES + 1);
    if (n > PAWL_MAX_FRAMEWORK_BYTES) {
        (void)refuse_option("framework", err);
        err->status = PAWL_ELIMIT;
        error_expected(err, "at most %d bytes (PAWL_MAX_FRAMEWORK_BYTES)",
                       PAWL_MAX_FRAMEWORK_BYTES);
        error_found(err, "more than that, beginning with \"%.40s\"", text);
        return PAWL_ELIMIT;
    }
    for (size_t at = 0, length; at < n; at += length) {
        length = utf8_character(text + at, n - at);
        if (length == 0) {
            (void)refuse_option("framework", err);
            error_expected(err, "text in UTF-8");
            error_found(err, "the byte 0x%02x at byte %zu of it", (unsigned char)text[at], at);
            return PAWL_EUSAGE;
        }
    }
    return PAWL_OK;
}

/* A name that no metric can have would choose nothing. */
static pawl_status check_retention_metric(const char *name, pawl_error *err) {
    const char *fault = NULL;
    size_t n = strnlen(name, PAWL_MAX_NAME_BYTES + 1);
    if (entry_name_valid(name, n, &fault)) {
        return PAWL_OK;
    }
    (void)refuse_option("retention.metric", err);
    err->status = entry_name_refusal(n);
    error_expected(err, "a name that an entry may have");
    error_found(err, "one that %s", fault);
    return err->status;
}

static pawl_status check_retention(const pawl_retention *r, pawl_error *err) {
    TRY(check_count("retention.keep_last", r->keep_last, err));
    TRY(check_count("retention.keep_every_steps", r->keep_every_steps, err));
    TRY(check_number("retention.keep_every_hours", r->keep_every_hours, 0, INFINITY, err));
    TRY(check_count("retention.keep_best", r->keep_best, err));
    if (r->keep_best > 0 && (r->metric == NULL || r->metric[0] == '\0')) {
        (void)refuse_option("retention.metric", err);
        error_expected(err, "the name of a metric, by which keep_best chooses");
        error_found(err, "%s", r->metric == NULL ? "a null pointer" : "an empty name");
        return PAWL_EUSAGE;
    }
    return r->keep_best > 0 ? check_retention_metric(r->metric, err) : PAWL_OK;
}

pawl_status run_options_check(const pawl_run_options *o, pawl_error *err) {
    TRY(check_times(o, err));
    TRY(check_count("save_every_steps", o->save_every_steps, err));
    TRY(check_memory_options(o, err));
    TRY(check_choices(o, err));
    TRY(check_processors(o, err));
    TRY(check_framework(o->framework, err));
    return o->retention != NULL ? check_retention(o->retention, err) : PAWL_OK;
}
