/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers the files, streams and entries of an archive, as a format's reader finds them. */
#include "foreign/archive.h"
#include "format/record_check.h"

#include <stdlib.h>
#include <string.h>

/* ---- files ---- */

uint32_t archive_file_of(const archive *a, uint32_t stream) {
    uint32_t real = ARCHIVE_PHASES * a->base.files;
    return stream < real ? stream % a->base.files : a->streams[stream - real].file;
}

uint64_t archive_offset_of(const archive *a, const record_piece *piece) {
    uint32_t real = ARCHIVE_PHASES * a->base.files;
    return piece->offset + (piece->file < real ? piece->file / a->base.files : 0);
}

void archive_error_file(const archive *a, uint32_t file, pawl_error *err) {
    store_error_path(err, a->base.store, a->files[file].path);
}

static pawl_status too_many(const char *what, uint64_t most, pawl_error *err) {
    error_set(err, PAWL_ELIMIT, "the checkpoint has too many %s", what);
    error_expected(err, "at most %llu", (unsigned long long)most);
    return PAWL_ELIMIT;
}

static pawl_status see_file(archive *a, const char *path, archive_seen *out, pawl_error *err) {
    TRY(archive_look(a, path, &out->was, err));
    out->path = arena_strdup(&a->base.memory, path);
    return out->path != NULL ? PAWL_OK : error_nomem(err, strlen(path) + 1);
}

/* Where the number of a file is, or would be. */
static uint32_t *slot_of(const archive *a, const char *path) {
    size_t at = crc32c(0, path, strlen(path)) & (a->slot_count - 1);
    while (a->slots[at] != 0 && strcmp(a->files[a->slots[at] - 1].path, path) != 0) {
        at = (at + 1) & (a->slot_count - 1);
    }
    return &a->slots[at];
}

/* At most half of the slots are taken. */
static pawl_status reserve_slot(archive *a, pawl_error *err) {
    size_t count = a->slot_count > 0 ? 2 * a->slot_count : 64;
    if (2 * ((size_t)a->base.files + 1) <= a->slot_count) {
        return PAWL_OK;
    }
    uint32_t *slots = mem_calloc(count, sizeof(*slots));
    if (slots == NULL) {
        return error_nomem(err, count * sizeof(*slots));
    }
    mem_free(a->slots);
    a->slots = slots;
    a->slot_count = count;
    for (uint32_t i = 0; i < a->base.files; i++) {
        *slot_of(a, a->files[i].path) = i + 1;
    }
    return PAWL_OK;
}

pawl_status archive_add_file(archive *a, const char *path, uint32_t *out, pawl_error *err) {
    struct source *s = &a->base;
    TRY(reserve_slot(a, err));
    uint32_t *slot = slot_of(a, path);
    if (*slot != 0) {
        *out = *slot - 1;
        return PAWL_OK;
    }
    if (s->files == FOREIGN_MAX_FILES) {
        return too_many("files", FOREIGN_MAX_FILES, err);
    }
    TRY(vec_reserve(&a->files, &a->file_room, s->files + 1, sizeof(*a->files), err));
    TRY(see_file(a, path, &a->files[s->files], err));
    *out = s->files++;
    *slot = s->files;
    return PAWL_OK;
}

static pawl_status description_too_large(const archive *a, const archive_seen *file, size_t limit,
                                         pawl_error *err) {
    error_set(err, PAWL_ELIMIT, "a file that describes a checkpoint is too large");
    store_error_path(err, a->base.store, file->path);
    error_expected(err, "at most %zu bytes", limit);
    error_found(err, "%llu bytes", (unsigned long long)file->was.size);
    return PAWL_ELIMIT;
}

pawl_status archive_read_description(archive *a, const char *path, size_t limit, buffer *out,
                                     pawl_error *err) {
    CLEANUP(store_close_pointer) store_file *opened = NULL;
    struct source *s = &a->base;
    if (s->described_files == FOREIGN_MAX_FILES) {
        return too_many("files", FOREIGN_MAX_FILES, err);
    }
    TRY(vec_reserve(&a->described, &a->described_room, (size_t)s->described_files + 1,
                    sizeof(*a->described), err));
    archive_seen *file = &a->described[s->described_files];
    TRY(see_file(a, path, file, err));
    s->described_files++;
    if (file->was.size > limit) {
        return description_too_large(a, file, limit, err);
    }
    size_t bytes = (size_t)file->was.size;
    TRY(archive_open_seen(a, file, 0, STORE_READ, &opened, err));
    TRY(buffer_reserve(out, bytes, err));
    TRY(store_read(opened, 0, out->data + out->size, bytes, err));
    out->size += bytes;
    out->data[out->size] = 0;
    s->described_bytes += bytes;
    s->reads.reads++;
    s->reads.bytes += bytes;
    return PAWL_OK;
}

