"""Names of kernels as the framework's dump settings take them: what is refused, and which kernels a name means.

Which kernels a name means was found by real dumps of MindSpore 2.10 on a CPU with these kernels.
"""

import pytest

from msprobe.base.names import depends_on_number, kernel_name_problem, matches, type_of, unmatched, with_any_number

KERNELS = (
    "Default/network-Net/fc-Dense/MatMul-op0",
    "Default/network-Net/fc-Dense/BiasAdd-op0",
    "Default/network-Net/act-ReLU/ReLU-op0",
    "Expand/_Muls/Mul-op0",
    "Default/network-Net/Exp-op0",
    "Gradients/Default/network-Net/act-ReLU/Grad_ReLU/ReluGrad-op0",
    "Gradients/Default/network-Net/fc-Dense/Grad_MatMul/MatMul-op0",
)
MEANT = [
    ("Default/network-Net/fc-Dense/MatMul-op0", [0]),
    ("MatMul", [0, 6]),
    ("atmu", [0, 6]),
    ("mul", [0, 3, 6]),
    ("ReLU", [2, 5]),
    ("name-regex(Exp)", []),
    ("name-regex(.*/Exp-op[0-9]+)", [4]),
    ("name-regex(Gradients/.*)", [5, 6]),
    ("Grad_MatMul", []),
    ("MatMul-op0", []),
    ("op0", []),
    ("Default/network-Net", []),
    ("default/network-net/exp-op0", []),
]


@pytest.mark.parametrize(("name", "expected"), MEANT)
def test_a_name_means_the_kernels_that_the_framework_dumps(name, expected):
    assert [n for n, kernel in enumerate(KERNELS) if matches(name, kernel)] == expected


def test_the_type_is_the_last_part_without_its_number():
    assert [type_of(kernel) for kernel in KERNELS[:4]] == ["MatMul", "BiasAdd", "ReLU", "Mul"]
    assert type_of("Exp") == "Exp"


@pytest.mark.parametrize(
    ("name", "hangs"),
    [
        ("Default/network-Net/Exp-op0", True),
        ("name-regex(.*Exp-op0)", True),
        ("name-regex(.*Exp-op[0-9])", True),
        ("name-regex(.*Exp-op[0-9]+)", False),
        ("Exp", False),
        ("MatMul", False),
    ],
)
def test_a_name_that_means_one_number_is_known(name, hangs):
    """A kernel of a second graph was dumped by the framework by the last two names of Exp alone."""
    assert depends_on_number(name, "Default/network-Net/Exp-op0") is hangs


def test_the_name_for_all_numbers_means_the_kernel_and_its_likes():
    name = with_any_number("Default/a(b).c-Net/Exp-op3")
    assert name == "name-regex(Default/a\\(b\\)\\.c-Net/Exp-op[0-9]+)"
    assert kernel_name_problem(name) == ""
    assert all(matches(name, f"Default/a(b).c-Net/Exp-op{n}") for n in (0, 3, 17))
    assert not matches(name, "Default/a(b)xc-Net/Exp-op3")


def test_a_name_without_a_kernel_is_told_with_the_nearest():
    requested = ["MatMull", "Exp", "Default/network-Net/fc-Dense/BiasAdd-op1", "name-regex(Exp)", "xyz"]
    assert unmatched(requested, KERNELS) == {
        "MatMull": "MatMul",
        "Default/network-Net/fc-Dense/BiasAdd-op1": "Default/network-Net/fc-Dense/BiasAdd-op0",
        "name-regex(Exp)": "",
        "xyz": "",
    }
    assert unmatched(["Exp"], []) == {"Exp": ""}


RIGHT = ["MatMul", "Default/network-Net/Exp-op0", "name-regex(.*(Exp|MatMul)-op[0-9]+)", "name-regex(a(?:b)(?=c))"]


@pytest.mark.parametrize("name", RIGHT)
def test_what_the_framework_takes_is_taken(name):
    assert kernel_name_problem(name) == ""


WRONG = [
    (" ", "is not a kernel name"),
    ("MatMul ", "without surrounding spaces"),
    ("Mat\nMul", "without control characters"),
    ("name-regex", "no expression in its parentheses"),
    ("name-regex(", "no expression in its parentheses"),
    ("name-regex()", "no expression in its parentheses"),
    ("name-regex(.*", "no expression in its parentheses"),
    ("name-regex(.*[)", "is not a valid regular expression: unterminated character set"),
    ("name-regex(*a)", "is not a valid regular expression: nothing to repeat"),
    ("name-regex((?i)exp)", 'do not support "(?"'),
    ("name-regex((?<=a)b)", 'do not support "(?"'),
    ("name-regex(\\AExp)", 'do not support "\\\\A"'),
    ("name-regex(a++)", 'do not support "++"'),
]


@pytest.mark.parametrize(("name", "message"), WRONG)
def test_what_it_refuses_is_refused_before_the_run(name, message):
    assert message in kernel_name_problem(name)
