/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layouts: which file a piece is in, the bytes of the files against a brute-force image, and that
 * what was laid out is read back as the same entries by the decoders.
 */
#include "lib/failing_memory.h"
#include "lib/random.h"
#include "plan/plan.h"
#include "unit/match/fixture.h"

#include <stdio.h>

#define TAG "7f3a9c21e04b-1"

static plan_layout *lay_out(fixture *f, int rank, int world_size, uint64_t split) {
    plan_layout *layout = NULL;
    plan_layout_options options = {
        .tag = TAG, .rank = rank, .world_size = world_size, .split_header_bytes = split};
    state_snapshot_free(f->snapshot);
    assert_ok(state_snapshot_take(f->state, 1000, false, &f->snapshot, &f->err), &f->err);
    assert_ok(plan_layout_make(f->snapshot, &options, &layout, &f->err), &f->err);
    return layout;
}

/* "name name | name": the names of each file's pieces. */
static void assert_pieces(const plan_layout *layout, const char *names) {
    char text[1024] = "";
    size_t n = 0;
    for (size_t i = 0; i < layout->file_count; i++) {
        const plan_file *file = &layout->files[i];
        for (size_t k = 0; k < file->piece_count; k++) {
            const plan_piece *piece = &layout->pieces[file->first_piece + k];
            assert_int_equal(piece->file, i);
            n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", k > 0 ? " " : "",
                                  piece->entry->name);
        }
        if (i + 1 < layout->file_count) {
            n += (size_t)snprintf(text + n, sizeof(text) - n, " | ");
        }
    }
    assert_string_equal(text, names);
}

/* A tensor of 4 by 2 in boxes of whole rows. */
static void add_rows(fixture *f, const char *name, size_t count, const int64_t *first,
                     const int64_t *rows, pawl_role role, int replicated) {
    int64_t offset[8][2];
    int64_t extent[8][2];
    pawl_box boxes[8];
    for (size_t i = 0; i < count; i++) {
        memcpy(offset[i], (const int64_t[]){first[i], 0}, sizeof(offset[i]));
        memcpy(extent[i], (const int64_t[]){rows[i], 2}, sizeof(extent[i]));
        boxes[i] = (pawl_box){.offset = offset[i], .extent = extent[i], .data = fixture_memory};
    }
    pawl_tensor t = a_tensor(name, PAWL_F32, SHAPE(4, 2));
    t.nboxes = count;
    t.boxes = boxes;
    t.role = role;
    t.replicated = replicated;
    assert_ok(state_add_tensor(f->state, &t, &f->err), &f->err);
}

/* ---- which file ----------------------------------------------------------------------------- */

static void test_larger_alignment_comes_first_then_names(void **context) {
    fixture *f = *context;
    state_tensor(f, "a", PAWL_U8, SHAPE(3));
    state_tensor(f, "b", PAWL_F32, SHAPE(1));
    state_tensor(f, "c", PAWL_F64, SHAPE(1));
    state_tensor(f, "d", PAWL_BF16, SHAPE(1));
    state_tensor(f, "e", PAWL_F32, SHAPE(1));
    state_tensor(f, "f", PAWL_C64, SHAPE(1));
    state_value(f, "g", PAWL_KIND_STRING, PAWL_ROLE_OTHER, "text", 4);
    state_float(f, "h", PAWL_ROLE_OTHER, 1);
    plan_layout *layout = lay_out(f, 0, 1, 0);
    assert_pieces(layout, "c f h b e d a g");
    assert_string_equal(layout->files[0].name, "data-" TAG "-00000-of-00001.safetensors");
    assert_int_equal(layout->step, 1000);
    assert_int_equal(layout->files[0].header.size % FORMAT_DATA_ALIGNMENT, 0);
    assert_int_equal(layout->bytes, layout->files[0].bytes);
    plan_layout_free(layout);
}

