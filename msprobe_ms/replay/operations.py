"""The operations that can be replayed. Nothing else is ever executed, since a dump is a foreign file.

Names are those of PyTorch's functions without family, underscores and, for reflected operators (`__radd__`), the r.
What a MindSpore call is in PyTorch's terms is decided by `mapping` and by `own`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """Properties of an operation's derivative, which determine how its sensitivity is computed."""

    BILINEAR = "a sum of products of input elements with coefficients of 1"
    ELEMENTWISE = "each output element depends on one element of each input, up to broadcasting"
    MOVES = "copies, arranges or casts"
    PROBED = "any other differentiable function"
    EXACT = "integers or bools"
    CREATES = "a constant"
    RANDOM = "depends on random numbers"
    UNINITIALISED = "uninitialized memory"


@dataclass(frozen=True)
class Operation:
    """An operation with its canonical name.

    `accumulates`: it moves data, and its backward sums over the elements that were copied or picked. `indices`: integer
    outputs are positions along an axis of the first input, where ties may be broken either way.
    """

    name: str
    kind: Kind
    accumulates: bool = False
    indices: bool = False


_TABLE: Mapping[Kind, str] = {
    Kind.BILINEAR: """
        matmul=mm=bmm=mv=dot=vdot=inner=linear=mvm conv1d conv2d=convolution conv3d conv_transpose1d
        conv_transpose2d conv_transpose3d einsum outer=ger tensordot kron sum mean trace cumsum sum_to_size
        index_add scatter_add vecdot grouped_matmul=npu_grouped_matmul
        moe_token_unpermute=npu_moe_token_unpermute
    """,
    Kind.ELEMENTWISE: """
        add=iadd=bias_add sub=isub=subtract mul=imul=multiply div=itruediv=truediv=true_divide=divide=idiv
        neg=negative positive=pos abs=absolute pow=ipow=float_power exp exp2 expm1 log log2 log10 log1p sqrt
        rsqrt square reciprocal sin cos tan asin=arcsin acos=arccos atan=arctan atan2=arctan2 sinh cosh tanh
        asinh=arcsinh acosh=arccosh atanh=arctanh sigmoid=expit logit erf erfc erfinv lgamma digamma i0 sinc
        relu relu6 leaky_relu elu celu selu gelu=npu_gelu fast_gelu=npu_fast_gelu silu mish softplus softsign
        tanhshrink hardshrink softshrink hardtanh hardsigmoid hardswish logsigmoid threshold clamp=clip
        clamp_min clamp_max maximum=fmax minimum=fmin sign=sgn floor ceil round trunc=fix frac
        floor_divide=floordiv=ifloordiv remainder=mod=imod fmod lerp addcmul addcdiv hypot logaddexp logaddexp2
        xlogy ldexp copysign nan_to_num deg2rad rad2deg heaviside i0e i1 i1e bessel_j0 bessel_j1 bessel_y0
        bessel_y1 modified_bessel_k0 modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1
        igamma igammac mvlgamma=multigammaln polygamma zeta nextafter entr log_ndtr ndtr ndtri
    """,
    Kind.MOVES: """
        reshape=view=reshape_as=view_as ravel flatten unflatten squeeze unsqueeze transpose=swapaxes=swapdims=t
        permute movedim=moveaxis contiguous=identity clone=copy_of detach alias
        cast=to=type=float=half=double=bfloat16=long=int=short=byte=bool=type_as cat=concat=concatenate stack
        hstack vstack dstack column_stack split=chunk=unbind=tensor_split=hsplit=vsplit=dsplit=split_with_sizes
        narrow select slice gather_nd! getitem! gather!=take_along_dim index_select!=embedding take!
        expand!=expand_as=broadcast_to repeat!=tile repeat_interleave! roll flip=fliplr=flipud rot90 triu tril
        diag diag_embed diagflat diagonal diagonal_scatter masked_select masked_fill masked_scatter where!
        index_fill index_copy scatter select_scatter slice_scatter setitem copy fill zero index_put pad! unfold!
        meshgrid! cartesian_prod! combinations! fill_diagonal unique unique_consecutive vander nanmedian
        block_diag pixel_shuffle pixel_unshuffle channel_shuffle broadcast_tensors! atleast_1d atleast_2d
        atleast_3d sort# topk# msort max_pool1d! max_pool2d! max_pool3d! adaptive_max_pool1d!
        adaptive_max_pool2d! adaptive_max_pool3d! max_unpool1d max_unpool2d max_unpool3d kthvalue# view_as_real
        real imag complex moe_token_permute!=npu_moe_token_permute
    """,
    Kind.PROBED: """
        max# min# amax amin aminmax median# cummax# cummin# softmax log_softmax softmin layer_norm batch_norm
        group_norm instance_norm rms_norm=npu_rms_norm add_rms_norm=npu_add_rms_norm
        add_layer_norm=npu_add_layer_norm local_response_norm normalize norm=vector_norm=matrix_norm renorm std
        var std_mean var_mean prod cumprod logsumexp logcumsumexp glu prelu swiglu=npu_swiglu
        rotary=npu_rotary_mul=npu_apply_rotary_pos_emb
        attention=scaled_dot_product_attention=npu_fusion_attention cross_entropy nll_loss mse_loss l1_loss
        smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits kl_div cosine_similarity
        cosine_embedding_loss pairwise_distance margin_ranking_loss triplet_margin_loss soft_margin_loss
        hinge_embedding_loss gaussian_nll_loss poisson_nll_loss multilabel_margin_loss
        multilabel_soft_margin_loss multi_margin_loss avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d
        adaptive_avg_pool2d adaptive_avg_pool3d lp_pool1d lp_pool2d interpolate=upsample grid_sample affine_grid
        fold addmm addmv addr addbmm baddbmm bilinear cross cdist dist diff trapz=trapezoid cov nanmean nansum
        quantile nanquantile det logdet slogdet inverse=inv pinv cholesky cholesky_inverse cholesky_solve
        lu_solve triangular_solve solve_triangular pdist ctc_loss index_reduce conv_tbc matrix_exp matrix_power
        moe_gating_top_k_softmax=npu_moe_gating_top_k_softmax moe_finalize_routing=npu_moe_finalize_routing
        adam adam_weight_decay adam_w adamax momentum sgd rmsprop activated_linear
        lstm gru rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell
    """,
    Kind.EXACT: """
        eq ne=not_equal lt=less le=less_equal gt=greater ge=greater_equal equal isclose allclose logical_and
        logical_or logical_xor logical_not bitwise_and=and=iand bitwise_or=or=ior bitwise_xor=xor=ixor
        bitwise_not=invert bitwise_left_shift=lshift bitwise_right_shift=rshift isnan isinf isfinite isneginf
        isposinf isreal signbit any all argmax# argmin# argsort# argwhere nonzero count_nonzero one_hot
        bucketize searchsorted bincount histc gcd lcm is_nonzero shape
    """,
    Kind.CREATES: """
        zeros ones full arange eye linspace zeros_like ones_like full_like new_zeros new_ones new_full
        tril_indices triu_indices logspace fftfreq rfftfreq bartlett_window blackman_window hamming_window
        hann_window kaiser_window
    """,
    Kind.RANDOM: """
        rand randn randint randperm rand_like randn_like randint_like normal uniform bernoulli multinomial
        poisson random exponential log_normal cauchy geometric gumbel_softmax rrelu gamma=random_gamma
        laplace=standard_laplace random_categorical shuffle=random_shuffle truncated_normal
        choice_with_mask=random_choice_with_mask
        dropout=dropout1d=dropout2d=dropout3d=alpha_dropout=feature_alpha_dropout=native_dropout
        fractional_max_pool2d fractional_max_pool3d
    """,
    Kind.UNINITIALISED: """
        empty empty_like new_empty empty_strided
    """,
}
"""By kind: `name=alias=alias`, where aliases compute the same up to the form of their arguments. Marks after a name:
`!` accumulates, `#` indices."""

