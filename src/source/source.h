/* SPDX-License-Identifier: Apache-2.0 */
/*
 * source: what an open checkpoint is read from: its entries in order of name, the files that hold
 * their bytes, and what is known of both. A step of a run is one (checkpoint/native.h), weights of
 * other tools are others (foreign/foreign.h). Nobody but src/checkpoint reads from a source.
 *
 * A piece of an entry is a range of one of the source's files. The bytes of a file are those of a
 * file of the storage, or what a function of the source makes of one: `open` returns a store_file,
 * and only its `read` and `size` are used. So whatever lies otherwise than pawl's own pieces, which
 * are little-endian, row-major, uncompressed and aligned to their elements, is a file that the
 * source decodes.
 *
 * Nothing that a source says is trusted: src/checkpoint checks each entry (entry_check.c), that
 * they come in order, and that files have the sizes that were named.
 *
 * May include base, store, format. Threads: one at a time; but `file` and `open` may be called by
 * several at once, and so may the store_files that `open` returned to each. A source that has
 * checksums is asked for them by several threads, under a lock.
 * Ownership: a checkpoint owns its source; a source owns its store where `own_store` says so.
 */
#ifndef SOURCE_SOURCE_H
#define SOURCE_SOURCE_H

#include "base/base.h"
#include "format/format.h"
#include "store/store.h"

#include <pawl/checkpoint.h>

struct source;

typedef struct source_file {
    const char *name; /* in the source's directory; several may have the same */
    uint64_t bytes;
} source_file;

/* A walk; an implementation embeds it as its first member. */
typedef struct source_walk {
    struct source *of;
} source_walk;

/* ---- what was read already: parts.c -------------------------------------------------------- */

/* A part of a file, and the sum of its bytes (source.sum). */
typedef struct source_part {
    uint64_t at, bytes;
    uint32_t file, sum;
} source_part;

/* Parts that were read. Any thread may add some and look for some. */
typedef struct source_parts source_parts;
pawl_status source_parts_new(source_parts **out, pawl_error *err) PAWL_MUST_CHECK;
void source_parts_free(source_parts *p); /* NULL is fine */
/* Notes bytes of a file of the source, as `open` numbers it; of others nothing. */
void source_parts_add(source_parts *p, struct source *s, uint32_t file, uint64_t at,
                      const void *bytes, size_t n);
/* Notes that bytes from `at` on are read by who makes others of them: their sum is not known. */
void source_parts_mark(source_parts *p, uint32_t file, uint64_t at);
/* Is there a part that begins at `at`, and ends before or at `end`? Else *out is as much from `at`
 * on as was not read. `p` NULL: nothing was. */
bool source_parts_find(source_parts *p, uint32_t file, uint64_t at, uint64_t end, source_part *out);
/* May any of these bytes have been read? `p` NULL: they may. */
bool source_parts_touch(source_parts *p, uint32_t file, uint64_t at, uint64_t end);

/* ---- the interface -------------------------------------------------------------------------- */

/* What a source reports to while it verifies itself. */
typedef struct source_verifier {
    void *context;
    /* Only what these are of is compared, and they need not be read again. NULL: all is. */
    source_parts *parts;
    /* A problem of that file, and of that entry unless it is NULL. */
    void (*problem)(void *context, const char *file, const char *entry, pawl_error *story);
    /* Called throughout what takes long, with the bytes just read; its failure ends it all. */
    pawl_status (*progress)(void *context, uint64_t bytes, pawl_error *err);
    uint64_t entries; /* a source that is `checked` sets it: how many there are */
} source_verifier;

/* An operation marked optional may be NULL. What they return of an entry is not checked, unless the
 * source says that it is `checked`. */
