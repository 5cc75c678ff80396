/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any layout into any other: random tensors are saved by some ranks, as each rank would: layout,
 * data files, vote; rank 0 merges the votes and commits; and other ranks, of another number, which
 * hold them otherwise, restore them. Every bit must be there, and of tensors of more than 1 MiB
 * hardly more may be read than the blocks that are needed.
 *
 * Usage: proof_reshard [--full] [--part N]
 */
#include "checkpoint/native.h"
#include "checkpoint/private.h"
#include "lib/many_ranks.h"
#include "lib/simulated_platform.h"
#include "proofs/proof.h"
#include "proofs/reshard_case.h"
#include "run/private.h"
#include "stores/stores.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A sanitizer makes a case many times slower: then fewer of them in the suite. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CASES 300
#else
#define CASES 1500
#endif
#define FULL_CASES 20000
#define STEP       7
#define MOST_RATIO 1.05

typedef struct job {
    simulated_platform os;
    engine *engine;
    store *disk, *seen;
    uint64_t data_bytes; /* read of data files */
    pawl_run *run;
    char tag[FORMAT_TAG_CHARS], directory[32];
} job;

/* Of all restores of large tensors, by all processes. */
typedef struct reading_ratio {
    _Atomic uint64_t read, needed;
    _Atomic double most;
} reading_ratio;

static void count_read(void *context, const store_trace_event *event) {
    job *j = context;
    if (event->op == STORE_OP_READ && strstr(event->path, "/data-") != NULL) {
        j->data_bytes += event->bytes;
    }
}

static void job_begin(job *j) {
    struct pawl_error err = ERROR_INIT;
    const pawl_run_options options = {.struct_size = sizeof(options), .no_event_file = 1};
    store *given;
    proof_must(store_mem(&j->disk, &err), &err);
    proof_must(store_trace_wrap(j->disk, &j->os.table, count_read, j, &j->seen, &err), &err);
    proof_must(store_trace_wrap(j->seen, &j->os.table, NULL, NULL, &given, &err), &err);
    proof_must(run_open(given, &options, &j->os.table, &j->run, &err), &err);
    snprintf(j->tag, sizeof(j->tag), "%s-1", owner_attempt(j->run->owner));
    name_step(j->directory, STEP);
    proof_must(store_make_dir(j->disk, j->directory, &err), &err);
}

static void job_end(job *j) {
    struct pawl_error err = ERROR_INIT;
    proof_must(run_close(j->run, 0, &err), &err);
    store_destroy(j->seen);
    store_destroy(j->disk);
}

/* ---- saving --------------------------------------------------------------------------------- */

/* What a rank would know, as far as votes need it. */
static job_ranks ranks_of(const job *j, int rank, int world_size) {
    job_ranks ranks = {
        .store = j->seen, .platform = &j->os.table, .rank = rank, .world_size = world_size};
    snprintf(ranks.attempt, sizeof(ranks.attempt), "%s", owner_attempt(j->run->owner));
    return ranks;
}

static void vote_of(const job *j, int rank, int world_size, const rank_part *part, votes *v) {
    struct pawl_error err = ERROR_INIT;
    index_layout *entries = NULL;
    structure_left left = {.bytes = 0};
    job_ranks ranks = ranks_of(j, rank, world_size);
    proof_must(index_layout_open(part->layout, &entries, &err), &err);
    const index_input input = {.entries = index_layout_source(entries),
                               .files = part->files,
                               .file_count = part->layout->file_count};
    const ballot b = {.directory = j->directory,
                      .tag = j->tag,
                      .step = STEP,
                      .layout = part->layout,
                      .input = &input,
                      .left = &left};
    proof_must(rank == 0 ? vote_keep(&ranks, &b, &v->own, &err) : vote_cast(&ranks, &b, &err),
               &err);
    index_layout_close(entries);
}

static void save_rank(job *j, const reshard_case *c, int rank, votes *v, test_random *random) {
    AUTOFREE reshard_rank *r = mem_calloc(1, sizeof(*r));
    rank_part part;
    const plan_layout_options options = {.tag = j->tag, .rank = rank, .world_size = c->from.ranks};
    reshard_rank_make(r, c, &c->from, rank, true, random);
    rank_part_write(j->engine, j->seen, j->directory, r->state, STEP, &options, &part);
    vote_of(j, rank, c->from.ranks, &part, v);
    rank_part_free(&part);
    reshard_rank_free(r);
}

