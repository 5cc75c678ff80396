/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Votes of two or three ranks that the input describes, merged. The verdict is that of a slow look
 * at each entry, its elements counted; and what a merge writes has every record of every rank, with
 * its files numbered behind those of the ranks before. A vote in which the input then changes a
 * byte, with checksums that fit, may be refused in any way, or be merged.
 */
#include "grid.h"
#include "who.h"

#include "votes/merge.h"

#include <stdio.h>

#define TAG        "7f3a9c21e04b-1"
#define MOST_RANKS 3
#define NAMES      3
#define MOST_PARTS 3

static const char *const names[NAMES] = {"a", "b", "m/w"};
static const uint64_t sizes[] = {100, 40000, 0};

/* What one rank has of a name. */
typedef struct said {
    bool has, tensor, per_rank, replicated;
    pawl_dtype dtype;
    grid g;
    size_t count;
    box parts[MOST_PARTS];
    bool sums; /* of a replica: of all of it */
    uint32_t sum;
} said;

typedef struct made {
    int world_size;
    bool checking, lies;
    size_t files[MOST_RANKS];
    said said[MOST_RANKS][NAMES];
    buffer tables[MOST_RANKS];
    vote heads[MOST_RANKS];
    vote_file vote_files[MOST_RANKS][2];
    char file_names[MOST_RANKS][2][80];
} made;

/* ---- what the ranks say --------------------------------------------------------------------- */

/* Mostly what all are to say, and mostly shared out: but any rank may say otherwise. */
static void make_said(made *m, fuzz_bytes *in, size_t k) {
    said all = {.tensor = fuzz_below(in, 4) != 0, .dtype = PAWL_U8, .count = 1};
    all.per_rank = !all.tensor && fuzz_below(in, 2) != 0;
    all.replicated = all.tensor && fuzz_below(in, 2) != 0;
    grid_take(&all.g, in, 3);
    if (!all.tensor) {
        all.g = (grid){.ndim = 0};
    }
    for (int r = 0; r < m->world_size; r++) {
        said *s = &m->said[r][k];
        *s = all;
        s->has = fuzz_below(in, 4) != 3;
        s->count = 0;
        s->sums = all.replicated && fuzz_below(in, 2) != 0;
        s->sum = fuzz_below(in, 8) == 7 ? 2 : 1;
        switch (fuzz_below(in, 16)) {
        case 15:
            s->dtype = s->tensor ? PAWL_I8 : s->dtype;
            break;
        case 14:
            s->replicated = s->tensor && !s->replicated;
            break;
        case 13:
            s->per_rank = !s->tensor && !s->per_rank;
            break;
        default:
            break;
        }
    }
    box rest = box_whole(all.g.ndim, all.g.shape);
    for (size_t i = 0; all.tensor && i < MOST_PARTS; i++) {
        box part = rest;
        if (all.g.ndim > 0 && i + 1 < MOST_PARTS) {
            int d = (int)fuzz_below(in, (unsigned)all.g.ndim);
            part.extent[d] = (int64_t)fuzz_below(in, (unsigned)rest.extent[d] + 1);
            rest.offset[d] += part.extent[d];
            rest.extent[d] -= part.extent[d];
        }
        part = fuzz_below(in, 16) == 15 ? grid_take_box(&all.g, in) : part;
        said *s = &m->said[fuzz_below(in, (unsigned)m->world_size)][k];
        s->parts[s->count++] = part;
        if (all.g.ndim == 0) {
            return;
        }
    }
}

static void put(table_writer *w, const void *key, size_t key_bytes, const void *value, size_t n) {
    pawl_error err = ERROR_INIT;
    FUZZ_CHECK(table_writer_add(w, key, key_bytes, value, n, &err) == PAWL_OK);
}

static void put_checksums(const made *m, int rank, table_writer *w) {
    for (size_t file = 0; file < m->files[rank]; file++) {
        uint32_t sums[4] = {(uint32_t)rank, (uint32_t)file, 7, 8};
        uint64_t blocks = (sizes[file] + FORMAT_BLOCK_BYTES - 1) / FORMAT_BLOCK_BYTES;
        uint8_t key[9];
        record_checksums_key(key, (uint32_t)file, 0);
        if (blocks > 0) {
            put(w, key, sizeof key, sums, (size_t)blocks * 4);
        }
    }
}

