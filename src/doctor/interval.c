/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time between saves: is it longer than a save takes (P11)? Which one loses least?
 *
 * J. W. Young, "A first order approximation to the optimum checkpoint interval", Communications of
 * the ACM 17(9), 1974: sqrt(2 C M), of a cost C of each save and a mean time M between failures.
 * J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps",
 * Future Generation Computer Systems 22(3), 2006, equation 37, for C < 2 M:
 *
 *     sqrt(2 C M) (1 + sqrt(C / 2M) / 3 + (C / 2M) / 9) - C
 *
 * else M. C is how long training stands still, as the run's own saves have it; a save goes on in
 * the background, so that no time below what it takes is advised.
 */
#include "doctor/examination.h"

#include <math.h>
#include <stdio.h>

#define MARGIN  1.25 /* a save is given so much more time than it took */
#define LEAST_S 1.0  /* shorter saves that come closer together harm nobody */
/* Saves of so much say how fast more is saved. */
#define TELLING_BYTES ((uint64_t)64 << 20)

double doctor_best_interval_s(double cost_s, double mtbf_s) {
    if (cost_s >= 2 * mtbf_s) {
        return mtbf_s;
    }
    double part = cost_s / (2 * mtbf_s);
    return sqrt(2 * cost_s * mtbf_s) * (1 + sqrt(part) / 3 + part / 9) - cost_s;
}

/* What a save takes, and who says so. */
typedef struct duration {
    double seconds;
    uint64_t bytes;
    char source[96];
} duration;

/* Saves of little data say what a save costs that is not its data; how fast these are written says
 * the probe. */
static double more_of_it_s(const examination *x, const doctor_saves *saves) {
    double more = (double)x->need_bytes - (double)saves->bytes;
    if (saves->bytes >= TELLING_BYTES) {
        return saves->save_s * more / (double)saves->bytes;
    }
    return x->probe_bytes_per_s > 0 ? more / x->probe_bytes_per_s : -1;
}

/* False: nothing says it. */
static bool find_duration(const examination *x, duration *out) {
    const doctor_saves *saves = &x->saves;
    *out = (duration){.bytes = doctor_need(x)};
    if (saves->count > 0) {
        bool larger = x->need_bytes > saves->bytes;
        double more_s = larger ? more_of_it_s(x, saves) : 0;
        out->seconds = more_s >= 0 ? saves->save_s + more_s : 0;
        out->bytes = x->need_bytes > 0 ? x->need_bytes : saves->bytes;
        (void)snprintf(out->source, sizeof out->source, "as the run's last %zu save%s did%s",
                       saves->count, saves->count > 1 ? "s" : "",
                       larger && saves->bytes < TELLING_BYTES ? ", and by the speed of the probe"
                                                              : "");
    } else if (out->bytes > 0 && x->probe_bytes_per_s > 0) {
        out->seconds = (double)out->bytes / x->probe_bytes_per_s;
        (void)snprintf(out->source, sizeof out->source, "by the speed of the probe");
    }
    return out->seconds > 0;
}

static void tell_too_often(examination *x, const duration *d, double every_s, bool measured) {
    char bytes[32];
    char takes[32];
    char every[32];
    char fits[32];
    char next[192];
    (void)snprintf(next, sizeof next, "save every %s or less often, or to a faster disk",
                   text_seconds(fits, ceil(d->seconds * MARGIN)));
    doctor_evidence(x, "%.3f s a save, %.3f s between two", d->seconds, every_s);
    doctor_tell(x, "P11", PAWL_SEVERITY_WARNING, next,
                "saving %s takes %s there, %s, and saves are to be %s apart%s: each waits for the "
                "one before, or is left out",
                text_bytes(bytes, d->bytes), text_seconds(takes, d->seconds), d->source,
                text_seconds(every, every_s), measured ? ", as the run's events say" : "");
}

static void tell_best(examination *x, const duration *d) {
    char mtbf[32];
    char cost[32];
    char best[32];
    double mtbf_s = x->asked->more->mtbf_s;
    bool measured = x->saves.count > 0;
    double cost_s = measured ? x->saves.stall_s : d->seconds;
    double best_s = doctor_best_interval_s(cost_s, mtbf_s);
    double least_s = d->seconds * MARGIN;
    doctor_evidence(x, "Young: %.1f s; Daly: %.1f s; a save takes %.3f s",
                    sqrt(2 * cost_s * mtbf_s), best_s, d->seconds);
    doctor_tell(x, "ok", PAWL_SEVERITY_NOTE, NULL,
                "with a failure every %s, and training that stands still for %s in a save (%s), "
                "saving every %s loses least (Young 1974, Daly 2006)%s",
                text_seconds(mtbf, mtbf_s), text_seconds(cost, cost_s),
                measured ? "as its own saves say" : "at most: that is what it takes in all",
                text_seconds(best, best_s > least_s ? best_s : least_s),
                best_s > least_s ? "" : ", and more often there is no time to");
}

void doctor_examine_interval(examination *x) {
    duration d;
    const pawl_doctor_options *more = x->asked->more;
    bool measured = more->every_s <= 0;
    double every_s = measured ? (x->saves.intervals >= 2 ? x->saves.every_s : 0) : more->every_s;
    if (!find_duration(x, &d)) {
        return;
    }
    if (every_s > 0 && every_s < d.seconds && (!measured || d.seconds >= LEAST_S)) {
        tell_too_often(x, &d, every_s, measured);
    }
    if (more->mtbf_s > 0) {
        tell_best(x, &d);
    }
}
