/* SPDX-License-Identifier: Apache-2.0 */
/* The path that a user gave: opened, made, or explained (P01 to P04, P08). */
#include "unit/store/children.h"

#include "path/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/xattr.h>

typedef struct fixture {
    directory dir;
    char path[PATH_MAX];
    char text[4096];
} fixture;

static int set_up(void **state) {
    fixture *f = mem_calloc(1, sizeof(*f));
    directory_make(&f->dir);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    directory_remove(&f->dir);
    mem_free(f);
    return 0;
}

/* A path below the test's directory. */
static const char *below(fixture *f, const char *name) {
    (void)snprintf(f->path, sizeof(f->path), "%s/%s", f->dir.path, name);
    return f->path;
}

static const char *words(fixture *f, const char *format, ...) PRINTF_LIKE(2, 3);

static const char *words(fixture *f, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(f->text, sizeof(f->text), format, arguments);
    va_end(arguments);
    return f->text;
}

static void make_dir(fixture *f, const char *name, mode_t mode) {
    assert_int_equal(mkdir(below(f, name), 0755), 0);
    assert_int_equal(chmod(f->path, mode), 0);
}

static void make_file(fixture *f, const char *name) {
    int fd = open(below(f, name), O_CREAT | O_WRONLY, 0644);
    assert_true(fd >= 0);
    close(fd);
}

static void assert_opens(const char *path, bool create, const char *root) {
    pawl_error err = ERROR_INIT;
    store *s = NULL;
    assert_ok(path_open(path, create, &s, &err), &err);
    assert_string_equal(s->root, root);
    store_destroy(s);
}

static void assert_refused(const char *path, bool create, pawl_status status, pawl_error *err) {
    store *s = NULL;
    *err = ERROR_INIT;
    assert_fails(path_open(path, create, &s, err), status, err);
    assert_null(s);
}

/* ---- P01: it does not exist ---- */

static void test_p01_missing_directories_are_made(void **state) {
    fixture *f = *state;
    struct stat found;
    char path[PATH_MAX];
    (void)snprintf(path, sizeof(path), "%s", below(f, "a/b/c"));
    assert_opens(path, true, path);
    assert_int_equal(stat(path, &found), 0);
    assert_true(S_ISDIR(found.st_mode));
    assert_opens(path, false, path);
}

static void test_p01_the_first_missing_component_is_named(void **state) {
    fixture *f = *state;
    pawl_error err;
    make_dir(f, "a", 0755);
    assert_refused(below(f, "a/b/c"), false, PAWL_ENOTFOUND, &err);
    assert_string_equal(err.attempt,
                        words(f, "the path \"%s/a/b/c\": there is no such directory", f->dir.path));
    assert_string_equal(err.path, words(f, "%s/a/b/c", f->dir.path));
    assert_string_equal(err.found, words(f, "%s/a exists, but there is no b in it", f->dir.path));
    assert_string_equal(err.next, "check the path; saving creates it, reading does not");
}

static void test_p01_reading_makes_nothing(void **state) {
    fixture *f = *state;
    pawl_error err;
    struct stat found;
    assert_refused(below(f, "a"), false, PAWL_ENOTFOUND, &err);
    assert_int_equal(lstat(below(f, "a"), &found), -1);
}

/* ---- P02: no permission ---- */

/* Becomes somebody without rights. */
static void become_nobody(void) {
    const gid_t groups[] = {4, NOBODY};
    child_become_nobody(groups, 2);
}

static void refuse_in_child(fixture *f, const char *name, bool create, pawl_error *err) {
    store *s = NULL;
    *err = ERROR_INIT;
    become_nobody();
    child_must(path_open(below(f, name), create, &s, err) == PAWL_EPERMISSION);
}

