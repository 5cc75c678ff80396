/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store: the storage that bytes are written to and read from. One table of primitive operations,
 * implemented by `posix` and wrapped by `retry`. Tests have more stores: tests/stores/stores.h.
 *
 * May include base only. Paths are relative to the store's root, '/'-separated, without leading
 * '/', "." or ".."; "" is the root. Threads: a store may be used by any number of threads at once;
 * a store_file, too, for writes that neither overlap nor share a page, else by one at a time.
 * Errors carry the absolute path and the system's own words.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include "base/base.h"

#include <string.h>

#define STORE_MAX_PATH 1024

/*
 * What a store guarantees. In all stores files are created exclusively, and where files are
 * renamed, a rename over another one is atomic for readers. A crash is a loss of power: a killed
 * process loses nothing that it wrote to a file that has its name.
 */
typedef struct store_traits {
    const char *kind;   /* "posix", "mem", ... */
    bool atomic_rename; /* after a crash the target is wholly the old or the new file */
    /* Unsynced creations, renames, unlinks of one directory survive a crash in order (a prefix of
     * them), not as any subset. */
    bool ordered_names;
    uint32_t atomic_write_bytes; /* an aligned write of so many bytes is never torn by a crash */
    /* Lookups and listings show what is there now. False where they may be out of date, as on NFS
     * or FUSE: a name that does not open, or is not listed, may exist all the same (evidence.h). */
    bool coherent;
    /*
     * An object store (S3, GCS, Azure). A file is an object there, and it differs in this:
     * - Nothing is changed in place (STORE_UPDATE) or renamed: PAWL_EUNSUPPORTED.
     * - Small files are put whole, and removed, on a condition (store_put, store_unlink_match).
     *   Conditions are decided on the truth, also where reads and listings are late.
     * - A file that is created is an upload: nobody sees it before store_sync, which finds out
     *   whether the name is taken, and it is gone when it is closed before, or its process dies.
     * - It is uploaded in parts, each a write of its own, in any order, and without gaps: each but
     *   the last in the file has at least part_bytes_min bytes, and there are at most parts_max.
     * - Directories are nothing but the names of what is in them: making one does nothing, and so
     *   does removing one, which fails where something is in it. An empty one is not there.
     * - A file that is removed or replaced cannot be read on by whoever has it open:
     *   PAWL_ENOTFOUND.
     * - Removing what is not there may succeed: neither answer proves that there was a file.
     */
    bool objects;
    uint32_t part_bytes_min; /* 0: any */
    uint32_t parts_max;      /* 0: any number */
} store_traits;

/*
 * Which version of an object: its ETag or generation. All zeros stand for none: there is no such
 * object. Versions of the same bytes may have the same tag, so whoever puts on a condition puts
 * bytes that were never there before, with a counter or a random number in them.
 */
