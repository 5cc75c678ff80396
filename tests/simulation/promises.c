/* SPDX-License-Identifier: Apache-2.0 */
#include "simulation/promises.h"

#include "checkpoint/checkpoint.h"
#include "proofs/proof.h"
#include "run/run.h"
#include "simulation/training.h"
#include "store/implement.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN 20u

void promises_broken(promises *p, const char *format, ...) {
    char text[4096];
    va_list arguments;
    va_start(arguments, format);
    text_format(text, sizeof text, format, arguments);
    va_end(arguments);
    if (p->broken++ < SHOWN) {
        fprintf(stderr, "BROKEN at %.6f s: %s\n", (double)fibers_now() / (double)NS_PER_S, text);
    }
}

static bool is_of_objects(const promises *p) {
    return p->storage->truth->traits.objects;
}

/* ---- how durable names and files are --------------------------------------------------------- */

static uint64_t hash_of(const char *path) {
    uint64_t hash = UINT64_C(14695981039346656037);
    for (; *path != '\0'; path++) {
        hash = (hash ^ (uint8_t)*path) * UINT64_C(1099511628211);
    }
    return hash | 1;
}

static durability *place(durability *names, size_t capacity, uint64_t hash) {
    size_t at = (size_t)(hash >> 20) % capacity;
    while (names[at].hash != 0 && names[at].hash != hash) {
        at = (at + 1) % capacity;
    }
    return &names[at];
}

static void grow(promises *p) {
    size_t capacity = p->name_capacity > 0 ? p->name_capacity * 2 : 1024;
    durability *names = calloc(capacity, sizeof *names);
    if (names == NULL) {
        abort();
    }
    for (size_t i = 0; i < p->name_capacity; i++) {
        if (p->names[i].hash != 0) {
            *place(names, capacity, p->names[i].hash) = p->names[i];
        }
    }
    free(p->names);
    p->names = names;
    p->name_capacity = capacity;
}

static durability *durability_of(promises *p, const char *path) {
    if (p->name_count * 2 >= p->name_capacity) {
        grow(p);
    }
    uint64_t hash = hash_of(path);
    durability *d = place(p->names, p->name_capacity, hash);
    if (d->hash == 0) {
        *d = (durability){.hash = hash};
        p->name_count++;
    }
    return d;
}

/* Where it is kept when a rank itself last synced a directory: another host need not know of names
 * that this one made (G1). */
static durability *synced_by(promises *p, const char *directory, int job, int rank) {
    char path[STORE_MAX_PATH + 48];
    snprintf(path, sizeof path, "%s/#%d/%d", directory, job, rank);
    return durability_of(p, path);
}

/* An object has its name when it is complete, and durably so; directories are nothing. */
static void note_durability(promises *p, const storage_event *e) {
    uint64_t now = ++p->moment;
    uint64_t named = is_of_objects(p) ? 0 : now;
    durability from;
    switch (e->op) {
    case STORE_OP_OPEN:
        if (store_mode_creates(e->mode)) {
            *durability_of(p, e->path) =
                (durability){.hash = hash_of(e->path), .named = named, .written = now};
        }
        break;
    case STORE_OP_MAKE_DIR:
        durability_of(p, e->path)->named = named;
        break;
    case STORE_OP_WRITE:
    case STORE_OP_RESERVE:
        durability_of(p, e->path)->written = now;
        break;
    case STORE_OP_SYNC:
    case STORE_OP_SYNC_DIR: /* a directory's sync is kept with it, as a file's is */
        durability_of(p, e->path)->synced = now;
        synced_by(p, e->path, e->by->job, e->by->rank)->synced = now;
        break;
    case STORE_OP_RENAME:
        from = *durability_of(p, e->path);
        from.named = now;
        from.hash = hash_of(e->to);
        *durability_of(p, e->to) = from;
        break;
    case STORE_OP_PUT:
        *durability_of(p, e->path) = (durability){.hash = hash_of(e->path), .synced = now};
        break;
    default:
        break;
    }
}

static bool name_durable(promises *p, const char *path) {
    char parent[STORE_MAX_PATH];
    store_split_path(path, parent);
    return durability_of(p, parent)->synced >= durability_of(p, path)->named;
}

/* ---- manifests ------------------------------------------------------------------------------- */

static bool step_of_path(const char *path, int64_t *step, const char **name) {
    char directory[STORE_MAX_PATH];
    *name = store_split_path(path, directory);
    return name_step_parse(directory, step);
}

