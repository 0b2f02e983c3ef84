"""TensorBoard's event files: read back record by record with tensorboardX's messages and checksums."""

import math
import struct
import subprocess
import sys
import time
import warnings

import pytest

from msprobe.base.errors import UsageError
from msprobe.store.monitor import events
from msprobe.store.monitor.events import EventFile, EventWriter, Scalar
from msprobe.store.monitor.writer import Row

ROWS = {
    "actv": [Row(0, "fc.input", 2, [0.5, float("nan")], "(2,)", "Float32")],
    "grad_reduced": [Row(1, "a b.weight", None, [float("inf"), None], "(2,)", "Float32")],
    "local": [Row(0, "loss", 0, [2.25])],
}


@pytest.fixture
def library():
    """tensorboardX, imported without its own warnings."""
    pytest.importorskip("tensorboardX")
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.record_writer import masked_crc32c

    return Event, masked_crc32c


def read_back(path, library):
    """(tag, step, value) of each scalar, behind the first record, which says the version."""
    event_class, checksum = library
    data, found, at = path.read_bytes(), [], 0
    while at < len(data):
        head = data[at : at + 8]
        (length,) = struct.unpack("<Q", head)
        message = data[at + 12 : at + 12 + length]
        assert struct.unpack("<I", data[at + 8 : at + 12])[0] == checksum(head)
        assert struct.unpack("<I", data[at + 12 + length : at + 16 + length])[0] == checksum(message)
        found.append(event_class.FromString(message))
        at += 16 + length
    assert found[0].file_version == "brain.Event:2"
    return [(v.tag, event.step, v.simple_value) for event in found[1:] for v in event.summary.value]


def test_each_statistic_is_a_scalar_with_its_tag(tmp_path, library):
    writer = EventWriter(tmp_path, ["norm", "max"], 3)
    before = time.time()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        writer.write(7, ROWS)
        writer.write(8, {"grad_reduced": []})
    (path,) = tmp_path.iterdir()  # what a finished step wrote is there before anything is closed
    assert path.name.startswith(f"events.out.tfevents.{int(before)}"[:-2])
    found = read_back(path, library)
    assert [(tag, step) for tag, step, _ in found] == [
        ("0:fc.input:2/rank3/actv_norm", 7),
        ("0:fc.input:2/rank3/actv_max", 7),
        ("1:a b.weight/rank3/grad_reduced_norm", 7),
        ("0:loss:0/rank3/local_value", 7),
    ]
    values = [value for _, _, value in found]
    assert math.isnan(values[1])
    assert [values[0], *values[2:]] == [0.5, math.inf, 2.25]
    writer.close()


def test_records_of_all_lengths_have_the_right_checksums(tmp_path, library):
    file = EventFile(tmp_path)
    scalars = [Scalar("x" * (i * 37 % 300), i, i / 2) for i in range(100)]
    file.add(scalars)
    file.add([])
    file.close()
    assert read_back(file.path, library) == [tuple(scalar) for scalar in scalars]
    with pytest.raises(ValueError, match="closed"):
        file.add(scalars)


def test_two_files_of_one_second_do_not_meet(tmp_path, library):
    paths = {EventFile(tmp_path).path for _ in range(3)}
    assert len(paths) == 3


def test_a_missing_library_is_said_before_the_first_step(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "tensorboardX", raising=False)
    monkeypatch.setattr(events, "find_spec", lambda name: None)
    events._event_class.cache_clear()
    with pytest.raises(UsageError, match=r"msprobe-ms\[monitor\]"):
        EventWriter(tmp_path, ["norm"], 0)
    events._event_class.cache_clear()


def test_writing_imports_no_framework_and_leaves_the_library_usable(tmp_path, library):
    """tensorboardX itself imports torch where it is installed."""
    script = f"""
import sys
from pathlib import Path
from msprobe.store.monitor.events import EventFile, Scalar
EventFile(Path({str(tmp_path)!r})).add([Scalar("a", 1, 2.0)])
assert not {{"torch", "mindspore", "tensorboardX"}} & set(sys.modules)
from tensorboardX import SummaryWriter
SummaryWriter({str(tmp_path)!r}).add_scalar("b", 1.0, 1)
"""
    subprocess.run([sys.executable, "-c", script], check=True)
