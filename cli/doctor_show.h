/* SPDX-License-Identifier: Apache-2.0 */
/* How findings of the doctor are printed, and counted. */
#ifndef CLI_DOCTOR_SHOW_H
#define CLI_DOCTOR_SHOW_H

#include "cli.h"

typedef struct doctor_show {
    output *out;
    const word_list *ignored;
    pawl_severity worst; /* of what is not ignored */
    bool unable;         /* of the path there is an error, ignored or not */
} doctor_show;

bool doctor_is_fine(const pawl_finding *finding);
/* Prints it, unless its id is ignored. */
void doctor_put(doctor_show *show, const pawl_finding *finding);
/* "note          words", before all findings. */
void doctor_put_note(const output *out, const char *words);

#endif
