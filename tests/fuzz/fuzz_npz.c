/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a .npz: what is understood is decompressed within the sizes that it says. */
#include "fuzz_archive.h"

#include "foreign/formats.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    return fuzz_open_archive(&format_npz, "a.npz", data, size);
}
