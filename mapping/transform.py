"""Layout transforms: how the other framework lays out the same tensor, written as a small text.

```
transform  step {" | " step}            transpose(1, 0) | reshape(4, -1)
step       name ["(" [number {"," number}] ")"]
```

| step | array | note |
|---|---|---|
| `transpose(a, b, ...)` | axes in this order; reversed without numbers | |
| `reshape(n, ...)` | sizes, one of them may be -1 | |
| `flatten(start, stop)` | axes `start` to `stop` become one; the defaults are 0 and -1 | |
| `squeeze(axis)` `unsqueeze(axis)` | removes, or adds, an axis of size 1 | |
| `flip(axis, ...)` | elements in reverse order | |
| `slice(axis, start, stop)` | a part of an axis, as in Python; `none` for an open end | no inverse |
| `split(axis, index, count)` | part `index` of `count` equal parts | no inverse |
| `concat(axis)` | joins a list of arrays into one | no inverse |
| `complement` | 1 - x | of a number too |
| `negate` | -x | of a number too |
| `reverse` | a list in reverse order | of a list of numbers |

Only these words are accepted; text is never evaluated. A tensor's dtype does not change.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from msprobe.base.errors import MappingError

Shape = tuple[int, ...]
Numbers = tuple[int | None, ...]

_STEP = re.compile(r"(\w+)(?:\(([^()]*)\))?")


@dataclass(frozen=True)
class Step:
    """One word of the notation with its numbers."""

    name: str
    numbers: Numbers

    def __str__(self) -> str:
        return f"{self.name}({', '.join(str(n).lower() for n in self.numbers)})" if self.numbers else self.name


@dataclass(frozen=True)
class Transform:
    """Steps that are applied in sequence; the identity without any."""

    steps: tuple[Step, ...] = ()

    def __str__(self) -> str:
        return " | ".join(map(str, self.steps))

    def __bool__(self) -> bool:
        return bool(self.steps)

    @property
    def is_layout(self) -> bool:
        """Return whether it only moves elements: then a gradient has the same layout."""
        return all(step.name not in _VALUES for step in self.steps)

    def __call__(self, value: Any) -> Any:
        """Return the value in the other layout: an array, a list of arrays for `concat`, or a number if that is
        defined.

        Raise a MappingError if the value does not have the axes or sizes that a step needs.
        """
        for step in self.steps:
            try:
                value = _WORDS[step.name].apply(value, *step.numbers)
            # so numpy raises an error for sizes that do not fit
            except (ValueError, TypeError, IndexError, AttributeError) as err:
                kind = f"tensor of shape {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
                raise MappingError(
                    f"transform {str(self)!r}: {step} cannot be applied to a {kind} ({err}); correct the transform"
                ) from err
        return value

    def shape(self, shape: Any) -> Shape:
        """Return the shape of the result, from the shape (for `concat` the list of shapes) of the input.

        Memory of that size is not allocated. Raise the MappingErrors of a call.
        """
        value: Any = [_hollow(s) for s in shape] if shape and not isinstance(shape[0], int) else _hollow(shape)
        for step in self.steps:
            if step.name == "concat":
                value = _hollow(_concat_shape(value, step))
            elif step.name not in _VALUES:
                value = Transform((step,))(value)
        return tuple(int(n) for n in value.shape)

    def inverse(self, shape: Shape) -> "Transform | None":
        """Return the transform that converts the result for a tensor of this shape back; None if a step loses elements
        or joins tensors."""
        back: list[Step] = []
        for step in self.steps:
            undo = _WORDS[step.name].undo
            if undo is None:
                return None
            back.insert(0, undo(shape, step.numbers))
            shape = Transform((step,)).shape(shape)
        return Transform(tuple(back))


IDENTITY = Transform()


@lru_cache(maxsize=1024)
def parse(text: str) -> Transform:
    """Parse a transform; raise a MappingError for an unknown word or a wrong count of numbers."""
    return Transform(tuple(_step(part.strip(), text) for part in text.split("|"))) if text.strip() else IDENTITY


def _step(part: str, text: str) -> Step:
    found = _STEP.fullmatch(part)
    if found is None or found[1] not in _WORDS:
        raise MappingError(f"transform {text!r}: {part!r} is not a step; choose from {', '.join(sorted(_WORDS))}")
    name, inner = found[1], (found[2] or "").strip()
    try:
        numbers = tuple(None if n.strip() in ("none", "None") else int(n) for n in inner.split(",")) if inner else ()
    except ValueError:
        raise MappingError(f"transform {text!r}: {inner!r} are not integers; write for example {name}(1, 0)") from None
    least, most = _WORDS[name].least, _WORDS[name].most
    if not least <= len(numbers) <= most or (None in numbers and name != "slice"):
        wanted = str(least) if least == most else f"at least {least}"
        raise MappingError(
            f"transform {text!r}: {name} takes {wanted} numbers, not {len(numbers)}; see the documentation of "
            "transforms"
        )
    return Step(name, numbers)


def _flatten(array: Any, start: int = 0, stop: int = -1) -> Any:
    first, last = start % max(array.ndim, 1), stop % max(array.ndim, 1)
    if last < first:
        raise ValueError(f"axis {stop} is before axis {start}")
    return np.reshape(array, (*array.shape[:first], math.prod(array.shape[first : last + 1]), *array.shape[last + 1 :]))


def _slice(array: Any, axis: int, start: int | None, stop: int | None) -> Any:
    part: list[Any] = [slice(None)] * array.ndim
    part[axis] = slice(start, stop)
    return array[tuple(part)]


def _split(array: Any, axis: int, index: int, count: int) -> Any:
    size, rest = divmod(array.shape[axis], count)
    if rest or not 0 <= index < count:
        raise ValueError(f"axis {axis} of size {array.shape[axis]} has no part {index} of {count} equal parts")
    return _slice(array, axis, index * size, (index + 1) * size)


def _complement(value: Any) -> Any:
    is_mask = isinstance(value, np.ndarray) and value.dtype.kind == "b"
    return np.logical_not(value) if is_mask else 1 - value


def _untranspose(shape: Shape, axes: Sequence[Any]) -> Step:
    order = [axis % len(shape) for axis in axes]
    return Step("transpose", tuple(order.index(axis) for axis in range(len(order))))


@dataclass(frozen=True)
class _Word:
    """A step's effect, its number of arguments, and the step that inverts it on a tensor of some shape."""

    apply: Callable[..., Any]
    least: int = 0
    most: int = 0
    undo: Callable[[Shape, Any], Step] | None = None


