"""`--json`: every command that judges or writes prints one document of the published schema.

Each test makes its inputs by hand and asserts what follows from them.
"""

import importlib.util
import json
import shutil
from importlib import import_module
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from dense_training import Fault, train
from dense_training import write as write_monitor
from story import Rank, value
from story import write as write_story
from three_cells import HEAD, NORM, Run

from msprobe.cli import VERBS, main
from msprobe.findings.document import SCHEMA_FILE
from msprobe.options.declaration import declared

pytestmark = [pytest.mark.slow, pytest.mark.part(3)]

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "tests/samples"
SCHEMA = json.loads(SCHEMA_FILE.read_text("utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)

WITHOUT_JSON = {
    "completion": "it prints a shell script",
    "mcp": "a server, whose answers are these documents",
    "explain": "it prints a text",
    "graph": "the older form of graph-visualize, as msprobe 8.1 has it",
}
"""Commands without --json, and why."""


@pytest.fixture
def ask(capsys):
    """`ask(code, *words)`: run a command with --json, which has this exit code, and return its document."""

    def run(code, *words):
        capsys.readouterr()
        assert main([*map(str, words), "--json"]) == code
        document = json.loads(capsys.readouterr().out)
        VALIDATOR.validate(document)
        assert document["exit_code"] == code
        assert document["command"] in (words[0], " ".join(map(str, words[:2])))
        judged = document["judged"]
        assert sum(each["number"] for each in document["not_judged"]) == judged["unjudged"]
        assert (document["state"] == "differs") >= document["first_is_cause"]
        return document

    return run


@pytest.fixture
def last_line(capsys):
    """`last_line(*words)`: the last line of a command without --json."""

    def run(*words):
        capsys.readouterr()
        main(list(map(str, words)))
        return capsys.readouterr().out.splitlines()[-1]

    return run


def first(document):
    """Code, name, step and rank of the first finding."""
    finding = document["findings"][0]
    return finding["code"], finding["place"]["name"], finding["place"]["step"], finding["place"]["rank"]


@pytest.fixture
def runs(tmp_path):
    """Two runs of two steps; in step 1 the norm of the target computes something else."""
    for side in ("target", "golden"):
        run = Run(tmp_path / side)
        run.step(0)
        run.step(1, wrong={NORM: 0.5} if side == "target" else None)
    return tmp_path / "target", tmp_path / "golden"


def test_the_schema_is_valid_and_closed_in_its_states():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert set(SCHEMA["required"]) == set(SCHEMA["properties"])
    assert SCHEMA["properties"]["state"]["enum"] == ["differs", "clean", "unjudged", "shown", "failed"]


def has_json(verb):
    return "json" in declared(import_module(VERBS[verb].module).Options)


def test_every_command_has_json_but_those_that_are_listed():
    missing = {verb for verb in VERBS if not has_json(verb)}
    assert missing == set(WITHOUT_JSON), "subscribe to JsonAnswer, or say why not"


def test_compare(ask, runs, tmp_path):
    found = ask(1, "compare", *runs, "-o", tmp_path / "out")
    assert first(found) == ("MSP101", f"Cell.{NORM}.forward.0", 1, 0)
    assert found["state"] == "differs"
    assert all(Path(table).exists() for table in found["files"]["tables"])


def tensor_of(value):
    """The entry of a float32 scalar."""
    statistics = {"Max": value, "Min": value, "Mean": value, "Norm": value}
    return {"type": "mindspore.Tensor", "dtype": "Float32", "shape": [], **statistics}


def test_gate(ask, tmp_path):
    golden, runs = tmp_path / "base.golden", Path(__file__).parents[1] / "gate" / "runs"
    found = ask(0, "gate", "record", "--golden", golden, "--target", runs / "base")
    assert found["files"] == {"golden": str(golden)}
    words = ["--golden", golden, "--target", runs / "eps"]
    found = ask(1, "gate", "check", *words)
    assert first(found) == ("MSP103", "Functional.layer_norm.0.forward", 0, 0)
    assert ask(3, "gate", "check", "--golden", golden, "--target", runs / "still")["findings"][0]["code"] == "MSP862"
    found = ask(0, "gate", "accept", *words, "--all", "--reason", "why")
    assert found["details"]["accepted"][0]["reason"] == "why"
    assert ask(0, "gate", "show", golden)["details"]["accepted"] == found["details"]["accepted"]


def test_report(ask, runs, tmp_path):
    page = tmp_path / "page.html"
    found = ask(1, "report", *runs, "-o", page)
    assert first(found) == ("MSP101", f"Cell.{NORM}.forward.0", 1, 0)
    assert found["files"] == {"page": str(page)}
    assert page.exists()
    assert found["details"] == {"shown": "compare", "target": str(runs[0]), "golden": str(runs[1])}
    assert found["judged"] == ask(1, "compare", *runs, "-o", tmp_path / "out")["judged"]


def test_report_of_one_dump(ask, runs, tmp_path):
    found = ask(0, "report", runs[0] / "step0", "-o", tmp_path / "page.html")
    assert found["state"] == "shown"
    assert not found["findings"]
    assert found["details"] == {"shown": "dump", "target": str(runs[0] / "step0"), "golden": None}
    assert found["judged"] == {"fine": 1, "wrong": 0, "unjudged": 0}


def test_findings_that_are_not_listed_are_counted(ask, tmp_path):
    for side, result in (("target", 2.0), ("golden", 1.0)):
        folder = tmp_path / side / "step0/rank0"
        folder.mkdir(parents=True)
        calls = {
            f"Functional.add.{number}.forward": {
                "input_args": [tensor_of(float(number))],
                "input_kwargs": {},
                "output": [tensor_of(1000 + 10 * number + result)],
            }
            for number in range(30)
        }
        head = {"task": "statistics", "level": "L1", "framework": "mindspore", "dump_data_dir": None}
        (folder / "dump.json").write_text(json.dumps(head | {"data": calls}))
    found = ask(1, "compare", tmp_path / "target", tmp_path / "golden", "-o", tmp_path / "out")
    assert (len(found["findings"]) + len(found["harmless"]), found["omitted"]) == (10, 20)


def test_diagnose(ask, last_line, runs):
    found = ask(1, "diagnose", *runs)
    assert first(found) == ("MSP101", f"Cell.{NORM}.forward.0", 1, 0)
    assert found["findings"][0]["place"]["file"] == "/train/net.py"
    assert found["first_is_cause"]
    assert found["details"]["next_collection"]["purpose"] == "inside_cell"
    ask(0, "diagnose", runs[1], runs[1])
    assert ask(0, "diagnose", *runs, "--exit-zero")["state"] == "differs"


def test_a_command_that_cannot_be_carried_out(ask, tmp_path):
    found = ask(2, "diagnose", tmp_path / "nowhere", tmp_path)
    assert (found["state"], found["findings"]) == ("failed", [])
    assert "nowhere" in found["answer"]


def test_overflow_check(ask, last_line, tmp_path):
    call = "Torch.exp.0.forward"
    wrong = Rank().call(call, [1, value(2)], ["3 inf"], parent="Module.a.A.forward.0", line=4)
    run = write_story(tmp_path / "run", {0: Rank().call(call, [1], [2]), 1: wrong}, framework="pytorch")
    words = ["overflow-check", run, "-o", tmp_path / "out"]
    found = ask(1, *words)
    assert first(found) == ("MSP201", call, 0, 1)
    finding = found["findings"][0]
    assert [finding["place"][name] for name in ("cell", "record", "line")] == ["a", "output.0", 4]
    assert finding["fields"]["non_finite_outputs"][0]["inf"] == 3
    assert Path(found["files"]["calls"]).exists()
    assert found["answer"] == last_line(*words)


def test_check(ask, last_line, tmp_path):
    """The weight has no gradient, and the bias, as all others, has one."""
    rank = Rank().call("Module.fc.Linear.forward.0", [3], [1], parameters={"weight": 1, "bias": 4})
    rank.gradients("Module.fc.Linear.parameters_grad", bias=5)
    write_story(tmp_path / "run", {0: rank})
    found = ask(1, "check", tmp_path / "run")
    assert first(found) == ("MSP305", "fc.weight", 0, 0)
    assert found["judged"]["wrong"] == len(found["findings"]) == 1
    assert found["answer"] == last_line("check", tmp_path / "run")
    ask(2, "check", tmp_path / "run", "--skip", "gradients")


def test_monitor_compare(ask, last_line, tmp_path):
    write_monitor(train(), tmp_path / "golden")
    write_monitor(train(Fault("clip", 41, rank=1)), tmp_path / "clipped")
    sides = [tmp_path / "clipped", tmp_path / "golden"]
    found = ask(1, "monitor", "compare", *sides, "-o", tmp_path / "out")
    code, _, step, rank = first(found)
    assert (code, step, rank) == ("MSP406", 41, 1)
    assert found["findings"][0]["fields"]["factor"] == pytest.approx(0.5, rel=1e-4)
    assert json.loads(Path(found["files"]["document"]).read_text()) == found
    assert json.loads(found["suggestions"][0]["configuration"])["step"] == [41]
    assert found["answer"] == last_line("monitor", "compare", *sides)
    assert ask(0, "monitor", "compare", sides[1], sides[1])["state"] == "clean"


def test_monitor_anomalies(ask, last_line, tmp_path):
    for rank, step in ((0, 7), (1, 3)):
        folder = tmp_path / "anomaly_detected" / f"rank{rank}"
        folder.mkdir(parents=True)
        entry = {"rank": rank, "step": step, "micro_step": 0, "pp_stage": 0, "vpp_stage": 0, "call_id": 1}
        entry |= {"tag_name": f"0:fc.weight/rank{rank}/grad_reduced", "message": f"at step {step}", "group_mates": [0]}
        (folder / "anomaly.json").write_text(json.dumps({"key": entry}))
    found = ask(1, "monitor", "anomalies", "-d", tmp_path)
    assert first(found) == ("MSP410", "0:fc.weight/rank1/grad_reduced", 3, 1)
    assert len(found["findings"]) == found["judged"]["wrong"] == 2
    assert found["answer"] == last_line("monitor", "anomalies", "-d", tmp_path)


def test_doctor_of_a_training(ask, last_line, tmp_path):
    """This task collects at level L1 what is called in graphs, where nothing calls an API from Python."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"task": "statistics", "level": "mix", "dump_path": str(tmp_path / "dump")}))
    words = ["doctor", "--config", config, "--mode", "graph", "--framework", "mindspore", "--device", "CPU"]
    found = ask(1, *words)
    (wrong,) = [one for one in found["findings"] if one["fields"]["part"] == "configuration"]
    assert (wrong["code"], wrong["fields"]["value"], wrong["fields"]["expected"]) == ("MSP818", '"mix"', '"L0"')
    assert found["answer"] == last_line(*words)
    assert not any(one["severity"] == "note" for one in found["findings"])


def test_doctor_of_a_dump(ask, last_line, tmp_path):
    """A record names a tensor that is not there."""
    folder = tmp_path / "step0" / "rank0"
    folder.mkdir(parents=True)
    record = {"type": "mindspore.Tensor", "dtype": "Float32", "shape": [3], "data_name": "gone.npy"}
    header = {"task": "tensor", "level": "L1", "framework": "mindspore", "dump_data_dir": None}
    data = {"Mint.add.0.forward": {"input_args": [], "input_kwargs": {}, "output": [record]}}
    (folder / "dump.json").write_text(json.dumps({**header, "data": data}))
    found = ask(1, "doctor", tmp_path)
    assert first(found) == ("MSP836", str(folder), None, None)
    assert found["details"]["folders"][0]["done"] == "whole"
    assert found["answer"] == last_line("doctor", tmp_path)
    np.save(folder / "gone.npy", np.zeros(3, np.float32))
    (folder / "dump_tensor_data").mkdir()
    shutil.move(folder / "gone.npy", folder / "dump_tensor_data" / "gone.npy")
    assert ask(0, "doctor", tmp_path)["state"] == "clean"


def test_config_check_of_packs(ask, last_line, tmp_path):
    scripts = []
    for name, rate in (("bench", 0.1), ("cmp", 0.2)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.yaml").write_text(f"lr: {rate}\n")
        scripts.append(tmp_path / name / "train.yaml")
    packs = [tmp_path / "bench.zip", tmp_path / "cmp.zip"]
    for script, pack in zip(scripts, packs, strict=True):
        made = ask(0, "config-check", "-d", script, "-o", pack)
        assert (made["state"], made["files"]) == ("shown", {"pack": str(pack)})
    found = ask(1, "config-check", "-c", *packs, "-o", tmp_path / "result")
    assert first(found)[:2] == ("MSP601", "lr")
    assert "0.1 | 0.2" in found["findings"][0]["message"].replace("lr: ", "")
    assert Path(found["files"]["table"]).exists()
    assert found["answer"] == last_line("config-check", "-c", *packs, "-o", tmp_path / "again")


def test_config_check_of_checkpoints(ask, tmp_path):
    checkpoint = SAMPLES / "checkpoint/net.ckpt"
    found = ask(0, "config-check", "-c", checkpoint, checkpoint, "-o", tmp_path / "same.json")
    assert (found["state"], found["counts"]["pass"]) == ("clean", 6)
    assert "6 parameters on both sides: 6 pass" in found["answer"]
    assert Path(found["files"]["parameters"]).exists()


def test_config_check_of_checkpoints_that_differ(ask, tmp_path):
    save_file = pytest.importorskip("safetensors.numpy", reason="it writes the files").save_file
    save_file({"fc.weight": np.float32([1, 2]), "fc.bias": np.float32([0])}, tmp_path / "a.safetensors")
    save_file({"fc.weight": np.float32([1, 3])}, tmp_path / "b.safetensors")
    sides = [tmp_path / "a.safetensors", tmp_path / "b.safetensors"]
    found = ask(1, "config-check", "-c", *sides, "-o", tmp_path / "answer.json")
    assert [(one["code"], one["place"]["name"]) for one in found["findings"]] == [
        ("MSP611", "fc.weight"),
        ("MSP612", "fc.bias"),
    ]
    assert (found["judged"], found["findings"][0]["fields"]["l2"]) == ({"fine": 0, "wrong": 1, "unjudged": 1}, 1)


def test_rollout_check(ask, last_line, tmp_path):
    """The second side is of a temperature of 2 and no distribution has a gap of zero: no correct run has such gaps."""
    rng = np.random.default_rng(3)
    generated = -rng.random((6, 50))
    arrays = {"generated": generated, "recomputed": generated - 3 * rng.random((6, 50)), "mask": np.ones((6, 50))}
    np.savez(tmp_path / "rollout.npz", **arrays)
    found = ask(1, "rollout-check", tmp_path / "rollout.npz", "-o", tmp_path / "out")
    assert (found["state"], found["findings"][0]["grade"]) == ("differs", "error")
    gaps = np.abs(arrays["generated"] - arrays["recomputed"])
    assert found["findings"][0]["fields"]["sample"] == gaps.mean(axis=1).argmax()
    assert found["findings"][0]["fields"]["max_absolute"] == pytest.approx(gaps[gaps.mean(axis=1).argmax()].max())
    assert json.loads(Path(found["files"]["document"]).read_text()) == found
    assert found["answer"] == last_line("rollout-check", tmp_path / "rollout.npz", "-o", tmp_path / "again")


def wrong_product(folder):
    """A dump with a product one element of which is wrong."""
    spec = importlib.util.spec_from_file_location("replay_conftest", ROOT / "tests/replay/conftest.py")
    replay = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(replay)
    x, w = (np.random.default_rng(seed).standard_normal((6, 6)).astype(np.float32) for seed in (5, 6))
    y = (x.astype(np.float64) @ w).astype(np.float32)
    y[1, 2] += 1
    dump = replay.Writer(folder, "pytorch")
    dump.forward("Torch.matmul.0.forward", [x, w], outputs=[y])
    dump.dump()
    return folder


@pytest.mark.torch
def test_acc_check_and_repro(ask, last_line, tmp_path):
    dump = wrong_product(tmp_path / "dump")
    found = ask(1, "acc-check", "--dump", dump, "-o", tmp_path)
    assert first(found)[:2] == ("MSP701", "Torch.matmul.0.forward.output.0")
    assert (found["judged"], found["counts"]["error"]) == ({"fine": 0, "wrong": 1, "unjudged": 0}, 1)
    assert found["suggestions"][0]["command"].startswith("msprobe repro Torch.matmul.0.forward ")
    assert Path(found["files"]["details"]).exists()
    made = ask(0, "repro", "Torch.matmul.0.forward", "--dump", dump, "-o", tmp_path / "script")
    assert (made["state"], made["details"]["is_wrong"]) == ("shown", True)
    assert Path(made["files"]["script"]).exists()
    assert Path(made["files"]["data"]).stat().st_size == made["details"]["bytes"]
    assert found["answer"] == last_line("acc-check", "--dump", dump, "-o", tmp_path / "again")


def test_api_precision_compare(ask, last_line, tmp_path):
    """The error of the first device is three times that of the other."""
    from msprobe.precheck.tables import DETAILS

    name = "Torch.softmax.0.forward.output.0"
    files = []
    for side, error in (("npu", 3e-3), ("gpu", 1e-3)):
        row = dict.fromkeys(DETAILS, "0") | {"API Name": name, "Tested Dtype": "float32", "Status": "pass"}
        row |= {"RMSE": str(error), "MaxRelativeErr": "0.001"}
        files.append(tmp_path / f"{side}.csv")
        files[-1].write_text("\n".join([",".join(DETAILS), ",".join(row[title] for title in DETAILS)]) + "\n")
    words = ["api-precision-compare", "--npu", files[0], "--gpu", files[1]]
    found = ask(1, *words, "-o", tmp_path / "out")
    assert first(found)[:2] == ("MSP702", name)
    assert found["findings"][0]["fields"]["ratios"]["RMSE"] == pytest.approx(3)
    assert found["answer"] == last_line(*words, "-o", tmp_path / "again")


def test_merge_result(ask, tmp_path):
    for side in ("target", "golden"):
        run = Run(tmp_path / side)
        for rank in (0, 1):
            run.step(0, rank, wrong={NORM: 0.5} if side == "target" and rank else None)
    tables = tmp_path / "tables"
    ask(1, "compare", tmp_path / "target", tmp_path / "golden", "-o", tables, "--format", "csv")
    folder = next(tables.rglob("compare_result*.csv")).parent
    (tmp_path / "merge.yaml").write_text(f"api: [Cell.{NORM}, Cell.nowhere]\n")
    found = ask(1, "merge-result", "-i", folder, "-o", tmp_path / "out", "--config", tmp_path / "merge.yaml")
    assert (found["state"], found["details"]["absent"]) == ("unjudged", ["Cell.nowhere"])
    assert found["details"]["ranks"] == [0, 1]
    assert found["not_judged"][0]["number"] == 1
    assert all(Path(table).exists() for table in found["files"]["tables"])


def test_graph_visualize(ask, runs, tmp_path):
    found = ask(0, "graph-visualize", "-tp", runs[0], "-o", tmp_path / "out")
    assert (found["state"], found["details"]["dumps"]) == ("shown", 2)
    assert all(Path(graph).exists() for graph in found["files"]["graphs"])


def test_what_graph_visualize_could_not_read_is_a_finding(ask, runs, tmp_path):
    (runs[0] / "step1/rank/dump.json").write_text("{")
    found = ask(1, "graph-visualize", "-tp", runs[0], "-o", tmp_path / "out")
    assert (found["state"], found["details"]["dumps"], found["judged"]["unjudged"]) == ("unjudged", 1, 1)
    assert first(found) == ("MSP831", "step 1, rank 0", 1, 0)
    assert "dump.json" in found["findings"][0]["message"]


def test_digest(ask, last_line, runs):
    found = ask(0, "digest", runs[0])
    assert (found["state"], found["details"]["digested"], found["judged"]["fine"]) == ("shown", 2, 2)
    assert found["answer"] == last_line("digest", runs[0]).replace("0 digested, 2 up", "2 digested, 0 up")


def test_convert(ask, tmp_path):
    folder = tmp_path / "dump/step0/rank0/dump_tensor_data"
    folder.mkdir(parents=True)
    np.save(folder / "a.npy", np.ones(3, np.float32))
    record = {"type": "mindspore.Tensor", "dtype": "Float32", "shape": [3], "data_name": "a.npy"}
    header = {"task": "tensor", "level": "L1", "framework": "mindspore", "dump_data_dir": None}
    data = {"Mint.add.0.forward": {"input_args": [], "input_kwargs": {}, "output": [record]}}
    (folder.parent / "dump.json").write_text(json.dumps({**header, "data": data}))
    (folder.parent / "link").symlink_to("dump.json")
    found = ask(1, "convert", tmp_path / "dump", "-o", tmp_path / "packed", "--to", "packed")
    assert first(found)[:2] == ("MSP842", str(folder.parent / "link"))
    assert (found["details"]["dumps"], found["files"]["dumps"]) == (1, str(tmp_path / "packed"))


def test_bundle(ask, runs, tmp_path):
    found = ask(0, "bundle", *runs, "-o", tmp_path / "bundle.zip")
    assert (found["state"], found["files"]) == ("clean", {"bundle": str(tmp_path / "bundle.zip")})
    assert found["details"]["compare"]["exit_code"] == 1
    assert found["judged"]["fine"] > 0


def test_mapping(ask, runs, tmp_path):
    found = ask(0, "mapping", "suggest", runs[0] / "step0", runs[1] / "step0", "-o", tmp_path / "names.yaml")
    assert found["state"] == "shown"
    assert found["suggestions"][0]["command"].startswith("msprobe compare ")
    assert found["details"]["pairs"] == found["details"]["target_calls"]
    assert all(Path(path).exists() for path in found["files"].values())


def test_gather(ask, tmp_path):
    found = ask(0, "gather", SAMPLES / "kernel_dump/cpu", "-o", tmp_path / "out")
    assert (found["state"], found["files"]) == ("shown", {"dumps": str(tmp_path / "out")})
    assert len(list((tmp_path / "out").rglob("dump.json"))) == found["details"]["dumps"]
    assert found["judged"] == {"fine": found["details"]["values"], "wrong": 0, "unjudged": 0}


def test_gather_of_a_damaged_dump(ask, tmp_path):
    shutil.copytree(SAMPLES / "kernel_dump/cpu", tmp_path / "raw")
    file = sorted((tmp_path / "raw").rglob("*.npy"))[0]
    file.write_bytes(file.read_bytes()[:20])
    found = ask(1, "gather", tmp_path / "raw", "-o", tmp_path / "out")
    assert (found["state"], found["findings"][0]["code"]) == ("differs", "MSP852")
    assert found["findings"][0]["place"]["rank"] == 0
    assert found["judged"]["wrong"] == len(found["findings"]) == 1


def test_code_mapping(ask, tmp_path):
    """The graph of the samples, and a dump with one kernel of it and one that is not."""
    graph = SAMPLES / "code_mapping/graph_build_0.ir"
    names = (SAMPLES / "code_mapping/files.txt").read_text().split()
    (tmp_path / "dump").mkdir()
    for name in (
        next(each for each in names if each.endswith(".npy")),
        "Foo.Default_Foo-op99.0.0.1795283015518977.output.0.DefaultFormat.Float32.npy",
    ):
        np.save(tmp_path / "dump" / Path(name).name, np.zeros(2, np.float32))
    found = ask(1, "code-mapping", "--ir", graph, "--dump-data", tmp_path / "dump", "-o", tmp_path / "out")
    assert [(one["code"], "Foo" in one["place"]["name"]) for one in found["findings"]] == [("MSP854", True)]
    assert found["details"]["values"] == 2
    assert all(Path(table).exists() for table in found["files"]["tables"])


def test_data2db(ask, tmp_path):
    write_monitor(train(), tmp_path / "monitor")
    found = ask(0, "data2db", "--db", tmp_path / "db", "--data", tmp_path / "monitor")
    assert found["state"] == "shown"
    assert Path(found["files"]["database"]).stat().st_size > 0


def test_verify_collection_that_cannot_begin(ask, tmp_path):
    found = ask(2, "verify-collection", "--json", tmp_path / "nowhere.py")
    assert found["state"] == "failed"


def test_a_harmless_run_has_no_findings(ask, runs, tmp_path):
    found = ask(0, "compare", runs[1], runs[1], "-o", tmp_path / "out")
    assert (found["state"], found["findings"], found["first_is_cause"]) == ("clean", [], False)
    assert HEAD in (runs[1] / "step0/rank/dump.json").read_text()
