/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readers beside a writer that saves, saves again, removes and sweeps as fast as it can: the run
 * has a committed step at every instant, so each look has to find one, and what it finds has to be
 * whole, also while its step is removed (promises 1, 2 and 5).
 *
 * In memory readers are threads, and a look costs no system call; on tmpfs and on a disk they are
 * processes. Looks are counted by kind.
 */
#include "lib/random.h"
#include "path/path.h"
#include "proofs/proof.h"
#include "stores/stores.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ELEMENTS    5000 /* more than a block */
#define MOST        4    /* readers */
#define HELD_LOOKS  20   /* at one handle */
#define SAVES       40   /* of one owner */
#define FULL_LOOKS  10000000u
#define FULL_MOST_S 900.0 /* in memory */

typedef enum kind { LIST, NEWEST, STEP, VERIFY, VIEW, HELD, KINDS } kind;
static const char *const kind_names[KINDS] = {"lists",  "newest", "by step",
                                              "verify", "views",  "held"};

/* ---- what steps hold ------------------------------------------------------------------------ */

static void fill(float *w, int64_t step, int64_t generation) {
    for (int64_t i = 0; i < ELEMENTS; i++) {
        w[i] = (float)((step * 31 + generation * 17 + i) % 9973);
    }
    w[0] = (float)step;
    w[1] = (float)generation;
}

/* The elements from `first` on, of a tensor whose second element is `generation`. */
static bool are_of(const float *w, int64_t first, int64_t n, int64_t step, int64_t generation) {
    for (int64_t i = first; i < first + n; i++) {
        float wanted = (float)((step * 31 + generation * 17 + i) % 9973);
        wanted = i == 0 ? (float)step : i == 1 ? (float)generation : wanted;
        if (w[i - first] != wanted) {
            return false;
        }
    }
    return true;
}

static bool is_whole(const float *w, int64_t step) {
    return are_of(w, 0, ELEMENTS, step, (int64_t)w[1]);
}

/* ---- one reader ----------------------------------------------------------------------------- */

typedef struct counts {
    uint64_t looks[KINDS], wrong;
} counts;

typedef struct reader {
    store *store;
    const platform *os;
    test_random random;
    counts counts;
    float w[ELEMENTS];
    int64_t seen; /* a step that was there */
    pawl_checkpoint *held;
    int64_t held_step;
    int held_left;
    _Atomic uint64_t looked; /* of all kinds, for the writer's thread */
    const atomic_bool *stop;
    double seconds; /* or so long */
} reader;

static bool wrong(reader *r, const char *what, pawl_error *err) {
    if (r->counts.wrong++ < 5) {
        fprintf(stderr, "  WRONG: %s%s%s\n", what, err != NULL ? ": " : "",
                err != NULL ? error_text(err) : "");
    }
    return false;
}

static pawl_checkpoint *open_newest(reader *r) {
    struct pawl_error err = ERROR_INIT;
    pawl_checkpoint *c = NULL;
    if (checkpoint_open(r->store, false, CHECKPOINT_NEWEST, r->os, NULL, &c, &err) != PAWL_OK) {
        (void)wrong(r, "the newest does not open", &err);
        return NULL;
    }
    pawl_checkpoint_info about;
    checkpoint_describe(c, &about);
    r->seen = about.step;
    return c;
}

static void read_whole(reader *r, pawl_checkpoint *c) {
    struct pawl_error err = ERROR_INIT;
    pawl_checkpoint_info about;
    checkpoint_describe(c, &about);
    if (checkpoint_read(c, "w", NULL, NULL, r->w, sizeof r->w, &err) != PAWL_OK) {
        (void)wrong(r, "what is open does not read", &err);
    } else if (!is_whole(r->w, about.step)) {
        (void)wrong(r, "the bytes are not those of the step", NULL);
    }
}

static void list_all(reader *r) {
    struct pawl_error err = ERROR_INIT;
    pawl_catalog *catalog = NULL;
    size_t committed = 0;
    if (catalog_open(r->store, r->os, NULL, &catalog, &err) != PAWL_OK) {
        (void)wrong(r, "the run does not list", &err);
        return;
    }
    for (size_t i = 0; i < pawl_catalog_count(catalog); i++) {
        const pawl_step_info *info = pawl_catalog_get(catalog, i);
        committed += info->status == PAWL_STEP_COMMITTED;
        if (info->status == PAWL_STEP_DAMAGED) {
            (void)wrong(r, info->why, NULL);
        }
    }
    if (committed == 0) {
        (void)wrong(r, "a list without a committed step", NULL);
    }
    pawl_catalog_free(catalog);
}

