/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vote: encodes and decodes the records that only a vote has. All numbers but checksums are
 * varints.
 *
 * The head, 'v':
 *
 *   version | flags | step | rank | world_size | n, n bytes: tag | n, n bytes: host | pid
 *   flag FAILED: n, n bytes: story
 *   neither flag: file_count | bytes of each file
 *                 u32 structure_crc32c | structure_bytes | u32 values_crc32c
 *                 n, and of each replica_count: replica_count | bytes | u32 held_crc32c
 *                 u32 sums_crc32c
 *
 * A shared value, 'w': kind | bytes | u32 crc32c | its first bytes, as many as are left
 *
 * Replicas, 'r': ndim | count, and each: offset[ndim] | extent[ndim] | u32 crc32c
 */
#include "format/vote.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FLAG_SKIPPED      1u
#define FLAG_FAILED       2u
#define MIN_REPLICA_BYTES 4u  /* a scalar: its checksum */
#define MIN_COPIES_BYTES  10u /* two numbers, two checksums */

pawl_status vote_key(buffer *key, char letter, const char *name, pawl_error *err) {
    key->size = 0;
    TRY(buffer_append(key, &letter, 1, err));
    return buffer_append(key, name, strlen(name), err);
}

/* ---- the head: encode ----------------------------------------------------------------------- */

static void vote_file_name(const vote *v, size_t i, char out[80]) {
    name_data(out, v->tag, v->world_size > 1 ? v->rank : -1, (uint32_t)i, (uint32_t)v->file_count);
}

static pawl_status check_vote_files(const vote *v, pawl_error *err) {
    if (v->file_count > FORMAT_MAX_FILES) {
        return error_set(err, PAWL_ELIMIT, "a vote has too many data files");
    }
    for (size_t i = 0; i < v->file_count; i++) {
        char name[80];
        vote_file_name(v, i, name);
        if (strcmp(name, v->files[i].name) != 0) {
            return error_set(err, PAWL_EINTERNAL, "a data file is called %s instead of %s",
                             v->files[i].name, name);
        }
        if (v->files[i].bytes > INT64_MAX) {
            return error_set(err, PAWL_EINTERNAL, "a data file has more than 2^63 - 1 bytes");
        }
    }
    return v->structure_bytes <= INT64_MAX
               ? PAWL_OK
               : error_set(err, PAWL_EINTERNAL, "a structure has more than 2^63 - 1 bytes");
}

/* A tag is what can be part of a file's name. */
static bool tag_valid(const char *tag, size_t n) {
    char name[80];
    char found[FORMAT_TAG_CHARS];
    if (n >= FORMAT_TAG_CHARS || strlen(tag) != n) {
        return false;
    }
    name_index(name, tag);
    return name_classify(name, found) == NAME_KIND_INDEX && strcmp(found, tag) == 0;
}

static bool host_valid(const char *host, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if ((unsigned char)host[i] < ' ' || host[i] == 0x7f) {
            return false;
        }
    }
    return utf8_valid(host, n);
}

/* Refuses what no decoder would accept. */
static pawl_status check_who(const vote *v, pawl_error *err) {
    if (v->step < 0 || v->pid < 0 || v->rank < 0 || v->rank >= v->world_size ||
        v->world_size > PAWL_MAX_RANKS) {
        return error_set(err, PAWL_EINTERNAL,
                         "no vote is of step %" PRId64 ", rank %d of %d, pid %" PRId64, v->step,
                         v->rank, v->world_size, v->pid);
    }
    size_t host_bytes = strnlen(v->host, VOTE_MAX_HOST + 1);
    if (host_bytes > VOTE_MAX_HOST || !host_valid(v->host, host_bytes)) {
        return error_set(err, PAWL_EINTERNAL, "a vote cannot have this name of a host");
    }
    if (!tag_valid(v->tag, strnlen(v->tag, FORMAT_TAG_CHARS))) {
        return error_set(err, PAWL_EINTERNAL, "a vote cannot have this tag of a save");
    }
    if (v->failed != NULL && (v->skipped || v->failed_bytes > VOTE_MAX_STORY)) {
        return error_set(err, PAWL_EINTERNAL, "a vote cannot have failed like this");
    }
    return PAWL_OK;
}

