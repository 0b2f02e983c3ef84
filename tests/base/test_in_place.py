"""Functions that are changed in place: the same objects by every name, and every call is seen."""

import copy
import functools
import gc
import inspect
import itertools
import math
import operator
import os
import pickle
import signal
import struct
import sys
import threading
import time
import zlib
from random import Random
from types import FunctionType, ModuleType

import pytest

from msprobe.base import in_place
from msprobe.base.in_place import InPlace

needs_extension = pytest.mark.skipif(in_place.extension is None, reason="the extension is not built here")


@pytest.fixture(params=["extension", "python"])
def way(request, monkeypatch):
    """Each test runs with the extension, and with functions of Python also without it."""
    if request.param == "python":
        monkeypatch.setattr(in_place, "redirect", in_place._redirect)
        monkeypatch.setattr(in_place, "extension", None)
        monkeypatch.setattr(in_place, "_replaceables", {})
    elif in_place.extension is None:
        pytest.skip("the extension is not built here")
    return request.param


class Seen(InPlace):
    """Notes the calls that it sees, by the names of the places."""

    def __init__(self, *planned, tag="", inherits=False):
        super().__init__(self.through)
        self.calls, self.tag = [], tag
        for owner, name in planned:
            self.add(owner, name, name, inherits=inherits)

    def through(self, original, places, frames):
        def call(*args, **kwargs):
            self.calls.append((places[0].data, args, kwargs))
            return original(*args, **kwargs)

        return call

    def __enter__(self):
        self.install()
        return self

    def __exit__(self, *_):
        self.remove()


def scaled(x, factor=2, *, offset=0):
    """Scale."""
    return x * factor + offset


def closing(amount):
    def inner(x, more=1):
        return x + amount + more

    return inner


@functools.wraps(scaled)
def wrapped(*args, **kwargs):
    return scaled(*args, **kwargs)


def counting(n):
    yield from range(n)


def unlucky(x):
    raise KeyError(x)


def factorial(n):
    return 1 if n < 2 else n * factorial(n - 1)


HERE = sys.modules[__name__]


def test_a_function_of_python_is_seen_by_every_reference_that_was_made_before(way):
    class Held:
        function = staticmethod(scaled)

    def by_default(x, function=scaled):
        return function(x)

    function = scaled
    references = [
        *(by_default, lambda x: function(x), Held.function, functools.partial(scaled), {"f": scaled}["f"]),
        *(lambda x: next(map(scaled, [x])), lambda x: scaled.__call__(x), lambda x: HERE.scaled(x)),
    ]
    with Seen((HERE, "scaled")) as seen:
        assert [each(3) for each in references] == [6] * len(references)
        assert HERE.scaled is scaled is function is Held.function
    assert seen.calls == [("scaled", (3,), {})] * len(references)
    assert [each(3) for each in references] == [6] * len(references)
    assert len(seen.calls) == len(references), "nothing is seen afterwards"


def facts(function):
    """All that a program may find out about a function without calling it."""
    try:
        parameters = str(inspect.signature(function))
    except ValueError:
        parameters = None
    source = inspect.getsource(function) if isinstance(function, FunctionType) else None
    is_code = isinstance(function, FunctionType)
    place = (
        (function.__code__.co_filename, function.__code__.co_firstlineno, function.__code__.co_name) if is_code else ""
    )
    names = [
        getattr(function, f"__{name}__", None) for name in ("name", "qualname", "module", "doc", "self", "objclass")
    ]
    names += [getattr(function, f"__{name}__", None) for name in ("defaults", "kwdefaults", "annotations", "wrapped")]
    try:
        pickled = pickle.dumps(function)
    except (pickle.PicklingError, AttributeError):  # of a closure, in any case
        pickled = None
    names += [getattr(function, "__text_signature__", None), getattr(function, "__closure__", None)]
    return [
        parameters,
        source,
        place,
        *names,
        pickled,
        repr(function),
        hash(function),
        copy.deepcopy(function) is function,
    ]


def test_what_a_program_finds_out_about_a_function_stays_the_same(way):
    made = closing(1)
    own = ModuleType("own")
    own.made = made
    functions = [scaled, wrapped, made]
    before = list(map(facts, functions))
    with Seen((HERE, "scaled"), (HERE, "wrapped"), (own, "made")) as seen:
        assert list(map(facts, functions)) == before
        assert scaled(1, offset=3) == 5
        assert made(1, more=5) == 7
        assert inspect.getclosurevars(made).nonlocals == {"amount": 1}
        with pytest.raises(TypeError, match="unexpected keyword argument 'nothing'"):
            scaled(1, nothing=2)
    assert [name for name, *_ in seen.calls] == ["scaled", "made", "scaled"]
    assert list(map(facts, functions)) == before
    assert "__signature__" not in vars(scaled)


