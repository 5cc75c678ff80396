/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base: what every layer stands on: errors, memory, buffers, the bounded cursor, checksums, and the
 * platform. The platform (clock, randomness, threads, process identity) is handed in from outside.
 *
 * May include common and include/pawl/. Threads: everything here is free of shared state.
 * Ownership: whatever a function returns as a non-const pointer is the caller's to free with
 * mem_free, unless its comment says otherwise.
 */
#ifndef BASE_BASE_H
#define BASE_BASE_H

#include "common/text.h"
#include "common/try.h"

#include <pawl/error.h>
#include <pawl/run.h>
#include <pawl/state.h>

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PRINTF_LIKE(text, first) __attribute__((__format__(__printf__, text, first)))
/* `unused`: some compilers do not count a cleanup as a use. */
#define CLEANUP(function)   __attribute__((__cleanup__(function), __unused__))
#define ARRAY_LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* ---- error: error.c ------------------------------------------------------------------------- */

/*
 * The leaf that finds a failure fills it (error_set or error_sys, then the parts it knows); each
 * level above prepends what it was attempting (error_wrap). Inside the library `err` is never NULL.
 * Text that is too long is cut at a character boundary and ends in "...". Every part is made one
 * line of harmless text (text_shown); only path and entry are kept as they are.
 *
 * An error that is kept aside, to be logged or returned later, is called `story` throughout; one
 * whose text nobody will see, `ignored`.
 */
struct pawl_error {
    pawl_status status;
    int system_errno;
    int64_t step; /* -1: none */
    bool has_range;
    uint64_t offset, length;
    char attempt[1024];
    char path[1024];
    char entry[512];
    char expected[512];
    char found[512];
    char system[160];
    char safe[512];
    char next[640];
    char rendered[6144]; /* for pawl_error_text and pawl_error_json */
};

#define ERROR_INIT ((struct pawl_error){.step = -1})

/* Clears every part, then sets status and attempt. Returns `status`. */
pawl_status error_set(pawl_error *err, pawl_status status, const char *format, ...)
    PRINTF_LIKE(3, 4);
/* The same from an errno: the category follows from it (ENOSPC, EDQUOT, EFBIG: ENOSPACE; EACCES,
 * EPERM, EROFS: EPERMISSION; ENOENT: ENOTFOUND; ENOMEM, EMFILE, ENFILE: ENOMEM; EEXIST: EBUSY;
 * ETIMEDOUT: ETIMEOUT; ENAMETOOLONG: ELIMIT; else EIO). System part: "No space left on device
 * (ENOSPC, errno 28)". */
pawl_status error_sys(pawl_error *err, int system_errno, const char *format, ...) PRINTF_LIKE(3, 4);
pawl_status error_nomem(pawl_error *err, size_t bytes);
/* Prepends "text: " to the attempt. */
void error_wrap(pawl_error *err, const char *format, ...) PRINTF_LIKE(2, 3);
void error_path(pawl_error *err, const char *format, ...) PRINTF_LIKE(2, 3);
void error_entry(pawl_error *err, const char *name);
void error_expected(pawl_error *err, const char *format, ...) PRINTF_LIKE(2, 3);
void error_found(pawl_error *err, const char *format, ...) PRINTF_LIKE(2, 3);
void error_safe(pawl_error *err, const char *format, ...) PRINTF_LIKE(2, 3);
void error_next(pawl_error *err, const char *format, ...) PRINTF_LIKE(2, 3);
void error_step(pawl_error *err, int64_t step);
void error_range(pawl_error *err, uint64_t offset, uint64_t length);
/* Every part, a line each ("attempt\n  path:  ...\n  next:  ..."), into err->rendered. */
const char *error_text(pawl_error *err);
const char *error_json(pawl_error *err);
/* What happened, to what, expected and found, in one line. */
void error_line(char *out, size_t size, const pawl_error *err);

/* ---- memory: memory.c ----------------------------------------------------------------------- */