static pawl_status put_copies(const vote *v, buffer *out, pawl_error *err) {
    TRY(buffer_varint(out, v->copies_count, err));
    for (size_t i = 0; i < v->copies_count; i++) {
        TRY(buffer_varint(out, (uint64_t)v->copies[i].replica_count, err));
        TRY(buffer_varint(out, v->copies[i].bytes, err));
        TRY(buffer_u32le(out, v->copies[i].held_crc32c, err));
        TRY(buffer_u32le(out, v->copies[i].sums_crc32c, err));
    }
    return PAWL_OK;
}

static pawl_status put_part(const vote *v, buffer *out, pawl_error *err) {
    TRY(buffer_varint(out, v->file_count, err));
    for (size_t i = 0; i < v->file_count; i++) {
        TRY(buffer_varint(out, v->files[i].bytes, err));
    }
    TRY(buffer_u32le(out, v->structure_crc32c, err));
    TRY(buffer_varint(out, v->structure_bytes, err));
    TRY(buffer_u32le(out, v->values_crc32c, err));
    return put_copies(v, out, err);
}

pawl_status vote_head_encode(const vote *v, buffer *out, pawl_error *err) {
    unsigned flags = (v->skipped ? FLAG_SKIPPED : 0) | (v->failed != NULL ? FLAG_FAILED : 0);
    TRY(check_who(v, err));
    TRY(check_vote_files(v, err));
    out->size = 0;
    TRY(buffer_varint(out, VOTE_VERSION, err));
    TRY(buffer_varint(out, flags, err));
    TRY(buffer_varint(out, (uint64_t)v->step, err));
    TRY(buffer_varint(out, (uint64_t)v->rank, err));
    TRY(buffer_varint(out, (uint64_t)v->world_size, err));
    TRY(buffer_varint_bytes(out, v->tag, strlen(v->tag), err));
    TRY(buffer_varint_bytes(out, v->host, strlen(v->host), err));
    TRY(buffer_varint(out, (uint64_t)v->pid, err));
    if (v->failed != NULL) {
        return buffer_varint_bytes(out, v->failed, v->failed_bytes, err);
    }
    return v->skipped ? PAWL_OK : put_part(v, out, err);
}

/* ---- decode --------------------------------------------------------------------------------- */

typedef struct decoder {
    cursor c;
    arena *memory;
} decoder;

static pawl_status refuse_vote(const decoder *d, pawl_status status, pawl_error *err,
                               const char *what) {
    error_set(err, status, "the %s is wrong at byte %zu: %s", d->c.what, d->c.at, what);
    return status;
}

static pawl_status get_number(decoder *d, uint64_t most, uint64_t *out, pawl_error *err) {
    TRY(cursor_varint64(&d->c, out, err));
    return *out <= most ? PAWL_OK : refuse_vote(d, PAWL_EDAMAGED, err, "a number is too large");
}

/* Followed by a NUL that is not counted. */
static pawl_status get_bytes(decoder *d, uint64_t most, const char **out, size_t *bytes,
                             pawl_error *err) {
    uint64_t n = 0;
    const uint8_t *from;
    TRY(get_number(d, most, &n, err));
    TRY(cursor_bytes(&d->c, (size_t)n, &from, err));
    char *copy = arena_take(d->memory, (size_t)n + 1, err);
    if (copy == NULL) {
        return PAWL_ENOMEM;
    }
    memcpy(copy, from, (size_t)n);
    copy[n] = '\0';
    *out = copy;
    *bytes = (size_t)n;
    return PAWL_OK;
}

static pawl_status at_end(const decoder *d, pawl_error *err) {
    return cursor_left(&d->c) == 0 ? PAWL_OK
                                   : refuse_vote(d, PAWL_EDAMAGED, err, "bytes are left over");
}

static pawl_status decode_vote_version(decoder *d, pawl_error *err) {
    uint64_t version = 0;
    TRY(cursor_varint64(&d->c, &version, err));
    if (version == VOTE_VERSION) {
        return PAWL_OK;
    }
    pawl_status status = version > VOTE_VERSION
                             ? refuse_vote(d, PAWL_EUNSUPPORTED, err, "written by a newer version")
                             : refuse_vote(d, PAWL_EDAMAGED, err, "no such version");
    error_expected(err, "version %d of the vote", VOTE_VERSION);
    error_found(err, "version %" PRIu64, version);
    error_next(err, "use the same pawl on all ranks");
    return status;
}

