"""Sentences made of reasons. Decisions read the reasons, never these."""

import math
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from msprobe.base.phrase import Phrase, Words, joined, phrase, some
from msprobe.compare.core.limits import Limits, LimitSource
from msprobe.compare.core.noise import Unseen
from msprobe.compare.core.reason import Reason, TensorLook, Why
from msprobe.compare.core.standard import EXACT, Standard
from msprobe.store.record import NonFinite

_OTHER = {"target": "golden", "golden": "target", "MindSpore": "PyTorch", "PyTorch": "MindSpore"}
_LONGEST = 60  # a value that is longer is cut


def sentences(reasons: Iterable[Reason]) -> str:
    """`The max differs: 2, golden 1. No tensor was saved on the target side.`; empty without any."""
    return " ".join(f"{sentence(reason)}." for reason in reasons)


def sentence(reason: Reason) -> str:
    """One reason, without the full stop."""
    return str(said(reason))


def said(reason: Reason) -> Phrase:
    """One reason as a phrase, without the full stop."""
    words = _WORDS[reason.why]
    if not isinstance(words, str):
        return words(reason)
    # Whose limit decided, where that is not built in.
    by = phrase(" ({whose} limit)", whose=phrase(reason.names[0])) if reason.names else ""
    return phrase(words, r=reason, there=_OTHER.get(reason.side, ""), by=by)


def all_said(reasons: Iterable[Reason]) -> Words:
    """All reasons as one phrase, the last without its full stop; empty without any."""
    return joined([said(reason) for reason in reasons], "{before}. {after}")


def say_limits(limits: Limits) -> Phrase:
    """Up to where differences were noise, in one line; that of a calibration warns where its run was wrong itself."""
    if limits.source is LimitSource.EXACT:
        return phrase("noise limits: exact, no difference is noise")
    if limits.source is LimitSource.BUILT_IN:
        return phrase("noise limits: built-in")
    text = phrase("noise limits: calibrated by {file}", file=limits.file)
    if not limits.first_wrong:
        return text
    names = ", ".join(limits.first_wrong)
    return phrase("{text}; its trusted run has a first wrong call itself: {names}", text=text, names=names)


