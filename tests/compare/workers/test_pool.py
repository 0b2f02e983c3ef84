"""Tasks on worker processes: everything arrives once, whatever dies, and nothing hangs or stays behind."""

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from msprobe.base import log
from msprobe.base.errors import DumpError, UsageError
from msprobe.cli import main
from msprobe.compare.workers import progress as progress_module
from msprobe.compare.workers.progress import progress
from msprobe.compare.workers.run import Lost, cores, run

pytestmark = pytest.mark.timeout(60)

TASKS = '''
"""What the workers of these tests do. A task is a number, or a number with a folder for marks."""
import os, signal, sys, time
from pathlib import Path
from msprobe.base.errors import DumpError


def square(n):
    return n * n


def where(n):
    return os.getpid()


def large(n):
    return bytes(n)


def mark(task):
    """Leave a file for each attempt; gives the attempts so far."""
    n, folder = task
    for attempt in range(100):
        try:
            os.close(os.open(Path(folder, f"{n}.{attempt}"), os.O_CREAT | os.O_EXCL))
            return attempt + 1
        except FileExistsError:
            pass


def killed_at_first(task):
    if mark(task) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return task[0]


def three_kills_itself(task):
    mark(task)
    if task[0] == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return task[0]


def three_exits(task):
    if task[0] == 3:
        os._exit(7)
    return task[0]


def three_leaves_a_child_behind(task):
    """The child keeps the worker's pipe open, so the pipe does not tell of the death."""
    if mark(task) == 1 and task[0] == 3:
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)
    return task[0]


def raise_dump_error(n):
    if n == 3:
        raise DumpError("rank3: no dump.json")
    return n


class Awkward(Exception):
    def __init__(self, one, two):
        super().__init__(one)


def raise_awkward(n):
    raise Awkward("said", 2)


def size(task):
    return len(task)


class Refused:
    """Nobody can read it from a task."""

    def __reduce__(self):
        return refuse, ()


def refuse():
    raise DumpError("refused")


def lock(n):
    import threading
    return threading.Lock()


def talk(n):
    print("talk", n)
    return sys.stdin.read()


def beside_another(task):
    """Wait until a second one has begun; gives all that have."""
    n, folder = task
    mark(task)
    while len(begun := sorted(int(file.stem) for file in Path(folder).iterdir())) < 2:
        time.sleep(0.01)
    return begun


def wait_for_ever(task):
    mark(task)
    time.sleep(600)


def only_0_ends(task):
    """0 ends when 1 has begun."""
    n, folder = task
    while n == 0 and not Path(folder, "1.0").exists():
        time.sleep(0.01)
    return n and wait_for_ever(task)


def threads(n):
    return {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
'''


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A module of functions that workers can import."""
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "work_of_workers.py").write_text(TASKS)
    monkeypatch.syspath_prepend(str(folder))
    import work_of_workers

    yield work_of_workers
    del sys.modules["work_of_workers"]


@pytest.fixture
def marks(tmp_path):
    folder = tmp_path / "marks"
    folder.mkdir()
    return folder


def attempts(marks):
    return sorted(file.name for file in marks.iterdir())


def alive(pid):
    """Whether a process runs; one that nobody has waited for yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_every_task_gives_its_result_once(work, workers):
    assert sorted(run(work.square, range(25), workers=workers)) == [(n, n * n) for n in range(25)]


def test_nothing_to_do_is_done_at_once(work):
    assert list(run(work.square, [], workers=2)) == []


def test_one_worker_or_one_task_needs_no_other_process(work):
    assert list(run(work.where, [0, 1], workers=1)) == [(0, os.getpid()), (1, os.getpid())]
    assert list(run(work.where, [0], workers=2)) == [(0, os.getpid())]


def test_workers_are_other_processes_no_more_than_asked_and_gone_afterwards(work):
    pids = {pid for _, pid in run(work.where, range(20), workers=2)}
    assert os.getpid() not in pids
    assert len(pids) <= 2
    assert not any(map(alive, pids))


def test_the_largest_tasks_are_taken_first(work, marks):
    tasks = [(n, str(marks)) for n in range(4)]
    begun = [found for _, found in run(work.beside_another, tasks, workers=2, sizes=[1, 5, 3, 9])]
    # Neither of the first two can end before the other has begun, so one of them sees no third.
    assert min(begun, key=len) == [1, 3]


def test_a_result_larger_than_any_buffer_arrives(work):
    assert sorted((at, len(value)) for at, value in run(work.large, [1 << 22, 1 << 23, 0], workers=2)) == [
        (0, 1 << 22),
        (1, 1 << 23),
        (2, 0),
    ]


def test_a_task_larger_than_any_buffer_arrives(work):
    sizes = [0, 1 << 22, 5 << 20]
    assert sorted(run(work.size, list(map(bytes, sizes)), workers=2)) == list(enumerate(sizes))


def test_an_error_while_a_large_task_is_read_is_raised_here(work):
    with pytest.raises(DumpError, match="refused"):
        list(run(work.size, [(work.Refused(), bytes(20 << 20))] * 2, workers=2))


