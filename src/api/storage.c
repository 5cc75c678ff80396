/* SPDX-License-Identifier: Apache-2.0 */
/* pawl_storage_open, pawl_storage_close: the kinds of storage that this library has. */
#include "api/api.h"
#include "path/path.h"

#include <string.h>

static pawl_status no_such_kind(const char *kind, pawl_error *err) {
    error_set(err, PAWL_EUNSUPPORTED,
              "pawl_storage_open: this library has no storage of the kind \"%.100s\"", kind);
    error_expected(err, "\"file\", the local filesystem");
    error_next(err, "mount that storage, and give the path, or use a libpawl that has it");
    return PAWL_EUNSUPPORTED;
}

/* What a setting says may be a secret: only its name is told. */
static pawl_status no_such_setting(const pawl_setting *setting, pawl_error *err) {
    TRY(need(setting->name, "pawl_storage_open", "the name of a setting", err));
    error_set(err, PAWL_EUSAGE, "pawl_storage_open: \"file\" does not know the setting \"%.100s\"",
              setting->name);
    error_expected(err, "no settings: the local filesystem needs none");
    return PAWL_EUSAGE;
}

static pawl_status open_storage(const char *kind, const pawl_storage_options *options,
                                pawl_storage **out, pawl_error *err) {
    static const char call[] = "pawl_storage_open";
    CLEANUP(mem_free_pointer) void *copy = NULL;
    pawl_storage_options known;
    TRY(need(out, call, "storage", err));
    *out = NULL;
    TRY(take_options(&known, sizeof(known), options, call, "pawl_storage_options", err));
    const given_items given = {.items = known.settings,
                               .count = known.setting_count,
                               .size = known.setting_size,
                               .known_size = sizeof(*known.settings),
                               .call = call,
                               .name = "settings",
                               .size_name = "setting_size",
                               .type = "pawl_setting"};
    TRY(take_items(&given, &copy, err));
    if (kind != NULL && strcmp(kind, "file") != 0) {
        return no_such_kind(kind, err);
    }
    if (known.setting_count > 0) {
        return no_such_setting(copy != NULL ? copy : known.settings, err);
    }
    return storage_new(&storage_file, NULL, out, err);
}

pawl_status pawl_storage_open(const char *kind, const pawl_storage_options *options,
                              pawl_storage **storage, pawl_error *err) {
    struct pawl_error story;
    return story_end(open_storage(kind, options, storage, story_begin(&story)), &story, err);
}

void pawl_storage_close(pawl_storage *storage) {
    storage_release(storage);
}
