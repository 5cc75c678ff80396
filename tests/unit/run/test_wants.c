/* SPDX-License-Identifier: Apache-2.0 */
/* R04 across ranks: what nobody wants is found exactly, however many meetings that takes. */
#include "unit/run/joining.h"

#include "lib/random.h"
#include "restore/restore.h"
#include "votes/private.h"

typedef struct fixture {
    joining job;
    match_result match[MOST_RANKS];
    match_job_faults faults[MOST_RANKS];
    pawl_status own[MOST_RANKS];
    struct pawl_error story[MOST_RANKS];
} fixture;

static void begin(fixture *f, int world_size, bool connected) {
    memset(f, 0, sizeof *f);
    joining_init(&f->job, world_size, connected);
    joining_open(&f->job);
    for (int r = 0; r < world_size; r++) {
        assert_ok(f->job.status[r], &f->job.err[r]);
    }
}

static void forget(fixture *f) {
    for (int r = 0; r < f->job.world_size; r++) {
        match_job_faults_free(&f->faults[r]);
        mem_free(f->match[r].stances);
        f->match[r] = (match_result){.stances = NULL};
    }
}

static void finish(fixture *f) {
    forget(f);
    joining_end(&f->job);
}

static void make_room(fixture *f, size_t entries) {
    forget(f);
    for (int r = 0; r < f->job.world_size; r++) {
        f->match[r].stances = mem_calloc(entries, sizeof(match_stance));
        f->match[r].stance_count = entries;
    }
}

static void compare_one(void *context, int r) {
    fixture *f = context;
    f->job.err[r] = ERROR_INIT;
    f->story[r] = ERROR_INIT;
    f->job.status[r] = wants_compare(f->job.runs[r]->ranks, &f->match[r], &f->faults[r], &f->own[r],
                                     &f->story[r], &f->job.err[r]);
}

static void compare(fixture *f) {
    local_group_run(f->job.world_size, compare_one, f);
}

/* ---- against a judgement of one entry at a time --------------------------------------------- */

/* 0: nothing is wrong with it. */
static int wrong_with(const fixture *f, size_t i) {
    bool lacking = false, shared = false, held = false;
    uint64_t parts = 0;
    int copies = 1;
    for (int r = 0; r < f->job.world_size; r++) {
        const match_stance *s = &f->match[r].stances[i];
        lacking = lacking || s->want == MATCH_LACKS;
        shared = shared || s->want == MATCH_SHARES;
        if (s->want == MATCH_HOLDS) {
            held = true;
            parts += s->held;
            copies = s->copies > copies ? s->copies : copies;
        }
    }
    if (!lacking) {
        return 0;
    }
    if (shared) {
        return MATCH_NOT_ALL;
    }
    bool whole = parts >= f->match[0].stances[i].elements * (uint64_t)copies;
    return !held ? MATCH_NOBODY : whole ? 0 : MATCH_NOT_WHOLE;
}

static int found_in(const match_job_faults *faults, size_t i) {
    for (size_t k = 0; k < faults->count; k++) {
        if (i >= faults->items[k].first && i - faults->items[k].first < faults->items[k].count) {
            return (int)faults->items[k].error;
        }
    }
    return 0;
}

static void assert_found(const fixture *f) {
    for (int r = 0; r < f->job.world_size; r++) {
        assert_ok(f->job.status[r], (struct pawl_error *)(uintptr_t)&f->job.err[r]);
        assert_ok(f->own[r], (struct pawl_error *)(uintptr_t)&f->story[r]);
        for (size_t i = 0; i < f->match[0].stance_count; i++) {
            assert_int_equal(found_in(&f->faults[r], i), wrong_with(f, i));
        }
    }
}

/* Runs of entries that are alike to a rank, long or short; halves, thirds and odd parts. */
static void make_any(fixture *f, test_random *random, size_t entries) {
    make_room(f, entries);
    int64_t longest = random_between(random, 1, 200);
    for (int r = 0; r < f->job.world_size; r++) {
        match_stance s = {.want = MATCH_LEAVES};
        int64_t left = 0;
        int64_t part = 1;
        for (size_t i = 0; i < entries; i++) {
            if (left-- == 0) {
                left = random_between(random, 0, longest);
                s.want = (match_want)random_between(random, MATCH_LEAVES,
                                                    random_below(random, 4) == 0 ? MATCH_SHARES
                                                                                 : MATCH_HOLDS);
                s.copies = (int)random_between(random, 1, 2);
                part = random_between(random, 1, 4);
            }
            s.elements = 60 + 60 * (uint64_t)(i % 7);
            s.held = part < 4 ? s.elements / (uint64_t)part : s.elements - 13;
            f->match[r].stances[i] = s;
            f->match[r].lacking += s.want == MATCH_LACKS;
        }
    }
}

