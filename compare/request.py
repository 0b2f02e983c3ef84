"""What a command line or a Python call asks for, checked and in one value; and what a compare.json says."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from msprobe.base.checks import nearest
from msprobe.base.errors import UsageError
from msprobe.base.files import CONFIGURATION, read_input, user_path
from msprobe.base.log import logger
from msprobe.mapping.user_files import NONE, UserMapping
from msprobe.store.layout import STACK

from .core.layouts import Layouts
from .core.limits import BUILT_IN, EXACT, Limits, read_noise
from .core.user_limits import KEYS, NO_LIMITS, UserLimits, limits_of_values

Format = Literal["xlsx", "csv", "json"]
ReadAs = Literal["", "kernels", "npy"]
FORMATS: tuple[Format, ...] = ("xlsx", "csv", "json")

_KNOWN = (
    *("npu_path", "bench_path", "stack_path", "is_print_compare_log", "rank_id", "step_id", "common", "map_dict"),
    *KEYS,
)


@dataclass(frozen=True)
class Request:
    """Two sides, what of them is compared and how, where the answer goes, and in which form.

    `stack_file` is a stack.json that lies elsewhere. `with_stack` shows the column of call stacks; None shows it where
    the target has stacks. `ranks` and `steps` choose among those that the sides hold; None takes all. `read_as` takes
    both sides for kernel dumps or for folders of npy files, whatever they look like; `names` are golden names by the
    target's, for npy files with other names there. `mapping` is what the user says of names. `workers` is how
    many processes share several jobs, None for one per core; `scheduler` is the address of a Dask cluster that does so
    instead. `suffix` goes into the table's name. `limits` say up to where a difference is noise; with `calibrate`, a
    trusted run beside the golden, they are found first. `survey`: it is also counted how surely each part agrees.
    `html`: the outcomes have what a report shows. `tables`: the table of each job is written. `first_only`: dumps are
    read only where that can change which call is the first wrong one. `user_limits` are names to ignore, and tolerances
    of the user's own. `layouts` say how each side shares its model out
    over ranks, which are then merged first.
    """

    target: Path
    golden: Path
    output: Path = Path("output")
    format: Format = "xlsx"
    with_stack: bool | None = False
    stack_file: Path | None = None
    top: int = 10
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


def check_workers(workers: int | None, scheduler: str | None) -> None:
    """UsageError where the options `--workers` and `--scheduler` cannot be meant."""
    if workers is not None and workers < 1:
        raise UsageError("--workers must be at least 1")
    if workers is not None and scheduler:
        raise UsageError("--workers and --scheduler contradict each other: a cluster has its own workers; give one")


def limits_named(noise: str, calibrate: object, called: tuple[str, str]) -> Limits:
    """The limits that `noise` names: `auto`, `exact`, or a file; UsageError where that is none, or where both ask.

    `called` is what the two are called in a message.
    """
    if noise and calibrate:
        raise UsageError(
            f"{called[0]} and {called[1]} contradict each other: a calibration gives the limits; give one of them"
        )
    if noise in ("", "auto"):
        return BUILT_IN
    if noise == "exact":
        return EXACT
    path = user_path(noise)
    if not path.exists():
        raise UsageError(f"{called[0]} {noise}: no such file; give auto, exact, or the path of a noise.json")
    return read_noise(path.absolute())


def object_of(file: Path, members: str) -> dict[str, Any]:
    """The object in a compare.json; UsageError, with the members that belong there, where it holds none."""
    try:
        contents: Any = json.loads(read_input(file, CONFIGURATION).decode("utf-8-sig"))
    except OSError as err:
        raise UsageError(f"{file}: cannot be read ({err.strerror or err}); check the path") from err
    except (ValueError, RecursionError) as err:
        raise UsageError(f"{file}: is no JSON ({err}); write an object with {members}") from err
    if not isinstance(contents, dict):
        raise UsageError(f"{file}: must hold a JSON object with {members}")
    return contents


def read_compare_json(file: Path) -> Request:
    """What msprobe 8.1's compare.json asks for; UsageError, with what to write instead, where it cannot be meant.

    A relative path counts from where the command runs, as in 8.1, else from beside the file.
    """
    return sides_of(object_of(file, "npu_path and bench_path"), str(file), file.parent)


def sides_of(contents: Mapping[str, Any], where: str, folder: Path | None = None) -> Request:
    """What the keys of a compare.json ask for; `where` is its name for messages, `folder` another place of its paths.

    For folders `rank_id`, be it empty, asks for kernel dumps, else `common` for folders of npy files; two files take
    neither. An empty `rank_id` or `step_id` means all. UsageError where a value cannot be meant.
    """
    for key in contents:
        if key not in _KNOWN:
            near = nearest(str(key), _KNOWN)
            logger.warning("%s: unknown key %r is ignored%s", where, key, f"; did you mean {near!r}?" if near else "")
    target, golden = (_path(where, contents, key, folder) for key in ("npu_path", "bench_path"))
    stack = _stack(where, _path(where, contents, "stack_path", folder)) if contents.get("stack_path") else None
    numbers = "a list of numbers from 0 on, as in [0, 1]; [] takes all"
    ranks, steps = (_value(where, contents, key, _are_numbers, numbers) for key in ("rank_id", "step_id"))
    flags = (_value(where, contents, key, _is_flag, "true or false") for key in ("is_print_compare_log", "common"))
    log_each, common = (flag is True for flag in flags)
    golden_names = 'an object of the golden names by the target\'s, as in {"input": "x"}'
    names = _value(where, contents, "map_dict", _are_names, golden_names)
    own = limits_of_values(contents, f"{where}: ")
    if target.is_file() and golden.is_file():
        for key, value in (("rank_id", ranks), ("step_id", steps), ("common", common), ("map_dict", names)):
            if value:
                logger.warning("%s: %s speaks of folders; both sides are files, so it is ignored", where, key)
        return Request(target, golden, stack_file=stack, log_each=log_each, user_limits=own)
    read_as: ReadAs = "kernels" if ranks is not None else "npy" if common else ""
    if names and read_as != "npy":
        logger.warning("%s: map_dict belongs to `common`: true and is ignored", where)
        names = None
    return Request(
        target,
        golden,
        stack_file=stack,
        log_each=log_each,
        ranks=tuple(sorted(set(ranks))) if ranks else None,
        steps=tuple(sorted(set(steps))) if steps else None,
        read_as=read_as,
        names=tuple(sorted(names.items())) if names else (),
        user_limits=own,
    )


def _path(where: str, contents: Mapping[str, Any], key: str, folder: Path | None) -> Path:
    value = contents.get(key)
    if not isinstance(value, str) or not value:
        raise UsageError(f"{where}: {key} must be the path of a dump.json or of its folder, as a text")
    path = user_path(value)
    if folder is None or path.is_absolute() or path.exists() or not (folder / path).exists():
        return path
    return folder / path


def _stack(where: str, path: Path) -> Path | None:
    """The stack.json that a path means: itself, or the one in its folder, the folder of a step or of a run.

    None where a folder holds several: each dump has its own beside it.
    """
    if not path.is_dir():
        return path
    places = (STACK, f"*/{STACK}", f"*/*/{STACK}")
    found = next((files for place in places if (files := sorted(path.glob(place)))), [])
    if not found:
        raise UsageError(f"{where}: stack_path: {path} holds no {STACK}; give the file, or leave stack_path out")
    if len(found) > 1:
        logger.warning("%s: stack_path: %s holds %d of them; each dump takes its own", where, path, len(found))
        return None
    return found[0]


def _value(where: str, contents: Mapping[str, Any], key: str, is_valid: Callable[[Any], bool], must_be: str) -> Any:
    """The value of a key, None without one; UsageError for any other."""
    if (value := contents.get(key)) is not None and not is_valid(value):
        raise UsageError(f"{where}: {key} must be {must_be}")
    return value


def _is_flag(value: object) -> bool:
    return type(value) is bool


def _are_numbers(value: object) -> bool:
    return isinstance(value, list) and all(type(n) is int and n >= 0 for n in value)


def _are_names(value: object) -> bool:
    return isinstance(value, dict) and all(type(v) is str for v in value.values())
