"""A Python that has imported a framework already, and forks for each program that is to run in it.

`python preloading_server.py SOCKET MODULE...` imports the modules, listens at the socket, and ends with its parent.
What preloaded_program.py asks for there is run in a process of its own: with its arguments, folder, environment, and
standard files. A fork takes 20 ms where the import of MindSpore takes 4 s of a processor. After the import all is as in
a process that was started: what is random is seeded anew, and whoever ends the client ends the process.
"""

import array
import atexit
import contextlib
import importlib
import json
import os
import random
import runpy
import signal
import socket
import sys
import threading
import types
from pathlib import Path


def serve(path, modules):
    for module in modules:
        importlib.import_module(module)
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as listening:
        listening.bind(path)
        listening.listen(64)
        print("ready", flush=True)
        for descriptor in (0, 1, 2):
            if descriptor:
                os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)
        parent = os.getppid()
        listening.settimeout(2)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who wait for the programs
        while os.getppid() == parent:
            try:
                connection, _ = listening.accept()
            except TimeoutError:
                continue
            if os.fork() == 0:
                listening.close()
                watch(connection)
            connection.close()


def watch(connection):
    """Run the program that the connection asks for and send its exit code; end it where the client is gone."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    connection.settimeout(None)
    request, files = received(connection)
    pid = os.fork()
    if pid == 0:
        connection.close()
        run(request, files)

    def end():
        if not connection.recv(1):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    threading.Thread(target=end, daemon=True).start()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with contextlib.suppress(OSError):
        connection.sendall(json.dumps(code).encode())
    os._exit(0)


def received(connection):
    """The request, a line of JSON, and the standard files that came with its first byte."""
    files = array.array("i")
    message, ancillary, _, _ = connection.recvmsg(1 << 16, socket.CMSG_SPACE(3 * files.itemsize))
    for _, _, data in ancillary:
        files.frombytes(data)
    while not message.endswith(b"\n"):
        message += connection.recv(1 << 16)
    return json.loads(message), files


def run(request, files):
    """Be the program; does not return."""
    os.setsid()
    for descriptor, file in enumerate(files):
        os.dup2(file, descriptor)
        os.close(file)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.executable = request["program"]  # what this program starts is to be preloaded, too
    signal.signal(signal.SIGINT, signal.default_int_handler)
    random.seed()
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed()
    code = 1
    try:
        code = executed(request["arguments"])
    finally:
        with contextlib.suppress(BaseException):
            threading._shutdown()
            atexit._run_exitfuncs()
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def executed(arguments):
    """The exit code of a program that `python ARGUMENTS` would run: a file, `-m module` or `-c code`."""
    what, *rest = arguments
    try:
        if what == "-c":
            sys.argv, sys.path[0] = ["-c", *rest[1:]], ""
            be(rest[0], "<string>")
        elif what == "-m":
            sys.argv, sys.path[0] = rest, os.getcwd()
            runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        else:
            sys.argv, sys.path[0] = arguments, str(Path(what).resolve().parent)
            be(Path(what).read_bytes(), what)
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def be(source, file):
    """Run the source as the main module. Frames of runpy have no lines, which the tracing of MindSpore wants."""
    sys.modules["__main__"] = main = types.ModuleType("__main__")
    if file != "<string>":
        main.__file__ = file
    exec(compile(source, file, "exec"), main.__dict__)


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2:])
