/* SPDX-License-Identifier: Apache-2.0 */
/* Which names are those of lists, tuples and sets. */
#include "foreign/torch/sequences.h"
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *key;
    torch_sequence kind;
} kinds[] = {{"list", TORCH_LIST}, {"tuple", TORCH_TUPLE}, {"set", TORCH_SET}};

pawl_status torch_sequences_note(torch_sequences *s, const char *name, size_t n,
                                 torch_sequence kind, pawl_error *err) {
    char *copy = arena_take(&s->memory, n + 1, err);
    if (copy == NULL) {
        return PAWL_ENOMEM;
    }
    if (n > 0) {
        memcpy(copy, name, n);
    }
    copy[n] = '\0';
    TRY(vec_reserve(&s->items, &s->room, s->count + 1, sizeof(*s->items), err));
    s->items[s->count++] = (torch_named_sequence){.name = copy, .kind = kind};
    return PAWL_OK;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const torch_named_sequence *)a)->name, ((const torch_named_sequence *)b)->name);
}

static void sort(torch_sequences *s) {
    size_t kept = 0;
    if (s->count > 1) {
        qsort(s->items, s->count, sizeof(*s->items), by_name);
    }
    for (size_t i = 0; i < s->count; i++) {
        if (kept == 0 || strcmp(s->items[kept - 1].name, s->items[i].name) != 0) {
            s->items[kept++] = s->items[i];
        }
    }
    s->count = kept;
}

void torch_sequences_free(torch_sequences *s) {
    mem_free(s->items);
    arena_free(&s->memory);
}

/* ---- reading --------------------------------------------------------------------------------- */

static pawl_status put_kind(const torch_sequences *s, size_t k, buffer *json, pawl_error *err) {
    bool any = false;
    for (size_t i = 0; i < s->count; i++) {
        if (s->items[i].kind != kinds[k].kind) {
            continue;
        }
        if (any) {
            TRY(buffer_append(json, ",", 1, err));
        } else {
            TRY(buffer_printf(json, err, "%s\"%s\":[", json->size > 1 ? "," : "", kinds[k].key));
        }
        any = true;
        TRY(buffer_json_shown(json, s->items[i].name, strlen(s->items[i].name), err));
    }
    return any ? buffer_append(json, "]", 1, err) : PAWL_OK;
}

pawl_status torch_sequences_add(torch_sequences *s, archive *a, pawl_error *err) {
    CLEANUP(buffer_free) buffer json = {0};
    archive_part part;
    if (s->count == 0) {
        return PAWL_OK;
    }
    sort(s);
    TRY(buffer_append(&json, "{", 1, err));
    for (size_t k = 0; k < ARRAY_LENGTH(kinds); k++) {
        TRY(put_kind(s, k, &json, err));
    }
    TRY(buffer_append(&json, "}", 1, err));
    if (json.size <= ARCHIVE_VALUE_BYTES) {
        return archive_add_value(a, TORCH_SEQUENCES, PAWL_ROLE_OTHER, PAWL_KIND_JSON, json.data,
                                 json.size, err);
    }
    const int64_t shape[] = {(int64_t)json.size};
    TRY(archive_keep_bytes(a, json.data, json.size, &part, err));
    const archive_tensor tensor = {.name = TORCH_SEQUENCES,
                                   .dtype = PAWL_U8,
                                   .ndim = 1,
                                   .shape = shape,
                                   .role = PAWL_ROLE_OTHER,
                                   .parts = &part,
                                   .part_count = 1};
    return archive_add_tensor(a, &tensor, err);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* A list of names. False: it is none. */
static bool take_names(torch_sequences *s, json_reader *r, torch_sequence kind, pawl_error *err) {
    CLEANUP(buffer_free) buffer name = {0};
    bool more = true;
    if (json_peek(r) != '[' || json_enter(r, '[') != PAWL_OK) {
        return false;
    }
    while (json_element(r, &more) == PAWL_OK && more) {
        if (json_peek(r) != '"' || json_text(r, &name, err) != PAWL_OK ||
            torch_sequences_note(s, (const char *)name.data, name.size, kind, err) != PAWL_OK) {
            return false;
        }
    }
    return !more;
}

/* *is: they are as torch_sequences_add writes them. */
static pawl_status decode(torch_sequences *s, const writer_item *item, bool *is, pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    json_reader r = json_reader_of(item->value, item->value_bytes);
    json_span key;
    bool more = true;
    *is = item->kind != PAWL_KIND_TENSOR && json_peek(&r) == '{' && json_enter(&r, '{') == PAWL_OK;
    while (*is && more) {
        *is = json_member(&r, &key, &more) == PAWL_OK;
        torch_sequence kind = TORCH_DICT;
        for (size_t k = 0; *is && more && k < ARRAY_LENGTH(kinds); k++) {
            kind = json_is(key, kinds[k].key) ? kinds[k].kind : kind;
        }
        *is = *is && (!more || (kind != TORCH_DICT && take_names(s, &r, kind, &story)));
    }
    *is = *is && json_end(&r) == PAWL_OK;
    if (story.status == PAWL_ENOMEM) {
        *err = story;
        return PAWL_ENOMEM;
    }
    sort(s);
    return PAWL_OK;
}

pawl_status torch_sequences_take(torch_sequences *s, const writer_item *items, size_t count,
                                 pawl_error *err) {
    bool is = true;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(items[i].name, TORCH_SEQUENCES) == 0) {
            TRY(decode(s, &items[i], &is, err));
        }
    }
    if (!is) {
        s->count = 0; /* somebody else has such an entry */
    }
    return PAWL_OK;
}