static void test_nothing_to_save_is_one_file(void **context) {
    plan_layout *layout = lay_out(*context, 0, 1, 0);
    assert_int_equal(layout->file_count, 1);
    assert_int_equal(layout->piece_count, 0);
    assert_int_equal(layout->files[0].bytes, layout->files[0].header.size);
    plan_layout_free(layout);
}

static void test_further_boxes_go_to_further_files(void **context) {
    fixture *f = *context;
    add_rows(f, "boxed", 3, (const int64_t[]){0, 1, 3}, (const int64_t[]){1, 2, 1}, 0, 0);
    state_tensor(f, "whole", PAWL_F32, SHAPE(1));
    plan_layout *layout = lay_out(f, 0, 1, 0);
    assert_pieces(layout, "boxed whole | boxed | boxed");
    assert_int_equal(layout->copied_files, 0);
    assert_ptr_equal(layout->pieces[2].part, state_entry_box(layout->pieces[2].entry, 1));
    assert_int_equal(layout->pieces[2].bytes, 16);
    plan_layout_free(layout);
}

static void add_copied(fixture *f, const char *name, pawl_dtype dtype) {
    pawl_tensor t = a_tensor(name, dtype, SHAPE(1));
    t.copied = 1;
    assert_ok(state_add_tensor(f->state, &t, &f->err), &f->err);
}

static void test_what_is_copied_has_the_first_files_for_itself(void **context) {
    fixture *f = *context;
    add_rows(f, "boxed", 2, (const int64_t[]){0, 3}, (const int64_t[]){3, 1}, 0, 0);
    add_copied(f, "means", PAWL_F32);
    add_copied(f, "steps", PAWL_I64);
    state_tensor(f, "a", PAWL_F64, SHAPE(1));
    plan_layout *layout = lay_out(f, 0, 1, 0);
    assert_pieces(layout, "steps means | a boxed | boxed");
    assert_int_equal(layout->copied_files, 1);
    plan_layout_free(layout);
}

static void test_nothing_but_copied_tensors_is_one_file(void **context) {
    fixture *f = *context;
    add_copied(f, "means", PAWL_F32);
    plan_layout *layout = lay_out(f, 0, 1, 0);
    assert_pieces(layout, "means");
    assert_int_equal(layout->copied_files, 1);
    plan_layout_free(layout);
}

static void test_empty_boxes_are_not_written(void **context) {
    fixture *f = *context;
    add_rows(f, "boxed", 3, (const int64_t[]){0, 0, 2}, (const int64_t[]){0, 4, 0}, 0, 0);
    plan_layout *layout = lay_out(f, 0, 1, 0);
    assert_pieces(layout, "boxed");
    assert_ptr_equal(layout->pieces[0].part, state_entry_box(layout->pieces[0].entry, 1));
    plan_layout_free(layout);
}

/* An entry must be in some file, or it could not be found again from the data files alone. */
static void test_empty_tensor_is_in_a_file(void **context) {
    fixture *f = *context;
    state_tensor(f, "empty", PAWL_F32, SHAPE(0, 3));
    plan_layout *layout = lay_out(f, 0, 1, 0);
    assert_pieces(layout, "empty");
    assert_int_equal(layout->pieces[0].bytes, 0);
    plan_layout_free(layout);
}

static void fill_ranks(fixture *f) {
    add_rows(f, "mine", 1, (const int64_t[]){2}, (const int64_t[]){2}, 0, 0);
    add_rows(f, "replica", 1, (const int64_t[]){0}, (const int64_t[]){4}, 0, 1);
    state_value(f, "text", PAWL_KIND_STRING, PAWL_ROLE_OTHER, "text", 4);
    state_rank_bytes(f, "seed");
}

static void test_rank_0_writes_what_all_share(void **context) {
    fill_ranks(*context);
    plan_layout *layout = lay_out(*context, 0, 2, 0);
    assert_pieces(layout, "mine replica seed text");
    plan_layout_free(layout);
}

