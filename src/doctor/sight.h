/* SPDX-License-Identifier: Apache-2.0 */
/* doctor/sight: what one rank sees of the path, as it tells rank 0; and what all of them mean. */
#ifndef DOCTOR_SIGHT_H
#define DOCTOR_SIGHT_H

#include "doctor/doctor.h"

#define SIGHT_BYTES MEET_MAX_MINE /* encoded, at most */

typedef struct sight {
    char host[128];
    int64_t pid;
    char given[256];   /* the path as given */
    char here[256];    /* the working directory */
    char place[256];   /* the absolute path it stands for; "": it stands for none */
    char nearest[256]; /* the nearest directory that exists; "": none could be opened */
    bool whole;        /* the place itself exists */
    char filesystem[32], point[256], source[128]; /* of the nearest's mount */
    bool saw;                                     /* what rank 0 wrote */
    bool wrote;                                   /* a file beside it */
    char trouble_id[8];                           /* the first error of its own; "": none */
    char trouble[384];
} sight;

pawl_status sight_encode(const sight *s, buffer *out, pawl_error *err) PAWL_MUST_CHECK;
/* PAWL_EDAMAGED for what no encoder makes. */
pawl_status sight_decode(const void *bytes, size_t n, sight *out, pawl_error *err) PAWL_MUST_CHECK;

/* All that came, by rank. `came` of rank 0 is 1. `waited_s`: for those that did not. */
typedef struct sights {
    const sight *of;
    const unsigned char *came;
    int world_size;
    double waited_s;
} sights;
typedef void (*sights_tell)(void *context, const char *id, pawl_severity severity, const char *next,
                            const char *text);
/* P02, P04 to P06, S11: what rank 0 says of all ranks. */
void sights_judge(const sights *all, sights_tell tell_each, void *context);

#endif
