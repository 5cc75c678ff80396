/* SPDX-License-Identifier: Apache-2.0 */
/* Judges a SavedModel, signature by signature: its inputs (J03), and all nodes that it reaches
 * (J07). Nodes of one op with one reason are one finding. */
#include "doctor/judge_node.h"
#include "doctor/saved_model.h"
#include "doctor/xla.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Findings of one model: who has more of them learns nothing from the rest. */
#define MAX_TOLD 100u
#define NEXT_PYTHON                                                                                \
    "it runs Python: write it with ops of TensorFlow, or call it in the input pipeline "           \
    "(tf.data.Dataset.map)"
#define NEXT_VARIABLE                                                                              \
    "the model was saved by TensorFlow 1, whose variables XLA does not take: export it anew"
/* Bytes that are shown of a name. */
#define SHOWN(text) (int)((text).n < 160 ? (text).n : 160), (const char *)(text).bytes

static const struct {
    const char *op, *next;
} advice[] = {
    {"EagerPyFunc", NEXT_PYTHON}, {"PyFunc", NEXT_PYTHON},       {"PyFuncStateless", NEXT_PYTHON},
    {"Variable", NEXT_VARIABLE},  {"VariableV2", NEXT_VARIABLE},
};
static const char next_op[] =
    "leave it to the host, before the model (tf.data) or after it, or use ops that XLA has; "
    "tf.function(jit_compile=True) tries it";
static const char next_text[] =
    "turn text into numbers before the model (tf.data), and export a signature that takes these";

/* Nodes of one op that cannot be compiled for one reason: the first of them, and how many more. */
typedef struct site {
    const saved_node *node;
    node_verdict verdict;
    uint64_t others;
} site;

typedef struct judging {
    examination *x;
    const saved_model *model;
    const saved_signature *signature;
    site sites[MAX_TOLD];
    size_t count;
    const saved_node *first_double;
    uint64_t doubles, nodes;
    size_t told, untold;
    pawl_error *err;
    pawl_status status; /* of the first failure inside of a walk */
} judging;

/* Room for another warning? */
static bool may_tell(judging *j) {
    if (j->told < MAX_TOLD) {
        j->told++;
        return true;
    }
    j->untold++;
    return false;
}

/* ---- inputs --------------------------------------------------------------------------------- */

#define SHAPE_BYTES 200u

/* "[8, ?]"; *unknown: the first dimension that is, -1: none. */
static void shape_words(char out[SHAPE_BYTES], const saved_input *input, int *unknown) {
    size_t at = (size_t)snprintf(out, SHAPE_BYTES, "[");
    *unknown = -1;
    for (int i = 0; i < input->ndim; i++) {
        *unknown = input->shape[i] < 0 && *unknown < 0 ? i : *unknown;
        if (at > SHAPE_BYTES - 32) {
            continue;
        }
        at += (size_t)snprintf(out + at, SHAPE_BYTES - at, "%s", i > 0 ? ", " : "");
        at += input->shape[i] < 0
                  ? (size_t)snprintf(out + at, SHAPE_BYTES - at, "?")
                  : (size_t)snprintf(out + at, SHAPE_BYTES - at, "%" PRId64, input->shape[i]);
    }
    (void)snprintf(out + at, SHAPE_BYTES - at, at > SHAPE_BYTES - 32 ? ", ...]" : "]");
}

/* ": dimension 1 is unknown", ": dimensions 0, 2 are unknown" */
static void unknown_words(char out[SHAPE_BYTES], const saved_input *input) {
    int count = 0;
    for (int i = 0; i < input->ndim; i++) {
        count += input->shape[i] < 0;
    }
    size_t at = (size_t)snprintf(out, SHAPE_BYTES, count > 1 ? "dimensions" : "dimension");
    int told = 0;
    for (int i = 0; i < input->ndim && at < SHAPE_BYTES - 48; i++) {
        if (input->shape[i] < 0) {
            at += (size_t)snprintf(out + at, SHAPE_BYTES - at, "%s %d", told++ > 0 ? "," : "", i);
        }
    }
    (void)snprintf(out + at, SHAPE_BYTES - at, "%s", count > 1 ? " are unknown" : " is unknown");
}

/* "tf.TensorSpec([8, N1], tf.int32, name="words")": one with the size to give. */
static void next_for_shape(char *out, size_t size, const saved_input *input, const char *type) {
    char shape[SHAPE_BYTES];
    size_t at = (size_t)snprintf(shape, sizeof(shape), "[");
    for (int i = 0; i < input->ndim && at < sizeof(shape) - 40; i++) {
        at += (size_t)snprintf(shape + at, sizeof(shape) - at, "%s", i > 0 ? ", " : "");
        at += input->shape[i] < 0
                  ? (size_t)snprintf(shape + at, sizeof(shape) - at, i == 0 ? "BATCH" : "N%d", i)
                  : (size_t)snprintf(shape + at, sizeof(shape) - at, "%" PRId64, input->shape[i]);
    }
    (void)snprintf(shape + at, sizeof(shape) - at, "]");
    (void)snprintf(out, size,
                   "give the size that every call has, and pad what is smaller: export a signature "
                   "with tf.TensorSpec(%s, tf.%s, name=\"%.*s\")%s",
                   shape, type, SHOWN(input->name),
                   input->ndim > 0 && input->shape[0] < 0
                       ? ", BATCH being the number of examples of a batch"
                       : "");
}

