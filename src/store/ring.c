/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/ring: an io_uring that does the writes of one queue.
 *
 * One eventfd wakes the waiting thread: the kernel adds to it for each operation that ended, other
 * threads add to it in store_ring_wake. So waiting is a poll, which has deadlines on every kernel.
 */
#include "store/ring.h"

#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define NS_PER_S         1000000000U
#define PROBE_NS         (5 * (uint64_t)NS_PER_S) /* a ring that is slower is not used */
#define FILE_SLOTS       16
#define MOST_REGIONS     ((size_t)1 << 14) /* that the kernel registers */
#define DISABLED_SETTING "/proc/sys/kernel/io_uring_disabled"

/* A registered descriptor: the kernel need not look it up for each write. */
typedef struct file_slot {
    const store_file *file; /* NULL: free */
    int fd;
} file_slot;

struct store_ring {
    struct io_uring uring;
    const platform *os;
    const thread_tuning *tuning; /* NULL: none */
    int event;
    bool cpus_set;
    uint8_t *memory; /* in regions of region_bytes, which may be registered; NULL: none is */
    size_t memory_bytes;
    size_t region_bytes;
    bool *registered;    /* of each region */
    bool memory_refused; /* no further region is registered */
    bool slots_registered;
    file_slot slots[FILE_SLOTS];
};

/* ---- why there is none ---------------------------------------------------------------------- */

/* '0' where everyone may use io_uring, or the kernel has no such setting. */
static char disabled_setting(void) {
    char setting = '0';
    FILE *file = fopen(DISABLED_SETTING, "re");
    if (file != NULL) {
        if (fread(&setting, 1, 1, file) != 1) {
            setting = '0';
        }
        (void)fclose(file);
    }
    return setting;
}

static void explain_forbidden(pawl_error *err) {
    char setting = disabled_setting();
    if (setting != '0') {
        error_found(err, "a kernel that %s (%s is %c)",
                    setting == '1' ? "reserves io_uring for a group" : "has io_uring switched off",
                    DISABLED_SETTING, setting);
        error_next(err, "use threads (PAWL_IO_AUTO does), or set kernel.io_uring_disabled to 0");
    } else {
        error_found(err, "a rule of this container or service that forbids io_uring");
        error_next(err, "use threads (PAWL_IO_AUTO does), or allow io_uring_setup, io_uring_enter "
                        "and io_uring_register in its seccomp profile");
    }
}

static pawl_status no_ring(int system_errno, pawl_error *err) {
    error_sys(err, system_errno, "cannot use io_uring");
    err->status = PAWL_EUNSUPPORTED;
    switch (system_errno) {
    case EPERM:
    case EACCES:
        explain_forbidden(err);
        break;
    case ENOMEM:
        error_next(err, "use threads (PAWL_IO_AUTO does), or raise the limit on locked memory "
                        "(ulimit -l)");
        break;
    default:
        error_expected(err, "a kernel whose io_uring writes files (Linux 5.6 or later)");
        error_next(err, "use threads (PAWL_IO_AUTO does)");
        break;
    }
    return err->status;
}

/* ---- waiting -------------------------------------------------------------------------------- */

void store_ring_wake(store_ring *r) {
    const uint64_t one = 1;
    ssize_t put;
    do {
        put = write(r->event, &one, sizeof(one)); /* EAGAIN: so full that it wakes, too */
    } while (put < 0 && errno == EINTR);
}

static void clear_event(const store_ring *r) {
    uint64_t count;
    ssize_t got;
    do {
        got = read(r->event, &count, sizeof(count));
    } while (got < 0 && errno == EINTR);
}

/* False when the deadline has passed. */
static bool time_left(const store_ring *r, uint64_t deadline_ns, struct timespec *left) {
    uint64_t now = platform_now_ns(r->os);
    uint64_t ns = deadline_ns > now ? deadline_ns - now : 0;
    *left = (struct timespec){.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
    return ns > 0;
}

bool store_ring_wait(store_ring *r, uint64_t deadline_ns) {
    struct pollfd event = {.fd = r->event, .events = POLLIN};
    struct timespec left;
    bool forever = deadline_ns == UINT64_MAX;
    while (deadline_ns > 0) {
        bool in_time = forever || time_left(r, deadline_ns, &left);
        if (ppoll(&event, 1, forever ? NULL : &left, NULL) > 0) {
            clear_event(r);
            return true;
        }
        if (!in_time) {
            break;
        }
    }
    return false;
}

/* ---- setting up ----------------------------------------------------------------------------- */

/* Writes to the eventfd through the ring. 0 or an errno. */
static int probe_ring(store_ring *r) {
    static const uint64_t one = 1;
    struct io_uring_cqe *cqe = NULL;
    struct io_uring_sqe *sqe = io_uring_get_sqe(&r->uring);
    io_uring_prep_write(sqe, r->event, &one, sizeof(one), 0);
    int submitted = io_uring_submit(&r->uring);
    if (submitted != 1) {
        return submitted < 0 ? -submitted : EAGAIN;
    }
    uint64_t deadline_ns = platform_now_ns(r->os) + PROBE_NS;
    while (io_uring_peek_cqe(&r->uring, &cqe) != 0) {
        if (!store_ring_wait(r, deadline_ns)) {
            return ETIMEDOUT;
        }
    }
    int moved = cqe->res;
    io_uring_cqe_seen(&r->uring, cqe);
    if (moved < 0) {
        return -moved;
    }
    return moved == sizeof(one) ? 0 : EIO;
}

/* Advises the kernel about the whole pages of the registered memory. */
static void advise_memory(const store_ring *r, int advice) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = ((uintptr_t)r->memory + page - 1) / page * page;
    uintptr_t end = ((uintptr_t)r->memory + r->memory_bytes) / page * page;
    if (end > first) {
        (void)madvise((void *)first, end - first, advice);
    }
}

