"""Two packs of configurations: each checker's difference is named, and equal packs pass."""

import re
from types import SimpleNamespace

import pytest
from config_packs import ONES, STACK, WEIGHT, entries, pack, sheets, summary

from msprobe.cli import main

pytestmark = pytest.mark.part(3)

MARK = re.compile(r"<redacted:[0-9a-f]{5}>")
ABOUT = {"tool": "msprobe-ms 0.1.0", "format_version": 1, "framework": "pytorch"}


@pytest.fixture
def compare(tmp_path, capsys):
    """`compare(bench, cmp, *options)` of dicts of changes: the exit code, the lines of the answer, the sheets."""

    def run(bench, cmp, *options):
        sides = [pack(tmp_path / f"{name}.zip", **held) for name, held in (("bench", bench), ("cmp", cmp))]
        code = main(["config_check", "-c", *map(str, sides), "-o", str(tmp_path / "result"), *options])
        captured = capsys.readouterr()
        result = tmp_path / "result" / "result.xlsx"
        whole = (sheets(result), summary(result)) if code in (0, 1) else ({}, {})
        return SimpleNamespace(
            code=code,
            out=captured.out,
            lines=captured.out.splitlines(),
            err=captured.err,
            sheets=whole[0],
            summary=whole[1],
        )

    return run


def test_equal_packs_pass_and_have_a_sheet_for_each_checker(compare, tmp_path):
    done = compare({}, {})
    assert done.code == 0, done.out
    checkers = ["env", "pip", "dataset", "weights", "hyperparameters", "random"]
    assert list(done.sheets) == ["summary", *checkers]
    assert done.summary == dict.fromkeys(checkers, "pass")
    assert done.lines[-1].startswith("pass: ")
    assert done.err == ""
    assert [path.name for path in (tmp_path / "result").iterdir()] == ["result.xlsx"]
    # what is equal stands in the sheets of tensors and of random calls alone
    assert [row["tag"] for row in done.sheets["dataset"]] == ["args.0", "kwargs.mask.k"]
    assert done.sheets["weights"][0] == {
        "step": 0, "rank": 0, "weight_name": "fc.weight", "equal": True,
        "max_relative_diff": 0, "min_relative_diff": 0, "mean_relative_diff": 0, "norm_relative_diff": 0,
    }  # fmt: skip
    assert [done.sheets[name] for name in ("env", "pip", "hyperparameters")] == [[], [], []]


def test_the_headings_are_those_of_msprobe(compare):
    done = compare({"pip": ""}, {"pip": "numpy=1\n", "env": {}, "static": {}, "random": {}})
    assert list(done.sheets["env"][0]) == ["bench_env_name", "cmp_env_name", "bench_value", "cmp_value", "level"]
    assert list(done.sheets["pip"][0]) == ["package", "bench version", "cmp version", "level"]
    relative = [f"{name}_relative_diff" for name in ("max", "min", "mean", "norm")]
    assert list(done.sheets["dataset"][0]) == ["step", "rank", "tag", "equal", *relative]
    assert list(done.sheets["weights"][0]) == ["step", "rank", "weight_name", "equal", *relative]
    assert list(done.sheets["hyperparameters"][0]) == [
        *("file_name", "bench_para", "cmp_para", "bench_value", "cmp_value", "matched_with", "level")
    ]
    assert list(done.sheets["random"][0]) == [
        *("op", "rank", "bench_stack", "cmp_stack", "bench_count", "cmp_count", "check_result")
    ]
    assert list(done.sheets["summary"][0]) == ["filename", "pass_check", "remark"]


