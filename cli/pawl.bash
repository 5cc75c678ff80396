# SPDX-License-Identifier: Apache-2.0
# Completion of pawl for bash. Written by 'pawl help --bash-completion'; change cli/verbs.c and
# cli/completion.c instead.

# The committed steps of the run $1 that begin with $2; of very many the first.
_pawl_steps() {
    local manifest step count=0
    for manifest in "${1/#\~\//$HOME/}"/step-*/manifest.json; do
        step=${manifest%/manifest.json}
        step=${step##*/step-}
        [[ $step =~ ^[0-9]{8,19}$ ]] || continue
        ((${#step} < 19)) || [[ ! $step > 9223372036854775807 ]] || continue
        step=$((10#$step))
        [[ $step == "$2"* ]] || continue
        ((++count <= 500)) || break
        [[ -e $manifest ]] && printf '%s\n' "$1@$step"
    done
    [[ newest == "$2"* ]] && printf '%s\n' "$1@newest"
}

# What may follow the beginning $2 of an entry's name in $1; pawl itself says no more than a shell
# can take, and no longer than a second.
_pawl_entries() {
    local limit=()
    type -P timeout >/dev/null && limit=(timeout 3)
    "${limit[@]}" "${COMP_WORDS[0]}" show --names -- "${1/#\~\//$HOME/}" "$2" 2>/dev/null </dev/null
}

# The replies as a shell reads them back, less what bash takes for words of their own in $1.
_pawl_reply() {
    local i quoted breaks= typed= kept=()
    for i in @ = :; do
        [[ $COMP_WORDBREAKS == *"$i"* ]] && breaks+=$i
    done
    [[ -n $breaks && $1 == *["$breaks"]* ]] && typed=${1%"${1##*["$breaks"]}"}
    for i in "${COMPREPLY[@]}"; do
        printf -v quoted %q "$i"
        [[ $1 == \~* ]] && quoted=${quoted#\\}
        [[ $quoted == "$typed"* ]] && kept+=("${quoted#"$typed"}")
        [[ $i == */ ]] && compopt -o nospace 2>/dev/null
    done
    COMPREPLY=("${kept[@]}")
}

_pawl() {
    local word raw words verb options previous operands=0 run= i line=${COMP_LINE:0:COMP_POINT}
    local last='([^[:blank:]\]|\\.)*$'
    IFS=$' \t' read -a words <<<"$line" # without -r: '\ ' is a blank within a word
    [[ $line =~ $last ]] && raw=${BASH_REMATCH[0]}
    [[ -n $raw ]] || words+=("")
    word=${words[${#words[@]} - 1]}
    verb=${words[1]}
    previous=${words[${#words[@]} - 2]}
    COMPREPLY=()
    if ((${#words[@]} == 2)); then
        mapfile -t COMPREPLY < <(compgen -W "ls top show verify diff convert rm gc rebuild doctor help --help --version" -- "$word")
        return
    fi
    case $verb in
    ls) options=' --full --stats --json --help' ;;
    top) options=' --once --interval --json --help' ;;
    show) options=' --structure --edge --full --json --no-progress --help' ;;
    verify) options=' --all --json --no-progress --help' ;;
    diff) options=' --structure --full --rename --transpose --json --no-progress --help' ;;
    convert) options=' --full --dry-run --to --only --rename --cast --drop --shard-size --json --no-progress --help' ;;
    rm) options=' --force --wait --json --no-progress --help' ;;
    gc) options=' --full --dry-run --wait --json --no-progress --help' ;;
    rebuild) options=' --force --wait --json --no-progress --help' ;;
    doctor) options=' --rename --need --alone --rank --ranks --launch --deadline --model --every --mtbf --budget --read-only --no-probe --verify --ignore --json --help' ;;
    help) options=' --help' ;;
    esac
    case $previous in
    --edge | --to | --only | --rename | --transpose | --cast | --shard-size | --wait | --need | --rank | --ranks | --launch | --deadline | --model | --every | --mtbf | --budget | --ignore | --interval) return ;;
    help)
        mapfile -t COMPREPLY < <(compgen -W "ls top show verify diff convert rm gc rebuild doctor help " -- "$word")
        return
        ;;
    esac
    for ((i = 2; i < ${#words[@]} - 1; i++)); do
        case ${words[i]} in
        --edge | --to | --only | --rename | --transpose | --cast | --shard-size | --wait | --need | --rank | --ranks | --launch | --deadline | --model | --every | --mtbf | --budget | --ignore | --interval) ((i++)) ;;
        -*) ;;
        *) ((operands++)) || run=${words[i]} ;;
        esac
    done
    if [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
    elif [[ $raw$run == *[\"\'\`\$]* && ($operands == 1 || $word == *@*) ]]; then
        return # what it stands for is not known without running it
    elif [[ $verb == show ]] && ((operands == 1)); then
        mapfile -t COMPREPLY < <(_pawl_entries "$run" "$word")
        _pawl_reply "$raw"
    elif [[ $word == ?*@* ]]; then
        mapfile -t COMPREPLY < <(_pawl_steps "${word%@*}" "${word##*@}")
        _pawl_reply "$raw"
    elif [[ $verb == diff ]] || ((operands == 0)); then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -d -- "$word"
            [[ $verb =~ ^(ls|show|verify|diff)$ ]] &&
                compgen -f -X '!*.safetensors*' -- "$word")
    fi
}

complete -F _pawl pawl
