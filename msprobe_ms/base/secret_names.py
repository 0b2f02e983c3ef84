"""Recognizes names of secrets by their words (`secret_rules`)."""

import re
import unicodedata
from enum import IntEnum
from functools import lru_cache

from . import secret_rules as rules


class Strength(IntEnum):
    """Certainty that a name is the name of a secret."""

    NONE = 0
    LIKELY = 1
    """Values such as small numbers and special tokens are not secret."""
    CERTAIN = 2


_BOUNDARY = re.compile(
    r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])|[\W_]+"
)
_SINGULAR = {"keys": "key", "tokens": "token", "sessions": "session", "auths": "auth"}
_COUNTS = rules.words("num n max min total count avg mean")
_WHOLE = rules.CERTAIN | rules.LIKELY | rules.SECRET_BEFORE | rules.MEASURES | rules.LOCATIONS | rules.NOT_WORDS


@lru_cache(1 << 14)
def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a name, in lower case and without numbers; compounds are separated."""
    parts = (part.casefold() for part in _BOUNDARY.split(unicodedata.normalize("NFKC", name[:500])))
    return tuple(word for part in parts if part and not part.isdecimal() for word in _separated(part))


def _separated(part: str) -> tuple[str, ...]:
    if part in _WHOLE or re.match(r"(?:de|re|pre)?tokeni[sz]", part):
        return (part,)
    for word in rules.BEGINNINGS:
        if part.startswith(word):
            rest = part[len(word) :]
            return (*_halves(word), *(_separated(rest) if rest else ()))
    for word in rules.ENDINGS:
        if part.endswith(word) and part != word:
            return (*_separated(part[: -len(word)]), word)
    for word, before in rules.SHORT_ENDINGS.items():
        if part.endswith(word) and part[: -len(word)] in before:
            return part[: -len(word)], word
    for word in rules.CERTAIN:
        if not word.isascii() and word in part:
            return (word,)
    return (part,)


def _halves(word: str) -> tuple[str, ...]:
    for end in ("accesskey", "key", "token"):
        if word.endswith(end) and word != end:
            return (*_separated(word[: -len(end)]), *_halves(end))
    return ("access", "key") if word == "accesskey" else (word,)


@lru_cache(1 << 14)
def strength_of(name: str) -> Strength:
    """Return the strength of a name, which is one part of a path."""
    words = [*words_of(name)]
    if not words:
        return Strength.NONE
    location = words[-1] in rules.LOCATIONS  # a password file contains a password; paths are not redacted
    while len(words) > 1 and (words[-1] in rules.NEUTRAL or words[-1] in rules.LOCATIONS):
        words.pop()
    *before, last = words
    if last in rules.MEASURES and len(words) > 1:
        return Strength.NONE
    if any(word in rules.CERTAIN for word in words) or words[-2:] in (["seed", "phrase"], ["pass", "word"]):
        return Strength.LIKELY if last.endswith("s") and before and before[0] in _COUNTS else Strength.CERTAIN
    if {*before} & rules.SECRET_ONLY_AFTER.get(last, frozenset()):
        return Strength.LIKELY
    if last not in rules.LIKELY:
        return Strength.NONE
    kind = _SINGULAR.get(last, last)
    if kind != last and before and before[0] in _COUNTS:
        return Strength.NONE
    for word in reversed(before):  # the nearest word decides
        if word in rules.HARMLESS_BEFORE.get(kind, ()):
            return Strength.NONE
        if word in rules.SECRET_BEFORE and kind in ("key", "token", "pass", "auth", "session"):
            return Strength.LIKELY if location else Strength.CERTAIN
    return Strength.LIKELY


def strength_of_path(path: str) -> Strength:
    """Return the strength of a dotted path of names: values below a secret name are secret."""
    return max(map(strength_of, path.split(".")), default=Strength.NONE)
