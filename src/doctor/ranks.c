/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Do all ranks see the same directory (P04 to P06)? Rank 0 writes a token, every rank looks for it
 * in its own view and writes a card beside it. They tell each other what they see by the group's
 * callbacks, or by those cards. The run need not exist; nothing stays.
 */
#include "doctor/examination.h"
#include "doctor/token.h"
#include "path/path.h"

#include "store/mount_table.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FIRST_PAUSE_NS 5000000u
#define LAST_PAUSE_NS  500000000u
#define MOST_LOOK_S    10.0 /* for a token that is there, where the callbacks said so */

#define CARD_BYTES (sizeof(uint32_t) + SIGHT_BYTES) /* of a gather */

typedef struct party {
    examination *x;
    const rank_group *group;
    store *s; /* of the nearest directory; NULL: it could not be opened */
    token token;
    sight mine;
    uint64_t begun_ns;
} party;

/* ---- waiting -------------------------------------------------------------------------------- */

static uint64_t now_ns(const party *p) {
    return p->x->os->monotonic_ns(p->x->os->context);
}

/* Sleeps longer each time; false once so many seconds have passed since the beginning. */
static bool wait_more(const party *p, uint64_t since_ns, double most_s, uint64_t *pause_ns) {
    double left_s = most_s - (double)(now_ns(p) - since_ns) / NANOSECONDS;
    if (left_s <= 0) {
        return false;
    }
    uint64_t left_ns = (uint64_t)(left_s * NANOSECONDS);
    p->x->os->sleep_ns(p->x->os->context, *pause_ns < left_ns ? *pause_ns : left_ns + 1);
    *pause_ns = *pause_ns * 2 < LAST_PAUSE_NS ? *pause_ns * 2 : LAST_PAUSE_NS;
    return true;
}

/* ---- what this rank sees -------------------------------------------------------------------- */

static void copy(char *to, size_t size, const char *from) {
    (void)snprintf(to, size, "%s", from);
    if (strlen(from) >= size) {
        text_cut(to, size);
    }
}

static void look(party *p, bool whole) {
    const examination *x = p->x;
    struct pawl_error ignored = ERROR_INIT;
    process_identity self = {.pid = 0};
    mount_found mount;
    char here[4096];
    sight *m = &p->mine;
    if (x->os->identity(x->os->context, &self, &ignored) == PAWL_OK) {
        copy(m->host, sizeof(m->host), self.host);
        m->pid = self.pid;
    }
    copy(m->given, sizeof(m->given), x->path);
    copy(m->here, sizeof(m->here), getcwd(here, sizeof(here)) != NULL ? here : "");
    copy(m->place, sizeof(m->place), x->place);
    m->whole = whole;
    if (p->s != NULL) {
        copy(m->nearest, sizeof(m->nearest), p->s->root);
        if (mount_find_path(p->s->root, &mount)) {
            copy(m->filesystem, sizeof(m->filesystem), mount.filesystem);
            copy(m->point, sizeof(m->point), mount.point);
            copy(m->source, sizeof(m->source), mount.source);
        }
    }
    copy(m->trouble_id, sizeof(m->trouble_id), x->first_error_id);
    copy(m->trouble, sizeof(m->trouble), x->first_error);
}

/* ---- rank 0 --------------------------------------------------------------------------------- */

static void tell_judged(void *context, const char *id, pawl_severity severity, const char *next,
                        const char *text) {
    doctor_tell(context, id, severity, next, "%s", text);
}

static void judge(party *p, const sight *of, const unsigned char *came) {
    const sights all = {
        .of = of, .came = came, .world_size = p->group->world_size, .waited_s = p->x->deadline_s};
    sights_judge(&all, tell_judged, p->x);
}

/* Takes the cards that are there; how many are missing. */
static int take_cards(party *p, sight *of, unsigned char *came) {
    store *again = NULL;
    struct pawl_error ignored = ERROR_INIT;
    int missing = 0;
    if (path_open(p->s->root, false, &again, &ignored) != PAWL_OK) {
        return p->group->world_size;
    }
    for (int r = 1; r < p->group->world_size; r++) {
        if (!came[r] && token_take_card(again, &p->token, r, &of[r])) {
            of[r].saw = true;
            of[r].wrote = true;
            came[r] = 1;
        }
        missing += !came[r];
    }
    store_destroy(again);
    return missing;
}

static void collect_cards(party *p, sight *of, unsigned char *came) {
    uint64_t pause_ns = FIRST_PAUSE_NS;
    while (take_cards(p, of, came) > 0 && wait_more(p, p->begun_ns, p->x->deadline_s, &pause_ns)) {
    }
}

