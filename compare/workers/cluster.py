"""Run tasks on the workers of a Dask cluster (extra `cluster`).

All workers need access to the files of the tasks, under the same paths. The scheduler and the workers must have the
same msprobe-ms installed as this process. Tasks and results are transferred, files are not.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from socket import gethostname
from typing import TYPE_CHECKING, Any, TypeVar

from msprobe.base.errors import UsageError
from msprobe.base.log import log_once, terminal_line
from msprobe.base.version import installed

from .lost import Lost

if TYPE_CHECKING:
    from distributed import Client, Future

Task = TypeVar("Task")
Result = TypeVar("Result")

PATIENCE = 10
"""Seconds to wait for the scheduler's answer."""

LOOK = 5.0
"""Seconds without a result after which the cluster is checked."""

NO_WORKERS = 60.0
"""Seconds that a cluster may be without a worker: some are started only when there is work."""


def on_cluster(
    function: Callable[[Task], Result], tasks: Sequence[Task], order: Sequence[int], scheduler: str
) -> Generator[tuple[int, Result | Lost], None, None]:
    """Yield the results of `tasks` in the order of completion; the scheduler at that address distributes them in
    `order`.

    Dask gives the task of a lost worker to another one, up to the scheduler's setting `allowed-failures` (3); a task
    without a result after that is `Lost`. Raise a UsageError if Dask is not installed, no scheduler answers at the
    address, the cluster has no worker for a minute or another msprobe-ms, or the connection to the scheduler is lost.
    """
    client = _connect(scheduler)
    futures: dict[int, Future] = {}
    try:
        finished: SimpleQueue[int] = SimpleQueue()
        for place, at in enumerate(order):
            # Without retries: they are for exceptions of `function`, which would be the same again.
            future = client.submit(_run_checked, function, tasks[at], installed(), pure=False, priority=-place)
            futures[at] = future
            future.add_done_callback(lambda _, at=at: finished.put(at))
        empty_since = 0.0
        while futures:
            try:
                at = finished.get(timeout=LOOK)
            except Empty:
                empty_since = _check_cluster(client, scheduler, empty_since)
                continue
            empty_since = 0.0
            # Release it immediately: the cluster must not keep results that arrived.
            yield at, _result(futures.pop(at), scheduler)
    finally:
        # Cancel unfinished tasks, and disconnect; a lost scheduler must not block this.
        with suppress(OSError, asyncio.TimeoutError, RuntimeError):
            if futures and client.status == "running":
                client.cancel(list(futures.values()), force=True)
            client.close(timeout=PATIENCE)


def _connect(scheduler: str) -> "Client":
    try:
        from distributed import Client
        from distributed.comm import get_address_host_port
    except ImportError as err:
        raise UsageError(
            f"--scheduler {scheduler} requires Dask, which is not installed; run: pip install 'msprobe-ms[cluster]'"
        ) from err
    try:
        get_address_host_port(scheduler)  # raised for a text that is not an address
        _check_scheduler(scheduler)
        return Client(scheduler, timeout=PATIENCE, set_as_default=False)
    # No server, a timeout (a separate class in Python 3.10), and the library's error for a text without an address.
    except (OSError, asyncio.TimeoutError, ValueError, TypeError, RuntimeError) as err:
        tls = "; certificates are read from the Dask configuration, distributed.comm.tls" * scheduler.startswith(
            ("tls", "wss")
        )
        raise UsageError(
            f"no Dask scheduler responds at {scheduler!r} ({_why(err)}; waited at most {PATIENCE} s); give the "
            f"address printed by `dask scheduler`, such as tcp://host:8786{tls}"
        ) from err


def _check_scheduler(scheduler: str) -> None:
    """Check for `PATIENCE` seconds that there is a scheduler at the address; raise the error otherwise.

    A client that connects to anything but a scheduler waits forever, or logs tracebacks when it gives up.
    """
    failed: list[BaseException] = [asyncio.TimeoutError("silence")]

    def request() -> None:
        try:
            asyncio.run(asyncio.wait_for(_identify(scheduler), PATIENCE))
            failed.clear()
        except Exception as err:  # raised below, in the thread that waits
            failed[:] = [err]

    # In a separate thread, because the caller may be in an event loop; the thread does not delay the exit.
    thread = threading.Thread(target=request, daemon=True)
    thread.start()
    thread.join(PATIENCE + 1)
    if not failed:
        return
    if isinstance(failed[0], (OSError, asyncio.TimeoutError, ValueError, TypeError, RuntimeError)):
        raise failed[0]
    # Another server answers with bytes for which each library raises another error.
    raise RuntimeError(f"it does not use the Dask protocol: {type(failed[0]).__name__}") from failed[0]


async def _identify(scheduler: str) -> None:
    from distributed.core import connect
    from distributed.security import Security

    comm = await connect(scheduler, timeout=PATIENCE, **Security().get_connection_args("client"))
    try:
        await comm.write({"op": "identity", "reply": True})
        reply = await comm.read()
    finally:
        comm.abort()
    found = reply.get("type") if isinstance(reply, dict) else None
    if found != "Scheduler":
        raise RuntimeError(f"it is a {found}" if found else "its type is unknown")


def _why(err: BaseException) -> str:
    """Return the message of the innermost cause, on one line."""
    while (cause := err.__cause__ or err.__context__) is not None and str(cause):
        err = cause
    return terminal_line(" ".join(str(err).split()))[:200] or type(err).__name__


def _run_checked(function: Callable[[Task], Result], task: Task, ours: str) -> Result:
    """Execute the function on a worker, if its version is that of the caller."""
    if (theirs := installed()) != ours:
        raise UsageError(
            f"the Dask worker on {gethostname()} has msprobe-ms {theirs}; install version {ours}, as on this machine"
        )
    return function(task)


def _check_cluster(client: "Client", scheduler: str, empty_since: float) -> float:
    """Return since when the cluster has no worker; 0.0 if it has one. Raise a UsageError if it has none for too
    long."""
    if client.status != "running":
        raise _lost(scheduler)
    if client.scheduler_info()["workers"]:
        return 0.0
    now = time.monotonic()
    if not empty_since:
        log_once("cluster", f"the cluster at {scheduler} currently has no workers; waiting for one")
        return now
    if now - empty_since > NO_WORKERS:
        raise UsageError(
            f"the cluster has had no worker for {NO_WORKERS:.0f} s; start some with `dask worker {scheduler}`"
        )
    return empty_since


def _result(future: "Future", scheduler: str) -> Any:
    """Return the result of a task, or `Lost`; raise its exception."""
    from distributed import CancelledError, KilledWorker

    try:
        return future.result()
    except KilledWorker as err:
        return Lost(
            f"Dask gave up after {err.allowed_failures + 1} workers died while processing it; they may have too "
            "little memory."
        )
    except CancelledError as err:
        raise _lost(scheduler) from err
    except (ImportError, RuntimeError) as err:
        # A scheduler wraps the error of the import in a separate one.
        cause = err if isinstance(err, ImportError) else err.__cause__
        if not isinstance(cause, ImportError):
            raise
        raise UsageError(
            f"the Dask cluster cannot import msprobe ({cause}); install msprobe-ms {installed()} for its "
            "scheduler and its workers, as on this machine"
        ) from err


def _lost(scheduler: str) -> UsageError:
    return UsageError(f"the connection to the Dask scheduler at {scheduler} was lost; check its log and start again")
