/* SPDX-License-Identifier: Apache-2.0 */
/* Can files be made there (P02, P03)? */
#include "doctor/examination.h"
#include "format/format.h"
#include "path/path.h"

#include <errno.h>

static pawl_status write_probe(store *s, const char *name, pawl_error *err) {
    static const char text[] = "written by pawl doctor; safe to remove\n";
    CLEANUP(store_close_pointer) store_file *file = NULL;
    TRY(store_open(s, name, STORE_CREATE, &file, err));
    TRY(store_write(file, 0, text, sizeof text - 1, err));
    return store_sync(file, err);
}

void doctor_examine_writing(examination *x, store *s) {
    struct pawl_error story = ERROR_INIT;
    struct pawl_error ignored = ERROR_INIT;
    char digits[17];
    char name[80];
    if (platform_random_hex(x->os, digits, 8, &story) != PAWL_OK) {
        return;
    }
    name_doctor(name, digits, -1);
    pawl_status status = write_probe(s, name, &story);
    bool made = status == PAWL_OK || store_unlink(s, name, &ignored) == PAWL_OK;
    if (status == PAWL_OK) {
        status = store_unlink(s, name, &story);
        status =
            status == PAWL_ENOTFOUND ? PAWL_OK : status; /* somebody removed it as a leftover */
    }
    if (status == PAWL_OK) {
        status = store_sync_dir(s, "", &story);
    }
    if (status == PAWL_OK) {
        doctor_tell(x, "ok", PAWL_SEVERITY_NOTE, NULL,
                    "files can be created, synced and removed in %s", s->root);
        return;
    }
    struct pawl_error explained = ERROR_INIT;
    x->unwritable = true;
    if (!made && story.status == PAWL_EPERMISSION && story.system_errno != EROFS) {
        path_explain_access(s->root, &explained);
        doctor_tell_error(x, "P02", &explained);
        return;
    }
    doctor_tell_error(x, doctor_id_of_path_error(&story), &story);
}
