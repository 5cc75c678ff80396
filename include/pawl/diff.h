/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pawl/diff.h: comparing two checkpoints, entry by entry: what only one of them has, what differs
 * in kind, dtype, shape, role or value, and by how much the numbers of tensors differ.
 */
#ifndef PAWL_DIFF_H
#define PAWL_DIFF_H

#include <pawl/checkpoint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pawl_diff_kind {
    PAWL_ONLY_IN_A = 1,
    PAWL_ONLY_IN_B = 2,
    PAWL_DIFFERS_IN_KIND = 3, /* a tensor and a value, values of two kinds, or one of each rank */
    PAWL_DIFFERS_IN_DTYPE = 4,
    PAWL_DIFFERS_IN_SHAPE = 5,
    PAWL_DIFFERS_IN_ROLE = 6, /* or the slot, or whose slot it is */
    PAWL_DIFFERS_IN_HYPERPARAMETER = 7,
    PAWL_DIFFERS_IN_VALUE = 8,  /* of any other value, and of those per rank */
    PAWL_DIFFERS_IN_NUMBERS = 9 /* of two tensors of one dtype and shape */
} pawl_diff_kind;

/* "only_a", "numbers", ...; NULL for a kind that there is not. */
PAWL_API const char *pawl_diff_kind_name(pawl_diff_kind kind);

/* Two tensors of one dtype and shape. Elements differ where their bits do: NaN is the same as a NaN
 * of the same bits, 0.0 and -0.0 differ by 0. */
typedef struct pawl_distances {
    size_t struct_size; /* sizeof(pawl_distances) */
    uint64_t elements;  /* of packed types: bytes, here and in `differing` */
    uint64_t differing;
    uint64_t nan_on_one_side;
    double max_abs;  /* the largest |a - b|, of C64 the magnitude; 0 for packed types */
    double mean_abs; /* over all elements with a finite |a - b| */
    int compared;    /* 0: of a type that is no pawl_dtype, or packed and above 256 MiB */
} pawl_distances;

typedef struct pawl_diff_item {
    size_t struct_size;
    pawl_diff_kind kind;
    const char *name;                /* of the entry; of one of A, after the rename rules */
    const pawl_entry_info *a, *b;    /* what each side has; NULL: no such entry */
    const pawl_distances *distances; /* PAWL_DIFFERS_IN_NUMBERS; otherwise NULL */
    int ranks;                       /* PAWL_DIFFERS_IN_VALUE per rank: on so many of */
    int of_ranks;                    /* so many ranks; otherwise both 0 */
    int transposed;                  /* A's tensor was transposed before it was compared */
} pawl_diff_item;

/* The functions are called on the caller's thread; what they get lives until they return. They must
 * not use the two checkpoints. */
typedef struct pawl_diff_options {
    size_t struct_size;
    /* Ascending by name; an entry that differs in several ways comes once for each. [none] */
    void (*difference)(void *context, const pawl_diff_item *difference);
    void (*progress)(void *context, uint64_t done_bytes, uint64_t of_bytes); /* [none] */
    void *context;
    int structure_only;         /* compare no numbers, and of values only hyperparameters [0] */
    int (*stop)(void *context); /* called now and then: not 0 ends it with PAWL_ECANCELED [none] */
    /* Applied to the names of A as in a restore: the first rule that fits. [none] */
    const pawl_rename *renames;
    size_t rename_size; /* sizeof(pawl_rename) */
    size_t rename_count;
    /* Entries of A of these names (before they are renamed), and those below them: NAME/... Their
     * tensors of two axes are compared with the transposed ones of B. [none] */
    const char *const *transpose;
    size_t transpose_count;
} pawl_diff_options;

typedef struct pawl_diff_result {
    size_t struct_size;                       /* sizeof(pawl_diff_result) */
    uint64_t same, different, only_a, only_b; /* entries */
    uint64_t uncompared; /* of the different ones: tensors whose numbers were not compared */
    double max_abs;      /* the largest of all tensors */
} pawl_diff_result;

/*
 * Compares two checkpoints, of any two formats that pawl opens. They are identical where the counts
 * of the result after `same` are 0, and that is PAWL_OK as well. `options` may be NULL. Reads both
 * once, in the order of their files where tensors are small, and needs at most about 32 MiB, and
 * room for what is compared as a whole on both sides: a packed tensor, or what one rank has of a
 * value per rank, each of at most 256 MiB. `a` and `b` may be one handle. Rename rules need room
 * for the names of A besides; PAWL_EUSAGE where they give two entries one name, or one that is not
 * valid, and where one of them, or a name of `transpose`, fits no entry of A. Large tensors that
 * are transposed are read in tiles, some of their bytes several times; packed ones are not compared
 * then.
 *
 * PAWL_EDAMAGED and other failures of reading end it; what was told until then holds, and the
 * result is not filled.
 */
PAWL_API pawl_status pawl_checkpoint_diff(pawl_checkpoint *a, pawl_checkpoint *b,
                                          const pawl_diff_options *options,
                                          pawl_diff_result *result, pawl_error *err)
    PAWL_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
