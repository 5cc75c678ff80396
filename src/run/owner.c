/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One writer at a time, without clocks or locks.
 *
 * The owner of a run is the writer of the file owner-<generation> with the highest generation. The
 * file is created exclusively and never renamed, so of two newcomers exactly one succeeds, on any
 * storage that can create a file exclusively. Its record begins with a counter of fixed width,
 * which the owner overwrites in place; everything else in it stays.
 *
 * O1. A newcomer creates generation g+1 only when the owner of g is a dead process of this host, or
 *     after it has itself watched a whole lease pass without a change of the record.
 * O2. An owner renews only while its own lease has not run out since its last renewal began, by
 *     its own monotonic clock. Later than that it must win generation g+1 like any newcomer.
 * O3. An owner whose file is gone, or whose file's attempt is not its own, or beside a higher
 *     generation, has lost the run for good.
 * O4. Nothing is published or removed unless the last renewal began less than half a lease ago.
 * O5. Before an owner looks at what is committed it removes the temporary manifests of all other
 *     attempts (fence.c). So a writer that was paused after its last look at O4, one rename away
 *     from publishing, finds nothing to rename when it wakes up, however late that is. Storage that
 *     puts instead of renaming has O4 alone.
 */
#include "run/private.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define OWNER_PREFIX         "owner-"
#define OWNER_COUNTER_AT     12 /* of its first digit, after {"counter":" */
#define OWNER_COUNTER_DIGITS 20
#define OWNER_MAX_RECORD     65536u
#define NANOSECONDS          1e9

struct owner {
    store *store;
    const platform *platform;
    pawl_log log;
    double lease_s;
    process_identity self;
    char attempt[16];
    monitor guard; /* of everything below; never held during I/O */
    bool renewing; /* someone is at the record: generation and counter are theirs */
    uint64_t generation, counter;
    uint64_t renewed_ns; /* when the last successful renewal began */
    bool lost, stopping;
    platform_thread *heartbeat;
    bool heartbeat_ended;
};

static void owner_name(char out[32], uint64_t generation) {
    snprintf(out, 32, OWNER_PREFIX "%08llu", (unsigned long long)generation);
}

static bool owner_name_parse(const char *name, uint64_t *generation) {
    size_t prefix = strlen(OWNER_PREFIX);
    size_t length = strlen(name);
    if (strncmp(name, OWNER_PREFIX, prefix) != 0 || length < prefix + 8 || length > prefix + 18 ||
        strspn(name + prefix, "0123456789") != length - prefix) {
        return false;
    }
    uint64_t value = 0;
    for (const char *digit = name + prefix; *digit != '\0'; digit++) {
        value = value * 10 + (uint64_t)(*digit - '0');
    }
    *generation = value;
    return value > 0;
}

/* ---- the record ----------------------------------------------------------------------------- */

static pawl_status record_encode(const owner *o, buffer *out, pawl_error *err) {
    TRY(buffer_printf(out, err,
                      "{\"counter\":\"%020llu\",\"host\":", (unsigned long long)o->counter));
    TRY(buffer_json_string(out, o->self.host, strlen(o->self.host), err));
    TRY(buffer_printf(out, err, ",\"pid\":%lld,\"boot_id\":", (long long)o->self.pid));
    TRY(buffer_json_string(out, o->self.boot_id, strlen(o->self.boot_id), err));
    TRY(buffer_printf(out, err, ",\"pid_namespace\":"));
    TRY(buffer_json_string(out, o->self.pid_namespace, strlen(o->self.pid_namespace), err));
    TRY(buffer_printf(out, err, ",\"start_ticks\":%llu", (unsigned long long)o->self.start_ticks));
    TRY(buffer_printf(out, err, ",\"attempt\":\"%s\",\"lease_s\":", o->attempt));
    TRY(buffer_json_number(out, o->lease_s, err));
    return buffer_printf(out, err, "}\n");
}

static void copy_member(const json_t *record, const char *member, char *to, size_t size) {
    const char *text = json_string_value(json_object_get(record, member));
    snprintf(to, size, "%s", text != NULL ? text : "");
}

