"""What a record does not tell of a call: attributes of primitives and options of layers, as candidates to be tried.

Each function takes the call and the arguments that are bound already, by the names of the reference's parameters, and
gives pairs: a label, and further arguments. Shapes leave out what cannot be meant. Usual values come first.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any

from .recorded import CannotReplay, Cause, RecordedCall

Options = Iterator[tuple[str, dict[str, Any]]]
Given = Mapping[str, Any]

EPSILONS = (1e-5, 1e-6, 1e-12, 1e-7, 1e-8, 1e-3)
MOST = 12
"""So many candidates are tried at most."""


def told(**options: Any) -> str:
    """The label of a candidate: `eps=1e-05,training=True`."""
    return ",".join(f"{name}={value}" for name, value in options.items())


def shape_of_output(call: RecordedCall) -> tuple[int, ...]:
    """The recorded shape of the first output; CannotReplay without one."""
    leaf = call.outputs.get(("0",))
    if leaf is None:
        raise CannotReplay(Cause.NOTHING_TO_MEASURE, call.name)
    return leaf.shape


def transposes(call: RecordedCall, given: Given) -> Options:
    """transpose_a, transpose_b of a product."""
    a, b, out = given["a"].shape, given["b"].shape, shape_of_output(call)
    for second, first in product((False, True), (False, True)):
        rows, inner = (a[-1], a[-2]) if first else (a[-2], a[-1])
        other, columns = (b[-1], b[-2]) if second else (b[-2], b[-1])
        if inner == other and out[-2:] == (rows, columns):
            options = {"transpose_a": first, "transpose_b": second}
            yield told(**options), options


def data_format(call: RecordedCall, given: Given) -> Options:
    """Which axis a bias belongs to."""
    x, size = given["x"].shape, given["bias"].shape[0]
    if len(x) < 3 and x[-1] == size:
        yield "", {"data_format": "NHWC"}
        return
    if x[1] == size:
        yield "data_format=NCHW", {"data_format": "NCHW"}
    if x[-1] == size:
        yield "data_format=NHWC", {"data_format": "NHWC"}


def epsilon(call: RecordedCall, given: Given) -> Options:
    """The epsilon of a norm, where it was not recorded."""
    if "eps" in given:
        yield "", {}
        return
    for eps in EPSILONS:
        yield told(eps=eps), {"eps": eps}


def batch_norm(call: RecordedCall, given: Given) -> Options:
    """Training or not, and epsilon."""
    ways = (True, False) if given.get("running_mean") is not None else (True,)
    for training, eps in product(ways, (1e-5, 1e-3, 1e-4, 1e-6)):
        yield told(eps=eps, training=training), {"eps": eps, "training": training}


def groups(call: RecordedCall, given: Given) -> Options:
    """The number of groups, and epsilon."""
    channels = given["x"].shape[1]
    counts = [n for n in (32, 16, 8, 4, 2, 1, channels) if channels % n == 0]
    for count, eps in product(dict.fromkeys(counts), (1e-5, 1e-6)):
        yield told(groups=count, eps=eps), {"groups": count, "eps": eps}


def approximate(call: RecordedCall, given: Given) -> Options:
    """Which GELU."""
    for form in ("none", "tanh"):
        yield told(approximate=form), {"approximate": form}


def slope(call: RecordedCall, given: Given) -> Options:
    """The slope of a leaky ReLU: PyTorch's default, MindSpore's, the paper's of YOLO."""
    for value in (0.01, 0.2, 0.1):
        yield told(negative_slope=value), {"negative_slope": value}


def axis(call: RecordedCall, given: Given) -> Options:
    """The axis of a softmax."""
    axes = len(given["x"].shape)
    for value in dict.fromkeys((-1, 1 - axes, *range(2 - axes, -1), -axes)):
        yield told(dim=value), {"dim": value}


def join_axis(call: RecordedCall, given: Given) -> Options:
    """The axis of a concatenation: the one whose size changes."""
    if "axis" in given:
        yield "", {}
        return
    first, out = given["tensors"][0].shape, shape_of_output(call)
    found = [i for i, (a, b) in enumerate(zip(first, out, strict=False)) if a != b] or list(range(len(out)))
    for value in found:
        yield (told(axis=value) if len(found) > 1 else ""), {"axis": value}


