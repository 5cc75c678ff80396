/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes of a pickle of torch.save, as lists and dicts, and as JSON. What JSON has not is an object
 * whose first member is "$", and names what it is; a dict that has such a key, or one that is no
 * text, is one of these, too.
 */
#include "foreign/base64.h"
#include "foreign/torch/numpy.h"
#include "foreign/torch/object.h"
#include "foreign/torch/types.h"

#include <math.h>
#include <string.h>

#define DIGITS_MOST 256u /* bytes of an integer that is shown as one */
#define MORE_DEPTH  4    /* levels of JSON that one of a pickle may become */

/* ---- what is in a node ---------------------------------------------------------------------- */

/* A class or function of Python itself, which Python 2 had in another module. */
static bool is_builtin(const pickle_node *node, const char *name) {
    return pickle_is_call(node, "builtins", name) || pickle_is_call(node, "__builtin__", name);
}

static bool is_dict(const pickle_node *node) {
    return pickle_is_call(node, "collections", "OrderedDict") ||
           pickle_is_call(node, "collections", "defaultdict") ||
           pickle_is_call(node, "collections", "Counter");
}

const pickle_items *torch_pairs_of(const pickle_node *node) {
    if (node->kind == PICKLE_DICT) {
        return &node->items;
    }
    if (!is_dict(node)) {
        return NULL;
    }
    const pickle_items *arguments = &node->call->arguments->items;
    bool given = node->call->with->items.count == 0 && arguments->count > 0;
    const pickle_node *last = given ? arguments->nodes[arguments->count - 1] : NULL;
    return last != NULL && last->kind == PICKLE_DICT ? &last->items : &node->call->with->items;
}

const pickle_items *torch_items_of(const pickle_node *node) {
    if (node->kind == PICKLE_LIST || node->kind == PICKLE_TUPLE || node->kind == PICKLE_SET ||
        node->kind == PICKLE_FROZENSET) {
        return &node->items;
    }
    bool sized = pickle_is_call(node, "torch", "Size") || is_builtin(node, "set") ||
                 is_builtin(node, "frozenset");
    bool queue = pickle_is_call(node, "collections", "deque");
    if (!sized && !queue) {
        return NULL;
    }
    const pickle_items *arguments = &node->call->arguments->items;
    const pickle_items *filled = &node->call->with->items;
    const pickle_node *given = arguments->count > 0 ? arguments->nodes[0] : NULL;
    if (given != NULL && (sized ? arguments->count == 1 : filled->count == 0)) {
        bool plain = given->kind == PICKLE_LIST || given->kind == PICKLE_TUPLE;
        return plain ? &given->items : queue ? filled : NULL;
    }
    return queue || given == NULL ? filled : NULL;
}

/* ---- JSON ----------------------------------------------------------------------------------- */

typedef struct writing {
    buffer *json;
    uint64_t visits;
    size_t most; /* bytes, and visits */
    bool full;   /* something is too large: nothing more is written, and the whole is left out */
} writing;

static pawl_status put_json(writing *w, const pickle_node *node, int depth, pawl_error *err);

static bool is_full(writing *w, int depth) {
    w->full = w->full || w->json->size > w->most || depth + MORE_DEPTH >= PAWL_MAX_JSON_DEPTH ||
              w->visits > w->most;
    return w->full;
}

static pawl_status put_text(writing *w, const char *text, size_t n, pawl_error *err) {
    w->full = w->full || n > w->most;
    return buffer_json_shown(w->json, text, w->full ? 0 : n, err);
}

/* Begins an object that has a tag. */
static pawl_status put_tag(writing *w, const char *tag, const char *key, pawl_error *err) {
    return buffer_printf(w->json, err, "{\"$\":\"%s\",\"%s\":", tag, key);
}

static pawl_status put_end(writing *w, pawl_error *err) {
    return buffer_append(w->json, "}", 1, err);
}

static pawl_status put_name(buffer *json, const pickle_node *global, pawl_error *err) {
    CLEANUP(buffer_free) buffer text = {0};
    TRY(buffer_printf(&text, err, "%.1000s.%.1000s", global->global.module, global->global.name));
    return buffer_json_shown(json, (const char *)text.data, text.size, err);
}

/* ---- numbers, bytes -------------------------------------------------------------------------- */

/* A float stays one: 1.0, and not 1. */
static pawl_status put_float(writing *w, double number, pawl_error *err) {
    char text[DOUBLE_CHARS];
    if (isinf(number) || isnan(number)) {
        const char *word = isnan(number) ? "nan" : number > 0 ? "inf" : "-inf";
        return buffer_printf(w->json, err, "{\"$\":\"float\",\"text\":\"%s\"}", word);
    }
    size_t n = strlen(text_double(text, number));
    TRY(buffer_append(w->json, text, n, err));
    return strpbrk(text, ".eE") == NULL ? buffer_append(w->json, ".0", 2, err) : PAWL_OK;
}

