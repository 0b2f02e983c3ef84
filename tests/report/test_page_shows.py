"""The page in a browser: what it shows first, and what a reader does with it."""

import json
import re

import pytest
from playwright.sync_api import expect
from synthetic_networks import Network
from synthetic_reports import FAULT

pytestmark = [pytest.mark.browser, pytest.mark.part(3)]


def chosen(page):
    return page.locator(".details header h2 code").inner_text()


def wait_for_call(page, name):
    page.wait_for_function("name => document.querySelector('.details header h2 code')?.textContent === name", arg=name)


def rows(page):
    return [" ".join(text.split()) for text in page.locator(".tree .row .label").all_inner_texts()]


def in_sight(page, selector):
    """Whether an element is in the window as it opens."""
    box = page.locator(selector).first.bounding_box()
    return box is not None and box["y"] >= 0 and box["y"] + box["height"] <= page.viewport_size["height"]


def test_the_first_wrong_call_is_seen_without_scrolling(opened):
    with opened("compared") as page:
        assert page.locator(".headline code").first.inner_text() == FAULT
        assert in_sight(page, ".headline")
        assert in_sight(page, ".snippet .row.here")
        assert "self.epsilon" in page.locator(".snippet .row.here").inner_text()
        assert page.locator(".reason").inner_text() == "argument differs: input.1 is 0.001, golden 1e-05"
        assert in_sight(page, ".tree .row.first")
        assert page.evaluate("scrollY") == 0
        # Folded to the path that leads there, and its values are shown.
        assert page.locator(".tree .row.first").get_attribute("aria-level") == "3"
        assert page.locator(".tree [aria-expanded=true]").count() == 2
        assert chosen(page) == FAULT
        page.wait_for_selector(".records")
        judged = page.locator(".records tbody.verdict-e").first.inner_text()
        assert "0.001" in judged
        assert "1e-05" in judged
        assert "self.epsilon" in page.locator(".stack-lines").first.inner_text()


def test_how_a_value_was_decided_is_shown_on_request(opened):
    with opened("compared") as page:
        wrong = page.locator(".records tbody.verdict-e", has_text="input.1")
        assert wrong.locator(".decision summary").inner_text() == "How it was decided: the difference begins here"
        assert wrong.locator(".decision li").count() == 0
        wrong.locator(".decision summary").click()
        lines = wrong.locator(".decision li").all_inner_texts()
        assert lines == ["the dataflow: no call that differs produced it", "noise up to 1e-05"]
        assert page.locator(".records .decision").count() == 1


@pytest.mark.parametrize(
    "name", ["Mint.matmul.0.backward", "Cell.blocks.0.Block.backward.0", "Cell.head.Dense.forward.0"]
)
def test_a_call_that_a_link_names_is_in_the_window(opened, name):
    """Also where the tree's own end is below the window, and the call stands there."""
    with opened("compared", f"#call={name}&unit=step0%20rank0", viewport={"width": 1440, "height": 800}) as page:
        wait_for_call(page, name)
        tree = page.locator(".tree").bounding_box()
        assert tree["y"] + tree["height"] > 800
        page.wait_for_function("() => document.querySelector('.tree .row.chosen')")
        assert in_sight(page, ".tree .row.chosen")
        assert page.evaluate("scrollY") == 0


@pytest.mark.parametrize(
    ("name", "headline", "view"),
    [
        ("clean", "no difference beyond noise", "calls"),
        ("dumped", "129 calls", "calls"),
        ("overflowing", "Mint.rsqrt.2.forward", "calls"),
        ("monitored", "blocks.3.attention.out.weight", "curves"),
        ("configured", "learning_rate", "tables"),
        ("flowed", "old_log_prob", "tables"),
        ("proven", FAULT, "tables"),
    ],
)
def test_every_kind_opens_with_its_answer_and_its_data(opened, name, headline, view):
    with opened(name) as page:
        assert headline in page.locator(".answer .headline, .answer .line").first.inner_text()
        assert in_sight(page, ".answer .statement")
        assert page.locator("[role=tab][aria-selected=true]").get_attribute("id") == f"tab-{view}"


