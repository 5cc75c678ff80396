/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Becoming the owner by rule O1 (owner.c), also on storage that shows changes late or is full.
 *
 * Late: a newcomer that has created its record lists all records once more before it writes a byte.
 * Creating a file changes the directory, so that listing is up to date; and of two newcomers that
 * both created a record, the last to list sees both. One that finds a higher generation, or one
 * that it had not seen before, removes its own record and begins again.
 *
 * Full: becoming the owner must need no room, or nobody could remove anything. An owner leaves its
 * record behind, whether it closed the run or was killed: removing it frees the inode, directory
 * entry and block that the next record takes. The file `reserve` (reserve.c) is the room that the
 * filesystem wants besides. Where there is no room for a record, both are removed first, and the
 * reserve is made anew. Where there is room for the file but not for its bytes, the empty file
 * owns the run: it was created exclusively, which is all that others need to see. Its bytes are
 * written once there is room; until then each renewal creates the next generation (owner.c).
 */
#include "presence/owner.h"

#include <stdio.h>
#include <string.h>

#define MOST_ROUNDS   16 /* of losing to a newcomer that is gone at the next look */
#define ROOM_TRIES    6
#define ROOM_PAUSE_NS 20000000u /* doubled each time: filesystems free room with a delay */
#define ATTEMPT_BYTES 6         /* random ones, written as hexadecimal digits */
#define TELL_S        5.0       /* how often the log is told while one waits */

/* ---- messages ------------------------------------------------------------------------------- */

/* "heartbeat 3 s ago"; where the storage keeps no times, the record's counter. */
static const char *heartbeat_text(char out[48], const owner_sight *v) {
    if (v->heartbeat_age_s >= 0) {
        snprintf(out, 48, "heartbeat %.0f s ago", v->heartbeat_age_s);
    } else {
        snprintf(out, 48, "heartbeat %llu", (unsigned long long)v->counter);
    }
    return out;
}

/* This process wrote the record: by another handle that is open, or by one that could not give its
 * record up when it was closed. Only its heartbeat tells which. */
static bool is_self(const owner *o, const owner_sight *v) {
    return v->readable && presence_same(&v->who, &o->self);
}

/* How to end the other process. A record may say anything, so the advice must do no harm when it is
 * followed blindly. */
static void advise_ending(const owner *o, const owner_sight *v, pawl_error *err) {
    const platform *os = o->platform;
    char why[96] = "";
    char name[32];
    owner_name(o->store, v->generation, name);
    if (v->alive != PROCESS_ALIVE) {
        error_next(err,
                   "stop that process, on %s, or save to another directory; opening the run takes "
                   "over once its heartbeat has stood still for %.0f s",
                   v->who.host, v->lease_s);
    } else if (os->process_killable != NULL && os->process_killable(os->context, &v->who, why)) {
        error_next(err,
                   "stop that process (on %s: kill %lld) or save to another directory; opening "
                   "the run takes over once it has ended",
                   v->who.host, (long long)v->who.pid);
    } else {
        error_next(err,
                   "save to another directory, or let that process%s%s%s close the run; where "
                   "you know that it does not write here, remove %s",
                   why[0] != '\0' ? ", " : "", why, why[0] != '\0' ? "," : "", name);
    }
}

static pawl_status busy_error(const owner *o, const owner_sight *v, const char *seen,
                              pawl_error *err) {
    bool self = is_self(o, v);
    error_set(err, PAWL_EBUSY, "another %s writes to this run",
              self ? "handle of this process" : "process");
    error_path(err, "%s", o->store->root);
    error_expected(err, "no other writer");
    if (v->readable) {
        char beat[48];
        error_found(err, "host %s, pid %lld, attempt %s, %s, %s", v->who.host,
                    (long long)v->who.pid, v->attempt, heartbeat_text(beat, v), seen);
    }
    if (self) {
        error_next(err, "close that one first with pawl_run_close, or save to another directory");
    } else if (v->readable) {
        advise_ending(o, v, err);
    } else {
        error_found(err, "an owner record (generation %llu) that is still being written, %s",
                    (unsigned long long)v->generation, seen);
        error_next(err, "try again in a few seconds, or save to another directory");
    }
    error_safe(err, "nothing was written or changed");
    return PAWL_EBUSY;
}

