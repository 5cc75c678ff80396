/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A main for fuzz targets where there is no libFuzzer: runs every file of a corpus, then each with
 * a bounded number of mutations from a fixed seed. `replay CORPUS MUTATIONS`
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

static uint64_t run_file(const char *directory, const char *name, uint64_t mutations) {
    static uint8_t original[MOST_BYTES], bytes[MOST_BYTES];
    test_random random = {1};
    size_t n = read_input(directory, name, original);
    (void)LLVMFuzzerTestOneInput(original, n);
    for (uint64_t i = 0; i < mutations; i++) {
        memcpy(bytes, original, n);
        (void)LLVMFuzzerTestOneInput(bytes, mutate(&random, bytes, n));
    }
    return mutations + 1;
}

int main(int count, char **arguments) {
    if (count != 3) {
        (void)fprintf(stderr, "usage: %s CORPUS MUTATIONS\n", arguments[0]);
        return 2;
    }
    DIR *directory = opendir(arguments[1]);
    if (directory == NULL) {
        perror(arguments[1]);
        return 1;
    }
    uint64_t runs = 0, mutations = strtoull(arguments[2], NULL, 10);
    for (const struct dirent *item; (item = readdir(directory)) != NULL;) {
        if (item->d_name[0] != '.') {
            runs += run_file(arguments[1], item->d_name, mutations);
        }
    }
    (void)closedir(directory);
    (void)printf("%llu inputs\n", (unsigned long long)runs);
    return runs > 0 ? 0 : 1;
}
