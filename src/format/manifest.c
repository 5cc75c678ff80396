/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manifest: encodes and decodes the commit record of a checkpoint. JSON for people, written in one
 * fixed order; its last line but one is the checksum of every byte before that line:
 *
 *   ...
 *     "crc32c": "xxxxxxxx"
 *   }
 */
#include "format/manifest.h"
#include "base/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAIL_BEFORE   "  \"crc32c\": \""
#define TAIL_AFTER    "\"\n}\n"
#define CRC_CHARS     8u
#define TAIL_BYTES    (sizeof TAIL_BEFORE - 1 + CRC_CHARS + sizeof TAIL_AFTER - 1)
#define FORMAT_MEMBER "pawl checkpoint"

/* ---- encode --------------------------------------------------------------------------------- */

/* A text as a JSON string, if it is not too long to be read back. */
static pawl_status put_string(buffer *out, const char *what, const char *text, pawl_error *err) {
    size_t n = strlen(text);
    if (n > FORMAT_MAX_TEXT) {
        error_set(err, PAWL_ELIMIT, "the text of \"%s\" is too long", what);
        error_expected(err, "at most %zu bytes", FORMAT_MAX_TEXT);
        error_found(err, "%zu bytes", n);
        return PAWL_ELIMIT;
    }
    pawl_status status = buffer_json_string(out, text, n, err);
    if (status != PAWL_OK) {
        error_wrap(err, "\"%s\"", what);
    }
    return status;
}

/* `  "key": "text",` or null. */
static pawl_status put_text_or_null(buffer *out, const char *key, const char *text,
                                    pawl_error *err) {
    TRY(buffer_printf(out, err, "  \"%s\": ", key));
    if (text == NULL) {
        return buffer_append(out, "null,\n", 6, err);
    }
    TRY(put_string(out, key, text, err));
    return buffer_append(out, ",\n", 2, err);
}

static pawl_status put_files(const manifest *m, buffer *out, pawl_error *err) {
    TRY(buffer_printf(out, err, "  \"files\": ["));
    for (size_t i = 0; i < m->file_count; i++) {
        const manifest_file *file = &m->files[i];
        TRY(buffer_printf(out, err, i > 0 ? ",\n    {\"name\": " : "\n    {\"name\": "));
        TRY(put_string(out, "files", file->name, err));
        TRY(buffer_printf(out, err, ", \"bytes\": %" PRIu64 ", \"rank\": %d}", file->bytes,
                          file->rank));
    }
    return buffer_printf(out, err, m->file_count > 0 ? "\n  ],\n" : "],\n");
}

static pawl_status put_index(const manifest *m, buffer *out, pawl_error *err) {
    TRY(buffer_printf(out, err, "  \"index\": {\"name\": "));
    TRY(put_string(out, "index", m->index_name, err));
    return buffer_printf(out, err,
                         ", \"bytes\": %" PRIu64 ", \"crc32c\": \"%08" PRIx32
                         "\", \"footer_crc32c\": \"%08" PRIx32 "\"},\n",
                         m->index.bytes, m->index.crc32c, m->index.footer_crc32c);
}

/* JSON that the caller made, without the white space around it; `depth` objects are open. */
static pawl_status put_json(buffer *out, const char *name, const char *json, int depth,
                            pawl_error *err) {
    json_span value = {NULL, 0};
    json_reader r = json_reader_for(json, strlen(json), 0, "value", err);
    r.depth = depth;
    pawl_status status = json_skip(&r, &value);
    status = status == PAWL_OK ? json_end(&r) : status;
    if (status != PAWL_OK) {
        error_wrap(err, "%s cannot be written as JSON", name);
        err->status = status == PAWL_ELIMIT ? status : PAWL_EUSAGE;
        return err->status;
    }
    if (value.n > FORMAT_MAX_VALUE_JSON) {
        error_set(err, PAWL_ELIMIT, "the value of %s is too long", name);
        error_expected(err, "at most %u bytes of JSON", FORMAT_MAX_VALUE_JSON);
        error_found(err, "%zu bytes", value.n);
        return PAWL_ELIMIT;
    }
    return buffer_append(out, value.text, value.n, err);
}

static pawl_status too_many(const char *what, size_t limit, pawl_error *err) {
    error_set(err, PAWL_ELIMIT, "there are too many %s in a manifest", what);
    error_expected(err, "at most %zu", limit);
    return PAWL_ELIMIT;
}

