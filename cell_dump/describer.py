"""A value becomes a record, as JSON text (`format.md` 2.2 and 2.3), and a call stack its lines, in any framework.

How a tensor is read is the framework's, in the `tensor.py` of its backend.
"""

import json
import linecache
import sys
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from json.encoder import encode_basestring_ascii as quote
from math import prod
from operator import attrgetter, methodcaller
from types import CodeType, FrameType
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias

import numpy as np

from msprobe.base.digest import CRC32C
from msprobe.base.errors import reason
from msprobe.base.finite import FLOAT_LETTERS, is_finite
from msprobe.base.framework import AnyModule, AnyTensor
from msprobe.base.in_place import is_trampoline
from msprobe.base.interrupts import must_propagate
from msprobe.base.nested import PLAIN, is_tensor, type_name
from msprobe.base.schema import Statistic
from msprobe.base.statistic import kernel
from msprobe.store.describe import WIDEST, ArrayDescriber, beginning, not_written, statistics
from msprobe.store.record import UNWRITTEN
from msprobe.store.stacks_and_construct import without_secrets
from msprobe.store.tensor_pack.chunks import BFLOAT16
from msprobe.store.writer import StepWriter, Writer

from .call_sites import is_inserted
from .unwritten import Unwritten

Sources: TypeAlias = dict[int, str]
"""Who produced a tensor, by its id, as the JSON text of the format's `from`."""

Dtypes: TypeAlias = tuple[tuple[type, str], ...]
"""Classes of values with the type that their records say."""


class Read(Protocol):
    """Asks a tensor for something; called for every tensor of every call, so of C where that can be."""

    def __call__(self, tensor: AnyTensor, /) -> Any: ...


class Bare:
    """A number, text or None that a record contains as it is, without a type."""

    __slots__ = ("value",)

    def __init__(self, value: int | str | None) -> None:
        self.value = value


_CODES = {"E": BFLOAT16, **{letter: np.dtype(letter).str for letter in "fed?bBhHiIq"}}
"""The dtypes as the index of a pack says them, by the kernel's letters."""


class _Layout(NamedTuple):
    """How a tensor's elements lie in memory: its shape, the dtype of a pack's index, the bytes of one and of all."""

    shape: tuple[int, ...]
    code: str
    width: int
    bytes: int
    of_array: "np.dtype[Any] | None"
    """None for bfloat16, which numpy does not have."""


class _Head(NamedTuple):
    """What all tensors of one dtype and shape have in common: the record's beginning, and how to read them."""

    text: str
    size: int
    letter: str
    dtype: Any
    layout: _Layout | None
    """None where the kernel does not read such a dtype, or there are no elements."""


