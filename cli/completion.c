/* SPDX-License-Identifier: Apache-2.0 */
/* Completion for bash: the table as a shell function. */
#include "verbs.h"

#include <stdio.h>
#include <string.h>

static void put_options(const verb *v) {
    for (const option_spec *o = options; o->name != NULL; o++) {
        if ((v->options & o->id) != 0 && !o->hidden) {
            printf(" --%s", o->name);
        }
    }
}

/* The options that take a value: nothing is offered behind them. */
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
    "# Completion of pawl for bash. Written by 'pawl help --bash-completion'; change cli/verbs.c "
    "and\n"
    "# cli/completion.c instead.\n"
    "\n"
    "# The committed steps of the run $1 that begin with $2; of very many the first.\n"
    "_pawl_steps() {\n"
    "    local manifest step count=0\n"
    "    for manifest in \"${1/#\\~\\//$HOME/}\"/step-*/manifest.json; do\n"
    "        step=${manifest%/manifest.json}\n"
    "        step=${step##*/step-}\n"
    "        [[ $step =~ ^[0-9]{8,19}$ ]] || continue\n"
    "        ((${#step} < 19)) || [[ ! $step > 9223372036854775807 ]] || continue\n"
    "        step=$((10#$step))\n"
    "        [[ $step == \"$2\"* ]] || continue\n"
    "        ((++count <= 500)) || break\n"
    "        [[ -e $manifest ]] && printf '%s\\n' \"$1@$step\"\n"
    "    done\n"
    "    [[ newest == \"$2\"* ]] && printf '%s\\n' \"$1@newest\"\n"
    "}\n"
    "\n"
    "# What may follow the beginning $2 of an entry's name in $1; pawl itself says no more than a "
    "shell\n"
    "# can take, and no longer than a second.\n"
    "_pawl_entries() {\n"
    "    local limit=()\n"
    "    type -P timeout >/dev/null && limit=(timeout 3)\n"
    "    \"${limit[@]}\" \"${COMP_WORDS[0]}\" show --names -- \"${1/#\\~\\//$HOME/}\" \"$2\" "
    "2>/dev/null </dev/null\n"
    "}\n"
    "\n"
    "# The replies as a shell reads them back, less what bash takes for words of their own in $1.\n"
    "_pawl_reply() {\n"
    "    local i quoted breaks= typed= kept=()\n"
    "    for i in @ = :; do\n"
    "        [[ $COMP_WORDBREAKS == *\"$i\"* ]] && breaks+=$i\n"
    "    done\n"
    "    [[ -n $breaks && $1 == *[\"$breaks\"]* ]] && typed=${1%\"${1##*[\"$breaks\"]}\"}\n"
    "    for i in \"${COMPREPLY[@]}\"; do\n"
    "        printf -v quoted %q \"$i\"\n"
    "        [[ $1 == \\~* ]] && quoted=${quoted#\\\\}\n"
    "        [[ $quoted == \"$typed\"* ]] && kept+=(\"${quoted#\"$typed\"}\")\n"
    "        [[ $i == */ ]] && compopt -o nospace 2>/dev/null\n"
    "    done\n"
    "    COMPREPLY=(\"${kept[@]}\")\n"
    "}\n"
    "\n"
    "_pawl() {\n"
    "    local word raw words verb options previous operands=0 run= i "
    "line=${COMP_LINE:0:COMP_POINT}\n"
    "    local last='([^[:blank:]\\]|\\\\.)*$'\n"
    "    IFS=$' \\t' read -a words <<<\"$line\" # without -r: '\\ ' is a blank within a word\n"
    "    [[ $line =~ $last ]] && raw=${BASH_REMATCH[0]}\n"
    "    [[ -n $raw ]] || words+=(\"\")\n"
    "    word=${words[${#words[@]} - 1]}\n"
    "    verb=${words[1]}\n"
    "    previous=${words[${#words[@]} - 2]}\n"
    "    COMPREPLY=()\n"
    "    if ((${#words[@]} == 2)); then\n";

static const char operands[] = "    for ((i = 2; i < ${#words[@]} - 1; i++)); do\n"
                               "        case ${words[i]} in\n"
                               "        ";

static const char tail[] =
    ") ((i++)) ;;\n"
    "        -*) ;;\n"
    "        *) ((operands++)) || run=${words[i]} ;;\n"
    "        esac\n"
    "    done\n"
    "    if [[ $word == -* ]]; then\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$word\")\n"
    "    elif [[ $raw$run == *[\\\"\\'\\`\\$]* && ($operands == 1 || $word == *@*) ]]; then\n"
    "        return # what it stands for is not known without running it\n"
    "    elif [[ $verb == show ]] && ((operands == 1)); then\n"
    "        mapfile -t COMPREPLY < <(_pawl_entries \"$run\" \"$word\")\n"
    "        _pawl_reply \"$raw\"\n"
    "    elif [[ $word == ?*@* ]]; then\n"
    "        mapfile -t COMPREPLY < <(_pawl_steps \"${word%@*}\" \"${word##*@}\")\n"
    "        _pawl_reply \"$raw\"\n"
    "    elif [[ $verb == diff ]] || ((operands == 0)); then\n"
    "        compopt -o filenames 2>/dev/null\n"
    "        mapfile -t COMPREPLY < <(compgen -d -- \"$word\"\n"
    "            [[ $verb =~ ^(ls|show|verify|diff)$ ]] &&\n"
    "                compgen -f -X '!*.safetensors*' -- \"$word\")\n"
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
    fputs(operands, stdout);
    put_value_options();
    fputs(tail, stdout);
}
