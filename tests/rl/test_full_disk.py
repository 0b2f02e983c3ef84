"""A disk that is full at the end of a step: the training goes on, and so do the stages when there is room again."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from msprobe import doctor
from msprobe.core import MsProbe
from msprobe.store import writer

pytestmark = pytest.mark.mindspore

mindspore = pytest.importorskip("mindspore", reason="a stage is of a model")

TAGS = ("reference_compute_log_prob", "actor_update")


def test_a_full_disk_at_the_end_of_a_step_stops_neither_training_nor_stages(monkeypatch, logged):
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    net = mindspore.nn.SequentialCell(mindspore.nn.ReLU())
    is_full, write_files = [], writer.write_files

    def refused(folder, journal, *rest):
        if is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write_files(folder, journal, *rest)

    monkeypatch.setattr(writer, "write_files", refused)
    MsProbe.config_init(
        {"msprobe": True, "dump_path": "run", "reference_dump": True, "actor_train_dump": True, "step_end": 2}
    )
    for step in range(3):
        is_full[:] = [True] if step == 1 else []
        for tag in TAGS:
            MsProbe.debugger_start(net, tag)
            out = net(mindspore.Tensor(np.array([-1, step], np.float32)))
            MsProbe.debugger_stop(tag)
            np.testing.assert_array_equal(out.asnumpy(), [0, step])
        MsProbe.step()
    for tag in TAGS:
        whole = [step for step in range(3) if Path(f"run/{tag}/step{step}/rank0/dump.json").is_file()]
        assert whole == [0, 2]
    assert len([line for line in logged if "No space left" in line]) == 1
    monkeypatch.setattr(writer, "write_files", write_files)
    assert doctor.run(doctor.Options(folder=Path("run"))) == 1  # step 1 says itself that the disk was full
    assert all(Path(f"run/{tag}/step1/rank0/dump.json").is_file() for tag in TAGS), "the journal had everything"
