"""Runs an example on both frameworks: on MindSpore as it is, on PyTorch as the table translates it.

Examples stand in `examples_<table>.py` beside this file, as a list `EXAMPLES`; tensors are numpy arrays, dtypes numpy
dtypes, both turned into the framework's own where they are passed.
"""

import contextlib
import importlib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import mindspore
import numpy as np
import torch
from mindspore import Tensor, mint, ops
from mindspore.common.api import _pynative_executor
from mindspore.communication import comm_func
from mindspore.mint import distributed

from msprobe.mapping.api import Correspondence, Place

MS_NAMESPACES = {
    "Functional": (ops,),
    "Mint": (mint, mint.linalg, mint.special),
    "MintFunctional": (mint.nn.functional,),
    "MintDistributed": (distributed,),
    "Distributed": (comm_func, ops.communication),
    "Primitive": (ops, ops.operations, importlib.import_module("mindspore.ops.auto_generate")),
}
PT_NAMESPACES = {
    "Torch": (torch, torch.linalg, torch.special, torch.fft),
    "Functional": (torch.nn.functional,),
    "Tensor": (torch.Tensor,),
    "Distributed": (torch.distributed,),
    "VF": (torch._VF,),
    "Aten": (torch.ops.aten,),
}

TOLERANCE = {"float16": (2e-3, 1e-3), "float32": (2e-5, 2e-6), "float64": (1e-9, 1e-10)}
"""Relative and absolute, by the less exact of both dtypes; complex numbers as their parts."""


@dataclass(frozen=True)
class Parameter:
    """A tensor that MindSpore takes as a Parameter only, because the function writes into it."""

    array: np.ndarray


@dataclass(frozen=True)
class Example:
    """One call of MindSpore. `stem` is the table's key.

    `attributes` construct a primitive. `of` and `pt_of` are the namespaces where one name stands in several
    (`mindspore.mint.linalg`, `torch.linalg`).
    `overload` takes one of several correspondences of the name (its number in `counterparts`), else all that fit.
    `compare` is `values`, within `tolerance` where it has one of its own, or `shape` for random results.
    `keywords` says that the call is repeated with everything behind the first argument passed by keyword.
    `kinds` says that results are of the same kind (integer, float...) on both sides.
    `kernel` false: MindSpore has no kernel for this call here, though it has for others; the call is translated only.
    `inserted` are arguments of PyTorch that follow from others in a way that no table tells, as a slice from its size.
    """

    stem: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)
    of: str = ""
    pt_of: str = ""
    overload: int | None = None
    compare: str = "values"
    tolerance: tuple[float, float] | None = None
    keywords: bool = True
    kinds: bool = True
    kernel: bool = True
    inserted: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        shown = [_shown(a) for a in self.args]
        shown += [f"{k}={_shown(v)}" for k, v in {**self.kwargs, **self.attributes}.items()]
        return f"{self.stem}({', '.join(shown)})"


def ex(stem: str, *args: Any, **kwargs: Any) -> Example:
    """`ex("Mint.softmax", x, 1, dtype=np.dtype("float64"))`; settings of the example by `dataclasses.replace`."""
    return Example(stem, args, kwargs)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def floats(*shape: int, low: float = -2, high: float = 2, seed: int = 0, dtype: str = "float32") -> np.ndarray:
    """Without a value near a whole number or zero: rounding and kinks of a function do not decide."""
    made = rng(seed).uniform(low, high, shape)
    near = np.abs(made - np.round(made)) < 0.02
    return np.where(near, made + 0.05 * (high - low) / 4, made).astype(dtype)


def ints(*shape: int, low: int = -5, high: int = 6, seed: int = 0, dtype: str = "int64") -> np.ndarray:
    return rng(seed).integers(low, high, shape).astype(dtype)


def bools(*shape: int, seed: int = 0) -> np.ndarray:
    return rng(seed).integers(0, 2, shape).astype(bool)


def distinct(*shape: int, seed: int = 0, dtype: str = "float32") -> np.ndarray:
    """No two equal: orders and indices are unique."""
    count = int(np.prod(shape))
    return ((rng(seed).permutation(count) - count / 2) / 4 + 0.1).reshape(shape).astype(dtype)


def forms(example: Example, pair: Correspondence) -> Iterator[Example]:
    """The call as written and, with what stands behind the first argument passed by keyword."""
    yield example
    names = pair.ms_signature.names
    if example.keywords and 1 < len(example.args) <= len(names) and not pair.ms_signature.rest:
        named = dict(zip(names[1 : len(example.args)], example.args[1:], strict=True))
        yield replace(example, args=example.args[:1], kwargs={**named, **example.kwargs})


