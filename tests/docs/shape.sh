#!/bin/sh
# shape.sh SOURCE: the form of the pages: lengths, the headings of internals and decisions, links, and
# the files and names of the API in them. What pages say is for people to judge.
set -eu
cd "$1"
work=$(mktemp -d "${TMPDIR:-/tmp}/troupe-shape-XXXXXX")
trap 'rm -rf "$work"' EXIT
status=0
complain() {
    echo "$*"
    status=1
}
# headings FILE: its headings of the second level in one line.
headings() { sed -n 's/^## //p' "$1" | tr '\n' '|'; }

[ "$(wc -l <README.md)" -le 120 ] || complain "README.md has more than 120 lines"
for page in docs/internals/*/*.md; do
    [ "$(wc -l <"$page")" -le 250 ] || complain "$page has more than 250 lines"
    awk -v page="$page" 'length > 120 { print page ":" FNR " has more than 120 columns"; bad = 1 }
        END { exit bad }' "$page" || status=1
    case $(headings "$page") in
    "Problem|Invariant|Protocol|"*"Failures|Tests|") ;;
    *) complain "$page: expected Problem, Invariant, Protocol, Failures, Tests" ;;
    esac
    grep -qF "(${page#docs/})" docs/README.md || complain "docs/README.md does not list $page"
done
for page in docs/decisions/[0-9]*.md; do
    case $(headings "$page") in
    "Context|Decision|Measured|" | "Context|Decision|Measured|Tried without gain|") ;;
    *) complain "$page: expected Context, Decision, Measured, Tried without gain" ;;
    esac
    grep -qF "(${page##*/})" docs/decisions/README.md || complain "decisions/README.md does not list $page"
done

# Links to files of the tree, and their anchors: headings in small letters, words joined by "-".
find README.md CONTRIBUTING.md CHANGELOG.md docs -name '*.md' >"$work/pages"
while read -r page; do
    grep -o ']([^)]*)' "$page" | sed 's/^](//; s/)$//' | grep -v '^[a-z]*:' >"$work/links" || continue
    while read -r link; do
        file=${link%%#*}
        target=$page
        [ -z "$file" ] || target=$(dirname "$page")/$file
        [ -e "$target" ] || { complain "$page: there is no $link"; continue; }
        case $link in
        *'#'*)
            sed -n 's/^##* //p' "$target" | tr 'A-Z ' 'a-z-' | sed 's/[^a-z0-9_-]//g' |
                grep -qx -- "${link#*#}" || complain "$page: $target has no heading for #${link#*#}"
            ;;
        esac
    done <"$work/links"
done <"$work/pages"

# Files that pages name by their whole path, and pages that sources name.
# shellcheck disable=SC2016
grep -rhoE '`(runtime|actors|train|models|tune|serve|server|launch|tests|tools|cmake|benchmarks|examples)/[a-z_0-9/]+\.[a-z.]+`' docs README.md |
    tr -d '`' | sort -u | while read -r file; do
    [ -e "$file" ] || echo "a page names $file, which is not there"
done >"$work/missing"
# shellcheck disable=SC2016
grep -rhoE '`(runtime|actors|train|models|tune|serve|server|system|examples)/([a-z_]+/)?test_[a-z_]+`' docs/internals docs/verification.md |
    tr -d '`' | sort -u | while read -r test; do
    [ -e "tests/$test.c" ] || echo "a page names tests/$test.c, which is not there"
done >>"$work/missing"
grep -rhoE 'docs/[a-z0-9/_-]+\.(md|c)' runtime actors train models tune serve server launch include tests/runtime tests/actors tests/system tools cmake |
    sort -u | while read -r file; do
    [ -e "$file" ] || echo "a source names $file, which is not there"
done >>"$work/missing"
# Names: those of the public headers, of the library's own, of its variables and of the build.
grep -rohE '\b(troupe|TROUPE|trp|TRP)_[A-Za-z0-9_]+' include runtime actors train models tune serve server launch |
    sort -u >"$work/names"
grep -rohE '\bTROUPE_[A-Z_]+' cmake CMakeLists.txt tests/support docs/environment.md | sort -u >>"$work/names"
sort -u -o "$work/names" "$work/names"
# shellcheck disable=SC2046
grep -ohE '\b(troupe|TROUPE|trp|TRP)_[A-Za-z0-9_]+' $(grep -v '^CHANGELOG' "$work/pages") | sort -u |
    comm -23 - "$work/names" | grep -vE '^(troupe_(array|class)_[a-z]+|TROUPE_[0-9]+)$' |
    sed 's/$/ is named by a page, and is not there/' >>"$work/missing" || true
# shellcheck disable=SC2016,SC2046
grep -ohE '`\.[a-z_]+( =[^`]*)?`' $(grep -v '^CHANGELOG' "$work/pages") | sed 's/`\.\([a-z_]*\).*/\1/' | sort -u |
    while read -r option; do
        grep -qrw "$option" include || echo "a page names the option .$option, which is not there"
    done >>"$work/missing"

# C that a page shows is compiled by a test: tests.cmake and tests/tidy/readme.sh say which pages have some.
while read -r page; do
    case $page in
    README.md | docs/tutorial.md | docs/coming-from-*.md) ;;
    *) ! grep -q '^```c$' "$page" || complain "$page has C that no test compiles" ;;
    esac
done <"$work/pages"
[ ! -s "$work/missing" ] || { cat "$work/missing"; status=1; }
[ $status -eq 0 ] && echo "the pages have their form"
exit $status
