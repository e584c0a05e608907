# header.awk: a public header as a manual page; see headers.sh. Comments become text, declarations
# stay as they are. -v page= name= version= names= (a file for the names that it declares)

function escape(text) {
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    return text
}
# A line of text or code: it must not begin as a request does.
function put(text) {
    text = escape(text)
    if (text ~ /^[.']/)
        text = "\\&" text
    print text
}
function leave() {
    if (mode == "code" || mode == "sample")
        print ".EE"
    mode = ""
}
function begin(wanted) {
    if (mode == wanted)
        return
    leave()
    if (wanted == "text")
        print ".PP"
    else if (wanted == "sample")
        print ".PP\n.EX"
    else
        print ".PP\n.EX"
    mode = wanted
}
# A declared name: of a function, or of a macro that is not an inner one.
function declare(symbol) {
    if (symbol !~ /_$/ && symbol ~ /^(troupe|TROUPE)_/ && !(symbol in known)) {
        known[symbol] = 1
        print symbol > names
    }
}
function text_line(line) {
    if (line == "") {
        leave()
        return
    }
    if (line ~ /^    /) {
        begin("sample")
        put(line)
        return
    }
    if (mode == "sample" || (line ~ /^- /))
        leave()
    begin("text")
    put(line)
}
function code_line(line,    symbol) {
    gsub(/TROUPE_API |TROUPE_MUST_USE /, "", line)
    sub(/^extern /, "", line)
    sub(/TROUPE_EXPERIMENTAL /, "", line)
    sub(/ *__attribute__\(\(.*\)\)/, "", line)
    sub(/ *TROUPE_PRINTF\([^)]*\)/, "", line)
    if (line == "" && mode != "code")
        return
    if (match(line, /troupe_[a-z0-9_]+\(/) && line !~ /^ / && line !~ /^static / && !in_body)
        declare(substr(line, RSTART, RLENGTH - 1))
    if (line ~ /^const troupe_[a-z]+ troupe_[a-z0-9_]+;$/) { # A table.
        sub(/;$/, "", line)
        declare(substr(line, match(line, /troupe_[a-z0-9_]+$/)))
        line = line ";"
    }
    begin("code")
    put(line)
}

BEGIN {
    printf "" > names
    print ".TH " toupper(page) " 3 \"\" \"Troupe " version "\" \"Troupe\""
    print ".SH NAME"
}
# A second file (detail/class.h) goes on where the first one ended, with what it has for users.
FNR == 1 && NR > 1 { passing = 1 }
/^\/\/ ---- a class/ { passing = 0 }
passing { next }
# The head: "// actor.h: what it is. More."
NR == 1 {
    sub(/^\/\/ [a-z_]+\.h: */, "")
    head = $0
    next
}
head != "" {
    if ($0 ~ /^\/\/ ?[^ ]/ || ($0 ~ /^\/\/ [^ ]/)) {
        line = $0
        sub(/^\/\/ ?/, "", line)
        head = head " " line
        next
    }
    rest = ""
    if (match(head, /\. /)) {
        rest = substr(head, RSTART + 2)
        head = substr(head, 1, RSTART - 1)
    }
    sub(/\.$/, "", head)
    print page " \\- " escape(head)
    print ".SH SYNOPSIS\n.EX\n#include <troupe/" name ".h>\n.EE\n.SH DESCRIPTION"
    if (rest != "")
        put(rest)
    head = ""
}
skipping {
    skipping = /\\$/
    next
}
/^#(ifndef|endif|ifdef|else|if|undef|include|pragma)/ || /^TROUPE_(BEGIN|END)_C$/ || /clang-format o/ { next }
/^#define/ {
    skipping = /\\$/
    if (!match($0, /^#define [A-Za-z_0-9]+/))
        next
    symbol = substr($0, 9, RLENGTH - 8)
    if (symbol ~ /_$/ || symbol ~ /_H$/ || symbol ~ /^troupe_type_/)
        next
    declare(symbol)
    line = $0
    if (match(line, /^#define [A-Za-z_0-9]+\([^)]*\)/))
        line = substr(line, 1, RLENGTH) # What it stands for concerns nobody.
    sub(/ *\\$/, "", line)
    begin("code")
    put(line)
    next
}
/^\/\/ ---- / {
    leave()
    line = toupper(substr($0, 9))
    sub(/[:;.].*/, "", line)
    print ".SH " escape(line)
    rest = substr($0, 9)
    if (rest ~ /[:;.] /)
        put(rest)
    next
}
/^\/\// {
    sub(/^\/\/ ?/, "")
    if (mode == "code")
        leave()
    text_line($0)
    next
}
/^$/ {
    leave()
    next
}
{ code_line($0) }
END {
    leave()
    print ".SH SEE ALSO"
    print ".BR troupe (3),"
    print ".BR troupe (1)"
}
