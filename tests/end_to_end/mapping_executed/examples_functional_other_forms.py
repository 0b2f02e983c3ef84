"""Functions of mindspore.ops whose arguments have another form in PyTorch: what it wants there is told here."""

from dataclasses import replace

import numpy as np
from executed import Parameter, ex, floats, ints

X = floats(2, 3, 4)
TABLE = floats(5, 3)
ROWS = np.array([4, 0, 2])
PAIRS = np.array([[0, 2, 1], [1, 0, 3]])
BY_AXIS = tuple(PAIRS.T.copy())
BORDERS = [-1.5, 0.2, 0.9]


def call(name, *args, **kwargs):
    return ex(f"Functional.{name}", *args, **kwargs)


def insert(example, **inserted):
    """The example, with arguments of PyTorch that no table can tell."""
    return replace(example, inserted=inserted, keywords=False)


def nth(overloads, example):
    return [replace(example, overload=n) for n in overloads]


def as_numbers(name, sizes, **kwargs):
    """A function that takes `sizes` as a tensor, where PyTorch takes numbers."""
    return insert(call(name, **{n: np.array(v, "int32") for n, v in sizes.items()}, **kwargs), **sizes)


EXAMPLES = [
    insert(call("gather_nd", X, PAIRS), index=BY_AXIS),
    insert(call("slice", X, (0, 1, 2), (2, 2, 1)), index=(slice(0, 2), slice(1, 3), slice(2, 3))),
    insert(call("strided_slice", X, (0, 1, 0), (2, 3, 4), (1, 1, 2)), index=(slice(0, 2), slice(1, 3), slice(0, 4, 2))),
    insert(call("tensor_scatter_add", X, PAIRS, floats(2, seed=1)), indices=BY_AXIS),
    insert(call("scatter_nd_add", Parameter(X), PAIRS.astype("int32"), floats(2, seed=1)), indices=BY_AXIS),
    insert(call("mirror_pad", X, paddings=np.array([[0, 0], [1, 2], [3, 0]]), mode="REFLECT"), pad=(3, 0, 1, 2)),
    insert(call("lrn", floats(2, 7, 3, 5), 2, 1.5, 0.3, 0.6), size=5, alpha=1.5),
    insert(call("lrn", floats(2, 7, 3, 5), 2, 1.5, 0.3), size=5, alpha=1.5),
    insert(call("bucketize", X, boundaries=BORDERS, right=True), boundaries=np.array(BORDERS, "float32")),
    insert(
        call("bucketize", np.array(BORDERS, "float32"), boundaries=BORDERS), boundaries=np.array(BORDERS, "float32")
    ),
    insert(call("matrix_diag_part", X, k=np.array(0, "int32"), padding_value=np.array(0, "float32")), offset=0),
    insert(call("inplace_add", TABLE, floats(3, 3, seed=1), indices=(4, 0, 2)), index=ROWS),
    insert(call("inplace_sub", TABLE, floats(3, 3, seed=1), indices=(4, 0, 2)), index=ROWS),
    insert(call("expand", floats(3, 1), np.array([2, 3, 4])), size=(2, 3, 4)),
    as_numbers("fold", {"output_size": (4, 5)}, input=floats(2, 18, 1), kernel_size=3, dilation=2, padding=1, stride=3),
    insert(
        call(
            "col2im",
            input_x=floats(2, 3, 4, 12),
            output_size=np.array([4, 5], "int32"),
            kernel_size=(2, 2),
            dilation=(1, 1),
            padding_value=(0, 0),
            stride=(1, 1),
        ),
        input=floats(2, 3, 4, 12).reshape(2, 12, 12),
        output_size=(4, 5),
    ),
    *(as_numbers("bartlett_window", {"window_length": 7}, periodic=periodic) for periodic in (True, False)),
    *(as_numbers("blackman_window", {"window_length": 7}, periodic=periodic) for periodic in (True, False)),
    insert(call("index_fill", X, 1, index=np.array([2, 0], "int32"), value=-1.5), index=np.array([2, 0])),
    *nth((9,), insert(call("cast", X, np.dtype("int32")), other=ints(2, dtype="int32"))),
    call("is_nonzero", np.array([2.5], dtype="float32")),
    *nth((4, 5), insert(call("transpose", X, (0, 2, 1)), dim0=1, dim1=2)),
    *nth((3, 4), insert(call("reshape", X, (2, 12)), start_dim=1)),
    *nth((2, 3), insert(call("split", X, 2, 2), chunks=2)),
]