static void tell_shape(judging *j, const saved_input *input, const char *type) {
    char shape[SHAPE_BYTES];
    char unknown[SHAPE_BYTES];
    char next[900];
    int first;
    shape_words(shape, input, &first);
    if (first < 0 || !may_tell(j)) {
        return;
    }
    unknown_words(unknown, input);
    next_for_shape(next, sizeof(next), input, type);
    doctor_tell(j->x, "J03", PAWL_SEVERITY_WARNING, next,
                "signature \"%.*s\": input \"%.*s\": %s %s: %s", SHOWN(j->signature->name),
                SHOWN(input->name), type, shape, unknown);
}

static void judge_input(judging *j, const saved_input *input) {
    char room[32];
    const char *type = xla_type_name(input->type, room);
    if (input->sparse) {
        if (may_tell(j)) {
            doctor_tell(j->x, "J03", PAWL_SEVERITY_WARNING,
                        "make it dense before the model: tf.sparse.to_dense, or to_tensor(shape=) "
                        "of a ragged one",
                        "signature \"%.*s\": input \"%.*s\" is sparse or ragged: how many elements "
                        "it has differs from batch to batch",
                        SHOWN(j->signature->name), SHOWN(input->name));
        }
    } else if (input->unknown_rank) {
        if (may_tell(j)) {
            doctor_tell(j->x, "J03", PAWL_SEVERITY_WARNING,
                        "export a signature with a tf.TensorSpec that has a shape",
                        "signature \"%.*s\": input \"%.*s\": %s: the number of its dimensions is "
                        "unknown",
                        SHOWN(j->signature->name), SHOWN(input->name), type);
        }
    } else {
        tell_shape(j, input, type);
    }
    if (input->type == SAVED_MODEL_STRING && may_tell(j)) {
        doctor_tell(j->x, "J07", PAWL_SEVERITY_WARNING, next_text,
                    "signature \"%.*s\": input \"%.*s\" is string, which no accelerator takes",
                    SHOWN(j->signature->name), SHOWN(input->name));
    }
}

/* ---- nodes ---------------------------------------------------------------------------------- */

/* Of one op, for one reason. */
static int compare_reasons(const site *a, const site *b) {
    int order = bundle_text_compare(a->node->op, b->node->op);
    if (order == 0) {
        order = (a->verdict.kind > b->verdict.kind) - (a->verdict.kind < b->verdict.kind);
    }
    if (order == 0) {
        order = bundle_text_compare(a->verdict.attribute, b->verdict.attribute);
    }
    return order != 0 ? order
                      : (a->verdict.type > b->verdict.type) - (a->verdict.type < b->verdict.type);
}

/* Few are kept, as few are told: so each is found by looking at all. */
static void add_site(judging *j, const site *found) {
    for (size_t i = 0; i < j->count; i++) {
        site *s = &j->sites[i];
        if (compare_reasons(s, found) == 0) {
            s->node = found->node < s->node ? found->node : s->node;
            s->others++;
            return;
        }
    }
    if (j->count < MAX_TOLD) {
        j->sites[j->count++] = *found;
    } else {
        j->untold++;
    }
}

static bool visit_node(void *context, const saved_node *node) {
    judging *j = context;
    node_verdict verdict;
    if (j->status != PAWL_OK) {
        return false;
    }
    pawl_status status = judge_node(j->model, node, &verdict, j->err);
    if (status != PAWL_OK) {
        j->status = status;
        return false;
    }
    j->nodes++;
    verdict.doubles = verdict.doubles && node->call_count == 0; /* what is called is told, if any */
    j->doubles += verdict.doubles;
    if (verdict.doubles && (j->first_double == NULL || node < j->first_double)) {
        j->first_double = node;
    }
    if (verdict.kind != NODE_FINE) {
        add_site(j, &(site){.node = node, .verdict = verdict});
    }
    return verdict.kind != NODE_WITHOUT_KERNEL;
}

static int compare_sites(const void *left, const void *right) {
    return compare_reasons(left, right);
}

/* "node while/PyFunc in function while_cond_9; 2 more such nodes" */
static void place_words(char *out, size_t size, const judging *j, const saved_node *node,
                        uint64_t others) {
    const saved_function *in = &j->model->functions[node->function];
    size_t at = (size_t)snprintf(out, size, "node %.*s", SHOWN(node->name));
    if (node->function != 0) {
        at += (size_t)snprintf(out + at, size - at, " in function %.*s", SHOWN(in->name));
    }
    if (others > 0) {
        (void)snprintf(out + at, size - at, "; %" PRIu64 " more such %s", others,
                       others > 1 ? "nodes" : "node");
    }
}

