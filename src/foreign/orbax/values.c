/* SPDX-License-Identifier: Apache-2.0 */
/* What is no array: JSON, strings, other small files. */
#include "foreign/orbax/values.h"
#include "base/json.h"
#include "format/limits.h"

#include <string.h>

#define VALUE_BYTES ((size_t)PAWL_MAX_VALUE_BYTES)

void values_free(orbax_values *v) {
    for (size_t i = 0; i < v->count; i++) {
        mem_free(v->found[i].bytes);
    }
    mem_free(v->found);
    buffer_free(&v->unread);
}

static pawl_status add_found(orbax_values *v, const found_value *value, pawl_error *err) {
    TRY(vec_reserve(&v->found, &v->room, v->count + 1, sizeof(*v->found), err));
    v->found[v->count++] = *value;
    return PAWL_OK;
}

/* Items of JSON have one file; theirs is the item's name. */
static bool is_all_of_item(const char *prefix, const char *name) {
    return prefix[0] != '\0' && (strcmp(name, "data.json") == 0 || strcmp(name, "metadata") == 0 ||
                                 strcmp(name, "metrics") == 0);
}

pawl_status values_find_file(orbax_values *v, const char *prefix, const char *path,
                             const char *name, pawl_error *err) {
    arena *memory = &v->a->base.memory;
    found_value value = {.path = path};
    const char *escaped;
    TRY(archive_escape_name(v->a, name, strlen(name), &escaped, err));
    value.name = is_all_of_item(prefix, name)
                     ? arena_printf(memory, "%.*s", (int)strlen(prefix) - 1, prefix)
                     : arena_printf(memory, "%s%s", prefix, escaped);
    return value.name != NULL ? add_found(v, &value, err)
                              : error_nomem(err, strlen(prefix) + strlen(escaped));
}

pawl_status values_add_text(orbax_values *v, const char *prefix, const char *name, const char *path,
                            const buffer *text, pawl_error *err) {
    found_value value = {.path = path, .n = text->size};
    value.name = arena_printf(&v->a->base.memory, "%s%s", prefix, name);
    if (value.name == NULL) {
        return error_nomem(err, strlen(prefix) + strlen(name));
    }
    if (text->size > VALUE_BYTES || v->bytes + text->size > FOREIGN_MAX_ORBAX_VALUES) {
        return values_add_unread(v, path, "too large for a value", err);
    }
    v->bytes += text->size;
    value.bytes = mem_dup(text->size > 0 ? text->data : (const uint8_t *)"", text->size);
    if (value.bytes == NULL) {
        return error_nomem(err, text->size);
    }
    pawl_status status = add_found(v, &value, err);
    if (status != PAWL_OK) {
        mem_free(value.bytes);
    }
    return status;
}

pawl_status values_add_unread(orbax_values *v, const char *path, const char *why, pawl_error *err) {
    size_t n = strlen(path) + strlen(why);
    if (v->unread.size + 6 * n + 16 > VALUE_BYTES) {
        error_set(err, PAWL_ELIMIT, "the checkpoint has too many files that are not read");
        store_error_path(err, v->a->base.store, path);
        return PAWL_ELIMIT;
    }
    TRY(buffer_append(&v->unread, v->unread.size == 0 ? "{" : ",", 1, err));
    TRY(buffer_json_shown(&v->unread, path, strlen(path), err));
    TRY(buffer_append(&v->unread, ":", 1, err));
    return buffer_json_shown(&v->unread, why, strlen(why), err);
}

/* ---- strings of a tree ---- */

static pawl_status add_string(orbax_values *v, const char *prefix, orbax_tree *tree,
                              const buffer *key, const buffer *text, pawl_error *err) {
    const char *stored = key->size > 0 ? (const char *)key->data : "";
    orbax_leaf *leaf = orbax_tree_find(tree, stored, key->size);
    const char *name;
    if (leaf != NULL && leaf->name[0] != '\0') {
        leaf->found = true;
        name = leaf->name;
    } else {
        TRY(archive_escape_name(v->a, stored, key->size, &name, err));
    }
    name = arena_printf(&v->a->base.memory, "%s%s", prefix, name);
    return name != NULL ? archive_add_value(v->a, name, 0, PAWL_KIND_STRING,
                                            text->size > 0 ? text->data : (const uint8_t *)"",
                                            text->size, err)
                        : error_nomem(err, key->size);
}

static pawl_status read_strings(orbax_values *v, const char *prefix, orbax_tree *tree,
                                const buffer *text, pawl_error *err) {
    CLEANUP(buffer_free) buffer key = {0};
    CLEANUP(buffer_free) buffer value = {0};
    json_reader j = json_reader_for(text->data, text->size, 0, "_strings.json", err);
    bool more;
    TRY(json_enter(&j, '{'));
    for (;;) {
        key.size = 0;
        value.size = 0;
        TRY(json_key(&j, &key, &more, err));
        if (!more) {
            return json_end(&j);
        }
        TRY(json_text(&j, &value, err));
        TRY(add_string(v, prefix, tree, &key, &value, err));
    }
}

pawl_status values_add_strings(orbax_values *v, const char *directory, const char *prefix,
                               orbax_tree *tree, pawl_error *err) {
    CLEANUP(buffer_free) buffer text = {0};
    const char *slash = directory[0] != '\0' ? "/" : "";
    const char *path = arena_printf(&v->a->base.memory, "%s%s_strings.json", directory, slash);
    if (path == NULL) {
        return error_nomem(err, STORE_MAX_PATH);
    }
    TRY(archive_read_description(v->a, path, FOREIGN_MAX_ORBAX_VALUES, &text, err));
    pawl_status status = read_strings(v, prefix, tree, &text, err);
    if (status != PAWL_OK && status != PAWL_ENOMEM) {
        store_error_path(err, v->a->base.store, path);
    }
    return status;
}

/* ---- all of them ---- */

static pawl_kind kind_of(const void *bytes, size_t n) {
    struct pawl_error ignored = ERROR_INIT;
    if (n > 0 && json_check(bytes, n, "value", &ignored) == PAWL_OK) {
        return PAWL_KIND_JSON;
    }
    return utf8_valid(bytes, n) && (n == 0 || memchr(bytes, 0, n) == NULL) ? PAWL_KIND_STRING
                                                                           : PAWL_KIND_BYTES;
}

static pawl_status add_value(orbax_values *v, const found_value *value, pawl_error *err) {
    CLEANUP(buffer_free) buffer text = {0};
    const void *bytes = value->bytes;
    size_t n = value->n;
    store_stat is;
    if (bytes == NULL) {
        TRY(archive_look(v->a, value->path, &is, err));
        if (is.size > VALUE_BYTES || v->bytes + is.size > FOREIGN_MAX_ORBAX_VALUES) {
            return values_add_unread(v, value->path, "too large for a value", err);
        }
        TRY(archive_read_description(v->a, value->path, VALUE_BYTES, &text, err));
        v->bytes += text.size;
        bytes = text.size > 0 ? text.data : (const uint8_t *)"";
        n = text.size;
    }
    return archive_add_value(v->a, value->name, 0, kind_of(bytes, n), bytes, n, err);
}

pawl_status values_add_all(orbax_values *v, pawl_error *err) {
    for (size_t i = 0; i < v->count; i++) {
        TRY(add_value(v, &v->found[i], err));
    }
    if (v->unread.size == 0) {
        return PAWL_OK;
    }
    TRY(buffer_append(&v->unread, "}", 1, err));
    return archive_add_value(v->a, "files that are not read", 0, PAWL_KIND_JSON, v->unread.data,
                             v->unread.size, err);
}
