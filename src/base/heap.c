/* SPDX-License-Identifier: Apache-2.0 */
#include "base/heap.h"

void heap_sink(heap *h, size_t at) {
    uint32_t item = h->items[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= h->count) {
            break;
        }
        if (child + 1 < h->count &&
            h->compare(h->context, h->items[child + 1], h->items[child]) < 0) {
            child++;
        }
        if (h->compare(h->context, h->items[child], item) >= 0) {
            break;
        }
        h->items[at] = h->items[child];
        at = child;
    }
    h->items[at] = item;
}

void heap_make(heap *h) {
    for (size_t at = h->count / 2; at-- > 0;) {
        heap_sink(h, at);
    }
}

void heap_pop(heap *h) {
    uint32_t least = h->items[0];
    h->count--;
    h->items[0] = h->items[h->count];
    h->items[h->count] = least;
    if (h->count > 0) {
        heap_sink(h, 0);
    }
}

void heap_push(heap *h) {
    size_t at = h->count++;
    uint32_t item = h->items[at];
    while (at > 0 && h->compare(h->context, item, h->items[(at - 1) / 2]) < 0) {
        h->items[at] = h->items[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    h->items[at] = item;
}

/* Equal ones are connected, from the first one down. */
size_t heap_least(const heap *h, uint32_t *places) {
    size_t n = 0;
    places[n++] = 0;
    for (size_t k = 0; k < n; k++) {
        size_t child = 2 * (size_t)places[k] + 1;
        for (size_t i = child; i < child + 2 && i < h->count; i++) {
            if (h->compare(h->context, h->items[i], h->items[0]) == 0) {
                places[n++] = (uint32_t)i;
            }
        }
    }
    return n;
}
