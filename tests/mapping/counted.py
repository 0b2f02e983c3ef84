"""What the table of functions holds, counted.

`python tests/mapping/counted.py` prints the table of docs/en/reference/mapping-table.md.
"""

from msprobe.mapping.api import load_table

FAMILIES = {
    "mint": ("Mint",),
    "mint.nn.functional": ("MintFunctional",),
    "mint.distributed, communication": ("MintDistributed", "Distributed"),
    "ops": ("Functional",),
    "Tensor": ("Tensor",),
    "primitives": ("Primitive",),
}


def counted(table):
    """Family to (names, executed, unverified, without counterpart); a name is executed if one of its pairs was."""
    rows = {}
    for family, prefixes in FAMILIES.items():
        entries = [pairs for stem, pairs in table.entries.items() if stem.split(".")[0] in prefixes]
        without = [stem for stem in table.without if stem.split(".")[0] in prefixes]
        executed = sum(any(not pair.unverified for pair in pairs) for pairs in entries)
        rows[family] = (len(entries), executed, len(entries) - executed, len(without))
    return rows


def markdown(table):
    """The counts as a table, with their sums."""
    rows = counted(table)
    lines = [
        "| MindSpore | names with a counterpart | executed on both sides | unverified | without counterpart |",
        "|---|---|---|---|---|",
    ]
    lines += [f"| {family} | {' | '.join(map(str, row))} |" for family, row in rows.items()]
    sums = [sum(column) for column in zip(*rows.values(), strict=True)]
    return "\n".join([*lines, f"| **all** | {' | '.join(map(str, sums))} |"])


if __name__ == "__main__":
    print(markdown(load_table()))