def test_a_non_finite_value_is_marked_where_it_was_made(opened):
    with opened("overflowing") as page:
        first = page.locator(".tree .row.first")
        assert first.locator(".overflow.c").count() == 1
        page.locator(".tools .chip", has_text="overflow marks").click()
        network = Network()
        made = network.call("Mint.rsqrt.2.forward")
        expect(page.locator(".found")).to_have_text(f"{len(network.names) - made} of {len(network.names)} calls")
        expect(page.locator(".everywhere .said")).to_contain_text("not all alike")


def test_folding_and_moving_by_keys(opened):
    with opened("compared") as page:
        page.locator(".tree").focus()
        before = rows(page)
        page.keyboard.press("ArrowLeft")  # To the cell around it,
        wait_for_call(page, "Cell.blocks.1.norm2.RMSNorm.forward.0")
        page.keyboard.press("ArrowLeft")  # which is folded,
        expect(page.locator(".tree .row")).to_have_count(len(before) - 5)
        page.keyboard.press("ArrowRight")  # and unfolded.
        expect(page.locator(".tree .row")).to_have_count(len(before))
        assert rows(page) == before
        page.keyboard.press("ArrowDown")
        wait_for_call(page, "Tensor.__mul__.6.forward")
        page.keyboard.press("Home")
        wait_for_call(page, "Cell.embedding.Embedding.forward.0")
        page.keyboard.press("n")
        wait_for_call(page, FAULT)
        page.keyboard.press("n")
        page.wait_for_function(
            "name => document.querySelector('.details header h2 code')?.textContent !== name", arg=FAULT
        )
        page.keyboard.press("p")
        wait_for_call(page, FAULT)
        page.keyboard.press("p")  # There is none before.
        assert chosen(page) == FAULT
        page.keyboard.press("?")
        page.wait_for_selector("dialog[open] kbd")
        page.keyboard.press("Escape")
        expect(page.locator("dialog[open]")).to_have_count(0)


def test_searching_shows_the_calls_and_what_is_around_them(opened):
    with opened("compared") as page:
        page.keyboard.press("/")
        page.keyboard.type("SOFTMAX")
        names = [name for name in Network().names if "softmax" in name]
        expect(page.locator(".found")).to_have_text(f"{len(names)} of 129 calls")
        expect(page.locator(".tree .row:not(.dim)")).to_have_count(len(names))
        page.keyboard.press("Enter")
        wait_for_call(page, "Functional.softmax.0.backward")  # The next one behind the fault.
        page.locator("#search").fill("no such call")
        expect(page.locator(".panes .empty").first).to_have_text("No call is found.")
        page.get_by_role("button", name="Reset").click()
        expect(page.locator(".found")).to_have_text("129 calls")


def test_filters_by_verdict_direction_and_dtype(opened):
    with opened("compared") as page:
        page.locator(".tools .chip", has_text="unmatched").click()
        expect(page.locator(".found")).to_have_text("1 of 129 calls")  # Call 97 is planted.
        page.locator(".tools .chip", has_text="unmatched").click()
        page.locator(".tools select").first.select_option("b")
        backward = Network().directions.count("b")
        expect(page.locator(".found")).to_have_text(f"{backward} of 129 calls")
        page.locator(".tools select").first.select_option("")
        dtype = page.locator("select[aria-label=dtype]")
        dtype.focus()
        page.wait_for_function("() => document.querySelectorAll('select[aria-label=dtype] option').length === 3")
        dtype.select_option("Float16")
        expect(page.locator(".found")).to_have_text("128 of 129 calls")  # The fault's argument is no tensor.


def test_dataflow_leads_to_the_neighbours(opened):
    with opened("compared") as page:
        page.locator(".dataflow li button").last.click()  # What uses its output.
        network = Network()
        after = network.names[network.call(FAULT) + 1]
        wait_for_call(page, after)
        page.locator(".dataflow li button").first.click()
        wait_for_call(page, FAULT)


def test_records_stand_in_the_order_of_a_call(opened):
    with opened("compared", "#call=Cell.blocks.0.Block.forward.0&unit=step0%20rank0") as page:
        wait_for_call(page, "Cell.blocks.0.Block.forward.0")
        page.wait_for_selector(".records")
        assert page.locator(".records .part-title").all_inner_texts() == ["Inputs", "Parameters", "Outputs"]