CHANGED = {
    "env": {"env": {**entries()["env"], "HCCL_DETERMINISTIC": "false"}},
    "pip": {"pip": "numpy=1.26.3\ntorch=2.6.0\nrich=13.0\n"},
    "dataset": {"dataset": {"args": {"0": ONES, "1": ""}, "kwargs": {"mask": {"k": {**ONES, "max": 2.0}}}}},
    "weights": {"weights": {"fc.weight": {**WEIGHT, "norm": 0.7501}, "fc.bias": ONES}},
    "hyperparameters": {"static": {"lr": "0.2", "seq-length": "4", "save": "/a"}},
    "random": {"random": {"torch.rand": [{"count": 3, "stack": STACK}]}},
}
SAID = {
    "env": "env: HCCL_DETERMINISTIC: true | false",
    "pip": "pip: numpy: 1.26.4 | 1.26.3",
    "dataset": "dataset: kwargs.mask.k at step 0, rank 0 differs: max 1, relative",
    "weights": "weights: fc.weight at step 0, rank 0 differs: norm 0.000133, relative",
    "hyperparameters": "hyperparameters: lr: 0.1 | 0.2",
    "random": "random: torch.rand was called 2 | 3 times on rank 0 from " + STACK[-1],
}


@pytest.mark.parametrize("checker", CHANGED)
def test_a_planted_difference_fails_its_checker_alone_and_is_the_last_line(compare, checker):
    done = compare({}, CHANGED[checker])
    assert done.code == 1
    assert [name for name, verdict in done.summary.items() if verdict != "pass"] == [checker]
    assert done.summary[checker] == "error"
    assert done.lines[-1].startswith(f"error: {SAID[checker]}")


def test_of_several_differences_a_setting_comes_last_and_what_it_explains_before(compare):
    changes = {key: value for each in CHANGED.values() for key, value in each.items()}
    done = compare({}, changes)
    ends = [line.split(": ")[1] for line in done.lines if line.startswith("error: ")]
    assert ends == ["random", "dataset", "weights", "pip", "env", "hyperparameters"]
    one = compare({}, changes, "--top", "1")
    assert [line for line in one.lines if line.startswith("error: ")] == one.lines[-1:]
    assert one.lines[-2].startswith("5 more rows: ")


# Environment.

NPU = {"ASCEND_HOME_PATH": "/usr/local/Ascend"}