/* A record that does not parse is not an error: its owner was interrupted while writing it. */
static void record_decode(const buffer *text, owner_view *out) {
    json_error_t where;
    json_t *record =
        json_loadb((const char *)text->data, text->size, JSON_REJECT_DUPLICATES, &where);
    if (!json_is_object(record)) {
        json_decref(record);
        return;
    }
    char counter[OWNER_COUNTER_DIGITS + 1];
    copy_member(record, "counter", counter, sizeof counter);
    copy_member(record, "host", out->who.host, sizeof out->who.host);
    copy_member(record, "boot_id", out->who.boot_id, sizeof out->who.boot_id);
    copy_member(record, "pid_namespace", out->who.pid_namespace, sizeof out->who.pid_namespace);
    copy_member(record, "attempt", out->attempt, sizeof out->attempt);
    out->who.pid = json_integer_value(json_object_get(record, "pid"));
    out->who.start_ticks = (uint64_t)json_integer_value(json_object_get(record, "start_ticks"));
    out->lease_s = json_number_value(json_object_get(record, "lease_s"));
    json_decref(record);
    for (const char *digit = counter; *digit >= '0' && *digit <= '9'; digit++) {
        out->counter = out->counter * 10 + (uint64_t)(*digit - '0');
    }
    out->readable = strlen(counter) == OWNER_COUNTER_DIGITS && out->who.pid > 0 &&
                    out->attempt[0] != '\0' && out->lease_s > 0 &&
                    out->lease_s <= OWNER_MAX_LEASE_S;
}

typedef struct highest {
    uint64_t generation;
} highest;

static pawl_status note_generation(void *context, const char *name, pawl_error *err) {
    (void)err;
    highest *h = context;
    uint64_t generation;
    if (owner_name_parse(name, &generation) && generation > h->generation) {
        h->generation = generation;
    }
    return PAWL_OK;
}

static pawl_status highest_generation(store *s, uint64_t *out, pawl_error *err) {
    highest h = {0};
    TRY(store_list(s, "", note_generation, &h, err));
    *out = h.generation;
    return PAWL_OK;
}

/* Compares two clocks, so nothing is decided by it. */
static double heartbeat_age_s(store *s, const platform *os, const char *name) {
    struct pawl_error ignored = ERROR_INIT;
    store_stat found;
    if (store_stat_path(s, name, &found, &ignored) != PAWL_OK || found.modified_unix_ns == 0) {
        return -1;
    }
    double age_s = (double)(os->unix_time_ns(os->context) - found.modified_unix_ns) / NANOSECONDS;
    return age_s > 0 ? age_s : 0;
}

/* What the record says; not whether its writer is alive. */
static pawl_status read_record(store *s, owner_view *out, pawl_error *err) {
    memset(out, 0, sizeof *out);
    out->alive = PROCESS_UNKNOWN;
    TRY(highest_generation(s, &out->generation, err));
    if (out->generation == 0) {
        return PAWL_OK;
    }
    char name[32];
    owner_name(name, out->generation);
    CLEANUP(buffer_free) buffer text = {0};
    pawl_status status = store_read_file(s, name, OWNER_MAX_RECORD, &text, err);
    if (status == PAWL_ENOTFOUND) {
        return PAWL_OK; /* given up between the listing and now */
    }
    if (status != PAWL_OK) {
        return status;
    }
    out->present = true;
    record_decode(&text, out);
    return PAWL_OK;
}

pawl_status owner_look(store *s, const platform *os, owner_view *out, pawl_error *err) {
    char name[32];
    TRY(read_record(s, out, err));
    if (out->present) {
        owner_name(name, out->generation);
        out->heartbeat_age_s = heartbeat_age_s(s, os, name);
    }
    if (out->readable) {
        out->alive = os->process_alive(os->context, &out->who);
    }
    return PAWL_OK;
}

/* ---- taking over ---------------------------------------------------------------------------- */

/* "heartbeat 3 s ago"; where the storage tells no times, the heartbeat's number. */
static const char *heartbeat_text(char out[48], const owner_view *v) {
    if (v->heartbeat_age_s >= 0) {
        snprintf(out, 48, "heartbeat %.0f s ago", v->heartbeat_age_s);
    } else {
        snprintf(out, 48, "heartbeat %llu", (unsigned long long)v->counter);
    }
    return out;
}

/* A record of this very process: another handle of it, or one that could not remove its record.
 * Only the heartbeat tells which. */
