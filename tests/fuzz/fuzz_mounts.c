/* SPDX-License-Identifier: Apache-2.0 */
/* A line of mountinfo: its parts lie within it, and their names' escapes are undone. */
#include "fuzz.h"

#include "store/mount_table.h"

static void check_within(const char *part, const char *line, size_t n) {
    FUZZ_CHECK(part >= line && part + strlen(part) <= line + n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    mount_line m;
    size_t n = strnlen((const char *)data, size < MOUNT_LINE_BYTES ? size : MOUNT_LINE_BYTES - 1);
    AUTOFREE char *line = mem_alloc(n + 1);
    FUZZ_CHECK(line != NULL);
    memcpy(line, data, n);
    line[n] = '\0';
    if (mount_line_parse(line, &m)) {
        fuzz_accepted++;
        check_within(m.device, line, n);
        check_within(m.root, line, n);
        check_within(m.point, line, n);
        check_within(m.options, line, n);
        check_within(m.filesystem, line, n);
        check_within(m.super_options, line, n);
        FUZZ_CHECK(m.point[0] != '\0' && m.filesystem[0] != '\0');
        (void)mount_has_option(m.super_options, m.options);
    }
    return 0;
}
