"""The language of help texts and errors on the command line: English or Chinese."""

import os
from typing import Final, Literal

Language = Literal["en", "zh"]

ENGLISH: Final = "en"
CHINESE: Final = "zh"


def language() -> Language:
    """Return "zh" if `MSPROBE_LANG`, or else the locale, is Chinese, otherwise "en"."""
    names = ("MSPROBE_LANG", "LC_ALL", "LC_MESSAGES", "LANG")
    chosen = next((value for name in names if (value := os.environ.get(name))), "")
    return CHINESE if chosen.lower().startswith(CHINESE) else ENGLISH


def translated(english: str, chinese: str) -> str:
    """Return the text in the language of the user."""
    return chinese if chinese and language() == CHINESE else english
