#!/bin/bash
# completion.sh SOURCE TOOLS: what bash offers behind `troupe`, asked as it asks: all commands and verbs, each option
# that a command's source reads, and what options and places take.
set -eu
source=$(realpath "$1")
PATH=$(realpath "$2"):$PATH
work=$(mktemp -d "${TMPDIR:-/tmp}/troupe-completion-XXXXXX")
trap 'rm -rf "$work"' EXIT
status=0
checked=0
# shellcheck disable=SC1091
. "$source/tools/completion.bash"
[ "$(complete -p troupe)" = "complete -F _troupe troupe" ] || { echo "bash has no completion of troupe"; exit 1; }

# offers WORD...: what is offered for the last word, in one line. bash takes "=" for a word of its own.
offers() {
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    COMPREPLY=()
    _troupe
    echo "${COMPREPLY[*]}"
}
expect() {
    local wanted=$1 found
    shift
    found=$(offers "$@")
    [ "$found" = "$wanted" ] || { echo "$* is completed by '$found', expected '$wanted'"; status=1; }
}
cd "$work"
mkdir runs runs/first models 'a folder'
touch rates.csv

commands=$(sed -n 's/^    {"\([a-z]*\)", .*/\1/p' "$source/tools/troupe.c")
[ "$(echo "$commands" | wc -l)" -gt 6 ] || { echo "tools/troupe.c lists too few commands: $commands"; exit 1; }
for command in $commands; do
    # shellcheck disable=SC2046
    expect "$(echo $(echo "$commands" | grep "^$command"))" troupe "$command" # "serve" begins "server", too.
    # Each long option of the command's table, which stands in its function where a file has several commands.
    file=$(grep -lE "^int (tool|program)_$command\\(int argc" "$source"/tools/*.c "$source"/server/*.c) ||
        { echo "no source has the command $command"; exit 1; }
    # shellcheck disable=SC2013
    for option in $(awk -v start="^int (tool|program)_$command\\\\(" '
        /^int (tool|program)_[a-z]+\(/ { commands++; within = $0 ~ start }
        { all = all $0 "\n"; if (within) own = own $0 "\n" }
        /^}/ { within = 0 }
        END { printf "%s", (commands > 1 ? own : all) }' "$file" |
        grep -o '{"[a-z0-9-]*", \(no\|required\)_argument' | cut -d'"' -f2); do
        checked=$((checked + 1))
        case " $(offers troupe "$command" "--$option") " in
        *" --$option "*) ;;
        *) echo "--$option of troupe $command is not offered"; status=1 ;;
        esac
    done
done
[ $checked -gt 40 ] || { echo "only $checked options were found in the sources"; status=1; }
# shellcheck disable=SC2086
expect "$(echo --help --version $commands)" troupe ""
expect "train" troupe tr
expect "--resources --restarts --resume" troupe train --res
expect "list show alias delete export import gc" troupe models ""
expect "export" troupe models --json ex
expect "make show export import" troupe keys ""
expect "start stop status gc link" troupe server ""
expect "--help --public" troupe keys export --
# What options take: a folder, a file, nothing to choose from.
expect "runs" troupe train --storage ru
expect "runs" troupe train --storage = ru
expect "" troupe train --ranks ""
expect "runs/first" troupe report runs/f
expect "rates.csv" troupe report -o ra
expect "report best export train-best" troupe tune ""
expect "runs/first" troupe tune report runs/f
expect "a folder" troupe models import "a f"
expect "models" troupe models -r mod
# What a program that is trained takes is not known; its files are offered, and no options.
expect "rates.csv" troupe train -n 2 -- python3 rat
expect "" troupe train true --re
# The keys of a repository, as the command lists them.
cat >listing <<'END'
#!/bin/sh
case "$*" in
"models list") ;;
jobs) printf '   job  name   state\n    12  net    RUNNING\n    17  net    QUEUED\n'; exit ;;
"stop --help") printf 'usage: troupe stop [--now] JOB...\n\n  --now   kills them\n'; exit ;;
"modify --help")
    printf 'usage: troupe modify JOB NAME=VALUE...\n\n  priority=N   higher first\n  ranks=N  how many\n'
    exit
    ;;
*) exec troupe "$@" ;;
esac
printf 'key      versions   newest\ndigits          2   3\ndigests         1   1\nnets            1   1\n'
END
chmod +x listing
expect "digits digests" ./listing models show dig
expect "nets" ./listing models import runs n
# Numbers of jobs, also of more than one; names that may be assigned to.
expect "12 17" ./listing stop ""
expect "17" ./listing stop --now 12 17
expect "priority= ranks=" ./listing modify 12 ""
expect "ranks=" ./listing modify 12 priority = 3 ran
expect "" ./listing modify 12 priority = ""

[ $status -eq 0 ] && echo "bash completes troupe"
exit $status
