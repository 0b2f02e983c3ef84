"""The laws of imports: down the layers, other packages named in full, foreign libraries in few modules."""

import sys
from graphlib import TopologicalSorter
from importlib.metadata import requires

import pytest

LAYERS = [
    ["msprobe.base"],
    ["msprobe.options"],
    ["msprobe.findings"],
    ["msprobe.store"],
    [
        *("msprobe.mapping", "msprobe.callback_entry", "msprobe.model_training", "msprobe.monitor_convert"),
        *("msprobe.report", "msprobe.stage_control", "msprobe.frameworks"),
        "msprobe.training_command",
    ],
    [
        *("msprobe.frameworks.mindspore.executors", "msprobe.frameworks.mindspore.at_compile"),
        *("msprobe.frameworks.mindspore.seed", "msprobe.frameworks.pytorch.seed"),
    ],
    ["msprobe.replay"],
    ["msprobe.cell_dump", "msprobe.graph_save", "msprobe.compare"],
    ["msprobe.frameworks.mindspore", "msprobe.frameworks.pytorch"],
    ["msprobe.frameworks.mindtorch"],
    ["msprobe.gate_process", "msprobe.grad_probe", "msprobe.perturb", "msprobe.precheck", "msprobe.readiness"],
    [
        *("msprobe.debugger", "msprobe.checks", "msprobe.diagnose", "msprobe.doctor", "msprobe.verify_collection"),
        *("msprobe.observed_run", "msprobe.single_save", "msprobe.config_check", "msprobe.convert", "msprobe.bundle"),
    ],
    [
        *("msprobe.frameworks.mindspore.debugger", "msprobe.frameworks.pytorch.debugger"),
        *("msprobe.report_verb", "msprobe.mcp_server", "msprobe.gate", "msprobe.graft"),
    ],
    ["msprobe.frameworks.mindtorch.debugger"],
    ["msprobe.monitor"],
    ["msprobe.monitor_callback"],
    ["msprobe.callbacks", "msprobe.rl"],
    ["msprobe", "msprobe.core", "msprobe.mindspore", "msprobe.pytorch", "msprobe.cli"],
    ["msprobe.__main__", "msprobe.msprobe", "msprobe.completion"],
]
"""Lowest first. A new package is to be written in here, and into the picture in docs/en/explanation/architecture.md."""

INSIDE_COMPARE = (
    "core",
    "workers",
    "measure",
    "counterparts",
    "match",
    "judge",
    "dataflow",
    "locate",
    "noise",
    "updates",
    "advice",
    "tables",
    "ranks",
    "units",
    "run",
    "request",
    "jobs",
    "explain",
    "parallel",
    *("checkpoint", "key_data", "rollout", "rl", "merge", "suggest", "grad_probe", "monitor", "config_check"),
    "graph_visualize",
    "dispatch",
    *("entry", "verb", "digest_verb"),
)
"""The layers inside `msprobe.compare`, lowest first, as docs/en/explanation/architecture.md draws them."""

LAYER = {package: at for at, packages in enumerate(LAYERS) for package in packages}

WITHOUT_FRAMEWORK = (
    "msprobe.base",
    "msprobe.findings",
    "msprobe.options",
    "msprobe.store",
    "msprobe.mapping",
    "msprobe.replay",
    "msprobe.compare",
    "msprobe.bundle",
    "msprobe.checks",
    "msprobe.diagnose",
    "msprobe.gate",
    "msprobe.graft",
    "msprobe.mcp_server",
    "msprobe.monitor_convert",
    "msprobe.readiness",
    "msprobe.report",
    "msprobe.report_verb",
    "msprobe.training_command",
)

IMPORTERS = {
    "mindspore": (
        "msprobe.frameworks.mindspore",
        "msprobe.frameworks.mindtorch",
        "msprobe.graph_save",
        "msprobe.monitor_callback",
        "msprobe.callbacks",
    ),
    "torch": (
        "msprobe.frameworks.mindtorch",
        "msprobe.frameworks.pytorch",
        "msprobe.replay.reference",
        "msprobe.store.torch_files",
    ),
    "openpyxl": (
        "msprobe.compare.tables.sheet",
        "msprobe.compare.tables.workbook",
        "msprobe.compare.merge.tables",
        "msprobe.compare.merge.merge",
    ),
    "distributed": ("msprobe.compare.workers.cluster",),
    "pyarrow": ("msprobe.store.arrow", "msprobe.store.monitor.columns"),
    "tensorboardX": ("msprobe.store.monitor.events",),
    "matplotlib": ("msprobe.compare.grad_probe.pictures", "msprobe.compare.monitor.output"),
    "mcp": ("msprobe.mcp_server.server",),
    "pytest": ("msprobe.gate.pytest_plugin",),
    "tqdm": ("msprobe.compare.workers.progress",),
    "yaml": (
        "msprobe.compare.merge.merge",
        "msprobe.mapping.api",
        "msprobe.mapping.layers",
        "msprobe.mapping.user_files",
    ),
}
"""Library: the modules, with everything below them, that may import it."""


def root_package(name):
    """The entry of the layers that a module belongs to: the longest one."""
    parts = name.split(".")
    return next((".".join(parts[:n]) for n in (4, 3, 2, 1) if ".".join(parts[:n]) in LAYER), None)


def folder_of(name):
    """The package directly below `msprobe` that a module belongs to."""
    return ".".join(name.split(".")[:2])


def below(name, places):
    return any(name == place or name.startswith(place + ".") for place in places)


def crossings(modules):
    """(importing module, import) for everything of ours that is imported."""
    return [(m, i) for m in modules for i in m.imports if below(i.module, ["msprobe"])]


