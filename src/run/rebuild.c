/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a new index, and a new manifest where the old one is lost, from the data files alone.
 *
 * Data files say of themselves what is in them, and carry a sum of their bytes. All of them are
 * read, and whatever can be checked is: their headers, sizes and sums, that they are of one save,
 * and that the pieces make up whole tensors. In a file without a sum, what is damaged now is
 * taken for what was written, unless the present index proves it.
 */
#include "checkpoint/checkpoint.h"
#include "checkpoint/data_files.h"
#include "checkpoint/index.h"
#include "checkpoint/step_directory.h"
#include "run/private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct rebuilding {
    pawl_run *run;
    int64_t step;
    bool force;
    char directory[32];
    buffer text;
    manifest manifest; /* the old one where it can be read */
    data_files data;
} rebuilding;

static void rebuilding_free(rebuilding *r) {
    data_files_free(&r->data);
    manifest_free(&r->manifest);
    buffer_free(&r->text);
}

/* ---- which files ---- */

/* The data files of one save: of one process, or of ranks that each count their own. */
typedef struct file_set {
    char tag[FORMAT_TAG_CHARS];
    size_t first, count; /* in the list of names */
    uint32_t of;         /* how many files the rank looked at last has, by its names */
    int rank;            /* that rank; -1: the names have no rank */
    bool complete;       /* by the names; false: files of `rank` are missing */
} file_set;

/* Is that file the one that must come next: `expected` of the same rank, or the first of the next?
 */
static bool is_next_file(const file_set *set, uint32_t expected, int rank, uint32_t number,
                         uint32_t of) {
    bool next_rank = expected == set->of && set->rank >= 0;
    return next_rank ? rank == set->rank + 1 && number == 0
                     : rank == set->rank && number == expected && of == set->of;
}

/* Names ascend, so files of one tag stand together, by rank and number. */
static file_set next_set(char **names, size_t count, size_t first) {
    file_set set = {.first = first, .complete = true};
    uint32_t expected = 0;
    (void)name_classify(names[first], set.tag);
    for (size_t i = first; i < count; i++) {
        char tag[FORMAT_TAG_CHARS];
        int rank;
        uint32_t number;
        uint32_t of;
        if (!name_data_parse(names[i], tag, &rank, &number, &of) || strcmp(tag, set.tag) != 0) {
            break;
        }
        if (set.count++ == 0) {
            set.rank = rank < 0 ? -1 : 0;
            set.of = of;
        }
        if (set.complete && is_next_file(&set, expected, rank, number, of)) {
            set.rank = rank;
            set.of = of;
            expected = number + 1;
        } else if (set.complete) {
            set.complete = false;
            set.rank += set.rank >= 0 &&
                        expected == set.of; /* this rank is complete: the next one misses files */
        }
    }
    set.complete = set.complete && expected == set.of;
    return set;
}

/* How many ranks the save had, from the file's own header; 0: it cannot be read. */
static int file_world_size(const rebuilding *r, const char *name) {
    CLEANUP(arena_free) arena memory = {0};
    CLEANUP(safetensors_header_free) safetensors_header header = {0};
    CLEANUP(store_close_pointer) store_file *file = NULL;
    struct pawl_error ignored = ERROR_INIT;
    char path[STORE_MAX_PATH];
    byte_source source;
    record_entry *entries;
    size_t count;
    int64_t step;
    int rank;
    int world_size = 0;
    snprintf(path, sizeof(path), "%s/%s", r->directory, name);
    if (store_open(r->run->store, path, STORE_READ, &file, &ignored) != PAWL_OK ||
        store_source(file, &source, &ignored) != PAWL_OK ||
        safetensors_decode(&source, &header, &ignored) != PAWL_OK ||
        record_metadata_decode(&header, 0, &memory, &entries, &count, &step, &rank, &world_size,
                               &ignored) != PAWL_OK) {
        return 0;
    }
    return world_size;
}

/* Are files of the last ranks missing? Names do not show that. A header that cannot be read is
 * reported later, when the whole file is read. */
static void check_all_ranks(const rebuilding *r, char **names, file_set *set) {
    int world_size = set->complete ? file_world_size(r, names[set->first]) : 0;
    int ranks = set->rank < 0 ? 1 : set->rank + 1;
    if (world_size > 0 && ranks != world_size) {
        set->complete = false;
        set->rank = ranks;
    }
}

