/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors files made by hand, right or wrong, in a store in memory. */
#ifndef FOREIGN_MADE_H
#define FOREIGN_MADE_H

#include "lib/stored.h"
#include "lib/test.h"

#include "foreign/foreign.h"
#include "stores/stores.h"

#include <stdio.h>
#include <string.h>

/* A file: its length, a header, and n bytes 0, 1, 2, ... of data. `length` negative: that of the
 * header. */
static inline void make_file(store *s, const char *name, const char *header, int64_t length,
                             size_t n) {
    struct pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer file = {0};
    uint64_t said = length < 0 ? strlen(header) : (uint64_t)length;
    assert_ok(buffer_u64le(&file, said, &err), &err);
    assert_ok(buffer_append(&file, header, strlen(header), &err), &err);
    for (size_t i = 0; i < n; i++) {
        uint8_t byte = (uint8_t)i;
        assert_ok(buffer_append(&file, &byte, 1, &err), &err);
    }
    put_anew(s, name, file.data, file.size);
}

static inline pawl_status open_made(store *s, const char *name, struct source **out,
                                    pawl_error *err) {
    *err = ERROR_INIT;
    *out = NULL;
    return foreign_open(s, false, name, true, out, err);
}

/* "dtype shape offset bytes" of a tensor; "" where there is none. */
static inline const char *made_entry(struct source *s, const char *name, char out[128]) {
    struct pawl_error err = ERROR_INIT;
    CLEANUP(arena_free) arena memory = {0};
    record_entry entry;
    bool found;
    char shape[64];
    out[0] = '\0';
    assert_ok(s->ops->find(s, name, &memory, &entry, &found, &err), &err);
    if (found) {
        snprintf(out, 128, "%s %s file %u at %llu of %llu", record_entry_type(&entry),
                 shape_text(shape, sizeof(shape), entry.ndim, entry.shape), entry.pieces[0].file,
                 (unsigned long long)entry.pieces[0].offset,
                 (unsigned long long)entry.pieces[0].bytes);
    }
    return out;
}

#endif
