"""Write the reference page of all exemptions, in English and Chinese, from their table.

python docs/exemptions.py     writes reference/exemptions.md below docs/en and docs/zh
"""

from pathlib import Path

from msprobe.compare.core.exemptions import TABLE, Outcome, Scope, Stage
from msprobe.compare.core.relation import Relation
from msprobe.findings.kind import Text

HERE = Path(__file__).parent

TITLE = Text("Exemptions", "豁免")
INTRO = Text(
    "Differences within the tolerances pass. Of the others, a comparison excuses these. This page is generated from "
    "the table in `compare/core/exemptions.py` (`make findings`; `python -m msprobe.compare.core.exemptions` prints "
    "it). "
    "The exemptions are decided in the order of this page: of those in one section, the first that applies to a pair "
    "decides. `--explain CALL` shows the reason of each record of a call.",
    "容差内的差异通过；此外，比对放过以下差异。本页由 `compare/core/exemptions.py` 中的表生成（`make findings`；"
    "`python -m msprobe.compare.core.exemptions` 可打印该表）。豁免按本页的顺序判定："
    "同一节中，第一个适用于某个配对的豁免生效。`--explain CALL` 给出一个调用中每条记录的原因。",
)
OUTCOMES = {
    Outcome.PASS: Text("the pair passes", "该配对通过"),
    Outcome.EXEMPT: Text(
        "the pair is unjudged, with this cause, and the comparison can be clean",
        "该配对不作判定，原因如列；比对结果仍可为无差异",
    ),
    Outcome.OPEN: Text(
        "the pair is unjudged, with this cause, and the comparison is not clean",
        "该配对不作判定，原因如列；比对结果不为无差异",
    ),
}
SCOPES = {
    Scope.RECORD: Text("record", "记录"),
    Scope.CALL: Text("call", "调用"),
    Scope.PARAMETER: Text("parameter", "参数"),
}
RELATIONS = {
    Relation.SAME: Text("one framework", "同一框架"),
    Relation.UNKNOWN: Text("two frameworks, of which at least one is not known", "两个框架，且至少一个未知"),
    Relation.OTHER_KERNELS: Text(
        "two frameworks with the same names: PyTorch and its API on MindSpore",
        "名称相同的两个框架：PyTorch 与 MindSpore 上的 PyTorch API",
    ),
    Relation.OTHER_NAMES: Text("two frameworks with different names", "名称不同的两个框架"),
}
STAGES = {
    Stage.MATCH: Text(
        "Records of one side, in calls that are matched by their meaning", "按含义匹配的调用中只有一侧具有的记录"
    ),
    Stage.PAIR: Text("Single pairs of records", "单个记录配对"),
    Stage.UPDATES: Text("Parameters after the first step", "第一个 step 之后的参数"),
    Stage.COMPARISON: Text("After all pairs of records", "全部记录配对之后"),
    Stage.STRUCTURE: Text("Calls and arguments of one side, by the dataflow", "按数据流：只有一侧的调用与参数"),
    Stage.DATAFLOW: Text("Differences, by the dataflow", "按数据流：差异"),
    Stage.LIMITS: Text("Limits of the user", "用户指定的上限"),
    Stage.LOCATE: Text("The search for the first wrong call", "查找第一个出错的调用"),
    Stage.END: Text("After the search for the first wrong call", "查找第一个出错的调用之后"),
}
VERDICTS = Text("| verdict | |\n|---|---|", "| 判定 | |\n|---|---|")
FRAMEWORKS = Text("| frameworks | |\n|---|---|", "| 框架 | |\n|---|---|")
COLUMNS = Text(
    "| exemption | applies to | frameworks | verdict | reasons | decided by, test |\n|---|---|---|---|---|---|",
    "| 豁免 | 对象 | 框架 | 判定 | 原因 | 判定函数、测试 |\n|---|---|---|---|---|---|",
)
EVERY = Text("all", "全部")


def page(language):
    """Return the page in Markdown."""

    def localized(text):
        return text.in_(language)

    lines = [f"# {localized(TITLE)}", "", localized(INTRO), "", localized(VERDICTS)]
    lines += [f"| {outcome.value} | {localized(text)} |" for outcome, text in OUTCOMES.items()]
    lines += ["", localized(FRAMEWORKS)]
    lines += [f"| {relation.name.lower()} | {localized(text)} |" for relation, text in RELATIONS.items()]
    for stage in Stage:
        lines += ["", f"## {localized(STAGES[stage])}", "", localized(COLUMNS)]
        for row in TABLE:
            if row.stage is stage:
                lines.append(f"| {' | '.join(cells(row, localized))} |")
    return "\n".join(lines) + "\n"


def cells(row, localized):
    """Return the cells of one exemption."""
    relations = [relation.name.lower() for relation in Relation if relation in row.relations]
    cause = f": `{row.cause.name.lower()}`" if row.cause else ""
    module, _, name = row.predicate.partition(":")
    return (
        f"**{row.name}**: {localized(row.means)}",
        localized(SCOPES[row.scope]),
        localized(EVERY) if len(relations) == len(Relation) else ", ".join(relations),
        f"{row.outcome.value}{cause}",
        ", ".join(why.name.lower() for why in row.reasons),
        f"`{name}` (`compare/{module.replace('.', '/')}.py`), `{row.test}`",
    )


def main():
    for language in ("en", "zh"):
        (HERE / language / "reference/exemptions.md").write_text(page(language), encoding="utf-8")


if __name__ == "__main__":
    main()
