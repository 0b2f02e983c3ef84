"""Comparing from Python, by the names and keywords of msprobe 8.1 and 26; no framework is needed.

The public modules export these functions: `msprobe.pytorch`, `msprobe.mindspore.compare.ms_compare` and
`msprobe.mindspore.compare.distributed_compare`. Modules that are slow to import are imported on use.
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.base.checks import quoted
from msprobe.base.errors import UsageError
from msprobe.base.files import user_path
from msprobe.base.log import logger
from msprobe.options.declaration import from_keywords

from .request import CompareOptions, Request, sides_of, with_options

if TYPE_CHECKING:
    from .jobs.outcome import Outcome

_OLDER = {"npu_json_path": "npu_path", "bench_json_path": "bench_path", "stack_json_path": "stack_path"}


def compare(
    input_param: Mapping[str, Any],
    output_path: str | os.PathLike[str],
    stack_mode: bool = False,
    auto_analyze: bool = True,
    fuzzy_match: bool = False,
    **more: Any,
) -> "list[Outcome]":
    """Compare the two sides of `input_param`: `npu_path` and `bench_path`, with the other keys of a compare.json.

    The keys of 8.1 (`npu_json_path`, `bench_json_path`, `stack_json_path`) mean the same. `stack_mode` shows the column
    of call stacks, `auto_analyze` writes the advisor text, `fuzzy_match` pairs calls with any numbers. Further
    keywords: `suffix` is a part of the table's name; `api_mapping`, `cell_mapping`, `layer_mapping` and `data_mapping`
    are paths of mapping files, True for the option without a file, `data_mapping` also a dict; `format` (xlsx, csv,
    json), `highlight`, `html`, `diff_analyze`, `is_print_compare_log`, `workers`, `scheduler`, `noise` (auto, exact, or
    the path of a noise.json), `calibrate` (a path), `ignore` (a name, or a list of names), `atol` and `rtol` (a number,
    or numbers by name) are the options of the command.

    Returns an `Outcome` for every pair of dumps, and logs the answer. Raises a UsageError with the name of an invalid
    parameter, or a DumpError if nothing could be compared.
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
    """Compare all ranks of two step folders, or all steps of two runs; keywords and errors are those of `compare`.

    `suffix` is not supported: the tables are named after the ranks.
    """
    call = "compare_distributed"
    if "suffix" in more:
        raise UsageError(f"{call}: suffix: the tables are named after the ranks; omit it")
    sides = Request(_folder(call, "npu_dump_dir", npu_dump_dir), _folder(call, "bench_dump_dir", bench_dump_dir))
    return _compare(call, sides, output_path, stack_mode, auto_analyze, fuzzy_match, more)


def graph_compare(input_param: Mapping[str, Any], output_path: str | os.PathLike[str]) -> "list[Outcome]":
    """Compare kernel dumps of static graphs: `npu_path`, `bench_path`, `rank_id` and `step_id`, empty values mean all.

    Returns an `Outcome` for every rank and step. Errors are those of `compare`.
    """
    sides = _sides("ms_graph_compare", input_param, {"rank_id": []})
    return _compare("ms_graph_compare", sides, output_path, False, False, False, {})


def _sides(call: str, contents: object, defaults: Mapping[str, Any] | None = None) -> Request:
    """Return the request of `input_param`, whose older keys have their newer names; `defaults` are for missing keys."""
    if not isinstance(contents, Mapping):
        raise UsageError(f"{call}: input_param must be a dict with npu_path and bench_path, not {quoted(contents)}")
    named: dict[str, Any] = dict(defaults or {})
    for key, value in contents.items():
        newer = _OLDER.get(str(key), str(key))
        if newer != key and newer in contents:
            raise UsageError(f"{call}: input_param: {key} and {newer} have the same meaning; give only one")
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
    flags = {"stack_mode": stack_mode, "auto_analyze": auto_analyze, "fuzzy_match": fuzzy_match}
    options = CompareOptions(**from_keywords(CompareOptions, call, {"output_path": output_path, **flags, **more}))
    try:
        options.check()
    except UsageError as err:
        raise UsageError(f"{call}: {err}") from err
    # As on the command line: a stack.json in the folder of the dump is used.
    with_stack = None if sides.stack_file is None and not options.stack_mode else options.stack_mode
    request = replace(with_options(sides, options, f"{call}: "), with_stack=with_stack)
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


def _folder(call: str, name: str, value: object) -> Path:
    if not isinstance(value, str | os.PathLike) or not os.fspath(value):
        raise UsageError(f"{call}: {name} must be a path, not {quoted(value)}")
    path = user_path(value)
    if not path.is_dir():
        raise UsageError(f"{call}: {name}: {path} is not a folder; give the folder of a step, which contains its ranks")
    return path
