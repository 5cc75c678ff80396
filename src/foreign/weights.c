/* SPDX-License-Identifier: Apache-2.0 */
/* A safetensors file, or the sharded ones of a Hugging Face directory, as a source. */
#include "foreign/weights.h"

#include <stdio.h>
#include <string.h>

#define FILE_ENDING  ".safetensors"
#define INDEX_ENDING ".safetensors.index.json"
#define PHASES       8u /* elements are aligned to 8 bytes at most */

static weights *weights_of(struct source *s) {
    return (weights *)s;
}

static bool ends_with(const char *name, const char *ending) {
    size_t n = strlen(name);
    size_t of = strlen(ending);
    return n > of && strcmp(name + n - of, ending) == 0;
}

bool weights_is_index(const char *name) {
    return ends_with(name, INDEX_ENDING);
}

bool foreign_opens(const char *name) {
    return ends_with(name, FILE_ENDING) || weights_is_index(name);
}

void weights_file_path(const weights *w, const char *file, pawl_error *err) {
    store_error_path(err, w->base.store, file);
}

/* ---- files ---- */

static source_file weights_file(struct source *s, uint32_t number) {
    const weights *w = weights_of(s);
    uint32_t shard = number % s->files;
    return (source_file){.name = w->shards[shard],
                         .bytes = w->headers[shard].file_bytes - number / s->files};
}

static pawl_status weights_open(struct source *s, uint32_t number, store_mode mode,
                                store_file **out, pawl_error *err) {
    return weights_open_file(weights_of(s), number % s->files, number / s->files, mode, out, err);
}

static bool weights_lost(struct source *s, const char *file, pawl_error *err) {
    const weights *w = weights_of(s);
    struct pawl_error story = ERROR_INIT;
    uint32_t shard = 0;
    while (shard < s->files && strcmp(w->shards[shard], file) != 0) {
        shard++;
    }
    if (shard == s->files || weights_unchanged(w, shard, &story) != PAWL_EBUSY) {
        return false;
    }
    *err = story;
    return true;
}

/* ---- entries ---- */

typedef struct described {
    record_piece piece;
    int64_t zeros[PAWL_MAX_NDIM];
    int64_t extent[PAWL_MAX_NDIM];
} described;

/* Where the elements are not aligned in their file, they are in the one that begins later. */
static void describe_entry(const weights *w, const weight *e, described *d, record_entry *out) {
    const safetensors_tensor *t = e->tensor;
    uint32_t phase = (uint32_t)(t->offset % dtype_alignment(t->dtype));
    size_t dims = (size_t)t->ndim * sizeof(d->zeros[0]);
    memset(d->zeros, 0, dims);
    memcpy(d->extent, t->shape, dims);
    d->piece = (record_piece){.file = e->shard + phase * w->base.files,
                              .offset = t->offset - phase,
                              .bytes = t->bytes,
                              .box_offset = d->zeros,
                              .box_extent = d->extent};
    *out = (record_entry){.name = t->name,
                          .kind = PAWL_KIND_TENSOR,
                          .role = PAWL_ROLE_MODEL,
                          .dtype = t->dtype,
                          .type = t->type,
                          .ndim = t->ndim,
                          .shape = t->shape,
                          .pieces = &d->piece,
                          .piece_count = 1};
}

