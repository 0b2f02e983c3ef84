"""`store/run_folder.py`: what one run wrote is never replaced by another, and the processes of a run stay together."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from msprobe.compare.jobs.run import run_request
from msprobe.compare.request import Request
from msprobe.store import layout
from msprobe.store import run_folder as module
from msprobe.store.detect import kind_of
from msprobe.store.run_folder import holds_dumps, leave, run_folder
from msprobe.store.writer import Writer

pytestmark = [pytest.mark.slow, pytest.mark.part(2)]

PROCESS = """
import os, sys
from pathlib import Path
from msprobe.store.run_folder import run_folder

for line in sys.stdin:  # a rank, `-` for none, and a place
    rank, _, place = line.strip().partition(" ")
    try:
        home = run_folder(Path("dump"), None if rank == "-" else int(rank), place, strict=True)
        if not sys.argv[1:]:  # else it dies before it writes
            folder = home.folder / place / "step0" / f"rank{rank.strip('-')}"
            folder.mkdir(parents=True, exist_ok=True)
        print(home.folder.relative_to(Path.cwd()), home.run, flush=True)
    except Exception as cause:
        print(type(cause).__name__, str(cause), flush=True)
"""
QUIET = {"MSPROBE_LOG_LEVEL": "2"}


class Process:
    """A process that asks for its folder as often as it is told to."""

    def __init__(self, folder, *arguments, **environment):
        self.child = subprocess.Popen(
            [sys.executable, "-c", PROCESS, *arguments],
            cwd=folder,
            env={**os.environ, **QUIET, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ask(self, rank="-", place=""):
        self.child.stdin.write(f"{rank} {place}\n")
        self.child.stdin.flush()
        return self.child.stdout.readline().split(" ", 1)

    def end(self):
        """What it said on standard error."""
        output = self.child.communicate()[1]
        assert self.child.returncode == 0, output
        return output


@pytest.fixture
def process(tmp_path):
    """Starts processes in one working directory; all are ended with the test."""
    made = []

    def start(*arguments, **environment):
        made.append(Process(tmp_path, *arguments, **environment))
        return made[-1]

    yield start
    for each in made:
        if each.child.poll() is None:
            each.end()


def test_a_second_run_goes_elsewhere_and_says_both_folders(process, tmp_path):
    first, second = process(), process()
    folder, run = first.ask()
    assert folder == "dump"
    assert first.ask() == ["dump", run], "asked again it is the same"
    assert first.end() == ""
    assert second.ask()[0] == "dump/run2"
    message = second.end()
    assert f"{tmp_path}/dump contains files of another run (process {first.child.pid} on " in message
    assert f"this run is written to {tmp_path}/dump/run2" in message
    assert len(message.splitlines()) == 1
    third = process()
    other, run3 = third.ask()
    assert other == "dump/run3"
    assert run3 != run
    third.end()


def test_two_at_once_are_parted_too(process):
    one, other = process(), process()
    folders = {one.ask()[0], other.ask()[0]}
    assert folders == {"dump", "dump/run2"}


TORCHRUN = {"MASTER_PORT": "29500", "WORLD_SIZE": "4", "TORCHELASTIC_RUN_ID": "none"}
MSRUN = {"MS_SCHED_PORT": "8118", "MS_WORKER_NUM": "4"}


@pytest.mark.parametrize("launch", [TORCHRUN, MSRUN, {}], ids=["torchrun", "msrun", "by hand"])
def test_ranks_of_one_launch_share_the_folder_and_the_next_launch_has_one_of_its_own(process, launch):
    ranks = [process(**launch) for _ in range(4)]
    time.sleep(0.05)
    found = {tuple(each.ask(rank)) for rank, each in enumerate(ranks)}
    assert {folder for folder, _ in found} == {"dump"}
    assert len({run for _, run in found}) == 1
    for each in ranks:
        each.end()
    again = [process(**launch) for _ in range(4)]
    time.sleep(0.05)
    assert {again[rank].ask(rank)[0] for rank in (2, 0, 3, 1)} == {"dump/run2"}


def test_a_launch_of_other_ranks_is_another_run(process):
    first = process(**TORCHRUN)
    first.ask(0)
    first.end()
    later = process(**TORCHRUN)
    assert later.ask(1)[0] == "dump/run2", "of the first launch only rank 0 was collected"


def test_two_launches_at_once_do_not_mix(process):
    one = [process(**TORCHRUN) for _ in range(2)]
    other = [process(**{**TORCHRUN, "MASTER_PORT": "29501"}) for _ in range(2)]
    time.sleep(0.05)
    assert [one[0].ask(0)[0], other[1].ask(1)[0], one[1].ask(1)[0], other[0].ask(0)[0]] == [
        *("dump", "dump/run2"),
        *("dump", "dump/run2"),
    ]


def test_ranks_that_do_not_know_their_number_yet_are_refused(process):
    one, other = process(**TORCHRUN), process(**TORCHRUN)
    time.sleep(0.05)
    assert one.ask()[0] == "dump"
    kind, reply = other.ask()
    assert kind == "UsageError"
    assert "after communication is initialized" in reply


def test_stages_in_processes_of_their_own_share_a_root(process):
    driver, actor, critic = process(), process(), process()
    time.sleep(0.05)
    assert {driver.ask("-", "data")[0], actor.ask(0, "actor")[0], critic.ask(0, "critic")[0]} == {"dump"}


@pytest.mark.parametrize("shared", [{"MSPROBE_RUN": "mine"}, {"RAY_JOB_ID": "01000000"}])
def test_processes_that_begin_later_belong_together_where_that_is_said(process, shared):
    first = process(**shared)
    first.ask(0)
    later = process(**shared)
    assert later.ask(1)[0] == "dump"
    assert process(**shared).ask(1)[0] == "dump/run2", "the same rank never writes twice"
    assert process(MSPROBE_RUN="other").ask(2)[0] == "dump/run3"


def test_a_child_of_a_process_that_collects_is_of_its_run(tmp_path):
    script = (
        "import os; from pathlib import Path; from msprobe.store.run_folder import run_folder\n"
        "run_folder(Path('dump'), None, 'data')\n"
        "if (child := os.fork()) == 0:\n"
        "    print(run_folder(Path('dump'), 1).folder.name, flush=True); os._exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "dump\n"


def test_a_forked_child_of_the_same_rank_writes_elsewhere(tmp_path):
    script = (
        "import os; from pathlib import Path; from msprobe.store.run_folder import run_folder\n"
        "def name(): return run_folder(Path('dump'), 0).folder.name\n"
        "before = name()\n"
        "if (child := os.fork()) == 0:\n"
        "    print(name(), flush=True); os._exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "print(before, name())\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "run2\ndump dump\n"


def test_a_folder_is_free_again_when_its_user_removed_what_was_in_it(process, tmp_path):
    for _ in range(3):
        one = process()
        assert one.ask()[0] == "dump"
        assert process().ask()[0] == "dump/run2", "it is not dead yet"
        shutil.rmtree(tmp_path / "dump" / "run2")
        shutil.rmtree(tmp_path / "dump" / "step0")
        assert process().ask()[0] == "dump/run2", "it is not dead yet, and may write again"
        shutil.rmtree(tmp_path / "dump" / "run2")
        assert one.end() == ""
    assert len((tmp_path / "dump" / "run.jsonl").read_text().splitlines()) == 1
    (tmp_path / "dump" / "configurations.json").write_text("{}")
    assert process().ask()[0] == "dump/run2", "configurations are of the run too"


def test_a_run_that_wrote_nothing_does_not_keep_its_folder(process):
    for rank in (0, 1):
        dead = process("dies", **TORCHRUN)
        dead.ask(rank)
        dead.end()
    ranks = [process(**TORCHRUN) for _ in range(2)]
    time.sleep(0.05)
    assert {ranks[rank].ask(rank)[0] for rank in (1, 0)} == {"dump"}


def test_deeper_stages_keep_a_folder(process, tmp_path):
    process().ask(0, "step_3/actor")
    (made_with,) = Path(tmp_path / "dump/run.jsonl").read_text().splitlines()
    assert json.loads(made_with)["place"] == "step_3/actor"
    assert process().ask(0, "step_3/actor")[0] == "dump/run2"


@pytest.mark.parametrize("key", ["machine", "ticks"])
def test_of_another_machine_nobody_can_tell_who_is_dead(process, tmp_path, key):
    process("dies").ask()
    line = json.loads((tmp_path / "dump" / "run.jsonl").read_text())
    line["pid"], line[key] = 1 << 22, {"machine": "another", "ticks": 0}[key]
    (tmp_path / "dump" / "run.jsonl").write_text(json.dumps(line))
    assert process().ask()[0] == "dump/run2"


def test_a_process_whose_folder_is_removed_enters_it_again(process, tmp_path):
    one = process()
    _, run = one.ask()
    shutil.rmtree(tmp_path / "dump")
    assert one.ask() == ["dump", run], "nobody else is there"
    assert json.loads((tmp_path / "dump" / "run.jsonl").read_text())["run"] == run.strip()
    (tmp_path / "dump" / "run.jsonl").unlink()
    assert one.ask() == ["dump", run], "what is left there is its own"
    assert process().ask()[0] == "dump/run2"
    shutil.rmtree(tmp_path / "dump")
    other = process()
    assert other.ask()[0] == "dump"
    assert one.ask() == ["dump/run2", run], "another run has it now; the two do not mix"


def test_a_process_of_run2_starts_at_the_front_where_all_was_removed(process, tmp_path):
    process().ask()
    one = process()
    assert one.ask()[0] == "dump/run2"
    shutil.rmtree(tmp_path / "dump")
    assert one.ask()[0] == "dump"


def test_what_is_called_like_a_run_and_is_none_is_passed_over(process, tmp_path):
    process().ask()
    (tmp_path / "dump" / "run2").write_text("mine")
    assert process().ask()[0] == "dump/run3"
    assert (tmp_path / "dump" / "run2").read_text() == "mine"


ODD_LINES = ('{"run":"x","place":"","rank":null,"host":"h","pid":1,"ticks":1,"time":%s}', "[]", "1", "null", '"text"')


@pytest.mark.parametrize("line", [*(ODD_LINES[0] % time for time in ('"now"', "1e300", "NaN", "null")), *ODD_LINES[1:]])
def test_lines_of_nobody_do_no_harm(tmp_path, line):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "run.jsonl").write_text(f"{line}\n")
    assert run_folder(tmp_path / "d", None).folder == tmp_path / "d"


def test_a_line_of_a_later_version_counts(tmp_path):
    (tmp_path / "d").mkdir()
    line = {"run": "x", "place": "", "rank": None, "host": "h", "pid": 1, "ticks": 1, "time": 1.0, "more": 1}
    (tmp_path / "d" / "run.jsonl").write_text(f"{json.dumps(line)}\n")
    assert run_folder(tmp_path / "d", None).folder == tmp_path / "d" / "run2"


def test_dumps_of_before_there_was_such_a_file_are_left_alone(process, tmp_path):
    old = tmp_path / "dump" / "step3" / "rank0"
    old.mkdir(parents=True)
    (old / "dump.json").write_text("old")
    assert process().ask()[0] == "dump/run2"
    assert (old / "dump.json").read_text() == "old"
    assert not (tmp_path / "dump" / "run.jsonl").exists()


@pytest.mark.parametrize(
    ("path", "holds"),
    [
        ("step0/rank", True),
        ("actor/step0/rank0", True),
        ("data/loss/step0/rank0", True),
        ("run2/step0/rank0", False),
        ("checkpoints/step100", False),
        ("step0/weights", False),
    ],
)
def test_what_counts_as_dumps(path, holds, tmp_path):
    for root in (tmp_path / "dump", tmp_path / "run2"):
        (root / path).mkdir(parents=True)
        assert holds_dumps(root) is holds


def test_who_numbers_anew_begins_another_run(tmp_path):
    first = run_folder(tmp_path / "d", None)
    leave(tmp_path / "d", tmp_path / "d")
    second = run_folder(tmp_path / "d", None)
    assert (first.folder, second.folder) == (tmp_path / "d", tmp_path / "d" / "run2")
    assert first.run != second.run


def test_a_broken_or_foreign_file_in_its_place_destroys_nothing(tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "run.jsonl").write_text("no json\n{}\n")
    assert run_folder(tmp_path / "d", None).folder == tmp_path / "d"
    assert (tmp_path / "d" / "run.jsonl").read_text().startswith("no json\n{}\n")
    (tmp_path / "e").mkdir()
    (tmp_path / "e" / "run.jsonl").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic links"):
        run_folder(tmp_path / "e", None)


def dump(folder, run, step):
    writer = Writer(layout.rank_folder(folder, step, None), {"task": "statistics", "level": "L1", "run": {"id": run}})
    writer.call(
        "Tensor.add.0.forward",
        None,
        None,
        '{"input_args":[],"input_kwargs":{},"output":[{"type":"torch.Tensor","dtype":"torch.float32","shape":[1],'
        '"Max":1.0,"Min":1.0,"Mean":1.0,"Norm":1.0}]}',
    )
    writer.close()


def test_a_comparison_says_what_runs_it_meets(tmp_path, capsys):
    for step in range(3):
        dump(tmp_path / "golden", "a", step)
        dump(tmp_path / "mixed", "b" if step < 2 else "c", step)
    assert run_request(Request(tmp_path / "golden", tmp_path / "golden", tmp_path / "out"))
    assert "runs lie in one folder" not in capsys.readouterr().err
    run_request(Request(tmp_path / "mixed", tmp_path / "golden", tmp_path / "out"))
    logged = capsys.readouterr().err
    assert "target: dumps of 2 runs lie in one folder (of one, step 0, 1; of one, step 2)" in logged


def ran(folder, at, *steps):
    for step in steps:
        dump(folder, "d", step)
    line = {"run": "d", "place": "", "rank": None, "host": "h", "pid": 1, "ticks": 1, "time": at}
    (folder / "run.jsonl").write_text(f"{json.dumps(line)}\n")


@pytest.mark.parametrize("path", ["", "step0", "step0/rank", "step0/rank/dump.json"])
def test_who_compares_an_earlier_run_is_told_of_the_last(tmp_path, capsys, path):
    root = tmp_path / path.replace("/", "-") / "dump"
    ran(root, 1.0, 0)
    assert kind_of(root / path).path == root / path
    assert capsys.readouterr().err == ""
    for number in (2, 10):
        ran(root / f"run{number}", float(number), 0)
    kind_of(root / path)
    logged = capsys.readouterr().err
    assert "from an earlier run; later runs are in run2, run10 in" in logged
    assert f"give {root / 'run10' / path} for the last run" in logged
    kind_of(root / "run2" / path)
    assert capsys.readouterr().err == "", "it was asked for by its number"


def test_the_last_run_is_told_by_its_time(tmp_path, capsys):
    ran(tmp_path / "a", 1.0, 0)
    ran(tmp_path / "a" / "run2", 3.0, 0, 1)  # in place of one that was removed
    ran(tmp_path / "a" / "run3", 2.0, 1)
    kind_of(tmp_path / "a" / "step0")
    assert f"give {tmp_path}/a/run2/step0 for the last run" in capsys.readouterr().err
    ran(tmp_path / "b", 4.0, 0)
    ran(tmp_path / "b" / "run2", 2.0, 0)
    kind_of(tmp_path / "b")
    assert capsys.readouterr().err == "", "the folder itself was taken last"
    ran(tmp_path / "c", 1.0, 0)
    ran(tmp_path / "c" / "run2", 2.0, 1)
    kind_of(tmp_path / "c" / "step0")
    assert f"the last run, {tmp_path}/c/run2, does not contain this name" in capsys.readouterr().err


SAVERS = """
import sys
import numpy as np
from msprobe.core import SingleSave
from msprobe.rl.key_data import KeyData
from msprobe.graph_save.tree import tree
from pathlib import Path
value = np.full(2, float(sys.argv[1]), np.float32)
SingleSave("single")
SingleSave.save({"a": value})
SingleSave.save_config({"lr": sys.argv[1]})
tree.save("saves", "a", value, "Float32", 0, 0)
tree.step()
data = KeyData(Path("flow"))
data.save("a", value)
data.save_each({"b": value})
data.step()
"""


def test_what_is_saved_by_name_follows_the_same_rule(tmp_path):
    for value in "12":
        subprocess.run([sys.executable, "-c", SAVERS, value], cwd=tmp_path, env={**os.environ, **QUIET}, check=True)
    for place in ("single/{}data/a/step0/rank0/micro_step0", "saves/{}step0/rank0", "flow/{}data/a/step0/rank0"):
        for run, value in (("", 1), ("run2/", 2)):
            (file,) = (tmp_path / place.format(run)).glob("*.npy")
            assert np.load(file).tolist() == [value, value]
    for run, value in (("", "1"), ("run2", "2")):
        assert json.loads((tmp_path / "single" / run / "configurations.json").read_text()) == {"lr": value}


def test_a_rank_that_comes_while_another_makes_the_folder_is_of_its_run(tmp_path, process, monkeypatch):
    """Between two looks of this process at the folder the other one writes its line and begins its step."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MSPROBE_RUN", "one")
    other, seen, requested = process(MSPROBE_RUN="one"), [], []

    def look(folder):
        if not seen:
            seen.append(other.ask(rank=0))
        return holds_dumps(folder)

    exists = Path.exists

    def is_there(path):
        found = exists(path)
        if path.name == layout.RUN:
            requested.append(path)
            if len(requested) == 2:  # the first look is at where to begin
                look(path.parent)
        return found

    monkeypatch.setattr(module, "holds_dumps", look)
    monkeypatch.setattr(Path, "exists", is_there)
    assert run_folder(Path("dump"), 1).folder == tmp_path / "dump"
    assert seen[0][0] == "dump"
