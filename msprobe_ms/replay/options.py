"""Options that a record does not contain: attributes of primitives and options of layers, as candidates to be tried.

Each function takes the call and the arguments that are bound already, by the names of the reference's parameters, and
gives pairs of a label and further arguments. Shapes rule candidates out. The usual values come first.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from typing import Any

from .recorded import CannotReplay, Cause, RecordedCall

Options = Iterable[tuple[str, dict[str, Any]]]
Bound = Mapping[str, Any]
Choose = Callable[[RecordedCall, Bound], Options]

MOST = 12
"""The number of candidates that are tried at most."""

NO_CHOICE: Options = (("", {}),)


def label_of(**options: Any) -> str:
    """Return the label of a candidate: `eps=1e-05,training=True`."""
    return ",".join(f"{name}={value}" for name, value in options.items())


def shape_of_output(call: RecordedCall) -> tuple[int, ...]:
    """Return the recorded shape of the first output; CannotReplay without one."""
    leaf = call.outputs.get(("0",))
    if leaf is None:
        raise CannotReplay(Cause.NOTHING_TO_MEASURE, call.name)
    return leaf.shape


def _each(**choices: Iterable[Any]) -> Options:
    """Return every combination of values, the last name's changing fastest."""
    for values in product(*choices.values()):
        options = dict(zip(choices, values, strict=True))
        yield label_of(**options), options


def transposes(call: RecordedCall, bound: Bound) -> Options:
    """transpose_a, transpose_b of a product."""
    a, b, out = bound["a"].shape, bound["b"].shape, shape_of_output(call)
    for second, first in product((False, True), (False, True)):
        rows, inner = (a[-1], a[-2]) if first else (a[-2], a[-1])
        other, columns = (b[-1], b[-2]) if second else (b[-2], b[-1])
        if inner == other and out[-2:] == (rows, columns):
            options = {"transpose_a": first, "transpose_b": second}
            yield label_of(**options), options


def data_format(call: RecordedCall, bound: Bound) -> Options:
    """Return the axis of a bias."""
    x, size = bound["x"].shape, bound["bias"].shape[0]
    if len(x) < 3 and x[-1] == size:
        yield "", {"data_format": "NHWC"}
        return
    for name, axis in (("NCHW", 1), ("NHWC", -1)):
        if x[axis] == size:
            yield f"data_format={name}", {"data_format": name}


def transposed_weights(call: RecordedCall, bound: Bound) -> Options:
    """Return whether the weights of a grouped product are transposed."""
    k, shape = bound["x"][0].shape[-1], bound["weight"][0].shape
    fitting = [each for each in (False, True) if shape[-1 if each else -2] == k]
    return [(label_of(transpose_b=each), {"transpose_b": each}) for each in fitting]


def nesterov(call: RecordedCall, bound: Bound) -> Options:
    """Momentum as it is, or Nesterov's."""
    return _each(nesterov=(False, True))


def usual_momentum(call: RecordedCall, bound: Bound) -> Options:
    """Return the same, where other attributes are at their defaults."""
    return _each(nesterov=(False, True))


def ahead(call: RecordedCall, bound: Bound) -> Options:
    """Return whether a kernel counts the steps from 0."""
    return _each(ahead=(0, 1))


def epsilon(call: RecordedCall, bound: Bound) -> Options:
    """Return the epsilon of a norm, where it was not recorded."""
    return NO_CHOICE if "eps" in bound else _each(eps=(1e-5, 1e-6, 1e-12, 1e-7, 1e-8, 1e-3))


def batch_norm(call: RecordedCall, bound: Bound) -> Options:
    """Training or not, and epsilon."""
    for training in (True, False) if bound.get("running_mean") is not None else (True,):
        yield from _each(eps=(1e-5, 1e-3, 1e-4, 1e-6), training=(training,))


def groups(call: RecordedCall, bound: Bound) -> Options:
    """Return the number of groups, and epsilon."""
    channels = bound["x"].shape[1]
    counts = dict.fromkeys(n for n in (32, 16, 8, 4, 2, 1, channels) if channels % n == 0)
    return _each(groups=counts, eps=(1e-5, 1e-6))