static void refuse_writing(void *context) {
    fixture *f = context;
    pawl_error err;
    refuse_in_child(f, "run", true, &err);
    child_must_equal(
        error_text(&err),
        words(f,
              "the path \"%s/run\": cannot write to a directory\n"
              "  path:     %s/run\n"
              "  expected: permission to create files in it for uid 65534, gid 65534, groups 4, "
              "65534\n"
              "  found:    owner uid 0, gid 0, mode 0755, no ACL\n"
              "  system:   Permission denied (EACCES, errno 13)\n"
              "  next:     its owner (uid 0) or root can run: setfacl -m u:65534:rwx %s/run; or "
              "choose another directory",
              f->dir.path, f->dir.path, f->dir.path));
}

static void test_p02_a_directory_that_may_not_be_written(void **state) {
    fixture *f = *state;
    make_dir(f, "run", 0755);
    run_child(refuse_writing, f);
}

static void refuse_making(void *context) {
    fixture *f = context;
    pawl_error err;
    refuse_in_child(f, "parent/run", true, &err);
    child_must_equal(err.attempt, words(f, "the path \"%s/parent/run\": cannot create a directory",
                                        f->dir.path));
    child_must_equal(err.path, words(f, "%s/parent", f->dir.path));
    child_must_equal(err.found, "owner uid 0, gid 0, mode 0755, no ACL");
}

static void test_p02_a_parent_that_may_not_be_written(void **state) {
    fixture *f = *state;
    make_dir(f, "parent", 0755);
    run_child(refuse_making, f);
}

static void refuse_searching(void *context) {
    fixture *f = context;
    pawl_error err;
    refuse_in_child(f, "closed/run", false, &err);
    child_must_equal(err.attempt, words(f,
                                        "the path \"%s/closed/run\": cannot look into a "
                                        "directory",
                                        f->dir.path));
    child_must_equal(err.path, words(f, "%s/closed", f->dir.path));
    child_must_equal(err.expected,
                     "permission to enter it for uid 65534, gid 65534, groups 4, 65534");
    child_must_equal(err.found, "owner uid 0, gid 0, mode 0700, no ACL");
    child_must_equal(err.next, words(f,
                                     "its owner (uid 0) or root can run: setfacl -m u:65534:x "
                                     "%s/closed; or choose another directory",
                                     f->dir.path));
}

static void test_p02_a_directory_that_may_not_be_entered(void **state) {
    fixture *f = *state;
    make_dir(f, "closed", 0700);
    make_dir(f, "closed/run", 0755);
    run_child(refuse_searching, f);
}

static void refuse_reading(void *context) {
    fixture *f = context;
    pawl_error err;
    refuse_in_child(f, "run", false, &err);
    child_must_equal(err.attempt,
                     words(f, "the path \"%s/run\": cannot read a directory", f->dir.path));
    child_must_equal(err.expected,
                     "permission to list and enter it for uid 65534, gid 65534, groups 4, 65534");
}

static void test_p02_a_directory_that_may_not_be_listed(void **state) {
    fixture *f = *state;
    make_dir(f, "run", 0711);
    run_child(refuse_reading, f);
}

static void refuse_group(void *context) {
    fixture *f = context;
    pawl_error err;
    refuse_in_child(f, "run", true, &err);
    child_must_equal(err.found, "owner uid 0, gid 4, mode 0750, no ACL");
    child_must_equal(
        err.next, words(f, "its owner (uid 0) or root can run: chmod g+rwx %s/run", f->dir.path));
}

static void give_away(const char *path, uid_t uid, gid_t gid) {
    if (chown(path, uid, gid) != 0) {
        assert_int_equal(errno, EPERM);
        print_message("skipped: giving a directory to someone else needs root\n");
        skip();
    }
}

static void test_p02_a_group_that_may_not_write(void **state) {
    fixture *f = *state;
    make_dir(f, "run", 0750);
    give_away(f->path, 0, 4);
    run_child(refuse_group, f);
}

static void refuse_owner(void *context) {
    fixture *f = context;
    pawl_error err;
    refuse_in_child(f, "run", true, &err);
    child_must_equal(err.next, words(f, "chmod u+rwx %s/run", f->dir.path));
}