/* Rank 0: from all votes to the checkpoint. */
static pawl_status commit(job *j, int world_size, votes *v, pawl_error *err) {
    job_ranks ranks = ranks_of(j, 0, world_size);
    merge *m = NULL;
    TRY(votes_begin(&ranks, j->tag, v, err));
    for (int rank = 1; rank < world_size; rank++) {
        TRY(vote_read_head(j->seen, j->directory, j->tag, rank, &v->memory, &v->heads[rank], err));
        v->came[rank] = 1;
    }
    TRY(votes_agree(&ranks, v, STEP, j->tag, err));
    CLEANUP(manifest_free)
    manifest made = {.version = FORMAT_VERSION,
                     .step = STEP,
                     .world_size = world_size,
                     .attempt = ranks.attempt,
                     .framework = "",
                     .writer = "pawl " PAWL_VERSION};
    TRY(votes_manifest_files(world_size, v, &made, err));
    const merge_input in = {.store = j->seen,
                            .directory = j->directory,
                            .tag = j->tag,
                            .votes = v,
                            .world_size = world_size};
    TRY(merge_open(&in, &m, err));
    const index_writer index = {.context = m, .write = merge_write};
    pawl_status status = commit_publish(j->run, j->directory, j->tag, &made, &index, err);
    merge_close(m);
    return status;
}

static pawl_status save(job *j, const reshard_case *c, test_random *random, pawl_error *err) {
    CLEANUP(votes_free) votes v = {.heads = NULL};
    for (int rank = 0; rank < c->from.ranks; rank++) {
        save_rank(j, c, rank, &v, random);
    }
    return commit(j, c->from.ranks, &v, err);
}

/* ---- how much has to be read ---------------------------------------------------------------- */

/* One bit for each block of each data file. */
typedef struct block_marks {
    const manifest *files;
    uint8_t **marks;
    uint64_t bytes;
} block_marks;

static void marks_begin(block_marks *b, const pawl_checkpoint *c) {
    const manifest *m = &((const native_source *)c->source)->manifest;
    *b = (block_marks){.files = m};
    b->marks = mem_calloc(m->file_count, sizeof(uint8_t *));
    for (size_t i = 0; i < m->file_count; i++) {
        b->marks[i] = mem_calloc(m->files[i].bytes / FORMAT_BLOCK_BYTES + 1, 1);
    }
}

static void marks_end(block_marks *b) {
    for (size_t i = 0; i < b->files->file_count; i++) {
        mem_free(b->marks[i]);
    }
    mem_free(b->marks);
}

static void mark(block_marks *b, uint32_t file, uint64_t from, uint64_t end) {
    for (uint64_t k = from / FORMAT_BLOCK_BYTES; k * FORMAT_BLOCK_BYTES < end; k++) {
        uint64_t left = b->files->files[file].bytes - k * FORMAT_BLOCK_BYTES;
        if (b->marks[file][k] == 0) {
            b->marks[file][k] = 1;
            b->bytes += left < FORMAT_BLOCK_BYTES ? left : FORMAT_BLOCK_BYTES;
        }
    }
}

static void mark_wanted(block_marks *b, const record_entry *entry, const box *wanted) {
    uint64_t bits = (uint64_t)pawl_dtype_bits(entry->dtype);
    for (size_t i = 0; i < entry->piece_count; i++) {
        const record_piece *piece = &entry->pieces[i];
        box whole = box_of(entry->ndim, piece->box_offset, piece->box_extent);
        box part;
        uint64_t first = 0;
        uint64_t count = 0;
        if (box_elements(wanted) == 0 || !box_intersect(wanted, &whole, &part)) {
            continue;
        }
        box_runs runs = box_runs_of(&part, &whole);
        while (box_runs_next(&runs, &first, &count)) {
            mark(b, piece->file, piece->offset + first * bits / 8,
                 piece->offset + (first + count) * bits / 8);
        }
    }
}

/* Bytes of the blocks that hold what the rank wants. */
static uint64_t needed_bytes(pawl_checkpoint *c, const reshard_case *all, const reshard_rank *r) {
    struct pawl_error err = ERROR_INIT;
    pawl_entries *walk = NULL;
    const record_entry *entry = NULL;
    block_marks marks;
    marks_begin(&marks, c);
    proof_must(entries_open(c, "t", &walk, &err), &err);
    for (;;) {
        proof_must(entries_next_record(walk, &entry, &err), &err);
        if (entry == NULL) {
            break;
        }
        for (size_t i = 0; i < r->held_count; i++) {
            if (strcmp(all->tensors[r->held[i].tensor].name, entry->name) == 0) {
                mark_wanted(&marks, entry, &r->held[i].part);
            }
        }
    }
    pawl_entries_free(walk);
    marks_end(&marks);
    return marks.bytes;
}

/* ---- restoring ------------------------------------------------------------------------------ */

/* Its own where it was saved, what it had otherwise. */
static bool has_right_values(const reshard_rank *r, const reshard_case *c, int rank) {
    struct pawl_error err = ERROR_INIT;
    char wanted[32];
    int64_t step;
    bool own = rank < c->from.ranks;
    const state_entry *entry = state_find(r->state, "step");
    memcpy(&step, entry->value, sizeof(step));
    if (step != STEP) {
        return false;
    }
    if (c->large) {
        return true;
    }
    proof_must(state_get_value(r->state, "seed", PAWL_KIND_BYTES, &entry, &err), &err);
    int n = snprintf(wanted, sizeof(wanted), "%s %d", own ? "saved by" : "of", rank);
    return entry->value_bytes == (size_t)n && memcmp(entry->value, wanted, (size_t)n) == 0;
}

