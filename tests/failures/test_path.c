/* SPDX-License-Identifier: Apache-2.0 */
/* Paths that no run can be opened at: what pawl_run_open says, and what pawl_doctor says before. */
#include "failures.h"

#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct fixture {
    char path[64];
    pawl_error *err;
    doctor_said said;
} fixture;

static int set_up(void **state) {
    static fixture f;
    memset(&f, 0, sizeof(f));
    scratch_make(f.path);
    f.err = pawl_error_new();
    *state = &f;
    return f.err == NULL;
}

static int tear_down(void **state) {
    fixture *f = *state;
    pawl_error_free(f->err);
    scratch_remove(f->path);
    return 0;
}

/* Opening the path fails, and tells this. */
#define assert_refused(f, path, status, text)                                                      \
    assert_tells(pawl_run_open((path), NULL, &(pawl_run *){NULL}, (f)->err), (status), (f)->err,   \
                 (text))

/* What a directory lies on is test_storage.c's matter. */
static bool is_not_of_storage(const pawl_finding *finding) {
    return !is_of_storage(finding);
}

static pawl_severity ask_doctor(fixture *f, const char *path, uint64_t need_bytes) {
    const pawl_doctor_options options = {.struct_size = sizeof(options), .need_bytes = need_bytes};
    f->said.wanted = is_not_of_storage;
    assert_true(doctor_ask(&f->said, path, &options) >= f->said.worst);
    return f->said.worst;
}

/* ---- P01 ------------------------------------------------------------------------------------ */

static void test_p01_a_run_that_must_exist(void **state) {
    fixture *f = *state;
    const pawl_run_options options = {.struct_size = sizeof(options), .must_exist = 1};
    assert_tells(pawl_run_open("there/is/none", &options, &(pawl_run *){NULL}, f->err),
                 PAWL_ENOTFOUND, f->err,
                 "the path \"there/is/none\": there is no such directory\n"
                 "  path:     {d}/there/is/none\n"
                 "  expected: a directory\n"
                 "  found:    {d} exists, but there is no there in it\n"
                 "  next:     check the path; saving creates it, reading does not");
    assert_false(file_exists("there"));
    assert_int_equal(ask_doctor(f, "there/is/none", 0), PAWL_SEVERITY_NOTE);
    assert_text(
        f->said.text,
        "note P01: there/is/none does not exist yet; opening the run creates it, below {d}\n"
        "note P04: the relative path there/is/none stands for {d}/there/is/none\n"
        "  next: give the absolute path when jobs start elsewhere\n"
        "note ok: {b} are free at {p} ({w})\n"
        "note ok: files can be created, synced and removed in {d}\n");
    assert_false(file_exists("there"));
}

static void test_p01_missing_directories_are_made(void **state) {
    fixture *f = *state;
    pawl_run *run = NULL;
    assert_works(pawl_run_open("there/is/none", NULL, &run, f->err), f->err);
    assert_works(pawl_run_close(run, 0, f->err), f->err);
    assert_true(file_exists("there/is/none"));
}

/* ---- P02 ------------------------------------------------------------------------------------ */