static pawl_status put_bytes(writing *w, const char *tag, const void *bytes, size_t n,
                             pawl_error *err) {
    w->full = w->full || n > w->most;
    TRY(put_tag(w, tag, "data", err));
    TRY(base64_put(w->json, bytes, w->full ? 0 : n, err));
    return put_end(w, err);
}

/* An integer beyond 64 bits: its digits come out from the last one on. */
static pawl_status put_big(buffer *json, pickle_text number, pawl_error *err) {
    uint8_t left[DIGITS_MOST];
    char digits[3 * DIGITS_MOST];
    size_t at = sizeof(digits);
    bool negative = number.n > 0 && ((uint8_t)number.bytes[number.n - 1] & 0x80u) != 0;
    unsigned carry = negative ? 1 : 0;
    bool more = true;
    for (size_t i = 0; i < number.n; i++) {
        carry += negative ? (uint8_t) ~(uint8_t)number.bytes[i] : (uint8_t)number.bytes[i];
        left[i] = (uint8_t)carry;
        carry >>= 8;
    }
    while (more) {
        unsigned rest = 0;
        more = false;
        for (size_t i = number.n; i > 0; i--) {
            rest = rest << 8 | left[i - 1];
            left[i - 1] = (uint8_t)(rest / 10);
            rest %= 10;
            more = more || left[i - 1] != 0;
        }
        digits[--at] = (char)('0' + rest);
    }
    TRY(buffer_append(json, "-", negative ? 1 : 0, err));
    return buffer_append(json, digits + at, sizeof(digits) - at, err);
}

/* More digits than anybody reads. */
static pawl_status put_huge(writing *w, pickle_text number, pawl_error *err) {
    return put_bytes(w, "int", number.bytes, number.n, err);
}

/* ---- containers ------------------------------------------------------------------------------ */

static pawl_status put_list(writing *w, const pickle_items *items, int depth, pawl_error *err) {
    TRY(buffer_append(w->json, "[", 1, err));
    for (size_t i = 0; i < items->count && !is_full(w, depth); i++) {
        TRY(buffer_append(w->json, ",", i > 0 ? 1 : 0, err));
        TRY(put_json(w, items->nodes[i], depth + 1, err));
    }
    return buffer_append(w->json, "]", 1, err);
}

static pawl_status put_items(writing *w, const char *tag, const pickle_items *items, int depth,
                             pawl_error *err) {
    TRY(put_tag(w, tag, "items", err));
    TRY(put_list(w, items, depth + 1, err));
    return put_end(w, err);
}

/* As a list of lists: keys of any kind, in their order. */
static pawl_status put_pairs(writing *w, const pickle_items *pairs, int depth, pawl_error *err) {
    TRY(buffer_append(w->json, "[", 1, err));
    for (size_t i = 0; i + 1 < pairs->count && !is_full(w, depth); i += 2) {
        TRY(buffer_append(w->json, i > 0 ? ",[" : "[", i > 0 ? 2 : 1, err));
        TRY(put_json(w, pairs->nodes[i], depth + 2, err));
        TRY(buffer_append(w->json, ",", 1, err));
        TRY(put_json(w, pairs->nodes[i + 1], depth + 2, err));
        TRY(buffer_append(w->json, "]", 1, err));
    }
    return buffer_append(w->json, "]", 1, err);
}

static bool has_plain_keys(const pickle_items *pairs) {
    for (size_t i = 0; i + 1 < pairs->count; i += 2) {
        const pickle_node *key = pairs->nodes[i];
        if (key->kind != PICKLE_TEXT || (key->text.n > 0 && key->text.bytes[0] == '$')) {
            return false;
        }
    }
    return true;
}

static pawl_status put_dict(writing *w, const pickle_items *pairs, int depth, pawl_error *err) {
    if (!has_plain_keys(pairs)) {
        TRY(put_tag(w, "dict", "pairs", err));
        TRY(put_pairs(w, pairs, depth + 1, err));
        return put_end(w, err);
    }
    TRY(buffer_append(w->json, "{", 1, err));
    for (size_t i = 0; i + 1 < pairs->count && !is_full(w, depth); i += 2) {
        TRY(buffer_append(w->json, ",", i > 0 ? 1 : 0, err));
        TRY(put_text(w, pairs->nodes[i]->text.bytes, pairs->nodes[i]->text.n, err));
        TRY(buffer_append(w->json, ":", 1, err));
        TRY(put_json(w, pairs->nodes[i + 1], depth + 1, err));
    }
    return put_end(w, err);
}

