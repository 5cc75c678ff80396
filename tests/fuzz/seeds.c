/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inputs with which corpora begin, as the encoders make them: `fuzz_seeds CORPUS` writes them,
 * `fuzz_seeds --check CORPUS` says which are not what the encoders make today. The other files of a
 * corpus were found by fuzzing.
 */
#include "fuzz.h"

#include "doctor/token.h"
#include "format/event.h"
#include "format/outcome.h"
#include "format/vote.h"
#include "presence/owner.h"
#include "ranks/meet.h"
#include "run/join.h"
#include "stores/stores.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define ATTEMPT "7f3a9c21e04b"
#define TAG     ATTEMPT "-1"

static const char *corpus;
static bool checking;
static unsigned differing;

static void fail(const char *path) {
    perror(path);
    exit(1);
}

static bool is_there(const char *path, const buffer *bytes) {
    FILE *in = fopen(path, "rb");
    buffer found = {.data = mem_alloc(bytes->size + 1)};
    FUZZ_CHECK(found.data != NULL);
    found.size = in != NULL ? fread(found.data, 1, bytes->size + 1, in) : 0;
    bool same = in != NULL && found.size == bytes->size &&
                memcmp(found.data, bytes->data, bytes->size) == 0;
    if (in != NULL) {
        (void)fclose(in);
    }
    buffer_free(&found);
    return same;
}

/* Writes or checks corpus/what/seed-name, and empties the bytes. */
static void put(const char *what, const char *name, buffer *bytes) {
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s", corpus, what);
    if (!checking && mkdir(path, 0777) != 0 && errno != EEXIST) {
        fail(path);
    }
    (void)snprintf(path, sizeof path, "%s/%s/seed-%s", corpus, what, name);
    if (checking) {
        if (!is_there(path, bytes)) {
            (void)fprintf(stderr, "%s is not what the encoders make today\n", path);
            differing++;
        }
    } else {
        FILE *out = fopen(path, "wb");
        if (out == NULL || fwrite(bytes->data, 1, bytes->size, out) != bytes->size ||
            fclose(out) != 0) {
            fail(path);
        }
    }
    bytes->size = 0;
}

static void put_text(const char *what, const char *name, const char *text) {
    buffer bytes = {.data = NULL};
    fuzz_append(&bytes, text, strlen(text));
    put(what, name, &bytes);
    buffer_free(&bytes);
}

#define MADE(call) FUZZ_CHECK((call) == PAWL_OK)

static process_identity somebody(void) {
    return (process_identity){.host = "node-7",
                              .boot_id = "6f1c2a54-0d3e-4b8b-9d5a-1c2d3e4f5a6b",
                              .pid_namespace = "pid:[4026531836]",
                              .time_namespace = "time:[4026531834]",
                              .pid = 4711,
                              .start_ticks = 123456};
}

/* ---- format --------------------------------------------------------------------------------- */

/* A byte with the length of the name, the name, the record. */
static void put_record(const char *name, const record_entry *e) {
    CLEANUP(buffer_free) buffer value = {.data = NULL}, out = {.data = NULL};
    pawl_error err = ERROR_INIT;
    uint8_t n = (uint8_t)strlen(e->name);
    MADE(record_entry_encode(e, &value, &err));
    fuzz_append(&out, &n, 1);
    fuzz_append(&out, e->name, n);
    fuzz_append(&out, value.data, value.size);
    put("record", name, &out);
}