def pairs_of(example: Example, table: Any) -> list[Correspondence]:
    """The correspondences that this example is to execute."""
    found = table.counterparts(example.stem)
    if example.overload is not None:
        return [found[example.overload]]
    tops = [str(i) for i in range(len(example.args))] + [*example.kwargs, *example.attributes]
    return [pair for pair in found if pair.fits(tops)]


def ms_function(example: Example) -> Any:
    """The function of MindSpore that the stem names; of a primitive, an instance."""
    prefix, _, name = example.stem.partition(".")
    if prefix == "Tensor":
        return lambda self, *args, **kwargs: getattr(self, name)(*args, **kwargs)
    if example.of:
        return getattr(importlib.import_module(example.of), name)
    owner = next(owner for owner in MS_NAMESPACES[prefix] if hasattr(owner, name))
    function = getattr(owner, name)
    return function(**_turned(example.attributes, _to_ms)) if prefix == "Primitive" else function


def pt_function(stem: str, of: str = "") -> Any:
    """The function of PyTorch that the stem names; None where this installation has it not (torch_npu)."""
    prefix, _, name = stem.partition(".")
    owners = (importlib.import_module(of),) if of else PT_NAMESPACES.get(prefix, ())
    return next((f for owner in owners if callable(f := getattr(owner, name, None))), None)


def run_ms(example: Example) -> Any:
    """What MindSpore gives, tensors as arrays: only when it is read does an error of its kernel show.

    Kernels are made anew for each call: those of Scatter and SearchSorted for CPU go wrong when a second call has
    another shape (MindSpore 2.10).
    """
    _pynative_executor.clear_res()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is deprecated is mapped as long as it is there
        returned = ms_function(example)(*_turned(example.args, _to_ms), **_turned(example.kwargs, _to_ms))
        return _turned(returned, _to_array)


def run_pt(example: Example, pair: Correspondence) -> Any:
    args, kwargs = pair.translate(example.args, {**example.kwargs, **example.attributes})
    if "__" in pair.pt:  # an operator takes nothing by keyword
        args = (*args, *example.inserted.values())
    else:
        kwargs = {**kwargs, **example.inserted}
    with warnings.catch_warnings(), alone() if pair.pt.startswith("Distributed.") else contextlib.nullcontext():
        warnings.simplefilter("ignore")
        returned = pt_function(pair.pt, example.pt_of)(*_turned(args, _to_pt), **_turned(kwargs, _to_pt))
        return _turned(returned, _to_array)


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """PyTorch's exchange between ranks, with this process as the only one; afterwards it has no rank any more."""
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


def check(example: Example, pair: Correspondence) -> None:
    """Both sides give the same, and every argument that was passed stands at one place."""
    for form in forms(example, pair):
        check_places(form, pair)
        check_results(form, pair, run_ms(form), run_pt(form, pair))


def check_translated(example: Example, pair: Correspondence) -> None:
    """What can be known of a function that MindSpore cannot run here: PyTorch takes the translated call."""
    for form in forms(example, pair):
        check_places(form, pair)
        with contextlib.suppress(NotImplementedError):  # the arguments were taken, and there was no kernel here either
            run_pt(form, pair)


def runs(example: Example) -> bool:
    """Whether MindSpore has a kernel for this call here. Exchanges between ranks are not tried: it dies of some."""
    if example.stem.split(".")[0] in ("MintDistributed", "Distributed"):
        return False
    try:
        run_ms(example)
    except Exception:  # whatever it is: MindSpore has a dozen ways to say that it has no kernel
        with contextlib.suppress(Exception):  # what failed behind the scenes is told again by the next call
            mindspore.runtime.synchronize()
        return False
    return True


def check_places(example: Example, pair: Correspondence) -> None:
    """The places of what was passed on the PyTorch side are those of what was passed on the MindSpore side."""
    args, kwargs = pair.translate(example.args, {**example.kwargs, **example.attributes})
    there = {}
    for path, value in leaves((args, kwargs)):
        place = pair.pt_place("input", path)
        if place is not None:
            there[place] = value
    here = {}
    for path, value in leaves((example.args, example.kwargs)):
        place = pair.ms_place("input", path)
        if place is not None:
            assert place not in here, f"{example} -> {pair.pt}: two arguments at {place}"
            here[place] = pair.ms_transform("input", path)(value) if isinstance(value, np.ndarray) else value
    defaulted = {pair.renamed.get(name, name) for name in pair.ms_defaults}
    tops = {p.path[0] for p in there if p.path[0] not in defaulted}
    assert tops == {p.path[0] for p in here} - defaulted, f"{example} -> {pair.pt}: {there} against {here}"
    for place, value in here.items():
        if isinstance(value, np.ndarray):
            assert place in there, f"{example} -> {pair.pt}: nothing at {place}, but at {sorted(map(str, there))}"
            np.testing.assert_array_equal(value, there[place], err_msg=f"{example} -> {pair.pt}: {place}")