static void test_other_ranks_write_their_own(void **context) {
    fill_ranks(*context);
    plan_layout *layout = lay_out(*context, 1, 2, 0);
    assert_pieces(layout, "mine seed");
    plan_layout_free(layout);
}

/* S12: nobody else could hold the rest. */
static void test_s12_boxes_that_do_not_cover_are_refused(void **context) {
    fixture *f = *context;
    plan_layout *layout = NULL;
    plan_layout_options options = {.tag = TAG, .world_size = 1};
    add_rows(f, "boxed", 2, (const int64_t[]){0, 3}, (const int64_t[]){2, 1}, 0, 0);
    assert_ok(state_snapshot_take(f->state, 1, false, &f->snapshot, &f->err), &f->err);
    assert_int_equal(plan_layout_make(f->snapshot, &options, &layout, &f->err), PAWL_EUSAGE);
    assert_status_text(&f->err, PAWL_EUSAGE,
                       "cannot save the tensor: its boxes do not cover it, and there is no other "
                       "rank to hold the rest\n"
                       "  entry:    boxed\n"
                       "  expected: boxes with 8 elements in all\n"
                       "  found:    6\n"
                       "  next:     add the tensor with boxes that cover its shape");
    assert_null(layout);
}

static void test_header_is_split_before_its_limit(void **context) {
    fixture *f = *context;
    const uint64_t limit = 65536;
    char name[64];
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof(name), "layer/%d/\"quoted\\\"", i);
        state_tensor(f, name, PAWL_F32, SHAPE(1));
        snprintf(name, sizeof(name), "opt/%d", i);
        char variable[64];
        snprintf(variable, sizeof(variable), "layer/%d/\"quoted\\\"", i);
        state_slot(f, name, variable, "\\\\\\\"\"\"", SHAPE(1));
    }
    plan_layout *layout = lay_out(f, 0, 1, limit);
    assert_true(layout->file_count > 4);
    for (size_t i = 0; i < layout->file_count; i++) {
        assert_true(layout->files[i].header.size <= limit);
        assert_true(layout->files[i].piece_count > 0);
    }
    plan_layout_free(layout);
}

/* Parts of tensors say more of themselves. */
static void test_header_of_parts_is_split_before_its_limit(void **context) {
    fixture *f = *context;
    const uint64_t limit = 65536;
    char name[64];
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof(name), "\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"/%d", i);
        add_rows(f, name, 1, (const int64_t[]){2}, (const int64_t[]){2}, 0, 0);
    }
    plan_layout *layout = lay_out(f, 0, 2, limit);
    assert_true(layout->file_count > 4);
    for (size_t i = 0; i < layout->file_count; i++) {
        assert_true(layout->files[i].header.size <= limit);
    }
    plan_layout_free(layout);
}

static void test_one_piece_fits_any_limit(void **context) {
    fixture *f = *context;
    state_tensor(f, "a", PAWL_F32, SHAPE(1));
    state_tensor(f, "b", PAWL_F32, SHAPE(1));
    plan_layout *layout = lay_out(f, 0, 1, 1);
    assert_pieces(layout, "a | b");
    plan_layout_free(layout);
}

/* ---- metadata ------------------------------------------------------------------------------- */

static void decode(buffer *image, safetensors_header *header, pawl_error *err) {
    byte_source source = byte_source_memory(image);
    assert_ok(safetensors_decode(&source, header, err), err);
}

static void image_of(const plan_layout *layout, size_t file, buffer *image, pawl_error *err) {
    size_t n = (size_t)layout->files[file].bytes;
    *image = (buffer){0};
    uint8_t *bytes = mem_alloc(n);
    assert_non_null(bytes);
    plan_layout_gather(layout, file, 0, n, bytes);
    assert_ok(buffer_append(image, bytes, n, err), err);
    mem_free(bytes);
}

static const char *metadata(const safetensors_header *header, const char *key) {
    for (size_t i = 0; i < header->metadata_count; i++) {
        if (strcmp(header->metadata[i].key, key) == 0) {
            return header->metadata[i].value;
        }
    }
    return "(absent)";
}

