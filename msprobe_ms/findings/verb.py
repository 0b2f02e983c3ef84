"""Explain a kind of finding: what it means, how it is decided, typical causes, and how to confirm it.

  msprobe explain MSP101
  msprobe explain "computes differently"
  msprobe explain

KIND is a code or a name, as answers, tables and JSON have it. Without KIND all kinds are listed. The text is in Chinese
where MSPROBE_LANG=zh is set. Exit code: 0 it was explained, 2 there is no such kind.
"""

from dataclasses import dataclass

from msprobe.base.language import language
from msprobe.options.declaration import OptionGroup, positional
from msprobe.options.kinds import TEXT

from .explain import explanation, kind_named
from .kinds import EVERY


@dataclass(frozen=True, kw_only=True)
class Options(OptionGroup):
    """The options of the command."""

    kind: str = positional(
        TEXT,
        "KIND",
        default="",
        help="a code such as MSP101, or a name; default: list all kinds",
        zh="编号（如 MSP101）或名称；默认：列出所有种类",
    )


def run(options: Options) -> int:
    """Print the explanation of a kind, or all kinds; UsageError if there is no such kind."""
    spoken = language()
    if options.kind:
        print(explanation(kind_named(options.kind), spoken))
        return 0
    width = max(len(kind.name) for kind in EVERY)
    for kind in EVERY:
        print(f"{kind.code}  {kind.name:<{width}}  {kind.title.in_(spoken)}".rstrip())
    return 0