static pawl_status interrupted_error(const owner *o, const owner_sight *v, pawl_error *err) {
    interrupt_error(err);
    error_wrap(err, "waiting to see whether the run's writer is alive");
    error_path(err, "%s", o->store->root);
    if (v->readable) {
        error_found(err, "host %s, pid %lld, attempt %s", v->who.host, (long long)v->who.pid,
                    v->attempt);
    }
    error_safe(err, "nothing was written or changed");
    return PAWL_ECANCELED;
}

/* ---- watching ------------------------------------------------------------------------------- */

typedef struct taking {
    owner *owner;
    interrupt *stop;
    double wait_s;
    uint64_t begun_ns; /* 0: not yet */
    owner_names names; /* of the last look */
    owner_sight seen;  /* of the last look: the highest of them */
    uint64_t highest;  /* of the generations of all looks */
    uint64_t told_ns;  /* when the log was last told of this wait; 0: not yet */
} taking;

static pawl_status look_again(taking *t, pawl_error *err) {
    const owner *o = t->owner;
    TRY(owner_look_listed(o->store, o->platform, &t->names, &t->seen, err));
    t->highest = t->names.highest > t->highest ? t->names.highest : t->highest;
    return PAWL_OK;
}

static bool same_record(const owner_sight *a, const owner_sight *b) {
    return a->present == b->present && a->generation == b->generation && a->counter == b->counter &&
           strcmp(a->attempt, b->attempt) == 0;
}

/* ---- telling of it -------------------------------------------------------------------------- */

typedef struct who_text {
    char text[400];
} who_text;

static who_text who_of(const owner_sight *v) {
    who_text who;
    if (v->readable) {
        char host[sizeof who.text - 40];
        snprintf(who.text, sizeof who.text, "host %s, pid %lld",
                 text_shown(host, sizeof host, v->who.host), (long long)v->who.pid);
    } else {
        snprintf(who.text, sizeof who.text, "an owner record (generation %llu) without its text",
                 (unsigned long long)v->generation);
    }
    return who;
}

/* The first message is a warning, since the wait may last for a whole lease. */
static void tell_waiting(taking *t, double watched_s, double most_s) {
    const owner *o = t->owner;
    uint64_t now_ns = platform_now_ns(o->platform);
    who_text who = who_of(&t->seen);
    char most[32];
    char so_far[32];
    char beat[48];
    text_seconds(most, most_s);
    if (t->told_ns == 0) {
        log_write(&o->log, PAWL_LOG_WARN,
                  "%s: waiting at most %s to see whether its writer is alive: %s, %s",
                  o->store->root, most, who.text, heartbeat_text(beat, &t->seen));
    } else if ((double)(now_ns - t->told_ns) >= TELL_S * NANOSECONDS) {
        log_write(&o->log, PAWL_LOG_INFO, "waiting for %s: silent for %s of at most %s", who.text,
                  text_seconds(so_far, watched_s), most);
    } else {
        return;
    }
    t->told_ns = now_ns > 0 ? now_ns : 1;
}

static void tell_waited(taking *t, const owner_sight *whom, double watched_s, const char *end) {
    char waited[32];
    if (t->told_ns != 0) {
        log_write(&t->owner->log, PAWL_LOG_INFO, "waited %s for %s: %s",
                  text_seconds(waited, watched_s), who_of(whom).text, end);
    }
    t->told_ns = 0;
}

/* ---- waiting -------------------------------------------------------------------------------- */

/* A twentieth of the lease, but not beyond the next message or the end of the wait. */
static uint64_t pause_ns(double lease_s, double left_s) {
    double pause_s = lease_s / 20 < TELL_S ? lease_s / 20 : TELL_S;
    return (uint64_t)((pause_s < left_s ? pause_s : left_s) * NANOSECONDS) + 1;
}

