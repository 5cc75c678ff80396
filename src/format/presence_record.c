/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes and decodes the records of owners and readers, and the names of owners' records.
 *
 * They have no checksum: the counter changes in place, and a record is believed only as far as its
 * process can be seen to live, or to advance it. So a decoder accepts nothing that an encoder would
 * not have made. What it refuses is treated as a record that is still being written (owner.c,
 * reader.c).
 */
#include "format/presence_record.h"
#include "base/json.h"

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

static pawl_status put_record_text(buffer *out, const char *member, const char *text,
                                   pawl_error *err) {
    TRY(buffer_printf(out, err, ",\"%s\":", member));
    return buffer_json_string(out, text, strlen(text), err);
}

static pawl_status put_record_head(buffer *out, uint64_t counter, const process_identity *who,
                                   pawl_error *err) {
    char digits[PRESENCE_COUNTER_DIGITS + 1];
    presence_counter(digits, counter);
    TRY(buffer_printf(out, err, "{\"counter\":\"%s\"", digits));
    TRY(put_record_text(out, "host", who->host, err));
    TRY(buffer_printf(out, err, ",\"pid\":%lld", (long long)who->pid));
    TRY(put_record_text(out, "boot_id", who->boot_id, err));
    TRY(put_record_text(out, "pid_namespace", who->pid_namespace, err));
    TRY(put_record_text(out, "time_namespace", who->time_namespace, err));
    return buffer_printf(out, err, ",\"start_ticks\":%llu", (unsigned long long)who->start_ticks);
}

pawl_status owner_record_encode(const owner_record *r, buffer *out, pawl_error *err) {
    TRY(put_record_head(out, r->counter, &r->who, err));
    TRY(buffer_printf(out, err, ",\"generation\":%llu,\"attempt\":\"%s\",\"lease_s\":",
                      (unsigned long long)r->generation, r->attempt));
    TRY(buffer_json_number(out, r->lease_s, err));
    if (r->working) {
        TRY(buffer_printf(out, err, ",\"working_on\":%lld", (long long)r->working_on));
    }
    return buffer_append(out, "}\n", 2, err);
}

pawl_status reader_record_encode(const reader_record *r, buffer *out, pawl_error *err) {
    TRY(put_record_head(out, r->counter, &r->who, err));
    return buffer_append(out, "}\n", 2, err);
}

/* ---- decoding ------------------------------------------------------------------------------- */

static pawl_status damaged_record(const char *why, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "the record of an owner or reader is damaged");
    error_found(err, "%s", why);
    return PAWL_EDAMAGED;
}

/* The members that a record may have; one that is missing or of another type is 0. */
typedef struct record_members {
    json_span counter, host, boot_id, pid_namespace, time_namespace, attempt;
    int64_t pid, start_ticks, generation, working_on;
    double lease_s;
    bool has_generation, working;
} record_members;

static pawl_status get_members(const void *bytes, size_t n, record_members *out, pawl_error *err) {
    json_field fields[] = {
        {NULL, "generation", &out->generation, FIELD_INTEGER, 0},
        {NULL, "counter", &out->counter, FIELD_STRING, 0},
        {NULL, "host", &out->host, FIELD_STRING, 0},
        {NULL, "pid", &out->pid, FIELD_INTEGER, 0},
        {NULL, "boot_id", &out->boot_id, FIELD_STRING, 0},
        {NULL, "pid_namespace", &out->pid_namespace, FIELD_STRING, 0},
        {NULL, "time_namespace", &out->time_namespace, FIELD_STRING, 0},
        {NULL, "start_ticks", &out->start_ticks, FIELD_INTEGER, 0},
        {NULL, "attempt", &out->attempt, FIELD_STRING, 0},
        {NULL, "lease_s", &out->lease_s, FIELD_NUMBER, 0},
        {NULL, "working_on", &out->working_on, FIELD_INTEGER, 0},
    };
    *out = (record_members){.pid = 0};
    if (n > OWNER_MAX_RECORD || !json_fields(bytes, n, fields, ARRAY_LENGTH(fields))) {
        return damaged_record("no JSON object", err);
    }
    out->has_generation = fields[0].found != FIELD_ABSENT;
    out->working = fields[ARRAY_LENGTH(fields) - 1].found != FIELD_ABSENT;
    return PAWL_OK;
}

