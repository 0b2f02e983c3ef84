"""Functions of mindspore.ops that networks are made of: layers, losses, Fourier transforms, random numbers."""

from dataclasses import replace

import numpy as np
from executed import Parameter, distinct, ex, floats, ints

IMAGE = floats(2, 4, 7, 9)
LINE = floats(2, 4, 9)
BODY = floats(1, 2, 5, 6, 7)
DISTINCT_LINE, DISTINCT_IMAGE, DISTINCT_BODY = distinct(2, 3, 8), distinct(2, 3, 6, 8), distinct(1, 2, 4, 6, 8)
LOGITS = floats(4, 5)
GUESS = floats(4, 5, low=0.1, high=0.9, seed=1)
TRUTH = floats(4, 5, low=0.1, high=0.9, seed=2)
WEIGHTS = floats(5, low=0.5, high=1.5, seed=3)
CLASSES = ints(4, low=0, high=5)
SIGNS = np.array([1, -1, 1, 1], dtype="float32")
COMPLEX = (floats(3, 4) + 1j * floats(3, 4, seed=1)).astype("complex64")
REDUCTIONS = ("none", "mean", "sum")


def call(name, *args, **kwargs):
    return ex(f"Functional.{name}", *args, **kwargs)


def batch_norm(training, **kwargs):
    arrays = (floats(4), floats(4, low=0.5, high=2), floats(4, seed=2), floats(4, seed=3))
    held = arrays if not training else tuple(Parameter(a) for a in arrays)
    return replace(call("batch_norm", IMAGE, *held, training, **kwargs), tolerance=(1e-4, 1e-5))


def loss(name, *args, **kwargs):
    return [call(name, *args, reduction=reduction, **kwargs) for reduction in REDUCTIONS]


def fourier(name, x, settings):
    return replace(call(name, x, *settings), pt_of="torch.fft")


def once(name, x, settings):
    return replace(fourier(name, x, settings), keywords=False)


