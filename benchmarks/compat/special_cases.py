"""Pairs of dumps with one call for each special case of a comparison: written with numpy, no framework involved.

Every case is the one output of a call `Functional.{case}.0.forward`, so a row's name says what it is about.
"""

import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

MODES = ("statistics", "tensor", "md5")
nan, inf = np.nan, np.inf


@dataclass(frozen=True)
class Stored:
    """A tensor of a dtype that numpy has not, as it is stored; or one whose file is `lost` or `broken`."""

    array: np.ndarray
    dtype: str = ""
    file: str = "whole"


@dataclass(frozen=True)
class Plain:
    """A record that is no tensor, as it stands in the dump."""

    record: Any


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def of(value: object) -> Plain:
    """A number or a text."""
    return Plain({"type": type(value).__name__, "value": value})


def cases() -> dict[str, tuple[Any, Any]]:
    """What each side has, by case."""
    draw = np.random.default_rng(5)
    some = draw.standard_normal((3, 5)).astype(np.float32)
    long = draw.standard_normal((700, 1500))
    off = long + 1e-3 * draw.standard_normal(long.shape)
    z = (some + 1j * some[::-1]).astype(np.complex64)
    big = np.array([2**62 + 1, -(2**62) - 1, 7], np.int64)
    return {
        # plain
        "equal": (some, some),
        "close": (some * np.float32(1.0005), some),
        "far": (some + 5, some),
        "opposite": (-some, some),
        "orthogonal": (f32(1, 0, 2), f32(0, 3, 0)),
        "just_a_thousandth": (f32(1001, 2002, 5, 1), f32(1000, 2000, 5, 2)),
        "small_numbers": (f32(1e-30, 2e-30), f32(2e-30, 2e-30)),
        "large_numbers": (f32(1e30, 2e30), f32(2e30, 2e30)),
        "beyond_float32": (f32(3e38, -3e38), f32(-3e38, 3e38)),
        "beyond_squares": (np.array([1e200, -1e200]), np.array([-1e200, 1e200])),
        "subnormal": (f32(1e-45, 3e-45), f32(3e-45, 3e-45)),
        "fortran_order": (np.asfortranarray(some + 1), some),
        "long_float32": (off.astype(np.float32), long.astype(np.float32)),
        "long_float64": (off, long),
        "long_float16": (off.astype(np.float16), long.astype(np.float16)),
        # zeros
        "both_zero": (f32(0, 0, 0), f32(0, 0, 0)),
        "target_zero": (f32(0, 0, 0), f32(1, 2, 3)),
        "golden_zero": (f32(1, 2, 3), f32(0, 0, 0)),
        "golden_zero_tiny": (f32(1e-20, 2e-20), f32(0, 0)),
        "zeros_at_places": (f32(0, 1, 0, 2), f32(0, 0, 1, 2)),
        "negative_zero": (f32(-0.0, 1), f32(0.0, 1)),
        "maximum_zero": (f32(-1, 0), f32(-2, 0)),
        # NaN and infinity
        "nan_same_places": (f32(1, nan, 3), f32(1, nan, 4)),
        "nan_target": (f32(1, nan, 3), f32(1, 2, 3)),
        "nan_golden": (f32(1, 2, 3), f32(1, nan, 3)),
        "nan_everywhere": (f32(nan, nan), f32(nan, nan)),
        "inf_same_places": (f32(1, inf, 3), f32(1, inf, 4)),
        "inf_target": (f32(1, inf), f32(1, 2)),
        "inf_golden": (f32(1, 2), f32(1, inf)),
        "inf_other_sign": (f32(1, inf), f32(1, -inf)),
        "inf_negative_same": (f32(1, -inf), f32(2, -inf)),
        "nan_where_inf": (f32(1, nan), f32(1, inf)),
        "nan_elsewhere": (f32(nan, 1, 2), f32(1, nan, 2)),
        "inf_everywhere": (f32(inf, inf), f32(inf, inf)),
        # few elements
        "zero_d_equal": (np.float32(2.5), np.float32(2.5)),
        "zero_d": (np.float32(-2), np.float32(-6)),
        "zero_d_golden_zero": (np.float32(2), np.float32(0)),
        "zero_d_both_zero": (np.float32(0), np.float32(0)),
        "zero_d_nan": (np.float32(nan), np.float32(nan)),
        "zero_d_nan_target": (np.float32(nan), np.float32(1)),
        "zero_d_int": (np.int32(7), np.int32(8)),
        "one_equal": (f32(2.5), f32(2.5)),
        "one": (f32(-2), f32(-6)),
        "one_golden_zero": (f32(2), f32(0)),
        "one_both_zero": (f32(0), f32(0)),
        "one_nan": (f32(nan), f32(nan)),
        "one_by_one": (f32(3).reshape(1, 1), f32(4).reshape(1, 1)),
        "empty": (f32(), f32()),
        "empty_rows": (some[:0], some[:0]),
        # integers, bool, complex, halves
        "int8": (np.array([-128, 127, 3], np.int8), np.array([127, -128, 3], np.int8)),
        "int32": (np.array([0, 1, 2, 3], np.int32), np.array([1, 2, 3, 4], np.int32)),
        "int64": (big, big - 1),
        "int64_equal": (big, big),
        "uint8": (np.array([0, 200, 7], np.uint8), np.array([255, 100, 7], np.uint8)),
        "uint64": (np.array([2**64 - 1, 0], np.uint64), np.array([1, 2], np.uint64)),
        "bool_equal": (np.array([True, False]), np.array([True, False])),
        "bool": (np.array([True, False, True]), np.array([True, True, False])),
        "bool_all_false": (np.array([False, False]), np.array([True, True])),
        "bool_both_false": (np.array([False, False]), np.array([False, False])),
        "complex_equal": (z, z),
        "complex_real": (z + 1, z),
        "complex_imaginary": (z.conj(), z),
        "complex128": (z.astype(np.complex128) * 1.001, z.astype(np.complex128)),
        "float16": ((some * 1.01).astype(np.float16), some.astype(np.float16)),
        "float16_large": (np.array([60000, -60000], np.float16), np.array([-60000, 60000], np.float16)),
        "float16_zero": (np.array([0, 0.25], np.float16), np.array([0, 0], np.float16)),
        "bfloat16": (Stored(f32(1.0078125, 2), "BFloat16"), Stored(f32(1, 2), "BFloat16")),
        "float64": (some.astype(np.float64) * (1 + 1e-12), some.astype(np.float64)),
        # not the same on both sides
        "shape": (some, some.T),
        "shape_flat": (some, some.reshape(-1)),
        "dtype_half": (some.astype(np.float16), some),
        "dtype_bfloat16": (Stored(f32(1.0078125, 2), "BFloat16"), f32(1, 2)),
        "dtype_double": (some, some.astype(np.float64)),
        "dtype_int": (np.array([1, 2], np.int32), np.array([1, 2], np.int64)),
        "dtype_int_float": (np.array([1, 2], np.int32), f32(1, 3)),
        "file_lost": (Stored(some, file="lost"), Stored(some)),
        "file_lost_golden": (some, Stored(some, file="lost")),
        "file_lost_both": (Stored(some, file="lost"), Stored(some, file="lost")),
        # no tensors
        "number_equal": (of(2), of(2)),
        "number": (of(-2), of(-6)),
        "number_float": (of(0.5), of(0.75)),
        "number_zero": (of(3), of(0)),
        "number_int_float": (of(2), of(2.0)),
        "number_nan": (of(nan), of(nan)),
        "number_inf": (of(inf), of(inf)),
        "number_inf_target": (of(inf), of(1.0)),
        "truth_equal": (of(True), of(True)),
        "truth": (of(True), of(False)),
        "text_equal": (of("same"), of("same")),
        "text": (of("same"), of("valid")),
        "none": (Plain(None), Plain(None)),
        "none_target": (Plain(None), of(3)),
        "none_golden": (of(3), Plain(None)),
        "none_for_tensor": (Plain(None), some),
        "tensor_for_none": (some, Plain(None)),
        "slice_equal": (_slice(0, 2, None), _slice(0, 2, None)),
        "slice": (_slice(0, 2, None), _slice(0, 3, None)),
        "dots": (Plain({"type": "ellipsis", "value": "..."}), Plain({"type": "ellipsis", "value": "..."})),
        "dtype_name": (_dtype("Float32"), _dtype("Float16")),
    }


