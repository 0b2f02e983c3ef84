"""A file of `torch.save`: one tensor, written; and, read without trusting it, one, or a tree of dictionaries of them.

Such a file is a zip archive with a pickle in it, and a pickle can name any function to be called. So torch opens it,
with `weights_only=True`, which lets it call what makes tensors and nothing else, and only what then turns out to be one
tensor is taken. What the archive claims of sizes is checked before torch sees it. In a tree whatever else the pickle
names becomes an object of no behaviour that holds what was stored for it, so that no other package is needed.
"""

import os
import pickletools
import zipfile
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from msprobe.base.errors import DumpError

from .npy import AGAIN, Array, open_tensor, write_file

_MARK = "torch"
"""The key of a dtype's metadata that says which dtype of torch an array's elements have."""


def marked(array: Array, dtype: str) -> Array:
    """Return the same elements, which `write_pt` writes as a tensor of the dtype `torch.bfloat16`, where numpy lacks
    that.

    `dtype` is spelled as torch does; an array of a dtype that numpy has stays as it is. A copy of a marked array is
    marked too.
    """
    name = dtype.removeprefix("torch.")
    if name == dtype or name == array.dtype.name:
        return array
    return array.view(np.dtype(array.dtype.str, metadata={_MARK: name}))


def stored_size(array: Array) -> int:
    """Return the maximum bytes of an array's file: its elements, the tables of an archive, and a pickle of the
    shape."""
    is_half = (array.dtype.metadata or {}).get(_MARK) == "bfloat16"
    return _TABLES + 16 * array.ndim + array.nbytes // (2 if is_half else 1)


_TABLES = 2048  # bytes


def write_pt(path: str, array: Array) -> None:
    """Write an array as `torch.save` does: one plain dense tensor on the CPU, with a storage of exactly its size.

    Its dtype is the array's, or the one by which it is marked, whose values the array holds exactly. OSError if writing
    fails, and no part of the file stays; DumpError for an array of objects or records.
    """
    write_file(path, array, _fill)


def _fill(number: int, array: Array) -> None:
    import torch

    name = (array.dtype.metadata or {}).get(_MARK)
    if name == "bfloat16":  # its bits: a cast makes all NaN one
        upper = np.asarray(array.view(np.uint32) >> 16, np.uint16)
        tensor = torch.from_numpy(upper).view(torch.bfloat16)
    elif name == "complex32":  # by its halves: torch warns where it casts to this dtype
        halves = array.reshape(-1).view(np.float32).astype(np.float16)
        tensor = torch.from_numpy(halves).view(torch.complex32).reshape(array.shape)
    else:
        # torch warns of memory that cannot be written to, which a copy can.
        tensor = torch.from_numpy(array if array.flags.writeable else array.copy())
        if name:
            tensor = tensor.to(getattr(torch, name))
    sink = _Sink(number)
    torch.save(tensor, sink)  # type: ignore[arg-type]  # of a file it uses `write` and `flush` alone
    if sink.failure is not None:
        raise sink.failure


