/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The owner of a run: one writer at a time, without clocks or locks.
 *
 * The owner of a run is the writer of the file owner-<generation> with the highest generation. The
 * file is created exclusively and never renamed, so of two newcomers exactly one succeeds, on any
 * storage that can create a file exclusively. The record in it begins with a counter of fixed
 * width, which the owner overwrites in place; the rest of the record stays. An owner that closes
 * the run sets the counter to 0 and leaves the file to its successor.
 *
 * An attempt is the random id of one opening of a run for writing. It stands in owners' records, in
 * file names and in events.
 *
 * O1. A newcomer creates generation g+1 only when the owner of g has given it up, or is a dead
 *     process of this host, or after it has itself watched a whole lease pass without a change of
 *     the record. A record that it cannot find or read counts as present: storage may show it late.
 *     It is the owner only when it finds no other new record beside its own (owner_take.c). Names
 *     that name_owner does not make, and anything that is not a file, are ignored.
 * O2. An owner renews only while its own lease has not run out since its last renewal began, by
 *     its own monotonic clock. After that it must create the next generation, as newcomers do.
 * O3. An owner that reads another attempt in its record, or in one of a higher generation, or finds
 *     in its own record a counter that it has not written, has lost the run for good. Where it
 *     merely cannot find or read a record, only this renewal failed: storage may show it late.
 * O4. Nothing is published or removed unless the last renewal began less than half a lease ago.
 * O5. Before an owner looks at what is committed it evicts all other attempts: it removes their
 *     temporary manifests (commit/evict.c). So a writer that was paused after its last check of O4,
 *     just before the rename that publishes, finds nothing to rename when it wakes up, however late
 *     that is.
 *
 * On object stores it is simpler: owner_object.c.
 */
#include "presence/owner.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- staying the owner ---------------------------------------------------------------------- */

static double age_s(owner *o) {
    monitor_enter(&o->guard);
    double age = platform_since_s(o->platform, o->renewed_ns);
    monitor_leave(&o->guard);
    return age;
}