class Describer(ArrayDescriber):
    """Makes records of any value, and writes the npy files where tensors are saved."""

    kind = ""
    """The type of tensors as records say it: `mindspore.Tensor`."""

    is_borrowed = False

    dtypes: ClassVar[Dtypes] = ()
    """Classes of values that a record holds as their text, with the type that it says; the first is that of dtypes."""

    letters: ClassVar[Mapping[Any, str]]
    """The dtypes whose elements the kernel reads where they lie, and its letters for them."""

    tensors: ClassVar[type]
    """The class of the tensors that the kernel reads."""

    dtype_of: ClassVar[Read] = attrgetter("dtype")
    shape_of: ClassVar[Read] = attrgetter("shape")
    address_of: ClassVar[Read] = methodcaller("data_ptr")
    reads_in_place: ClassVar[Read]
    """Whether a tensor's elements stand in this process's memory, one after the other, at its address."""

    has_addresses = True
    """Whether an address is one of this process's memory, where the kernel can read."""

    def __init__(
        self,
        writer: StepWriter,
        *,
        saves: bool = False,
        digests: str = "",
        extra: Sequence[Statistic] = (),
        layout: bool = False,
    ) -> None:
        super().__init__(writer, saves=saves, digests=digests, extra=extra)
        self._with_layout = layout
        self._is_direct = self.has_addresses and kernel is not None
        # By the dtype's id: to hash one of MindSpore costs more than to read a small tensor. The head keeps it alive.
        self._heads: dict[tuple[int, tuple[int, ...]], _Head] = {}
        by_kernel = digests == CRC32C
        asked = self.tensors, self.dtype_of, self.shape_of, self.reads_in_place, self.address_of
        shares = tuple([(f',"{each.key}":', each.limit, each.is_below, "i" in each.dtypes) for each in self.extra])
        self._reader = (*asked, self._heads, by_kernel, shares)
        self._digests_after = bool(digests) and not by_kernel
        by_kernel_alone = self._is_direct and self._holder is None and not self._digests_after and not layout
        self._is_quick = by_kernel_alone and not self.saves
        """Whether what the kernel says of a tensor is its whole record."""
        self._packs = False
        """Whether its elements go into a pack, from where they lie."""
        if by_kernel_alone and self.saves and isinstance(writer, Writer) and writer.packs:
            self._packs, self._add_elements = True, writer.elements

    def values(self, nodes: Sequence[Any], call: str, part: str, sources: Sources | None = None) -> str:
        """Return the records of a call's inputs or outputs, a JSON array. `part` is their place in the call,
        `input`."""
        if self._is_quick:
            texts = kernel.records(nodes, self._reader, sources)
        else:
            texts = self._packed(nodes, call, part, sources) if self._packs else [None] * len(nodes)
        if None in texts:
            for i, text in enumerate(texts):
                if text is None:
                    texts[i] = self.value(nodes[i], call, f"{part}.{i}", sources)
        return f"[{','.join(texts)}]"

    def _packed(self, nodes: Sequence[Any], call: str, part: str, sources: Sources | None) -> list[str | None]:
        """Return the records of the tensors among a call's inputs or outputs whose elements could be packed."""
        texts: list[str | None] = kernel.records(nodes, self._reader, None)
        for i, text in enumerate(texts):
            if text is not None:
                source = sources.get(id(nodes[i]), "") if sources else ""
                place = f"{part}.{i}"
                texts[i] = self._saved(text, nodes[i], f"{call}.{place}.npy", call, place, source)
        return texts

    def _saved(self, text: str, tensor: AnyTensor, data_name: str, call: str, part: str, source: str) -> str | None:
        """Return a record that the kernel made, with the name under which the elements are packed; None if they are
        not."""
        layout: _Layout | None = self._heads[id(self.dtype_of(tensor)), self.shape_of(tensor)].layout
        if layout is None:
            return None
        try:
            memory = kernel.memory(self.address_of(tensor), layout.bytes)
            name = self._add_elements(data_name, memory, layout.code, layout.width, layout.shape)
        except OSError as cause:
            self.lost(call, part, not_written(cause))
            name = ""
        except Exception as cause:  # a debugger never stops the training because of itself
            if must_propagate(cause):
                raise
            self.lost(call, part, reason(cause))
            return "null"
        named = f',"data_name":{quote(name)}' if name else ""
        return f'{text[:-1]}{named},"from":{source}}}' if source else f"{text[:-1]}{named}}}"

    def value(self, node: Any, call: str, part: str, sources: Sources | None = None) -> str:
        """Return the record of a node of a tree (`base/nested.py`). `part` is its place in the call, `input.1`."""
        kind = type(node)
        if is_tensor(node):
            record = self.tensor(node, call, part)
            if sources and record != "null" and (source := sources.get(id(node))):
                return f'{record[:-1]},"from":{source}}}'
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
        except BaseException as cause:  # a value of foreign code
            if must_propagate(cause):
                raise
            self.lost(call, part, reason(cause))
            return "null"

    def _rare(self, value: Any, kind: type, call: str, part: str) -> str:
        if kind is slice:
            ends = [int.__pos__(e) if issubclass(type(e), int) else None for e in (value.start, value.stop, value.step)]
            if any(end is not None and end.bit_length() > WIDEST for end in ends):
                self.lost(call, part, f"an integer of more than {WIDEST} bits")
                return "null"
            return json.dumps({"type": "slice", "value": ends})
        if kind is Unwritten:
            tensor = value.tensor
            return json.dumps({"type": UNWRITTEN, "value": [self.kind, self.dtype(tensor), list(tensor.shape)]})
        if kind is Bare:
            return json.dumps(value.value)
        if value is Ellipsis:
            return '{"type":"ellipsis","value":"..."}'
        for known, spelled in self.dtypes:
            if issubclass(kind, known):
                return json.dumps({"type": spelled, "value": str(value)})
        if issubclass(kind, np.ndarray) and value.dtype.kind in "biufc":
            return self.array(value, call, part, "numpy.ndarray", str(value.dtype))
        if issubclass(kind, np.generic) and value.dtype.kind in "biuf":
            plain = float(value) if value.dtype.kind == "f" else value.item()
            return json.dumps({"type": type_name(value), "value": plain})
        return "null"

    def tensor(self, tensor: AnyTensor, call: str, part: str) -> str:
        """Return the record of a tensor; what represents it where values are held until their call is known to be
        written."""
        if self._is_quick and (text := kernel.record(tensor, self._reader)) is not None:
            return text  # type: ignore[no-any-return]  # the extension's
        if self._packs and (text := kernel.record(tensor, self._reader)) is not None:
            saved = self._saved(text, tensor, f"{call}.{part}.npy" if part else f"{call}.npy", call, part, "")
            if saved is not None:
                return saved
        if self._holder is not None:
            return self._holder.hold(self, tensor, call, part)
        return self.described(tensor, call, part)

    def described(self, tensor: AnyTensor, call: str, part: str) -> str:
        """Return the record of a tensor, read now; null, with a line in `missing`, where it could not be read."""
        try:
            return self.read(tensor, call, part)
        except Exception as cause:  # a debugger never stops the training because of itself
            if must_propagate(cause):
                raise
            self.lost(call, part, reason(cause))
            return "null"

    def read(self, tensor: AnyTensor, call: str, part: str) -> str:
        """Return the record of a tensor, which is read now; raises whatever the framework does."""
        dtype, shape = tensor.dtype, tensor.shape
        head = self._heads.get((id(dtype), shape)) or self._head(dtype, shape)
        text = kernel.record(tensor, self._reader) if self._is_direct else None
        if text is not None and self._with_layout:
            text = f"{text[:-1]}{_layout_of(tensor)}}}"
        if text is not None and not self.saves and not self._digests_after:
            return text  # type: ignore[no-any-return]  # the extension's
        if text is None:
            if cause := self.without_data(tensor):
                self.lost(call, part, cause)
                return "null"
            elements = self.elements(tensor)
            begun = head.text + statistics(elements, self.extra) + (_layout_of(tensor) if self._with_layout else "")
            begun += self._digest(elements)
            return self._finished(begun, elements, dtype, call, part)
        layout = head.layout
        if layout is None or layout.of_array is None:
            elements = self.elements(tensor)
        else:  # the kernel has just read them where they lie; DLPack would take longer than a small record
            memory = kernel.memory(self.address_of(tensor), layout.bytes)
            elements = np.ndarray(layout.shape, layout.of_array, memory)
        begun = text[:-1] + self._digest(elements) if self._digests_after else text[:-1]
        return self._finished(begun, elements, dtype, call, part)

    def is_finite(self, tensor: AnyTensor) -> bool:
        """Return whether all elements are finite now; True for a tensor that has none. Raises whatever the framework
        does."""
        dtype, shape = tensor.dtype, tensor.shape
        head = self._heads.get((id(dtype), shape)) or self._head(dtype, shape)
        if head.letter and head.letter not in FLOAT_LETTERS:
            return True
        if head.letter and self.reads_in_place(tensor):
            found = kernel.finite(self.address_of(tensor), head.size, head.letter)
            if found is not None:
                return found  # type: ignore[no-any-return]  # the extension's
        return bool(self.without_data(tensor)) or is_finite(self.elements(tensor))

    def _head(self, dtype: Any, shape: tuple[int, ...]) -> _Head:
        if not isinstance(dtype, self.dtypes[0][0]):
            raise TypeError("a tensor of another framework")
        letter = self.letters.get(dtype, "") if self._is_direct else ""
        shape, size = tuple(shape), prod(shape)
        layout = None
        if size and (code := _CODES.get(letter)):
            of_array = None if code == BFLOAT16 else np.dtype(letter)
            width = 2 if of_array is None else of_array.itemsize
            layout = _Layout(shape, code, width, size * width, of_array)
        head = _Head(beginning(self.kind, str(dtype), shape), size, letter, dtype, layout)
        self._heads[id(dtype), shape] = head
        return head

    def dtype(self, tensor: AnyTensor) -> str:
        """Return the dtype's name as the dump spells it: `Float32`, `torch.float32`."""
        return str(tensor.dtype)

    @abstractmethod
    def without_data(self, tensor: AnyTensor) -> str:
        """Return why a tensor has no elements to read now; empty if it has."""

    @abstractmethod
    def elements(self, tensor: AnyTensor) -> np.ndarray[Any, Any]:
        """Return the elements, in memory that may be the tensor's own: to be read immediately, and neither kept nor
        changed."""

    @abstractmethod
    def parameters_of(self, module: AnyModule) -> list[tuple[str, Any]] | None:
        """Return a module's own parameters as they are when its call begins; None for one that can have none."""


