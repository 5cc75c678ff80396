/* SPDX-License-Identifier: Apache-2.0 */
/* The real platform: Linux's clocks, randomness, threads and process identity. */
#include "base/base.h"
#include "base/kernel.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S       1000000000
#define STAT_BYTES     1024
#define MOST_ANCESTORS 64
#define STAT_STATE     3 /* fields of /proc/PID/stat, counted from 1 as proc(5) does */
#define STAT_PARENT    4
#define STAT_THREADS   20
#define STAT_STARTTIME 22

/* ---- clock and randomness ------------------------------------------------------------------- */

static uint64_t system_monotonic_ns(void *context) {
    (void)context;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static int64_t system_unix_time_ns(void *context) {
    (void)context;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

static void system_sleep_ns(void *context, uint64_t ns) {
    uint64_t end;
    if (add_overflows(system_monotonic_ns(context), ns, &end) || end > INT64_MAX) {
        end = INT64_MAX;
    }
    struct timespec until = {.tv_sec = (time_t)(end / NS_PER_S), .tv_nsec = (long)(end % NS_PER_S)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
    }
}

static pawl_status system_random_bytes(void *context, void *to, size_t n, pawl_error *err) {
    (void)context;
    uint8_t *at = to;
    while (n > 0) {
        ssize_t got = getrandom(at, n, 0);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return error_sys(err, errno, "cannot get random bytes from the system");
        }
        at += got;
        n -= (size_t)got;
    }
    return PAWL_OK;
}

/* ---- the same of any platform --------------------------------------------------------------- */

uint64_t platform_now_ns(const platform *os) {
    return os->monotonic_ns(os->context);
}

double platform_since_s(const platform *os, uint64_t begun_ns) {
    return (double)(platform_now_ns(os) - begun_ns) / NANOSECONDS;
}

bool platform_late(const platform *os, uint64_t deadline_ns) {
    return platform_now_ns(os) >= deadline_ns;
}

uint64_t platform_deadline_ns(const platform *os, double seconds) {
    const double most_s = 3e9; /* about a century, far from where nanoseconds overflow */
    uint64_t now_ns = platform_now_ns(os);
    if (!(seconds > 0)) {
        return now_ns;
    }
    return now_ns + (uint64_t)((seconds < most_s ? seconds : most_s) * NANOSECONDS);
}

pawl_status platform_random_hex(const platform *os, char *out, size_t bytes, pawl_error *err) {
    uint8_t random[16];
    assert(bytes <= sizeof(random));
    TRY(os->random_bytes(os->context, random, bytes, err));
    for (size_t i = 0; i < bytes; i++) {
        (void)snprintf(out + 2 * i, 3, "%02x", random[i]);
    }
    return PAWL_OK;
}

/* ---- threads -------------------------------------------------------------------------------- */

struct platform_thread {
    pthread_t id;
};

/* Owned by the new thread: its handle may be freed (abandoned) before it has begun. */
typedef struct thread_start {
    void (*body)(void *);
    void *argument;
} thread_start;

static void *thread_entry(void *argument) {
    thread_start start = *(thread_start *)argument;
    mem_free(argument);
    start.body(start.argument);
    return NULL;
}

/* The program's signals are for its own threads; a thread of ours gets only those that it causes
 * itself, as SIGSEGV. */
static void block_signals(sigset_t *before) {
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPROF};
    sigset_t blocked;
    sigfillset(&blocked);
    for (size_t i = 0; i < ARRAY_LENGTH(own); i++) {
        sigdelset(&blocked, own[i]);
    }
    pthread_sigmask(SIG_BLOCK, &blocked, before);
}

static pawl_status system_thread_start(void *context, void (*body)(void *), void *argument,
                                       platform_thread **thread, pawl_error *err) {
    (void)context;
    platform_thread *handle = mem_alloc(sizeof(*handle));
    thread_start *start = mem_alloc(sizeof(*start));
    if (handle == NULL || start == NULL) {
        mem_free(handle);
        mem_free(start);
        return error_nomem(err, sizeof(*handle) + sizeof(*start));
    }
    *start = (thread_start){.body = body, .argument = argument};
    sigset_t before;
    block_signals(&before);
    int failed = pthread_create(&handle->id, NULL, thread_entry, start);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed != 0) {
        mem_free(handle);
        mem_free(start);
        error_sys(err, failed, "cannot start a thread");
        err->status = PAWL_ENOMEM; /* EAGAIN here means too many threads, not storage */
        error_next(err, "raise the limit on threads (ulimit -u, or the container's pids limit)");
        return err->status;
    }
    *thread = handle;
    return PAWL_OK;
}

static void system_thread_join(void *context, platform_thread *thread) {
    (void)context;
    pthread_join(thread->id, NULL);
    mem_free(thread);
}

static void system_thread_abandon(void *context, platform_thread *thread) {
    (void)context;
    pthread_detach(thread->id);
    mem_free(thread);
}

