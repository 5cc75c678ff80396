/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must hold for the forgetful store under any script, from seeds; and that publishing on it
 * leaves the old or the new file in every world, whenever the machine stops.
 */
#include "worlds.h"

#include "lib/random.h"

#define SCRIPTS 300
#define STEPS   40

/* ---- random scripts ------------------------------------------------------------------------- */

typedef struct actor {
    store *s;
    test_random random;
    unsigned written; /* so that no two writes have the same bytes */
} actor;

static const char *any_path(actor *a) {
    static const char *const paths[] = {"a", "b", "d/a", "d/b"};
    return paths[random_below(&a->random, ARRAY_LENGTH(paths))];
}

static void whatever(pawl_status status) {
    (void)status;
}

static void create_some(actor *a) {
    pawl_error err = ERROR_INIT;
    store_file *f = NULL;
    char bytes[8];
    if (store_open(a->s, any_path(a), STORE_CREATE, &f, &err) != PAWL_OK) {
        return;
    }
    memset(bytes, 'A' + (int)(a->written++ % 52), sizeof(bytes));
    assert_ok(store_write(f, 0, bytes, 1 + random_below(&a->random, 6), &err), &err);
    if (random_below(&a->random, 2) == 0) {
        assert_ok(store_sync(f, &err), &err);
    }
    store_close(f);
}

static void rename_some(actor *a) {
    pawl_error err = ERROR_INIT;
    static const char *const pairs[][2] = {{"a", "b"}, {"b", "a"}, {"d/a", "d/b"}, {"d/b", "d/a"}};
    const char *const *pair = pairs[random_below(&a->random, ARRAY_LENGTH(pairs))];
    whatever(store_rename(a->s, pair[0], pair[1], &err));
}

static void build_some(actor *a) {
    pawl_error err = ERROR_INIT;
    switch (random_below(&a->random, 4)) {
    case 0:
        whatever(store_make_dir(a->s, "d", &err));
        break;
    case 1:
        whatever(store_sync_dir(a->s, random_below(&a->random, 2) == 0 ? "" : "d", &err));
        break;
    default:
        create_some(a);
        break;
    }
}

static void remove_some(actor *a) {
    pawl_error err = ERROR_INIT;
    switch (random_below(&a->random, 3)) {
    case 0:
        whatever(store_remove_dir(a->s, "d", &err));
        break;
    case 1:
        whatever(store_unlink(a->s, any_path(a), &err));
        break;
    default:
        rename_some(a);
        break;
    }
}

/* Any step may fail: a name may be taken or missing. */
static store *play(uint64_t seed, bool removing) {
    actor a = {.random = {seed}};
    uint64_t traits = random_below(&a.random, 4);
    a.s = new_crash((traits & 1) != 0, (traits & 2) != 0, 4);
    uint64_t steps = random_below(&a.random, STEPS);
    for (uint64_t i = 0; i < steps && store_crash_pending(a.s) < 8; i++) {
        if (removing && random_below(&a.random, 3) == 0) {
            remove_some(&a);
        } else {
            build_some(&a);
        }
    }
    return a.s;
}

static char *world_text(const store *crash, bool kept) {
    pawl_error err = ERROR_INIT;
    store *world = NULL;
    bool keep[MOST_PENDING];
    for (size_t i = 0; i < MOST_PENDING; i++) {
        keep[i] = kept;
    }
    assert_ok(store_crash_world(crash, keep, store_crash_pending(crash), SIZE_MAX, &world, &err),
              &err);
    char *text = describe(world);
    store_destroy(world);
    return text;
}

/* The world in which everything arrived is what readers see now. */
static void test_s09_all_kept_is_the_newest_state(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= SCRIPTS; seed++) {
        store *s = play(seed, true);
        char *world = world_text(s, true), *now = describe(s);
        assert_string_equal(world, now);
        mem_free(world);
        mem_free(now);
        store_destroy(s);
    }
}

static void sync_tree(store *s, const char *dir) {
    pawl_error err = ERROR_INIT;
    arena memory = {NULL};
    char **names = NULL, path[64];
    size_t count = 0;
    assert_ok(store_names(s, dir, 10, &memory, &names, &count, &err), &err);
    for (size_t i = 0; i < count; i++) {
        store_stat found;
        (void)snprintf(path, sizeof(path), "%s%s%s", dir, dir[0] != '\0' ? "/" : "", names[i]);
        assert_ok(store_stat_path(s, path, &found, &err), &err);
        if (found.type == STORE_DIR_TYPE) {
            sync_tree(s, path);
        } else {
            sync_file(s, path);
        }
    }
    sync_dir(s, dir);
    arena_free(&memory);
}

/* When everything is synced nothing is pending, and the only world is the newest state. */
static void test_s09_nothing_is_pending_after_syncing_everything(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= SCRIPTS; seed++) {
        store *s = play(seed, true);
        char *before = describe(s);
        sync_tree(s, "");
        assert_int_equal(store_crash_pending(s), 0);
        char *world = world_text(s, false);
        assert_string_equal(world, before);
        mem_free(before);
        mem_free(world);
        store_destroy(s);
    }
}