/* ---- streams ---- */

pawl_status archive_add_stream(archive *a, uint32_t file, uint64_t bytes,
                               const stream_recipe *recipe, uint32_t *out, pawl_error *err) {
    if (a->stream_count == FORMAT_MAX_FILES) {
        return too_many("parts that are compressed, or in another order", FORMAT_MAX_FILES, err);
    }
    TRY(vec_reserve(&a->streams, &a->stream_room, a->stream_count + 1, sizeof(*a->streams), err));
    *out = ARCHIVE_PHASES * a->base.files + (uint32_t)a->stream_count;
    a->streams[a->stream_count++] =
        (archive_stream){.file = file, .bytes = bytes, .recipe = recipe};
    return PAWL_OK;
}

/* ---- entries ---- */

void archive_allow(archive *a, uint64_t bytes) {
    a->allowed =
        (a->allowed > 0 ? a->allowed : FOREIGN_SHARED_BYTES) + FOREIGN_SHARED_FACTOR * bytes;
}

static pawl_status charge(archive *a, uint64_t bytes, pawl_error *err) {
    a->charged += bytes;
    return a->allowed == 0 || a->charged <= a->allowed
               ? PAWL_OK
               : too_many("bytes of entries that so few bytes describe", a->allowed, err);
}

static pawl_status add_entry(archive *a, record_entry **out, pawl_error *err) {
    size_t count = (size_t)a->base.entries;
    if (count == FOREIGN_MAX_ENTRIES) {
        return too_many("entries", FOREIGN_MAX_ENTRIES, err);
    }
    TRY(charge(a, 2 * sizeof(record_entry) + sizeof(record_piece), err)); /* the array doubles */
    TRY(vec_reserve(&a->entries, &a->entry_room, count + 1, sizeof(*a->entries), err));
    *out = &a->entries[count];
    return PAWL_OK;
}

/* What stands once in a file may be used for many entries. */
static pawl_status count_text(archive *a, size_t bytes, pawl_error *err) {
    TRY(charge(a, bytes, err));
    a->text_bytes += bytes;
    return a->text_bytes <= FOREIGN_MAX_TEXTS
               ? PAWL_OK
               : too_many("bytes of names and values", FOREIGN_MAX_TEXTS, err);
}

static pawl_status copy_text(archive *a, const char *text, const char **out, pawl_error *err) {
    TRY(count_text(a, text != NULL ? strlen(text) + 1 : 0, err));
    *out = text != NULL ? arena_strdup(&a->base.memory, text) : NULL;
    return text == NULL || *out != NULL ? PAWL_OK : error_nomem(err, strlen(text) + 1);
}

/* One of each dimension that the tensor has; `last` is that of the one that the entry has more. */
static pawl_status copy_numbers(archive *a, const int64_t *numbers, const archive_tensor *t,
                                int64_t last, int64_t **out, pawl_error *err) {
    size_t bytes = (size_t)t->ndim * sizeof(*numbers);
    *out = arena_take(&a->base.memory, bytes + sizeof(*numbers), err);
    if (*out == NULL) {
        return PAWL_ENOMEM;
    }
    if (bytes > 0) {
        memcpy(*out, numbers, bytes);
    }
    (*out)[t->ndim] = last;
    return PAWL_OK;
}

#define KEPT       UINT32_MAX /* as the stream of what is kept, until all of it is there */
#define ALIGN_KEPT 16u

pawl_status archive_keep_bytes(archive *a, const void *bytes, size_t n, archive_part *out,
                               pawl_error *err) {
    static const uint8_t zeros[ALIGN_KEPT];
    buffer *kept = &a->values.bytes;
    TRY(count_text(a, n + ALIGN_KEPT, err));
    TRY(buffer_append(kept, zeros, (ALIGN_KEPT - kept->size % ALIGN_KEPT) % ALIGN_KEPT, err));
    *out = (archive_part){.stream = KEPT, .offset = kept->size, .bytes = n};
    a->value_count++;
    return buffer_append(kept, bytes, n, err);
}

