"""Comparing from Python by the names of msprobe 8.1 and 26, where no framework is installed."""

import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from msprobe.base.errors import DumpError, UsageError
from msprobe.mindspore.compare.distributed_compare import ms_compare_distributed, ms_graph_compare
from msprobe.mindspore.compare.ms_compare import ms_compare
from msprobe.pytorch import compare, compare_distributed

SIN = "Mint.sin.0.forward"

WITHOUT_FRAMEWORK = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("mindspore", "torch", "numpy"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Refuse())
from msprobe.pytorch import compare, compare_distributed
from msprobe.mindspore.compare.ms_compare import ms_compare
from msprobe.mindspore.compare.distributed_compare import ms_compare_distributed, ms_graph_compare
import msprobe.mindspore
try:
    msprobe.mindspore.PrecisionDebugger
except ModuleNotFoundError as err:
    print("asked for", err)
try:
    msprobe.mindspore.Debugger
except AttributeError as err:
    print(err)
"""


@pytest.fixture
def dumps(builder, tmp_path):
    """Two dumps of one step; the target's is wrong from its second call on in the ranks that are said."""

    def make(*ranks, wrong=(), stack=()):
        for side in ("t", "g"):
            for rank in ranks:
                made = builder(side)
                made.folder = tmp_path / side / "step0" / rank
                made.call("Mint.exp.0.forward", [1.0], [2.0], stack=stack)
                made.call(SIN, [2.0], [3.5 if side == "t" and rank in wrong else 3.0]).write()
        return tmp_path / "t" / "step0", tmp_path / "g" / "step0"

    return make


