/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lagfs BEHIND MOUNT [NEGATIVE_S [ENTRY_S [ATTR_S]]]
 *
 * Shows the directory BEHIND at MOUNT, as a filesystem that is far away may: the kernel keeps for
 * NEGATIVE_S seconds that a name does not exist, for ENTRY_S what it stands for, for ATTR_S size
 * and times [0]; and operations are spoiled by rules. Commands are lines on the standard input,
 * each is answered by one line:
 *
 *   rule OP TEXT EFFECT ERROR FIRST COUNT DELAY_MS    rules.h       ok | no
 *   clear     no rules                                              ok
 *   hits      operations that were spoiled since                    a number
 *   settle    what is to be done late is done now                   ok
 *
 * serve.h says how it begins and ends.
 */
#include "lag/changes.h"
#include "lag/serve.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#define MOST_OPEN 4096

typedef struct lagfs {
    int root; /* the directory behind */
    double negative_s, entry_s, attr_s;
    rules *rules;
    changes *changes;
    char *open_by[MOST_OPEN]; /* per descriptor: the path that it was opened by */
} lagfs;

static lagfs *this_fs(void) {
    return fuse_get_context()->private_data;
}

static int fd_of(const struct fuse_file_info *info) {
    return (int)info->fh;
}

static const char *path_of(const struct fuse_file_info *info) {
    return this_fs()->open_by[info->fh];
}

/* FUSE's paths begin with a slash. */
static const char *below(const char *path) {
    return path[1] == '\0' ? "." : path + 1;
}

/* ---- what rules do --------------------------------------------------------------------------- */

