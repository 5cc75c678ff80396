/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must be alike on all ranks, as text: a line an entry, ascending by name:
 *
 *   name TAB what LF       "model/b\treplicated tensor [10] F32\n"
 *
 * Votes carry only its checksum and size. Whoever has a text first in an attempt leaves it in the
 * run's directory, so that rank 0 can say in which entries two ranks differ (S12, J04). It is for
 * messages alone: nothing depends on its being there, and it is never synced.
 */
#include "votes/private.h"

#include <string.h>

#define STRUCTURE_MAX_BYTES ((size_t)1 << 30) /* a larger one is not left for others */

static pawl_status put_role(const state_entry *e, buffer *out, pawl_error *err) {
    if (e->role == PAWL_ROLE_SLOT) {
        return buffer_printf(out, err, " (slot %s of %s)", e->slot, e->slot_of);
    }
    return e->role == PAWL_ROLE_MODEL ? PAWL_OK
                                      : buffer_printf(out, err, " (%s)", pawl_role_name(e->role));
}

static pawl_status put_what(const state_entry *e, buffer *out, pawl_error *err) {
    char shape[PAWL_MAX_NDIM * 24];
    if (e->kind != PAWL_KIND_TENSOR) {
        return buffer_printf(out, err, "%s %s", pawl_kind_name(e->kind),
                             e->per_rank ? "of each rank's own" : "that all ranks share");
    }
    return buffer_printf(out, err, "replicated tensor %s %s",
                         shape_text(shape, sizeof shape, e->ndim, e->shape),
                         pawl_dtype_name(e->dtype));
}

pawl_status structure_make(const state_snapshot *snapshot, buffer *out, pawl_error *err) {
    out->size = 0;
    for (size_t i = 0; i < snapshot->count; i++) {
        const state_entry *e = snapshot->entries[i];
        if (!state_entry_is_alike(e)) {
            continue;
        }
        TRY(buffer_append(out, e->name, strlen(e->name), err));
        TRY(buffer_append(out, "\t", 1, err));
        TRY(put_what(e, out, err));
        TRY(put_role(e, out, err));
        TRY(buffer_append(out, "\n", 1, err));
    }
    return PAWL_OK;
}

/* Removes a half-written file: nobody could create a whole one of that name. */
static pawl_status write_structure(job_ranks *ranks, const char *name, const buffer *text,
                                   pawl_error *err) {
    struct pawl_error ignored = ERROR_INIT;
    pawl_status status = store_create_small(ranks->store, name, text->data, text->size, NULL, err);
    if (status != PAWL_OK && status != PAWL_EBUSY &&
        store_unlink(ranks->store, name, &ignored) != PAWL_OK) {
        log_write(&ranks->log, PAWL_LOG_DEBUG, "%s", error_text(&ignored));
    }
    return status;
}

void structure_leave(job_ranks *ranks, const buffer *text, uint32_t crc, structure_left *last) {
    char name[80];
    struct pawl_error story = ERROR_INIT;
    bool left = last->bytes == text->size && last->crc32c == crc;
    if (text->size == 0 || text->size > STRUCTURE_MAX_BYTES || left) {
        return;
    }
    name_structure(name, ranks->attempt, crc, text->size);
    pawl_status status = write_structure(ranks, name, text, &story);
    if (status != PAWL_OK && status != PAWL_EBUSY) { /* another rank was faster */
        log_write(&ranks->log, PAWL_LOG_DEBUG, "%s", error_text(&story));
        return;
    }
    *last = (structure_left){.crc32c = crc, .bytes = text->size};
}

/* ---- in what two structures differ ---------------------------------------------------------- */

/* A text that another rank left, line by line. */
typedef struct structure_lines {
    buffer text;
    size_t at;
    char *name; /* of the present line; NULL at the end */
    const char *what;
} structure_lines;

static void lines_free(structure_lines *l) {
    buffer_free(&l->text);
}

/* Cuts the text at its tabs and line ends. */
static void next_line(structure_lines *l) {
    l->name = NULL;
    char *begin = (char *)l->text.data + l->at;
    char *end = l->at < l->text.size ? memchr(begin, '\n', l->text.size - l->at) : NULL;
    char *tab = end != NULL ? memchr(begin, '\t', (size_t)(end - begin)) : NULL;
    if (tab == NULL) {
        return;
    }
    *tab = '\0';
    *end = '\0';
    l->name = begin;
    l->what = tab + 1;
    l->at = (size_t)(end - (char *)l->text.data) + 1;
}

static bool is_text(const buffer *b) {
    for (size_t i = 0; i < b->size; i++) {
        if (b->data[i] < ' ' && b->data[i] != '\t' && b->data[i] != '\n') {
            return false;
        }
    }
    return utf8_valid((const char *)b->data, b->size);
}