static bool is_self(const owner *o, const process_identity *who) {
    return who->pid == o->self.pid && who->start_ticks == o->self.start_ticks &&
           strcmp(who->host, o->self.host) == 0 && strcmp(who->boot_id, o->self.boot_id) == 0 &&
           strcmp(who->pid_namespace, o->self.pid_namespace) == 0;
}

static pawl_status busy_error(const owner *o, const owner_view *v, const char *seen,
                              pawl_error *err) {
    bool self = v->readable && is_self(o, &v->who);
    error_set(err, PAWL_EBUSY, "another %s writes to this run",
              self ? "handle of this process" : "process");
    error_path(err, "%s", o->store->root);
    error_expected(err, "no other writer");
    if (v->readable) {
        char heartbeat[48];
        error_found(err, "host %s, pid %lld, attempt %s, %s, %s", v->who.host,
                    (long long)v->who.pid, v->attempt, heartbeat_text(heartbeat, v), seen);
    }
    if (self) {
        error_next(err, "close that one first with pawl_run_close, or save to another directory");
    } else if (v->readable) {
        error_next(err,
                   "stop that process (on %s: kill %lld) or save to another directory; the run is "
                   "taken over by itself once its heartbeat has stood still for %.0f s",
                   v->who.host, (long long)v->who.pid, v->lease_s);
    } else {
        error_found(err, "an owner record (generation %llu) that is still being written, %s",
                    (unsigned long long)v->generation, seen);
        error_next(err, "try again in a few seconds, or save to another directory");
    }
    error_safe(err, "nothing was written or changed");
    return PAWL_EBUSY;
}

static bool same_record(const owner_view *a, const owner_view *b) {
    return a->present == b->present && a->generation == b->generation && a->counter == b->counter &&
           strcmp(a->attempt, b->attempt) == 0;
}

/* A twentieth of the lease, and no longer than the caller is willing to wait. */
static uint64_t pause_ns(double lease_s, double left_s) {
    double pause_s = lease_s / 20 < left_s ? lease_s / 20 : left_s;
    return (uint64_t)(pause_s * NANOSECONDS) + 1;
}

/* Watches a present owner (O1). OK: the run is free; *seen is the last look. */
static pawl_status owner_watch(owner *o, double wait_s, owner_view *seen, pawl_error *err) {
    const platform *p = o->platform;
    uint64_t begun_ns = p->monotonic_ns(p->context);
    TRY(owner_look(o->store, p, seen, err));
    while (seen->present && seen->alive != PROCESS_DEAD) {
        double lease_s = seen->readable ? seen->lease_s : o->lease_s;
        double watched_s = (double)(p->monotonic_ns(p->context) - begun_ns) / NANOSECONDS;
        char text[96];
        if (seen->alive == PROCESS_ALIVE && !is_self(o, &seen->who)) {
            return busy_error(o, seen, "alive on this host", err);
        }
        if (watched_s >= lease_s) {
            return PAWL_OK;
        }
        if (watched_s >= wait_s) {
            snprintf(text, sizeof text, "not seen to move in the %.1f s it was watched", watched_s);
            return busy_error(o, seen, text, err);
        }
        p->sleep_ns(p->context, pause_ns(lease_s, wait_s - watched_s));
        owner_view now;
        TRY(owner_look(o->store, p, &now, err));
        bool moved = !same_record(&now, seen);
        *seen = now;
        if (moved && now.present) {
            double after_s = (double)(p->monotonic_ns(p->context) - begun_ns) / NANOSECONDS;
            snprintf(text, sizeof text, "which moved while it was watched (for %.1f s)", after_s);
            return busy_error(o, seen, text, err);
        }
    }
    return PAWL_OK;
}

static void set_renewed(owner *o, uint64_t begun_ns) {
    monitor_enter(&o->guard);
    o->renewed_ns = begun_ns;
    monitor_leave(&o->guard);
}

static pawl_status write_record(owner *o, store_file *file, pawl_error *err) {
    CLEANUP(buffer_free) buffer text = {0};
    TRY(record_encode(o, &text, err));
    TRY(store_write(file, 0, text.data, text.size, err));
    TRY(store_sync(file, err));
    return store_sync_dir(o->store, "", err);
}

