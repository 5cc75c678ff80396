/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that waits in a filesystem that does not answer cannot end, not even when it is killed.
 * So the doctor looks in a child, and this process ends when the child has said all.
 */
#ifndef CLI_DOCTOR_GUARD_H
#define CLI_DOCTOR_GUARD_H

#include "cli.h"

/* Runs `body` in a child, which prints; returns its exit code. */
int doctor_guarded(int (*body)(const arguments *args, output *out), const arguments *args,
                   output *out);

#endif