/* How many objects are open around a value: the manifest, and for most that of the list. */
#define VALUE_DEPTH     2
#define SIGNATURE_DEPTH 1

static pawl_status put_value_list(buffer *out, const char *key, const manifest_value *values,
                                  size_t count, size_t limit, pawl_error *err) {
    if (count > limit) {
        TRY(too_many(key, limit, err));
    }
    TRY(buffer_printf(out, err, "  \"%s\": {", key));
    for (size_t i = 0; i < count; i++) {
        TRY(buffer_printf(out, err, i > 0 ? ",\n    " : "\n    "));
        TRY(buffer_json_string(out, values[i].name, strlen(values[i].name), err));
        TRY(buffer_append(out, ": ", 2, err));
        TRY(put_json(out, values[i].name, values[i].json, VALUE_DEPTH, err));
    }
    return buffer_printf(out, err, count > 0 ? "\n  },\n" : "},\n");
}

static pawl_status put_signature(const manifest *m, buffer *out, pawl_error *err) {
    const char *json = m->batch_signature != NULL ? m->batch_signature : "null";
    TRY(buffer_printf(out, err, "  \"batch_signature\": "));
    TRY(put_json(out, "the batch signature", json, SIGNATURE_DEPTH, err));
    return buffer_append(out, ",\n", 2, err);
}

static pawl_status put_body(const manifest *m, buffer *out, pawl_error *err) {
    TRY(buffer_printf(out, err, "{\n  \"format\": \"" FORMAT_MEMBER "\",\n"));
    TRY(buffer_printf(out, err, "  \"format_version\": %d,\n", FORMAT_VERSION));
    TRY(buffer_printf(out, err, "  \"step\": %" PRId64 ",\n", m->step));
    TRY(buffer_printf(out, err, "  \"unix_time_ns\": %" PRId64 ",\n", m->unix_time_ns));
    TRY(buffer_printf(out, err, "  \"world_size\": %d,\n", m->world_size));
    TRY(put_text_or_null(out, "attempt", m->attempt, err));
    TRY(put_text_or_null(out, "framework", m->framework, err));
    TRY(put_text_or_null(out, "writer", m->writer, err));
    TRY(buffer_printf(out, err, "  \"entries\": %" PRIu64 ",\n", m->entries));
    TRY(put_files(m, out, err));
    TRY(put_index(m, out, err));
    TRY(put_value_list(out, "hyperparameters", m->hyperparameters, m->hyperparameter_count,
                       FORMAT_MAX_HYPERPARAMETERS, err));
    TRY(put_value_list(out, "metrics", m->metrics, m->metric_count, FORMAT_MAX_METRICS, err));
    return put_signature(m, out, err);
}

static pawl_status too_large(size_t bytes, size_t files, pawl_error *err) {
    error_set(err, PAWL_ELIMIT, "the manifest is too large");
    error_expected(err, "at most %u bytes and %u files", FORMAT_MAX_MANIFEST, FORMAT_MAX_FILES);
    error_found(err, "%zu bytes and %zu files", bytes, files);
    error_next(err, "hand in fewer or shorter metrics and hyperparameters; other values can be "
                    "entries with another role");
    return PAWL_ELIMIT;
}

static pawl_status put_all(const manifest *m, buffer *out, pawl_error *err) {
    if (m->file_count <= FORMAT_MAX_FILES) { /* else it is refused below, whatever is in it */
        TRY(put_body(m, out, err));
        uint32_t crc = crc32c(0, out->data, out->size);
        TRY(buffer_printf(out, err, TAIL_BEFORE "%08" PRIx32 TAIL_AFTER, crc));
    }
    return out->size > FORMAT_MAX_MANIFEST || m->file_count > FORMAT_MAX_FILES
               ? too_large(out->size, m->file_count, err)
               : PAWL_OK;
}

/* Decodes what was encoded: a manifest that no reader would accept must not be written. */
static pawl_status check_readable(const buffer *text, pawl_error *err) {
    manifest back;
    pawl_status status = manifest_decode(text->data, text->size, &back, err);
    if (status == PAWL_OK) {
        manifest_free(&back);
    } else if (status != PAWL_ENOMEM) {
        error_wrap(err, "it could not be read back");
        err->status = PAWL_EINTERNAL;
    }
    return status == PAWL_OK ? PAWL_OK : err->status;
}

