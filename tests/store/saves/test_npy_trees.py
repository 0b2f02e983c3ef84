"""`store/saves/graph_saves.py`: any folder of npy files is a dump, its files paired by name and count."""

import numpy as np
import pytest

from msprobe.base.errors import DumpError
from msprobe.store.reader import load_tensor
from msprobe.store.saves.graph_saves import names_of, npy_dumps, read_npys


def save(folder, *names):
    """One file for each name, which holds its place in the list."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(names):
        np.save(folder / f"{name}.npy", np.float64([number]))
    return folder


def values(dump):
    return {r.name: load_tensor(dump, r).item() for call in dump.calls for r in call.records}


def test_every_folder_that_holds_files_is_a_dump_of_its_own(tmp_path):
    for at in (".", "step10/rank0", "step2/rank0", "a/b"):
        save(tmp_path / at, "x_float32_0")
    (tmp_path / "empty").mkdir()
    found = npy_dumps(tmp_path)
    assert list(found) == ["", "a/b", "step2/rank0", "step10/rank0"]
    dump = read_npys(found["step10/rank0"])
    assert (dump.step, dump.rank, dump.level, dump.task) == (10, 0, "debug", "tensor")
    assert (dump.calls[0].records[0].dtype, dump.calls[0].records[0].type) == ("float64", "numpy.ndarray")
    assert len(read_npys(found[""]).calls) == 1, "what lies deeper is not the folder's own"


def test_the_ith_file_of_a_name_by_count_is_its_ith_call(tmp_path):
    folder = save(tmp_path / "d", "x_float32_10", "x_float32_9", "x_float16_100", "y_grad_float32_11")
    assert values(read_npys(folder)) == {"x.0.debug": 1, "x.1.debug": 0, "y_grad.0.debug": 3, "x.2.debug": 2}


def test_files_without_dtype_and_count_keep_their_stem(tmp_path):
    folder = save(tmp_path / "d", "loss", "layer_norm_1", "layer_mlp_1", "w_2", "w_10", "responses.0_int32_3")
    assert values(read_npys(folder)) == {
        "layer_mlp_1.0.debug": 2,
        "layer_norm_1.0.debug": 1,
        "loss.0.debug": 0,
        "w_2.0.debug": 3,
        "w_10.0.debug": 4,
        "responses.0.0.debug": 5,
    }


@pytest.mark.parametrize(
    ("names", "rename", "kept", "expected"),
    [
        (["input_float32_0"], {"input": "x"}, set(), {"x"}),
        (["input_float32_0"], {"input": "x"}, {"input"}, {"input"}),
        (["input_float32_0", "x_float32_1"], {"input": "x"}, set(), {"input", "x"}),
        (["a_float32_0", "b_float32_1"], {"a": "b2", "c": "d"}, set(), {"b2", "b"}),
        (["a_float32_0"], {}, set(), {"a"}),
    ],
)
def test_a_name_is_renamed_unless_both_sides_have_it(names, rename, kept, expected, tmp_path):
    dump = read_npys(save(tmp_path / "d", *names), rename, kept)
    assert names_of(dump) == expected
    assert sorted(values(dump).values()) == list(range(len(names)))


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(DumpError, match="cannot be read"):
        read_npys(tmp_path / "nowhere")
    with pytest.raises(DumpError, match="cannot be read"):
        list(npy_dumps(tmp_path / "nowhere"))
