"""PyTorch's API on MindSpore is a third framework: it has the names of the one and the rounding of the other."""

import json

import pytest

from msprobe.compare.core.relation import Relation, relation_of
from msprobe.compare.locate.find import locate
from msprobe.compare.run import compare
from msprobe.store.reader import read


def tensor(largest):
    return {
        "type": "torch.Tensor",
        "dtype": "torch.float32",
        "shape": [4],
        "Max": largest,
        "Min": 0.0,
        "Mean": 1.0,
        "Norm": 2.0,
    }


FLAG = {"type": "bool", "value": False}


@pytest.fixture
def dump(tmp_path):
    """`dump("mindtorch", [arguments], output, names)`: a step with one call under each name, read."""

    def dump(framework, arguments=(), output=2.0, names=("Functional.gelu.0.forward",)):
        folder = tmp_path / f"{framework}{len(list(tmp_path.iterdir()))}" / "step0" / "rank"
        folder.mkdir(parents=True)
        call = {"input_args": [tensor(2.0), *arguments], "input_kwargs": {}, "output": [tensor(output)]}
        head = {"task": "statistics", "level": "L1", "framework": framework, "dump_data_dir": None, "format_version": 1}
        (folder / "dump.json").write_text(json.dumps({**head, "data": dict.fromkeys(names, call)}))
        (folder / "construct.json").write_text(json.dumps(dict.fromkeys(names)))
        (folder / "stack.json").write_text("{}")
        return read(folder)

    return dump


@pytest.mark.parametrize(
    ("one", "other", "relation"),
    [
        ("mindtorch", "pytorch", Relation.OTHER_KERNELS),
        ("mindtorch", "mindspore", Relation.OTHER_NAMES),
        ("mindspore", "pytorch", Relation.OTHER_NAMES),
        ("mindtorch", "mindtorch", Relation.SAME),
        ("another", "another", Relation.SAME),
        ("mindtorch", "another", Relation.UNKNOWN),
    ],
)
def test_the_relation_of_two_frameworks(dump, one, other, relation):
    sides = dump(one), dump(other)
    for pair in (sides, sides[::-1]):
        assert relation_of(*pair) is relation


def test_without_forward_and_backward_calls_no_counterparts_are_searched(dump):
    kernels = dump("mindspore", names=("Kernel.Add.0",))
    assert relation_of(kernels, dump("pytorch")) is relation_of(dump("pytorch"), kernels) is Relation.OTHER_KERNELS


def test_what_each_relation_has_in_common():
    found = {each: (each.is_one_framework, each.has_other_kernels, each.has_other_names) for each in Relation}
    assert found == {
        Relation.SAME: (True, False, False),
        Relation.UNKNOWN: (False, False, False),
        Relation.OTHER_KERNELS: (False, True, False),
        Relation.OTHER_NAMES: (False, True, True),
    }


def test_an_argument_that_one_side_writes_out_is_no_fault(dump):
    assert locate(compare(dump("mindtorch", [FLAG]), dump("pytorch"))).first is None
    assert locate(compare(dump("mindtorch"), dump("pytorch", [FLAG]))).first is None


def test_within_one_framework_it_is_none_where_both_return_the_same(dump):
    assert locate(compare(dump("mindtorch", [FLAG]), dump("mindtorch"))).first is None


def test_a_tensor_that_one_side_is_not_given_is_a_fault(dump):
    found = locate(compare(dump("mindtorch", [tensor(3.0)]), dump("pytorch"))).first
    assert (found.kind.name, found.name) == ("argument differs", "Functional.gelu.0.forward")


def test_a_result_that_differs_is_found_under_the_other_arguments(dump):
    found = locate(compare(dump("mindtorch", [FLAG], output=2.1), dump("pytorch"))).first
    assert (found.kind.name, found.name) == ("computes differently", "Functional.gelu.0.forward")


def test_rounding_is_none(dump):
    assert locate(compare(dump("mindtorch", output=2.000001), dump("pytorch"))).first is None