static void as_nobody(void *context) {
    fixture *f = context;
    become_nobody();
    assert_refused(
        f, "root", PAWL_EPERMISSION,
        "the path \"root\": cannot write to a directory\n"
        "  path:     {d}/root\n"
        "  expected: permission to create files in it for uid 65534, gid 65534, groups none\n"
        "  found:    owner uid 0, gid 0, mode 0755, no ACL\n"
        "  system:   Permission denied (EACCES, errno 13)\n"
        "  next:     its owner (uid 0) or root can run: setfacl -m u:65534:rwx {d}/root; or choose "
        "another directory");
    assert_refused(
        f, "root/below", PAWL_EPERMISSION,
        "the path \"root/below\": cannot create a directory\n"
        "  path:     {d}/root\n"
        "  expected: permission to create files in it for uid 65534, gid 65534, groups none\n"
        "  found:    owner uid 0, gid 0, mode 0755, no ACL\n"
        "  system:   Permission denied (EACCES, errno 13)\n"
        "  next:     its owner (uid 0) or root can run: setfacl -m u:65534:wx {d}/root; or choose "
        "another directory");
    assert_int_equal(ask_doctor(f, "root", 0), PAWL_SEVERITY_ERROR);
    assert_text(f->said.text,
                "note P04: the relative path root stands for {d}/root\n"
                "  next: give the absolute path when jobs start elsewhere\n"
                "note ok: {b} are free at {p} ({w})\n"
                "error P02: cannot write to a directory; at {d}/root; expected permission to "
                "create files in it for uid 65534, gid 65534, groups none; found owner uid 0, gid "
                "0, mode 0755, no ACL; the system says Permission denied (EACCES, errno 13)\n"
                "  next: its owner (uid 0) or root can run: setfacl -m u:65534:rwx {d}/root; or "
                "choose another directory\n"
                "note ok: no other process writes to this run\n");
    assert_int_equal(ask_doctor(f, "root/below", 0), PAWL_SEVERITY_ERROR);
    assert_text(
        f->said.text,
        "note P01: root/below does not exist yet; opening the run creates it, below {d}/root\n"
        "note P04: the relative path root/below stands for {d}/root/below\n"
        "  next: give the absolute path when jobs start elsewhere\n"
        "note ok: {b} are free at {p} ({w})\n"
        "error P02: cannot write to a directory; at {d}/root; expected permission to create files "
        "in it for uid 65534, gid 65534, groups none; found owner uid 0, gid 0, mode 0755, no ACL; "
        "the system says Permission denied (EACCES, errno 13)\n"
        "  next: its owner (uid 0) or root can run: setfacl -m u:65534:rwx {d}/root; or choose "
        "another directory\n");
}

static void test_p02_a_directory_of_another_user(void **state) {
    fixture *f = *state;
    assert_int_equal(mkdir("root", 0755), 0);
    if (geteuid() != 0) {
        print_message("SKIP: this needs root, to become nobody\n");
        skip();
    }
    in_child(as_nobody, f);
}

/* ---- P03, S06 ------------------------------------------------------------------------------- */

static void on_read_only(void *context) {
    fixture *f = context;
    if (!mount_tmpfs("disk", "size=64k") || mkdir("disk/run", 0755) != 0 ||
        mount("none", "disk", NULL, MS_REMOUNT | MS_RDONLY, "size=64k") != 0) {
        child_skip("this needs leave to mount a tmpfs");
    }
    assert_refused(f, "disk/run", PAWL_EPERMISSION,
                   "the path \"disk/run\": cannot write to a directory\n"
                   "  path:     {d}/disk/run\n"
                   "  expected: a filesystem that can be written\n"
                   "  found:    tmpfs at {d}/disk, mounted read-only (ro,relatime,size={w})\n"
                   "  system:   Read-only file system (EROFS, errno 30)\n"
                   "  next:     mount it for writing (mount -o remount,rw {d}/disk), or choose "
                   "another directory");
    assert_int_equal(ask_doctor(f, "disk/run", 0), PAWL_SEVERITY_ERROR);
    assert_text(f->said.text, "note P04: the relative path disk/run stands for {d}/disk/run\n"
                              "  next: give the absolute path when jobs start elsewhere\n"
                              "error P03: the filesystem at {d}/disk (tmpfs) is mounted read-only "
                              "(ro,relatime,size={w})\n"
                              "  next: remount it read-write, or save elsewhere\n"
                              "note ok: no other process writes to this run\n");
    assert_int_equal(ask_doctor(f, "disk/new", 0), PAWL_SEVERITY_ERROR);
    assert_text(
        f->said.text,
        "note P01: disk/new does not exist yet; opening the run creates it, below {d}/disk\n"
        "note P04: the relative path disk/new stands for {d}/disk/new\n"
        "  next: give the absolute path when jobs start elsewhere\n"
        "error P03: the filesystem at {d}/disk (tmpfs) is mounted read-only "
        "(ro,relatime,size={w})\n"
        "  next: remount it read-write, or save elsewhere\n");
}

static void test_p03_a_read_only_disk(void **state) {
    assert_int_equal(mkdir("disk", 0755), 0);
    in_child(on_read_only, *state);
}

