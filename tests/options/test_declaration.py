"""One declaration is all that an option needs: parser, help, command, keyword, key in a file and page follow."""

from dataclasses import dataclass, fields

import pytest

from msprobe.base.errors import UsageError
from msprobe.base.setting import settings_of
from msprobe.cli import VERBS
from msprobe.compare.request import CompareOptions, Request, identity_of
from msprobe.options.declaration import (
    EXECUTION,
    OUTPUT,
    command_of,
    declared,
    from_file,
    from_keywords,
    keys_of,
    option,
)
from msprobe.options.groups import Selection
from msprobe.options.kinds import FLAG, whole
from msprobe.options.page import options_table
from msprobe.options.parser import parsed, parser_of


@dataclass(frozen=True, kw_only=True)
class Dummy(Selection):
    depth: int = option(
        whole(1), "-D", "--depth", default=3, keyword="depth", key="depth_key", help="how deep to look", zh="查看的深度"
    )
    quick: bool = option(FLAG, "--quick", default=False, role=OUTPUT, help="do not look", zh="不查看")


def test_a_dummy_option_is_everywhere_by_its_declaration_alone():
    made = parsed("msprobe dummy", Dummy, ["--depth", "5", "--ranks", "2-3", "--quick"])
    assert (made.depth, made.ranks, made.quick) == (5, (2, 3), True)
    assert parsed("msprobe dummy", Dummy, ["-D", "7"]).depth == 7
    assert parsed("msprobe dummy", Dummy, []).depth == 3
    assert "-D, --depth N  how deep to look; default: 3" in parser_of("p", Dummy, "", "dummy").format_help()
    assert command_of("dummy", made) == ["msprobe", "dummy", "-D", "5", "--ranks", "2,3"]
    assert parsed("msprobe dummy", Dummy, command_of("dummy", made)[2:]) == Dummy(depth=5, ranks=(2, 3))
    assert from_keywords(Dummy, "dummy", {"depth": 4}) == {"depth": 4}
    assert from_file(Dummy, {"depth_key": 6, "other": 1}, "d.json") == {"depth": 6}
    assert keys_of(Dummy) == ("depth_key",)
    assert "| `-D`, `--depth N` | how deep to look | `3` | `depth` | `depth_key` |" in options_table(Dummy, "en", True)
    assert "| `-D`、`--depth N` | 查看的深度 | `3` |" in options_table(Dummy, "zh", False)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: from_keywords(Dummy, "dummy", {"dept": 4}), "dummy: unknown keyword dept; did you mean depth?"),
        (
            lambda: from_keywords(Dummy, "dummy", {"depth": 0}),
            "dummy: depth: 0 is invalid; give an integer of at least 1",
        ),
        (lambda: from_keywords(Dummy, "dummy", {"depth": None}), "dummy: depth: null is invalid; give an integer"),
        (lambda: from_file(Dummy, {"depth_key": True}, "d.json"), "d.json: depth_key: true is invalid"),
        (lambda: parsed("msprobe dummy", Dummy, ["--depth", "2.5"]), "-D/--depth: 2.5 is invalid"),
    ],
)
def test_one_check_is_that_of_the_command_line_of_python_and_of_a_file(call, message):
    with pytest.raises(UsageError) as refused:
        call()
    assert str(refused.value).startswith(message)


def test_options_and_settings_of_a_file_are_one_mechanism():
    assert settings_of(Dummy)["depth_key"].metadata["check"](4) == 4


def test_what_only_executes_is_no_part_of_the_identity_of_a_comparison(tmp_path):
    usual = Request(tmp_path / "a", tmp_path / "b")
    others = {"workers": 3, "scheduler": "h", "top": 1, "exit_zero": True, "log_each": True, "resume": False}
    assert set(others) == {name for name, each in declared(CompareOptions).items() if each.role == EXECUTION}
    for name, value in others.items():
        assert identity_of(Request(tmp_path / "a", tmp_path / "b", **{name: value})) == identity_of(usual), name
    for name, value in {"steps": (1,), "fuzzy": True, "html": True, "format": "csv", "output": tmp_path}.items():
        assert identity_of(Request(tmp_path / "a", tmp_path / "b", **{name: value})) != identity_of(usual), name


def test_every_option_of_a_command_is_declared():
    """A field without a declaration would be in no parser."""
    from importlib import import_module

    for verb in VERBS.values():
        options = import_module(verb.module).Options
        assert {each.name for each in fields(options)} == set(declared(options))