/* Creates the record of o->generation; EBUSY when someone else was faster. */
static pawl_status owner_create(owner *o, pawl_error *err) {
    char name[32];
    owner_name(name, o->generation);
    CLEANUP(store_close_pointer) store_file *file = NULL;
    uint64_t begun_ns = o->platform->monotonic_ns(o->platform->context);
    TRY(store_open(o->store, name, STORE_CREATE, &file, err));
    o->counter = 1;
    pawl_status status = write_record(o, file, err);
    if (status != PAWL_OK) {
        struct pawl_error ignored = ERROR_INIT;
        if (store_unlink(o->store, name, &ignored) != PAWL_OK) {
            log_write(&o->log, PAWL_LOG_WARN, "%s", error_text(&ignored));
        }
        return status;
    }
    set_renewed(o, begun_ns);
    return PAWL_OK;
}

typedef struct predecessors {
    owner *owner;
    uint64_t generations[64]; /* more than that wait for the next owner */
    size_t count;
} predecessors;

static pawl_status note_predecessor(void *context, const char *name, pawl_error *err) {
    (void)err;
    predecessors *p = context;
    uint64_t generation;
    if (owner_name_parse(name, &generation) && generation < p->owner->generation &&
        p->count < ARRAY_LENGTH(p->generations)) {
        p->generations[p->count++] = generation;
    }
    return PAWL_OK;
}

/* Their records only tell the past now; one that cannot be removed does no harm. */
static void remove_predecessors(owner *o) {
    struct pawl_error ignored = ERROR_INIT;
    predecessors p = {.owner = o};
    if (store_list(o->store, "", note_predecessor, &p, &ignored) != PAWL_OK) {
        return;
    }
    for (size_t i = 0; i < p.count; i++) {
        char name[32];
        owner_name(name, p.generations[i]);
        if (store_unlink(o->store, name, &ignored) != PAWL_OK) {
            log_write(&o->log, PAWL_LOG_DEBUG, "%s", error_text(&ignored));
        }
    }
}

static pawl_status draw_attempt(owner *o, pawl_error *err) {
    uint8_t random[6];
    TRY(o->platform->random_bytes(o->platform->context, random, sizeof random, err));
    for (size_t i = 0; i < sizeof random; i++) {
        snprintf(o->attempt + 2 * i, 3, "%02x", random[i]);
    }
    return PAWL_OK;
}

static pawl_status owner_acquire(owner *o, double wait_s, pawl_error *err) {
    TRY(o->platform->identity(o->platform->context, &o->self, err));
    TRY(draw_attempt(o, err));
    owner_view seen;
    TRY(owner_watch(o, wait_s, &seen, err));
    o->generation = seen.generation + 1;
    pawl_status status = owner_create(o, err);
    if (status == PAWL_EBUSY) {
        TRY(owner_look(o->store, o->platform, &seen, err));
        return busy_error(o, &seen, "which was faster to take the run over", err);
    }
    if (status != PAWL_OK) {
        return status;
    }
    if (seen.present) {
        log_write(&o->log, PAWL_LOG_INFO, "took the run over from host %s, pid %lld (%s)",
                  seen.who.host, (long long)seen.who.pid,
                  seen.alive == PROCESS_DEAD ? "dead" : "no heartbeat for a lease");
    }
    remove_predecessors(o);
    return PAWL_OK;
}

pawl_status owner_take(store *s, const platform *os, const pawl_log *log, double lease_s,
                       double wait_s, owner **out, pawl_error *err) {
    owner *o = mem_calloc(1, sizeof *o);
    if (o == NULL) {
        return error_nomem(err, sizeof *o);
    }
    *o = (owner){.store = s, .platform = os, .log = *log, .lease_s = lease_s};
    pawl_status status = monitor_init(&o->guard, err);
    if (status != PAWL_OK) {
        mem_free(o);
        return status;
    }
    status = owner_acquire(o, wait_s, err);
    if (status != PAWL_OK) {
        monitor_destroy(&o->guard);
        mem_free(o);
        error_wrap(err, "open run");
        return status;
    }
    *out = o;
    return PAWL_OK;
}

/* ---- staying the owner ---------------------------------------------------------------------- */

static double age_s(owner *o) {
    uint64_t now_ns = o->platform->monotonic_ns(o->platform->context);
    monitor_enter(&o->guard);
    double age = (double)(now_ns - o->renewed_ns) / NANOSECONDS;
    monitor_leave(&o->guard);
    return age;
}

