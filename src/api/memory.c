/* SPDX-License-Identifier: Apache-2.0 */
/* pawl_copy_failed, for the functions of a provider of memory, and the provider of copies that are
 * still being made. */
#include "api/api.h"

#include <pawl/memory.h>

#include <string.h>

pawl_status pawl_copy_failed(pawl_error *err, pawl_status status, const pawl_copy *copy,
                             const char *text) {
    if (status <= PAWL_OK || status == PAWL_ETIMEOUT || status > STATUS_LAST) {
        status = PAWL_EIO;
    }
    if (err != NULL) {
        error_set(err, status, "%s", text != NULL && text[0] != '\0' ? text : "the copy failed");
        if (copy != NULL && copy->entry != NULL) {
            error_entry(err, copy->entry);
        }
    }
    return status;
}

/* ---- pawl_shadow ---------------------------------------------------------------------------- */

typedef struct shadow_ticket {
    const pawl_copy *const *copies; /* the library's, until the ticket has ended */
    size_t count;
} shadow_ticket;

/* As pawl_shadow.ready; not asked again once it has said 1. */
static int copies_are_complete(pawl_shadow *shadow) {
    if (__atomic_load_n(&shadow->complete, __ATOMIC_ACQUIRE) != 0) {
        return 1;
    }
    int said = shadow->ready(shadow->context);
    if (said > 0) {
        __atomic_store_n(&shadow->complete, 1, __ATOMIC_RELEASE);
    }
    return said;
}

static pawl_status shadow_failed(const pawl_copy *copy, pawl_error *err) {
    return pawl_copy_failed(err, PAWL_EIO, copy, "the tensors could not be copied to host memory");
}

static void copy_all(const pawl_copy *const *copies, size_t count) {
    for (size_t i = 0; i < count; i++) {
        memcpy(copies[i]->host, (const char *)copies[i]->data + copies[i]->offset,
               copies[i]->bytes);
    }
}

static pawl_status shadow_start_out(void *context, const pawl_copy *const *copies, size_t count,
                                    void **ticket, pawl_error *err) {
    int said = copies_are_complete(context);
    if (said > 0) {
        copy_all(copies, count);
        return PAWL_OK;
    }
    if (said < 0) {
        return shadow_failed(copies[0], err);
    }
    shadow_ticket *later = mem_alloc(sizeof(*later));
    if (later == NULL) {
        return pawl_copy_failed(err, PAWL_ENOMEM, copies[0], "out of memory");
    }
    *later = (shadow_ticket){.copies = copies, .count = count};
    *ticket = later;
    return PAWL_OK;
}

/* Whoever asks rests between two questions. */
static pawl_status shadow_wait(void *context, void *ticket, double timeout_s, pawl_error *err) {
    shadow_ticket *later = ticket;
    (void)timeout_s;
    int said = copies_are_complete(context);
    if (said == 0) {
        return PAWL_ETIMEOUT;
    }
    pawl_status status = PAWL_OK;
    if (said > 0) {
        copy_all(later->copies, later->count);
    } else {
        status = shadow_failed(later->copies[0], err);
    }
    mem_free(later);
    return status;
}

/* The caller's struct is used as it is: its `complete` is the caller's. */
static pawl_status check_shadow(const pawl_shadow *shadow, const char *call, pawl_error *err) {
    pawl_shadow known;
    TRY(need(shadow, call, "shadow", err));
    TRY(take_options(&known, sizeof(known), shadow, call, "pawl_shadow", err));
    if (shadow->struct_size < sizeof(known)) {
        error_set(err, PAWL_EUSAGE, "%s: struct_size of pawl_shadow is too small", call);
        error_expected(err, "%zu", sizeof(known));
        error_found(err, "%zu", shadow->struct_size);
        return PAWL_EUSAGE;
    }
    TRY(need(shadow->name, call, "shadow->name", err));
    if (shadow->name[0] == '\0') {
        return error_set(err, PAWL_EUSAGE, "%s: shadow->name is empty", call);
    }
    return shadow->ready != NULL ? PAWL_OK : need(NULL, call, "shadow->ready", err);
}

static pawl_status fill_memory(pawl_shadow *shadow, pawl_memory *memory, pawl_error *err) {
    static const char call[] = "pawl_shadow_memory";
    TRY(check_shadow(shadow, call, err));
    TRY(need_output(memory, call, "memory", "pawl_memory", err));
    const pawl_memory filled = {.struct_size = sizeof(filled),
                                .name = shadow->name,
                                .context = shadow,
                                .start_out = shadow_start_out,
                                .wait = shadow_wait};
    give_output(memory, &filled, sizeof(filled));
    return PAWL_OK;
}

pawl_status pawl_shadow_memory(pawl_shadow *shadow, pawl_memory *memory, pawl_error *err) {
    struct pawl_error story;
    return story_end(fill_memory(shadow, memory, story_begin(&story)), &story, err);
}
