/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a zip, and the directory before it. */
#include "foreign/zip/private.h"
#include "format/limits.h"

#include <stdlib.h>
#include <string.h>

#define END                0x06054b50u
#define END_BYTES          22u
#define END_64             0x06064b50u
#define END_64_BYTES       56u
#define LOCATOR            0x07064b50u
#define LOCATOR_BYTES      20u
#define CENTRAL            0x02014b50u
#define CENTRAL_BYTES      46u
#define MAX_COMMENT        65535u
#define NO_COUNT           0xffffu
#define EXTRA_64           1u
#define ATTRIBUTES_TYPE    0170000u
#define ATTRIBUTES_FILE    0100000u
#define ATTRIBUTES_FOLDER  0040000u
#define DEFLATE_MOST_TIMES 1032u /* what deflate can make of a byte */

bool zip_looks_like(const uint8_t *head, size_t n) {
    return n >= 4 && (zip_u32(head) == ZIP_LOCAL || (n >= END_BYTES && zip_u32(head) == END));
}

pawl_status zip_refuse(pawl_error *err, pawl_status status, const char *name, uint64_t at,
                       const char *what) {
    error_set(err, status, "the zip file %s, at byte %llu", what, (unsigned long long)at);
    error_range(err, at, 1);
    if (name != NULL) {
        error_entry(err, name);
    }
    return status;
}

/* ---- the end ---- */

typedef struct ending {
    uint64_t at;   /* of the first record behind the directory */
    uint64_t disk; /* the largest of all that are named */
    uint64_t count, here, bytes, directory;
} ending;

/* What has the length of its comment right. */
static bool find_end(const uint8_t *tail, size_t n, size_t *at) {
    for (size_t i = n - END_BYTES + 1; i-- > 0;) {
        if (zip_u32(tail + i) == END && zip_u16(tail + i + 20) == n - END_BYTES - i) {
            *at = i;
            return true;
        }
    }
    return false;
}

static uint64_t larger(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

static bool agrees(uint64_t narrow, uint64_t none, uint64_t wide) {
    return narrow == none || narrow == wide;
}

/* The record of zip64, of which the locator before the end names the place. */
static pawl_status read_end_64(const byte_source *file, const uint8_t *locator, uint64_t locator_at,
                               ending *e, pawl_error *err) {
    uint8_t r[END_64_BYTES];
    uint64_t at = zip_u64(locator + 8);
    if (at > locator_at || locator_at - at < END_64_BYTES) {
        return zip_refuse(err, PAWL_EDAMAGED, NULL, locator_at,
                          "names a place of the zip64 end where it is not");
    }
    TRY(file->read_at(file->context, at, r, sizeof(r), err));
    if (zip_u32(r) != END_64 || zip_u64(r + 4) != locator_at - at - 12) {
        return zip_refuse(err, PAWL_EDAMAGED, NULL, at, "has a zip64 end that is none");
    }
    const ending wide = {.at = at,
                         .disk = larger(larger(zip_u32(r + 16), zip_u32(r + 20)),
                                        larger(zip_u32(locator + 4), e->disk % NO_COUNT)),
                         .here = zip_u64(r + 24),
                         .count = zip_u64(r + 32),
                         .bytes = zip_u64(r + 40),
                         .directory = zip_u64(r + 48)};
    if (!agrees(e->count, NO_COUNT, wide.count) || !agrees(e->here, NO_COUNT, wide.here) ||
        !agrees(e->bytes, ZIP_NO_SIZE, wide.bytes) ||
        !agrees(e->directory, ZIP_NO_SIZE, wide.directory) || zip_u32(locator + 16) > 1) {
        return zip_refuse(err, PAWL_EDAMAGED, NULL, at, "has two ends that differ");
    }
    *e = wide;
    return PAWL_OK;
}

static pawl_status no_end(const byte_source *file, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "the zip file has no end");
    error_range(err, file->size > END_BYTES ? file->size - END_BYTES : 0, END_BYTES);
    error_expected(err, "an end of central directory, and nothing behind its comment");
    error_found(err, "%llu bytes without one", (unsigned long long)file->size);
    error_next(err, "it was cut off, or never finished: get the whole file from where it came");
    return PAWL_EDAMAGED;
}

