"""What a kind of finding is: a code, a name, and what users want to know about it."""

from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from typing import Any, NamedTuple

from msprobe.base.language import ENGLISH, Language
from msprobe.base.phrase import Phrase, phrase


class Text(NamedTuple):
    """A text in both languages."""

    english: str
    chinese: str

    def in_(self, language: Language) -> str:
        """Return the text in one of the languages."""
        return self.english if language == ENGLISH else self.chinese


class Severity(Enum):
    """How severe findings of a kind are."""

    ERROR = "error"
    """Something computes wrong values."""
    WARNING = "warning"
    """Something may be wrong; the finding says what would decide it."""
    NOTE = "note"
    """Nothing is wrong, or nothing can be said."""


@dataclass(frozen=True)
class Kind:
    """A kind of finding, as a rule of a linter.

    code : `MSP` and three digits. Never given to another kind.
    name : what tables and JSON call it. Never changed.
    title : what people call it.
    means : what a finding of this kind says.
    decided : how it is decided.
    causes : typical causes, the most frequent first.
    look : where to look next, as the end of "look at ...".
    confirm : how to confirm it.
    docs : page and anchor below `docs/en` and `docs/zh`.
    """

    code: str
    name: str
    severity: Severity
    title: Text
    means: Text
    decided: Text
    causes: tuple[Text, ...]
    look: Text
    confirm: Text
    docs: str

    @property
    def where_to_look(self) -> Phrase:
        """Return where to look next, as the end of "look at ..."."""
        return phrase(self.look.english)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy, and a kind from another process, is the very object of the catalogue."""
        return kind_of, (self.code,)

    def __str__(self) -> str:
        return f"{self.code} {self.name}"


def kind_of(code: str) -> Kind:
    """Return the kind of the catalogue with this code."""
    kinds = import_module("msprobe.findings.kinds")  # when called: the catalogue is made of kinds
    found: Kind = kinds.BY_CODE[code]
    return found
