"""What a command line and a compare.json ask for; what cannot be meant is refused with what to write instead."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from msprobe.base.errors import UsageError
from msprobe.compare import verb
from msprobe.compare.request import read_compare_json
from msprobe.options.parser import parsed


@pytest.fixture
def requested():
    """The request of a command line."""

    def ask(*words):
        return verb.request_of(parsed("msprobe compare", verb.Options, [str(word) for word in words]))

    return ask


@pytest.fixture
def written(tmp_path):
    """A compare.json of two folders, with what else is given."""
    for side in ("t", "g"):
        (tmp_path / side).mkdir()

    def write(**more):
        file = tmp_path / "compare.json"
        file.write_text(json.dumps({"npu_path": str(tmp_path / "t"), "bench_path": str(tmp_path / "g"), **more}))
        return file

    return write


SIDES = ("-tp", "t", "-gp", "g")


def test_nothing_but_two_sides_takes_the_defaults(requested):
    request = requested(*SIDES)
    assert (request.target, request.golden, request.output) == (Path("t"), Path("g"), Path("output"))
    assert (request.format, request.with_stack, request.top, request.exit_zero) == ("xlsx", False, None, False)
    assert (request.ranks, request.steps, request.workers, request.scheduler) == (None, None, None, "")
    flags = (request.fuzzy, request.highlight, request.advise, request.diff_analyze, request.log_each)
    assert flags == (False,) * 5
    assert request.resume


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        (("-f",), "fuzzy", True),
        (("-fm",), "fuzzy", True),
        (("--fuzzy_match",), "fuzzy", True),
        (("-s",), "with_stack", True),
        (("-hl",), "highlight", True),
        (("--highlight",), "highlight", True),
        (("-da",), "diff_analyze", True),
        (("--diff_analyze",), "diff_analyze", True),
        (("-tensor_log",), "log_each", True),
        (("--rank", "3,0,1,3"), "ranks", (0, 1, 3)),
        (("--step", "10"), "steps", (10,)),
        (("--xlsx",), "format", "xlsx"),
        (("--format", "csv"), "format", "csv"),
        (("-m", "auto"), "golden", Path("g")),
        (("-c",), "advise", False),
        (("--workers", "3"), "workers", 3),
        (("--scheduler", "tcp://host:8786"), "scheduler", "tcp://host:8786"),
        (("--no-resume",), "resume", False),
        (("--exit-zero",), "exit_zero", True),
    ],
)
def test_each_flag_is_one_field(requested, words, field, value):
    assert getattr(requested(*SIDES, *words), field) == value


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--rank", "a"), '--ranks: "a" is neither a number nor a range'),
        (("--rank", ""), '--ranks: "" is neither'),
        (("--rank", "-1"), 'expected one argument|--ranks: "-1" is neither'),
        (("--step", "0,,1"), '--steps: "" is neither'),
        (("--workers", "0"), "--workers: 0 is invalid; give an integer of at least 1"),
        (("--workers", "2", "--scheduler", "tcp://host:1"), "workers and scheduler contradict each other"),
        (("-m", "atb"), "-m atb: this version supports only"),
        (("--xlsx", "--format", "json"), "contradict each other"),
        (("--top", "-2"), "--top: -2 is invalid"),
        (("pytorch",), "msprobe -f pytorch compare"),
    ],
)
def test_what_cannot_be_meant_is_refused(requested, words, message, capsys):
    with pytest.raises((UsageError, SystemExit)) as refused:
        requested(*SIDES, *words)
    text = str(refused.value) + capsys.readouterr().err
    assert any(part in text for part in message.split("|"))


def test_compare_json_brings_the_habits_of_8_1(requested, written):
    request = requested("-i", written(is_print_compare_log=True))
    assert request.advise, "8.1 writes the advisor text"
    assert request.with_stack is None, "8.1 shows the stack that lies beside the dump"
    assert request.log_each
    assert not requested("-i", written(), "-c").advise
    named = requested("-i", written(stack_path="s.json"))
    assert (named.with_stack, named.stack_file) == (False, Path("s.json"))
    assert requested("-i", written(stack_path="s.json"), "-s").with_stack is True


def test_a_stack_path_is_a_file_or_a_folder_with_one(written, tmp_path, capsys):
    for place in ("r/stack.json", "s/rank0/stack.json", "many/rank0/stack.json", "many/rank1/stack.json", "no/a.json"):
        (tmp_path / place).parent.mkdir(parents=True)
        (tmp_path / place).write_text("{}")
    assert read_compare_json(written(stack_path=str(tmp_path / "r"))).stack_file == tmp_path / "r/stack.json"
    assert read_compare_json(written(stack_path=str(tmp_path / "s"))).stack_file == tmp_path / "s/rank0/stack.json"
    assert capsys.readouterr().err == ""
    assert read_compare_json(written(stack_path=str(tmp_path / "many"))).stack_file is None
    assert "contains 2 files; each dump uses its own" in capsys.readouterr().err
    with pytest.raises(
        UsageError, match=r"stack_path: .*/no contains no stack.json; give the file, or omit stack_path"
    ):
        read_compare_json(written(stack_path=str(tmp_path / "no")))


@pytest.mark.parametrize(
    ("more", "ranks", "steps", "read_as", "names"),
    [
        ({}, None, None, "", ()),
        ({"rank_id": [], "step_id": []}, None, None, "kernels", ()),
        ({"rank_id": [2, 0, 2], "step_id": [5]}, (0, 2), (5,), "kernels", ()),
        ({"rank_id": [0], "common": True}, (0,), None, "kernels", ()),
        ({"step_id": [1]}, None, (1,), "", ()),
        ({"common": True}, None, None, "npy", ()),
        ({"common": True, "map_dict": {"input": "x", "a": "b"}}, None, None, "npy", (("a", "b"), ("input", "x"))),
        ({"common": False, "map_dict": {}}, None, None, "", ()),
        ({"rank_id": None, "step_id": None}, None, None, "", ()),
    ],
)
def test_the_first_key_that_is_there_decides_what_folders_are(written, more, ranks, steps, read_as, names):
    sides = read_compare_json(written(**more))
    assert (sides.ranks, sides.steps, sides.read_as, sides.names) == (ranks, steps, read_as, names)


@pytest.mark.parametrize("more", [{"rank_id": [0]}, {"step_id": [0]}, {"common": True}])
def test_keys_of_folders_are_ignored_aloud_for_two_files(written, tmp_path, more, capsys):
    for side in ("t", "g"):
        (tmp_path / side / "dump.json").write_text("{}")
    files = {"npu_path": str(tmp_path / "t/dump.json"), "bench_path": str(tmp_path / "g/dump.json")}
    sides = read_compare_json(written(**more, **files))
    assert (sides.ranks, sides.steps, sides.read_as) == (None, None, "")
    assert f"{next(iter(more))} applies to folders; both inputs are files" in capsys.readouterr().err


def test_map_dict_without_common_is_ignored_aloud(written, capsys):
    assert read_compare_json(written(map_dict={"a": "b"})).names == ()
    assert "map_dict requires `common`: true" in capsys.readouterr().err


def test_an_unknown_key_is_ignored_aloud_with_the_nearest_known(written, capsys):
    read_compare_json(written(rank_ids=[0]))
    assert "unknown key 'rank_ids' is ignored; did you mean 'rank_id'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"rank_id": 0}, "rank_id: 0 is not a list of non-negative integers"),
        ({"rank_id": [-1]}, "rank_id: [-1] is not a list"),
        ({"rank_id": [True]}, "rank_id: [true] is not a list"),
        ({"step_id": ["0"]}, 'step_id: ["0"] is not a list'),
        ({"common": 1}, "common: 1 is not a boolean"),
        ({"is_print_compare_log": "yes"}, 'is_print_compare_log: "yes" is not a boolean'),
        ({"common": True, "map_dict": [1]}, "map_dict: [1] is not an object"),
        ({"common": True, "map_dict": {"a": 1}}, 'map_dict: {"a": 1} is not an object'),
        ({"npu_path": None}, "npu_path must be the path"),
        ({"bench_path": ""}, "bench_path must be the path"),
        ({"stack_path": 3}, "stack_path must be the path"),
    ],
)
def test_a_value_that_cannot_be_meant_names_its_key(written, more, message):
    file = written(**more)
    with pytest.raises(UsageError) as refused:
        read_compare_json(file)
    assert str(refused.value).startswith(f"{file}: ")
    assert message in str(refused.value)


def test_a_json_that_is_nested_without_end_is_a_sentence(tmp_path):
    file = tmp_path / "compare.json"
    file.write_text("[" * 100_000)
    with pytest.raises(UsageError, match="is not valid JSON"):
        read_compare_json(file)


def test_the_command_line_and_the_file_must_not_choose_otherwise(requested, written):
    assert requested("-i", written(rank_id=[0, 1]), "--rank", "1,0").ranks == (0, 1)
    assert requested("-i", written(rank_id=[]), "--rank", "1").ranks == (1,)
    with pytest.raises(UsageError, match=r"--ranks and rank_id of .* contradict each other"):
        requested("-i", written(rank_id=[0]), "--rank", "1")
    with pytest.raises(UsageError, match=r"--steps and step_id of .* contradict each other"):
        requested("-i", written(step_id=[0]), "--step", "1")


def test_declaring_the_options_loads_no_numpy_and_no_sheet_library():
    code = (
        "import sys\nfrom msprobe.compare import verb\nfrom msprobe.options.parser import parser_of\n"
        "parser_of('msprobe compare', verb.Options, '', 'compare')\n"
        "print([m for m in ('numpy', 'openpyxl', 'xlsxwriter', 'mindspore', 'torch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
