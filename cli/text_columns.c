/* SPDX-License-Identifier: Apache-2.0 */
/* Text measured in terminal columns: shortened and broken into lines. */
#include "memory.h"
#include "text.h"

#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

enum { FIRST_WIDE = 0x1100 }; /* the first character that takes two columns */

static bool wide_known;
static const char *dots = "...";
static size_t dots_columns = 3;

void text_begin_columns(void) {
    (void)setlocale(LC_CTYPE, "");
    if (strcmp(nl_langinfo(CODESET), "UTF-8") == 0) {
        wide_known = true;
        dots = "\u2026";
        dots_columns = 1;
    }
}

/* Bytes of the next character, and the columns that it takes: one for a byte that is not UTF-8. */
static size_t character(const char *text, size_t *columns) {
    if ((unsigned char)*text < 0x80) { /* most of all text */
        *columns = 1;
        return 1;
    }
    size_t length = utf8_character(text, strnlen(text, 4));
    uint32_t code = length > 0 ? utf8_code(text, length) : 0;
    int width = wide_known ? wcwidth((wchar_t)code) : -1;
    *columns = length == 0 ? 1 : width >= 0 ? (size_t)width : code >= FIRST_WIDE ? 2 : 1;
    return length > 0 ? length : 1;
}

size_t text_columns(const char *text) {
    size_t sum = 0;
    for (size_t columns; *text != '\0'; sum += columns) {
        text += character(text, &columns);
    }
    return sum;
}

/* How many bytes from the start fit into `columns`, combining characters included. */
static size_t head_bytes(const char *text, size_t columns) {
    size_t bytes = 0;
    size_t taken = 0;
    for (size_t width = 0; text[bytes] != '\0'; taken += width) {
        size_t length = character(text + bytes, &width);
        if (taken + width > columns) {
            break;
        }
        bytes += length;
    }
    return bytes;
}

/* The end of the text that fits into `columns`; `have`: what all of it takes. Never begins with a
 * combining character. */
static const char *tail(const char *text, size_t have, size_t columns) {
    size_t width = 0;
    while (*text != '\0' && have > columns) {
        text += character(text, &width);
        have -= width;
    }
    for (size_t length = character(text, &width); *text != '\0' && width == 0;
         length = character(text, &width)) {
        text += length;
    }
    return text;
}

char *text_shorten(const char *text, size_t columns) {
    size_t have = text_columns(text);
    if (have <= columns) {
        return must_strdup(text);
    }
    if (columns < dots_columns + 2) {
        return must_strndup(text, head_bytes(text, columns));
    }
    size_t head = (columns - dots_columns) / 2;
    return must_printf("%.*s%s%s", (int)head_bytes(text, head), text, dots,
                       tail(text, have, columns - dots_columns - head));
}

void text_wrap(FILE *to, const char *text, int indent, int columns) {
    size_t room = columns > indent ? (size_t)(columns - indent) : 1;
    size_t used = 0;
    for (const char *word = text; *word != '\0';) {
        size_t length = strcspn(word, " \n");
        char *whole = must_strndup(word, length);
        char *shown = text_shorten(whole, room);
        size_t width = text_columns(shown);
        if (used > 0 && used + 1 + width > room) {
            fprintf(to, "\n%*s", indent, "");
            used = 0;
        } else if (used > 0) {
            fputc(' ', to);
            used++;
        }
        fputs(shown, to);
        used += width;
        free(whole);
        free(shown);
        word += length;
        if (*word == '\n') {
            fprintf(to, "\n\n%*s", indent, "");
            used = 0;
        }
        word += *word != '\0';
    }
    fputc('\n', to);
}

void text_fold(FILE *to, const char *text, int columns) {
    size_t used = 0;
    while (*text != '\0') {
        size_t width = 0;
        size_t length = character(text, &width);
        if (*text == '\n') {
            used = 0;
        } else if (used > 0 && used + width > (size_t)columns) {
            fputc('\n', to);
            used = width;
        } else {
            used += width;
        }
        (void)fwrite(text, 1, length, to);
        text += length;
    }
}
