"""Sentences as data: a template with values, which renderers can show in another language."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from string import Formatter
from typing import Any

_FORMATTER = Formatter()


@dataclass(frozen=True, slots=True)
class Phrase:
    """An English template of `str.format` with named fields, and their values, which may be phrases.

    `str()` returns the English text. A template is a literal in the code that makes the phrase, or the message of a
    kind; `findings/chinese/` and the catalogue have its translation, and a test compares both.
    """

    template: str
    fields: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.template.format(**self.fields)

    def plain(self) -> list[Any]:
        """Return the template and the values of its placeholders, without duplicates, in the order of the template;
        phrases as lists, others as texts."""
        return [self.template, *(self._value(*place) for place in placeholders(self.template))]

    def _value(self, name: str, conversion: str | None, spec: str) -> Any:
        value, _ = _FORMATTER.get_field(name, (), self.fields)
        if isinstance(value, Phrase):
            return value.plain()
        return format(_FORMATTER.convert_field(value, conversion), spec)


@cache
def placeholders(template: str) -> tuple[tuple[str, str | None, str], ...]:
    """Return name, conversion and format of each placeholder, without duplicates."""
    found = _FORMATTER.parse(template)
    return tuple(dict.fromkeys((name, conversion, spec or "") for _, name, spec, conversion in found if name))


Words = str | Phrase
"""A phrase, or a text that is the same in every language."""


def phrase(template: str, /, **fields: Any) -> Phrase:
    """Return a phrase with these values."""
    return Phrase(template, fields)


def joined(parts: Sequence[Words], template: str) -> Words:
    """Return phrases joined by a template of `{before}` and `{after}`; an empty text for none."""
    found: Words = parts[0] if parts else ""
    for part in parts[1:]:
        found = Phrase(template, {"before": found, "after": part})
    return found


def some(names: Iterable[object], most: int = 3) -> Words:
    """Return `a, b, c and 4 more`: the first `most` names, and the number of the others."""
    every = [str(name) for name in names]
    return and_more(", ".join(every[:most]), len(every) - most)


def some_of(parts: Iterable[Words], most: int) -> Words:
    """Return the same for phrases."""
    every = list(parts)
    return and_more(joined(every[:most], "{before}, {after}"), len(every) - most)


def and_more(listed: Words, number: int) -> Words:
    """Return what is listed and the number of further items; only what is listed if there are none."""
    return phrase("{listed} and {number} more", listed=listed, number=number) if number > 0 else listed
