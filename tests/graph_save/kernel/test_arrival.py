"""What is said at the end of a process about kernels that did not come."""

import pytest

from msprobe.graph_save.kernel.collector import missing_kernel_messages

pytestmark = pytest.mark.mindspore

ORDER = "NodeExecutionOrder-FullNameWithScope\nDefault/fc-Dense/MatMul-op0\nDefault/Exp-op0\n"


@pytest.fixture
def root(tmp_path):
    """A rank's folder with the kernels of one graph, and a file of step 0."""
    (tmp_path / "execution_order").mkdir()
    (tmp_path / "execution_order" / "ms_execution_order_graph_0.csv").write_text(ORDER)
    (tmp_path / "Net" / "0" / "0").mkdir(parents=True)
    return tmp_path


def test_what_came_is_not_spoken_of(root):
    assert list(missing_kernel_messages(root, ("MatMul", "Default/Exp-op0", "name-regex(.*fc.*)"), {0})) == []
    assert list(missing_kernel_messages(root, (), {0})) == []
    assert list(missing_kernel_messages(root, ("MatMull",), set())) == [], "nothing was collected"


def test_a_step_without_files_is_told(root):
    (logged,) = missing_kernel_messages(root, ("MatMul",), {0, 2, 3})
    assert logged == (
        "level L2: nothing was dumped in step 2, 3: no graph with the selected kernels ran between start() and stop()"
    )


def test_where_a_number_was_asked_for_the_name_for_all_is_told(root):
    (logged,) = missing_kernel_messages(root, ("name-regex(.*fc-Dense/MatMul-op0)",), {2})
    assert logged.endswith('or with other numbers; "name-regex(Default/fc-Dense/MatMul-op[0-9]+)" selects all of them')


def test_names_that_match_nothing_are_told_each_and_an_empty_step_is_no_wonder_then(root):
    logged = list(missing_kernel_messages(root, ("MatMull", "Softmax"), {2}))
    assert logged == [
        'level L2: "MatMull" in list did not match any kernel; did you mean "MatMul"?',
        f'level L2: "Softmax" in list did not match any kernel; the names are in {root / "execution_order"}',
    ]


def test_without_any_graph_the_remedy_is_said(tmp_path):
    (logged,) = missing_kernel_messages(tmp_path, (), {0})
    assert "use GRAPH_MODE or @jit" in logged
    assert "construct the debugger at the top of the script" in logged