def test_of_a_call_of_the_golden_alone_nothing_was_measured(opened):
    name = Network().names[97]
    with opened("compared", f"#call={name}&unit=step0%20rank0") as page:
        wait_for_call(page, name)
        page.wait_for_selector(".records")
        assert page.locator(".records tbody.verdict-n").count() >= 2
        assert page.locator(".records .measures").count() == 0
        assert "No recorded call" in page.locator(".dataflow").inner_text()


def test_ranks_and_collectives(opened):
    with opened("compared") as page:
        # One call before the fault, whose numbers stand out on no rank; behind it those of rank 5 do.
        page.wait_for_selector(".everyone .cell")
        assert page.locator(".everyone .cell").count() == 16
        page.locator("#search").fill("all_reduce")
        page.locator(".tree .row:not(.dim)").last.click()
        page.wait_for_selector(".met .partners button")
        page.locator(".met .partners button", has_text="step0 rank5").click()
        page.wait_for_function("() => document.querySelector('.units select').value === '5'")
        assert "all_reduce" in chosen(page)
        page.locator("#tab-spread").click()
        page.wait_for_selector(".map.modules td button")
        page.locator(".map.modules tbody tr").nth(3).locator("td button").first.click()
        page.wait_for_function("() => document.querySelector('.units select').value === '3'")


def test_the_odd_rank_is_called_out(opened):
    with opened("compared", hash="#call=Cell.head.Dense.forward.0&unit=step0%20rank5") as page:
        wait_for_call(page, "Cell.head.Dense.forward.0")
        page.wait_for_selector(".everyone .cell.odd")
        said = page.locator(".everywhere .said").inner_text()
        assert "rank5" in said
        assert "differs from the others" in said
        assert {text for text in page.locator(".everyone .cell.odd .which").all_inner_texts()} == {"5"}


def test_a_link_opens_a_call_and_the_address_follows(opened):
    with opened("compared", hash="#call=Mint.matmul.1.forward&unit=step1%20rank2") as page:
        wait_for_call(page, "Mint.matmul.1.forward")
        assert (
            page.locator(".units select").evaluate("one => one.selectedOptions[0].textContent").endswith("step1 rank2")
        )
        page.locator(".tree").focus()
        page.keyboard.press("ArrowDown")
        page.wait_for_function(
            "() => location.hash.includes('unit=step1%20rank2') && !location.hash.includes('matmul.1.forward')"
        )
        page.evaluate("location.hash = '#call=no.such.call&unit=step0%20rank0'")
        expect(page.get_by_role("alert")).to_have_text("no.such.call is not in step0 rank0.")


def test_the_way_back_leads_to_where_one_jumped_from(opened):
    with opened("compared") as page:
        page.locator(".dataflow li button").last.click()
        network = Network()
        wait_for_call(page, network.names[network.call(FAULT) + 1])
        page.go_back()
        wait_for_call(page, FAULT)


def test_a_mark_of_the_course_is_chosen_by_a_click(opened):
    with opened("compared") as page:
        over = page.locator(".course .u-over").bounding_box()
        for x in range(4, 40, 2):  # Somewhere there is a mark.
            page.mouse.move(over["x"] + over["width"] * x / 100, over["y"] + over["height"] * 0.82)
            if page.locator(".course .hint").inner_text():
                break
        name = page.locator(".course .hint").inner_text().split("  ")[0]
        page.mouse.down()
        page.mouse.up()
        wait_for_call(page, name)


def test_what_is_copied(opened):
    with opened("compared", permissions=["clipboard-read", "clipboard-write"]) as page:
        page.get_by_role("button", name="Copy configuration to collect this call").click()
        page.wait_for_selector("text=Copied")
        config = json.loads(page.evaluate("navigator.clipboard.readText()"))
        assert config["task"] == "tensor"
        assert config["step"] == [0]
        assert config["rank"] == [0]
        assert config["tensor"] == {"list": ["Tensor.__add__.3."]}
        page.locator(".todo .copy").first.click()
        page.wait_for_timeout(50)
        assert page.evaluate("navigator.clipboard.readText()").startswith("msprobe config-check -c ")


