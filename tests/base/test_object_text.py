"""Texts of objects in configurations: the same in every process, and shown without addresses."""

import functools
import json
import threading
import weakref

import pytest

from msprobe.base.object_text import object_text, without_addresses


class Config:
    def method(self):
        """Bound to an object."""


def made():
    """Objects whose text has an address of this very object, each made anew."""

    def inner():
        """A function inside of a function."""

    config = Config()
    return {
        "function": inner,
        "lambda": lambda: None,
        "object": config,
        "method": config.method,
        "partial": functools.partial(inner, 1, key=config),
        "list": [inner, {"key": config}],
        "generator": (n for n in ()),
        "code": compile("1", "<string>", "eval"),
        "lock": threading.Lock(),
        "weak": weakref.ref(config),
    }


@pytest.mark.parametrize("kind", made())
def test_two_objects_of_one_kind_have_one_text_without_an_address(kind):
    first, second = made(), made()  # both are held, so that their addresses differ
    texts = [object_text(each[kind]) for each in (first, second)]
    assert str(first[kind]) != str(second[kind]) or kind in ("code", "lock")
    assert texts[0] == texts[1]
    assert "0x" not in texts[0]


def test_what_tells_objects_apart_stays():
    assert object_text(made) == "<function made>"
    assert object_text([made, Config]) == f"[<function made>, <class '{Config.__module__}.Config'>]"
    assert object_text(functools.partial(made, 1)) != object_text(functools.partial(made, 2))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain",
        "starts at 0x7f00aa00",
        "<a> at 0x7f00aa00",
        "1 < 2 at 0x7f00aa00",
        "<offset 0x7f00aa00>",
        "< at 0x1>",
    ],
)
def test_other_texts_stay_as_they_are(text):
    assert without_addresses(text) == text


def test_an_object_whose_text_raises_is_named_by_its_class():
    class Foreign:
        def __str__(self):
            raise RuntimeError("foreign")

    assert object_text(Foreign()) == "<Foreign>"
    assert json.dumps({"a": Foreign()}, default=object_text) == '{"a": "<Foreign>"}'
