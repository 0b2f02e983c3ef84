"""Calls paired by layers: the example that the format's description works out, and each rule of it."""

from msprobe.mapping.layer_tree import PlacedCall, pair_layers
from msprobe.mapping.user_files import LayerRules


def rules(**by_class):
    return LayerRules(
        {name: {tuple(a.split(".")): tuple(b.split(".")) for a, b in found.items()} for name, found in by_class.items()}
    )


def paired(target, golden, found):
    return {target[i].name: golden[j].name for i, j in pair_layers(target, golden, found).items()}


ATTENTION = "Cell.network_with_loss.module.backbone.attn.Attention.forward.0"
SELF_ATTENTION = "Module.module.module.language_model.encoder.self_attention.SelfAttn.forward.0"


def test_the_worked_example():
    target = [
        PlacedCall("Mint.matmul.0.forward", ATTENTION),
        PlacedCall("Mint.matmul.1.forward", ATTENTION),
        PlacedCall(ATTENTION, "Cell.network_with_loss.module.backbone.Backbone.forward.0"),
        PlacedCall("Cell.network_with_loss.module.backbone.Backbone.forward.0"),
        PlacedCall("Cell.network_with_loss.module.GPT.forward.0"),
    ]
    golden = [
        PlacedCall("Torch.matmul.4.forward", SELF_ATTENTION),
        PlacedCall("Torch.matmul.5.forward", SELF_ATTENTION),
        PlacedCall(SELF_ATTENTION),
        PlacedCall("Module.module.module.language_model.encoder.Transformer.forward.0"),
        PlacedCall("Module.module.module.GPTModel.forward.0"),
    ]
    found = rules(
        TopLayer={"network_with_loss": "module"},
        GPT={"backbone": "language_model.encoder"},
        Backbone={"attn": "self_attention"},
    )
    assert paired(target, golden, found) == {
        "Mint.matmul.0.forward": "Torch.matmul.4.forward",
        "Mint.matmul.1.forward": "Torch.matmul.5.forward",
        ATTENTION: SELF_ATTENTION,
        "Cell.network_with_loss.module.backbone.Backbone.forward.0": (
            "Module.module.module.language_model.encoder.Transformer.forward.0"
        ),
        "Cell.network_with_loss.module.GPT.forward.0": "Module.module.module.GPTModel.forward.0",
    }


def test_an_api_of_another_name_needs_a_rule_below_its_parents_class():
    target = [
        PlacedCall("Functional.dense.0.forward", "Cell.a.Attention.forward.0"),
        PlacedCall("Cell.a.Attention.forward.0"),
    ]
    golden = [
        PlacedCall("Functional.linear.3.forward", "Module.a.Attn.forward.0"),
        PlacedCall("Module.a.Attn.forward.0"),
    ]
    assert paired(target, golden, rules()) == {"Cell.a.Attention.forward.0": "Module.a.Attn.forward.0"}
    found = paired(target, golden, rules(Attention={"dense": "linear"}))
    assert found["Functional.dense.0.forward"] == "Functional.linear.3.forward"


def test_a_layer_that_only_one_side_has_stays_alone_while_its_children_go_through():
    target = [
        PlacedCall("Cell.wrap.Wrapper.forward.0"),
        PlacedCall("Cell.wrap.inner.Dense.forward.0", "Cell.wrap.Wrapper.forward.0"),
    ]
    golden = [PlacedCall("Module.inner.Linear.forward.0")]
    found = rules(TopLayer={"wrap.inner": "inner"})
    assert paired(target, golden, found) == {"Cell.wrap.inner.Dense.forward.0": "Module.inner.Linear.forward.0"}


def test_backward_calls_and_gradients_have_the_scope_of_their_forward():
    cell = "Cell.fc.Dense.forward.0"
    target = [
        PlacedCall("Mint.add.0.forward", cell),
        PlacedCall(cell),
        PlacedCall("Mint.add.0.backward"),
        PlacedCall("Cell.fc.Dense.backward.0"),
        PlacedCall("Cell.fc.Dense.parameters_grad"),
    ]
    golden = [
        PlacedCall(
            t.name.replace("Cell", "Module").replace("Mint", "Torch"), "Module.fc.Dense.forward.0" if t.parent else None
        )
        for t in target
    ]
    assert pair_layers(target, golden, rules()) == {n: n for n in range(5)}


def test_the_order_in_a_scope_tells_calls_apart_and_what_is_too_many_stays_alone():
    target = [PlacedCall(f"Mint.add.{n}.forward") for n in (0, 1, 2)]
    golden = [PlacedCall(f"Torch.add.{n}.forward") for n in (7, 9)]
    assert pair_layers(target, golden, rules()) == {0: 0, 1: 1}


def test_layers_of_a_pipeline_are_counted_from_the_first_of_its_stage():
    target = [
        PlacedCall("Cell.net.ParallelTransformer.forward.0"),
        *(PlacedCall(f"Cell.net.layers.{n}.fc.Dense.forward.0") for n in (4, 5)),
    ]
    golden = [
        PlacedCall("Module.net.ParallelTransformer.forward.0"),
        *(PlacedCall(f"Module.net.layers.{n}.fc.Dense.forward.0") for n in (0, 1)),
    ]
    assert pair_layers(target, golden, rules()) == {0: 0, 1: 1, 2: 2}


def test_the_function_of_the_framework_around_an_api_belongs_to_its_scope():
    def stack(framework, function):
        return (
            "File /opt/msprobe/core/wrap_template.py, line 3, in Template, \n call()",
            f"File /opt/site-packages/{framework}/nn/functional.py, line 9, in {function}, \n return softmax(x)",
            "File /home/user/net.py, line 7, in construct, \n attention(x)"
            if framework == "mindspore"
            else "File /home/user/net.py, line 7, in forward, \n attention(x)",
        )

    target = [
        PlacedCall("Mint.softmax.0.forward", None, stack("mindspore", "attention")),
        PlacedCall("Mint.softmax.1.forward"),
    ]
    golden = [
        PlacedCall("Torch.softmax.0.forward"),
        PlacedCall("Torch.softmax.1.forward", None, stack("torch", "attention")),
    ]
    assert pair_layers(target, golden, rules()) == {0: 1, 1: 0}


def test_saved_values_and_broken_names_have_no_scope():
    target = [PlacedCall("x.0.debug"), PlacedCall("strange")]
    assert pair_layers(target, target, rules()) == {}