static pawl_status decode_who(decoder *d, vote *out, pawl_error *err) {
    uint64_t step = 0, rank = 0, world_size = 0, pid = 0;
    size_t n;
    TRY(get_number(d, INT64_MAX, &step, err));
    TRY(get_number(d, PAWL_MAX_RANKS - 1, &rank, err));
    TRY(get_number(d, PAWL_MAX_RANKS, &world_size, err));
    if (rank >= world_size) {
        return refuse_vote(d, PAWL_EDAMAGED, err, "there is no such rank");
    }
    TRY(get_bytes(d, FORMAT_TAG_CHARS, &out->tag, &n, err));
    if (!tag_valid(out->tag, n)) {
        return refuse_vote(d, PAWL_EDAMAGED, err, "that is no tag of a save");
    }
    TRY(get_bytes(d, VOTE_MAX_HOST, &out->host, &n, err));
    if (!host_valid(out->host, n)) {
        return refuse_vote(d, PAWL_EDAMAGED, err, "that is no name of a host");
    }
    TRY(get_number(d, INT64_MAX, &pid, err));
    out->step = (int64_t)step;
    out->rank = (int)rank;
    out->world_size = (int)world_size;
    out->pid = (int64_t)pid;
    return PAWL_OK;
}

static pawl_status decode_vote_files(decoder *d, vote *out, pawl_error *err) {
    uint64_t count = 0;
    TRY(get_number(d, FORMAT_MAX_FILES, &count, err));
    if (count > cursor_left(&d->c)) {
        return refuse_vote(d, PAWL_EDAMAGED, err, "more files than there are bytes for");
    }
    out->files = arena_take(d->memory, (size_t)count * sizeof *out->files, err);
    if (out->files == NULL) {
        return PAWL_ENOMEM;
    }
    out->file_count = (size_t)count;
    for (size_t i = 0; i < out->file_count; i++) {
        char name[80];
        vote_file_name(out, i, name);
        out->files[i] = (vote_file){.name = arena_strdup(d->memory, name)};
        if (out->files[i].name == NULL) {
            return error_nomem(err, sizeof name);
        }
        TRY(get_number(d, INT64_MAX, &out->files[i].bytes, err));
    }
    return PAWL_OK;
}

static pawl_status decode_copies(decoder *d, vote *out, pawl_error *err) {
    uint64_t count = 0;
    int before = -1;
    TRY(get_number(d, PAWL_MAX_RANKS + 1, &count, err));
    if (count > cursor_left(&d->c) / MIN_COPIES_BYTES) {
        return refuse_vote(d, PAWL_EDAMAGED, err,
                           "more kinds of replicas than there are bytes for");
    }
    out->copies = arena_take(d->memory, (size_t)count * sizeof *out->copies, err);
    if (out->copies == NULL) {
        return PAWL_ENOMEM;
    }
    out->copies_count = (size_t)count;
    for (size_t i = 0; i < out->copies_count; i++) {
        vote_copies *c = &out->copies[i];
        uint64_t replica_count = 0;
        TRY(get_number(d, PAWL_MAX_RANKS, &replica_count, err));
        TRY(get_number(d, INT64_MAX, &c->bytes, err));
        TRY(cursor_u32le(&d->c, &c->held_crc32c, err));
        TRY(cursor_u32le(&d->c, &c->sums_crc32c, err));
        c->replica_count = (int)replica_count;
        if (c->replica_count <= before) {
            return refuse_vote(d, PAWL_EDAMAGED, err, "kinds of replicas are out of order");
        }
        before = c->replica_count;
    }
    return PAWL_OK;
}

static pawl_status decode_durable_part(decoder *d, vote *out, pawl_error *err) {
    TRY(decode_vote_files(d, out, err));
    TRY(cursor_u32le(&d->c, &out->structure_crc32c, err));
    TRY(get_number(d, INT64_MAX, &out->structure_bytes, err));
    TRY(cursor_u32le(&d->c, &out->values_crc32c, err));
    return decode_copies(d, out, err);
}

