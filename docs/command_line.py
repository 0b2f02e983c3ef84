"""Write the reference page of the command line, in English and Chinese, from the declarations of the options.

python docs/command_line.py     writes reference/command-line.md below docs/en and docs/zh
"""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from msprobe.cli import GROUPS, OLDER, VERBS
from msprobe.options.aliases import ALIASES
from msprobe.options.page import options_table

HERE = Path(__file__).parent

TEXTS = {
    "en": {
        "title": "Command line",
        "intro": (
            "This page lists all commands and their options. It is generated from the declarations in the code "
            "(`make options`). The columns for Python and files have the keyword of `compare` and the key of a "
            "compare.json with the same meaning.\n\n"
            "Helps, and errors in the options of a command, are in Chinese where `MSPROBE_LANG=zh` is set or, without "
            "`MSPROBE_LANG`, the locale is Chinese. Answers, and errors in the contents of files, are in English.\n\n"
            "`msprobe completion bash`, `zsh` or `fish` prints a script that completes commands, options and values in "
            "that shell: write it into the shell's start file, for example `msprobe completion bash >> ~/.bashrc`."
        ),
        "users": "For users of mindstudio-probe",
        "older": (
            "Commands and options of mindstudio-probe 8.1 and 26 are accepted and mean the same as the canonical ones; "
            "helps do not show them. `own` is an earlier spelling of this tool. `msprobe -f FRAMEWORK compare ...` of "
            "8.1 is accepted too. What is not available is on [its page](not-available.md)."
        ),
        "commands": ("accepted", "canonical", "from"),
        "flags": ("accepted", "canonical", "from", "commands"),
        "all": "all that have it",
        "graph": "another command, which writes the JSON of msprobe 8.1",
    },
    "zh": {
        "title": "命令行",
        "intro": (
            "本页列出所有命令及其选项，由代码中的声明生成（`make options`）。Python 与文件两列是含义相同的 `compare` "
            "关键字和 compare.json 的键。\n\n"
            "设置 `MSPROBE_LANG=zh` 时，帮助和有关选项的报错为中文；未设置 `MSPROBE_LANG` 时取决于系统 locale。"
            "结论以及有关文件内容的报错为英文。\n\n"
            "`msprobe completion bash`（或 `zsh`、`fish`）打印在该 shell 中补全命令、选项和取值的脚本，"
            "请写入 shell 的启动文件，例如 `msprobe completion bash >> ~/.bashrc`。"
        ),
        "users": "mindstudio-probe 用户须知",
        "older": (
            "mindstudio-probe 8.1 和 26 的命令与选项均可使用，含义与标准写法相同，但帮助中不列出。"
            "`own` 表示本工具以前的写法。8.1 的 `msprobe -f FRAMEWORK compare ...` 也可使用。"
            "不支持的内容见[该页](not-available.md)。"
        ),
        "commands": ("可用写法", "标准写法", "来源"),
        "flags": ("可用写法", "标准写法", "来源", "命令"),
        "all": "所有具有该选项的命令",
        "graph": "另一个命令，写出 msprobe 8.1 的 JSON",
    },
}


def page(lang: str) -> str:
    """Return the page in one of the languages."""
    return "\n".join(_lines(lang)).rstrip() + "\n"


def _lines(lang: str) -> Iterator[str]:
    texts = TEXTS[lang]
    yield from (f"# {texts['title']}", "", texts["intro"], "")
    for group, title in GROUPS.items():
        yield from (f"## {title[lang == 'zh'].capitalize()}", "")
        for name, verb in VERBS.items():
            if verb.group != group or verb.is_older:
                continue
            yield from (f"### msprobe {name}", "", f"{verb.zh if lang == 'zh' else _sentence(verb.summary)}", "")
            yield from options_table(import_module(verb.module).Options, lang, has_keywords=name == "compare")
    yield from (f"## {texts['users']}", "", texts["older"], "")
    rows = [(f"`{older}`", f"`{canonical}`", since) for older, (canonical, since) in OLDER.items()]
    yield from _table(texts["commands"], [*rows, ("`graph`", texts["graph"], "8.1")])
    yield ""
    rows = [
        (f"`{each.flag}`", f"`{each.canonical}`", each.since, ", ".join(f"`{v}`" for v in each.verbs) or texts["all"])
        for each in ALIASES
    ]
    yield from _table(texts["flags"], rows)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)


if __name__ == "__main__":
    for language in TEXTS:
        (HERE / language / "reference" / "command-line.md").write_text(page(language), "utf-8")
