/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the tree of a _METADATA: the keys of each leaf, and what it is. */
#include "foreign/orbax/tree.h"
#include "base/json.h"
#include "format/limits.h"

#include <stdlib.h>
#include <string.h>

typedef struct reading {
    archive *a;
    orbax_tree *tree;
    buffer stored, name, key;
    size_t keys;
} reading;

/* ---- a leaf's name ---- */

static pawl_status append_escaped(reading *r, const char *text, size_t n, pawl_error *err) {
    const char *escaped;
    TRY(archive_escape_name(r->a, text, n, &escaped, err));
    return buffer_append(&r->name, escaped, strlen(escaped), err);
}

/* A '/' in it is no border of keys. */
static pawl_status append_key(reading *r, pawl_error *err) {
    const char *key = (const char *)r->key.data;
    size_t n = r->key.size;
    size_t at = 0;
    if (r->keys > 0) {
        TRY(buffer_append(&r->stored, ".", 1, err));
        TRY(buffer_append(&r->name, "/", 1, err));
    }
    TRY(buffer_append(&r->stored, key, n, err));
    for (;;) {
        const char *slash = n > at ? memchr(key + at, '/', n - at) : NULL;
        size_t end = slash != NULL ? (size_t)(slash - key) : n;
        TRY(append_escaped(r, key + at, end - at, err));
        if (slash == NULL) {
            break;
        }
        TRY(buffer_append(&r->name, "%2F", 3, err));
        at = end + 1;
    }
    r->keys++;
    return PAWL_OK;
}

static pawl_status read_key(reading *r, json_reader *j, pawl_error *err) {
    json_span key, number;
    bool more;
    bool found = false;
    TRY(json_enter(j, '{'));
    for (;;) {
        TRY(json_member(j, &key, &more));
        if (!more) {
            break;
        }
        if (!json_is(key, "key") || found) {
            TRY(json_skip(j, NULL));
            continue;
        }
        found = true;
        r->key.size = 0;
        if (json_peek(j) == '"') {
            TRY(json_text(j, &r->key, err));
        } else {
            TRY(json_skip(j, &number));
            TRY(buffer_append(&r->key, number.text, number.n, err));
        }
        TRY(append_key(r, err));
    }
    return PAWL_OK;
}

static pawl_status read_keys(reading *r, json_reader *j, pawl_error *err) {
    bool more;
    r->stored.size = 0;
    r->name.size = 0;
    r->keys = 0;
    TRY(json_enter(j, '['));
    for (;;) {
        TRY(json_element(j, &more));
        if (!more) {
            return PAWL_OK;
        }
        TRY(read_key(r, j, err));
    }
}

/* ---- what it is ---- */

/* Of what is unknown, or was left out ("placeholder"), the value is its type. */
static pawl_status set_kind(reading *r, orbax_leaf *leaf, json_span type, bool skipped,
                            pawl_error *err) {
    static const struct {
        const char *type;
        orbax_leaf_kind kind;
        const char *value;
    } types[] = {{"jax.Array", ORBAX_ARRAY, NULL}, {"np.ndarray", ORBAX_ARRAY, NULL},
                 {"scalar", ORBAX_ARRAY, NULL},    {"string", ORBAX_STRING, NULL},
                 {"None", ORBAX_OTHER, "null"},    {"Dict", ORBAX_OTHER, "{}"},
                 {"List", ORBAX_OTHER, "[]"},      {"Tuple", ORBAX_OTHER, "[]"},
                 {"NamedTuple", ORBAX_OTHER, "{}"}};
    for (size_t i = 0; i < ARRAY_LENGTH(types); i++) {
        if (json_is(type, types[i].type) && !(skipped && types[i].value == NULL)) {
            leaf->kind = types[i].kind;
            leaf->value = types[i].value;
            return PAWL_OK;
        }
    }
    leaf->kind = ORBAX_OTHER;
    leaf->value = arena_printf(&r->a->base.memory, "\"%.*s\"", (int)type.n, type.text);
    return leaf->value != NULL ? PAWL_OK : error_nomem(err, type.n);
}

static pawl_status read_value(reading *r, json_reader *j, orbax_leaf *leaf, pawl_error *err) {
    json_span key;
    json_span type = {.text = ""};
    bool more;
    bool skipped = false;
    TRY(json_enter(j, '{'));
    for (;;) {
        TRY(json_member(j, &key, &more));
        if (!more) {
            break;
        }
        if (json_is(key, "value_type") && json_peek(j) == '"') {
            TRY(json_string(j, &type));
        } else if (json_is(key, "skip_deserialize") && json_peek(j) != 'n') {
            TRY(json_bool(j, &skipped));
        } else {
            TRY(json_skip(j, NULL));
        }
    }
    return set_kind(r, leaf, type, skipped, err);
}

