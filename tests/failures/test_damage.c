/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints that are not what was written: damaged, hostile, newer, or not there at all. */
#include "failures.h"
#include "lib/at_step.h"

#include <sys/stat.h>
#include <unistd.h>

typedef struct fixture {
    trainer t;
    char path[64];
    pawl_checkpoint *checkpoint;
    char problems[8192];
} fixture;

static int set_up(void **state) {
    static fixture f;
    const int64_t steps[] = {1000, 2000, -1};
    memset(&f, 0, sizeof(f));
    scratch_make(f.path);
    make_run("run", steps);
    trainer_init(&f.t);
    trainer_build(&f.t);
    *state = &f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    trainer_free(&f->t);
    scratch_remove(f->path);
    return 0;
}

/* ---- R08 ------------------------------------------------------------------------------------ */

static void flip(const char *prefix, size_t at) {
    char path[512];
    size_t n;
    step_file(path, "run", 2000, prefix);
    char *bytes = file_read(path, &n);
    assert_true(at < n);
    bytes[at] = (char)(bytes[at] ^ 1);
    file_write(path, bytes, n);
    free(bytes);
}

static void cut(const char *prefix, off_t size) {
    char path[512];
    step_file(path, "run", 2000, prefix);
    assert_int_equal(truncate(path, size), 0);
}

/* With a fallback it is logged, and the step before is restored; without, it is an error. */
static void restore_older(fixture *f) {
    trainer_open(&f->t, "run");
    assert_works(trainer_restore(&f->t, NULL), f->t.err);
    assert_int_equal(pawl_report_step(f->t.report), 1000);
    assert_true(f->t.kernel[0][1] == 1001.0F);
}

static const pawl_restore_options newest = {.struct_size = sizeof(newest), .no_fallback = 1};

static void note_problem(void *context, const pawl_problem *problem) {
    fixture *f = context;
    size_t at = strlen(f->problems);
    (void)snprintf(f->problems + at, sizeof(f->problems) - at, "%s\n", problem->text);
}

static pawl_status verify(fixture *f) {
    const pawl_verify_options options = {
        .struct_size = sizeof(options), .problem = note_problem, .context = f, .max_problems = 3};
    pawl_status status = pawl_checkpoint_open("run", AT_STEP(2000), &f->checkpoint, f->t.err);
    f->problems[0] = '\0';
    if (status == PAWL_OK) {
        status = pawl_checkpoint_verify(f->checkpoint, &options, NULL, f->t.err);
        pawl_checkpoint_close(f->checkpoint);
    }
    return status;
}

#define KERNEL_AT 4096 /* where the data section begins */

static void test_r08_a_flipped_bit_is_found_by_verify(void **state) {
    fixture *f = *state;
    flip("data-", KERNEL_AT + 2);
    assert_tells(
        verify(f), PAWL_EDAMAGED, f->t.err,
        "step 2000 has at least 3 problems, the first: batch, bytes 0 to 54 of 55: bytes 0 to 4442 "
        "of a data file are not those that were written\n"
        "  path:     {d}/run/step-00002000/{f}\n"
        "  entry:    batch\n"
        "  range:    bytes 0 to 4442\n"
        "  expected: CRC32C {x}, stored in the index\n"
        "  found:    CRC32C {x}\n"
        "  safe:     step 1000 is committed; check it with: pawl verify {d}/run@1000\n"
        "  next:     restore step 1000 instead, once it verifies");
    assert_text(
        f->problems,
        "batch, bytes 0 to 54 of 55: bytes 0 to 4442 of a data file are not those that were "
        "written\n"
        "  path:     {d}/run/step-00002000/{f}\n"
        "  entry:    batch\n"
        "  range:    bytes 0 to 4442\n"
        "  expected: CRC32C {x}, stored in the index\n"
        "  found:    CRC32C {x}\n"
        "data/position, bytes 0 to 7 of 8: bytes 0 to 4442 of a data file are not those that were "
        "written\n"
        "  path:     {d}/run/step-00002000/{f}\n"
        "  entry:    data/position\n"
        "  range:    bytes 0 to 4442\n"
        "  expected: CRC32C {x}, stored in the index\n"
        "  found:    CRC32C {x}\n"
        "dense/kernel, bytes 0 to 127 of 128: bytes 0 to 4442 of a data file are not those that "
        "were written\n"
        "  path:     {d}/run/step-00002000/{f}\n"
        "  entry:    dense/kernel\n"
        "  range:    bytes 0 to 4442\n"
        "  expected: CRC32C {x}, stored in the index\n"
        "  found:    CRC32C {x}\n");
}

