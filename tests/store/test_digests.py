"""Digests of dumps: equal for whatever says the same, different for everything that a verdict can depend on."""

import copy
import json
import os

import numpy as np
import pytest

from msprobe.store.digests import call_digests, dump_digest, files_state, structure_digest
from msprobe.store.reader import read

SIN, FC = "Mint.sin.0.forward", "Cell.fc.Dense.forward.0"


def record(**more):
    numbers = {"Max": 2.0, "Min": -1.0, "Mean": 0.5, "Norm": 3.0}
    return {"type": "mindspore.Tensor", "dtype": "Float32", "shape": [2, 2], **numbers, **more}


DUMP = {
    "task": "statistics",
    "level": "mix",
    "framework": "mindspore",
    "dump_data_dir": "/runs/a/dump_tensor_data",
    "run": {"id": "a", "step": 0, "rank": 1, "frozen": ["fc.bias"]},
    "data": {
        SIN: {"input_args": [record(), {"type": "int", "value": 3}], "input_kwargs": {}, "output": [record(md5="aa")]},
        FC: {"input_args": [record(**{"from": f"call {SIN}.output.0"})], "input_kwargs": {}, "output": [None]},
    },
}


def write(folder, dump=DUMP, construct=None, indent=None):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dump.json").write_text(json.dumps(dump, indent=indent))
    (folder / "construct.json").write_text(json.dumps(construct or {SIN: FC, FC: None}))
    return folder


def digests(folder):
    dump = read(folder)
    calls, structure = call_digests(dump), structure_digest(dump)
    return dump_digest(structure, calls), structure, calls


def test_place_run_layout_and_stacks_do_not_count(tmp_path):
    other = copy.deepcopy(DUMP) | {"dump_data_dir": None}
    other["run"] |= {"id": "b", "python": "3.12"}
    there = write(tmp_path / "there", other, indent=4)
    (there / "stack.json").write_text(json.dumps({"0": [[SIN], ["File a.py, line 1, in f, \n x"]]}))
    assert digests(there) == digests(write(tmp_path / "here"))


def changes():
    """By name: what is done to a dump, and whether it changes the first call, the second, or none of them."""

    def of(call, *keys, **to):
        def change(dump):
            node = dump["data"][call]
            for key in keys:
                node = node[key]
            node.update(to)

        return change

    first = ("input_args", 0)
    yield "the last digit", of(SIN, *first, Max=2.0000000000000004), [SIN]
    yield "the sign of zero", of(SIN, *first, Mean=-0.0), [SIN]
    yield "no number", of(SIN, *first, Mean=float("nan")), [SIN]
    yield "no statistics", of(SIN, *first, Max=None, Min=None, Mean=None, Norm=None), [SIN]
    yield "dtype", of(SIN, *first, dtype="Float16"), [SIN]
    yield "shape", of(SIN, *first, shape=[4]), [SIN]
    yield "type", of(SIN, *first, type="torch.Tensor"), [SIN]
    yield "a value", of(SIN, "input_args", 1, value=4), [SIN]
    yield "the type of a value", of(SIN, "input_args", 1, value=3.0), [SIN]
    yield "a digest", of(SIN, "output", 0, md5="ab"), [SIN]
    yield "a file", of(SIN, "output", 0, data_name="x.npy"), [SIN]
    yield "a gradient", of(SIN, "output", 0, gradient="accumulated"), [SIN]
    yield "a source", of(FC, *first, **{"from": "leaf"}), [FC]
    yield "what is missing", of(FC, missing=["input.1"]), [FC]
    yield "a second run", of(FC, is_recompute=True), [FC]
    yield "a keyword", of(FC, "input_kwargs", axis=3), [FC]
    yield "the task", lambda dump: dump.update(task="tensor"), []
    yield "the level", lambda dump: dump.update(level="L0"), []
    yield "the step", lambda dump: dump["run"].update(step=1), []
    yield "what is frozen", lambda dump: dump["run"].update(frozen=[]), []
    yield "a loss", lambda dump: dump.update(missing=[{"name": "step", "part": "tensors", "cause": "no room"}]), []


