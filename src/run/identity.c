/* SPDX-License-Identifier: Apache-2.0 */
/* The members of an identity, both ways. */
#include "run/identity.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

static pawl_status put_text(buffer *out, const char *member, const char *text, pawl_error *err) {
    TRY(buffer_printf(out, err, ",\"%s\":", member));
    return buffer_json_string(out, text, strlen(text), err);
}

pawl_status identity_put_members(buffer *out, const process_identity *who, pawl_error *err) {
    TRY(put_text(out, "host", who->host, err));
    TRY(buffer_printf(out, err, ",\"pid\":%lld", (long long)who->pid));
    TRY(put_text(out, "boot_id", who->boot_id, err));
    TRY(put_text(out, "pid_namespace", who->pid_namespace, err));
    TRY(put_text(out, "time_namespace", who->time_namespace, err));
    return buffer_printf(out, err, ",\"start_ticks\":%llu", (unsigned long long)who->start_ticks);
}

void identity_take_text(const struct json_t *record, const char *member, char *to, size_t size) {
    const char *text = json_string_value(json_object_get(record, member));
    (void)snprintf(to, size, "%s", text != NULL ? text : "");
}

void identity_take_members(const struct json_t *record, process_identity *who) {
    json_int_t ticks = json_integer_value(json_object_get(record, "start_ticks"));
    identity_take_text(record, "host", who->host, sizeof who->host);
    identity_take_text(record, "boot_id", who->boot_id, sizeof who->boot_id);
    identity_take_text(record, "pid_namespace", who->pid_namespace, sizeof who->pid_namespace);
    identity_take_text(record, "time_namespace", who->time_namespace, sizeof who->time_namespace);
    who->pid = json_integer_value(json_object_get(record, "pid"));
    who->start_ticks = ticks > 0 ? (uint64_t)ticks : 0;
}

bool identity_same(const process_identity *a, const process_identity *b) {
    return a->pid == b->pid && a->start_ticks == b->start_ticks && strcmp(a->host, b->host) == 0 &&
           strcmp(a->boot_id, b->boot_id) == 0 && strcmp(a->pid_namespace, b->pid_namespace) == 0 &&
           strcmp(a->time_namespace, b->time_namespace) == 0;
}
