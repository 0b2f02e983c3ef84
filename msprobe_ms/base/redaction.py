"""Replaces secrets in settings, environment variables, command lines and texts before they are written to a file.

Deny by default. A value is secret if its name is (`secret_rules`), if it is nested below such a name, by its shape
(tokens of known services, private keys, credentials in URLs and headers), if it is random, or if it is the value of an
option or assignment with a secret name inside a text. A `Redactor` also redacts other occurrences of a secret value.

Secrets are replaced by a mark: `<redacted:DIGEST>`. The digest shows whether two secrets are equal. It is computed by
scrypt, so that guessing passwords is slow, and truncated to 20 bits, so that a match is not a proof: one in a million
wrong guesses also matches. The salt is fixed, because it must be the same in two runs; the user can set a private salt
in `MSPROBE_REDACTION_SALT`, or `off` for marks without digests.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from . import secret_rules as rules
from .secret_names import Strength, strength_of, strength_of_path, words_of
from .secret_spans import (
    MARK,
    NO_SECRET,
    NUMBER,
    REFERENCE,
    Span,
    is_harmless,
    is_mark,
    secret_words,
    shape_spans,
    source_spans,
    spans,
)

__all__ = [
    "REDACTED",
    "SALT",
    "Redactor",
    "Strength",
    "is_redacted",
    "mark",
    "redacted_places",
    "same",
    "setting",
    "source",
    "strength_of",
    "strength_of_path",
    "text",
    "traceback",
    "variable",
    "words_of",
]

REDACTED = "<redacted>"
"""The mark of a secret without a digest."""

SALT = "MSPROBE_REDACTION_SALT"
"""The environment variable with the user's salt."""

_DEFAULT_SALT = b"msprobe-ms/redaction/1"
_COST = 1 << 12  # of scrypt: 10 ms and 4 MiB for each secret
_MAX_DIGESTS = 300  # digests that a redactor computes (some seconds); later marks have none
_MAX_CACHED = 10_000
_MAX_LENGTH = 1 << 14  # characters of a text; longer texts are redacted completely
_MAX_LINE = 2000  # characters of a line of source code; the rest is omitted
_MAX_KNOWN = 10_000  # secrets that a redactor remembers
_MAX_SEARCHED = 300  # remembered secrets that are searched inside words
_MAX_NESTING = 50

_digests: dict[tuple[bytes, str], str] = {}


def mark(secret: str) -> str:
    """Return the mark of a secret."""
    text = os.environ.get(SALT, "")
    if text.strip().lower() == "off":
        return REDACTED
    salt = b"user/" + text.encode("utf-8", "surrogatepass") if text else _DEFAULT_SALT
    digest = _digest(salt, f"secret/{secret}")[:5]
    if not digest:
        return REDACTED
    return f"<redacted:{digest}:{_digest(salt, 'salt')[:4]}>" if text else f"<redacted:{digest}>"


def _digest(salt: bytes, text: str) -> str:
    """Return a slow digest; empty if OpenSSL does not support scrypt."""
    key = salt, text
    if key not in _digests:
        if len(_digests) >= _MAX_CACHED:
            _digests.clear()
        try:
            content = text.encode("utf-8", "surrogatepass")
            _digests[key] = hashlib.scrypt(content, salt=salt, n=_COST, r=8, p=1, maxmem=1 << 26, dklen=8).hex()
        except (AttributeError, ValueError, MemoryError, OSError):
            return ""
    return _digests[key]


def is_redacted(value: object) -> bool:
    """Return whether a value contains a redacted secret."""
    if isinstance(value, str):
        return MARK.search(value) is not None
    if isinstance(value, Mapping):
        return any(is_redacted(key) or is_redacted(each) for key, each in value.items())
    return isinstance(value, list | tuple) and any(map(is_redacted, value))


def same(left: object, right: object) -> bool | None:
    """Return whether two values, of which at least one is redacted, are equal; None if the marks do not show it."""
    if left is None or right is None:
        return left is right
    one, other = (value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
                  for value in (left, right))  # fmt: skip
    one, other = (mark(text) if not MARK.search(text) and is_mark(by) else text
                  for text, by in ((one, other), (other, one)))  # fmt: skip
    marks = [*MARK.finditer(one), *MARK.finditer(other)]
    if one == other:
        return True if all(each["digest"] for each in marks) else None
    if MARK.sub(REDACTED, one) != MARK.sub(REDACTED, other):
        return False
    comparable = all(each["digest"] for each in marks) and len({each["salt"] for each in marks}) == 1
    return False if comparable else None


