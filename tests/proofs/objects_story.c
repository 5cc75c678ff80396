/* SPDX-License-Identifier: Apache-2.0 */
#include "proofs/objects_story.h"

#include "format/manifest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEASE_S 10.0
#define LATE_S  3.0
#define LATE_NS UINT64_C(3000000000)

const int64_t story_steps[STORY_STEPS] = {10, 20, 30, 40, 50, 60};

void story_broken(story *s, const char *format, ...) {
    va_list arguments;
    if (s->wrong[0] != '\0') {
        return;
    }
    va_start(arguments, format);
    vsnprintf(s->wrong, sizeof s->wrong, format, arguments);
    va_end(arguments);
}

static size_t index_of(int64_t step) {
    size_t i = 0;
    while (story_steps[i] != step) {
        i++;
    }
    return i;
}

/* ---- what processes do ----------------------------------------------------------------------- */

static pawl_status act_open(actor *a, pawl_error *err) {
    const pawl_run_options options = {
        .struct_size = sizeof options,
        .lease_s = LEASE_S,
        .retention =
            &(pawl_retention){.struct_size = sizeof(pawl_retention), .keep_last = a->keep_last}};
    TRY(run_open(process_view(&a->process, a->story->retries), &options, &a->process.os.table,
                 &a->run, err));
    a->owns = true;
    return PAWL_OK;
}

static pawl_status act_close(actor *a, pawl_error *err) {
    pawl_run *run = a->run;
    a->run = NULL;
    return run_close(run, 1, err);
}

static void told_success(actor *a, size_t i, uint32_t seed, int64_t victim) {
    const takeover *t = a->after;
    if (t != NULL && t->was_owner) {
        if (t->found[i] != (int64_t)seed) {
            story_broken(a->story,
                         "Q1: step %lld was told to be saved, and another process that "
                         "took the run over found %lld there",
                         (long long)story_steps[i], (long long)t->found[i]);
        }
        return;
    }
    a->story->expected[i] = (expectation){.seeds = 1u << seed};
    for (size_t k = 0; t != NULL && k < STORY_STEPS; k++) { /* retention keeps two of all */
        a->story->expected[k].absent |= k != i;
    }
    if (victim >= 0) {
        a->story->expected[index_of(victim)].absent = true;
    }
}

static void told_failure(actor *a, size_t i, uint32_t seed, const expectation *before,
                         pawl_error *err) {
    struct pawl_error ignored = ERROR_INIT;
    if (a->process.dead || proof_leaves_open(err)) {
        return;
    }
    if (a->after == NULL) {
        a->story->expected[i] = *before;
    } else if (story_content(a->story, i, &ignored) == (int64_t)seed) {
        story_broken(a->story, "Q3: step %lld was told to have failed, and is there: %s",
                     (long long)story_steps[i], error_text(err));
    }
}

/* `victim`: the step that retention removes after it; -1: none. */
static pawl_status act_save(actor *a, int64_t step, uint32_t seed, int64_t victim,
                            pawl_error *err) {
    size_t i = index_of(step);
    expectation before = a->story->expected[i];
    const pawl_save_options options = {.struct_size = sizeof options};
    proof_state ps;
    proof_state_make(&ps, seed);
    if (a->after == NULL || !a->after->was_owner) {
        a->story->expected[i].seeds |= 1u << seed;
        if (victim >= 0) {
            a->story->expected[index_of(victim)].absent_after = seed;
        }
    }
    pawl_status status = run_save(a->run, ps.state, step, &options, err);
    if (status == PAWL_OK) {
        status = run_wait(a->run, 1, NULL, err);
    }
    if (status == PAWL_OK) {
        told_success(a, i, seed, victim);
    } else {
        told_failure(a, i, seed, &before, err);
    }
    proof_state_free(&ps);
    return status;
}

static pawl_status act_remove(actor *a, int64_t step, pawl_error *err) {
    if (a->after == NULL || !a->after->was_owner) {
        a->story->expected[index_of(step)].absent = true;
    }
    return run_remove(a->run, step, false, err);
}

/* Whatever is read is one save of those that may be there. */
static pawl_status act_restore(actor *a, int64_t *step, pawl_error *err) {
    proof_state ps;
    pawl_report *report = NULL;
    proof_state_make(&ps, 31);
    pawl_status status = run_restore(a->run, ps.state, NULL, &report, err);
    *step = status == PAWL_OK ? pawl_report_step(report) : -1;
    int64_t seed = status == PAWL_OK ? proof_state_seed(&ps) : 0;
    pawl_report_free(report);
    proof_state_free(&ps);
    if (status == PAWL_OK &&
        (seed < 0 ||
         (a->after == NULL && (a->story->expected[index_of(*step)].seeds & 1u << seed) == 0))) {
        story_broken(a->story, "Q2: step %lld was restored, as %lld", (long long)*step,
                     (long long)seed);
    }
    return status;
}

