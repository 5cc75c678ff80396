/* SPDX-License-Identifier: Apache-2.0 */
/* Walks the entries of a checkpoint in the order of their names. */
#include "checkpoint/private.h"

#include <string.h>

static pawl_status out_of_order(const pawl_entries *walk, const record_entry *entry,
                                pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "the entries do not come in the order of their names");
    error_entry(err, entry->name);
    error_expected(err, "a name after \"%s\"", walk->last);
    error_found(err, "\"%s\"", entry->name);
    return PAWL_EDAMAGED;
}

static pawl_status wrong_prefix(const pawl_entries *walk, const record_entry *entry,
                                pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "an entry does not belong to those that were asked for");
    error_entry(err, entry->name);
    error_expected(err, "a name that begins with \"%s\"", walk->prefix);
    error_found(err, "\"%s\"", entry->name);
    return PAWL_EDAMAGED;
}

/* Entries are matched by walking two sorted lists: one out of its place would be missed. */
static pawl_status check_next(pawl_entries *walk, const record_entry *entry, pawl_error *err) {
    TRY(entry_check_of(walk->checkpoint->source, entry, err));
    if (walk->checkpoint->source->checked) {
        return PAWL_OK; /* in order, too */
    }
    if (strcmp(entry->name, walk->last) <= 0) {
        return out_of_order(walk, entry, err);
    }
    if (strncmp(entry->name, walk->prefix, strlen(walk->prefix)) != 0) {
        return wrong_prefix(walk, entry, err);
    }
    memcpy(walk->last, entry->name, strlen(entry->name) + 1);
    return PAWL_OK;
}

static pawl_status walk_on(pawl_entries *walk, const record_entry **out, pawl_error *err) {
    struct source *s = walk->checkpoint->source;
    if (walk->at == NULL) {
        TRY(s->ops->walk(s, walk->prefix, walk->prefix, &walk->at, err));
    }
    TRY(s->ops->next(walk->at, out, err));
    return *out != NULL ? check_next(walk, *out, err) : PAWL_OK;
}

pawl_status entries_next_record(pawl_entries *walk, const record_entry **out, pawl_error *err) {
    *out = NULL;
    pawl_status status = walk_on(walk, out, err);
    if (status != PAWL_OK) {
        *out = NULL;
        return checkpoint_entry_failed(walk->checkpoint, status, err);
    }
    return PAWL_OK;
}

static pawl_status source_next(void *context, const record_entry **out, pawl_error *err) {
    return entries_next_record(context, out, err);
}

static pawl_status source_again(void *context, pawl_error *err) {
    pawl_entries *walk = context;
    (void)err;
    if (walk->at != NULL) {
        walk->at->of->ops->end(walk->at);
        walk->at = NULL;
    }
    walk->last[0] = '\0';
    return PAWL_OK;
}

entry_source entries_source(pawl_entries *walk) {
    return (entry_source){.context = walk, .next = source_next, .again = source_again};
}

process_id entries_process(const pawl_entries *walk) {
    return walk->checkpoint->process;
}

void pawl_entries_free(pawl_entries *walk) {
    if (walk != NULL && process_is_self(entries_process(walk))) {
        if (walk->at != NULL) {
            walk->at->of->ops->end(walk->at);
        }
        mem_free(walk->last);
        mem_free(walk->prefix);
        mem_free(walk);
    }
}

void entries_free_pointer(pawl_entries **walk) {
    pawl_entries_free(*walk);
}

pawl_status entries_open(pawl_checkpoint *c, const char *prefix, pawl_entries **out,
                         pawl_error *err) {
    TRY(checkpoint_held(c, err));
    pawl_entries *walk = mem_calloc(1, sizeof(*walk));
    if (walk == NULL) {
        return error_nomem(err, sizeof(*walk));
    }
    walk->checkpoint = c;
    walk->prefix = mem_strdup(prefix);
    walk->last = mem_calloc(1, PAWL_MAX_NAME_BYTES + 1);
    if (walk->prefix == NULL || walk->last == NULL) {
        pawl_entries_free(walk);
        return error_nomem(err, strlen(prefix) + 1);
    }
    *out = walk;
    return PAWL_OK;
}

pawl_status entries_next(pawl_entries *walk, pawl_entry_info *info, int *more, pawl_error *err) {
    const record_entry *entry;
    TRY(entries_next_record(walk, &entry, err));
    *more = entry != NULL;
    if (entry != NULL) {
        checkpoint_entry_info(entry, info);
    }
    return PAWL_OK;
}
