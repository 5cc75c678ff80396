/* SPDX-License-Identifier: Apache-2.0 */
/* Groups as their caller describes them; ranks in words. */
#include "group/group.h"

#include "lib/failing_memory.h"
#include "lib/test.h"

#include <stdio.h>
#include <string.h>

static struct pawl_error err;

/* ---- what may be a group ---- */

static int answer_with(void *context, void *bytes, size_t n, double deadline_s) {
    (void)bytes, (void)n, (void)deadline_s;
    return *(int *)context;
}

static int gather_with(void *context, const void *mine, size_t n, void *all, unsigned char *came,
                       double deadline_s) {
    (void)mine, (void)n, (void)all, (void)deadline_s;
    came[0] = 1;
    return *(int *)context;
}

static pawl_group two_ranks(void) {
    return (pawl_group){
        .struct_size = sizeof(pawl_group), .rank = 1, .world_size = 2, .launch = "job-7"};
}

static void test_no_group_is_one_process_alone(void **state) {
    (void)state;
    rank_group *g = NULL;
    assert_ok(group_new(NULL, &g, &err), &err);
    assert_int_equal(g->rank, 0);
    assert_int_equal(g->world_size, 1);
    assert_false(g->connected);
    assert_null(g->launch);
    group_free(g);
    group_free(NULL);
}

static void test_the_launch_is_copied(void **state) {
    (void)state;
    char launch[] = "job-7";
    pawl_group given = two_ranks();
    rank_group *g = NULL;
    given.launch = launch;
    assert_ok(group_new(&given, &g, &err), &err);
    launch[0] = 'x';
    assert_string_equal(g->launch, "job-7");
    assert_int_equal(g->rank, 1);
    assert_false(g->connected);
    group_free(g);
}

static void test_with_callbacks_the_launch_may_be_left_out(void **state) {
    (void)state;
    pawl_group given = two_ranks();
    rank_group *g = NULL;
    given.launch = NULL;
    given.gather = gather_with;
    given.broadcast = answer_with;
    assert_ok(group_new(&given, &g, &err), &err);
    assert_true(g->connected);
    group_free(g);
}

static void refused_with(const pawl_group *given, pawl_status status, const char *why,
                         const char *next) {
    rank_group *g = NULL;
    char text[512];
    snprintf(text, sizeof text, "the group of ranks is invalid: %s\n  next:     %s", why, next);
    assert_int_equal(group_new(given, &g, &err), status);
    assert_status_text(&err, status, text);
    assert_null(g);
}

static void refused(const pawl_group *given, const char *why) {
    refused_with(given, PAWL_EUSAGE, why, "see pawl_group in pawl/group.h");
}

static void passes_limit(const pawl_group *given, const char *why) {
    refused_with(given, PAWL_ELIMIT, why, "see pawl_group in pawl/group.h");
}

/* Without a name that all ranks know, and know to be of this start, they cannot find each other. */
static void nameless(const pawl_group *given, const char *why) {
    refused_with(given, PAWL_EUSAGE, why,
                 "set launch to a text that is the same on all ranks and another one at each "
                 "start of the job, such as the scheduler's job number with its restart count; or "
                 "give the callbacks, and no launch");
}

static void test_a_start_that_nothing_names_is_refused(void **state) {
    (void)state;
    pawl_group g = two_ranks();
    g.launch = NULL;
    nameless(&g, "many ranks need the callbacks, or launch, to find each other");
    g.launch = "";
    nameless(&g, "launch is empty, so nothing names this start of the job");
}

static void test_what_cannot_be_a_group_is_refused(void **state) {
    (void)state;
    pawl_group g = two_ranks();
    g.world_size = 0;
    refused(&g, "world_size is 0, not 1 to 100000");
    g.world_size = PAWL_MAX_RANKS + 1;
    passes_limit(&g, "world_size is 100001, not 1 to 100000");
    g = two_ranks();
    g.rank = -1;
    refused(&g, "rank is -1, not 0 to 1");
    g.rank = 2;
    refused(&g, "rank is 2, not 0 to 1");
    g = two_ranks();
    g.gather = gather_with;
    refused(&g, "it has only one of the callbacks gather and broadcast; it needs both");
    g = two_ranks();
    g.broadcast = answer_with;
    refused(&g, "it has only one of the callbacks gather and broadcast; it needs both");
}

