/* SPDX-License-Identifier: Apache-2.0 */
/* Completion for bash: the table as a shell function. */
#include "options.h"

#include <stdio.h>
#include <string.h>

static void put_options(const verb *v) {
    for (const option_spec *o = options; o->name != NULL; o++) {
        if ((v->options & (unsigned)o->id) != 0 && !o->hidden) {
            printf(" --%s", o->name);
        }
    }
}

/* The options after which a value comes that nothing can be offered for. */
static void put_value_options(void) {
    const char *between = "";
    for (const option_spec *o = options; o->name != NULL; o++) {
        if (o->value != NULL) {
            printf("%s--%s", between, o->name);
            between = " | ";
        }
    }
}

static const char head[] =
    "# SPDX-License-Identifier: Apache-2.0\n"
    "# Completion of pawl for bash. Written by 'pawl help --bash-completion'; change cli/options.c "
    "and\n# cli/completion.c instead.\n"
    "\n"
    "# The word before the cursor, whole: bash itself breaks words at '@' and '='.\n"
    "_pawl_word() {\n"
    "    local line=${COMP_LINE:0:COMP_POINT}\n"
    "    printf '%s' \"${line##*[[:blank:]]}\"\n"
    "}\n"
    "\n"
    "# The committed steps of the run $1 that begin with $2.\n"
    "_pawl_steps() {\n"
    "    local manifest step\n"
    "    for manifest in \"$1\"/step-*/manifest.json; do\n"
    "        [[ -e $manifest ]] || continue\n"
    "        step=${manifest%/manifest.json}\n"
    "        step=${step##*/step-}\n"
    "        [[ $step =~ ^[0-9]+$ ]] || continue\n"
    "        step=$((10#$step))\n"
    "        [[ $step == \"$2\"* ]] && printf '%s\\n' \"$1@$step\"\n"
    "    done\n"
    "    [[ newest == \"$2\"* ]] && printf '%s\\n' \"$1@newest\"\n"
    "}\n"
    "\n"
    "_pawl() {\n"
    "    local word verb options previous i\n"
    "    word=$(_pawl_word)\n"
    "    verb=${COMP_WORDS[1]}\n"
    "    previous=${COMP_WORDS[COMP_CWORD - 1]}\n"
    "    COMPREPLY=()\n"
    "    if ((COMP_CWORD == 1)); then\n";

static const char tail[] =
    "    if [[ $word == -* ]]; then\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$word\")\n"
    "    elif [[ $word == ?*@* ]]; then\n"
    "        mapfile -t COMPREPLY < <(_pawl_steps \"${word%@*}\" \"${word##*@}\")\n"
    "        if [[ $COMP_WORDBREAKS == *@* ]]; then\n"
    "            for i in \"${!COMPREPLY[@]}\"; do\n"
    "                COMPREPLY[i]=${COMPREPLY[i]##*@}\n"
    "            done\n"
    "        fi\n"
    "    elif [[ $verb != help ]]; then\n"
    "        compopt -o filenames 2>/dev/null\n"
    "        mapfile -t COMPREPLY < <(compgen -d -- \"$word\")\n"
    "    fi\n"
    "}\n"
    "\n"
    "complete -F _pawl pawl\n";

void print_bash_completion(void) {
    fputs(head, stdout);
    fputs("        mapfile -t COMPREPLY < <(compgen -W \"", stdout);
    for (const verb *v = verbs; v->name != NULL; v++) {
        printf("%s ", v->name);
    }
    fputs("--help --version\" -- \"$word\")\n        return\n    fi\n    case $verb in\n", stdout);
    for (const verb *v = verbs; v->name != NULL; v++) {
        printf("    %s) options='", v->name);
        put_options(v);
        fputs("' ;;\n", stdout);
    }
    fputs("    esac\n    case $previous in\n    ", stdout);
    put_value_options();
    fputs(") return ;;\n    help)\n        mapfile -t COMPREPLY < <(compgen -W \"", stdout);
    for (const verb *v = verbs; v->name != NULL; v++) {
        printf("%s ", v->name);
    }
    fputs("\" -- \"$word\")\n        return\n        ;;\n    esac\n", stdout);
    fputs(tail, stdout);
}