def redacted_places(value: object, prefix: str = "") -> Iterator[str]:
    """Yield the paths of values, in nested objects and lists, that contain a redacted secret."""
    waiting: list[tuple[str, object]] = [(prefix, value)]
    while waiting:
        name, held = waiting.pop()
        if isinstance(held, Mapping | list | tuple):
            inner = held.items() if isinstance(held, Mapping) else enumerate(held)
            waiting += reversed([(f"{name}.{key}" if name else str(key), each) for key, each in inner])
        elif is_redacted(held):
            yield name


_COMMON = rules.words("root admin user users test guest localhost python bash password secret token key main")


class Redactor:
    """Redacts values, and remembers secrets, which are redacted in all later values under any name.

    `remembers=False`: secrets are not remembered; only the number of digests is limited.
    """

    def __init__(self, remembers: bool = True) -> None:
        self._remembers = remembers
        self._known: dict[str, None] = {}
        self._marked: set[int] = set()

    def learn(self, secrets: Iterable[str]) -> None:
        """Remember secrets, except short ones and common words, which would match everywhere."""
        for each in secrets if self._remembers else ():
            text = each.strip().strip("\"'")
            is_common = (
                text.casefold() in _COMMON or text.casefold() in NO_SECRET or (text.isdecimal() and len(text) < 6)
            )
            is_name = REFERENCE.fullmatch(text) or NUMBER.fullmatch(text) or MARK.search(text)
            if 4 <= len(text) <= 4096 and not is_common and not is_name and len(self._known) < _MAX_KNOWN:
                self._known[text] = None

    def learn_options(self, words: Sequence[str]) -> None:
        """Remember the values of secret options of a command line, and of variables in these values."""
        self.learn(words[at][slice(*span)] for at, span in secret_words(words))

    def _mark(self, secret: str) -> str:
        key = hash(secret)
        if key not in self._marked and len(self._marked) >= _MAX_DIGESTS:
            return REDACTED
        self._marked.add(key)
        return mark(secret)

    def variable(self, name: str, value: str) -> str:
        """Return the value of an environment variable without secrets."""
        if name == SALT:  # without a digest
            return REDACTED
        return str(self.leaf(name, value, strength_of(name)))

    def setting(self, name: str, value: object) -> object:
        """Return the value of a setting without secrets; `name` is a path with dots. Objects and lists are searched."""
        return self._within(name, value, strength_of_path(name), 0)

    def _within(self, name: str, value: object, strength: Strength, depth: int) -> object:
        if not isinstance(value, Mapping | list | tuple) or not value or depth > _MAX_NESTING:
            return self.leaf(name, value, strength)
        found = [
            (key, self._within(str(key), each, inner, depth + 1)) for key, each, inner in self.members(value, strength)
        ]
        return (
            {self.key(key): each for key, each in found} if isinstance(value, Mapping) else [each for _, each in found]
        )

    def key(self, key: object) -> object:
        """Return a key without secrets: a key with the shape of a token is redacted."""
        return self.text(key) if isinstance(key, str) and any(shape_spans(key)) else key

    def members(self, value: object, strength: Strength) -> list[tuple[object, object, Strength]]:
        """Return the members of an object or a list: key, value, and strength of its name and the names above.

        In an entry `{name: HF_TOKEN, value: ...}` the value has the stated name. A list of strings is treated as a
        command line.
        """
        if isinstance(value, Mapping):
            stated = next((value[key] for key in ("name", "key", "variable") if isinstance(value.get(key), str)), "")
            found = []
            for key, each in value.items():
                own = strength_of(str(key)) if not _is_stated(str(key), value) else Strength.NONE
                if str(key).lower() in ("value", "val", "default", "content", "data") and stated:
                    own = max(own, strength_of_path(stated))
                found.append((key, each, max(strength, own)))
            return found
        held = list(value) if isinstance(value, list | tuple) else []
        if not strength and held and all(isinstance(each, str) for each in held):
            held = self.words(held)
            if len(held) == 2 and strength_of_path(held[0]) and not held[0].startswith("-"):
                return [(0, held[0], strength), (1, held[1], strength_of_path(held[0]))]
        return [(at, each, strength) for at, each in enumerate(held)]

    def words(self, words: Sequence[str]) -> list[str]:
        """Return the words of a command line without the values of secret options."""
        made = list(words)
        for at, (begin, end) in secret_words(made):
            secret = made[at][begin:end]
            if not REFERENCE.fullmatch(secret) and not is_mark(secret):
                self.learn([secret])
                made[at] = f"{made[at][:begin]}{self._mark(secret)}{made[at][end:]}"
        return made

    def leaf(self, name: str, value: object, strength: Strength) -> object:
        """Return a value without members, without secrets; `strength` is that of its name and the names above."""
        if strength and not is_harmless(value, strength, name.rpartition(".")[2]):
            text = value if isinstance(value, str) else json.dumps(value, default=str)
            # A plain word below a secret name, `session: {backend: mindspore}`, is not a secret elsewhere.
            if not text.isalpha() or strength_of(name.rpartition(".")[2]) is Strength.CERTAIN:
                self.learn([text])
            return self._mark(text)
        return self.text(value, name) if isinstance(value, str) else value

    def text(self, text: str, name: str = "") -> str:
        """Return a text without secrets; `name` is its name, by which hashes are recognized."""
        if len(text) > _MAX_LENGTH:
            return self._mark(text)
        if text[:1] in "{[" and text[-1:] in "}]":
            try:
                held = json.loads(text)
            except (ValueError, RecursionError):
                held = None
            if isinstance(held, dict | list):
                made = self._within(name, held, Strength.NONE, 0)
                return text if made == held else json.dumps(made, ensure_ascii=False)
        return self._replaced(text, [*spans(text, name), *self._known_spans(text)])

    def source(self, line: str) -> str:
        """Return a line of Python source without secrets."""
        line = line[:_MAX_LINE]
        return self._replaced(line, [*source_spans(line), *self._known_spans(line)])

    def _known_spans(self, text: str) -> Iterator[Span]:
        if not self._known:
            return
        if text.strip() in self._known:
            yield 0, len(text)
        for found in re.finditer(r"[^\s\"'=,]+", text):
            if found[0] in self._known:
                yield found.span()
        if len(self._known) <= _MAX_SEARCHED:
            for known in self._known:
                if len(known) >= 8 and (at := text.find(known)) >= 0:
                    while at >= 0:
                        yield at, at + len(known)
                        at = text.find(known, at + len(known))

    def _replaced(self, text: str, spans: Iterable[Span]) -> str:
        """Return the text with marks in place of secrets; existing marks are not changed."""
        old = [found.span() for found in MARK.finditer(text)]
        merged: list[list[int]] = []
        for begin, end in sorted(spans):
            if begin >= end or any(a <= begin and end <= b for a, b in old):
                continue
            if is_mark(text[begin:end].strip(" \"',;)}]")):
                continue
            if merged and begin < merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], end)
            else:
                merged.append([begin, end])
        parts, done = [], 0
        for begin, end in merged:
            secret = text[begin:end]
            self.learn([secret])
            parts += [text[done:begin], self._mark(secret)]
            done = end
        return "".join([*parts, text[done:]])


def _is_stated(key: str, entry: Mapping[object, object]) -> bool:
    """Return whether a member states the name in an entry `{key: NAME, value: ...}`."""
    return key.lower() == "key" and any(str(other).lower() in ("value", "val") for other in entry)


_shared = Redactor(remembers=False)


def variable(name: str, value: str) -> str:
    """Return the value of an environment variable without secrets."""
    return _shared.variable(name, value)


def setting(name: str, value: object) -> object:
    """Return the value of a setting without secrets."""
    return _shared.setting(name, value)


@lru_cache(4096)
def text(value: str) -> str:
    """Return a text without secrets."""
    return _shared.text(value)


def traceback(written: str) -> str:
    """Return the text of a traceback without secrets in source lines and messages."""
    lines = written.splitlines(keepends=True)
    return "".join(
        line
        if line.lstrip().startswith("File ")
        else f"    {source(line.strip())}\n"
        if line.startswith("    ")
        else text(line)
        for line in lines
    )


@lru_cache(4096)
def source(line: str) -> str:
    """Return a line of source code without secrets."""
    return _shared.source(line)