pawl_status manifest_encode(const manifest *m, buffer *out, pawl_error *err) {
    out->size = 0;
    pawl_status status = put_all(m, out, err);
    status = status == PAWL_OK ? check_readable(out, err) : status;
    if (status != PAWL_OK) {
        error_wrap(err, "cannot write the manifest");
    }
    return status;
}

/* ---- decode: version and checksum, before anything is believed ------------------------------ */

static bool parse_hex(const uint8_t *text, uint32_t *out) {
    *out = 0;
    for (unsigned i = 0; i < CRC_CHARS; i++) {
        uint8_t c = text[i];
        if (c >= '0' && c <= '9') {
            *out = *out << 4 | (uint32_t)(c - '0');
        } else if (c >= 'a' && c <= 'f') {
            *out = *out << 4 | (uint32_t)(c - 'a' + 10);
        } else {
            return false;
        }
    }
    return true;
}

/* The checksum line and the closing brace, exactly as they are written. */
static bool parse_tail(const uint8_t *text, size_t n, uint32_t *stored) {
    if (n < TAIL_BYTES) {
        return false;
    }
    const uint8_t *tail = text + n - TAIL_BYTES;
    const uint8_t *digits = tail + sizeof TAIL_BEFORE - 1;
    return memcmp(tail, TAIL_BEFORE, sizeof TAIL_BEFORE - 1) == 0 && parse_hex(digits, stored) &&
           memcmp(digits + CRC_CHARS, TAIL_AFTER, sizeof TAIL_AFTER - 1) == 0;
}

/* The format version: where it is and what it says, as far as that can be read. */
typedef struct version_field {
    bool readable;
    uint64_t number;
    size_t begin, end;
} version_field;

static pawl_status find_version(json_reader *json, version_field *out, pawl_error *err) {
    CLEANUP(buffer_free) buffer key = {.data = NULL};
    TRY(json_enter(json, '{'));
    for (;;) {
        bool more = false;
        TRY(json_key(json, &key, &more, err));
        if (!more) {
            return PAWL_OK;
        }
        if (strcmp((const char *)key.data, "format_version") == 0) {
            out->begin = (size_t)json_position(json);
            TRY(json_u64(json, &out->number));
            out->end = json->at;
            out->readable = true;
            return PAWL_OK;
        }
        TRY(json_skip(json, NULL));
    }
}

/* Would the checksum fit if the version were ours? Then it is the version that is damaged. */
static bool only_version_damaged(const uint8_t *text, size_t body, const version_field *version,
                                 uint32_t stored) {
    char ours[16];
    int n = snprintf(ours, sizeof ours, "%d", FORMAT_VERSION);
    uint32_t crc = crc32c(0, text, version->begin);
    crc = crc32c(crc, ours, (size_t)n);
    return crc32c(crc, text + version->end, body - version->end) == stored;
}

static pawl_status newer_version(const version_field *version, pawl_error *err) {
    error_set(err, PAWL_EUNSUPPORTED, "the checkpoint was written by a newer version of pawl");
    error_expected(err, "format version %d, which this pawl (" PAWL_VERSION ") knows",
                   FORMAT_VERSION);
    error_found(err, "format version %" PRIu64, version->number);
    error_safe(err, "nothing was read or changed");
    error_next(err, "read it with the pawl that wrote it, or a newer one: upgrade pawl");
    return PAWL_EUNSUPPORTED;
}

static pawl_status damaged_version(const version_field *version, pawl_error *err) {
    if (!version->readable) {
        error_set(err, PAWL_EDAMAGED, "the manifest has no version field that can be read");
        error_expected(err, "format version %d", FORMAT_VERSION);
        error_found(err, "none");
        return PAWL_EDAMAGED;
    }
    error_set(err, PAWL_EDAMAGED, "the manifest's version field at byte %zu is damaged",
              version->begin);
    error_range(err, version->begin, version->end - version->begin);
    error_expected(err, "format version %d", FORMAT_VERSION);
    error_found(err, "format version %" PRIu64, version->number);
    return PAWL_EDAMAGED;
}

