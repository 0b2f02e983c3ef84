"""The reference page of all commands and their options, made from the declarations.

python -m msprobe.options.page docs     writes docs/en and docs/zh reference/command-line.md
"""

from collections.abc import Iterator

from .declaration import Option, OptionGroup, groups_of

_HEADS = {
    "en": ("option", "description", "default", "Python keyword", "key in a file"),
    "zh": ("选项", "说明", "默认", "Python 关键字", "文件中的键"),
}


def options_table(cls: type[OptionGroup], lang: str, has_keywords: bool) -> Iterator[str]:
    """Yield the lines of the tables of a command, one for each group; columns without a value are left out.

    `has_keywords`: there is a Python function, and a request file, with the same options.
    """
    for title, options in groups_of(cls):
        rows = [_row(each, lang) for each in options.values() if each.flags or each.is_positional or has_keywords]
        rows = rows if has_keywords else [row[:3] for row in rows]
        if not rows:
            continue
        used = [at for at in range(len(rows[0])) if at < 2 or any(row[at] for row in rows)]
        yield f"**{title[lang == 'zh']}**"
        yield ""
        yield _line([_HEADS[lang][at] for at in used])
        yield _line(["---"] * len(used), "|")
        yield from (_line([row[at] for at in used]) for row in rows)
        yield ""


def _line(cells: list[str], separator: str = " | ") -> str:
    return f"|{separator.join(cells)}|" if separator == "|" else f"| {separator.join(cells)} |"


def _row(each: Option, lang: str) -> tuple[str, ...]:
    value = "" if each.kind.form in ("none", "switch") or each.is_positional else each.metavar
    if each.kind.form == "optional":
        value = f"[{value}]"
    flags = "、".join if lang == "zh" else ", ".join
    names = [f"`{flag}`" for flag in each.flags[:-1]] + [f"`{f'{flag} {value}'.strip()}`" for flag in each.flags[-1:]]
    name = flags(names) if each.flags else f"`{each.metavar}`" if each.is_positional else ""
    text = (each.zh if lang == "zh" else each.help).replace("|", "\\|")
    if each.page:
        text += f" ([{'详情' if lang == 'zh' else 'more'}](../{each.page}))"
    default = each.default
    shown = "" if not default or isinstance(default, bool | tuple | frozenset) else f"`{default}`"
    return name.replace("|", "\\|"), text, shown, _code(each.keyword), _code(each.key)


def _code(text: str) -> str:
    return f"`{text}`" if text else ""