static void test_p02_an_owner_who_may_not_write(void **state) {
    fixture *f = *state;
    make_dir(f, "run", 0555);
    give_away(f->path, NOBODY, NOBODY);
    run_child(refuse_owner, f);
}

static void refuse_acl(void *context) {
    fixture *f = context;
    pawl_error err;
    refuse_in_child(f, "run", true, &err);
    child_must_equal(err.found, "owner uid 0, gid 0, mode 0755, and an ACL (see getfacl)");
}

static void test_p02_an_acl_is_mentioned(void **state) {
    fixture *f = *state;
    /* Version 2; then tag, permissions, id of: owner, user 1000, group, mask, others. */
    static const uint8_t acl[] = {2,    0,    0,    0,    1,    0,    7,    0,    0xff, 0xff, 0xff,
                                  0xff, 2,    0,    5,    0,    0xe8, 3,    0,    0,    4,    0,
                                  5,    0,    0xff, 0xff, 0xff, 0xff, 0x10, 0,    5,    0,    0xff,
                                  0xff, 0xff, 0xff, 0x20, 0,    5,    0,    0xff, 0xff, 0xff, 0xff};
    make_dir(f, "run", 0755);
    if (setxattr(f->path, "system.posix_acl_access", acl, sizeof(acl), 0) != 0) {
        assert_int_equal(errno, ENOTSUP);
        print_message("skipped: the filesystem of %s has no ACLs\n", f->path);
        skip();
    }
    run_child(refuse_acl, f);
}

/* ---- P03: a read-only mount ---- */

static void refuse_read_only(void *context) {
    fixture *f = context;
    pawl_error err = ERROR_INIT;
    store *s = NULL;
    (void)below(f, "mount");
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", f->path, "tmpfs", MS_RDONLY, "size=64k") != 0) {
        child_skip("mounting needs root");
    }
    child_must(path_open(f->path, true, &s, &err) == PAWL_EPERMISSION);
    child_must_equal(err.attempt,
                     words(f, "the path \"%s/mount\": cannot write to a directory", f->dir.path));
    child_must_equal(err.system, "Read-only file system (EROFS, errno 30)");
    child_must(strstr(err.found, words(f, "tmpfs at %s/mount, mounted read-only (ro,",
                                       f->dir.path)) == err.found);
    child_must_equal(err.next, words(f,
                                     "mount it for writing (mount -o remount,rw %s/mount), or "
                                     "choose another directory",
                                     f->dir.path));
    child_must(path_open(below(f, "mount/run"), true, &s, &err) == PAWL_EPERMISSION);
    child_must_equal(err.attempt,
                     words(f, "the path \"%s/mount/run\": cannot create a directory", f->dir.path));
}

static void test_p03_a_read_only_mount(void **state) {
    fixture *f = *state;
    make_dir(f, "mount", 0755);
    run_child(refuse_read_only, f);
}

/* ---- P04: a relative path ---- */

static void open_relative(void *context) {
    fixture *f = context;
    pawl_error err = ERROR_INIT;
    store *s = NULL;
    child_must(chdir(f->dir.path) == 0);
    child_must(path_open("runs/./7", true, &s, &err) == PAWL_OK);
    child_must_equal(s->root, words(f, "%s/runs/7", f->dir.path));
    child_must(chdir("/") == 0); /* it was resolved once */
    child_must(store_make_dir(s, "step", &err) == PAWL_OK);
    struct stat found;
    child_must(stat(below(f, "runs/7/step"), &found) == 0);
    store_destroy(s);
    child_must(path_open("no/such/run", false, &s, &err) == PAWL_ENOTFOUND);
    child_must_equal(err.path, "/no/such/run");
    child_must_equal(err.attempt, "the path \"no/such/run\": there is no such directory");
}

static void test_p04_a_relative_path_is_resolved_once_and_shown_absolute(void **state) {
    run_child(open_relative, *state);
}

