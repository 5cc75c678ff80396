/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fail the n-th: each storage operation of a run's life once with EIO, ENOSPC, EACCES and once
 * moving only half of its bytes; each allocation once. Every time: a clear error or none at all,
 * nothing leaked, the older checkpoint intact, the new one whole or absent, and the next save
 * succeeds (S03, S07, S08).
 */
#include "lib/failing_memory.h"
#include "lib/simulated_platform.h"
#include "proofs/proof.h"
#include "stores/stores.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct world {
    store *disk, *fault;
    simulated_platform os;
    proof_state first, second, third, later; /* made before anything fails */
    bool acknowledged;                       /* the second state was saved: success was told */
} world;

static pawl_status open_run(world *w, pawl_run **run, pawl_error *err) {
    store *seen;
    const pawl_run_options options = {
        .struct_size = sizeof options,
        .retention = &(pawl_retention){.struct_size = sizeof(pawl_retention), .keep_last = 2}};
    TRY(store_trace_wrap(w->fault, &w->os.table, NULL, NULL, &seen, err));
    return run_open(seen, &options, &w->os.table, run, err);
}

static pawl_status save(pawl_run *run, int64_t step, const proof_state *ps, pawl_error *err) {
    const pawl_save_options options = {.struct_size = sizeof options};
    TRY(run_save(run, ps->state, step, &options, err));
    return run_wait(run, 1, NULL, err);
}

/* The life that faults strike: two saves, of which one replaces an older one of the same step. */
static pawl_status live(world *w, pawl_error *err) {
    pawl_run *run;
    struct pawl_error closing = ERROR_INIT;
    TRY(open_run(w, &run, err));
    pawl_status status = save(run, 20, &w->second, err);
    if (status == PAWL_OK) {
        w->acknowledged = true;
        status = save(run, 20, &w->third, err);
    }
    pawl_status closed = run_close(run, 1, &closing);
    if (status == PAWL_OK && closed != PAWL_OK) {
        *err = closing;
        return closed;
    }
    return status;
}

static void world_make(world *w) {
    struct pawl_error err = ERROR_INIT;
    pawl_run *run;
    memset(w, 0, sizeof *w);
    simulated_platform_init(&w->os, 9);
    w->os.others = PROCESS_DEAD;
    proof_state_make(&w->first, 1);
    proof_state_make(&w->second, 2);
    proof_state_make(&w->third, 3);
    proof_state_make(&w->later, 6);
    proof_must(store_mem(&w->disk, &err), &err);
    proof_must(store_fault_wrap(w->disk, &w->os.table, &w->fault, &err), &err);
    proof_must(open_run(w, &run, &err), &err);
    proof_must(save(run, 10, &w->first, &err), &err);
    proof_must(run_close(run, 1, &err), &err);
}

static void world_free(world *w) {
    proof_state_free(&w->first);
    proof_state_free(&w->second);
    proof_state_free(&w->third);
    proof_state_free(&w->later);
    store_destroy(w->fault);
    store_destroy(w->disk);
}

static int64_t content(world *w, int64_t step, pawl_error *err) {
    return proof_seed_of_step(w->disk, step, &w->os.table, err);
}

static const char *intact(world *w, bool succeeded, pawl_error *err) {
    pawl_run *run;
    if (content(w, 10, err) != 1) {
        return "the older checkpoint is damaged";
    }
    int64_t seed = content(w, 20, err);
    if (seed < 0 || (succeeded && seed != 3)) {
        return "the new checkpoint is neither whole nor absent";
    }
    if (w->acknowledged && seed == 0) {
        return "what was saved is gone after its replacement failed";
    }
    if (open_run(w, &run, err) != PAWL_OK) {
        return "the run cannot be opened again";
    }
    bool saved = save(run, 30, &w->later, err) == PAWL_OK;
    saved = run_close(run, 1, err) == PAWL_OK && saved;
    return saved && content(w, 30, err) == 6 ? NULL : "the next save does not work";
}

