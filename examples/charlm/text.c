/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text: reads files into memory, by default the licences of a Debian machine in the order of names.
 */
#include "text.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "die.h"

#define LICENCES "/usr/share/common-licenses"

enum { MAX_PATH_BYTES = 512, MAX_LICENCES = 256 };

static void append_file(struct text *text, const char *path) {
    FILE *file = fopen(path, "rb");
    struct stat status;
    if (!file || fstat(fileno(file), &status) != 0) {
        die(1, "cannot read the text %s: %s", path, strerror(errno));
    }
    if (!S_ISREG(status.st_mode)) {
        die(1, "cannot read the text %s: it is not a file", path);
    }
    size_t size = (size_t)status.st_size;
    text->bytes = realloc(text->bytes, text->size + size + 1);
    if (!text->bytes) {
        die(1, "cannot read the text %s: no memory for its %zu bytes", path, size);
    }
    if (fread(text->bytes + text->size, 1, size, file) != size) {
        die(1, "cannot read the text %s: it ended before its %zu bytes", path, size);
    }
    text->size += size;
    (void)fclose(file);
}

/* GPL is a link to GPL-3: links would give the model the same text twice. */
static int is_plain_file(const char *path) {
    struct stat status;
    return lstat(path, &status) == 0 && S_ISREG(status.st_mode);
}

static int compare_paths(const void *one, const void *other) {
    return strcmp(one, other);
}

static void append_licences(struct text *text) {
    char(*paths)[MAX_PATH_BYTES] = allocate(MAX_LICENCES, MAX_PATH_BYTES);
    size_t count = 0;
    DIR *directory = opendir(LICENCES);
    if (!directory) {
        die(1, "no text was given, and %s cannot be read (%s): name text files to learn from",
            LICENCES, strerror(errno));
    }
    for (struct dirent *entry; count < MAX_LICENCES && (entry = readdir(directory));) {
        snprintf(paths[count], MAX_PATH_BYTES, "%s/%s", LICENCES, entry->d_name);
        count += is_plain_file(paths[count]) ? 1 : 0;
    }
    closedir(directory);
    /* A directory lists its files in any order; the training data must not depend on it. */
    qsort(paths, count, MAX_PATH_BYTES, compare_paths);
    for (size_t i = 0; i < count; i++) {
        append_file(text, paths[i]);
    }
    free(paths);
}

struct text text_read(char *const *paths, size_t count) {
    struct text text = {NULL, 0};
    for (size_t i = 0; i < count; i++) {
        append_file(&text, paths[i]);
    }
    if (count == 0) {
        append_licences(&text);
    }
    return text;
}

void text_free(struct text *text) {
    free(text->bytes);
    text->bytes = NULL;
    text->size = 0;
}