static void test_a_launch_is_printable_and_not_too_long(void **state) {
    (void)state;
    char longest[PAWL_MAX_LAUNCH_BYTES + 2];
    const char *const bad[] = {"a b", "a\n", "\x7f", "\xc3\xa4"};
    pawl_group given = two_ranks();
    rank_group *g = NULL;
    memset(longest, '~', sizeof longest);
    longest[PAWL_MAX_LAUNCH_BYTES + 1] = '\0';
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        given.launch = bad[i];
        refused(&given, "launch is not 1 to 255 printable ASCII characters without spaces");
    }
    given.launch = longest;
    passes_limit(&given, "launch is not 1 to 255 printable ASCII characters without spaces");
    longest[PAWL_MAX_LAUNCH_BYTES] = '\0';
    assert_ok(group_new(&given, &g, &err), &err);
    group_free(g);
}

static pawl_status make_and_free(void *context, pawl_error *story) {
    rank_group *g = NULL;
    TRY(group_new(context, &g, story));
    group_free(g);
    return PAWL_OK;
}

static void test_out_of_memory_leaves_nothing(void **state) {
    (void)state;
    pawl_group given = two_ranks();
    assert_int_equal(failing_memory_each(make_and_free, &given), 2);
}

/* ---- callbacks ---- */

static void test_what_callbacks_return_is_told(void **state) {
    (void)state;
    int code = 0;
    unsigned char came[2] = {0, 0};
    pawl_group given = two_ranks();
    rank_group *g = NULL;
    given.context = &code;
    given.gather = gather_with;
    given.broadcast = answer_with;
    assert_ok(group_new(&given, &g, &err), &err);
    assert_ok(group_gather(g, "x", 1, NULL, came, 1, &err), &err);
    assert_int_equal(came[0], 1);
    assert_ok(group_broadcast(g, came, 1, 1, &err), &err);
    code = -3;
    assert_int_equal(group_gather(g, "x", 1, NULL, came, 1, &err), PAWL_EPEER);
    assert_status_text(&err, PAWL_EPEER,
                       "the group's callback gather failed\n"
                       "  expected: 0\n"
                       "  found:    -3\n"
                       "  next:     look for the failure in what the callback uses (MPI, "
                       "torch.distributed)");
    assert_int_equal(group_broadcast(g, came, 1, 1, &err), PAWL_EPEER);
    assert_says(err.attempt, "the group's callback broadcast failed");
    code = PAWL_ETIMEOUT;
    assert_int_equal(group_broadcast(g, came, 1, 90, &err), PAWL_EPEER);
    assert_status_text(&err, PAWL_EPEER,
                       "rank 0 did not answer\n"
                       "  expected: an answer within 1 min 30 s");
    group_free(g);
}

/* ---- ranks in words ---- */

static void says(const char *chosen, const char *text) {
    unsigned char flags[64] = {0};
    char out[160];
    int n = (int)strlen(chosen);
    for (int r = 0; r < n; r++) {
        flags[r] = chosen[r] == 'x';
    }
    assert_string_equal(group_ranks_text(out, sizeof out, flags, n), text);
}

static void test_ranks_in_words(void **state) {
    (void)state;
    says("-", "no rank");
    says("x", "rank 0");
    says("---x", "rank 3");
    says("xx", "ranks 0 and 1");
    says("x--x", "ranks 0 and 3");
    says("x-x-x", "ranks 0, 2 and 4");
    says("---x-xx", "ranks 3, 5 and 6");
    says("-xx-xx-", "ranks 1, 2, 4 and 5");
    says("-xxx", "ranks 1 to 3");
    says("xxx-x", "ranks 0 to 2 and 4");
    says("---x-xxxx---x", "ranks 3, 5 to 8 and 12");
    says("x-xxx-xxx", "ranks 0, 2 to 4 and 6 to 8");
}

static void test_many_ranks_are_cut(void **state) {
    (void)state;
    unsigned char flags[1000];
    char out[32];
    for (int r = 0; r < 1000; r++) {
        flags[r] = r % 2 == 0;
    }
    assert_string_equal(group_ranks_text(out, sizeof out, flags, 1000),
                        "ranks 0, 2, 4, 6, 8, 10, 12,...");
    memset(flags, 1, sizeof flags);
    assert_string_equal(group_ranks_text(out, sizeof out, flags, 1000), "ranks 0 to 999");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_group_is_one_process_alone),
        cmocka_unit_test(test_the_launch_is_copied),
        cmocka_unit_test(test_with_callbacks_the_launch_may_be_left_out),
        cmocka_unit_test(test_a_start_that_nothing_names_is_refused),
        cmocka_unit_test(test_what_cannot_be_a_group_is_refused),
        cmocka_unit_test(test_a_launch_is_printable_and_not_too_long),
        cmocka_unit_test(test_out_of_memory_leaves_nothing),
        cmocka_unit_test(test_what_callbacks_return_is_told),
        cmocka_unit_test(test_ranks_in_words),
        cmocka_unit_test(test_many_ranks_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
