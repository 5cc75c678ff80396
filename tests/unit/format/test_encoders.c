/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The property of every encoder of a checkpoint's own files: whatever it takes is read back equal,
 * and whatever its decoder would refuse it refuses.
 */
#include "base/json.h"
#include "format/manifest.h"
#include "format/record_check.h"
#include "unit/format/wild.h"

#include <stdio.h>
#include <stdlib.h>

#define TAG "7f3a9c21e04b-1"

/* ---- manifest ------------------------------------------------------------------------------- */

/* So many lists, one in the other. */
static const char *nested(wild *w, size_t depth) {
    char *json = wild_take(w, 2 * depth);
    memset(json, '[', depth);
    memset(json + depth, ']', depth);
    json[2 * depth] = '\0';
    return json;
}

static const char *wild_json(wild *w, size_t depth) {
    static const char *const good[] = {
        "1",     "-0.5e-300", "\"\\u00e4\\n\"", "{\"a\":{\"b\":[1,2]}}",
        "false", "[]",        "\"nan\"",        "1.7976931348623157e308"};
    static const char *const bad[] = {
        "",      "NaN", "{",   "1 2", "\"\xff\"", "\"\\u0000\"", "[1,]",
        "1e309", "'a'", "nul", "01",  "\"\n\"",   "{\"a\"}",     "\"\\ud800\""};
    if (wild_odd(w)) {
        return wild_below(w, 4) == 0 ? nested(w, depth + 1) : bad[wild_below(w, ARRAY_LENGTH(bad))];
    }
    return wild_below(w, 8) == 0 ? nested(w, depth) : good[wild_below(w, ARRAY_LENGTH(good))];
}

static manifest_value *wild_values(wild *w, size_t *count) {
    *count = (size_t)wild_below(w, 4);
    manifest_value *values = wild_take(w, *count * sizeof(*values));
    for (size_t i = 0; i < *count; i++) {
        values[i].name = wild_text(w, PAWL_MAX_NAME_BYTES);
        if (strlen(values[i].name) > PAWL_MAX_NAME_BYTES) {
            w->valid = false; /* no matter: names of values have no maximum of their own */
        }
        values[i].json = wild_json(w, JSON_MAX_DEPTH - 2);
    }
    return values;
}

static const char *wild_file_name(wild *w, uint32_t number) {
    static const char *const bad[] = {
        "", "x", "../data", ("index-" TAG), "data-\xff", "manifest.json"};
    char *name = wild_take(w, 80);
    if (wild_odd(w)) {
        return bad[wild_below(w, ARRAY_LENGTH(bad))];
    }
    name_data(name, TAG, wild_below(w, 2) == 0 ? -1 : (int)wild_below(w, PAWL_MAX_RANKS), number,
              wild_below(w, 2) == 0 ? FORMAT_MAX_FILES : 1000);
    return name;
}

static void wild_files(wild *w, manifest *m) {
    m->file_count = (size_t)wild_below(w, 5);
    m->files = wild_take(w, m->file_count * sizeof(*m->files));
    for (size_t i = 0; i < m->file_count; i++) {
        bool twice = i > 0 && wild_odd(w);
        m->files[i] =
            (manifest_file){.name = twice ? m->files[0].name : wild_file_name(w, (uint32_t)i),
                            .bytes = wild_size(w),
                            .rank = m->world_size > 0 ? wild_int(w, 0, m->world_size - 1) : 0};
    }
}

static manifest wild_manifest(wild *w) {
    manifest m = {.version = FORMAT_VERSION,
                  .step = wild_number(w, 0, INT64_MAX),
                  .unix_time_ns = wild_number(w, INT64_MIN + 1, INT64_MAX),
                  .world_size = (int)wild_number(w, 1, INT32_MAX - 1),
                  .attempt = wild_text(w, FORMAT_MAX_TEXT),
                  .framework = wild_below(w, 4) == 0 ? NULL : wild_text(w, FORMAT_MAX_TEXT),
                  .writer = wild_below(w, 4) == 0 ? NULL : wild_text(w, FORMAT_MAX_TEXT),
                  .entries = wild_size(w),
                  .index_name = wild_odd(w) ? "index" : "index-" TAG,
                  .index = {.bytes = wild_size(w),
                            .crc32c = (uint32_t)random_next(&w->random),
                            .footer_crc32c = (uint32_t)random_next(&w->random)},
                  .batch_signature =
                      wild_below(w, 4) == 0 ? NULL : wild_json(w, JSON_MAX_DEPTH - 1)};
    if (m.world_size < 1) { /* cut from 64 bits */
        w->valid = false;
    }
    wild_files(w, &m);
    m.hyperparameters = wild_values(w, &m.hyperparameter_count);
    m.metrics = wild_values(w, &m.metric_count);
    return m;
}

