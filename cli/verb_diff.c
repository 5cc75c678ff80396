/* SPDX-License-Identifier: Apache-2.0 */
/* pawl diff: compares two checkpoints by walking their sorted entries side by side. */
#include "about.h"
#include "diff.h"
#include "numbers.h"
#include "signals.h"
#include "text.h"

#include <inttypes.h>
#include <string.h>

static pawl_status merge_walks(comparison *c, pawl_entries *walk_a, pawl_entries *walk_b) {
    pawl_entry_info a = {.struct_size = sizeof a};
    pawl_entry_info b = {.struct_size = sizeof b};
    int more_a = 1;
    int more_b = 1;
    int order = 0; /* which walk goes on: negative A's, positive B's, 0 both */
    for (;;) {
        pawl_status status =
            order <= 0 ? pawl_entries_next(walk_a, &a, &more_a, c->out->err) : PAWL_OK;
        if (status == PAWL_OK && order >= 0) {
            status = pawl_entries_next(walk_b, &b, &more_b, c->out->err);
        }
        if (status != PAWL_OK) {
            (void)diff_queue_end(c);
            return status;
        }
        if (!more_a && !more_b) {
            return diff_queue_end(c);
        }
        order = !more_a ? 1 : !more_b ? -1 : strcmp(a.name, b.name);
        status = diff_queue_add(c, order <= 0 ? &a : NULL, order >= 0 ? &b : NULL);
        if (status != PAWL_OK) {
            return status;
        }
    }
}

pawl_status diff_entries(comparison *c) {
    SCOPED(scoped_entries) pawl_entries *walk_a = NULL;
    SCOPED(scoped_entries) pawl_entries *walk_b = NULL;
    pawl_status status = pawl_entries_open(c->a, "", &walk_a, c->out->err);
    if (status == PAWL_OK) {
        status = pawl_entries_open(c->b, "", &walk_b, c->out->err);
    }
    if (status == PAWL_OK) {
        status = merge_walks(c, walk_a, walk_b);
    }
    diff_queue_free(c);
    return status;
}

static bool is_identical(const comparison *c) {
    return c->different + c->only_a + c->only_b == 0;
}

static void print_totals(const comparison *c) {
    char same[TEXT_SIZE];
    char max[NUMBER_SIZE];
    char uncompared[TEXT_SIZE];
    if (is_identical(c)) {
        output_line(c->out, "no difference%s in %s", c->structure ? " of structure" : "",
                    text_count(same, c->same, "entry", "entries"));
        return;
    }
    bool apart = c->max_abs > 0;
    snprintf(uncompared, sizeof uncompared, "; %" PRIu64 " not compared", c->uncompared);
    putchar('\n');
    output_line(c->out,
                "%s the same, %" PRIu64 " different, %" PRIu64 " only in A, %" PRIu64
                " only in B%s%s%s",
                text_count(same, c->same, "entry", "entries"), c->different, c->only_a, c->only_b,
                apart ? "; numbers differ by at most " : "",
                apart ? number_text(max, c->max_abs, SHOWN_DIGITS) : "",
                c->uncompared > 0 ? uncompared : "");
}

static void put_totals(json *j, const comparison *c) {
    json_put_bool(j, "identical", is_identical(c));
    json_put_uint(j, "same", c->same);
    json_put_uint(j, "different", c->different);
    json_put_uint(j, "only_a", c->only_a);
    json_put_uint(j, "only_b", c->only_b);
    json_put_uint(j, "uncompared", c->uncompared);
    json_put_number(j, "max_abs", c->max_abs, EXACT_DIGITS);
}

static pawl_status describe_side(comparison *c, const char *key, const char *run,
                                 pawl_checkpoint *from) {
    pawl_checkpoint_info about = {.struct_size = sizeof about};
    pawl_status status = pawl_checkpoint_describe(from, &about, c->out->err);
    if (status != PAWL_OK) {
        return status;
    }
    c->of_bytes += about.data_bytes;
    c->world_size = about.world_size > c->world_size ? about.world_size : c->world_size;
    if (!c->out->as_json) {
        SCOPED(scoped_free) char *origin = about_origin(&about);
        output_field(c->out, strcmp(key, "a") == 0 ? "A" : "B", "%s %s", run, origin);
        return PAWL_OK;
    }
    json *j = &c->out->json;
    json_begin_object(j, key, JSON_INLINE);
    json_put_text(j, "run", run);
    about_json_step(j, about.step);
    json_put_text(j, "path", about.path);
    json_put_int(j, "unix_time_ns", about.unix_time_ns);
    json_put_int(j, "world_size", about.world_size);
    json_close(j);
    return PAWL_OK;
}

static int report_differences(comparison *c) {
    static const column columns[] = {{.title = "DIFFERENCE"},
                                     {.title = "ENTRY", .shorten_turn = 2},
                                     {.title = "DETAIL", .shorten_turn = 1, .keeps = 20}};
    if (c->out->as_json) {
        json_put_bool(&c->out->json, "structure_only", c->structure);
        json_begin_array(&c->out->json, "differences", JSON_LINES);
    } else {
        putchar('\n');
        c->table = table_new(c->out, columns, sizeof columns / sizeof columns[0]);
    }
    progress_begin(&c->out->progress, "comparing");
    pawl_status status = diff_entries(c);
    progress_hide(&c->out->progress);
    if (c->table != NULL) {
        table_end(c->table);
    }
    if (status != PAWL_OK) {
        return output_fail(c->out);
    }
    if (c->out->as_json) {
        json_close(&c->out->json);
        put_totals(&c->out->json, c);
    } else {
        print_totals(c);
    }
    return is_identical(c) ? EXIT_DONE : EXIT_DIFFERENT;
}

int verb_diff(const arguments *args, output *out) {
    SCOPED(scoped_checkpoint) pawl_checkpoint *a = NULL;
    SCOPED(scoped_checkpoint) pawl_checkpoint *b = NULL;
    const target *at = &args->targets[0];
    const target *bt = &args->targets[1];
    signals_catch();
    if (target_open(at->run, at->step, out, &a) != PAWL_OK ||
        target_open(bt->run, bt->step, out, &b) != PAWL_OK) {
        return output_fail(out);
    }
    comparison c = {.out = out, .a = a, .b = b, .structure = args->structure};
    if (describe_side(&c, "a", at->run, a) != PAWL_OK ||
        describe_side(&c, "b", bt->run, b) != PAWL_OK) {
        return output_fail(out);
    }
    return report_differences(&c);
}
