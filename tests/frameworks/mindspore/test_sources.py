"""Functions besides the framework's own list: registered ones, collectives, and those that a golden dump names."""

import json
import sys
from types import ModuleType

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, mint, nn, ops
from mindspore.communication import comm_func

from msprobe.base.errors import SettingsError, UsageError
from msprobe.cell_dump.functions import register_custom_api, restore_custom_api, stems_of
from msprobe.frameworks.mindspore.functions import functions

pytestmark = pytest.mark.mindspore

X = Tensor(np.arange(8, dtype=np.float32).reshape(2, 4))


def collected(debugger, dumped, work, model=None):
    """The forward calls that `work` makes, as recorded."""
    debugger.start(model)
    work()
    debugger.stop()
    debugger.step()
    return [name for name in dumped(debugger).data if "forward" in name]


# ---- registered by the user --------------------------------------------------------------------------------------


def gated(x, by=2.0):
    return ops.tanh(x) * by


HELD = {"gated": gated}


class Tools:
    @staticmethod
    def fixed(x):
        return ops.exp(x)

    @classmethod
    def of_class(cls, x):
        return ops.sin(x) if cls is Tools else None

    def method(self, x):
        return ops.cos(x)


@pytest.fixture
def registered():
    """Registers, and takes back whatever the test leaves."""
    mine = []

    def register(module, name, *prefix):
        register_custom_api(module, name, *prefix)
        mine.append((module, name))

    yield register
    for module, name in dict.fromkeys(mine):
        restore_custom_api(module, name)


HERE = sys.modules[__name__]


def test_a_registered_function_is_recorded_by_its_prefix_and_nothing_inside(registered, collecting, dumped):
    registered(HERE, "gated", "Mine")
    debugger = collecting(level="L1")
    debugger.start()
    ms.grad(lambda x: ops.sum(gated(x, by=3.0)))(X)
    debugger.stop()
    debugger.step()
    data = dumped(debugger).data
    assert list(data) == [
        "Mine.gated.0.forward",
        "Functional.sum.0.forward",
        "Functional.sum.0.backward",
        "Mine.gated.0.backward",
    ]
    assert data["Mine.gated.0.forward"]["input_kwargs"] == {"by": {"type": "float", "value": 3.0}}


def test_without_a_prefix_the_modules_name_stands_there(registered, collecting, dumped):
    module = ModuleType("layers_of_mine")
    module.gated = gated
    registered(module, "gated")
    assert collected(collecting(level="L1"), dumped, lambda: module.gated(X)) == ["layers_of_mine.gated.0.forward"]


def test_references_that_were_made_before_are_recorded_too(registered, collecting, dumped):
    registered(HERE, "gated", "Mine")
    assert collected(collecting(level="L1"), dumped, lambda: HELD["gated"](X)) == ["Mine.gated.0.forward"]
    assert HELD["gated"] is gated


def test_methods_of_every_kind_stay_what_they_are(registered, collecting, dumped):
    before = dict(vars(Tools))
    for name in ("fixed", "of_class", "method"):
        registered(Tools, name, "Tools")
    results = []

    def work():
        results.extend([Tools.fixed(X), Tools().fixed(X), Tools.of_class(X), Tools().method(X)])

    names = collected(collecting(level="L1"), dumped, work)
    assert names == [f"Tools.{name}.forward" for name in ("fixed.0", "fixed.1", "of_class.0", "method.0")]
    for result, function in zip(results, (np.exp, np.exp, np.sin, np.cos), strict=True):
        np.testing.assert_allclose(result.asnumpy(), function(X.asnumpy()), rtol=1e-5)
    assert dict(vars(Tools)) == before


def test_restoring_takes_effect_at_the_next_start_and_registering_twice_is_harmless(registered, collecting, dumped):
    registered(HERE, "gated", "First")
    registered(HERE, "gated", "Second")
    debugger = collecting(level="L1")
    assert collected(debugger, dumped, lambda: gated(X)) == ["Second.gated.0.forward"]
    restore_custom_api(HERE, "gated")
    debugger.start()
    gated(X)
    debugger.stop()
    debugger.step()
    assert [n for n in dumped(debugger, 1).data] == ["Functional.tanh.0.forward", "Tensor.__mul__.0.forward"]
    register_custom_api(HERE, "gated", "Third")
    debugger.start()
    gated(X)
    debugger.stop()
    debugger.step()
    assert list(dumped(debugger, 2).data) == ["Third.gated.0.forward"]


