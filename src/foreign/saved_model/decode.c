/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the parts of a SavedModel: which of its graphs is meant, the functions of its library. */
#include "foreign/saved_model/private.h"

#include <stdlib.h>

pawl_status saved_next_bytes(cursor *c, proto_field *out, bool *more, pawl_error *err) {
    do {
        TRY(proto_next(c, out, more, err));
    } while (*more && out->wire != 2);
    return PAWL_OK;
}

pawl_status saved_map_entry(const saved_model *m, bundle_text entry, bundle_text *key,
                            bundle_text *value, pawl_error *err) {
    cursor c = saved_message(m, entry);
    proto_field f;
    bool more = true;
    *key = (bundle_text){.n = 0};
    *value = (bundle_text){.n = 0};
    for (;;) {
        TRY(saved_next_bytes(&c, &f, &more, err));
        if (!more) {
            return PAWL_OK;
        }
        if (f.number == 1) {
            *key = f.text;
        } else if (f.number == 2) {
            *value = f.text;
        }
    }
}

/* ---- which graph ---------------------------------------------------------------------------- */

/* MetaInfoDef: tags 4, tensorflow_version 5. */
static pawl_status look_at_info(const saved_model *m, bundle_text info, bool *serves,
                                bundle_text *version, pawl_error *err) {
    cursor c = saved_message(m, info);
    proto_field f;
    bool more = true;
    for (;;) {
        TRY(saved_next_bytes(&c, &f, &more, err));
        if (!more) {
            return PAWL_OK;
        }
        *serves = *serves || (f.number == 4 && bundle_text_is(f.text, "serve"));
        *version = f.number == 5 ? f.text : *version;
    }
}

/* MetaGraphDef: meta_info_def 1. */
static pawl_status look_at_graph(const saved_model *m, bundle_text graph, bool *serves,
                                 bundle_text *version, pawl_error *err) {
    cursor c = saved_message(m, graph);
    proto_field f;
    bool more = true;
    *serves = false;
    *version = (bundle_text){.n = 0};
    for (;;) {
        TRY(saved_next_bytes(&c, &f, &more, err));
        if (!more) {
            return PAWL_OK;
        }
        if (f.number == 1) {
            TRY(look_at_info(m, f.text, serves, version, err));
        }
    }
}

/* SavedModel: meta_graphs 2. */
static pawl_status choose_graph(const saved_model *m, cursor c, bundle_text *graph,
                                bundle_text *version, pawl_error *err) {
    bool found = false;
    bool serves = false;
    proto_field f;
    bool more = true;
    for (;;) {
        bundle_text its_version;
        TRY(saved_next_bytes(&c, &f, &more, err));
        if (!more) {
            break;
        }
        if (f.number != 2 || serves) {
            continue;
        }
        TRY(look_at_graph(m, f.text, &serves, &its_version, err));
        if (!found || serves) {
            *graph = f.text;
            *version = its_version;
        }
        found = true;
    }
    return found ? PAWL_OK : error_set(err, PAWL_EDAMAGED, "the SavedModel has no graph");
}

/* ---- functions ------------------------------------------------------------------------------ */

static pawl_status add_function(saved_model *m, bundle_text name, bundle_text body,
                                pawl_error *err) {
    if (m->function_count == FOREIGN_MAX_MODEL_FUNCTIONS) {
        return saved_too_many("functions", FOREIGN_MAX_MODEL_FUNCTIONS, err);
    }
    TRY(vec_reserve(&m->functions, &m->function_room, m->function_count + 1, sizeof(*m->functions),
                    err));
    m->functions[m->function_count++] = (saved_function){.name = name, .body = body};
    return PAWL_OK;
}

/* FunctionDef: signature 1; OpDef: name 1. */
static pawl_status name_of_function(const saved_model *m, bundle_text body, bundle_text *name,
                                    pawl_error *err) {
    cursor c = saved_message(m, body);
    proto_field f;
    bool more = true;
    for (;;) {
        TRY(saved_next_bytes(&c, &f, &more, err));
        if (!more) {
            return PAWL_OK;
        }
        if (f.number != 1) {
            continue;
        }
        cursor op = saved_message(m, f.text);
        do {
            TRY(saved_next_bytes(&op, &f, &more, err));
            *name = more && f.number == 1 ? f.text : *name;
        } while (more);
    }
}

/* FunctionDefLibrary: function 1. */
static pawl_status decode_library(saved_model *m, bundle_text library, pawl_error *err) {
    cursor c = saved_message(m, library);
    proto_field f;
    bool more = true;
    for (;;) {
        bundle_text name = {.n = 0};
        TRY(saved_next_bytes(&c, &f, &more, err));
        if (!more) {
            return PAWL_OK;
        }
        if (f.number == 1) {
            TRY(name_of_function(m, f.text, &name, err));
            TRY(add_function(m, name, f.text, err));
        }
    }
}

static int compare_functions(const void *left, const void *right) {
    const saved_function *a = left;
    const saved_function *b = right;
    int order = bundle_text_compare(a->name, b->name);
    /* Of one name the first one counts: qsort does not keep their order. */
    return order != 0 ? order : (a->body.bytes > b->body.bytes) - (a->body.bytes < b->body.bytes);
}

/* MetaGraphDef: graph_def 2; GraphDef: library 2. */
static pawl_status decode_functions(saved_model *m, bundle_text graph, pawl_error *err) {
    const bundle_text none = {.n = 0};
    cursor c = saved_message(m, graph);
    proto_field f;
    bool more = true;
    TRY(add_function(m, none, none, err));
    for (;;) {
        TRY(saved_next_bytes(&c, &f, &more, err));
        if (!more) {
            break;
        }
        if (f.number != 2) {
            continue;
        }
        if (m->functions[0].body.n > 0) {
            return error_set(err, PAWL_EDAMAGED, "the SavedModel has a graph in two parts");
        }
        m->functions[0].body = f.text;
    }
    for (c = saved_message(m, m->functions[0].body);;) {
        TRY(saved_next_bytes(&c, &f, &more, err));
        if (!more) {
            break;
        }
        if (f.number == 2) {
            TRY(decode_library(m, f.text, err));
        }
    }
    qsort(m->functions + 1, m->function_count - 1, sizeof(*m->functions), compare_functions);
    return PAWL_OK;
}

/* ---- all of it ------------------------------------------------------------------------------ */

static pawl_status decode(const uint8_t *bytes, size_t n, saved_model *m, pawl_error *err) {
    bundle_text graph = {.n = 0};
    if (n > FOREIGN_MAX_SAVED_MODEL) {
        return saved_too_many("bytes", FOREIGN_MAX_SAVED_MODEL, err);
    }
    TRY(choose_graph(m, cursor_of(bytes, n, 0, "SavedModel"), &graph, &m->version, err));
    TRY(decode_functions(m, graph, err));
    TRY(saved_model_decode_nodes(m, err));
    return saved_model_decode_signatures(m, graph, err);
}

pawl_status saved_model_decode(const uint8_t *bytes, size_t n, saved_model *out, pawl_error *err) {
    *out = (saved_model){.bytes = bytes};
    pawl_status status = decode(bytes, n, out, err);
    if (status != PAWL_OK) {
        saved_model_free(out);
        *out = (saved_model){.functions = NULL};
    }
    return status;
}

void saved_model_free(saved_model *m) {
    mem_free(m->functions);
    mem_free(m->nodes);
    mem_free(m->links);
    mem_free(m->calls);
    mem_free(m->signatures);
    mem_free(m->inputs);
    arena_free(&m->memory);
}