/* Without data files and manifest there is no checkpoint, so none is damaged. */
static pawl_status fail_no_set(const rebuilding *r, const file_set *some, pawl_error *err) {
    struct pawl_error ignored = ERROR_INIT;
    bool present = true;
    bool nothing = some->count == 0 &&
                   step_has_manifest(r->run->store, r->directory, &present, &ignored) == PAWL_OK &&
                   !present;
    error_set(err, nothing ? PAWL_ENOTFOUND : PAWL_EDAMAGED,
              "step %lld has no complete set of data files", (long long)r->step);
    error_path(err, "%s/%s", r->run->store->root, r->directory);
    if (some->count == 0) {
        error_expected(err, "data files");
        error_found(err, "none");
    } else if (some->rank < 0) {
        error_expected(err, "the %u %s data-%s-...", some->of, text_noun(some->of, "file", "files"),
                       some->tag);
        error_found(err, "%zu of them", some->count);
    } else {
        error_expected(err, "the files data-%s-r... of all ranks", some->tag);
        error_found(err, "%zu %s, not all of rank %d", some->count,
                    text_noun(some->count, "file", "files"), some->rank);
    }
    step_say_safe(r->run->store, r->step, err);
    error_next(err, "bring the missing files back, or use another step");
    return err->status;
}

static pawl_status fail_two_sets(const rebuilding *r, const file_set *a, const file_set *b,
                                 pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "step %lld has data files of more than one save",
              (long long)r->step);
    error_path(err, "%s/%s", r->run->store->root, r->directory);
    error_found(err, "data-%s-... and data-%s-..., both complete", a->tag, b->tag);
    error_next(err, "move those that are not wanted out of the directory, and rebuild again");
    return PAWL_EDAMAGED;
}

/* The one complete set of data files in the directory. */
static pawl_status choose_set(const rebuilding *r, char **names, size_t count, file_set *out,
                              pawl_error *err) {
    file_set partial = {.count = 0};
    *out = (file_set){.count = 0};
    for (size_t i = 0; i < count;) {
        if (name_classify(names[i], NULL) != NAME_KIND_DATA) {
            i++;
            continue;
        }
        file_set set = next_set(names, count, i);
        i += set.count;
        check_all_ranks(r, names, &set);
        if (!set.complete) {
            partial = set;
        } else if (out->count > 0) {
            return fail_two_sets(r, out, &set, err);
        } else {
            *out = set;
        }
    }
    return out->count > 0 ? PAWL_OK : fail_no_set(r, &partial, err);
}

static pawl_status take_names(rebuilding *r, char **names, const file_set *set, pawl_error *err) {
    manifest *m = &r->manifest;
    char attempt[FORMAT_TAG_CHARS];
    snprintf(attempt, sizeof(attempt), "%s", set->tag);
    attempt[strcspn(attempt, "-")] = '\0';
    *m = (manifest){.version = FORMAT_VERSION, .step = r->step, .framework = ""};
    m->attempt = arena_strdup(&m->memory, attempt);
    m->files = arena_alloc(&m->memory, set->count * sizeof(*m->files));
    if (m->attempt == NULL || m->files == NULL) {
        return error_nomem(err, set->count * sizeof(*m->files));
    }
    for (size_t i = 0; i < set->count; i++) {
        const char *name = arena_strdup(&m->memory, names[set->first + i]);
        if (name == NULL) {
            return error_nomem(err, strlen(names[set->first + i]) + 1);
        }
        m->files[m->file_count++] = (manifest_file){.name = name};
    }
    return PAWL_OK;
}

static pawl_status find_files(rebuilding *r, pawl_error *err) {
    CLEANUP(arena_free) arena memory = {0};
    char **names;
    size_t count;
    file_set set;
    TRY(store_names(r->run->store, r->directory, FORMAT_MAX_NAMES, &memory, &names, &count, err));
    TRY(choose_set(r, names, count, &set, err));
    return take_names(r, names, &set, err);
}

/* A manifest that can be read says which files belong together, and when and with which metrics
 * they were saved; otherwise the names of the files say which belong together. */
static pawl_status choose_files(rebuilding *r, pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    pawl_status status = step_read_manifest(r->run->store, r->step, &r->text, &r->manifest, &story);
    if (status == PAWL_OK) {
        return PAWL_OK;
    }
    if (status != PAWL_ENOTFOUND && status != PAWL_EDAMAGED) {
        *err = story;
        return status;
    }
    log_write(&r->run->log, PAWL_LOG_WARN,
              "step %lld is rebuilt without its manifest: the time and the metrics of its save are "
              "lost: %s",
              (long long)r->step, error_text(&story));
    return find_files(r, err);
}

/* ---- a new index and manifest ---- */

static void fill_manifest(rebuilding *r) {
    manifest *m = &r->manifest;
    m->world_size = r->data.world_size;
    m->writer = "pawl " PAWL_VERSION;
    for (size_t i = 0; i < m->file_count; i++) {
        m->files[i].bytes = r->data.files[i].bytes;
        m->files[i].rank = r->data.files[i].rank;
    }
}

static int entry_by_name(const void *name, const void *entry) {
    return strcmp(name, ((const record_entry *)entry)->name);
}

static bool has_variable(const rebuilding *r, const record_entry *slot) {
    const record_entry *variable = slot->role == PAWL_ROLE_SLOT
                                       ? bsearch(slot->slot_of, r->data.entries,
                                                 r->data.entry_count, sizeof(*slot), entry_by_name)
                                       : NULL;
    return variable != NULL && variable->kind == PAWL_KIND_TENSOR;
}

