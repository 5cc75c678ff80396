/* SPDX-License-Identifier: Apache-2.0 */
/* The only calls of malloc, and arrays that grow. */
#include "base/base.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE_BYTES      ((size_t)4096)
#define HUGE_PAGE_BYTES ((size_t)2 << 20)
#define LEAST_POPULATED ((size_t)64 << 10) /* for less, the call takes longer than it saves */

#define VEC_FIRST_ITEMS 8

/* No object can be larger, so malloc is not asked. */
static bool exceeds_any_object(uint64_t bytes) {
    return bytes > PTRDIFF_MAX;
}

void *mem_alloc(size_t bytes) {
    return exceeds_any_object(bytes) ? NULL : malloc(bytes > 0 ? bytes : 1);
}

void *mem_calloc(size_t count, size_t item_bytes) {
    uint64_t bytes;
    if (multiply_overflows(count, item_bytes, &bytes) || exceeds_any_object(bytes)) {
        return NULL;
    }
    return calloc(bytes > 0 ? bytes : 1, 1);
}

void *mem_aligned(size_t alignment, size_t bytes) {
    void *memory = NULL;
    assert(alignment > 0 && (alignment & (alignment - 1)) == 0);
    if (alignment < sizeof(void *)) {
        alignment = sizeof(void *);
    }
    if (exceeds_any_object(bytes) ||
        posix_memalign(&memory, alignment, bytes > 0 ? bytes : 1) != 0) {
        return NULL;
    }
    return memory;
}

void *mem_pages(size_t bytes) {
    if (bytes < HUGE_PAGE_BYTES) {
        return mem_aligned(PAGE_BYTES, bytes);
    }
    void *memory = mem_aligned(HUGE_PAGE_BYTES, bytes);
    if (memory != NULL) {
        (void)madvise(memory, bytes - bytes % HUGE_PAGE_BYTES, MADV_HUGEPAGE); /* a hint */
    }
    return memory;
}

void mem_reclaimable(void *pages, size_t bytes) {
    (void)madvise(pages, bytes - bytes % PAGE_BYTES, MADV_FREE); /* a hint */
}

void mem_populate(void *memory, size_t bytes) {
#ifdef MADV_POPULATE_WRITE
    if (bytes < LEAST_POPULATED) {
        return;
    }
    uintptr_t first = ((uintptr_t)memory + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    uintptr_t end = ((uintptr_t)memory + bytes) / PAGE_BYTES * PAGE_BYTES;
    if (end > first) {
        (void)madvise((void *)first, end - first, MADV_POPULATE_WRITE); /* a hint */
    }
#else
    (void)memory;
    (void)bytes;
#endif
}

char *mem_strdup(const char *text) {
    return mem_dup(text, strlen(text) + 1);
}

void *mem_dup(const void *data, size_t bytes) {
    void *copy = mem_alloc(bytes);
    if (copy != NULL && bytes > 0) {
        memcpy(copy, data, bytes);
    }
    return copy;
}

void mem_free(const void *memory) {
    free((void *)memory);
}

void mem_free_pointer(void *pointer_to_pointer) {
    void *memory;
    memcpy(&memory, pointer_to_pointer, sizeof(memory));
    free(memory);
}

pawl_status vec_reserve(void *items_pointer, size_t *capacity, size_t need, size_t item_bytes,
                        pawl_error *err) {
    assert(item_bytes > 0);
    if (need <= *capacity) {
        return PAWL_OK;
    }
    size_t grown = *capacity < VEC_FIRST_ITEMS ? VEC_FIRST_ITEMS : *capacity;
    while (grown < need && grown <= SIZE_MAX / 2) {
        grown *= 2;
    }
    if (grown < need) {
        grown = need;
    }
    uint64_t bytes;
    if (multiply_overflows(grown, item_bytes, &bytes) || exceeds_any_object(bytes)) {
        return error_nomem(err, SIZE_MAX);
    }
    void *items;
    memcpy(&items, items_pointer, sizeof(items));
    void *moved = realloc(items, bytes);
    if (moved == NULL) {
        return error_nomem(err, bytes);
    }
    memcpy(items_pointer, &moved, sizeof(moved));
    *capacity = grown;
    return PAWL_OK;
}
