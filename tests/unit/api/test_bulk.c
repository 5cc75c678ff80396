/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls for many tensors and many slices do what as many single calls do: two programs, one
 * with each, save random states and read them; and read what the other saved.
 */
#include "lib/random.h"
#include "lib/test.h"
#include "unit/store/fixtures.h"

#include <pawl/pawl.h>

#include <string.h>

#define TENSORS 60
#define MEMORY  (1 << 16)
#define ROUNDS  12

typedef struct described {
    char name[32];
    int64_t shape[3], offset[2][3], extent[2][3], strides[3];
    pawl_box boxes[2];
    pawl_tensor tensor;
} described;

typedef struct program {
    directory dir;
    pawl_run *run;
    pawl_state *state;
    uint8_t memory[TENSORS][MEMORY / 16];
} program;

/* Scalars and empty ones; dense, with strides, in two boxes; replicas. */
static void describe(test_random *r, described *d, int number) {
    static const pawl_dtype dtypes[] = {PAWL_F32, PAWL_F64, PAWL_BF16, PAWL_U8};
    memset(d, 0, sizeof *d);
    snprintf(d->name, sizeof d->name, "layer%llu/t%02d", (unsigned long long)random_below(r, 5),
             number);
    pawl_dtype dtype = dtypes[random_below(r, 4)];
    d->tensor = (pawl_tensor){.struct_size = sizeof d->tensor,
                              .name = d->name,
                              .dtype = dtype,
                              .ndim = (int)random_below(r, 4),
                              .shape = d->shape,
                              .replicated = random_below(r, 4) == 0};
    int ndim = d->tensor.ndim;
    int64_t stride = pawl_dtype_bits(dtype) / 8;
    for (int i = ndim - 1; i >= 0; i--) {
        d->shape[i] = random_between(r, number % 10 == 0 ? 0 : 1, 6);
        d->strides[i] = stride;
        stride *= 7; /* each row has room for one more */
        d->extent[0][i] = d->extent[1][i] = d->shape[i];
    }
    uint64_t kind = random_below(r, 3);
    if (kind == 1) {
        d->tensor.strides = d->strides;
    } else if (kind == 2 && ndim > 0 && d->shape[0] > 1) {
        d->extent[0][0] = random_between(r, 1, d->shape[0] - 1);
        d->offset[1][0] = d->extent[0][0];
        d->extent[1][0] -= d->extent[0][0];
        d->tensor.nboxes = 2;
    }
}

/* The same tensor with this program's memory. */
static pawl_tensor tensor_in(described *d, uint8_t *memory) {
    pawl_tensor t = d->tensor;
    t.data = memory;
    for (int b = 0; b < 2; b++) {
        d->boxes[b] = (pawl_box){
            .offset = d->offset[b], .extent = d->extent[b], .data = memory + b * (MEMORY / 32)};
    }
    t.boxes = t.nboxes > 0 ? d->boxes : NULL;
    t.box_size = sizeof d->boxes[0];
    return t;
}

static void open_program(program *p) {
    struct pawl_error err = ERROR_INIT;
    char path[128];
    directory_make(&p->dir);
    snprintf(path, sizeof path, "%s/run", p->dir.path);
    assert_ok(pawl_run_open(path, NULL, &p->run, &err), &err);
    assert_ok(pawl_state_new(&p->state, &err), &err);
}

static void close_program(program *p) {
    struct pawl_error err = ERROR_INIT;
    assert_ok(pawl_run_close(p->run, 0, &err), &err);
    pawl_state_free(p->state);
    directory_remove(&p->dir);
}

static void save_program(program *p, int64_t step) {
    struct pawl_error err = ERROR_INIT;
    assert_ok(pawl_save(p->run, p->state, step, NULL, &err), &err);
    assert_ok(pawl_wait(p->run, 0, NULL, &err), &err);
}

/* One call for each; updating is removing and adding. */
static void set_singly(program *p, described *all, bool there) {
    struct pawl_error err = ERROR_INIT;
    for (int i = 0; i < TENSORS; i++) {
        const pawl_tensor t = tensor_in(&all[i], p->memory[i]);
        if (there) {
            assert_ok(pawl_state_remove(p->state, t.name, &err), &err);
        }
        assert_ok(pawl_state_add_tensor(p->state, &t, &err), &err);
    }
}