static void open_from_nowhere(void *context) {
    fixture *f = context;
    pawl_error err = ERROR_INIT;
    store *s = NULL;
    child_must(chdir(below(f, "gone")) == 0);
    child_must(rmdir(f->path) == 0);
    child_must(path_open("run", true, &s, &err) == PAWL_ENOTFOUND);
    child_must_equal(err.attempt, "the path \"run\": the working directory, from which it starts, "
                                  "cannot be found");
    child_must_equal(err.next, "give an absolute path, or change to a directory that exists");
}

static void test_p04_a_working_directory_that_is_gone(void **state) {
    fixture *f = *state;
    make_dir(f, "gone", 0755);
    run_child(open_from_nowhere, f);
}

static void test_p04_links_and_dots_are_resolved(void **state) {
    fixture *f = *state;
    char target[PATH_MAX];
    char link_path[PATH_MAX];
    make_dir(f, "real", 0755);
    (void)snprintf(target, sizeof(target), "%s", f->path);
    (void)snprintf(link_path, sizeof(link_path), "%s", below(f, "link"));
    assert_int_equal(symlink(target, link_path), 0);
    assert_opens(link_path, false, target);
    assert_opens(below(f, "real/../link//./"), true, target);
    assert_opens(below(f, "link/new"), true, words(f, "%s/new", target));
}

/* ---- P08: it cannot be meant ---- */

static void test_p08_a_file(void **state) {
    fixture *f = *state;
    pawl_error err;
    make_file(f, "file");
    assert_refused(below(f, "file"), true, PAWL_EUSAGE, &err);
    assert_string_equal(
        err.attempt,
        words(f, "the path \"%s/file\": this is a file, not a directory", f->dir.path));
    assert_string_equal(err.path, words(f, "%s/file", f->dir.path));
    assert_string_equal(err.found, "a file");
    assert_refused(below(f, "file/run"), true, PAWL_EUSAGE, &err);
    assert_says(err.attempt, "a component of it is a file, not a directory");
    assert_string_equal(err.path, words(f, "%s/file", f->dir.path));
}

static void test_p08_a_pipe(void **state) {
    fixture *f = *state;
    pawl_error err;
    assert_int_equal(mkfifo(below(f, "pipe"), 0600), 0);
    assert_refused(below(f, "pipe"), true, PAWL_EUSAGE, &err);
    assert_says(err.attempt, "this is neither a directory nor a file");
    assert_string_equal(err.found, "a pipe, a socket or a device");
}

static bool is_text(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot != NULL && strcmp(dot, ".text") == 0;
}

static void assert_file(const char *given, const char *root, const char *name) {
    pawl_error err = ERROR_INIT;
    store *s = NULL;
    char *file = NULL;
    assert_ok(path_open_file(given, is_text, &s, &file, &err), &err);
    assert_non_null(file);
    assert_string_equal(file, name);
    assert_string_equal(s->root, root);
    mem_free(file);
    store_destroy(s);
}

/* A checkpoint of TensorFlow is named without the endings of its files. */
static void test_a_file_by_its_prefix(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    store *s = NULL;
    char *file = NULL;
    make_file(f, "ckpt-1.index");
    make_dir(f, "ckpt-2", 0755);
    make_file(f, "ckpt-2.index");
    assert_file(below(f, "ckpt-1"), words(f, "%s", f->dir.path), "ckpt-1.index");
    assert_ok(path_open_file(below(f, "ckpt-2"), is_text, &s, &file, &err), &err);
    assert_null(file);
    store_destroy(s);
    assert_fails(path_open_file(below(f, "ckpt-3"), is_text, &s, &file, &err), PAWL_ENOTFOUND,
                 &err);
    assert_fails(path_open_file(below(f, "ckpt-1/x"), is_text, &s, &file, &err), PAWL_ENOTFOUND,
                 &err);
    assert_refused(below(f, "ckpt-1"), false, PAWL_ENOTFOUND, &err);
}

