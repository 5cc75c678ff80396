/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pawl show, a tensor's values: the start and end of each dimension. Of a tensor that is not small
 * only these are read, at most MOST_CELLS values however many dimensions there are.
 */
#include "memory.h"
#include "numbers.h"
#include "show.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CELLS = 216, SMALL_BYTES = 64 * 1024 };

typedef struct preview {
    output *out;
    pawl_checkpoint *checkpoint;
    const tensor_ref *tensor;
    /* Per dimension: how many indices are shown from its start, and how many at its end. */
    int64_t head[PAWL_MAX_NDIM], tail[PAWL_MAX_NDIM];
    int64_t index[PAWL_MAX_NDIM];
    char *whole; /* all bytes of a small tensor; NULL otherwise */
    char (*cells)[NUMBER_SIZE];
    size_t filled, printed;
    int width;
    int64_t first,
        last; /* how many values of each row are printed from its start, and at its end */
} preview;

static int64_t shown_of(const preview *p, int dimension) {
    return p->head[dimension] + p->tail[dimension];
}

/* How many values would be shown; any number above MOST_CELLS if that is too many. */
static int64_t cells_of(const preview *p) {
    int64_t cells = 1;
    for (int i = 0; i < p->tensor->ndim && cells <= MOST_CELLS; i++) {
        cells *= shown_of(p, i);
    }
    return cells;
}

/* While it is too much, shows less of the outer dimensions: one index at each end, then only the
 * first. */
static void choose_ends(preview *p, int64_t edge) {
    const tensor_ref *t = p->tensor;
    for (int i = 0; i < t->ndim; i++) {
        bool all = t->shape[i] <= 2 * edge;
        p->head[i] = all ? t->shape[i] : edge;
        p->tail[i] = all ? 0 : edge;
    }
    for (int i = 0; i + 1 < t->ndim && cells_of(p) > MOST_CELLS; i++) {
        p->head[i] = t->shape[i] < 2 ? t->shape[i] : 1;
        p->tail[i] = t->shape[i] < 2 ? 0 : 1;
    }
    for (int i = 0; i + 1 < t->ndim && cells_of(p) > MOST_CELLS; i++) {
        p->tail[i] = 0;
    }
}

/* Reads `count` elements along the last dimension from p->index on. */
static pawl_status read_stretch(preview *p, int64_t count, char *to) {
    const tensor_ref *t = p->tensor;
    size_t size = numbers_size(t->dtype);
    int64_t extent[PAWL_MAX_NDIM];
    uint64_t linear = 0;
    for (int i = 0; i < t->ndim; i++) {
        extent[i] = i + 1 < t->ndim ? 1 : count;
        linear = linear * (uint64_t)t->shape[i] + (uint64_t)p->index[i];
    }
    if (p->whole != NULL) {
        memcpy(to, p->whole + linear * size, (size_t)count * size);
        return PAWL_OK;
    }
    return pawl_checkpoint_read(p->checkpoint, t->name, p->index, extent, to, (size_t)count * size,
                                p->out->err);
}

static pawl_status fetch_stretch(preview *p, int64_t from, int64_t count) {
    const tensor_ref *t = p->tensor;
    size_t size = numbers_size(t->dtype);
    if (count == 0) {
        return PAWL_OK;
    }
    SCOPED(scoped_free) char *bytes = must_alloc((size_t)count * size);
    if (t->ndim > 0) {
        p->index[t->ndim - 1] = from;
    }
    pawl_status status = read_stretch(p, count, bytes);
    for (int64_t i = 0; i < count && status == PAWL_OK; i++) {
        assert(p->filled < MOST_CELLS);
        char *cell = p->cells[p->filled++];
        numbers_element(cell, t->dtype, bytes + (size_t)i * size, SHOWN_DIGITS);
        int width = (int)strlen(cell);
        p->width = width > p->width ? width : p->width;
    }
    return status;
}

static pawl_status fetch_dimension(preview *p, int dimension) {
    const tensor_ref *t = p->tensor;
    if (t->ndim == 0) {
        return fetch_stretch(p, 0, 1);
    }
    int64_t end = t->shape[dimension];
    int64_t head = p->head[dimension];
    int64_t tail = p->tail[dimension];
    if (dimension + 1 == t->ndim) {
        pawl_status status = fetch_stretch(p, 0, head);
        return status != PAWL_OK ? status : fetch_stretch(p, end - tail, tail);
    }
    for (int64_t i = 0; i < head + tail; i++) {
        p->index[dimension] = i < head ? i : end - tail + (i - head);
        pawl_status status = fetch_dimension(p, dimension + 1);
        if (status != PAWL_OK) {
            return status;
        }
    }
    return PAWL_OK;
}

