/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Damages files of a checkpoint in many ways, one at a time, and looks at what becomes of each: is
 * it found, by opening or by verify; else, is what is read still the same?
 *
 * Usage: damage CASES SEED CHECKPOINT FILE..., in a directory of its own, whose files are changed
 * and put back. Answers with the format; for each file how many damages were found, were harmless,
 * and changed silently what is read; and how long a case took at the most, the KiB that all of them
 * took more than the whole checkpoint, and which case that was. "no checkpoint": it is none.
 */
#include <pawl/pawl.h>

#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define READ_BYTES (4u << 20) /* of a larger tensor nothing is read */
#define HEADER     512u
#define MOST_BLOCK 512u
#define CASE_S     20u
#define HANGS      86

enum { KINDS = 8 };
static const char *const kind_names[KINDS] = {
    "a bit of its beginning", "a bit",           "a bit of its end", "cut off",
    "a block of zeros",       "a block doubled", "eight bytes",      "a block removed",
};

typedef struct file {
    const char *path;
    uint8_t *bytes;
    size_t n;
    uint64_t silent, found, harmless;
} file;

typedef struct told {
    pawl_status opened, verified, read;
    uint64_t digest;
    char format[64];
} told;

static char about[512]; /* the case, for who wants to know which one did not end */
static uint8_t room[READ_BYTES];

static void fail(const char *what) {
    fprintf(stderr, "%s: %s\n", about, what);
    exit(1);
}

static void on_signal(int number) {
    (void)!write(STDERR_FILENO, about, strlen(about));
    (void)!write(STDERR_FILENO, number == SIGALRM ? ": hangs\n" : ": crashes\n",
                 number == SIGALRM ? 8 : 10);
    _exit(HANGS);
}

/* ---- files ---------------------------------------------------------------------------------- */

static void put(const char *path, const uint8_t *bytes, size_t n) {
    FILE *out = fopen(path, "wb");
    if (out == NULL || fwrite(bytes, 1, n, out) != n || fclose(out) != 0) {
        fail("it cannot be written");
    }
}

static void load(file *f) {
    FILE *in = fopen(f->path, "rb");
    if (in == NULL || fseek(in, 0, SEEK_END) != 0) {
        fail("a file cannot be read");
    }
    f->n = (size_t)ftell(in);
    rewind(in);
    f->bytes = malloc(f->n + 1);
    if (f->bytes == NULL || fread(f->bytes, 1, f->n, in) != f->n) {
        fail("a file cannot be read");
    }
    (void)fclose(in);
}

/* ---- damage --------------------------------------------------------------------------------- */

static uint64_t random_state;

static uint64_t random_below(uint64_t n) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return n > 0 ? random_state % n : 0;
}

static void flip(uint8_t *bytes, size_t at) {
    bytes[at] ^= (uint8_t)(1u << random_below(8));
}

/* Of a file that is not empty, into `out`, which has room for MOST_BLOCK bytes more. */
static size_t damage(const file *f, unsigned kind, uint8_t *out) {
    size_t n = f->n;
    size_t head = n < HEADER ? n : HEADER;
    size_t at = random_below(n);
    size_t most = n - at < MOST_BLOCK ? n - at : MOST_BLOCK;
    size_t block = 1 + random_below(most);
    memcpy(out, f->bytes, n);
    switch (kind) {
    case 0:
        flip(out, random_below(head));
        return n;
    case 1:
        flip(out, at);
        return n;
    case 2:
        flip(out, n - 1 - random_below(head));
        return n;
    case 3:
        return at;
    case 4:
        memset(out + at, 0, block);
        return n;
    case 5:
        memmove(out + at + block, out + at, n - at);
        return n + block;
    case 6:
        for (size_t i = 0; i < 8 && at + i < n; i++) {
            out[at + i] = (uint8_t)(random_below(2) > 0 ? 0xff : random_below(256));
        }
        return n;
    default:
        memmove(out + at, out + at + block, n - at - block);
        return n - block;
    }
}

