"""Compare the configurations of two runs, key by key, and order the differences by the effect of settings with such
names.

A name is split at characters other than letters and digits, and at capitals; an entry of the tables matches if its
words are adjacent in the name. Names without a match come between the two tables.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msprobe.base import redaction
from msprobe.base.files import MAX_CONFIGURATION_BYTES, read_input
from msprobe.base.object_text import without_addresses
from msprobe.compare.tables.cells import guard
from msprobe.compare.tables.columns import Column
from msprobe.store.folders import is_file, printable


@dataclass(frozen=True, slots=True)
class Meaning:
    """A kind of setting: its effect, the source, and names of such settings."""

    changes: str
    source: str
    names: tuple[str, ...]


NUMERIC = (
    Meaning("random numbers", "MindSpore and PyTorch: the numbers of a generator depend on its seed",
            ("seed", "random state", "do sample", "deterministic")),
    Meaning("sampling",
            "softmax with temperature; top-k sampling, arXiv:1805.04833; nucleus sampling, arXiv:1904.09751",
            ("temperature", "top k", "top p", "min p", "repetition penalty", "num beams")),
    Meaning("dtype and rounding", "IEEE 754: a narrower type rounds earlier",
            ("dtype", "precision", "bf16", "fp16", "fp32", "amp", "loss scale", "compute type", "quantization")),
    Meaning("normalization",
            "layer normalization, arXiv:1607.06450; RMS normalization, arXiv:1910.07467; Adam, arXiv:1412.6980",
            ("eps", "epsilon", "norm type", "dropout", "rope theta", "rope scaling")),
    Meaning("the update", "AdamW, arXiv:1711.05101",
            ("lr", "learning rate", "weight decay", "betas", "beta1", "beta2", "warmup", "optimizer", "clip grad")),
    Meaning("the objective", "PPO, arXiv:1707.06347; GAE, arXiv:1506.02438; GRPO, arXiv:2402.03300",
            ("kl", "beta", "clip", "cliprange", "gamma", "lam", "lambda", "entropy", "adv estimator", "coef",
             "reward")),
    Meaning("shapes and batches", "the order of sums changes rounding; a different length reads other tokens",
            ("batch", "batch size", "micro batch", "num layers", "hidden size", "length", "tokens", "padding",
             "pad token id", "eos token id", "num generations", "epochs", "shuffle", "parallel")),
    Meaning("what is loaded", "other weights, tokens or data make a different run",
            ("checkpoint", "ckpt", "load", "model path", "model name", "tokenizer", "dataset", "data path",
             "vocab size")),
)  # fmt: skip
"""Settings that change numbers, in the order in which they are reported."""

PLACE = Meaning("place or time", "differs between any two runs",
                ("dump path", "output", "save", "log", "logs", "time", "timestamp", "date", "host", "port", "pid", "ip",
                 "address", "url", "experiment name", "run name", "run id", "uuid", "msprobe", "step start",
                 "step end"))  # fmt: skip
"""Reported last."""

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+\d*|\d+[a-z]*")


def rank_of(path: tuple[str, ...]) -> tuple[int, Meaning | None]:
    """Return the place of a setting in the order of reporting, by its path of names, the last one first; and its
    meaning."""
    for name in reversed(path):
        text = f" {' '.join(word.lower() for word in _WORDS.findall(name[:200]))} "  # `topK` as ` top k `
        for at, meaning in (*enumerate(NUMERIC), (len(NUMERIC) + 1, PLACE)):
            if any(f" {known} " in text for known in meaning.names):
                return at, meaning
    return len(NUMERIC), None


_MAX_NESTING = 100  # deeper values are compared as a whole

COLUMNS = (
    Column("setting", "its path: names separated by dots, `[n]` for an index in a list", 48),
    Column("target", "value in the target, as JSON; empty if missing", 30),
    Column("golden", "value in the golden", 30),
    Column("changes", "the effect of a setting with this name; empty if unknown", 22),
    Column("source", "source of this information", 40),
)


@dataclass(frozen=True, slots=True)
class Difference:
    """One setting that differs: its value on each side as JSON, None if the side does not have it, and its effect."""

    path: str
    target: str | None
    golden: str | None
    meaning: Meaning | None

    @property
    def is_of_place(self) -> bool:
        """Return whether it differs between any two runs."""
        return self.meaning is PLACE


@dataclass(frozen=True)
class ConfigurationDifferences:
    """Result of a comparison: differences, the likely explanations first; `count` is the number of all settings;
    `problem` if something could not be read."""

    differences: tuple[Difference, ...] = ()
    count: int = 0
    problem: str = ""


def compare_configurations(target: Path | None, golden: Path | None) -> ConfigurationDifferences:
    """Compare two files; None is a side without one. An error in them is put into `problem`, never raised."""
    if target is None and golden is None:
        return ConfigurationDifferences()
    if target is None or golden is None:
        return ConfigurationDifferences(
            problem=f"configurations.json is only on the {'target' if target else 'golden'} side"
        )
    sides: list[dict[tuple[str, ...], str]] = []
    for path in (target, golden):
        try:
            if not is_file(path):
                raise OSError("it is not a file but a link, a pipe or a folder")
            held = json.loads(read_input(path, MAX_CONFIGURATION_BYTES).decode("utf-8-sig"))
            sides.append(dict(_leaves(redaction.setting("", held))))
        except (OSError, ValueError, RecursionError, MemoryError) as err:
            why = f"cannot be read ({err or type(err).__name__})"
            return ConfigurationDifferences(problem=f"{path}: {why}; configurations not compared")
    ours, theirs = sides
    settings = {**ours, **theirs}
    differing = [path for path in settings if not _equal(ours.get(path), theirs.get(path))]
    differing.sort(key=lambda path: rank_of(path)[0])  # among equals the order of the files
    found = (Difference(_dotted(path), ours.get(path), theirs.get(path), rank_of(path)[1]) for path in differing)
    return ConfigurationDifferences(tuple(found), len(settings))


def rows(compared: ConfigurationDifferences) -> Iterator[tuple[str, ...]]:
    """Return one row of cells for each difference."""
    for each in compared.differences:
        meaning = (each.meaning.changes, each.meaning.source) if each.meaning else ("", "")
        yield guard(each.path), guard(each.target or ""), guard(each.golden or ""), *meaning


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Return every value without inner values, and every empty container, by its path; texts without addresses of
    objects."""
    waiting = [(path, value)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, dict | list) and value and len(path) < _MAX_NESTING:
            inner = value.items() if isinstance(value, dict) else ((f"[{at}]", v) for at, v in enumerate(value))
            waiting += reversed([((*path, without_addresses(key)), each) for key, each in inner])
        else:
            text = without_addresses(value) if isinstance(value, str) else value
            yield path, printable(json.dumps(text, ensure_ascii=False))


def _dotted(path: tuple[str, ...]) -> str:
    text = ""
    for part in path:
        if part.startswith("[") and part.endswith("]"):
            text += part
            continue
        name = part if part and "." not in part else json.dumps(part, ensure_ascii=False)
        text += f".{name}" if text else name
    return printable(text) or "the whole"


def _equal(ours: str | None, theirs: str | None) -> bool:
    """Return whether two values are equal as JSON, where 1 and 1.0 are one number."""
    if ours is None or theirs is None or (ours == theirs and not redaction.is_redacted(ours)):
        return ours == theirs
    a, b = json.loads(ours), json.loads(theirs)
    if redaction.is_redacted(a) or redaction.is_redacted(b):
        return bool(redaction.same(a, b))
    return not (isinstance(a, bool) or isinstance(b, bool)) and isinstance(a, int | float) and bool(a == b)
