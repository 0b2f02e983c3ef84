"""Command lines read as `msprobe` reads them, as JSON that does not depend on how options are declared.

    python tests/options/parsing.py > tests/options/golden_parses.json     writes what the command lines mean today

A verb's `run` is replaced by a recorder, so that everything before it is the product's own.
"""

import dataclasses
import json
import os
import shlex
import sys
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from enum import Enum
from importlib import import_module
from io import StringIO
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from unittest.mock import patch

HERE = Path(__file__).parent
LINES = tuple((HERE / "command_lines.txt").read_text("utf-8").splitlines())
GOLDEN = HERE / "golden_parses.json"

SHOWN = ("target", "golden", "with_stack")
"""Fields of a request that are always written."""

_SIDES = {"npu_path": "npu", "bench_path": "bench"}
FILES = {
    "compare.json": json.dumps(_SIDES),
    # Of mindstudio-probe's users: with a stack of its own, and of two folders of a step.
    "compare-file.json": json.dumps(
        {
            "npu_path": "./npu/dump.json",
            "bench_path": "./bench/dump.json",
            "stack_path": "./npu/stack.json",
            "is_print_compare_log": True,
        }
    ),
    "compare-step.json": json.dumps(
        {"npu_path": "./npu/step0", "bench_path": "./bench/step0", "is_print_compare_log": True}
    ),
    "kernel.json": json.dumps({**_SIDES, "rank_id": [1], "step_id": []}),
    "npy.json": json.dumps({**_SIDES, "common": True, "map_dict": {"b": "c", "a": "d"}}),
    "stack.json": json.dumps({**_SIDES, "stack_path": "npu/stack.json"}),
    "limits.json": json.dumps({**_SIDES, "ignore": ["a.*"], "atol": 1e-3, "rtol": {"b": 0.5}}),
    "npu/dump.json": "{}",
    "npu/stack.json": "{}",
    "bench/dump.json": "{}",
    "npu/step0/.keep": "",
    "bench/step0/.keep": "",
    "api.yaml": "- ms_api: Functional.softmax\n  pt_api: Torch.softmax\n",
    "cell.yaml": "fc1.Dense: fc1.Linear\n",
    "data.yaml": "Cell.fc1.Dense.forward.0.output.0: Module.fc1.Linear.forward.0.output.0\n",
    "layer.yaml": "TopLayer:\n  backbone: encoder\n",
    "noise.json": json.dumps(
        {
            "noise_version": 1,
            "calibrated_on": {"framework": "mindspore"},
            "golden": {"framework": "mindspore"},
            "residuals": [],
            "amplifications": [],
            "drifts": [],
            "first_wrong": [],
        }
    ),
}
"""The files that some command lines name, by their names."""

NAMES = {
    "output_path": "output",
    "out_path": "output",
    "output_dir": "output",
    "api_output_path": "output",
    "rank": "ranks",
    "step": "steps",
    "api_info_file": "dump",
    "fuzzy_match": "fuzzy",
}
"""Names that differ among the verbs for the same thing."""


CALLS = (
    {},
    {"stack_mode": True},
    {"auto_analyze": False, "fuzzy_match": True},
    {"suffix": "_mine", "format": "csv", "workers": 3},
    {"scheduler": "tcp://host:8786", "highlight": True, "html": True, "diff_analyze": True},
    {"is_print_compare_log": True, "api_mapping": True, "cell_mapping": "cell.yaml"},
    {"layer_mapping": True, "data_mapping": {"Cell.a": "Module.b"}},
    {"noise": "exact"},
    {"noise": "auto"},
    {"noise": "noise.json"},
    {"calibrate": "CLEAN"},
    {"ignore": "a", "atol": 1e-3, "rtol": {"b": 2}},
    {"ignore": ["a", "b.*"]},
    {"format": "pdf"},
    {"format": 3},
    {"formatt": "csv"},
    {"workers": 0},
    {"workers": True},
    {"workers": 2, "scheduler": "h"},
    {"suffix": "a/b"},
    {"suffix": None},
    {"stack_mode": 1},
    {"html": "yes"},
    {"noise": 3},
    {"noise": "exact", "calibrate": "CLEAN"},
    {"calibrate": 3},
    {"atol": "x"},
    {"atol": -1},
    {"ignore": 3},
    {"api_mapping": 3},
    {"api_mapping": "none.yaml"},
    {"output_path": ""},
    {"input_param": {"npu_path": "npu"}},
    {"input_param": {"npu_json_path": "npu/dump.json", "bench_json_path": "bench/dump.json"}},
    {"input_param": {"npu_path": "npu", "npu_json_path": "npu", "bench_path": "bench"}},
    {"input_param": {"npu_path": "npu", "bench_path": "bench", "rank_id": [1, 0], "step_id": [3]}},
    {"input_param": {"npu_path": "npu", "bench_path": "bench", "stack_path": "npu/stack.json"}},
    {"input_param": {"npu_path": "npu", "bench_path": "bench", "common": True, "map_dict": {"a": "b"}}},
    {"input_param": {"npu_path": "npu", "bench_path": "bench", "ignore": ["x"], "atol": 1}, "atol": 2},
    {"input_param": {"npu_path": "npu", "bench_path": "bench", "is_print_compare_log": 1}},
    {"input_param": {"npu_path": "npu", "bench_path": "bench", "unknown": 1}},
    {"input_param": 3},
)
"""Keywords of `compare`, among them `input_param` and `output_path` where they are not the usual ones."""


