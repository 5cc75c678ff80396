/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a SavedModel of TensorFlow: what is understood leads from each signature to nodes of
 * the model, to each once, and to findings that say something. */
#include "fuzz.h"

#include "doctor/saved_model.h"
#include "foreign/saved_model/saved_model.h"

typedef struct walked {
    const saved_model *model;
    uint8_t *seen;
} walked;

static bool visit(void *context, const saved_node *node) {
    walked *w = context;
    const saved_model *m = w->model;
    FUZZ_CHECK(node >= m->nodes && node < m->nodes + m->node_count);
    FUZZ_CHECK(w->seen[node - m->nodes]++ == 0);
    FUZZ_CHECK(node->function < m->function_count);
    const saved_function *in = &m->functions[node->function];
    FUZZ_CHECK(node >= m->nodes + in->node && node < m->nodes + in->node + in->node_count);
    FUZZ_CHECK((size_t)node->call + node->call_count <= m->call_count);
    return true;
}

static void check_signature(const saved_model *m, const saved_signature *s) {
    AUTOFREE uint8_t *seen = mem_calloc(m->node_count + 1, 1);
    pawl_error err = ERROR_INIT;
    uint64_t visits = 0;
    FUZZ_CHECK(seen != NULL);
    walked w = {.model = m, .seen = seen};
    FUZZ_CHECK(saved_model_walk(m, s, visit, &w, &visits, &err) == PAWL_OK);
    FUZZ_CHECK((size_t)s->input + s->input_count <= m->input_count);
    for (uint32_t i = 0; i < s->input_count; i++) {
        const saved_input *input = &m->inputs[s->input + i];
        FUZZ_CHECK(input->node == SAVED_MODEL_NOWHERE || seen[input->node] == 0);
        FUZZ_CHECK(input->ndim >= 0 && (input->ndim == 0 || input->shape != NULL));
    }
}

static void check_finding(void *context, const pawl_finding *finding) {
    size_t *count = context;
    FUZZ_CHECK(finding->id[0] != '\0' && finding->text[0] != '\0');
    FUZZ_CHECK(finding->severity < PAWL_SEVERITY_ERROR);
    FUZZ_CHECK(++*count < 100000);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CLEANUP(buffer_free) buffer bytes = fuzz_copy(data, size);
    CLEANUP(saved_model_free) saved_model m = {.functions = NULL};
    pawl_error err = ERROR_INIT;
    size_t findings = 0;
    examination x = {.each = check_finding, .context = &findings, .part = "job"};
    pawl_status status = saved_model_decode(bytes.data, bytes.size, &m, &err);
    if (status != PAWL_OK) {
        fuzz_check_refusal(&err, status);
        return 0;
    }
    fuzz_accepted++;
    for (size_t i = 0; i < m.signature_count; i++) {
        check_signature(&m, &m.signatures[i]);
    }
    status = doctor_judge_model(&x, &m, &err);
    if (status != PAWL_OK) { /* types are looked at where a signature leads */
        fuzz_check_refusal(&err, status);
    }
    return 0;
}
