"""What the dump settings depend on beside the user's wishes: device, execution mode, compilation, version."""

from dataclasses import dataclass

import mindspore
from mindspore._c_expression import MSContext

FIRST_ASCEND = "ascend910"
"""The chip that compiles whole graphs where no jit_level is given; its successors' names are longer."""


@dataclass(frozen=True)
class Machine:
    """Where the training runs. `graph` is GRAPH_MODE; `jit_level` is "O0", "O1" or "O2"."""

    device: str
    graph: bool
    jit_level: str
    version: tuple[int, ...]

    @property
    def whole_graph(self) -> bool:
        """Whether graphs are given to the device as a whole, so that no kernel is launched by the framework."""
        return self.device == "Ascend" and self.graph and self.jit_level == "O2"


def this_machine() -> Machine:
    """As the framework's context says now."""
    device = mindspore.get_context("device_target")
    level = mindspore.get_context("jit_level") or mindspore.get_context("jit_config").get("jit_level", "")
    return Machine(
        device,
        mindspore.get_context("mode") == mindspore.GRAPH_MODE,
        level or ("O2" if device == "Ascend" and _chip() == FIRST_ASCEND else "O0"),
        tuple(int(part) for part in mindspore.__version__.split(".")[:3] if part.isdigit()),
    )


def _chip() -> str:
    return str(MSContext.get_instance().get_ascend_soc_version()).lower()