/* ---- objects --------------------------------------------------------------------------------- */

static pawl_status put_part(writing *w, const char *key, const pickle_items *items, bool pairs,
                            int depth, pawl_error *err) {
    if (items->count == 0) {
        return PAWL_OK;
    }
    TRY(buffer_printf(w->json, err, ",\"%s\":", key));
    return pairs ? put_dict(w, items, depth + 1, err) : put_list(w, items, depth + 1, err);
}

/* By its class, what that was given, what was put into it, and its attributes. */
static pawl_status put_object(writing *w, const pickle_node *node, int depth, pawl_error *err) {
    const pickle_call *call = node->call;
    TRY(put_tag(w, "object", "class", err));
    TRY(put_name(w->json, call->callee, err));
    TRY(put_part(w, "arguments", &call->arguments->items, false, depth, err));
    TRY(put_part(w, "items", &call->with->items, call->with->pairs, depth, err));
    if (call->with->keywords != NULL) {
        TRY(put_part(w, "keywords", &call->with->keywords->items, true, depth, err));
    }
    if (call->with->state != NULL) {
        TRY(buffer_append(w->json, ",\"state\":", 9, err));
        TRY(put_json(w, call->with->state, depth + 1, err));
    }
    return put_end(w, err);
}

static pawl_status put_global(writing *w, const pickle_node *node, pawl_error *err) {
    const char *name = node->global.name;
    bool dtype = strcmp(node->global.module, "torch") == 0 && torch_type_named(name) != NULL;
    TRY(put_tag(w, dtype ? "dtype" : "global", "name", err));
    TRY(dtype ? buffer_json_shown(w->json, name, strlen(name), err) : put_name(w->json, node, err));
    return put_end(w, err);
}

/* What a defaultdict calls; NULL: none that has a name here. */
static const char *factory_of(const pickle_items *arguments) {
    static const char *const known[][2] = {
        {"int", "int"}, {"long", "int"}, {"float", "float"}, {"list", "list"}, {"dict", "dict"},
        {"set", "set"}, {"str", "str"},  {"unicode", "str"}, {"bool", "bool"},
    };
    const pickle_node *first = arguments->count > 0 ? arguments->nodes[0] : NULL;
    bool builtin = first != NULL && first->kind == PICKLE_GLOBAL &&
                   (strcmp(first->global.module, "builtins") == 0 ||
                    strcmp(first->global.module, "__builtin__") == 0);
    for (size_t i = 0; builtin && i < ARRAY_LENGTH(known); i++) {
        if (strcmp(first->global.name, known[i][0]) == 0) {
            return known[i][1];
        }
    }
    return NULL;
}

static pawl_status put_default(writing *w, const pickle_node *node, const pickle_items *pairs,
                               int depth, pawl_error *err) {
    const pickle_items *arguments = &node->call->arguments->items;
    const char *factory = factory_of(arguments);
    if (factory == NULL && arguments->count > 0 && arguments->nodes[0]->kind != PICKLE_NONE) {
        return put_object(w, node, depth, err);
    }
    TRY(put_tag(w, "defaultdict", "factory", err));
    TRY(factory != NULL ? buffer_printf(w->json, err, "\"%s\"", factory)
                        : buffer_append(w->json, "null", 4, err));
    TRY(buffer_append(w->json, ",\"pairs\":", 9, err));
    TRY(put_pairs(w, pairs, depth + 1, err));
    return put_end(w, err);
}

static pawl_status put_any_dict(writing *w, const pickle_node *node, int depth, pawl_error *err) {
    const pickle_items *pairs = torch_pairs_of(node);
    if (node->kind == PICKLE_DICT) {
        return put_dict(w, pairs, depth, err);
    }
    if (pickle_is_call(node, "collections", "defaultdict")) {
        return put_default(w, node, pairs, depth, err);
    }
    TRY(put_tag(w, node->call->callee->global.name, "pairs", err));
    TRY(put_pairs(w, pairs, depth + 1, err));
    return put_end(w, err);
}

static pawl_status put_queue(writing *w, const pickle_node *node, const pickle_items *items,
                             int depth, pawl_error *err) {
    const pickle_items *arguments = &node->call->arguments->items;
    const pickle_node *most = arguments->count > 1 ? arguments->nodes[1] : NULL;
    TRY(put_tag(w, "deque", "items", err));
    TRY(put_list(w, items, depth + 1, err));
    TRY(buffer_append(w->json, ",\"maxlen\":", 10, err));
    TRY(most != NULL && most->kind == PICKLE_INT ? buffer_decimal(w->json, most->integer, err)
                                                 : buffer_append(w->json, "null", 4, err));
    return put_end(w, err);
}