static void pause_ms(int64_t ms) {
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

/* Of what changes nothing: 0, or the error that it answers instead. */
static int spoil(operation op, const char *path) {
    verdict v = rules_judge(this_fs()->rules, op, path);
    if (v.effect == EFFECT_SLOW || v.effect == EFFECT_LATE) {
        pause_ms(v.delay_ms);
    }
    return v.effect == EFFECT_NONE || v.effect == EFFECT_SLOW ? 0 : -v.error;
}

static int change_it(const change *c) {
    lagfs *fs = this_fs();
    verdict v = rules_judge(fs->rules, c->op, c->path);
    if (v.effect == EFFECT_FAIL || v.effect == EFFECT_MISS) {
        return -v.error;
    }
    if (v.effect == EFFECT_LATE) {
        int remembered = changes_do_later(fs->changes, c, v.delay_ms);
        return remembered != 0 ? remembered : -v.error;
    }
    if (v.effect == EFFECT_SLOW) {
        pause_ms(v.delay_ms);
    }
    int result = changes_do(fs->changes, c);
    return v.effect == EFFECT_LOSE ? -v.error : result;
}

/* ---- names ----------------------------------------------------------------------------------- */

static int on_getattr(const char *path, struct stat *st, struct fuse_file_info *info) {
    if (info != NULL) {
        int spoiled = spoil(OP_STAT, path_of(info));
        return spoiled != 0 ? spoiled : fstat(fd_of(info), st) != 0 ? -errno : 0;
    }
    int spoiled = spoil(OP_LOOK, below(path));
    if (spoiled != 0) {
        return spoiled;
    }
    return fstatat(this_fs()->root, below(path), st, AT_SYMLINK_NOFOLLOW) != 0 ? -errno : 0;
}

static int on_rename(const char *from, const char *to, unsigned flags) {
    return change_it(&(change){
        .op = OP_RENAME, .path = below(from), .to = below(to), .fd = -1, .flags = (int)flags});
}

static int on_unlink(const char *path) {
    return change_it(&(change){.op = OP_UNLINK, .path = below(path), .fd = -1});
}

static int on_mkdir(const char *path, mode_t mode) {
    return change_it(&(change){.op = OP_MKDIR, .path = below(path), .fd = -1, .mode = mode});
}

static int on_rmdir(const char *path) {
    return change_it(&(change){.op = OP_RMDIR, .path = below(path), .fd = -1});
}

/* ---- directories ----------------------------------------------------------------------------- */

static int open_handle(const char *path, int flags, struct fuse_file_info *info) {
    /* What FUSE hands over is aligned for nothing. */
    int fd = openat(this_fs()->root, path, (flags & ~O_DIRECT) | O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    if (fd >= MOST_OPEN) {
        close(fd);
        return -EMFILE;
    }
    this_fs()->open_by[fd] = strdup(path);
    if (this_fs()->open_by[fd] == NULL) {
        close(fd);
        return -ENOMEM;
    }
    info->fh = (uint64_t)fd;
    return 0;
}

static int on_release(const char *path, struct fuse_file_info *info) {
    (void)path;
    char **by = &this_fs()->open_by[info->fh];
    free(*by);
    *by = NULL;
    close(fd_of(info)); /* from here on the number is another's */
    return 0;
}

static int on_opendir(const char *path, struct fuse_file_info *info) {
    return open_handle(below(path), O_RDONLY | O_DIRECTORY, info);
}

static void list(DIR *directory, const char *path, void *to, fuse_fill_dir_t fill) {
    bool is_root = strcmp(path, ".") == 0;
    char whole[4096];
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        snprintf(whole, sizeof whole, "%s%s%s", is_root ? "" : path, is_root ? "" : "/",
                 entry->d_name);
        if (rules_judge(this_fs()->rules, OP_NAME, whole).effect == EFFECT_NONE &&
            fill(to, entry->d_name, NULL, 0, 0) != 0) {
            return;
        }
    }
}

static int on_readdir(const char *path, void *to, fuse_fill_dir_t fill, off_t offset,
                      struct fuse_file_info *info, enum fuse_readdir_flags flags) {
    (void)path, (void)offset, (void)flags;
    int spoiled = spoil(OP_LIST, path_of(info));
    if (spoiled != 0) {
        return spoiled;
    }
    /* Anew: whoever lists a directory twice through one handle sees what is there now. */
    int fd = openat(fd_of(info), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    if (directory == NULL) {
        int failed = errno;
        if (fd >= 0) {
            close(fd);
        }
        return -failed;
    }
    list(directory, path_of(info), to, fill);
    closedir(directory);
    return 0;
}

static int on_fsyncdir(const char *path, int data_only, struct fuse_file_info *info) {
    (void)path, (void)data_only;
    return change_it(&(change){.op = OP_SYNCDIR, .path = path_of(info), .fd = fd_of(info)});
}

/* ---- files ----------------------------------------------------------------------------------- */

static int on_open(const char *path, struct fuse_file_info *info) {
    int spoiled = spoil(OP_OPEN, below(path));
    return spoiled != 0 ? spoiled : open_handle(below(path), info->flags, info);
}

static int on_create(const char *path, mode_t mode, struct fuse_file_info *info) {
    int made = change_it(&(change){
        .op = OP_CREATE, .path = below(path), .fd = -1, .flags = info->flags, .mode = mode});
    if (made != 0) {
        return made;
    }
    return open_handle(below(path), info->flags & ~(O_CREAT | O_EXCL | O_TRUNC), info);
}

static int on_read(const char *path, char *to, size_t size, off_t at, struct fuse_file_info *info) {
    (void)path;
    int spoiled = spoil(OP_READ, path_of(info));
    if (spoiled != 0) {
        return spoiled;
    }
    ssize_t n = pread(fd_of(info), to, size, at);
    return n < 0 ? -errno : (int)n;
}

/* A change of an open file. */
static change of_file(operation op, const struct fuse_file_info *info) {
    return (change){.op = op, .path = path_of(info), .fd = fd_of(info)};
}

static int on_write(const char *path, const char *data, size_t size, off_t at,
                    struct fuse_file_info *info) {
    (void)path;
    change c = of_file(OP_WRITE, info);
    c.data = data;
    c.size = size;
    c.at = at;
    return change_it(&c);
}

static int on_truncate(const char *path, off_t size, struct fuse_file_info *info) {
    change c = {.op = OP_TRUNCATE, .fd = -1};
    if (info != NULL) {
        c = of_file(OP_TRUNCATE, info);
    } else {
        c.path = below(path);
    }
    c.at = size;
    return change_it(&c);
}

static int on_fallocate(const char *path, int mode, off_t at, off_t size,
                        struct fuse_file_info *info) {
    (void)path;
    change c = of_file(OP_ALLOCATE, info);
    c.flags = mode;
    c.at = at;
    c.size = (size_t)size;
    return change_it(&c);
}

static int on_fsync(const char *path, int data_only, struct fuse_file_info *info) {
    (void)path, (void)data_only;
    change c = of_file(OP_SYNC, info);
    return change_it(&c);
}

static int on_flush(const char *path, struct fuse_file_info *info) {
    (void)path;
    return spoil(OP_CLOSE, path_of(info));
}

static int on_statfs(const char *path, struct statvfs *room) {
    (void)path;
    return fstatvfs(this_fs()->root, room) != 0 ? -errno : 0;
}

/* ---- the mount ------------------------------------------------------------------------------- */

static void *on_init(struct fuse_conn_info *connection, struct fuse_config *config) {
    (void)connection;
    lagfs *fs = this_fs();
    config->negative_timeout = fs->negative_s;
    config->entry_timeout = fs->entry_s;
    config->attr_timeout = fs->attr_s;
    config->use_ino = 1;     /* a file is the same one whichever way it was found */
    config->hard_remove = 1; /* no names of FUSE's own */
    config->nullpath_ok = 1; /* path_of */
    return fs;
}

static const struct fuse_operations operations = {.init = on_init,
                                                  .getattr = on_getattr,
                                                  .rename = on_rename,
                                                  .unlink = on_unlink,
                                                  .mkdir = on_mkdir,
                                                  .rmdir = on_rmdir,
                                                  .opendir = on_opendir,
                                                  .readdir = on_readdir,
                                                  .releasedir = on_release,
                                                  .fsyncdir = on_fsyncdir,
                                                  .open = on_open,
                                                  .create = on_create,
                                                  .read = on_read,
                                                  .write = on_write,
                                                  .truncate = on_truncate,
                                                  .fallocate = on_fallocate,
                                                  .fsync = on_fsync,
                                                  .flush = on_flush,
                                                  .release = on_release,
                                                  .statfs = on_statfs};

static void obey(void *context, const char *line) {
    lagfs *fs = context;
    bool good = true;
    if (strcmp(line, "hits") == 0) {
        printf("%" PRIu64 "\n", rules_hits(fs->rules));
        return;
    }
    if (strncmp(line, "rule ", 5) == 0) {
        good = rules_add(fs->rules, line + 5);
    } else if (strcmp(line, "clear") == 0) {
        rules_clear(fs->rules);
    } else if (strcmp(line, "settle") == 0) {
        changes_settle(fs->changes);
    } else {
        good = false;
    }
    puts(good ? "ok" : "no");
}

static double seconds(int count, char **words, int i) {
    return i < count ? strtod(words[i], NULL) : 0;
}

int main(int count, char **words) {
    if (count < 3) {
        fputs("usage: lagfs BEHIND MOUNT [NEGATIVE_S [ENTRY_S [ATTR_S]]]\n", stderr);
        return 2;
    }
    umask(0); /* the modes that FUSE hands over are those of the caller already */
    lagfs fs = {.root = open(words[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                .negative_s = seconds(count, words, 3),
                .entry_s = seconds(count, words, 4),
                .attr_s = seconds(count, words, 5),
                .rules = rules_new()};
    fs.changes = changes_new(fs.root);
    if (fs.root < 0 || fs.rules == NULL || fs.changes == NULL) {
        perror(words[1]);
        return 1;
    }
    int failed = serve(&(service){.name = "lagfs",
                                  .mount = words[2],
                                  .operations = &operations,
                                  .context = &fs,
                                  .obey = obey});
    changes_free(fs.changes);
    for (int fd = 0; fd < MOST_OPEN; fd++) { /* what was open when the mount was forced to go */
        free(fs.open_by[fd]);
    }
    rules_free(fs.rules);
    close(fs.root);
    return failed;
}
