/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the arguments of every call: null pointers, handles of other processes, and structs of
 * other versions, which are taken in and filled here. Why: docs/architecture.md, The interface. */
#include "api/api.h"
#include "checkpoint/checkpoint.h"
#include "run/run.h"

#include <string.h>

void null_pointer(const char *call, const char *argument, pawl_error *err) {
    (void)error_set(err, PAWL_EUSAGE, "%s: %s is a null pointer", call, argument);
}

static pawl_status refuse_child(process_id process, const char *call, const char *what,
                                const char *opens, pawl_error *err) {
    long long parent = (long long)process;
    error_set(err, PAWL_EUSAGE,
              "%s: this process was forked, and the %s belongs to the process that it came from",
              call, what);
    error_expected(err, "process %lld, which opened it", parent);
    error_found(err, "process %lld", (long long)process_self());
    error_safe(err, "nothing was done; it goes on in process %lld as if there were no fork",
               parent);
    error_next(err, "use it in process %lld, or open one in this process with %s", parent, opens);
    return PAWL_EUSAGE;
}

pawl_status need_own(process_id process, const char *call, const char *what, const char *opens,
                     pawl_error *err) {
    return process_is_self(process) ? PAWL_OK : refuse_child(process, call, what, opens, err);
}

pawl_status need_checkpoint(const pawl_checkpoint *checkpoint, const char *call, pawl_error *err) {
    TRY(need(checkpoint, call, "checkpoint", err));
    return need_own(checkpoint_process(checkpoint), call, "checkpoint", "pawl_checkpoint_open",
                    err);
}

static pawl_status no_size(const char *call, const char *type, size_t found, pawl_error *err) {
    error_set(err, PAWL_EUSAGE, "%s: struct_size of %s is not set", call, type);
    error_expected(err, "sizeof(%s)", type);
    error_found(err, "%zu", found);
    error_next(err, "begin with: %s it = {.struct_size = sizeof it};", type);
    return PAWL_EUSAGE;
}

/* PAWL_EUSAGE where a caller has not set the size of its struct. */
static pawl_status check_size(size_t size, const char *call, const char *type, pawl_error *err) {
    return size >= 2 * sizeof(size) && struct_size_valid(size) ? PAWL_OK
                                                               : no_size(call, type, size, err);
}

pawl_status newer_struct(const char *call, const char *type, size_t expected, size_t found,
                         pawl_error *err) {
    error_set(err, PAWL_EUNSUPPORTED, "%s: %s has a field set that this library does not know",
              call, type);
    error_expected(err, "at most %zu bytes", expected);
    error_found(err, "%zu bytes", found);
    error_next(err,
               "the program was compiled with a newer pawl than the %s that runs: bring them "
               "to the same version",
               pawl_version());
    return PAWL_EUNSUPPORTED;
}

/* ---- taking ---- */

pawl_status take_options(void *to, size_t to_bytes, const void *from, const char *call,
                         const char *type, pawl_error *err) {
    size_t size = to_bytes;
    memset(to, 0, to_bytes);
    if (from != NULL) {
        memcpy(&size, from, sizeof(size));
        TRY(check_size(size, call, type, err));
        if (struct_has_more(from, size, to_bytes)) {
            return newer_struct(call, type, to_bytes, size, err);
        }
        memcpy(to, from, size < to_bytes ? size : to_bytes);
    }
    memcpy(to, &to_bytes, sizeof(to_bytes));
    return PAWL_OK;
}

static pawl_status no_item_size(const given_items *g, pawl_error *err) {
    error_set(err, PAWL_EUSAGE, "%s: %s is not set", g->call, g->size_name);
    error_expected(err, "sizeof(%s), the size of an element of %s", g->type, g->name);
    error_found(err, "%zu", g->size);
    return PAWL_EUSAGE;
}

pawl_status take_items(const given_items *g, void **copy, pawl_error *err) {
    *copy = NULL;
    TRY(need_items(g->items, g->count, g->call, g->name, err));
    if (g->count == 0 || g->size == g->known_size) {
        return PAWL_OK;
    }
    if (!struct_size_valid(g->size)) {
        return no_item_size(g, err);
    }
    AUTOFREE uint8_t *ours = mem_calloc(g->count, g->known_size);
    if (ours == NULL) {
        return error_nomem(err, g->count * g->known_size);
    }
    for (size_t i = 0; i < g->count; i++) {
        const uint8_t *item = (const uint8_t *)g->items + i * g->size;
        if (struct_has_more(item, g->size, g->known_size)) {
            return newer_struct(g->call, g->type, g->known_size, g->size, err);
        }
        memcpy(ours + i * g->known_size, item, g->size < g->known_size ? g->size : g->known_size);
    }
    *copy = ours;
    ours = NULL;
    return PAWL_OK;
}

pawl_status take_log(const pawl_log **log, pawl_log *known, const char *call, pawl_error *err) {
    if (*log != NULL) {
        TRY(take_options(known, sizeof(*known), *log, call, "pawl_log", err));
        *log = known;
    }
    return PAWL_OK;
}

pawl_status take_restore_options(pawl_restore_options *to, void **renames,
                                 const pawl_restore_options *from, const char *call,
                                 pawl_error *err) {
    *renames = NULL;
    TRY(take_options(to, sizeof(*to), from, call, "pawl_restore_options", err));
    const given_items given = {.items = to->renames,
                               .count = to->rename_count,
                               .size = to->rename_size,
                               .known_size = sizeof(*to->renames),
                               .call = call,
                               .name = "renames",
                               .size_name = "rename_size",
                               .type = "pawl_rename"};
    TRY(take_items(&given, renames, err));
    to->renames = *renames != NULL ? *renames : to->renames;
    return PAWL_OK;
}

pawl_status take_arrays(const pawl_array **arrays, size_t count, size_t array_size, void **copy,
                        const char *call, const char *name, pawl_error *err) {
    const given_items given = {.items = *arrays,
                               .count = count,
                               .size = array_size,
                               .known_size = sizeof(**arrays),
                               .call = call,
                               .name = name,
                               .size_name = "array_size",
                               .type = "pawl_array"};
    TRY(take_items(&given, copy, err));
    *arrays = *copy != NULL ? *copy : *arrays;
    return PAWL_OK;
}

/* ---- giving ---- */

pawl_status need_output(const void *to, const char *call, const char *argument, const char *type,
                        pawl_error *err) {
    size_t size = 0;
    TRY(need(to, call, argument, err));
    memcpy(&size, to, sizeof(size));
    return check_size(size, call, type, err);
}

void give_output(void *to, const void *from, size_t from_bytes) {
    size_t size = 0;
    memcpy(&size, to, sizeof(size));
    size_t both = size < from_bytes ? size : from_bytes;
    memcpy((uint8_t *)to + sizeof(size), (const uint8_t *)from + sizeof(size), both - sizeof(size));
    memset((uint8_t *)to + both, 0, size - both);
}