@pytest.mark.parametrize(
    ("bench", "cmp", "rows"),
    [
        ({**NPU, "HCCL_DETERMINISTIC": "True"}, {**NPU, "HCCL_DETERMINISTIC": "true"}, []),
        ({**NPU, "HCCL_DETERMINISTIC": "False"}, NPU, []),  # which is the default
        ({**NPU, "HCCL_INTRA_PCIE_ENABLE": "0"}, NPU, [("HCCL_INTRA_PCIE_ENABLE", "error")]),
        ({"ASCEND_LAUNCH_BLOCKING": "1"}, {"CUDA_LAUNCH_BLOCKING": "1"}, []),  # an NPU and a GPU
        (
            {"ASCEND_LAUNCH_BLOCKING": "0"},
            {"CUDA_LAUNCH_BLOCKING": "1"},
            [("ASCEND_LAUNCH_BLOCKING", "error")],
        ),
        (
            {"ASCEND_X": "", "HCCL_INTRA_ROCE_ENABLE": "1"},
            {},
            [("HCCL_INTRA_ROCE_ENABLE", "warning"), ("ASCEND_X", "info")],
        ),
        ({"NCCL_ALGO": "Ring"}, {}, [("NCCL_ALGO", "error")]),
        ({"MS_DEV_RUNTIME_CONF": "a"}, {}, [("MS_DEV_RUNTIME_CONF", "warning")]),
        ({"HCCL_IF_IP": "1"}, {"HCCL_IF_IP": "2"}, [("HCCL_IF_IP", "info")]),
        ({"HOME": "/a"}, {"HOME": "/b"}, [("HOME", "info")]),
        ({"MS_JIT": "0"}, {}, [("MS_JIT", "error")]),
        # What both sides set is compared, whatever devices the other variables speak of.
        ({"HCCL_DETERMINISTIC": "true"}, {"HCCL_DETERMINISTIC": "false"}, [("HCCL_DETERMINISTIC", "error")]),
        (
            {**NPU, "HCCL_DETERMINISTIC": "true"},
            {"HCCL_DETERMINISTIC": "false"},
            [("HCCL_DETERMINISTIC", "error"), ("ASCEND_HOME_PATH", "info")],
        ),
        (
            {**NPU, "HCCL_DETERMINISTIC": "false"},
            {"HCCL_DETERMINISTIC": "true"},
            [("HCCL_DETERMINISTIC", "error"), ("ASCEND_HOME_PATH", "info")],
        ),
        (
            {"HCCL_INTRA_ROCE_ENABLE": "1"},
            {**NPU, "HCCL_INTRA_ROCE_ENABLE": "0"},
            [("HCCL_INTRA_ROCE_ENABLE", "error"), ("ASCEND_HOME_PATH", "info")],
        ),
        (
            {**NPU, "CUBLAS_WORKSPACE_CONFIG": ":4096:8"},
            {"CUBLAS_WORKSPACE_CONFIG": ":16:8"},
            [("CUBLAS_WORKSPACE_CONFIG", "error"), ("ASCEND_HOME_PATH", "info")],
        ),
        # Both names on both sides: each is compared with itself.
        (
            {"HCCL_ALGO": "ring", "NCCL_ALGO": "ring"},
            {**NPU, "HCCL_ALGO": "ring", "NCCL_ALGO": "tree"},
            [("NCCL_ALGO", "error"), ("ASCEND_HOME_PATH", "info")],
        ),
        # One side sets it: against the default, also under the name of a device that neither seems to have.
        ({"HCCL_DETERMINISTIC": "true"}, {}, [("HCCL_DETERMINISTIC", "error")]),
        ({"HCCL_DETERMINISTIC": "false"}, {}, []),
        ({"NCCL_DETERMINISTIC": "1"}, NPU, [("NCCL_DETERMINISTIC", "error"), ("ASCEND_HOME_PATH", "info")]),
        ({**NPU, "NCCL_DETERMINISTIC": "1"}, NPU, [("NCCL_DETERMINISTIC", "error")]),
        (
            {"HCCL_CONNECT_TIMEOUT": "600"},
            {"NCCL_ALGO": "Ring"},
            [("NCCL_ALGO", "error"), ("HCCL_CONNECT_TIMEOUT", "info")],
        ),
    ],
)
def test_the_table_of_variables_decides(compare, bench, cmp, rows):
    done = compare({"env": bench}, {"env": cmp})
    assert [(row["bench_env_name"] or row["cmp_env_name"], row["level"]) for row in done.sheets["env"]] == rows
    levels = {level for _, level in rows}
    assert done.summary["env"] == ("error" if "error" in levels else "warning" if "warning" in levels else "pass")


def test_a_secret_is_never_shown_also_of_a_pack_that_holds_it(compare):
    for checker, key in (("env", "DB_PASSWORD"), ("hyperparameters", "wandb_api_key")):
        entry = "env" if checker == "env" else "static"
        done = compare({entry: {key: "swordfish-one"}}, {entry: {key: "swordfish-two"}})
        (row,) = done.sheets[checker]
        marks = row["bench_value"], row["cmp_value"]
        assert all(MARK.fullmatch(mark) for mark in marks)
        assert marks[0] != marks[1], "different secrets can be told"
        assert row["level"] == "info"
        assert done.code == 0, "a password changes no number: two equal runs with one pass"
        assert "swordfish" not in done.out + str(done.sheets)
        equal = compare({entry: {key: "swordfish-one"}}, {entry: {key: "swordfish-one"}})
        assert equal.sheets[checker] == [], "equal secrets can be told"


def test_a_text_with_a_secret_is_compared_by_the_rest_and_by_the_digest(compare):
    def of(bench, cmp):
        return compare({"static": {"url": bench}}, {"static": {"url": cmp}})

    assert of("http://a:swordfish@b", "http://a:swordfish@b").sheets["hyperparameters"] == []
    done = of("http://a:swordfish@b", "http://a:swordfish@c")
    assert done.summary["hyperparameters"] == "warning", "a place"
    assert "@b | http" in done.lines[-1]
    assert "swordfish" not in done.out + str(done.sheets)
    done = compare({"static": {"extra": "x -u a:swordfish y"}}, {"static": {"extra": "x -u a:haddock y"}})
    assert done.summary["hyperparameters"] == "error"


