/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A step's directory that holds any of the data files of a few saves, under their own names or
 * others, whole, cut or changed, with sums that fit or not: a rebuild finds the one complete set,
 * as a slow look at the names does, or refuses; and what it has rebuilt verifies, and reads as what
 * was saved.
 */
#include "fuzz.h"

#include "checkpoint/private.h"
#include "lib/simulated_platform.h"
#include "run/private.h"
#include "stores/stores.h"

#include <stdio.h>

#define STEP      5
#define DIRECTORY "step-00000005"
#define POOL      8
#define ELEMENTS  12
#define FIRST_TAG "aaaaaaaaaaaa-1"
#define OTHER_TAG "bbbbbbbbbbbb-2"

/* A data file as a save wrote it. */
typedef struct pool_file {
    char name[80];
    size_t save; /* which one; its files are `of` */
    buffer bytes;
} pool_file;

static struct {
    store *disk;
    simulated_platform os;
    pawl_run *run;
    pool_file files[POOL];
    size_t count, of[4], saves;
} all;

/* ---- saves, made once ----------------------------------------------------------------------- */

static void seal(buffer *file, size_t header_bytes) {
    data_sum_reading r = {.header_bytes = header_bytes, .file_bytes = file->size};
    uint32_t block = crc32c(0, file->data, file->size);
    FUZZ_CHECK(file->size <= FORMAT_BLOCK_BYTES);
    data_sum_look(&r, 0, file->data, file->size);
    data_sum_put(file->data, data_sum(r.header_crc, r.edge_crc, header_bytes, &block, 1));
}

static void keep_files(const plan_layout *layout) {
    for (size_t i = 0; i < layout->file_count; i++) {
        const plan_file *f = &layout->files[i];
        FUZZ_CHECK(all.count < POOL);
        pool_file *kept = &all.files[all.count++];
        size_t n = (size_t)f->bytes;
        (void)snprintf(kept->name, sizeof kept->name, "%s", f->name);
        kept->save = all.saves;
        kept->bytes = (buffer){.data = mem_alloc(n), .size = n, .capacity = n};
        FUZZ_CHECK(kept->bytes.data != NULL);
        plan_layout_gather(layout, i, 0, n, kept->bytes.data);
        seal(&kept->bytes, f->header.size);
        all.of[all.saves]++;
    }
}

/* The tensor "w", its rows shared out, and "s", a value. */
static void save_rank(const char *tag, int rank, int world_size, uint64_t split) {
    static uint8_t data[ELEMENTS] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    pawl_error err = ERROR_INIT;
    pawl_state *state = NULL;
    state_snapshot *snapshot = NULL;
    plan_layout *layout = NULL;
    const int64_t shape[] = {ELEMENTS};
    const int64_t extent[] = {ELEMENTS / world_size};
    const int64_t offset[] = {rank * extent[0]};
    const pawl_box part = {.offset = offset, .extent = extent, .data = data + offset[0]};
    const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                .name = "w",
                                .dtype = PAWL_U8,
                                .ndim = 1,
                                .shape = shape,
                                .nboxes = 1,
                                .boxes = &part};
    const plan_layout_options options = {
        .tag = tag, .rank = rank, .world_size = world_size, .split_header_bytes = split};
    FUZZ_CHECK(state_new(&state, &err) == PAWL_OK);
    FUZZ_CHECK(state_add_tensor(state, &tensor, &err) == PAWL_OK);
    FUZZ_CHECK(state_set_value(state, "s", PAWL_KIND_STRING, PAWL_ROLE_OTHER, false, "now", 3,
                               &err) == PAWL_OK);
    FUZZ_CHECK(state_snapshot_take(state, STEP, false, &snapshot, &err) == PAWL_OK);
    FUZZ_CHECK(plan_layout_make(snapshot, &options, &layout, &err) == PAWL_OK);
    keep_files(layout);
    plan_layout_free(layout);
    state_snapshot_free(snapshot);
    state_free(state);
}

static void open_all(void) {
    pawl_error err = ERROR_INIT;
    const pawl_run_options options = {.struct_size = sizeof options, .no_event_file = 1};
    if (all.run != NULL) {
        return;
    }
    simulated_platform_init(&all.os, 1);
    FUZZ_CHECK(store_mem(&all.disk, &err) == PAWL_OK);
    FUZZ_CHECK(run_open(all.disk, &options, &all.os.table, &all.run, &err) == PAWL_OK);
    FUZZ_CHECK(store_make_dir(all.disk, DIRECTORY, &err) == PAWL_OK);
    save_rank(FIRST_TAG, 0, 1, 0);
    all.saves++;
    save_rank(OTHER_TAG, 0, 1, 600); /* two files */
    all.saves++;
    save_rank("cccccccccccc-3", 0, 2, 0);
    save_rank("cccccccccccc-3", 1, 2, 0);
    all.saves++;
}

/* ---- the directory -------------------------------------------------------------------------- */