/* A reader in the same process, whose mark keeps the step. */
static pawl_status act_read(actor *a, int64_t step, pawl_error *err) {
    static const pawl_log silent = {0};
    pawl_checkpoint *c = NULL;
    const pawl_verify_options options = {.struct_size = sizeof options};
    pawl_verify_result result;
    store *view = process_view(&a->process, a->story->retries);
    TRY(checkpoint_open(view, true, step, &a->process.os.table, &silent, &c, err));
    pawl_status status = checkpoint_verify(c, &options, &result, err);
    pawl_checkpoint_close(c);
    return status;
}

/* ---- lives ----------------------------------------------------------------------------------- */

#define OPEN_TRIES 3

static pawl_status goes_well(actor *a, pawl_status status, pawl_error *err) {
    if (status != PAWL_OK && a->failures++ == 0) {
        a->failure = *err;
    }
    if (status == PAWL_OK || !a->stubborn) {
        return status;
    }
    *err = (struct pawl_error)ERROR_INIT;
    return PAWL_OK;
}

static pawl_status open_well(actor *a, pawl_error *err) {
    pawl_status status = act_open(a, err);
    for (int i = 1; i < OPEN_TRIES && status != PAWL_OK; i++) {
        TRY(goes_well(a, status, err));
        status = act_open(a, err);
    }
    return status;
}

static pawl_status first_life(actor *a, pawl_error *err) {
    TRY(open_well(a, err));
    TRY(goes_well(a, act_save(a, 10, 1, -1, err), err));
    TRY(goes_well(a, act_save(a, 20, 2, -1, err), err));
    TRY(goes_well(a, act_save(a, 20, 3, -1, err), err)); /* a step a second time */
    TRY(goes_well(a, act_save(a, 30, 4, 10, err), err)); /* retention removes step 10 */
    return goes_well(a, act_close(a, err), err);
}

static pawl_status second_life(actor *a, pawl_error *err) {
    int64_t step;
    TRY(open_well(a, err));
    TRY(goes_well(a, act_restore(a, &step, err), err));
    TRY(goes_well(a, act_save(a, 30, 5, -1, err), err));
    TRY(goes_well(a, run_pin(a->run, 30, true, err), err));
    TRY(goes_well(a, act_read(a, 20, err), err));
    simulated_platform_advance(&a->story->clock, LATE_NS); /* until its mark is gone for all */
    TRY(goes_well(a, act_remove(a, 20, err), err));
    TRY(goes_well(a, run_pin(a->run, 30, false, err), err));
    TRY(goes_well(a, act_save(a, 40, 6, -1, err), err));
    TRY(goes_well(a, run_gc(a->run, false, NULL, NULL, err), err));
    return goes_well(a, act_close(a, err), err);
}

life *const story_lives[LIVES] = {first_life, second_life};

void story_begin(story *s, bool late, bool retries) {
    struct pawl_error err = ERROR_INIT;
    const store_objects_options options = {.late_s = late ? LATE_S : 0, .seed = late ? 5 : 0};
    memset(s, 0, sizeof *s);
    s->retries = retries;
    simulated_platform_init(&s->clock, 3);
    proof_must(store_objects(&s->clock.table, &options, &s->objects, &err), &err);
    proof_must(store_truth(s->objects, &s->storage, &err), &err);
    for (size_t i = 0; i < STORY_STEPS; i++) {
        s->expected[i].absent = true;
    }
}

void story_end(story *s) {
    store_truth_destroy(s->storage, s->objects);
    store_destroy(s->objects);
}

void actor_begin(actor *a, story *s, uint64_t number) {
    memset(a, 0, sizeof *a);
    a->story = s;
    a->keep_last = 2;
    process_init(&a->process, s->objects, &s->clock, number);
}

void actor_end(actor *a) {
    struct pawl_error ignored = ERROR_INIT;
    if (a->run != NULL) {
        (void)act_close(a, &ignored);
    }
}

void story_live_before(story *s, size_t which) {
    for (size_t i = 0; i < which; i++) {
        struct pawl_error err = ERROR_INIT;
        actor a;
        actor_begin(&a, s, 50 + i);
        proof_must(story_lives[i](&a, &err), &err);
    }
}

