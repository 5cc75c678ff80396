/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of an object-based checkpoint: the graph says which entry, by its name, has which. */
#include "foreign/tensorflow/write_keys.h"
#include "foreign/tensorflow/names.h"
#include "foreign/tensorflow/write.h"
#include "format/limits.h"

#include <string.h>

/* ---- items by name -------------------------------------------------------------------------- */

/* The first one whose name is not before it. */
static size_t first_from(const writer_item *items, size_t count, const char *name) {
    size_t low = 0;
    size_t high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        bool before = strcmp(items[middle].name, name) < 0;
        low = before ? middle + 1 : low;
        high = before ? high : middle;
    }
    return low;
}

const writer_item *graph_item(const writer_item *items, size_t count) {
    size_t at = first_from(items, count, GRAPH_KEY);
    return at < count && strcmp(items[at].name, GRAPH_KEY) == 0 ? &items[at] : NULL;
}

/* ---- keys ----------------------------------------------------------------------------------- */

typedef struct assigning {
    object_graph *graph;
    const writer_item *items;
    size_t count;
    arena *memory;
    bundle_text *keys;
    buffer name;
} assigning;

static bool is_key(bundle_text key) {
    return key.n > 0 && key.n <= FORMAT_MAX_KEY - GRAPH_MAX_ENDING && !bundle_is_slice_key(key);
}

static pawl_status assign(assigning *a, size_t item, bundle_text key, const char *ending,
                          pawl_error *err) {
    size_t more = strlen(ending);
    uint8_t *bytes = arena_take(a->memory, key.n + more + 1, err);
    if (bytes == NULL) {
        return PAWL_ENOMEM;
    }
    memcpy(bytes, key.bytes, key.n);
    memcpy(bytes + key.n, ending, more + 1);
    a->keys[item] = (bundle_text){bytes, key.n + more};
    return PAWL_OK;
}

/* A value of several tensors: their names are its own and an ending of each. */
static pawl_status assign_parts(assigning *a, const graph_attribute *of, bool *found,
                                pawl_error *err) {
    const char *name = (const char *)a->name.data;
    for (size_t i = first_from(a->items, a->count, name); i < a->count; i++) {
        const char *ending = a->items[i].name + a->name.size;
        if (strncmp(a->items[i].name, name, a->name.size) != 0) {
            break;
        }
        if (a->keys[i].n == 0 && graph_is_ending(ending, strlen(ending))) {
            TRY(assign(a, i, of->key, ending, err));
            *found = true;
        }
    }
    return PAWL_OK;
}

static pawl_status assign_value(assigning *a, const graph_attribute *of, bool parts, bool *found,
                                pawl_error *err) {
    bool named = false;
    TRY(graph_name(a->graph, of, &a->name, &named, err));
    if (!named || !is_key(of->key)) {
        return PAWL_OK;
    }
    const char *name = (const char *)a->name.data;
    size_t at = first_from(a->items, a->count, name);
    if (parts) {
        return assign_parts(a, of, found, err);
    }
    if (at < a->count && strcmp(a->items[at].name, name) == 0 && a->keys[at].n == 0) {
        *found = true;
        return assign(a, at, of->key, "", err);
    }
    return PAWL_OK;
}

static pawl_status assign_all(assigning *a, const char **why, pawl_error *err) {
    const object_graph *g = a->graph;
    AUTOFREE bool *found = mem_calloc(g->attribute_count + 1, sizeof(*found));
    if (found == NULL) {
        return error_nomem(err, g->attribute_count);
    }
    for (size_t i = 0; i < g->attribute_count; i++) {
        TRY(assign_value(a, &g->attributes[i], false, &found[i], err));
    }
    for (size_t i = 0; i < g->attribute_count; i++) {
        if (!found[i] && !bundle_text_is(g->attributes[i].name, GRAPH_VALUE)) {
            TRY(assign_value(a, &g->attributes[i], true, &found[i], err));
        }
        *why = found[i] ? *why : "it names entries that are not written, or under other names";
    }
    return PAWL_OK;
}

/* What the graph does not tell of has its name for a key, unless the graph has that key. */
static void name_rest(assigning *a, const char **why) {
    for (size_t i = 0; i < a->count; i++) {
        const bundle_text name = {(const uint8_t *)a->items[i].name, strlen(a->items[i].name)};
        if (a->keys[i].n == 0) {
            a->keys[i] = name;
            *why = graph_find(a->graph, name) == NULL ? *why
                                                      : "an entry has a name that is a key of it";
        }
    }
}

pawl_status graph_keys(object_graph *g, const writer_item *items, size_t count, arena *memory,
                       bundle_text *keys, const char **why, pawl_error *err) {
    assigning a = {.graph = g, .items = items, .count = count, .memory = memory, .keys = keys};
    *why = NULL;
    memset(keys, 0, count * sizeof(*keys));
    pawl_status status = assign_all(&a, why, err);
    buffer_free(&a.name);
    TRY(status);
    name_rest(&a, why);
    return PAWL_OK;
}

/* ---- does it fit? --------------------------------------------------------------------------- */

static pawl_status fits(object_graph *g, const writer_item *items, size_t count, const char **why,
                        pawl_error *err) {
    CLEANUP(arena_free) arena memory = {0};
    AUTOFREE bundle_text *keys = mem_calloc(count + 1, sizeof(*keys));
    return keys != NULL ? graph_keys(g, items, count, &memory, keys, why, err)
                        : error_nomem(err, count * sizeof(*keys));
}

pawl_status bundle_misfit(const writer_item *last, const writer_item *items, size_t count,
                          const char **why, pawl_error *err) {
    CLEANUP(graph_free) object_graph graph = {.nodes = NULL};
    struct pawl_error story = ERROR_INIT;
    bool bytes = last->kind == PAWL_KIND_BYTES || last->kind == PAWL_KIND_STRING;
    if (strcmp(last->name, GRAPH_KEY) != 0) {
        *why = "it is the graph of objects, and would have another name";
        return PAWL_OK;
    }
    pawl_status status =
        bytes ? graph_decode(last->value, last->value_bytes, &graph, &story) : PAWL_EDAMAGED;
    if (status == PAWL_ENOMEM) {
        *err = story;
        return status;
    }
    if (status != PAWL_OK) {
        *why = "it is named as the graph of objects, and is none";
        return PAWL_OK;
    }
    return fits(&graph, items, count, why, err);
}
