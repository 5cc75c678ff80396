/* SPDX-License-Identifier: Apache-2.0 */
/* What the sights of all ranks mean together (P02, P04 to P06, S11). */
#include "doctor/sight.h"

#include "store/mount_table.h"

#include <stdio.h>
#include <string.h>

typedef struct judging {
    const sights *all;
    unsigned char *chosen; /* by rank: is the finding about it? */
    int first;             /* of them; -1: none */
    sights_tell tell;
    void *context;
    bool told;
} judging;

static void tell_of_ranks(judging *j, const char *id, pawl_severity severity, const char *next,
                          const char *format, ...) PRINTF_LIKE(5, 6);

static void tell_of_ranks(judging *j, const char *id, pawl_severity severity, const char *next,
                          const char *format, ...) {
    char text[1536];
    va_list arguments;
    va_start(arguments, format);
    text_format(text, sizeof(text), format, arguments);
    va_end(arguments);
    j->told = true;
    j->tell(j->context, id, severity, next, text);
}

static const sight *sight_of_rank_0(const judging *j) {
    return &j->all->of[0];
}

/* What a rank lacks of its machine keeps it from nothing that is asked here. */
static bool is_warning(const char *id) {
    return id[0] == 'E' || strcmp(id, "S05") == 0;
}

static bool is_in_trouble(const sight *s) {
    return s->trouble_id[0] != '\0' && !is_warning(s->trouble_id);
}

/* ---- choosing ranks ------------------------------------------------------------------------- */

/* Chooses the ranks other than 0 that came and for which `is_it` holds. False: there are none. */
static bool choose_ranks(judging *j, bool (*is_it)(const sight *zero, const sight *s)) {
    j->first = -1;
    for (int r = 0; r < j->all->world_size; r++) {
        const sight *s = &j->all->of[r];
        j->chosen[r] = r > 0 && j->all->came[r] && is_it(sight_of_rank_0(j), s);
        j->first = j->first < 0 && j->chosen[r] ? r : j->first;
    }
    return j->first >= 0;
}

static bool works_elsewhere(const sight *zero, const sight *s) {
    return s->place[0] != '\0' && zero->place[0] != '\0' && strcmp(s->place, zero->place) != 0;
}

static bool lacks_the_place(const sight *zero, const sight *s) {
    return zero->whole && !s->whole && !is_in_trouble(s) && zero->wrote;
}

static bool has_the_place_alone(const sight *zero, const sight *s) {
    return !zero->whole && s->whole && zero->wrote;
}

static bool sees_another(const sight *zero, const sight *s) {
    return zero->wrote && zero->whole == s->whole && !s->saw && !is_in_trouble(s);
}

static bool cannot_write(const sight *zero, const sight *s) {
    return zero->wrote && s->saw && !s->wrote && !is_in_trouble(s);
}

static bool lacks_something(const sight *zero, const sight *s) {
    (void)zero; /* which tells of its own machine itself */
    return is_warning(s->trouble_id);
}

static bool has_trouble(const sight *zero, const sight *s) {
    return is_in_trouble(s) &&
           (strcmp(s->trouble, zero->trouble) != 0 || strcmp(s->place, zero->place) != 0);
}

/* "ranks 2 and 3 (host b)"; where they run on several hosts "ranks 2 and 3 (hosts b, c, ...)". */
static const char *ranks_on_hosts(const judging *j, char out[512]) {
    char ranks[200];
    char hosts[224] = "";
    const char *last = "";
    int count = 0;
    group_ranks_text(ranks, sizeof(ranks), j->chosen, j->all->world_size);
    for (int r = 0; r < j->all->world_size; r++) {
        const char *host = j->all->of[r].host;
        if (j->chosen[r] && strcmp(host, last) != 0 && count <= 3) {
            size_t at = strlen(hosts);
            (void)snprintf(hosts + at, sizeof(hosts) - at, "%s%.60s", count > 0 ? ", " : "",
                           count < 3 ? host : "...");
            last = host;
            count++;
        }
    }
    (void)snprintf(out, 512, "%s (%s %s)", ranks, count > 1 ? "hosts" : "host", hosts);
    return out;
}

/* ---- findings ------------------------------------------------------------------------------- */

static void judge_missing(judging *j) {
    char ranks[200];
    char waited[32];
    const sight *zero = sight_of_rank_0(j);
    int missing = 0;
    for (int r = 0; r < j->all->world_size; r++) {
        j->chosen[r] = !j->all->came[r];
        missing += j->chosen[r];
    }
    if (missing == 0) {
        return;
    }
    group_ranks_text(ranks, sizeof(ranks), j->chosen, j->all->world_size);
    text_seconds(waited, j->all->waited_s);
    if (zero->wrote) {
        tell_of_ranks(
            j, "P06", PAWL_SEVERITY_ERROR,
            "read their own output: those that run see another directory than rank 0",
            "nothing was heard from %s within %s: %s not started, or cannot see what rank 0 (host "
            "%s) wrote to %s (%s, mounted at %s)",
            ranks, waited, missing > 1 ? "they were" : "it was", zero->host, zero->nearest,
            zero->filesystem, zero->point);
    } else {
        tell_of_ranks(j, "S11", PAWL_SEVERITY_ERROR, "look whether they were started",
                      "nothing was heard from %s within %s", ranks, waited);
    }
}

