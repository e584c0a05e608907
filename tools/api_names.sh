#!/bin/sh
# api_names.sh FOLDER: the public names that the headers in FOLDER/include/troupe declare, one a line,
# sorted: functions, macros, types, values of enumerations, and fields of structs ("S.field"). Names
# that end with an underscore are nobody's but the library's.
set -eu
cd "$1/include/troupe"
sed 's://.*$::' -- *.h detail/*.h | awk '
function say(name) {
    if (name ~ /^(troupe_|TROUPE_)/ && name !~ /_$/ && name !~ /_H$/ && name !~ /_\./)
        print name
}
# The fields of a body between braces, inner ones first.
function fields(of, body, n, i, m, j, part, parts, names, name) {
    while (match(body, /\{[^{}]*\}/))
        body = substr(body, 1, RSTART - 1) substr(body, RSTART + RLENGTH)
    n = split(body, parts, ";")
    for (i = 1; i <= n; i++) {
        part = parts[i]
        if (match(part, /\(\*[a-z_0-9]+\)/)) {
            name = substr(part, RSTART + 2, RLENGTH - 3)
            if (name !~ /_$/)
                say(of "." name)
            continue
        }
        gsub(/\[[^]]*\]/, "", part)
        m = split(part, names, ",")
        for (j = 1; j <= m; j++) {
            name = names[j]
            gsub(/[ *]+$/, "", name)
            sub(/.*[ *]/, "", name)
            if (name ~ /^[a-z][a-z_0-9]*$/ && name !~ /_$/)
                say(of "." name)
        }
    }
}
function values(body, n, i, name, parts) {
    n = split(body, parts, ",")
    for (i = 1; i <= n; i++) {
        name = parts[i]
        sub(/=.*/, "", name)
        gsub(/[^A-Za-z0-9_]/, "", name)
        say(name)
    }
}
{
    while ($0 ~ /\\$/) {
        line = $0
        sub(/[ ]*\\$/, "", line)
        if ((getline more) <= 0)
            more = ""
        $0 = line " " more
    }
}
/^#define / {
    name = $2
    sub(/\(.*/, "", name)
    say(name)
    if (name == "TROUPE_STATUS_MAP")
        while (match($0, /X\([A-Z_]+,/)) {
            say("TROUPE_" substr($0, RSTART + 2, RLENGTH - 3))
            $0 = substr($0, RSTART + RLENGTH)
        }
    next
}
/^#/ { next }
{ text = text " " $0 }
END {
    while (match(text, /enum [a-z_]*[ ]*\{[^{}]*\}/)) {
        body = substr(text, RSTART, RLENGTH)
        name = body
        sub(/^enum /, "", name)
        sub(/[ ]*\{.*/, "", name)
        if (name != "")
            say(name)
        sub(/^[^{]*\{/, "", body)
        sub(/\}$/, "", body)
        values(body)
        text = substr(text, 1, RSTART - 1) " " substr(text, RSTART + RLENGTH)
    }
    rest = text
    while (match(rest, /struct troupe_[a-z_]* \{/)) {
        name = substr(rest, RSTART + 7, RLENGTH - 9)
        rest = substr(rest, RSTART + RLENGTH)
        depth = 1
        for (i = 1; depth > 0 && i <= length(rest); i++) {
            c = substr(rest, i, 1)
            depth += c == "{" ? 1 : c == "}" ? -1 : 0
        }
        say(name)
        fields(name, substr(rest, 1, i - 2))
        rest = substr(rest, i)
    }
    rest = text
    while (match(rest, /TROUPE_STRUCT\(troupe_[a-z_]*/)) {
        say(substr(rest, RSTART + 14, RLENGTH - 14))
        rest = substr(rest, RSTART + RLENGTH)
    }
    rest = text
    while (match(rest, /TROUPE_(API|EXPERIMENTAL) [^;(]*\(/)) {
        name = substr(rest, RSTART, RLENGTH - 1)
        sub(/.*[ *]/, "", name)
        say(name)
        rest = substr(rest, RSTART + RLENGTH)
    }
    rest = text
    while (match(rest, /typedef struct troupe_[a-z_]* troupe_[a-z_]*;/)) {
        name = substr(rest, RSTART, RLENGTH - 1)
        sub(/.* /, "", name)
        say(name)
        rest = substr(rest, RSTART + RLENGTH)
    }
}' | LC_ALL=C sort -u
