/* SPDX-License-Identifier: Apache-2.0 */
/* The posix store where the filesystem is not well-behaved: links, pipes, permissions, limits. */
#include "fixtures.h"

#include "children.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>

typedef struct fixture {
    directory dir, outside;
    store *s;
} fixture;

static int set_up(void **state) {
    fixture *f = mem_calloc(1, sizeof(*f));
    pawl_error err = ERROR_INIT;
    directory_make(&f->dir);
    directory_make(&f->outside);
    assert_ok(store_posix(f->dir.path, &f->s, &err), &err);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    store_destroy(f->s);
    directory_remove(&f->dir);
    directory_remove(&f->outside);
    mem_free(f);
    return 0;
}

static const char *in_dir(const directory *d, const char *name) {
    static char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s", d->path, name);
    return path;
}

static void make_link(const fixture *f, const char *target, const char *name) {
    assert_int_equal(symlink(target, in_dir(&f->dir, name)), 0);
}

/* ---- links and other things in the place of files ------------------------------------------- */

/* A link in the place of a file is refused, wherever it leads, and the message says so. */
static void test_r14_a_link_to_a_file_is_not_followed(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    store_file *file = NULL;
    char text[512];
    put_text(f->s, "a", "text");
    make_link(f, "a", "link");
    assert_fails(store_open(f->s, "link", STORE_READ, &file, &err), PAWL_EDAMAGED, &err);
    (void)snprintf(text, sizeof(text),
                   "cannot open the file\n"
                   "  path:     %s/link\n"
                   "  expected: regular files and directories only\n"
                   "  found:    a symbolic link, which is not followed here\n"
                   "  system:   Too many levels of symbolic links (ELOOP, errno 40)\n"
                   "  next:     put the file or directory itself in the place of the link",
                   f->dir.path);
    assert_string_equal(error_text(&err), text);
    assert_fails(store_open(f->s, "link", STORE_UPDATE, &file, &err), PAWL_EDAMAGED, &err);
    assert_fails(store_open(f->s, "link", STORE_CREATE, &file, &err), PAWL_EBUSY, &err);
}

/* A store of links follows them, but only for reading what they lead to. */
static void test_a_store_of_links_reads_through_them(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    store *s = NULL;
    store_file *file = NULL;
    store_stat found;
    char bytes[4];
    put_text(f->s, "a", "text");
    make_link(f, "a", "link");
    make_link(f, "nowhere", "broken");
    make_link(f, ".", "folder");
    assert_ok(store_posix_of_links(f->dir.path, &s, &err), &err);
    assert_ok(store_stat_path(s, "link", &found, &err), &err);
    assert_int_equal(found.type, STORE_FILE_TYPE);
    assert_int_equal(found.size, 4);
    for (store_mode mode = STORE_READ; mode <= STORE_READ_BULK; mode++) {
        if (store_mode_only_reads(mode)) {
            assert_ok(store_open(s, "link", mode, &file, &err), &err);
            assert_ok(store_read(file, 0, bytes, sizeof(bytes), &err), &err);
            assert_memory_equal(bytes, "text", 4);
            store_close(file);
        } else {
            assert_int_not_equal(store_open(s, "link", mode, &file, &err), PAWL_OK);
        }
    }
    assert_fails(store_open(s, "folder/a", STORE_READ, &file, &err), PAWL_EDAMAGED, &err);
    assert_fails(store_open(s, "broken", STORE_READ, &file, &err), PAWL_ENOTFOUND, &err);
    assert_string_equal(err.found, "a symbolic link to nowhere, which does not exist");
    assert_fails(store_stat_path(s, "gone", &found, &err), PAWL_ENOTFOUND, &err);
    assert_string_equal(err.found, "");
    store_destroy(s);
}

static void open_denied(void *context) {
    const fixture *f = context;
    pawl_error err = ERROR_INIT;
    store *s = NULL;
    store_file *file = NULL;
    child_become_nobody(NULL, 0);
    child_must(store_posix_of_links(f->dir.path, &s, &err) == PAWL_OK);
    child_must(store_open(s, "link", STORE_READ, &file, &err) == PAWL_EPERMISSION);
    child_must_equal(err.found, "a symbolic link to secret/a, which may not be read, or not be "
                                "reached");
    store_destroy(s);
}

