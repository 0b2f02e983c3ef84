"""Sentences made of findings, for the log. No decision reads them."""

from msprobe.base.log import few
from msprobe.base.names import parse
from msprobe.findings.catalogue import nonfinite as kinds

from .findings import Caught


def sentence(finding: Caught, folder: object) -> str:
    """`CALL: inputs finite, output.0 is not (FILE:LINE); written to FOLDER`."""
    line = f" ({finding.file}:{finding.line})" if finding.file else ""
    return f"{finding.call}: {_REASONS[finding.kind](finding)}{line}; written to {folder}"


def _predecessors(finding: Caught) -> str:
    others = len(finding.written) - (finding.call in finding.written)
    return f", with the {others} call{'s' * (others != 1)} before it" if others else ""


def _made(finding: Caught) -> str:
    return f"the inputs are finite, {finding.place} is not"


def _of_infinities(finding: Caught) -> str:
    return f"the inputs contain -inf but no NaN, {finding.place} contains NaN or inf"


def _argument(finding: Caught) -> str:
    return f"a number in the arguments is not finite, and neither is {finding.place}"


def _received(finding: Caught) -> str:
    return f"{finding.place} is not finite and is not an output of a recorded call"


def _entered(finding: Caught) -> str:
    what = "calls" if parse(finding.call).kind == "api" else "cells"
    return f"non-finite values entered from outside the collected {what}: {_received(finding)}"


def _nonfinite(finding: Caught) -> str:
    word = "NaN" if finding.kind is kinds.NAN else "infinities"
    return f"{finding.place} contains {word}{_predecessors(finding)}"


def _jump(finding: Caught) -> str:
    norms = f"the norm of {finding.place} is {finding.value:.6g}, in the previous step {finding.golden:.6g}"
    return norms + _predecessors(finding)


def _digest(finding: Caught) -> str:
    return (
        f"the digest of {finding.place} is {finding.value}, in the golden dump {finding.golden}{_predecessors(finding)}"
    )


def _exception(finding: Caught) -> str:
    inside = f" inside {few(finding.running[::-1])}" if finding.running else ""
    return f"raised {finding.exception}{inside}{_predecessors(finding)}"


_REASONS = {
    kinds.MADE: _made,
    kinds.OF_INFINITIES: _of_infinities,
    kinds.ARGUMENT: _argument,
    kinds.RECEIVED: _received,
    kinds.ENTERED: _entered,
    kinds.NAN: _nonfinite,
    kinds.INFINITY: _nonfinite,
    kinds.JUMP: _jump,
    kinds.DIGEST: _digest,
    kinds.EXCEPTION: _exception,
}
