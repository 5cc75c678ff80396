/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pawl/convert.h: writes what an open checkpoint has in another format, that of pawl or of another
 * tool. What is read and written of each: docs/formats.md.
 */
#ifndef PAWL_CONVERT_H
#define PAWL_CONVERT_H

#include <pawl/checkpoint.h>
#include <pawl/restore.h>
#include <pawl/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What becomes of an entry. */
typedef enum pawl_convert_fate {
    PAWL_CONVERTED = 1,
    PAWL_LEFT_OUT = 2, /* `only` does not name it */
    PAWL_DROPPED = 3   /* the format has no place for it, and `drop` allows that */
} pawl_convert_fate;

typedef struct pawl_convert_item {
    size_t struct_size;
    pawl_convert_fate fate;
    const pawl_entry_info *from;
    const char *name; /* CONVERTED: in the new checkpoint */
    pawl_dtype dtype; /* CONVERTED, tensors: there */
    /* A clause. DROPPED: why. CONVERTED: as what else than what it is, or NULL. */
    const char *why;
} pawl_convert_item;

/* The functions are called on the caller's thread, and must not use the checkpoint. */
typedef struct pawl_convert_options {
    size_t struct_size;
    /* One of pawl_convert_formats. [by the ending of the path, else "pawl"] */
    const char *to;
    /* Entries of these names, and those below them: NAME/...; each has some. [all] */
    const char *const *only;
    size_t only_count;
    /* Applied to names as in a restore: the first rule that fits. Each is used, but for those that
     * swap characters; in a restore one that fits nothing is none, as the report has what is left
     * without a partner. [none] */
    const pawl_rename *renames;
    size_t rename_size; /* sizeof(pawl_rename) */
    size_t rename_count;
    /* F64, F32, F16 or BF16: what tensors of these types become; others stay as they are. [0] */
    pawl_dtype cast;
    int drop; /* leave out what the format has no place for, instead of failing [0] */
    /* Several files of about so many bytes each, in a directory, with an index. Formats that have
     * that: safetensors. [one file] */
    uint64_t shard_bytes;
    const int64_t *step; /* to "pawl" alone: the step to save [the checkpoint's own, else 0] */
    int dry_run;         /* look whether it can be, tell what would be, and write nothing [0] */
    /* Each entry, ascending by name, before anything is written. [none] */
    void (*item)(void *context, const pawl_convert_item *item);
    void (*progress)(void *context, uint64_t done_bytes, uint64_t of_bytes); /* [none] */
    void *context;
    int (*stop)(void *context); /* called now and then: not 0 ends it with PAWL_ECANCELED [none] */
} pawl_convert_options;

typedef struct pawl_convert_result {
    size_t struct_size;         /* sizeof(pawl_convert_result) */
    const char *format;         /* that was written; static */
    uint64_t tensors, values;   /* converted */
    uint64_t renamed, cast;     /* of them */
    uint64_t left_out, dropped; /* not converted */
    uint64_t bytes;             /* of the tensors, as they were written */
    uint64_t overflows;         /* numbers that a cast made infinite */
    /* As of pawl_verify_result: what nothing in the source can show; NULL: it has checksums of all.
     * Lives until the checkpoint is closed. */
    const char *unverified;
    /* Of the values: written as what describes them, and not as what they are. */
    uint64_t described;
} pawl_convert_result;

/* The formats that can be written, separated by ", ". */
PAWL_API const char *pawl_convert_formats(void);

/*
 * Writes the entries of a checkpoint to `path`, which must not be there yet; to "pawl": a run,
 * which may, and gets one more step, which it must not have yet. `options` may be NULL.
 *
 * All of it is written under another name in the same directory, and made durable; then it gets its
 * own name. What fails, or is stopped, leaves nothing behind, but for directories above a new run,
 * which are made where they are missing; what is killed leaves files, or a directory, whose name
 * begins with .NAME.pawl-, which may be removed. A directory that is there, empty or a run, others
 * may open meanwhile: what fails leaves no step in it, but the files that opening a run makes
 * (owner-*, events.jsonl, reserve).
 *
 * Reads while it writes, through less than 100 MiB of memory, and 64 MiB for each 100,000 entries.
 * The checksums that the source has of what is converted are compared as it is read, before it gets
 * its own name.
 *
 * PAWL_EUNSUPPORTED: the format has no place for an entry (without `drop`), named with the reason;
 * PAWL_EUSAGE: `path` is there, or the run has that step; two entries would have one name, a name
 * or a rule fits no entry, an option is wrong, or there is nothing to convert; PAWL_EBUSY: someone
 * else has the run open, or was faster in making `path`. Failures of reading and writing are those
 * of other calls.
 */
PAWL_API pawl_status pawl_convert(pawl_checkpoint *from, const char *path,
                                  const pawl_convert_options *options, pawl_convert_result *result,
                                  pawl_error *err) PAWL_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
