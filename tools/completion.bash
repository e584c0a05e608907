# completion.bash: completes the command `troupe` in bash. Commands, options and what stands behind them are read from
# `troupe --help` and `troupe COMMAND --help`, so that what is offered is what the command in use knows.

# _troupe_grammar COMMAND: reads a command's help, and prints a line for each thing that may follow:
#     option --name WHAT     WHAT is what it takes, or -
#     verb NAME              as "list" of `troupe models list`
#     place NAME N WHAT      what stands at the Nth place behind a verb; NAME is - where there are none; N is "more" of
#                            what may stand there again
#     assign NAME=           what may be assigned to, as "priority=" of `troupe modify`
_troupe_grammar() {
    awk -v command="$1" '
    function options(text, table,    name, what) {
        while (match(text, /(^|[ [,|])--?[a-zA-Z][a-zA-Z0-9-]*/)) {
            name = substr(text, RSTART, RLENGTH)
            text = substr(text, RSTART + RLENGTH)
            sub(/^[ [,|]/, "", name)
            what = table && match(text, /^[ =][A-Z][A-Z:=]*/) ? substr(text, 2, RLENGTH - 1) : "-"
            if (what != "-" || !(name in takes)) takes[name] = what
            last = name
        }
    }
    function usage(line,    count, word, i, at, verb, names, verbs) {
        options(line, 0)
        gsub(/ --[a-z][a-z-]* [A-Z][A-Z:=]*/, "", line) # What an option takes has no place.
        gsub(/\[(OPTION|ARGUMENT)\.\.\.\]|\[-[^]]*\]|^usage:/, "", line)
        gsub(/[][]/, " ", line)
        count = split(line, word, " ")
        if (word[1] != "troupe" || word[2] != command) return
        verbs = 1
        names[1] = "-"
        at = 3
        if (count >= 3 && word[3] ~ /^[a-z-]+([|][a-z-]+)*$/) {
            verbs = split(word[3], names, "|")
            at = 4
        }
        for (verb = 1; verb <= verbs; verb++) {
            if (names[verb] != "-" && !seen[names[verb]]++) print "verb", names[verb]
            n = 0
            for (i = at; i <= count; i++) if (word[i] ~ /^[A-Z]/) {
                print "place", names[verb], ++n, word[i]
                if (word[i] ~ /[.][.][.]$/) print "place", names[verb], "more", word[i]
            }
        }
    }
    /^(usage:)? +troupe / { usage($0); next }
    /^ +[a-z]+=/ { sub(/=.*/, "="); print "assign", $1 }
    /^ +-/ {
        # "  -n, --ranks N   processes": the short form takes what the long one does.
        line = $0
        sub(/^ +/, "", line)
        sub(/  .*/, "", line)
        short = match(line, /^-[a-zA-Z],/) ? substr(line, 1, 2) : ""
        options(line, 1)
        if (short != "") takes[short] = takes[last]
    }
    END { takes["--help"] = "-"; for (name in takes) print "option", name, takes[name] }'
}

# _troupe_offer WHAT CUR NAMES: what may stand there.
_troupe_offer() {
    local program=${COMP_WORDS[0]}
    case $1 in
    DIR* | FOLDER* | RUN*)
        mapfile -t COMPREPLY < <(compgen -d -- "$2")
        compopt -o filenames 2>/dev/null
        ;;
    JOB*) # Those that wait or run.
        mapfile -t COMPREPLY < <(compgen -W "$("$program" jobs 2>/dev/null |
            awk '$1 ~ /^[0-9]+$/ { print $1 }')" -- "$2")
        ;;
    NAME=*)
        mapfile -t COMPREPLY < <(compgen -W "$3" -- "$2")
        compopt -o nospace 2>/dev/null
        ;;
    KEY=*) ;; # An environment variable.
    KEY* | REF*)
        mapfile -t COMPREPLY < <(compgen -W "$("$program" models list 2>/dev/null | awk 'NR > 1 { print $1 }')" -- "$2")
        ;;
    PROGRAM*)
        mapfile -t COMPREPLY < <(compgen -c -f -- "$2" | sort -u)
        compopt -o filenames 2>/dev/null
        ;;
    FILE* | CERTIFICATE* | LIB* | ARGUMENT*)
        mapfile -t COMPREPLY < <(compgen -f -- "$2")
        compopt -o filenames 2>/dev/null
        ;;
    *) ;; # A number, a name, a time: nothing to choose from.
    esac
}

_troupe() {
    local program=${COMP_WORDS[0]} cur=${COMP_WORDS[COMP_CWORD]} word what='' verb='' place=0 i=2
    COMPREPLY=()
    [ "$cur" != "=" ] || cur=
    if [ "$COMP_CWORD" -le 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W "--help --version $("$program" --help 2>/dev/null |
            sed -n 's/^  \([a-z][a-z-]*\)  .*/\1/p')" -- "$cur")
        return
    fi
    local command=${COMP_WORDS[1]} kind name rest
    local -A takes=() places=()
    local verbs='' assigned=''
    while read -r kind name rest; do
        case $kind in
        option) takes[$name]=$rest ;;
        verb) verbs="$verbs $name" ;;
        assign) assigned="$assigned $name" ;;
        place) places[$name ${rest%% *}]=${rest#* } ;;
        esac
    done < <("$program" "$command" --help 2>&1 | _troupe_grammar "$command")

    for (( ; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        case $word in
        =) ;;
        --) [ -n "$what" ] || takes=() ;;
        -?*)
            what=${takes[$word]:--}
            [ "$what" != - ] || what=
            continue
            ;;
        *)
            if [ -n "$what" ]; then
                what=
            elif [ -n "$verbs" ] && [ -z "$verb" ]; then
                verb=$word
            else
                place=$((place + 1))
                [ "$command" != train ] || takes=() # What follows belongs to the program.
            fi
            ;;
        esac
    done
    if [ -n "$what" ]; then
        _troupe_offer "$what" "$cur"
    elif [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(printf '%s\n' "${!takes[@]}" | grep '^--' | sort)" -- "$cur")
    elif [ -n "$verbs" ] && [ -z "$verb" ]; then
        mapfile -t COMPREPLY < <(compgen -W "$verbs" -- "$cur")
    elif [ "$command" = train ] && [ "$place" -gt 0 ]; then
        _troupe_offer ARGUMENT "$cur"
    else
        what=${places[${verb:--} $((place + 1))]-${places[${verb:--} more]-}}
        [ "${COMP_WORDS[COMP_CWORD - 1]}" != "=" ] || what= # The value of an assignment.
        _troupe_offer "$what" "$cur" "$assigned"
    fi
}

complete -F _troupe troupe
