"""Sentences for reasons. Decisions read the reasons, never the sentences."""

import math
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from msprobe.base.phrase import Phrase, Words, joined, names_phrase, phrase
from msprobe.compare.core.limits import Limits, LimitSource
from msprobe.compare.core.noise import Unseen
from msprobe.compare.core.reason import Reason, TensorLook, Why
from msprobe.compare.core.standard import EXACT, Standard
from msprobe.store.record import NonFinite

_OTHER = {"target": "golden", "golden": "target", "MindSpore": "PyTorch", "PyTorch": "MindSpore"}
_MAX_VALUE = 60  # longer values are cut


def sentences(reasons: Iterable[Reason]) -> str:
    """Return `The max differs: 2, golden 1. No tensor was saved on the target side.`; empty without any reason."""
    return " ".join(f"{sentence(reason)}." for reason in reasons)


def sentence(reason: Reason) -> str:
    """Return one reason without the full stop."""
    return str(reason_phrase(reason))


def reason_phrase(reason: Reason) -> Phrase:
    """Return one reason as a phrase without the full stop."""
    words = _WORDS[reason.why]
    if not isinstance(words, str):
        return words(reason)
    # The source of the limit that decided, unless it is built in.
    by = phrase(" ({whose} limit)", whose=phrase(reason.names[0])) if reason.names else ""
    return phrase(words, r=reason, there=_OTHER.get(reason.side, ""), by=by)


def reasons_phrase(reasons: Iterable[Reason]) -> Words:
    """Return all reasons as one phrase, the last without its full stop; empty without any."""
    return joined([reason_phrase(reason) for reason in reasons], "{before}. {after}")


def limits_phrase(limits: Limits) -> Phrase:
    """Return the noise limits in one line; those of a calibration include a warning if its run was wrong."""
    if limits.source is LimitSource.EXACT:
        return phrase("noise limits: exact (no tolerance)")
    if limits.source is LimitSource.BUILT_IN:
        return phrase("noise limits: built-in")
    text = phrase("noise limits: calibrated by {file}", file=limits.file)
    if not limits.first_wrong:
        return text
    names = ", ".join(limits.first_wrong)
    return phrase("{text}; its trusted run itself has a first wrong call: {names}", text=text, names=names)


def value_phrase(value: object) -> Words:
    """Return a value of a record."""
    if isinstance(value, TensorLook):
        return phrase("a tensor {dtype}{shape}", dtype=value.dtype, shape=shape_text(value.shape))
    text = repr(value)
    return text if len(text) <= _MAX_VALUE else text[: _MAX_VALUE - 3] + "..."


def shape_text(shape: object) -> str:
    """Return `[2, 16]`, as in the sheet."""
    return str(list(shape)) if isinstance(shape, tuple | list) else "None"


def statistic_phrase(excess: float, which: str, target: Any, golden: Any, standard: Standard) -> str:
    """Return how one statistic exceeds its standard, with a full stop."""
    return f"{_differing(excess, which, target, golden, standard)}."


_TIMES = "{excess:.3g} times"
_ANY_AMOUNT = "any amount"
_BEYOND = "The {which} differs beyond {standard} by {times}: {target:.9g}, golden {golden:.9g}"


@cache
def beyond_template(which: str, standard: Standard) -> str:
    """Return `statistic_phrase` of finite numbers as a template of `%` for excess, target and golden, which is the
    fastest; empty if a statistic must be equal."""
    if standard == EXACT:
        return ""
    before, _, after = _BEYOND.partition("{times}")
    before = before.format(which=which, standard=standard).replace("%", "%%")
    return before + f"{_TIMES}{after}.".format(excess=_Percent(), target=_Percent(), golden=_Percent())


class _Percent:
    """A number that is inserted later."""

    def __format__(self, form: str) -> str:
        return f"%{form}"


def _differing(excess: float, which: str, target: object, golden: object, standard: Standard) -> Phrase:
    values = {"which": which, "target": target, "golden": golden}
    if isinstance(target, NonFinite) and isinstance(golden, NonFinite):
        return _counts(target, golden)
    if any(isinstance(value, float) and not math.isfinite(value) for value in (target, golden)):
        return Phrase("NaN or infinity differs: the {which} is {target}, golden {golden}", values)
    if not (isinstance(target, float) and isinstance(golden, float)):
        return Phrase("The {which} differs: {target}, golden {golden}", values)
    if standard == EXACT:
        return Phrase("The {which} differs: {target:.9g}, golden {golden:.9g}", values)
    return phrase(_BEYOND, **values, standard=standard, times=_times(excess))


