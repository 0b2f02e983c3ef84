"""A browser, and reports for it to open."""

import os
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # the modules of this folder stand beside each other

import synthetic_reports

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="session")
def browser():
    """Chromium; without it these tests are skipped, unless MSPROBE_BROWSER=required."""
    if CHROMIUM is None and os.environ.get("MSPROBE_BROWSER") != "required":
        pytest.skip("chromium is not installed")
    assert CHROMIUM, "MSPROBE_BROWSER=required, and chromium is not installed"
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=15_000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def report(tmp_path_factory):
    """The file of a report of `synthetic_reports`, by its name; each is written once."""
    folder, made = tmp_path_factory.mktemp("reports"), {}

    def file(name):
        if name not in made:
            made[name] = getattr(synthetic_reports, name)(folder / f"{name}.html")
        return made[name]

    return file


@pytest.fixture
def opened(browser, report):
    """Open a report: `with opened("compared") as page`. Nothing may be asked of any place, nor be an error."""

    @contextmanager
    def open_report(name, hash="", wait=".work .view > *", **options):
        context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}, "locale": "en-US", **options})
        page, wrong = context.new_page(), []
        file = report(name).as_uri()
        page.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda one: wrong.append(one.url) if not one.url.startswith((file, "data:")) else None)
        page.set_default_timeout(15_000)
        try:
            page.goto(file + hash)
            page.wait_for_selector(wait)
            yield page
            assert not wrong
        finally:
            context.close()

    return open_report
