"""The page of `msprobe acc_check`: the answer and the rows of its csv files. Needs torch, which computes in float64."""

import csv
import json

import numpy as np
import pytest
from pages import Page

from msprobe.cli import main

pytest.importorskip("torch")


@pytest.fixture
def dump(tmp_path):
    """Two products of matrices as a dump of task tensor; one element of the second is wrong by 0.001."""
    folder = tmp_path / "dump"
    (folder / "dump_tensor_data").mkdir(parents=True)
    draw, data = np.random.default_rng(1), {}

    def record(name, array):
        np.save(folder / "dump_tensor_data" / f"{name}.npy", array)
        made = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": list(array.shape)}
        made |= {"Max": float(array.max()), "Min": float(array.min()), "Mean": float(array.mean())}
        return made | {"Norm": float(np.linalg.norm(array)), "data_name": f"{name}.npy"}

    for at, off in enumerate((0.0, 1e-3)):
        call = f"Torch.matmul.{at}.forward"
        a, b = (draw.standard_normal(shape).astype(np.float32) for shape in ((6, 8), (8, 4)))
        y = a @ b
        y[2, 3] += np.float32(off)
        inputs = [record(f"{call}.input.{n}", each) for n, each in enumerate((a, b))]
        data[call] = {"input_args": inputs, "input_kwargs": {}, "output": [record(f"{call}.output.0", y)]}
    head = {"task": "tensor", "level": "L1", "framework": "pytorch", "dump_data_dir": "x", "data": data}
    (folder / "dump.json").write_text(json.dumps(head))
    (folder / "construct.json").write_text("{}")
    frames = ["File /home/user/train.py, line 3, in step, \n y = torch.matmul(a, b)"]
    (folder / "stack.json").write_text(json.dumps({"0": [list(data), frames]}))
    return folder


def test_a_wrong_kernel_is_the_answer(dump, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["acc_check", "-api_info", str(dump), "-o", str(out), "--workers", "1", "--html"]) == 1
    (path,) = out.glob("accuracy_checking_report_*.html")
    page, line = Page(path), capsys.readouterr().out.splitlines()[-1]
    answer = page.head["answer"]
    assert (page.head["kind"], answer["state"], answer["line"]) == ("acc_check", "differs", line)
    first = answer["first"]
    assert first["name"] == "Torch.matmul.1.forward.output.0"
    assert (first["source"]["file"], first["source"]["line"]) == ("/home/user/train.py", 3)
    assert "lines" not in first["source"], "the file is not on this machine"
    assert answer["advice"][0]["command"] == f"msprobe repro Torch.matmul.1.forward -api_info {dump}"
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