static void look_at_newest(reader *r) {
    pawl_checkpoint *c = open_newest(r);
    if (c != NULL) {
        read_whole(r, c);
        pawl_checkpoint_close(c);
    }
}

/* It may be gone, or not be there yet. */
static void look_at_step(reader *r) {
    struct pawl_error err = ERROR_INIT;
    pawl_checkpoint *c = NULL;
    int64_t step = r->seen + (int64_t)random_below(&r->random, 3);
    pawl_status status = checkpoint_open(r->store, false, step, r->os, NULL, &c, &err);
    if (status == PAWL_OK) {
        read_whole(r, c);
        pawl_checkpoint_close(c);
    } else if (status != PAWL_ENOTFOUND) {
        (void)wrong(r, "a step neither opens nor is gone", &err);
    }
}

static void look_and_verify(reader *r) {
    struct pawl_error err = ERROR_INIT;
    pawl_verify_result result;
    pawl_checkpoint *c = open_newest(r);
    if (c != NULL && checkpoint_verify(c, NULL, &result, &err) != PAWL_OK) {
        (void)wrong(r, "what is open does not verify", &err);
    }
    pawl_checkpoint_close(c);
}

static void look_through_view(reader *r) {
    struct pawl_error err = ERROR_INIT;
    const void *bytes = NULL;
    pawl_view *v = NULL;
    pawl_checkpoint *c = open_newest(r);
    if (c == NULL) {
        return;
    }
    if (checkpoint_view_open(c, "w", 0, &v, &err) != PAWL_OK ||
        checkpoint_view_bytes(v, 0, sizeof r->w, &bytes, &err) != PAWL_OK) {
        (void)wrong(r, "what is open cannot be viewed", &err);
    } else if (!is_whole(bytes, r->seen)) {
        (void)wrong(r, "a view shows other bytes", NULL);
    }
    pawl_view_close(v);
    pawl_checkpoint_close(c);
}

/* One that stays open while others are looked at, and while its step goes. */
static void look_at_held(reader *r) {
    struct pawl_error err = ERROR_INIT;
    pawl_view *v = NULL;
    const void *bytes = NULL;
    if (r->held == NULL) {
        r->held = open_newest(r);
        r->held_step = r->seen;
        r->held_left = HELD_LOOKS;
    }
    if (r->held == NULL) {
        return;
    }
    if (checkpoint_view_open(r->held, "w", 0, &v, &err) != PAWL_OK ||
        checkpoint_view_bytes(v, 0, sizeof r->w, &bytes, &err) != PAWL_OK) {
        (void)wrong(r, "what is held open cannot be read", &err);
    } else if (!is_whole(bytes, r->held_step)) {
        (void)wrong(r, "what is held open has changed", NULL);
    }
    pawl_view_close(v);
    if (--r->held_left == 0) {
        pawl_checkpoint_close(r->held);
        r->held = NULL;
    }
}

static kind choose(reader *r) {
    uint64_t n = random_below(&r->random, 100);
    return n < 35 ? LIST : n < 60 ? NEWEST : n < 70 ? STEP : n < 75 ? VERIFY : n < 80 ? VIEW : HELD;
}

static void look_once(reader *r) {
    static void (*const looks[KINDS])(reader * r) = {
        list_all, look_at_newest, look_at_step, look_and_verify, look_through_view, look_at_held};
    kind k = choose(r);
    looks[k](r);
    r->counts.looks[k]++;
    atomic_fetch_add_explicit(&r->looked, 1, memory_order_relaxed);
}

static double now_s(void) {
    const platform *os = platform_system();
    return (double)os->monotonic_ns(os->context) / 1e9;
}

static void look_on(reader *r) {
    double end_s = now_s() + r->seconds;
    while (r->stop != NULL ? !atomic_load(r->stop) : now_s() < end_s) {
        look_once(r);
    }
    pawl_checkpoint_close(r->held);
    r->held = NULL;
}

/* ---- the writer ----------------------------------------------------------------------------- */

typedef struct writer {
    store *store; /* the runs' are made of it */
    const platform *os;
    pawl_state *state;
    float w[ELEMENTS];
    test_random random;
    pawl_run *run;
    int64_t step, generation, keep_last;
    uint64_t saves, removals, sweeps;
} writer;

static void writer_open(writer *w) {
    struct pawl_error err = ERROR_INIT;
    store *s;
    w->keep_last = w->keep_last == 1 ? 2 : 1;
    const pawl_run_options options = {
        .struct_size = sizeof options,
        .no_event_file = 1,
        .retention =
            &(pawl_retention){.struct_size = sizeof(pawl_retention), .keep_last = w->keep_last}};
    proof_must(store_trace_wrap(w->store, w->os, NULL, NULL, &s, &err), &err);
    proof_must(run_open(s, &options, w->os, &w->run, &err), &err);
}

