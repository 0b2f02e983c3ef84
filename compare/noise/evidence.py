"""Evidence that distinguishes noise from a fault at the outputs of innermost calls: the interface, and judgements by
bitwise equality."""

import math
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from msprobe.base import names
from msprobe.compare.core.limits import Kind
from msprobe.compare.core.noise import (
    ROUNDING,
    VANISHED,
    Evidence,
    KernelPrecision,
    PrecisionClass,
    ResidualJudgement,
    Unseen,
)
from msprobe.compare.core.reason import DRIFT
from msprobe.compare.core.standard import canonical
from msprobe.compare.dataflow.events import Event
from msprobe.compare.judge.judged import DIFFERENT, EQUAL
from msprobe.replay.recorded import NotReplayed, Replayed
from msprobe.store.record import INPUT

from .pairs import PASS, AlignedGraphs
from .structure import Structure

ReplayOutcome = Replayed | NotReplayed

_KERNELS_DIFFER = 10 * 2.0**-23
"""The relative error of one call in float32, between two kernels."""

_ROUNDED = 3.0
"""The same in half precision, in units of the last place."""

_HALF_UNITS = {"float16": 2.0**-10, "bfloat16": 2.0**-7}
"""The spacing of a dtype that is coarser than the internal precision: one unit in the last place."""


