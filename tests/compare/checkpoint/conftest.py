"""Running the command, and a checkpoint in the layout of Megatron-LM whose every number is known."""

import argparse
import json
import zlib
from importlib.util import find_spec

import numpy as np
import pytest

from msprobe.cli import main

if find_spec("torch") is not None:  # tests of what both sides name run without it
    import torch

HIDDEN, FFN, WORDS, LAYERS, EXPERTS = 8, 16, 32, 4, 4


def value(name, *shape):
    """The numbers of one parameter of the whole model."""
    start = zlib.crc32(name.encode()) % 97
    return np.sin(0.7 * np.arange(np.prod(shape)) + start).astype(np.float32).reshape(shape)


def whole_model(*, with_experts=False):
    """A model by its normal names."""
    made = {"embedding.word_embeddings.weight": value("words", WORDS, HIDDEN)}
    for layer in range(LAYERS):
        at = f"decoder.layers.{layer}."
        made |= {
            f"{at}self_attention.linear_qkv.weight": value(f"qkv{layer}", 3 * HIDDEN, HIDDEN),
            f"{at}self_attention.linear_proj.weight": value(f"proj{layer}", HIDDEN, HIDDEN),
            f"{at}input_layernorm.weight": value(f"norm{layer}", HIDDEN),
        }
        for expert in range(EXPERTS) if with_experts else ("",):
            mlp = f"{at}mlp.experts.local_experts.{expert}." if with_experts else f"{at}mlp."
            made[f"{mlp}linear_fc1.weight"] = value(f"fc1{layer}{expert}", FFN, HIDDEN)
            made[f"{mlp}linear_fc2.weight"] = value(f"fc2{layer}{expert}", HIDDEN, FFN)
    return made | {"decoder.final_layernorm.weight": value("final", HIDDEN)}


LEGACY = (
    ("embedding.", "language_model.embedding."),
    ("decoder.", "language_model.encoder."),
    ("linear_qkv", "query_key_value"),
    ("linear_proj", "dense"),
    ("input_layernorm", "input_norm"),
    ("linear_fc1", "dense_h_to_4h"),
    ("linear_fc2", "dense_4h_to_h"),
    ("final_layernorm", "final_norm"),
)


def spelled(name, *, legacy):
    """A name as an older version writes it, or as the Transformer Engine's fused layer does."""
    if not legacy:
        return name.replace("input_layernorm.", "self_attention.linear_qkv.layer_norm_")
    for new, old in LEGACY:
        name = name.replace(new, old)
    return name


def write_megatron(root, model, *, tp=1, pp=1, ep=1, virtual=1, legacy=False, iteration=10):
    """Write `model` as the ranks of such a training would."""
    root.mkdir()
    (root / "latest_checkpointed_iteration.txt").write_text(str(iteration))
    per_stage, per_rank = LAYERS // (pp * virtual), EXPERTS // ep
    for t in range(tp):
        for p in range(pp):
            for e in range(ep):
                states = [{} for _ in range(virtual)]
                for name, array in model.items():
                    stage, local = 0, name
                    if "layers." in name:
                        number = int(name.split("layers.")[1].split(".")[0])
                        stage, within = divmod(number, per_stage)
                        local = name.replace(f"layers.{number}.", f"layers.{within}.")
                    elif "final" in name:
                        stage = pp * virtual - 1
                    if "local_experts." in name:
                        number = int(name.split("local_experts.")[1].split(".")[0])
                        owner, within = divmod(number, per_rank)
                        local = local.replace(f"local_experts.{number}.", f"local_experts.{within}.")
                        if owner != e:
                            continue
                    if stage % pp != p:
                        continue
                    if any(part in name for part in ("linear_qkv", "linear_fc1", "word_embeddings")):
                        array = np.split(array, tp, 0)[t]
                    elif any(part in name for part in ("linear_fc2", "linear_proj")):
                        array = np.split(array, tp, 1)[t]
                    states[stage // pp][spelled(local, legacy=legacy)] = torch.from_numpy(array.copy())
                rank = f"mp_rank_{t:02d}" + (f"_{p:03d}" if pp > 1 else "") + (f"_{e:03d}" if ep > 1 else "")
                folder = root / f"iter_{iteration:07d}" / rank
                folder.mkdir(parents=True)
                sizes = argparse.Namespace(
                    tensor_model_parallel_size=tp,
                    pipeline_model_parallel_size=pp,
                    expert_model_parallel_size=ep,
                    num_experts=EXPERTS if ep > 1 else None,
                    virtual_pipeline_model_parallel_size=virtual if virtual > 1 else None,
                )
                names = ["model"] if virtual == 1 else [f"model{v}" for v in range(virtual)]
                held = dict(zip(names, states, strict=True))
                states[0]["decoder.layers.0.self_attention._extra_state"] = None
                torch.save(
                    {"args": sizes, "iteration": iteration, **held, "optimizer": {"step": torch.ones(3)}},
                    folder / "model_optim_rng.pt",
                )


@pytest.fixture
def megatron(tmp_path):
    """Write a model as the ranks of a training would; gives the folder."""

    def write(name, model, **how):
        write_megatron(tmp_path / name, model, **how)
        return tmp_path / name

    return write


@pytest.fixture
def compare(tmp_path, capsys):
    """Compare two checkpoints; gives the exit code, the entries of the answer, and what was printed."""
    count = iter(range(100))

    def run(target, golden, *args):
        output = tmp_path / f"answer{next(count)}.json"
        code = main(["config_check", "--compare", str(target), str(golden), "-o", str(output), *map(str, args)])
        captured = capsys.readouterr()
        entries = json.loads(output.read_text()) if output.exists() else {}
        return code, entries, captured.out + captured.err

    return run


@pytest.fixture
def model():
    """A model without experts."""
    return whole_model()


@pytest.fixture
def moe():
    """A model with experts."""
    return whole_model(with_experts=True)


@pytest.fixture
def samples(request):
    """What was made elsewhere."""
    return request.config.rootpath / "tests" / "samples" / "checkpoint"