static void records(void) {
    int64_t zero[] = {0, 0}, four[] = {4, 0}, half[] = {4, 8}, shape[] = {8, 8};
    record_piece two[] = {
        {.rank = 0, .offset = 4096, .bytes = 128, .box_offset = zero, .box_extent = half},
        {.file = 1,
         .rank = 1,
         .offset = 4096,
         .bytes = 128,
         .box_offset = four,
         .box_extent = half}};
    record_piece ranks[] = {{.rank = 0, .offset = 4352, .bytes = 5},
                            {.file = 1, .rank = 3, .offset = 4352, .bytes = 7}};
    record_entry e = {.name = "model/w",
                      .kind = PAWL_KIND_TENSOR,
                      .role = PAWL_ROLE_MODEL,
                      .dtype = PAWL_F32,
                      .ndim = 2,
                      .shape = shape,
                      .pieces = two,
                      .piece_count = 2,
                      .replicated = true};
    put_record("tensor", &e);
    e.name = "adam/m/w";
    e.role = PAWL_ROLE_SLOT;
    e.slot_of = "model/w";
    e.slot = "adam/m";
    put_record("slot", &e);
    e = (record_entry){.name = "rng",
                       .kind = PAWL_KIND_BYTES,
                       .role = PAWL_ROLE_RNG,
                       .per_rank = true,
                       .pieces = ranks,
                       .piece_count = 2};
    put_record("per-rank", &e);
    ranks[1].bytes = PAWL_MAX_RANK_BYTES;
    put_record("per-rank-large", &e);
    static const struct {
        const char *name, *bytes;
        pawl_kind kind;
        size_t n;
    } values[] = {{"bool", "\1", PAWL_KIND_BOOL, 1},
                  {"int64", "\1\0\0\0\0\0\0\0", PAWL_KIND_INT64, 8},
                  {"float64", "\0\0\0\0\0\0\360\77", PAWL_KIND_FLOAT64, 8},
                  {"string", "adam", PAWL_KIND_STRING, 4},
                  {"bytes", "\1\2\3", PAWL_KIND_BYTES, 3},
                  {"json", "{\"a\":[1,2.5,null]}", PAWL_KIND_JSON, 18}};
    for (size_t i = 0; i < ARRAY_LENGTH(values); i++) {
        record_piece piece = {.offset = 64, .bytes = values[i].n};
        e = (record_entry){.name = values[i].name,
                           .kind = values[i].kind,
                           .role = PAWL_ROLE_HYPERPARAMETER,
                           .value = (const uint8_t *)values[i].bytes,
                           .value_bytes = values[i].n,
                           .pieces = &piece,
                           .piece_count = 1};
        put_record(values[i].name, &e);
    }
}

static void manifests(void) {
    CLEANUP(buffer_free) buffer out = {.data = NULL};
    pawl_error err = ERROR_INIT;
    manifest_file files[] = {{"data-" TAG "-r00000-00000-of-00001.safetensors", 8192, 0},
                             {"data-" TAG "-r00001-00000-of-00001.safetensors", 4096, 1}};
    manifest_value values[] = {{"lr", "0.001"}, {"name", "\"adam\""}};
    manifest_value metrics[] = {{"loss", "1.25"}, {"nan", "\"NaN\""}};
    manifest m = {.version = FORMAT_VERSION,
                  .step = 100,
                  .unix_time_ns = 1700000000000000000,
                  .world_size = 2,
                  .attempt = ATTEMPT,
                  .framework = "tests 1.0",
                  .writer = "pawl 0.1.0",
                  .entries = 3,
                  .files = files,
                  .file_count = 2,
                  .index_name = "index-" TAG,
                  .index = {.bytes = 500, .crc32c = 1, .footer_crc32c = 2},
                  .hyperparameters = values,
                  .hyperparameter_count = 2,
                  .metrics = metrics,
                  .metric_count = 2,
                  .batch_signature = "{\"shapes\":[[8,16]]}"};
    MADE(manifest_encode(&m, &out, &err));
    char *rank = strstr((char *)out.data, "\"rank\": 1}");
    FUZZ_CHECK(rank != NULL);
    rank[strlen("\"rank\": ")] = '7'; /* there is none */
    (void)fuzz_repair_manifest(out.data, out.size, out.size);
    put("manifest", "rank-that-there-is-not", &out);
    MADE(manifest_encode(&m, &out, &err));
    put("manifest", "many", &out);
    files[0].name = "data-" TAG "-00000-of-00001.safetensors";
    m.world_size = 1;
    m.file_count = 1;
    m.hyperparameter_count = 0;
    m.metric_count = 0;
    m.batch_signature = NULL;
    m.framework = "";
    MADE(manifest_encode(&m, &out, &err));
    put("manifest", "one", &out);
}

static void tables(void) {
    CLEANUP(buffer_free) buffer out = {.data = NULL}, whole = {.data = NULL};
    pawl_error err = ERROR_INIT;
    table_summary summary;
    table_writer *w = NULL;
    MADE(table_writer_new(byte_sink_buffer(&whole), &w, &err));
    for (int i = 0; i < 40; i++) {
        char key[32];
        int n = snprintf(key, sizeof key, "entry/%03d", i * 7);
        MADE(table_writer_add(w, key, (size_t)n, key, (size_t)i % 9, &err));
    }
    MADE(table_writer_finish(w, &summary, &err));
    table_writer_free(w);
    fuzz_append(&out, "w", 1);
    fuzz_append(&out, whole.data, whole.size);
    put("table", "whole", &out);
}