static void test_whole_tensors_say_nothing_of_shards(void **context) {
    fixture *f = *context;
    buffer image;
    safetensors_header header;
    state_tensor(f, "a", PAWL_F32, SHAPE(2));
    plan_layout *layout = lay_out(f, 0, 1, 0);
    image_of(layout, 0, &image, &f->err);
    decode(&image, &header, &f->err);
    assert_string_equal(metadata(&header, "format"), "pt");
    assert_string_equal(metadata(&header, "pawl_sum"), "--------");
    assert_memory_equal(image.data + DATA_SUM_AT - 1, "\"--------\"", DATA_SUM_DIGITS + 2);
    assert_string_equal(metadata(&header, "DCP_SHARDING_INFO"), "(absent)");
    assert_string_equal(metadata(&header, "DCP_VERSION"), "(absent)");
    safetensors_header_free(&header);
    buffer_free(&image);
    plan_layout_free(layout);
}

/* As PyTorch's distributed checkpoints have it: every tensor of the file with its offsets. */
static void test_parts_say_where_they_are(void **context) {
    fixture *f = *context;
    buffer image;
    safetensors_header header;
    add_rows(f, "part", 1, (const int64_t[]){2}, (const int64_t[]){2}, 0, 0);
    state_tensor(f, "whole", PAWL_F32, SHAPE(2));
    plan_layout *layout = lay_out(f, 0, 2, 0);
    image_of(layout, 0, &image, &f->err);
    decode(&image, &header, &f->err);
    assert_string_equal(metadata(&header, "DCP_SHARDING_INFO"),
                        "{\"part\":{\"saved_offsets\":[2,0]},\"whole\":{\"saved_offsets\":[0]}}");
    assert_string_equal(metadata(&header, "DCP_VERSION"), "1.0");
    safetensors_header_free(&header);
    buffer_free(&image);
    plan_layout_free(layout);
}

/* ---- bytes ---------------------------------------------------------------------------------- */

/* A random tensor of a random dtype, in boxes along its first dimension, strided or not. */
static void add_random_tensor(fixture *f, test_random *r, int number) {
    static const pawl_dtype dtypes[] = {PAWL_U8, PAWL_BF16, PAWL_F32, PAWL_F64, PAWL_C64};
    char name[32];
    int64_t shape[4];
    pawl_dtype dtype = dtypes[random_below(r, ARRAY_LENGTH(dtypes))];
    int ndim = (int)random_below(r, 4);
    snprintf(name, sizeof(name), "t%d", number);
    for (int d = 0; d < ndim; d++) {
        shape[d] = random_between(r, random_below(r, 12) == 0 ? 0 : 1, 5);
    }
    pawl_tensor t = a_tensor(name, dtype, ndim, shape);
    t.data = fixture_memory + random_below(r, 1000);
    int64_t strides[4];
    if (random_below(r, 2) == 0) {
        /* Transposed, with gaps. */
        int64_t stride = pawl_dtype_bits(dtype) / 8 * random_between(r, 1, 3);
        for (int d = 0; d < ndim; d++) {
            strides[d] = stride;
            stride *= shape[d] > 0 ? shape[d] : 1;
        }
        t.strides = strides;
    }
    int64_t offset[8][4] = {{0}};
    int64_t extent[8][4];
    pawl_box boxes[8];
    if (ndim > 0 && random_below(r, 3) == 0) {
        int64_t at = 0;
        while (at < shape[0]) {
            int64_t rows = random_between(r, 1, shape[0] - at);
            memcpy(extent[t.nboxes], shape, sizeof(shape));
            offset[t.nboxes][0] = at;
            extent[t.nboxes][0] = rows;
            boxes[t.nboxes] = (pawl_box){.offset = offset[t.nboxes],
                                         .extent = extent[t.nboxes],
                                         .data = fixture_memory + random_below(r, 1000)};
            at += rows;
            t.nboxes++;
        }
        t.boxes = boxes;
    }
    assert_ok(state_add_tensor(f->state, &t, &f->err), &f->err);
}

