/* SPDX-License-Identifier: Apache-2.0 */
/* Full-screen drawing: escape sequences, terminal modes, signals, keys. */
#include "screen.h"
#include "clock.h"
#include "terminal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#define ENTER "\033[?1049h\033[?25l\033[?7l" /* alternate screen, no cursor, no line wrap */
#define LEAVE "\033[?7h\033[?25h\033[?1049l"

enum { DEFAULT_ROWS = 24, DEFAULT_COLUMNS = 80, CTRL_D = 4 };

/* Static, since signal handlers and atexit functions use them. */
static volatile sig_atomic_t ended_by, stopped;
static bool entered, reads_keys, exit_handled;
static struct termios original_mode;

void screen_size(int *rows, int *columns) {
    *rows = terminal_rows(STDOUT_FILENO);
    *columns = terminal_columns(STDOUT_FILENO);
    *rows = *rows > 0 ? *rows : DEFAULT_ROWS;
    *columns = *columns > 0 ? *columns : DEFAULT_COLUMNS;
}

/* ---- entering and leaving ------------------------------------------------------------------- */

static void enter_screen(void) {
    reads_keys = isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &original_mode) == 0;
    if (reads_keys) {
        struct termios mode = original_mode;
        mode.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &mode);
    }
    fputs(ENTER, stdout);
    (void)fflush(stdout);
    entered = true;
}

static void leave_screen(void) {
    if (!entered) {
        return;
    }
    entered = false;
    fputs(LEAVE, stdout);
    (void)fflush(stdout);
    if (reads_keys) {
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &original_mode);
    }
}

static void on_end(int signal_number) {
    ended_by = signal_number;
}

static void on_stop(int signal_number) {
    (void)signal_number;
    stopped = 1;
}

static void on_resize(int signal_number) {
    (void)signal_number; /* interrupting poll(2) is enough */
}

/* Every signal interrupts poll(2). With SA_RESTART a picture that is being written is still
 * finished; without, a write to a terminal that accepts no more output returns, and the command
 * can end. */
static void set_handler(int signal_number, void (*handler)(int), int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigemptyset(&action.sa_mask);
    (void)sigaction(signal_number, &action, NULL);
}

void screen_open(void) {
    if (!exit_handled) {
        (void)atexit(leave_screen);
    }
    exit_handled = true;
    set_handler(SIGINT, on_end, 0);
    set_handler(SIGTERM, on_end, 0);
    set_handler(SIGHUP, on_end, 0);
    set_handler(SIGQUIT, on_end, 0);
    set_handler(SIGTSTP, on_stop, SA_RESTART);
    set_handler(SIGWINCH, on_resize, SA_RESTART);
    enter_screen();
}

void screen_close(void) {
    leave_screen();
}

void screen_end_by_signal(void) {
    leave_screen();
    (void)signal(ended_by, SIG_DFL);
    (void)raise(ended_by);
}

/* Ctrl-Z: restores the terminal for the shell, and takes it again when continued. */
static void suspend(void) {
    stopped = 0;
    leave_screen();
    (void)signal(SIGTSTP, SIG_DFL);
    (void)raise(SIGTSTP);
    set_handler(SIGTSTP, on_stop, SA_RESTART);
    enter_screen();
}

/* ---- drawing -------------------------------------------------------------------------------- */

void screen_draw(const char *picture) {
    int rows;
    int columns;
    screen_size(&rows, &columns);
    fputs("\033[H", stdout);
    for (int row = 0; row < rows && *picture != '\0'; row++) {
        size_t length = strcspn(picture, "\n");
        /* Clears the line before it is written: afterwards that could erase its last character. */
        fputs(row > 0 ? "\r\n\033[K" : "\033[K", stdout);
        (void)fwrite(picture, 1, length, stdout);
        picture += length + (picture[length] == '\n');
    }
    fputs("\033[J", stdout);
    (void)fflush(stdout);
}

/* ---- waiting -------------------------------------------------------------------------------- */

static bool quit_typed(void) {
    char typed[64];
    ssize_t n = read(STDIN_FILENO, typed, sizeof typed);
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) {
        reads_keys = false; /* end of input */
    }
    for (ssize_t i = 0; i < n; i++) {
        if (typed[i] == 'q' || typed[i] == 'Q' || typed[i] == CTRL_D) {
            return true;
        }
    }
    return false;
}

screen_event screen_wait(double seconds) {
    int64_t start_ns = clock_monotonic_ns();
    while (ended_by == 0) {
        double left_s = seconds - (double)(clock_monotonic_ns() - start_ns) / 1e9;
        struct pollfd typing = {.fd = STDIN_FILENO, .events = POLLIN};
        if (left_s <= 0) {
            return SCREEN_TIME;
        }
        int ready =
            poll(&typing, reads_keys ? 1 : 0, (int)((left_s < 3600 ? left_s : 3600) * 1e3) + 1);
        if (stopped != 0) {
            suspend();
            return SCREEN_TIME;
        }
        if (ready > 0 && quit_typed()) {
            return SCREEN_QUIT;
        }
        if (ready < 0 && ended_by == 0) {
            return SCREEN_TIME; /* the size changed */
        }
    }
    return SCREEN_SIGNAL;
}
