/* SPDX-License-Identifier: Apache-2.0 */
/* pawl convert: writes a checkpoint in another format. */
#include "cli.h"
#include "signals.h"
#include "text.h"

#include <inttypes.h>
#include <string.h>

typedef struct conversion {
    output *out;
    table *rows; /* of a dry run; else NULL */
    bool dry_run;
    pawl_convert_result done;
} conversion;

static const char *fate_name(pawl_convert_fate fate) {
    switch (fate) {
    case PAWL_CONVERTED:
        return "converted";
    case PAWL_LEFT_OUT:
        return "left out";
    default:
        return "dropped";
    }
}

static const char *type_of(const pawl_entry_info *entry) {
    return entry->type != NULL ? entry->type : pawl_kind_name(entry->kind);
}

/* What a person wants to know of an entry: how it changes, or why it is not there. */
static void show_item(const conversion *c, const pawl_convert_item *item) {
    bool converted = item->fate == PAWL_CONVERTED;
    bool renamed = converted && strcmp(item->name, item->from->name) != 0;
    bool cast = converted && item->dtype != item->from->dtype;
    table_cell(c->rows, "%s", item->from->name);
    table_cell(c->rows, "%s%s%s", type_of(item->from), cast ? " -> " : "",
               cast ? pawl_dtype_name(item->dtype) : "");
    table_cell(c->rows, "%s", renamed ? item->name : converted ? "" : fate_name(item->fate));
    table_cell(c->rows, "%s", item->why != NULL ? item->why : "");
    table_row(c->rows);
}

static void put_item(json *j, const pawl_convert_item *item) {
    json_begin_object(j, NULL, JSON_INLINE);
    json_put_text(j, "name", item->from->name);
    json_put_text(j, "type", type_of(item->from));
    json_put_text(j, "fate", fate_name(item->fate));
    if (item->fate == PAWL_CONVERTED) {
        json_put_text(j, "to_name", item->name);
    }
    if (item->fate == PAWL_CONVERTED && item->dtype != 0) {
        json_put_text(j, "to_type", pawl_dtype_name(item->dtype));
    }
    if (item->why != NULL) {
        json_put_text(j, "why", item->why);
    }
    json_close(j);
}

/* Of what is done, and not only planned, what is dropped is all that is told; as JSON also what is
 * not written as what it is. */
static void on_item(void *context, const pawl_convert_item *item) {
    const conversion *c = context;
    if (c->out->as_json) {
        if (c->dry_run || item->fate == PAWL_DROPPED ||
            (item->fate == PAWL_CONVERTED && item->why != NULL)) {
            put_item(&c->out->json, item);
        }
    } else if (c->rows != NULL) {
        show_item(c, item);
    } else if (item->fate == PAWL_DROPPED) {
        output_line(c->out, "dropped %s: %s", item->from->name, item->why);
    }
}

static void on_progress(void *context, uint64_t done_bytes, uint64_t of_bytes) {
    const conversion *c = context;
    progress_update(&c->out->progress, done_bytes, of_bytes);
}

static int is_stop_wanted(void *context) {
    (void)context;
    return signals_caught();
}

static void put_totals(const conversion *c, const char *path) {
    json *j = &c->out->json;
    const pawl_convert_result *r = &c->done;
    json_put_text(j, "path", path);
    json_put_text(j, "format", r->format);
    json_put_uint(j, "tensors", r->tensors);
    json_put_uint(j, "values", r->values);
    json_put_uint(j, "renamed", r->renamed);
    json_put_uint(j, "cast", r->cast);
    json_put_uint(j, "left_out", r->left_out);
    json_put_uint(j, "dropped", r->dropped);
    json_put_uint(j, "bytes", r->bytes);
    json_put_uint(j, "overflows", r->overflows);
    json_put_text(j, "unverified", r->unverified);
    json_put_uint(j, "described", r->described);
}