static void put_entry(const made *m, int rank, size_t k, table_writer *w) {
    CLEANUP(buffer_free) buffer key = {.data = NULL}, value = {.data = NULL};
    pawl_error err = ERROR_INIT;
    record_piece pieces[MOST_PARTS];
    said s = m->said[rank][k];
    record_entry e = {.name = names[k],
                      .kind = s.tensor ? PAWL_KIND_TENSOR : PAWL_KIND_BYTES,
                      .role = PAWL_ROLE_MODEL,
                      .per_rank = s.per_rank,
                      .replicated = s.replicated,
                      .dtype = s.tensor ? s.dtype : (pawl_dtype)0,
                      .ndim = s.g.ndim,
                      .shape = s.g.shape,
                      .pieces = pieces,
                      .piece_count = s.tensor ? s.count : 1};
    for (size_t i = 0; i < e.piece_count; i++) {
        pieces[i] = (record_piece){.file = (uint32_t)(i % m->files[rank]),
                                   .rank = rank,
                                   .offset = 10 * k,
                                   .bytes = s.tensor ? box_elements(&s.parts[i]) : 2};
        if (s.tensor) {
            pieces[i].box_offset = s.parts[i].offset;
            pieces[i].box_extent = s.parts[i].extent;
        }
    }
    if (!s.tensor && !s.per_rank) {
        e.value = (const uint8_t *)"xy";
        e.value_bytes = 2;
    }
    FUZZ_CHECK(record_entry_encode(&e, &value, &err) == PAWL_OK);
    FUZZ_CHECK(record_entry_key(&key, names[k], &err) == PAWL_OK);
    put(w, key.data, key.size, value.data, value.size);
}

static void put_sums(const made *m, int rank, size_t k, table_writer *w) {
    CLEANUP(buffer_free) buffer key = {.data = NULL}, value = {.data = NULL};
    pawl_error err = ERROR_INIT;
    said s = m->said[rank][k];
    box whole = box_whole(s.g.ndim, s.g.shape);
    const vote_replica replica = {.offset = whole.offset, .extent = whole.extent, .crc32c = s.sum};
    FUZZ_CHECK(vote_replicas_encode(&replica, 1, s.g.ndim, &value, &err) == PAWL_OK);
    FUZZ_CHECK(vote_key(&key, 'r', names[k], &err) == PAWL_OK);
    put(w, key.data, key.size, value.data, value.size);
}

static bool has_entry(const made *m, int rank, size_t k) {
    const said *s = &m->said[rank][k];
    return s->has && m->files[rank] > 0;
}

static void make_table(made *m, int rank) {
    pawl_error err = ERROR_INIT;
    table_writer *w = NULL;
    table_summary ignored;
    FUZZ_CHECK(table_writer_new(byte_sink_buffer(&m->tables[rank]), &w, &err) == PAWL_OK);
    put_checksums(m, rank, w);
    for (size_t k = 0; k < NAMES; k++) {
        if (has_entry(m, rank, k)) {
            put_entry(m, rank, k, w);
        }
    }
    for (size_t k = 0; k < NAMES; k++) {
        if (m->said[rank][k].sums) {
            put_sums(m, rank, k, w);
        }
    }
    FUZZ_CHECK(table_writer_finish(w, &ignored, &err) == PAWL_OK);
    table_writer_free(w);
}

static void make_head(made *m, int rank) {
    vote *head = &m->heads[rank];
    *head = (vote){.step = 1,
                   .rank = rank,
                   .world_size = m->world_size,
                   .tag = TAG,
                   .host = "h",
                   .files = m->vote_files[rank],
                   .file_count = m->files[rank]};
    for (size_t i = 0; i < m->files[rank]; i++) {
        name_data(m->file_names[rank][i], TAG, rank, (uint32_t)i, (uint32_t)m->files[rank]);
        m->vote_files[rank][i] = (vote_file){.name = m->file_names[rank][i], .bytes = sizes[i]};
    }
}

static void make(made *m, fuzz_bytes *in) {
    *m = (made){.world_size = 2 + (int)fuzz_below(in, MOST_RANKS - 1),
                .checking = fuzz_below(in, 2) != 0,
                .lies = fuzz_below(in, 4) == 3};
    for (int r = 0; r < m->world_size; r++) {
        m->files[r] = fuzz_below(in, 8) == 7 ? 0 : 1 + fuzz_below(in, 2);
    }
    for (size_t k = 0; k < NAMES; k++) {
        make_said(m, in, k);
    }
    for (int r = 0; r < m->world_size; r++) {
        make_table(m, r);
        make_head(m, r);
    }
    while (m->lies && !fuzz_done(in)) {
        buffer *t = &m->tables[fuzz_below(in, (unsigned)m->world_size)];
        size_t at = fuzz_below(in, 256) * 256u + fuzz_below(in, 256);
        t->data[at % t->size] = (uint8_t)fuzz_below(in, 256);
        (void)fuzz_repair_table(t->data, t->size, t->size);
    }
}

/* ---- a slow verdict ------------------------------------------------------------------------- */

static bool entry_fits(const made *m, size_t k) {
    const said *first = NULL;
    size_t voters = 0;
    grid g = {.ndim = 0};
    for (int r = 0; r < m->world_size; r++) {
        const said *s = &m->said[r][k];
        if (!has_entry(m, r, k)) {
            continue;
        }
        if (voters++ == 0) {
            first = s;
            g = s->g;
        }
        if (s->dtype != first->dtype || s->replicated != first->replicated ||
            s->per_rank != first->per_rank) {
            return false;
        }
        for (size_t i = 0; i < s->count; i++) {
            grid_add(&g, &s->parts[i]);
        }
    }
    if (voters == 0) {
        return true;
    }
    bool hole, overlap;
    return first->tensor ? grid_whole(&g, &hole, &overlap) : first->per_rank || voters == 1;
}

