/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commit of a job of many ranks, beyond the writing of its data: votes, one index, the
 * manifest; then opening the checkpoint.
 *
 *   scale_ranks RANKS ENTRIES own|shared              in a directory of its own, both of:
 *   scale_ranks RANKS ENTRIES own|shared DIR make     every rank's vote, one after the other
 *   scale_ranks RANKS ENTRIES own|shared DIR commit   what rank 0 does; a process of its own, so
 *                                                     that its memory can be told
 *
 * Each rank has ENTRIES tensors: its own, with its own names, or a part of each of the tensors that
 * all ranks share. Data files have their size and no bytes. Each verb prints a line of JSON.
 */
#include "checkpoint/private.h"
#include "run/private.h"

#include "store/posix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define TAG       "7f3a9c21e04b-1"
#define DIRECTORY "step-00000100"
#define STEP      100
#define ELEMENTS  4 /* of a rank's part of a tensor */

typedef struct job {
    int ranks;
    size_t entries;
    bool shared;
    const char *root;
    store *disk;
    const platform *os;
    struct pawl_error err;
} job;

static void must(pawl_status status, job *j) {
    if (status != PAWL_OK) {
        fprintf(stderr, "scale_ranks: %s\n", error_text(&j->err));
        exit(1);
    }
}

static double now(const job *j) {
    return (double)j->os->monotonic_ns(j->os->context) / 1e9;
}

static job_ranks ranks_of(const job *j, int rank) {
    return (job_ranks){.store = j->disk,
                       .platform = j->os,
                       .rank = rank,
                       .world_size = j->ranks,
                       .attempt = "7f3a9c21e04b"};
}

/* ---- make ----------------------------------------------------------------------------------- */

static void add_tensor(job *j, pawl_state *state, int rank, size_t i) {
    static float data[ELEMENTS];
    char name[64];
    const int64_t shape[] = {j->shared ? (int64_t)j->ranks * ELEMENTS : ELEMENTS};
    const int64_t offset[] = {(int64_t)rank * ELEMENTS};
    const int64_t extent[] = {ELEMENTS};
    const pawl_box held = {.offset = offset, .extent = extent, .data = data};
    const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                .name = name,
                                .dtype = PAWL_F32,
                                .ndim = 1,
                                .shape = shape,
                                .data = j->shared ? NULL : data,
                                .nboxes = j->shared,
                                .boxes = j->shared ? &held : NULL};
    if (j->shared) {
        snprintf(name, sizeof name, "model/layers/%06zu/weight", i);
    } else {
        snprintf(name, sizeof name, "model/rank%05d/%06zu/weight", rank, i);
    }
    must(state_add_tensor(state, &tensor, &j->err), j);
}

static void make_files(job *j, const plan_layout *layout, engine_file *files) {
    for (size_t i = 0; i < layout->file_count; i++) {
        char path[STORE_MAX_PATH];
        const plan_file *file = &layout->files[i];
        CLEANUP(store_close_pointer) store_file *made = NULL;
        snprintf(path, sizeof path, DIRECTORY "/%s", file->name);
        must(store_open(j->disk, path, STORE_CREATE, &made, &j->err), j);
        snprintf(path, sizeof path, "%s/" DIRECTORY "/%s", j->root, file->name);
        if (truncate(path, (off_t)file->bytes) != 0) {
            perror("truncate");
            exit(1);
        }
        files[i].block_count =
            (size_t)((file->bytes + FORMAT_BLOCK_BYTES - 1) / FORMAT_BLOCK_BYTES);
        files[i].checksums = mem_calloc(files[i].block_count, sizeof(uint32_t));
    }
}

static void put_own(job *j, const buffer *own) {
    must(store_replace(j->disk, "own", own->data, own->size, &j->err), j);
}