static void fill_randomly(fixture *f, test_random *r) {
    int tensors = (int)random_below(r, 12);
    char name[32];
    for (int i = 0; i < tensors; i++) {
        add_random_tensor(f, r, i);
    }
    for (uint64_t i = random_below(r, 4); i > 0; i--) {
        snprintf(name, sizeof(name), "v%d", (int)i);
        state_value(f, name, PAWL_KIND_BYTES, PAWL_ROLE_OTHER, fixture_memory, random_below(r, 40));
    }
}

/* The file as one would write it by hand: header, then each piece element by element. */
static void brute_image(const plan_layout *layout, size_t file, uint8_t *image) {
    const plan_file *plan = &layout->files[file];
    memset(image, 0, plan->bytes);
    memcpy(image, plan->header.data, plan->header.size);
    for (size_t i = 0; i < plan->piece_count; i++) {
        const plan_piece *piece = &layout->pieces[plan->first_piece + i];
        uint8_t *to = image + piece->offset;
        if (piece->entry->kind != PAWL_KIND_TENSOR) {
            memcpy(to, piece->entry->value, piece->bytes);
            continue;
        }
        strided v = state_box_memory(piece->entry, piece->part);
        size_t item_size = (size_t)pawl_dtype_bits(v.dtype) / 8;
        for (uint64_t k = 0; k < box_elements(&v.box); k++) {
            uint64_t rest = k;
            int64_t at = 0;
            int64_t dense = (int64_t)item_size;
            for (int d = v.box.ndim - 1; d >= 0; d--) {
                int64_t index = (int64_t)(rest % (uint64_t)v.box.extent[d]);
                rest /= (uint64_t)v.box.extent[d];
                at += index * (v.strides != NULL ? v.strides[d] : dense);
                dense *= v.box.extent[d];
            }
            memcpy(to + k * item_size, v.data + at, item_size);
        }
    }
}

/* Every piece once, ascending by the name of its entry, then by its file. */
static void assert_by_name(const plan_layout *layout) {
    for (size_t i = 1; i < layout->piece_count; i++) {
        const plan_piece *left = &layout->pieces[layout->by_name[i - 1]];
        const plan_piece *right = &layout->pieces[layout->by_name[i]];
        int order = strcmp(left->entry->name, right->entry->name);
        assert_true(order < 0 || (order == 0 && left->file < right->file));
    }
}

static void assert_gathers(const plan_layout *layout, size_t file, const uint8_t *image,
                           test_random *r) {
    uint64_t bytes = layout->files[file].bytes;
    uint8_t *part = mem_alloc((size_t)bytes + 1);
    assert_non_null(part);
    for (int i = 0; i < 20; i++) {
        uint64_t at = random_below(r, bytes + 1);
        if (i < 14 && bytes > 0) { /* mostly beyond the header */
            at = layout->files[file].header.size +
                 random_below(r, bytes - layout->files[file].header.size + 1);
        }
        size_t n = (size_t)random_below(r, bytes - at + 1);
        memset(part, 0xee, (size_t)bytes + 1);
        plan_layout_gather(layout, file, at, n, part);
        assert_memory_equal(part, image + at, n);
        assert_int_equal(part[n], 0xee);
    }
    mem_free(part);
}

/* The piece that byte `at` belongs to; NULL in the header and between pieces. */
static const plan_piece *piece_with(const plan_layout *layout, size_t file, uint64_t at) {
    const plan_file *f = &layout->files[file];
    for (size_t i = f->first_piece; i < f->first_piece + f->piece_count; i++) {
        const plan_piece *piece = &layout->pieces[i];
        if (at >= piece->offset && at - piece->offset < piece->bytes) {
            return piece;
        }
    }
    return NULL;
}

