/* SPDX-License-Identifier: Apache-2.0 */
#include "lag/serve.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>

#define MOST_LINE 512

/* When there are no more lines the mount goes, and with it the loop of the main thread. */
static void *listen_main(void *argument) {
    const service *s = argument;
    char line[MOST_LINE];
    while (fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        s->obey(s->context, line);
        fflush(stdout);
    }
    if (umount2(s->mount, 0) != 0) { /* someone has a file open there, or it is unmounted already */
        (void)umount2(s->mount, MNT_FORCE | MNT_DETACH);
    }
    return NULL;
}

static int run_mounted(struct fuse *fuse, const service *s) {
    pthread_t listener;
    puts("ready");
    fflush(stdout);
    if (pthread_create(&listener, NULL, listen_main, (void *)s) != 0) {
        return 1;
    }
    int failed = s->in_turn ? fuse_loop(fuse) < 0 : fuse_loop_mt(fuse, 0) < 0;
    pthread_join(listener, NULL);
    return failed;
}

int serve(const service *s) {
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    char option[128];
    snprintf(option, sizeof option, "fsname=%s", s->name);
    char program[] = "serve";
    char flag[] = "-o";
    char *words[] = {program, flag, option, NULL};
    struct fuse_args arguments = FUSE_ARGS_INIT(3, words);
    struct fuse *fuse = fuse_new(&arguments, s->operations, sizeof *s->operations, s->context);
    int failed = 1;
    if (fuse != NULL) {
        if (fuse_mount(fuse, s->mount) == 0) {
            failed = run_mounted(fuse, s);
            fuse_unmount(fuse);
        }
        fuse_destroy(fuse);
    }
    fuse_opt_free_args(&arguments);
    return failed;
}