/* Makes room for regions, of which none is registered yet. */
static bool register_no_regions(store_ring *r, size_t count) {
    AUTOFREE struct iovec *none = mem_calloc(count, sizeof(*none));
    r->registered = mem_calloc(count, sizeof(*r->registered));
    return none != NULL && r->registered != NULL &&
           io_uring_register_buffers(&r->uring, none, (unsigned)count) == 0;
}

static void forget_memory(store_ring *r) {
    mem_free(r->registered);
    r->registered = NULL;
    r->memory = NULL;
}

/*
 * Registered memory spares the kernel looking up its pages for each write. A region is registered
 * before the first write from it: all of its pages are there then, and no write waits for the
 * others. They count as locked memory: where the limit does not allow that, the ring works without.
 *
 * A fork would copy all locked pages at once, for each child. Children have no use for them, so
 * they do not get them.
 */
static void prepare_memory(store_ring *r, const store_queue_options *options) {
    size_t region = options->region_bytes;
    size_t count = region > 0 ? (options->memory_bytes + region - 1) / region : 0;
    if (options->memory == NULL || count == 0 || count > MOST_REGIONS) {
        return;
    }
    if (!register_no_regions(r, count)) {
        forget_memory(r);
        return;
    }
    r->memory = options->memory;
    r->memory_bytes = options->memory_bytes;
    r->region_bytes = region;
    advise_memory(r, MADV_DONTFORK);
}

static bool register_region(store_ring *r, size_t i) {
    size_t left = r->memory_bytes - i * r->region_bytes;
    struct iovec region = {.iov_base = r->memory + i * r->region_bytes,
                           .iov_len = left < r->region_bytes ? left : r->region_bytes};
    const __u64 no_tag = 0;
    return io_uring_register_buffers_update_tag(&r->uring, (unsigned)i, &region, &no_tag, 1) == 1;
}

static void register_slots(store_ring *r) {
    int none[FILE_SLOTS];
    for (size_t i = 0; i < FILE_SLOTS; i++) {
        none[i] = -1;
    }
    r->slots_registered = io_uring_register_files(&r->uring, none, FILE_SLOTS) == 0;
}

static int set_up_event(store_ring *r) {
    r->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (r->event < 0) {
        return errno;
    }
    int failed = -io_uring_register_eventfd(&r->uring, r->event);
    if (failed == 0) {
        failed = probe_ring(r);
    }
    if (failed != 0) {
        close(r->event);
    }
    return failed;
}

pawl_status store_ring_new(const store_queue_options *options, store_ring **out, pawl_error *err) {
    AUTOFREE store_ring *r = mem_calloc(1, sizeof(*r));
    if (r == NULL) {
        return error_nomem(err, sizeof(*r));
    }
    r->os = options->platform;
    r->tuning = options->tuning;
    int failed = -io_uring_queue_init((unsigned)options->depth + 1, &r->uring, 0);
    if (failed != 0) {
        return no_ring(failed, err);
    }
    failed = set_up_event(r);
    if (failed != 0) {
        io_uring_queue_exit(&r->uring);
        return no_ring(failed, err);
    }
    prepare_memory(r, options);
    register_slots(r);
    *out = r;
    r = NULL;
    return PAWL_OK;
}

/* A forked child has the ring open, too: what is registered would stay in use there. */
static void unregister_all(store_ring *r) {
    if (r->memory != NULL) {
        (void)io_uring_unregister_buffers(&r->uring);
        advise_memory(r, MADV_DOFORK);
        forget_memory(r);
    }
    if (r->slots_registered) {
        (void)io_uring_unregister_files(&r->uring);
    }
}

void store_ring_free(store_ring *r) {
    if (r != NULL) {
        unregister_all(r);
        io_uring_queue_exit(&r->uring);
        close(r->event);
        mem_free(r);
    }
}

/* What would block is done by threads of the kernel, which belong to the thread that submits and
 * are there after its first write. A refusal is ignored: the engine's own thread is refused the
 * same, and reports it. */