class _Sink:
    """A file for torch to write to, which keeps an error of the disk that torch would replace by another one."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.failure: OSError | None = None

    def write(self, data: bytes) -> int:
        """Write all of `data`."""
        rest = memoryview(data)
        try:
            while self.failure is None and rest:
                rest = rest[os.write(self._number, rest) :]
        except OSError as failure:
            self.failure = failure
        return len(data)

    def flush(self) -> None:
        """Do nothing: no tensor is held back."""


_ADVICE = "weights_only"
"""In a message of torch: its advice to trust the file."""

# Before 2.6 a crafted file ran code in spite of `weights_only` (CVE-2025-32434).
_SAFE = (2, 6)

# The most bytes of a tensor, which may be a view that repeats the few elements in its file.
_REPEATED = 1 << 30


def load_pt(path: Path) -> Array:
    """Return the tensor in a file of `torch.save`; bfloat16, and floats of 8 bits, are widened to float32, which is
    exact.

    DumpError if it is missing, damaged, holds anything else than one plain tensor, claims more than it holds, or where
    torch is not installed or too old to open a foreign file.
    """
    with open_tensor(path) as file:
        size = _examine(path, file)
        torch = _torch(path)
        try:
            found = torch.load(file, map_location="cpu", weights_only=True)
        except Exception as err:  # the file is foreign, and torch parses it: whatever that raises says "not a tensor"
            raise DumpError(
                f"{path}: torch cannot open it ({_reason(err)}); {AGAIN}, or store the tensor with numpy.save"
            ) from err
    return _array(path, torch, found, size)


@dataclass(frozen=True, slots=True)
class PtTensor:
    """A tensor of a tree, still in its file. `dtype` as torch says it (`torch.bfloat16`)."""

    dtype: str
    shape: tuple[int, ...]
    _path: Path
    _size: int
    _tensor: Any

    def array(self) -> Array:
        """Return the elements, as `load_pt` gives them; DumpError if numpy has no such tensor."""
        return _array(self._path, _torch(self._path), self._tensor, self._size, _SAVE_AGAIN)


Tree = Mapping[str, Any]
"""Texts to trees, PtTensors, numbers and texts; None for anything else."""

_SAVE_AGAIN = "copy it again, or save the state_dict() again with torch.save"


class Listed(dict[str, Any]):
    """A list or tuple of the file as a tree: its elements by position."""


_MAX_NESTING = 30

_PICKLE = 64 << 20  # bytes of a pickle that is looked through for what it claims
_WIDTHS = {
    **dict.fromkeys(("ByteStorage", "CharStorage", "BoolStorage", "UntypedStorage"), 1),
    **dict.fromkeys(("HalfStorage", "BFloat16Storage", "ShortStorage"), 2),
    **dict.fromkeys(("FloatStorage", "IntStorage"), 4),
    **dict.fromkeys(("DoubleStorage", "LongStorage", "ComplexFloatStorage"), 8),
    "ComplexDoubleStorage": 16,
}
"""Bytes of an element, by the class of the storage."""


class Placeholder:
    """An object of a class that the pickle names: it keeps what was stored for it, and can do nothing."""

    def __new__(cls, *_: object, **__: object) -> "Placeholder":
        return object.__new__(cls)

    def __init__(self, *_: object, **__: object) -> None: ...

    def __setstate__(self, state: object) -> None:
        for part in state if isinstance(state, tuple) else (state,):
            if isinstance(part, dict):
                vars(self).update({key: value for key, value in part.items() if isinstance(key, str)})


def _dictionary(*_: object) -> dict[object, object]:
    """Return the dictionary that replaces a `defaultdict`: torch fills dictionaries only."""
    return {}


_PLACEHOLDERS = {"collections.defaultdict": _dictionary}


def load_tree(path: Path) -> Tree:
    """Return the dictionaries in a file of `torch.save`, whose tensors are mapped, and read when they are requested.

    Objects of foreign classes (`argparse.Namespace`) become dictionaries of their attributes. DumpError if the file is
    missing, damaged, no archive, holds no dictionary, or where torch is not installed or too old.
    """
    with open_tensor(path, missing=f"is missing; {_SAVE_AGAIN}", again=_SAVE_AGAIN) as file:
        size = _examine(path, file, _SAVE_AGAIN)
    torch = _torch(path, "a file", "save the parameters as safetensors")
    try:
        # Names, not classes: none of them is ever imported.
        names = torch.serialization.get_unsafe_globals_in_checkpoint(str(path))
        with torch.serialization.safe_globals([(_PLACEHOLDERS.get(name, Placeholder), name) for name in names]):
            found = torch.load(str(path), map_location="cpu", weights_only=True, mmap=True)
    except Exception as err:  # the file is foreign, and torch parses it: whatever that raises says "no checkpoint"
        raise DumpError(
            f"{path}: torch cannot open it ({_reason(err)}); save the state_dict() alone with torch.save"
        ) from err
    made = _plain(torch, found, path, size, 0)
    if not isinstance(made, dict) or isinstance(made, Listed):
        raise DumpError(
            f"{path}: contains a {type(found).__name__}, not a dictionary; save the state_dict() with torch.save"
        )
    return made


def _plain(torch: Any, value: Any, path: Path, size: int, depth: int) -> Any:
    if isinstance(value, torch.Tensor):
        return PtTensor(str(value.dtype), tuple(value.shape), path, size, value.detach())
    if isinstance(value, Placeholder):
        value = vars(value)
    if isinstance(value, (dict, list, tuple)) and depth < _MAX_NESTING:
        kind, items = (dict, value.items()) if isinstance(value, dict) else (Listed, enumerate(value))
        return kind((str(key), _plain(torch, inner, path, size, depth + 1)) for key, inner in items)
    return value if isinstance(value, (bool, int, float, str)) else None


def examine_pt(path: Path) -> None:
    """Check, without torch, that a file is a whole archive of `torch.save`; DumpError otherwise."""
    with open_tensor(path) as file:
        _examine(path, file)


def _examine(path: Path, file: BinaryIO, again: str = AGAIN) -> int:
    """Return the file's size in bytes, after a look at the archive's table of contents."""
    size = os.fstat(file.fileno()).st_size
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            wrong = _wrong_records(archive, members)
    except Exception as err:  # foreign bytes, which zipfile parses: whatever that raises says "no archive"
        raise DumpError(
            f"{path}: not a readable file of torch.save ({err}); it is unfinished or damaged, or a plain pickle, "
            f"which is not opened; {again}"
        ) from err
    if any(member.compress_type != zipfile.ZIP_STORED for member in members) or size < sum(
        m.file_size for m in members
    ):
        raise DumpError(f"{path}: its archive refers to more than the {size} bytes of the file; {again}")
    if wrong:
        raise DumpError(f"{path}: {wrong}; {again}")
    file.seek(0)
    return size


def _wrong_records(archive: zipfile.ZipFile, members: Sequence[zipfile.ZipInfo]) -> str:
    """Return the error in the records of an archive according to its two tables; empty if there is none.

    Readers differ in which of two entries of one name they take, and in whether they notice that records share bytes.
    """
    names = [member.filename for member in members]
    if len(set(names)) < len(names):
        twice = next(name for at, name in enumerate(names) if name in names[:at])
        return f"its archive contains {twice[:80]!r} twice"
    end, before = 0, ""
    for member in sorted(members, key=lambda member: member.header_offset):
        if member.header_offset < end:
            return f"the record {member.filename[:80]!r} of its archive overlaps {before[:80]!r}"
        if member.file_size != member.compress_size:
            return f"the record {member.filename[:80]!r} of its archive has two sizes"
        with archive.open(member) as record:  # zipfile compares the record's own head with the table
            record.read(0)
        end, before = member.header_offset + 30 + len(member.filename.encode()) + member.file_size, member.filename
    if end > archive.start_dir:
        return f"the record {before[:80]!r} of its archive is shorter than its size"
    return _short_storage(archive, {member.filename: member for member in members})


def _short_storage(archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo]) -> str:
    """Return the first storage that the pickle claims to be longer than its record: a mapped one would go on in the
    next."""
    for name, member in members.items():
        top, _, last = name.rpartition("/")
        if last != "data.pkl" or member.file_size > _PICKLE:
            continue
        for key, size in _storages(archive.read(member)):
            record = members.get("/".join((top, "data", key)))
            if record is not None and record.file_size < size:
                return f"the record {record.filename[:80]!r} of its archive has {record.file_size} of {size} bytes"
    return ""


def _storages(text: bytes) -> Iterator[tuple[str, int]]:
    """Yield key and bytes of the storages in a pickle, which is read as text; nothing in it is called.

    What torch writes for one is `("storage", torch.FloatStorage, key, location, elements)` and `BINPERSID`.
    """
    pushed: deque[Any] = deque(maxlen=5)
    known: dict[Any, Any] = {}
    try:
        for code, argument, _ in pickletools.genops(text):
            if code.name in ("BINGET", "LONG_BINGET", "GET"):
                pushed.append(known.get(int(str(argument))))
            elif code.name in ("BINPUT", "LONG_BINPUT", "PUT"):
                known[int(str(argument))] = pushed[-1] if pushed else None
            elif code.name == "MEMOIZE":
                known[len(known)] = pushed[-1] if pushed else None
            elif code.name == "BINPERSID" and len(pushed) == 5:
                _, kind, key, _, elements = pushed
                width = _WIDTHS.get(str(kind).rpartition(" ")[2], 0)
                if width and type(key) is str and type(elements) is int:
                    yield key, elements * width
            elif code.name not in ("MARK", "TUPLE", "PROTO", "FRAME"):
                pushed.append(argument)
    except Exception:  # foreign bytes: the reader says what is wrong with them
        return


def _torch(path: Path, what: str = "a tensor", instead: str = "store the tensors with numpy.save") -> Any:
    try:
        import torch  # here and nowhere else: everything but these files is read without it
    except (ImportError, OSError) as err:  # OSError: one of its libraries is missing
        raise DumpError(
            f"{path}: is {what} of torch, which is not installed here ({_first_line(err)}); run "
            f"`pip install 'msprobe-ms[torch]'`, or {instead}"
        ) from err
    version = [int(number) for number in str(torch.__version__).split("+")[0].split(".")[:2]]
    if tuple(version) < _SAFE:
        raise DumpError(
            f"{path}: is not opened, since torch {torch.__version__} cannot open untrusted files safely; install "
            f"torch {'.'.join(map(str, _SAFE))} or newer"
        )
    return torch


def _array(path: Path, torch: Any, found: Any, size: int, again: str = AGAIN) -> Array:
    if not isinstance(found, torch.Tensor):
        raise DumpError(
            f"{path}: contains a {type(found).__name__}, not one tensor; store each tensor in a separate file"
        )
    tensor = found.detach()
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.device.type != "cpu":
        raise DumpError(
            f"{path}: contains a tensor without dense elements ({tensor.layout}, {tensor.dtype}, "
            f"{tensor.device.type}); store a dense tensor"
        )
    claimed = tensor.numel() * tensor.element_size()
    if claimed > max(size, _REPEATED):
        raise DumpError(f"{path}: describes a tensor of {claimed} bytes in a file of {size} bytes; {again}")
    if tensor.is_floating_point() and tensor.dtype not in (torch.float16, torch.float32, torch.float64):
        tensor = tensor.float()
    if tensor.dtype == torch.complex32:
        tensor = tensor.to(torch.complex64)
    try:
        array: Array = tensor.resolve_conj().resolve_neg().numpy()
    except (TypeError, RuntimeError) as err:
        raise DumpError(f"{path}: numpy has no {tensor.dtype} ({_first_line(err)}); store it as another dtype") from err
    return array


def _reason(err: BaseException) -> str:
    """Return torch's error about a pickle, without its advice to trust the file and open it anyway."""
    if _ADVICE in str(err) and err.__context__ is not None:
        err = err.__context__
    line = _first_line(err).partition(" Please use")[0].rstrip(".")
    return "its pickle does not contain only tensors" if _ADVICE in line else line


def _first_line(err: BaseException) -> str:
    lines = str(err).strip().splitlines()
    return lines[0] if lines else type(err).__name__