static pawl_status remove_one(void *context, const char *name, pawl_error *err) {
    char path[STORE_MAX_PATH];
    (void)context;
    (void)snprintf(path, sizeof path, DIRECTORY "/%s", name);
    return store_unlink(all.disk, path, err);
}

static void clear(void) {
    CLEANUP(arena_free) arena memory = {.blocks = NULL};
    pawl_error err = ERROR_INIT;
    char **names;
    size_t count;
    FUZZ_CHECK(store_names(all.disk, DIRECTORY, 1000, &memory, &names, &count, &err) == PAWL_OK);
    for (size_t i = 0; i < count; i++) {
        FUZZ_CHECK(remove_one(NULL, names[i], &err) == PAWL_OK);
    }
}

static void put(const char *name, const void *data, size_t n) {
    pawl_error err = ERROR_INIT;
    char path[STORE_MAX_PATH];
    (void)snprintf(path, sizeof path, DIRECTORY "/%s", name);
    FUZZ_CHECK(store_replace(all.disk, path, data, n, &err) == PAWL_OK);
}

/* Another name for a file: of a tag, a rank or none, a number of a number. */
static void rename_file(fuzz_bytes *in, char name[80]) {
    static const char *const tags[] = {FIRST_TAG, OTHER_TAG, "cccccccccccc-3"};
    const char *tag = tags[fuzz_below(in, 3)];
    int rank = (int)fuzz_below(in, 4) - 1;
    uint32_t number = fuzz_below(in, 3);
    name_data(name, tag, rank, number, number + fuzz_below(in, 3));
}

/* A byte here and there is another one, or the end is missing; most sums fit again. */
static void change(fuzz_bytes *in, uint8_t *data, size_t *n) {
    for (unsigned i = fuzz_below(in, 4); i-- > 0;) {
        size_t at = fuzz_below(in, 256) * 16u + fuzz_below(in, 256);
        data[at % *n] = (uint8_t)fuzz_below(in, 256);
    }
    if (fuzz_below(in, 8) == 7) {
        *n -= fuzz_below(in, 32);
    }
    if (fuzz_below(in, 4) != 3) {
        *n = fuzz_repair_safetensors(data, *n, *n);
    }
}

typedef struct filled {
    bool changed; /* something is not as it was saved */
    size_t present[4];
} filled;

static filled fill(fuzz_bytes *in) {
    filled f = {.changed = false};
    for (size_t i = 0; i < all.count; i++) {
        const pool_file *p = &all.files[i];
        char name[80];
        size_t n = p->bytes.size;
        unsigned what = fuzz_below(in, 8);
        AUTOFREE uint8_t *data = mem_dup(p->bytes.data, n);
        FUZZ_CHECK(data != NULL);
        (void)snprintf(name, sizeof name, "%s", p->name);
        if (what < 4) {
            continue;
        }
        if (what == 6) {
            rename_file(in, name);
            f.changed = true;
        } else if (what == 7) {
            change(in, data, &n);
            f.changed = true;
        } else {
            f.present[p->save]++;
        }
        put(name, data, n);
    }
    return f;
}

/* ---- what came of it ------------------------------------------------------------------------ */

static void check_rebuilt(bool changed) {
    pawl_error err = ERROR_INIT;
    pawl_checkpoint *c = NULL;
    pawl_verify_result result;
    const pawl_verify_options options = {.struct_size = sizeof options};
    uint8_t data[ELEMENTS];
    FUZZ_CHECK(checkpoint_open(all.disk, false, STEP, &all.os.table, NULL, &c, &err) == PAWL_OK);
    FUZZ_CHECK(checkpoint_verify(c, &options, &result, &err) == PAWL_OK);
    for (unsigned i = 0; i < ELEMENTS; i++) {
        data[i] = 0;
    }
    pawl_status status = checkpoint_read(c, "w", NULL, NULL, data, sizeof data, &err);
    FUZZ_CHECK(changed || status == PAWL_OK);
    for (unsigned i = 0; !changed && i < ELEMENTS; i++) {
        FUZZ_CHECK(data[i] == i + 1);
    }
    pawl_checkpoint_close(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_bytes in = {.data = data, .size = size};
    pawl_error err = ERROR_INIT;
    size_t complete = 0;
    open_all();
    clear();
    bool force = fuzz_below(&in, 2) != 0;
    filled f = fill(&in);
    for (size_t i = 0; i < all.saves; i++) {
        complete += f.present[i] == all.of[i];
    }
    pawl_status status = run_rebuild(all.run, STEP, force, &err);
    if (status == PAWL_OK) {
        fuzz_accepted++;
        check_rebuilt(f.changed);
    } else {
        FUZZ_CHECK(err.status == status && err.attempt[0] != '\0' && err.step == STEP);
        FUZZ_CHECK(status == PAWL_EDAMAGED || status == PAWL_ENOTFOUND || f.changed);
    }
    FUZZ_CHECK(f.changed || (status == PAWL_OK) == (complete == 1));
    return 0;
}
