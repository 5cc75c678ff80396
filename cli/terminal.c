/* SPDX-License-Identifier: Apache-2.0 */
#include "terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static struct winsize size_of(int fd) {
    struct winsize size;
    return ioctl(fd, TIOCGWINSZ, &size) == 0 ? size : (struct winsize){0};
}

int terminal_rows(int fd) {
    return size_of(fd).ws_row;
}

int terminal_columns(int fd) {
    return size_of(fd).ws_col;
}

bool terminal_understands_escapes(void) {
    const char *name = getenv("TERM");
    return isatty(STDOUT_FILENO) && name != NULL && strcmp(name, "dumb") != 0;
}
