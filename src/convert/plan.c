/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of each entry of a checkpoint that is converted. */
#include "convert/convert.h"
#include "format/limits.h"
#include "match/rename.h"
#include "tensor/tensor.h"

#include <stdlib.h>
#include <string.h>

typedef struct planning {
    convert_plan *plan;
    const writer_format *to;
    const pawl_convert_options *options;
    pawl_convert_result *result;
    pawl_restore_options renames; /* what rename_apply takes */
    buffer name, slot_of;
    bool any_last;       /* there is the entry that the format judges last, */
    bool last;           /* and this is it, */
    const buffer *bytes; /* a tensor, of these bytes; NULL: it is none */
} planning;

/* ---- one entry ------------------------------------------------------------------------------ */

static bool is_below(const char *name, const char *prefix) {
    size_t n = strlen(prefix);
    while (n > 0 && prefix[n - 1] == '/') {
        n--;
    }
    return n == 0 || (strncmp(name, prefix, n) == 0 && (name[n] == '\0' || name[n] == '/'));
}

static bool is_wanted(const planning *p, const char *name) {
    const pawl_convert_options *o = p->options;
    bool wanted = o->only_count == 0;
    for (size_t i = 0; !wanted && i < o->only_count; i++) {
        wanted = is_below(name, o->only[i]);
    }
    return wanted;
}

static bool is_cast_dtype(pawl_dtype dtype) {
    return dtype == PAWL_F64 || dtype == PAWL_F32 || dtype == PAWL_F16 || dtype == PAWL_BF16;
}

static void tell(const planning *p, pawl_convert_fate fate, const pawl_entry_info *from,
                 const writer_item *to, const char *why) {
    const pawl_convert_item item = {.struct_size = sizeof(item),
                                    .fate = fate,
                                    .from = from,
                                    .name = to != NULL ? to->name : NULL,
                                    .dtype = to != NULL ? to->dtype : 0,
                                    .why = why};
    if (p->options->item != NULL) {
        p->options->item(p->options->context, &item);
    }
}

/* What no format has a place for, in words; NULL: it may have one. */
static const char *refusal(const planning *p, const pawl_entry_info *from, const writer_item *to) {
    if (from->kind == PAWL_KIND_TENSOR && from->dtype == 0) {
        return "its type is none that pawl can read the values of";
    }
    if (from->per_rank) {
        return "each rank has a value of its own";
    }
    return p->to != NULL ? p->to->refuses(to) : NULL;
}

static pawl_status has_no_place(const planning *p, const pawl_entry_info *from, const char *why,
                                pawl_error *err) {
    error_set(err, PAWL_EUNSUPPORTED, "%s has no place for an entry: %s",
              p->to != NULL ? p->to->name : "pawl", why);
    error_entry(err, from->name);
    error_next(err, "leave out what has no place (drop), or convert other "
                    "entries alone (only)");
    return PAWL_EUNSUPPORTED;
}

/* Of a value a NUL is behind the bytes, so that text can be read in place. */
static pawl_status copy_contents(arena *memory, writer_item *to, pawl_error *err) {
    size_t dims = (size_t)to->ndim * sizeof(*to->shape);
    int64_t *shape = arena_take(memory, dims, err);
    uint8_t *value =
        to->kind != PAWL_KIND_TENSOR ? arena_take(memory, to->value_bytes + 1, err) : NULL;
    if (shape == NULL || (value == NULL && to->kind != PAWL_KIND_TENSOR)) {
        return PAWL_ENOMEM;
    }
    if (dims > 0) {
        memcpy(shape, to->shape, dims);
    }
    if (value != NULL && to->value_bytes > 0) {
        memcpy(value, to->value, to->value_bytes);
    }
    if (value != NULL) {
        value[to->value_bytes] = 0;
    }
    to->shape = shape;
    to->value = value;
    return PAWL_OK;
}

