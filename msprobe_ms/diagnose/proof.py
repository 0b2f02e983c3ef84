"""The proof that `msprobe graft -o DIR` wrote for the two runs of a diagnosis, which the page quotes."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msprobe.base.errors import UsageError
from msprobe.base.files import read_input
from msprobe.base.language import translated

MAX_BYTES = 64 << 20
"""Largest proof that is read: some KiB for each graft."""


@dataclass(frozen=True, slots=True)
class Proof:
    """The result of a proof: its last line, and its causes as (name, kind, reason)."""

    file: str
    answer: str
    causes: tuple[tuple[str, str, str], ...]

    def as_object(self) -> dict[str, Any]:
        """Return it as JSON types."""
        causes = [{"name": name, "kind": kind, "reason": reason} for name, kind, reason in self.causes]
        return {"file": self.file, "answer": self.answer, "causes": causes}


def read_proof(file: Path, target: Path, golden: Path) -> Proof:
    """Read the proof in a file for two runs. UsageError if it cannot be read, or is about other runs."""
    try:
        contents = json.loads(read_input(file, MAX_BYTES))
        if not isinstance(contents, Mapping) or contents["command"] != "graft":
            raise ValueError('its "command" is not "graft"')
        details = contents["details"]
        proven = Path(details["target"]), Path(details["golden"])
        causes = tuple((one["place"]["name"], one["kind"], one["message"]) for one in contents["findings"])
        proof = Proof(str(file), str(contents["answer"]), causes)
    except OSError as err:
        raise UsageError(_invalid(file, err.strerror or str(err))) from err
    except (ValueError, KeyError, TypeError, RecursionError) as err:
        raise UsageError(_invalid(file, f"{type(err).__name__}: {err}")) from err
    if not all(_overlap(*each) for each in zip((target, golden), proven, strict=True)):
        raise UsageError(
            translated(
                f"--proof {file}: is about {proven[0]} and {proven[1]}, not {target} and {golden}; give its two runs",
                f"--proof {file}：针对的是 {proven[0]} 与 {proven[1]}，而不是 {target} 与 {golden}；请给出它的两次运行",
            )
        )
    return proof


def _invalid(file: Path, cause: str) -> str:
    return translated(
        f"--proof {file}: is not a proof ({cause}); give proof.json in the folder of `msprobe graft -o`",
        f"--proof {file}：不是证明（{cause}）；请给出 `msprobe graft -o` 目录中的 proof.json",
    )


def _overlap(one: Path, other: Path) -> bool:
    """Return whether a path is the other, or inside it."""
    first, second = one.resolve(), other.resolve()
    return first.is_relative_to(second) or second.is_relative_to(first)