/* Watches the present owner (O1). PAWL_OK: the run is free. `*end`: how the wait ended. */
static pawl_status watch_from(taking *t, uint64_t begun_ns, const char **end, pawl_error *err) {
    const owner *o = t->owner;
    const platform *p = o->platform;
    while (t->seen.present && t->seen.alive != PROCESS_DEAD) {
        double lease_s = t->seen.readable ? t->seen.lease_s : o->lease_s;
        double watched_s = platform_since_s(p, begun_ns);
        double left_s = t->wait_s - platform_since_s(p, t->begun_ns);
        char text[96];
        *end = "it is alive";
        if (t->seen.alive == PROCESS_ALIVE && !is_self(o, &t->seen)) {
            return busy_error(o, &t->seen, "alive on this host", err);
        }
        *end = "it was silent";
        if (watched_s >= lease_s) {
            return PAWL_OK;
        }
        if (left_s <= 0) {
            snprintf(text, sizeof text, "not renewed in the %.1f s it was watched", watched_s);
            return busy_error(o, &t->seen, text, err);
        }
        double rest_s = lease_s - watched_s < left_s ? lease_s - watched_s : left_s;
        tell_waiting(t, watched_s, watched_s + rest_s);
        *end = "interrupted";
        if (interrupt_sleep(t->stop, p, pause_ns(lease_s, left_s))) {
            return interrupted_error(o, &t->seen, err);
        }
        owner_sight before = t->seen;
        *end = "its record could not be read any more";
        TRY(look_again(t, err));
        if (!same_record(&t->seen, &before) && t->seen.present) {
            *end = "it is alive";
            snprintf(text, sizeof text, "which was renewed while it was watched (for %.1f s)",
                     platform_since_s(p, begun_ns));
            return busy_error(o, &t->seen, text, err);
        }
    }
    *end = t->seen.present ? "its process has ended" : "it has given the run up";
    return PAWL_OK;
}

static pawl_status watch_owner(taking *t, pawl_error *err) {
    const platform *p = t->owner->platform;
    store_catch_up(t->owner->store); /* so that a change that is seen from now on is a new one */
    uint64_t begun_ns = platform_now_ns(p);
    const char *end = NULL;
    t->begun_ns = t->begun_ns != 0 ? t->begun_ns : begun_ns;
    TRY(look_again(t, err));
    owner_sight first = t->seen;
    pawl_status status = watch_from(t, begun_ns, &end, err);
    tell_waited(t, &first, platform_since_s(p, begun_ns), end);
    return status;
}

/* ---- creating a record ---------------------------------------------------------------------- */

static bool knows(const owner_names *names, uint64_t generation) {
    for (size_t i = 0; i < names->count; i++) {
        if (names->generations[i] == generation) {
            return true;
        }
    }
    return names->count == OWNER_NAMES; /* the list is full, so it may have been there */
}

/* Is there a record of a newcomer that was not there before? */
static bool has_newcomer(const owner_names *before, const owner_names *now, uint64_t own) {
    bool found = now->highest > own;
    for (size_t i = 0; i < now->count; i++) {
        uint64_t generation = now->generations[i];
        found = found || (generation != own && !knows(before, generation));
    }
    return found;
}

/* Records of earlier owners: one that cannot be removed does no harm. */
static size_t remove_records(const owner *o, const owner_names *names, uint64_t below) {
    struct pawl_error ignored = ERROR_INIT;
    size_t removed = 0;
    for (size_t i = 0; i < names->count; i++) {
        if (names->generations[i] >= below) {
            continue;
        }
        if (owner_remove(o->store, names->generations[i], &ignored) == PAWL_OK) {
            removed++;
        } else if (ignored.status != PAWL_ENOTFOUND) {
            log_write(&o->log, PAWL_LOG_DEBUG, "%s", error_text(&ignored));
        }
    }
    return removed;
}

/* True: something was removed, so there may be room, at once or a little later. */
static bool free_room(owner *o, const owner_names *before, uint64_t below) {
    bool reserved = reserve_remove(o->store);
    o->tight = o->tight || reserved;
    return remove_records(o, before, below) > 0 || reserved;
}

static void pause_for_room(const owner *o, int tries) {
    struct pawl_error ignored = ERROR_INIT;
    if (store_sync_dir(o->store, "", &ignored) != PAWL_OK) {
        log_write(&o->log, PAWL_LOG_DEBUG, "%s", error_text(&ignored));
    }
    if (tries > 0) {
        o->platform->sleep_ns(o->platform->context, (uint64_t)ROOM_PAUSE_NS << tries);
    }
}

