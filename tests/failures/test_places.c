/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places that are broken, each in its own way, and what the doctor finds of them: exactly the ids
 * that are listed, and nothing else; in a place that is well nothing at all.
 */
#include "failures.h"
#include "lib/loop_disk.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sys/mount.h>
#include <sys/quota.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)

typedef struct place {
    const char *what;
    const char *ids;  /* "P02 S06": of all warnings and errors, ascending */
    const char *path; /* below the disk */
    /* NULL: it is made; else why it cannot be here. */
    const char *(*make)(void);
    void (*become)(void);      /* then */
    const char *(*tidy)(void); /* in the test itself, afterwards */
    pawl_doctor_options more;
} place;

static char scratch[64];

/* ---- asking --------------------------------------------------------------------------------- */

typedef struct troubles {
    char ids[512], text[16384];
} troubles;

static void add_id(troubles *t, const char *id) {
    char rest[512];
    if (strstr(t->ids, id) != NULL) {
        return;
    }
    char *at = t->ids;
    while (*at != '\0' && strncmp(at, id, 3) < 0) {
        at += strcspn(at, " ");
        at += *at == ' ';
    }
    (void)snprintf(rest, sizeof rest, "%s", at);
    (void)snprintf(at, sizeof t->ids - (size_t)(at - t->ids), "%s%s%s",
                   at > t->ids && at[-1] != ' ' ? " " : "", id, rest[0] != '\0' ? " " : "");
    (void)snprintf(t->ids + strlen(t->ids), sizeof t->ids - strlen(t->ids), "%s", rest);
}

static void on_finding(void *context, const pawl_finding *finding) {
    troubles *t = context;
    size_t n = strlen(t->text);
    (void)snprintf(t->text + n, sizeof t->text - n, "%d %s [%s]: %s\n", (int)finding->severity,
                   finding->id, finding->part, finding->text);
    if (finding->severity > PAWL_SEVERITY_NOTE) {
        add_id(t, finding->id);
        if (finding->next == NULL && strcmp(finding->id, "R08") != 0 &&
            strcmp(finding->id, "P09") != 0) {
            fail_msg("%s: nothing is advised", t->text);
        }
    }
}

static void ask(const place *p) {
    static troubles t;
    static const char *const nothing[] = {NULL};
    pawl_doctor_options options = p->more;
    pawl_error *err = pawl_error_new();
    options.struct_size = sizeof options;
    options.budget_bytes = options.budget_bytes > 0 ? options.budget_bytes : 8 * MIB;
    options.environment = options.environment != NULL ? options.environment : nothing;
    options.answer_s = options.answer_s > 0 ? options.answer_s : 60;
    options.parts = options.parts > 0 ? options.parts : PAWL_DOCTOR_ALL & ~PAWL_DOCTOR_PROBE;
    char path[5000];
    bool whole = p->path[0] == '/' || p->path[0] == '~' || p->path[0] == '$' ||
                 strstr(p->path, "://") != NULL;
    char here[4096];
    assert_non_null(getcwd(here, sizeof here));
    (void)snprintf(path, sizeof path, "%s%s%s", whole ? "" : here, whole ? "" : "/", p->path);
    assert_works(pawl_doctor(path, &options, on_finding, &t, NULL, err), err);
    pawl_error_free(err);
    if (strcmp(t.ids, p->ids) != 0) {
        fail_msg("%s: found \"%s\", not \"%s\":\n%s", p->what, t.ids, p->ids, t.text);
    }
}

/* ---- the places ----------------------------------------------------------------------------- */

static const char *make_nothing(void) {
    return NULL;
}

static const char *make_plain_run(void) {
    make_run("run", (const int64_t[]){100, 200, -1});
    return NULL;
}

static const char *mounted(const char *type, const char *options) {
    assert_int_equal(mkdir("m", 0777), 0);
    assert_int_equal(chmod("m", 0777), 0);
    if (mount(type, "m", type, 0, options) != 0) {
        return errno == EPERM ? "this needs leave to mount" : "this kernel cannot mount that";
    }
    return NULL;
}

