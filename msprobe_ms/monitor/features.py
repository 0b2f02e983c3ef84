"""Features of attention, linear and router layers (`recording_l2_features`): one number per layer describes its state.

| hook | of a module | numbers |
|---|---|---|
| `attention_hook` | whose first inputs are q and k | `entropy`, `softmax_max`: means over the queries of the entropy of causal attention and of its greatest weight, of the first sample and head |
| `linear_hook` | with a `weight` | `kernel_norm`, the spectral norm, and `sr`, the Frobenius norm divided by it |
| `moe_router_weight_hook` | with a `weight`, a row per expert | `router_weight_similarity`: mean cosine of two experts' rows |
| `moe_router_logit_hook` | that returns logits, experts last | `per_token_expert_entropy`: mean entropy of the softmax |

Computed on the host in float64, by numpy, whatever made the tensors.
"""  # noqa: E501  # a table

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from msprobe.base.errors import UsageError
from msprobe.base.framework import AnyModule
from msprobe.base.nested import tree_of
from msprobe.base.patches import Handle
from msprobe.base.statistic import widen

from .backend import Backend, Numbers
from .guard import Guard
from .names import Targets
from .readings import Key, Readings

ATTENTION, LINEAR = "attention_hook", "linear_hook"
ROUTER_WEIGHT, ROUTER_LOGIT = "moe_router_weight_hook", "moe_router_logit_hook"
SUFFIX = {ATTENTION: "attention", LINEAR: "linear", ROUTER_WEIGHT: "moe_router", ROUTER_LOGIT: "moe_router"}
"""The suffixes of the names of rows, by hook."""

ORDERS = ("s,b,h,d", "b,s,h,d")
"""`sa_order`: the axes of q and k."""

_ROWS = 512  # queries at a time: their weights for all keys are in memory at once
_BLOCK = 8  # vectors of the iteration for a spectral norm
_EXACT = 128  # sides up to this: singular values directly
_ITERATIONS = 200
_CONVERGED = 1e-9


def attention(q: Numbers, k: Numbers, order: str) -> list[float]:
    """Return the mean entropy and the mean greatest weight of causal attention, of the first sample and head.

    q and k have 4 axes in `order`. The last query attends to all keys. ValueError for other shapes.
    """
    if q.ndim != 4 or k.ndim != 4 or q.shape[-1] != k.shape[-1]:
        raise ValueError(
            f"q {q.shape} and k {k.shape} do not have the axes {order}; give the module that receives them"
        )
    first = (slice(None), 0, 0) if order == ORDERS[0] else (0, slice(None), 0)
    queries, keys = (np.asarray(widen(each[first]), np.float64) for each in (q, k))
    scores_of = keys.T / np.sqrt(q.shape[-1])
    seen = len(keys) - len(queries)  # keys in a cache, before the first query
    entropies, greatest = [], []
    for begin in range(0, len(queries), _ROWS):
        scores = queries[begin : begin + _ROWS] @ scores_of
        at = np.arange(begin, begin + len(scores))[:, None]
        scores[np.arange(len(keys))[None, :] > np.maximum(at + seen, 0)] = -np.inf
        weights = _softmax(scores)
        entropies.append(_entropy(weights))
        greatest.append(weights.max(-1))
    if not entropies:
        return [float("nan")] * 2
    return [float(np.concatenate(each).mean()) for each in (entropies, greatest)]


def linear(weight: Numbers) -> list[float]:
    """Return `sr`, the Frobenius norm divided by the spectral norm, and `kernel_norm`, the spectral norm, of a matrix.

    Axes after the first are one. A weight of zeros has an `sr` of NaN.
    """
    wide = np.asarray(widen(weight), np.float64)
    matrix = wide.reshape(len(wide), -1) if wide.ndim else wide.reshape(1, 1)
    spectral = spectral_norm(matrix)
    whole = float(np.sqrt(np.square(matrix).sum()))
    return [whole / spectral if spectral else float("nan"), spectral]


def spectral_norm(matrix: Numbers) -> float:
    """Return the greatest singular value: exact if one side is short, else by subspace iteration.

    The iteration begins with fixed vectors, so no generator is used.
    """
    if not matrix.size or not np.isfinite(matrix).all():
        return float("nan")
    if min(matrix.shape) <= _EXACT:
        small = matrix @ matrix.T if len(matrix) <= matrix.shape[1] else matrix.T @ matrix
        return float(np.sqrt(max(np.linalg.eigvalsh(small)[-1], 0.0)))
    vectors = np.random.Generator(np.random.PCG64(0)).standard_normal((matrix.shape[1], _BLOCK))
    before = 0.0
    for _ in range(_ITERATIONS):
        base = np.linalg.qr(vectors)[0]
        images = matrix @ base
        found = float(np.linalg.norm(images, 2))
        if abs(found - before) <= _CONVERGED * found:
            break
        before, vectors = found, matrix.T @ images
    return found


