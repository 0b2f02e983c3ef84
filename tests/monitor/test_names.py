"""Names in the files, and which parameters and modules settings choose. Needs no framework."""

import pytest

from msprobe.monitor.names import Substrings, Targets, shortened


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("module.decoder.layers.0.mlp.weight", "layers.0.mlp.weight"),
        ("backbone.layer.3.bias", "layer.3.bias"),
        ("model.embeddings.word.weight", "embeddings.word.weight"),
        ("model.embedding.weight", "embedding.weight"),
        ("a.b.final_layernorm.weight", "final_layernorm.weight"),
        ("a.output_layer.weight", "output_layer.weight"),
        ("a.b.norm.weight", "norm.weight"),
        ("layers.0.weight", "layers.0.weight"),
        ("fc.weight", "fc.weight"),
        ("layers0.weight", "layers0.weight"),  # no dot follows
        ("a.layers.0.norm.weight", "layers.0.norm.weight"),  # the first of the words counts
    ],
)
def test_a_name_begins_at_the_first_word_that_all_models_share(name, short):
    assert shortened([name]) == {name: short}


def test_names_that_would_be_equal_stay_whole():
    names = ["a.layers.0.w", "b.layers.0.w", "a.layers.1.w"]
    assert shortened(names) == {names[0]: names[0], names[1]: names[1], names[2]: "layers.1.w"}


def test_no_two_names_are_equal():
    """A short name may be another's whole one."""
    names = ["layers.0.w", "a.layers.0.w", "norm", "x.norm", "y.norm"]
    assert len(set(shortened(names).values())) == len(names)


@pytest.mark.parametrize(
    ("keys", "stage", "name", "expected"),
    [
        ([], 0, "a.layers.0.w", True),
        (["a.layers"], 0, "a.layers.0.w", True),
        (["layers.0"], 0, "a.layers.0.w", True),
        (["layers.1"], 0, "a.layers.0.w", False),
        (["0:a.layers.0"], 0, "a.layers.0.w", True),
        (["1:a.layers.0"], 0, "a.layers.0.w", False),
        (["1:a.layers.0"], 1, "a.layers.0.w", True),
        (["b", "a.l"], 0, "a.layers.0.w", True),
    ],
)
def test_parameters_are_chosen_by_the_beginning_of_any_of_their_names(keys, stage, name, expected):
    assert Targets(keys).has_parameter(stage, name, shortened([name])[name]) is expected


@pytest.mark.parametrize(
    ("keys", "all_modules", "stage", "name", "expected"),
    [
        ([], False, 0, "a.b", True),
        (["a.b"], False, 0, "a.b", True),
        (["a"], False, 0, "a.b", False),
        (["1:a.b"], False, 1, "a.b", True),
        (["1:a.b"], False, 0, "a.b", False),
        (["a"], True, 0, "x", True),
    ],
)
def test_modules_are_chosen_by_their_whole_name(keys, all_modules, stage, name, expected):
    assert Targets(keys, all_modules=all_modules).has_module(stage, name) is expected


def test_substrings_choose_modules_and_leave_parameters_alone():
    assert Substrings(["fc"]).has_module(0, "a.fc1")
    assert not Substrings(["fc"]).has_module(0, "a.norm")
    assert Substrings([]).has_module(0, "anything")
    assert Substrings(["fc"]).has_parameter(0, "norm.weight", "norm.weight")
