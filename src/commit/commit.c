/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commit: how a checkpoint comes to exist, whole, or not at all.
 *
 * Words: a file's *bytes* are durable after its sync, its *name* after the sync of its directory. A
 * *tag* is "<attempt>-<save number>": no two saves ever share one, so no data or index file is ever
 * written twice. `D` is the step's directory, `M` its manifest.json.
 *
 * I1. A checkpoint exists if and only if M does. Readers look at nothing else.
 * I2. When M becomes visible, everything that it names is durable: bytes and names of data files
 *     and index, and the name of D.
 * I3. M is only ever replaced atomically, by a rename within D of a file whose bytes are durable,
 *     and whose name no other save uses. A new owner removes such files of other attempts (O5), and
 *     every save those of others in D: a rename that was given up must not take effect after its
 *     own.
 * I4. M is published only by the owner of the run, with a renewal less than half a lease old (O4).
 *     A writer that is paused after that look, however long, finds its file gone when another one
 *     has taken over: its rename fails, and M is what it was (O5).
 * I5. A file that M names is never changed. It is removed only after M is gone or names other
 *     files, and that change is durable.
 * I6. Removal begins with M: from then on the checkpoint is absent, and what is left are leftovers.
 *     Where operations may take effect late it is announced in D first, and nothing is published
 *     beside the announcement of a removal that got no answer (remove.c, evict.c).
 * I7. Nothing older is removed before something newer is committed and durable.
 * I8. A tag's files are removed only when it is proven that M does not name them, and never will:
 *     first its temporary file is gone for certain, so that no rename that is on its way can
 *     publish it any more; then M is opened and names others, or the storage itself says that there
 *     is none. That a name is not seen proves nothing (store/evidence.h). Without proof they stay.
 *
 * Order of one save:                                      what a crash right after it leaves
 *   1 make D; write and sync data files (engine)          leftovers in D; the older checkpoints
 *   2 write and sync the index                            the same
 *   3 sync D, sync the run's directory (I2)               the same
 *   4 renew the ownership (I4)                            the same
 *   5 write and sync the temporary M                      the same
 *   6 still fresh? (I4) rename M, sync D                  before the sync: the old M or the new
 *   7 `latest`; files of a replaced save; retention       the new checkpoint; leftovers
 * In 7 the order counts for readers, too (checkpoint/step_scan.h).
 */
#include "commit/commit.h"
#include "checkpoint/step_directory.h"

#include "store/evidence.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Buffers an index in aligned blocks, so that a large one can bypass the page cache. */
typedef struct file_sink {
    store_file *file;
    uint64_t at;
    uint8_t *memory;
    size_t held, capacity;
} file_sink;

#define SINK_BYTES (1u << 20)

static pawl_status sink_flush(file_sink *sink, pawl_error *err) {
    size_t n = sink->held;
    sink->held = 0;
    TRY(store_write(sink->file, sink->at, sink->memory, n, err));
    sink->at += n;
    return PAWL_OK;
}

static pawl_status sink_write(void *context, const void *data, size_t n, pawl_error *err) {
    file_sink *sink = context;
    const uint8_t *from = data;
    while (n > 0) {
        size_t room = sink->capacity - sink->held;
        size_t some = n < room ? n : room;
        memcpy(sink->memory + sink->held, from, some);
        sink->held += some;
        from += some;
        n -= some;
        if (sink->held == sink->capacity) {
            TRY(sink_flush(sink, err));
        }
    }
    return PAWL_OK;
}

static pawl_status write_index_file(pawl_run *run, const char *path, const index_writer *index,
                                    manifest *m, pawl_error *err) {
    CLEANUP(store_close_pointer) store_file *file = NULL;
    TRY(store_open(run->store, path, index->large ? STORE_CREATE_BULK : STORE_CREATE, &file, err));
    size_t part = run->store->traits.part_bytes_min;
    size_t capacity = part > SINK_BYTES ? part : SINK_BYTES;
    AUTOFREE uint8_t *memory = mem_aligned(STORE_DIRECT_ALIGNMENT, capacity);
    if (memory == NULL) {
        return error_nomem(err, capacity);
    }
    file_sink sink = {.file = file, .memory = memory, .capacity = capacity};
    TRY(index->write(index->context, (byte_sink){.context = &sink, .write = sink_write}, &m->index,
                     &m->entries, err));
    TRY(sink_flush(&sink, err));
    return store_sync(file, err);
}

