"""The same tasks on a Dask cluster: real schedulers and real worker processes on this machine."""

import gc
import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress

import pytest

from msprobe.base import log
from msprobe.base.errors import DumpError, UsageError
from msprobe.compare.workers import cluster
from msprobe.compare.workers.run import Lost, run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120), pytest.mark.part(6)]

TASKS = '''
"""What the workers of these tests do."""
import os, signal, time
from pathlib import Path
from msprobe.base.errors import DumpError


def square(n):
    return n * n


def where(n):
    time.sleep(0.05)
    return os.getpid()


def killed_at_first(task):
    """The first attempt kills its worker."""
    n, folder = task
    try:
        os.close(os.open(Path(folder, str(n)), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return n
    os.kill(os.getpid(), signal.SIGKILL)


def always_killed(task):
    os.kill(os.getpid(), signal.SIGKILL)


def raise_dump_error(n):
    raise DumpError("rank3: no dump.json")


def mark(task):
    n, folder = task
    Path(folder, str(n)).touch()
    time.sleep(0.05)


def first_ends(n):
    while n:
        time.sleep(0.1)
    return n
'''


def test_without_dask_the_user_is_told_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UsageError, match=r"pip install 'msprobe-ms\[cluster\]'"):
        list(run(abs, [-1, -2], scheduler="tcp://127.0.0.1:1"))


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    """A folder that workers find modules in, as they find msprobe."""
    folder = tmp_path_factory.mktemp("modules")
    (folder / "work_of_clusters.py").write_text(TASKS)
    return folder


@pytest.fixture
def work(modules, monkeypatch):
    monkeypatch.syspath_prepend(str(modules))
    import work_of_clusters

    yield work_of_clusters
    del sys.modules["work_of_clusters"]


CLUSTER = """
import sys
from distributed import LocalCluster
with LocalCluster(n_workers=int(sys.argv[1]), threads_per_worker=1, dashboard_address=":0", silence_logs=50) as cluster:
    print(cluster.scheduler_address, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def start(modules):
    """Starts a cluster with so many workers, all of it in other processes; gives its address and its first process."""
    pytest.importorskip("distributed", reason="without Dask there is no cluster; it comes with the extra `cluster`")
    started = []

    def start(workers, *first):
        path = os.pathsep.join(filter(None, [*first, str(modules), os.environ.get("PYTHONPATH")]))
        process = subprocess.Popen(
            [sys.executable, "-c", CLUSTER, str(workers)],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process.stdout.readline().strip(), process

    yield start
    for process in started:
        process.communicate(timeout=60)


@pytest.fixture(scope="module")
def two_workers(start):
    return start(2)[0]


@pytest.mark.slow
def test_every_task_gives_its_result_once(two_workers, work):
    assert sorted(run(work.square, range(25), scheduler=two_workers)) == [(n, n * n) for n in range(25)]


def test_the_workers_of_the_cluster_do_the_work(two_workers, work):
    pids = {pid for _, pid in run(work.where, range(8), scheduler=two_workers)}
    assert len(pids) == 2
    assert os.getpid() not in pids


def test_nothing_to_do_is_done(two_workers, work):
    assert list(run(work.square, [], scheduler=two_workers)) == []


def test_the_largest_task_is_taken_first(two_workers, work):
    sizes = list(range(24))
    first = [at for at, _ in run(work.where, range(24), scheduler=two_workers, sizes=sizes)][:6]
    assert min(first) > 11


@pytest.mark.slow
def test_a_killed_worker_costs_nothing_but_time(two_workers, work, tmp_path):
    tasks = [(n, str(tmp_path)) for n in range(4)]
    (tmp_path / "1").touch()  # these two have had their first attempt
    (tmp_path / "2").touch()
    assert sorted(run(work.killed_at_first, tasks, scheduler=two_workers)) == [(n, n) for n in range(4)]


@pytest.mark.slow
def test_a_task_that_kills_every_worker_is_lost(two_workers, work):
    ((at, lost),) = run(work.always_killed, [0], scheduler=two_workers)
    assert at == 0
    assert isinstance(lost, Lost)
    assert "4 workers died while processing it" in lost.reason


def test_what_the_function_raises_is_raised_here(two_workers, work):
    with pytest.raises(DumpError, match=r"rank3: no dump\.json"):
        list(run(work.raise_dump_error, range(3), scheduler=two_workers))


def test_closing_the_results_takes_back_the_tasks_that_wait(two_workers, work, tmp_path):
    with closing(run(work.mark, [(n, str(tmp_path)) for n in range(200)], scheduler=two_workers)) as results:
        next(results)
    assert sorted(run(work.square, range(3), scheduler=two_workers)) == [(n, n * n) for n in range(3)]
    assert len(list(tmp_path.iterdir())) < 100


def test_nobody_at_the_address_is_said_within_seconds(monkeypatch):
    assert cluster.PATIENCE == 10
    monkeypatch.setattr(cluster, "PATIENCE", 2)
    pytest.importorskip("distributed", reason="without Dask there is no cluster; it comes with the extra `cluster`")
    with socket.socket() as held:  # bound, so that nobody else answers there; not listening
        held.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{held.getsockname()[1]}"
        begun = time.monotonic()
        with pytest.raises(UsageError, match="no Dask scheduler responds"):
            list(run(abs, [-1], scheduler=address))
    assert time.monotonic() - begun < 10


@pytest.mark.parametrize("address", ["nonsense://x", "127.0.0.1", "tcp://", "no such host:8786"])
def test_an_address_that_is_none_is_said(address, monkeypatch):
    pytest.importorskip("distributed", reason="without Dask there is no cluster; it comes with the extra `cluster`")
    monkeypatch.setattr(cluster, "PATIENCE", 2)
    with pytest.raises(UsageError, match="give the address"):
        list(run(abs, [-1], scheduler=address))


def test_a_cluster_without_workers_is_said(start, work, monkeypatch, capsys):
    monkeypatch.setattr(log, "_logged", set())
    monkeypatch.setattr(cluster, "LOOK", 0.2)
    monkeypatch.setattr(cluster, "NO_WORKERS", 0.5)
    address, _ = start(0)
    with pytest.raises(UsageError, match=r"has had no worker for .*; start some"):
        list(run(work.square, [1], scheduler=address))
    assert capsys.readouterr().err.count("has no workers") == 1


def test_workers_with_another_version_are_refused(two_workers, work, monkeypatch):
    monkeypatch.setattr(cluster, "installed", lambda: "0.0.1")
    with pytest.raises(UsageError, match=r"has msprobe-ms .*; install version 0\.0\.1"):
        list(run(work.square, [1], scheduler=two_workers))


@pytest.mark.slow
def test_a_cluster_without_msprobe_is_told_what_to_install(start, work, tmp_path):
    (tmp_path / "msprobe").mkdir()
    (tmp_path / "msprobe" / "__init__.py").write_text('raise ModuleNotFoundError("No module named msprobe")')
    address, _ = start(1, str(tmp_path))
    with pytest.raises(UsageError, match=r"No module named msprobe\); install msprobe-ms "):
        list(run(work.square, [1], scheduler=address))


@pytest.mark.slow
def test_a_scheduler_that_dies_in_the_middle_is_an_error_and_no_hang(start, work, monkeypatch):
    monkeypatch.setattr(cluster, "LOOK", 0.2)
    address, process = start(1)
    results = run(work.first_ends, [0, 1], scheduler=address)
    assert next(results) == (0, 0)
    process.kill()
    with pytest.raises(UsageError, match="connection to the Dask scheduler"):
        next(results)


@pytest.mark.slow
def test_a_cluster_that_stays_without_workers_is_given_up(start, work, modules, monkeypatch, capsys):
    monkeypatch.setattr(log, "_logged", set())
    monkeypatch.setattr(cluster, "LOOK", 0.2)
    address, _ = start(0)
    only_worker = [sys.executable, "-m", "dask", "worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard"]
    env = {**os.environ, "PYTHONPATH": str(modules)}
    process = subprocess.Popen(only_worker, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with process, closing(run(work.first_ends, [0, 1], scheduler=address)) as results:
        try:
            assert next(results) == (0, 0)
        finally:
            process.kill()
        monkeypatch.setattr(cluster, "NO_WORKERS", 0.5)
        with pytest.raises(UsageError, match="has had no worker"):
            next(results)
    assert capsys.readouterr().err.count("has no workers") == 1


def answering(reply):
    """A server that sends these bytes to whoever comes, and closes where there are none; None is silent."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve():
        held = []
        with suppress(OSError):
            while True:
                guest, _ = server.accept()
                held.append(guest)
                if reply:
                    guest.sendall(reply)
                if reply is not None:
                    guest.close()

    threading.Thread(target=serve, daemon=True).start()
    return server