/* Returns the seconds that voting took the rank. */
static double vote_of(job *j, int rank, uint64_t *bytes) {
    structure_left left = {.bytes = 0};
    job_ranks ranks = ranks_of(j, rank);
    pawl_state *state = NULL;
    state_snapshot *snapshot = NULL;
    plan_layout *layout = NULL;
    index_layout *entries = NULL;
    CLEANUP(buffer_free) buffer own = {0};
    const plan_layout_options options = {.tag = TAG, .rank = rank, .world_size = j->ranks};
    must(state_new(&state, &j->err), j);
    for (size_t i = 0; i < j->entries; i++) {
        add_tensor(j, state, rank, i);
    }
    const int64_t step = STEP;
    must(state_set_value(state, "step", PAWL_KIND_INT64, PAWL_ROLE_STEP, false, &step, 8, &j->err),
         j);
    must(state_snapshot_take(state, STEP, false, &snapshot, &j->err), j);
    must(plan_layout_make(snapshot, &options, &layout, &j->err), j);
    engine_file *files = mem_calloc(layout->file_count, sizeof *files);
    make_files(j, layout, files);
    double begun = now(j);
    must(index_layout_open(layout, &entries, &j->err), j);
    const index_input input = {
        .entries = index_layout_source(entries), .files = files, .file_count = layout->file_count};
    const ballot b = {.directory = DIRECTORY,
                      .tag = TAG,
                      .step = STEP,
                      .layout = layout,
                      .input = &input,
                      .left = &left};
    must(rank == 0 ? vote_keep(&ranks, &b, &own, &j->err) : vote_cast(&ranks, &b, &j->err), j);
    double seconds = now(j) - begun;
    if (rank == 0) {
        put_own(j, &own);
        *bytes = own.size;
    }
    for (size_t i = 0; i < layout->file_count; i++) {
        mem_free((void *)(uintptr_t)files[i].checksums);
    }
    mem_free(files);
    index_layout_close(entries);
    plan_layout_free(layout);
    state_snapshot_free(snapshot);
    state_free(state);
    return seconds;
}

static void make(job *j) {
    double seconds = 0;
    uint64_t bytes = 0;
    must(store_make_dir(j->disk, DIRECTORY, &j->err), j);
    for (int r = 0; r < j->ranks; r++) {
        seconds += vote_of(j, r, &bytes);
    }
    printf("{\"ranks\": %d, \"entries\": %zu, \"vote_s\": %.6f, \"vote_bytes\": %llu}\n", j->ranks,
           j->entries, seconds / j->ranks, (unsigned long long)bytes);
}

/* ---- commit --------------------------------------------------------------------------------- */

typedef struct phases {
    double heads_s, agree_s, merge_s, publish_s, open_s, find_s, cpu_s;
    uint64_t index_bytes;
    long peak_kib;
} phases;

static void collect(job *j, pawl_run *run, votes *v) {
    must(store_read_file(j->disk, "own", (size_t)1 << 32, &v->own, &j->err), j);
    must(votes_begin(run->ranks, TAG, v, &j->err), j);
    for (int r = 1; r < j->ranks; r++) {
        must(vote_read_head(run->store, DIRECTORY, TAG, r, &v->memory, &v->heads[r], &j->err), j);
        v->came[r] = 1;
    }
}

/* Where the time goes: the merge is seen from inside the commit. */
typedef struct timed_merge {
    const job *j;
    merge *merge;
    double seconds;
} timed_merge;

static pawl_status timed_write(void *context, byte_sink sink, table_summary *summary,
                               uint64_t *entry_count, pawl_error *err) {
    timed_merge *t = context;
    double begun = now(t->j);
    pawl_status status = merge_write(t->merge, sink, summary, entry_count, err);
    t->seconds = now(t->j) - begun;
    return status;
}

static void publish(job *j, pawl_run *run, const votes *v, phases *p) {
    double begun = now(j);
    timed_merge t = {.j = j};
    const index_writer index = {.context = &t, .write = timed_write, .large = true};
    CLEANUP(manifest_free)
    manifest m = {.version = FORMAT_VERSION,
                  .step = STEP,
                  .world_size = j->ranks,
                  .attempt = "7f3a9c21e04b",
                  .framework = "",
                  .writer = "pawl " PAWL_VERSION};
    must(votes_manifest_files(j->ranks, v, &m, &j->err), j);
    const merge_input in = {
        .store = j->disk, .directory = DIRECTORY, .tag = TAG, .votes = v, .world_size = j->ranks};
    must(merge_open(&in, &t.merge, &j->err), j);
    double opened = now(j);
    must(commit_publish(run, DIRECTORY, TAG, &m, &index, &j->err), j);
    merge_close(t.merge);
    p->merge_s = opened - begun + t.seconds;
    p->publish_s = now(j) - opened - t.seconds;
    p->index_bytes = m.index.bytes;
}

