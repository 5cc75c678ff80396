/* SPDX-License-Identifier: Apache-2.0 */
/* The entries of A by the names that rename rules give them, which have another order. */
#include "diff/private.h"

#include <stdlib.h>
#include <string.h>

void renamed_entries_free(renamed_entries *r) {
    mem_free(r->items);
    arena_free(&r->memory);
}

static pawl_status add(const comparison *c, renamed_entries *r, const char *from, buffer *room,
                       pawl_error *err) {
    const char *name;
    pawl_status status = rename_apply(&c->renames, from, room, &name, err);
    if (status != PAWL_OK) {
        error_entry(err, from);
        return status;
    }
    TRY(vec_reserve(&r->items, &r->capacity, r->count + 1, sizeof(*r->items), err));
    renamed_entry *entry = &r->items[r->count];
    entry->from = arena_strdup(&r->memory, from);
    entry->name = name != from ? arena_strdup(&r->memory, name) : entry->from;
    if (entry->from == NULL || entry->name == NULL) {
        return error_nomem(err, strlen(from));
    }
    r->count++;
    return PAWL_OK;
}

static pawl_status add_all(const comparison *c, pawl_entries *walk, renamed_entries *r,
                           buffer *room, pawl_error *err) {
    pawl_entry_info info;
    int more = 1;
    TRY(entries_next(walk, &info, &more, err));
    while (more != 0) {
        TRY(add(c, r, info.name, room, err));
        TRY(entries_next(walk, &info, &more, err));
    }
    return PAWL_OK;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const renamed_entry *)a)->name, ((const renamed_entry *)b)->name);
}

static pawl_status check_names(const renamed_entries *r, pawl_error *err) {
    for (size_t i = 1; i < r->count; i++) {
        if (by_name(&r->items[i - 1], &r->items[i]) == 0) {
            error_set(err, PAWL_EUSAGE, "two entries would have one name");
            error_entry(err, r->items[i].name);
            error_expected(err, "rename rules that give each entry a name of its own");
            error_found(err, "it stands for %.200s and for %.200s", r->items[i - 1].from,
                        r->items[i].from);
            return PAWL_EUSAGE;
        }
    }
    return PAWL_OK;
}

pawl_status diff_rename(const comparison *c, renamed_entries *out, pawl_error *err) {
    CLEANUP(buffer_free) buffer room = {0};
    pawl_entries *walk = NULL;
    pawl_status status = entries_open(c->a, "", &walk, err);
    if (status == PAWL_OK) {
        status = add_all(c, walk, out, &room, err);
    }
    pawl_entries_free(walk);
    TRY(status);
    if (out->count > 1) {
        qsort(out->items, out->count, sizeof(*out->items), by_name);
    }
    return check_names(out, err);
}