/* False, and "", where there is no text, and where it does not fit. */
static bool copy_characters(json_span text, char *to, size_t size) {
    size_t n = text.text != NULL ? json_decode(text, to, size) : size;
    to[n < size ? n : 0] = '\0';
    return n < size;
}

static bool get_counter(json_span text, uint64_t *out) {
    char digits[PRESENCE_COUNTER_DIGITS + 1];
    char same[PRESENCE_COUNTER_DIGITS + 1];
    if (!copy_characters(text, digits, sizeof digits)) {
        return false;
    }
    *out = strtoull(digits, NULL, 10);
    presence_counter(same, *out);
    return strcmp(digits, same) == 0; /* 20 digits, of a number that fits */
}

static pawl_status get_record_head(const record_members *m, uint64_t *counter,
                                   process_identity *who, pawl_error *err) {
    who->pid = m->pid;
    who->start_ticks = m->start_ticks > 0 ? (uint64_t)m->start_ticks : 0;
    (void)copy_characters(m->boot_id, who->boot_id, sizeof who->boot_id);
    (void)copy_characters(m->pid_namespace, who->pid_namespace, sizeof who->pid_namespace);
    (void)copy_characters(m->time_namespace, who->time_namespace, sizeof who->time_namespace);
    if (!get_counter(m->counter, counter)) {
        return damaged_record("a counter that is not of 20 decimal digits", err);
    }
    if (who->pid <= 0) {
        return damaged_record("no process id above 0", err);
    }
    return copy_characters(m->host, who->host, sizeof who->host) ? PAWL_OK
                                                                 : damaged_record("no host", err);
}

static bool is_attempt_text(const char *text) {
    return strlen(text) == ATTEMPT_CHARS && strspn(text, HEXADECIMAL) == ATTEMPT_CHARS;
}

pawl_status owner_record_decode(const void *bytes, size_t n, owner_record *out, pawl_error *err) {
    record_members m;
    *out = (owner_record){0};
    TRY(get_members(bytes, n, &m, err));
    TRY(get_record_head(&m, &out->counter, &out->who, err));
    if (!copy_characters(m.attempt, out->attempt, sizeof out->attempt) ||
        !is_attempt_text(out->attempt)) {
        return damaged_record("no attempt of 12 hexadecimal digits", err);
    }
    if (!(m.lease_s >= OWNER_MIN_LEASE_S && m.lease_s <= OWNER_MAX_LEASE_S)) {
        return damaged_record("a lease that no owner has", err);
    }
    if (m.has_generation && (m.generation <= 0 || (uint64_t)m.generation > OWNER_MAX_GENERATION)) {
        return damaged_record("a generation that no owner has", err);
    }
    if (m.working_on < 0) {
        return damaged_record("a step below 0", err);
    }
    out->lease_s = m.lease_s;
    out->working = m.working;
    out->working_on = m.working_on;
    out->generation = (uint64_t)m.generation;
    return PAWL_OK;
}

pawl_status reader_record_decode(const void *bytes, size_t n, reader_record *out, pawl_error *err) {
    record_members m;
    *out = (reader_record){0};
    TRY(get_members(bytes, n, &m, err));
    return get_record_head(&m, &out->counter, &out->who, err);
}

bool presence_same(const process_identity *a, const process_identity *b) {
    return a->pid == b->pid && a->start_ticks == b->start_ticks && strcmp(a->host, b->host) == 0 &&
           strcmp(a->boot_id, b->boot_id) == 0 && strcmp(a->pid_namespace, b->pid_namespace) == 0 &&
           strcmp(a->time_namespace, b->time_namespace) == 0;
}
