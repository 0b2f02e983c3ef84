"""The laws of imports: arrows point down, doors are crossed by full name, foreign libraries stay behind their doors."""

import sys
from graphlib import TopologicalSorter
from importlib.metadata import requires

import pytest

FLOORS = [
    ["msprobe.base"],
    ["msprobe.store"],
    [
        *("msprobe.mapping", "msprobe.executors", "msprobe.at_compile", "msprobe.callback_entry"),
        *("msprobe.dump_header", "msprobe.class_or_instance", "msprobe.stage_control", "msprobe.single_tree"),
        "msprobe.collector_protocol",
    ],
    ["msprobe.replay"],
    ["msprobe.cell_dump", "msprobe.graph_save", "msprobe.compare"],
    [
        *("msprobe.debugger", "msprobe.diagnose", "msprobe.doctor", "msprobe.verify_collection"),
        *("msprobe.observed_run", "msprobe.single_save"),
    ],
    ["msprobe.collector_selection"],
    ["msprobe.mindspore_debugger", "msprobe.pytorch_debugger"],
    ["msprobe.callbacks", "msprobe.rl"],
    ["msprobe", "msprobe.core", "msprobe.mindspore", "msprobe.pytorch", "msprobe.cli"],
    ["msprobe.__main__", "msprobe.msprobe"],
]
"""Lowest first. A new room is to be written in here, and into the picture in docs/en/explanation/architecture.md."""

FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}

WITHOUT_FRAMEWORK = (
    "msprobe.base",
    "msprobe.store",
    "msprobe.mapping",
    "msprobe.replay",
    "msprobe.compare",
    "msprobe.diagnose",
)

DOORS = {
    "mindspore": (
        "msprobe.cell_dump.backends.mindspore",
        "msprobe.cell_dump.backends.mindtorch",
        "msprobe.graph_save",
        "msprobe.executors",
        "msprobe.at_compile",
        "msprobe.collector_selection",
        "msprobe.mindspore_debugger",
        "msprobe.callbacks",
    ),
    "torch": (
        "msprobe.cell_dump.backends.mindtorch",
        "msprobe.cell_dump.backends.pytorch",
        "msprobe.pytorch_debugger",
        "msprobe.replay.reference",
        "msprobe.store.torch_files",
    ),
    "openpyxl": ("msprobe.compare.tables.sheet", "msprobe.compare.merge.tables", "msprobe.compare.merge.merge"),
    "distributed": ("msprobe.compare.workers.cluster",),
    "tqdm": ("msprobe.compare.workers.progress",),
    "yaml": (
        "msprobe.compare.merge.choice",
        "msprobe.mapping.api",
        "msprobe.mapping.layers",
        "msprobe.mapping.user_files",
    ),
}
"""Library: the modules, with everything below them, that may import it."""


def room_of(name):
    """The room that a module belongs to: the longest entry of the floors that holds it."""
    parts = name.split(".")
    return next((".".join(parts[:n]) for n in (2, 1) if ".".join(parts[:n]) in FLOOR), None)


def below(name, places):
    return any(name == place or name.startswith(place + ".") for place in places)


def crossings(modules):
    """(importing module, import) for everything of ours that is imported."""
    return [(m, i) for m in modules for i in m.imports if below(i.module, ["msprobe"])]


def told(module, imported, what):
    return f"{module.file}:{imported.line}: {module.name} imports {imported.module}: {what}"


def test_every_module_stands_on_a_floor(modules):
    assert len(modules) > 50, "the house is there"
    assert len(FLOOR) == sum(map(len, FLOORS)), "a room stands on one floor"
    homeless = [m.name for m in modules if (room := room_of(m.name)) is None or (room == "msprobe" and m.name != room)]
    assert not homeless, "write the new room into FLOORS and into docs/en/explanation/architecture.md"


def test_arrows_only_point_down(modules):
    wrong = [
        told(module, imported, "an import goes to a lower floor, or stays in its room")
        for module, imported in crossings(modules)
        if room_of(imported.module) != room_of(module.name)
        and FLOOR[room_of(imported.module)] >= FLOOR[room_of(module.name)]
    ]
    assert not wrong, "\n".join(wrong)