def names(folder):
    return sorted(re.sub(r"\d{14}", "T", str(path.relative_to(folder))) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("function", [compare, ms_compare])
@pytest.mark.parametrize("keys", [("npu_path", "bench_path"), ("npu_json_path", "bench_json_path")])
def test_two_files_give_one_outcome_and_one_table(function, keys, dumps, tmp_path, capsys):
    target, golden = dumps("rank0", wrong=("rank0",))
    arguments = dict(zip(keys, (f"{target}/rank0/dump.json", golden / "rank0" / "dump.json"), strict=True))
    (outcome,) = function(arguments, tmp_path / "out", auto_analyze=False, format="csv")
    assert (outcome.mode, outcome.is_clean, outcome.counts["error"]) == ("statistics", False, 1)
    assert (outcome.first.name, outcome.step, outcome.rank) == (SIN, 0, 0)
    assert names(tmp_path / "out") == ["compare_result_T.csv"]
    captured = capsys.readouterr()
    assert captured.out == "", "what a call says goes to the log"
    assert f"first wrong call: {SIN} in the root" in captured.err


def test_comparisons_within_one_second_keep_their_tables_apart(dumps, tmp_path, monkeypatch):
    target, golden = dumps("rank0", "rank1", wrong=("rank1",))
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    pairs = [{"npu_path": target / rank, "bench_path": golden / rank} for rank in ("rank0", "rank1", "rank1")]
    outcomes = [compare({k: str(v) for k, v in pair.items()}, tmp_path / "out", format="csv") for pair in pairs]
    assert len({outcome.table for (outcome,) in outcomes}) == 3
    assert names(tmp_path / "out") == ["advisor_T.txt"] * 3 + ["compare_result_T.csv"] * 3
    assert [("error" in Path(outcome.table).read_text()) for (outcome,) in outcomes] == [False, True, True]

    several = [compare_distributed(target, golden, tmp_path / "both", workers=1, format="csv") for _ in range(2)]
    assert len({outcome.table for outcomes in several for outcome in outcomes}) == 4
    assert len(list((tmp_path / "both").glob("compare_summary_*.json"))) == 2


def test_the_counts_have_every_verdict(dumps, tmp_path):
    target, golden = dumps("rank0")
    (outcome,) = compare_distributed(target, golden, tmp_path / "out", format="csv")
    assert outcome.counts == {"pass": 4, "warning": 0, "error": 0, "unjudged": 0}


def test_a_suffix_stands_in_the_name(dumps, tmp_path):
    target, golden = dumps("rank0")
    (outcome,) = compare(
        {"npu_path": str(target), "bench_path": str(golden / "rank0")},
        str(tmp_path / "out"),
        auto_analyze=False,
        suffix="_mine",
    )
    assert outcome.is_clean
    assert names(tmp_path / "out") == ["compare_result_mine_T.xlsx"]


def test_the_advisor_text_names_the_first_row_that_8_1_calls_bad(dumps, tmp_path):
    target, golden = dumps("rank0", "rank1", wrong=("rank1",))
    compare_distributed(target, golden, tmp_path / "out", format="csv", workers=1)
    assert names(tmp_path / "out") == [
        "advisor_rank0_T.txt",
        "advisor_rank1_T.txt",
        "compare_result_rank0_T.csv",
        "compare_result_rank1_T.csv",
        "compare_summary_T.json",
    ]
    (clean,), (wrong,) = ((tmp_path / "out").glob(f"advisor_rank{rank}_*.txt") for rank in (0, 1))
    assert clean.read_text().startswith("Line: NA\nSuspect Nodes: NA\nExpert Advice: ")
    # 3.5 + {0, .25, .5, .75} against 3 + ...: no statistic differs by more than half, so 8.1 sees nothing.
    assert wrong.read_text().startswith("Line: NA\n")


def test_the_advisor_text_counts_rows_from_0(builder, tmp_path):
    for side, result in (("t", 9.0), ("g", 3.0)):
        builder(side).call("Mint.exp.0.forward", [1.0], [2.0]).call(SIN, [2.0], [result]).write()
    arguments = {
        "npu_path": str(tmp_path / "t" / "step0" / "rank"),
        "bench_path": str(tmp_path / "g" / "step0" / "rank"),
    }
    compare(arguments, tmp_path / "out", suffix="_x")
    (file,) = (tmp_path / "out").glob("advisor_x_*.txt")
    assert file.read_text().startswith(f"Line: 3\nSuspect Nodes: {SIN}.output.0\nExpert Advice: ")


def advisor(folder):
    """Line, suspect and text of the only advisor's file in a folder."""
    (file,) = folder.glob("advisor_*.txt")
    return [line.partition(": ")[2] for line in file.read_text().splitlines()]


def compared(tmp_path):
    """The console's first wrong call, and the advisor's line, suspect and text."""
    paths = {key: str(tmp_path / side / "step0/rank") for key, side in (("npu_path", "t"), ("bench_path", "g"))}
    (outcome,) = compare(paths, tmp_path / "out")
    first = outcome.first
    return first.name if first is not None else None, *advisor(tmp_path / "out")


def test_the_advisor_names_the_console_s_call_where_a_value_differs(builder, value, tmp_path):
    """The value's row is the first that 8.1 calls bad; the next bad one is of another call."""
    for side, eps, result in (("t", 1e-3, 9.0), ("g", 1e-5, 3.0)):
        made = builder(side).call("Mint.norm.0.forward", [[1.0], value(eps)], [[1.1 if side == "t" else 1.0]])
        made.call(SIN, [2.0], [result]).write()
    first, line, suspect, text = compared(tmp_path)
    assert (first, line, suspect) == ("Mint.norm.0.forward", "1", "Mint.norm.0.forward.input.1")
    assert text.startswith("An input of the call already differs")


@pytest.mark.parametrize("mode", ["statistics", "tensor"])
def test_the_advisor_names_the_console_s_call_where_8_1_calls_only_a_later_one_bad(mode, builder, tmp_path):
    """The first call differs by a tenth, which 8.1 passes; what follows from it by more than half."""
    for side, first, later in (("t", 1.1, 900.0), ("g", 1.0, 3.0)):
        before, result = np.array([first, 2.0]), np.array([later, later + 1])
        builder(side, mode=mode).call("Mint.exp.0.forward", [np.ones(2)], [before]).call(
            SIN, [before], [result]
        ).write()
    name, line, suspect, _ = compared(tmp_path)
    assert name == "Mint.exp.0.forward"
    assert (line, suspect) == ("1", "Mint.exp.0.forward.output.0")


def test_the_advisor_that_names_no_row_still_names_the_console_s_call(builder, tmp_path):
    for side, result in (("t", 3.5), ("g", 3.0)):
        builder(side).call(SIN, [2.0], [result]).write()
    name, line, suspect, text = compared(tmp_path)
    assert (name, line, suspect) == (SIN, "NA", "NA")
    assert text.endswith(f"The first wrong call by that standard is {SIN}.")


@pytest.mark.parametrize("function", [compare_distributed, ms_compare_distributed])
def test_all_ranks_of_a_step_give_an_outcome_each(function, dumps, tmp_path):
    target, golden = dumps("rank0", "rank1", wrong=("rank1",))
    outcomes = function(str(target), golden, str(tmp_path / "out"), auto_analyze=False, format="csv", workers=1)
    assert [(o.label, o.rank, o.is_clean) for o in outcomes] == [("rank 0", 0, True), ("rank 1", 1, False)]
    assert names(tmp_path / "out") == [
        "compare_result_rank0_T.csv",
        "compare_result_rank1_T.csv",
        "compare_summary_T.json",
    ]


@pytest.mark.parametrize(
    ("stack_mode", "stack_key", "shown"),
    [(True, False, True), (False, False, True), (False, True, False), (True, True, True)],
)
def test_stacks_are_shown_as_8_1_shows_them(stack_mode, stack_key, shown, dumps, tmp_path):
    target, golden = dumps("rank0", stack=["File /home/user/net.py, line 3, in construct, \n x = exp(x)"])
    arguments = {"npu_json_path": f"{target}/rank0/dump.json", "bench_json_path": f"{golden}/rank0/dump.json"}
    if stack_key:
        arguments["stack_json_path"] = f"{target}/rank0/stack.json"
    (outcome,) = compare(arguments, tmp_path / "out", stack_mode, auto_analyze=False, format="csv")
    with open(outcome.table) as file:
        assert ("NPU_Stack_Info" in next(file)) == shown


def test_kernel_dumps_are_compared_by_rank_and_step(tmp_path):
    for side in ("t", "g"):
        for rank, step in ((0, 0), (0, 1), (1, 0)):
            folder = tmp_path / side / f"rank_{rank}" / "Net" / "0" / str(step)
            folder.mkdir(parents=True)
            value = np.full(4, 2.0 if (side, rank, step) == ("t", 0, 1) else 1.0, np.float32)
            np.save(folder / "Exp.Default_Exp-op0.0.0.1.output.0.DefaultFormat.npy", value)
    arguments = {"npu_path": str(tmp_path / "t"), "bench_path": str(tmp_path / "g")}
    outcomes = ms_graph_compare({**arguments, "rank_id": [], "step_id": []}, str(tmp_path / "out"))
    assert [(o.label, o.is_clean) for o in outcomes] == [
        ("step 0, rank 0", True),
        ("step 0, rank 1", True),
        ("step 1, rank 0", False),
    ]
    assert names(tmp_path / "out") == [
        "compare_result_0_0_T.xlsx",
        "compare_result_0_1_T.xlsx",
        "compare_result_1_0_T.xlsx",
        "compare_summary_T.json",
    ]
    (one,) = ms_graph_compare({**arguments, "rank_id": [1]}, str(tmp_path / "one"))
    assert (one.label, one.rank) == ("step 0, rank 1", 1)


def test_folders_of_npy_files_are_compared_with_their_names_mapped(tmp_path):
    for side, name in (("t", "input"), ("g", "x")):
        folder = tmp_path / side / "step0" / "rank0"
        folder.mkdir(parents=True)
        for count in (2, 10):
            np.save(folder / f"{name}_float32_{count}.npy", np.full(3, count, np.float32))
            np.save(folder / f"same_float32_{count}.npy", np.full(3, count, np.float32))
    arguments = {"npu_path": str(tmp_path / "t"), "bench_path": str(tmp_path / "g"), "common": True}
    (outcome,) = ms_compare(
        {**arguments, "map_dict": {"input": "x"}}, tmp_path / "out", auto_analyze=False, format="csv"
    )
    assert outcome.is_clean
    assert outcome.judged == 4
    assert names(tmp_path / "out") == ["step0/rank0/result.csv"]
    (outcome,) = ms_compare(arguments, tmp_path / "out", auto_analyze=False, format="csv")
    assert not outcome.is_clean


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"stack_mode": "yes"}, 'compare: stack_mode: "yes" is not a boolean'),
        ({"auto_analyze": 1}, "compare: auto_analyze: 1 is not a boolean"),
        ({"fuzzy_match": None}, "compare: fuzzy_match: null is not a boolean"),
        ({"highlight": 0}, "compare: highlight: 0 is not a boolean"),
        ({"suffix": 3}, "compare: suffix: 3 is not a string"),
        ({"suffix": "../up"}, 'compare: suffix: "../up" is invalid'),
        ({"format": "pdf"}, "compare: format: pdf is invalid; choose one of xlsx, csv, json"),
        ({"workers": 0}, "compare: workers: 0 is invalid"),
        ({"workers": 2, "scheduler": "tcp://host:1"}, "workers and scheduler contradict each other"),
        ({"stack_modes": True}, "unknown keyword stack_modes"),
        ({"formt": "csv"}, "unknown keyword formt; did you mean format?"),
        ({"data_mapping": {"a": 1}}, "compare: data_mapping: a: 1 is not the name of a row"),
        ({"data_mapping": True}, "compare: data_mapping: give the path of a YAML file"),
        ({"api_mapping": 3}, "compare: api_mapping: 3 is not a file path; pass a path"),
        ({"cell_mapping": "m.yaml"}, "m.yaml: the mapping of cells cannot be read"),
        ({"layer_mapping": ["m.yaml"]}, 'compare: layer_mapping: ["m.yaml"] is not a file path; pass a path'),
    ],
)
def test_a_parameter_that_cannot_be_meant_is_named(more, message, dumps, tmp_path):
    target, golden = dumps("rank0")
    with pytest.raises(UsageError) as refused:
        compare({"npu_path": str(target), "bench_path": str(golden)}, str(tmp_path / "out"), **more)
    assert message in str(refused.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("value", "output", "message"),
    [
        ("compare.json", "out", "input_param must be a dict with npu_path and bench_path"),
        ({"npu_path": "a"}, "out", "compare: input_param: bench_path must be the path"),
        ({"npu_path": 3, "bench_path": "b"}, "out", "compare: input_param: npu_path must be the path"),
        (
            {"npu_path": "a", "npu_json_path": "a", "bench_path": "b"},
            "out",
            "npu_json_path and npu_path have the same meaning",
        ),
        ({"npu_path": "a", "bench_path": "b"}, None, "compare: output_path: null is not a path"),
        ({"npu_path": "a", "bench_path": "b"}, "", 'compare: output_path: "" is not a path'),
    ],
)
def test_input_and_output_that_cannot_be_meant_are_named(value, output, message):
    with pytest.raises(UsageError) as refused:
        compare(value, output)
    assert message in str(refused.value)