OF_C = [
    *((math, "sqrt", (4.0,), {}), (math, "gcd", (4, 6), {}), (math, "isclose", (1.0, 1.5), {"rel_tol": 1.0})),
    *(
        (time, "time_ns", (), {}),
        (zlib, "crc32", (b"abc",), {}),
        (struct, "pack", ("i", 3), {}),
        (math, "hypot", (3, 4), {}),
    ),
    *((operator, "add", (1, 2), {}), (zlib, "compress", (b"abc",), {"level": 1}), (math, "dist", ([0.0], [1.0]), {})),
    *((str, "upper", ("a",), {}), (str, "split", ("a b",), {"sep": " "}), (str, "join", (",", ["a", "b"]), {})),
    *((list, "insert", ([1], 0, 2), {}), (str, "format", ("{}{a}", 1), {"a": 2}), (bytes, "hex", (b"ab",), {})),
    *(
        (list, "sort", ([2, 1],), {"reverse": True}),
        (str, "encode", ("a", "utf-8"), {}),
        (int, "to_bytes", (3, 2, "big"), {}),
    ),
]
"""Functions and methods of C, by all conventions of calls that CPython has."""


@needs_extension
@pytest.mark.parametrize(("owner", "name", "args", "kwargs"), OF_C, ids=[f"{o.__name__}.{n}" for o, n, *_ in OF_C])
def test_a_function_of_c_is_seen_and_stays_what_it_is(owner, name, args, kwargs):
    function = vars(owner)[name]
    known, before, expected = {function: 1}, facts(function), function(*args, **kwargs)
    with Seen((owner, name), inherits=True) as seen:
        during, is_same, is_found = facts(function), vars(owner)[name] is function, known.get(function)
        result = function(*args, **kwargs)
    assert (during, is_same, is_found) == (before, True, 1)
    assert result == expected or name == "time_ns"
    assert (name, args, kwargs) in seen.calls  # others may call it too
    count = len(seen.calls)
    function(*args, **kwargs)
    assert len(seen.calls) == count
    assert facts(function) == before


@needs_extension
@pytest.mark.skipif(sys.gettrace() is not None, reason="a traced interpreter refuses a wrong `self` before the call")
def test_a_method_of_c_is_seen_however_it_is_reached():
    text, early, mapped = "ab", "ab".zfill, map(str.zfill, ["ab"], [4])
    with Seen((str, "zfill")) as seen:
        late = text.zfill
        results = [
            text.zfill(4),
            late(4),
            text.zfill.__call__(4),
            str.zfill(text, 4),
            operator.attrgetter("zfill")(text)(4),
            *mapped,
        ]
        results.append(operator.methodcaller("zfill", 4)(text))
        with pytest.raises(TypeError, match="doesn't apply to a 'int' object"):
            str.zfill(3, 4)
        assert text.zfill == late
    assert results == ["00ab"] * 7
    assert seen.calls == [("zfill", ("ab", 4), {})] * 7 + [("zfill", (3, 4), {})]
    assert (late(5), early(5)) == ("000ab", "000ab"), "a bound method may be kept"
    assert len(seen.calls) == 8


@needs_extension
def test_calls_that_the_interpreter_has_specialised_are_seen_too():
    """From 3.11 on a call site that runs often gets an instruction of its own for what it calls."""

    def run(times):
        text = "ab"
        for _ in range(times):
            math.sqrt(4.0)
            math.isclose(1.0, 2.0)
            math.gcd(4, 6)
            text.zfill(3)
            scaled(1)

    places = [(math, "sqrt"), (math, "isclose"), (math, "gcd"), (str, "zfill"), (HERE, "scaled")]
    run(3000)
    seen = Seen(*places)
    for times in (1, 3000, 5):
        seen.calls.clear()
        with seen:
            run(times)
        assert [sum(name == each for name, *_ in seen.calls) for _, each in places] == [times] * 5
        seen.calls.clear()
        run(times)
        assert seen.calls == []


