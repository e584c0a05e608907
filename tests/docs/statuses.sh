#!/bin/sh
# statuses.sh SOURCE: docs/statuses.md has a row for each status of include/troupe/status.h and no other.
set -eu
cd "$1"
work=$(mktemp -d "${TMPDIR:-/tmp}/troupe-statuses-XXXXXX")
trap 'rm -rf "$work"' EXIT

sed -n '/define TROUPE_STATUS_MAP/,/^ *\/\/ clang-format on/s/^ *X(\([A-Z_]*\),.*/TROUPE_\1/p' include/troupe/status.h |
    sort >"$work/there"
# shellcheck disable=SC2016
sed -n 's/^| `\(TROUPE_[A-Z_]*\)` .*/\1/p' docs/statuses.md | sort >"$work/listed"
[ -s "$work/there" ] || { echo "status.h has no statuses that statuses.sh can read"; exit 1; }
diff "$work/listed" "$work/there" || {
    echo "docs/statuses.md (<) does not list the statuses of status.h (>)"
    exit 1
}
echo "docs/statuses.md lists all statuses"
