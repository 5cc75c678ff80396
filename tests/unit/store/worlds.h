/* SPDX-License-Identifier: Apache-2.0 */
/* Every world that a power loss could leave now, and what a world looks like as text. */
#ifndef UNIT_STORE_WORLDS_H
#define UNIT_STORE_WORLDS_H

#include "fixtures.h"

#define MOST_PENDING 14

typedef void world_visitor(void *context, store *world);

static UNUSED store *new_crash(bool atomic_rename, bool ordered_names, uint32_t sector) {
    pawl_error err = ERROR_INIT;
    store *s = NULL;
    const store_traits traits = {.kind = "crash",
                                 .atomic_rename = atomic_rename,
                                 .ordered_names = ordered_names,
                                 .atomic_write_bytes = sector};
    assert_ok(store_crash(&traits, &s, &err), &err);
    return s;
}

/* One world; false when the combination is refused. */
static UNUSED bool visit_world(const store *crash, const bool *keep, size_t count, size_t torn,
                               world_visitor *visit, void *context) {
    pawl_error err = ERROR_INIT;
    store *world = NULL;
    pawl_status status = store_crash_world(crash, keep, count, torn, &world, &err);
    if (status != PAWL_OK) {
        assert_int_equal(status, PAWL_EUSAGE);
        return false;
    }
    visit(context, world);
    store_destroy(world);
    return true;
}

/* How many worlds there were. */
static UNUSED uint64_t visit_worlds(const store *crash, world_visitor *visit, void *context) {
    size_t count = store_crash_pending(crash);
    uint64_t allowed = 0;
    assert_true(count <= MOST_PENDING);
    for (uint32_t mask = 0; mask < (uint32_t)1 << count; mask++) {
        bool keep[MOST_PENDING] = {false};
        for (size_t i = 0; i < count; i++) {
            keep[i] = (mask >> i & 1) != 0;
        }
        for (size_t torn = 0; torn <= count; torn++) {
            size_t which = torn < count ? torn : SIZE_MAX;
            allowed += visit_world(crash, keep, count, which, visit, context) ? 1 : 0;
        }
    }
    return allowed;
}

static UNUSED void describe_into(store *s, const char *dir, buffer *out);

static void describe_one(store *s, const char *path, buffer *out) {
    pawl_error err = ERROR_INIT;
    store_stat found;
    buffer got = {0};
    assert_ok(store_stat_path(s, path, &found, &err), &err);
    if (found.type == STORE_DIR_TYPE) {
        assert_ok(buffer_printf(out, &err, "%s/ ", path), &err);
        describe_into(s, path, out);
        return;
    }
    assert_ok(store_read_file(s, path, 1000, &got, &err), &err);
    for (size_t i = 0; i < got.size; i++) {
        got.data[i] = got.data[i] == 0 ? '_' : got.data[i];
    }
    assert_ok(buffer_printf(out, &err, "%s=%s ", path, got.size > 0 ? (char *)got.data : ""), &err);
    buffer_free(&got);
}

static UNUSED void describe_into(store *s, const char *dir, buffer *out) {
    pawl_error err = ERROR_INIT;
    arena memory = {NULL};
    char **names = NULL, path[128];
    size_t count = 0;
    assert_ok(store_names(s, dir, 100, &memory, &names, &count, &err), &err);
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(path, sizeof(path), "%s%s%s", dir, dir[0] != '\0' ? "/" : "", names[i]);
        describe_one(s, path, out);
    }
    arena_free(&memory);
}

/* "a=text b=__xt d/ d/c= ": names in order, zeros as '_'. */
static UNUSED char *describe(store *s) {
    pawl_error err = ERROR_INIT;
    buffer out = {0};
    assert_ok(buffer_append(&out, "", 0, &err), &err);
    describe_into(s, "", &out);
    char *text = mem_strdup(out.data != NULL ? (char *)out.data : "");
    buffer_free(&out);
    return text;
}

/* The descriptions of worlds, each once, joined by '|'. */
typedef struct world_list {
    char *texts[4096];
    size_t count;
    uint64_t repeated;
} world_list;

static UNUSED void note_world(void *context, store *world) {
    world_list *list = context;
    char *text = describe(world);
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->texts[i], text) == 0) {
            list->repeated++;
            mem_free(text);
            return;
        }
    }
    assert_true(list->count < ARRAY_LENGTH(list->texts));
    list->texts[list->count++] = text;
}

static UNUSED bool has_world(const world_list *list, const char *text) {
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->texts[i], text) == 0) {
            return true;
        }
    }
    return false;
}

static UNUSED void world_list_clear(world_list *list) {
    for (size_t i = 0; i < list->count; i++) {
        mem_free(list->texts[i]);
    }
    memset(list, 0, sizeof(*list));
}

/* The worlds that are possible now are exactly these, in any order. */
static UNUSED void assert_worlds(const store *crash, const char *const *wanted, size_t count) {
    world_list list = {0};
    visit_worlds(crash, note_world, &list);
    for (size_t i = 0; i < count; i++) {
        if (!has_world(&list, wanted[i])) {
            fail_msg("the world \"%s\" is missing", wanted[i]);
        }
    }
    for (size_t i = count; i < list.count && list.count > count; i++) {
        print_message("one of %zu worlds: \"%s\"\n", list.count, list.texts[i]);
    }
    assert_int_equal(list.count, count);
    world_list_clear(&list);
}

#define ASSERT_WORLDS(crash, ...)                                                                  \
    do {                                                                                           \
        static const char *const wanted_worlds[] = {__VA_ARGS__};                                  \
        assert_worlds((crash), wanted_worlds, ARRAY_LENGTH(wanted_worlds));                        \
    } while (0)

static UNUSED void sync_file(store *s, const char *path) {
    pawl_error err = ERROR_INIT;
    store_file *f = NULL;
    assert_ok(store_open(s, path, STORE_UPDATE, &f, &err), &err);
    assert_ok(store_sync(f, &err), &err);
    store_close(f);
}

static UNUSED void sync_dir(store *s, const char *path) {
    pawl_error err = ERROR_INIT;
    assert_ok(store_sync_dir(s, path, &err), &err);
}

static UNUSED void rename_file(store *s, const char *from, const char *to) {
    pawl_error err = ERROR_INIT;
    assert_ok(store_rename(s, from, to, &err), &err);
}

static UNUSED void unlink_file(store *s, const char *path) {
    pawl_error err = ERROR_INIT;
    assert_ok(store_unlink(s, path, &err), &err);
}

static UNUSED void make_dir(store *s, const char *path) {
    pawl_error err = ERROR_INIT;
    assert_ok(store_make_dir(s, path, &err), &err);
}

static UNUSED void write_at(store *s, const char *path, uint64_t at, const char *text) {
    pawl_error err = ERROR_INIT;
    store_file *f = NULL;
    assert_ok(store_open(s, path, STORE_UPDATE, &f, &err), &err);
    assert_ok(store_write(f, at, text, strlen(text), &err), &err);
    store_close(f);
}

/* A file that is there for good. */
static UNUSED void put_durable(store *s, const char *path, const char *text) {
    put_text(s, path, text);
    sync_file(s, path);
    sync_dir(s, "");
}

#endif
