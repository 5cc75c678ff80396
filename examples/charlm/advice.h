/* SPDX-License-Identifier: Apache-2.0 */
/* advice: what a report of pawl advises, in the words of this command line. */
#ifndef CHARLM_ADVICE_H
#define CHARLM_ADVICE_H

#include <stdio.h>

#include <pawl/pawl.h>

/*
 * A line for each option that would allow differences of that severity, each option once and every
 * rename rule, between `before` and a newline; returns how many there were. Before the rules of a
 * warning stands what they depend on.
 */
int advice_print(FILE *to, const char *before, const pawl_report *report, pawl_severity severity);

#endif
