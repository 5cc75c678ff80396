/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all ranks together want of a checkpoint that is restored. Ranks that hold different tensors
 * each lack what the others hold: an entry is unexpected where no rank wants it; where some have it
 * as what all ranks must have alike, and one has not; and where those that hold it want less than
 * all of it.
 *
 * The ranks go through the entries in the order of the index, by meetings. Each hands in runs of
 * entries that are alike to it, from one place on, as many as fit a card; rank 0 judges as far as
 * all cards reach, and answers where that is and what is wrong up to there. A stage of a pipeline
 * holds few runs of names, so one meeting does for most jobs; at worst each takes some hundred
 * entries. Rank 0 keeps nothing but the cards.
 *
 *   card:    u64le entries, u64le first, and runs: varint(entries << 2 | want);
 *            HOLDS: varint copies, varint n: a n-th of its elements; 0: varint elements, one entry
 *   answer:  u64le end, and faults: varint distance from the one before, varint entries, u8 error,
 *            text lacking, text holding
 */
#include "ranks/wire.h"
#include "restore/restore.h"

#include <string.h>

#define CARD_BYTES     (MEET_MAX_MINE)
#define MOST_RUN_BYTES 40u        /* four varints */
#define ENOUGH_BYTES   (1u << 20) /* of an answer: the rest comes with the next */
#define RANKS_TEXT     100u

/* Entries that are alike to a rank. */
typedef struct wants_run {
    uint64_t count;
    match_want want;
    uint64_t copies, part, held; /* HOLDS: 1/part of all elements; part 0: `held` of them */
} wants_run;

/* ---- runs ----------------------------------------------------------------------------------- */

static wants_run want_run_of(const match_stance *s) {
    wants_run r = {.count = 1, .want = s->want};
    if (s->want == MATCH_HOLDS) {
        r.copies = (uint64_t)s->copies;
        r.part = s->held > 0 && s->elements % s->held == 0 ? s->elements / s->held : 0;
        r.held = r.part == 0 ? s->held : 0;
    }
    return r;
}

static bool same_want(const wants_run *a, const wants_run *b) {
    bool single = a->want == MATCH_HOLDS && a->part == 0;
    return !single && a->want == b->want && a->copies == b->copies && a->part == b->part;
}

static wants_run want_run_from(const match_result *match, uint64_t first) {
    wants_run r = want_run_of(&match->stances[first]);
    for (uint64_t i = first + 1; i < match->stance_count; i++) {
        wants_run next = want_run_of(&match->stances[i]);
        if (!same_want(&r, &next)) {
            break;
        }
        r.count++;
    }
    return r;
}

static pawl_status put_run(const wants_run *r, buffer *out, pawl_error *err) {
    TRY(buffer_varint(out, r->count << 2 | (uint64_t)r->want, err));
    if (r->want != MATCH_HOLDS) {
        return PAWL_OK;
    }
    TRY(buffer_varint(out, r->copies, err));
    TRY(buffer_varint(out, r->part, err));
    return r->part == 0 ? buffer_varint(out, r->held, err) : PAWL_OK;
}

static pawl_status take_run(cursor *c, wants_run *out, pawl_error *err) {
    uint64_t head = 0;
    TRY(cursor_varint64(c, &head, err));
    *out = (wants_run){.count = head >> 2, .want = (match_want)(head & 3)};
    if (out->want == MATCH_HOLDS) {
        TRY(cursor_varint64(c, &out->copies, err));
        TRY(cursor_varint64(c, &out->part, err));
        TRY(out->part == 0 ? cursor_varint64(c, &out->held, err) : PAWL_OK);
    }
    bool whole =
        out->want != MATCH_HOLDS || (out->copies > 0 && (out->part > 0 || out->count == 1));
    return out->count > 0 && whole ? PAWL_OK
                                   : wire_damaged(c, "a run of entries is out of range", err);
}