REFLECTED = {
    "radd": "add",
    "rsub": "sub",
    "rmul": "mul",
    "rtruediv": "div",
    "rdiv": "div",
    "rpow": "pow",
    "rmatmul": "matmul",
    "rfloordiv": "floor_divide",
    "rmod": "remainder",
}
"""Operators with exchanged operands."""


def _parsed() -> dict[str, Operation]:
    found: dict[str, Operation] = {}
    for kind, words in _TABLE.items():
        for word in words.split():
            marked, *aliases = word.split("=")
            name = marked.rstrip("!#")
            known = Operation(name, kind, marked.endswith("!"), marked.endswith("#"))
            found |= dict.fromkeys((name, *aliases), known)
    return found


OPERATIONS: Mapping[str, Operation] = _parsed()
"""By name and alias."""


def operation(name: str) -> Operation | None:
    """Return the operation of a function's plain name, an alias included; None where there is none."""
    return OPERATIONS.get(name)


def plain_name(function: str) -> str:
    """Return the plain name of a function of PyTorch: `add` for `add_` and `__radd__`, `iadd` for `__iadd__`."""
    name = function.rpartition(".")[2]
    if name.startswith("__") and name.endswith("__"):
        name = name.strip("_")
    name = name.rstrip("_") if not name.startswith("_") else name
    return REFLECTED.get(name, name)