def _layout_of(tensor: AnyTensor) -> str:
    """Return the members of a record that hold the tensor's layout in memory; empty for a tensor without strides."""
    try:
        strides, offset = tensor.stride(), tensor.storage_offset()
    except Exception as cause:  # of a sparse tensor, or a subclass of the user's own
        if must_propagate(cause):
            raise
        return ""
    return f',"stride":[{",".join(map(str, strides))}],"storage_offset":{offset}'


_OURS = 3
"""At least so many frames of msprobe are between the training and `Stacks.of_caller`."""

UNAVAILABLE = ("The call stack retrieval failed.",)


class Stacks:
    """The call stacks of one writer, each described once.

    A stack is known by the identity of its code objects and the instruction in each; line numbers and source texts are
    looked up at the first sight only. The code objects are kept, so that an identity is never used again for another
    one. Above the function `enclosing`, which runs a cell whose own stack is known, nothing is looked at again.
    """

    def __init__(self, writer: StepWriter, enclosing: CodeType) -> None:
        self._writer = writer
        self._enclosing = enclosing
        self._known: dict[tuple[int, ...], int] = {}
        self._kept: list[CodeType] = []
        self._of_msprobe: dict[int, CodeType] = {}
        self._of_users: dict[int, CodeType] = {}

    def of_caller(self, above: int | None = None) -> int:
        """Return the id of the caller's stack, without the frames of msprobe; `above` is the id of the enclosing
        cell's."""
        key = self._key(above)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._writer.stack(self._describe(_outside(sys._getframe(_OURS))))
        return known

    def _key(self, above: int | None) -> tuple[int, ...]:
        """Return the code object and the instruction of each frame, up to the enclosing cell's, then `above`."""
        frame: FrameType | None = sys._getframe(_OURS + 1)
        known, users = self._of_msprobe, self._of_users
        while frame is not None and (code := id(frame.f_code)) not in users and (code in known or self._is_ours(frame)):
            frame = frame.f_back
        if frame is None:
            return ()
        key = [id(frame.f_code), frame.f_lasti]
        add, enclosing = key.append, None if above is None else self._enclosing
        while (frame := frame.f_back) is not None:
            if (own := frame.f_code) is enclosing and above is not None:
                add(above)
                break
            add(id(own))
            add(frame.f_lasti)
        return tuple(key)

    def _is_ours(self, frame: FrameType) -> bool:
        """Return whether a frame is there because of msprobe, and remember functions by their code."""
        found = is_inserted(frame)
        if not is_trampoline(frame.f_code):
            (self._of_msprobe if found else self._of_users)[id(frame.f_code)] = frame.f_code
        return found

    def _describe(self, frame: FrameType | None) -> tuple[str, ...]:
        lines = []
        while frame is not None:
            code = frame.f_code
            self._kept.append(code)
            try:
                source = linecache.getline(code.co_filename, frame.f_lineno, frame.f_globals).strip()
            except Exception as cause:  # a loader of the user's own, which may raise anything
                if must_propagate(cause):
                    raise
                source = ""
            if source and not is_inserted(frame):
                lines.append(f"File {code.co_filename}, line {frame.f_lineno}, in {code.co_name}, \n {source}")
            frame = frame.f_back
        return without_secrets(tuple(lines)) or UNAVAILABLE


def _outside(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame that is not of msprobe."""
    while frame is not None and is_inserted(frame):
        frame = frame.f_back
    return frame
