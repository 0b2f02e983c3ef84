// Sentences of comparisons in Chinese, by the English template that a command writes (`base/phrase.py`).

export const OF_COMPARISONS: Record<string, string> = {
  // Reasons of a pair of records.
  "No element is in both": "两侧没有共同的元素",
  "Digests differ: {r.target}, golden {r.golden}": "摘要不同：{r.target}，标杆 {r.golden}",
  "NaN or infinity differs: the {r.name} is {r.target}, golden {r.golden}":
    "NaN 或无穷不一致：{r.name} 为 {r.target}，标杆 {r.golden}",
  "NaN or infinity differs: the {which} is {target}, golden {golden}":
    "NaN 或无穷不一致：{which} 为 {target}，标杆 {golden}",
  "NaN or infinity differs in {r.number} of {r.size} elements": "{r.size} 个元素中有 {r.number} 个的 NaN 或无穷不一致",
  "NaN or infinity differs in {r.number} of {r.size} elements, first {where}":
    "{r.size} 个元素中有 {r.number} 个的 NaN 或无穷不一致，首个{where}",
  "{number} element is {kind}, golden {golden}": "{number} 个元素为 {kind}，标杆 {golden} 个",
  "{number} elements are {kind}, golden {golden}": "{number} 个元素为 {kind}，标杆 {golden} 个",
  "The {which} differs: {target}, golden {golden}": "{which} 不同：{target}，标杆 {golden}",
  "The {which} differs: {target:.9g}, golden {golden:.9g}": "{which} 不同：{target:.9g}，标杆 {golden:.9g}",
  "The {which} differs beyond {standard} by {times}: {target:.9g}, golden {golden:.9g}":
    "{which} 超出 {standard}，为其 {times}：{target:.9g}，标杆 {golden:.9g}",
  "any amount": "任意倍",
  "{excess:.3g} times": "{excess:.3g} 倍",
  "Differs by {r.amount:.3g} of its scale, beyond the {r.allowed:g} that two frameworks may differ":
    "差异为其量级的 {r.amount:.3g}，超出两个框架间允许的 {r.allowed:g}",
  "Judged together with the other parts of the fused record": "与融合记录的其他部分一并判定",
  "On the {r.side} side only": "仅{r.side}侧有",
  "On the {r.side} side only: nothing of this kind was collected on the {there} side":
    "仅{r.side}侧有：{there}侧未采集此类数据",
  "Only on the {r.side} (first folder) side: {r.name}": "仅{r.side}侧（第一个目录）有：{r.name}",
  "Only on the {r.side} (second folder) side: {r.name}": "仅{r.side}侧（第二个目录）有：{r.name}",
  "A gradient flowed here on the {r.side} side but could not be collected": "{r.side}侧此处有梯度流过，但未能采集",
  "The gradient is this call's own on one side and the sum over all users of the tensor on the other (target {r.target}, golden {r.golden})":
    "一侧为该调用自身的梯度，另一侧为该张量所有使用者梯度之和（待调试 {r.target}，标杆 {r.golden}）",
  "Not readable: {r.name}": "无法读取：{r.name}",
  "Not compared: {r.name}; {r.names[0]}, {r.names[1]}": "未比对：{r.name}；{r.names[0]}，{r.names[1]}",
  "Not compared: the process died over it; {r.names[0]}, {r.names[1]}. {r.name}":
    "未比对：进程因此退出；{r.names[0]}，{r.names[1]}。{r.name}",
  "No tensor was saved on the {r.side} side": "{r.side}侧未保存张量",
  "By statistics": "按统计量判定",
  "One is a part of the other, which statistics alone cannot compare": "一个是另一个的一部分，仅凭统计量无法比对",
  "No statistics on the {r.side} side": "{r.side}侧没有统计量",
  "No statistics on the {r.side} side, which has digests only": "{r.side}侧只有摘要，没有统计量",
  "Digests differ, which says nothing of how far two frameworks are apart": "摘要不同，但这不能说明两个框架的差距大小",
  "Digests of two kinds cannot be compared: {r.target}, golden {r.golden}; collect both sides with the same summary_mode":
    "两种不同的摘要无法比较：{r.target}，标杆为 {r.golden}；请两侧使用相同的 summary_mode 重新采集",
  "On both sides a statistic is no number": "两侧均有统计量为非数值",
  "{r.name} keeps this for its own backward and may leave it unwritten; its first output is judged":
    "{r.name} 为自身的反向保留该值，可能未写入；以其第一个输出判定",
  "{r.name} gives uninitialised memory, which is never the same twice; what fills it is judged":
    "{r.name} 返回未初始化的内存，每次都不相同；以写入后的内容判定",
  "{r.name} receives tensors to be filled; what they held before says nothing":
    "{r.name} 的输入是待填充的张量，其原有内容没有意义",
  "{r.name} writes every element of this tensor; what it held before says nothing":
    "{r.name} 会写入该张量的每个元素，其原有内容没有意义",
  "Parameters are fused on one side: there this is the sum of the gradients of its parts":
    "参数在一侧被融合：该侧此值为各部分梯度之和",
  "{r.target!r} on one side is {r.golden!r} on the other": "一侧为 {r.target!r}，另一侧为 {r.golden!r}",
  "{r.target!r} on one side is {r.golden!r} on the other, which means the same":
    "一侧为 {r.target!r}，另一侧为 {r.golden!r}，含义相同",
  "{r.side} says None here, and {there} nothing": "此处 {r.side} 为 None，{there} 没有记录",
  "Could not be collected on the {r.side} side: `missing` in its dump.json has the cause":
    "{r.side}侧未能采集，原因见其 dump.json 的 `missing`",
  "Could not be collected on either side: `missing` in each dump.json has the cause":
    "两侧均未能采集，原因见各自 dump.json 的 `missing`",
  "Noise: the kernel's residual is {r.amount:.2g}, golden {r.excess:.2g}, noise up to {r.allowed:.2g}{by}":
    "噪声：算子残差为 {r.amount:.2g}，标杆 {r.excess:.2g}，噪声上限 {r.allowed:.2g}{by}",
  "Its residual on its own inputs is {r.amount:.2g}, golden {r.excess:.2g} ({cause})":
    "其对自身输入的残差为 {r.amount:.2g}，标杆 {r.excess:.2g}（{cause}）",
  "Its residual on its own inputs is {r.amount:.2g}, golden {r.excess:.2g} ({cause}: {r.allowed:.2g})":
    "其对自身输入的残差为 {r.amount:.2g}，标杆 {r.excess:.2g}（{cause}：{r.allowed:.2g}）",
  "Noise: differs by {r.amount:.2g} of its norm, where its inputs explain {r.allowed:.2g}{by}":
    "噪声：差异为其范数的 {r.amount:.2g}，输入可解释 {r.allowed:.2g}{by}",
  "Differs by {r.amount:.2g} of its norm, where its inputs explain {r.allowed:.2g}{by}":
    "差异为其范数的 {r.amount:.2g}，输入只能解释 {r.allowed:.2g}{by}",
  "Noise: its statistics differ by {r.amount:.2g}, where its inputs explain {r.allowed:.2g}":
    "噪声：统计量差异为 {r.amount:.2g}，输入可解释 {r.allowed:.2g}",
  "Its statistics differ by {r.amount:.2g}, where its inputs explain {r.allowed:.2g}":
    "统计量差异为 {r.amount:.2g}，输入只能解释 {r.allowed:.2g}",
  "Noise: {law}, as on the golden side": "噪声：{law}，与标杆侧相同",
  "Its {r.side} is {r.amount:.2g} off what its inputs tell, golden {r.excess:.2g}, although {law}":
    "其 {r.side} 与由输入推得的值相差 {r.amount:.2g}，标杆 {r.excess:.2g}，而按理{law}",
  "beyond any rounding, on the target side only": "超出任何舍入误差，且仅待调试侧如此",
  "coarser than the same call in other layers": "比其他层的同类调用更粗糙",
  "coarser than most calls of its kind": "比大多数同类调用更粗糙",
  "beyond the spread of its kin": "超出同类调用的离散范围",
  "single elements beyond noise": "个别元素超出噪声",
  "a common factor or offset": "存在共同的倍数或偏移",
  "a call that only moves data changed it": "仅搬运数据的调用改变了数据",
  "differs by more than its inputs explain": "差异超出输入所能解释",
  "another function than the golden's": "与标杆的函数不同",
  "all other calls of the kind are equal to the bit": "其他同类调用均逐位相等",
  "coarser than the calibration allows its kind": "精度低于校准允许的范围",
  "breaks an identity between its statistics": "违反其统计量之间的恒等式",
  "the elements are those of the input": "其元素就是输入的元素",
  "the elements are a linear function of the input's": "其元素是输入元素的线性函数",
  "the sum of all elements follows from the inputs' sums": "全部元素之和由输入之和决定",
  "the parts make up the whole": "各部分合起来就是整体",
  "the elements are copies of the input's": "其元素是输入元素的副本",
  "the elements are picked from the input": "其元素取自输入",
  "the extremes are those of the input, mapped": "其最值由输入的最值映射得到",
  "the sum of squares follows from the norm": "其平方和由范数决定",
  "every row sums to one number": "每行之和是同一个数",
  "the mean is taken out": "均值已被减去",
  calibrated: "校准",
  exact: "精确",
  " ({whose} limit)": "（{whose} 的限值）",
  "Noise of the calls that made it": "产生该值的调用带来的噪声",
  "The difference dies out: nothing that counts differs because of it": "差异随后消失，不影响其他结果",
  "Ignored by --ignore {r.name}": "按 --ignore {r.name} 忽略",
  "Within the user's limit |target - golden| <= {absolute} + {relative}*|golden| ({options})":
    "在用户指定的上限之内：|target - golden| <= {absolute} + {relative}*|golden|（{options}）",
  "This argument differs, and noise would hide its effect": "该参数不同，其影响可能被噪声掩盖",
  "Differs by {r.amount:.2g}, where its inputs explain {r.allowed:.2g}: a bound beyond 0.1 shows nothing":
    "相差 {r.amount:.2g}，输入可解释 {r.allowed:.2g}：超过 0.1 的界限无法说明问题",
  "The update before is that of the golden's settings; the weights have drifted apart":
    "此前的更新与标杆的设置一致，权重只是逐渐偏离",
  "The updates before differ as the gradients explain; the weights have drifted apart{by}":
    "此前更新的差异可由梯度解释，权重只是逐渐偏离{by}",
  "The updates before agree; the weights have drifted apart{by}": "此前的更新一致，权重只是逐渐偏离{by}",
  "The means moved alike; the weights have drifted apart": "均值变化一致，权重只是逐渐偏离",
  "The weights are no further apart than two runs drift{by}": "权重的差异未超出两次运行的正常偏离{by}",
  "Its gradient is rounding error on both sides, which the optimizer amplifies":
    "两侧的梯度都只是舍入误差，被优化器放大",
  "The update before differs by more than optimizer and gradients explain ({times})":
    "此前更新的差异超出优化器与梯度所能解释的范围（{times}）",
  "msprobe's dumps of PyTorch tell the gradients of an inner node of autograd here, which need not be those of the arguments":
    "msprobe 的 PyTorch dump 数据在此处记录的是自动微分内部节点的梯度，未必是各参数的梯度",
  "{there} has no such result here": "{there} 此处没有该结果",
  "{there} gives no such result here": "{there} 此处不返回该结果",
  "PyTorch keeps this in a buffer, which is not collected with the parameters":
    "PyTorch 将其存放在 buffer 中，不随参数采集",
  "{there} gives no result whose gradient this is": "{there} 不返回与该梯度对应的结果",
  "{there} does the same by default": "{there} 默认行为相同",
  "{r.name} is {r.target!r}, and {there} computes as if it were {r.golden!r}":
    "{r.name} 为 {r.target!r}，而 {there} 按 {r.golden!r} 计算",
  "The other side computes its result in another way; its inputs are not compared":
    "另一侧以其他方式计算结果，不比对其输入",
  "{there} has no such argument, or its result tells it": "{there} 没有该参数，或可由结果看出",
  "Only {r.side}'s call has this argument; the default of {there} is not known":
    "仅 {r.side} 的调用有该参数；{there} 的默认值未知",
  "Only one side's cell receives this; the other has or computes it itself":
    "仅一侧的 cell 接收该值，另一侧自有或自行计算",
  "No counterpart: {r.name}": "没有对应项：{r.name}",
  "msprobe keeps the gradients of the last micro-batch only": "msprobe 只保留最后一个 micro-batch 的梯度",
  "Passes its input on unchanged": "原样传递输入",
  "Written differently: what is computed from it is compared": "写法不同：比对由其算出的值",
  "Its forward call is written differently": "其前向调用写法不同",
  "Only one side's call has this argument, and both return the same": "只有一侧的调用带有该参数，两侧返回值相同",
  "No recorded call is known to use what it returns": "没有发现已记录的调用使用其返回值",
  "Nothing that recorded calls compute from it is compared": "由它计算出的结果都没有参与比对",
  "Its forward call begins or ends at another step than on the other side": "其前向调用的起止位置与另一侧不同",
  "None on one side and zeros on the {r.side} side: both are no gradient":
    "一侧为 None，{r.side}侧为全零：两者都表示没有梯度",
  "Only the {r.side} side has this gradient: nothing uses it, as no parameter leads there":
    "仅{r.side}侧有该梯度：它不通向任何参数，未被使用",
  "its parameters are those of several layers on the other side, concatenated": "其参数由另一侧若干层的参数拼接而成",
  "the modules that own the parameters are a pair, and msprobe keeps the last micro-batch's gradients":
    "参数所属的模块已配对，且 msprobe 保留最后一个 micro-batch 的梯度",
  "Could be {calls}; say which with a mapping": "可能对应 {calls}；请用映射文件指明",
  "Shapes differ: {target}, golden {golden}": "形状不同：{target}，标杆 {golden}",
  "Shapes of the files differ: {target}, golden {golden}": "文件的形状不同：{target}，标杆 {golden}",
  "Dtypes differ: {target}, golden {golden}": "dtype 不同：{target}，标杆 {golden}",
  "{shapes}; within the standard after {r.name}, which a data mapping may declare":
    "{shapes}；经 {r.name} 后符合标准，可在数据映射中声明",
  "{shapes}; compared in {part}": "{shapes}；在 {part} 范围内比对",
  "{shapes}; compared in {part} of the flattened two": "{shapes}；展平后在 {part} 范围内比对",
  "{place} is {target}, golden {golden}": "{place} 为 {target}，标杆 {golden}",
  "a tensor {dtype}{shape}": "张量 {dtype}{shape}",
  "at {index}": "位于 {index}",
  ", at {index}": "，位于 {index}",
  "in its one element": "即其唯一的元素",
  "Integers and booleans must be equal: {r.number} of {r.size} elements differs, the largest difference is {r.amount:.15g}{where}":
    "整数与布尔值必须相等：{r.size} 个元素中有 {r.number} 个不同，最大差值 {r.amount:.15g}{where}",
  "Integers and booleans must be equal: {r.number} of {r.size} elements differ, the largest difference is {r.amount:.15g}{where}":
    "整数与布尔值必须相等：{r.size} 个元素中有 {r.number} 个不同，最大差值 {r.amount:.15g}{where}",
  "{r.number} of {r.size} elements beyond {r.allowed}, worst {where} by {times}; greatest absolute difference {r.amount:.3g}":
    "{r.size} 个元素中有 {r.number} 个超出 {r.allowed}，最差处{where}，为其 {times}；最大绝对差 {r.amount:.3g}",
  // Why pairs have no verdict.
  "{cause} (exempt)": "{cause}（可豁免）",
  "without a partner": "没有对应项",
  "not collected on one side": "一侧未采集",
  "that could not be collected on either side": "两侧均未能采集",
  "in files that are missing or cannot be read": "文件缺失或无法读取",
  "without statistics, whose tensors one side did not save": "没有统计量且一侧未保存张量",
  "without statistics on one side": "一侧没有统计量",
  "with digests on one side and statistics on the other": "一侧为摘要，另一侧为统计量",
  "with digests of two frameworks and no statistics": "两个框架的摘要，且没有统计量",
  "with digests of two kinds; collect both sides with the same summary_mode":
    "摘要的种类不同；请两侧使用相同的 summary_mode 重新采集",
  "of which one is a part of the other, which statistics do not show": "一个是另一个的一部分，统计量无法体现",
  "with a call's own gradient on one side and an accumulated one on the other":
    "一侧为调用自身的梯度，另一侧为累加的梯度",
  "with the gradient of an inner node of autograd on one side": "一侧为自动微分内部节点的梯度",
  "whose comparison failed": "比对失败",
  "of values that nobody uses": "其值未被使用",
  "of gradients that nobody needs": "其梯度未被使用",
  "without a counterpart in the other framework": "另一框架中没有对应项",
  "internal details of one framework": "单个框架的内部细节",
  "of calls that the level of the other side leaves out": "另一侧的级别不采集的调用",
  "with a call's own gradient on one side and an accumulated one on the other, which is compared elsewhere":
    "一侧是该调用自己的梯度，另一侧是累加的梯度，后者已在别处比较",
  "The other side was collected at level {r.name}, which leaves out such calls":
    "另一侧以 {r.name} 级别采集，不含此类调用",
  "The target has the {r.target} gradient, the golden the {r.golden} one; the sum over all users is compared as {r.name}":
    "目标侧为 {r.target} 梯度，标杆侧为 {r.golden} 梯度；所有使用者之和已作为 {r.name} 比较",
  "whose difference dies out": "差异随后消失",
  "of what one side alone does, without consequence": "仅一侧执行且无影响",
  "ignored by the user": "被用户忽略",
  "of arguments that differ, whose effect noise would hide": "参数不同，其影响可能被噪声掩盖",
  "whose inputs explain more than a tenth, which shows nothing": "输入可解释超过十分之一的差异，无法说明问题",
  // Updates of parameters.
  "statistics name a learning rate, a weight decay and parameters that are not updated, no other setting":
    "统计量只能看出学习率、权重衰减与未更新的参数，看不出其他设置",
  "learning rate": "学习率",
  "weight decay": "权重衰减",
  momentum: "动量",
  beta1: "beta1",
  beta2: "beta2",
  eps: "eps",
  "Adam without bias correction": "Adam 未做偏差修正",
  "gradient clipping": "梯度裁剪",
  "Nesterov momentum on one side": "一侧使用 Nesterov 动量",
  "not updated": "未更新",
  "updated alone": "仅单侧更新",
  unknown: "未知",
  "bias correction": "偏差修正",
  "update rule": "更新规则",
  "all of them frozen, or not in the optimizer": "全部被冻结或不在优化器中",
  "all of them frozen in the golden, or not in its optimizer": "标杆中全部被冻结或不在优化器中",
  "the learning rate is 0 for {who}, and the golden's is not": "{who}的学习率为 0，标杆则不为 0",
  "the golden's learning rate is 0 for {who}, and the target's is not": "{who}在标杆中的学习率为 0，目标侧则不为 0",
  "{text} [residual {residual}; other explanations: {others}]": "{text}［残差 {residual}；其他解释：{others}］",
  "{cause}{values}: {residual}": "{cause}{values}：{residual}",
  "{target}, golden {golden}": "{target}，标杆 {golden}",
  " ({values})": "（{values}）",
  none: "无",
  "not known": "未知",
  "{before}, {after}": "{before}、{after}",
  "{text} (or {others}, which these steps cannot tell apart)": "{text}（也可能是{others}，由这些 step 无法区分）",
  "the {cause} differs{values} for {who}": "{who}的{cause}不同{values}",
  "{number} of {total} parameter": "{total} 个参数中的 {number} 个",
  "{number} of {total} parameters": "{total} 个参数中的 {number} 个",
  "{text} ({names})": "{text}（{names}）",
  " ({target}, golden {golden})": "（{target}，标杆 {golden}）",
  "the learning rate is {factor} times the golden's{values} for {who}": "{who}的学习率是标杆的 {factor} 倍{values}",
  "the learning rate is not the golden's{values} for {who}": "{who}的学习率与标杆不同{values}",
  "the {here}'s Adam does not correct its bias, the {there}'s does, for {who}":
    "{who}：{here}侧的 Adam 未做偏差修正，{there}侧做了",
  "gradients are clipped differently{limits}, for {who}": "{who}的梯度裁剪不同{limits}",
  not: "无",
  "norm {n}": "范数 {n}",
  "{who} is not updated (frozen, or not in the optimizer), the golden updates it":
    "{who}未更新（被冻结或不在优化器中），标杆则有更新",
  "{who} are not updated (frozen, or not in the optimizer), the golden updates them":
    "{who}未更新（被冻结或不在优化器中），标杆则有更新",
  "{who} is updated, and not in the golden (frozen, or not in the optimizer)":
    "{who}有更新，标杆中则没有（被冻结或不在优化器中）",
  "{who} are updated, and not in the golden (frozen, or not in the optimizer)":
    "{who}有更新，标杆中则没有（被冻结或不在优化器中）",
  "updates of {who} are further apart than noise explains, by no setting that is known":
    "{who}的更新差异超出噪声，且不能归于任何已知设置",
  "{number} more differ as noise explains": "另有 {number} 个的差异可由噪声解释",
  "{who} further apart than their gradients explain": "{who}的差异超出其梯度所能解释",
  "{who} further apart than two runs drift (look at the optimizer, the learning rate and earlier gradients); the step before, collected too, would show why":
    "{who}的差异超出两次运行的正常偏离（请检查优化器、学习率和更早的梯度）；若同时采集前一个 step 即可看出原因",
  "{updates}; by the update after step {step}": "{updates}；发生在 step {step} 之后的更新",
  "{who} have drifted as far as the noise of two runs explains; no update differs by more":
    "{who}的偏离可由两次运行的噪声解释，没有更新的差异超出此范围",
  // What supports a finding.
  "whether it began here cannot be said, because these inputs could not be judged: {names}":
    "无法确定是否始于此处，因为这些输入无法判定：{names}",
  "whether it began here cannot be said, because the inputs of calls were not collected on the {side} side":
    "无法确定是否始于此处，因为{side}侧未采集调用的输入",
  "whether it began here cannot be said, because the incoming gradients of calls were not collected on the {side} side":
    "无法确定是否始于此处，因为{side}侧未采集调用的传入梯度",
  "whether it began here cannot be said, because these inputs could not be collected: {names}":
    "无法确定是否始于此处，因为这些输入未能采集：{names}",
  "whether it began here cannot be said, because its forward call was not collected":
    "无法确定是否始于此处，因为未采集其前向调用",
  "whether it began here cannot be said, because it was saved by name, and what it was made of was not":
    "无法确定是否始于此处，因为该值是按名称保存的，而产生它的值未保存",
  "whether it began before cannot be said, because {names} could not be judged":
    "无法确定是否始于更早，因为 {names} 无法判定",
  "no recorded call begins it, records in between are missing": "没有已记录的调用是其起点，中间缺少记录",
  "computes differently": "计算结果不同",
  "random operation": "随机操作",
  "fix seeds with seed_all or set p=0; {difference}": "请用 seed_all 固定种子，或设 p=0；{difference}",
  "fix seeds with seed_all; {difference}": "请用 seed_all 固定种子；{difference}",
  "two frameworks draw different numbers from one seed, set p=0; {difference}":
    "同一种子在两个框架中产生的随机数不同，请设 p=0；{difference}",
  "two frameworks draw different numbers from one seed, load the same values on both; {difference}":
    "同一种子在两个框架中产生的随机数不同，请在两侧载入相同的值；{difference}",
  "at the seeds of both runs, and at the random numbers that are drawn before this call":
    "两次运行的随机种子，以及此调用之前产生的随机数",
  "argument differs": "参数取值不同",
  "structure differs": "结构不同",
  "parameters differ": "权重不同",
  "run inputs differ": "输入数据不同",
  "code between": "已记录调用之间的代码不同",
  "cannot tell": "无法确定",
  "code between the start and {name} in {cell}": "从起点到 {name} 之间的代码不同（位于 {cell}）",
  "code between {before} and {name} in {cell}": "{before} 与 {name} 之间的代码不同（位于 {cell}）",
  "{text}; {number} call before it could not be judged in full: {names}":
    "{text}；此前有 {number} 个调用未能完整判定：{names}",
  "{text}; {number} calls before it could not be judged in full: {names}":
    "{text}；此前有 {number} 个调用未能完整判定：{names}",
  "{text}; within tolerance here, {grade} at {name}": "{text}；此处在容差内，到 {name} 为{grade}",
  "{text}; within tolerance here, and nothing after it is beyond": "{text}；此处在容差内，之后也没有超出",
  "all inputs agree, but {difference}": "所有输入一致，但{difference}",
  "it has no inputs, but {difference}": "没有输入，但{difference}",
  "its inputs differ and do not explain this: {difference}": "输入有差异，但不足以解释：{difference}",
  "all inputs agree, but the gradients of its parameters do not: {difference}":
    "所有输入一致，但参数的梯度不一致：{difference}",
  "{text}; the {side} asks for no gradient there": "{text}；{side}侧在此处不求梯度",
  "{place} is the parameter {target}, golden {golden}": "{place} 是参数 {target}，标杆为 {golden}",
  "{place} is passed on the {side} side only": "仅{side}侧传入 {place}",
  "all inputs that were compared agree, but {difference}": "已比较的输入都一致，但{difference}",
  "{difference}; no recorded call returned it": "{difference}；它不是任何已记录调用的输出",
  "{difference}; it is among the first inputs of the run, and no recorded call returned it":
    "{difference}；它是运行最初的输入之一，不是任何已记录调用的输出",
  "{number} call that was compared before it agrees": "此前比较过的 {number} 个调用一致",
  "{number} calls that were compared before it agree": "此前比较过的 {number} 个调用都一致",
  "no call before it was compared": "此前没有可比较的调用",
  "the arguments {first} and {second} are swapped; {before}": "参数 {first} 与 {second} 互换了位置；{before}",
  "the incoming gradient {difference}": "传入梯度 {difference}",
  "{what}; it comes from {target}, golden from {golden}; {before}":
    "{what}；它来自 {target}，标杆来自 {golden}；{before}",
  "no recorded call": "未记录的调用",
  "{what}; no recorded call returned it; {before}": "{what}；它不是任何已记录调用的输出；{before}",
  "{what}; {producer} returned it, and no recorded call begins the difference":
    "{what}；它由 {producer} 返回，而差异并非始于任何已记录的调用",
  "{what}, although {producer}, which it comes from, agrees": "{what}，而产生它的 {producer} 一致",
  "{what}; {before}": "{what}；{before}",
  "only the {side} rounds to {dtype} here, the {there} keeps {other}":
    "仅{side}侧在此处舍入到 {dtype}，{there}侧保持 {other}",
  "{difference}; what recorded calls compute from it agrees": "{difference}；由它计算出的已记录结果都一致",
  "{difference}; no recorded call uses it": "{difference}；没有已记录的调用使用它",
  "{difference}; nothing that recorded calls compute from it is compared":
    "{difference}；由它计算出的结果都没有参与比对",
  "precision differs": "精度不同",
  "harmless difference": "无害的差异",
  "harmless: {finding}": "无害：{finding}",
  "open: {finding}": "未定：{finding}",
  "whether that has an effect cannot be said: it would be less than the noise of the outputs":
    "无法判断它是否有影响：其影响可能小于输出的噪声",
  "{number} parameter differs: {names}": "{number} 个参数不同：{names}",
  "{number} parameters differ: {names}": "{number} 个参数不同：{names}",
  "{text} ({total} in the whole step)": "{text}（整个 step 共 {total} 个）",
  "{text}; this is one of the running statistics, look at the layer's momentum (MindSpore's 0.9 is PyTorch's 0.1) and at the batches before":
    "{text}；它是归一化层的滑动统计量，请检查该层的 momentum（MindSpore 的 0.9 即 PyTorch 的 0.1）和此前的 batch",
  "{text}; these are running statistics, look at the layer's momentum (MindSpore's 0.9 is PyTorch's 0.1) and at the batches before":
    "{text}；它们是归一化层的滑动统计量，请检查该层的 momentum（MindSpore 的 0.9 即 PyTorch 的 0.1）和此前的 batch",
  "{text}; an earlier update already differed (look at the optimizer, the learning rate and earlier gradients), or weights were not handed over to this model":
    "{text}；更早的更新已有差异（请检查优化器、学习率和更早的梯度），或权重未加载到该模型",
  "only the {here} has gradients of its parameters, in the {there} they are frozen, or its output is detached":
    "仅{here}侧有其参数的梯度；{there}侧参数被冻结，或其输出被 detach",
  "only the {here} makes this call, the {there} calls {others} in its place":
    "仅{here}侧有此调用，{there}侧在此处调用 {others}",
  "only the {here} makes this call, the {there} goes on with {name} (the {here}'s {known_as})":
    "仅{here}侧有此调用，{there}侧接着执行 {name}（即{here}侧的 {known_as}）",
  "only the {here} makes this call, the {there} goes on with {name}": "仅{here}侧有此调用，{there}侧接着执行 {name}",
  "only the {here} makes this call, the {there} ends after {name}": "仅{here}侧有此调用，{there}侧在 {name} 之后结束",
  "only the {here} makes this call, the {there} ends": "仅{here}侧有此调用，{there}侧已结束",
  "{what}; {missing}": "{what}；{missing}",
  "{place} differs ({reasons})": "{place} 有差异（{reasons}）",
  "{place} differs within tolerance": "{place} 的差异在容差内",
  "differs within tolerance": "差异在容差内",
  "and {number} more records of the call": "该调用另有 {number} 条记录",
  "before it these calls could not be judged in full: {names}": "此前这些调用未能完整判定：{names}",
  "{place} of the {side}: {value}": "{side}侧的 {place}：{value}",
  ", norm {norm:.5g}": "，范数 {norm:.5g}",
  // The last line, and notes.
  "{title}: {text}": "{title}：{text}",
  "{call}: {reason}": "{call}：{reason}",
  "{name} in {cell}: {kind}": "{name}（位于 {cell}）：{kind}",
  "first wrong call": "首个出错的调用",
  "no difference": "未发现差异",
  "no difference beyond rounding": "未发现超出舍入的差异",
  "{text}, largest {largest:.2g} of the norm at {name}": "{text}，最大差异为范数的 {largest:.2g}（位于 {name}）",
  "{text}; statistics cannot see an error of a call below {hidden:.2g} of its output (median; at most {most:.2g})":
    "{text}；单个调用的误差小于其输出的 {hidden:.2g}（中位数，最多 {most:.2g}）时，统计量无法体现",
  "{text}; tensors cannot see an error of a call below {hidden:.2g} of its output (median; at most {most:.2g})":
    "{text}；单个调用的误差小于其输出的 {hidden:.2g}（中位数，最多 {most:.2g}）时，张量无法体现",
  "no difference in what could be judged": "在可判定的范围内未发现差异",
  "no difference in what both sides have": "在两侧都有的范围内未发现差异",
  "{judged} pairs judged, {open} unjudged": "判定 {judged} 对，未判定 {open} 对",
  "{judged} pairs judged, {open} not": "判定 {judged} 对，未判定 {open} 对",
  "{text}, {number} without counterpart or not readable": "{text}，另有 {number} 个没有对应或无法读取",
  "only {judged} of {total} pairs could be judged: {why}": "{total} 对中仅 {judged} 对可判定：{why}",
  "all {judged} comparable pairs agree; {details} are internal details of one framework":
    "可比的 {judged} 对全部一致；另有 {details} 对是单个框架的内部细节",
  "{judged} pairs compared; {details} are internal details of one framework":
    "比较了 {judged} 对；另有 {details} 对是单个框架的内部细节",
  "unjudged: {why}": "未判定：{why}",
  "{number} {cause}": "{cause} {number} 对",
  "{number} {grade}": "{number} 个{grade}",
  "{mode} compared: {counts}": "按{mode}比对：{counts}",
  "{mode} cannot see {what}": "{mode}无法体现：{what}",
  tensor: "张量",
  statistics: "统计量",
  digest: "摘要",
  "elements that changed places, nor what leaves maximum, minimum, mean and norm alike":
    "元素互换位置，或最大值、最小值、均值与范数都不变的差异",
  "how far two tensors are apart, only that they are": "两个张量相差多少，只能看出是否不同",
  "{number} judged by statistics, as a tensor was not saved; these cannot see {what}":
    "{number} 对因张量未保存而按统计量判定；统计量无法体现：{what}",
  "noise limits: exact, no difference is noise": "噪声上限：精确，任何差异都不视为噪声",
  "noise limits: built-in": "噪声上限：内置",
  "noise limits: calibrated by {file}": "噪声上限：由 {file} 校准",
  "{text}; its trusted run has a first wrong call itself: {names}":
    "{text}；但其可信运行自身也有首个出错的调用：{names}",
  "noise hides from statistics single elements and optimizer constants below 1e-3":
    "噪声会掩盖统计量中单个元素的差异，以及小于 1e-3 的优化器常数的差异",
  "{text}, and of {number} output what is less than {share:.2g} of the norm (median)":
    "{text}，并掩盖 {number} 个输出中小于其范数 {share:.2g}（中位数）的差异",
  "{text}, and of {number} outputs what is less than {share:.2g} of the norm (median)":
    "{text}，并掩盖 {number} 个输出中小于其范数 {share:.2g}（中位数）的差异",
  "{names} of the {side} behaves like {dtype} ({number} outputs); taken as intended":
    "{side}侧的 {names} 精度相当于 {dtype}（{number} 个输出），视为有意为之",
  "{names} of the {side} behave like {dtype} ({number} outputs); taken as intended":
    "{side}侧的 {names} 精度相当于 {dtype}（{number} 个输出），视为有意为之",
  "structure differs without consequence: {number} call is on one side only: {name}":
    "结构不同但无影响：{number} 个调用只出现在一侧：{name}",
  "structure differs without consequence: {number} calls are on one side only, the first is {name}":
    "结构不同但无影响：{number} 个调用只出现在一侧，首个为 {name}",
  "harmless: {number} difference that dies out, the first at {name}": "无害：{number} 处差异随后消失，首个位于 {name}",
  "harmless: {number} differences that die out, the first at {name}": "无害：{number} 处差异随后消失，首个位于 {name}",
  // Known causes.
  "Try: {what}": "可先尝试：{what}",
  "pass {argument} explicitly on both sides: the default of {target} is {value}, that of {golden} is {other}":
    "两侧都显式传入 {argument}：{target} 的默认值为 {value}，{golden} 的默认值为 {other}",
  "set approximate alike on both sides: mindspore.nn.GELU uses the tanh form by default, torch.nn.GELU and mint.nn.GELU the exact one":
    "两侧使用相同的 approximate：mindspore.nn.GELU 默认用 tanh 近似，torch.nn.GELU 和 mint.nn.GELU 默认用精确形式",
  "use 1 - {value} on one side: {argument} of {mindspore} is 1 - {other} of {pytorch}":
    "其中一侧改用 1 - {value}：{mindspore} 的 {argument} 相当于 {pytorch} 的 1 - {other}",
  "use mint.optim.AdamW or mindspore.experimental.optim.AdamW: mindspore.nn.AdamWeightDecay does not correct the bias of its moments":
    "改用 mint.optim.AdamW 或 mindspore.experimental.optim.AdamW：mindspore.nn.AdamWeightDecay 不对矩估计做偏差校正",
  "switch the bias correction of Adam on (or off) on both sides": "两侧同时开启（或关闭）Adam 的偏差校正",
  "print the learning rate of this step: no parameter of the {side} is updated, as with a warm-up that begins at 0, or an optimizer without parameters":
    "打印该 step 的学习率：{side}侧没有任何参数被更新，可能是 warm-up 从 0 开始，或优化器中没有参数",
  "clip gradients alike on both sides, with one max_norm, after the loss scale is divided out (the default of {owner} is {value})":
    "两侧以相同方式裁剪梯度：max_norm 一致，并在除去 loss scale 之后裁剪（{owner} 的默认值为 {value}）",
  "call seed_all(seed=1234, mode=True) on both sides before the model is built, or set p=0: this operation is random":
    "该操作是随机的：两侧在构建模型前调用 seed_all(seed=1234, mode=True)，或设 p=0",
  "load one checkpoint on both sides, or within one framework call seed_all(seed=1234, mode=True) before the model is built":
    "两侧加载同一份 checkpoint；同一框架内也可在构建模型前调用 seed_all(seed=1234, mode=True)",
  "feed both runs the same samples in the same order: switch shuffling off, or fix its seed":
    "让两次运行以相同次序输入相同样本：关闭 shuffle 或固定其种子",
  "collect task tensor from step 0 on, on both sides: then the first step that differs can be judged":
    "两侧都从 step 0 起以 task tensor 采集，即可判定最先不同的 step",
  "your limits: {counts} ({options})": "用户指定的上限：{counts}（{options}）",
  "{ignored} pairs ignored, {tolerated} passed by your tolerance": "忽略 {ignored} 对，按用户容差通过 {tolerated} 对",
  "{text}, {number} ignored calls on one side only": "{text}，另忽略 {number} 个仅一侧有的调用",
  "no difference but what your limits excuse": "除用户指定上限放过的差异外，没有差异",
  "{text}; {excused}": "{text}；{excused}",
  "{what}; it comes from {producer}, whose difference your --ignore, --atol or --rtol excuses":
    "{what}；它来自 {producer}，其差异已被 --ignore、--atol 或 --rtol 放过",
  "{target} against {golden}": "{target} 与标杆 {golden} 比对",
  "missing: {what}": "缺失：{what}",
  "not compared: {cause}": "未比对：{cause}",
  "{what}: not compared: {cause}": "{what}：未比对：{cause}",
  "{what} is only on the {side} side": "仅{side}侧有 {what}",
  "{what} are only on the {side} side": "仅{side}侧有 {what}",
  "{file}: could not be read: {why}": "{file}：无法读取：{why}",
  "details of {number} of {total} calls are in this page: all that differ as far as they fit, what is around and beside them, then the others; the tables have every record":
    "本页含 {total} 个调用中 {number} 个的数值：优先有差异的调用，其次是其相邻的调用，再次是其余调用；表格含全部记录",
  "for its size this page has no dataflow of {number} of {total} steps and ranks; a page of fewer of them (--ranks, --steps) has it":
    "为控制大小，{total} 份 step 与 rank 的数据中有 {number} 份不含数据流；用 --ranks、--steps 缩小范围后生成的页面会包含",
  "{number} later exchanges between ranks are left out of this page": "本页省略了靠后的 {number} 次卡间通信",
  "the ranks make {number} different lists of calls{which}, as with pipeline or tensor parallelism; each is shown as it was recorded; with --rank-size, --tp and --pp, which dumps do not hold, the ranks of one model are merged first":
    "各 rank 的调用列表有 {number} 种{which}，如流水线并行或张量并行；此处逐个 rank 按记录展示；指定 --rank-size、--tp、--pp（dump 数据中没有这些信息）则先合并同一模型的各 rank",
  " (ranks {ranks})": "（rank {ranks}）",
  // Ranks that were merged.
  "merged {where}: {said}": "合并{where}：{said}",
  "{number} call": "{number} 个调用",
  "{number} calls": "{number} 个调用",
  "{number} value": "{number} 个值",
  "{number} values": "{number} 个值",
  "{n} that the tensor parallel ranks should hold alike differ, first {first}, by {apart}":
    "{n}在张量并行的各 rank 上本应一致而不同，首个为 {first}，相差 {apart}",
  "{n} differ among tensor parallel ranks and were not merged, first {first}: parts of a sum that no recorded exchange adds up":
    "{n}在张量并行的各 rank 上不同，未合并，首个为 {first}：它们是求和的各部分，但没有已记录的通信将其相加",
  "{n} were not merged, first {first}: neither the golden nor the class of the layer tells whether the ranks have parts of a tensor or of a sum":
    "{n}未合并，首个为 {first}：由标杆和层的类型都看不出各 rank 的值是张量的切片还是求和的一部分",
  "{n} of the ranks are shown side by side, first {first}: without a golden nothing tells whether they are parts of a tensor or of a sum":
    "{n}按 rank 并列展示，首个为 {first}：没有标杆，看不出它们是张量的切片还是求和的一部分",
  "{n} that are no tensors differ among tensor parallel ranks and were left out, first {first}":
    "{n}不是张量，且在张量并行的各 rank 上不同，已略去，首个为 {first}",
  "{n} have another form on each tensor parallel rank and were left out, first {first}":
    "{n}在张量并行的各 rank 上结构不同，已略去，首个为 {first}",
  "{n} are not on every tensor parallel rank and were left out, first {first}":
    "{n}并非在张量并行的每个 rank 上都有，已略去，首个为 {first}",
  "{n} are on several pipeline stages, and those of the first are kept, first {first}":
    "{n}出现在多个流水线 stage 上，保留最先的 stage，首个为 {first}",
};
