"""Distribution of a model over ranks, and the options for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from msprobe.base.checks import nearest
from msprobe.base.errors import UsageError
from msprobe.base.language import translated
from msprobe.options.declaration import OptionGroup, declared, option
from msprobe.options.kinds import several

ORDER = "tp-cp-ep-dp-pp"
_AXES = tuple(ORDER.split("-"))
_NEEDED = ("tp", "dp", "pp")
_NUMBERS = ("rank_size", "tp", "pp", "vpp")
_OPTIONS = (*_NUMBERS, "order")


@dataclass(frozen=True, slots=True)
class Layout:
    """The sizes of one side: ranks in total, tensor parallel, pipeline stages, and chunks of the model on each stage.

    `order` is the numbering of ranks: the first axis varies fastest. Context and expert parallelism have size 1.
    """

    ranks: int = 1
    tp: int = 1
    pp: int = 1
    vpp: int = 1
    order: str = ORDER

    @property
    def dp(self) -> int:
        """Return the number of copies of the model."""
        return self.ranks // (self.tp * self.pp)

    @property
    def is_whole(self) -> bool:
        """Return whether each rank has the whole model, as a single process does."""
        return self.tp == self.pp == self.vpp == 1

    def rank(self, tp: int, pp: int, dp: int) -> int:
        """Return the number of the rank at a place."""
        found, stride = 0, 1
        for axis in self.order.split("-"):
            size, at = {"tp": (self.tp, tp), "pp": (self.pp, pp), "dp": (self.dp, dp)}.get(axis, (1, 0))
            found, stride = found + at * stride, stride * size
        return found

    def model(self, dp: int) -> frozenset[int]:
        """Return the ranks that together have one copy of the model."""
        return frozenset(self.rank(tp, pp, dp) for tp in range(self.tp) for pp in range(self.pp))

    def text(self) -> str:
        """Return `tp 2, pp 2, dp 1`, for messages."""
        return f"tp {self.tp}, pp {self.pp}{f', vpp {self.vpp}' * (self.vpp > 1)}, dp {self.dp}"

    def words(self) -> dict[str, int | str]:
        """Return the sizes by their options."""
        return {"rank_size": self.ranks, "tp": self.tp, "pp": self.pp, "vpp": self.vpp, "order": self.order}


@dataclass(frozen=True, slots=True)
class Layouts:
    """The layouts of both sides; `golden` is None if there is only one side."""

    target: Layout
    golden: Layout | None = None

    def options(self) -> "dict[str, tuple[str, ...]]":
        """Return the values of `LayoutOptions`."""
        sides = [layout.words() for layout in (self.target, self.golden) if layout is not None]
        return {key: tuple(str(side[key]) for side in sides) for key in sides[0]}


def _per_side(flag: str, help: str, zh: str, metavar: str = "N") -> Any:
    """Return an option with a value for the target, and a second one if the golden's differs."""
    return option(several(metavar), flag, help=help, zh=zh)


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class LayoutOptions(OptionGroup):
    """Distribution of the model of each side over its ranks."""

    TITLE: ClassVar[tuple[str, str]] = (
        "model-parallel runs: merge the ranks of each model before comparing",
        "模型并行：比对前先合并每个模型的各个 rank",
    )

    rank_size: tuple[str, ...] | None = _per_side(
        "--rank-size",
        "number of ranks of the target, then of the golden side if it differs",
        "rank 总数：先给待定位侧，标杆侧不同时再给标杆侧",
    )
    tp: tuple[str, ...] | None = _per_side(
        "--tp", "with --rank-size: tensor parallel size; default: 1", "与 --rank-size 一起使用：张量并行数；默认：1"
    )
    pp: tuple[str, ...] | None = _per_side(
        "--pp",
        "with --rank-size: number of pipeline stages; default: 1",
        "与 --rank-size 一起使用：流水线 stage 数；默认：1",
    )
    vpp: tuple[str, ...] | None = _per_side(
        "--vpp",
        "with --rank-size: chunks of the model on each stage; default: 1",
        "与 --rank-size 一起使用：每个 stage 上的模型块数；默认：1",
    )
    order: tuple[str, ...] | None = _per_side(
        "--order",
        f"with --rank-size: order in which ranks are numbered; default: {ORDER}",
        f"与 --rank-size 一起使用：rank 的编号顺序；默认：{ORDER}",
        "AXES",
    )