class OutputEvidence(ABC):
    """Evidence about pairs of outputs that differ, by row.

    `judgements` contain which are noise. `crossed` are those whose target was compared with the golden's function.
    `origins` are the outputs that differ although all inputs are bitwise equal; `by_bits` are those of them that are
    wrong because most calls of the kind are equal. `replays` are the replayed calls by side and call. `are_noisy`: the
    two runs are not bitwise equal even if nothing is wrong; this is always so between two frameworks, and if one side
    computes a tensor by other calls. `unlike_others` are the outputs among `by_bits` for which other calls of the kind
    are bitwise equal.
    """

    calls_unrecorded = 1.0
    """Number of roundings of one call that operations may cause which were not recorded."""

    def __init__(self, aligned: AlignedGraphs) -> None:
        self._aligned = aligned
        self._innermost = list(aligned.innermost)
        self.crossed: set[int] = set()
        self.replays: Sequence[Mapping[int, ReplayOutcome]] = ({}, {})
        self.judgements = self._judge()
        self.origins: list[int] = []
        self.unlike_others = set[int]()
        self.by_bits = set() if aligned.has_other_kernels else self._find_by_bits()
        self.are_noisy = aligned.has_other_kernels or self._is_noise_seen()
        if not self.are_noisy and self._is_rewritten():
            # Noise can only come from there: otherwise equal inputs give equal outputs.
            self.are_noisy = True
            self.by_bits.update(self.origins)

    @abstractmethod
    def _judge(self) -> Mapping[int, ResidualJudgement]:
        """Return the judgements of all outputs that differ and for which there is evidence."""

    @abstractmethod
    def evidence(self, row: int, event: Event, judgement: ResidualJudgement, error: float, most: float) -> Evidence:
        """Return the evidence that decided an output whose inputs differ by `error`, and which may differ by `most`
        times that."""

    @abstractmethod
    def floor(self, row: int) -> float:
        """Return the relative rounding error of one call that writes this tensor, in the coarsest class of the two
        runs."""

    @abstractmethod
    def _is_coarse(self, row: int) -> bool:
        """Return whether an output is as coarse as others of its precision class."""

    @abstractmethod
    def _tiny_faults(self, reproducible: int) -> Iterable[int]:
        """Return the outputs of the only call that differs, among `reproducible` calls that do not, that are not
        noise."""

    def rounding(self, row: int) -> float:
        """Return the relative error of a tensor up to which two kernels may differ that both compute in float32
        internally."""
        dtype, _ = self._aligned.dtype_and_shape(1, row)
        return _KERNELS_DIFFER + self.unit_of(dtype)

    @staticmethod
    def unit_of(dtype: str) -> float:
        """Return the spacing of a dtype in half precision; 0 for any other."""
        return _HALF_UNITS.get(canonical(dtype), 0.0)

    @property
    def most_of_sums(self) -> float:
        """Return the largest ratio of the relative error of a parameter's gradient to that of its inputs. The gradient
        is a sum over positions: errors of operands that all positions share do not average out."""
        return 0.0

    def hidden(self, row: int, evidence: Evidence) -> float:
        """Return the error, relative to an output, up to which it was judged to be rounding."""
        if evidence.bound == evidence.bound:
            return evidence.bound
        return max(evidence.explained, self.floor(row))

    def rounding_of(self, dtype: str) -> float:
        """Return the relative rounding error of one call that writes a tensor of a dtype: sums of two kernels differ by
        some units in float32, and are rounded to half precision once or twice; two frameworks may accumulate in it."""
        unit = _HALF_UNITS.get(canonical(dtype))
        if unit is None:
            return _KERNELS_DIFFER
        return (10.0 if self._aligned.has_other_kernels else _ROUNDED) * unit

    def tolerate(self, rows: Iterable[int]) -> None:
        """Accept outputs as noise that differ only by their bits: the two runs are noisy then."""
        self.by_bits.difference_update(rows)
        self.are_noisy = True

    # Defaults, for evidence that does not contain this.

    def precision(self, row: int) -> KernelPrecision:
        """Return the precision in which the target's kernel computed an output."""
        return KernelPrecision.OPAQUE

    def is_side_product(self, row: int, event: Event) -> bool:
        """Return whether an output is not defined by the operation, and not used: values that a kernel saves for
        itself, or unused memory (batch statistics of BatchNorm)."""
        return False

    def ignores_order(self, row: int) -> bool:
        """Return whether an output looks the same for any order in which its inputs are joined."""
        return False

    def unseen(self, noise: Sequence[int]) -> Unseen | None:
        """Return what noise hides among the pairs of records that are noise, as only statistics are known; None if
        elements are known."""
        return None

    def classes(self) -> Iterable[PrecisionClass]:
        """Return the operations that are consistently coarser than float32."""
        return ()

    def is_without_effect(self, event: Event, rows: Sequence[int]) -> bool | None:
        """Return whether arguments of a pair of calls that differ have no effect on its outputs; None if unknown.

        This is decided by the outputs: they are the same within rounding, or each side only rearranges the elements of
        its inputs. `rows` are pairs of arguments that no recorded call produced.
        """
        aligned = self._aligned
        outputs = [row for row in aligned.outputs(event) if aligned.are_tensors[row]]
        tensors = [row for row in rows if aligned.are_tensors[row]]
        left = max(map(aligned.distance, outputs), default=math.inf)
        least = min(map(aligned.distance, tensors), default=0.0) if len(tensors) == len(rows) else 0.0
        if left <= ROUNDING or left * VANISHED <= least:
            return True
        if all(
            graph.only_arranges(calls[event.place]) for graph, calls in zip(aligned.graphs, aligned.calls, strict=True)
        ):
            return True
        return False if tensors else None

    def _is_never_reproducible(self, row: int) -> bool:
        """Return whether a calibration has shown that calls of this kind need not give the same bits twice."""
        return False

    def kind(self, row: int, event: Event) -> Kind:
        """Return the kind of an output, by the function or cell."""
        return Kind(stem_of(event), event.direction, output_of(event, self._aligned.path(0, row)))

    def _is_rewritten(self) -> bool:
        """Return whether the results of a call that only one side makes are not bitwise equal, but differ by rounding
        or more."""
        aligned = self._aligned
        if not any(aligned.unmatched_place):
            return False
        return Structure(aligned, np.zeros(len(aligned.equal), np.uint8).data).has_different_results

    @cached_property
    def places(self) -> Mapping[int, str]:
        """Return by event the place of its call, without the numbers of layers, and its position among the calls of its
        cell with the same name. Calls outside of all cells cannot be assigned to layers."""
        found: dict[int, str] = {}
        seen = Counter[tuple[str, str, str]]()
        for event in self._aligned.events:
            place = _place(event)
            if event.keys:
                key = event.keys[0], place, event.direction
                place, seen[key] = f"{place}.{seen[key]}", seen[key] + 1
            found[event.at] = place
        return found

    @cached_property
    def _have_drifted(self) -> bool:
        """Return whether parameters differ by no more than earlier steps explain."""
        return any(reason.why in DRIFT for reasons in self._aligned.comparison.reasons.values() for reason in reasons)

    def _is_noise_seen(self) -> bool:
        """Return whether an output of equal inputs differs by known noise."""
        known = (self.judgements.get(row) for row in self.origins if row not in self.by_bits)
        return any(one is not None and not one.is_wrong and one.is_of is not KernelPrecision.OPAQUE for one in known)

    @cached_property
    def _are_differing(self) -> NDArray[np.bool_]:
        """Return which pairs of records are tensors that calls returned and that differ."""
        aligned = self._aligned
        are_differing = (np.asarray(aligned.equal) == DIFFERENT) & np.asarray(aligned.are_tensors)
        found: NDArray[np.bool_] = are_differing & ~np.asarray(aligned.is_input)
        return found

    @cached_property
    def _with_differing(self) -> bytes:
        """Return by pair of calls whether a pair of tensors that it returned differs."""
        return self._aligned.calls_with(self._are_differing)

    def outputs_that_differ(self) -> Iterator[tuple[Event, list[int]]]:
        """Yield the pairs of calls with outputs that differ, and these, without those of calls inside; in execution
        order."""
        aligned = self._aligned
        for event in aligned.events_with(self._are_differing):
            rows = [row for row in event.rows if self._are_differing[row]]
            if event not in aligned.innermost:
                rows = [row for row in rows if aligned.judged_elsewhere(row) < 0]
            if rows:
                yield event, rows

    def _find_by_bits(self) -> set[int]:
        aligned = self._aligned
        others: dict[Hashable, list[list[int]]] = defaultdict(list)
        begun = set[Event]()
        for event in self._innermost:
            if not self._with_differing[event.place] or not self._has_equal_inputs(event):
                continue
            if differing := [r for r in self._compared(event) if aligned.equal[r] == DIFFERENT]:
                begun.add(event)
                others[self._likeness(event)].append(differing)
                self.origins += differing
        if not others:
            return set()
        same: Counter[Hashable] = Counter()
        for event in self._innermost:
            if event in begun or not self._has_equal_inputs(event):
                continue
            if self._shows_rounding(event):
                same[self._likeness(event)] += 1
        found = {
            row
            for key, calls in others.items()
            if same[key] > len(calls)
            for rows in calls
            for row in rows
            if not self._is_coarse(row)
        }
        self.unlike_others = found.copy()
        if not found and sum(map(len, others.values())) == 1:
            found.update(self._tiny_faults(same.total()))
        return {r for r in found if not self._is_never_reproducible(r)}

    def _shows_rounding(self, event: Event) -> bool:
        """Return whether another kernel might have returned other bits: a product of constants such as zeros is
        exact."""
        aligned, columns = self._aligned, self._aligned.graphs[0].columns
        rows = [row for row in event.rows if aligned.are_tensors[row] and aligned.is_input[row]]
        received = [row for row in rows if columns.part[aligned.rows[0][row]] == INPUT]
        compared = self._compared(event)
        return not all(map(aligned.is_constant, compared)) and not (
            received and all(map(aligned.is_constant, received))
        )

    def _compared(self, event: Event) -> list[int]:
        """Return the floating-point tensors that an innermost call returned, without side products that differ."""
        aligned = self._aligned
        rows = [r for r in aligned.outputs(event) if aligned.are_tensors[r] and aligned.is_floating(r)]
        return [r for r in rows if aligned.equal[r] == EQUAL or not self.is_side_product(r, event)]

    def _has_equal_inputs(self, event: Event) -> bool:
        received, returned = self._with_apart
        return not received[event.place] and not any(received[at] or returned[at] for at in event.forwards)

    @cached_property
    def _with_apart(self) -> tuple[bytes, bytes]:
        """Return by pair of calls whether some of its inputs differ, and whether some of its outputs do."""
        is_input, are_apart = np.asarray(self._aligned.is_input), self._are_apart()
        return self._aligned.calls_with(are_apart & is_input), self._aligned.calls_with(are_apart & ~is_input)

    def _are_apart(self) -> NDArray[np.bool_]:
        """Return which pairs of records are not bitwise equal, or may not be; values that are not tensors otherwise
        pass."""
        aligned = self._aligned
        passes = (np.asarray(aligned.grades) == PASS) & ~np.asarray(aligned.are_tensors)
        found: NDArray[np.bool_] = ~((np.asarray(aligned.equal) == EQUAL) | passes)
        return found

    def _likeness(self, event: Event) -> Hashable:
        """Return the common properties of calls that one kernel computes in the same way: operation and shapes."""
        rows, columns = self._aligned.rows[0], self._aligned.graphs[0].columns
        looks = tuple(columns.look[rows[r]] for r in event.rows if rows[r] >= 0)
        return stem_of(event), event.direction, looks


def _place(event: Event) -> str:
    """Return the place of a call, without the numbers of layers."""
    path = names.parse(event.parents[0]).path if event.parents and event.parents[0] else ""
    name = names.parse(event.called)
    own = name.path if event.kind == "cell" else name.stem
    return ".".join("#" if part.isdigit() else part for part in f"{path}/{own}".split("."))


def stem_of(event: Event) -> str:
    """Return what was called: a function, or the class of a cell."""
    stem = names.parse(event.called).stem
    return stem if event.kind == "api" else stem.rpartition(".")[2]


def output_of(event: Event, path: tuple[str, ...]) -> str:
    """Return which output of a call a record is; all outputs of cells are one kind."""
    return ".".join(path[:1]) if event.kind == "api" else event.kind
