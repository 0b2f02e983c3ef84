"""The example of reinforcement learning: its trees, and the way from each of its planted mistakes to the call.

`TRUTH` was written down from the code of the mistakes. All runs are of one process, each with a dump_path of its own.
"""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
from preloaded import python

pytest.importorskip("mindspore", reason="the example trains; without a framework it cannot")

from openpyxl import load_workbook

from msprobe.cli import main
from msprobe.core import SingleComparator

pytestmark = [pytest.mark.mindspore, pytest.mark.part(2)]

EXAMPLE = Path(__file__).parents[2] / "examples" / "grpo"

ONCE = (
    *("prompts", "prompt_mask", "prompt_lengths", "responses", "response_mask", "rollout_log_prob", "rewards"),
    *("ref_log_prob", "values", "old_log_prob", "advantages"),
)
TWICE = ("log_prob", "kl_loss", "loss", "critic_loss")
"""Key data of a step in the order of the flow: saved once, or for each of two mini-batches. Texts are another tree."""


class Truth(NamedTuple):
    """What differs first: step, key and stage, the call that begins it, and the first word of its kind."""

    step: int
    key: str
    stage: str = ""
    call: str = ""
    kind: str = ""


TRUTH = {
    "generate-temperature": Truth(
        0, "responses", "actor_generate_sequences", "Cell.sampler.LogProbs.forward.0", "computes"
    ),
    "generate-stale": Truth(
        1, "responses", "actor_generate_sequences", "Cell.policy.tokens.Embedding.forward.0", "parameters"
    ),
    "reference-eps": Truth(
        0, "ref_log_prob", "reference_compute_log_prob", "Cell.policy.blocks.1.norm1.LayerNorm.forward.0", "computes"
    ),
    "critic-gelu": Truth(0, "values", "critic_compute_values", "Cell.values.blocks.1.gelu.GELU.forward.0", "computes"),
    # the mask is first used to number the positions
    "log-prob-mask": Truth(
        0, "old_log_prob", "actor_compute_log_prob", "Cell.policy.positions.Embedding.forward.0", "argument"
    ),
    "advantage-std": Truth(0, "advantages"),
    # in the first mini-batch every ratio is 1, and the greater of two equal gains is the lesser
    "update-clip": Truth(0, "loss", "actor_update", "Cell.surrogate.ClippedSurrogate.forward.1", "computes"),
    "critic-mask": Truth(0, "critic_loss", "critic_update", "Cell.error.SquaredError.forward.0", "computes"),
}

# `make verify` has these, too: what others of TRUTH show, in another stage
SECOND = ("reference-eps", "critic-gelu", "critic-mask")
EVERY = [pytest.param(fault, marks=pytest.mark.verify) if fault in SECOND else fault for fault in TRUTH]

STAGES = {truth.stage for truth in TRUTH.values() if truth.stage}

