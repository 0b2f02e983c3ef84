"""The files of anomalies: what is written while training, and the order in which the earliest are listed."""

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from msprobe.base.errors import DumpError, UsageError
from msprobe.core.monitor import anomaly_processor
from msprobe.monitor import anomalies
from msprobe.monitor.alerts import Anomaly, message
from msprobe.monitor.anomalies import AnomalyFile, earliest, read_anomalies


def anomaly(tag="0:1.weight/rank0/grad_reduced", step=1, call_id=112, **fields):
    made = {"rule": "AnomalyNan", "operation": "norm", "micro_step": 0, "value": 3.0, "mean": 1.0, "rank": 0}
    made |= {"vpp_stage": 0, "pp_stage": 0, "group_mates": (0,)}
    return Anomaly(tag=tag, step=step, call_id=call_id, **(made | fields))


def written(file):
    return json.loads(file.path.read_text("utf-8"))


def test_the_file_is_empty_at_first_and_an_old_one_is_gone(tmp_path):
    old = tmp_path / "anomaly_detected" / "rank3" / "anomaly.json"
    old.parent.mkdir(parents=True)
    old.write_text('{"old": 1}')
    AnomalyFile(tmp_path, 3)
    assert old.read_text() == "{}"


def test_an_entry_has_the_key_and_the_fields_of_8_1(tmp_path):
    file = AnomalyFile(tmp_path, 0)
    one = anomaly(micro_step=2, pp_stage=3, vpp_stage=1, group_mates=(0, 4), rank=7)
    file.add([one])
    entry = {"rank": 7, "step": 1, "micro_step": 2, "pp_stage": 3, "vpp_stage": 1, "call_id": 112}
    entry |= {"tag_name": "0:1.weight/rank0/grad_reduced", "message": message(one), "group_mates": [0, 4]}
    found = written(file)
    assert found == {"0:1.weight/rank0/grad_reduced_step_1_call_112": entry}
    assert list(next(iter(found.values()))) == list(entry), "in this order"


def test_of_several_statistics_of_a_tensor_the_first_stays(tmp_path):
    file = AnomalyFile(tmp_path, 0)
    file.add([anomaly(operation="norm"), anomaly(operation="max"), anomaly(call_id=113)])
    file.add([anomaly(operation="max", step=2)])
    assert ["'norm'" in each["message"] for each in written(file).values()] == [True, True, False]


def test_any_name_can_be_written(tmp_path):
    file = AnomalyFile(tmp_path, 0)
    names = ['a"b\\', "层.重", "\udc80", "a\nb"]
    file.add([anomaly(tag=f"0:{name}/rank0/actv") for name in names])
    assert [each["tag_name"] for each in written(file).values()] == [f"0:{name}/rank0/actv" for name in names]


