"""All kinds of findings, by code and by name."""

from types import ModuleType

from .catalogue import (
    bundles,
    checkpoints,
    collecting,
    comparison,
    configuration,
    dumps,
    flows,
    gate,
    graft,
    invariants,
    monitor,
    nonfinite,
    parallel,
    readiness,
    rollout,
    single_calls,
)
from .kind import Kind


def kinds_in(module: ModuleType) -> tuple[Kind, ...]:
    """Return the kinds that a module of the catalogue declares, in the order of their codes."""
    found = (value for value in vars(module).values() if isinstance(value, Kind))
    return tuple(sorted(found, key=lambda kind: kind.code))


EVERY: tuple[Kind, ...] = tuple(
    kind
    for module in (
        comparison,
        parallel,
        nonfinite,
        invariants,
        monitor,
        flows,
        rollout,
        configuration,
        checkpoints,
        bundles,
        single_calls,
        readiness,
        dumps,
        collecting,
        gate,
        graft,
    )
    for kind in kinds_in(module)
)

BY_CODE = {kind.code: kind for kind in EVERY}
BY_NAME = {kind.name: kind for kind in EVERY}
