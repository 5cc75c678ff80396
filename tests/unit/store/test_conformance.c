/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the suite of conformance.h for every kind of store, and for every wrapper. */
#include "conformance.h"

#include "store/wrap.h"

typedef struct fixture fixture;

/* A kind of store makes `s`, over `inner` where it is a wrapper. */
typedef struct kind {
    const char *name;
    pawl_status (*make)(fixture *f, pawl_error *err);
} kind;

struct fixture {
    conformance_subject subject; /* first: tests take the fixture as one */
    store *inner;
    directory dir; /* posix */
};

static const kind *current;

static pawl_status make_posix(fixture *f, pawl_error *err) {
    directory_make(&f->dir);
    (void)snprintf(f->subject.absolute, sizeof(f->subject.absolute), "%s", f->dir.path);
    return store_posix(f->dir.path, &f->subject.s, err);
}

/* Opens every file in the mode for much data. */
static pawl_status around_bulk(store_wrapper *w, store_call *call, pawl_error *err) {
    (void)w;
    if (call->op == STORE_OP_OPEN && call->mode == STORE_READ) {
        call->mode = STORE_READ_BULK;
    } else if (call->op == STORE_OP_OPEN && call->mode == STORE_CREATE) {
        call->mode = STORE_CREATE_BULK;
    }
    return store_call_inner(call, err);
}

static pawl_status make_bulk(fixture *f, pawl_error *err) {
    TRY(make_posix(f, err));
    f->inner = f->subject.s;
    store_wrapper *w = mem_calloc(1, sizeof(*w));
    assert_non_null(w);
    TRY(store_wrapper_init(w, f->inner, err));
    w->around = around_bulk;
    f->subject.s = &w->base;
    return PAWL_OK;
}

static pawl_status make_mem(fixture *f, pawl_error *err) {
    return store_mem(&f->subject.s, err);
}

static pawl_status make_crash(fixture *f, pawl_error *err) {
    const store_traits traits = {.kind = "crash", .atomic_write_bytes = 512};
    return store_crash(&traits, &f->subject.s, err);
}

/* A fault that shortens every read and write: callers must not notice. */
static pawl_status make_short(fixture *f, pawl_error *err) {
    TRY(store_mem(&f->inner, err));
    TRY(store_fault_wrap(f->inner, platform_system(), &f->subject.s, err));
    store_fault_set(f->subject.s,
                    &(store_fault){.op = STORE_OP_ANY, .nth = 1, .forever = true, .shorten = true});
    return PAWL_OK;
}

static void ignore_event(void *context, const store_trace_event *event) {
    (void)context;
    (void)event;
}

static pawl_status make_trace(fixture *f, pawl_error *err) {
    TRY(store_mem(&f->inner, err));
    return store_trace_wrap(f->inner, platform_system(), ignore_event, NULL, &f->subject.s, err);
}

static pawl_status make_retry(fixture *f, pawl_error *err) {
    store *inner = NULL;
    TRY(store_mem(&inner, err));
    return store_retry_wrap(inner, platform_system(), 3, 1000, &f->subject.s, err);
}

static int set_up(void **state) {
    fixture *f = mem_calloc(1, sizeof(*f));
    pawl_error err = ERROR_INIT;
    (void)snprintf(f->subject.absolute, sizeof(f->subject.absolute), "/mem");
    assert_ok(current->make(f, &err), &err);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    store_destroy(f->subject.s);
    store_destroy(f->inner);
    if (f->dir.path[0] != '\0') {
        directory_remove(&f->dir);
    }
    mem_free(f);
    return 0;
}

int main(void) {
    static const kind kinds[] = {
        {"posix", make_posix}, {"posix, bulk", make_bulk},       {"mem", make_mem},
        {"crash", make_crash}, {"fault, all short", make_short}, {"trace", make_trace},
        {"retry", make_retry}};
    const struct CMUnitTest tests[] = {CONFORMANCE_TESTS};
    int failed = 0;
    for (size_t i = 0; i < ARRAY_LENGTH(kinds); i++) {
        current = &kinds[i];
        failed += cmocka_run_group_tests_name(current->name, tests, NULL, NULL);
    }
    return failed;
}
