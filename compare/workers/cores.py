"""How many processes may compute at once here."""

import math
import os
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")


def cores(groups: Path = _GROUPS) -> int:
    """The cores that this process may use: those of its affinity, at most its container's quota, rounded up."""
    allowed = len(os.sched_getaffinity(0))
    quota = _quota(groups)
    return max(1, min(allowed, math.ceil(quota))) if quota else allowed


def _quota(groups: Path) -> float:
    """Cores that the container's quota comes to (cgroup 2, else 1); 0.0 without one."""
    try:
        given, period = (groups / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            given, period = ((groups / "cpu" / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        except OSError:
            return 0.0
    try:
        return max(0.0, float(given) / float(period))
    except (ValueError, ZeroDivisionError):  # "max": no quota
        return 0.0