static pawl_status put_card(const match_result *match, uint64_t first, buffer *out,
                            pawl_error *err) {
    out->size = 0;
    TRY(buffer_u64le(out, match->stance_count, err));
    TRY(buffer_u64le(out, first, err));
    while (first < match->stance_count && out->size + MOST_RUN_BYTES <= CARD_BYTES) {
        const wants_run r = want_run_from(match, first);
        TRY(put_run(&r, out, err));
        first += r.count;
    }
    return PAWL_OK;
}

/* ---- rank 0 --------------------------------------------------------------------------------- */

/* A card that is being read. */
typedef struct wants_reader {
    cursor at;
    wants_run run; /* what is left of it */
} wants_reader;

typedef struct wants_judge {
    job_ranks *ranks;
    const match_result *match;
    uint64_t place, reported; /* entries judged; the end of the last fault */
    wants_reader *readers;    /* by rank */
    unsigned char *chosen;
    buffer *answer;
} wants_judge;

static pawl_status other_checkpoint(const wants_judge *j, int rank, uint64_t entries,
                                    pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "the ranks do not see the same checkpoint");
    error_expected(err, "%zu %s, as on rank 0", j->match->stance_count,
                   text_noun(j->match->stance_count, "entry", "entries"));
    error_found(err, "%llu on rank %d", (unsigned long long)entries, rank);
    error_safe(err, "nothing was read into any state");
    error_next(err, "find out with pawl doctor, on all ranks, whether they see one directory");
    return PAWL_EDAMAGED;
}

static pawl_status begin_reading(wants_judge *j, const meet_card *cards, pawl_error *err) {
    for (int r = 0; r < j->ranks->world_size; r++) {
        cursor *c = &j->readers[r].at;
        uint64_t entries = 0;
        uint64_t first = 0;
        *c = cursor_of(cards[r].bytes, cards[r].n, 0, "card of a rank that restores");
        TRY(cursor_u64le(c, &entries, err));
        TRY(cursor_u64le(c, &first, err));
        if (entries != j->match->stance_count) {
            return other_checkpoint(j, r, entries, err);
        }
        if (first != j->place) {
            return wire_damaged(c, "it does not begin at the entry that is next", err);
        }
    }
    return PAWL_OK;
}

/* How many entries are alike to each rank from here on; 0: a card ends here. */
static pawl_status next_stretch(wants_judge *j, uint64_t *out, pawl_error *err) {
    uint64_t entries = j->match->stance_count - j->place;
    for (int r = 0; r < j->ranks->world_size && entries > 0; r++) {
        wants_reader *reader = &j->readers[r];
        if (reader->run.count == 0 && cursor_left(&reader->at) > 0) {
            TRY(take_run(&reader->at, &reader->run, err));
        }
        entries = reader->run.count < entries ? reader->run.count : entries;
    }
    *out = entries;
    return PAWL_OK;
}

static const char *ranks_that(const wants_judge *j, bool lack, char out[RANKS_TEXT]) {
    for (int r = 0; r < j->ranks->world_size; r++) {
        match_want want = j->readers[r].run.want;
        j->chosen[r] = lack ? want == MATCH_LACKS : want == MATCH_HOLDS || want == MATCH_SHARES;
    }
    return group_ranks_text(out, RANKS_TEXT, j->chosen, j->ranks->world_size);
}

static pawl_status put_fault(wants_judge *j, uint64_t entries, match_job_error error,
                             pawl_error *err) {
    char lacking[RANKS_TEXT] = "";
    char holding[RANKS_TEXT] = "";
    if (error != MATCH_NOBODY) {
        ranks_that(j, true, lacking);
        ranks_that(j, false, holding);
    }
    TRY(buffer_varint(j->answer, j->place - j->reported, err));
    TRY(buffer_varint(j->answer, entries, err));
    TRY(buffer_append(j->answer, &(const uint8_t){(uint8_t)error}, 1, err));
    TRY(wire_put_text(j->answer, lacking, RANKS_TEXT - 1, err));
    TRY(wire_put_text(j->answer, holding, RANKS_TEXT - 1, err));
    j->reported = j->place + entries;
    return PAWL_OK;
}

