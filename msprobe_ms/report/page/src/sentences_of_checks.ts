// Advice, sentences of checks and monitors, and what joins sentences, in Chinese, by their English templates.

export const OF_CHECKS: Record<string, string> = {
  // What to do.
  "look {where}": "请检查{where}",
  "at what this call was given forward: whether a parameter of it is frozen, or left out of those that gradients are taken of, or an input is detached":
    "该调用前向时的输入：是否有参数被冻结或未列入求导范围，或有输入被 detach",
  "at the call and its settings; where the settings agree, at the kernel that runs it":
    "该调用及其设置；设置一致时检查执行它的算子",
  "at the line that makes the call, and at where this argument comes from": "发起该调用的代码行，以及该参数的来源",
  "at the line that makes the call, and at the conditions under which it runs": "发起该调用的代码行，以及其执行条件",
  "at how weights are made: seeds, optimizer, checkpoints (msprobe config_check --compare)":
    "权重的来源：随机种子、优化器、checkpoint（msprobe config_check --compare）",
  "at the data, their order and what is done to them before the first call": "数据及其顺序，以及首个调用之前的数据处理",
  "at the code between the two calls; values in it can be saved by hand (docs: saving)":
    "两个调用之间的代码；其中的值可手动保存（参见文档 saving）",
  "at what was left out of the collection": "采集时遗漏的内容",
  "at the group and the operation of the collective, and at what the other ranks put in":
    "集合通信的通信组与操作，以及其他 rank 的输入",
  "what to collect next, as a configuration for both runs": "下一步采集内容，生成两次运行共用的配置",
  "a script that runs this call alone, on its recorded inputs, and says whether the kernel is wrong":
    "生成脚本，以记录的输入单独运行该调用，判断是否为算子问题",
  "a script that runs this call alone": "生成脚本，单独运行该调用",
  "start both runs alike in what differs here, and then compare their values":
    "先将两次运行在此处的差异对齐，再比对数值",
  "left of the line is the trusted pack, right of it the one under suspicion": "竖线左侧为标杆侧，右侧为待调试侧",
  "what to dump next, on both sides: a configuration for PrecisionDebugger":
    "两侧下一步的采集内容：PrecisionDebugger 配置",
  "then compare the two dumps": "随后比对两份 dump 数据",
  "at the inputs of the call: a division by 0, a logarithm or root of what is not positive, or values too large for the dtype":
    "该调用的输入：除以 0、对非正数取对数或开方，或数值超出 dtype 范围",
  "at the mask: a row that is hidden as a whole, or -inf minus -inf; a large finite value instead of -inf avoids both":
    "掩码：整行被遮蔽，或 -inf 减 -inf；用较大的有限值代替 -inf 可避免两者",
  "at the size of what is summed up over the ranks, and at the dtype of the collective":
    "跨卡求和的数值大小，以及集合通信的 dtype",
  "at the update before this step: its gradients, the learning rate and eps; or at what was loaded":
    "该 step 之前的更新：梯度、学习率与 eps；或加载的内容",
  "at the data and what is done to them, and at the buffers and constants of the model":
    "数据及其处理，以及模型的 buffer 与常量",
  "at the call of empty() that made this memory: fill it, or write all of it before it is read":
    "分配该内存的 empty() 调用：先填充，或在读取前全部写入",
  "at the code before this call; values in it can be saved by hand (docs: saving)":
    "该调用之前的代码；其中的值可手动保存（参见文档 saving）",
  "at the ranks that are missing: collect all ranks of the step": "缺失的 rank：请采集该 step 的所有 rank",
  "at what was left out of the collection: collect inputs too": "采集时遗漏的内容：请同时采集输入",
  "at what each rank does for itself: seeds, the broadcast of first weights, clipping, learning rates, groups of collectives, and gradients that are not reduced":
    "各 rank 各自的行为：随机种子、初始权重的广播、裁剪、学习率、通信组，以及未归约的梯度",
  "at the loop or hook that reduces gradients, and at the parameters that it leaves out":
    "归约梯度的循环或钩子，以及被其遗漏的参数",
  "at the sampler: its number of ranks, and this rank's number in it": "采样器：rank 总数，以及本 rank 的编号",
  "at the group and the operation of the collective on every rank, and at what is done to its result":
    "各 rank 上集合通信的通信组与操作，以及对其结果的处理",
  "at whether the parameter is frozen, its output is detached, or nothing uses it":
    "参数是否被冻结、其输出是否被 detach，或是否未被使用",
  "at the list of parameters that the optimizer was given, and at their learning rate":
    "传给优化器的参数列表，以及其学习率",
  "at the axis of the softmax; where it is right, at the kernel that runs it": "softmax 的轴；轴正确时检查执行它的算子",
  "at the line that makes the mask: which side it hides, the diagonal, and what True means there":
    "生成掩码的代码行：遮蔽哪一侧、对角线，以及 True 的含义",
  "at the axes and eps of the layer; where they are right, at the kernel that runs it":
    "该层的轴与 eps；两者正确时检查执行它的算子",
  "at the kernel that runs this call; msprobe acc_check tries it alone":
    "执行该调用的算子；可用 msprobe acc_check 单独检验",
  "at what is saved and loaded: weights, optimizer state, random state, and the place in the data":
    "保存与加载的内容：权重、优化器状态、随机状态，以及数据位置",
  // What does not hold of every training.
  "every correct training: {what}": "正确的训练应满足：{what}",
  "because: {what}": "依据：{what}",
  "on ranks {ranks}": "涉及 rank {ranks}",
  "{text} ({value:.3g}, allowed {limit:.3g})": "{text}（{value:.3g}，允许 {limit:.3g}）",
  "differs from the other ranks": "与其他 rank 不同",
  "its gradient goes into no reduction over ranks, those of most parameters do":
    "其梯度未参与跨卡归约，而大多数参数的梯度都参与了",
  "these ranks have the same batch": "这些 rank 使用了相同的 batch",
  "the result is not equal on all ranks: {place}": "各 rank 的结果不一致：{place}",
  "the result is no reduction of what the ranks put in": "结果不是各 rank 输入的归约",
  "has no gradient: detached from the loss, not used, or frozen": "没有梯度：与 loss 断开、未被使用，或被冻结",
  "has a gradient and does not move: not in the optimizer, or its learning rate is 0":
    "有梯度但未变化：不在优化器中，或学习率为 0",
  "rows of {place} do not add up to 1": "{place} 各行之和不为 1",
  "a masked position has a weight": "被遮蔽的位置仍有权重",
  "the causal mask hides the past and shows the future": "因果掩码遮蔽了过去而暴露了未来",
  "the causal mask hides a position from itself": "因果掩码使位置看不到自身",
  "{place} without weight and bias has not mean 0 and mean square 1":
    "{place} 去除权重与偏置后，均值不为 0 或均方不为 1",
  "{place} is memory that was never written": "{place} 是从未写入的内存",
  "{place} is not what the operation gives for its recorded inputs": "{place} 与该操作对所记录输入的结果不符",
  "was not restored: it differs from the run that went on": "未恢复：与未中断的训练不同",
  "{place} differs from the run that went on, the parameters do not: the batch, or random numbers":
    "{place} 与未中断的训练不同而参数相同：batch 或随机数不同",
  "{place} was not restored": "{place} 未恢复",
  "{place} differs from the run that went on, although its inputs do not: random numbers":
    "{place} 与未中断的训练不同而输入相同：随机数不同",
  "the run that went on does not make this call": "未中断的训练没有此调用",
  "parameters are equal on all ranks": "各 rank 参数相等",
  "every gradient is summed up over the ranks, if most are": "若大多数梯度跨卡归约，则每个梯度都应跨卡归约",
  "ranks that share gradients have batches of their own": "共享梯度的各 rank 使用各自的 batch",
  "the result of all_reduce is the reduction of what went in, on all ranks": "各 rank all_reduce 的结果是输入的归约",
  "every trainable parameter has a gradient": "每个可训练参数都有梯度",
  "every float32 parameter moves whose gradient is not negligible beside the others":
    "梯度不可忽略的 float32 参数都会变化",
  "rows are not negative and add up to 1": "各行非负且和为 1",
  "masked weights are 0, and a causal mask hides what comes later": "被遮蔽的权重为 0，因果掩码遮蔽之后的位置",
  "without weight and bias the mean is 0 and the mean square 1": "去除权重与偏置后均值为 0、均方为 1",
  "the output of a call is the operation's on its recorded inputs": "调用的输出即该操作对所记录输入的结果",
  "no call reads memory that was never written": "没有调用读取从未写入的内存",
  "a resumed run has the parameters, batches and results of the one that went on":
    "续训的参数、batch 与结果与未中断的训练相同",
  "data parallelism keeps replicas of one model": "数据并行的各 rank 持有同一模型的副本",
  "the gradient of a batch is the mean over its shares": "一个 batch 的梯度是各份梯度的均值",
  "a distributed sampler gives each rank its share": "分布式采样器为各 rank 分配各自的数据",
  "the definition of the collective": "集合通信的定义",
  "a parameter without one is frozen, detached or unused": "没有梯度的参数是被冻结、断开或未使用的",
  "an optimizer changes what it was given": "优化器会更新传给它的参数",
  "the definition of softmax": "softmax 的定义",
  "attention with a mask; autoregressive models": "带掩码的注意力；自回归模型",
  "the definitions of the layers": "这些层的定义",
  "msprobe.replay in float64, tolerance by the dtypes": "msprobe.replay 以 float64 重算，容差取决于 dtype",
  "what empty() gives is undefined": "empty() 的内容未定义",
  "a checkpoint restores the state of a training": "checkpoint 恢复训练的状态",
  // NaN and infinities.
  "inputs: {values}": "输入：{values}",
  "outputs: {values}": "输出：{values}",
  "inputs: finite, or not recorded": "输入：正常，或未记录",
  "outputs: finite, or not recorded": "输出：正常，或未记录",
  "inputs finite, {outputs}": "输入正常，{outputs}",
  "{inputs} and no nan, {outputs}": "{inputs}而没有 nan，{outputs}",
  "{arguments}, {outputs}": "{arguments}，{outputs}",
  "the parameter {name} is not finite ({inputs})": "参数 {name} 含非有限值（{inputs}）",
  "{text}; it was in step {step}, the update after it made it so": "{text}；step {step} 时正常，由其后的更新造成",
  "{text} before any recorded call: by an earlier update, or as it was loaded":
    "{text}，且先于任何已记录的调用：由更早的更新造成，或加载时即如此",
  "{inputs}, and no operation made it: the batch, a buffer or a constant":
    "{inputs}，且不由任何操作产生：来自 batch、buffer 或常量",
  "{inputs}, memory of {call} that was never written": "{inputs}，即 {call} 的内存从未写入",
  "{inputs}, and no recorded call made it: the batch, or operations that were not recorded":
    "{inputs}，且没有已记录的调用产生它：来自 batch 或未记录的操作",
  "{text}; the result of {call} was not recorded": "{text}；{call} 的结果未记录",
  "what the ranks put in is finite, {outputs}": "各 rank 的输入正常，{outputs}",
  "{outputs}, from a rank that the dump does not hold": "{outputs}，来自 dump 数据中没有的 rank",
  "{outputs}, from rank {ranks} that the dump does not hold": "{outputs}，来自 dump 数据中没有的 rank {ranks}",
  "{outputs}, from ranks {ranks} that the dump does not hold": "{outputs}，来自 dump 数据中没有的 rank {ranks}",
  "inputs not recorded, {outputs}": "输入未记录，{outputs}",
  "{text}; every call that takes it gives finite values": "{text}；使用它的所有调用都给出有限值",
  "{place} has {values}": "{place} 含 {values}",
  "{place} is {value}": "{place} 为 {value}",
  // Monitors.
  "the first activations differ while the weights agree: another batch, or the first layer":
    "权重一致而最初的激活值不同：batch 不同，或第一层有问题",
  "the forward pass of a layer": "某一层的前向",
  "the loss differs while the activations agree": "激活值一致而 loss 不同",
  "all gradients differ by one factor while activations and loss agree: the loss scale":
    "激活值与 loss 一致而所有梯度相差同一倍数：loss scale 不同",
  "the gradient of the last layer's output differs already: the backward pass of the loss":
    "最后一层输出的梯度已有差异：loss 的反向有问题",
  "the backward pass of a layer": "某一层的反向",
  "reduced gradients differ on some ranks while unreduced ones agree: clipping, or scaling, there":
    "归约前梯度一致，而部分 rank 上归约后梯度不同：这些 rank 的裁剪或缩放有问题",
  "reduced gradients differ while unreduced ones agree: the reduction, or clipping":
    "归约前梯度一致而归约后不同：归约或裁剪有问题",
  "what ranks exchange": "卡间通信的内容",
  "gradients after reduction; those before were not recorded": "归约后的梯度不同；归约前的梯度未记录",
  "the optimizer's moments differ while the gradients before agree: reset, or loaded":
    "此前梯度一致而优化器动量不同：动量被重置或加载有误",
  "the update of all parameters while gradients and moments agree: learning rate, eps, or betas":
    "梯度与动量一致而所有参数的更新不同：学习率、eps 或 beta 不同",
  "the update of some parameters while gradients and moments agree: weight decay or a group's rate; or eps":
    "梯度与动量一致而部分参数的更新不同：权重衰减或某组学习率不同，或 eps 不同",
  "the weights that a step began with: they were changed between steps, or by the update before":
    "该 step 开始时权重已不同：由上一次更新，或在两个 step 之间被改变",
  "in {finding.kind} {finding.left} of {finding.targets} leave the band at this step":
    "该 step 中 {finding.kind} 的 {finding.targets} 个对象中有 {finding.left} 个超出范围",
  "behind it in the backward pass {name} agrees": "反向中排在其后的 {name} 一致",
  "all of it is in the last digits of the files: it may have begun unseen in the update before":
    "差异都在文件的末位数字上：可能在前一次更新中已经开始而未被看到",
  "change of the {statistic} {a:.6g} for {b:.6g} ({band})": "{statistic} 的变化为 {a:.6g}，标杆 {b:.6g}（{band}）",
  "{statistic} {a:.6g} for {b:.6g} ({band})": "{statistic} 为 {a:.6g}，标杆 {b:.6g}（{band}）",
  "{text}; all by a factor of {factor:.5g}": "{text}；均相差 {factor:.5g} 倍",
  "equal before": "此前相等",
  "change of the norm x{factor:.5g} ({band})": "范数的变化为标杆的 {factor:.5g} 倍（{band}）",
  "norm x{factor:.5g} ({band})": "范数为标杆的 {factor:.5g} 倍（{band}）",
  "band 1 +- {limit:.2g}": "正常范围 1 ± {limit:.2g}",
  "{deviation:.2g} of its scale, band 0 +- {limit:.2g}": "为其量级的 {deviation:.2g}，正常范围 0 ± {limit:.2g}",
  // Single calls held to float64.
  "golden: {what}": "标杆：{what}",
  "judged by: {what}": "判定依据：{what}",
  "assumed: {what}": "假设：{what}",
  "{reason}: {shape}": "{reason}：{shape}",
  "{reason}: {output.dtype}, recorded was {output.golden}": "{reason}：{output.dtype}，记录为 {output.golden}",
  "{reason}: {numbers}": "{reason}：{numbers}",
  "{text}; max abs error {largest:.3g}": "{text}；最大绝对误差 {largest:.3g}",
  "{value:.3g} times its sensitivity, at most {limit:.3g} is rounding":
    "为其灵敏度的 {value:.3g} 倍，舍入至多 {limit:.3g} 倍",
  "{value:.3g} times their sensitivity, at most {limit:.3g} is rounding":
    "为其灵敏度的 {value:.3g} 倍，舍入至多 {limit:.3g} 倍",
  "by {value:.3g} of its size, beyond {limit:.3g}": "为其大小的 {value:.3g}，超出 {limit:.3g}",
  "by {value:.3g} of its rms, beyond {limit:.3g}": "为其均方根的 {value:.3g}，超出 {limit:.3g}",
  "a share of {value:.3g}": "占比 {value:.3g}",
  "{value:.0f} elements": "{value:.0f} 个元素",
  "{value:.6g}, has to be above {limit:.6g}": "{value:.6g}，应大于 {limit:.6g}",
  "{value:.3g} of them, at most {limit:.3g}": "占比 {value:.3g}，至多 {limit:.3g}",
  "{value:.3g} of the elements": "占元素的 {value:.3g}",
  "{value:.3g}, at most {limit:.3g}": "{value:.3g}，至多 {limit:.3g}",
  "it differs by {value:.3g}, by chance at most by {limit:.3g}": "相差 {value:.3g}，随机波动至多 {limit:.3g}",
  "within the limit": "在限值内",
  "beyond the named standard, and explained by the rounding of inputs that cancel":
    "超出所列标准，但可由相消输入的舍入解释",
  "another shape than the golden value": "形状与标杆不同",
  "another dtype than recorded": "dtype 与记录不同",
  "elements are unequal": "元素不相等",
  "NaN or infinities in other places than in the golden value": "NaN 或无穷的位置与标杆不同",
  "an element is beyond the error bound": "有元素超出误差界",
  "the elements together are beyond the error bound": "全部元素合计超出误差界",
  "the output is off by a factor": "输出整体相差一个倍数",
  "the output is off by a constant": "输出整体相差一个常数",
  "the cosine is too small": "余弦相似度过小",
  "too many elements are beyond the relative error": "超出相对误差的元素过多",
  "a relative error is beyond the threshold": "有相对误差超出阈值",
  "the error of a small value is beyond the threshold": "有小值的误差超出阈值",
  "too many elements err by several ULP": "误差达数个 ULP 的元素过多",
  "the errors of sums do not balance": "求和误差不平衡",
  "the share of kept elements is not 1 - p": "保留元素的比例不是 1 - p",
  "a kept element is not its input divided by 1 - p": "保留的元素不等于输入除以 1 - p",
  "a gradient was kept where the output was dropped": "输出被丢弃处仍保留了梯度",
  shape: "形状",
  dtype: "dtype",
  "binary consistency": "二进制一致",
  "finite elements": "有限元素",
  "error bound": "误差界",
  bias: "偏差",
  "absolute threshold": "绝对阈值",
  ulp: "ULP",
  thousandth: "千分之一",
  accumulative: "累积误差",
  dropout: "dropout",
  basic: "基本",
  benchmark: "对标",
  // One after the other.
  "{listed} and {number} more": "{listed} 等，另有 {number} 个",
  "{before}, {after}": "{before}，{after}",
  "{before} and {after}": "{before} 和 {after}",
  "{before} or {after}": "{before}或{after}",
  "{before}; {after}": "{before}；{after}",
  "{before}. {after}": "{before}。{after}",
  "{reasons}.": "{reasons}。",
  "{place}: {reasons}": "{place}：{reasons}",
  "{place}: {reasons}.": "{place}：{reasons}。",
  // Answers and notes of checks.
  "first violation: none": "首个不满足的不变量：无",
  "first violation: {name}: {what}": "首个不满足的不变量：{name}：{what}",
  "first non-finite: none, no call made NaN or infinities": "没有调用产生 NaN 或无穷",
  "first non-finite: {what}": "首个非有限值：{what}",
  "{name} in {cell} on rank {rank}: {reason}": "{name}（位于 {cell}，rank {rank}）：{reason}",
  "{number} step before holds nothing that is not finite": "此前的 {number} 个 step 没有 NaN 或无穷",
  "{number} steps before hold nothing that is not finite": "此前的 {number} 个 step 没有 NaN 或无穷",
  "{text}, step {step} is the first that does": "{text}，step {step} 首次出现",
  "rank {rank} is not judged: {why}": "rank {rank} 未判定：{why}",
  "{number} calls with infinities of which only finite values are made (masks) are not reported":
    "{number} 个调用的输入含无穷而输出正常（如掩码），未列出",
  "shown: {steps}, {ranks}; nothing was compared": "仅展示：{steps}，{ranks}；未作比对",
  "{number} step": "{number} 个 step",
  "{number} steps": "{number} 个 step",
  "{number} micro step": "{number} 个 micro step",
  "{number} micro steps": "{number} 个 micro step",
  "{number} rank": "{number} 个 rank",
  "{number} ranks": "{number} 个 rank",
  "what is not finite was not searched: {why}": "未检查 NaN 与无穷：{why}",
  "invariants were not checked: {why}": "未检查不变量：{why}",
  "invariants were not checked, for the dump has {size} MiB; --as check does it":
    "dump 数据有 {size} MiB，因此未检查不变量；可用 --as check 检查",
  "calls were not executed again; --as check does it, where torch is installed":
    "未重新执行调用；安装 torch 后可用 --as check 执行",
  "{apis} APIs, {calls} calls: {passed} pass, {warned} warning, {wrong} error, {skipped} skipped":
    "{apis} 个 API，{calls} 个调用：通过 {passed}，警告 {warned}，错误 {wrong}，跳过 {skipped}",
  "first wrong output: none": "首个错误的输出：无",
  "first wrong output: {name}: {reason}": "首个错误的输出：{name}：{reason}",
  // Why a call was not checked.
  "the framework did not execute the call": "框架未能执行该调用",
  "an option that the record does not tell is none of the usual ones": "某个未记录的选项不是常见取值",
  "the process died with the call": "执行该调用时进程退出",
  "torch is not installed": "未安装 torch",
  "no operation is known under this name": "没有该名称的已知操作",
  "a collective: other ranks take part": "集合通信，需要其他 rank 参与",
  "the output depends on random numbers": "输出取决于随机数",
  "the output is uninitialised memory": "输出是未初始化的内存",
  "a tensor of the call was not recorded, or cannot be read": "该调用的某个张量未记录，或无法读取",
  "the forward of this backward call is not in the dump": "dump 数据中没有该反向调用对应的前向",
  "a gradient is the sum over all users of a tensor": "梯度是该张量所有使用者梯度之和",
  "the call has no output, or passes no gradient, that could be measured": "该调用没有可度量的输出或梯度",
  "an argument has no counterpart in the reference": "某个参数在参考实现中没有对应项",
  "a cell whose class has no description": "未知类型的 cell",
  "a record that is no call of a function or cell": "该记录不是函数或 cell 的调用",
  "the reference has another shape than the record": "参考实现的形状与记录不同",
  "the call is too large, and has no sample": "该调用过大，且没有采样",
  "the reference raised": "参考实现抛出异常",
  // Monitors.
  activation: "激活值",
  loss: "loss",
  "activation gradient": "激活值梯度",
  "unreduced gradient": "归约前梯度",
  collective: "集合通信",
  "reduced gradient": "归约后梯度",
  moment: "优化器动量",
  "weight before the update": "更新前权重",
  "weight after the update": "更新后权重",
  "{stage} ({kind})": "{stage}（{kind}）",
  "first divergence: {what}: {how_far}": "首个差异：{what}：{how_far}",
  "no divergence: all {number} numbers are equal": "未发现差异：{number} 个数值全部相等",
  "no divergence: all numbers from step {step} on stay within the band":
    "未发现差异：自 step {step} 起所有数值都在正常范围内",
  "unjudged: too few steps to learn the band from; give --calibrate, or longer runs":
    "无法判定：step 太少，得不到正常范围；请指定 --calibrate，或使用更长的运行",
  "steps {first} to {last} ({steps} in common), {number} numbers compared; the band: {basis}":
    "step {first} 至 {last}（共有 {steps} 个），比对 {number} 个数值；正常范围取自：{basis}",
  "both were equal in every digit before": "此前两侧逐位相等",
  "the steps before": "此前的 step",
  "a clean pair": "一对正确的运行",
  "what rounding explains in the first step": "首个 step 中舍入可解释的范围",
  "too few steps": "step 太少",
  "unjudged: steps {first} to {last}, of which the band is learned": "未判定：step {first} 至 {last}，用于得出正常范围",
  "gradients left the band for one step, as at a kink of an activation: step {steps}":
    "梯度仅在单个 step 超出范围（如激活函数的拐点）：step {steps}",
  "left the band at this step: {kinds}": "该 step 超出范围：{kinds}",
  "stayed inside: {kinds}": "在范围内：{kinds}",
  "{kind} ({total})": "{kind}（{total}）",
  "{kind} ({number} of {total})": "{kind}（{total} 个中的 {number} 个）",
  "{kind} ({total}, leaves at step {step})": "{kind}（{total} 个，自 step {step} 起超出）",
  "unmatched: rank {ranks} of {side}": "未匹配：{side} 的 rank {ranks}",
  "unmatched on rank {rank}: {what}, in {side} alone": "rank {rank} 未匹配：{what}，仅 {side} 有",
  "{number} of {kind}: {names}": "{kind} 中的 {number} 个：{names}",
  "all of {kind}": "全部 {kind}",
  "not compared: {steps} of {kinds}, in {side} alone": "未比对：{kinds} 的 {steps}，仅 {side} 有",
  "{side}: {note}": "{side}：{note}",
  "{first}: {cause}": "{first}：{cause}",
  "{number} {cause}; the first: {first}": "{cause}（{number} 处，首个为 {first}）",
  "unfinished last lines were left out (their process was killed, or still writes)":
    "忽略了未写完的末行（进程已终止，或仍在写入）",
  "lines that are no rows were left out": "忽略了格式不正确的行",
  "rows without a whole number as step, micro_step or vpp_stage were left out":
    "忽略了 step、micro_step 或 vpp_stage 不是整数的行",
  "rows have fields that should be numbers and are none; they are read as NaN":
    "有应为数值而不是数值的字段，按 NaN 读取",
  "rows were written twice; the later one counts": "有重复写入的行，以后写入的为准",
  "files or folders could not be read": "文件或目录无法读取",
  "files that are no table of a monitor were left out": "忽略了不是监控表格的文件",
  "files or folders are empty": "文件或目录为空",
  "files of an unknown kind were left out": "忽略了未知类型的文件",
  "rows of an unknown scope were left out": "忽略了 scope 未知的行",
  "columns without numbers were left out": "忽略了不含数值的列",
  "folders are of an older run, which was left out; give one of them to read it":
    "目录属于较早的运行，已忽略；如需读取，请单独指定",
  "folders of another form were left out; give one of them to read it": "忽略了其他格式的目录；如需读取，请单独指定",
  "steps were written again by a run that was resumed; what it wrote counts":
    "有被续训重新写入的 step，以续训写入的为准",
  // Titles.
  "kernels of {name}": "{name} 的算子",
  summary: "汇总",
  invariants: "不变量",
  violations: "不满足项",
  outputs: "输出",
  APIs: "API",
  "not checked": "未检查",
  "stages, in the order of a step": "各阶段（按 step 内的顺序）",
  "key data{where}": "关键数据{where}",
  "settings that differ{where}": "不同的设置{where}",
  " of step {step}": "（step {step}）",
  "{title} ({number} of {total} rows)": "{title}（{total} 行中的 {number} 行）",
  "{title} (the first {number} of {total} rows)": "{title}（{total} 行中的前 {number} 行）",
  // Places.
  "step {step}, rank {rank}": "step {step}，rank {rank}",
  "{name}: {target}, golden {golden}": "{name}：{target}，标杆 {golden}",
  "{name}: {a} | {b}": "{name}：{a} | {b}",
  "{text} ({cause})": "{text}（{cause}）",
  "{checker}: {grade}": "{checker}：{grade}",
  "{checker}: {what}": "{checker}：{what}",
  "{grade}: {text} ({sides})": "{grade}：{text}（{sides}）",
  "{stage}: {what}": "{stage}：{what}",
  "{name}: {cause}": "{name}：{cause}",
};
