"""The same dumps drawn by the other tool and by ours: every column of every node of both databases side by side.

    python benchmarks/compat/graphs.py [--environments DIR] [--only CASE ...] [--keep DIR]

Where the two differ, a row of `REASONS` has to say why; each is printed with the number of cells that it explains. Exit
code 0: nothing else differs, 1: something does, and what.
"""

import argparse
import json
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from other_tool import ENVIRONMENTS, OtherTool, clean_environment, install

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests" / "compare" / "graph_visualize"))

import odd_dumps  # noqa: E402 - the line above says where it is

VERSION = "26.2.0"
SAMPLES = ROOT / "tests" / "samples" / VERSION / "dumps"

REASONS = (
    ("", "Err_message", "", "the sentences are ours"),
    ("", "node_colors|tool_tip", "", "the sentences are ours, and English"),
    ("", "step|rank|id|graph_id|step_list|rank_list", "", "the folder of one step or rank keeps its number"),
    (r"^.*", "type|value|dtype|shape|Max|Min|Mean|Norm|data_name|requires_grad", r"^None \||^'null' \| ('\[|None)",
     "slices, sizes and empty tensors are shown, not null"),
    ("", ".* diff|.*RelativeErr|Result|Requires_grad Consistent", r"^None \| ",
     "slices, sizes and empty tensors are shown, not null; what is not null is compared"),
    (r"input\.(src|dst)$", "dtype", r"^'int' \| '<class int>'",
     "numbers among the keywords of collectives have the dtype of all numbers"),
    (r"input\.(src|dst)$", ".* diff|.*RelativeErr", "", "numbers among the keywords of collectives are compared"),
    ("Apis_Between", "precision_index", r"^0 \| None", "a collection whose calls were not compared has no number"),
    ("parameters_grad", ".* diff|.*RelativeErr|Result|precision_index", "",
     "gradients of parameters are paired by name, not by place"),
    (r"square\.0\.backward|Apis_Between", "precision_index|Result", "^0 .* 1$|^'pass' .* 'error'$",
     "outputs count as wrong where fewer than 0.6, not 0.1, are within a thousandth"),
    (r"\.backward", "stack", "", "a backward call shows the stack of its forward call; nothing where there is none"),
)  # fmt: skip
"""The row, its column or member, the two texts, and why they differ; the first that fits counts."""


