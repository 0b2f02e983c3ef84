"""What calls that are executed again give a page: `msprobe acc-check`, and noise of tensors. Needs torch."""

import csv
import json

import numpy as np
import pytest
from pages import Page

from msprobe.cli import main

pytestmark = pytest.mark.torch

pytest.importorskip("torch")


def record(folder, name, array, source=""):
    """A tensor's record, with its file."""
    np.save(folder / "dump_tensor_data" / f"{name}.npy", array)
    made = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": list(array.shape)}
    made |= {"Max": float(array.max()), "Min": float(array.min()), "Mean": float(array.mean())}
    made |= {"Norm": float(np.linalg.norm(array)), "data_name": f"{name}.npy"}
    return made | ({"from": source} if source else {})


def write(folder, data):
    """A dump of task tensor."""
    head = {"task": "tensor", "level": "L1", "framework": "pytorch", "dump_data_dir": "x", "data": data}
    (folder / "dump.json").write_text(json.dumps(head))
    (folder / "construct.json").write_text("{}")
    frames = ["File /home/user/train.py, line 3, in step, \n y = torch.matmul(a, b)"]
    (folder / "stack.json").write_text(json.dumps({"0": [list(data), frames]}))
    return folder


@pytest.fixture
def dump(tmp_path):
    """Two products of matrices; one element of the second is wrong by 0.001."""
    folder = tmp_path / "dump"
    (folder / "dump_tensor_data").mkdir(parents=True)
    draw, data = np.random.default_rng(1), {}
    for at, off in enumerate((0.0, 1e-3)):
        call = f"Torch.matmul.{at}.forward"
        a, b = (draw.standard_normal(shape).astype(np.float32) for shape in ((6, 8), (8, 4)))
        y = a @ b
        y[2, 3] += np.float32(off)
        inputs = [record(folder, f"{call}.input.{n}", each) for n, each in enumerate((a, b))]
        data[call] = {"input_args": inputs, "input_kwargs": {}, "output": [record(folder, f"{call}.output.0", y)]}
    return write(folder, data)


def test_a_wrong_kernel_is_the_answer(dump, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["acc_check", "-api_info", str(dump), "-o", str(out), "--workers", "1", "--html"]) == 1
    (path,) = out.glob("accuracy_checking_report_*.html")
    page, line = Page(path), capsys.readouterr().out.splitlines()[-1]
    answer = page.head["answer"]
    assert (page.head["kind"], answer["state"], answer["line"]) == ("acc_check", "differs", line)
    first = answer["first"]
    assert first["place"]["name"] == "Torch.matmul.1.forward.output.0"
    assert (first["place"]["source"]["file"], first["place"]["source"]["line"]) == ("/home/user/train.py", 3)
    assert "lines" not in first["place"]["source"], "the file is not on this machine"
    assert answer["advice"][0]["command"] == f"msprobe repro Torch.matmul.1.forward --dump {dump}"
    assert {k: n for k, n in page.head["counts"].items() if n} == {"pass": 1, "error": 1}
    for title, kind in (("outputs", "details"), ("APIs", "result")):
        (file,) = out.glob(f"*{kind}*.csv")
        with file.open(encoding="utf-8-sig") as stream:
            assert page.table(title)[0] == list(csv.DictReader(stream))
    assert page.table("outputs")[1] == "pe"


def test_without_a_fault_it_is_clean(dump, tmp_path):
    words = ["--white_list", "Torch.matmul.0", "--workers", "1", "--html"]
    assert main(["acc_check", "-api_info", str(dump), "-o", str(tmp_path / "out"), *words]) == 0
    (path,) = (tmp_path / "out").glob("*.html")
    assert Page(path).head["answer"]["state"] == "clean"


def chain(folder, noise, wrong=None):
    """Six products of matrices, one after the other, each a little off by rounding; the call `wrong` is off by 1 %.
    Gives the outputs."""
    (folder / "dump_tensor_data").mkdir(parents=True)
    draw, shake, data = np.random.default_rng(1), np.random.default_rng(2), {}
    x, source, found = draw.standard_normal((16, 16)).astype(np.float32), "leaf", []
    for at in range(6):
        call, w = f"Torch.matmul.{at}.forward", (draw.standard_normal((16, 16)) / 4).astype(np.float32)
        y = x.astype(np.float64) @ w
        y = (y * (1 + noise * shake.standard_normal(y.shape)) * (1.01 if at == wrong else 1)).astype(np.float32)
        inputs = [
            record(folder, f"{call}.input.0", x, source),
            record(folder, f"{call}.input.1", w, f"parameter w{at}"),
        ]
        data[call] = {"input_args": inputs, "input_kwargs": {}, "output": [record(folder, f"{call}.output.0", y)]}
        x, source = y, f"call {call}.output.0"
        found.append(y.astype(np.float64))
    write(folder, data)
    return found


def test_noise_stands_below_the_tolerance_and_a_fault_above(tmp_path):
    target, golden = chain(tmp_path / "t", 1e-7, wrong=4), chain(tmp_path / "g", 0.0)
    assert main(["report", str(tmp_path / "t"), str(tmp_path / "g"), "-o", str(tmp_path / "page.html")]) == 1
    page = Page(tmp_path / "page.html")
    assert page.head["answer"]["first"]["place"]["call"] == 4
    assert [advice["command"] for advice in page.head["answer"]["advice"] if "repro" in advice.get("command", "")]
    _, _, state, _ = page.unit()
    assert state["verdicts"] == "ppppee"
    errors = [np.linalg.norm(t - g) / np.linalg.norm(g) for t, g in zip(target, golden, strict=True)]
    assert state["errors"] == pytest.approx(errors, rel=6e-3)
    # Noise explains an output's error up to ten times its input's; the input of the first call is equal.
    assert state["noise"] == pytest.approx([0, *(10 * error for error in errors[:-1])], rel=6e-3)
    allowed = 1e-5 * min(1.0, np.abs(golden[4]).max()) + 1.3e-6 * np.abs(golden[4])
    assert state["excess"][4] == pytest.approx((np.abs(target[4] - golden[4]) / allowed).max(), rel=6e-3)
    assert max(state["excess"][:4]) < 1
