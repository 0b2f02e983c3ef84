"""Names that msprobe 1.0 to 8.3 has for PyTorch, and that are refused or do nothing here."""

import pytest
import torch
from small_model import Mlp

from msprobe.base import log
from msprobe.base.errors import UsageError
from msprobe.pytorch import PtdbgDispatch, module_dump, module_dump_end

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_module_dump_changes_nothing_where_modules_are_recorded_and_says_so_once(level, collecting, dumped, caplog):
    log._logged.clear()

    def run(with_calls):
        debugger, net = collecting(level=level), Mlp()
        debugger.start(net)
        if with_calls:
            module_dump(net.fc1, "mine")
        net(torch.ones(2, 4)).sum().backward()
        if with_calls:
            module_dump_end()
        debugger.stop()
        debugger.step()
        return list(dumped(debugger).data)

    assert run(True) == run(True) == run(False)
    notes = [record.getMessage() for record in caplog.records if "module_dump()" in record.getMessage()]
    assert len(notes) == 1
    assert '"list": ["Module.layers.0."]' in notes[0]


def test_module_dump_is_refused_where_it_would_select_what_is_recorded(collecting):
    debugger, net = collecting(level="L1"), Mlp()
    debugger.start()
    with pytest.raises(UsageError, match='use level "L0" or "mix", and the module\'s name in "list"'):
        module_dump(net.fc1, "mine")
    debugger.stop()
    debugger.step()


def test_the_advice_of_module_dump_records_that_module_alone(collecting, dumped):
    debugger, net = collecting({"statistics": {"list": ["Module.fc1."]}}, level="L0"), Mlp()
    debugger.start(net)
    net(torch.ones(2, 4)).sum().backward()
    debugger.stop()
    debugger.step()
    names = list(dumped(debugger).data)
    assert "Module.fc1.Linear.forward.0" in names
    assert all(name.startswith("Module.fc1.") for name in names)


def test_ptdbg_dispatch_is_refused_with_what_to_use():
    with pytest.raises(UsageError, match='task "acc_check"'):
        PtdbgDispatch(dump_mode="all", api_list=[], dump_path="./x", tag="y")
