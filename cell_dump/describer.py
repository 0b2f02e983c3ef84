"""A value becomes a record, as JSON text: what `docs/format.md` 2.2 and 2.3 say of it, whatever framework made it.

How a tensor is read is the framework's: `mindspore_side/tensor.py`, `pytorch_side/tensor.py`.
"""

import json
from abc import abstractmethod
from json.encoder import encode_basestring_ascii as quote
from typing import Any, ClassVar, TypeAlias

import numpy as np

from msprobe.store.describe import ArrayDescriber, reason

from .nested import PLAIN, Bare, children, is_listed, is_tensor

Sources: TypeAlias = dict[int, str]
"""Who produced a tensor, by its id, in the words of the format's `from`."""

DEPTH = 50
"""Values nested deeper than this are cut, as in the format."""


class Describer(ArrayDescriber):
    """Makes records of any value, and writes the npy files where tensors are saved."""

    kind: ClassVar[str]
    """The type of tensors as records say it: `mindspore.Tensor`."""

    dtypes: ClassVar[tuple[tuple[type, str], ...]] = ()
    """Classes of values that a record holds as their text, with the type that it says: dtypes, devices."""

    def value(self, value: Any, call: str, part: str, depth: int = 0, sources: Sources | None = None) -> str:
        """The record of any value. `part` is its place in the call, `input.1`."""
        if is_tensor(value):
            record = self.tensor(value, call, part)
            if sources and record != "null" and (source := sources.get(id(value))):
                return f'{record[:-1]},"from":{quote(source)}}}'
            return record
        if value is None:
            return "null"
        if isinstance(value, PLAIN):
            return f'{{"type":"{type(value).__name__}","value":{json.dumps(value)}}}'
        inner = children(value)
        if inner is None:
            return self._rare(value, call, part)
        if depth >= DEPTH:
            self.lost(call, part, f"nested deeper than {DEPTH}")
            return "null"
        members = ((k, self.value(v, call, f"{part}.{k}" if part else str(k), depth + 1, sources)) for k, v in inner)
        if is_listed(value):
            return f"[{','.join([v for _, v in members])}]"
        return f"{{{','.join([f'{quote(str(k))}:{v}' for k, v in members])}}}"

    def _rare(self, value: Any, call: str, part: str) -> str:
        if isinstance(value, slice):
            ends = [e if isinstance(e, int) else None for e in (value.start, value.stop, value.step)]
            return json.dumps({"type": "slice", "value": ends})
        if isinstance(value, Bare):
            return json.dumps(value.value)
        if value is Ellipsis:
            return '{"type":"ellipsis","value":"..."}'
        for kind, said in self.dtypes:
            if isinstance(value, kind):
                return json.dumps({"type": said, "value": str(value)})
        if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
            return self.array(value, call, part, "numpy.ndarray", str(value.dtype))
        if isinstance(value, np.generic) and value.dtype.kind in "biuf":
            return json.dumps({"type": type(value).__name__, "value": value.item()})
        return "null"

    def tensor(self, tensor: Any, call: str, part: str) -> str:
        """The record of a tensor; null, with a line in `missing`, where it could not be read."""
        try:
            return self.read(tensor, call, part)
        except Exception as cause:  # a debugger never stops the training because of itself
            self.lost(call, part, reason(cause))
            return "null"

    @abstractmethod
    def read(self, tensor: Any, call: str, part: str) -> str:
        """The record of a tensor, which is read now; raises whatever the framework does."""

    @abstractmethod
    def dtype(self, tensor: Any) -> str:
        """The dtype's name as the dump spells it: `Float32`, `torch.float32`."""

    @abstractmethod
    def elements(self, tensor: Any) -> np.ndarray[Any, Any]:
        """The elements, in memory that may be the tensor's own: to be read at once, and neither kept nor changed."""

    @abstractmethod
    def parameters_of(self, module: Any) -> list[tuple[str, Any]] | None:
        """A module's own parameters as they are when its call begins; None for one that can have none."""
