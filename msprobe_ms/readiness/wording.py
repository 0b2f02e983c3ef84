"""Sentences made of findings."""

from msprobe.base.phrase import Phrase, phrase
from msprobe.findings.catalogue import readiness as kinds
from msprobe.findings.finding import Finding, Place

from .finding import Obstacle

_TEXTS = {
    kinds.NEIGHBOUR: (
        "{subject} {value} is installed next to msprobe-ms, both as `msprobe`; run "
        "`pip uninstall {subject} msprobe-ms`, then install the one that you want"
    ),
    kinds.MISSING: (
        "{reason} needs {subject}{expected}, which is not installed; run `pip install '{subject}{expected}'`"
    ),
    kinds.VERSION: "{subject} {value} is installed, and {reason} needs {subject}{expected}; install such a version",
    kinds.UNTESTED: "{subject} {value} was not tested; tested is {expected}",
    kinds.TWO_TORCHES: (
        "torch {value} and msadapter {expected} are installed in one folder, and both bring a module `torch`; "
        "uninstall both, then install the one that you want"
    ),
    kinds.NO_FRAMEWORK: (
        "neither MindSpore nor PyTorch is installed: dumps can be compared here, trainings cannot be collected"
    ),
    kinds.NO_EXTENSION: (
        "{subject} cannot be loaded ({reason}): numpy replaces it, with the same results and several times as slow; "
        "install a wheel for this Python, or install a C compiler and msprobe-ms again"
    ),
    kinds.NOT_A_FOLDER: "{subject} is not a folder, so nothing can be written there; choose another dump_path",
    kinds.NOT_WRITABLE: (
        "{subject} cannot be written: {reason}; choose another dump_path, or give this user write permission"
    ),
    kinds.LITTLE_SPACE: (
        "{subject} has {value} free, less than {expected}; free some space, or choose another dump_path"
    ),
    kinds.FEW_FILES: (
        "{subject} has room for {value} more files (inodes), and each tensor is a file; remove some, or choose another "
        "dump_path"
    ),
    kinds.BUDGET: "{subject} has {value} free, less than the disk_budget of {expected}; lower it, or free some space",
    kinds.NO_LOCKS: (
        "the file system of {subject} has no file locks: a dump is written, and two runs that write to one "
        "dump_path are not kept separate; give each run its own"
    ),
    kinds.OTHER_RUN: (
        "{subject} has files of another run, which remain; this run writes to a folder inside: run2, run3..."
    ),
    kinds.REFUSED: "{reason}",
    kinds.DEPENDS: "if the training runs in {value}: {reason}",
    kinds.WITHOUT_EFFECT: "{subject}: the setting has no effect here: {reason}",
    kinds.TAKEN_AS: "{subject}: {value} is taken as {expected}{because}",
    kinds.PATTERN: "{subject}: {value} matches no call: {reason}",
    kinds.RANKS: "{subject}: there are {expected} ranks, counted from 0, so rank {value} does not exist{because}",
    kinds.STEPS: (
        "{subject}: the training has {expected} steps, counted from 0, so step {value} does not exist{because}"
    ),
    kinds.NEEDS_CALL: "{subject}: with {value}, only values that the training passes to {expected} are collected",
}
"""The sentence of each kind; `because` is the reason behind a colon, empty without one."""

_PYTHON = "{subject} {value} runs here, and {reason} needs {subject} {expected}; install such a version"

_SIZES = (kinds.LITTLE_SPACE, kinds.BUDGET)


def message(finding: Obstacle) -> Phrase:
    """Return the message of a finding."""
    value, expected = finding.value, finding.expected
    if finding.kind in _SIZES:
        value, expected = size(int(value)), size(int(expected))
    fields = {
        "subject": finding.subject,
        "value": value,
        "expected": expected,
        "reason": finding.reason,
        "because": f": {finding.reason}" if finding.reason else "",
    }
    if finding.kind is kinds.VERSION and finding.subject == "Python":
        return phrase(_PYTHON, **fields)
    return phrase(_TEXTS[finding.kind], **fields)


def sentence(finding: Obstacle) -> str:
    """Return the message as one line."""
    return str(message(finding))


def finding_of(found: Obstacle, part: str) -> Finding:
    """Return what may be wrong with a part (`installation`, `configuration`, `dump_path`) as a finding."""
    fields = {"part": part, "value": found.value, "expected": found.expected, "reason": found.reason}
    return Finding(found.kind, Place(found.subject or part), message(found), fields=fields)


def size(number: int) -> str:
    """`1.5 GiB`."""
    amount = float(number)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.3g} {unit}"
        amount /= 1024
    return f"{amount:.4g} TiB"