def say_value(value: object) -> Words:
    """A value of a record."""
    if isinstance(value, TensorLook):
        return phrase("a tensor {dtype}{shape}", dtype=value.dtype, shape=say_shape(value.shape))
    text = repr(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def say_shape(shape: object) -> str:
    """`[2, 16]`, as the sheet prints it."""
    return str(list(shape)) if isinstance(shape, tuple | list) else "None"


def say_statistic(excess: float, which: str, target: Any, golden: Any, standard: Standard) -> str:
    """How one statistic differs beyond its standard, and a full stop."""
    template, are_numbers = _beyond(which, standard), isinstance(target, float) and isinstance(golden, float)
    if template and are_numbers and math.isfinite(target) and math.isfinite(golden) and math.isfinite(excess):
        return template % (excess, target, golden)  # as `_differing` says it of most records, without phrases
    return f"{_differing(excess, which, target, golden, standard)}."


_TIMES = "{excess:.3g} times"
_ANY_AMOUNT = "any amount"
_BEYOND = "The {which} differs beyond {standard} by {times}: {target:.9g}, golden {golden:.9g}"


@cache
def _beyond(which: str, standard: Standard) -> str:
    """`_BEYOND` as a template of `%`, which is the fastest; empty where a statistic must be equal."""
    if standard == EXACT:
        return ""
    before, _, after = _BEYOND.partition("{times}")
    before = before.format(which=which, standard=standard).replace("%", "%%")
    return before + f"{_TIMES}{after}.".format(excess=_Percent(), target=_Percent(), golden=_Percent())


class _Percent:
    """A number that is put in later."""

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


def say_unseen(unseen: Unseen) -> Phrase:
    """What noise hides of a comparison by statistics."""
    text = phrase("noise hides from statistics single elements")
    if not unseen.outputs:
        return text
    return phrase(
        "{text}, and of {number} output what is less than {share:.2g} of the norm (median)"
        if unseen.outputs == 1
        else "{text}, and of {number} outputs what is less than {share:.2g} of the norm (median)",
        text=text,
        number=unseen.outputs,
        share=unseen.share,
    )


def _statistic(r: Reason) -> Phrase:
    standard = r.allowed if isinstance(r.allowed, Standard) else EXACT
    return _differing(r.excess, r.name, r.target, r.golden, standard)


def _counts(target: Any, golden: Any) -> Phrase:
    """`3 elements are NaN, golden 2`, and so on for each count that differs."""
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
    return phrase("Shapes differ: {target}, golden {golden}", target=say_shape(r.target), golden=say_shape(r.golden))


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
        "{place} is {target}, golden {golden}", place=r.name, target=say_value(r.target), golden=say_value(r.golden)
    ),
    Why.SHAPES: _shapes,
    Why.SHAPES_TURNED: lambda r: phrase(
        "{shapes}; within the standard after {r.name}, which a data mapping may declare", shapes=_shapes(r), r=r
    ),
    Why.SHAPES_CUT: lambda r: phrase("{shapes}; compared in {part}", shapes=_shapes(r), part=say_shape(r.at)),
    Why.SHAPES_FLATTENED: lambda r: phrase(
        "{shapes}; compared in {part} of the flattened two", shapes=_shapes(r), part=say_shape(r.at)
    ),
    Why.SHAPES_OF_FILES: lambda r: phrase(
        "Shapes of the files differ: {target}, golden {golden}", target=say_shape(r.target), golden=say_shape(r.golden)
    ),
    Why.NO_COMMON_ELEMENT: "No element is in both",
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
    Why.ELEMENTS: lambda r: phrase(
        "{r.number} of {r.size} elements beyond {r.allowed}, worst {where} by {times}; greatest absolute difference "
        "{r.amount:.3g}",
        r=r,
        where=_where(r),
        times=_times(r.excess),
    ),
    Why.SCALE: "Differs by {r.amount:.3g} of its scale, beyond the {r.allowed:g} that two frameworks may differ",
    Why.ALL_PARTS: "Judged together with the other parts of the fused record",
    Why.ONE_SIDE: "On the {r.side} side only",
    Why.ONE_SIDE_FILE: lambda r: phrase(
        "Only on the {r.side} (first folder) side: {r.name}"
        if r.side == "target"
        else "Only on the {r.side} (second folder) side: {r.name}",
        r=r,
    ),
    Why.KIND_NOT_COLLECTED: ("On the {r.side} side only: nothing of this kind was collected on the {there} side"),
    Why.GRADIENT_LOST: "A gradient flowed here on the {r.side} side but could not be collected",
    Why.OTHER_GRADIENT: (
        "The gradient is this call's own on one side and the sum over all users of the tensor on the other "
        "(target {r.target}, golden {r.golden})"
    ),
    Why.UNREADABLE: "Not readable: {r.name}",
    Why.FAILED: "Not compared: {r.name}; {r.names[0]}, {r.names[1]}",
    Why.PROCESS_DIED: "Not compared: the process died over it; {r.names[0]}, {r.names[1]}. {r.name}",
    Why.NOT_SAVED: "No tensor was saved on the {r.side} side",
    Why.BY_STATISTICS: "By statistics",
    Why.PART: "One is a part of the other, which statistics alone cannot compare",
    Why.NO_STATISTICS: "No statistics on the {r.side} side",
    Why.DIGESTS_ONLY: "No statistics on the {r.side} side, which has digests only",
    Why.DIGESTS_OF_TWO: "Digests differ, which says nothing of how far two frameworks are apart",
    Why.DIGESTS_OF_TWO_KINDS: (
        "Digests of two kinds cannot be compared: {r.target}, golden {r.golden}; collect both sides with the same "
        "summary_mode"
    ),
    Why.DAMAGED: "On both sides a statistic is no number",
    Why.WORKSPACE: "{r.name} keeps this for its own backward and may leave it unwritten; its first output is judged",
    Why.UNINITIALISED: "{r.name} gives uninitialised memory, which is never the same twice; what fills it is judged",
    Why.UNWRITTEN: "Uninitialised memory on at least one side, which is not a value; what fills it is judged",
    Why.PLACEHOLDER: "{r.name} receives tensors to be filled; what they held before says nothing",
    Why.FILLED: "{r.name} writes every element of this tensor; what it held before says nothing",
    Why.SUM_OF_PARTS: "Parameters are fused on one side: there this is the sum of the gradients of its parts",
    Why.ONE_VALUE: "{r.target!r} on one side is {r.golden!r} on the other",
    Why.ONE_VALUE_EQUAL: "{r.target!r} on one side is {r.golden!r} on the other, which means the same",
    Why.NULL: "{r.side} says None here, and {there} nothing",
    Why.LOST: "Could not be collected on the {r.side} side: `missing` in its dump.json has the cause",
    Why.OTHER_LEVEL: "The other side was collected at level {r.name}, which leaves out such calls",
    Why.SUM_COMPARED: (
        "The target has the {r.target} gradient, the golden the {r.golden} one; the sum over all users is compared as "
        "{r.name}"
    ),
    Why.LOST_ON_BOTH_SIDES: "Could not be collected on either side: `missing` in each dump.json has the cause",
    Why.NOISE: "Noise: the kernel's residual is {r.amount:.2g}, golden {r.excess:.2g}, noise up to {r.allowed:.2g}{by}",
    Why.RESIDUAL: _residual,
    Why.NOISE_AMPLIFIED: "Noise: differs by {r.amount:.2g} of its norm, where its inputs explain {r.allowed:.2g}{by}",
    Why.BEYOND_INPUTS: "Differs by {r.amount:.2g} of its norm, where its inputs explain {r.allowed:.2g}{by}",
    Why.NOISE_OF_STATISTICS: "Noise: its statistics differ by {r.amount:.2g}, where its inputs explain {r.allowed:.2g}",
    Why.BEYOND_STATISTICS: "Its statistics differ by {r.amount:.2g}, where its inputs explain {r.allowed:.2g}",
    Why.LAW_KEPT: lambda r: phrase("Noise: {law}, as on the golden side", law=phrase(r.name)),
    Why.LAW_BROKEN: lambda r: phrase(
        "Its {r.side} is {r.amount:.2g} off what its inputs tell, golden {r.excess:.2g}, although {law}",
        r=r,
        law=phrase(r.name),
    ),
    Why.NOISE_BEFORE: "Noise of the calls that made it",
    Why.DIES_OUT: "The difference dies out: nothing that counts differs because of it",
    Why.IGNORED: "Ignored by --ignore {r.name}",
    Why.USER_TOLERANCE: lambda r: phrase(
        "Within the user's limit |target - golden| <= {absolute} + {relative}*|golden| ({options})",
        absolute=f"{r.amount:g}",
        relative=f"{r.allowed:g}",
        options=", ".join(r.names),
    ),
    Why.UNSHOWN: "This argument differs, and noise would hide its effect",
    Why.WIDE_BOUND: (
        "Differs by {r.amount:.2g}, where its inputs explain {r.allowed:.2g}: a bound beyond 0.1 shows nothing"
    ),
    Why.DRIFT_SETTINGS: "The update before is that of the golden's settings; the weights have drifted apart",
    Why.DRIFT_GRADIENTS: "The updates before differ as the gradients explain; the weights have drifted apart{by}",
    Why.DRIFT_UPDATES: "The updates before agree; the weights have drifted apart{by}",
    Why.DRIFT_STATISTICS: "The means moved alike; the weights have drifted apart",
    Why.DRIFT_ONLY: "The weights differ by no more than run-to-run drift{by}",
    Why.DRIFT_ROUNDING: "Its gradient is rounding error on both sides, which the optimizer amplifies",
    Why.UPDATE_DIFFERS: lambda r: phrase(
        "The update before differs by more than optimizer and gradients explain ({times})", times=_times(r.excess)
    ),
    Why.INNER_NODE: (
        "msprobe's dumps of PyTorch tell the gradients of an inner node of autograd here, which need not be those of "
        "the arguments"
    ),
    Why.NO_RESULT: "{there} has no such result here",
    Why.NO_RESULT_OF_CALL: "{there} gives no such result here",
    Why.BUFFER: "PyTorch keeps this in a buffer, which is not collected with the parameters",
    Why.NO_RESULT_OF_GRADIENT: "{there} gives no result whose gradient this is",
    Why.DEFAULT: "{there} does the same by default",
    Why.OTHER_DEFAULT: "{r.name} is {r.target!r}, and {there} computes as if it were {r.golden!r}",
    Why.OTHER_WAY: "The other side computes its result in another way; its inputs are not compared",
    Why.NO_EFFECT: "Only one side's call has this argument, and both return the same",
    Why.NO_ARGUMENT: "{there} has no such argument, or its result tells it",
    Why.ONE_ARGUMENT: "Only {r.side}'s call has this argument; the default of {there} is not known",
    Why.CELL_ARGUMENT: "Only one side's cell receives this; the other has or computes it itself",
    Why.NO_COUNTERPART: "No counterpart: {r.name}",
    Why.LAST_ONLY: "msprobe keeps the gradients of the last micro-batch only",
    Why.PASSED_THROUGH: "Passes its input on unchanged",
    Why.COMPARED_LATER: "Written differently: what is computed from it is compared",
    Why.OF_FORWARD: "Its forward call is written differently",
    Why.NOBODY_USES: "No recorded call is known to use what it returns",
    Why.NOT_COMPARED: "Nothing that recorded calls compute from it is compared",
    Why.OTHER_STEP: "Its forward call begins or ends at another step than on the other side",
    Why.ZEROS: "None on one side and zeros on the {r.side} side: both are no gradient",
    Why.UNNEEDED: "Only the {r.side} side has this gradient: nothing uses it, as no parameter leads there",
    Why.LIKENESS: "{r.name}",
    Why.FUSED: "its parameters are those of several layers on the other side, concatenated",
    Why.LAST_GRADIENTS: (
        "the modules that own the parameters are a pair, and msprobe keeps the last micro-batch's gradients"
    ),
    Why.CANDIDATES: lambda r: phrase("Could be {calls}; say which with a mapping", calls=some(r.names)),
    Why.TEXT: "{r.name}",
}


def _times(excess: float) -> Phrase:
    return phrase(_ANY_AMOUNT) if math.isinf(excess) else phrase(_TIMES, excess=excess)
