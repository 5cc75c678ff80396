/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a manifest is published and removed on an object store, where nothing is renamed.
 *
 * Every change of manifest.json is on the condition of the version that was read before, and no two
 * versions have the same bytes. So there is a version for whoever is to publish: where there is no
 * manifest, a placeholder is put first, which readers take for none. With O6 to O8 of
 * presence/owner_object.c:
 *
 * B1. Publishing, or removing: read the version (or put a placeholder); renew the ownership with
 *     the step in the record (O7); then put, or remove, if that version is still there. After a
 *     refusal all three again, in that order: the version must be older than the renewal.
 * B2. To settle a step is to put another version of what is there: the same manifest with one more
 *     newline at its end, which is no part of it, or another placeholder. Then no earlier put or
 *     removal of that manifest can happen any more, and what was read is known to be the truth,
 *     even on storage that is late.
 * B3. A new owner settles the step in its predecessor's record before it looks at what is
 *     committed. An owner settles its own step when it has no answer, before it works on another
 *     one and before it removes files that a manifest might name.
 * B4. After an answer was lost it is looked what is there, and done again.
 *
 * None of this waits for a time to pass, and a process that was paused anywhere can do no harm: its
 * placeholder or its newline makes others try once more, no more.
 */
#include "checkpoint/step_directory.h"
#include "commit/commit.h"

#include <stdio.h>
#include <string.h>

#define MOST_TRIES 8

typedef struct manifest_object {
    pawl_run *run;
    int64_t step;
    char path[STORE_MAX_PATH];
    buffer text;       /* as it was read: may be a placeholder */
    store_tag version; /* empty: there is no object */
    bool present;      /* it is a manifest */
} manifest_object;

static void object_free(manifest_object *m) {
    buffer_free(&m->text);
}

static manifest_object object_of(pawl_run *run, int64_t step) {
    manifest_object m = {.run = run, .step = step};
    char directory[32];
    name_step(directory, step);
    snprintf(m.path, sizeof m.path, "%s/" NAME_MANIFEST, directory);
    return m;
}

static pawl_status look(manifest_object *m, pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    m->text.size = 0;
    pawl_status status = store_read_version(m->run->store, m->path, FORMAT_MAX_MANIFEST, &m->text,
                                            &m->version, &story);
    m->present = status == PAWL_OK && !manifest_is_placeholder(m->text.data, m->text.size);
    if (status != PAWL_OK && status != PAWL_ENOTFOUND) {
        *err = story;
        return status;
    }
    return PAWL_OK;
}

/* True: it may be another version by now, or become one; so it is looked again. */
static bool may_have_changed(const manifest_object *m, const pawl_error *err) {
    bool changed = store_is_refused(err) || err->status == PAWL_EIO || err->status == PAWL_ETIMEOUT;
    if (changed) {
        store_catch_up(m->run->store);
    }
    return changed;
}

static pawl_status put_placeholder(manifest_object *m, pawl_error *err) {
    char text[FORMAT_MAX_PLACEHOLDER];
    manifest_placeholder(text, owner_attempt(m->run->owner), ++m->run->placeholders);
    return store_put(m->run->store, m->path, text, strlen(text), &m->version, &m->version, err);
}

/* ---- settling (B2) -------------------------------------------------------------------------- */

/* What was put may go again: nobody knows its version. */
static void drop_placeholder(const manifest_object *m) {
    struct pawl_error story = ERROR_INIT;
    if (store_unlink_match(m->run->store, m->path, &m->version, &story) != PAWL_OK) {
        log_write(&m->run->log, PAWL_LOG_DEBUG, "%s", error_text(&story));
    }
}

static pawl_status put_another_version(manifest_object *m, pawl_error *err) {
    if (!m->present) {
        TRY(put_placeholder(m, err));
        drop_placeholder(m);
        return PAWL_OK;
    }
    TRY(buffer_append(&m->text, "\n", 1, err));
    return store_put(m->run->store, m->path, m->text.data, m->text.size, &m->version, NULL, err);
}