LAYERS = [
    call("adaptive_avg_pool1d", floats(2, 3, 8), 4),
    call("adaptive_avg_pool2d", IMAGE, (3, 4)),
    call("adaptive_avg_pool3d", BODY, (2, 3, 4)),
    call("adaptive_max_pool1d", DISTINCT_LINE, 4),
    call("adaptive_max_pool2d", DISTINCT_IMAGE, (3, 4)),
    call("adaptive_max_pool2d", DISTINCT_IMAGE, (3, 4), True),
    call("adaptive_max_pool3d", DISTINCT_BODY, (2, 3, 4)),
    call("adaptive_max_pool3d", DISTINCT_BODY, (2, 3, 4), True),
    call("affine_grid", floats(2, 2, 3), (2, 3, 4, 5)),
    call("affine_grid", floats(2, 2, 3), (2, 3, 4, 5), True),
    call("avg_pool1d", LINE, 3, 2, 1),
    call("avg_pool1d", LINE, 3, 2, 1, True, False),
    call("avg_pool1d", LINE, 2),
    call("avg_pool1d", LINE),
    call("avg_pool2d", IMAGE, (3, 2), 2, 1),
    call("avg_pool2d", IMAGE, 3, 2, 1, True, False, 5),
    call("avg_pool2d", IMAGE, 2),
    call("avg_pool2d", IMAGE),
    call("avg_pool2d", floats(2, 3, 6, 8), 3, 2, 1, True, False, 0),
    call("avg_pool3d", BODY, 3, 2, 1),
    call("avg_pool3d", BODY, 2),
    call("avg_pool3d", BODY),
    call("avg_pool3d", floats(1, 2, 6, 8, 6), 3, 2, 1, True, False, 0),
    call("avg_pool3d", BODY, 2, 2, 0, True, True, 5),
    batch_norm(False),
    batch_norm(False, momentum=0.3, eps=1e-2),
    batch_norm(True, momentum=0.3, eps=1e-2),
    call("channel_shuffle", IMAGE, 2),
    call("conv1d", LINE, floats(6, 2, 3), floats(6), 2, "pad", 1, 3, 2),
    call("conv1d", LINE, floats(6, 4, 3)),
    call("conv2d", IMAGE, floats(6, 2, 3, 2), floats(6), (2, 1), "pad", (1, 0), (1, 2), 2),
    call("conv2d", IMAGE, floats(6, 4, 3, 2)),
    call("conv3d", BODY, floats(4, 2, 3, 2, 1), floats(4), 2, "pad", 1),
    call("conv3d", BODY, floats(4, 2, 2, 2, 2), dilation=2),
    call("conv3d_transpose", BODY, floats(2, 3, 3, 2, 1), "pad", 1, 2),
    call("conv3d_transpose", BODY, floats(2, 3, 3, 2, 1), "pad", 1, 2, output_padding=1),
    call("cosine_similarity", LOGITS, GUESS),
    call("cosine_similarity", LOGITS, GUESS, 0, 1e-3),
    call("dropout", LOGITS, 0.4, False),
    replace(call("dropout", LOGITS, 0.4), compare="shape"),
    *(replace(call(f"dropout{n}d", x, 0.4), compare="shape") for n, x in ((1, LINE), (2, IMAGE), (3, BODY))),
    *(call(f"dropout{n}d", x, 0.4, False) for n, x in ((1, LINE), (2, IMAGE), (3, BODY))),
    call("unfold", IMAGE, (2, 3), 2, 1, (1, 2)),
    replace(call("fractional_max_pool2d", DISTINCT_IMAGE, 2, (3, 4), None, True), compare="shape"),
    replace(call("fractional_max_pool3d", DISTINCT_BODY, 2, (2, 3, 4), None, True), compare="shape"),
    call("grid_sample", IMAGE, floats(2, 5, 6, 2, low=-0.9, high=0.9)),
    call("grid_sample", IMAGE, floats(2, 5, 6, 2, low=-1.3, high=1.3), "bilinear", "border", True),
    call("group_norm", IMAGE, 2, floats(4), floats(4, seed=1), 1e-2),
    call("interpolate", IMAGE, (6, 8), None, "bilinear", True),
    call("interpolate", IMAGE, (6, 8), None, "bilinear", False),
    call("interpolate", IMAGE, (14, 18)),
    replace(call("interpolate", IMAGE, None, (2.0, 2.0), "nearest", None, True), overload=0),
    call("interpolate", LINE, 6, None, "linear", True),
    call("upsample", IMAGE, (6, 8), None, "bilinear", True),
    call("max_pool2d", DISTINCT_IMAGE, 3, 2, 1),
    call("max_pool2d", DISTINCT_IMAGE, (3, 2), 2, 1, 1, True),
    call("max_pool2d", distinct(2, 3, 7, 9), 2, ceil_mode=True),
    call("max_pool3d", DISTINCT_BODY, 2),
    call("max_pool3d", distinct(1, 2, 5, 7, 9), 2, None, 0, 1, True),
    call("max_pool3d", DISTINCT_BODY, 2, 2, 0, 1, True, True),
    call("max_unpool1d", np.array([[[2, 4, 6]]], "float32"), np.array([[[1, 3, 5]]]), 3, 2),
    call("max_unpool2d", np.array([[[[2, 4, 6]]]], "float32"), np.array([[[[1, 3, 10]]]]), 3, 2),
    call("max_unpool2d", np.array([[[[2, 4, 6]]]], "float32"), np.array([[[[1, 3, 10]]]]), 2, 2, 0, (2, 7)),
    call("max_unpool3d", np.array([[[[[2, 4, 6]]]]], "float32"), np.array([[[[[1, 3, 22]]]]]), 3, 2),
    call("pad", IMAGE, (1, 2)),
    call("pad", IMAGE, (1, 2, 0, 3), "constant", 1.5),
    call("pad", IMAGE, (1, 2, 3, 0), "reflect"),
    call("pad", IMAGE, (1, 2, 3, 0), "replicate"),
    call("pixel_shuffle", IMAGE, 2),
    call("pixel_unshuffle", DISTINCT_IMAGE, 2),
]

