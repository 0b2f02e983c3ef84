"""Every kind of finding, by code and by name."""

from .catalogue import comparison, configuration, flows, invariants, monitor, nonfinite, single_calls
from .kind import Kind

EVERY: tuple[Kind, ...] = (
    *comparison.KINDS,
    *nonfinite.KINDS,
    *invariants.KINDS,
    *monitor.KINDS,
    *flows.KINDS,
    *configuration.KINDS,
    *single_calls.KINDS,
)

BY_CODE = {kind.code: kind for kind in EVERY}
BY_NAME = {kind.name: kind for kind in EVERY}
