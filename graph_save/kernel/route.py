"""Which of the framework's dumps serves the settings on this machine, or why none does."""

from msprobe.base.errors import UsageError
from msprobe.base.settings import Settings

from .api_capture import asked_api
from .dump_settings import Plan, exception, kernels, overflow, whole_graph
from .machine import Machine


def plan_of(settings: Settings, machine: Machine) -> Plan:
    """The plan of a kernel dump. UsageError where the framework has no such dump on this machine."""
    if settings.task == "exception_dump":
        if machine.device != "Ascend":
            raise _only_on_ascend(settings, machine)
        if machine.whole_graph:
            raise UsageError(
                'task "exception_dump": at jit_level O2 the framework launches no kernels; '
                'use set_context(jit_config={"jit_level": "O0"})'
            )
        return exception(settings)
    if settings.task == "overflow_check":
        if machine.device != "Ascend":
            raise _only_on_ascend(settings, machine)
        if not machine.whole_graph:
            raise UsageError(
                'task "overflow_check" at level L2 needs graph mode at jit_level O2; collect the task "statistics" '
                "at level L2, whose maxima and minima show what is not finite"
            )
        return overflow(settings)
    if api := asked_api(settings):
        raise UsageError(
            f"list: {api} is the name of an API, and the kernels of one API can be captured in PyNative mode on Ascend "
            f'only, here is {machine.device}; name kernels, such as "MatMul", or collect the API at level L1'
        )
    return whole_graph(settings, machine) if machine.whole_graph else kernels(settings, machine)


def _only_on_ascend(settings: Settings, machine: Machine) -> UsageError:
    return UsageError(
        f'task "{settings.task}" at level L2: the framework offers it on Ascend only, and here is {machine.device}; '
        'collect the task "statistics" at level L2, whose maxima and minima show what is not finite'
    )