/* What is not renamed has one name. */
static pawl_status copy_item(planning *p, const pawl_entry_info *from, plan_item *item,
                             writer_item *to, pawl_error *err) {
    arena *memory = &p->plan->memory;
    bool renamed = strcmp(to->name, from->name) != 0;
    item->from = arena_strdup(memory, from->name);
    to->name = renamed ? arena_strdup(memory, to->name) : item->from;
    to->slot_of = to->slot_of != NULL ? arena_strdup(memory, to->slot_of) : NULL;
    to->slot = from->slot != NULL ? arena_strdup(memory, from->slot) : NULL;
    if (item->from == NULL || to->name == NULL ||
        (to->slot_of == NULL) != (from->slot_of == NULL) ||
        (to->slot == NULL) != (from->slot == NULL)) {
        return error_nomem(err, strlen(from->name) + 1);
    }
    return copy_contents(memory, to, err);
}

/* What it becomes, if it has a place. */
static pawl_status describe_item(planning *p, const pawl_entry_info *from, plan_item *item,
                                 writer_item *to, pawl_error *err) {
    pawl_dtype cast = p->options->cast;
    *item = (plan_item){.from = from->name, .from_dtype = from->dtype, .from_bytes = from->bytes};
    *to = (writer_item){.kind = from->kind,
                        .role = from->role,
                        .slot_of = from->slot_of,
                        .slot = from->slot,
                        .dtype = from->dtype,
                        .ndim = from->ndim,
                        .shape = from->shape,
                        .bytes = from->bytes};
    if (p->bytes != NULL) {
        to->kind = PAWL_KIND_BYTES;
        to->value = p->bytes->data;
        to->value_bytes = p->bytes->size;
        to->bytes = 0;
        item->from_bytes = 0;
    } else if (from->kind != PAWL_KIND_TENSOR) {
        to->value = from->value;
        to->value_bytes = (size_t)from->bytes;
        to->bytes = 0;
        item->from_bytes = 0;
    } else if (cast != 0 && cast != from->dtype && is_cast_dtype(from->dtype)) {
        to->dtype = cast;
        return shape_check(cast, to->ndim, to->shape, NULL, &to->bytes, err);
    }
    return PAWL_OK;
}

static void count_item(planning *p, const plan_item *item, const writer_item *to, bool renamed) {
    pawl_convert_result *r = p->result;
    bool tensor = to->kind == PAWL_KIND_TENSOR;
    r->tensors += tensor;
    r->values += !tensor;
    r->renamed += renamed;
    r->cast += tensor && to->dtype != item->from_dtype;
    r->bytes += to->bytes;
    p->plan->from_bytes += item->from_bytes;
}

static pawl_status add_item(convert_plan *plan, const plan_item *item, const writer_item *to,
                            pawl_error *err) {
    size_t need = plan->count + 1;
    TRY(vec_reserve(&plan->items, &plan->item_room, need, sizeof(*item), err));
    TRY(vec_reserve(&plan->writing, &plan->writing_room, need, sizeof(*to), err));
    plan->items[plan->count] = *item;
    plan->writing[plan->count++] = *to;
    return PAWL_OK;
}