static pawl_status check_end(const ending *e, uint64_t at, pawl_error *err) {
    if (e->disk != 0 || e->here != e->count) {
        return zip_refuse(err, PAWL_EUNSUPPORTED, NULL, at, "is one of several parts");
    }
    if (e->count > FOREIGN_MAX_ZIP_MEMBERS || e->bytes > FOREIGN_MAX_ZIP_DIRECTORY) {
        (void)zip_refuse(err, PAWL_ELIMIT, NULL, at, "has too many members");
        error_expected(err, "at most %u members, and %u bytes of names", FOREIGN_MAX_ZIP_MEMBERS,
                       FOREIGN_MAX_ZIP_DIRECTORY);
        error_found(err, "%llu, and %llu bytes", (unsigned long long)e->count,
                    (unsigned long long)e->bytes);
        return PAWL_ELIMIT;
    }
    if (e->directory > e->at || e->at - e->directory != e->bytes ||
        e->bytes / CENTRAL_BYTES < e->count) {
        (void)zip_refuse(err, PAWL_EDAMAGED, NULL, at,
                         "has a directory that is not before its end");
        error_expected(err, "a directory that ends at byte %llu", (unsigned long long)e->at);
        error_found(err, "%llu %s in %llu bytes from byte %llu on", (unsigned long long)e->count,
                    text_noun(e->count, "member", "members"), (unsigned long long)e->bytes,
                    (unsigned long long)e->directory);
        return PAWL_EDAMAGED;
    }
    return PAWL_OK;
}

static pawl_status read_end(const byte_source *file, ending *out, pawl_error *err) {
    CLEANUP(buffer_free) buffer tail = {0};
    size_t most = LOCATOR_BYTES + END_BYTES + MAX_COMMENT;
    size_t n = file->size < most ? (size_t)file->size : most;
    size_t at;
    if (n < END_BYTES) {
        return no_end(file, err);
    }
    TRY(buffer_reserve(&tail, n, err));
    TRY(file->read_at(file->context, file->size - n, tail.data, n, err));
    if (!find_end(tail.data, n, &at)) {
        return no_end(file, err);
    }
    const uint8_t *r = tail.data + at;
    uint64_t end = file->size - n + at;
    *out = (ending){.at = end,
                    .disk = larger(zip_u16(r + 4), zip_u16(r + 6)),
                    .here = zip_u16(r + 8),
                    .count = zip_u16(r + 10),
                    .bytes = zip_u32(r + 12),
                    .directory = zip_u32(r + 16)};
    if (at >= LOCATOR_BYTES && zip_u32(r - LOCATOR_BYTES) == LOCATOR) {
        TRY(read_end_64(file, r - LOCATOR_BYTES, end - LOCATOR_BYTES, out, err));
    }
    return check_end(out, end, err);
}

/* ---- a member ---- */

bool zip_take_extra(const uint8_t *extra, size_t n, zip_numbers *numbers) {
    uint64_t *const wanted[] = {&numbers->bytes, &numbers->packed_bytes, &numbers->at};
    size_t missing = 0;
    for (size_t i = 0; i < ARRAY_LENGTH(wanted); i++) {
        missing += *wanted[i] == ZIP_NO_SIZE;
    }
    for (size_t at = 0; missing > 0 && n - at >= 4;) {
        size_t bytes = zip_u16(extra + at + 2);
        const uint8_t *from = extra + at + 4;
        if (bytes > n - at - 4) {
            return false;
        }
        if (zip_u16(extra + at) == EXTRA_64) {
            for (size_t i = 0; i < ARRAY_LENGTH(wanted) && bytes >= 8; i++) {
                if (*wanted[i] == ZIP_NO_SIZE) {
                    *wanted[i] = zip_u64(from);
                    from += 8;
                    bytes -= 8;
                    missing--;
                }
            }
            return missing == 0;
        }
        at += 4 + bytes;
    }
    return missing == 0;
}

static const char *method_name(unsigned method) {
    static const struct {
        unsigned method;
        const char *name;
    } names[] = {{1, "shrunk"}, {6, "imploded"},  {9, "deflate64"}, {12, "bzip2"},
                 {14, "LZMA"},  {20, "zstd"},     {93, "zstd"},     {95, "xz"},
                 {98, "PPMd"},  {99, "encrypted"}};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        if (names[i].method == method) {
            return names[i].name;
        }
    }
    return "unknown";
}

/* "..", between separators of any system. */
static bool leads_up(const char *name) {
    for (const char *at = name; at != NULL && *at != '\0';) {
        size_t n = strcspn(at, "/\\");
        if (n == 2 && at[0] == '.' && at[1] == '.') {
            return true;
        }
        at += at[n] != '\0' ? n + 1 : n;
    }
    return false;
}

/* "w:0" is a name as any other, "c:/w" a path of one system. */
static bool has_drive(const char *name) {
    char letter = (char)(name[0] | 0x20);
    return letter >= 'a' && letter <= 'z' && name[1] == ':' && (name[2] == '/' || name[2] == '\\');
}

const char *zip_name_leads_out(const char *name) {
    if (name[0] == '/' || name[0] == '\\' || has_drive(name)) {
        return "has a name that is an absolute path";
    }
    return leads_up(name) ? "has a name that leads out of it" : NULL;
}

