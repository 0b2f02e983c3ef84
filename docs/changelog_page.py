"""A hook of MkDocs: the page `reference/changelog.md` gets the fragments of the next release and CHANGELOG.md."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
MARK = "<!-- changelog -->"
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?![a-z]+:)([^)\s]+)\)")


def on_page_markdown(markdown, **_):
    """Return the text of a page with the changelog in place of the mark."""
    if MARK not in markdown:
        return markdown
    return markdown.replace(MARK, LINK.sub(_from_the_page, f"{_next_release()}\n{_released()}"))


def _from_the_page(match):
    """Return a link relative to the page instead of the top of the repository."""
    path = match[2]
    path = path.replace("docs/en/", "../", 1) if path.startswith("docs/en/") else f"../../../{path}"
    return f"[{match[1]}]({path})"


def _next_release():
    version = re.search(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[1]
    command = ["build", "--draft", "--version", version, "--date", "not released yet"]
    done = subprocess.run([sys.executable, "-m", "towncrier", *command], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout if list((ROOT / "changes").glob("*/*")) else ""


def _released():
    return (ROOT / "CHANGELOG.md").read_text().partition("newest first -->\n")[2]
