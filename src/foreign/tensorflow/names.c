/* SPDX-License-Identifier: Apache-2.0 */
/* What the keys of a bundle mean: variables of objects, slots of optimizers, slices of variables
 * (trackable_utils.py, saved_tensor_slice_util.cc and ordered_code.cc of TensorFlow). */
#include "foreign/tensorflow/names.h"

#include <stdio.h>
#include <string.h>

#define ATTRIBUTES "/.ATTRIBUTES/"
#define VALUE      GRAPH_VALUE
#define SLOT       "/.OPTIMIZER_SLOT/"

/* ---- names ---------------------------------------------------------------------------------- */

static const uint8_t *find_text(const uint8_t *in, size_t n, const char *text) {
    size_t length = strlen(text);
    for (size_t i = 0; n >= length && i <= n - length; i++) {
        if (memcmp(in + i, text, length) == 0) {
            return in + i;
        }
    }
    return NULL;
}

/* A component: ".." is ".", and ".S" is "/". */
static pawl_status put_component(archive *a, bundle_text text, buffer *out, pawl_error *err) {
    CLEANUP(buffer_free) buffer plain = {0};
    const char *escaped;
    TRY(buffer_append(&plain, "", 0, err));
    for (size_t i = 0; i < text.n; i++) {
        bool two = text.bytes[i] == '.' && i + 1 < text.n;
        if (two && (text.bytes[i + 1] == '.' || text.bytes[i + 1] == 'S')) {
            TRY(buffer_append(&plain, text.bytes[i + 1] == '.' ? "." : "/", 1, err));
            i++;
        } else {
            TRY(buffer_append(&plain, &text.bytes[i], 1, err));
        }
    }
    TRY(archive_escape_key(a, (const char *)plain.data, plain.size, &escaped, err));
    TRY(buffer_append(out, "/", out->size > 0 ? 1 : 0, err));
    return buffer_append(out, escaped, strlen(escaped), err);
}

static pawl_status put_path(archive *a, bundle_text path, buffer *out, pawl_error *err) {
    size_t at = 0;
    while (at < path.n) {
        const uint8_t *slash = memchr(path.bytes + at, '/', path.n - at);
        size_t end = slash != NULL ? (size_t)(slash - path.bytes) : path.n;
        TRY(put_component(a, (bundle_text){path.bytes + at, end - at}, out, err));
        at = end + 1;
    }
    return PAWL_OK;
}

static pawl_status keep(archive *a, const buffer *text, const char **out, pawl_error *err) {
    *out = arena_strdup(&a->base.memory, text->size > 0 ? (const char *)text->data : "value");
    return *out != NULL ? PAWL_OK : error_nomem(err, text->size + 1);
}

/* VARIABLE, OPTIMIZER/SLOT. The variable's entry is the checkpoint's, or it is no slot. */
static pawl_status name_slot(archive *a, const bundle *b, bundle_text variable, bundle_text rest,
                             bundle_name *out, pawl_error *err) {
    CLEANUP(buffer_free) buffer name = {0};
    CLEANUP(buffer_free) buffer key = {0};
    CLEANUP(buffer_free) buffer of = {0};
    CLEANUP(buffer_free) buffer slot = {0};
    size_t at = rest.n;
    while (at > 0 && rest.bytes[at - 1] != '/') {
        at--;
    }
    const bundle_text last = {rest.bytes + at, rest.n - at};
    TRY(put_path(a, (bundle_text){rest.bytes, at > 0 ? at - 1 : 0}, &name, err));
    TRY(put_path(a, variable, &name, err));
    TRY(put_component(a, last, &name, err));
    TRY(keep(a, &name, &out->name, err));
    TRY(buffer_append(&key, variable.bytes, variable.n, err));
    TRY(buffer_append(&key, ATTRIBUTES VALUE, strlen(ATTRIBUTES VALUE), err));
    if (bundle_find(b, key.data, key.size) == NULL || last.n == 0) {
        return PAWL_OK;
    }
    TRY(put_path(a, variable, &of, err));
    TRY(put_component(a, last, &slot, err));
    TRY(keep(a, &of, &out->variable, err));
    out->role = PAWL_ROLE_SLOT;
    return keep(a, &slot, &out->slot, err);
}

/* The variable's entry is the checkpoint's, or it is no slot. */
static pawl_status name_graph_slot(archive *a, const bundle *b, object_graph *g,
                                   const graph_node *node, bundle_name *out, pawl_error *err) {
    CLEANUP(buffer_free) buffer variable = {0};
    const graph_attribute *of = &g->attributes[g->nodes[node->variable].value];
    bool named = false;
    out->role = PAWL_ROLE_OTHER;
    if (bundle_find(b, of->key.bytes, of->key.n) == NULL) {
        return PAWL_OK;
    }
    TRY(graph_name(g, of, &variable, &named, err));
    if (!named) {
        return PAWL_OK;
    }
    out->role = PAWL_ROLE_SLOT;
    TRY(keep(a, &variable, &out->variable, err));
    return archive_escape_key(a, (const char *)node->slot_name.bytes, node->slot_name.n, &out->slot,
                              err);
}

