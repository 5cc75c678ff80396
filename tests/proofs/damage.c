/* SPDX-License-Identifier: Apache-2.0 */
/*
 * R08: every byte of a small checkpoint flipped, every file truncated at every length, every file
 * removed or swapped: verify finds it and names file and range (and, in a data file's tensors, the
 * entry), and a restore returns the right bytes or PAWL_EDAMAGED, never wrong ones.
 */
#include "lib/simulated_platform.h"
#include "proofs/proof.h"
#include "stores/stores.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEED      5
#define DIRECTORY "step-00000020"

/* ---- the checkpoint, and damaging it -------------------------------------------------------- */

typedef struct patient {
    store *disk;
    simulated_platform os;
    char **names;
    size_t name_count;
    arena memory;
} patient;

static void save(patient *p, pawl_run *run, int64_t step, uint32_t seed) {
    struct pawl_error err = ERROR_INIT;
    const pawl_save_options options = {.struct_size = sizeof options};
    proof_state ps;
    proof_state_make(&ps, seed);
    proof_must(run_save(run, ps.state, step, &options, &err), &err);
    proof_must(run_wait(run, 1, NULL, &err), &err);
    proof_state_free(&ps);
    (void)p;
}

static void patient_make(patient *p) {
    struct pawl_error err = ERROR_INIT;
    store *seen;
    pawl_run *run;
    memset(p, 0, sizeof *p);
    simulated_platform_init(&p->os, 3);
    proof_must(store_mem(&p->disk, &err), &err);
    proof_must(store_trace_wrap(p->disk, &p->os.table, NULL, NULL, &seen, &err), &err);
    proof_must(run_open(seen, NULL, &p->os.table, &run, &err), &err);
    save(p, run, 10, 4);
    save(p, run, 20, SEED);
    proof_must(run_close(run, 1, &err), &err);
    proof_must(store_names(p->disk, DIRECTORY, 100, &p->memory, &p->names, &p->name_count, &err),
               &err);
}

static void patient_free(patient *p) {
    arena_free(&p->memory);
    store_destroy(p->disk);
}

static void read_whole(store *s, const char *path, buffer *out) {
    struct pawl_error err = ERROR_INIT;
    out->size = 0;
    proof_must(store_read_file(s, path, SIZE_MAX / 2, out, &err), &err);
}

static void write_whole(store *s, const char *path, const uint8_t *data, size_t n) {
    struct pawl_error err = ERROR_INIT;
    store_file *file;
    pawl_status status = store_unlink(s, path, &err);
    proof_must(status == PAWL_ENOTFOUND ? PAWL_OK : status, &err);
    proof_must(store_open(s, path, STORE_CREATE, &file, &err), &err);
    proof_must(store_write(file, 0, data, n, &err), &err);
    store_close(file);
}

/* ---- the examination ------------------------------------------------------------------------ */

typedef struct finding {
    uint64_t count;
    bool names_place; /* some problem names the file, and covers the offset */
    const char *file;
    uint64_t offset;
    bool entry; /* some problem names an entry */
} finding;

static void note_problem(void *context, const pawl_problem *problem) {
    finding *f = context;
    f->count++;
    bool covers = problem->length == 0 ||
                  (problem->offset <= f->offset && f->offset - problem->offset < problem->length);
    if (strcmp(problem->file, f->file) == 0 && covers && problem->text[0] != '\0') {
        f->names_place = true;
        f->entry = f->entry || problem->entry != NULL;
    }
}

/* Opening or verifying must fail, with PAWL_EDAMAGED, and name the file and the place. */
static bool detected(patient *p, const char *file, uint64_t offset, bool in_entry,
                     pawl_error *err) {
    const pawl_log silent = {0};
    finding f = {.file = file, .offset = offset};
    const pawl_verify_options options = {
        .struct_size = sizeof options, .problem = note_problem, .context = &f};
    pawl_checkpoint *checkpoint;
    pawl_status status =
        checkpoint_open(p->disk, false, 20, &p->os.table, &silent, &checkpoint, err);
    if (status != PAWL_OK) {
        return (status == PAWL_EDAMAGED || status == PAWL_EUNSUPPORTED) &&
               strstr(err->path, file) != NULL;
    }
    pawl_verify_result result;
    status = checkpoint_verify(checkpoint, &options, &result, err);
    pawl_checkpoint_close(checkpoint);
    return status == PAWL_EDAMAGED && f.names_place && (f.entry || !in_entry);
}

static bool never_wrong(patient *p, pawl_error *err) {
    const pawl_log silent = {0};
    const pawl_restore_options options = {.struct_size = sizeof options};
    pawl_checkpoint *checkpoint;
    if (checkpoint_open(p->disk, false, 20, &p->os.table, &silent, &checkpoint, err) != PAWL_OK) {
        return true;
    }
    proof_state ps;
    pawl_report *report = NULL;
    proof_state_make(&ps, 31);
    pawl_status status = checkpoint_restore(checkpoint, ps.state, &options, 0, 1, &report, err);
    bool good = status == PAWL_OK ? proof_state_seed(&ps) == SEED : status == PAWL_EDAMAGED;
    pawl_report_free(report);
    pawl_checkpoint_close(checkpoint);
    proof_state_free(&ps);
    return good;
}

