/* SPDX-License-Identifier: Apache-2.0 */
/* Directories of torch.distributed.checkpoint made by hand: what they have and what is refused. */
#include "unit/foreign/made_torch.h"

#include "lib/failing_memory.h"
#include "lib/in_memory.h"

#include "foreign/dcp/read.h"

#define MODULE  "ctorch.distributed.checkpoint.metadata\n"
#define SIZE(n) "ctorch\nSize\n((" n "ttR"

/* A chunk, or a byte item, and where it is. */
typedef struct made_chunk {
    const char *fqn, *offset; /* as "I0\n"; NULL: a byte item */
    unsigned blob;            /* of the file: vectors of 12 floats, but for the last: {"lr": 0.5} */
    const char *path;
    int64_t more_at, more_bytes; /* than is true */
} made_chunk;

#define BLOBS 3u

typedef struct made_dcp {
    const char *size; /* of the tensor "w" */
    made_chunk chunks[4];
    size_t count;
    const char *items;   /* more of state_dict_metadata */
    const char *planner; /* NULL: none */
} made_dcp;

static const made_dcp whole = {.size = "I24\n",
                               .chunks = {{"w", "I0\n", 0, "d", 0, 0},
                                          {"w", "I12\n", 1, "d", 0, 0},
                                          {"o", NULL, 2, "d", 0, 0}},
                               .count = 3,
                               .planner = "(dS'w'\n(S'model'\nS'a/b'\nI7\ntsS'o'\n(S'o'\nts"};

static void add_text(buffer *b, const char *text) {
    made_bytes(b, text, strlen(text));
}

static void put_chunk(buffer *b, const made_chunk *c, const uint64_t *at) {
    char text[512];
    snprintf(text, sizeof(text), MODULE "MetadataIndex\n)\x81(dS'fqn'\nS'%s'\ns", c->fqn);
    add_text(b, text);
    if (c->offset != NULL) {
        snprintf(text, sizeof(text), "S'offset'\n" SIZE("%s") "s", c->offset);
        add_text(b, text);
    }
    snprintf(
        text, sizeof(text),
        "bctorch.distributed.checkpoint.filesystem\n_StorageInfo\n)\x81(dS'relative_path'\nS'%s'\n"
        "sS'offset'\nI%lld\nsS'length'\nI%lld\nsbs",
        c->path, (long long)at[c->blob] + (long long)c->more_at,
        (long long)(at[c->blob + 1] - at[c->blob]) + (long long)c->more_bytes);
    add_text(b, text);
}

static void put_dcp(store *s, const made_dcp *d) {
    CLEANUP(buffer_free) buffer data = {0};
    CLEANUP(buffer_free) buffer b = {0};
    uint64_t at[BLOBS + 1] = {0};
    for (unsigned i = 0; i < BLOBS; i++) {
        CLEANUP(buffer_free) buffer blob = {0};
        made_torch_zip(&blob, i + 1 < BLOBS ? VECTOR "." : "(dS'lr'\nF0.5\ns.", "little", 0);
        made_bytes(&data, blob.data, blob.size);
        at[i + 1] = data.size;
    }
    put_anew(s, "d", data.data, data.size);
    add_text(&b, MODULE "Metadata\n)\x81(dS'state_dict_metadata'\n(dS'w'\n" MODULE
                        "TensorStorageMetadata\n)\x81(dS'size'\n");
    add_text(&b, "ctorch\nSize\n((");
    add_text(&b, d->size);
    add_text(&b, "ttRsbsS'o'\n" MODULE "BytesStorageMetadata\n)\x81s");
    add_text(&b, d->items != NULL ? d->items : "");
    add_text(&b, "sS'storage_data'\n(d");
    for (size_t i = 0; i < d->count; i++) {
        put_chunk(&b, &d->chunks[i], at);
    }
    add_text(&b, "s");
    if (d->planner != NULL) {
        add_text(&b, "S'planner_data'\n");
        add_text(&b, d->planner);
        add_text(&b, "s");
    }
    add_text(&b, "b.");
    put_anew(s, DCP_METADATA, b.data, b.size);
}

