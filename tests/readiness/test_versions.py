"""Versions against bounds, as pip reads them."""

import pytest

from msprobe.readiness.versions import fits, requirements


@pytest.mark.parametrize(
    ("version", "bounds", "expected"),
    [
        *(("2.7", ">=2.7,<2.11", True), ("2.10.0", ">=2.7,<2.11", True), ("2.11", ">=2.7,<2.11", False)),
        *(("2.11.0rc1", ">=2.7,<2.11", False), ("2.6.9", ">=2.7,<2.11", False), ("2.9", ">=2.10", False)),
        *(("1.26.4", "<2,>=1.23", True), ("2.0.0", "<2,>=1.23", False), ("2.13.0+cpu", ">=2.1", True)),
        *(("0.5.0b1", "==0.5.0b1", True), ("0.5.0b2", "==0.5.0b1", False), ("0.5.0", "==0.5.0b1", False)),
        *(("3.1.2", "==3.1.*", True), ("3.2", "==3.1.*", False), ("3.1.2", "!=3.1.*", False), ("2.0+x", "==2.0", True)),
        *(("1.4.5", "~=1.4.2", True), ("1.5.0", "~=1.4.2", False), ("1.4.1", "~=1.4.2", False)),
        *(("unknown", ">=1", True), ("1.0", "", True)),
    ],
)
def test_a_version_lies_within_bounds(version, bounds, expected):
    assert fits(version, bounds) is expected


def test_requirements_have_their_extras_and_none_that_depends_on_the_machine(package):
    package("demo", "1.0", "numpy >=1.20,<2", "ml-dtypes (>=0.4) ; extra == 'x'", 'win32 ; sys_platform == "win32"')
    found = [(each.name, each.bounds, each.extra) for each in requirements("demo")]
    assert found == [("numpy", ">=1.20,<2", ""), ("ml-dtypes", ">=0.4", "x")]
