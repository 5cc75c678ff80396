/* SPDX-License-Identifier: Apache-2.0 */
/* For libFuzzer: its own mutations, behind which lengths and checksums mostly fit again. */
#include "fuzz.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) {
    size = LLVMFuzzerMutate(data, size, room);
    return seed % 8 != 0 ? fuzz_repair(data, size, room) : size;
}