static commit *visible(const promises *p, int64_t step) {
    for (size_t i = p->count; i > 0; i--) {
        if (p->commits[i - 1].visible && p->commits[i - 1].step == step) {
            return &p->commits[i - 1];
        }
    }
    return NULL;
}

const commit *promises_visible(const promises *p, int64_t step) {
    return visible(p, step);
}

const commit *promises_commit(const promises *p, int job, int64_t step) {
    for (size_t i = 0; i < p->count; i++) {
        if (p->commits[i].job == job && p->commits[i].step == step) {
            return &p->commits[i];
        }
    }
    return NULL;
}

static void check_file(promises *p, const commit *c, const char *name, uint64_t bytes) {
    struct pawl_error err = ERROR_INIT;
    char path[STORE_MAX_PATH];
    store_stat found;
    name_step(path, c->step);
    size_t n = strlen(path);
    snprintf(path + n, sizeof path - n, "/%s", name);
    if (store_stat_path(p->storage->truth, path, &found, &err) != PAWL_OK || found.size != bytes) {
        promises_broken(p, "V1: the manifest of %s names %s, which is not there as it says", c->tag,
                        path);
        return;
    }
    const durability *d = durability_of(p, path);
    if (d->synced < d->written || !name_durable(p, path)) {
        promises_broken(p, "V1: the manifest of %s names %s, whose %s not synced", c->tag, path,
                        d->synced < d->written ? "bytes are" : "name is");
    }
}

static void check_synced_by_its_rank(promises *p, const commit *c, const manifest_file *file) {
    char directory[32];
    char path[STORE_MAX_PATH];
    name_step(directory, c->step);
    snprintf(path, sizeof path, "%s/%s", directory, file->name);
    if (synced_by(p, directory, c->job, file->rank)->synced < durability_of(p, path)->named) {
        promises_broken(p, "G1: the manifest of %s names %s, whose name rank %d has not synced",
                        c->tag, path, file->rank);
    }
}

static void check_whole(promises *p, const commit *c) {
    char directory[32];
    name_step(directory, c->step);
    if (!name_durable(p, directory)) {
        promises_broken(p, "V1: %s is committed, and its directory is not synced", c->tag);
    }
    check_file(p, c, c->manifest.index_name, c->manifest.index.bytes);
    for (size_t i = 0; i < c->manifest.file_count; i++) {
        check_file(p, c, c->manifest.files[i].name, c->manifest.files[i].bytes);
        check_synced_by_its_rank(p, c, &c->manifest.files[i]);
    }
}

static bool read_manifest(promises *p, int64_t step, manifest *out) {
    struct pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer text = {0};
    char path[64];
    name_step(path, step);
    size_t n = strlen(path);
    snprintf(path + n, sizeof path - n, "/" NAME_MANIFEST);
    return store_read_file(p->storage->truth, path, FORMAT_MAX_MANIFEST, &text, &err) == PAWL_OK &&
           manifest_decode(text.data, manifest_bytes(text.data, text.size), out, &err) == PAWL_OK;
}

static void checkpoint_close_pointer(pawl_checkpoint **c) {
    pawl_checkpoint_close(*c);
}

typedef struct reading {
    promises *promises;
    int64_t step;
} reading;

static const char *read_back(promises *p, int64_t step, const commit *c, pawl_error *err) {
    static const pawl_log silent = {0};
    CLEANUP(checkpoint_close_pointer) pawl_checkpoint *checkpoint = NULL;
    const pawl_verify_options verifying = {.struct_size = sizeof verifying};
    const pawl_restore_options restoring = {.struct_size = sizeof restoring,
                                            .per_rank = PAWL_POLICY_ALLOW};
    pawl_verify_result result;
    training t;
    pawl_entry_info rows;
    pawl_entry_info columns;
    if (checkpoint_open(p->storage->truth, false, step, &p->reader.os, &silent, &checkpoint, err) !=
            PAWL_OK ||
        checkpoint_verify(checkpoint, &verifying, &result, err) != PAWL_OK ||
        checkpoint_find(checkpoint, "model/by_row", &rows, err) != PAWL_OK) {
        return "cannot be read";
    }
    model m = {.rows = rows.shape[0]};
    if (checkpoint_find(checkpoint, "model/by_column", &columns, err) != PAWL_OK) {
        return "cannot be read";
    }
    m.columns = columns.shape[1];
    training_make(&t, &m, 0, 1, false);
    pawl_status status = checkpoint_restore(checkpoint, t.state, &restoring, 0, 1, NULL, err);
    int64_t of_step = -1;
    int64_t of_job = -1;
    bool whole = status == PAWL_OK && training_look(&t, &of_step, &of_job);
    training_free(&t);
    if (status != PAWL_OK) {
        return "cannot be restored";
    }
    return whole && of_step == step && of_job == c->job ? NULL : "is not one save of one job";
}

