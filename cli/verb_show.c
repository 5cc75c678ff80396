/* SPDX-License-Identifier: Apache-2.0 */
/* pawl show: a checkpoint as a tree, or one entry of it. */
#include "about.h"
#include "memory.h"
#include "metrics.h"
#include "numbers.h"
#include "show.h"
#include "signals.h"
#include "text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void print_header(output *out, const char *run, const pawl_checkpoint_info *about) {
    char time[TEXT_SIZE];
    char entries[TEXT_SIZE];
    char size[TEXT_SIZE];
    char files[TEXT_SIZE];
    char ranks[TEXT_SIZE];
    SCOPED(scoped_free) char *metrics = metrics_text(about->metrics_json);
    text_time_local(time, about->unix_time_ns);
    if (about->step >= 0) {
        output_field(out, "run", "%s", run);
        output_field(out, "step", "%" PRId64, about->step);
        output_field(out, "saved", "%s by %s%s%s", time,
                     text_count(ranks, (uint64_t)about->world_size, "rank", "ranks"),
                     *about->framework != '\0' ? " of " : "", about->framework);
    } else {
        output_field(out, "path", "%s", run);
        output_field(out, "format", "%s", about->format);
        output_field(out, "changed", "%s", time);
    }
    output_field(
        out, "holds", "%s, %s in %s", text_count(entries, about->entries, "entry", "entries"),
        text_bytes(size, about->data_bytes), text_count(files, about->data_files, "file", "files"));
    if (*metrics != '\0') {
        output_field(out, "metrics", "%s", metrics);
    }
    putchar('\n');
}

static void put_header(json *j, const char *run, const pawl_checkpoint_info *about) {
    char time[TEXT_SIZE];
    json_put_text(j, "run", run);
    about_json_step(j, about->step);
    json_put_text(j, "format", about->format);
    json_put_text(j, "path", about->path);
    json_put_int(j, "unix_time_ns", about->unix_time_ns);
    json_put_text(j, "time", text_time_utc(time, about->unix_time_ns));
    json_put_int(j, "world_size", about->world_size);
    json_put_text(j, "framework", about->framework);
    json_put_int(j, "format_version", about->format_version);
    json_put_text(j, "attempt", about->attempt);
    json_put_uint(j, "entry_count", about->entries);
    json_put_uint(j, "data_files", about->data_files);
    json_put_uint(j, "data_bytes", about->data_bytes);
    json_put_uint(j, "index_bytes", about->index_bytes);
    json_put_raw(j, "manifest", about->manifest_json);
}

/* How much was read to answer. */
static pawl_status put_reads(output *out, const pawl_checkpoint *checkpoint) {
    pawl_read_stats reads = {.struct_size = sizeof reads};
    pawl_status status = pawl_checkpoint_reads(checkpoint, &reads, out->err);
    if (status == PAWL_OK) {
        json_put_uint(&out->json, "read_calls", reads.reads);
        json_put_uint(&out->json, "read_bytes", reads.bytes);
    }
    return status;
}

static void print_entry(output *out, const pawl_checkpoint_info *about,
                        const pawl_entry_info *info) {
    char size[TEXT_SIZE];
    char pieces[TEXT_SIZE];
    SCOPED(scoped_free) char *shape = entry_shape(info);
    output_field(out, "entry", "%s", info->name);
    if (about->step >= 0) {
        output_field(out, "step", "%" PRId64, about->step);
    }
    output_field(out, "type", "%s%s%s", entry_type(info), *shape != '\0' ? " " : "", shape);
    if (info->slot_of != NULL) {
        output_field(out, "role", "%s: %s of %s", pawl_role_name(info->role),
                     info->slot != NULL ? info->slot : "?", info->slot_of);
    } else {
        output_field(out, "role", "%s", pawl_role_name(info->role));
    }
    output_field(
        out, "size", "%s%s%s%s", text_bytes(size, info->bytes),
        info->kind == PAWL_KIND_TENSOR ? " in " : "",
        info->kind == PAWL_KIND_TENSOR ? text_count(pieces, info->pieces, "piece", "pieces") : "",
        info->replicated ? ", the same on every rank" : "");
}

/* A value in full: strings and JSON keep their lines. */
static void print_value(const output *out, const pawl_entry_info *info) {
    SCOPED(scoped_free) char *text = NULL;
    bool lines = info->kind == PAWL_KIND_STRING || info->kind == PAWL_KIND_JSON;
    if (lines) {
        text = text_safe(info->value, (size_t)info->bytes, true);
    } else if (info->kind == PAWL_KIND_BYTES) {
        text = entry_hex(info->value, (size_t)info->bytes, (size_t)info->bytes);
    } else {
        text = entry_value(info, SIZE_MAX);
    }
    putchar('\n');
    if (out->columns > 0) {
        text_fold(stdout, text, out->columns);
    } else {
        fputs(text, stdout);
    }
    putchar('\n');
}

