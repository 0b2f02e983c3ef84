"""`store/saves/graph_saves.py`: what `save` and `save_grad` leave behind becomes calls that pair by name and order."""

import json
import os
import time
from pathlib import Path

import numpy as np
import pytest

from msprobe.base.errors import DumpError
from msprobe.base.names import parse
from msprobe.store.reader import load_tensor
from msprobe.store.record import Statistics
from msprobe.store.saves.graph_saves import is_indexed, name_and_id, read_saves, saved_dumps

SAMPLES = Path(__file__).parents[2] / "samples" / "graph_save"


def save(folder, *names):
    """One file for each name, which holds its place in the list."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(names):
        np.save(folder / f"{name}.npy", np.float32([number]))
    return folder


def index(folder, *lines):
    folder.mkdir(parents=True, exist_ok=True)
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    (folder / "saves.jsonl").write_text("".join(f"{text}\n" for text in texts))
    return folder


def line(name, count, number, **more):
    return {"name": name, "count": count, "id": number, "type": "mindspore.Tensor", "dtype": "Float32"} | more


def rows(dump):
    return [record.name for call in dump.calls for record in call.records]


def values(dump):
    return {r.name: load_tensor(dump, r).item() for call in dump.calls for r in call.records}


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("26.2.0", {"x.0.debug": (4, 16), "y_grad.0.debug": (4, 8)}),
        ("8.1.1", {"x.0.debug": (4, 16), "y_grad.0.debug": (4, 8), "x.1.debug": (4, 16), "y_grad.1.debug": (4, 8)}),
    ],
)
def test_the_trees_of_the_other_tool_are_read_in_the_order_of_their_ids(version, expected):
    ((at, folder),) = saved_dumps(SAMPLES / version).items()
    dump = read_saves(folder, *at)
    assert {call.name: call.records[0].shape for call in dump.calls} == expected
    assert list(expected) == [call.name for call in dump.calls]
    assert (dump.step, dump.rank, dump.level, dump.task, dump.framework) == (0, 0, "debug", "tensor", "mindspore")
    for record in (record for call in dump.calls for record in call.records):
        np.testing.assert_array_equal(load_tensor(dump, record), np.load(folder / record.file))
        assert (record.type, record.dtype, record.kind, record.part) == (
            "mindspore.Tensor",
            "Float32",
            "tensor",
            "debug",
        )


def test_pairs_form_by_name_and_order_whatever_the_ids(tmp_path):
    one = save(tmp_path / "a", "x_float32_0", "y_float32_1", "x_float32_2", "x_float32_10")
    other = save(tmp_path / "b", "x_float32_9", "noise_int8_10", "x_float16_11", "y_float32_100", "x_float32_101")
    assert values(read_saves(one)) == {"x.0.debug": 0, "y.0.debug": 1, "x.1.debug": 2, "x.2.debug": 3}
    assert values(read_saves(other)) == {
        "x.0.debug": 0,
        "noise.0.debug": 1,
        "x.1.debug": 2,
        "y.0.debug": 3,
        "x.2.debug": 4,
    }


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            ["nest.a_float32_1", "nest.b.0_float32_2", "nest.b.1.0_float32_3"],
            ["nest.0.debug.a", "nest.0.debug.b.0", "nest.0.debug.b.1.0"],
        ),
        (
            ["r.0_int32_0", "r.1_int32_1", "r.0_int32_2", "r.1_int32_3", "r.2_int32_4"],
            ["r.0.debug.0", "r.0.debug.1", "r.1.debug.0", "r.1.debug.1", "r.1.debug.2"],
        ),
        (
            ["r.0_int32_0", "r.1_int32_1", "r.2_int32_2", "r.0_int32_3"],
            ["r.0.debug.0", "r.0.debug.1", "r.0.debug.2", "r.1.debug.0"],
        ),
        (["r.1_int32_0", "r.0_int32_1", "r.1_int32_2"], ["r.0.debug.1", "r.1.debug.0", "r.1.debug.1"]),
        (["r.9_int32_0", "r.10_int32_1"], ["r.0.debug.9", "r.0.debug.10"]),
        (
            ["net.w_float32_0", "x_float32_1", "net.b_float32_2", "net.w_float32_3"],
            ["net.0.debug.w", "net.0.debug.b", "x.0.debug", "net.1.debug.w"],
        ),
        (["x_float32_0", "x.0_float32_1"], ["x.0.debug", "x.0.debug.0"]),
        (["z_grad_float32_0"], ["z_grad.0.debug"]),
        (["layer.w_grad_float32_0"], ["layer_grad.0.debug.w"]),
        ([".x_float32_0", "a..b_float32_1"], ["..x.0.debug".removeprefix("."), "a..b.0.debug"]),
    ],
)
def test_elements_of_a_list_or_dict_are_records_of_one_call(files, expected, tmp_path):
    assert rows(read_saves(save(tmp_path / "d", *files))) == expected


def test_every_name_is_that_of_a_debug_call(tmp_path):
    folder = save(tmp_path / "d", "a_b_float32_3", "_bool_4", "x_float8_e4m3fn_5", "0_int8_6", "no id", "a.0.1_int8_9")
    dump = read_saves(folder)
    assert {parse(call.name).kind for call in dump.calls} == {"debug"}
    assert [call.name for call in dump.calls] == [
        "a_b.0.debug",
        "x.0.debug",
        "0.0.debug",
        "a.0.debug",
        "_bool_4.0.debug",
        "no id.0.debug",
    ]


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("x_float32_1.npy", ("x", 1)),
        ("x_y_bool_12.npy", ("x_y", 12)),
        ("x_bfloat16_0.npy", ("x", 0)),
        ("x_fp16_0.npy", ("x", 0)),
        ("x_float8_e5m2_0.npy", ("x", 0)),
        ("x_complex64_0.npy", ("x", 0)),
        ("layer_norm_1.npy", ("layer_norm_1", -1)),
        ("x_1.npy", ("x_1", -1)),
        ("x.npy", ("x", -1)),
        ("x_float32_" + "9" * 30 + ".npy", ("x_float32_" + "9" * 30, -1)),
    ],
)
def test_a_name_ends_before_dtype_and_number(file, expected):
    assert name_and_id(file) == expected


def test_the_index_says_which_call_it_was(tmp_path):
    """Gradients arrive in the order of the backward pass: the number of the call is in the index alone."""
    folder = save(tmp_path / "d", "z_grad_float32_0", "z_grad_float32_1", "r.1_float32_2")
    index(
        folder,
        line("z_grad", 1, 0, data_name="z_grad_float32_0.npy"),
        line("z_grad", 0, 1, data_name="z_grad_float32_1.npy"),
        line("r.1", 3, 2, data_name="r.1_float32_2.npy"),
    )
    assert is_indexed(folder)
    assert values(read_saves(folder)) == {"z_grad.1.debug": 0, "z_grad.0.debug": 1, "r.3.debug.1": 2}
    assert values(read_saves(folder, by_index=False)) == {"z_grad.0.debug": 0, "z_grad.1.debug": 1, "r.0.debug.1": 2}


def test_the_index_has_the_dtype_the_statistics_and_the_digest(tmp_path):
    """MSPROBE_SAVE=statistics and md5 leave no files at all."""
    expected = line("x", 0, 0, dtype="BFloat16", shape=[2, 3], Max=1.5, Min=-1.0, Mean=0.25, Norm=2.0, md5="7a0a407c")
    dump = read_saves(index(tmp_path / "d", expected))
    (record,) = dump.calls[0].records
    assert (dump.task, record.dtype, record.shape, record.digest) == ("statistics", "BFloat16", (2, 3), "7a0a407c")
    assert record.statistics == Statistics(1.5, -1.0, 0.25, 2.0)
    assert (record.name, record.part, record.file) == ("x.0.debug", "debug", "")


def test_files_that_the_index_does_not_name_are_there_too(tmp_path):
    folder = save(tmp_path / "d", "x_float32_0", "x_float32_7", "y_float32_3")
    index(folder, line("x", 0, 0, data_name="x_float32_0.npy"))
    assert values(read_saves(folder)) == {"x.0.debug": 0, "y.0.debug": 2, "x.1.debug": 1}


@pytest.mark.parametrize(
    "broken",
    [
        "",
        "{",
        "[1]",
        "null",
        '{"name": 1, "count": 0, "id": 0, "type": "t"}',
        '{"name": "x", "count": true}',
        json.dumps({"name": "x", "count": 10**18, "id": 0, "type": "t"}),
        json.dumps({"name": "x", "count": -1, "id": 0, "type": "t"}),
        "[" * 99999,
        '{"name": "x", "count": 0, "id": 0}',
    ],
)
def test_a_line_of_the_index_that_says_nothing_is_left_out_and_said(broken, tmp_path, capsys):
    dump = read_saves(index(tmp_path / "d", broken, line("x", 0, 1, shape=[])))
    assert rows(dump) == ["x.0.debug"]
    assert "1 lines are incomplete and are skipped" in capsys.readouterr().err


def test_lines_that_claim_one_place_are_saves_one_after_the_other_and_quickly(tmp_path):
    begun = time.process_time()
    dump = read_saves(index(tmp_path / "d", *[line("x", 0, n) for n in range(5000)]))
    assert rows(dump)[-1] == "x.4999.debug"
    assert len({call.name for call in dump.calls}) == 5000
    assert time.process_time() - begun < 3


@pytest.mark.parametrize("named", ["../secret.npy", "/etc/hostname", "step/../../secret.npy", "link.npy", "gone.npy"])
def test_a_file_that_the_index_names_elsewhere_is_not_opened(named, tmp_path):
    np.save(tmp_path / "secret.npy", np.float32([1]))
    folder = index(tmp_path / "d", line("x", 0, 0, data_name=named))
    (folder / "link.npy").symlink_to(tmp_path / "secret.npy")
    dump = read_saves(folder)
    record = dump.calls[0].records[0]
    assert record.file == named
    with pytest.raises(DumpError):
        load_tensor(dump, record)


def test_bad_files_are_records_that_cannot_be_opened(tmp_path):
    folder = save(tmp_path / "d", "x_float32_0")
    (folder / "cut_float32_1.npy").write_bytes((folder / "x_float32_0.npy").read_bytes()[:-1])
    np.save(folder / "pickle_object_2.npy", np.array([{}], object), allow_pickle=True)
    os.mkfifo(folder / "pipe_float32_3.npy")
    (folder / "link_float32_4.npy").symlink_to(folder / "x_float32_0.npy")
    (folder / "folder_float32_5.npy").mkdir()
    dump = read_saves(folder)
    bad = {call.name: call.records[0] for call in dump.calls if call.name != "x.0.debug"}
    assert set(bad) == {"cut.0.debug", "pickle_object_2.0.debug", "pipe.0.debug", "link.0.debug"}
    for record in bad.values():
        assert (record.dtype, record.shape, bool(record.file)) == ("", None, True)
        with pytest.raises(DumpError):
            load_tensor(dump, record)


def test_names_that_are_no_text_can_still_be_written_and_opened(tmp_path):
    folder = save(tmp_path / "d")
    np.save(folder / "x.npy", np.float32([3]))
    os.rename(folder / "x.npy", os.fsencode(folder) + b"/x\xff_float32_0.npy")
    dump = read_saves(folder)
    assert values(dump) == {"x?.0.debug": 3}
    half = read_saves(index(tmp_path / "e", line("y\ud800", 0, 0, dtype="\ud800")))
    assert (half.calls[0].name, half.calls[0].records[0].dtype) == ("y?.0.debug", "?")


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ("", [(0, 0), (0, 1), (2, 0), (10, 0)]),
        ("step0", [(0, 0), (0, 1)]),
        ("step0/rank1", [(0, 1)]),
    ],
)
def test_steps_and_ranks_are_found_in_numeric_order(names, found, tmp_path):
    for at in ("step10/rank0", "step2/rank0", "step0/rank1", "step0/rank0", "other/rank0", "step0/logs"):
        save(tmp_path / at, "x_float32_0")
    dumps = saved_dumps(tmp_path / names)
    assert list(dumps) == found
    assert all(rows(read_saves(folder)) == ["x.0.debug"] for folder in dumps.values())


def test_two_folders_of_one_rank_are_said(tmp_path, capsys):
    for at in ("step0/rank0", "step0/proc17"):
        save(tmp_path / at, "x_float32_0")
    assert len(saved_dumps(tmp_path)) == 1
    assert "has the same rank as" in capsys.readouterr().err
