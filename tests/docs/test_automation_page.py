"""docs/*/how-to/automation.md: its commands and programs run, in both languages the same ones."""

import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import jsonschema
import pytest
import yaml
from event_loops import run_in_thread
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from msprobe.findings.document import SCHEMA_FILE

DOCS = Path(__file__).parents[2] / "docs"
SAMPLES = Path(__file__).parents[1] / "samples" / "26.2.0" / "dumps"
PAGES = ["en/how-to/automation.md", "zh/how-to/automation.md"]
BIN = Path(sys.executable).parent
MSPROBE = BIN / "msprobe"


def all_blocks(page):
    """The blocks of a page with their languages, in their order."""
    text = (DOCS / page).read_text("utf-8")
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path):
    """Two dumps, `target` and `golden`: 0.05 was added to the first weight of the target."""
    shutil.copytree(SAMPLES / "msp_mix_stat", tmp_path / "target")
    shutil.copytree(SAMPLES / "ms_mix_stat", tmp_path / "golden")
    return tmp_path


def shell(script, folder, *options, **variables):
    """What a script prints, run as CI systems do: it ends with the first command that fails."""
    environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", **variables}
    done = subprocess.run(
        ["bash", "-e", *options, "-c", script], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def document_in(folder):
    document = json.loads((folder / "answer.json").read_text())
    jsonschema.validate(document, json.loads(SCHEMA_FILE.read_text()))
    return document


def test_both_languages_show_the_same_code():
    assert all_blocks(PAGES[0]) == all_blocks(PAGES[1])


def test_the_commands_of_the_page_run_one_after_the_other(blocks, folder):
    keep, lines, others = (shell(block, folder, "-u", "-o", "pipefail") for block in blocks(PAGES[0], "bash"))
    document = document_in(folder)
    assert document["state"] == "differs"
    assert keep == f"{document['answer']}\n"
    place = document["findings"][0]["place"]
    assert [line.split("\t") for line in lines.splitlines()] == [
        [one["code"], one["place"]["name"], f"{one['place']['file']}:{one['place']['line']}"]
        for one in document["findings"]
    ]
    assert f"{place['name']}\t/home/user/train/models_ms.py:40" in lines
    assert others == "there are other findings\n"
    assert any((folder / "report").iterdir())


def test_equal_dumps_pass_and_a_wrong_path_does_not(blocks, folder):
    first = blocks(PAGES[0], "bash")[0]
    assert shell(first.replace("compare target", "compare golden"), folder) == "the runs agree\n"
    assert document_in(folder)["exit_code"] == 0
    assert shell(first.replace("compare target", "compare absent"), folder) == "msprobe could not judge\n"
    assert document_in(folder)["state"] == "failed"


def test_the_workflow_marks_the_line_and_writes_a_comment(blocks, folder):
    (text,) = blocks(PAGES[0], "yaml")
    workflow = yaml.safe_load(text)
    steps = {step["name"]: step for step in workflow["jobs"]["numerics"]["steps"] if "name" in step}
    outputs = folder / "outputs"
    shell(steps["Compare"]["run"], folder, GITHUB_OUTPUT=str(outputs))
    assert outputs.read_text() == "code=1\n"
    finding = document_in(folder)["findings"][0]
    marked = shell(steps["Mark the line"]["run"], folder, GITHUB_WORKSPACE="/home/user/train")
    assert marked.splitlines()[0] == f"::error file=models_ms.py,line=40,title={finding['code']}::{finding['message']}"
    shell(steps["Write the comment"]["run"], folder)
    comment = (folder / "comment.md").read_text().splitlines()
    assert comment[:2] == ["### msprobe: differs", ""]
    assert comment[2] == (
        f"- **{finding['code']} {finding['kind']}** in `{finding['place']['name']}`: {finding['message']} "
        "(`/home/user/train/models_ms.py:40`)"
    )
    assert list((folder / "report").glob("*.html"))
    done = subprocess.run(["bash", "-c", steps["Fail"]["run"]], env={"CODE": "1"}, check=False)
    assert done.returncode == 1
    # Expressions are filled in by GitHub before a shell reads them: no script has one.
    assert not any("${{" in step["run"] for step in steps.values() if "run" in step)


def test_the_programs_of_the_page_run(blocks, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", f"{BIN}{os.pathsep}{os.environ['PATH']}")
    read, validate = blocks(PAGES[0], "python")
    exec(compile(read, "page", "exec"), made := {})
    printed = capsys.readouterr().out.splitlines()
    first = made["document"]["findings"][0]
    assert printed[1] == f"{first['code']} parameters differ"
    assert printed[2] == "Primitive.dense.Dense.0.forward /home/user/train/models_ms.py 40"
    assert str(first["fields"]) == printed[3]
    (folder / "answer.json").write_text(json.dumps(made["document"]))
    exec(compile(validate, "page", "exec"), {})
    (folder / "answer.json").write_text(json.dumps({**made["document"], "state": "wonderful"}))
    with pytest.raises(jsonschema.ValidationError):
        exec(compile(validate, "page", "exec"), {})


@asynccontextmanager
async def started(config):
    assert config["command"] == "/path/to/venv/bin/msprobe"
    server = StdioServerParameters(command=str(MSPROBE), args=config["args"])
    async with stdio_client(server) as streams, ClientSession(*streams) as session:
        await session.initialize()
        yield session


@pytest.mark.parametrize("page", PAGES)
def test_the_configurations_start_the_server_with_the_tools_of_the_table(blocks, page):
    configurations = [json.loads(block) for block in blocks(page, "json")]
    found = [one for each in configurations for one in next(iter(each.values())).values()]
    assert len(found) == 2
    assert found[0]["args"] == found[1]["args"]
    (command,) = re.findall(
        r"^claude mcp add msprobe -- (.+)$", "\n".join(block for _, block in all_blocks(page)), re.MULTILINE
    )
    assert command.split() == [found[0]["command"], *found[0]["args"]]

    async def tools():
        async with started(found[0]) as session:
            return (await session.list_tools()).tools

    text = (DOCS / page).read_text("utf-8")
    table = re.findall(r"^\| `(\w+)\(([\w, ]+)\)` \|", text, re.MULTILINE)
    assert {name: parameters.split(", ") for name, parameters in table} == {
        tool.name: list(tool.inputSchema["properties"]) for tool in run_in_thread(tools())
    }