/* out->name is NULL where the graph does not name it. */
static pawl_status name_by_graph(archive *a, const bundle *b, object_graph *g, bundle_text key,
                                 bundle_name *out, pawl_error *err) {
    CLEANUP(buffer_free) buffer name = {0};
    const graph_attribute *attribute = graph_find(g, key);
    bundle_text ending = {key.bytes, 0};
    bool named = false;
    if (attribute == NULL) {
        attribute = graph_find_whole(g, key, &ending);
        if (attribute == NULL || bundle_find(b, attribute->key.bytes, attribute->key.n) != NULL) {
            return PAWL_OK;
        }
    }
    TRY(graph_name(g, attribute, &name, &named, err));
    if (!named) {
        return PAWL_OK;
    }
    TRY(buffer_append(&name, ending.bytes, ending.n, err));
    TRY(keep(a, &name, &out->name, err));
    out->role = graph_role(g, attribute);
    return out->role == PAWL_ROLE_SLOT
               ? name_graph_slot(a, b, g, &g->nodes[attribute->node], out, err)
               : PAWL_OK;
}

pawl_status bundle_name_of(archive *a, const bundle *b, object_graph *graph, bundle_text key,
                           bundle_name *out, pawl_error *err) {
    CLEANUP(buffer_free) buffer name = {0};
    const uint8_t *attributes = find_text(key.bytes, key.n, ATTRIBUTES);
    *out = (bundle_name){.role = PAWL_ROLE_MODEL};
    TRY(name_by_graph(a, b, graph, key, out, err));
    if (out->name != NULL) {
        return PAWL_OK;
    }
    if (attributes == NULL) {
        return archive_escape_name(a, (const char *)key.bytes, key.n, &out->name, err);
    }
    const bundle_text path = {key.bytes, (size_t)(attributes - key.bytes)};
    const uint8_t *begin = attributes + strlen(ATTRIBUTES);
    const bundle_text attribute = {begin, (size_t)(key.bytes + key.n - begin)};
    bool value = attribute.n == strlen(VALUE) && memcmp(attribute.bytes, VALUE, attribute.n) == 0;
    const uint8_t *slot = value ? find_text(path.bytes, path.n, SLOT) : NULL;
    if (slot != NULL) {
        const uint8_t *rest = slot + strlen(SLOT);
        return name_slot(a, b, (bundle_text){path.bytes, (size_t)(slot - path.bytes)},
                         (bundle_text){rest, (size_t)(path.bytes + path.n - rest)}, out, err);
    }
    TRY(put_path(a, path, &name, err));
    if (!value) {
        TRY(put_component(a, attribute, &name, err));
    }
    return keep(a, &name, &out->name, err);
}

/* ---- keys of slices ------------------------------------------------------------------------- */

bool bundle_is_slice_key(bundle_text key) {
    return key.n > 0 && key.bytes[0] == 0;
}

/* How many bytes follow, and these, big-endian, without zeros in front. */
static pawl_status put_number(buffer *out, uint64_t v, pawl_error *err) {
    uint8_t bytes[9];
    uint8_t n = 0;
    for (uint64_t left = v; left > 0; left >>= 8) {
        n++;
    }
    bytes[0] = n;
    for (uint8_t i = 0; i < n; i++) {
        bytes[1 + i] = (uint8_t)(v >> (8 * (n - 1 - i)));
    }
    return buffer_append(out, bytes, (size_t)n + 1, err);
}

/* Bits of a header say how many bytes there are; the rest is the number. -1 and more. */
static pawl_status put_signed(buffer *out, int64_t v, pawl_error *err) {
    uint8_t bytes[10] = {0};
    unsigned n = 2;
    if (v < 64) {
        bytes[0] = (uint8_t)(0x80u ^ ((uint64_t)v & 0xffu));
        return buffer_append(out, bytes, 1, err);
    }
    while (n < 10 && (uint64_t)v >> (7 * n - 1) != 0) {
        n++;
    }
    for (unsigned i = 0; i < n && i < 8; i++) {
        bytes[n - 1 - i] = (uint8_t)((uint64_t)v >> (8 * i));
    }
    bytes[0] ^= (uint8_t)(n >= 8 ? 0xffu : 0xffu << (8 - n));
    bytes[1] ^= (uint8_t)(n > 8 ? 0xffu << (16 - n) : 0);
    return buffer_append(out, bytes, n, err);
}

static pawl_status put_name(buffer *out, bundle_text name, pawl_error *err) {
    for (size_t i = 0; i < name.n; i++) {
        uint8_t byte = name.bytes[i];
        const uint8_t two[2] = {byte, byte == 0 ? 0xff : 0};
        TRY(buffer_append(out, two, byte == 0 || byte == 0xff ? 2 : 1, err));
    }
    return buffer_append(out, "\0\1", 2, err);
}

pawl_status bundle_slice_key(bundle_text key, const bundle_slice *s, buffer *out, pawl_error *err) {
    out->size = 0;
    TRY(put_number(out, 0, err));
    TRY(put_name(out, key, err));
    TRY(put_number(out, (uint64_t)s->ndim, err));
    for (int d = 0; d < s->ndim; d++) {
        if (s->start[d] < 0 || s->length[d] < -1) {
            return error_set(err, PAWL_EDAMAGED, "a slice of a tensor lies outside of it");
        }
        TRY(put_signed(out, s->start[d], err));
        TRY(put_signed(out, s->length[d], err));
    }
    return PAWL_OK;
}