LOSSES = [
    *loss("binary_cross_entropy", GUESS, TRUTH, GUESS[::-1].copy()),
    *loss("binary_cross_entropy_with_logits", LOGITS, TRUTH, WEIGHTS, WEIGHTS[::-1].copy()),
    call("binary_cross_entropy_with_logits", LOGITS, TRUTH),
    *loss("cosine_embedding_loss", LOGITS, GUESS, SIGNS, margin=0.2),
    *loss("cross_entropy", LOGITS, CLASSES, WEIGHTS, 1, label_smoothing=0.1),
    call("cross_entropy", LOGITS, CLASSES),
    call("cross_entropy", LOGITS, TRUTH, WEIGHTS),
    *loss(
        "ctc_loss",
        np.log(floats(6, 2, 5, low=0.1, high=0.9)),
        ints(2, 3, low=1, high=5),
        np.array([6, 5]),
        np.array([3, 2]),
    ),
    *loss(
        "ctc_loss",
        np.log(floats(6, 2, 5, low=0.1, high=0.9)),
        ints(2, 3, low=0, high=4),
        np.array([6, 5]),
        np.array([3, 2]),
        blank=4,
    ),
    *loss("gaussian_nll_loss", LOGITS, TRUTH, GUESS, True, 1e-2),
    *loss("hinge_embedding_loss", GUESS[:, 0], SIGNS, 0.7),
    *loss("huber_loss", LOGITS, TRUTH, delta=0.4),
    *loss("kl_div", np.log(GUESS), TRUTH),
    call("kl_div", np.log(GUESS), TRUTH, "batchmean"),
    *loss("l1_loss", LOGITS, TRUTH),
    *loss("mse_loss", LOGITS, TRUTH),
    *loss("margin_ranking_loss", LOGITS[:, 0], GUESS[:, 0], SIGNS, 0.3),
    *loss("multi_margin_loss", LOGITS, CLASSES, 2, 1, WEIGHTS),
    *loss("multilabel_soft_margin_loss", LOGITS, ints(4, 5, low=0, high=2).astype("float32"), WEIGHTS),
    *loss("nll_loss", np.log(GUESS), CLASSES, WEIGHTS, 1),
    *loss("smooth_l1_loss", LOGITS, TRUTH, 0.4),
    call("smooth_l1_loss", LOGITS, TRUTH),
]

FOURIER = [
    *(fourier(name, COMPLEX, (3, 0, "ortho")) for name in ("fft", "ifft", "irfft")),
    *(
        fourier(name, COMPLEX, ((3, 4), (0, 1), "ortho"))
        for name in ("fft2", "fftn", "ifft2", "ifftn", "irfft2", "irfftn")
    ),
    fourier("rfft", COMPLEX.real.copy(), (3, 0, "ortho")),
    *(fourier(name, COMPLEX.real.copy(), ((3, 4), (0, 1), "ortho")) for name in ("rfft2", "rfftn")),
    # On the CPU MindSpore 2.10 computes every second call of these wrongly: each is called once.
    once("hfft", COMPLEX, (3, 0, "ortho")),
    *(once(name, COMPLEX, ((3, 4), (0, 1), "ortho")) for name in ("hfft2", "hfftn")),
    once("ihfft", COMPLEX.real.copy(), (3, 0, "ortho")),
    *(once(name, COMPLEX.real.copy(), ((3, 4), (0, 1), "ortho")) for name in ("ihfft2", "ihfftn")),
    call("fftfreq", 7, 0.5),
    call("rfftfreq", 7, 0.5),
    *(call(name, floats(3, 4), 1) for name in ("fftshift", "ifftshift")),
    call("stft", floats(32), 8, 4, 8, floats(8), True, "REFLECT", False, True, True),
    call("stft", floats(32), 8, 4, center=False, return_complex=True),
]

RANDOM = [
    replace(example, compare="shape")
    for example in [
        call("bernoulli", LOGITS, 0.3),
        call("rand", 2, 3),
        call("randn", 2, 3),
        call("rand_like", LOGITS),
        call("randn_like", LOGITS),
        call("randint", 1, 5, (2, 3)),
        call("randint_like", CLASSES, 1, 5),
        call("randperm", 7),
        call("standard_normal", (2, 3)),
        call("normal", (2, 3), 1.0, 0.5),
        call("uniform", (2, 3), np.array(0, "float32"), np.array(1, "float32")),
        call("multinomial", GUESS, 3),
        call("multinomial", GUESS, 3, False),
        *(call(name, 2, 3, dtype=np.dtype("float16")) for name in ("rand", "randn")),
        *(call(name, LOGITS, dtype=np.dtype("float16")) for name in ("rand_like", "randn_like")),
        call("randint", 1, 5, (2, 3), dtype=np.dtype("int32")),
        call("multinomial_with_replacement", GUESS, 1, 2, 3, True),
        call("random_poisson", np.array([], "int32"), TRUTH),
    ]
]

EXAMPLES = [*LAYERS, *LOSSES, *FOURIER, *RANDOM]
