/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rules: what a lagging filesystem does to which operations. A rule names an operation and a piece
 * of a path; of the operations that fit it, it lets some pass, spoils the next ones, and is over.
 * Any thread may ask and change them.
 */
#ifndef LAG_RULES_H
#define LAG_RULES_H

#include <stdbool.h>
#include <stdint.h>

typedef enum operation {
    OP_LOOK, /* what a name stands for: the kernel asks before it opens, renames, removes */
    OP_STAT, /* of an open file */
    OP_OPEN,
    OP_CREATE,
    OP_READ,
    OP_WRITE,
    OP_SYNC,
    OP_SYNCDIR,
    OP_CLOSE,
    OP_LIST, /* a whole directory */
    OP_NAME, /* one name in a listing: the path is that of what it names */
    OP_RENAME,
    OP_UNLINK,
    OP_MKDIR,
    OP_RMDIR,
    OP_TRUNCATE,
    OP_ALLOCATE,
    OP_COUNT
} operation;

typedef enum effect {
    EFFECT_NONE,
    EFFECT_FAIL, /* answers the error, and is not done */
    EFFECT_LOSE, /* is done, and answers the error */
    EFFECT_LATE, /* answers the error, and is done so much later */
    EFFECT_SLOW, /* is done so much later, and answered then */
    EFFECT_MISS, /* of OP_NAME: the listing does not show it */
    EFFECT_COUNT
} effect;

#define RULES_MAX      32
#define RULES_MAX_TEXT 128

typedef struct rule {
    operation op;
    char text[RULES_MAX_TEXT]; /* is found in the path, which begins below the mount */
    effect effect;
    int error;
    uint64_t first; /* the first that is spoiled, from 1 on */
    uint64_t count; /* so many are */
    int64_t delay_ms;
    uint64_t fitted; /* operations so far */
} rule;

typedef struct rules rules;

rules *rules_new(void);
void rules_free(rules *all);

/* From "OP TEXT EFFECT ERROR FIRST COUNT DELAY_MS"; false when the line is none, or there are
 * RULES_MAX already. */
bool rules_add(rules *all, const char *line);
void rules_clear(rules *all);
/* Operations that were spoiled since the rules were cleared. */
uint64_t rules_hits(rules *all);

typedef struct verdict {
    effect effect;
    int error;
    int64_t delay_ms;
} verdict;

/* The first rule that spoils this operation decides; all that fit it count it. */
verdict rules_judge(rules *all, operation op, const char *path);

#endif
