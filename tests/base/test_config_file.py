"""Reading a configuration file, and what is said of one that cannot be read."""

import errno
import os

import pytest

from msprobe.base import settings
from msprobe.base.errors import SettingsError
from msprobe.base.settings import read_config


def refusal(path):
    with pytest.raises(SettingsError) as caught:
        read_config(path)
    return str(caught.value)


def written(tmp_path, text, name="config.json"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("name", ["config.json", "with space.json", "配置.json", "a(b)+c.json", ".json"])
@pytest.mark.parametrize("as_text", [True, False])
def test_every_name_that_ends_in_json_is_read(tmp_path, name, as_text):
    path = written(tmp_path, '{"列": ["x"]}', name)
    assert read_config(str(path) if as_text else path) == {"列": ["x"]}


def test_a_symbolic_link_is_read(tmp_path):
    written(tmp_path, '{"task": "tensor"}', "real.json")
    (tmp_path / "link.json").symlink_to("real.json")
    assert read_config(tmp_path / "link.json") == {"task": "tensor"}


def test_a_byte_order_mark_is_read_over(tmp_path):
    assert read_config(written(tmp_path, b'\xef\xbb\xbf{"task": "tensor"}')) == {"task": "tensor"}


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ('{"task": "tensor",\n "rank": }', ", line 2, column 10", "Expecting value"),
        ('{\n "task": "tensor"\n', ", line 3, column 1", "not valid JSON"),
        ("", ", line 1, column 1", "Expecting value"),
        ("{\"task\": 'tensor'}", ", line 1, column 10", "Expecting value"),
        ('{"task": "tensor" // not yet\n}', ", line 1, column 19", "JSON allows neither comments"),
        ('{"task": "tensor",\n}', ", line 2, column 1", "nor a comma before a closing bracket"),
        ("[" * 100_000, "", "too deeply nested"),
        ('{"step": [' + "9" * 5000 + "]}", "", "a number with thousands of digits"),
    ],
    ids=["value", "end", "empty", "quotes", "comment", "comma", "depth", "digits"],
)
def test_broken_json_is_told_with_its_place(tmp_path, text, where, what):
    path = written(tmp_path, text)
    message = refusal(path)
    assert message.startswith(f"{path}{where}: not valid JSON (")
    assert what in message
    assert message.endswith("correct it")


@pytest.mark.parametrize("text", ["[]", "3", "null", '"task"'])
def test_only_an_object_is_a_configuration(tmp_path, text):
    path = written(tmp_path, text)
    assert refusal(path).startswith(f"{path}: the file contains a ")
    assert refusal(path).endswith("write one object, {...}")


@pytest.mark.parametrize("text", ['{"step": [1], "step": [2]}', '{"a": 1, "tensor": {"step": [1], "step": [1]}}'])
def test_a_key_that_stands_twice_is_refused(tmp_path, text):
    path = written(tmp_path, text)
    assert refusal(path) == f'{path}: duplicate key "step" in one object; remove one'


def test_a_missing_file_is_told_with_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    message = refusal("no/config.json")
    assert message == f"no/config.json: no such file; correct config_path (working directory: {os.getcwd()})"


def test_a_folder_is_no_file(tmp_path):
    (tmp_path / "config.json").mkdir()
    assert refusal(tmp_path / "config.json").endswith("not a file; set config_path to a .json file")


@pytest.mark.parametrize("name", ["config.yaml", "config", "config.json.bak", "config.JSON"])
def test_another_ending_is_refused(tmp_path, name):
    path = written(tmp_path, "{}", name)
    assert refusal(path) == f"{path}: the name does not end in .json; rename the file if it contains JSON"


def test_another_encoding_is_refused(tmp_path):
    path = written(tmp_path, '{"a": "配置"}'.encode("gbk"))
    assert refusal(path).startswith(f"{path}: byte ")
    assert refusal(path).endswith("is not UTF-8; save the file in UTF-8")


def test_a_file_without_the_right_to_read_is_told(tmp_path, monkeypatch):
    path = written(tmp_path, "{}")

    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(settings, "read_input", refuse)  # root, who runs tests too, may read everything
    assert refusal(path) == f"{path}: cannot be read (Permission denied); grant read permission to this user"


@pytest.mark.parametrize("path", [7, True, b"config.json", ["config.json"]])
def test_what_is_no_path_is_refused(path):
    assert "which is not a path; pass the path of a .json file, or None" in refusal(path)


def test_a_path_with_a_nul_is_no_file():
    assert "no such file" in refusal("a\0b.json")