/* What is told of is where it leads: anyone may read a link. */
static void test_p02_a_link_to_what_may_not_be_read(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    assert_ok(store_make_dir(f->s, "secret", &err), &err);
    put_text(f->s, "secret/a", "text");
    make_link(f, "secret/a", "link");
    assert_int_equal(chmod(in_dir(&f->dir, "secret"), 0700), 0);
    assert_int_equal(chmod(f->dir.path, 0755), 0);
    run_child(open_denied, f);
}

/* A file of two names is read under each, and changed in place under none. */
static void test_r14_a_file_of_two_names_is_not_changed_in_place(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    store_file *file = NULL;
    char target[256];
    char text[1024];
    assert_ok(store_replace(f->s, "twice", "x", 1, &err), &err);
    (void)snprintf(target, sizeof(target), "%s", in_dir(&f->dir, "twice"));
    assert_int_equal(link(target, in_dir(&f->dir, "also")), 0);
    assert_fails(store_open(f->s, "twice", STORE_UPDATE, &file, &err), PAWL_EDAMAGED, &err);
    assert_int_equal(err.system_errno, EMLINK);
    (void)snprintf(text, sizeof(text),
                   "cannot open the file to change it\n"
                   "  path:     %s/twice\n"
                   "  expected: a file of one name\n"
                   "  found:    one of 2 names (hard links), all of which would be changed\n"
                   "  system:   Too many links (EMLINK, errno 31)\n"
                   "  safe:     the file was not changed\n"
                   "  next:     replace the file by a copy of itself (cp, then mv)",
                   f->dir.path);
    assert_string_equal(error_text(&err), text);
    assert_ok(store_open(f->s, "twice", STORE_READ, &file, &err), &err);
    store_close(file);
    assert_int_equal(unlink(in_dir(&f->dir, "also")), 0);
    assert_ok(store_open(f->s, "twice", STORE_UPDATE, &file, &err), &err);
    store_close(file);
}

/* No operation goes through a link in the place of a directory. */
static void test_r14_a_link_to_a_directory_is_not_followed(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    store_file *file = NULL;
    store_stat found;
    make_link(f, f->outside.path, "link");
    store *s = f->s;
    assert_fails(store_open(s, "link/a", STORE_CREATE, &file, &err), PAWL_EDAMAGED, &err);
    assert_int_equal(err.system_errno, ELOOP);
    assert_fails(store_make_dir(s, "link/d", &err), PAWL_EDAMAGED, &err);
    assert_fails(store_list(s, "link", ignore_name, NULL, &err), PAWL_EDAMAGED, &err);
    assert_fails(store_sync_dir(s, "link", &err), PAWL_EDAMAGED, &err);
    assert_fails(store_stat_path(s, "link/a", &found, &err), PAWL_EDAMAGED, &err);
    assert_fails(publish(s, "link/m", "x", 1, &err), PAWL_EDAMAGED, &err);
    assert_fails(store_unlink(s, "link/a", &err), PAWL_EDAMAGED, &err);
    assert_fails(store_rename(s, "link/a", "link/b", &err), PAWL_EDAMAGED, &err);
}

/* Nor through one deeper down. */
static void test_r14_a_link_deeper_down_is_not_followed(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    store_file *file = NULL;
    assert_ok(store_make_dir(f->s, "d", &err), &err);
    assert_ok(store_make_dir(f->s, "d/e", &err), &err);
    make_link(f, "e", "d/link");
    assert_fails(store_open(f->s, "d/link/a", STORE_CREATE, &file, &err), PAWL_EDAMAGED, &err);
    assert_names(f->s, "d/e", "");
}

/* A link is neither file nor directory; removing it, or publishing over it, spares its target. */
static void test_r14_links_are_replaced_and_not_written_through(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    store_stat found;
    put_text(f->s, "a", "text");
    make_link(f, "a", "link");
    make_link(f, "a", "m");
    make_link(f, "a", "m.tmp");
    assert_ok(store_stat_path(f->s, "link", &found, &err), &err);
    assert_true(found.type == STORE_OTHER_TYPE && found.size == 0);
    assert_ok(store_unlink(f->s, "link", &err), &err);
    assert_ok(publish(f->s, "m", "new", 3, &err), &err);
    assert_text(f->s, "m", "new");
    assert_text(f->s, "a", "text");
    assert_names(f->s, "", "a m ");
}

