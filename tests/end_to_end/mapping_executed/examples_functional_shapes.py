"""Functions of mindspore.ops that move, pick, join, split or make elements."""

from dataclasses import replace

import numpy as np
from executed import Parameter, ex, floats, ints

X = floats(2, 3, 4)
TABLE = floats(5, 3)
ROWS = np.array([4, 0, 2], dtype="int64")
UPDATES = floats(3, 3, seed=1)
INDEX = ints(2, 2, 4, low=0, high=3)
SEVERAL = [floats(2, 3), floats(2, 3, seed=1)]


def call(name, *args, **kwargs):
    return ex(f"Functional.{name}", *args, **kwargs)


def parameter_rows(name):
    """A function that writes into the rows of a parameter."""
    return replace(call(name, Parameter(TABLE), ROWS, UPDATES), keywords=False)


EXAMPLES = [
    *(call(name, floats()) for name in ("atleast_1d", "atleast_2d", "atleast_3d")),
    *(
        call(name, SEVERAL)
        for name in ("atleast_3d", "column_stack", "dstack", "hstack", "row_stack", "vstack", "stack", "cat", "concat")
    ),
    *(call(name, SEVERAL, 1) for name in ("stack", "cat", "concat")),
    call("broadcast_to", floats(3, 1), (2, 3, 4)),
    call("expand_as", floats(3, 1), X),
    call("chunk", floats(2, 4, 6), 3, 2),
    *(replace(call("split", X, size, 2), overload=n) for size in (2, [1, 3]) for n in (0, 1)),
    *(replace(call("tensor_split", X, cut, 2), keywords=False) for cut in (2, (1, 3))),
    *(
        replace(call(name, floats(4, 4, 4), cut), keywords=False)
        for name in ("dsplit", "hsplit", "vsplit")
        for cut in (2, (1, 3))
    ),
    call("unbind", X),
    call("unbind", X, 1),
    call("unstack", X, 1),
    call("combinations", floats(4), 2, True),
    call("expand_dims", X, 1),
    call("unsqueeze", X, 1),
    call("squeeze", floats(2, 1, 3, 1)),
    call("squeeze", floats(2, 1, 3, 1), 1),
    call("flatten", X),
    call("flatten", X, start_dim=0, end_dim=1),
    call("flip", X, (0, 2)),
    call("reverse", X, [1]),
    call("fliplr", X),
    call("flipud", X),
    *(replace(call("gather", TABLE, ROWS % 3, axis), overload=n) for axis in (0, 1) for n in (0, 1)),
    *(replace(call("gather", TABLE, ints(2, 4, low=0, high=5), 0), overload=n, keywords=n == 2) for n in (2, 3)),
    call("gather_d", X, 1, INDEX),
    call("gather_elements", X, 1, INDEX),
    call("index_add", Parameter(X), np.array([2, 0], dtype="int32"), floats(2, 2, 4, seed=1), 1),
    *(replace(call("index_select", X, 1, np.array([2, 0, 2], dtype="int32")), overload=n) for n in (0, 1)),
    replace(call("index_select", X, 0, np.array([1, 0, 1])), overload=2, keywords=False),
    call("inplace_update", TABLE, UPDATES, ROWS),
    call("inplace_index_add", Parameter(X), np.array([2, 0], dtype="int32"), floats(2, 2, 4, seed=1), 1),
    *map(parameter_rows, ("scatter_add", "scatter_update", "scatter_max", "scatter_min", "scatter_mul")),
    call("scatter", X, 1, INDEX, floats(2, 2, 4, seed=1)),
    call("tensor_scatter_elements", X, np.array([[[0, 2, 1, 1]], [[1, 1, 0, 2]]]), floats(2, 1, 4, seed=1), 1),
    call("tensor_scatter_elements", X, np.array([[[0, 2, 1, 1]], [[1, 1, 0, 2]]]), floats(2, 1, 4, seed=1), 1, "add"),
    call("tensor_scatter_elements", X, ints(1, 3, 4, low=0, high=2), floats(1, 3, 4, seed=1)),
    call("select_scatter", X, floats(2, 4, seed=1), 1, 2),
    call("slice_scatter", X, floats(2, 3, 2, seed=1), 2, 1, 4, 2),
    call("meshgrid", floats(3), floats(4)),
    call("meshgrid", floats(3), floats(4), indexing="ij"),
    call("moveaxis", X, 0, 2),
    call("movedim", X, (0, 1), (2, 0)),
    call("narrow", X, 2, 1, 2),
    call("permute", X, (2, 0, 1)),
    *(replace(call("transpose", X, (2, 0, 1)), overload=n) for n in (0, 1)),
    *(replace(call("transpose", TABLE, (1, 0)), overload=n) for n in (0, 1, 2, 3)),
    call("swapaxes", X, 0, 2),
    call("swapdims", X, 0, 2),
    call("t", TABLE),
    call("ravel", X),
    *(replace(call("reshape", X, (4, 6)), overload=n) for n in (0, 1, 2)),
    call("view_as", X, floats(4, 6)),
    call("view_as_real", (X + 1j).astype("complex64")),
    call("repeat_elements", X, 3, 1),
    call("repeat_elements", X, 3),
    call("repeat_interleave", X, 3),
    call("repeat_interleave", X, 3, 1),
    call("tile", X, (2, 1, 3)),
    call("rot90", X, 3, (0, 2)),
    call("tril", TABLE),
    call("tril", TABLE, -1),
    call("triu", TABLE),
    call("triu", TABLE, 1),
    call("one_hot", ints(2, 3, low=0, high=4), 4),
    call("trace", TABLE),
    # tensors out of nothing
    call("arange", 5),
    call("arange", 1, 9, 2),
    call("arange", 0.5, 3, 0.4),
    call("arange", 1, 9, 2, dtype=np.dtype("float32")),
    call("range", 1, 9, 2),
    call("eye", 3),
    call("eye", 3, 4, np.dtype("float32")),
    call("fill", np.dtype("float32"), (2, 3), 1.5),
    call("full", (2, 3), 1.5, dtype=np.dtype("float64")),
    call("full", (2, 3), 2),
    call("full_like", X, 1.5),
    call("full_like", X, 1.5, dtype=np.dtype("float64")),
    call("linspace", 1.0, 2.0, 5),
    call("logspace", 0.0, 2.0, 5, 3),
    *(call(name, (2, 3), np.dtype("float64")) for name in ("ones", "zeros")),
    *(call(name, X, dtype=np.dtype("float64")) for name in ("ones_like", "zeros_like")),
    *(call(name, 3, 4, 1) for name in ("tril_indices", "triu_indices")),
    *(call(f"{name}_window", 7, *rest) for name in ("hamming", "hann", "kaiser") for rest in [(), (False,)]),
    *(
        replace(call(f"{name}_window", 7, dtype=np.dtype("float64")), tolerance=(1e-6, 1e-7))
        for name in ("hamming", "hann", "kaiser")
    ),
    *(call(name, 3, 4, 1, dtype=np.dtype("int32")) for name in ("tril_indices", "triu_indices")),
    call("hamming_window", 7, True, 0.6, 0.3),
    call("kaiser_window", 7, True, 9.0),
]
