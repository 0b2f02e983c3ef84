"""`compare_rollout`: log-probs of generation against those of training, from Python, and its files."""

import json
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from msprobe.base.errors import UsageError
from msprobe.base.files import replacing
from msprobe.compare.tables.cells import Cell, number
from msprobe.compare.tables.columns import Column
from msprobe.compare.tables.table_file import objects, write_table
from msprobe.store.lock import alone

from .alignment import Aligned, align
from .detector import Array, by_position, by_sample, case_of, chosen, overall
from .diagnosis import Answer, judge
from .side import LOWEST, read_numbers, read_side
from .token_detectors import is_end_token

SUMMARY = "rollout_check.json"

SAMPLES = (
    Column("sample", "number of the sample in generated", 9),
    Column("recomputed_sample", "its number in recomputed", 18),
    Column("step", "its training step; empty where nothing tells", 6),
    Column("prompt", "tokens of its prompt; empty where nothing tells", 8),
    Column("tokens", "response tokens that are compared", 8),
    Column("mean", "mean gap, generated - recomputed", 20),
    Column("mean_absolute", "mean absolute gap", 20),
    Column("max_absolute", "greatest absolute gap", 20),
    Column("worst_position", "its position in the response, from 0 on", 14),
)
POSITIONS = (
    Column("position", "position in the response, from 0 on", 9),
    Column("samples", "samples that are that long", 9),
    Column("mean", "mean gap", 20),
    Column("mean_absolute", "mean absolute gap", 20),
    Column("max_absolute", "greatest absolute gap", 20),
)


def write(answer: Answer, folder: Path, form: str) -> list[Path]:
    """Write `rollout_check.json` and, as xlsx or csv, the two tables; with json they are in that one file.

    UsageError where that cannot be done, or where an answer is there already.
    """
    summary = folder / SUMMARY
    with alone(folder):
        if os.path.lexists(summary):
            raise UsageError(f"{summary}: is there already; give another folder with -o, or remove it")
        return _write(answer, folder, form)


def _write(answer: Answer, folder: Path, form: str) -> list[Path]:
    summary = folder / SUMMARY
    tables = {"samples": (SAMPLES, samples), "positions": (POSITIONS, positions)}
    told = as_object(answer)
    written = [summary]
    try:
        for name, (columns, rows) in tables.items():
            if form == "json":
                told[name] = objects(columns, rows(answer))
                continue
            path = folder / f"rollout_{name}.{form}"
            write_table(path, columns, rows(answer), form, title=name)
            written.append(path)
        with replacing(summary) as file:
            file.write(json.dumps(told, indent=1, allow_nan=False, ensure_ascii=False).encode("utf-8", "replace"))
    except OSError as err:
        raise UsageError(f"{folder}: cannot be written ({err.strerror or err}); give another folder with -o") from err
    return written


def as_object(answer: Answer) -> dict[str, object]:
    """The answer without its tables, as JSON has it: no NaN, which is null."""
    overall = {
        key: value if isinstance(value, int) or math.isfinite(value) else None
        for key, value in asdict(answer.overall).items()
    }
    return {
        "verdict": answer.verdict.grade,
        "reason": answer.verdict.reason,
        "cause": answer.cause,
        "candidates": {one.cause: round(one.strength, 3) for one in answer.candidates},
        "evidence": list(answer.evidence),
        "overall": overall,
        "unjudged": list(answer.unjudged),
    }


def samples(answer: Answer) -> Iterator[tuple[Cell, ...]]:
    """A row for each sample that was compared."""
    aligned, by = answer.aligned, answer.by_sample
    for at in range(aligned.count):
        yield (
            int(aligned.sample[at]),
            int(aligned.other_sample[at]),
            "" if aligned.steps is None else int(aligned.steps[at]),
            "" if aligned.prompts is None else int(aligned.prompts[at]),
            int(aligned.lengths[at]),
            number(float(by.mean[at])),
            number(float(by.mean_absolute[at])),
            number(float(by.max_absolute[at])),
            int(by.worst[at]) if by.worst[at] >= 0 else "",
        )


def positions(answer: Answer) -> Iterator[tuple[Cell, ...]]:
    """A row for each position."""
    by = answer.by_position
    columns = (by.count.tolist(), by.mean.tolist(), by.mean_absolute.tolist(), by.max_absolute.tolist())
    for at, cells in enumerate(zip(*columns, strict=True)):
        yield (at, *cells)


