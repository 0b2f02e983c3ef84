"""Compare settings of scripts and trainers: match their names, then compare their values."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from itertools import islice

from msprobe.base import redaction
from msprobe.base.object_text import without_addresses
from msprobe.compare.rl.configurations import PLACE, rank_of

from .findings import Checker, Kind, Level, Match, SettingRow

ALIASES = (
    ("learning_rate", "lr", "learningrate"),
    ("batch_size", "batch", "bs", "batch_size_per_gpu"),
    ("epochs", "num_epochs", "max_epochs", "epoch"),
    ("weight_decay", "wd", "weightdecay"),
    ("dropout_rate", "dropout", "drop_rate"),
)
"""Names of one setting, as in msprobe."""

SIMILAR = 0.8
"""Similarity up to which names are two settings: msprobe's bound."""

_MAX_PAIRS = 100_000  # pairs of names that are compared: seconds, in the worst case
_MAX_EXACT_PAIRS = 2000  # of these, by letters: milliseconds each, in the worst case
_MAX_NAME = 100  # characters of such a name
_MAX_NESTING = 50

Settings = Mapping[str, object]


def compare(file: str, bench: Settings, cmp: Settings) -> Iterator[SettingRow]:
    """Yield one row for each setting whose values differ, or that only one side has."""
    ours, theirs = flat(bench), flat(cmp)
    pairs = _matched(ours, theirs)
    taken = {other for other, _, _ in pairs.values()}
    for name, value in ours.items():
        if name in pairs:
            other, match, similarity = pairs[name]
            if row := _differing(file, (name, other), (value, theirs[other]), match, similarity):
                yield row
        else:
            yield _one_sided(file, Kind.BENCH_ONLY, name, value)
    yield from (_one_sided(file, Kind.CMP_ONLY, name, theirs[name]) for name in theirs if name not in taken)


def flat(settings: Settings) -> dict[str, object]:
    """Return settings without nested lists and objects, secrets redacted, texts without addresses of objects; several
    values of one name are kept together."""
    found: dict[str, object] = {}
    redactor = redaction.Redactor()
    waiting: list[tuple[str, object, int]] = [
        (name, redactor.setting(name, value), 0) for name, value in reversed([*settings.items()])
    ]
    while waiting:
        name, value, depth = waiting.pop()
        is_open = isinstance(value, dict | list) and bool(value) and depth < _MAX_NESTING
        if not is_open or (isinstance(value, dict) and value.get("description") == "duplicate_value"):
            found[name] = without_addresses(value) if isinstance(value, str) else value
            continue
        inner = value.items() if isinstance(value, dict) else enumerate(value)  # type: ignore[arg-type]  # a list
        waiting += reversed([(without_addresses(f"{name}.{key}"), each, depth + 1) for key, each in inner])
    return found


def _matched(ours: Settings, theirs: Settings) -> dict[str, tuple[str, Match, float]]:
    """Return by the first side's name the other side's, how it was found, and their similarity. Each name occurs
    once."""
    pairs: dict[str, tuple[str, Match, float]] = {}
    free = dict.fromkeys(theirs)
    for key, match in ((_spelling, Match.NAME), (_meaning, Match.ALIAS)):
        by_key = {key(name): name for name in reversed(list(free))}
        for name in ours:
            other = by_key.get(key(name)) if name not in pairs else None
            if other in free:
                assert other is not None
                pairs[name] = other, match, 1.0
                del free[other]
    rest = [name for name in ours if name not in pairs]
    for similarity, name, other in _similar(rest, list(free)):
        if name not in pairs and other in free:
            pairs[name] = other, Match.SIMILAR, similarity
            del free[other]
    return pairs


def _spelling(name: str) -> str:
    return name.lower().replace("-", "_")


_BY_ALIAS = {alias: names[0] for names in ALIASES for alias in names}


def _meaning(name: str) -> str:
    """Return the name with its last part replaced by the first of its aliases."""
    path, dot, last = _spelling(name).rpartition(".")
    return f"{path}{dot}{_BY_ALIAS.get(last, last)}"


def _similar(ours: list[str], theirs: list[str]) -> list[tuple[float, str, str]]:
    """Return the pairs of similar names, most similar first. `beta1` and `beta2` are not similar: numbers must be
    equal."""
    by_numbers: dict[tuple[str, ...], list[str]] = {}
    for name in ours:
        if len(name) <= _MAX_NAME:
            by_numbers.setdefault(_numbers(name), []).append(name)
    pairs = (
        (name, other) for other in theirs if len(other) <= _MAX_NAME for name in by_numbers.get(_numbers(other), ())
    )
    found: list[tuple[float, str, str]] = []
    matcher, last, tried = SequenceMatcher(autojunk=False), "", 0
    for name, other in islice(pairs, _MAX_PAIRS):
        if other != last:
            matcher.set_seq2(other.lower())
            last = other
        matcher.set_seq1(name.lower())
        if matcher.real_quick_ratio() > SIMILAR and matcher.quick_ratio() > SIMILAR:
            tried += 1
            if tried > _MAX_EXACT_PAIRS:
                break
            ratio = matcher.ratio()
            if ratio > SIMILAR:
                found.append((ratio, name, other))
    return sorted(found, key=lambda pair: -pair[0])


def _numbers(name: str) -> tuple[str, ...]:
    return tuple(re.findall(r"[0-9]+", name))


def _differing(
    file: str, names: tuple[str, str], values: tuple[object, object], match: Match, similarity: float
) -> SettingRow | None:
    importance, meaning = min((rank_of(tuple(_meaning(name).split("."))) for name in names), key=lambda found: found[0])
    level = Level.WARNING if meaning is PLACE else Level.ERROR
    if any(map(redaction.is_redacted, values)):
        equal = redaction.same(*values)
        if equal:
            return None
        kind = Kind.NOT_RECORDED if equal is None else Kind.DIFFERS
        if any(map(redaction.strength_of_path, names)):  # a password does not change numbers
            level = Level.INFO
        elif equal is None:
            level = Level.WARNING
    elif same(*values):
        return None
    else:
        kind = Kind.DIFFERS
    (name, other), (value, found) = names, values
    return SettingRow(
        Checker.HYPERPARAMETERS, kind, level, name, other, value, found, file, match, similarity, importance
    )


def _one_sided(file: str, kind: Kind, name: str, value: object) -> SettingRow:
    importance, meaning = rank_of(tuple(_meaning(name).split(".")))
    level = Level.INFO if meaning is PLACE else Level.WARNING
    ours, theirs = ((name, value), ("", None)) if kind is Kind.BENCH_ONLY else (("", None), (name, value))
    return SettingRow(
        Checker.HYPERPARAMETERS, kind, level, ours[0], theirs[0], ours[1], theirs[1], file, importance=importance
    )


_WORDS = {"true": True, "false": False, "none": None, "null": None}


def same(ours: object, theirs: object) -> bool:
    """Return whether two values are equal, as scripts and yaml files write them: `"1e-5"` and 0.00001, `"True"` and
    true."""
    a, b = _plain(ours), _plain(theirs)
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    return a == b or (isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b))


def _plain(value: object) -> object:
    if isinstance(value, str):
        written = value.strip()
        if written.lower() in _WORDS:
            return _WORDS[written.lower()]
        try:
            # Python reads `1_000` as a number, which is a name in a script.
            return float(written) if len(written) < 100 and "_" not in written else written
        except ValueError:
            return written
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value) if abs(value) < 1 << 53 else value
    return json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else value