static pawl_status bad_checksum(bool has_tail, uint32_t stored, uint32_t computed, size_t n,
                                pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "the manifest is damaged: its checksum does not match");
    error_range(err, 0, n);
    if (has_tail) {
        error_expected(err, "CRC32C %08" PRIx32 ", as its last line but one says", stored);
        error_found(err, "CRC32C %08" PRIx32, computed);
    } else {
        error_expected(err, "a last line but one of the form \"crc32c\": \"xxxxxxxx\"");
        error_found(err, "something else; the file may be cut off");
    }
    return PAWL_EDAMAGED;
}

/* What is known of a manifest before any of its members is believed. */
typedef struct seal {
    version_field version;
    bool has_tail;
    uint32_t stored, computed;
    size_t body; /* where the checksum line begins */
} seal;

static pawl_status read_seal(const uint8_t *text, size_t n, seal *out, pawl_error *err) {
    pawl_error unreadable = ERROR_INIT; /* not passed on: the checksum says more */
    json_reader json = json_reader_for(text, n, 0, "manifest", &unreadable);
    *out = (seal){.stored = 0};
    if (find_version(&json, &out->version, &unreadable) == PAWL_ENOMEM) {
        return error_nomem(err, n);
    }
    out->has_tail = parse_tail(text, n, &out->stored);
    out->body = out->has_tail ? n - TAIL_BYTES : n;
    out->computed = crc32c(0, text, out->body);
    return PAWL_OK;
}

static pawl_status check_seal(const uint8_t *text, size_t n, pawl_error *err) {
    seal s;
    TRY(read_seal(text, n, &s, err));
    bool intact = s.has_tail && s.computed == s.stored;
    if (!intact && s.has_tail && s.version.readable && s.version.end <= s.body &&
        only_version_damaged(text, s.body, &s.version, s.stored)) {
        return damaged_version(&s.version, err);
    }
    if (s.version.readable && s.version.number > FORMAT_VERSION) {
        return newer_version(&s.version, err);
    }
    if (!intact) {
        return bad_checksum(s.has_tail, s.stored, s.computed, n, err);
    }
    return s.version.readable && s.version.number == FORMAT_VERSION
               ? PAWL_OK
               : damaged_version(&s.version, err);
}

/* ---- decode: members ------------------------------------------------------------------------ */

typedef struct decoder {
    json_reader json;
    manifest *out;
    buffer key, text;
    size_t file_capacity, hyperparameter_capacity, metric_capacity;
    manifest_file *files;
    manifest_value *hyperparameters, *metrics;
    unsigned seen;
} decoder;

static void manifest_decoder_free(decoder *d) {
    buffer_free(&d->key);
    buffer_free(&d->text);
    mem_free(d->files);
    mem_free(d->hyperparameters);
    mem_free(d->metrics);
}

static pawl_status refuse_manifest(decoder *d, pawl_error *err, const char *what) {
    uint64_t position = json_position(&d->json);
    error_set(err, PAWL_EDAMAGED, "the manifest is wrong before byte %" PRIu64 ": %s", position,
              what);
    error_range(err, position, 1);
    return PAWL_EDAMAGED;
}

static pawl_status keep_member_text(decoder *d, const void *text, size_t n, const char **out,
                                    pawl_error *err) {
    char *copy = arena_take(&d->out->memory, n + 1, err);
    if (copy == NULL) {
        return PAWL_ENOMEM;
    }
    memcpy(copy, text, n);
    copy[n] = '\0';
    *out = copy;
    return PAWL_OK;
}

static pawl_status get_manifest_text(decoder *d, const char **out, pawl_error *err) {
    TRY(json_text(&d->json, &d->text, err));
    if (d->text.size > FORMAT_MAX_TEXT) {
        return refuse_manifest(d, err, "a text is too long");
    }
    return keep_member_text(d, d->text.data, d->text.size, out, err);
}

static pawl_status get_text_or_null(decoder *d, const char **out, pawl_error *err) {
    if (json_peek(&d->json) == 'n') {
        *out = NULL;
        return json_skip(&d->json, NULL);
    }
    return get_manifest_text(d, out, err);
}

static pawl_status get_int(decoder *d, int *out, pawl_error *err) {
    int64_t number = 0;
    TRY(json_i64(&d->json, &number));
    if (number < 0 || number > INT32_MAX) {
        return refuse_manifest(d, err, "a number is out of range");
    }
    *out = (int)number;
    return PAWL_OK;
}

