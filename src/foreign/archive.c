/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint of another tool as a source, whatever its format. */
#include "foreign/archive.h"
#include "foreign/streams.h"

#include <stdio.h>
#include <string.h>

static archive *archive_of(struct source *s) {
    return (archive *)s;
}

/* ---- files ---- */

static source_file get_file(struct source *s, uint32_t number) {
    const archive *a = archive_of(s);
    uint32_t file = archive_file_of(a, number);
    uint32_t real = ARCHIVE_PHASES * s->files;
    if (number >= real) {
        return (source_file){.name = a->files[file].path, .bytes = a->streams[number - real].bytes};
    }
    uint64_t skip = number / s->files;
    uint64_t bytes = a->files[file].was.size;
    return (source_file){.name = a->files[file].path, .bytes = bytes > skip ? bytes - skip : 0};
}

static pawl_status open_stream(struct source *s, uint32_t number, store_mode mode, store_file **out,
                               pawl_error *err) {
    return archive_open_stream(archive_of(s), number, mode, out, err);
}

static bool is_lost(struct source *s, const char *file, pawl_error *err) {
    const archive *a = archive_of(s);
    struct pawl_error story = ERROR_INIT;
    uint32_t i = 0;
    while (i < s->files && strcmp(a->files[i].path, file) != 0) {
        i++;
    }
    if (i == s->files || archive_unchanged(a, &a->files[i], &story) != PAWL_EBUSY) {
        return false;
    }
    *err = story;
    return true;
}

/* ---- entries ---- */