/* Between two rows, as numpy does: one newline per closed bracket, then the indent. */
static void put_break(const preview *p, int dimension) {
    for (int i = dimension + 1; i < p->tensor->ndim; i++) {
        putchar('\n');
    }
    printf("%*s", dimension + 1, "");
}

/* The width of a line of `count` values of the last dimension, with all its brackets. */
static int64_t columns_of_line(const preview *p, int64_t count) {
    bool gap = count < p->tensor->shape[p->tensor->ndim - 1];
    int64_t brackets = 2 * (int64_t)p->tensor->ndim;
    return brackets + count * (p->width + 1) - 1 + (gap ? (int64_t)sizeof " ..." - 1 : 0);
}

/* Sets p->first and p->last so that lines fit the terminal. False if not even one value fits. */
static bool choose_values(preview *p) {
    const tensor_ref *t = p->tensor;
    if (t->ndim == 0) {
        return true;
    }
    p->first = p->head[t->ndim - 1];
    p->last = p->tail[t->ndim - 1];
    while (p->out->columns > 0 && columns_of_line(p, p->first + p->last) > p->out->columns) {
        if (p->last == 0 && p->first > 1) { /* so far all values of the row are printed */
            p->last = p->first / 2;
            p->first -= p->last;
        }
        if (p->first + p->last <= 1) {
            return false;
        }
        if (p->first > p->last) {
            p->first--;
        } else {
            p->last--;
        }
    }
    return true;
}

/* Prints the next row of the fetched values. */
static void put_values(preview *p) {
    int last = p->tensor->ndim - 1;
    int64_t fetched = shown_of(p, last);
    bool gap = p->first + p->last < p->tensor->shape[last];
    putchar('[');
    for (int64_t i = 0; i < p->first + p->last; i++) {
        int64_t place = i < p->first ? i : fetched - p->last + (i - p->first);
        fputs(gap && i == p->first ? " ..." : "", stdout);
        printf("%s%*s", i > 0 ? " " : "", p->width, p->cells[p->printed + (size_t)place]);
    }
    fputs(gap && p->last == 0 ? " ...]" : "]", stdout);
    p->printed += (size_t)fetched;
}

static void put_dimension(preview *p, int dimension) {
    const tensor_ref *t = p->tensor;
    if (t->ndim == 0) {
        fputs(p->cells[0], stdout);
        return;
    }
    if (dimension + 1 == t->ndim) {
        put_values(p);
        return;
    }
    bool gap = shown_of(p, dimension) < t->shape[dimension];
    putchar('[');
    for (int64_t i = 0; i < shown_of(p, dimension) + gap; i++) {
        if (i > 0) {
            put_break(p, dimension);
        }
        if (gap && i == p->head[dimension]) {
            fputs("...", stdout);
        } else {
            put_dimension(p, dimension + 1);
        }
    }
    putchar(']');
}

static pawl_status fetch_all(preview *p) {
    const tensor_ref *t = p->tensor;
    if (t->bytes <= SMALL_BYTES) {
        p->whole = must_alloc((size_t)t->bytes);
        pawl_status status = pawl_checkpoint_read(p->checkpoint, t->name, NULL, NULL, p->whole,
                                                  (size_t)t->bytes, p->out->err);
        if (status != PAWL_OK) {
            return status;
        }
    }
    return fetch_dimension(p, 0);
}

pawl_status show_preview(output *out, pawl_checkpoint *checkpoint, const tensor_ref *t,
                         int64_t edge) {
    preview p = {.out = out, .checkpoint = checkpoint, .tensor = t};
    if (t->elements == 0) {
        fputs("[]\n", stdout);
        return PAWL_OK;
    }
    choose_ends(&p, edge);
    p.cells = must_alloc(MOST_CELLS * sizeof *p.cells);
    pawl_status status = fetch_all(&p);
    if (status == PAWL_OK && choose_values(&p)) {
        put_dimension(&p, 0);
        putchar('\n');
    } else if (status == PAWL_OK) {
        output_line(out, "The terminal is too narrow to show values (see --full).");
    }
    free(p.cells);
    free(p.whole);
    return status;
}