static void print_totals(const conversion *c, const char *path) {
    const pawl_convert_result *r = &c->done;
    char tensors[TEXT_SIZE], values[TEXT_SIZE], bytes[TEXT_SIZE];
    output_line(c->out,
                "%s%s: %s, %s and %s; %" PRIu64 " renamed, %" PRIu64 " cast, %" PRIu64
                " left out, %" PRIu64 " dropped",
                c->dry_run ? "would write " : "", path,
                text_count(tensors, r->tensors, "tensor", "tensors"),
                text_count(values, r->values, "value", "values"), text_bytes(bytes, r->bytes),
                r->renamed, r->cast, r->left_out, r->dropped);
    if (r->overflows > 0) {
        output_line(c->out, "%" PRIu64 " %s, and became infinite", r->overflows,
                    text_noun(r->overflows, "number was too large for its new type",
                              "numbers were too large for their new type"));
    }
    if (r->described > 0) {
        output_line(c->out, "%s written as what describes %s%s",
                    text_count(values, r->described, "value", "values"),
                    r->described == 1 ? "it" : "them", c->dry_run ? "" : " (--dry-run names them)");
    }
    if (r->unverified != NULL && !c->dry_run) {
        output_line(c->out, "of what was read, %s", r->unverified);
    }
}

static pawl_status convert_it(const arguments *args, conversion *c, pawl_checkpoint *from,
                              const char *path, const int64_t *step) {
    static const column columns[] = {{.title = "ENTRY", .shorten_turn = 2},
                                     {.title = "TYPE"},
                                     {.title = "BECOMES", .shorten_turn = 1},
                                     {.title = "WHY", .shorten_turn = 3, .omit_turn = 1}};
    const pawl_convert_options options = {
        .struct_size = sizeof options,
        .to = args->to,
        .only = args->only.words,
        .only_count = args->only.count,
        .renames = args->renames.rules,
        .rename_size = sizeof(pawl_rename),
        .rename_count = args->renames.count,
        .cast = args->cast,
        .drop = args->drop,
        .shard_bytes = args->shard_bytes,
        .step = step,
        .dry_run = args->dry_run,
        .item = on_item,
        .progress = on_progress,
        .stop = is_stop_wanted,
        .context = c,
    };
    c->done.struct_size = sizeof c->done;
    if (c->dry_run && !c->out->as_json) {
        c->rows = table_new(c->out, columns, sizeof columns / sizeof columns[0]);
    }
    progress_begin(&c->out->progress, "converting");
    pawl_status status = pawl_convert(from, path, &options, &c->done, c->out->err);
    progress_hide(&c->out->progress);
    if (c->rows != NULL) {
        table_end(c->rows);
    }
    return status;
}

/* Only a run has steps: RUN@STEP. Of any other format the whole word is the path. */
static bool is_run(const arguments *args) {
    return args->to == NULL || strcmp(args->to, "pawl") == 0;
}

/* The step that is written is no step that is there. */
static bool names_newest(const arguments *args) {
    const target *to = &args->targets[1];
    return is_run(args) && to->has_step && to->step == NEWEST_STEP;
}

int verb_convert(const arguments *args, output *out) {
    SCOPED(scoped_checkpoint) pawl_checkpoint *from = NULL;
    conversion c = {.out = out, .dry_run = args->dry_run};
    const target *source = &args->targets[0];
    const target *to = &args->targets[1];
    const char *path = is_run(args) ? to->run : args->destination;
    const int64_t *step = is_run(args) && to->has_step ? &to->step : NULL;
    if (names_newest(args)) {
        return output_usage(out, "convert", "the step that is written needs a number: %s@STEP",
                            to->run);
    }
    signals_catch();
    if (out->as_json) {
        json_put_text(&out->json, "from", source->run);
        json_put_bool(&out->json, "dry_run", args->dry_run);
    }
    if (target_open(source->run, source->step, out, &from) != PAWL_OK) {
        return output_fail(out);
    }
    if (out->as_json) {
        json_begin_array(&out->json, "entries", JSON_LINES);
    }
    if (convert_it(args, &c, from, path, step) != PAWL_OK) {
        return output_fail(out);
    }
    if (out->as_json) {
        json_close(&out->json);
        put_totals(&c, path);
    } else {
        print_totals(&c, path);
    }
    return EXIT_DONE;
}
