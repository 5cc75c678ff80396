/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the other rank of two says at meetings, as the input has it: notes and news of pawl_meet,
 * requests and decisions of a restore, cards of a comparison. Each is taken, or refused in words;
 * and the faults of a comparison lie within the entries, each once, ascending.
 */
#include "who.h"

#include "lib/simulated_platform.h"
#include "ranks/meet.h"
#include "restore/restore.h"
#include "run/private.h"

#define ENTRIES    40u
#define NOTE_BYTES 256u /* ranks/notes.c */
#define PARTS      64   /* after so many the other rank fails */
#define ROUNDS     4    /* and of a restore, each of which looks for a checkpoint */

/* The rank that is not tested. */
typedef struct other {
    fuzz_bytes in;
    bool notes;  /* it is asked by pawl_meet */
    bool failed; /* from now on; it does not care how the tested rank came */
    unsigned parts;
    buffer told; /* the verdict that is being broadcast */
    bool telling;
    uint64_t number; /* of the meeting */
} other;

/* The next part of the input: a byte with its length, and that. */
static size_t next_part(other *o, const uint8_t **part) {
    size_t n = fuzz_below(&o->in, 256);
    size_t left = o->in.size - o->in.at;
    n = n < left ? n : left;
    *part = n > 0 ? o->in.data + o->in.at : NULL;
    o->in.at += n;
    o->failed = o->failed || fuzz_done(&o->in) || ++o->parts > PARTS;
    return n;
}

/* Bytes of a note or of news: what begins like one, mostly. */
static void make_news(other *o, uint8_t *to, uint32_t magic) {
    const uint8_t *part;
    size_t n = next_part(o, &part);
    bool honest = n == 0 || part[0] % 4 != 0;
    memset(to, 0, NOTE_BYTES);
    if (n > 0) {
        memcpy(to + 12, part, n < NOTE_BYTES - 12 ? n : NOTE_BYTES - 12);
    }
    for (int i = 0; i < 4 && honest; i++) {
        to[i] = (uint8_t)(magic >> 8 * i);
    }
    to[4] = honest ? 1 : to[4]; /* the number of the call */
}

/* A card of the same meeting, with the part in it. */
static void make_card(other *o, const void *mine, size_t n, uint8_t *to) {
    CLEANUP(buffer_free) buffer card = {.data = NULL};
    pawl_error err = ERROR_INIT, failed = ERROR_INIT;
    meet_envelope envelope;
    const uint8_t *part;
    FUZZ_CHECK(meet_envelope_decode(mine, n, &envelope, &err) == PAWL_OK);
    job_ranks ranks = {.rank = 1, .world_size = 2, .met = envelope.number, .self = envelope.who};
    size_t bytes = next_part(o, &part);
    bool fails = o->failed;
    (void)error_set(&failed, PAWL_EDAMAGED, "it is over");
    const meeting m = {.what = envelope.what,
                       .mine = part,
                       .mine_bytes = bytes,
                       .status = fails ? PAWL_EDAMAGED : PAWL_OK,
                       .failed = &failed};
    FUZZ_CHECK(meet_envelope_make(&ranks, &m, &card, &err) == PAWL_OK && card.size == n);
    memcpy(to, card.data, n);
}

static int gather(void *context, const void *mine, size_t n, void *all, unsigned char *came,
                  double deadline_s) {
    other *o = context;
    pawl_error err = ERROR_INIT;
    meet_envelope envelope;
    (void)deadline_s;
    if (all != NULL) {
        came[0] = came[1] = 1;
        if (o->notes) {
            make_news(o, (uint8_t *)all + n, 0x314e5250u);
        } else {
            make_card(o, mine, n, (uint8_t *)all + n);
        }
    } else if (!o->notes) {
        FUZZ_CHECK(meet_envelope_decode(mine, n, &envelope, &err) == PAWL_OK);
        o->number = envelope.number;
    }
    return 0;
}

static void make_verdict(other *o) {
    pawl_error err = ERROR_INIT;
    const uint8_t *part;
    size_t n = next_part(o, &part);
    const meet_reply v = {.number = o->number,
                          .status = o->failed ? PAWL_EDAMAGED : PAWL_OK,
                          .body = part,
                          .body_bytes = n};
    o->told.size = 0;
    FUZZ_CHECK(meet_reply_encode(&v, &o->told, &err) == PAWL_OK);
}

