"""A checkpoint that is given to `compare` leads to the command that reads it, in one line."""

import subprocess
import sys

import pytest


@pytest.fixture
def files(tmp_path):
    """Files and folders of parameters, and one that is none; what is in them is not looked at."""
    for name in (
        *("a.ckpt", "b.safetensors", "c.pt", "d.pth", "e.bin", "f.txt"),
        *("my shards/model-00001-of-00002.safetensors", "my shards/model.safetensors.index.json"),
        *("ranks/rank_0/net.ckpt", "megatron/iter_0000010/mp_rank_00/model_optim_rng.pt"),
        *("tensors/Functional.relu.0.forward.output.0.pt", "index/model.safetensors.index.json"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"\x00")
    return tmp_path


def refused(folder, *words):
    done = subprocess.run(
        [sys.executable, "-m", "msprobe", "compare", *words, "-o", "out"],
        capture_output=True,
        text=True,
        cwd=folder,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert not (folder / "out").exists()
    return line


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "sides",
    [
        *(("a.ckpt", "c.pt"), ("b.safetensors", "b.safetensors"), ("d.pth", "e.bin"), ("my shards", "megatron")),
        *(("ranks", "a.ckpt"), ("index", "index/model.safetensors.index.json")),
    ],
)
def test_the_command_to_run_is_named(files, sides):
    command = "config-check --compare " + " ".join(f"'{side}'" if " " in side else side for side in sides)
    assert refused(files, "-tp", sides[0], "-gp", sides[1]).endswith(
        f": is a checkpoint, not a dump; compare two checkpoints with: msprobe {command}"
    )


def test_one_checkpoint_beside_something_else_is_named(files):
    line = refused(files, "a.ckpt", "my shards/model-00001-of-00002.safetensors")
    assert "config-check --compare a.ckpt 'my shards/model-00001-of-00002.safetensors'" in line
    assert "a.ckpt: is a checkpoint" in refused(files, "a.ckpt", "f.txt")


@pytest.mark.parametrize("side", ["f.txt", "tensors"])
def test_what_is_no_checkpoint_is_not_taken_for_one(files, side):
    assert "config-check" not in refused(files, side, side)
