"""Which operation of one framework may be which operation of the other, and which class of layer which class.

The tables of `mapping` say it best. What they do not know is compared by the bare word: `ops.matmul`, `torch.matmul`
and `Tensor.__matmul__` are one operation.
"""

from functools import lru_cache

from msprobe.mapping.api import load_table
from msprobe.mapping.layers import counterpart_classes, layers

KIN, MAYBE, UNLIKELY, STRANGERS = 2.0, 0.0, -1.5, float("-inf")
_WORD_ONLY = 1.5

# Words for one operation that differ between methods, operators, functions and primitives.
_SAME = (
    ("add", "iadd", "radd", "biasadd", "addex", "addext"),
    ("sub", "isub", "rsub", "subtract"),
    ("mul", "imul", "rmul", "multiply"),
    ("div", "truediv", "itruediv", "rtruediv", "realdiv", "divide"),
    ("floordiv", "floordivide", "ifloordiv"),
    ("mod", "remainder", "floormod"),
    ("pow", "rpow", "ipow"),
    ("neg", "negative"),
    ("matmul", "rmatmul", "batchmatmul", "bmm", "mm"),
    ("reshape", "view", "flatten", "unflatten", "viewas", "reshapeas"),
    ("transpose", "permute", "swapaxes", "swapdims", "t"),
    ("cat", "concat"),
    ("unsqueeze", "expanddims"),
    ("expand", "broadcastto", "expandas"),
    ("lt", "less"),
    ("le", "lessequal"),
    ("gt", "greater"),
    ("ge", "greaterequal"),
    ("eq", "equal"),
    ("ne", "notequal"),
    ("to", "type", "astype", "typeas", "cast", "float", "half", "int", "long", "bool"),
    ("linear", "dense"),
    ("mean", "reducemean"),
    ("sum", "reducesum"),
    ("max", "reducemax"),
    ("min", "reducemin"),
    ("getitem", "stridedslice", "tensorscattergetitem"),
    ("masked_fill", "maskedfill"),
    ("scaleddotproductattention", "flashattentionscore"),
    ("unbind", "unstack"),
    ("repeat", "tile"),
    ("clamp", "clip", "clipbyvalue"),
)
_WITH_BIAS = frozenset(("conv1d", "conv2d", "conv3d", "linear"))
_WORD = {word: group[0] for group in _SAME for word in group}


def operations(target: str, golden: str, frameworks: tuple[str, str]) -> float:
    """KIN, a little less where only the words agree, or STRANGERS; stems of two API calls."""
    if frameworks[0] == frameworks[1]:
        return KIN if target == golden else _WORD_ONLY if word(target) == word(golden) else STRANGERS
    ms, pt = (target, golden) if frameworks[0] == "mindspore" else (golden, target)
    if pt in _listed(ms):
        return KIN
    return _WORD_ONLY if word(ms) == word(pt) else STRANGERS


def classes(target: str, golden: str, frameworks: tuple[str, str]) -> float:
    """KIN for corresponding layers, STRANGERS for layers that do not correspond, MAYBE for two classes of the user.

    UNLIKELY for a layer of one framework against a class of the user: he would have taken the layer of the other.
    """
    if frameworks[0] == frameworks[1]:
        return KIN if target == golden else MAYBE
    ms, pt = (target, golden) if frameworks[0] == "mindspore" else (golden, target)
    known = counterpart_classes(ms)
    if pt in known:
        return KIN
    if known or pt in _layers_of_pytorch():
        return STRANGERS if known and pt in _layers_of_pytorch() else UNLIKELY
    return KIN if ms == pt else MAYBE


def may_add_bias(*stems: str) -> bool:
    """Whether one of them is an operation that adds a bias on one side, and is followed by an addition on the other."""
    return any(word(stem) in _WITH_BIAS for stem in stems)


@lru_cache(maxsize=65536)
def word(stem: str) -> str:
    """The bare word of an operation: `Tensor.__add__`, `Functional.add` and `Primitive.add.Add` are `add`."""
    last = stem.rpartition(".")[2].strip("_").replace("_", "").lower()
    return _WORD.get(last, last)


@lru_cache(maxsize=65536)
def _listed(ms: str) -> frozenset[str]:
    return frozenset(found.pt for found in load_table().counterparts(ms))


@lru_cache(maxsize=1)
def _layers_of_pytorch() -> frozenset[str]:
    return frozenset(pt for layer in layers() for pt in layer.pt)