static void assert_same_values(const manifest_value *a, const manifest_value *b, size_t count) {
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(a[i].name, b[i].name);
        assert_string_equal(a[i].json, b[i].json);
    }
}

static void assert_same_manifest(const manifest *a, const manifest *b) {
    assert_int_equal(a->version, b->version);
    assert_true(a->step == b->step && a->unix_time_ns == b->unix_time_ns);
    assert_int_equal(a->world_size, b->world_size);
    assert_same_text(a->attempt, b->attempt);
    assert_same_text(a->framework, b->framework);
    assert_same_text(a->writer, b->writer);
    assert_same_text(a->index_name, b->index_name);
    assert_same_text(a->batch_signature, b->batch_signature);
    assert_true(a->entries == b->entries);
    assert_memory_equal(&a->index, &b->index, sizeof(a->index));
    assert_int_equal(a->file_count, b->file_count);
    for (size_t i = 0; i < a->file_count; i++) {
        assert_string_equal(a->files[i].name, b->files[i].name);
        assert_true(a->files[i].bytes == b->files[i].bytes);
        assert_int_equal(a->files[i].rank, b->files[i].rank);
    }
    assert_int_equal(a->hyperparameter_count, b->hyperparameter_count);
    assert_same_values(a->hyperparameters, b->hyperparameters, a->hyperparameter_count);
    assert_int_equal(a->metric_count, b->metric_count);
    assert_same_values(a->metrics, b->metrics, a->metric_count);
}

static void test_manifests_come_back_as_written(void **state) {
    (void)state;
    wild w = {.random = {41}};
    int taken = 0;
    for (int round = 0; round < 6000; round++) {
        struct pawl_error err = ERROR_INIT;
        CLEANUP(buffer_free) buffer text = {0};
        wild_begin(&w);
        manifest m = wild_manifest(&w);
        manifest back;
        if (wild_taken(&w, manifest_encode(&m, &text, &err), &err)) {
            assert_ok(manifest_decode(text.data, text.size, &back, &err), &err);
            assert_same_manifest(&m, &back);
            manifest_free(&back);
            taken++;
        }
    }
    wild_begin(&w);
    assert_in_range(taken, 600, 5400);
}

/* A JSON string that is `bytes` long. */
static char *json_of(size_t bytes) {
    char *json = mem_alloc(bytes + 1);
    memset(json, '~', bytes);
    json[0] = json[bytes - 1] = '"';
    json[bytes] = '\0';
    return json;
}

static void assert_both(const manifest *m, pawl_status expected) {
    struct pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer text = {0};
    manifest back;
    assert_fails(manifest_encode(m, &text, &err), expected, &err);
    assert_fails(manifest_decode(text.data, text.size, &back, &err), expected, &err);
    manifest_free(&back);
}

/* By its size, and by its files. */
static void test_manifests_up_to_their_largest(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer text = {0};
    manifest m = {
        .version = FORMAT_VERSION, .world_size = 1, .attempt = "a", .index_name = "index-" TAG};
    manifest_value values[FORMAT_MAX_MANIFEST / FORMAT_MAX_VALUE_JSON];
    const size_t last = ARRAY_LENGTH(values) - 1;
    assert_ok(manifest_encode(&m, &text, &err), &err);
    size_t around = text.size + strlen("\n    \"h\": ") + last * strlen(",\n    \"h\": ") + 3;
    size_t rest = FORMAT_MAX_MANIFEST - around - last * FORMAT_MAX_VALUE_JSON;
    AUTOFREE char *full = json_of(FORMAT_MAX_VALUE_JSON);
    for (size_t i = 0; i < last; i++) {
        values[i] = (manifest_value){"h", full};
    }
    m.hyperparameters = values;
    m.hyperparameter_count = ARRAY_LENGTH(values);
    for (size_t beyond = 0; beyond < 2; beyond++) {
        AUTOFREE char *json = json_of(rest + beyond);
        values[last] = (manifest_value){"h", json};
        assert_both(&m, beyond ? PAWL_ELIMIT : PAWL_OK);
    }
    m.hyperparameter_count = 0;
    m.file_count = FORMAT_MAX_FILES + 1;
    assert_fails(manifest_encode(&m, &text, &err), PAWL_ELIMIT, &err);
}