/* Where its elements are not aligned in a file, it is in the stream that begins later. */
static void place_part(const archive *a, pawl_dtype dtype, const archive_part *part,
                       record_piece *out) {
    bool real = part->stream < a->base.files;
    size_t alignment = real && dtype != 0 ? dtype_alignment(dtype) : 1;
    uint32_t phase = real ? (uint32_t)(part->offset % alignment) : 0;
    *out = (record_piece){.file = part->stream + phase * a->base.files,
                          .offset = part->offset - phase,
                          .bytes = part->bytes};
}

static pawl_status copy_parts(archive *a, const archive_tensor *t, record_entry *e,
                              pawl_error *err) {
    static const int64_t zeros[PAWL_MAX_NDIM];
    if (t->part_count > FORMAT_MAX_PIECES) {
        return too_many("parts of one tensor", FORMAT_MAX_PIECES, err);
    }
    e->pieces = arena_take(&a->base.memory, t->part_count * sizeof(*e->pieces), err);
    if (e->pieces == NULL) {
        return PAWL_ENOMEM;
    }
    for (size_t i = 0; i < t->part_count; i++) {
        const archive_part *part = &t->parts[i];
        record_piece *piece = &e->pieces[i];
        place_part(a, t->dtype, part, piece);
        piece->box_offset = (int64_t *)zeros;    /* nobody writes to it, */
        piece->box_extent = (int64_t *)e->shape; /* nor to this */
        if (part->box_offset != NULL) {
            TRY(copy_numbers(a, part->box_offset, t, 0, &piece->box_offset, err));
            TRY(copy_numbers(a, part->box_extent, t, 2, &piece->box_extent, err));
        }
    }
    e->piece_count = t->part_count;
    return PAWL_OK;
}

pawl_status archive_add_tensor(archive *a, const archive_tensor *t, pawl_error *err) {
    record_entry *e;
    int64_t *shape;
    if (t->ndim < 0 || t->ndim > PAWL_MAX_NDIM) {
        error_set(err, PAWL_EUNSUPPORTED, "a tensor has too many dimensions");
        error_entry(err, t->name);
        error_expected(err, "at most %d", PAWL_MAX_NDIM);
        error_found(err, "%d", t->ndim);
        return PAWL_EUNSUPPORTED;
    }
    bool paired = t->type != NULL && t->dtype != 0 && t->ndim < PAWL_MAX_NDIM;
    const char *listed_as = paired ? NULL : t->type;
    TRY(add_entry(a, &e, err));
    *e = (record_entry){.kind = PAWL_KIND_TENSOR,
                        .role = t->role != 0 ? t->role : PAWL_ROLE_MODEL,
                        .dtype = listed_as != NULL ? 0 : t->dtype,
                        .ndim = t->ndim + paired};
    TRY(copy_text(a, t->name, &e->name, err));
    TRY(copy_text(a, listed_as, &e->type, err));
    TRY(copy_text(a, t->slot_of, &e->slot_of, err));
    TRY(copy_text(a, t->slot, &e->slot, err));
    TRY(copy_numbers(a, t->shape, t, 2, &shape, err));
    e->shape = shape;
    TRY(copy_parts(a, t, e, err));
    a->base.entries++;
    return PAWL_OK;
}

static bool value_fits(pawl_kind kind, size_t n) {
    bool scalar = false;
    pawl_dtype dtype = record_value_dtype(kind, &scalar);
    return scalar ? n == (size_t)pawl_dtype_bits(dtype) / 8 : n <= ARCHIVE_VALUE_BYTES;
}

pawl_status archive_add_value(archive *a, const char *name, pawl_role role, pawl_kind kind,
                              const void *bytes, size_t n, pawl_error *err) {
    record_entry *e;
    uint8_t *copy;
    if (!value_fits(kind, n)) {
        error_set(err, PAWL_ELIMIT, "a value is too large");
        error_entry(err, name);
        error_expected(err, "at most %llu bytes", (unsigned long long)PAWL_MAX_VALUE_BYTES);
        error_found(err, "%zu bytes", n);
        return PAWL_ELIMIT;
    }
    TRY(add_entry(a, &e, err));
    *e = (record_entry){.kind = kind,
                        .role = role != 0 ? role : PAWL_ROLE_OTHER,
                        .value_bytes = n,
                        .piece_count = 1};
    TRY(copy_text(a, name, &e->name, err));
    TRY(count_text(a, 2 * n, err)); /* it is there twice */
    copy = arena_take(&a->base.memory, n + 1, err);
    e->pieces = arena_take(&a->base.memory, sizeof(*e->pieces), err);
    if (copy == NULL || e->pieces == NULL) {
        return PAWL_ENOMEM;
    }
    if (n > 0) {
        memcpy(copy, bytes, n);
    }
    copy[n] = 0;
    e->value = copy;
    e->pieces[0] = (record_piece){.offset = a->values.bytes.size, .bytes = n}; /* file: later */
    TRY(buffer_append(&a->values.bytes, copy, n, err));
    a->value_count++;
    a->base.entries++;
    return PAWL_OK;
}