static bool is_lost(owner *o) {
    monitor_enter(&o->guard);
    bool lost = o->lost;
    monitor_leave(&o->guard);
    return lost;
}

static void set_lost(owner *o) {
    monitor_enter(&o->guard);
    o->lost = true;
    monitor_leave(&o->guard);
}

static pawl_status lost_error(owner *o, const owner_view *now, pawl_error *err) {
    set_lost(o);
    error_set(err, PAWL_EBUSY, "this process is no longer the owner of the run");
    error_path(err, "%s", o->store->root);
    error_expected(err, "owner generation %llu, attempt %s", (unsigned long long)o->generation,
                   o->attempt);
    if (now != NULL && now->present) {
        error_found(err, "generation %llu, attempt %s, host %s, pid %lld",
                    (unsigned long long)now->generation, now->attempt, now->who.host,
                    (long long)now->who.pid);
    } else {
        error_found(err, "no such owner record");
    }
    error_safe(err, "nothing was published or removed; the other writer's checkpoints stand");
    error_next(err, "stop this process, or let it save to another directory");
    return PAWL_EBUSY;
}

/* O2: the lease ran out, perhaps because this process was paused; win the next generation. */
static pawl_status reacquire(owner *o, pawl_error *err) {
    owner_view now;
    o->generation++;
    pawl_status status = owner_create(o, err);
    if (status == PAWL_EBUSY) {
        o->generation--;
        TRY(owner_look(o->store, o->platform, &now, err));
        return lost_error(o, &now, err);
    }
    if (status != PAWL_OK) {
        o->generation--;
        return status;
    }
    log_write(&o->log, PAWL_LOG_WARN,
              "no heartbeat for longer than the lease of %.0f s; took the run over from myself",
              o->lease_s);
    remove_predecessors(o);
    return PAWL_OK;
}

static pawl_status write_counter(owner *o, uint64_t counter, pawl_error *err) {
    char name[32];
    char digits[OWNER_COUNTER_DIGITS + 1];
    owner_name(name, o->generation);
    snprintf(digits, sizeof digits, "%020llu", (unsigned long long)counter);
    CLEANUP(store_close_pointer) store_file *file = NULL;
    TRY(store_open(o->store, name, STORE_UPDATE, &file, err));
    return store_write(file, OWNER_COUNTER_AT, digits, OWNER_COUNTER_DIGITS, err);
}

/* With `renewing` held. */
static pawl_status renew(owner *o, pawl_error *err) {
    uint64_t begun_ns = o->platform->monotonic_ns(o->platform->context);
    owner_view now;
    TRY(read_record(o->store, &now, err));
    if (!now.present || now.generation != o->generation || strcmp(now.attempt, o->attempt) != 0) {
        return lost_error(o, &now, err); /* O3 */
    }
    if (age_s(o) >= o->lease_s) {
        return reacquire(o, err);
    }
    TRY(write_counter(o, o->counter + 1, err));
    o->counter++;
    set_renewed(o, begun_ns);
    return PAWL_OK;
}

/* Takes `renewing`, waiting at most a lease for whoever holds it. */
static pawl_status begin_renewal(owner *o, pawl_error *err) {
    uint64_t now_ns = o->platform->monotonic_ns(o->platform->context);
    uint64_t deadline_ns = now_ns + (uint64_t)(o->lease_s * NANOSECONDS);
    monitor_enter(&o->guard);
    bool in_time = true;
    while (o->renewing && in_time) {
        in_time = monitor_wait_until(&o->guard, deadline_ns);
    }
    bool taken = !o->renewing;
    o->renewing = true;
    monitor_leave(&o->guard);
    if (!taken) {
        error_set(err, PAWL_ETIMEOUT,
                  "the heartbeat hangs: its record could not be renewed for %.0f s", o->lease_s);
        error_path(err, "%s", o->store->root);
        error_next(err, "check the storage; then save again");
        return PAWL_ETIMEOUT;
    }
    return PAWL_OK;
}

static void end_renewal(owner *o) {
    monitor_enter(&o->guard);
    o->renewing = false;
    monitor_announce(&o->guard);
    monitor_leave(&o->guard);
}