/* To make room the last owner's record may go before there is a new one. A newcomer may then begin
 * at generation 1, but it finds our record beside its own, or we find its record beside ours. */
static pawl_status create_record(owner *o, uint64_t generation, const owner_names *before,
                                 store_file **file, pawl_error *err) {
    char name[32];
    name_owner(name, generation);
    pawl_status status = store_open(o->store, name, STORE_CREATE, file, err);
    if (status != PAWL_ENOSPACE || !free_room(o, before, generation)) {
        return status;
    }
    for (int tries = 0; status == PAWL_ENOSPACE && tries < ROOM_TRIES; tries++) {
        pause_for_room(o, tries);
        status = store_open(o->store, name, STORE_CREATE, file, err);
    }
    return status;
}

static pawl_status write_record(owner *o, store_file *file, const owner_names *before,
                                pawl_error *err) {
    pawl_status status = owner_write(o, file, err);
    if (status != PAWL_ENOSPACE) {
        return status;
    }
    bool removed = free_room(o, before, o->generation);
    for (int tries = 0; status == PAWL_ENOSPACE && removed && tries < ROOM_TRIES; tries++) {
        pause_for_room(o, tries);
        status = owner_write(o, file, err);
    }
    o->unwritten = status == PAWL_ENOSPACE;
    return o->unwritten ? PAWL_OK : status;
}

/* The other record may be half created, or our own whose creation seemed to fail. That cannot be
 * told apart, so it is watched like any other. */
static pawl_status beaten(const owner *o, pawl_error *err) {
    error_set(err, PAWL_EBUSY, "another process was faster to take the run over");
    error_path(err, "%s", o->store->root);
    return PAWL_EBUSY;
}

static pawl_status create_and_write(owner *o, const owner_names *before, bool *created,
                                    pawl_error *err) {
    owner_names now;
    CLEANUP(store_close_pointer) store_file *file = NULL;
    TRY(create_record(o, o->generation, before, &file, err));
    *created = true;
    TRY(owner_list(o->store, &now, err));
    return has_newcomer(before, &now, o->generation) ? beaten(o, err)
                                                     : write_record(o, file, before, err);
}

static pawl_status create_or_withdraw(owner *o, const owner_names *before, pawl_error *err) {
    struct pawl_error ignored = ERROR_INIT;
    bool created = false;
    pawl_status status = create_and_write(o, before, &created, err);
    if (status != PAWL_OK && created &&
        owner_remove(o->store, o->generation, &ignored) != PAWL_OK) {
        log_write(&o->log, PAWL_LOG_WARN, "%s", error_text(&ignored));
    }
    return status;
}

/* No run is opened so often: it is most likely a file that somebody put there. */
static pawl_status no_more_generations(const owner *o, pawl_error *err) {
    char name[32];
    name_owner(name, OWNER_MAX_GENERATION);
    error_set(err, PAWL_ELIMIT,
              "the run can have no further owner: there is no generation above %llu",
              (unsigned long long)OWNER_MAX_GENERATION);
    error_path(err, "%s/%s", o->store->root, name);
    error_expected(err, "an owner's record of a lower generation");
    error_found(err, "one of the last generation, which is probably a stray file");
    error_safe(err, "nothing was written or changed; what is committed can be read");
    error_next(err, "when no process writes to this run, remove %s", name);
    return PAWL_ELIMIT;
}

static void set_generation(owner *o, uint64_t generation, uint64_t counter) {
    monitor_enter(&o->guard);
    o->generation = generation;
    o->counter = counter;
    monitor_leave(&o->guard);
}

