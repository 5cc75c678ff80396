/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pawl/state.h: what is saved and restored.
 *
 * A state is a set of named entries. Names are UTF-8 paths with '/': "model/dense/kernel". An entry
 * is a tensor, whose memory stays the trainer's, or a value, which the state keeps a copy of.
 * The same state serves both ways: a save reads the tensors' memory, a restore writes it.
 *
 * A state is used by one thread at a time. It may be freed while it is being saved. But the memory
 * of its tensors must stay valid and unchanged from pawl_save to the end of the next pawl_fence (or
 * pawl_wait); that of tensors with `copied`, until pawl_save returns.
 */
#ifndef PAWL_STATE_H
#define PAWL_STATE_H

#include <pawl/memory.h>
#include <pawl/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PAWL_MAX_NAME_BYTES  1024
#define PAWL_MAX_BOXES       4096
#define PAWL_MAX_VALUE_BYTES (1024 * 1024)
#define PAWL_MAX_RANK_BYTES  (256 * 1024 * 1024) /* of one rank, in a per-rank value */
#define PAWL_MAX_JSON_DEPTH  512                 /* nested objects and lists */

/* What an entry is for, so that a restore can explain a mismatch in the terms of training. */
typedef enum pawl_role {
    PAWL_ROLE_MODEL = 0,          /* a variable of the model */
    PAWL_ROLE_SLOT = 1,           /* an optimizer's slot of a variable: slot_of and slot are set */
    PAWL_ROLE_HYPERPARAMETER = 2, /* learning rate, ...; the value named PAWL_OPTIMIZER_CLASS too */
    PAWL_ROLE_STEP = 3,           /* how far training is */
    PAWL_ROLE_RNG = 4,            /* random state */
    PAWL_ROLE_DATA_POSITION = 5,  /* where the data loader is */
    PAWL_ROLE_BATCH_SIGNATURE = 6, /* JSON from pawl_batch_check_signature */
    PAWL_ROLE_OTHER = 7
} pawl_role;

/* Save the optimizer's class under this name, as a string: a restore then notices another class. */
#define PAWL_OPTIMIZER_CLASS "optimizer/class"

typedef enum pawl_kind {
    PAWL_KIND_TENSOR = 1,
    PAWL_KIND_BOOL = 2,
    PAWL_KIND_INT64 = 3,
    PAWL_KIND_FLOAT64 = 4,
    PAWL_KIND_STRING = 5, /* UTF-8 without NUL */
    PAWL_KIND_BYTES = 6,
    PAWL_KIND_JSON = 7
} pawl_kind;

/* "model", "slot", ...; "tensor", "bool", ... Never NULL. */
PAWL_API const char *pawl_role_name(pawl_role role);
PAWL_API const char *pawl_kind_name(pawl_kind kind);

/* One box of a tensor that this rank holds: `extent` elements per dimension from `offset` on. An
 * element of an array, whose user says how large each is. */
typedef struct pawl_box {
    const int64_t *offset;  /* ndim numbers */
    const int64_t *extent;  /* ndim numbers */
    const int64_t *strides; /* bytes per dimension; NULL: row-major, dense */
    void *data;             /* first element of the box; may be NULL when the box is empty */
} pawl_box;

/*
 * A tensor as handed to the state. Everything but `data` is copied. Set `struct_size` to
 * sizeof(pawl_tensor); what is zero has the default in brackets.
 *
 * `data` may be memory of any kind: a save only reads it, up to the end of pawl_fence; a restore
 * writes to it. Whether it is there is not asked. If it is unmapped, or is that of a mapped file
 * which is cut short, or is restored into and read-only, the process gets the signal (SIGSEGV,
 * SIGBUS) that it would get by touching it itself. Two entries may share memory; a restore leaves
 * in it what one of them had.
 */