/* With a further piece of "w", or without. */
static void put_data_file(const char *name, bool further) {
    CLEANUP(buffer_free) buffer pawl = {.data = NULL}, sharding = {.data = NULL};
    CLEANUP(buffer_free) buffer file = {.data = NULL};
    pawl_error err = ERROR_INIT;
    int64_t shape[] = {4, 2}, offset[] = {2, 0}, extent[] = {2, 2};
    record_piece piece = {.rank = 1, .bytes = 16, .box_offset = offset, .box_extent = extent};
    record_entry e = {.name = "w",
                      .kind = PAWL_KIND_TENSOR,
                      .role = PAWL_ROLE_MODEL,
                      .dtype = PAWL_F32,
                      .ndim = 2,
                      .shape = shape,
                      .pieces = &piece,
                      .piece_count = 1};
    record_entry value = {.name = "note",
                          .kind = PAWL_KIND_STRING,
                          .role = PAWL_ROLE_OTHER,
                          .pieces = &(record_piece){.rank = 1, .bytes = 3},
                          .piece_count = 1};
    record_entry slot = e;
    slot.name = "m";
    slot.role = PAWL_ROLE_SLOT;
    slot.slot_of = "w";
    slot.slot = "adam/m";
    MADE(record_metadata_begin(further ? RECORD_METADATA_FURTHER : RECORD_METADATA_PLAIN, 100, 1, 2,
                               &pawl, &err));
    MADE(record_metadata_add(&slot, &piece, &pawl, &err));
    MADE(record_metadata_add(&e, &piece, &pawl, &err));
    if (further) {
        e.name = "w//1";
        MADE(record_metadata_add(&e, &piece, &pawl, &err));
    }
    MADE(record_metadata_add(&value, &value.pieces[0], &pawl, &err));
    MADE(record_metadata_end(&pawl, &err));
    MADE(record_sharding_info_begin(&sharding, &err));
    MADE(record_sharding_info_add(&e, &piece, &sharding, &err));
    MADE(record_sharding_info_end(&sharding, &err));
    const safetensors_pair pairs[] = {{DATA_SUM_KEY, DATA_SUM_UNFINISHED},
                                      {"format", "pt"},
                                      {RECORD_METADATA_KEY, (const char *)pawl.data},
                                      {"DCP_SHARDING_INFO", (const char *)sharding.data}};
    safetensors_tensor tensors[] = {
        {.name = "m", .dtype = PAWL_F32, .ndim = 2, .shape = extent},
        {.name = "w", .dtype = PAWL_F32, .ndim = 2, .shape = extent},
        {.name = "note", .dtype = PAWL_U8, .ndim = 1, .shape = (const int64_t[]){3}},
        {.name = "w//1", .dtype = PAWL_F32, .ndim = 2, .shape = extent}};
    if (further) { /* descending alignment */
        safetensors_tensor last = tensors[2];
        tensors[2] = tensors[3];
        tensors[3] = last;
    }
    uint64_t bytes;
    MADE(safetensors_encode(tensors, further ? 4 : 3, pairs, 4, &file, &bytes, &err));
    size_t room = (size_t)bytes;
    MADE(buffer_reserve(&file, room - file.size, &err));
    memset(file.data + file.size, 7, room - file.size);
    file.size = fuzz_repair_safetensors(file.data, room, room);
    put("safetensors", name, &file);
}

static void data_files(void) {
    put_data_file("finished", false);
    put_data_file("further", true);
}

/* Two bytes with the length of the index, the index, a file. */
static void put_weights(const char *name, const char *index, const char *header, size_t n) {
    CLEANUP(buffer_free) buffer out = {.data = NULL};
    pawl_error err = ERROR_INIT;
    const uint8_t length[] = {(uint8_t)strlen(index), (uint8_t)(strlen(index) >> 8)};
    fuzz_append(&out, length, sizeof length);
    fuzz_append(&out, index, strlen(index));
    MADE(buffer_u64le(&out, strlen(header), &err));
    fuzz_append(&out, header, strlen(header));
    for (size_t i = 0; i < n; i++) {
        uint8_t byte = (uint8_t)(i * 37);
        fuzz_append(&out, &byte, 1);
    }
    put("weights", name, &out);
}

