/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the index of a Hugging Face directory, and checks that the files say the same. */
#include "foreign/huggingface/sharded.h"

#include "format/limits.h"

#include <string.h>

/* What the storage says of a link that leads nowhere stays. */
static pawl_status is_missing(const archive *a, const char *file, pawl_error *err) {
    struct pawl_error story = *err;
    error_set(err, PAWL_EDAMAGED, "a file that the index of the weights names is missing");
    store_error_path(err, a->base.store, file);
    error_expected(err, "a file, as %.200s says", a->name);
    error_found(err, "%s", story.found[0] != '\0' ? story.found : "no such file");
    error_next(err, "get all files of the directory from where it came from");
    return PAWL_EDAMAGED;
}

pawl_status sharded_read_index(archive *a, const shard_kind *kind, shard_index *out,
                               pawl_error *err) {
    CLEANUP(buffer_free) buffer text = {0};
    TRY(archive_read_description(a, a->name, FOREIGN_MAX_INDEX, &text, err));
    pawl_status status = shard_index_decode(kind, text.data, text.size, out, err);
    if (status != PAWL_OK) {
        store_error_path(err, a->base.store, a->name);
        return status;
    }
    for (size_t i = 0; i < out->file_count; i++) {
        uint32_t file;
        status = archive_add_file(a, out->files[i], &file, err);
        if (status != PAWL_OK) {
            return status == PAWL_ENOTFOUND ? is_missing(a, out->files[i], err) : status;
        }
    }
    return PAWL_OK;
}

pawl_status sharded_count(uint64_t *so_far, uint64_t bytes, pawl_error *err) {
    *so_far += bytes;
    if (*so_far <= FOREIGN_MAX_HEADERS) {
        return PAWL_OK;
    }
    error_set(err, PAWL_ELIMIT, "the headers of the files are too large together");
    error_expected(err, "at most %llu bytes", (unsigned long long)FOREIGN_MAX_HEADERS);
    error_found(err, "%llu bytes, and there may be more", (unsigned long long)*so_far);
    return PAWL_ELIMIT;
}

/* ---- the index against the files ---- */

static pawl_status not_in_file(const archive *a, const shard_place *place, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED,
              "the index of the weights is wrong at byte %llu: the tensor is not in that file",
              (unsigned long long)place->at);
    store_error_path(err, a->base.store, a->name);
    error_entry(err, place->name);
    error_range(err, place->at, 1);
    error_expected(err, "a tensor of this name in %.200s", place->file);
    return PAWL_EDAMAGED;
}

static pawl_status not_in_index(const archive *a, const record_entry *e, pawl_error *err) {
    const record_piece *piece = &e->pieces[0];
    error_set(err, PAWL_EDAMAGED,
              "a file has a tensor that the index of the weights does not name");
    archive_error_file(a, archive_file_of(a, piece->file), err);
    error_entry(err, e->name);
    error_range(err, archive_offset_of(a, piece), piece->bytes);
    error_expected(err, "only tensors that are in %.200s", a->name);
    return PAWL_EDAMAGED;
}

static bool is_in_file(const archive *a, const record_entry *e, const char *file) {
    return strcmp(a->files[archive_file_of(a, e->pieces[0].file)].path, file) == 0;
}

/* Both are sorted by name. Values are not in an index. */
pawl_status sharded_compare(const archive *a, const shard_index *index, pawl_error *err) {
    const record_entry *e = a->entries;
    const record_entry *end = e + a->base.entries;
    size_t k = 0;
    if (index->file_count == 0) {
        return PAWL_OK;
    }
    for (; e < end; e++) {
        if (e->kind != PAWL_KIND_TENSOR) {
            continue;
        }
        int order = k < index->place_count ? strcmp(e->name, index->places[k].name) : -1;
        if (order < 0) {
            return not_in_index(a, e, err);
        }
        if (order > 0 || !is_in_file(a, e, index->places[k].file)) {
            return not_in_file(a, &index->places[k], err);
        }
        k++;
    }
    return k < index->place_count ? not_in_file(a, &index->places[k], err) : PAWL_OK;
}
