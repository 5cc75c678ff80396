/* SPDX-License-Identifier: Apache-2.0 */
/* doctor/examination: what the files of this folder share; one file per thing that is looked at. */
#ifndef DOCTOR_EXAMINATION_H
#define DOCTOR_EXAMINATION_H

#include "doctor/doctor.h"

typedef struct examination {
    const char *path; /* as given */
    uint64_t need_bytes;
    const platform *os;
    doctor_each each;
    void *context;
    const rank_group *group; /* world_size 1: one process alone */
    double deadline_s;       /* for other ranks */
    pawl_severity worst;
    char place[4096]; /* absolute, also of what does not exist yet; "": the path stands for none */
    char first_error_id[8], first_error[384]; /* "": none so far */
} examination;

/* ---- doctor.c ---- */

void doctor_tell(examination *x, const char *id, pawl_severity severity, const char *next,
                 const char *format, ...) PRINTF_LIKE(5, 6);
/* An error of the library as a finding: what, where, expected, found, in one sentence. */
void doctor_tell_error(examination *x, const char *id, const pawl_error *story);

/* ---- path.c ---- */

const char *doctor_id_of_path_error(const pawl_error *story);
/* Opens what is there of the path. *whole: the path itself exists. NULL: it was explained why
 * not. */
store *doctor_resolve(examination *x, bool *whole);

/* ---- room.c ---- */

/* Whether it makes sense to try to write. */
bool doctor_examine_room(examination *x, store *s, bool whole);

/* ---- writing.c ---- */

/* Can files be made there? */
void doctor_examine_writing(examination *x, store *s);

/* ---- owner.c ---- */

void doctor_examine_owner(examination *x, store *s);

/* ---- ranks.c ---- */

/* Of many ranks, collective: `s` is what doctor_resolve opened, or NULL. */
void doctor_examine_ranks(examination *x, store *s, bool whole);

#endif
