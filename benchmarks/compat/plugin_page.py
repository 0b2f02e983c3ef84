"""What the plugin's page shows of our files; run by plugin.py in the plugin's environment.

python plugin_page.py ADDRESS CHROMIUM [SCREENSHOTS]
"""

import sys
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, Response, expect, sync_playwright

PAGE = "data/plugin/graph_ascend/index.html"
WAIT = 60_000  # milliseconds
SEARCH, FILTER = "节点列表", "符合精度误差节点"
"""The labels of the lists of found nodes, with their number behind them."""

_WALK = """() => {
    const found = [];
    const walk = node => {
        for (const child of node.childNodes) {
            if (child.nodeType === 3) found.push(child.textContent);
            if (child.value) found.push(child.value);
            if (child.shadowRoot) walk(child.shadowRoot);
            walk(child);
        }
    };
    walk(document.body);
    return found.join(" ");
}"""
"""All texts of the page, also those in elements that hide theirs."""


class Plugin:
    """The page, and what it shows."""

    def __init__(self, page: Page, address: str) -> None:
        self.page, self._address = page, address
        self.errors: list[str] = []
        page.set_default_timeout(WAIT)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("response", self._failed)

    def _failed(self, response: Response) -> None:
        if response.status >= 400:
            self.errors.append(f"{response.status} {response.url}")

    def open(self, run: str, name: str, panes: int) -> None:
        """Open a run; wait until every pane shows a node of this name."""
        self.page.goto(f"{self._address}/{PAGE}")
        self.page.wait_for_load_state("networkidle")
        box = self.page.locator("vaadin-combo-box").first.locator("input")
        if box.input_value() != run:
            box.fill(run)
            box.press("Enter")
        expect(self.node(name)).to_have_count(panes)
        self.page.wait_for_load_state("networkidle")

    def node(self, name: str):
        """The labels of nodes, of the debugged side first."""
        return self.page.locator("svg text").filter(has_text=name, visible=True)

    def expand(self, name: str) -> None:
        self.node(name).first.dblclick(force=True)

    def choose(self, name: str) -> None:
        self.node(name).first.click(force=True)

    def lists(self, label: str):
        """The labels of all lists that begin so."""
        return self.page.locator("label:visible").filter(has_text=label)

    def pick(self, label: str, at: int, name: str) -> None:
        """Choose a node of the list with this label, the `at`th of several."""
        box = self.page.locator("vaadin-combo-box:visible").filter(has=self.page.locator("label", has_text=label))
        field = box.nth(at).locator("input")
        field.fill(name)
        field.press("Enter")

    def count(self, label: str):
        """The label of a list, which ends with the number of its entries."""
        return self.page.locator("label").filter(has_text=label).first

    def table(self) -> str:
        """The text of the lower half, with what stands in the cells of its grids."""
        return self.page.evaluate(_WALK)


def compared(plugin: Plugin) -> None:
    """Two graphs: both panes, expanding together, the table, the stack, search, and the filter by colour."""
    plugin.open("compared", "Cell.fc1.Linear.backward.0", 2)
    plugin.expand("Cell.fc1.Linear.backward.0")
    expect(plugin.node("Dense.0.backward")).to_have_count(2)
    plugin.choose("Dense.0.backward")
    expect(plugin.page.get_by_text("L2norm diff").first).to_be_attached()
    plugin.page.wait_for_timeout(1000)
    text = plugin.table()
    assert "0.02670374885201454" in text, "the greatest value of the incoming gradient, as the dump has it"
    assert "0.026682" in text, "that of the golden"
    plugin.page.locator("#stack-info-tab").click()
    expect(plugin.page.get_by_text("stackInfo").first).to_be_visible()
    assert "x = self.dense(x, self.weight, self.bias)" in plugin.table(), "the stack of the forward call"
    plugin.page.locator("div.color-option").filter(has_text="warning").locator("input").check(force=True)
    expect(plugin.count(FILTER)).to_have_text(f"{FILTER}(1)")
    plugin.page.locator("div.color-option").filter(has_text="pass").locator("input").check(force=True)
    expect(plugin.count(FILTER)).not_to_have_text(f"{FILTER}(1)")
    search(plugin, "relu", 4)  # a cell and its primitive, forward and backward


