/* SPDX-License-Identifier: Apache-2.0 */
/* Signals that end the command after it has cleaned up. */
#include "signals.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

static volatile sig_atomic_t caught;
static int null_device = -1;

/* Sends further output to /dev/null: writing to a pipe that nobody reads would block. */
static void on_signal(int signal_number) {
    int saved_errno = errno;
    caught = signal_number;
    (void)dup2(null_device, STDOUT_FILENO);
    errno = saved_errno;
}

/* Without SA_RESTART, so that a write that blocks on such a pipe returns. */
static void catch_signal(int signal_number, int flags) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};
    sigemptyset(&action.sa_mask);
    (void)sigaction(signal_number, &action, NULL);
}

static void catch_unless_ignored(int signal_number) {
    struct sigaction now;
    if (sigaction(signal_number, NULL, &now) == 0 && now.sa_handler != SIG_IGN) {
        catch_signal(signal_number, (int)SA_RESETHAND);
    }
}

void signals_ignore_file_limit(void) {
    (void)signal(SIGXFSZ, SIG_IGN);
}

void signals_catch_broken_pipe(void) {
    null_device = open("/dev/null", O_WRONLY | O_CLOEXEC);
    catch_signal(SIGPIPE, 0);
}

void signals_catch(void) {
    catch_unless_ignored(SIGINT);
    catch_unless_ignored(SIGTERM);
    catch_unless_ignored(SIGHUP);
}

bool signals_caught(void) {
    return caught != 0;
}

void signals_end_by_caught(void) {
    int signal_number = caught;
    if (signal_number != 0) {
        (void)signal(signal_number, SIG_DFL);
        (void)raise(signal_number);
    }
}