static pawl_status check_name(const char *name, size_t n, uint64_t at, pawl_error *err) {
    if (n == 0) {
        return zip_refuse(err, PAWL_EDAMAGED, NULL, at, "has a member without a name");
    }
    if (memchr(name, '\0', n) != NULL) {
        return zip_refuse(err, PAWL_EDAMAGED, NULL, at, "has a name with a NUL");
    }
    if (!utf8_valid(name, n)) {
        return zip_refuse(err, PAWL_EUNSUPPORTED, NULL, at, "has a name that is not UTF-8");
    }
    const char *leads = zip_name_leads_out(name);
    return leads != NULL ? zip_refuse(err, PAWL_EDAMAGED, name, at, leads) : PAWL_OK;
}

static pawl_status check_kind(const uint8_t *r, const zip_member *m, uint64_t at, pawl_error *err) {
    unsigned flags = zip_u16(r + 8);
    unsigned method = zip_u16(r + 10);
    unsigned type = zip_u32(r + 38) >> 16 & ATTRIBUTES_TYPE;
    bool folder = m->name[m->name_bytes - 1] == '/';
    if ((flags & (ZIP_FLAG_LOCKED | ZIP_FLAG_STRONG | ZIP_FLAG_MASKED)) != 0) {
        return zip_refuse(err, PAWL_EUNSUPPORTED, m->name, at, "has an encrypted member");
    }
    if ((flags & ZIP_FLAG_PATCH) != 0) {
        return zip_refuse(err, PAWL_EUNSUPPORTED, m->name, at, "has a patch");
    }
    if (method != ZIP_METHOD_STORED && method != ZIP_METHOD_PACKED) {
        (void)zip_refuse(err, PAWL_EUNSUPPORTED, m->name, at,
                         "has a member that is compressed in a way that is not read");
        error_expected(err, "stored or deflated (method 0 or 8)");
        error_found(err, "%s (method %u)", method_name(method), method);
        return PAWL_EUNSUPPORTED;
    }
    if (type != 0 && type != ATTRIBUTES_FILE && !(folder && type == ATTRIBUTES_FOLDER)) {
        return zip_refuse(err, PAWL_EUNSUPPORTED, m->name, at,
                          "has a link, or something else that is no file");
    }
    if (folder && m->bytes != 0) {
        return zip_refuse(err, PAWL_EDAMAGED, m->name, at, "has a directory with bytes of its own");
    }
    return PAWL_OK;
}

static pawl_status sizes_lie(const zip_member *m, uint64_t at, pawl_error *err) {
    (void)zip_refuse(err, PAWL_EDAMAGED, m->name, at, "has a member whose sizes cannot be");
    error_expected(err, m->deflated ? "at most 1032 bytes of each compressed one"
                                    : "as many stored bytes as there are");
    error_found(err, "%llu of %llu", (unsigned long long)m->bytes,
                (unsigned long long)m->packed_bytes);
    return PAWL_EDAMAGED;
}

static pawl_status check_sizes(const zip_directory *d, const zip_member *m, uint64_t at,
                               pawl_error *err) {
    uint64_t end;
    if (add_overflows(m->at, ZIP_LOCAL_BYTES + (uint64_t)m->name_bytes, &end) ||
        add_overflows(end, m->packed_bytes, &end) || end > d->at) {
        (void)zip_refuse(err, PAWL_EDAMAGED, m->name, at,
                         "has a member that is not before the directory");
        error_expected(err, "%llu bytes from byte %llu on, before byte %llu",
                       (unsigned long long)m->packed_bytes, (unsigned long long)m->at,
                       (unsigned long long)d->at);
        return PAWL_EDAMAGED;
    }
    /* No product overflows: there are so many bytes in the file. */
    bool fits = m->deflated ? m->bytes / DEFLATE_MOST_TIMES <= m->packed_bytes
                            : m->bytes == m->packed_bytes;
    return fits ? PAWL_OK : sizes_lie(m, at, err);
}

static pawl_status keep_name(zip_directory *d, const uint8_t *bytes, size_t n, const char **out,
                             pawl_error *err) {
    char *name = arena_take(&d->memory, n + 1, err);
    if (name == NULL) {
        return PAWL_ENOMEM;
    }
    memcpy(name, bytes, n);
    name[n] = '\0';
    *out = name;
    return PAWL_OK;
}

