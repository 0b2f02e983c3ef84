"""Run the items of a plan, each in a process forked from this one: what is imported is imported once."""

import os
import sys
import traceback


def run(items, collect, prepare):
    """The number of items that failed; `prepare` imports what they need."""
    try:
        prepare()
    except Exception:  # an item that needs it will say so
        traceback.print_exc()
    failed = 0
    for item in items:
        child = os.fork()
        if child == 0:
            os._exit(_outcome(collect, item))
        if os.waitpid(child, 0)[1]:
            failed += 1
            print(f"FAILED {item['model']} {item.get('case', 'golden')} {item['task']}", flush=True)
    return failed


def _outcome(collect, item):
    try:
        collect(item)
        return 0
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