def test_chinese_and_english(opened):
    with opened("compared", locale="zh-CN") as page:
        expect(page.locator(".answer h1 > span").last).to_have_text("首个出错的调用")
        assert page.locator(".reason strong").inner_text() == "参数取值不同"
        assert page.evaluate("document.documentElement.lang") == "zh-CN"
        left = page.evaluate("[...document.querySelectorAll('button, th, h2, h3, summary')].map(e => e.textContent)")
        english = [text for text in left if re.search(r"\b(the|of|calls?|ranks?|copy|inputs?)\b", text, re.IGNORECASE)]
        assert not [
            text
            for text in english
            if not re.search(r"[\u4e00-\u9fff]", text) and "." not in text and "rank" not in text
        ]
        page.get_by_role("button", name="English").click()
        expect(page.locator(".answer h1 > span").last).to_have_text("First wrong call")


def test_few_judged_values_are_no_green_answer(opened):
    with opened("hardly_judged") as page:
        assert (
            page.locator(".answer h1 > span").last.inner_text() == "Nothing differs in the few values that were judged"
        )
        assert page.locator(".answer .judged").inner_text() == "12 of 100 values were judged"
        assert page.locator(".answer.unjudged").count() == 1
        assert page.locator(".answer.clean").count() == 0
    with opened("clean") as page:
        assert page.locator(".answer.clean h1 > span").last.inner_text() == "Nothing differs"
        assert page.locator(".answer .judged").inner_text() == "128 of 129 values were judged"


def test_dark_as_the_system_or_by_the_switch(opened):
    with opened("compared", color_scheme="dark") as page:
        color = "() => getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3)"
        assert sum(map(int, page.evaluate(color))) < 150
        page.get_by_role("button", name="Light or dark").click()
        page.wait_for_selector("html[data-theme=light]")
        assert sum(map(int, page.evaluate(color))) > 600


def test_tables_are_sorted_and_filtered(opened):
    with opened("compared") as page:
        page.locator("#tab-tables").click()
        page.wait_for_selector(".table .line")
        page.get_by_role("columnheader", name="Max diff").get_by_role("button").click()
        cells = page.locator(".table .line [role=cell]:nth-child(5)")
        for i, text in enumerate(["0", "0.37", "0.74"]):
            expect(cells.nth(i)).to_have_text(text)
        page.get_by_role("columnheader", name="Max diff").get_by_role("button").click()
        expect(cells.first).to_have_text("47.36")  # 128 * 0.37
        # The columns of all rows stand below their titles.
        left = "nodes => nodes.map(node => Math.round(node.getBoundingClientRect().left))"
        assert set(cells.evaluate_all(left)) == set(page.locator("[role=columnheader]:nth-child(5)").evaluate_all(left))
        page.get_by_label("Filter rows").fill("softmax")
        expect(page.locator(".table-part .tools .quiet")).to_have_text("4 of 129 rows")


PROOF = {
    "en-US": (
        ["Result of the proof", "Proof by graft", "Further causes 1"],
        ["graft", "loss gap", "gradient gap", "update gap", "closure", "verdict"],
        [f"{FAULT}: forward, backward", "1e-5", "3e-4", "5e-4", "81%", "proven"],
    ),
    "zh-CN": (
        ["证明的结果", "嫁接证明", "其他原因 1"],
        ["嫁接", "loss 差距", "梯度差距", "更新差距", "消除率", "结论"],
        [f"{FAULT}：forward, backward", "1e-5", "3e-4", "5e-4", "81%", "已证实"],
    ),
}


@pytest.mark.parametrize("locale", PROOF)
def test_a_proof_shows_its_causes_and_all_runs_in_both_languages(opened, locale):
    titles, heads, row = PROOF[locale]
    with opened("proven", locale=locale) as page:
        shown = (".answer h1 > span >> nth=-1", ".top .kind", ".folded summary >> nth=0")
        assert [" ".join(page.locator(each).inner_text().split()) for each in shown] == titles
        assert page.locator(".table [role=columnheader]").all_inner_texts() == heads
        rows = page.locator(".table .line")
        assert rows.count() == 3
        assert rows.nth(1).locator("[role=cell]").all_inner_texts() == row
        page.locator("input[type=search]").fill(row[-1])
        expect(rows).to_have_count(2)