/* Bytes stand somewhere in memory exactly when they are of one piece that lies there as here. */
static void assert_finds_dense(const plan_layout *layout, size_t file, const uint8_t *image,
                               test_random *r) {
    const plan_file *plan = &layout->files[file];
    uint64_t at = 0;
    size_t piece = 0;
    while (at < plan->bytes) {
        uint64_t left = plan->bytes - at;
        size_t n = 1 + (size_t)random_below(r, left < 64 ? left : 64);
        const uint8_t *dense = plan_layout_dense(layout, file, at, n, &piece);
        const plan_piece *of = piece_with(layout, file, at);
        bool whole = of != NULL && at + n <= of->offset + of->bytes;
        bool lies_so = whole && (of->entry->kind != PAWL_KIND_TENSOR || of->part->strides == NULL);
        assert_int_equal(dense != NULL, lies_so);
        if (dense != NULL) {
            assert_memory_equal(dense, image + at, n);
        }
        at += n;
    }
}

/* Behind the header every byte belongs to a piece, and each piece says which file it is in. */
static void assert_pieces_fill(const plan_layout *layout, size_t file) {
    const plan_file *plan = &layout->files[file];
    assert_null(piece_with(layout, file, plan->header.size - 1));
    for (uint64_t at = plan->header.size; at < plan->bytes; at++) {
        const plan_piece *piece = piece_with(layout, file, at);
        assert_non_null(piece);
        assert_int_equal(piece->file, file);
    }
}

/* The decoders see in the file what was laid out. */
static void assert_decodes(const plan_layout *layout, size_t file, buffer *image, pawl_error *err) {
    const plan_file *plan = &layout->files[file];
    safetensors_header header;
    arena memory = {0};
    record_entry *entries = NULL;
    size_t count = 0;
    int64_t step = 0;
    int rank = -1;
    int world_size = 0;
    decode(image, &header, err);
    assert_int_equal(header.tensor_count, plan->piece_count);
    assert_ok(record_metadata_decode(&header, (uint32_t)file, &memory, &entries, &count, &step,
                                     &rank, &world_size, err),
              err);
    assert_int_equal(count, plan->piece_count);
    assert_int_equal(step, 1000);
    assert_int_equal(rank, 0);
    assert_int_equal(world_size, 1);
    for (size_t i = 0; i < count; i++) {
        const record_entry *e = &entries[i];
        const plan_piece *piece = piece_with(layout, file, e->pieces->offset);
        if (e->pieces->bytes == 0) {
            continue;
        }
        assert_non_null(piece);
        assert_string_equal(piece->entry->name, e->name);
        assert_int_equal(piece->offset, e->pieces->offset);
        assert_int_equal(piece->bytes, e->pieces->bytes);
        assert_int_equal(piece->offset % dtype_alignment(piece->entry->dtype), 0);
        assert_int_equal(piece->entry->kind, e->kind);
        assert_int_equal(piece->entry->role, e->role);
        if (e->kind == PAWL_KIND_TENSOR) {
            strided v = state_box_memory(piece->entry, piece->part);
            box decoded = box_of(e->ndim, e->pieces->box_offset, e->pieces->box_extent);
            assert_true(box_equal(&decoded, &v.box));
            assert_true(shape_equal(e->ndim, e->shape, piece->entry->ndim, piece->entry->shape));
        }
    }
    arena_free(&memory);
    safetensors_header_free(&header);
}

