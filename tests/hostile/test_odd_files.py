"""Odd files in every place where a command reads one: it ends, soon, with its own exit code and without a traceback.

The commands run in this process, where whatever is not caught fails the test by itself; an alarm ends one that waits.
"""

import json
import os
import shutil
import signal
import socket
import zipfile

import numpy as np
import pytest

from msprobe.cli import main
from msprobe.store.saves.single_saves import Place, write
from msprobe.store.writer import Writer

pytestmark = [pytest.mark.slow, pytest.mark.part(2)]

SECONDS, WAITING = 5, 60
"""Of the processor, which does not depend on what else runs, and of the clock, for a pipe that nobody writes to."""

NAME = "Functional.relu.0.forward"
TENSOR = f"{NAME}.input.0.npy"
RULES = {
    "am": "- ms_api: mint.add\n  pt_api: torch.add\n  ms_args: [0, 1]\n  pt_args: [0, 1]\n",
    "cm": "Cell.a.A: Cell.a.A\n",
    "lm": "A:\n  a: a\n",
    "dm": f"{NAME}.input.0: {NAME}.input.0\n",
    "names": "w: w\n",
}
HEADINGS = (
    "NPU Name,Bench Name,NPU Dtype,Bench Dtype,NPU Tensor Shape,Bench Tensor Shape,Max diff,Min diff,Mean diff,"
    "L2norm diff,MaxRelativeErr,MinRelativeErr,MeanRelativeErr,NormRelativeErr,NPU max,NPU min,NPU mean,NPU l2norm,"
    "Bench max,Bench min,Bench mean,Bench l2norm,Result,Err_message\n"
)
ROW = "Mint.add.0.forward.input.0,Mint.add.0.forward.input.0,a,a,[2],[2],0,0,0,0,0%,0%,0%,0%,1,1,1,1,1,1,1,1,pass,\n"


class Late(BaseException):
    """The alarm; nothing that catches errors catches it."""


def sock(path):
    here = os.getcwd()
    os.chdir(path.parent)  # the path of a socket has 108 bytes at most
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def sparse(path):
    path.touch()
    os.truncate(path, 1 << 42)