def test_curves_show_where_one_leaves_its_band(opened):
    with opened("monitored") as page:
        page.wait_for_selector(".chart canvas")
        assert page.locator(".target.chosen .text").inner_text() == "blocks.3.attention.out.weight"
        assert page.locator(".chart.left").count() == 4  # Four statistics of rank 1.
        assert "outside the band from step 40" in page.locator(".chart").first.inner_text()


@pytest.mark.parametrize(
    ("name", "theme", "tabs"),
    [
        ("compared", "light", ("calls", "spread", "tables")),
        ("compared", "dark", ("calls",)),
        ("monitored", "dark", ("curves",)),
        ("overflowing", "light", ("calls",)),
        ("proven", "light", ("tables",)),
    ],
)
def test_axe_finds_nothing_serious(opened, name, theme, tabs):
    from axe_playwright_python.sync_playwright import Axe

    # A small window: axe takes its time with every row in sight.
    with opened(name, color_scheme=theme, viewport={"width": 1200, "height": 600}) as page:
        for tab in tabs:
            page.locator(f"#tab-{tab}").click()
            page.wait_for_timeout(150)
            found = Axe().run(
                page,
                "#view" if tab != tabs[0] else None,
                options={
                    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"],
                    "resultTypes": ["violations"],
                },
            )
            serious = [
                (one["id"], one["nodes"][0]["html"][:200], one["nodes"][0]["failureSummary"])
                for one in found.response["violations"]
                if one["impact"] in ("serious", "critical")
            ]
            assert not serious


def test_hostile_names_are_text(opened):
    with opened("hostile") as page:
        page.wait_for_selector(".records")
        for summary in page.locator(".folded summary").all():
            summary.click()
        page.locator("#search").fill("script")
        page.locator(".tree .row").first.click()
        page.wait_for_timeout(100)
        page.locator("#tab-tables").click()
        page.wait_for_selector(".table .line")
        assert page.evaluate("window.broken") is None
        assert page.locator("img").count() == 0
        text = page.evaluate("document.body.querySelector('#page').textContent + document.title")
        assert "</script><script>window.broken=1</script>" in text
        assert "safe\\u202efdp.exe\\u2066" in text
        titles = page.evaluate(
            "[...document.querySelectorAll('[title], [aria-label]')].map(e => e.title + e.ariaLabel).join()"
        )
        assert not re.search("[\u202a-\u202e\u2066-\u2069\x00\x1b]", text + titles)


def test_ten_thousand_cells_inside_each_other(opened):
    with opened("hostile") as page:
        page.wait_for_selector(".tree .row.first")
        assert page.locator(".tree .row.first").get_attribute("aria-level") == "10000"
        page.locator(".tree").focus()
        page.keyboard.press("Home")
        page.wait_for_function("() => document.querySelector('.tree').scrollTop === 0")
        page.locator("#search").fill("circle")
        expect(page.locator(".found")).to_have_text("2 of 10\u202f010 calls")


def test_paper_has_the_answer_and_the_call(opened):
    with opened("compared") as page:
        page.wait_for_selector(".records")
        page.emulate_media(media="print")
        assert page.locator(".headline").is_visible()
        assert page.locator(".on-paper").inner_text() == "Calls of step0 rank0", "which step and rank the tree is of"
        assert page.locator(".records").is_visible()
        assert not page.locator(".tools").first.is_visible()
        assert page.locator(".records").evaluate("one => getComputedStyle(one).overflow") == "visible"


def test_damaged_data_are_said(browser, tmp_path, report):
    text = report("flowed").read_text()
    broken = tmp_path / "broken.html"
    broken.write_text(re.sub(r'(id="chunk-0">)[^<]{20}', r"\1AAAAAAAAAAAAAAAAAAAA", text))
    page = browser.new_page()
    page.goto(broken.as_uri())
    page.wait_for_selector(".failure")
    assert "damaged" in page.locator(".failure").inner_text()
    page.close()
