"""What is packed without a training: environment, packages, and settings of scripts as a shell and yaml mean them."""

import json
import zipfile
from importlib.metadata import version

import pytest

from msprobe.base import redaction
from msprobe.cli import main
from msprobe.config_check.shell import joined, options_of

YAML = """
model:
  lr: 5.0e-5
  flag: true
  none: null
  name: x
  layers: [1, 2]
  parts:
    - a: 1
    - b: 0.5
  empty: []
hf_token: swordfish
"""


def read(path):
    with zipfile.ZipFile(path) as held:
        return {name: held.read(name).decode() for name in held.namelist()}


@pytest.fixture
def packed(tmp_path, capsys, monkeypatch):
    """`packed({name: text})`: the entries of the pack of these scripts."""
    monkeypatch.setenv(redaction.SALT, "off")

    def run(files):
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        out = tmp_path / "pack.zip"
        out.unlink(missing_ok=True)
        assert main(["config_check", "-d", *(str(tmp_path / name) for name in files), "-o", str(out)]) == 0
        captured = capsys.readouterr()
        assert captured.err == ""
        names = ["pack.json", "env", "pip", *["hyperparameters/hyperparameters_static.json"][: len(files)]]
        *redacted, last = captured.out.splitlines()
        assert last == f"packed {', '.join(names)}: {out}"
        held = read(out)
        assert [line.split(": ")[0].removeprefix("redacted in ") for line in redacted] == [
            *json.loads(held["pack.json"])["redacted"]
        ]
        return held

    return run


def test_a_bare_pack_holds_environment_and_packages(packed, monkeypatch):
    monkeypatch.setenv("HCCL_DETERMINISTIC", "true")
    monkeypatch.setenv("MY_TOKEN", "swordfish")
    found = packed({})
    assert set(found) == {"pack.json", "env", "pip"}
    environment = json.loads(found["env"])
    assert environment["HCCL_DETERMINISTIC"] == "true"
    assert environment["MY_TOKEN"] == "<redacted>"
    lines = found["pip"].splitlines()
    assert f"numpy={version('numpy')}" in lines
    assert len({line.partition("=")[0].lower() for line in lines}) == len(lines), "one version of each"
    assert "swordfish" not in str(found)


def test_yaml_keeps_floats_nulls_and_places_in_lists(packed):
    found = packed({"conf.yaml": YAML})
    assert json.loads(found["hyperparameters/hyperparameters_static.json"]) == {
        "model.lr": 5e-5, "model.flag": True, "model.none": None, "model.name": "x", "model.layers.0": 1,
        "model.layers.1": 2, "model.parts.0.a": 1, "model.parts.1.b": 0.5, "model.empty": [],
        "hf_token": "<redacted>",
    }  # fmt: skip


def test_a_name_with_several_values_has_all(packed):
    found = packed({"a.sh": "torchrun t.py --lr 1 --lr 2", "b.sh": "torchrun t.py --lr 2 --x 1", "c.yaml": "x: 2"})
    assert json.loads(found["hyperparameters/hyperparameters_static.json"]) == {
        "lr": {"description": "duplicate_value", "values": ["1", "2"]},
        "x": {"description": "duplicate_value", "values": ["1", 2]},
    }


