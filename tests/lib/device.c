/* SPDX-License-Identifier: Apache-2.0 */
/* A provider of memory that makes trouble. */
#include "lib/device.h"
#include "lib/random.h"
#include "lib/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define HELD 4096
#define OPEN 64
#define WHY  128

typedef struct held {
    uint8_t *bytes;
    size_t n;
} held;

typedef struct ticket {
    bool open, out, hangs, fails;
    const pawl_copy *const *copies;
    size_t count, at; /* copies that are complete */
    size_t moved;     /* bytes of the next */
    size_t step;
} ticket;

struct device {
    pawl_memory table;
    device_plan plan;
    test_random random;
    pthread_t owner;
    pthread_mutex_t lock;
    pthread_cond_t released;
    held held[HELD];
    size_t held_count;
    ticket tickets[OPEN];
    size_t open;
    uint64_t starts_before; /* before the plan was changed */
    uint64_t most_of_plan;  /* tickets under way since then */
    bool waits, let_go;
    device_count count;
    uint64_t pinned;
    atomic_int inside;
    char misuse[WHY];
};

/* ---- how it is used ---- */

static void blame(device *d, const char *why) {
    if (d->misuse[0] == '\0') {
        (void)snprintf(d->misuse, sizeof d->misuse, "%s", why);
    }
}

static void enter(device *d) {
    if (atomic_fetch_add(&d->inside, 1) != 0) {
        blame(d, "two calls at a time");
    }
    pthread_mutex_lock(&d->lock);
    if (!d->plan.in_line && pthread_equal(d->owner, pthread_self()) != 0) {
        blame(d, "called on the test's own thread");
    }
}

static void leave(device *d) {
    pthread_mutex_unlock(&d->lock);
    (void)atomic_fetch_sub(&d->inside, 1);
}

/* NULL: no such bytes. */
static uint8_t *place(device *d, const pawl_copy *copy) {
    uintptr_t number = (uintptr_t)copy->data;
    if (number == 0 || number > d->held_count) {
        blame(d, "not a handle of this device");
        return NULL;
    }
    const held *h = &d->held[number - 1];
    if (copy->offset < 0 || (uint64_t)copy->offset > h->n || copy->bytes == 0 ||
        copy->bytes > h->n - (uint64_t)copy->offset) {
        blame(d, "a copy outside of its tensor");
        return NULL;
    }
    if (copy->entry[0] == '\0') { /* its name stays as long as the copy */
        blame(d, "a copy without a name");
    }
    return h->bytes + copy->offset;
}

/* ---- copying ---- */

static void move(device *d, ticket *t, size_t most) {
    while (most > 0 && t->at < t->count) {
        const pawl_copy *copy = t->copies[t->at];
        uint8_t *tensor = place(d, copy);
        size_t left = copy->bytes - t->moved;
        size_t n = left < most ? left : most;
        if (tensor != NULL && t->out) {
            memcpy((uint8_t *)copy->host + t->moved, tensor + t->moved, n);
        } else if (tensor != NULL) {
            memcpy(tensor + t->moved, (const uint8_t *)copy->host + t->moved, n);
        }
        *(t->out ? &d->count.out_bytes : &d->count.in_bytes) += n;
        most -= n;
        t->moved += n;
        if (t->moved == copy->bytes) {
            t->at++;
            t->moved = 0;
        }
    }
}

static void move_some(device *d) {
    if (d->most_of_plan < d->plan.together || random_below(&d->random, 100) < d->plan.idle) {
        return;
    }
    size_t first = (size_t)random_below(&d->random, OPEN);
    for (size_t i = 0; i < OPEN; i++) {
        ticket *t = &d->tickets[(first + i) % OPEN];
        if (t->open && !t->hangs && t->at < t->count) {
            move(d, t, t->step);
            return;
        }
    }
}

static void wait_until_released(device *d) {
    d->waits = true;
    while (!d->let_go) {
        pthread_cond_wait(&d->released, &d->lock);
    }
    d->waits = false;
}

static ticket *new_ticket(device *d, const pawl_copy *const *copies, size_t count, bool out) {
    for (size_t i = 0; i < OPEN; i++) {
        ticket *t = &d->tickets[i];
        if (!t->open) {
            size_t bytes = 0;
            for (size_t k = 0; k < count; k++) {
                bytes += copies[k]->bytes;
            }
            size_t pieces = d->plan.pieces > 0 ? d->plan.pieces : 1;
            *t = (ticket){.open = true,
                          .out = out,
                          .copies = copies,
                          .count = count,
                          .step = bytes / pieces + 1};
            d->open++;
            d->most_of_plan = d->open > d->most_of_plan ? d->open : d->most_of_plan;
            d->count.most_under_way = d->most_of_plan > d->count.most_under_way
                                          ? d->most_of_plan
                                          : d->count.most_under_way;
            return t;
        }
    }
    blame(d, "too many tickets");
    abort();
}

static void end_ticket(device *d, ticket *t) {
    t->open = false;
    d->open--;
}

static pawl_status fail_ticket(const ticket *t, pawl_error *err) {
    const pawl_copy *copy = t->copies[t->count - 1];
    error_set(err, PAWL_EIO, "the bus is on fire");
    error_entry(err, copy->entry);
    return PAWL_EIO;
}