TRAIN_ALL = """
import sys
import mindspore as ms, train, yaml
ms.runtime.launch_blocking()
ms.device_context.cpu.op_tuning.threads_num(1)
with open("config.yaml") as file:
    config = yaml.safe_load(file)["msprobe_config"]
config.update(actor_infer_dump=True, actor_train_dump=True, reference_dump=True, critic_train_dump=True, step_end=1)
weights = {}
for name in ("off", "clean", "again", *sys.argv[1:]):
    section = {**config, "msprobe": name != "off", "dump_path": f"out/{name}"}
    done = train.train(section, name if name in train.FAULTS else "", steps=2)
    both = (*done.actor.get_parameters(), *done.critic.get_parameters())
    weights[name] = b"".join(parameter.asnumpy().tobytes() for parameter in both)
faulty = (weights[name] for name in sys.argv[1:] if name == "update-clip")
print(weights["off"] == weights["clean"] and weights["clean"] not in faulty)
print(*train.FAULTS)
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory, request):
    """The folder with a run of two steps for each fault that is asked for, and two without."""
    folder = tmp_path_factory.mktemp("grpo") / "grpo"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("out", "__pycache__"))
    tests = [
        each.callspec.params
        for each in request.session.items
        if "runs" in each.fixturenames and "fault" in each.fixturenames
    ]
    asked = dict.fromkeys(test["fault"] for test in tests if test["fault"] != "clean")
    command = [python("mindspore"), "-c", TRAIN_ALL, *asked]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    *_, is_untouched, faults = done.stdout.splitlines()
    assert is_untouched == "True", "who records a training leaves every bit of its weights alone"
    assert set(faults.split()) == set(TRUTH), "a truth for each fault"
    return folder / "out"


def printed(capsys, *command):
    """The lines of an answer of the command line."""
    main([str(word) for word in command])
    return capsys.readouterr().out.splitlines()


def test_the_trees_are_the_documented_ones(runs):
    steps = [f"step{step}/rank0" for step in (0, 1)]
    expected = {"configurations.json", "run.jsonl"}
    for stage in STAGES:
        expected |= {f"{stage}/{at}/{file}.json" for at in steps for file in ("dump", "stack", "construct")}
    for keys, count in ((ONCE, 1), (TWICE, 2)):
        for key in keys:
            places = [f"data/{key}/{at}/micro_step{turn}/{key}" for at in steps for turn in range(count)]
            expected |= {f"{place}.{ending}" for place in places for ending in ("npy", "json")}
    # sixteen texts a step, numbered throughout the process, beside an index
    for at, first in zip(steps, (0, 16), strict=True):
        folder = f"data/generated_text/{at}"
        expected |= {f"{folder}/generated_text_uint8_{first + turn}.npy" for turn in range(16)}
        expected.add(f"{folder}/saves.jsonl")
    assert len(STAGES) == 6
    assert {str(file.relative_to(runs / "clean")) for file in (runs / "clean").rglob("*") if file.is_file()} == expected


def test_switched_off_nothing_is_written(runs):
    assert not (runs / "off").exists()


def test_values_that_json_has_no_type_for_are_texts_in_the_configurations(runs):
    saved = json.loads((runs / "clean" / "configurations.json").read_text())
    assert saved["actor"]["dtype"] == "Float32"
    assert saved["rl"]["temperature"] == 0.7


def test_two_clean_runs_are_the_same_to_the_bit(runs, capsys):
    clean, again = runs / "clean", runs / "again"
    arrays = {re.sub(r"_\d+\.npy$", "", str(file.relative_to(clean))) for file in clean.rglob("*.npy")}
    assert len(arrays) == 2 * (len(ONCE) + 2 * len(TWICE) + 1)
    for file in clean.rglob("*.npy"):
        if "generated_text" not in file.parts:
            assert (again / file.relative_to(clean)).read_bytes() == file.read_bytes()
    for file in clean.rglob("dump.json"):
        assert json.loads((again / file.relative_to(clean)).read_text())["data"] == json.loads(file.read_text())["data"]
    assert printed(capsys, "compare", again, clean, "-o", runs / "same")[-1].startswith("no difference: ")


@pytest.mark.sample(3)
@pytest.mark.parametrize("fault", EVERY)
def test_the_first_key_leads_to_the_stage_and_its_dump_to_the_call(fault, runs, capsys):
    step, key, stage, call, kind = TRUTH[fault]
    target, golden, report = runs / fault, runs / "clean", runs / f"{fault}-by-hand"
    sheets = {path.stem: path for path in map(Path, SingleComparator.compare(target, golden, report, 1))}
    differing = []
    for place, name in enumerate((*ONCE, *TWICE)):
        heading, *rows = load_workbook(sheets[name]).active.values
        same = heading.index("相同元素百分比(%)")
        differing += [(row[heading.index("step")], place, name) for row in rows if row[same] != 100]
    first_step, _, first_key = min(differing)
    assert (first_step, first_key) == (step, key)
    if stage:
        of_stage = f"{stage}/step{step}"
        result = printed(capsys, "compare", "-tp", target / of_stage, "-gp", golden / of_stage, "-o", report)
        assert any(line.startswith(f"first wrong call: {call} in ") for line in result[-2:])
        assert any(f": {kind} " in line for line in result[-2:])


@pytest.mark.parametrize("fault", EVERY)
def test_one_command_leads_from_the_roots_to_the_call(fault, runs, capsys):
    step, key, stage, call, kind = TRUTH[fault]
    lines = printed(capsys, "compare", runs / fault, runs / "clean", "-o", runs / f"{fault}-walk")
    result = next(at for at, line in enumerate(lines) if line.startswith("first difference: "))
    first, why, last = lines[result : result + 3]
    assert first.startswith(f"first difference: step {step}, rank 0, {f'stage {stage}' if stage else f'key {key}'}")
    if stage:
        assert f"call {call}, seen in key " in first
        assert last.startswith(f"first wrong call: {call} in ")
        assert f": {kind} " in last
    else:
        assert why.endswith(f"no call can be located: no stage produces {key}")
        assert last.startswith("look at: ")


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        ("clean", "none"),
        ("generate-temperature", "sampling settings"),
        ("generate-stale", "weights"),
        ("log-prob-mask", "unclear"),  # a single sample with a whole prompt, which agrees, is too few to tell by
    ],
)
def test_generation_is_checked_against_training(fault, cause, runs, capsys):
    names = {"generated": "rollout_log_prob", "recomputed": "old_log_prob", "mask": "response_mask"}
    names |= {"tokens": "responses", "prompt_lengths": "prompt_lengths"}
    options = [word for option, key in names.items() for word in (f"--{option}", key)]
    result = printed(capsys, "rollout_check", runs / fault, *options, "-o", runs / f"{fault}-rollout")
    assert re.search(r"cause: ([\w ]+)", result[0])[1] == cause
    if cause == "unclear":
        assert "  candidates: mask 0.45, truncation 0.44" in result
