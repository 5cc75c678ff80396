/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of owners and readers, both ways, and the names of owners' records.
 *
 * They have no checksum: the counter changes in place, and a record is believed only as far as its
 * process can be seen to live, or to advance it. So a decoder takes nothing that an encoder would
 * not have made; what is no record is then judged as one that is on its way (owner.c, reader.c).
 */
#include "format/presence.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OWNER_PREFIX  "owner-"
#define OWNER_DIGITS  8 /* at least */
#define ATTEMPT_CHARS 12
#define HEXADECIMAL   "0123456789abcdef"
#define DECIMAL       "0123456789"

/* ---- names ---------------------------------------------------------------------------------- */

void name_owner(char out[32], uint64_t generation) {
    (void)snprintf(out, 32, OWNER_PREFIX "%0*llu", OWNER_DIGITS, (unsigned long long)generation);
}

name_owner_kind name_owner_parse(const char *name, uint64_t *generation) {
    char same[32];
    size_t prefix = strlen(OWNER_PREFIX);
    if (strncmp(name, OWNER_PREFIX, prefix) != 0 || name[prefix] == '\0' ||
        name[prefix + strspn(name + prefix, DECIMAL)] != '\0') {
        return NAME_OWNER_NOT;
    }
    uint64_t value = strtoull(name + prefix, NULL, 10); /* UINT64_MAX where it is more */
    name_owner(same, value);
    if (value == 0 || value > OWNER_MAX_GENERATION || strcmp(name, same) != 0) {
        return NAME_OWNER_STRAY;
    }
    *generation = value;
    return NAME_OWNER;
}

/* ---- encoding ------------------------------------------------------------------------------- */

void presence_counter(char out[PRESENCE_COUNTER_DIGITS + 1], uint64_t counter) {
    (void)snprintf(out, PRESENCE_COUNTER_DIGITS + 1, "%020llu", (unsigned long long)counter);
}

static pawl_status put_text(buffer *out, const char *member, const char *text, pawl_error *err) {
    TRY(buffer_printf(out, err, ",\"%s\":", member));
    return buffer_json_string(out, text, strlen(text), err);
}

static pawl_status put_head(buffer *out, uint64_t counter, const process_identity *who,
                            pawl_error *err) {
    char digits[PRESENCE_COUNTER_DIGITS + 1];
    presence_counter(digits, counter);
    TRY(buffer_printf(out, err, "{\"counter\":\"%s\"", digits));
    TRY(put_text(out, "host", who->host, err));
    TRY(buffer_printf(out, err, ",\"pid\":%lld", (long long)who->pid));
    TRY(put_text(out, "boot_id", who->boot_id, err));
    TRY(put_text(out, "pid_namespace", who->pid_namespace, err));
    TRY(put_text(out, "time_namespace", who->time_namespace, err));
    return buffer_printf(out, err, ",\"start_ticks\":%llu", (unsigned long long)who->start_ticks);
}

pawl_status owner_record_encode(const owner_record *r, buffer *out, pawl_error *err) {
    TRY(put_head(out, r->counter, &r->who, err));
    TRY(buffer_printf(out, err, ",\"generation\":%llu,\"attempt\":\"%s\",\"lease_s\":",
                      (unsigned long long)r->generation, r->attempt));
    TRY(buffer_json_number(out, r->lease_s, err));
    return buffer_append(out, "}\n", 2, err);
}

pawl_status reader_record_encode(const reader_record *r, buffer *out, pawl_error *err) {
    TRY(put_head(out, r->counter, &r->who, err));
    return buffer_append(out, "}\n", 2, err);
}

/* ---- decoding ------------------------------------------------------------------------------- */

static pawl_status damaged(const char *why, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "no process leaves such a record");
    error_found(err, "%s", why);
    return PAWL_EDAMAGED;
}

/* False, and "", for what is no text, or would have to be cut. */
static bool take_text(const json_t *record, const char *member, char *to, size_t size) {
    const char *text = json_string_value(json_object_get(record, member));
    bool fits = text != NULL && strlen(text) < size;
    (void)snprintf(to, size, "%s", fits ? text : "");
    return fits;
}