static const torch_named_sequence *find(const torch_sequences *s, const char *name, size_t n) {
    size_t low = 0;
    size_t high = s->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const char *other = s->items[middle].name;
        int order = strncmp(other, name, n);
        order = order == 0 && other[n] != '\0' ? 1 : order;
        if (order == 0) {
            return &s->items[middle];
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return NULL;
}

/* The place that a name has in a list; `count` and more: none. */
static size_t place_of(const char *at, size_t *n) {
    size_t place = 0;
    for (*n = 0; at[*n] >= '0' && at[*n] <= '9' && *n < 10; ++*n) {
        place = place * 10 + (size_t)(at[*n] - '0');
    }
    bool canonical = *n > 0 && (at[0] != '0' || *n == 1) && (at[*n] == '\0' || at[*n] == '/');
    return canonical ? place : SIZE_MAX;
}

/* Items are in the order of their names: those of one place are together. */
static bool has_all_places(const writer_item *items, size_t low, size_t high, size_t prefix) {
    size_t places = 0;
    size_t most = 0;
    size_t last = SIZE_MAX;
    bool leaf = false;
    for (size_t i = low; i < high; i++) {
        size_t n;
        size_t place = place_of(items[i].name + prefix, &n);
        if (place == SIZE_MAX || (place == last && leaf)) {
            return false;
        }
        leaf = items[i].name[prefix + n] == '\0';
        places += place != last;
        most = place > most ? place : most;
        last = place;
    }
    return places > 0 && most == places - 1;
}

torch_sequence torch_sequence_of(const torch_sequences *s, const writer_item *items, size_t low,
                                 size_t high, size_t prefix) {
    const torch_named_sequence *found =
        s->count > 0 && low < high ? find(s, items[low].name, prefix > 0 ? prefix - 1 : 0) : NULL;
    return found != NULL && has_all_places(items, low, high, prefix) ? found->kind : TORCH_DICT;
}

/* ---- does it fit? ---------------------------------------------------------------------------- */

/* The first item that is not before what is below a name. */
static size_t first_below(const writer_item *items, size_t count, const char *name, size_t n) {
    size_t low = 0;
    size_t high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const char *other = items[middle].name;
        int order = strncmp(other, name, n);
        bool before = order < 0 || (order == 0 && n > 0 && (uint8_t)other[n] < '/');
        low = before ? middle + 1 : low;
        high = before ? high : middle;
    }
    return low;
}

static const char *misfit_of(const torch_sequences *s, const writer_item *items, size_t count,
                             bool renamed) {
    for (size_t i = 0; i < s->count; i++) {
        const char *name = s->items[i].name;
        size_t n = strlen(name);
        size_t low = first_below(items, count, name, n);
        size_t high = low;
        while (high < count && strncmp(items[high].name, name, n) == 0 &&
               (n == 0 || items[high].name[n] == '/')) {
            high++;
        }
        if (low == high && renamed) {
            return "it says which names are lists, and they have other names now";
        }
        if (low < high && !has_all_places(items, low, high, n > 0 ? n + 1 : 0)) {
            return "it says which names are lists, and one of them would have holes";
        }
    }
    return NULL;
}

pawl_status torch_misfit(const writer_item *last, const writer_item *items, size_t count,
                         bool renamed, const char **why, pawl_error *err) {
    CLEANUP(torch_sequences_free) torch_sequences s = {0};
    bool is;
    *why = NULL;
    TRY(decode(&s, last, &is, err));
    if (is) {
        *why = misfit_of(&s, items, count, renamed);
    }
    return PAWL_OK;
}