NO_SCHEDULER = {
    "silence": None,
    "closes": b"",
    "garbage": b"\xff" * 64,
    "a web server": b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
}


@pytest.mark.sample(2)
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # Dask leaves sockets that never answered
@pytest.mark.parametrize("scheme", ["tcp", "tls", "ws"])
@pytest.mark.parametrize("reply", NO_SCHEDULER.values(), ids=NO_SCHEDULER)
def test_what_is_no_scheduler_is_refused_in_time(reply, scheme, monkeypatch, capfd):
    monkeypatch.setattr(cluster, "PATIENCE", 1)
    with closing(answering(reply)) as server:
        started = time.monotonic()
        with pytest.raises(UsageError, match="no Dask scheduler responds") as refused:
            list(run(abs, [-1, -2], scheduler=f"{scheme}://127.0.0.1:{server.getsockname()[1]}"))
    assert time.monotonic() - started < 10
    assert len(str(refused.value).splitlines()) == 1
    assert "Traceback" not in capfd.readouterr().err
    gc.collect()  # here, where its warning is expected


@pytest.mark.sample(2)
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # Dask leaves sockets that never answered
@pytest.mark.parametrize(
    "address",
    [
        *("tls://127.0.0.1:1", "tcp://127.0.0.1:1", "wss://127.0.0.1:1", "ucx://127.0.0.1:1", "http://127.0.0.1:1"),
        *("tcp://no.such.host.invalid:8786", "tcp://127.0.0.1:99999", "tcp://127.0.0.1:a", "tcp://", "nonsense"),
        *("tcp://\udcff:1", "tcp://[::1:5", "tcp://a b:1", "tls://\n:1"),
    ],
)
def test_an_address_where_nobody_is_is_refused_in_time(address, monkeypatch, capfd):
    monkeypatch.setattr(cluster, "PATIENCE", 1)
    started = time.monotonic()
    with pytest.raises(UsageError, match="no Dask scheduler responds") as refused:
        list(run(abs, [-1, -2], scheduler=address))
    assert time.monotonic() - started < 10
    assert len(str(refused.value).splitlines()) == 1
    assert "Traceback" not in capfd.readouterr().err
    gc.collect()  # here, where its warning is expected