static void test_r08_a_flipped_bit_is_passed_over(void **state) {
    fixture *f = *state;
    flip("data-", KERNEL_AT + 2);
    restore_older(f);
    assert_text(f->t.log,
                "warning: step 2000 is damaged and is passed over for the next older one: reading "
                "bytes 0 to 127 of the 128 of dense/kernel[0:4, 0:8]: bytes 0 to 4442 of a data "
                "file are not those that were written\n"
                "  path:     {d}/run/step-00002000/{f}\n"
                "  entry:    dense/kernel\n"
                "  range:    bytes 0 to 4442\n"
                "  expected: CRC32C {x}, stored in the index\n"
                "  found:    CRC32C {x}\n"
                "  safe:     step 1000 is committed; check it with: pawl verify {d}/run@1000\n"
                "  next:     restore step 1000 instead, once it verifies\n");
    assert_text(
        pawl_report_text(f->t.report),
        "step 1000: restored 8 entries (347 B), kept 0, left out 0\n"
        "passed over step 2000: reading bytes 0 to 127 of the 128 of dense/kernel[0:4, 0:8]: bytes "
        "0 to 4442 of a data file are not those that were written: {d}/run/step-00002000/{f}");
    assert_tells(trainer_restore(&f->t, &newest), PAWL_EDAMAGED, f->t.err,
                 "restoring: reading bytes 0 to 127 of the 128 of dense/kernel[0:4, 0:8]: bytes 0 "
                 "to 4442 of a data file are not those that were written\n"
                 "  path:     {d}/run/step-00002000/{f}\n"
                 "  entry:    dense/kernel\n"
                 "  range:    bytes 0 to 4442\n"
                 "  expected: CRC32C {x}, stored in the index\n"
                 "  found:    CRC32C {x}\n"
                 "  safe:     step 1000 is committed; check it with: pawl verify {d}/run@1000\n"
                 "  next:     restore step 1000 instead, once it verifies");
}

static void test_r08_a_truncated_data_file(void **state) {
    fixture *f = *state;
    cut("data-", 4100);
    restore_older(f);
    assert_text(f->t.log,
                "warning: step 2000 is damaged and is passed over for the next older one: opening "
                "a checkpoint: a data file of the checkpoint is truncated\n"
                "  path:     {d}/run/step-00002000/{f}\n"
                "  expected: a file of 4443 bytes\n"
                "  found:    4100 bytes\n"
                "  safe:     step 1000 is committed; check it with: pawl verify {d}/run@1000\n"
                "  next:     restore step 1000 instead, once it verifies\n");
    assert_tells(trainer_restore(&f->t, &newest), PAWL_EDAMAGED, f->t.err,
                 "restoring: opening a checkpoint: a data file of the checkpoint is truncated\n"
                 "  path:     {d}/run/step-00002000/{f}\n"
                 "  expected: a file of 4443 bytes\n"
                 "  found:    4100 bytes\n"
                 "  safe:     step 1000 is committed; check it with: pawl verify {d}/run@1000\n"
                 "  next:     restore step 1000 instead, once it verifies");
}

static void test_r08_an_empty_data_file(void **state) {
    fixture *f = *state;
    cut("data-", 0);
    restore_older(f);
    assert_tells(trainer_restore(&f->t, &newest), PAWL_EDAMAGED, f->t.err,
                 "restoring: opening a checkpoint: a data file of the checkpoint is empty\n"
                 "  path:     {d}/run/step-00002000/{f}\n"
                 "  expected: a file of 4443 bytes\n"
                 "  found:    0 bytes\n"
                 "  safe:     step 1000 is committed; check it with: pawl verify {d}/run@1000\n"
                 "  next:     restore step 1000 instead, once it verifies");
}

