"""Sentences made of findings, for the log. No decision reads them."""

from msprobe.base.log import few
from msprobe.base.names import parse

from .findings import Finding, Kind


def sentence(finding: Finding, folder: object) -> str:
    """`CALL: inputs finite, output.0 is not (FILE:LINE); written to FOLDER`."""
    line = f" ({finding.file}:{finding.line})" if finding.file else ""
    return f"{finding.call}: {_REASONS[finding.kind](finding)}{line}; written to {folder}"


def _predecessors(finding: Finding) -> str:
    others = len(finding.written) - (finding.call in finding.written)
    return f", with the {others} call{'s' * (others != 1)} before it" if others else ""


def _made(finding: Finding) -> str:
    return f"the inputs are finite, {finding.place} is not"


def _of_infinities(finding: Finding) -> str:
    return f"the inputs contain -inf but no NaN, {finding.place} contains NaN or inf"


def _argument(finding: Finding) -> str:
    return f"a number in the arguments is not finite, and neither is {finding.place}"


def _received(finding: Finding) -> str:
    return f"{finding.place} is not finite and is not an output of a recorded call"


def _entered(finding: Finding) -> str:
    what = "calls" if parse(finding.call).kind == "api" else "cells"
    return f"non-finite values entered from outside the collected {what}: {_received(finding)}"


def _nonfinite(finding: Finding) -> str:
    word = "NaN" if finding.kind is Kind.NAN else "infinities"
    return f"{finding.place} contains {word}{_predecessors(finding)}"


def _jump(finding: Finding) -> str:
    norms = f"the norm of {finding.place} is {finding.value:.6g}, in the previous step {finding.golden:.6g}"
    return norms + _predecessors(finding)


def _digest(finding: Finding) -> str:
    return (
        f"the digest of {finding.place} is {finding.value}, in the golden dump {finding.golden}{_predecessors(finding)}"
    )


def _exception(finding: Finding) -> str:
    inside = f" inside {few(finding.running[::-1])}" if finding.running else ""
    return f"raised {finding.exception}{inside}{_predecessors(finding)}"


_REASONS = {
    Kind.MADE: _made,
    Kind.OF_INFINITIES: _of_infinities,
    Kind.ARGUMENT: _argument,
    Kind.RECEIVED: _received,
    Kind.ENTERED: _entered,
    Kind.NAN: _nonfinite,
    Kind.INFINITY: _nonfinite,
    Kind.JUMP: _jump,
    Kind.DIGEST: _digest,
    Kind.EXCEPTION: _exception,
}
