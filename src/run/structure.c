/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must be alike on all ranks, as text: a line an entry, ascending by name:
 *
 *   name TAB what LF       "model/b\treplicated tensor [10] F32\n"
 *
 * Votes carry only its checksum and size. Whoever has a text first in an attempt leaves it in the
 * run's directory, so that rank 0 can say in which entries two ranks differ (S12, J04). It is for
 * messages alone: nothing depends on its being there, and it is never synced.
 */
#include "run/votes.h"

#include <string.h>

/* A tensor that only some ranks hold is not like that on the others. */
static bool is_on_all_ranks(const state_entry *e) {
    return e->kind != PAWL_KIND_TENSOR || e->replicated;
}

static pawl_status put_role(const state_entry *e, buffer *out, pawl_error *err) {
    if (e->role == PAWL_ROLE_SLOT) {
        return buffer_printf(out, err, " (slot %s of %s)", e->slot, e->slot_of);
    }
    return e->role == PAWL_ROLE_MODEL ? PAWL_OK
                                      : buffer_printf(out, err, " (%s)", pawl_role_name(e->role));
}

static pawl_status put_what(const state_entry *e, buffer *out, pawl_error *err) {
    char shape[PAWL_MAX_NDIM * 24];
    if (e->kind != PAWL_KIND_TENSOR) {
        return buffer_printf(out, err, "%s %s", pawl_kind_name(e->kind),
                             e->per_rank ? "of each rank's own" : "that all ranks share");
    }
    return buffer_printf(out, err, "replicated tensor %s %s",
                         shape_text(shape, sizeof shape, e->ndim, e->shape),
                         pawl_dtype_name(e->dtype));
}

pawl_status structure_make(const state_snapshot *snapshot, buffer *out, pawl_error *err) {
    out->size = 0;
    for (size_t i = 0; i < snapshot->count; i++) {
        const state_entry *e = snapshot->entries[i];
        if (!is_on_all_ranks(e)) {
            continue;
        }
        TRY(buffer_append(out, e->name, strlen(e->name), err));
        TRY(buffer_append(out, "\t", 1, err));
        TRY(put_what(e, out, err));
        TRY(put_role(e, out, err));
        TRY(buffer_append(out, "\n", 1, err));
    }
    return PAWL_OK;
}

/* Half a text would stay in the way of a whole one. */
static pawl_status leave(pawl_run *run, const char *name, const buffer *text, pawl_error *err) {
    CLEANUP(store_close_pointer) store_file *file = NULL;
    struct pawl_error ignored = ERROR_INIT;
    TRY(store_open(run->store, name, STORE_CREATE, &file, err));
    pawl_status status = store_write(file, 0, text->data, text->size, err);
    if (status != PAWL_OK && store_unlink(run->store, name, &ignored) != PAWL_OK) {
        log_write(&run->log, PAWL_LOG_DEBUG, "%s", error_text(&ignored));
    }
    return status;
}

void structure_leave(pawl_run *run, const buffer *text, uint32_t crc) {
    char name[80];
    struct pawl_error story = ERROR_INIT;
    bool left = run->structure_bytes == text->size && run->structure_crc32c == crc;
    if (text->size == 0 || left) {
        return;
    }
    name_structure(name, run->attempt, crc, text->size);
    pawl_status status = leave(run, name, text, &story);
    if (status != PAWL_OK && status != PAWL_EBUSY) { /* another rank was faster */
        log_write(&run->log, PAWL_LOG_DEBUG, "%s", error_text(&story));
        return;
    }
    run->structure_crc32c = crc;
    run->structure_bytes = text->size;
}