def approximate(call: RecordedCall, bound: Bound) -> Options:
    """Return the variant of GELU."""
    return _each(approximate=("none", "tanh"))


def slope(call: RecordedCall, bound: Bound) -> Options:
    """Return the slope of a leaky ReLU: PyTorch's default, MindSpore's, that of the YOLO paper."""
    return _each(negative_slope=(0.01, 0.2, 0.1))


def axis(call: RecordedCall, bound: Bound) -> Options:
    """Return the axis of a softmax."""
    axes = len(bound["x"].shape)
    return _each(dim=dict.fromkeys((-1, 1 - axes, *range(2 - axes, -1), -axes)))


def join_axis(call: RecordedCall, bound: Bound) -> Options:
    """Return the axis of a concatenation: the one whose size changes."""
    if "axis" in bound:
        return NO_CHOICE
    first, out = bound["tensors"][0].shape, shape_of_output(call)
    return _axes([i for i, (a, b) in enumerate(zip(first, out, strict=False)) if a != b] or list(range(len(out))))


def stack_axis(call: RecordedCall, bound: Bound) -> Options:
    """Return the new axis."""
    if "axis" in bound:
        return NO_CHOICE
    out, count, each = shape_of_output(call), len(bound["tensors"]), bound["tensors"][0].shape
    return _axes([i for i, n in enumerate(out) if n == count and (*out[:i], *out[i + 1 :]) == tuple(each)])


def _axes(found: list[int]) -> Options:
    return [(label_of(axis=value) if len(found) > 1 else "", {"axis": value}) for value in found]


def split_axis(call: RecordedCall, bound: Bound) -> Options:
    """Return the axis of a split into equal parts."""
    count, x, out = len(call.outputs), bound["x"].shape, shape_of_output(call)
    fitting = (i for i, (a, b) in enumerate(zip(x, out, strict=False)) if a == b * count and a != b)
    return [("", {"axis": next(fitting, 0), "count": count})]


