"""The documentation keeps up: every verb and every error has its place, links lead somewhere, commands are run."""

import re
import unicodedata

import pytest

from msprobe.base import errors
from msprobe.cli import VERBS

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
OUTPUT = re.compile(r"^```\n(A two-block.*?)^```", re.MULTILINE | re.DOTALL)
COMMANDS = re.compile(r"^```bash\n(.*?)^```", re.MULTILINE | re.DOTALL)


def anchors(text):
    """The anchors of a page's headings, as the usual hosts of Markdown make them."""
    found = set()
    for heading in re.findall(r"^#+ +(.+)$", FENCE.sub("", text), re.MULTILINE):
        plain = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        kept = "".join(c for c in plain if c in " -_" or unicodedata.category(c)[0] in "LN")
        found.add(kept.replace(" ", "-"))
    return found


PAGES = {
    "monitor anomalies": "monitor-alerts",
    **dict.fromkeys(("acc-check", "api-precision-compare"), "acc_check"),
    **dict.fromkeys(("repro", "op-generate"), "op_generate"),
    **{name.replace("_", "-"): name for name in ("code_mapping", "config_check", "merge_result", "overflow_check")},
    "rollout-check": "rollout_check",
    **dict.fromkeys(("gate record", "gate check", "gate accept", "gate show", "bisect"), "gate"),
    "graph": "graph-visualize",
    "completion": "command-line",
    "mcp": "automation",
}
"""A verb that a page of another name explains."""


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_a_page(verb, root):
    pages = list((root / "docs" / "en").rglob(f"{PAGES.get(verb, verb.replace(' ', '-'))}.md"))
    assert len(pages) == 1, f"write docs/en/how-to/.../{verb}.md"
    assert f"msprobe {verb} " in pages[0].read_text(), "with the command to type"


def test_every_error_has_a_section(root):
    classes = [n for n, v in vars(errors).items() if isinstance(v, type) and issubclass(v, errors.MsprobeError)]
    sections = re.findall(r"^## (\w+)$", (root / "docs" / "en/reference/errors.md").read_text(), re.MULTILINE)
    assert sorted(classes) == sorted(sections)


def test_both_languages_have_the_same_pages(root):
    trees = [
        {page.relative_to(root / "docs" / lang) for page in (root / "docs" / lang).rglob("*.md")}
        for lang in ("en", "zh")
    ]
    assert len(trees[0]) > 30
    assert trees[0] == trees[1]


def test_every_page_is_in_the_navigation(root):
    text = (root / "mkdocs.yml").read_text()
    missing = [
        page for page in (root / "docs" / "en").rglob("*.md") if str(page.relative_to(root / "docs" / "en")) not in text
    ]
    assert not missing


def test_links_lead_somewhere(files, root):
    pages = [f for f in files if f.suffix == ".md" and "samples" not in f.parts]
    assert len(pages) >= 10
    dead = []
    for page in pages:
        for link in LINK.findall(FENCE.sub("", page.read_text())):
            if re.match(r"[a-z]+:", link):
                continue
            path, _, anchor = link.partition("#")
            # Fragments are read as parts of CHANGELOG.md.
            is_fragment = page.is_relative_to(root / "changes") and page.name != "README.md"
            folder = root if is_fragment else page.parent
            target = (folder / path) if path else page
            if not target.exists():
                dead.append(f"{page.relative_to(root)}: {link}: no such file")
            elif anchor and anchor not in anchors(target.read_text()):
                dead.append(f"{page.relative_to(root)}: {link}: no such heading")
    assert not dead, "\n".join(dead)


@pytest.mark.parametrize("page", ["README.md", "README.zh-CN.md"])
def test_the_commands_of_the_readme_are_run_by_ci(page, root):
    typed = "".join(COMMANDS.findall((root / page).read_text())).splitlines()
    assert typed == ["make demo", "make test"], "the first command runs, the second tests"
    ci = (root / ".ci" / "run").read_text()
    for command in typed:
        assert f"\nstep {command}\n" in ci


def test_the_readmes_show_the_same_output(root):
    """The demo's output stands in both; `test_examples.py` holds its last line to what the demo really says."""
    shown = [OUTPUT.findall((root / page).read_text()) for page in ("README.md", "README.zh-CN.md")]
    assert len(shown[0]) == 1
    assert shown[0] == shown[1]