static pawl_status decode_all(const party *p, const uint8_t *all, sight *of, unsigned char *came,
                              pawl_error *err) {
    for (int r = 1; r < p->group->world_size; r++) {
        cursor c = cursor_of(all + (size_t)r * CARD_BYTES, CARD_BYTES, 0, "sight of another rank");
        struct pawl_error ignored = ERROR_INIT;
        const uint8_t *bytes = NULL;
        uint32_t n = 0;
        TRY(cursor_u32le(&c, &n, err));
        came[r] = came[r] && cursor_bytes(&c, n, &bytes, &ignored) == PAWL_OK &&
                  sight_decode(bytes, n, &of[r], &ignored) == PAWL_OK;
    }
    return PAWL_OK;
}

/* The same bytes on every rank that has a place in a gather. */
static pawl_status pack(const party *p, uint8_t to[CARD_BYTES], pawl_error *err) {
    CLEANUP(buffer_free) buffer text = {0};
    CLEANUP(buffer_free) buffer head = {0};
    TRY(sight_encode(&p->mine, &text, err));
    TRY(buffer_u32le(&head, (uint32_t)text.size, err));
    memset(to, 0, CARD_BYTES);
    memcpy(to, head.data, head.size);
    memcpy(to + head.size, text.data, text.size);
    return PAWL_OK;
}

static pawl_status gather_all(party *p, sight *of, unsigned char *came, pawl_error *err) {
    uint8_t mine[CARD_BYTES];
    AUTOFREE uint8_t *all = mem_calloc((size_t)p->group->world_size, CARD_BYTES);
    if (all == NULL) {
        return error_nomem(err, (size_t)p->group->world_size * CARD_BYTES);
    }
    TRY(pack(p, mine, err));
    TRY(group_gather(p->group, mine, CARD_BYTES, all, came, p->x->deadline_s, err));
    return decode_all(p, all, of, came, err);
}

static pawl_status hear_all(party *p, sight *of, unsigned char *came, pawl_error *err) {
    if (p->group->connected) {
        TRY(group_broadcast(p->group, &p->token, sizeof(p->token), p->x->deadline_s, err));
        TRY(gather_all(p, of, came, err));
    } else if (p->mine.wrote) {
        collect_cards(p, of, came);
    }
    return PAWL_OK;
}

/* The others hear how it ended, so that all end alike. */
static void tell_worst(party *p) {
    struct pawl_error story = ERROR_INIT;
    uint32_t worst = (uint32_t)p->x->worst;
    if (p->group->connected &&
        group_broadcast(p->group, &worst, sizeof(worst), p->x->deadline_s, &story) != PAWL_OK) {
        doctor_tell_error(p->x, "S11", &story);
    }
}

static pawl_status lead(party *p, pawl_error *err) {
    size_t n = (size_t)p->group->world_size;
    AUTOFREE sight *of = mem_calloc(n, sizeof(*of));
    AUTOFREE unsigned char *came = mem_calloc(n, 1);
    if (of == NULL || came == NULL) {
        return error_nomem(err, n * (sizeof(*of) + 1));
    }
    struct pawl_error story = ERROR_INIT;
    p->mine.wrote = p->s != NULL && token_write(p->s, &p->token, &story) == PAWL_OK;
    p->mine.saw = p->mine.wrote;
    if (!p->mine.wrote) {
        memset(p->token.nonce, 0, sizeof(p->token.nonce)); /* there is nothing to look for */
    }
    pawl_status status = hear_all(p, of, came, err);
    if (p->s != NULL) {
        token_remove(p->s, &p->token, p->group->world_size);
    }
    if (status != PAWL_OK) {
        return status;
    }
    of[0] = p->mine;
    came[0] = 1;
    if (p->mine.wrote || p->group->connected) {
        judge(p, of, came);
    }
    tell_worst(p);
    return PAWL_OK;
}

/* ---- the other ranks ------------------------------------------------------------------------ */

static void tell_not_found(party *p) {
    char waited[32];
    const sight *m = &p->mine;
    if (p->s == NULL) {
        doctor_tell(p->x, "P06", PAWL_SEVERITY_ERROR, NULL,
                    "rank %d of %d (host %s) cannot look for what rank 0 wrote: the path cannot be "
                    "opened here",
                    p->group->rank, p->group->world_size, m->host);
        return;
    }
    doctor_tell(p->x, "P06", PAWL_SEVERITY_ERROR,
                "if rank 0 was started, it sees another directory: mount the same storage on all "
                "hosts, or give all containers the same volume",
                "rank %d of %d (host %s) found nothing of rank 0 at %s, or above it, within %s: "
                "here %s is on %s (mounted at %s)",
                p->group->rank, p->group->world_size, m->host, m->place,
                text_seconds(waited, p->x->deadline_s), m->nearest, m->filesystem, m->point);
}

