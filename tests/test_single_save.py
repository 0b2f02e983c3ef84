"""SingleSave with numpy arrays, where no framework is needed: the tree, what is refused, what is lost."""

import json
import math
import resource
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from msprobe.base import log
from msprobe.base.errors import SettingsError, UsageError
from msprobe.core import SingleSave

SAMPLE = Path(__file__).parent / "samples" / "single_save"
ONE = np.arange(4, dtype=np.float32)


@pytest.fixture(autouse=True)
def _no_construction_yet(monkeypatch):
    monkeypatch.setattr(SingleSave, "_instance", None)
    monkeypatch.setattr(log, "_logged", set())


@pytest.fixture
def logged(monkeypatch):
    """What the log says, line by line."""
    lines = []
    monkeypatch.setattr(log.logger, "log", lambda level, message: lines.append(message))
    return lines


@pytest.fixture
def root(tmp_path):
    """The folder of a construction."""
    SingleSave(tmp_path / "saved", fmk="mindspore")
    return tmp_path / "saved"


def tree(root):
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file() and p.name != "run.jsonl")


def saved(root, key, step=0, micro_step=0):
    return json.loads((root / "data" / key / f"step{step}/rank0/micro_step{micro_step}/{key}.json").read_text())["data"]


def test_face_is_what_it_says():
    import msprobe.core as face

    seen = {n for n, v in vars(face).items() if not n.startswith("_") and not isinstance(v, ModuleType)}
    assert sorted(seen) == face.__all__ == ["MsProbe", "SingleComparator", "SingleSave", "compare_rollout"]


def save_what_the_sample_holds(root):
    """The calls that the other tool was given to write `tests/samples/single_save`."""
    SingleSave(root, fmk="mindspore")
    SingleSave.save_config({"actor": {"lr": 0.1, "path": None}, "rl": [1, 2], "中": "文", "nan": math.nan})
    for step in range(2):
        for micro in range(2):
            SingleSave.save({"response": ONE + np.float32(step + 10 * micro)})
        SingleSave.step()
    listed = [np.array([0.5, -1.5], np.float32), np.array([[1, 2], [3, 4]], np.int32)]
    SingleSave.save({"list": listed, "dict": {"a": np.array([7], np.float32), "b": np.array([1, -2], np.float32)}})
    pair = (np.array([np.nan, np.inf, 1], np.float32), np.array([-np.inf, 2], np.float32))
    SingleSave.save({"tuple": pair, "half": np.array([1.5, -2.5], np.float16), "none": 3.5})
    SingleSave.save({"none": np.array(3.25)})
    SingleSave.save_ex({"alone": np.array([0, -3, 4], np.float32)})
    SingleSave.save_ex({"numbered": np.array([8, 6], np.float32)}, micro_batch=3)


def numbers(data):
    """The records of a JSON, in order."""
    if "shape" in data:
        return [data]
    return list(data.values()) if isinstance(data, dict) else data


def test_the_tree_is_that_of_the_other_tool(tmp_path):
    save_what_the_sample_holds(tmp_path)
    files = tree(SAMPLE)
    assert tree(tmp_path) == files
    assert len(files) == 26
    assert (tmp_path / "configurations.json").read_bytes() == (SAMPLE / "configurations.json").read_bytes()
    for name in files:
        ours, theirs = tmp_path / name, SAMPLE / name
        if name.endswith(".npy"):
            assert ours.read_bytes() == theirs.read_bytes(), name
        elif name.startswith("data"):
            lines = [[line.split(":")[0] for line in p.read_text().splitlines()] for p in (ours, theirs)]
            assert lines[0] == lines[1], f"{name}: keys, order and layout"


def test_the_statistics_are_those_of_the_other_tool_to_its_digits(tmp_path):
    """It computes in the tensor's dtype (half has eleven bits), and the mean of integers as an integer: 2 for 2.5."""
    save_what_the_sample_holds(tmp_path)
    compared = 0
    for name in (n for n in tree(SAMPLE) if n.startswith("data") and n.endswith(".json")):
        ours, theirs = (numbers(json.loads((where / name).read_text())["data"]) for where in (tmp_path, SAMPLE))
        digits = 1e-3 if "half" in name else 1e-6
        for record, other in zip(ours, theirs, strict=True):
            assert list(record) == list(other)
            whole = record["shape"] == [2, 2]
            assert record["mean"] == (2.5 if whole else pytest.approx(other["mean"], rel=digits, nan_ok=True)), name
            for key in ("max", "min", "norm", "shape"):
                assert record[key] == pytest.approx(other[key], rel=digits, nan_ok=True), name
            compared += 1
    assert compared == 14


