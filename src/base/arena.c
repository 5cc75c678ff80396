/* SPDX-License-Identifier: Apache-2.0 */
/* An arena: blocks that grow with what is asked for, freed all at once. */
#include "base/base.h"

#include <stdio.h>
#include <string.h>

#define ARENA_ALIGNMENT         16
#define ARENA_FIRST_BLOCK_BYTES ((size_t)4096)
#define ARENA_LAST_BLOCK_BYTES  ((size_t)256 * 1024)

typedef struct arena_block {
    struct arena_block *next;
    size_t used, size;
    _Alignas(ARENA_ALIGNMENT) uint8_t bytes[];
} arena_block;

static arena_block *block_new(size_t size) {
    if (size > PTRDIFF_MAX - sizeof(arena_block)) {
        return NULL;
    }
    arena_block *block = mem_aligned(ARENA_ALIGNMENT, sizeof(arena_block) + size);
    if (block != NULL) {
        *block = (arena_block){.size = size};
    }
    return block;
}

/* A large allocation gets a block of its own, second in the list: the rest of the first block stays
 * in use. */
static arena_block *arena_grow(arena *a, size_t bytes) {
    size_t size = a->blocks != NULL ? a->blocks->size * 2 : ARENA_FIRST_BLOCK_BYTES;
    if (size > ARENA_LAST_BLOCK_BYTES) {
        size = ARENA_LAST_BLOCK_BYTES;
    }
    bool own = bytes > size / 4;
    arena_block *block = block_new(own ? bytes : size);
    if (block == NULL) {
        return NULL;
    }
    if (own && a->blocks != NULL) {
        block->next = a->blocks->next;
        a->blocks->next = block;
    } else {
        block->next = a->blocks;
        a->blocks = block;
    }
    return block;
}

void *arena_alloc(arena *a, size_t bytes) {
    if (bytes > PTRDIFF_MAX) {
        return NULL;
    }
    size_t rounded = (bytes + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
    if (rounded == 0) {
        rounded = ARENA_ALIGNMENT;
    }
    arena_block *block = a->blocks;
    if (block == NULL || block->size - block->used < rounded) {
        block = arena_grow(a, rounded);
    }
    if (block == NULL) {
        return NULL;
    }
    void *memory = block->bytes + block->used;
    block->used += rounded;
    return memory;
}

void *arena_take(arena *a, size_t bytes, pawl_error *err) {
    void *memory = arena_alloc(a, bytes);
    if (memory == NULL) {
        (void)error_nomem(err, bytes);
    }
    return memory;
}

char *arena_strdup(arena *a, const char *text) {
    size_t bytes = strlen(text) + 1;
    char *copy = arena_alloc(a, bytes);
    if (copy != NULL) {
        memcpy(copy, text, bytes);
    }
    return copy;
}

char *arena_printf(arena *a, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *text = n < 0 ? NULL : arena_alloc(a, (size_t)n + 1);
    if (text != NULL) {
        va_start(arguments, format);
        vsnprintf(text, (size_t)n + 1, format, arguments);
        va_end(arguments);
    }
    return text;
}

void arena_free(arena *a) {
    arena_block *block = a->blocks;
    while (block != NULL) {
        arena_block *next = block->next;
        mem_free(block);
        block = next;
    }
    a->blocks = NULL;
}