/* Was no more read than may be? */
static bool note_ratio(reading_ratio *ratio, uint64_t read, uint64_t needed) {
    double one = needed > 0 ? (double)read / (double)needed : read > 0 ? 99 : 1;
    double most = ratio->most;
    ratio->read += read;
    ratio->needed += needed;
    while (one > most && !atomic_compare_exchange_weak(&ratio->most, &most, one)) {
    }
    return one <= MOST_RATIO;
}

/* NULL, or what is wrong. */
static const char *restore_rank(job *j, pawl_checkpoint *checkpoint, const reshard_case *c,
                                int rank, test_random *random, reading_ratio *ratio,
                                pawl_error *err) {
    const pawl_restore_options options = {.struct_size = sizeof(options),
                                          .unexpected = PAWL_POLICY_ALLOW,
                                          .per_rank = PAWL_POLICY_ALLOW,
                                          .share_on_node = (int)random_below(random, 2)};
    AUTOFREE reshard_rank *r = mem_calloc(1, sizeof(*r));
    reshard_rank_make(r, c, &c->to, rank, false, random);
    uint64_t before = j->data_bytes;
    const char *wrong = NULL;
    if (checkpoint_restore(checkpoint, r->state, &options, rank, c->to.ranks, NULL, err) !=
        PAWL_OK) {
        wrong = "was not restored";
    } else if (reshard_rank_differs(r, c) != NULL) {
        wrong = "has other bytes";
    } else if (!has_right_values(r, c, rank)) {
        wrong = "has other values";
    } else if (c->large && options.share_on_node == 0) {
        uint64_t needed = needed_bytes(checkpoint, c, r);
        wrong = note_ratio(ratio, j->data_bytes - before, needed) ? NULL : "read too much";
    }
    reshard_rank_free(r);
    return wrong;
}

static const char *restore_all(job *j, const reshard_case *c, test_random *random,
                               reading_ratio *ratio, int *rank, pawl_error *err) {
    const pawl_log silent = {0};
    pawl_checkpoint *checkpoint = NULL;
    const char *wrong = NULL;
    if (checkpoint_open(j->seen, false, STEP, &j->os.table, &silent, &checkpoint, err) != PAWL_OK) {
        return "cannot be opened";
    }
    for (*rank = 0; *rank < c->to.ranks && wrong == NULL; ++*rank) {
        wrong = restore_rank(j, checkpoint, c, *rank, random, ratio, err);
    }
    pawl_checkpoint_close(checkpoint);
    return wrong;
}

typedef struct trial {
    proof *p;
    reading_ratio *ratio;
    job j;
} trial;

static bool try_case(void *context, uint64_t part) {
    struct pawl_error err = ERROR_INIT;
    trial *t = context;
    uint64_t seed = part + 1;
    test_random random = {.state = seed};
    AUTOFREE reshard_case *c = mem_calloc(1, sizeof(*c));
    int rank = 0;
    reshard_case_make(c, seed);
    job_begin(&t->j);
    const char *wrong = "was not committed";
    if (save(&t->j, c, &random, &err) == PAWL_OK) {
        wrong = restore_all(&t->j, c, &random, t->ratio, &rank, &err);
    }
    proof_case(t->p, wrong == NULL, "%d ranks to %d: rank %d %s\n%s", c->from.ranks, c->to.ranks,
               rank - 1, wrong != NULL ? wrong : "", error_text(&err));
    job_end(&t->j);
    reshard_case_free(c);
    return true;
}

int main(int argc, char **argv) {
    struct pawl_error err = ERROR_INIT;
    proof_options arguments = proof_parse(argc, argv);
    static trial t;
    t.p = proof_new("any layout on ranks into any other");
    t.ratio = proof_shared(sizeof(*t.ratio));
    simulated_platform_init(&t.j.os, 1);
    const engine_options options = {.platform = &t.j.os.table, .budget_bytes = ENGINE_MIN_BUDGET};
    proof_must(engine_new(&options, &t.j.engine, &err), &err);
    const proof_parts parts = {.counts = t.p,
                               .count = arguments.full ? FULL_CASES : CASES,
                               .attempt = try_case,
                               .context = &t};
    proof_try_parts(&arguments, &parts);
    proof_must(engine_free(t.j.engine, 0, &err), &err);
    snprintf(t.p->note, sizeof t.p->note, "over 1 MiB: bytes read / needed %.4f, at most %.4f",
             t.ratio->needed > 0 ? (double)t.ratio->read / (double)t.ratio->needed : 1,
             t.ratio->most);
    return proof_end(t.p);
}