/* The first entry whose name is not less. */
static size_t lower_bound(const archive *a, const char *name) {
    size_t low = 0;
    size_t high = (size_t)a->base.entries;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(a->entries[middle].name, name) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

typedef struct archive_walk {
    source_walk base;
    size_t next;
    char *prefix;
} archive_walk;

static pawl_status begin_walk(struct source *s, const char *prefix, const char *from,
                              source_walk **out, pawl_error *err) {
    archive_walk *walk = mem_calloc(1, sizeof(*walk));
    if (walk == NULL) {
        return error_nomem(err, sizeof(*walk));
    }
    walk->base.of = s;
    walk->next = lower_bound(archive_of(s), from);
    walk->prefix = mem_strdup(prefix);
    if (walk->prefix == NULL) {
        mem_free(walk);
        return error_nomem(err, strlen(prefix) + 1);
    }
    *out = &walk->base;
    return PAWL_OK;
}

static pawl_status walk_on(source_walk *base, const record_entry **out, pawl_error *err) {
    archive_walk *walk = (archive_walk *)base;
    const archive *a = archive_of(base->of);
    (void)err;
    *out = NULL;
    if (walk->next < a->base.entries) {
        const record_entry *e = &a->entries[walk->next++];
        *out = strncmp(e->name, walk->prefix, strlen(walk->prefix)) == 0 ? e : NULL;
    }
    return PAWL_OK;
}

static void end_walk(source_walk *base) {
    archive_walk *walk = (archive_walk *)base;
    mem_free(walk->prefix);
    mem_free(walk);
}

static pawl_status find_entry(struct source *s, const char *name, arena *memory, record_entry *out,
                              bool *found, pawl_error *err) {
    const archive *a = archive_of(s);
    size_t at = lower_bound(a, name);
    (void)memory;
    (void)err;
    *found = at < s->entries && strcmp(a->entries[at].name, name) == 0;
    if (*found) {
        *out = a->entries[at];
    }
    return PAWL_OK;
}

static pawl_status entry_failed(struct source *s, pawl_status status, pawl_error *err) {
    if (status != PAWL_ENOMEM && err->path[0] == '\0') {
        error_path(err, "%s", s->path);
    }
    return status;
}

/* ---- opening once more, verifying ---- */

static bool same_pieces(const record_entry *a, const record_entry *b) {
    bool same = a->piece_count == b->piece_count;
    for (size_t i = 0; same && i < a->piece_count; i++) {
        same = a->pieces[i].file == b->pieces[i].file &&
               a->pieces[i].offset == b->pieces[i].offset &&
               a->pieces[i].bytes == b->pieces[i].bytes;
    }
    return same;
}

static bool same_value(const record_entry *a, const record_entry *b) {
    return a->value_bytes == b->value_bytes &&
           (a->value_bytes == 0 || memcmp(a->value, b->value, a->value_bytes) == 0);
}

/* Do the files say the same of what is in them? */
static bool are_alike(const archive *was, const archive *is) {
    bool same = was->base.files == is->base.files && was->base.entries == is->base.entries;
    for (uint32_t i = 0; same && i < was->base.files; i++) {
        same = strcmp(was->files[i].path, is->files[i].path) == 0 &&
               was->files[i].was.size == is->files[i].was.size;
    }
    for (size_t i = 0; same && i < was->base.entries; i++) {
        const record_entry *a = &was->entries[i];
        const record_entry *b = &is->entries[i];
        same = strcmp(a->name, b->name) == 0 && record_entry_alike(a, b) && same_pieces(a, b) &&
               same_value(a, b);
    }
    return same;
}

static pawl_status all_unchanged(const archive *a, pawl_error *err) {
    for (uint32_t i = 0; i < a->base.files; i++) {
        TRY(archive_unchanged(a, &a->files[i], err));
    }
    for (uint64_t i = 0; i < a->base.described_files; i++) {
        TRY(archive_unchanged(a, &a->described[i], err));
    }
    return PAWL_OK;
}

static pawl_status open_again(struct source *s, struct source **out, pawl_error *err) {
    const archive *a = archive_of(s);
    struct source *again = NULL;
    TRY(all_unchanged(a, err));
    TRY(archive_open(s->store, false, a->format, a->name, a->whole, &again, err));
    pawl_status status = all_unchanged(a, err); /* the other one has seen the same files, too */
    if (status == PAWL_OK && !are_alike(a, archive_of(again))) {
        status = error_set(err, PAWL_EBUSY, "the checkpoint was changed while it was open");
        error_path(err, "%s", s->path);
        error_next(err, "open it again");
    }
    if (status != PAWL_OK) {
        source_destroy(again);
        return status;
    }
    *out = again;
    return PAWL_OK;
}

static void tell(source_verifier *v, const archive *a, pawl_error *story) {
    const char *slash = strrchr(story->path, '/');
    v->problem(v->context, slash != NULL ? slash + 1 : a->name,
               story->entry[0] != '\0' ? story->entry : NULL, story);
}

/* Files that were changed meanwhile end the verification: what was opened cannot be told of. */
static pawl_status verify_archive(struct source *s, source_verifier *v, pawl_error *err) {
    archive *a = archive_of(s);
    struct pawl_error story = ERROR_INIT;
    struct source *again = NULL;
    /* What has just been read was compared with what it was when it was opened. */
    pawl_status status = v->parts == NULL ? open_again(s, &again, &story) : PAWL_OK;
    if (status == PAWL_ENOMEM || status == PAWL_EBUSY) {
        *err = story;
        return status;
    }
    source_destroy(again);
    if (status != PAWL_OK) {
        tell(v, a, &story);
    }
    if (a->format->verify != NULL) {
        TRY(a->format->verify(a, v, err));
    }
    return v->progress(v->context, s->described_bytes, err);
}

/* ---- describing, closing, opening ---- */

static bool in_file(struct source *s, uint32_t *file, uint64_t *at) {
    if (*file >= ARCHIVE_PHASES * s->files) {
        return false;
    }
    *at += *file / s->files; /* without that many bytes at its beginning */
    *file %= s->files;
    return true;
}

static void describe_archive(struct source *s, pawl_checkpoint_info *info) {
    const archive *a = archive_of(s);
    for (uint32_t i = 0; i < s->files; i++) {
        int64_t modified = a->files[i].was.modified_unix_ns;
        info->unix_time_ns = modified > info->unix_time_ns ? modified : info->unix_time_ns;
    }
    info->index_bytes = s->described_bytes;
}

static void destroy_archive(struct source *s) {
    archive *a = archive_of(s);
    if (a->free_details != NULL) {
        a->free_details(a->details);
    }
    mem_free(a->files);
    mem_free(a->slots);
    mem_free(a->described);
    mem_free(a->streams);
    mem_free(a->entries);
    buffer_free(&a->values.bytes);
    stream_packed_end(a);
    monitor_destroy(&a->packed.lock);
    arena_free(&s->memory);
    if (s->own_store) {
        store_destroy(s->store);
    }
    mem_free(a);
}

static const source_ops archive_ops = {
    .walk = begin_walk,
    .next = walk_on,
    .end = end_walk,
    .find = find_entry,
    .file = get_file,
    .open = open_stream,
    .open_again = open_again,
    .in_file = in_file,
    .lost = is_lost,
    .entry_failed = entry_failed,
    .verify = verify_archive,
    .describe = describe_archive,
    .identity = archive_identity,
    .destroy = destroy_archive,
};

static pawl_status set_texts(archive *a, const char *name, pawl_error *err) {
    struct source *s = &a->base;
    const char *root = s->store->root;
    const char *slash = strcmp(root, "/") == 0 ? "" : "/";
    a->name = arena_strdup(&s->memory, name);
    s->path = a->whole ? arena_strdup(&s->memory, root)
                       : arena_printf(&s->memory, "%s%s%s", root, slash, name);
    s->label = a->name;
    return a->name != NULL && s->path != NULL ? PAWL_OK : error_nomem(err, STORE_MAX_PATH);
}

static pawl_status read_archive(archive *a, const char *name, pawl_error *err) {
    TRY(set_texts(a, name, err));
    TRY(a->format->read(a, err));
    TRY(archive_finish(a, err));
    return a->format->compare != NULL ? a->format->compare(a, err) : PAWL_OK;
}

pawl_status archive_open(store *s, bool own_store, const archive_format *format, const char *name,
                         bool whole, struct source **out, pawl_error *err) {
    archive *a = mem_calloc(1, sizeof(*a));
    if (a == NULL) {
        if (own_store) {
            store_destroy(s);
        }
        return error_nomem(err, sizeof(*a));
    }
    pawl_status status = monitor_init(&a->packed.lock, err);
    if (status != PAWL_OK) {
        if (own_store) {
            store_destroy(s);
        }
        mem_free(a);
        return status;
    }
    a->base = (struct source){.ops = &archive_ops,
                              .format = format->name,
                              .unverified = format->unverified,
                              .sums_apart = format->sums,
                              .sum = format->sum,
                              .store = s,
                              .own_store = own_store,
                              .directory = "",
                              .step = -1};
    a->format = format;
    a->whole = whole;
    a->values.recipe.open = stream_of_values;
    status = read_archive(a, name, err);
    if (status != PAWL_OK) {
        destroy_archive(&a->base);
        return status;
    }
    *out = &a->base;
    return PAWL_OK;
}
