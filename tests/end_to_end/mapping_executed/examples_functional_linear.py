"""Functions of mindspore.ops of linear algebra."""

from dataclasses import replace

import numpy as np
from executed import ex, floats

SQUARE = floats(3, 3) + 3 * np.eye(3, dtype="float32")
SYMMETRIC = (SQUARE @ SQUARE.T).astype("float32")
LOWER = np.linalg.cholesky(SYMMETRIC).astype("float32")
BATCH = np.stack([SQUARE, SYMMETRIC])
A, B, C = floats(3, 4), floats(4, 2, seed=1), floats(3, 2, seed=2)
BATCH_A, BATCH_B, BATCH_C = floats(2, 3, 4), floats(2, 4, 5, seed=1), floats(2, 3, 5, seed=2)


def call(name, *args, **kwargs):
    return ex(f"Functional.{name}", *args, **kwargs)


EXAMPLES = [
    call("addbmm", floats(3, 5), BATCH_A, BATCH_B, beta=0.5, alpha=2.0),
    call("baddbmm", BATCH_C, BATCH_A, BATCH_B, 0.5, 2.0),
    call("addmm", C, A, B, beta=0.5, alpha=2.0),
    call("addmv", floats(3), A, floats(4), beta=0.5, alpha=2.0),
    call("addr", A, floats(3), floats(4), beta=0.5, alpha=2.0),
    call("bmm", BATCH_A, BATCH_B),
    call("mm", A, B),
    call("mv", A, floats(4)),
    *(replace(call("matmul", A, B), overload=n) for n in (0, 1, 2, 5, 6)),
    *(replace(call("matmul", BATCH_A, BATCH_B), overload=n) for n in (0, 1, 2, 3, 4)),
    call("dot", A, B),
    call("batch_dot", BATCH_A, BATCH_B),
    call("outer", floats(4), floats(3)),
    call("ger", floats(4), floats(3)),
    call("vecdot", A, floats(3, 4, seed=1)),
    call("vecdot", A, floats(3, 4, seed=1), axis=0),
    call("tensor_dot", BATCH_A, floats(3, 4, 5), 2),
    call("tensor_dot", BATCH_A, floats(5, 4), ((2,), (1,))),
    call("cross", floats(2, 3), floats(2, 3, seed=1), 1),
    call("cholesky", SYMMETRIC),
    call("cholesky", SYMMETRIC, True),
    call("cholesky_inverse", LOWER),
    call("cholesky_inverse", LOWER.T.copy(), True),
    call("cholesky_solve", C, LOWER),
    call("cholesky_solve", C, LOWER.T.copy(), True),
    call("det", SQUARE),
    call("matrix_determinant", BATCH),
    call("logdet", SYMMETRIC),
    call("slogdet", SQUARE),
    call("log_matrix_determinant", BATCH),
    replace(call("eig", np.diag([1, 2.5, 3]).astype("float32")), pt_of="torch.linalg"),
    call("eigvals", np.diag([1, 2.5, 3]).astype("float32")),
    *(replace(call("cond", SQUARE, *p), pt_of="torch.linalg") for p in ((), (1,), ("fro",), ("nuc",), (-2,))),
    call("inverse", SQUARE),
    replace(call("pinv", A), overload=0),
    *(replace(call("pinv", A, rtol=0.3), overload=n) for n in (0, 1, 2)),
    replace(call("pinv", SYMMETRIC, atol=0.3, hermitian=True), overload=0),
    call("geqrf", A),
    call("orgqr", A.T.copy(), floats(3)),
    call("lu_solve", C, SQUARE, np.array([1, 2, 3], dtype="int32")),
    call("lu_unpack", SQUARE, np.array([2, 2, 3], dtype="int32")),
    replace(call("lstsq", A.T.copy(), floats(4, 2)), pt_of="torch.linalg", keywords=False),
    call("matrix_power", SQUARE, 3),
    replace(call("matrix_solve", SQUARE, C), pt_of="torch.linalg"),
    *(replace(call("qr", A.T.copy(), *rest), pt_of="torch.linalg") for rest in [(), ("complete",)]),
    replace(call("svd", A, False, True), compare="shape"),
    replace(call("svd", A, True, True), compare="shape"),
    call("vander", floats(3), 4),
    call("block_diag", A, B),
    call("cartesian_prod", floats(3), floats(2)),
    call("cdist", A, floats(5, 4)),
    call("cdist", A, floats(5, 4), 1.0),
    call("pdist", A),
    call("pdist", A, 1.0),
    call("dense", A, floats(5, 4), floats(5)),
    call("bidense", A, floats(3, 5), floats(6, 4, 5), floats(6)),
    call("diag", floats(4)),
    call("diagflat", floats(4), 1),
    call("diag_embed", A, 1, 0, 2),
    call("diagonal", BATCH_A, 1, 0, 2),
    call("diagonal_scatter", A, floats(3, seed=1), 0),
    call("diagonal_scatter", A, floats(3, seed=1), 1, 0, 1),
    call("matrix_diag", A, 0),
    call("matrix_set_diag", BATCH_A, floats(2, 3, seed=1), 0),
]
