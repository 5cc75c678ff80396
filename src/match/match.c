/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matches a checkpoint with a state: looks at every entry of both sides and reports every
 * difference, before a byte of any tensor is read.
 */
#include "match/matcher.h"
#include "match/rename.h"
#include "match/side.h"

#include <string.h>

/* ---- options -------------------------------------------------------------------------------- */

static pawl_status resolve(const char *field, pawl_policy *policy, pawl_policy otherwise,
                           unsigned accepted, pawl_error *err) {
    if (*policy == PAWL_POLICY_DEFAULT) {
        *policy = otherwise;
    }
    if (*policy > PAWL_POLICY_CALLER || (accepted & 1u << *policy) == 0) {
        error_set(err, PAWL_EUSAGE,
                  "cannot restore: options.%s is %d, which is not a policy that it takes", field,
                  (int)*policy);
        error_next(err, "see pawl_restore_options in pawl/restore.h");
        return PAWL_EUSAGE;
    }
    return PAWL_OK;
}

static pawl_status check_renames(const pawl_restore_options *options, pawl_error *err) {
    for (size_t i = 0; i < options->rename_count; i++) {
        const pawl_rename *rule = &options->renames[i];
        const char *why = NULL;
        if (rule->from == NULL || rule->to == NULL) {
            return error_set(err, PAWL_EUSAGE,
                             "cannot restore: options.renames[%zu] has a NULL name", i);
        }
        size_t length = strnlen(rule->from, PAWL_MAX_NAME_BYTES + 1);
        if (length > 0 && !rename_swaps(rule) && !entry_name_valid(rule->from, length, &why)) {
            error_set(err, entry_name_refusal(length),
                      "cannot restore: options.renames[%zu].from can match no name, because it %s",
                      i, why);
            error_found(err, "\"%.*s\"", (int)length, rule->from);
            error_next(err, "give it whole components from the front of a name, such as "
                            "\"model/dense\"");
            return err->status;
        }
    }
    return PAWL_OK;
}

pawl_status match_options(const pawl_restore_options *given, pawl_restore_options *o,
                          pawl_error *err) {
    const unsigned allow = 1u << PAWL_POLICY_ERROR | 1u << PAWL_POLICY_ALLOW;
    const unsigned values =
        1u << PAWL_POLICY_ERROR | 1u << PAWL_POLICY_CHECKPOINT | 1u << PAWL_POLICY_CALLER;
    *o = given != NULL ? *given : (pawl_restore_options){.struct_size = sizeof(*o)};
    TRY(resolve("missing", &o->missing, PAWL_POLICY_ERROR, allow, err));
    TRY(resolve("unexpected", &o->unexpected, PAWL_POLICY_ERROR, allow, err));
    TRY(resolve("cast", &o->cast, PAWL_POLICY_ERROR, allow, err));
    TRY(resolve("batch", &o->batch, PAWL_POLICY_ALLOW, allow, err));
    TRY(resolve("per_rank", &o->per_rank, PAWL_POLICY_ERROR, allow | 1u << PAWL_POLICY_CALLER,
                err));
    TRY(resolve("hyperparameter", &o->hyperparameter, PAWL_POLICY_CHECKPOINT, values, err));
    return check_renames(o, err);
}

static bool takes_part(const matcher *m, pawl_role role) {
    return m->options.model_only == 0 || role == PAWL_ROLE_MODEL;
}

static bool state_takes_part(const matcher *m, size_t place) {
    bool there = m->left_out == NULL || !m->left_out[place];
    return there && takes_part(m, m->wanted->entries[place]->role);
}

/* ---- entries without a partner -------------------------------------------------------------- */

static pawl_status keep_loose(matcher *m, const loose_entry *entry, loose_entry *kept,
                              pawl_error *err) {
    size_t bytes = (size_t)entry->ndim * sizeof(*entry->shape);
    int64_t *shape = arena_alloc(&m->memory, bytes);
    *kept = *entry;
    kept->name = arena_strdup(&m->memory, entry->name);
    kept->slot = arena_strdup(&m->memory, entry->slot);
    kept->slot_of = arena_strdup(&m->memory, entry->slot_of);
    if (kept->name == NULL || kept->slot == NULL || kept->slot_of == NULL || shape == NULL) {
        return error_nomem(err, strlen(entry->name) + 1 + bytes);
    }
    if (bytes > 0) {
        memcpy(shape, entry->shape, bytes);
    }
    kept->shape = shape;
    return PAWL_OK;
}

