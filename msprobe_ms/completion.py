"""Print a script that completes commands, options and values in a shell.

  msprobe completion bash >> ~/.bashrc
  msprobe completion zsh >> ~/.zshrc
  msprobe completion fish > ~/.config/fish/completions/msprobe.fish

The script has all commands and options of this version; print it again after an update.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from shlex import quote

from msprobe.cli import OLDER, VERBS
from msprobe.options.declaration import Option, OptionGroup, declared, positional
from msprobe.options.kinds import one_of

SHELLS = ("bash", "zsh", "fish")


@dataclass(frozen=True, kw_only=True)
class Options(OptionGroup):
    """The options of the command."""

    shell: str = positional(one_of(*SHELLS), "{bash,zsh,fish}", help="the shell", zh="所用的 shell")


def run(options: Options) -> int:
    """Print the script."""
    print(SCRIPTS[options.shell](), end="")
    return 0


def _options_with_flags(verb: str) -> list[Option]:
    """Return the options of a verb that have flags."""
    return [
        each
        for each in declared(import_module(VERBS[verb].module).Options).values()
        if each.flags and not each.is_hidden
    ]


def _names(verb: str) -> list[str]:
    """Return the verb and its older names."""
    return [verb, *(older for older, (name, _) in OLDER.items() if name == verb)]


def _first_words() -> list[str]:
    """Return the words that can follow `msprobe`."""
    return list(dict.fromkeys(verb.split()[0] for verb, each in VERBS.items() if not each.is_older))


def _subcommands() -> dict[str, list[str]]:
    """Return the second words of verbs with two words, by the first word."""
    found: dict[str, list[str]] = {}
    for verb in VERBS:
        first, _, second = verb.partition(" ")
        if second:
            found.setdefault(first, []).append(second)
    return found


def _summary(first: str) -> str:
    return VERBS[first].described() if first in VERBS else ", ".join(_subcommands()[first])


def bash() -> str:
    """Return the script for bash."""
    lines = [
        "_msprobe() {",
        '    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} verb="" words="" values="" i',
        "    COMPREPLY=()",
        "    for ((i = 1; i < COMP_CWORD; i++)); do",
        '        case "${COMP_WORDS[i]}" in',
        "            -f|--framework) ((i++)) ;;",
        "            -*) ;;",
        '            *) verb="${COMP_WORDS[i]}"; break ;;',
        "        esac",
        "    done",
        f'    if [[ " {" ".join(_subcommands())} " == *" $verb "* ]] && ((i + 1 < COMP_CWORD)); then',
        '        verb="$verb ${COMP_WORDS[i+1]}"',
        "    fi",
        '    case "$verb" in',
        f'        "") words={quote(" ".join((*_first_words(), "-h", "--help", "--version", "--framework")))} ;;',
        *(f"        {first}) words={quote(' '.join(inner))} ;;" for first, inner in _subcommands().items()),
    ]
    for verb in VERBS:
        options = _options_with_flags(verb)
        flags = " ".join([flag for each in options for flag in each.flags] + ["-h", "--help"])
        lines += [f"        {'|'.join(map(quote, _names(verb)))})", f"            words={quote(flags)}"]
        choices = [(each.flags, each.kind.choices) for each in options if each.kind.choices]
        if choices:
            lines.append('            case "$prev" in')
            lines += [
                f"                {'|'.join(flags)}) values={quote(' '.join(values))} ;;" for flags, values in choices
            ]
            lines.append("            esac")
        lines.append("            ;;")
    lines += [
        "    esac",
        '    if [[ -n "$values" ]]; then',
        '        COMPREPLY=($(compgen -W "$values" -- "$cur"))',
        f'    elif [[ "$cur" == -* || -z "$verb" || " {" ".join(_subcommands())} " == *" $verb "* ]]; then',
        '        COMPREPLY=($(compgen -W "$words" -- "$cur"))',
        "    fi",
        "}",
        "complete -o default -F _msprobe msprobe",
    ]
    return "\n".join(lines) + "\n"


def _escape_for_zsh(text: str) -> str:
    """Escape a text for brackets in a specification of `_arguments`."""
    for character in "\\[]:":
        text = text.replace(character, f"\\{character}")
    return text


def _specifications(verb: str) -> Iterator[str]:
    for each in _options_with_flags(verb):
        value = ""
        if each.kind.form not in ("none", "switch"):
            action = f"({' '.join(each.kind.choices)})" if each.kind.choices else "_files"
            value = f"{'::' if each.kind.form == 'optional' else ':'}{_escape_for_zsh(each.metavar)}:{action}"
        others = "*" if each.kind.form == "repeated" else f"({' '.join(each.flags)})"
        for flag in each.flags:
            yield f"{others}{flag}[{_escape_for_zsh(each.described())}]{value}"
    yield "*:file:_files"


def zsh() -> str:
    """Return the script for zsh."""

    def described(summaries: Mapping[str, str]) -> str:
        return " ".join(quote(f"{name}:{summary}") for name, summary in summaries.items())

    lines = [
        "#compdef msprobe",
        "_msprobe() {",
        "    local -a verbs",
        "    if (( CURRENT == 2 )); then",
        f"        verbs=({described({first: _summary(first) for first in _first_words()})})",
        "        _describe verb verbs",
        "        return",
        "    fi",
        "    shift words; (( CURRENT-- ))",
    ]
    for first, inner in _subcommands().items():
        in_full = described({second: VERBS[f"{first} {second}"].described() for second in inner})
        lines += [
            f"    if [[ $words[1] == {first} ]]; then",
            "        if (( CURRENT == 2 )); then",
            f"            verbs=({in_full})",
            "            _describe verb verbs",
            "            return",
            "        fi",
            '        words[2]="$words[1] $words[2]"',
            "        shift words; (( CURRENT-- ))",
            "    fi",
        ]
    lines.append('    case "$words[1]" in')
    for verb in VERBS:
        specifications = " \\\n                ".join(map(quote, _specifications(verb)))
        lines += [f"        {'|'.join(map(quote, _names(verb)))})", f"            _arguments {specifications} ;;"]
    lines += ["    esac", "}", "compdef _msprobe msprobe"]
    return "\n".join(lines) + "\n"


def fish() -> str:
    """Return the script for fish."""
    inner = " ".join(_subcommands())
    lines = [
        "function __msprobe_verb",
        "    set -l words (commandline -opc)",
        "    set -e words[1]",
        "    while set -q words[1]",
        '        switch "$words[1]"',
        "            case -f --framework",
        "                set -e words[1]",
        "            case '-*'",
        "            case '*'",
        f'                if contains -- "$words[1]" {inner}; and set -q words[2]',
        '                    echo "$words[1] $words[2]"',
        "                else",
        '                    echo "$words[1]"',
        "                end",
        "                return",
        "        end",
        "        set -e words[1]",
        "    end",
        "end",
        "function __msprobe_is",
        '    contains -- (__msprobe_verb; or echo "") $argv',
        "end",
        "function __msprobe_has_no_verb",
        '    test -z (__msprobe_verb | string collect; or echo "")',
        "end",
        "complete -c msprobe -n __msprobe_has_no_verb -f",
    ]
    for first in _first_words():
        lines.append(
            f"complete -c msprobe -n __msprobe_has_no_verb -f -a {first} -d {_quote_for_fish(_summary(first))}"
        )
    for first, seconds in _subcommands().items():
        for second in seconds:
            text = _quote_for_fish(VERBS[f"{first} {second}"].described())
            lines.append(f"complete -c msprobe -n '__msprobe_is {first}' -f -a {second} -d {text}")
    for verb in VERBS:
        condition = _quote_for_fish("__msprobe_is " + " ".join(f'"{name}"' for name in _names(verb)))
        for each in _options_with_flags(verb):
            flags = " ".join(_fish_flag(flag) for flag in each.flags)
            value = ""
            if each.kind.choices:
                value = f" -x -a {_quote_for_fish(' '.join(each.kind.choices))}"
            elif each.kind.form not in ("none", "switch", "optional"):
                value = " -r -F"
            lines.append(f"complete -c msprobe -n {condition} {flags}{value} -d {_quote_for_fish(each.described())}")
    return "\n".join(lines) + "\n"


def _fish_flag(flag: str) -> str:
    if flag.startswith("--"):
        return f"-l {flag[2:]}"
    return f"-s {flag[1:]}" if len(flag) == 2 else f"-o {flag[1:]}"


def _quote_for_fish(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


SCRIPTS: dict[str, Callable[[], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