def test_what_the_function_raises_is_raised_here_with_the_place_it_came_from(work):
    with pytest.raises(DumpError, match=r"rank3: no dump\.json") as caught:
        list(run(work.raise_dump_error, range(6), workers=2))
    assert "in raise_dump_error" in str(caught.value.__cause__)


def test_an_error_that_cannot_be_pickled_still_tells(work):
    with pytest.raises(RuntimeError, match="Awkward: said"):
        list(run(work.raise_awkward, range(3), workers=2))


def test_a_result_that_cannot_be_pickled_is_an_error_and_no_hang(work):
    with pytest.raises(TypeError, match="pickle"):
        list(run(work.lock, range(3), workers=2))


def test_a_function_that_workers_cannot_import_is_an_error_and_no_hang(work, tmp_path):
    (tmp_path / "modules" / "work_of_workers.py").write_text("")
    with pytest.raises(AttributeError, match="square"):
        list(run(work.square, range(3), workers=2))


def test_a_killed_worker_is_replaced_and_its_task_tried_again(work, marks):
    tasks = [(n, str(marks)) for n in range(6)]
    assert sorted(run(work.killed_at_first, tasks, workers=2)) == [(n, n) for n in range(6)]
    assert attempts(marks) == [f"{n}.{attempt}" for n in range(6) for attempt in range(2)]


def test_a_task_that_kills_three_workers_is_lost_and_all_others_come(work, marks):
    found = dict(run(work.three_kills_itself, [(n, str(marks)) for n in range(8)], workers=2))
    lost = found.pop(3)
    assert isinstance(lost, Lost)
    assert "SIGKILL" in lost.reason
    assert "use fewer workers" in lost.reason
    assert found == {n: n for n in range(8) if n != 3}
    assert [name for name in attempts(marks) if name[0] == "3"] == ["3.0", "3.1", "3.2"]


def test_the_reason_tells_the_exit_code(work):
    found = dict(run(work.three_exits, [(n, "") for n in range(5)], workers=2))
    assert "exit code 7" in found[3].reason


def test_a_death_is_seen_where_a_child_of_the_worker_keeps_its_pipe_open(work, marks):
    tasks = [(n, str(marks)) for n in range(5)]
    assert sorted(run(work.three_leaves_a_child_behind, tasks, workers=2)) == [(n, n) for n in range(5)]


def test_what_a_worker_prints_is_no_answer_and_its_input_is_empty(work, capfd):
    assert sorted(run(work.talk, range(2), workers=2)) == [(0, ""), (1, "")]
    captured = capfd.readouterr()
    assert captured.out == ""
    assert sorted(captured.err.split("\n")) == ["", "talk 0", "talk 1"]


def test_a_worker_counts_with_one_thread(work):
    assert dict(run(work.threads, range(2), workers=2))[0] == {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def test_closing_the_results_ends_workers_in_the_middle_of_a_task(work, marks):
    before = children_of(os.getpid())  # other tests may have left a child of Python's own behind
    results = run(work.only_0_ends, [(n, str(marks)) for n in range(4)], workers=2)
    assert next(results) == (0, 0)
    until(lambda: attempts(marks) == ["1.0", "2.0"])
    left = [child for child in children_of(os.getpid()) if child not in before]
    assert len(left) == 2
    results.close()
    assert not any(map(alive, left))


def children_of(pid):
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def test_where_no_process_can_be_started_the_work_is_done_here(work, monkeypatch, capfd):
    monkeypatch.setattr(log, "_logged", set())
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    assert sorted(run(work.where, range(3), workers=2)) == [(n, os.getpid()) for n in range(3)]
    assert capfd.readouterr().err.count("continues in this process") == 1


def test_where_every_worker_dies_at_its_start_the_work_is_done_here(work, monkeypatch, capfd):
    monkeypatch.setattr(log, "_logged", set())
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert sorted(run(work.where, range(3), workers=2)) == [(n, os.getpid()) for n in range(3)]
    assert capfd.readouterr().err.count("continues in this process") == 1


def test_a_negative_number_of_workers_is_refused():
    with pytest.raises(UsageError, match="not -1"):
        run(abs, [1, 2], workers=-1)


SCRIPT = """
import sys
print("the script runs")
sys.path.insert(0, {modules!r})
from work_of_workers import square
from msprobe.compare.workers.run import run
print(sorted(run(square, range(6), workers=2)))
"""


@pytest.mark.parametrize("by", ["path", "stdin", "module"])
def test_a_script_without_a_guard_is_not_run_again_by_the_workers(work, tmp_path, by):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.format(modules=str(tmp_path / "modules")))
    command, arguments = {
        "path": ([sys.executable, str(script)], None),
        "stdin": ([sys.executable, "-"], script.read_text()),
        "module": ([sys.executable, "-m", "train"], None),
    }[by]
    done = subprocess.run(
        command, input=arguments, cwd=tmp_path, capture_output=True, text=True, timeout=50, check=False
    )
    assert done.stderr == ""
    assert done.stdout == f"the script runs\n{[(n, n * n) for n in range(6)]}\n"


