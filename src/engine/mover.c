/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that calls providers of memory: starts jobs, and waits for the oldest while it asks
 * for the others. */
#include "engine/mover.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define IN_FLIGHT     4     /* tickets of one provider, unless it says how many */
#define WAIT_S        0.005 /* how long a provider may wait for one ticket while others are open */
#define FIRST_REST_NS 50000 /* after asking in vain; doubled each time */
#define REST_NS       2000000

struct mover {
    const platform *platform;
    void (*tune)(void *context);
    void *tune_context;
    platform_thread *thread;
    monitor monitor;
    /* Guarded by it. Ascending by age; those that are started come before the others. The mover's
     * thread alone takes jobs out, and changes them. */
    mover_job *first, **end;
    const mover_job *starting; /* the one whose provider has not returned yet; NULL: none */
    bool ending;
    void (*last)(void *context); /* of a mover that was abandoned */
    void *last_context;
};

/* ---- one job -------------------------------------------------------------------------------- */

static void take_out(mover *m, mover_job *job) {
    monitor_enter(&m->monitor);
    mover_job **link = &m->first;
    while (*link != job) {
        link = &(*link)->next;
    }
    *link = job->next;
    if (job->next == NULL) {
        m->end = link;
    }
    monitor_leave(&m->monitor);
}

/* Providers fill errors by pawl_copy_failed, or return a mere status. */
static pawl_status complete_story(const mover_job *job, pawl_status status, pawl_error *story) {
    if (status == PAWL_ETIMEOUT || status > STATUS_LAST) {
        status = PAWL_EIO;
    }
    if (story->attempt[0] == '\0') {
        error_set(story, status, "the copy failed");
    }
    story->status = status;
    if (status == PAWL_EIO && story->next[0] == '\0') {
        error_next(story, "find out why it failed where that memory is (for a GPU, in the messages "
                          "of its driver): pawl only heard that it did");
    }
    error_wrap(story, "copying %s the memory \"%s\"", job->in ? "to" : "from", job->memory->name);
    if (story->entry[0] == '\0') {
        error_entry(story, job->copies[0].entry);
        if (job->count > 1) {
            error_found(story, "a failure of this tensor, or of one that was copied with it");
        }
    }
    return status;
}

static void end_job(mover *m, mover_job *job, pawl_status status, pawl_error *story) {
    if (status != PAWL_OK) {
        status = complete_story(job, status, story);
    }
    take_out(m, job);
    job->ended(job, status, story);
}

static void set_starting(mover *m, const mover_job *job) {
    monitor_enter(&m->monitor);
    m->starting = job;
    monitor_leave(&m->monitor);
}

/* Of an abandoned mover: nobody waits for the copies any more, and what they would write to may be
 * in use again. */
static void drop_job(mover *m, mover_job *job) {
    struct pawl_error story = ERROR_INIT;
    pawl_status status = error_set(&story, PAWL_ECANCELED, "nobody waits for the copies any more");
    end_job(m, job, status, &story);
}

static void start_job(mover *m, mover_job *job) {
    const pawl_memory *memory = job->memory;
    struct pawl_error story = ERROR_INIT;
    job->started = true;
    job->ticket = NULL;
    set_starting(m, job);
    pawl_status status = (job->in ? memory->start_in : memory->start_out)(
        memory->context, job->list, job->count, &job->ticket, &story);
    set_starting(m, NULL);
    if (status == PAWL_OK && job->ticket != NULL && memory->wait == NULL) {
        status = error_set(&story, PAWL_EUSAGE, "start_%s gave a ticket, but `wait` is NULL",
                           job->in ? "in" : "out");
    }
    if (status != PAWL_OK || job->ticket == NULL) {
        end_job(m, job, status, &story);
    }
}

/* False: it goes on. */
static bool ask(mover *m, mover_job *job, double timeout_s) {
    struct pawl_error story = ERROR_INIT;
    pawl_status status = job->memory->wait(job->memory->context, job->ticket, timeout_s, &story);
    if (status == PAWL_ETIMEOUT) {
        return false;
    }
    end_job(m, job, status, &story);
    return true;
}

