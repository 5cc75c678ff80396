/* SPDX-License-Identifier: Apache-2.0 */
/* Fills an error where a failure is found, and adds to it on the way up; error_text.c renders
 * it. */
#include "base/base.h"
#include "base/errno_words.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define PART_MOST_BYTES sizeof(((struct pawl_error *)0)->attempt)

/* Formats into a copy, because an argument may be a part of this same error. */
static void fill_as_is(char *part, size_t size, const char *format, va_list arguments) {
    char text[PART_MOST_BYTES];
    text_format(text, size, format, arguments);
    memcpy(part, text, strlen(text) + 1);
}

static void fill_shown(char *part, size_t size, const char *format, va_list arguments) {
    char text[PART_MOST_BYTES];
    text_format(text, size, format, arguments);
    text_shown(part, size, text);
}

static void clear_all_but_attempt(pawl_error *err) {
    err->status = PAWL_OK;
    err->system_errno = 0;
    err->step = -1;
    err->has_range = false;
    err->offset = 0;
    err->length = 0;
    err->path[0] = '\0';
    err->entry[0] = '\0';
    err->expected[0] = '\0';
    err->found[0] = '\0';
    err->system[0] = '\0';
    err->safe[0] = '\0';
    err->next[0] = '\0';
    err->rendered[0] = '\0';
}

pawl_status error_set(pawl_error *err, pawl_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fill_shown(err->attempt, sizeof(err->attempt), format, arguments);
    va_end(arguments);
    clear_all_but_attempt(err);
    err->status = status;
    return status;
}

static pawl_status status_of_errno(int system_errno) {
    switch (system_errno) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return PAWL_ENOSPACE;
    case EACCES:
    case EPERM:
    case EROFS:
        return PAWL_EPERMISSION;
    case ENOENT:
        return PAWL_ENOTFOUND;
    case ENOMEM:
    case EMFILE:
    case ENFILE:
        return PAWL_ENOMEM;
    case EEXIST:
        return PAWL_EBUSY;
    case ENAMETOOLONG:
        return PAWL_ELIMIT;
    case ETIMEDOUT:
        return PAWL_ETIMEOUT;
    default:
        return PAWL_EIO;
    }
}

static void fill_system(pawl_error *err, int system_errno) {
    errno_words of = errno_words_of(system_errno);
    if (of.name == NULL) {
        snprintf(err->system, sizeof(err->system), "unknown error (errno %d)", system_errno);
        return;
    }
    snprintf(err->system, sizeof(err->system), "%s (%s, errno %d)", of.words, of.name,
             system_errno);
}

pawl_status error_sys(pawl_error *err, int system_errno, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fill_shown(err->attempt, sizeof(err->attempt), format, arguments);
    va_end(arguments);
    clear_all_but_attempt(err);
    err->status = status_of_errno(system_errno);
    err->system_errno = system_errno;
    fill_system(err, system_errno);
    return err->status;
}

pawl_status error_nomem(pawl_error *err, size_t bytes) {
    char amount[32];
    if (bytes > PTRDIFF_MAX) {
        return error_set(err, PAWL_ENOMEM, "out of memory: more was wanted than can be addressed");
    }
    return error_set(err, PAWL_ENOMEM, "out of memory: %s could not be allocated",
                     text_bytes(amount, bytes));
}

void error_wrap(pawl_error *err, const char *format, ...) {
    char story[2 * PART_MOST_BYTES + 2];
    va_list arguments;
    va_start(arguments, format);
    fill_shown(story, PART_MOST_BYTES, format, arguments);
    va_end(arguments);
    size_t prefix = strlen(story);
    size_t old = strlen(err->attempt);
    memcpy(story + prefix, ": ", 2);
    memcpy(story + prefix + 2, err->attempt, old + 1);
    if (prefix + 2 + old >= sizeof(err->attempt)) {
        text_cut(story, sizeof(err->attempt));
    }
    memcpy(err->attempt, story, strlen(story) + 1);
}

void error_path(pawl_error *err, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fill_as_is(err->path, sizeof(err->path), format, arguments);
    va_end(arguments);
}

/* Not formatted: a hostile name may hold anything, "%n" and megabytes included. */
void error_entry(pawl_error *err, const char *name) {
    size_t length = strnlen(name, sizeof(err->entry));
    if (length < sizeof(err->entry)) {
        memmove(err->entry, name, length + 1);
        return;
    }
    memmove(err->entry, name, sizeof(err->entry) - 1);
    text_cut(err->entry, sizeof(err->entry));
}

void error_expected(pawl_error *err, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fill_shown(err->expected, sizeof(err->expected), format, arguments);
    va_end(arguments);
}

void error_found(pawl_error *err, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fill_shown(err->found, sizeof(err->found), format, arguments);
    va_end(arguments);
}

void error_safe(pawl_error *err, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fill_shown(err->safe, sizeof(err->safe), format, arguments);
    va_end(arguments);
}

void error_next(pawl_error *err, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fill_shown(err->next, sizeof(err->next), format, arguments);
    va_end(arguments);
}

void error_step(pawl_error *err, int64_t step) {
    err->step = step;
}

void error_range(pawl_error *err, uint64_t offset, uint64_t length) {
    err->has_range = true;
    err->offset = offset;
    err->length = length;
}
