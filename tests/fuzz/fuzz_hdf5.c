/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as an HDF5 file: what is opened has entries that pass all checks, and the beginning of
 * each of their parts can be read, or is refused with its file. */
#include "fuzz.h"

#include "checkpoint/private.h"
#include "foreign/formats.h"
#include "foreign/hdf5/file.h"
#include "lib/simulated_platform.h"
#include "stores/stores.h"

#define MOST_READ ((size_t)65536)

static store *disk;
static simulated_platform os;

static void begin(void) {
    pawl_error err = ERROR_INIT;
    if (disk == NULL) {
        simulated_platform_init(&os, 1);
        FUZZ_CHECK(store_mem(&disk, &err) == PAWL_OK);
    }
}

static void read_part(struct source *s, const record_piece *piece) {
    static uint8_t bytes[MOST_READ];
    pawl_error err = ERROR_INIT;
    store_file *file = NULL;
    size_t n = piece->bytes < MOST_READ ? (size_t)piece->bytes : MOST_READ;
    FUZZ_CHECK(piece->file < s->all_files);
    FUZZ_CHECK(piece->offset + piece->bytes <= s->ops->file(s, piece->file).bytes);
    FUZZ_CHECK(s->ops->open(s, piece->file, STORE_READ, &file, &err) == PAWL_OK);
    pawl_status status = store_read(file, piece->offset, bytes, n, &err);
    if (status != PAWL_OK) {
        fuzz_check_refusal(&err, status);
        FUZZ_CHECK(status == PAWL_EDAMAGED && err.path[0] != '\0');
    }
    store_close(file);
}

static void read_all(pawl_checkpoint *c, struct source *s) {
    pawl_error err = ERROR_INIT;
    pawl_entries *walk = NULL;
    pawl_entry_info info;
    record_entry entry;
    CLEANUP(arena_free) arena memory = {.blocks = NULL};
    bool found;
    int more = 1;
    uint64_t count = 0;
    FUZZ_CHECK(entries_open(c, "", &walk, &err) == PAWL_OK);
    for (;;) { /* each entry is checked as it comes */
        pawl_status status = entries_next(walk, &info, &more, &err);
        FUZZ_CHECK(status == PAWL_OK);
        if (more == 0) {
            break;
        }
        count++;
        FUZZ_CHECK(s->ops->find(s, info.name, &memory, &entry, &found, &err) == PAWL_OK && found);
        for (size_t i = 0; i < entry.piece_count && i < 64; i++) {
            read_part(s, &entry.pieces[i]);
        }
    }
    FUZZ_CHECK(count == s->entries);
    pawl_entries_free(walk);
    pawl_verify_result result;
    pawl_status status = checkpoint_verify(c, NULL, &result, &err);
    FUZZ_CHECK(status == PAWL_OK || status == PAWL_EDAMAGED); /* chunks may be */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    pawl_error err = ERROR_INIT;
    struct source *weights = NULL;
    pawl_checkpoint *c = NULL;
    begin();
    FUZZ_CHECK(store_replace(disk, "x.h5", data, size, &err) == PAWL_OK);
    pawl_status status = archive_open(disk, false, &format_hdf5, "x.h5", true, &weights, &err);
    if (status != PAWL_OK) {
        fuzz_check_refusal(&err, status);
        FUZZ_CHECK(err.path[0] != '\0');
        return 0;
    }
    FUZZ_CHECK(checkpoint_open_source(weights, &os.table, NULL, &c, &err) == PAWL_OK);
    fuzz_accepted++;
    read_all(c, weights);
    pawl_checkpoint_close(c);
    return 0;
}

/* ---- checksums that fit again --------------------------------------------------------------- */

static void put_sum(uint8_t *data, size_t size, size_t at, size_t n) {
    if (n <= size - at && size - at - n >= 4) {
        uint32_t sum = hdf5_lookup3(data + at, n);
        memcpy(data + at + n, &sum, sizeof sum);
    }
}

/* Of a version 2 object header: as long as its first block. */
static void repair_header(uint8_t *data, size_t size, size_t at) {
    if (size - at < 16) {
        return;
    }
    uint8_t flags = data[at + 5];
    size_t head = 6 + ((flags & 0x20) != 0 ? 16u : 0) + ((flags & 0x10) != 0 ? 4u : 0);
    size_t n = 0;
    for (size_t i = 0; i < ((size_t)1 << (flags & 3)) && i < 4 && at + head + i < size; i++) {
        n |= (size_t)data[at + head + i] << (8 * i);
    }
    head += (size_t)1 << (flags & 3);
    if (n < size) {
        put_sum(data, size, at, head + n);
    }
}

/* With addresses and lengths of 8 bytes. */
size_t fuzz_repair(uint8_t *data, size_t size, size_t room) {
    static const struct {
        char signature[5];
        size_t n;
    } fixed[] = {{"BTHD", 34}, {"FRHP", 142}, {"FAHD", 24}, {"EAHD", 68}};
    (void)room;
    if (size >= 48 && data[8] >= 2) {
        put_sum(data, size, 0, 44);
    }
    for (size_t at = 0; at + 4 <= size; at++) {
        if (memcmp(data + at, "OHDR", 4) == 0) {
            repair_header(data, size, at);
        }
        for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) {
            if (memcmp(data + at, fixed[i].signature, 4) == 0) {
                put_sum(data, size, at, fixed[i].n);
            }
        }
    }
    return size;
}