/* What there is no writer for beyond a maximum is no text either: the decoder sees it as it would
 * be. */
static void assert_decoder_refuses(const char *member, const char *item, size_t count) {
    struct pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer text = {0}, other = {0};
    const manifest m = {
        .version = FORMAT_VERSION, .world_size = 1, .attempt = "a", .index_name = "index-" TAG};
    manifest back;
    assert_ok(manifest_encode(&m, &text, &err), &err);
    char *at = strstr((char *)text.data, member);
    assert_non_null(at);
    size_t before = (size_t)(at - (char *)text.data) + strlen(member);
    assert_ok(buffer_append(&other, text.data, before, &err), &err);
    for (size_t i = 0; i < count; i++) {
        assert_ok(buffer_printf(&other, &err, "%s%s", i > 0 ? "," : "", item), &err);
    }
    size_t tail = strlen("  \"crc32c\": \"00000000\"\n}\n");
    assert_ok(buffer_append(&other, text.data + before, text.size - tail - before, &err), &err);
    uint32_t crc = crc32c(0, other.data, other.size);
    assert_ok(buffer_printf(&other, &err, "  \"crc32c\": \"%08x\"\n}\n", crc), &err);
    assert_fails(manifest_decode(other.data, other.size, &back, &err), PAWL_ELIMIT, &err);
}

static void test_values_of_a_manifest_up_to_their_largest(void **state) {
    (void)state;
    AUTOFREE char *full = json_of(FORMAT_MAX_VALUE_JSON);
    AUTOFREE char *longer = json_of(FORMAT_MAX_VALUE_JSON + 1);
    AUTOFREE manifest_value *many =
        mem_calloc(FORMAT_MAX_HYPERPARAMETERS + 1, sizeof(manifest_value));
    for (size_t i = 0; i <= FORMAT_MAX_HYPERPARAMETERS; i++) {
        many[i] = (manifest_value){"h", "0"};
    }
    for (size_t beyond = 0; beyond < 2; beyond++) {
        struct pawl_error err = ERROR_INIT;
        CLEANUP(buffer_free) buffer text = {0};
        pawl_status expected = beyond ? PAWL_ELIMIT : PAWL_OK;
        manifest_value one = {"h", beyond ? longer : full};
        manifest m = {
            .version = FORMAT_VERSION, .world_size = 1, .attempt = "a", .index_name = "index-" TAG};
        m.metrics = many;
        m.metric_count = FORMAT_MAX_METRICS + beyond;
        assert_fails(manifest_encode(&m, &text, &err), expected, &err);
        m.metric_count = 0;
        m.hyperparameters = many;
        m.hyperparameter_count = FORMAT_MAX_HYPERPARAMETERS + beyond;
        assert_fails(manifest_encode(&m, &text, &err), expected, &err);
        m.hyperparameters = &one;
        m.hyperparameter_count = 1;
        assert_fails(manifest_encode(&m, &text, &err), expected, &err);
        m.hyperparameter_count = 0;
        m.batch_signature = one.json;
        assert_fails(manifest_encode(&m, &text, &err), expected, &err);
    }
    assert_decoder_refuses("\"metrics\": {", "\"m\":0", FORMAT_MAX_METRICS + 1);
    assert_decoder_refuses("\"hyperparameters\": {", "\"m\":0", FORMAT_MAX_HYPERPARAMETERS + 1);
    AUTOFREE char *member = mem_alloc(FORMAT_MAX_VALUE_JSON + 16);
    (void)snprintf(member, FORMAT_MAX_VALUE_JSON + 16, "\"m\":%s", longer);
    assert_decoder_refuses("\"hyperparameters\": {", member, 1);
}

/* ---- safetensors ---------------------------------------------------------------------------- */