static void open_checkpoint(job *j, phases *p) {
    const pawl_log quiet = {.write = NULL};
    char name[64];
    pawl_checkpoint *c = NULL;
    pawl_entry_info info = {.struct_size = sizeof info};
    size_t i = j->entries / 2;
    snprintf(name, sizeof name,
             j->shared ? "model/layers/%06zu/weight" : "model/rank00000/%06zu/weight", i);
    double begun = now(j);
    must(checkpoint_open(j->disk, false, STEP, j->os, &quiet, &c, &j->err), j);
    p->open_s = now(j) - begun;
    begun = now(j);
    must(checkpoint_find(c, name, &info, &j->err), j);
    p->find_s = now(j) - begun;
    pawl_checkpoint_close(c);
}

static double cpu_s(void) {
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0
               ? (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                     (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6
               : 0;
}

/* Of this program alone: the resource usage has that of whoever started it, too. */
static long peak_kib(void) {
    char line[256];
    long peak = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status != NULL && fgets(line, sizeof line, status) != NULL) {
        if (strncmp(line, "VmHWM:", 6) == 0) {
            peak = strtol(line + 6, NULL, 10);
        }
    }
    if (status != NULL) {
        (void)fclose(status);
    }
    return peak;
}

static void commit(job *j) {
    phases p = {0};
    job_ranks ranks = ranks_of(j, 0);
    pawl_run run = {.store = j->disk, .platform = j->os, .ranks = &ranks};
    atomic_store(&run.newest_step, -1);
    const pawl_log quiet = {.write = NULL};
    votes v = {.heads = NULL};
    long before_kib = peak_kib();
    must(owner_take(j->disk, j->os, &quiet, NULL, 30, 0, &run.owner, &j->err), j);
    double begun = now(j);
    collect(j, &run, &v);
    p.heads_s = now(j) - begun;
    begun = now(j);
    must(votes_agree(&ranks, &v, STEP, TAG, &j->err), j);
    p.agree_s = now(j) - begun;
    publish(j, &run, &v, &p);
    p.peak_kib = peak_kib() - before_kib;
    p.cpu_s = cpu_s();
    open_checkpoint(j, &p);
    printf("{\"heads_s\": %.6f, \"agree_s\": %.6f, \"merge_s\": %.6f, \"publish_s\": %.6f, "
           "\"commit_s\": %.6f, \"cpu_s\": %.6f, \"open_s\": %.6f, \"find_s\": %.6f, "
           "\"index_bytes\": %llu, "
           "\"peak_kib\": %ld}\n",
           p.heads_s, p.agree_s, p.merge_s, p.publish_s,
           p.heads_s + p.agree_s + p.merge_s + p.publish_s, p.cpu_s, p.open_s, p.find_s,
           (unsigned long long)p.index_bytes, p.peak_kib);
    votes_free(&v);
    (void)owner_release(run.owner);
}

/* ---- the whole ------------------------------------------------------------------------------ */

static int usage(void) {
    fprintf(stderr, "usage: scale_ranks RANKS ENTRIES own|shared [DIR make|commit]\n");
    return 2;
}

static void at_directory(job *j, void (*verb)(job *)) {
    must(store_posix(j->root, &j->disk, &j->err), j);
    verb(j);
    store_destroy(j->disk);
}

/* Both verbs, each in a process of its own; the directory goes afterwards. */
static int in_own_directory(job *j) {
    char root[] = "/tmp/scale_ranks-XXXXXX";
    char remove[64];
    void (*const verbs[])(job *) = {make, commit};
    bool failed = (j->root = mkdtemp(root)) == NULL;
    for (size_t i = 0; i < ARRAY_LENGTH(verbs) && !failed; i++) {
        int status = 1;
        pid_t child = fork();
        if (child == 0) {
            at_directory(j, verbs[i]);
            exit(0);
        }
        failed = child < 0 || waitpid(child, &status, 0) != child || status != 0;
    }
    snprintf(remove, sizeof remove, "rm -r %s", root);
    return system(remove) != 0 || failed;
}

int main(int argc, char **argv) {
    if (argc != 4 && argc != 6) {
        return usage();
    }
    job j = {.ranks = (int)strtol(argv[1], NULL, 10),
             .entries = strtoul(argv[2], NULL, 10),
             .shared = strcmp(argv[3], "shared") == 0,
             .os = platform_system(),
             .err = ERROR_INIT};
    if (j.ranks < 1 || j.ranks > PAWL_MAX_RANKS) {
        return usage();
    }
    if (argc == 4) {
        return in_own_directory(&j);
    }
    j.root = argv[4];
    at_directory(&j, strcmp(argv[5], "make") == 0 ? make : commit);
    return 0;
}