def layouts_of(args: Any, has_golden: bool) -> Layouts | None:
    """Return the layouts of the options; None without them. Raise a UsageError if they are inconsistent."""
    options = {name: values for name in _OPTIONS if (values := getattr(args, name)) is not None}
    if not options:
        return None
    if "rank_size" not in options:
        option = next(iter(options))
        raise UsageError(
            translated(
                f"{_flag(option)}: the number of ranks is also needed; add --rank-size, for example --rank-size 8 1",
                f"{_flag(option)}：还需要 rank 总数；请给出 --rank-size，例如 --rank-size 8 1",
            )
        )
    for name, values in options.items():
        if len(values) > 1 + has_golden:
            most = "two values, of target and golden" if has_golden else "one value, since there is no golden"
            most_zh = "最多两个值（待定位侧和标杆侧）" if has_golden else "只能有一个值，因为没有标杆侧"
            given = f"{_flag(name)} {' '.join(values)}"
            raise UsageError(translated(f"{given}: takes {most}", f"{given}：{most_zh}"))
    target, golden = (_side(options, at) for at in (0, -1))
    if not has_golden:
        return Layouts(target)
    if target.dp != golden.dp:
        raise UsageError(
            translated(
                f"the target has {target.dp} copies of the model ({target.text()}), the golden {golden.dp} "
                f"({golden.text()}); give dumps of equal data parallel size, rank_size / (tp * pp)",
                f"待定位侧有 {target.dp} 份模型（{target.text()}），标杆侧有 {golden.dp} 份（{golden.text()}）；"
                "请给出数据并行度 rank_size / (tp * pp) 相同的 dump",
            )
        )
    return Layouts(target, golden)


def _flag(name: str) -> str:
    return declared(LayoutOptions)[name].flags[0]


def _side(options: Mapping[str, Sequence[str]], at: int) -> Layout:
    sizes = {name: _size(name, options[name][at]) for name in _NUMBERS if name in options}
    ranks, tp, pp, vpp = (sizes.get(name, 1) for name in _NUMBERS)
    if ranks % (tp * pp):
        raise UsageError(
            translated(
                f"--rank-size {ranks} is not a multiple of tp * pp = {tp} * {pp}; give the total number of ranks "
                "of the run",
                f"--rank-size {ranks} 不是 tp * pp = {tp} * {pp} 的倍数；请给出该次运行的 rank 总数",
            )
        )
    if vpp > 1 == pp:
        raise UsageError(
            translated(
                f"--vpp {vpp} requires several pipeline stages; add --pp, or omit --vpp",
                f"--vpp {vpp} 需要多个流水线阶段；请同时给出 --pp，或去掉 --vpp",
            )
        )
    return Layout(ranks, tp, pp, vpp, _order(options["order"][at]) if "order" in options else ORDER)


def _size(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text[:9]) > 0 and len(text) < 10):
        raise UsageError(
            translated(
                f"{_flag(name)} {text}: must be an integer of at least 1",
                f"{_flag(name)} {text}：必须是不小于 1 的整数",
            )
        )
    return int(text)


def _order(order: str) -> str:
    axes = order.split("-")
    for axis in axes:
        if axis not in _AXES:
            near = nearest(axis, _AXES)
            raise UsageError(
                translated(
                    f"--order {order}: unknown {axis!r}{(f'; did you mean {near!r}?' if near else '')}; write it "
                    f"as {ORDER}",
                    f"--order {order}：未知的 {axis!r}{f'；是否指 {near!r}？' if near else ''}；写法如 {ORDER}",
                )
            )
    if len({*axes}) < len(axes) or not {*_NEEDED} <= {*axes}:
        raise UsageError(
            translated(
                f"--order {order}: must contain each of {', '.join(_NEEDED)} once, for example {ORDER}",
                f"--order {order}：{'、'.join(_NEEDED)} 必须各出现一次，例如 {ORDER}",
            )
        )
    return order