/* The parts are the same fractions of each entry in the stretch: what holds for the first holds for
 * all. Overlapping parts of ranks that declare no copies may make up for one that is not there. */
static bool wanted_whole(const wants_judge *j) {
    uint64_t elements = j->match->stances[j->place].elements;
    uint64_t copies = 1;
    uint64_t held = 0;
    uint64_t all;
    for (int r = 0; r < j->ranks->world_size; r++) {
        const wants_run *run = &j->readers[r].run;
        if (run->want == MATCH_HOLDS) {
            uint64_t part = run->part > 0 ? elements / run->part : run->held;
            copies = run->copies > copies ? run->copies : copies;
            held = add_overflows(held, part, &held) ? UINT64_MAX : held;
        }
    }
    return !multiply_overflows(elements, copies, &all) && held >= all;
}

static pawl_status judge_stretch(wants_judge *j, uint64_t entries, pawl_error *err) {
    int count[MATCH_SHARES + 1] = {0};
    for (int r = 0; r < j->ranks->world_size; r++) {
        count[j->readers[r].run.want]++;
    }
    if (count[MATCH_LACKS] == 0) {
        return PAWL_OK;
    }
    if (count[MATCH_SHARES] > 0) {
        return put_fault(j, entries, MATCH_NOT_ALL, err);
    }
    if (count[MATCH_HOLDS] == 0) {
        return put_fault(j, entries, MATCH_NOBODY, err);
    }
    return wanted_whole(j) ? PAWL_OK : put_fault(j, entries, MATCH_NOT_WHOLE, err);
}

static pawl_status judge_cards(wants_judge *j, const meet_card *cards, pawl_error *err) {
    uint64_t entries = 0;
    TRY(begin_reading(j, cards, err));
    TRY(buffer_u64le(j->answer, 0, err)); /* the end, once it is known */
    TRY(next_stretch(j, &entries, err));
    while (entries > 0 && j->answer->size < ENOUGH_BYTES) {
        TRY(judge_stretch(j, entries, err));
        for (int r = 0; r < j->ranks->world_size; r++) {
            j->readers[r].run.count -= entries;
        }
        j->place += entries;
        TRY(next_stretch(j, &entries, err));
    }
    for (size_t i = 0; i < sizeof j->place; i++) {
        j->answer->data[i] = (uint8_t)(j->place >> 8 * i);
    }
    return PAWL_OK;
}

/* One comparison, on any rank. */
typedef struct wants_walk {
    const match_result *match;
    uint64_t place;
    match_job_faults *out;
} wants_walk;

static pawl_status judge_wants(void *context, job_ranks *ranks, const meet_card *cards,
                               buffer *answer, pawl_error *err) {
    const wants_walk *walk = context;
    wants_judge j = {.ranks = ranks,
                     .match = walk->match,
                     .place = walk->place,
                     .reported = walk->place,
                     .answer = answer};
    TRY(ranks_failed(ranks, cards, err));
    size_t n = (size_t)ranks->world_size;
    AUTOFREE wants_reader *readers = mem_calloc(n, sizeof *readers);
    AUTOFREE unsigned char *chosen = mem_calloc(n, 1);
    if (readers == NULL || chosen == NULL) {
        return error_nomem(err, n * sizeof *readers);
    }
    j.readers = readers;
    j.chosen = chosen;
    return judge_cards(&j, cards, err);
}

/* ---- every rank ----------------------------------------------------------------------------- */

