"""Which exceptions are interrupts, and work that none of them cuts in two."""

import io
import logging
import signal
import sys
import threading
from functools import partial

import pytest

from msprobe.base.interrupts import must_propagate, uninterrupted
from msprobe.base.log import logger


class Limit(Exception):
    pass


def raise_limit(number, frame):
    raise Limit


def variadic(*arguments):
    raise Limit


class Handler:
    def method(self, number, frame):
        raise Limit

    def __call__(self, number, frame):
        self.method(number, frame)


@pytest.fixture
def handled():
    """Installs a handler of SIGUSR1."""
    before = signal.getsignal(signal.SIGUSR1)
    yield partial(signal.signal, signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize(
    "handler",
    [raise_limit, variadic, Handler().method, Handler(), partial(raise_limit), lambda n, f: raise_limit(n, f)],
)
def test_what_any_kind_of_handler_raises_is_an_interrupt(handler, handled):
    handled(handler)
    with pytest.raises(Limit) as raised:
        signal.raise_signal(signal.SIGUSR1)
    assert must_propagate(raised.value)


def test_the_same_exception_raised_by_other_code_is_none():
    with pytest.raises(Limit) as raised:
        raise_limit(signal.SIGUSR1, None)
    assert not must_propagate(raised.value)
    assert not must_propagate(ValueError("never raised"))
    assert must_propagate(KeyboardInterrupt())
    assert must_propagate(SystemExit())


def test_work_is_done_as_a_whole_and_the_interrupt_raised_after_it(handled):
    handled(raise_limit)
    done, main = [], threading.get_ident()

    def work():
        for each in range(50):
            if each == 10:
                signal.pthread_kill(main, signal.SIGUSR1)
            done.append(each)

    with pytest.raises(Limit) as raised:
        uninterrupted(work)
    assert done == list(range(50))
    assert must_propagate(raised.value)


def test_work_runs_once_and_its_own_exception_is_raised():
    calls = []
    with pytest.raises(ZeroDivisionError):
        uninterrupted(lambda: calls.append(1 / 0))
    uninterrupted(lambda: calls.append(1))
    assert calls == [1]


def test_another_thread_does_the_work_itself():
    seen = []
    thread = threading.Thread(target=lambda: uninterrupted(lambda: seen.append(threading.get_ident())))
    thread.start()
    thread.join()
    assert seen == [thread.ident]


class Acting(io.StringIO):
    """A standard error that does something where it is written to or flushed; so does a message made into text."""

    def __init__(self, place, act):
        super().__init__()
        self._place, self._act = place, act

    def at(self, place):
        if place == self._place:
            self._act()

    def write(self, text):
        self.at("write")
        return super().write(text)

    def flush(self):
        self.at("flush")

    def __str__(self):
        self.at("format")
        return "a message"


PLACES = pytest.mark.parametrize("place", ["write", "flush", "format"])


@PLACES
def test_an_interrupt_while_a_message_is_written_reaches_the_program(place, handled, monkeypatch):
    handled(raise_limit)
    acting = Acting(place, lambda: signal.raise_signal(signal.SIGUSR1))
    monkeypatch.setattr(sys, "stderr", acting)
    with pytest.raises(Limit):
        logger.error(acting)


@PLACES
def test_a_message_that_cannot_be_written_stops_nothing(place, monkeypatch):
    monkeypatch.setattr(logging, "raiseExceptions", False)  # Python would print the failure on standard error
    reached = []
    acting = Acting(place, lambda: reached.append(place) or 1 / 0)
    monkeypatch.setattr(sys, "stderr", acting)
    logger.error(acting)
    assert place in reached
