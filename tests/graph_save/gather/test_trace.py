"""What gather reads out of a graph's text, and how it joins the names of files with it."""

import pytest

from msprobe.graph_save.gather.dump import Provenance
from msprobe.graph_save.gather.entry import full_names, stems
from msprobe.graph_save.gather.ir_dataflow import Argument, GraphDataflow, Origin
from msprobe.graph_save.gather.metadata import Metadata
from msprobe.graph_save.gather.trace import parse
from msprobe.store.kernel_dump.executions import CallNames, Execution
from msprobe.store.kernel_dump.values import Value

HEAD = """\
%para1_w: <Ref[Tensor[Float32]], (2), ref_key=fc.w, is_parameter, is_inplace>  :  IsWeight: true
%para2_x: <Tensor[Float32], (2)>  :  IsWeight: false
%para3_u: <UMonad, NoShape>  :  IsWeight: false
subgraph @g() {
"""


def node(number, op, args, name, *frames, attrs=""):
    lines = "".join(f"      # In file {frame}/\n" for frame in frames)
    return (
        f"  %{number}(v{number}) = {op}({args}) {{a: (1, 2)}} {attrs}\n      # Fullname with scope: ({name})\n{lines}"
    )


def flow(*nodes):
    return GraphDataflow(parse(f"{HEAD}{''.join(nodes)}}}\n".splitlines(keepends=True)))


def origins(flow, name):
    return [argument.origin for argument in flow.arguments(name)]


LINE = "/p/net.py:7, 8~20/        y = self.fc(x)"
FC = Origin("kernel", "S/A-op0")


def test_what_only_hands_on_is_followed_to_its_source():
    found = flow(
        node(0, "Load", "%para1_w, %para3_u", "S/Load-op0"),
        node(1, "PrimFunc_A", "%para2_x, %0, I64(0), ()", "S/A-op0"),
        node(2, "TupleGetItem", "%1, I64(2)", "S/TupleGetItem-op0"),
        node(3, "Depend", "%2, %0", "S/Depend-op0"),
        node(4, "MakeTuple", "%0, %3", "S/MakeTuple-op0"),
        node(5, "TupleGetItem", "%4, I64(1)", "S/TupleGetItem-op1"),
        node(6, "UpdateState", "U, %5", "S/UpdateState-op0"),
        node(7, "B", "%5, %1, %99, %6", "S/B-op0"),
    )
    assert found.arguments("S/A-op0") == (
        Argument(Origin("argument", "x")),
        Argument(Origin("parameter", "fc.w")),
        Argument(Origin("constant")),
        Argument(Origin("constant"), is_empty=True),
    )
    assert origins(found, "S/B-op0") == [Origin("kernel", "S/A-op0", 2), FC, None]
    assert found.arguments("S/Unknown-op0") == ()


@pytest.mark.parametrize(
    ("op", "args", "written"),
    [
        ("Adam", "%para1_w, %0, %9", [True, False]),
        ("Adam", "%para1_w, %0", [False, False]),
        ("AssignAdd", "%para1_w, %para1_w, %9", [True, False]),
        ("BatchNorm", "%0, %para1_w, %para1_w, %para1_w, %para1_w, %9", [False, False, False, True, True]),
    ],
)
def test_a_parameter_is_written_where_it_is_given_itself_with_an_effect(op, args, written):
    found = flow(
        node(0, "Load", "%para1_w, %para3_u", "S/Load-op0"),
        node(9, "UpdateState", "%para3_u, %0", "S/UpdateState-op0"),
        node(10, op, args, "S/K-op0"),
    )
    assert [argument.is_written for argument in found.arguments("S/K-op0")] == written


def test_what_a_kernel_has_written_is_no_longer_the_parameter_that_the_step_began_with():
    found = flow(
        node(0, "Load", "%para1_w, %para3_u", "S/Load-op0"),
        node(1, "A", "%0", "S/A-op0"),
        node(9, "UpdateState", "%para3_u, %1", "S/UpdateState-op0"),
        node(10, "Adam", "%para1_w, %9", "S/K-op0"),
        node(11, "B", "%0", "S/B-op0"),
    )
    provenance, values = Provenance(Metadata(flows={0: found})), (Value("Op", "k", 0, 0, 0, "input", (0,)),)
    runs = [Execution(name, name, values) for name in ("S/A-op0", "S/K-op0", "S/B-op0")]
    assert [provenance.next(run).sources for run in runs] == [["parameter fc.w"], [""], [""]]


