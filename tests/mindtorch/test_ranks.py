"""Exchanges of `torch.distributed` on MindSpore: two real processes on a CPU, in one launch for all tests."""

import json
import os
import signal
import socket
import subprocess
import sys
import zlib
from contextlib import suppress
from pathlib import Path

import pytest

REASON = "MSAdapter, which takes the place of torch, is not installed; `make mindtorch` runs this"
pytest.importorskip("msadapter", reason=REASON)

LIMIT = 300


@pytest.fixture(scope="module")
def dumps(tmp_path_factory):
    """What each rank wrote."""
    folder = tmp_path_factory.mktemp("ranks")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        *(sys.executable, "-m", "mindspore.parallel.cluster.run", "--worker_num=2", "--local_worker_num=2"),
        *("--master_addr=127.0.0.1", f"--master_port={port}", f"--log_dir={folder / 'logs'}", "--join=True"),
        *(f"--cluster_time_out={LIMIT}", str(Path(__file__).with_name("ranks.py")), str(folder / "dump")),
    ]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # msrun starts whatever `python` is first
    with subprocess.Popen(
        command,
        start_new_session=True,
        env={**os.environ, "PATH": path, "GLOG_v": "3"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            said, _ = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired as cause:
            said = str(cause)
        finally:
            with suppress(ProcessLookupError):  # the session of our own launch: msrun and its ranks, if any are left
                os.killpg(process.pid, signal.SIGKILL)
    logs = "".join(f"\n{log.name}: {log.read_text()[-3000:]}" for log in sorted((folder / "logs").glob("worker*")))
    assert process.returncode == 0, f"{said[-3000:]}{logs}"
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
