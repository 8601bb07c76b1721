"""The map of a fleet of 4,000 nodes, opened in a real browser: every cell is there, no letter leaves its cell, no name its
box, and everything can be read, in light and in dark; and each pool has a letter of its own in every cell, so that it
reads without colour too.

    python3 tests/python/map.py target/debug/tidewright chromium

The page judges itself: a script behind it measures what the browser has laid out and writes what is wrong into the page,
which the browser prints. Nothing but Python and a browser of the Chromium family is needed.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

NODES = 4000
POOLS = [1390, 500, 400, 300, 250, 200, 180, 150, 120, 100, 90, 80, 60, 50, 40, 30, 20, 20, 10, 10]
API = "apiVersion: tidewright.dev/v1alpha1"

# What WCAG asks of text, and of lines that mean something.
LEAST = {"text": 4.5, "line": 3.0}

JUDGE = """
<script>
const wrong = [];
const say = what => { if (wrong.length < 20) wrong.push(what); };
const rgb = text => (text.match(/[\\d.]+/g) || [0, 0, 0]).map(Number);
const light = ([r, g, b]) => [r, g, b]
  .map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
const contrast = (a, b) => {
  const [high, low] = [light(rgb(a)), light(rgb(b))].sort((x, y) => y - x);
  return (high + 0.05) / (low + 0.05);
};
const inside = (a, b) => a.left >= b.left - 0.5 && a.right <= b.right + 0.5 && a.top >= b.top - 0.5 && a.bottom <= b.bottom + 0.5;
const fill = of => getComputedStyle(of).fill;
const map = document.querySelector("svg");
// In its own size, and not as small as the window makes it: a reader scrolls.
map.style.maxWidth = "none";
const whole = map.getBoundingClientRect();
const cells = [...map.querySelectorAll("rect.cell")];
const named = [...map.querySelectorAll("g > title")].filter(title => title.textContent.startsWith("gpu-"));
const seen = new Set();
for (const cell of cells) {
  const mark = cell.parentElement.querySelector(".mark");
  if (!inside(cell.getBoundingClientRect(), whole)) say("a cell is outside of the map");
  if (!mark) continue;
  if (!inside(mark.getBoundingClientRect(), cell.getBoundingClientRect())) say(`${mark.textContent} leaves its cell`);
  for (const behind of [cell, ...cell.parentElement.querySelectorAll(".to")]) {
    const key = fill(behind) + fill(mark);
    if (seen.has(key)) continue;
    seen.add(key);
    if (contrast(fill(behind), fill(mark)) < LEAST.text) say(`${mark.textContent} is ${fill(mark)} on ${fill(behind)}`);
  }
}
for (const box of map.querySelectorAll("rect.box")) {
  const name = box.nextElementSibling;
  if (!inside(name.getBoundingClientRect(), box.getBoundingClientRect())) say(`${name.textContent} leaves its box`);
  if (contrast(fill(box), fill(name)) < LEAST.text) say(`names are ${fill(name)} on ${fill(box)}`);
}
const free = cells.find(cell => cell.className.baseVal === "cell");
if (free && contrast(getComputedStyle(free).stroke, fill(free)) < LEAST.line) say("a free cell has no edge that can be seen");
const paper = getComputedStyle(document.body).backgroundColor;
if (contrast(getComputedStyle(document.body).color, paper) < LEAST.text) say("the words cannot be read");
// Without colour letters alone tell who has a node, or gets it: one letter for each pool, one pool for each letter.
const letters = new Map(), owners = new Map();
for (const title of named) {
  const pool = title.textContent.match(/(?:pool|goes to) (pool-[0-9]+)/g)?.pop().split(" ").pop();
  const letter = title.parentElement.querySelector(".mark")?.textContent.replace(/.*→/, "");
  if (!pool || !letter) { say(`${title.textContent}: no letter`); continue; }
  if ((letters.get(pool) || letter) !== letter || (owners.get(letter) || pool) !== pool) say(`${letter} is not ${pool} alone`);
  letters.set(pool, letter);
  owners.set(letter, pool);
}
const told = { pools: owners.size, named: named.length, dark: light(rgb(fill(map.querySelector("rect.box")))) < 0.2, wrong };
const out = document.createElement("pre");
out.id = "judged";
out.textContent = JSON.stringify(told);
document.body.append(out);
</script>
"""


def fleet(directory):
    rows = ["node,spine,block,leaf"]
    for at in range(NODES):
        spine, block, leaf = at // 1024, at // 128 % 8, at // 16 % 8
        rows.append(f"gpu-{at:04},s{spine},s{spine}-b{block},s{spine}b{block}-l{leaf}")
    (directory / "fabric.csv").write_text("\n".join(rows) + "\n")
    documents = [
        f"{API}\nkind: Fleet\nmetadata: {{name: own}}\nspec:\n  timeZone: UTC\n  cloud: {{none: {{}}}}\n"
        "  kubernetes: {sim: {}}\n  hardware: [{name: hgx-h100, gpu: h100-sxm, gpus: 8}]\n  fabric:\n"
        "    levels: [{name: spine}, {name: block}, {name: leaf}]\n    declared: {file: fabric.csv}\n"
    ]
    for at, nodes in enumerate(POOLS):
        documents.append(
            f"{API}\nkind: NodePool\nmetadata: {{name: pool-{at:02}}}\nspec:\n  instanceType: hgx-h100\n  nodes: {nodes}\n"
            "  capacity: [{existing: {labels: {example.com/gpu: h100}}}]\n  placement: {together: block}\n"
        )
    (directory / "fleet.yaml").write_text("---\n".join(documents))


def judged(browser, directory, page, flags):
    """What the page says of itself, as this browser lays it out."""
    with tempfile.TemporaryDirectory() as profile:
        quiet = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
        quiet += ["--disable-background-networking", "--disable-component-update", f"--user-data-dir={profile}"]
        command = [browser, *quiet, *flags, "--window-size=1280,1024", "--dump-dom", page.as_uri()]
        run = subprocess.run(command, capture_output=True, text=True, timeout=180, cwd=directory)
    found = re.search(r'<pre id="judged">(.*?)</pre>', run.stdout, re.S)
    assert found, f"the browser says nothing: {run.stderr[-2000:]}"
    return json.loads(found[1].replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&"))


def main(program, browser):
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        fleet(directory)
        run = subprocess.run([program, "place", ".", "--output", "html"], capture_output=True, text=True, cwd=directory)
        assert run.returncode in (0, 2), run.stderr
        page = directory / "map.html"
        page.write_text(run.stdout + JUDGE.replace("LEAST.", f"({json.dumps(LEAST)})."))
        ways = {
            "light": (["--blink-settings=preferredColorScheme=1"], False),
            "dark": (["--force-dark-mode", "--blink-settings=preferredColorScheme=0"], True),
        }
        for way, (flags, dark) in ways.items():
            told = judged(browser, directory, page, flags)
            assert told["wrong"] == [], f"{way}: {told['wrong']}"
            assert told["named"] == sum(POOLS) == NODES, f"{way}: {told['named']} nodes"
            assert told["pools"] == len(POOLS), f"{way}: {told}"
            assert told["dark"] == dark, f"{way}: the page is not"
            print(f"{way}: {told['named']} nodes of {told['pools']} pools can be read")


if __name__ == "__main__":
    main(str(pathlib.Path(sys.argv[1]).resolve()), sys.argv[2])
