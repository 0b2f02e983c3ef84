"""The files of a monitor and what is in them: kinds, names of folders and files (`reference/format.md`, page 10).

```
{root}/{MonDD_HH-MM-SS}-rank{R}-{8 hex}/{kind}_{first}-{last}.csv      TrainerMon; one folder per process
{root}/rank_{R}/{monitor}_step{first}-{last}.csv                       TrainerMonitorV2
{root}/rank{R}/grad_summary_{step}.csv                                 grad_probe
```
"""

import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from msprobe.base.files import FOLDER_MODE, make_folder
from msprobe.base.schema import OPERATIONS
from msprobe.findings.catalogue import monitor as stages
from msprobe.findings.kind import Kind as Stage


@dataclass(frozen=True)
class Kind:
    """A kind of rows.

    name : the stem of its file.
    stage : the kind of finding that reports it, by what is measured in a training step.
    monitor, scope : where the other form has these rows.
    """

    name: str
    stage: Stage
    monitor: str
    scope: str
    has_micro_step: bool = False


KINDS = {
    kind.name: kind
    for kind in (
        Kind("actv", stages.ACTIVATION, "module", "forward", has_micro_step=True),
        Kind("actv_grad", stages.ACTIVATION_GRADIENT, "module", "backward", has_micro_step=True),
        Kind("grad_unreduced", stages.UNREDUCED, "weight_grad", "unreduced"),
        Kind("grad_reduced", stages.REDUCED, "weight_grad", "reduced"),
        Kind("param_origin", stages.BEFORE_UPDATE, "param", "param_origin"),
        Kind("param_updated", stages.AFTER_UPDATE, "param", "param_updated"),
        Kind("exp_avg", stages.MOMENT, "optimizer", "exp_avg"),
        Kind("exp_avg_sq", stages.MOMENT, "optimizer", "exp_avg_sq"),
        Kind("other", stages.COLLECTIVE, "cc", "comm"),
        Kind("local", stages.LOSS, "local", "local", has_micro_step=True),
        Kind("mg_direction", stages.MOMENT, "optimizer", "mg_direction"),
        Kind("update_ratio", stages.AFTER_UPDATE, "param", "update_ratio"),
        Kind("attention_hook", stages.ACTIVATION, "attention_hook", "forward", has_micro_step=True),
        Kind("linear_hook", stages.BEFORE_UPDATE, "linear_hook", "forward"),
        Kind("moe_router_weight_hook", stages.BEFORE_UPDATE, "moe_router_weight_hook", "forward"),
        Kind("moe_router_logit_hook", stages.ACTIVATION, "moe_router_logit_hook", "forward", has_micro_step=True),
    )
}
"""By the stem of the file. `local` is ours alone: the loss and the gradient norm of one device, statistic `value`. The
kinds that end in `_hook` are what `recording_l2_features` writes."""

STATISTICS = OPERATIONS
"""The statistics that can be chosen."""

OWN_STATISTICS = {
    "local": ("value",),
    "mg_direction": ("same_sign",),
    "update_ratio": ("update_norm", "ratio"),
    "attention_hook": ("entropy", "softmax_max"),
    "linear_hook": ("sr", "kernel_norm"),
    "moe_router_weight_hook": ("router_weight_similarity",),
    "moe_router_logit_hook": ("per_token_expert_entropy",),
}
"""Kinds whose statistics cannot be chosen; their files have no columns `shape` and `dtype`."""

TEXTS = ("shape", "dtype")
"""Columns that hold text; every other column behind the leading ones is a statistic."""

FOLDER = re.compile(r"^([\w-]{0,20})-rank(\d{1,5})-")
"""The folder of one process; its first group is the time, `%b%d_%H-%M-%S`."""

FILE = re.compile(r"^([a-z_]+)_(\d+)-(\d+)(?:\.\d+)?\.csv$")
"""Kind, first and last step of a file of TrainerMon; `grad_reduced_0-9.1.csv` stands beside `grad_reduced_0-9.csv` and
has other columns."""

SCOPED_FOLDER = re.compile(r"^rank_(\d{1,5})$")
"""The folder of one rank of TrainerMonitorV2."""

SCOPED_FILE = re.compile(r"^([a-z_]+)_step(\d+)-(\d+)(?:\.\d+)?\.csv$")
"""Monitor, first and last step of a file of TrainerMonitorV2."""

LOST = "lost.csv"
"""Measurements that a monitor could not make: a line for each cause, below a header."""

