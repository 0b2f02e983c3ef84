"""The proof of the cause, which the page quotes."""

import json

import pytest
from three_cells import NORM

from msprobe.cli import main

WITHIN_TOLERANCE = 3e-5

CAUSE = {"place": {"name": f"Cell.{NORM}.forward.0"}, "kind": "proven cause", "message": "grafting it closes 100%"}


@pytest.fixture
def proof(sides, tmp_path):
    """`proof(**details)`: the two sides, and a file with their proof."""

    def make(wrong=0.5, **details):
        target, golden = sides(
            lambda run, is_target: run.step(level="mix", task="tensor", wrong={NORM: wrong} if is_target else None)
        )
        file = tmp_path / "proof.json"
        details = {"target": str(target), "golden": str(golden)} | details
        contents = {"command": "graft", "answer": "proven: it", "findings": [CAUSE], "details": details}
        file.write_text(json.dumps(contents))
        return str(target), str(golden), "--proof", str(file)

    return make


def test_a_proof_is_quoted_with_its_causes(proof, capsys):
    words = proof()
    assert main(["diagnose", *words]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "  proof by msprobe graft: proven: it" in lines
    assert f"  Cell.{NORM}.forward.0: proven cause: grafting it closes 100%" in lines
    assert not any("msprobe graft " in line and "COMMAND" in line for line in lines), "it is not proposed again"
    assert main(["diagnose", *words, "--json"]) == 1
    details = json.loads(capsys.readouterr().out)["details"]
    assert (details["proof"]["answer"], len(details["proof"]["causes"])) == ("proven: it", 1)


@pytest.mark.parametrize(("wrong", "is_certain"), [(0.5, True), (WITHIN_TOLERANCE, False)])
def test_without_a_proof_the_command_is_proposed_if_the_finding_is_not_certain(proof, wrong, is_certain, capsys):
    target, golden, *option = proof(wrong)
    command = f"msprobe graft {target} {golden} -- COMMAND"
    main(["diagnose", target, golden])
    assert (command in capsys.readouterr().out) is not is_certain
    main(["diagnose", target, golden, "--json"])
    suggestions = json.loads(capsys.readouterr().out)["suggestions"]
    assert any(command in one["text"] for one in suggestions) is not is_certain
    main(["diagnose", target, golden, *option])
    assert command not in capsys.readouterr().out


def test_a_proof_of_other_runs_is_refused(proof, capsys):
    assert main(["diagnose", *proof(golden="/other/run")]) == 2
    assert "/other/run" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"command": "compare"}', '{"command": "graft", "details": {}}'])
def test_a_file_that_is_no_proof_is_refused(proof, tmp_path, text, capsys):
    words = proof()
    (tmp_path / "proof.json").write_text(text)
    assert main(["diagnose", *words]) == 2
    assert "is not a proof" in capsys.readouterr().err
