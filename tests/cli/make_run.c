/* SPDX-License-Identifier: Apache-2.0 */
/*
 * make_run: writes deterministic runs for the command's tests, through the public headers alone.
 *
 *     make_run RUN [--steps=1000,2000] [--variant=base|dtypes|changed|resized|renamed]
 *     [--entries=N]
 *                  [--elements=N] [--pin=STEP] [--hold=FILE] [--read=STEP]
 *                  [--add=NAME]... [--text=TEXT] [--json=JSON]
 *
 * --variant    which state to save [base]
 * --entries    that many tiny tensors instead of a variant
 * --elements   one large tensor of that many float32 besides
 * --pin        pin that step
 * --hold       create FILE once everything is saved, then keep the run open until killed
 * --read       open that step, save nothing, and keep it open in the same way
 * --add        a tensor of that name besides, with a slot; up to 16 of them
 * --text       framework, and a string value besides
 * --json       a JSON value besides
 */
#include <math.h>
#include <pawl/pawl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_STEPS = 64, MAX_ADDED = 16, MAX_MEMORY = 256, HOLD_S = 120 };

typedef struct request {
    const char *run, *variant, *hold, *text, *json;
    const char *added[MAX_ADDED];
    size_t added_count;
    int64_t steps[MAX_STEPS];
    size_t step_count;
    int64_t entries, elements, pin, read;
} request;

static pawl_error *err;

static void must(pawl_status status) {
    if (status != PAWL_OK) {
        fprintf(stderr, "make_run: %s\n", pawl_error_text(err));
        exit(1);
    }
}

static void *must_memory(size_t bytes) {
    void *memory = calloc(1, bytes > 0 ? bytes : 1);
    if (memory == NULL) {
        fputs("make_run: out of memory\n", stderr);
        exit(1);
    }
    return memory;
}

/* ---- tensors ---- */

/* The memory behind the state's tensors, kept until the end. */
static void *memories[MAX_MEMORY];
static size_t memory_count;

static void *keep(void *memory) {
    if (memory_count == MAX_MEMORY) {
        fputs("make_run: too many tensors\n", stderr);
        exit(1);
    }
    return memories[memory_count++] = memory;
}

static void free_memories(void) {
    while (memory_count > 0) {
        free(memories[--memory_count]);
    }
}

static size_t count_of(int ndim, const int64_t *shape) {
    size_t count = 1;
    for (int i = 0; i < ndim; i++) {
        count *= (size_t)shape[i];
    }
    return count;
}

/* Multiples of 1/64 from -1 to 1, exact in every float type from bfloat16 up, that depend on name,
 * step and place. */
static float value_of(const char *name, int64_t step, size_t i) {
    uint64_t h = (uint64_t)step / 100 + i * 37;
    for (; *name != '\0'; name++) {
        h = h * 31 + (unsigned char)*name;
    }
    return (float)((int64_t)(h % 129) - 64) / 64.0F;
}

static void add(pawl_state *state, const char *name, pawl_dtype dtype, int ndim,
                const int64_t *shape, void *data, const char *slot_of, const char *slot) {
    pawl_tensor tensor = {.struct_size = sizeof tensor,
                          .name = name,
                          .dtype = dtype,
                          .ndim = ndim,
                          .shape = shape,
                          .data = data,
                          .role = slot_of != NULL ? PAWL_ROLE_SLOT : PAWL_ROLE_MODEL,
                          .slot_of = slot_of,
                          .slot = slot};
    must(pawl_state_add_tensor(state, &tensor, err));
}

static void add_floats(pawl_state *state, const char *name, int64_t step, int ndim,
                       const int64_t *shape, const char *slot_of, const char *slot) {
    size_t count = count_of(ndim, shape);
    float *data = keep(must_memory(count * sizeof *data));
    for (size_t i = 0; i < count; i++) {
        data[i] = value_of(name, step, i);
    }
    add(state, name, PAWL_F32, ndim, shape, data, slot_of, slot);
}

/* ---- variants ---- */