/* A link that leads nowhere is refused in the same words. */
static void test_p08_a_broken_link_is_refused(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    store_file *file = NULL;
    make_link(f, "nowhere", "link");
    assert_fails(store_open(f->s, "link", STORE_READ, &file, &err), PAWL_EDAMAGED, &err);
    assert_string_equal(err.found, "a symbolic link, which is not followed here");
}

/* A pipe in the place of a file is refused without waiting for its other end. */
static void test_r14_a_pipe_is_refused_without_waiting(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    store_file *file = NULL;
    char text[512];
    assert_int_equal(mkfifo(in_dir(&f->dir, "pipe"), 0600), 0);
    assert_fails(store_open(f->s, "pipe", STORE_READ, &file, &err), PAWL_EDAMAGED, &err);
    (void)snprintf(text, sizeof(text),
                   "cannot open the file\n"
                   "  path:     %s/pipe\n"
                   "  expected: a regular file\n"
                   "  found:    a device, pipe or socket (mode 010600)",
                   f->dir.path);
    assert_string_equal(error_text(&err), text);
}

/* ---- the root ------------------------------------------------------------------------------- */

/* The root must be there. */
static void test_p01_a_missing_root_is_named(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    store *s = NULL;
    char text[512];
    assert_fails(store_posix(in_dir(&f->dir, "no/where"), &s, &err), PAWL_ENOTFOUND, &err);
    (void)snprintf(text, sizeof(text),
                   "cannot open the directory\n  path:     %s/no/where\n"
                   "  system:   No such file or directory (ENOENT, errno 2)",
                   f->dir.path);
    assert_string_equal(error_text(&err), text);
}

/* The root must be a directory. */
static void test_p08_a_file_as_root_is_refused(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    store *s = NULL;
    put_text(f->s, "a", "text");
    assert_fails(store_posix(in_dir(&f->dir, "a"), &s, &err), PAWL_EDAMAGED, &err);
    assert_string_equal(err.expected, "a directory");
}

/* Links that lead to each other are no root, and the system's own words say why. */
static void test_p08_a_loop_of_links_as_root_is_refused(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    store *s = NULL;
    make_link(f, "two", "one");
    make_link(f, "one", "two");
    assert_fails(store_posix(in_dir(&f->dir, "one"), &s, &err), PAWL_EIO, &err);
    assert_says(err.system, "ELOOP");
}

/* The root itself may be reached through a link: that is the caller's choice. */
static void test_a_link_as_root_is_followed(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    store *s = NULL;
    make_link(f, ".", "here");
    assert_ok(store_posix(in_dir(&f->dir, "here"), &s, &err), &err);
    put_text(s, "a", "text");
    store_destroy(s);
    assert_text(f->s, "a", "text");
}

static void relative_root(void *context) {
    fixture *f = context;
    pawl_error err = ERROR_INIT;
    store *s = NULL;
    char wanted[128];
    child_must(chdir("/tmp") == 0);
    child_must(store_posix(f->dir.path + strlen("/tmp/"), &s, &err) == PAWL_OK);
    (void)snprintf(wanted, sizeof(wanted), "%s", f->dir.path);
    child_must(strcmp(s->root, wanted) == 0);
    child_must(chdir("/") == 0);
    child_must(publish(s, "a", "text", 4, &err) == PAWL_OK);
    store_destroy(s);
}

/* A relative root is shown absolute, and stays where it is when the process moves. */
static void test_p04_a_relative_root_is_resolved_once(void **state) {
    fixture *f = *state;
    run_child(relative_root, f);
    assert_text(f->s, "a", "text");
}

/* A slash at the end of the root is not repeated in messages. */
static void test_the_root_is_shown_without_slashes_at_its_end(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    store *s = NULL;
    assert_ok(store_posix(in_dir(&f->dir, "//"), &s, &err), &err);
    assert_string_equal(s->root, f->dir.path);
    store_destroy(s);
    assert_ok(store_posix("/", &s, &err), &err);
    assert_string_equal(s->root, "/");
    store_file *file = NULL;
    assert_fails(store_open(s, "no-such-file", STORE_READ, &file, &err), PAWL_ENOTFOUND, &err);
    assert_string_equal(err.path, "/no-such-file");
    store_destroy(s);
}

