/* SPDX-License-Identifier: Apache-2.0 */
/* stores/objects_truth: what an object store holds now, however late others see it. */
#include "stores/stores.h"

static pawl_status look_promptly(store_wrapper *w, store_call *call, pawl_error *err) {
    store_objects_be_prompt(w->inner, true);
    pawl_status status = store_call_inner(call, err);
    store_objects_be_prompt(w->inner, false);
    return status;
}

pawl_status store_objects_truth(store *objects, store **out, pawl_error *err) {
    AUTOFREE store_wrapper *w = mem_calloc(1, sizeof(*w));
    if (w == NULL) {
        return error_nomem(err, sizeof(*w));
    }
    TRY(store_wrapper_init(w, objects, err));
    w->around = look_promptly;
    w->base.traits.coherent = true;
    *out = &w->base;
    w = NULL;
    return PAWL_OK;
}
