/* SPDX-License-Identifier: Apache-2.0 */
/* doctor/examination: what the files of this folder share. Each file examines one thing. */
#ifndef DOCTOR_EXAMINATION_H
#define DOCTOR_EXAMINATION_H

#include "doctor/doctor.h"

typedef struct examination {
    const char *path; /* as given */
    const pawl_storage *storage;
    uint64_t need_bytes;
    const platform *os;
    doctor_each each;
    void *context;
    job_ranks *ranks;  /* world_size 1: one process alone */
    double deadline_s; /* a duration: how long other ranks are waited for */
    pawl_severity worst;
    char place[4096]; /* the absolute path, which may not exist yet; "": it could not be resolved */
    char first_error_id[8], first_error[384]; /* "": none so far */
} examination;

/* ---- doctor.c ---- */

void doctor_tell(examination *x, const char *id, pawl_severity severity, const char *next,
                 const char *format, ...) PRINTF_LIKE(5, 6);
/* An error of the library as a finding: its parts in one sentence. */
void doctor_tell_error(examination *x, const char *id, const pawl_error *story);

/* ---- resolve.c ---- */

const char *doctor_id_of_path_error(const pawl_error *story);
/* Opens the path, or the nearest directory above it that exists. *whole: the path itself exists.
 * NULL: neither can be opened, and a finding says why. */
store *doctor_resolve(examination *x, bool *whole);

/* ---- room.c ---- */

/* False: writing need not be tried. */
bool doctor_examine_room(examination *x, store *s, bool whole);

/* ---- writing.c ---- */

/* Can files be made there? */
void doctor_examine_writing(examination *x, store *s);

/* ---- owner.c ---- */

void doctor_examine_owner(examination *x, store *s);

/* ---- same_directory.c ---- */

/* Of many ranks, collective: `s` is what doctor_resolve opened, or NULL. */
void doctor_examine_same_directory(examination *x, store *s, bool whole);

#endif