def test_outputs_of_a_kernel_in_place_count_where_something_reads_them():
    update = node(9, "UpdateState", "%para3_u, %para2_x", "S/UpdateState-op0")
    alone = flow(update, node(10, "Adam", "%para1_w, %9", "S/K-op0"), node(11, "Depend", "Bool(1), %10", "S/D-op0"))
    assert {0, 1, 2} <= alone.unread("S/K-op0")
    whole = flow(update, node(10, "Adam", "%para1_w, %9", "S/K-op0"), node(11, "Depend", "%10, %9", "S/D-op0"))
    assert whole.unread("S/K-op0") == frozenset()
    one = flow(
        update,
        node(10, "BatchNorm", "%para2_x, %para2_x, %para2_x, %para1_w, %para1_w, %9", "S/K-op0"),
        node(11, "TupleGetItem", "%10, I64(0)", "S/T-op0"),
        node(12, "TupleGetItem", "%10, I64(2)", "S/T-op1"),
        node(13, "ReLU", "%11", "S/ReLU-op0"),
    )
    assert not {0} & one.unread("S/K-op0")
    assert {1, 2} <= one.unread("S/K-op0")
    pure = flow(node(10, "Exp", "%para2_x", "S/K-op0"))
    assert pure.unread("S/K-op0") == frozenset()


def test_a_constant_tensor_over_several_lines_is_one_argument():
    text = node(
        1, "Mul", "Tensor(shape=[2, 2], value=\n[[ 1.0e+00  2.0e+00]\n [ 3.0e+00  4.0e+00]]), %0", "S/Mul-op0", LINE
    )
    found = flow(node(0, "A", "%para2_x", "S/A-op0"), text)
    assert origins(found, "S/Mul-op0") == [Origin("constant"), FC]
    assert found.lines("S/Mul-op0").frames == ("File /p/net.py, line 7, in construct, \n y = self.fc(x)",)


def test_a_bracket_in_a_text_costs_no_other_node():
    found = flow(node(0, "A", '%para2_x, "("', "S/A-op0"), node(1, "B", "%0", "S/B-op0", LINE))
    assert origins(found, "S/B-op0") == [FC]
    assert found.lines("S/B-op0").frames


def test_frames_are_the_lines_that_run_innermost_first():
    found = flow(
        node(
            0,
            "A",
            "%para2_x",
            "S/A-op0",
            "/p/net.py:5~9, 4~20/    def construct(self, x):",
            "/p/net.py:6~8, 8~20/        if self.training:",
            "/p/net.py:7, 8~20/        y = ops.relu(self.fc(x))",
            "/p/net.py:7, 12~20/        y = ops.relu(self.fc(x))",
            "/lib/nn_func.py:10~20/def relu(input):",
            "/lib/nn_func.py:19~20, 4~9/    return relu_op(/<~~This line of code can be shared by multiple nodes",
        )
    )
    assert found.lines("S/A-op0").frames == (
        "File /lib/nn_func.py, line 19, in relu, \n return relu_op(",
        "File /p/net.py, line 7, in construct, \n y = ops.relu(self.fc(x))",
    )


def test_a_kernel_without_lines_has_those_of_what_it_repeats_or_of_its_neighbours():
    mark = "recompute_sub_graph: U64(0), recompute_id: I64(1)"
    other, third = LINE.replace("7", "8"), LINE.replace("7", "9")
    found = flow(
        node(0, "A", "%para2_x", "S/A-op0", LINE, attrs=mark),
        node(1, "B", "%0", "S/B-op0", other),
        node(2, "A", "%1", "S/A-op1", attrs=f"{mark}, duplicated: Bool(1)"),
        node(3, "AddN", "%1, %1", "G/AddN-op0"),
        node(4, "Move", "%para1_w", "S/Move-op0"),
        node(5, "C", "%4", "S/C-op0", third),
        node(6, "Lonely", "%para1_w", "S/Lonely-op0"),
    )
    assert [found.lines(name).of for name in ("S/A-op1", "G/AddN-op0", "S/Move-op0", "S/Lonely-op0")] == [
        "S/A-op0",
        "S/B-op0",
        "S/C-op0",
        "",
    ]
    assert found.is_recompute("S/A-op1")
    assert not found.is_recompute("S/A-op0")


