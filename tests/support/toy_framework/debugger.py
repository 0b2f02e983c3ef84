"""The debugger of the toy framework."""

from msprobe.cell_dump.collector import PythonCalls
from msprobe.cell_dump.saves import Saves
from msprobe.debugger import Debugger

from .collecting import CAPABILITY as TOY


class PrecisionDebugger(Debugger):
    _framework = "toy"

    @classmethod
    def _collectors_of(cls, settings):
        return PythonCalls(settings, TOY)

    @classmethod
    def _saves_of(cls, settings):
        return Saves(settings, TOY)

    @classmethod
    def _version(cls):
        return "1.0"


CAPABILITY = PrecisionDebugger
