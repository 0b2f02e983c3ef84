"""Primitives of the newer kernels, of which most do not exist on CPU: their arguments are translated only."""

from dataclasses import replace

import numpy as np
from executed import bools, distinct, ex, floats, ints

X = floats(2, 3)
Y = floats(2, 3, seed=1)
D = distinct(2, 3, 4)
M = floats(3, 4)
ROWS = np.array([2, 0], np.int64)
INDEX = np.array([[0, 2, 1, 0], [1, 0, 2, 2]], np.int64)


def P(name, *args, **attributes):
    """A call of a primitive; it is constructed with the attributes."""
    return replace(ex(f"Primitive.{name}", *args), attributes=attributes, keywords=False)


def each(names, *args, **attributes):
    return [P(name, *args, **attributes) for name in names.split()]


EXAMPLES = [
    *each("Clone Contiguous Copy Exp2 Frac LogSigmoid MishExt OnesLikeExt ZerosLikeExt", X),
    *each("Log10 Log2", floats(2, 3, low=0.2, high=3)),
    *each("AddExt SubExt", X, Y, 2),
    P("AddScalar", X, 3.0, 2),
    P("Muls", X, 3.0),
    P("Addmm", floats(3, 5), floats(3, 4), floats(4, 5, seed=1), 0.5, 2),
    P("Baddbmm", floats(2, 3, 5), floats(2, 3, 4), floats(2, 4, 5, seed=1), 0.5, 2),
    P("BatchMatMulExt", floats(2, 3, 4), floats(2, 4, 5, seed=1)),
    *each("MatMulExt Mm", floats(3, 4), floats(4, 5, seed=1)),
    P("Mv", floats(3, 4), floats(4, seed=1)),
    P("Dot", floats(4), floats(4, seed=1)),
    P("Outer", floats(4), floats(3, seed=1)),
    *each("SumExt MeanExt ProdExt", D, 1, True),
    *each("ArgMaxExt ArgMinExt MaxDim MinDim LogSumExp", D, 1, True),
    *each("Max Min", D),
    *each("Std Var", D, 1, 0, True),
    P("CumsumExt", D, 1),
    P("Norm", D, 2, 1, True),
    P("SortExt", D, 1, True),
    P("TopkExt", D, 2, 1, False, True),
    P("Chunk", D, 2, 2),
    P("FlattenExt", D, 1, 2),
    P("IndexSelect", M, 0, ROWS),
    P("MaskedFillScalar", M, bools(3, 4), 2.5),
    P("Narrow", D, 2, 1, 2),
    P("RepeatInterleaveInt", M, 2, 1),
    P("Repeat", M, (2, 3)),
    P("ScatterAddExt", M, 0, INDEX, floats(2, 4, seed=1)),
    P("Scatter", M, 0, INDEX, floats(2, 4, seed=1)),
    P("SplitTensor", D, 2, 2),
    P("SplitWithSize", D, (1, 3), 2),
    P("StackExt", [X, Y], dim=1),
    P("TrilExt", M, 1),
    P("View", D, (4, 6)),
    P("Arange", 1, 9, 3),
    P("FullLike", M, 2.5),
    P("LinSpaceExt", 1.0, 3.0, 5),
    replace(P("OneHotExt", ints(3, low=0, high=4), 4, np.array(1), np.array(0)), kinds=False),
    P("GeluExt", X, "tanh"),
    P("EluExt", X, alpha=0.7),
    P("LeakyReLUExt", X, 0.3),
    P("SoftplusExt", X, 2, 5),
    P("Hardtanh", X, -0.3, 0.6),
    P("Threshold", X, 0.2, -3.0),
    P("LayerNormExt", D, (4,), floats(4), floats(4, seed=1), 1e-3),
    P("GroupNorm", floats(2, 6, 5), 3, floats(6), floats(6, seed=1), 1e-3),
    P("Embedding", INDEX, M),
    P("PixelShuffle", floats(2, 12, 4, 5), 2),
    P("Conv2DExt", floats(2, 4, 7, 9), floats(6, 2, 3, 2), floats(6), (2, 2), (1, 1), (1, 1), 2),
    P("ConvTranspose2D", floats(2, 4, 7, 9), floats(4, 6, 3, 2), floats(6), (2, 2), (1, 1)),
    *each("MSELossExt L1LossExt", X, Y, "sum"),
]