static pawl_status show_tensor(output *out, pawl_checkpoint *checkpoint,
                               const pawl_entry_info *info, const arguments *args) {
    SCOPED(tensor_ref_free) tensor_ref t = tensor_ref_of(info);
    if (!numbers_known(t.dtype)) {
        if (out->as_json) {
            json_put_null(&out->json, "numbers");
        } else {
            putchar('\n');
            output_line(out, t.dtype == (pawl_dtype)0
                                 ? "Values of this type, which pawl does not know, are not shown."
                                 : "Values of packed types are not shown.");
        }
        return PAWL_OK;
    }
    if (!out->as_json) {
        putchar('\n');
        pawl_status status = show_preview(out, checkpoint, &t, args->edge);
        if (status != PAWL_OK) {
            return status;
        }
        putchar('\n');
        (void)fflush(stdout); /* the values first: the statistics may take long */
    }
    return show_statistics(out, checkpoint, &t, args->edge);
}

static pawl_status show_entry(output *out, pawl_checkpoint *checkpoint, const pawl_entry_info *info,
                              const arguments *args) {
    pawl_checkpoint_info about = {.struct_size = sizeof about};
    pawl_status status = pawl_checkpoint_describe(checkpoint, &about, out->err);
    if (status != PAWL_OK) {
        return status;
    }
    if (out->as_json) {
        json_begin_object(&out->json, "entry", JSON_LINES);
        entry_json(&out->json, info);
    } else {
        print_entry(out, &about, info);
    }
    bool numbers = info->kind == PAWL_KIND_TENSOR && !args->structure;
    if (out->as_json && !numbers) {
        json_put_null(&out->json, "numbers");
    }
    if (out->as_json && !info->per_rank) {
        json_put_null(&out->json, "ranks");
    }
    if (numbers) {
        status = show_tensor(out, checkpoint, info, args);
    } else if (info->per_rank) {
        SCOPED(scoped_free) char *name = must_strdup(info->name);
        status = show_ranks(out, checkpoint, name);
    } else if (info->value != NULL && !out->as_json) {
        print_value(out, info);
    }
    if (out->as_json && status == PAWL_OK) {
        json_close(&out->json);
    }
    return status;
}

/* Shows the entry of that name, or else the tree below it, or else fails as the search for the
 * entry did. */
static pawl_status show_named(output *out, pawl_checkpoint *checkpoint, const arguments *args) {
    pawl_entry_info info = {.struct_size = sizeof info};
    uint64_t shown = 0;
    pawl_status status = pawl_checkpoint_find(checkpoint, args->entry, &info, out->err);
    if (status == PAWL_OK) {
        return show_entry(out, checkpoint, &info, args);
    }
    if (status != PAWL_ENOTFOUND) {
        return status;
    }
    size_t length = strlen(args->entry);
    bool slash = length > 0 && args->entry[length - 1] == '/';
    SCOPED(scoped_free) char *prefix = must_printf("%s%s", args->entry, slash ? "" : "/");
    status = show_tree(out, checkpoint, prefix, &shown);
    return status != PAWL_OK || shown > 0
               ? status
               : pawl_checkpoint_find(checkpoint, args->entry, &info, out->err);
}

int verb_show(const arguments *args, output *out) {
    SCOPED(scoped_checkpoint) pawl_checkpoint *checkpoint = NULL;
    pawl_checkpoint_info about = {.struct_size = sizeof about};
    const target *t = &args->targets[0];
    uint64_t shown = 0;
    signals_catch();
    if (target_open(t->run, t->step, out, &checkpoint) != PAWL_OK ||
        pawl_checkpoint_describe(checkpoint, &about, out->err) != PAWL_OK) {
        return output_fail(out);
    }
    if (args->names) {
        const char *begin = args->entry != NULL ? args->entry : "";
        return show_names(out, checkpoint, begin) == PAWL_OK ? EXIT_DONE : output_fail(out);
    }
    if (out->as_json) {
        put_header(&out->json, t->run, &about);
    } else if (args->entry == NULL) {
        print_header(out, t->run, &about);
    }
    pawl_status status = args->entry != NULL ? show_named(out, checkpoint, args)
                                             : show_tree(out, checkpoint, "", &shown);
    if (status == PAWL_OK && out->as_json) {
        status = put_reads(out, checkpoint);
    }
    return status == PAWL_OK ? EXIT_DONE : output_fail(out);
}
