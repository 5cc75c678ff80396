/* SPDX-License-Identifier: Apache-2.0 */
/* How something is opened: pawl_open_options, and the storage, which repeats what fails for a
 * passing reason (S08). */
#include "api/api.h"
#include "checkpoint/checkpoint.h"
#include "foreign/foreign.h"
#include "path/path.h"

#define RETRY_TRIES          4
#define RETRY_FIRST_DELAY_NS 100000000u

static pawl_status retrying(store *plain, store **out, pawl_error *err) {
    return store_retry_wrap(plain, platform_system(), RETRY_TRIES, RETRY_FIRST_DELAY_NS, out, err);
}

pawl_status open_retrying(const pawl_storage *storage, const char *path, bool create, store **out,
                          pawl_error *err) {
    store *plain;
    *out = NULL;
    TRY(storage_open_path(storage, path, create, &plain, err));
    return retrying(plain, out, err);
}

pawl_status open_links_retrying(const pawl_storage *storage, const char *path, store **out,
                                pawl_error *err) {
    store *plain;
    *out = NULL;
    if (!storage_is_local(storage)) {
        return open_retrying(storage, path, false, out, err);
    }
    TRY(path_open_of_links(path, &plain, err));
    return retrying(plain, out, err);
}

pawl_status open_file_retrying(const pawl_storage *storage, const char *path, store **out,
                               char **file, pawl_error *err) {
    store *plain;
    *out = NULL;
    *file = NULL;
    if (!storage_is_local(storage)) {
        return open_retrying(storage, path, false, out, err);
    }
    TRY(path_open_file(path, foreign_opens, &plain, file, err));
    pawl_status status = retrying(plain, out, err);
    if (status != PAWL_OK) {
        mem_free(*file);
        *file = NULL;
    }
    return status;
}

static pawl_status no_step_wanted(const char *call, pawl_error *err) {
    error_set(err, PAWL_EUSAGE, "%s: options.step has no meaning here", call);
    error_expected(err, "a null pointer");
    error_next(err, "open one step with pawl_checkpoint_open");
    return PAWL_EUSAGE;
}

pawl_status check_step(const int64_t *step, const char *call, pawl_error *err) {
    if (step != NULL && *step < 0) {
        error_set(err, PAWL_EUSAGE, "%s: options.step is negative", call);
        error_expected(err, "0 or more; a null pointer for the newest");
        error_found(err, "%lld", (long long)*step);
        return PAWL_EUSAGE;
    }
    return PAWL_OK;
}

pawl_status take_opening(opening *to, const pawl_open_options *from, bool with_step,
                         const char *call, pawl_error *err) {
    pawl_open_options known;
    TRY(take_options(&known, sizeof(known), from, call, "pawl_open_options", err));
    *to = (opening){.storage = known.storage, .log = known.log, .step = CHECKPOINT_NEWEST};
    TRY(take_log(&to->log, &to->known_log, call, err));
    if (known.step == NULL) {
        return PAWL_OK;
    }
    if (!with_step) {
        return no_step_wanted(call, err);
    }
    TRY(check_step(known.step, call, err));
    to->step = *known.step;
    return PAWL_OK;
}