/* ---- names ---- */

static void escape_byte(char *out, size_t *at, unsigned char byte) {
    static const char digits[] = "0123456789ABCDEF";
    out[(*at)++] = '%';
    out[(*at)++] = digits[byte >> 4];
    out[(*at)++] = digits[byte & 15u];
}

/* Of a component that is empty, "." or "..", the first character is escaped; an empty one becomes
 * a single %, which stands for nothing. */
static bool is_bad_component(const char *name, size_t n, size_t at, bool key) {
    size_t end = at;
    while (end < n && name[end] != '/') {
        end++;
    }
    size_t length = end - at;
    return (length == 0 && (!key || n == 0)) || /* in a key "/" is escaped */
           (name[at] == '.' && (length == 1 || (length == 2 && name[at + 1] == '.')));
}

/* Of C0, DEL, or C1, which has two bytes. */
static bool is_of_control(const char *name, size_t n, size_t at) {
    unsigned char byte = (unsigned char)name[at];
    unsigned char next = at + 1 < n ? (unsigned char)name[at + 1] : 0;
    bool follows = at > 0 && (unsigned char)name[at - 1] == 0xc2;
    return byte < 0x20 || byte == 0x7f || (byte == 0xc2 && next >= 0x80 && next < 0xa0) ||
           (follows && byte >= 0x80 && byte < 0xa0);
}

