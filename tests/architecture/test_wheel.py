"""What is installed: the files that git holds for the packages, the extensions, nothing beside `msprobe`."""

import os
import re
import sysconfig
import zipfile
from importlib.metadata import distribution
from pathlib import Path, PurePosixPath

import pytest

import msprobe

EXTENSIONS = [
    "msprobe/base/_in_place",
    "msprobe/base/_statistic",
    "msprobe/cell_dump/_gradients",
    "msprobe/compare/measure/_measure",
    "msprobe/compare/tables/_cells",
    "msprobe/graph_save/_operators",
    "msprobe/store/_entries",
]
C_SOURCES = (".c", ".cpp", ".h", ".inc")
"""The extensions are built from them; installed they stand for them."""
BUILT_FROM = ("msprobe_ms/report/page/",)
"""Sources of what is built before it is committed: `report/page.html`."""

WHEEL = os.environ.get("MSPROBE_WHEEL")
only_with_wheel = pytest.mark.skipif(not WHEEL, reason="`make test` builds a wheel, installs it and names it here")


@pytest.fixture
def held(files, root, roots):
    """Path in the wheel of every file that git holds for the packages."""
    inside = [f.relative_to(root) for f in files if f.relative_to(root).parts[0] in roots]
    inside = [f for f in inside if not f.as_posix().startswith(BUILT_FROM)]
    places = {PurePosixPath(*roots[f.parts[0]].split("."), *f.parts[1:]) for f in inside if f.suffix not in C_SOURCES}
    return {str(place) for place in places}


@only_with_wheel
def test_the_tests_run_against_the_installed_wheel():
    assert Path(msprobe.__file__).is_relative_to(sysconfig.get_path("purelib")) or Path(
        msprobe.__file__
    ).is_relative_to(sysconfig.get_path("platlib"))
    assert distribution("msprobe-ms").read_text("direct_url.json").count(Path(WHEEL).name) == 1


@only_with_wheel
def test_the_wheel_holds_what_git_holds_and_the_extensions(held):
    names = [n for n in zipfile.ZipFile(WHEEL).namelist() if not n.split("/")[0].endswith(".dist-info")]
    built = [n for n in names if n.endswith((".so", ".pyd"))]
    assert sorted(set(names) - set(built)) == sorted(held)
    # built where there is a compiler
    assert sorted(re.sub(r"\..*", "", n) for n in built) in ([], EXTENSIONS)


@only_with_wheel
def test_only_msprobe_goes_into_site_packages():
    tops = {file.parts[0] for file in distribution("msprobe-ms").files}
    others = {top for top in tops if not re.fullmatch(r"msprobe|msprobe_ms-[\d.]+\.dist-info|\.\.", top)}
    assert not others
    outside = [f.name for f in distribution("msprobe-ms").files if f.parts[0] == ".."]
    assert outside == ["msprobe"], "the command"


def test_the_root_folders_are_those_with_packages(root, roots):
    packages = {p.parent.name for p in root.glob("*/__init__.py")}
    assert packages == set(roots)
