/* SPDX-License-Identifier: Apache-2.0 */
/* The formats that can be written. */
#include "foreign/safetensors/safetensors.h"
#include "foreign/writer.h"

#include <string.h>

static const writer_format writers[] = {
    {.name = "safetensors",
     .ending = ".safetensors",
     .shape = WRITER_FILE_OR_DIRECTORY,
     .refuses = safetensors_refuses,
     .write = safetensors_write},
};

const writer_format *writer_by_name(const char *name) {
    for (size_t i = 0; i < ARRAY_LENGTH(writers); i++) {
        if (strcmp(writers[i].name, name) == 0) {
            return &writers[i];
        }
    }
    return NULL;
}

const writer_format *writer_by_path(const char *path) {
    size_t n = strlen(path);
    for (size_t i = 0; i < ARRAY_LENGTH(writers); i++) {
        const char *ending = writers[i].ending;
        size_t of = ending != NULL ? strlen(ending) : 0;
        if (of > 0 && n > of && strcmp(path + n - of, ending) == 0) {
            return &writers[i];
        }
    }
    return NULL;
}

const char *writer_names(void) {
    return "pawl, safetensors";
}
