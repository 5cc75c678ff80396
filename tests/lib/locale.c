/* SPDX-License-Identifier: Apache-2.0 */
/* Locales from the system, or from localedef(1). */
#include "lib/locale.h"

#include "lib/test.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *source, *name, *point;
} locales[] = {
    [LOCALE_COMMA] = {"de_DE", "de_DE.UTF-8", ","},
    [LOCALE_WIDE] = {"ps_AF", "ps_AF.UTF-8", "\xd9\xab"},
};

static bool use(test_locale which) {
    return setlocale(LC_ALL, locales[which].name) != NULL &&
           strcmp(localeconv()->decimal_point, locales[which].point) == 0;
}

/* Into a directory that is gone again before the test runs: what is loaded stays loaded. */
static bool make_and_use(test_locale which) {
    char directory[] = "/tmp/pawl-locale-XXXXXX";
    char command[256];
    if (mkdtemp(directory) == NULL) {
        return false;
    }
    snprintf(command, sizeof command, "localedef -c -i %s -f UTF-8 %s/%s >%s/log 2>&1",
             locales[which].source, directory, locales[which].name, directory);
    bool used = system(command) == 0 && setenv("LOCPATH", directory, 1) == 0 && use(which);
    unsetenv("LOCPATH");
    snprintf(command, sizeof command, "rm -r %s", directory);
    return system(command) == 0 && used;
}

bool locale_begin(test_locale which) {
    if (use(which) || make_and_use(which)) {
        return true;
    }
    locale_end();
    print_message("skipped: no locale %s here, and localedef makes none\n", locales[which].name);
    return false;
}

void locale_end(void) {
    setlocale(LC_ALL, "C");
}
