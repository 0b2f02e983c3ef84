"""How a field of a dataclass becomes an option, and what is read from the declaration.

`setting` of `base.setting` gives a field its check and its key in a file; `option` adds its flags on a command line,
its keyword in Python, its help in English and Chinese, the page that describes it, and what depends on it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from inspect import get_annotations
from typing import Any, ClassVar, Literal, NamedTuple

from msprobe.base.checks import nearest
from msprobe.base.errors import SettingsError, UsageError
from msprobe.base.language import translated
from msprobe.base.setting import setting

from .kinds import Kind

_OPTION = "option"

Role = Literal["result", "output", "execution"]
RESULT: Role = "result"
OUTPUT: Role = "output"
EXECUTION: Role = "execution"


class Option(NamedTuple):
    """The declaration of one option.

    `flags` has the canonical one first; a positional argument and a value of a request file have none. `keyword` is the
    name in Python, `key` that in a request file. `page` is the page of the documentation below `docs/en`, with an
    anchor. `role` says what depends on it. RESULT: what is found; such options are in the command that a report
    shows. OUTPUT: what is written. EXECUTION: neither; such options are not part of the identity of a task that can be
    resumed. `is_hidden`: it is accepted without an effect, for mindstudio-probe's users, and not in the help.
    """

    kind: Kind
    flags: tuple[str, ...] = ()
    help: str = ""
    zh: str = ""
    metavar: str = ""
    keyword: str = ""
    key: str = ""
    page: str = ""
    role: Role = RESULT
    is_required: bool = False
    is_positional: bool = False
    may_be_empty: bool = False
    is_hidden: bool = False
    default: Any = None

    @property
    def label(self) -> str:
        """The name for a message: `-o/--output`, or that of a positional argument."""
        return "/".join(self.flags) if self.flags else self.metavar

    @property
    def long_flag(self) -> str:
        """The flag for a command that a person reads."""
        return next((flag for flag in self.flags if flag.startswith("--")), self.flags[0])

    def described(self) -> str:
        """The help in the language of the user, with the default."""
        return f"{translated(self.help, self.zh)}{default_of(self)}"

    def words(self, value: Any) -> list[str]:
        """Return the words of a command line that give this value."""
        return self.kind.words(self.flags[0], value) if self.flags else [str(value)]

    def given(self, value: Any) -> Any:
        """Return what `kind.read` makes this value of: True, a word, or several."""
        words = self.words(value)
        if self.kind.form == "repeated":
            return words[1::2]
        if self.kind.form in ("one", "optional", "none"):
            return words[1] if len(words) > 1 else True
        return words[1:]


def default_of(declared: Option) -> str:
    """Return `; default: VALUE` for the help of an option that has one, in the language of the user."""
    default = declared.default
    if not default or isinstance(default, bool | tuple):
        return ""
    return translated(f"; default: {default}", f"；默认：{default}")


def option(
    kind: Kind,
    *flags: str,
    default: Any = None,
    help: str = "",
    zh: str = "",
    metavar: str = "",
    keyword: str = "",
    key: str = "",
    page: str = "",
    role: Role = RESULT,
    required: bool = False,
    may_be_empty: bool = False,
    hidden: bool = False,
) -> Any:
    """A field that is an option; the parameters are the fields of `Option`, `required` has no default."""
    made = Option(
        kind,
        flags,
        help,
        zh,
        metavar or kind.metavar,
        keyword,
        key,
        page,
        role,
        required,
        may_be_empty=may_be_empty,
        is_hidden=hidden,
        default=None if required else default,
    )
    return setting(kind.check, MISSING if required else default, key=key, option=made)


def positional(
    kind: Kind, metavar: str, *, default: Any = MISSING, help: str = "", zh: str = "", page: str = "", key: str = ""
) -> Any:
    """A field that is an argument without a flag; it must be given where it has no default."""
    is_required = default is MISSING
    made = Option(
        kind,
        (),
        help,
        zh,
        metavar,
        key=key,
        page=page,
        is_required=is_required,
        is_positional=True,
        default=None if is_required else default,
    )
    return setting(kind.check, default, key=key, option=made)


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class OptionGroup:
    """The options of a command, or a group of options.

    `TITLE` is the heading of the group in a help, in English and Chinese. `REFUSED` are flags of mindstudio-probe that
    this version does not have, with what to do instead in English and Chinese.
    """

    TITLE: ClassVar[tuple[str, str]] = ("options", "选项")
    REFUSED: ClassVar[Mapping[str, tuple[str, str]]] = {}

    def check(self) -> None:
        """Raise UsageError where options contradict each other; each group checks its own and calls the next one."""


def declared(cls: type) -> dict[str, Option]:
    """Return the options of a class by the names of their fields."""
    return {each.name: made for each, made in _declared(cls)}


def _declared(cls: type) -> Iterator[tuple["Field[Any]", Option]]:
    for each in fields(cls):
        if _OPTION in each.metadata:
            yield each, each.metadata[_OPTION]


def groups_of(cls: type[OptionGroup]) -> list[tuple[tuple[str, str], dict[str, Option]]]:
    """Return the options in groups with their titles: those of the class itself, then those of its bases in order.

    Groups of the same title are one.
    """
    left = declared(cls)
    found: dict[tuple[str, str], dict[str, Option]] = {}
    for each in cls.__mro__:
        own = [name for name in get_annotations(each) if name in left]
        if own:
            title = each.__dict__.get("TITLE") or OptionGroup.TITLE
            found.setdefault(title, {}).update({name: left.pop(name) for name in own})
    return list(found.items())


def command_of(verb: str, options: OptionGroup) -> list[str]:
    """Return the command line of the options that decide what is found and are not at their default."""
    words, flagged = ["msprobe", *verb.split()], []
    every = {name: each for _, group in groups_of(type(options)) for name, each in group.items()}
    for name, each in every.items():
        value = getattr(options, name)
        if each.role != RESULT or value is None or value == each.default:
            continue
        if each.is_positional:
            words += each.words(value)
        elif each.flags:
            flagged += each.words(value)
    return words + flagged


def from_keywords(cls: type[OptionGroup], call: str, given: Mapping[str, object]) -> dict[str, Any]:
    """Return the values of keywords of a Python call, by the names of their fields; None is the same as not given.

    UsageError for a keyword that is unknown, or has an invalid value; `call` is the name of the function.
    """
    known = {each.keyword: (name, each) for name, each in declared(cls).items() if each.keyword}
    values = {}
    for keyword, value in given.items():
        if keyword not in known:
            near = nearest(keyword, known)
            hint = f"did you mean {near}?" if near else f"choose from {', '.join(sorted(known))}"
            raise UsageError(f"{call}: unknown keyword {keyword}; {hint}")
        name, each = known[keyword]
        if value is None and each.default is None:
            continue
        try:
            values[name] = each.kind.check(value)
        except SettingsError as err:
            raise UsageError(f"{call}: {keyword}: {err}") from err
    return values


def from_file(cls: type[OptionGroup], contents: Mapping[str, object], where: str) -> dict[str, Any]:
    """Return the values of a request file, by the names of their fields; null is the same as not given.

    UsageError for an invalid value; `where` is the name of the file. Keys that are unknown are left to the caller.
    """
    values = {}
    for name, each in declared(cls).items():
        value = contents.get(each.key) if each.key else None
        if value is None:
            continue
        try:
            values[name] = each.kind.check(value)
        except SettingsError as err:
            raise UsageError(f"{where}: {each.key}: {err}") from err
    return values


def keys_of(cls: type[OptionGroup]) -> tuple[str, ...]:
    """Return the keys of a request file."""
    return tuple(each.key for each in declared(cls).values() if each.key)
