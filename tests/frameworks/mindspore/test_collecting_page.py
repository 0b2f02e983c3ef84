"""The code of docs/en/how-to/collecting/collecting.md does what the page says, and stands in both languages."""

import json
import re
import sys
from pathlib import Path
from types import ModuleType

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn, ops

from msprobe.frameworks.mindspore.debugger import PrecisionDebugger

pytestmark = pytest.mark.mindspore

DOCS = Path(__file__).parents[3] / "docs"
X = Tensor(np.ones((2, 4), np.float32))


def blocks(page):
    """The Python of a page, block by block, without comments."""
    found = re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)
    return [re.sub(r"\s*#.*$", "", block, flags=re.MULTILINE) for block in found]


TRAINING, OWN_FUNCTION, LISTED, NAMED = blocks("en/how-to/collecting/collecting.md")


class Head(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(4, 4)

    def construct(self, x):
        return ops.sum(self.fc(x))


@pytest.fixture
def here(tmp_path, monkeypatch, collecting):
    """What the page takes for granted, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"dump_path": "./dump", "level": "mix"}))
    network = Head()
    optimizer = nn.SGD(network.trainable_params(), 0.1)
    yield {
        "data": [(X,), (X * 2,)],
        "network": network,
        "forward_and_backward": ms.value_and_grad(network, None, network.trainable_params()),
        "optimizer": optimizer,
        "policy": Head(),
        "critic": Head(),
    }
    for settings, debugger in list(PrecisionDebugger._known.items()):
        debugger._collectors.end_step()
        PrecisionDebugger._known.pop(settings)
    PrecisionDebugger._latest = None


def test_both_languages_have_the_same_code():
    assert blocks("zh/how-to/collecting/collecting.md") == blocks("en/how-to/collecting/collecting.md")


def test_the_training_is_recorded_step_by_step(here, tmp_path):
    exec(TRAINING, here)
    for step in (0, 1):
        data = json.loads((tmp_path / f"dump/step{step}/rank/dump.json").read_text())["data"]
        assert {"Cell.fc.Dense.forward.0", "Cell.fc.Dense.backward.0", "Functional.sum.0.forward"} <= set(data)


def test_a_function_of_ones_own_is_recorded_between_register_and_restore(here, collecting, dumped, monkeypatch):
    fused = ModuleType("fused")
    fused.attention = lambda x: ops.softmax(ops.exp(x))
    monkeypatch.setitem(sys.modules, "fused", fused)
    register, restore = re.fullmatch(r"(.*register_custom_api.*\n)(.*restore.*\n)", OWN_FUNCTION, re.DOTALL).groups()
    names = here["debugger"] = collecting(level="L1")
    for code in (register, restore):
        exec(code, here)
        names.start()
        fused.attention(X)
        names.stop()
        names.step()
    assert list(dumped(names, 0).data) == ["fused.attention.0.forward"]
    assert list(dumped(names, 1).data) == ["Functional.exp.0.forward", "Functional.softmax.0.forward"]


@pytest.mark.parametrize(("code", "keys"), [(LISTED, ("0", "1")), (NAMED, ("policy", "critic"))])
def test_several_networks_are_told_apart_by_their_names(code, keys, here, collecting, dumped):
    debugger = here["debugger"] = collecting(level="L0")
    exec(code, here)
    here["policy"](X)
    here["critic"](X)
    debugger.stop()
    debugger.step()
    assert list(dumped(debugger).data) == [f"Cell.{key}.fc.Dense.forward.0" for key in keys]
