"""A flow of four stages with MindSpore, each collected in its own way: trees, and the training's bits."""

import json
from pathlib import Path

import numpy as np
import pytest

ms = pytest.importorskip("mindspore", reason="its networks are what is trained here")

from mindspore import Parameter, Tensor, mint, nn, ops  # noqa: E402  # only where the framework is

from msprobe.base.errors import SettingsError, UsageError  # noqa: E402
from msprobe.core import MsProbe  # noqa: E402
from msprobe.frameworks.mindspore.autograd import HAS_NODES  # noqa: E402
from msprobe.mindspore import PrecisionDebugger  # noqa: E402

pytestmark = [pytest.mark.mindspore, pytest.mark.part(2)]

WORDS, BATCH, STEPS = 5, 2, 3
FILES = ("construct.json", "dump.json", "stack.json")
STAGES = ("actor_compute_log_prob", "actor_generate_sequences", "actor_update", "reference_compute_log_prob")
ON = {
    **{"msprobe": True, "key_data_dump": True, "configurations_dump": True},
    **{"actor_infer_dump": True, "actor_train_dump": True, "reference_dump": True},
    **{"token_range_start": 1, "token_range_end": 2, "step_start": 1, "step_end": 2},
    "stage_configs": {
        "reference_compute_log_prob": {"level": "mix"},
        "actor_update": {"level": "mix", "task": "tensor", "tensor": {"list": ["head", "log_softmax"]}},
    },
}


class Layer(nn.Cell):
    def __init__(self, rng, inner, outer):
        super().__init__()
        self.w = Parameter(Tensor(rng.standard_normal((inner, outer)).astype(np.float32)), name="w")

    def construct(self, x):
        return ops.matmul(x, self.w)


class Policy(nn.Cell):
    """The logits of the next word."""

    def __init__(self, seed):
        super().__init__()
        rng = np.random.default_rng(seed)
        self.body, self.head = Layer(rng, WORDS, 4), Layer(rng, 4, WORDS)

    def construct(self, x):
        return self.head(ops.tanh(self.body(x)))


def log_prob(policy, words):
    """Of each word after the one before it."""
    seen = ops.one_hot(words[:, :-1], WORDS, Tensor(1.0), Tensor(0.0))
    return ops.gather_elements(ops.log_softmax(policy(seen), -1), -1, words[:, 1:, None])[..., 0]


def train(by_name=True):
    """Two policies, four stages, three steps, with whatever MsProbe was told; gives the actor's parameters."""
    actor, reference = Policy(1), Policy(2)
    optimizer = nn.SGD(actor.trainable_params(), 0.1)

    def save(name, value):
        if by_name:
            MsProbe.save_data(name, value)
        else:
            MsProbe.save_data({name: value})

    for step in range(STEPS):
        words = Tensor(np.random.default_rng(step).integers(0, WORDS, (BATCH, 1)).astype(np.int32))
        MsProbe.debugger_start(actor, "actor_generate_sequences")
        for _ in range(4):
            logits = actor(ops.one_hot(words[:, -1:], WORDS, Tensor(1.0), Tensor(0.0)))
            words = ops.concat([words, ops.argmax(logits, -1).astype(ms.int32)], 1)
        MsProbe.debugger_stop("actor_generate_sequences")
        save("responses", words)
        MsProbe.save_string_list("generated_text", [" ".join(map(str, row)) for row in words.asnumpy()])

        MsProbe.debugger_start(actor, "actor_compute_log_prob")
        old = log_prob(actor, words)
        MsProbe.debugger_stop("actor_compute_log_prob")
        save("old_log_prob", old)

        MsProbe.debugger_start(reference, "reference_compute_log_prob")
        ref = log_prob(reference, words)
        MsProbe.debugger_stop("reference_compute_log_prob")
        save("ref_log_prob", ref)
        advantages = (ref - old).sum(-1, keepdims=True)

        def loss_of(words=words, old=old, advantages=advantages):
            return -(ops.exp(log_prob(actor, words) - old) * advantages).mean()

        MsProbe.debugger_start(actor, "actor_update")
        loss, gradients = ms.value_and_grad(loss_of, None, actor.trainable_params())()
        MsProbe.debugger_stop("actor_update")
        optimizer(gradients)
        save("loss", loss)
        MsProbe.step()
    return [parameter.asnumpy().tobytes() for parameter in actor.trainable_params()]


@pytest.fixture(autouse=True)
def _pynative():
    ms.set_context(mode=ms.PYNATIVE_MODE)