class _Recorded(Exception):
    """Raised in place of a comparison."""


def outcome_of_call(keywords):
    """The request that `compare` makes of keywords, or that they are refused."""
    from msprobe.base.errors import MsprobeError
    from msprobe.compare import dispatch, entry

    made = []

    def record(request):
        made.append(request)
        raise _Recorded

    with patch.object(dispatch, "compare_paths", record), suppress(_Recorded):
        try:
            entry.compare(**{"input_param": _SIDES, "output_path": "out", **keywords})
        except MsprobeError:
            return "refused"
    return changed(made[0])


def outcome(line):
    """What a command line means: the verb's module and its values, or that it is refused, or what was printed."""
    told, printed, errors = [], StringIO(), StringIO()

    def record(asked):
        told.append(asked)
        return 0

    from msprobe import cli

    modules = {import_module(verb.module) for verb in cli.VERBS.values()}
    recorders = [patch.object(module, "run", record) for module in modules]
    for each in recorders:
        each.start()
    try:
        with redirect_stdout(printed), redirect_stderr(errors):
            try:
                code = cli.main(shlex.split(line)[1:])
                verb = told and canonical(told[0])
            except SystemExit as ended:
                code, verb = ended.code, None
            except Exception as err:  # of the request, which a recorder makes outside of the command
                if not told:
                    raise
                code, verb = 2, None
                errors.write(f"{err}\n")
    finally:
        for each in recorders:
            each.stop()
    if code == 2:
        assert len(errors.getvalue().splitlines()) == 1, errors.getvalue()
        return "refused"
    return verb if told else {"printed": code}


def canonical(asked):
    """The values of a verb by their names, without those that are off, absent or empty."""
    from msprobe.compare import verb

    if is_of_compare(asked):
        return {"request": changed(verb.request_of(asked))}
    values = dict(fields_of(asked))
    return {
        NAMES.get(name, name): value for name, value in sorted(values.items()) if value not in (None, False, [], "")
    }


def meaning(command):
    """What a command of `msprobe compare` asks for besides its sides."""
    words, told = shlex.split(command)[1:], []
    from msprobe import cli
    from msprobe.compare import verb

    with patch.object(verb, "run", lambda asked: told.append(asked) or 0):
        assert cli.main(words) == 0, command
    request = verb.request_of(told[0])
    usual, found = value_of(type(request)(request.target, request.golden)), value_of(request)
    return {name: value for name, value in found.items() if value != usual[name]}


def changed(request):
    """The fields of a request that are not at their defaults; `with_stack` always, which has three values."""
    from msprobe.compare.jobs.report import command_of

    usual = value_of(type(request)(request.target, request.golden))
    found = value_of(request)
    found["command"] = meaning(command_of(request))
    usual["command"] = {}
    return {name: value for name, value in found.items() if value != usual[name] or name in SHOWN}


def is_of_compare(asked):
    """Whether the values are of `msprobe compare`, the one verb with this option."""
    return hasattr(asked, "first_only")


def fields_of(asked):
    """Name and value of everything in a namespace or a dataclass, those inside of it included."""
    pairs = vars(asked).items()
    for name, value in pairs:
        if dataclasses.is_dataclass(value) and name in ("mapping", "layouts"):
            yield from fields_of(value)
        elif name in ("rank", "step", "ranks", "steps") and isinstance(value, str):
            from msprobe.base.scope import parse_number_option

            yield name, json.loads(value) if value.startswith("[") else list(parse_number_option(name, value))
        elif name in ("ranks", "steps", "workers") and value == 0:
            yield name, None  # the same as none given
        else:
            yield name, value_of(value)


def value_of(value):
    """A value as JSON has it."""
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, str) and (value.startswith("./") or value.endswith("/")):
        return str(PurePath(value))
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value):
        return {field.name: value_of(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): value_of(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [value_of(each) for each in (sorted(value) if isinstance(value, set | frozenset) else value)]
    return value


@contextmanager
def folder_with_files():
    """Work in a new folder with the files and a fixed home; gives a function that takes its name out of a text."""
    here = os.getcwd()
    with TemporaryDirectory() as folder, patch.dict("os.environ", {"HOME": "/home/user"}):
        for name, text in FILES.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        os.chdir(folder)
        try:
            yield lambda text: text.replace(os.path.realpath(folder), "HERE").replace(folder, "HERE")
        finally:
            os.chdir(here)


def outcomes():
    """The outcome of every command line, and of every call."""
    with folder_with_files() as without_folder:
        found = {line: outcome(line) for line in LINES}
        found |= {f"compare(**{json.dumps(keywords)})": outcome_of_call(keywords) for keywords in CALLS}
        return json.loads(without_folder(json.dumps(found, ensure_ascii=False)))


def text_of(found):
    """The outcomes as a file has them: a line for each command line."""
    lines = (f"{json.dumps(line)}: {json.dumps(found[line], ensure_ascii=False, sort_keys=True)}" for line in found)
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    sys.stdout.write(text_of(outcomes()))
