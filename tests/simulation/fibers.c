/* SPDX-License-Identifier: Apache-2.0 */
#undef _FORTIFY_SOURCE /* it takes a jump to another stack for a mistake */
#include "simulation/fibers.h"

#include "lib/random.h"
#include "simulation/sanitizers.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define GUARD_BYTES 4096u
#define TICK_NS     50u

struct fiber {
    fiber_place place;
    uint8_t *memory; /* guard and stack; NULL once it has ended */
    void *sanitizer;
    void (*body)(void *);
    void *argument;
    fiber_group *group;
    uint64_t wait;       /* number of its present wait: a wake-up for an older one is void */
    bool waiting, woken; /* in fiber_wait; how it ended */
    bool ended, let_go;
    fiber *joiner;
    bool parked;
    fiber *next_parked;
    fiber_list *in;
    fiber *next, *previous; /* in that list */
    fiber *next_free;
};

typedef struct wake_up {
    uint64_t at_ns, tie;
    fiber *who;
    uint64_t wait;
} wake_up;

/* There is one of all this, as there is one thread. */
static struct {
    fiber_place outside;
    void *sanitizer;
    const void *outside_stack;
    size_t outside_bytes;
    fiber *self;
    uint64_t now_ns, switches;
    test_random random;
    wake_up *heap;
    size_t count, capacity;
    fiber *ended; /* to be freed outside */
    fiber *free;
    void (*work)(void *);
    void *work_argument;
} all;

/* ---- the clock: wake-ups, the earliest first ------------------------------------------------- */

static bool earlier(const wake_up *a, const wake_up *b) {
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->tie < b->tie;
}

static void push(wake_up w) {
    if (all.count == all.capacity) {
        all.capacity = all.capacity > 0 ? all.capacity * 2 : 1024;
        all.heap = realloc(all.heap, all.capacity * sizeof *all.heap);
        if (all.heap == NULL) {
            abort();
        }
    }
    size_t at = all.count++;
    while (at > 0 && earlier(&w, &all.heap[(at - 1) / 2])) {
        all.heap[at] = all.heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    all.heap[at] = w;
}

static wake_up pop(void) {
    wake_up first = all.heap[0];
    wake_up last = all.heap[--all.count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= all.count) {
            break;
        }
        if (child + 1 < all.count && earlier(&all.heap[child + 1], &all.heap[child])) {
            child++;
        }
        if (!earlier(&all.heap[child], &last)) {
            break;
        }
        all.heap[at] = all.heap[child];
        at = child;
    }
    all.heap[at] = last;
    return first;
}

static void push_at(fiber *f, uint64_t at_ns) {
    push((wake_up){.at_ns = at_ns, .tie = random_next(&all.random), .who = f, .wait = f->wait});
}

/* ---- switching ------------------------------------------------------------------------------- */

static void to_outside(fiber *f) {
    sanitizer_leave(f->ended ? NULL : &f->sanitizer, all.outside_stack, all.outside_bytes);
    fiber_place_switch(&f->place, &all.outside);
    sanitizer_enter(f->sanitizer, &all.outside_stack, &all.outside_bytes);
}

static void to_fiber(fiber *f) {
    const void *ignored_stack;
    size_t ignored_bytes;
    all.self = f;
    all.switches++;
    sanitizer_leave(&all.sanitizer, f->memory + GUARD_BYTES, SANITIZER_STACK_BYTES);
    fiber_place_switch(&all.outside, &f->place);
    sanitizer_enter(all.sanitizer, &ignored_stack, &ignored_bytes);
    all.self = NULL;
}

static void free_fiber(fiber *f) {
    f->next_free = all.free;
    all.free = f;
}

static void begin(void) {
    fiber *f = all.self;
    sanitizer_enter(NULL, &all.outside_stack, &all.outside_bytes);
    f->body(f->argument);
    f->ended = true;
    if (f->joiner != NULL) {
        fiber_wake(f->joiner);
    }
    if (f->let_go) {
        all.ended = f;
    }
    to_outside(f);
    abort();
}

static void make_stack(fiber *f) {
    size_t bytes = GUARD_BYTES + SANITIZER_STACK_BYTES;
    f->memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (f->memory == MAP_FAILED || mprotect(f->memory, GUARD_BYTES, PROT_NONE) != 0) {
        perror("a fiber's stack");
        abort();
    }
}

/* getcontext returns twice: it has a function of its own, whose variables do not change. */
static void make_place(fiber *f) {
    getcontext(&f->place.first);
    f->place.begun = false;
    f->place.first.uc_stack.ss_sp = f->memory + GUARD_BYTES;
    f->place.first.uc_stack.ss_size = SANITIZER_STACK_BYTES;
    makecontext(&f->place.first, begin, 0);
}

