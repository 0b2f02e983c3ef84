"""Calls with a reference of their own: primitives of MindSpore, whose attributes no record has, and layers."""

from collections.abc import Mapping
from dataclasses import dataclass

from . import options as choose
from .options import Choose


@dataclass(frozen=True)
class Own:
    """The replay of calls of one name.

    `parameters` are those of the reference's function, in the order of the recorded arguments; the function does not
    take one that begins with "?", which must be None or empty ("?none"), 1 ("?keep_prob"), 0 or False ("?zero"), or may
    be anything ("?"). `options` are the candidates for what the record does not tell. `outputs` are the recorded
    outputs that are evidence, as places in the reference's outputs (None: not looked at); empty: all. `fixed` are
    arguments that every call of this name has. `linear`: the function is a sum of its inputs, which are not of one
    shape.
    """

    operation: str
    function: str
    parameters: str
    options: Choose | None = None
    outputs: tuple[int | None, ...] = ()
    fixed: Mapping[str, object] | None = None
    linear: bool = False


def _by_name(rows: Mapping[str, Own]) -> dict[str, Own]:
    return {name: row for names, row in rows.items() for name in names.split()}


_CONVOLUTION = "x weight bias stride pad_mode padding dilation groups"
_SCATTER = "x indices updates use_locking"
_MASKS = "begin_mask end_mask ellipsis_mask new_axis_mask shrink_axis_mask"
_FLASH = "query key value heads real_shift ?none ?none mask ?none ?none ?none ?keep_prob scale ? ? ? layout ?zero"
_GROUPED = "x weight bias ?none ?none ?none ?none group_list"
_GROUPED_V4 = (
    "x weight bias ?none ?none ?none ?none ?none group_list ?none ?none ?none split_item group_type group_list_type "
    "?zero ?"
)
_MOMENTS, _RATES = "var m v", "lr beta1 beta2 eps"