@pytest.mark.parametrize(("change", "calls"), [pytest.param(*row[1:], id=row[0]) for row in changes()])
def test_everything_that_a_verdict_can_depend_on_counts(tmp_path, change, calls):
    root, _, before = digests(write(tmp_path / "a"))
    changed = copy.deepcopy(DUMP)
    change(changed)
    other, _, after = digests(write(tmp_path / "b", changed))
    assert other != root
    assert [name for name, a, b in zip((SIN, FC), before, after, strict=True) if a != b] == calls


def test_the_order_of_calls_and_the_cells_around_them_are_the_structure(tmp_path):
    _, structure, calls = digests(write(tmp_path / "a"))
    turned = DUMP | {"data": dict(reversed(DUMP["data"].items()))}
    assert digests(write(tmp_path / "b", turned))[1] != structure
    assert digests(write(tmp_path / "b", turned))[2] == calls[::-1]
    assert digests(write(tmp_path / "c", construct={SIN: None, FC: None}))[1] != structure


def test_of_tensors_each_element_counts(tmp_path):
    dump = copy.deepcopy(DUMP) | {"task": "tensor"}
    dump["data"][SIN]["output"][0] = record(data_name=f"{SIN}.output.0.npy")
    found = []
    for name, last in (("a", 1.0), ("b", 1.0), ("c", -1.0), ("gone", None), ("broken", b"no tensor")):
        tensors = write(tmp_path / name, dump) / "dump_tensor_data"
        tensors.mkdir()
        if isinstance(last, float):
            np.save(tensors / f"{SIN}.output.0.npy", np.array([[0, 0], [1, last]], np.float32))
        elif last is not None:
            (tensors / f"{SIN}.output.0.npy").write_bytes(last)
        found.append(digests(tmp_path / name))
    assert found[0] == found[1]
    assert len({root for root, _, _ in found}) == 4
    assert all(calls[1] == found[0][2][1] for _, _, calls in found)


def test_files_that_are_written_come_or_go_are_seen_and_where_they_are_is_not(tmp_path):
    folder = write(tmp_path / "a")
    seen = {files_state(folder / "dump.json")}
    folder = folder.rename(tmp_path / "moved")
    assert files_state(folder / "dump.json") in seen
    for change in (
        lambda: os.utime(folder / "dump.json", ns=(0, 1)),
        lambda: (folder / "construct.json").unlink(),
        lambda: (folder / "dump.journal").touch(),
        lambda: (folder / "dump_tensor_data").mkdir() or (folder / "dump_tensor_data/x.npy").write_bytes(b"1"),
        lambda: (folder / "dump_tensor_data/gone.npy").symlink_to("nowhere"),
        lambda: os.utime(folder / "dump_tensor_data/x.npy", ns=(0, 1)),
        lambda: (folder / "dump_tensor_data/x.npy").write_bytes(b"12"),
    ):
        change()
        state = files_state(folder / "dump.json")
        assert state not in seen
        seen.add(state)


def test_the_elements_of_packed_tensors_count(tmp_path):
    """In a pack, where no file has the tensor's name."""
    pytest.importorskip("pyarrow", reason="packs are compressed by pyarrow")
    from msprobe.store.tensor_pack.pack import Pack

    dump = copy.deepcopy(DUMP)
    dump["data"][SIN]["output"] = [record(data_name=f"{SIN}.output.0.npy")]
    made = []
    for at, last in enumerate((3.0, 3.0, 4.0)):
        folder = write(tmp_path / str(at), dump)
        tensors = folder / "dump_tensor_data"
        tensors.mkdir()
        Pack(tensors).write(str(tensors / f"{SIN}.output.0.npy"), np.array([[0.0, 1.0], [2.0, last]], np.float32))
        made.append(digests(folder)[2])
    assert made[0] == made[1]
    assert made[0][0] != made[2][0]
    assert made[0][1] == made[2][1]
