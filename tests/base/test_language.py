"""The language of helps and errors: by `MSPROBE_LANG`, else by the locale."""

import pytest

from msprobe.base.language import language

NAMES = ("MSPROBE_LANG", "LC_ALL", "LC_MESSAGES", "LANG")


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "C"}, "en"),
        ({"LC_ALL": "en_US.UTF-8", "LANG": "zh_CN.UTF-8"}, "en"),
        ({"LC_MESSAGES": "zh_TW.UTF-8", "LANG": "de_DE.UTF-8"}, "zh"),
        ({"MSPROBE_LANG": "zh", "LANG": "en_US.UTF-8"}, "zh"),
        ({"MSPROBE_LANG": "en", "LANG": "zh_CN.UTF-8"}, "en"),
        ({"MSPROBE_LANG": "", "LANG": "zh_CN"}, "zh"),
    ],
)
def test_the_language_is_that_of_the_variable_else_of_the_locale(environment, expected, monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert language() == expected