static pawl_status put_any_list(writing *w, const pickle_node *node, int depth, pawl_error *err) {
    const pickle_items *items = torch_items_of(node);
    switch (node->kind) {
    case PICKLE_LIST:
        return put_list(w, items, depth, err);
    case PICKLE_TUPLE:
        return put_items(w, "tuple", items, depth, err);
    case PICKLE_SET:
        return put_items(w, "set", items, depth, err);
    case PICKLE_FROZENSET:
        return put_items(w, "frozenset", items, depth, err);
    default:
        break;
    }
    const char *name = node->call->callee->global.name;
    return strcmp(name, "deque") == 0  ? put_queue(w, node, items, depth, err)
           : strcmp(name, "Size") == 0 ? put_items(w, "size", items, depth, err)
                                       : put_items(w, name, items, depth, err);
}

/* ---- calls of which something plain comes --------------------------------------------------- */

static pawl_status put_complex(writing *w, const pickle_items *parts, bool *done, pawl_error *err) {
    *done = parts->count == 2 && parts->nodes[0]->kind == PICKLE_FLOAT &&
            parts->nodes[1]->kind == PICKLE_FLOAT;
    if (!*done) {
        return PAWL_OK;
    }
    TRY(put_tag(w, "complex", "parts", err));
    TRY(put_list(w, parts, 0, err));
    return put_end(w, err);
}

static pawl_status put_device(writing *w, const pickle_items *arguments, bool *done,
                              pawl_error *err) {
    CLEANUP(buffer_free) buffer text = {0};
    const pickle_node *kind = arguments->count > 0 ? arguments->nodes[0] : NULL;
    const pickle_node *number = arguments->count > 1 ? arguments->nodes[1] : NULL;
    *done = kind != NULL && kind->kind == PICKLE_TEXT && kind->text.n < 64 &&
            (number == NULL || number->kind == PICKLE_INT);
    if (!*done) {
        return PAWL_OK;
    }
    TRY(buffer_append(&text, kind->text.bytes, kind->text.n, err));
    if (number != NULL) {
        TRY(buffer_printf(&text, err, ":%lld", (long long)number->integer));
    }
    TRY(put_tag(w, "device", "text", err));
    TRY(buffer_json_shown(w->json, (const char *)text.data, text.size, err));
    return put_end(w, err);
}

/* Its parts, of which the first may be the root. */
static pawl_status put_path(writing *w, const pickle_node *node, bool *done, pawl_error *err) {
    CLEANUP(buffer_free) buffer text = {0};
    const pickle_items *parts = &node->call->arguments->items;
    const char *name = node->call->callee->global.name;
    bool pure = strcmp(name, "PurePosixPath") == 0;
    *done = pure || strcmp(name, "PosixPath") == 0 || strcmp(name, "Path") == 0;
    for (size_t i = 0; i < parts->count && *done; i++) {
        const pickle_node *part = parts->nodes[i];
        *done = part->kind == PICKLE_TEXT && text.size <= w->most;
        bool apart = *done && i > 0 && !(text.size > 0 && text.data[text.size - 1] == '/');
        TRY(buffer_append(&text, "/", apart ? 1 : 0, err));
        if (*done) {
            TRY(buffer_append(&text, part->text.bytes, part->text.n, err));
        }
    }
    if (!*done) {
        return PAWL_OK;
    }
    TRY(put_tag(w, pure ? "purepath" : "path", "text", err));
    TRY(put_text(w, text.size > 0 ? (const char *)text.data : ".", text.size > 0 ? text.size : 1,
                 err));
    return put_end(w, err);
}

static pawl_status put_encoded(writing *w, const pickle_node *node, bool *done, pawl_error *err) {
    CLEANUP(buffer_free) buffer bytes = {0};
    const pickle_items *arguments = &node->call->arguments->items;
    bool array = is_builtin(node, "bytearray");
    const pickle_node *of = array && arguments->count == 1 ? arguments->nodes[0] : node;
    TRY(torch_take_bytes(of, &bytes, done, err));
    if (array && arguments->count == 0) {
        *done = true;
    }
    return *done ? put_bytes(w, array ? "bytearray" : "bytes", bytes.data, bytes.size, err)
                 : PAWL_OK;
}

