/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a directory of torch.distributed.checkpoint: four of them say how long .metadata is,
 * which comes next; the rest is the one data file.
 */
#include "fuzz_archive.h"

#include "foreign/dcp/read.h"
#include "foreign/formats.h"

static size_t metadata_bytes(const uint8_t *data, size_t size) {
    size_t n = 0;
    for (size_t i = 4; i > 0; i--) {
        n = n << 8 | data[i - 1];
    }
    return n < size - 4 ? n : size - 4;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 4) {
        return 0;
    }
    size_t n = metadata_bytes(data, size);
    fuzz_put_file("__0_0.distcp", data + 4 + n, size - 4 - n);
    return fuzz_open_archive(&format_dcp, DCP_METADATA, data + 4, n);
}

/* The data file begins with a zip, and .metadata ends before it. */
size_t fuzz_repair(uint8_t *data, size_t size, size_t room) {
    (void)room;
    for (size_t i = 4; i + 4 <= size; i++) {
        if (memcmp(data + i, "PK\3\4", 4) == 0) {
            size_t n = i - 4;
            for (size_t k = 0; k < 4; k++) {
                data[k] = (uint8_t)(n >> 8 * k);
            }
            break;
        }
    }
    return size;
}