def files(root, part=""):
    """Every file of the documented tree: tensors of a dump and indexes apart."""
    found = [p.relative_to(root) for p in (Path(root) / part).rglob("*") if p.is_file() and p.name != "run.jsonl"]
    return sorted(str(p) for p in found if p.name != "saves.jsonl" and "dump_tensor_data" not in p.parts)


def dump(stage, step, root="msprobe_dump"):
    return json.loads(Path(root, stage, f"step{step}", "rank0", "dump.json").read_text())


def test_a_flow_leaves_the_documented_trees_and_every_bit_of_the_training(logged):
    bare = train()
    assert files(".") == []
    MsProbe.config_init({**ON, "dump_path": "b"})
    MsProbe.save_configs({"actor": {"lr": 0.1, "dtype": ms.float32}})
    assert train() == bare
    MsProbe.config_init({**ON, "dump_path": "a"})
    assert train(by_name=False) == bare
    assert logged == []

    layers = [f"{stage}/step{step}/rank0/{file}" for stage in STAGES for step in (1, 2) for file in FILES]
    saves = ["responses", "generated_text", "generated_text", "old_log_prob", "ref_log_prob", "loss"]
    kinds = {"responses": "int32", "generated_text": "uint8"}
    by_name = [
        f"data/{name}/step{step}/rank0/{name}_{kinds.get(name, 'float32')}_{len(saves) * step + place}.npy"
        for step in range(STEPS)
        for place, name in enumerate(saves)
    ]
    assert files("b") == sorted([*layers, *by_name, "configurations.json"])
    singles = [
        f"data/{name}/step{step}/rank0/micro_step0/{name}.{end}"
        for name in ("responses", "old_log_prob", "ref_log_prob", "loss")
        for step in range(STEPS)
        for end in ("json", "npy")
    ]
    assert files("a") == sorted([*layers, *singles, *(name for name in files("a") if "generated_text" in name)])
    assert len(files("a", "data/generated_text")) == 2 * STEPS
    assert json.loads(Path("b/configurations.json").read_text()) == {"actor": {"lr": 0.1, "dtype": "Float32"}}


@pytest.mark.skipif(not HAS_NODES, reason="without autograd nodes nothing tells whose calls a backward passes")
def test_each_stage_is_collected_in_its_own_way():
    MsProbe.config_init(ON)
    train()
    for step in (1, 2):
        generated = dump("actor_generate_sequences", step)
        assert (generated["level"], generated["task"], generated["run"]["step"]) == ("L0", "statistics", step)
        names = [f"Cell.{part}.Layer.forward.{token}" for token in (0, 1) for part in ("body", "head")]
        assert list(generated["data"]) == names, "two tokens"
        assert [each["at"]["micro_step"] for each in generated["data"].values()] == [1, 1, 2, 2]

        passed = dump("actor_compute_log_prob", step)
        assert passed["level"] == "L0"
        assert list(passed["data"]) == ["Cell.body.Layer.forward.0", "Cell.head.Layer.forward.0"]

        reference = dump("reference_compute_log_prob", step)
        assert reference["level"] == "mix"
        assert "Functional.log_softmax.0.forward" in reference["data"]
        assert not [name for name in reference["data"] if "backward" in name or "grad" in name]

        update = dump("actor_update", step)
        assert (update["level"], update["task"]) == ("mix", "tensor")
        wanted = {"Cell.head.Layer.forward.0", "Cell.head.Layer.backward.0", "Cell.head.Layer.parameters_grad"}
        assert wanted <= set(update["data"])
        assert not [name for name in update["data"] if "body" in name]
        kept = Path(f"msprobe_dump/actor_update/step{step}/rank0/dump_tensor_data")
        assert (kept / "Cell.head.Layer.parameters_grad.w.npy").is_file()

    # what one stage says is what was saved behind it
    saved = np.load(next(Path("msprobe_dump/data/ref_log_prob/step1/rank0").glob("*.npy")))
    output = dump("reference_compute_log_prob", 1)["data"]["Functional.gather_elements.0.forward"]["output"][0]
    assert output["Norm"] == pytest.approx(float(np.linalg.norm(saved.astype(np.float64))), rel=1e-6)