typedef struct source_ops {
    /* Entries whose name begins with `prefix`, from the first one on whose name is not less than
     * `from`; ascending by name, bytewise. */
    pawl_status (*walk)(struct source *s, const char *prefix, const char *from, source_walk **out,
                        pawl_error *err);
    /* *out is NULL after the last one; else it lives until the next call. */
    pawl_status (*next)(source_walk *w, const record_entry **out, pawl_error *err);
    void (*end)(source_walk *w);
    /* What *out points to lives in `memory`, or as long as the source. */
    pawl_status (*find)(struct source *s, const char *name, arena *memory, record_entry *out,
                        bool *found, pawl_error *err);
    /* Of a file below `all_files`. */
    source_file (*file)(struct source *s, uint32_t number);
    pawl_status (*open)(struct source *s, uint32_t number, store_mode mode, store_file **out,
                        pawl_error *err);
    /* Optional: it does. Where does a byte lie in the files of the storage? False: it is made of
     * others. */
    bool (*in_file)(struct source *s, uint32_t *file, uint64_t *at);
    /* Optional: none. The CRC32C of blocks [first, first + n) of a file, of FORMAT_BLOCK_BYTES. */
    pawl_status (*checksums)(struct source *s, uint32_t file, uint64_t first, size_t n,
                             uint32_t *out, pawl_error *err);
    /* The same once more, for another thread: it borrows the store, and ends before this one. A
     * failure where the files are not those that were opened. */
    pawl_status (*open_again)(struct source *s, struct source **out, pawl_error *err);
    /* Optional: always. Asked before reading: are the files still those that were opened? */
    pawl_status (*held)(struct source *s, pawl_error *err);
    /* Optional: never. Is this file gone because the checkpoint was removed, or saved again? If so,
     * *err says it, PAWL_EBUSY. */
    bool (*lost)(struct source *s, const char *file, pawl_error *err);
    /* Optional: nothing. Adds to an error what else is safe. */
    void (*say_safe)(struct source *s, pawl_error *err);
    /* An entry could not be read, or is refused: adds the file that describes it. Returns what the
     * caller is to return. */
    pawl_status (*entry_failed)(struct source *s, pawl_status status, pawl_error *err);
    /* Checks what describes the entries: manifest and index, or headers. A failure is one of the
     * verification itself; problems are reported. */
    pawl_status (*verify)(struct source *s, source_verifier *v, pawl_error *err);
    /* Optional: nothing. What only this source has: of an info with defaults. */
    void (*describe)(struct source *s, pawl_checkpoint_info *info);
    /* Of a source without a step: a sum that differs where what is read of it may differ. */
    pawl_status (*identity)(struct source *s, uint32_t *sum, pawl_error *err);
    void (*destroy)(struct source *s);
} source_ops;

/* An implementation embeds this as its first member. */
struct source {
    const source_ops *ops;
    const char *format; /* "pawl", "safetensors" */
    store *store;       /* that the files are in */
    bool own_store;
    const char *directory;  /* of the files, in the store; "" is its root */
    const char *path;       /* absolute, of what was opened */
    const char *label;      /* for sentences: "step 300", "model.safetensors" */
    const char *index_name; /* the file that has entries and checksums; NULL: each file its own */
    int64_t step;           /* negative: none */
    int world_size;         /* 0: there are no ranks */
    uint64_t entries;
    uint64_t described_bytes;  /* what `verify` reads */
    uint64_t described_files;  /* which are not among `files` */
    uint32_t files, all_files; /* from `files` on they are made of those before: no files more */
    /* Entries come in order, out of records that the source checked itself; `verify` checks all. */
    bool checked;
    bool sums_apart; /* `verify` compares checksums of entries, which reading does not */
    /* What these are of bytes in files, 0 or the sum so far first. NULL: of nothing else that is
     * read. */
    uint32_t (*sum)(uint32_t so_far, const void *bytes, size_t n);
    source_parts *parts;    /* NULL: what is read is not noted */
    const char *unverified; /* what nothing can show: a clause; NULL: all has checksums */
    pawl_read_stats reads;  /* so far; those of files are counted by who reads them */
    arena memory;           /* of its texts */
};

void source_destroy(struct source *s); /* NULL is fine */
/* Where reading compares no checksums of entries: notes what is read from now on. sums.c */
pawl_status source_note_begin(struct source *of, pawl_error *err) PAWL_MUST_CHECK;
void source_note(struct source *of, uint32_t file, uint64_t at, const void *bytes, size_t n);
/* Compares the checksums of what was noted, and reads what else they are of; the first that differs
 * is the error. `stop` as of pawl_verify_options. */
pawl_status source_check_sums(struct source *of, int (*stop)(void *context), void *context,
                              pawl_error *err) PAWL_MUST_CHECK;
void source_note_end(struct source *of); /* nothing is noted any more */
/* Makes "file" or "directory/file" of a source's file, as a path in its store. */
void source_file_path(struct source *s, uint32_t number, char out[STORE_MAX_PATH]);

#endif
