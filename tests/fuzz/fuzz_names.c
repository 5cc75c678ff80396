/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text as the name of a file, of a directory, of an entry, of a dtype. A name that was taken
 * apart, put together again, is the same name; nothing is two things at once.
 */
#include "fuzz.h"

#include "presence/owner.h"

#include <stdio.h>
#include <stdlib.h>

static void check_step(const char *name) {
    int64_t step;
    char again[32];
    if (name_step_parse(name, &step)) {
        fuzz_accepted++;
        FUZZ_CHECK(step >= 0);
        name_step(again, step);
        FUZZ_CHECK(strcmp(again, name) == 0);
    }
}

static void check_data(const char *name) {
    char tag[FORMAT_TAG_CHARS], kind_tag[FORMAT_TAG_CHARS], again[80];
    int rank;
    uint32_t number, of;
    bool data = name_data_parse(name, tag, &rank, &number, &of);
    FUZZ_CHECK(data == (name_classify(name, kind_tag) == NAME_KIND_DATA));
    if (data) {
        fuzz_accepted++;
        FUZZ_CHECK(rank >= -1 && rank < PAWL_MAX_RANKS && number < of && of <= FORMAT_MAX_FILES);
        name_data(again, tag, rank, number, of);
        FUZZ_CHECK(strcmp(again, name) == 0 && strcmp(tag, kind_tag) == 0);
    }
}

static void check_vote(const char *name) {
    char tag[FORMAT_TAG_CHARS], kind_tag[FORMAT_TAG_CHARS], again[80];
    int rank;
    bool vote = name_vote_parse(name, tag, &rank);
    bool kind = name_classify(name, kind_tag) == NAME_KIND_VOTE;
    FUZZ_CHECK(kind ? vote != (strstr(name, ".tmp") != NULL) : !vote);
    if (vote) {
        fuzz_accepted++;
        FUZZ_CHECK(rank >= 0 && rank < PAWL_MAX_RANKS);
        name_vote(again, tag, rank);
        FUZZ_CHECK(strcmp(again, name) == 0);
    }
}

/* Of the names that carry nothing but a tag. */
static void check_kind(const char *name) {
    char tag[FORMAT_TAG_CHARS], again[80];
    switch (name_classify(name, tag)) {
    case NAME_KIND_INDEX:
        name_index(again, tag);
        break;
    case NAME_KIND_MANIFEST_TMP:
        name_manifest_tmp(again, tag);
        break;
    case NAME_KIND_MANIFEST:
        (void)snprintf(again, sizeof again, "%s", NAME_MANIFEST);
        break;
    default:
        return;
    }
    fuzz_accepted++;
    FUZZ_CHECK(strcmp(again, name) == 0);
}

static void check_root(const char *name) {
    char tag[FORMAT_TAG_CHARS], again[80];
    name_root_kind kind = name_root_classify(name, tag);
    int64_t step;
    if (kind == NAME_ROOT_FOREIGN) {
        return;
    }
    fuzz_accepted++;
    FUZZ_CHECK(!name_step_parse(name, &step) && strlen(tag) < FORMAT_TAG_CHARS);
    if (kind == NAME_ROOT_MEET && strlen(name) > 24 &&
        strcmp(name + strlen(name) - 7, "-answer") == 0) {
        uint64_t number = strtoull(name + strlen("meet-") + 12 + 1, NULL, 10);
        name_meet(again, tag, number, -1);
        FUZZ_CHECK(strcmp(again, name) == 0);
    }
    if (kind == NAME_ROOT_VISIT && strlen(name) > 25 &&
        strcmp(name + strlen(name) - 7, "-answer") == 0) {
        uint64_t number = strtoull(name + strlen("visit-") + 12 + 1, NULL, 10);
        name_visit(again, tag, number, -1);
        FUZZ_CHECK(strcmp(again, name) == 0);
    }
    if (kind == NAME_ROOT_OUTCOME && strstr(name, ".tmp") == NULL) {
        name_outcome(again, tag);
        FUZZ_CHECK(strcmp(again, name) == 0);
    }
}

/* A listing with that one name in it. */
static pawl_status list_one(store *s, const char *path, store_each_fn each, void *context,
                            pawl_error *err) {
    (void)path;
    return each(context, &(store_listed){.name = s->root}, err);
}

static void check_owner(char *name) {
    static const store_ops ops = {.list = list_one};
    store s = {.ops = &ops, .root = name};
    pawl_error err = ERROR_INIT;
    owner_names names;
    uint64_t generation;
    char again[32];
    FUZZ_CHECK(owner_list(&s, &names, &err) == PAWL_OK && names.count <= 1);
    if (names.highest > 0) {
        fuzz_accepted++;
        name_owner(again, names.highest);
        FUZZ_CHECK(strcmp(again, name) == 0 && names.strays == 0);
    }
    FUZZ_CHECK((name_owner_parse(name, &generation) == NAME_OWNER) == (names.highest > 0));
}

static void check_words(const char *name, size_t n) {
    const char *why = NULL;
    pawl_dtype dtype = pawl_dtype_from_name(name);
    pawl_role role;
    pawl_kind kind;
    FUZZ_CHECK(entry_name_valid(name, n, &why) == (why == NULL));
    if (why == NULL) {
        fuzz_accepted++;
        FUZZ_CHECK(utf8_valid(name, n) && n > 0 && n <= PAWL_MAX_NAME_BYTES && name[0] != '/');
        FUZZ_CHECK(n > 32 || text_likeness(name, name) == 1);
    }
    FUZZ_CHECK(dtype == 0 || (dtype_valid(dtype) && strcmp(pawl_dtype_name(dtype), name) == 0));
    FUZZ_CHECK(!role_from_name(name, &role) || strcmp(pawl_role_name(role), name) == 0);
    FUZZ_CHECK(!kind_from_name(name, &kind) || strcmp(pawl_kind_name(kind), name) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t n = strnlen((const char *)data, size);
    AUTOFREE char *name = mem_alloc(n + 1);
    FUZZ_CHECK(name != NULL);
    memcpy(name, data, n);
    name[n] = '\0';
    check_step(name);
    check_data(name);
    check_vote(name);
    check_kind(name);
    check_root(name);
    check_owner(name);
    check_words(name, n);
    return 0;
}
