/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the _METADATA of Orbax: leaves have names, in order, each once. */
#include "fuzz.h"

#include "foreign/orbax/tree.h"

static void check_leaves(const orbax_tree *t) {
    for (size_t i = 0; i < t->count; i++) {
        const orbax_leaf *leaf = &t->leaves[i];
        FUZZ_CHECK(i == 0 || strcmp(t->leaves[i - 1].stored, leaf->stored) < 0);
        FUZZ_CHECK((leaf->kind == ORBAX_OTHER) == (leaf->value != NULL) && !leaf->found);
        FUZZ_CHECK(orbax_tree_find(t, leaf->stored, strlen(leaf->stored)) == leaf);
        FUZZ_CHECK(leaf->name[0] == '\0' || strlen(leaf->name) > PAWL_MAX_NAME_BYTES ||
                   entry_name_valid(leaf->name, strlen(leaf->name), NULL));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CLEANUP(buffer_free) buffer text = fuzz_copy(data, size);
    pawl_error err = ERROR_INIT;
    archive a = {0}; /* names live in its memory */
    orbax_tree tree = {0};
    pawl_status status = orbax_tree_read(&a, text.data, text.size, &tree, &err);
    if (status != PAWL_OK) {
        fuzz_check_refusal(&err, status);
    } else {
        fuzz_accepted++;
        check_leaves(&tree);
    }
    orbax_tree_free(&tree);
    arena_free(&a.base.memory);
    return 0;
}
