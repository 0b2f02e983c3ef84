"""Monitors, gradients, packs and checkpoints on the walk: what is there is compared, or reported as not used."""

import json
import sys
import zipfile
from pathlib import Path

import pytest
from three_cells import HEAD, NORM, Run

from msprobe.base.settings import load
from msprobe.cli import main
from msprobe.diagnose.diagnosis import Purpose, Skipped, Verdict
from msprobe.diagnose.page import page

sys.path.append(str(Path(__file__).parents[1] / "compare" / "monitor"))
from dense_training import Fault, train, write

pytestmark = pytest.mark.part(3)

CHECKPOINT = Path(__file__).parent.parent / "samples" / "checkpoint" / "net.ckpt"
STEP = 41


@pytest.fixture(scope="session")
def trained():
    """The rows of a monitor: of the trusted run, and with a wrong gradient of the middle layer from a step on."""
    return {False: train(), True: train(Fault("backward", STEP))}


@pytest.fixture
def put(trained):
    """`put(folder, is_target)`: write a monitor's output; with `only`, of these kinds; with `dtype`, of a framework."""

    def make(folder, is_target, *, only=None, dtype="x", rename=lambda name: name):
        rows = {
            rank: {
                kind: [(step, rename(name), values) for step, name, values in found]
                for kind, found in kinds.items()
                if only is None or kind in only
            }
            for rank, kinds in trained[is_target].items()
        }
        write(rows, folder)
        for file in folder.rglob("*.csv"):
            file.write_text(file.read_text().replace(',"(2, 3)",x\n', f',"(2, 3)",{dtype}\n'))

    return make


def put_gradients(path, is_target):
    """What grad_probe writes: a gradient is twice as large from a step on."""
    folder = path / "rank0"
    folder.mkdir(parents=True)
    for step in range(30):
        norm = 2.0 if is_target and step >= 20 else 1.0
        rows = "".join(f"{name},{norm},{-norm},{norm * 3 + step}\n" for name in ("fc.weight", "fc.bias", "head.weight"))
        (folder / f"grad_summary_{step}.csv").write_text(f"param_name,MAX,MIN,NORM\n{rows}")


def one_configuration(made):
    (section,) = (made.next.target[key] for key in ("statistics", "tensor") if key in made.next.target)
    return made.next.target["step"], section["list"]


