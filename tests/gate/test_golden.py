"""The golden file: its size, contents and equality, and that commands read it like the run of which it was made."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from msprobe.base.errors import DumpError, UsageError
from msprobe.cli import main
from msprobe.gate import golden as making
from msprobe.gate.golden import Accepted, Golden, Wanted, write
from msprobe.gate.judge import State, judged
from msprobe.gate.recording import Collection
from msprobe.store.detect import kind_of
from msprobe.store.golden import MANIFEST
from msprobe.store.reader import load_tensor, read


def entries(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rewritten(path, **changes):
    """Write the golden again, with other contents of some entries; None removes one."""
    found = entries(path) | changes
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in found.items():
            if content is not None:
                archive.writestr(name, content)


def test_equal_runs_give_equal_bytes(golden_of, run_of, tmp_path):
    made = golden_of("base").path
    other = tmp_path / "elsewhere.golden"
    write(other, run_of("base"), Wanted(Collection()))
    assert other.read_bytes() == made.read_bytes()


def test_it_has_the_steps_and_what_was_learned(golden_of):
    golden = golden_of("base")
    assert set(entries(golden.path)) == {
        MANIFEST,
        *(f"dump/step{step}/rank/{name}.parquet" for step in (0, 1, 2) for name in ("dump", "samples")),
    }
    assert [each.step for each in golden.facts] == [0, 1, 2]
    # Two linear layers and a norm: six parameters, all of which have a gradient and are updated.
    assert [(each.parameters, each.gradients, each.updated) for each in golden.facts] == [
        (6, 6, None),
        (6, 6, 6),
        (6, 6, 6),
    ]
    losses = [each.loss for each in golden.facts]
    assert len(set(losses)) == 3
    assert all(0.5 < loss < 3 for loss in losses)  # of four classes, log(4) = 1.39 at the start


def test_the_loss_and_the_norm_are_those_of_the_dump(golden_of):
    golden = golden_of("base")
    dump = read(making.dump_of(golden.path) / "step0/rank")
    loss = next(c for c in dump.calls if "cross_entropy" in c.name and "forward" in c.name)
    assert golden.facts[0].loss == loss.records[-1].statistics.max
    squares = [r.statistics.norm**2 for c in dump.calls if "parameters_grad" in c.name for r in c.records]
    assert golden.facts[0].gradient_norm == pytest.approx(sum(squares) ** 0.5, rel=1e-12)


def test_a_sample_has_the_elements_at_its_places(golden_of, run_of):
    samples = golden_of("base").samples[1, 0]
    dump = read(run_of("base") / "step1/rank")
    records = [r for call in dump.calls for r in call.records if r.kind == "tensor" and r.name in samples]
    assert len(records) > 20
    for record in records:
        array = load_tensor(dump, record)
        sample = samples[record.name]
        assert np.array_equal(sample.elements, array.reshape(-1)[sample.positions].astype(np.float64))
        assert sample.count == array.size


def test_fewer_elements_are_stored_where_the_file_would_be_too_large(golden_of, run_of, tmp_path, monkeypatch):
    whole, stored = golden_of("base").path.stat().st_size, golden_of("base").samples[0, 0]
    monkeypatch.setattr(making, "MAX_BYTES", whole - 1)
    made = write(tmp_path / "small.golden", run_of("base"), Wanted(Collection()))
    assert made.size < whole
    assert 0 < made.sampled < 64
    samples = Golden.read(made.path).samples[0, 0]
    (name,) = [name for name in samples if name.endswith("first.Linear.parameters_grad.weight")]
    assert (stored[name].count, len(stored[name].elements), len(samples[name].elements)) == (128, 64, made.sampled)
    assert samples[name].elements.tolist() == stored[name].elements[: made.sampled].tolist()
    monkeypatch.setattr(making, "MAX_BYTES", 1000)
    with pytest.raises(UsageError, match="record fewer steps"):
        write(tmp_path / "none.golden", run_of("eps"), Wanted(Collection()))
    assert not (tmp_path / "none.golden").exists()


def test_nothing_of_this_machine_is_in_it(golden_of):
    text = b"".join(entries(golden_of("base").path).values())
    assert b"dump_path" not in text
    assert b"data_name" not in text


def test_a_path_below_the_working_directory_becomes_relative(golden_of, run_of, tmp_path, monkeypatch):
    run = run_of("base")
    monkeypatch.chdir(tmp_path)
    for stack in run.rglob("stack.json"):
        stack.write_text(stack.read_text().replace("/home/user/gate", str(tmp_path)))
    made = write(tmp_path / "relative.golden", run, Wanted(Collection()))
    dump = read(making.dump_of(made.path) / "step0/rank")
    frames = [frame for call in dump.calls for frame in call.stack]
    assert any(frame.startswith("File make.py, line ") for frame in frames)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["compare", "RUN", "GOLDEN", "-o", "OUT"], 0),
        (["compare", "OTHER", "GOLDEN", "-o", "OUT"], 1),
        (["diagnose", "OTHER", "GOLDEN"], 1),
        (["report", "OTHER", "GOLDEN", "-o", "OUT"], 1),
        (["check", "GOLDEN"], 0),
        (["overflow-check", "GOLDEN"], 0),
        (["bundle", "OTHER", "GOLDEN", "-o", "OUT.zip"], 0),
    ],
)
def test_commands_read_it_like_a_dump(golden_of, run_of, tmp_path, words, code):
    golden, out = golden_of("base").path, tmp_path / "out"
    places = {
        "RUN": run_of("base"),
        "OTHER": run_of("eps"),
        "GOLDEN": golden,
        "OUT": out,
        "OUT.zip": tmp_path / "b.zip",
    }
    assert main([str(places.get(word, word)) for word in words]) == code


def test_it_is_a_run_of_three_steps(golden_of):
    kind = kind_of(golden_of("base").path)
    assert kind.word == "run"
    assert sorted(each.name for each in kind.path.iterdir()) == ["step0", "step1", "step2"]


def test_what_is_known_about_the_run_is_read_again(golden_of):
    accepted = Accepted("a reason", ({"name": "Functional.add.0.forward", "kind": "argument differs"},))
    wanted = golden_of("base", command=("python", "train.py"), accepted=(accepted,)).wanted
    assert wanted.command == ("python", "train.py")
    assert wanted.accepted == (accepted,)
    assert wanted.collection == Collection()
    assert wanted.limits is None


def test_a_secret_in_the_command_is_not_stored(golden_of):
    secret = "ghp_" + "1a2B3c4D5e6F7a8B9c0D1e2F3a4B5c6D7e8F"
    path = golden_of("base", command=("python", "train.py", f"--token={secret}")).path
    assert secret.encode() not in b"".join(entries(path).values())


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({MANIFEST: None}, "no golden.json"),
        ({MANIFEST: b"{}"}, "not an object of this format"),
        ({MANIFEST: b'{"format": "msprobe golden", "format_version": 99}'}, "newer version"),
        ({MANIFEST: b'{"format": "msprobe golden", "format_version": 1}'}, "damaged"),
        ({"dump/../../evil.parquet": b""}, "leads out of the archive"),
        ({"dump/evil.py": b""}, "file type"),
        ({"other/dump.parquet": b""}, "not part of a golden"),
    ],
)
def test_a_damaged_or_malicious_file_is_refused(golden_of, changes, why):
    path = golden_of("base").path
    rewritten(path, **changes)
    with pytest.raises(DumpError, match=why):
        Golden.read(path)


def test_damaged_samples_are_refused(golden_of, run_of, capsys):
    golden = golden_of("base")
    rewritten(golden.path, **{"dump/step0/rank/samples.parquet": b"PAR1"})
    assert main(["gate", "check", "--golden", str(golden.path), "--target", str(run_of("base"))]) == 2
    assert "samples.parquet: is damaged" in capsys.readouterr().err


def test_no_golden_is_a_usage_error_that_says_how_to_make_one(tmp_path):
    with pytest.raises(UsageError, match="msprobe gate record"):
        Golden.read(tmp_path / "none.golden")


def test_show_has_the_manifest_as_a_document(golden_of, capsys):
    path = golden_of("base", accepted=(Accepted("why", ()),)).path
    assert main(["gate", "show", str(path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [each["step"] for each in document["details"]["training"]] == [0, 1, 2]
    assert document["details"]["accepted"] == [{"reason": "why", "findings": []}]
    assert main(["gate", "show", str(path)]) == 0
    assert "accepted 1: why" in capsys.readouterr().out


def test_a_golden_that_was_recorded_before_is_read(run_of):
    """Golden files are in the repositories of users: a later version reads them and judges as before."""
    golden = Golden.read(Path(__file__).with_name("released.golden"))
    assert golden.about["format_version"] == 1
    assert judged(run_of("base"), golden).state is State.GREEN
    assert judged(run_of("eps"), golden).state is State.RED
