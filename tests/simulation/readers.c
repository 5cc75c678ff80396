/* SPDX-License-Identifier: Apache-2.0 */
#include "simulation/readers.h"

#include "checkpoint/checkpoint.h"
#include "run/run.h"
#include "simulation/training.h"

#include <stdio.h>
#include <string.h>

#define NS_PER_MS   (NS_PER_S / 1000)
#define MOST_LOOKS  200
#define LONG_REST_S 120 /* several leases of any job */
#define LAG_S       65  /* a mark is seen after so long, whatever lags */

static void say(const reader_process *r, const char *what, int64_t step, pawl_status status,
                pawl_error *err) {
    if (r->storage->trace) {
        printf("%14.6f reader %lld on %s: %s step %lld: %s %s\n",
               (double)fibers_now() / (double)NS_PER_S, (long long)r->machine.who.pid,
               r->machine.who.host, what, (long long)step, pawl_status_name(status),
               status != PAWL_OK ? error_text(err) : "");
    }
}

static void take_log(void *context, pawl_log_level level, const char *text) {
    reader_process *r = context;
    (void)level;
    r->unmarked = r->unmarked || strstr(text, "without a mark") != NULL;
}

/* ---- what it hears --------------------------------------------------------------------------- */

/* B1, B2. `begun_ns`: when it began to look. */
static void check_refusal(reader_process *r, const char *what, pawl_status status, pawl_error *err,
                          uint64_t begun_ns) {
    const commit *c = promises_lasting(r->promises, begun_ns);
    if (status == PAWL_ENOTFOUND && c != NULL) {
        promises_broken(r->promises, "B1: a reader, %s, hears that there is nothing, beside %s: %s",
                        what, c->tag, error_text(err));
    }
    if (status == PAWL_EDAMAGED && r->promises->damaged_ns == 0) {
        promises_broken(r->promises, "B2: a reader, %s, hears of damage: %s", what,
                        error_text(err));
    }
}

static void list(reader_process *r) {
    struct pawl_error err = ERROR_INIT;
    const pawl_log log = {.level = PAWL_LOG_INFO, .context = r, .write = take_log};
    pawl_catalog *catalog = NULL;
    uint64_t begun_ns = fibers_now();
    r->doing = "listing";
    pawl_status status = catalog_open(r->view, &r->machine.os, &log, &catalog, &err);
    size_t committed = 0;
    for (size_t i = 0; i < pawl_catalog_count(catalog); i++) {
        const pawl_step_info *info = pawl_catalog_get(catalog, i);
        committed += info->status == PAWL_STEP_COMMITTED;
        if (info->status == PAWL_STEP_DAMAGED) {
            error_set(&err, PAWL_EDAMAGED, "step %lld: %s", (long long)info->step, info->why);
            check_refusal(r, "listing", PAWL_EDAMAGED, &err, begun_ns);
        }
    }
    say(r, "lists", (int64_t)committed, status, &err);
    if (status == PAWL_OK && committed == 0) {
        error_set(&err, PAWL_ENOTFOUND, "%zu steps, none of them committed",
                  pawl_catalog_count(catalog));
        check_refusal(r, "listing", PAWL_ENOTFOUND, &err, begun_ns);
    }
    pawl_catalog_free(catalog);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* B3. False: it cannot be read any more. */
static bool read_all(reader_process *r, pawl_checkpoint *c, int64_t step, size_t of) {
    struct pawl_error err = ERROR_INIT;
    const pawl_restore_options options = {.struct_size = sizeof options,
                                          .per_rank = PAWL_POLICY_ALLOW};
    training t;
    int64_t of_step = -1;
    int64_t of_job = -1;
    training_make(&t, r->model, 0, 1, false);
    pawl_status status = checkpoint_restore(c, t.state, &options, 0, 1, NULL, &err);
    say(r, "reads", step, status, &err);
    if (status == PAWL_OK && (!training_look(&t, &of_step, &of_job) || of_step != step ||
                              promises_commit(r->promises, (int)of_job, step) == NULL)) {
        promises_broken(r->promises, "B3: a reader has read step %lld, which is not of one save",
                        (long long)step);
    }
    const commit *opened = of < r->promises->count ? &r->promises->commits[of] : NULL;
    bool is_gone = opened != NULL && !opened->visible;
    bool too_late = is_gone && opened->hidden_ns < r->opened_ns + LAG_S * NS_PER_S;
    bool may_fail = r->unmarked || (storage_lags_looks(r->storage) && too_late);
    if (status != PAWL_OK && !may_fail) {
        promises_broken(r->promises, "B3: a reader cannot read step %lld any more: %s",
                        (long long)step, error_text(&err));
    }
    training_free(&t);
    return status == PAWL_OK;
}

/* Between two reads; one that has a thread for its mark may rest for longer than any lease. */
static void rest(reader_process *r) {
    bool long_rest = r->machine.os.concurrent && random_below(&r->machine.random, 2) == 0;
    uint64_t most_s = long_rest ? LONG_REST_S : 4;
    fiber_sleep(random_below(&r->machine.random, most_s * NS_PER_S));
}

static void open_and_read(reader_process *r) {
    struct pawl_error err = ERROR_INIT;
    const pawl_log log = {.level = PAWL_LOG_INFO, .context = r, .write = take_log};
    pawl_checkpoint *c = NULL;
    pawl_checkpoint_info info = {.step = -1};
    uint64_t begun_ns = fibers_now();
    r->doing = "opening";
    r->unmarked = false;
    r->opened_ns = begun_ns;
    pawl_status status =
        checkpoint_open(r->view, false, CHECKPOINT_NEWEST, &r->machine.os, &log, &c, &err);
    if (status == PAWL_OK) {
        checkpoint_describe(c, &info);
    }
    say(r, "opens", info.step, status, &err);
    if (status != PAWL_OK) {
        check_refusal(r, "opening the newest", status, &err, begun_ns);
        return;
    }
    r->doing = "reading";
    bool good = true;
    size_t of = promises_named(r->promises, info.manifest_json);
    for (uint64_t i = random_below(&r->machine.random, 8); i > 0 && good; i--) {
        good = read_all(r, c, info.step, of);
        rest(r);
    }
    pawl_checkpoint_close(c);
}

static void body(void *argument) {
    reader_process *r = argument;
    r->machine.trainer = fiber_self();
    for (int i = 0; i < MOST_LOOKS && !*r->over; i++) {
        r->doing = "pausing";
        fiber_sleep(random_below(&r->machine.random, r->pause_ns + 1));
        if (random_below(&r->machine.random, 3) == 0) {
            list(r);
        } else {
            open_and_read(r);
        }
    }
    r->doing = NULL;
    r->machine.has_ended = true;
}

void reader_process_start(reader_process *r, const char *host, cluster *c, storage *s, promises *p,
                          const model *m, uint64_t seed, bool *over) {
    *r = (reader_process){.storage = s, .promises = p, .model = m, .over = over};
    machine_init(&r->machine, c, host, seed, seed % 2 == 0);
    static const uint64_t pauses_ms[] = {10, 100, 1000, 10000};
    r->pause_ns = pauses_ms[random_below(&r->machine.random, ARRAY_LENGTH(pauses_ms))] * NS_PER_MS;
    if (random_below(&r->machine.random, 3) == 0) {
        r->machine.fate.die_before = 1 + random_below(&r->machine.random, 400);
    }
    r->view = storage_view(s, &r->machine, false);
    fiber_let_go(fiber_start(&r->machine.group, body, r));
}