@pytest.mark.parametrize(
    ("module", "name", "prefix", "logged"),
    [
        (HERE, "missing", None, "'missing'"),
        (HERE, 3, None, "not 3"),
        (HERE, "gated", 7, "'gated'.*not 7"),
        (HERE, "gated", "", "api_prefix"),
        (HERE, "X", None, "'X'"),
        (HERE, "Tools", None, "'Tools'"),
        ({"gated": gated}, "gated", None, "module or a class, not to dict"),
    ],
)
def test_what_cannot_be_registered_is_refused_by_name(module, name, prefix, logged):
    with pytest.raises(UsageError, match=logged):
        register_custom_api(module, name, prefix)


def test_restoring_what_was_never_registered_is_refused_by_name():
    with pytest.raises(UsageError, match=r"test_sources.gated is not registered"):
        restore_custom_api(HERE, "gated")


# ---- collectives -------------------------------------------------------------------------------------------------


def test_collectives_are_listed_and_what_manages_groups_is_not():
    stems = {stem for _, _, stem in functions()}
    assert {"MintDistributed.all_reduce", "MintDistributed.barrier", "MintDistributed.batch_isend_irecv"} <= stems
    assert {"Distributed.all_reduce", "Distributed.isend", "Distributed.reduce_scatter_tensor"} <= stems
    managers = ("init_process_group", "new_group", "get_rank", "get_world_size", "is_initialized", "P2POp")
    assert not {f"{p}.{n}" for p in ("MintDistributed", "Distributed") for n in managers} & stems


@pytest.mark.parametrize(("module", "stem"), [(mint.distributed, "MintDistributed"), (comm_func, "Distributed")])
def test_collectives_go_to_what_the_session_has_for_them(module, stem, collecting, dumped, monkeypatch):
    monkeypatch.setattr(module, "all_reduce", lambda tensor, **kwargs: tensor + 1.0)
    debugger = collecting(level="L1")
    debugger.start()
    session = debugger._collectors.python.session
    seen = []

    def call_collective(stem, function, args, kwargs):
        seen.append((stem, args, kwargs))
        return function(*args, **kwargs)

    monkeypatch.setattr(type(session), "call_collective", call_collective, raising=False)
    monkeypatch.setattr(session, "call_collective", call_collective, raising=False)
    out = module.all_reduce(X, op="sum")
    debugger.stop()
    debugger.step()
    assert seen == [(f"{stem}.all_reduce", (X,), {"op": "sum"})]
    np.testing.assert_array_equal(out.asnumpy(), X.asnumpy() + 1.0)


# ---- names of a golden dump --------------------------------------------------------------------------------------


def golden(folder, names, construct=(), **more):
    """A dump of the other tool with calls of these names, and nothing in them."""
    folder.mkdir(parents=True)
    entry = {"input_args": [], "input_kwargs": {}, "output": []}
    text = {"task": "statistics", "level": "mix", **more, "data": dict.fromkeys(names, entry)}
    (folder / "dump.json").write_text(json.dumps(text))
    (folder / "construct.json").write_text(json.dumps(dict.fromkeys(construct)))
    return folder


def broken(folder):
    """A dump whose file was cut off."""
    (golden(folder, []) / "dump.json").write_text("{")
    return folder


NAMES = ["Functional.relu.0.forward", "Tensor.__add__.0.forward", "Cell.a.A.forward.0", "Functional.relu.0.backward"]


@pytest.mark.parametrize("below", ["", "step0", "step0/rank0", "step0/rank0/dump.json"])
def test_stems_are_read_from_a_file_a_rank_a_step_or_a_whole_dump(below, tmp_path):
    golden(tmp_path / "step0" / "rank0", NAMES, ["Primitive.matmul.MatMul.0.forward", "Cell.b.B.forward.0"])
    golden(tmp_path / "step10" / "rank0", ["Functional.exp.0.forward"])
    assert stems_of(tmp_path / below) == {"Functional.relu", "Tensor.__add__", "Primitive.matmul.MatMul"}


def test_of_several_ranks_ones_own_is_read_else_the_first(tmp_path):
    for rank in (0, 2, 10):
        golden(tmp_path / "step3" / f"rank{rank}", [f"Functional.of{rank}.0.forward"])
    assert stems_of(tmp_path, "rank10") == {"Functional.of10"}
    assert stems_of(tmp_path, "rank7") == {"Functional.of0"}