@pytest.mark.parametrize("mark", ["<not recorded>", "<redacted>"])
def test_marks_without_a_digest_are_not_judged_and_do_not_pass_silently(compare, mark):
    done = compare({"static": {"extra": mark}}, {"static": {"extra": mark}})
    (row,) = done.sheets["hyperparameters"]
    assert (row["bench_value"], row["level"]) == (mark, "warning")
    done = compare({"env": {"HCCL_DETERMINISTIC": mark}}, {"env": {"HCCL_DETERMINISTIC": mark}})
    assert [row["level"] for row in done.sheets["env"]] == ["warning"]
    done = compare({"static": {"token": mark}}, {"static": {"token": mark}})
    assert [row["level"] for row in done.sheets["hyperparameters"]] == ["info"]


def test_code_in_a_pack_of_another_tool_is_shown_without_secrets(compare):
    stack = ["File /a/train.py, line 3, in <module>, login(token='swordfish')"]
    done = compare({}, {"random": {"torch.rand": [{"count": 3, "stack": stack}]}})
    assert "swordfish" not in done.out + str(done.sheets)
    assert "login(token='<redacted" in str(done.sheets["random"])


# Packages.


@pytest.mark.parametrize(
    ("bench", "cmp", "verdict", "level"),
    [
        ("numpy=1", "numpy=2", "error", "error"),
        ("peft=1", "", "error", "error"),
        ("torch=2.6.0+cpu", "torch=2.6.0", "warning", "warning"),
        ("rich=1", "rich=2", "pass", "info"),
        ("Megatron_Core=1", "megatron-core=2", "error", "error"),
        ("numpy=1\nnumpy=3", "numpy=1", "pass", None),  # of two the first is imported
    ],
)
def test_all_packages_are_compared_and_the_listed_ones_decide(compare, bench, cmp, verdict, level):
    done = compare({"pip": bench}, {"pip": cmp})
    assert done.summary["pip"] == verdict
    assert [row["level"] for row in done.sheets["pip"]] == ([level] if level else [])


def test_a_framework_decides_where_both_runs_are_of_it(compare):
    one, other = {"about": {**ABOUT, "framework": "mindspore"}}, {"about": ABOUT}
    versions = {"pip": "torch=1\nmindspore=1\n"}, {"pip": "torch=2\nmindspore=1\n"}
    assert compare({**other, **versions[0]}, {**other, **versions[1]}).summary["pip"] == "error"
    assert compare({**one, **versions[0]}, {**one, **versions[1]}).summary["pip"] == "pass"
    assert compare({**one, **versions[0]}, {**other, **versions[1]}).summary["pip"] == "pass"


# Tensors.


def test_relative_differences_are_of_the_absolute_value_and_empty_for_zero(compare):
    bench = {"fc.weight": {"max": 2.0, "min": -4.0, "mean": 0.0, "norm": 8.0}}
    cmp = {"fc.weight": {"max": 3.0, "min": -3.0, "mean": 1.0, "norm": 6.0}}
    (row,) = compare({"weights": bench}, {"weights": cmp}).sheets["weights"]
    assert [row[f"{name}_relative_diff"] for name in ("max", "min", "mean", "norm")] == [0.5, 0.25, None, 0.25]


def test_a_tensor_of_one_side_fails_and_a_step_of_one_side_is_a_warning(compare):
    done = compare({}, {"weights": {"fc.weight": WEIGHT, "new": ONES}})
    assert [(row["weight_name"], row["equal"]) for row in done.sheets["weights"]] == [
        ("fc.weight", True), ("fc.bias", "only bench have"), ("new", "only cmp have"),
    ]  # fmt: skip
    assert done.summary["weights"] == "error"
    done = compare({}, {"weights__step1__rank0__weight.json": {"fc.weight": ONES}})
    assert done.summary["weights"] == "warning"
    assert (
        done.sheets["weights"][-1] | {"step": 1, "weight_name": "all", "equal": "only cmp have"}
        == (done.sheets["weights"][-1])
    )