/* <linux/ioprio.h> of older systems lacks them. */
#define IO_CLASS_SHIFT       13
#define IO_CLASS_BEST_EFFORT 2
#define IO_CLASS_IDLE        3
#define IO_LOWEST_LEVEL      7
#define IO_WHO_PROCESS       1

uint16_t io_priority_number(pawl_io_priority priority) {
    switch (priority) {
    case PAWL_IO_PRIORITY_LOW:
        return IO_CLASS_BEST_EFFORT << IO_CLASS_SHIFT | IO_LOWEST_LEVEL;
    case PAWL_IO_PRIORITY_IDLE:
        return IO_CLASS_IDLE << IO_CLASS_SHIFT;
    default:
        return 0;
    }
}

static int set_io_priority(pawl_io_priority priority) {
    uint16_t number = io_priority_number(priority);
    return number == 0 || syscall(SYS_ioprio_set, IO_WHO_PROCESS, 0, number) == 0 ? 0 : errno;
}

/* No kernel knows more processors. */
#define MOST_CPUS 65536

static int set_affinity(const int *cpus, size_t count) {
    if (count == 0) {
        return 0;
    }
    AUTOFREE cpu_set_t *set = mem_calloc(1, CPU_ALLOC_SIZE(MOST_CPUS));
    if (set == NULL) {
        return ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        if (cpus[i] < 0 || cpus[i] >= MOST_CPUS) {
            return EINVAL;
        }
        CPU_SET_S((size_t)cpus[i], CPU_ALLOC_SIZE(MOST_CPUS), set);
    }
    return sched_setaffinity(0, CPU_ALLOC_SIZE(MOST_CPUS), set) == 0 ? 0 : errno;
}

static void add_refusal(char why[160], const char *what, int system_errno) {
    pawl_error story = ERROR_INIT;
    size_t used = strlen(why);
    if (system_errno != 0) {
        error_sys(&story, system_errno, "%s", what);
        (void)snprintf(why + used, 160 - used, "%scannot %s: %s", used > 0 ? "; " : "", what,
                       story.system);
    }
}

/* Linux sets both for single threads; 0 means the calling one. */
static bool system_thread_tune(void *context, const thread_tuning *tuning, char why[160]) {
    (void)context;
    why[0] = '\0';
    add_refusal(why, "keep to the processors given", set_affinity(tuning->cpus, tuning->cpu_count));
    add_refusal(why, "set the I/O priority", set_io_priority(tuning->io_priority));
    return why[0] == '\0';
}

/* ---- identity ------------------------------------------------------------------------------- */

process_id process_self(void) {
    return getpid();
}

bool process_is_self(process_id process) {
    return process == getpid();
}

typedef struct process_stat {
    char state;
    int64_t parent;
    uint64_t threads;
    uint64_t start_ticks;
} process_stat;

/* The second field is the command's name in parentheses, which may hold spaces and parentheses. */
static bool parse_stat(const char *text, process_stat *out) {
    const char *at = strrchr(text, ')');
    if (at == NULL || at[1] != ' ' || at[2] == '\0') {
        return false;
    }
    at += 2;
    *out = (process_stat){.state = *at};
    for (int field = STAT_STATE; field < STAT_STARTTIME; field++) {
        at = strchr(at, ' ');
        if (at == NULL) {
            return false;
        }
        at++;
        if (field + 1 == STAT_PARENT) {
            out->parent = strtoll(at, NULL, 10);
        }
        if (field + 1 == STAT_THREADS) {
            out->threads = strtoull(at, NULL, 10);
        }
    }
    out->start_ticks = strtoull(at, NULL, 10);
    return true;
}

static bool read_stat(const char *path, process_stat *out) {
    char text[STAT_BYTES];
    return kernel_file_read(path, text, sizeof(text)) && parse_stat(text, out);
}

/* To the kernel a host's name is any bytes, but records are text. It is made text here and nowhere
 * else, so that all processes of a host agree on it. */
static void make_text(char *name) {
    size_t n = strlen(name);
    for (size_t at = 0; at < n;) {
        size_t length = utf8_character(name + at, n - at);
        unsigned char c = (unsigned char)name[at];
        if (length == 0 || c < ' ' || c == 0x7f) {
            name[at] = '?';
        }
        at += length > 0 ? length : 1;
    }
}

static void read_namespace(const char *path, char *out, size_t size) {
    ssize_t length = readlink(path, out, size - 1);
    out[length > 0 ? length : 0] = '\0';
}

/* What /proc does not tell stays empty: nobody can then judge this process by its pid. Read from
 * /proc/self: /proc may be that of another pid namespace, where our pid is another process. */