static pawl_status open_dcp(store *s, const made_dcp *d, struct source **out, pawl_error *err) {
    put_dcp(s, d);
    return made_archive(s, &format_dcp, DCP_METADATA, out, err);
}

/* ---- what is in them ------------------------------------------------------------------------ */

static void test_a_tensor_is_put_together_of_its_chunks(void **state) {
    struct pawl_error err;
    struct source *w;
    float expected[24];
    for (size_t i = 0; i < 24; i++) {
        expected[i] = torch_floats[i % 12];
    }
    assert_ok(open_dcp(*state, &whole, &w, &err), &err);
    assert_string_equal(w->format, "PyTorch DCP");
    assert_int_equal(w->entries, 3);
    assert_entry(w, "__sequences__", "json {\"list\":[\"model/a%2Fb\"]}");
    assert_entry(w, "model/a%2Fb/7", "F32 [24] 2 parts");
    assert_tensor(w, "model/a%2Fb/7", expected);
    assert_entry(w, "o/lr", "float64 0.5");
    source_destroy(w);
    made_dcp d = whole;
    d.planner = NULL;
    assert_ok(open_dcp(*state, &d, &w, &err), &err);
    assert_tensor(w, "w", expected);
    source_destroy(w);
}

/* ---- what is refused ------------------------------------------------------------------------ */

static void test_r14_directories_that_are_refused(void **state) {
    static const char *const says[] = {
        "a file that the metadata names is missing",
        "it names a file outside of the directory",
        "it names a file outside of the directory",
        "a part of a file lies behind its end",
        "two items are in the same bytes of a file",
        "two items are in the same bytes of a file",
        "", /* the zip of a chunk is cut off */
        "it has another number of dimensions",
        "an item is there twice",
        "it does not say where a tensor is",
        "it does not say where an item is",
        "it does not say where the bytes of an item are",
        "a tensor has no size",
        "a path has a component that is neither text nor number",
        "", /* a negative size */
        "another number of dimensions",
    };
    for (size_t i = 0; i < ARRAY_LENGTH(says); i++) {
        struct pawl_error err;
        struct source *w;
        made_dcp d = whole;
        made_chunk *c = &d.chunks[1];
        c->path = i == 0 ? "e" : i == 1 ? "../d" : i == 2 ? ".metadata" : c->path;
        c->more_bytes = i == 5 ? 1 : i == 6 ? -30 : 0;
        d.chunks[2].more_bytes = i == 3 ? 100000 : 0;
        c->more_at = i == 4 ? -1 : 0;
        c->offset = i == 7 ? "I0\nI0\n" : i == 15 ? NULL : c->offset;
        d.size = i == 12 ? "S'x'\n" : i == 14 ? "I-1\n" : d.size;
        d.items = i == 8   ? "S'o'\n" MODULE "BytesStorageMetadata\n)\x81s"
                  : i == 9 ? "S'x'\n" MODULE
                             "TensorStorageMetadata\n)\x81(dS'size'\n" SIZE("I1\n") "sbs"
                  : i == 10 ? "S'x'\n" MODULE "BytesStorageMetadata\n)\x81s"
                            : NULL;
        d.chunks[2].more_at = i == 11 ? -1000000 : 0;
        d.planner = i == 13 ? "(dS'w'\n(Nts" : d.planner;
        pawl_status status = open_dcp(*state, &d, &w, &err);
        if (status != PAWL_EDAMAGED || strstr(err.attempt, says[i]) == NULL) {
            fail_msg("case %zu: status %d, %s; not: %s", i, (int)status, err.attempt, says[i]);
        }
        assert_true(err.path[0] != '\0');
    }
}

