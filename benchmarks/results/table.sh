#!/bin/sh
# table.sh FILE.jsonl: the figures of a result file as a table in Markdown, the last one of each
# name. A ratio above 1 means that Troupe is better.
awk '
function field(key,    at, rest) {
    at = index($0, "\"" key "\": ")
    if (!at) return ""
    rest = substr($0, at + length(key) + 4)
    if (rest ~ /^"/) { rest = substr(rest, 2); sub(/".*/, "", rest) }
    else sub(/[,}].*/, "", rest)
    return rest == "null" ? "" : rest
}
# Three digits are all that a virtual machine says.
function short(text,    value) {
    if (text == "") return "missing"
    value = text + 0
    if (value >= 1e6) return sprintf("%.4g M", value / 1e6)
    if (value >= 1e4) return sprintf("%.4g k", value / 1e3)
    return sprintf("%.3g", value)
}
function spread(value, low, high) {
    if (value == "" || low == "") return short(value)
    return short(value) " (" short(low) "–" short(high) ")"
}
field("machine") != "" && !titled {
    titled = 1
    printf "%s, %s CPUs, Linux %s, commit %s, %s, load %s.\n\n", field("machine"), field("cpus"),
        field("kernel"), field("commit"), field("when") field("date"), field("load")
    print "| figure | unit | Troupe | best peer | ratio | other peer | ratio |"
    print "|---|---|---|---|---|---|---|"
    next
}
field("unit") != "" && field("name") != "machine" {
    name = field("name")
    if (!(name in line)) order[++count] = name
    value = spread(field("value"), field("min"), field("max"))
    if (field("p99") != "") value = value "; p99 " short(field("p99")) ", p999 " short(field("p999"))
    peer = ratio = other = other_ratio = ""
    if (field("peer") != "") {
        peer = field("peer") ": " spread(field("peer_value"), field("peer_min"), field("peer_max"))
        ratio = field("ratio") == "" ? "" : "**" short(field("ratio")) "**"
    }
    if (field("p_worse") != "") ratio = field("note") # What a test says of two samples.
    if (field("unit") == "share") peer = field("note")
    if (field("other") != "") {
        other = field("other") ": " short(field("other_value"))
        other_ratio = field("other_ratio") == "" ? "" : short(field("other_ratio"))
    }
    line[name] = "| `" name "` | " field("unit") " | " value " | " peer " | " ratio " | " other " | " other_ratio " |"
}
END { for (i = 1; i <= count; i++) print line[order[i]] }
' "$1"