def cases(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Name and options of each case."""

    def rank(name: str) -> str:
        (found,) = (SAMPLES / name / "step0").iterdir()
        return str(found)

    for name in ("ms_mix_stat", "ms_mix_md5", "ms_mix_tensor", "ms_L0_stat", "pt_mix_stat", "task_structure_mix"):
        yield f"one {name}", ["-tp", rank(name)]
        yield f"{name} with itself", ["-tp", rank(name), "-gp", rank(name)]
    for kind in ("stat", "md5", "tensor"):
        yield f"perturbed {kind}", ["-tp", rank(f"ms_mix_{kind}"), "-gp", rank(f"msp_mix_{kind}")]
    yield "mix with L0", ["-tp", rank("ms_mix_stat"), "-gp", rank("ms_L0_stat")]
    yield "fuzzy", ["-tp", rank("ms_mix_stat"), "-gp", rank("msp_mix_stat"), "-fm"]
    values = str(odd_dumps.values(folder / "values"))
    yield "values", ["-tp", values]
    yield "other values", ["-tp", values, "-gp", str(odd_dumps.values(folder / "changed", changed=True))]
    overflow = str(odd_dumps.overflow(folder / "overflow"))
    yield "overflow", ["-tp", overflow, "-oc"]
    yield "overflow of two", ["-tp", overflow, "-gp", overflow, "-oc"]
    structure = str(odd_dumps.structure(folder / "structure"))
    yield "structure", ["-tp", structure]
    yield "structure of two", ["-tp", structure, "-gp", structure]
    ranks = odd_dumps.ranks(folder / "ranks", steps=2)
    changed = odd_dumps.ranks(folder / "changed_ranks", changed=True, steps=2)
    yield "ranks", ["-tp", str(ranks)]
    yield "other ranks", ["-tp", str(ranks), "-gp", str(changed)]
    yield "one step", ["-tp", str(ranks / "step1")]


def draw(command: list[str], output: Path) -> tuple[Path | None, str]:
    """The database that a command wrote, and what it said."""
    done = subprocess.run(
        [*command, "-o", str(output)], cwd=output.parent, env=clean_environment(), capture_output=True, text=True
    )
    return next(output.glob("*.vis.db"), None), done.stdout + done.stderr


Table = dict[str, dict[str, object]]


def read(database: Path) -> dict[str, Table]:
    """The tables of a database by the names of their rows, without the number of a step."""
    with closing(sqlite3.connect(database)) as connection:
        connection.row_factory = sqlite3.Row
        tables = {
            name: [dict(row) for row in connection.execute(f"SELECT * FROM {name}")]
            for name in ("tb_nodes", "tb_stack", "tb_config")
        }
    stacks = {str(row["id"]): row["stack_info"] for row in tables["tb_stack"]}
    steps = sorted({int(row["step"]) for row in tables["tb_nodes"]})
    nodes: Table = {}
    for row in tables["tb_nodes"]:
        row["stack"] = stacks[str(row.pop("stack_id"))]
        nodes[f"{row['data_source']} {steps.index(int(row['step']))} {row['rank']} {row['node_name']}"] = row
    return {"nodes": nodes, "config": {"1": tables["tb_config"][0]}}


def differences(theirs: dict[str, Table], ours: dict[str, Table]) -> Iterator[tuple[str, str, str]]:
    """Row, column or member, and both texts, of every cell that differs."""
    for table, rows in theirs.items():
        for missing in rows.keys() ^ ours[table].keys():
            yield missing, "row", f"{missing in rows} | {missing in ours[table]}"
        for name in rows.keys() & ours[table].keys():
            for column, value in rows[name].items():
                other = ours[table][name][column]
                if column in ("input_data", "output_data"):
                    yield from records(name, json.loads(str(value or "{}")), json.loads(str(other or "{}")))
                elif value != other:
                    yield name, column, f"{value!r} | {other!r}"


def records(
    node: str, theirs: dict[str, dict[str, str]], ours: dict[str, dict[str, str]]
) -> Iterator[tuple[str, str, str]]:
    """The same of the records of a node."""
    if list(theirs) != list(ours):
        yield node, "records", f"{list(theirs)} | {list(ours)}"
    for name in theirs.keys() & ours.keys():
        one, other = theirs[name], ours[name]
        for member in {**one, **other}:
            if one.get(member) != other.get(member):
                yield f"{node}: {name}", member, f"{one.get(member)!r} | {other.get(member)!r}"
        if one == other and list(one) != list(other):
            yield f"{node}: {name}", "order", f"{list(one)} | {list(other)}"


def reason(where: str, column: str, texts: str) -> str:
    """Why a cell differs; empty where nobody knows."""
    for row, columns, both, why in REASONS:
        if re.search(row, where) and re.fullmatch(columns, column) and re.search(both, texts):
            return why
    return ""


def compared(tool: OtherTool, name: str, options: list[str], folder: Path) -> int:
    """Print what differs in one case; how many cells nobody can explain."""
    safe = name.replace(" ", "_")
    theirs, said = draw([str(tool.folder / "bin" / "msprobe"), "graph_visualize", *options], folder / f"theirs_{safe}")
    ours, printed = draw(
        [str(Path(sys.executable).parent / "msprobe"), "graph_visualize", *options], folder / f"ours_{safe}"
    )
    if theirs is None or ours is None:
        print(f"== {name}: NOT DRAWN: {(said if theirs is None else printed)[-400:]}")
        return 1
    tables = read(theirs), read(ours)
    known: Counter[str] = Counter()
    unknown = []
    for where, column, texts in differences(*tables):
        why = reason(where, column, texts)
        known[why] += bool(why)
        if not why:
            unknown.append(f"{where} {column}: {texts[:200]}")
    print(f"== {name}: {len(tables[0]['nodes'])} nodes, {known.total() + len(unknown)} cells differ")
    for why, count in sorted(known.items()):
        if count:
            print(f"   {count:4} {why}")
    for line in unknown[:20]:
        print(f"   UNEXPLAINED {line}")
    return len(unknown)


def main() -> int:
    """Compare all cases; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environments", type=Path, default=ENVIRONMENTS)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--keep", type=Path)
    args = parser.parse_args()
    tool = install(VERSION, args.environments, needs=("mindspore", "torch"))
    folder = args.keep or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    try:
        found = [compared(tool, *case, folder) for case in cases(folder) if not args.only or case[0] in args.only]
    finally:
        if not args.keep:
            shutil.rmtree(folder)
    print(f"{len(found)} cases, {sum(found)} cells unexplained")
    return int(any(found))


if __name__ == "__main__":
    sys.exit(main())
