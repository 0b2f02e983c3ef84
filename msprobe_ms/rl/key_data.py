"""Key data of a flow on disk: tensors that are passed from stage to stage, saved by name.

`save_data(name, data)` writes `data/{name}/step{n}/rank{r}/{name}_{dtype}_{id}.npy`, as `msprobe.mindspore.save` does.
`save_data(dict)` writes `data/{name}/step{n}/rank{r}/micro_step{m}/{name}.npy` with statistics, as `SingleSave` does.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from msprobe.base.checks import quoted
from msprobe.base.errors import reason
from msprobe.base.interrupts import must_propagate
from msprobe.base.log import log_once
from msprobe.base.nested import MAX_MEMBERS, Leaf, leaves_of, tree_of_value, type_name
from msprobe.frameworks import process
from msprobe.graph_save.tree import SaveTree
from msprobe.single_save import NotATensor, is_savable, shared_tree
from msprobe.store.layout import DATA
from msprobe.store.run_folder import run_folder
from msprobe.store.saves.single_saves import stem_of

_NUMPY = "numpy.ndarray"
"""The type of arrays in records."""


class KeyData:
    """The key data below one dump_path, and the number of the step there.

    Values that cannot be saved are logged once and omitted. Failures do not reach the training; an error of the
    training that is raised when a tensor is read is not caught. A forked child process saves nothing, which is logged.
    """

    def __init__(self, root: Path) -> None:
        self._root, self._pid = root, os.getpid()
        self._files = SaveTree()
        self._singles = shared_tree(root)
        self.step_number = 0

    def save(self, name: object, data: Any) -> None:
        """Save the tensors of `data`, also those in lists, tuples and dicts, under one name."""
        if self._is_forked():
            return
        if not isinstance(name, str) or not name:
            log_skipped("name", f"save_data: the name is {quoted(name)}; pass a string: save_data('loss', loss)")
            return
        tensors: list[Leaf] = []
        with logged(f"save_data: {name}"):  # a container may run user code, or be changed by another thread
            tensors = list(_tensors(name, data))
        values = [tensor for _, tensor in tensors]
        process.settle(values)
        with logged(f"save_data: {name}"):
            found = [process.of_tensor(tensor) for tensor in values]
            rank = process.rank(next((each.name for each in found if each is not None), "")) or 0
            for (inner, tensor), framework in zip(tensors, found, strict=True):
                kind = _NUMPY if framework is None else framework.tensors.type_name
                self._keep(name, inner, process.array_to_save(tensor), str(tensor.dtype), rank, kind)

    def save_from_graph(self, name: str, inner: str, array: np.ndarray[Any, Any], dtype: str, kind: str) -> None:
        """Save a tensor of type `kind` that a running graph passes on, of `save_data(name, ...)` in the graph."""
        if not self._is_forked():
            with logged(f"save_data: {name}"):
                self._keep(name, inner, array, dtype, process.rank() or 0, kind)

    def run_root(self) -> Path:
        """Return the folder of this run: the dump_path, or a folder in it if another run uses that."""
        return run_folder(self._root, process.rank(), DATA).folder

    def folder(self, name: str) -> str:
        """Return the folder that contains `step{n}` for `save(name, ...)`."""
        return str(self.run_root() / DATA / stem_of(name))

    def _keep(self, name: str, inner: str, array: Any, dtype: str, rank: int, kind: str) -> None:
        folder = self.folder(name)
        self._files.save(folder, inner, array, dtype, self._files.next_count(folder, inner), rank, kind)

    def save_each(self, data: Mapping[str, Any]) -> None:
        """Save each value under its key, in the next micro step of this key."""
        if self._is_forked():
            return
        try:
            items = [(key, {key: value}) for key, value in islice(data.items(), MAX_MEMBERS)]
        except BaseException as cause:  # as in `save`
            if must_propagate(cause):
                raise
            log_failure("save_data", cause)
            return
        for key, item in items:
            try:
                self._singles.save(item)
            except NotATensor as cause:
                log_skipped(f"of {key}", str(cause))
                self._singles.skip_save(key)

    def save_strings(self, name: str, strings: Any) -> None:
        """Save each string as its UTF-8 bytes, one save for each."""
        if not isinstance(strings, list | tuple) or not all(isinstance(text, str) for text in strings):
            log_skipped(
                "strings",
                f"save_string_list: {quoted(name)} is not a list of strings; call save_string_list(name, [text])",
            )
            return
        for text in strings:
            self.save(name, np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8))

    def step(self) -> None:
        """End the step: later saves belong to the next step."""
        self.step_number += 1
        with logged("step"):
            self._files.step()
        self._singles.step()

    def _is_forked(self) -> bool:
        """Return whether this is a forked child process, which would overwrite the files of its parent."""
        forked = os.getpid() != self._pid
        if forked:
            log_once(
                f"MsProbe: forked {self._root}",
                f"MsProbe: a forked process does not save to {self._root}, since it would overwrite the files of "
                "its parent; call config_init in the forked process with another dump_path",
            )
        return forked


def log_skipped(cause: str, what: str) -> None:
    """Log a mistake in one call, once per cause; the rest is saved."""
    log_once(f"MsProbe: {cause}", f"MsProbe: {what.removeprefix('SingleSave: ')}; it is not saved")


def log_failure(what: str, cause: BaseException) -> None:
    """Log a failure of this tool, once per cause."""
    why = reason(cause)
    log_once(f"MsProbe failed: {why}", f"MsProbe: {what} failed: {why}; the training continues")


@contextmanager
def logged(what: str, passed: type[Exception] | tuple[()] = ()) -> Iterator[None]:
    """Log failures in a block, which do not stop the training; `passed` are mistakes of the user, which are raised."""
    try:
        yield
    except passed:
        raise
    except Exception as cause:
        log_failure(what, cause)


def _tensors(name: str, data: Any) -> Iterator[Leaf]:
    """Return the tensors in data, each with the name followed by positions and keys; None is skipped."""
    tree = tree_of_value(data, name, fields=False)
    for lost in tree.lost:
        log_skipped(lost.kind, f"save_data: {lost.place[:200]}: {lost.cause}")
    for place, leaf in leaves_of(tree.values[0], name):
        if is_savable(leaf):
            yield place, leaf
        elif leaf is not None:
            kind = type_name(leaf)
            what = f"save_data: {place} is {quoted(leaf)} of type {kind}"
            log_skipped(kind, f"{what}; convert it to a tensor, or use save_string_list")
