"""Functions that users took before the tool came are recorded, by whatever reference they are called."""

import contextlib
import functools
import gc
import subprocess
import sys
import weakref
from types import ModuleType

import numpy as np
import pytest
from mindspore import Tensor, mint, nn, ops
from mindspore.ops import functional as F
from mindspore.ops import isnan_ext, relu, tanh

pytestmark = pytest.mark.mindspore

X = Tensor(np.arange(8, dtype=np.float32).reshape(2, 4))
ACT2FN = {"gelu": ops.gelu, "words": ["no", "functions"]}
STAGES = [ops.exp, relu]
PAIR = (ops.sin, "text")
LEAKY = functools.partial(ops.leaky_relu, alpha=0.5)


class Net(nn.Cell):
    """Everything here was bound when the class and the object were made."""

    def __init__(self):
        super().__init__()
        self.act = ops.gelu
        self.table = {"cos": ops.cos}
        self.listed = [ops.sin]
        self.silu = functools.partial(ops.silu)

    def construct(self, x):
        return self.silu(self.listed[0](self.table["cos"](self.act(x))))


def collected(debugger, dumped, work, model=None):
    """The forward calls that `work` makes, as recorded."""
    debugger.start(model)
    work()
    debugger.stop()
    debugger.step()
    return [name for name in dumped(debugger).data if "forward" in name]


def test_names_imported_before_are_recorded(collecting, dumped):
    def work():
        relu(tanh(X))
        F.exp(X)

    expected = ["Functional.tanh.0.forward", "Functional.relu.0.forward", "Functional.exp.0.forward"]
    assert collected(collecting(level="L1"), dumped, work) == expected


def test_members_of_module_level_containers_are_recorded(collecting, dumped):
    def work():
        STAGES[1](STAGES[0](ACT2FN["gelu"](PAIR[0](LEAKY(X)))))

    names = ["leaky_relu", "sin", "gelu", "exp", "relu"]
    assert collected(collecting(level="L1"), dumped, work) == [f"Functional.{name}.0.forward" for name in names]


@pytest.mark.parametrize("level", ["L1", "mix"])
def test_functions_held_by_cells_are_recorded(level, collecting, dumped):
    net = Net()
    names = collected(collecting(level=level), dumped, lambda: net(X), net)
    assert names == [f"Functional.{name}.0.forward" for name in ["gelu", "cos", "sin", "silu"]]


def test_of_two_public_names_the_one_that_the_reference_has_is_taken(collecting, dumped, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "isnan", mint.isnan, raising=False)
    assert mint.isnan is isnan_ext, "otherwise this test says nothing"

    def work():
        isnan_ext(X)
        isnan(X)  # noqa: F821  # set above

    assert collected(collecting(level="L1"), dumped, work) == ["Functional.isnan_ext.0.forward", "Mint.isnan.0.forward"]


def test_the_frameworks_own_layers_are_users(collecting, dumped):
    net = mint.nn.ConvTranspose2d(2, 2, 3)

    def work():
        with contextlib.suppress(RuntimeError):  # not every device has its kernel; the call is recorded all the same
            net(ops.ones((1, 2, 8, 8)))

    names = collected(collecting(level="L1"), dumped, work)
    assert names == ["Functional.ones.0.forward", "MintFunctional.conv_transpose2d.0.forward"]


def test_a_reference_made_between_two_collections_is_seen_by_the_next(collecting, dumped, monkeypatch):
    debugger = collecting(level="L1")
    debugger.start()
    debugger.stop()
    monkeypatch.setattr(sys.modules[__name__], "softmax", ops.softmax, raising=False)
    assert collected(debugger, dumped, lambda: softmax(X)) == ["Functional.softmax.0.forward"]  # noqa: F821  # set above


def test_an_object_that_does_not_like_to_be_asked_for_its_class_is_left_in_peace(collecting, dumped, monkeypatch):
    class Deprecated:
        def __getattribute__(self, name):
            raise FutureWarning(f"{name} is deprecated")

    module = ModuleType("somebodys")
    module.held = Deprecated()
    monkeypatch.setitem(sys.modules, "somebodys", module)
    assert collected(collecting(level="L1"), dumped, lambda: relu(X)) == ["Functional.relu.0.forward"]


def test_no_model_is_kept_alive(collecting):
    net, debugger = Net(), collecting(level="L1")
    debugger.start(net)
    net(X)
    debugger.stop()
    debugger.step()
    watched = weakref.ref(net)
    del net
    gc.collect()
    assert watched() is None


ENDING = """
import sys
import mindspore as ms
import numpy as np
from mindspore import Tensor, nn
from mindspore.ops import relu
from msprobe.mindspore import PrecisionDebugger
ms.set_context(mode=ms.PYNATIVE_MODE)
net = nn.SequentialCell(nn.Dense(4, 4))
debugger = PrecisionDebugger(dump_path=sys.argv[1], level="mix")
debugger.start(net)
relu(net(Tensor(np.ones((2, 4), np.float32))))
debugger.stop()
debugger.step()
"""


def test_a_program_that_ends_tears_its_network_down_in_time(tmp_path):
    """The framework's cells complain when they outlive the framework's modules."""
    script = tmp_path / "ending.py"
    script.write_text(ENDING)
    command = [sys.executable, str(script), str(tmp_path / "dump")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert "Exception ignored" not in done.stderr
    assert "Functional.relu.0.forward" in (tmp_path / "dump/step0/rank/dump.json").read_text()
