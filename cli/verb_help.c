/* SPDX-License-Identifier: Apache-2.0 */
/* pawl help: the overview, the help of a verb, the man page or the completion. */
#include "verbs.h"

int verb_help(const arguments *args, output *out) {
    if (args->man) {
        print_man_page();
        return EXIT_DONE;
    }
    if (args->bash_completion) {
        print_bash_completion();
        return EXIT_DONE;
    }
    if (args->topic == NULL) {
        print_overview(stdout);
        return EXIT_DONE;
    }
    const verb *v = verb_find(args->topic);
    if (v == NULL) {
        return verb_refuse_unknown(args->topic, out);
    }
    print_help(v);
    return EXIT_DONE;
}
