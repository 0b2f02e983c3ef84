"""SingleSave with tensors of MindSpore: every dtype, ranks, the training's own errors, graphs; and the page."""

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

ms = pytest.importorskip("mindspore", reason="its tensors are what is saved here")

from mindspore import Parameter, Tensor, mint, nn, ops  # noqa: E402  # only where the framework is
from mindspore.common.initializer import initializer  # noqa: E402

from msprobe.base import log  # noqa: E402
from msprobe.core import SingleSave  # noqa: E402

pytestmark = pytest.mark.mindspore

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(autouse=True)
def _pynative(monkeypatch):
    ms.set_context(mode=ms.PYNATIVE_MODE)
    monkeypatch.setattr(SingleSave, "_instance", None)
    monkeypatch.setattr(log, "_logged", set())


@pytest.fixture
def logged(monkeypatch):
    """What the log says, line by line."""
    lines = []
    monkeypatch.setattr(log.logger, "log", lambda level, message: lines.append(message))
    return lines


@pytest.fixture
def root(tmp_path):
    """The folder of a construction."""
    SingleSave(tmp_path / "saved", fmk="mindspore")
    return tmp_path / "saved"


def saved(root, key, micro_step=0):
    """The JSON of a tensor and its elements."""
    folder = root / f"data/{key}/step0/rank0/micro_step{micro_step}"
    return json.loads((folder / f"{key}.json").read_text())["data"], np.load(folder / f"{key}.npy")


def files(root):
    return [p for p in root.rglob("*") if p.is_file() and p.name != "run.jsonl"]


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("values", "dtype", "stored", "expected"),
    [
        ([3, -4], "float32", "float32", (3.0, -4.0, -0.5, 5.0)),
        ([1.5, -2], "float16", "float16", (1.5, -2.0, -0.25, 2.5)),
        ([1.5, -2], "bfloat16", "float32", (1.5, -2.0, -0.25, 2.5)),
        ([0.1, 0.2], "float64", "float64", (0.2, 0.1, 0.3 / 2, math.hypot(0.1, 0.2))),
        ([1, 2, 4], "int32", "int32", (4.0, 1.0, 7 / 3, math.sqrt(21))),
        ([2**62, 0], "int64", "int64", (2.0**62, 0.0, 2.0**61, 2.0**62)),
        ([200, 100], "uint8", "uint8", (200.0, 100.0, 150.0, math.hypot(200, 100))),
        ([True, False], "bool_", "bool", (1.0, 0.0, 0.5, 1.0)),
        (3.5, "float32", "float32", (3.5, 3.5, 3.5, 3.5)),
        ([[], []], "float32", "float32", (None, None, None, None)),
        ([NAN, INF, 1], "float32", "float32", (NAN, NAN, NAN, NAN)),
        ([INF, 1], "bfloat16", "float32", (INF, 1.0, INF, INF)),
        ([3 + 4j], "complex64", "complex64", (5.0, 5.0, 5.0, 5.0)),
    ],
)
def test_a_tensor_of_every_dtype_is_saved(values, dtype, stored, expected, root):
    inputs = np.array(values)
    tensor = Tensor(inputs.astype(np.float32) if dtype == "bfloat16" else inputs, getattr(ms, dtype))
    SingleSave.save({"x": tensor})
    record, array = saved(root, "x")
    found = [record[name] for name in ("max", "min", "mean", "norm")]
    if None in expected:
        assert found == list(expected)
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert record["shape"] == list(inputs.shape) == list(array.shape)
    assert array.dtype == stored
    np.testing.assert_array_equal(array, inputs.astype(stored))


def test_parameters_and_views_are_tensors(root):
    matrix = Tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
    SingleSave.save({"weight": Parameter(Tensor([1.0, 2.0]), name="w"), "view": matrix.T, "both": [matrix, np.ones(2)]})
    assert np.array_equal(saved(root, "weight")[1], [1, 2])
    assert np.array_equal(saved(root, "view")[1], [[0, 3], [1, 4], [2, 5]])
    assert len(list(root.rglob("both.?.npy"))) == 2


def test_saving_inside_a_differentiated_function_changes_no_bit(root):
    x = Tensor(np.random.default_rng(7).standard_normal(64).astype(np.float32))

    def loss(value, saves):
        hidden = ops.tanh(value * 3)
        if saves:
            SingleSave.save({"hidden": hidden, "pair": {"in": value, "out": hidden}})
        return ops.exp(hidden).sum()

    plain, watched = (ms.value_and_grad(lambda v, s=saves: loss(v, s))(x) for saves in (False, True))
    for one, other in zip(plain, watched, strict=True):
        assert one.asnumpy().tobytes() == other.asnumpy().tobytes()
    assert saved(root, "hidden")[1].tobytes() == ops.tanh(x * 3).asnumpy().tobytes()


