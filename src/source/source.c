/* SPDX-License-Identifier: Apache-2.0 */
/* What every source needs: paths of its files, and its end. */
#include "source/source.h"

#include <stdio.h>

void source_destroy(struct source *s) {
    if (s != NULL) {
        s->ops->destroy(s);
    }
}

void source_file_path(struct source *s, uint32_t number, char out[STORE_MAX_PATH]) {
    snprintf(out, STORE_MAX_PATH, "%s%s%s", s->directory, s->directory[0] != '\0' ? "/" : "",
             s->ops->file(s, number).name);
}