static int digit_of(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

int escaped_byte(const char *text, size_t n) {
    int high = n >= 3 && text[0] == '%' ? digit_of(text[1]) : -1;
    int low = high >= 0 ? digit_of(text[2]) : -1;
    return low >= 0 ? high * 16 + low : -1;
}

/* %XX, or a component of its own. In names that are no keys of dicts %2F is none: they have no
 * other way to say that a "/" begins no component (writer_flat_name). */
static bool is_escape(const char *name, size_t n, size_t at) {
    bool begins = at == 0 || name[at - 1] == '/';
    bool ends = at + 1 == n || name[at + 1] == '/';
    int byte = escaped_byte(name + at, n - at);
    return (begins && ends) || (byte >= 0 && byte != '/');
}

static pawl_status escape(arena *memory, const char *name, size_t n, bool key, const char **out,
                          pawl_error *err) {
    bool text = utf8_valid(name, n);
    char *escaped = arena_take(memory, (size_t)3 * n + 2, err);
    size_t at = 0;
    if (escaped == NULL) {
        return PAWL_ENOMEM;
    }
    for (size_t i = 0; i <= n; i++) {
        bool first = i == 0 || (name[i - 1] == '/' && !key);
        if (first && is_bad_component(name, n, i, key)) {
            if (i == n || name[i] == '/') {
                escaped[at++] = '%';
            } else {
                escape_byte(escaped, &at, (unsigned char)name[i++]);
            }
        }
        if (i == n) {
            break;
        }
        unsigned char byte = (unsigned char)name[i];
        bool percent = byte == '%' && (key || is_escape(name, n, i));
        if (is_of_control(name, n, i) || percent || (byte == '/' && key) ||
            (byte >= 0x80 && !text)) {
            escape_byte(escaped, &at, byte);
        } else {
            escaped[at++] = (char)byte;
        }
    }
    escaped[at] = '\0';
    arena_trim(memory, escaped, at + 1);
    *out = escaped;
    return PAWL_OK;
}

pawl_status archive_escape_name(archive *a, const char *name, size_t n, const char **out,
                                pawl_error *err) {
    return escape(&a->base.memory, name, n, false, out, err);
}

pawl_status archive_escape_key(archive *a, const char *key, size_t n, const char **out,
                               pawl_error *err) {
    return escape_key(&a->base.memory, key, n, out, err);
}

pawl_status escape_key(arena *memory, const char *key, size_t n, const char **out,
                       pawl_error *err) {
    return escape(memory, key, n, true, out, err);
}

static pawl_status refuse_name(const archive *a, const record_entry *e, const char *why,
                               pawl_error *err) {
    error_set(err, PAWL_EUNSUPPORTED, "a%s has a name that no entry of pawl can have: it %s",
              e->kind == PAWL_KIND_TENSOR ? " tensor" : " value", why);
    if (e->piece_count > 0 && e->kind == PAWL_KIND_TENSOR) {
        archive_error_file(a, archive_file_of(a, e->pieces[0].file), err);
    } else {
        store_error_path(err, a->base.store, a->name);
    }
    error_entry(err, e->name);
    error_expected(err,
                   "1 to %d bytes of UTF-8 without control characters, no empty component "
                   "between '/', and none that is . or ..",
                   PAWL_MAX_NAME_BYTES);
    error_next(err, "load it with the tool that wrote it, and give the %s another name",
               e->kind == PAWL_KIND_TENSOR ? "tensor" : "value");
    return PAWL_EUNSUPPORTED;
}

static pawl_status check_entry(const archive *a, const record_entry *e, pawl_error *err) {
    const char *why = "is not allowed";
    if (!entry_name_valid(e->name, strlen(e->name), &why)) {
        return refuse_name(a, e, why, err);
    }
    if (e->kind != PAWL_KIND_TENSOR) {
        return PAWL_OK;
    }
    pawl_dtype counted = e->type != NULL ? PAWL_U8 : e->dtype;
    pawl_status status = shape_check(counted, e->ndim, e->shape, NULL, NULL, err);
    if (status != PAWL_OK) {
        if (e->piece_count > 0) {
            archive_error_file(a, archive_file_of(a, e->pieces[0].file), err);
        }
        error_entry(err, e->name);
        status = status == PAWL_EUSAGE ? PAWL_EDAMAGED : status;
        err->status = status;
    }
    return status;
}

/* ---- all of it ---- */

static int by_name(const void *left, const void *right) {
    const record_entry *a = left;
    const record_entry *b = right;
    int order = strcmp(a->name, b->name);
    if (order != 0 || a->piece_count == 0 || b->piece_count == 0) {
        return order;
    }
    return (a->pieces[0].file > b->pieces[0].file) - (a->pieces[0].file < b->pieces[0].file);
}

static pawl_status is_there_twice(const archive *a, const record_entry *e, pawl_error *err) {
    const record_entry *other = e - 1;
    error_set(err, PAWL_EDAMAGED, "a name is there twice");
    store_error_path(err, a->base.store, a->name);
    error_entry(err, e->name);
    error_expected(err, "each name once");
    if (e->piece_count == 0 || other->piece_count == 0) {
        return PAWL_EDAMAGED;
    }
    uint32_t here = archive_file_of(a, e->pieces[0].file);
    uint32_t there = archive_file_of(a, other->pieces[0].file);
    archive_error_file(a, here, err);
    error_range(err, archive_offset_of(a, &e->pieces[0]), e->pieces[0].bytes);
    if (here != there) {
        error_found(err, "it is in %.100s and in %.100s", a->files[there].path,
                    a->files[here].path);
    }
    return PAWL_EDAMAGED;
}

static pawl_status add_value_stream(archive *a, pawl_error *err) {
    uint32_t stream;
    if (a->value_count == 0) {
        return PAWL_OK;
    }
    TRY(archive_add_stream(a, 0, a->values.bytes.size, &a->values.recipe, &stream, err));
    for (size_t i = 0; i < a->base.entries; i++) {
        record_entry *e = &a->entries[i];
        bool kept =
            e->kind != PAWL_KIND_TENSOR || (e->piece_count == 1 && e->pieces[0].file == KEPT);
        if (kept) {
            e->pieces[0].file = stream;
        }
    }
    return PAWL_OK;
}

pawl_status archive_finish(archive *a, pawl_error *err) {
    struct source *s = &a->base;
    uint32_t file;
    if (s->files == 0) { /* all there is are values, in what describes them */
        TRY(archive_add_file(a, a->name, &file, err));
    }
    TRY(add_value_stream(a, err));
    if (s->entries > 1) {
        qsort(a->entries, (size_t)s->entries, sizeof(*a->entries), by_name);
    }
    for (size_t i = 0; i < s->entries; i++) {
        TRY(check_entry(a, &a->entries[i], err));
        if (i > 0 && strcmp(a->entries[i].name, a->entries[i - 1].name) == 0) {
            return is_there_twice(a, &a->entries[i], err);
        }
    }
    s->all_files = ARCHIVE_PHASES * s->files + (uint32_t)a->stream_count;
    return PAWL_OK;
}