/* The header of a file whose data need not be there. */
static pawl_status header_read(void *context, uint64_t offset, void *to, size_t n,
                               pawl_error *err) {
    const buffer *header = context;
    (void)err;
    assert_true(offset <= header->size && n <= header->size - offset);
    memcpy(to, header->data + offset, n);
    return PAWL_OK;
}

static pawl_status decode_header(buffer *header, uint64_t file_bytes, safetensors_header *out,
                                 pawl_error *err) {
    const byte_source source = {.context = header, .size = file_bytes, .read_at = header_read};
    return safetensors_decode(&source, out, err);
}

/* Mostly small; now and then with a count near 2^61 or beyond, or of nothing. */
static int64_t *wild_shape(wild *w, int ndim) {
    static const int64_t extents[] = {0, 1, 1, 1, 2, 3, 4};
    int64_t *shape = wild_take(w, (size_t)(ndim > 0 ? ndim : 1) * sizeof(*shape));
    for (int i = 0; i < ndim; i++) {
        shape[i] = extents[wild_below(w, ARRAY_LENGTH(extents))];
    }
    if (ndim > 0 && wild_below(w, 4) == 0) {
        shape[0] = INT64_C(1) << wild_below(w, 63);
        shape[ndim - 1] = wild_below(w, 8) == 0 ? -1 : INT64_C(1) << wild_below(w, 8);
    }
    return shape;
}

static const char *numbered(wild *w, size_t i) {
    const char *text = wild_text(w, 100);
    char *name = wild_take(w, strlen(text) + 16);
    (void)sprintf(name, "%02zu%s", i, text);
    return wild_below(w, 200) == 0 ? "__metadata__" : name;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const safetensors_tensor *)a)->name, ((const safetensors_tensor *)b)->name);
}

static void assert_same_tensors(safetensors_tensor *a, size_t count, const safetensors_header *b) {
    assert_int_equal(count, b->tensor_count);
    qsort(a, count, sizeof(*a), by_name);
    qsort(b->tensors, count, sizeof(*a), by_name);
    for (size_t i = 0; i < count; i++) {
        const safetensors_tensor *t = &b->tensors[i];
        assert_string_equal(a[i].name, t->name);
        assert_int_equal(a[i].dtype, t->dtype);
        assert_true(a[i].bytes == t->bytes && a[i].offset == t->offset);
        assert_int_equal(a[i].ndim, t->ndim);
        for (int d = 0; d < a[i].ndim; d++) {
            assert_true(a[i].shape[d] == t->shape[d]);
        }
    }
}

static void one_header(wild *w, int *taken) {
    struct pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer header = {0};
    safetensors_tensor tensors[6];
    safetensors_header back;
    uint64_t file_bytes;
    size_t count = (size_t)wild_below(w, ARRAY_LENGTH(tensors));
    pawl_dtype dtype = (pawl_dtype)random_between(&w->random, PAWL_BOOL, PAWL_U64);
    const safetensors_pair pairs[] = {{"format", "pt"}, {"k", wild_text(w, 5000)}};
    for (size_t i = 0; i < count; i++) {
        int ndim = (int)wild_below(w, wild_below(w, 4) == 0 ? PAWL_MAX_NDIM + 2 : 4);
        tensors[i] = (safetensors_tensor){
            .name = numbered(w, i), .dtype = dtype, .ndim = ndim, .shape = wild_shape(w, ndim)};
    }
    w->valid = false; /* which shapes there can be is not for this test to know */
    pawl_status status =
        safetensors_encode(tensors, count, pairs, ARRAY_LENGTH(pairs), &header, &file_bytes, &err);
    if (wild_taken(w, status, &err)) {
        assert_ok(decode_header(&header, file_bytes, &back, &err), &err);
        assert_same_tensors(tensors, count, &back);
        assert_int_equal(back.metadata_count, 2);
        assert_string_equal(back.metadata[1].value, pairs[1].value);
        safetensors_header_free(&back);
        *taken += 1;
    }
}

static void test_headers_of_data_files(void **state) {
    (void)state;
    wild w = {.random = {42}};
    int taken = 0;
    for (int round = 0; round < 6000; round++) {
        wild_begin(&w);
        one_header(&w, &taken);
    }
    wild_begin(&w);
    assert_in_range(taken, 600, 5400);
}

/* ---- records of the index, and what a data file says of itself ------------------------------ */

