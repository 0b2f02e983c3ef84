"""Messages as data: a template and its fields, which renderers can translate."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from string import Formatter
from typing import Any

_FORMATTER = Formatter()


@dataclass(frozen=True, slots=True)
class Phrase:
    """An English template of `str.format` with named fields, and their values, which may be phrases.

    `str` returns the English text. A template is a literal in the code, or the message of a kind; `findings/chinese/`
    and the catalogue have its translation, which a test checks.
    """

    template: str
    fields: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.template.format(**self.fields)

    def plain(self) -> list[Any]:
        """Return the template followed by the values of its placeholders, each once, in the order of the template;
        values are strings, or lists for phrases."""
        return [self.template, *(self._value(*place) for place in placeholders(self.template))]

    def _value(self, name: str, conversion: str | None, spec: str) -> Any:
        value, _ = _FORMATTER.get_field(name, (), self.fields)
        if isinstance(value, Phrase):
            return value.plain()
        return format(_FORMATTER.convert_field(value, conversion), spec)


@cache
def placeholders(template: str) -> tuple[tuple[str, str | None, str], ...]:
    """Return the name, conversion and format of each placeholder, without duplicates."""
    found = _FORMATTER.parse(template)
    return tuple(dict.fromkeys((name, conversion, spec or "") for _, name, spec, conversion in found if name))


Words = str | Phrase
"""A message: a phrase, or a text that is the same in every language."""


def phrase(template: str, /, **fields: Any) -> Phrase:
    """Return a phrase with these fields."""
    return Phrase(template, fields)


def joined(parts: Sequence[Words], template: str) -> Words:
    """Join phrases by a template with `{before}` and `{after}`; return an empty string without phrases."""
    found: Words = parts[0] if parts else ""
    for part in parts[1:]:
        found = Phrase(template, {"before": found, "after": part})
    return found


def names_phrase(names: Iterable[object], most: int = 3) -> Words:
    """Return the first `most` names and the number of others: `a, b, c and 4 more`."""
    every = [str(name) for name in names]
    return and_more(", ".join(every[:most]), len(every) - most)


def parts_phrase(parts: Iterable[Words], most: int) -> Words:
    """Return the first `most` phrases and the number of others."""
    every = list(parts)
    return and_more(joined(every[:most], "{before}, {after}"), len(every) - most)


def and_more(listed: Words, number: int) -> Words:
    """Return `listed` followed by the number of others, if any."""
    return phrase("{listed} and {number} more", listed=listed, number=number) if number > 0 else listed