def test_micro_steps_count_per_key_and_begin_anew_with_a_step(root):
    for _ in range(2):
        SingleSave.save({"a": ONE, "b": ONE})
    SingleSave.save({"a": ONE})
    SingleSave.step()
    SingleSave.save({"a": ONE * 2})
    assert [p for p in tree(root) if p.endswith("npy")] == [
        *(f"data/a/step0/rank0/micro_step{m}/a.npy" for m in range(3)),
        "data/a/step1/rank0/micro_step0/a.npy",
        *(f"data/b/step0/rank0/micro_step{m}/b.npy" for m in range(2)),
    ]
    assert saved(root, "a", step=1)["max"] == 6.0


def test_save_ex_counts_nothing(root):
    SingleSave.save_ex({"a": ONE}, micro_batch=5)
    SingleSave.save_ex({"a": ONE})
    SingleSave.save({"a": ONE})
    assert [p for p in tree(root) if p.endswith("npy")] == [
        "data/a/step0/rank0/a.npy",
        "data/a/step0/rank0/micro_step0/a.npy",
        "data/a/step0/rank0/micro_step5/a.npy",
    ]


@pytest.mark.parametrize(
    "call",
    [
        lambda: SingleSave.save({"a": ONE}),
        lambda: SingleSave.save_ex({"a": ONE}),
        lambda: SingleSave.step(),
        lambda: SingleSave.save_config({}),
    ],
)
def test_before_the_construction_the_remedy_is_said(call):
    with pytest.raises(UsageError, match=r"construct SingleSave first, for example SingleSave\(.*fmk="):
        call()


def test_the_first_construction_holds_and_that_is_said_once(tmp_path, logged):
    first = SingleSave(tmp_path / "first", "mindspore")
    assert SingleSave(str(tmp_path / "first"), fmk="mindspore") is first
    assert logged == []
    for _ in range(2):
        assert SingleSave(tmp_path / "second", fmk="mindspore") is first
    assert len(logged) == 1
    assert "second" in logged[0]
    assert f"data is already saved to {tmp_path / 'first'}" in logged[0]
    SingleSave.save({"a": ONE})
    assert sorted(p.name for p in tmp_path.iterdir()) == ["first"]


def test_a_relative_folder_is_that_of_the_construction(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    SingleSave("saved")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    SingleSave.save({"a": ONE})
    assert len(tree(tmp_path / "saved")) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("x", "MindSpore"), 'did you mean "mindspore"'),
        (("x", "jax"), 'one of "mindspore", "pytorch"'),
        (("x", None), 'one of "mindspore", "pytorch"'),
        (("", "mindspore"), "the path is empty"),
        ((3, "mindspore"), "not a path"),
        (("a\0b", "mindspore"), "NUL"),
    ],
)
def test_a_construction_that_cannot_be_meant_is_refused_and_spoils_nothing(arguments, message, tmp_path):
    with pytest.raises(SettingsError, match=message):
        SingleSave(*arguments)
    SingleSave(tmp_path / "saved", fmk="pytorch")
    SingleSave.save({"a": ONE})
    assert saved(tmp_path / "saved", "a")["max"] == 3.0


