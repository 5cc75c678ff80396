/* SPDX-License-Identifier: Apache-2.0 */
/* The check of the data position after a restore (J06). */
#include "api/api.h"
#include "state/state.h"

#include <pawl/check.h>

#include <string.h>

static pawl_status check_position(const pawl_state *state, const char *name, int64_t loader,
                                  pawl_error *err) {
    static const char call[] = "pawl_check_data_position";
    const state_entry *entry;
    int64_t saved;
    TRY(need(state, call, "state", err));
    TRY(need(name, call, "position_name", err));
    TRY(state_get_value(state, name, PAWL_KIND_INT64, &entry, err));
    memcpy(&saved, entry->value, sizeof(saved));
    if (saved == loader) {
        return PAWL_OK;
    }
    error_set(err, PAWL_EMISMATCH,
              "the checkpoint was saved at data position %lld, the loader stands at %lld",
              (long long)saved, (long long)loader);
    error_entry(err, name);
    error_expected(err, "%lld, as restored", (long long)saved);
    error_found(err, "%lld", (long long)loader);
    error_next(err,
               loader < saved
                   ? "move the loader on to %lld before training goes on, or examples are "
                     "seen twice"
                   : "move the loader back to %lld before training goes on, or examples "
                     "are left out",
               (long long)saved);
    return PAWL_EMISMATCH;
}

pawl_status pawl_check_data_position(const pawl_state *state, const char *position_name,
                                     int64_t loader_position, pawl_error *err) {
    struct pawl_error story;
    return story_end(check_position(state, position_name, loader_position, story_begin(&story)),
                     &story, err);
}
