/* SPDX-License-Identifier: Apache-2.0 */
/* A state to test with, and short ways to fill it. */
#ifndef UNIT_STATE_FIXTURE_H
#define UNIT_STATE_FIXTURE_H

#include "lib/test.h"
#include "state/state.h"

#include <string.h>

typedef struct fixture {
    pawl_state *state;
    pawl_error err;
} fixture;

static inline int set_up(void **context) {
    static fixture f;
    f.err = ERROR_INIT;
    *context = &f;
    return state_new(&f.state, &f.err) == PAWL_OK ? 0 : -1;
}

static inline int tear_down(void **context) {
    fixture *f = *context;
    state_free(f->state);
    return 0;
}

/* A tensor of 2 by 3 floats, right in every way. */
static inline pawl_tensor plain_tensor(const char *name) {
    static float data[6];
    static const int64_t shape[] = {2, 3};
    return (pawl_tensor){.struct_size = sizeof(pawl_tensor),
                         .name = name,
                         .dtype = PAWL_F32,
                         .ndim = 2,
                         .shape = shape,
                         .data = data};
}

static inline void add_plain(fixture *f, const char *name) {
    pawl_tensor t = plain_tensor(name);
    assert_ok(state_add_tensor(f->state, &t, &f->err), &f->err);
}

static inline void set_text(fixture *f, const char *name, const char *text) {
    assert_ok(state_set_value(f->state, name, PAWL_KIND_STRING, PAWL_ROLE_OTHER, false, text,
                              strlen(text), &f->err),
              &f->err);
}

#endif
