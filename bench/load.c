/* SPDX-License-Identifier: Apache-2.0 */
/* A list of tensors with random contents that can be made again to compare. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ALIGNMENT ((size_t)64)
#define MAX_LINE  4096
#define COPIES    3

/* The i-th random word, computed without those before it (splitmix64). */
static uint64_t word_at(uint64_t seed, uint64_t i) {
    uint64_t x = seed + (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static unsigned char *map_memory(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) {
        fail("no memory for %zu bytes", bytes);
    }
    return memory;
}

/* ---- the list ------------------------------------------------------------------------------- */

typedef struct line {
    char text[MAX_LINE];
    pawl_tensor tensor;
    char *slot_of, *slot;
    int64_t shape[PAWL_MAX_NDIM];
} line;

static void parse_role(line *l, char *role) {
    char *equals = strchr(role, '=');
    l->tensor.role = strcmp(role, "-") == 0 ? PAWL_ROLE_MODEL : PAWL_ROLE_OTHER;
    if (equals != NULL) {
        *equals = '\0';
        l->tensor.role = PAWL_ROLE_SLOT;
        l->tensor.slot_of = role;
        l->tensor.slot = equals + 1;
    }
}

/* Does not set `data`. */
static size_t parse_line(line *l) {
    char *rest = NULL;
    char *name = strtok_r(l->text, " \n", &rest);
    char *dtype = strtok_r(NULL, " \n", &rest);
    char *role = strtok_r(NULL, " \n", &rest);
    if (role == NULL) {
        fail("a line of the list is not NAME DTYPE ROLE [DIMENSION...]");
    }
    l->tensor = (pawl_tensor){.struct_size = sizeof l->tensor,
                              .name = name,
                              .dtype = pawl_dtype_from_name(dtype),
                              .shape = l->shape};
    parse_role(l, role);
    size_t bits = (size_t)pawl_dtype_bits(l->tensor.dtype);
    for (char *word = strtok_r(NULL, " \n", &rest); word != NULL && l->tensor.ndim < PAWL_MAX_NDIM;
         word = strtok_r(NULL, " \n", &rest)) {
        l->shape[l->tensor.ndim] = strtoll(word, NULL, 10);
        bits *= (size_t)l->shape[l->tensor.ndim++];
    }
    return bits / 8;
}

static size_t round_up(size_t bytes) {
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Two passes over the list: sizes, then tensors with their memory. */
static void measure(load *l, FILE *file) {
    static line one;
    size_t room = 0;
    while (fgets(one.text, sizeof one.text, file) != NULL) {
        if (l->count == room) {
            room = room == 0 ? 1024 : room * 2;
            l->places = realloc(l->places, room * sizeof *l->places);
            if (l->places == NULL) {
                fail("no memory for %zu tensors", room);
            }
        }
        size_t bytes = parse_line(&one);
        l->places[l->count++] = (place){.at = l->memory_bytes, .bytes = bytes};
        l->memory_bytes += round_up(bytes);
        l->bytes += bytes;
    }
}

static void add_tensors(load *l, FILE *file, pawl_error *err) {
    static line one;
    if (pawl_state_new(&l->state, err) != PAWL_OK) {
        fail("%s", pawl_error_text(err));
    }
    for (size_t i = 0; fgets(one.text, sizeof one.text, file) != NULL && i < l->count; i++) {
        parse_line(&one);
        one.tensor.data = l->memory + l->places[i].at;
        if (pawl_state_add_tensor(l->state, &one.tensor, err) != PAWL_OK) {
            fail("%s", pawl_error_text(err));
        }
    }
}

void load_open(load *l, const char *list, uint64_t seed, pawl_error *err) {
    *l = (load){.seed = seed};
    FILE *file = fopen(list, "r");
    if (file == NULL) {
        fail("cannot open the list %s", list);
    }
    measure(l, file);
    if (l->count == 0) {
        fail("the list %s is empty", list);
    }
    l->memory = map_memory(l->memory_bytes);
    rewind(file);
    add_tensors(l, file, err);
    fclose(file);
    uint64_t *words = (void *)l->memory;
    for (size_t i = 0; i < l->memory_bytes / sizeof *words; i++) {
        words[i] = word_at(seed, i);
    }
}

void load_close(load *l) {
    pawl_state_free(l->state);
    if (l->memory != NULL) {
        munmap(l->memory, l->memory_bytes);
    }
    free(l->places);
    *l = (load){0};
}

/* ---- contents ------------------------------------------------------------------------------- */

void load_scramble(load *l) {
    memset(l->memory, 0, l->memory_bytes);
}

bool load_same(const load *l) {
    for (size_t i = 0; i < l->count; i++) {
        const unsigned char *at = l->memory + l->places[i].at;
        size_t first = l->places[i].at / sizeof(uint64_t);
        for (size_t done = 0; done < l->places[i].bytes; done += sizeof(uint64_t)) {
            uint64_t want = word_at(l->seed, first + done / sizeof(uint64_t));
            size_t left = l->places[i].bytes - done;
            if (memcmp(at + done, &want, left < sizeof want ? left : sizeof want) != 0) {
                return false;
            }
        }
    }
    return true;
}

static int by_value(const void *a, const void *b) {
    const double *left = a;
    const double *right = b;
    return (*left > *right) - (*left < *right);
}

double load_memcpy(const load *l) {
    unsigned char *to = map_memory(l->memory_bytes);
    double seconds[COPIES];
    for (int copy = 0; copy < COPIES; copy++) {
        double began = now_s();
        for (size_t i = 0; i < l->count; i++) {
            memcpy(to + l->places[i].at, l->memory + l->places[i].at, l->places[i].bytes);
        }
        seconds[copy] = now_s() - began;
    }
    munmap(to, l->memory_bytes);
    qsort(seconds, COPIES, sizeof *seconds, by_value);
    return seconds[COPIES / 2];
}
