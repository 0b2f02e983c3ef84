"""Dtypes by whatever name, and what each of them is allowed."""

from msprobe.compare.core.measures import FORMATS, coarsest
from msprobe.compare.core.standard import EXACT, STANDARDS, Standard, canonical, family, standard_of


def test_dtypes_have_one_name_in_every_framework():
    assert [canonical(d) for d in ("Float32", "torch.float32", "float32", "torch.half")] == ["float32"] * 3 + [
        "float16"
    ]
    assert [family(d) for d in ("Int64", "UInt8", "BFloat16", "Bool", "torch.complex64")] == [
        "int",
        "int",
        "float",
        "bool",
        "complex",
    ]
    assert standard_of("BFloat16") == Standard(1.6e-2, 1e-5)
    assert standard_of("Int32") == EXACT


def test_a_standard_says_what_it_allows():
    """Of a small tensor less is allowed than the absolute part: it shrinks with the greatest golden element."""
    assert str(STANDARDS["float32"]) == "1.3e-06*|golden| + 1e-05*min(1, max|golden|)"
    assert str(EXACT) == "equality"


def test_the_coarsest_format_is_the_one_with_the_fewest_digits():
    assert coarsest(["Float16", "torch.float32", ""]) == FORMATS["float16"]
    assert coarsest(["BFloat16", "float32", "float16"]) == FORMATS["bfloat16"]
    assert coarsest(["Int32", "complex128"]) == FORMATS["float64"]
    assert coarsest(["", "Int32", "Bool"]) is None