/* NULL when out of memory or when the product overflows. A zero size gives a pointer to free. */
void *mem_alloc(size_t bytes);
void *mem_calloc(size_t count, size_t item_bytes);
void *mem_aligned(size_t alignment, size_t bytes);
void *mem_pages(size_t bytes); /* page-aligned; huge pages where the system gives them */
/* What is in it is of no worth: until it is written to again, the system may give it to others. */
void mem_reclaimable(void *pages, size_t bytes);
void mem_populate(void *memory, size_t bytes); /* gets its pages at once; what is in them stays */
char *mem_strdup(const char *text);
void *mem_dup(const void *data, size_t bytes);
/* For copies that are not used soon. Another thread, or a device, may read them only after
 * mem_copies_end on the thread that made them. */
void mem_copy_past_caches(void *to, const void *from, size_t n);
void mem_copies_end(void);
void mem_free(const void *memory);
void mem_free_pointer(void *pointer_to_pointer); /* for CLEANUP */
#define AUTOFREE CLEANUP(mem_free_pointer)

/* Makes room for `need` items in the array `*items` (may move it); doubles. */
pawl_status vec_reserve(void *items_pointer, size_t *capacity, size_t need, size_t item_bytes,
                        pawl_error *err) PAWL_MUST_CHECK;

/* Memory that is freed all at once; allocations are 8-byte aligned, and not cleared. */
typedef struct arena {
    struct arena_block *blocks;
} arena;
void *arena_alloc(arena *a, size_t bytes);
void *arena_take(arena *a, size_t bytes, pawl_error *err); /* the same, and what failed in `err` */
void arena_trim(arena *a, const void *last, size_t bytes); /* of the last one no more is needed */
char *arena_strdup(arena *a, const char *text);
char *arena_printf(arena *a, const char *format, ...) PRINTF_LIKE(2, 3);
void arena_free(arena *a);

/* ---- buffer: buffer.c ----------------------------------------------------------------------- */

/* Growing bytes; always followed by a NUL that is not counted, so text can be read in place. */
typedef struct buffer {
    uint8_t *data;
    size_t size, capacity;
} buffer;
void buffer_free(buffer *b);
pawl_status buffer_append(buffer *b, const void *data, size_t n, pawl_error *err) PAWL_MUST_CHECK;
/* Room for n more bytes, which the caller puts behind `size` itself, followed by a NUL. */
pawl_status buffer_reserve(buffer *b, size_t n, pawl_error *err) PAWL_MUST_CHECK;
pawl_status buffer_printf(buffer *b, pawl_error *err, const char *format, ...) PRINTF_LIKE(3, 4)
    PAWL_MUST_CHECK;
pawl_status buffer_decimal(buffer *b, int64_t v, pawl_error *err) PAWL_MUST_CHECK;
/* A JSON string with its quotes. PAWL_EUSAGE when the `n` bytes are not UTF-8, or have a NUL: what
 * is read back is what was written. */
pawl_status buffer_json_string(buffer *b, const char *text, size_t n, pawl_error *err)
    PAWL_MUST_CHECK;
/* The same for text that is never read back: each byte that is not UTF-8 becomes U+FFFD. */
pawl_status buffer_json_shown(buffer *b, const char *text, size_t n, pawl_error *err)
    PAWL_MUST_CHECK;
/* As text_double writes it; NaN and infinities as strings, for JSON has no such numbers. */
pawl_status buffer_json_number(buffer *b, double v, pawl_error *err) PAWL_MUST_CHECK;
pawl_status buffer_u32le(buffer *b, uint32_t v, pawl_error *err) PAWL_MUST_CHECK;
pawl_status buffer_u64le(buffer *b, uint64_t v, pawl_error *err) PAWL_MUST_CHECK;
pawl_status buffer_varint(buffer *b, uint64_t v, pawl_error *err) PAWL_MUST_CHECK;
/* How many, as a varint, and the bytes. */
pawl_status buffer_varint_bytes(buffer *b, const void *data, size_t n, pawl_error *err)
    PAWL_MUST_CHECK;