static pawl_status add_loose(matcher *m, loose_list *list, const loose_entry *entry,
                             pawl_error *err) {
    if (list->count >= MATCHER_MAX_LOOSE) {
        return PAWL_OK;
    }
    TRY(vec_reserve(&list->entries, &list->capacity, list->count + 1, sizeof(*list->entries), err));
    TRY(keep_loose(m, entry, &list->entries[list->count], err));
    list->count++;
    return PAWL_OK;
}

static loose_entry loose_of(const char *name, const char *slot, const char *slot_of,
                            const side *s) {
    bool tensor = s->kind == PAWL_KIND_TENSOR;
    return (loose_entry){.name = name,
                         .slot = slot == NULL ? "" : slot,
                         .slot_of = slot_of == NULL ? "" : slot_of,
                         .kind = s->kind,
                         .dtype = tensor ? s->dtype : (pawl_dtype)0,
                         .ndim = tensor ? s->ndim : 0,
                         .shape = s->shape};
}

/* Hyperparameters are scalars of one type: nothing shows which was renamed to which. */
static bool may_be_renamed(pawl_role role) {
    return role != PAWL_ROLE_HYPERPARAMETER;
}

static pawl_severity severity_by_policy(pawl_policy policy) {
    return policy == PAWL_POLICY_ALLOW ? PAWL_SEVERITY_NOTE : PAWL_SEVERITY_ERROR;
}

/* `fault`: what the ranks of a job found wrong with it, or NULL. What other ranks have under this
 * name was not renamed. */
static pawl_status add_unexpected(matcher *m, const record_entry *record, const char *name,
                                  const char *slot_of, const match_job_fault *fault,
                                  pawl_error *err) {
    char text[SIDE_BYTES];
    bool slot = record->role == PAWL_ROLE_SLOT;
    side s = side_of_record(record);
    pawl_report_item item = {.difference = slot ? PAWL_DIFF_SLOT : PAWL_DIFF_UNEXPECTED,
                             .severity = severity_by_policy(m->options.unexpected),
                             .name = name,
                             .other_name = slot ? slot_of : NULL,
                             .checkpoint = side_text(text, &s, false),
                             .dimension = -1,
                             .count = 1,
                             .saved_as = name == record->name ? NULL : record->name};
    m->slots_unexpected += slot ? 1 : 0;
    if (item.severity != PAWL_SEVERITY_ERROR) {
        report_counts(m->report)->ignored++;
    }
    const sentence_facts facts = {
        .slot = record->slot, .fault = fault, .world_size = m->ranks.world_size};
    TRY(report_add_facts(m->report, &item, &facts, err));
    if (name != record->name || !may_be_renamed(record->role) ||
        (fault != NULL && fault->error != MATCH_NOBODY)) {
        return PAWL_OK; /* no rename rule is suggested for it */
    }
    loose_entry loose = loose_of(name, record->slot, record->slot_of, &s);
    return add_loose(m, &m->checkpoint, &loose, err);
}

static pawl_status add_missing(matcher *m, const state_entry *wanted, pawl_error *err) {
    char text[SIDE_BYTES];
    bool slot = wanted->role == PAWL_ROLE_SLOT;
    side s = side_of_state(wanted);
    pawl_report_item item = {.difference = slot ? PAWL_DIFF_SLOT : PAWL_DIFF_MISSING,
                             .severity = severity_by_policy(m->options.missing),
                             .name = wanted->name,
                             .other_name = slot ? wanted->slot_of : NULL,
                             .state = side_text(text, &s, false),
                             .dimension = -1,
                             .count = 1};
    m->slots_missing += slot ? 1 : 0;
    if (item.severity != PAWL_SEVERITY_ERROR) {
        report_counts(m->report)->kept++;
    }
    TRY(report_add_facts(m->report, &item, &(sentence_facts){.slot = wanted->slot}, err));
    if (!may_be_renamed(wanted->role)) {
        return PAWL_OK;
    }
    loose_entry loose = loose_of(wanted->name, wanted->slot, wanted->slot_of, &s);
    return add_loose(m, &m->state, &loose, err);
}

/* ---- pairs ---------------------------------------------------------------------------------- */

