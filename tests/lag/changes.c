/* SPDX-License-Identifier: Apache-2.0 */
#include "lag/changes.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct changes {
    int root;
    pthread_mutex_t lock;
    pthread_cond_t moved; /* settling began, or something was done */
    int pending;
    int settling; /* how many wait for `pending` to be none */
};

/* A copy of a change, with a thread that waits for its time. */
typedef struct late_change {
    changes *all;
    change c;
    char *path, *to;
    void *data;
    struct timespec due;
} late_change;

changes *changes_new(int root) {
    changes *all = calloc(1, sizeof *all);
    if (all == NULL) {
        return NULL;
    }
    all->root = root;
    pthread_mutex_init(&all->lock, NULL);
    pthread_condattr_t by_monotonic;
    pthread_condattr_init(&by_monotonic);
    pthread_condattr_setclock(&by_monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&all->moved, &by_monotonic);
    pthread_condattr_destroy(&by_monotonic);
    return all;
}

void changes_free(changes *all) {
    changes_settle(all);
    pthread_cond_destroy(&all->moved);
    pthread_mutex_destroy(&all->lock);
    free(all);
}

/* ---- now ------------------------------------------------------------------------------------- */

static int answer(long result) {
    return result < 0 ? -errno : (int)result;
}

static int create(int root, const change *c) {
    int fd = openat(root, c->path, (c->flags & ~O_DIRECT) | O_CREAT | O_CLOEXEC, c->mode);
    if (fd < 0) {
        return -errno;
    }
    close(fd);
    return 0;
}

static int truncate_by_path(int root, const change *c) {
    int fd = openat(root, c->path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    int result = answer(ftruncate(fd, c->at));
    close(fd);
    return result;
}

int changes_do(changes *all, const change *c) {
    switch (c->op) {
    case OP_CREATE:
        return create(all->root, c);
    case OP_WRITE:
        return answer(pwrite(c->fd, c->data, c->size, c->at));
    case OP_SYNC:
    case OP_SYNCDIR:
        return answer(fsync(c->fd));
    case OP_RENAME:
        return answer(renameat2(all->root, c->path, all->root, c->to, (unsigned)c->flags));
    case OP_UNLINK:
        return answer(unlinkat(all->root, c->path, 0));
    case OP_MKDIR:
        return answer(mkdirat(all->root, c->path, c->mode));
    case OP_RMDIR:
        return answer(unlinkat(all->root, c->path, AT_REMOVEDIR));
    case OP_TRUNCATE:
        return c->fd < 0 ? truncate_by_path(all->root, c) : answer(ftruncate(c->fd, c->at));
    case OP_ALLOCATE:
        return answer(fallocate(c->fd, c->flags, c->at, (off_t)c->size));
    default:
        return -ENOSYS;
    }
}

/* ---- later ----------------------------------------------------------------------------------- */

static void late_free(late_change *late) {
    if (late->c.fd >= 0) {
        close(late->c.fd);
    }
    free(late->path);
    free(late->to);
    free(late->data);
    free(late);
}

/* NULL: there is no memory, or no descriptor. */
static late_change *late_new(changes *all, const change *c, int64_t delay_ms) {
    late_change *late = calloc(1, sizeof *late);
    if (late == NULL) {
        return NULL;
    }
    *late = (late_change){.all = all, .c = *c};
    late->c.fd = c->fd < 0 ? -1 : fcntl(c->fd, F_DUPFD_CLOEXEC, 0);
    late->c.path = late->path = strdup(c->path);
    late->c.to = late->to = c->to == NULL ? NULL : strdup(c->to);
    late->c.data = late->data = c->data == NULL ? NULL : malloc(c->size);
    if ((c->fd >= 0 && late->c.fd < 0) || late->path == NULL ||
        (c->to != NULL && late->to == NULL) || (c->data != NULL && late->data == NULL)) {
        late_free(late);
        return NULL;
    }
    if (c->data != NULL) {
        memcpy(late->data, c->data, c->size);
    }
    clock_gettime(CLOCK_MONOTONIC, &late->due);
    int64_t ns = late->due.tv_nsec + delay_ms % 1000 * 1000000;
    late->due.tv_sec += delay_ms / 1000 + ns / 1000000000;
    late->due.tv_nsec = ns % 1000000000;
    return late;
}

static void *late_main(void *argument) {
    late_change *late = argument;
    changes *all = late->all;
    pthread_mutex_lock(&all->lock);
    while (all->settling == 0 &&
           pthread_cond_timedwait(&all->moved, &all->lock, &late->due) != ETIMEDOUT) {
    }
    pthread_mutex_unlock(&all->lock);
    (void)changes_do(all, &late->c); /* nobody is there to be told */
    late_free(late);
    pthread_mutex_lock(&all->lock);
    all->pending--;
    pthread_cond_broadcast(&all->moved);
    pthread_mutex_unlock(&all->lock);
    return NULL;
}

int changes_do_later(changes *all, const change *c, int64_t delay_ms) {
    late_change *late = late_new(all, c, delay_ms);
    if (late == NULL) {
        return -ENOMEM;
    }
    pthread_mutex_lock(&all->lock);
    all->pending++;
    pthread_mutex_unlock(&all->lock);
    pthread_t thread;
    if (pthread_create(&thread, NULL, late_main, late) != 0) {
        pthread_mutex_lock(&all->lock);
        all->pending--;
        pthread_mutex_unlock(&all->lock);
        late_free(late);
        return -EAGAIN;
    }
    pthread_detach(thread);
    return 0;
}

void changes_settle(changes *all) {
    pthread_mutex_lock(&all->lock);
    all->settling++;
    pthread_cond_broadcast(&all->moved);
    while (all->pending > 0) {
        pthread_cond_wait(&all->moved, &all->lock);
    }
    all->settling--;
    pthread_mutex_unlock(&all->lock);
}