def unseen_phrase(unseen: Unseen) -> Phrase:
    """Return what noise hides in a comparison by statistics."""
    text = phrase("below the noise in statistics: single elements")
    if not unseen.outputs:
        return text
    return phrase(
        "{text}, and for {number} output differences below {share:.2g} of the norm (median)"
        if unseen.outputs == 1
        else "{text}, and for {number} outputs differences below {share:.2g} of the norm (median)",
        text=text,
        number=unseen.outputs,
        share=unseen.share,
    )


def _statistic(r: Reason) -> Phrase:
    standard = r.allowed if isinstance(r.allowed, Standard) else EXACT
    return _differing(r.excess, r.name, r.target, r.golden, standard)


def _counts(target: Any, golden: Any) -> Phrase:
    """Return `3 elements are NaN, golden 2`, and the same for each count that differs."""
    found = [
        phrase(
            "{number} element is {kind}, golden {golden}"
            if t == 1
            else "{number} elements are {kind}, golden {golden}",
            number=t,
            kind=kind,
            golden=g,
        )
        for t, g, kind in zip(target, golden, ("NaN", "inf", "-inf"), strict=True)
        if t != g
    ]
    return phrase("{counts}", counts=joined(found, "{before}. {after}"))


def _where(r: Reason) -> Phrase:
    return phrase("at {index}", index=list(r.at)) if r.at else phrase("in its one element")


def _shapes(r: Reason) -> Phrase:
    return phrase("Shapes differ: {target}, golden {golden}", target=shape_text(r.target), golden=shape_text(r.golden))


def _integers(r: Reason) -> Phrase:
    return phrase(
        "Integers and booleans must be equal: {r.number} of {r.size} elements differs, the largest difference is "
        "{r.amount:.15g}{where}"
        if r.number == 1
        else "Integers and booleans must be equal: {r.number} of {r.size} elements differ, the largest difference is "
        "{r.amount:.15g}{where}",
        r=r,
        where=phrase(", at {index}", index=list(r.at)) if r.at else "",
    )


def _residual(r: Reason) -> Phrase:
    if r.names:
        return phrase(
            "Its residual on its own inputs is {r.amount:.2g}, golden {r.excess:.2g} ({cause}: {r.allowed:.2g})",
            r=r,
            cause=phrase(r.name),
        )
    return phrase(
        "Its residual on its own inputs is {r.amount:.2g}, golden {r.excess:.2g} ({cause})", r=r, cause=phrase(r.name)
    )