static const char *wild_name(wild *w) {
    return wild_below(w, 40) == 0 ? (w->valid = false, "a//b") : wild_text(w, PAWL_MAX_NAME_BYTES);
}

static void wild_value(wild *w, record_entry *e) {
    static const uint8_t bytes[] = "{\"a\":1}\0\xff";
    static const size_t sizes[] = {
        [PAWL_KIND_BOOL] = 1,   [PAWL_KIND_INT64] = 8, [PAWL_KIND_FLOAT64] = 8,
        [PAWL_KIND_STRING] = 7, [PAWL_KIND_BYTES] = 9, [PAWL_KIND_JSON] = 7};
    bool odd = wild_odd(w);
    size_t n = odd ? (size_t)wild_below(w, 10) : sizes[e->kind];
    e->per_rank = e->kind == PAWL_KIND_BYTES && wild_below(w, 2) == 0;
    if (e->per_rank && wild_below(w, 4) == 0) {
        size_t large = PAWL_MAX_VALUE_BYTES + (size_t)wild_below(w, 2);
        n = wild_below(w, 2) == 0 ? large : (size_t)wild_number(w, 0, PAWL_MAX_RANK_BYTES);
    }
    e->pieces[0].bytes = n;
    if (!e->per_rank) {
        e->value = e->kind == PAWL_KIND_BOOL ? (const uint8_t *)(odd ? "\2" : "\1") : bytes;
        e->value_bytes = n;
    }
}

static void wild_tensor(wild *w, record_entry *e) {
    static const int64_t zeros[PAWL_MAX_NDIM + 2];
    record_piece *piece = &e->pieces[0];
    e->dtype = (pawl_dtype)random_between(&w->random, PAWL_BOOL - wild_odd(w), PAWL_U64);
    e->ndim = (int)wild_below(w, wild_below(w, 4) == 0 ? PAWL_MAX_NDIM + 2 : 4);
    int64_t *shape = wild_shape(w, e->ndim);
    int64_t *offset = wild_take(w, sizeof(zeros));
    int64_t *extent = wild_take(w, sizeof(zeros));
    struct pawl_error ignored = ERROR_INIT;
    memset(offset, 0, sizeof(zeros));
    memcpy(extent, shape, (size_t)e->ndim * sizeof(*shape));
    if (e->ndim > 0 && wild_below(w, 2) == 0) {
        extent[0] = shape[0] / 2;
        offset[0] = shape[0] - extent[0] + wild_odd(w);
    }
    e->shape = shape;
    piece->box_offset = offset;
    piece->box_extent = extent;
    bool fits = e->dtype >= PAWL_BOOL &&
                shape_check(e->dtype, e->ndim, shape, NULL, NULL, &ignored) == PAWL_OK &&
                shape_check(e->dtype, e->ndim, extent, NULL, &piece->bytes, &ignored) == PAWL_OK;
    if (!fits) {
        w->valid = false;
    }
}

static record_entry wild_entry(wild *w) {
    record_piece *piece = wild_take(w, sizeof(*piece));
    record_entry e = {
        .name = wild_name(w),
        .kind = (pawl_kind)random_between(&w->random, PAWL_KIND_TENSOR, PAWL_KIND_JSON),
        .role = (pawl_role)random_between(&w->random, PAWL_ROLE_MODEL, PAWL_ROLE_OTHER),
        .replicated = wild_below(w, 2) == 0,
        .pieces = piece,
        .piece_count = wild_odd(w) && wild_below(w, 2) == 0 ? 0 : 1};
    *piece = (record_piece){.file = (uint32_t)wild_number(w, 0, FORMAT_MAX_FILES - 1),
                            .rank = wild_int(w, 0, INT32_MAX - 1),
                            .offset = wild_below(w, UINT32_MAX)};
    if (e.role == PAWL_ROLE_SLOT && e.kind != PAWL_KIND_TENSOR) {
        e.role = PAWL_ROLE_OTHER;
    }
    if (e.role == PAWL_ROLE_SLOT) {
        e.slot_of = wild_name(w);
        e.slot = wild_name(w);
    }
    if (e.kind == PAWL_KIND_TENSOR) {
        wild_tensor(w, &e);
    } else {
        wild_value(w, &e);
    }
    return e;
}

