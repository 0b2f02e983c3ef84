"""What `msprobe report` costs beside `msprobe compare`, and how its page opens: markdown tables.

    python benchmarks/report.py [--ranks 64] [--calls 20000] [--rounds 1] [--noise 1e-7] [--keep DIR]

Two folders of one step are written: layers of a cell with calls and a collective inside, forward and backward. All
ranks differ by `--noise`, relative; one is wrong from the middle on. `--noise 0`: only that rank differs. The commands
run in turns, each in processes of its own; of each cell the median over the rounds. CPU seconds and the peak of the
memory are of a command's whole tree of processes (`compat/watch.py`); where others use the machine meanwhile, CPU
seconds say more.

The page is then opened in Chromium five times, and clicked (Playwright is needed). The answer is there when its name is
in the page; a click is answered when what it asks for is. Of the clicks that differ only in what they are on, the
median.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "tests" / "report_verb"))

from large_runs import IN_A_LAYER, write_run  # noqa: E402 - the line above says where it is

WATCH = HERE / "compat" / "watch.py"
OPENED = 5

SEEN = """
window.seen = {};
new MutationObserver(() => {
  for (const selector of [".headline code", ".tree .row.first", ".records"])
    if (!(selector in window.seen) && document.querySelector(selector)) window.seen[selector] = performance.now();
}).observe(document, {childList: true, subtree: true});
"""
"""When the parts of the page are first there, in milliseconds since it was asked for."""

CLICK = """async ([selector, done]) => {
  const element = document.querySelector(selector);
  const tree = document.querySelector(".tree").innerHTML;
  window.isOther = () => document.querySelector(".tree").innerHTML !== tree;
  const before = performance.now();
  element.dispatchEvent(new MouseEvent("click", {bubbles: true}));
  const check = Function(`return ${done}`);
  while (!check()) await new Promise(requestAnimationFrame);
  return performance.now() - before;
}"""

CHOOSE = """async (number) => {
  const select = document.querySelector(".units select");
  const before = performance.now();
  select.value = String(number);
  select.dispatchEvent(new Event("change", {bubbles: true}));
  while (!document.querySelector("#tree")?.getAttribute("aria-label").endsWith(`rank ${number}`))
    await new Promise(requestAnimationFrame);
  return performance.now() - before;
}"""


def write_both(folder: Path, ranks: int, calls: int, noise: float) -> None:
    """Write both sides, where they are not there yet."""
    layers = calls // IN_A_LAYER
    if not (folder / "golden").exists():
        write_run(folder / "golden", ranks, layers)
    if not (folder / "target").exists():
        write_run(folder / "target", ranks, layers, noise=noise, wrong_from=layers // 2, wrong_rank=ranks // 2)


def commands(folder: Path) -> Iterator[tuple[str, list[str], Path]]:
    """The commands by their names, and what each writes."""
    sides, output, page = [str(folder / "target"), str(folder / "golden")], folder / "output", folder / "page.html"
    start = [sys.executable, "-m", "msprobe"]
    yield "compare, csv", [*start, "compare", *sides, "-o", str(output), "--format", "csv"], output
    yield "compare, csv and page", [*start, "compare", *sides, "-o", str(output), "--format", "csv", "--html"], output
    yield "report", [*start, "report", *sides, "-o", str(page)], page


def measured(command: list[str]) -> list[float]:
    """Seconds, CPU seconds and peak MB of one command."""
    watched = [sys.executable, "-I", "-S", str(WATCH), *command]
    done = subprocess.run(watched, capture_output=True, text=True, check=True)
    code, *numbers = map(float, done.stdout.split())
    if code != 1:
        raise SystemExit(f"{' '.join(command)} ended with {code:.0f}, and the two sides differ")
    return numbers


def in_browser(page: Path) -> Iterator[tuple[str, str]]:
    """What a person waits for, and how long."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_context(viewport={"width": 1440, "height": 900}, locale="en-US").new_page()
        tab.set_default_timeout(60_000)
        tab.add_init_script(SEEN)
        opened, whole = [], []
        for _ in range(OPENED):
            tab.goto("about:blank")
            tab.goto(page.as_uri())
            tab.wait_for_selector(".tree .row.first")
            tab.wait_for_selector(".records")
            seen = tab.evaluate("window.seen")
            opened.append(seen[".headline code"] / 1000)
            whole.append(max(seen.values()) / 1000)
        yield "the answer", f"{median(opened):.2f} s"
        yield "the tree and the values of the first wrong call", f"{median(whole):.2f} s"
        yield from clicks(tab)
        begun = time.perf_counter()
        tab.locator("#tab-spread").click()
        tab.wait_for_function("() => !document.querySelector('.spread-part p.quiet')")
        yield "the map of all ranks", f"{time.perf_counter() - begun:.2f} s"
        browser.close()


def clicks(tab: Any) -> Iterator[tuple[str, str]]:
    """Clicks, in milliseconds."""

    def of(selectors: list[str], done: Callable[[str, int], str]) -> str:
        taken = [tab.evaluate(CLICK, [selector, done(selector, at)]) for at, selector in enumerate(selectors)]
        return f"{median(taken):.0f} ms"

    rows = [f"#{row.get_attribute('id')}" for row in tab.locator(".tree .row").all()][3:10]
    chosen = "document.querySelector('{0}.chosen') !== null && document.querySelector('.details .records, .empty')"
    yield "click: a call, with its values", of(rows, lambda selector, _: chosen.format(selector))
    folds = [".tree .row .twist.open", ".tree .row .twist:not(.leaf)"] * 3
    yield "click: fold or unfold", of(folds, lambda *_: "window.isOther()")
    found = "document.querySelector('.found').textContent.includes('of') === "
    chips = [".tools .chip"] * 6
    yield "click: only what differs, or all", of(chips, lambda _, at: found + ("false" if at % 2 else "true"))
    ranks = tab.locator(".units select option").count()
    taken = [tab.evaluate(CHOOSE, number) for number in range(1, ranks, max(ranks // 8, 1))]
    yield "another rank, seen first", f"{median(taken):.0f} ms"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--calls", type=int, default=20_000, help="calls of each rank")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--noise", type=float, default=1e-7)
    parser.add_argument("--only", nargs="+", help="only these commands, by their names")
    parser.add_argument("--page", help="only this page is opened, and no command run")
    parser.add_argument("--keep", help="where the dumps are written, or were before; default: a temporary folder")
    args = parser.parse_args()
    if args.page:
        print_page(Path(args.page))
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(args.keep or scratch)
        write_both(folder, args.ranks, args.calls, args.noise)
        taken: dict[str, list[list[float]]] = {}
        for _ in range(args.rounds):
            for name, command, output in commands(folder):
                if args.only and name not in args.only:
                    continue
                taken.setdefault(name, []).append(measured(command))
                print(f"{name}: {taken[name][-1]}", file=sys.stderr, flush=True)
                if output.is_dir():
                    shutil.rmtree(output)
        print("| command | seconds | CPU s | peak MB |\n|---|---|---|---|")
        for name, rounds in taken.items():
            seconds, cpu, peak = map(median, zip(*rounds, strict=True))
            print(f"| {name} | {seconds:.1f} | {cpu:.1f} | {peak:.0f} |", flush=True)
        print_page(folder / "page.html")


def print_page(page: Path) -> None:
    """Print how a page opens."""
    print(f"\nThe page has {page.stat().st_size / 1e6:.1f} MB.\n\n| | |\n|---|---|")
    for what, how_long in in_browser(page):
        print(f"| {what} | {how_long} |", flush=True)


if __name__ == "__main__":
    main()