static pawl_status start(device *d, const pawl_copy *const *copies, size_t count, bool out,
                         void **to, pawl_error *err) {
    uint64_t number = ++d->count.starts - d->starts_before;
    d->count.copies += count;
    for (size_t i = 0; i < count; i++) {
        (void)place(d, copies[i]);
    }
    ticket *t = new_ticket(d, copies, count, out);
    t->fails = number == d->plan.fail_nth;
    t->hangs = number == d->plan.hang_nth;
    if (t->fails && !d->plan.fail_late) {
        end_ticket(d, t);
        return fail_ticket(t, err);
    }
    if (t->hangs && d->plan.hang_inside) {
        wait_until_released(d);
        t->hangs = false;
    }
    d->waits = d->waits || t->hangs;
    if (d->plan.pieces == 0 && !t->hangs && !t->fails) {
        move(d, t, SIZE_MAX);
        end_ticket(d, t);
        return PAWL_OK;
    }
    *to = t;
    return PAWL_OK;
}

static pawl_status start_out(void *context, const pawl_copy *const *copies, size_t count, void **to,
                             pawl_error *err) {
    device *d = context;
    enter(d);
    pawl_status status = start(d, copies, count, true, to, err);
    leave(d);
    return status;
}

static pawl_status start_in(void *context, const pawl_copy *const *copies, size_t count, void **to,
                            pawl_error *err) {
    device *d = context;
    enter(d);
    pawl_status status = start(d, copies, count, false, to, err);
    leave(d);
    return status;
}

static pawl_status wait_for(void *context, void *of, double timeout_s, pawl_error *err) {
    device *d = context;
    ticket *t = of;
    pawl_status status = PAWL_ETIMEOUT;
    enter(d);
    if (!t->open) {
        blame(d, "waited for a ticket that has ended");
    }
    if (timeout_s > 0.1) {
        blame(d, "a long wait");
    }
    move_some(d);
    if (t->at == t->count) {
        end_ticket(d, t);
        status = t->fails ? fail_ticket(t, err) : PAWL_OK;
    }
    leave(d);
    return status;
}

/* ---- memory for buffers ---- */

static void *allocate(void *context, size_t bytes) {
    device *d = context;
    pthread_mutex_lock(&d->lock);
    void *memory = d->plan.no_room ? NULL : mem_aligned(4096, bytes);
    d->pinned += memory != NULL ? bytes : 0;
    d->count.most_pinned = d->pinned > d->count.most_pinned ? d->pinned : d->count.most_pinned;
    pthread_mutex_unlock(&d->lock);
    return memory;
}

static void release(void *context, void *memory, size_t bytes) {
    device *d = context;
    pthread_mutex_lock(&d->lock);
    d->pinned -= bytes;
    pthread_mutex_unlock(&d->lock);
    mem_free(memory);
}

/* ---- the test's side ---- */

device *device_new(const device_plan *plan) {
    device *d = mem_calloc(1, sizeof *d);
    d->table = (pawl_memory){.struct_size = sizeof d->table,
                             .name = "device",
                             .context = d,
                             .start_out = start_out,
                             .start_in = plan->read_only ? NULL : start_in,
                             .wait = wait_for,
                             .allocate = plan->pinned ? allocate : NULL,
                             .release = plan->pinned ? release : NULL};
    d->owner = pthread_self();
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->released, NULL);
    device_change(d, plan);
    return d;
}

void device_change(device *d, const device_plan *plan) {
    pthread_mutex_lock(&d->lock);
    d->plan = *plan;
    d->random.state = plan->seed;
    d->starts_before = d->count.starts;
    d->most_of_plan = 0;
    d->let_go = false;
    pthread_mutex_unlock(&d->lock);
}

static bool is_idle(device *d) {
    pthread_mutex_lock(&d->lock);
    bool idle = d->open == 0 && d->pinned == 0 && atomic_load(&d->inside) == 0;
    pthread_mutex_unlock(&d->lock);
    return idle;
}

/* What was left behind goes on after the call that has left it. */
static void wait_until_idle(device *d) {
    const platform *os = platform_system();
    uint64_t deadline_ns = platform_deadline_ns(os, 30);
    while (!is_idle(d) && !platform_late(os, deadline_ns)) {
        os->sleep_ns(os->context, 1000000);
    }
}

void device_free(device *d) {
    if (d == NULL) {
        return;
    }
    wait_until_idle(d);
    assert_string_equal(d->misuse, "");
    assert_int_equal(d->open, 0);
    assert_int_equal(d->pinned, 0);
    pthread_mutex_destroy(&d->lock);
    pthread_cond_destroy(&d->released);
    mem_free(d);
}

const pawl_memory *device_memory(device *d) {
    return &d->table;
}

void *device_hold(device *d, void *bytes, size_t n) {
    pthread_mutex_lock(&d->lock);
    assert_true(d->held_count < HELD);
    d->held[d->held_count++] = (held){.bytes = bytes, .n = n};
    void *handle = (void *)(uintptr_t)d->held_count;
    pthread_mutex_unlock(&d->lock);
    return handle;
}

uint8_t *device_bytes(device *d, const void *handle) {
    uintptr_t number = (uintptr_t)handle;
    assert_true(number > 0 && number <= d->held_count);
    return d->held[number - 1].bytes;
}

void device_release(device *d) {
    pthread_mutex_lock(&d->lock);
    for (size_t i = 0; i < OPEN; i++) {
        d->tickets[i].hangs = false;
    }
    d->plan.hang_nth = 0;
    d->let_go = true;
    d->waits = false;
    pthread_cond_broadcast(&d->released);
    pthread_mutex_unlock(&d->lock);
}

bool device_hangs(device *d) {
    pthread_mutex_lock(&d->lock);
    bool waits = d->waits;
    pthread_mutex_unlock(&d->lock);
    return waits;
}

device_count device_counted(device *d) {
    pthread_mutex_lock(&d->lock);
    device_count count = d->count;
    count.under_way = d->open;
    pthread_mutex_unlock(&d->lock);
    return count;
}
