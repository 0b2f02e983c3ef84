"""MsProbe without any framework: key data, texts, configurations, and what stays silent."""

import json
import subprocess
import sys
import threading
from collections import UserDict
from pathlib import Path

import numpy as np
import pytest

from msprobe import single_save
from msprobe.base.errors import SettingsError, UsageError
from msprobe.core import MsProbe, SingleComparator, SingleSave
from msprobe.frameworks import process

ON = {"msprobe": True, "key_data_dump": True, "configurations_dump": True}
X = np.arange(4, dtype=np.float32)


def files(root="msprobe_dump"):
    """Every file below a folder that is no index."""
    found = [p.relative_to(root) for p in Path(root).rglob("*") if p.is_file() and p.name != "run.jsonl"]
    return sorted(str(p) for p in found if p.name != "saves.jsonl")


def drained():
    """What was saved is on disk."""
    MsProbe._data._files.complete()


def test_a_probe_that_is_off_does_nothing_whatever_it_is_given():
    MsProbe.config_init({"msprobe": False, "key_data_dump": True, "configurations_dump": True})
    assert (MsProbe.enabled, MsProbe.config) == (False, None)
    MsProbe.save_configs({"a": 1})
    MsProbe.save_data("x", X)
    MsProbe.save_data(None)
    MsProbe.save_string_list("x", 3)
    MsProbe.debugger_start(None, "no such stage")
    MsProbe.debugger_stop("no such stage")
    MsProbe.step()
    assert not list(Path().iterdir())