/* STORE_UPDATE refuses a file with several hard links. */
static bool is_linked(const pawl_error *err) {
    return err->system_errno == EMLINK;
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

static void set_renewed(owner *o, uint64_t begun_ns) {
    monitor_enter(&o->guard);
    o->renewed_ns = begun_ns;
    monitor_leave(&o->guard);
}

static pawl_status lost_error(owner *o, const owner_sight *now, pawl_error *err) {
    set_lost(o);
    error_set(err, PAWL_EBUSY, "this process is no longer the owner of the run");
    error_path(err, "%s", o->store->root);
    error_expected(err, "owner generation %llu, attempt %s", (unsigned long long)o->generation,
                   o->attempt);
    if (now != NULL && strcmp(now->attempt, o->attempt) == 0) {
        error_found(err, "a record that a copy of this process has renewed (number %llu, not %llu)",
                    (unsigned long long)now->counter, (unsigned long long)o->counter);
    } else if (now != NULL) {
        error_found(err, "generation %llu, attempt %s, host %s, pid %lld",
                    (unsigned long long)now->generation, now->attempt, now->who.host,
                    (long long)now->who.pid);
    }
    error_safe(err, "nothing was published or removed; the other writer's checkpoints stand");
    error_next(err, "stop this process, or let it save to another directory");
    return PAWL_EBUSY;
}

/* O3: the renewal failed, but the run is not proven lost. */
static pawl_status unproven_error(const owner *o, const owner_sight *now, pawl_error *err) {
    error_set(err, PAWL_EIO, "the ownership of the run could not be renewed");
    error_path(err, "%s", o->store->root);
    error_expected(err, "owner generation %llu, attempt %s", (unsigned long long)o->generation,
                   o->attempt);
    error_found(err, "an owner record of generation %llu that is not there, or cannot be read",
                (unsigned long long)now->generation);
    error_safe(err, "nothing was published or removed");
    error_next(err, "the storage may show it late: save again");
    return PAWL_EIO;
}

/* Creates the next generation: where the lease ran out (O2), or our record cannot be renewed. */
static pawl_status win_next(owner *o, const owner_names *names, pawl_error *err) {
    owner_sight now;
    uint64_t highest = names->highest > o->generation ? names->highest : o->generation;
    pawl_status status = owner_win(o, highest + 1, names, err);
    if (status != PAWL_EBUSY) {
        return status;
    }
    TRY(owner_look(o->store, o->platform, &now, err));
    return now.readable ? lost_error(o, &now, err) : unproven_error(o, &now, err);
}

static pawl_status reacquire(owner *o, const owner_names *names, pawl_error *err) {
    TRY(win_next(o, names, err));
    log_write(
        &o->log, PAWL_LOG_WARN,
        "no heartbeat for longer than the lease of %.0f s; this process took the run over again",
        o->lease_s);
    return PAWL_OK;
}

/* A record of a higher generation that cannot be read: of a newcomer that is about to write or
 * remove it, or our own, whose creation seemed to fail. Watched for a lease, as newcomers do (O1).
 * */
static pawl_status beside_unreadable(owner *o, const owner_names *names, const owner_sight *now,
                                     pawl_error *err) {
    if (o->blocked_by != now->generation) {
        o->blocked_by = now->generation;
        o->blocked_ns = platform_now_ns(o->platform);
    }
    if (platform_since_s(o->platform, o->blocked_ns) < o->lease_s) {
        return unproven_error(o, now, err);
    }
    return reacquire(o, names, err);
}

/* The record of a higher generation is ours: its creation seemed to fail. */
static void adopt_record(owner *o, const owner_sight *now) {
    monitor_enter(&o->guard);
    o->generation = now->generation;
    o->counter = now->counter;
    monitor_leave(&o->guard);
    o->unwritten = false;
}

/* A copy of the run by hard links shares our record, and writing in place would change the copy,
 * too. So a record of the next generation takes its place. */
static pawl_status leave_linked_record(owner *o, const owner_names *names, pawl_error *err) {
    uint64_t linked = o->generation;
    TRY(win_next(o, names, err));
    log_write(&o->log, PAWL_LOG_INFO,
              "the owner's record is hard-linked under another name, as in a copy of the run; "
              "generation %llu takes the place of %llu",
              (unsigned long long)o->generation, (unsigned long long)linked);
    return PAWL_OK;
}

static pawl_status write_anew(owner *o, pawl_error *err) {
    char name[32];
    CLEANUP(store_close_pointer) store_file *file = NULL;
    name_owner(name, o->generation);
    TRY(store_open(o->store, name, STORE_UPDATE, &file, err));
    return owner_write(o, file, err);
}

/* There was no room for the bytes of our record; there may be now. Until then others see that we
 * are alive by new generations. */
static pawl_status renew_unwritten(owner *o, const owner_names *names, uint64_t begun_ns,
                                   pawl_error *err) {
    pawl_status status = write_anew(o, err);
    if (status == PAWL_OK) {
        o->unwritten = false;
        set_renewed(o, begun_ns);
        return PAWL_OK;
    }
    if (is_linked(err)) {
        return leave_linked_record(o, names, err);
    }
    if (status != PAWL_ENOSPACE) {
        return status;
    }
    return age_s(o) < o->lease_s / 6 ? PAWL_OK : win_next(o, names, err);
}

/* On filesystems that copy on write, even overwriting may need room. */
static pawl_status write_in_place(owner *o, uint64_t counter, pawl_error *err) {
    pawl_status status = owner_write_counter(o, counter, err);
    if (status == PAWL_ENOSPACE && reserve_remove(o->store)) {
        status = owner_write_counter(o, counter, err);
        reserve_make_anew(o->store);
    }
    return status;
}

static pawl_status write_counter(owner *o, const owner_names *names, uint64_t begun_ns,
                                 pawl_error *err) {
    o->counter++; /* also when it fails: it may have been written */
    pawl_status status = write_in_place(o, o->counter, err);
    if (status != PAWL_OK) {
        return is_linked(err) ? leave_linked_record(o, names, err) : status;
    }
    set_renewed(o, begun_ns);
    return PAWL_OK;
}

/* Where the lease has run out the storage still says whose the run is. */
static pawl_status renew_object(owner *o, pawl_error *err) {
    uint64_t begun_ns = platform_now_ns(o->platform);
    owner_sight now;
    pawl_status status = owner_object_renew(o, &now, err);
    if (status == PAWL_OK) {
        set_renewed(o, begun_ns);
        return PAWL_OK;
    }
    if (status != PAWL_EBUSY) {
        return status;
    }
    return now.readable ? lost_error(o, &now, err) : unproven_error(o, &now, err);
}

/* With `renewing` held. */
static pawl_status renew(owner *o, pawl_error *err) {
    uint64_t begun_ns = platform_now_ns(o->platform);
    owner_names names;
    owner_sight now;
    if (o->store->traits.objects) {
        return renew_object(o, err);
    }
    TRY(owner_list(o->store, &names, err));
    TRY(owner_read(o->store, &names, o->generation, &now, err));
    if (now.readable && strcmp(now.attempt, o->attempt) != 0) {
        return lost_error(o, &now, err); /* O3 */
    }
    if (now.readable && now.generation > o->generation) {
        adopt_record(o, &now);
    }
    if (now.generation > o->generation) {
        return beside_unreadable(o, &names, &now, err);
    }
    if (now.readable && now.counter > o->counter) {
        return lost_error(o, &now, err); /* O3 */
    }
    if (age_s(o) >= o->lease_s) {
        return reacquire(o, &names, err);
    }
    if (o->unwritten) {
        return renew_unwritten(o, &names, begun_ns, err);
    }
    return now.readable ? write_counter(o, &names, begun_ns, err) : unproven_error(o, &now, err);
}

/* Takes `renewing`, waiting at most a lease for whoever holds it. */
static pawl_status begin_renewal(owner *o, pawl_error *err) {
    uint64_t deadline_ns = platform_deadline_ns(o->platform, o->lease_s);
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

static void set_work(owner *o, bool working, int64_t step) {
    monitor_enter(&o->guard);
    o->working = working;
    o->working_on = step;
    monitor_leave(&o->guard);
}

/* `step` [NULL]: is worked on from now on. */
static pawl_status renew_with(owner *o, const int64_t *step, pawl_error *err) {
    TRY(begin_renewal(o, err));
    if (step != NULL && o->store->traits.objects) {
        set_work(o, true, *step);
    }
    pawl_status status = is_lost(o) ? lost_error(o, NULL, err) : renew(o, err);
    end_renewal(o);
    return status;
}

pawl_status owner_renew(owner *o, pawl_error *err) {
    return renew_with(o, NULL, err);
}

pawl_status owner_work_on(owner *o, int64_t step, pawl_error *err) {
    return renew_with(o, &step, err);
}

void owner_work_done(owner *o) {
    set_work(o, false, 0);
}

bool owner_is_working(owner *o, int64_t *step) {
    monitor_enter(&o->guard);
    bool working = o->working;
    *step = o->working_on;
    monitor_leave(&o->guard);
    return working;
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

bool owner_is_newer(owner *o, const char *path, double seconds) {
    struct pawl_error ignored = ERROR_INIT;
    char name[32];
    store_stat own;
    store_stat other;
    owner_name(o->store, owner_generation(o), name);
    return store_stat_path(o->store, name, &own, &ignored) == PAWL_OK &&
           store_stat_path(o->store, path, &other, &ignored) == PAWL_OK &&
           other.modified_unix_ns != 0 &&
           ((double)own.modified_unix_ns - (double)other.modified_unix_ns) / NANOSECONDS >= seconds;
}

void owner_tend(owner *o) {
    struct pawl_error story = ERROR_INIT;
    if (!o->platform->concurrent && !is_lost(o) && age_s(o) >= o->lease_s / 6 &&
        owner_renew(o, &story) != PAWL_OK) {
        log_write(&o->log, PAWL_LOG_WARN, "heartbeat: %s", error_text(&story));
    }
}

/* Several times a lease. A failure is only logged here: the next save renews, too, and reports it.
 * */
static void keep_owning(void *argument) {
    owner *o = argument;
    while (heartbeat_pause(&o->beat, platform_deadline_ns(o->platform, o->lease_s / 6)) &&
           !is_lost(o)) {
        struct pawl_error story = ERROR_INIT;
        if (owner_renew(o, &story) != PAWL_OK) {
            log_write(&o->log, is_lost(o) ? PAWL_LOG_ERROR : PAWL_LOG_WARN, "heartbeat: %s",
                      error_text(&story));
        }
    }
    heartbeat_ended(&o->beat);
}

pawl_status owner_start_heartbeat(owner *o, pawl_error *err) {
    return o->platform->concurrent ? heartbeat_start(&o->beat, keep_owning, o, err) : PAWL_OK;
}

void owner_give_up(owner *o) {
    set_lost(o);
    (void)heartbeat_stop(&o->beat, 0);
}

/* A record that still cannot be written, or must not be written to, is removed instead. */
static pawl_status write_given_up(owner *o, pawl_error *err) {
    o->counter = OWNER_GIVEN_UP;
    pawl_status status = o->unwritten ? write_anew(o, err) : write_in_place(o, OWNER_GIVEN_UP, err);
    bool worthless = status != PAWL_OK && (o->unwritten || is_linked(err));
    return worthless ? owner_remove(o->store, o->generation, err) : status;
}

/* The file stays: removing it makes the room for the next owner's record (owner_take.c). */
static void give_up_record(owner *o) {
    struct pawl_error story = ERROR_INIT;
    owner_sight now;
    const owner_names unlisted = {0};
    if (o->store->traits.objects) {
        owner_object_give_up(o);
        return;
    }
    if (owner_read(o->store, &unlisted, o->generation, &now, &story) != PAWL_OK ||
        (now.readable ? strcmp(now.attempt, o->attempt) != 0 : !o->unwritten)) {
        return;
    }
    if (write_given_up(o, &story) != PAWL_OK) {
        log_write(&o->log, PAWL_LOG_WARN, "%s", error_text(&story));
    }
}

bool owner_release(owner *o) {
    if (o == NULL) {
        return true;
    }
    if (!heartbeat_stop(&o->beat, o->lease_s)) {
        set_lost(o);
        return false;
    }
    if (!is_lost(o)) {
        give_up_record(o);
        reserve_make(o->store);
    }
    monitor_destroy(&o->guard);
    mem_free(o);
    return true;
}
