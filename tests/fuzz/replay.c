/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A main for fuzz targets where there is no libFuzzer: runs every file of a corpus, then a bounded
 * number of mutations of all of them. `replay CORPUS MUTATIONS [SEED]`
 *
 * Fails where the corpus itself is refused to the last file: then it is out of date.
 */
#include "fuzz.h"
#include "lib/random.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_BYTES 65536u

static size_t read_input(const char *directory, const char *name, uint8_t *out) {
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *in = fopen(path, "rb");
    if (in == NULL) {
        perror(path);
        exit(1);
    }
    size_t n = fread(out, 1, MOST_BYTES / 2, in);
    (void)fclose(in);
    return n;
}

static size_t flip_bit(test_random *random, uint8_t *bytes, size_t n) {
    if (n > 0) {
        bytes[random_below(random, n)] ^= (uint8_t)(1u << random_below(random, 8));
    }
    return n;
}

/* A value that lengths and counts trip over. */
static size_t set_byte(test_random *random, uint8_t *bytes, size_t n) {
    static const uint8_t telling[] = {0, 1, 0x7f, 0x80, 0xff, '"', '{', '[', '-', '9', 'e', '\\'};
    if (n > 0) {
        bytes[random_below(random, n)] = telling[random_below(random, sizeof telling)];
    }
    return n;
}

static size_t cut(test_random *random, uint8_t *bytes, size_t n) {
    (void)bytes;
    return (size_t)random_below(random, n + 1);
}

static size_t remove_stretch(test_random *random, uint8_t *bytes, size_t n) {
    size_t at = (size_t)random_below(random, n + 1);
    size_t count = (size_t)random_below(random, (n - at < 16 ? n - at : 16) + 1);
    memmove(bytes + at, bytes + at + count, n - at - count);
    return n - count;
}

/* Repeats a stretch where it stands. */
static size_t repeat_stretch(test_random *random, uint8_t *bytes, size_t n) {
    size_t at = (size_t)random_below(random, n + 1);
    size_t count = (size_t)random_below(random, (n - at < 64 ? n - at : 64) + 1);
    memmove(bytes + at + count, bytes + at, n - at);
    return n + count;
}

static size_t mutate(test_random *random, uint8_t *bytes, size_t n) {
    static size_t (*const ways[])(test_random *, uint8_t *, size_t) = {
        flip_bit, set_byte, cut, remove_stretch, repeat_stretch};
    for (uint64_t i = random_below(random, 4); n < MOST_BYTES / 2 + 256 && i < 4; i++) {
        n = ways[random_below(random, ARRAY_LENGTH(ways))](random, bytes, n);
    }
    return n;
}

/* Mutations of one file, most of them with checksums that fit; 0: the file itself. */
static void run_file(const char *directory, const char *name, uint64_t mutations, uint64_t seed) {
    static uint8_t original[MOST_BYTES], bytes[MOST_BYTES];
    test_random random = {seed};
    size_t n = read_input(directory, name, original);
    if (mutations == 0) {
        (void)LLVMFuzzerTestOneInput(original, n);
    }
    for (uint64_t i = 0; i < mutations; i++) {
        memcpy(bytes, original, n);
        size_t size = mutate(&random, bytes, n);
        size = i % 8 != 0 ? fuzz_repair(bytes, size, sizeof bytes) : size;
        (void)LLVMFuzzerTestOneInput(bytes, size);
    }
}

static int not_hidden(const struct dirent *item) {
    return item->d_name[0] != '.';
}

int main(int count, char **arguments) {
    struct dirent **items;
    if (count != 3 && count != 4) {
        (void)fprintf(stderr, "usage: %s CORPUS MUTATIONS [SEED]\n", arguments[0]);
        return 2;
    }
    int files = scandir(arguments[1], &items, not_hidden, alphasort);
    if (files < 0) {
        perror(arguments[1]);
        return 1;
    }
    for (int i = 0; i < files; i++) {
        run_file(arguments[1], items[i]->d_name, 0, 0);
    }
    uint64_t accepted = fuzz_accepted;
    uint64_t all = strtoull(arguments[2], NULL, 10);
    uint64_t seed = count == 4 ? strtoull(arguments[3], NULL, 10) : 1;
    uint64_t mutations = files > 0 ? all / (unsigned)files : 0;
    for (int i = 0; i < files; i++) {
        if (mutations > 0) {
            run_file(arguments[1], items[i]->d_name, mutations, seed);
        }
        free(items[i]);
    }
    free(items);
    (void)printf("%d files, %llu understood; %llu mutations of each, %llu understood\n", files,
                 (unsigned long long)accepted, (unsigned long long)mutations,
                 (unsigned long long)(fuzz_accepted - accepted));
    if (accepted == 0) {
        (void)fprintf(stderr, "no file of %s is understood: make it anew with fuzz_seeds\n",
                      arguments[1]);
    }
    return accepted > 0 ? 0 : 1;
}
