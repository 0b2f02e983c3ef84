"""`msprobe graph`: the files and numbers of msprobe 8.1."""

import json

import odd_dumps
import pytest

from msprobe.cli import main


@pytest.fixture
def draw_old(tmp_path):
    """`draw_old(npu, bench, ...)` gives the files that the command wrote, as values by their names without the time."""

    def drawing(npu, bench=None, *words):
        request = tmp_path / "compare.json"
        request.write_text(json.dumps({"npu_path": str(npu), **({"bench_path": str(bench)} if bench else {})}))
        command = ["-f", "mindspore", "graph", "-i", str(request), "-o", str(tmp_path / "old"), *words]
        assert main(command) == 0
        files = sorted((tmp_path / "old").iterdir())
        return {path.name.rpartition("_")[0] + path.suffix: json.loads(path.read_text()) for path in files}

    return drawing


def test_one_graph(draw_old, sample):
    (made,) = draw_old(sample("ms_mix_stat")).values()
    assert list(made) == ["root", "dump_data_dir", "node", "MicroSteps", "OverflowCheck"]
    node = made["node"]["Cell.fc1.Linear.forward.0"]
    keys = "id node_type output_data input_data upnode subnodes matched_node_link suggestions stack_info micro_step_id"
    assert list(node) == [*keys.split(), "data"]
    assert (node["upnode"], node["subnodes"]) == ("DefaultModel", ["Primitive.dense.Dense.0.forward"])
    assert made["node"]["DefaultModel"]["upnode"] == "None"
    assert node["data"] == {}


def test_two_graphs(draw_old, sample):
    found = draw_old(sample("ms_mix_stat"), sample("msp_mix_stat"))
    assert list(found) == ["compare.vis"]
    made = found["compare.vis"]
    assert list(made) == ["NPU", "Bench", "ToolTip", "Colors", "MicroSteps", "task", "OverflowCheck"]
    assert made["Colors"]["#FFEDBE"]["value"] == [0.2, 0.4]
    assert made["task"] == "summary"
    node = made["NPU"]["node"]["Cell.fc1.Linear.forward.0"]
    assert node["matched_node_link"] == ["DefaultModel", "Cell.fc1.Linear.forward.0"]
    # of the output's four statistics the mean differs most: 0.009912840090692043 to 0.011000246740877628
    assert node["data"]["precision_index"] == pytest.approx(0.001087406650185585 / 0.011000246740877628)
    assert "Result" not in node["output_data"]["Cell.fc1.Linear.forward.0.output.0"]


def test_floats_have_six_digits(draw_old, sample):
    node = draw_old(sample("ms_mix_stat"), sample("msp_mix_stat"))["compare.vis"]["NPU"]["node"][
        "Cell.fc1.Linear.forward.0"
    ]
    shown = node["output_data"]["Cell.fc1.Linear.forward.0.output.0"]
    assert shown["Max"] == "0.622455"  # 0.6224545836448669
    assert shown["Max diff"] == "0.004068"
    assert shown["MaxRelativeErr"] == "0.657873%"
    assert "requires_grad" not in shown


def test_a_small_float_keeps_six_digits_of_its_own(tmp_path, draw_old):
    shown = draw_old(odd_dumps.values(tmp_path / "a"))["build.vis"]["node"]["Module.m.M.forward.0"]["input_data"]
    members = shown["Module.m.M.forward.0.input.0"]
    assert [members[name] for name in ("Max", "Min", "Mean", "Norm")] == [
        "1.000000e-09",
        "-1.000000e+22",
        "123456789.123457",
        "0.1",
    ]


def test_digests_are_good_at_one(draw_old, sample):
    made = draw_old(sample("ms_mix_md5"), sample("msp_mix_md5"))["compare.vis"]
    data = {name: node["data"] for name, node in made["NPU"]["node"].items()}
    assert data["Cell.fc1.Linear.forward.0"] == {"precision_index": 0, "Result": "Different"}
    equal = draw_old(sample("ms_mix_md5"), sample("ms_mix_md5"))["compare.vis"]["NPU"]["node"]
    assert {node["data"].get("Result") for name, node in equal.items() if name != "DefaultModel"} == {"pass"}


def test_each_rank_of_each_step_has_a_file(tmp_path, draw_old):
    found = draw_old(odd_dumps.ranks(tmp_path / "a", steps=2))
    assert sorted(found) == [f"build_step{step}_rank{rank}.vis" for step in (0, 1) for rank in (0, 1)]
    node = found["build_step1_rank1.vis"]["node"]["Distributed.recv.0.forward"]
    assert node["matched_distributed"]["nodes_info"] == {"0": ["Nan", "Distributed.send.0.forward"]}


def test_stacks_are_the_line_of_the_call(tmp_path, draw_old):
    folder = odd_dumps.structure(tmp_path / "a")
    nodes = draw_old(folder)["build.vis"]["node"]
    assert nodes["Module.l.L.forward.0"]["stack_info"] == ["File n.py, line 2, in forward, \n return self.l(x)"]
    assert nodes["Torch.b.0.backward"]["stack_info"] == ["File n.py, line 6, in forward, \n y = torch.b(x)"]


def test_whole_stacks_on_request(tmp_path, draw_old):
    nodes = draw_old(odd_dumps.structure(tmp_path / "a"), None, "-cs")["build.vis"]["node"]
    assert len(nodes["Module.l.L.forward.0"]["stack_info"]) == 2


def test_levels_are_in_the_data(tmp_path, draw_old):
    nodes = draw_old(odd_dumps.overflow(tmp_path / "a"), None, "-oc")["build.vis"]["node"]
    assert nodes["Torch.log.0.forward"]["data"] == {"overflow_level": "critical"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not valid JSON"),
        ("[]", "must contain a JSON object"),
        ("{}", "npu_path is missing"),
        ('{"npu_path": 3}', "must be the path of a folder"),
        ('{"npu_path": "/no/such"}', "no such file or folder"),
    ],
)
def test_what_a_request_lacks_is_said(tmp_path, capsys, text, words):
    (tmp_path / "compare.json").write_text(text)
    assert main(["graph", "-i", str(tmp_path / "compare.json"), "-o", str(tmp_path / "out")]) == 2
    assert words in capsys.readouterr().err