def test_float32_sums_of_another_tool_are_equal_to_exact_ones_and_ours_must_be_exact(compare):
    near = {"fc.weight": {**WEIGHT, "mean": 0.12500001, "norm": 0.75000004}, "fc.bias": ONES}
    assert compare({}, {"weights": near}).code == 0
    assert compare({"about": ABOUT}, {"weights": near}).summary["weights"] == "pass"
    assert compare({"about": ABOUT}, {"about": ABOUT, "weights": near}).summary["weights"] == "error"
    extreme = {"fc.weight": {**WEIGHT, "max": 0.50000001}, "fc.bias": ONES}
    assert compare({}, {"weights": extreme}).summary["weights"] == "error"


def test_nan_is_equal_to_nan_and_to_nothing_else(compare):
    nan = {"fc.weight": dict.fromkeys(WEIGHT, float("nan")), "fc.bias": ONES}
    assert compare({"weights": nan}, {"weights": nan}).code == 0
    assert compare({"weights": nan}, {}).summary["weights"] == "error"


def test_parameters_of_two_frameworks_are_matched_by_the_names_of_layers(compare):
    ours = {"about": {**ABOUT, "framework": "mindspore"}}
    theirs = {"about": ABOUT}
    ours["weights"] = {"backbone.fc.weight": WEIGHT, "backbone.norm.gamma": ONES, "backbone.bn.moving_mean": ONES}
    theirs["weights"] = {"fc.weight": WEIGHT, "norm.weight": ONES, "bn.running_mean": ONES}
    for sides in ((ours, theirs), (theirs, ours)):
        done = compare(*sides)
        assert [row["equal"] for row in done.sheets["weights"]] == [True, True, True], done.sheets["weights"]
    theirs["weights"]["norm.weight"] = WEIGHT
    done = compare(ours, theirs)
    assert [row["weight_name"] for row in done.sheets["weights"] if row["equal"] is not True] == ["backbone.norm.gamma"]


# Hyper-parameters.


@pytest.mark.parametrize(
    ("bench", "cmp", "row"),
    [
        ({"lr": "1e-5"}, {"lr": 0.00001}, None),
        ({"flag": "True"}, {"flag": True}, None),
        ({"none": None}, {"none": "None"}, None),
        ({"a-b": "1"}, {"a_b": "2"}, ("a-b", "a_b", "1", "2", "pure name", "error")),
        ({"wd": "1"}, {"weight_decay": "2"}, ("wd", "weight_decay", "1", "2", "mapping", "error")),
        ({"vocab": "1"}, {"vocabs": "2"}, ("vocab", "vocabs", "1", "2", f"similarity:{10 / 11}", "error")),
        ({"only": "1"}, {}, ("only", "Only in benchmark", "1", None, None, "warning")),
        ({}, {"only": "1"}, ("Only in comparison", "only", None, "1", None, "warning")),
        ({"layers": [1, 2]}, {"layers.0": 1, "layers.1": 2}, None),  # as msprobe writes a list, and as we do
        ({"layers": [1, 2]}, {"layers": [1, 3]}, ("layers.1", "layers.1", 2, 3, "pure name", "error")),
        ({"save": "/a"}, {"save": "/b"}, ("save", "save", "/a", "/b", "pure name", "warning")),  # a place
        ({"flag": True}, {"flag": 1}, ("flag", "flag", "True", 1, "pure name", "error")),
        # Addresses of objects, as another tool packs them.
        ({"act": "<function gelu at 0x7f11aa>"}, {"act": "<function gelu at 0x7f22bb>"}, None),
        ({"hooks": ["<a.B object at 0x7f11aa>"]}, {"hooks": ["<a.B object at 0x7f22bb>"]}, None),
        (
            {"act": "<function gelu at 0x7f11aa>"},
            {"act": "<function relu at 0x7f22bb>"},
            ("act", "act", "<function gelu>", "<function relu>", "pure name", "error"),
        ),
        (
            {"lr": {"description": "duplicate_value", "values": ["1", "2"]}},
            {"lr": "1"},
            ("lr", "lr", '{"description": "duplicate_value", "values": ["1", "2"]}', "1", "pure name", "error"),
        ),
    ],
)
def test_settings_are_matched_by_name_and_compared_as_values(compare, bench, cmp, row):
    done = compare({"static": bench}, {"static": cmp})
    found = [tuple(each.values()) for each in done.sheets["hyperparameters"]]
    assert found == ([("hyperparameters_static.json", *row)] if row else [])
    assert done.code == int(row is not None)


