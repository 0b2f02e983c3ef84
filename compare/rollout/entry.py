"""`compare_rollout`, the comparison from Python, and the files that are written of its answer."""

from collections.abc import Iterator
from pathlib import Path

from msprobe.base.files import refuse_existing, replacing, writing
from msprobe.compare.tables.cells import Cell, number
from msprobe.compare.tables.columns import Column
from msprobe.compare.tables.table_file import objects, write_table
from msprobe.findings.document import as_object, text_of
from msprobe.store.lock import exclusive

from .alignment import align
from .diagnosis import RolloutResult, diagnose
from .report import document_of
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

    Return the paths. UsageError where that fails, or where an answer exists already.
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
            with replacing(summary) as file:
                text = text_of(as_object(document_of(result, written, tables)))
                file.write(text.encode("utf-8", "replace"))
    return written


def samples(result: RolloutResult) -> Iterator[tuple[Cell, ...]]:
    """A row for each sample that was compared."""
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
    """A row for each position."""
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
    """Compare the log-probs of sampled tokens as generation gave them with those that training computed again.

    Each side is a list of 1-d arrays (response tokens only), a matrix (samples, columns) with its mask or with lengths,
    or packed 1-d with lengths; see how-to/comparing/rollout_check.md. Any floating dtype; all is computed in float64.

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
    return diagnose(align(sides[0], sides[1], prompts, of_step))