/* The first entry whose name is not less. */
static size_t lower_bound(const weights *w, const char *name) {
    size_t low = 0;
    size_t high = (size_t)w->base.entries;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(w->entries[middle].tensor->name, name) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

typedef struct weights_walk {
    source_walk base;
    size_t next;
    char *prefix;
    described at;
    record_entry entry;
} weights_walk;

static pawl_status walk_weights(struct source *s, const char *prefix, const char *from,
                                source_walk **out, pawl_error *err) {
    weights_walk *walk = mem_calloc(1, sizeof(*walk));
    if (walk == NULL) {
        return error_nomem(err, sizeof(*walk));
    }
    walk->base.of = s;
    walk->next = lower_bound(weights_of(s), from);
    walk->prefix = mem_strdup(prefix);
    if (walk->prefix == NULL) {
        mem_free(walk);
        return error_nomem(err, strlen(prefix) + 1);
    }
    *out = &walk->base;
    return PAWL_OK;
}

static pawl_status next_weight(source_walk *base, const record_entry **out, pawl_error *err) {
    weights_walk *walk = (weights_walk *)base;
    const weights *w = weights_of(base->of);
    (void)err;
    *out = NULL;
    if (walk->next < w->base.entries) {
        const weight *e = &w->entries[walk->next++];
        describe_entry(w, e, &walk->at, &walk->entry);
        bool wanted = strncmp(e->tensor->name, walk->prefix, strlen(walk->prefix)) == 0;
        *out = wanted ? &walk->entry : NULL;
    }
    return PAWL_OK;
}

static void end_walk(source_walk *base) {
    weights_walk *walk = (weights_walk *)base;
    mem_free(walk->prefix);
    mem_free(walk);
}

static pawl_status find_weight(struct source *s, const char *name, arena *memory, record_entry *out,
                               bool *found, pawl_error *err) {
    const weights *w = weights_of(s);
    size_t at = lower_bound(w, name);
    *found = at < s->entries && strcmp(w->entries[at].tensor->name, name) == 0;
    if (!*found) {
        return PAWL_OK;
    }
    described *d = arena_take(memory, sizeof(*d), err);
    if (d == NULL) {
        return PAWL_ENOMEM;
    }
    describe_entry(w, &w->entries[at], d, out);
    return PAWL_OK;
}

static pawl_status entry_failed(struct source *s, pawl_status status, pawl_error *err) {
    if (status != PAWL_ENOMEM && err->path[0] == '\0') {
        error_path(err, "%s", s->path);
    }
    return status;
}

/* ---- opening once more, verifying ---- */

static void tell(source_verifier *v, const weights *w, const char *entry, pawl_error *story) {
    const char *slash = strrchr(story->path, '/');
    v->problem(v->context, slash != NULL ? slash + 1 : w->name, entry, story);
}

/* Do the files say the same of their tensors? */
static bool are_alike(const weights *was, const weights *is) {
    bool same = was->base.files == is->base.files && was->base.entries == is->base.entries;
    for (uint32_t i = 0; same && i < was->base.files; i++) {
        same = strcmp(was->shards[i], is->shards[i]) == 0 &&
               was->headers[i].file_bytes == is->headers[i].file_bytes &&
               was->headers[i].data_offset == is->headers[i].data_offset;
    }
    for (size_t i = 0; same && i < was->base.entries; i++) {
        const safetensors_tensor *a = was->entries[i].tensor;
        const safetensors_tensor *b = is->entries[i].tensor;
        same = strcmp(a->name, b->name) == 0 && a->dtype == b->dtype && a->offset == b->offset &&
               shape_equal(a->ndim, a->shape, b->ndim, b->shape);
    }
    return same;
}

static pawl_status all_unchanged(const weights *w, pawl_error *err) {
    for (uint32_t i = 0; i < w->base.files; i++) {
        TRY(weights_unchanged(w, i, err));
    }
    return PAWL_OK;
}

static pawl_status open_again(struct source *s, struct source **out, pawl_error *err) {
    const weights *w = weights_of(s);
    struct source *again = NULL;
    TRY(all_unchanged(w, err));
    TRY(foreign_open(s->store, false, w->name, w->whole, &again, err));
    pawl_status status = all_unchanged(w, err); /* the other one has seen the same files, too */
    if (status == PAWL_OK && !are_alike(w, weights_of(again))) {
        status = error_set(err, PAWL_EBUSY, "the weights were changed while they were open");
        error_path(err, "%s", s->path);
        error_next(err, "open them again");
    }
    if (status != PAWL_OK) {
        source_destroy(again);
        return status;
    }
    *out = again;
    return PAWL_OK;
}

static void check_total_size(const weights *w, source_verifier *v) {
    struct pawl_error story = ERROR_INIT;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < w->base.files; i++) {
        bytes += w->headers[i].file_bytes - w->headers[i].data_offset;
    }
    if (!w->index.has_total_size || w->index.total_size == (double)bytes) {
        return;
    }
    error_set(&story, PAWL_EDAMAGED, "the index of the weights names another size of all tensors");
    weights_file_path(w, w->name, &story);
    error_expected(&story, "a total_size of %llu bytes, as the headers say",
                   (unsigned long long)bytes);
    error_found(&story, "%.17g", w->index.total_size);
    v->problem(v->context, w->name, NULL, &story);
}

