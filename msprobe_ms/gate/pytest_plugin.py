"""The fixture `numerics_gate` for pytest: compares a block of a test with a golden file.

pytest loads this module in each environment that has msprobe-ms, so that it imports nothing else before the fixture is
used.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .block import GatedBlock

_GOLDENS = "numerics_goldens"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, and the folder of the goldens."""
    group = parser.getgroup("msprobe", "numerics gate of msprobe-ms")
    group.addoption(
        "--numerics-update",
        metavar="REASON",
        default="",
        help="write goldens that are missing or differ, with a reason",
    )
    group.addoption("--numerics-report", metavar="DIR", default="", help="write a page for each gate that is red")
    parser.addini(_GOLDENS, "folder of golden files, below that of the test", default="goldens")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a reason that says nothing: it is what reviewers read."""
    reason = config.getoption("--numerics-update")
    if reason and not reason.strip():
        raise pytest.UsageError("--numerics-update: say why the goldens change")


@pytest.fixture
def numerics_gate(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Compare a block with a golden file: `with numerics_gate("gpt-tiny", model, optimizer) as gate: ...`.

    name : the golden is `goldens/NAME.golden` next to the file of the test.
    model : the model of PyTorch or MindSpore that the block trains.
    optimizer : accepted for readers of the test; updates are compared by the parameters of the next step.
    limits, forward_only, steps : as the options of `msprobe gate check` and `record`.

    `gate.step()` ends a step. The test fails if the gate is red, if the block did not train, or if there is no golden.
    """
    from .block import GatedBlock, Plan

    config, used = request.config, set[str]()

    @contextmanager
    def gate(
        name: str,
        model: Any,
        optimizer: Any = None,
        *,
        limits: str = "auto",
        forward_only: bool = False,
        steps: tuple[int, ...] = (0, 1, 2),
    ) -> "Iterator[GatedBlock]":
        if name in used or "/" in name or not name.strip("."):
            raise pytest.UsageError(f"numerics_gate({name!r}): a golden has a name of its own, without '/'")
        used.add(name)
        report = config.getoption("--numerics-report")
        plan = Plan(
            golden=request.path.parent / config.getini(_GOLDENS) / f"{name}.golden",
            limits=limits,
            forward_only=forward_only,
            update=config.getoption("--numerics-update"),
            report=Path(report) / name if report else None,
            steps=steps,
        )
        from msprobe.base.errors import MsprobeError

        block = GatedBlock(model, plan)
        try:
            with block:
                yield block
        except MsprobeError as err:
            pytest.fail(f"numerics gate {name}: {err}", pytrace=False)
        _fail_unless_green(name, block)

    return gate


def _fail_unless_green(name: str, block: "GatedBlock") -> None:
    from .judge import State
    from .report import lines

    if block.refused is not None:
        pytest.fail(f"numerics gate {name}: {block.refused.line}", pytrace=False)
    verdict = block.verdict
    if verdict is not None and verdict.state is not State.GREEN:
        shown = [*lines(verdict), *([f"report: {block.page}"] if block.page else [])]
        shown.append("if the change is intended: pytest --numerics-update REASON")
        pytest.fail("\n".join(shown), pytrace=False)
