"""Which layer of PyTorch answers to a layer of MindSpore, and what its parameters are called there."""

import numpy as np
import pytest

from msprobe.mapping.layers import (
    counterpart_classes,
    layers,
    layers_of,
    parameter_candidates,
    parameter_name,
    reason_without,
)
from msprobe.mapping.transform import parse


@pytest.mark.parametrize(
    ("ms_class", "pt"),
    [
        ("Dense", ("Linear", "NonDynamicallyQuantizableLinear")),
        ("Linear", ("Linear",)),
        ("LayerNorm", ("LayerNorm",)),
        ("LayerNormExt", ("LayerNorm",)),  # mint.nn.LayerNorm
        ("EmbeddingExt", ("Embedding",)),  # mint.nn.Embedding
        ("SeLU", ("SELU",)),
        ("BatchNorm2d", ("BatchNorm2d", "SyncBatchNorm")),
        ("SequentialCell", ("Sequential", "ModuleList")),
        ("GPTBlock", ()),
    ],
)
def test_a_class_has_its_counterparts(ms_class, pt):
    assert counterpart_classes(ms_class) == pt


@pytest.mark.parametrize(
    ("ms_class", "ms", "pt"),
    [
        ("LayerNorm", "gamma", "weight"),
        ("LayerNorm", "beta", "bias"),
        ("LayerNormExt", "weight", "weight"),
        ("BatchNorm2d", "moving_mean", "running_mean"),
        ("BatchNorm2d", "moving_variance", "running_var"),
        ("BatchNorm2d", "running_var", "running_var"),  # mint.nn.BatchNorm2d
        ("BatchNorm3d", "bn2d.gamma", "weight"),
        ("Embedding", "embedding_table", "weight"),
        ("PReLU", "w", "weight"),
        ("Dense", "weight", "weight"),
        ("LSTM", "weight_ih_l0_reverse", "weight_ih_l0_reverse"),
        ("GPTBlock", "gamma", "gamma"),
    ],
)
def test_a_parameter_of_a_known_class_has_one_name(ms_class, ms, pt):
    assert parameter_name(ms_class, ms) == (pt, "")


def test_the_weight_of_a_convolution_in_one_dimension_loses_an_axis_where_it_has_one_too_many():
    name, transform = parameter_name("Conv1d", "weight", (6, 4, 1, 3))
    assert name == "weight"
    weight = np.arange(72.0).reshape(6, 4, 1, 3)
    np.testing.assert_array_equal(parse(transform)(weight), weight[:, :, 0])
    assert parameter_name("Conv1d", "weight", (6, 4, 3)) == ("weight", ""), "that of mint.nn has none to lose"
    assert parameter_name("Conv1d", "weight") == ("weight", "")


def test_inner_layers_that_are_named_otherwise():
    assert ("encoder.linear1.weight", "") in parameter_candidates("encoder.dense1.weight")
    assert parameter_candidates("encoder.norm1.scale") == (("encoder.norm1.scale", ""),)


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("layers.0.norm.gamma", "layers.0.norm.weight"),
        ("embed.embedding_table", "embed.weight"),
        ("bn.moving_variance", "bn.running_var"),
        ("bn.bn2d.beta", "bn.bias"),
        ("encoder.layers.0.norm1.beta", "encoder.layers.0.norm1.bias"),
        ("head.weight", "head.weight"),
        ("scale", "scale"),
    ],
)
def test_the_first_candidate_of_a_whole_name_is_what_pytorch_would_call_it(name, first):
    assert parameter_candidates(name)[0] == (first, "")


def test_candidates_end_with_the_name_as_it_is():
    """An own class may well have called its parameter gamma on both sides."""
    assert parameter_candidates("norm.gamma") == (("norm.weight", ""), ("norm.gamma", ""))


def test_candidates_know_inner_layers_and_layouts():
    names = [name for name, _ in parameter_candidates("encoder.dense1.weight")]
    assert names == ["encoder.dense1.weight", "encoder.linear1.weight"]
    assert parameter_candidates("conv.weight", (6, 4, 1, 3)) == (("conv.weight", ""), ("conv.weight", "squeeze(2)"))
    assert parameter_candidates("conv.weight", (6, 4, 3)) == (("conv.weight", ""),)


def test_arguments_of_constructors_are_translated_with_their_conventions():
    (nn_norm, mint_norm) = layers_of("BatchNorm2d")
    assert nn_norm.arguments({"num_features": 3, "momentum": 0.9}) == {
        "num_features": 3,
        "momentum": pytest.approx(0.1),
    }
    assert mint_norm.arguments({"num_features": 3, "momentum": 0.1}) == {"num_features": 3, "momentum": 0.1}
    (dropout,) = layers_of("Dropout")
    assert dropout.arguments({"keep_prob": 0.9}) == {"p": pytest.approx(0.1)}
    (gelu, _) = layers_of("GELU")
    assert gelu.arguments({}) == {"approximate": "tanh"}, "MindSpore's default is the approximation"
    (norm,) = layers_of("LayerNorm")
    assert norm.arguments({"normalized_shape": (5,)}) == {"normalized_shape": (5,), "eps": 1e-7}
    (conv, _) = layers_of("Conv2d")
    arguments = conv.arguments({"in_channels": 3, "out_channels": 6, "pad_mode": "pad", "padding": 1, "group": 3})
    assert arguments == {"in_channels": 3, "out_channels": 6, "padding": 1, "groups": 3, "bias": False}


def test_a_layer_that_pytorch_does_not_have_has_a_reason():
    assert "sigmoid(1.702 x)" in reason_without("FastGelu")
    assert counterpart_classes("FastGelu") == ()
    assert reason_without("Dense") == ""


def test_the_table_is_well_formed():
    names = [layer.ms for layer in layers()]
    assert len(names) == len(set(names)) > 200
    for layer in layers():
        assert layer.pt, layer.ms
        assert layer.ms.startswith(("nn.", "mint.nn.")), layer.ms
        for of_dimension in layer.transforms.values():
            assert all(isinstance(count, int) and parse(text) for count, text in of_dimension.items())
        assert set(layer.defaults) <= {"ms", "pt"}
        assert not set(layer.attributes) & set(layer.requires), layer.ms