def broken_cases() -> dict[str, tuple[Any, Any]]:
    """Files that are cut off; apart, because they end the other tool's whole comparison."""
    some = f32(1, 2, 3)
    cut = Stored(some, file="broken")
    return {"whole": (some, some), "broken": (cut, some), "broken_golden": (some, cut)}


def write_pair(folder: Path, mode: str, value: dict[str, tuple[Any, Any]]) -> tuple[Path, Path]:
    """Both sides in one mode; gives the two step folders."""
    sides = (folder / "target" / "step0", folder / "golden" / "step0")
    for at, step in enumerate(sides):
        _write(step / "rank0", mode, {case: pair[at] for case, pair in value.items()})
    return sides


def _slice(*parts: int | None) -> Plain:
    return Plain({"type": "slice", "value": list(parts)})


def _dtype(name: str) -> Plain:
    return Plain({"type": "mindspore.dtype", "value": name})


def _write(rank: Path, mode: str, values: dict[str, Any]) -> None:
    tensors = rank / "dump_tensor_data"
    tensors.mkdir(parents=True)
    data = {}
    for case, value in values.items():
        name = f"Functional.{case}.0.forward"
        if isinstance(value, Plain):
            record = value.record
        else:
            stored = value if isinstance(value, Stored) else Stored(np.asarray(value))
            record = _tensor(stored, mode, tensors / f"{name}.output.0.npy")
        data[name] = {"input_args": [], "input_kwargs": {}, "output": [record]}
    task = "tensor" if mode == "tensor" else "statistics"
    head = {"task": task, "level": "L1", "framework": "mindspore", "dump_data_dir": str(tensors), "data": data}
    (rank / "dump.json").write_text(json.dumps(head, indent=1))
    (rank / "construct.json").write_text("{}")
    stack = [list(data), ["File /home/user/net.py, line 3, in construct, \n y = f(x)"]]
    (rank / "stack.json").write_text(json.dumps({"0": stack}))


