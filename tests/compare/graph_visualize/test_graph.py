"""The tree of nodes: who stands where, in which order, in which micro step."""

import odd_dumps
from made_dumps import forward, tensor, write

from msprobe.compare.graph_visualize.graph import ROOT, NodeType, build, type_of


def test_functions_at_the_root_are_collected_where_two_follow_each_other(tmp_path, draw):
    drawn = draw("-tp", odd_dumps.structure(tmp_path / "a"))
    assert drawn.npu(ROOT)["sub_nodes"] == [
        "Torch.a.0.forward",  # alone
        "Module.l.L.forward.0",
        "Apis_Between_Modules.0",
        "Module.l.L.backward.0",
        "Torch.b.1.backward",  # its forward call has no parent either
        "Module.l.L.forward.1",
        "Apis_Between_Modules.1",
        "Module.l.L.backward.1",
        "Custom.f.0.forward",  # no function of a collector
        "optimizer.step.0",
        "clip_grad.x.0",
        "Apis_Between_Modules.2",
    ]
    collection = drawn.npu("Apis_Between_Modules.0")
    assert collection["sub_nodes"] == ["Torch.b.1.forward", "Torch.c.0.forward"]
    assert (collection["node_type"], collection["up_node"]) == ("9", ROOT)
    assert drawn.npu("Torch.c.0.forward")["up_node"] == "Apis_Between_Modules.0"


def test_a_backward_call_without_a_parent_stands_in_the_backward_of_its_forwards_parent(tmp_path, draw):
    drawn = draw("-tp", odd_dumps.structure(tmp_path / "a"))
    assert drawn.npu("Torch.b.0.backward")["up_node"] == "Module.l.L.backward.0"
    assert drawn.npu("Module.q.Q.backward.1")["up_node"] == "Module.l.L.backward.1"


def test_gradients_of_parameters_stand_in_the_last_backward_of_their_cell(tmp_path, draw):
    drawn = draw("-tp", odd_dumps.structure(tmp_path / "a"))
    names = ["Module.q.Q.backward.1", "Module.l.L.parameters_grad", "Module.l.L.parameters_grad.1"]
    assert drawn.npu("Module.l.L.backward.1")["sub_nodes"] == names
    assert list(drawn.npu("Module.l.L.parameters_grad")["input_data"]) == ["Module.l.L.parameters_grad.w"]


def test_nodes_are_numbered_children_first(tmp_path, draw):
    drawn = draw("-tp", odd_dumps.structure(tmp_path / "a"))
    order = {node["node_name"]: node["node_order"] for node in drawn.nodes.values()}
    assert sorted(order.values()) == list(range(len(order)))
    assert order[ROOT] == len(order) - 1
    for node in drawn.nodes.values():
        assert all(order[child] < order[node["node_name"]] for child in node["sub_nodes"])
    assert [order[name] for name in ("Torch.a.0.forward", "Torch.b.0.forward", "Module.l.L.forward.0")] == [0, 1, 2]


def test_a_forward_of_a_cell_behind_a_backward_begins_a_micro_step(tmp_path, draw):
    drawn = draw("-tp", odd_dumps.structure(tmp_path / "a"))
    assert drawn.config["micro_steps"] == 2
    steps = {node["node_name"]: node["micro_step_id"] for node in drawn.nodes.values()}
    assert steps["Module.l.L.backward.0"] == steps["Torch.b.1.backward"] == 0
    assert steps["Module.l.L.forward.1"] == steps["Module.q.Q.forward.1"] == steps["optimizer.step.0"] == 1
    assert steps[ROOT] == 0


def test_names_say_what_a_node_is():
    prefixes = "Tensor Torch Functional NPU VF Distributed Aten Mint Primitive Jit MintFunctional MintDistributed"
    apis = [f"{prefix}.a" for prefix in prefixes.split()]
    assert {type_of(f"{name}.0.forward") for name in apis} == {NodeType.API}
    modules = ("Module.a.A.forward.0", "Cell.a.A.forward.0", "optimizer.step.0", "clip_grad.0", "Own.f.0.forward")
    assert {type_of(name) for name in modules} == {NodeType.MODULE}


def test_what_has_a_parent_that_never_ran_stands_at_the_root():
    graph = build({"Cell.a.A.forward.0": "Cell.gone.G.forward.0"}, [])
    assert graph.nodes["Cell.a.A.forward.0"].parent == ROOT


def test_gradients_of_a_cell_without_a_backward_stand_in_its_forward():
    graph = build({"Cell.a.A.forward.0": None, "Cell.a.A.forward.1": None}, ["Cell.a.A.parameters_grad"])
    assert graph.nodes["Cell.a.A.parameters_grad"].parent == "Cell.a.A.forward.1"


def test_a_backward_that_holds_the_backward_of_its_forwards_parent_makes_no_circle():
    graph = build(
        {
            "Cell.a.A.forward.0": None,
            "Cell.a.b.B.forward.0": "Cell.a.A.forward.0",
            "Cell.a.b.B.backward.0": None,
            "Cell.a.A.backward.0": "Cell.a.b.B.backward.0",
        },
        [],
    )
    assert graph.path("Cell.a.A.backward.0") == [ROOT, "Cell.a.b.B.backward.0", "Cell.a.A.backward.0"]


def test_a_deep_network_is_drawn_whole(tmp_path, draw):
    names = [f"Cell.{'x.' * depth}C.forward.0" for depth in range(150)]
    construct = dict(zip(names, [None, *names], strict=False))
    drawn = draw("-tp", write(tmp_path / "deep", {names[-1]: forward([tensor()], [tensor()])}, construct))
    assert len(drawn.nodes) == 151
    assert drawn.npu(names[-1])["up_node"] == names[-2]


# ---- call stacks


def test_a_call_shows_its_stack_and_a_backward_call_that_of_its_forward(tmp_path, draw):
    drawn = draw("-tp", odd_dumps.structure(tmp_path / "a"))
    whole = ["File h.py, line 1, in f, \n hook(x)", "File n.py, line 2, in forward, \n return self.l(x)"]
    assert drawn.stack(drawn.npu("Module.l.L.forward.0")) == whole
    assert drawn.stack(drawn.npu("Module.l.L.backward.0")) == whole
    assert drawn.stack(drawn.npu("Module.l.L.backward.1")) == whole, "call 1 has none, so that of call 0"
    assert drawn.stack(drawn.npu("Module.l.L.forward.1")) == drawn.stack(drawn.npu("Module.q.Q.backward.1")) == []
    assert drawn.stack(drawn.npu("Module.l.L.parameters_grad")) == []
    assert len(drawn.stacks) == 3, "each once: two, and none"