/* ---- all of them ---------------------------------------------------------------------------- */

static size_t limit_of(const pawl_memory *memory) {
    return memory->in_flight > 0 ? memory->in_flight : IN_FLIGHT;
}

/* The first job that is not started, if its provider takes one more. Monitor held. */
static mover_job *next_to_start(const mover *m) {
    mover_job *job = m->first;
    while (job != NULL && job->started) {
        job = job->next;
    }
    size_t under_way = 0;
    for (const mover_job *other = m->first; job != NULL && other != job; other = other->next) {
        under_way += other->memory == job->memory;
    }
    return job != NULL && under_way < limit_of(job->memory) ? job : NULL;
}

static void start_all(mover *m) {
    for (;;) {
        monitor_enter(&m->monitor);
        mover_job *job = next_to_start(m);
        bool abandoned = m->ending; /* for mover_free there are no jobs */
        monitor_leave(&m->monitor);
        if (job == NULL) {
            return;
        }
        (abandoned ? drop_job : start_job)(m, job);
    }
}

/* Started jobs stand first, and only this thread takes them out. */
static mover_job *started(mover *m, mover_job *after) {
    monitor_enter(&m->monitor);
    mover_job *job = after == NULL ? m->first : after->next;
    monitor_leave(&m->monitor);
    return job != NULL && job->started ? job : NULL;
}

/* Waits for the oldest, and asks for the others. Did one end? */
static bool ask_all(mover *m) {
    bool some = false;
    mover_job *next = NULL;
    double timeout_s = WAIT_S;
    for (mover_job *job = started(m, NULL); job != NULL; job = next) {
        next = started(m, job);
        some = ask(m, job, timeout_s) || some;
        timeout_s = 0;
    }
    return some;
}

/* Until there is a new job, or for a while where some are under way. False: it is all over. */
static bool rest(mover *m, uint64_t ns) {
    CLEANUP(monitor_leave_pointer) monitor *held = &m->monitor;
    monitor_enter(held);
    while (m->first == NULL && !m->ending) {
        monitor_wait_until(held, UINT64_MAX);
    }
    if (ns > 0 && m->first != NULL && next_to_start(m) == NULL) {
        monitor_wait_until(held, platform_now_ns(m->platform) + ns);
    }
    return m->first != NULL;
}

static void destroy(mover *m) {
    monitor_destroy(&m->monitor);
    mem_free(m);
}

static void mover_body(void *argument) {
    mover *m = argument;
    uint64_t rest_ns = 0;
    if (m->tune != NULL) {
        m->tune(m->tune_context);
    }
    while (rest(m, rest_ns)) {
        uint64_t begun_ns = platform_now_ns(m->platform);
        start_all(m);
        bool some = ask_all(m);
        bool waited = platform_now_ns(m->platform) - begun_ns >= (uint64_t)(WAIT_S * NANOSECONDS);
        if (some || waited) {
            rest_ns = 0;
        } else { /* the provider can only be asked */
            rest_ns = rest_ns == 0 ? FIRST_REST_NS : rest_ns < REST_NS ? 2 * rest_ns : rest_ns;
        }
    }
    if (m->last != NULL) {
        m->last(m->last_context);
        destroy(m);
    }
}

/* ---- from outside --------------------------------------------------------------------------- */

pawl_status mover_new(const platform *os, void (*tune)(void *context), void *context, mover **out,
                      pawl_error *err) {
    mover *m = mem_calloc(1, sizeof(*m));
    if (m == NULL) {
        return error_nomem(err, sizeof(*m));
    }
    m->platform = os;
    m->tune = tune;
    m->tune_context = context;
    m->end = &m->first;
    pawl_status status = monitor_init(&m->monitor, err);
    if (status != PAWL_OK) {
        mem_free(m);
        return status;
    }
    if (os->concurrent) {
        status = os->thread_start(os->context, mover_body, m, &m->thread, err);
    }
    if (status != PAWL_OK) {
        destroy(m);
        return status;
    }
    *out = m;
    return PAWL_OK;
}

