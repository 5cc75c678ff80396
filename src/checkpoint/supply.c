/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the caller for memory for those tensors of a checkpoint that the state lacks, and adds them
 * to the state before it is matched. An optimizer that makes its slots in its first step has none
 * before. The entries belong to one candidate: for another one, and after a failure, they are taken
 * out again.
 */
#include "checkpoint/private.h"
#include "checkpoint/restore.h"
#include "match/rename.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct supplying {
    candidate *of;
    pawl_restore_options options; /* checked */
    buffer name, slot_of;         /* renamed */
} supplying;

static int by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

bool restore_was_supplied(const restoration *all, const char *name) {
    return all->supplied_count > 0 && bsearch(&name, all->supplied, all->supplied_count,
                                              sizeof(*all->supplied), by_name) != NULL;
}

void restore_take_back(restoration *all) {
    struct pawl_error ignored = ERROR_INIT;
    for (size_t i = 0; i < all->supplied_count; i++) {
        (void)!state_remove(all->state, all->supplied[i], &ignored); /* no save reads it */
    }
    all->supplied_count = 0;
    all->asked = false;
}

/* ---- one entry ------------------------------------------------------------------------------ */

static pawl_status gave_up(const supplying *s, const char *name, int answer, pawl_error *err) {
    const restoration *all = s->of->all;
    error_set(err, PAWL_ECANCELED, "the restore was given up by its callback `supply`");
    error_entry(err, name);
    error_expected(err, "1, it has given memory, or 0, it has not");
    error_found(err, "it returned %d", answer);
    if (all->touched_count == 0) {
        error_safe(err, "nothing was read into the state");
    }
    return PAWL_ECANCELED;
}

static void describe(char *out, size_t size, pawl_dtype dtype, int ndim, const int64_t *shape) {
    char text[128] = "no shape";
    const char *type = pawl_dtype_name(dtype);
    if (ndim == 0 || (ndim > 0 && ndim <= PAWL_MAX_NDIM && shape != NULL)) {
        shape_text(text, sizeof(text), ndim, shape);
    }
    (void)snprintf(out, size, "%s %s", text, type != NULL ? type : "of no dtype");
}

static bool is_of(const pawl_tensor *given, const pawl_entry_info *entry) {
    bool shaped = given->ndim == entry->ndim && (given->ndim == 0 || given->shape != NULL);
    return given->name != NULL && strcmp(given->name, entry->name) == 0 &&
           given->dtype == entry->dtype && shaped &&
           shape_equal(given->ndim, given->shape, entry->ndim, entry->shape);
}

static pawl_status refuse_other(const pawl_tensor *given, const pawl_entry_info *entry,
                                pawl_error *err) {
    char wanted[192];
    char found[192];
    describe(wanted, sizeof(wanted), entry->dtype, entry->ndim, entry->shape);
    describe(found, sizeof(found), given->dtype, given->ndim, given->shape);
    error_set(err, PAWL_EUSAGE, "`supply` gave another tensor than it was asked for");
    error_entry(err, entry->name);
    error_expected(err, "%s", wanted);
    if (given->name == NULL || strcmp(given->name, entry->name) != 0) {
        error_found(err, "another name");
    } else {
        error_found(err, "%s", found);
    }
    error_next(err, "set data, or boxes, and leave name, dtype, ndim and shape as they are; to "
                    "cast, add the tensor to the state before the restore");
    return PAWL_EUSAGE;
}

static pawl_status note_supplied(restoration *all, const char *name, pawl_error *err) {
    TRY(vec_reserve(&all->supplied, &all->supplied_capacity, all->supplied_count + 1,
                    sizeof(*all->supplied), err));
    const char *kept = arena_strdup(&all->memory, name);
    if (kept == NULL) {
        return error_nomem(err, strlen(name) + 1);
    }
    all->supplied[all->supplied_count] = kept;
    return PAWL_OK;
}

static pawl_status add_given(restoration *all, pawl_tensor *given, const pawl_entry_info *entry,
                             pawl_error *err) {
    if (!is_of(given, entry)) {
        return refuse_other(given, entry, err);
    }
    given->struct_size = sizeof(*given);
    TRY(note_supplied(all, entry->name, err));
    pawl_status status = state_add_tensor(all->state, given, err);
    if (status != PAWL_OK) {
        error_wrap(err, "what `supply` gave");
        return status;
    }
    all->supplied_count++;
    return PAWL_OK;
}

static pawl_status ask(supplying *s, const pawl_entry_info *entry, pawl_error *err) {
    restoration *all = s->of->all;
    pawl_tensor tensor = {.struct_size = sizeof(tensor),
                          .name = entry->name,
                          .dtype = entry->dtype,
                          .ndim = entry->ndim,
                          .shape = entry->shape,
                          .role = entry->role,
                          .slot_of = entry->slot_of,
                          .slot = entry->slot};
    int64_t step = s->of->checkpoint->source->step;
    int answer = s->options.supply(s->options.supply_context, step < 0 ? -1 : step, entry, &tensor);
    if (answer != 0 && answer != 1) {
        return gave_up(s, entry->name, answer, err);
    }
    return answer == 1 ? add_given(all, &tensor, entry, err) : PAWL_OK;
}

/* ---- all of them ---------------------------------------------------------------------------- */

static bool may_be_supplied(const supplying *s, const record_entry *record) {
    bool takes_part = s->options.model_only == 0 || record->role == PAWL_ROLE_MODEL;
    return record->kind == PAWL_KIND_TENSOR && record->type == NULL && takes_part;
}

/* What two entries of the checkpoint become by the rename rules is asked for once. */
static pawl_status supply_record(supplying *s, const record_entry *record, pawl_error *err) {
    pawl_entry_info info;
    const char *name = NULL;
    if (!may_be_supplied(s, record)) {
        return PAWL_OK;
    }
    TRY(rename_apply(&s->options, record->name, &s->name, &name, err));
    if (state_find(s->of->all->state, name) != NULL) {
        return PAWL_OK;
    }
    checkpoint_entry_info(record, &info);
    info.struct_size = sizeof(info);
    info.name = name;
    if (record->slot_of != NULL) {
        TRY(rename_apply(&s->options, record->slot_of, &s->slot_of, &info.slot_of, err));
    }
    return ask(s, &info, err);
}

static void supplying_free(supplying *s) {
    buffer_free(&s->name);
    buffer_free(&s->slot_of);
}

static pawl_status supply_all(candidate *a, pawl_error *err) {
    CLEANUP(supplying_free) supplying s = {.of = a};
    CLEANUP(entries_free_pointer) pawl_entries *walk = NULL;
    TRY(match_options(a->all->options, &s.options, err));
    TRY(entries_open(a->checkpoint, "", &walk, err));
    for (;;) {
        const record_entry *record = NULL;
        TRY(entries_next_record(walk, &record, err));
        if (record == NULL) {
            return PAWL_OK;
        }
        TRY(supply_record(&s, record, err));
    }
}

pawl_status restore_supply(candidate *a, pawl_error *err) {
    restoration *all = a->all;
    if (all->options == NULL || all->options->supply == NULL || all->asked) {
        return PAWL_OK;
    }
    all->asked = true;
    pawl_status status = supply_all(a, err);
    if (all->supplied_count > 0) {
        qsort(all->supplied, all->supplied_count, sizeof(*all->supplied), by_name);
    }
    return status;
}
