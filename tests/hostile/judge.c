/* SPDX-License-Identifier: Apache-2.0 */
/*
 * judge: what pawl says of runs, by the public headers alone. Reads lines "RUN STEP" from stdin,
 * and answers each with one line of JSON: does the step open, verify, walk; is each entry found by
 * its name and read whole; do states that are made of the entries' own descriptions restore from
 * it, in one box a tensor and in two. CRC32C of what was read and restored come along, so that
 * somebody else can compare them with the files.
 *
 * With --run it also opens the run as a job would, and restores the newest checkpoint into a state
 * like that of the step given.
 */
#include <pawl/pawl.h>

#include <isa-l/crc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_MEMORY ((uint64_t)1 << 30) /* of all entries of a step; with more it is not restored */

typedef struct entry {
    char *name, *slot_of, *slot;
    pawl_kind kind;
    pawl_role role;
    int per_rank, replicated, ndim;
    uint64_t pieces, bytes;
    pawl_dtype dtype;
    int64_t shape[PAWL_MAX_NDIM], half_offset[PAWL_MAX_NDIM], half[2][PAWL_MAX_NDIM];
    unsigned char *value; /* values: as the walk gave it */
    unsigned char *memory;
    pawl_status find, read;
    uint32_t crc32c;
} entry;

typedef struct list {
    entry *items;
    size_t count, capacity;
    uint64_t bytes;
} list;

static pawl_error *err;

static void *must_memory(size_t bytes) {
    void *memory = calloc(1, bytes > 0 ? bytes : 1);
    if (memory == NULL) {
        fputs("judge: out of memory\n", stderr);
        exit(1);
    }
    return memory;
}

static char *copy_text(const char *text) {
    return text == NULL ? NULL : strcpy(must_memory(strlen(text) + 1), text);
}

/* What isal takes as `int` fits: MAX_MEMORY is below 2^31. */
static uint32_t crc32c(const void *data, uint64_t bytes) {
    return ~crc32_iscsi((unsigned char *)(uintptr_t)data, (int)bytes, 0xffffffffU);
}

static void print_text(const char *text) {
    putchar('"');
    for (const unsigned char *c = (const unsigned char *)text; *c != 0; c++) {
        if (*c < 0x20 || *c > 0x7e || *c == '"' || *c == '\\') {
            printf("\\u%04x", *c); /* names: byte by byte, as latin-1 */
        } else {
            putchar(*c);
        }
    }
    putchar('"');
}

/* ---- looking -------------------------------------------------------------------------------- */

static void keep(list *all, const pawl_entry_info *info) {
    if (all->count == all->capacity) {
        all->capacity = all->capacity > 0 ? 2 * all->capacity : 64;
        all->items = realloc(all->items, all->capacity * sizeof *all->items);
        if (all->items == NULL) {
            exit(1);
        }
    }
    entry *e = &all->items[all->count++];
    *e = (entry){.name = copy_text(info->name),
                 .slot_of = copy_text(info->slot_of),
                 .slot = copy_text(info->slot),
                 .kind = info->kind,
                 .role = info->role,
                 .per_rank = info->per_rank,
                 .replicated = info->replicated,
                 .ndim = info->ndim,
                 .dtype = info->dtype,
                 .pieces = info->pieces,
                 .bytes = info->bytes};
    for (int d = 0; d < info->ndim; d++) {
        e->shape[d] = info->shape[d];
    }
    if (info->value != NULL) {
        e->value = must_memory((size_t)info->bytes + 1);
        memcpy(e->value, info->value, (size_t)info->bytes);
        e->crc32c = crc32c(e->value, e->bytes);
    }
    all->bytes = all->bytes + e->bytes < all->bytes ? UINT64_MAX : all->bytes + e->bytes;
}

static void free_list(list *all) {
    for (size_t i = 0; i < all->count; i++) {
        entry *e = &all->items[i];
        free(e->name);
        free(e->slot_of);
        free(e->slot);
        free(e->value);
        free(e->memory);
    }
    free(all->items);
}

