/* SPDX-License-Identifier: Apache-2.0 */
/* pawl diff: compares two checkpoints. */
#include "about.h"
#include "cli.h"
#include "diff.h"
#include "numbers.h"
#include "signals.h"
#include "text.h"

#include <inttypes.h>
#include <string.h>

typedef struct comparison {
    output *out;
    table *rows; /* NULL when printing JSON */
    pawl_diff_result found;
} comparison;

static void on_difference(void *context, const pawl_diff_item *difference) {
    const comparison *c = context;
    diff_show(c->out, c->rows, difference);
}

static void on_progress(void *context, uint64_t done_bytes, uint64_t of_bytes) {
    const comparison *c = context;
    progress_update(&c->out->progress, done_bytes, of_bytes);
}

static int is_stop_wanted(void *context) {
    (void)context;
    return signals_caught();
}

static bool is_identical(const pawl_diff_result *found) {
    return found->different + found->only_a + found->only_b == 0;
}

static void print_totals(output *out, const pawl_diff_result *found, bool structure) {
    char same[TEXT_SIZE];
    char max[NUMBER_SIZE];
    char uncompared[TEXT_SIZE];
    if (is_identical(found)) {
        output_line(out, "no difference%s in %s", structure ? " of structure" : "",
                    text_count(same, found->same, "entry", "entries"));
        return;
    }
    bool apart = found->max_abs > 0;
    snprintf(uncompared, sizeof uncompared, "; %" PRIu64 " not compared", found->uncompared);
    putchar('\n');
    output_line(out,
                "%s the same, %" PRIu64 " different, %" PRIu64 " only in A, %" PRIu64
                " only in B%s%s%s",
                text_count(same, found->same, "entry", "entries"), found->different, found->only_a,
                found->only_b, apart ? "; numbers differ by at most " : "",
                apart ? number_text(max, found->max_abs, SHOWN_DIGITS) : "",
                found->uncompared > 0 ? uncompared : "");
}

static void put_totals(json *j, const pawl_diff_result *found) {
    json_put_bool(j, "identical", is_identical(found));
    json_put_uint(j, "same", found->same);
    json_put_uint(j, "different", found->different);
    json_put_uint(j, "only_a", found->only_a);
    json_put_uint(j, "only_b", found->only_b);
    json_put_uint(j, "uncompared", found->uncompared);
    json_put_number(j, "max_abs", found->max_abs, EXACT_DIGITS);
}

static pawl_status describe_side(output *out, const char *key, const char *run,
                                 const pawl_checkpoint *from) {
    pawl_checkpoint_info about = {.struct_size = sizeof about};
    pawl_status status = pawl_checkpoint_describe(from, &about, out->err);
    if (status != PAWL_OK) {
        return status;
    }
    if (!out->as_json) {
        SCOPED(scoped_free) char *origin = about_origin(&about);
        output_field(out, strcmp(key, "a") == 0 ? "A" : "B", "%s %s", run, origin);
        return PAWL_OK;
    }
    json *j = &out->json;
    json_begin_object(j, key, JSON_INLINE);
    json_put_text(j, "run", run);
    about_json_step(j, about.step);
    json_put_text(j, "path", about.path);
    json_put_int(j, "unix_time_ns", about.unix_time_ns);
    json_put_int(j, "world_size", about.world_size);
    json_close(j);
    return PAWL_OK;
}

static pawl_status tell_differences(comparison *c, pawl_checkpoint *a, pawl_checkpoint *b,
                                    const arguments *args) {
    static const column columns[] = {{.title = "DIFFERENCE"},
                                     {.title = "ENTRY", .shorten_turn = 2},
                                     {.title = "DETAIL", .shorten_turn = 1, .keeps = 20}};
    const pawl_diff_options options = {
        .struct_size = sizeof options,
        .difference = on_difference,
        .progress = on_progress,
        .context = c,
        .structure_only = args->structure,
        .stop = is_stop_wanted,
        .renames = args->renames.rules,
        .rename_size = sizeof(pawl_rename),
        .rename_count = args->renames.count,
        .transpose = args->transpose.words,
        .transpose_count = args->transpose.count,
    };
    c->found.struct_size = sizeof c->found;
    if (!c->out->as_json) {
        putchar('\n');
        c->rows = table_new(c->out, columns, sizeof columns / sizeof columns[0]);
    }
    progress_begin(&c->out->progress, "comparing");
    pawl_status status = pawl_checkpoint_diff(a, b, &options, &c->found, c->out->err);
    progress_hide(&c->out->progress);
    if (c->rows != NULL) {
        table_end(c->rows);
    }
    return status;
}

static int report_differences(output *out, pawl_checkpoint *a, pawl_checkpoint *b,
                              const arguments *args) {
    comparison c = {.out = out};
    if (out->as_json) {
        json_put_bool(&out->json, "structure_only", args->structure);
        json_begin_array(&out->json, "differences", JSON_LINES);
    }
    if (tell_differences(&c, a, b, args) != PAWL_OK) {
        return output_fail(out);
    }
    if (out->as_json) {
        json_close(&out->json);
        put_totals(&out->json, &c.found);
    } else {
        print_totals(out, &c.found, args->structure);
    }
    return is_identical(&c.found) ? EXIT_DONE : EXIT_DIFFERENT;
}

int verb_diff(const arguments *args, output *out) {
    SCOPED(scoped_checkpoint) pawl_checkpoint *a = NULL;
    SCOPED(scoped_checkpoint) pawl_checkpoint *b = NULL;
    const target *at = &args->targets[0];
    const target *bt = &args->targets[1];
    signals_catch();
    if (target_open(at->run, at->step, out, &a) != PAWL_OK ||
        target_open(bt->run, bt->step, out, &b) != PAWL_OK ||
        describe_side(out, "a", at->run, a) != PAWL_OK ||
        describe_side(out, "b", bt->run, b) != PAWL_OK) {
        return output_fail(out);
    }
    return report_differences(out, a, b, args);
}