fiber *fiber_start(fiber_group *group, void (*body)(void *), void *argument) {
    fiber *f = all.free;
    if (f != NULL) {
        all.free = f->next_free;
        /* Who used it before may have left wake-ups, which count no more. */
        *f = (fiber){.memory = f->memory, .wait = f->wait + 1};
    } else {
        f = calloc(1, sizeof *f);
        if (f == NULL) {
            abort();
        }
        make_stack(f);
    }
    f->body = body;
    f->argument = argument;
    f->group = group;
    make_place(f);
    f->waiting = true;
    push_at(f, all.now_ns);
    return f;
}

void fibers_begin(uint64_t seed) {
    memset(&all, 0, sizeof all);
    all.random.state = seed;
}

static void park(fiber *f) {
    if (f->parked) {
        return;
    }
    f->parked = true;
    f->next_parked = f->group->parked;
    f->group->parked = f;
}

static void run_one(wake_up w) {
    fiber *f = w.who;
    if (f->ended || w.wait != f->wait || f->group->dead) {
        return;
    }
    if (f->group->stopped) {
        park(f);
        return;
    }
    all.now_ns = w.at_ns > all.now_ns ? w.at_ns : all.now_ns;
    to_fiber(f);
    while (all.work != NULL) {
        void (*work)(void *) = all.work;
        all.work = NULL;
        work(all.work_argument);
        to_fiber(f);
    }
    if (all.ended != NULL) {
        free_fiber(all.ended);
        all.ended = NULL;
    }
}

void fibers_run(uint64_t until_ns) {
    while (all.count > 0 && all.heap[0].at_ns <= until_ns) {
        run_one(pop());
    }
}

uint64_t fibers_now(void) {
    return all.now_ns;
}

uint64_t fibers_switches(void) {
    return all.switches;
}

void fiber_call_outside(void (*work)(void *), void *argument) {
    if (all.self == NULL) {
        work(argument);
        return;
    }
    all.work = work;
    all.work_argument = argument;
    to_outside(all.self);
}

/* ---- one fiber ------------------------------------------------------------------------------- */

fiber *fiber_self(void) {
    return all.self;
}

fiber_group *fiber_group_of(const fiber *f) {
    return f->group;
}

bool fiber_ended(const fiber *f) {
    return f->ended;
}

bool fiber_wait(uint64_t until_ns) {
    fiber *f = all.self;
    assert(f != NULL);
    f->wait++;
    f->waiting = true;
    f->woken = false;
    if (until_ns != UINT64_MAX) {
        push_at(f, until_ns);
    }
    to_outside(f);
    f->waiting = false;
    f->wait++;
    return f->woken;
}

void fiber_wake(fiber *f) {
    if (f->waiting && !f->woken) {
        f->woken = true;
        f->wait++;
        push_at(f, all.now_ns);
    }
}

void fiber_sleep(uint64_t ns) {
    (void)fiber_wait(all.now_ns + ns);
}

uint64_t fiber_clock_ns(void) {
    all.now_ns += TICK_NS;
    return all.now_ns + (all.self != NULL ? all.self->group->clock_offset_ns : 0);
}

void fiber_join(fiber *f) {
    f->joiner = all.self;
    while (!f->ended) {
        (void)fiber_wait(UINT64_MAX);
    }
    free_fiber(f);
}

void fiber_let_go(fiber *f) {
    f->let_go = true;
    if (f->ended) {
        free_fiber(f);
    }
}

/* ---- groups ---------------------------------------------------------------------------------- */

void fiber_group_stop(fiber_group *group) {
    group->stopped = true;
    if (all.self != NULL && all.self->group == group) {
        fiber_sleep(0); /* parked */
    }
}

void fiber_group_go_on(fiber_group *group) {
    group->stopped = false;
    while (group->parked != NULL) {
        fiber *f = group->parked;
        group->parked = f->next_parked;
        f->parked = false;
        push_at(f, all.now_ns);
    }
}

void fiber_group_kill(fiber_group *group) {
    group->dead = true;
    if (all.self != NULL && all.self->group == group) {
        to_outside(all.self);
        abort();
    }
}

/* ---- lists ----------------------------------------------------------------------------------- */

void fiber_list_add(fiber_list *list, fiber *f) {
    assert(f->in == NULL);
    f->in = list;
    f->previous = NULL;
    f->next = list->first;
    if (f->next != NULL) {
        f->next->previous = f;
    }
    list->first = f;
}

void fiber_list_remove(fiber_list *list, fiber *f) {
    if (f->in != list) {
        return;
    }
    if (f->previous != NULL) {
        f->previous->next = f->next;
    } else {
        list->first = f->next;
    }
    if (f->next != NULL) {
        f->next->previous = f->previous;
    }
    f->in = NULL;
}

fiber *fiber_list_take(fiber_list *list) {
    fiber *f = list->first;
    if (f != NULL) {
        fiber_list_remove(list, f);
    }
    return f;
}

bool fibers_possible(void) {
    return SANITIZER_FIBERS;
}
