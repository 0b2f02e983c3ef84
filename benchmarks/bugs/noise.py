"""How large a fault is where it is planted, beside the difference that a clean pair of the same regime has there.

Both are shares of the scale of the faulty call's results: of the tensor's root mean square with task tensor; of the
norm, or of the greatest element, with task statistics. The fault alone is what the two bit-equal runs differ by.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

Record = dict[str, Any]
_WITHOUT = ("bit-equal", "pytorch", "rewrite", "later")
"""Regimes of which this is not worked out."""


def add(folder: Path, cases: list[Path]) -> None:
    """Write `effect` and `noise` into the truth of faults that show in computed values alone."""
    clean = _clean_pairs(folder)
    for case in cases:
        truth = json.loads((case / "truth.json").read_text())
        is_of_cells = truth["level"] == "L0"  # there a fault may show in any kind
        is_of_values = is_of_cells or truth.get("kinds") == ["computes differently"]
        if truth["clean"] or not is_of_values or truth["regime"] in _WITHOUT:
            continue
        plain = folder / "bit-equal" / truth["task"] / truth["fault"]
        pairs = clean.get((truth["regime"], truth["task"], truth["net"], truth["variant"]), [])
        if not plain.exists() or not pairs:
            continue
        truth["effect"] = greatest(plain, truth["names"])
        truth["noise"] = max(greatest(pair, truth["names"]) for pair in pairs)
        (case / "truth.json").write_text(json.dumps(truth, indent=1))


def greatest(pair: Path, names: list[str]) -> float:
    """The greatest difference of the named calls' results between the two sides of a pair, as a share of the scale."""
    sides = [next((pair / side / "step0").glob("rank*")) for side in ("target", "golden")]
    found = [json.loads((side / "dump.json").read_text())["data"] for side in sides]
    shares = [0.0]
    for name in names:
        both = [list(_results(data.get(name, {}))) for data in found]
        for target, golden in zip(*both, strict=False):
            shares.append(_share(target, golden, *sides))
    return max(shares)


def _clean_pairs(folder: Path) -> dict[tuple[str, str, str, str], list[Path]]:
    found: dict[tuple[str, str, str, str], list[Path]] = {}
    for file in folder.glob("*/*/clean-*-small-*/truth.json"):
        truth = json.loads(file.read_text())
        key = truth["regime"], truth["task"], truth["net"], truth["variant"]
        found.setdefault(key, []).append(file.parent)
    return found


def _results(call: Record) -> list[Record]:
    """The first result of a forward call, which a kernel fault changes, or all gradients of a backward call."""
    results = [one for one in call.get("output", []) if isinstance(one, dict) and "Norm" in one]
    return results[:1] if "input_args" in call else results


def _share(target: Record, golden: Record, *sides: Path) -> float:
    if "data_name" in target and "data_name" in golden:
        a, b = (
            np.load(side / "dump_tensor_data" / one["data_name"]).astype(np.float64)
            for side, one in zip(sides, (target, golden), strict=True)
        )
        scale = np.sqrt(np.mean(np.square(b))) if b.size else 0.0
        return float(np.sqrt(np.mean(np.square(a - b))) / scale) if scale and a.shape == b.shape else 0.0
    scale = max(abs(golden["Max"]), abs(golden["Min"]))
    shares = [abs(target[key] - golden[key]) / scale for key in ("Max", "Min", "Mean") if scale]
    return max([*shares, abs(target["Norm"] - golden["Norm"]) / golden["Norm"] if golden["Norm"] else 0.0])
