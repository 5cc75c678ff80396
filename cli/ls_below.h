/* SPDX-License-Identifier: Apache-2.0 */
/* pawl ls of a directory that is no run: what there is in it, of any format. */
#ifndef CLI_LS_BELOW_H
#define CLI_LS_BELOW_H

#include "output.h"

/* A survey of the directory; NULL where there is none, whatever the reason. out->err is as it was.
 */
pawl_survey *ls_below_look(const output *out, const char *path);
/* Prints it; returns the exit code. */
int ls_below_print(output *out, const pawl_survey *survey);

#endif
