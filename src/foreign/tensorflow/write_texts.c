/* SPDX-License-Identifier: Apache-2.0 */
/* Texts as TensorFlow has them in a bundle: all lengths, and then all texts. */
#include "base/json.h"
#include "foreign/tensorflow/write_keys.h"

#include <string.h>

static pawl_status put_length(texts *t, size_t n, pawl_error *err) {
    TRY(buffer_varint(&t->lengths, n, err));
    return buffer_u32le(&t->sizes, (uint32_t)n, err); /* a value has fewer than 4 GiB */
}

/* ---- lists ---------------------------------------------------------------------------------- */

/* The innermost lists are those with texts, or with nothing. */
typedef struct nest {
    int depth;
    int64_t counts[PAWL_MAX_NDIM];
} nest;

static pawl_status put_text(texts *t, json_span text, pawl_error *err) {
    TRY(buffer_reserve(&t->bytes, text.n, err));
    size_t n = json_decode(text, (char *)t->bytes.data + t->bytes.size, text.n);
    t->bytes.size += n;
    t->bytes.data[t->bytes.size] = 0;
    return put_length(t, n, err);
}

/* Are all lists so deep equally long? -1: this is the first one. */
static bool end_list(texts *t, nest *n) {
    int64_t count = n->counts[--n->depth];
    if (count == 0 && t->ndim == 0) {
        t->ndim = n->depth + 1;
    }
    int64_t *said = &t->shape[n->depth];
    bool first = *said < 0;
    *said = first ? count : *said;
    return *said == count && (count > 0 || t->ndim == n->depth + 1);
}

static bool begin_list(const texts *t, json_reader *r, nest *n) {
    int most = t->ndim > 0 ? t->ndim : PAWL_MAX_NDIM;
    if (n->depth == most || json_enter(r, '[') != PAWL_OK) {
        return false;
    }
    n->counts[n->depth++] = 0;
    return true;
}

/* *list is false where it is anything else. */
static pawl_status take_list(texts *t, json_reader *r, bool *list, pawl_error *err) {
    nest n = {.depth = 0};
    json_span text;
    bool more;
    *list = begin_list(t, r, &n);
    while (*list && n.depth > 0) {
        *list = json_element(r, &more) == PAWL_OK;
        if (!*list || !more) {
            *list = *list && end_list(t, &n);
            continue;
        }
        n.counts[n.depth - 1]++;
        if (json_peek(r) == '[') {
            *list = begin_list(t, r, &n);
            continue;
        }
        *list = json_peek(r) == '"' && (t->ndim == 0 || t->ndim == n.depth) &&
                json_string(r, &text) == PAWL_OK;
        t->ndim = n.depth;
        TRY(*list ? put_text(t, text, err) : PAWL_OK);
    }
    *list = *list && json_end(r) == PAWL_OK;
    return PAWL_OK;
}

/* ---- all of it ------------------------------------------------------------------------------ */

static pawl_status begin(texts *t, pawl_error *err) {
    texts_free(t);
    t->ndim = 0;
    for (int d = 0; d < PAWL_MAX_NDIM; d++) {
        t->shape[d] = -1;
    }
    TRY(buffer_append(&t->lengths, "", 0, err));
    TRY(buffer_append(&t->sizes, "", 0, err));
    return buffer_append(&t->bytes, "", 0, err);
}

pawl_status texts_of(const writer_item *item, texts *out, pawl_error *err) {
    bool list = false;
    TRY(begin(out, err));
    if (item->kind == PAWL_KIND_JSON) {
        json_reader r = json_reader_of(item->value, item->value_bytes);
        TRY(take_list(out, &r, &list, err));
    }
    if (list) {
        return PAWL_OK;
    }
    TRY(begin(out, err));
    TRY(put_length(out, item->value_bytes, err));
    return buffer_append(&out->bytes, item->value, item->value_bytes, err);
}

void texts_free(texts *t) {
    buffer_free(&t->lengths);
    buffer_free(&t->sizes);
    buffer_free(&t->bytes);
}