static pawl_status plan_entry(planning *p, const pawl_entry_info *from, pawl_error *err) {
    convert_plan *plan = p->plan;
    writer_item to;
    plan_item item;
    if (!is_wanted(p, from->name)) {
        p->result->left_out++;
        tell(p, PAWL_LEFT_OUT, from, NULL, NULL);
        return PAWL_OK;
    }
    TRY(describe_item(p, from, &item, &to, err));
    pawl_status status = rename_apply(&p->renames, from->name, &p->name, &to.name, err);
    if (status != PAWL_OK) {
        error_entry(err, from->name);
        return status;
    }
    if (from->slot_of != NULL) { /* it may be renamed, too */
        TRY(rename_apply(&p->renames, from->slot_of, &p->slot_of, &to.slot_of, err));
    }
    const char *why = refusal(p, from, &to);
    if (why == NULL && p->last) {
        TRY(p->to->misfit(&to, plan->writing, plan->count, p->result->renamed > 0, &why, err));
    }
    if (why != NULL && p->options->drop == 0) {
        return has_no_place(p, from, why, err);
    }
    if (why != NULL) {
        p->result->dropped++;
        tell(p, PAWL_DROPPED, from, NULL, why);
        return PAWL_OK;
    }
    const char *as = p->to != NULL && p->to->changes != NULL ? p->to->changes(&to) : NULL;
    count_item(p, &item, &to, strcmp(to.name, from->name) != 0);
    p->result->described += as != NULL;
    tell(p, PAWL_CONVERTED, from, &to, as);
    TRY(copy_item(p, from, &item, &to, err));
    return add_item(plan, &item, &to, err);
}

/* ---- all of them ---------------------------------------------------------------------------- */

static bool is_last(const planning *p, const char *name) {
    return p->to != NULL && p->to->last != NULL && strcmp(name, p->to->last) == 0;
}

static pawl_status plan_entries(planning *p, pawl_checkpoint *from, pawl_error *err) {
    pawl_entries *walk = NULL;
    int more = 1;
    TRY(entries_open(from, "", &walk, err));
    pawl_status status = PAWL_OK;
    while (status == PAWL_OK && more != 0) {
        pawl_entry_info info = {0};
        status = entries_next(walk, &info, &more, err);
        if (status != PAWL_OK || more == 0) {
            continue;
        }
        if (is_last(p, info.name)) {
            p->any_last = true;
        } else {
            status = plan_entry(p, &info, err);
        }
    }
    pawl_entries_free(walk);
    return status;
}

static pawl_status same_name(const convert_plan *plan, size_t i, pawl_error *err) {
    error_set(err, PAWL_EUSAGE, "two entries would have one name");
    error_entry(err, plan->writing[i].name);
    error_expected(err, "rename rules that give each entry a name of its own");
    error_found(err, "it stands for %.200s and for %.200s", plan->items[i - 1].from,
                plan->items[i].from);
    return PAWL_EUSAGE;
}

static int by_new_name(const void *a, const void *b) {
    return strcmp((*(const plan_item *)a).to->name, (*(const plan_item *)b).to->name);
}

static bool is_sorted(const convert_plan *plan) {
    size_t i = 1;
    while (i < plan->count && strcmp(plan->writing[i - 1].name, plan->writing[i].name) < 0) {
        i++;
    }
    return i >= plan->count;
}

/* Renamed entries have another order. */
static pawl_status sort_by_new_name(convert_plan *plan, pawl_error *err) {
    AUTOFREE writer_item *sorted = NULL;
    for (size_t i = 0; i < plan->count; i++) {
        plan->items[i].to = &plan->writing[i];
    }
    if (is_sorted(plan)) {
        return PAWL_OK;
    }
    sorted = mem_alloc(plan->count * sizeof(*sorted));
    if (sorted == NULL) {
        return error_nomem(err, plan->count * sizeof(*sorted));
    }
    qsort(plan->items, plan->count, sizeof(*plan->items), by_new_name);
    for (size_t i = 0; i < plan->count; i++) {
        sorted[i] = *plan->items[i].to;
    }
    for (size_t i = 0; i < plan->count; i++) {
        plan->writing[i] = sorted[i];
        plan->items[i].to = &plan->writing[i];
        if (i > 0 && strcmp(sorted[i - 1].name, sorted[i].name) == 0) {
            return same_name(plan, i, err);
        }
    }
    return PAWL_OK;
}

