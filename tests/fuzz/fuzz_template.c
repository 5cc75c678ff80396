/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A description of a model, as JSON. What is taken is a state: its entries have valid names, each
 * once, and its snapshot can be taken, or is refused because a slot has no variable.
 */
#include "fuzz.h"

#include "doctor/template.h"

#include <string.h>

static void check_state(pawl_state *state) {
    pawl_error err = ERROR_INIT;
    state_snapshot *snapshot = NULL;
    if (state_snapshot_take(state, 1, false, &snapshot, &err) != PAWL_OK) {
        FUZZ_CHECK(err.status == PAWL_EUSAGE || err.status == PAWL_ENOMEM);
        return;
    }
    FUZZ_CHECK(snapshot->count == state_count(state));
    for (size_t i = 0; i < snapshot->count; i++) {
        const state_entry *e = snapshot->entries[i];
        FUZZ_CHECK(entry_name_valid(e->name, strlen(e->name), NULL));
        FUZZ_CHECK(i == 0 || strcmp(snapshot->entries[i - 1]->name, e->name) < 0);
        FUZZ_CHECK(e->kind != PAWL_KIND_TENSOR || (e->ndim <= PAWL_MAX_NDIM && e->dtype != 0));
    }
    state_snapshot_free(snapshot);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    pawl_error err = ERROR_INIT;
    pawl_state *state = NULL;
    FUZZ_CHECK(state_new(&state, &err) == PAWL_OK);
    CLEANUP(buffer_free) buffer text = fuzz_copy(data, size);
    pawl_status status = template_decode(text.data, text.size, state, &err);
    if (status == PAWL_OK) {
        fuzz_accepted++;
        check_state(state);
    } else { /* EUSAGE: it is JSON, but no model */
        FUZZ_CHECK(err.status == status && err.attempt[0] != '\0');
        FUZZ_CHECK(status == PAWL_EDAMAGED || status == PAWL_ELIMIT || status == PAWL_EUSAGE);
    }
    state_free(state);
    return 0;
}