/* Copies bytes of a record, unless the state's entry has the same ones (`twin`), which then do. */
static const void *keep_bytes(matcher *m, const void *data, size_t bytes, const void *twin,
                              size_t twin_bytes) {
    if (data == NULL) {
        return NULL;
    }
    if (twin != NULL && bytes == twin_bytes && memcmp(data, twin, bytes) == 0) {
        return twin;
    }
    void *copy = arena_alloc(&m->match->memory, bytes);
    if (copy != NULL && bytes > 0) {
        memcpy(copy, data, bytes);
    }
    return copy;
}

static const char *keep_string(matcher *m, const char *text, const char *twin) {
    size_t twin_bytes = twin == NULL ? 0 : strlen(twin) + 1;
    return text == NULL ? NULL : keep_bytes(m, text, strlen(text) + 1, twin, twin_bytes);
}

static bool keep_piece(matcher *m, record_piece *piece, const record_entry *kept) {
    static const int64_t origin[PAWL_MAX_NDIM];
    if (kept->kind != PAWL_KIND_TENSOR) {
        piece->box_offset = NULL;
        piece->box_extent = NULL;
        return true;
    }
    size_t bytes = (size_t)kept->ndim * sizeof(int64_t);
    const void *offset = keep_bytes(m, piece->box_offset, bytes, origin, bytes);
    const void *extent = keep_bytes(m, piece->box_extent, bytes, kept->shape, bytes);
    /* Nobody changes a piece's numbers, so they may be shared with the state's entry. */
    piece->box_offset = (int64_t *)(uintptr_t)offset;
    piece->box_extent = (int64_t *)(uintptr_t)extent;
    return offset != NULL && extent != NULL;
}

/* A copy of the record that lives as long as the match; NULL: no memory. */
static const record_entry *keep_record(matcher *m, const record_entry *record,
                                       const state_entry *wanted) {
    record_entry *kept = arena_alloc(&m->match->memory, sizeof(*kept));
    if (kept == NULL) {
        return NULL;
    }
    *kept = *record;
    bool tensor = record->kind == PAWL_KIND_TENSOR;
    size_t shape_size = tensor ? (size_t)record->ndim * sizeof(int64_t) : 0;
    kept->name = keep_string(m, record->name, wanted->name);
    kept->slot_of = keep_string(m, record->slot_of, wanted->slot_of);
    kept->slot = keep_string(m, record->slot, wanted->slot);
    kept->shape = tensor ? keep_bytes(m, record->shape, shape_size, wanted->shape,
                                      (size_t)wanted->ndim * sizeof(int64_t))
                         : NULL;
    kept->value =
        keep_bytes(m, record->value, record->value_bytes, wanted->value, wanted->value_bytes);
    kept->pieces = arena_alloc(&m->match->memory, record->piece_count * sizeof(*kept->pieces));
    if (kept->name == NULL || (record->slot_of != NULL && kept->slot_of == NULL) ||
        (record->slot != NULL && kept->slot == NULL) || (tensor && kept->shape == NULL) ||
        (record->value != NULL && kept->value == NULL) || kept->pieces == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < record->piece_count; i++) {
        kept->pieces[i] = record->pieces[i];
        if (!keep_piece(m, &kept->pieces[i], kept)) {
            return NULL;
        }
    }
    return kept;
}

static pawl_status add_pair(matcher *m, const record_entry *record, size_t position,
                            bool keep_caller, pawl_error *err) {
    match_result *match = m->match;
    const state_entry *wanted = m->wanted->entries[position];
    TRY(vec_reserve(&match->pairs, &m->pair_capacity, match->pair_count + 1, sizeof(*match->pairs),
                    err));
    const record_entry *kept = keep_record(m, record, wanted);
    if (kept == NULL) {
        return error_nomem(err, sizeof(*kept) + record->piece_count * sizeof(*kept->pieces));
    }
    match->pairs[match->pair_count++] =
        (match_pair){.wanted = wanted, .source = kept, .keep_caller = keep_caller};
    m->partner[position] = (ptrdiff_t)match->pair_count;
    if (keep_caller) {
        report_counts(m->report)->kept++;
    }
    return PAWL_OK;
}

static pawl_status keep_unfit(matcher *m, const record_entry *record, size_t position,
                              bool other_shape, pawl_error *err) {
    side s = side_of_record(record);
    loose_entry seen = loose_of(record->name, record->slot, record->slot_of, &s);
    TRY(vec_reserve(&m->unfit, &m->unfit_capacity, m->unfit_count + 1, sizeof(*m->unfit), err));
    unfit_entry *unfit = &m->unfit[m->unfit_count];
    TRY(keep_loose(m, &seen, &unfit->record, err));
    unfit->place = position;
    unfit->other_shape = other_shape;
    m->unfit_count++;
    m->partner[position] = -(ptrdiff_t)m->unfit_count;
    return PAWL_OK;
}