def test_mappings_that_say_nothing_are_let_through(dumps, tmp_path):
    target, golden = dumps("rank0")
    nothing = {"data_mapping": None, "cell_mapping": False, "api_mapping": None, "layer_mapping": ""}
    arguments = {"npu_path": str(target), "bench_path": str(golden)}
    assert compare(arguments, tmp_path / "out", auto_analyze=False, **nothing)[0].is_clean


def test_the_distributed_calls_take_folders_and_no_suffix(dumps, tmp_path):
    target, golden = dumps("rank0")
    with pytest.raises(UsageError, match="compare_distributed: suffix"):
        compare_distributed(str(target), str(golden), str(tmp_path), suffix="_x")
    with pytest.raises(UsageError, match=r"bench_dump_dir: .* is not a folder; give the folder of a step"):
        compare_distributed(str(target), str(golden / "rank0" / "dump.json"), str(tmp_path))
    with pytest.raises(UsageError, match="npu_dump_dir must be a path"):
        compare_distributed(None, str(golden), str(tmp_path))


def test_what_cannot_be_read_is_raised(dumps, tmp_path):
    target, golden = dumps("rank0")
    (target / "rank0" / "dump.json").write_text("{")
    with pytest.raises(DumpError, match=re.escape(str(target / "rank0" / "dump.json"))):
        compare({"npu_path": str(target), "bench_path": str(golden)}, tmp_path / "out")


def test_the_functions_are_there_without_a_framework_and_without_numpy(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_FRAMEWORK], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first.startswith("asked for ")
    assert second == "module 'msprobe.mindspore' has no attribute 'Debugger'"
