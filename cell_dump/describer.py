"""A value becomes a record, as JSON text: what `docs/format.md` 2.2 and 2.3 say of it, whatever framework made it.

How a tensor is read is the framework's: `mindspore_side/tensor.py`, `pytorch_side/tensor.py`.
"""

import json
from abc import abstractmethod
from json.encoder import encode_basestring_ascii as quote
from typing import Any, ClassVar, TypeAlias

import numpy as np

from msprobe.base.errors import reason
from msprobe.base.nested import PASSED, PLAIN, is_tensor, type_name
from msprobe.store.describe import WIDEST, ArrayDescriber

Sources: TypeAlias = dict[int, str]
"""Who produced a tensor, by its id, in the words of the format's `from`."""


class Bare:
    """A number, text or None that stands in a record as it is, without a type."""

    __slots__ = ("value",)

    def __init__(self, value: int | str | None) -> None:
        self.value = value


class Describer(ArrayDescriber):
    """Makes records of any value, and writes the npy files where tensors are saved."""

    kind: ClassVar[str]
    """The type of tensors as records say it: `mindspore.Tensor`."""

    dtypes: ClassVar[tuple[tuple[type, str], ...]] = ()
    """Classes of values that a record holds as their text, with the type that it says: dtypes, devices."""

    def value(self, node: Any, call: str, part: str, sources: Sources | None = None) -> str:
        """The record of a node of a tree (`base/nested.py`). `part` is its place in the call, `input.1`."""
        kind = type(node)
        if is_tensor(node):
            record = self.tensor(node, call, part)
            if sources and record != "null" and (source := sources.get(id(node))):
                return f'{record[:-1]},"from":{quote(source)}}}'
            return record
        if node is None:
            return "null"
        if kind is list:
            members = [self.value(v, call, f"{part}.{i}" if part else str(i), sources) for i, v in enumerate(node)]
            return f"[{','.join(members)}]"
        if kind is dict:
            named = [
                f"{quote(k)}:{self.value(v, call, f'{part}.{k}' if part else k, sources)}" for k, v in node.items()
            ]
            return f"{{{','.join(named)}}}"
        try:
            return self.plain(node, call, part) if issubclass(kind, PLAIN) else self._rare(node, kind, call, part)
        except PASSED:
            raise
        except BaseException as cause:  # a value of foreign code
            self.lost(call, part, reason(cause))
            return "null"

    def _rare(self, value: Any, kind: type, call: str, part: str) -> str:
        if kind is slice:
            ends = [int.__pos__(e) if issubclass(type(e), int) else None for e in (value.start, value.stop, value.step)]
            if any(end is not None and end.bit_length() > WIDEST for end in ends):
                self.lost(call, part, f"a whole number of more than {WIDEST} bits")
                return "null"
            return json.dumps({"type": "slice", "value": ends})
        if kind is Bare:
            return json.dumps(value.value)
        if value is Ellipsis:
            return '{"type":"ellipsis","value":"..."}'
        for known, said in self.dtypes:
            if issubclass(kind, known):
                return json.dumps({"type": said, "value": str(value)})
        if issubclass(kind, np.ndarray) and value.dtype.kind in "biufc":
            return self.array(value, call, part, "numpy.ndarray", str(value.dtype))
        if issubclass(kind, np.generic) and value.dtype.kind in "biuf":
            plain = float(value) if value.dtype.kind == "f" else value.item()
            return json.dumps({"type": type_name(value), "value": plain})
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
