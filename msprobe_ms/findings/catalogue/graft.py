"""Kinds of findings of `msprobe graft`: MSP871 to MSP877."""

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
ESTIMATED_CAUSE = _kind(
    "MSP874",
    "estimated cause",
    severity=Severity.ERROR,
    title=Text("likely cause (estimated)", "可能的原因（估计）"),
    means=Text(
        "With the golden's values in place of these results, replayed calls lead to the golden's loss and gradients. "
        "This is an estimate: no training was run.",
        "用标杆的值替换这些结果后，重放的调用得到标杆的 loss 与梯度。这是估计：没有运行训练。",
    ),
    decided=Text(
        "By replaying the recorded calls of one step that depend on the graft: it closes at least 90 % of the gap that "
        "was reached, which includes the loss, or half of the gap of the gradients where the losses do not differ.",
        "通过重放一个 step 中依赖该嫁接的已记录调用判定：消除可达差距的至少 90 %；可达部分须包括 loss，若 loss 无差异则须包括梯度"
        "差距的一半。",
    ),
    causes=(
        Text("see the finding of the comparison that led to the graft", "见引出该嫁接的比对问题"),
        Text("the implementation, the settings or the kernel of the call", "该调用的实现、设置或算子"),
    ),
    look=Text("at the call and its settings, in the line of the source", "源码行中的该调用及其设置"),
    confirm=Text(
        "Run `msprobe graft` with the command of the training after -- to prove it.",
        "在 -- 之后给出训练命令运行 msprobe graft 予以证实。",
    ),
    message=Text(
        "grafting its {what} closes {closed:.0%} of the gap by estimate, {share:.0%} of the whole gap ({losses} of "
        "{all_losses} losses and {gradients} of {all_gradients} gradients were reached)",
        "估计嫁接其{what}可消除差距的 {closed:.0%}，占全部差距的 {share:.0%}（可达 loss {losses}/{all_losses}，梯度 "
        "{gradients}/{all_gradients}）",
    ),
)
ESTIMATED_CONTRIBUTION = _kind(
    "MSP875",
    "estimated contribution",
    severity=Severity.WARNING,
    title=Text("likely contributing cause (estimated)", "可能的部分原因（估计）"),
    means=Text(
        "By estimate, the golden's values in place of these results close a part of the gap.",
        "据估计，用标杆的值替换这些结果可消除部分差距。",
    ),
    decided=Text(
        "By replaying the recorded calls of one step that depend on the graft, which closes at least 5 % of the gap "
        "that was reached.",
        "通过重放一个 step 中依赖该嫁接的已记录调用判定：消除可达差距的至少 5 %。",
    ),
    causes=(
        Text("the call passes on a difference that begins elsewhere", "该调用传递了始于别处的差异"),
        Text("the fault is at more calls than this one", "错误不止在这一个调用"),
    ),
    look=Text("at the calls before it, and at other calls of the same kind", "其之前的调用，以及同类的其他调用"),
    confirm=Text(
        "Run `msprobe graft` with the command of the training after --.", "在 -- 之后给出训练命令运行 msprobe graft。"
    ),
    message=Text(
        "grafting its {what} closes {closed:.0%} of the gap by estimate ({losses} of {all_losses} losses and "
        "{gradients} of {all_gradients} gradients were reached)",
        "估计嫁接其{what}可消除差距的 {closed:.0%}（可达 loss {losses}/{all_losses}，梯度 {gradients}/{all_gradients}）",
    ),
)
ESTIMATED_GAP = _kind(
    "MSP876",
    "estimated remaining gap",
    severity=Severity.WARNING,
    title=Text("remaining gap (estimated)", "剩余差距（估计）"),
    means=Text(
        "By estimate, the two runs still differ by more than noise with all grafts that were kept. Values that were "
        "not reached count as they were recorded.",
        "据估计，保留所有嫁接后两次运行的差异仍超出噪声。不可达的值按记录计。",
    ),
    decided=Text(
        "By the gap of the last estimate with all of these grafts, and the noise floor.",
        "依据带全部嫁接的最后一次估计的差距与噪声下限。",
    ),
    causes=(
        Text(
            "calls that could not be replayed, so that a part was not reached", "部分调用无法重放，因此有不可达的部分"
        ),
        Text("the budget of estimates was too small", "估计次数预算不足"),
        Text(
            "a fault in code that is not recorded, or at a call without a counterpart",
            "错误在未记录的代码或没有对应的调用中",
        ),
    ),
    look=Text("at the notes on calls that were not replayed", "关于未重放调用的说明"),
    confirm=Text(
        "Run `msprobe graft` with the command of the training after --.", "在 -- 之后给出训练命令运行 msprobe graft。"
    ),
    message=Text(
        "{share:.0%} of the gap was not closed or not reached: loss {loss:.2g}, gradients {gradients:.2g}",
        "差距的 {share:.0%} 未消除或不可达：loss {loss:.2g}，梯度 {gradients:.2g}",
    ),
)
NOT_REACHED = _kind(
    "MSP877",
    "not reached",
    severity=Severity.WARNING,
    title=Text("not judged: the estimate reached too little", "未判定：估计可达的部分太少"),
    means=Text(
        "Calls after these results cannot be replayed, so that too little of the loss and the gradients follows from "
        "the graft.",
        "这些结果之后的调用无法重放，因此由该嫁接可得到的 loss 与梯度太少。",
    ),
    decided=Text(
        "The estimate did not reach the loss, or half of the gap of the gradients where the losses do not differ.",
        "估计未到达 loss；若 loss 无差异，则未到达梯度差距的一半。",
    ),
    causes=(
        Text("code that was not recorded, or a function that no replay knows", "未记录的代码，或没有重放的函数"),
        Text("random numbers, such as those of a dropout", "随机数，例如 dropout"),
    ),
    look=Text("at the notes on calls that were not replayed", "关于未重放调用的说明"),
    confirm=Text(
        "Run `msprobe graft` with the command of the training after --.", "在 -- 之后给出训练命令运行 msprobe graft。"
    ),
    message=Text(
        "whether its {what} is the cause was not judged: {losses} of {all_losses} losses and {gradients} of "
        "{all_gradients} gradients were reached",
        "未判定其{what}是否为原因：可达 loss {losses}/{all_losses}，梯度 {gradients}/{all_gradients}",
    ),
)
