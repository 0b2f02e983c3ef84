"""What a bundle does not tell: secrets, folders, users, hosts; and what it must still tell to be compared."""

import json
import re
import sys
import zipfile

import pytest

from msprobe.bundle.privacy import OPTION_WORDS, Privacy

TOKEN = "ghp_0123456789abcdefABCDEF0123456789abcd"
PASSWORD = "Tr0ub4dor-and-3"
PLANTED = {
    TOKEN,
    PASSWORD,
    "alice",
    "gpu-box-17",
    "10.11.12.13",
    "secret-project",
    "hunter2hunter2",
}

HOME = "/".join(("", "home", "alice"))
MOUNT = "/".join(("", "mnt"))
"""Put together, because no file of this repository names a place like these."""

PLANTED |= {"/home/", f"{MOUNT}/"}
CODE = f'out = net(x, token="{TOKEN}")'


def planted(folder, name):
    """A dump with something private in every place that takes a text."""
    place = folder / name / "step0" / "rank0"
    place.mkdir(parents=True)
    leaf = {
        "type": "mindspore.Tensor",
        "dtype": "Float32",
        "shape": [2],
        "Max": 1.0,
        "Min": 0.0,
        "Mean": 0.5,
        "Norm": 1.0,
    }
    texts = [
        {"type": "str", "value": value}
        for value in (
            f"Authorization: Bearer {TOKEN}",
            f"{HOME}/{'target' if name == 't' else 'golden'}/data.bin",
            f"{HOME}/shared/both.bin",
            "mean",
            "model of alice on gpu-box-17 at 10.11.12.13",
            f"--password {PASSWORD}",
        )
    ]
    first = {
        "input_args": [leaf, *texts, {"path of alice": {"type": "str", "value": f"{MOUNT}/secret-project/x y/z.bin"}}],
        "input_kwargs": {"reduction": {"type": "str", "value": "mean"}, "raw": f"{MOUNT}/secret-project/raw.bin"},
        "output": [leaf],
    }
    head = {
        "task": "statistics",
        "level": "mix",
        "framework": "mindspore",
        "dump_data_dir": f"{HOME}/secret-project/dump_tensor_data",
        "run": {
            "tool": "msprobe-ms 0.1.0",
            "framework": "2.10.0",
            "id": "gpu-box-17/4711",
            "settings": {"dump_path": f"{HOME}/secret-project", "wandb_api_key": "hunter2hunter2", "step": [0]},
        },
        "missing": [
            {"name": "Mint.exp.0.forward", "part": "input.9", "cause": f"PermissionError: {HOME}/secret-project/z"}
        ],
        "comment": f"of alice, password={PASSWORD}",
    }
    (place / "dump.json").write_text(json.dumps({**head, "data": {"Mint.exp.0.forward": first}}))
    frames = [
        f"File {HOME}/secret-project/nets/net.py, line 7, in construct, \n {CODE}",
        f"File {HOME}/secret-project/train.py, line 3, in <module>, \n open('{HOME}/x/y').read()  # alice",
        "File /opt/conda/envs/alice/lib/python3.11/site-packages/mindspore/nn/cell.py, line 5, in __call__, \n pass",
        "File /opt/conda/envs/alice/lib/python3.11/contextlib.py, line 5, in inner, \n pass",
    ]
    (place / "stack.json").write_text(json.dumps({"0": [["Mint.exp.0.forward"], frames]}))
    (place / "construct.json").write_text(json.dumps({"Mint.exp.0.forward": None}))
    (folder / name / "run.jsonl").write_text(json.dumps({"host": "gpu-box-17", "launch": PASSWORD}) + "\n")
    (place / "findings.json").write_text(json.dumps({"message": f"{HOME} {TOKEN}"}))
    return folder / name


@pytest.fixture
def sides(tmp_path, monkeypatch):
    for name in ("USER", "LOGNAME"):
        monkeypatch.setenv(name, "alice")
    monkeypatch.setenv("HOSTNAME", "gpu-box-17")
    monkeypatch.setenv("WANDB_API_KEY", "hunter2hunter2")
    return planted(tmp_path, "t"), planted(tmp_path, "g")