/* ---- cursor: cursor.c ----------------------------------------------------------------------- */

/*
 * The one way to parse bytes from outside. Every read is bounded; a failure is PAWL_EDAMAGED with
 * the byte position in the file (`base` + `at`), what was wanted and how much was left.
 */
typedef struct cursor {
    const uint8_t *data;
    size_t size, at;
    uint64_t base;    /* position of data[0] in its file */
    const char *what; /* "index block", ... for messages */
} cursor;
cursor cursor_of(const void *data, size_t size, uint64_t base, const char *what);
size_t cursor_left(const cursor *c);
pawl_status cursor_bytes(cursor *c, size_t n, const uint8_t **out, pawl_error *err) PAWL_MUST_CHECK;
pawl_status cursor_u8(cursor *c, uint8_t *out, pawl_error *err) PAWL_MUST_CHECK;
pawl_status cursor_u32le(cursor *c, uint32_t *out, pawl_error *err) PAWL_MUST_CHECK;
pawl_status cursor_u64le(cursor *c, uint64_t *out, pawl_error *err) PAWL_MUST_CHECK;
/* LEB128; at most 5 or 10 bytes, and no value beyond 32 or 64 bits. */
pawl_status cursor_varint32(cursor *c, uint32_t *out, pawl_error *err) PAWL_MUST_CHECK;
pawl_status cursor_varint64(cursor *c, uint64_t *out, pawl_error *err) PAWL_MUST_CHECK;

/* ---- checksum: checksum.c ------------------------------------------------------------------- */

/* CRC32C (Castagnoli, RFC 3720 appendix B.4: "123456789" is 0xe3069283), by ISA-L. `crc` is 0 or
 * the result so far. */
uint32_t crc32c(uint32_t crc, const void *data, size_t n);
/* Copies and checksums in one pass: what is checksummed is the copy, whatever happens to the source
 * meanwhile. Long copies go past the caches where the processor can do that. */
uint32_t crc32c_copy(uint32_t crc, void *to, const void *from, size_t n);
/* The CRC32 of IEEE 802.3, as zip files have it ("123456789" is 0xcbf43926). */
uint32_t crc32_zip(uint32_t crc, const void *data, size_t n);
/* LevelDB's masking: rotate right by 15, add 0xa282ead8. */
uint32_t crc32c_mask(uint32_t crc);
uint32_t crc32c_unmask(uint32_t masked);

/* ---- names: names.c ------------------------------------------------------------------------- */

#define STATUS_LAST PAWL_EPEER
/* names.c defines pawl_version, pawl_status_name, pawl_role_name and pawl_kind_name. */
bool role_from_name(const char *name, pawl_role *out);
bool kind_from_name(const char *name, pawl_kind *out);
/* The names that entries may have (S15): UTF-8 paths, no empty, "." or ".." component, no leading
 * '/', no control characters, at most PAWL_MAX_NAME_BYTES. `why` (may be NULL) gets a static
 * reason. */
bool entry_name_valid(const char *name, size_t n, const char **why);
/* What a name of n bytes that is not valid is refused with: PAWL_ELIMIT where it is too long. */
pawl_status entry_name_refusal(size_t n);

/* ---- bytes in and out, for layers that do not know the store -------------------------------- */

typedef struct byte_source {
    void *context;
    uint64_t size;
    /* Reads exactly n bytes or fails. */
    pawl_status (*read_at)(void *context, uint64_t offset, void *to, size_t n, pawl_error *err);
} byte_source;

typedef struct byte_sink {
    void *context;
    /* Appends exactly n bytes or fails. */
    pawl_status (*write)(void *context, const void *data, size_t n, pawl_error *err);
} byte_sink;

/* A source over memory, which must stay. */
byte_source byte_source_memory(const buffer *bytes);
byte_sink byte_sink_buffer(buffer *bytes);

/* ---- log: log.c ----------------------------------------------------------------------------- */

