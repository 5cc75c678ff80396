/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tour: hands every struct of the public headers to the library, or takes it from there, and prints
 * what comes of it. test_structs.py compiles it against headers in which structs are shorter or
 * longer than the library's, and says in variant.h how:
 *
 *     LAST_pawl_box(it, value)    sets the last member, where the headers have it
 *     ADD_pawl_box(it)            sets the added member, where it is to be set
 *     ADDED_pawl_box(it)          1 where there is none, or it is zero
 *     KNOWN_pawl_box(it)          of what pawl handed out: 1 where PAWL_HAS tells truly
 *
 * The first line that differs from what the program prints with the library's own headers is a
 * struct that was misread, or written beyond its end.
 */
#include <pawl/pawl.h>

#include "variant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 6

static pawl_error *err;

/* ---- outputs -------------------------------------------------------------------------------- */

/* Behind an output lie bytes that nobody may change; AddressSanitizer watches them itself. */
#if defined(__SANITIZE_ADDRESS__)
#define GUARD_BYTES 0
#else
#define GUARD_BYTES 64
#endif

/* An output that is full of what must not stay where the library fills it. */
static void *output_new(size_t size) {
    unsigned char *bytes = malloc(size + GUARD_BYTES);
    if (bytes == NULL) {
        abort();
    }
    memset(bytes, 0xa5, size + GUARD_BYTES);
    memcpy(bytes, &size, sizeof size);
    return bytes;
}

static void output_end(const char *type, void *output, size_t size) {
    unsigned char *bytes = output;
    size_t kept = 0;
    memcpy(&kept, bytes, sizeof kept);
    if (kept != size) {
        printf("%s: its struct_size was changed\n", type);
    }
    for (size_t i = 0; i < GUARD_BYTES; i++) {
        if (bytes[size + i] != 0xa5) {
            printf("%s: written beyond its end\n", type);
            break;
        }
    }
    free(bytes);
}

