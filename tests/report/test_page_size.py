"""64 ranks with 20,000 calls each: the page opens to the answer, and clicks are answered at once."""

import time

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.verify]

OPEN = 3.0  # seconds
CLICK = 100  # milliseconds

MEASURE = """async ([selector, done]) => {
  const element = document.querySelector(selector);
  const before = performance.now();
  element.dispatchEvent(new MouseEvent("click", {bubbles: true}));
  const check = Function(`return ${done}`);
  while (!check()) await new Promise(requestAnimationFrame);
  return performance.now() - before;
}"""


@pytest.fixture(scope="module")
def page(browser, report):
    """The page; `page.answered` are the seconds until the answer, of three times."""
    file = report("large")
    context = browser.new_context(viewport={"width": 1440, "height": 900}, locale="en-US")
    page, taken = context.new_page(), []
    for _ in range(3):
        begin = time.perf_counter()
        page.goto(file.as_uri())
        page.wait_for_selector(".headline code")
        taken.append(time.perf_counter() - begin)
        page.wait_for_selector(".tree .row.first")
        page.wait_for_selector(".records")
        page.goto("about:blank") if len(taken) < 3 else None
    page.answered = taken
    yield page
    context.close()


def test_the_file_is_as_large_as_it_may_be(report):
    assert 15_000_000 < report("large").stat().st_size < 30_000_000


def test_it_opens_to_the_answer(page):
    assert min(page.answered) < OPEN


def best(page, selectors, done):
    """The quickest of several clicks: the first of a kind compiles, and other processes take their time."""
    return min(page.evaluate(MEASURE, [selector, done.format(selector)]) for selector in selectors)


def test_clicks_are_answered_at_once(page):
    rows = [f"#{row.get_attribute('id')}" for row in page.locator(".tree .row").all()][3:8]
    chosen = "document.querySelector('{0}.chosen') !== null && document.querySelector('.records') !== null"
    assert best(page, rows, chosen) < CLICK
    folded = "document.querySelector('{0}') !== null"
    assert best(page, [".tree .row .twist.open", ".tree .row .twist:not(.leaf)"], folded) < CLICK
    chip = ".tools .chip"
    filtered = [f"document.querySelector('.found').textContent.includes('of') === {word}" for word in ("true", "false")]
    assert min(page.evaluate(MEASURE, [chip, filtered[i % 2]]) for i in range(4)) < CLICK


def test_another_rank_is_shown(page):
    page.locator(".units select").select_option("40")
    page.wait_for_function("() => document.querySelector('.units select').value === '40'")
    page.wait_for_function("() => location.hash.includes('rank40')")


def test_all_ranks_are_read(page):
    page.locator("#tab-spread").click()
    page.wait_for_function("() => document.querySelectorAll('.map.modules tbody tr').length === 64", timeout=20_000)
    page.wait_for_function("() => !document.querySelector('.spread-part p.quiet')", timeout=20_000)
    columns = page.locator(".map.modules thead th.turned").count()
    assert 10 <= columns <= 40  # 333 blocks are counted together.
    # The numbers of rank 5 are twenty times those of the others.
    strong = page.evaluate(
        "[...document.querySelectorAll('.map.modules tbody tr')].map(row => row.querySelectorAll('.strong').length)"
    )
    assert max(range(64), key=strong.__getitem__) == 5