def test_two_monitors_alone_are_diagnosed_and_end_in_a_configuration(sides, put, tmp_path, capsys):
    target, golden = sides(lambda run, is_target: put(run.path, is_target, dtype="Float32"))
    config = tmp_path / "next.json"
    assert main(["monitor", "compare", str(target), str(golden)]) == 1
    answer = capsys.readouterr().out.splitlines()[-1]
    assert main(["diagnose", str(target), str(golden), "--write-config", str(config)]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed[:2] == ["Answer", f"  {answer}"]
    assert [line for line in printed if line and line[0] != " "] == [
        "Answer",
        "Evidence",
        "Ruled out",
        "Next collection",
    ]
    written = json.loads(config.read_text())
    assert (written["step"], written["tensor"]["list"]) == ([STEP], [".middle."])
    assert load(str(config)).task == "tensor"


@pytest.mark.parametrize(
    "dtypes", [("Float32", "Float32"), ("torch.float32", "torch.float32"), ("Float32", "torch.float32"), ("", "")]
)
def test_the_next_collection_has_patterns_for_the_names_of_either_framework(dtypes, found, put):
    """Names begin with `Cell.` in MindSpore and with `Module.` in PyTorch."""
    made = found(lambda run, is_target: put(run.path / "mon", is_target, dtype=dtypes[0 if is_target else 1]))
    assert made.next.purpose is Purpose.MONITORED
    assert (made.next.target["tensor"]["list"], made.next.golden["tensor"]["list"]) == ([".middle."], [".middle."])


def test_the_next_collection_has_patterns_that_no_wrapper_hides(found, put):
    """One side is wrapped by data parallelism, the other is not."""

    def fill(run, is_target):
        put(run.path, is_target, dtype="torch.float32", rename=lambda name: f"module.{name}" if is_target else name)

    made = found(fill)
    assert made.next.target["tensor"]["list"] == made.next.golden["tensor"]["list"] == [".middle."]


def test_of_an_input_that_differs_the_module_around_it_is_collected(found, put):
    """What made it ran before its module."""

    def renamed(name):
        path = f"net.block.{name}"
        return path.replace(".output", ".input") if name.endswith(".output") else path

    made = found(lambda run, is_target: put(run.path, is_target, only=("actv", "actv_grad"), rename=renamed))
    assert made.diverged.result.finding.step == STEP
    assert ".net.block." in one_configuration(made)[1]


def test_two_monitors_that_agree_are_clean(found, put):
    made = found(lambda run, is_target: put(run.path, False))
    assert (made.verdict, made.next, made.diverged) == (Verdict.AGREES, None, None)
    assert any("steps 0 to 79" in line for line in page(made))


def test_a_monitor_beside_dumps_is_compared_and_the_call_is_the_answer(found, put):
    def fill(run, is_target):
        put(run.path / "mon", is_target)
        Run(run.path / "dump").step(STEP, wrong={NORM: 0.5} if is_target else None)

    made = found(fill)
    assert (made.located.step, made.located.finding.name) == (STEP, f"Cell.{NORM}.forward.0")
    assert (made.diverged, [each.result.finding.step for each in made.monitors]) == (None, [STEP])
    assert made.next.purpose is Purpose.INSIDE_CELL


def test_of_dumps_of_later_steps_the_monitor_has_the_answer(found, put):
    def fill(run, is_target):
        put(run.path, is_target)  # in the folder of the run itself
        Run(run.path).step(STEP + 5, wrong={HEAD: 0.5} if is_target else None)

    made = found(fill)
    assert made.diverged.result.finding.step == STEP
    assert made.located is None
    assert [each.skipped for each in made.compared] == [Skipped.NOT_THIS_STEP]
    assert one_configuration(made)[0] == [STEP]
    assert "not compared: it does not contain the step of the answer" in "\n".join(page(made))


def test_a_dump_that_differs_before_the_monitor_does_is_the_answer(found, put):
    def fill(run, is_target):
        put(run.path / "mon", is_target)
        Run(run.path / "dump").step(3, wrong={HEAD: 0.5} if is_target else None)

    made = found(fill)
    assert (made.located.step, made.diverged) == (3, None)


def test_a_dump_that_agrees_at_the_step_leaves_the_answer_to_the_monitor(found, put):
    def fill(run, is_target):
        put(run.path / "mon", is_target)
        Run(run.path / "dump").step(STEP)

    made = found(fill)
    assert (made.located, made.diverged.name, made.verdict) == (None, "mon", Verdict.DIFFERS)
    assert [each.is_clean for each in made.compared] == [True]


def test_gradients_of_grad_probe_are_compared(found):
    made = found(lambda run, is_target: put_gradients(run.path / "grads", is_target))
    assert (made.diverged.result.finding.step, made.verdict) == (20, Verdict.DIFFERS)
    assert one_configuration(made)[0] == [20]


def test_of_several_monitors_the_first_divergence_counts(found, put):
    def fill(run, is_target):
        put_gradients(run.path / "grads", is_target)
        put(run.path / "mon", is_target)
        put(run.path / "equal", False)

    made = found(fill)
    assert [each.name for each in made.monitors] == ["equal", "grads", "mon"]
    assert made.diverged.name == "grads"


def test_monitors_of_other_names_are_paired_by_their_form(found, put):
    def fill(run, is_target):
        put_gradients(run.path / ("g" if is_target else "grads"), is_target)
        put(run.path / ("m" if is_target else "mon"), is_target)

    made = found(fill)
    assert {(each.name, each.golden) for each in made.monitors} == {("g", "grads"), ("m", "mon")}


def test_everything_in_any_mixture_is_found_also_in_folders(found, put, tmp_path):
    def fill(run, is_target):
        put(run.path / "output" / "mon", is_target)
        Run(run.path / "output" / "dump").step(STEP, wrong={NORM: 0.5} if is_target else None)
        (run.path / "output" / "ckpt").mkdir()
        (run.path / "output" / "ckpt" / "net.ckpt").write_bytes(CHECKPOINT.read_bytes())
        with zipfile.ZipFile(run.path / "config.zip", "w") as pack:
            pack.writestr("pip", "numpy=2.0\n" if is_target else "numpy=1.0\n")

    made = found(fill)
    assert made.located.finding.name == f"Cell.{NORM}.forward.0"
    assert [each.name for each in made.monitors] == ["output/mon"]
    assert [(name, result.is_clean) for name, result in made.checkpoints] == [("output/ckpt", True)]
    (pack,) = made.packs
    assert (pack.name, pack.is_clean) == ("config.zip", False)
    assert any("configuration config.zip: " in line and "numpy" in line for line in page(made))
    assert (made.unused, made.others_unmatched) == ((), ())


ONE_SIDED = {
    "monitor": lambda path, put: put(path / "mon", False),
    "checkpoint": lambda path, put: (path / "net.ckpt").write_bytes(CHECKPOINT.read_bytes()),
    "pack of a configuration": lambda path, put: zipfile.ZipFile(path / "c.zip", "w").writestr("pip", "numpy=2.0\n"),
}


@pytest.mark.parametrize("kind", ONE_SIDED)
@pytest.mark.parametrize("side", ["target", "golden"])
def test_what_one_side_alone_has_is_listed(kind, side, found, put):
    def fill(run, is_target):
        Run(run.path / "dump").step()
        if is_target is (side == "target"):
            ONE_SIDED[kind](run.path, put)

    made = found(fill)
    (one,) = made.others_unmatched
    assert (one.side, one.kind.value) == (side, kind)
    assert any(line.endswith(f": only on the {side} side") and kind in line for line in page(made))
    # Configurations explain; they decide nothing.
    assert made.verdict is (Verdict.AGREES if kind.startswith("pack") else Verdict.OPEN)


def test_monitors_with_too_few_steps_are_not_judged_as_by_their_own_command(sides, trained, capsys):
    """Nothing learns a band from nine steps: both commands end with 2."""

    def fill(run, is_target):
        rows = {
            rank: {kind: [row for row in found if row[0] < 9] for kind, found in kinds.items()}
            for rank, kinds in trained[False].items()
        }
        if is_target:  # the runs differ by rounding, so that there is something to be judged
            rows = {
                rank: {
                    kind: [(s, n, [v * 1.001 for v in values]) for s, n, values in found] for kind, found in of.items()
                }
                for rank, of in rows.items()
            }
        write(rows, run.path / "mon")

    target, golden = sides(fill)
    assert main(["monitor", "compare", str(target / "mon"), str(golden / "mon")]) == 2
    assert main(["diagnose", str(target), str(golden)]) == 2
    capsys.readouterr()


def test_a_monitor_on_one_side_and_a_dump_on_the_other_have_nothing_in_common(sides, put, capsys):
    def fill(run, is_target):
        put(run.path / "mon", True) if is_target else Run(run.path / "dump").step()

    target, golden = sides(fill)
    assert main(["diagnose", str(target), str(golden)]) == 2
    logged = capsys.readouterr().err
    assert f"{target} contains the monitor mon; {golden} contains the dump dump" in logged


@pytest.mark.parametrize("damage", ["empty", "no header", "garbage"])
def test_a_monitor_that_cannot_be_read_is_reported_and_is_not_clean(damage, found, put):
    def fill(run, is_target):
        put(run.path / "mon", False)
        Run(run.path / "dump").step()
        if is_target:
            for file in (run.path / "mon").rglob("*.csv"):
                text = {"empty": b"", "no header": b"1,2,3\n" * 9, "garbage": bytes(range(256)) * 20}[damage]
                file.write_bytes(text)

    made = found(fill)
    (monitor,) = made.monitors
    assert (monitor.result, made.verdict) == (None, Verdict.OPEN)
    assert "no row of a monitor can be read" in monitor.failed
    assert any("monitor mon: not compared: " in line for line in page(made))


def test_monitors_that_have_nothing_in_common_beside_equal_dumps_are_not_clean(found, put):
    def fill(run, is_target):
        put(run.path / "mon", False, only=("actv",) if is_target else ("grad_reduced",))
        Run(run.path / "dump").step()

    made = found(fill)
    assert (made.monitors[0].result, made.verdict) == (None, Verdict.OPEN)


def test_files_of_no_known_kind_are_listed_and_a_dump_that_cannot_be_read_is_not_clean(found, put):
    def fill(run, is_target):
        Run(run.path / "dump").step()
        (run.path / "train.log").write_text("loss")
        (run.path / "pictures").mkdir()
        (run.path / "pictures" / "loss.png").write_bytes(b"png")

    made = found(fill)
    assert {(side, one.name) for side, one in made.unused} == {
        (side, name) for side in ("target", "golden") for name in ("train.log", "pictures")
    }
    assert made.verdict is Verdict.AGREES
    assert "  not used on the target side, since their type is unknown: train.log, pictures" in page(made)

    def deep(run, is_target):
        Run(run.path / "far/below/it/all/dump").step()

    made = found(deep)
    assert made.verdict is Verdict.OPEN
    assert [one.is_dump for _, one in made.unused if "far" in one.name] == [True, True]


def test_a_damaged_checkpoint_and_a_damaged_pack_are_reported_and_not_clean(found):
    def fill(run, is_target):
        Run(run.path / "dump").step()
        (run.path / "net.safetensors").write_bytes(b"damaged")
        (run.path / "pack.zip").write_bytes(b"damaged")

    made = found(fill)
    assert [name for name, _ in made.failed] == ["net.safetensors"]
    assert [bool(each.failed) for each in made.packs] == [True]
    assert made.verdict is Verdict.OPEN


@pytest.mark.parametrize("version", ["2.0", "1.0"])
def test_two_packs_alone_are_compared(version, tmp_path, capsys):
    for name, of_side in (("a.zip", "2.0"), ("b.zip", version)):
        with zipfile.ZipFile(tmp_path / name, "w") as pack:
            pack.writestr("pip", f"mindspore={of_side}\n")
    code = main(["config_check", "-c", str(tmp_path / "b.zip"), str(tmp_path / "a.zip"), "-o", str(tmp_path / "out")])
    answer = capsys.readouterr().out.splitlines()[-1]
    assert main(["diagnose", str(tmp_path / "a.zip"), str(tmp_path / "b.zip")]) == code
    assert answer in capsys.readouterr().out


def test_the_json_has_the_monitors_as_fields(sides, put, capsys):
    target, golden = sides(lambda run, is_target: put(run.path / "mon", is_target, dtype="Float32"))
    assert main(["diagnose", str(target), str(golden), "--format", "json"]) == 1
    report = json.loads(capsys.readouterr().out)
    details = report["details"]
    assert (report["state"], details["step"], details["rank"], details["monitor"]) == ("differs", STEP, 0, "mon")
    (monitor,) = details["monitors"]
    assert (monitor["is_answer"], monitor["finding"]["place"]["step"], monitor["failed"]) == (True, STEP, None)
    assert report["findings"] == [monitor["finding"]]
    assert report["answer"] == monitor["answer"]
    assert details["next_collection"]["purpose"] == "monitored"
    assert "next_dump" not in monitor


def test_the_folder_of_one_process_of_a_monitor_is_a_monitor(sides, put, capsys):
    target, golden = sides(lambda run, is_target: put(run.path, is_target))
    (ours,), (theirs,) = (sorted(path.glob("*rank0*")) for path in (target, golden))
    assert main(["diagnose", str(ours), str(theirs), "--format", "json"]) == 1
    details = json.loads(capsys.readouterr().out)["details"]
    assert (details["step"], details["unused"]) == (STEP, [])


def test_what_was_collected_next_may_be_in_the_folder_of_the_monitor(found, put):
    def fill(run, is_target):
        put(run.path, is_target)
        Run(run.path / "next").step(STEP, level="mix", wrong={"Functional.sub": 0.5} if is_target else None)

    made = found(fill)
    assert (made.located.finding.name, [each.name for each in made.monitors]) == ("Functional.sub.0.forward", [""])


def test_a_flow_beside_a_monitor_is_compared_with_it(found, put):
    def fill(run, is_target):
        put(run.path / "mon", is_target)
        for stage in ("actor_compute_log_prob", "actor_update"):
            Run(run.path / stage).step(STEP, wrong={NORM: 0.5} if is_target and stage == "actor_update" else None)

    made = found(fill)
    assert (made.located.stage, [each.name for each in made.monitors]) == ("actor_update", ["mon"])
