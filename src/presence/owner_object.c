/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The owner of a run on an object store. Its record is the object `owner`, which nobody ever
 * changes but by a put that says which version it replaces. So the storage decides who is the
 * owner; clocks and leases only decide when a newcomer tries (O1), and how soon a lost run is
 * noticed (O4).
 *
 * O6. Who takes over puts its record in the place of the last owner's: from then on every put of
 *     that one is refused, however late it comes. No two records have the same bytes, because
 *     generation and counter only grow.
 * O7. Before an owner publishes or removes the manifest of a step it has read that manifest's
 *     version, and its record has said which step it is; publishing and removing are on the
 *     condition of that version. Who takes over inherits that from the record, and makes that one
 *     manifest another version before it looks at what is committed (commit/object.c): so an owner
 *     that was paused anywhere can publish and remove nothing when it wakes up.
 * O8. An answer that was lost is no answer: the record is read until it shows which put was the
 *     last one.
 */
#include "presence/owner.h"

#include <stdio.h>
#include <string.h>

#define MOST_TRIES 6

pawl_status owner_object_look(store *s, owner_sight *out, pawl_error *err) {
    CLEANUP(buffer_free) buffer text = {0};
    struct pawl_error ignored = ERROR_INIT;
    owner_record record;
    *out = (owner_sight){.alive = PROCESS_UNKNOWN};
    pawl_status status =
        store_read_version(s, NAME_OWNER_OBJECT, OWNER_MAX_RECORD, &text, &out->version, err);
    if (status == PAWL_ENOTFOUND) {
        return PAWL_OK;
    }
    if (status != PAWL_OK && status != PAWL_ELIMIT) {
        return status;
    }
    out->present = true;
    if (status == PAWL_OK &&
        owner_record_decode(text.data, text.size, &record, &ignored) == PAWL_OK) {
        owner_sight_fill(out, &record);
        out->generation = record.generation;
    }
    return PAWL_OK;
}

/* ---- putting a record ----------------------------------------------------------------------- */

/* What is there, next to the record that we want to be there. */
typedef enum standing {
    STANDS_EARLIER, /* a record from before ours: seen late, or ours was not put */
    STANDS_OURS,
    STANDS_ANOTHER, /* of a later owner, or of a copy of this process; or unreadable */
} standing;

static standing compare(const owner *o, const owner_sight *now, uint64_t put_before) {
    if (!now->readable) {
        return now->present ? STANDS_ANOTHER : STANDS_EARLIER;
    }
    if (now->generation != o->generation) {
        return now->generation < o->generation ? STANDS_EARLIER : STANDS_ANOTHER;
    }
    if (strcmp(now->attempt, o->attempt) != 0 || now->counter > o->counter) {
        return STANDS_ANOTHER;
    }
    return now->counter > put_before ? STANDS_OURS : STANDS_EARLIER;
}

static pawl_status encode(const owner *o, uint64_t counter, buffer *out, pawl_error *err) {
    owner_record record = {.counter = counter,
                           .who = o->self,
                           .generation = o->generation,
                           .lease_s = o->lease_s,
                           .working = o->working,
                           .working_on = o->working_on};
    memcpy(record.attempt, o->attempt, sizeof record.attempt);
    return owner_record_encode(&record, out, err);
}

static bool is_in_doubt(const pawl_error *err) {
    return err->status == PAWL_EIO || err->status == PAWL_ETIMEOUT;
}

static pawl_status replaced(const owner *o, pawl_error *err) {
    error_set(err, PAWL_EBUSY, "the owner's record was replaced");
    error_path(err, "%s/" NAME_OWNER_OBJECT, o->store->root);
    return PAWL_EBUSY;
}

/* Puts our record in the place of o->version until it is known what is there (O8); each try has a
 * counter of its own. PAWL_EBUSY: *now is there. */
static pawl_status put_record(owner *o, owner_sight *now, pawl_error *err) {
    uint64_t put_before = o->counter;
    pawl_status status = PAWL_OK;
    for (int i = 0; i < MOST_TRIES; i++) {
        CLEANUP(buffer_free) buffer text = {0};
        struct pawl_error story = ERROR_INIT, unread = ERROR_INIT;
        o->counter++;
        TRY(encode(o, o->counter, &text, err));
        status = store_put(o->store, NAME_OWNER_OBJECT, text.data, text.size, &o->version,
                           &o->version, &story);
        if (status == PAWL_OK) {
            return PAWL_OK;
        }
        *err = story;
        if (!store_is_refused(&story) && !is_in_doubt(&story)) {
            return status;
        }
        store_catch_up(o->store);
        if (owner_object_look(o->store, now, &unread) != PAWL_OK) {
            continue;
        }
        switch (compare(o, now, put_before)) {
        case STANDS_ANOTHER:
            return replaced(o, err);
        case STANDS_OURS:
            o->version = now->version;
            return PAWL_OK;
        case STANDS_EARLIER:
            /* Of ours, an earlier one. Another's must still be the one to replace. */
            if (now->readable && now->generation == o->generation) {
                o->version = now->version;
            } else if (!store_tag_same(&now->version, &o->version)) {
                return replaced(o, err);
            }
        }
    }
    return status;
}

pawl_status owner_object_renew(owner *o, owner_sight *now, pawl_error *err) {
    return put_record(o, now, err);
}

pawl_status owner_object_win(owner *o, const owner_sight *seen, pawl_error *err) {
    owner_sight now;
    uint64_t begun_ns = platform_now_ns(o->platform);
    monitor_enter(&o->guard);
    o->generation = seen->generation + 1;
    o->counter = 0;
    o->version = seen->version;
    o->working = seen->working;
    o->working_on = seen->working_on;
    monitor_leave(&o->guard);
    TRY(put_record(o, &now, err));
    monitor_enter(&o->guard);
    o->renewed_ns = begun_ns;
    monitor_leave(&o->guard);
    return PAWL_OK;
}

/* The record stays: it tells the next owner its generation, and what is still to be settled. */
void owner_object_give_up(owner *o) {
    struct pawl_error story = ERROR_INIT;
    CLEANUP(buffer_free) buffer text = {0};
    pawl_status status = encode(o, OWNER_GIVEN_UP, &text, &story);
    if (status == PAWL_OK) {
        status =
            store_put(o->store, NAME_OWNER_OBJECT, text.data, text.size, &o->version, NULL, &story);
    }
    if (status != PAWL_OK) {
        log_write(&o->log, PAWL_LOG_WARN, "%s", error_text(&story));
    }
}