def test_one_dot_inside_a_room_full_name_between_rooms_never_two_dots(modules):
    wrong = []
    for module, imported in crossings(modules):
        if imported.dots > 1:
            wrong.append(told(module, imported, "never two dots"))
        if imported.dots == 1 and room_of(imported.module) != room_of(module.name):
            wrong.append(told(module, imported, "between rooms the full name"))
        is_inner = below(imported.module, [module.package]) and module.package != "msprobe"
        if imported.dots == 0 and is_inner:
            wrong.append(told(module, imported, "inside a room a single dot"))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("library", DOORS)
def test_a_foreign_library_is_imported_behind_its_door_only(library, modules):
    wrong = [
        told(module, imported, f"allowed in {', '.join(DOORS[library]) or 'no room yet'}")
        for module in modules
        for imported in module.imports
        if below(imported.module, [library]) and not below(module.name, DOORS[library])
    ]
    assert not wrong, "\n".join(wrong)


def test_rooms_without_a_framework_have_no_door_to_one():
    for framework in ("mindspore", "torch"):
        doors = [door for door in DOORS[framework] if below(door, WITHOUT_FRAMEWORK)]
        # One kind of file is torch's own, and calls are replayed by torch: it is imported when that is done.
        assert doors == (["msprobe.replay.reference", "msprobe.store.torch_files"] if framework == "torch" else [])


def test_what_is_imported_is_declared(modules):
    """Every library that the rooms import is Python's own or stands in pyproject.toml."""
    declared = {r.split(";")[0].strip() for r in requires("msprobe-ms")}
    names = {"".join(c if c.isalnum() or c in "-_." else " " for c in r).split()[0].lower() for r in declared}
    names |= {"yaml"} if "pyyaml" in names else set()
    imported = {i.module.split(".")[0] for m in modules for i in m.imports}
    assert imported - set(sys.stdlib_module_names) - names == {"msprobe"}


def test_each_side_of_the_collector_knows_its_framework_only(modules):
    """What the sides share imports neither side: a training has one framework, and the other may not be installed."""
    sides = {
        "msprobe.cell_dump.backends.mindspore": [
            "msprobe.cell_dump.backends.pytorch",
            "msprobe.cell_dump.backends.mindtorch",
        ],
        "msprobe.cell_dump.backends.pytorch": [
            "msprobe.cell_dump.backends.mindspore",
            "msprobe.cell_dump.backends.mindtorch",
        ],
        "msprobe.cell_dump.backends.mindtorch": ["msprobe.cell_dump.backends.pytorch"],  # its tensors are MindSpore's
    }
    inside = [m for m in modules if below(m.name, ["msprobe.cell_dump"])]
    assert {next((side for side in sides if below(m.name, [side])), "") for m in inside} == {"", *sides}
    wrong = []
    for module in inside:
        forbidden = next((others for side, others in sides.items() if below(module.name, [side])), list(sides))
        wrong += [told(module, i, "the other side") for i in module.imports if below(i.module, forbidden)]
    assert not wrong, "\n".join(wrong)


def test_no_import_goes_in_a_circle(modules):
    """Modules form layers, and so do the packages inside a room; imports inside functions count too."""
    edges = {}
    names = {m.name for m in modules}
    for module in modules:
        for imported in module.imports:
            target = imported.module
            while target not in names and "." in target:
                target = target.rpartition(".")[0]
            if target == module.name or target not in names or room_of(target) != room_of(module.name):
                continue
            edges.setdefault(module.name, set()).add(target)
            room = room_of(module.name)
            here, there = (inner_package(name, room) for name in (module.name, target))
            if here != there:
                edges.setdefault(f"package {here}", set()).add(f"package {there}")
    assert len(edges) > 100, "there are imports"
    sorter = TopologicalSorter(edges)
    sorter.prepare()  # CycleError names the circle


def inner_package(name, room):
    """`msprobe.compare.match` for every module in it; a module that lies in the room itself is its own."""
    return ".".join(name.split(".")[: room.count(".") + 2])
