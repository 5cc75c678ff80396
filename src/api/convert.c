/* SPDX-License-Identifier: Apache-2.0 */
/* pawl_convert. */
#include "convert/convert.h"
#include "api/api.h"
#include "foreign/foreign.h"
#include "path/path.h"

#include <string.h>

static const char call[] = "pawl_convert";

const char *pawl_convert_formats(void) {
    return writer_names();
}

/* ---- options -------------------------------------------------------------------------------- */

/* *to NULL: a run. */
static pawl_status choose_format(const char *path, const pawl_convert_options *o,
                                 const writer_format **to, pawl_error *err) {
    *to = o->to == NULL ? writer_by_path(path) : writer_by_name(o->to);
    if (*to == NULL && o->to == NULL && foreign_opens(path)) {
        error_set(err, PAWL_EUSAGE, "%s: the ending of the path says a format that is not written",
                  call);
        error_path(err, "%s", path);
        error_expected(err, "options.to, one of: %s", writer_names());
        error_next(err, "say the format, or give the directory of a run another name");
        return PAWL_EUSAGE;
    }
    if (o->to == NULL || *to != NULL || strcmp(o->to, "pawl") == 0) {
        return PAWL_OK;
    }
    error_set(err, PAWL_EUSAGE, "%s: there is no format of that name that can be written", call);
    error_expected(err, "one of: %s", writer_names());
    error_found(err, "%.100s", o->to);
    return PAWL_EUSAGE;
}

static pawl_status check_cast(pawl_dtype cast, pawl_error *err) {
    if (cast == 0 || cast == PAWL_F64 || cast == PAWL_F32 || cast == PAWL_F16 ||
        cast == PAWL_BF16) {
        return PAWL_OK;
    }
    const char *name = pawl_dtype_name(cast);
    error_set(err, PAWL_EUSAGE, "%s: options.cast is no type that tensors can be cast to", call);
    error_expected(err, "F64, F32, F16 or BF16");
    error_found(err, "%s", name != NULL ? name : "a number that is no type");
    return PAWL_EUSAGE;
}

static pawl_status check_names(const pawl_convert_options *o, pawl_error *err) {
    TRY(need_items(o->only, o->only_count, call, "options.only", err));
    for (size_t i = 0; i < o->only_count; i++) {
        TRY(need(o->only[i], call, "options.only[i]", err));
    }
    for (size_t i = 0; i < o->rename_count; i++) {
        TRY(need(o->renames[i].from, call, "options.renames[i].from", err));
        TRY(need(o->renames[i].to, call, "options.renames[i].to", err));
    }
    return PAWL_OK;
}

static pawl_status take_convert(pawl_convert_options *to, const pawl_convert_options *from,
                                void **renames, pawl_error *err) {
    TRY(take_options(to, sizeof(*to), from, call, "pawl_convert_options", err));
    const given_items given = {.items = to->renames,
                               .count = to->rename_count,
                               .size = to->rename_size,
                               .known_size = sizeof(*to->renames),
                               .call = call,
                               .name = "options.renames",
                               .size_name = "rename_size",
                               .type = "pawl_rename"};
    TRY(take_items(&given, renames, err));
    to->renames = *renames != NULL ? *renames : to->renames;
    TRY(check_names(to, err));
    TRY(check_cast(to->cast, err));
    return to->step == NULL ? PAWL_OK : check_step(to->step, call, err);
}

/* ---- the path ------------------------------------------------------------------------------- */

/* "a/b" is b in a; "b" is b in the working directory. */
static pawl_status split_path(const char *path, char **parent, const char **name, pawl_error *err) {
    const char *slash = strrchr(path, '/');
    *name = slash != NULL ? slash + 1 : path;
    if ((*name)[0] == '\0' || strcmp(*name, ".") == 0 || strcmp(*name, "..") == 0) {
        error_set(err, PAWL_EUSAGE, "%s: the path does not end in a name", call);
        error_path(err, "%s", path);
        error_expected(err, "a name that is not there yet");
        return PAWL_EUSAGE;
    }
    *parent = mem_strdup(slash != NULL ? path : ".");
    if (*parent == NULL) {
        return error_nomem(err, strlen(path));
    }
    if (slash != NULL) {
        (*parent)[slash == path ? 1 : slash - path] = '\0';
    }
    return PAWL_OK;
}

static pawl_status write_files(pawl_checkpoint *from, const convert_plan *plan, const char *path,
                               const writer_format *to, const pawl_convert_options *o,
                               pawl_convert_result *result, pawl_error *err) {
    AUTOFREE char *parent = NULL;
    CLEANUP(store_destroy_pointer) store *into = NULL;
    const char *name;
    TRY(split_path(path, &parent, &name, err));
    TRY(path_open(parent, false, &into, err));
    return convert_to_files(from, plan, into, name, to, o, platform_system(), result, err);
}

/* ---- a run ---------------------------------------------------------------------------------- */

