/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Do all ranks see the same directory (P04 to P06)? Rank 0 writes a token; every other rank looks
 * for it where the path leads on its host, and writes a card beside it. The run need not exist;
 * nothing stays.
 *
 * With callbacks the ranks hear the token's nonce from rank 0, and then hold a meeting: each brings
 * what it sees, rank 0 judges, all hear how bad it is. Without callbacks what a rank sees is in its
 * card, and the end is told by removing the token. That is no meeting of src/ranks: the answer of a
 * meeting is a file that has to stay until the last rank has read it, and a rank whose card is gone
 * writes it again; but here no file may be left, whoever is late or killed.
 */
#include "doctor/examination.h"
#include "doctor/token.h"

#include "store/mount_table.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MOST_FINDING_S 10.0 /* to find a token that is known to be there */

typedef struct joint_examination {
    examination *x;
    job_ranks *ranks;
    store *s; /* of the nearest directory; NULL: it could not be opened */
    token token;
    sight mine;
    uint64_t deadline_ns; /* rank 0: for the others' cards; the others: for rank 0 to take theirs */
    sight *of;            /* on rank 0: by rank, what they see */
    unsigned char *came;  /* and whose sight is there */
} joint_examination;

/* ---- what this rank sees -------------------------------------------------------------------- */

static void copy_cut(char *to, size_t size, const char *from) {
    (void)snprintf(to, size, "%s", from);
    if (strlen(from) >= size) {
        text_cut(to, size);
    }
}

static void fill_sight(joint_examination *j, bool whole) {
    const examination *x = j->x;
    mount_found mount;
    char here[4096];
    sight *m = &j->mine;
    copy_cut(m->host, sizeof(m->host), j->ranks->self.host);
    m->pid = j->ranks->self.pid;
    copy_cut(m->given, sizeof(m->given), x->path);
    copy_cut(m->here, sizeof(m->here), getcwd(here, sizeof(here)) != NULL ? here : "");
    copy_cut(m->place, sizeof(m->place), x->place);
    m->whole = whole;
    if (j->s != NULL) {
        copy_cut(m->nearest, sizeof(m->nearest), j->s->root);
        if (mount_find_path(j->s->root, &mount)) {
            copy_cut(m->filesystem, sizeof(m->filesystem), mount.filesystem);
            copy_cut(m->point, sizeof(m->point), mount.point);
            copy_cut(m->source, sizeof(m->source), mount.source);
        }
    }
    copy_cut(m->trouble_id, sizeof(m->trouble_id), x->first_error_id);
    copy_cut(m->trouble, sizeof(m->trouble), x->first_error);
}

/* Ranks with callbacks need no launch in common, but all of them know the nonce. */
static void set_key(joint_examination *j) {
    (void)snprintf(j->token.key, sizeof(j->token.key), "%.12s",
                   j->ranks->group->connected ? j->token.nonce : j->ranks->key);
}

/* ---- the meeting ---------------------------------------------------------------------------- */

static void tell_judged(void *context, const char *id, pawl_severity severity, const char *next,
                        const char *text) {
    doctor_tell(context, id, severity, next, "%s", text);
}

static void judge_sights(joint_examination *j) {
    const sights all = {.of = j->of,
                        .came = j->came,
                        .world_size = j->ranks->world_size,
                        .waited_s = j->x->deadline_s};
    sights_judge(&all, tell_judged, j->x);
}

/* Of a meeting: the answer is the most severe finding of rank 0, as one byte. */
static pawl_status judge_sight_cards(void *context, job_ranks *ranks, const meet_card *cards,
                                     buffer *answer, pawl_error *err) {
    joint_examination *j = context;
    for (int r = 0; r < ranks->world_size; r++) {
        struct pawl_error ignored = ERROR_INIT;
        j->came[r] = cards[r].came &&
                     sight_decode(cards[r].bytes, cards[r].n, &j->of[r], &ignored) == PAWL_OK;
    }
    judge_sights(j);
    return buffer_append(answer, &(const uint8_t){(uint8_t)j->x->worst}, 1, err);
}