static void add_values(pawl_state *state, int64_t step, const char *optimizer, double rate) {
    static const char signature[] =
        "[{\"name\": \"images\", \"dtype\": \"F32\", \"shape\": [64, 28, 28]}]";
    unsigned char random[16];
    for (size_t i = 0; i < sizeof random; i++) {
        random[i] = (unsigned char)((size_t)step / 100 + i * 17);
    }
    pawl_role hyper = PAWL_ROLE_HYPERPARAMETER;
    must(pawl_state_set_string(state, PAWL_OPTIMIZER_CLASS, hyper, optimizer, err));
    must(pawl_state_set_float64(state, "optimizer/learning_rate", hyper, rate, err));
    must(pawl_state_set_bool(state, "optimizer/decoupled", hyper, 1, err));
    must(pawl_state_set_int64(state, "step", PAWL_ROLE_STEP, step, err));
    must(pawl_state_set_int64(state, "data/position", PAWL_ROLE_DATA_POSITION,
                              step % (INT64_MAX / 64) * 64, err));
    must(pawl_state_set_json(state, "data/signature", PAWL_ROLE_BATCH_SIGNATURE, signature, err));
    must(pawl_state_set_rank_bytes(state, "rng/rank", PAWL_ROLE_RNG, random, sizeof random, err));
    must(pawl_state_set_bytes(state, "rng/shuffle", PAWL_ROLE_RNG, random, 8, err));
    must(pawl_state_set_string(state, "notes", PAWL_ROLE_OTHER,
                               "a string with \"quotes\",\n\033[31ma red line\033[0m and caf\u00e9",
                               err));
}

/* A layer and the slots of its optimizer; a NULL optimizer has none. */
static void add_layer(pawl_state *state, int64_t step, const char *layer, const int64_t *shape) {
    char name[128];
    char slot[160];
    snprintf(name, sizeof name, "model/%s/kernel", layer);
    add_floats(state, name, step, 2, shape, NULL, NULL);
    snprintf(slot, sizeof slot, "optimizer/m/%s", name);
    add_floats(state, slot, step, 2, shape, name, "adam/m");
    snprintf(slot, sizeof slot, "optimizer/v/%s", name);
    add_floats(state, slot, step, 2, shape, name, "adam/v");
    snprintf(name, sizeof name, "model/%s/bias", layer);
    add_floats(state, name, step, 1, shape + 1, NULL, NULL);
}

static void fill_base(pawl_state *state, int64_t step) {
    add_floats(state, "model/embedding/table", step, 2, (int64_t[]){32, 4}, NULL, NULL);
    add_layer(state, step, "dense", (int64_t[]){4, 3});
    add_values(state, step, "adamw", 0.001);
}

static void fill_renamed(pawl_state *state, int64_t step) {
    add_floats(state, "model/embedding/table", step, 2, (int64_t[]){32, 4}, NULL, NULL);
    add_layer(state, step, "dense_1", (int64_t[]){4, 3});
    add_values(state, step, "adamw", 0.001);
}

/* Another layer width, dtype, optimizer and learning rate, and a kind that changed. */
static void fill_resized(pawl_state *state, int64_t step) {
    const int64_t table[] = {32, 4};
    uint16_t *half = keep(must_memory(count_of(2, table) * sizeof *half));
    add(state, "model/embedding/table", PAWL_BF16, 2, table, half, NULL, NULL);
    add_layer(state, step, "dense", (int64_t[]){4, 5});
    add_values(state, step, "sgd", 0.1);
    must(pawl_state_remove(state, "notes", err));
    must(pawl_state_set_int64(state, "notes", PAWL_ROLE_OTHER, 7, err));
    must(pawl_state_remove(state, "data/position", err));
}

static void add_dtype(pawl_state *state, pawl_dtype dtype, bool changed) {
    enum { ELEMENTS = 8, MOST_BYTES = ELEMENTS * 8 };
    char name[64];
    unsigned char *data = keep(must_memory(MOST_BYTES));
    for (size_t i = 0; i < MOST_BYTES; i++) {
        data[i] = (unsigned char)(dtype == PAWL_BOOL ? i % 2 : i * 13 + 5);
    }
    data[0] ^= changed;
    snprintf(name, sizeof name, "dtypes/%s", pawl_dtype_name(dtype));
    add(state, name, dtype, 1, (int64_t[]){ELEMENTS}, data, NULL, NULL);
}

