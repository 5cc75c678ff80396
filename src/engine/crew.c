/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that read together: starting, reading, counting, ending. */
#include "engine/crew.h"

#include <sched.h>
#include <unistd.h>

size_t crew_step(const crew_member *m, size_t left) {
    return m->cached && left > READER_STEP_BYTES ? READER_STEP_BYTES : left;
}

pawl_status crew_read(crew_member *m, uint64_t at, size_t n, uint8_t *to, pawl_error *err) {
    engine_reader *r = m->reader;
    if (to == NULL) {
        to = m->cached ? r->step : r->window;
    }
    TRY(store_read(r->open, at, to, n, err));
    m->read = to;
    m->cached = r->open->read_cached;
    m->reads++;
    m->bytes += n;
    return PAWL_OK;
}

void crew_count(crew_member *m) {
    *m->crew->source->reads += m->reads;
    *m->crew->source->bytes += m->bytes;
    m->crew->bytes += m->bytes;
    m->reads = 0;
    m->bytes = 0;
}

static store_mode mode_of(const crew *c) {
    return c->source->shared ? STORE_READ : STORE_READ_BULK;
}

/* The first step is small: it finds out whether the bytes are cached. */
static crew_member member_of(crew *c, engine_reader *reader) {
    return (crew_member){.crew = c, .reader = reader, .cached = true};
}

/* Without memory for its window a thread leaves the work to the others. */
static void work_as_member(crew *c) {
    engine_reader *reader;
    struct pawl_error ignored = ERROR_INIT;
    if (engine_reader_new(c->source, &reader, &ignored) != PAWL_OK) {
        return;
    }
    reader->mode = mode_of(c);
    if (engine_reader_need_window(reader, &ignored) == PAWL_OK) {
        crew_member m = member_of(c, reader);
        c->work(c->task, &m);
    }
    engine_reader_free(reader);
}

static void thread_left(crew *c) {
    monitor_enter(&c->monitor);
    c->working--;
    monitor_announce(&c->monitor);
    monitor_leave(&c->monitor);
}

static void thread_main(void *argument) {
    crew *c = argument;
    work_as_member(c);
    thread_left(c);
}

/* Does the caller want to hear of it, or to be asked, meanwhile? */
static bool has_watcher(const crew *c) {
    return interrupt_asks(c->interrupted) || c->progress != NULL;
}

/* That this process may use. */
static size_t processors(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) == 0) {
        return (size_t)CPU_COUNT(&set);
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 1 ? (size_t)online : 1;
}

/* The caller's thread is one of the members, unless it only watches. Cached bytes are copied: more
 * threads than processors only get into each other's way. */
static size_t most_threads(const crew *c, bool cached) {
    size_t most = CREW_MEMBERS;
    if (cached && processors() < most) {
        most = processors();
    }
    return has_watcher(c) ? most : most - 1;
}

void crew_call(crew *c, bool cached) {
    const platform *p = c->source->platform;
    if (p == NULL || !p->concurrent) {
        return;
    }
    monitor_enter(&c->monitor);
    size_t slot = c->called;
    bool room = slot < most_threads(c, cached);
    c->called += room;
    c->working += room;
    monitor_leave(&c->monitor);
    struct pawl_error ignored = ERROR_INIT;
    if (room &&
        p->thread_start(p->context, thread_main, c, &c->threads[slot], &ignored) != PAWL_OK) {
        c->threads[slot] = NULL;
        thread_left(c);
    }
}

/* Its functions may run an interpreter: without the monitor. */
static void ask_watcher(crew *c) {
    monitor_enter(&c->monitor);
    uint64_t bytes = c->bytes;
    monitor_leave(&c->monitor);
    if (c->progress != NULL) {
        c->progress(c->progress_context, bytes);
    }
    bool stop = interrupt_said(c->interrupted);
    monitor_enter(&c->monitor);
    c->stopped = c->stopped || stop;
    monitor_leave(&c->monitor);
}

void crew_ask(crew_member *m) {
    if (m->caller && has_watcher(m->crew)) {
        ask_watcher(m->crew);
    }
}

/* Monitor not held. Waits a while; false: no thread works any more. */
static bool threads_work(crew *c) {
    CLEANUP(monitor_leave_pointer) monitor *held = &c->monitor;
    monitor_enter(held);
    if (c->working > 0) {
        (void)monitor_wait_until(held, platform_now_ns(c->source->platform) + INTERRUPT_PERIOD_NS);
    }
    return c->working > 0;
}

/* Others work, and this thread asks. */
static void ask_meanwhile(crew *c) {
    crew_call(c, false);
    while (threads_work(c)) {
        ask_watcher(c);
    }
}

static size_t called(crew *c) {
    monitor_enter(&c->monitor);
    size_t n = c->called;
    monitor_leave(&c->monitor);
    return n;
}

/* A thread is called by the first member or by one of a lower slot: when those have returned, its
 * slot is filled, and once all have returned nobody calls more. */
static void join_all(crew *c) {
    const platform *p = c->source->platform;
    for (size_t i = 0; i < called(c); i++) {
        if (c->threads[i] != NULL) {
            p->thread_join(p->context, c->threads[i]);
        }
    }
}

pawl_status crew_run(crew *c, engine_reader *reader, pawl_error *err) {
    TRY(engine_reader_need_window(reader, err));
    reader->mode = mode_of(c);
    TRY(monitor_init(&c->monitor, err));
    crew_member first = member_of(c, reader);
    first.caller = true;
    if (has_watcher(c)) {
        ask_meanwhile(c);
    }
    c->work(c->task, &first);
    join_all(c);
    monitor_destroy(&c->monitor);
    return PAWL_OK;
}
