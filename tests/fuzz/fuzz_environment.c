/* SPDX-License-Identifier: Apache-2.0 */
/* An environment, a variable a line: what is found in it makes a group; else it is refused. */
#include "fuzz.h"

#include "group/group.h"

#define MAX_VARIABLES 64

static void check_found(const pawl_group_found *found) {
    pawl_error err = ERROR_INIT;
    rank_group *g = NULL;
    const pawl_group given = {.struct_size = sizeof given,
                              .rank = found->rank,
                              .world_size = found->world_size,
                              .launch = found->launch[0] != '\0' ? found->launch : "any"};
    FUZZ_CHECK(group_new(&given, &g, &err) == PAWL_OK);
    group_free(g);
    FUZZ_CHECK(found->local_rank >= -1 && found->local_size >= 0);
    FUZZ_CHECK(found->source != NULL);
    FUZZ_CHECK(memchr(found->text, '\0', sizeof found->text) != NULL && found->text[0] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CLEANUP(buffer_free) buffer text = {.data = NULL};
    const char *environment[MAX_VARIABLES + 1];
    pawl_error err = ERROR_INIT;
    pawl_group_found found;
    size_t count = 0;
    fuzz_append(&text, data, size);
    fuzz_append(&text, "", 1);
    for (char *at = (char *)text.data; at != NULL && count < MAX_VARIABLES;) {
        environment[count++] = strsep(&at, "\n");
    }
    environment[count] = NULL;
    pawl_status status = group_discover(environment, &found, &err);
    if (status == PAWL_OK) {
        fuzz_accepted++;
        check_found(&found);
    } else {
        FUZZ_CHECK(status == PAWL_EUSAGE || status == PAWL_EMISMATCH || status == PAWL_ELIMIT);
        FUZZ_CHECK(err.status == status && err.attempt[0] != '\0' && err.next[0] != '\0');
    }
    return 0;
}
