/* SPDX-License-Identifier: Apache-2.0 */
/* pawl gc: removes what interrupted saves left behind. */
#include "cli.h"
#include "housekeeping.h"
#include "text.h"

#include <inttypes.h>

typedef struct removal {
    output *out;
    table *table;
    uint64_t files, bytes;
} removal;

static void on_leftover(void *context, const char *path, uint64_t bytes, const char *reason) {
    removal *r = context;
    char size[TEXT_SIZE];
    r->files++;
    r->bytes += bytes;
    if (r->out->as_json) {
        json *j = &r->out->json;
        json_begin_object(j, NULL, JSON_INLINE);
        json_put_text(j, "path", path);
        json_put_uint(j, "bytes", bytes);
        json_put_text(j, "reason", reason);
        json_close(j);
        return;
    }
    table_cell(r->table, "%s", text_bytes(size, bytes));
    table_cell(r->table, "%s", path);
    table_cell(r->table, "%s", reason);
    table_row(r->table);
}

static void print_removed(const removal *r, bool dry_run) {
    char files[TEXT_SIZE];
    char bytes[TEXT_SIZE];
    if (r->files == 0) {
        printf("nothing to remove\n");
        return;
    }
    printf("%s %s, %s\n", dry_run ? "would remove" : "removed",
           text_count(files, r->files, "item", "items"), text_bytes(bytes, r->bytes));
}

static pawl_status remove_leftovers(const arguments *args, removal *r, pawl_run *run) {
    static const column columns[] = {{.title = "SIZE", .right = true},
                                     {.title = "PATH", .shorten_turn = 2},
                                     {.title = "REASON", .shorten_turn = 1}};
    output *out = r->out;
    if (out->as_json) {
        json_put_text(&out->json, "run", args->targets[0].run);
        json_put_bool(&out->json, "dry_run", args->dry_run);
        json_begin_array(&out->json, "items", JSON_LINES);
    }
    r->table = table_new(out, columns, sizeof columns / sizeof columns[0]);
    pawl_status status = pawl_run_gc(run, args->dry_run, on_leftover, r, out->err);
    table_end(r->table);
    if (status == PAWL_OK && out->as_json) {
        json_close(&out->json);
        json_put_uint(&out->json, "bytes", r->bytes);
    } else if (status == PAWL_OK) {
        print_removed(r, args->dry_run);
    }
    return status;
}

int verb_gc(const arguments *args, output *out) {
    pawl_run *run = NULL;
    removal r = {.out = out};
    pawl_status status = housekeeping_open(args, out, &run);
    if (status == PAWL_OK) {
        status = remove_leftovers(args, &r, run);
    }
    return housekeeping_close(out, run, status);
}