static void weights_of_others(void) {
    static const char index[] =
        "{\"metadata\":{\"total_size\":32},\"weight_map\":{\"a.x\":\"1.safetensors\","
        "\"a.y\":\"1.safetensors\",\"b\":\"2.safetensors\"}}";
    static const char header[] =
        "{\"__metadata__\":{\"format\":\"pt\"},\"a.x\":{\"dtype\":\"U8\",\"shape\":[5],"
        "\"data_offsets\":[0,5]},\"a.y\":{\"dtype\":\"F32\",\"shape\":[2,3],"
        "\"data_offsets\":[5,29]}}";
    put_text("shard_index", "three", index);
    put_text("shard_index", "metadata",
             "{\"metadata\": {\"total_size\": 1.5e3, \"a\": [null]},\n"
             " \"weight_map\": {\"w\": \"model.safetensors\"}}\n");
    put_text("shard_index", "torch",
             "{\"weight_map\": {\"a/b\": \"1.bin\", \"a.b\": \"2.bin\", \"..\": \"1.bin\"}}");
    put_weights("sharded", index, header, 29);
    put_weights("unaligned", "", header, 29);
    put_weights("types", "",
                "{\"c\":{\"dtype\":\"C128\",\"shape\":[2],\"data_offsets\":[0,32]},"
                "\"n\":{\"dtype\":\"F64\",\"shape\":[0],\"data_offsets\":[32,32]},"
                "\"p\":{\"dtype\":\"F4\",\"shape\":[3,2],\"data_offsets\":[32,35]}}  ",
                35);
}

static void lines_of_events(void) {
    CLEANUP(buffer_free) buffer line = {.data = NULL}, file = {.data = NULL};
    pawl_error err = ERROR_INIT;
    const pawl_save_stats stats = {.step = 100,
                                   .bytes = 4096,
                                   .total_s = 1.5,
                                   .io = "ring",
                                   .files = 2,
                                   .write_s = 1,
                                   .group_wait_s = 0.25};
    const event_fallback fallback = {.step = 200, .why = "its index is damaged"};
    const event_restore restore = {
        .counts = {.restored = 3}, .fallbacks = &fallback, .fallback_count = 1};
    pawl_event e = {.step = 100, .unix_time_ns = 1700000000000000000, .of_bytes = 4096};
    for (e.kind = PAWL_EVENT_SAVE_BEGUN; e.kind <= PAWL_EVENT_RESTORED; e.kind++) {
        char name[16];
        bool ended = e.kind == PAWL_EVENT_SAVE_ENDED, restored = e.kind == PAWL_EVENT_RESTORED;
        e.stats = ended ? &stats : NULL;
        e.seconds = ended ? 1.5 : 0;
        e.message = restored ? "of step 100" : NULL;
        e.done_bytes = ended ? 4096 : 0;
        MADE(event_encode(&e, restored ? &restore : NULL, &line, &err));
        fuzz_append(&file, line.data, line.size);
        fuzz_append(&file, "\n", 1);
        if (e.kind == PAWL_EVENT_SAVE_ENDED) {
            fuzz_append(&file, "\1", 1); /* fuzz_events: read on */
        }
        (void)snprintf(name, sizeof name, "%d", (int)e.kind);
        put("event", name, &line);
    }
    put("events", "appended", &file);
}

