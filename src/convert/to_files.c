/* SPDX-License-Identifier: Apache-2.0 */
/* Converts a checkpoint to files of another tool. */
#include "convert/convert.h"
#include "source/source.h"

#include <string.h>

static writer_shape shape_of(const writer_format *to, const pawl_convert_options *options) {
    if (to->shape != WRITER_FILE_OR_DIRECTORY) {
        return to->shape;
    }
    return options->shard_bytes > 0 ? WRITER_DIRECTORY : WRITER_FILE;
}

/* Nothing gets its name before all that it was made of was compared with its checksums. */
static pawl_status write_it(pawl_checkpoint *from, const convert_plan *plan,
                            const writer_format *to, place *at, const pawl_convert_options *options,
                            const platform *os, feed *f, pawl_error *err) {
    const writer_job job = {.into = at->into,
                            .platform = os,
                            .name = place_name(at),
                            .items = plan->writing,
                            .count = plan->count,
                            .shard_bytes = options->shard_bytes,
                            .context = f,
                            .begin = feed_begin,
                            .read = feed_read};
    TRY(to->write(&job, err));
    TRY(source_check_sums(checkpoint_source(from), options->stop, options->context, err));
    return place_commit(at, err);
}

/* S06: before anything is written. What is beside the tensors is small, and not known yet. */
static pawl_status check_room(store *parent, const char *name, uint64_t bytes, pawl_error *err) {
    store_space space;
    char need[32];
    char there[32];
    char lack[32];
    TRY(store_space_of(parent, &space, err));
    if (bytes <= space.free_bytes) {
        return PAWL_OK;
    }
    error_set(err, PAWL_ENOSPACE, "there is not enough room for what is converted");
    store_error_path(err, parent, name);
    error_expected(err, "%s free", text_bytes(need, bytes));
    error_found(err, "%s free on the filesystem at %s (%s)", text_bytes(there, space.free_bytes),
                space.mount_point, space.filesystem);
    error_next(err, "free %s, convert less (only), or write to another filesystem",
               text_bytes(lack, bytes - space.free_bytes));
    return PAWL_ENOSPACE;
}

pawl_status convert_to_files(pawl_checkpoint *from, const convert_plan *plan, store *parent,
                             const char *name, const writer_format *to,
                             const pawl_convert_options *options, const platform *os,
                             pawl_convert_result *result, pawl_error *err) {
    CLEANUP(place_end) place at = {.name = NULL};
    writer_shape shape = shape_of(to, options);
    feed *f = NULL;
    if (options->dry_run) {
        return place_check(parent, name, shape, err);
    }
    TRY(check_room(parent, name, result->bytes, err));
    TRY(place_begin(&at, parent, name, shape, os, err));
    TRY(feed_new(from, plan, options, os, &f, err));
    pawl_status status = source_note_begin(checkpoint_source(from), err);
    if (status == PAWL_OK) {
        status = write_it(from, plan, to, &at, options, os, f, err);
    }
    result->overflows = feed_overflows(f);
    feed_free(f); /* its thread reads no more */
    source_note_end(checkpoint_source(from));
    return status;
}
