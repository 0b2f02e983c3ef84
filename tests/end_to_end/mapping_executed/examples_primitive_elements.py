"""Primitives that work element by element, reduce, or belong to linear algebra."""

from dataclasses import replace

import numpy as np
from executed import Parameter, bools, distinct, ex, floats, ints

X = floats(2, 3)
Y = floats(2, 3, seed=1)
POSITIVE = floats(2, 3, low=0.2, high=3.0)
SMALL = floats(2, 3, low=-0.9, high=0.9)
ABOVE_ONE = floats(2, 3, low=1.1, high=3.0)
SPECIAL = np.array([[1.5, np.nan, np.inf], [-np.inf, -2.5, 0.5]], np.float32)
COMPLEX = (X + 1j * Y).astype(np.complex64)
D = distinct(2, 3, 4)
SQUARE = floats(3, 3) + 3 * np.eye(3, dtype=np.float32)
SPD = (SQUARE @ SQUARE.T).astype(np.float32)
LOWER = np.tril(floats(3, 3, low=0.5, high=2)).astype(np.float32)


def P(name, *args, **attributes):
    """A call of a primitive; it is constructed with the attributes."""
    return replace(ex(f"Primitive.{name}", *args), attributes=attributes, keywords=False)


def each(names, *args, **attributes):
    return [P(name, *args, **attributes) for name in names.split()]


def nth(overload, example):
    return replace(example, overload=overload)


def of(module, example):
    return replace(example, pt_of=module)