def test_the_same_name_goes_before_a_similar_one_and_each_is_matched_once(compare):
    done = compare({"static": {"vocabs": "1", "vocab": "2"}}, {"static": {"vocab": "2", "vocabz": "3"}})
    matched = [(row["bench_para"], row["cmp_para"]) for row in done.sheets["hyperparameters"]]
    assert matched == [("vocabs", "vocabz")]


def test_names_with_other_numbers_are_not_similar(compare):
    done = compare({"static": {"adam_beta1": "0.9"}}, {"static": {"adam_beta2": "0.9"}})
    assert [row["level"] for row in done.sheets["hyperparameters"]] == ["warning", "warning"]


def test_a_file_of_settings_that_one_side_has_is_a_warning(compare):
    done = compare({}, {"hyperparameters__hyperparameters_dynamic.json": {"lr": 1}})
    assert done.summary["hyperparameters"] == "warning"
    assert done.code == 1


# Random calls.


def moved(line, code="x = torch.rand(2)", file="/b/train.py", function="main"):
    return [STACK[0].replace("/a/", "/b/"), f"File {file}, line {line}, in {function}, {code}"]


@pytest.mark.parametrize(
    ("stack", "is_same"),
    [
        (moved(77), True),  # another line and another folder
        (moved(9, "x = torch.rand(3)"), True),
        (moved(9, "y"), False),  # (1 + 1 + less than 0.4) / 3 is below 0.8
        (moved(9, file="/b/other.py"), False),
        (moved(9, function="f"), False),
        (moved(9)[1:], False),
    ],
)
def test_places_are_matched_by_file_function_and_code(compare, stack, is_same):
    done = compare({}, {"random": {"torch.rand": [{"count": 2, "stack": stack}]}})
    assert done.summary["random"] == ("pass" if is_same else "error")
    if not is_same:
        first, second = done.sheets["random"]
        assert (first["cmp_stack"], first["bench_count"], first["cmp_count"]) == ("no match stack", 2, 0)
        assert (second["bench_stack"], second["bench_count"], second["cmp_count"]) == ("no match stack", 0, 2)
        assert (first["check_result"], second["check_result"]) == (False, False)


def test_a_place_is_matched_once(compare):
    sites = [{"count": 1, "stack": moved(3)}, {"count": 1, "stack": moved(4, "x = torch.rand(2, 2)")}]
    done = compare({"random": {"torch.rand": sites}}, {"random": {"torch.rand": sites[:1]}})
    assert [row["check_result"] for row in done.sheets["random"]] == [True, False]


def test_what_the_other_tool_does_not_count_decides_nothing(compare):
    ours = {"about": {**ABOUT, "random_functions": ["torch.rand", "torch.randperm"]}}
    ours["random"] = {"torch.rand": [{"count": 2, "stack": STACK}], "torch.randperm": [{"count": 1, "stack": STACK}]}
    done = compare(ours, {})
    assert done.summary["random"] == "pass"
    assert [row["check_result"] for row in done.sheets["random"]] == [True, "not counted"]
    both = compare(ours, {**ours, "random": {"torch.rand": [{"count": 2, "stack": STACK}]}})
    assert both.summary["random"] == "error"


