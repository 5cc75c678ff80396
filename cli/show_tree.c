/* SPDX-License-Identifier: Apache-2.0 */
/* pawl show, the tree of entries. They come sorted by name. */
#include "memory.h"
#include "show.h"
#include "signals.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

enum { INDENT = 2, MAX_INDENT = 40 };

static const column columns[] = {
    {.title = "ENTRY", .shorten_turn = 3, .keeps = 32},
    {.title = "TYPE"},
    {.title = "SHAPE", .shorten_turn = 2},
    {.title = "SIZE", .right = true, .omit_turn = 3},
    {.title = "ROLE", .omit_turn = 2},
    {.title = "VALUE", .shorten_turn = 1, .omit_turn = 1},
};

/* Indented by depth, up to a limit, since a name may have any number of '/'. */
static void put_indented_name(table *t, int depth, const char *name, size_t n, const char *end) {
    int indent = depth * INDENT < MAX_INDENT ? depth * INDENT : MAX_INDENT;
    table_cell(t, "%*s%.*s%s", indent, "", (int)n, name, end);
}

/* Prints the folders of `name` that `before`, the previous name, is not in. Returns the last
 * part of the name, and its depth. */
static const char *put_folders(table *t, const char *before, const char *name, int *depth) {
    const char *part = name;
    bool same = true;
    *depth = 0;
    for (const char *slash = strchr(part, '/'); slash != NULL; slash = strchr(part, '/')) {
        same = same && strncmp(before, name, (size_t)(slash + 1 - name)) == 0;
        if (!same) {
            put_indented_name(t, *depth, part, (size_t)(slash - part), "/");
            table_row(t);
        }
        part = slash + 1;
        (*depth)++;
    }
    return part;
}

/* The last column: of a slot its variable, "one per rank", or the value. */
static char *remark_of(const pawl_entry_info *info, size_t value_columns) {
    if (info->slot_of != NULL) {
        return must_printf("%s of %s", info->slot != NULL ? info->slot : "slot", info->slot_of);
    }
    if (info->per_rank) {
        return must_strdup("one per rank");
    }
    return entry_value(info, value_columns);
}

static void put_entry_row(const output *out, table *t, const char *before,
                          const pawl_entry_info *info) {
    char size[TEXT_SIZE];
    int depth = 0;
    SCOPED(scoped_free) char *shape = entry_shape(info);
    SCOPED(scoped_free) char *remark = remark_of(info, out->value_columns);
    const char *last = put_folders(t, before, info->name, &depth);
    put_indented_name(t, depth, last, strlen(last), "");
    table_cell(t, "%s", entry_type(info));
    table_cell(t, "%s", shape);
    table_cell(t, "%s", text_bytes(size, info->bytes));
    table_cell(t, "%s", pawl_role_name(info->role));
    table_cell(t, "%s", remark);
    table_row(t);
}

static void put_entry_json(json *j, const pawl_entry_info *info) {
    json_begin_object(j, NULL, JSON_INLINE);
    entry_json(j, info);
    json_close(j);
}

static pawl_status walk_entries(output *out, pawl_entries *entries, table *t, uint64_t *shown) {
    bool opened = false;
    pawl_entry_info info = {.struct_size = sizeof info};
    SCOPED(scoped_free) char *before = must_strdup("");
    int more = 1;
    for (*shown = 0;; (*shown)++) {
        pawl_status status = pawl_entries_next(entries, &info, &more, out->err);
        if (status != PAWL_OK || !more) {
            return status;
        }
        if (signals_caught()) {
            return PAWL_ECANCELED;
        }
        if (out->as_json) {
            if (!opened) {
                json_begin_array(&out->json, "entries", JSON_LINES);
                opened = true;
            }
            put_entry_json(&out->json, &info);
            continue;
        }
        put_entry_row(out, t, before, &info);
        free(before);
        before = must_strdup(info.name);
    }
}

pawl_status show_tree(output *out, pawl_checkpoint *checkpoint, const char *prefix,
                      uint64_t *shown) {
    SCOPED(scoped_entries) pawl_entries *entries = NULL;
    *shown = 0;
    pawl_status status = pawl_entries_open(checkpoint, prefix, &entries, out->err);
    if (status != PAWL_OK) {
        return status;
    }
    table *t = table_new(out, columns, sizeof columns / sizeof columns[0]);
    status = walk_entries(out, entries, t, shown);
    table_end(t);
    if (out->as_json && *shown == 0 && *prefix == '\0') {
        json_begin_array(&out->json, "entries", JSON_LINES);
    }
    json_close_to(&out->json, out->as_json ? 1 : 0);
    return status;
}