static void test_r08_a_missing_data_file(void **state) {
    fixture *f = *state;
    char path[512];
    step_file(path, "run", 2000, "data-");
    assert_int_equal(unlink(path), 0);
    restore_older(f);
    assert_tells(trainer_restore(&f->t, &newest), PAWL_EDAMAGED, f->t.err,
                 "restoring: opening a checkpoint: a data file of the checkpoint is missing\n"
                 "  path:     {d}/run/step-00002000/{f}\n"
                 "  expected: a file of 4443 bytes\n"
                 "  found:    no such file\n"
                 "  safe:     step 1000 is committed; check it with: pawl verify {d}/run@1000\n"
                 "  next:     restore step 1000 instead, once it verifies");
}

static void test_r08_the_data_file_of_another_step(void **state) {
    fixture *f = *state;
    char from[512];
    char to[512];
    size_t n;
    step_file(from, "run", 1000, "data-");
    step_file(to, "run", 2000, "data-");
    char *bytes = file_read(from, &n);
    file_write(to, bytes, n);
    free(bytes);
    restore_older(f);
    assert_tells(trainer_restore(&f->t, &newest), PAWL_EDAMAGED, f->t.err,
                 "restoring: reading bytes 0 to 127 of the 128 of dense/kernel[0:4, 0:8]: bytes 0 "
                 "to 4442 of a data file are not those that were written\n"
                 "  path:     {d}/run/step-00002000/{f}\n"
                 "  entry:    dense/kernel\n"
                 "  range:    bytes 0 to 4442\n"
                 "  expected: CRC32C {x}, stored in the index\n"
                 "  found:    CRC32C {x}\n"
                 "  safe:     step 1000 is committed; check it with: pawl verify {d}/run@1000\n"
                 "  next:     restore step 1000 instead, once it verifies");
}

static void test_r08_a_damaged_index(void **state) {
    fixture *f = *state;
    flip("index-", 20);
    restore_older(f);
    assert_tells(trainer_restore(&f->t, &newest), PAWL_EDAMAGED, f->t.err,
                 "restoring: the index of the checkpoint is damaged: the data block at byte 0 of "
                 "the table is wrong at byte 0: the checksum does not match\n"
                 "  path:     {d}/run/step-00002000/{f}\n"
                 "  range:    bytes 0 to 328\n"
                 "  expected: CRC32C {x}, as stored\n"
                 "  found:    CRC32C {x}\n"
                 "  safe:     step 1000 is committed; check it with: pawl verify {d}/run@1000\n"
                 "  next:     restore step 1000 instead, once it verifies");
}

static void test_r08_a_damaged_manifest(void **state) {
    fixture *f = *state;
    flip("manifest.json", 40);
    restore_older(f);
    assert_tells(
        trainer_restore(&f->t, &newest), PAWL_EDAMAGED, f->t.err,
        "restoring: opening a checkpoint: the manifest is damaged: its checksum does not match\n"
        "  path:     {d}/run/step-00002000/manifest.json\n"
        "  range:    bytes 0 to 652\n"
        "  expected: CRC32C {x}, as its last line but one says\n"
        "  found:    CRC32C {x}\n"
        "  safe:     step 1000 is committed; check it with: pawl verify {d}/run@1000\n"
        "  next:     restore step 1000 instead, once it verifies");
}

/* ---- R12, R14: what somebody wrote on purpose ----------------------------------------------- */

static uint32_t crc32c(const char *bytes, size_t n) {
    uint32_t crc = 0xffffffffU;
    for (size_t i = 0; i < n; i++) {
        crc ^= (uint8_t)bytes[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ (0x82f63b78U & (0U - (crc & 1U)));
        }
    }
    return ~crc;
}

#define TAIL "  \"crc32c\": \""