static void writer_close(writer *w) {
    struct pawl_error err = ERROR_INIT;
    proof_must(run_close(w->run, 0, &err), &err);
}

static void save(writer *w, int64_t step, int64_t generation) {
    struct pawl_error err = ERROR_INIT;
    const pawl_save_options options = {.struct_size = sizeof options};
    w->step = step;
    w->generation = generation;
    fill(w->w, step, generation);
    proof_must(run_save(w->run, w->state, step, &options, &err), &err);
    proof_must(run_wait(w->run, 0, NULL, &err), &err);
    w->saves++;
}

/* The newest, where there is another one; unless somebody reads it, or that one. */
static void remove_newest(writer *w) {
    struct pawl_error err = ERROR_INIT;
    pawl_status status = run_remove(w->run, w->step, false, &err);
    w->removals += status == PAWL_OK;
    if (status != PAWL_OK && status != PAWL_EBUSY) {
        proof_must(status, &err);
    }
}

static void write_on(writer *w, int saves) {
    writer_open(w);
    for (int i = 0; i < saves; i++) {
        struct pawl_error err = ERROR_INIT;
        uint64_t n = random_below(&w->random, 20);
        if (n < 3) {
            save(w, w->step, w->generation + 1);
        } else {
            save(w, w->step + 1, 0);
        }
        if (n == 19) {
            remove_newest(w);
        } else if (n == 18) {
            proof_must(run_gc(w->run, false, NULL, NULL, &err), &err);
            w->sweeps++;
        }
    }
    writer_close(w);
}

static void writer_begin(writer *w, store *s, const platform *os) {
    static const int64_t shape[] = {ELEMENTS};
    struct pawl_error err = ERROR_INIT;
    const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                .name = "w",
                                .dtype = PAWL_F32,
                                .ndim = 1,
                                .shape = shape,
                                .data = w->w};
    w->store = s;
    w->os = os;
    w->step = 0;
    w->random.state = 7;
    proof_must(state_new(&w->state, &err), &err);
    proof_must(state_add_tensor(w->state, &tensor, &err), &err);
    write_on(w, 1);
}

/* ---- a writer and its readers --------------------------------------------------------------- */

typedef struct total {
    counts counts;
    uint64_t looks;
} total;

static void add(total *t, const counts *c) {
    for (int k = 0; k < KINDS; k++) {
        t->counts.looks[k] += c->looks[k];
        t->looks += c->looks[k];
    }
    t->counts.wrong += c->wrong;
}

static void tell(const char *where, int readers, const total *t, const writer *w, double seconds) {
    fprintf(stderr, "  %s, %d %s: %llu looks in %.0f s, %llu wrong; %llu saves, %llu removals\n",
            where, readers, readers == 1 ? "reader" : "readers", (unsigned long long)t->looks,
            seconds, (unsigned long long)t->counts.wrong, (unsigned long long)w->saves,
            (unsigned long long)w->removals);
}

static pawl_status same_identity(void *context, process_identity *out, pawl_error *err) {
    (void)err;
    *out = *(process_identity *)context;
    return PAWL_OK;
}

static liveness alive(void *context, const process_identity *who) {
    (void)context;
    (void)who;
    return PROCESS_ALIVE;
}

static void *look_in_thread(void *context) {
    look_on(context);
    return NULL;
}

/* Who a process is it learns from many files: here each look would ask. */
static platform platform_in_memory(process_identity *self) {
    struct pawl_error err = ERROR_INIT;
    platform os = *platform_system();
    proof_must(os.identity(os.context, self, &err), &err);
    return os;
}

typedef struct memory_platform {
    platform table;
    process_identity self;
} memory_platform;

static uint64_t clock_now(void *context) {
    (void)context;
    const platform *os = platform_system();
    return os->monotonic_ns(os->context);
}

static int64_t unix_now(void *context) {
    (void)context;
    const platform *os = platform_system();
    return os->unix_time_ns(os->context);
}

static void memory_platform_make(memory_platform *m) {
    m->table = platform_in_memory(&m->self);
    m->table.monotonic_ns = clock_now;
    m->table.unix_time_ns = unix_now;
    m->table.identity = same_identity;
    m->table.process_alive = alive;
    m->table.context = &m->self;
}