static pawl_status put_number(writing *w, const pickle_node *node, bool *done, pawl_error *err) {
    uint8_t bytes[16];
    numpy_type type;
    *done = numpy_take_scalar(node, &type, bytes);
    if (!*done) {
        return PAWL_OK;
    }
    TRY(buffer_printf(w->json, err,
                      "{\"$\":\"numpy\",\"dtype\":\"%c%c%u\",\"shape\":[],\"scalar\":true,"
                      "\"data\":",
                      type.bytes > 1 ? '<' : '|', type.kind, (unsigned)type.bytes));
    TRY(base64_put(w->json, bytes, type.bytes, err));
    return put_end(w, err);
}

static pawl_status put_namespace(writing *w, const pickle_node *node, int depth, bool *done,
                                 pawl_error *err) {
    const pickle_call *call = node->call;
    *done = call->arguments->items.count == 0 && call->with->items.count == 0 &&
            call->with->state != NULL && call->with->state->kind == PICKLE_DICT;
    if (!*done) {
        return PAWL_OK;
    }
    TRY(put_tag(w, "Namespace", "items", err));
    TRY(put_dict(w, &call->with->state->items, depth + 1, err));
    return put_end(w, err);
}

static pawl_status put_known(writing *w, const pickle_node *node, int depth, bool *done,
                             pawl_error *err) {
    const char *module = node->call->callee->global.module;
    const pickle_items *arguments = &node->call->arguments->items;
    *done = false;
    if (node->call->with->keywords != NULL) {
        return PAWL_OK;
    }
    if (is_builtin(node, "complex")) {
        return put_complex(w, arguments, done, err);
    }
    if (pickle_is_call(node, "torch", "device")) {
        return put_device(w, arguments, done, err);
    }
    if (strcmp(module, "pathlib") == 0 || strcmp(module, "pathlib._local") == 0) {
        return put_path(w, node, done, err);
    }
    if (pickle_is_call(node, "argparse", "Namespace")) {
        return put_namespace(w, node, depth, done, err);
    }
    TRY(put_number(w, node, done, err));
    return *done ? PAWL_OK : put_encoded(w, node, done, err);
}

static pawl_status put_call(writing *w, const pickle_node *node, int depth, pawl_error *err) {
    bool done = false;
    if (node->call->with == NULL) {
        return error_set(err, PAWL_EINTERNAL, "a call of a pickle lacks what it was given");
    }
    if (is_dict(node)) {
        return put_any_dict(w, node, depth, err);
    }
    if (torch_items_of(node) != NULL) {
        return put_any_list(w, node, depth, err);
    }
    TRY(put_known(w, node, depth, &done, err));
    return done ? PAWL_OK : put_object(w, node, depth, err);
}

static pawl_status put_json(writing *w, const pickle_node *node, int depth, pawl_error *err) {
    w->visits++;
    if (is_full(w, depth)) {
        return buffer_append(w->json, "null", 4, err);
    }
    switch (node->kind) {
    case PICKLE_BOOL:
        return buffer_printf(w->json, err, node->truth ? "true" : "false");
    case PICKLE_INT:
        return buffer_decimal(w->json, node->integer, err);
    case PICKLE_FLOAT:
        return put_float(w, node->number, err);
    case PICKLE_TEXT:
        return put_text(w, node->text.bytes, node->text.n, err);
    case PICKLE_BYTES:
        return put_bytes(w, "bytes", node->text.bytes, node->text.n, err);
    case PICKLE_BIG:
        return node->text.n <= DIGITS_MOST ? put_big(w->json, node->text, err)
                                           : put_huge(w, node->text, err);
    case PICKLE_LIST:
    case PICKLE_TUPLE:
    case PICKLE_SET:
    case PICKLE_FROZENSET:
        return put_any_list(w, node, depth, err);
    case PICKLE_DICT:
        return put_any_dict(w, node, depth, err);
    case PICKLE_GLOBAL:
        return put_global(w, node, err);
    case PICKLE_CALL:
        return put_call(w, node, depth, err);
    case PICKLE_OUTSIDE: /* a storage of the oldest files */
        return buffer_printf(w->json, err, "{\"$\":\"outside\"}");
    default:
        return buffer_append(w->json, "null", 4, err);
    }
}

pawl_status torch_put_json(const pickle_node *node, size_t most, buffer *json, bool *fits,
                           uint64_t *visits, pawl_error *err) {
    size_t before = json->size;
    writing w = {.json = json, .most = before + most};
    TRY(put_json(&w, node, 0, err));
    *visits += w.visits;
    *fits = !w.full && json->size <= w.most;
    json->size = *fits ? json->size : before;
    return PAWL_OK;
}