/* Replaces the first `from` of the manifest by `to`, and gives it a right checksum again. */
static void forge(const char *from, const char *to) {
    char path[512];
    char forged[16384];
    size_t n;
    step_file(path, "run", 2000, "manifest.json");
    char *text = file_read(path, &n);
    char *at = strstr(text, from);
    assert_non_null(at);
    int length =
        snprintf(forged, sizeof(forged), "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    assert_true(length > 0 && (size_t)length < sizeof(forged));
    free(text);
    char *tail = strstr(forged, TAIL);
    assert_non_null(tail);
    (void)snprintf(tail, sizeof(forged) - (size_t)(tail - forged), TAIL "%08x\"\n}\n",
                   (unsigned)crc32c(forged, (size_t)(tail - forged)));
    file_write(path, forged, strlen(forged));
}

static void test_r12_a_newer_format(void **state) {
    fixture *f = *state;
    forge("\"format_version\": 1", "\"format_version\": 2");
    trainer_open(&f->t, "run");
    assert_tells(
        trainer_restore(&f->t, NULL), PAWL_EUNSUPPORTED, f->t.err,
        "restoring: opening a checkpoint: the checkpoint was written by a newer version of pawl\n"
        "  path:     {d}/run/step-00002000/manifest.json\n"
        "  expected: format version 1, which this pawl (0.2.0) knows\n"
        "  found:    format version 2\n"
        "  safe:     nothing was read or changed\n"
        "  next:     read it with the pawl that wrote it, or a newer one: upgrade pawl");
}

static void test_r12_a_damaged_version(void **state) {
    fixture *f = *state;
    char path[512];
    size_t n;
    step_file(path, "run", 2000, "manifest.json");
    char *text = file_read(path, &n);
    *strchr(strstr(text, "\"format_version\": "), '1') = '3';
    file_write(path, text, n);
    free(text);
    trainer_open(&f->t, "run");
    assert_tells(
        trainer_restore(&f->t, &newest), PAWL_EDAMAGED, f->t.err,
        "restoring: opening a checkpoint: the manifest's version field at byte 53 is damaged\n"
        "  path:     {d}/run/step-00002000/manifest.json\n"
        "  range:    byte 53\n"
        "  expected: format version 1\n"
        "  found:    format version 3\n"
        "  safe:     step 1000 is committed; check it with: pawl verify {d}/run@1000\n"
        "  next:     restore step 1000 instead, once it verifies");
}

static void test_r14_a_manifest_that_names_a_file_elsewhere(void **state) {
    fixture *f = *state;
    forge("\"data-", "\"../../data-");
    trainer_open(&f->t, "run");
    assert_tells(trainer_restore(&f->t, &newest), PAWL_EDAMAGED, f->t.err,
                 "restoring: opening a checkpoint: the manifest is wrong before byte 330: it lists "
                 "a file that is not named as a data file\n"
                 "  path:     {d}/run/step-00002000/manifest.json\n"
                 "  range:    byte 330\n"
                 "  safe:     step 1000 is committed; check it with: pawl verify {d}/run@1000\n"
                 "  next:     restore step 1000 instead, once it verifies");
}

static void test_r14_a_manifest_with_huge_lengths(void **state) {
    fixture *f = *state;
    forge("\"bytes\": ", "\"bytes\": 9");
    trainer_open(&f->t, "run");
    assert_tells(trainer_restore(&f->t, &newest), PAWL_EDAMAGED, f->t.err,
                 "restoring: opening a checkpoint: a data file of the checkpoint is truncated\n"
                 "  path:     {d}/run/step-00002000/{f}\n"
                 "  expected: a file of 94443 bytes\n"
                 "  found:    4443 bytes\n"
                 "  safe:     step 1000 is committed; check it with: pawl verify {d}/run@1000\n"
                 "  next:     restore step 1000 instead, once it verifies");
}

static void test_r14_a_manifest_that_is_nested_deeply(void **state) {
    fixture *f = *state;
    char nested[4096];
    int n = snprintf(nested, sizeof(nested), "%s", "\"hyperparameters\": {\"deep\": ");
    memset(nested + n, '[', sizeof(nested) - (size_t)n - 1);
    nested[sizeof(nested) - 1] = '\0';
    forge("\"hyperparameters\": {", nested);
    trainer_open(&f->t, "run");
    assert_tells(trainer_restore(&f->t, &newest), PAWL_EDAMAGED, f->t.err,
                 "restoring: opening a checkpoint: the JSON of the manifest is nested deeper than "
                 "514 objects and lists at byte 979\n"
                 "  path:     {d}/run/step-00002000/manifest.json\n"
                 "  safe:     step 1000 is committed; check it with: pawl verify {d}/run@1000\n"
                 "  next:     restore step 1000 instead, once it verifies");
}

static void test_r14_a_data_file_that_is_a_link_out_of_the_run(void **state) {
    fixture *f = *state;
    char path[512];
    step_file(path, "run", 2000, "data-");
    assert_int_equal(rename(path, "outside"), 0);
    assert_int_equal(symlink("../../outside", path), 0);
    trainer_open(&f->t, "run");
    assert_tells(
        trainer_restore(&f->t, &newest), PAWL_EDAMAGED, f->t.err,
        "restoring: opening a checkpoint: a data file of the checkpoint is not a regular file\n"
        "  path:     {d}/run/step-00002000/{f}\n"
        "  expected: a file of 4443 bytes\n"
        "  found:    a link or device\n"
        "  safe:     step 1000 is committed; check it with: pawl verify {d}/run@1000\n"
        "  next:     restore step 1000 instead, once it verifies");
}

static void test_r14_a_header_that_claims_too_much(void **state) {
    fixture *f = *state;
    char path[512];
    size_t n;
    step_file(path, "run", 2000, "data-");
    char *bytes = file_read(path, &n);
    memset(bytes, 0xff, 7);
    file_write(path, bytes, n);
    free(bytes);
    trainer_open(&f->t, "run");
    assert_tells(
        verify(f), PAWL_EDAMAGED, f->t.err,
        "step 2000 has at least 3 problems, the first: batch, bytes 0 to 54 of 55: bytes 0 to 4442 "
        "of a data file are not those that were written\n"
        "  path:     {d}/run/step-00002000/{f}\n"
        "  entry:    batch\n"
        "  range:    bytes 0 to 4442\n"
        "  expected: CRC32C {x}, stored in the index\n"
        "  found:    CRC32C {x}\n"
        "  safe:     step 1000 is committed; check it with: pawl verify {d}/run@1000\n"
        "  next:     restore step 1000 instead, once it verifies");
    assert_tells(pawl_run_rebuild(f->t.run, 2000, 0, f->t.err), PAWL_EDAMAGED, f->t.err,
                 "rebuilding step 2000: data files are damaged, and the present index proves it; a "
                 "new index would take the damage for what was written\n"
                 "  path:     {d}/run\n"
                 "  found:    8 damaged places\n"
                 "  safe:     nothing was changed\n"
                 "  next:     see what is damaged with: pawl verify {d}/run@2000; to rebuild all "
                 "the same: pawl rebuild --force {d}/run@2000");
    assert_tells(
        pawl_run_rebuild(f->t.run, 2000, 1, f->t.err), PAWL_ELIMIT, f->t.err,
        "rebuilding step 2000: reading a data file: the header length at byte 0 is too large\n"
        "  path:     {d}/run/step-00002000/{f}\n"
        "  range:    bytes 0 to 7\n"
        "  expected: at most 100000000 bytes\n"
        "  found:    72057594037927935 bytes");
}

/* ---- R09 ------------------------------------------------------------------------------------ */

static void restore_from(fixture *f, const char *path) {
    trainer_open(&f->t, path);
    assert_int_equal(trainer_restore(&f->t, NULL), PAWL_ENOTFOUND);
}

static void test_r09_a_run_without_a_checkpoint(void **state) {
    fixture *f = *state;
    restore_from(f, "new");
    assert_text(pawl_error_text(f->t.err),
                "restoring: there is no checkpoint here\n"
                "  path:     {d}/new\n"
                "  found:    a run that has no checkpoint yet\n"
                "  next:     training starts from the beginning: the first save makes the first "
                "checkpoint; check the path if there should be one");
}

static void test_r09_the_parent_of_runs(void **state) {
    fixture *f = *state;
    restore_from(f, ".");
    assert_text(pawl_error_text(f->t.err),
                "restoring: there is no checkpoint here, but there is in a directory below\n"
                "  path:     {d}\n"
                "  expected: the directory that holds the step-... directories\n"
                "  found:    1 run below it: run\n"
                "  next:     did you mean {d}/run? See it with: pawl ls {d}/run");
}

static void test_r09_the_directory_of_one_step(void **state) {
    fixture *f = *state;
    restore_from(f, "run/step-00002000");
    assert_text(pawl_error_text(f->t.err),
                "restoring: this is the directory of one step, not of a run\n"
                "  path:     {d}/run/step-00002000\n"
                "  expected: the directory that holds the step-... directories\n"
                "  found:    the files of one checkpoint\n"
                "  next:     name the run: pawl ls {d}/run");
}

static void test_r09_only_unfinished_and_damaged_steps(void **state) {
    fixture *f = *state;
    char path[512];
    assert_int_equal(unlink("run/step-00001000/manifest.json"), 0);
    step_file(path, "run", 2000, "index-");
    assert_int_equal(unlink(path), 0);
    trainer_open(&f->t, "run");
    assert_tells(trainer_restore(&f->t, NULL), PAWL_EDAMAGED, f->t.err,
                 "restoring: opening a checkpoint: the index of the checkpoint is missing\n"
                 "  path:     {d}/run/step-00002000/{f}\n"
                 "  expected: a file of 414 bytes\n"
                 "  found:    no such file\n"
                 "  safe:     no other step of the run is committed\n"
                 "  next:     if only the index is damaged, pawl rebuild {d}/run@2000 makes a new "
                 "one from the data files");
}

static void test_r09_another_tools_checkpoint(void **state) {
    fixture *f = *state;
    assert_int_equal(mkdir("lightning", 0755), 0);
    file_write("lightning/epoch=3.ckpt", "PK", 2);
    restore_from(f, "lightning");
    assert_text(
        pawl_error_text(f->t.err),
        "restoring: there is no checkpoint of pawl here, but a PyTorch Lightning checkpoint\n"
        "  path:     {d}/lightning\n"
        "  expected: the directory of a run, which holds step-... directories\n"
        "  found:    epoch=3.ckpt\n"
        "  next:     this is no run: look at it with pawl show, convert it into a new run with "
        "pawl "
        "convert, or restore a state from it with pawl_checkpoint_restore");
}

static void test_r09_a_step_that_is_not_there(void **state) {
    fixture *f = *state;
    const int64_t step = 1500;
    const pawl_restore_options exactly = {.struct_size = sizeof(exactly), .step = &step};
    trainer_open(&f->t, "run");
    assert_tells(trainer_restore(&f->t, &exactly), PAWL_ENOTFOUND, f->t.err,
                 "restoring: opening a checkpoint: there is no checkpoint of step 1500\n"
                 "  path:     {d}/run/step-00001500\n"
                 "  found:    no such directory\n"
                 "  safe:     step 1000 is committed; check it with: pawl verify {d}/run@1000\n"
                 "  next:     see which steps there are with: pawl ls {d}/run");
}

static void test_r09_nothing_at_all(void **state) {
    fixture *f = *state;
    pawl_catalog *catalog = NULL;
    assert_tells(pawl_catalog_open("nowhere", NULL, &catalog, f->t.err), PAWL_ENOTFOUND, f->t.err,
                 "the path \"nowhere\": there is no such directory\n"
                 "  path:     {d}/nowhere\n"
                 "  expected: a directory\n"
                 "  found:    {d} exists, but there is no nowhere in it\n"
                 "  next:     check the path; saving creates it, reading does not");
    assert_false(file_exists("nowhere"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_r08_a_flipped_bit_is_found_by_verify),
        TEST(test_r08_a_flipped_bit_is_passed_over),
        TEST(test_r08_a_truncated_data_file),
        TEST(test_r08_an_empty_data_file),
        TEST(test_r08_a_missing_data_file),
        TEST(test_r08_the_data_file_of_another_step),
        TEST(test_r08_a_damaged_index),
        TEST(test_r08_a_damaged_manifest),
        TEST(test_r12_a_newer_format),
        TEST(test_r12_a_damaged_version),
        TEST(test_r14_a_manifest_that_names_a_file_elsewhere),
        TEST(test_r14_a_manifest_with_huge_lengths),
        TEST(test_r14_a_manifest_that_is_nested_deeply),
        TEST(test_r14_a_data_file_that_is_a_link_out_of_the_run),
        TEST(test_r14_a_header_that_claims_too_much),
        TEST(test_r09_a_run_without_a_checkpoint),
        TEST(test_r09_the_parent_of_runs),
        TEST(test_r09_the_directory_of_one_step),
        TEST(test_r09_only_unfinished_and_damaged_steps),
        TEST(test_r09_another_tools_checkpoint),
        TEST(test_r09_a_step_that_is_not_there),
        TEST(test_r09_nothing_at_all),
    };
    return cmocka_run_group_tests_name("checkpoints that are not what was written", tests, NULL,
                                       NULL);
}
