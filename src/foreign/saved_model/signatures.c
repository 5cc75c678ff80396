/* SPDX-License-Identifier: Apache-2.0 */
/* The signatures of a SavedModel: their inputs, with types and shapes, and where their outputs come
 * from. */
#include "foreign/saved_model/private.h"

#include <stdlib.h>

/* ---- shapes --------------------------------------------------------------------------------- */

/* Dim: size 1. Without one it is 0, as protobuf has it. */
static pawl_status decode_extent(const saved_model *m, bundle_text dim, int64_t *extent,
                                 pawl_error *err) {
    cursor c = saved_message(m, dim);
    proto_field f;
    bool more = true;
    *extent = 0;
    for (;;) {
        TRY(proto_next(&c, &f, &more, err));
        if (!more) {
            break;
        }
        if (f.number == 1 && f.wire == 0) {
            *extent = f.value <= INT64_MAX ? (int64_t)f.value : -1;
        }
    }
    return PAWL_OK;
}

/* TensorShapeProto: dim 2, unknown_rank 3. */
static pawl_status decode_shape(saved_model *m, bundle_text shape, saved_input *input,
                                pawl_error *err) {
    int64_t extents[FOREIGN_MAX_MODEL_NDIM];
    cursor c = saved_message(m, shape);
    proto_field f;
    bool more = true;
    input->ndim = 0;
    for (;;) {
        TRY(proto_next(&c, &f, &more, err));
        if (!more) {
            break;
        }
        if (f.number == 3 && f.wire == 0) {
            input->unknown_rank = f.value != 0;
        }
        if (f.number != 2 || f.wire != 2) {
            continue;
        }
        if (input->ndim == (int)FOREIGN_MAX_MODEL_NDIM) {
            return saved_too_many("dimensions of an input", FOREIGN_MAX_MODEL_NDIM, err);
        }
        TRY(decode_extent(m, f.text, &extents[input->ndim++], err));
    }
    int64_t *kept = arena_take(&m->memory, ((size_t)input->ndim + 1) * sizeof(*kept), err);
    if (kept == NULL) {
        return err->status;
    }
    for (int i = 0; i < input->ndim; i++) {
        kept[i] = extents[i];
    }
    input->shape = kept;
    return PAWL_OK;
}

/* ---- inputs --------------------------------------------------------------------------------- */

/* TensorInfo: name 1, dtype 2, tensor_shape 3, coo_sparse 4, composite_tensor 5. */
static pawl_status decode_input(saved_model *m, bundle_text name, bundle_text info,
                                pawl_error *err) {
    cursor c = saved_message(m, info);
    saved_input input = {.name = name, .node = NOWHERE, .unknown_rank = true};
    proto_field f;
    bool more = true;
    if (m->input_count == FOREIGN_MAX_MODEL_INPUTS) {
        return saved_too_many("inputs", FOREIGN_MAX_MODEL_INPUTS, err);
    }
    for (;;) {
        TRY(proto_next(&c, &f, &more, err));
        if (!more) {
            break;
        }
        if (f.number == 1 && f.wire == 2) {
            input.node = saved_model_find_node(m, f.text);
        } else if (f.number == 2 && f.wire == 0) {
            input.type = f.value < UINT32_MAX ? (uint32_t)f.value : 0;
        } else if (f.number == 3 && f.wire == 2) {
            input.unknown_rank = false;
            TRY(decode_shape(m, f.text, &input, err));
        } else if (f.number == 4 || f.number == 5) {
            input.sparse = true;
        }
    }
    TRY(vec_reserve(&m->inputs, &m->input_room, m->input_count + 1, sizeof(input), err));
    m->inputs[m->input_count++] = input;
    return PAWL_OK;
}

static int compare_inputs(const void *left, const void *right) {
    return bundle_text_compare(((const saved_input *)left)->name,
                               ((const saved_input *)right)->name);
}

/* ---- outputs -------------------------------------------------------------------------------- */

static pawl_status add_root(saved_model *m, bundle_text tensor, pawl_error *err) {
    return saved_model_add_link(m, saved_model_find_node(m, tensor), err);
}