WAITS = """
import sys
sys.path.insert(0, {modules!r})
from work_of_workers import wait_for_ever
from msprobe.compare.workers.run import run
list(run(wait_for_ever, [(n, {marks!r}) for n in range(4)], workers=2))
"""


@pytest.fixture
def waiting(work, tmp_path, marks):
    """A process in the middle of tasks that do not end, and its workers."""
    script = tmp_path / "waits.py"
    script.write_text(WAITS.format(modules=str(tmp_path / "modules"), marks=str(marks)))
    process = subprocess.Popen([sys.executable, str(script)], stderr=subprocess.PIPE, text=True)
    with process:
        until(lambda: len(attempts(marks)) == 2)
        workers = [int(pid) for pid in children_of(process.pid)]
        assert len(workers) == 2
        assert all(map(alive, workers))
        yield process, workers
        process.kill()


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_all_workers_at_once_and_is_said_once(waiting):
    process, workers = waiting
    process.send_signal(signal.SIGINT)
    _, output = process.communicate(timeout=20)
    assert not any(map(alive, workers))
    assert output.count("KeyboardInterrupt") == 1
    assert process.returncode == -signal.SIGINT


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_dead_parent_leaves_no_worker_behind(waiting, how):
    process, workers = waiting
    process.send_signal(how)
    process.wait(20)
    until(lambda: not any(map(alive, workers)), 10)


def test_cores_are_those_of_the_affinity_and_of_the_containers_quota(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    assert cores(tmp_path) == 8, "without control groups"
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert cores(tmp_path) == 8
    (tmp_path / "cpu.max").write_text("250000 100000\n")
    assert cores(tmp_path) == 3
    (tmp_path / "cpu.max").write_text("1600000 100000\n")
    assert cores(tmp_path) == 8


def test_the_older_control_groups_are_read_too(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("-1\n")
    assert cores(tmp_path) == 8
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("150000\n")
    assert cores(tmp_path) == 2


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """A clock that each item moves on by four seconds."""

    class Clock:
        now = 0.0

        def items(self, count):
            for n in range(count):
                self.now += 4
                yield n

    made = Clock()
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: made.now)
    return made


def test_without_a_terminal_a_line_comes_at_most_every_ten_seconds(clock, monkeypatch, capsys):
    assert list(progress(clock.items(8), 8, "ranks")) == list(range(8))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "msprobe INFO: ranks: 3 of 8, about 20 s to go",
        "msprobe INFO: ranks: 6 of 8, about 8 s to go",
    ]


def test_on_a_terminal_without_tqdm_the_lines_come_too(clock, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert list(progress(clock.items(4), 4, "ranks")) == list(range(4))
    assert terminal.getvalue() == "msprobe INFO: ranks: 3 of 4, about 4 s to go\n"
    assert capsys.readouterr().out == ""


def test_on_a_terminal_with_tqdm_there_is_a_bar(monkeypatch, capsys):
    pytest.importorskip("tqdm", reason="the bar is tqdm's; it comes with the extra `fast`")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert list(progress(iter(range(4)), 4, "ranks")) == list(range(4))
    assert "ranks:   0%" in terminal.getvalue()
    assert "0/4" in terminal.getvalue()
    assert "msprobe INFO" not in terminal.getvalue()
    assert capsys.readouterr().out == ""


def test_closing_the_progress_closes_what_it_shows():
    closed = []

    def items():
        try:
            yield 1
            yield 2
        finally:
            closed.append(True)

    shown = progress(items(), 2, "ranks")
    assert next(shown) == 1
    shown.close()
    assert closed == [True]


def test_a_run_with_a_title_gives_the_same(work, capfd):
    assert sorted(run(work.square, range(4), workers=2, title="ranks")) == [(n, n * n) for n in range(4)]
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("frameworks", [("mindspore", "mindspore"), ("mindspore", "pytorch")], ids=["one", "two"])
def test_a_long_comparison_of_calls_shows_how_far_it_is(frameworks, builder, tmp_path, monkeypatch, capfd):
    """On standard error; the answer on standard output is the same."""
    monkeypatch.setattr(progress_module, "EVERY", 0.0)
    folders = []
    for side, framework, result in zip(("target", "golden"), frameworks, (9.0, 2.0), strict=True):
        made = builder(side, framework=framework)
        for at in range(20):
            made.call(f"Mint.exp.{at}.forward", [1.0], [result if at == 10 else 2.0])
            made.call(f"Mint.{side}.{at}.forward", [1.0], [2.0])
        folders.append(str(made.write()))
    answers = []
    for many in (10, 10**9):
        monkeypatch.setattr(progress_module, "MANY", many)
        monkeypatch.setattr("msprobe.compare.run.MANY", many)
        assert main(["compare", *folders, "-o", str(tmp_path / f"out{many}"), "--format", "csv"]) == 1
        answers.append(capfd.readouterr())
    assert [line for line in answers[0].out.splitlines() if "written: " not in line] == [
        line for line in answers[1].out.splitlines() if "written: " not in line
    ]
    titles = ("matching 40 calls", "judging records: ", "judging calls: ", "locating differences: ")
    assert all(title in answers[0].err and title not in answers[1].err for title in titles)