static const char *judge(world *w, pawl_status status, const pawl_error *story,
                         const char *must_say, pawl_error *err) {
    if (status != PAWL_OK && strlen(story->attempt) < 10) {
        return "the error says nothing";
    }
    if (status != PAWL_OK && must_say != NULL && strstr(story->system, must_say) == NULL) {
        return "the error lacks the system's words";
    }
    if (status != PAWL_OK && must_say != NULL && story->path[0] == '\0') {
        return "the error names no path";
    }
    return intact(w, status == PAWL_OK, err);
}

/* ---- storage -------------------------------------------------------------------------------- */

/* False when the life has fewer than `nth` operations. */
static bool try_operation(proof *p, const store_fault *plan, const char *must_say) {
    world w;
    struct pawl_error story = ERROR_INIT;
    struct pawl_error err = ERROR_INIT;
    uint64_t live_before = failing_memory_live();
    world_make(&w);
    store_fault_set(w.fault, plan);
    pawl_status status = live(&w, &story);
    bool fired = store_fault_fired(w.fault);
    const store_fault none = {0};
    store_fault_set(w.fault, &none);
    const char *wrong = judge(&w, status, &story, must_say, &err);
    world_free(&w);
    if (wrong == NULL && failing_memory_live() != live_before) {
        wrong = "memory leaked";
    }
    if (fired) {
        proof_case(p, wrong == NULL, "operation %llu, %s: %s\n%s\n%s",
                   (unsigned long long)plan->nth, must_say != NULL ? must_say : "short",
                   wrong != NULL ? wrong : "", error_text(&story), error_text(&err));
    }
    return fired;
}

static void try_every_operation(proof *p, int system_errno, const char *must_say) {
    for (uint64_t nth = 1;; nth++) {
        const store_fault plan = {.op = STORE_OP_ANY,
                                  .nth = nth,
                                  .system_errno = system_errno,
                                  .shorten = system_errno == 0};
        if (!try_operation(p, &plan, must_say)) {
            return;
        }
    }
}

/* From the n-th write on the disk is full, until someone makes room. */
static void try_full_disk(proof *p) {
    for (uint64_t nth = 1;; nth++) {
        const store_fault plan = {
            .op = STORE_OP_WRITE, .nth = nth, .system_errno = ENOSPC, .forever = true};
        if (!try_operation(p, &plan, "ENOSPC")) {
            return;
        }
    }
}

/* ---- memory --------------------------------------------------------------------------------- */

static bool try_allocation(proof *p, uint64_t nth) {
    world w;
    struct pawl_error story = ERROR_INIT;
    struct pawl_error err = ERROR_INIT;
    uint64_t live_before = failing_memory_live();
    world_make(&w);
    failing_memory_set(nth);
    pawl_status status = live(&w, &story);
    bool fired = failing_memory_fired();
    failing_memory_set(0);
    const char *wrong = judge(&w, status, &story, NULL, &err);
    if (wrong == NULL && fired && status != PAWL_OK && status != PAWL_ENOMEM) {
        wrong = "the error is not that memory ran out";
    }
    world_free(&w);
    if (wrong == NULL && failing_memory_live() != live_before) {
        wrong = "memory leaked";
    }
    if (fired) {
        proof_case(p, wrong == NULL, "allocation %llu: %s\n%s\n%s", (unsigned long long)nth,
                   wrong != NULL ? wrong : "", error_text(&story), error_text(&err));
    }
    return fired;
}

int main(void) {
    proof *operations = proof_new("each storage operation failed once");
    proof *full = proof_new("the disk full from each write on");
    proof *memory = proof_new("each allocation failed once");
    proof_keep_memory();
    try_every_operation(operations, EIO, "EIO");
    try_every_operation(operations, ENOSPC, "ENOSPC");
    try_every_operation(operations, EACCES, "EACCES");
    try_every_operation(operations, 0, NULL);
    try_full_disk(full);
    for (uint64_t nth = 1; try_allocation(memory, nth); nth++) {
    }
    int failed = proof_end(operations);
    failed |= proof_end(full);
    failed |= proof_end(memory);
    return failed;
}