def message(module, imported, what):
    return f"{module.file}:{imported.line}: {module.name} imports {imported.module}: {what}"


def test_every_module_stands_on_a_floor(modules):
    assert len(modules) > 50, "the modules were found"
    assert len(LAYER) == sum(map(len, LAYERS)), "each package is in one layer"
    unplaced = [
        m.name
        for m in modules
        if (package := root_package(m.name)) is None or (package == "msprobe" and m.name != package)
    ]
    gone = [package for package in LAYER if not any(below(m.name, [package]) for m in modules)]
    assert not gone, "an entry of the layers that names nothing"
    assert not unplaced, "write the new package into LAYERS and into docs/en/explanation/architecture.md"


def test_arrows_only_point_down(modules):
    wrong = [
        message(module, imported, "an import goes to a lower layer, or stays in its package")
        for module, imported in crossings(modules)
        if root_package(imported.module) != root_package(module.name)
        and LAYER[root_package(imported.module)] >= LAYER[root_package(module.name)]
    ]
    assert not wrong, "\n".join(wrong)


def test_one_dot_inside_a_room_full_name_between_rooms_never_two_dots(modules):
    wrong = []
    for module, imported in crossings(modules):
        if imported.dots > 1:
            wrong.append(message(module, imported, "never two dots"))
        if imported.dots == 1 and folder_of(imported.module) != folder_of(module.name):
            wrong.append(message(module, imported, "between packages the full name"))
        is_inner = below(imported.module, [module.package]) and module.package != "msprobe"
        if imported.dots == 0 and is_inner:
            wrong.append(message(module, imported, "inside a package a single dot"))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("library", IMPORTERS)
def test_a_foreign_library_is_imported_behind_its_door_only(library, modules):
    wrong = [
        message(module, imported, f"allowed in {', '.join(IMPORTERS[library]) or 'no package yet'}")
        for module in modules
        for imported in module.imports
        if below(imported.module, [library]) and not below(module.name, IMPORTERS[library])
    ]
    assert not wrong, "\n".join(wrong)


def test_rooms_without_a_framework_have_no_door_to_one():
    for framework in ("mindspore", "torch"):
        importers = [importer for importer in IMPORTERS[framework] if below(importer, WITHOUT_FRAMEWORK)]
        # One kind of file is torch's own, and calls are replayed by torch: it is imported when that is done.
        assert importers == (["msprobe.replay.reference", "msprobe.store.torch_files"] if framework == "torch" else [])


def test_what_is_imported_is_declared(modules):
    """Every library that the packages import is Python's own or stands in pyproject.toml."""
    declared = {r.split(";")[0].strip() for r in requires("msprobe-ms")}
    names = {"".join(c if c.isalnum() or c in "-_." else " " for c in r).split()[0].lower() for r in declared}
    names |= {"yaml"} if "pyyaml" in names else set()
    imported = {i.module.split(".")[0] for m in modules for i in m.imports}
    assert imported - set(sys.stdlib_module_names) - names == {"msprobe"}


def test_each_side_of_the_collector_knows_its_framework_only(modules):
    """What the sides share imports neither side: a training has one framework, and the other may not be installed."""
    sides = {
        "msprobe.frameworks.mindspore": [
            "msprobe.frameworks.pytorch",
            "msprobe.frameworks.mindtorch",
        ],
        "msprobe.frameworks.pytorch": [
            "msprobe.frameworks.mindspore",
            "msprobe.frameworks.mindtorch",
        ],
        "msprobe.frameworks.mindtorch": ["msprobe.frameworks.pytorch"],  # its tensors are MindSpore's
    }
    inside = [m for m in modules if below(m.name, ["msprobe.cell_dump", "msprobe.frameworks"])]
    assert {next((side for side in sides if below(m.name, [side])), "") for m in inside} == {"", *sides}
    wrong = []
    for module in inside:
        forbidden = next((others for side, others in sides.items() if below(module.name, [side])), list(sides))
        wrong += [message(module, i, "the other side") for i in module.imports if below(i.module, forbidden)]
    assert not wrong, "\n".join(wrong)


def test_no_import_goes_in_a_circle(modules):
    """Modules form layers, and so do inner packages; imports inside functions count too."""
    edges = {}
    names = {m.name for m in modules}
    for module in modules:
        for imported in module.imports:
            target = imported.module
            while target not in names and "." in target:
                target = target.rpartition(".")[0]
            if target == module.name or target not in names or root_package(target) != root_package(module.name):
                continue
            edges.setdefault(module.name, set()).add(target)
            package = root_package(module.name)
            here, there = (inner_package(name, package) for name in (module.name, target))
            if here != there:
                edges.setdefault(f"package {here}", set()).add(f"package {there}")
    assert len(edges) > 100, "there are imports"
    sorter = TopologicalSorter(edges)
    sorter.prepare()  # CycleError names the circle


def inner_package(name, package):
    """`msprobe.compare.match` for every module in it; a module directly in the package is its own."""
    return ".".join(name.split(".")[: package.count(".") + 2])


def test_the_packages_of_compare_import_from_lower_ones_only(modules):
    inside = [m for m in modules if m.name.startswith("msprobe.compare.")]
    assert {m.name.split(".")[2] for m in inside} == set(INSIDE_COMPARE)
    wrong = [
        message(module, imported, "a lower package of compare, or its own")
        for module in inside
        for imported in module.imports
        if imported.module.startswith("msprobe.compare.")
        and INSIDE_COMPARE.index(imported.module.split(".")[2]) > INSIDE_COMPARE.index(module.name.split(".")[2])
    ]
    assert not wrong, "\n".join(wrong)
