"""What stands in for `python`: asks preloading_server.py for the program.

SOCKET, PYTHON and PROGRAM are written before it.
"""

import array
import json
import os
import signal
import socket
import sys

if sys.argv[1].startswith("-") and sys.argv[1] not in ("-c", "-m"):
    os.execv(PYTHON, [PYTHON, *sys.argv[1:]])  # noqa: F821  # options of the interpreter itself
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(SOCKET)  # noqa: F821
    request = {
        "program": PROGRAM,  # noqa: F821
        "arguments": sys.argv[1:],
        "folder": os.getcwd(),
        "environment": dict(os.environ),
    }
    files = array.array("i", (0, 1, 2))
    message = json.dumps(request).encode() + b"\n"
    sent = connection.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
    if rest := message[sent:]:  # a program that has ended already does not take even an empty rest
        connection.sendall(rest)
    code = int(connection.recv(64) or 1)
if code < 0:
    if -code != signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