static void on_few_inodes(void *context) {
    fixture *f = context;
    if (!mount_tmpfs("disk", "size=64k,nr_inodes=3") || mkdir("disk/run", 0755) != 0) {
        child_skip("this needs leave to mount a tmpfs");
    }
    assert_int_equal(ask_doctor(f, "disk/run", 0), PAWL_SEVERITY_ERROR);
    assert_text(f->said.text,
                "note P04: the relative path disk/run stands for {d}/disk/run\n"
                "  next: give the absolute path when jobs start elsewhere\n"
                "error P03: the filesystem at {d}/disk (tmpfs) has 1 free inodes, fewer "
                "than the 16 that checkpoints need\n"
                "  next: remove files there, or save elsewhere\n"
                "note ok: 65.5 kB are free at {d}/disk (tmpfs)\n"
                "note ok: files can be created, synced and removed in {d}/disk/run\n"
                "note ok: no other process writes to this run\n");
    file_write("disk/other", "", 0);
    assert_int_equal(ask_doctor(f, "disk/run", 0), PAWL_SEVERITY_ERROR);
    assert_text(f->said.text,
                "note P04: the relative path disk/run stands for {d}/disk/run\n"
                "  next: give the absolute path when jobs start elsewhere\n"
                "error P03: the filesystem at {d}/disk (tmpfs) has 0 free inodes, fewer "
                "than the 16 that checkpoints need\n"
                "  next: remove files there, or save elsewhere\n"
                "note ok: no other process writes to this run\n");
}

static void test_p03_a_disk_without_inodes(void **state) {
    assert_int_equal(mkdir("disk", 0755), 0);
    in_child(on_few_inodes, *state);
}

static void on_small(void *context) {
    fixture *f = context;
    if (!mount_tmpfs("disk", "size=16m") || mkdir("disk/run", 0755) != 0) {
        child_skip("this needs leave to mount a tmpfs");
    }
    assert_int_equal(ask_doctor(f, "disk/run", 41200000), PAWL_SEVERITY_ERROR);
    assert_text(f->said.text, "note P04: the relative path disk/run stands for {d}/disk/run\n"
                              "  next: give the absolute path when jobs start elsewhere\n"
                              "error S06: a checkpoint needs 41.2 MB, but 16.8 MB are free on the "
                              "filesystem at {d}/disk (tmpfs)\n"
                              "  next: free 24.4 MB, or keep fewer checkpoints\n"
                              "note ok: files can be created, synced and removed in {d}/disk/run\n"
                              "note ok: no other process writes to this run\n");
    assert_int_equal(ask_doctor(f, "disk/run", 10000000), PAWL_SEVERITY_WARNING);
    assert_text(f->said.text,
                "note P04: the relative path disk/run stands for {d}/disk/run\n"
                "  next: give the absolute path when jobs start elsewhere\n"
                "warning S06: 16.8 MB are free at {d}/disk (tmpfs): room for one more "
                "checkpoint of 10.0 MB, not for two\n"
                "  next: free some space, or keep fewer checkpoints\n"
                "note ok: files can be created, synced and removed in {d}/disk/run\n"
                "note ok: no other process writes to this run\n");
    assert_int_equal(ask_doctor(f, "disk/run", 1000000), PAWL_SEVERITY_NOTE);
    assert_text(f->said.text, "note P04: the relative path disk/run stands for {d}/disk/run\n"
                              "  next: give the absolute path when jobs start elsewhere\n"
                              "note ok: 16.8 MB are free at {d}/disk (tmpfs)\n"
                              "note ok: files can be created, synced and removed in {d}/disk/run\n"
                              "note ok: no other process writes to this run\n");
}

static void test_s06_a_disk_that_is_too_small_is_found_before_the_job_runs(void **state) {
    assert_int_equal(mkdir("disk", 0755), 0);
    in_child(on_small, *state);
}