/* The name that says what a file is counts: its own, or that of the last link that has one. */
static void test_files_by_their_links(void **state) {
    fixture *f = *state;
    char here[PATH_MAX];
    (void)snprintf(here, sizeof(here), "%s", f->dir.path);
    make_dir(f, "blobs", 0755);
    make_file(f, "blobs/0123");
    make_file(f, "blobs/named.text");
    assert_int_equal(symlink("blobs/0123", below(f, "link.text")), 0);
    assert_int_equal(symlink("../link.text", below(f, "blobs/mine")), 0);
    assert_int_equal(symlink("blobs/named.text", below(f, "other")), 0);
    assert_int_equal(symlink("blobs/gone", below(f, "broken.text")), 0);
    assert_int_equal(symlink("blobs", below(f, "folder.text")), 0);
    assert_file(below(f, "link.text"), here, "link.text");
    assert_file(below(f, "link.text/"), here, "link.text");
    assert_file(below(f, "blobs/mine"), here, "link.text");
    assert_file(below(f, "folder.text/named.text"), words(f, "%s/blobs", here), "named.text");
    assert_file(below(f, "other"), words(f, "%s/blobs", here), "named.text");
    pawl_error err = ERROR_INIT;
    store *s = NULL;
    char *file = NULL;
    assert_fails(path_open_file(below(f, "broken.text"), is_text, &s, &file, &err), PAWL_EUSAGE,
                 &err);
    assert_string_equal(err.expected, "a file");
    assert_file(below(f, "blobs/0123"), words(f, "%s/blobs", here), "0123");
    assert_ok(path_open_file(below(f, "folder.text"), is_text, &s, &file, &err), &err);
    assert_null(file);
    store_destroy(s);
}

static void test_r09_another_tools_file_is_recognised(void **state) {
    fixture *f = *state;
    pawl_error err;
    make_file(f, "model.pt");
    assert_refused(below(f, "model.pt"), false, PAWL_EUSAGE, &err);
    assert_string_equal(err.found, "a file: a PyTorch file, by its name");
    assert_says(err.next, "convert it into a new run with pawl convert");
}

static void test_p08_a_broken_link(void **state) {
    fixture *f = *state;
    pawl_error err;
    assert_int_equal(symlink("nowhere", below(f, "link")), 0);
    assert_refused(below(f, "link/run"), true, PAWL_EUSAGE, &err);
    assert_string_equal(
        err.attempt,
        words(f, "the path \"%s/link/run\": there is a broken symbolic link", f->dir.path));
    assert_string_equal(err.path, words(f, "%s/link", f->dir.path));
    assert_string_equal(err.found, "a link to nowhere, which does not exist");
}

static void test_p08_the_outermost_of_several_links_is_blamed(void **state) {
    fixture *f = *state;
    pawl_error err;
    make_dir(f, "real", 0755);
    assert_int_equal(symlink("real/inner", below(f, "outer")), 0);
    assert_int_equal(symlink("../nowhere/at/all", below(f, "real/inner")), 0);
    assert_refused(below(f, "outer/run"), true, PAWL_EUSAGE, &err);
    assert_string_equal(err.path, words(f, "%s/outer", f->dir.path));
    assert_string_equal(err.found, "a link to real/inner, which does not exist");
}

static void test_p08_a_loop_of_links(void **state) {
    fixture *f = *state;
    pawl_error err;
    assert_int_equal(symlink("b", below(f, "a")), 0);
    assert_int_equal(symlink("a", below(f, "b")), 0);
    assert_refused(below(f, "a"), true, PAWL_EUSAGE, &err);
    assert_string_equal(
        err.attempt,
        words(f, "the path \"%s/a\": symbolic links lead in a circle, or too far", f->dir.path));
    assert_string_equal(err.path, words(f, "%s/a", f->dir.path));
    assert_says(err.system, "(ELOOP, errno 40)");
}

