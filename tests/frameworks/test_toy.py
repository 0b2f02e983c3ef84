"""A fourth framework, written as docs/en/explanation/backends.md says: it is collected, and its dumps are compared."""

import framework_contract as contract
import numpy as np
import pytest
from toy_framework.library import Network, Tensor, matmul

from msprobe.base.errors import UsageError
from msprobe.compare.locate.find import locate
from msprobe.compare.run import compare
from msprobe.frameworks import registry
from msprobe.store.reader import find, read

FIRST, SECOND = [[1.0, -1.0], [2.0, 0.5]], [[3.0], [-2.0]]
X = [[1.0, 2.0]]
# By hand: x @ first = (5, 0), relu leaves it, times second is 15.


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    from msprobe.base import framework, nested

    monkeypatch.setattr(registry, "PACKAGES", dict(registry.PACKAGES))
    monkeypatch.setattr(framework, "_MODULES", dict(framework._MODULES))
    registry.register("toy", "toy_framework", "toy_framework.library")
    yield
    registry.framework.cache_clear()
    nested._KINDS.pop(Tensor, None)


@pytest.fixture
def collected(tmp_path):
    """Collect one step of a network; return the folder of the dump and the result."""
    made = []

    def collect(name, first=FIRST, **settings):
        net = Network(first, SECOND)
        debugger = registry.framework("toy").debugger(task="tensor", level="mix", dump_path=tmp_path / name, **settings)
        made.append(debugger)
        debugger.start(net)
        result = net(Tensor(np.array(X, np.float32)))
        debugger.stop()
        debugger.step()
        return tmp_path / name, result

    yield collect
    for each in made:
        each.stop()


def test_calls_of_modules_and_functions_are_recorded_with_their_values(collected):
    folder, result = collected("one")
    assert result.array.tolist() == [[15.0]]
    dump = read(find(folder / "step0"))
    assert [call.name for call in dump.calls] == [
        "Functional.matmul.0.forward",
        "Module.first.Linear.forward.0",
        "Functional.relu.0.forward",
        "Functional.matmul.1.forward",
        "Module.second.Linear.forward.0",
    ]
    assert dump.framework == "toy"
    (output,) = [record for record in dump.calls[2].records if record.part.startswith("output")]
    assert (output.dtype, tuple(output.shape)) == ("float32", (1, 2))
    assert (output.statistics.max, output.statistics.min) == (5.0, 0.0)


def test_the_functions_are_those_of_before_when_nothing_is_collected(collected):
    before = matmul.__code__
    collected("one")
    assert matmul.__code__ is before


def test_two_trainings_are_compared_and_the_first_wrong_call_is_located(collected):
    golden, _ = collected("golden")
    target, result = collected("target", first=[[1.0, -1.0], [2.5, 0.5]])
    assert result.array.tolist() == [[18.0]]
    comparison = compare(*(read(find(folder / "step0")) for folder in (target, golden)))
    located = locate(comparison)
    assert located.first.name == "Functional.matmul.0.forward"


def test_it_has_the_interface_and_only_the_capabilities_that_it_offers():
    assert registry.framework("toy").offered() == ("tensors", "modules", "collecting", "debugger")
    contract.check_interface("toy")
    contract.check_tensors("toy")
    with pytest.raises(UsageError, match="optimizers is not available with toy"):
        _ = registry.framework("toy").optimizers


def test_modules():
    net = Network(FIRST, SECOND)
    x = Tensor(np.array(X, np.float32))
    contract.check_modules("toy", net, lambda: net(x), ["first", "second"], ["first.weight", "second.weight"])
