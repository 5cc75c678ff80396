/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a block of a database of Orbax, and as the body of one: what is understood names
 * files below its directory alone, and keys that are no longer than they may be. */
#include "fuzz.h"

#include "foreign/orbax/ocdbt.h"

static void check_path(const ocdbt_table *t, const ocdbt_path *path) {
    FUZZ_CHECK(path->at + path->n < t->text.size + 1 && path->base < path->n);
    const char *text = (const char *)t->text.data + path->at;
    FUZZ_CHECK(strlen(text) == path->n && path->n > 0 && path->n < STORE_MAX_PATH);
    FUZZ_CHECK(text[0] != '/' && strstr(text, "//") == NULL && strncmp(text, "../", 3) != 0);
    FUZZ_CHECK(strstr(text, "/../") == NULL && strcmp(text, "..") != 0);
}

static bool read_manifest(const buffer *body, pawl_error *err) {
    cursor c = cursor_of(body->data, body->size, 0, "manifest");
    ocdbt_manifest m;
    pawl_status status = ocdbt_read_manifest(&c, &m, err);
    if (status != PAWL_OK) {
        fuzz_check_refusal(err, status);
    } else {
        FUZZ_CHECK(cursor_left(&c) == 0);
        if (!m.empty) {
            check_path(&m.table, &m.path);
        }
    }
    ocdbt_manifest_free(&m);
    return status == PAWL_OK;
}

static pawl_status read_items(ocdbt_node *node, const buffer *body, pawl_error *err) {
    for (uint64_t i = 0; i < node->count; i++) {
        ocdbt_item item;
        TRY(ocdbt_node_next(node, &item, err));
        FUZZ_CHECK(item.key_bytes <= OCDBT_MAX_KEY && item.common <= item.key_bytes);
        if (item.inlined != NULL) {
            FUZZ_CHECK(node->height == 0 && item.bytes <= OCDBT_MAX_INLINE);
            FUZZ_CHECK(item.inlined >= body->data);
            FUZZ_CHECK((size_t)(item.inlined - body->data) + item.bytes <= body->size);
        } else {
            check_path(&node->table, &item.path);
        }
    }
    return PAWL_OK;
}

static bool read_node(const buffer *body, pawl_error *err) {
    cursor c = cursor_of(body->data, body->size, 0, "node");
    ocdbt_node *node = mem_calloc(1, sizeof(*node));
    FUZZ_CHECK(node != NULL);
    pawl_status status = ocdbt_node_begin(&c, node, err);
    if (status == PAWL_OK) {
        status = read_items(node, body, err);
    }
    if (status != PAWL_OK) {
        fuzz_check_refusal(err, status);
    }
    ocdbt_node_free(node);
    mem_free(node);
    return status == PAWL_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const uint32_t magics[] = {OCDBT_MANIFEST, OCDBT_NODE};
    CLEANUP(buffer_free) buffer block = fuzz_copy(data, size);
    pawl_error err = ERROR_INIT;
    bool understood = read_manifest(&block, &err);
    understood = read_node(&block, &err) || understood;
    for (size_t i = 0; i < ARRAY_LENGTH(magics); i++) {
        CLEANUP(buffer_free) buffer room = {0};
        cursor body;
        pawl_status status =
            ocdbt_body(block.data, block.size, magics[i], 1 << 20, &room, &body, &err);
        if (status != PAWL_OK) {
            fuzz_check_refusal(&err, status);
            continue;
        }
        CLEANUP(buffer_free) buffer copy = fuzz_copy(body.data + body.at, cursor_left(&body));
        understood = (i == 0 ? read_manifest(&copy, &err) : read_node(&copy, &err)) || understood;
    }
    fuzz_accepted += understood;
    return 0;
}

/* Of a block: its length and its checksum. */
size_t fuzz_repair(uint8_t *data, size_t size, size_t room) {
    if (size < 18 || data[0] != 0x0c || data[1] != 0xdb) {
        return size;
    }
    for (size_t i = 0; i < 8; i++) {
        data[4 + i] = (uint8_t)((uint64_t)size >> (8 * i));
    }
    return fuzz_repair_tail(data, size, room);
}
