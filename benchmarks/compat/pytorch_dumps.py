"""Let the other tool compare and draw dumps of PyTorch that were collected with `"file_format": "pt"`.

    python benchmarks/compat/pytorch_dumps.py [--versions 26.2.0 8.1.1] [--keep DIR] [--environments DIR]

Run it with a Python that has PyTorch and msprobe-ms. It collects the same training twice and a third time with a
changed weight, of the tasks statistics (also with digests) and tensor, and runs `compare` and `graph_visualize` (8.1:
`graph`) of the other tool on the equal pair and on the changed one. Exit code 0: every record has a row, equal runs
pass, every tensor file was measured, the change is seen, and every call is a node with a counterpart; 1: something is
not so.
"""

import argparse
import json
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from other_tool import ENVIRONMENTS, VERSIONS, OtherTool, Row, clean_environment, install, read_table

from msprobe.store.reader import read

KINDS = {"statistics": "statistics", "md5": "statistics", "tensor": "tensor"}
# 8.1 imports twisted, which asks for service_identity without saying so; newer ones need a newer cryptography.
NEEDS = ("torch==2.13.0", "service_identity==23.1.0")

TRAINING = """
import json, sys, torch
from torch.nn import functional as F
from msprobe.pytorch import PrecisionDebugger
root, task, mode, changed = sys.argv[1:]

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.fc1 = torch.nn.Embedding(11, 16), torch.nn.Linear(16, 32)
        self.fc2 = torch.nn.Linear(32, 8).to(torch.bfloat16)

    def forward(self, x):
        h = F.gelu(self.fc1(self.emb(x))).transpose(0, 1)[1:]
        h = torch.where(h > 0, h, torch.zeros_like(h)) * 2
        y = self.fc2(h.to(torch.bfloat16)).float()
        torch.argmax(y, -1)
        return torch.softmax(y, -1).sum() + torch.fft.fft(y).abs().mean()

torch.manual_seed(0)
net = Net()
with torch.no_grad():
    net.fc1.weight[0, 0] += 0.5 * (changed == "changed")
section = {"summary_mode": mode, "file_format": "pt"}
json.dump({"task": task, "level": "mix", "dump_path": root, task: section}, open(root + ".json", "w"))
debugger = PrecisionDebugger(root + ".json")
x = torch.arange(20).reshape(4, 5) % 11
for _ in range(2):
    debugger.start(net)
    net(x).backward()
    debugger.stop()
    debugger.step()
"""


def collect(root: Path, kind: str, changed: str) -> Path:
    """The dump_path of a training of two steps, run in a process of its own."""
    mode = "md5" if kind == "md5" else "statistics"
    command = [sys.executable, "-c", TRAINING, str(root), KINDS[kind], mode, changed]
    subprocess.run(command, cwd=root.parent, env=clean_environment(), check=True, capture_output=True)
    return root


def compared(tool: OtherTool, target: Path, golden: Path, output: Path) -> list[Row]:
    """The rows of `compare` on the first steps; none where it wrote no table."""
    output.mkdir()
    if tool.is_old:
        sides = {"npu_path": target / "step0/rank/dump.json", "bench_path": golden / "step0/rank/dump.json"}
        _run(tool, "compare", _request(output, sides, target / "step0/rank/stack.json"), output)
    else:
        steps = ["-tp", str(target / "step0"), "-gp", str(golden / "step0"), "-o", str(output)]
        _execute([str(tool.folder / "bin/msprobe"), "compare", *steps], output)
    tables = sorted([*output.glob("compare_result*.xlsx"), *output.glob("compare_result*.csv")])
    return read_table(tables[0]) if tables else []


def drawn(tool: OtherTool, target: Path, golden: Path, output: Path) -> list[tuple[str, bool]]:
    """The nodes of calls that `graph` drew of all steps of the target, and whether each has a counterpart."""
    output.mkdir()
    if tool.is_old:
        _run(tool, "graph", _request(output, {"npu_path": target, "bench_path": golden}), output)
        graphs = [json.loads(file.read_text()) for file in output.glob("*.vis")]
        nodes = [node for graph in graphs for node in graph["NPU"]["node"].values()]
        return [(node["id"], bool(node["matched_node_link"])) for node in nodes if node["upnode"]]
    paths = ["-tp", str(target), "-gp", str(golden), "-o", str(output)]
    _execute([str(tool.folder / "bin/msprobe"), "graph_visualize", *paths], output)
    for file in output.glob("*.vis.db"):
        query = "select node_name, matched_node_link from tb_nodes where data_source = 'NPU' and up_node != ''"
        with sqlite3.connect(file) as database:
            return [(name, link not in ("", "[]", None)) for name, link in database.execute(query)]
    return []


