/* SPDX-License-Identifier: Apache-2.0 */
/* The checksums of HDF5: Jenkins' lookup3 of what describes data, Fletcher's of chunks. */
#include "foreign/hdf5/file.h"

static uint32_t rotate(uint32_t v, unsigned by) {
    return v << by | v >> (32 - by);
}

typedef struct lookup {
    uint32_t a, b, c;
} lookup;

static void mix(lookup *s) {
    static const uint8_t turns[] = {4, 6, 8, 16, 19, 4};
    for (unsigned i = 0; i < 6; i += 3) {
        s->a = (s->a - s->c) ^ rotate(s->c, turns[i]);
        s->c += s->b;
        s->b = (s->b - s->a) ^ rotate(s->a, turns[i + 1]);
        s->a += s->c;
        s->c = (s->c - s->b) ^ rotate(s->b, turns[i + 2]);
        s->b += s->a;
    }
}

static void finish(lookup *s) {
    s->c = (s->c ^ s->b) - rotate(s->b, 14);
    s->a = (s->a ^ s->c) - rotate(s->c, 11);
    s->b = (s->b ^ s->a) - rotate(s->a, 25);
    s->c = (s->c ^ s->b) - rotate(s->b, 16);
    s->a = (s->a ^ s->c) - rotate(s->c, 4);
    s->b = (s->b ^ s->a) - rotate(s->a, 14);
    s->c = (s->c ^ s->b) - rotate(s->b, 24);
}

/* Adds up to 12 bytes; what is not there counts as zeros. */
static void take(lookup *s, const uint8_t *data, size_t n) {
    uint32_t word[3] = {0, 0, 0};
    for (size_t i = 0; i < n; i++) {
        word[i / 4] |= (uint32_t)data[i] << (8 * (i % 4));
    }
    s->a += word[0];
    s->b += word[1];
    s->c += word[2];
}

uint32_t hdf5_lookup3(const uint8_t *data, size_t n) {
    uint32_t first = 0xdeadbeef + (uint32_t)n;
    lookup s = {first, first, first};
    while (n > 12) {
        take(&s, data, 12);
        mix(&s);
        data += 12;
        n -= 12;
    }
    if (n > 0) {
        take(&s, data, n);
        finish(&s);
    }
    return s.c;
}

/* ---- Fletcher ---- */

static uint32_t fold(uint32_t v) {
    return (v & 0xffff) + (v >> 16);
}

static void add_word(hdf5_fletcher *s, uint32_t word) {
    s->one = fold(s->one + word);
    s->two = fold(s->two + s->one);
}

/* Words are big-endian; a last byte without a second one is the higher half of a word. */
void hdf5_fletcher_add(hdf5_fletcher *s, const uint8_t *data, size_t n) {
    size_t i = 0;
    if (s->has_odd && n > 0) {
        add_word(s, (uint32_t)s->odd << 8 | data[i++]);
        s->has_odd = false;
    }
    for (; i + 1 < n; i += 2) {
        add_word(s, (uint32_t)data[i] << 8 | data[i + 1]);
    }
    if (i < n) {
        s->odd = data[i];
        s->has_odd = true;
    }
}

uint32_t hdf5_fletcher_end(hdf5_fletcher *s) {
    if (s->has_odd) {
        add_word(s, (uint32_t)s->odd << 8);
        s->has_odd = false;
    }
    return fold(s->two) << 16 | fold(s->one);
}