static void under_a_limit(void *context) {
    fixture *f = context;
    const struct rlimit limit = {.rlim_cur = 1 << 20, .rlim_max = RLIM_INFINITY};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(ask_doctor(f, f->path, 41200000), PAWL_SEVERITY_ERROR);
    assert_text(f->said.text,
                "error S06: a checkpoint needs 41.2 MB, but a file may have at most 1.05 "
                "MB (ulimit -f, or the limit of {w})\n"
                "  next: raise the limit: ulimit -f unlimited\n"
                "note ok: files can be created, synced and removed in {d}\n"
                "note ok: no other process writes to this run\n");
}

static void test_s06_a_limit_of_file_sizes_is_found_before_the_job_runs(void **state) {
    in_child(under_a_limit, *state);
}

static void full(void *context) {
    fixture *f = context;
    static const char zeros[65536];
    if (!mount_tmpfs("disk", "size=64k") || mkdir("disk/run", 0755) != 0) {
        child_skip("this needs leave to mount a tmpfs");
    }
    file_write("disk/other", zeros, sizeof(zeros));
    assert_int_equal(ask_doctor(f, "disk/run", 0), PAWL_SEVERITY_ERROR);
    assert_text(f->said.text, "note P04: the relative path disk/run stands for {d}/disk/run\n"
                              "  next: give the absolute path when jobs start elsewhere\n"
                              "error P03: the filesystem at {d}/disk (tmpfs) has 0 B free, less "
                              "than the smallest checkpoint takes\n"
                              "  next: free some space there, or save elsewhere\n"
                              "note ok: no other process writes to this run\n");
}

static void test_p03_a_full_disk(void **state) {
    assert_int_equal(mkdir("disk", 0755), 0);
    in_child(full, *state);
}

/* ---- P04 ------------------------------------------------------------------------------------ */

static void test_p04_a_relative_path_is_resolved_once(void **state) {
    fixture *f = *state;
    trainer t;
    assert_int_equal(mkdir("elsewhere", 0755), 0);
    trainer_init(&t);
    trainer_build(&t);
    trainer_open(&t, "run");
    assert_int_equal(chdir("elsewhere"), 0);
    trainer_save(&t, 1);
    trainer_free(&t);
    assert_int_equal(chdir(".."), 0);
    assert_true(file_exists("run/step-00000001/manifest.json"));
    assert_int_equal(ask_doctor(f, "run", 0), PAWL_SEVERITY_NOTE);
    assert_text(f->said.text, "note P04: the relative path run stands for {d}/run\n"
                              "  next: give the absolute path when jobs start elsewhere\n"
                              "note ok: {b} are free at {p} ({w})\n"
                              "note ok: files can be created, synced and removed in {d}/run\n"
                              "note ok: no other process writes to this run\n");
    assert_int_equal(ask_doctor(f, "other", 0), PAWL_SEVERITY_NOTE);
    assert_text(f->said.text,
                "note P01: other does not exist yet; opening the run creates it, below {d}\n"
                "note P04: the relative path other stands for {d}/other\n"
                "  next: give the absolute path when jobs start elsewhere\n"
                "note ok: {b} are free at {p} ({w})\n"
                "note ok: files can be created, synced and removed in {d}\n");
    assert_int_equal(rmdir("elsewhere"), 0);
}

static void test_p04_a_working_directory_that_is_gone(void **state) {
    fixture *f = *state;
    assert_int_equal(mkdir("gone", 0755), 0);
    assert_int_equal(chdir("gone"), 0);
    assert_int_equal(rmdir("../gone"), 0);
    assert_refused(
        f, "run", PAWL_ENOTFOUND,
        "the path \"run\": the working directory, from which it starts, cannot be found\n"
        "  system:   No such file or directory (ENOENT, errno 2)\n"
        "  next:     give an absolute path, or change to a directory that exists");
    assert_int_equal(ask_doctor(f, "run", 0), PAWL_SEVERITY_ERROR);
    assert_text(f->said.text,
                "error P01: the path \"run\": the working directory, from which it starts, cannot "
                "be found; the system says No such file or directory (ENOENT, errno 2)\n"
                "  next: give an absolute path, or change to a directory that exists\n");
}

/* ---- P08 ------------------------------------------------------------------------------------ */