/* ---- does a manifest name a save's files? --------------------------------------------------- */

/* What the manifest says now: PAWL_ENOTFOUND where none is seen, which alone proves nothing. */
static pawl_status look_in_manifest(pawl_run *run, const char *directory, const char *tag,
                                    commit_named *out, pawl_error *err) {
    CLEANUP(buffer_free) buffer text = {0};
    CLEANUP(manifest_free) manifest m = {0};
    char index_name[80];
    store_tag version;
    name_index(index_name, tag);
    *out = COMMIT_UNKNOWN;
    TRY(step_manifest_text(run->store, directory, &text, &version, err));
    TRY(manifest_decode(text.data, text.size, &m, err));
    *out = strcmp(m.index_name, index_name) == 0 ? COMMIT_NAMED : COMMIT_NOT_NAMED;
    return PAWL_OK;
}

commit_named commit_names(pawl_run *run, const char *directory, const char *tag) {
    struct pawl_error ignored = ERROR_INIT;
    commit_named found;
    pawl_status status = look_in_manifest(run, directory, tag, &found, &ignored);
    return status == PAWL_ENOTFOUND && run->store->traits.coherent ? COMMIT_NOT_NAMED : found;
}

/* On an object store nothing is renamed, but an answer may have been lost, or what is read be late.
 */
static pawl_status prevent_puts(pawl_run *run, const char *directory, pawl_error *err) {
    int64_t step, working_on;
    bool doubt = owner_is_working(run->owner, &working_on) || !run->store->traits.coherent;
    if (doubt && name_step_parse(directory, &step)) {
        TRY(object_settle(run, step, err));
        store_catch_up(run->store);
    }
    return PAWL_OK;
}

pawl_status commit_prevent(pawl_run *run, const char *directory, const char *tag, pawl_error *err) {
    char name[80];
    char path[STORE_MAX_PATH];
    if (run->store->traits.objects) {
        return prevent_puts(run, directory, err);
    }
    name_manifest_tmp(name, tag);
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return store_unlink_for_certain(run->store, path, err);
}

pawl_status commit_prove_no_manifest(store *s, const char *directory, bool *absent,
                                     pawl_error *err) {
    char path[STORE_MAX_PATH];
    snprintf(path, sizeof path, "%s/" NAME_MANIFEST, directory);
    if (s->traits.objects) { /* there may be a placeholder */
        bool present = true;
        pawl_status status = step_prove_manifest(s, directory, &present, err);
        *absent = !present;
        return status;
    }
    return store_prove_absent(s, path, absent, err);
}

bool commit_never_names(pawl_run *run, const char *directory, const char *tag) {
    struct pawl_error ignored = ERROR_INIT;
    commit_named found;
    bool absent = false;
    if (commit_prevent(run, directory, tag, &ignored) != PAWL_OK) {
        return false;
    }
    pawl_status status = look_in_manifest(run, directory, tag, &found, &ignored);
    if (status != PAWL_ENOTFOUND) {
        return found == COMMIT_NOT_NAMED;
    }
    return commit_prove_no_manifest(run->store, directory, &absent, &ignored) == PAWL_OK && absent;
}

/* ---- publishing ----------------------------------------------------------------------------- */

/* O4, asked when the manifest is one rename away from being visible. */
static pawl_status still_fresh(void *context, pawl_error *err) {
    pawl_run *run = context;
    if (owner_fresh(run->owner)) {
        return PAWL_OK;
    }
    error_set(err, PAWL_EBUSY, "the ownership of the run could not be renewed in time");
    error_path(err, "%s", run->store->root);
    error_next(err, "save again; if this repeats, give lease_s a larger value");
    return PAWL_EBUSY;
}

/* Publishing has failed, but perhaps only the reply was lost. Where the manifest is there its name
 * is made durable. */
static bool is_published(pawl_run *run, const char *directory, const char *tag, pawl_error *reply) {
    struct pawl_error ignored = ERROR_INIT;
    if (commit_names(run, directory, tag) != COMMIT_NAMED ||
        store_sync_dir(run->store, directory, &ignored) != PAWL_OK) {
        return false;
    }
    log_write(&run->log, PAWL_LOG_WARN,
              "the storage said that %s/" NAME_MANIFEST " could not be published, but it is: %s",
              directory, error_text(reply));
    return true;
}