static pawl_status walk(pawl_checkpoint *c, list *all) {
    pawl_entries *entries = NULL;
    pawl_entry_info info = {.struct_size = sizeof info};
    int more = 0;
    pawl_status status = pawl_entries_open(c, "", &entries, err);
    while (status == PAWL_OK) {
        status = pawl_entries_next(entries, &info, &more, err);
        if (status != PAWL_OK || !more) {
            break;
        }
        keep(all, &info);
    }
    pawl_entries_free(entries);
    return status;
}

static void read_one(pawl_checkpoint *c, entry *e) {
    pawl_entry_info info = {.struct_size = sizeof info};
    e->find = pawl_checkpoint_find(c, e->name, &info, err);
    if (e->find == PAWL_OK && strcmp(info.name, e->name) != 0) {
        e->find = PAWL_EINTERNAL;
    }
    if (e->kind == PAWL_KIND_TENSOR) {
        unsigned char *to = must_memory((size_t)e->bytes);
        e->read = pawl_checkpoint_read(c, e->name, NULL, NULL, to, (size_t)e->bytes, err);
        e->crc32c = crc32c(to, e->bytes);
        free(to);
    } else if (e->per_rank) {
        size_t size = 0;
        unsigned char *to = must_memory(PAWL_MAX_VALUE_BYTES);
        e->read = pawl_checkpoint_read_rank(c, e->name, 0, to, PAWL_MAX_VALUE_BYTES, &size, err);
        e->bytes = size;
        e->crc32c = crc32c(to, size);
        free(to);
    }
}

/* ---- restoring ------------------------------------------------------------------------------ */

static bool can_halve(const entry *e) {
    return e->ndim > 0 && e->shape[0] > 1 && pawl_dtype_bits(e->dtype) % 8 == 0;
}

/* In two boxes along the first dimension: dense, one behind the other, as all of it lies. */
static pawl_status add_tensor(pawl_state *state, entry *e, bool halves) {
    static const int64_t origin[PAWL_MAX_NDIM];
    e->memory = e->memory != NULL ? e->memory : must_memory((size_t)e->bytes);
    memset(e->memory, 0, (size_t)e->bytes);
    pawl_tensor tensor = {.struct_size = sizeof tensor,
                          .name = e->name,
                          .dtype = e->dtype,
                          .ndim = e->ndim,
                          .shape = e->shape,
                          .role = e->role,
                          .slot_of = e->slot_of,
                          .slot = e->slot,
                          .replicated = e->replicated,
                          .data = e->memory};
    pawl_box boxes[2];
    if (halves && can_halve(e)) {
        memcpy(e->half[0], e->shape, sizeof e->shape);
        memcpy(e->half[1], e->shape, sizeof e->shape);
        e->half[0][0] = e->shape[0] / 2;
        e->half[1][0] = e->shape[0] - e->half[0][0];
        e->half_offset[0] = e->half[0][0];
        uint64_t first = e->bytes / (uint64_t)e->shape[0] * (uint64_t)e->half[0][0];
        boxes[0] = (pawl_box){.offset = origin, .extent = e->half[0], .data = e->memory};
        boxes[1] =
            (pawl_box){.offset = e->half_offset, .extent = e->half[1], .data = e->memory + first};
        tensor.data = NULL;
        tensor.boxes = boxes;
        tensor.box_size = sizeof(pawl_box);
        tensor.nboxes = 2;
    }
    return pawl_state_add_tensor(state, &tensor, err);
}

