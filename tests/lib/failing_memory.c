/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/failing_memory.h"
#include "lib/test.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MOST_RUNS 100000

/* More than this fails as it would on any machine; the sanitizers' malloc would end the program. */
#define MOST_BYTES ((size_t)1 << 38)

/* The names that the linker's --wrap asks for. */
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t item_bytes);
void *__real_realloc(void *memory, size_t bytes);
int __real_posix_memalign(void **memory, size_t alignment, size_t bytes);
void __real_free(void *memory);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t item_bytes);
void *__wrap_realloc(void *old, size_t bytes);
int __wrap_posix_memalign(void **out, size_t alignment, size_t bytes);
char *__wrap_strdup(const char *text);
void __wrap_free(void *pointer);

/*
 * Every live pointer, in a hash table with linear probing: memory that a shared library allocated
 * is freed through here too, and must not be counted.
 */
static struct {
    pthread_mutex_t mutex;
    uint64_t until_failure; /* 0: never */
    bool fired;
    void **slots;
    size_t capacity; /* a power of two */
    size_t live;
} memory = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static size_t slot_of(const void *pointer) {
    uint64_t mixed = (uint64_t)(uintptr_t)pointer * 0x9e3779b97f4a7c15U;
    return (size_t)(mixed >> 20) & (memory.capacity - 1);
}

static void insert(void *pointer) {
    size_t slot = slot_of(pointer);
    while (memory.slots[slot] != NULL) {
        slot = (slot + 1) & (memory.capacity - 1);
    }
    memory.slots[slot] = pointer;
}

static void grow(void) {
    void **old = memory.slots;
    size_t old_capacity = memory.capacity;
    memory.capacity = old_capacity > 0 ? old_capacity * 2 : 4096;
    memory.slots = __real_calloc(memory.capacity, sizeof(void *));
    if (memory.slots == NULL) {
        abort();
    }
    for (size_t i = 0; i < old_capacity; i++) {
        if (old[i] != NULL) {
            insert(old[i]);
        }
    }
    __real_free(old);
}

static void *remember(void *pointer) {
    if (pointer != NULL) {
        pthread_mutex_lock(&memory.mutex);
        if (memory.live * 2 >= memory.capacity) {
            grow();
        }
        insert(pointer);
        memory.live++;
        pthread_mutex_unlock(&memory.mutex);
    }
    return pointer;
}

/* Empties the slot and moves up what was pushed past it. */
static void vacate(size_t hole) {
    size_t at = hole;
    memory.slots[hole] = NULL;
    for (;;) {
        at = (at + 1) & (memory.capacity - 1);
        void *pointer = memory.slots[at];
        if (pointer == NULL) {
            return;
        }
        memory.slots[at] = NULL;
        insert(pointer);
    }
}

static void forget(const void *pointer) {
    pthread_mutex_lock(&memory.mutex);
    size_t slot = memory.capacity > 0 && pointer != NULL ? slot_of(pointer) : 0;
    while (memory.capacity > 0 && memory.slots[slot] != NULL) {
        if (memory.slots[slot] == pointer) {
            vacate(slot);
            memory.live--;
            break;
        }
        slot = (slot + 1) & (memory.capacity - 1);
    }
    pthread_mutex_unlock(&memory.mutex);
}

static bool fails_now(size_t bytes) {
    pthread_mutex_lock(&memory.mutex);
    bool now = memory.until_failure == 1;
    if (memory.until_failure > 0) {
        memory.until_failure--;
    }
    memory.fired = memory.fired || now;
    pthread_mutex_unlock(&memory.mutex);
    return now || bytes > MOST_BYTES;
}

void *__wrap_malloc(size_t bytes) {
    return fails_now(bytes) ? NULL : remember(__real_malloc(bytes));
}

void *__wrap_calloc(size_t count, size_t item_bytes) {
    return fails_now(item_bytes > 0 && count > MOST_BYTES / item_bytes ? SIZE_MAX : 0)
               ? NULL
               : remember(__real_calloc(count, item_bytes));
}

/* Forgotten first: once it is freed, another thread may get the same pointer. */
void *__wrap_realloc(void *old, size_t bytes) {
    if (fails_now(bytes)) {
        return NULL;
    }
    forget(old);
    void *moved = __real_realloc(old, bytes);
    remember(moved != NULL ? moved : old);
    return moved;
}

int __wrap_posix_memalign(void **out, size_t alignment, size_t bytes) {
    if (fails_now(bytes)) {
        return ENOMEM;
    }
    int failed = __real_posix_memalign(out, alignment, bytes);
    if (failed == 0) {
        remember(*out);
    }
    return failed;
}

char *__wrap_strdup(const char *text) {
    size_t bytes = strlen(text) + 1;
    char *copy = __wrap_malloc(bytes);
    return copy != NULL ? memcpy(copy, text, bytes) : NULL;
}

void __wrap_free(void *pointer) {
    if (pointer != NULL) {
        forget(pointer);
    }
    __real_free(pointer);
}

void failing_memory_set(uint64_t nth) {
    pthread_mutex_lock(&memory.mutex);
    memory.until_failure = nth;
    memory.fired = false;
    pthread_mutex_unlock(&memory.mutex);
}

bool failing_memory_fired(void) {
    pthread_mutex_lock(&memory.mutex);
    bool fired = memory.fired;
    pthread_mutex_unlock(&memory.mutex);
    return fired;
}

uint64_t failing_memory_live(void) {
    pthread_mutex_lock(&memory.mutex);
    uint64_t live = memory.live;
    pthread_mutex_unlock(&memory.mutex);
    return live;
}

uint64_t failing_memory_each(failing_memory_operation *operation, void *context) {
    for (uint64_t nth = 1; nth < MOST_RUNS; nth++) {
        struct pawl_error err = ERROR_INIT;
        uint64_t before = failing_memory_live();
        failing_memory_set(nth);
        pawl_status status = operation(context, &err);
        bool fired = failing_memory_fired();
        failing_memory_set(0);
        assert_int_equal(failing_memory_live(), before);
        assert_fails(status, fired ? PAWL_ENOMEM : PAWL_OK, &err);
        if (!fired) {
            return nth - 1;
        }
    }
    fail_msg("still failing after %d allocations", MOST_RUNS);
    return 0;
}