/* The next fault from *at on; all of them end before `end`. */
static pawl_status take_fault(cursor *c, uint64_t *at, uint64_t end, match_job_faults *out,
                              pawl_error *err) {
    char lacking[RANKS_TEXT];
    char holding[RANKS_TEXT];
    uint64_t distance = 0;
    uint8_t error = 0;
    match_job_fault fault = {.lacking = lacking, .holding = holding};
    TRY(cursor_varint64(c, &distance, err));
    TRY(cursor_varint64(c, &fault.count, err));
    TRY(cursor_u8(c, &error, err));
    TRY(wire_take_text(c, lacking, sizeof lacking, err));
    TRY(wire_take_text(c, holding, sizeof holding, err));
    if (error < MATCH_NOBODY || error > MATCH_NOT_WHOLE) {
        return wire_damaged(c, "unknown kind of fault", err);
    }
    uint64_t left = end - *at;
    if (distance > left || fault.count == 0 || fault.count > left - distance) {
        return wire_damaged(c, "a fault lies beyond its end", err);
    }
    fault.first = *at + distance;
    fault.error = (match_job_error)error;
    *at = fault.first + fault.count;
    return match_job_fault_add(out, &fault, err);
}

static pawl_status take_wants_answer(wants_walk *walk, const buffer *answer, pawl_error *err) {
    cursor c = cursor_of(answer->data, answer->size, 0, "answer of rank 0");
    uint64_t at = walk->place;
    uint64_t end = 0;
    TRY(cursor_u64le(&c, &end, err));
    if (end <= walk->place || end > walk->match->stance_count) {
        return wire_damaged(&c, "its end is out of range", err);
    }
    walk->place = end;
    while (cursor_left(&c) > 0) {
        TRY(take_fault(&c, &at, end, walk->out, err));
    }
    return PAWL_OK;
}

pawl_status wants_compare(job_ranks *ranks, const match_result *match, match_job_faults *out,
                          pawl_status *own, pawl_error *failed, pawl_error *err) {
    CLEANUP(buffer_free) buffer mine = {0};
    CLEANUP(buffer_free) buffer answer = {0};
    wants_walk walk = {.match = match, .out = out};
    *own = PAWL_OK;
    while (walk.place < match->stance_count) {
        *own = *own == PAWL_OK ? put_card(match, walk.place, &mine, failed) : *own;
        const meeting m = {.what = "restore: entries",
                           .status = *own,
                           .failed = failed,
                           .mine = mine.data,
                           .mine_bytes = *own == PAWL_OK ? mine.size : 0,
                           .judge = judge_wants,
                           .context = &walk};
        TRY(ranks_meet(ranks, &m, &answer, err));
        *own = take_wants_answer(&walk, &answer, failed);
    }
    return PAWL_OK;
}

/* ---- without a comparison ------------------------------------------------------------------- */

/* The next run of entries that this rank lacks, from *first on; false: there is none. */
static bool next_lacking(const match_result *match, uint64_t *first, uint64_t *count) {
    uint64_t i = *first;
    while (i < match->stance_count && match->stances[i].want != MATCH_LACKS) {
        i++;
    }
    *first = i;
    while (i < match->stance_count && match->stances[i].want == MATCH_LACKS) {
        i++;
    }
    *count = i - *first;
    return *count > 0;
}

pawl_status wants_head_make(const match_result *match, wants_head *out, pawl_error *err) {
    CLEANUP(buffer_free) buffer runs = {0};
    uint64_t first = 0;
    uint64_t count = 0;
    for (; next_lacking(match, &first, &count); first += count) {
        TRY(buffer_u64le(&runs, first, err));
        TRY(buffer_u64le(&runs, count, err));
    }
    *out = (wants_head){.entries = match->stance_count,
                        .lacking = match->lacking,
                        .sum = crc32c(0, runs.data, runs.size)};
    return PAWL_OK;
}

pawl_status wants_nobody(const match_result *match, match_job_faults *out, pawl_error *err) {
    match_job_fault fault = {.error = MATCH_NOBODY, .lacking = "", .holding = ""};
    for (; next_lacking(match, &fault.first, &fault.count); fault.first += fault.count) {
        TRY(match_job_fault_add(out, &fault, err));
    }
    return PAWL_OK;
}