const char *matcher_partner_name(const matcher *m, size_t place) {
    ptrdiff_t partner = m->partner[place];
    return partner == 0  ? NULL
           : partner > 0 ? m->match->pairs[partner - 1].source->name
                         : m->unfit[-partner - 1].record.name;
}

static pawl_status add_collision(matcher *m, const record_entry *record, const char *name,
                                 size_t position, pawl_error *err) {
    pawl_report_item item = {.difference = PAWL_DIFF_RENAMED,
                             .severity = PAWL_SEVERITY_ERROR,
                             .name = record->name,
                             .other_name = name,
                             .dimension = -1,
                             .count = 1,
                             .saved_as = matcher_partner_name(m, position)};
    return report_add(m->report, &item, err);
}

static const state_entry *find_wanted(matcher *m, const char *name, size_t *position) {
    const state_entry *found = NULL;
    if (m->likely < m->wanted->count && strcmp(m->wanted->entries[m->likely]->name, name) == 0) {
        *position = m->likely;
        found = m->wanted->entries[m->likely];
    } else {
        found = state_snapshot_find(m->wanted, name, position);
    }
    m->likely = found != NULL ? *position + 1 : m->likely;
    return found;
}

/* ---- as a rank of a job --------------------------------------------------------------------- */

static pawl_status note_stance(matcher *m, match_stance stance, pawl_error *err) {
    match_result *match = m->match;
    if (!m->ranks.job) {
        return PAWL_OK;
    }
    TRY(vec_reserve(&match->stances, &m->stance_capacity, match->stance_count + 1,
                    sizeof *match->stances, err));
    match->stances[match->stance_count++] = stance;
    match->lacking += stance.want == MATCH_LACKS;
    return PAWL_OK;
}

/* Where shapes differ, and where there are no elements, the rank counts as wanting all of it. */
static match_stance stance_of(const state_entry *wanted, const record_entry *record) {
    match_stance s = {
        .want = state_entry_is_alike(wanted) ? MATCH_SHARES : MATCH_HOLDS,
        .copies = wanted->replicated && wanted->replica_count > 0 ? wanted->replica_count : 1,
        .held = 1,
        .elements = 1};
    if (wanted->kind != PAWL_KIND_TENSOR || record->kind != PAWL_KIND_TENSOR ||
        !shape_equal(wanted->ndim, wanted->shape, record->ndim, record->shape) ||
        shape_elements(record->ndim, record->shape) == 0) {
        return s;
    }
    s.elements = shape_elements(record->ndim, record->shape);
    s.held = 0;
    for (size_t i = 0; i < wanted->box_count; i++) {
        s.held += shape_elements(wanted->ndim, state_entry_box(wanted, i)->extent);
    }
    return s;
}

/* What the ranks found wrong with the current record; NULL: nothing. */
static const match_job_fault *fault_here(matcher *m) {
    const match_job_faults *f = m->ranks.faults;
    while (f != NULL && m->fault < f->count &&
           f->items[m->fault].first + f->items[m->fault].count <= m->place) {
        m->fault++;
    }
    bool here = f != NULL && m->fault < f->count && f->items[m->fault].first <= m->place;
    return here ? &f->items[m->fault] : NULL;
}

/* ---- records -------------------------------------------------------------------------------- */

/* A record that this rank's state lacks. In a job others may want it. */
static pawl_status match_lacking(matcher *m, const record_entry *record, const char *name,
                                 const char *slot_of, pawl_error *err) {
    bool allowed = m->options.unexpected == PAWL_POLICY_ALLOW;
    const match_job_fault *fault = allowed ? NULL : fault_here(m);
    TRY(note_stance(m, (match_stance){.want = allowed ? MATCH_LEAVES : MATCH_LACKS}, err));
    if (m->ranks.job && !allowed && fault == NULL) {
        side s = side_of_record(record);
        loose_entry other = loose_of(record->name, record->slot, record->slot_of, &s);
        return m->ranks.faults != NULL ? add_loose(m, &m->elsewhere, &other, err) : PAWL_OK;
    }
    return add_unexpected(m, record, name, slot_of, fault, err);
}