def search(plugin: Plugin, word: str, number: int) -> None:
    plugin.page.get_by_role("button", name="功能").click()
    box = plugin.page.locator("vaadin-text-field input").first
    box.fill(word)
    box.press("Enter")
    expect(plugin.count(SEARCH)).to_have_text(f"{SEARCH}({number})")


PARTED = 4
"""The cell and the primitive inside, forward and backward, which the page parts together."""


def matching(plugin: Plugin) -> None:
    """Two nodes are parted by hand, and matched again."""
    plugin.open("compared", "Cell.fc1.Linear.forward.0", 2)
    plugin.page.get_by_role("button", name="功能").click()
    expect(plugin.count("调试侧(")).to_have_text("调试侧(0)")  # unmatched, of the debugged side
    total = int(plugin.lists("调试侧(").last.inner_text().strip(")").partition("(")[2])
    for button, at, unmatched in (("取消匹配", -1, PARTED), ("点击匹配", 0, 0)):
        for side in ("调试侧(", "标杆侧("):
            plugin.pick(side, at, "Cell.act.ReLU.forward.0")
        plugin.page.get_by_text(button, exact=True).click()
        expect(plugin.lists("调试侧(").first).to_have_text(f"调试侧({unmatched})")
        expect(plugin.lists("调试侧(").last).to_have_text(f"调试侧({total - unmatched})")


def overflow(plugin: Plugin) -> None:
    """One graph with levels: its calls can be found."""
    plugin.open("overflow", "Module.m.M.forward.0", 1)
    plugin.expand("Module.m.M.forward.0")
    expect(plugin.node("log.0")).to_have_count(1)
    search(plugin, "mul", 4)


def ranks(plugin: Plugin) -> None:
    """Several ranks: a collective says with whom it exchanges and leads there, and both ranks can be chosen."""
    plugin.open("ranks", "Module.m.M.forward.0", 2)
    plugin.expand("Module.m.M.forward.0")
    expect(plugin.node("broadcast.0")).to_have_count(2)
    with plugin.page.expect_response(lambda response: "getNodeInfo" in response.url) as answer:
        plugin.choose("broadcast.0")
    shown = answer.value.text()
    assert "Distributed.broadcast.0.forward" in shown, shown[:300]
    plugin.node("broadcast.0").first.click(button="right", force=True)
    plugin.page.get_by_text("数据发送").hover()
    with plugin.page.expect_response(
        lambda r: "getNodeInfo" in r.url and '"rank":1' in (r.request.post_data or "")
    ) as answer:
        plugin.page.get_by_role("menuitem", name="rank1").click()
    assert "Distributed.broadcast.0.forward" in answer.value.text(), "the partner is chosen there"
    rank = plugin.page.get_by_role("combobox", name="Rank")
    expect(rank).to_have_value("1")
    rank.fill("0")
    with plugin.page.expect_response(
        lambda r: "changeNodeExpandState" in r.url and '"rank":0' in (r.request.post_data or "")
    ):
        rank.press("Enter")
    expect(plugin.node("Module.m.M.forward.0")).to_have_count(2)


def structure(plugin: Plugin) -> None:
    """A dump without values."""
    plugin.open("structure", "Cell.fc1.Linear.forward.0", 1)
    plugin.expand("Cell.fc1.Linear.forward.0")
    expect(plugin.node("Dense.0.forward")).to_have_count(1)


CHECKS: tuple[Callable[[Plugin], None], ...] = (compared, matching, overflow, ranks, structure)


def main() -> int:
    """Ask everything; the exit code."""
    address, chromium, *rest = sys.argv[1:]
    missing = 0
    with sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        expect.set_options(timeout=WAIT)
        for check in CHECKS:
            plugin = Plugin(browser.new_page(viewport={"width": 1600, "height": 1000}), address)
            try:
                check(plugin)
                assert not plugin.errors, plugin.errors
                print(f"shown: {check.__doc__}")
            except Exception as err:  # whatever is missing is told, and the next file is opened
                missing += 1
                print(f"NOT SHOWN: {check.__doc__}\n   {str(err)[:600]}")
            if rest:
                plugin.page.screenshot(path=Path(rest[0]) / f"{check.__name__}.png")
            plugin.page.close()
        browser.close()
    return int(bool(missing))


if __name__ == "__main__":
    sys.exit(main())