static pawl_status get_size(decoder *d, uint64_t *out, pawl_error *err) {
    TRY(json_u64(&d->json, out));
    return *out <= INT64_MAX ? PAWL_OK : refuse_manifest(d, err, "a size is too large");
}

static pawl_status get_crc(decoder *d, uint32_t *out, pawl_error *err) {
    TRY(json_text(&d->json, &d->text, err));
    return d->text.size == CRC_CHARS && parse_hex(d->text.data, out)
               ? PAWL_OK
               : refuse_manifest(d, err, "a checksum is not 8 hexadecimal digits");
}

/* Member by member of an object; `member` reads the value of d->key and says which one it was. */
static pawl_status each_member(decoder *d, unsigned wanted,
                               pawl_status (*member)(decoder *, void *, unsigned *, pawl_error *),
                               void *context, pawl_error *err) {
    unsigned seen = 0;
    TRY(json_enter(&d->json, '{'));
    for (;;) {
        bool more = false;
        unsigned bit = 0;
        TRY(json_key(&d->json, &d->key, &more, err));
        if (!more) {
            break;
        }
        TRY(member(d, context, &bit, err));
        if ((seen & bit) != 0) {
            return refuse_manifest(d, err, "a member is there twice");
        }
        seen |= bit;
    }
    return (seen & wanted) == wanted ? PAWL_OK : refuse_manifest(d, err, "a member is missing");
}

static bool member_is(const decoder *d, const char *key) {
    return strcmp((const char *)d->key.data, key) == 0;
}

static pawl_status file_member(decoder *d, void *context, unsigned *bit, pawl_error *err) {
    manifest_file *file = context;
    if (member_is(d, "name")) {
        *bit = 1;
        return get_manifest_text(d, &file->name, err);
    }
    if (member_is(d, "bytes")) {
        *bit = 2;
        return get_size(d, &file->bytes, err);
    }
    if (member_is(d, "rank")) {
        *bit = 4;
        return get_int(d, &file->rank, err);
    }
    return json_skip(&d->json, NULL);
}

static pawl_status decode_files(decoder *d, pawl_error *err) {
    TRY(json_enter(&d->json, '['));
    for (;;) {
        bool more = false;
        TRY(json_element(&d->json, &more));
        if (!more) {
            return PAWL_OK;
        }
        if (d->out->file_count == FORMAT_MAX_FILES) {
            return error_set(err, PAWL_ELIMIT, "the manifest lists more than %u files",
                             FORMAT_MAX_FILES);
        }
        TRY(vec_reserve(&d->files, &d->file_capacity, d->out->file_count + 1, sizeof *d->files,
                        err));
        manifest_file *file = &d->files[d->out->file_count];
        *file = (manifest_file){.name = NULL};
        TRY(each_member(d, 7, file_member, file, err));
        char tag[FORMAT_TAG_CHARS];
        if (name_classify(file->name, tag) != NAME_KIND_DATA) {
            return refuse_manifest(d, err, "it lists a file that is not named as a data file");
        }
        d->out->file_count++;
    }
}

static pawl_status index_member(decoder *d, void *context, unsigned *bit, pawl_error *err) {
    manifest *m = context;
    if (member_is(d, "name")) {
        *bit = 1;
        return get_manifest_text(d, &m->index_name, err);
    }
    if (member_is(d, "bytes")) {
        *bit = 2;
        return get_size(d, &m->index.bytes, err);
    }
    if (member_is(d, "crc32c")) {
        *bit = 4;
        return get_crc(d, &m->index.crc32c, err);
    }
    if (member_is(d, "footer_crc32c")) {
        *bit = 8;
        return get_crc(d, &m->index.footer_crc32c, err);
    }
    return json_skip(&d->json, NULL);
}

static pawl_status decode_index(decoder *d, pawl_error *err) {
    char tag[FORMAT_TAG_CHARS];
    TRY(each_member(d, 15, index_member, d->out, err));
    return name_classify(d->out->index_name, tag) == NAME_KIND_INDEX
               ? PAWL_OK
               : refuse_manifest(d, err, "it names an index that is not named as one");
}

/* JSON of any kind, kept as text. */
static pawl_status get_json(decoder *d, const char **out, pawl_error *err) {
    json_span value = {NULL, 0};
    TRY(json_skip(&d->json, &value));
    if (value.n > FORMAT_MAX_VALUE_JSON) {
        return error_set(err, PAWL_ELIMIT, "the manifest has a value of more than %u bytes",
                         FORMAT_MAX_VALUE_JSON);
    }
    return keep_member_text(d, value.text, value.n, out, err);
}

