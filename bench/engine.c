/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pawl as bench.py drives it: one process that holds a state, reads commands from standard input,
 * one a line, and answers each with one line of JSON. It uses the library as any trainer does. The
 * workers of bench/peers speak the same language.
 *
 *   state LIST SEED              the tensors of a list (load_open in bench.h), with random bits
 *   open RUN BUDGET_MIB IO       opens a run for writing, and selects it; 0: the default budget;
 *                                IO: auto, uring, threads or buffered
 *   ready RUN BUDGET_MIB IO      the same, with budget_ready
 *   select RUN                   which of the open runs the next commands use
 *   save STEP now|late           saves, with the fence at once, or after the save has ended
 *   remove STEP
 *   close
 *   scramble                     zeroes the tensors
 *   restore RUN                  the newest checkpoint into the tensors
 *   same                         do they have the bits that `state` gave them?
 *   find RUN NAME                opens the newest checkpoint and finds one entry
 *   memcpy                       the same tensors, copied to other memory
 *   syncs DIRECTORY STEP BYTES   the files and syncs of one save with so many bytes of payload
 *
 * Extra memory is the peak of the resident set during a command above what it was before `open` (or
 * before `restore`).
 */
#include "bench.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_WORDS 4
#define MAX_RUNS  4
#define MIB       ((size_t)1 << 20)

typedef struct open_run {
    char path[1024];
    pawl_run *run;
} open_run;

typedef struct world {
    load load;
    open_run runs[MAX_RUNS];
    open_run *selected;
    pawl_error *err;
    long before_open_kib;
} world;

void fail(const char *format, ...) {
    char text[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (char *c = text; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\') {
            *c = '\'';
        } else if ((unsigned char)*c < ' ') {
            *c = ' ';
        }
    }
    printf("{\"error\": \"%s\"}\n", text);
    fflush(stdout);
    exit(EXIT_FAILURE);
}

double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void must(const world *w, pawl_status status) {
    if (status != PAWL_OK) {
        fail("%s", pawl_error_text(w->err));
    }
}

/* Of all threads of the process, those that ended too. */
static double processor_s(void) {
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

/* ---- memory --------------------------------------------------------------------------------- */

static long status_kib(const char *field) {
    char line[256];
    long kib = -1;
    FILE *file = fopen("/proc/self/status", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, field, strlen(field)) == 0) {
            kib = strtol(line + strlen(field), NULL, 10);
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return kib;
}

/* Returns the resident memory, and resets VmHWM, its peak. */
static long begin_peak(void) {
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (file != NULL) {
        fputs("5\n", file);
        fclose(file);
    }
    return status_kib("VmRSS:");
}

static long extra_bytes(long before_kib) {
    return (status_kib("VmHWM:") - before_kib) * 1024;
}

/* ---- commands ------------------------------------------------------------------------------- */

static void do_state(world *w, char **words) {
    load_close(&w->load);
    load_open(&w->load, words[0], strtoull(words[1], NULL, 10), w->err);
    printf("{\"bytes\": %llu, \"entries\": %zu}\n", (unsigned long long)w->load.bytes,
           w->load.count);
}

static pawl_io io_of(const char *name) {
    static const char *const names[] = {"auto", "uring", "threads", "buffered"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i]) == 0) {
            return (pawl_io)i;
        }
    }
    fail("no I/O is called %s", name);
}

/* An empty path: nothing is open there. */
static void select_run(world *w, const char *path) {
    for (size_t i = 0; i < MAX_RUNS; i++) {
        if (strcmp(w->runs[i].path, path) == 0) {
            w->selected = &w->runs[i];
            return;
        }
    }
    fail("no run is open at %s, or too many are", path);
}

static pawl_run *run_of(const world *w) {
    if (w->selected == NULL || w->selected->run == NULL) {
        fail("no run is open");
    }
    return w->selected->run;
}