GRADIENT_FOLDER = re.compile(r"^rank(\d{1,5})$")
"""The folder of one rank of grad_probe."""

GRADIENT_FILE = re.compile(r"^grad_summary_(\d+)\.csv$")
"""Step of a file of grad_probe."""

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_TIME = re.compile(r"^([A-Z][a-z]{2})(\d{2})_(\d{2})-(\d{2})-(\d{2})$")
_SHANGHAI = 8 * 3600  # seconds ahead of UTC; there is no summer time


def _span(step: int, steps_per_file: int) -> str:
    first = step // steps_per_file * steps_per_file
    return f"{first}-{first + steps_per_file - 1}"


def file_name(kind: str, step: int, steps_per_file: int) -> str:
    """Return the file of TrainerMon that holds a step of a kind."""
    return f"{kind}_{_span(step, steps_per_file)}.csv"


def scoped_file_name(monitor: str, step: int, steps_per_file: int) -> str:
    """Return the file of TrainerMonitorV2 that holds a step of a monitor."""
    return f"{monitor}_step{_span(step, steps_per_file)}.csv"


def scoped_folder(output_dir: Path, rank: int) -> Path:
    """Return the folder of one rank of TrainerMonitorV2."""
    return output_dir / f"rank_{rank}"


def tag(vpp_stage: int, name: str, rank: int, kind: str, micro_step: int | None = None) -> str:
    """Return the name of one series in anomalies and alerts: `0:fc.weight/rank0/grad_reduced`."""
    micro = "" if micro_step is None else f":{micro_step}"
    return f"{vpp_stage}:{name}{micro}/rank{rank}/{kind}"


def time_text(now: float) -> str:
    """Format seconds since 1970 as in the name of a folder: `Dec03_21-34-40`, in the time of Shanghai, independent of
    the locale."""
    at = time.gmtime(now + _SHANGHAI)
    return f"{_MONTHS[at.tm_mon - 1]}{at.tm_mday:02}_{at.tm_hour:02}-{at.tm_min:02}-{at.tm_sec:02}"


def parse_time(text: str) -> tuple[int, ...] | None:
    """Return month, day, hour, minute and second of `Dec03_21-34-40`; None for any other text. The names have no
    year."""
    found = _TIME.match(text)
    if found is None or found[1] not in _MONTHS:
        return None
    numbers = tuple(int(found[i]) for i in range(2, 6))
    return (_MONTHS.index(found[1]) + 1, *numbers)


def new_folder(root: Path, rank: int, now: float) -> Path:
    """Make the folder of one process, `now` in seconds since 1970. OSError if that cannot be."""
    make_folder(root)
    while True:
        folder = root / f"{time_text(now)}-rank{rank}-{os.urandom(4).hex()}"
        try:
            folder.mkdir(mode=FOLDER_MODE)
        except FileExistsError:
            continue
        return folder


def folders_between(root: Path, start: str | None, end: str | None) -> list[tuple[int, Path]]:
    """Return (rank, folder) of the processes between two times, both included, in the order of time.

    Names have no year: where `start` is later than `end`, the time between them goes over the end of a year. ValueError
    for a time that cannot be read.
    """
    first, last = (None if text is None else _required_time(text) for text in (start, end))
    over = first is not None and last is not None and first > last
    found: list[tuple[tuple[object, ...], int, Path]] = []
    for folder in root.iterdir() if root.is_dir() else ():
        name = FOLDER.match(folder.name)
        when = parse_time(name[1]) if name else None
        if name is None or when is None or not folder.is_dir():
            continue
        after, before = first is None or when >= first, last is None or when <= last
        if (after or before) if over else (after and before):
            order = (over and not after, when, folder.stat().st_mtime)
            found.append((order, int(name[2]), folder))
    return [(rank, folder) for _, rank, folder in sorted(found, key=lambda each: each[0])]


def find_folder(root: Path, rank: int, start: str, end: str) -> Path | None:
    """Return the newest folder of a rank whose time is between two times (`append_output`); None if there is none."""
    found = [folder for at, folder in folders_between(root, start, end) if at == rank]
    return found[-1] if found else None


def _required_time(text: str) -> tuple[int, ...]:
    when = parse_time(text)
    if when is None:
        raise ValueError(f"{text!r} is not the time of a monitor folder, such as Dec03_21-34-40")
    return when


def statistics_of(kind: str, chosen: Sequence[str]) -> tuple[str, ...]:
    """Return the statistics in a file of a kind, of which the user chose some."""
    return OWN_STATISTICS.get(kind) or tuple(chosen)