/* Values by their names. */
typedef struct value_list {
    const char *what;
    size_t limit;
    manifest_value **values;
    size_t *capacity, *count;
} value_list;

static pawl_status decode_values(decoder *d, const value_list *list, pawl_error *err) {
    TRY(json_enter(&d->json, '{'));
    for (;;) {
        bool more = false;
        TRY(json_key(&d->json, &d->key, &more, err));
        if (!more) {
            return PAWL_OK;
        }
        if (*list->count == list->limit) {
            return too_many(list->what, list->limit, err);
        }
        if (d->key.size > FORMAT_MAX_TEXT) {
            return refuse_manifest(d, err, "a name is too long");
        }
        TRY(vec_reserve(list->values, list->capacity, *list->count + 1, sizeof **list->values,
                        err));
        manifest_value *value = &(*list->values)[*list->count];
        TRY(keep_member_text(d, d->key.data, d->key.size, &value->name, err));
        TRY(get_json(d, &value->json, err));
        ++*list->count;
    }
}

static pawl_status decode_signature(decoder *d, pawl_error *err) {
    if (json_peek(&d->json) == 'n') {
        return json_skip(&d->json, NULL);
    }
    return get_json(d, &d->out->batch_signature, err);
}

/* ---- decode: the whole ---------------------------------------------------------------------- */

static pawl_status member_version(decoder *d, pawl_error *err) {
    return get_int(d, &d->out->version, err);
}
static pawl_status member_step(decoder *d, pawl_error *err) {
    TRY(json_i64(&d->json, &d->out->step));
    return d->out->step >= 0 ? PAWL_OK : refuse_manifest(d, err, "the step is negative");
}
static pawl_status member_time(decoder *d, pawl_error *err) {
    (void)err;
    return json_i64(&d->json, &d->out->unix_time_ns);
}
static pawl_status member_world_size(decoder *d, pawl_error *err) {
    TRY(get_int(d, &d->out->world_size, err));
    return d->out->world_size >= 1 ? PAWL_OK : refuse_manifest(d, err, "the world size is zero");
}
static pawl_status member_attempt(decoder *d, pawl_error *err) {
    return get_manifest_text(d, &d->out->attempt, err);
}
static pawl_status member_framework(decoder *d, pawl_error *err) {
    return get_text_or_null(d, &d->out->framework, err);
}
static pawl_status member_writer(decoder *d, pawl_error *err) {
    return get_text_or_null(d, &d->out->writer, err);
}
static pawl_status member_entries(decoder *d, pawl_error *err) {
    return get_size(d, &d->out->entries, err);
}
static pawl_status member_hyperparameters(decoder *d, pawl_error *err) {
    const value_list list = {"hyperparameters", FORMAT_MAX_HYPERPARAMETERS, &d->hyperparameters,
                             &d->hyperparameter_capacity, &d->out->hyperparameter_count};
    return decode_values(d, &list, err);
}
static pawl_status member_metrics(decoder *d, pawl_error *err) {
    const value_list list = {"metrics", FORMAT_MAX_METRICS, &d->metrics, &d->metric_capacity,
                             &d->out->metric_count};
    return decode_values(d, &list, err);
}

static const struct member {
    const char *key;
    pawl_status (*decode)(decoder *d, pawl_error *err);
} members[] = {
    {"format_version", member_version},
    {"step", member_step},
    {"unix_time_ns", member_time},
    {"world_size", member_world_size},
    {"attempt", member_attempt},
    {"framework", member_framework},
    {"writer", member_writer},
    {"entries", member_entries},
    {"files", decode_files},
    {"index", decode_index},
    {"hyperparameters", member_hyperparameters},
    {"metrics", member_metrics},
    {"batch_signature", decode_signature},
};

static pawl_status top_member(decoder *d, void *context, unsigned *bit, pawl_error *err) {
    (void)context;
    for (unsigned i = 0; i < ARRAY_LENGTH(members); i++) {
        if (member_is(d, members[i].key)) {
            *bit = 1u << i;
            /* Refused before the value is read, which may change d->key and append to lists. */
            if ((d->seen & *bit) != 0) {
                return refuse_manifest(d, err, "a member is there twice");
            }
            d->seen |= *bit;
            return members[i].decode(d, err);
        }
    }
    return json_skip(&d->json, NULL);
}

