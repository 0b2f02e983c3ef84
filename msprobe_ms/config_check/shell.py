"""The options of a training out of the shell script that launches it. Nothing of the script is run.

A command counts that starts ranks (`msrun`, `torchrun`, `deepspeed`, `python -m torch.distributed.launch`) or a Python
script. Variables, blocks of arguments (`$MODEL_ARGS`) and arrays (`"${MODEL_ARGS[@]}"`) are put in as they were
assigned last before the command; values of a running shell (`$(nproc)`, `$1`) remain as written.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby

_LAUNCHERS = ("msrun", "torchrun", "deepspeed", "mpirun", "accelerate")
_MODULES = ("torch.distributed.launch", "torch.distributed.run", "mindspore.parallel.cluster.run")
_PYTHON = re.compile(r"python[0-9.]*|\$\{?PYTHON\}?", re.IGNORECASE)
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.DOTALL)
_VARIABLE = re.compile(
    r"\$(?:(?P<plain>[A-Za-z_]\w*)|\{(?P<name>[A-Za-z_]\w*)(?:\[[@*]\])?(?::?-(?P<default>[^{}]*))?\})"
)
_OPTION = re.compile(r"--([A-Za-z][\w.-]*)(?:=(.*))?", re.DOTALL)
_NUMBER = re.compile(r"-\.?\d.*")
_ORDINARY = re.compile(r"[^\s\\'\"`$;|&<>()#=]+=?")
_ENDS = "\n;|&<>()"

_MOST_WORDS = 100_000  # of a script after its variables were expanded: blocks may contain blocks
_MOST_CHARACTERS = 10_000_000

Value = str | bool | list[str]


class TooLong(Exception):
    """A script that grows beyond all bounds when its variables are put in."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of a word in one kind of quotes; in `'` nothing is put in, without quotes the result falls into words."""

    text: str
    quote: str = ""


_Word = list[_Piece]


@dataclass
class _Shell:
    """The assignments so far; an array is the list of its words."""

    variables: dict[str, list[str]] = field(default_factory=dict)
    size: int = 0

    def assign(self, name: str, values: list[str], is_added: bool) -> None:
        self.variables[name] = [*self.variables.get(name, ()), *values] if is_added else values

    def expand(self, word: _Word) -> list[str]:
        """Return the words to which a word expands."""
        done: list[str] = []
        parts: list[str] = []  # of the word that is expanded
        has_text = False
        for piece in word:
            array = None if piece.quote == "'" else _VARIABLE.fullmatch(piece.text)
            if piece.quote and array and "[" in piece.text and array["name"] in self.variables:
                done += self.variables[array["name"]]  # each element is a word
                continue
            text = piece.text if piece.quote == "'" else self._put_in(piece.text)
            if piece.quote:
                parts.append(text)
                has_text = True
                continue
            first, *rest = re.split(r"[ \t\r\n]+", text) if text else [""]
            parts.append(first)
            has_text = has_text or bool(first)
            for each in rest:
                done += ["".join(parts)] if has_text else []
                parts, has_text = [each], bool(each)
        made = "".join(parts)
        self.size += sum(map(len, done)) + len(made)
        if self.size > _MOST_CHARACTERS:
            raise TooLong
        return [*done, made] if has_text else done

    def _put_in(self, text: str) -> str:
        def value(found: "re.Match[str]") -> str:
            held = self.variables.get(found["plain"] or found["name"])
            if held is not None:
                return " ".join(held)
            return found[0] if found["default"] is None else found["default"]

        return _VARIABLE.sub(value, text)


def options_of(script: str, assigned: dict[str, list[str]] | None = None) -> Iterator[tuple[str, Value]]:
    """Return the options of each command that launches a training, in order; without a value, true. Raises TooLong.

    `assigned` receives the variables of the script, with their last values.
    """
    shell = _Shell() if assigned is None else _Shell(assigned)
    for command in _commands(script):
        words = _after_assignments(command, shell)
        expanded = [each for word in words for each in shell.expand(word)]
        if len(expanded) > _MOST_WORDS:
            raise TooLong
        yield from _options(expanded[_launcher(expanded) :])


def _after_assignments(command: list[_Word], shell: _Shell) -> list[_Word]:
    """Apply the assignments of a command (also after `export`, and before the command itself); return its words."""
    words = iter(command)
    kept: list[_Word] = []
    for word in words:
        head = word[0] if word else _Piece("")
        found = None if kept or head.quote else _ASSIGNMENT.fullmatch(head.text)
        if found:
            value = [_Piece(found[3]), *word[1:]]
            is_array = len(word) > 1 and word[1].quote == "("
            if is_array:
                inner = [each for sub in _commands(word[1].text) for one in sub for each in shell.expand(one)]
                shell.assign(found[1], inner, bool(found[2]))
            else:
                shell.assign(found[1], [" ".join(shell.expand([_quoted(piece) for piece in value]))], bool(found[2]))
        elif kept or head.text not in ("export", "declare", "local", "readonly", "env", "exec", "nohup", "time"):
            kept.append(word)
    return kept


def _quoted(piece: _Piece) -> _Piece:
    """Raised for an assigned value that cannot be split into words."""
    return piece if piece.quote else _Piece(piece.text, '"')


