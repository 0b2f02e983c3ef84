// Sentences of RL flows and of packs of configurations in Chinese, by their English templates.

export const OF_FLOWS: Record<string, string> = {
  // The first difference.
  "first difference: {what}": "首个差异：{what}",
  "{place}, {stage}, call {name}": "{place}，{stage}，调用 {name}",
  "{text}, seen in {keys}": "{text}，体现在 {keys}",
  "{text}, call {call}": "{text}，调用 {call}",
  "key {name} ({grade})": "关键数据 {name}（{grade}）",
  "key {name} ({grade}: {text})": "关键数据 {name}（{grade}：{text}）",
  "first at {where}": "首个位于 {where}",
  "{number} of {size} elements differ within tolerance, by {amount:.3g} at most":
    "{size} 个元素中有 {number} 个在容差内有差异，最大 {amount:.3g}",
  "stage {name}": "阶段 {name}",
  "{name} (outside its stages)": "{name}（不在任何阶段内）",
  // Why it differs.
  "the stage received different input, although {keys}: it comes from host code before the stage":
    "该阶段的输入不同，而{keys}：差异来自该阶段之前的 host 侧代码",
  "the stage received different input, although {stages}: it comes from host code between the stages":
    "该阶段的输入不同，而{stages}：差异来自阶段之间的 host 侧代码",
  "the stages {names} received different input, and the dumps do not tell which of them runs first":
    "阶段 {names} 的输入都不同，且由 dump 数据看不出哪个先执行",
  "the stage received different input, and the dumps do not tell which stage runs before it":
    "该阶段的输入不同，且由 dump 数据看不出它之前执行的是哪个阶段",
  "the stage received different input, and nothing that it reads was saved": "该阶段的输入不同，而它读取的数据都未保存",
  "it begins before this stage: {weights} differ as they were loaded or made":
    "差异早于该阶段：{weights}不同，加载或初始化时即如此",
  "it begins before this stage: {weights} differ as they were loaded or made, or since an update earlier in this step":
    "差异早于该阶段：{weights}不同，加载或初始化时即如此，或由本 step 内更早的一次更新引入",
  "it begins before this stage: {weights} differ as they were loaded or made, or since an update before":
    "差异早于该阶段：{weights}不同，加载或初始化时即如此，或由此前的某次更新引入",
  "it begins before this stage: {weights} differ since an update before":
    "差异早于该阶段：{weights}不同，由此前的某次更新引入",
  "it begins before this stage: {weights} differ, although every stage of step {before} agrees":
    "差异早于该阶段：{weights}不同，而 step {before} 的所有阶段都一致",
  "it begins before this stage: {weights} differ, although {names} of step {before} agrees":
    "差异早于该阶段：{weights}不同，而 step {before} 的 {names} 一致",
  "it begins before this stage: {weights} differ, and those of {names} in this step do not: the new weights do not reach this stage":
    "差异早于该阶段：{weights}不同，而本 step 中 {names} 的权重一致：更新后的权重未同步到该阶段",
  "the stages of step {names} agree, and the weights differ in the next one":
    "step {names} 的各阶段一致，而下一个 step 的权重不同",
  "whether it begins here cannot be said": "无法确定差异是否始于此处",
  "it begins here: {keys}": "差异始于此处：{keys}",
  "it begins in the inputs of the call, from outside the stage or from code of it between two calls":
    "差异始于该调用的输入，来自阶段之外，或来自阶段内两个调用之间的代码",
  "it begins in code of the stage between two recorded calls, or in what that code received from outside":
    "差异始于阶段内两个已记录调用之间的代码，或这段代码从外部得到的数据",
  "it begins here, as far as the dump says: {inputs} agrees": "就 dump 数据来看，差异始于此处：{inputs}一致",
  "no call can be named: {name} is none of the keys whose stage is known{saved}":
    "无法定位到具体调用：不清楚 {name} 由哪个阶段产生{saved}",
  "no call can be named: no stage makes {name}": "无法定位到具体调用：{name} 不由任何阶段产生",
  "no call can be named: the dump of {of} agrees in this step{blind}, so it is host code after the stage":
    "无法定位到具体调用：{of} 在本 step 的 dump 数据一致{blind}，因此差异来自该阶段之后的 host 侧代码",
  "{of} makes it, and {lack}": "它由 {of} 产生，而{lack}",
  "none of the keys that the stage makes shows it": "该阶段产生的关键数据都未体现此差异",
  "the same call is the first wrong one in {stages}": "在{stages}中，首个出错的也是该调用",
  "its dump of step {step} says: first wrong call: {call}":
    "由它在 step {step} 的 dump 数据得出：首个出错的调用为 {call}",
  "{stage} has a dump of this step, and a difference begins there too: first wrong call: {call}":
    "{stage}有本 step 的 dump 数据，其中也有差异起点：首个出错的调用为 {call}",
  "; it was saved {places}": "；它保存于{places}",
  "after {name}": " {name} 之后",
  "before {name}": " {name} 之前",
  " (as far as its tokens were collected)": "（限于已采集的 token）",
  " (as far as statistics tell)": "（限于统计量）",
  "its dump of step {step} could not be judged": "其 step {step} 的 dump 数据无法判定",
  "its dumps could not be compared ({cause})": "其 dump 数据无法比对（{cause}）",
  "it has no dump of this rank on both sides in step {step}": "它在 step {step} 没有两侧都有的该 rank 的 dump 数据",
  "it has a dump of step {step} only on the {side} side": "它在 step {step} 仅{side}侧有 dump 数据",
  "it has no dump of step {step}": "它没有 step {step} 的 dump 数据",
  "the weights of the {model}": " {model} 的权重",
  "its weights": "其权重",
  actor: "actor",
  critic: "critic",
  reference: "reference",
  "all inputs of the call": "该调用的所有输入",
  "all other inputs of the call": "该调用的其余输入",
  "everything before that call": "该调用之前的所有数据",
  "the stage {names} before it agrees": "此前的阶段 {names} 一致",
  "the stages {names} before it agree": "此前的阶段 {names} 都一致",
  "the key {names} before it agrees": "此前的关键数据 {names} 一致",
  "the keys {names} before it agree": "此前的关键数据 {names} 都一致",
  "the key {names} that the stage reads agrees": "该阶段读取的关键数据 {names} 一致",
  "the keys {names} that the stage reads agree": "该阶段读取的关键数据 {names} 都一致",
  // What to look at.
  "look at: {what}": "请检查：{what}",
  "look at: {update}; both sides have a dump of it, which --steps left out; give that step too":
    "请检查：{update}；两侧都有其 dump 数据，但被 --steps 排除，请一并指定该 step",
  "the update of step {step}": "step {step} 的参数更新",
  "that code, such as masks, positions and padding": "这段代码，如掩码、位置编号与填充",
  "the code between {last} and {name}": "{last} 与 {name} 之间的代码",
  "the data of step {step}, and the code that makes of them what these stages are given":
    "step {step} 的数据，以及由它们构造这些阶段输入的代码",
  "the data of step {step}, and the code that makes of them what {stage} is given":
    "step {step} 的数据，以及由它们构造{stage}输入的代码",
  "the checkpoints that are loaded, and the seeds that are set before the models are made":
    "所加载的 checkpoint，以及创建模型之前设置的随机种子",
  "the checkpoints that are loaded, and the seeds that are set before the models are made; or what changes weights before {stage}":
    "所加载的 checkpoint，以及创建模型之前设置的随机种子；或{stage}之前修改权重的操作",
  "what changes weights behind the stages: the optimizer, its learning rate and state, clipping, weight decay":
    "各阶段之后修改权重的操作：优化器及其学习率与状态、梯度裁剪、权重衰减",
  "what changes weights behind it: the optimizer, its learning rate and state, clipping, weight decay":
    "其后修改权重的操作：优化器及其学习率与状态、梯度裁剪、权重衰减",
  "how weights are handed to {name} after an update": "更新后的权重如何同步给 {name}",
  "the end of step {names}: the gradients' reduction, the optimizer, the loading of updated weights":
    "step {names} 的末尾：梯度归约、优化器、加载更新后的权重",
  "where that comes from, upwards from the line that makes the call": "从发起调用的代码行往上，找到它的来源",
  "that code, such as the loss; {operations} records its calls":
    "这段代码，如 loss 计算；{operations} 可记录其中的调用",
  "the code that makes {name}": "产生 {name} 的代码",
  "how {after}; where that code runs before {end}, {operations} records its calls":
    "{after}；若这段代码在 {end} 之前执行，{operations} 可记录其中的调用",
  // Host code of a step.
  "the data of the step: loader and tokenizer": "本 step 的数据：数据加载与 tokenizer",
  "tokens are sampled from its logits (temperature, top_k, top_p, seed), ended, cut and padded":
    "由其 logits 采样 token（temperature、top_k、top_p、随机种子），以及终止、截断与填充",
  "how prompts and responses are put together (padding, masks, positions)":
    "prompt 与 response 的拼接（填充、掩码、位置编号）",
  "the log probabilities of the responses' tokens are taken from its logits (temperature, shift by one, mask)":
    "由其 logits 计算 response 各 token 的对数概率（temperature、错开一位、掩码）",
  "the values of the responses' tokens are taken from its output (shift by one, mask)":
    "由其输出取 response 各 token 的 value（错开一位、掩码）",
  "the reward functions, or the reward model, and their normalisation": "奖励函数或奖励模型，以及奖励的归一化",
  "the distance between actor and reference, and its coefficient": "actor 与 reference 之间的 KL 及其系数",
  "the estimate of advantages (gamma, lambda, groups, normalisation, mask)":
    "优势估计（gamma、lambda、分组、归一化、掩码）",
  "log probabilities, ratio, clipping, KL and loss are computed from its logits":
    "由其 logits 计算对数概率、ratio、裁剪、KL 与 loss",
  "the loss of the values is computed from its output": "由其输出计算 value 的 loss",
  // What to collect.
  "collect it: {what}": "请采集：{what}",
  "{update}, of which there are no two dumps; {what}": "{update}，两侧不都有其 dump 数据；{what}",
  "the stages of step {step}, of which there is no dump; {what}": "step {step} 的各阶段，尚无 dump 数据；{what}",
  "{what}; its weights may be the cause: {update}": "{what}；原因也可能是其权重：{update}",
  "set {what}; then run both again": "设置 {what}，再重跑两侧",
  "set {switches}": "设置 {switches}",
  "set {switches}, where MsProbe collects it": "若由 MsProbe 采集，设置 {switches}",
  "put {start} before that part of the step and {stop} behind it, with step=[{step}] of the PrecisionDebugger":
    "在该部分之前调用 {start}，之后调用 {stop}，并将 PrecisionDebugger 的 step 设为 [{step}]",
  "{way}, where debugger.stage does": "若由 debugger.stage 采集，{way}",
  "{before}; or {after}": "{before}；或{after}",
  "{way}; then run both again": "{way}，再重跑两侧",
  "{way}; then run the {side} again": "{way}，再重跑{side}侧",
  "step=[{step}] of the PrecisionDebugger": "PrecisionDebugger 的 step=[{step}]",
  "{ways} collects the update before in the same runs": "{ways} 可在同一次运行中采集此前的更新",
  // Configurations.
  "configurations: {problem}": "配置：{problem}",
  "configurations: 0 of {total} settings differ": "配置：{total} 项设置全部相同",
  "configurations: {number} of {total} settings differ{places}; possible explanations, no faults by themselves:":
    "配置：{total} 项设置中有 {number} 项不同{places}；可能是差异的原因，但本身不一定有错：",
  ", {number} of them places or times": "，其中 {number} 项是路径或时间",
  "  and {number} more in the table": "  另有 {number} 项见表格",
  "not there": "无",
  "random numbers": "随机数",
  sampling: "采样",
  "dtype and rounding": "dtype 与舍入",
  normalisation: "归一化",
  "the update": "参数更新",
  "the objective": "优化目标",
  "shapes and batches": "形状与 batch",
  "what is loaded": "加载的内容",
  "place or time": "路径或时间",
  "order of the stages in a step: {names}": "一个 step 内各阶段的顺序：{names}",
  "order of the stages in a step, by the lines that call them: {names}":
    "一个 step 内各阶段的顺序（按调用它们的代码行）：{names}",
  "order of the stages in a step: the dumps do not tell it for {names}; of one step, those in which a difference begins by their own dump are named first":
    "一个 step 内各阶段的顺序：由 dump 数据看不出 {names} 的顺序；同一 step 内，先列出自身有差异起点的阶段",
  // What has no partner.
  "key data": "关键数据",
  "key {name}": "关键数据 {name}",
  "key {name} of {places}": "{places} 的关键数据 {name}",
  "some of key {name} of {places}": "{places} 的关键数据 {name} 的一部分",
  "{places} of the key data": "关键数据的 {places}",
  "key data not compared: {cause}": "关键数据未比对：{cause}",
  "{stage} not compared: {cause}": "{stage}未比对：{cause}",
  "step {step} not compared: {cause}": "step {step} 未比对：{cause}",
  "{stage} has a dump only on the {side} side": "{stage}仅{side}侧有 dump 数据",
  "stage {name} of the {side} holds no dump": "{side}侧的阶段 {name} 没有 dump 数据",
  "step {numbers}": "step {numbers}",
  "steps {numbers}": "step {numbers}",
  "rank {numbers}": "rank {numbers}",
  "ranks {numbers}": "rank {numbers}",
  "{first} to {last}": "{first} 至 {last}",
  // Packs of configurations.
  env: "环境变量",
  pip: "软件包",
  dataset: "数据集",
  weights: "权重",
  hyperparameters: "超参",
  random: "随机数调用",
  context: "上下文配置",
  "only bench has it": "仅标杆侧有",
  "only cmp has it": "仅待调试侧有",
  "nothing of it is on both sides": "两侧没有共同项",
  "only bench have": "仅标杆侧有",
  "only cmp have": "仅待调试侧有",
  "not recorded": "未记录",
  "not counted": "未计数",
  "not set": "未设置",
  everything: "全部",
  "an unknown place": "未知位置",
  "at step {step}, rank {rank}": "（step {step}，rank {rank}）",
  "{name} {where}: {kind}": "{name}{where}：{kind}",
  "{name} {where} differs: {apart}, relative": "{name}{where}不同，相对差异：{apart}",
  "{name} {where} differs: from zero, or by what is no number, relative":
    "{name}{where}不同：标杆为 0，或差值不是数，无相对差异",
  "{name} was called {a} | {b} times on rank {rank} from {place}":
    "{name} 在 rank {rank} 上由 {place} 调用 {a} | {b} 次",
  "unjudged: {which}; everything else passes ({sides})": "未判定：{which}；其余全部通过（{sides}）",
  "pass: nothing that matters differs between {sides}": "通过：{sides} 没有影响结果的差异",
};