static pawl_status may_be_committed(const pawl_run *run, int64_t step, pawl_status status,
                                    pawl_error *err) {
    error_next(err, "step %lld may be committed or not: see with pawl ls %s", (long long)step,
               run->store->root);
    return status;
}

static pawl_status publish_object(pawl_run *run, const manifest *m, pawl_error *err) {
    CLEANUP(buffer_free) buffer text = {0};
    bool in_doubt;
    TRY(manifest_encode(m, &text, err));
    pawl_status status = object_publish(run, m->step, &text, still_fresh, &in_doubt, err);
    return in_doubt ? may_be_committed(run, m->step, status, err) : status;
}

static pawl_status publish_manifest(pawl_run *run, const char *directory, const char *tag,
                                    const manifest *m, pawl_error *err) {
    char name[80];
    char temporary[STORE_MAX_PATH];
    char path[STORE_MAX_PATH];
    CLEANUP(buffer_free) buffer text = {0};
    TRY(manifest_encode(m, &text, err));
    name_manifest_tmp(name, tag);
    snprintf(temporary, sizeof temporary, "%s/%s", directory, name);
    snprintf(path, sizeof path, "%s/" NAME_MANIFEST, directory);
    store_publish_end end;
    pawl_status status = store_publish(run->store, path, temporary, text.data, text.size,
                                       still_fresh, run, &end, err);
    if (status != PAWL_OK &&
        err->system_errno == EISDIR) { /* left by a proof that was interrupted (store/evidence.h) */
        bool absent;
        TRY(commit_prove_no_manifest(run->store, directory, &absent, err));
        *err = (struct pawl_error)ERROR_INIT;
        status = store_publish(run->store, path, temporary, text.data, text.size, still_fresh, run,
                               &end, err);
    }
    if (status == PAWL_OK || end == STORE_UNPUBLISHED) {
        return status;
    }
    return end == STORE_MAYBE_PUBLISHED && is_published(run, directory, tag, err)
               ? PAWL_OK
               : may_be_committed(run, m->step, status, err);
}

pawl_status commit_publish(pawl_run *run, const char *directory, const char *tag, manifest *m,
                           const index_writer *index, pawl_error *err) {
    char index_name[80];
    char path[STORE_MAX_PATH];
    name_index(index_name, tag);
    m->index_name = index_name;
    snprintf(path, sizeof path, "%s/%s", directory, index_name);
    pawl_status status = write_index_file(run, path, index, m, err);
    if (status != PAWL_OK && status != PAWL_EMISMATCH) { /* which is in what the ranks saved */
        error_wrap(err, "write index");
    }
    TRY(status);
    TRY(store_sync_dir(run->store, directory, err)); /* I2 */
    TRY(store_sync_dir(run->store, "", err));
    if (run->store->traits.objects) {
        status = publish_object(run, m, err);
    } else {
        TRY(owner_renew(run->owner, err));       /* I4 */
        TRY(evict_earlier(run, directory, err)); /* I3 */
        status = publish_manifest(run, directory, tag, m, err);
    }
    if (status != PAWL_OK) {
        error_wrap(err, "publish manifest");
        return status;
    }
    if (m->step > atomic_load(&run->newest_step)) {
        atomic_store(&run->newest_step, m->step);
    }
    return PAWL_OK;
}

/* In place where it can be: making a file and renaming it costs as much as a sync. */
static bool renew_latest(pawl_run *run, const char *line, size_t n) {
    struct pawl_error ignored = ERROR_INIT;
    CLEANUP(store_close_pointer) store_file *file = NULL;
    uint64_t size;
    return store_open(run->store, NAME_LATEST, STORE_UPDATE, &file, &ignored) == PAWL_OK &&
           store_size(file, &size, &ignored) == PAWL_OK && size == n &&
           store_write(file, 0, line, n, &ignored) == PAWL_OK;
}

void commit_point_latest(pawl_run *run, int64_t step) {
    char line[40];
    struct pawl_error story = ERROR_INIT;
    name_step(line, step);
    size_t n = strlen(line);
    line[n++] = '\n';
    if (!renew_latest(run, line, n) &&
        store_replace(run->store, NAME_LATEST, line, n, &story) != PAWL_OK) {
        error_wrap(&story, "step %lld is committed, but the file `latest` could not be written",
                   (long long)step);
        log_write(&run->log, PAWL_LOG_WARN, "%s", error_text(&story));
    }
}
