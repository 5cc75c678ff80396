/* SPDX-License-Identifier: Apache-2.0 */
/* Writes lines to the caller's log. */
#include "base/base.h"

#include <stdio.h>

bool log_wants(const pawl_log *log, pawl_log_level level) {
    if (log == NULL || log->write == NULL || level == PAWL_LOG_NONE) {
        return false;
    }
    pawl_log_level most = log->level == PAWL_LOG_NONE ? PAWL_LOG_WARN : log->level;
    return level <= most;
}

void log_write(const pawl_log *log, pawl_log_level level, const char *format, ...) {
    if (!log_wants(log, level)) {
        return;
    }
    char brief[1024];
    char *text = brief;
    size_t size = sizeof(brief);
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    AUTOFREE char *roomy = n >= (int)sizeof(brief) ? mem_alloc((size_t)n + 1) : NULL;
    if (roomy != NULL) {
        text = roomy;
        size = (size_t)n + 1;
    }
    va_start(arguments, format);
    text_format(text, size, format, arguments); /* cut only when there is no memory left */
    va_end(arguments);
    log->write(log->context, level, text);
}