@pytest.mark.parametrize("options", [[], ["--anonymous"]], ids=["plain", "anonymous"])
def test_nothing_private_is_in_any_entry(options, sides, runs, entries):
    file, _ = runs.bundle(*sides, *options)
    found = {
        name: [text for text in PLANTED if text.encode() in content or text in name]
        for name, content in entries(file).items()
    }
    assert not any(found.values()), found
    with zipfile.ZipFile(file) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert archive.comment == b""


@pytest.fixture
def prompts(tmp_path, monkeypatch):
    """Two dumps whose only difference is a text that one call was given."""
    monkeypatch.setenv("USER", "alice")
    for name in "tg":
        planted(tmp_path, name)
        file = tmp_path / name / "step0/rank0/dump.json"
        held = json.loads(file.read_text())
        text = "Where does alice live" if name == "t" else "zanzibar"
        held["data"]["Mint.exp.0.forward"]["input_args"][1:] = [{"type": "str", "value": text}]
        file.write_text(json.dumps(held))
    return tmp_path / "t", tmp_path / "g"


def test_what_the_answer_repeats_of_an_argument_is_replaced_too(prompts, runs, entries):
    plain, _ = runs.bundle(*prompts)
    anonymous, _ = runs.bundle(*prompts, "--anonymous", name="anonymous.zip")
    assert any(b"zanzibar" in text for name, text in entries(plain).items() if name.startswith("answer/"))
    assert not any(b"alice" in text for text in entries(plain).values())
    found = [n for n, text in entries(anonymous).items() if b"zanzibar" in text or b"Where does" in text]
    assert found == []
    assert any(b"<text1>" in text for name, text in entries(anonymous).items() if name.startswith("answer/"))


def of(entries, file, side, name="dump.json"):
    return json.loads(entries(file)[f"{side}/step0/rank0/{name}"])


def arguments(dump):
    first = dump["data"]["Mint.exp.0.forward"]
    return [each["value"] for each in first["input_args"][1:7]]


def test_texts_that_are_equal_remain_equal_and_others_remain_different(sides, runs, entries):
    file, _ = runs.bundle(*sides)
    target, golden = (arguments(of(entries, file, side)) for side in ("target", "golden"))
    assert [ours == theirs for ours, theirs in zip(target, golden, strict=True)] == [
        True,
        False,
        True,
        True,
        True,
        True,
    ]
    assert re.fullmatch(r"<dir\d+>/data\.bin", target[1])
    assert re.fullmatch(r"<dir\d+>/both\.bin", target[2])
    assert target[3] == "mean"
    assert target[4] == "model of <user1> on <host1> at <host2>"
    assert re.fullmatch(r"Authorization: (Bearer )?<redacted:[0-9a-f]{5}>", target[0])


def test_anonymous_texts_are_numbers_and_options_of_frameworks_remain(sides, runs, entries):
    file, _ = runs.bundle(*sides, "--anonymous")
    target, golden = (arguments(of(entries, file, side)) for side in ("target", "golden"))
    assert [ours == theirs for ours, theirs in zip(target, golden, strict=True)] == [
        True,
        False,
        True,
        True,
        True,
        True,
    ]
    assert target[3] == "mean"
    assert all(re.fullmatch(r"<text\d+>", text) for text in target[:3] + target[4:])
    assert len({*target}) == 6
    stack = of(entries, file, "target", "stack.json")
    assert [frame.partition("\n")[2] for frame in stack["0"][1]] == [" <code>"] * 4


def test_stacks_have_short_paths_and_the_users_line_is_still_found(sides, runs, entries):
    file, _ = runs.bundle(*sides)
    _, frames = of(entries, file, "target", "stack.json")["0"]
    assert [frame.partition(",")[0] for frame in frames] == [
        "File nets/net.py",
        "File train.py",
        "File .../site-packages/mindspore/nn/cell.py",
        "File .../python3.11/contextlib.py",
    ]
    assert re.search(r'token="<redacted:[0-9a-f]{5}>"', frames[0])
    from msprobe.store.stacks_and_construct import user_line

    assert user_line(reversed(frames)) == ("train.py", 3) or user_line(frames) == ("nets/net.py", 7)
    assert user_line(frames[2:3]) is None, "a line of a framework"