static void check_any(bool connected, size_t entries, int rounds, uint64_t seed) {
    fixture f;
    test_random random = {seed};
    begin(&f, (int)random_between(&random, 2, MOST_RANKS), connected);
    for (int i = 0; i < rounds; i++) {
        make_any(&f, &random, entries);
        compare(&f);
        assert_found(&f);
    }
    finish(&f);
}

static void test_any_ranks_find_what_nobody_wants(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        check_any(true, 40, 10, seed);
    }
    check_any(true, 20000, 2, 7);
    check_any(false, 3000, 2, 8);
}

/* Who lacks and who holds, in words; neighbours are one fault. */
static void test_faults_name_the_ranks(void **state) {
    (void)state;
    fixture f;
    begin(&f, 3, true);
    make_room(&f, 5);
    for (size_t i = 1; i < 4; i++) {
        f.match[0].stances[i] = (match_stance){.want = MATCH_SHARES};
        f.match[1].stances[i] = (match_stance){.want = MATCH_LACKS};
        f.match[2].stances[i] = (match_stance){.want = MATCH_SHARES};
    }
    compare(&f);
    for (int r = 0; r < 3; r++) {
        assert_ok(f.job.status[r], &f.job.err[r]);
        assert_int_equal(f.faults[r].count, 1);
        const match_job_fault *fault = &f.faults[r].items[0];
        assert_int_equal(fault->first, 1);
        assert_int_equal(fault->count, 3);
        assert_int_equal(fault->error, MATCH_NOT_ALL);
        assert_string_equal(fault->lacking, "rank 1");
        assert_string_equal(fault->holding, "ranks 0 and 2");
    }
    finish(&f);
}

/* Ranks that read different indexes do not compare them. */
static void test_ranks_with_other_entries_are_refused(void **state) {
    (void)state;
    fixture f;
    begin(&f, 3, true);
    make_room(&f, 50);
    f.match[2].stance_count = 49;
    compare(&f);
    for (int r = 0; r < 3; r++) {
        assert_status_text(&f.job.err[r], PAWL_EDAMAGED,
                           "the ranks do not see the same checkpoint\n"
                           "  expected: 50 entries, as on rank 0\n"
                           "  found:    49 on rank 2\n"
                           "  safe:     nothing was read into any state\n"
                           "  next:     find out with pawl doctor, on all ranks, whether they see "
                           "one directory");
    }
    finish(&f);
}

/* What all ranks lack alike they have the same words for, without a comparison. */
static void test_what_is_lacking_has_a_sum(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    match_stance stances[6] = {
        [1] = {.want = MATCH_LACKS}, [2] = {.want = MATCH_LACKS}, [5] = {.want = MATCH_LACKS}};
    const match_result match = {.stances = stances, .stance_count = 6, .lacking = 3};
    match_job_faults faults = {.items = NULL};
    wants_head one, other;
    assert_ok(wants_head_make(&match, &one, &err), &err);
    assert_ok(wants_nobody(&match, &faults, &err), &err);
    assert_int_equal(faults.count, 2);
    assert_int_equal(faults.items[0].first, 1);
    assert_int_equal(faults.items[0].count, 2);
    assert_int_equal(faults.items[1].first, 5);
    assert_int_equal(faults.items[1].count, 1);
    stances[2].want = MATCH_LEAVES;
    stances[3].want = MATCH_LACKS;
    assert_ok(wants_head_make(&match, &other, &err), &err);
    assert_int_equal(one.lacking, other.lacking);
    assert_int_not_equal(one.sum, other.sum);
    match_job_faults_free(&faults);
}

/* ---- answers that no rank 0 gives ----------------------------------------------------------- */

/* Rank 0: an answer to the first meeting, and to the next that it is over. */
typedef struct liar {
    const uint8_t *answer;
    size_t n;
    buffer told;
    unsigned broadcasts;
} liar;

static int take_nothing(void *context, const void *mine, size_t n, void *all, unsigned char *came,
                        double deadline_s) {
    (void)context;
    (void)mine;
    (void)n;
    (void)all;
    (void)came;
    (void)deadline_s;
    return 0;
}

static int tell_lie(void *context, void *bytes, size_t n, double deadline_s) {
    liar *l = context;
    struct pawl_error err = ERROR_INIT;
    (void)deadline_s;
    if (l->broadcasts++ % 2 == 0) {
        bool first = l->broadcasts == 1;
        const meet_reply v = {.number = 1,
                              .status = first ? PAWL_OK : PAWL_EDAMAGED,
                              .body = first ? l->answer : NULL,
                              .body_bytes = first ? l->n : 0};
        l->told.size = 0;
        assert_ok(meet_reply_encode(&v, &l->told, &err), &err);
        uint64_t length = UINT64_C(0x5057414c00000000) | l->told.size;
        memcpy(bytes, &length, sizeof length);
    } else {
        assert_int_equal(n, l->told.size);
        memcpy(bytes, l->told.data, n);
    }
    return 0;
}

