"""The tree of the tests mirrors the packages, as they are installed."""

BESIDE = {"end_to_end", "hostile", "docs", "architecture"}
"""Folders of tests that are of no package."""

SHARED = {"preloaded"}
"""Support that has a test of its own."""


def test_folders_of_tests_are_packages(files, roots, root):
    packages = set()
    for file in files:
        folder, *inner = file.relative_to(root).parts
        if folder in roots and file.name == "__init__.py":
            packages.add(tuple(roots[folder].split(".")[1:] + inner[:-1]))
    wrong = set()
    for file in files:
        place = file.relative_to(root).parts
        if place[0] != "tests" or not file.name.startswith("test_") or file.suffix != ".py":
            continue
        folder = place[1:-1]
        if folder not in packages and folder[0] not in BESIDE | SHARED:
            wrong.add("/".join(folder))
    assert not wrong


def test_what_stands_beside_the_packages_is_described(files, root):
    described = (root / "tests/README.md").read_text()
    places = (file.relative_to(root).parts for file in files)
    top = {place[1] for place in places if place[0] == "tests" and len(place) > 2}
    packages = {place.name for place in (root / "msprobe_ms").iterdir()} | {
        "cell_dump",
        "compare",
        "graph_save",
        "mapping",
    }
    assert not [name for name in top - packages if f"`{name}/`" not in described]