static pawl_status system_identity(void *context, process_identity *out, pawl_error *err) {
    (void)context;
    *out = (process_identity){.pid = getpid()};
    if (gethostname(out->host, sizeof(out->host) - 1) != 0) {
        return error_sys(err, errno, "cannot get the name of this host");
    }
    make_text(out->host);
    kernel_file_read("/proc/sys/kernel/random/boot_id", out->boot_id, sizeof(out->boot_id));
    out->boot_id[strcspn(out->boot_id, "\n")] = '\0';
    read_namespace("/proc/self/ns/pid", out->pid_namespace, sizeof(out->pid_namespace));
    read_namespace("/proc/self/ns/time", out->time_namespace, sizeof(out->time_namespace));
    process_stat stat;
    if (read_stat("/proc/self/stat", &stat)) {
        out->start_ticks = stat.start_ticks;
    }
    return PAWL_OK;
}

static bool same_known(const char *a, const char *b) {
    return a[0] != '\0' && strcmp(a, b) == 0;
}

/* Only on the same host, in the same boot and pid namespace does a pid mean anything; host names
 * repeat among containers and cloned machines, so another boot id says nothing. */
static bool can_judge(const process_identity *self, const process_identity *who) {
    return who->pid > 0 && who->pid <= INT32_MAX && same_known(self->host, who->host) &&
           same_known(self->boot_id, who->boot_id) &&
           same_known(self->pid_namespace, who->pid_namespace);
}

/* For a pid that exists. Equal start times prove that it is the same process. Different ones prove
 * nothing, not even that the pid was reused: /proc shifts the time by the reader's time namespace,
 * may show another pid namespace, and a process restored from an image gets a new start time. */
static liveness judge_by_stat(const process_identity *self, const process_identity *who) {
    char path[64];
    process_stat stat;
    snprintf(path, sizeof(path), "/proc/%lld/stat", (long long)who->pid);
    if (who->start_ticks == 0 || strcmp(self->time_namespace, who->time_namespace) != 0 ||
        !read_stat(path, &stat) || stat.start_ticks != who->start_ticks) {
        return PROCESS_UNKNOWN;
    }
    /* The first thread of a process may have ended while others go on: a zombie with threads. */
    bool ended = (stat.state == 'Z' || stat.state == 'X') && stat.threads <= 1;
    return ended ? PROCESS_DEAD : PROCESS_ALIVE;
}

static liveness system_process_alive(void *context, const process_identity *who) {
    process_identity self;
    struct pawl_error ignored = ERROR_INIT;
    if (system_identity(context, &self, &ignored) != PAWL_OK || !can_judge(&self, who)) {
        return PROCESS_UNKNOWN;
    }
    /* The kernel itself, because a /proc that hides other people's processes looks as if there were
     * none. */
    if (kill((pid_t)who->pid, 0) != 0 && errno == ESRCH) {
        return PROCESS_DEAD;
    }
    return judge_by_stat(&self, who);
}

/* Killing an ancestor may end this process, too, or the shell that the command is typed into. A
 * process of another pid namespace has the parent 0 here. */
static bool runs_under(int64_t pid) {
    process_stat stat;
    int64_t at = getpid();
    for (int level = 0; level < MOST_ANCESTORS && at > 0 && at != pid; level++) {
        char path[64];
        snprintf(path, sizeof(path), "/proc/%lld/stat", (long long)at);
        if (!read_stat(path, &stat)) {
            return true; /* nobody can tell */
        }
        at = stat.parent;
    }
    return at > 0;
}

static bool system_process_killable(void *context, const process_identity *who, char why[96]) {
    char path[64];
    struct stat found;
    why[0] = '\0';
    if (system_process_alive(context, who) != PROCESS_ALIVE) {
        return false;
    }
    snprintf(path, sizeof(path), "/proc/%lld", (long long)who->pid);
    if (who->pid == 1) {
        snprintf(why, 96, "process 1, which all others here depend on");
    } else if (runs_under(who->pid)) {
        snprintf(why, 96, "which this process is or runs under");
    } else if (stat(path, &found) != 0) {
        snprintf(why, 96, "whose user cannot be found out");
    } else if (found.st_uid != geteuid()) {
        snprintf(why, 96, "which is user %lld's, and this is user %lld", (long long)found.st_uid,
                 (long long)geteuid());
    }
    return why[0] == '\0';
}

static uint64_t system_memory_limit(void *context) {
    struct rlimit addresses;
    (void)context;
    uint64_t limit = kernel_memory_limit("");
    bool limited = getrlimit(RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur != RLIM_INFINITY;
    return limited && addresses.rlim_cur < limit ? addresses.rlim_cur : limit;
}

const platform *platform_system(void) {
    static const platform system = {
        .monotonic_ns = system_monotonic_ns,
        .unix_time_ns = system_unix_time_ns,
        .sleep_ns = system_sleep_ns,
        .random_bytes = system_random_bytes,
        .concurrent = true,
        .thread_start = system_thread_start,
        .thread_join = system_thread_join,
        .thread_abandon = system_thread_abandon,
        .thread_tune = system_thread_tune,
        .identity = system_identity,
        .process_alive = system_process_alive,
        .process_killable = system_process_killable,
        .memory_limit = system_memory_limit,
    };
    return &system;
}