APIS: Mapping[str, Own] = _by_name(
    {
        "Primitive.MatMul Primitive.BatchMatMul": Own("matmul", "matmul", "a b", choose.transposes),
        "Primitive.Dense": Own("matmul", "linear", "x weight bias"),
        "Primitive.BiasAdd": Own("add", "bias_add", "x bias", choose.data_format, linear=True),
        "Functional.bias_add": Own("add", "bias_add", "x bias", linear=True),
        "Primitive.Conv2D": Own("conv2d", "convolution", "x weight", choose.windows),
        "Primitive.Conv3D": Own("conv3d", "convolution", "x weight", choose.windows),
        "Functional.conv2d": Own("conv2d", "convolution", _CONVOLUTION, choose.pad_mode),
        "Functional.conv3d": Own("conv3d", "convolution", _CONVOLUTION, choose.pad_mode),
        "Primitive.BatchNorm Primitive.SyncBatchNorm": Own(
            "batch_norm", "batch_norm", "x weight bias running_mean running_var", choose.batch_norm, (0,)
        ),
        "Primitive.LayerNorm": Own("layer_norm", "layer_norm", "x gamma beta", choose.epsilon, (0,)),
        "Primitive.RmsNorm": Own("rms_norm", "rms_norm", "x weight eps", choose.epsilon, (0,)),
        "Functional.rms_norm": Own("rms_norm", "rms_norm", "x weight eps", outputs=(0,)),
        "Functional.gather_nd Primitive.GatherNd": Own("gather_nd", "gather_nd", "x indices"),
        "Functional.slice Primitive.Slice": Own("slice", "slice_of", "x begin size"),
        "Functional.strided_slice": Own("slice", "strided_slice", f"x begin end strides {_MASKS}"),
        "Primitive.StridedSlice": Own("slice", "strided_slice", "x begin end strides", choose.no_masks),
        "Functional.scatter_nd Primitive.ScatterNd": Own("scatter_add", "scatter_nd", "indices updates shape"),
        "Functional.scatter_nd_add Functional.tensor_scatter_add Primitive.TensorScatterAdd": Own(
            "scatter_add", "scatter_nd_add", _SCATTER
        ),
        "Functional.scatter_nd_sub Functional.tensor_scatter_sub Primitive.TensorScatterSub": Own(
            "sub", "scatter_nd_sub", _SCATTER
        ),
        "Functional.scatter_nd_update Functional.tensor_scatter_update": Own("scatter", "scatter_nd_update", _SCATTER),
        "Primitive.ScatterNdUpdate Primitive.TensorScatterUpdate": Own("scatter", "scatter_nd_update", _SCATTER),
        "Functional.expand": Own("expand", "expand", "x size"),
        "Primitive.BroadcastTo": Own("expand", "expand_as_recorded", "x"),
        "Primitive.AdaptiveAvgPool2D": Own("adaptive_avg_pool2d", "adaptive_avg_pool", "x"),
        "Primitive.AdaptiveAvgPool3D": Own("adaptive_avg_pool3d", "adaptive_avg_pool", "x"),
        "Primitive.Shape": Own("shape", "shape_of", "x"),
        "Primitive.Identity": Own("contiguous", "identity", "x"),
        "Primitive.FastGeLU": Own("fast_gelu", "fast_gelu", "x"),
        "Primitive.Concat": Own("cat", "concatenated", "tensors axis", choose.join_axis),
        "Primitive.Stack Primitive.Pack": Own("stack", "stacked", "tensors axis", choose.stack_axis),
        "Primitive.Split": Own("split", "split_evenly", "x axis count", choose.split_axis),
        "Primitive.MaxPool Primitive.MaxPool3D": Own("max_pool2d", "max_pool", "x", choose.max_windows, (0, None)),
        "Primitive.MaxPoolWithArgmax Primitive.MaxPoolWithArgmaxV2 Primitive.MaxPool3DWithArgmax": Own(
            "max_pool2d", "max_pool", "x", choose.max_windows, (0, None)
        ),
        "Primitive.AvgPool Primitive.AvgPool3D": Own("avg_pool2d", "avg_pool", "x", choose.mean_windows),
        "Primitive.OneHot Functional.one_hot": Own("one_hot", "one_hot", "indices depth on off axis"),
        "Functional.flash_attention_score": Own("attention", "flash_attention", _FLASH),
        "Functional.swiglu MintFunctional.swiglu Primitive.Swiglu": Own("swiglu", "swiglu", "x dim"),
        "Functional.rotary_position_embedding Primitive.RotaryPositionEmbedding": Own(
            "rotary", "rotary", "x cos sin mode"
        ),
        "Functional.moe_token_permute Primitive.MoeTokenPermute": Own(
            "moe_token_permute", "moe_token_permute", "tokens indices num_out_tokens ?zero"
        ),
        "Functional.moe_token_unpermute Primitive.MoeTokenUnpermute Primitive.InnerMoeTokenUnpermute": Own(
            "moe_token_unpermute", "moe_token_unpermute", "permuted_tokens sorted_indices probs ?zero ?"
        ),
        "Functional.moe_init_routing_v2 Primitive.MoeInitRoutingV2": Own(
            "moe_token_permute", "moe_init_routing", "x expert_idx ?zero ? ? ?zero ? ?", outputs=(0, 1, None, None)
        ),
        "Primitive.MoeGatingTopKSoftmax": Own(
            "moe_gating_top_k_softmax", "moe_gating_top_k_softmax", "x finished k", outputs=(0,)
        ),
        "Primitive.MoeFinalizeRouting": Own(
            "moe_finalize_routing",
            "moe_finalize_routing",
            "expanded_x x1 x2 bias scales expanded_row_idx expanded_expert_idx",
        ),
        "Primitive.GroupedMatmul": Own("grouped_matmul", "grouped_matmul", _GROUPED, choose.transposed_weights),
        "Primitive.GroupedMatmulV2": Own("grouped_matmul", "grouped_matmul", f"{_GROUPED} split_item group_type"),
        "Primitive.GroupedMatmulV4": Own("grouped_matmul", "grouped_matmul", _GROUPED_V4),
        "Primitive.Adam": Own("adam", "adam", f"{_MOMENTS} beta1_power beta2_power {_RATES} gradient", choose.nesterov),
        "Primitive.AdamWeightDecay Primitive.FusedCastAdamWeightDecay": Own(
            "adam_weight_decay", "adam_weight_decay", f"{_MOMENTS} {_RATES} decay gradient"
        ),
        "Primitive.AdamW": Own(
            "adam_w",
            "adam_w",
            f"{_MOMENTS} max_v gradient step lr beta1 beta2 decay eps amsgrad maximize",
            choose.ahead,
            (0, 1, 2),
        ),
        "Primitive.ApplyAdaMax": Own("adamax", "adamax", f"{_MOMENTS} beta1_power {_RATES} gradient"),
        "Primitive.ApplyMomentum": Own(
            "momentum", "momentum", "var accumulation lr gradient momentum", choose.usual_momentum, (0,)
        ),
        "Primitive.SGD": Own("sgd", "sgd", "var gradient lr accumulation momentum stat", choose.usual_momentum, (0,)),
        "Primitive.ApplyRMSProp": Own(
            "rmsprop", "rmsprop", "var mean_square moment lr gradient decay momentum eps", outputs=(0,)
        ),
        "Primitive.ApplyRotaryPosEmb": Own("rotary", "rotary_pair", "query key cos sin"),
    }
)
"""By MindSpore's stem, a primitive's without its attribute."""

