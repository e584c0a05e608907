#!/bin/sh
# browser.sh TOOL: has a browser open a run's report: its script runs without an error, shows a value below the
# pointer and where the arrow keys lead, and what is chosen is what is drawn. Debian's package chromium.
set -eu
tool=$1
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [ -z "$browser" ]; then
    echo "SKIPPED: no browser opens the report of a run, since there is none here (Debian's package chromium)"
    exit 77
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/troupe-browser-XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/run"
echo '{"version": 1, "program": "p", "trainer": "fit", "options": {"ranks": 2}}' >"$work/run/run.json"
awk 'BEGIN {
    print "{\"event\": \"open\", \"epoch\": 1}"
    for (i = 1; i <= 100; i++)
        printf "{\"event\": \"report\", \"report\": %d, \"elapsed_s\": %d, \"metrics\": {\"loss\": %.6f}}\n",
            i, i, 1 / i
}' >"$work/run/journal.jsonl"
"$tool" report -o "$work/page.html" "$work/run" >/dev/null

# What a person would do, and what is to be seen then, as an attribute of the page.
cat >"$work/person" <<'END'
<script>
var card = document.querySelector('figure'), tip = card.querySelector('.tip');
function shown() {
  return Array.prototype.filter.call(card.querySelectorAll('svg'), function (svg) {
    return svg.getClientRects().length > 0;
  });
}
function state() {
  return shown().map(function (svg) { return svg.getAttribute('class'); }).join('+') + ':' + tip.textContent;
}
function point() {
  var svg = shown()[0], box = svg.getBoundingClientRect();
  var x = box.left + box.width * (62 + 406 * 0.5) / 480;
  svg.dispatchEvent(new PointerEvent('pointermove', {clientX: x, clientY: box.top + 9, bubbles: true}));
}
var seen = [];
point(); seen.push(state());
document.getElementById('by-time').click(); document.getElementById('log').click();
point(); seen.push(state());
card.focus(); card.dispatchEvent(new KeyboardEvent('keydown', {key: 'End'})); seen.push(state());
card.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'})); seen.push(String(tip.hidden));
document.body.setAttribute('data-seen', seen.join(' | '));
</script>
END
sed "/<\/body>/{
r $work/person
d
}" "$work/page.html" >"$work/visited.html"
HOME=$work timeout 60 "$browser" --headless=new --no-sandbox --disable-gpu --user-data-dir="$work/profile" \
    --dump-dom "file://$work/visited.html" >"$work/dom" 2>"$work/log" || { tail "$work/log"; exit 1; }
got=$(sed -n 's/.*data-seen="\([^"]*\)".*/\1/p' "$work/dom")
echo "seen: $got"
reports='by-reports linear:0\.0[12][0-9]*report 5[01]' seconds='by-time log:0\.02[0-9]*\(49\|50\)\.[0-9] s'
echo "$got" | grep -qx "$reports | $seconds | by-time log:0\.011 min 40 s | true" || {
    echo "expected the value at report 50 or 51, at 50 s, the last one, and nothing"
    exit 1
}