def _tensor(stored: Stored, mode: str, file: Path) -> dict[str, Any]:
    array = stored.array
    dtype = stored.dtype or {"bool": "Bool"}.get(
        array.dtype.name, array.dtype.name.capitalize().replace("Uint", "UInt")
    )
    record = {"type": "mindspore.Tensor", "dtype": dtype, "shape": list(array.shape), **_statistics(array)}
    if mode == "md5":
        record["md5"] = f"{zlib.crc32(np.ascontiguousarray(array).tobytes()):08x}"
    if mode == "tensor":
        record["data_name"] = file.name
        if stored.file != "lost":
            np.save(file, array)
        if stored.file == "broken":
            file.write_bytes(file.read_bytes()[:-7])
    return record


def _statistics(array: np.ndarray) -> dict[str, Any]:
    if array.size == 0:
        return dict.fromkeys(("Max", "Min", "Mean", "Norm"))
    if array.dtype == np.bool_:
        return {"Max": bool(array.any()), "Min": bool(array.all()), "Mean": None, "Norm": None}
    wide = (np.abs(array) if np.iscomplexobj(array) else array).astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        numbers = (wide.max(), wide.min(), wide.mean(), np.sqrt(np.square(wide).sum()))
    return dict(zip(("Max", "Min", "Mean", "Norm"), map(float, numbers), strict=True))