/* "runs/9/" names what "runs/9" does, also where it is not there yet. */
static char *without_slashes(const char *path) {
    char *copy = mem_strdup(path);
    for (size_t n = strlen(path); copy != NULL && n > 1 && copy[n - 1] == '/'; n--) {
        copy[n - 1] = '\0';
    }
    return copy;
}

/* Written like files are: under another name, so that nothing is left of what fails, and nobody
 * else can have opened it. */
static pawl_status write_new_run(pawl_checkpoint *from, const convert_plan *plan, const char *path,
                                 const pawl_convert_options *o, pawl_convert_result *result,
                                 pawl_error *err) {
    AUTOFREE char *plain = without_slashes(path);
    AUTOFREE char *parent = NULL;
    CLEANUP(store_destroy_pointer) store *above = NULL;
    CLEANUP(place_end) place at = {.name = NULL};
    store *into = NULL;
    const char *name;
    if (plain == NULL) {
        return error_nomem(err, strlen(path) + 1);
    }
    TRY(split_path(plain, &parent, &name, err));
    TRY(path_open(parent, true, &above, err));
    TRY(place_begin(&at, above, name, WRITER_DIRECTORY, platform_system(), err));
    TRY(open_retrying(NULL, at.inside->root, true, &into, err));
    TRY(convert_to_run(from, plan, into, o, platform_system(), result, err));
    return place_commit(&at, err);
}

static pawl_status write_run(pawl_checkpoint *from, const convert_plan *plan, const char *path,
                             const pawl_convert_options *o, pawl_convert_result *result,
                             pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    store *into = NULL;
    pawl_status status = path_open(path, false, &into, &story);
    store_destroy(into);
    if (status == PAWL_ENOTFOUND) {
        return o->dry_run ? PAWL_OK : write_new_run(from, plan, path, o, result, err);
    }
    TRY(open_retrying(NULL, path, !o->dry_run, &into, err));
    return convert_to_run(from, plan, into, o, platform_system(), result, err);
}

/* ---- all of it ------------------------------------------------------------------------------ */

static pawl_status write_it(pawl_checkpoint *from, const convert_plan *plan, const char *path,
                            const writer_format *to, const pawl_convert_options *o,
                            pawl_convert_result *result, pawl_error *err) {
    return to != NULL ? write_files(from, plan, path, to, o, result, err)
                      : write_run(from, plan, path, o, result, err);
}

static pawl_status check_shards(const writer_format *to, const pawl_convert_options *o,
                                pawl_error *err) {
    if (o->shard_bytes == 0 || (to != NULL && to->shape == WRITER_FILE_OR_DIRECTORY)) {
        return PAWL_OK;
    }
    error_set(err, PAWL_EUSAGE, "%s: %s is not written in several files of a given size", call,
              to != NULL ? to->name : "pawl");
    error_expected(err, "options.shard_bytes of 0");
    return PAWL_EUSAGE;
}

/* Only a run has steps. */
static pawl_status check_has_steps(const char *path, const writer_format *to,
                                   const pawl_convert_options *o, pawl_error *err) {
    if (o->step == NULL || to == NULL) {
        return PAWL_OK;
    }
    error_set(err, PAWL_EUSAGE, "%s has no steps", to->name);
    error_path(err, "%s", path);
    error_expected(err, "no step: no options.step, and for the command no @STEP behind the path");
    error_found(err, "step %lld", (long long)*o->step);
    error_next(err, "leave the step out, or write a run (to \"pawl\")");
    return PAWL_EUSAGE;
}

static pawl_status convert(pawl_checkpoint *from, const char *path,
                           const pawl_convert_options *options, pawl_convert_result *result,
                           pawl_error *err) {
    CLEANUP(mem_free_pointer) void *renames = NULL;
    CLEANUP(convert_plan_free) convert_plan plan = {.items = NULL};
    pawl_convert_options known;
    pawl_convert_result found = {.struct_size = sizeof(found), .format = "pawl"};
    const writer_format *to;
    TRY(need_checkpoint(from, call, err));
    TRY(need(path, call, "path", err));
    TRY(take_convert(&known, options, &renames, err));
    TRY(need_output(result, call, "result", "pawl_convert_result", err));
    TRY(choose_format(path, &known, &to, err));
    TRY(check_shards(to, &known, err));
    TRY(check_has_steps(path, to, &known, err));
    found.format = to != NULL ? to->name : "pawl";
    found.unverified = checkpoint_unverified(from);
    TRY(convert_plan_make(from, to, &known, &plan, &found, err));
    TRY(write_it(from, &plan, path, to, &known, &found, err));
    give_output(result, &found, sizeof(found));
    return PAWL_OK;
}

pawl_status pawl_convert(pawl_checkpoint *from, const char *path,
                         const pawl_convert_options *options, pawl_convert_result *result,
                         pawl_error *err) {
    struct pawl_error story;
    return story_end(convert(from, path, options, result, story_begin(&story)), &story, err);
}