def test_a_folder_that_cannot_be_made_is_refused_before_the_training(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match="is a file"):
        SingleSave(tmp_path / "file")
    with pytest.raises(UsageError, match="choose another dump_path"):
        SingleSave(tmp_path / "file" / "inside")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: SingleSave.save([ONE]), "of type list; pass a dict"),
        (lambda: SingleSave.save_ex(None), "of type NoneType; pass a dict"),
        (lambda: SingleSave.save({3: ONE}), "the key 3 is of type int; use a string"),
        (lambda: SingleSave.save({"x": 3.5}), "x is of type float; pass a tensor"),
        (lambda: SingleSave.save({"x": None}), "x is of type NoneType"),
        (lambda: SingleSave.save({"x": "text"}), "x is of type str"),
        (lambda: SingleSave.save({"x": np.array(["text"])}), "x is of type numpy.ndarray of <U4"),
        (lambda: SingleSave.save({"x": {1: ONE, "1": ONE}}), "x has two keys with the same text"),
        (lambda: SingleSave.save_ex({"x": ONE}, micro_batch=-1), "micro_batch is -1"),
        (lambda: SingleSave.save_ex({"x": ONE}, micro_batch=True), "micro_batch is True"),
        (lambda: SingleSave.save_ex({"x": ONE}, micro_batch="0"), "micro_batch is '0'"),
    ],
)
def test_a_wrong_value_is_said_once_and_left_out(call, message, root, logged):
    call()
    call()
    assert len(logged) == 1
    assert message in logged[0]
    assert tree(root) == []


def test_what_is_right_beside_a_wrong_value_is_saved(root, logged):
    SingleSave.save({"a": ONE, 3: ONE, "b": None, "c": [ONE]})
    assert len(logged) == 2
    assert sorted(p.name for p in (root / "data").iterdir() if any(p.rglob("*.npy"))) == ["a", "c"]


def test_a_value_that_was_left_out_has_used_its_number(root, logged):
    SingleSave.save({"a": None})
    SingleSave.save({"a": ONE})
    assert tree(root)[1] == "data/a/step0/rank0/micro_step1/a.npy"


@pytest.mark.parametrize(
    ("value", "place"),
    [([ONE, 3], "x.1 is of type int"), ({"k": [ONE]}, "x.k is of type list"), ((None,), "x.0 is of type NoneType")],
)
def test_an_element_that_is_no_tensor_is_a_type_error_and_nothing_of_the_value_is_saved(value, place, root):
    with pytest.raises(TypeError, match=place):
        SingleSave.save({"x": value})
    assert tree(root) == []
    SingleSave.save({"x": ONE})
    assert tree(root)[0] == "data/x/step0/rank0/micro_step0/x.json"


def test_empty_containers_are_saved(root):
    SingleSave.save({"l": [], "d": {}})
    assert (saved(root, "l"), saved(root, "d")) == ([], {})


def test_a_full_disk_is_said_once_and_the_training_goes_on(root, logged):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, before[1]))
    try:
        for _ in range(3):
            SingleSave.save({"large": np.zeros(1000), "larger": [np.zeros(1000)]})
        SingleSave.save_config({"text": "x" * 1000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert logged == ["SingleSave: large could not be saved: File too large; the training continues"]
    assert tree(root) == []
    SingleSave.save({"large": np.zeros(1000)})
    assert tree(root)[1] == "data/large/step0/rank0/micro_step3/large.npy"


def test_a_folder_that_was_removed_is_made_again(root):
    SingleSave.save({"a": ONE})
    (root / "data").rename(root.parent / "moved")
    SingleSave.save({"a": ONE})
    assert tree(root)[0] == "data/a/step0/rank0/micro_step1/a.json"


def test_threads_share_the_numbers_of_a_key(root):
    def rollout():
        for _ in range(20):
            SingleSave.save({"a": [ONE, ONE]})

    threads = [threading.Thread(target=rollout) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(tree(root)) == 3 * 80
    assert (root / "data/a/step0/rank0/micro_step79/a.json").is_file()


def test_a_configuration_that_json_cannot_hold_is_written(root):
    SingleSave.save_config({"dtype": np.dtype("float32"), "nested": {"set": {1}}})
    assert json.loads((root / "configurations.json").read_text()) == {"dtype": "float32", "nested": {"set": "{1}"}}


WITHOUT = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("mindspore", "torch"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Refuse())
import numpy as np
from msprobe.core import SingleSave
for framework in ("pytorch", "mindspore"):
    SingleSave("saved", fmk=framework)
    SingleSave.save({"a": np.ones(3), "l": [np.ones(2)]})
SingleSave.save_config({"a": 1})
SingleSave.step()
assert not {"mindspore", "torch"} & set(sys.modules)
"""


def test_no_framework_is_needed_and_none_is_imported(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(tree(tmp_path / "saved")) == 1 + 2 * 2 * 2
