"""`msprobe gather` where files are missing, broken or of others, and where it is itself interrupted."""

import gc
import json

import pytest
from kernel_files import DENSE, only

from msprobe.cli import main
from msprobe.graph_save.gather import entry
from msprobe.store.reader import read


def test_a_kernel_of_the_order_without_a_file_is_missing(gather, raw, out):
    for file in (raw / "rank_0/Net/0/0").glob("ReLU*"):
        file.unlink()
    code, lines = gather(raw)
    assert code == 1
    assert "LOST: Default/ReLU-op0: is in the execution order of graph 0" in lines[0]
    assert read(out / "step0").missing[0].startswith("Default/ReLU-op0: is in the execution order")


def test_a_graph_that_did_not_run_is_not_missing(gather, raw):
    order = raw / "rank_0/execution_order/ms_execution_order_graph_1.csv"
    order.write_text("NodeExecutionOrder-FullNameWithScope\nDefault/Sin-op0\n")
    assert gather(raw)[0] == 0


@pytest.mark.parametrize("keep", [0, 5, 100, 131])
def test_a_truncated_tensor_is_missing_and_the_rest_is_there(keep, gather, raw, out):
    file = only(raw, "rank_0/Net/0/0/BiasAdd*output*")
    file.write_bytes(file.read_bytes()[:keep])
    code, lines = gather(raw)
    assert code == 1
    assert f"LOST: {DENSE}.BiasAdd.0.forward output.0: " in lines[0]
    dump = read(out / "step0")
    call = next(call for call in dump.calls if call.name == f"{DENSE}.BiasAdd.0.forward")
    assert call.missing == ("output.0",)
    assert [r.kind for r in call.records] == ["tensor", "tensor", "tensor", "null"]
    assert len(list(out.rglob("*.npy"))) == 13


def test_without_order_and_graph_names_are_as_the_files_spell_them(gather, raw, out):
    for folder in ("execution_order", "graphs"):
        for file in (raw / "rank_0" / folder).iterdir():
            file.unlink()
    code, lines = gather(raw)
    assert code == 0
    assert "the graph has no source line for Default_fc-Dense_MatMul-op0, " in lines[0]
    assert read(out / "step0").calls[0].name == "Kernel.Default_fc-Dense_MatMul.0.forward"


def test_without_an_order_the_graph_gives_the_names(gather, raw, out):
    only(raw, "rank_0/execution_order/ms_execution*").unlink()
    assert gather(raw)[0] == 0
    assert read(out / "step0").calls[0].name == f"{DENSE}.MatMul.0.forward"


def test_an_input_that_the_framework_left_out_is_said(gather, raw, out):
    only(raw, "rank_0/Net/0/0/MatMul*input.0*").unlink()
    only(raw, "rank_0/Net/0/0/MatMul*input.3*").unlink()
    assert gather(raw)[0] == 0
    call = read(out / "step0").calls[0]
    assert call.missing == ("input.0", "input.3")
    assert [r.kind for r in call.records] == ["null", "tensor", "tensor", "null", "tensor"]


def test_outputs_alone_are_not_missing_their_inputs(gather, raw, out):
    settings = {"common_dump_settings": {"dump_mode": 0, "input_output": 2}}
    (raw / "kernel_kbyk_dump.json").write_text(json.dumps(settings))
    for file in (raw / "rank_0/Net/0/0").glob("*.input.*"):
        file.unlink()
    assert gather(raw)[0] == 0
    assert all(call.missing == () for call in read(out / "step0").calls)


def test_files_of_others_are_left_out_and_counted(gather, raw):
    (raw / "rank_0/Net/0/0/notes.txt").write_text("")
    (raw / "rank_0/Net/0/0/MatMul.Default_x.0.0.1719").write_bytes(b"\0" * 8)
    code, lines = gather(raw)
    assert code == 0
    assert (
        "note: 2 files do not belong to a kernel dump and were skipped (MatMul.Default_x.0.0.1719, notes.txt)"
        in lines[0]
    )


def test_an_interrupted_gather_leaves_no_dump_that_looks_whole(raw, out, monkeypatch, capsys):
    count = iter(range(100))
    place = entry._link_or_copy

    def interrupt(path, target):
        if next(count) == 8:
            raise KeyboardInterrupt
        place(path, target)

    monkeypatch.setattr(entry, "_link_or_copy", interrupt)
    assert main(["gather", str(raw), "-o", str(out)]) == 130
    assert not (out / "step0/rank0/dump.json").exists()
    assert (out / "step0/rank0/dump.journal").exists()
    monkeypatch.undo()
    gc.collect()  # what was interrupted holds the journal's lock until it is forgotten, or its process ends
    assert main(["gather", str(raw), "-o", str(out)]) == 0
    assert read(out / "step0").unfinished == ""


def test_a_full_disk_is_one_line(raw, out, monkeypatch, capsys):
    def full(path, target):
        raise OSError(28, "No space left on device", target)

    monkeypatch.setattr(entry, "_link_or_copy", full)
    assert main(["gather", str(raw), "-o", str(out)]) == 2
    assert "No space left on device; finished steps are kept" in capsys.readouterr().err
    assert not (out / "step0/rank0/dump.json").exists()