static void beside_in_memory(total *all, int readers, uint64_t wanted, double seconds) {
    static writer w;
    static reader r[MOST];
    pthread_t threads[MOST];
    struct pawl_error err = ERROR_INIT;
    atomic_bool stop = false;
    total t = {0};
    store *disk;
    memory_platform os;
    memset(&w, 0, sizeof w);
    memory_platform_make(&os);
    proof_must(store_mem(&disk, &err), &err);
    writer_begin(&w, disk, &os.table);
    double begun_s = now_s();
    for (int i = 0; i < readers; i++) {
        r[i] = (reader){
            .store = disk, .os = &os.table, .random = {.state = (uint64_t)i + 1}, .stop = &stop};
        if (pthread_create(&threads[i], NULL, look_in_thread, &r[i]) != 0) {
            abort();
        }
    }
    for (uint64_t looks = 0; looks < wanted && now_s() - begun_s < seconds;) {
        write_on(&w, SAVES);
        looks = 0;
        for (int i = 0; i < readers; i++) {
            looks += atomic_load(&r[i].looked);
        }
    }
    atomic_store(&stop, true);
    for (int i = 0; i < readers; i++) {
        pthread_join(threads[i], NULL);
        add(&t, &r[i].counts);
    }
    tell("in memory", readers, &t, &w, now_s() - begun_s);
    add(all, &t.counts);
    state_free(w.state);
    store_destroy(disk);
}

static void read_in_process(const char *path, int number, double seconds, int to) {
    static reader r;
    struct pawl_error err = ERROR_INIT;
    r = (reader){
        .os = platform_system(), .random = {.state = (uint64_t)number + 1}, .seconds = seconds};
    proof_must(path_open(path, false, &r.store, &err), &err);
    look_on(&r);
    store_destroy(r.store);
    _exit(write(to, &r.counts, sizeof r.counts) == sizeof r.counts ? 0 : 1);
}

static void beside_in(total *all, const char *where, const char *base, int readers,
                      double seconds) {
    static writer w;
    char path[256];
    int ends[2];
    struct pawl_error err = ERROR_INIT;
    total t = {0};
    store *disk;
    snprintf(path, sizeof path, "%s/proof-looks-XXXXXX", base);
    if (mkdtemp(path) == NULL || pipe(ends) != 0) {
        perror("a place for the run");
        abort();
    }
    memset(&w, 0, sizeof w);
    proof_must(path_open(path, true, &disk, &err), &err);
    writer_begin(&w, disk, platform_system());
    double begun_s = now_s();
    for (int i = 0; i < readers; i++) {
        if (fork() == 0) {
            read_in_process(path, i, seconds, ends[1]);
        }
    }
    while (now_s() - begun_s < seconds) {
        write_on(&w, SAVES);
    }
    for (int i = 0; i < readers; i++) {
        counts c;
        int status;
        bool ended = wait(&status) > 0 && status == 0;
        if (!ended || read(ends[0], &c, sizeof c) != sizeof c) {
            c = (counts){.wrong = 1};
        }
        add(&t, &c);
    }
    tell(where, readers, &t, &w, now_s() - begun_s);
    add(all, &t.counts);
    state_free(w.state);
    store_destroy(disk);
    close(ends[0]);
    close(ends[1]);
    proof_remove_tree(path);
}

int main(int argc, char **argv) {
    bool full = argc > 1 && strcmp(argv[1], "--full") == 0;
    proof *p = proof_new("looks of readers beside a writer");
    double seconds = full ? 30 : 1;
    total all = {0};
    proof_keep_memory();
    if (access("/dev/shm", W_OK) == 0) {
        beside_in(&all, "on tmpfs", "/dev/shm", 1, seconds);
        beside_in(&all, "on tmpfs", "/dev/shm", MOST, seconds);
    }
    beside_in(&all, "on a disk", ".", 1, seconds);
    beside_in(&all, "on a disk", ".", MOST, seconds);
    uint64_t left = full && all.looks < FULL_LOOKS ? FULL_LOOKS - all.looks : 0;
    beside_in_memory(&all, 1, full ? left / 2 : UINT64_MAX, full ? FULL_MOST_S / 2 : seconds);
    left = full && all.looks < FULL_LOOKS ? FULL_LOOKS - all.looks : 0;
    beside_in_memory(&all, MOST, full ? left : UINT64_MAX, full ? FULL_MOST_S : seconds);
    p->tried = all.looks;
    p->lost = all.counts.wrong;
    size_t at = 0;
    for (int k = 0; k < KINDS && at < sizeof p->note; k++) {
        at += (size_t)snprintf(p->note + at, sizeof p->note - at, "%s%llu %s", k > 0 ? ", " : "",
                               (unsigned long long)all.counts.looks[k], kind_names[k]);
    }
    return proof_end(p);
}