static void test_p08_a_file(void **state) {
    file_write("file", "x", 1);
    fixture *f = *state;
    assert_refused(f, "file", PAWL_EUSAGE,
                   "the path \"file\": this is a file, not a directory\n"
                   "  path:     {d}/file\n"
                   "  expected: a directory\n"
                   "  found:    a file\n"
                   "  next:     give the directory of a run");
    assert_int_equal(ask_doctor(f, "file", 0), PAWL_SEVERITY_ERROR);
    assert_text(f->said.text, "error P08: the path \"file\": this is a file, not a directory; at "
                              "{d}/file; expected a directory; found a file\n"
                              "  next: give the directory of a run\n");
}

static void test_p08_a_broken_link(void **state) {
    assert_int_equal(symlink("nowhere/at/all", "link"), 0);
    fixture *f = *state;
    assert_refused(f, "link", PAWL_EUSAGE,
                   "the path \"link\": there is a broken symbolic link\n"
                   "  path:     {d}/link\n"
                   "  expected: a directory\n"
                   "  found:    a link to nowhere/at/all, which does not exist\n"
                   "  next:     make that directory, or mend or remove the link");
    assert_int_equal(ask_doctor(f, "link", 0), PAWL_SEVERITY_ERROR);
    assert_text(f->said.text,
                "error P08: the path \"link\": there is a broken symbolic link; at {d}/link; "
                "expected a directory; found a link to nowhere/at/all, which does not exist\n"
                "  next: make that directory, or mend or remove the link\n");
}

static void test_p08_a_loop_of_links(void **state) {
    assert_int_equal(symlink("two", "one"), 0);
    assert_int_equal(symlink("one", "two"), 0);
    fixture *f = *state;
    assert_refused(f, "one", PAWL_EUSAGE,
                   "the path \"one\": symbolic links lead in a circle, or too far\n"
                   "  path:     {d}/one\n"
                   "  system:   Too many levels of symbolic links (ELOOP, errno 40)\n"
                   "  next:     see where they lead with: namei -l {d}/one");
    assert_int_equal(ask_doctor(f, "one", 0), PAWL_SEVERITY_ERROR);
    assert_text(f->said.text,
                "error P08: the path \"one\": symbolic links lead in a circle, or too far; at "
                "{d}/one; the system says Too many levels of symbolic links (ELOOP, errno 40)\n"
                "  next: see where they lead with: namei -l {d}/one\n");
}

static void test_p08_a_directory_below_a_file(void **state) {
    file_write("file", "x", 1);
    fixture *f = *state;
    assert_refused(f, "file/run", PAWL_EUSAGE,
                   "the path \"file/run\": a component of it is a file, not a directory\n"
                   "  path:     {d}/file\n"
                   "  expected: a directory\n"
                   "  found:    a file\n"
                   "  next:     give the directory of a run");
    assert_int_equal(ask_doctor(f, "file/run", 0), PAWL_SEVERITY_ERROR);
    assert_text(f->said.text,
                "error P08: the path \"file/run\": a component of it is a file, not a "
                "directory; at {d}/file; expected a directory; found a file\n"
                "  next: give the directory of a run\n");
}

static void test_p08_an_unexpanded_home(void **state) {
    fixture *f = *state;
    assert_refused(
        f, "~/run", PAWL_EUSAGE,
        "the path \"~/run\": ~ was not replaced by a home directory\n"
        "  found:    a path that begins with ~, which only a shell replaces, and not within "
        "quotes\n"
        "  next:     write the home directory out, or take the quotes away; ./~ is a directory of "
        "that name");
    assert_int_equal(ask_doctor(f, "~/run", 0), PAWL_SEVERITY_ERROR);
    assert_text(f->said.text,
                "error P08: the path \"~/run\": ~ was not replaced by a home directory; found a "
                "path that begins with ~, which only a shell replaces, and not within quotes\n"
                "  next: write the home directory out, or take the quotes away; ./~ is a directory "
                "of that name\n");
}

