"""`msprobe rollout-check` on files and on the key data of a run."""

import csv
import json
import shutil

import numpy as np
import pytest
from markov import again, generate, padded_attended
from openpyxl import load_workbook

from msprobe.cli import main


def padded(rows, width, fill=0.0):
    return np.stack([np.pad(np.asarray(row, np.float32), (0, width - len(row)), constant_values=fill) for row in rows])


@pytest.fixture
def rollout():
    return generate(5, count=24)


def save(run, tag, step, micro_step, array, name=""):
    """A value as SingleSave leaves it."""
    folder = run / "data" / tag / f"step{step}" / "rank0" / f"micro_step{micro_step}"
    folder.mkdir(parents=True)
    np.save(folder / (name or f"{tag}.npy"), array)
    (folder / f"{tag}.json").write_text("{}")


def a_run(run, rollout, recomputed, prompts=True):
    """Two steps of two micro steps, with masks."""
    for at in range(4):
        part = slice(6 * at, 6 * at + 6)
        width = 40
        mask = [np.ones(len(v)) for v in rollout.log_probs[part]]
        for tag, rows in (("rollout_log_prob", rollout.log_probs), ("old_log_prob", recomputed)):
            save(run, tag, at // 2, at % 2, padded(rows[part], width))
        save(run, "response_mask", at // 2, at % 2, padded(mask, width))
        save(run, "responses", at // 2, at % 2, padded(rollout.responses[part], width).astype(np.int64))
        if prompts:
            save(run, "prompt_lengths", at // 2, at % 2, rollout.prompts[part])
    return run


NAMES = ["--generated", "rollout_log_prob", "--recomputed", "old_log_prob", "--mask", "response_mask"]


def test_a_run_that_agrees_ends_with_0(tmp_path, rollout, capsys):
    run = a_run(tmp_path / "run", rollout, again(rollout))
    assert main(["rollout_check", str(run), *NAMES, "--tokens", "responses", "-o", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("pass: cause: none")
    total = sum(map(len, rollout.log_probs))
    assert f"24 samples, {total} tokens" in printed


def test_names_of_a_flow_need_not_be_given(tmp_path, rollout, capsys):
    recomputed = again(rollout, change=padded_attended(rollout, 5))
    run = a_run(tmp_path / "run", rollout, recomputed)
    whole = [*NAMES, "--tokens", "responses", "--prompt_lengths", "prompt_lengths"]
    lines = []
    for words in ([], whole):
        assert main(["rollout_check", str(run), *words, "-o", str(tmp_path / f"out{len(words)}")]) == 1
        lines.append(capsys.readouterr().out.partition("written:")[0])
    assert lines[0] == lines[1]
    assert lines[0].startswith("error: cause: mask")
    assert main(["rollout_check", str(run), "--prompt_lengths", "", "-o", str(tmp_path / "without")]) == 1
    assert capsys.readouterr().out.startswith("error: cause: unclear")  # padding and a cut prompt look the same


def test_a_run_without_such_names_is_asked_which_are_meant(tmp_path, rollout, capsys):
    save(tmp_path / "run", "rollout_log_prob", 0, 0, padded(rollout.log_probs[:6], 40))
    save(tmp_path / "run", "log_prob", 0, 0, padded(rollout.log_probs[:6], 40))
    assert main(["rollout_check", str(tmp_path / "run"), "-o", str(tmp_path / "out")]) == 2
    assert "choose the log-probs with --recomputed, from log_prob, rollout_log_prob" in capsys.readouterr().err


def test_what_was_saved_whole_is_not_compared_with_mini_batches(tmp_path, rollout, capsys):
    """Their rows may stand in another order: the first mini-batch is not the first rows."""
    run = a_run(tmp_path / "run", rollout, again(rollout))
    shutil.rmtree(run / "data/rollout_log_prob/step1/rank0/micro_step1")
    assert main(["rollout_check", str(run), "-o", str(tmp_path / "out")]) == 1
    printed = capsys.readouterr().out
    assert printed.startswith("unjudged")
    assert (
        "Not compared (step 1, rank 0): rollout_log_prob was saved in 1 micro steps and old_log_prob in 2; save "
        "both completely, or both in the same mini-batches."
    ) in printed
    assert f"12 samples, {sum(map(len, rollout.log_probs[:12]))} tokens" in printed


def test_a_run_with_a_fault_ends_with_1_and_leaves_tables(tmp_path, rollout, capsys):
    recomputed = again(rollout, change=padded_attended(rollout, 5))
    run = a_run(tmp_path / "run", rollout, recomputed)
    out = tmp_path / "out"
    assert main(["rollout_check", str(run), *NAMES, "--prompt_lengths", "prompt_lengths", "-o", str(out)]) == 1
    assert capsys.readouterr().out.startswith("error: cause: mask")
    report = json.loads((out / "rollout_check.json").read_text())
    assert (report["state"], report["details"]["cause"]) == ("differs", "mask")
    assert (report["findings"][0]["code"], report["findings"][0]["grade"]) == ("MSP515", "error")
    gaps = [np.float32(g) - np.float32(r).astype(float) for g, r in zip(rollout.log_probs, recomputed, strict=True)]
    rows = list(load_workbook(out / "rollout_samples.xlsx").active.values)
    assert rows[0][:6] == ("sample", "recomputed_sample", "step", "prompt", "tokens", "mean")
    assert [row[2] for row in rows[1:]] == [0] * 12 + [1] * 12
    assert [row[3] for row in rows[1:]] == rollout.prompts.tolist()
    for row, gap in zip(rows[1:], gaps, strict=True):
        assert row[7] == pytest.approx(np.abs(gap).max(), abs=1e-6)
        assert row[8] == np.abs(gap).argmax()
    places = list(load_workbook(out / "rollout_positions.xlsx").active.values)
    assert [row[1] for row in places[1:]] == [sum(len(gap) > at for gap in gaps) for at in range(len(places) - 1)]


def test_an_npz_is_read_by_the_names_of_the_arguments(tmp_path, rollout, capsys):
    path, lengths = tmp_path / "a.npz", [len(v) for v in rollout.log_probs]
    flat = np.concatenate(rollout.log_probs)
    np.savez(
        path, generated=flat, recomputed=np.concatenate(again(rollout)), lengths=lengths, tokens=np.arange(len(flat))
    )
    for form, names in (("csv", {"rollout_samples.csv", "rollout_positions.csv"}), ("json", set())):
        out = tmp_path / form
        assert main(["rollout_check", str(path), "-o", str(out), "--format", form]) == 0
        assert {file.name for file in out.iterdir()} == names | {"rollout_check.json"}
    report = json.loads((tmp_path / "json" / "rollout_check.json").read_text())
    with open(tmp_path / "csv" / "rollout_samples.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["tokens"]) for row in rows] == lengths == [row["tokens"] for row in report["details"]["samples"]]


def test_npy_files_need_no_npz(tmp_path, rollout, capsys):
    files = {"generated": padded(rollout.log_probs, 40), "recomputed": padded(again(rollout), 40)}
    files["mask"] = padded([np.ones(len(v)) for v in rollout.log_probs], 40)
    options = []
    for name, array in files.items():
        np.save(tmp_path / f"{name}.npy", array)
        options += [f"--{name}", str(tmp_path / f"{name}.npy")]
    assert main(["rollout_check", *options, "-o", str(tmp_path / "out")]) == 0


WRONG = {
    "nothing": ([], "give an npz file"),
    "no such file": (["none.npz"], "does not exist"),
    "no npz": (["text.npz"], "cannot be read as npz"),
    "one array": (["one.npy"], "is a single array"),
    "no such key": (
        ["a.npz", "--mask", "m"],
        "--generated-mask m: is not an npy file, and a.npz contains generated, recomputed",
    ),
    "no such array": (["--generated", "g.npy", "--recomputed", "one.npy"], "g.npy: does not exist"),
    "matrix alone": (["a.npz"], "give generated_mask, or lengths"),
    "matrix alone in a run": (["run", "--mask", ""], "give generated_mask (step 0, rank 0, micro step 0), or lengths"),
    "no key data": (["folder"], "has no folder data"),
    "no such tag": (
        ["run", *NAMES[:2], "--recomputed", "log_prob"],
        "has no key data with this name, but old_log_prob",
    ),
    "output there": (["b.npz", "-o", "taken"], "already exists"),
    "top": (["b.npz", "--top", "-1"], "--top: -1 is invalid"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_meant_ends_with_2(what, tmp_path, monkeypatch, capsys, rollout):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.npz").write_text("no zip")
    (tmp_path / "folder").mkdir()
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "rollout_check.json").write_text("{}")
    np.save("one.npy", np.zeros(3))
    np.savez("a.npz", generated=np.zeros((2, 3)), recomputed=np.zeros((2, 3)))
    np.savez("b.npz", generated=np.zeros(3), recomputed=np.zeros(3), lengths=[3])
    a_run(tmp_path / "run", rollout, again(rollout), prompts=False)
    words, message = WRONG[what]
    assert main(["rollout_check", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_batch_that_cannot_be_read_is_said(tmp_path, rollout, capsys):
    run = a_run(tmp_path / "run", rollout, again(rollout))
    (run / "data/old_log_prob/step1/rank0/micro_step1/old_log_prob.npy").write_bytes(b"broken")
    assert main(["rollout_check", str(run), *NAMES, "-o", str(tmp_path / "out")]) == 1
    printed = capsys.readouterr().out
    assert printed.startswith("unjudged")
    assert "Not read (step 1, rank 0, micro step 1)" in printed
    (run / "data/response_mask/step0/rank0/micro_step0/response_mask.npy").unlink()
    assert main(["rollout_check", str(run), *NAMES, "-o", str(tmp_path / "again")]) == 1
    assert "Not read (step 0, rank 0, micro step 0): response_mask is missing." in capsys.readouterr().out
    assert "18 samples" in printed


def test_a_list_of_samples_is_a_batch(tmp_path, rollout, capsys):
    """As `SingleSave.save({"log_prob": [...], "prompt_lengths": ...})` leaves it."""
    recomputed = again(rollout, change=padded_attended(rollout, 5))
    for at in range(2):
        part = range(12 * at, 12 * at + 12)
        for tag, rows in (("rollout_log_prob", rollout.log_probs), ("old_log_prob", recomputed)):
            for number, sample in enumerate(part):
                folder = tmp_path / f"run/data/{tag}/step0/rank0/micro_step{at}"
                folder.mkdir(parents=True, exist_ok=True)
                np.save(folder / f"{tag}.{number}.npy", rows[sample])
        save(tmp_path / "run", "prompt_lengths", 0, at, rollout.prompts[list(part)])
    words = [str(tmp_path / "run"), *NAMES[:4], "--prompt_lengths", "prompt_lengths", "-o", str(tmp_path / "out")]
    assert main(["rollout_check", *words]) == 1
    assert capsys.readouterr().out.startswith("error: cause: mask")
    rows = list(load_workbook(tmp_path / "out" / "rollout_samples.xlsx").active.values)[1:]
    assert [row[3] for row in rows] == rollout.prompts.tolist()
    assert [row[4] for row in rows] == [len(v) for v in rollout.log_probs]


def test_saves_out_of_a_graph_are_batches_in_their_order(tmp_path, rollout, capsys):
    """Their ids count everything that a process saved; the k-th of a name belongs to the k-th of another."""
    number = 0
    for at in range(4):
        part = slice(6 * at, 6 * at + 6)
        mask = [np.ones(len(v)) for v in rollout.log_probs[part]]
        values = {"rollout_log_prob": rollout.log_probs, "response_mask": mask, "old_log_prob": again(rollout)}
        for tag, rows in values.items():
            folder = tmp_path / f"run/data/{tag}/step{at // 2}/rank0"
            folder.mkdir(parents=True, exist_ok=True)
            array = padded(rows if tag == "response_mask" else rows[part], 40)
            np.save(folder / f"{tag}_float32_{number}.npy", array)
            number += 1
    assert main(["rollout_check", str(tmp_path / "run"), *NAMES, "-o", str(tmp_path / "out")]) == 0
    assert f"24 samples, {sum(map(len, rollout.log_probs))} tokens" in capsys.readouterr().out


def test_samples_that_could_not_be_judged_are_counted_in_the_last_line(tmp_path, capsys):
    random = np.random.default_rng(0)
    generated = -random.random((6, 50)).astype(np.float32)
    recomputed = generated.copy()
    recomputed[2, 7] = np.nan
    for name, array in (("a", generated), ("b", recomputed), ("m", np.ones_like(generated))):
        np.save(tmp_path / f"{name}.npy", array)
    words = [f"--{key}={tmp_path / name}.npy" for key, name in (("generated", "a"), ("recomputed", "b"), ("mask", "m"))]
    assert main(["rollout_check", *words, "-o", str(tmp_path / "out")]) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.endswith("; 1 could not be judged: samples with NaN or infinities (1)")
