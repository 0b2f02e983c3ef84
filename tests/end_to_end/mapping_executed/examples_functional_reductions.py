"""Functions of mindspore.ops that reduce, accumulate, order or search."""

from dataclasses import replace

import numpy as np
from executed import bools, distinct, ex, floats, ints

X = floats(3, 4, 2)
DISTINCT = distinct(3, 4, 2)
BOOLS = bools(3, 4, 2)
POSITIVE = floats(3, 4, 2, low=0.3, high=1.7, seed=3)
GAPS = np.where(bools(3, 4, 2, seed=4), np.float32("nan"), DISTINCT)
GAPS[:, 0] = 1.0
SORTED = np.sort(floats(3, 4, 5), -1)


def call(name, *args, **kwargs):
    return ex(f"Functional.{name}", *args, **kwargs)


EXAMPLES = [
    *(call(name, BOOLS, *rest) for name in ("all", "any") for rest in [(), (1,), (1, True), ((0, 2),)]),
    *(call(name, X, *rest) for name in ("amax", "amin") for rest in [(), (1,)]),
    *(replace(call(name, X, (0, 2), True), overload=n) for name in ("amax", "amin") for n in (0, 1)),
    call("aminmax", DISTINCT),
    call("aminmax", DISTINCT, axis=1, keepdims=True),
    *(call(name, DISTINCT, *rest) for name in ("argmax", "argmin") for rest in [(), (1,), (1, True)]),
    *(replace(call(name, DISTINCT), overload=n) for name in ("max", "min") for n in (0, 1)),
    *(
        replace(call(name, DISTINCT, *r), overload=n)
        for name in ("max", "min")
        for r in [(1,), (1, True)]
        for n in (2, 3, 4, 5)
    ),
    *(call("mean", X, *rest) for rest in [(), (1,), ((0, 2), True)]),
    *(call("sum", X, *rest) for rest in [(), (1,), ((0, 2), True)]),
    *(call(name, X, 1, dtype=np.dtype("float64")) for name in ("sum", "prod", "cumprod", "vector_norm", "matrix_norm")),
    # MindSpore sums in float32 here
    *(replace(call(name, X, 1, dtype=np.dtype("float64")), tolerance=(1e-5, 1e-6)) for name in ("nanmean", "nansum")),
    *(call(name, GAPS, *rest) for name in ("nanmean", "nansum") for rest in [(), (1,), ((0, 2), True)]),
    call("median", distinct(3, 5)),
    call("median", distinct(3, 5, 2), 1, True),
    call("nanmedian", X),
    call("nanmedian", GAPS, 1),
    call("nanmedian", GAPS, 1, True),
    *(call("prod", POSITIVE, *rest) for rest in [(), (1,), (1, True)]),
    *(replace(call("count_nonzero", ints(3, 4, low=0, high=2), *rest), keywords=False) for rest in [(), (1,)]),
    call("logsumexp", X, 1),
    call("logsumexp", X, (0, 2), True),
    *(
        call(name, X, *rest)
        for name in ("std", "var", "std_mean", "var_mean")
        for rest in [(), (1,), (1, 1), (1, 1, True)]
    ),
    *(call(name, DISTINCT, 1) for name in ("cummax", "cummin")),
    call("cumprod", POSITIVE, 1),
    call("cumsum", X, 1),
    call("cumsum", X, 1, np.dtype("float64")),
    call("logcumsumexp", X, 1),
    *(replace(call("norm", X[0], *rest), overload=n) for rest in [(), (3.0, 1), (1, 1, True)] for n in (0, 1)),
    *(replace(call("norm", X[0], *rest), overload=3) for rest in [(), (3.0, 1), (1, 1, True)]),
    *(
        replace(call("norm", X[0], *rest), overload=2, pt_of="torch.linalg")
        for rest in [(), (3.0, 1), (1, (0, 1), True)]
    ),
    call("matrix_norm", X),
    call("matrix_norm", X, 1, (0, 2), True),
    call("vector_norm", X),
    call("vector_norm", X, 3, (0, 2), True),
    call("trace", X[0]),
    call("histc", X, 5, -1.0, 1.5),
    call("bincount", ints(9, low=0, high=5), floats(9), 7),
    call("trapz", X, dx=0.5, dim=1),
    call("trapz", X, np.cumsum(POSITIVE, 1), dim=1),
    call("cov", X[0]),
    call("cov", X[0], correction=0, fweights=np.array([1, 3])),
    call("cov", X[0], aweights=np.array([0.3, 1.2], dtype="float32")),
    call("dist", X, POSITIVE, 3),
    call("renorm", X, 2, 1, 1.5),
    call("lp_pool1d", floats(2, 3, 9, low=0.1), 2, 3),
    call("lp_pool1d", floats(2, 3, 9, low=0.1), 3.0, 3, 2, True),
    call("lp_pool2d", floats(2, 3, 7, 9, low=0.1), 2, (3, 2), 2),
    call("lp_pool2d", floats(2, 3, 7, 9, low=0.1), 3.0, 3, 2, True),
    call("argsort", DISTINCT),
    call("argsort", DISTINCT, 1, True),
    call("sort", DISTINCT),
    call("sort", DISTINCT, 1, True),
    call("msort", DISTINCT),
    call("topk", DISTINCT, 2),
    call("topk", DISTINCT, 2, 1, False, True),
    call("top_k", DISTINCT, 2, True),
    call("argwhere", BOOLS),
    call("nonzero", BOOLS),
    call("unique", np.array([1, 2, 2, 5], dtype="int64")),
    call("unique_consecutive", np.array([1, 1, 2, 2, 1], dtype="int64")),
    call("unique_consecutive", np.array([1, 1, 2, 2, 1], dtype="int64"), True, True),
    *(
        call("unique_consecutive", np.array([1, 1, 2, 2, 1]), **{f"return_{which}": True})
        for which in ("inverse", "counts")
    ),
    call("unique_consecutive", np.array([[1, 1, 2], [1, 1, 3]], dtype="int64"), dim=1),
    call("searchsorted", SORTED, X),
    call("searchsorted", SORTED, X, side="right"),
    call("searchsorted", SORTED, X, right=True),
    call("diff", X),
    call("diff_ext", X, 2, 1, floats(3, 1, 2)),
    call("diff", X, 1, 0, floats(1, 4, 2), floats(2, 4, 2)),
]
