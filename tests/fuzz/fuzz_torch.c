/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a file of torch.save: a zip, or one of the two formats before. */
#include "fuzz_archive.h"
#include "repair_zip.h"

#include "foreign/formats.h"
#include "foreign/torch/read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const archive_format *format = torch_looks_like_stream(data, size) ? &format_torch_stream
                                   : torch_looks_like_tar(data, size)  ? &format_torch_tar
                                                                       : &format_torch;
    return fuzz_open_archive(format, "m.pt", data, size);
}

size_t fuzz_repair(uint8_t *data, size_t size, size_t room) {
    return fuzz_repair_zip(data, size, room);
}