def test_a_dump_of_task_structure_will_do(tmp_path):
    folder = golden(tmp_path / "g", [], ["Functional.relu.0.forward", "Cell.a.A.forward.0"], task="structure")
    assert stems_of(folder) == {"Functional.relu"}


@pytest.mark.parametrize(
    ("make", "logged"),
    [
        (lambda p: p / "nowhere", "nowhere: no such file or folder"),
        (lambda p: p, "contains no dump.json"),
        (lambda p: golden(p / "g", ["Cell.a.A.forward.0"], level="L0"), r"level L0\) contains no functions"),
        (lambda p: broken(p / "g"), "is not valid JSON at line 1"),
    ],
)
def test_a_golden_dump_that_says_nothing_is_refused(make, logged, tmp_path):
    with pytest.raises(SettingsError, match=f"names_from: .*{logged}"):
        stems_of(make(tmp_path))


def test_with_names_from_only_the_golden_dumps_functions_are_recorded_and_what_is_inside_others_appears(
    tmp_path, collecting, dumped
):
    folder = golden(tmp_path / "golden", ["Functional.exp.0.forward", "Primitive.bias_add.BiasAdd.0.forward"])
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"dump_path": "x", "names_from": str(folder)}))
    net = nn.Dense(4, 4)
    debugger = collecting(config_path=str(config), level="L1")

    def work():
        ops.relu(net(X))
        ops.exp(X + 1.0)

    names = collected(debugger, dumped, work, net)
    assert names == ["Primitive.bias_add.BiasAdd.0.forward", "Functional.exp.0.forward"]


def test_a_golden_dump_of_another_framework_is_refused_at_start(tmp_path, collecting):
    folder = golden(tmp_path / "golden", ["Torch.matmul.0.forward", "Aten.add.0.forward"])
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"dump_path": "x", "names_from": str(folder)}))
    with pytest.raises(SettingsError, match="none of its 2 functions exists here"):
        collecting(config_path=str(config), level="L1").start()


# ---- values ------------------------------------------------------------------------------------------------------


def test_dropout_keeps_its_values(collecting, dumped):
    x, layers = ops.ones((8, 8), ms.float32), []
    for _ in range(2):  # a layer of its own for each run, for it goes on where it stood
        ms.set_seed(5)
        layers.append(nn.SequentialCell(nn.Dropout(p=0.5)).set_train())

    def run(layer):
        ms.set_seed(5)
        return ops.dropout(x, p=0.5).asnumpy(), layer(x).asnumpy()

    bare = run(layers[0])
    debugger = collecting(level="mix", task="tensor")
    debugger.start(layers[1])
    seen = run(layers[1])
    debugger.stop()
    debugger.step()
    dump = dumped(debugger)
    names = ("Functional.dropout.0.forward", "Cell.0.Dropout.forward.0")
    for name, plain, observed in zip(names, bare, seen, strict=True):
        np.testing.assert_array_equal(observed, plain)
        record = dump.data[name]["output"][0]
        saved = np.load(dump.folder / "dump_tensor_data" / record["data_name"])
        np.testing.assert_array_equal(saved, plain)
        assert set(np.unique(saved)) == {0.0, 2.0}, "about half is dropped, the others are scaled"


# ---- the framework's own list ------------------------------------------------------------------------------------


def test_public_functions_that_all_lacks_are_recorded(collecting, dumped):
    assert not {"ones", "ge"} & set(mint.__all__), "listed by now: the exceptions can go"

    def work():
        mint.nn.functional.softplus(X)
        mint.ge(X, X)
        mint.trunc(X)

    assert collected(collecting(level="L1"), dumped, work) == [
        "MintFunctional.softplus.0.forward",
        "Mint.ge.0.forward",
        "Mint.trunc.0.forward",
    ]


def test_what_a_module_only_imports_for_itself_is_not_a_function_of_its_own():
    stems = {stem for *_, stem in functions()}
    assert not {"MintFunctional.clamp", "MintFunctional.norm_ext", "Mint.softmax_ext", "Mint.constexpr"} & stems


def test_the_condition_number_is_no_caller(collecting, dumped):
    names = collected(collecting(level="L1"), dumped, lambda: ops.cond(Tensor(np.diag([4.0, 2.0]).astype(np.float32))))
    assert names == ["Functional.cond.0.forward"]
