#!/usr/bin/env bash
# What a browser makes of the page of examples/plot_training: nothing on its console, curves where the numbers belong, no
# text over another or cut off, at the width of a telephone and of a screen, light and dark. $1: the program.
program="$1"
source "$(dirname "${BASH_SOURCE[0]}")/support/program.sh"
chromium="$(command -v chromium || command -v chromium-browser || command -v google-chrome)" ||
  { echo "skipped: no chromium" && exit 77; }

{
  for step in 0 50 100; do
    echo "{\"step\":$step,\"heldout\":{\"loss\":$((4 - step / 25)),\"accept_length\":$((1 + step / 50)),\"accuracy\":0.5,
\"acceptance\":[0.9,0.8,0.7,0.6,0.5,0.4,0.3,0.2],\"calibration\":{\"ece\":0.1,\"bins\":[{\"count\":1,\"confidence\":0.25,\"accuracy\":0.5}]}}}" |
      tr -d '\n'
    echo
    for more in {1..50}; do
      ((step == 100)) || echo "{\"step\":$((step + more)),\"loss\":1e-3,\"lr\":0.00123,\"grad_norm\":$more,\"skipped\":0,\"seconds\":0.001,\"tokens\":123456}"
    done
  done
} >"$dir/a.jsonl"
tail -1 "$dir/a.jsonl" | sed 's/"step":100/"step":100000/' >"$dir/b.jsonl"
cat >"$dir/decoding.json" <<'END'
{"program":"speculate","plain":{"name":"none"},"drafts":[{"name":"a","all_runs":{"depths":[{"acceptance":0.5},{"acceptance":0}]}}]}
END
odd='<b>&"x a name too long for one line of a narrow page, by far'
"$program" "a=$dir/a.jsonl" "$odd=$dir/b.jsonl" --decoding "$dir/decoding.json" --out "$dir/page.html" >/dev/null || fail "no page"
"$program" "a=$dir/a.jsonl" "other=$dir/a.jsonl" --out "$dir/same.html" >/dev/null || fail "no page of the same run"

# A copy that tells what it sees: its own policy lets nothing run.
cat >"$dir/measure.html" <<'END'
<script>
addEventListener("load", () => {
  const found = [], say = line => found.push(line);
  document.querySelectorAll("details").forEach(details => details.open = true);
  say(`width ${innerWidth} scrolls ${document.documentElement.scrollWidth > innerWidth}`);
  say(`background ${getComputedStyle(document.body).backgroundColor}`);
  const charts = [...document.querySelectorAll("svg.chart")];
  say(`charts ${charts.length} titles ${charts.every(c => c.closest("figure").querySelector("figcaption").textContent)}`);
  say(`alternatives ${charts.every(c => c.getAttribute("role") == "img" && c.getAttribute("aria-label").length > 20)}`);
  say(`names ${[...document.querySelectorAll("thead th")].map(th => th.textContent).slice(0, 3).join("|")}`);
  for (const chart of charts) {
    const title = chart.closest("figure").querySelector("figcaption").textContent;
    const frame = chart.getBoundingClientRect(), scale = frame.width / 480;
    const card = chart.closest("figure").getBoundingClientRect();
    const texts = [...chart.querySelectorAll("text")].map(text => [text.textContent, text.getBoundingClientRect()]);
    for (const [text, box] of texts) {
      if (box.left < card.left || box.right > card.right || box.top < card.top || box.bottom > card.bottom)
        say(`${title}: '${text}' is cut off`);
      if (parseFloat(getComputedStyle(chart).fontSize) * scale < 9.5) say(`${title}: the text is small`);
      for (const [other, at] of texts)
        if (at !== box && box.left < at.right - 1 && at.left < box.right - 1 && box.top + 2 < at.bottom - 2 && at.top + 2 < box.bottom - 2)
          say(`${title}: '${text}' over '${other}'`);
    }
    const curves = [...chart.querySelectorAll("polyline")], seen = new Set();
    for (const curve of curves) {
      const style = getComputedStyle(curve), look = [style.stroke, style.strokeDasharray, style.strokeWidth].join();
      if (seen.has(look) || style.stroke == "none" || style.fill != "none") say(`${title}: a curve like another: ${look}`);
      seen.add(look);
      const box = curve.getBoundingClientRect();
      if (box.left < frame.left - 1 || box.right > frame.right + 1) say(`${title}: a curve is cut off`);
    }
    const dots = [...chart.querySelectorAll("circle")].map(dot => {
      const box = dot.getBoundingClientRect();
      const at = (a, b) => ((a + b) / 2 / scale).toFixed(0);
      return at(box.left - frame.left, box.right - frame.left) + "," + at(box.top - frame.top, box.bottom - frame.top);
    });
    say(`${title}: ${curves.length} curves; ${dots.slice(0, 6).join(" ")}`);
  }
  parent.postMessage("FOUND\n" + found.join("\n") + "\nEND", "*");
});
</script>
END
# In a frame, which may be narrower than a browser's window.
cat >"$dir/frame.html" <<'END'
<!DOCTYPE html><title>frame</title><body><script>
addEventListener("message", event => {
  const out = document.createElement("pre");
  out.textContent = event.data;
  document.body.append(out);
});
const [page, width] = location.hash.slice(1).split(","), frame = document.createElement("iframe");
frame.src = page, frame.width = width, frame.height = 3000, frame.style.border = 0;
document.body.append(frame);
</script>
END
for name in page same; do
  { sed '/Content-Security-Policy/d' "$dir/$name.html" && cat "$dir/measure.html"; } >"$dir/measured_$name.html"
