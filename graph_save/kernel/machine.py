"""The machine of a kernel dump, from MindSpore's context."""

import mindspore
from mindspore._c_expression import MSContext

from .dump_settings import Machine

FIRST_ASCEND = "ascend910"
"""The chip whose default jit_level is O2; the names of later chips are longer."""


def this_machine() -> Machine:
    """Return the machine by the current context of MindSpore."""
    device = mindspore.get_context("device_target")
    level = mindspore.get_context("jit_level") or mindspore.get_context("jit_config").get("jit_level", "")
    if not level:
        chip = str(MSContext.get_instance().get_ascend_soc_version()).lower() if device == "Ascend" else ""
        level = "O2" if chip == FIRST_ASCEND else "O0"
    return Machine(
        device,
        mindspore.get_context("mode") == mindspore.GRAPH_MODE,
        level,
        tuple(int(part) for part in mindspore.__version__.split(".")[:3] if part.isdigit()),
    )