pawl_status vote_head_decode(const uint8_t *bytes, size_t n, arena *memory, vote *out,
                             pawl_error *err) {
    decoder d = {.c = cursor_of(bytes, n, 0, "head of a vote"), .memory = memory};
    uint64_t flags = 0;
    *out = (vote){.step = -1};
    if (n > VOTE_MAX_HEAD) {
        return refuse_vote(&d, PAWL_ELIMIT, err, "it is too long");
    }
    TRY(decode_vote_version(&d, err));
    TRY(get_number(&d, UINT64_MAX, &flags, err));
    if (flags > FLAG_FAILED) {
        return refuse_vote(&d, PAWL_EDAMAGED, err, "unknown flags");
    }
    TRY(decode_who(&d, out, err));
    out->skipped = flags == FLAG_SKIPPED;
    if (flags == FLAG_FAILED) {
        TRY(get_bytes(&d, VOTE_MAX_STORY, &out->failed, &out->failed_bytes, err));
    } else if (!out->skipped) {
        TRY(decode_durable_part(&d, out, err));
    }
    return at_end(&d, err);
}

/* ---- shared values -------------------------------------------------------------------------- */

static bool value_fits(uint64_t kind, uint64_t bytes) {
    if (kind < PAWL_KIND_BOOL || kind > PAWL_KIND_JSON) {
        return false;
    }
    bool any_size = kind != PAWL_KIND_BOOL && kind != PAWL_KIND_INT64 && kind != PAWL_KIND_FLOAT64;
    return any_size ? bytes <= (uint64_t)PAWL_MAX_VALUE_BYTES
                    : bytes == (kind == PAWL_KIND_BOOL ? 1U : 8U);
}

static size_t shown_of(uint64_t bytes) {
    return bytes < VOTE_SHOWN_BYTES ? (size_t)bytes : VOTE_SHOWN_BYTES;
}

vote_value vote_value_of(pawl_kind kind, const uint8_t *bytes, size_t n) {
    vote_value value = {.kind = kind, .crc32c = crc32c(0, bytes, n), .bytes = n};
    value.shown_bytes = shown_of(n);
    memcpy(value.shown, bytes, value.shown_bytes);
    return value;
}

pawl_status vote_value_encode(const vote_value *value, buffer *out, pawl_error *err) {
    if (!value_fits(value->kind, value->bytes) || value->shown_bytes != shown_of(value->bytes)) {
        return error_set(err, PAWL_EINTERNAL,
                         "no value in a vote is of kind %d with %" PRIu64 " bytes",
                         (int)value->kind, value->bytes);
    }
    out->size = 0;
    TRY(buffer_varint(out, (uint64_t)value->kind, err));
    TRY(buffer_varint(out, value->bytes, err));
    TRY(buffer_u32le(out, value->crc32c, err));
    return buffer_append(out, value->shown, value->shown_bytes, err);
}

pawl_status vote_value_decode(const uint8_t *bytes, size_t n, vote_value *out, pawl_error *err) {
    decoder d = {.c = cursor_of(bytes, n, 0, "record of a value in a vote")};
    uint64_t kind = 0;
    const uint8_t *shown;
    *out = (vote_value){.kind = PAWL_KIND_BYTES};
    TRY(get_number(&d, PAWL_KIND_JSON, &kind, err));
    TRY(get_number(&d, (uint64_t)PAWL_MAX_VALUE_BYTES, &out->bytes, err));
    if (!value_fits(kind, out->bytes)) {
        return refuse_vote(&d, PAWL_EDAMAGED, err, "no value has that kind and size");
    }
    TRY(cursor_u32le(&d.c, &out->crc32c, err));
    out->kind = (pawl_kind)kind;
    out->shown_bytes = shown_of(out->bytes);
    TRY(cursor_bytes(&d.c, out->shown_bytes, &shown, err));
    memcpy(out->shown, shown, out->shown_bytes);
    return at_end(&d, err);
}

/* Without control characters, cut between two characters; a string in quotes. */
static void text_of_string(char out[160], const vote_value *value) {
    bool quoted = value->kind == PAWL_KIND_STRING;
    size_t at = (size_t)snprintf(out, 160, quoted ? "\"" : "");
    size_t taken;
    for (size_t i = 0; i < value->shown_bytes && at < 140; i += taken) {
        const char *from = (const char *)value->shown + i;
        if (!quoted && *from == '"') {
            out[at++] = '"';
            taken = 1;
            continue;
        }
        at += json_character(out + at, from, value->shown_bytes - i, &taken);
    }
    (void)snprintf(out + at, 160 - at, "%s%s", value->bytes > value->shown_bytes ? "..." : "",
                   quoted ? "\"" : "");
}