/* ---- modes and limits ----------------------------------------------------------------------- */

static void check_modes(void *context) {
    const fixture *f = context;
    pawl_error err = ERROR_INIT;
    struct stat found;
    umask(027);
    child_must(store_make_dir(f->s, "d", &err) == PAWL_OK);
    child_must(publish(f->s, "a", "text", 4, &err) == PAWL_OK);
    child_must(stat(in_dir(&f->dir, "a"), &found) == 0 && (found.st_mode & 07777) == 0640);
    child_must(stat(in_dir(&f->dir, "d"), &found) == 0 && (found.st_mode & 07777) == 0750);
}

/* Files and directories are made with what the umask leaves of 0666 and 0777. */
static void test_modes_follow_the_umask(void **state) {
    run_child(check_modes, *state);
}

static void write_past_limit(void *context) {
    const fixture *f = context;
    pawl_error err = ERROR_INIT;
    store_file *file = NULL;
    store_space room;
    char bytes[1500], text[512];
    struct rlimit limit = {.rlim_cur = 1000, .rlim_max = 1000};
    memset(bytes, 'x', sizeof(bytes));
    child_must(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    child_must(store_space_of(f->s, &room, &err) == PAWL_OK && room.max_file_bytes == 1000);
    child_must(store_open(f->s, "a", STORE_CREATE, &file, &err) == PAWL_OK);
    child_must(store_write(file, 0, bytes, sizeof(bytes), &err) == PAWL_ENOSPACE);
    (void)snprintf(text, sizeof(text),
                   "cannot write\n  path:     %s/a\n"
                   "  range:    bytes 1000 to 1499\n"
                   "  found:    a file-size limit of this process (RLIMIT_FSIZE) of 1.00 kB\n"
                   "  system:   File too large (EFBIG, errno 27)\n"
                   "  next:     raise the limit (ulimit -f unlimited)",
                   f->dir.path);
    child_must_equal(error_text(&err), text);
    store_close(file);
}

/* Where the file-size limit would kill the process, the write fails and says so instead. */
static void test_s06_the_file_size_limit_does_not_kill(void **state) {
    run_child(write_past_limit, *state);
}

/* ---- synchronising -------------------------------------------------------------------------- */

/* A filesystem without sync for directories (such as proc) is worked with. */
static void test_p09_directories_that_cannot_be_synced_are_tolerated(void **state) {
    pawl_error err = ERROR_INIT;
    store *s = NULL;
    (void)state;
    int fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool has_no_sync = fd >= 0 && fsync(fd) != 0 && errno == EINVAL;
    close(fd);
    if (!has_no_sync) {
        print_message("skipped: /proc is not mounted here, or can be synced\n");
        skip();
    }
    assert_ok(store_posix("/proc", &s, &err), &err);
    assert_ok(store_sync_dir(s, "", &err), &err);
    store_destroy(s);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_r14_a_link_to_a_file_is_not_followed),
        TEST(test_a_store_of_links_reads_through_them),
        TEST(test_p02_a_link_to_what_may_not_be_read),
        TEST(test_r14_a_file_of_two_names_is_not_changed_in_place),
        TEST(test_r14_a_link_to_a_directory_is_not_followed),
        TEST(test_r14_a_link_deeper_down_is_not_followed),
        TEST(test_r14_links_are_replaced_and_not_written_through),
        TEST(test_p08_a_broken_link_is_refused),
        TEST(test_r14_a_pipe_is_refused_without_waiting),
        TEST(test_p01_a_missing_root_is_named),
        TEST(test_p08_a_file_as_root_is_refused),
        TEST(test_p08_a_loop_of_links_as_root_is_refused),
        TEST(test_a_link_as_root_is_followed),
        TEST(test_p04_a_relative_root_is_resolved_once),
        TEST(test_the_root_is_shown_without_slashes_at_its_end),
        TEST(test_modes_follow_the_umask),
        TEST(test_s06_the_file_size_limit_does_not_kill),
        TEST(test_p09_directories_that_cannot_be_synced_are_tolerated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