pawl_status object_settle(pawl_run *run, int64_t step, pawl_error *err) {
    CLEANUP(object_free) manifest_object m = object_of(run, step);
    const store_tag none = {{0}};
    pawl_status status = PAWL_OK;
    int64_t working_on;
    for (int i = 0; i < MOST_TRIES; i++) {
        *err = (struct pawl_error)ERROR_INIT;
        TRY(look(&m, err));
        bool absent = run->store->traits.coherent && store_tag_same(&m.version, &none);
        status = absent ? PAWL_OK : put_another_version(&m, err);
        if (status == PAWL_OK || !may_have_changed(&m, err)) {
            break;
        }
    }
    if (status != PAWL_OK) {
        error_wrap(err, "step %lld cannot be settled after an answer of the storage was lost",
                   (long long)step);
    } else if (owner_is_working(run->owner, &working_on) && working_on == step) {
        owner_work_done(run->owner);
    }
    return status;
}

pawl_status object_settle_inherited(pawl_run *run, pawl_error *err) {
    int64_t step;
    return owner_is_working(run->owner, &step) ? object_settle(run, step, err) : PAWL_OK;
}

/* ---- changing (B1) -------------------------------------------------------------------------- */

static pawl_status begin_work(const manifest_object *m, pawl_error *err) {
    int64_t other;
    if (owner_is_working(m->run->owner, &other) && other != m->step) {
        TRY(object_settle(m->run, other, err)); /* B3 */
    }
    return owner_work_on(m->run->owner, m->step, err);
}

/* Sees to it that there is a version to replace. */
static pawl_status claim(manifest_object *m, pawl_error *err) {
    const store_tag none = {{0}};
    pawl_status status = look(m, err);
    for (int i = 0; i < MOST_TRIES && status == PAWL_OK; i++) {
        struct pawl_error story = ERROR_INIT;
        if (!store_tag_same(&m->version, &none) || put_placeholder(m, &story) == PAWL_OK) {
            return PAWL_OK;
        }
        *err = story;
        status = may_have_changed(m, err) ? look(m, err) : story.status;
    }
    return status != PAWL_OK ? status : err->status;
}

static bool is_there(manifest_object *m, const buffer *text) {
    struct pawl_error ignored = ERROR_INIT;
    return look(m, &ignored) == PAWL_OK && m->present &&
           manifest_bytes(m->text.data, m->text.size) == text->size &&
           memcmp(m->text.data, text->data, text->size) == 0;
}

pawl_status object_publish(pawl_run *run, int64_t step, const buffer *text,
                           pawl_status (*still)(void *context, pawl_error *err), bool *in_doubt,
                           pawl_error *err) {
    CLEANUP(object_free) manifest_object m = object_of(run, step);
    pawl_status status = PAWL_OK;
    *in_doubt = false;
    for (int i = 0; i < MOST_TRIES; i++) {
        struct pawl_error story = ERROR_INIT;
        TRY(claim(&m, err));
        TRY(begin_work(&m, err));
        TRY(still(run, err));
        status = store_put(run->store, m.path, text->data, text->size, &m.version, NULL, &story);
        bool changed = status != PAWL_OK && may_have_changed(&m, &story);
        *in_doubt = *in_doubt || (changed && !store_is_refused(&story));
        if (status == PAWL_OK || (*in_doubt && is_there(&m, text))) {
            owner_work_done(run->owner);
            *in_doubt = false;
            return PAWL_OK;
        }
        *err = story;
        if (!store_is_refused(&story) && !*in_doubt) {
            break;
        }
    }
    return status;
}

pawl_status object_remove(pawl_run *run, int64_t step, pawl_error *err) {
    CLEANUP(object_free) manifest_object m = object_of(run, step);
    pawl_status status = PAWL_OK;
    for (int i = 0; i < MOST_TRIES; i++) {
        struct pawl_error story = ERROR_INIT;
        TRY(look(&m, err));
        if (!m.present) {
            store_catch_up(run->store);
            TRY(look(&m, err));
        }
        if (!m.present) {
            return PAWL_OK; /* what was removed by a try before this one, too */
        }
        TRY(begin_work(&m, err));
        status = store_unlink_match(run->store, m.path, &m.version, &story);
        if (status == PAWL_OK || status == PAWL_ENOTFOUND) {
            owner_work_done(run->owner);
            return PAWL_OK;
        }
        *err = story;
        if (!may_have_changed(&m, &story)) {
            break;
        }
    }
    return status;
}

void object_remove_placeholder(pawl_run *run, int64_t step) {
    CLEANUP(object_free) manifest_object m = object_of(run, step);
    const store_tag none = {{0}};
    struct pawl_error ignored = ERROR_INIT;
    if (look(&m, &ignored) == PAWL_OK && !m.present && !store_tag_same(&m.version, &none)) {
        drop_placeholder(&m);
    }
}
