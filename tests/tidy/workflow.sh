#!/bin/sh
# workflow.sh SOURCE: each workflow for hosted runners can be read, and what its jobs run is here:
# files that can be executed, and commands that ./dev has.
set -eu
cd "$1"
work=$(mktemp -d "${TMPDIR:-/tmp}/troupe-workflow-XXXXXX")
trap 'rm -rf "$work"' EXIT
status=0
complain() {
    echo "$1"
    status=1
}
if ! python3 -c 'import yaml' 2>/dev/null; then
    echo "SKIPPED: workflows are not read, since PyYAML is missing here (Debian's package python3-yaml)"
    exit 0
fi
# A line for each thing that is run, "NAME TAB RUNNER TAB COMMAND", whatever job or matrix it is of.
cat >"$work/list.py" <<'END'
import re, sys, yaml

for path in sys.argv[1:]:
    with open(path) as file:
        flow = yaml.safe_load(file)
    assert set(flow) >= {"name", "jobs"} and (True in flow or "on" in flow), path + ": no name, on or jobs"
    for name, job in flow["jobs"].items():
        assert job["steps"] and job["runs-on"], name + ": no steps or runner"
        rows = job.get("strategy", {}).get("matrix", {}).get("include", [{}])
        for row in rows:
            def fill(text):
                filled = re.sub(r"\$\{\{ matrix\.(\w+) \}\}", lambda found: row[found.group(1)], text)
                return filled
            for step in job["steps"]:
                assert ("run" in step) != ("uses" in step), name + ": a step runs or uses"
                for line in fill(step.get("run", "")).splitlines():
                    print(row.get("name", name), fill(job["runs-on"]), line, sep="\t")
END
python3 "$work/list.py" .github/workflows/*.yml >"$work/runs" || complain "a workflow cannot be read"

./dev help >"$work/help"
while IFS='	' read -r name _ line; do
    # shellcheck disable=SC2086
    set -- $line
    case $1 in
    ./dev)
        grep -Eq "^\./dev ([a-z]+\|)*$2( |\$)" "$work/help" || complain "$name: ./dev has no command $2"
        [ -z "${3:-}" ] || grep -Eq "^\./dev $2 ([a-z]+\|)*$3(\|| )" "$work/help" ||
            complain "$name: ./dev $2 knows no $3"
        ;;
    */*) [ -x "$1" ] || complain "$name: $1 is not here, or cannot be executed" ;;
    apt-get | git) ;; # Of the system.
    *) complain "$name: what is $1?" ;;
    esac
done <"$work/runs"

# wanted NAME PATTERN: a job of that name runs that.
wanted() {
    grep -Eq "^$1	$2" "$work/runs" || complain "no job $1 runs $2"
}
wanted all '[^	]*	\.ci/run$'
wanted clang '[^	]*	\./dev test clang$'
wanted release '[^	]*	\./dev test full$'
wanted arm64 '[^	]*-arm	\./dev test$'
grep -q 'has not run it yet' .github/workflows/ci.yml || complain "ci.yml does not say whether it has been run"
[ $status -eq 0 ] && echo "workflows run what is here"
exit $status