/* ---- what is read --------------------------------------------------------------------------- */

static void add(uint64_t *digest, const void *bytes, size_t n) {
    const uint8_t *b = bytes;
    for (size_t i = 0; i < n; i++) {
        *digest = (*digest ^ b[i]) * 0x100000001b3u;
    }
}

static pawl_status read_entry(pawl_checkpoint *c, const pawl_entry_info *info, told *out,
                              pawl_error *err) {
    add(&out->digest, info->name, strlen(info->name) + 1);
    add(&out->digest, &info->kind, sizeof(info->kind));
    if (info->kind != PAWL_KIND_TENSOR) {
        add(&out->digest, info->value, info->value != NULL ? (size_t)info->bytes : 0);
        return PAWL_OK;
    }
    add(&out->digest, info->type, strlen(info->type));
    add(&out->digest, info->shape, (size_t)info->ndim * sizeof(*info->shape));
    if (info->dtype == 0 || info->bytes > sizeof(room)) {
        return PAWL_OK;
    }
    pawl_status status =
        pawl_checkpoint_read(c, info->name, NULL, NULL, room, (size_t)info->bytes, err);
    add(&out->digest, room, status == PAWL_OK ? (size_t)info->bytes : 0);
    return status;
}

static pawl_status read_all(pawl_checkpoint *c, told *out, pawl_error *err) {
    pawl_entries *walk = NULL;
    pawl_entry_info info = {.struct_size = sizeof info};
    int more = 1;
    pawl_status status = pawl_entries_open(c, "", &walk, err);
    while (status == PAWL_OK) {
        status = pawl_entries_next(walk, &info, &more, err);
        if (status != PAWL_OK || more == 0) {
            break;
        }
        status = read_entry(c, &info, out, err);
    }
    pawl_entries_free(walk);
    return status;
}

static told look(const char *path, pawl_error *err) {
    told out = {.digest = 0xcbf29ce484222325u};
    pawl_checkpoint *c = NULL;
    out.opened = pawl_checkpoint_open(path, NULL, &c, err);
    if (out.opened == PAWL_OK) {
        pawl_checkpoint_info info = {.struct_size = sizeof info};
        if (pawl_checkpoint_describe(c, &info, err) != PAWL_OK) {
            fail("it cannot be described");
        }
        snprintf(out.format, sizeof(out.format), "%s", info.format);
        out.verified = pawl_checkpoint_verify(c, NULL, NULL, err);
        out.read = read_all(c, &out, err);
    }
    pawl_checkpoint_close(c);
    return out;
}

/* ---- cases ---------------------------------------------------------------------------------- */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The most memory since it was last forgotten: what a process had before exec counts, too. */
static void forget_peak(void) {
    FILE *out = fopen("/proc/self/clear_refs", "w");
    if (out == NULL || fputs("5", out) < 0 || fclose(out) != 0) {
        fail("the peak of memory cannot be forgotten");
    }
}

static long peak_kib(void) {
    char line[256];
    long kib = -1;
    FILE *in = fopen("/proc/self/status", "r");
    while (in != NULL && fgets(line, sizeof(line), in) != NULL) {
        if (strncmp(line, "VmHWM:", 6) == 0) {
            kib = strtol(line + 6, NULL, 10);
        }
    }
    if (kib < 0 || fclose(in) != 0) {
        fail("the peak of memory is not known");
    }
    return kib;
}

static bool is_refusal(pawl_status status) {
    return status == PAWL_EDAMAGED || status == PAWL_ELIMIT || status == PAWL_EUNSUPPORTED ||
           status == PAWL_ENOTFOUND || status == PAWL_EUSAGE;
}

