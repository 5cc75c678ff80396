/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pawl/error.h: what every call of libpawl reports, and how.
 *
 * Every call that can fail returns a pawl_status, a short list of categories for programs, and
 * fills a pawl_error, the full story for people. The last argument of such a call is always the
 * error; it may be NULL when only the status is wanted. A successful call leaves the error
 * untouched.
 *
 * libpawl never prints, never exits, never reads the environment and never installs a signal
 * handler unasked. Messages while it works go to the caller's log callback.
 */
#ifndef PAWL_ERROR_H
#define PAWL_ERROR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define PAWL_API        __attribute__((visibility("default")))
#define PAWL_MUST_CHECK __attribute__((warn_unused_result))
#else
#define PAWL_API
#define PAWL_MUST_CHECK
#endif

#define PAWL_VERSION "0.2.0"

/* The version of the library that is running, which may differ from PAWL_VERSION above. */
PAWL_API const char *pawl_version(void);

/* Does what `pointer` leads to, handed out by a library that may be older than this header, have
 * `member`? Its struct_size says so. */
#define PAWL_HAS(pointer, member)                                                                  \
    ((size_t)((const char *)(&(pointer)->member + 1) - (const char *)(pointer)) <=                 \
     (pointer)->struct_size)

/*
 * Stable numbers: a program may switch on them; new ones are only added at the end.
 *
 * PAWL_ELIMIT is for what is well formed but too large: a caller's or a file's count, length, depth
 * or size above a named maximum (PAWL_MAX_NAME_BYTES, PAWL_MAX_NDIM, ...; the table in
 * docs/format.md; the system's longest path). The text names the maximum. What is malformed, or too
 * small, is PAWL_EUSAGE from a caller and PAWL_EDAMAGED in a file.
 */
typedef enum pawl_status {
    PAWL_OK = 0,
    PAWL_EUSAGE = 1,       /* the call itself is wrong: a bad argument, a bad name, a bad order */
    PAWL_ENOTFOUND = 2,    /* no such run, step, entry or file */
    PAWL_EMISMATCH = 3,    /* checkpoint and state do not fit each other; see the report */
    PAWL_EDAMAGED = 4,     /* bytes are missing, or are not those that were written */
    PAWL_EUNSUPPORTED = 5, /* of a newer format, or something that this build cannot do */
    PAWL_EBUSY = 6,       /* someone else is using it: another writer, a save in flight, a reader */
    PAWL_ENOSPACE = 7,    /* disk, quota, inodes or file-size limit exhausted */
    PAWL_EPERMISSION = 8, /* the system refused access */
    PAWL_EIO = 9,         /* the storage failed */
    PAWL_ETIMEOUT = 10,   /* time is up; what was waited for goes on */
    PAWL_ECANCELED = 11,  /* the caller cancelled it: a save, a verification */
    PAWL_ENOMEM = 12,     /* memory, threads or file descriptors exhausted */
    PAWL_ELIMIT = 13,     /* a named maximum of this library or of the format was passed */
    PAWL_EINTERNAL = 14,  /* a defect in libpawl; please report it */
    PAWL_EPEER = 15       /* another rank died, failed to answer, or did not answer in time */
} pawl_status;

/* A word for a status: "ok", "usage", "not found", "damaged", ... Never NULL. Any thread. */
PAWL_API const char *pawl_status_name(pawl_status status);

/*
 * What went wrong, in detail. Make one, pass it to any number of calls, free it at the end. One
 * thread at a time. Text returned from an error lives until that error is filled again or freed.
 */
typedef struct pawl_error pawl_error;

/*
 * The parts of an error; each is text, or NULL when it does not apply. Path and entry are the exact
 * names; every other part is one line, in which bytes that a terminal would act on, and bytes that
 * are not UTF-8, are written as \xNN.
 */
typedef enum pawl_error_part {
    PAWL_ERROR_ATTEMPT = 0,  /* what was attempted and what went wrong, outermost first */
    PAWL_ERROR_PATH = 1,     /* absolute path of the file or directory */
    PAWL_ERROR_ENTRY = 2,    /* name of the entry of the state */
    PAWL_ERROR_EXPECTED = 3, /* what should have been there */
    PAWL_ERROR_FOUND = 4,    /* what was there */
    PAWL_ERROR_SYSTEM = 5,   /* the system's own words for its errno */
    PAWL_ERROR_SAFE = 6,     /* what is still safe */
    PAWL_ERROR_NEXT = 7      /* what to do next */
} pawl_error_part;

/* NULL when out of memory; every call accepts NULL for its error. */
PAWL_API pawl_error *pawl_error_new(void);
PAWL_API void pawl_error_free(pawl_error *err);

PAWL_API pawl_status pawl_error_status(const pawl_error *err);
/* The errno behind the failure, or 0. */
PAWL_API int pawl_error_errno(const pawl_error *err);
/* The step that was saved or read, or -1. */
PAWL_API int64_t pawl_error_step(const pawl_error *err);
/* The damaged or unwritten byte range of PAWL_ERROR_PATH; 0 where there is none, 1 where filled. */
PAWL_API int pawl_error_range(const pawl_error *err, uint64_t *offset, uint64_t *length);
PAWL_API const char *pawl_error_get(const pawl_error *err, pawl_error_part part);
/* All parts for people, one a line, path and entry escaped as well. Lives until the next
 * pawl_error_text or pawl_error_json. */
PAWL_API const char *pawl_error_text(pawl_error *err);
/* The same content as one JSON object, for programs. Same lifetime. */
PAWL_API const char *pawl_error_json(pawl_error *err);

/* ---- log ---------------------------------------------------------------------------------- */

typedef enum pawl_log_level {
    PAWL_LOG_NONE = 0,
    PAWL_LOG_ERROR = 1, /* a save failed; a checkpoint is damaged */
    PAWL_LOG_WARN = 2,  /* work goes on, but someone should know */
    PAWL_LOG_INFO = 3,  /* one line per save, restore, removal */
    PAWL_LOG_DEBUG = 4
} pawl_log_level;

/*
 * `text` is one or more lines without a final newline, valid during the call only. Called on
 * whichever thread logs, engine threads included, never with a lock held that a pawl call made from
 * the callback would need; still, the callback should not call back into the same run.
 */
typedef struct pawl_log {
    size_t struct_size;                                                   /* sizeof(pawl_log) */
    void (*write)(void *context, pawl_log_level level, const char *text); /* NULL: no log */
    void *context;
    pawl_log_level level; /* the most detailed level wanted; 0: PAWL_LOG_WARN */
} pawl_log;

#ifdef __cplusplus
}
#endif

#endif