def _launcher(words: list[str]) -> int:
    """Return the number of words before the options; of all words if nothing is launched."""
    for at, word in enumerate(words):
        name = word.rpartition("/")[2]
        if name in _LAUNCHERS:
            return at + 1
        if _PYTHON.fullmatch(name):
            rest = words[at + 1 :]
            for place, each in enumerate(rest):
                if each.endswith(".py") or (each in _MODULES and rest[place - 1 : place] == ["-m"]):
                    return at + 2 + place
            if "-m" in rest[:-1]:
                return at + 3 + rest.index("-m")
    return len(words)


def _options(words: list[str]) -> Iterator[tuple[str, Value]]:
    name, values = "", []
    for word in [*words, "--"]:
        found = _OPTION.fullmatch(word)
        is_short = word.startswith("-") and not _NUMBER.fullmatch(word)
        if not (found or is_short or word.endswith(".py")):
            values.append(word)
            continue
        if name:
            yield name, True if not values else values[0] if len(values) == 1 else values
        name, values = "", []
        if found and found[2] is not None:
            yield found[1], found[2]
        elif found:
            name = found[1]


def _commands(script: str) -> Iterator[list[_Word]]:
    """Return the commands of a script as words in pieces, without comments and redirections."""
    text = script.replace("\r\n", "\n")
    command: list[_Word] = []
    word: _Word = []
    is_redirected = False  # the next word is the file of a redirection
    at = 0
    while at < len(text):
        c = text[at]
        if c == "#" and not word:
            at = _end_of_line(text, at)
            continue
        if c in "(<>":
            word = _merged(word)
        if c == "(" and len(word) == 1 and word[0].text.endswith("=") and not word[0].quote:
            end = _closing(text, at)
            word.append(_Piece(text[at + 1 : end], "("))
            at = end + 1
            continue
        if c not in " \t" and c not in _ENDS:
            piece, at = _piece(text, at)
            if piece is not None:
                word.append(piece)
            continue
        if c in "<>" and word and word[-1].text.isdecimal() and not word[-1].quote and len(word) == 1:
            word = []  # the number of a stream
        if word:
            command += [] if is_redirected else [_merged(word)]
            word, is_redirected = [], False
        if c in "<>":
            is_redirected = True
        elif c == "&" and text[at - 1 : at] in ("<", ">"):
            pass
        elif c not in " \t" and not (c == "&" and text[at + 1 : at + 2] == ">"):
            yield command
            command, is_redirected = [], False
        at += 1
    if word and not is_redirected:
        command.append(_merged(word))
    yield command


def _merged(word: _Word) -> _Word:
    """Return the word, with adjacent parts without quotes joined."""
    found: _Word = []
    for quote, group in groupby(word, key=lambda piece: piece.quote):
        pieces = list(group)
        found += pieces if quote else [_Piece("".join(piece.text for piece in pieces))]
    return found


def _piece(text: str, at: int) -> "tuple[_Piece | None, int]":
    """Return the part of a word that begins at a position, and the position of its end."""
    c = text[at]
    if c == "\\":
        following = text[at + 1 : at + 2]
        return (None if following == "\n" else _Piece(following, "'")), at + 2
    if c == "'":
        end = text.find("'", at + 1)
        end = len(text) if end < 0 else end
        return _Piece(text[at + 1 : end], "'"), end + 1
    if c == '"':
        return _double_quoted(text, at + 1)
    if text.startswith(("$(", "`"), at):  # a value of a running shell
        end = _closing(text, at + 1) if c == "$" else (text.find("`", at + 1) if "`" in text[at + 1 :] else len(text))
        return _Piece(text[at : end + 1], "'"), end + 1
    if text.startswith("${", at):
        end = text.find("}", at)
        end = len(text) - 1 if end < 0 else end
        return _Piece(text[at : end + 1]), end + 1
    found = _ORDINARY.match(text, at)
    return (_Piece(found[0]), found.end()) if found else (_Piece(c), at + 1)


def _double_quoted(text: str, at: int) -> tuple[_Piece, int]:
    held: list[str] = []
    while at < len(text) and text[at] != '"':
        if text[at] == "\\" and text[at + 1 : at + 2] in ('"', "\\", "$", "`", "\n"):
            held.append("" if text[at + 1] == "\n" else text[at + 1])
            at += 2
        else:
            held.append(text[at])
            at += 1
    return _Piece("".join(held), '"'), at + 1


def _closing(text: str, at: int) -> int:
    """Return the position of the closing parenthesis; the end if there is none."""
    depth = 0
    for place in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if not depth:
            return place
    return len(text)


def _end_of_line(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def joined(pairs: Iterable[tuple[str, object]]) -> dict[str, object]:
    """Return settings by name; a name with several values has all of them."""
    values: dict[str, list[object]] = {}
    for name, value in pairs:
        held = values.setdefault(name, [])
        if not any(type(each) is type(value) and each == value for each in held):
            held.append(value)
    return {
        name: held[0] if len(held) == 1 else {"description": "duplicate_value", "values": held}
        for name, held in values.items()
    }