def windows(call: RecordedCall, bound: Bound) -> Options:
    """Stride, padding and dilation of a convolution; groups follow from the weight."""
    x, weight, out = bound["x"].shape, bound["weight"].shape, shape_of_output(call)
    if len(weight) == 4 and len(x) == 3:  # MindSpore's Conv1d keeps four axes
        weight = (weight[0], weight[1], weight[3])
    if weight[1] == 0 or x[1] % weight[1]:
        return
    for stride, pads, dilation in _windows(x[2:], weight[2:], out[2:], (1, 2, 3, 4)):
        options = {"stride": stride, "padding": pads, "dilation": dilation}
        yield _label_of_windows(options), options | {"groups": x[1] // weight[1]}


def max_windows(call: RecordedCall, bound: Bound) -> Options:
    """Kernel, stride and padding of a pooling."""
    x, out = bound["x"].shape, shape_of_output(call)
    axes = len(x) - 2
    for size in (2, 3, 1, 4, 5, 7):
        kernel = tuple(min(size, n) if n > 1 else 1 for n in x[2:])
        strides = dict.fromkeys((size, 2, 1, 3))
        for stride, pads, dilation in _windows(x[2:], kernel, out[2:], tuple(strides)):
            if all(n == 1 for n in dilation) and all(sum(pair) <= k for pair, k in zip(pads, kernel, strict=True)):
                options = {"kernel": kernel, "stride": stride, "padding": pads}
                yield _label_of_windows(options), options
    if out[2:] == (1,) * axes:
        options = {"kernel": x[2:], "stride": (1,) * axes, "padding": ((0, 0),) * axes}
        yield _label_of_windows(options), options


def mean_windows(call: RecordedCall, bound: Bound) -> Options:
    """Kernel, stride, padding of a mean pooling, and whether padding counts."""
    for label, options in max_windows(call, bound):
        padded = any(n for pair in options["padding"] for n in pair)
        for counts in (True, False) if padded else (True,):
            more = f",count_include_pad={counts}" if padded else ""
            yield label + more, options | {"count_include_pad": counts}


def pad_mode(call: RecordedCall, bound: Bound) -> Options:
    """MindSpore's pad_mode of a function as (before, after); for "same" the odd element is after."""
    mode = bound.get("pad_mode") or "valid"
    kernel, x = bound["weight"].shape[2:], bound["x"].shape[2:]
    strides, dilations = _by_axis(bound.get("stride", 1), len(x)), _by_axis(bound.get("dilation", 1), len(x))
    if mode == "same":
        padding = [_same(*sizes) for sizes in zip(x, kernel, strides, dilations, strict=True)]
    elif mode == "valid":
        padding = [(0, 0)] * len(x)
    else:
        recorded = bound.get("padding", 0)
        is_pairs = isinstance(recorded, (tuple, list)) and len(recorded) == 2 * len(x)
        flat = list(recorded) if is_pairs else [n for n in _by_axis(recorded, len(x)) for _ in range(2)]
        padding = [(flat[2 * i], flat[2 * i + 1]) for i in range(len(x))]
    return [("", {"padding": tuple(padding), "pad_mode": None})]  # the reference does not accept pad_mode


def _by_axis(value: Any, count: int) -> tuple[int, ...]:
    if isinstance(value, (tuple, list)):
        return tuple(value[-count:]) if len(value) >= count else tuple(value) * count
    return (value,) * count


def _only(label: str) -> Choose:
    return lambda call, bound: [(label, {})]


no_dropout, defaults, no_masks = _only("p=0"), _only("defaults"), _only("masks=0")
"""A dropout that is off; a layer with its default options; a slice of which every begin and end counts."""


USUAL_VALUES = (
    *(epsilon, batch_norm, groups, slope, windows),
    *(max_windows, mean_windows, no_dropout, no_masks, defaults, usual_momentum),
)
"""Options of which the usual values are tried; of the others all that can be meant."""


def _label_of_windows(options: Mapping[str, Any]) -> str:
    """`kernel=3,stride=1x2,padding=0+1`: one value for axes that are alike, one for (before, after) that are alike."""

    def one(value: Any) -> str:
        if isinstance(value, tuple):
            return str(value[0]) if value[0] == value[1] else f"{value[0]}+{value[1]}"
        return str(value)

    return ",".join(
        f"{name}={'x'.join(map(one, value if len(set(value)) > 1 else [value[0]]))}" for name, value in options.items()
    )


def _windows(
    x: tuple[int, ...], kernel: tuple[int, ...], out: tuple[int, ...], strides: tuple[int, ...]
) -> Iterator[tuple[tuple[int, ...], tuple[tuple[int, int], ...], tuple[int, ...]]]:
    """Strides, paddings and dilations that lead from a size to another; all axes are padded in one way."""
    seen = set()
    for dilation, stride in product((1, 2), strides):
        if dilation == 2 and all(k == 1 for k in kernel):
            continue
        ways = [_pads(*sizes, stride, dilation) for sizes in zip(x, kernel, out, strict=True)]
        for way in dict.fromkeys(way for pads_by_way in ways for way in pads_by_way):
            if not all(way in pads_by_way for pads_by_way in ways):
                continue
            pads = tuple(pads_by_way[way] for pads_by_way in ways)
            own = tuple(stride if k > 1 or n > 1 or o > 1 else 1 for k, n, o in zip(kernel, x, out, strict=True))
            found = (own, pads, (dilation,) * len(x))
            if found not in seen:
                seen.add(found)
                yield found


def _pads(n: int, k: int, out: int, stride: int, dilation: int) -> dict[str, tuple[int, int]]:
    """Return the paddings (before, after) of one axis that give the recorded size, by the way of padding."""
    span = dilation * (k - 1) + 1
    ways = {"half": (span // 2,) * 2, "valid": (0, 0), "same": _same(n, k, stride, dilation)}
    ways |= {f"{p}": (p, p) for p in range(1, min(span, 4)) if p != span // 2}
    if k == 1 and n == 1:
        ways = dict.fromkeys(ways, (0, 0))
    return {
        way: pads for way, pads in ways.items() if (n + sum(pads) - span) // stride + 1 == out and n + sum(pads) >= span
    }


def _same(n: int, k: int, stride: int, dilation: int) -> tuple[int, int]:
    """Return the padding of "same": n / stride windows, rounded up; the odd element is after."""
    out = -(-n // stride)
    total = max((out - 1) * stride + dilation * (k - 1) + 1 - n, 0)
    return total // 2, total - total // 2