static platform_thread *end(mover *m, void (*last)(void *context), void *context) {
    monitor_enter(&m->monitor);
    platform_thread *thread = m->thread;
    m->ending = true;
    m->last = last;
    m->last_context = context;
    monitor_announce(&m->monitor);
    monitor_leave(&m->monitor);
    return thread;
}

void mover_free(mover *m) {
    if (m == NULL) {
        return;
    }
    const platform *os = m->platform;
    platform_thread *thread = end(m, NULL, NULL);
    if (thread != NULL) {
        os->thread_join(os->context, thread);
    }
    assert(m->first == NULL);
    destroy(m);
}

void mover_abandon(mover *m, void (*last)(void *context), void *context) {
    const platform *os = m->platform;
    os->thread_abandon(os->context, end(m, last, context)); /* may have freed it by now */
}

static void run_in_line(mover *m, mover_job *job) {
    const platform *os = m->platform;
    start_all(m);
    while (started(m, NULL) == job) {
        if (!ask(m, job, WAIT_S)) {
            os->sleep_ns(os->context, FIRST_REST_NS);
        }
    }
}

void mover_submit(mover *m, mover_job *job) {
    job->next = NULL;
    job->started = false;
    monitor_enter(&m->monitor);
    *m->end = job;
    m->end = &job->next;
    monitor_announce(&m->monitor);
    monitor_leave(&m->monitor);
    if (!m->platform->concurrent) {
        run_in_line(m, job);
    }
}

void mover_look(mover *m, mover_wait *out) {
    *out = (mover_wait){0};
    if (m == NULL) {
        return;
    }
    CLEANUP(monitor_leave_pointer) monitor *held = &m->monitor;
    monitor_enter(held);
    const mover_job *awaited = m->starting != NULL ? m->starting : m->first;
    if (awaited != NULL) {
        snprintf(out->memory, sizeof(out->memory), "%s", awaited->memory->name);
        snprintf(out->entry, sizeof(out->entry), "%s", awaited->copies[0].entry);
    }
    for (const mover_job *job = m->first; job != NULL; job = job->next) {
        out->jobs++;
    }
}

/* ---- jobs out of a list of copies ----------------------------------------------------------- */

static pawl_status make_room(mover_batch *b, size_t copies, size_t jobs, pawl_error *err) {
    TRY(vec_reserve(&b->copies, &b->capacity, copies, sizeof(*b->copies), err));
    TRY(vec_reserve(&b->list, &b->list_capacity, copies, sizeof(const pawl_copy *), err));
    return vec_reserve(&b->jobs, &b->job_capacity, jobs, sizeof(*b->jobs), err);
}

pawl_status mover_batch_make(mover_batch *batch, const plan_copies *copies, bool in,
                             void (*ended)(mover_job *, pawl_status, const pawl_error *),
                             void *context, pawl_error *err) {
    size_t jobs = 0;
    for (size_t i = 0; i < copies->count; i++) {
        jobs += i == 0 || copies->items[i].entry->memory != copies->items[i - 1].entry->memory;
    }
    batch->job_count = 0;
    TRY(make_room(batch, copies->count, jobs, err));
    mover_job *job = NULL;
    for (size_t i = 0; i < copies->count; i++) {
        const plan_copy *from = &copies->items[i];
        batch->copies[i] = (pawl_copy){.struct_size = sizeof(*batch->copies),
                                       .entry = from->entry->name,
                                       .data = from->data,
                                       .offset = from->offset,
                                       .host = from->host,
                                       .bytes = from->bytes};
        batch->list[i] = &batch->copies[i];
        if (job == NULL || job->memory != from->entry->memory) {
            job = &batch->jobs[batch->job_count++];
            *job = (mover_job){.memory = from->entry->memory,
                               .in = in,
                               .copies = &batch->copies[i],
                               .list = &batch->list[i],
                               .ended = ended,
                               .context = context};
        }
        job->count++;
    }
    return PAWL_OK;
}

void mover_batch_free(mover_batch *batch) {
    mem_free(batch->copies);
    mem_free((const void *)batch->list);
    mem_free(batch->jobs);
    *batch = (mover_batch){0};
}