def test_functions_of_two_frameworks_are_one(compare):
    ours = {
        "about": {**ABOUT, "framework": "mindspore"},
        "random": {"mindspore.ops.rand": [{"count": 2, "stack": STACK}]},
    }
    done = compare(ours, {})
    assert [(row["op"], row["check_result"]) for row in done.sheets["random"]] == [("rand", True)]


# Settings of the frameworks.

MINDSPORE = {"framework": "mindspore", "mode": "GRAPH", "deterministic": "ON", "version": "2.10.0"}
PYTORCH = {"framework": "pytorch", "deterministic_algorithms": True, "cudnn.allow_tf32": True, "version": "2.6.0"}


@pytest.mark.parametrize(
    ("bench", "cmp", "found"),
    [
        (MINDSPORE, MINDSPORE, {}),
        (MINDSPORE, {**MINDSPORE, "mode": "PYNATIVE"}, {"mode": "error"}),
        (MINDSPORE, {**MINDSPORE, "deterministic": "OFF"}, {"deterministic": "error"}),
        (MINDSPORE, {**MINDSPORE, "version": "2.9.0"}, {"version": "info"}),
        (MINDSPORE, {**MINDSPORE, "op_precision.matmul_allow_hf32": "0"}, {}),  # what CANN does anyway
        (
            MINDSPORE,
            {**MINDSPORE, "op_precision.matmul_allow_hf32": "1"},
            {"op_precision.matmul_allow_hf32": "error"},
        ),
        (PYTORCH, {**PYTORCH, "cudnn.allow_tf32": False}, {"cudnn.allow_tf32": "error"}),
        (PYTORCH, {**PYTORCH, "num_threads": 4}, {"num_threads": "warning"}),
        (PYTORCH, {**PYTORCH, "default_dtype": "torch.float64"}, {"default_dtype": "error"}),
        (MINDSPORE, PYTORCH, {}),
        (MINDSPORE, {**PYTORCH, "deterministic_algorithms": False}, {"deterministic": "error"}),
        ({**PYTORCH, "cudnn.allow_tf32": False}, MINDSPORE, {"cudnn.allow_tf32": "error"}),
    ],
)
def test_settings_of_the_frameworks_are_a_checker(compare, bench, cmp, found):
    done = compare({"context": bench}, {"context": cmp})
    rows = done.sheets["context"]
    assert {row["bench_setting"]: row["level"] for row in rows} == found
    levels = {*found.values()} - {"info"}
    assert done.summary["context"] == (levels.pop() if levels else "pass")


# What is not compared.


@pytest.mark.parametrize("checker", ["env", "pip", "dataset", "weights", "static", "random"])
def test_a_checker_of_one_side_is_unjudged_and_never_passes(compare, checker):
    done = compare({}, {checker: None})
    name = "hyperparameters" if checker == "static" else checker
    assert done.code == 1
    assert done.summary[name] == "unjudged"
    assert done.lines[-1].startswith(f"unjudged: {name} (only bench has it); everything else passes")
    assert name not in done.sheets


def test_steps_or_ranks_that_never_meet_are_unjudged(compare):
    done = compare({}, {"random": None, "random__rank1.json": {}, "dataset": None,
                        "dataset__step5__rank0__dataset.json": {"args": {}}})  # fmt: skip
    assert (done.summary["random"], done.summary["dataset"]) == ("unjudged", "unjudged")


def test_a_result_is_replaced_and_nothing_else_of_the_folder(compare, tmp_path):
    (tmp_path / "result").mkdir()
    (tmp_path / "result" / "mine").write_text("mine")
    assert compare({}, {}).code == 0
    assert compare({}, CHANGED["pip"]).summary["pip"] == "error"
    assert sorted(path.name for path in (tmp_path / "result").iterdir()) == ["mine", "result.xlsx"]


def test_cells_never_become_formulas(compare):
    done = compare({"static": {"=1+1": "=cmd()"}}, {"static": {}})
    (row,) = done.sheets["hyperparameters"]
    assert (row["bench_para"], row["bench_value"]) == ("'=1+1", "'=cmd()")