static void judge_places(judging *j) {
    char ranks[512];
    const sight *zero = sight_of_rank_0(j);
    if (!choose_ranks(j, works_elsewhere)) {
        return;
    }
    const sight *other = &j->all->of[j->first];
    ranks_on_hosts(j, ranks);
    if (strcmp(other->given, zero->given) != 0) {
        tell_of_ranks(j, "P04", PAWL_SEVERITY_WARNING, "give all ranks the same path",
                      "%s got another path: %s; rank 0 (host %s) got %s", ranks, other->given,
                      zero->host, zero->given);
    } else {
        tell_of_ranks(
            j, "P04", PAWL_SEVERITY_WARNING, "give the absolute path",
            "the working directory of %s is another one: %s stands for %s there, and for %s on "
            "rank 0 (host %s)",
            ranks, zero->given, other->place, zero->place, zero->host);
    }
}

/* How to have all hosts see what that rank sees. */
static const char *how_to_share(const sight *there, char out[640]) {
    if (mount_is_shared(there->filesystem)) {
        (void)snprintf(out, 640,
                       "mount the same there as on host %s: mount -t %s %s %s; in containers, give "
                       "all of them that volume",
                       there->host, there->filesystem, there->source, there->point);
    } else {
        (void)snprintf(out, 640,
                       "choose a directory on storage that all hosts mount (NFS, Lustre or the "
                       "like; %s at %s is host %s's own); in containers, give all of them the same "
                       "volume",
                       there->filesystem, there->point, there->host);
    }
    return out;
}

static void judge_existence(judging *j) {
    char ranks[512];
    char next[640];
    const sight *zero = sight_of_rank_0(j);
    if (choose_ranks(j, lacks_the_place)) {
        const sight *other = &j->all->of[j->first];
        tell_of_ranks(
            j, "P05", PAWL_SEVERITY_ERROR, how_to_share(zero, next),
            "%s is there on rank 0 (host %s; %s mounted at %s), but not on %s, where it would be "
            "on %s (mounted at %s)",
            zero->place, zero->host, zero->filesystem, zero->point, ranks_on_hosts(j, ranks),
            other->filesystem, other->point);
    }
    if (choose_ranks(j, has_the_place_alone)) {
        const sight *other = &j->all->of[j->first];
        tell_of_ranks(
            j, "P05", PAWL_SEVERITY_ERROR, how_to_share(other, next),
            "%s is there on %s, on %s (mounted at %s), but not on rank 0 (host %s), where it "
            "would be on %s (mounted at %s)",
            other->place, ranks_on_hosts(j, ranks), other->filesystem, other->point, zero->host,
            zero->filesystem, zero->point);
    }
}

static void judge_identity(judging *j) {
    char ranks[512];
    char next[640];
    const sight *zero = sight_of_rank_0(j);
    if (choose_ranks(j, sees_another)) {
        const sight *other = &j->all->of[j->first];
        tell_of_ranks(
            j, "P06", PAWL_SEVERITY_ERROR, how_to_share(zero, next),
            "%s cannot see what rank 0 (host %s) wrote to %s: there it is on %s (mounted at %s), "
            "on rank 0 on %s (mounted at %s)",
            ranks_on_hosts(j, ranks), zero->host, zero->nearest, other->filesystem, other->point,
            zero->filesystem, zero->point);
    }
}

static void judge_writing(judging *j) {
    char ranks[512];
    const sight *zero = sight_of_rank_0(j);
    if (choose_ranks(j, cannot_write)) {
        tell_of_ranks(
            j, "P02", PAWL_SEVERITY_ERROR,
            "let all ranks run as the same user, and mount the storage for writing on all hosts",
            "%s can see %s, but cannot create files there", ranks_on_hosts(j, ranks),
            zero->nearest);
    }
}

/* Tells the error, or what is lacking, of one rank, and which others have one with the same id. */
static void judge_troubles(judging *j, bool (*is_it)(const sight *zero, const sight *s),
                           pawl_severity severity) {
    if (!choose_ranks(j, is_it)) {
        return;
    }
    char ranks[512];
    char id[sizeof(j->all->of[0].trouble_id)];
    const sight *first = &j->all->of[j->first];
    (void)snprintf(id, sizeof(id), "%s", first->trouble_id);
    for (int r = 0; r < j->all->world_size; r++) {
        j->chosen[r] = j->chosen[r] && strcmp(j->all->of[r].trouble_id, id) == 0;
    }
    ranks_on_hosts(j, ranks);
    tell_of_ranks(j, id, severity, NULL, "on %s: %s", ranks, first->trouble);
}

static int count_hosts(const sights *all) {
    int hosts = 0;
    for (int r = 0; r < all->world_size; r++) {
        bool known = false;
        for (int q = r - 1; q >= 0 && !known && r - q <= 4096; q--) {
            known = strcmp(all->of[q].host, all->of[r].host) == 0;
        }
        hosts += !known;
    }
    return hosts;
}

static void judge_success(judging *j) {
    const sight *zero = sight_of_rank_0(j);
    int hosts = count_hosts(j->all);
    for (int r = 0; r < j->all->world_size; r++) {
        if (!j->all->of[r].saw || !j->all->of[r].wrote) {
            return;
        }
    }
    tell_of_ranks(j, "ok", PAWL_SEVERITY_NOTE, NULL,
                  "all %d ranks, on %d host%s, see the same %s and can write there",
                  j->all->world_size, hosts, hosts == 1 ? "" : "s", zero->nearest);
}

void sights_judge(const sights *all, sights_tell tell_each, void *context) {
    judging j = {.all = all, .tell = tell_each, .context = context};
    AUTOFREE unsigned char *chosen = mem_calloc((size_t)all->world_size, 1);
    if (chosen == NULL) {
        return;
    }
    j.chosen = chosen;
    judge_missing(&j);
    judge_places(&j);
    judge_existence(&j);
    judge_identity(&j);
    judge_writing(&j);
    judge_troubles(&j, has_trouble, PAWL_SEVERITY_ERROR);
    if (!j.told) {
        judge_success(&j);
    }
    judge_troubles(&j, lacks_something, PAWL_SEVERITY_WARNING);
}
