"""The tensors of what is wrong, saved as a collector would have: inputs and outputs as npy files by their names."""

from collections.abc import Iterable
from pathlib import Path

from msprobe.base.errors import DumpError
from msprobe.base.files import make_folder, safe_name
from msprobe.base.log import log_once
from msprobe.replay.recorded import CannotReplay, Leaf, leaves
from msprobe.store.npy import write_npy

from .check import Attempt
from .judge import Status


def save_tensors(folder: Path, attempts: Iterable[Attempt]) -> None:
    """Save inputs, keyword arguments, incoming gradients and outputs of each direction that is wrong."""
    for attempt in attempts:
        if attempt.direction.status is Status.ERROR and attempt.call is not None:
            call = attempt.call
            found = [*leaves([call.args, call.kwargs]), *call.parameters.values(), *call.incoming.values()]
            found += [leaf for _, leaf in call.gradients] if call.is_backward else call.outputs.values()
            _save(folder, found)


def _save(folder: Path, found: Iterable[Leaf]) -> None:
    try:
        make_folder(folder)
        for leaf in dict.fromkeys(found):
            write_npy(str(folder / f"{safe_name(leaf.record.name)}.npy"), leaf.array)
    except (OSError, DumpError, CannotReplay) as err:  # a full disk does not end the check
        log_once("error data", f"{folder}: tensors could not be saved ({err})")