def test_what_a_function_raises_and_that_it_calls_itself_makes_no_difference(way):
    with Seen((HERE, "unlucky"), (HERE, "factorial")) as seen:
        with pytest.raises(KeyError, match="7") as raised:
            unlucky(7)
        assert factorial(5) == 120
    assert raised.traceback[-1].name == "unlucky"
    assert [args for name, args, _ in seen.calls if name == "factorial"] == [(n,) for n in (5, 4, 3, 2, 1)]


def test_one_function_by_several_names_is_one_function(way):
    own = ModuleType("own")
    own.first, own.second = scaled, scaled
    seen = Seen((own, "second"), (own, "first"))
    with seen:
        own.first(1)
        own.second(1)
    assert [name for name, *_ in seen.calls] == ["second", "second"], "the place that was planned first"
    assert [[place.name for place in places] for _, places in seen.functions.values()] == [["second", "first"]]


def test_what_cannot_be_changed_in_place_is_replaced_at_its_name(way):
    class Callable:
        def __call__(self, x):
            return x + 1

    class Above:
        def method(self):
            return "above"

    class Below(Above):
        @classmethod
        def made(cls, x):
            return cls, x

        @staticmethod
        def plain(x):
            return x

    own = ModuleType("own")
    own.object, own.counting, own.plain = Callable(), counting, scaled
    before = own.object
    places = [(own, "object"), (own, "counting"), (own, "plain"), (Below, "method"), (Below, "made"), (Below, "plain")]
    with Seen(*places) as seen:
        assert own.object is not before
        assert (own.object(1), list(own.counting(2)), own.plain(1)) == (2, [0, 1], 2)
        assert (Below().method(), Above().method()) == ("above", "above")
        assert (Below.made(1), Below().plain(2)) == ((Below, 1), 2)
        assert {place.name for place in seen.replaced} == {"object", "counting", "method"}
        assert inspect.isgeneratorfunction(counting)
    assert [name for name, *_ in seen.calls] == ["object", "counting", "plain", "method", "made", "plain"]
    assert own.object is before
    assert "method" not in vars(Below)


def test_without_the_extension_functions_of_c_are_replaced_at_their_names(monkeypatch, caplog):
    monkeypatch.setattr(in_place, "extension", None)
    monkeypatch.setattr(in_place, "redirect", in_place._redirect)
    monkeypatch.setattr(in_place, "_replaceables", {})
    own = ModuleType("own")
    own.sqrt = root = math.sqrt
    monkeypatch.setitem(sys.modules, "own", own)
    with Seen((own, "sqrt")) as seen:
        assert own.sqrt is not root
        assert (own.sqrt(4.0), root(4.0)) == (2.0, 2.0)
        assert pickle.loads(pickle.dumps(own.sqrt)) is own.sqrt
        assert [place.name for place in seen.replaced] == ["sqrt"]
    assert own.sqrt is root
    assert len(seen.calls) == 1


def test_several_see_the_calls_the_last_one_first_and_leave_in_any_order(way):
    original = scaled.__code__
    for order in itertools.permutations(range(3)):
        order_of_calls = []

        class Noting(Seen):
            def through(self, original, places, frames):
                def call(*args, **kwargs):
                    order_of_calls.append(self.tag)  # noqa: B023  # called before the next turn
                    return original(*args, **kwargs)

                return call

        several = [Noting((HERE, "scaled"), tag=tag) for tag in range(3)]
        for each in several:
            each.install()
        assert scaled(2) == 4
        assert order_of_calls == [2, 1, 0]
        left = [2, 1, 0]
        for leaving in order:
            several[leaving].remove()
            left.remove(leaving)
            order_of_calls.clear()
            assert scaled(2) == 4
            assert order_of_calls == left
        assert scaled.__code__ is original


def test_both_directions_may_be_repeated(way):
    original, seen = scaled.__code__, Seen((HERE, "scaled"))
    seen.remove()
    for _ in range(2):
        seen.install()
        seen.install()
        scaled(1)
        seen.remove()
        seen.remove()
        assert scaled.__code__ is original
    assert len(seen.calls) == 2


@pytest.mark.parametrize("at", range(4))
def test_an_interruption_leaves_a_state_that_the_next_call_completes(at, way, monkeypatch):
    """Whatever is interrupted, `remove` restores every function and `install` changes every one."""
    original, seen, put, count = scaled.__code__, Seen((HERE, "scaled")), in_place.redirect, itertools.count()

    def interrupted(*args):
        if next(count) == at // 2:
            if at % 2:
                put(*args)
            raise KeyboardInterrupt
        return put(*args)

    monkeypatch.setattr(in_place, "redirect", interrupted)
    for work in (seen.install, seen.remove):
        try:
            work()
        except KeyboardInterrupt:
            break
    seen.remove()
    assert scaled.__code__ is original
    assert "__signature__" not in vars(scaled)
    seen.install()
    scaled(1)
    seen.remove()
    assert len(seen.calls) == 1
    assert scaled.__code__ is original


