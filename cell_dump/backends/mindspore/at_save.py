"""What `PrecisionDebugger.save` is where the graph compiler reads it."""

from msprobe.at_compile import AtCompile
from msprobe.base.log import once


def _in_graph() -> bool:
    once(
        "save in a graph",
        "PrecisionDebugger.save: saves nothing inside @jit and graph mode; use msprobe.mindspore.save there",
    )
    return True


in_graph = AtCompile(_in_graph, eager=False)
"""Where Python runs, a function that gives False; where the graph compiler reads the call, the constant True.

So the compiler drops what stands behind `if in_graph(): return`, which it could neither compile nor run.
"""