#define OUTPUT(type, name) type *name = output_new(sizeof(type))
#define OUTPUT_END(type, name)                                                                     \
    printf("%s", ADDED_##type(name) ? "" : #type ": the added member is not zero\n");              \
    output_end(#type, name, sizeof(type))

/* What pawl handed out. */
#define HANDED_OUT(type, it)                                                                       \
    printf("%s", (it)->struct_size > 0 && KNOWN_##type(it) ? "" : #type ": PAWL_HAS lies\n")

/* ---- calls ---------------------------------------------------------------------------------- */

/* The first call that is refused ends the tour. */
static void must(const char *what, pawl_status status) {
    printf("%s: %s\n", what, pawl_status_name(status));
    if (status != PAWL_OK) {
        printf("%s\n", pawl_error_text(err));
        exit(0);
    }
}

static void on_log(void *context, pawl_log_level level, const char *text) {
    int *lines = context;
    (void)level;
    (void)text;
    ++*lines;
}

static void on_event(void *context, const pawl_event *event) {
    int *events = context;
    HANDED_OUT(pawl_event, event);
    if (event->kind == PAWL_EVENT_SAVE_ENDED) {
        HANDED_OUT(pawl_save_stats, event->stats);
        printf("event: step %lld, %s, %d\n", (long long)event->step,
               pawl_status_name(event->status), event->stats->bytes > 0);
    }
    ++*events;
}

static int go_on(void *context) {
    (void)context;
    return 0;
}

static void on_finding(void *context, const pawl_finding *finding) {
    int *findings = context;
    HANDED_OUT(pawl_finding, finding);
    *findings += finding->id[0] != '\0' && finding->severity >= PAWL_SEVERITY_NOTE;
}

static void on_problem(void *context, const pawl_problem *problem) {
    int *problems = context;
    HANDED_OUT(pawl_problem, problem);
    *problems += strlen(problem->file) > 0 && problem->length > 0;
}

static void on_difference(void *context, const pawl_diff_item *item) {
    int *differing = context;
    HANDED_OUT(pawl_diff_item, item);
    if (item->distances != NULL) {
        HANDED_OUT(pawl_distances, item->distances);
        *differing += (int)item->distances->differing;
    }
}

/* ---- stations ------------------------------------------------------------------------------- */

static float weights[ROWS][2];

/* Two boxes: an element of the wrong size would be seen at the second. */
static pawl_status start_out(void *context, const pawl_copy *const *copies, size_t count,
                             void **ticket, pawl_error *error) {
    (void)context;
    (void)ticket;
    (void)error;
    for (size_t i = 0; i < count; i++) {
        HANDED_OUT(pawl_copy, copies[i]);
        memset(copies[i]->host, 1, ROWS * sizeof(float)); /* the whole tensor */
    }
    return PAWL_OK;
}

static pawl_status start_in(void *context, const pawl_copy *const *copies, size_t count,
                            void **ticket, pawl_error *error) {
    (void)context;
    (void)copies;
    (void)count;
    (void)ticket;
    (void)error;
    return PAWL_OK;
}

/* Of a device that keeps nothing. It lives as long as the state. */
static void add_provided(pawl_state *state) {
    static const int64_t shape[] = {ROWS};
    static float host[ROWS];
    static pawl_memory memory;
    pawl_tensor tensor = {.struct_size = sizeof tensor,
                          .name = "provided",
                          .dtype = PAWL_F32,
                          .ndim = 1,
                          .shape = shape,
                          .data = host,
                          .memory = &memory};
    memset(host, 1, sizeof host);
    memory.struct_size = sizeof memory;
    memory.name = "device";
    memory.start_out = start_out;
    memory.start_in = start_in;
    ADD_pawl_memory(&memory);
    must("provided", pawl_state_add_tensor(state, &tensor, err));
}

static int at_once(void *context) {
    (void)context;
    return 1;
}

/* Copies that are made already. They live as long as the state. */
static void add_shadow(pawl_state *state) {
    static const int64_t shape[] = {ROWS};
    static float copied[ROWS];
    static pawl_shadow shadow;
    OUTPUT(pawl_memory, filled);
    static pawl_memory memory;
    pawl_tensor tensor = {.struct_size = sizeof tensor,
                          .name = "shadow",
                          .dtype = PAWL_F32,
                          .ndim = 1,
                          .shape = shape,
                          .data = copied,
                          .memory = &memory};
    shadow.struct_size = sizeof shadow;
    shadow.name = "copies";
    shadow.ready = at_once;
    LAST_pawl_shadow(&shadow, 0);
    ADD_pawl_shadow(&shadow);
    must("shadow", pawl_shadow_memory(&shadow, filled, err));
    memory = *filled;
    OUTPUT_END(pawl_memory, filled);
    LAST_pawl_tensor(&tensor, 1);
    must("copied", pawl_state_add_tensor(state, &tensor, err));
    must("not restored", pawl_state_remove(state, "shadow", err));
}

static pawl_state *make_state(const char *name) {
    static const int64_t shape[] = {ROWS, 2};
    static const int64_t upper[] = {0, 0};
    static const int64_t lower[] = {4, 0};
    static const int64_t four[] = {4, 2};
    static const int64_t two[] = {2, 2};
    pawl_state *state = NULL;
    pawl_box boxes[2] = {{.offset = upper, .extent = four}, {.offset = lower, .extent = two}};
    pawl_tensor tensor = {.struct_size = sizeof tensor,
                          .name = name,
                          .dtype = PAWL_F32,
                          .ndim = 2,
                          .shape = shape,
                          .nboxes = 2,
                          .boxes = boxes,
                          .box_size = sizeof(pawl_box)};
    LAST_pawl_box(&boxes[0], &weights[0]);
    LAST_pawl_box(&boxes[1], &weights[4]);
    ADD_pawl_box(&boxes[1]);
    ADD_pawl_tensor(&tensor);
    must("new state", pawl_state_new(&state, err));
    must("tensor", pawl_state_add_tensor(state, &tensor, err));
    add_provided(state);
    add_shadow(state);
    must("rate", pawl_state_set_float64(state, "rate", PAWL_ROLE_HYPERPARAMETER, 0.5, err));
    return state;
}

static pawl_run *open_run(const char *path, int *lines, int *events, const pawl_storage *storage) {
    pawl_run *run = NULL;
    pawl_group group = {.struct_size = sizeof group, .world_size = 1};
    pawl_retention retention = {.struct_size = sizeof retention, .keep_last = 1};
    pawl_log log = {.struct_size = sizeof log, .write = on_log, .context = lines};
    pawl_run_options options = {.struct_size = sizeof options,
                                .framework = "tour",
                                .retention = &retention,
                                .log = &log,
                                .storage = storage,
                                .group = &group,
                                .event = on_event,
                                .event_context = events};
    ADD_pawl_group(&group);
    ADD_pawl_retention(&retention);
    ADD_pawl_log(&log);
    ADD_pawl_run_options(&options);
    must("open", pawl_run_open(path, &options, &run, err));
    return run;
}

static void save(pawl_run *run, pawl_state *state, int64_t step) {
    pawl_metric metrics[2] = {{.name = "accuracy"}, {.name = "loss"}};
    pawl_save_options options = {.struct_size = sizeof options,
                                 .metrics = metrics,
                                 .metric_count = 2,
                                 .metric_size = sizeof(pawl_metric)};
    LAST_pawl_metric(&metrics[0], 0.25);
    LAST_pawl_metric(&metrics[1], 0.75);
    ADD_pawl_metric(&metrics[1]);
    ADD_pawl_save_options(&options);
    for (int i = 0; i < ROWS; i++) {
        weights[i][0] = weights[i][1] = (float)(step * 100 + i);
    }
    OUTPUT(pawl_save_stats, stats);
    must("save", pawl_save(run, state, step, &options, err));
    must("wait", pawl_wait(run, 0, stats, err));
    printf("saved step %lld: %d data files\n", (long long)stats->step, (int)stats->files);
    OUTPUT_END(pawl_save_stats, stats);
}

static void restore(pawl_run *run, const char *name) {
    pawl_state *state = make_state(name);
    pawl_report *report = NULL;
    pawl_rename renames[2] = {{.from = "nothing"}, {.from = "weights"}};
    pawl_restore_options options = {.struct_size = sizeof options,
                                    .renames = renames,
                                    .rename_count = 2,
                                    .rename_size = sizeof(pawl_rename)};
    LAST_pawl_rename(&renames[0], "something");
    LAST_pawl_rename(&renames[1], name);
    ADD_pawl_rename(&renames[1]);
    ADD_pawl_restore_options(&options);
    memset(weights, 0, sizeof weights);
    must("restore", pawl_restore(run, state, &options, &report, err));
    OUTPUT(pawl_report_counts, counts);
    must("totals", pawl_report_totals(report, counts, err));
    printf("restored %d: %g %g\n", (int)counts->restored, (double)weights[0][0],
           (double)weights[ROWS - 1][1]);
    OUTPUT_END(pawl_report_counts, counts);
    pawl_report_free(report);
    pawl_state_free(state);
}

/* Names that changed: the report says which rules would help. */
static void differ(pawl_run *run) {
    pawl_state *state = make_state("other");
    pawl_report *report = NULL;
    printf("differ: %s\n", pawl_status_name(pawl_restore(run, state, NULL, &report, err)));
    for (size_t i = 0; i < pawl_report_count(report); i++) {
        const pawl_report_item *item = pawl_report_get(report, i);
        HANDED_OUT(pawl_report_item, item);
        printf("difference %d, %s\n", (int)item->difference, item->name);
        for (size_t k = 0; k < item->remedy_count; k++) {
            HANDED_OUT(pawl_remedy, item->remedies[k]);
            printf("remedy %s\n", item->remedies[k]->option);
        }
    }
    const pawl_report_advice *next = pawl_report_next(report);
    HANDED_OUT(pawl_report_advice, next);
    for (size_t i = 0; i < next->remedy_count; i++) {
        HANDED_OUT(pawl_remedy, next->remedies[i]);
        printf("together %s\n", next->remedies[i]->option);
    }
    pawl_report_free(report);
    pawl_state_free(state);
}

static void look(const char *path, const pawl_open_options *options) {
    pawl_catalog *catalog = NULL;
    must("list", pawl_catalog_open(path, options, &catalog, err));
    for (size_t i = 0; i < pawl_catalog_count(catalog); i++) {
        const pawl_step_info *step = pawl_catalog_get(catalog, i);
        HANDED_OUT(pawl_step_info, step);
        printf("step %lld, %s\n", (long long)step->step, step->metrics_json);
    }
    pawl_catalog_free(catalog);
    pawl_survey *survey = NULL;
    must("survey", pawl_survey_open(path, options, &survey, err));
    for (size_t i = 0; i < pawl_survey_count(survey); i++) {
        const pawl_found *found = pawl_survey_get(survey, i);
        HANDED_OUT(pawl_found, found);
        printf("found %s, %s, %d steps\n", found->path, found->format, (int)found->steps);
    }
    printf("left out: %s\n", pawl_survey_left_out(survey) != NULL ? "some" : "nothing");
    pawl_survey_free(survey);
    OUTPUT(pawl_owner_info, owner);
    must("owner", pawl_owner_look(path, options, owner, err));
    printf("owner %d\n", (int)owner->state);
    OUTPUT_END(pawl_owner_info, owner);
    pawl_events *events = NULL;
    int more = 1;
    int count = 0;
    OUTPUT(pawl_event, event);
    must("events", pawl_events_open(path, options, &events, err));
    while (pawl_events_next(events, event, &more, err) == PAWL_OK && more) {
        count += event->step == 2 && event->kind >= PAWL_EVENT_SAVE_BEGUN;
    }
    printf("events of step 2: %d\n", count);
    OUTPUT_END(pawl_event, event);
    pawl_events_close(events);
}

static void read_slices(pawl_checkpoint *checkpoint) {
    const int64_t offset[2][2] = {{0, 0}, {1, 0}};
    const int64_t extent[] = {1, 2};
    float read[2][2] = {{0}};
    pawl_slice slices[2] = {{.name = "weights", .to = read[0], .to_bytes = sizeof read[0]},
                            {.name = "weights", .to = read[1], .to_bytes = sizeof read[1]}};
    slices[0].offset = offset[0];
    slices[1].offset = offset[1];
    slices[0].extent = slices[1].extent = extent;
    LAST_pawl_slice(&slices[0], PAWL_EINTERNAL);
    LAST_pawl_slice(&slices[1], PAWL_EINTERNAL);
    ADD_pawl_slice(&slices[1]);
    must("slices", pawl_checkpoint_read_many(checkpoint, slices, sizeof slices[0], 2, err));
    printf("slices %g %g\n", (double)read[0][1], (double)read[1][0]);
}

static void look_into(pawl_checkpoint *checkpoint) {
    read_slices(checkpoint);
    pawl_entries *entries = NULL;
    pawl_view *view = NULL;
    int more = 0;
    OUTPUT(pawl_checkpoint_info, about);
    must("describe", pawl_checkpoint_describe(checkpoint, about, err));
    printf("step %lld of %s, %d entries\n", (long long)about->step, about->framework,
           (int)about->entries);
    OUTPUT_END(pawl_checkpoint_info, about);
    OUTPUT(pawl_entry_info, info);
    must("find", pawl_checkpoint_find(checkpoint, "weights", info, err));
    printf("%s: %d bytes\n", info->name, (int)info->bytes);
    must("walk", pawl_entries_open(checkpoint, "", &entries, err));
    must("next", pawl_entries_next(entries, info, &more, err));
    printf("%s: %s\n", info->name, pawl_kind_name(info->kind));
    pawl_entries_free(entries);
    OUTPUT_END(pawl_entry_info, info);
    OUTPUT(pawl_view_info, piece);
    must("view", pawl_view_open(checkpoint, "weights", 0, &view, err));
    must("piece", pawl_view_describe(view, piece, err));
    printf("piece of %d rows\n", (int)piece->extent[0]);
    pawl_view_close(view);
    OUTPUT_END(pawl_view_info, piece);
    OUTPUT(pawl_read_stats, reads);
    must("reads", pawl_checkpoint_reads(checkpoint, reads, err));
    printf("read %d times\n", reads->reads > 0);
    OUTPUT_END(pawl_read_stats, reads);
}

static void verify(pawl_checkpoint *checkpoint, const char *what) {
    int problems = 0;
    pawl_verify_options options = {
        .struct_size = sizeof options, .problem = on_problem, .context = &problems};
    ADD_pawl_verify_options(&options);
    OUTPUT(pawl_verify_result, result);
    pawl_status status = pawl_checkpoint_verify(checkpoint, &options, result, err);
    printf("%s: %s, %d files, %d problems\n", what, pawl_status_name(status), (int)result->files,
           problems);
    if (status == PAWL_EUNSUPPORTED) {
        must(what, status);
    }
    OUTPUT_END(pawl_verify_result, result);
}

/* A run beside the other, whose weights differ in one number. */
static void save_beside(const char *path, const pawl_storage *storage) {
    int lines = 0;
    int events = 0;
    weights[0][0] += 1;
    pawl_state *state = make_state("weights");
    pawl_run *run = open_run(path, &lines, &events, storage);
    save(run, state, 2);
    must("close", pawl_run_close(run, 0, err));
    pawl_state_free(state);
}

static void compare(pawl_checkpoint *a, const char *path, const pawl_storage *storage) {
    int differing = 0;
    pawl_checkpoint *b = NULL;
    const char *const turned = "provided";
    pawl_rename rename = {.from = "weights"};
    pawl_diff_options options = {.struct_size = sizeof options,
                                 .difference = on_difference,
                                 .context = &differing,
                                 .renames = &rename,
                                 .rename_size = sizeof rename,
                                 .rename_count = 1,
                                 .transpose = &turned};
    LAST_pawl_rename(&rename, "weights");
    LAST_pawl_diff_options(&options, 1);
    ADD_pawl_diff_options(&options);
    OUTPUT(pawl_diff_result, result);
    pawl_open_options newest = {.struct_size = sizeof newest, .storage = storage};
    char beside[4096];
    (void)snprintf(beside, sizeof beside, "%s-beside", path);
    save_beside(beside, storage);
    must("open beside", pawl_checkpoint_open(beside, &newest, &b, err));
    must("diff", pawl_checkpoint_diff(a, b, &options, result, err));
    printf("diff: %d same, %d different, %d numbers\n", (int)result->same, (int)result->different,
           differing);
    OUTPUT_END(pawl_diff_result, result);
    pawl_checkpoint_close(b);
}

static void on_item(void *context, const pawl_convert_item *item) {
    int *converted = context;
    HANDED_OUT(pawl_convert_item, item);
    *converted += item->fate == PAWL_CONVERTED;
}

static void convert(pawl_checkpoint *from, const char *path) {
    int converted = 0;
    char there[4096];
    pawl_convert_options options = {
        .struct_size = sizeof options, .drop = 1, .item = on_item, .context = &converted};
    ADD_pawl_convert_options(&options);
    OUTPUT(pawl_convert_result, result);
    (void)snprintf(there, sizeof there, "%s-converted.safetensors", path);
    must("convert", pawl_convert(from, there, &options, result, err));
    printf("convert: %s, %d tensors, %d items\n", result->format, (int)result->tensors, converted);
    OUTPUT_END(pawl_convert_result, result);
}

/* Flips a byte in the middle of the step's data file. */
static void damage(pawl_checkpoint *checkpoint) {
    char path[4096];
    OUTPUT(pawl_checkpoint_info, about);
    must("describe", pawl_checkpoint_describe(checkpoint, about, err));
    const char *name = strstr(about->manifest_json, "\"data-");
    (void)snprintf(path, sizeof path, "%s/%.*s", about->path, (int)strcspn(name + 1, "\""),
                   name + 1);
    OUTPUT_END(pawl_checkpoint_info, about);
    FILE *file = fopen(path, "r+b");
    if (file == NULL || fseek(file, -1, SEEK_END) != 0) {
        abort();
    }
    int last = fgetc(file);
    (void)fseek(file, -1, SEEK_END);
    (void)fputc(~last & 0xff, file);
    (void)fclose(file);
}

static void diagnose(const char *path, const pawl_storage *storage) {
    int findings = 0;
    pawl_report *report = NULL;
    pawl_doctor_options options = {
        .struct_size = sizeof options, .need_bytes = 1, .storage = storage, .report = &report};
    LAST_pawl_doctor_options(&options, go_on);
    ADD_pawl_doctor_options(&options);
    must("doctor", pawl_doctor(path, &options, on_finding, &findings, NULL, err));
    printf("the doctor finds something: %d\n", findings > 0);
}

static void check(void) {
    static const int64_t shape[] = {2};
    static const float numbers[] = {1, 2};
    pawl_batch_check *batches = NULL;
    pawl_array arrays[2] = {
        {.name = "a", .dtype = PAWL_F32, .ndim = 1, .shape = shape, .data = numbers},
        {.name = "b", .dtype = PAWL_F32, .ndim = 1, .shape = shape, .data = numbers}};
    LAST_pawl_array(&arrays[0], NULL);
    LAST_pawl_array(&arrays[1], NULL);
    ADD_pawl_array(&arrays[1]);
    must("check", pawl_batch_check_new(&batches, err));
    must("batch", pawl_batch_check_next(batches, arrays, 2, sizeof(pawl_array), err));
    printf("%s\n", pawl_batch_check_signature(batches));
    pawl_batch_check_free(batches);
    must("gradients", pawl_check_gradients(arrays, 2, arrays, 2, sizeof(pawl_array), err));
}

static void discover(void) {
    static const char *const environment[] = {"PMI_RANK=1", "PMI_SIZE=2", NULL};
    OUTPUT(pawl_group_found, found);
    must("discover", pawl_group_discover(environment, found, err));
    printf("rank %d of %d\n", found->rank, found->world_size);
    OUTPUT_END(pawl_group_found, found);
}

/* No kind has settings yet: the second is refused, by its name. */
static void set(void) {
    pawl_setting settings[2] = {{.name = "a"}, {.name = "b"}};
    pawl_storage_options options = {.struct_size = sizeof options, .settings = settings};
    pawl_storage *storage = NULL;
    LAST_pawl_storage_options(&options, sizeof(pawl_setting));
    LAST_pawl_setting(&settings[0], "1");
    LAST_pawl_setting(&settings[1], "2");
    ADD_pawl_setting(&settings[0]);
    options.setting_count = 1;
    pawl_status status = pawl_storage_open("file", &options, &storage, err);
    printf("settings: %s\n%s\n", pawl_status_name(status), pawl_error_text(err));
}

static pawl_storage *open_storage(void) {
    pawl_storage *storage = NULL;
    pawl_storage_options options = {.struct_size = sizeof options};
    ADD_pawl_storage_options(&options);
    must("storage", pawl_storage_open("file", &options, &storage, err));
    return storage;
}

int main(int argc, char **argv) {
    const char *path = argc > 1 ? argv[1] : "run";
    const int64_t second = 2;
    int lines = 0;
    int events = 0;
    err = pawl_error_new();
    check();
    discover();
    set();
    pawl_storage *storage = open_storage();
    pawl_state *state = make_state("weights");
    pawl_run *run = open_run(path, &lines, &events, storage);
    save(run, state, 1);
    save(run, state, 2);
    restore(run, "renamed");
    differ(run);
    must("close", pawl_run_close(run, 0, err));
    pawl_state_free(state);
    printf("events: %d\n", events > 0);
    pawl_open_options options = {.struct_size = sizeof options, .storage = storage};
    ADD_pawl_open_options(&options);
    look(path, &options);
    pawl_checkpoint *checkpoint = NULL;
    LAST_pawl_open_options(&options, &second);
    must("open step", pawl_checkpoint_open(path, &options, &checkpoint, err));
    look_into(checkpoint);
    compare(checkpoint, path, storage);
    convert(checkpoint, path);
    verify(checkpoint, "verify");
    damage(checkpoint);
    verify(checkpoint, "verify damage");
    pawl_checkpoint_close(checkpoint);
    diagnose(path, storage);
    pawl_storage_close(storage);
    pawl_error_free(err);
    return 0;
}
