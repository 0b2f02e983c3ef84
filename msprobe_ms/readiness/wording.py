"""Sentences made of findings."""

from .finding import Kind, Obstacle

_TEXTS = {
    Kind.NEIGHBOUR: (
        "{subject} {value} is installed beside msprobe-ms, both as `msprobe`; run "
        "`pip uninstall {subject} msprobe-ms`, then install the one that you want"
    ),
    Kind.MISSING: "{reason} needs {subject}{expected}, which is not installed; run `pip install '{subject}{expected}'`",
    Kind.VERSION: "{subject} {value} is installed, and {reason} needs {subject}{expected}; install such a version",
    Kind.UNTESTED: "{subject} {value} was not tested; tested is {expected}",
    Kind.TWO_TORCHES: (
        "torch {value} and msadapter {expected} are installed in one folder, and both bring a module `torch`; "
        "uninstall both, then install the one that you want"
    ),
    Kind.NO_FRAMEWORK: (
        "neither MindSpore nor PyTorch is installed: dumps can be compared here, trainings cannot be collected"
    ),
    Kind.NO_EXTENSION: (
        "{subject} cannot be loaded ({reason}): numpy replaces it, with the same results and several times as slow; "
        "install a wheel for this Python, or install a C compiler and msprobe-ms again"
    ),
    Kind.NOT_A_FOLDER: "{subject} is no folder, so nothing can be written there; choose another dump_path",
    Kind.NOT_WRITABLE: "{subject} cannot be written: {reason}; choose another dump_path, or give this user the right",
    Kind.LITTLE_SPACE: "{subject} has {value} free, less than {expected}; free some space, or choose another dump_path",
    Kind.FEW_FILES: (
        "{subject} has room for {value} more files (inodes), and each tensor is a file; remove some, or choose another "
        "dump_path"
    ),
    Kind.BUDGET: "{subject} has {value} free, less than the disk_budget of {expected}; lower it, or free some space",
    Kind.NO_LOCKS: (
        "the file system of {subject} has no file locks: a dump is written, and nothing keeps two runs apart that "
        "write to one dump_path; give each run its own"
    ),
    Kind.OTHER_RUN: (
        "{subject} holds what another run wrote; it stays, and this run writes to a folder inside: run2, run3..."
    ),
    Kind.REFUSED: "{reason}",
    Kind.DEPENDS: "if the training runs in {value}: {reason}",
    Kind.WITHOUT_EFFECT: "{subject}: the setting has no effect here: {reason}",
    Kind.TAKEN_AS: "{subject}: {value} is taken as {expected}{because}",
    Kind.PATTERN: "{subject}: {value} matches no call: {reason}",
    Kind.RANKS: "{subject}: there are {expected} ranks, counted from 0, and so no rank {value}{because}",
    Kind.STEPS: "{subject}: the training has {expected} steps, counted from 0, and so no step {value}{because}",
    Kind.NEEDS_CALL: "{subject}: with {value}, only what the training hands to {expected} is collected",
}
"""The sentence of each kind; `because` is the reason behind a colon, empty without one."""

_SIZES = (Kind.LITTLE_SPACE, Kind.BUDGET)


def sentence(finding: Obstacle) -> str:
    """One line."""
    value, expected = finding.value, finding.expected
    if finding.kind in _SIZES:
        value, expected = size(int(value)), size(int(expected))
    subject = finding.subject
    because = f": {finding.reason}" if finding.reason else ""
    text = _TEXTS[finding.kind]
    if finding.kind is Kind.VERSION and subject == "Python":
        text = text.replace("{subject}{expected}", "{subject} {expected}").replace(" is installed", " runs here")
    return text.format(subject=subject, value=value, expected=expected, reason=finding.reason, because=because)


def size(number: int) -> str:
    """`1.5 GiB`."""
    amount = float(number)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.3g} {unit}"
        amount /= 1024
    return f"{amount:.4g} TiB"
