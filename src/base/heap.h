/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heap: a binary heap of numbers with the least in front. The numbers are places in an array that
 * only the caller knows, and compares.
 */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H

#include <stddef.h>
#include <stdint.h>

typedef struct heap {
    uint32_t *items; /* of the caller */
    size_t count;    /* that are in the heap; further items may lie behind them */
    int (*compare)(const void *context, uint32_t a, uint32_t b);
    const void *context;
} heap;

/* Brings `count` items of any order into that of a heap. */
void heap_make(heap *h);
/* The item at place `at` became larger: moves it to where it belongs. */
void heap_sink(heap *h, size_t at);
/* Takes the least out: it is then at items[count]. */
void heap_pop(heap *h);
/* Puts items[count] in. */
void heap_push(heap *h);
/* The places of all items that compare equal to the least, ascending; their number, at least 1. The
 * heap is not empty. */
size_t heap_least(const heap *h, uint32_t *places);

#endif