static const char *make_tmpfs(void) {
    return mounted("tmpfs", NULL);
}

static const char *make_ramfs(void) {
    return mounted("ramfs", NULL);
}

static const char *make_overlay(void) {
    assert_int_equal(mkdir("lower", 0755) | mkdir("upper", 0755) | mkdir("work", 0755), 0);
    return mounted("overlay", "lowerdir=lower,upperdir=upper,workdir=work");
}

static const char *make_read_only(void) {
    const char *why = mounted("tmpfs", NULL);
    if (why == NULL && mount(NULL, "m", NULL, MS_REMOUNT | MS_RDONLY, NULL) != 0) {
        return "this needs leave to mount";
    }
    return why;
}

static const char *fill(void) {
    char zeros[4096] = {0};
    int fd = open("m/fill", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    while (write(fd, zeros, sizeof zeros) > 0) {
    }
    assert_int_equal(close(fd), 0);
    return NULL;
}

static const char *make_full(void) {
    const char *why = mounted("tmpfs", "size=1m");
    return why != NULL ? why : fill();
}

static const char *make_without_inodes(void) {
    return mounted("tmpfs", "nr_inodes=2");
}

/* Of user 65534, on an ext4 of its own, which counts while it is mounted. */
static const char *mounted_with_quota(uint64_t limit_bytes) {
    loop_disk_told t;
    struct dqblk q = {.dqb_bhardlimit = limit_bytes / 1024, .dqb_valid = QIF_BLIMITS};
    assert_int_equal(mkdir("m", 0777), 0);
    (void)snprintf(t.command, sizeof t.command,
                   "truncate -s 64m quota && mkfs.ext4 -q -O quota quota && "
                   "mount -o loop,usrquota quota m && chmod 777 m && findmnt -n -o SOURCE m");
    if (loop_disk_run(&t) != 0) {
        return "this kernel's ext4 has no quotas";
    }
    t.said[strcspn(t.said, "\n")] = '\0';
    const unsigned set = ((unsigned)Q_SETQUOTA << SUBCMDSHIFT) | USRQUOTA;
    return quotactl((int)set, t.said, 65534, (caddr_t)&q) == 0 ? NULL
                                                               : "this kernel's ext4 has no quotas";
}

static const char *make_quota(void) {
    return mounted_with_quota(16 * 1024);
}

static const char *make_quota_for_more(void) {
    return mounted_with_quota(8 * MIB);
}

static const char *make_fat(void) {
    loop_disk_told t;
    (void)snprintf(t.command, sizeof t.command,
                   "mkfs.vfat -C fat 16384 && mkdir m && "
                   "mount -o loop fat m");
    int code = loop_disk_run(&t);
    return code == 0 ? NULL : "this needs mkfs.vfat, and a kernel that knows vfat";
}

/* A program behind FUSE that has stopped answering: this one never begins to. */
static const char *make_silent_fuse(void) {
    char options[128];
    int fuse = open("/dev/fuse", O_RDWR); /* closed with the process: nobody hangs longer */
    if (fuse < 0) {
        return "this needs /dev/fuse";
    }
    (void)snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0", fuse);
    assert_int_equal(mkdir("m", 0755), 0);
    return mount("silent", "m", "fuse.silent", 0, options) == 0 ? NULL : "this kernel has no FUSE";
}

static const char *make_directory_of_root(void) {
    assert_int_equal(mkdir("d", 0755), 0);
    return NULL;
}

static const char *make_closed_parent(void) {
    assert_int_equal(mkdir("d", 0700) | mkdir("d/run", 0777), 0);
    return NULL;
}

static const char *make_file(void) {
    file_write("f", "text", 4);
    return NULL;
}

static const char *make_dangling_link(void) {
    assert_int_equal(symlink("nowhere", "l"), 0);
    return NULL;
}

static const char *make_loop_of_links(void) {
    assert_int_equal(symlink("a", "b") | symlink("b", "a"), 0);
    return NULL;
}

static pawl_run *held; /* until the process ends */

static const char *make_owned(void) {
    pawl_error *err = pawl_error_new();
    assert_works(pawl_run_open("run", NULL, &held, err), err);
    return NULL;
}

static const char *make_damaged(void) {
    char file[512];
    size_t n;
    make_run("run", (const int64_t[]){100, 200, -1});
    step_file(file, "run", 200, "data-");
    char *bytes = file_read(file, &n);
    bytes[4100] ^= 1;
    file_write(file, bytes, n);
    free(bytes);
    return NULL;
}

static const char *make_without_data(void) {
    char file[512];
    make_run("run", (const int64_t[]){100, 200, -1});
    step_file(file, "run", 200, "data-");
    assert_int_equal(unlink(file), 0);
    return NULL;
}

static const char *make_interrupted(void) {
    make_run("run", (const int64_t[]){100, 200, -1});
    assert_int_equal(unlink("run/step-00000200/manifest.json"), 0);
    return NULL;
}

static const char *make_leftovers_of_others(void) {
    assert_int_equal(mkdir("d", 0755) | mkdir("d/7.orbax-checkpoint-tmp-9", 0755), 0);
    file_write("d/7.orbax-checkpoint-tmp-9/a", "x", 1);
    return NULL;
}

static const char *make_cut_weights(void) {
    char header[8] = {100, 0, 0, 0, 0, 0, 0, 0};
    assert_int_equal(mkdir("d", 0755), 0);
    file_write("d/w.safetensors", header, sizeof header);
    return NULL;
}

/* An event that is years ahead. */
static const char *make_from_the_future(void) {
    static const char line[] =
        "\n{\"event\":\"restored\",\"step\":100,\"unix_time_ns\":4102444800000000000,"
        "\"status\":\"ok\",\"seconds\":1,\"bytes\":1}\n";
    make_run("run", (const int64_t[]){100, -1});
    FILE *file = fopen("run/events.jsonl", "ae");
    assert_non_null(file);
    assert_true(fputs(line, file) >= 0);
    assert_int_equal(fclose(file), 0);
    return NULL;
}

static const char *make_model(void) {
    static const char text[] = "{\"dense/kernel\": {\"shape\": [4, 9], \"dtype\": \"F32\"}}";
    file_write("model.json", text, sizeof text - 1);
    return make_plain_run();
}

/* ---- the process ---------------------------------------------------------------------------- */

static void limit(int which, rlim_t to) {
    const struct rlimit limits = {.rlim_cur = to, .rlim_max = to};
    assert_int_equal(setrlimit((__rlimit_resource_t)which, &limits), 0);
}

static void with_few_files(void) {
    limit(RLIMIT_NOFILE, 64);
}

static void with_small_files(void) {
    limit(RLIMIT_FSIZE, 32 * MIB);
}

static void without_locked_memory(void) {
    limit(RLIMIT_MEMLOCK, 4096);
    become_nobody();
}

/* Of version 1, or 2. */
static char group[1][256];

static const char *make_small_group(void) {
    static const char *const roots[] = {"/sys/fs/cgroup/memory", "/sys/fs/cgroup"};
    static const char *const limits[] = {"memory.limit_in_bytes", "memory.max"};
    for (int i = 0; i < 2; i++) {
        char path[400];
        (void)snprintf(group[0], sizeof group[0], "%s/pawl-places-%d", roots[i], (int)getppid());
        if (mkdir(group[0], 0755) != 0) {
            continue;
        }
        (void)snprintf(path, sizeof path, "%s/%s", group[0], limits[i]);
        FILE *file = fopen(path, "we");
        bool limited = file != NULL && fputs("67108864", file) >= 0;
        limited = file != NULL && fclose(file) == 0 && limited;
        (void)snprintf(path, sizeof path, "%s/cgroup.procs", group[0]);
        file = limited ? fopen(path, "we") : NULL;
        bool in = file != NULL && fprintf(file, "%d", (int)getpid()) > 0;
        in = file != NULL && fclose(file) == 0 && in;
        if (in) {
            return NULL;
        }
        (void)rmdir(group[0]);
    }
    return "this needs leave to make control groups";
}

static const char *remove_group(void) {
    char path[256];
    (void)snprintf(path, sizeof path, "/sys/fs/cgroup/memory/pawl-places-%d", (int)getpid());
    (void)rmdir(path);
    (void)snprintf(path, sizeof path, "/sys/fs/cgroup/pawl-places-%d", (int)getpid());
    (void)rmdir(path);
    return NULL;
}

static const char *const of_two_launchers[] = {"RANK=1", "WORLD_SIZE=4", "OMPI_COMM_WORLD_RANK=0",
                                               "OMPI_COMM_WORLD_SIZE=2", NULL};
static const char *const of_two_ranks[] = {"RANK=0", "WORLD_SIZE=2", NULL};
static const char *const of_a_rank_too_many[] = {"RANK=2", "WORLD_SIZE=2", NULL};

static char long_name[600];

/* ---- all of them ---------------------------------------------------------------------------- */

#define WITH_PROBE PAWL_DOCTOR_ALL

/* What, ids, path. */
#define W(of_what, wanted, at) .what = (of_what), .ids = (wanted), .path = (at)

static const place places[] = {
    {W("an empty directory", "", ""), .make = make_nothing},
    {W("a run to come", "", "a/b/run"), .make = make_nothing},
    {W("a run", "", "run"), .make = make_plain_run},
    {W("a run, with a probe", "", "run"), .make = make_plain_run, .more = {.parts = WITH_PROBE}},
    {W("a run, read", "", "run"), .make = make_plain_run, .more = {.read_only = 1, .verify_s = -1}},
    {W("memory: tmpfs", "P07", "m"), .make = make_tmpfs},
    {W("memory: ramfs", "P07", "m"), .make = make_ramfs},
    {W("a container's layer: overlay", "P07", "m"), .make = make_overlay},
    {W("a mount that is read-only", "P03", "m"), .make = make_read_only},
    {W("a disk without room", "P03", "m"), .make = make_full},
    {W("a disk without inodes", "P03 P07", "m"), .make = make_without_inodes},
    {W("a quota that is used up", "P03", "m"), .make = make_quota, .become = become_nobody},
    {W("a quota that is too small", "P03", "m"), .make = make_quota_for_more,
     .become = become_nobody, .more = {.need_bytes = 64 * MIB}},
    {W("a disk that is too small", "S06", "run"), .make = make_nothing,
     .more = {.need_bytes = 1024 * MIB}},
    {W("room for one checkpoint, not for two", "S06", "run"), .make = make_nothing,
     .more = {.need_bytes = 100 * MIB}},
    {W("FAT", "P09", "m"), .make = make_fat},
    {W("FUSE that hangs", "S08", "m/run"), .make = make_silent_fuse, .more = {.answer_s = 0.5}},
    {W("FUSE that hangs, read", "S08", "m"), .make = make_silent_fuse,
     .more = {.answer_s = 0.5, .read_only = 1}},
    {W("a directory of another user", "P02", "d"), .make = make_directory_of_root,
     .become = become_nobody},
    {W("a parent that may not be entered", "P02", "d/run"), .make = make_closed_parent,
     .become = become_nobody},
    {W("a file", "P08", "f"), .make = make_file},
    {W("a file on the way", "P08", "f/run"), .make = make_file},
    {W("a link to nothing", "P08", "l"), .make = make_dangling_link},
    {W("a circle of links", "P08", "a"), .make = make_loop_of_links},
    {W("a home directory that nobody wrote out", "P08", "~/run"), .make = make_nothing},
    {W("a variable that nobody replaced", "P08", "$HOME/run"), .make = make_nothing},
    {W("an object store", "P10", "s3://bucket/run"), .make = make_nothing},
    {W("storage that is not known", "P08", "gopher://host/run"), .make = make_nothing},
    {W("a name that is too long", "P08", long_name), .make = make_nothing},
    {W("a run that another job writes to", "S10", "run"), .make = make_owned},
    {W("few open files", "E01", "run"), .make = make_nothing, .become = with_few_files},
    {W("no locked memory", "E02", ""), .make = make_nothing, .become = without_locked_memory,
     .more = {.read_only = 1}},
    {W("a limit of file sizes", "S06", "run"), .make = make_nothing, .become = with_small_files},
    {W("a limit of file sizes, and a checkpoint that is larger", "S06", "run"),
     .make = make_nothing, .become = with_small_files, .more = {.need_bytes = 40 * MIB}},
    {W("a small control group", "S05", "run"), .make = make_small_group, .tidy = remove_group,
     .more = {.budget_bytes = 256 * MIB}},
    {W("a budget that is larger than the machine", "S05", "run"), .make = make_nothing,
     .more = {.budget_bytes = (uint64_t)1 << 60}},
    {W("two launchers that disagree", "S12", "run"), .make = make_nothing,
     .more = {.environment = of_two_launchers}},
    {W("a rank that the job does not have", "S12", "run"), .make = make_nothing,
     .more = {.environment = of_a_rank_too_many}},
    {W("fewer ranks than the job has", "S12", "run"), .make = make_nothing,
     .more = {.environment = of_two_ranks, .ranks = 8}},
    {W("saves that come too soon", "P11", "run"), .make = make_nothing,
     .more = {.parts = WITH_PROBE, .need_bytes = 64 * MIB, .every_s = 1e-6}},
    {W("a damaged step", "R08", "run"), .make = make_damaged},
    {W("a step without its data", "R08", "run"), .make = make_without_data},
    {W("what an interrupted save left", "S09", "run"), .make = make_interrupted},
    {W("what another tool's interrupted save left", "R09", "d"), .make = make_leftovers_of_others},
    {W("weights that were cut off", "R08", "d/w.safetensors"), .make = make_cut_weights},
    {W("clocks that differ", "E03", "run"), .make = make_from_the_future},
    {W("a model of other shapes", "R01 R04 R06", "run"), .make = make_model,
     .more = {.model = "model.json"}},
};

/* ---- */

static void be_there(void *context) {
    const place *p = context;
    const loop_disk disk = {.type = "ext4",
                            .options = "-q -O ^has_journal",
                            .bytes = (off_t)(192 * MIB),
                            .image = "image",
                            .point = "disk"};
    (void)rmdir("disk");
    assert_int_equal(mkdir("disk", 0755), 0);
    const char *why = loop_disk_mount(&disk);
    if (why != NULL) {
        child_skip(why);
    }
    assert_int_equal(chdir("disk"), 0);
    assert_int_equal(chmod(".", 0777), 0);
    memset(long_name, 'x', sizeof long_name - 1);
    why = p->make();
    if (why != NULL) {
        child_skip(why);
    }
    if (p->become != NULL) {
        p->become();
    }
    ask(p);
}

static void look_at(size_t least, bool well) {
    size_t looked = 0;
    size_t left_out = 0;
    size_t wrong = 0; /* the child has said why */
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if ((places[i].ids[0] == '\0') != well) {
            continue;
        }
        const child c = child_start(be_there, (void *)&places[i]);
        int ended = child_wait(&c);
        if (places[i].tidy != NULL) {
            (void)places[i].tidy();
        }
        if (ended == CHILD_SKIPPED) {
            print_message("SKIP: %s\n", places[i].what);
            left_out++;
            continue;
        }
        wrong += ended != 0;
        looked++;
        (void)unlink("image");
    }
    assert_int_equal(wrong, 0);
    if (looked == 0 && left_out > 0) {
        skip();
    }
    if (left_out == 0) {
        assert_true(looked >= least);
    }
}

static void
test_p03_p07_p08_p09_p10_p11_s05_s06_s08_s10_s12_r08_e01_e02_e03_broken_places(void **state) {
    (void)state;
    look_at(30, false);
}

static void test_p01_places_that_are_well_have_no_findings(void **state) {
    (void)state;
    look_at(5, true);
}

static int set_up(void **state) {
    (void)state;
    scratch_make(scratch);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    scratch_remove(scratch);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_p03_p07_p08_p09_p10_p11_s05_s06_s08_s10_s12_r08_e01_e02_e03_broken_places),
        TEST(test_p01_places_that_are_well_have_no_findings),
    };
    return cmocka_run_group_tests_name("broken places", tests, NULL, NULL);
}