_ACTIVATIONS = {
    **{"ReLU": "relu", "ReLU6": "relu6", "Sigmoid": "sigmoid", "Tanh": "tanh", "SiLU": "silu", "Mish": "mish"},
    **{"HSwish": "hardswish", "Hardswish": "hardswish", "HSigmoid": "hardsigmoid", "Hardsigmoid": "hardsigmoid"},
    **{"SeLU": "selu", "SELU": "selu", "LogSigmoid": "logsigmoid", "Softsign": "softsign", "SoftSign": "softsign"},
    **{"Tanhshrink": "tanhshrink", "Exp": "exp", "CELU": "celu", "ELU": "elu", "Softplus": "softplus"},
    **{"GELU": "gelu", "LeakyReLU": "leaky_relu", "SoftmaxExt": "softmax", "Softmax": "softmax"},
    "LogSoftmax": "log_softmax",
}
_OPTIONS_OF_ACTIVATIONS = {
    **dict.fromkeys(("celu", "elu", "softplus"), choose.defaults),
    **dict.fromkeys(("softmax", "log_softmax"), choose.axis),
    **{"gelu": choose.approximate, "leaky_relu": choose.slope},
}

ACTIVATED: Mapping[str, Own] = {
    name: Own(
        "activated_linear", "activated_linear", "x", _OPTIONS_OF_ACTIVATIONS.get(plain), fixed={"function": plain}
    )
    for name, plain in _ACTIVATIONS.items()
}
"""`Dense(activation=)`, by the class of its activation."""

CELLS: Mapping[str, Own] = _by_name(
    {
        "Dense Linear NonDynamicallyQuantizableLinear": Own("matmul", "linear", "x"),
        **{f"Conv{n}d": Own(f"conv{n}d", "convolution", "x", choose.windows) for n in (1, 2, 3)},
        **{f"MaxPool{n}d": Own(f"max_pool{n}d", "max_pool", "x", choose.max_windows) for n in (1, 2, 3)},
        **{f"AvgPool{n}d": Own(f"avg_pool{n}d", "avg_pool", "x", choose.mean_windows) for n in (1, 2, 3)},
        **{f"AdaptiveAvgPool{n}d": Own(f"adaptive_avg_pool{n}d", "adaptive_avg_pool", "x") for n in (1, 2, 3)},
        "LayerNorm LayerNormExt": Own("layer_norm", "layer_norm", "x", choose.epsilon, (0,)),
        "BatchNorm1d BatchNorm2d BatchNorm3d": Own("batch_norm", "batch_norm", "x", choose.batch_norm),
        "GroupNorm": Own("group_norm", "group_norm", "x", choose.groups),
        "RMSNorm LlamaRMSNorm RmsNorm Qwen2RMSNorm T5LayerNorm": Own("rms_norm", "rms_norm", "x", choose.epsilon, (0,)),
        **{
            name: Own(plain, "applied", "x", _OPTIONS_OF_ACTIVATIONS.get(plain), fixed={"function": plain})
            for name, plain in _ACTIVATIONS.items()
        },
        "Embedding EmbeddingExt": Own("index_select", "embedding", "indices"),
        "Flatten Unflatten": Own("reshape", "to_recorded_shape", "x"),
        "Identity": Own("contiguous", "identity", "x"),
        "Dropout DropoutExt Dropout1d": Own("dropout", "identity", "x", choose.no_dropout),
        "_DynamicLSTMCPUGPU": Own("lstm", "dynamic_lstm", "x state ?none w_ih w_hh b_ih b_hh"),
    }
)
"""By the class of the layer."""

_LINEAR = {"weight": "weight", "bias": "bias"}
_AFFINE = {"gamma": "gamma", "beta": "beta", "weight": "gamma", "bias": "beta"}

PARAMETERS: Mapping[str, Mapping[str, str]] = {
    **dict.fromkeys(("linear", "activated_linear"), _LINEAR),
    "convolution": _LINEAR,
    "embedding": {"weight": "weight", "embedding_table": "weight"},
    "layer_norm": _AFFINE,
    "group_norm": _AFFINE,
    "rms_norm": dict.fromkeys(("weight", "gamma", "gain", "scale"), "weight"),
    "batch_norm": {
        **{"gamma": "weight", "beta": "bias"},
        **_LINEAR,
        **dict.fromkeys(("moving_mean", "mean", "running_mean"), "running_mean"),
        **dict.fromkeys(("moving_variance", "variance", "running_var"), "running_var"),
    },
}
"""Of a function: a layer's parameters by name, and the function's own names. A layer with others is unknown."""

NEEDED = {
    "linear": "weight",
    "activated_linear": "weight",
    "convolution": "weight",
    "embedding": "weight",
    "layer_norm": "gamma",
}
"""Of a function: the parameter without which a layer is not known."""
