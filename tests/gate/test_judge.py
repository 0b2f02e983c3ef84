"""The verdict on a run by a golden, of trainings whose only change is known."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from msprobe.base.errors import UsageError
from msprobe.cli import main
from msprobe.compare.core.limits import Kind, KindAmplification, Limits, LimitSource
from msprobe.findings.catalogue import comparison
from msprobe.findings.catalogue import gate as kinds
from msprobe.gate.accepting import accept
from msprobe.gate.calibration import calibrated
from msprobe.gate.golden import Golden, Wanted, read_run, write
from msprobe.gate.judge import State, judged
from msprobe.gate.recording import Collection
from msprobe.gate.training import StepFacts, Untrained, are_initialized_alike, defects, gradient, gradient_rows
from msprobe.store.reader import load_tensor

pytestmark = pytest.mark.part(2)


def first(verdict):
    """The kind and name of the first finding."""
    finding = verdict.answer.first
    return finding.kind, finding.place.name


def test_the_same_run_is_green(golden_of, run_of):
    verdict = judged(run_of("base"), golden_of("base"))
    assert verdict.state is State.GREEN
    assert verdict.answer.state == "clean"
    assert verdict.verdicts.wrong == 0


def test_nothing_is_written_next_to_the_run(golden_of, run_of, tmp_path):
    run, golden = run_of("eps"), golden_of("base")
    before = sorted(tmp_path.rglob("*"))
    assert judged(run, golden).state is State.RED
    assert sorted(tmp_path.rglob("*")) == before


def test_another_number_of_threads_is_green(golden_of, run_of):
    verdict = judged(run_of("wide-1"), golden_of("wide"))
    assert verdict.state is State.GREEN
    assert verdict.facts != golden_of("wide").facts  # rounding differs


def test_another_epsilon_is_red_and_named(golden_of, run_of):
    verdict = judged(run_of("eps"), golden_of("base"))
    assert verdict.state is State.RED
    assert first(verdict) == (comparison.ARGUMENT, "Functional.layer_norm.0.forward")
    assert verdict.answer.first.place.source.file.endswith("make.py")


def test_elements_that_changed_places_are_red(golden_of, run_of):
    """All four statistics of the inputs are equal: only a sample shows it."""
    verdict = judged(run_of("permuted"), golden_of("base"))
    assert verdict.state is State.RED
    assert first(verdict)[0] is comparison.RUN_INPUTS
    assert any(
        "Sampled elements" in str(each) for each in (verdict.answer.first.reason, *verdict.answer.first.evidence)
    )


def test_a_run_without_updates_did_not_train(golden_of, run_of):
    verdict = judged(run_of("still"), golden_of("base"))
    assert verdict.state is State.UNTRAINED
    assert first(verdict)[0] is kinds.NOTHING_UPDATED
    assert judged(run_of("base"), golden_of("still", forward_only=True)).state is State.RED  # the golden does not train


def test_a_missing_step_and_no_dump_at_all_did_not_train(golden_of, run_of, tmp_path):
    run = run_of("base")
    shutil.rmtree(run / "step2")
    verdict = judged(run, golden_of("base"))
    assert (verdict.state, first(verdict)[0]) == (State.UNTRAINED, kinds.FEWER_CALLS)
    (tmp_path / "empty").mkdir()
    assert judged(tmp_path / "empty", golden_of("base")).state is State.UNTRAINED


def without(run, keep):
    """Remove the entries of dump.json files for which `keep` is false."""
    for file in run.rglob("dump.json"):
        text = json.loads(file.read_text())
        text["data"] = {name: entry for name, entry in text["data"].items() if keep(name)}
        file.write_text(json.dumps(text))


def test_a_run_without_gradients_did_not_train(golden_of, run_of):
    run = run_of("base")
    without(run, lambda name: "backward" not in name and "parameters_grad" not in name)
    verdict = judged(run, golden_of("base"))
    assert (verdict.state, first(verdict)[0]) == (State.UNTRAINED, kinds.NO_GRADIENTS)


def test_a_constant_loss_did_not_train(golden_of, run_of):
    run = run_of("base")
    for step in (1, 2):
        shutil.copyfile(run / "step0/rank/dump.json", run / f"step{step}/rank/dump.json")
    verdict = judged(run, golden_of("base"))
    found = {each.kind for each in verdict.answer.findings}
    assert verdict.state is State.UNTRAINED
    assert found == {kinds.NOTHING_UPDATED, kinds.CONSTANT_LOSS}


def test_the_first_stage_of_a_pipeline_has_no_loss():
    """Its scalar is the same in each step; the last stage trains."""
    facts = [StepFacts(step, rank, 5, loss, 2) for step in (0, 1) for rank, loss in ((0, 0.0), (1, 2.0 - step))]
    assert defects(facts) == set()
    assert defects([each for each in facts if each.rank == 0]) == {Untrained.CONSTANT_LOSS}


def test_initial_values_without_samples_are_not_alike(golden_of, run_of):
    """Another initial value is the only finding then: a golden of task statistics cannot tell its size."""
    run, samples = read_run(run_of("base")), golden_of("base").samples
    assert are_initialized_alike(["first.weight"], run, samples)
    assert not are_initialized_alike(["first.weight"], run, {})
    assert not are_initialized_alike(["first.weight"], run, {place: {} for place in samples})
    assert not are_initialized_alike(["another.weight"], run, samples)


def only_gradients(name):
    return "parameters_grad" in name or "cross_entropy" in name


def test_calls_that_cannot_be_seen_are_judged_by_gradients(golden_of, run_of):
    """As with compiled code, of which only the loss and the gradients of parameters are recorded."""
    run = run_of("base")
    without(run, only_gradients)
    verdict = judged(run, golden_of("base"))
    assert verdict.state is State.GREEN
    assert (verdict.verdicts.fine, verdict.verdicts.wrong) == (18, 0)  # six parameters in three steps


def test_a_gradient_that_differs_is_named_where_calls_cannot_be_seen(golden_of, run_of):
    run = run_of("eps")
    without(run, only_gradients)
    verdict = judged(run, golden_of("base"))
    assert verdict.state is State.RED
    kind, name = first(verdict)
    assert kind is kinds.GRADIENT_DIFFERS
    assert name in {f"{layer}.{part}" for layer in ("first", "norm", "last") for part in ("weight", "bias")}
    assert verdict.answer.first.place.step == 0


def rewrite(run, change):
    """Call `change(dump, arrays)` for each dump of a run, and write the arrays, by file, that it has changed."""
    for _, _, dump in read_run(run).every:
        columns = dump.columns
        records = [columns.record(row, columns.call_of(row)) for row in range(len(columns)) if columns.file[row]]
        arrays = {record.file: load_tensor(dump, record) for record in records}
        change(dump, arrays)
        folder = Path(dump.folder) / "dump_tensor_data"
        shutil.rmtree(folder)
        folder.mkdir()
        for file, array in arrays.items():
            np.save(folder / file, array)


@pytest.mark.parametrize(("size", "state"), [(1e-5, State.GREEN), (1e-2, State.RED)])
def test_what_is_left_of_a_gradient_that_cancels_out_is_rounding(run_of, tmp_path, size, state):
    """A bias before a batch norm has no effect on the loss: both runs have some rounding as its gradient."""
    sides = run_of("base"), Path(shutil.copytree(run_of("base"), tmp_path / "golden-run"))
    for side, random in zip(sides, map(np.random.default_rng, (1, 2)), strict=True):

        def cancel(dump, arrays, random=random):
            rows = gradient_rows(dump)
            gradients = {name: gradient(dump, at) for name, at in rows.items()}
            usual = float(np.median([np.sqrt(np.mean(np.square(each))) for each in gradients.values()]))
            bias = dump.columns.file[rows["first.bias"][0]]
            arrays[bias] = (size * usual * random.standard_normal(arrays[bias].shape)).astype(np.float32)

        rewrite(side, cancel)
    without(sides[0], only_gradients)
    write(tmp_path / "cancelled.golden", sides[1], Wanted(Collection()))
    verdict = judged(sides[0], Golden.read(tmp_path / "cancelled.golden"))
    assert verdict.state is state, verdict.answer.line


@pytest.mark.parametrize(("dtype", "state"), [("torch.bfloat16", State.GREEN), ("torch.float32", State.RED)])
def test_gradients_that_were_computed_in_bfloat16_have_its_rounding(run_of, tmp_path, dtype, state):
    """Under autocast the gradient of a parameter is float32, and those of the calls are bfloat16 with 8 bits."""
    sides = run_of("base"), Path(shutil.copytree(run_of("base"), tmp_path / "golden-run"))
    for side, error in zip(sides, (2.0**-8, 0.0), strict=True):

        def scale(dump, arrays, error=error):
            for rows in gradient_rows(dump).values():
                file = dump.columns.file[rows[0]]
                arrays[file] = arrays[file] * np.float32(1 + error)

        rewrite(side, scale)
        for file in side.rglob("dump.json"):
            text = json.loads(file.read_text())
            for name, entry in text["data"].items():
                if ".backward" in name:
                    entry["output"] = [one | {"dtype": dtype} for one in entry["output"] if isinstance(one, dict)]
            file.write_text(json.dumps(text))
    without(sides[0], only_gradients)
    write(tmp_path / "mixed.golden", sides[1], Wanted(Collection()))
    verdict = judged(sides[0], Golden.read(tmp_path / "mixed.golden"))
    assert verdict.state is state, verdict.answer.line


@pytest.mark.parametrize(("error", "state"), [(2.0**-23, State.GREEN), (1e-4, State.RED)])
def test_inputs_that_differ_by_rounding_are_green(run_of, golden_of, error, state):
    """Random inputs are drawn by a kernel, which rounds differently on another processor."""
    run, calls = run_of("base"), ("Functional.linear.0.forward", "Module.first.Linear.forward.0")

    def scale(dump, arrays):
        for call in calls:
            arrays[f"{call}.input.0.npy"] = arrays[f"{call}.input.0.npy"] * np.float32(1 + error)

    rewrite(run, scale)
    for file in run.rglob("dump.json"):
        text = json.loads(file.read_text())
        for call in calls:
            record = text["data"][call]["input_args"][0]
            record |= {key: record[key] * (1 + error) for key in ("Max", "Min", "Mean", "Norm")}
        file.write_text(json.dumps(text))
    verdict = judged(run, golden_of("base"))
    assert verdict.state is state, verdict.answer.line
    if state is State.RED:
        assert first(verdict)[0] is comparison.RUN_INPUTS


def test_mindformers_limits_accept_what_they_allow(golden_of, run_of):
    """The epsilon changes loss and gradients by less than 0.5 % and 10 %; the call is still listed."""
    golden = golden_of("base")
    verdict = judged(run_of("eps"), golden, "mindformers")
    pairs = list(zip(verdict.facts, golden.facts, strict=True))
    assert abs(pairs[0][0].loss / pairs[0][1].loss - 1) < 0.005
    assert all(abs(ours.gradient_norm / theirs.gradient_norm - 1) < 0.1 for ours, theirs in pairs)
    assert verdict.state is State.GREEN
    assert verdict.answer.harmless[0].kind is comparison.ARGUMENT
    assert any("MindFormers" in str(note) for note in verdict.answer.notes)


def test_mindformers_limits_refuse_another_loss(golden_of, run_of):
    golden = golden_of("base")
    verdict = judged(run_of("permuted"), golden, "mindformers")
    ours, theirs = verdict.facts[0].loss, golden.facts[0].loss
    assert abs(ours / theirs - 1) > 0.005
    assert verdict.state is State.RED
    assert first(verdict)[0] is kinds.BEYOND_LIMITS


def test_calibrated_limits_need_a_calibration(golden_of, run_of):
    with pytest.raises(UsageError, match="--runs"):
        judged(run_of("base"), golden_of("base"), "calibrated")
    rows = (KindAmplification(Kind("linear", "forward", "0"), 40.0, 3),)
    limits = Limits(LimitSource.CALIBRATED, amplifications=rows, sides=({"framework": "pytorch"},) * 2)
    golden = golden_of("wide", limits=limits, runs=3)
    assert golden.wanted.limits.amplifications == rows
    assert judged(run_of("wide-1"), golden, "calibrated").state is State.GREEN


def test_a_calibration_has_the_kinds_that_differ_between_two_runs(golden_of, run_of):
    found = calibrated(golden_of("wide"), [run_of("wide-1")])
    operations = {row.kind.operation for row in found.amplifications}
    assert operations
    assert all(row.amplification > 0 for row in found.amplifications)
    assert found.first_wrong == ()
    assert calibrated(golden_of("base"), [run_of("base")]).amplifications == ()


@pytest.mark.parametrize("variant", ["eps", "permuted"])
def test_runs_that_are_not_the_same_training_calibrate_nothing(golden_of, run_of, variant):
    with pytest.raises(UsageError, match="not the same training"):
        calibrated(golden_of("base"), [run_of(variant)])


# ---- accept ---------------------------------------------------------------------------------------------------------


def test_an_accepted_change_is_green_and_its_reason_is_in_the_golden(golden_of, run_of):
    golden, run = golden_of("base"), run_of("eps")
    done = accept(golden, run, "eps as in the paper", ["Functional.layer_norm.0.forward"])
    assert done.others == ()
    after = Golden.read(golden.path)
    assert judged(run, after).state is State.GREEN
    (one,) = after.wanted.accepted
    assert one.reason == "eps as in the paper"
    assert one.findings[0]["name"] == "Functional.layer_norm.0.forward"
    assert one.findings[0]["kind"] == comparison.ARGUMENT.name
    assert judged(run_of("base"), after).state is State.RED


def test_another_finding_is_not_accepted_and_nothing_is_written(golden_of, run_of):
    golden = golden_of("base")
    before = golden.path.read_bytes()
    done = accept(golden, run_of("eps"), "a reason", ["Functional.gelu.0.forward"])
    assert "Functional.layer_norm.0.forward" in done.others
    assert golden.path.read_bytes() == before


def test_a_green_run_changes_nothing(golden_of, run_of):
    golden = golden_of("wide")
    before = golden.path.read_bytes()
    assert accept(golden, run_of("wide-1"), "a reason").accepted is None
    assert golden.path.read_bytes() == before


def test_a_run_that_did_not_train_is_not_accepted(golden_of, run_of):
    golden = golden_of("base")
    assert accept(golden, run_of("still"), "a reason").is_untrained
    assert Golden.read(golden.path).wanted.accepted == ()


# ---- the commands ---------------------------------------------------------------------------------------------------


def test_exit_codes_and_the_last_line(golden_of, run_of, capsys):
    golden = str(golden_of("base").path)
    for variant, code, word in (("base", 0, "green"), ("eps", 1, "red"), ("still", 3, "did not train")):
        assert main(["gate", "check", "--golden", golden, "--target", str(run_of(variant))]) == code
        assert capsys.readouterr().out.splitlines()[-1].startswith(f"gate: {word}")


def test_the_command_that_accepts_is_printed(golden_of, run_of, capsys):
    golden, run = golden_of("base").path, run_of("eps")
    main(["gate", "check", "--golden", str(golden), "--target", str(run)])
    step = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("  do next: "))
    words = step.removeprefix("  do next: msprobe ").replace("REASON", "because").split()
    assert main(words) == 0
    assert main(["gate", "check", "--golden", str(golden), "--target", str(run)]) == 0


def test_the_summary_names_the_call_and_escapes_what_it_says(golden_of, run_of, tmp_path):
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    golden = golden_of("base", accepted=()).path
    words = ["gate", "check", "--golden", str(golden), "--target", str(run_of("eps")), "--summary", str(summary)]
    assert main(words) == 1
    text = summary.read_text()
    assert text.startswith("before\n### :x: Numerics gate `base.golden`: red\n")
    assert "| call | `Functional.layer_norm.0.forward` |" in text
    assert "layer\\_norm" in text  # outside of code
    assert text.count("\n| 0 | 0 | ") == 1


def test_tables_and_the_page_are_kept_where_they_are_asked_for(golden_of, run_of, tmp_path):
    out = tmp_path / "out"
    golden = str(golden_of("base").path)
    assert main(["gate", "check", "--golden", golden, "--target", str(run_of("eps")), "-o", str(out), "--html"]) == 1
    assert list(out.glob("compare_report_*.html"))
    assert list(out.rglob("compare_result_*.json"))


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["check", "--golden", "G"], "either the command"),
        (["check", "--golden", "G", "--target", "R", "--", "true"], "either the command"),
        (["check", "--golden", "G", "--target", "R", "--html"], "-o"),
        (["record", "--golden", "x.zip", "--target", "R"], "must end in .golden"),
        (["record", "--golden", "G", "--target", "R"], "already exists"),
        (["record", "--golden", "new.golden", "--runs", "2", "--target", "R"], "--runs repeats"),
        (["accept", "--golden", "G", "--target", "R", "--reason", "r"], "either --only"),
        (["accept", "--golden", "G", "--target", "R", "--all", "--reason", " "], "empty"),
        (["check", "--golden", "G", "--", "false"], "exit code 1"),
        (["check", "--golden", "G", "--", "./there-is-no-such-command"], "cannot be started"),
    ],
)
def test_usage_errors(golden_of, run_of, capfd, words, why):
    places = {"G": str(golden_of("base").path), "R": str(run_of("base"))}
    assert main(["gate", *(places.get(word, word) for word in words)]) == 2
    assert why in capfd.readouterr().err


def test_a_command_that_collects_nothing_did_not_train(golden_of):
    assert main(["gate", "check", "--golden", str(golden_of("base").path), "--", "true"]) == 3


def test_a_run_that_does_not_train_is_not_recorded(run_of, tmp_path, capsys):
    path = tmp_path / "new.golden"
    assert main(["gate", "record", "--golden", str(path), "--target", str(run_of("still"))]) == 3
    assert not path.exists()
    assert "nothing updated" in capsys.readouterr().out or not path.exists()
    assert main(["gate", "record", "--golden", str(path), "--forward-only", "--target", str(run_of("still"))]) == 0
    assert path.exists()


@pytest.mark.parametrize(("factor", "state"), [(1.0, State.GREEN), (2.0, State.GREEN), (1.9, State.RED)])
def test_gradients_of_two_micro_batches_are_added_or_averaged_afterwards(run_of, golden_of, factor, state):
    """Each micro batch has half of the gradient of the whole batch, or as much as the whole batch on average."""
    run = run_of("base")
    rewrite(run, lambda dump, arrays: halve(dump, arrays, factor))
    for file in run.rglob("dump.json"):
        text = json.loads(file.read_text())
        for name in [name for name in text["data"] if "parameters_grad" in name]:
            text["data"][f"{name}.1"] = text["data"][name]
        file.write_text(json.dumps(text))
    without(run, only_gradients)
    verdict = judged(run, golden_of("base"))
    assert verdict.state is state, verdict.answer.line


def halve(dump, arrays, factor):
    for rows in gradient_rows(dump).values():
        file = dump.columns.file[rows[0]]
        arrays[file] = arrays[file] * np.float32(factor / 2)
