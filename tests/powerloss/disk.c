/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disk IMAGE MOUNT LOG
 *
 * A disk that remembers: MOUNT/disk has the bytes of the file IMAGE, and takes writes as a disk
 * with a volatile cache does. Each write and each flush is appended to LOG as it takes effect, one
 * after the other, and between them each text that somebody wrote to MOUNT/marks. images.py reads
 * LOG.
 *
 * A record: u64 offset, u32 bytes, u32 kind, then the bytes; little-endian.
 */
#include "lag/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RECORD_WRITE = 1, RECORD_FLUSH = 2, RECORD_MARK = 3 };

typedef struct record {
    uint64_t offset;
    uint32_t bytes, kind;
} record;

typedef struct disk {
    int image;
    off_t size;
    FILE *log;
} disk;

#define DISK  "/disk"
#define MARKS "/marks"

static disk *this_disk(void) {
    return fuse_get_context()->private_data;
}

/* What cannot be remembered must not be taken. */
static int remember(uint32_t kind, off_t offset, const char *data, size_t size) {
    FILE *log = this_disk()->log;
    record r = {.offset = (uint64_t)offset, .bytes = (uint32_t)size, .kind = kind};
    bool good = fwrite(&r, sizeof r, 1, log) == 1;
    if (size > 0) {
        good = good && fwrite(data, 1, size, log) == size;
    }
    return good ? (int)size : -EIO;
}

static int on_getattr(const char *path, struct stat *st, struct fuse_file_info *info) {
    (void)info;
    *st = (struct stat){.st_nlink = 1, .st_mode = S_IFREG | 0600};
    if (strcmp(path, "/") == 0) {
        st->st_mode = S_IFDIR | 0700;
        return 0;
    }
    if (strcmp(path, DISK) == 0) {
        st->st_size = this_disk()->size;
        return 0;
    }
    return strcmp(path, MARKS) == 0 ? 0 : -ENOENT;
}

static int on_open(const char *path, struct fuse_file_info *info) {
    info->direct_io = strcmp(path, MARKS) == 0; /* a text is one write, whole */
    return 0;
}

static int on_read(const char *path, char *to, size_t size, off_t at, struct fuse_file_info *info) {
    (void)info;
    ssize_t n = strcmp(path, DISK) == 0 ? pread(this_disk()->image, to, size, at) : 0;
    return n < 0 ? -errno : (int)n;
}

static int on_write(const char *path, const char *data, size_t size, off_t at,
                    struct fuse_file_info *info) {
    (void)info;
    disk *d = this_disk();
    if (strcmp(path, MARKS) == 0) {
        return remember(RECORD_MARK, 0, data, size);
    }
    if (at < 0 || at > d->size || (off_t)size > d->size - at) {
        return -ENOSPC;
    }
    if (pwrite(d->image, data, size, at) != (ssize_t)size) {
        return -EIO;
    }
    return remember(RECORD_WRITE, at, data, size);
}

static int on_fsync(const char *path, int data_only, struct fuse_file_info *info) {
    (void)data_only, (void)info;
    return strcmp(path, DISK) == 0 ? remember(RECORD_FLUSH, 0, NULL, 0) : 0;
}

/* Opening marks to append truncates nothing; a disk has its size. */
static int on_truncate(const char *path, off_t size, struct fuse_file_info *info) {
    (void)info;
    return strcmp(path, MARKS) == 0 || size == this_disk()->size ? 0 : -EPERM;
}

static void *on_init(struct fuse_conn_info *connection, struct fuse_config *config) {
    (void)connection, (void)config;
    return this_disk();
}

static const struct fuse_operations operations = {.init = on_init,
                                                  .getattr = on_getattr,
                                                  .open = on_open,
                                                  .read = on_read,
                                                  .write = on_write,
                                                  .fsync = on_fsync,
                                                  .truncate = on_truncate};

/* It takes no commands. */
static void obey(void *context, const char *line) {
    (void)context, (void)line;
    puts("no");
}

int main(int count, char **words) {
    if (count != 4) {
        fputs("usage: disk IMAGE MOUNT LOG\n", stderr);
        return 2;
    }
    struct stat st;
    disk d = {.image = open(words[1], O_RDWR | O_CLOEXEC), .log = fopen(words[3], "wbe")};
    if (d.image < 0 || d.log == NULL || fstat(d.image, &st) != 0) {
        perror("disk");
        return 1;
    }
    d.size = st.st_size;
    int failed = serve(&(service){.name = "pawl-disk",
                                  .mount = words[2],
                                  .operations = &operations,
                                  .context = &d,
                                  .in_turn = true,
                                  .obey = obey});
    failed |= fclose(d.log) != 0;
    close(d.image);
    return failed;
}
