/* SPDX-License-Identifier: Apache-2.0 */
/* Finds an entry of a checkpoint by its name, or the most similar name. */
#include "checkpoint/private.h"

#include <stdio.h>
#include <string.h>

#define NEAR_LOOKED_AT 400u /* entries compared from each starting point */
#define NEAR_LIKENESS  0.6

/* ---- similar names ---- */

typedef struct near_search {
    const char *name;
    double best;
    char *out;
    size_t size;
} near_search;

static void keep_if_nearer(near_search *n, const char *name) {
    double likeness = text_likeness(n->name, name);
    if (likeness > n->best && utf8_valid(name, strlen(name))) {
        n->best = likeness;
        snprintf(n->out, n->size, "%s", name);
    }
}

/* Compares entries from the first one whose name is not less than the first `length` bytes of
 * `name`. */
static void search_from(near_search *n, struct source *s, size_t length) {
    struct pawl_error ignored = ERROR_INIT;
    char from[PAWL_MAX_NAME_BYTES + 1];
    source_walk *walk;
    const record_entry *entry = NULL;
    snprintf(from, sizeof(from), "%.*s", (int)length, n->name);
    if (s->ops->walk(s, "", from, &walk, &ignored) != PAWL_OK) {
        return;
    }
    for (unsigned i = 0; i < NEAR_LOOKED_AT; i++) {
        if (s->ops->next(walk, &entry, &ignored) != PAWL_OK || entry == NULL) {
            break;
        }
        if (strnlen(entry->name, PAWL_MAX_NAME_BYTES + 1) <= PAWL_MAX_NAME_BYTES) {
            keep_if_nearer(n, entry->name);
        }
    }
    s->ops->end(walk);
}

/* The name of an entry that is spelt most like `name`; false when none is similar. */
static bool find_similar(pawl_checkpoint *c, const char *name, char *out, size_t size) {
    near_search n = {.name = name, .best = NEAR_LIKENESS, .out = out, .size = size};
    size_t length = strlen(name);
    out[0] = '\0';
    /* From where the name would be, from its parent a/b/, from a/, and from the first entry. */
    for (int i = 0; i < 3 && length > 0; i++) {
        search_from(&n, c->source, length);
        do {
            length--;
        } while (length > 0 && name[length - 1] != '/');
    }
    search_from(&n, c->source, 0);
    return out[0] != '\0';
}

void checkpoint_say_how_to_list(const pawl_checkpoint *c, pawl_error *err) {
    const struct source *s = c->source;
    if (s->step >= 0) {
        error_next(err, "see its entries with: pawl show %s@%lld", s->store->root,
                   (long long)s->step);
    } else {
        error_next(err, "see its entries with: pawl show %s", s->path);
    }
}

static pawl_status entry_not_found(pawl_checkpoint *c, const char *name, pawl_error *err) {
    char near[PAWL_MAX_NAME_BYTES + 1];
    error_set(err, PAWL_ENOTFOUND, "the checkpoint has no entry of this name");
    error_path(err, "%s", c->source->path);
    error_entry(err, name);
    error_step(err, c->source->step);
    if (find_similar(c, name, near, sizeof(near))) {
        error_next(err, "did you mean %s?", near);
    } else {
        checkpoint_say_how_to_list(c, err);
    }
    return PAWL_ENOTFOUND;
}

/* ---- finding ---- */

static pawl_status another_name(const record_entry *entry, const char *name, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "an entry has another name than the one it was found by");
    error_entry(err, name);
    error_expected(err, "\"%s\"", name);
    error_found(err, "\"%s\"", entry->name);
    return PAWL_EDAMAGED;
}

static pawl_status find_checked(pawl_checkpoint *c, const char *name, arena *memory,
                                record_entry *out, bool *found, pawl_error *err) {
    struct source *s = c->source;
    *found = false;
    TRY(s->ops->find(s, name, memory, out, found, err));
    if (!*found) {
        return PAWL_OK;
    }
    TRY(entry_check_of(s, out, err));
    return strcmp(out->name, name) == 0 ? PAWL_OK : another_name(out, name, err);
}

