"""Dumps hold no secrets: not in run.jsonl, call stacks, texts that are passed to an API, tracebacks, configurations."""

import json

import pytest

from msprobe.base import redaction
from msprobe.store.rl_roots import write_configurations
from msprobe.store.run_folder import run_folder
from msprobe.store.stacks_and_construct import without_secrets

TOKEN = "hf_FAKEfakeFAKEfakeFAKEfake"


@pytest.mark.parametrize("name", ["MSPROBE_RUN", "TORCHELASTIC_RUN_ID", "RAY_JOB_ID"])
def test_variables_of_launchers_are_in_run_jsonl_without_secrets(name, tmp_path, monkeypatch):
    monkeypatch.setenv(name, f"job --token {TOKEN} -u me:swordfish")
    run_folder(tmp_path / "dump", 0)
    held = (tmp_path / "dump" / "run.jsonl").read_text()
    assert "job --token <redacted:" in held
    assert TOKEN not in held
    assert "swordfish" not in held


def test_an_ordinary_name_of_a_run_is_readable(tmp_path, monkeypatch):
    monkeypatch.setenv("MSPROBE_RUN", "llama-7b-lr1e-4-token-drop")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "8f14e45f-ceea-467a-9a36-dedd4bea2543")
    run_folder(tmp_path / "dump", 0)
    (line,) = (tmp_path / "dump" / "run.jsonl").read_text().splitlines()
    assert json.loads(line)["named"] == "llama-7b-lr1e-4-token-drop"
    assert "TORCHELASTIC_RUN_ID=8f14e45f-ceea-467a-9a36-dedd4bea2543" in json.loads(line)["launch"]


def test_frames_keep_their_place_and_lose_secrets_of_their_code():
    path = "/srv/hf_FAKEfakeFAKEfakeFAKEfake/net.py"
    frames = (f'File {path}, line 3, in f, \n login(token="swordfish")', "File a.py, line 1, in g, \n y = f(x)")
    safe = without_secrets(frames)
    assert safe[1] == frames[1]
    place, _, code = safe[0].partition("\n")
    assert place == f"File {path}, line 3, in f, "
    assert code.startswith(' login(token="<redacted')
    assert "swordfish" not in code


def test_a_text_that_is_passed_to_an_api_is_recorded_without_secrets():
    from types import SimpleNamespace

    from msprobe.store.describe import ArrayDescriber

    describer = ArrayDescriber(SimpleNamespace(holder=None))
    assert json.loads(describer.plain("zeros", "a", "input.0")) == {"type": "str", "value": "zeros"}
    assert json.loads(describer.plain("bhqd,bhkd->bhqk", "a", "input.0"))["value"] == "bhqd,bhkd->bhqk"
    assert redaction.is_redacted(json.loads(describer.plain(TOKEN, "a", "input.0"))["value"])


def test_configurations_of_a_flow_are_written_without_secrets(tmp_path):
    write_configurations(
        tmp_path, {"actor": {"lr": 0.1, "hub_token": "swordfish", 5: None}, "url": "http://a:haddock@b"}
    )
    text = (tmp_path / "configurations.json").read_text()
    assert json.loads(text)["actor"]["lr"] == 0.1
    assert "swordfish" not in text
    assert "haddock" not in text


def test_a_traceback_keeps_its_places_and_its_message():
    try:
        connect = {}
        connect["x"](password="swordfish")
    except KeyError:
        import traceback

        text = redaction.traceback(traceback.format_exc())
    assert "swordfish" not in text
    assert f'File "{__file__}", line' in text
    assert text.splitlines()[-1] == "KeyError: 'x'"
    assert redaction.traceback("ValueError: https://u:haddock@h/ refused\n").startswith("ValueError: https://<redacted")
