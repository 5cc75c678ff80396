/* SPDX-License-Identifier: Apache-2.0 */
/* pawl_view_open, pawl_view_describe, pawl_view_bytes; closing is in src/checkpoint/view.c. */
#include "api/api.h"
#include "checkpoint/checkpoint.h"

static pawl_status open_view(pawl_checkpoint *checkpoint, const char *name, uint64_t piece,
                             pawl_view **opened, pawl_error *err) {
    static const char call[] = "pawl_view_open";
    TRY(need_checkpoint(checkpoint, call, err));
    TRY(need(name, call, "name", err));
    TRY(need(opened, call, "view", err));
    *opened = NULL;
    return checkpoint_view_open(checkpoint, name, piece, opened, err);
}

pawl_status pawl_view_open(pawl_checkpoint *checkpoint, const char *name, uint64_t piece,
                           pawl_view **opened, pawl_error *err) {
    struct pawl_error story;
    return story_end(open_view(checkpoint, name, piece, opened, story_begin(&story)), &story, err);
}

static pawl_status describe_view(const pawl_view *v, pawl_view_info *info, pawl_error *err) {
    static const char call[] = "pawl_view_describe";
    TRY(need(v, call, "view", err));
    TRY(need_output(info, call, "info", "pawl_view_info", err));
    const pawl_view_info known = checkpoint_view_describe(v);
    give_output(info, &known, sizeof(known));
    return PAWL_OK;
}

pawl_status pawl_view_describe(const pawl_view *v, pawl_view_info *info, pawl_error *err) {
    struct pawl_error story;
    return story_end(describe_view(v, info, story_begin(&story)), &story, err);
}

static pawl_status view_bytes(pawl_view *v, uint64_t offset, uint64_t n, const void **bytes,
                              pawl_error *err) {
    static const char call[] = "pawl_view_bytes";
    TRY(need(v, call, "view", err));
    TRY(need_own(view_process(v), call, "view", "pawl_checkpoint_open and pawl_view_open", err));
    TRY(need(bytes, call, "bytes", err));
    *bytes = NULL;
    return checkpoint_view_bytes(v, offset, n, bytes, err);
}

pawl_status pawl_view_bytes(pawl_view *v, uint64_t offset, uint64_t n, const void **bytes,
                            pawl_error *err) {
    struct pawl_error story;
    return story_end(view_bytes(v, offset, n, bytes, story_begin(&story)), &story, err);
}
