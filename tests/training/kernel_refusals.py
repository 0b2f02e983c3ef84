"""Debuggers at level L2 that are refused, one after the other in one process, and one that is not: `... FOLDER`.

Prints JSON: for each case the error and what it says; null where the debugger was made.
"""

import json
import os
import shutil
import sys
from pathlib import Path

import mindspore as ms

from msprobe.base.errors import MsprobeError
from msprobe.mindspore import PrecisionDebugger


def refusal(action):
    """The error of an action and what it says; None where there is none."""
    try:
        action()
    except MsprobeError as err:
        return [type(err).__name__, str(err)]
    return None


def main(folder):
    ms.set_context(mode=ms.GRAPH_MODE)
    messages = {}

    def attempt(case, path="dump", config=None, **settings):
        file = folder / f"{case}.json"
        file.write_text(json.dumps({"dump_path": str(folder / path), **(config or {})}))
        messages[case] = refusal(lambda: PrecisionDebugger(file, level="L2", **settings))

    attempt("foreign letter", path="a.b")
    attempt("exception_dump", task="exception_dump")
    attempt("overflow_check", task="overflow_check")
    attempt("api", config={"tensor": {"list": ["Functional.relu.0.forward"]}}, task="tensor")
    attempt("expression", config={"tensor": {"list": ["name-regex(a{,3})"]}}, task="tensor")
    messages["left behind"] = os.environ.get("MINDSPORE_DUMP_CONFIG")
    (folder / "used" / "rank_0" / "Net" / "0" / "0").mkdir(parents=True)
    attempt("used", path="used")
    (folder / "readonly").write_text("")
    attempt("no folder", path="readonly/below")
    os.environ["MS_ROLE"] = "MS_WORKER"  # as under msrun, where the rank is not known before communication is
    (folder / "dump" / "rank_0" / "Net" / "0" / "0").mkdir(parents=True)
    attempt("made")
    del os.environ["MS_ROLE"]
    messages["used, by a rank that was not known"] = refusal(PrecisionDebugger.start)
    shutil.rmtree(folder / "dump" / "rank_0")
    messages["started"] = refusal(PrecisionDebugger.start)
    messages["told"] = os.environ.get("MINDSPORE_DUMP_CONFIG")
    attempt("second", path="other")
    return messages


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