def stack_axis(call: RecordedCall, given: Given) -> Options:
    """The new axis."""
    if "axis" in given:
        yield "", {}
        return
    out, each = shape_of_output(call), given["tensors"][0].shape
    found = [i for i, n in enumerate(out) if n == len(given["tensors"]) and (*out[:i], *out[i + 1 :]) == tuple(each)]
    for value in found:
        yield (told(axis=value) if len(found) > 1 else ""), {"axis": value}


def split_axis(call: RecordedCall, given: Given) -> Options:
    """The axis of a split into equal parts."""
    count, x, out = len(call.outputs), given["x"].shape, shape_of_output(call)
    for i, (a, b) in enumerate(zip(x, out, strict=False)):
        if a == b * count and a != b:
            yield "", {"axis": i, "count": count}
            return
    yield "", {"axis": 0, "count": count}


def windows(call: RecordedCall, given: Given) -> Options:
    """Stride, padding and dilation of a convolution; groups follow from the weight."""
    x, weight, out = given["x"].shape, given["weight"].shape, shape_of_output(call)
    if len(weight) == 4 and len(x) == 3:  # MindSpore's Conv1d keeps four axes
        weight = (weight[0], weight[1], weight[3])
    if weight[1] == 0 or x[1] % weight[1]:
        return
    fixed = {"groups": x[1] // weight[1]}
    for stride, pads, dilation in _windows(x[2:], weight[2:], out[2:], (1, 2, 3, 4)):
        options = {"stride": stride, "padding": pads, "dilation": dilation}
        yield _told_windows(options), options | fixed


def max_windows(call: RecordedCall, given: Given) -> Options:
    """Kernel, stride and padding of a maximum pooling."""
    yield from _pool_windows(call, given)


def mean_windows(call: RecordedCall, given: Given) -> Options:
    """Kernel, stride, padding of a mean pooling, and whether padding counts."""
    for label, options in _pool_windows(call, given):
        padded = any(n for pair in options["padding"] for n in pair)
        for counts in (True, False) if padded else (True,):
            more = f",count_include_pad={counts}" if padded else ""
            yield label + more, options | {"count_include_pad": counts}


def pad_mode(call: RecordedCall, given: Given) -> Options:
    """MindSpore's pad_mode of a function as (before, after); of "same" the odd one comes behind."""
    mode = given.get("pad_mode") or "valid"
    kernel, x = given["weight"].shape[2:], given["x"].shape[2:]
    strides, dilations = _each(given.get("stride", 1), len(x)), _each(given.get("dilation", 1), len(x))
    if mode == "same":
        padding = [_same(*sizes) for sizes in zip(x, kernel, strides, dilations, strict=True)]
    elif mode == "valid":
        padding = [(0, 0)] * len(x)
    else:
        told_padding = given.get("padding", 0)
        is_pairs = isinstance(told_padding, (tuple, list)) and len(told_padding) == 2 * len(x)
        flat = list(told_padding) if is_pairs else [n for n in _each(told_padding, len(x)) for _ in range(2)]
        padding = [(flat[2 * i], flat[2 * i + 1]) for i in range(len(x))]
    yield "", {"padding": tuple(padding), "pad_mode": _LEFT_OUT}


def no_dropout(call: RecordedCall, given: Given) -> Options:
    """A dropout that is off."""
    yield "p=0", {}


def defaults(call: RecordedCall, given: Given) -> Options:
    """A layer with the options that it has when nothing is given."""
    yield "defaults", {}


def no_masks(call: RecordedCall, given: Given) -> Options:
    """A slice of which every begin and end counts."""
    yield "masks=0", {}


_LEFT_OUT = object()


def _pool_windows(call: RecordedCall, given: Given) -> Options:
    x, out = given["x"].shape, shape_of_output(call)
    axes = len(x) - 2
    for size in (2, 3, 1, 4, 5, 7):
        kernel = tuple(min(size, n) if n > 1 else 1 for n in x[2:])
        strides = dict.fromkeys((size, 2, 1, 3))
        for stride, pads, dilation in _windows(x[2:], kernel, out[2:], tuple(strides)):
            if all(n == 1 for n in dilation) and all(sum(pair) <= k for pair, k in zip(pads, kernel, strict=True)):
                options = {"kernel": kernel, "stride": stride, "padding": pads}
                yield _told_windows(options), options
    if out[2:] == (1,) * axes:
        options = {"kernel": x[2:], "stride": (1,) * axes, "padding": ((0, 0),) * axes}
        yield _told_windows(options), options


def _told_windows(options: Mapping[str, Any]) -> str:
    def short(value: Any) -> str:
        if len(set(value)) > 1:
            return "x".join(map(short_one, value))
        return short_one(value[0])

    def short_one(value: Any) -> str:
        if isinstance(value, tuple):
            return str(value[0]) if value[0] == value[1] else f"{value[0]}+{value[1]}"
        return str(value)

    return ",".join(f"{name}={short(value)}" for name, value in options.items())


def _windows(
    x: tuple[int, ...], kernel: tuple[int, ...], out: tuple[int, ...], strides: tuple[int, ...]
) -> Iterator[tuple[tuple[int, ...], tuple[tuple[int, int], ...], tuple[int, ...]]]:
    """Strides, paddings and dilations that lead from a size to another: padded alike, as "same" pads, not at all."""
    seen = set()
    for dilation, stride in product((1, 2), strides):
        if dilation == 2 and all(k == 1 for k in kernel):
            continue
        ways = [_pads(*sizes, stride, dilation) for sizes in zip(x, kernel, out, strict=True)]
        for pads in _alike(ways):
            own = tuple(stride if k > 1 or n > 1 or o > 1 else 1 for k, n, o in zip(kernel, x, out, strict=True))
            found = (own, pads, (dilation,) * len(x))
            if found not in seen:
                seen.add(found)
                yield found


def _alike(ways: list[list[tuple[str, tuple[int, int]]]]) -> Iterator[tuple[tuple[int, int], ...]]:
    """One way of padding for all axes."""
    for kind in dict.fromkeys(kind for way in ways for kind, _ in way):
        chosen = [dict(way).get(kind) for way in ways]
        if all(pad is not None for pad in chosen):
            yield tuple(pad for pad in chosen if pad is not None)


def _pads(n: int, k: int, out: int, stride: int, dilation: int) -> list[tuple[str, tuple[int, int]]]:
    """(kind, (before, after)) of the paddings of one axis that give the recorded size."""
    span = dilation * (k - 1) + 1
    same = _same(n, k, stride, dilation)
    kinds = {"half": (span // 2,) * 2, "valid": (0, 0), "same": same}
    kinds |= {f"{p}": (p, p) for p in range(1, min(span, 4)) if p != span // 2}
    if k == 1 and n == 1:
        kinds = {kind: (0, 0) for kind in kinds}
    return [
        (kind, pads)
        for kind, pads in kinds.items()
        if (n + sum(pads) - span) // stride + 1 == out and n + sum(pads) >= span
    ]


def _same(n: int, k: int, stride: int, dilation: int) -> tuple[int, int]:
    """How "same" pads: as many windows as n / stride, rounded up; the odd one comes behind."""
    out = -(-n // stride)
    total = max((out - 1) * stride + dilation * (k - 1) + 1 - n, 0)
    return total // 2, total - total // 2


def _each(value: Any, count: int) -> tuple[int, ...]:
    if isinstance(value, (tuple, list)):
        return tuple(value[-count:]) if len(value) >= count else tuple(value) * count
    return (value,) * count


USUAL_VALUES = (
    *("epsilon", "batch_norm", "groups", "slope", "windows"),
    *("max_windows", "mean_windows", "no_dropout", "no_masks", "defaults"),
)
"""Options of which the usual values are tried; of the others all that can be meant."""

OPTIONS: Mapping[str, Callable[[RecordedCall, Given], Options]] = {
    function.__name__: function
    for function in (
        *(transposes, data_format, epsilon, batch_norm, groups, approximate, slope, axis, join_axis, stack_axis),
        *(split_axis, windows, max_windows, mean_windows, pad_mode, no_dropout, no_masks, defaults),
    )
}


def left_out(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments without those that an option takes away."""
    return {name: value for name, value in arguments.items() if value is not _LEFT_OUT}
