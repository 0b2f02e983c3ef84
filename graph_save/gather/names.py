"""Which full name a file means (`docs/format.md`, page 7)."""

from collections.abc import Container, Iterable

from msprobe.store.kernel_value import key, stem_and_number


def full_names(spelled: Iterable[str], known: Iterable[str], counted: Container[str] = ()) -> dict[str, str]:
    """The full name for each name as the files of one graph spell it; a name that nothing knows stands for itself.

    `known` are the graph's full names, in the order of its nodes, and `counted` the stems (as files spell them) of the
    graphs before it. The number behind `-op` is not always the same in files and graph: nodes that a late pass made (a
    Cast, an AddN, what an operator was expanded to) are numbered anew for their files, and all nodes of a later graph
    where an earlier one left off; always in the order of the nodes. So where files and graph hold as many kernels of
    one stem, their order tells. Else, as when some kernels only were dumped, equal numbers belong together, if they
    rise in the graph and no earlier graph has the stem. What is left has a name that is none of the graph's.
    """
    of_files = _by_stem(spelled)
    of_graph = _by_stem(known)
    found: dict[str, str] = {}
    for stem, files in of_files.items():
        graph = of_graph.get(stem, {})
        if len(files) == len(graph):
            found.update((files[a], graph[b]) for a, b in zip(sorted(files), graph, strict=True))
            continue
        is_told = list(graph) == sorted(graph) and stem not in counted
        whole = next((stem_and_number(name)[0] for name in graph.values()), "")
        for number, name in files.items():
            if number in graph:
                found[name] = graph[number] if is_told else name
            else:
                found[name] = f"{whole}-op{number}" if whole and number >= 0 else name
    return found


def stems(names: Iterable[str]) -> set[str]:
    """The names without their numbers, as files spell them."""
    return set(_by_stem(names))


def _by_stem(names: Iterable[str]) -> dict[str, dict[int, str]]:
    """Spelled stem -> number -> name, in the order that was given."""
    found: dict[str, dict[int, str]] = {}
    for name in names:
        stem, number = stem_and_number(key(name))
        found.setdefault(stem, {})[number] = name
    return found


def is_gradient(full_name: str) -> bool:
    """Whether the kernel was made by differentiation."""
    return full_name.startswith("Gradients")