_MANY = 32  # numpy's own limit of axes
_VALUES = ("complement", "negate", "reverse")
"""Words that change values and do not move elements."""

_WORDS = {
    "transpose": _Word(lambda array, *axes: np.transpose(array, axes or None), 0, _MANY, _untranspose),
    "reshape": _Word(lambda array, *sizes: np.reshape(array, sizes), 1, _MANY, lambda s, _: Step("reshape", s)),
    "flatten": _Word(_flatten, 0, 2, lambda shape, _: Step("reshape", shape)),
    "squeeze": _Word(np.squeeze, 1, 1, lambda _, axis: Step("unsqueeze", axis)),
    "unsqueeze": _Word(np.expand_dims, 1, 1, lambda _, axis: Step("squeeze", axis)),
    "flip": _Word(lambda array, *axes: np.flip(array, axes), 1, _MANY, lambda _, axes: Step("flip", axes)),
    "slice": _Word(_slice, 3, 3),
    "split": _Word(_split, 3, 3),
    "concat": _Word(lambda arrays, axis: np.concatenate(list(arrays), axis), 1, 1),
    "complement": _Word(_complement, undo=lambda *_: Step("complement", ())),
    "negate": _Word(lambda value: -value, undo=lambda *_: Step("negate", ())),
    "reverse": _Word(lambda value: type(value)(reversed(value))),
}


def _hollow(shape: Sequence[int]) -> Any:
    """Return an array of this shape over a single byte of memory."""
    if any(n < 0 for n in shape):
        raise MappingError(f"shape {tuple(shape)}: a size is negative")
    return np.broadcast_to(np.zeros((), np.int8), tuple(shape))


def _concat_shape(arrays: Any, step: Step) -> Shape:
    """Return the shape of a concatenation by numpy, computed on a row through each: the joined axis has the total
    length."""
    [axis] = step.numbers
    rows = [_slice(a, axis, 0, 0) if isinstance(axis, int) and -a.ndim <= axis < a.ndim else a for a in arrays]
    joined = list(Transform((step,))(rows).shape)
    joined[axis or 0] = sum(a.shape[axis or 0] for a in arrays)
    return tuple(joined)
