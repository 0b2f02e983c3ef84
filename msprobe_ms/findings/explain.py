"""Explanation of a kind of finding as text for a console."""

from msprobe.base.checks import nearest
from msprobe.base.errors import UsageError
from msprobe.base.language import ENGLISH, Language, translated

from .kind import Kind, Severity, Text
from .kinds import BY_CODE, BY_NAME

DECIDED = Text("How it is decided", "判定方法")
CAUSES = Text("Typical causes", "常见原因")
LOOK = Text("Where to look", "从何处查起")
CONFIRM = Text("How to confirm it", "如何确认")
SEVERITIES = {
    Severity.ERROR: Text("error", "错误"),
    Severity.WARNING: Text("warning", "警告"),
    Severity.NOTE: Text("note", "提示"),
}


def kind_named(text: str) -> Kind:
    """Return the kind with this code or name, in any case; UsageError if there is none."""
    found = BY_CODE.get(text.upper()) or BY_NAME.get(text) or BY_NAME.get(text.lower())
    if found is None:
        near = nearest(text, BY_NAME)  # a code of other digits is not similar
        raise UsageError(
            translated(
                f"there is no kind {text!r}; "
                + (f"did you mean {near!r}?" if near else "msprobe explain lists all kinds"),
                f"没有种类 {text!r}；" + (f"是否指 {near!r}？" if near else "msprobe explain 可列出所有种类"),
            )
        )
    return found


def explanation(kind: Kind, language: Language = "en") -> str:
    """Return what a kind means, how it is decided, typical causes, and how to confirm it, as plain text."""
    severity, title = SEVERITIES[kind.severity].in_(language), kind.title.in_(language)
    head = f"{kind.code}: {title} ({severity})" if language == ENGLISH else f"{kind.code}：{title}（{severity}）"
    parts = [
        head,
        kind.means.in_(language),
        f"{DECIDED.in_(language)}\n  {kind.decided.in_(language)}",
        "\n  - ".join([CAUSES.in_(language), *(cause.in_(language) for cause in kind.causes)]),
        f"{LOOK.in_(language)}\n  {kind.look.in_(language)}",
        f"{CONFIRM.in_(language)}\n  {kind.confirm.in_(language)}",
        f"docs/{language}/{page_of(kind, language)}",
    ]
    return "\n\n".join(parts)


def page_of(kind: Kind, language: Language) -> str:
    """Return the page below `docs/en` or `docs/zh`; in Chinese without the section, whose heading is another one."""
    return kind.docs if language == ENGLISH else kind.docs.partition("#")[0]