/* The tensors of a SparseTensor: CooSparse has three names. */
static pawl_status decode_sparse_output(saved_model *m, bundle_text parts, pawl_error *err) {
    cursor c = saved_message(m, parts);
    proto_field f;
    bool more = true;
    for (;;) {
        TRY(saved_next_bytes(&c, &f, &more, err));
        if (!more) {
            return PAWL_OK;
        }
        TRY(add_root(m, f.text, err));
    }
}

/* CompositeTensorInfo: components 2, each a TensorInfo: name 1, without parts of its own. */
static pawl_status decode_composite_output(saved_model *m, bundle_text composite, pawl_error *err) {
    cursor c = saved_message(m, composite);
    proto_field f;
    bool more = true;
    for (;;) {
        TRY(saved_next_bytes(&c, &f, &more, err));
        if (!more) {
            return PAWL_OK;
        }
        if (f.number != 2) {
            continue;
        }
        cursor info = saved_message(m, f.text);
        for (;;) {
            TRY(saved_next_bytes(&info, &f, &more, err));
            if (!more) {
                break;
            }
            if (f.number == 1) {
                TRY(add_root(m, f.text, err));
            }
        }
    }
}

/* TensorInfo: name 1, coo_sparse 4, composite_tensor 5. */
static pawl_status decode_output(saved_model *m, bundle_text info, pawl_error *err) {
    cursor c = saved_message(m, info);
    proto_field f;
    bool more = true;
    for (;;) {
        TRY(saved_next_bytes(&c, &f, &more, err));
        if (!more) {
            return PAWL_OK;
        }
        if (f.number == 1) {
            TRY(add_root(m, f.text, err));
        } else if (f.number == 4) {
            TRY(decode_sparse_output(m, f.text, err));
        } else if (f.number == 5) {
            TRY(decode_composite_output(m, f.text, err));
        }
    }
}

/* ---- signatures ----------------------------------------------------------------------------- */

/* SignatureDef: inputs 1, outputs 2. */
static pawl_status decode_signature(saved_model *m, saved_signature *s, pawl_error *err) {
    cursor c = saved_message(m, s->body);
    proto_field f;
    bool more = true;
    s->input = (uint32_t)m->input_count;
    s->root = (uint32_t)m->link_count;
    for (;;) {
        bundle_text name;
        bundle_text info;
        TRY(saved_next_bytes(&c, &f, &more, err));
        if (!more) {
            break;
        }
        if (f.number != 1 && f.number != 2) {
            continue;
        }
        TRY(saved_map_entry(m, f.text, &name, &info, err));
        if (f.number == 1) {
            TRY(decode_input(m, name, info, err));
        } else {
            TRY(decode_output(m, info, err));
        }
    }
    s->input_count = (uint32_t)(m->input_count - s->input);
    s->root_count = (uint32_t)(m->link_count - s->root);
    if (s->input_count > 0) {
        qsort(m->inputs + s->input, s->input_count, sizeof(*m->inputs), compare_inputs);
    }
    return PAWL_OK;
}

static int compare_signatures(const void *left, const void *right) {
    const saved_signature *a = left;
    const saved_signature *b = right;
    int order = bundle_text_compare(a->name, b->name);
    return order != 0 ? order : (a->body.bytes > b->body.bytes) - (a->body.bytes < b->body.bytes);
}

/* MetaGraphDef: signature_def 5. */
pawl_status saved_model_decode_signatures(saved_model *m, bundle_text graph, pawl_error *err) {
    cursor c = saved_message(m, graph);
    proto_field f;
    bool more = true;
    for (;;) {
        saved_signature s = {.input = 0};
        TRY(saved_next_bytes(&c, &f, &more, err));
        if (!more) {
            break;
        }
        if (f.number != 5) {
            continue;
        }
        if (m->signature_count == FOREIGN_MAX_MODEL_INPUTS) {
            return saved_too_many("signatures", FOREIGN_MAX_MODEL_INPUTS, err);
        }
        TRY(saved_map_entry(m, f.text, &s.name, &s.body, err));
        TRY(vec_reserve(&m->signatures, &m->signature_room, m->signature_count + 1, sizeof(s),
                        err));
        m->signatures[m->signature_count++] = s;
    }
    if (m->signature_count > 0) {
        qsort(m->signatures, m->signature_count, sizeof(*m->signatures), compare_signatures);
    }
    for (size_t i = 0; i < m->signature_count; i++) {
        TRY(decode_signature(m, &m->signatures[i], err));
    }
    return PAWL_OK;
}
