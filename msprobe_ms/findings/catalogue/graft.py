"""Kinds of findings of `msprobe graft`: MSP871 to MSP873."""

from functools import partial

from msprobe.findings.kind import Kind, Severity, Text

_PAGE = "how-to/comparing/graft.md"
_kind = partial(Kind, docs=f"{_PAGE}#the-result")

PROVEN_CAUSE = _kind(
    "MSP871",
    "proven cause",
    severity=Severity.ERROR,
    title=Text("proven cause", "已证实的原因"),
    means=Text(
        "With the golden's values in place of these results, the gap between the two runs closes; with the golden's "
        "values in place of everything before them, it does not.",
        "用标杆的值替换这些结果后，两次运行的差距消除；替换其之前的一切则不能消除。",
    ),
    decided=Text(
        "By a run of the training with the graft: it closes at least 90 % of what its finding explains, and grafting "
        "everything before it closes less than 5 %.",
        "通过带嫁接的训练运行判定：消除其问题所能解释的差距的至少 90 %，而嫁接其之前的一切消除的不足 5 %。",
    ),
    causes=(
        Text("see the finding of the comparison that led to the graft", "见引出该嫁接的比对问题"),
        Text("the implementation, the settings or the kernel of the call", "该调用的实现、设置或算子"),
    ),
    look=Text("at the call and its settings, in the line of the source", "源码行中的该调用及其设置"),
    confirm=Text(
        "Correct it, collect the training again, and compare: the gap is gone.", "修正后重新采集训练并比对：差距消失。"
    ),
    message=Text(
        "grafting its {what} closes {closed:.0%} of the gap that it explains, and {share:.0%} of the whole gap",
        "嫁接其{what}可消除它所解释差距的 {closed:.0%}，占全部差距的 {share:.0%}",
    ),
)
CONTRIBUTING_CAUSE = _kind(
    "MSP872",
    "contributing cause",
    severity=Severity.WARNING,
    title=Text("contributing cause", "部分原因"),
    means=Text(
        "The golden's values in place of these results close a part of the gap, and it is not proven that the gap "
        "begins there.",
        "用标杆的值替换这些结果可消除部分差距，但未证实差距始于此处。",
    ),
    decided=Text(
        "By a run of the training with the graft, which closes at least 5 % of the gap.",
        "通过带嫁接的训练运行判定：消除差距的至少 5 %。",
    ),
    causes=(
        Text("the call passes on a difference that begins elsewhere", "该调用传递了始于别处的差异"),
        Text("the fault is at more calls than this one", "错误不止在这一个调用"),
    ),
    look=Text("at the calls before it, and at other calls of the same kind", "其之前的调用，以及同类的其他调用"),
    confirm=Text("Run `msprobe graft` with a larger --budget.", "以更大的 --budget 运行 msprobe graft。"),
    message=Text("grafting its {what} closes {closed:.0%} of the gap", "嫁接其{what}可消除差距的 {closed:.0%}"),
)
REMAINING_GAP = _kind(
    "MSP873",
    "remaining gap",
    severity=Severity.WARNING,
    title=Text("remaining gap", "剩余差距"),
    means=Text(
        "With all grafts that were kept, the two runs still differ by more than noise.",
        "保留所有嫁接后，两次运行的差异仍超出噪声。",
    ),
    decided=Text(
        "By the gap of the last run with all of these grafts, and the noise floor.",
        "依据带全部嫁接的最后一次运行的差距与噪声下限。",
    ),
    causes=(
        Text("the budget of runs was too small", "运行次数预算不足"),
        Text(
            "a fault in code that is not recorded, or at a call without a counterpart",
            "错误在未记录的代码或没有对应的调用中",
        ),
        Text("noise above the floor: repeat the golden run for --noise", "噪声高于下限：重复标杆运行并用 --noise 给出"),
    ),
    look=Text("at the first finding of a comparison of the last run", "最后一次运行的比对的首个问题"),
    confirm=Text(
        "Keep the runs with -o, and compare the last one with the golden.",
        "用 -o 保留各次运行，并将最后一次与标杆比对。",
    ),
    message=Text(
        "{share:.0%} of the gap remains: loss {loss:.2g}, gradients {gradients:.2g}, updates {updates:.2g}",
        "剩余差距的 {share:.0%}：loss {loss:.2g}，梯度 {gradients:.2g}，更新 {updates:.2g}",
    ),
)
