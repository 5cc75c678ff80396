/* SPDX-License-Identifier: Apache-2.0 */
/* format/presence_record: the records by which a process says that it is there:
 * owner-<generation> in a run, or owner on an object store, reader-<id> in a step's directory.
 * docs/format.md describes the bytes. */
#ifndef FORMAT_PRESENCE_RECORD_H
#define FORMAT_PRESENCE_RECORD_H

#include "base/base.h"
#include "format/limits.h"

/* Both begin with a counter of fixed width, which is overwritten in place. */
#define PRESENCE_COUNTER_AT     12 /* of its first digit, after {"counter":" */
#define PRESENCE_COUNTER_DIGITS 20
#define OWNER_GIVEN_UP          0u /* the counter of a record whose owner is done */
/* How often a reader advances its mark, also while it does nothing. A mark that cannot be judged
 * by its pid counts until it was seen unchanged for the lease of who judges, and for
 * READER_STILL_S. */
#define READER_ADVANCE_S 5.0
#define READER_STILL_S   30.0

typedef struct owner_record {
    uint64_t counter;
    process_identity who;
    uint64_t generation; /* that of its name; 0: an older record, which does not say */
    char attempt[16];
    double lease_s;
    /* On object stores: the owner may be about to publish or remove the manifest of that step. */
    bool working;
    int64_t working_on;
} owner_record;

typedef struct reader_record {
    uint64_t counter;
    process_identity who;
} reader_record;

/* Decoders: PAWL_EDAMAGED with the reason for what the encoders would not have written. Of the
 * process only host and pid must be there; what else a record does not say of it stays empty, and
 * nobody judges it by that. */
pawl_status owner_record_encode(const owner_record *r, buffer *out, pawl_error *err)
    PAWL_MUST_CHECK;
pawl_status owner_record_decode(const void *bytes, size_t n, owner_record *out, pawl_error *err)
    PAWL_MUST_CHECK;
pawl_status reader_record_encode(const reader_record *r, buffer *out, pawl_error *err)
    PAWL_MUST_CHECK;
pawl_status reader_record_decode(const void *bytes, size_t n, reader_record *out, pawl_error *err)
    PAWL_MUST_CHECK;
/* The digits at PRESENCE_COUNTER_AT, and a NUL. */
void presence_counter(char out[PRESENCE_COUNTER_DIGITS + 1], uint64_t counter);
/* Are they the same process? */
bool presence_same(const process_identity *a, const process_identity *b);

#define NAME_OWNER_OBJECT "owner"
void name_owner(char out[32], uint64_t generation);
typedef enum name_owner_kind {
    NAME_OWNER,       /* exactly what name_owner makes of a generation up to the last one */
    NAME_OWNER_STRAY, /* "owner-" and other digits: no owner's record */
    NAME_OWNER_NOT
} name_owner_kind;
name_owner_kind name_owner_parse(const char *name, uint64_t *generation);

#endif