def test_ranges_of_steps_are_of_the_stages_only():
    MsProbe.config_init({**ON, "step_start": 1, "step_end": 1, "critic_train_dump": True})
    train()
    for stage in STAGES:
        assert [p.name for p in Path("msprobe_dump", stage).iterdir()] == ["step1"]
    assert sorted(p.name for p in Path("msprobe_dump/data/loss").iterdir()) == ["step0", "step1", "step2"]
    assert not Path("msprobe_dump/critic_update").exists(), "it was never started"


def test_a_mistake_in_a_stages_settings_is_raised_at_config_init(tmp_path):
    for config, what in [
        ({"levle": "mix"}, 'stage_configs, actor_update: argument "levle" of stage("actor_update"): unknown setting'),
        ({"dump_path": "x"}, "dump_path is common to all stages; remove it here, and set it in msprobe_config"),
        ({"level": "L2"}, 'choose "L0", "L1", "mix" or "debug" for a stage'),
        ({"level": "debug"}, 'for a stage; choose "L0", "L1" or "mix"'),
        (str(tmp_path / "no.json"), "no such file"),
    ]:
        with pytest.raises(SettingsError) as refused:
            MsProbe.config_init({**ON, "stage_configs": {"actor_update": config}})
        assert what in str(refused.value)
        assert not MsProbe.enabled


def test_a_stage_may_have_a_file_of_its_own(tmp_path):
    file = tmp_path / "update.json"
    file.write_text(json.dumps({"dump_path": "passed over", "task": "structure", "level": "L0", "step": [0]}))
    MsProbe.config_init({**ON, "stage_configs": {"actor_update": str(file)}})
    file.unlink()
    train()
    assert dump("actor_update", 2)["task"] == "structure"
    assert not Path("passed over").exists()


# ---- calls out of order ---------------------------------------------------------------------------------------------


def forward(model, tag):
    MsProbe.debugger_start(model, tag)
    model(Tensor(np.ones((1, WORDS), np.float32)))
    MsProbe.debugger_stop(tag)


EVERY = {**ON, "step_start": 0, "critic_train_dump": True}


@pytest.mark.parametrize(
    ("model", "tag", "what"),
    [
        (Policy(1), "actor_updat", 'unknown stage "actor_updat"; did you mean "actor_update"?'),
        (Policy(1), None, "unknown stage null; choose one of"),
        (None, "actor_update", "the model of actor_update is None, not a mindspore.nn.Cell or torch.nn.Module"),
        ([], "actor_update", "the model of actor_update is []"),
        ([Policy(1), 3], "actor_update", "a list, tuple or dict of them, not int; pass the network"),
    ],
)
def test_a_mistake_in_the_first_call_is_raised(model, tag, what):
    MsProbe.config_init(EVERY)
    with pytest.raises(UsageError) as refused:
        MsProbe.debugger_start(model, tag)
    assert what in str(refused.value)
    forward(Policy(1), "actor_update")
    MsProbe.step()
    assert len(dump("actor_update", 0)["data"]) > 1


def test_a_stage_within_another_is_refused_at_once_and_later_ends_the_other_one(logged):
    MsProbe.config_init({**EVERY, "step_start": 2, "stage_configs": {}})
    net = Policy(1)
    MsProbe.debugger_start(net, "actor_update")
    with pytest.raises(UsageError, match=r"reference_compute_log_prob started within actor_update; call debugger_stop"):
        MsProbe.debugger_start(net, "reference_compute_log_prob")
    MsProbe.debugger_stop("actor_update")
    forward(net, "reference_compute_log_prob")
    for _ in range(2):
        MsProbe.step()
    for tag in ("actor_update", "critic_update", "actor_update", "actor_update"):  # as after an exception in each
        MsProbe.debugger_start(net, tag)
        net(Tensor(np.ones((1, WORDS), np.float32)))
    MsProbe.debugger_stop("actor_update")
    MsProbe.step()
    assert [line.partition(";")[0] for line in logged] == [
        "MsProbe: debugger_start: critic_update started within actor_update, which ends here",
        "MsProbe: debugger_start: actor_update started within critic_update, which ends here",
        "MsProbe: debugger_start: actor_update started within actor_update, which ends here",
    ]
    runs = {tag: [c for c in dump(tag, 2)["data"] if "head" in c] for tag in ("actor_update", "critic_update")}
    assert {tag: len(calls) for tag, calls in runs.items()} == {"actor_update": 3, "critic_update": 1}


