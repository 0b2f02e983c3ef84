"""Describe arrays, numbers and texts as records in JSON: `format.md` 2.2, 2.3."""

import json
import logging
from collections.abc import Sequence
from functools import lru_cache
from json.encoder import encode_basestring_ascii as quote
from math import isfinite
from typing import Any

import numpy as np

from msprobe.base.digest import digest
from msprobe.base.interrupts import must_propagate
from msprobe.base.log import log_once
from msprobe.base.nested import escape_surrogates, type_name
from msprobe.base.schema import COUNTS, DIGEST, NAMES, Statistic, members
from msprobe.base.statistic import shares, statistic

from . import layout
from .torch_files import marked
from .writer import StepWriter

MAX_TEXT_LENGTH = 10_000
"""Characters of a text that are recorded."""

WIDEST = 2048
"""Bits of a whole number. Python may be set to refuse numbers of more than 640 digits, wherever they are read."""


class ArrayDescriber:
    """Makes the records of arrays, and writes the files of tensors where tensors are saved.

    `saves`: each tensor goes to an npy file too. `digests`: records have the digest of this kind of the tensor's bytes.
    `extra`: records have these optional statistics as well.
    """

    kind = "mindspore.Tensor"
    is_borrowed = True
    """Whether the arrays are memory of the framework that is used again once the call of `array` has returned."""

    def __init__(
        self, writer: StepWriter, *, saves: bool = False, digests: str = "", extra: Sequence[Statistic] = ()
    ) -> None:
        self._writer = writer
        self.saves, self.digests, self.extra = saves, digests, tuple(extra)
        self._holder = writer.holder

    def array(self, array: np.ndarray[Any, Any], call: str, part: str, kind: str, dtype: str) -> str:
        """Return the record of an array; what represents it where values are held until their call is known to be
        written.

        The array is not changed. It is read now, or, where it is held and not borrowed, later.
        """
        if self._holder is not None:
            held = array.copy() if self.is_borrowed else array
            return self._holder.hold_array(
                self,  # type: ignore[arg-type]  # which reads no tensors; of an array it is asked for the record alone
                *(held, call, part, kind, dtype),
            )
        return self.described_array(array, call, part, kind, dtype)

    def described_array(self, array: np.ndarray[Any, Any], call: str, part: str, kind: str, dtype: str) -> str:
        """Return the record of an array that is read now; the array is neither kept nor changed."""
        text = beginning(kind, dtype, array.shape) + statistics(array, self.extra) + self._digest(array)
        return self._finished(text, array, dtype, call, part)

    def _digest(self, array: np.ndarray[Any, Any]) -> str:
        """Return the member of a record that says the digest; empty if records have none."""
        return f',"{DIGEST.key}":"{digest(array, self.digests)}"' if self.digests else ""

    def _finished(self, text: str, array: np.ndarray[Any, Any], dtype: object, call: str, part: str) -> str:
        """Return the record with its statistics and digest, after the tensor is saved (if tensors are saved)."""
        if self.saves:
            suffix = self._writer.suffix
            if suffix == layout.PT:
                array = marked(array, str(dtype))
            try:
                name = self._writer.tensor(f"{call}.{part}{suffix}" if part else f"{call}{suffix}", array)
                text += f',"data_name":{quote(name)}' if name else ""
            except OSError as cause:
                self.lost(call, part, not_written(cause))
        return f"{text}}}"

    def plain(self, value: Any, call: str, part: str) -> str:
        """Return the record of a number or a text; of a subclass what Python stores, whatever the subclass makes of
        it."""
        kind = type(value)
        if issubclass(kind, str):
            text = escape_surrogates(str.__str__(value))
            if len(text) > MAX_TEXT_LENGTH:
                self.lost(call, part, f"a string of more than {MAX_TEXT_LENGTH} characters; the rest is omitted")
                text = text[:MAX_TEXT_LENGTH]
            stored = quote(_without_secrets(text))
        elif issubclass(kind, float):
            stored = number(float.__pos__(value))
        elif kind is bool:
            stored = "true" if value else "false"
        elif int.bit_length(value) > WIDEST:
            self.lost(call, part, f"an integer of more than {WIDEST} bits")
            return "null"
        else:
            stored = int.__repr__(value)
        return f'{{"type":{quote(type_name(value))},"value":{stored}}}'

    def lost(self, call: str, part: str, cause: str, kind: str = "") -> None:
        """Note once in the log, and each time in the dump, that a value could not be collected.

        `kind` is the cause as the log counts it, where the text holds numbers that differ from call to call.
        """
        message = f"{call}.{part} could not be collected: {cause}; the training continues"
        log_once(f"lost: {kind or cause}", message, logging.WARNING)
        try:
            self._writer.missing(call, part, cause)
        except Exception as error:  # a debugger never stops the training because of itself
            if must_propagate(error):
                raise
            log_once("journal", f"the journal of the dump cannot be written: {error}; free some space", logging.ERROR)


def not_written(cause: OSError) -> str:
    """Return why a tensor was not saved, as the dump says it."""
    return f"the npy could not be written: {cause.strerror or cause}"


def place_of_run(run: int, model: int) -> str:
    """Return the member of an entry with the run and the model of the call; empty in the first run of the first
    model."""
    members = [f'"{word}":{number}' for word, number in (("micro_step", run), ("model", model)) if number]
    return f',"at":{{{",".join(members)}}}' if members else ""


def beginning(kind: str, dtype: str, shape: tuple[int, ...]) -> str:
    """Return the record's text before its statistics."""
    return f'{{"type":"{kind}","dtype":"{dtype}","shape":[{",".join(map(str, shape))}],'


def statistics(array: np.ndarray[Any, Any], extra: Sequence[Statistic] = ()) -> str:
    """Return the members of a record that hold the statistics; `record` of the kernel gives the same where it can read.

    `extra` are the optional ones that are wanted.
    """
    s = statistic(array)
    text = members(tuple([number(getattr(s, name)) for name in NAMES]))
    is_bool = array.dtype.kind == "b" and array.size > 0
    counts = [(each.key, getattr(s, each.key)) for each in COUNTS]
    text += "".join([f',"{key}":{count}' for key, count in counts if count or (is_bool and key == "true_count")])
    if extra:
        found = zip(extra, shares(array, extra, s.nan_count), strict=True)
        text += "".join([f',"{each.key}":{share!r}' for each, share in found if share is not None])
    return text


def number(value: Any) -> str:
    """Return a statistic as JSON text."""
    return repr(value) if type(value) is float and isfinite(value) else json.dumps(value)


@lru_cache(4096)
def _without_secrets(text: str) -> str:
    from msprobe.base import redaction  # its tables are not needed for tensors alone

    return redaction.text(text)