static void votes_of_ranks(void) {
    CLEANUP(buffer_free) buffer out = {.data = NULL}, record = {.data = NULL};
    pawl_error err = ERROR_INIT;
    vote_file files[] = {{"data-" TAG "-r00001-00000-of-00002.safetensors", 8192},
                         {"data-" TAG "-r00001-00001-of-00002.safetensors", 4096}};
    vote_copies copies[] = {{.replica_count = 0, .bytes = 64, .held_crc32c = 1, .sums_crc32c = 2},
                            {.replica_count = 2, .bytes = 32, .held_crc32c = 3, .sums_crc32c = 4}};
    vote head = {.step = 100,
                 .rank = 1,
                 .world_size = 4,
                 .tag = TAG,
                 .host = "node-7",
                 .pid = 4711,
                 .files = files,
                 .file_count = 2,
                 .structure_crc32c = 5,
                 .structure_bytes = 60,
                 .values_crc32c = 6,
                 .copies = copies,
                 .copies_count = 2};
    const vote failed = {.step = 100,
                         .rank = 1,
                         .world_size = 4,
                         .tag = TAG,
                         .host = "node-7",
                         .pid = 4711,
                         .failed = "story",
                         .failed_bytes = 5};
    const vote skipped = {
        .step = 100, .rank = 3, .world_size = 4, .tag = TAG, .host = "", .skipped = true};
    const vote *const heads[] = {&head, &failed, &skipped};
    static const char *const head_names[] = {"head", "failed", "skipped"};
    for (size_t i = 0; i < ARRAY_LENGTH(heads); i++) {
        MADE(vote_head_encode(heads[i], &record, &err));
        fuzz_append(&out, "\0", 1);
        fuzz_append(&out, record.data, record.size);
        put("vote", head_names[i], &out);
        record.size = 0;
    }
    for (int kind = PAWL_KIND_BOOL; kind <= PAWL_KIND_JSON; kind++) {
        char name[32];
        const vote_value value = vote_value_of((pawl_kind)kind, (const uint8_t *)"\1\0\0\0\0\0\0\0",
                                               kind == PAWL_KIND_BOOL ? 1 : 8);
        MADE(vote_value_encode(&value, &record, &err));
        fuzz_append(&out, "\1", 1);
        fuzz_append(&out, record.data, record.size);
        (void)snprintf(name, sizeof name, "value-%s", pawl_kind_name((pawl_kind)kind));
        put("vote", name, &out);
        record.size = 0;
    }
    int64_t numbers[] = {0, 1, 2, 3};
    const vote_replica replicas[] = {{.offset = numbers, .extent = numbers + 1, .crc32c = 1},
                                     {.offset = numbers + 2, .extent = numbers + 2, .crc32c = 2}};
    MADE(vote_replicas_encode(replicas, 2, 2, &record, &err));
    fuzz_append(&out, "\2", 1);
    fuzz_append(&out, record.data, record.size);
    put("vote", "replicas", &out);
}

/* ---- what ranks tell each other ------------------------------------------------------------- */

static pawl_error failure(void) {
    pawl_error story = ERROR_INIT;
    (void)error_set(&story, PAWL_ENOSPACE, "cannot write data");
    error_path(&story, "/runs/a/step-00000100/data");
    error_entry(&story, "model/w");
    error_expected(&story, "4096 bytes");
    error_found(&story, "512 bytes");
    error_safe(&story, "step 50 is intact");
    error_next(&story, "make room");
    error_step(&story, 100);
    error_range(&story, 0, 4096);
    return story;
}

static void put_kind(const char *what, const char *name, uint8_t kind, const buffer *bytes) {
    CLEANUP(buffer_free) buffer out = {.data = NULL};
    fuzz_append(&out, &kind, 1);
    fuzz_append(&out, bytes->data, bytes->size);
    put(what, name, &out);
}

/* A card, padded as it travels, and one without its padding. */
static void cards(void) {
    CLEANUP(buffer_free) buffer out = {.data = NULL};
    pawl_error err = ERROR_INIT, failed = failure();
    job_ranks ranks = {
        .rank = 2, .world_size = 4, .met = 3, .self = somebody(), .nonce = "01234567"};
    meeting m = {.what = "open run", .mine = "abc", .mine_bytes = 3};
    MADE(meet_envelope_make(&ranks, &m, &out, &err));
    put_kind("wire", "card-whole", 1, &out);
    while (out.size > 5 && out.data[out.size - 5] == 0) {
        out.size--;
    }
    out.size = fuzz_repair_tail(out.data, out.size, out.size);
    put_kind("wire", "card", 1, &out);
    out.size = 0;
    m.status = PAWL_ENOSPACE;
    m.failed = &failed;
    MADE(meet_envelope_make(&ranks, &m, &out, &err));
    while (out.size > 5 && out.data[out.size - 5] == 0) {
        out.size--;
    }
    out.size = fuzz_repair_tail(out.data, out.size, out.size);
    put_kind("wire", "card-failed", 1, &out);
}

