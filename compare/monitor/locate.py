"""Find the stage, target and rank that explain the others at the step at which the band is left."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from msprobe.findings.catalogue import monitor as stages
from msprobe.findings.kind import Kind
from msprobe.store.monitor.layout import KINDS

from .band import LIMITS, Bands, Basis, first_step_apart, is_input, plain
from .deviations import OF_UPDATES, UPDATE, Deviations
from .finding import Cause, MonitorDivergence, OfStage

_BACKWARD = (stages.ACTIVATION_GRADIENT, stages.UNREDUCED)
_ORDER = {
    stages.BEFORE_UPDATE: 0,
    stages.ACTIVATION: 1,
    stages.LOSS: 2,
    stages.ACTIVATION_GRADIENT: 3,
    stages.UNREDUCED: 3,
    stages.COLLECTIVE: 4,
    stages.REDUCED: 5,
    stages.MOMENT: 6,
    stages.AFTER_UPDATE: 7,
}
"""Order of the stages in a step, which starts with its weights; moments are measured before their update."""

_LOCAL_NORM = ("local", "grad_norm")
_STATISTICS = ("norm", "value", "mean", "max", "min")
_ONE_FACTOR = 1e-3  # relative: of ratios that are one, up to the digits of the files


def order_of(stage: Kind) -> int:
    """Return the place of a stage in the order of a training step."""
    return _ORDER[stage]


def stage_of(kind: str, name: str = "") -> Kind:
    """Return the stage of a kind; changes by an update are seen after it, the norm of a rank's gradients with the
    gradients."""
    if (kind, name) == _LOCAL_NORM:
        return stages.UNREDUCED
    return stages.AFTER_UPDATE if kind == UPDATE else KINDS[kind].stage


@dataclass(frozen=True)
class _Out:
    """A target that leaves at the step in one statistic; `strength` is the deviation in widths of its band."""

    of: Deviations
    row: int
    column: int
    strength: float

    @property
    def kind(self) -> str:
        return self.of.kind

    @property
    def name(self) -> str:
        return self.of.names[self.row]

    @property
    def stage(self) -> Kind:
        return stage_of(self.kind, self.name)

    @property
    def value(self) -> float:
        return float(self.of.value[self.row, self.column])

    @property
    def factor(self) -> float | None:
        b = float(self.of.b[self.row, self.column])
        return float(self.of.a[self.row, self.column]) / b if b else None


class Locator:
    """Finds the answer for one pair."""

    def __init__(self, measured: Sequence[Deviations], how: Bands):
        self.measured, self.how = measured, how
        names = [d for d in measured if d.kind == "actv"] or [d for d in measured if d.kind == "actv_grad"]
        modules = list(dict.fromkeys(plain(name) for d in names for name in d.names))
        self._depth = {name: at for at, name in enumerate(modules)}
        if names and names[0].kind == "actv_grad":
            self._depth = {name: len(modules) - at for name, at in self._depth.items()}
        self._last_micro_step = max((int(d.micro_step.max(initial=0)) for d in measured), default=0)
        of_kind = {d.kind: d.names for d in reversed(measured)}
        # Of all kinds of parameters, only unreduced gradients are written in the order of the backward pass.
        parameters = of_kind.get("param_origin") or of_kind.get("grad_unreduced", ())[::-1]
        parameters = parameters or of_kind.get("grad_reduced", ())
        last = -1.0
        self._depth_of_parameter: dict[str, float] = {}
        for at, name in enumerate(parameters):
            known = self._module_of(name)
            last = last if known is None else known
            self._depth_of_parameter[name] = last + (at + 1) * 1e-6 if self._depth else float(at)

    def finding(self, step: int) -> MonitorDivergence:
        """Return the answer at a step that leaves, or at the previous update if the weights already differ."""
        out = self._leaving(step)
        earlier = self._update_before(step, out)
        if earlier is not None:
            step, out = earlier
        chosen = self._first_stage(out)
        first = self._first_target(chosen)
        return self._answer(step, first, chosen, out, self.how.basis)

    def finding_of_first_step(self) -> MonitorDivergence | None:
        """Return the answer if the sides differ in their first step by more than any rounding."""
        apart = first_step_apart(self.measured)
        if not apart or self.how.basis is Basis.CALIBRATED:
            return None
        step = min(int(d.step[0]) for d in apart)
        out = [
            _Out(d, int(row), 0, float(abs(d.value[row, 0]) / LIMITS.first_step))
            for d in apart
            if int(d.step[0]) == step
            for row in np.flatnonzero(np.abs(d.value[:, 0]) > LIMITS.first_step)
        ]
        chosen = self._first_stage(out)
        return self._answer(step, self._first_target(chosen), chosen, out, Basis.FIRST_STEP)

    def stages(self, step: int | None) -> tuple[OfStage, ...]:
        """Return for every kind the number of targets that leave at the step, and the first step from there on at which
        it leaves."""
        found = []
        for kind in dict.fromkeys(d.kind for d in self.measured):
            of_kind = [d for d in self.measured if d.kind == kind]
            left, firsts = set(), []
            for d in of_kind:
                after = len(d.step) if step is None else int(np.searchsorted(d.step, step))
                out = self.how.leaves(d, after, min(after + LIMITS.window, len(d.step)))
                columns = np.flatnonzero(out.any(axis=0))
                if len(columns):
                    firsts.append(int(d.step[after + columns[0]]))
                at = np.flatnonzero(d.step[after : after + out.shape[1]] == step)
                left |= {(d.rank, d.names[row]) for row in np.flatnonzero(out[:, at].any(axis=1))}
            targets = {(d.rank, name) for d in of_kind for name in d.names}
            found.append(OfStage(kind, stage_of(kind), len(left), len(targets), min(firsts, default=None)))
        return tuple(sorted(found, key=lambda each: _ORDER[each.stage]))

    def _leaving(self, step: int, factor: float = 1.0) -> list[_Out]:
        found = []
        for d in self.measured:
            for column in np.flatnonzero(d.step == step):
                out = self.how.leaves(d, int(column), int(column) + 1, factor)[:, 0]
                if not out.any():
                    continue
                limit = self.how.limit(d, int(column), int(column) + 1)[:, 0]
                for row in np.flatnonzero(out):
                    strength = float(abs(d.value[row, column])) / max(float(limit[row]), 1e-30)
                    found.append(_Out(d, int(row), int(column), strength))
        return found

    def _update_before(self, step: int, out: Sequence[_Out]) -> tuple[int, list[_Out]] | None:
        """Return the previous step, if the update left the band slightly and its effects show it: the weights or all
        activations that it led to."""
        if self.how.basis is Basis.EQUAL:
            return None
        known = (stages.ACTIVATION, stages.BEFORE_UPDATE, *_BACKWARD, stages.LOSS)
        if not out or self._first_stage(out)[0].stage not in known:
            return None
        steps = np.unique(np.concatenate([d.step for d in self.measured]))
        at = int(np.searchsorted(steps, step))
        if at == 0:
            return None
        before = int(steps[at - 1])
        faint = [o for o in self._leaving(before, LIMITS.faint / LIMITS.jump) if o.stage is stages.AFTER_UPDATE]
        same = {o.name for o in faint}
        weights = {o.name for o in out if o.stage is stages.BEFORE_UPDATE}
        is_of_weights = len(weights) >= LIMITS.targets and bool(same & weights)
        return (before, faint) if is_of_weights or len(same) >= LIMITS.targets else None

    def _first_stage(self, out: Sequence[_Out]) -> list[_Out]:
        """Return the targets of the first stage among those with more than one number outside or one far outside."""
        by_order: dict[tuple[int, int, int], list[_Out]] = {}
        for o in out:
            order = _ORDER[o.stage]
            # Forward and backward passes alternate, a micro step after the other; sums are known after the last.
            micro = int(o.of.micro_step[o.column])
            if o.stage is stages.UNREDUCED and not o.of.micro_step.any():
                micro = self._last_micro_step
            by_order.setdefault((1, micro, order) if 1 <= order <= 3 else (order, 0, 0), []).append(o)
        ordered = [by_order[key] for key in sorted(by_order)]
        if self.how.basis is Basis.EQUAL:
            return self._without_chance_weights(ordered)[0]
        sure = [each for each in ordered if len(each) > 1 or each[0].strength > LIMITS.alone / LIMITS.jump]
        return (self._without_chance_weights(sure) or sure or ordered)[0]

    def _without_chance_weights(self, ordered: list[list[_Out]]) -> list[list[_Out]]:
        """Return the stages without the weights of the step, unless they are many, or all weights of a small net."""
        if not ordered or ordered[0][0].stage is not stages.BEFORE_UPDATE or self.how.basis is Basis.EQUAL:
            return ordered
        names = {o.name for o in ordered[0]}
        return ordered if len(names) >= LIMITS.targets or len(ordered) == 1 else ordered[1:]

    def _first_target(self, chosen: Sequence[_Out]) -> _Out:
        """Return the target that explains the others of its stage: the first in execution order, or, backward, the
        last."""
        stage = chosen[0].stage
        if stage in _BACKWARD:
            best = max(chosen, key=lambda o: (self._backward(o), -_rank_of(o), o.strength))
        elif stage in (stages.ACTIVATION, stages.LOSS, stages.COLLECTIVE):
            best = min(chosen, key=lambda o: (o.row, o.of.rank))
        else:
            best = max(chosen, key=lambda o: o.strength)
        same = [o for o in chosen if o.name == best.name and o.of.kind == best.of.kind]
        known = {o.of.statistic: o for o in sorted(same, key=lambda o: o.strength)}
        return next((known[statistic] for statistic in _STATISTICS if statistic in known), best)

    def _backward(self, out: _Out) -> tuple[float, int]:
        return self._backward_of(out.kind, out.name)

    def _backward_of(self, kind: str, name: str) -> tuple[float, int]:
        """Return the position of a target in the forward pass: the largest runs backward first. Within one module, the
        gradient of its output comes first, then its parameters', then its input's."""
        if stage_of(kind, name) is stages.UNREDUCED:
            return self._depth_of_parameter.get(name, -1.0) // 1, 1
        return float(self._depth.get(plain(name), -1)), 0 if is_input(name) else 2

    def _called(self, name: str) -> tuple[str, ...]:
        """Return the module of a target, or, if calls were monitored, the innermost called module around it.

        If calls were not monitored, also the module around it: a parameter may belong to a module that another one uses
        (`self_attn.out_proj` of PyTorch). Empty if only the whole network shows it.
        """
        module = plain(name)
        if module in self._depth:
            # An input is computed outside its module, and its gradient is used there.
            outer = module.rpartition(".")[0]
            return (module,) if not is_input(name) else (module, outer) if outer else ()
        path = name.split(".")[:-1]
        for length in range(len(path), 0, -1):
            if ".".join(path[:length]) in self._depth:
                return (".".join(path[:length]),)
        around = path[:-1] if path and not path[-1].isdigit() else []
        return ".".join(path), ".".join(around)

    def _module_of(self, name: str) -> float | None:
        path = name.split(".")
        for length in range(len(path) - 1, 0, -1):
            prefix = ".".join(path[:length])
            if prefix in self._depth:
                return float(self._depth[prefix])
            inside = [at for module, at in self._depth.items() if module.startswith(f"{prefix}.")]
            if inside:
                return float(min(inside))
        return None

    def _answer(self, step: int, first: _Out, chosen: list[_Out], out: list[_Out], basis: Basis) -> MonitorDivergence:
        d = first.of
        of_kind = [o for o in chosen if o.kind == first.kind or {o.kind, first.kind} <= {*OF_UPDATES, "param_updated"}]
        same = [o for o in of_kind if o.name == first.name]
        ranks = tuple(sorted({o.of.rank for o in same}))
        names = {o.name for o in of_kind if o.of.rank == d.rank}
        factors = [o.factor for o in of_kind if o.of.statistic == "norm" and o.kind != UPDATE and o.factor is not None]
        middle = median(factors) if factors else None
        is_common = middle is not None and all(abs(f - middle) <= _ONE_FACTOR * abs(middle) for f in factors)
        with_norm = next((o for o in same if o.of.statistic == "norm" and o.kind == first.kind), None)
        agreeing = self._agreeing(first, out, step)
        called = self._called(first.name)
        limit = (
            self.how.limit(d, first.column, first.column + 1)[first.row, 0]
            if basis is not Basis.FIRST_STEP
            else (LIMITS.first_step)
        )
        return MonitorDivergence(
            stage=first.stage,
            kind=first.kind,
            target=first.name,
            step=step,
            micro_step=int(d.micro_step[first.column]),
            ranks=ranks,
            statistic=d.statistic,
            a=float(d.a[first.row, first.column]),
            b=float(d.b[first.row, first.column]),
            deviation=first.value,
            limit=float(limit),
            factor=with_norm.factor if with_norm is not None else first.factor,
            has_common_factor=is_common and len(factors) > 1,
            left=len(names),
            targets=len(d.names),
            agreeing=agreeing,
            modules=tuple(dict.fromkeys(m for m in (*called, *self._called(agreeing)) if m)) if called else (),
            cause=self._cause(first, names, ranks, is_common, out),
            basis=basis,
            is_of_digits=all(abs(o.value) <= LIMITS.digits * o.of.resolution[o.row, o.column] for o in out),
        )

    def _has_forward(self) -> bool:
        """Return whether anything of the forward pass was monitored."""
        forward = (stages.ACTIVATION, stages.LOSS)
        return any(stage_of(d.kind, name) in forward for d in self.measured for name in d.names)

    def _agreeing(self, first: _Out, out: list[_Out], step: int) -> str:
        """Return in a backward pass the previous gradient, which agrees."""
        if first.stage not in _BACKWARD:
            return ""
        same = [d for d in self.measured if d.rank == first.of.rank and step in d.step]
        of_activations = [d for d in same if d.kind == "actv_grad"]
        kind = "actv_grad" if of_activations else "grad_unreduced"
        left = {o.name for o in out if o.kind == kind}
        here = self._backward(first)
        candidates = [
            (self._backward_of(d.kind, name), name)
            for d in of_activations or (d for d in same if d.kind == kind)
            for name in d.names
            if name not in left
        ]
        return min((each for each in candidates if each[0] > here), default=((0.0, 0), ""))[1]

    def _cause(self, first: _Out, names: set[str], ranks: tuple[int, ...], is_common: bool, out: list[_Out]) -> Cause:
        stage, targets = first.stage, len(first.of.names)
        is_all = len(names) >= 0.8 * targets
        kinds = {d.kind for d in self.measured}
        if stage in _BACKWARD:
            agreeing = self._agreeing(first, out, int(first.of.step[first.column]))
            if agreeing:
                return Cause.BACKWARD
            norms = [o.factor for o in out if o.stage in _BACKWARD and o.of.statistic == "norm" and o.factor]
            middle = median(norms) if norms else 1.0
            near = [abs(f - middle) <= 10 * _ONE_FACTOR * abs(middle) for f in norms]
            if is_all and abs(middle - 1) > _ONE_FACTOR and near and sum(near) >= 0.9 * len(near):
                return Cause.LOSS_SCALE
            if stage is stages.ACTIVATION_GRADIENT:
                return Cause.LOSS_GRADIENT
            is_first = all(self._backward(first) >= self._backward_of(first.kind, name) for name in first.of.names)
            return Cause.ANYTHING_BEFORE if is_first and not self._has_forward() else Cause.BACKWARD
        if stage is stages.ACTIVATION:
            return Cause.DATA if first.row == 0 else Cause.FORWARD
        if stage is stages.REDUCED:
            if "grad_unreduced" not in kinds:
                return Cause.GRADIENT
            of_ranks = {d.rank for d in self.measured}
            return Cause.LOCAL_REDUCTION if len(ranks) < len(of_ranks) else Cause.REDUCTION
        if stage is stages.AFTER_UPDATE:
            updated = {o.name for o in out if o.stage is stages.AFTER_UPDATE and o.of.rank == first.of.rank}
            return Cause.UPDATE_OF_ALL if len(updated) >= 0.8 * targets else Cause.UPDATE_OF_SOME
        return {
            stages.LOSS: Cause.LOSS,
            stages.COLLECTIVE: Cause.COLLECTIVE,
            stages.MOMENT: Cause.MOMENTS,
            stages.BEFORE_UPDATE: Cause.WEIGHTS,
        }[stage]


def _rank_of(out: _Out) -> int:
    return out.of.rank