static void test_p08_an_unexpanded_home(void **state) {
    (void)state;
    pawl_error err;
    assert_refused("~/runs/7", true, PAWL_EUSAGE, &err);
    assert_string_equal(err.attempt,
                        "the path \"~/runs/7\": ~ was not replaced by a home directory");
    assert_string_equal(err.next, "write the home directory out, or take the quotes away; ./~ is a "
                                  "directory of that name");
    assert_refused("~user", true, PAWL_EUSAGE, &err);
    assert_says(err.attempt, "~user was not replaced by a home directory");
}

static void test_p08_an_unexpanded_variable(void **state) {
    (void)state;
    pawl_error err;
    assert_refused("/mnt/$USER/runs", true, PAWL_EUSAGE, &err);
    assert_string_equal(err.attempt,
                        "the path \"/mnt/$USER/runs\": $USER was not replaced by its value");
    assert_refused("${SCRATCH}/runs", true, PAWL_EUSAGE, &err);
    assert_says(err.attempt, "${SCRATCH} was not replaced by its value");
}

static void test_p08_a_dollar_that_is_no_variable_is_a_name(void **state) {
    fixture *f = *state;
    assert_opens(below(f, "cost in $"), true, words(f, "%s/cost in $", f->dir.path));
    assert_opens(below(f, "5$5"), true, words(f, "%s/5$5", f->dir.path));
    make_dir(f, "$exists", 0755);
    assert_opens(below(f, "$exists"), true, words(f, "%s/$exists", f->dir.path));
}

static void test_p08_urls_of_unknown_schemes(void **state) {
    (void)state;
    static const char *const urls[] = {"http://host/path", "https://host/path", "hdfs://host/path",
                                       "s3x://bucket/key", "s://bucket/key"};
    for (size_t i = 0; i < ARRAY_LENGTH(urls); i++) {
        pawl_error err;
        char wanted[256];
        int length = (int)strcspn(urls[i], ":");
        assert_refused(urls[i], true, PAWL_EUSAGE, &err);
        (void)snprintf(wanted, sizeof(wanted),
                       "the path \"%s\": %.*s:// is not a kind of storage that this version knows",
                       urls[i], length, urls[i]);
        assert_string_equal(err.attempt, wanted);
        assert_string_equal(err.expected, "a directory, or file:// and an absolute path");
    }
}

static void test_p10_object_stores_are_told_from_other_schemes(void **state) {
    (void)state;
    static const char *const urls[] = {"s3://bucket/key", "gs://bucket/key", "abfss://c@a/key"};
    for (size_t i = 0; i < ARRAY_LENGTH(urls); i++) {
        pawl_error err;
        char wanted[256];
        int length = (int)strcspn(urls[i], ":");
        assert_true(path_is_object_store(urls[i]));
        assert_refused(urls[i], true, PAWL_EUSAGE, &err);
        (void)snprintf(wanted, sizeof(wanted),
                       "the path \"%s\": %.*s:// is an object store, and this version saves to "
                       "directories",
                       urls[i], length, urls[i]);
        assert_string_equal(err.attempt, wanted);
    }
    assert_false(path_is_object_store("s3:/bucket/key"));
    assert_false(path_is_object_store("file:///s3://"));
    assert_false(path_is_object_store(""));
}

static void test_file_urls_are_paths(void **state) {
    fixture *f = *state;
    char url[PATH_MAX];
    pawl_error err;
    make_dir(f, "a run", 0755);
    (void)snprintf(url, sizeof(url), "file://%s/a%%20run", f->dir.path);
    assert_opens(url, false, words(f, "%s/a run", f->dir.path));
    (void)snprintf(url, sizeof(url), "file://localhost%s/a%%20run", f->dir.path);
    assert_opens(url, false, words(f, "%s/a run", f->dir.path));
    assert_refused("file://other/run", true, PAWL_EUSAGE, &err);
    assert_string_equal(err.attempt,
                        "the path \"file://other/run\": the URL names another host, or "
                        "a relative path");
    assert_refused("file:///a%zz", true, PAWL_EUSAGE, &err);
    assert_says(err.attempt, "a percent sign without two hexadecimal digits");
    assert_refused("file:///a%00b", true, PAWL_EUSAGE, &err);
}

