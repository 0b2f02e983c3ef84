"""Exchanges of `torch.distributed` on MindSpore: two real processes on a CPU, in one launch for all tests."""

import json
import zlib
from pathlib import Path

import pytest

pytestmark = [pytest.mark.mindspore, pytest.mark.mindtorch, pytest.mark.ranks]

REASON = "MSAdapter, which takes the place of torch, is not installed; `make mindtorch` runs this"
pytest.importorskip("msadapter", reason=REASON)


@pytest.fixture(scope="module")
def dumps(tmp_path_factory, msrun):
    """What each rank wrote."""
    folder = tmp_path_factory.mktemp("ranks")
    msrun(Path(__file__).with_name("ranks.py"), folder / "dump", folder=folder)
    return [json.loads((folder / f"dump/step0/rank{rank}/dump.json").read_text()) for rank in range(2)]


def tops(call, side):
    """The largest number of each tensor of a call, tensors of a list too."""
    flat = [e for each in call[side] for e in (each if isinstance(each, list) else [each])]
    return [each["Max"] for each in flat if isinstance(each, dict) and each["type"] == "mindspore.Tensor"]


def test_each_rank_records_its_exchanges(dumps):
    for dump, last in zip(dumps, ("send", "recv"), strict=True):
        assert dump["framework"] == "mindtorch"
        assert list(dump["data"]) == [
            "Distributed.all_reduce.0.forward",
            "Distributed.all_reduce.1.forward",
            "Distributed.all_gather.0.forward",
            f"Distributed.{last}.0.forward",
        ]


def test_results_are_those_after_the_exchange_and_after_the_wait(dumps):
    for rank, dump in enumerate(dumps):
        at_once, waited, gathered, _ = dump["data"].values()
        assert (tops(at_once, "input_args"), tops(at_once, "output")) == ([rank + 1], [3])
        assert (tops(waited, "input_args"), tops(waited, "output")) == ([rank + 10], [21])
        assert tops(gathered, "input_args") == [0, 0, rank + 1]
        assert tops(gathered, "output")[:2] == [1, 2]


def test_a_group_of_ranks_is_recorded_by_its_ranks(dumps):
    expected = {
        "type": "mindspore.ProcessGroup",
        "group_ranks": [0, 1],
        "group_id": f"{zlib.crc32(b'[0, 1]'):08x}",
    }
    for dump in dumps:
        assert dump["data"]["Distributed.all_reduce.0.forward"]["input_kwargs"]["group"] == expected
