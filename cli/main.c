/* SPDX-License-Identifier: Apache-2.0 */
/* pawl: finds the verb, hands it its arguments, and returns its exit code. */
#include "signals.h"
#include "verbs.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static int print_version(void) {
    printf("pawl %s\n", PAWL_VERSION);
    if (strcmp(PAWL_VERSION, pawl_version()) != 0) {
        printf("libpawl %s\n", pawl_version());
    }
    return EXIT_DONE;
}

/* --version, --help, an unknown verb, or no argument at all. */
static int run_without_verb(const char *word) {
    output out;
    int code = EXIT_DONE;
    output_begin(&out, false, true, true);
    if (word == NULL) {
        print_overview(stderr);
        code = EXIT_USAGE;
    } else if (strcmp(word, "--version") == 0) {
        code = print_version();
    } else if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        print_overview(stdout);
    } else {
        code = verb_refuse_unknown(word, &out);
    }
    return output_end(&out, code);
}

static int run_verb(const verb *v, int argc, char **argv) {
    arguments args;
    int code = EXIT_USAGE;
    if (arguments_parse(v, argc, argv, &args)) {
        output out;
        output_begin(&out, args.json && !args.help, args.no_progress, args.full);
        if (args.help) {
            print_help(v);
            code = EXIT_DONE;
        } else {
            code = verb_exit_code(v, v->run(&args, &out));
        }
        code = output_end(&out, code);
    }
    arguments_free(&args);
    return code;
}

/* Opens /dev/null for standard descriptors that are closed: otherwise a file of the run would get
 * the number of standard output, and be written to. Read-only, so that writing fails, and the exit
 * status says so. */
static void occupy_standard_descriptors(void) {
    int fd = 0;
    while (fd >= 0 && fd <= STDERR_FILENO) {
        fd = open("/dev/null", O_RDONLY);
    }
    if (fd > STDERR_FILENO) {
        (void)close(fd);
    }
}

int main(int argc, char **argv) {
    occupy_standard_descriptors();
    signals_catch_broken_pipe();
    signals_ignore_file_limit();
    const verb *v = argc > 1 ? verb_find(argv[1]) : NULL;
    if (v == NULL) {
        return run_without_verb(argc > 1 ? argv[1] : NULL);
    }
    return run_verb(v, argc - 1, argv + 1);
}
