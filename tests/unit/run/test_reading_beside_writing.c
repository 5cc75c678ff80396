/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readers beside a writer (promises 1 and 5): everything that a writer does is placed before every
 * single operation of a look, and a reader before every single operation of what a writer does. The
 * run has a committed step at every instant, so every look must find one, whole.
 */
#include "lib/training.h"

#include "store/wrap.h"

#include <errno.h>

/* ---- a store that calls back before an operation -------------------------------------------- */

typedef struct between {
    store_wrapper wrapper;
    uint64_t count; /* of operations so far */
    bool inside;    /* the callback, whose operations do not count */
    void (*before)(void *context, uint64_t nth, const store_call *call);
    void *context;
    const char *refused;  /* creating a file with this in its path is not permitted; or NULL */
    const char *unlisted; /* a name that listings do not show; or NULL */
} between;

typedef struct names {
    arena memory;
    char **items;
    size_t count;
} names;

static bool names_have(const names *n, const char *name) {
    for (size_t i = 0; i < n->count; i++) {
        if (strcmp(n->items[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static void call_back(between *b, const store_call *call) {
    if (b->inside) {
        return;
    }
    b->count++;
    if (b->before != NULL) {
        b->inside = true;
        b->before(b->context, b->count, call);
        b->inside = false;
    }
}

/* What comes and what goes while a directory is listed need not be in the listing. */
static pawl_status list_around(between *b, store_call *call, pawl_error *err) {
    names was = {0};
    names now = {0};
    pawl_status status =
        store_names(call->inner, call->path, 100000, &was.memory, &was.items, &was.count, err);
    call_back(b, call);
    if (status == PAWL_OK) {
        status =
            store_names(call->inner, call->path, 100000, &now.memory, &now.items, &now.count, err);
    }
    for (size_t i = 0; i < now.count && status == PAWL_OK; i++) {
        bool hidden = b->unlisted != NULL && strstr(now.items[i], b->unlisted) != NULL;
        if (!hidden && names_have(&was, now.items[i])) {
            status = call->each(call->context, &(store_listed){.name = now.items[i]}, err);
        }
    }
    arena_free(&was.memory);
    arena_free(&now.memory);
    return status;
}

static pawl_status between_around(store_wrapper *w, store_call *call, pawl_error *err) {
    between *b = (between *)w;
    if (call->op == STORE_OP_LIST) {
        return list_around(b, call, err);
    }
    call_back(b, call);
    if (call->op == STORE_OP_OPEN && store_mode_creates(call->mode) && b->refused != NULL &&
        strstr(call->path, b->refused) != NULL) {
        return error_set(err, PAWL_EPERMISSION, "cannot create the file");
    }
    return store_call_inner(call, err);
}

static between *between_new(store *inner) {
    struct pawl_error err = ERROR_INIT;
    between *b = mem_calloc(1, sizeof *b);
    assert_non_null(b);
    assert_ok(store_wrapper_init(&b->wrapper, inner, &err), &err);
    b->wrapper.around = between_around;
    return b;
}

/* ---- a run, its writer, and what its checkpoints hold --------------------------------------- */

#define ELEMENTS 5000 /* more than a block */
#define FIRST    10

typedef struct world {
    store *disk;
    between *reads, *writes; /* the disk as the reader and as the writer see it */
    simulated_platform os;   /* the writer's */
    simulated_platform reader;
    pawl_run *run;
    pawl_state *state;
    float w[ELEMENTS];
    int64_t step;        /* saved last */
    uint32_t generation; /* of that step */
    uint64_t at, then;   /* the operations before which the action happens; 0: never */
    bool fired;
    void (*action)(struct world *x);
    char log[2048];
} world;

static void take_log(void *context, pawl_log_level level, const char *text) {
    world *x = context;
    if (level <= PAWL_LOG_WARN) {
        snprintf(x->log, sizeof x->log, "%s", text);
    }
}

/* Every element follows from the step and from how often it was saved before. */
static void fill(float *w, int64_t step, uint32_t generation) {
    for (size_t i = 0; i < ELEMENTS; i++) {
        w[i] = (float)((step * 31 + generation * 17 + (int64_t)i) % 9973);
    }
    w[0] = (float)step;
    w[1] = (float)generation;
}

static bool is_whole(const float *w, int64_t step) {
    static float wanted[ELEMENTS];
    fill(wanted, step, (uint32_t)w[1]);
    return memcmp(w, wanted, sizeof wanted) == 0;
}

static void save(world *x, int64_t step, uint32_t generation) {
    struct pawl_error err = ERROR_INIT;
    const pawl_save_options options = {.struct_size = sizeof options};
    x->step = step;
    x->generation = generation;
    fill(x->w, step, generation);
    assert_ok(run_save(x->run, x->state, step, &options, &err), &err);
    assert_ok(run_wait(x->run, 0, NULL, &err), &err);
}

static void world_make(world *x, int64_t keep_last) {
    static const int64_t shape[] = {ELEMENTS};
    struct pawl_error err = ERROR_INIT;
    memset(x, 0, sizeof *x);
    simulated_platform_init(&x->os, 1);
    simulated_platform_init(&x->reader, 2);
    assert_ok(store_mem(&x->disk, &err), &err);
    x->reads = between_new(x->disk);
    x->writes = between_new(x->disk);
    assert_ok(state_new(&x->state, &err), &err);
    const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                .name = "w",
                                .dtype = PAWL_F32,
                                .ndim = 1,
                                .shape = shape,
                                .data = x->w};
    assert_ok(state_add_tensor(x->state, &tensor, &err), &err);
    const pawl_run_options options = {
        .struct_size = sizeof options,
        .no_event_file = 1,
        .retention =
            &(pawl_retention){.struct_size = sizeof(pawl_retention), .keep_last = keep_last}};
    store *seen;
    assert_ok(store_trace_wrap(&x->writes->wrapper.base, &x->os.table, NULL, NULL, &seen, &err),
              &err);
    assert_ok(run_open(seen, &options, &x->os.table, &x->run, &err), &err);
    save(x, FIRST, 0);
}

static void world_free(world *x) {
    struct pawl_error err = ERROR_INIT;
    x->reads->before = NULL;
    x->writes->before = NULL;
    if (x->run != NULL) {
        assert_ok(run_close(x->run, 0, &err), &err);
    }
    state_free(x->state);
    store_destroy(&x->reads->wrapper.base);
    store_destroy(&x->writes->wrapper.base);
    store_destroy(x->disk);
}

/* ---- what the writer does ------------------------------------------------------------------- */

static void save_next(world *x) {
    save(x, x->step + 1, 0);
}

static void save_two(world *x) {
    save_next(x);
    save_next(x);
}

static void save_again(world *x) {
    save(x, x->step, x->generation + 1);
}

/* There is another one: the newest goes, whatever is being read. */
static void save_and_remove(world *x) {
    struct pawl_error err = ERROR_INIT;
    int64_t before = x->step;
    save_next(x);
    pawl_status status = run_remove(x->run, x->step, false, &err);
    assert_true(status == PAWL_OK || status == PAWL_EBUSY);
    x->step = before; /* and comes again */
    x->generation += 100;
    save(x, x->step + 1, x->generation);
}

static void sweep(world *x) {
    struct pawl_error err = ERROR_INIT;
    save_next(x);
    assert_ok(run_gc(x->run, false, NULL, NULL, &err), &err);
}

static void (*const actions[])(world *x) = {save_next, save_two, save_again, save_and_remove,
                                            sweep};

static void act_before(void *context, uint64_t nth, const store_call *call) {
    (void)call;
    world *x = context;
    if (nth == x->at || nth == x->then) {
        x->fired = true;
        x->action(x);
    }
}

/* ---- what the reader does ------------------------------------------------------------------- */

static pawl_status open_as_reader(world *x, int64_t step, pawl_checkpoint **out, pawl_error *err) {
    const pawl_log log = {.write = take_log, .context = x, .level = PAWL_LOG_WARN};
    return checkpoint_open(&x->reads->wrapper.base, false, step, &x->reader.table, &log, out, err);
}

static void check_content(pawl_checkpoint *c) {
    static float w[ELEMENTS];
    struct pawl_error err = ERROR_INIT;
    pawl_checkpoint_info about;
    checkpoint_describe(c, &about);
    assert_ok(checkpoint_read(c, "w", NULL, NULL, w, sizeof w, &err), &err);
    assert_true(is_whole(w, about.step));
}

static void check_verified(pawl_checkpoint *c) {
    struct pawl_error err = ERROR_INIT;
    pawl_verify_result result;
    assert_ok(checkpoint_verify(c, NULL, &result, &err), &err);
    assert_int_equal(result.problems, 0);
}

static void look_at_newest(world *x) {
    struct pawl_error err = ERROR_INIT;
    pawl_checkpoint *c = NULL;
    assert_ok(open_as_reader(x, CHECKPOINT_NEWEST, &c, &err), &err);
    check_content(c);
    pawl_checkpoint_close(c);
}

static void look_and_verify(world *x) {
    struct pawl_error err = ERROR_INIT;
    pawl_checkpoint *c = NULL;
    assert_ok(open_as_reader(x, CHECKPOINT_NEWEST, &c, &err), &err);
    check_verified(c);
    check_content(c);
    check_verified(c);
    pawl_checkpoint_close(c);
}

/* The step may be gone, but not half. */
static void look_at_step(world *x) {
    struct pawl_error err = ERROR_INIT;
    pawl_checkpoint *c = NULL;
    pawl_status status = open_as_reader(x, FIRST, &c, &err);
    if (status == PAWL_ENOTFOUND) {
        assert_says(err.attempt, "there is no checkpoint of step 10");
        return;
    }
    assert_ok(status, &err);
    check_content(c);
    check_verified(c);
    pawl_checkpoint_close(c);
}

static void look_through_views(world *x) {
    struct pawl_error err = ERROR_INIT;
    pawl_checkpoint *c = NULL;
    pawl_view *v = NULL;
    const void *bytes;
    pawl_checkpoint_info about;
    assert_ok(open_as_reader(x, CHECKPOINT_NEWEST, &c, &err), &err);
    assert_ok(checkpoint_view_open(c, "w", 0, &v, &err), &err);
    assert_ok(checkpoint_view_bytes(v, 0, sizeof x->w, &bytes, &err), &err);
    checkpoint_describe(c, &about);
    assert_true(is_whole(bytes, about.step));
    pawl_view_close(v);
    pawl_checkpoint_close(c);
}

static void look_at_all(world *x) {
    struct pawl_error err = ERROR_INIT;
    pawl_catalog *catalog = NULL;
    size_t committed = 0;
    assert_ok(catalog_open(&x->reads->wrapper.base, &x->reader.table, NULL, &catalog, &err), &err);
    for (size_t i = 0; i < pawl_catalog_count(catalog); i++) {
        const pawl_step_info *info = pawl_catalog_get(catalog, i);
        committed += info->status == PAWL_STEP_COMMITTED;
        if (info->status == PAWL_STEP_DAMAGED) {
            fail_msg("step %lld: %s", (long long)info->step, info->why);
        }
    }
    assert_true(committed > 0);
    pawl_catalog_free(catalog);
}

static void (*const looks[])(world *x) = {look_at_newest, look_and_verify, look_at_step,
                                          look_through_views, look_at_all};

/* ---- a writer before every operation of a look ---------------------------------------------- */

/* False once there is no such operation. */
static bool try_before(void (*look)(world *x), void (*action)(world *x), uint64_t at,
                       uint64_t then) {
    static world x;
    world_make(&x, 1);
    x.action = action;
    x.at = at;
    x.then = then;
    x.reads->context = &x;
    x.reads->before = act_before;
    look(&x);
    world_free(&x);
    return x.fired;
}

static void test_p1_an_action_before_every_operation_of_every_look(void **state) {
    (void)state;
    uint64_t tried = 0;
    for (size_t l = 0; l < ARRAY_LENGTH(looks); l++) {
        for (size_t a = 0; a < ARRAY_LENGTH(actions); a++) {
            uint64_t at = 1;
            while (try_before(looks[l], actions[a], at, 0)) {
                at++;
            }
            assert_true(at > 10);
            tried += at;
        }
    }
    print_message("%llu places\n", (unsigned long long)tried);
}

static void test_p1_two_actions_before_every_pair_of_operations(void **state) {
    (void)state;
    for (uint64_t at = 1; try_before(look_at_newest, save_next, at, 0); at++) {
        for (uint64_t then = at + 1; then < at + 25; then++) {
            (void)try_before(look_at_newest, save_next, at, then);
        }
    }
    for (uint64_t at = 1; try_before(look_at_all, save_next, at, 0); at++) {
        for (uint64_t then = at + 1; then < at + 25; then++) {
            (void)try_before(look_at_all, save_next, at, then);
        }
    }
}

static void save_before_marks(void *context, uint64_t nth, const store_call *call) {
    (void)nth;
    if (call->op == STORE_OP_OPEN && store_mode_creates(call->mode)) {
        save_next(context);
    }
}

/* No look ever wins: that is said, and not that there is nothing. */
static void test_a_run_that_changes_before_every_look_is_busy(void **state) {
    (void)state;
    static world x;
    struct pawl_error err = ERROR_INIT;
    pawl_checkpoint *c = NULL;
    world_make(&x, 1);
    x.reader.tick_ns = 200000000;
    x.reads->context = &x;
    x.reads->before = save_before_marks;
    assert_fails(open_as_reader(&x, CHECKPOINT_NEWEST, &c, &err), PAWL_EBUSY, &err);
    assert_says(err.attempt, "the run changes faster than it can be read");
    assert_says(err.safe, "nothing was changed");
    assert_says(err.next, "try again");
    world_free(&x);
}

/* ---- a reader before every operation of the writer ------------------------------------------ */

typedef struct held {
    world *x;
    uint64_t at;
    pawl_checkpoint *open[2]; /* the newest, and the first step, if it is there */
    bool fired;
} held;

static void read_before(void *context, uint64_t nth, const store_call *call) {
    (void)call;
    held *h = context;
    struct pawl_error err = ERROR_INIT;
    if (nth == h->at) {
        h->fired = true;
        look_at_all(h->x);
        assert_ok(open_as_reader(h->x, CHECKPOINT_NEWEST, &h->open[0], &err), &err);
        pawl_status status = open_as_reader(h->x, FIRST, &h->open[1], &err);
        assert_true(status == PAWL_OK || status == PAWL_ENOTFOUND);
    }
}

static void check_held(const held *h) {
    for (size_t i = 0; i < ARRAY_LENGTH(h->open); i++) {
        if (h->open[i] != NULL) {
            check_content(h->open[i]);
            check_verified(h->open[i]);
        }
    }
}

/* What was opened is the same to the end, whatever becomes of its step. */
static bool try_reader_before(void (*action)(world *x), uint64_t at) {
    static world x;
    world_make(&x, 1);
    held h = {.x = &x, .at = at};
    x.writes->count = 0;
    x.writes->context = &h;
    x.writes->before = read_before;
    action(&x);
    x.writes->before = NULL;
    check_held(&h);
    save_two(&x);
    check_held(&h);
    pawl_checkpoint_close(h.open[0]);
    pawl_checkpoint_close(h.open[1]);
    look_at_all(&x);
    world_free(&x);
    return h.fired;
}

static void test_p5_a_reader_before_every_operation_of_a_writer(void **state) {
    (void)state;
    for (size_t a = 0; a < ARRAY_LENGTH(actions); a++) {
        uint64_t at = 1;
        while (try_reader_before(actions[a], at)) {
            at++;
        }
        assert_true(at > 20);
    }
}

/* ---- readers without marks, of other hosts, of storage that shows things late --------------- */

static void test_a_reader_that_cannot_make_a_mark_loses_with_words(void **state) {
    (void)state;
    size_t lost = 0;
    for (uint64_t at = 1;; at++) {
        static world x;
        static float w[ELEMENTS];
        struct pawl_error err = ERROR_INIT;
        pawl_checkpoint *c = NULL;
        world_make(&x, 1);
        x.reads->refused = "reader-";
        x.action = save_next;
        x.at = at;
        x.reads->context = &x;
        x.reads->before = act_before;
        assert_ok(open_as_reader(&x, CHECKPOINT_NEWEST, &c, &err), &err);
        if (checkpoint_read(c, "w", NULL, NULL, w, sizeof w, &err) == PAWL_OK) {
            assert_true(is_whole(w, c->source->step));
        } else {
            lost++;
            assert_fails(err.status, PAWL_EBUSY, &err);
            assert_string_equal(err.attempt, "reading w: step 10 was removed while it was open");
            assert_says(err.found, "no mark, because none could be made in the directory");
            assert_string_equal(err.safe, "step 11 is committed, the newest now");
        }
        pawl_checkpoint_close(c);
        world_free(&x);
        if (!x.fired) {
            break;
        }
    }
    assert_true(lost > 0);
}

/* Nobody can see by its pid whether it lives, and it has not moved for a lease. */
static void test_s14_a_reader_of_another_host_that_stood_still_is_told_what_happened(void **state) {
    (void)state;
    static world x;
    static float w[ELEMENTS];
    struct pawl_error err = ERROR_INIT;
    pawl_checkpoint *c = NULL;
    world_make(&x, 1);
    snprintf(x.reader.identity.host, sizeof x.reader.identity.host, "elsewhere");
    x.os.others = PROCESS_UNKNOWN;
    assert_ok(open_as_reader(&x, CHECKPOINT_NEWEST, &c, &err), &err);
    save_next(&x);
    check_content(c);
    check_verified(c);
    for (int i = 0; i < 4; i++) {
        simulated_platform_advance(&x.os, 100000000000);
        save_next(&x);
        assert_ok(run_gc(x.run, false, NULL, NULL, &err), &err);
    }
    simulated_platform_advance(&x.reader, 400000000000);
    assert_fails(checkpoint_read(c, "w", NULL, NULL, w, sizeof w, &err), PAWL_EBUSY, &err);
    assert_says(err.attempt, "step 10 was removed while it was open");
    assert_says(err.found, "no mark for a while: this process stood still for longer than 30 s");
    pawl_verify_result result;
    assert_fails(checkpoint_verify(c, NULL, &result, &err), PAWL_EBUSY, &err);
    assert_int_equal(result.problems, 0);
    pawl_checkpoint_close(c);
    world_free(&x);
}

/* The listing shows neither the new step nor anything else that is there. */
static void test_a_step_that_listings_do_not_show_yet_is_found_by_the_hint(void **state) {
    (void)state;
    static world x;
    world_make(&x, 1);
    save_next(&x);
    x.reads->unlisted = "step-";
    look_at_newest(&x);
    look_at_all(&x);
    world_free(&x);
}

static void test_a_remover_that_does_not_see_a_mark_is_told_of_as_such(void **state) {
    (void)state;
    static world x;
    static float w[ELEMENTS];
    struct pawl_error err = ERROR_INIT;
    pawl_checkpoint *c = NULL;
    world_make(&x, 1);
    assert_ok(open_as_reader(&x, CHECKPOINT_NEWEST, &c, &err), &err);
    x.writes->unlisted = "reader-";
    save_next(&x);
    pawl_status status = checkpoint_read(c, "w", NULL, NULL, w, sizeof w, &err);
    if (status == PAWL_OK) { /* its files were kept all the same */
        assert_true(is_whole(w, FIRST));
    } else {
        assert_fails(status, PAWL_EBUSY, &err);
        assert_says(err.attempt, "step 10 was removed while it was open");
    }
    pawl_checkpoint_close(c);
    world_free(&x);
}

/* ---- what is no manifest, and what is damage ------------------------------------------------ */

static void test_a_directory_in_the_manifests_place_is_no_manifest(void **state) {
    (void)state;
    static world x;
    struct pawl_error err = ERROR_INIT;
    pawl_checkpoint *c = NULL;
    pawl_catalog *catalog = NULL;
    world_make(&x, 1);
    assert_ok(store_make_dir(x.disk, "step-00000099", &err), &err);
    assert_ok(store_make_dir(x.disk, "step-00000099/manifest.json", &err), &err);
    look_at_newest(&x);
    assert_fails(open_as_reader(&x, 99, &c, &err), PAWL_ENOTFOUND, &err);
    assert_string_equal(err.found, "an unfinished save: it has no manifest");
    assert_ok(catalog_open(x.disk, &x.reader.table, NULL, &catalog, &err), &err);
    assert_int_equal(pawl_catalog_get(catalog, 1)->status, PAWL_STEP_UNFINISHED);
    pawl_catalog_free(catalog);
    world_free(&x);
}

static void test_verifying_what_was_removed_or_saved_again_says_so(void **state) {
    (void)state;
    static world x;
    struct pawl_error err = ERROR_INIT;
    pawl_checkpoint *c = NULL;
    world_make(&x, 1);
    assert_ok(open_as_reader(&x, CHECKPOINT_NEWEST, &c, &err), &err);
    save_again(&x);
    check_verified(c);
    assert_says(x.log, "step 10 was saved again since it was opened");
    assert_ok(store_unlink(x.disk, "step-00000010/manifest.json", &err), &err);
    check_verified(c);
    assert_says(x.log, "step 10 was removed from the run since it was opened");
    check_content(c);
    pawl_checkpoint_close(c);
    world_free(&x);
}

static void test_what_is_damaged_is_found_beside_a_removal_too(void **state) {
    (void)state;
    static world x;
    training files = {0};
    char path[256];
    struct pawl_error err = ERROR_INIT;
    pawl_checkpoint *c = NULL;
    pawl_verify_result result;
    world_make(&x, 1);
    files.disk = x.disk;
    assert_ok(open_as_reader(&x, CHECKPOINT_NEWEST, &c, &err), &err);
    training_flip(&files, "step-00000010/manifest.json", 40);
    assert_fails(checkpoint_verify(c, NULL, &result, &err), PAWL_EDAMAGED, &err);
    assert_int_equal(result.problems, 1);
    assert_ok(store_unlink(x.disk, "step-00000010/manifest.json", &err), &err);
    training_path(&files, FIRST, NAME_KIND_DATA, path);
    training_flip(&files, path, 9000);
    assert_fails(checkpoint_verify(c, NULL, &result, &err), PAWL_EDAMAGED, &err);
    pawl_checkpoint_close(c);
    world_free(&x);
}

/* A missing file of a step whose manifest is there: damaged, at the first look and at the last. */
static void test_what_stays_damaged_is_damaged(void **state) {
    (void)state;
    static world x;
    training files = {0};
    char path[256];
    struct pawl_error err = ERROR_INIT;
    pawl_checkpoint *c = NULL;
    pawl_catalog *catalog = NULL;
    world_make(&x, 1);
    files.disk = x.disk;
    training_path(&files, FIRST, NAME_KIND_DATA, path);
    assert_ok(store_unlink(x.disk, path, &err), &err);
    assert_fails(open_as_reader(&x, CHECKPOINT_NEWEST, &c, &err), PAWL_EDAMAGED, &err);
    assert_ok(catalog_open(x.disk, &x.reader.table, NULL, &catalog, &err), &err);
    assert_int_equal(pawl_catalog_count(catalog), 1);
    assert_int_equal(pawl_catalog_get(catalog, 0)->status, PAWL_STEP_DAMAGED);
    pawl_catalog_free(catalog);
    world_free(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_p1_an_action_before_every_operation_of_every_look),
        cmocka_unit_test(test_p1_two_actions_before_every_pair_of_operations),
        cmocka_unit_test(test_a_run_that_changes_before_every_look_is_busy),
        cmocka_unit_test(test_p5_a_reader_before_every_operation_of_a_writer),
        cmocka_unit_test(test_a_reader_that_cannot_make_a_mark_loses_with_words),
        cmocka_unit_test(test_s14_a_reader_of_another_host_that_stood_still_is_told_what_happened),
        cmocka_unit_test(test_a_step_that_listings_do_not_show_yet_is_found_by_the_hint),
        cmocka_unit_test(test_a_remover_that_does_not_see_a_mark_is_told_of_as_such),
        cmocka_unit_test(test_a_directory_in_the_manifests_place_is_no_manifest),
        cmocka_unit_test(test_verifying_what_was_removed_or_saved_again_says_so),
        cmocka_unit_test(test_what_is_damaged_is_found_beside_a_removal_too),
        cmocka_unit_test(test_what_stays_damaged_is_damaged),
    };
    return cmocka_run_group_tests_name("readers beside a writer", tests, NULL, NULL);
}