static void failures(void) {
    CLEANUP(buffer_free) buffer out = {.data = NULL}, file = {.data = NULL};
    pawl_error err = ERROR_INIT, story = failure();
    MADE(failure_encode(&story, SIZE_MAX, &out, &err));
    put_kind("wire", "failure", 0, &out);
    save_outcome o = {
        .end = SAVE_END_FAILED, .step = 100, .story = out.data, .story_bytes = out.size};
    MADE(outcome_encode(&o, &file, &err));
    put("outcome", "failed", &file);
    o.end = SAVE_END_UNKNOWN;
    MADE(outcome_encode(&o, &file, &err));
    put("outcome", "unknown", &file);
    o = (save_outcome){.end = SAVE_END_COMMITTED, .step = 100, .story = (const uint8_t *)""};
    MADE(outcome_encode(&o, &file, &err));
    put("outcome", "committed", &file);
    const meet_reply r = {.number = 3,
                          .who = somebody(),
                          .body = (const uint8_t *)"answer",
                          .body_bytes = 6,
                          .nonces = (const uint8_t *)"0123456789abcdef",
                          .nonce_count = 2};
    out.size = 0;
    MADE(meet_reply_encode(&r, &out, &err));
    put_kind("wire", "reply", 2, &out);
    const join_answer answer = {.attempt = ATTEMPT,
                                .generation = 4,
                                .newest_step = 100,
                                .lease_s = 30,
                                .root = "/runs/a",
                                .given = "a",
                                .cwd = "/runs"};
    out.size = 0;
    MADE(join_answer_encode(&answer, &out, &err));
    put_kind("wire", "join-answer", 3, &out);
    const join_card card = {.sight = JOIN_OTHER, .root = "/runs/a", .given = "a", .cwd = "/runs"};
    out.size = 0;
    MADE(join_card_encode(&card, &out, &err));
    put_kind("wire", "join-card", 4, &out);
}

static void sights_of_ranks(void) {
    CLEANUP(buffer_free) buffer out = {.data = NULL}, card = {.data = NULL};
    pawl_error err = ERROR_INIT;
    const sight s = {.host = "node-7",
                     .pid = 4711,
                     .given = "a",
                     .here = "/runs",
                     .place = "/runs/a",
                     .nearest = "/runs",
                     .filesystem = "nfs4",
                     .point = "/runs",
                     .source = "server:/runs",
                     .saw = true,
                     .trouble_id = "P05",
                     .trouble = "there is no such directory"};
    MADE(sight_encode(&s, &out, &err));
    fuzz_append(&card, "cfedcba9876543210", 17);
    fuzz_append(&card, out.data, out.size);
    put("token", "card", &card);
    put("sight", "absent", &out);
    put_text("token", "token", "t0123456789abcdef");
}

static void templates(void) {
    put_text("template", "by-name",
             "{\"a/w\": {\"shape\": [64, 10], \"dtype\": \"F32\"}, \"a/m\": {\"shape\": [64], "
             "\"dtype\": \"bfloat16\", \"slot_of\": \"a/w\", \"slot\": \"adam/m\"}, \"step\": "
             "{\"kind\": \"int64\", \"role\": \"step\", \"value\": 7}}");
    put_text("template", "list",
             "{\"run\": \"a\", \"entries\": [{\"name\": \"w\", \"kind\": \"tensor\", \"dtype\": "
             "\"F64\", \"shape\": [], \"slot_of\": null}, {\"name\": \"c\", \"kind\": \"json\", "
             "\"value\": {\"x\": [1, \"y\"]}}, {\"name\": \"r\", \"kind\": \"bytes\", "
             "\"per_rank\": true}]}");
    put_text("template", "values",
             "[{\"name\": \"b\", \"kind\": \"bool\", \"value\": true}, {\"name\": \"f\", \"kind\": "
             "\"float64\", \"value\": 1e-3}, {\"name\": \"s\", \"kind\": \"string\", \"value\": "
             "\"\\u00e9\"}]");
}

/* How many bytes, then an answer: u64le end; distance, entries, error, two texts. */
static void answers(void) {
    CLEANUP(buffer_free) buffer out = {.data = NULL};
    static const uint8_t first[] = {18, 100, 0, 0,   0, 0,   0, 0,  0, 5,
                                    10, 2,   1, 'a', 1, 'b', 0, 20, 1};
    static const uint8_t all[] = {0, 0, 12, 0x2c, 1, 0, 0, 0, 0, 0, 0, 0, 100, 1, 0, 0};
    fuzz_append(&out, first, sizeof first);
    fuzz_append(&out, all, 2);
    fuzz_append(&out, all + 2, sizeof all - 2);
    put("wants", "two", &out);
    static const uint8_t whole[] = {13, 0x2c, 1, 0, 0, 0, 0, 0, 0, 0, 50, 1, 0, 0};
    fuzz_append(&out, whole, sizeof whole);
    put("wants", "one", &out);
}

