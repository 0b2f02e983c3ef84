"""Tables of a monitor as event files, read back with tensorboardX's messages."""

import math
import struct

import pytest

from msprobe.base.errors import DumpError
from msprobe.mindspore.monitor.csv2tb import csv2tensorboard_by_step as of_mindspore
from msprobe.pytorch.monitor.csv2tb import csv2tensorboard_by_step

EVENTS = pytest.importorskip("tensorboardX.proto.event_pb2")


def events_of(folder):
    """(tag, step, value) of the only event file of a folder."""
    (path,) = folder.iterdir()
    data, at, found = path.read_bytes(), 0, []
    while at < len(data):
        (length,) = struct.unpack("<Q", data[at : at + 8])
        event = EVENTS.Event.FromString(data[at + 12 : at + 12 + length])
        found += [(value.tag, event.step, value.simple_value) for value in event.summary.value]
        at += 16 + length
    return found


@pytest.fixture
def monitor(tmp_path):
    """Two ranks of a run, and an older run of rank 0."""
    for name, value in (
        ("Dec01_10-00-00-rank0-aaaaaaaa", 9.0),
        ("Dec03_10-00-00-rank0-bbbbbbbb", 0.5),
        ("Dec03_10-00-01-rank1-cccccccc", 1.5),
    ):
        folder = tmp_path / "monitor" / name
        folder.mkdir(parents=True)
        (folder / "grad_reduced_0-9.csv").write_text(
            f"vpp_stage,name,step,norm,max,shape,dtype\n0,w,0,{value},inf,(),F\n1,w,1,{value},nan,(),F\n"
        )
        (folder / "actv_0-9.csv").write_text(
            f"vpp_stage,name,step,micro_step,norm,shape,dtype\n0,fc.input,0,0,{value},(),F\n0,fc.input,0,1,2.0,(),F\n"
        )
        (folder / "other_0-9.csv").write_text("vpp_stage,name,step,norm,shape,dtype\n0,all_reduce.input,0,1.0,(),F\n")
    return tmp_path / "monitor"


def test_each_rank_and_kind_has_its_folder(monitor, tmp_path):
    out = tmp_path / "out"
    csv2tensorboard_by_step(monitor, output_dirpath=out)
    found = {(path.parent.name, path.name): events_of(path) for path in out.glob("*/*")}
    assert found.keys() == {(rank, kind) for rank in ("rank0", "rank1") for kind in ("actv", "grad_reduced")}
    assert found["rank1", "actv"] == [("vp0:fc.input:micro0/norm", 0, 1.5), ("vp0:fc.input:micro1/norm", 0, 2.0)]
    gradient = found["rank0", "grad_reduced"]
    assert gradient[:3] == [("vp0:w/norm", 0, 0.5), ("vp0:w/max", 0, math.inf), ("vp1:w/norm", 1, 0.5)]
    assert (gradient[3][:2], math.isnan(gradient[3][2])) == (("vp1:w/max", 1), True)


def test_the_folders_are_chosen_by_time_and_the_kinds_by_name(monitor):
    of_mindspore(monitor, "Dec01_00-00-00", "Dec02_00-00-00", data_type_list=["grad_reduced"])
    (out,) = monitor.glob("*-csv2tensorboard_by_step")
    assert [str(path.relative_to(out)) for path in out.glob("*/*")] == ["rank0/grad_reduced"]
    assert events_of(out / "rank0" / "grad_reduced")[0] == ("vp0:w/norm", 0, 9.0)
    with pytest.raises(DumpError):
        of_mindspore(monitor, "Jan01_00-00-00", "Feb02_00-00-00")
    with pytest.raises(ValueError, match="Dec03_21-34-40"):
        of_mindspore(monitor, "yesterday")


def test_several_processes_write_the_same(monitor, tmp_path):
    csv2tensorboard_by_step(monitor, process_num=2, output_dirpath=tmp_path / "two")
    csv2tensorboard_by_step(monitor, output_dirpath=tmp_path / "one")
    one, two = (
        {str(path.relative_to(tmp_path / name)): [e for e in events_of(path) if e[2] == e[2]] for path in paths}
        for name in ("one", "two")
        for paths in [list((tmp_path / name).glob("*/*"))]
    )
    assert one == two
    assert len(one) == 4


@pytest.mark.parametrize("wrong", [{"data_type_list": ["other"]}, {"process_num": 0}, {"process_num": True}])
def test_wrong_arguments_are_refused(monitor, wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        csv2tensorboard_by_step(monitor, **wrong)
    assert not list(monitor.glob("*-csv2tensorboard_by_step"))


def test_the_second_form(tmp_path):
    folder = tmp_path / "rank_2"
    folder.mkdir()
    (folder / "optimizer_step0-9.csv").write_text(
        "vpp_stage,step,module_name,scope,norm\n0,4,fc.weight.exp_avg,exp_avg,0.25\n"
    )
    csv2tensorboard_by_step(tmp_path, output_dirpath=tmp_path / "out")
    assert events_of(tmp_path / "out" / "rank2" / "exp_avg") == [("vp0:fc.weight.exp_avg/norm", 4, 0.25)]