# Nothing of these is ever read.
NO_FILES = {
    "a pipe": os.mkfifo,
    "a socket": sock,
    "a symbolic link to /dev/zero": lambda path: path.symlink_to("/dev/zero"),
    "a symbolic link to /dev/tty": lambda path: path.symlink_to("/dev/tty"),
    "a link to a pipe": lambda path: (os.mkfifo(path.with_name("the pipe")), path.symlink_to("the pipe")),
    "a folder": lambda path: path.mkdir(),
    "a symbolic link to itself": lambda path: path.symlink_to(path.name),
    "a symbolic link to nothing": lambda path: path.symlink_to("nothing"),
}
ODD = {
    **NO_FILES,
    "a file of 4 TiB without content": sparse,
    "empty": lambda path: path.touch(),
    "bytes": lambda path: path.write_bytes(bytes(range(256)) * 5),
    "NUL": lambda path: path.write_bytes(b"\0" * 1000),
    "a list": lambda path: path.write_text("[1, 2]"),
    "a number": lambda path: path.write_text("7"),
    "null": lambda path: path.write_text("null"),
    "NaN": lambda path: path.write_text("NaN"),
    "an empty object": lambda path: path.write_text("{}"),
    "an object of lists": lambda path: path.write_text('{"data": [], "npu_path": [], "api": {}, "__metadata__": []}'),
    "nested too deeply": lambda path: path.write_text("[" * 100_000),
    "objects without end": lambda path: path.write_text('{"data":' * 100_000),
    "a key twice": lambda path: path.write_text('{"task": "tensor", "task": "tensor", "data": {}, "data": {}}'),
    "UTF-16": lambda path: path.write_text('{"data": {}}', "utf-16"),
    "Latin-1": lambda path: path.write_text('{"d\xe4ta": {}}', "latin-1"),
    "a byte order mark": lambda path: path.write_text('\ufeff{"data": {}}', "utf-8"),
    "a gigantic number": lambda path: path.write_text('{"data": {}, "format_version": ' + "9" * 10_000 + "}"),
    "an enormous float": lambda path: path.write_text('{"data": {}, "format_version": 1e999}'),
    "one long line": lambda path: path.write_text("a" * 1_000_000),
    "yaml that grows": lambda path: path.write_text(
        "a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
        + "".join(f"a{n + 1}: &a{n + 1} [{','.join([f'*a{n}'] * 9)}]\n" for n in range(20))
    ),
    "the head of an npy": lambda path: path.write_bytes(b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran"),
    "the head of an archive": lambda path: path.write_bytes(b"PK\x03\x04" + bytes(60)),
    "a number of lengths": lambda path: path.write_bytes(b"\xff" * 7 + b"\x7f" + bytes(100)),
}


def spoiled(path, odd, whole):
    """The odd file in the place of a whole one; `whole` are its bytes, of which one kind is a part."""
    for left in (path, path.with_name("the pipe")):
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left)
        else:
            left.unlink(missing_ok=True)
    if odd == "cut":
        path.write_bytes(whole[: len(whole) // 2])
    elif odd is None:
        path.write_bytes(whole)
    else:
        ODD[odd](path)


def dump(folder):
    writer = Writer(folder, {"task": "tensor", "level": "mix", "framework": "mindspore"})
    writer.tensor(TENSOR, np.arange(6, dtype=np.float32).reshape(2, 3))
    leaf = {"type": "mindspore.Tensor", "dtype": "Float32", "shape": [2, 3]}
    leaf |= {"Max": 5.0, "Min": 0.0, "Mean": 2.5, "Norm": 7.4, "data_name": TENSOR}
    entry = json.dumps({"input_args": [leaf], "output": [None]}, separators=(",", ":"))
    writer.call(NAME, "Cell.a.A.forward.0", writer.stack(["File a.py, line 1, in f, \n x"]), entry)
    writer.close()
    return folder


def safetensors(path):
    header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    return path


def kernels(folder):
    """One kernel of one graph, as the framework dumps it, with everything that lies beside."""
    own = folder / "rank_0" / "Net" / "0" / "0"
    own.mkdir(parents=True)
    np.save(own / "MatMul.Default_MatMul-op0.0.0.100.output.0.DefaultFormat.float32.npy", np.ones((2, 3), np.float32))
    (own / "statistic.csv").write_text(
        "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape,Max Value\n"
        'MatMul,Default_MatMul-op0,0,0,100,output,0,24,Float32,"(2,3)",1\n'
    )
    (own / "mapping.csv").write_text("a.npy,b.npy\n")
    for name, text in {
        "execution_order/ms_execution_order_graph_0.csv": "FullNameWithScope\nDefault/MatMul-op0\n",
        "graphs/ms_output_trace_code_graph_0.ir": "subgraph @g() {\n  %0(a) = MatMul(%9)\n"
        "      # Fullname with scope: (Default/MatMul-op0)\n}\n",
        ".dump_metadata/data_dump.json": json.dumps({"common_dump_settings": {"dump_mode": 0}}),
        ".dump_metadata/config.json": json.dumps({"ms_version": "2.10"}),
    }.items():
        (folder / "rank_0" / name).parent.mkdir(exist_ok=True)
        (folder / "rank_0" / name).write_text(text)
    return folder


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Something whole for each command, target and golden."""
    root = tmp_path_factory.mktemp("world")
    for side in ("target", "golden"):
        dump(root / side / "step0" / "rank0")
        safetensors(root / f"{side}.safetensors")
        (root / f"{side}-sharded").mkdir()
        safetensors(root / f"{side}-sharded" / "model-00001-of-00001.safetensors")
        index = {"weight_map": {"w": "model-00001-of-00001.safetensors"}}
        (root / f"{side}-sharded" / "model.safetensors.index.json").write_text(json.dumps(index))
        (root / f"{side}.ckpt").write_bytes(
            bytes((10, 26, 10, 1, 119, 18, 21, 8, 2, 18, 7)) + b"Float32" + bytes((26, 8)) + bytes(8)
        )
        (root / f"{side}.pt").write_bytes(b"PK\x03\x04")
        with zipfile.ZipFile(root / f"{side}-pack.zip", "w") as pack:
            pack.writestr("env", "{}")
        (root / f"{side}-megatron" / "iter_0000001" / "mp_rank_00").mkdir(parents=True)
        (root / f"{side}-megatron" / "latest_checkpointed_iteration.txt").write_text("1")
        (root / f"{side}-npy").mkdir()
        np.save(root / f"{side}-npy" / "x.npy", np.ones(3))
        kernels(root / f"{side}-kernels")
        flow = root / f"{side}-flow"
        write(flow, Place("prompts", 0, 0, 0), np.ones((2, 3), np.float32))
        (flow / "configurations.json").write_text('{"a": 1}')
        saves = root / f"{side}-saves"
        saves.mkdir()
        np.save(saves / "x_float32_0.npy", np.ones(3, np.float32))
        line = {"name": "x", "count": 1, "id": 0, "type": "mindspore.Tensor", "data_name": "x_float32_0.npy"}
        (saves / "save.jsonl").write_text(json.dumps(line) + "\n")
    (root / "tables").mkdir()
    for rank in (0, 1):
        (root / "tables" / f"compare_result_rank{rank}_20260101000000.csv").write_text(HEADINGS + ROW)
    (root / "train.sh").write_text("msrun train.py --lr 0.1")
    (root / "train.yaml").write_text("lr: 0.1")
    (root / "choice.yaml").write_text("api:\n- Mint.add\n")
    (root / "compare.json").write_text(json.dumps({"npu_path": f"{root}/target", "bench_path": f"{root}/golden"}))
    stack = {"stack_path": f"{root}/target/step0/rank0/stack.json", "is_print_compare_log": False}
    (root / "with-stack.json").write_text(json.dumps({**json.loads((root / "compare.json").read_text()), **stack}))
    for option in RULES:
        (root / f"{option}.yaml").write_text(RULES[option])
    np.savez(root / "both.npz", generated=-np.ones((2, 3)), recomputed=-np.ones((2, 3)), lengths=np.array([3, 3]))
    np.save(root / "lengths.npy", np.array([3, 3]))
    for side in ("generated", "recomputed"):
        np.save(root / f"{side}.npy", -np.ones((2, 3)))
    shutil.copy(root / "target-kernels/rank_0/graphs/ms_output_trace_code_graph_0.ir", root / "graph.ir")
    return root


# Of these any file of a dump may be one.
OBJECTS = ("an empty object", "an object of lists", "a key twice", "a byte order mark", "an enormous float")
RANK = "target/step0/rank0"
SIDES = "compare -tp target -gp golden -o OUT --format csv"
OF_RUN = "target-flow/data/prompts/step0/rank0"
CASES = {
    # what is asked for by name: exit code 2 where it is no file
    "compare.json": ("compare -i compare.json -o OUT --format csv", True),
    "target/step0/rank0/dump.json": ("compare -tp target/step0/rank0/dump.json -gp golden -o OUT --format csv", True),
    "am.yaml": (f"{SIDES} -am am.yaml", True),
    "cm.yaml": (f"{SIDES} -cm cm.yaml", True),
    "lm.yaml": (f"{SIDES} -lm lm.yaml", True),
    "dm.yaml": (f"{SIDES} -dm dm.yaml", True),
    "target/step0/rank0/stack.json": ("compare -i with-stack.json -o OUT --format csv", True),
    "choice.yaml": ("merge-result -i tables -o OUT -config choice.yaml", True),
    "target.safetensors": ("config-check -c target.safetensors golden.safetensors -o OUT/x.json", True),
    "target.ckpt": ("config-check -c target.ckpt golden.ckpt -o OUT/x.json", True),
    "target.pt": ("config-check -c target.pt golden.pt -o OUT/x.json", True),
    "names.yaml": ("config-check -c target.ckpt golden.ckpt -o OUT/x.json -dm names.yaml", True),
    "target-pack.zip": ("config-check -c target-pack.zip golden-pack.zip -o OUT", True),
    "golden-pack.zip": ("config-check -c target-pack.zip golden-pack.zip -o OUT", True),
    "train.sh": ("config-check -d train.sh -o OUT/pack.zip", True),
    "train.yaml": ("config-check -d train.yaml -o OUT/pack.zip", True),
    "target-sharded/model.safetensors.index.json": (
        "config-check -c target-sharded golden-sharded -o OUT/x.json",
        False,
    ),
    "target-sharded/model-00001-of-00001.safetensors": (
        "config-check -c target-sharded golden-sharded -o OUT/x.json",
        True,
    ),
    "target-megatron/latest_checkpointed_iteration.txt": (
        "config-check -c target-megatron golden-megatron -o OUT/x.json",
        False,
    ),
    "both.npz": ("rollout-check both.npz -o OUT", True),
    "generated.npy": (
        "rollout-check --generated generated.npy --recomputed recomputed.npy --lengths lengths.npy -o OUT",
        True,
    ),
    "graph.ir": ("code-mapping --ir graph.ir --dump_data target-kernels --output OUT", True),
    "target/step0/rank0/dump.json ": ("mapping suggest target/step0 golden/step0 -o OUT/m.yaml", False),
    # what lies in a folder that is asked for
    "target/step0/rank0/dump.json  ": (SIDES, False),
    "target/step0/rank0/stack.json ": (SIDES, False),
    "target/step0/rank0/construct.json": (SIDES, False),
    f"target/step0/rank0/dump_tensor_data/{TENSOR}": (SIDES, False),
    "tables/compare_result_rank1_20260101000000.csv": ("merge-result -i tables -o OUT -config choice.yaml", False),
    "tables/compare_result_rank1_20260101000000.xlsx": ("merge-result -i tables -o OUT -config choice.yaml", False),
    "target-npy/x.npy": ("compare -tp target-npy -gp golden-npy -o OUT --format csv", False),
    "target-flow/configurations.json": ("compare -tp target-flow -gp golden-flow -o OUT --format csv", False),
    f"{OF_RUN}/prompts.npy": ("compare -tp target-flow -gp golden-flow -o OUT --format csv", False),
    f"{OF_RUN}/prompts.json": ("compare -tp target-flow -gp golden-flow -o OUT --format csv", False),
    "target-saves/save.jsonl": ("compare -tp target-saves -gp golden-saves -o OUT --format csv", False),
    "target-saves/x_float32_0.npy": ("compare -tp target-saves -gp golden-saves -o OUT --format csv", False),
    "doctor/dump.json": (f"doctor {RANK}", False),
    "doctor/debug.json": (f"doctor {RANK}", False),
    "doctor/stack.json": (f"doctor {RANK}", False),
    "doctor/construct.json": (f"doctor {RANK}", False),
    "doctor/dump.journal": (f"doctor {RANK}", False),
    f"doctor/dump_tensor_data/{TENSOR}": (f"doctor {RANK}", False),
    "doctor/dump_tensor_data": (f"doctor {RANK}", False),
}
for place in (
    "Net/0/0/MatMul.Default_MatMul-op0.0.0.100.output.0.DefaultFormat.float32.npy",
    "Net/0/0/statistic.csv",
    "Net/0/0/mapping.csv",
    "execution_order/ms_execution_order_graph_0.csv",
    "graphs/ms_output_trace_code_graph_0.ir",
    ".dump_metadata/data_dump.json",
    ".dump_metadata/config.json",
):
    CASES[f"target-kernels/rank_0/{place}"] = ("gather target-kernels -o OUT", False)
    CASES[f"target-kernels/rank_0/{place} "] = (
        "compare -tp target-kernels -gp golden-kernels -o OUT --format csv",
        False,
    )
    CASES[f"target-kernels/rank_0/{place}  "] = (
        "code-mapping --ir graph.ir --dump_data target-kernels --output OUT",
        False,
    )


@pytest.fixture
def in_time():
    def ring(*_):
        raise Late(f"no answer in {SECONDS} s of work, or in {WAITING} s")

    def limit(work, clock):
        signal.setitimer(signal.ITIMER_PROF, work)
        signal.alarm(clock)

    before = {number: signal.signal(number, ring) for number in (signal.SIGALRM, signal.SIGPROF)}
    yield limit
    limit(0, 0)
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.sample(20)
@pytest.mark.parametrize("place", CASES, ids=lambda place: f"{CASES[place][0].split()[0]}-{place}")
def test_an_odd_file_is_no_end_of_the_world(place, world, tmp_path, monkeypatch, capsys, in_time):
    command, is_named = CASES[place]
    monkeypatch.chdir(world)
    path = world / place.strip().replace("doctor/", f"{RANK}/")
    kept = tmp_path / "kept"
    whole = path.read_bytes() if path.is_file() else None
    if path.exists():
        shutil.move(path, kept)
    journals = {RANK: (world / RANK / "dump.json").read_bytes()} if "journal" in place else {}
    wrong = {}
    for number, odd in enumerate((None, "cut", *ODD)):
        if odd in (None, "cut") and whole is None:
            continue
        spoiled(path, odd, whole)
        out = tmp_path / str(number)
        out.mkdir()
        in_time(SECONDS, WAITING)
        try:
            code = main([word.replace("OUT", str(out)) for word in command.split()])
        except SystemExit as end:
            code = end.code
        except (Exception, Late) as end:
            code = repr(end)
        in_time(0, 0)
        captured = capsys.readouterr()
        is_no_file = odd in NO_FILES
        problem = complaint(command.split()[0], code, captured, path, is_named and is_no_file, is_whole(path, odd))
        if odd is None and code == 2 and "pt" not in path.suffix and "megatron" not in place:  # without torch
            problem = "the whole one is refused"
        if problem:
            wrong[odd] = f"{problem}: {code} {captured.err[-600:]} {captured.out[-600:]}"
    if kept.is_dir():
        spoil_away(path)
        shutil.move(kept, path)
    elif whole is not None:
        spoiled(path, None, whole)
    else:
        spoil_away(path)
    for folder, text in journals.items():
        (world / folder / "dump.json").write_bytes(text)
    assert not wrong


def spoil_away(path):
    for left in (path, path.with_name("the pipe")):
        if left.is_symlink() or not left.is_dir():
            left.unlink(missing_ok=True)
        else:
            shutil.rmtree(left)


def is_whole(path, odd):
    """Whether a dump is a whole one in spite of this file."""
    if path.name == "debug.json":  # that beside a dump.json is not looked at
        return True
    if path.name == "dump.journal":  # an empty one is of a process that died before its first line
        return odd == "empty"
    return odd is None or (path.suffix == ".json" and odd in OBJECTS)


def complaint(verb, code, output, path, must_refuse, is_whole):
    """What is wrong with an answer; None where nothing is."""
    log = [line for line in output.err.splitlines() if not line.startswith(("msprobe INFO", "msprobe WARNING"))]
    if code not in (0, 1, 2):
        return "an exit code of no command"
    if must_refuse and code != 2:
        return "not refused"
    if code == 2 and (log or must_refuse or not output.out):  # without a line of the log, nothing could be judged
        if len(log) != 1 or not log[0].startswith(f"msprobe {verb}: "):
            return "not one line"
        if must_refuse and path.name not in log[0]:
            return "does not name the file"
        return None
    if log:
        return "more was said"
    if verb == "doctor" and code == 0 and not is_whole:
        return "called whole"
    return None if output.out else "no answer"
