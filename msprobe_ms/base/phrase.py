"""A sentence as data: a template and what stands in it, so that who shows it last may say it in another language."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from string import Formatter
from typing import Any

_FORMATTER = Formatter()


@dataclass(frozen=True, slots=True)
class Phrase:
    """An English template of `str.format` with named fields, and their values, which may be phrases themselves.

    The text of it is English. A template is a literal where the phrase is made; `findings/chinese/` has
    each one in Chinese, and a test holds the two together.
    """

    template: str
    fields: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.template.format(**self.fields)

    def plain(self) -> list[Any]:
        """The template and the values of its placeholders, each once, in the order of the template; as texts, or as
        lists where they are phrases."""
        return [self.template, *(self._value(*place) for place in placeholders(self.template))]

    def _value(self, name: str, conversion: str | None, spec: str) -> Any:
        value, _ = _FORMATTER.get_field(name, (), self.fields)
        if isinstance(value, Phrase):
            return value.plain()
        return format(_FORMATTER.convert_field(value, conversion), spec)


@cache
def placeholders(template: str) -> tuple[tuple[str, str | None, str], ...]:
    """Name, conversion and format of what stands in braces, each once."""
    found = _FORMATTER.parse(template)
    return tuple(dict.fromkeys((name, conversion, spec or "") for _, name, spec, conversion in found if name))


Words = str | Phrase
"""What is said: a phrase, or a text that is the same in every language."""


def phrase(template: str, /, **fields: Any) -> Phrase:
    """A phrase with these values."""
    return Phrase(template, fields)


def joined(parts: Sequence[Words], template: str) -> Words:
    """Phrases one after the other, by a template of `{before}` and `{after}`; an empty text without any."""
    found: Words = parts[0] if parts else ""
    for part in parts[1:]:
        found = Phrase(template, {"before": found, "after": part})
    return found


def some(names: Iterable[object], most: int = 3) -> Words:
    """`a, b, c and 4 more`: the first `most` names, and how many others there are."""
    every = [str(name) for name in names]
    return and_more(", ".join(every[:most]), len(every) - most)


def some_of(parts: Iterable[Words], most: int) -> Words:
    """The same for phrases."""
    every = list(parts)
    return and_more(joined(every[:most], "{before}, {after}"), len(every) - most)


def and_more(listed: Words, number: int) -> Words:
    """Return what is listed, and how many more there are; only what is listed where there are no more."""
    return phrase("{listed} and {number} more", listed=listed, number=number) if number > 0 else listed
