"""Texts for readers of findings: names of kinds, and message templates in Chinese."""

from functools import cache
from typing import Any

from .kinds import EVERY
from .translations import CHINESE


@cache
def texts() -> dict[str, Any]:
    """Return names of kinds in English and Chinese, and message templates in Chinese by the English ones."""
    kinds = {text.english: text.chinese for kind in EVERY for text in (kind.look, *kind.messages.values())}
    return {"kinds": {kind.name: list(kind.title) for kind in EVERY}, "templates": {**CHINESE, **kinds}}