/* Seed 1: random states, split at random limits, against the brute-force image. */
static void test_random_layouts_are_what_they_say(void **context) {
    fixture *f = *context;
    test_random r = {.state = 1};
    random_fill(&r, fixture_memory, sizeof(fixture_memory));
    for (int i = 0; i < 300; i++) {
        fill_randomly(f, &r);
        plan_layout *layout =
            lay_out(f, 0, 1, random_below(&r, 3) == 0 ? 9000 + random_below(&r, 4000) : 0);
        for (size_t file = 0; file < layout->file_count; file++) {
            buffer image;
            uint8_t *brute = mem_alloc((size_t)layout->files[file].bytes);
            assert_non_null(brute);
            brute_image(layout, file, brute);
            image_of(layout, file, &image, &f->err);
            assert_int_equal(image.size, layout->files[file].bytes);
            assert_memory_equal(image.data, brute, image.size);
            assert_gathers(layout, file, brute, &r);
            assert_pieces_fill(layout, file);
            assert_finds_dense(layout, file, brute, &r);
            assert_decodes(layout, file, &image, &f->err);
            buffer_free(&image);
            mem_free(brute);
        }
        assert_by_name(layout);
        plan_layout_free(layout);
        state_snapshot_free(f->snapshot);
        f->snapshot = NULL;
        state_free(f->state);
        assert_ok(state_new(&f->state, &f->err), &f->err);
    }
}

/* The same state gives the same files, whatever the order in which it was filled. */
static void test_layout_is_the_same_each_time(void **context) {
    fixture *f = *context;
    state_tensor(f, "a", PAWL_F32, SHAPE(1));
    state_tensor(f, "b", PAWL_F32, SHAPE(1));
    plan_layout *one = lay_out(f, 0, 1, 0);
    assert_ok(state_remove(f->state, "a", &f->err), &f->err);
    state_tensor(f, "a", PAWL_F32, SHAPE(1));
    state_snapshot *first = f->snapshot;
    f->snapshot = NULL;
    plan_layout *two = lay_out(f, 0, 1, 0);
    assert_int_equal(one->files[0].header.size, two->files[0].header.size);
    assert_memory_equal(one->files[0].header.data, two->files[0].header.data,
                        one->files[0].header.size);
    plan_layout_free(one);
    plan_layout_free(two);
    state_snapshot_free(first);
}

/* ---- memory --------------------------------------------------------------------------------- */

static pawl_status make(void *context, pawl_error *err) {
    fixture *f = context;
    plan_layout *layout = NULL;
    plan_layout_options options = {.tag = TAG, .world_size = 1, .split_header_bytes = 9000};
    pawl_status status = plan_layout_make(f->snapshot, &options, &layout, err);
    assert_true((status == PAWL_OK) == (layout != NULL));
    plan_layout_free(layout);
    return status;
}

static void test_layout_without_memory_leaks_nothing(void **context) {
    fixture *f = *context;
    fill_ranks(f);
    assert_ok(state_remove(f->state, "mine", &f->err), &f->err);
    add_rows(f, "boxed", 2, (const int64_t[]){0, 3}, (const int64_t[]){3, 1}, 0, 0);
    assert_ok(state_snapshot_take(f->state, 1, false, &f->snapshot, &f->err), &f->err);
    assert_true(failing_memory_each(make, f) > 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_BOTH(test_larger_alignment_comes_first_then_names),
        WITH_BOTH(test_nothing_to_save_is_one_file),
        WITH_BOTH(test_further_boxes_go_to_further_files),
        WITH_BOTH(test_what_is_copied_has_the_first_files_for_itself),
        WITH_BOTH(test_nothing_but_copied_tensors_is_one_file),
        WITH_BOTH(test_empty_boxes_are_not_written),
        WITH_BOTH(test_empty_tensor_is_in_a_file),
        WITH_BOTH(test_rank_0_writes_what_all_share),
        WITH_BOTH(test_other_ranks_write_their_own),
        WITH_BOTH(test_s12_boxes_that_do_not_cover_are_refused),
        WITH_BOTH(test_header_is_split_before_its_limit),
        WITH_BOTH(test_header_of_parts_is_split_before_its_limit),
        WITH_BOTH(test_one_piece_fits_any_limit),
        WITH_BOTH(test_whole_tensors_say_nothing_of_shards),
        WITH_BOTH(test_parts_say_where_they_are),
        WITH_BOTH(test_random_layouts_are_what_they_say),
        WITH_BOTH(test_layout_is_the_same_each_time),
        WITH_BOTH(test_layout_without_memory_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
