"""Methods of Tensor that reduce, sort and count, and those of linear algebra."""

from dataclasses import replace

import numpy as np
from executed import bools, distinct, ex, floats, ints

X = floats(2, 3, 4)
D = distinct(2, 3, 4)
NANS = np.where(floats(2, 3, 4, seed=3) > 1, np.nan, X).astype(np.float32)
SQUARE = floats(3, 3) + 3 * np.eye(3, dtype=np.float32)
SPD = (SQUARE @ SQUARE.T).astype(np.float32)
LOWER = np.tril(floats(3, 3, low=0.5, high=2)).astype(np.float32)


def T(name, *args, **kwargs):
    """A call of a method; operators take nothing by keyword."""
    return replace(ex(f"Tensor.{name}", *args, **kwargs), keywords=not name.startswith("__"))


EXAMPLES = [
    *[T(n, X) for n in ("sum", "mean", "prod", "amax", "amin", "max", "min", "median")],
    *[T(n, X, axis=1, keepdims=True) for n in ("sum", "nansum", "amax", "amin", "max", "min")],
    *[T(n, X, dim=1, keepdim=True) for n in ("sum", "mean", "prod", "logsumexp")],
    *[T(n, X, 1) for n in ("sum", "mean", "logsumexp")],
    T("sum", X, axis=(0, 2), dtype=np.dtype("float64")),
    T("sum", X, (0, 2), keepdim=True, dtype=np.dtype("float64")),
    T("mean", X, axis=1, keep_dims=True),
    T("mean", X, 1, True),
    T("mean", X, dim=1, dtype=np.dtype("float64")),
    T("prod", X, 1, True, np.dtype("float64")),
    T("nansum", NANS, axis=1),
    *[T(n, bools(2, 3, 4)) for n in ("all", "any")],
    *[T(n, bools(2, 3, 4), dim=1, keepdim=True) for n in ("all", "any")],
    *[T(n, bools(2, 3, 4), axis=1, keep_dims=True) for n in ("all", "any")],
    *[T(n, D, dim=1, keepdim=True) for n in ("max", "min", "median", "argmax", "argmin")],
    *[T(n, D, axis=1, keepdims=True) for n in ("argmax", "argmin", "median")],
    *[T(n, D, 1) for n in ("argmax", "argmin", "cummax", "cummin", "logcumsumexp", "cumsum", "cumprod")],
    *[T(n, D) for n in ("argmax", "argmin", "argmax_with_value", "argmin_with_value", "aminmax")],
    *[T(n, D, 1, True) for n in ("argmax_with_value", "argmin_with_value")],
    T("aminmax", D, axis=1, keepdims=True),
    T("nanmean", NANS, 1, True),
    T("nanmedian", np.where(np.isnan(NANS), NANS, D).astype(np.float32), 1, True),
    T("nanquantile", NANS, 0.3, 1, True),
    T("quantile", D, 0.3, 1, True),
    *[T(n, X, axis=1, ddof=1, keepdims=True) for n in ("std", "var")],
    *[T(n, X, axis=1) for n in ("std", "var")],
    *[T(n, X, dim=1, correction=0, keepdim=True) for n in ("std", "var")],
    T("count_nonzero", ints(2, 3, low=0, high=2), 1),
    T("count_nonzero", ints(2, 3, low=0, high=2), axis=1),
    replace(T("cumsum", X, 1, dtype=np.dtype("float64")), tolerance=(1e-5, 1e-6)),
    T("cumsum", X, axis=1),
    T("cumprod", X, 1, np.dtype("float64")),
    T("kthvalue", D, 2, 1, True),
    T("softmax", X, 1),
    T("trace", floats(3, 4)),
    T("histc", floats(2, 9), 5, -1.5, 1.5),
    T("bincount", ints(9, low=0, high=5), floats(9), 7),
    T("diff", D, 1, 1),
    T("diff", D, 1, axis=0, prepend=floats(1, 3, 4)),
    T("renorm", X, 2, 1, 1.5),
    T("topk", D, 2, 1, False),
    T("topk", D, 2, dim=1, largest=False, sorted=True),
    T("top_k", D, 2),
    T("sort", D, dim=1, descending=True),
    T("sort", D, dim=1, descending=True, stable=True),
    T("sort", D, axis=1, descending=True),
    T("argsort", D, dim=1, descending=True),
    T("argsort", D, axis=1, descending=True),
    T("unique", ints(9), True, True, True),
    T("unique_consecutive", ints(9, low=0, high=2), True, True),
    # linear algebra
    T("addbmm", floats(3, 5), floats(2, 3, 4), floats(2, 4, 5, seed=1), beta=0.5, alpha=2),
    T("addmm", floats(3, 5), floats(3, 4), floats(4, 5, seed=1), beta=0.5, alpha=2),
    T("addmm_", floats(3, 5), floats(3, 4), floats(4, 5, seed=1), beta=0.5, alpha=2),
    T("addmv", floats(3), floats(3, 4), floats(4, seed=1), beta=0.5, alpha=2),
    T("addr", floats(3, 4), floats(3, seed=1), floats(4, seed=2), 0.5, 2.0),
    T("baddbmm", floats(2, 3, 5), floats(2, 3, 4), floats(2, 4, 5, seed=1), beta=0.5, alpha=2),
    T("bmm", floats(2, 3, 4), floats(2, 4, 5, seed=1)),
    T("mm", floats(3, 4), floats(4, 5, seed=1)),
    T("matmul", floats(2, 3, 4), floats(4, 5, seed=1)),
    T("matmul", floats(2, 3, 4), tensor2=floats(4, 5, seed=1)),
    T("__matmul__", floats(3, 4), floats(4, 5, seed=1)),
    T("__rmatmul__", floats(4, 5), floats(3, 4, seed=1)),
    T("dot", floats(4), floats(4, seed=1)),
    T("inner", floats(2, 4), floats(3, 4, seed=1)),
    T("outer", floats(4), floats(3, seed=1)),
    T("ger", floats(4), floats(3, seed=1)),
    T("cross", floats(2, 3), floats(2, 3, seed=1), 1),
    T("cholesky", SPD),
    T("cholesky", SPD, True),
    T("cholesky_inverse", LOWER),
    T("cholesky_solve", floats(3, 2), LOWER, False),
    *[T(n, SQUARE) for n in ("det", "inverse", "logdet", "slogdet", "matrix_determinant", "log_matrix_determinant")],
    T("matrix_power", SQUARE, 3),
    T("cov", floats(3, 5)),
    T("cov", floats(3, 5), correction=0, fweights=ints(5, low=1)),
    T("norm", floats(3, 5)),
    T("norm", floats(3, 5), 1, 1, True),
    T("geqrf", floats(4, 3)),
    replace(T("lstsq", floats(4, 2), floats(4, 3, seed=1)), pt_of="torch.linalg"),
    T("lu_solve", floats(3, 2), SQUARE, np.array([1, 2, 3], np.int32)),
    T("orgqr", floats(4, 3), floats(3, seed=1)),
    T("ormqr", floats(4, 3), floats(3, seed=1), floats(4, 2, seed=2), True, False),
    T("qr", floats(4, 3)),
    replace(T("svd", floats(4, 3)), compare="shape"),
    T("triangular_solve", floats(3, 2), LOWER, False, True, False),
]