def _request(output: Path, sides: dict[str, Path], stack: Path | None = None) -> Path:
    file = output.parent / f"{output.name}.json"
    more = {} if stack is None else {"stack_path": str(stack)}
    file.write_text(
        json.dumps({**{key: str(side) for key, side in sides.items()}, **more, "is_print_compare_log": False})
    )
    return file


def _run(tool: OtherTool, verb: str, request: Path, output: Path) -> None:
    _execute([str(tool.folder / "bin/msprobe"), "-f", "pytorch", verb, "-i", str(request), "-o", str(output)], output)


def _execute(command: list[str], output: Path) -> None:
    done = subprocess.run(command, cwd=output.parent, env=clean_environment(), capture_output=True, text=True)
    (output.parent / f"{output.name}.log").write_text(done.stdout + done.stderr)


def judged(row: Row) -> str:
    """Return the result of a row, from whichever column the version has."""
    if "Accuracy Reached or Not" in row:
        return str(row["Accuracy Reached or Not"])
    return str(row.get("Result") or "")


def is_equal(row: Row) -> bool:
    """Whether a row of two equal records shows no difference."""
    differences = [row[name] for name in ("Max diff", "Mean diff", "MaxAbsErr") if name in row]
    return judged(row) in ("pass", "Yes", "", "None") and all(
        str(each) in ("0", "0.0", "None", "N/A", "", "unsupported") for each in differences
    )


def is_measured(row: Row) -> bool:
    """Whether the row's measures were computed from two files."""
    try:
        return float(str(row["MaxAbsErr"])) >= 0
    except (KeyError, ValueError):
        return False


def complaints(kind: str, dump: Path, equal: list[Row], changed: list[Row]) -> Iterator[str]:
    """Return what the tables of an equal and of a changed pair should show and do not."""
    records = [record for call in read(dump / "step0").calls for record in call.records]
    for name, rows in (("equal", equal), ("changed", changed)):
        lacking = {record.name for record in records} ^ {str(row["NPU Name"]) for row in rows}
        if lacking:
            yield f"{name}: {len(lacking)} records and rows without each other, such as {sorted(lacking)[0]}"
        files, measured = sum(bool(record.file) for record in records), sum(map(is_measured, rows))
        if kind == "tensor" and (files == 0 or measured < files):
            yield f"{name}: {measured} rows measured of {files} files"
    yield from (f"equal: {row['NPU Name']} differs: {row}" for row in equal if not is_equal(row))
    weight = next(
        (row for row in changed if str(row["NPU Name"]).endswith("fc1.Linear.forward.0.parameters.weight")), {}
    )
    shown = {
        "statistics": lambda: float(str(weight["Max diff"])) > 0,
        "md5": lambda: judged(weight) not in ("pass", "Yes"),
        "tensor": lambda: abs(float(str(weight["MaxAbsErr"])) - 0.5) < 1e-6,
    }[kind]
    if not weight or not shown():
        yield f"changed: the weight's row does not show the change: {weight}"


def main() -> int:
    """Print one line for each version and kind of dump."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--versions", nargs="+", default=VERSIONS, help="of mindstudio-probe, from the package index")
    parser.add_argument("--keep", type=Path, help="write dumps and tables here and leave them")
    parser.add_argument("--environments", type=Path, default=ENVIRONMENTS, help="where the other tool is installed")
    args = parser.parse_args()
    tools = [install(version, args.environments, NEEDS) for version in args.versions]
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        root = (args.keep or Path(scratch)).absolute()
        root.mkdir(parents=True, exist_ok=True)
        for kind in KINDS:
            one, same, other = (collect(root / f"{kind}_{name}", kind, name) for name in ("golden", "same", "changed"))
            for tool in tools:
                place = f"{kind}_{tool.version}"
                tables = [compared(tool, side, one, root / f"{place}_{side.name}") for side in (same, other)]
                nodes = drawn(tool, other, one, root / f"{place}_graph")
                found = list(complaints(kind, other, *tables))
                calls = sum(len(read(other / step).calls) for step in ("step0", "step1"))
                if len(nodes) < calls or not all(is_matched for _, is_matched in nodes):
                    unmatched = [name for name, is_matched in nodes if not is_matched]
                    found.append(f"graph: {len(nodes)} nodes of {calls} calls, without counterpart {unmatched[:3]}")
                verdicts = [dict(Counter(map(judged, table))) for table in tables]
                measured = f", {sum(map(is_measured, tables[1]))} measured from .pt files" if kind == "tensor" else ""
                print(f"== {tool.version}: {kind}: {len(tables[1])} rows{measured}; {len(nodes)} nodes in two steps")
                print(f"   equal {verdicts[0]}, changed {verdicts[1]}")
                print("\n".join(f"   NOT SO: {line}" for line in found[:10]) or "   as it should be", flush=True)
                wrong += bool(found)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
