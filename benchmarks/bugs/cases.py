"""Which pairs of dumps the bench has: every fault in every regime, and clean pairs."""

from dataclasses import dataclass, replace
from typing import Any

from fault import SETS, Fault, load

CELLS = "L0-"
"""The regimes that start with it record cells alone (level L0), so that calls inside of them are unknown."""

REGIMES = (
    "bit-equal",
    "order",
    "precision",
    "reruns",
    "pytorch",
    "rewrite",
    "later",
    "L0-order",
    "L0-precision",
    "L0-reruns",
)
TASKS = ("tensor", "statistics")
NETS = ("mlp", "cnn", "decoder", "encoder", "moe", "recurrent")

ORDERS = ("strided", "reversed", "shuffled")
PRECISIONS = ("bf16", "fp16", "tf32")
DEFAULT = "default"
REWRITES = ("split", "norm", "plus0", "mask", "signature")
REWRITES_HELD_OUT = ("softmax", "slices", "extra")
"""Other ways to compute the same; held-out faults, and clean pairs of the larger size, have those of the second."""
RERUNS = ("threads", "mindspore-2.7.1")
"""Environments of the other run: more threads, or an older MindSpore."""


LATER = 2
"""The only step that is collected in the regime "later", in which the target adds up in another order: a fault has
changed the parameters by then, and what is right is its call or the parameters."""


@dataclass(frozen=True)
class Side:
    """How one side of a pair was run."""

    framework: str = "mindspore"
    environment: str = DEFAULT
    order: str = ""
    precision: str = ""
    rewrite: str = ""

    @property
    def inside(self) -> dict[str, str] | None:
        """What calls compute inside, as `kernels.Inside` takes it."""
        return {"order": self.order, "precision": self.precision} if self.order or self.precision else None

    @property
    def name(self) -> str:
        """The side as part of a folder's name."""
        return "-".join(
            part for part in (self.framework, self.environment, self.order, self.precision, self.rewrite) if part
        )


@dataclass(frozen=True)
class Case:
    """One pair of dumps."""

    regime: str
    task: str
    name: str
    net: str
    target: Side
    golden: Side
    variant: str = ""
    seed: int = 0
    size: str = "small"
    level: str = "mix"
    steps: int = 1
    fault: Fault | None = None
    begin: int = 0

    @property
    def collected(self) -> range:
        """The steps that are collected."""
        return range(self.begin, self.steps)

    @property
    def shown(self) -> list[int]:
        """The steps of which one is the first to show the fault."""
        return [LATER] if self.begin else list(self.fault.shown if self.fault else [])

    @property
    def folder(self) -> str:
        """Where it is collected, relative to the folder of all."""
        return f"{self.regime}/{self.task}/{self.name}"

    def job(self, side: Side, out: str, fault: dict[str, Any] | None = None) -> dict[str, Any]:
        """The job of the training process that collects this side."""
        same = {"net": self.net, "seed": self.seed, "size": self.size, "level": self.level}
        more = {"task": self.task, "steps": self.steps, "begin": self.begin, "fault": fault}
        return {"framework": side.framework, "out": out, **same, **more, "inside": side.inside, "rewrite": side.rewrite}


def cases(chosen: str = "all", older: bool = False) -> list[Case]:
    """All cases with the faults of a set; the pairs with the older MindSpore only if there is one."""
    found: list[Case] = []
    for task in TASKS:
        for each in SETS:
            for at, fault in enumerate(load(each) if chosen in (each, "all") else ()):
                found += _of_fault(task, at, fault, older, REWRITES if each == "tuning" else REWRITES_HELD_OUT)
        for regime in REGIMES:
            found += _clean(regime, task, older)
    return found


def _of_fault(task: str, at: int, fault: Fault, older: bool, rewrites: tuple[str, ...]) -> list[Case]:
    """A fault in every regime; some also at the levels L0 and L1, bit-equal.

    At level L0 every second fault that shows in the first step is enough.
    """
    rerun = RERUNS[at % 2] if older else RERUNS[0]
    found = []
    for regime in REGIMES:
        noise = regime.removeprefix(CELLS)
        if noise != regime and (at % 2 or fault.steps > 1):
            continue
        variant = {
            "order": ORDERS[at % 3],
            "later": ORDERS[at % 3],
            "precision": PRECISIONS[at % 3],
            "reruns": rerun,
            "rewrite": rewrites[at % len(rewrites)],
        }.get(noise, "")
        target, golden = _sides(noise, variant)
        seed = at % 2
        same = {"variant": variant, "seed": seed, "steps": fault.steps, "fault": fault, "level": _level(regime)}
        if regime == "later":
            same |= {"steps": LATER + 1, "begin": LATER}
        found.append(Case(regime, task, fault.name, fault.net, target, golden, **same))
    if at % 5 == 0 and fault.steps == 1:
        levels = ("L0", "L1") if all(" @ " in f"{text} " and text[-1] != "@" for text in fault.places) else ("L1",)
        found += [replace(found[0], level=level, name=f"{fault.name}.{level}") for level in levels]
    return found


def _level(regime: str) -> str:
    return "L0" if regime.startswith(CELLS) else "mix"


def _clean(regime: str, task: str, older: bool) -> list[Case]:
    """Pairs without a fault: nets x sizes x seeds or variants, 48 or more of each regime."""
    noise = regime.removeprefix(CELLS)
    variants = {
        "order": ORDERS,
        "later": ORDERS,
        "precision": PRECISIONS,
        "reruns": RERUNS if older else RERUNS[:1],
    }.get(noise, ("",))
    seeds = 8 // len(variants) if len(variants) > 1 else 4
    found = []
    for net in NETS:
        for size in ("small", "large"):
            if regime == "rewrite":
                variants = REWRITES if size == "small" else REWRITES_HELD_OUT
            for at in range(len(variants) if regime == "rewrite" else max(4, seeds * len(variants) // 2)):
                variant = variants[at % len(variants)]
                target, golden = _sides(noise, variant)
                name = "-".join(part for part in ("clean", net, size, f"s{at}", variant) if part)
                more = {"level": _level(regime)}
                if regime == "later":
                    more |= {"steps": LATER + 1, "begin": LATER}
                found.append(Case(regime, task, name, net, target, golden, variant, seed=at, size=size, **more))
    return found


def _sides(regime: str, variant: str) -> tuple[Side, Side]:
    plain = Side()
    if regime in ("order", "later"):
        return replace(plain, order=variant), plain
    if regime == "precision":
        return replace(plain, precision=variant), plain
    if regime == "reruns":
        return plain, replace(plain, environment=variant)
    if regime == "pytorch":
        return plain, Side(framework="pytorch")
    if regime == "rewrite":
        return plain, replace(plain, rewrite=variant)
    return plain, plain