/* All end alike: with what is worst on rank 0, or on this rank. */
static pawl_status meet_about_sights(joint_examination *j, pawl_error *err) {
    CLEANUP(buffer_free) buffer mine = {0};
    CLEANUP(buffer_free) buffer answer = {0};
    TRY(sight_encode(&j->mine, &mine, err));
    const meeting m = {.what = "doctor",
                       .mine = mine.data,
                       .mine_bytes = mine.size,
                       .judge = judge_sight_cards,
                       .judge_missing = true,
                       .context = j};
    TRY(ranks_meet(j->ranks, &m, &answer, err));
    if (answer.size != 1 || answer.data[0] > PAWL_SEVERITY_ERROR) {
        return error_set(err, PAWL_EDAMAGED, "rank 0 told a severity that does not exist");
    }
    pawl_severity worst = (pawl_severity)answer.data[0];
    j->x->worst = worst > j->x->worst ? worst : j->x->worst;
    return PAWL_OK;
}

/* ---- rank 0 --------------------------------------------------------------------------------- */

/* Without a token there is nothing to look for, which the others hear as a nonce without digits. */
static pawl_status collect_by_callbacks(joint_examination *j, pawl_error *err) {
    char nonce[TOKEN_NONCE_BYTES] = {0};
    if (j->mine.wrote) {
        memcpy(nonce, j->token.nonce, sizeof(nonce));
    }
    TRY(group_broadcast(j->ranks->group, nonce, sizeof(nonce), j->x->deadline_s, err));
    return meet_about_sights(j, err);
}

static void collect_by_files(joint_examination *j) {
    int world_size = j->ranks->world_size;
    ranks_pause pause = {0};
    bool late = false;
    j->of[0] = j->mine;
    j->came[0] = 1;
    while (token_take_cards(j->s, &j->token, world_size, j->of, j->came) > 0 && !late) {
        ranks_sleep(j->ranks, &pause, j->deadline_ns);
        late = platform_late(j->ranks->platform, j->deadline_ns); /* then one more look */
    }
}

static pawl_status examine_on_rank_0(joint_examination *j, pawl_error *err) {
    struct pawl_error ignored = ERROR_INIT;
    size_t n = (size_t)j->ranks->world_size;
    bool connected = j->ranks->group->connected;
    AUTOFREE sight *of = j->of = mem_calloc(n, sizeof(*of));
    AUTOFREE unsigned char *came = j->came = mem_calloc(n, 1);
    if (of == NULL || came == NULL) {
        return error_nomem(err, n * (sizeof(*of) + 1));
    }
    TRY(platform_random_hex(j->x->os, j->token.nonce, TOKEN_NONCE_BYTES / 2, err));
    set_key(j);
    j->mine.wrote = j->s != NULL && token_write(j->s, &j->token, &ignored) == PAWL_OK;
    j->mine.saw = j->mine.wrote;
    pawl_status status = PAWL_OK;
    if (connected) {
        status = collect_by_callbacks(j, err);
    } else if (j->mine.wrote) {
        collect_by_files(j);
    }
    if (j->s != NULL) { /* without callbacks the others wait for this */
        token_remove(j->s, &j->token, j->ranks->world_size);
    }
    if (!connected && j->mine.wrote) {
        judge_sights(j);
    }
    return status;
}

/* ---- the other ranks ------------------------------------------------------------------------ */

static void tell_token_not_found(joint_examination *j) {
    char waited[32];
    const sight *m = &j->mine;
    if (j->s == NULL) {
        doctor_tell(j->x, "P06", PAWL_SEVERITY_ERROR, NULL,
                    "rank %d of %d (host %s) cannot look for what rank 0 wrote: the path cannot be "
                    "opened here",
                    j->ranks->rank, j->ranks->world_size, m->host);
        return;
    }
    doctor_tell(j->x, "P06", PAWL_SEVERITY_ERROR,
                "if rank 0 was started, it sees another directory: mount the same storage on all "
                "hosts, or give all containers the same volume",
                "rank %d of %d (host %s) found nothing of rank 0 at %s, or above it, within %s: "
                "here %s is on %s (mounted at %s)",
                j->ranks->rank, j->ranks->world_size, m->host, m->place,
                text_seconds(waited, j->x->deadline_s), m->nearest, m->filesystem, m->point);
}

static void tell_rank_0_heard(joint_examination *j) {
    doctor_tell(j->x, "ok", PAWL_SEVERITY_NOTE, NULL, "rank 0 tells what all %d ranks see",
                j->ranks->world_size);
}