def test_of_several_graphs_in_one_text_the_lines_are_known_and_not_the_flow():
    second = f"}}\nsubgraph @h() {{\n{node(0, 'B', '%para1_w', 'S/B-op0', LINE)}"
    found = flow(node(0, "A", "%para2_x", "S/A-op0", LINE), second)
    assert found.lines("S/B-op0").frames
    assert found.arguments("S/B-op0") == ()


@pytest.mark.parametrize("text", ["", "\0\1\2", "%1(", "  %1(a) = B(", "# In file x", "  %0(a) = B(((\n" * 50])
def test_a_text_that_is_no_graph_is_an_empty_one(text):
    assert parse(text.splitlines(keepends=True)).nodes == {}


@pytest.mark.parametrize(
    ("files", "graph", "joined"),
    [
        # equal numbers, as almost always
        (["S_A-op0", "S_A-op1"], ["S/A-op0", "S/A-op1"], ["S/A-op0", "S/A-op1"]),
        # made by a late pass: files count anew, in the order of the nodes
        (["S_A-op0", "S_A-op1"], ["S/A-op9", "S/A-op7"], ["S/A-op9", "S/A-op7"]),
        (["S_A-op0", "S_A-op1", "S_A-op2"], ["S/A-op0", "S/A-op2", "S/A-op1"], ["S/A-op0", "S/A-op2", "S/A-op1"]),
        # some kernels only
        (["S_A-op1"], ["S/A-op0", "S/A-op1"], ["S/A-op1"]),
        (["S_A-op1"], ["S/A-op7", "S/A-op5"], ["S/A-op1"]),
        # nothing known
        (["S_A-op1", "S_B"], [], ["S_A-op1", "S_B"]),
        (["S_x_y-B_A-op0"], ["S/x.y-B/A-op0"], ["S/x.y-B/A-op0"]),
        (["_A-op0"], ["/A-op0"], ["/A-op0"]),
    ],
)
def test_files_are_joined_with_the_nodes_of_the_graph(files, graph, joined):
    found = full_names(files, graph)
    assert [found[name] for name in files] == joined


@pytest.mark.parametrize(
    ("files", "joined"),
    [
        # as many as the graph has: the order tells, whatever the numbers are
        (["S_A-op2", "S_A-op3", "S_A-op4"], ["S/A-op0", "S/A-op1", "S/A-op2"]),
        # fewer: S_A-op2 may be the first of the graph, so it is not taken for the graph's S/A-op2
        (["S_A-op2"], ["S_A-op2"]),
        (["S_A-op3"], ["S/A-op3"]),
    ],
)
def test_numbers_of_a_later_graph_go_on_where_an_earlier_one_left_off(files, joined):
    found = full_names(files, ["S/A-op0", "S/A-op1", "S/A-op2"], stems(["S/A-op0", "S/A-op1"]))
    assert [found[name] for name in files] == joined


def test_a_number_that_cannot_be_trusted_is_no_node_of_the_graph():
    graph = ["S/A-op1", "S/A-op0"]  # its numbers do not rise, so a late pass made these nodes
    assert full_names(["S_A-op1"], graph) == {"S_A-op1": "S_A-op1"}


def test_no_two_calls_of_an_iteration_have_one_name():
    names = CallNames()
    inputs = ["S/A-op0", "S/A-op0", "S/A", "S.A-op0", "/A-op3", "S//A-op0"]
    assert [names.of("Kernel", name) for name in inputs] == [
        "Kernel.S.A.0.forward",
        "Kernel.S.A.round1.0.forward",
        "Kernel.S.A.round2.0.forward",
        "Kernel.S.A.round3.0.forward",
        "Kernel.A.3.forward",
        "Kernel.S.A.round4.0.forward",
    ]