static bool is_tensor_there(const convert_plan *plan, const char *name) {
    size_t low = 0;
    size_t high = plan->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(plan->writing[middle].name, name);
        if (order == 0) {
            return plan->writing[middle].kind == PAWL_KIND_TENSOR;
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return false;
}

/* A slot whose variable is left out is none. */
static void free_slots(convert_plan *plan) {
    for (size_t i = 0; i < plan->count; i++) {
        writer_item *to = &plan->writing[i];
        if (to->slot_of != NULL && !is_tensor_there(plan, to->slot_of)) {
            to->role = PAWL_ROLE_OTHER;
            to->slot_of = NULL;
            to->slot = NULL;
        }
    }
}

/* ---- the last one --------------------------------------------------------------------------- */

static pawl_status load(pawl_checkpoint *from, const pawl_entry_info *info, buffer *out,
                        pawl_error *err) {
    TRY(buffer_reserve(out, (size_t)info->bytes, err));
    out->size = (size_t)info->bytes;
    return checkpoint_read(from, info->name, NULL, NULL, out->data, out->size, err);
}

static pawl_status plan_last(planning *p, pawl_checkpoint *from, pawl_error *err) {
    CLEANUP(buffer_free) buffer bytes = {0};
    pawl_entry_info info = {0};
    TRY(sort_by_new_name(p->plan, err));
    TRY(checkpoint_find(from, p->to->last, &info, err));
    p->last = true;
    if (info.kind == PAWL_KIND_TENSOR && info.dtype == PAWL_U8 && info.ndim == 1 &&
        info.bytes <= FOREIGN_MAX_GRAPH) {
        TRY(load(from, &info, &bytes, err));
        p->bytes = &bytes;
    }
    pawl_status status = plan_entry(p, &info, err);
    p->bytes = NULL;
    return status;
}

/* ---- the whole plan ------------------------------------------------------------------------- */

/* A name that is mistaken is no reason to leave everything else out, or as it is. */
static pawl_status check_given(pawl_checkpoint *from, const pawl_convert_options *o,
                               pawl_error *err) {
    const given_names only = {.what = "only", .names = o->only, .count = o->only_count};
    const given_names renames = {.rules = o->renames, .count = o->rename_count};
    TRY(checkpoint_check_given(from, &only, err));
    return checkpoint_check_given(from, &renames, err);
}

static pawl_status plan_all(planning *p, pawl_checkpoint *from, pawl_error *err) {
    TRY(check_given(from, p->options, err));
    TRY(plan_entries(p, from, err));
    TRY(p->any_last ? plan_last(p, from, err) : PAWL_OK);
    TRY(sort_by_new_name(p->plan, err));
    free_slots(p->plan);
    return PAWL_OK;
}

static pawl_status is_nothing(const pawl_checkpoint *from, const pawl_convert_result *result,
                              pawl_error *err) {
    error_set(err, PAWL_EUSAGE, "there is nothing to convert");
    error_expected(err, "at least one entry");
    error_found(err, "%s: %llu %s left out, %llu dropped", checkpoint_label(from),
                (unsigned long long)result->left_out,
                text_noun(result->left_out, "entry", "entries"),
                (unsigned long long)result->dropped);
    return PAWL_EUSAGE;
}

pawl_status convert_plan_make(pawl_checkpoint *from, const writer_format *to,
                              const pawl_convert_options *options, convert_plan *plan,
                              pawl_convert_result *result, pawl_error *err) {
    planning p = {.plan = plan,
                  .to = to,
                  .options = options,
                  .result = result,
                  .renames = {.struct_size = sizeof(p.renames),
                              .renames = options->renames,
                              .rename_size = sizeof(pawl_rename),
                              .rename_count = options->rename_count}};
    pawl_status status = plan_all(&p, from, err);
    buffer_free(&p.name);
    buffer_free(&p.slot_of);
    TRY(status);
    return plan->count > 0 ? PAWL_OK : is_nothing(from, result, err);
}

void convert_plan_free(convert_plan *plan) {
    mem_free(plan->items);
    mem_free(plan->writing);
    arena_free(&plan->memory);
}