SCRIPTS = {
    "msrun --worker_num=8 t.py --lr 0.1": {"worker_num": "8", "lr": "0.1"},
    "torchrun --nproc_per_node 2 --standalone t.py --flag --x -1": {
        "nproc_per_node": "2", "standalone": True, "flag": True, "x": "-1",
    },
    "python -m torch.distributed.launch --n 2 t.py --a b | tee log --c d": {"n": "2", "a": "b"},
    "python3 train.py --a b": {"a": "b"},
    "python -u -m pkg.mod --a b": {"a": "b"},
    "/opt/bin/msrun t.py --a b": {"a": "b"},
    "echo --a b": {},
    "# msrun --a b": {},
    "msrun --a b # --c d": {"a": "b"},
    "msrun --a b#c": {"a": "b#c"},
    "msrun --a 'x y' --b \"it's\" --c x\\ y": {"a": "x y", "b": "it's", "c": "x y"},
    "msrun --a b \\\n  --c d": {"a": "b", "c": "d"},
    "msrun --a b > log 2>&1 &": {"a": "b"},
    "msrun --flag 2>&1 | tee x": {"flag": True},
    "msrun --a b &> log": {"a": "b"},
    "A=1; msrun --a $A --b ${A}x --c '$A' --d \"$A\"": {"a": "1", "b": "1x", "c": "$A", "d": "1"},
    "A=1\nA=2\nmsrun --a $A\nA=3": {"a": "2"},
    "export A=1 B=2\nmsrun --a $A$B": {"a": "12"},
    "msrun --a ${A:-7} --b ${A-8} --c $B": {"a": "7", "b": "8", "c": "$B"},
    "A=1 msrun --a b": {"a": "b"},
    "A_ARGS=\"\n --a 1 \\\n --b 2\n --flag\n\"\nmsrun t.py $A_ARGS --c 3": {"a": "1", "b": "2", "flag": True, "c": "3"},
    "ARGS=(--a 1 --b 'x y')\nARGS+=(--c 2)\nmsrun t.py ${ARGS[@]} ": {"a": "1", "b": ["x", "y"], "c": "2"},
    "ARGS=(--a 1 --b 'x y')\nmsrun t.py \"${ARGS[@]}\"": {"a": "1", "b": "x y"},
    "msrun --a $(nproc --all) --b `hostname`": {"a": "$(nproc --all)", "b": "`hostname`"},
    "msrun --l 1 2 3 --n 1": {"l": ["1", "2", "3"], "n": "1"},
    "if true; then msrun --a b; fi": {"a": "b"},
    "nohup msrun --a b": {"a": "b"},
    "msrun --a": {"a": True},
    "msrun --a=": {"a": ""},
    "A=5\r\nmsrun --a $A\r\n": {"a": "5"},
}  # fmt: skip


@pytest.mark.parametrize("script", SCRIPTS)
def test_options_of_scripts_are_those_that_the_shell_would_pass(script):
    assert joined(options_of(script)) == SCRIPTS[script]


@pytest.mark.slow
def test_what_is_wrong_is_one_line(tmp_path, capsys):
    (tmp_path / "grows.sh").write_text("A=xxxxxxxxxx\n" + 'A="$A$A"\n' * 60 + "msrun --a $A")
    (tmp_path / "many.yaml").write_text(
        "a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
        + "".join(f"a{n + 1}: &a{n + 1} [{','.join([f'*a{n}'] * 9)}]\n" for n in range(20))
    )
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "there.zip").write_text("mine")
    for words, message in (
        (["-d", "nope.sh"], "nope.sh: cannot be read"),
        (["-d", str(tmp_path / "notes.txt")], "is neither a shell script"),
        (["-d", str(tmp_path / "grows.sh")], "exceed the maximum length"),
        (["-d", str(tmp_path / "many.yaml")], "more than 100000 settings"),
        (["-d", "-o", "x.tar"], "must end in .zip"),
        (["-d", "-o", str(tmp_path / "there.zip")], "already exists"),
        (["-d", "-dm", "x.yaml"], "--data-mapping applies only to two checkpoints"),
        (["-c", "a.zip", "b"], "a pack"),
    ):
        if "-o" not in words:
            words = [*words, "-o", str(tmp_path / "new.zip")]
        assert main(["config_check", *words]) == 2, words
        captured = capsys.readouterr()
        assert message in captured.err
        assert len(captured.err.splitlines()) == 1
    assert not (tmp_path / "new.zip").exists()
    assert (tmp_path / "there.zip").read_text() == "mine"