typedef struct store_tag {
    uint8_t bytes[32];
} store_tag;
static inline bool store_tag_same(const store_tag *a, const store_tag *b) {
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

typedef enum store_mode {
    STORE_READ,   /* existing file */
    STORE_CREATE, /* a new file, for writing; PAWL_EBUSY (EEXIST) when the name is taken */
    /* Existing file, for reading and writing in place: the one way to change what is there.
     * PAWL_EDAMAGED (EMLINK): it has other names, hard links, that would be changed too. */
    STORE_UPDATE,
    /* READ and CREATE of a file that is moved in large pieces. Where the storage can, a piece whose
     * memory and place in the file are multiples of STORE_DIRECT_ALIGNMENT bypasses the page cache,
     * unless it is to be read and the cache has it. Other pieces go through the cache, and are
     * written back early. */
    STORE_READ_BULK,
    STORE_CREATE_BULK,
    STORE_CREATE_STREAM /* CREATE; all through the page cache, written back early */
} store_mode;

static inline bool store_mode_creates(store_mode mode) {
    return mode == STORE_CREATE || mode == STORE_CREATE_BULK || mode == STORE_CREATE_STREAM;
}
static inline bool store_mode_only_reads(store_mode mode) {
    return mode == STORE_READ || mode == STORE_READ_BULK;
}

#define STORE_DIRECT_ALIGNMENT 4096u /* enough for every disk in use */

typedef enum store_type { STORE_FILE_TYPE, STORE_DIR_TYPE, STORE_OTHER_TYPE } store_type;

typedef struct store_stat {
    store_type type; /* symbolic links are not followed: OTHER */
    bool mounted;    /* something is mounted on this name; never of the store's root */
    uint64_t size;
    int64_t modified_unix_ns; /* by the storage's clock, for people; 0: unknown, or too far off */
} store_stat;

/* What a listing shows of a name: size and time only where the storage knows them without another
 * look, as object stores do. */
typedef struct store_listed {
    const char *name;
    bool known; /* what follows */
    uint64_t size;
    int64_t modified_unix_ns; /* as in store_stat */
} store_listed;
/* A failure ends the listing. */
typedef pawl_status (*store_each_fn)(void *context, const store_listed *found, pawl_error *err);

/* How much room the storage has (S06). UINT64_MAX: unlimited or unknown. */
typedef struct store_space {
    uint64_t total_bytes, free_bytes; /* free to this user, quota included where it is known */
    uint64_t free_inodes;
    uint64_t max_file_bytes; /* RLIMIT_FSIZE and the filesystem's own limit, the smaller */
    bool read_only;
    char filesystem[32]; /* "ext4" */
    char mount_point[256];
    char mount_options[256];
} store_space;

typedef struct store store;
typedef struct store_file store_file;
typedef struct store_io store_io;     /* queue.h */
typedef struct store_ring store_ring; /* an io_uring: ring.h */

/* The first n bytes of a file, mapped for reading. Where the file was truncated since, touching the
 * bytes that it lost raises SIGBUS. */
typedef struct store_mapping {
    const uint8_t *bytes; /* at a page's start; NULL: nothing is mapped */
    size_t n;
    void (*unmap)(const uint8_t *bytes, size_t n);
} store_mapping;

/* The primitive operations. Reads and writes may move less than was asked for; a read of 0 bytes is
 * the end of the file. An operation marked optional may be NULL. `sync` makes a file's bytes and
 * size durable, `sync_dir` the names in a directory. */
typedef struct store_ops {
    pawl_status (*open)(store *s, const char *path, store_mode mode, store_file **out,
                        pawl_error *err);
    pawl_status (*read)(store_file *f, uint64_t at, void *to, size_t n, size_t *got,
                        pawl_error *err);
    pawl_status (*write)(store_file *f, uint64_t at, const void *from, size_t n, size_t *put,
                         pawl_error *err);
    pawl_status (*size)(store_file *f, uint64_t *out, pawl_error *err);
    /* Optional. As store_reserve. */
    pawl_status (*reserve)(store_file *f, uint64_t bytes, pawl_error *err);
    /* Optional. Begins to write the first n bytes of `io` on a ring; what it does not take, or does
     * not write, the caller writes by `write`. PAWL_EUNSUPPORTED: not this file, or piece. */
    pawl_status (*start)(store_file *f, store_ring *ring, store_io *io, size_t n, pawl_error *err);
    /* Optional. PAWL_EUNSUPPORTED: this file cannot be mapped. */
    pawl_status (*map)(store_file *f, size_t n, store_mapping *out, pawl_error *err);
    pawl_status (*sync)(store_file *f, pawl_error *err);
    void (*close)(store_file *f); /* never fails: what matters was synced */
    pawl_status (*make_dir)(store *s, const char *path, pawl_error *err);   /* PAWL_EBUSY: exists */
    pawl_status (*remove_dir)(store *s, const char *path, pawl_error *err); /* must be empty */
    /* Files, within one directory. */
    pawl_status (*rename)(store *s, const char *from, const char *to, pawl_error *err);
    /* Of object stores, else NULL. As store_put; `now` is not NULL. */
    pawl_status (*put)(store *s, const char *path, const void *data, size_t n,
                       const store_tag *expected, store_tag *now, pawl_error *err);
    /* `expected`: as store_unlink_match; NULL where the store is no object store. */
    pawl_status (*unlink)(store *s, const char *path, const store_tag *expected, pawl_error *err);
    pawl_status (*sync_dir)(store *s, const char *path, pawl_error *err);
    /* Of object stores that are not coherent, else NULL. As store_catch_up. */
    void (*catch_up)(store *s);
    /* Names in a directory ("." and ".." left out), in any order. */
    pawl_status (*list)(store *s, const char *path, store_each_fn each, void *context,
                        pawl_error *err);
    pawl_status (*stat)(store *s, const char *path, store_stat *out, pawl_error *err);
    pawl_status (*space)(store *s, store_space *out, pawl_error *err);
    void (*destroy)(store *s);
} store_ops;

/* An implementation embeds these as its first member. */
struct store {
    const store_ops *ops;
    store_traits traits;
    char *root; /* absolute, for messages; owned by the store */
    /* The number of repetitions of the retry store that this is, or wraps; NULL: there is none. */
    const _Atomic uint64_t *retries;
};
struct store_file {
    store *in;
    /* Of a file opened by STORE_READ_BULK: the last read found all its bytes in the page cache. A
     * reader then goes on in steps that stay in the processor's cache, else in large ones. Set by
     * the store's `read`; false where it cannot tell. */
    bool read_cached;
    /* Of a file of an object store: the version that is read, or that store_sync has completed. */
    store_tag tag;
    char path[STORE_MAX_PATH];
};

/* ---- what callers use: store.c -------------------------------------------------------------- */

pawl_status store_open(store *s, const char *path, store_mode mode, store_file **out,
                       pawl_error *err) PAWL_MUST_CHECK;
void store_close(store_file *f);          /* NULL is fine */
void store_close_pointer(store_file **f); /* for CLEANUP */
void store_destroy(store *s);             /* NULL is fine */
void store_destroy_pointer(store **s);    /* for CLEANUP */
/* The error's path becomes the absolute path of `path`. */
void store_error_path(pawl_error *err, const store *s, const char *path);
/* Exactly n bytes, or a failure whose range says which were not moved. A read past the end is
 * PAWL_EDAMAGED. */
pawl_status store_read(store_file *f, uint64_t at, void *to, size_t n, pawl_error *err)
    PAWL_MUST_CHECK;
pawl_status store_write(store_file *f, uint64_t at, const void *from, size_t n, pawl_error *err)
    PAWL_MUST_CHECK;
pawl_status store_size(store_file *f, uint64_t *out, pawl_error *err) PAWL_MUST_CHECK;
/* Reserves room for a file of `bytes` in all, so that a full disk is found early; the size of the
 * file may become that at once. Does nothing where the storage cannot reserve. */
pawl_status store_reserve(store_file *f, uint64_t bytes, pawl_error *err) PAWL_MUST_CHECK;
/* n > 0, and no more than the file has. The mapping outlives the open file. Wrappers pass it on.
 * PAWL_EUNSUPPORTED: this storage, or this file, cannot be mapped. */
pawl_status store_map(store_file *f, size_t n, store_mapping *out, pawl_error *err) PAWL_MUST_CHECK;
void store_unmap(store_mapping *m); /* an empty one is fine */
pawl_status store_sync(store_file *f, pawl_error *err) PAWL_MUST_CHECK;
pawl_status store_make_dir(store *s, const char *path, pawl_error *err) PAWL_MUST_CHECK;
pawl_status store_remove_dir(store *s, const char *path, pawl_error *err) PAWL_MUST_CHECK;
pawl_status store_rename(store *s, const char *from, const char *to, pawl_error *err)
    PAWL_MUST_CHECK;
/* Object stores; elsewhere PAWL_EUNSUPPORTED. Makes `path` a file of these bytes, atomically for
 * readers and durably, if it is `expected` now: this version; with an empty tag, none; with NULL,
 * whatever there is. *now [NULL] becomes the new version.
 * PAWL_EBUSY with EEXIST (store_is_refused): it is not, and nothing was done. But a reply that was
 * lost may have been that of this very put, or of an earlier one of the same bytes: where that can
 * be, the caller reads what is there. After PAWL_EIO or PAWL_ETIMEOUT it may have been done, or be
 * done later, as long as the condition holds: another change of the file ends that for certain. */
pawl_status store_put(store *s, const char *path, const void *data, size_t n,
                      const store_tag *expected, store_tag *now, pawl_error *err) PAWL_MUST_CHECK;
pawl_status store_unlink(store *s, const char *path, pawl_error *err) PAWL_MUST_CHECK;
/* Object stores. Removes the file if it is still this version; else as store_put. */
pawl_status store_unlink_match(store *s, const char *path, const store_tag *expected,
                               pawl_error *err) PAWL_MUST_CHECK;
/* A small new file, whole, without any sync; PAWL_EBUSY when the name is taken. *version [NULL]: on
 * an object store, of what was put. */
pawl_status store_create_small(store *s, const char *path, const void *data, size_t n,
                               store_tag *version, pawl_error *err) PAWL_MUST_CHECK;
/* Waits, for some seconds, until looks show all that was there when this was called. Object stores
 * alone are late for a bounded time: elsewhere it does nothing (evidence.h). */
void store_catch_up(store *s);
/* Did a put or a removal fail because its condition does not hold? */
bool store_is_refused(const pawl_error *err);
pawl_status store_sync_dir(store *s, const char *path, pawl_error *err) PAWL_MUST_CHECK;
pawl_status store_list(store *s, const char *path, store_each_fn each, void *context,
                       pawl_error *err) PAWL_MUST_CHECK;
pawl_status store_stat_path(store *s, const char *path, store_stat *out, pawl_error *err)
    PAWL_MUST_CHECK;
pawl_status store_space_of(store *s, store_space *out, pawl_error *err) PAWL_MUST_CHECK;
/* A listing, or its names, as a sorted array in `memory`. Above `limit` names PAWL_ELIMIT. */
pawl_status store_listing(store *s, const char *path, size_t limit, arena *memory,
                          store_listed **items, size_t *count, pawl_error *err) PAWL_MUST_CHECK;
pawl_status store_names(store *s, const char *path, size_t limit, arena *memory, char ***names,
                        size_t *count, pawl_error *err) PAWL_MUST_CHECK;
/* A whole small file; PAWL_ELIMIT when it is larger than `limit`. */
pawl_status store_read_file(store *s, const char *path, size_t limit, buffer *out, pawl_error *err)
    PAWL_MUST_CHECK;
/* The same of an object store, and the version that was read: with PAWL_ENOTFOUND, an empty tag. */
pawl_status store_read_version(store *s, const char *path, size_t limit, buffer *out,
                               store_tag *version, pawl_error *err) PAWL_MUST_CHECK;
typedef enum store_publish_end {
    STORE_UNPUBLISHED,        /* for certain, now and later */
    STORE_MAYBE_PUBLISHED,    /* the rename failed: it may have been done, or be done later */
    STORE_PUBLISHED_UNSYNCED, /* readers see it; a power loss may undo it */
    STORE_PUBLISHED
} store_publish_end;
/* Publishes a small file atomically and durably: written to `temporary`, synced, renamed to `path`,
 * the directory synced; or put, where the traits say so. `temporary` is in the same directory;
 * writers that do not know of each other must not share it; a stale one is replaced. `still` [none]
 * is asked just before the rename; its failure gives up. *end is always set: after a failure `path`
 * is what it was if it is STORE_UNPUBLISHED. */
pawl_status store_publish(store *s, const char *path, const char *temporary, const void *data,
                          size_t n, pawl_status (*still)(void *context, pawl_error *err),
                          void *context, store_publish_end *end, pawl_error *err) PAWL_MUST_CHECK;
/* As store_publish, by `path`.tmp and without any sync: whole at every instant for readers; after a
 * power loss the old or the new file, or an empty one. */
pawl_status store_replace(store *s, const char *path, const void *data, size_t n, pawl_error *err)
    PAWL_MUST_CHECK;
pawl_status store_try_replace(store *s, const char *path, const void *data, size_t n,
                              store_publish_end *end, pawl_error *err) PAWL_MUST_CHECK;
/* A byte_source over an open file, which must outlive it. */
pawl_status store_source(store_file *f, byte_source *out, pawl_error *err) PAWL_MUST_CHECK;

/* ---- stores --------------------------------------------------------------------------------- */

/* A directory of a filesystem; must exist. Links inside it are never followed (O_NOFOLLOW). */
pawl_status store_posix(const char *root, store **out, pawl_error *err) PAWL_MUST_CHECK;
/* The same for reading what other programs put there: a link in the place of a file is followed,
 * wherever it leads, by opening for reading and by `stat`. Nothing else follows it, and a link on
 * the way to a name is not followed either. */
pawl_status store_posix_of_links(const char *root, store **out, pawl_error *err) PAWL_MUST_CHECK;
/* retry: repeats what failed for a reason that passes (EAGAIN, EINTR, ETIMEDOUT, ENETDOWN, ESTALE
 * of open), never a sync, at most `most_tries` times, sleeping first_delay_ns, then twice that...
 * Takes `inner` over, even when it fails. */
pawl_status store_retry_wrap(store *inner, const platform *os, int most_tries,
                             uint64_t first_delay_ns, store **out, pawl_error *err) PAWL_MUST_CHECK;
uint64_t store_retry_count(const store *s); /* so far; 0 without a retry store. Any thread */

#endif