/* A record that this rank's state has. What the ranks of a job found wrong, all of them report. */
static pawl_status match_wanted(matcher *m, const record_entry *record, const char *name,
                                const char *slot_of, const state_entry *wanted, pawl_error *err) {
    const match_job_fault *fault = fault_here(m);
    TRY(note_stance(m, stance_of(wanted, record), err));
    if (fault == NULL || fault->error == MATCH_NOBODY ||
        m->options.unexpected == PAWL_POLICY_ALLOW) {
        return PAWL_OK;
    }
    return add_unexpected(m, record, name, slot_of, fault, err);
}

static pawl_status match_record(matcher *m, const record_entry *record, pawl_error *err) {
    if (!takes_part(m, record->role)) {
        report_counts(m->report)->ignored++;
        return note_stance(m, (match_stance){.want = MATCH_LEAVES}, err);
    }
    const char *name = NULL;
    const char *slot_of = NULL;
    m->records++;
    TRY(rename_apply(&m->options, record->name, &m->name, &name, err));
    if (record->slot_of != NULL) {
        TRY(rename_apply(&m->options, record->slot_of, &m->slot_of, &slot_of, err));
    }
    size_t position = 0;
    const state_entry *wanted = find_wanted(m, name, &position);
    if (wanted == NULL || !state_takes_part(m, position)) {
        return match_lacking(m, record, name, slot_of, err);
    }
    TRY(match_wanted(m, record, name, slot_of, wanted, err));
    if (m->partner[position] != 0) {
        return add_collision(m, record, name, position, err);
    }
    verdict v;
    TRY(matcher_compare(m, wanted, record, slot_of, &v, err));
    return v.fits ? add_pair(m, record, position, v.keep_caller, err)
                  : keep_unfit(m, record, position, v.other_shape, err);
}

/* ---- the whole ------------------------------------------------------------------------------ */

static pawl_status match_records(matcher *m, entry_source checkpoint, pawl_error *err) {
    for (;;) {
        const record_entry *record = NULL;
        TRY(checkpoint.next(checkpoint.context, &record, err));
        if (record == NULL) {
            return PAWL_OK;
        }
        TRY(match_record(m, record, err));
        m->place++;
    }
}

static pawl_status match_rest(matcher *m, pawl_error *err) {
    for (size_t i = 0; i < m->wanted->count; i++) {
        if (!state_takes_part(m, i)) {
            report_counts(m->report)->kept++;
        } else if (m->partner[i] == 0) {
            TRY(add_missing(m, m->wanted->entries[i], err));
        }
    }
    return PAWL_OK;
}

static pawl_status add_optimizer(matcher *m, pawl_error *err) {
    if (m->optimizer == NULL) {
        return PAWL_OK;
    }
    char text[SIDE_BYTES];
    bool caller = m->options.hyperparameter == PAWL_POLICY_CALLER;
    side s = side_of_state(m->optimizer);
    pawl_report_item item = {.difference = PAWL_DIFF_OPTIMIZER,
                             .severity = caller ? PAWL_SEVERITY_WARNING : PAWL_SEVERITY_ERROR,
                             .name = m->optimizer->name,
                             .checkpoint = m->optimizer_checkpoint,
                             .state = side_text(text, &s, false),
                             .dimension = -1,
                             .count = 1};
    sentence_facts facts = {.used_side = caller ? "state" : NULL,
                            .slots_unexpected = m->slots_unexpected,
                            .slots_missing = m->slots_missing};
    return report_add_facts(m->report, &item, &facts, err);
}

static bool wants_anything(const matcher *m) {
    for (size_t i = 0; i < m->wanted->count; i++) {
        if (state_takes_part(m, i)) {
            return true;
        }
    }
    return false;
}

/* R13: refuses a state without entries, into which nothing would be restored. One rank of a job may
 * hold nothing: what is missing then is found when the ranks compare. */
static pawl_status check_state(const matcher *m, pawl_error *err) {
    if (m->records == 0 || m->ranks.job || wants_anything(m)) {
        return PAWL_OK;
    }
    error_set(err, PAWL_EUSAGE, "cannot restore: the state has no %s",
              m->options.model_only != 0 ? "entries of role model" : "entries");
    error_next(err,
               "build the model and add its tensors with pawl_state_add_tensor before restoring");
    return PAWL_EUSAGE;
}