/* Is byte `offset` of a data file part of a tensor? Known from the file's own header. */
static bool inside_tensor(const buffer *bytes, uint64_t offset) {
    struct pawl_error err = ERROR_INIT;
    byte_source source = byte_source_memory(bytes);
    safetensors_header header = {0};
    bool inside = false;
    proof_must(safetensors_decode(&source, &header, &err), &err);
    for (size_t i = 0; i < header.tensor_count; i++) {
        const safetensors_tensor *t = &header.tensors[i];
        inside = inside || (offset >= t->offset && offset - t->offset < t->bytes);
    }
    safetensors_header_free(&header);
    return inside;
}

/* ---- the kinds of damage -------------------------------------------------------------------- */

static void flip_every_byte(patient *p, const char *name, const char *path, const buffer *whole,
                            proof *counts) {
    bool is_data = strncmp(name, "data-", 5) == 0;
    for (size_t i = 0; i < whole->size; i++) {
        struct pawl_error err = ERROR_INIT;
        store_file *file;
        uint8_t flipped = whole->data[i] ^ (uint8_t)(1u << (i % 8));
        proof_must(store_open(p->disk, path, STORE_UPDATE, &file, &err), &err);
        proof_must(store_write(file, i, &flipped, 1, &err), &err);
        bool good = detected(p, name, i, is_data && inside_tensor(whole, i), &err);
        good = never_wrong(p, &err) && good;
        proof_must(store_write(file, i, &whole->data[i], 1, &err), &err);
        store_close(file);
        proof_case(counts, good, "byte %zu of %s flipped: %s", i, name, error_text(&err));
    }
}

static void truncate_everywhere(patient *p, const char *name, const char *path, const buffer *whole,
                                proof *counts) {
    for (size_t length = 0; length < whole->size; length++) {
        struct pawl_error err = ERROR_INIT;
        write_whole(p->disk, path, whole->data, length);
        bool good = detected(p, name, length, false, &err);
        good = never_wrong(p, &err) && good;
        proof_case(counts, good, "%s cut to %zu bytes: %s", name, length, error_text(&err));
    }
    write_whole(p->disk, path, whole->data, whole->size);
}

static void remove_and_swap(patient *p, const char *name, const char *path, const buffer *whole,
                            proof *counts) {
    struct pawl_error err = ERROR_INIT;
    bool is_manifest = strcmp(name, "manifest.json") == 0;
    proof_must(store_unlink(p->disk, path, &err), &err);
    /* Without its manifest a checkpoint is absent, not damaged. */
    const pawl_log silent = {0};
    pawl_checkpoint *checkpoint;
    bool good = is_manifest ? checkpoint_open(p->disk, false, 20, &p->os.table, &silent,
                                              &checkpoint, &err) == PAWL_ENOTFOUND
                            : detected(p, name, 0, false, &err) && never_wrong(p, &err);
    proof_case(counts, good, "%s removed: %s", name, error_text(&err));

    /* The file of the same kind of step 10, whose tag ends in -1 instead of -2. */
    char other[STORE_MAX_PATH];
    snprintf(other, sizeof other, "step-00000010/%s", name);
    char *tag_end = strstr(other, "-2");
    if (tag_end != NULL) {
        tag_end[1] = '1';
    }
    CLEANUP(buffer_free) buffer foreign = {0};
    read_whole(p->disk, other, &foreign);
    write_whole(p->disk, path, foreign.data, foreign.size);
    good = detected(p, name, 0, false, &err) && never_wrong(p, &err);
    proof_case(counts, good, "%s swapped with step 10's: %s", name, error_text(&err));
    write_whole(p->disk, path, whole->data, whole->size);
}

int main(void) {
    proof *flips = proof_new("single bytes flipped");
    proof *cuts = proof_new("files truncated, at every length");
    proof *removals = proof_new("files removed or swapped");
    patient p;
    proof_keep_memory();
    patient_make(&p);
    for (size_t i = 0; i < p.name_count; i++) {
        char path[STORE_MAX_PATH];
        CLEANUP(buffer_free) buffer whole = {0};
        snprintf(path, sizeof path, DIRECTORY "/%s", p.names[i]);
        read_whole(p.disk, path, &whole);
        flip_every_byte(&p, p.names[i], path, &whole, flips);
        truncate_everywhere(&p, p.names[i], path, &whole, cuts);
        remove_and_swap(&p, p.names[i], path, &whole, removals);
    }
    patient_free(&p);
    int failed = proof_end(flips);
    failed |= proof_end(cuts);
    failed |= proof_end(removals);
    return failed;
}
