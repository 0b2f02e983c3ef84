"""`store/detect.py`: what a path holds is told by the names in it, quickly, and in words that help."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from msprobe.base import log
from msprobe.base.errors import DumpError
from msprobe.store.detect import kind_of

SAMPLES = Path(__file__).parents[1] / "samples"
KERNEL = "MatMul.Default_MatMul-op0.0.0.17.output.0.DefaultFormat.Float32.npy"


def touch(root, *names):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return root


@pytest.fixture(autouse=True)
def nothing_was_said(monkeypatch):
    monkeypatch.setattr(log, "_logged", set())


@pytest.mark.parametrize(
    ("files", "path", "word", "description"),
    [
        (["dump.json"], "", "dump", "a dump of one step and rank"),
        (["dump.json"], "dump.json", "dump", "a dump of one step and rank"),
        (["debug.json"], "", "dump", "a dump of one step and rank"),
        (["dump.journal"], "", "dump", "a dump of one step and rank"),
        (["dump.json", "dump_tensor_data/x_float32_0.npy"], "", "dump", "a dump of one step and rank"),
        (["rank/dump.json"], "", "step", "a step with 1 rank"),
        (["rank0/dump.json", "rank1/dump.json"], "", "step", "a step with 2 ranks"),
        (["proc123/debug.json"], "", "step", "a step with 1 rank"),
        (["step0/rank0/dump.json", "step3/rank1/dump.json"], "", "run", "a run with 2 steps, 2 ranks"),
        (["step0/rank0/x.log", "step3/rank1/dump.json"], "", "run", "a run with 2 steps, 2 ranks"),
        (
            ["graph/step0/rank0/dump.json", "pynative/step0/rank0/dump.json", "pynative/step1/rank0/dump.json"],
            "",
            "trees",
            "the runs graph (1 step, 1 rank) and pynative (2 steps, 1 rank)",
        ),
        (["pynative/step0/rank0/dump.json"], "", "trees", "the run pynative (1 step, 1 rank)"),
        (
            [f"rank_0/Net/0/0/{KERNEL}", f"rank_0/Net/1/0/{KERNEL}", f"rank_1/Net/0/2/{KERNEL}"],
            "",
            "kernels",
            "a kernel dump of the framework, of 2 ranks, 2 iterations",
        ),
        (
            ["rank_0/execution_order/a.csv", "rank_0/Net/0/0/statistic.csv"],
            "",
            "kernels",
            "a kernel dump of the framework, of 1 rank, 1 iteration",
        ),
        (
            [f"rank_0/Net/0/0/{KERNEL}"],
            "rank_0/Net/0/0",
            "kernels",
            "a kernel dump of the framework, of 1 rank, 1 iteration",
        ),
        (
            [f"3/Net/0/5/{KERNEL}"],
            "",
            "kernels",
            "a kernel dump of the framework, of 1 rank, 1 iteration",
        ),
        (
            ["rank_0/20250101000000/step_2/mapping.csv"],
            "",
            "kernels",
            "a kernel dump of the framework, of 1 rank, 1 iteration",
        ),
        (["step0/rank0/x_float32_0.npy", "step1/rank0/x_float32_1.npy"], "", "saves", "graph saves of 2 steps, 1 rank"),
        (["step0/rank0/x_float32_0.npy"], "step0", "saves", "graph saves of 1 step, 1 rank"),
        (["step0/rank0/x_float32_0.npy"], "step0/rank0", "saves", "graph saves of 1 step, 1 rank"),
        (["step0/rank0/saves.jsonl"], "", "saves", "graph saves of 1 step, 1 rank"),
        (
            ["data/loss/step0/rank0/micro_step0/loss.npy", "data/x/step0/rank1/x_float32_0.npy"],
            "",
            "single saves",
            "single saves of 2 keys, 1 step, 2 ranks",
        ),
        (["data/loss/step0/rank0/loss.npy"], "data", "single saves", "single saves of 1 key, 1 step, 1 rank"),
        (
            ["data/loss/step0/rank0/loss.npy", "actor_update/step0/rank0/dump.json"],
            "",
            "flow",
            "an RL flow with key data and dumps of actor_update",
        ),
        (
            ["data/loss/step0/rank0/loss.npy", "configurations.json"],
            "",
            "flow",
            "an RL flow with configurations and key data",
        ),
        (
            ["data/loss/step0/rank0/loss.npy", "configurations.json", "critic_update/step2/rank0/dump.json"],
            "data",
            "single saves",
            "single saves of 1 key, 1 step, 1 rank",
        ),
        (
            ["configurations.json", "log_prob/step0/rank0/dump.json", "actor_update/step0/rank0/x.log"],
            "",
            "flow",
            "an RL flow with configurations and dumps of log_prob",
        ),
        (
            ["critic_update/graph/step2/rank0/dump.json", "actor_update/step0/rank0/debug.json", "old/notes.txt"],
            "",
            "flow",
            "an RL flow with dumps of actor_update, critic_update",
        ),
        (["configurations.json", "data/notes.txt"], "", "flow", "an RL flow with configurations"),
        (["configurations.json", "deep/er/b.npy"], "", "npy", "a tree of npy files, the first in deep/er"),
        (["a.npy"], "", "npy", "a tree of npy files"),
        (["deep/er/b.npy"], "", "npy", "a tree of npy files, the first in deep/er"),
        (["rank0/a.npy"], "rank0", "npy", "a tree of npy files"),
        (["1/x/2/y/a_float32_0.npy"], "", "npy", "a tree of npy files, the first in 1/x/2/y"),
    ],
)
def test_the_kind_is_told_and_said(files, path, word, description, tmp_path):
    kind = kind_of(touch(tmp_path, *files) / path)
    assert (kind.word, kind.text) == (word, description)


@pytest.mark.parametrize(
    ("sample", "word"),
    [
        ("8.1.1/dumps/ms_mix_stat", "run"),
        ("26.2.0/dumps/ms_mix_stat/step0", "step"),
        ("26.2.0/dumps/pt_mix_stat/step0/proc12527", "dump"),
        ("kernel_dump/cpu", "kernels"),
        ("graph_save/8.1.1", "saves"),
        ("single_save", "flow"),
    ],
)
def test_what_tools_left_behind_is_known(sample, word):
    assert kind_of(SAMPLES / sample).word == word


def test_the_folder_above_data_is_what_the_reader_is_given(tmp_path):
    touch(tmp_path, "data/loss/step0/rank0/loss.npy")
    assert kind_of(tmp_path / "data").path == tmp_path


@pytest.mark.parametrize(
    ("files", "path", "description"),
    [
        ([], "nowhere", r"nowhere: no such file or folder; give a dump.json"),
        ([], "\0", r"cannot be opened|no such"),
        ([], "", r"contains nothing that can be compared; it is empty; give"),
        (["a.txt", "b/c.txt"], "", r"contains nothing that can be compared; it contains b/, a\.txt; give"),
        (["result.xlsx"], "result.xlsx", r"is not a dump.json; give a dump.json"),
        (["x.npy"], "x.npy", r"is one of several files; give the folder that contains them"),
        (
            [f"flat/{KERNEL}"],
            "",
            r"flat: contains files of a kernel dump, but its path does not contain .*rename it to rank_0/Net",
        ),
        (["run1/step0/rank0/dump.json"], "", r"its dumps are deeper than .* the first in .*run1/step0/rank0; give"),
    ],
)
def test_anything_else_is_refused_with_what_is_there_and_what_to_give(files, path, description, tmp_path):
    with pytest.raises(DumpError, match=description):
        kind_of(touch(tmp_path, *files) / path)


def test_links_to_folders_are_not_followed_and_said_once(tmp_path, capsys):
    outside = touch(tmp_path / "outside", "x_float32_0.npy")
    here = touch(tmp_path / "here", "notes.txt")
    (here / "rank0").symlink_to(outside)
    (here / "loop").symlink_to(here)
    for _ in range(2):
        with pytest.raises(DumpError, match="contains nothing that can be compared"):
            kind_of(here)
    logged = capsys.readouterr().err
    assert logged.count("is a symbolic link to a folder and is not followed, and so are 1 more in the same folder") == 1


def test_a_folder_deeper_than_ten_is_not_looked_for(tmp_path):
    deep = "/".join("abcdefghij")
    assert kind_of(touch(tmp_path / "ten", f"{deep}/x.npy")).word == "npy"
    with pytest.raises(DumpError, match="nothing that can be compared"):
        kind_of(touch(tmp_path / "eleven", f"{deep}/k/x.npy"))


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unreadable to root")
def test_a_folder_that_cannot_be_read_is_an_error(tmp_path):
    tmp_path.chmod(0)
    with pytest.raises(DumpError, match="cannot be read"):
        kind_of(tmp_path)
    tmp_path.chmod(0o700)


@pytest.mark.slow
def test_very_many_files_are_told_at_once(tmp_path):
    many = tmp_path / "many"
    many.mkdir()
    for n in range(20_000):
        os.mknod(many / f"Add.Default_Add-op{n}.0.0.17.output.0.DefaultFormat.npy")
    for inside, word in (("a/rank_0/Net/0/0", "kernels"), ("b/step0/rank0", "saves")):
        folder = tmp_path / inside
        folder.parent.mkdir(parents=True)
        many = many.rename(folder)
        begun = time.process_time()
        assert kind_of(tmp_path / inside[0]).word == word
        assert time.process_time() - begun < 0.4, "10^5 files are to take less than 2 s"
    shutil.rmtree(many)


def test_numpy_is_not_imported():
    code = "import sys, msprobe.store.detect; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