EXAMPLES = [
    *each("Abs Asinh Atan Ceil Cos Cosh Erf Erfc Exp Expm1 Floor Neg Rint Sign Sin Sinc Sinh Square Tan Tanh Trunc", X),
    *each("ReLU ReLU6 Sigmoid HSigmoid HSwish SeLU Mish Softplus Softsign SiLU GeLU Gelu StopGradient", 3 * X),
    *each("Digamma Inv Lgamma Log Log1p Reciprocal Rsqrt Sqrt", POSITIVE),
    *each("BesselI0 BesselI0e BesselI1 BesselI1e BesselJ0 BesselJ1", POSITIVE),
    *each("BesselY0 BesselY1 BesselK0 BesselK1 BesselK0e BesselK1e", POSITIVE),
    *each("ACos Asin Atanh Erfinv", SMALL),
    P("Acosh", ABOVE_ONE),
    *each("Angle ComplexAbs Conj Imag Real", COMPLEX),
    *each("IsFinite IsInf IsNan NanToNum", SPECIAL),
    P("NanToNum", SPECIAL, nan=0.5, posinf=7.0, neginf=-8.0),
    P("LogicalNot", bools(2, 3)),
    P("Invert", ints(2, 3, dtype="int16")),
    P("NonZero", bools(2, 3)),
    P("Round", 5 * X),
    P("Elu", X, alpha=1.0),
    P("CeLU", X, alpha=0.7),
    P("HShrink", X, lambd=0.7),
    P("SoftShrink", X, lambd=0.7),
    P("Softmax", X),
    P("Softmax", X, axis=0),
    P("LogSoftmax", X),
    P("LogSoftmax", X, axis=0),
    P("GLU", floats(4, 6), axis=0),
    P("PReLU", floats(2, 3, 4), floats(3)),
    P("Logit", floats(2, 3, low=0.05, high=0.95), eps=0.2),
    P("Logit", floats(2, 3, low=0.05, high=0.95), eps=-1.0),
    P("Mvlgamma", 2 + POSITIVE, p=2),
    P("Polygamma", np.array(1, np.int64), POSITIVE),
    P("L2Normalize", X),
    P("L2Normalize", X, axis=1),
    # dropout that keeps everything
    *each("Dropout", X, keep_prob=1.0),
    P("Dropout2D", floats(2, 3, 4, 5), keep_prob=1.0),
    P("Dropout3D", floats(2, 3, 4, 5, 2), keep_prob=1.0),
    # two of them
    *each("Add TensorAdd Sub Mul Div RealDiv Maximum Minimum Atan2 Hypot Fmax Fmin NextAfter Heaviside", X, Y),
    *each("Equal NotEqual Greater GreaterEqual Less LessEqual", X, np.where(X > 0, X, Y)),
    *each("FloorDiv FloorMod Mod TruncateMod TruncateDiv", 4 * X, POSITIVE),
    *each("Pow Xlogy", POSITIVE, Y),
    *each("Igamma Igammac", POSITIVE, ABOVE_ONE),
    of("torch.special", P("Zeta", ABOVE_ONE, POSITIVE)),
    *each(
        "BitwiseAnd BitwiseOr BitwiseXor Gcd Lcm LeftShift RightShift", ints(2, 3), ints(2, 3, low=1, high=6, seed=1)
    ),
    *each("LogicalAnd LogicalOr LogicalXor", bools(2, 3), bools(2, 3, seed=3)),
    P("ApproximateEqual", X, X + 0.05, tolerance=0.1),
    P("ApproximateEqual", X, X + 1e-7),
    P("IsClose", X, X + 0.05, rtol=0.1, atol=0.01),
    P("Lerp", X, Y, np.array(0.3, np.float32)),
    P("LerpScalar", X, Y, 0.3),
    P("Polar", POSITIVE, Y),
    P("Complex", X, Y),
    P("BiasAdd", floats(4, 3), floats(3, seed=1)),
    P("AddN", [X, Y]),
    P("AccumulateNV2", [X, Y]),
    *each("Assign AssignAdd AssignSub", Parameter(X), Y),
    *each("Addcdiv Addcmul", X, Y, POSITIVE, np.array(0.3, np.float32)),
    # linear algebra
    nth(0, P("MatMul", floats(3, 4), floats(4, 5, seed=1))),
    nth(1, P("MatMul", floats(3, 4), floats(4, 5, seed=1))),
    nth(2, P("MatMul", floats(3, 4), floats(4, 5, seed=1))),
    nth(3, P("MatMul", floats(3, 4), floats(5, 4, seed=1), transpose_b=True)),
    nth(4, P("MatMul", floats(3, 4), floats(4, 5, seed=1))),
    nth(5, P("MatMul", floats(3, 4), floats(4, 5, seed=1), transpose_a=False)),
    P("BatchMatMul", floats(2, 3, 4), floats(2, 4, 5, seed=1)),
    P("Dense", floats(2, 4), floats(3, 4, seed=1), floats(3, seed=2)),
    P("Cdist", floats(2, 3, 4), floats(2, 5, 4, seed=1), p=1.5),
    P("Cholesky", SPD, upper=True),
    P("CholeskyInverse", LOWER),
    P("CholeskySolve", floats(3, 2), LOWER, upper=False),
    P("Cross", floats(4, 3), floats(4, 3, seed=1), dim=1),
    P("Einsum", [floats(2, 3), floats(3, 4, seed=1)], equation="ij,jk->ki"),
    P("Geqrf", floats(4, 3)),
    P("Ger", floats(3), floats(4, seed=1)),
    P("LogMatrixDeterminant", SQUARE),
    P("MatrixDeterminant", SQUARE),
    P("MatrixExp", SQUARE / 4),
    P("MatrixInverse", SQUARE),
    P("MatrixPower", SQUARE, n=3),
    of("torch.linalg", P("MatrixSolve", SQUARE, floats(3, 2))),
    of("torch.linalg", P("MatrixTriangularSolve", LOWER, floats(3, 2))),
    of("torch.linalg", P("MatrixTriangularSolve", LOWER.T.copy(), floats(3, 2), lower=False)),
    of("torch.linalg", P("Lstsq", floats(4, 3), floats(4, 2, seed=1))),
    replace(of("torch.linalg", P("Eig", SPD, compute_v=True)), compare="shape"),
    P("LuUnpack", SQUARE, np.array([2, 2, 3], np.int32)),
    P("LuSolve", floats(3, 2), SQUARE, np.array([1, 2, 3], np.int32)),
    P("Orgqr", floats(4, 3), floats(3, seed=1)),
    P("Ormqr", floats(4, 3), floats(3, seed=1), floats(4, 2, seed=2), left=True),
    replace(of("torch.linalg", P("Qr", floats(4, 3), full_matrices=False)), compare="shape"),
    replace(P("Svd", floats(4, 3), full_matrices=False), compare="shape"),
    P("Trace", floats(3, 4)),
    replace(of("torch.linalg", P("EuclideanNorm", X, np.array([1]), keep_dims=True)), inserted={"dim": 1}),
    P("LpNorm", X, axis=1, p=1, keep_dims=True),
    P("LpNorm", X, axis=1),
    # reductions
    *each("ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum", D, 1, keep_dims=True),
    *each("ReduceMean ReduceSum ReduceMax ReduceMin", D, [0, 2]),
    *each("ReduceAll ReduceAny", bools(2, 3), 1),
    P("ReduceStd", D, axis=[1], unbiased=False, keep_dims=True),
    *each("Argmax Argmin", D, axis=1),
    *each("Argmax Argmin ArgMaxWithValue ArgMinWithValue Median", D),
    *each("ArgMaxWithValue ArgMinWithValue Median", D, axis=1, keep_dims=True),
    P("CountNonZero", ints(2, 3, low=0, high=2), dims=[1]),
    *each("CumProd CumSum", X, 1),
    *each("Cummax Cummin", D, axis=1),
    P("CumulativeLogsumexp", X, np.array(1, np.int32)),
    P("Histogram", floats(9), bins=5, min=-1.5, max=1.5),
    P("Sort", D, axis=1, descending=True),
    P("TopK", D, 2, sorted=True),
    P("Unique", np.array([1, 2, 5, 2, 1, 7], np.int32)),
    P("UniqueConsecutive", np.array([1, 1, 5, 2, 2, 7], np.int32), return_inverse=True, return_counts=True),
    P("Bincount", ints(9, low=0, high=5, dtype="int32"), np.array(7, np.int32), floats(9)),
    P("SearchSorted", np.sort(distinct(7)), distinct(2, 3), right=True),
    *each("LowerBound UpperBound", np.sort(distinct(2, 7)), np.sort(distinct(2, 7))[:, ::2].copy()),
    replace(
        P("Bucketize", X, boundaries=[-1.0, 0.5, 1.2]), inserted={"boundaries": np.array([-1.0, 0.5, 1.2], np.float32)}
    ),
    P("Renorm", D, p=2, dim=1, maxnorm=1.5),
    P("Pdist", floats(4, 3), p=1.5),
]