static pawl_status add_value(pawl_state *state, const entry *e) {
    if (e->per_rank) {
        return pawl_state_set_rank_bytes(state, e->name, e->role, "", 0, err);
    }
    if (e->role == PAWL_ROLE_BATCH_SIGNATURE && e->kind == PAWL_KIND_JSON) {
        return pawl_state_set_json(state, e->name, e->role, (const char *)e->value, err);
    }
    switch (e->kind) {
    case PAWL_KIND_BOOL:
        return pawl_state_set_bool(state, e->name, e->role, 0, err);
    case PAWL_KIND_INT64:
        return pawl_state_set_int64(state, e->name, e->role, 0, err);
    case PAWL_KIND_FLOAT64:
        return pawl_state_set_float64(state, e->name, e->role, 0, err);
    case PAWL_KIND_STRING: /* of the optimizer's class another one would be a mismatch */
        return pawl_state_set_string(state, e->name, e->role, (const char *)e->value, err);
    case PAWL_KIND_JSON:
        return pawl_state_set_json(state, e->name, e->role, "null", err);
    default:
        return pawl_state_set_bytes(state, e->name, e->role, "", 0, err);
    }
}

static pawl_status build(list *all, bool halves, pawl_state **out) {
    pawl_status status = pawl_state_new(out, err);
    for (size_t i = 0; i < all->count && status == PAWL_OK; i++) {
        entry *e = &all->items[i];
        status = e->kind == PAWL_KIND_TENSOR ? add_tensor(*out, e, halves) : add_value(*out, e);
    }
    return status;
}

/* Of the bytes that the state has now; 0 where it has none. */
static uint32_t state_crc(const pawl_state *state, const entry *e) {
    const void *bytes = NULL;
    size_t size = 0;
    int truth = 0;
    int64_t number = 0;
    double real = 0;
    const char *text = NULL;
    unsigned char small;
    switch (e->kind) {
    case PAWL_KIND_TENSOR:
        return crc32c(e->memory, e->bytes);
    case PAWL_KIND_BOOL:
        if (pawl_state_get_bool(state, e->name, &truth, err) != PAWL_OK) {
            return 0;
        }
        small = (unsigned char)truth;
        return crc32c(&small, 1);
    case PAWL_KIND_INT64:
        return pawl_state_get_int64(state, e->name, &number, err) == PAWL_OK
                   ? crc32c(&number, sizeof number)
                   : 0;
    case PAWL_KIND_FLOAT64:
        return pawl_state_get_float64(state, e->name, &real, err) == PAWL_OK
                   ? crc32c(&real, sizeof real)
                   : 0;
    case PAWL_KIND_BYTES:
        return pawl_state_get_bytes(state, e->name, &bytes, &size, err) == PAWL_OK
                   ? crc32c(bytes, size)
                   : 0;
    default:
        return pawl_state_get_string(state, e->name, &text, err) == PAWL_OK
                   ? crc32c(text, strlen(text))
                   : 0;
    }
}

/* A failure, with its text. */
static void print_status(const char *what, pawl_status status) {
    printf(", \"%s\": \"%s\"", what, pawl_status_name(status));
    if (status != PAWL_OK) {
        printf(", \"%s_text\": ", what);
        print_text(pawl_error_text(err));
    }
}

static void print_restored(const list *all, const pawl_state *state, const char *what) {
    printf(", \"%s_crc32c\": {", what);
    for (size_t i = 0; i < all->count; i++) {
        fputs(i > 0 ? ", " : "", stdout);
        print_text(all->items[i].name);
        printf(": %u", state_crc(state, &all->items[i]));
    }
    putchar('}');
}

static void restore(pawl_checkpoint *c, list *all, bool halves, const char *what) {
    pawl_state *state = NULL;
    pawl_checkpoint_info info = {.struct_size = sizeof info};
    (void)!pawl_checkpoint_describe(c, &info, NULL);
    pawl_restore_options options = {.struct_size = sizeof options};
    options.per_rank = info.world_size != 1 ? PAWL_POLICY_CALLER : PAWL_POLICY_DEFAULT;
    pawl_status status = build(all, halves, &state);
    if (status == PAWL_OK) {
        status = pawl_checkpoint_restore(c, state, &options, NULL, err);
    }
    print_status(what, status);
    if (status == PAWL_OK) {
        print_restored(all, state, what);
    }
    pawl_state_free(state);
}

/* ---- a step --------------------------------------------------------------------------------- */