pawl_status owner_win(owner *o, uint64_t generation, const owner_names *before, pawl_error *err) {
    uint64_t begun_ns = platform_now_ns(o->platform);
    uint64_t own = o->generation;
    uint64_t counter = o->counter;
    bool unwritten = o->unwritten;
    if (generation > OWNER_MAX_GENERATION) {
        return no_more_generations(o, err);
    }
    set_generation(o, generation, 1);
    o->unwritten = false;
    o->tight = false;
    pawl_status status = create_or_withdraw(o, before, err);
    if (o->tight) {
        reserve_make_anew(o->store);
    }
    if (status != PAWL_OK) {
        set_generation(o, own, counter);
        o->unwritten = unwritten;
        return status;
    }
    monitor_enter(&o->guard);
    o->renewed_ns = begun_ns;
    monitor_leave(&o->guard);
    (void)remove_records(o, before, generation);
    return PAWL_OK;
}

/* ---- taking over ---------------------------------------------------------------------------- */

/* A creation that failed for another reason may have happened all the same. */
static bool may_be_done(const taking *t, uint64_t generation, pawl_status status) {
    struct pawl_error ignored = ERROR_INIT;
    owner_names now;
    return status == PAWL_EBUSY ||
           (!t->owner->store->traits.objects && (status == PAWL_EIO || status == PAWL_ETIMEOUT) &&
            owner_list(t->owner->store, &now, &ignored) == PAWL_OK && now.highest >= generation);
}

static pawl_status take_over(taking *t, pawl_error *err) {
    owner *o = t->owner;
    for (int round = 0; round < MOST_ROUNDS; round++) {
        struct pawl_error story = ERROR_INIT;
        TRY(watch_owner(t, err));
        uint64_t generation = t->highest + 1;
        pawl_status status = o->store->traits.objects ? owner_object_win(o, &t->seen, &story)
                                                      : owner_win(o, generation, &t->names, &story);
        if (status == PAWL_OK) {
            return PAWL_OK;
        }
        bool again = may_be_done(t, generation, status);
        if (!again || platform_since_s(o->platform, t->begun_ns) >= t->wait_s) {
            *err = story;
            if (again) {
                TRY(look_again(t, err));
                return busy_error(o, &t->seen, "which was faster to take the run over", err);
            }
            return status;
        }
    }
    return busy_error(o, &t->seen, "and other processes that come and go", err);
}

/* Pawl does not remove what it cannot have made, but says that it is there. */
static void say_strays(const owner *o, const owner_names *names) {
    const char *them = names->strays > 1 ? "them" : "it";
    if (names->strays > 0) {
        log_write(&o->log, PAWL_LOG_WARN,
                  "%s has %zu name%s like that of an owner's record, which no owner makes, such as "
                  "%s: ignored; remove %s if no other program needs %s",
                  o->store->root, names->strays, names->strays > 1 ? "s" : "", names->stray, them,
                  them);
    }
}

static pawl_status owner_acquire(owner *o, interrupt *stop, double wait_s, pawl_error *err) {
    const platform *os = o->platform;
    TRY(os->identity(os->context, &o->self, err));
    TRY(platform_random_hex(os, o->attempt, ATTEMPT_BYTES, err));
    taking t = {.owner = o, .stop = stop, .wait_s = wait_s};
    TRY(take_over(&t, err));
    if (t.seen.present && t.seen.readable) {
        char host[sizeof t.seen.who.host];
        log_write(&o->log, PAWL_LOG_INFO, "took the run over from host %s, pid %lld (%s)",
                  text_shown(host, sizeof host, t.seen.who.host), (long long)t.seen.who.pid,
                  t.seen.alive == PROCESS_DEAD ? "dead" : "no heartbeat for a lease");
    }
    say_strays(o, &t.names);
    reserve_make(o->store);
    if (o->unwritten) {
        char root[1024];
        log_write(&o->log, PAWL_LOG_WARN,
                  "%s is on storage without room for the owner's record: it stays empty until "
                  "there is room",
                  text_shown(root, sizeof root, o->store->root));
    }
    return PAWL_OK;
}

pawl_status owner_take(store *s, const platform *os, const pawl_log *log, interrupt *stop,
                       double lease_s, double wait_s, owner **out, pawl_error *err) {
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
    o->beat.platform = os;
    o->beat.guard = &o->guard;
    status = owner_acquire(o, stop, wait_s, err);
    if (status != PAWL_OK) {
        monitor_destroy(&o->guard);
        mem_free(o);
        error_wrap(err, "open run");
        return status;
    }
    *out = o;
    return PAWL_OK;
}
