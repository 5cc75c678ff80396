/* SPDX-License-Identifier: Apache-2.0 */
/* Time and memory grow with what is read, and no faster: metrics, the manifest, data files, marks
 * of readers, events. Where it is a matter of time, work that is ten times as much may take thirty
 * times as long; what grows with the square takes a hundred. */
#include "lib/directory.h"
#include "lib/test.h"
#include "stores/stores.h"

#include "checkpoint/checkpoint.h"
#include "format/manifest.h"
#include "presence/reader_watch.h"
#include "run/run.h"

#include <pawl/pawl.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST_GROWTH 30.0
#define LEAST_S     0.02 /* of what is compared: less is mostly the start of a process */
#define MIB         (UINT64_C(1) << 20)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SHADOW 4u /* bytes of memory to a byte that a program has */
#else
#define SHADOW 1u
#endif

typedef struct fixture {
    char path[64];
    pawl_error *err;
} fixture;

/* In memory: the disk's time is no matter here. */
static int set_up(void **state) {
    static fixture f;
    directory_new(f.path, "/dev/shm");
    f.err = pawl_error_new();
    *state = &f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    directory_delete(f->path);
    pawl_error_free(f->err);
    return 0;
}

static void save(fixture *f, const pawl_metric *metrics, size_t count) {
    pawl_state *state;
    pawl_run *run;
    const pawl_run_options options = {.struct_size = sizeof options};
    const pawl_save_options what = {.struct_size = sizeof what,
                                    .metrics = metrics,
                                    .metric_count = count,
                                    .metric_size = sizeof(pawl_metric)};
    assert_ok(pawl_state_new(&state, f->err), f->err);
    assert_ok(pawl_state_set_int64(state, "i", PAWL_ROLE_OTHER, 1, f->err), f->err);
    assert_ok(pawl_run_open(f->path, &options, &run, f->err), f->err);
    assert_ok(pawl_save(run, state, 10, &what, f->err), f->err);
    assert_ok(pawl_wait(run, 0, NULL, f->err), f->err);
    assert_ok(pawl_run_close(run, 0, f->err), f->err);
    pawl_state_free(state);
}

/* ---- the command, measured ------------------------------------------------------------------ */

typedef struct cost {
    double cpu_s;
    uint64_t peak_bytes;
} cost;