static void open_run_at(world *w, char **words, int budget_ready) {
    const pawl_run_options options = {.struct_size = sizeof options,
                                      .framework = "pawl bench",
                                      .budget_bytes = strtoull(words[1], NULL, 10) * MIB,
                                      .io = io_of(words[2]),
                                      .budget_ready = budget_ready};
    select_run(w, "");
    snprintf(w->selected->path, sizeof w->selected->path, "%s", words[0]);
    w->before_open_kib = begin_peak();
    must(w, pawl_run_open(words[0], &options, &w->selected->run, w->err));
    printf("{}\n");
}

static void do_open(world *w, char **words) {
    open_run_at(w, words, 0);
}

static void do_ready(world *w, char **words) {
    open_run_at(w, words, 1);
}

static void do_select(world *w, char **words) {
    select_run(w, words[0]);
    printf("{}\n");
}

static void print_stats(const pawl_save_stats *stats) {
    printf("\"file_bytes\": %llu, \"files\": %llu, \"total_s\": %.6f, \"prepare_s\": %.6f, "
           "\"write_s\": %.6f, \"sync_s\": %.6f, \"commit_s\": %.6f, \"fence_copy_s\": %.6f, "
           "\"fence_wait_s\": %.6f, \"fence_copied_bytes\": %llu, \"budget_bytes\": %zu, "
           "\"budget_wanted_bytes\": %llu, \"retries\": %llu, \"io\": \"%s\"",
           (unsigned long long)stats->bytes, (unsigned long long)stats->files, stats->total_s,
           stats->prepare_s, stats->write_s, stats->sync_s, stats->commit_s, stats->fence_copy_s,
           stats->fence_wait_s, (unsigned long long)stats->fence_copied_bytes, stats->budget_bytes,
           (unsigned long long)stats->budget_wanted_bytes, (unsigned long long)stats->retries,
           stats->io != NULL ? stats->io : "");
}

static void do_save(world *w, char **words) {
    bool at_once = strcmp(words[1], "now") == 0;
    double fence_s = 0;
    pawl_save_stats stats = {.struct_size = sizeof stats};
    pawl_run *run = run_of(w);
    begin_peak();
    double began = now_s();
    must(w, pawl_save(run, w->load.state, strtoll(words[0], NULL, 10), NULL, w->err));
    double save_s = now_s() - began;
    if (at_once) {
        must(w, pawl_fence(run, 0, w->err));
        fence_s = now_s() - began - save_s;
    }
    must(w, pawl_wait(run, 0, &stats, w->err));
    double durable_s = now_s() - began;
    if (!at_once) {
        must(w, pawl_fence(run, 0, w->err));
        fence_s = now_s() - began - durable_s;
    }
    printf("{\"stall_s\": %.9f, \"save_s\": %.9f, \"fence_s\": %.9f, \"durable_s\": %.6f, "
           "\"extra_bytes\": %ld, ",
           save_s + fence_s, save_s, fence_s, durable_s, extra_bytes(w->before_open_kib));
    print_stats(&stats);
    printf("}\n");
}

static void do_remove(world *w, char **words) {
    must(w, pawl_run_remove(run_of(w), strtoll(words[0], NULL, 10), 1, w->err));
    printf("{}\n");
}

static void do_close(world *w, char **words) {
    (void)words;
    pawl_run *run = run_of(w);
    *w->selected = (open_run){0};
    must(w, pawl_run_close(run, 0, w->err));
    printf("{}\n");
}

static void do_scramble(world *w, char **words) {
    (void)words;
    load_scramble(&w->load);
    printf("{}\n");
}

