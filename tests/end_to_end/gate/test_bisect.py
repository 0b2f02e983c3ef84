"""`msprobe bisect` in a repository with real commits and a real training."""

import json
import subprocess
import sys

import pytest
from preloaded import python

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.turns("gate", 5)]

NET = """import torch
from torch import nn

def net():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8, eps={eps}), nn.Linear(8, 1))
"""
TRAIN = """import torch
from net import net
from msprobe.pytorch import PrecisionDebugger

model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
numbers, debugger = torch.Generator().manual_seed(2), PrecisionDebugger(dump_path="./not_used")
for _ in range(3):
    debugger.start(model=model)
    model(torch.randn(4, 8, generator=numbers)).square().mean().backward()
    debugger.stop()
    optimizer.step()
    optimizer.zero_grad()
    debugger.step()
"""


@pytest.fixture
def repository(tmp_path):
    """A repository; its method `commit` writes files and returns the hash."""
    folder = tmp_path / "repository"
    folder.mkdir()

    def git(*words):
        names = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
        done = subprocess.run(["git", *names, *words], cwd=folder, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def commit(subject, **files):
        for name, text in files.items():
            (folder / f"{name}.py").write_text(text)
        git("add", "-A")
        git("commit", "-q", "-m", subject)
        return git("rev-parse", "HEAD")

    git("init", "-q")
    commit.folder, commit.git = folder, git
    return commit


def bisect(repository, *words):
    command = [sys.executable, "-m", "msprobe", "bisect", *words, "--json", "--", str(python("torch")), "train.py"]
    done = subprocess.run(command, cwd=repository.folder, capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout), done.stderr


def test_it_ends_with_commit_file_call_and_finding(repository):
    good = repository("first", net=NET.format(eps="1e-5"), train=TRAIN)
    repository("a comment", net=NET.format(eps="1e-5") + "# a comment\n")
    broken = repository("broken", train=TRAIN + "raise RuntimeError\n")
    repository("repaired", train=TRAIN)
    wrong = repository("net: larger eps", net=NET.format(eps="1e-2"))
    repository("another comment", train=TRAIN + "# a comment\n")
    head = repository.git("status", "--porcelain", "-b")
    code, found, error = bisect(repository, "--good", good, "--bad", "HEAD")
    assert code == 0, error
    commit = found["details"]["commit"]
    assert (commit["revision"], commit["subject"], commit["file"]) == (wrong, "net: larger eps", "net.py")
    assert found["findings"][0]["place"]["name"] == "Functional.layer_norm.0.forward"
    outcomes = {each["revision"]: each["outcome"] for each in found["details"]["trials"]}
    assert outcomes[wrong] == "bad"
    assert outcomes.get(broken, "skip") == "skip"
    assert repository.git("status", "--porcelain", "-b") == head
    assert repository.git("worktree", "list").count("\n") == 0
    assert not repository.git("for-each-ref", "refs/bisect")


def test_only_skipped_commits_are_left(repository):
    good = repository("first", net=NET.format(eps="1e-5"), train=TRAIN)
    skipped = repository("broken", train="raise RuntimeError\n")
    bad = repository("larger eps", net=NET.format(eps="1e-2"), train=TRAIN)
    code, found, error = bisect(repository, "--good", good, "--bad", bad)
    assert code == 1, error
    assert set(found["details"]["candidates"]) == {skipped, bad}


def test_a_build_is_run_in_each_revision_and_a_bad_revision_must_differ(repository):
    good = repository("first", net=NET.format(eps="1e-5"), train=TRAIN)
    repository("second", net=NET.format(eps="1e-5") + "# a comment\n")
    code, found, _ = bisect(repository, "--good", good, "--bad", "HEAD", "--build", "test -f net.py")
    assert (code, found["state"]) == (2, "failed")
    assert "does not differ" in found["answer"]
    code, found, _ = bisect(repository, "--good", good, "--bad", "HEAD", "--build", "false")
    assert "--build fails" in found["answer"]
    code, found, _ = bisect(repository, "--good", "HEAD", "--bad", good)
    assert "not an ancestor" in found["answer"]