static bool sums_fit(const made *m, size_t k) {
    uint32_t sum = 0;
    for (int r = 0; m->checking && r < m->world_size; r++) {
        const said *s = &m->said[r][k];
        if (s->sums && sum != 0 && s->sum != sum) {
            return false;
        }
        sum = s->sums ? s->sum : sum;
    }
    return true;
}

static bool all_fits(const made *m) {
    bool fits = true;
    for (size_t k = 0; k < NAMES; k++) {
        fits = fits && entry_fits(m, k) && sums_fit(m, k);
    }
    return fits;
}

/* ---- what was written ----------------------------------------------------------------------- */

/* All pieces, in the order of ranks, in files behind those of the ranks before. */
static void check_entry(const made *m, size_t k, const record_entry *e) {
    size_t n = 0;
    uint32_t first_file = 0;
    for (int r = 0; r < m->world_size; r++) {
        const said *s = &m->said[r][k];
        size_t count = !has_entry(m, r, k) ? 0 : s->tensor ? s->count : 1;
        for (size_t i = 0; i < count; i++) {
            FUZZ_CHECK(n < e->piece_count && e->pieces[n].rank == r);
            FUZZ_CHECK(e->pieces[n].file == first_file + i % m->files[r]);
            n++;
        }
        first_file += (uint32_t)m->files[r];
    }
    FUZZ_CHECK(n == e->piece_count);
}

static size_t expected_records(const made *m) {
    size_t count = 0;
    for (int r = 0; r < m->world_size; r++) {
        for (size_t i = 0; i < m->files[r]; i++) {
            count += sizes[i] > 0;
        }
    }
    for (size_t k = 0; k < NAMES; k++) {
        bool has = false;
        for (int r = 0; r < m->world_size; r++) {
            has = has || has_entry(m, r, k);
        }
        count += has;
    }
    return count;
}

static void check_index(const made *m, const buffer *index) {
    CLEANUP(arena_free) arena memory = {.blocks = NULL};
    pawl_error err = ERROR_INIT;
    table *t = NULL;
    table_cursor *c = NULL;
    size_t records = 0;
    FUZZ_CHECK(table_open(byte_source_memory(index), NULL, &t, &err) == PAWL_OK);
    FUZZ_CHECK(table_cursor_new(t, &c, &err) == PAWL_OK);
    FUZZ_CHECK(table_seek(c, "", 0, &err) == PAWL_OK);
    for (; table_valid(c); records++) {
        const uint8_t *key, *value;
        size_t key_bytes, n;
        record_entry e;
        table_item(c, &key, &key_bytes, &value, &n);
        for (size_t k = 0; k < NAMES && key[0] == 'e'; k++) {
            if (strlen(names[k]) == key_bytes - 1 &&
                memcmp(names[k], key + 1, key_bytes - 1) == 0) {
                FUZZ_CHECK(record_entry_decode(key, key_bytes, value, n, 6, &memory, &e, &err) ==
                           PAWL_OK);
                check_entry(m, k, &e);
            }
        }
        FUZZ_CHECK(table_next(c, &err) == PAWL_OK);
    }
    FUZZ_CHECK(records == expected_records(m));
    table_cursor_free(c);
    table_close(t);
}

static pawl_status merge_all(made *m, buffer *index, pawl_error *err) {
    votes v = {.heads = m->heads, .own = m->tables[0]};
    merge *merging = NULL;
    table_summary summary;
    uint64_t count;
    for (int r = 1; r < m->world_size; r++) {
        char name[80], path[128];
        name_vote(name, TAG, r);
        (void)snprintf(path, sizeof path, WHO_STEP "/%s", name);
        who_put(path, m->tables[r].data, m->tables[r].size);
    }
    const merge_input input = {.store = who_store(),
                               .directory = WHO_STEP,
                               .tag = TAG,
                               .votes = &v,
                               .world_size = m->world_size,
                               .checking = m->checking};
    TRY(merge_open(&input, &merging, err));
    pawl_status status = merge_write(merging, byte_sink_buffer(index), &summary, &count, err);
    merge_close(merging);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static made m;
    fuzz_bytes in = {.data = data, .size = size};
    CLEANUP(buffer_free) buffer index = {.data = NULL};
    pawl_error err = ERROR_INIT;
    make(&m, &in);
    pawl_status status = merge_all(&m, &index, &err);
    if (status != PAWL_OK) {
        FUZZ_CHECK(err.status == status && err.attempt[0] != '\0');
        FUZZ_CHECK(status == PAWL_EMISMATCH || m.lies);
    }
    if (!m.lies) {
        FUZZ_CHECK((status == PAWL_OK) == all_fits(&m));
    }
    if (status == PAWL_OK && !m.lies) {
        fuzz_accepted++;
        check_index(&m, &index);
    }
    for (int r = 0; r < m.world_size; r++) {
        buffer_free(&m.tables[r]);
    }
    return 0;
}
