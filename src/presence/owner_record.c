/* SPDX-License-Identifier: Apache-2.0 */
/* Lists, reads, writes and removes the records of owners, the files owner-<generation>;
 * format/presence_record.c encodes their bytes. */
#include "presence/owner.h"

#include <stdio.h>
#include <string.h>

/* ---- names ---------------------------------------------------------------------------------- */

static pawl_status add_generation(void *context, const store_listed *found, pawl_error *err) {
    const char *name = found->name;
    (void)err;
    owner_names *names = context;
    uint64_t generation;
    name_owner_kind kind = name_owner_parse(name, &generation);
    if (kind == NAME_OWNER_STRAY) {
        names->strays++;
        snprintf(names->stray, sizeof names->stray, "%s", name);
    }
    if (kind != NAME_OWNER) {
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
    return store_list(s, "", add_generation, out, err);
}

void owner_name(const store *s, uint64_t generation, char out[32]) {
    name_owner(out, generation);
    if (s->traits.objects) {
        snprintf(out, 32, NAME_OWNER_OBJECT);
    }
}

/* The highest listed generation below this one; 0: none. */
static uint64_t next_below(const owner_names *names, uint64_t generation) {
    uint64_t below = 0;
    for (size_t i = 0; i < names->count; i++) {
        uint64_t g = names->generations[i];
        below = g < generation && g > below ? g : below;
    }
    return below;
}

pawl_status owner_remove(store *s, uint64_t generation, pawl_error *err) {
    char name[32];
    store_stat found;
    name_owner(name, generation);
    pawl_status status = store_stat_path(s, name, &found, err);
    if (status == PAWL_OK && found.type != STORE_FILE_TYPE) {
        error_set(err, PAWL_EDAMAGED, "%s is not a file, and is left alone", name);
        return PAWL_EDAMAGED;
    }
    return status == PAWL_OK ? store_unlink(s, name, err) : status;
}

/* ---- reading -------------------------------------------------------------------------------- */

void owner_sight_fill(owner_sight *out, const owner_record *record) {
    out->readable = true;
    out->present = record->counter != OWNER_GIVEN_UP;
    out->counter = record->counter;
    out->who = record->who;
    out->lease_s = record->lease_s;
    out->working = record->working;
    out->working_on = record->working_on;
    memcpy(out->attempt, record->attempt, sizeof out->attempt);
}

/* A record that says another generation than its name is a copy, which nobody renews: unreadable.
 * */
static void show_record(const buffer *text, owner_sight *out) {
    struct pawl_error ignored = ERROR_INIT;
    owner_record record;
    if (owner_record_decode(text->data, text->size, &record, &ignored) != PAWL_OK ||
        (record.generation != 0 && record.generation != out->generation)) {
        return;
    }
    owner_sight_fill(out, &record);
}

static bool is_no_file(store *s, const char *name) {
    struct pawl_error ignored = ERROR_INIT;
    store_stat found;
    return store_stat_path(s, name, &found, &ignored) == PAWL_OK && found.type != STORE_FILE_TYPE;
}

static pawl_status read_one(store *s, uint64_t generation, owner_sight *out, bool *no_file,
                            pawl_error *err) {
    char name[32];
    CLEANUP(buffer_free) buffer text = {0};
    *out = (owner_sight){.present = true, .generation = generation, .alive = PROCESS_UNKNOWN};
    name_owner(name, generation);
    pawl_status status = store_read_file(s, name, OWNER_MAX_RECORD, &text, err);
    if (status == PAWL_OK) {
        show_record(&text, out);
    }
    *no_file = status == PAWL_EDAMAGED && is_no_file(s, name);
    bool unreadable = status == PAWL_ENOTFOUND || status == PAWL_EDAMAGED || status == PAWL_ELIMIT;
    return unreadable ? PAWL_OK : status;
}

pawl_status owner_read(store *s, const owner_names *names, uint64_t least, owner_sight *out,
                       pawl_error *err) {
    bool no_file;
    bool knows_all = names->count < OWNER_NAMES;
    for (uint64_t g = names->highest; g > least; g = next_below(names, g)) {
        TRY(read_one(s, g, out, &no_file, err));
        if (!no_file || !knows_all) {
            return PAWL_OK;
        }
    }
    *out = (owner_sight){.alive = PROCESS_UNKNOWN};
    return least > 0 ? read_one(s, least, out, &no_file, err) : PAWL_OK;
}

/* ---- writing -------------------------------------------------------------------------------- */

pawl_status owner_write(owner *o, store_file *file, pawl_error *err) {
    CLEANUP(buffer_free) buffer text = {0};
    owner_record record = {
        .counter = o->counter, .who = o->self, .generation = o->generation, .lease_s = o->lease_s};
    memcpy(record.attempt, o->attempt, sizeof record.attempt);
    TRY(owner_record_encode(&record, &text, err));
    TRY(store_write(file, 0, text.data, text.size, err));
    TRY(store_sync(file, err));
    return store_sync_dir(o->store, "", err);
}

pawl_status owner_write_counter(owner *o, uint64_t counter, pawl_error *err) {
    char name[32];
    name_owner(name, o->generation);
    return presence_write_counter(o->store, name, counter, err);
}

/* ---- a look --------------------------------------------------------------------------------- */

/* For people only: it compares the clocks of two machines. */
static double heartbeat_age_s(store *s, const platform *os, uint64_t generation) {
    struct pawl_error ignored = ERROR_INIT;
    char name[32];
    store_stat found;
    owner_name(s, generation, name);
    if (store_stat_path(s, name, &found, &ignored) != PAWL_OK || found.modified_unix_ns == 0) {
        return -1;
    }
    /* As doubles: the difference may not fit into 64 bits. */
    double age_s =
        ((double)os->unix_time_ns(os->context) - (double)found.modified_unix_ns) / NANOSECONDS;
    return age_s > 0 ? age_s : 0;
}

pawl_status owner_look_listed(store *s, const platform *os, owner_names *names, owner_sight *out,
                              pawl_error *err) {
    *out = (owner_sight){.alive = PROCESS_UNKNOWN};
    memset(names, 0, sizeof *names);
    if (s->traits.objects) {
        TRY(owner_object_look(s, out, err));
    } else {
        TRY(owner_list(s, names, err));
        TRY(owner_read(s, names, 0, out, err));
    }
    if (out->present) {
        out->heartbeat_age_s = heartbeat_age_s(s, os, out->generation);
    }
    if (out->present && out->readable) {
        out->alive = os->process_alive(os->context, &out->who);
    }
    return PAWL_OK;
}

pawl_status owner_look(store *s, const platform *os, owner_sight *out, pawl_error *err) {
    owner_names names;
    return owner_look_listed(s, os, &names, out, err);
}
