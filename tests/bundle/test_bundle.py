"""A bundle gives the verdicts of the dumps that it was made of, whatever they are stored as."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from msprobe.store.npy import load_npy

pytestmark = [pytest.mark.slow, pytest.mark.part(3)]

SAMPLES = Path(__file__).parents[1] / "samples"

STATISTICS = {
    "26.2.0": ("26.2.0/dumps/ms_mix_stat", "26.2.0/dumps/msp_mix_stat"),
    "8.1.1": ("8.1.1/dumps/ms_mix_stat", "8.1.1/dumps/msp_mix_stat"),
    "8.3.3": ("8.3.3/dumps/ms_mix_stat", "8.3.3/dumps/msp_mix_stat"),
    "1.3.0": ("1.3.0/dumps/ms_mix_stat", "1.3.0/dumps/msp_mix_stat"),
    "digests": ("26.2.0/dumps/ms_mix_md5", "26.2.0/dumps/msp_mix_md5"),
    "cells": ("26.2.0/dumps/ms_L0_stat", "26.2.0/dumps/ms_L0_stat"),
    "flat": ("26.2.0/dumps/ms_L1_stat", "26.2.0/dumps/ms_L1_stat"),
    "two frameworks": ("26.2.0/dumps/ms_mix_stat", "26.2.0/dumps/pt_mix_stat"),
    "an LSTM": ("twins/lstm_ms", "twins/lstm_pt"),
    "a fault in an LSTM": ("twins/lstm_ms_bias_doubled", "twins/lstm_pt"),
}


@pytest.mark.parametrize("case", STATISTICS)
def test_statistics_give_the_same_rows_to_the_last_digit(case, runs, about):
    sides = [SAMPLES / side for side in STATISTICS[case]]
    file, out = runs.bundle(*sides)
    ours, theirs = runs.compare(*sides), runs.compare(file)
    assert theirs.code == ours.code
    assert theirs.tables == ours.tables
    assert sum(len(table["rows"]) for table in ours.tables.values()) >= 20
    assert about(file)["answer_of_bundle"]["differs_in"] == 0
    assert out.splitlines()[-1].startswith("the verdicts of the bundle equal those of the dumps: ")


TENSORS = {
    "26.2.0": ("26.2.0/dumps/ms_mix_tensor", "26.2.0/dumps/msp_mix_tensor"),
    "8.1.1": ("8.1.1/dumps/ms_mix_tensor", "8.1.1/dumps/msp_mix_tensor"),
    "8.3.3": ("8.3.3/dumps/ms_L0_tensor", "8.3.3/dumps/ms_L0_tensor"),
}


@pytest.mark.parametrize("case", TENSORS)
def test_tensors_on_request_give_the_same_rows(case, runs):
    sides = [SAMPLES / side for side in TENSORS[case]]
    file, _ = runs.bundle(*sides, "--tensors")
    ours, theirs = runs.compare(*sides), runs.compare(file)
    assert (theirs.code, theirs.tables) == (ours.code, ours.tables)
    assert all(table["mode"] == "tensor" for table in ours.tables.values())


def test_tensors_are_absent_unless_requested(runs, entries, about):
    sides = [SAMPLES / side for side in TENSORS["26.2.0"]]
    without, _ = runs.bundle(*sides)
    with_tensors, _ = runs.bundle(*sides, "--tensors", name="tensors.zip")
    assert [name for name in entries(without) if name.endswith(".npy")] == []
    assert not any(b"data_name" in text for name, text in entries(without).items() if name.endswith("dump.json"))
    assert about(without)["tensors"] == "none"
    assert len([name for name in entries(with_tensors) if name.endswith(".npy")]) == 104
    assert without.stat().st_size < with_tensors.stat().st_size / 3
    assert without.stat().st_size < 20_000


def test_a_bundle_that_gives_other_verdicts_says_so(runs, copied):
    """Two elements that changed places have the statistics of those that did not."""
    target, golden = copied("26.2.0/dumps/ms_mix_tensor", "t"), copied("26.2.0/dumps/ms_mix_tensor", "g")
    file = next(target.rglob("Mint.square.0.forward.input.0.npy"))
    array = np.load(file)
    np.save(file, array[::-1].copy())
    assert runs.compare(target, golden).code == 1
    path, out = runs.bundle(target, golden, code=1)
    assert "the verdicts of the bundle differ from those of the dumps for " in out.splitlines()[-1]
    assert "--tensors" in out.splitlines()[-1]
    assert runs.compare(path).code == 0
    path, _ = runs.bundle(target, golden, "--tensors", name="tensors.zip")
    assert runs.compare(path).code == 1


@pytest.mark.parametrize("form", ["columnar", "packed"])
def test_binary_formats_give_the_same_rows(form, runs, about, tmp_path):
    pytest.importorskip("pyarrow", reason="columnar dumps need pyarrow")
    sides = []
    for name, sample in zip("tg", TENSORS["26.2.0"], strict=True):
        sides.append(tmp_path / name)
        assert runs("convert", SAMPLES / sample, "-o", sides[-1], "--to", form)[0] == 0
    assert not list(sides[0].rglob("*.npy"))
    file, _ = runs.bundle(*sides, "--tensors")
    ours, theirs = runs.compare(*sides), runs.compare(file)
    assert (theirs.code, theirs.tables) == (ours.code, ours.tables)
    assert about(file)["sides"]["target"]["format"] == form
    without, _ = runs.bundle(*sides, name="without.zip")
    assert runs.compare(without).tables.keys() == ours.tables.keys()


@pytest.fixture
def several(tmp_path):
    """Runs of steps 0 and 3 with ranks 0 and 1; in the target, step 3 of rank 1 differs, and rank 2 has no dump."""
    for side in "tg":
        for step in (0, 3):
            for rank in (0, 1):
                is_wrong = side == "t" and (step, rank) == (3, 1)
                sample = SAMPLES / "26.2.0/dumps" / ("msp_mix_stat" if is_wrong else "ms_mix_stat")
                shutil.copytree(next(sample.glob("step0/*")), tmp_path / side / f"step{step}" / f"rank{rank}")
    (tmp_path / "t" / "step0" / "rank2").mkdir()
    (tmp_path / "g" / "step0" / "rank2").mkdir()
    return tmp_path / "t", tmp_path / "g"


def test_many_steps_and_ranks_give_the_same_tables(several, runs):
    file, _ = runs.bundle(*several)
    ours, theirs = runs.compare(*several), runs.compare(file)
    assert len(ours.tables) == 5, "of four dumps, and their summary"
    assert (theirs.code, theirs.tables.keys()) == (ours.code, ours.tables.keys())
    rows = {name: table["rows"] for name, table in ours.tables.items() if "rows" in table}
    assert {name: theirs.tables[name]["rows"] for name in rows} == rows
    assert len(rows) == 4


def test_only_the_chosen_steps_and_ranks_are_packed(several, runs, entries, about):
    file, _ = runs.bundle(*several, "--step", "3", "--rank", "1")
    dumps = [name for name in entries(file) if name.endswith("dump.json")]
    assert sorted(dumps) == ["golden/step3/rank1/dump.json", "target/step3/rank1/dump.json"]
    assert about(file)["options"] == {"rank": "1", "step": "3"}
    ours, theirs = runs.compare(*several, "--step", "3", "--rank", "1"), runs.compare(file)
    assert (theirs.code, theirs.tables) == (ours.code, ours.tables)
    assert ours.code == 1


@pytest.mark.parametrize("inner", ["step3", "step3/rank1", "step3/rank1/dump.json"])
def test_a_path_below_the_run_keeps_its_step_and_rank(inner, several, runs):
    sides = [side / inner for side in several]
    file, _ = runs.bundle(*sides)
    ours, theirs = runs.compare(*sides), runs.compare(file)
    assert (theirs.code, theirs.tables) == (ours.code, ours.tables)
    found = [table["first_wrong"][0] for table in theirs.tables.values() if table.get("first_wrong")]
    assert {(one["step"], one["rank"]) for one in found} == {(3, 1)}


def with_debug(folder):
    """The same dumps, each with what was saved by hand beside it."""
    for file in [*folder.rglob("dump.json")]:
        held = json.loads(file.read_text())
        held["data"] = {"x.0.debug": next(iter(held["data"].values()))["input_args"]}
        file.with_name("debug.json").write_text(json.dumps({**held, "level": "debug"}))


def in_trees(folder):
    """The same run as that of graphs and of PyNative code."""
    inner = [*folder.iterdir()]
    for tree in ("graph", "pynative"):
        for each in inner:
            shutil.copytree(each, folder / tree / each.name)
    for each in inner:
        shutil.rmtree(each)


ARRANGED = {
    "ranks that are merged": (lambda folder: shutil.rmtree(folder / "step0" / "rank2"), ["--rank_size", "2", "2"]),
    "what was saved by hand beside each dump": (with_debug, ["--step", "0"]),
    "graphs and PyNative code": (in_trees, ["--rank", "1"]),
}


@pytest.mark.parametrize("case", ARRANGED)
def test_other_arrangements_give_the_same_tables(case, several, runs):
    arrange, options = ARRANGED[case]
    for side in several:
        arrange(side)
    file, out = runs.bundle(*several, *options)
    ours, theirs = runs.compare(*several, *options), runs.compare(file)
    rows = [{n: t["rows"] for n, t in each.tables.items() if "rows" in t} for each in (ours, theirs)]
    assert rows[0] == rows[1]
    assert theirs.code == ours.code
    assert len(rows[0]) >= 4
    assert "the verdicts of the bundle equal those of the dumps" in out


OTHERS = {
    "graph saves": ("graph_save/26.2.0", ""),
    "single saves": ("single_save", "data"),
    "a kernel dump": ("kernel_dump/cpu", ""),
    "a kernel dump by its rank": ("kernel_dump/cpu", "rank_0"),
    "npy files": ("26.2.0/dumps/ms_mix_tensor/step0/proc11154/dump_tensor_data", ""),
}


@pytest.mark.parametrize("case", OTHERS)
@pytest.mark.parametrize("options", [["--tensors"], ["--tensors", "--scramble"]], ids=["tensors", "scrambled"])
def test_files_that_hold_only_tensors_give_the_same_rows(case, options, runs, copied):
    sample, inner = OTHERS[case]
    target = copied(sample, "t") / inner
    wrong = sorted(path for path in target.rglob("*.npy") if np.load(path).dtype == np.float32)[-1]
    np.save(wrong, np.load(wrong) + 1)
    sides = [target, SAMPLES / sample / inner]
    file, _ = runs.bundle(*sides, *options)
    ours, theirs = runs.compare(*sides), runs.compare(file)
    assert ours.code == theirs.code == 1
    verdicts = [
        {
            name: [(r["NPU Name"], r["Bench Name"], r["Verdict"]) for r in table["rows"]]
            for name, table in each.tables.items()
            if "rows" in table
        }
        for each in (ours, theirs)
    ]
    assert verdicts[0] == verdicts[1]
    assert any(verdicts[0].values())
    code, _, err = runs("bundle", *sides, "-o", runs.folder / "x.zip")
    assert (code, "--tensors" in err) == (2, True)


def test_tensors_of_torch_become_npy_files(runs, entries, tmp_path):
    torch = pytest.importorskip("torch", reason="files of torch are written and opened by torch")
    sides = []
    for side, value in (("t", 2.0), ("g", 1.0)):
        folder = tmp_path / side / "step0" / "rank0"
        (folder / "dump_tensor_data").mkdir(parents=True)
        names = [f"Torch.exp.0.forward.{part}.0.pt" for part in ("input", "output")]
        for name, number in zip(names, (1.0, value), strict=True):
            torch.save(torch.full((2, 3), number, dtype=torch.bfloat16), folder / "dump_tensor_data" / name)
        leaves = [
            {"type": "torch.Tensor", "dtype": "torch.bfloat16", "shape": [2, 3], "Max": n, "Min": n, "Mean": n,
             "Norm": n * 6**0.5, "data_name": name}
            for name, n in zip(names, (1.0, value), strict=True)
        ]  # fmt: skip
        entry = {"input_args": leaves[:1], "input_kwargs": {}, "output": leaves[1:]}
        data = {"Torch.exp.0.forward": entry}
        head = {"task": "tensor", "level": "L1", "framework": "pytorch", "dump_data_dir": str(folder)}
        (folder / "dump.json").write_text(json.dumps({**head, "data": data}))
        sides.append(tmp_path / side)
    file, _ = runs.bundle(*sides, "--tensors")
    tensors = [name for name in entries(file) if "dump_tensor_data" in name]
    assert sorted(name.rpartition("/")[2] for name in tensors) == 2 * ["Torch.exp.0.forward.input.0.npy"] + 2 * [
        "Torch.exp.0.forward.output.0.npy"
    ]
    rows = [
        [(r["NPU Name"], r["Verdict"], r["MaxAbsErr"]) for table in each.tables.values() for r in table["rows"]]
        for each in (runs.compare(*sides), runs.compare(file))
    ]
    assert rows[0] == rows[1]
    assert [row[1] for row in rows[0]] == ["pass", "error"]


def test_scrambling_permutes_both_sides_alike_and_keeps_the_verdicts(runs, entries, tmp_path):
    sides = [SAMPLES / side for side in TENSORS["26.2.0"]]
    file, _ = runs.bundle(*sides, "--tensors", "--scramble")
    ours, theirs = runs.compare(*sides), runs.compare(file)
    names = ("NPU Name", "Bench Name", "Verdict", "MaxAbsErr", "Max ULP", "One Thousandth Err Ratio")
    rows = [[[r[n] for n in names] for t in each.tables.values() for r in t["rows"]] for each in (ours, theirs)]
    assert rows[0] == rows[1]
    found = {}
    for side, sample in zip(("target", "golden"), sides, strict=True):
        for name, content in entries(file).items():
            if name.startswith(side) and name.endswith("Primitive.dense.Dense.0.forward.input.1.npy"):
                (tmp_path / f"{side}.npy").write_bytes(content)
                original = load_npy(next(sample.rglob(name.rpartition("/")[2])))
                found[side] = original, load_npy(tmp_path / f"{side}.npy")
    for original, scrambled in found.values():
        assert (np.sort(original, axis=None) == np.sort(scrambled, axis=None)).all()
        assert (original != scrambled).sum() > 400
    differences = [found["target"][at] - found["golden"][at] for at in (0, 1)]
    assert (np.sort(differences[0], axis=None) == np.sort(differences[1], axis=None)).all()


def test_equal_inputs_give_equal_files(runs, several):
    sides = [SAMPLES / side for side in TENSORS["26.2.0"]]
    for words in ([*sides, "--tensors", "--anonymous"], several):
        files = [runs.bundle(*words, name=f"{n}{len(words)}.zip")[0] for n in range(2)]
        assert files[0].read_bytes() == files[1].read_bytes()


MAPPING = """
# for alice only
Cell.fc1.Linear.forward.0.output.0: Module.fc1.Linear.forward.0.output.0
"""


def test_options_and_their_files_are_packed_and_used(runs, about, entries, tmp_path, monkeypatch):
    monkeypatch.setenv("USER", "alice")
    mapping = tmp_path / "names.yaml"
    mapping.write_text(MAPPING)
    sides = [SAMPLES / side for side in STATISTICS["two frameworks"]]
    options = ["-dm", mapping, "-f", "--noise", "auto", "--ignore", "*loss*", "--atol", "0.5", "--rtol", "*fc2*=0.25"]
    file, _ = runs.bundle(*sides, *options)
    assert about(file)["options"] == {
        "atol": ["0.5"],
        "data_mapping": {"file": "options/data_mapping.yaml"},
        "fuzzy_match": True,
        "ignore": ["*loss*"],
        "noise": "auto",
        "rtol": ["*fc2*=0.25"],
    }
    assert b"alice" not in entries(file)["options/data_mapping.yaml"]
    ours = runs.compare(*sides, *options)
    mapping.unlink()
    theirs = runs.compare(file)
    assert (theirs.code, theirs.tables) == (ours.code, ours.tables)
    assert ours.code in (0, 1)
    plain = runs.compare(*sides)
    assert plain.tables != ours.tables, "the options change the answer"


def test_an_option_of_the_command_line_goes_before_the_stored_one(runs):
    sides = [SAMPLES / side for side in STATISTICS["26.2.0"]]
    file, _ = runs.bundle(*sides, "--atol", "1000")
    assert runs.compare(file).code == 0
    assert runs.compare(file, "--atol", "0").code == 1


def test_a_file_of_noise_limits_is_packed(runs, about, tmp_path):
    noise = tmp_path / "noise.json"
    side = {"framework": "mindspore"}
    noise.write_text(
        json.dumps(
            {"noise_version": 1, "calibrated_on": side, "golden": side, "residuals": [], "amplifications": [],
             "drifts": [], "first_wrong": []}
        )
    )  # fmt: skip
    sides = [SAMPLES / side for side in TENSORS["26.2.0"]]
    ours = runs.compare(*sides, "--noise", noise)
    if ours.code == 2:
        pytest.fail("the noise.json of this test is refused")
    file, _ = runs.bundle(*sides, "--noise", noise)
    assert about(file)["options"] == {"noise": {"file": "options/noise.json"}}
    noise.unlink()
    assert runs.compare(file).code == ours.code


def test_the_answer_and_the_versions_are_in_it(runs, about, entries):
    sides = [SAMPLES / side for side in STATISTICS["26.2.0"]]
    file, _ = runs.bundle(*sides)
    ours, held = runs.compare(*sides), about(file)
    assert held["answer"]["exit_code"] == ours.code == 1
    assert held["answer"]["lines"][0] == ours.lines[0]
    assert held["tool"].startswith("msprobe-ms ")
    assert {"python", "platform", "numpy"} <= held["made_with"].keys()
    assert held["sides"]["target"]["made_with"][0]["framework"] == "mindspore"
    tables = {name: text for name, text in entries(file).items() if name.startswith("answer/step0/")}
    (table,) = (json.loads(text) for text in tables.values())
    assert without(table["rows"]) == without(next(iter(ours.tables.values()))["rows"])
    printed = entries(file)["answer/output.txt"].decode().splitlines()
    assert printed[-1] == "exit code 1"


def without(rows):
    return [{k: v for k, v in row.items() if k not in ("Reason", "Err_message")} for row in rows]


def test_a_failure_of_the_comparison_is_packed(runs, about, several, monkeypatch):
    from msprobe.compare import dispatch

    place = "/".join(("", "home", "alice", "secret", "net.py"))

    def fail(*_):
        raise ZeroDivisionError(f"in the middle of {place}")

    sides = [SAMPLES / side for side in STATISTICS["26.2.0"]]
    monkeypatch.setattr(dispatch, "compare_paths", fail)
    file, _ = runs.bundle(*sides)
    held = about(file)["answer"]
    assert held["exit_code"] == 2
    assert held["failure"].startswith("ZeroDivisionError: in the middle of <dir")
    assert "alice" not in json.dumps(held)
    assert any("fail" in line for line in held["traceback"])
    monkeypatch.undo()
    assert runs.compare(file).code == 1


def test_report_and_diagnose_read_a_bundle(runs):
    sides = [SAMPLES / side for side in STATISTICS["26.2.0"]]
    file, _ = runs.bundle(*sides)
    for verb in ("diagnose", "report"):
        last = []
        for paths in (sides, [file]):
            words = ["-o", runs.folder / f"{len(last)}.html"] if verb == "report" else []
            code, out, _ = runs(verb, *paths, *words)
            last.append((code, out.splitlines()[-1 if verb == "report" else 0].partition(" (")[0]))
        assert last[0] == last[1]
        assert last[0][0] == 1


def test_a_dry_run_lists_the_entries_and_writes_nothing(runs, tmp_path):
    sides = [SAMPLES / side for side in STATISTICS["26.2.0"]]
    code, out, _ = runs("bundle", *sides, "--dry-run", "-o", tmp_path / "b.zip")
    assert code == 0
    assert any(line.startswith("target/step0/") and "dump.json: " in line for line in out.splitlines())
    assert not (tmp_path / "b.zip").exists()


def test_an_unfinished_dump_and_a_flow_are_refused_with_what_to_do(runs, copied, tmp_path):
    good = SAMPLES / "26.2.0/dumps/ms_mix_stat"
    (tmp_path / "u" / "step0" / "rank0").mkdir(parents=True)
    (tmp_path / "u" / "step0" / "rank0" / "dump.journal").write_text("")
    wrong = {
        "no such": ([tmp_path / "nope", good], "no such file or folder"),
        "unfinished": ([tmp_path / "u", good], "msprobe doctor"),
        "not a readable zip": ([good, good, "-o", "x.txt"], ".zip"),
        "scramble alone": ([good, good, "--scramble"], "--tensors"),
        "an option that is invalid": ([good, good, "--noise", "nope"], "--noise nope"),
        "different kinds": ([good, SAMPLES / "graph_save/26.2.0", "--tensors"], "different kinds"),
    }
    for words, text in wrong.values():
        code, out, err = runs("bundle", "-o", tmp_path / "b.zip", *words)
        lines = [line for line in err.splitlines() if " INFO: " not in line]
        assert (code, out, len(lines)) == (2, "", 1), (words, out, err)
        assert text in lines[0]
    assert not (tmp_path / "b.zip").exists()


def test_a_file_that_is_there_is_not_replaced(runs, tmp_path):
    good = SAMPLES / "26.2.0/dumps/ms_mix_stat"
    (tmp_path / "b.zip").write_text("mine")
    code, _, err = runs("bundle", good, good, "-o", tmp_path / "b.zip")
    assert (code, "already exists" in err) == (2, True)
    assert (tmp_path / "b.zip").read_text() == "mine"