static void assert_same_boxes(const record_entry *a, const record_entry *b) {
    assert_int_equal(a->dtype, b->dtype);
    assert_int_equal(a->ndim, b->ndim);
    assert_true(shape_equal(a->ndim, a->shape, b->ndim, b->shape));
    for (size_t i = 0; i < a->piece_count; i++) {
        const record_piece *p = &a->pieces[i];
        const record_piece *q = &b->pieces[i];
        assert_true(shape_equal(a->ndim, p->box_offset, a->ndim, q->box_offset));
        assert_true(shape_equal(a->ndim, p->box_extent, a->ndim, q->box_extent));
        assert_true(p->bytes == q->bytes);
    }
}

/* But for the value, and where its pieces lie. */
static void assert_same_entry(const record_entry *a, const record_entry *b) {
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->role, b->role);
    assert_same_text(a->slot_of, b->slot_of);
    assert_same_text(a->slot, b->slot);
    assert_int_equal(a->per_rank, b->per_rank);
    assert_int_equal(a->replicated, b->replicated);
    assert_int_equal(a->piece_count, b->piece_count);
    if (a->kind == PAWL_KIND_TENSOR) {
        assert_same_boxes(a, b);
    }
}

/* In a data file alone: what the index takes, the file's description of itself takes. */
static void describe_in_file(const record_entry *e) {
    struct pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer json = {0}, header = {0};
    CLEANUP(arena_free) arena memory = {0};
    safetensors_header decoded;
    record_entry *back;
    size_t count;
    int64_t step;
    int rank, world_size;
    uint64_t file_bytes;
    const record_piece *piece = e->pieces;
    bool tensor = e->kind == PAWL_KIND_TENSOR, scalar = false;
    int64_t n = (int64_t)piece->bytes;
    safetensors_tensor t = {
        .name = e->name, .dtype = e->dtype, .ndim = e->ndim, .shape = piece->box_extent};
    if (!tensor) {
        t.dtype = record_value_dtype(e->kind, &scalar);
        t.ndim = scalar ? 0 : 1;
        t.shape = &n;
    }
    assert_ok(record_metadata_begin(RECORD_METADATA_PLAIN, 7, 3, 9, &json, &err), &err);
    assert_ok(record_metadata_add(e, piece, &json, &err), &err);
    assert_ok(record_metadata_end(&json, &err), &err);
    const safetensors_pair pair = {RECORD_METADATA_KEY, (const char *)json.data};
    pawl_status status = safetensors_encode(&t, 1, &pair, 1, &header, &file_bytes, &err);
    if (status != PAWL_OK) { /* more than a data file can hold */
        assert_int_equal(status, PAWL_ELIMIT);
        return;
    }
    assert_ok(decode_header(&header, file_bytes, &decoded, &err), &err);
    assert_ok(record_metadata_decode(&decoded, piece->file, &memory, &back, &count, &step, &rank,
                                     &world_size, &err),
              &err);
    assert_true(count == 1 && step == 7 && rank == 3 && world_size == 9);
    assert_same_entry(e, back);
    safetensors_header_free(&decoded);
}

static void test_records_and_descriptions(void **state) {
    (void)state;
    wild w = {.random = {43}};
    int taken = 0;
    for (int round = 0; round < 10000; round++) {
        struct pawl_error err = ERROR_INIT;
        CLEANUP(buffer_free) buffer key = {0}, value = {0};
        CLEANUP(arena_free) arena memory = {0};
        record_entry back;
        wild_begin(&w);
        record_entry e = wild_entry(&w);
        if (!wild_taken(&w, record_entry_encode(&e, &value, &err), &err)) {
            continue;
        }
        assert_ok(record_entry_key(&key, e.name, &err), &err);
        assert_ok(record_entry_decode(key.data, key.size, value.data, value.size, FORMAT_MAX_FILES,
                                      &memory, &back, &err),
                  &err);
        assert_same_entry(&e, &back);
        assert_int_equal(e.value != NULL, back.value != NULL);
        assert_int_equal(e.value_bytes, back.value_bytes);
        if (e.value != NULL) {
            assert_memory_equal(e.value, back.value, e.value_bytes);
        }
        if (e.piece_count > 0) {
            assert_true(e.pieces->file == back.pieces->file &&
                        e.pieces->rank == back.pieces->rank &&
                        e.pieces->offset == back.pieces->offset);
            if (strcmp(e.name, "__metadata__") != 0) {
                describe_in_file(&e);
            }
        }
        taken++;
    }
    wild_begin(&w);
    assert_in_range(taken, 1000, 9000);
}