/* To rank 1: first how long the verdict is, then the verdict. */
static int tell(void *context, void *bytes, size_t n, double deadline_s) {
    other *o = context;
    (void)deadline_s;
    if (o->notes) {
        make_news(o, bytes, 0x32575250u);
        return 0;
    }
    o->telling = !o->telling;
    if (o->telling) {
        make_verdict(o);
        uint64_t length = UINT64_C(0x5057414c00000000) | o->told.size;
        memcpy(bytes, &length, n);
    } else {
        FUZZ_CHECK(n == o->told.size);
        memcpy(bytes, o->told.data, n);
    }
    return 0;
}

static int hear(void *context, void *bytes, size_t n, double deadline_s) {
    (void)context;
    (void)bytes;
    (void)n;
    (void)deadline_s;
    return 0;
}

/* ---- what is asked -------------------------------------------------------------------------- */

static pawl_status restore(pawl_run *run, pawl_error *err) {
    pawl_state *state = NULL;
    pawl_report *report = NULL;
    run->store = who_store();
    run->ranks->store = run->store;
    FUZZ_CHECK(state_new(&state, err) == PAWL_OK);
    FUZZ_CHECK(state_set_value(state, "step", PAWL_KIND_STRING, PAWL_ROLE_OTHER, false, "now", 3,
                               err) == PAWL_OK);
    pawl_status status = run_restore(run, state, NULL, &report, err);
    FUZZ_CHECK(status != PAWL_OK); /* there is no checkpoint */
    pawl_report_free(report);
    state_free(state);
    return status;
}

static void check_faults(const match_job_faults *faults) {
    uint64_t end = 0;
    for (size_t i = 0; i < faults->count; i++) {
        const match_job_fault *f = &faults->items[i];
        FUZZ_CHECK(f->count > 0 && f->first >= end && f->first < ENTRIES);
        FUZZ_CHECK(f->count <= ENTRIES - f->first);
        end = f->first + f->count;
    }
}

static pawl_status compare(pawl_run *run, pawl_error *err) {
    match_stance stances[ENTRIES];
    const match_result match = {.stances = stances, .stance_count = ENTRIES};
    pawl_error story = ERROR_INIT;
    match_job_faults faults = {.items = NULL};
    pawl_status own = PAWL_OK;
    for (unsigned i = 0; i < ENTRIES; i++) {
        stances[i] = (match_stance){
            .want = (match_want)(i / 7 % 4), .copies = 1, .held = 3, .elements = 6 + i % 2};
    }
    pawl_status status = wants_compare(run->ranks, &match, &faults, &own, &story, err);
    check_faults(&faults);
    match_job_faults_free(&faults);
    return status == PAWL_OK ? own : status;
}

static pawl_status ask(pawl_run *run, unsigned what, pawl_error *err) {
    switch (what) {
    case 0:
        return notes_exchange(run->ranks, 10, err);
    case 1:
        return restore(run, err);
    default:
        return compare(run, err);
    }
}

/* Made once. */
static engine *idle_engine(simulated_platform *os) {
    static engine *kept;
    pawl_error err = ERROR_INIT;
    const engine_options options = {.platform = &os->table, .budget_bytes = ENGINE_MIN_BUDGET};
    if (kept == NULL) {
        FUZZ_CHECK(engine_new(&options, &kept, &err) == PAWL_OK);
    }
    return kept;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    other o = {.in = {.data = data, .size = size}};
    static simulated_platform os;
    pawl_error err = ERROR_INIT;
    unsigned what = fuzz_below(&o.in, 6);
    int rank = (int)(what / 3);
    const pawl_group callbacks = {.struct_size = sizeof callbacks,
                                  .rank = rank,
                                  .world_size = 2,
                                  .context = &o,
                                  .gather = gather,
                                  .broadcast = rank == 0 ? hear : tell};
    rank_group *group;
    simulated_platform_init(&os, 1);
    pawl_run run = {
        .platform = &os.table, .engine = idle_engine(&os), .timeout_s = 10, .newest_step = -1};
    o.notes = what % 3 == 0;
    o.parts = what % 3 == 1 ? PARTS - ROUNDS : 0;
    FUZZ_CHECK(group_new(&callbacks, &group, &err) == PAWL_OK);
    FUZZ_CHECK(ranks_new(group, &os.table, &run.ranks, &err) == PAWL_OK);
    run.ranks->timeout_s = 10;
    pawl_status status = ask(&run, what % 3, &err);
    FUZZ_CHECK(status == PAWL_OK || status == PAWL_EDAMAGED || err.attempt[0] != '\0');
    fuzz_accepted += status == PAWL_OK;
    ranks_free(run.ranks);
    buffer_free(&o.told);
    return 0;
}