def router_weight(weight: Numbers) -> list[float]:
    """Return the mean cosine of two different rows; NaN for fewer than two."""
    rows = np.asarray(widen(weight), np.float64).reshape(len(weight), -1)
    if len(rows) < 2:
        return [float("nan")]
    norms = np.sqrt(np.square(rows).sum(1, keepdims=True))
    unit = rows / np.maximum(norms, np.finfo(np.float64).tiny)
    cosines = unit @ unit.T
    return [float((cosines.sum() - np.trace(cosines)) / (len(rows) * (len(rows) - 1)))]


def router_logit(logits: Numbers) -> list[float]:
    """Return the mean entropy of the softmax over the last axis; NaN without tokens."""
    rows = np.asarray(widen(logits), np.float64).reshape(-1, logits.shape[-1])
    return [float(_entropy(_softmax(rows)).mean()) if rows.size else float("nan")]


def _softmax(scores: Numbers) -> Numbers:
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def _entropy(weights: Numbers) -> Numbers:
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(weights == 0, 0.0, weights * np.log(weights))
    return np.asarray(-terms.sum(-1))


class Features:
    """Hooks the modules of `l2_targets` while installed."""

    def __init__(self, backend: Backend, readings: Readings, guard: Guard, order: str) -> None:
        self._backend, self._readings, self._guard, self._order = backend, readings, guard, order
        self._handles: list[Handle] = []
        self._calls: dict[Key, int] = {}
        self.active = False

    def install(self, models: Sequence[AnyModule], targets: Mapping[str, Sequence[str]]) -> int:
        """Hook the modules; return their number. UsageError for names that no module has."""
        count = 0
        for hook, names in targets.items():
            known = {name for each in names for name in (each, each.partition(":")[2]) if name}
            choice, found = Targets(names), set[str]()
            for vpp_stage, model in enumerate(models):
                for name, module in self._backend.modules.inside(model):
                    if names and choice.has_module(vpp_stage, name):
                        found.add(name)
                        self._hook(hook, Key(vpp_stage, name), module)
            if names and not found:
                raise UsageError(
                    f"set_monitor(): l2_targets: {hook}: there is no module {' or '.join(sorted(known))}; use "
                    "names from model.named_modules() or cells_and_names()"
                )
            count += len(found)
        return count

    def _hook(self, hook: str, key: Key, module: AnyModule) -> None:
        measure = {
            ATTENTION: self._attention,
            LINEAR: self._of_weight(linear),
            ROUTER_WEIGHT: self._of_weight(router_weight),
            ROUTER_LOGIT: self._logits,
        }[hook]
        name = Key(key.vpp_stage, f"{key.name}.{SUFFIX[hook]}")

        def note(given: Any, result: Any) -> None:
            place = Key(*name[:2], self._count(hook, name)) if hook in (ATTENTION, ROUTER_LOGIT) else name
            numbers = measure(module, given, result)
            if numbers is not None:
                self._readings.values(hook, place, numbers)

        def after(args: Any, kwargs: Any, result: Any) -> None:
            if self.active and not self._guard.is_busy and self._backend.modules.is_training(module):
                self._backend.settle()
                self._guard.run(f"{hook} of {key.name}", note, (args, kwargs), result)

        self._handles += self._backend.modules.hook(module, _nothing, after)

    def _count(self, hook: str, name: Key) -> int:
        key = Key(name.vpp_stage, f"{hook} {name.name}")
        self._calls[key] = self._calls.get(key, -1) + 1
        return self._calls[key]

    def _attention(self, _: Any, given: Any, __: Any) -> list[float]:
        tensors = tree_of([given]).tensors
        if len(tensors) < 2:
            raise ValueError("q and k are not its first two inputs; give the module that receives them")
        q, k = (self._backend.array(tensor) for _, tensor in tensors[:2])
        return attention(q, k, self._order)

    def _of_weight(self, feature: Callable[[Numbers], list[float]]) -> Callable[..., list[float] | None]:
        def measure(module: AnyModule, *_: Any) -> list[float]:
            weight = getattr(module, "weight", None)
            if weight is None:
                raise ValueError(f"a {type(module).__name__} has no weight; give the layer that has it")
            return feature(self._backend.array(weight))

        return measure

    def _logits(self, _: Any, __: Any, result: Any) -> list[float]:
        tensors = tree_of([result]).tensors
        if not tensors:
            raise ValueError("it does not return a tensor; give the module that returns the logits")
        return router_logit(self._backend.array(tensors[0][1]))

    def end_step(self) -> None:
        """Discard open calls after the optimizer has run."""
        self._calls.clear()

    def remove(self) -> None:
        """Remove all hooks."""
        self.end_step()
        while self._handles:
            self._handles.pop().remove()


def _nothing(*_: Any) -> None:
    """Do nothing before a call."""