/* ---- the table ------------------------------------------------------------------------------ */

#define RECORDS 60

typedef struct rows {
    buffer bytes;
    size_t key_at[RECORDS], key_bytes[RECORDS], value_at[RECORDS], value_bytes[RECORDS], count;
} rows;

static void rows_free(rows *r) {
    buffer_free(&r->bytes);
}

/* Keys that mostly ascend, of any length. */
static void add_rows(wild *w, table_writer *writer, rows *r, pawl_error *err) {
    static uint8_t key[FORMAT_MAX_KEY + 2], value[3 * FORMAT_TABLE_BLOCK];
    for (size_t i = 0; i < RECORDS; i++) {
        size_t key_bytes =
            1 + (size_t)wild_below(w, wild_below(w, 8) == 0 ? FORMAT_MAX_KEY + 1 : 20);
        size_t value_bytes = (size_t)wild_below(w, wild_below(w, 8) == 0 ? sizeof(value) : 100);
        bool odd = wild_below(w, 30) == 0;
        random_fill(&w->random, key, key_bytes);
        random_fill(&w->random, value, value_bytes < 64 ? value_bytes : 64);
        key[0] = (uint8_t)(odd ? i : 2 * i);
        pawl_status status = table_writer_add(writer, key, key_bytes, value, value_bytes, err);
        assert_true(status == PAWL_OK || odd || key_bytes > FORMAT_MAX_KEY);
        if (status != PAWL_OK) {
            continue;
        }
        size_t n = r->count++;
        r->key_at[n] = r->bytes.size;
        r->key_bytes[n] = key_bytes;
        assert_ok(buffer_append(&r->bytes, key, key_bytes, err), err);
        r->value_at[n] = r->bytes.size;
        r->value_bytes[n] = value_bytes;
        assert_ok(buffer_append(&r->bytes, value, value_bytes, err), err);
    }
}

static void assert_rows(const buffer *file, const table_summary *summary, const rows *r) {
    struct pawl_error err = ERROR_INIT;
    table *t;
    table_cursor *at;
    const uint8_t *key, *value;
    size_t key_bytes, value_bytes;
    assert_true(summary->bytes == file->size);
    assert_ok(table_open(byte_source_memory(file), &summary->footer_crc32c, &t, &err), &err);
    assert_ok(table_cursor_new(t, &at, &err), &err);
    assert_ok(table_seek(at, "", 0, &err), &err);
    for (size_t i = 0; i < r->count; i++) {
        assert_true(table_valid(at));
        table_item(at, &key, &key_bytes, &value, &value_bytes);
        assert_int_equal(key_bytes, r->key_bytes[i]);
        assert_memory_equal(key, r->bytes.data + r->key_at[i], key_bytes);
        assert_int_equal(value_bytes, r->value_bytes[i]);
        assert_memory_equal(value, r->bytes.data + r->value_at[i], value_bytes);
        assert_ok(table_next(at, &err), &err);
    }
    assert_false(table_valid(at));
    table_cursor_free(at);
    table_close(t);
}

static void test_tables_come_back_as_written(void **state) {
    (void)state;
    wild w = {.random = {44}};
    for (int round = 0; round < 100; round++) {
        struct pawl_error err = ERROR_INIT;
        CLEANUP(buffer_free) buffer file = {0};
        CLEANUP(rows_free) rows r = {.count = 0};
        table_writer *writer;
        table_summary summary;
        assert_ok(table_writer_new(byte_sink_buffer(&file), &writer, &err), &err);
        add_rows(&w, writer, &r, &err);
        assert_ok(table_writer_finish(writer, &summary, &err), &err);
        table_writer_free(writer);
        assert_rows(&file, &summary, &r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_manifests_come_back_as_written),
        cmocka_unit_test(test_manifests_up_to_their_largest),
        cmocka_unit_test(test_values_of_a_manifest_up_to_their_largest),
        cmocka_unit_test(test_headers_of_data_files),
        cmocka_unit_test(test_records_and_descriptions),
        cmocka_unit_test(test_tables_come_back_as_written),
    };
    return cmocka_run_group_tests_name("what encoders take is read back", tests, NULL, NULL);
}