/* As long as nothing is undone, no allowed combination repeats the world of another. */
static void test_s09_each_world_is_counted_once(void **state) {
    world_list list = {0};
    uint64_t worlds = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= SCRIPTS; seed++) {
        store *s = play(seed, false);
        worlds += visit_worlds(s, note_world, &list);
        assert_int_equal(list.repeated, 0);
        world_list_clear(&list);
        store_destroy(s);
    }
    assert_true(worlds > (uint64_t)3 * SCRIPTS);
}

/* The same script makes the same worlds, in the same order. */
static void test_s09_scripts_can_be_replayed(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        world_list first = {0}, second = {0};
        store *a = play(seed, true), *b = play(seed, true);
        visit_worlds(a, note_world, &first);
        visit_worlds(b, note_world, &second);
        assert_int_equal(first.count, second.count);
        for (size_t i = 0; i < first.count; i++) {
            assert_string_equal(first.texts[i], second.texts[i]);
        }
        world_list_clear(&first);
        world_list_clear(&second);
        store_destroy(a);
        store_destroy(b);
    }
}

/* ---- publishing ----------------------------------------------------------------------------- */

#define OLD "the old content"
#define NEW "the new content, which is longer"

typedef struct verdict {
    bool done;              /* publishing had succeeded */
    bool target_may_vanish; /* renames are not atomic */
    uint64_t old, new, gone;
} verdict;

static void judge(void *context, store *world) {
    verdict *v = context;
    pawl_error err = ERROR_INIT;
    if (!is_there(world, "m")) {
        assert_true(v->target_may_vanish && !v->done);
        v->gone++;
        return;
    }
    buffer got = {0};
    assert_ok(store_read_file(world, "m", 1000, &got, &err), &err);
    bool is_new = strcmp((char *)got.data, NEW) == 0;
    assert_true(is_new || strcmp((char *)got.data, OLD) == 0);
    assert_true(is_new || !v->done);
    v->new += is_new ? 1 : 0;
    v->old += is_new ? 0 : 1;
    buffer_free(&got);
}

/* Stops after `limit` operations of publishing; false when it was over before. */
static bool publish_and_crash(bool atomic_rename, bool ordered_names, bool stale, uint64_t limit,
                              verdict *v) {
    store *s = new_crash(atomic_rename, ordered_names, 8);
    pawl_error err = ERROR_INIT;
    put_durable(s, "m", OLD);
    if (stale) {
        put_text(s, "m.tmp", "stale");
    }
    store_crash_stop_after(s, limit);
    v->done = publish(s, "m", NEW, strlen(NEW), &err) == PAWL_OK;
    v->target_may_vanish = !atomic_rename;
    visit_worlds(s, judge, v);
    bool stopped = !v->done;
    store_destroy(s);
    return stopped;
}

static verdict publish_everywhere(bool atomic_rename) {
    verdict v = {0};
    for (int variant = 0; variant < 4; variant++) {
        uint64_t limit = 0;
        while (
            publish_and_crash(atomic_rename, (variant & 1) != 0, (variant & 2) != 0, limit, &v)) {
            limit++;
        }
        assert_true(limit >= 5); /* create, write, sync, rename, sync of the directory */
    }
    return v;
}

/* Wherever the machine stops, the file is wholly old or new; once published, it is new. */
static void test_s09_publishing_leaves_old_or_new(void **state) {
    (void)state;
    verdict v = publish_everywhere(true);
    assert_true(v.old > 20 && v.new > 4);
    assert_int_equal(v.gone, 0);
}

/* Where renames are not atomic the file may be missing, which is why that is declared. */
static void test_s09_publishing_shows_renames_that_are_not_atomic(void **state) {
    (void)state;
    verdict v = publish_everywhere(false);
    assert_true(v.gone > 0);
}

static void note_any(void *context, store *world) {
    buffer got = {0};
    pawl_error err = ERROR_INIT;
    bool *damaged = context;
    assert_ok(store_read_file(world, "m", 1000, &got, &err), &err);
    *damaged =
        *damaged || (strcmp((char *)got.data, NEW) != 0 && strcmp((char *)got.data, OLD) != 0);
    buffer_free(&got);
}

/* The method finds the classic mistake: a rename without a sync before it. */
static void test_s09_a_missing_sync_would_be_found(void **state) {
    store *s = new_crash(true, true, 8);
    bool damaged = false;
    (void)state;
    put_durable(s, "m", OLD);
    put_text(s, "m.tmp", NEW);
    rename_file(s, "m.tmp", "m");
    sync_dir(s, "");
    visit_worlds(s, note_any, &damaged);
    assert_true(damaged);
    store_destroy(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_s09_all_kept_is_the_newest_state),
        cmocka_unit_test(test_s09_nothing_is_pending_after_syncing_everything),
        cmocka_unit_test(test_s09_each_world_is_counted_once),
        cmocka_unit_test(test_s09_scripts_can_be_replayed),
        cmocka_unit_test(test_s09_publishing_leaves_old_or_new),
        cmocka_unit_test(test_s09_publishing_shows_renames_that_are_not_atomic),
        cmocka_unit_test(test_s09_a_missing_sync_would_be_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
