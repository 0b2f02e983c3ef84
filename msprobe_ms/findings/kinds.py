"""Every kind of finding, by code and by name."""

from .catalogue import (
    bundles,
    checkpoints,
    collecting,
    comparison,
    configuration,
    dumps,
    flows,
    invariants,
    monitor,
    nonfinite,
    parallel,
    readiness,
    rollout,
    single_calls,
)
from .kind import Kind

EVERY: tuple[Kind, ...] = (
    *comparison.KINDS,
    *parallel.KINDS,
    *nonfinite.KINDS,
    *invariants.KINDS,
    *monitor.KINDS,
    *flows.KINDS,
    *rollout.KINDS,
    *configuration.KINDS,
    *checkpoints.KINDS,
    *bundles.KINDS,
    *single_calls.KINDS,
    *readiness.KINDS,
    *dumps.KINDS,
    *collecting.KINDS,
)

BY_CODE = {kind.code: kind for kind in EVERY}
BY_NAME = {kind.name: kind for kind in EVERY}
