/* SPDX-License-Identifier: Apache-2.0 */
/* An arena: blocks that grow with what is asked for, freed all at once. */
#include "base/base.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define ARENA_ALIGNMENT         8
#define ARENA_FIRST_BLOCK_BYTES ((size_t)4096)
#define ARENA_LAST_BLOCK_BYTES  ((size_t)256 * 1024)

#define PAGE_BYTES     ((size_t)4096)
#define RETURNED_BYTES ((size_t)128 * 1024) /* a block for which a system call is worth it */

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

/* malloc keeps what is freed before something else. Its pages go back to the system. */
static void block_free(arena_block *block) {
    size_t before = (0 - (uintptr_t)block->bytes) % PAGE_BYTES;
    if (block->size >= RETURNED_BYTES) {
        size_t pages = (block->size - before) / PAGE_BYTES * PAGE_BYTES;
        (void)madvise(block->bytes + before, pages, MADV_DONTNEED); /* a hint */
    }
    mem_free(block);
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

static size_t round_up(size_t bytes) {
    size_t rounded = (bytes + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
    return rounded > 0 ? rounded : ARENA_ALIGNMENT;
}

void *arena_alloc(arena *a, size_t bytes) {
    if (bytes > PTRDIFF_MAX) {
        return NULL;
    }
    size_t rounded = round_up(bytes);
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

void arena_trim(arena *a, const void *last, size_t bytes) {
    arena_block *block = a->blocks;
    uintptr_t at = (uintptr_t)last;
    uintptr_t begin = (uintptr_t)block->bytes;
    if (at >= begin && at - begin < block->used) { /* else it has a block of its own */
        block->used = at - begin + round_up(bytes);
    }
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
        block_free(block);
        block = next;
    }
    a->blocks = NULL;
}
