"""Groups of options that several commands have."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from msprobe.base.errors import UsageError
from msprobe.base.language import translated

from .declaration import EXECUTION, OUTPUT, OptionGroup, option
from .kinds import FLAG, NUMBERS, OPTIONAL_FILE, PATH, TEXT, Kind, one_of, whole


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class Selection(OptionGroup):
    """Selection of steps and ranks of one dump or of two; None selects all."""

    TITLE: ClassVar[tuple[str, str]] = ("selection", "范围")

    ranks: tuple[int, ...] | None = option(
        NUMBERS,
        "--ranks",
        help="only these ranks, for example 0-3 or 0,2,5-7",
        zh="只处理这些 rank，例如 0-3 或 0,2,5-7",
    )
    steps: tuple[int, ...] | None = option(
        NUMBERS, "--steps", help="only these steps, in the same form", zh="只处理这些 step，写法相同"
    )


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class Workers(OptionGroup):
    """Number of worker processes; None is one per core."""

    TITLE: ClassVar[tuple[str, str]] = ("execution", "执行")

    workers: int | None = option(
        whole(1),
        "--workers",
        keyword="workers",
        role=EXECUTION,
        help="worker processes; default: one per core",
        zh="工作进程数；默认：每个核一个",
    )


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class WorkersOrZero(Workers):
    """Like `Workers`; 0 also means one per core."""

    TITLE: ClassVar[tuple[str, str]] = Workers.TITLE

    workers: int | None = option(
        whole(0),
        "--workers",
        role=EXECUTION,
        help="worker processes; default: 0, one per core",
        zh="工作进程数；默认：0，每个核一个",
    )


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class Cluster(Workers):
    """Workers of this machine, or of a cluster."""

    TITLE: ClassVar[tuple[str, str]] = Workers.TITLE

    scheduler: str = option(
        TEXT,
        "--scheduler",
        metavar="ADDRESS",
        keyword="scheduler",
        default="",
        role=EXECUTION,
        help="run on a Dask cluster, for example tcp://host:8786",
        zh="在 Dask 集群上执行，例如 tcp://host:8786",
    )

    def check(self) -> None:
        """Raise UsageError where both are given."""
        if self.workers is not None and self.scheduler:
            raise UsageError(
                translated(
                    "workers and scheduler contradict each other: a cluster has its own workers; give only one",
                    "workers 与 scheduler 冲突：集群有自己的工作进程；请只给出一个",
                )
            )
        super().check()


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class ExitZero(OptionGroup):
    """Exit code of a command whose findings a script expects."""

    TITLE: ClassVar[tuple[str, str]] = ("output", "输出")

    exit_zero: bool = option(
        FLAG,
        "--exit-zero",
        default=False,
        role=EXECUTION,
        help="exit with code 0 even if there are findings",
        zh="有发现时也以 0 退出",
    )


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class JsonAnswer(OptionGroup):
    """The answer as a JSON document."""

    TITLE: ClassVar[tuple[str, str]] = ("output", "输出")

    json: bool = option(
        FLAG,
        "--json",
        default=False,
        role=OUTPUT,
        help="print the answer as a JSON document instead of text",
        zh="以 JSON 文档而非文本打印结论",
    )

    @property
    def is_json(self) -> bool:
        """Return whether the answer is printed as JSON."""
        return self.json


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class AnswerFormat(JsonAnswer):
    """The answer as a JSON document, which older command lines ask for with `--format`."""

    TITLE: ClassVar[tuple[str, str]] = JsonAnswer.TITLE

    format: str = option(
        one_of("text", "json"),
        "--format",
        default="text",
        role=OUTPUT,
        help="format of standard output; json is the same as --json",
        zh="标准输出的格式；json 与 --json 相同",
    )

    @property
    def is_json(self) -> bool:
        """Return whether the answer is printed as JSON."""
        return self.json or self.format == "json"


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class Fuzzy(OptionGroup):
    """Pairing by order."""

    TITLE: ClassVar[tuple[str, str]] = ("comparison", "比对方式")

    fuzzy: bool = option(
        FLAG,
        "-f",
        "--fuzzy",
        keyword="fuzzy_match",
        default=False,
        help="also pair the remaining calls in order, by name or operation",
        zh="对剩余的调用，再按名称或算子依次配对",
    )


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class LayerMapping(OptionGroup):
    """The mapping of layers."""

    TITLE: ClassVar[tuple[str, str]] = ("explicit name mappings", "显式名称映射")

    layer_mapping: str | bool | None = option(
        OPTIONAL_FILE,
        "-lm",
        "--layer-mapping",
        keyword="layer_mapping",
        help="map layers by the class of their parent; without FILE, layers with equal names",
        zh="按上层类给出的层映射；不带 FILE 时为同名的层",
    )


_FILE_OR_DICT = Kind("FILE", lambda value: value, str)
"""`msprobe.mapping` checks it, with the rules inside."""


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class Mappings(LayerMapping):
    """Explicit mappings of names."""

    TITLE: ClassVar[tuple[str, str]] = LayerMapping.TITLE

    api_mapping: str | bool | None = option(
        OPTIONAL_FILE,
        "-am",
        "--api-mapping",
        keyword="api_mapping",
        help="map functions and their arguments; without FILE, by the built-in table",
        zh="函数及其参数；不带 FILE 时使用内置表",
    )
    cell_mapping: str | bool | None = option(
        OPTIONAL_FILE,
        "-cm",
        "--cell-mapping",
        keyword="cell_mapping",
        help="map cells; without FILE, cells with equal path and class",
        zh="Cell；不带 FILE 时为路径和类相同的 Cell",
    )
    data_mapping: object = option(
        _FILE_OR_DICT,
        "-dm",
        "--data-mapping",
        metavar="FILE",
        keyword="data_mapping",
        help="map single records",
        zh="单条记录",
    )


def output_option(
    *,
    metavar: str = "DIR",
    default: str | None = None,
    required: bool = False,
    help: str = "folder for the results",
    zh: str = "结果所在的文件夹",
) -> Any:
    """Return the option for the output of a command."""
    return option(
        PATH,
        "-o",
        "--output",
        metavar=metavar,
        default=None if default is None else Path(default),
        required=required,
        role=OUTPUT,
        help=help,
        zh=zh,
    )