def compare_rollout(
    generated: object,
    recomputed: object,
    *,
    generated_tokens: object = None,
    recomputed_tokens: object = None,
    generated_mask: object = None,
    recomputed_mask: object = None,
    prompt_lengths: object = None,
    lengths: object = None,
    generated_lengths: object = None,
    recomputed_lengths: object = None,
    steps: object = None,
) -> Answer:
    """Compare the log-probs of sampled tokens as generation gave them with those that training computed again.

    Each side is a list of 1-d arrays (response tokens only), a matrix (samples, columns) with its mask or with lengths,
    or packed 1-d with lengths; see `side.py` and docs/rollout_check.md. Any floating dtype; all is computed in float64.

    - `*_tokens`: token ids in the form of their side. With those of both, samples are paired by them.
    - `*_mask`: 1 or True where an element is of a response, in the shape of its side.
    - `lengths`: response tokens of each sample, of both sides; `generated_lengths`, `recomputed_lengths` of one. Of
      `cu_seqlens`, `np.diff(cu_seqlens)`.
    - `prompt_lengths`: prompt tokens of each sample. They tell padding from a cut prompt; in a matrix without a mask
      they also say where the response begins.
    - `steps`: the training step of each sample.

    `prompt_lengths` and `steps` are in the order of `generated`. UsageError where a form contradicts itself, where
    values are no log-probs, or where nothing is left to compare. Samples with NaN or infinities are unjudged.
    """
    prompts, of_step = read_numbers("prompt_lengths", prompt_lengths), read_numbers("steps", steps)
    sides = [
        read_side(name, values, tokens, mask, lengths if own is None else own, prompts)
        for name, values, tokens, mask, own in (
            ("generated", generated, generated_tokens, generated_mask, generated_lengths),
            ("recomputed", recomputed, recomputed_tokens, recomputed_mask, recomputed_lengths),
        )
    ]
    return answer(align(sides[0], sides[1], prompts, of_step))


def answer(aligned: Aligned, lost: Sequence[str] = ()) -> Answer:
    """Measure and judge what is aligned; `lost` says what was not even read. Where anything is lost nothing passes."""
    is_whole, broken = _whole(aligned)
    lost = [*lost, *_unpaired(aligned), *broken]
    unjudged = tuple(aligned.sample[~is_whole].tolist())
    if unjudged:
        aligned = chosen(aligned, is_whole)[0]
    if not len(aligned.generated):
        raise UsageError(
            "no token is on both sides with a finite log-prob; "
            + (broken[0] if broken else "look at the masks and the lengths that were given")
        )
    gaps = aligned.generated - aligned.recomputed
    total, samples = overall(aligned, gaps), by_sample(aligned, gaps)
    judged = judge(case_of(aligned, gaps, total, samples), _remarks(aligned), lost)
    return Answer(
        judged.verdict,
        judged.cause,
        judged.candidates,
        judged.evidence,
        total,
        by_position(aligned, gaps),
        samples,
        aligned,
        unjudged,
    )


def _whole(aligned: Aligned) -> tuple[Array, list[str]]:
    """Which samples are finite throughout, and a sentence on the others."""
    finite = np.isfinite(aligned.generated) & np.isfinite(aligned.recomputed)
    finite &= (aligned.generated > LOWEST) & (aligned.recomputed > LOWEST)
    whole = np.ones(aligned.count, bool)
    if finite.all():
        return whole, []
    places = np.flatnonzero(~finite)
    samples = np.searchsorted(aligned.begins, places, side="right") - 1
    whole[samples] = False
    first, sample = int(places[0]), int(samples[0])
    says = (
        f"{int((~whole).sum())} samples hold NaN or infinity (or what stands for it) and are not judged, first sample "
        f"{aligned.sample[sample]} at position {first - int(aligned.begins[sample])}: {aligned.generated[first]:g} "
        f"generated, {aligned.recomputed[first]:g} recomputed."
    )
    return whole, [says]


def _remarks(aligned: Aligned) -> list[str]:
    """What alignment did, where that was not nothing."""
    said = []
    if aligned.is_reordered:
        said.append("The samples stand in another order, and were paired by their token ids.")
    one, other = aligned.sizes
    if (one != other).any() and is_end_token(one, other):
        longer = "generated" if (one > other).any() else "recomputed"
        count = int((one != other).sum())
        said.append(f"One token more in {count} samples of {longer} (an end token) is not compared.")
    return said


def _unpaired(aligned: Aligned) -> list[str]:
    """A sentence for each side that has samples which the other has not."""
    said = []
    for name, left in zip(("generated", "recomputed"), aligned.unpaired, strict=True):
        if len(left):
            named = ", ".join(map(str, left[:5].tolist())) + (", ..." if len(left) > 5 else "")
            said.append(f"{len(left)} samples are in {name} only and are not compared ({named}).")
    return said
