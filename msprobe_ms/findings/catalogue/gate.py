"""Kinds of findings of `msprobe gate check`, in addition to those of a comparison: MSP861 to MSP866."""

from functools import partial

from msprobe.findings.kind import Kind, Severity, Text

_PAGE = "how-to/checking/gate.md"
_BY_FACTS = Text(
    "By the losses, gradients and parameters of the recorded steps; the golden run has what is missing here.",
    "依据所记录 step 的 loss、梯度和参数；标杆运行中具有此处缺少的内容。",
)
_untrained = partial(Kind, severity=Severity.ERROR, decided=_BY_FACTS, docs=f"{_PAGE}#the-result")

NO_GRADIENTS = _untrained(
    "MSP861",
    "no gradients",
    title=Text("the run has no gradients", "运行没有梯度"),
    means=Text(
        "No parameter of the run has a gradient, so nothing was trained.", "运行中没有任何参数具有梯度，因此没有训练。"
    ),
    causes=(
        Text("the backward is not called, or is called after `stop`", "没有执行反向，或在 stop 之后才执行"),
        Text("the loss is detached from the parameters", "loss 与参数断开（detach）"),
    ),
    look=Text(
        "at the call of the backward, and whether it is between start() and stop()",
        "反向的调用位置，是否在 start() 与 stop() 之间",
    ),
    confirm=Text("Print the gradient of one parameter after the backward.", "反向之后打印一个参数的梯度。"),
    message=Text("no parameter has a gradient in {steps} steps", "{steps} 个 step 中没有参数具有梯度"),
)
NOTHING_UPDATED = _untrained(
    "MSP862",
    "nothing updated",
    title=Text("no parameter was updated", "没有参数被更新"),
    means=Text("All parameters are the same in two consecutive steps.", "相邻两个 step 的参数完全相同。"),
    causes=(
        Text("the optimizer is not called, or has other parameters", "没有调用优化器，或优化器中是其他参数"),
        Text("a learning rate of 0", "学习率为 0"),
        Text("a gradient scaler skips the update", "梯度缩放器跳过了更新"),
    ),
    look=Text("at the optimizer and its learning rate", "优化器及其学习率"),
    confirm=Text("Print one parameter before and after the update.", "在更新前后打印一个参数。"),
    message=Text("all parameters are the same in {steps} steps", "{steps} 个 step 中所有参数均未变化"),
)
CONSTANT_LOSS = _untrained(
    "MSP863",
    "constant loss",
    title=Text("the loss is the same in each step", "每个 step 的 loss 相同"),
    means=Text("The loss has the same value in all recorded steps.", "所记录的各 step 的 loss 值相同。"),
    causes=(
        Text("every step has the same batch and nothing is updated", "每个 step 的 batch 相同，且没有更新"),
        Text("the loss does not depend on the inputs", "loss 与输入无关"),
    ),
    look=Text("at the data loader and at the loss", "数据加载与 loss 的计算"),
    confirm=Text("Print the first elements of each batch and the loss.", "打印每个 batch 的前几个元素和 loss。"),
    message=Text("the loss is {loss:.6g} in each of {steps} steps", "{steps} 个 step 的 loss 均为 {loss:.6g}"),
)
FEWER_CALLS = _untrained(
    "MSP864",
    "fewer calls",
    title=Text("the run has fewer calls than the golden", "运行的调用少于标杆"),
    means=Text(
        "Steps or ranks of the golden are missing, or a step has less than half of its calls.",
        "缺少标杆中的 step 或 rank，或某个 step 的调用不足一半。",
    ),
    causes=(
        Text("the training ended early, or has fewer steps", "训练提前结束，或 step 较少"),
        Text("start(), stop() or step() of the debugger are not called", "没有调用调试器的 start()、stop() 或 step()"),
        Text("the launcher does not pass on the environment", "启动器没有传递环境变量"),
    ),
    look=Text("at the output of the training, and at the calls of the debugger", "训练的输出，以及调试器的调用"),
    confirm=Text("Run the command of the training alone.", "单独运行训练命令。"),
    message={
        "nothing": Text(
            "nothing was collected: the command must call start(), stop() and step() of a PrecisionDebugger",
            "没有采集到任何内容：命令须调用 PrecisionDebugger 的 start()、stop() 和 step()",
        ),
        "step": Text(
            "{number} of {all} recorded steps are missing, the first is step {step} of rank {rank}",
            "缺少 {all} 个已记录 step 中的 {number} 个，第一个是 rank {rank} 的 step {step}",
        ),
        "calls": Text(
            "step {step} has {calls} calls, golden {golden}", "step {step} 有 {calls} 个调用，标杆为 {golden}"
        ),
    },
)
GRADIENT_DIFFERS = Kind(
    "MSP865",
    "gradient differs",
    severity=Severity.ERROR,
    title=Text("the gradient of a parameter differs", "某个参数的梯度不同"),
    means=Text(
        "The calls of the run cannot be compared with those of the golden, and a gradient differs by more than noise.",
        "运行的调用无法与标杆比对，且某个梯度的差异超出噪声。",
    ),
    decided=Text(
        "By the sampled elements of the gradients of all parameters, added up over the micro batches of a step.",
        "依据所有参数梯度的抽样元素，各 micro batch 的梯度已累加。",
    ),
    causes=(
        Text("another function of the compiled or fused code", "编译或融合后的代码计算的函数不同"),
        Text("another weight of a micro batch in the loss", "micro batch 在 loss 中的权重不同"),
        Text("another setting of the optimizer, if it begins after step 0", "若从 step 0 之后开始，则为优化器设置不同"),
    ),
    look=Text("at the layer of this parameter, and at what comes after it", "该参数所在的层及其之后的计算"),
    confirm=Text("Run without compilation, with the batch of the golden.", "关闭编译，使用标杆的 batch 运行。"),
    docs=f"{_PAGE}#other-calls-the-same-training",
    message=Text(
        "its relative error is {error:.2g}, noise explains {limit:.2g}; {number} of {all} gradients differ",
        "相对误差为 {error:.2g}，噪声可解释 {limit:.2g}；{all} 个梯度中有 {number} 个不同",
    ),
)
BEYOND_LIMITS = Kind(
    "MSP866",
    "beyond acceptance limits",
    severity=Severity.ERROR,
    title=Text("a number of the training exceeds its limit", "训练的某个数值超出限值"),
    means=Text(
        "The loss or the norm of the gradients differs by more than the chosen limits accept.",
        "loss 或梯度范数的差异超出所选限值。",
    ),
    decided=Text(
        "By the numbers of the recorded steps, relative to the golden's.", "依据所记录 step 的数值，相对于标杆。"
    ),
    causes=(
        Text("a call that computes something else: see the findings of calls", "某个调用的计算不同：见调用的问题"),
    ),
    look=Text("at the first wrong call", "首个错误调用"),
    confirm=Text("Check with `--limits built-in`.", "使用 --limits built-in 检查。"),
    docs=f"{_PAGE}#limits",
    message={
        "first loss": Text(
            "the loss of the first step is {target:.6g}, golden {golden:.6g}: {error:.2g} relative, allowed {limit:g}",
            "第一个 step 的 loss 为 {target:.6g}，标杆 {golden:.6g}：相对差异 {error:.2g}，允许 {limit:g}",
        ),
        "mean loss": Text(
            "the mean loss is {target:.6g}, golden {golden:.6g}: {error:.2g} relative, allowed {limit:g}",
            "平均 loss 为 {target:.6g}，标杆 {golden:.6g}：相对差异 {error:.2g}，允许 {limit:g}",
        ),
        "gradient norm": Text(
            "the norm of the gradients is {target:.6g}, golden {golden:.6g}: {error:.2g} relative, allowed {limit:g}",
            "梯度范数为 {target:.6g}，标杆 {golden:.6g}：相对差异 {error:.2g}，允许 {limit:g}",
        ),
    },
)
