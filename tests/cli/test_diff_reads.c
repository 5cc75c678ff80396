/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much pawl diff reads: of many small tensors each block at most once, however far the order of
 * names is from that of the files; and that what it tells does not depend on how it reads.
 */
#include "diff.h"
#include "memory.h"
#include "output.h"

#include <ftw.h>
#include <pawl/pawl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MANY     20000
#define ELEMENTS 24
#define BLOCK    (16 * 1024)

static char run_path[64];

static int remove_one(const char *path, const struct stat *found, int type, struct FTW *walk) {
    (void)found;
    (void)type;
    (void)walk;
    return remove(path);
}

static void must(pawl_status status, const pawl_error *err) {
    if (status != PAWL_OK) {
        fail_msg("%s", pawl_error_text((pawl_error *)(uintptr_t)err));
    }
}

/* Dtypes alternate, and each lies by itself in the file. */
static void add_tensors(pawl_state *state, char *memory, pawl_error *err) {
    static const pawl_dtype dtypes[] = {PAWL_F64, PAWL_BF16, PAWL_F32, PAWL_U8};
    static const int64_t shape[] = {ELEMENTS};
    pawl_tensor *tensors = must_alloc(MANY * sizeof *tensors);
    char(*names)[24] = must_alloc(MANY * sizeof *names);
    for (size_t i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "group%02zu/tensor%05zu", i / 1000, i);
        tensors[i] = (pawl_tensor){.struct_size = sizeof tensors[i],
                                   .name = names[i],
                                   .dtype = dtypes[i % 4],
                                   .ndim = 1,
                                   .shape = shape,
                                   .data = memory + i * ELEMENTS * 8};
    }
    must(pawl_state_add_tensors(state, tensors, MANY, err), err);
    free(names);
    free(tensors);
}

/* Step 2 has another number in every 100th tensor. */
static int set_up_run(void **context) {
    pawl_error *err = pawl_error_new();
    pawl_state *state = NULL;
    pawl_run *run = NULL;
    char *memory = must_alloc((size_t)MANY * ELEMENTS * 8);
    (void)context;
    (void)strcpy(run_path, "/tmp/pawl-diff-XXXXXX");
    assert_non_null(mkdtemp(run_path));
    must(pawl_state_new(&state, err), err);
    add_tensors(state, memory, err);
    must(pawl_run_open(run_path, NULL, &run, err), err);
    must(pawl_save(run, state, 1, NULL, err), err);
    must(pawl_wait(run, 0, NULL, err), err);
    for (size_t i = 0; i < MANY; i += 100) {
        memory[i * ELEMENTS * 8 + 7] = 64;
    }
    must(pawl_save(run, state, 2, NULL, err), err);
    must(pawl_run_close(run, 0, err), err);
    pawl_state_free(state);
    pawl_error_free(err);
    free(memory);
    return 0;
}

static int tear_down_run(void **context) {
    (void)context;
    return nftw(run_path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static uint64_t blocks_of(const pawl_checkpoint *c) {
    pawl_checkpoint_info info = {.struct_size = sizeof info};
    must(pawl_checkpoint_describe(c, &info, NULL), NULL);
    return info.data_bytes / BLOCK + info.data_files;
}

static uint64_t reads_of(const pawl_checkpoint *c) {
    pawl_read_stats stats = {.struct_size = sizeof stats};
    must(pawl_checkpoint_reads(c, &stats, NULL), NULL);
    return stats.reads;
}

static void test_each_block_is_read_at_most_once(void **context) {
    (void)context;
    char *text = NULL;
    size_t size = 0;
    output out = {.as_json = true, .err = pawl_error_new(), .value_columns = 40};
    comparison c = {.out = &out, .world_size = 1};
    out.json.file = open_memstream(&text, &size);
    json_begin_array(&out.json, NULL, JSON_LINES);
    const int64_t steps[] = {1, 2};
    const pawl_open_options first = {.struct_size = sizeof first, .step = &steps[0]};
    const pawl_open_options second = {.struct_size = sizeof second, .step = &steps[1]};
    must(pawl_checkpoint_open(run_path, &first, &c.a, out.err), out.err);
    must(pawl_checkpoint_open(run_path, &second, &c.b, out.err), out.err);
    uint64_t opened = reads_of(c.a);
    must(diff_entries(&c), out.err);
    json_close_to(&out.json, 0);
    fclose(out.json.file);
    assert_int_equal(c.same, MANY - MANY / 100);
    assert_int_equal(c.different, MANY / 100);
    assert_non_null(strstr(text, "\"name\": \"group19/tensor19900\""));
    assert_true(strstr(text, "tensor00100") < strstr(text, "tensor00200"));
    pawl_checkpoint_info info = {.struct_size = sizeof info};
    must(pawl_checkpoint_describe(c.a, &info, NULL), NULL);
    uint64_t index_blocks = 2 * info.index_bytes / 4096; /* walked, and searched */
    uint64_t reads = reads_of(c.a) - opened;
    assert_true(reads <= blocks_of(c.a) + index_blocks + 50);
    pawl_checkpoint_close(c.a);
    pawl_checkpoint_close(c.b);
    pawl_error_free(out.err);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_block_is_read_at_most_once),
    };
    return cmocka_run_group_tests(tests, set_up_run, tear_down_run);
}