/* Files that were changed meanwhile end the verification: what was opened cannot be told of. */
static pawl_status verify_weights(struct source *s, source_verifier *v, pawl_error *err) {
    const weights *w = weights_of(s);
    struct pawl_error story = ERROR_INIT;
    struct source *again = NULL;
    pawl_status status = open_again(s, &again, &story);
    if (status == PAWL_ENOMEM || status == PAWL_EBUSY) {
        *err = story;
        return status;
    }
    source_destroy(again);
    if (status != PAWL_OK) {
        tell(v, w, story.entry[0] != '\0' ? story.entry : NULL, &story);
    }
    check_total_size(w, v);
    return v->progress(v->context, w->index_bytes, err);
}

/* ---- describing, closing, opening ---- */

static void describe_weights(struct source *s, pawl_checkpoint_info *info) {
    const weights *w = weights_of(s);
    for (uint32_t i = 0; i < s->files; i++) {
        int64_t modified = w->seen[i].modified_unix_ns;
        info->unix_time_ns = modified > info->unix_time_ns ? modified : info->unix_time_ns;
    }
    info->index_bytes = w->index_bytes;
}

static void destroy_weights(struct source *s) {
    weights *w = weights_of(s);
    for (uint32_t i = 0; w->headers != NULL && i < s->files; i++) {
        safetensors_header_free(&w->headers[i]);
    }
    mem_free(w->headers);
    mem_free(w->seen);
    mem_free(w->entries);
    shard_index_free(&w->index);
    arena_free(&s->memory);
    if (s->own_store) {
        store_destroy(s->store);
    }
    mem_free(w);
}

static const source_ops weights_ops = {
    .walk = walk_weights,
    .next = next_weight,
    .end = end_walk,
    .find = find_weight,
    .file = weights_file,
    .open = weights_open,
    .open_again = open_again,
    .lost = weights_lost,
    .entry_failed = entry_failed,
    .verify = verify_weights,
    .describe = describe_weights,
    .identity = weights_identity,
    .destroy = destroy_weights,
};

static pawl_status set_texts(weights *w, const char *name, pawl_error *err) {
    struct source *s = &w->base;
    const char *root = s->store->root;
    const char *slash = strcmp(root, "/") == 0 ? "" : "/";
    w->name = arena_strdup(&s->memory, name);
    s->path = w->whole ? arena_strdup(&s->memory, root)
                       : arena_printf(&s->memory, "%s%s%s", root, slash, name);
    s->label = w->name;
    return w->name != NULL && s->path != NULL ? PAWL_OK : error_nomem(err, STORE_MAX_PATH);
}

static pawl_status open_weights(weights *w, const char *name, pawl_error *err) {
    struct source *s = &w->base;
    TRY(set_texts(w, name, err));
    w->sharded = weights_is_index(name);
    s->format = w->sharded ? "safetensors, sharded" : "safetensors";
    s->unverified =
        w->sharded
            ? "checked: the index against the headers, the headers, the sizes, and that every byte "
              "can be read; not checked: the values, because safetensors files have no checksums"
            : "checked: the header, the size, and that every byte can be read; not checked: the "
              "values, because safetensors files have no checksums";
    TRY(weights_read(w, err));
    s->all_files = s->files * PHASES;
    s->described_bytes = w->index_bytes;
    s->described_files = w->sharded ? 1 : 0;
    return PAWL_OK;
}

pawl_status foreign_open(store *s, bool own_store, const char *name, bool whole,
                         struct source **out, pawl_error *err) {
    weights *w = mem_calloc(1, sizeof(*w));
    if (w == NULL) {
        if (own_store) {
            store_destroy(s);
        }
        return error_nomem(err, sizeof(*w));
    }
    w->base = (struct source){
        .ops = &weights_ops, .store = s, .own_store = own_store, .directory = "", .step = -1};
    w->whole = whole;
    pawl_status status = open_weights(w, name, err);
    if (status != PAWL_OK) {
        destroy_weights(&w->base);
        return status;
    }
    *out = &w->base;
    return PAWL_OK;
}