static pawl_status take_member(zip_directory *d, cursor *c, zip_member *m, pawl_error *err) {
    uint64_t at = c->base + c->at;
    const uint8_t *r, *rest;
    TRY(cursor_bytes(c, CENTRAL_BYTES, &r, err));
    if (zip_u32(r) != CENTRAL) {
        return zip_refuse(err, PAWL_EDAMAGED, NULL, at,
                          "has something in its directory that is no member");
    }
    size_t name_bytes = zip_u16(r + 28);
    size_t extra_bytes = zip_u16(r + 30);
    TRY(cursor_bytes(c, name_bytes + extra_bytes + zip_u16(r + 32), &rest, err));
    zip_numbers numbers = {
        .bytes = zip_u32(r + 24), .packed_bytes = zip_u32(r + 20), .at = zip_u32(r + 42)};
    if (!zip_take_extra(rest + name_bytes, extra_bytes, &numbers)) {
        return zip_refuse(err, PAWL_EDAMAGED, NULL, at, "has a member without its sizes");
    }
    if (zip_u16(r + 34) != 0) {
        return zip_refuse(err, PAWL_EUNSUPPORTED, NULL, at, "is one of several parts");
    }
    *m = (zip_member){.at = numbers.at,
                      .packed_bytes = numbers.packed_bytes,
                      .bytes = numbers.bytes,
                      .crc32 = zip_u32(r + 16),
                      .name_bytes = (uint16_t)name_bytes,
                      .deflated = zip_u16(r + 10) == ZIP_METHOD_PACKED,
                      .described = (zip_u16(r + 8) & ZIP_FLAG_BEHIND) != 0};
    TRY(keep_name(d, rest, name_bytes, &m->name, err));
    TRY(check_name(m->name, name_bytes, at, err));
    TRY(check_kind(r, m, at, err));
    return check_sizes(d, m, at, err);
}

/* ---- all of them ---- */

static int by_name(const void *left, const void *right) {
    const zip_member *a = *(const zip_member *const *)left;
    const zip_member *b = *(const zip_member *const *)right;
    return strcmp(a->name, b->name);
}

static pawl_status sort_names(zip_directory *d, pawl_error *err) {
    d->by_name = arena_take(&d->memory, (d->count + 1) * sizeof(void *), err);
    if (d->by_name == NULL) {
        return PAWL_ENOMEM;
    }
    for (size_t i = 0; i < d->count; i++) {
        d->by_name[i] = &d->members[i];
    }
    if (d->count > 1) {
        qsort(d->by_name, d->count, sizeof(void *), by_name);
    }
    for (size_t i = 1; i < d->count; i++) {
        const zip_member *m = d->by_name[i];
        if (strcmp(d->by_name[i - 1]->name, m->name) == 0) {
            return zip_refuse(err, PAWL_EDAMAGED, m->name, m->at, "has a name twice");
        }
    }
    return PAWL_OK;
}

/* A size is at most FOREIGN_MAX_ZIP_DIRECTORY. */
static pawl_status read_members(const byte_source *file, const ending *e, zip_directory *d,
                                pawl_error *err) {
    AUTOFREE uint8_t *records = mem_alloc((size_t)e->bytes);
    d->at = e->directory;
    d->bytes = e->bytes;
    d->members = arena_take(&d->memory, ((size_t)e->count + 1) * sizeof(*d->members), err);
    if (records == NULL || d->members == NULL) {
        return error_nomem(err, e->bytes);
    }
    if (e->bytes > 0) {
        TRY(file->read_at(file->context, e->directory, records, (size_t)e->bytes, err));
    }
    cursor c = cursor_of(records, (size_t)e->bytes, e->directory, "directory of the zip file");
    for (; d->count < e->count; d->count++) {
        TRY(take_member(d, &c, &d->members[d->count], err));
    }
    if (cursor_left(&c) > 0) {
        return zip_refuse(err, PAWL_EDAMAGED, NULL, c.base + c.at,
                          "has more in its directory than members");
    }
    return PAWL_OK;
}

static pawl_status read_all(const byte_source *file, bool locals, zip_directory *d,
                            pawl_error *err) {
    ending e = {.at = 0};
    TRY(read_end(file, &e, err));
    TRY(read_members(file, &e, d, err));
    TRY(sort_names(d, err));
    return locals ? zip_read_locals(file, d, err) : PAWL_OK;
}

static pawl_status read_or_free(const byte_source *file, bool locals, zip_directory *out,
                                pawl_error *err) {
    *out = (zip_directory){.count = 0};
    pawl_status status = read_all(file, locals, out, err);
    if (status != PAWL_OK) {
        zip_free(out);
    }
    return status;
}

pawl_status zip_read(const byte_source *file, zip_directory *out, pawl_error *err) {
    return read_or_free(file, true, out, err);
}

pawl_status zip_read_names(const byte_source *file, zip_directory *out, pawl_error *err) {
    return read_or_free(file, false, out, err);
}

void zip_free(zip_directory *d) {
    arena_free(&d->memory);
    *d = (zip_directory){.count = 0};
}

const zip_member *zip_find(const zip_directory *d, const char *name) {
    size_t low = 0;
    size_t high = d->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(d->by_name[middle]->name, name);
        if (order == 0) {
            return d->by_name[middle];
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return NULL;
}