def check_results(example: Example, pair: Correspondence, ms_result: Any, pt_result: Any) -> None:
    where = f"{example} -> {pair.pt}"
    golden: dict[Place, np.ndarray] = {}
    for path, value in leaves(results(pt_result)):
        place = pair.pt_place("output", path)
        if place is not None:
            golden[place] = value
    met = set()
    for path, value in leaves(results(ms_result)):
        place = pair.ms_place("output", path)
        if place is None:
            continue
        assert place in golden, f"{where}: PyTorch has no result {place.path}, but {[p.path for p in golden]}"
        met.add(place)
        _same(example, pair.ms_transform("output", path)(value), golden[place], f"{where}, result {place.path}")
    assert met == set(golden), f"{where}: results of PyTorch alone: {[p.path for p in set(golden) - met]}"
    assert met or set(pair.output.values()) == {None}, f"{where}: nothing was compared"


def _same(example: Example, target: Any, golden: Any, where: str) -> None:
    """Equal within tolerance; results that are no tensors as numbers."""
    target, golden = np.asarray(target), np.asarray(golden)
    assert target.shape == golden.shape, f"{where}: shapes {target.shape} and {golden.shape}"
    if example.kinds:
        assert _kind(target) == _kind(golden), f"{where}: dtypes {target.dtype} and {golden.dtype}"
    if example.compare == "shape":
        return
    rtol, atol = example.tolerance or _tolerance(target, golden)
    wide = "complex128" if "c" in (target.dtype.kind, golden.dtype.kind) else "float64"
    np.testing.assert_allclose(target.astype(wide), golden.astype(wide), rtol, atol, err_msg=where)


def _kind(array: np.ndarray) -> str:
    return "i" if array.dtype.kind == "u" else array.dtype.kind


def _tolerance(*arrays: np.ndarray) -> tuple[float, float]:
    names = [a.real.dtype.name for a in arrays]
    return max((TOLERANCE[n] for n in names if n in TOLERANCE), default=(1e-9, 0.0))


def results(value: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The results as arguments would be: a single one is number 0."""
    several = isinstance(value, list | tuple)
    return tuple(value) if several else (value,), {}


def leaves(call: tuple[tuple[Any, ...], dict[str, Any]]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """(path, value) of everything in a call, as records have it; tensors as arrays."""
    args, kwargs = call
    for name, value in [*((str(i), v) for i, v in enumerate(args)), *kwargs.items()]:
        yield from _leaves((name,), value)


def _leaves(path: tuple[str, ...], value: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _leaves((*path, str(index)), inner)
    else:
        yield path, _to_array(value)


def _to_array(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.asnumpy() if value.dtype != mindspore.bfloat16 else value.float().asnumpy()
    if isinstance(value, torch.Tensor):
        plain = value.detach().resolve_conj().resolve_neg()
        return (plain.float() if plain.dtype == torch.bfloat16 else plain).numpy()
    return value.array if isinstance(value, Parameter) else value


def _turned(value: Any, turn: Any) -> Any:
    if isinstance(value, list | tuple):
        return (list if isinstance(value, list) else tuple)(_turned(v, turn) for v in value)
    if isinstance(value, dict):
        return {k: _turned(v, turn) for k, v in value.items()}
    return turn(value)


def _to_ms(value: Any) -> Any:
    if isinstance(value, Parameter):
        return mindspore.Parameter(Tensor(value.array.copy()))
    if isinstance(value, np.ndarray):
        return Tensor(np.array(value, copy=True))
    return getattr(mindspore, value.name) if isinstance(value, np.dtype) else value


def _to_pt(value: Any) -> Any:
    if isinstance(value, Parameter):
        return torch.from_numpy(value.array.copy())
    if isinstance(value, np.ndarray):
        return torch.from_numpy(np.array(value, copy=True))
    return getattr(torch, value.name) if isinstance(value, np.dtype) else value


def _shown(value: Any) -> str:
    if isinstance(value, Parameter):
        value = value.array
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_shown, value))}]"
    return str(value) if isinstance(value, np.dtype) else repr(value)