/* ---- what must be there ---------------------------------------------------------------------- */

int64_t story_content(const story *s, size_t step, pawl_error *err) {
    simulated_platform os;
    simulated_platform_init(&os, 11);
    return proof_seed_of_step(s->storage, story_steps[step], &os.table, err);
}

static bool is_present(const int64_t *seeds, uint32_t seed) {
    for (size_t i = 0; i < STORY_STEPS; i++) {
        if (seeds[i] == (int64_t)seed) {
            return true;
        }
    }
    return false;
}

void story_check(story *s) {
    struct pawl_error err = ERROR_INIT;
    int64_t seeds[STORY_STEPS];
    for (size_t i = 0; i < STORY_STEPS; i++) {
        seeds[i] = story_content(s, i, &err);
        if (seeds[i] < 0) {
            story_broken(s, "Q1: step %lld: %s", (long long)story_steps[i], error_text(&err));
        }
    }
    for (size_t i = 0; i < STORY_STEPS; i++) {
        const expectation *e = &s->expected[i];
        bool may_be_absent =
            e->absent || (e->absent_after != 0 && is_present(seeds, e->absent_after));
        if ((seeds[i] == 0 && !may_be_absent) ||
            (seeds[i] > 0 && (e->seeds & 1u << seeds[i]) == 0)) {
            story_broken(s, "Q2: step %lld holds %lld", (long long)story_steps[i],
                         (long long)seeds[i]);
        }
    }
}

/* ---- the next process ------------------------------------------------------------------------ */

static int64_t newest_of(const story *s, int64_t seeds[STORY_STEPS]) {
    struct pawl_error ignored = ERROR_INIT;
    int64_t newest = -1;
    for (size_t i = 0; i < STORY_STEPS; i++) {
        seeds[i] = story_content(s, i, &ignored);
        newest = seeds[i] > 0 ? story_steps[i] : newest;
    }
    return newest;
}

static void arrives(story *s, process *earlier) {
    int64_t before[STORY_STEPS];
    int64_t after[STORY_STEPS];
    (void)newest_of(s, before);
    process_deliver(earlier);
    (void)newest_of(s, after);
    if (memcmp(before, after, sizeof before) != 0) {
        story_broken(s, "Q5: what arrives late is done, though another process has the run");
    }
}

static pawl_status go_on(actor *a, process *earlier, int64_t *restored, pawl_error *err) {
    TRY(act_open(a, err));
    if (earlier != NULL) {
        arrives(a->story, earlier);
    }
    pawl_status status = act_restore(a, restored, err);
    if (status != PAWL_OK && status != PAWL_ENOTFOUND) {
        return status;
    }
    TRY(act_save(a, 60, 9, -1, err));
    TRY(run_gc(a->run, false, NULL, NULL, err));
    return act_close(a, err);
}

/* Retention keeps the last two: what it found to be the newest, and its own. */
static void expect_retention(story *s, int64_t newest) {
    for (size_t i = 0; i < STORY_STEPS; i++) {
        if (story_steps[i] != newest && !s->expected[i].absent) {
            s->expected[i].absent_after = 9;
        }
    }
}

static void check_gone_on(story *s, int64_t newest, int64_t seed, int64_t restored) {
    struct pawl_error err = ERROR_INIT;
    int64_t now = newest >= 0 && newest != 60 ? story_content(s, index_of(newest), &err) : seed;
    if (restored != newest) {
        story_broken(s, "Q4: the next process has restored step %lld, the newest is %lld",
                     (long long)restored, (long long)newest);
    }
    if (now != seed) {
        story_broken(s, "Q1: step %lld held %lld, and holds %lld after the next process",
                     (long long)newest, (long long)seed, (long long)now);
    }
    if (story_content(s, STORY_STEPS - 1, &err) != 9) {
        story_broken(s, "Q4: what the next process has saved is not there: %s", error_text(&err));
    }
}

bool story_goes_on(story *s, uint64_t number, const fate *f, process *earlier) {
    struct pawl_error err = ERROR_INIT;
    int64_t before[STORY_STEPS];
    int64_t restored = -2;
    actor a;
    int64_t newest = newest_of(s, before);
    expect_retention(s, newest);
    actor_begin(&a, s, number);
    a.process.fates[0] = *f;
    pawl_status status = go_on(&a, earlier, &restored, &err);
    actor_end(&a);
    if (f->kind == FATE_NONE && status != PAWL_OK) {
        story_broken(s, "Q4: the next process cannot go on: %s", error_text(&err));
    } else if (f->kind == FATE_NONE) {
        check_gone_on(s, newest, newest >= 0 ? before[index_of(newest)] : 0, restored);
    }
    story_check(s);
    return process_met_its_fate(&a.process);
}

