/* SPDX-License-Identifier: Apache-2.0 */
/* advice: pawl's advice in a report, as options of this command line. */
#ifndef CHARLM_ADVICE_H
#define CHARLM_ADVICE_H

#include <stdio.h>

#include <pawl/pawl.h>

/*
 * Prints a line, after `before`, for each option that would allow differences of that severity,
 * each option once, and for every rename rule; returns how many. Before the rules of a warning it
 * prints the condition under which they are right.
 */
int advice_print(FILE *to, const char *before, const pawl_report *report, pawl_severity severity);
/* Prints a line with all options that pawl has tried together, and what they leave, if it has. */
void advice_print_together(FILE *to, const char *before, const pawl_report *report);

#endif