/* ---- what lies in a run's directory --------------------------------------------------------- */

/* The record that a store has after it was written. */
static void owners(void) {
    CLEANUP(buffer_free) buffer out = {.data = NULL};
    pawl_error err = ERROR_INIT;
    store *s = NULL;
    store_file *file = NULL;
    MADE(store_mem(&s, &err));
    owner o = {.store = s,
               .lease_s = 30,
               .self = somebody(),
               .attempt = ATTEMPT,
               .generation = 1,
               .counter = 17};
    MADE(store_open(s, "owner-00000001", STORE_CREATE, &file, &err));
    MADE(owner_write(&o, file, &err));
    store_close(file);
    MADE(store_read_file(s, "owner-00000001", 65536, &out, &err));
    put("owner", "owner", &out);
    MADE(owner_write_counter(&o, OWNER_GIVEN_UP, &err));
    MADE(store_read_file(s, "owner-00000001", 65536, &out, &err));
    put("owner", "given-up", &out);
    store_destroy(s);
    const reader_record mark = {.counter = 3, .who = somebody()};
    MADE(reader_record_encode(&mark, &out, &err));
    put("reader", "mark", &out);
}

static void structures(void) {
    CLEANUP(buffer_free) buffer out = {.data = NULL};
    static const char first[] = "lr\tfloat64 that all ranks share (hyperparameter)\n"
                                "model/b\treplicated tensor [10] F32\n";
    static const char second[] = "model/b\treplicated tensor [12] F32\n"
                                 "model/c\treplicated tensor [10] F32\n";
    const uint8_t n[] = {sizeof first - 1, 0};
    fuzz_append(&out, n, sizeof n);
    fuzz_append(&out, first, sizeof first - 1);
    fuzz_append(&out, second, sizeof second - 1);
    put("structure", "two", &out);
}

static void names(void) {
    char name[80];
    name_step(name, 100);
    put_text("names", "step", name);
    name_data(name, TAG, -1, 0, 2);
    put_text("names", "data", name);
    name_data(name, TAG, 3, 1, 2);
    put_text("names", "data-rank", name);
    name_vote(name, TAG, 3);
    put_text("names", "vote", name);
    name_index(name, TAG);
    put_text("names", "index", name);
    name_manifest_tmp(name, TAG);
    put_text("names", "manifest-tmp", name);
    name_outcome(name, TAG);
    put_text("names", "outcome", name);
    name_structure(name, ATTEMPT, 0x12345678, 99);
    put_text("names", "structure", name);
    name_meet(name, ATTEMPT, 4, 2);
    put_text("names", "meet", name);
    name_meet(name, ATTEMPT, 4, -1);
    put_text("names", "meet-answer", name);
    name_owner(name, 12);
    put_text("names", "owner", name);
    put_text("names", "manifest", NAME_MANIFEST);
    put_text("names", "probe", ".pawl-probe-0123456789abcdef");
    put_text("names", "doctor", ".pawl-doctor-0123456789ab-r3");
    put_text("names", "reader", "reader-0123456789ab");
    put_text("names", "dtype", pawl_dtype_name(PAWL_F8_E4M3FNUZ));
    put_text("names", "role", pawl_role_name(PAWL_ROLE_SLOT));
    put_text("names", "kind", pawl_kind_name(PAWL_KIND_JSON));
}

int main(int count, char **arguments) {
    checking = count == 3 && strcmp(arguments[1], "--check") == 0;
    if (count != 2 && !checking) {
        (void)fprintf(stderr, "usage: %s [--check] CORPUS\n", arguments[0]);
        return 2;
    }
    corpus = arguments[count - 1];
    records();
    manifests();
    tables();
    data_files();
    weights_of_others();
    lines_of_events();
    votes_of_ranks();
    cards();
    failures();
    sights_of_ranks();
    templates();
    answers();
    owners();
    structures();
    names();
    if (differing > 0) {
        (void)fprintf(stderr, "make them anew with: %s %s\n", arguments[0], corpus);
    }
    return differing > 0;
}