static void print_entries(const list *all) {
    fputs(", \"entries\": [", stdout);
    for (size_t i = 0; i < all->count; i++) {
        const entry *e = &all->items[i];
        fputs(i > 0 ? ", {\"name\": " : "{\"name\": ", stdout);
        print_text(e->name);
        printf(", \"find\": \"%s\", \"read\": \"%s\", \"crc32c\": %u", pawl_status_name(e->find),
               pawl_status_name(e->read), e->crc32c);
        printf(", \"role\": %d, \"bits\": %d, \"pieces\": %llu, \"per_rank\": %d}", (int)e->role,
               e->kind == PAWL_KIND_TENSOR ? pawl_dtype_bits(e->dtype) : 8,
               (unsigned long long)e->pieces, e->per_rank);
    }
    putchar(']');
}

static void judge_open(pawl_checkpoint *c) {
    list all = {0};
    pawl_verify_result result = {.struct_size = sizeof result};
    print_status("verify", pawl_checkpoint_verify(c, NULL, &result, err));
    printf(", \"problems\": %llu", (unsigned long long)result.problems);
    pawl_status status = walk(c, &all);
    print_status("walk", status);
    if (status == PAWL_OK && all.bytes > MAX_MEMORY) {
        fputs(", \"too_large\": true", stdout);
    } else if (status == PAWL_OK) {
        for (size_t i = 0; i < all.count; i++) {
            read_one(c, &all.items[i]);
        }
        print_entries(&all);
        restore(c, &all, false, "restore");
        restore(c, &all, true, "halves");
    }
    free_list(&all);
}

static void judge(const char *path, int64_t step) {
    pawl_checkpoint *c = NULL;
    fputs("{\"run\": ", stdout);
    print_text(path);
    const pawl_open_options options = {.struct_size = sizeof options, .step = &step};
    pawl_status status = pawl_checkpoint_open(path, &options, &c, err);
    print_status("open", status);
    if (status == PAWL_OK) {
        judge_open(c);
    }
    pawl_checkpoint_close(c);
}

/* ---- a job ---------------------------------------------------------------------------------- */

static void judge_run(const char *path, int64_t like) {
    const pawl_run_options options = {
        .struct_size = sizeof options, .takeover_wait_s = -1, .no_event_file = 1};
    pawl_checkpoint *c = NULL;
    pawl_run *run = NULL;
    pawl_state *state = NULL;
    pawl_report *report = NULL;
    list all = {0};
    const pawl_open_options at = {.struct_size = sizeof at, .step = &like};
    pawl_status status = pawl_checkpoint_open(path, &at, &c, err);
    status = status == PAWL_OK ? walk(c, &all) : status;
    status = status == PAWL_OK ? build(&all, false, &state) : status;
    pawl_checkpoint_close(c);
    print_status("like", status);
    if (status == PAWL_OK) {
        status = pawl_run_open(path, &options, &run, err);
        print_status("job", status);
    }
    if (run != NULL) {
        status = pawl_restore(run, state, NULL, &report, err);
        print_status("newest", status);
        printf(", \"newest_step\": %lld", (long long)pawl_report_step(report));
        if (status == PAWL_OK) {
            print_restored(&all, state, "newest");
        }
    }
    pawl_report_free(report);
    (void)pawl_run_close(run, 0, err);
    pawl_state_free(state);
    free_list(&all);
}

int main(int argc, char **argv) {
    char line[4096];
    int64_t like = argc > 2 && strcmp(argv[1], "--run") == 0 ? strtoll(argv[2], NULL, 10) : -1;
    err = pawl_error_new();
    while (fgets(line, sizeof line, stdin) != NULL) {
        char *space = strrchr(line, ' ');
        if (space == NULL) {
            fputs("judge: a line is \"RUN STEP\"\n", stderr);
            return 2;
        }
        *space = '\0';
        judge(line, strtoll(space + 1, NULL, 10));
        if (like >= 0) {
            judge_run(line, like);
        }
        puts("}");
        fflush(stdout);
    }
    pawl_error_free(err);
    return 0;
}
