"""`compare_rollout`, the comparison from Python; its answer as findings, and the files with it."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from msprobe.base.files import refuse_existing, replace_atomically, writing
from msprobe.base.phrase import phrase
from msprobe.base.verdicts import last_line
from msprobe.compare.tables.cells import Cell, number
from msprobe.compare.tables.columns import Column
from msprobe.compare.tables.table_file import objects, write_table
from msprobe.findings.data import as_data
from msprobe.findings.document import Document, as_object, text_of
from msprobe.findings.finding import Answer, Finding, Place
from msprobe.store.lock import exclusive

from .alignment import align
from .diagnosis import KINDS, RolloutResult, diagnose
from .side import read_numbers, read_side

SUMMARY = "rollout_check.json"

SAMPLES = (
    Column("sample", "number of the sample in generated", 9),
    Column("recomputed_sample", "its number in recomputed", 18),
    Column("step", "its training step; empty if unknown", 6),
    Column("prompt", "tokens of its prompt; empty if unknown", 8),
    Column("tokens", "response tokens that are compared", 8),
    Column("mean", "mean gap, generated - recomputed", 20),
    Column("mean_absolute", "mean absolute gap", 20),
    Column("max_absolute", "largest absolute gap", 20),
    Column("worst_position", "its position in the response, starting at 0", 14),
)
POSITIONS = (
    Column("position", "position in the response, starting at 0", 9),
    Column("samples", "number of samples of this length", 9),
    Column("mean", "mean gap", 20),
    Column("mean_absolute", "mean absolute gap", 20),
    Column("max_absolute", "largest absolute gap", 20),
)


def write(result: RolloutResult, folder: Path, form: str) -> dict[str, Path]:
    """Write `rollout_check.json` and, as xlsx or csv, the two tables; with json they are in that one file.

    Return the paths. Raise a UsageError if that fails, or if an answer exists already.
    """
    summary, tables = folder / SUMMARY, {}
    written = {"document": summary}
    with exclusive(folder):
        refuse_existing(summary, "give another folder with -o")
        with writing(folder):
            for name, columns, rows in (
                ("samples", SAMPLES, samples(result)),
                ("positions", POSITIONS, positions(result)),
            ):
                if form == "json":
                    tables[name] = objects(columns, rows)
                    continue
                written[name] = folder / f"rollout_{name}.{form}"
                write_table(written[name], columns, rows, form, title=name)
            with replace_atomically(summary) as file:
                text = text_of(as_object(document_of(result, written, tables)))
                file.write(text.encode("utf-8", "replace"))
    return written


def document_of(
    result: RolloutResult, files: Mapping[str, Path], more_details: Mapping[str, Any] | None = None
) -> Document:
    """Return the document of a check."""
    verdicts = result.verdicts
    details = {
        "cause": result.cause,
        "candidates": {one.cause: round(one.strength, 3) for one in result.candidates},
        "overall": {key: as_data(value) for key, value in asdict(result.overall).items()},
        "unjudged": list(result.unjudged),
        **(more_details or {}),
    }
    answer = answer_of(result)
    return Document("rollout-check", answer, verdicts, verdicts.exit_code, files=files, details=details)


def answer_of(result: RolloutResult) -> Answer:
    """Return the answer: the likeliest cause, at the sample with the largest gaps."""
    line = last_line(phrase("{verdict}", verdict=result.headline), result.verdicts)
    notes = tuple(result.evidence)
    if result.verdict.grade not in ("warning", "error"):
        return Answer("clean" if result.verdicts.exit_code == 0 else "unjudged", line, notes=notes)
    fields: dict[str, object] = {"cause": result.cause, "mean_absolute": result.overall.mean_absolute}
    name = "all samples"
    for at in result.worst(1):
        name = f"sample {result.aligned.sample[at]}"
        fields |= {
            "sample": int(result.aligned.sample[at]),
            "position": int(result.by_sample.worst[at]),
            "max_absolute": float(result.by_sample.max_absolute[at]),
        }
    kind = KINDS[result.cause]
    reason = phrase("{reason}", reason=result.verdict.reason)
    finding = Finding(kind, Place(name), reason, result.verdict.grade, notes, as_data(fields))
    return Answer("differs", line, finding)


def samples(result: RolloutResult) -> Iterator[tuple[Cell, ...]]:
    """Return a row for each compared sample."""
    aligned, by = result.aligned, result.by_sample
    for at in range(aligned.count):
        yield (
            int(aligned.sample[at]),
            int(aligned.other_sample[at]),
            *("" if known is None else int(known[at]) for known in (aligned.steps, aligned.prompts)),
            int(aligned.lengths[at]),
            *(number(float(values[at])) for values in (by.mean, by.mean_absolute, by.max_absolute)),
            int(by.worst[at]) if by.worst[at] >= 0 else "",
        )


def positions(result: RolloutResult) -> Iterator[tuple[Cell, ...]]:
    """Return a row for each position."""
    by = result.by_position
    columns = (by.count.tolist(), by.mean.tolist(), by.mean_absolute.tolist(), by.max_absolute.tolist())
    yield from zip(range(len(by.count)), *columns, strict=True)


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
) -> RolloutResult:
    """Compare the log-probs of sampled tokens by generation with those recomputed by training.

    Each side is a list of 1-d arrays (response tokens only), a matrix (samples, columns) with its mask or with lengths,
    or packed 1-d with lengths; see how-to/comparing/rollout_check.md. Any floating-point dtype; computation is in
    float64.

    - `*_tokens`: token ids in the form of their side. With those of both, samples are paired by them.
    - `*_mask`: 1 or True for elements of a response, in the shape of its side.
    - `lengths`: response tokens of each sample, of both sides; `generated_lengths`, `recomputed_lengths` of one. Of
      `cu_seqlens`, `np.diff(cu_seqlens)`.
    - `prompt_lengths`: prompt tokens of each sample. They distinguish padding from a cut prompt; in a matrix without a
      mask they are also the position at which the response begins.
    - `steps`: the training step of each sample.

    `prompt_lengths` and `steps` are in the order of `generated`. Raise a UsageError if a form contradicts itself, if
    values are not log-probs, or if nothing is left to compare. Samples with NaN or infinities are unjudged.
    """
    prompts, of_step = read_numbers("prompt_lengths", prompt_lengths), read_numbers("steps", steps)
    sides = [
        read_side(name, values, tokens, mask, lengths if own is None else own, prompts)
        for name, values, tokens, mask, own in (
            ("generated", generated, generated_tokens, generated_mask, generated_lengths),
            ("recomputed", recomputed, recomputed_tokens, recomputed_mask, recomputed_lengths),
        )
    ]
    return diagnose(align(sides[0], sides[1], prompts, of_step))