static void text_of_bytes(char out[160], const vote_value *value) {
    int n = snprintf(out, 160, "%" PRIu64 " byte%s", value->bytes, value->bytes == 1 ? "" : "s");
    size_t at = (size_t)n;
    for (size_t i = 0; i < value->shown_bytes && i < 16; i++) {
        at += (size_t)snprintf(out + at, 160 - at, i == 0 ? " %02x" : "%02x", value->shown[i]);
    }
    (void)snprintf(out + at, 160 - at, value->bytes > 16 ? "..." : "");
}

const char *vote_value_text(char out[160], const vote_value *value) {
    int64_t integer;
    double number;
    char digits[DOUBLE_CHARS];
    switch (value->kind) {
    case PAWL_KIND_BOOL:
        (void)snprintf(out, 160, "%s", value->shown[0] != 0 ? "true" : "false");
        break;
    case PAWL_KIND_INT64:
        memcpy(&integer, value->shown, sizeof integer);
        (void)snprintf(out, 160, "%" PRId64, integer);
        break;
    case PAWL_KIND_FLOAT64:
        memcpy(&number, value->shown, sizeof number);
        (void)snprintf(out, 160, "%s", text_double(digits, number));
        break;
    case PAWL_KIND_STRING:
    case PAWL_KIND_JSON:
        text_of_string(out, value);
        break;
    case PAWL_KIND_TENSOR:
    case PAWL_KIND_BYTES:
        text_of_bytes(out, value);
        break;
    }
    return out;
}

/* ---- replicas ------------------------------------------------------------------------------- */

static pawl_status put_replica_numbers(buffer *out, int n, const int64_t *numbers,
                                       pawl_error *err) {
    for (int i = 0; i < n; i++) {
        if (numbers[i] < 0) {
            return error_set(err, PAWL_EINTERNAL, "a replica begins or ends before its tensor");
        }
        TRY(buffer_varint(out, (uint64_t)numbers[i], err));
    }
    return PAWL_OK;
}

pawl_status vote_replicas_encode(const vote_replica *replicas, size_t count, int ndim, buffer *out,
                                 pawl_error *err) {
    if (ndim < 0 || ndim > PAWL_MAX_NDIM || count > PAWL_MAX_BOXES) {
        return error_set(err, PAWL_EINTERNAL, "no tensor has %zu replicas of %d dimensions", count,
                         ndim);
    }
    out->size = 0;
    TRY(buffer_varint(out, (uint64_t)ndim, err));
    TRY(buffer_varint(out, count, err));
    for (size_t i = 0; i < count; i++) {
        TRY(put_replica_numbers(out, ndim, replicas[i].offset, err));
        TRY(put_replica_numbers(out, ndim, replicas[i].extent, err));
        TRY(buffer_u32le(out, replicas[i].crc32c, err));
    }
    return PAWL_OK;
}

static pawl_status get_replica_numbers(decoder *d, uint64_t n, int64_t **out, pawl_error *err) {
    int64_t *numbers = arena_take(d->memory, (size_t)n * sizeof *numbers, err);
    if (numbers == NULL) {
        return PAWL_ENOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t number = 0;
        TRY(get_number(d, INT64_MAX, &number, err));
        numbers[i] = (int64_t)number;
    }
    *out = numbers;
    return PAWL_OK;
}

pawl_status vote_replicas_decode(const uint8_t *bytes, size_t n, arena *memory,
                                 vote_replica **replicas, size_t *count, int *ndim,
                                 pawl_error *err) {
    decoder d = {.c = cursor_of(bytes, n, 0, "record of replicas in a vote"), .memory = memory};
    uint64_t dimensions = 0, all = 0;
    TRY(get_number(&d, PAWL_MAX_NDIM, &dimensions, err));
    TRY(get_number(&d, PAWL_MAX_BOXES, &all, err));
    if (all > cursor_left(&d.c) / MIN_REPLICA_BYTES) {
        return refuse_vote(&d, PAWL_EDAMAGED, err, "more replicas than there are bytes for");
    }
    vote_replica *out = arena_take(d.memory, (size_t)all * sizeof *out, err);
    if (out == NULL) {
        return PAWL_ENOMEM;
    }
    for (size_t i = 0; i < all; i++) {
        TRY(get_replica_numbers(&d, dimensions, &out[i].offset, err));
        TRY(get_replica_numbers(&d, dimensions, &out[i].extent, err));
        TRY(cursor_u32le(&d.c, &out[i].crc32c, err));
    }
    *replicas = out;
    *count = (size_t)all;
    *ndim = (int)dimensions;
    return at_end(&d, err);
}