/* NULL: the token was not found within so many seconds. */
static store *find_token(joint_examination *j, double timeout_s) {
    store *found = NULL;
    ranks_pause pause = {0};
    uint64_t deadline_ns = platform_deadline_ns(j->ranks->platform, timeout_s);
    bool late = j->x->place[0] != '/';
    while (!late && !token_find(j->x->place, &j->token, &found)) {
        late = platform_late(j->ranks->platform, deadline_ns);
        ranks_sleep(j->ranks, &pause, deadline_ns);
    }
    return found;
}

/* Keeps the card there until rank 0 has removed its token. False: that did not happen. */
static bool hold_out_card(joint_examination *j, store *beside, pawl_error *err) {
    ranks_pause pause = {0};
    token answered = {.key = ""};
    pawl_status status = PAWL_OK;
    bool late = false;
    bool there = true;
    while (there && !late) {
        if (strcmp(answered.nonce, j->token.nonce) != 0) { /* another token took its place */
            answered = j->token;
            status = token_put_card(beside, &answered, j->ranks->rank, &j->mine, err);
        }
        if (status != PAWL_OK) {
            break;
        }
        ranks_sleep(j->ranks, &pause, j->deadline_ns);
        late = platform_late(j->ranks->platform, j->deadline_ns);
        there = token_read(beside, &j->token);
    }
    token_remove_card(beside, &answered, j->ranks->rank);
    if (status == PAWL_OK && there) {
        error_set(err, PAWL_EPEER, "rank 0 did not take what rank %d has to say", j->ranks->rank);
    }
    return !there;
}

static void report_by_files(joint_examination *j) {
    struct pawl_error story = ERROR_INIT;
    set_key(j);
    store *beside = find_token(j, j->x->deadline_s);
    if (beside == NULL) {
        tell_token_not_found(j);
        return;
    }
    j->mine.saw = true;
    j->mine.wrote = true;
    if (hold_out_card(j, beside, &story)) {
        tell_rank_0_heard(j);
    } else {
        doctor_tell_error(j->x, story.status == PAWL_EPEER ? "S11" : "P02", &story);
    }
    store_destroy(beside);
}

/* Is the token here, and can a card be written beside it? */
static void try_beside_token(joint_examination *j) {
    struct pawl_error ignored = ERROR_INIT;
    double third_s = j->x->deadline_s / 3;
    const token wanted = j->token;
    store *beside = find_token(j, third_s < MOST_FINDING_S ? third_s : MOST_FINDING_S);
    j->mine.saw = beside != NULL && strcmp(wanted.nonce, j->token.nonce) == 0;
    if (j->mine.saw) {
        j->mine.wrote =
            token_put_card(beside, &wanted, j->ranks->rank, &j->mine, &ignored) == PAWL_OK;
        token_remove_card(beside, &wanted, j->ranks->rank);
    }
    store_destroy(beside);
}

static pawl_status report_by_callbacks(joint_examination *j, pawl_error *err) {
    char *nonce = j->token.nonce; /* a NUL follows it already */
    TRY(group_broadcast(j->ranks->group, nonce, TOKEN_NONCE_BYTES, j->x->deadline_s, err));
    if (strspn(nonce, "0123456789abcdef") == TOKEN_NONCE_BYTES) {
        set_key(j);
        try_beside_token(j);
    }
    TRY(meet_about_sights(j, err));
    tell_rank_0_heard(j);
    return PAWL_OK;
}

/* Rank 0 waits for the others for three quarters of timeout_s: for deadline_s. */
static double meeting_timeout_s(const examination *x) {
    return x->deadline_s * (x->ranks->rank == 0 ? 4.0 / 3 : 2);
}

void doctor_examine_same_directory(examination *x, store *s, bool whole) {
    struct pawl_error story = ERROR_INIT;
    job_ranks *ranks = x->ranks;
    joint_examination j = {.x = x, .ranks = ranks, .s = s};
    j.deadline_ns =
        platform_deadline_ns(ranks->platform, x->deadline_s * (ranks->rank == 0 ? 1 : 2));
    ranks->timeout_s = meeting_timeout_s(x);
    fill_sight(&j, whole);
    pawl_status status = PAWL_OK;
    if (ranks->rank == 0) {
        status = examine_on_rank_0(&j, &story);
    } else if (ranks->group->connected) {
        status = report_by_callbacks(&j, &story);
    } else {
        report_by_files(&j);
    }
    if (status != PAWL_OK) {
        doctor_tell_error(x, "S11", &story);
    }
}