static void test_r14_metadata_that_calls_something(void **state) {
    struct pawl_error err;
    struct source *w;
    made_dcp d = whole;
    d.planner = "cos\nsystem\n(S'id'\ntR";
    assert_fails(open_dcp(*state, &d, &w, &err), PAWL_EUNSUPPORTED, &err);
    assert_says(err.attempt, "calls os.system; nothing was executed");
    assert_string_equal(err.path, "/mem/.metadata");
    static const char nothing[] = "N.";
    put_anew(*state, DCP_METADATA, nothing, 2);
    assert_fails(made_archive(*state, &format_dcp, DCP_METADATA, &w, &err), PAWL_EDAMAGED, &err);
    assert_says(err.attempt, "it is no Metadata");
}

/* One long key, which a path has again and again. */
static void test_r14_a_name_without_an_end(void **state) {
    CLEANUP(buffer_free) buffer planner = {0};
    struct pawl_error err;
    struct source *w;
    made_dcp d = whole;
    add_text(&planner, "S'");
    for (unsigned i = 0; i < 1000; i++) {
        add_text(&planner, "k");
    }
    add_text(&planner, "'\np9\n0(dS'w'\n(");
    for (unsigned i = 0; i < 10000; i++) {
        add_text(&planner, "g9\n");
    }
    made_bytes(&planner, "ts", 3);
    d.planner = (const char *)planner.data;
    assert_fails(open_dcp(*state, &d, &w, &err), PAWL_EUNSUPPORTED, &err);
    assert_says(err.attempt, "the name of an item is too long");
    assert_string_equal(err.path, "/mem/.metadata");
}

static pawl_status open_whole(void *context, pawl_error *err) {
    struct source *w;
    TRY(archive_open(context, false, &format_dcp, DCP_METADATA, true, &w, err));
    source_destroy(w);
    return PAWL_OK;
}

static void test_every_allocation_may_fail(void **state) {
    put_dcp(*state, &whole);
    assert_true(failing_memory_each(open_whole, *state) > 30);
}

/* ---- damage --------------------------------------------------------------------------------- */

static void hear(void *context, const char *file, const char *entry, pawl_error *story) {
    (void)entry;
    assert_string_equal(file, "d");
    assert_true(story->has_range);
    ++*(unsigned *)context;
}

static pawl_status go_on(void *context, uint64_t bytes, pawl_error *err) {
    (void)context;
    (void)bytes;
    (void)err;
    return PAWL_OK;
}

static void test_r08_verify_compares_all_chunks(void **state) {
    struct pawl_error err;
    store *s = *state;
    put_dcp(s, &whole);
    for (unsigned i = 0; i < 2; i++) {
        CLEANUP(buffer_free) buffer data = {0};
        CLEANUP(store_close_pointer) store_file *file = NULL;
        struct source *w;
        unsigned problems = 0;
        uint64_t size;
        source_verifier v = {.context = &problems, .problem = hear, .progress = go_on};
        assert_ok(made_archive(s, &format_dcp, DCP_METADATA, &w, &err), &err);
        assert_ok(w->ops->verify(w, &v, &err), &err);
        assert_int_equal(problems, i);
        source_destroy(w);
        assert_ok(store_open(s, "d", STORE_READ, &file, &err), &err);
        assert_ok(store_size(file, &size, &err), &err);
        assert_ok(buffer_reserve(&data, (size_t)size, &err), &err);
        assert_ok(store_read(file, 0, data.data, (size_t)size, &err), &err);
        for (size_t k = 0; k + 8 < size; k++) { /* a byte of a storage */
            if (memcmp(data.data + k, "m/data/0", 8) == 0) {
                data.data[k + 8 + 6] ^= 1;
                break;
            }
        }
        put_anew(s, "d", data.data, (size_t)size);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_MEMORY(test_a_tensor_is_put_together_of_its_chunks),
        IN_MEMORY(test_r14_directories_that_are_refused),
        IN_MEMORY(test_r14_metadata_that_calls_something),
        IN_MEMORY(test_r14_a_name_without_an_end),
        IN_MEMORY(test_every_allocation_may_fail),
        IN_MEMORY(test_r08_verify_compares_all_chunks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
