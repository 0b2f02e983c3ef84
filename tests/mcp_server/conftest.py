"""An agent: the official client of the protocol, which talks with `msprobe mcp` in a process of its own."""

import json
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio.from_thread import start_blocking_portal
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

SAMPLES = Path(__file__).parents[1] / "samples"


@asynccontextmanager
async def connected(folder, errors):
    server = StdioServerParameters(command=sys.executable, args=["-m", "msprobe", "mcp"], cwd=folder)
    async with stdio_client(server, errors) as streams, ClientSession(*streams) as session:
        await session.initialize()
        yield session


class Agent:
    """Calls of tools. `folder` is the working directory of the server, `log` what it wrote to standard error."""

    def __init__(self, portal, session, folder, log):
        self._portal, self._session, self.folder, self.log = portal, session, folder, log

    def __call__(self, tool, **arguments):
        """The structured result, which is also the text of the answer."""
        result = self._portal.call(self._session.call_tool, tool, arguments)
        assert not result.isError, result.content[0].text
        assert json.loads(result.content[0].text) == result.structuredContent
        return result.structuredContent

    def refused(self, tool, **arguments):
        """The message of a call that is an error."""
        result = self._portal.call(self._session.call_tool, tool, arguments)
        assert result.isError, result.structuredContent
        return result.content[0].text.removeprefix(f"Error executing tool {tool}: ")

    def together(self, *calls):
        """The names of tools that are called at the same time, in the order of their answers."""
        done = []

        async def call(tool, arguments):
            assert not (await self._session.call_tool(tool, arguments)).isError
            done.append(tool)

        async def all_calls():
            async with anyio.create_task_group() as group:
                for tool, arguments in calls:
                    group.start_soon(call, tool, arguments)

        self._portal.call(all_calls)
        return done

    def tools(self):
        return {tool.name: tool for tool in self._portal.call(self._session.list_tools).tools}


@pytest.fixture(scope="module")
def agent(tmp_path_factory):
    folder = tmp_path_factory.mktemp("agent")
    with (
        open(folder / "errors.txt", "w+") as errors,
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(connected(folder, errors)) as session,
    ):
        yield Agent(portal, session, folder, folder / "errors.txt")


def content_of(folder):
    """All files below a folder with their bytes."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def unchanged(agent):
    """Checks that neither the samples nor the working directory of the server change."""
    folders = (SAMPLES / "26.2.0" / "dumps", SAMPLES / "twins")
    before = [content_of(folder) for folder in folders]
    yield
    assert [content_of(folder) for folder in folders] == before
    assert {path.name for path in agent.folder.iterdir()} == {"errors.txt"}


@pytest.fixture
def write_dump(tmp_path):
    """`write_dump("run/step0/rank0", calls)`: a dump.json with a tensor record for each named record of each call.

    `calls` has, by the name of a call, the members of its entry; a tensor is a tuple of max, min, mean and norm.
    """

    def leaf(value):
        if not isinstance(value, tuple):
            return {"type": type(value).__name__, "value": value}
        high, low, mean, norm = value
        return {
            "type": "mindspore.Tensor",
            "dtype": "Float32",
            "shape": [2],
            "Max": high,
            "Min": low,
            "Mean": mean,
            "Norm": norm,
        }

    def write(place, calls, stack=("File /train/net.py, line 7, in construct, \n y = f(x)",), **header):
        folder = tmp_path / place
        folder.mkdir(parents=True)
        data = {name: {part: list(map(leaf, values)) for part, values in call.items()} for name, call in calls.items()}
        head = {"task": "statistics", "level": "mix", "framework": "mindspore", **header}
        (folder / "dump.json").write_text(json.dumps({**head, "data": data}))
        (folder / "stack.json").write_text(json.dumps({"0": [list(calls), list(stack)]}))
        (folder / "construct.json").write_text(json.dumps(dict.fromkeys(calls)))
        return folder

    return write
