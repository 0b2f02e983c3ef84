"""Five folders at the top of the repository install as one import root, `msprobe`."""

import os

from setuptools import Extension, find_packages, setup

ROOTS = {
    "msprobe_ms": "msprobe",
    "cell_dump": "msprobe.cell_dump",
    "graph_save": "msprobe.graph_save",
    "compare": "msprobe.compare",
    "mapping": "msprobe.mapping",
}

packages = [
    name for folder, root in ROOTS.items() for name in [root, *(f"{root}.{inner}" for inner in find_packages(folder))]
]

EXTENSIONS = [
    # Optional: without a compiler the numpy passes of base/statistic.py serve.
    Extension(
        "msprobe.base._statistic",
        ["msprobe_ms/base/_statistic.c"],
        depends=[
            "msprobe_ms/base/_statistic_pass.h",
            "msprobe_ms/base/_statistic_block.h",
            "msprobe_ms/base/_brief.h",
            "msprobe_ms/base/_brief_block.h",
            "msprobe_ms/base/_finite.h",
            "msprobe_ms/base/_digest.h",
            "msprobe_ms/base/_record.h",
            "msprobe_ms/base/_schema.h",
        ],
        extra_compile_args=["-O3", "-pthread"],
        extra_link_args=["-pthread"],
        optional=True,
    ),
    # Optional: without it functions of C are replaced at their names; see base/in_place.py.
    Extension("msprobe.base._in_place", ["msprobe_ms/base/_in_place.c"], optional=True),
    # Optional: without it the classes of cell_dump/backward.py and gradient.py serve.
    Extension(
        "msprobe.cell_dump._gradients",
        [f"cell_dump/{name}.c" for name in ("_gradients", "_backward", "_guard", "_insistent", "_placing")],
        depends=["cell_dump/_gradients.h"],
        extra_compile_args=["-fvisibility=hidden"],
        optional=True,
    ),
    # Optional: without it the operators of graph_save/transport/callback.py serve.
    Extension("msprobe.graph_save._operators", ["graph_save/_operators.c"], optional=True),
    # Optional: without it store/flatten.py takes every entry.
    Extension(
        "msprobe.store._entries",
        ["msprobe_ms/store/_entries.c"],
        depends=["msprobe_ms/base/_schema.h"],
        include_dirs=["msprobe_ms/base"],
        extra_compile_args=["-O3"],
        optional=True,
    ),
    # Optional as well: without it the numpy passes of compare/measure/block.py serve. Nothing is contracted, so
    # that every instruction set rounds alike.
    Extension(
        "msprobe.compare.measure._measure",
        ["compare/measure/_measure.c"],
        depends=["compare/measure/_measure_sweep.h", "compare/measure/_measure_chunk.h"],
        extra_compile_args=["-O3", "-ffp-contract=off"],
        optional=True,
    ),
    # Optional: without it compare/tables/csv_file.py and sheet.py write cells themselves.
    Extension(
        "msprobe.compare.tables._cells",
        ["compare/tables/_cells.cpp"],
        depends=["compare/tables/_shortest.h"],
        extra_compile_args=["-O3", "-std=c++17"],
        language="c++",
        optional=True,
    ),
]

# `MSPROBE_STRICT=1`, as `make lint` sets it: every extension must be built, and a warning of the compiler is an error.
if os.environ.get("MSPROBE_STRICT"):
    for extension in EXTENSIONS:
        extension.extra_compile_args += ["-Wall", "-Wextra", "-Werror"]
        extension.optional = False

setup(
    packages=packages,
    package_dir={root: folder for folder, root in ROOTS.items()},
    package_data={
        "msprobe": ["py.typed", "report/page.html", "findings/schema/*.json"],
        "msprobe.mapping": ["tables/*.yaml"],
    },
    include_package_data=False,
    ext_modules=EXTENSIONS,
)