static void test_p08_a_name_that_is_too_long(void **state) {
    fixture *f = *state;
    pawl_error err;
    char name[300];
    memset(name, 'n', 256);
    name[256] = '\0';
    assert_refused(below(f, name), true, PAWL_ELIMIT, &err);
    assert_says(err.attempt, ": a name in the path is too long");
    assert_string_equal(err.expected, "at most 255 bytes");
    assert_says(err.found, "256 bytes: nnnn");
}

static void test_p08_a_path_that_is_too_long(void **state) {
    (void)state;
    pawl_error err;
    char path[6000];
    for (size_t i = 0; i < sizeof(path) - 1; i++) {
        path[i] = i % 100 == 0 ? '/' : 'p';
    }
    path[sizeof(path) - 1] = '\0';
    assert_refused(path, true, PAWL_ELIMIT, &err);
    assert_says(err.attempt, ": the path is too long");
    assert_string_equal(err.expected, "at most 4095 bytes");
    assert_string_equal(err.found, "5999 bytes");
    path[4000] = '\0';
    assert_refused(path, true, PAWL_ELIMIT, &err);
    assert_string_equal(err.expected,
                        "at most 3936 bytes, so that a checkpoint's files fit below it");
}

static void test_p08_an_empty_path(void **state) {
    (void)state;
    pawl_error err;
    assert_refused("", true, PAWL_EUSAGE, &err);
    assert_string_equal(err.attempt, "the path \"\": it is empty");
    assert_string_equal(err.next, "give the directory of the run");
}

static void test_going_back_from_what_is_not_there(void **state) {
    fixture *f = *state;
    pawl_error err;
    assert_refused(below(f, "missing/../run"), true, PAWL_EUSAGE, &err);
    assert_says(err.attempt, ": it goes back (..) from a directory that does not exist");
    assert_string_equal(err.next, "write the path without ..");
}

static void test_the_root_is_a_directory(void **state) {
    (void)state;
    assert_opens("/", false, "/");
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
        TEST(test_p01_missing_directories_are_made),
        TEST(test_p01_the_first_missing_component_is_named),
        TEST(test_p01_reading_makes_nothing),
        TEST(test_p02_a_directory_that_may_not_be_written),
        TEST(test_p02_a_parent_that_may_not_be_written),
        TEST(test_p02_a_directory_that_may_not_be_entered),
        TEST(test_p02_a_directory_that_may_not_be_listed),
        TEST(test_p02_a_group_that_may_not_write),
        TEST(test_p02_an_owner_who_may_not_write),
        TEST(test_p02_an_acl_is_mentioned),
        TEST(test_p03_a_read_only_mount),
        TEST(test_p04_a_relative_path_is_resolved_once_and_shown_absolute),
        TEST(test_p04_a_working_directory_that_is_gone),
        TEST(test_p04_links_and_dots_are_resolved),
        TEST(test_p08_a_file),
        TEST(test_p08_a_pipe),
        TEST(test_a_file_by_its_prefix),
        TEST(test_files_by_their_links),
        TEST(test_r09_another_tools_file_is_recognised),
        TEST(test_p08_a_broken_link),
        TEST(test_p08_the_outermost_of_several_links_is_blamed),
        TEST(test_p08_a_loop_of_links),
        TEST(test_p08_an_unexpanded_home),
        TEST(test_p08_an_unexpanded_variable),
        TEST(test_p08_a_dollar_that_is_no_variable_is_a_name),
        TEST(test_p08_urls_of_unknown_schemes),
        TEST(test_p10_object_stores_are_told_from_other_schemes),
        TEST(test_file_urls_are_paths),
        TEST(test_p08_a_name_that_is_too_long),
        TEST(test_p08_a_path_that_is_too_long),
        TEST(test_p08_an_empty_path),
        TEST(test_going_back_from_what_is_not_there),
        TEST(test_the_root_is_a_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
