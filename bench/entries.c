/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How cost grows with the number of entries: saves N tiny tensors, then opens the checkpoint, finds
 * one entry, walks all, verifies, restores, and compares; prints milliseconds, bytes read and peak
 * memory.
 *
 *     bench_entries [ENTRIES [DIRECTORY]]      default: 1000000, a new directory here, removed at
 *     the end
 */
#include <pawl/pawl.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define FLOATS 4

static pawl_error *err;

static void must(pawl_status status) {
    if (status != PAWL_OK) {
        fprintf(stderr, "%s\n", pawl_error_text(err));
        exit(EXIT_FAILURE);
    }
}

static double now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static double peak_mib(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss / 1024;
}

static void row(const char *what, double began_ms, pawl_read_stats before, pawl_read_stats after) {
    printf("%-24s %10.2f ms %14llu bytes read %8llu reads %8.0f MiB peak\n", what,
           now_ms() - began_ms, (unsigned long long)(after.bytes - before.bytes),
           (unsigned long long)(after.reads - before.reads), peak_mib());
    fflush(stdout);
}

static void name_of(char out[64], size_t i) {
    snprintf(out, 64, "model/block%03zu/tensor%07zu", i % 1000, i);
}

static pawl_state *make_state(float *memory, size_t entries) {
    static const int64_t shape[] = {FLOATS};
    pawl_state *state;
    must(pawl_state_new(&state, err));
    for (size_t i = 0; i < entries; i++) {
        char name[64];
        name_of(name, i);
        const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                    .name = name,
                                    .dtype = PAWL_F32,
                                    .ndim = 1,
                                    .shape = shape,
                                    .data = memory + i * FLOATS};
        must(pawl_state_add_tensor(state, &tensor, err));
    }
    return state;
}

static void save(const char *path, pawl_state *state) {
    pawl_run *run;
    pawl_save_stats stats;
    const pawl_read_stats none = {0};
    double began = now_ms();
    must(pawl_run_open(path, NULL, &run, err));
    must(pawl_save(run, state, 1, NULL, err));
    must(pawl_wait(run, 0, &stats, err));
    row("save, durable", began, none, none);
    must(pawl_run_close(run, 0, err));
}

static void look(const char *path, size_t entries) {
    const pawl_read_stats none = {0};
    pawl_checkpoint *checkpoint;
    pawl_checkpoint_info info;
    pawl_entry_info entry;
    char name[64];
    double began = now_ms();
    must(pawl_checkpoint_open(path, PAWL_NEWEST, NULL, &checkpoint, err));
    row("open", began, none, pawl_checkpoint_reads(checkpoint));
    pawl_checkpoint_describe(checkpoint, &info);

    pawl_read_stats before = pawl_checkpoint_reads(checkpoint);
    float value[FLOATS];
    name_of(name, entries / 2);
    began = now_ms();
    must(pawl_checkpoint_find(checkpoint, name, &entry, err));
    row("find one entry", began, before, pawl_checkpoint_reads(checkpoint));
    before = pawl_checkpoint_reads(checkpoint);
    began = now_ms();
    must(pawl_checkpoint_read(checkpoint, name, NULL, NULL, value, sizeof value, err));
    row("read it, verified", began, before, pawl_checkpoint_reads(checkpoint));

    pawl_entries *walk;
    uint64_t count = 0;
    int more = 1;
    before = pawl_checkpoint_reads(checkpoint);
    began = now_ms();
    must(pawl_entries_open(checkpoint, "", &walk, err));
    while (more) {
        must(pawl_entries_next(walk, &entry, &more, err));
        count += (uint64_t)more;
    }
    pawl_entries_free(walk);
    row("walk all entries", began, before, pawl_checkpoint_reads(checkpoint));
    before = pawl_checkpoint_reads(checkpoint);
    began = now_ms();
    must(pawl_checkpoint_verify(checkpoint, NULL, NULL, err));
    row("verify every byte", began, before, pawl_checkpoint_reads(checkpoint));
    printf("%-24s %llu entries, %llu data files of %llu bytes, index %llu bytes\n", "checkpoint",
           (unsigned long long)count, (unsigned long long)info.data_files,
           (unsigned long long)info.data_bytes, (unsigned long long)info.index_bytes);
    pawl_checkpoint_close(checkpoint);
}

static void restore(const char *path, pawl_state *state) {
    const pawl_read_stats none = {0};
    pawl_checkpoint *checkpoint;
    must(pawl_checkpoint_open(path, PAWL_NEWEST, NULL, &checkpoint, err));
    double began = now_ms();
    must(pawl_checkpoint_restore(checkpoint, state, NULL, NULL, err));
    row("restore all, verified", began, none, pawl_checkpoint_reads(checkpoint));
    pawl_checkpoint_close(checkpoint);
}

int main(int argc, char **argv) {
    size_t entries = argc > 1 ? (size_t)strtoull(argv[1], NULL, 10) : 1000000;
    char own[] = "bench-entries-XXXXXX";
    const char *path = argc > 2 ? argv[2] : mkdtemp(own);
    err = pawl_error_new();
    float *memory = malloc(entries * FLOATS * sizeof *memory + 1);
    float *copy = malloc(entries * FLOATS * sizeof *copy + 1);
    if (err == NULL || memory == NULL || copy == NULL || path == NULL || entries == 0) {
        fprintf(stderr, "usage: bench_entries [ENTRIES [DIRECTORY]]\n");
        return EXIT_FAILURE;
    }
    for (size_t i = 0; i < entries * FLOATS; i++) {
        memory[i] = (float)i;
    }
    memcpy(copy, memory, entries * FLOATS * sizeof *copy);
    printf("%zu entries of %d floats in %s\n", entries, FLOATS, path);
    double began = now_ms();
    const pawl_read_stats none = {0};
    pawl_state *state = make_state(memory, entries);
    row("make the state", began, none, none);
    save(path, state);
    look(path, entries);
    memset(memory, 0, entries * FLOATS * sizeof *memory);
    restore(path, state);
    bool same = memcmp(memory, copy, entries * FLOATS * sizeof *copy) == 0;
    printf("%s\n", same ? "restored bit for bit" : "DIFFERENT BYTES");
    pawl_state_free(state);
    pawl_error_free(err);
    free(memory);
    free(copy);
    if (argc <= 2) {
        char command[64];
        snprintf(command, sizeof command, "rm -rf %s", path);
        same = system(command) == 0 && same;
    }
    return same ? EXIT_SUCCESS : EXIT_FAILURE;
}
