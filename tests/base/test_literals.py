"""Literals that several threads parse at once."""

import ast
import gc
import sys
import threading
import time
from collections import Counter

import pytest

from msprobe.base.literals import parsed

TEXT = "{'descr': '<f2', 'fortran_order': False, 'shape': (2,3,), }"


@pytest.fixture
def _switching():
    """Switches threads as often as possible, also while one parses: objects whose deletion waits are collected."""
    interval, thresholds, is_on = sys.getswitchinterval(), gc.get_threshold(), gc.isenabled()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(10, 2, 2)
    gc.enable()
    yield
    sys.setswitchinterval(interval)
    gc.set_threshold(*thresholds)
    if not is_on:
        gc.disable()


class Waits:
    """An object that refers to itself."""

    def __init__(self):
        self.me = self

    def __del__(self):
        time.sleep(0)


@pytest.mark.usefixtures("_switching")
def test_threads_that_parse_at_once_do_not_fail():
    found, end = Counter(), time.monotonic() + 1.0

    def work():
        while time.monotonic() < end:
            Waits()
            found[repr(parsed(lambda: ast.literal_eval(TEXT)))] += 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (made,) = found
    assert made == "{'descr': '<f2', 'fortran_order': False, 'shape': (2, 3)}"
    assert found[made] > 100


def test_what_another_thread_disturbs_is_parsed_again():
    disturbed = iter([SystemError("AST constructor recursion depth mismatch"), None])

    def parse():
        if error := next(disturbed):
            raise error
        return ast.literal_eval(TEXT)

    assert parsed(parse)["shape"] == (2, 3)


@pytest.mark.parametrize("error", [SystemError, ValueError])
def test_an_error_that_stays_is_raised(error):
    def parse():
        raise error("no literal")

    with pytest.raises(error, match="no literal"):
        parsed(parse)