/* ---- taking a run over ----------------------------------------------------------------------- */

static void note_path(void *context, const store_call *call) {
    takeover *t = context;
    const char *path = call->to != NULL ? call->to : call->path;
    size_t i = 0;
    if (path[0] == '\0' || strcmp(path, "latest") == 0 || t->ended) {
        return;
    }
    while (i < t->path_count && strcmp(t->paths[i], path) != 0) {
        i++;
    }
    if (i == STORY_PATHS || strlen(path) >= sizeof t->paths[i]) {
        abort();
    }
    t->path_count += i == t->path_count;
    snprintf(t->paths[i], sizeof t->paths[i], "%s", path);
}

/* Of its bytes, but for newlines at the end of a manifest; 0: there is none. *n: of so many, in a
 * file that is added to; 0: of all, and becomes how many that are. */
static uint32_t sum_of(const story *s, const char *path, size_t *n) {
    struct pawl_error ignored = ERROR_INIT;
    CLEANUP(buffer_free) buffer bytes = {0};
    if (store_read_file(s->storage, path, SIZE_MAX / 2, &bytes, &ignored) != PAWL_OK) {
        return 0;
    }
    bool grows = strcmp(path, "events.jsonl") == 0 && *n > 0;
    if (!grows || *n > bytes.size) {
        *n = manifest_bytes(bytes.data, bytes.size);
    }
    return crc32c(0, bytes.data, *n) | 1u;
}

static pawl_status take_over(takeover *t, pawl_error *err) {
    int64_t restored;
    TRY(act_open(&t->other, err));
    (void)newest_of(t->other.story, t->found);
    pawl_status status = act_restore(&t->other, &restored, err);
    if (status != PAWL_OK && status != PAWL_ENOTFOUND) {
        return status;
    }
    story_check(t->other.story);
    if (!t->stays) { /* saves what the victim may be about to remove, or to publish */
        TRY(act_save(&t->other, 10, 17, -1, err));
        TRY(act_save(&t->other, 20, 18, -1, err));
        TRY(act_save(&t->other, 30, 19, -1, err));
    }
    TRY(act_save(&t->other, 50, 20, -1, err));
    TRY(run_gc(t->other.run, false, NULL, NULL, err));
    return t->stays ? PAWL_OK : act_close(&t->other, err);
}

void takeover_happens(void *context) {
    takeover *t = context;
    struct pawl_error err = ERROR_INIT;
    story *s = t->victim->story;
    t->was_owner = t->victim->owns;
    actor_begin(&t->other, s, 2);
    t->other.keep_last = 0;
    t->other.process.changed = note_path;
    t->other.process.changed_context = t;
    if (take_over(t, &err) != PAWL_OK) {
        story_broken(s, "Q4: another process cannot take the run over: %s", error_text(&err));
    }
    simulated_platform_advance(&s->clock, (uint64_t)(2 * LEASE_S * 1e9));
    (void)newest_of(s, t->left);
    for (size_t i = 0; i < t->path_count; i++) {
        t->sizes[i] = 0;
        t->sums[i] = sum_of(s, t->paths[i], &t->sizes[i]);
    }
    t->ended = true;
    t->victim->after = t;
}

/* The one that stays has the run still. */
static void check_still_owner(takeover *t) {
    struct pawl_error err = ERROR_INIT;
    if (t->stays && t->other.run != NULL && act_save(&t->other, 60, 21, -1, &err) != PAWL_OK) {
        story_broken(t->other.story, "Q5: the process that took the run over has lost it: %s",
                     error_text(&err));
    }
}

void takeover_check(takeover *t) {
    story *s = t->victim->story;
    struct pawl_error err = ERROR_INIT;
    for (size_t i = 0; t->was_owner && i < STORY_STEPS; i++) {
        int64_t now = story_content(s, i, &err);
        if (now != t->left[i]) {
            story_broken(s,
                         "Q5: step %lld held %lld, and holds %lld after the process that stood "
                         "still went on",
                         (long long)story_steps[i], (long long)t->left[i], (long long)now);
        }
    }
    for (size_t i = 0; t->was_owner && i < t->path_count; i++) {
        if (sum_of(s, t->paths[i], &t->sizes[i]) != t->sums[i]) {
            story_broken(s, "Q5: %s is changed, or gone", t->paths[i]);
        }
    }
    if (t->was_owner) {
        check_still_owner(t);
    }
    actor_end(&t->other);
}