static void test_p08_an_unexpanded_variable(void **state) {
    fixture *f = *state;
    assert_refused(f, "$SCRATCH/run", PAWL_EUSAGE,
                   "the path \"$SCRATCH/run\": $SCRATCH was not replaced by its value\n"
                   "  found:    a path with the name of a variable, which only a shell "
                   "replaces, and not within single quotes\n"
                   "  next:     write the value out, or take the quotes away");
    assert_int_equal(ask_doctor(f, "$SCRATCH/run", 0), PAWL_SEVERITY_ERROR);
    assert_text(f->said.text,
                "error P08: the path \"$SCRATCH/run\": $SCRATCH was not replaced by its "
                "value; found a path with the name of a variable, which only a shell "
                "replaces, and not within single quotes\n"
                "  next: write the value out, or take the quotes away\n");
}

static void test_p08_a_url_of_unknown_scheme(void **state) {
    fixture *f = *state;
    assert_refused(f, "gopher://host/run", PAWL_EUSAGE,
                   "the path \"gopher://host/run\": gopher:// is not a kind of storage that this "
                   "version knows\n"
                   "  expected: a directory, or file:// and an absolute path\n"
                   "  found:    the scheme \"gopher\"\n"
                   "  next:     save to a directory, and copy from there; or mount the storage as "
                   "a filesystem");
    assert_int_equal(ask_doctor(f, "gopher://host/run", 0), PAWL_SEVERITY_ERROR);
    assert_text(
        f->said.text,
        "error P08: the path \"gopher://host/run\": gopher:// is not a kind of storage that this "
        "version knows; expected a directory, or file:// and an absolute path; found the scheme "
        "\"gopher\"\n"
        "  next: save to a directory, and copy from there; or mount the storage as a filesystem\n");
}