/* `changed`: one bit of each dtype is another, and so is one number of each special kind. */
static void fill_dtypes(pawl_state *state, int64_t step, bool changed) {
    const float special[] = {NAN, INFINITY, -INFINITY, -0.0F, 1e-45F, 3.4028235e38F, 0.1F};
    for (int dtype = PAWL_BOOL; dtype <= PAWL_U64; dtype++) {
        add_dtype(state, (pawl_dtype)dtype, changed);
    }
    float *numbers = keep(must_memory(sizeof special));
    memcpy(numbers, special, sizeof special);
    for (size_t i = 0; i < 4 && changed; i++) {
        numbers[i] = 0.5F * (float)i;
    }
    add(state, "special", PAWL_F32, 1, (int64_t[]){7}, numbers, NULL, NULL);
    add_floats(state, "shapes/scalar", step, 0, NULL, NULL, NULL);
    add_floats(state, "shapes/empty", step, 2, (int64_t[]){0, 3}, NULL, NULL);
    add_floats(state, "shapes/vector", step, 1, (int64_t[]){1000}, NULL, NULL);
    add_floats(state, "shapes/matrix", step, 2, (int64_t[]){40, 50}, NULL, NULL);
    add_floats(state, "shapes/cube", step, 3, (int64_t[]){3, 2, 4}, NULL, NULL);
    add_floats(state, "shapes/deep", step, 10, (int64_t[]){2, 2, 2, 2, 2, 2, 2, 2, 2, 3}, NULL,
               NULL);
}

static void fill_entries(pawl_state *state, int64_t step, int64_t entries) {
    float *data = keep(must_memory((size_t)entries * sizeof *data));
    for (int64_t i = 0; i < entries; i++) {
        char name[64];
        snprintf(name, sizeof name, "group%03d/tensor%07d", (int)(i / 1000), (int)i);
        data[i] = value_of("entries", step, (size_t)i);
        add(state, name, PAWL_F32, 1, (int64_t[]){1}, &data[i], NULL, NULL);
    }
}

static void fill_asked(const request *r, pawl_state *state, int64_t step) {
    for (size_t i = 0; i < r->added_count; i++) {
        char slot[2048];
        snprintf(slot, sizeof slot, "optimizer/m/%s", r->added[i]);
        add_floats(state, r->added[i], step, 2, (int64_t[]){4, 3}, NULL, NULL);
        add_floats(state, slot, step, 2, (int64_t[]){4, 3}, r->added[i], "adam/m");
    }
    if (r->text != NULL) {
        must(pawl_state_set_string(state, "text/string", PAWL_ROLE_HYPERPARAMETER, r->text, err));
    }
    if (r->json != NULL) {
        must(pawl_state_set_json(state, "text/json", PAWL_ROLE_OTHER, r->json, err));
    }
    if (r->elements > 0) {
        add_floats(state, "large", step, 1, &r->elements, NULL, NULL);
    }
}

static void fill(const request *r, pawl_state *state, int64_t step) {
    if (r->entries > 0) {
        fill_entries(state, step, r->entries);
    } else if (strcmp(r->variant, "dtypes") == 0) {
        fill_dtypes(state, step, false);
    } else if (strcmp(r->variant, "changed") == 0) {
        fill_dtypes(state, step, true);
    } else if (strcmp(r->variant, "resized") == 0) {
        fill_resized(state, step);
    } else if (strcmp(r->variant, "renamed") == 0) {
        fill_renamed(state, step);
    } else {
        fill_base(state, step);
    }
    fill_asked(r, state, step);
}

/* ---- the run ---- */

