/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The preemption helper (S13): signal handlers that set a flag and then call the earlier handler.
 *
 * Signal handlers belong to the whole process, so this is the one place of the library with global
 * state. The handler does nothing but store a number and call the earlier handler: the trainer
 * decides when to look, and saves from its own thread. A forked child has inherited the handler,
 * but nobody looks there: a signal does what it did before it was watched.
 */
#include "api/api.h"

#include <pawl/preemption.h>

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

typedef struct watched_signal {
    bool watched;
    struct sigaction earlier;
} watched_signal;

static watched_signal signals_watched[NSIG];
static atomic_int caught;
static atomic_long watcher; /* the process that watches */

static bool is_watcher(void) {
    return atomic_load(&watcher) == (long)getpid();
}

static void on_signal(int number, siginfo_t *info, void *context) {
    int saved = errno;
    bool ours = is_watcher();
    if (ours) {
        atomic_store(&caught, number);
    }
    const struct sigaction *earlier = &signals_watched[number].earlier;
    if ((earlier->sa_flags & SA_SIGINFO) != 0) {
        earlier->sa_sigaction(number, info, context);
    } else if (earlier->sa_handler != SIG_DFL && earlier->sa_handler != SIG_IGN) {
        earlier->sa_handler(number);
    } else if (earlier->sa_handler == SIG_DFL && !ours) {
        (void)sigaction(number, earlier, NULL); /* it comes again when this has returned */
        (void)kill(getpid(), number);
    }
    errno = saved;
}

static pawl_status cannot_watch(int number, int failed, pawl_error *err) {
    pawl_status status = error_sys(err, failed, "cannot watch signal %d", number);
    if (failed == EINVAL) {
        err->status = status = PAWL_EUSAGE;
        error_next(err, "watch signals that can be caught, such as SIGTERM, SIGUSR1 and SIGUSR2");
    }
    return status;
}

/* A handler that someone installed after ours may call ours, which must then not call it; where it
 * was only taken away there is none. */
static bool handler_is_gone(int number) {
    struct sigaction now;
    return sigaction(number, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 &&
           (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN);
}

/* The earlier handler is known before ours can run. */
static pawl_status watch_one(int number, bool *fresh, pawl_error *err) {
    if (number <= 0 || number >= NSIG) {
        return cannot_watch(number, EINVAL, err);
    }
    watched_signal *w = &signals_watched[number];
    *fresh = !w->watched || handler_is_gone(number);
    if (!*fresh) {
        return PAWL_OK;
    }
    struct sigaction ours = {.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
    ours.sa_sigaction = on_signal;
    sigemptyset(&ours.sa_mask);
    if (sigaction(number, NULL, &w->earlier) != 0 || sigaction(number, &ours, NULL) != 0) {
        return cannot_watch(number, errno, err);
    }
    w->watched = true;
    return PAWL_OK;
}

/* A handler that someone installed after ours stays: it is not ours to remove. */
static void unwatch_one(int number) {
    watched_signal *w = &signals_watched[number];
    struct sigaction now;
    if (!w->watched) {
        return;
    }
    if (sigaction(number, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) != 0 &&
        now.sa_sigaction == on_signal) {
        (void)sigaction(number, &w->earlier, NULL);
        w->watched = false;
    }
}

/* After a failure the handlers are as they were before. */
static pawl_status watch_signals(const int *signals, size_t count, pawl_error *err) {
    bool fresh[NSIG] = {false};
    TRY(need_items(signals, count, "pawl_preemption_watch", "signals", err));
    if (!is_watcher()) {
        atomic_store(&caught, 0);
        atomic_store(&watcher, (long)getpid());
    }
    for (size_t i = 0; i < count; i++) {
        bool installed = false;
        pawl_status status = watch_one(signals[i], &installed, err);
        for (int number = 1; number < NSIG && status != PAWL_OK; number++) {
            if (fresh[number]) {
                unwatch_one(number);
            }
        }
        TRY(status);
        fresh[signals[i]] = fresh[signals[i]] || installed;
    }
    return PAWL_OK;
}

pawl_status pawl_preemption_watch(const int *signals, size_t count, pawl_error *err) {
    struct pawl_error story;
    return story_end(watch_signals(signals, count, story_begin(&story)), &story, err);
}

int pawl_preempted(void) {
    return is_watcher() ? atomic_load(&caught) : 0;
}

void pawl_preemption_unwatch(void) {
    for (int number = 1; number < NSIG; number++) {
        unwatch_one(number);
    }
    atomic_store(&caught, 0);
}