def test_names_shapes_and_statistics_are_as_they_were(sides, runs, entries):
    file, _ = runs.bundle(*sides)
    made = of(entries, file, "golden")
    first = made["data"]["Mint.exp.0.forward"]
    original = json.loads((sides[1] / "step0/rank0/dump.json").read_text())
    assert first["input_args"][0] == original["data"]["Mint.exp.0.forward"]["input_args"][0]
    assert first["output"] == original["data"]["Mint.exp.0.forward"]["output"]
    assert (made["task"], made["level"], made["framework"]) == ("statistics", "mix", "mindspore")
    assert made["dump_data_dir"] is None
    assert made["run"]["id"] == "run1"
    assert made["run"]["settings"]["step"] == [0]
    assert made["missing"][0]["part"] == "input.9"


def test_other_files_of_a_dump_are_not_packed(sides, runs, entries):
    file, _ = runs.bundle(*sides)
    names = {name.rpartition("/")[2] for name in entries(file)}
    assert names == {
        "bundle.json",
        "output.txt",
        "compare_result_rank0.json",
        "dump.json",
        "stack.json",
        "construct.json",
    }


def test_what_was_replaced_is_counted(sides, runs, about):
    file, out = runs.bundle(*sides)
    replaced = about(file)["replaced"]
    assert {"secrets", "folders", "files", "names"} <= replaced.keys()
    assert "replaced: " in out


def private(texts, **more):
    made = Privacy({"USER": "alice"}, **more)
    for text in texts:
        made.see_argument(text)
    made.settle()
    return made


@pytest.mark.parametrize(
    ("text", "replaced"),
    [
        ("/a/b/c.txt", "<dir1>/c.txt"),
        ("see /a/b/c.txt, line 3", "see <dir1>/c.txt, line 3"),
        ("--out=/a/b/", "--out=<dir1>/"),
        ("a/b/c", "a/b/c"),
        ("https://example.com/a/b/c", "https://example.com/a/b/c"),
        ("and/or", "and/or"),
        ("1/2", "1/2"),
        ("C:\\Users\\alice\\x.txt", "<dir1>/x.txt"),
        ("/my own/folder of/x.txt", "<dir1>/x.txt"),
        ("of alice.", "of <user1>."),
        ("malice", "malice"),
        ("net_alice_2", "net_<user1>_2"),
        ("1.2.3", "1.2.3"),
        ("at 192.168.0.1:80", "at <host1>:80"),
        ("same", "same"),
        ("", ""),
    ],
)
def test_texts(text, replaced):
    assert private([text]).argument(text) == replaced


def test_a_secret_that_is_recognized_late_is_replaced_in_what_was_seen_before():
    made = private([f"note: {PASSWORD}", f"--password {PASSWORD}"])
    assert PASSWORD not in made.text(f"note: {PASSWORD}")


def test_numbers_do_not_depend_on_the_order(sides):
    texts = ["/a/b/x", "/c/d/x", "some words", "other words"]
    for anonymous in (False, True):
        one, two = private(texts, anonymous=anonymous), private(texts[::-1], anonymous=anonymous)
        assert [one.argument(text) for text in texts] == [two.argument(text) for text in texts]
        assert len({one.argument(text) for text in texts}) == 4


def test_common_account_names_are_not_searched_for(monkeypatch):
    made = Privacy({"USER": "root"})
    made.settle()
    assert made.text("the root of the tree") == "the root of the tree"


def test_words_of_options_are_those_that_frameworks_have():
    torch = pytest.importorskip("torch", reason="asks torch what its options are")
    reductions = {"none", "mean", "sum"}
    assert reductions <= OPTION_WORDS
    for word in ("reflect", "replicate", "circular", "constant"):
        torch.nn.functional.pad(torch.ones(1, 1, 4), (1, 1), mode=word)
        assert word in OPTION_WORDS
    assert "secret" not in OPTION_WORDS
    assert sys.modules["torch"] is torch
