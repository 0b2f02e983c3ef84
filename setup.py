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
    # Optional: without it the NumPy passes of base/statistic.py are used.
    Extension(
        "msprobe.base._statistic",
        [f"msprobe_ms/base/{name}.c" for name in ("_statistic", "_record", "_brief", "_passes", "_digest")],
        depends=[
            "msprobe_ms/base/_statistic.h",
            "msprobe_ms/base/_passes.h",
            "msprobe_ms/base/_passes.inc",
            "msprobe_ms/base/_passes_block.inc",
            "msprobe_ms/base/_digest.h",
            "msprobe_ms/base/_float_mode.h",
            "msprobe_ms/base/_schema.h",
        ],
        extra_compile_args=["-O3", "-pthread", "-fvisibility=hidden"],
        extra_link_args=["-pthread"],
        optional=True,
    ),
    # Optional: without it functions of C are replaced at their names; see base/in_place.py.
    Extension("msprobe.base._in_place", ["msprobe_ms/base/_in_place.c"], optional=True),
    # Optional: without it the classes of cell_dump/backward.py and gradient.py are used.
    Extension(
        "msprobe.cell_dump._gradients",
        [f"cell_dump/{name}.c" for name in ("_gradients", "_backward", "_guard", "_insistent", "_placing")],
        depends=["cell_dump/_gradients.h"],
        extra_compile_args=["-fvisibility=hidden"],
        optional=True,
    ),
    # Optional: without it the operators of graph_save/transport/callback.py are used.
    Extension("msprobe.graph_save._operators", ["graph_save/_operators.c"], optional=True),
    # Optional: without it store/flatten.py reads every entry.
    Extension(
        "msprobe.store._entries",
        ["msprobe_ms/store/_entries.c"],
        depends=["msprobe_ms/base/_schema.h"],
        include_dirs=["msprobe_ms/base"],
        extra_compile_args=["-O3"],
        optional=True,
    ),
    # Optional: without it the NumPy passes of compare/measure/block.py are used. Operations are not fused, so that all
    # instruction sets return the same bits.
    Extension(
        "msprobe.compare.measure._measure",
        ["compare/measure/_measure.c"],
        depends=[
            "compare/measure/_measure_sweep.inc",
            "compare/measure/_measure_chunk.inc",
            "msprobe_ms/base/_float_mode.h",
        ],
        include_dirs=["msprobe_ms/base"],
        extra_compile_args=["-O3", "-ffp-contract=off"],
        optional=True,
    ),
    # Optional: without it compare/tables/csv_file.py and sheet.py write cells themselves.
    Extension(
        "msprobe.compare.tables._cells",
        ["compare/tables/_cells.cpp"],
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