typedef struct pawl_tensor {
    size_t struct_size;
    const char *name;
    pawl_dtype dtype;
    int ndim;               /* 0 (a scalar) to PAWL_MAX_NDIM */
    const int64_t *shape;   /* global shape, ndim numbers */
    void *data;             /* the whole tensor, when nboxes is 0 */
    const int64_t *strides; /* bytes per dimension, when nboxes is 0 [row-major, dense] */
    size_t nboxes;          /* [0: one box that covers everything] at most PAWL_MAX_BOXES */
    const pawl_box *boxes;  /* disjoint boxes inside the shape */
    size_t box_size;        /* sizeof(pawl_box); needed where nboxes is not 0 */
    int replicated;         /* other ranks hold the same boxes with the same bytes: each byte is
                               written by one of them. A save of copies that differ fails with
                               PAWL_EMISMATCH: always compared where a rank holds at most 64 KiB of
                               the tensor, larger ones with `checking` [0] */
    pawl_role role;         /* [PAWL_ROLE_MODEL] */
    const char *slot_of;    /* PAWL_ROLE_SLOT: name of the variable, a tensor of the same state. The
                               slot may have any shape (a row and a column of second moments, a
                               scalar): a restore compares it with the checkpoint's */
    const char *slot;       /* PAWL_ROLE_SLOT: name of the slot, such as "adam/m" */
    /* Replicated: this rank holds copy `replica` of `replica_count`. The ranks with the same
     * boxes of the same tensors number their copies alike, such as by their data-parallel rank.
     * Ranks that share one tensor must share all of theirs with that replica_count, since from
     * these two numbers alone follows who writes what. [replica_count 0: a copy per rank,
     * numbered by rank] */
    int replica, replica_count;
    /* Where `data`, of the boxes too, is; it is then an address or handle for the provider alone,
     * and may be NULL (pawl/memory.h). Not copied. [NULL: host memory] */
    const pawl_memory *memory;
    /* 1: the tensor may change as soon as pawl_save has returned. For what training changes before
     * its fence: running means, averaged weights. pawl_save copies it into the staging budget, and
     * waits for writes where the budget is full. PAWL_ETIMEOUT: after deadline_s of the save's
     * options; PAWL_EIO: memory of a provider makes no progress for the run's hang_deadline_s;
     * PAWL_ECANCELED: `interrupted` of the run's options ended it. The save is then given up, as by
     * pawl_cancel, and the tensors are in use until pawl_fence has returned. Replicas among ranks
     * are read for their checksums first, which this deadline does not end [0] */
    int64_t copied;
} pawl_tensor;

typedef struct pawl_state pawl_state;

PAWL_API pawl_status pawl_state_new(pawl_state **state, pawl_error *err) PAWL_MUST_CHECK;
/* Frees the state, never the tensors' memory. A save in flight goes on. NULL is fine. */
PAWL_API void pawl_state_free(pawl_state *state);

/*
 * Adds a tensor. PAWL_EUSAGE names the entry for a name that is empty, repeated, not UTF-8, has a
 * NUL, "..", "." or an empty component, or begins with '/'; a shape that is negative; boxes that
 * overlap or reach outside the shape; a null pointer with bytes; strides that do not fit; a slot
 * without slot_of. PAWL_ELIMIT for a name, dimensions, boxes, elements or bytes (2^62), or entries
 * (100,000,000), above their maximum. PAWL_EUNSUPPORTED: strides that a provider's memory would be
 * copied by in too many tiny runs (pawl/memory.h). Nothing is added then.
 */
PAWL_API pawl_status pawl_state_add_tensor(pawl_state *state, const pawl_tensor *tensor,
                                           pawl_error *err) PAWL_MUST_CHECK;

/*
 * The same for `count` tensors in one call, for languages in which a call costs; faster for each
 * than calls of pawl_state_add_tensor, too. All are added, or none; the error names the entry and
 * its place in the array. All elements have the struct_size of the first, else PAWL_EUSAGE.
 */
PAWL_API pawl_status pawl_state_add_tensors(pawl_state *state, const pawl_tensor *tensors,
                                            size_t count, pawl_error *err) PAWL_MUST_CHECK;

/*
 * Gives tensors of the state new memory: `data`, `strides`, `boxes`, `memory` (of another provider,
 * too, or none), and which replica they are.
 * What else a tensor is (dtype, shape, role, slot_of, slot, replicated) has to be said again and
 * has to be as it was: PAWL_EUSAGE tells what differs; to change it remove the entry and add it.
 * All are updated, or none. PAWL_EBUSY names a tensor and the save that still reads its memory:
 * call pawl_fence first. PAWL_ENOTFOUND names near misses. Otherwise fails as
 * pawl_state_add_tensors.
 */