static void verify_outside(void *argument) {
    reading *r = argument;
    promises *p = r->promises;
    struct pawl_error err = ERROR_INIT;
    const commit *c = visible(p, r->step);
    const char *wrong = c != NULL ? read_back(p, r->step, c, &err) : NULL;
    p->checked++;
    if (wrong != NULL) {
        promises_broken(p, "V5: step %lld of %s %s: %s", (long long)r->step, c->tag, wrong,
                        error_text(&err));
    }
}

static void verify(promises *p, int64_t step) {
    reading r = {.promises = p, .step = step};
    fiber_call_outside(verify_outside, &r);
}

void promises_verify_all(promises *p) {
    for (size_t i = 0; i < p->count; i++) {
        if (p->commits[i].visible) {
            check_whole(p, &p->commits[i]);
            verify(p, p->commits[i].step);
        }
    }
}

/* ---- what happens to manifests --------------------------------------------------------------- */

/* Has another job become the owner after this one? */
static bool superseded(const promises *p, const machine *m) {
    int ownership = p->ownerships[m->job];
    return ownership > 0 && ownership < p->ownerships[p->owner_job];
}

static void check_not_told_failed(promises *p, const commit *c) {
    for (size_t i = 0; i < p->failure_count; i++) {
        const told_failure *f = &p->failures[i];
        if (f->job == c->job && f->step == c->step) {
            promises_broken(p, "V4: %s is committed after job %d, rank %d was told that it failed",
                            c->tag, f->job, f->rank);
        }
    }
}

static commit *add_commit(promises *p) {
    struct pawl_error err = ERROR_INIT;
    if (vec_reserve(&p->commits, &p->capacity, p->count + 1, sizeof *p->commits, &err) != PAWL_OK) {
        abort();
    }
    commit *c = &p->commits[p->count++];
    *c = (commit){.step = -1};
    return c;
}

static bool anything_visible(const promises *p) {
    for (size_t i = 0; i < p->count; i++) {
        if (p->commits[i].visible) {
            return true;
        }
    }
    return false;
}

int64_t promises_newest(const promises *p) {
    int64_t newest = -1;
    for (size_t i = 0; i < p->count; i++) {
        const commit *c = &p->commits[i];
        newest = c->visible && c->step > newest ? c->step : newest;
    }
    return newest;
}

const commit *promises_lasting(const promises *p, uint64_t since_ns) {
    uint64_t lag_ns = storage_most_lag_ns(p->storage);
    for (size_t i = 0; i < p->count; i++) {
        const commit *c = &p->commits[i];
        if (c->visible && (lag_ns == 0 || c->shown_ns + lag_ns < since_ns)) {
            return lag_ns == 0 && p->nothing_ns >= since_ns ? NULL : c;
        }
    }
    return NULL;
}

size_t promises_named(const promises *p, const char *manifest_json) {
    size_t i = p->count;
    while (i > 0 && strstr(manifest_json, p->commits[i - 1].tag) == NULL) {
        i--;
    }
    return i > 0 ? i - 1 : p->count;
}

static void hide(promises *p, commit *c) {
    c->visible = false;
    c->hidden_ns = fibers_now();
    p->nothing_ns = anything_visible(p) ? p->nothing_ns : UINT64_MAX;
}

/* V7: by an operation that was asked for before. */
static void check_not_overtaken(promises *p, const storage_event *e, const commit *old,
                                const char *what) {
    if (old->told && e->begun_ns < old->asked_ns) {
        promises_broken(p, "V7: %s, told to be durable, is %s by what job %d asked for %.1f s ago",
                        old->tag, what, e->by->job,
                        (double)(fibers_now() - e->begun_ns) / (double)NS_PER_S);
    }
}

/* On an object store a manifest's name may hold a placeholder, which is none, and a new owner may
 * put a manifest again, so that it has another version. */