def test_what_changes_afterwards_was_saved_as_it_was(root):
    weight = Parameter(Tensor([1.0, 2.0]), name="w")
    SingleSave.save({"w": weight})
    weight.set_data(Tensor([7.0, 7.0]))
    SingleSave.save({"w": weight})
    assert np.array_equal(saved(root, "w", 0)[1], [1, 2])
    assert np.array_equal(saved(root, "w", 1)[1], [7, 7])


@pytest.mark.pipeline
def test_an_error_of_the_training_comes_out_and_is_not_taken_for_ours(root, logged):
    """The failing operation is queued; the first look at any tensor raises, here the look of SingleSave."""
    x = Tensor(np.arange(4, dtype=np.float32)) * 2
    with pytest.raises(RuntimeError, match="IndexSelect"):  # noqa: PT012  # whichever comes to it
        mint.index_select(x, 0, Tensor([1]))  # has no kernel on a CPU; says so as soon as the queue has come to it
        SingleSave.save({"x": x})
    assert logged == []
    SingleSave.save({"x": x})
    assert np.array_equal(saved(root, "x")[1], [0, 2, 4, 6])


def test_a_tensor_without_data_is_said_and_draws_no_numbers(root, logged):
    empty = initializer("normal", (2,), ms.float32)
    SingleSave.save({"x": empty})
    assert len(logged) == 1
    assert "no data yet" in logged[0]
    assert empty.has_init
    assert files(root) == []


@ms.jit
def compiled(x):
    y = x * 2
    SingleSave.save({"y": y})
    return y


class Inside(nn.Cell):
    def construct(self, x):
        y = x * 2
        SingleSave.save({"y": y})
        return y


class Outside(nn.Cell):
    def construct(self, x):
        return x * 2


def test_inside_a_graph_the_compiler_refuses_outside_of_it_values_are_saved(root):
    x = Tensor([1.0, 2.0])
    with pytest.raises(TypeError, match="is a built-in class"):
        compiled(x)
    ms.set_context(mode=ms.GRAPH_MODE)
    with pytest.raises(TypeError, match="is a built-in class"):
        Inside()(x)
    assert files(root) == []
    SingleSave.save({"y": Outside()(x)})
    assert np.array_equal(saved(root, "y")[1], [2, 4])


@pytest.mark.turns("ranks", 2)
def test_ranks_have_folders_of_their_own_though_communication_began_later(tmp_path, msrun):
    msrun(Path(__file__).parent / "training" / "single_ranks.py", tmp_path / "saved", folder=tmp_path)
    for rank in (0, 1):
        for micro_step, value in enumerate((rank, 10 + rank)):
            folder = tmp_path / f"saved/data/x/step0/rank{rank}/micro_step{micro_step}"
            assert np.array_equal(np.load(folder / "x.npy"), [value, value])


def test_tensors_of_pytorch_are_saved(root):
    torch = pytest.importorskip("torch", reason="PyTorch is no dependency of the tests")
    grown = torch.tensor([1.5, -2.0], requires_grad=True) * 2
    SingleSave.save(
        {"grown": grown, "bf16": torch.tensor([1.5, -2.0], dtype=torch.bfloat16), "view": torch.ones(2, 3).T}
    )
    assert np.array_equal(saved(root, "grown")[1], [3, -4])
    assert saved(root, "grown")[0]["norm"] == 5.0
    assert saved(root, "bf16")[1].dtype == np.float32
    assert saved(root, "view")[0]["shape"] == [3, 2]


def blocks(page):
    """The blocks of a page by their language, in order, without comments."""
    found = re.findall(r"^```(\w*)\n(.*?)^```\n", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)
    return [(language, re.sub(r" *#.*$", "", text, flags=re.MULTILINE)) for language, text in found]


def test_the_page_shows_what_its_code_leaves(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (_, code), (_, listed), (_, record) = blocks("en/how-to/collecting/single-save.md")
    exec(code, {})
    assert listed.split() == sorted(str(p.relative_to(tmp_path)) for p in files(tmp_path) if "step1" not in p.parts)
    folder = tmp_path / "saved/data/responses/step0/rank0/micro_step0"
    assert json.loads((folder / "responses.json").read_text()) == json.loads(record)
    assert json.loads((tmp_path / "saved/configurations.json").read_text()) == {
        "actor": {"lr": 0.5, "dtype": "Float32"}
    }


def test_both_languages_show_the_same():
    assert blocks("zh/how-to/collecting/single-save.md") == blocks("en/how-to/collecting/single-save.md")
