/* SPDX-License-Identifier: Apache-2.0 */
/* The record of an owner, owner-<generation>, both ways. docs/format.md describes the bytes. */
#include "run/owner.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define OWNER_PREFIX         "owner-"
#define OWNER_COUNTER_AT     12 /* of its first digit, after {"counter":" */
#define OWNER_COUNTER_DIGITS 20
#define OWNER_MAX_RECORD     65536u

/* ---- names ---------------------------------------------------------------------------------- */

void owner_name(char out[32], uint64_t generation) {
    snprintf(out, 32, OWNER_PREFIX "%08llu", (unsigned long long)generation);
}

static bool owner_name_parse(const char *name, uint64_t *generation) {
    size_t prefix = strlen(OWNER_PREFIX);
    size_t length = strlen(name);
    if (strncmp(name, OWNER_PREFIX, prefix) != 0 || length < prefix + 8 || length > prefix + 18 ||
        strspn(name + prefix, "0123456789") != length - prefix) {
        return false;
    }
    uint64_t value = 0;
    for (const char *digit = name + prefix; *digit != '\0'; digit++) {
        value = value * 10 + (uint64_t)(*digit - '0');
    }
    *generation = value;
    return value > 0;
}

static pawl_status note_generation(void *context, const char *name, pawl_error *err) {
    (void)err;
    owner_names *names = context;
    uint64_t generation;
    if (!owner_name_parse(name, &generation)) {
        return PAWL_OK;
    }
    names->highest = generation > names->highest ? generation : names->highest;
    if (names->count < OWNER_NAMES) {
        names->generations[names->count++] = generation;
    }
    return PAWL_OK;
}

pawl_status owner_list(store *s, owner_names *out, pawl_error *err) {
    memset(out, 0, sizeof *out);
    return store_list(s, "", note_generation, out, err);
}

pawl_status owner_remove(store *s, uint64_t generation, pawl_error *err) {
    char name[32];
    owner_name(name, generation);
    return store_unlink(s, name, err);
}

/* ---- bytes ---------------------------------------------------------------------------------- */

static pawl_status record_encode(const owner *o, buffer *out, pawl_error *err) {
    TRY(buffer_printf(out, err, "{\"counter\":\"%020llu\"", (unsigned long long)o->counter));
    TRY(identity_put_members(out, &o->self, err));
    TRY(buffer_printf(out, err, ",\"attempt\":\"%s\",\"lease_s\":", o->attempt));
    TRY(buffer_json_number(out, o->lease_s, err));
    return buffer_printf(out, err, "}\n");
}

/* A record that does not parse is not an error: its owner was interrupted while writing it. */
static void record_decode(const buffer *text, owner_view *out) {
    json_error_t where;
    json_t *record =
        json_loadb((const char *)text->data, text->size, JSON_REJECT_DUPLICATES, &where);
    if (!json_is_object(record)) {
        json_decref(record);
        return;
    }
    char counter[OWNER_COUNTER_DIGITS + 1];
    identity_take_text(record, "counter", counter, sizeof counter);
    identity_take_text(record, "attempt", out->attempt, sizeof out->attempt);
    identity_take_members(record, &out->who);
    out->lease_s = json_number_value(json_object_get(record, "lease_s"));
    json_decref(record);
    for (const char *digit = counter; *digit >= '0' && *digit <= '9'; digit++) {
        out->counter = out->counter * 10 + (uint64_t)(*digit - '0');
    }
    out->readable = strlen(counter) == OWNER_COUNTER_DIGITS && out->who.pid > 0 &&
                    out->attempt[0] != '\0' && out->lease_s > 0 &&
                    out->lease_s <= OWNER_MAX_LEASE_S;
    out->present = !out->readable || out->counter != OWNER_GIVEN_UP;
}

pawl_status owner_read(store *s, uint64_t generation, owner_view *out, pawl_error *err) {
    char name[32];
    CLEANUP(buffer_free) buffer text = {0};
    *out = (owner_view){.present = true, .generation = generation, .alive = PROCESS_UNKNOWN};
    owner_name(name, generation);
    pawl_status status = store_read_file(s, name, OWNER_MAX_RECORD, &text, err);
    if (status == PAWL_OK) {
        record_decode(&text, out);
    }
    bool unreadable = status == PAWL_ENOTFOUND || status == PAWL_EDAMAGED || status == PAWL_ELIMIT;
    return unreadable ? PAWL_OK : status;
}

pawl_status owner_write(owner *o, store_file *file, pawl_error *err) {
    CLEANUP(buffer_free) buffer text = {0};
    TRY(record_encode(o, &text, err));
    TRY(store_write(file, 0, text.data, text.size, err));
    TRY(store_sync(file, err));
    return store_sync_dir(o->store, "", err);
}

pawl_status owner_write_counter(owner *o, uint64_t counter, pawl_error *err) {
    char name[32];
    char digits[OWNER_COUNTER_DIGITS + 1];
    owner_name(name, o->generation);
    snprintf(digits, sizeof digits, "%020llu", (unsigned long long)counter);
    CLEANUP(store_close_pointer) store_file *file = NULL;
    TRY(store_open(o->store, name, STORE_UPDATE, &file, err));
    return store_write(file, OWNER_COUNTER_AT, digits, OWNER_COUNTER_DIGITS, err);
}

/* ---- a look --------------------------------------------------------------------------------- */

/* Compares two clocks, so nothing is decided by it. */
static double heartbeat_age_s(store *s, const platform *os, uint64_t generation) {
    struct pawl_error ignored = ERROR_INIT;
    char name[32];
    store_stat found;
    owner_name(name, generation);
    if (store_stat_path(s, name, &found, &ignored) != PAWL_OK || found.modified_unix_ns == 0) {
        return -1;
    }
    /* As doubles: the two may lie further apart than 64 bits reach. */
    double age_s =
        ((double)os->unix_time_ns(os->context) - (double)found.modified_unix_ns) / NANOSECONDS;
    return age_s > 0 ? age_s : 0;
}

pawl_status owner_look_listed(store *s, const platform *os, owner_names *names, owner_view *out,
                              pawl_error *err) {
    *out = (owner_view){.alive = PROCESS_UNKNOWN};
    TRY(owner_list(s, names, err));
    if (names->highest == 0) {
        return PAWL_OK;
    }
    TRY(owner_read(s, names->highest, out, err));
    if (out->present) {
        out->heartbeat_age_s = heartbeat_age_s(s, os, names->highest);
    }
    if (out->present && out->readable) {
        out->alive = os->process_alive(os->context, &out->who);
    }
    return PAWL_OK;
}

pawl_status owner_look(store *s, const platform *os, owner_view *out, pawl_error *err) {
    owner_names names;
    return owner_look_listed(s, os, &names, out, err);
}