static bool is_new_manifest(promises *p, const storage_event *e, int64_t step) {
    CLEANUP(manifest_free) manifest m = {0};
    struct pawl_error ignored = ERROR_INIT;
    char tag[FORMAT_TAG_CHARS] = "";
    const commit *old = visible(p, step);
    if (!is_of_objects(p)) {
        return true;
    }
    if (manifest_is_placeholder(e->bytes, e->n)) {
        if (old != NULL) {
            promises_broken(p, "V1: job %d puts a placeholder in the place of %s", e->by->job,
                            old->tag);
        }
        return false;
    }
    if (manifest_decode(e->bytes, manifest_bytes(e->bytes, e->n), &m, &ignored) == PAWL_OK) {
        (void)name_classify(m.index_name, tag);
    }
    return old == NULL || strcmp(old->tag, tag) != 0;
}

static void published(promises *p, const storage_event *e, int64_t step, const char *path) {
    const machine *m = e->by;
    const durability *d = durability_of(p, path);
    commit *old = visible(p, step);
    if (old != NULL) {
        check_not_overtaken(p, e, old, "replaced");
        old->visible = false;
        old->hidden_ns = fibers_now();
    }
    if (p->nothing_ns == UINT64_MAX) {
        p->nothing_ns = fibers_now();
    }
    commit *c = add_commit(p);
    c->step = step;
    c->job = m->job;
    c->asked_ns = e->begun_ns;
    c->shown_ns = fibers_now();
    if (!read_manifest(p, step, &c->manifest)) {
        promises_broken(p, "V1: what was published for step %lld is no manifest", (long long)step);
        p->count--;
        return;
    }
    (void)name_classify(c->manifest.index_name, c->tag);
    c->visible = true;
    if (superseded(p, m)) {
        promises_broken(p, "V3: job %d published %s after job %d took the run over", m->job, c->tag,
                        p->owner_job);
    }
    if (m->rank != 0) {
        promises_broken(p, "G4: rank %d published %s", m->rank, c->tag);
    }
    if (d->synced < d->written) {
        promises_broken(p, "V1: %s was published before its bytes were synced", path);
    }
    check_not_told_failed(p, c);
    check_whole(p, c);
    if (p->verify_one_of > 0 && random_below(&p->random, p->verify_one_of) == 0) {
        verify(p, step);
    }
}

static bool newer_visible(const promises *p, int64_t step) {
    for (size_t i = 0; i < p->count; i++) {
        if (p->commits[i].visible && p->commits[i].step > step) {
            return true;
        }
    }
    return false;
}

static void manifest_removed(promises *p, const storage_event *e, int64_t step,
                             bool was_on_its_way) {
    const machine *m = e->by;
    commit *c = visible(p, step);
    if (c == NULL) {
        return;
    }
    check_not_overtaken(p, e, c, "removed");
    hide(p, c);
    c->removed = true;
    if (!newer_visible(p, step)) {
        promises_broken(p, "V2: job %d removed %s of step %lld, the newest checkpoint", m->job,
                        c->tag, (long long)step);
    }
    if (m->rank != 0 || (superseded(p, m) && !was_on_its_way)) {
        promises_broken(p, "V3: job %d, rank %d removed %s, and job %d owns the run", m->job,
                        m->rank, c->tag, p->owner_job);
    }
}

static bool names(const commit *c, const char *name) {
    for (size_t i = 0; i < c->manifest.file_count; i++) {
        if (strcmp(c->manifest.files[i].name, name) == 0) {
            return true;
        }
    }
    return strcmp(c->manifest.index_name, name) == 0;
}

static void check_untouched(promises *p, const storage_event *e, int64_t step, const char *name) {
    const commit *c = visible(p, step);
    if (c != NULL && names(c, name)) {
        p->damaged_ns = fibers_now();
        promises_broken(p, "V1: job %d, rank %d: %s of %s, which a manifest names", e->by->job,
                        e->by->rank, store_op_name(e->op), e->path);
    }
}

/* Which attempt a file is of is told by its tag; "": of none. */
static bool of_other_job(const promises *p, const machine *m, const char *name) {
    char tag[FORMAT_TAG_CHARS] = "";
    (void)name_classify(name, tag);
    for (size_t i = 0; i < p->count; i++) {
        size_t attempt = strcspn(p->commits[i].tag, "-");
        if (strncmp(p->commits[i].tag, tag, attempt) == 0 && tag[0] != '\0') {
            return p->commits[i].job != m->job;
        }
    }
    return false;
}

static void file_removed(promises *p, const storage_event *e, int64_t step, const char *name,
                         bool was_on_its_way) {
    check_untouched(p, e, step, name);
    if (superseded(p, e->by) && !was_on_its_way && of_other_job(p, e->by, name)) {
        promises_broken(p, "V3: job %d, rank %d removed %s, and job %d owns the run", e->by->job,
                        e->by->rank, e->path, p->owner_job);
    }
}