_WORDS: Mapping[Why, str | Callable[[Reason], Phrase]] = {
    Why.VALUES: lambda r: phrase(
        "{place} is {target}, golden {golden}",
        place=r.name,
        target=value_phrase(r.target),
        golden=value_phrase(r.golden),
    ),
    Why.SHAPES: _shapes,
    Why.SHAPES_TURNED: lambda r: phrase(
        "{shapes}; within the standard after {r.name}, which can be declared in a data mapping", shapes=_shapes(r), r=r
    ),
    Why.SHAPES_CUT: lambda r: phrase("{shapes}; compared in {part}", shapes=_shapes(r), part=shape_text(r.at)),
    Why.SHAPES_FLATTENED: lambda r: phrase(
        "{shapes}; compared in {part} of the flattened tensors", shapes=_shapes(r), part=shape_text(r.at)
    ),
    Why.SHAPES_OF_FILES: lambda r: phrase(
        "Shapes of the files differ: {target}, golden {golden}",
        target=shape_text(r.target),
        golden=shape_text(r.golden),
    ),
    Why.NO_COMMON_ELEMENT: "The tensors have no common element",
    Why.DTYPES: lambda r: phrase(
        "Dtypes differ: {target}, golden {golden}", target=r.target or "none", golden=r.golden or "none"
    ),
    Why.DIGESTS: "Digests differ: {r.target}, golden {r.golden}",
    Why.COUNTS: lambda r: _counts(r.target, r.golden),
    Why.STATISTIC: _statistic,
    Why.STATISTIC_NON_FINITE: "NaN or infinity differs: the {r.name} is {r.target}, golden {r.golden}",
    Why.NON_FINITE: lambda r: phrase(
        "NaN or infinity differs in {r.number} of {r.size} elements, first {where}", r=r, where=_where(r)
    ),
    Why.NON_FINITE_SOMEWHERE: "NaN or infinity differs in {r.number} of {r.size} elements",
    Why.INTEGERS: _integers,
    Why.SAMPLED: "Sampled elements differ by {r.amount:.3g} of the norm, more than the {r.allowed:.3g} allowed",
    Why.ELEMENTS: lambda r: phrase(
        "{r.number} of {r.size} elements beyond {r.allowed}, worst {where} by {times}; largest absolute "
        "difference {r.amount:.3g}",
        r=r,
        where=_where(r),
        times=_times(r.excess),
    ),
    Why.SCALE: "Differs by {r.amount:.3g} of its scale, more than the {r.allowed:g} allowed between two frameworks",
    Why.ALL_PARTS: "Judged together with the other parts of the fused record",
    Why.ONE_SIDE: "Only on the {r.side} side",
    Why.ONE_SIDE_FILE: lambda r: phrase(
        "Only on the {r.side} (first folder) side: {r.name}"
        if r.side == "target"
        else "Only on the {r.side} (second folder) side: {r.name}",
        r=r,
    ),
    Why.KIND_NOT_COLLECTED: ("Only on the {r.side} side: values of this kind were not collected on the {there} side"),
    Why.GRADIENT_LOST: "A gradient flowed here on the {r.side} side but could not be collected",
    Why.OTHER_GRADIENT: (
        "One side has the gradient of this call, the other the sum over all uses of the tensor (target "
        "{r.target}, golden {r.golden})"
    ),
    Why.UNREADABLE: "Not readable: {r.name}",
    Why.FAILED: "Not compared: {r.name}; {r.names[0]}, {r.names[1]}",
    Why.PROCESS_DIED: "Not compared: the worker process died; {r.names[0]}, {r.names[1]}. {r.name}",
    Why.NOT_SAVED: "No tensor was saved on the {r.side} side",
    Why.BY_STATISTICS: "By statistics",
    Why.PART: "One is a part of the other, which cannot be compared by statistics alone",
    Why.NO_STATISTICS: "No statistics on the {r.side} side",
    Why.DIGESTS_ONLY: "No statistics on the {r.side} side, only digests",
    Why.DIGESTS_OF_TWO: "Digests differ, but this does not show how large the difference between two frameworks is",
    Why.DIGESTS_OF_TWO_KINDS: (
        "Digests of different kinds cannot be compared: {r.target}, golden {r.golden}; collect both sides with "
        "the same summary_mode"
    ),
    Why.DAMAGED: "A statistic is not numeric on both sides",
    Why.WORKSPACE: "{r.name} keeps this for its own backward and may leave it unwritten; its first output is judged",
    Why.UNINITIALISED: "{r.name} returns uninitialized memory, which always differs; the call that fills it is judged",
    Why.UNWRITTEN: "Uninitialized memory on at least one side; the call that fills it is judged",
    Why.PLACEHOLDER: "{r.name} receives tensors to be filled; their earlier contents are irrelevant",
    Why.FILLED: "{r.name} writes every element of this tensor; its earlier contents are irrelevant",
    Why.SUM_OF_PARTS: "Parameters are fused on one side, where this is the sum of the gradients of its parts",
    Why.ONE_VALUE: "{r.target!r} on one side corresponds to {r.golden!r} on the other",
    Why.ONE_VALUE_EQUAL: "{r.target!r} on one side and {r.golden!r} on the other have the same meaning",
    Why.NULL: "None on the {r.side} side, missing on the {there} side",
    Why.LOST: "Could not be collected on the {r.side} side; see `missing` in its dump.json",
    Why.OTHER_LEVEL: "The other side was collected at level {r.name}, which does not record such calls",
    Why.SUM_COMPARED: (
        "The target has the {r.target} gradient, the golden the {r.golden} one; the sum over all users is compared as "
        "{r.name}"
    ),
    Why.LOST_ON_BOTH_SIDES: "Could not be collected on either side; see `missing` in each dump.json",
    Why.NOISE: "Noise: the kernel's residual is {r.amount:.2g}, golden {r.excess:.2g}, noise up to {r.allowed:.2g}{by}",
    Why.RESIDUAL: _residual,
    Why.NOISE_AMPLIFIED: "Noise: differs by {r.amount:.2g} of its norm; its inputs explain {r.allowed:.2g}{by}",
    Why.BEYOND_INPUTS: "Differs by {r.amount:.2g} of its norm; its inputs explain {r.allowed:.2g}{by}",
    Why.NOISE_OF_STATISTICS: "Noise: its statistics differ by {r.amount:.2g}; its inputs explain {r.allowed:.2g}",
    Why.BEYOND_STATISTICS: "Its statistics differ by {r.amount:.2g}; its inputs explain {r.allowed:.2g}",
    Why.LAW_KEPT: lambda r: phrase("Noise: {law}, as on the golden side", law=phrase(r.name)),
    Why.LAW_BROKEN: lambda r: phrase(
        "Its {r.side} differs by {r.amount:.2g} from the value that follows from its inputs, golden "
        "{r.excess:.2g}, although {law}",
        r=r,
        law=phrase(r.name),
    ),
    Why.NOISE_BEFORE: "Noise of the calls that produced it",
    Why.DIES_OUT: "The difference has no effect: no relevant value differs because of it",
    Why.IGNORED: "Ignored by --ignore {r.name}",
    Why.USER_TOLERANCE: lambda r: phrase(
        "Within the user's limit |target - golden| <= {absolute} + {relative}*|golden| ({options})",
        absolute=f"{r.amount:g}",
        relative=f"{r.allowed:g}",
        options=", ".join(r.names),
    ),
    Why.UNSHOWN: "This argument differs, but its effect is below the noise",
    Why.WIDE_BOUND: (
        "Differs by {r.amount:.2g}; its inputs explain {r.allowed:.2g}, and a bound above 0.1 is inconclusive"
    ),
    Why.DRIFT_SETTINGS: "The previous update corresponds to the settings of the golden; the weights have drifted",
    Why.DRIFT_GRADIENTS: "The previous updates differ as explained by the gradients; the weights have drifted{by}",
    Why.DRIFT_UPDATES: "The previous updates agree; the weights have drifted{by}",
    Why.DRIFT_STATISTICS: "The means changed equally; the weights have drifted",
    Why.DRIFT_ONLY: "The weights do not differ by more than run-to-run drift{by}",
    Why.DRIFT_ROUNDED: "The weights differ by rounding only",
    Why.DRIFT_EARLIER: (
        "The weights differ by more than rounding, but not by more than run-to-run drift, and the step before was not "
        "compared"
    ),
    Why.DRIFT_ROUNDING: "Its gradient is rounding error on both sides, which the optimizer amplifies",
    Why.UPDATE_DIFFERS: lambda r: phrase(
        "The previous update differs by more than the optimizer and the gradients explain ({times})",
        times=_times(r.excess),
    ),
    Why.INNER_NODE: (
        "dumps of PyTorch by msprobe contain the gradients of an inner autograd node here, which may differ from "
        "those of the arguments"
    ),
    Why.NO_RESULT: "{there} does not have this result",
    Why.NO_RESULT_OF_CALL: "{there} does not return this result",
    Why.BUFFER: "PyTorch keeps this in a buffer, which is not collected with the parameters",
    Why.NO_RESULT_OF_GRADIENT: "{there} does not return the result of this gradient",
    Why.DEFAULT: "{there} does the same by default",
    Why.OTHER_DEFAULT: "{r.name} is {r.target!r}, but {there} computes with {r.golden!r}",
    Why.OTHER_WAY: "The other side computes the result differently; the inputs are not compared",
    Why.NO_EFFECT: "Only one side's call has this argument, and both return the same",
    Why.NO_ARGUMENT: "{there} does not have this argument, or its result implies it",
    Why.ONE_ARGUMENT: "Only {r.side}'s call has this argument; the default of {there} is unknown",
    Why.CELL_ARGUMENT: "Only one side's cell receives this; the other has or computes it itself",
    Why.NO_COUNTERPART: "No counterpart: {r.name}",
    Why.LAST_ONLY: "msprobe keeps only the gradients of the last micro-batch",
    Why.PASSED_THROUGH: "Passes its input on unchanged",
    Why.COMPARED_LATER: "Implemented differently: values computed from it are compared",
    Why.OF_FORWARD: "Its forward call is implemented differently",
    Why.NOBODY_USES: "No recorded call is known to use its result",
    Why.NOT_COMPARED: "Nothing that recorded calls compute from it is compared",
    Why.OTHER_STEP: "Its forward call starts or ends at a different step than on the other side",
    Why.ZEROS: "None on one side and zeros on the {r.side} side: both mean no gradient",
    Why.UNNEEDED: "Only the {r.side} side has this gradient; it is unused, since no parameter depends on it",
    Why.LIKENESS: "{r.name}",
    Why.FUSED: "its parameters are those of several layers on the other side, concatenated",
    Why.LAST_GRADIENTS: (
        "the modules of the parameters are paired, and msprobe keeps the gradients of the last micro-batch"
    ),
    Why.CANDIDATES: lambda r: phrase("Could be {calls}; select one with a mapping", calls=names_phrase(r.names)),
    Why.TEXT: "{r.name}",
}


def _times(excess: float) -> Phrase:
    return phrase(_ANY_AMOUNT) if math.isinf(excess) else phrase(_TIMES, excess=excess)
