"""What is saved by hand may be anything: the training goes on, and what is not saved is said."""

import subprocess

import numpy as np
import pytest
from odd import ODD
from preloaded import python

from msprobe.base import log
from msprobe.store.reader import read

pytestmark = [pytest.mark.mindspore, pytest.mark.torch]


@pytest.fixture
def logged(capsys):
    """The lines that were said, also those that were said before in this process."""
    log._logged.clear()
    return lambda: [line for line in capsys.readouterr().err.splitlines() if line.startswith("msprobe WARNING")]


@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_a_debugger_saves_what_can_be_read_and_says_the_rest(task, training, ending, logged, tmp_path):
    debugger = training.debugger_class(dump_path=str(tmp_path), level="debug", task=task)
    ending.append(debugger)
    refused = []
    for word, odd in ODD.items():
        log._logged.clear()
        debugger.save(odd.make(training.tensor), word)
        lines = logged()
        assert not lines or odd.named in lines[0] or "this call does not save anything" in lines[0], (word, lines)
        if lines and "this call does not save anything" in lines[0]:
            refused.append(word)
    debugger.step()
    dump = read(tmp_path / "step0" / "rank")
    saved = {call.name.removesuffix(".0.debug") for call in dump.calls}
    assert saved.isdisjoint(refused)
    assert {word for word in ODD if word not in refused} <= saved
    assert {"cycle", "deep", "many", "unset field", "panic", "hostile"} <= set(refused)
    assert {"hostile list", "hostile dict", "hostile numbers", "dots"} <= saved


SAVING = """
import sys
sys.path[:0] = [sys.argv[1]]
from odd import ODD
from trainings import MAKERS

training = MAKERS[sys.argv[2]]()
from msprobe.core import MsProbe, SingleSave

SingleSave(sys.argv[3] + "/single", fmk="mindspore" if sys.argv[2] == "mindspore" else "pytorch")
MsProbe.config_init({"msprobe": True, "dump_path": sys.argv[3] + "/flow", "key_data_dump": True})


def save_single(data, word):
    try:
        SingleSave.save(data)
    except TypeError as refused:  # as documented, of an element of a container that is no tensor
        assert "may contain only tensors" in str(refused), word


for word, odd in ODD.items():
    value = odd.make(training.tensor)
    save_single({"plain " + word: training.tensor, word: value}, word)
    save_single(value, word)
    MsProbe.save_data(word, value)
    MsProbe.save_data({"in " + word: value})
    MsProbe.save_data(value)
    if sys.argv[2] == "mindspore":
        from msprobe.mindspore import save

        try:
            save(sys.argv[3] + "/files", word, value)
        except TypeError as refused:  # as documented
            assert "pass a Tensor, or lists, tuples and dicts of Tensors" in str(refused), word
MsProbe.step()
SingleSave.step()
print("went on")
"""


def test_single_saves_and_key_data_go_on(training, tmp_path):
    framework = "mindspore" if training.name == "Cell" else "torch"
    arguments = [python(framework), "-c", SAVING, str(__file__).rpartition("/")[0], framework, str(tmp_path)]
    done = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.endswith("went on\n"), done.stderr[-3000:]
    singles = {path.parts[-1] for path in (tmp_path / "single").rglob("*.npy")}
    assert {f"plain {word}.npy" for word in ODD} - singles == set()
    saved = list((tmp_path / "flow").rglob("cycle*.npy"))
    assert len(saved) == 1, "the tensor of a list that contains itself is saved, once"
    assert all(np.load(path).shape == (2, 3) for path in saved)
    for words in ("contains itself", "nested deeper than 50", "members"):
        assert words in done.stderr