/* False where it is not there, or not as the vote says. */
static bool read_lines(job_ranks *ranks, const vote *head, structure_lines *out) {
    char name[80];
    struct pawl_error story = ERROR_INIT;
    if (head->structure_bytes == 0) {
        return true;
    }
    name_structure(name, ranks->attempt, head->structure_crc32c, head->structure_bytes);
    pawl_status status =
        store_read_file(ranks->store, name, STRUCTURE_MAX_BYTES, &out->text, &story);
    if (status != PAWL_OK) {
        log_write(&ranks->log, PAWL_LOG_DEBUG, "%s", error_text(&story));
        return false;
    }
    if (out->text.size != head->structure_bytes ||
        crc32c(0, out->text.data, out->text.size) != head->structure_crc32c ||
        !is_text(&out->text)) {
        return false;
    }
    next_line(out);
    return true;
}

typedef struct comparison {
    job_ranks *ranks;
    const votes *v;
    const char *directory;
    const vote_sides *sides;
    mismatches found;
} comparison;

/* Did the rank save a tensor of that name as its own? */
static pawl_status find_own(const comparison *c, int rank, const char *name, bool *own,
                            pawl_error *err) {
    CLEANUP(vote_table_close) vote_table t;
    CLEANUP(table_cursor_free_pointer) table_cursor *at = NULL;
    CLEANUP(buffer_free) buffer key = {0};
    CLEANUP(arena_free) arena memory = {0};
    const vote *head = &c->v->heads[rank];
    const uint8_t *value;
    size_t n;
    record_entry entry;
    *own = false;
    TRY(vote_table_open(&t, c->ranks->store, &c->v->own, c->directory, head->tag, rank, err));
    TRY(table_cursor_new(t.table, &at, err));
    TRY(record_entry_key(&key, name, err));
    TRY(vote_table_find(at, key.data, key.size, &value, &n, err));
    if (value == NULL) {
        return PAWL_OK;
    }
    TRY(record_entry_decode(key.data, key.size, value, n, (uint32_t)head->file_count, &memory,
                            &entry, err));
    *own = entry.kind == PAWL_KIND_TENSOR && !entry.replicated;
    return PAWL_OK;
}

static pawl_status add_absent(comparison *c, const structure_lines *here, bool few_lack,
                              pawl_error *err) {
    const vote_sides *sides = c->sides;
    bool own;
    TRY(find_own(c, few_lack ? sides->few : sides->many, here->name, &own, err));
    mismatches_add(&c->found, here->name,
                   own ? "declare it replicated on all ranks, or on none"
                       : "make it on every rank: variables and optimizer inside the strategy's "
                         "scope, where there is one",
                   "%s on %s; not %son %s", here->what,
                   few_lack ? sides->many_text : sides->few_text, own ? "replicated " : "",
                   few_lack ? sides->few_text : sides->many_text);
    return PAWL_OK;
}

static pawl_status compare_lines(comparison *c, structure_lines *many, structure_lines *few,
                                 pawl_error *err) {
    while (many->name != NULL || few->name != NULL) {
        int order = many->name == NULL ? 1 : few->name == NULL ? -1 : strcmp(many->name, few->name);
        if (order != 0) {
            TRY(add_absent(c, order < 0 ? many : few, order < 0, err));
        } else if (strcmp(many->what, few->what) != 0) {
            mismatches_add(&c->found, many->name, "make it alike on all ranks",
                           "%s on %s; %s on %s", many->what, c->sides->many_text, few->what,
                           c->sides->few_text);
        }
        if (order <= 0) {
            next_line(many);
        }
        if (order >= 0) {
            next_line(few);
        }
    }
    return PAWL_OK;
}

/* What can be said without the structures themselves. */
static pawl_status differ_somewhere(const vote_sides *sides, pawl_error *err) {
    error_set(err, PAWL_EMISMATCH, "the ranks do not have the same entries");
    error_expected(err, "what %s have", sides->many_text);
    error_found(err, "something else on %s", sides->few_text);
    error_next(err, "compare the names, shapes and dtypes that these ranks add to their states");
    return PAWL_EMISMATCH;
}

pawl_status structure_explain(job_ranks *ranks, const votes *v, const char *directory,
                              const vote_sides *sides, pawl_error *err) {
    CLEANUP(lines_free) structure_lines many = {.at = 0};
    CLEANUP(lines_free) structure_lines few = {.at = 0};
    comparison c = {.ranks = ranks, .v = v, .directory = directory, .sides = sides};
    if (!read_lines(ranks, &v->heads[sides->many], &many) ||
        !read_lines(ranks, &v->heads[sides->few], &few)) {
        return differ_somewhere(sides, err);
    }
    TRY(compare_lines(&c, &many, &few, err));
    TRY(mismatches_end(&c.found, "the ranks do not have the same entries",
                       "the same replicated tensors, values and names on all ranks", err));
    return differ_somewhere(sides, err);
}
