"""Write the reference page of all kinds of findings, in English and Chinese, from the catalogue.

python docs/findings.py     writes reference/findings.md below docs/en and docs/zh
"""

from pathlib import Path

from msprobe.findings.explain import CAUSES, CONFIRM, DECIDED, LOOK, SEVERITIES, page_of
from msprobe.findings.kind import Text
from msprobe.findings.kinds import EVERY

HERE = Path(__file__).parent

TITLE = Text("Kinds of findings", "问题种类")
INTRO = Text(
    "Everything that commands report has a kind with a code. Codes and names are never changed, and never given to "
    "another kind. This page is generated from the catalogue in the code (`make findings`).",
    "各命令报告的每个问题都有种类及编号。编号与名称不会更改，也不会用于其他种类。本页由代码中的目录生成（`python docs/findings.py`）。",
)
COLUMNS = Text("| code | name | |\n|---|---|---|", "| 编号 | 名称 | |\n|---|---|---|")


def page(language):
    """Return the page in Markdown."""

    def localized(text):
        return text.in_(language)

    colon, end = (": ", "; ") if language == "en" else ("：", "；")
    lines = [f"# {localized(TITLE)}", "", localized(INTRO), "", localized(COLUMNS)]
    lines += [f"| [{kind.code}](#{kind.code.lower()}) | `{kind.name}` | {localized(kind.means)} |" for kind in EVERY]
    for kind in EVERY:
        where = page_of(kind, language)
        lines += ["", f"## {kind.code}", ""]
        lines += [
            f"**{localized(kind.title)}** (`{kind.name}`, {localized(SEVERITIES[kind.severity])})",
            "",
            localized(kind.means),
            "",
        ]
        lines += [f"- {localized(DECIDED)}{colon}{localized(kind.decided)}"]
        lines += [f"- {localized(CAUSES)}{colon}{end.join(map(localized, kind.causes))}"]
        lines += [f"- {localized(LOOK)}{colon}{localized(kind.look)}"]
        lines += [f"- {localized(CONFIRM)}{colon}{localized(kind.confirm)}"]
        lines += [f"- [{where.partition('#')[0]}](../{where})"]
    return "\n".join(lines) + "\n"


def main():
    for language in ("en", "zh"):
        (HERE / language / "reference/findings.md").write_text(page(language), encoding="utf-8")


if __name__ == "__main__":
    main()