def test_a_probe_that_is_off_loads_nothing():
    script = (
        "import sys; from msprobe.core import MsProbe; MsProbe.config_init({}); MsProbe.save_data('x', 1);"
        "print([m for m in ('mindspore', 'torch', 'yaml', 'msprobe.debugger') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_each_switch_is_one_of_its_own():
    MsProbe.config_init({"msprobe": True})
    MsProbe.save_configs({"a": 1})
    MsProbe.save_data("x", X)
    MsProbe.save_string_list("t", ["a"])
    assert (MsProbe.enabled, MsProbe.config.key_data_dump) == (True, False)
    assert files() == []


def test_a_name_and_its_data_make_the_tree_of_graph_saves():
    MsProbe.config_init(ON)
    MsProbe.save_data("advantages", X)
    MsProbe.save_string_list("generated_text", ["héllo 你好"])
    MsProbe.save_data("responses", [X.astype(np.int32), (None, {"k": X > 1})])
    MsProbe.save_data("advantages", X * 2)
    MsProbe.step()
    MsProbe.save_data("advantages", X.astype(np.float64))
    drained()
    assert files() == [
        "data/advantages/step0/rank0/advantages_float32_0.npy",
        "data/advantages/step0/rank0/advantages_float32_4.npy",
        "data/advantages/step1/rank0/advantages_float64_5.npy",
        "data/generated_text/step0/rank0/generated_text_uint8_1.npy",
        "data/responses/step0/rank0/responses.0_int32_2.npy",
        "data/responses/step0/rank0/responses.1.1.k_bool_3.npy",
    ]
    root = Path("msprobe_dump/data")
    np.testing.assert_array_equal(np.load(root / "advantages/step0/rank0/advantages_float32_4.npy"), [0, 2, 4, 6])
    text = root / "generated_text/step0/rank0/generated_text_uint8_1.npy"
    assert bytes(np.load(text)).decode("utf-8") == "héllo 你好"
    index = [json.loads(line) for line in (root / "advantages/step0/rank0/saves.jsonl").read_text().splitlines()]
    assert [(each["name"], each["count"], each["type"]) for each in index] == [
        ("advantages", 0, "numpy.ndarray"),
        ("advantages", 1, "numpy.ndarray"),
    ]


def test_a_dict_makes_the_tree_of_single_saves():
    MsProbe.config_init(ON)
    MsProbe.save_data({"advantages": X, "responses": [X, X], "mixed": {"a": X}})
    MsProbe.save_data({"advantages": X})
    MsProbe.step()
    MsProbe.save_data({"advantages": X})
    assert files() == [
        "data/advantages/step0/rank0/micro_step0/advantages.json",
        "data/advantages/step0/rank0/micro_step0/advantages.npy",
        "data/advantages/step0/rank0/micro_step1/advantages.json",
        "data/advantages/step0/rank0/micro_step1/advantages.npy",
        "data/advantages/step1/rank0/micro_step0/advantages.json",
        "data/advantages/step1/rank0/micro_step0/advantages.npy",
        "data/mixed/step0/rank0/micro_step0/mixed.a.npy",
        "data/mixed/step0/rank0/micro_step0/mixed.json",
        "data/responses/step0/rank0/micro_step0/responses.0.npy",
        "data/responses/step0/rank0/micro_step0/responses.1.npy",
        "data/responses/step0/rank0/micro_step0/responses.json",
    ]
    described = json.loads(Path("msprobe_dump/data/advantages/step0/rank0/micro_step0/advantages.json").read_text())
    assert described == {"data": {"max": 3.0, "min": 0.0, "mean": 1.5, "norm": pytest.approx(14**0.5), "shape": [4]}}


@pytest.mark.parametrize("text", ["", "a\0b", "line\nline", "🦊", "e\u0301", "\ufeffbom", "\ud800 half", "x" * 5000])
def test_every_text_comes_back(text):
    MsProbe.config_init(ON)
    MsProbe.save_string_list("t", [text, "second"])
    drained()
    first, second = (np.load(Path("msprobe_dump") / name) for name in files())
    assert (first.dtype, first.shape) == (np.uint8, (len(text.encode("utf-8", "surrogatepass")),))
    assert bytes(first).decode("utf-8", "surrogatepass") == text
    assert bytes(second).decode() == "second"


def test_what_is_no_key_data_is_said_once_and_the_rest_is_saved(logged):
    MsProbe.config_init(ON)
    for _ in range(2):
        MsProbe.save_data("loss", 0.5)
        MsProbe.save_data("parts", [X, "text", np.array([object()])])
        MsProbe.save_data({"good": X, "bad": 3, "worse": [X, 1]})
        MsProbe.save_data(X)
        MsProbe.save_data("", X)
        MsProbe.save_data({3: X})
        MsProbe.save_string_list("t", "one text")
        MsProbe.save_string_list("t", ["a", b"b"])
    drained()
    assert [Path(name).name for name in files()] == [
        *("good.json", "good.npy", "good.json", "good.npy", "parts.0_float32_0.npy", "parts.0_float32_1.npy")
    ]
    assert len(logged) == len(set(logged)) == 9
    MsProbe.save_data({"worse": [X]})
    assert Path("msprobe_dump/data/worse/step0/rank0/micro_step2/worse.0.npy").is_file(), "what are skipped is counted"
    assert logged[0] == (
        "MsProbe: save_data: loss is 0.5 of type float; convert it to a tensor, or use save_string_list; it is "
        "not saved"
    )


def test_any_mapping_is_as_good_as_a_dict_and_both_trees_may_share_a_key(logged):
    MsProbe.config_init(ON)
    batch = UserDict(ids=X, more=UserDict(mask=X))  # as tokenizers and batches of frameworks are
    MsProbe.save_data("batch", batch)
    MsProbe.save_data(UserDict(batch=UserDict(ids=X)))
    drained()
    assert [Path(name).name for name in files()] == [
        *("batch.ids_float32_0.npy", "batch.more.mask_float32_1.npy", "batch.ids.npy", "batch.json")
    ]
    assert logged == [], "nobody was there before"


def test_names_lead_nowhere_else():
    MsProbe.config_init(ON)
    for name in ("../../out", "..", "a/b", "\ud800"):
        MsProbe.save_data(name, X)
        MsProbe.save_data({name: X})
    drained()
    assert len(files()) == 3 * 4
    assert [p.name for p in Path().iterdir()] == ["msprobe_dump"]
    assert [p.name for p in Path("msprobe_dump").glob("data*")] == ["data"]


class Strange:
    def __repr__(self):
        raise RuntimeError("no text")


class Changing(dict):
    """As one that another thread changes just now."""

    def items(self):
        raise RuntimeError("dictionary changed size during iteration")


STRANGE = [
    lambda: MsProbe.save_data("x", Strange()),
    lambda: MsProbe.save_data(Strange(), X),
    lambda: MsProbe.save_data(Strange()),
    lambda: MsProbe.save_data({Strange(): X}),
    lambda: MsProbe.save_data({"x": Strange()}),
    lambda: MsProbe.save_data({"x": {Strange(): X}}),
    lambda: MsProbe.save_data({"x": Changing(a=X)}),
    lambda: MsProbe.save_data(Changing(a=X)),
    lambda: MsProbe.save_string_list(Strange(), ["a"]),
    lambda: MsProbe.save_string_list(Strange(), None),
    lambda: MsProbe.debugger_stop(Strange()),
]


@pytest.mark.parametrize("call", STRANGE)
def test_what_foreign_objects_raise_never_reaches_the_training(call, logged):
    MsProbe.config_init(ON)
    call()
    assert len(logged) == 1
    assert files() == []


@pytest.mark.parametrize("make", [lambda: {Strange(): X}, lambda: Changing(a=X)])
def test_members_that_foreign_code_hides_are_saved(make, logged):
    MsProbe.config_init(ON)
    MsProbe.save_data("x", make())
    drained()
    assert logged == []
    assert len(files()) == 1


def test_an_error_of_the_training_comes_out_whatever_its_type_is(monkeypatch, logged):
    def failed(tensors):
        raise TypeError("an operator of the training")

    MsProbe.config_init(ON)
    monkeypatch.setattr(process, "settle", failed)
    for call in (lambda: MsProbe.save_data("x", X), lambda: MsProbe.save_data({"x": X})):
        with pytest.raises(TypeError, match="an operator of the training"):
            call()
    assert logged == []


FORKED = """
import os, sys
import numpy as np
from msprobe.core import MsProbe

on = {"msprobe": True, "key_data_dump": True}
MsProbe.config_init(on)

def save(value):
    MsProbe.save_data("x", np.full(2, value))
    MsProbe.save_data({"y": np.full(2, value)})

if child := os.fork():
    assert os.waitpid(child, 0)[1] == 0
    save(1.0)
    MsProbe.step()
else:
    save(2.0)
    MsProbe.step()
    save(3.0)
    MsProbe.config_init({**on, "dump_path": "child"})
    save(4.0)
"""


def test_a_forked_child_takes_nothing_from_its_parent_and_saves_in_a_folder_of_its_own():
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, check=True)
    assert done.stderr.count("a forked process does not save to") == 1
    for root, value in (("msprobe_dump", 1), ("child", 4)):
        found = {str(path.relative_to(root)): np.load(path).tolist() for path in Path(root).rglob("*.npy")}
        assert found == {
            "data/x/step0/rank0/x_float64_0.npy": [value, value],
            "data/y/step0/rank0/micro_step0/y.npy": [value, value],
        }