PAWL_API pawl_status pawl_state_update_tensors(pawl_state *state, const pawl_tensor *tensors,
                                               size_t count, pawl_error *err) PAWL_MUST_CHECK;

/*
 * Sets a value: adds the entry, or replaces the value of an entry of the same kind. The bytes are
 * copied; a save in flight keeps the value that it was handed. At most PAWL_MAX_VALUE_BYTES.
 */
PAWL_API pawl_status pawl_state_set_bool(pawl_state *state, const char *name, pawl_role role,
                                         int value, pawl_error *err) PAWL_MUST_CHECK;
PAWL_API pawl_status pawl_state_set_int64(pawl_state *state, const char *name, pawl_role role,
                                          int64_t value, pawl_error *err) PAWL_MUST_CHECK;
PAWL_API pawl_status pawl_state_set_float64(pawl_state *state, const char *name, pawl_role role,
                                            double value, pawl_error *err) PAWL_MUST_CHECK;
PAWL_API pawl_status pawl_state_set_string(pawl_state *state, const char *name, pawl_role role,
                                           const char *value, pawl_error *err) PAWL_MUST_CHECK;
PAWL_API pawl_status pawl_state_set_bytes(pawl_state *state, const char *name, pawl_role role,
                                          const void *value, size_t size, pawl_error *err)
    PAWL_MUST_CHECK;
/*
 * `json` is any JSON text of RFC 8259, and comes back bit for bit: numbers may have any size and
 * any number of digits, and are never rounded; all of several equal keys are kept. PAWL_EUSAGE,
 * with the position, for what is not JSON (such as NaN and Infinity), not UTF-8, or has half a
 * surrogate pair ("\ud800"), which strict readers refuse (RFC 7493); PAWL_ELIMIT beyond
 * PAWL_MAX_VALUE_BYTES or PAWL_MAX_JSON_DEPTH. When two texts are compared, white space, the order
 * of members, and how a number is written (1, 1.0, 10e-1) make no difference.
 */
PAWL_API pawl_status pawl_state_set_json(pawl_state *state, const char *name, pawl_role role,
                                         const char *json, pawl_error *err) PAWL_MUST_CHECK;
/*
 * Bytes of which each rank has its own (random state, loader state), never taken for a replica. At
 * most PAWL_MAX_RANK_BYTES, PAWL_ELIMIT beyond. The state keeps a copy, as of every value: what a
 * save in flight still reads stays until it has ended, and a restore holds them twice for a moment.
 */
PAWL_API pawl_status pawl_state_set_rank_bytes(pawl_state *state, const char *name, pawl_role role,
                                               const void *value, size_t size, pawl_error *err)
    PAWL_MUST_CHECK;

/*
 * Reads a value back, usually after a restore. PAWL_ENOTFOUND, or PAWL_EUSAGE when the entry is of
 * another kind. Pointers live until the entry is set, restored or removed.
 */
PAWL_API pawl_status pawl_state_get_bool(const pawl_state *state, const char *name, int *value,
                                         pawl_error *err) PAWL_MUST_CHECK;
PAWL_API pawl_status pawl_state_get_int64(const pawl_state *state, const char *name, int64_t *value,
                                          pawl_error *err) PAWL_MUST_CHECK;
PAWL_API pawl_status pawl_state_get_float64(const pawl_state *state, const char *name,
                                            double *value, pawl_error *err) PAWL_MUST_CHECK;
/* Strings and JSON. */
PAWL_API pawl_status pawl_state_get_string(const pawl_state *state, const char *name,
                                           const char **value, pawl_error *err) PAWL_MUST_CHECK;
/* Bytes and per-rank bytes. */
PAWL_API pawl_status pawl_state_get_bytes(const pawl_state *state, const char *name,
                                          const void **value, size_t *size, pawl_error *err)
    PAWL_MUST_CHECK;

/*
 * Removes an entry. PAWL_EBUSY naming the entry and the save when a save still reads its memory:
 * call pawl_fence first. PAWL_ENOTFOUND when there is none.
 */
PAWL_API pawl_status pawl_state_remove(pawl_state *state, const char *name, pawl_error *err)
    PAWL_MUST_CHECK;

PAWL_API size_t pawl_state_count(const pawl_state *state);

#ifdef __cplusplus
}
#endif

#endif