void log_write(const pawl_log *log, pawl_log_level level, const char *format, ...)
    PRINTF_LIKE(3, 4);
bool log_wants(const pawl_log *log, pawl_log_level level);

/* ---- platform: platform.c (the real one), tests/lib/simulated_platform.c -------------------- */

/* Who a process is, so that another can tell whether it is still there. */
typedef struct process_identity {
    char host[256];
    char boot_id[64];        /* of the kernel's boot: a pid of an earlier boot is dead */
    char pid_namespace[64];  /* pids of another namespace cannot be judged */
    char time_namespace[64]; /* another one shows other start_ticks */
    int64_t pid;
    uint64_t start_ticks; /* of the process: a reused pid is another process */
} process_identity;

/* To find out in a forked child that something was made by its parent: the child has a copy of the
 * memory, but none of the threads, and a lock that another thread held stays locked. */
typedef int64_t process_id;
process_id process_self(void);
bool process_is_self(process_id process);
/* DEAD and ALIVE are said only with proof. */
typedef enum liveness { PROCESS_DEAD, PROCESS_ALIVE, PROCESS_UNKNOWN } liveness;

typedef struct platform_thread platform_thread;

/* How the library's own threads behave towards the rest of the machine. */
typedef struct thread_tuning {
    pawl_io_priority io_priority;
    const int *cpus; /* the processors they may run on, by number [any] */
    size_t cpu_count;
} thread_tuning;

/* Clock, randomness, threads and identity come in through this table, so that a test can run a
 * whole job in one thread, step by step, and replay it from a seed. */
typedef struct platform {
    void *context;
    uint64_t (*monotonic_ns)(void *context);
    int64_t (*unix_time_ns)(void *context); /* to be shown to people; no decision depends on it */
    void (*sleep_ns)(void *context, uint64_t ns);
    pawl_status (*random_bytes)(void *context, void *to, size_t n, pawl_error *err);
    /* A platform without threads runs `body` to its end before it returns (`concurrent` false). */
    bool concurrent;
    pawl_status (*thread_start)(void *context, void (*body)(void *), void *argument,
                                platform_thread **thread, pawl_error *err);
    void (*thread_join)(void *context, platform_thread *thread);
    void (*thread_abandon)(void *context, platform_thread *thread); /* let it run on; never join */
    /* For the calling thread. What the system does not grant is left out; `why` says what. */
    bool (*thread_tune)(void *context, const thread_tuning *tuning, char why[160]);
    pawl_status (*identity)(void *context, process_identity *out, pawl_error *err);
    liveness (*process_alive)(void *context, const process_identity *who);
    /* May a message advise the user to kill it? Only if it is alive for certain, belongs to this
     * user, and is no ancestor of this process; else `why` says which, or is "". NULL: never. */
    bool (*process_killable)(void *context, const process_identity *who, char why[96]);
    /* The bytes of memory that this process may have at most; UINT64_MAX, or NULL: not known. */
    uint64_t (*memory_limit)(void *context);
} platform;

const platform *platform_system(void);

/* Of any platform. */
#define NANOSECONDS 1e9
uint64_t platform_now_ns(const platform *os); /* monotonic */
double platform_since_s(const platform *os, uint64_t begun_ns);
/* The instant that is `seconds` from now: now for 0 and less, at most a century ahead. */
uint64_t platform_deadline_ns(const platform *os, double seconds);
bool platform_late(const platform *os, uint64_t deadline_ns);
/* At most 16 random bytes as hexadecimal digits, two for each, and a NUL. */
pawl_status platform_random_hex(const platform *os, char *out, size_t bytes, pawl_error *err)
    PAWL_MUST_CHECK;

/* The number that ioprio_set(2) and io_uring take; 0: the process's own priority. */
uint16_t io_priority_number(pawl_io_priority priority);

/* Mutex and condition with monotonic deadlines: sync.c. No global state; init can fail. */
#include "base/sync.h"

/* What a caller is asked while a call takes long. */
#include "base/interrupt.h"

#endif