static void do_restore(world *w, char **words) {
    pawl_checkpoint *checkpoint;
    pawl_read_stats reads = {.struct_size = sizeof reads};
    long before_kib = begin_peak();
    double used = processor_s();
    double began = now_s();
    must(w, pawl_checkpoint_open(words[0], NULL, &checkpoint, w->err));
    must(w, pawl_checkpoint_restore(checkpoint, w->load.state, NULL, NULL, w->err));
    double seconds = now_s() - began;
    used = processor_s() - used;
    must(w, pawl_checkpoint_reads(checkpoint, &reads, w->err));
    pawl_checkpoint_close(checkpoint);
    printf("{\"seconds\": %.6f, \"processor_s\": %.6f, \"extra_bytes\": %ld, \"reads\": %llu, "
           "\"read_bytes\": %llu}\n",
           seconds, used, extra_bytes(before_kib), (unsigned long long)reads.reads,
           (unsigned long long)reads.bytes);
}

static void do_same(world *w, char **words) {
    (void)words;
    printf("{\"same\": %s}\n", load_same(&w->load) ? "true" : "false");
}

static void do_find(world *w, char **words) {
    pawl_checkpoint *checkpoint;
    pawl_entry_info entry = {.struct_size = sizeof entry};
    pawl_read_stats reads = {.struct_size = sizeof reads};
    double began = now_s();
    must(w, pawl_checkpoint_open(words[0], NULL, &checkpoint, w->err));
    double open_s = now_s() - began;
    must(w, pawl_checkpoint_find(checkpoint, words[1], &entry, w->err));
    double find_s = now_s() - began - open_s;
    must(w, pawl_checkpoint_reads(checkpoint, &reads, w->err));
    pawl_checkpoint_close(checkpoint);
    printf("{\"open_s\": %.6f, \"find_s\": %.6f, \"read_bytes\": %llu}\n", open_s, find_s,
           (unsigned long long)reads.bytes);
}

static void do_memcpy(world *w, char **words) {
    (void)words;
    printf("{\"seconds\": %.9f}\n", load_memcpy(&w->load));
}

static void do_syncs(world *w, char **words) {
    (void)w;
    int step = (int)strtol(words[1], NULL, 10);
    size_t payload = (size_t)strtoull(words[2], NULL, 10);
    printf("{\"seconds\": %.9f}\n", syncs_of_a_save(words[0], step, payload));
}

static const struct command {
    const char *name;
    size_t words;
    void (*run)(world *w, char **words);
} commands[] = {
    {"select", 1, do_select}, {"state", 2, do_state},       {"open", 3, do_open},
    {"save", 2, do_save},     {"remove", 1, do_remove},     {"close", 0, do_close},
    {"ready", 3, do_ready},   {"scramble", 0, do_scramble}, {"restore", 1, do_restore},
    {"same", 0, do_same},     {"find", 2, do_find},         {"memcpy", 0, do_memcpy},
    {"syncs", 3, do_syncs},
};

static void obey(world *w, char *line) {
    char *words[MAX_WORDS + 1];
    char *rest = NULL;
    size_t count = 0;
    for (char *word = strtok_r(line, " \n", &rest); word != NULL && count <= MAX_WORDS;
         word = strtok_r(NULL, " \n", &rest)) {
        words[count++] = word;
    }
    for (size_t i = 0; count > 0 && i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(words[0], commands[i].name) == 0 && count == commands[i].words + 1) {
            commands[i].run(w, words + 1);
            fflush(stdout);
            return;
        }
    }
    fail("no such command, or not with so many words: %s", count > 0 ? words[0] : "");
}

int main(void) {
    char line[8192];
    world w = {.err = pawl_error_new()};
    while (w.err != NULL && fgets(line, sizeof line, stdin) != NULL) {
        obey(&w, line);
    }
    for (size_t i = 0; i < MAX_RUNS; i++) {
        if (w.runs[i].run != NULL && pawl_run_close(w.runs[i].run, 0, w.err) != PAWL_OK) {
            fprintf(stderr, "%s\n", pawl_error_text(w.err));
        }
    }
    load_close(&w.load);
    pawl_error_free(w.err);
    return EXIT_SUCCESS;
}
