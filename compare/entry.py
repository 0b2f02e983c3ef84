"""Comparing from Python, by the names and keywords of msprobe 8.1 and 26; no framework is needed.

The faces give these functions away: `msprobe.pytorch`, `msprobe.mindspore.compare.ms_compare` and
`msprobe.mindspore.compare.distributed_compare`. What takes long to import is imported when something is compared.
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msprobe.base.checks import nearest, shown
from msprobe.base.errors import UsageError
from msprobe.base.files import user_path
from msprobe.base.log import logger
from msprobe.mapping.user_files import OPTIONS, user_mapping

from .core.user_limits import KEYS, limits_of_values
from .request import FORMATS, Format, Request, limits_named, sides_of

if TYPE_CHECKING:
    from .jobs.outcome import Outcome

_OLDER = {"npu_json_path": "npu_path", "bench_json_path": "bench_path", "stack_json_path": "stack_path"}
_FLAGS = ("diff_analyze", "highlight", "html", "is_print_compare_log")
_KEYWORDS = ("calibrate", "format", "noise", "scheduler", "suffix", "workers", *KEYS, *_FLAGS, *OPTIONS)


def compare(
    input_param: Mapping[str, Any],
    output_path: str | os.PathLike[str],
    stack_mode: bool = False,
    auto_analyze: bool = True,
    fuzzy_match: bool = False,
    **more: Any,
) -> "list[Outcome]":
    """Compare what `input_param` names: `npu_path` and `bench_path`, with the other keys of a compare.json.

    The keys of 8.1 (`npu_json_path`, `bench_json_path`, `stack_json_path`) mean the same. `stack_mode` shows the column
    of call stacks, `auto_analyze` writes the advisor text, `fuzzy_match` pairs calls whatever their number. Of the
    other keywords `suffix` goes into the table's name; `api_mapping`, `cell_mapping`, `layer_mapping` and
    `data_mapping` are paths of mapping files, True for the option without a file, `data_mapping` also a dict; `format`
    (xlsx, csv, json), `highlight`, `html`, `diff_analyze`, `is_print_compare_log`, `workers`, `scheduler`, `noise`
    (auto, exact, or the path of a noise.json), `calibrate` (a path), `ignore` (a name, or a list of names), `atol` and
    `rtol` (a number, or numbers by name) are the options of the command.

    Gives an `Outcome` for every pair of dumps, and says the answer in the log. UsageError names the parameter that
    cannot be meant; DumpError where nothing could be compared.
    """
    return _compare("compare", _sides("compare", input_param), output_path, stack_mode, auto_analyze, fuzzy_match, more)


def compare_distributed(
    npu_dump_dir: str | os.PathLike[str],
    bench_dump_dir: str | os.PathLike[str],
    output_path: str | os.PathLike[str],
    stack_mode: bool = False,
    auto_analyze: bool = True,
    fuzzy_match: bool = False,
    **more: Any,
) -> "list[Outcome]":
    """Compare all ranks of two step folders, or all steps of two runs; keywords and errors as those of `compare`.

    A `suffix` is refused: the tables are named after the ranks.
    """
    call = "compare_distributed"
    if "suffix" in more:
        raise UsageError(f"{call}: suffix: the tables are named after the ranks; leave it out")
    sides = Request(_folder(call, "npu_dump_dir", npu_dump_dir), _folder(call, "bench_dump_dir", bench_dump_dir))
    return _compare(call, sides, output_path, stack_mode, auto_analyze, fuzzy_match, more)


def graph_compare(input_param: Mapping[str, Any], output_path: str | os.PathLike[str]) -> "list[Outcome]":
    """Compare kernel dumps of static graphs: `npu_path`, `bench_path`, `rank_id` and `step_id`, where empty means all.

    Gives an `Outcome` for every rank and step. Errors as those of `compare`.
    """
    sides = _sides("ms_graph_compare", input_param, {"rank_id": []})
    return _compare("ms_graph_compare", sides, output_path, False, False, False, {})


def _sides(call: str, contents: object, defaults: Mapping[str, Any] | None = None) -> Request:
    """What `input_param` asks for, its older keys under their newer names; `defaults` are for keys that it lacks."""
    if not isinstance(contents, Mapping):
        raise UsageError(f"{call}: input_param must be a dict with npu_path and bench_path, not {shown(contents)}")
    named: dict[str, Any] = dict(defaults or {})
    for key, value in contents.items():
        newer = _OLDER.get(str(key), str(key))
        if newer != key and newer in contents:
            raise UsageError(f"{call}: input_param: {key} and {newer} are the same thing; give one")
        named[newer] = os.fspath(value) if isinstance(value, os.PathLike) else value
    return sides_of(named, f"{call}: input_param")


def _compare(
    call: str,
    sides: Request,
    output_path: object,
    stack_mode: object,
    auto_analyze: object,
    fuzzy_match: object,
    more: Mapping[str, Any],
) -> "list[Outcome]":
    contents = _keywords(call, more)
    flags = {"stack_mode": stack_mode, "auto_analyze": auto_analyze, "fuzzy_match": fuzzy_match}
    flags |= {name: contents.get(name, False) for name in _FLAGS}
    for name, value in flags.items():
        if type(value) is not bool:
            raise UsageError(f"{call}: {name} must be True or False, not {shown(value)}")
    if contents.get("scheduler") and contents.get("workers") is not None:
        raise UsageError(f"{call}: workers and scheduler contradict each other: a cluster has its own; give one")
    request = replace(
        sides,
        output=_path(call, "output_path", output_path),
        format=cast(Format, contents.get("format", "xlsx")),
        # As at the command line: a stack that lies beside the dump is shown where there is one.
        with_stack=None if sides.stack_file is None and not stack_mode else bool(stack_mode),
        fuzzy=bool(fuzzy_match),
        highlight=bool(flags["highlight"]),
        advise=bool(auto_analyze),
        diff_analyze=bool(flags["diff_analyze"]),
        log_each=bool(flags["is_print_compare_log"]) or sides.log_each,
        mapping=user_mapping({name: contents.get(name) for name in OPTIONS}, f"{call}: "),
        workers=contents.get("workers"),
        scheduler=contents.get("scheduler") or "",
        suffix=contents.get("suffix", ""),
        limits=limits_named(
            os.fspath(contents.get("noise") or ""), contents.get("calibrate"), (f"{call}: noise", "calibrate")
        ),
        calibrate=_path(call, "calibrate", contents["calibrate"]) if contents.get("calibrate") is not None else None,
        html=bool(flags["html"]),
        user_limits=sides.user_limits + limits_of_values(contents, f"{call}: "),
    )
    from .dispatch import compare_paths, write_report

    if request.html:
        from msprobe.report.file import check_page

        check_page()
    result = compare_paths(request)
    if request.html:
        write_report(result, request)
    for line in result.lines():
        logger.info("%s", line)
    return list(result.outcomes)


def _keywords(call: str, more: Mapping[str, Any]) -> Mapping[str, Any]:
    """The keywords as they are; UsageError for one that is not known, or of the wrong kind."""
    for name in more:
        if name not in _KEYWORDS:
            near = nearest(name, _KEYWORDS)
            hint = f"did you mean {near}?" if near else f"there are {', '.join(sorted(_KEYWORDS))}"
            raise UsageError(f"{call}: there is no keyword {name}; {hint}")
    for name in ("format", "scheduler", "suffix"):
        if name in more and type(more[name]) is not str:
            raise UsageError(f"{call}: {name} must be a text, not {shown(more[name])}")
    if more.get("noise") is not None and not isinstance(more["noise"], str | os.PathLike):
        raise UsageError(f"{call}: noise must be auto, exact, or the path of a noise.json, not {shown(more['noise'])}")
    if more.get("format", "xlsx") not in FORMATS:
        raise UsageError(f"{call}: format must be one of {', '.join(FORMATS)}, not {shown(more['format'])}")
    if any(character in more.get("suffix", "") for character in "/\\\0"):
        raise UsageError(f"{call}: suffix is a part of a file's name and must hold no slash: {shown(more['suffix'])}")
    workers = more.get("workers")
    if workers is not None and (type(workers) is not int or workers < 1):
        raise UsageError(f"{call}: workers must be a number from 1 on, not {shown(workers)}")
    return more


def _path(call: str, name: str, value: object) -> Path:
    if not isinstance(value, str | os.PathLike) or not os.fspath(value):
        raise UsageError(f"{call}: {name} must be a path, not {shown(value)}")
    return user_path(value)


def _folder(call: str, name: str, value: object) -> Path:
    path = _path(call, name, value)
    if not path.is_dir():
        raise UsageError(f"{call}: {name}: {path} is no folder; give the folder of a step, which holds its ranks")
    return path