/* R13: refuses a match without a pair, also where the options allow every difference. */
static pawl_status check_pairs(const matcher *m, pawl_error *err) {
    if (m->match->refused || m->match->pair_count > 0 || m->records == 0 ||
        (m->ranks.job && !wants_anything(m))) {
        return PAWL_OK;
    }
    error_set(
        err, PAWL_EMISMATCH,
        "nothing would be restored: no entry of the checkpoint has a counterpart in the state");
    error_safe(err, "the state is as it was");
    error_next(err, "compare the names (pawl show lists the checkpoint's) and add rules to "
                    "options.renames, or restore another checkpoint");
    return PAWL_EMISMATCH;
}

static pawl_status match_all(matcher *m, entry_source checkpoint, pawl_error *err) {
    uint64_t before = m->report->found[PAWL_SEVERITY_ERROR];
    m->partner = mem_calloc(m->wanted->count, sizeof(*m->partner));
    if (m->partner == NULL) {
        return error_nomem(err, m->wanted->count * sizeof(*m->partner));
    }
    TRY(match_records(m, checkpoint, err));
    TRY(check_state(m, err));
    TRY(matcher_slots(m, err));
    TRY(match_rest(m, err));
    TRY(add_optimizer(m, err));
    TRY(m->trial ? PAWL_OK : matcher_suggest(m, err));
    m->match->refused = m->report->found[PAWL_SEVERITY_ERROR] > before;
    return check_pairs(m, err);
}

static void matcher_free(matcher *m) {
    mem_free(m->partner);
    mem_free(m->unfit);
    mem_free(m->checkpoint.entries);
    mem_free(m->state.entries);
    mem_free(m->elsewhere.entries);
    buffer_free(&m->name);
    buffer_free(&m->slot_of);
    arena_free(&m->memory);
    match_free(m->match);
}

pawl_status match_make(const state_snapshot *wanted, entry_source checkpoint,
                       const pawl_restore_options *options, const match_ranks *ranks,
                       pawl_report *report, match_result **out, pawl_error *err) {
    CLEANUP(matcher_free) matcher m = {.wanted = wanted, .ranks = *ranks, .report = report};
    TRY(match_options(options, &m.options, err));
    m.match = mem_calloc(1, sizeof(*m.match));
    if (m.match == NULL) {
        return error_nomem(err, sizeof(*m.match));
    }
    TRY(match_all(&m, checkpoint, err));
    TRY(checkpoint.again != NULL ? matcher_prove(&m, checkpoint, err) : PAWL_OK);
    *out = m.match;
    m.match = NULL;
    return PAWL_OK;
}

size_t match_renamed(const match_result *match) {
    size_t renamed = 0;
    for (size_t i = 0; i < match->pair_count; i++) {
        renamed += strcmp(match->pairs[i].source->name, match->pairs[i].wanted->name) != 0;
    }
    return renamed;
}

/* A state or a match without entries, rules that make no name: whoever follows the advice is told
 * so then. */
static bool ends_there(pawl_status status) {
    return status == PAWL_EUSAGE || status == PAWL_ELIMIT || status == PAWL_EMISMATCH;
}

pawl_status matcher_try(const matcher *of, entry_source checkpoint,
                        const pawl_restore_options *options, const bool *left_out,
                        matcher_outcome *out, pawl_error *err) {
    CLEANUP(matcher_free)
    matcher m = {.wanted = of->wanted,
                 .ranks = of->ranks,
                 .options = *options,
                 .trial = true,
                 .left_out = left_out};
    TRY(checkpoint.again(checkpoint.context, err));
    TRY(report_new(&out->report, err));
    m.report = out->report;
    m.match = mem_calloc(1, sizeof(*m.match));
    if (m.match == NULL) {
        return error_nomem(err, sizeof(*m.match));
    }
    pawl_status status = match_all(&m, checkpoint, err);
    out->dead_end = ends_there(status);
    out->pairs = m.match->pair_count;
    out->renamed = match_renamed(m.match);
    for (size_t i = 0; m.partner != NULL && i < m.wanted->count; i++) {
        bool model = m.wanted->entries[i]->role == PAWL_ROLE_MODEL;
        out->model += model;
        out->model_stay += model && m.partner[i] <= 0;
    }
    return out->dead_end ? PAWL_OK : status;
}

void match_free(match_result *match) {
    if (match != NULL) {
        mem_free(match->pairs);
        mem_free(match->stances);
        arena_free(&match->memory);
        mem_free(match);
    }
}
