"""Key data of a flow on disk: what passes from stage to stage, saved by name.

`save_data(name, data)` writes `data/{name}/step{n}/rank{r}/{name}_{dtype}_{id}.npy`, as `msprobe.mindspore.save` does.
`save_data(dict)` writes `data/{name}/step{n}/rank{r}/micro_step{m}/{name}.npy` with statistics, as `SingleSave` does.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from msprobe.base import framework
from msprobe.base.checks import quoted
from msprobe.base.errors import reason
from msprobe.base.framework import Framework
from msprobe.base.interrupts import must_propagate
from msprobe.base.log import log_once
from msprobe.base.nested import MAX_MEMBERS, Leaf, leaves_of, tree_of_value, type_name
from msprobe.graph_save.tree import MINDSPORE, SaveTree
from msprobe.single_save import NotATensor, is_savable, shared_tree
from msprobe.store.layout import DATA
from msprobe.store.run_folder import run_folder
from msprobe.store.saves.single_saves import stem_of

_KINDS = {"mindspore": MINDSPORE, "pytorch": "torch.Tensor", None: "numpy.ndarray"}


class KeyData:
    """The key data below one dump_path, and the number of the step there.

    What is no key data is logged once and left out; no failure reaches the training, and an error of the
    training that comes up when a tensor is read comes out as it is. A forked child saves nothing, which is logged.
    """

    def __init__(self, root: Path) -> None:
        self._root, self._pid = root, os.getpid()
        self._files = SaveTree()
        self._singles = shared_tree(root, _first([]))
        self.step_number = 0

    def save(self, name: object, data: Any) -> None:
        """Save the tensors of `data`, also those in lists, tuples and dicts, under one name."""
        if self._is_forked():
            return
        if not isinstance(name, str) or not name:
            left_out("name", f"save_data: the name is {quoted(name)}; pass a string: save_data('loss', loss)")
            return
        tensors: list[Leaf] = []
        with logged(f"save_data: {name}"):  # a container is foreign code, which another thread may be changing
            tensors = list(_tensors(name, data))
        values = [tensor for _, tensor in tensors]
        framework.synchronize(values)
        with logged(f"save_data: {name}"):
            rank = framework.rank(_first(values)) or 0
            for inner, tensor in tensors:
                made_by = framework.framework_of(tensor)
                array = tensor if made_by is None else framework.array_of(tensor)
                self._keep(name, inner, array, str(tensor.dtype), rank, _KINDS[made_by])

    def save_arrived(self, name: str, inner: str, array: np.ndarray[Any, Any], dtype: str) -> None:
        """Save a tensor that a graph of MindSpore passes on while it runs, of `save_data(name, ...)` inside of it."""
        if not self._is_forked():
            with logged(f"save_data: {name}"):
                self._keep(name, inner, array, dtype, framework.rank("mindspore") or 0, MINDSPORE)

    def run_root(self) -> Path:
        """Return the folder of this run: the dump_path, or one inside it where another run has that."""
        return run_folder(self._root, framework.rank(_first([])), DATA).folder

    def folder(self, name: str) -> str:
        """What stands before `step{n}` in the paths of `save(name, ...)`."""
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
        except BaseException as cause:  # foreign code, as in `save`
            if must_propagate(cause):
                raise
            failed("save_data", cause)
            return
        for key, item in items:
            try:
                self._singles.save(item)
            except NotATensor as cause:
                left_out(f"of {key}", str(cause))
                self._singles.skip_save(key)

    def save_strings(self, name: str, strings: Any) -> None:
        """Save each text as the bytes of its UTF-8, one save for each."""
        if not isinstance(strings, list | tuple) or not all(isinstance(text, str) for text in strings):
            left_out(
                "strings",
                f"save_string_list: {quoted(name)} is not a list of strings; call save_string_list(name, [text])",
            )
            return
        for text in strings:
            self.save(name, np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8))

    def step(self) -> None:
        """What is saved from here on is of the next step."""
        self.step_number += 1
        with logged("step"):
            self._files.step()
        self._singles.step()

    def _is_forked(self) -> bool:
        """Whether this is a child of the process that saves here: its numbers are ours, and so its files would be."""
        forked = os.getpid() != self._pid
        if forked:
            log_once(
                f"MsProbe: forked {self._root}",
                f"MsProbe: a forked process does not save to {self._root}, since it would overwrite the files of "
                "its parent; call config_init in the forked process with another dump_path",
            )
        return forked


def left_out(cause: str, what: str) -> None:
    """A mistake in one call: logged once per cause, and the rest is saved."""
    log_once(f"MsProbe: {cause}", f"MsProbe: {what.removeprefix('SingleSave: ')}; it is not saved")


def failed(what: str, cause: BaseException) -> None:
    """A failure of ours: logged once per cause."""
    why = reason(cause)
    log_once(f"MsProbe failed: {why}", f"MsProbe: {what} failed: {why}; the training continues")


@contextmanager
def logged(what: str, passed: type[Exception] | tuple[()] = ()) -> Iterator[None]:
    """Return a failure while collecting never stops the training: it is logged; `passed` are mistakes of the user."""
    try:
        yield
    except passed:
        raise
    except Exception as cause:
        failed(what, cause)


def _tensors(name: str, data: Any) -> Iterator[Leaf]:
    """Return the tensors inside, each with its positions and keys behind the name; None is passed over."""
    tree = tree_of_value(data, name, fields=False)
    for lost in tree.lost:
        left_out(lost.kind, f"save_data: {lost.place[:200]}: {lost.cause}")
    for place, leaf in leaves_of(tree.values[0], name):
        if is_savable(leaf):
            yield place, leaf
        elif leaf is not None:
            kind = type_name(leaf)
            what = f"save_data: {place} is {quoted(leaf)} of type {kind}"
            left_out(kind, f"{what}; convert it to a tensor, or use save_string_list")


def _first(values: list[Any]) -> Framework:
    """Return the framework to be asked for the rank first: that of the values, or the one that is there."""
    found = next((made_by for value in values if (made_by := framework.framework_of(value))), None)
    return found or ("mindspore" if "mindspore" in sys.modules else "pytorch")