static void set_ring_cpus(store_ring *r) {
    const thread_tuning *t = r->tuning;
    cpu_set_t cpus;
    r->cpus_set = true;
    if (t == NULL || t->cpu_count == 0) {
        return;
    }
    CPU_ZERO(&cpus);
    for (size_t i = 0; i < t->cpu_count; i++) {
        if (t->cpus[i] >= 0 && t->cpus[i] < CPU_SETSIZE) {
            CPU_SET((size_t)t->cpus[i], &cpus);
        }
    }
    (void)io_uring_register_iowq_aff(&r->uring, sizeof(cpus), &cpus);
}

/* ---- files ---------------------------------------------------------------------------------- */

static int find_file_slot(const store_ring *r, const store_file *f, int fd) {
    for (int i = 0; i < FILE_SLOTS; i++) {
        if (r->slots[i].file == f && (f == NULL || r->slots[i].fd == fd)) {
            return i;
        }
    }
    return -1;
}

/* The slot of this descriptor; -1: it has none. */
static int slot_of(store_ring *r, const store_file *f, int fd) {
    if (!r->slots_registered) {
        return -1;
    }
    int slot = find_file_slot(r, f, fd);
    if (slot >= 0) {
        return slot;
    }
    slot = find_file_slot(r, NULL, -1);
    if (slot >= 0 && io_uring_register_files_update(&r->uring, (unsigned)slot, &fd, 1) == 1) {
        r->slots[slot] = (file_slot){.file = f, .fd = fd};
        return slot;
    }
    return -1;
}

void store_ring_forget(store_ring *r, const store_file *f) {
    int none = -1;
    for (unsigned i = 0; i < FILE_SLOTS; i++) {
        if (r->slots[i].file == f) {
            (void)io_uring_register_files_update(&r->uring, i, &none, 1);
            r->slots[i] = (file_slot){.file = NULL};
        }
    }
}

/* ---- writing -------------------------------------------------------------------------------- */

static bool try_to_register(store_ring *r, size_t region) {
    if (!r->registered[region] && !r->memory_refused) {
        r->registered[region] = register_region(r, region);
        r->memory_refused = !r->registered[region];
    }
    return r->registered[region];
}

/* The registered region that n bytes lie in; -1: none. */
static int region_of(store_ring *r, const void *memory, size_t n) {
    uintptr_t start = (uintptr_t)r->memory, at = (uintptr_t)memory;
    if (r->memory == NULL || at < start || at - start + n > r->memory_bytes) {
        return -1;
    }
    size_t first = (at - start) / r->region_bytes, last = (at - start + n - 1) / r->region_bytes;
    return first == last && try_to_register(r, first) ? (int)first : -1;
}

static void prepare_write(store_ring *r, struct io_uring_sqe *sqe, store_io *io, int fd, size_t n) {
    int region = region_of(r, io->memory, n);
    int slot = slot_of(r, io->file, fd);
    if (region >= 0) {
        io_uring_prep_write_fixed(sqe, slot >= 0 ? slot : fd, io->memory, (unsigned)n, io->at,
                                  region);
    } else {
        io_uring_prep_write(sqe, slot >= 0 ? slot : fd, io->memory, (unsigned)n, io->at);
    }
    if (slot >= 0) {
        sqe->flags |= IOSQE_FIXED_FILE;
    }
    sqe->ioprio = r->tuning != NULL ? io_priority_number(r->tuning->io_priority) : 0;
    io_uring_sqe_set_data(sqe, io);
}

pawl_status store_ring_write(store_ring *r, store_io *io, int fd, size_t n, pawl_error *err) {
    struct io_uring_sqe *sqe = io_uring_get_sqe(&r->uring);
    if (sqe == NULL) {
        return error_set(err, PAWL_EUNSUPPORTED, "the ring is full");
    }
    prepare_write(r, sqe, io, fd, n);
    int submitted = io_uring_submit(&r->uring);
    if (io_uring_sq_ready(&r->uring) > 0) {
        /* Not taken yet: it would go with the next write. As a no-op it does no harm then. */
        io_uring_prep_nop(sqe);
        io_uring_sqe_set_data(sqe, NULL);
        return error_sys(err, submitted < 0 ? -submitted : EAGAIN, "cannot write by the ring");
    }
    if (!r->cpus_set) {
        set_ring_cpus(r);
    }
    return PAWL_OK;
}

store_io *store_ring_reap(store_ring *r) {
    struct io_uring_cqe *cqe = NULL;
    while (io_uring_peek_cqe(&r->uring, &cqe) == 0) {
        store_io *io = io_uring_cqe_get_data(cqe);
        int moved = cqe->res;
        io_uring_cqe_seen(&r->uring, cqe);
        if (io != NULL) {
            io->moved = moved > 0 ? (size_t)moved : 0;
            return io;
        }
    }
    return NULL;
}
