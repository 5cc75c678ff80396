/* SPDX-License-Identifier: Apache-2.0 */
#include "signals.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

static volatile sig_atomic_t ended_by;
static int nowhere = -1;

/* What is still written goes nowhere, so that no pipe that nobody empties keeps us. */
static void on_signal(int signal_number) {
    int kept = errno;
    ended_by = signal_number;
    (void)dup2(nowhere, STDOUT_FILENO);
    errno = kept;
}

/* Without SA_RESTART: a write into such a pipe ends. */
static void note(int signal_number, int flags) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};
    sigemptyset(&action.sa_mask);
    (void)sigaction(signal_number, &action, NULL);
}

static void note_unless_ignored(int signal_number) {
    struct sigaction now;
    if (sigaction(signal_number, NULL, &now) == 0 && now.sa_handler != SIG_IGN) {
        note(signal_number, (int)SA_RESETHAND);
    }
}

/* Also where a parent has ignored it. */
void signals_catch_broken_pipe(void) {
    nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    note(SIGPIPE, 0);
}

void signals_catch(void) {
    note_unless_ignored(SIGINT);
    note_unless_ignored(SIGTERM);
    note_unless_ignored(SIGHUP);
}

bool signals_caught(void) {
    return ended_by != 0;
}

void signals_end_by_caught(void) {
    int signal_number = ended_by;
    if (signal_number != 0) {
        (void)signal(signal_number, SIG_DFL);
        (void)raise(signal_number);
    }
}
