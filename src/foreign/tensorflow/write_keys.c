/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of an object-based checkpoint: the graph says which entry, by its name, has which. */
#include "foreign/tensorflow/write_keys.h"
#include "foreign/tensorflow/names.h"
#include "foreign/tensorflow/write.h"
#include "format/limits.h"

#include <string.h>

/* Entries after the name of a value of several tensors in which they are looked for. */
#define MOST_PARTS 256u

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
    size_t first = first_from(a->items, a->count, name);
    for (size_t i = first; i < a->count && i - first < MOST_PARTS; i++) {
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

static pawl_status assign_all(assigning *a, graph_fit *fit, pawl_error *err) {
    const object_graph *g = a->graph;
    for (size_t i = 0; i < g->attribute_count; i++) {
        TRY(assign_value(a, &g->attributes[i], false, &fit->found[i], err));
    }
    for (size_t i = 0; i < g->attribute_count; i++) {
        if (!fit->found[i] && !bundle_text_is(g->attributes[i].name, GRAPH_VALUE)) {
            TRY(assign_value(a, &g->attributes[i], true, &fit->found[i], err));
        }
        fit->missing += !fit->found[i];
    }
    return PAWL_OK;
}

/* What the graph does not tell of has its name for a key, unless the graph has that key. */
static pawl_status name_rest(assigning *a, graph_fit *fit, pawl_error *err) {
    for (size_t i = 0; i < a->count; i++) {
        char name[PAWL_MAX_NAME_BYTES + 1];
        if (a->keys[i].n > 0) {
            continue;
        }
        writer_flat_name(&a->items[i], name);
        const char *key = arena_strdup(a->memory, name);
        if (key == NULL) {
            return error_nomem(err, strlen(name) + 1);
        }
        a->keys[i] = (bundle_text){(const uint8_t *)key, strlen(key)};
        fit->taken = fit->taken || graph_find(a->graph, a->keys[i]) != NULL;
    }
    return PAWL_OK;
}

pawl_status graph_keys(object_graph *g, const writer_item *items, size_t count, arena *memory,
                       bundle_text *keys, graph_fit *fit, pawl_error *err) {
    assigning a = {.graph = g, .items = items, .count = count, .memory = memory, .keys = keys};
    *fit = (graph_fit){.found = arena_take(memory, g->attribute_count + 1, err)};
    if (fit->found == NULL) {
        return PAWL_ENOMEM;
    }
    memset(fit->found, 0, g->attribute_count + 1);
    memset(keys, 0, count * sizeof(*keys));
    pawl_status status = assign_all(&a, fit, err);
    buffer_free(&a.name);
    return status == PAWL_OK ? name_rest(&a, fit, err) : status;
}

/* ---- a graph without what is not written ---------------------------------------------------- */

static const graph_attribute *value_of(const object_graph *g, uint64_t node) {
    bool any = node < g->node_count && g->nodes[node].value != GRAPH_NOBODY;
    return any ? &g->attributes[g->nodes[node].value] : NULL;
}

/* As graph_decode understands a value, or a slot: the last of each field counts. */
static pawl_status is_kept(const object_graph *g, const graph_fit *fit, const proto_field *field,
                           bool *kept, pawl_error *err) {
    cursor c = cursor_of(field->text.bytes, field->text.n, 0, "graph of objects");
    bundle_text key = {0};
    uint64_t node = 0;
    proto_field f;
    bool more = true;
    *kept = true;
    if (field->wire != 2 || (field->number != 2 && field->number != 3)) {
        return PAWL_OK;
    }
    for (;;) {
        TRY(proto_next(&c, &f, &more, err));
        if (!more) {
            break;
        }
        key = f.number == 3 && f.wire == 2 ? f.text : key;
        node = f.number == 3 && f.wire == 0 ? f.value : node;
    }
    const graph_attribute *a = field->number == 2 ? graph_find(g, key) : value_of(g, node);
    *kept = a == NULL || fit->found[a - g->attributes];
    return PAWL_OK;
}

static pawl_status cut_node(const object_graph *g, const graph_fit *fit, bundle_text node,
                            buffer *out, pawl_error *err) {
    cursor c = cursor_of(node.bytes, node.n, 0, "graph of objects");
    proto_field f;
    bool more = true;
    bool kept = true;
    for (;;) {
        size_t begin = c.at;
        TRY(proto_next(&c, &f, &more, err));
        if (!more) {
            return PAWL_OK;
        }
        TRY(is_kept(g, fit, &f, &kept, err));
        if (kept) {
            TRY(buffer_append(out, node.bytes + begin, c.at - begin, err));
        }
    }
}

pawl_status graph_cut(const object_graph *g, const graph_fit *fit, bundle_text bytes, buffer *out,
                      pawl_error *err) {
    CLEANUP(buffer_free) buffer node = {0};
    cursor c = cursor_of(bytes.bytes, bytes.n, 0, "graph of objects");
    proto_field f;
    bool more = true;
    TRY(buffer_append(out, "", 0, err));
    for (;;) {
        size_t begin = c.at;
        TRY(proto_next(&c, &f, &more, err));
        if (!more) {
            return PAWL_OK;
        }
        if (f.number != 1 || f.wire != 2) {
            TRY(buffer_append(out, bytes.bytes + begin, c.at - begin, err));
            continue;
        }
        node.size = 0;
        TRY(buffer_append(&node, "", 0, err));
        TRY(cut_node(g, fit, f.text, &node, err));
        TRY(buffer_varint(out, 1u << 3 | 2u, err));
        TRY(buffer_varint_bytes(out, node.data, node.size, err));
    }
}

/* ---- does it fit? --------------------------------------------------------------------------- */

static pawl_status judge(object_graph *g, const writer_item *items, size_t count, bool renamed,
                         const char **why, pawl_error *err) {
    CLEANUP(arena_free) arena memory = {0};
    AUTOFREE bundle_text *keys = mem_calloc(count + 1, sizeof(*keys));
    graph_fit fit;
    if (keys == NULL) {
        return error_nomem(err, count * sizeof(*keys));
    }
    TRY(graph_keys(g, items, count, &memory, keys, &fit, err));
    if (fit.taken) {
        *why = "an entry has a name that is a key of it";
    } else if (fit.missing > 0 && (renamed || fit.missing == g->attribute_count)) {
        *why = "it has entries under other names";
    }
    return PAWL_OK;
}

pawl_status bundle_misfit(const writer_item *last, const writer_item *items, size_t count,
                          bool renamed, const char **why, pawl_error *err) {
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
    return judge(&graph, items, count, renamed, why, err);
}
