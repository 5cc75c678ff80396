/* SPDX-License-Identifier: Apache-2.0 */
/* doctor/examination: what the files of this folder share. Each file examines one thing. */
#ifndef DOCTOR_EXAMINATION_H
#define DOCTOR_EXAMINATION_H

#include "doctor/doctor.h"

/* How the run's last saves went; medians. */
typedef struct doctor_saves {
    size_t count; /* 0: none is known */
    uint64_t bytes;
    double save_s;  /* from pawl_save until it is durable, without waiting for the one before */
    double stall_s; /* that training stood still for it */
    size_t intervals;
    double every_s; /* between saves as the job asks for them; `intervals` 0: not known */
} doctor_saves;

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
    bool has_error;                           /* it is one; else a warning of the environment */

    const doctor_asked *asked;
    const char *part;                   /* of the findings that are told now */
    char evidence[1024], command[1024]; /* of the next finding; "": none */
    pawl_checkpoint *foreign;           /* the path is this checkpoint of another tool; or NULL */
    bool broken;                        /* it is one that cannot be opened, which is told */
    int64_t newest; /* a committed step, the one to look at; -1: there is none */
    uint64_t newest_bytes;
    int64_t last_unix_ns;     /* of all that is there, by the writers' clocks; 0: not known */
    double probe_bytes_per_s; /* 0: not known */
    bool unwritable;          /* nothing more can be written there */
    bool silent;              /* the filesystem does not answer */
    bool stopped;             /* the caller wanted it to end */
    doctor_saves saves;
    pawl_state *model; /* made of a description; NULL: none */
} examination;

/* ---- doctor.c ---- */

bool doctor_wants(const examination *x, pawl_doctor_part part);
/* Is there a model to compare what is there with? */
bool doctor_compares(const examination *x);
/* Does the caller want it to end? */
bool doctor_is_stopped(examination *x);
void doctor_tell(examination *x, const char *id, pawl_severity severity, const char *next,
                 const char *format, ...) PRINTF_LIKE(5, 6);
/* What the next finding is concluded from, and its next step as a command line. */
void doctor_evidence(examination *x, const char *format, ...) PRINTF_LIKE(2, 3);
void doctor_command(examination *x, const char *format, ...) PRINTF_LIKE(2, 3);
/* `path` as a word of a shell, in quotes where it needs them. */
const char *doctor_word(char out[1024], const char *path);
/* An error of the library as a finding: its parts in one sentence. */
void doctor_tell_error(examination *x, const char *id, const pawl_error *story);
void doctor_tell_error_as(examination *x, const char *id, pawl_severity severity,
                          const pawl_error *story);

/* ---- answer.c ---- */

/* Does the filesystem answer at all (S08), also to one who writes? False: a finding says where it
 * does not, and nothing there may be touched. */
bool doctor_examine_answer(examination *x, bool writing);

/* ---- resolve.c ---- */

const char *doctor_id_of_path_error(const pawl_error *story);
/* Opens the path, or the nearest directory above it that exists. *whole: the path itself exists.
 * NULL: neither can be opened, and a finding says why. */
store *doctor_resolve(examination *x, bool *whole);

/* ---- room.c ---- */

/* False: writing need not be tried. */
bool doctor_examine_room(examination *x, store *s, bool whole);
/* The size of a checkpoint to come; 0: not known. */
uint64_t doctor_need(const examination *x);

/* ---- writing.c ---- */

/* Can files be made there? */
void doctor_examine_writing(examination *x, store *s);

/* ---- owner.c ---- */

void doctor_examine_owner(examination *x, store *s);

/* ---- probe.c ---- */

/* What writing, syncing and reading costs there. */
void doctor_examine_speed(examination *x, store *s);

/* ---- saves.c, interval.c ---- */

/* How the last saves of the run went, out of its events. */
void doctor_look_at_saves(examination *x, store *s);
/* Medians of up to 32 numbers; sorts them. */
double doctor_median(double *numbers, size_t count);
/* Is there time for a save between two (P11)? How often should one be made? */
void doctor_examine_interval(examination *x);
/* J. T. Daly's estimate of the best time between saves, given what a save costs and the mean time
 * between failures. */
double doctor_best_interval_s(double cost_s, double mtbf_s);

/* ---- foreign.c, checkpoint.c, steps.c, leftovers.c ---- */

/* Is the path a checkpoint of another tool? Then it is open, or a finding says why it cannot be. */
void doctor_find_foreign(examination *x);
void doctor_examine_foreign(examination *x);
typedef struct doctor_verdict {
    bool opened, damaged, finished;
    bool unread; /* whether it is whole could not be found out, which is told */
    uint64_t done_bytes, of_bytes;
    const char *unverified; /* as long as the checkpoint is open */
} doctor_verdict;
/* Reads a checkpoint as far as `deadline_ns` allows, and tells of damage (R08). */
doctor_verdict doctor_verify(examination *x, pawl_checkpoint *c, const char *what,
                             pawl_severity severity, uint64_t deadline_ns);
uint64_t doctor_verify_deadline(const examination *x);
/* Reading failed for want of permission, memory or files: no fault of the checkpoint's. True: a
 * finding says so. */
bool doctor_tell_unread(examination *x, const char *what, const pawl_error *story);
/* The steps of a run, or what else is in that directory. */
void doctor_examine_run(examination *x, store *s);
void doctor_examine_unfinished(examination *x, store *s, const pawl_catalog *catalog);
/* Checkpoints of other tools in and below a directory that is no run. */
void doctor_examine_below(examination *x, store *s);

/* ---- model.c, template.c ---- */

/* Reads the model that is given by its path. PAWL_EUSAGE, PAWL_EDAMAGED and others: it is none. */
pawl_status doctor_make_model(examination *x, pawl_error *err) PAWL_MUST_CHECK;
/* What restoring into the model would report. PAWL_EUSAGE: the options of the restore. */
pawl_status doctor_examine_model(examination *x, pawl_error *err) PAWL_MUST_CHECK;

/* ---- environment.c, limits.c ---- */

void doctor_examine_environment(examination *x);
void doctor_examine_limits(examination *x);
void doctor_examine_memory(examination *x, int ranks_here);

/* ---- same_directory.c ---- */

/* Of many ranks, collective: `s` is what doctor_resolve opened, or NULL. */
void doctor_examine_same_directory(examination *x, store *s, bool whole);

#endif