static void judge(file *f, const told *whole, const told *is) {
    if (is->opened != PAWL_OK || is->verified != PAWL_OK) {
        pawl_status status = is->opened != PAWL_OK ? is->opened : is->verified;
        f->found++;
        if (!is_refusal(status)) {
            fail(pawl_status_name(status));
        }
        return;
    }
    if (is->read != PAWL_OK) {
        fail("it verifies, and cannot be read");
    }
    *(is->digest == whole->digest ? &f->harmless : &f->silent) += 1;
}

static void run_case(file *f, unsigned kind, const char *path, const told *whole, pawl_error *err) {
    uint8_t *bytes = malloc(f->n + MOST_BLOCK);
    size_t n = f->n;
    if (bytes == NULL) {
        fail("there is no memory");
    }
    for (int tries = 0; tries < 100; tries++) {
        n = damage(f, kind, bytes);
        if (n != f->n || memcmp(bytes, f->bytes, n) != 0) {
            break;
        }
    }
    put(f->path, bytes, n);
    free(bytes);
    alarm(CASE_S);
    told is = look(path, err);
    alarm(0);
    if (n != 0 || f->n != 0) {
        judge(f, whole, &is);
    }
    put(f->path, f->bytes, f->n);
}

/* Larger files more often, and each of them sometimes. */
static file *choose(file *files, size_t count, uint64_t i) {
    uint64_t all = 0;
    if (i < count) {
        return &files[i];
    }
    for (size_t k = 0; k < count; k++) {
        all += files[k].n + HEADER;
    }
    uint64_t at = random_below(all);
    for (size_t k = 0; k < count; k++) {
        if (at < files[k].n + HEADER) {
            return &files[k];
        }
        at -= files[k].n + HEADER;
    }
    return files;
}

static void run_all(uint64_t cases, const char *path, file *files, size_t count, const told *whole,
                    pawl_error *err) {
    double slowest = 0;
    forget_peak();
    long before = peak_kib();
    char which[sizeof(about)] = "";
    for (uint64_t i = 0; i < cases; i++) {
        file *f = choose(files, count, i);
        unsigned kind = (unsigned)(i % KINDS);
        if (f->n == 0) {
            continue;
        }
        snprintf(about, sizeof(about), "case %" PRIu64 ": %s: %s", i, f->path, kind_names[kind]);
        double begun = now();
        run_case(f, kind, path, whole, err);
        if (now() - begun > slowest) {
            slowest = now() - begun;
            memcpy(which, about, sizeof(which));
        }
    }
    for (size_t k = 0; k < count; k++) {
        printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %s\n", files[k].found, files[k].harmless,
               files[k].silent, files[k].path);
    }
    printf("%.3f %ld %s\n", slowest, peak_kib() - before, which);
}

int main(int argc, char **argv) {
    pawl_error *err = pawl_error_new();
    if (argc < 4) {
        fprintf(stderr, "usage: damage CASES SEED CHECKPOINT FILE...\n");
        return 2;
    }
    const char *path = argv[3];
    size_t count = (size_t)argc - 4;
    file *files = calloc(count + 1, sizeof(*files));
    random_state = strtoull(argv[2], NULL, 10) * 0x9e3779b97f4a7c15u + 1;
    snprintf(about, sizeof(about), "%s", path);
    if (files == NULL) {
        fail("there is no memory");
    }
    for (size_t i = 0; i < count; i++) {
        files[i].path = argv[4 + i];
        load(&files[i]);
    }
    (void)signal(SIGALRM, on_signal);
    (void)signal(SIGSEGV, on_signal);
    told whole = look(path, err);
    if (whole.opened == PAWL_OK && whole.verified == PAWL_OK && whole.read == PAWL_OK) {
        printf("%s\n", whole.format);
        run_all(strtoull(argv[1], NULL, 10), path, files, count, &whole, err);
    } else {
        printf("no checkpoint\n");
    }
    for (size_t i = 0; i < count; i++) {
        free(files[i].bytes);
    }
    free(files);
    pawl_error_free(err);
    return 0;
}
