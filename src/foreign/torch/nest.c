/* SPDX-License-Identifier: Apache-2.0 */
/* Names become nested dicts, lists and tuples. */
#include "foreign/torch/nest.h"
#include "foreign/pickle/write.h"
#include "foreign/torch/keys.h"
#include "foreign/torch/write.h"

#include <stdlib.h>
#include <string.h>

typedef struct putting {
    const nest *n;
    buffer *pickle;
    size_t first; /* the number of the first storage */
    pickle_memo memo;
} putting;

/* Where the items of a list are. */
typedef struct place {
    size_t low, high, number;
    bool leaf;
} place;

/* Does some item have the name that a dict would need? Then there is none, and "/" is part of a
 * key. */
static bool is_an_item(const nest *n, const char *name, size_t length) {
    size_t low = 0;
    size_t high = n->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const char *other = n->items[middle].name;
        int order = strncmp(other, name, length);
        order = order == 0 && other[length] != '\0' ? 1 : order;
        if (order == 0) {
            return true;
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return false;
}

/* Of the first component: where it ends, at a "/" or at the end of the name. */
static size_t key_bytes_of(const nest *n, const char *name, size_t prefix) {
    const char *slash = strchr(name + prefix, '/');
    while (slash != NULL && is_an_item(n, name, (size_t)(slash - name))) {
        slash = strchr(slash + 1, '/');
    }
    return slash != NULL ? (size_t)(slash - name) - prefix : strlen(name + prefix);
}

void nest_child(const nest *n, size_t low, size_t high, size_t prefix, size_t *end,
                size_t *key_bytes, bool *leaf) {
    const char *name = n->items[low].name;
    *key_bytes = key_bytes_of(n, name, prefix);
    size_t length = prefix + *key_bytes;
    *leaf = name[length] == '\0';
    *end = low + 1;
    while (!*leaf && *end < high && strncmp(n->items[*end].name, name, length + 1) == 0) {
        ++*end;
    }
}

static pawl_status put_container(putting *p, size_t low, size_t high, size_t prefix,
                                 pawl_error *err);

static pawl_status put_leaf(putting *p, size_t i, pawl_error *err) {
    const writer_item *item = &p->n->items[i];
    return item->kind == PAWL_KIND_TENSOR
               ? torch_put_tensor(p->pickle, &p->memo, item, p->n->storages[i] - p->first, err)
               : torch_put_value(p->pickle, item, err);
}

static pawl_status put_dict(putting *p, size_t low, size_t high, size_t prefix, pawl_error *err) {
    TRY(pickle_put(p->pickle, PICKLE_EMPTY_DICT, err));
    TRY(pickle_put(p->pickle, PICKLE_MARK, err));
    for (size_t i = low; i < high;) {
        size_t end, n;
        bool leaf;
        nest_child(p->n, i, high, prefix, &end, &n, &leaf);
        TRY(torch_put_key(p->pickle, p->n->items[i].name + prefix, n, err));
        TRY(leaf ? put_leaf(p, i, err) : put_container(p, i, end, prefix + n + 1, err));
        i = end;
    }
    return pickle_put(p->pickle, PICKLE_SETITEMS, err);
}

static int by_number(const void *a, const void *b) {
    const place *left = a;
    const place *right = b;
    return (left->number > right->number) - (left->number < right->number);
}

/* In the order of their places, which is not that of their names. */
static pawl_status put_places(putting *p, size_t low, size_t high, size_t prefix, pawl_error *err) {
    AUTOFREE place *places = NULL;
    size_t count = 0;
    size_t room = 0;
    for (size_t i = low; i < high;) {
        size_t end, n;
        bool leaf;
        nest_child(p->n, i, high, prefix, &end, &n, &leaf);
        TRY(vec_reserve(&places, &room, count + 1, sizeof(*places), err));
        places[count++] = (place){.low = i,
                                  .high = end,
                                  .leaf = leaf,
                                  .number = strtoul(p->n->items[i].name + prefix, NULL, 10)};
        i = end;
    }
    if (count > 1) {
        qsort(places, count, sizeof(*places), by_number);
    }
    for (size_t i = 0; i < count; i++) {
        const char *at = p->n->items[places[i].low].name + prefix;
        size_t below = prefix + strcspn(at, "/") + 1;
        TRY(places[i].leaf ? put_leaf(p, places[i].low, err)
                           : put_container(p, places[i].low, places[i].high, below, err));
    }
    return PAWL_OK;
}

/* As deep as a name has components. */
static pawl_status put_container(putting *p, size_t low, size_t high, size_t prefix,
                                 pawl_error *err) {
    torch_sequence kind = torch_sequence_of(&p->n->sequences, p->n->items, low, high, prefix);
    if (kind == TORCH_DICT) {
        return put_dict(p, low, high, prefix, err);
    }
    if (kind == TORCH_SET) {
        TRY(pickle_global(p->pickle, "__builtin__", "set", err));
        TRY(pickle_put(p->pickle, PICKLE_MARK, err));
    }
    if (kind != TORCH_TUPLE) {
        TRY(pickle_put(p->pickle, PICKLE_EMPTY_LIST, err));
    }
    TRY(pickle_put(p->pickle, PICKLE_MARK, err));
    TRY(put_places(p, low, high, prefix, err));
    TRY(pickle_put(p->pickle, kind == TORCH_TUPLE ? PICKLE_TUPLE : PICKLE_APPENDS, err));
    if (kind == TORCH_SET) {
        TRY(pickle_put(p->pickle, PICKLE_TUPLE, err));
        TRY(pickle_put(p->pickle, PICKLE_REDUCE, err));
    }
    return PAWL_OK;
}

pawl_status nest_put(const nest *n, buffer *pickle, size_t low, size_t high, size_t prefix,
                     bool apart, pawl_error *err) {
    putting p = {.n = n, .pickle = pickle, .first = apart ? n->storages[low] : 0};
    return put_container(&p, low, high, prefix, err);
}

pawl_status nest_put_all(const nest *n, buffer *pickle, pawl_error *err) {
    putting p = {.n = n, .pickle = pickle};
    bool whole = n->count == 1 && strcmp(n->items[0].name, "object") == 0;
    return whole ? put_leaf(&p, 0, err) : put_container(&p, 0, n->count, 0, err);
}

/* ---- keys that would be the same ------------------------------------------------------------ */

#define SEPARATOR '\xff' /* no byte of a name, nor of a key */
#define NUMBER    '\xfe' /* before a key that is no text */

/* The keys on the way to an item, as one text. */
static pawl_status path_of(const nest *n, const char *name, arena *memory, char **out,
                           pawl_error *err) {
    size_t at = 0;
    char *path = arena_take(memory, strlen(name) + 2, err);
    *out = path;
    if (path == NULL) {
        return PAWL_ENOMEM;
    }
    for (size_t prefix = 0;;) {
        size_t bytes = key_bytes_of(n, name, prefix);
        size_t key = bytes;
        char *begin = path + at + 1;
        memcpy(begin, name + prefix, bytes);
        path[at] = torch_key_of(begin, &key) == TORCH_KEY_TEXT ? SEPARATOR : NUMBER;
        for (size_t i = 0; i < key; i++) {
            if (begin[i] == '\0') { /* a text of C would end there */
                begin[i] = SEPARATOR;
            }
        }
        at += 1 + key;
        prefix += bytes;
        if (name[prefix] == '\0') {
            break;
        }
        prefix++;
    }
    path[at] = '\0';
    return PAWL_OK;
}

static int by_path(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static pawl_status one_key(char *path, pawl_error *err) {
    for (char *at = path; *at != '\0'; at++) {
        if (*at == SEPARATOR || *at == NUMBER) {
            *at = '/';
        }
    }
    error_set(err, PAWL_EUSAGE, "two entries would have one key in PyTorch");
    error_entry(err, path + 1);
    error_next(err, "give one of them another name (rename)");
    return PAWL_EUSAGE;
}

/* Names differ, but "a%2Fb" and "a/b" may become one key. */
static pawl_status check_paths(const nest *n, arena *memory, pawl_error *err) {
    AUTOFREE char **paths = mem_calloc(n->count + 1, sizeof(*paths));
    if (paths == NULL) {
        return error_nomem(err, n->count * sizeof(*paths));
    }
    for (size_t i = 0; i < n->count; i++) {
        TRY(path_of(n, n->items[i].name, memory, &paths[i], err));
    }
    if (n->count > 1) {
        qsort(paths, n->count, sizeof(*paths), by_path);
    }
    for (size_t i = 1; i < n->count; i++) {
        if (strcmp(paths[i - 1], paths[i]) == 0) {
            return one_key(paths[i], err);
        }
    }
    return PAWL_OK;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Where the entry of lists is; `count`: there is none. */
static size_t find_hidden(const nest *n, const writer_job *job) {
    for (size_t i = 0; n->sequences.count > 0 && i < job->count; i++) {
        if (strcmp(job->items[i].name, TORCH_SEQUENCES) == 0) {
            return i;
        }
    }
    return job->count;
}

static pawl_status take_items(nest *n, const writer_job *job, pawl_error *err) {
    size_t hidden = find_hidden(n, job);
    size_t tensors = 0;
    n->items = job->items;
    n->count = job->count;
    if (hidden < job->count) {
        n->count--;
        n->own = mem_alloc(job->count * sizeof(*n->own));
        if (n->own == NULL) {
            return error_nomem(err, job->count * sizeof(*n->own));
        }
        memcpy(n->own, job->items, hidden * sizeof(*n->own));
        memcpy(n->own + hidden, job->items + hidden + 1, (n->count - hidden) * sizeof(*n->own));
        n->items = n->own;
    }
    n->storages = mem_calloc(n->count + 1, sizeof(*n->storages));
    if (n->storages == NULL) {
        return error_nomem(err, n->count * sizeof(*n->storages));
    }
    for (size_t i = 0; i < n->count; i++) {
        n->storages[i] = tensors;
        tensors += n->items[i].kind == PAWL_KIND_TENSOR;
    }
    return PAWL_OK;
}

pawl_status nest_begin(nest *n, const writer_job *job, pawl_error *err) {
    arena memory = {0};
    *n = (nest){.items = NULL};
    TRY(torch_sequences_take(&n->sequences, job->items, job->count, err));
    TRY(take_items(n, job, err));
    pawl_status status = check_paths(n, &memory, err);
    arena_free(&memory);
    return status;
}

void nest_end(nest *n) {
    mem_free(n->own);
    mem_free(n->storages);
    torch_sequences_free(&n->sequences);
}