static const char *next_for_op(bundle_text op) {
    for (size_t i = 0; i < ARRAY_LENGTH(advice); i++) {
        if (bundle_text_is(op, advice[i].op)) {
            return advice[i].next;
        }
    }
    return next_op;
}

static void tell_site(judging *j, const site *s) {
    char place[512];
    char room[32];
    place_words(place, sizeof(place), j, s->node, s->others);
    if (!may_tell(j)) {
        return;
    }
    if (s->verdict.kind == NODE_WITHOUT_KERNEL) {
        doctor_tell(j->x, "J07", PAWL_SEVERITY_WARNING, next_for_op(s->node->op),
                    "signature \"%.*s\": op %.*s (%s) has no XLA kernel in %s",
                    SHOWN(j->signature->name), SHOWN(s->node->op), place, xla_version);
        return;
    }
    bool text = s->verdict.type == SAVED_MODEL_STRING;
    doctor_tell(j->x, "J07", PAWL_SEVERITY_WARNING,
                text ? next_text
                     : "cast to a type that this op has a kernel for: float32 and int32 nearly "
                       "always are",
                "signature \"%.*s\": op %.*s (%s) has no XLA kernel in %s for %.*s of type %s",
                SHOWN(j->signature->name), SHOWN(s->node->op), place, xla_version,
                SHOWN(s->verdict.attribute), xla_type_name(s->verdict.type, room));
}

static void tell_sites(judging *j) {
    if (j->count > 0) {
        qsort(j->sites, j->count, sizeof(*j->sites), compare_sites);
    }
    for (size_t i = 0; i < j->count; i++) {
        tell_site(j, &j->sites[i]);
    }
}

static void tell_doubles(judging *j) {
    char place[512];
    if (j->first_double == NULL || j->told >= MAX_TOLD) {
        return;
    }
    place_words(place, sizeof(place), j, j->first_double, j->doubles - 1);
    doctor_tell(j->x, "J07", PAWL_SEVERITY_NOTE, "cast to float32 where the numbers come in",
                "signature \"%.*s\": op %.*s (%s) computes float64, which accelerators do slowly "
                "or not at all",
                SHOWN(j->signature->name), SHOWN(j->first_double->op), place);
}

/* ---- the model ------------------------------------------------------------------------------ */

/* What TensorFlow itself calls when it loads a model. */
static bool is_of_tensorflow(bundle_text name) {
    static const char begin[] = "__saved_model_";
    return name.n >= sizeof(begin) - 1 && memcmp(name.bytes, begin, sizeof(begin) - 1) == 0;
}

static pawl_status judge_signature(judging *j, uint64_t *visits) {
    j->count = 0;
    j->first_double = NULL;
    j->doubles = 0;
    TRY(saved_model_walk(j->model, j->signature, visit_node, j, visits, j->err));
    TRY(j->status);
    for (uint32_t i = 0; i < j->signature->input_count; i++) {
        judge_input(j, &j->model->inputs[j->signature->input + i]);
    }
    tell_sites(j);
    tell_doubles(j);
    return PAWL_OK;
}

static pawl_status judge_signatures(judging *j, size_t *signatures) {
    uint64_t visits = 0;
    for (size_t i = 0; i < j->model->signature_count && j->untold == 0; i++) {
        j->signature = &j->model->signatures[i];
        if (!is_of_tensorflow(j->signature->name)) {
            TRY(judge_signature(j, &visits));
            ++*signatures;
        }
    }
    return PAWL_OK;
}

static void tell_end(judging *j, size_t signatures) {
    if (signatures == 0) {
        doctor_tell(j->x, "J07", PAWL_SEVERITY_NOTE,
                    "save it with signatures=, as model.export and tf.saved_model.save do",
                    "the SavedModel has no signature, so none of its %zu nodes was looked at",
                    j->model->node_count);
    } else if (j->untold > 0) {
        doctor_tell(j->x, "J07", PAWL_SEVERITY_WARNING, NULL,
                    "there is more like this, which is not told: %zu %s been looked at", signatures,
                    signatures > 1 ? "signatures have" : "signature has");
    } else if (j->told == 0) {
        doctor_tell(j->x, "ok", PAWL_SEVERITY_NOTE, NULL,
                    "the SavedModel, with %zu %s, reaches %" PRIu64 " %s: all have XLA kernels in "
                    "%s, and all inputs have static shapes",
                    signatures, signatures > 1 ? "signatures" : "signature", j->nodes,
                    j->nodes != 1 ? "nodes" : "node", xla_version);
    }
}

pawl_status doctor_judge_model(examination *x, const saved_model *model, pawl_error *err) {
    AUTOFREE judging *j = mem_calloc(1, sizeof(*j));
    size_t signatures = 0;
    if (j == NULL) {
        return error_nomem(err, sizeof(*j));
    }
    *j = (judging){.x = x, .model = model, .err = err, .status = PAWL_OK};
    TRY(judge_signatures(j, &signatures));
    tell_end(j, signatures);
    return PAWL_OK;
}
