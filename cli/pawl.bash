# SPDX-License-Identifier: Apache-2.0
# Completion of pawl for bash. Written by 'pawl help --bash-completion'; change cli/options.c and
# cli/completion.c instead.

# The word before the cursor, whole: bash itself breaks words at '@' and '='.
_pawl_word() {
    local line=${COMP_LINE:0:COMP_POINT}
    printf '%s' "${line##*[[:blank:]]}"
}

# The committed steps of the run $1 that begin with $2.
_pawl_steps() {
    local manifest step
    for manifest in "$1"/step-*/manifest.json; do
        [[ -e $manifest ]] || continue
        step=${manifest%/manifest.json}
        step=${step##*/step-}
        [[ $step =~ ^[0-9]+$ ]] || continue
        step=$((10#$step))
        [[ $step == "$2"* ]] && printf '%s\n' "$1@$step"
    done
    [[ newest == "$2"* ]] && printf '%s\n' "$1@newest"
}

_pawl() {
    local word verb options previous i
    word=$(_pawl_word)
    verb=${COMP_WORDS[1]}
    previous=${COMP_WORDS[COMP_CWORD - 1]}
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W "ls top show verify diff rm gc rebuild doctor help --help --version" -- "$word")
        return
    fi
    case $verb in
    ls) options=' --stats --json --help' ;;
    top) options=' --once --interval --json --help' ;;
    show) options=' --structure --edge --json --no-progress --help' ;;
    verify) options=' --all --json --no-progress --help' ;;
    diff) options=' --structure --json --no-progress --help' ;;
    rm) options=' --force --wait --json --no-progress --help' ;;
    gc) options=' --dry-run --wait --json --no-progress --help' ;;
    rebuild) options=' --force --wait --json --no-progress --help' ;;
    doctor) options=' --need --alone --rank --ranks --launch --deadline --json --help' ;;
    help) options=' --help' ;;
    esac
    case $previous in
    --edge | --wait | --need | --rank | --ranks | --launch | --deadline | --interval) return ;;
    help)
        mapfile -t COMPREPLY < <(compgen -W "ls top show verify diff rm gc rebuild doctor help " -- "$word")
        return
        ;;
    esac
    if [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
    elif [[ $word == ?*@* ]]; then
        mapfile -t COMPREPLY < <(_pawl_steps "${word%@*}" "${word##*@}")
        if [[ $COMP_WORDBREAKS == *@* ]]; then
            for i in "${!COMPREPLY[@]}"; do
                COMPREPLY[i]=${COMPREPLY[i]##*@}
            done
        fi
    elif [[ $verb != help ]]; then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -d -- "$word")
    fi
}

complete -F _pawl pawl
