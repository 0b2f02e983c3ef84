"""Methods and operators of Tensor: which name of PyTorch comes first."""

import pytest

from msprobe.mapping.api import load_table

TENSOR = {stem: pairs for stem, pairs in load_table().entries.items() if stem.startswith("Tensor.")}


@pytest.mark.parametrize(
    ("ms", "pt"),
    [
        ("asnumpy", "numpy"),
        ("cauchy", "cauchy_"),
        ("equal", "eq"),
        ("fill_diagonal", "fill_diagonal_"),
        ("gather_elements", "gather"),
        ("swapaxes", "transpose"),
        ("expand_dims", "unsqueeze"),
        ("astype", "to"),
        ("reverse", "flip"),
    ],
)
def test_a_method_with_another_name(ms, pt):
    assert TENSOR[f"Tensor.{ms}"][0].pt == f"Tensor.{pt}"


def test_an_operator_is_the_same_operator_first():
    operators = [stem for stem in TENSOR if stem.startswith("Tensor.__")]
    assert len(operators) > 30
    assert [stem for stem in operators if TENSOR[stem][0].pt != stem] == []


def test_an_operator_may_be_a_method_or_a_function_on_the_other_side():
    assert {"Tensor.__add__", "Tensor.add", "Torch.add"} <= {pair.pt for pair in TENSOR["Tensor.__add__"]}
    assert {"Tensor.__matmul__", "Torch.matmul"} <= {pair.pt for pair in TENSOR["Tensor.matmul"]}


def test_both_ways_to_name_an_axis_lead_to_one_place():
    """Methods of MindSpore that take `axis, keepdims` as numpy does, or `dim, keepdim` as PyTorch does."""
    (by_dim, by_axis) = [pair for pair in TENSOR["Tensor.sum"] if pair.pt == "Tensor.sum"]
    assert by_dim.fits(["0", "dim"])
    assert not by_dim.fits(["0", "axis"])
    assert by_axis.fits(["0", "axis"])
    assert (
        by_dim.ms_place("input", ("dim",)) == by_axis.ms_place("input", ("axis",)) == by_dim.pt_place("input", ("1",))
    )


def test_what_is_swapped_meets_again():
    """`a @ b` may be carried out by b: then b is PyTorch's second argument."""
    pair = next(pair for pair in TENSOR["Tensor.__rmatmul__"] if pair.pt == "Torch.matmul")
    assert pair.ms_place("input", ("0",)) == pair.pt_place("input", ("1",))
    assert pair.ms_place("input", ("1",)) == pair.pt_place("input", ("0",))
