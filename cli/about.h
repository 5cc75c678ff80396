/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint in a few words, of a run or of another tool. */
#ifndef CLI_ABOUT_H
#define CLI_ABOUT_H

#include "output.h"

/* "step 300", or the last component of `path` where there is no step; allocated. */
char *about_name(int64_t step, const char *path);
/* "step 300, saved 2026-01-01 10:00:00"; "safetensors, changed ..."; allocated. */
char *about_origin(const pawl_checkpoint_info *about);
/* The member "step": null where there is none. */
void about_json_step(json *j, int64_t step);
/* pawl ls of a path that is no run: weights of another tool. `code` is what the verb returns. False
 * where there are none, or where they cannot be opened and are not `alone` there: nothing was
 * printed, and out->err is as it was. */
bool about_list(output *out, const char *path, bool alone, int *code);

#endif