static void save_step(const request *r, pawl_run *run, int64_t step) {
    pawl_state *state = NULL;
    pawl_metric metrics[] = {{"loss", 2.5 - (double)step / 4000}, {"accuracy", 0.5}};
    pawl_save_options options = {.struct_size = sizeof options,
                                 .metrics = metrics,
                                 .metric_count = 2,
                                 .metric_size = sizeof(pawl_metric),
                                 .pin = step == r->pin};
    must(pawl_state_new(&state, err));
    fill(r, state, step);
    must(pawl_save(run, state, step, &options, err));
    must(pawl_wait(run, 0, NULL, err));
    pawl_state_free(state);
    free_memories();
}

static void hold(const char *file) {
    FILE *ready = fopen(file, "w");
    if (ready == NULL || fclose(ready) != 0) {
        perror(file);
        exit(1);
    }
    sleep(HOLD_S);
}

/* The value of `--name=value`, or NULL when the word is another one. */
static const char *option(const char *word, const char *name) {
    size_t n = strlen(name);
    return strncmp(word, name, n) == 0 && word[n] == '=' ? word + n + 1 : NULL;
}

static void parse_steps(request *r, const char *text) {
    r->step_count = 0;
    for (char *end = NULL; *text != '\0' && r->step_count < MAX_STEPS; text = end) {
        r->steps[r->step_count++] = strtoll(text, &end, 10);
        end += *end == ',';
    }
}

static bool parse(request *r, int argc, char **argv) {
    *r = (request){.variant = "base", .steps = {1000}, .step_count = 1, .pin = -1, .read = -1};
    for (int i = 1; i < argc; i++) {
        const char *value = NULL;
        if ((value = option(argv[i], "--steps")) != NULL) {
            parse_steps(r, value);
        } else if ((value = option(argv[i], "--variant")) != NULL) {
            r->variant = value;
        } else if ((value = option(argv[i], "--entries")) != NULL) {
            r->entries = atoll(value);
        } else if ((value = option(argv[i], "--elements")) != NULL) {
            r->elements = atoll(value);
        } else if ((value = option(argv[i], "--pin")) != NULL) {
            r->pin = atoll(value);
        } else if ((value = option(argv[i], "--read")) != NULL) {
            r->read = atoll(value);
        } else if ((value = option(argv[i], "--hold")) != NULL) {
            r->hold = value;
        } else if ((value = option(argv[i], "--text")) != NULL) {
            r->text = value;
        } else if ((value = option(argv[i], "--json")) != NULL) {
            r->json = value;
        } else if ((value = option(argv[i], "--add")) != NULL && r->added_count < MAX_ADDED) {
            r->added[r->added_count++] = value;
        } else if (argv[i][0] != '-' && r->run == NULL) {
            r->run = argv[i];
        } else {
            return false;
        }
    }
    return r->run != NULL;
}

static void read_step(const request *r) {
    pawl_checkpoint *checkpoint = NULL;
    const pawl_open_options options = {.struct_size = sizeof options, .step = &r->read};
    must(pawl_checkpoint_open(r->run, &options, &checkpoint, err));
    if (r->hold != NULL) {
        hold(r->hold);
    }
    pawl_checkpoint_close(checkpoint);
}

static void write_steps(const request *r) {
    pawl_run *run = NULL;
    pawl_run_options options = {.struct_size = sizeof options,
                                .framework = r->text != NULL ? r->text : "make_run 1"};
    must(pawl_run_open(r->run, &options, &run, err));
    for (size_t i = 0; i < r->step_count; i++) {
        save_step(r, run, r->steps[i]);
    }
    if (r->hold != NULL) {
        hold(r->hold);
    }
    must(pawl_run_close(run, 0, err));
}

int main(int argc, char **argv) {
    request r;
    if (!parse(&r, argc, argv)) {
        fputs("usage: make_run RUN [--steps=N,N] [--variant=NAME] [--entries=N] [--elements=N] "
              "[--pin=N] [--hold=FILE] [--read=N] [--add=NAME]... [--text=TEXT] [--json=JSON]\n",
              stderr);
        return 2;
    }
    err = pawl_error_new();
    if (r.read >= 0) {
        read_step(&r);
    } else {
        write_steps(&r);
    }
    pawl_error_free(err);
    return 0;
}