static void test_p08_a_name_that_is_too_long(void **state) {
    char name[300];
    memset(name, 'n', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    fixture *f = *state;
    pawl_run *run = NULL;
    assert_int_equal(pawl_run_open(name, NULL, &run, f->err), PAWL_ELIMIT);
    assert_text(pawl_error_get(f->err, PAWL_ERROR_EXPECTED), "at most 255 bytes");
    assert_text(pawl_error_get(f->err, PAWL_ERROR_FOUND),
                "299 bytes: nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn...");
    assert_int_equal(ask_doctor(f, name, 0), PAWL_SEVERITY_ERROR);
    assert_non_null(strstr(f->said.text, "error P08: "));
}

/* ---- P10 ------------------------------------------------------------------------------------ */

static void test_p10_an_object_store_is_refused_before_a_bucket_is_looked_for(void **state) {
    fixture *f = *state;
    assert_refused(f, "s3://bucket/run", PAWL_EUSAGE,
                   "the path \"s3://bucket/run\": s3:// is an object store, and this version "
                   "saves to directories\n"
                   "  expected: a directory, or file:// and an absolute path\n"
                   "  found:    the scheme \"s3\"; no bucket and no credentials were looked for\n"
                   "  next:     save to a directory, and copy checkpoints from there once they are "
                   "committed; or mount the bucket as a filesystem, and ask pawl doctor what that "
                   "lacks");
    assert_int_equal(ask_doctor(f, "s3://bucket/run", 0), PAWL_SEVERITY_ERROR);
    assert_text(f->said.text,
                "error P10: the path \"s3://bucket/run\": s3:// is an object store, and this "
                "version saves to directories; expected a directory, or file:// and an absolute "
                "path; found the scheme \"s3\"; no bucket and no credentials were looked for\n"
                "  next: save to a directory, and copy checkpoints from there once they are "
                "committed; or mount the bucket as a filesystem, and ask pawl doctor what that "
                "lacks\n");
}

/* ---- S10 ------------------------------------------------------------------------------------ */

static void hold(void *context) {
    trainer t;
    (void)context;
    trainer_init(&t);
    trainer_open(&t, "run");
    child_ready();
    for (;;) {
        (void)pause();
    }
}

static void test_s10_the_doctor_sees_another_writer(void **state) {
    fixture *f = *state;
    const child c = child_start(hold, NULL);
    child_wait_ready(&c);
    assert_int_equal(ask_doctor(f, "run", 0), PAWL_SEVERITY_ERROR);
    assert_text(f->said.text, "note P04: the relative path run stands for {d}/run\n"
                              "  next: give the absolute path when jobs start elsewhere\n"
                              "note ok: {b} are free at {p} ({w})\n"
                              "note ok: files can be created, synced and removed in {d}/run\n"
                              "error S10: another process writes to this run: host {w}, pid {n}, "
                              "attempt {w}, heartbeat {n} s ago\n"
                              "  next: stop that process, or save to another directory\n");
    (void)child_kill(&c);
    assert_int_equal(ask_doctor(f, "run", 0), PAWL_SEVERITY_NOTE);
    assert_text(f->said.text,
                "note P04: the relative path run stands for {d}/run\n"
                "  next: give the absolute path when jobs start elsewhere\n"
                "note ok: {b} are free at {p} ({w})\n"
                "note ok: files can be created, synced and removed in {d}/run\n"
                "note ok: the last writer (host {w}, pid {n}) has ended without closing "
                "the run; opening it takes over\n");
}

static void test_s10_the_doctor_sees_a_writer_of_another_host(void **state) {
    static const char record[] =
        "{\"counter\":\"00000000000000000007\",\"host\":\"elsewhere\",\"pid\":4711,"
        "\"boot_id\":\"b\",\"pid_namespace\":\"n\",\"start_ticks\":1,"
        "\"attempt\":\"0123456789ab\",\"lease_s\":30.000}\n";
    fixture *f = *state;
    assert_int_equal(mkdir("run", 0755), 0);
    file_write("run/owner-00000009", record, sizeof(record) - 1);
    assert_int_equal(ask_doctor(f, "run", 0), PAWL_SEVERITY_WARNING);
    assert_text(f->said.text,
                "note P04: the relative path run stands for {d}/run\n"
                "  next: give the absolute path when jobs start elsewhere\n"
                "note ok: {b} are free at {p} ({w})\n"
                "note ok: files can be created, synced and removed in {d}/run\n"
                "warning S10: a process of another host may be writing to this run: host "
                "elsewhere, pid 4711, attempt 0123456789ab, heartbeat {n} s ago, lease 30 s\n"
                "  next: opening the run watches its heartbeat, and takes over once it has stood "
                "still for a whole lease\n");
    file_write("run/owner-00000010", record, 20);
    assert_int_equal(ask_doctor(f, "run", 0), PAWL_SEVERITY_WARNING);
    assert_text(
        f->said.text,
        "note P04: the relative path run stands for {d}/run\n"
        "  next: give the absolute path when jobs start elsewhere\n"
        "note ok: {b} are free at {p} ({w})\n"
        "note ok: files can be created, synced and removed in {d}/run\n"
        "warning S10: an owner record is just being written, or was left unfinished by a crash\n"
        "  next: look again in a few seconds\n");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_p01_a_run_that_must_exist),
        TEST(test_p01_missing_directories_are_made),
        TEST(test_p02_a_directory_of_another_user),
        TEST(test_p03_a_read_only_disk),
        TEST(test_p03_a_disk_without_inodes),
        TEST(test_s06_a_disk_that_is_too_small_is_found_before_the_job_runs),
        TEST(test_s06_a_limit_of_file_sizes_is_found_before_the_job_runs),
        TEST(test_p03_a_full_disk),
        TEST(test_p04_a_relative_path_is_resolved_once),
        TEST(test_p04_a_working_directory_that_is_gone),
        TEST(test_p08_a_file),
        TEST(test_p08_a_broken_link),
        TEST(test_p08_a_loop_of_links),
        TEST(test_p08_a_directory_below_a_file),
        TEST(test_p08_an_unexpanded_home),
        TEST(test_p08_an_unexpanded_variable),
        TEST(test_p08_a_url_of_unknown_scheme),
        TEST(test_p08_a_name_that_is_too_long),
        TEST(test_p10_an_object_store_is_refused_before_a_bucket_is_looked_for),
        TEST(test_s10_the_doctor_sees_another_writer),
        TEST(test_s10_the_doctor_sees_a_writer_of_another_host),
    };
    return cmocka_run_group_tests_name("paths", tests, NULL, NULL);
}
