"""Kinds of findings of `msprobe rollout-check`, by the likeliest cause: MSP511 to MSP518."""

from functools import partial

from msprobe.findings.kind import Kind, Severity, Text

_GIVE_TOKENS = Text(
    "Give the token ids and the masks of both sides, and run the command again.",
    "给出两侧的 token id 和掩码，再次运行。",
)
_cause = partial(
    Kind,
    severity=Severity.ERROR,
    decided=Text(
        "By the size, sign and place of the gaps between both log-probs, token by token, and by token ids and masks "
        "where they are given.",
        "依据两侧 log-prob 逐 token 差值的大小、符号与位置，以及给出的 token id 和掩码。",
    ),
    docs="how-to/comparing/rollout_check.md#causes",
)

NUMERICS = _cause(
    "MSP511",
    "rollout numerics",
    severity=Severity.WARNING,
    title=Text("rounding: another dtype, another eps or another kernel", "舍入：dtype、eps 或算子不同"),
    means=Text("The gaps have the size of rounding and no common direction.", "差值属于舍入误差，没有一致的方向。"),
    causes=(
        Text("bfloat16 or float16 on one side", "其中一侧使用 bfloat16 或 float16"),
        Text("other kernels", "算子不同"),
    ),
    look=Text("at the dtypes and kernels of the inference engine", "推理引擎的 dtype 与算子"),
    confirm=Text("Compute one batch in float32 on both sides.", "两侧都用 float32 计算一个 batch。"),
)
WEIGHTS = _cause(
    "MSP512",
    "rollout weights",
    title=Text("the two sides do not have the same weights", "两侧权重不同"),
    means=Text("Generation and training computed with different weights.", "生成与训练使用了不同的权重。"),
    causes=(
        Text("weights that were not transferred after an update", "更新后未同步权重"),
        Text("an update between generation and training", "生成与训练之间发生了更新"),
    ),
    look=Text("at the transfer of the weights to the inference engine", "向推理引擎同步权重的过程"),
    confirm=Text(
        "Compare the weights of both sides with `msprobe config-check -c`.", "用 msprobe config-check -c 比对两侧权重。"
    ),
)
SAMPLING = _cause(
    "MSP513",
    "rollout sampling settings",
    title=Text(
        "one side's log-probs include temperature, top-k, top-p or a penalty",
        "一侧的 log-prob 已应用 temperature、top-k、top-p 或惩罚项",
    ),
    means=Text(
        "Sampling settings were applied to the log-probs of one side only.", "仅一侧的 log-prob 应用了采样设置。"
    ),
    causes=(Text("the engine returns processed log-probs", "引擎返回的是处理后的 log-prob"),),
    look=Text(
        "at the sampling settings, and at the log-probs that the engine returns",
        "采样设置，以及引擎返回的 log-prob 类型",
    ),
    confirm=Text(
        "Return raw log-probs, or apply the same settings on both sides.", "返回原始 log-prob，或在两侧应用相同设置。"
    ),
)
SHIFT = _cause(
    "MSP514",
    "rollout shift",
    title=Text("the log-probs are shifted by one position", "log-prob 错开一个位置"),
    means=Text("The log-probs of one side are those of the neighboring token.", "一侧的 log-prob 属于相邻的 token。"),
    causes=(Text("logits and labels that were not shifted, or shifted twice", "logits 与标签未错位，或错位两次"),),
    look=Text("at the code that selects the log-probs of the labels", "选取标签 log-prob 的代码"),
    confirm=_GIVE_TOKENS,
)
MASK = _cause(
    "MSP515",
    "rollout mask",
    title=Text("padding is attended to, counted, or shifts the positions", "填充参与了注意力、被计入或改变了位置"),
    means=Text("Masks or positions differ between generation and training.", "生成与训练的掩码或位置不同。"),
    causes=(
        Text("padding on the other side of the prompt", "prompt 的填充方向不同"),
        Text("packed samples that attend to each other", "打包的样本相互可见"),
    ),
    look=Text("at the attention mask and the position ids", "注意力掩码与 position id"),
    confirm=Text("Compute one sample without padding on both sides.", "两侧都计算一个不带填充的样本。"),
)
TOKENS = _cause(
    "MSP516",
    "rollout tokens",
    title=Text("the two sides do not have the same token ids", "两侧 token id 不同"),
    means=Text("The token ids of generation and training differ.", "生成与训练的 token id 不同。"),
    causes=(Text("text that was decoded and tokenized again", "文本被解码后重新分词"),),
    look=Text("at the tokenizer, and at the code between generation and training", "分词器，以及生成与训练之间的代码"),
    confirm=_GIVE_TOKENS,
)
TRUNCATION = _cause(
    "MSP517",
    "rollout truncation",
    title=Text("one side has a shorter sequence", "一侧的序列不完整"),
    means=Text("The prompt or the response is cut on one side.", "其中一侧的 prompt 或回答被截断。"),
    causes=(Text("maximum lengths that differ", "最大长度不同"),),
    look=Text("at the maximum lengths of prompt and response", "prompt 与回答的最大长度"),
    confirm=Text("Compare the numbers of tokens of one sample.", "比较同一样本的 token 数。"),
)
UNCLEAR = _cause(
    "MSP518",
    "rollout unclear",
    title=Text("the gaps do not match a single cause", "差值不符合任何单一原因"),
    means=Text(
        "Both sides differ, and the gaps are explained by no cause, or by several.",
        "两侧不同，没有原因或有多个原因可以解释差值。",
    ),
    causes=(
        Text("several causes at the same time", "多个原因同时存在"),
        Text("too few tokens", "token 太少"),
    ),
    look=Text("at the samples with the largest gaps, in the table", "表中差值最大的样本"),
    confirm=_GIVE_TOKENS,
)
