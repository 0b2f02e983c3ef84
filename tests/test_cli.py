"""The command `msprobe`, as a process: its help, its answers, its exit codes."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from openpyxl import load_workbook

pytestmark = pytest.mark.part(5)

SAMPLES = Path(__file__).parent / "samples"
DUMPS = SAMPLES / "8.1.1" / "dumps"
TARGET, GOLDEN = str(DUMPS / "msp_mix_stat" / "step0"), str(DUMPS / "ms_mix_stat" / "step0" / "rank")
WRONG = (
    "first wrong call: Primitive.dense.Dense.0.forward in fc1: parameters differ: 1 parameter differs: fc1.weight "
    "(/home/user/train/models_ms.py:40)"
)


def msprobe(*words, cwd=None, **environment):
    return subprocess.run(
        [sys.executable, "-m", "msprobe", *map(str, words)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, **environment},
        check=False,
    )


def output_of(done):
    return done.stdout.splitlines()


def complaint(done):
    """The one line of a command that was wrong."""
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    return line


def test_help_lists_the_verbs_and_loads_neither_numpy_nor_a_framework():
    probe = (
        "import sys\nfrom msprobe.cli import main\ntry:\n    main(['-h'])\nexcept SystemExit:\n    pass\n"
        "print([m for m in ('numpy', 'mindspore', 'torch', 'openpyxl') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert "compare two dumps and find the first wrong call" in done.stdout
    assert "doctor" in done.stdout
    assert output_of(done)[-1] == "[]"


def test_help_loads_little():
    """Instant: what it loads beyond an interpreter that parses arguments is a handful of our own small files."""
    probe = (
        "import argparse, importlib.metadata, sys\nbefore = set(sys.modules)\nfrom msprobe.cli import main\n"
        "try:\n    main(['-h'])\nexcept SystemExit:\n    pass\n"
        "print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    loaded = ast.literal_eval(output_of(done)[-1])
    assert "msprobe.cli" in loaded
    assert len(loaded) < 40


def test_without_a_verb_the_help_is_printed():
    done = msprobe()
    assert done.returncode == 0
    assert "check one run:" in done.stdout


@pytest.mark.parametrize("words", [["--version"], ["compare", "-tp", "x"], ["compare", "-tp", TARGET, "-gp", GOLDEN]])
def test_the_command_is_also_where_msprobe_has_it(words, tmp_path):
    ours = msprobe(*words, cwd=tmp_path)
    theirs = subprocess.run(
        [sys.executable, "-m", "msprobe.msprobe", *words], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    shown = [re.sub(r"_\d{14}(_\d+)?\b", "", done.stdout) for done in (theirs, ours)]  # the time of the table
    assert theirs.returncode == ours.returncode
    assert shown[0] == shown[1]
    assert ours.stdout or ours.returncode == 2


def test_version():
    done = msprobe("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("msprobe-ms ")


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("parse",), "this version has no command 'parse': `msprobe compare` reads kernel dumps directly"),
        (("compre",), "did you mean compare?"),
        (("-f", "tensorflow", "compare"), "invalid choice: 'tensorflow'"),
        (("compare",), "two dumps are required"),
        (("compare", "-tp", "x"), "two dumps are required"),
        (("compare", "-tp", "x", "-gp", "y"), "x: no such file or folder"),
        (("compare", "-f", "mindspore", "-tp", "x", "-gp", "y"), "msprobe -f mindspore compare"),
        (("compare", "-tp", "x", "-gp", "y", "z"), "'z' does not belong to an option"),
        (("compare", "-tp", TARGET, "-gp", GOLDEN, "-am", "m.yaml"), "m.yaml: the mapping of APIs cannot be read"),
        (("compare", "-tp", TARGET, "-gp", GOLDEN, "-cm", "m.yaml"), "m.yaml: the mapping of cells cannot be read"),
        (("compare", "-tp", TARGET, "-gp", GOLDEN, "-dm", "m.yaml"), "m.yaml: the mapping of records cannot be read"),
        (("compare", "-tp", TARGET, "-gp", GOLDEN, "-lm", "m.yaml"), "m.yaml: the mapping of layers cannot be read"),
        (("compare", "-tp", "x", "-gp", "y", "--rank", "0;1"), '--ranks: "0;1" is neither a number nor a range'),
        (("compare", "-tp", "x", "-gp", "y", "--step", "all"), '--steps: "all" is neither a number nor a range'),
        (("compare", "-tp", "x", "-gp", "y", "--rank", "3-0"), '--ranks: "3-0" is a descending range'),
        (("gather", "x", "-o", "y", "--rank", "0,,1"), '--ranks: "" is neither a number nor a range'),
        (("compare", "-tp", TARGET, "-gp", GOLDEN, "--rank", "4"), "rank 4 on neither side; available: rank 0"),
        (("compare", "-tp", TARGET, "-gp", GOLDEN, "--step", "0"), "--steps selects steps of a folder"),
        (("compare", "-tp", "x", "-gp", "y", "-m", "offline_data"), "only -m auto"),
        (("compare", "-tp", "x", "-gp", "y", "--workers", "0"), "--workers: 0 is invalid"),
        (("compare", "-tp", "x", "-gp", "y", "--workers", "2", "--scheduler", "h"), "contradict each other"),
        (
            ("compare", "-tp", "x", "-gp", "y", "--consistent_check"),
            "training against inference is not available in this version",
        ),
        (("compare", "-tp", "x", "-gp", "y", "--format", "pdf"), "pdf is invalid; choose one of xlsx, csv, json"),
        (("compare", "-tp", "x", "-gp", "y", "--xlsx", "--format", "csv"), "contradict each other"),
        (("compare", "-tp", "x", "-gp", "y", "--top", "-1"), "--top: -1 is invalid"),
        (("compare", "-i", "c.json", "-tp", "x"), "-i already gives both sides"),
        (("compare", "-i", "no.json"), "no.json: cannot be read"),
        (("compare", "--unknown"), "--unknown"),
        (("gather", "x"), "missing: -o/--output"),
        (("gather", "x", "-o", "y"), "x: is not a folder; give the dump_path of a kernel dump"),
        (("gather", ".", "-o", "y"), ".: contains no kernel dump"),
    ],
)
def test_a_wrong_command_is_one_line_and_exit_code_2(words, part, tmp_path):
    assert part in complaint(msprobe(*words, cwd=tmp_path))


@pytest.mark.parametrize("form", ["xlsx", "csv", "json"])
def test_a_difference_is_named_last_and_exits_with_1(form, tmp_path):
    done = msprobe("compare", "-tp", TARGET, "-gp", GOLDEN, "-o", tmp_path / "新 folder", "--format", form)
    assert (done.returncode, output_of(done)[-1]) == (1, WRONG)
    assert output_of(done)[0] == "error: Primitive.dense.Dense.0.forward in fc1: parameters differ (certain)"
    assert "13 pass, 0 warning, 40 error, 0 unjudged (compared by statistics)" in done.stdout
    assert len(output_of(done)) <= 12
    (file,) = (tmp_path / "新 folder").iterdir()
    assert file.name.startswith("compare_result_2")
    assert file.suffix == f".{form}"
    assert len(file.stem) == len("compare_result_") + 14
    assert output_of(done)[-2] == f"  written: {file}"


def test_equal_dumps_exit_with_0(tmp_path):
    done = msprobe("compare", "-tp", GOLDEN, "-gp", GOLDEN, "-o", tmp_path)
    assert (done.returncode, output_of(done)[-1]) == (0, "no difference: 53 pairs judged, 0 unjudged")


@pytest.mark.sample(3)
@pytest.mark.parametrize("mode", ["stat", "tensor", "md5"])
@pytest.mark.parametrize("version", ["8.1.1", "26.2.0"])
def test_every_sample_pair(version, mode, tmp_path):
    dumps = SAMPLES / version / "dumps"
    wrong = msprobe(
        "compare", "-tp", dumps / f"msp_mix_{mode}" / "step0", "-gp", dumps / f"ms_mix_{mode}" / "step0", "-o", tmp_path
    )
    assert (wrong.returncode, output_of(wrong)[-1]) == (1, WRONG)
    clean = msprobe(
        "compare", "-tp", dumps / f"ms_mix_{mode}" / "step0", "-gp", dumps / f"ms_mix_{mode}" / "step0", "-o", tmp_path
    )
    assert (clean.returncode, output_of(clean)[-1]) == (0, "no difference: 53 pairs judged, 0 unjudged")


def test_exit_zero_is_for_scripts_that_expect_it(tmp_path):
    done = msprobe("compare", "-tp", TARGET, "-gp", GOLDEN, "-o", tmp_path, "--exit-zero")
    assert (done.returncode, output_of(done)[-1]) == (0, WRONG)


def test_the_output_folder_is_output_by_default(tmp_path):
    for words in ((), ("-o",)):
        msprobe("compare", "-tp", GOLDEN, "-gp", GOLDEN, *words, cwd=tmp_path)
        assert list((tmp_path / "output").glob("compare_result_*.xlsx"))


def test_a_whole_run_is_compared_step_by_step(tmp_path):
    done = msprobe(
        "compare", "-tp", DUMPS / "msp_mix_stat", "-gp", DUMPS / "ms_mix_stat", "-o", tmp_path, "--format", "csv"
    )
    assert (done.returncode, output_of(done)[-1]) == (1, WRONG)
    (file,) = (tmp_path / "step0").iterdir()
    assert file.name.startswith("compare_result_rank_2")
    assert "target: MindSpore, statistics, level mix" in done.stderr, "what was read is said"


@pytest.mark.parametrize(("text", "expected"), [("0-2", {0, 1, 2}), (" 0 , 2 - 3 ", {0, 2, 3}), ("1", {1})])
def test_ranks_are_chosen_by_ranges(text, expected, tmp_path):
    for side in ("target", "golden"):
        for rank in range(4):
            shutil.copytree(DUMPS / "ms_mix_stat" / "step0" / "rank", tmp_path / side / f"rank{rank}")
    done = msprobe("compare", "target", "golden", "--rank", text, "-o", "out", "--format", "csv", cwd=tmp_path)
    assert done.returncode == 0
    made = {int(path.name.split("_")[2].removeprefix("rank")) for path in (tmp_path / "out").glob("*.csv")}
    assert made == expected


def test_compare_json_of_8_1_works(tmp_path):
    (tmp_path / "compare.json").write_text(
        json.dumps(
            {"npu_path": f"{TARGET}/rank/dump.json", "bench_path": f"{GOLDEN}/dump.json", "is_print_compare_log": True}
        )
    )
    done = msprobe("-f", "mindspore", "compare", "-i", "compare.json", "-o", "out", "-c", "-f", cwd=tmp_path)
    assert (done.returncode, output_of(done)[-1]) == (1, WRONG)
    (file,) = (tmp_path / "out").glob("*.xlsx")
    heading = next(load_workbook(file).active.iter_rows(values_only=True))
    assert "NPU_Stack_Info" in heading  # 8.1 shows the stack that lies beside the dump


@pytest.mark.parametrize(("flag", "shown"), [((), False), (("-s",), True)])
def test_a_stack_path_is_shown_with_s_only(flag, shown, tmp_path):
    text = {"npu_path": TARGET, "bench_path": GOLDEN, "stack_path": f"{TARGET}/rank/stack.json"}
    (tmp_path / "compare.json").write_text(json.dumps(text))
    msprobe(
        "--framework", "mindspore", "compare", "-i", "compare.json", "-o", "out", "--format", "csv", *flag, cwd=tmp_path
    )
    (file,) = (tmp_path / "out").glob("*.csv")
    assert ("NPU_Stack_Info" in file.read_text().splitlines()[0]) == shown


@pytest.mark.parametrize("folder", [f"{TARGET}/rank", TARGET])
def test_a_stack_path_may_be_the_folder_that_holds_the_stack(folder, tmp_path):
    text = {"npu_path": TARGET, "bench_path": GOLDEN, "stack_path": folder}
    (tmp_path / "compare.json").write_text(json.dumps(text))
    done = msprobe("compare", "-i", "compare.json", "-o", "out", "--format", "csv", "-s", cwd=tmp_path)
    assert (done.returncode, output_of(done)[-1]) == (1, WRONG)
    (file,) = (tmp_path / "out").glob("*.csv")
    assert "NPU_Stack_Info" in file.read_text().splitlines()[0]
    assert "models_ms.py" in file.read_text()


def test_relative_paths_count_from_here_else_from_beside_the_file(tmp_path):
    inner = tmp_path / "配置 1"
    inner.mkdir()
    (inner / "a").symlink_to(TARGET)
    (inner / "b").symlink_to(GOLDEN)
    (inner / "compare.json").write_text(json.dumps({"npu_path": "a", "bench_path": "b"}))
    for cwd, file in ((tmp_path, "配置 1/compare.json"), (inner, "compare.json")):
        done = msprobe("compare", "-i", file, "-o", tmp_path / "out", cwd=cwd)
        assert (done.returncode, output_of(done)[-1]) == (1, WRONG)
    (tmp_path / "a").symlink_to(GOLDEN)
    done = msprobe("compare", "-i", "配置 1/compare.json", "-o", tmp_path / "out", cwd=tmp_path)
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ('{"npu_path": "x"}', "bench_path must be the path"),
        ('{"bench_path": "x"}', "npu_path must be the path"),
        ('{"npu_path": ".", "bench_path": 3}', "bench_path must be the path"),
        ("[]", "must contain a JSON object"),
        ("{", "is not valid JSON"),
        ('{"npu_path": ".", "bench_path": ".", "rank_id": 0}', "rank_id: 0 is not a list"),
        ('{"npu_path": ".", "bench_path": ".", "rank_id": [0]}', "contains nothing that can be compared"),
        ('{"npu_path": ".", "bench_path": ".", "common": true}', "does not contain npy files"),
        (
            '{"npu_path": ".", "bench_path": ".", "common": true, "map_dict": {"a": 1}}',
            'map_dict: {"a": 1} is not an object',
        ),
    ],
)
def test_a_compare_json_that_cannot_be_meant(text, part, tmp_path):
    (tmp_path / "compare.json").write_text(text)
    assert part in complaint(msprobe("compare", "-i", "compare.json", cwd=tmp_path))


def test_a_structure_dump_cannot_be_compared(tmp_path):
    structure = DUMPS / "task_structure_mix" / "step0"
    assert "structure" in complaint(msprobe("compare", "-tp", structure, "-gp", structure, "-o", tmp_path))


def test_an_output_folder_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    line = complaint(msprobe("compare", "-tp", GOLDEN, "-gp", GOLDEN, "-o", tmp_path / "file" / "deeper"))
    assert "cannot be written" in line


def test_the_log_level_silences_the_talk_not_the_answer(tmp_path):
    done = msprobe("compare", "-tp", GOLDEN, "-gp", GOLDEN, "-o", tmp_path, MSPROBE_LOG_LEVEL="4")
    assert done.stderr == ""
    assert [line.partition(":")[0].strip() for line in output_of(done)] == [
        "ok",
        "judged",
        "limits",
        "written",
        "no difference",
    ]


def test_a_verb_of_two_words_needs_both():
    for words in (["monitor"], ["monitor", "zzz"]):
        assert "choose from: monitor compare, monitor anomalies" in complaint(msprobe(*words))
    listed = msprobe("monitor", "-h")
    assert listed.returncode == 0
    assert [line.partition(":")[0] for line in output_of(listed)] == [
        "msprobe monitor compare",
        "msprobe monitor anomalies",
    ]