static pawl_status keep(reading *r, const buffer *text, const char **out, pawl_error *err) {
    char *copy = arena_take(&r->a->base.memory, text->size + 1, err);
    if (copy == NULL) {
        return PAWL_ENOMEM;
    }
    if (text->data != NULL) {
        memcpy(copy, text->data, text->size);
    }
    copy[text->size] = '\0';
    *out = copy;
    return PAWL_OK;
}

static pawl_status read_leaf(reading *r, json_reader *j, pawl_error *err) {
    orbax_tree *t = r->tree;
    orbax_leaf leaf = {.kind = ORBAX_ARRAY};
    json_span key;
    bool more;
    bool named = false;
    TRY(json_enter(j, '{'));
    for (;;) {
        TRY(json_member(j, &key, &more));
        if (!more) {
            break;
        }
        if (json_is(key, "key_metadata") && !named) {
            named = true;
            TRY(read_keys(r, j, err));
        } else if (json_is(key, "value_metadata")) {
            TRY(read_value(r, j, &leaf, err));
        } else {
            TRY(json_skip(j, NULL));
        }
    }
    if (!named ||
        memchr(r->stored.data != NULL ? (char *)r->stored.data : "", 0, r->stored.size) != NULL) {
        error_set(err, PAWL_EDAMAGED, "an array of the tree has no keys, or one with a NUL");
        error_range(err, json_position(j), 1);
        error_expected(err, "key_metadata");
        return PAWL_EDAMAGED;
    }
    if (t->count == FOREIGN_MAX_ENTRIES) {
        return error_set(err, PAWL_ELIMIT, "the tree has too many arrays");
    }
    TRY(keep(r, &r->stored, &leaf.stored, err));
    TRY(keep(r, &r->name, &leaf.name, err));
    TRY(vec_reserve(&t->leaves, &t->room, t->count + 1, sizeof(*t->leaves), err));
    t->leaves[t->count++] = leaf;
    return PAWL_OK;
}

static pawl_status read_leaves(reading *r, json_reader *j, pawl_error *err) {
    bool more;
    TRY(json_enter(j, '{'));
    for (;;) {
        TRY(json_member(j, NULL, &more));
        if (!more) {
            return PAWL_OK;
        }
        TRY(read_leaf(r, j, err));
    }
}

static pawl_status read_all(reading *r, json_reader *j, pawl_error *err) {
    orbax_tree *t = r->tree;
    json_span key;
    bool more;
    TRY(json_enter(j, '{'));
    for (;;) {
        TRY(json_member(j, &key, &more));
        if (!more) {
            return json_end(j);
        }
        if (json_is(key, "tree_metadata")) {
            TRY(read_leaves(r, j, err));
        } else if (json_is(key, "use_ocdbt") && json_peek(j) != 'n') {
            TRY(json_bool(j, &t->ocdbt));
        } else if (json_is(key, "store_array_data_equal_to_fill_value") && json_peek(j) != 'n') {
            TRY(json_bool(j, &t->stored));
        } else {
            TRY(json_skip(j, NULL));
        }
    }
}

static int by_stored(const void *left, const void *right) {
    const orbax_leaf *a = left;
    const orbax_leaf *b = right;
    return strcmp(a->stored, b->stored);
}

static pawl_status check_once(const orbax_tree *t, pawl_error *err) {
    for (size_t i = 1; i < t->count; i++) {
        if (strcmp(t->leaves[i].stored, t->leaves[i - 1].stored) == 0) {
            error_set(err, PAWL_EDAMAGED, "two arrays of the tree are stored by the same name");
            error_entry(err, t->leaves[i].name);
            error_expected(err, "each name once");
            error_found(err, "%.200s, and %.200s", t->leaves[i - 1].name, t->leaves[i].name);
            return PAWL_EDAMAGED;
        }
    }
    return PAWL_OK;
}

pawl_status orbax_tree_read(archive *a, const void *text, size_t n, orbax_tree *out,
                            pawl_error *err) {
    reading r = {.a = a, .tree = out};
    json_reader j = json_reader_for(text, n, 0, "tree of the checkpoint", err);
    pawl_status status = read_all(&r, &j, err);
    buffer_free(&r.stored);
    buffer_free(&r.name);
    buffer_free(&r.key);
    TRY(status);
    if (out->count > 1) {
        qsort(out->leaves, out->count, sizeof(*out->leaves), by_stored);
    }
    return check_once(out, err);
}

void orbax_tree_free(orbax_tree *tree) {
    mem_free(tree->leaves);
    *tree = (orbax_tree){0};
}

orbax_leaf *orbax_tree_find(const orbax_tree *tree, const char *stored, size_t n) {
    size_t low = 0;
    size_t high = tree->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const char *at = tree->leaves[middle].stored;
        int order = strncmp(at, stored, n);
        if (order == 0) {
            order = at[n] != '\0';
        }
        if (order == 0) {
            return &tree->leaves[middle];
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return NULL;
}
