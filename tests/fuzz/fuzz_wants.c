/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What rank 0 answers when ranks compare what they want: any bytes as its answers, one after
 * another. The faults that are taken from them lie within the entries, ascending, each once.
 */
#include "who.h"

#include "ranks/meet.h"
#include "restore/restore.h"

#define ENTRIES 300u

/* Rank 0: says the input, a part at each meeting. */
typedef struct zero {
    fuzz_bytes in;
    buffer told; /* of the present meeting */
    unsigned broadcasts;
    uint64_t number;
    bool failed; /* the other rank came with a failure: that is the answer */
} zero;

static int gather(void *context, const void *mine, size_t n, void *all, unsigned char *came,
                  double deadline_s) {
    zero *z = context;
    pawl_error err = ERROR_INIT;
    meet_envelope card;
    (void)all;
    (void)came;
    (void)deadline_s;
    FUZZ_CHECK(meet_envelope_decode(mine, n, &card, &err) == PAWL_OK && card.rank == 1);
    z->failed = card.card.status != PAWL_OK;
    return 0;
}

/* The next part: its length, then so many bytes as the body. */
static void tell_next(zero *z) {
    pawl_error err = ERROR_INIT;
    size_t n = fuzz_below(&z->in, 256);
    size_t left = z->in.size - z->in.at;
    n = n < left ? n : left;
    const meet_reply v = {.number = ++z->number,
                          .status = z->failed ? PAWL_EDAMAGED : PAWL_OK,
                          .body = n > 0 ? z->in.data + z->in.at : NULL,
                          .body_bytes = n};
    z->in.at += n;
    z->told.size = 0;
    FUZZ_CHECK(meet_reply_encode(&v, &z->told, &err) == PAWL_OK);
}

/* First the length of what is told, then that. */
static int broadcast(void *context, void *bytes, size_t n, double deadline_s) {
    zero *z = context;
    (void)deadline_s;
    if (z->broadcasts++ % 2 == 0) {
        tell_next(z);
        uint64_t length = UINT64_C(0x5057414c00000000) | z->told.size;
        FUZZ_CHECK(n == sizeof length);
        memcpy(bytes, &length, n);
    } else {
        FUZZ_CHECK(n == z->told.size);
        memcpy(bytes, z->told.data, n);
    }
    return 0;
}

static void check_faults(const match_job_faults *faults) {
    uint64_t end = 0;
    for (size_t i = 0; i < faults->count; i++) {
        const match_job_fault *f = &faults->items[i];
        FUZZ_CHECK(f->count > 0 && f->first >= end && f->first < ENTRIES);
        FUZZ_CHECK(f->count <= ENTRIES - f->first);
        FUZZ_CHECK(f->error >= MATCH_NOBODY && f->error <= MATCH_NOT_WHOLE);
        FUZZ_CHECK(utf8_valid(f->lacking, strlen(f->lacking)));
        FUZZ_CHECK(utf8_valid(f->holding, strlen(f->holding)));
        end = f->first + f->count;
    }
}

static void compare(job_ranks *ranks, pawl_error *err) {
    static match_stance stances[ENTRIES];
    const match_result match = {.stances = stances, .stance_count = ENTRIES};
    pawl_error story = ERROR_INIT;
    match_job_faults faults = {.items = NULL};
    pawl_status own = PAWL_OK;
    pawl_status status = wants_compare(ranks, &match, &faults, &own, &story, err);
    FUZZ_CHECK(status == PAWL_OK || err->status == status);
    fuzz_accepted += status == PAWL_OK && own == PAWL_OK;
    if (own != PAWL_OK) {
        fuzz_check_refusal(&story, own);
    }
    check_faults(&faults);
    match_job_faults_free(&faults);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    zero z = {.in = {.data = data, .size = size}};
    who w;
    pawl_error err = ERROR_INIT;
    const pawl_group callbacks = {.struct_size = sizeof callbacks,
                                  .rank = 1,
                                  .world_size = 2,
                                  .context = &z,
                                  .gather = gather,
                                  .broadcast = broadcast};
    rank_group *group;
    job_ranks *ranks;
    who_init(&w);
    FUZZ_CHECK(group_new(&callbacks, &group, &err) == PAWL_OK);
    FUZZ_CHECK(ranks_new(group, &w.table, &ranks, &err) == PAWL_OK);
    ranks->timeout_s = 10;
    compare(ranks, &err);
    ranks_free(ranks);
    buffer_free(&z.told);
    return 0;
}