static void set_in_bulk(program *p, described *all, bool there) {
    struct pawl_error err = ERROR_INIT;
    pawl_tensor tensors[TENSORS];
    for (int i = 0; i < TENSORS; i++) {
        tensors[i] = tensor_in(&all[i], p->memory[i]);
    }
    assert_ok(there ? pawl_state_update_tensors(p->state, tensors, TENSORS, &err)
                    : pawl_state_add_tensors(p->state, tensors, TENSORS, &err),
              &err);
}

typedef struct read_bytes {
    uint8_t of[TENSORS][MEMORY / 16];
    size_t bytes[TENSORS];
} read_bytes;

static pawl_checkpoint *open_step(program *p, int64_t step) {
    struct pawl_error err = ERROR_INIT;
    char path[128];
    pawl_checkpoint *c = NULL;
    snprintf(path, sizeof path, "%s/run", p->dir.path);
    const pawl_open_options options = {.struct_size = sizeof options, .step = &step};
    assert_ok(pawl_checkpoint_open(path, &options, &c, &err), &err);
    return c;
}

static void read_singly(program *p, int64_t step, const described *all, read_bytes *out) {
    struct pawl_error err = ERROR_INIT;
    pawl_checkpoint *c = open_step(p, step);
    for (int i = 0; i < TENSORS; i++) {
        pawl_entry_info info = {.struct_size = sizeof info};
        assert_ok(pawl_checkpoint_find(c, all[i].name, &info, &err), &err);
        out->bytes[i] = (size_t)info.bytes;
        assert_ok(pawl_checkpoint_read(c, all[i].name, NULL, NULL, out->of[i], out->bytes[i], &err),
                  &err);
    }
    pawl_checkpoint_close(c);
}

static void read_in_bulk(program *p, int64_t step, const described *all, const read_bytes *sizes,
                         read_bytes *out) {
    struct pawl_error err = ERROR_INIT;
    pawl_slice slices[TENSORS];
    pawl_checkpoint *c = open_step(p, step);
    for (int i = 0; i < TENSORS; i++) {
        slices[i] =
            (pawl_slice){.name = all[i].name, .to = out->of[i], .to_bytes = sizes->bytes[i]};
    }
    assert_ok(pawl_checkpoint_read_many(c, slices, sizeof slices[0], TENSORS, &err), &err);
    for (int i = 0; i < TENSORS; i++) {
        assert_int_equal(slices[i].status, PAWL_OK);
    }
    pawl_checkpoint_close(c);
}

static void assert_same_step(program *one, program *other, int64_t step, const described *all) {
    static read_bytes singly;
    static read_bytes in_bulk;
    for (int crossed = 0; crossed < 2; crossed++) {
        memset(&singly, 0, sizeof singly);
        memset(&in_bulk, 0, sizeof in_bulk);
        read_singly(crossed ? other : one, step, all, &singly);
        read_in_bulk(crossed ? one : other, step, all, &singly, &in_bulk);
        assert_memory_equal(singly.of, in_bulk.of, sizeof singly.of);
    }
}

static void test_bulk_calls_do_what_single_ones_do(void **state) {
    (void)state;
    static program one;
    static program other;
    static described all[TENSORS];
    test_random r = {.state = 21};
    for (int round = 0; round < ROUNDS; round++) {
        open_program(&one);
        open_program(&other);
        for (int i = 0; i < TENSORS; i++) {
            describe(&r, &all[i], i);
        }
        for (int64_t step = 1; step <= 2; step++) {
            random_fill(&r, one.memory, sizeof one.memory);
            memcpy(other.memory, one.memory, sizeof one.memory);
            set_singly(&one, all, step > 1);
            set_in_bulk(&other, all, step > 1);
            save_program(&one, step);
            save_program(&other, step);
            assert_same_step(&one, &other, step, all);
        }
        close_program(&one);
        close_program(&other);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bulk_calls_do_what_single_ones_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