def test_a_signal_handler_that_saves_within_a_save_waits_for_nobody(monkeypatch):
    write, inner = single_save.write, []

    def interrupted(root, place, value):
        if not inner:
            inner.append(True)
            MsProbe.save_data({"x": X + 1})
        write(root, place, value)

    MsProbe.config_init(ON)
    monkeypatch.setattr(single_save, "write", interrupted)
    thread = threading.Thread(target=MsProbe.save_data, args=({"x": X},), daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive(), "it waits for itself"
    both = [np.load(f"msprobe_dump/data/x/step0/rank0/micro_step{m}/x.npy") for m in (0, 1)]
    np.testing.assert_array_equal(both, [X, X + 1])


def test_configurations_hold_what_json_holds_and_texts_of_the_rest(logged):
    MsProbe.config_init(ON)
    MsProbe.save_configs({"actor": {"lr": 1e-3, "dtype": np.float32, "path": Path("/x")}, "rl": Strange(), 5: None})
    assert json.loads(Path("msprobe_dump/configurations.json").read_text()) == {
        "actor": {"lr": 0.001, "dtype": "<class 'numpy.float32'>", "path": "/x"},
        "rl": "<Strange>",
        "5": None,
    }
    assert logged == []


def test_a_disk_that_refuses_is_said_and_the_training_goes_on(logged, monkeypatch):
    MsProbe.config_init(ON)
    Path("msprobe_dump/data").write_text("in the way")
    Path("msprobe_dump/configurations.json").mkdir()
    for _ in range(2):
        MsProbe.save_data("x", X)
        MsProbe.save_data({"x": X})
        MsProbe.save_configs({})
        MsProbe.step()
    assert len(logged) == len(set(logged)) == 3
    assert all("the training continues" in line for line in logged)


def test_a_folder_that_cannot_be_made_is_refused_before_the_training():
    Path("file").write_text("")
    with pytest.raises(SettingsError, match="is a file; give a folder"):
        MsProbe.config_init({**ON, "dump_path": "file"})
    with pytest.raises(UsageError, match=r"config_init: .*/file/inner cannot be written"):
        MsProbe.config_init({**ON, "dump_path": "file/inner"})
    assert not MsProbe.enabled


# ---- the settings given again ---------------------------------------------------------------------------------------


def test_equal_settings_given_again_change_nothing():
    for _ in range(2):  # as each of several workers does in one process
        MsProbe.config_init(ON)
        MsProbe.save_data("x", X)
        MsProbe.save_data({"y": X})
    drained()
    names = [Path(name).name for name in files()]
    assert names == ["x_float32_0.npy", "x_float32_1.npy", "y.json", "y.npy", "y.json", "y.npy"]


def test_another_dump_path_begins_at_step_0_and_the_first_goes_on_where_it_was():
    MsProbe.config_init({**ON, "dump_path": "one"})
    MsProbe.save_data("x", X)
    MsProbe.step()
    MsProbe.config_init({**ON, "dump_path": "two"})
    assert MsProbe.config.dump_path.name == "two"
    MsProbe.save_data("x", X)
    MsProbe.save_data({"y": X})
    drained()
    MsProbe.config_init({**ON, "dump_path": "one", "configurations_dump": False})
    MsProbe.save_data("x", X)
    MsProbe.save_data({"y": X})
    drained()
    assert files("two") == [
        "data/x/step0/rank0/x_float32_0.npy",
        "data/y/step0/rank0/micro_step0/y.json",
        "data/y/step0/rank0/micro_step0/y.npy",
    ]
    assert files("one") == [
        "data/x/step0/rank0/x_float32_0.npy",
        "data/x/step1/rank0/x_float32_1.npy",
        "data/y/step1/rank0/micro_step0/y.json",
        "data/y/step1/rank0/micro_step0/y.npy",
    ]


def test_a_mistake_given_later_leaves_the_first_in_force():
    MsProbe.config_init(ON)
    with pytest.raises(SettingsError):
        MsProbe.config_init({"mspobe": True})
    assert MsProbe.enabled
    MsProbe.config_init({"msprobe": False})
    assert not MsProbe.enabled
    MsProbe.save_data("x", X)
    assert files() == []


def test_a_single_save_of_the_users_own_is_left_alone_and_one_of_the_same_folder_counts_along(monkeypatch):
    monkeypatch.setattr(SingleSave, "_instance", None)
    SingleSave("own", fmk="mindspore")
    MsProbe.config_init(ON)
    SingleSave.save({"x": X})
    MsProbe.save_data({"x": X})
    MsProbe.step()
    SingleSave.save({"x": X})
    assert files("own") == [f"data/x/step0/rank0/micro_step{m}/x.{end}" for m in (0, 1) for end in ("json", "npy")]
    assert files() == ["data/x/step0/rank0/micro_step0/x.json", "data/x/step0/rank0/micro_step0/x.npy"]

    monkeypatch.setattr(SingleSave, "_instance", None)
    SingleSave("msprobe_dump", fmk="mindspore")
    SingleSave.save({"x": X})
    MsProbe.save_data({"x": X})
    assert files()[2::2] == [f"data/x/step1/rank0/micro_step{m}/x.json" for m in (0, 1)]


def test_two_runs_are_compared_by_their_key_data(tmp_path):
    for run in ("one", "two"):
        MsProbe.config_init({**ON, "dump_path": run})
        MsProbe.save_data("loss", X + (run == "two"))
        MsProbe.save_data({"values": X})
        drained()
    SingleComparator.compare("one", "two", output_path="out", num_processes=1)
    assert sorted(p.name for p in Path("out").iterdir()) == ["loss.xlsx", "values.xlsx"]
