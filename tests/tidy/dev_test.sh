#!/bin/sh
# dev_test.sh SOURCE: what ./dev does before it builds: its help, and what a benchmark is asked for.
# It runs in a folder of its own, where everything that it would install or build with only says so.
set -eu
work=$(mktemp -d "${TMPDIR:-/tmp}/troupe-dev-test-XXXXXX")
trap 'rm -rf "$work"' EXIT
status=0
# Also where it wants Debian's own Python.
sed 's,/usr/bin/python3,python3,' "$1/dev" >"$work/dev"
mkdir "$work/bin"
for tool in cmake ctest apt-get sudo python3; do
    cat >"$work/bin/$tool" <<END
#!/bin/sh
echo "$tool \$*" >>"$work/ran"
exit 1
END
    chmod +x "$work/bin/$tool"
done
# Debian says that everything is installed.
cat >"$work/bin/dpkg-query" <<END
#!/bin/sh
echo "dpkg-query \$*" >>"$work/ran"
printf installed
END

# dev ARGUMENT...: what it says is in out, what it ran in ran.
dev() {
    : >"$work/ran"
    (cd "$work" && PATH=$work/bin:$PATH sh ./dev "$@") >"$work/out" 2>&1 </dev/null
}
complain() {
    echo "$1"
    cat "$work/out" "$work/ran"
    status=1
}

for command in demo test bench check install build symbols help; do
    for flag in --help -h; do
        dev $command $flag || complain "./dev $command $flag failed"
        [ ! -s "$work/ran" ] || complain "./dev $command $flag did something"
        grep -q "^\./dev $command " "$work/out" || complain "./dev $command $flag does not say how it is used"
        ! grep '^\./dev' "$work/out" | grep -vq "^\./dev $command " || complain "./dev $command $flag says more"
    done
done

for order in 'actors --save quick' 'actors quick --save' 'first --quick --save' '--save --quick'; do
    # shellcheck disable=SC2086
    ! dev bench $order || complain "./dev bench $order did not fail"
    grep -q 'quick run' "$work/out" || complain "./dev bench $order does not say why"
    [ ! -s "$work/ran" ] || complain "./dev bench $order did something"
done

# peers WANTED ARGUMENT...: whether a benchmark is built with peers in other languages.
peers() {
    wanted=$1
    shift
    ! dev bench "$@" || complain "./dev bench $* built without cmake"
    grep -q "^cmake .*-DTROUPE_PEERS=$wanted" "$work/ran" || complain "./dev bench $*: peers are not $wanted"
}
peers ON
peers ON --save
peers ON actors quick
peers ON objects quick
peers OFF call
[ $status -eq 0 ] && echo "./dev does what its help says"
exit $status