static void tell_heard(party *p) {
    doctor_tell(p->x, "ok", PAWL_SEVERITY_NOTE, NULL, "rank 0 tells what all %d ranks see",
                p->group->world_size);
}

/* The token, found within so many seconds. NULL: it was not. */
static store *find(party *p, double most_s) {
    store *found = NULL;
    uint64_t pause_ns = FIRST_PAUSE_NS;
    uint64_t since_ns = now_ns(p);
    const token wanted = p->token;
    do {
        p->token = wanted;
        if (p->x->place[0] == '/' && token_find(p->x->place, &p->token, &found)) {
            return found;
        }
    } while (p->x->place[0] == '/' && wait_more(p, since_ns, most_s, &pause_ns));
    return NULL;
}

/* Holds the card out until rank 0 took its token away. False: in vain. */
static bool hold_card(party *p, store *beside, pawl_error *err) {
    uint64_t pause_ns = FIRST_PAUSE_NS;
    token answered = {.key = ""};
    bool more = true;
    bool there = true;
    while (more && there) {
        if (strcmp(answered.nonce, p->token.nonce) != 0) {
            answered = p->token;
            if (token_put_card(beside, &answered, p->group->rank, &p->mine, err) != PAWL_OK) {
                return false;
            }
        }
        more = wait_more(p, p->begun_ns, 2 * p->x->deadline_s, &pause_ns);
        there = token_read(beside, &p->token);
    }
    token_remove_card(beside, &p->token, p->group->rank);
    error_set(err, PAWL_EPEER, "rank 0 did not take what rank %d has to say", p->group->rank);
    return !there;
}

static pawl_status follow_by_files(party *p, pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    store *beside = find(p, p->x->deadline_s);
    (void)err;
    if (beside == NULL) {
        tell_not_found(p);
        return PAWL_OK;
    }
    p->mine.saw = true;
    p->mine.wrote = true;
    if (hold_card(p, beside, &story)) {
        tell_heard(p);
    } else {
        doctor_tell_error(p->x, story.status == PAWL_EPEER ? "S11" : "P02", &story);
    }
    store_destroy(beside);
    return PAWL_OK;
}

static void try_beside(party *p) {
    struct pawl_error ignored = ERROR_INIT;
    double most_s = p->x->deadline_s / 3 < MOST_LOOK_S ? p->x->deadline_s / 3 : MOST_LOOK_S;
    char nonce[sizeof(p->token.nonce)];
    memcpy(nonce, p->token.nonce, sizeof(nonce));
    store *beside = nonce[0] != '\0' ? find(p, most_s) : NULL;
    p->mine.saw = beside != NULL && strcmp(nonce, p->token.nonce) == 0;
    if (p->mine.saw) {
        p->mine.wrote =
            token_put_card(beside, &p->token, p->group->rank, &p->mine, &ignored) == PAWL_OK;
        token_remove_card(beside, &p->token, p->group->rank);
    }
    store_destroy(beside);
}

static pawl_status follow_by_callbacks(party *p, pawl_error *err) {
    uint8_t mine[CARD_BYTES];
    uint32_t worst = 0;
    TRY(group_broadcast(p->group, &p->token, sizeof(p->token), p->x->deadline_s, err));
    p->token.key[sizeof(p->token.key) - 1] = '\0';
    p->token.nonce[TOKEN_NONCE_BYTES] = '\0';
    try_beside(p);
    TRY(pack(p, mine, err));
    TRY(group_gather(p->group, mine, CARD_BYTES, NULL, NULL, p->x->deadline_s, err));
    TRY(group_broadcast(p->group, &worst, sizeof(worst), 2 * p->x->deadline_s, err));
    if (worst > PAWL_SEVERITY_ERROR) {
        return error_set(err, PAWL_EDAMAGED, "rank 0 says what it cannot mean");
    }
    p->x->worst = (pawl_severity)worst > p->x->worst ? (pawl_severity)worst : p->x->worst;
    tell_heard(p);
    return PAWL_OK;
}

void doctor_examine_ranks(examination *x, store *s, bool whole) {
    struct pawl_error story = ERROR_INIT;
    const rank_group *g = x->group;
    party p = {.x = x, .group = g, .s = s};
    p.begun_ns = now_ns(&p);
    look(&p, whole);
    pawl_status status = token_draw(g->connected ? NULL : g->launch, x->os, &p.token, &story);
    if (status == PAWL_OK && g->rank == 0) {
        status = lead(&p, &story);
    } else if (status == PAWL_OK) {
        status = g->connected ? follow_by_callbacks(&p, &story) : follow_by_files(&p, &story);
    }
    if (status != PAWL_OK) {
        doctor_tell_error(x, "S11", &story);
    }
}
