"""The parser of a command line and its help, made from the declarations. `argparse` splits words and lays out helps."""

import argparse
import os
from collections.abc import Sequence
from typing import Any, NoReturn, TypeVar

from msprobe.base.checks import nearest
from msprobe.base.errors import SettingsError, UsageError
from msprobe.base.language import translated
from msprobe.base.log import terminal_line

from .aliases import aliases_of
from .declaration import Option, OptionGroup, declared, groups_of

_Made = TypeVar("_Made", bound=OptionGroup)

_POSITIONAL = "positional arguments"
"""The name of the list of all of them: no field can have it, for it has a space."""

_FORMS: dict[object, dict[str, Any]] = {
    "none": {"action": "store_true"},
    "one": {},
    "optional": {"nargs": "?", "const": True},
    "any": {"nargs": "*"},
    "several": {"nargs": "+"},
    "repeated": {"action": "append"},
    "switch": {"action": argparse.BooleanOptionalAction},
}


class _Parser(argparse.ArgumentParser):
    """A parser that raises UsageError."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """A help whose every option has its flags and the name of its value once."""

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings:
            return super()._format_action_invocation(action)
        name = self._format_args(action, action.dest.upper()) if action.nargs != 0 else ""
        shown = getattr(action, "shown", action.option_strings)
        return f"{', '.join(shown)} {name}".rstrip()


def parsed(prog: str, cls: type[_Made], words: Sequence[str], description: str = "", verb: str = "") -> _Made:
    """Return the options that a command line gives; UsageError where it is wrong. `-h` prints the help and exits.

    `verb` decides which aliases are accepted; it is part of `prog`, unless the command was started by another name.
    """
    command: Sequence[str] = ()
    if _has_command(cls) and _SEPARATOR in words:
        at = list(words).index(_SEPARATOR)
        words, command = words[:at], words[at:]
    # Words after the script are the script's own; those of a command line are after the separator.
    takes_rest = not _has_command(cls) and any(each.kind.form == "rest" for each in declared(cls).values())
    parser = parser_of(prog, cls, description, verb or prog.removeprefix("msprobe "), takes_rest=takes_rest)
    parse = parser.parse_known_args if takes_rest else parser.parse_known_intermixed_args
    try:
        found, extra = parse(list(words))
    except argparse.ArgumentError as err:
        raise UsageError(_wrong_count(err, parser) + _see(prog)) from err
    given = vars(found)
    for word in extra:
        if word.startswith("-"):
            raise UsageError(f"{_unknown(word, cls)}{_see(prog)}")
    values = _positionals(prog, cls, [*given.pop(_POSITIONAL, ()), *extra], command)
    options = declared(cls)
    for name, raw in given.items():
        values[name] = _value(options[name], raw)
    if missing := [each.label for name, each in options.items() if each.is_required and name not in values]:
        names = ", ".join(missing)
        raise UsageError(translated(f"missing: {names}", f"缺少：{names}") + _see(prog))
    made = cls(**values)
    made.check()
    return made


_SEPARATOR = "--"
"""The word between the options of a command and the command line that it runs."""


def _has_command(cls: type[OptionGroup]) -> bool:
    """Return whether a command runs another command line, which is given after the separator."""
    return any(
        each.kind.form == "rest" and each.metavar.startswith(f"{_SEPARATOR} ") for each in declared(cls).values()
    )


def parser_of(
    prog: str, cls: type[OptionGroup], description: str, verb: str, *, takes_rest: bool = True
) -> argparse.ArgumentParser:
    """Return the parser of a command; `takes_rest`: words after the first one without a flag may be those of another
    command line, if this one has such an argument."""
    parser = _Parser(
        prog=prog,
        usage=_usage(prog, cls),
        description=description,
        formatter_class=_Formatter,
        allow_abbrev=False,
        exit_on_error=False,
        add_help=False,
    )
    for title, options in groups_of(cls):
        group = parser.add_argument_group(translated(*title))
        _add_positionals(group, options)
        for name, each in options.items():
            if each.flags:
                flags = (*each.flags, *aliases_of(verb, each.flags))
                action = group.add_argument(*flags, dest=name, **_arguments(each))
                action.shown = each.flags  # type: ignore[attr-defined]  # for the help
    takes_rest = takes_rest and any(each.kind.form == "rest" for each in declared(cls).values())
    parser.add_argument(
        _POSITIONAL, nargs=argparse.REMAINDER if takes_rest else "*", default=argparse.SUPPRESS, help=argparse.SUPPRESS
    )
    for flag, (english, chinese) in cls.REFUSED.items():
        parser.add_argument(
            flag,
            action=_Refused,
            nargs="*",
            default=argparse.SUPPRESS,
            help=argparse.SUPPRESS,
            reason=(english, chinese),
        )
    last = parser.add_argument_group(translated("help", "帮助"))
    last.add_argument("-h", "--help", action="help", help=translated("show this help and exit", "显示本帮助并退出"))
    return parser


class _Shown(argparse.Action):
    """A positional argument in the help; its value is read with those of the others."""

    def __call__(self, *_: object) -> None:
        raise AssertionError("this action is in the help only")


def _add_positionals(group: Any, options: dict[str, Option]) -> None:
    """Show positional arguments, which one list reads: argparse would assign them before it has seen all options."""
    for each in options.values():
        if each.is_positional:
            action = _Shown([], each.metavar, nargs=None, metavar=each.metavar, help=_escaped(each.described()))
            group._group_actions.append(action)


class _Refused(argparse.Action):
    """A flag that is known and refused."""

    def __init__(self, *args: Any, reason: tuple[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.reason = reason

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option: str | None = None) -> None:
        raise UsageError(f"{option}: {translated(*self.reason)}")


def _arguments(each: Option) -> dict[str, Any]:
    form = each.kind.form
    arguments: dict[str, Any] = dict(_FORMS[form]) if form in _FORMS else {"nargs": form}
    if form not in ("none", "switch"):
        arguments["metavar"] = tuple(each.metavar.split()) if isinstance(form, int) else each.metavar
    text = argparse.SUPPRESS if each.is_hidden else _escaped(each.described())
    return {**arguments, "default": argparse.SUPPRESS, "help": text}


def _escaped(text: str) -> str:
    return text.replace("%", "%%")


def _usage(prog: str, cls: type[OptionGroup]) -> str:
    words = [prog]
    for each in declared(cls).values():
        if each.flags and each.is_required:
            words += [each.flags[0], each.metavar]
    last = []
    for each in declared(cls).values():
        if each.is_positional:
            last.append(_shown(each))
    options = translated("[options]", "[选项]")
    takes_rest = any(each.kind.form == "rest" for each in declared(cls).values())
    words += [options, *last] if takes_rest else [*last, options]
    return _escaped(" ".join(words))


def _shown(each: Option) -> str:
    if each.kind.form in ("any", "rest"):
        return f"[{each.metavar} ...]"
    return each.metavar if each.is_required else f"[{each.metavar}]"


def _value(each: Option, raw: Any) -> Any:
    try:
        return each.kind.read(_expanded(raw))
    except SettingsError as err:
        raise UsageError(f"{each.label}: {terminal_line(err)}") from err


def _expanded(raw: Any) -> Any:
    """Expand `~` in paths, which a shell leaves alone after an equals sign; no other value begins with it."""
    if isinstance(raw, list):
        return [os.path.expanduser(each) for each in raw]
    return os.path.expanduser(raw) if isinstance(raw, str) else raw


def _positionals(
    prog: str, cls: type[OptionGroup], words: Sequence[str], command: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the values of positional arguments, in the order of their declaration; `command` is that of the rest."""
    left, values = list(words), {}
    for name, each in declared(cls).items():
        if command and each.kind.form == "rest":
            values[name] = _value(each, list(command))
        elif not (each.is_positional and left):
            continue
        elif each.kind.form in ("any", "rest"):
            values[name] = _value(each, left)
            left = []
        else:
            values[name] = _value(each, left.pop(0))
    if left:
        raise UsageError(
            translated(
                f"{left[0]!r} is unexpected: it does not belong to any option",
                f"多余的参数 {left[0]!r}：不属于任何选项",
            )
            + _see(prog)
        )
    return values


def _wrong_count(err: argparse.ArgumentError, parser: argparse.ArgumentParser) -> str:
    """The message for an option that has too many or too few values: all else is checked here, not by `argparse`."""
    name = err.argument_name or ""
    action = next((each for each in parser._actions if "/".join(each.option_strings) == name), None)
    label = "/".join(getattr(action, "shown", ())) or name
    if action is not None and action.nargs == 0:
        return translated(f"{label}: takes no value", f"{label}：不接受值")
    return translated(f"{label}: {err.message}", f"{label}：缺少值或值的个数不对")


def _unknown(word: str, cls: type[OptionGroup]) -> str:
    flag = word.partition("=")[0]
    known = [flag for each in declared(cls).values() for flag in each.flags if flag.startswith("--")]
    bare = {each.lstrip("-"): each for each in known}
    near = bare.get(nearest(flag.lstrip("-"), bare), "")
    english = f"unknown option {flag}" + (f"; did you mean {near}?" if near else "")
    return translated(english, f"未知选项 {flag}" + (f"；是否指 {near}？" if near else ""))


def _see(prog: str) -> str:
    return translated(f" ({prog} -h shows the options)", f"（{prog} -h 显示所有选项）")