/* The same checks that a verification of the new index makes. */
static pawl_status check_rebuilt_entries(const rebuilding *r, pawl_error *err) {
    for (size_t i = 0; i < r->data.entry_count; i++) {
        const record_entry *entry = &r->data.entries[i];
        TRY(entry_check(&r->manifest, entry, err));
        TRY(entry_check_slot(entry, has_variable(r, entry), err));
    }
    return PAWL_OK;
}

static pawl_status publish_rebuilt(rebuilding *r, pawl_error *err) {
    pawl_run *run = r->run;
    char tag[FORMAT_TAG_CHARS];
    snprintf(tag, sizeof(tag), "%s-%llu", owner_attempt(run->owner),
             (unsigned long long)++run->save_number);
    index_input input = {.entries = data_files_entries(&r->data),
                         .files = r->data.checksums,
                         .file_count = r->data.file_count};
    const index_writer index = index_writer_of(&input);
    pawl_status status = commit_publish(run, r->directory, tag, &r->manifest, &index, err);
    if (status != PAWL_OK) {
        leftovers_remove_failed(run, r->directory, tag);
        return status;
    }
    commit_point_latest(run, run->newest_step);
    log_write(&run->log, PAWL_LOG_INFO, "rebuilt step %lld: %llu %s in %zu data %s",
              (long long)r->step, (unsigned long long)r->manifest.entries,
              text_noun(r->manifest.entries, "entry", "entries"), r->data.file_count,
              text_noun(r->data.file_count, "file", "files"));
    return leftovers_remove(run, r->directory, err);
}

static pawl_status rebuild(rebuilding *r, pawl_error *err) {
    store_stat stat;
    pawl_status status = store_stat_path(r->run->store, r->directory, &stat, err);
    if (status == PAWL_ENOTFOUND) {
        error_next(err, "see which steps there are with: pawl ls %s", r->run->store->root);
    }
    if (status != PAWL_OK) {
        return status;
    }
    TRY(step_check_directory(r->run->store, r->directory, err));
    TRY(choose_files(r, err));
    TRY(data_files_read(&r->data, r->run->store, r->directory, r->step, &r->manifest,
                        r->force ? &r->run->log : NULL, err));
    fill_manifest(r);
    TRY(check_rebuilt_entries(r, err));
    return publish_rebuilt(r, err);
}

/* ---- is there an index that proves the data damaged? ---------------------------------------- */

static void count_data_problem(void *context, const pawl_problem *problem) {
    uint64_t *problems = context;
    *problems += strncmp(problem->file, "data-", strlen("data-")) == 0;
}

/* A new index would declare these bytes right: damage that the present index still proves could
 * never be found again. */
static pawl_status refuse_proven_damage(pawl_run *run, int64_t step, pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    pawl_checkpoint *checkpoint = NULL;
    uint64_t problems = 0;
    const pawl_verify_options options = {
        .struct_size = sizeof(options), .problem = count_data_problem, .context = &problems};
    pawl_verify_result result;
    if (checkpoint_open_for_call(run->store, step, run->platform, &run->log, true, &checkpoint,
                                 &story) != PAWL_OK) {
        return PAWL_OK; /* no index to prove anything */
    }
    pawl_status status = checkpoint_verify(checkpoint, &options, &result, &story);
    pawl_checkpoint_close(checkpoint);
    if (status == PAWL_OK || problems == 0) {
        return PAWL_OK;
    }
    if (status == PAWL_EPERMISSION) {
        *err = story;
        error_safe(err, "nothing was changed");
        return status;
    }
    error_set(err, PAWL_EDAMAGED,
              "data files are damaged, and the present index proves it; a new index would take the "
              "damage for what was written");
    run_error_path(run, err, "");
    error_found(err, "%llu damaged %s", (unsigned long long)problems,
                text_noun(problems, "place", "places"));
    error_safe(err, "nothing was changed");
    error_next(err,
               "see what is damaged with: pawl verify %s@%lld; to rebuild all the same: pawl "
               "rebuild --force %s@%lld",
               run->store->root, (long long)step, run->store->root, (long long)step);
    return PAWL_EDAMAGED;
}

pawl_status run_rebuild(pawl_run *run, int64_t step, bool force, pawl_error *err) {
    if (step < 0) {
        return error_set(err, PAWL_EUSAGE, "%lld is no step: steps are 0 or more", (long long)step);
    }
    TRY(run_refuse_guest(run, "pawl_run_rebuild", err));
    TRY(run_settle(run, err));
    CLEANUP(rebuilding_free) rebuilding r = {.run = run, .step = step, .force = force};
    name_step(r.directory, step);
    pawl_status status = force ? PAWL_OK : refuse_proven_damage(run, step, err);
    if (status == PAWL_OK) {
        status = rebuild(&r, err);
    }
    if (status != PAWL_OK) {
        error_wrap(err, "rebuilding step %lld", (long long)step);
        error_step(err, step);
    }
    return status;
}