pawl_status checkpoint_entry(pawl_checkpoint *c, const char *name, arena *memory, record_entry *out,
                             pawl_error *err) {
    bool found;
    if (strlen(name) > PAWL_MAX_NAME_BYTES) {
        return error_set(err, PAWL_ENOTFOUND, "no entry has a name of more than %d bytes",
                         PAWL_MAX_NAME_BYTES);
    }
    TRY(checkpoint_held(c, err));
    pawl_status status = find_checked(c, name, memory, out, &found, err);
    if (status == PAWL_OK && !found) {
        return entry_not_found(c, name, err);
    }
    return status == PAWL_OK ? PAWL_OK : checkpoint_entry_failed(c, status, err);
}

/* ---- what can be read of it ---- */

static pawl_status not_a_tensor(const pawl_checkpoint *c, const record_entry *entry,
                                const char *what, pawl_error *err) {
    error_set(err, PAWL_EUSAGE, "only tensors %s", what);
    error_path(err, "%s", c->source->path);
    error_entry(err, entry->name);
    error_expected(err, "a tensor");
    error_found(err, "a value of kind %s", pawl_kind_name(entry->kind));
    error_next(err, entry->per_rank ? "read it with pawl_checkpoint_read_rank"
                                    : "pawl_checkpoint_find gives its value");
    return PAWL_EUSAGE;
}

static pawl_status no_dtype(const pawl_checkpoint *c, const record_entry *entry, pawl_error *err) {
    error_set(err, PAWL_EUNSUPPORTED, "the values of a tensor cannot be read");
    error_path(err, "%s", c->source->path);
    error_entry(err, entry->name);
    error_expected(err, "a type of element that pawl knows, such as F32");
    error_found(err, "%.100s", record_entry_type(entry));
    error_next(err, "read it with the tool that wrote it");
    return PAWL_EUNSUPPORTED;
}

pawl_status checkpoint_tensor_entry(pawl_checkpoint *c, const char *name, const char *what,
                                    arena *memory, record_entry *out, pawl_error *err) {
    TRY(checkpoint_entry(c, name, memory, out, err));
    if (out->kind != PAWL_KIND_TENSOR) {
        return not_a_tensor(c, out, what, err);
    }
    return dtype_valid(out->dtype) ? PAWL_OK : no_dtype(c, out, err);
}

static uint64_t entry_bytes(const record_entry *entry) {
    if (entry->kind == PAWL_KIND_TENSOR && dtype_valid(entry->dtype)) {
        return shape_bytes(entry->dtype, entry->ndim, entry->shape);
    }
    return entry->value != NULL || entry->piece_count == 0 ? entry->value_bytes
                                                           : entry->pieces[0].bytes;
}

void checkpoint_entry_info(const record_entry *entry, pawl_entry_info *info) {
    bool tensor = entry->kind == PAWL_KIND_TENSOR;
    *info = (pawl_entry_info){
        .name = entry->name,
        .kind = entry->kind,
        .role = entry->role,
        .slot_of = entry->slot_of,
        .slot = entry->slot,
        .per_rank = entry->per_rank,
        .replicated = entry->replicated,
        .dtype = tensor ? entry->dtype : 0,
        .ndim = tensor ? entry->ndim : 0,
        .shape = tensor ? entry->shape : NULL,
        .bytes = entry_bytes(entry),
        .pieces = entry->piece_count,
        .value = tensor || entry->per_rank ? NULL : entry->value,
        .type = record_entry_type(entry),
    };
}

pawl_status checkpoint_find(pawl_checkpoint *c, const char *name, pawl_entry_info *info,
                            pawl_error *err) {
    record_entry entry = {0};
    arena_free(&c->found_memory);
    TRY(checkpoint_entry(c, name, &c->found_memory, &entry, err));
    checkpoint_entry_info(&entry, info);
    return PAWL_OK;
}