static bool take_counter(const json_t *record, uint64_t *out) {
    char digits[PRESENCE_COUNTER_DIGITS + 1];
    char same[PRESENCE_COUNTER_DIGITS + 1];
    if (!take_text(record, "counter", digits, sizeof digits)) {
        return false;
    }
    *out = strtoull(digits, NULL, 10);
    presence_counter(same, *out);
    return strcmp(digits, same) == 0; /* so many digits, and no more than fit */
}

static pawl_status take_head(const json_t *record, uint64_t *counter, process_identity *who,
                             pawl_error *err) {
    json_int_t ticks = json_integer_value(json_object_get(record, "start_ticks"));
    who->pid = json_integer_value(json_object_get(record, "pid"));
    who->start_ticks = ticks > 0 ? (uint64_t)ticks : 0;
    (void)take_text(record, "boot_id", who->boot_id, sizeof who->boot_id);
    (void)take_text(record, "pid_namespace", who->pid_namespace, sizeof who->pid_namespace);
    (void)take_text(record, "time_namespace", who->time_namespace, sizeof who->time_namespace);
    if (!take_counter(record, counter)) {
        return damaged("a counter that is not of 20 decimal digits", err);
    }
    if (who->pid <= 0) {
        return damaged("no process id above 0", err);
    }
    return take_text(record, "host", who->host, sizeof who->host) ? PAWL_OK
                                                                  : damaged("no host", err);
}

static bool is_attempt(const char *text) {
    return strlen(text) == ATTEMPT_CHARS && strspn(text, HEXADECIMAL) == ATTEMPT_CHARS;
}

static pawl_status take_owner(const json_t *record, owner_record *out, pawl_error *err) {
    const json_t *generation = json_object_get(record, "generation");
    json_int_t number = json_integer_value(generation);
    TRY(take_head(record, &out->counter, &out->who, err));
    out->lease_s = json_number_value(json_object_get(record, "lease_s"));
    if (!take_text(record, "attempt", out->attempt, sizeof out->attempt) ||
        !is_attempt(out->attempt)) {
        return damaged("no attempt of 12 hexadecimal digits", err);
    }
    if (!(out->lease_s >= OWNER_MIN_LEASE_S && out->lease_s <= OWNER_MAX_LEASE_S)) {
        return damaged("a lease that no owner has", err);
    }
    if (generation != NULL && (number <= 0 || (uint64_t)number > OWNER_MAX_GENERATION)) {
        return damaged("a generation that no owner has", err);
    }
    out->generation = (uint64_t)number;
    return PAWL_OK;
}

static json_t *load(const void *bytes, size_t n) {
    json_error_t where;
    /* jansson takes a NUL behind the object for the end of the text. */
    bool can_be_text = n <= OWNER_MAX_RECORD && memchr(bytes, '\0', n) == NULL;
    json_t *record = can_be_text ? json_loadb(bytes, n, JSON_REJECT_DUPLICATES, &where) : NULL;
    if (!json_is_object(record)) {
        json_decref(record);
        return NULL;
    }
    return record;
}

pawl_status owner_record_decode(const void *bytes, size_t n, owner_record *out, pawl_error *err) {
    json_t *record = load(bytes, n);
    *out = (owner_record){0};
    pawl_status status =
        record != NULL ? take_owner(record, out, err) : damaged("no object of JSON", err);
    json_decref(record);
    return status;
}

pawl_status reader_record_decode(const void *bytes, size_t n, reader_record *out, pawl_error *err) {
    json_t *record = load(bytes, n);
    *out = (reader_record){0};
    pawl_status status = record != NULL ? take_head(record, &out->counter, &out->who, err)
                                        : damaged("no object of JSON", err);
    json_decref(record);
    return status;
}

bool presence_same(const process_identity *a, const process_identity *b) {
    return a->pid == b->pid && a->start_ticks == b->start_ticks && strcmp(a->host, b->host) == 0 &&
           strcmp(a->boot_id, b->boot_id) == 0 && strcmp(a->pid_namespace, b->pid_namespace) == 0 &&
           strcmp(a->time_namespace, b->time_namespace) == 0;
}