def test_there_is_a_most(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(anomalies, "MOST", 25)
    file = AnomalyFile(tmp_path, 0)
    for step in range(10):
        file.add([anomaly(step=step, call_id=call) for call in range(10)])
    assert [(each["step"], each["call_id"]) for each in written(file).values()] == [
        (n // 10, n % 10) for n in range(25)
    ]
    assert capsys.readouterr().err.count("further anomalies are not written") == 1


def test_what_a_step_wrote_survives_a_kill(tmp_path):
    script = textwrap.dedent("""
        import sys
        from pathlib import Path
        from msprobe.monitor.alerts import Anomaly
        from msprobe.monitor.anomalies import AnomalyFile
        file = AnomalyFile(Path(sys.argv[1]), 0)
        for step in range(9999):
            file.add([Anomaly("R", "0:a/rank0/actv", "norm", step, 0, 1.0, 1.0, 0, 0, 0, n, (0,)) for n in range(3)])
            print(step, flush=True)
    """)
    for _ in range(5):
        command = [sys.executable, "-c", script, str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            process.stdout.readline()
            time.sleep(random.uniform(0, 0.1))
            process.send_signal(signal.SIGKILL)
            last = [0, *map(int, process.stdout.read().split())][-1]
        found = json.loads((tmp_path / "anomaly_detected" / "rank0" / "anomaly.json").read_text())
        steps = [each["step"] for each in found.values()]
        assert steps[: 3 * (last + 1)] == [n // 3 for n in range(3 * (last + 1))]
    AnomalyFile(tmp_path, 0)
    assert os.listdir(tmp_path / "anomaly_detected" / "rank0") == ["anomaly.json"], "what the killed ones left is gone"


# The order.


def put(folder, rank, *entries, text=None):
    """A file as 8.1 writes it; an entry is (tag's kind, fields)."""
    contents = {}
    for number, (kind, fields) in enumerate(entries):
        tag = f"0:n{number}.w/rank{rank}/{kind}"
        made = {"rank": rank, "step": 1, "micro_step": 0, "pp_stage": 0, "vpp_stage": 0, "call_id": number}
        made |= {"tag_name": tag, "message": f"{kind} {number}", "group_mates": [0]} | fields
        contents[f"{tag}_step_{made['step']}_call_{made['call_id']}"] = made
    path = folder / f"rank{rank}" / "anomaly.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(contents) if text is None else text)
    return path


def order(folder, count=100, steps=frozenset()):
    return [each.message for each in earliest(read_anomalies(folder), count, steps)]


def test_entries_are_ordered_by_step_micro_step_and_stage(tmp_path):
    kinds = ["exp_avg", "actv_grad", "actv", "param_origin", "pre_grad"]
    late = [("actv", {"step": 2}), ("exp_avg", {"micro_step": 1}), ("actv", {"micro_step": 2})]
    put(tmp_path, 0, *late, *((kind, {}) for kind in kinds))
    found = order(tmp_path)
    assert found == [
        "param_origin 6",
        "actv 5",
        "actv_grad 4",
        "pre_grad 7",
        "exp_avg 3",
        "exp_avg 1",
        "actv 2",
        "actv 0",
    ]
    assert order(tmp_path, 2) == found[:2]
    assert order(tmp_path, 5, frozenset([2])) == ["actv 0"]


@pytest.mark.parametrize("kind", ["actv_grad", "pre_grad", "post_grad", "acc_grad", "grad_unreduced", "grad_reduced"])
def test_gradients_come_between_activations_and_moments(tmp_path, kind):
    put(tmp_path, 0, ("exp_avg_sq", {}), (kind, {}), ("actv", {}))
    assert order(tmp_path) == ["actv 2", f"{kind} 1", "exp_avg_sq 0"]


@pytest.mark.parametrize("kind", ["actv", "actv_grad", "exp_avg", "other"])
def test_the_forward_goes_up_through_the_model_and_all_else_down(tmp_path, kind):
    places = [(vpp, pp, call) for vpp in (0, 1) for pp in (0, 1) for call in (-1, 3)]
    shuffled = places.copy()
    random.Random(1).shuffle(shuffled)
    put(
        tmp_path,
        0,
        *((kind, {"vpp_stage": v, "pp_stage": p, "call_id": c, "message": f"{v}{p}{c}"}) for v, p, c in shuffled),
    )
    down = [(v, p, c) for v in (1, 0) for p in (1, 0) for c in (-1, 3)]
    assert order(tmp_path) == [f"{v}{p}{c}" for v, p, c in (places if kind == "actv" else down)]


def test_ranks_are_read_together_in_their_order(tmp_path):
    for rank in (10, 2, 0):
        put(tmp_path / "anomaly_detected", rank, ("actv", {"message": str(rank), "call_id": 0}))
    for folder in (tmp_path, tmp_path / "anomaly_detected"):
        assert order(folder) == ["0", "2", "10"]


def test_what_was_written_is_read(tmp_path):
    AnomalyFile(tmp_path, 0).add([anomaly(tag="0:a/rank0/exp_avg"), anomaly(tag="0:b/rank0/actv")])
    assert [each.key.split("/")[0] for each in earliest(read_anomalies(tmp_path), 9)] == ["0:b", "0:a"]


@pytest.mark.parametrize(
    "odd",
    [
        *("[]", "3", "null", '"a"', '{"a": [', "", "\x00", "[" * 100_000, "NaN", '{"a": ' * 90_000, "1" * 5000),
    ],
    ids=lambda text: text[:8],
)
def test_a_file_that_is_none_is_left_out_and_refused_where_it_is_the_only_one(tmp_path, odd):
    put(tmp_path, 0, text=odd)
    with pytest.raises(DumpError):
        read_anomalies(tmp_path)
    put(tmp_path, 1, ("actv", {}))
    assert order(tmp_path) == ["actv 0"]


@pytest.mark.parametrize(
    "fields",
    [
        *({"step": "1"}, {"step": None}, {"step": 1.5}, {"step": True}, {"step": 10**30}, {"tag_name": 3}),
        *({"call_id": []}, {"micro_step": {}}, {"pp_stage": float("nan")}, {"vpp_stage": "0"}),
    ],
    ids=str,
)
def test_an_entry_that_is_none_is_left_out(tmp_path, fields):
    path = put(tmp_path, 0, ("actv", {}), ("actv", {}))
    contents = json.loads(path.read_text())
    next(iter(contents.values())).update(fields)
    path.write_text(json.dumps(contents | {"x": 3, "y": None, "z": {}}))
    assert order(tmp_path) == ["actv 1"]


def test_a_folder_without_anomalies_is_refused(tmp_path):
    (tmp_path / "rank0").mkdir()
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(UsageError, match="anomaly_detected"):
            read_anomalies(folder)


def test_a_pipe_is_not_waited_for(tmp_path):
    (tmp_path / "rank0").mkdir()
    os.mkfifo(tmp_path / "rank0" / "anomaly.json")
    with pytest.raises(DumpError, match="pipe"):
        read_anomalies(tmp_path)


# The command.


def processor(*words):
    return subprocess.run(
        [sys.executable, "-m", "msprobe.core.monitor.anomaly_processor", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_command_lists_and_writes_the_earliest(tmp_path):
    put(tmp_path, 0, *((kind, {"step": step}) for step in (9, 8) for kind in ("exp_avg", "actv", "actv_grad")))
    done = processor("-d", tmp_path, "-k", 4)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.splitlines()[:4] == ["actv 4", "actv_grad 5", "exp_avg 3", "actv 1"]
    analysis = json.loads((tmp_path / "anomaly_analyse.json").read_text())
    every = json.loads((tmp_path / "rank0" / "anomaly.json").read_text())
    keys = [
        f"0:n{n}.w/rank0/{kind}_step_{s}_call_{n}"
        for n, kind, s in ((4, "actv", 8), (5, "actv_grad", 8), (3, "exp_avg", 8), (1, "actv", 9))
    ]
    assert list(analysis) == keys
    assert analysis == {key: every[key] for key in keys}


@pytest.mark.parametrize("steps", ["[3, 5]", "3,5", "5,3"])
def test_the_command_takes_steps_and_another_folder(tmp_path, steps):
    put(tmp_path / "in", 0, *(("actv", {"step": step}) for step in range(20)))
    done = processor("-d", tmp_path / "in", "-o", tmp_path / "out", "-s", steps)
    assert done.stdout.splitlines()[:2] == ["actv 3", "actv 5"]
    assert len(json.loads((tmp_path / "out" / "anomaly_analyse.json").read_text())) == 2
    assert not (tmp_path / "in" / "anomaly_analyse.json").exists()


def run(capsys, monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["anomaly_processor", *map(str, words)])
    try:
        code = anomaly_processor.main()
    except SystemExit as end:
        code = end.code
    return code, capsys.readouterr()


def test_by_default_eight_are_listed(tmp_path, capsys, monkeypatch):
    put(tmp_path, 0, *(("actv", {}) for _ in range(20)))
    code, said = run(capsys, monkeypatch, "-d", tmp_path)
    assert (code, len(said.out.splitlines())) == (1, 8 + 1)


def test_without_an_anomaly_the_exit_code_is_0(tmp_path, capsys, monkeypatch):
    AnomalyFile(tmp_path, 0)
    assert run(capsys, monkeypatch, "-d", tmp_path)[0] == 0


@pytest.mark.parametrize(
    "words", [["-k", "0"], ["-k", "x"], ["-s", "x"], ["-s", "5-3"], ["-s", '["a"]'], ["-s", "[true]"], ["-s", "[["]]
)
def test_a_wrong_command_is_refused(tmp_path, capsys, monkeypatch, words):
    put(tmp_path, 0, ("actv", {}))
    code, said = run(capsys, monkeypatch, "-d", tmp_path, *words)
    assert (code, said.out) == (2, "")
    assert words[0] in said.err


def test_nothing_to_read_is_a_wrong_command(tmp_path, capsys, monkeypatch):
    assert run(capsys, monkeypatch, "-d", tmp_path / "none")[0] == 2
    assert run(capsys, monkeypatch)[0] == 2


def test_a_name_does_not_steer_the_terminal(tmp_path, capsys, monkeypatch):
    put(tmp_path, 0, ("actv", {"message": "\x1b[2J"}))
    assert "\x1b" not in run(capsys, monkeypatch, "-d", tmp_path)[1].out
