/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a GGUF file: what is understood lies within it. */
#include "fuzz_archive.h"

#include "foreign/formats.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    return fuzz_open_archive(&format_gguf, "m.gguf", data, size);
}