pawl_status owner_renew(owner *o, pawl_error *err) {
    TRY(begin_renewal(o, err));
    pawl_status status = is_lost(o) ? lost_error(o, NULL, err) : renew(o, err);
    end_renewal(o);
    return status;
}

bool owner_fresh(owner *o) {
    return !is_lost(o) && age_s(o) < o->lease_s / 2; /* O4 */
}

const char *owner_attempt(const owner *o) {
    return o->attempt;
}

uint64_t owner_generation(owner *o) {
    monitor_enter(&o->guard);
    uint64_t generation = o->generation;
    monitor_leave(&o->guard);
    return generation;
}

void owner_tend(owner *o) {
    struct pawl_error story = ERROR_INIT;
    if (!o->platform->concurrent && !is_lost(o) && age_s(o) >= o->lease_s / 6 &&
        owner_renew(o, &story) != PAWL_OK) {
        log_write(&o->log, PAWL_LOG_WARN, "heartbeat: %s", error_text(&story));
    }
}

/* Sleeps until the next heartbeat is due; false when it is time to stop. */
static bool heartbeat_pause(owner *o) {
    uint64_t now_ns = o->platform->monotonic_ns(o->platform->context);
    uint64_t next_ns = now_ns + (uint64_t)(o->lease_s / 6 * NANOSECONDS);
    monitor_enter(&o->guard);
    while (!o->stopping && monitor_wait_until(&o->guard, next_ns)) {
    }
    bool go_on = !o->stopping && !o->lost;
    monitor_leave(&o->guard);
    return go_on;
}

/* Several times a lease; a failure is only logged, the next save meets it again. */
static void heartbeat_body(void *argument) {
    owner *o = argument;
    while (heartbeat_pause(o)) {
        struct pawl_error story = ERROR_INIT;
        if (owner_renew(o, &story) != PAWL_OK) {
            log_write(&o->log, is_lost(o) ? PAWL_LOG_ERROR : PAWL_LOG_WARN, "heartbeat: %s",
                      error_text(&story));
        }
    }
    monitor_enter(&o->guard);
    o->heartbeat_ended = true;
    monitor_announce(&o->guard);
    monitor_leave(&o->guard);
}

pawl_status owner_start_heartbeat(owner *o, pawl_error *err) {
    if (!o->platform->concurrent) {
        return PAWL_OK;
    }
    return o->platform->thread_start(o->platform->context, heartbeat_body, o, &o->heartbeat, err);
}

/* False when the heartbeat hangs in the storage: it is abandoned then, with the owner. */
static bool stop_heartbeat(owner *o, double wait_s) {
    const platform *os = o->platform;
    uint64_t deadline_ns = os->monotonic_ns(os->context) + (uint64_t)(wait_s * NANOSECONDS);
    monitor_enter(&o->guard);
    o->stopping = true;
    monitor_announce(&o->guard);
    bool in_time = true;
    while (o->heartbeat != NULL && !o->heartbeat_ended && in_time) {
        in_time = monitor_wait_until(&o->guard, deadline_ns);
    }
    bool ended = o->heartbeat == NULL || o->heartbeat_ended;
    monitor_leave(&o->guard);
    if (o->heartbeat != NULL) {
        if (ended) {
            os->thread_join(os->context, o->heartbeat);
        } else {
            os->thread_abandon(os->context, o->heartbeat);
        }
        o->heartbeat = NULL;
    }
    return ended;
}

void owner_give_up(owner *o) {
    set_lost(o);
    stop_heartbeat(o, 0);
}

static void remove_own_record(owner *o) {
    struct pawl_error ignored = ERROR_INIT;
    owner_view now;
    if (is_lost(o) || read_record(o->store, &now, &ignored) != PAWL_OK || !now.present ||
        now.generation != o->generation || strcmp(now.attempt, o->attempt) != 0) {
        return;
    }
    char name[32];
    owner_name(name, o->generation);
    if (store_unlink(o->store, name, &ignored) != PAWL_OK) {
        log_write(&o->log, PAWL_LOG_WARN, "%s", error_text(&ignored));
    }
}

bool owner_release(owner *o) {
    if (o == NULL) {
        return true;
    }
    if (!stop_heartbeat(o, o->lease_s)) {
        set_lost(o);
        return false;
    }
    remove_own_record(o);
    monitor_destroy(&o->guard);
    mem_free(o);
    return true;
}