/* What rank 1 of two makes of the answer, of 10 entries; *own is its own failure. */
static void hear(const uint8_t *answer, size_t n, match_job_faults *faults, pawl_status *own,
                 struct pawl_error *story) {
    liar l = {.answer = answer, .n = n};
    match_stance stances[10] = {{.want = MATCH_LACKS}};
    const match_result match = {.stances = stances, .stance_count = 10};
    struct pawl_error err = ERROR_INIT;
    const pawl_group callbacks = {.struct_size = sizeof callbacks,
                                  .rank = 1,
                                  .world_size = 2,
                                  .context = &l,
                                  .gather = take_nothing,
                                  .broadcast = tell_lie};
    rank_group *group;
    job_ranks *ranks;
    assert_ok(group_new(&callbacks, &group, &err), &err);
    assert_ok(ranks_new(group, platform_system(), &ranks, &err), &err);
    ranks->timeout_s = 10;
    pawl_status ignored = wants_compare(ranks, &match, faults, own, story, &err);
    (void)ignored;
    ranks_free(ranks);
    buffer_free(&l.told);
}

/* Faults lie within the entries that the answer is about, whatever numbers it has. */
static void test_r14_faults_beyond_the_end_of_an_answer_are_refused(void **state) {
    (void)state;
#define END  10, 0, 0, 0, 0, 0, 0, 0
#define HUGE 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1
    static const struct {
        size_t n;
        uint8_t bytes[40];
    } lies[] = {
        {13, {END, 9, 2, MATCH_NOBODY, 0, 0}},    /* entries 9 and 10 of 10 */
        {13, {END, 11, 1, MATCH_NOBODY, 0, 0}},   /* entry 11 */
        {13, {END, 0, 0, MATCH_NOBODY, 0, 0}},    /* none at all */
        {22, {END, 1, HUGE, MATCH_NOBODY, 0, 0}}, /* ends before it begins */
        {22, {END, HUGE, 2, MATCH_NOBODY, 0, 0}}, /* begins before the first */
        {18, {END, 0, 9, MATCH_NOBODY, 0, 0, 1, 1, MATCH_NOBODY, 0, 0}}, /* behind another */
    };
    for (size_t i = 0; i < ARRAY_LENGTH(lies); i++) {
        match_job_faults faults = {.items = NULL};
        struct pawl_error story = ERROR_INIT;
        pawl_status own = PAWL_OK;
        hear(lies[i].bytes, lies[i].n, &faults, &own, &story);
        assert_says(story.attempt, "the answer of rank 0 is damaged: a fault lies beyond its end");
        assert_int_equal(own, PAWL_EDAMAGED);
        match_job_faults_free(&faults);
    }
    match_job_faults faults = {.items = NULL};
    struct pawl_error story = ERROR_INIT;
    pawl_status own = PAWL_OK;
    static const uint8_t honest[] = {END, 8, 2, MATCH_NOBODY, 0, 0};
    hear(honest, sizeof honest, &faults, &own, &story);
    assert_ok(own, &story);
    assert_int_equal(faults.count, 1);
    assert_int_equal(faults.items[0].first + faults.items[0].count, 10);
    match_job_faults_free(&faults);
}

/* ---- the sums of replicas ------------------------------------------------------------------- */

/* A rank without sums has nothing to say of replicas, and leaves the story that there is. */
static void test_no_sums_are_no_failure(void **state) {
    (void)state;
    CLEANUP(arena_free) arena memory = {0};
    struct pawl_error err = ERROR_INIT;
    vote head = {.copies = NULL};
    error_entry(&err, "kept");
    assert_ok(replica_sums_head(NULL, &head, &memory, &err), &err);
    assert_string_equal(err.entry, "kept");
    assert_int_equal(head.copies_count, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_r14_faults_beyond_the_end_of_an_answer_are_refused),
        cmocka_unit_test(test_no_sums_are_no_failure),
        cmocka_unit_test(test_any_ranks_find_what_nobody_wants),
        cmocka_unit_test(test_faults_name_the_ranks),
        cmocka_unit_test(test_ranks_with_other_entries_are_refused),
        cmocka_unit_test(test_what_is_lacking_has_a_sum),
    };
    return cmocka_run_group_tests_name("what the ranks of a job want", tests, NULL, NULL);
}
