"""Kinds of findings: code, name, severity, and their texts in both languages."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
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
    """Severity of the findings of a kind."""

    ERROR = "error"
    """A wrong result or setting."""
    WARNING = "warning"
    """A possible error; the finding has what would decide it."""
    NOTE = "note"
    """No error, or no verdict."""


@dataclass(frozen=True, eq=False)
class Kind:
    """A kind of finding. A new kind is one declaration in a module of `catalogue`.

    Modules declare the common fields of their kinds once, with `functools.partial`.

    code : `MSP` and three digits. Never given to another kind.
    name : the name in tables and JSON. Never changed.
    title : a short description for readers.
    means : the meaning of a finding of this kind.
    decided : how it is decided.
    causes : typical causes, the most frequent first.
    look : where to look next, as the end of "look at ...".
    confirm : how to confirm it.
    docs : page and anchor below `docs/en` and `docs/zh`.
    message : template of the sentence that reports a finding; several by the name of the variant.
    """

    code: str
    name: str
    _: KW_ONLY
    severity: Severity
    title: Text
    means: Text
    decided: Text
    causes: tuple[Text, ...]
    look: Text
    confirm: Text
    docs: str
    message: Text | Mapping[str, Text] = field(default_factory=dict)

    @property
    def where_to_look(self) -> Phrase:
        """Return where to look next, as the end of "look at ..."."""
        return phrase(self.look.english)

    @property
    def messages(self) -> Mapping[str, Text]:
        """Return the templates of the sentence that reports a finding, by variant; "" if there is only one."""
        return {"": self.message} if isinstance(self.message, Text) else self.message

    def sentence(self, variant: str = "", /, **fields: Any) -> Phrase:
        """Return the sentence that reports a finding, with the values of its placeholders."""
        return phrase(self.messages[variant].english, **fields)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to copy or unpickle a kind: as the object of the catalogue."""
        return kind_of, (self.code,)

    def __str__(self) -> str:
        return f"{self.code} {self.name}"


def kind_of(code: str) -> Kind:
    """Return the kind of the catalogue with this code."""
    kinds = import_module("msprobe.findings.kinds")  # when called: the catalogue is made of kinds
    found: Kind = kinds.BY_CODE[code]
    return found