done
echo '<!DOCTYPE html><title>x</title><script>nowhere()</script>' >"$dir/bad.html"

browse() {  # a page, options
  local page="$1"
  shift
  timeout 120 "$chromium" --headless --no-sandbox --disable-gpu --user-data-dir="$dir/profile" --enable-logging=stderr \
    --v=0 "$@" --dump-dom "file://$dir/$page" >"$dir/dom" 2>"$dir/said" || fail "$page: $(tail -5 "$dir/said")"
}
measured() { sed -n '/FOUND$/,/^END/p' "$dir/dom" | sed '1d;$d;s/&lt;/</g;s/&gt;/>/g;s/&amp;/\&/g'; }
look() {  # the width, the browser's options, what is found
  local width="$1" page="$2" found
  browse "frame.html#measured_$page.html,$width" --virtual-time-budget=5000 "${@:4}"
  found="$(measured)"
  ! grep -E "' is cut off|curve is cut off|' over '|the text is small|a curve like another" <<<"$found" || fail "$page at $width"
  # shellcheck disable=SC2053
  [[ "$found" == $3 ]] || fail "$page at $width: found
$found"
}

browse bad.html
grep -q 'CONSOLE.*nowhere is not defined' "$dir/said" || fail "an error does not show on the console: $(cat "$dir/said")"
browse page.html
! grep CONSOLE "$dir/said" || fail "something on the console"
grep -q '<polyline' "$dir/dom" || fail "no curves: $(head -c 1000 "$dir/dom")"

# Steps 0, 50 and 100 of lengths 1, 2 and 3, in a frame from (60, 32) to (460, 242).
same='charts 9 titles true
alternatives true
names |a|other
Loss: 4 curves; 60,32 260,137 460,242 60,32 260,137 460,242
Accept length on held-out text: 2 curves; 60,242 260,137 460,32 60,242 260,137 460,32
Acceptance per depth, last look: 2 curves; 85,53 135,74 185,95 235,116 285,137 335,158
Acceptance per depth: a: 8 curves; 60,53 260,53 460,53 60,74 260,74 460,74
Acceptance per depth: other: 8 curves; *
Calibration on held-out text, last look: 2 curves; 160,137 160,137
Learning rate: 2 curves; 
Gradient norm: 2 curves; 
Throughput: 2 curves; '
look 400 same "width 400 scrolls false
background rgb(243, 244, 246)
$same"
look 1600 same "width 1600 scrolls false
background rgb(16, 18, 22)
$same" --blink-settings=preferredColorScheme=0
# Another name, and numbers of other sizes.
look 400 page "width 400 scrolls false
background rgb(243, 244, 246)
charts 10 titles true
alternatives true
names |a|$odd
Loss: 3 curves; *
Acceptance per depth, decoding: 1 curves; 160,137 360,242"