def test_what_was_never_started_cannot_be_stopped_and_that_is_said(logged):
    MsProbe.config_init({**EVERY, "stage_configs": {}})
    for _ in range(2):
        MsProbe.debugger_stop("actor_update")
        MsProbe.debugger_stop("no stage")
    forward(Policy(1), "reference_compute_log_prob")
    MsProbe.debugger_start(Policy(1), "actor_update")
    MsProbe.debugger_stop("reference_compute_log_prob")
    MsProbe.step()
    assert [line.partition(";")[0] for line in logged] == [
        "MsProbe: debugger_stop('actor_update'): it was not started, nothing is",
        'MsProbe: debugger_stop: unknown stage "no stage"',
        "MsProbe: debugger_stop('reference_compute_log_prob'): it was not started, actor_update is",
        "MsProbe: step: actor_update is still started",
    ]
    forward(Policy(1), "actor_update")
    MsProbe.step()
    assert len(dump("actor_update", 1)["data"]) > 1


def test_stages_may_alternate_and_micro_batches_go_on_in_one_dump():
    MsProbe.config_init(EVERY)
    net = Policy(1)
    for _ in range(2):
        forward(net, "actor_compute_log_prob")
        forward(net, "critic_compute_values")
    MsProbe.step()
    for stage in ("actor_compute_log_prob", "critic_compute_values"):
        assert list(dump(stage, 0)["data"]) == [
            f"Cell.{part}.Layer.forward.{run}" for run in (0, 1) for part in ("body", "head")
        ]


def test_a_debugger_of_the_users_own_stays_the_one_that_the_class_means(tmp_path):
    own = PrecisionDebugger(dump_path=str(tmp_path / "own"), level="L0")
    try:
        MsProbe.config_init(EVERY)
        forward(Policy(1), "actor_update")
        assert PrecisionDebugger._latest is own
        own.start(Policy(1))
        with pytest.raises(UsageError, match="own is already started; call its stop"):
            MsProbe.debugger_start(Policy(1), "reference_compute_log_prob")
        own.stop()
    finally:
        PrecisionDebugger._known.clear()
        PrecisionDebugger._latest = None


def test_switches_changed_between_two_steps_go_on_in_the_same_steps():
    MsProbe.config_init({**EVERY, "reference_dump": False})
    forward(Policy(1), "actor_update")
    forward(Policy(1), "reference_compute_log_prob")
    MsProbe.step()
    MsProbe.config_init(EVERY)
    forward(Policy(1), "actor_update")
    forward(Policy(1), "reference_compute_log_prob")
    MsProbe.step()
    assert sorted(p.name for p in Path("msprobe_dump/actor_update").iterdir()) == ["step0", "step1"]
    assert [p.name for p in Path("msprobe_dump/reference_compute_log_prob").iterdir()] == ["step1"]


def test_a_failure_while_a_stage_is_started_does_not_reach_the_training(logged, monkeypatch):
    MsProbe.config_init(EVERY)
    monkeypatch.setattr(PrecisionDebugger, "_collects", lambda *_: 1 / 0)
    forward(Policy(1), "actor_update")
    assert logged[0] == (
        'MsProbe: debugger_start("actor_update") failed: ZeroDivisionError: division by zero; the training continues'
    )


def test_an_error_of_the_training_comes_out_of_save_data():
    MsProbe.config_init(ON)
    x = Tensor(np.arange(4, dtype=np.float32)) * 2
    with pytest.raises(RuntimeError, match="IndexSelect"):  # noqa: PT012  # whichever comes to it
        mint.index_select(x, 0, Tensor([1]))  # has no kernel on a CPU; says so as soon as the queue has come to it
        MsProbe.save_data("x", x)
    MsProbe.save_data("x", x)
    MsProbe.step()
    assert np.array_equal(np.load("msprobe_dump/data/x/step0/rank0/x_float32_0.npy"), [0, 2, 4, 6])


def test_in_graph_mode_cells_and_key_data_are_collected():
    ms.set_context(mode=ms.GRAPH_MODE)
    MsProbe.config_init({**ON, "step_start": 0, "stage_configs": {}})
    net = Policy(1)
    x = Tensor(np.ones((1, WORDS), np.float32))
    MsProbe.debugger_start(net, "actor_generate_sequences")
    out = net(x)
    MsProbe.debugger_stop("actor_generate_sequences")
    MsProbe.save_data("out", out)
    MsProbe.step()
    assert list(dump("actor_generate_sequences", 0)["data"]) == [f"Cell.{p}.Layer.forward.0" for p in ("body", "head")]
    assert files("msprobe_dump", "data") == ["data/out/step0/rank0/out_float32_0.npy"]