static double seconds_of(struct timeval t) {
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

/* `option` may be NULL. Shows nothing; ends well. */
static cost run_command(const char *verb, const char *operand, const char *option) {
    struct rusage used;
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
        (void)dup2(nowhere, STDOUT_FILENO);
        execl(PAWL_COMMAND, "pawl", verb, operand, option, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(wait4(child, &status, 0, &used), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    return (cost){.cpu_s = seconds_of(used.ru_utime) + seconds_of(used.ru_stime),
                  .peak_bytes = (uint64_t)used.ru_maxrss * 1024};
}

/* The best of three, lest it be another program's work that is compared. */
static double best_of(double best, double s) {
    return best < 0 || s < best ? s : best;
}

static void assert_linear(const char *what, double small_s, double large_s) {
    double growth = large_s / (small_s > LEAST_S ? small_s : LEAST_S);
    if (growth > MOST_GROWTH) {
        fail_msg("%s: ten times as much takes %.1f times as long (%.3f s, %.3f s)", what, growth,
                 small_s, large_s);
    }
}

/* ---- metrics -------------------------------------------------------------------------------- */

#define NAME_BYTES 200

static void save_metrics(fixture *f, size_t count) {
    AUTOFREE pawl_metric *metrics = mem_calloc(count, sizeof *metrics);
    AUTOFREE char *names = mem_alloc(count * (NAME_BYTES + 1));
    for (size_t i = 0; i < count; i++) {
        char *name = names + i * (NAME_BYTES + 1);
        (void)snprintf(name, NAME_BYTES + 1, "%0*zu", NAME_BYTES, i);
        metrics[i] = (pawl_metric){name, 1};
    }
    save(f, metrics, count);
}

/* The text of all metrics was copied once for each of them. */
static void test_26_metrics_are_put_together_once(void **state) {
    fixture *f = *state;
    double times[2][2] = {{-1, -1}, {-1, -1}};
    for (int large = 0; large < 2; large++) {
        save_metrics(f, large ? PAWL_MAX_METRICS : PAWL_MAX_METRICS / 10);
        for (int i = 0; i < 3; i++) {
            times[0][large] = best_of(times[0][large], run_command("ls", f->path, NULL).cpu_s);
            times[1][large] = best_of(times[1][large], run_command("show", f->path, NULL).cpu_s);
        }
    }
    assert_linear("ls", times[0][0], times[0][1]);
    assert_linear("show", times[1][0], times[1][1]);
}

/* ---- the manifest --------------------------------------------------------------------------- */

static pawl_status read_manifest(const fixture *f, buffer *text, pawl_error *err) {
    store *s;
    TRY(store_posix(f->path, &s, err));
    pawl_status status =
        store_read_file(s, "step-00000010/manifest.json", FORMAT_MAX_MANIFEST, text, err);
    store_destroy(s);
    return status;
}

static void write_manifest(const fixture *f, const buffer *text) {
    FILE *file = fopen(directory_path(f->path, "step-00000010/manifest.json"), "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text->data, 1, text->size, file), text->size);
    assert_int_equal(fclose(file), 0);
}

/* Adds a member that nobody knows, a list of lists; returns the bytes of the whole. */
static uint64_t add_lists(const fixture *f, size_t count) {
    struct pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer text = {0};
    assert_ok(read_manifest(f, &text, &err), &err);
    text.size -= strlen("  \"crc32c\": \"00000000\"\n}\n");
    assert_ok(buffer_printf(&text, &err, "  \"lists\": [[]"), &err);
    for (size_t i = 1; i < count; i++) {
        assert_ok(buffer_append(&text, ",[]", 3, &err), &err);
    }
    assert_ok(buffer_printf(&text, &err, "],\n"), &err);
    uint32_t crc = crc32c(0, text.data, text.size);
    assert_ok(buffer_printf(&text, &err, "  \"crc32c\": \"%08x\"\n}\n", crc), &err);
    write_manifest(f, &text);
    return text.size;
}

/* The manifest was parsed a second time for show, into 45 times its size. */
static void test_26_show_takes_no_more_than_the_manifest(void **state) {
    fixture *f = *state;
    save(f, NULL, 0);
    uint64_t bytes = add_lists(f, 4000000);
    static const char *const options[] = {"--json", NULL};
    for (size_t i = 0; i < ARRAY_LENGTH(options); i++) {
        uint64_t peak = run_command("show", f->path, options[i]).peak_bytes;
        if (peak > (2 * bytes + 64 * MIB) * SHADOW) {
            fail_msg("show%s of a manifest of %llu bytes takes %llu", i == 0 ? " --json" : "",
                     (unsigned long long)bytes, (unsigned long long)peak);
        }
    }
}

/* ---- data files ----------------------------------------------------------------------------- */

/* A checkpoint of so many ranks, each with an empty file. */
static void name_files(const fixture *f, int count) {
    struct pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer text = {0};
    CLEANUP(manifest_free) manifest m = {0};
    assert_ok(read_manifest(f, &text, &err), &err);
    assert_ok(manifest_decode(text.data, text.size, &m, &err), &err);
    m.files = arena_alloc(&m.memory, (size_t)count * sizeof *m.files);
    m.file_count = (size_t)count;
    m.world_size = count;
    for (int i = 0; i < count; i++) {
        char *name =
            arena_printf(&m.memory, "data-aaaaaaaaaaaa-3-r%05d-00000-of-00001.safetensors", i);
        char path[160];
        (void)snprintf(path, sizeof path, "step-00000010/%s", name);
        FILE *file = fopen(directory_path(f->path, path), "w");
        assert_non_null(file);
        assert_int_equal(fclose(file), 0);
        m.files[i] = (manifest_file){.name = name, .rank = i};
    }
    text.size = 0;
    assert_ok(manifest_encode(&m, &text, &err), &err);
    write_manifest(f, &text);
}

/* Each name in the directory was compared with each that the manifest names. */
static void test_26_gc_looks_each_name_up(void **state) {
    fixture *f = *state;
    double small_s = -1, large_s = -1;
    save(f, NULL, 0);
    name_files(f, 4000);
    for (int i = 0; i < 3; i++) {
        small_s = best_of(small_s, run_command("gc", f->path, "--dry-run").cpu_s);
    }
    name_files(f, 40000);
    for (int i = 0; i < 2; i++) {
        large_s = best_of(large_s, run_command("gc", f->path, "--dry-run").cpu_s);
    }
    assert_linear("gc", small_s, large_s);
}

/* ---- readers' marks ------------------------------------------------------------------------- */

static double cpu_s(void) {
    struct timespec now;
    assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now), 0);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Two looks at `directories` with so many marks each; the second finds all standing still. */
static double watch(int directories, int marks) {
    struct pawl_error err = ERROR_INIT;
    reader_watch *w;
    double begun_s = cpu_s();
    assert_ok(reader_watch_new(&w, &err), &err);
    for (uint64_t look = 0; look < 2; look++) {
        for (int d = 0; d < directories; d++) {
            char directory[32];
            (void)snprintf(directory, sizeof directory, "step-%08d", d);
            for (int i = 0; i < marks; i++) {
                char name[32];
                bool stale;
                (void)snprintf(name, sizeof name, "reader-%012x", i);
                assert_ok(reader_watch_judge(w, directory, name, 1, look * UINT64_C(2000000000), 1,
                                             &stale, &err),
                          &err);
                assert_int_equal(stale, look == 1);
            }
            reader_watch_end(w, directory);
        }
    }
    reader_watch_free(w);
    return cpu_s() - begun_s;
}

/* Each mark was compared with each that was seen before, in whatever directory. */
static void test_26_marks_are_looked_up(void **state) {
    (void)state;
    assert_linear("marks of a step", watch(1, 10000), watch(1, 100000));
    assert_linear("steps with a mark", watch(10000, 1), watch(100000, 1));
}

/* What is gone from a directory is forgotten, and what comes again is a new one. */
static void test_26_marks_that_are_gone_are_forgotten(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    static const char *const looks[][2] = {
        {"reader-b", "reader-a"}, {"reader-a", NULL}, {"reader-b", "reader-a"}};
    static const bool stale_then[][2] = {{false, false}, {true, false}, {false, true}};
    reader_watch *w;
    assert_ok(reader_watch_new(&w, &err), &err);
    for (size_t look = 0; look < ARRAY_LENGTH(looks); look++) {
        for (size_t i = 0; i < 2 && looks[look][i] != NULL; i++) {
            bool stale;
            assert_ok(reader_watch_judge(w, "step-00000001", looks[look][i], 1,
                                         look * UINT64_C(2000000000), 1, &stale, &err),
                      &err);
            assert_int_equal(stale, stale_then[look][i]);
        }
        reader_watch_end(w, "step-00000001");
        reader_watch_end(w, "step-00000002");
    }
    reader_watch_free(w);
}

/* ---- events --------------------------------------------------------------------------------- */

#define EVENT                                                                                      \
    "{\"event\":\"save_ended\",\"step\":7,\"unix_time_ns\":1,\"status\":\"ok\",\"done_bytes\":1,"  \
    "\"of_bytes\":1,\"seconds\":1}\n"

typedef struct counted {
    uint64_t bytes;
} counted;

static void count_bytes(void *context, const store_trace_event *event) {
    counted *c = context;
    c->bytes += event->op == STORE_OP_READ ? event->bytes : 0;
    if (c->bytes > 4 * (uint64_t)PAWL_EVENTS_MAX_BYTES) { /* it would go on for hours */
        fail_msg("more was read than a file of events can have");
    }
}

/* How many events there are in a file of so many bytes, zeros or ends of lines, with one at its
 * end. */
static int events_of(fixture *f, uint64_t bytes) {
    struct pawl_error err = ERROR_INIT;
    counted c = {0};
    store *disk, *traced;
    pawl_events *events;
    pawl_event event = {.struct_size = sizeof event};
    int more = 1, count = -1;
    FILE *file = fopen(directory_path(f->path, NAME_EVENTS), "w");
    assert_non_null(file);
    assert_int_equal(ftruncate(fileno(file), (off_t)bytes), 0);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    assert_true(fputs("\n" EVENT, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_ok(store_posix(f->path, &disk, &err), &err);
    assert_ok(store_trace_wrap(disk, platform_system(), count_bytes, &c, &traced, &err), &err);
    assert_ok(events_open(traced, true, &events, &err), &err);
    for (; more; count++) {
        assert_ok(events_next(events, &event, &more, &err), &err);
        assert_true(!more || event.step == 7);
    }
    pawl_events_close(events);
    store_destroy(disk);
    return count;
}

/* Of a file without end the end is read, and no more than pawl writes into one. */
static void test_26_events_without_end(void **state) {
    fixture *f = *state;
    assert_int_equal(events_of(f, 0), 1);
    assert_int_equal(events_of(f, PAWL_EVENTS_MAX_BYTES + 1), 1);
    assert_int_equal(events_of(f, UINT64_C(1) << 40), 1);
}

/* What stands in the place of the events and is no file is an error at once. */
static void test_26_events_that_are_no_file(void **state) {
    fixture *f = *state;
    pawl_events *events;
    static const mode_t kinds[] = {S_IFIFO, S_IFDIR, S_IFSOCK};
    for (size_t i = 0; i < ARRAY_LENGTH(kinds); i++) {
        if (kinds[i] == S_IFDIR) {
            assert_int_equal(mkdir(directory_path(f->path, NAME_EVENTS), 0777), 0);
        } else {
            assert_int_equal(mknod(directory_path(f->path, NAME_EVENTS), kinds[i] | 0666, 0), 0);
        }
        assert_true(pawl_events_open(f->path, NULL, &events, f->err) != PAWL_OK);
        assert_int_equal(remove(directory_path(f->path, NAME_EVENTS)), 0);
    }
}

#define GROWTH_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        GROWTH_TEST(test_26_metrics_are_put_together_once),
        GROWTH_TEST(test_26_show_takes_no_more_than_the_manifest),
        GROWTH_TEST(test_26_gc_looks_each_name_up),
        GROWTH_TEST(test_26_marks_are_looked_up),
        GROWTH_TEST(test_26_marks_that_are_gone_are_forgotten),
        GROWTH_TEST(test_26_events_without_end),
        GROWTH_TEST(test_26_events_that_are_no_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