/* A record of its own makes a job the owner: a file of the next generation; of an object store the
 * one object, when another job's was there before. */
static void note_owner(promises *p, const storage_event *e) {
    int job = e->by->job;
    if (e->op == STORE_OP_OPEN && e->mode == STORE_CREATE && strncmp(e->path, "owner-", 6) == 0) {
        p->record_job = job;
        p->ownerships[job] = e->unheard ? p->ownerships[job] : ++p->ownership_count;
    }
    if (e->op == STORE_OP_PUT && strcmp(e->path, "owner") == 0 && p->record_job != job) {
        p->record_job = job;
        p->ownerships[job] = ++p->ownership_count;
    }
}

static void watch(void *context, const storage_event *e) {
    promises *p = context;
    int64_t step;
    const char *name;
    if (e->status != PAWL_OK) {
        return;
    }
    note_durability(p, e);
    note_owner(p, e);
    const char *path = e->op == STORE_OP_RENAME ? e->to : e->path;
    if (!step_of_path(path, &step, &name)) {
        return;
    }
    bool is_manifest = strcmp(name, NAME_MANIFEST) == 0;
    bool was_on_its_way = e->begun_ns < p->taken_over_ns;
    switch (e->op) {
    case STORE_OP_RENAME:
    case STORE_OP_PUT:
        if (is_manifest && is_new_manifest(p, e, step)) {
            published(p, e, step, path);
        }
        break;
    case STORE_OP_UNLINK:
        if (is_manifest) {
            manifest_removed(p, e, step, was_on_its_way);
        } else {
            file_removed(p, e, step, name, was_on_its_way);
        }
        break;
    case STORE_OP_WRITE:
    case STORE_OP_RESERVE:
        check_untouched(p, e, step, name);
        break;
    default:
        break;
    }
}

/* ---- what ranks are told --------------------------------------------------------------------- */

void promises_taken_over(promises *p, int job) {
    if (p->ownerships[job] > p->ownerships[p->owner_job]) {
        p->owner_job = job;
        p->taken_over_ns = fibers_now();
    }
}

/* What a successor has removed since, or replaced, may be said to be not committed. */
static void told_certainly(promises *p, const machine *m, int64_t step, const commit *c,
                           const pawl_error *err) {
    struct pawl_error ignored = ERROR_INIT;
    if (c != NULL && c->visible) {
        promises_broken(p, "V4: job %d, rank %d was told that %s failed, and it is committed: %s",
                        m->job, m->rank, c->tag, err->attempt);
    }
    if (vec_reserve(&p->failures, &p->failure_capacity, p->failure_count + 1, sizeof *p->failures,
                    &ignored) != PAWL_OK) {
        abort();
    }
    p->failures[p->failure_count++] = (told_failure){.job = m->job, .rank = m->rank, .step = step};
}

void promises_told(promises *p, const machine *m, int64_t step, pawl_status status,
                   const pawl_error *err) {
    const commit *c = promises_commit(p, m->job, step);
    if (status == PAWL_OK && c == NULL) {
        promises_broken(p, "V4: job %d, rank %d was told that step %lld is saved, and it was not",
                        m->job, m->rank, (long long)step);
    }
    if (status == PAWL_OK && c != NULL && !c->visible && !c->removed &&
        visible(p, c->step) == NULL) {
        promises_broken(p, "V2: %s was told to be saved, and is gone", c->tag);
    }
    if (status != PAWL_OK && p->record_job == m->job &&
        strstr(err->attempt, "no longer the owner") != NULL) {
        promises_broken(p, "V8: job %d, rank %d has lost the run, and to nobody: %s", m->job,
                        m->rank, err->found);
    }
    for (size_t i = 0; status == PAWL_OK && i < p->count; i++) {
        p->commits[i].told |= p->commits[i].job == m->job && p->commits[i].step == step;
    }
    if (status != PAWL_OK && !proof_leaves_open(err)) {
        told_certainly(p, m, step, c, err);
    }
}

void promises_begin(promises *p, storage *s, cluster *c, uint64_t seed) {
    *p = (promises){
        .storage = s, .cluster = c, .nothing_ns = UINT64_MAX, .random = {seed}, .verify_one_of = 4};
    machine_init(&p->reader, c, "reader", seed, false);
    s->watch = watch;
    s->context = p;
}
