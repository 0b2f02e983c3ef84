"""The options of a comparison, and the request that is made from them: checked, and as one value."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from msprobe.base.checks import nearest, quoted
from msprobe.base.errors import SettingsError, UsageError
from msprobe.base.files import MAX_CONFIGURATION_BYTES, read_input, user_path
from msprobe.base.language import translated
from msprobe.base.log import logger
from msprobe.mapping.user_files import NONE, OPTIONS, UserMapping, user_mapping
from msprobe.options.declaration import EXECUTION, OUTPUT, OptionGroup, declared, from_file, keys_of, option, positional
from msprobe.options.groups import Cluster, ExitZero, Fuzzy, JsonAnswer, Mappings, Selection
from msprobe.options.kinds import FLAG, NO_FLAG, NUMBERS, PATH, TEXT, Kind, one_of, several, whole
from msprobe.store.layout import STACK

from .core.layouts import LayoutOptions, Layouts, layouts_of
from .core.limits import BUILT_IN, EXACT, Limits, read_noise
from .core.user_limits import NO_LIMITS, UserLimitOptions, UserLimits

Format = Literal["xlsx", "csv", "json"]
ReadAs = Literal["", "kernels", "npy"]
FORMATS: tuple[Format, ...] = ("xlsx", "csv", "json")

_PATHS = ("npu_path", "bench_path", "stack_path")
"""Keys of a compare.json with paths, which may be relative to the file."""

_NO_CONSISTENCY = (
    "the check of training against inference is not available in this version: omit the flag; `msprobe "
    "rollout-check` compares the log-probs of both",
    "本版本没有训练与推理一致性检查：请去掉该选项；`msprobe rollout-check` 可比对两侧的 log-prob",
)


def _mode_or_file(value: object) -> str:
    if isinstance(value, str | os.PathLike):
        return os.fspath(value)
    raise SettingsError(
        translated(
            f"{quoted(value)} is invalid; give auto, exact, or the path of a noise.json",
            f"{quoted(value)} 无效；请给出 auto、exact 或 noise.json 的路径",
        )
    )


def _suffix(value: object) -> str:
    if not isinstance(value, str):
        raise SettingsError(
            translated(
                f"{quoted(value)} is not a string; it becomes part of a file name",
                f"{quoted(value)} 不是文本；它会成为文件名的一部分",
            )
        )
    if any(character in value for character in "/\\\0"):
        raise SettingsError(
            translated(
                f"{quoted(value)} is invalid: it becomes part of a file name; remove the slash",
                f"{quoted(value)} 无效：它会成为文件名的一部分；请去掉斜杠",
            )
        )
    return value


def _golden_names(value: object) -> tuple[tuple[str, str], ...]:
    if isinstance(value, dict) and all(type(name) is str for name in value.values()):
        return tuple(sorted(value.items()))
    raise SettingsError(
        f'{quoted(value)} is not an object that maps target names to golden names, such as {{"input": "x"}}'
    )


_MODE_OR_FILE = Kind("MODE", _mode_or_file, str)
_SUFFIX = Kind("TEXT", _suffix, str)
_GOLDEN_NAMES = Kind("", _golden_names, tuple)
_FOLDER = PATH._replace(form="optional", read=lambda word: Path("output") if word is True else Path(word))
"""A folder; also the default if the flag has no value, as in msprobe 8.1."""


LISTED = 10
"""Default of the number of further divergences that a table lists."""


@dataclass(frozen=True)
class Request:
    """Two sides, what is compared and how, and the place and form of the answer.

    `stack_file` is a stack.json elsewhere. `with_stack` shows the column of call stacks; None shows it if the target
    has stacks. `ranks` and `steps` select some of those of the sides; None means all. `read_as` reads both sides as
    kernel dumps or as folders of npy files, for any detected type; `names` are golden names by the target's, for npy
    files with other names there. `mapping` are the mapping files of the user. `workers` is the number of processes for
    several jobs, None for one per core; `scheduler` is the address of a Dask cluster instead. `suffix` is a part of the
    table's name. `limits` are those of noise; with `calibrate`, a trusted run in addition to the golden, they are
    computed first. `survey`: the agreement of each part is counted too. `html`: the outcomes have the data of a report.
    `tables`: the table of each job is written. `first_only`: dumps are read only if that can change which call is the
    first wrong one. `user_limits` are names to ignore, and tolerances of the user. `layouts` are the distributions of
    the models over ranks, which are then merged first.
    """

    target: Path
    golden: Path
    output: Path = Path("output")
    format: Format = "xlsx"
    with_stack: bool | None = False
    stack_file: Path | None = None
    top: int | None = None
    exit_zero: bool = False
    fuzzy: bool = False
    highlight: bool = False
    advise: bool = False
    diff_analyze: bool = False
    log_each: bool = False
    ranks: tuple[int, ...] | None = None
    steps: tuple[int, ...] | None = None
    read_as: ReadAs = ""
    names: tuple[tuple[str, str], ...] = ()
    mapping: UserMapping = NONE
    workers: int | None = None
    scheduler: str = ""
    resume: bool = True
    suffix: str = ""
    limits: Limits = BUILT_IN
    calibrate: Path | None = None
    survey: bool = False
    html: bool = False
    tables: bool = True
    first_only: bool = False
    layouts: Layouts | None = None
    user_limits: UserLimits = NO_LIMITS

    @property
    def listed(self) -> int:
        """Return the number of further divergences that a table lists."""
        return LISTED if self.top is None else self.top


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class NoiseThreshold(OptionGroup):
    """The limits up to which a difference is noise."""

    TITLE: ClassVar[tuple[str, str]] = Fuzzy.TITLE

    noise: str = option(
        _MODE_OR_FILE,
        "--noise",
        default="",
        keyword="noise",
        help="noise threshold: auto (default), exact (no tolerance), or a noise.json",
        zh="噪声阈值：auto（默认）、exact（任何差异都算）或 noise.json 的路径",
    )


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class NoiseOptions(NoiseThreshold):
    """The limits, or another run that gives them."""

    TITLE: ClassVar[tuple[str, str]] = Fuzzy.TITLE

    calibrate: Path | None = option(
        PATH,
        "--calibrate",
        metavar="CLEAN",
        keyword="calibrate",
        help="a second correct run of the golden training, whose differences are noise; writes noise.json",
        zh="标杆训练的另一次可信运行：它的差异即噪声；写出 noise.json",
    )

    def limits(self, called: tuple[str, str]) -> Limits:
        """Return the limits; raise a UsageError if both options are given. `called` are their names for a message."""
        return limits_named(self.noise, self.calibrate, called)


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class ReportOptions(OptionGroup):
    """The output of a comparison."""

    TITLE: ClassVar[tuple[str, str]] = ("output", "输出")

    output: Path = option(
        _FOLDER,
        "-o",
        "--output",
        metavar="DIR",
        default=Path("output"),
        keyword="output_path",
        role=OUTPUT,
        help="folder for the tables",
        zh="各表所在的文件夹",
    )
    format: Format = option(
        one_of(*FORMATS),
        "--format",
        default="xlsx",
        keyword="format",
        role=OUTPUT,
        help="format of the tables",
        zh="表的格式",
    )
    xlsx: bool = option(
        FLAG, "--xlsx", default=False, role=OUTPUT, help="the same as --format xlsx", zh="与 --format xlsx 相同"
    )
    html: bool = option(
        FLAG,
        "--html",
        default=False,
        keyword="html",
        role=OUTPUT,
        help="also write compare_report_TIME.html, a page that shows all results",
        zh="另外写出显示全部结果的页面 compare_report_TIME.html",
    )
    stack_mode: bool = option(
        FLAG,
        "-s",
        "--stack",
        default=False,
        keyword="stack_mode",
        role=OUTPUT,
        help="write the column of call stacks",
        zh="显示调用栈列",
    )
    highlight: bool = option(
        FLAG,
        "-hl",
        "--highlight",
        default=False,
        keyword="highlight",
        role=OUTPUT,
        help="also color whole rows by the rules of msprobe 8.1",
        zh="另按 msprobe 8.1 的规则给整行着色",
    )
    compare_only: bool = option(
        FLAG,
        "-c",
        "--compare-only",
        default=False,
        role=OUTPUT,
        help="with -i: do not write advisor text",
        zh="与 -i 一起使用：不写出 advisor 文本",
    )
    diff_analyze: bool = option(
        FLAG,
        "-da",
        "--diff-analyze",
        default=False,
        keyword="diff_analyze",
        role=OUTPUT,
        help="also write the first divergence of all ranks as JSON",
        zh="另以 JSON 写出所有 rank 中最先出现差异的调用",
    )
    log_each: bool = option(
        FLAG,
        "--log-each",
        default=False,
        keyword="is_print_compare_log",
        key="is_print_compare_log",
        role=EXECUTION,
        help="log one line per pair of tensors",
        zh="每对张量打印一行日志",
    )
    top: int | None = option(
        whole(0),
        "--top",
        default=None,
        role=EXECUTION,
        help=f"list at most N more divergences; default: 1 on standard output, {LISTED} in the table",
        zh=f"最多列出 N 个其余的差异起点；默认：标准输出 1 个，表中 {LISTED} 个",
    )
    first_only: bool = option(
        FLAG,
        "--first-only",
        default=False,
        role=OUTPUT,
        help="do not write tables, and read only the ranks that may have the first wrong call, based on `msprobe "
        "digest`",
        zh="不写表，只读取可能含有首个错误调用的 rank（依据 `msprobe digest` 的结果）",
    )
    suffix: str = option(
        _SUFFIX, default="", keyword="suffix", role=OUTPUT, help="suffix of the table's file name", zh="表文件名的后缀"
    )
    advise: bool = option(
        FLAG, default=True, keyword="auto_analyze", role=OUTPUT, help="write advisor text", zh="写出 advisor 文本"
    )


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class Execution(Cluster):
    """How a comparison is executed."""

    TITLE: ClassVar[tuple[str, str]] = Cluster.TITLE

    resume: bool = option(
        NO_FLAG,
        "--no-resume",
        default=True,
        role=EXECUTION,
        help="ignore saved progress and start over",
        zh="忽略已保存的进度，重新开始",
    )


@dataclass(frozen=True, kw_only=True)
class CompareOptions(
    Selection,
    Fuzzy,
    NoiseOptions,
    UserLimitOptions,
    Mappings,
    LayoutOptions,
    Execution,
    ReportOptions,
    JsonAnswer,
    ExitZero,
):
    """The options of `msprobe compare`, the keywords of `compare` and the keys of a compare.json."""

    TITLE: ClassVar[tuple[str, str]] = ("inputs", "输入")
    REFUSED: ClassVar[dict[str, tuple[str, str]]] = dict.fromkeys(("--consistent_check", "--backend"), _NO_CONSISTENCY)

    sides: tuple[str, ...] = positional(
        several("TARGET GOLDEN", "any"),
        "TARGET GOLDEN",
        default=(),
        help="the dump under suspicion and the trusted dump, the same as -tp TARGET -gp GOLDEN",
        zh="待定位的 dump 和标杆 dump，等同于 -tp TARGET -gp GOLDEN",
    )
    target: Path | None = option(
        PATH, "-tp", "--target", key="npu_path", help="the dump under suspicion", zh="待定位的 dump"
    )
    golden: Path | None = option(PATH, "-gp", "--golden", key="bench_path", help="the trusted dump", zh="标杆 dump")
    input_path: Path | None = option(
        PATH,
        "-i",
        "--input",
        metavar="FILE",
        help="a compare.json with npu_path and bench_path, instead of both paths",
        zh="含 npu_path 和 bench_path 的 compare.json，代替两条路径",
    )
    mode: str = option(
        TEXT,
        "-m",
        "--mode",
        metavar="auto",
        default="",
        hidden=True,
        help="accepted from msprobe 26; the type of both inputs is detected",
        zh="为兼容 msprobe 26 而保留；两侧输入的类型自动检测",
    )
    ranks: tuple[int, ...] | None = option(
        NUMBERS,
        "--ranks",
        key="rank_id",
        help="only these ranks of the folders, for example 0-3 or 0,2,5-7",
        zh="只比对文件夹中的这些 rank，例如 0-3 或 0,2,5-7",
    )
    steps: tuple[int, ...] | None = option(
        NUMBERS, "--steps", key="step_id", help="only these steps, in the same form", zh="只比对这些 step，写法相同"
    )
    explain: str = option(
        TEXT,
        "--explain",
        metavar="CALL",
        default="",
        help="explain the verdicts of one call instead: its inputs and their producers, the rules that decided, their "
        "numbers and limits",
        zh="改为解释一个调用的判定：其输入及来源、起决定作用的规则、数值与阈值",
    )
    stack_file: str = option(
        TEXT,
        default="",
        key="stack_path",
        help="path of stack.json, if it is in another folder",
        zh="位于别处的 stack.json",
    )
    common: bool = option(
        FLAG, default=False, key="common", help="both sides are folders of npy files", zh="两侧均为 npy 文件夹"
    )
    names: tuple[tuple[str, str], ...] = option(
        _GOLDEN_NAMES,
        default=(),
        key="map_dict",
        help="golden names of npy files by the names of the target",
        zh="npy 文件：待定位侧名称到标杆侧名称的映射",
    )


_OF_THE_SIDES = {"target", "golden", "stack_file", "names"}
"""Fields of a request that a caller sets."""


def with_options(request: Request, options: OptionGroup, where: str = "--") -> Request:
    """Return a request with the options of a command or a call; raise a UsageError if they contradict each other.

    Options with the same name as a field of the request become that field; some groups are combined into one. `where`
    precedes the name of an option in a message.
    """
    shared = {each.name for each in fields(request)} - _OF_THE_SIDES
    same: dict[str, Any] = {name: getattr(options, name) for name in declared(type(options)) if name in shared}
    if isinstance(options, NoiseOptions):
        second = "--calibrate" if where == "--" else "calibrate"
        same["limits"] = options.limits((f"{where}noise", second))
    if isinstance(options, Mappings):
        same["mapping"] = user_mapping({option: getattr(options, option) for option in OPTIONS}, where)
    if isinstance(options, UserLimitOptions):
        same["user_limits"] = request.user_limits + options.user_limits
    if isinstance(options, LayoutOptions):
        same["layouts"] = layouts_of(options, has_golden=True)
    if isinstance(options, ReportOptions):
        same["log_each"] = options.log_each or request.log_each
    for axis in ("ranks", "steps"):
        same[axis] = getattr(request, axis) if same.get(axis) is None else same[axis]
    return replace(request, **same)


def options_of(request: Request) -> CompareOptions:
    """Return the options that give the same answer, without mapping files."""
    limits: dict[str, Any] = (
        {} if request.calibrate else {"noise": request.limits.file or ("exact" if request.limits.is_exact else "")}
    )
    layouts: dict[str, Any] = {} if request.layouts is None else dict(request.layouts.options())
    own = request.user_limits
    names = ("target", "golden", "ranks", "steps", "fuzzy", "calibrate")
    same: dict[str, Any] = {name: getattr(request, name) for name in names}
    return CompareOptions(**same, ignore=own.ignore, atol=own.atol, rtol=own.rtol, **limits, **layouts)


def identity_of(request: Request) -> str:
    """Return everything that determines the tables of a request, as a text; not the execution, nor the printed
    lines."""
    usual = {name: each.default for name, each in declared(CompareOptions).items() if each.role == EXECUTION}
    return repr(replace(request, **usual))


def limits_named(noise: str, calibrate: object, called: tuple[str, str]) -> Limits:
    """Return the limits of `noise`: `auto`, `exact`, or a file; raise a UsageError for any other value, or if both are
    given.

    `called` are the names of the two in a message.
    """
    if noise and calibrate:
        raise UsageError(
            translated(
                f"{called[0]} and {called[1]} cannot be combined: a calibration sets the limits; give only one of them",
                f"{called[0]} 与 {called[1]} 冲突：标定已给出阈值；请只给出一个",
            )
        )
    if noise in ("", "auto"):
        return BUILT_IN
    if noise == "exact":
        return EXACT
    path = user_path(noise)
    if not path.exists():
        raise UsageError(
            translated(
                f"{called[0]} {noise}: no such file; give auto, exact, or the path of a noise.json",
                f"{called[0]} {noise}：没有该文件；请给出 auto、exact 或 noise.json 的路径",
            )
        )
    return read_noise(path.absolute())


def object_of(file: Path, members: str) -> dict[str, Any]:
    """Return the object in a compare.json; raise a UsageError, with the expected members, if there is none."""
    try:
        contents: Any = json.loads(read_input(file, MAX_CONFIGURATION_BYTES).decode("utf-8-sig"))
    except OSError as err:
        raise UsageError(
            translated(
                f"{file}: cannot be read ({err.strerror or err}); check the path",
                f"{file}：无法读取（{err.strerror or err}）；请检查路径",
            )
        ) from err
    except (ValueError, RecursionError) as err:
        raise UsageError(f"{file}: is not valid JSON ({err}); write an object with {members}") from err
    if not isinstance(contents, dict):
        raise UsageError(f"{file}: must contain a JSON object with {members}")
    return contents


def read_compare_json(file: Path) -> Request:
    """Return the request of msprobe 8.1's compare.json; raise a UsageError, with the correct form, if it is invalid.

    A relative path is relative to the working directory, as in 8.1, or else to the folder of the file.
    """
    return sides_of(object_of(file, "npu_path and bench_path"), str(file), file.parent)


_VALUES = tuple(key for key in keys_of(CompareOptions) if key not in _PATHS)


def sides_of(contents: Mapping[str, Any], where: str, folder: Path | None = None) -> Request:
    """Return the request of the keys of a compare.json; `where` is its name for messages, `folder` another base of its
    paths.

    For folders, `rank_id`, also an empty one, selects kernel dumps, otherwise `common` folders of npy files; two files
    have neither. An empty `rank_id` or `step_id` means all. Raise a UsageError for an invalid value.
    """
    known = keys_of(CompareOptions)
    for key in contents:
        if key not in known:
            near = nearest(str(key), known)
            logger.warning("%s: unknown key %r is ignored%s", where, key, f"; did you mean {near!r}?" if near else "")
    target, golden = (_path(where, contents, key, folder) for key in ("npu_path", "bench_path"))
    stack = _stack(where, _path(where, contents, "stack_path", folder)) if contents.get("stack_path") else None
    given = from_file(CompareOptions, {key: value for key, value in contents.items() if key in _VALUES}, where)
    options = CompareOptions(**given)
    ranks, steps, common, names = options.ranks, options.steps, options.common, options.names
    log_each, own = options.log_each, options.user_limits
    if target.is_file() and golden.is_file():
        for key, value in (("rank_id", ranks), ("step_id", steps), ("common", common), ("map_dict", names)):
            if value:
                logger.warning("%s: %s applies to folders; both inputs are files, so it is ignored", where, key)
        return Request(target, golden, stack_file=stack, log_each=log_each, user_limits=own)
    read_as: ReadAs = "kernels" if ranks is not None else "npy" if common else ""
    if names and read_as != "npy":
        logger.warning("%s: map_dict requires `common`: true and is ignored", where)
        names = ()
    return Request(
        target,
        golden,
        stack_file=stack,
        log_each=log_each,
        ranks=ranks or None,
        steps=steps or None,
        read_as=read_as,
        names=names,
        user_limits=own,
    )


def _path(where: str, contents: Mapping[str, Any], key: str, folder: Path | None) -> Path:
    value = contents.get(key)
    if not isinstance(value, str) or not value:
        raise UsageError(f"{where}: {key} must be the path of a dump.json or of its folder, as a string")
    path = user_path(value)
    if folder is None or path.is_absolute() or path.exists() or not (folder / path).exists():
        return path
    return folder / path


def _stack(where: str, path: Path) -> Path | None:
    """Return the stack.json of a path: the path itself, or the file in its folder, the folder of a step or of a run.

    None if a folder contains several: each dump has its own next to it.
    """
    if not path.is_dir():
        return path
    places = (STACK, f"*/{STACK}", f"*/*/{STACK}")
    found = next((files for place in places if (files := sorted(path.glob(place)))), [])
    if not found:
        raise UsageError(f"{where}: stack_path: {path} contains no {STACK}; give the file, or omit stack_path")
    if len(found) > 1:
        logger.warning("%s: stack_path: %s contains %d files; each dump uses its own", where, path, len(found))
        return None
    return found[0]