def test_interruptions_at_random_moments_leave_nothing_behind(way, monkeypatch):
    """Also of what is replaced at its name; a signal handler runs between any two instructions of Python."""

    class Callable:
        def __call__(self, x):
            return x

    def interrupt(*_):
        raise KeyboardInterrupt

    own, random, hits = ModuleType("own"), Random(0), 0
    own.first, own.second, own.scaled, own.root = Callable(), Callable(), scaled, math.sqrt
    before, original = dict(vars(own)), scaled.__code__
    seen = Seen(*((own, name) for name in ("first", "second", "scaled", "root")))
    handler = signal.signal(signal.SIGALRM, interrupt)
    gc.disable()  # an exception in a callback of the collector is lost
    try:
        while hits < 100:
            try:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(2e-6, 4e-4))
                for _ in range(1000):
                    seen.install()
                    seen.remove()
            except KeyboardInterrupt:
                hits += 1
            seen.remove()
            assert vars(own) == before
            assert scaled.__code__ is original
            assert "__signature__" not in vars(scaled)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        gc.enable()
    with seen:
        assert (own.first(1), own.scaled(1)) == (1, 2)
    assert len(seen.calls) == 2


def test_what_others_do_to_a_function_stays(way):
    own = ModuleType("own")
    exec("def f(x, y=1): return x + y\ndef g(x, y=1): return x * 10", vars(own))
    f, first, second = own.f, own.f.__code__, own.g.__code__
    seen = Seen((own, "f"))
    with seen:
        assert f(1) == 2
    f.__code__ = second  # between two collections
    with seen:
        assert f(1) == 10
    assert f.__code__ is second
    f.__defaults__ = (5,)
    f.__code__ = first
    with seen:
        assert f(1) == 6
        f.__code__ = second  # meanwhile
        assert f(1) == 10
    assert f.__code__ is second
    assert len(seen.calls) == 3
    own.f = scaled  # another function at the name
    with seen:
        assert own.f(1) == 2
        assert f(1) == 10
    assert len(seen.calls) == 4


def test_a_place_that_is_discarded_is_left_alone(way):
    own = ModuleType("own")
    own.scaled = scaled
    seen = Seen((own, "scaled"))
    place = seen.add(HERE, "factorial", "factorial")
    with seen:
        factorial(1)
    seen.discard(place)
    with seen:
        factorial(1)
        scaled(1)
    assert [name for name, *_ in seen.calls] == ["factorial", "scaled"]


def test_threads_may_call_while_functions_change(way):
    """Each call gives its result, whether it was seen or not."""
    places = [(HERE, "scaled")] + ([(math, "sqrt")] if way == "extension" else [])
    wrong, is_over = [], threading.Event()

    def run():
        while not is_over.is_set():
            if (scaled(3), math.sqrt(9.0)) != (6, 3.0):
                wrong.append(1)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    seen = Seen(*places)
    for _ in range(300):
        with seen:
            scaled(3)
    is_over.set()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_process_that_is_forked_meanwhile_has_working_functions_and_may_restore_them(way):
    seen = Seen((HERE, "scaled"))
    with seen:
        child = os.fork()
        if child == 0:
            fine = scaled(3) == 6
            seen.remove()
            fine = fine and scaled(3) == 6 and len(seen.calls) == 1
            os._exit(0 if fine else 1)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_a_frame_says_that_it_is_a_trampoline(way):
    found = []

    class Looking(InPlace):
        def __init__(self):
            super().__init__(self.through)
            self.add(HERE, "scaled", None)

        def through(self, original, places, frames):
            def call(*args):
                found.extend([sys._getframe(1).f_code, sys._getframe(1 + frames).f_code])
                return original(*args)

            return call

    looking = Looking()
    looking.install()
    scaled(1)
    looking.remove()
    assert [in_place.is_trampoline(code) for code in found] == [True, False]
    assert found[1] is test_a_frame_says_that_it_is_a_trampoline.__code__
    assert not in_place.is_trampoline(scaled.__code__)