static int by_pointed_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Is every file listed once, and of an existing rank? Leaves their names in order. */
static pawl_status check_files(const decoder *d, pawl_error *err) {
    size_t count = d->out->file_count;
    const char **names = arena_take(&d->out->memory, count * sizeof *names, err);
    if (names == NULL) {
        return PAWL_ENOMEM;
    }
    d->out->file_names = names;
    for (size_t i = 0; i < count; i++) {
        names[i] = d->files[i].name;
        if (d->files[i].rank >= d->out->world_size) {
            error_set(err, PAWL_EDAMAGED,
                      "the manifest lists a file of a rank that does not exist");
            error_expected(err, "a rank below %d", d->out->world_size);
            error_found(err, "%s of rank %d", d->files[i].name, d->files[i].rank);
            return PAWL_EDAMAGED;
        }
    }
    if (count > 1) {
        qsort(names, count, sizeof *names, by_pointed_name);
    }
    for (size_t i = 1; i < count; i++) {
        if (strcmp(names[i - 1], names[i]) == 0) {
            return error_set(err, PAWL_EDAMAGED, "the manifest lists %s twice", names[i]);
        }
    }
    return PAWL_OK;
}

static pawl_status keep_array(decoder *d, const void *items, size_t bytes, void *out_pointer,
                              pawl_error *err) {
    void *copy = arena_take(&d->out->memory, bytes, err);
    if (copy == NULL) {
        return PAWL_ENOMEM;
    }
    if (bytes > 0) {
        memcpy(copy, items, bytes);
    }
    memcpy(out_pointer, &copy, sizeof copy);
    return PAWL_OK;
}

static pawl_status keep_arrays(decoder *d, pawl_error *err) {
    manifest *m = d->out;
    TRY(keep_array(d, d->files, m->file_count * sizeof *m->files, &m->files, err));
    TRY(keep_array(d, d->hyperparameters, m->hyperparameter_count * sizeof *m->hyperparameters,
                   &m->hyperparameters, err));
    return keep_array(d, d->metrics, m->metric_count * sizeof *m->metrics, &m->metrics, err);
}

static pawl_status decode_manifest(const void *text, size_t n, manifest *out, pawl_error *err) {
    if (n > FORMAT_MAX_MANIFEST) {
        error_set(err, PAWL_ELIMIT, "the manifest is too large");
        error_expected(err, "at most %u bytes", FORMAT_MAX_MANIFEST);
        error_found(err, "%zu bytes", n);
        return PAWL_ELIMIT;
    }
    TRY(check_seal(text, n, err));
    CLEANUP(manifest_decoder_free)
    decoder d = {.json = json_reader_for(text, n, 0, "manifest", err), .out = out};
    TRY(each_member(&d, (1u << ARRAY_LENGTH(members)) - 1, top_member, NULL, err));
    TRY(json_end(&d.json));
    TRY(check_files(&d, err));
    return keep_arrays(&d, err);
}

bool manifest_lists(const manifest *m, const char *name) {
    return m->file_count > 0 && bsearch(&name, m->file_names, m->file_count, sizeof *m->file_names,
                                        by_pointed_name) != NULL;
}

pawl_status manifest_metrics_json(const manifest *m, buffer *out, pawl_error *err) {
    TRY(buffer_append(out, "{", 1, err));
    for (size_t i = 0; i < m->metric_count; i++) {
        const manifest_value *metric = &m->metrics[i];
        TRY(buffer_append(out, ", ", i > 0 ? 2 : 0, err));
        TRY(buffer_json_string(out, metric->name, strlen(metric->name), err));
        TRY(buffer_printf(out, err, ": %s", metric->json));
    }
    return buffer_append(out, "}", 1, err);
}

pawl_status manifest_decode(const void *text, size_t n, manifest *out, pawl_error *err) {
    *out = (manifest){.version = 0};
    pawl_status status = decode_manifest(text, n, out, err);
    if (status != PAWL_OK) {
        manifest_free(out);
    }
    return status;
}

void manifest_free(manifest *m) {
    arena_free(&m->memory);
    *m = (manifest){.version = 0};
}
