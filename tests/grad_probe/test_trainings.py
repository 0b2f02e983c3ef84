"""Whole trainings with the probe and without, each in a process of its own: the numbers, and the training's bits."""

import json
import signal
import subprocess
import zlib
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from preloaded import python

pytestmark = [pytest.mark.mindspore, pytest.mark.torch, pytest.mark.part(3)]

TRAIN = Path(__file__).parent / "train.py"
STEPS = 3
BOUNDS = [-0.5, 0, 0.25]
MODULES = {"mindspore": ("mindspore",), "pytorch": ("torch", "torch._dynamo")}


def run(folder, *what, settings=None, code=0):
    """A training in a process; its gradients by step, its parameters, and what it wrote to standard error."""
    folder.mkdir()
    words = [*what, str(folder)]
    if settings is not None:
        config = folder / "config.json"
        config.write_text(json.dumps({"task": "grad_probe", "dump_path": str(folder / "dump"), **settings}))
        words.append(str(config))
    done = subprocess.run([python(*MODULES[what[0]]), TRAIN, *words], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    if code:
        return None
    seen = dict(np.load(folder / "seen.npz"))
    gradients = {}
    for key, value in seen.items():
        kind, _, rest = key.partition(" ")
        if kind == "gradient":
            step, _, name = rest.partition(" ")
            gradients.setdefault(int(step), {})[name] = value
    return gradients, {key: value for key, value in seen.items() if key.startswith("parameter ")}


def expected(level, gradient):
    """The numbers of one gradient, by column."""
    found = {"max": gradient.max(), "min": gradient.min()}
    found["norm"] = np.sqrt((gradient.astype(np.float64) ** 2).sum())
    if level == "L0":
        found["MD5"] = f"{zlib.crc32(gradient.astype('<f4').tobytes()):08x}"
    if level == "L2":
        size = gradient.size
        found["(-inf, -0.5]"] = (gradient <= -0.5).sum() / size
        found["(-0.5, 0]"] = ((gradient > -0.5) & (gradient <= 0)).sum() / size
        found["(0, 0.25]"] = ((gradient > 0) & (gradient <= 0.25)).sum() / size
        found["(0.25, inf)"] = (gradient > 0.25).sum() / size
        found["=0"] = (gradient == 0).sum() / size
        found["nan"] = 0.0
    return found


COLUMNS = {
    "L0": ["param_name", "MD5", "max", "min", "norm", "shape"],
    "L1": ["param_name", "max", "min", "norm", "shape"],
    "L2": [
        *("param_name", "(-inf, -0.5]", "(-0.5, 0]", "(0, 0.25]", "(0.25, inf)", "=0", "nan"),
        *("max", "min", "norm", "shape"),
    ],
}


def check(found, level, gradients):
    """Every file of a run against the gradients that its optimizer received."""
    assert found.steps == list(range(STEPS))
    for step in range(STEPS):
        table = found.table(step)
        assert list(table) == list(gradients[step]), "in the order of the optimizer"
        for name, gradient in gradients[step].items():
            row = table[name]
            assert list(row) == COLUMNS[level]
            assert row["shape"] == str(list(gradient.shape))
            for column, value in expected(level, gradient).items():
                if isinstance(value, str):
                    assert row[column] == value
                else:
                    assert float(row[column]) == pytest.approx(value, rel=1e-12 if column == "norm" else 0, abs=0)
            if level != "L0":
                signs = found.signs(step, name)
                assert signs.dtype == np.bool_
                np.testing.assert_array_equal(signs, gradient > 0)
    if level == "L0":
        assert found.files == []


CASES = [
    ("mindspore", "pynative", "adam", "L2"),
    ("mindspore", "pynative", "grouped", "L1"),
    ("mindspore", "pynative", "experimental", "L0"),
    ("mindspore", "jit", "momentum", "L2"),
    ("mindspore", "jit", "experimental", "L1"),
    ("mindspore", "jit", "adam", "L0"),
    ("mindspore", "graph", "adam", "L2"),
    ("mindspore", "graph", "grouped", "L1"),
    ("mindspore", "graph", "momentum", "L0"),
    ("pytorch", "named", "adam", "L2"),
    ("pytorch", "model", "adam", "L1"),
    ("pytorch", "named", "adam", "L0"),
]


@pytest.fixture(scope="module")
def without(tmp_path_factory):
    """The training without the probe, which the levels share."""
    root = tmp_path_factory.mktemp("plain")
    return cache(lambda *what: run(root / "-".join(what), *what))


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_tables_and_signs_are_those_of_the_gradients_and_no_bit_of_the_training_changes(
    case, tmp_path, output, without
):
    *what, level = case
    section = {"grad_level": level, "bounds": BOUNDS}
    gradients, probed = run(tmp_path / "probed", *what, settings={"grad_probe": section})
    plain_gradients, plain = without(*what)
    assert len(plain) > 6, "parameters and the optimizer's state"
    assert plain.keys() == probed.keys()
    for name, value in plain.items():
        assert value.tobytes() == probed[name].tobytes(), name
    for step, found in plain_gradients.items():
        for name, value in found.items():
            assert value.tobytes() == gradients[step][name].tobytes(), name
    check(output(tmp_path / "probed" / "dump" / "rank0"), level, gradients)


def test_a_training_by_model_has_the_gradients_of_its_graph(tmp_path, output, without):
    settings = {"grad_probe": {"grad_level": "L1"}}
    gradients, _ = without("mindspore", "graph", "momentum")
    run(tmp_path / "model", "mindspore", "model", "momentum", settings=settings)
    found = output(tmp_path / "model" / "dump" / "rank0")
    assert found.steps == list(range(STEPS))
    for step in range(STEPS):
        for name, row in found.table(step).items():
            assert float(row["norm"]) == pytest.approx(np.linalg.norm(gradients[step][name]), rel=1e-4)


@pytest.mark.parametrize("when", ["killed-signs", "killed-table"])
def test_finished_steps_survive_a_kill_and_others_have_no_table(when, tmp_path, output):
    settings = {"grad_probe": {"grad_level": "L1"}}
    run(tmp_path / "killed", "pytorch", "named", when, settings=settings, code=-signal.SIGKILL)
    found = output(tmp_path / "killed" / "dump" / "rank0")
    assert found.steps == [0, 1]
    for step in found.steps:
        assert len(found.table(step)) == 6
        for name, row in found.table(step).items():
            assert str(list(found.signs(step, name).shape)) == row["shape"]
    begun = [file for file in found.files if file.startswith("step2/")]
    assert len(begun) == (4 if when == "killed-signs" else 6), "the process died in the third step"


def test_a_second_run_touches_nothing_of_the_first(tmp_path, output):
    settings = {"dump_path": str(tmp_path / "dump"), "grad_probe": {"grad_level": "L1"}}
    run(tmp_path / "first", "pytorch", "named", "adam", settings=settings)
    tree = {path: path.read_bytes() for path in (tmp_path / "dump").rglob("*") if path.is_file()}
    run(tmp_path / "second", "pytorch", "named", "adam", settings=settings)
    for path, content in tree.items():
        assert path.read_bytes() == content
    assert output(tmp_path / "dump" / "run2" / "rank0").steps == [0, 1, 2]


@pytest.mark.turns("ranks", 2)
def test_each_rank_has_its_folder(tmp_path, output, msrun):
    msrun(TRAIN.with_name("ranks.py"), str(tmp_path / "dump"), folder=tmp_path, count=2)
    for rank in range(2):
        found = output(tmp_path / "dump" / f"rank{rank}")
        assert found.steps == [0, 1]
        assert [found.table(step)["w"]["max"] for step in (0, 1)] == [f"{rank * 10}.0", f"{rank * 10 + 1}.0"]
