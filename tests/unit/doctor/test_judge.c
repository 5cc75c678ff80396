/* SPDX-License-Identifier: Apache-2.0 */
/* What the sights of many ranks mean together, where a test has no such hosts; sights as bytes. */
#include "lib/test.h"

#include "doctor/sight.h"

#include <stdio.h>
#include <string.h>

#define RANKS 5

typedef struct world {
    sight of[RANKS];
    unsigned char came[RANKS];
    char text[4096];
} world;

static void take(void *context, const char *id, pawl_severity severity, const char *next,
                 const char *text) {
    world *w = context;
    size_t at = strlen(w->text);
    (void)severity;
    (void)snprintf(w->text + at, sizeof(w->text) - at, "%s: %s\n -> %s\n", id, text,
                   next != NULL ? next : "");
}

/* All ranks see /nfs/run; ranks 0 to 2 on host a, 3 and 4 on b. */
static void make(world *w) {
    memset(w, 0, sizeof(*w));
    for (int r = 0; r < RANKS; r++) {
        w->of[r] = (sight){.host = "a",
                           .pid = 100 + r,
                           .given = "/nfs/run",
                           .here = "/",
                           .place = "/nfs/run",
                           .nearest = "/nfs/run",
                           .whole = true,
                           .filesystem = "nfs4",
                           .point = "/nfs",
                           .source = "server:/export",
                           .saw = true,
                           .wrote = true};
        w->of[r].host[0] = r < 3 ? 'a' : 'b';
        w->came[r] = 1;
    }
}

static void judge(world *w, const char *wanted) {
    const sights all = {.of = w->of, .came = w->came, .world_size = RANKS, .waited_s = 30};
    sights_judge(&all, take, w);
    assert_string_equal(w->text, wanted);
}

static void test_nothing_is_wrong(void **state) {
    (void)state;
    world w;
    make(&w);
    judge(&w, "ok: all 5 ranks, on 2 hosts, see the same /nfs/run and can write there\n -> \n");
}

/* How to mount it is known from rank 0's own mount. */
static void test_p06_a_host_without_the_mount_is_told_how_to_mount_it(void **state) {
    (void)state;
    world w;
    make(&w);
    for (int r = 3; r < RANKS; r++) {
        w.of[r].saw = w.of[r].wrote = false;
        (void)snprintf(w.of[r].filesystem, sizeof(w.of[r].filesystem), "ext4");
        (void)snprintf(w.of[r].point, sizeof(w.of[r].point), "/");
    }
    judge(&w, "P06: ranks 3 and 4 (host b) cannot see what rank 0 (host a) wrote to /nfs/run: "
              "there it is on ext4 (mounted at /), on rank 0 on nfs4 (mounted at /nfs)\n"
              " -> mount the same there as on host a: mount -t nfs4 server:/export /nfs; in "
              "containers, give all of them that volume\n");
}

/* The same mount, but read-only for one host. */
static void test_p02_ranks_that_only_see_are_named(void **state) {
    (void)state;
    world w;
    make(&w);
    w.of[4].wrote = false;
    judge(&w, "P02: rank 4 (host b) can see /nfs/run, but cannot create files there\n"
              " -> let all ranks run as the same user, and mount the storage for writing on all "
              "hosts\n");
}

/* Two paths that lead to the same directory are only worth a warning. */
static void test_p04_other_paths_are_named(void **state) {
    (void)state;
    world w;
    make(&w);
    (void)snprintf(w.of[1].given, sizeof(w.of[1].given), "/nfs/other");
    (void)snprintf(w.of[1].place, sizeof(w.of[1].place), "/nfs/other");
    judge(&w, "P04: rank 1 (host a) got another path: /nfs/other; rank 0 (host a) got /nfs/run\n"
              " -> give all ranks the same path\n");
}

/* Where rank 0 could write nothing, nobody is blamed for not seeing it. */
static void test_s11_without_a_token_only_absence_is_told(void **state) {
    (void)state;
    world w;
    make(&w);
    for (int r = 0; r < RANKS; r++) {
        w.of[r].saw = w.of[r].wrote = false;
    }
    w.came[1] = w.came[3] = 0;
    judge(&w, "S11: nothing was heard from ranks 1 and 3 within 30 s\n"
              " -> look whether they were started\n");
}

/* The longest sight fits, and comes back whole. */
static void test_a_sight_survives_the_wire(void **state) {
    (void)state;
    sight longest, back;
    CLEANUP(buffer_free) buffer bytes = {0};
    pawl_error err = ERROR_INIT;
    memset(&longest, 0, sizeof(longest));
    memset(longest.host, 'h', sizeof(longest.host) - 1);
    memset(longest.given, 'g', sizeof(longest.given) - 1);
    memset(longest.here, 'e', sizeof(longest.here) - 1);
    memset(longest.place, 'p', sizeof(longest.place) - 1);
    memset(longest.nearest, 'n', sizeof(longest.nearest) - 1);
    memset(longest.filesystem, 'f', sizeof(longest.filesystem) - 1);
    memset(longest.point, 'm', sizeof(longest.point) - 1);
    memset(longest.source, 's', sizeof(longest.source) - 1);
    memset(longest.trouble, 't', sizeof(longest.trouble) - 1);
    longest.pid = INT32_MAX;
    longest.saw = true;
    assert_int_equal(sight_encode(&longest, &bytes, &err), PAWL_OK);
    assert_true(bytes.size <= SIGHT_BYTES);
    assert_int_equal(sight_decode(bytes.data, bytes.size, &back, &err), PAWL_OK);
    assert_string_equal(back.trouble, longest.trouble);
    assert_true(back.saw && !back.wrote && back.pid == INT32_MAX);
    for (size_t n = 0; n < bytes.size; n++) {
        assert_int_equal(sight_decode(bytes.data, n, &back, &err), PAWL_EDAMAGED);
    }
}

/* What a host lacks is told beside, and keeps nothing from being compared. */
static void test_a_rank_whose_machine_lacks_something(void **state) {
    (void)state;
    world w;
    make(&w);
    for (int r = 3; r < RANKS; r++) {
        (void)snprintf(w.of[r].trouble_id, sizeof(w.of[r].trouble_id), "E01");
        (void)snprintf(w.of[r].trouble, sizeof(w.of[r].trouble), "64 open files");
    }
    judge(&w, "ok: all 5 ranks, on 2 hosts, see the same /nfs/run and can write there\n -> \n"
              "E01: on ranks 3 and 4 (host b): 64 open files\n -> \n");
    make(&w);
    (void)snprintf(w.of[3].trouble_id, sizeof(w.of[3].trouble_id), "S05");
    (void)snprintf(w.of[3].trouble, sizeof(w.of[3].trouble), "little memory");
    w.of[3].wrote = false;
    judge(&w, "P02: rank 3 (host b) can see /nfs/run, but cannot create files there\n"
              " -> let all ranks run as the same user, and mount the storage for writing on all "
              "hosts\n"
              "S05: on rank 3 (host b): little memory\n -> \n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_wrong),
        cmocka_unit_test(test_p06_a_host_without_the_mount_is_told_how_to_mount_it),
        cmocka_unit_test(test_p02_ranks_that_only_see_are_named),
        cmocka_unit_test(test_p04_other_paths_are_named),
        cmocka_unit_test(test_s11_without_a_token_only_absence_is_told),
        cmocka_unit_test(test_a_rank_whose_machine_lacks_something),
        cmocka_unit_test(test_a_sight_survives_the_wire),
    };
    return cmocka_run_group_tests_name("verdict", tests, NULL, NULL);
}
