"""Dumps of the twins, each made once for all processes of a run."""

import sys
from pathlib import Path

import mindspore as ms
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "twins"))
sys.path.append(str(Path(__file__).parent))  # the modules of this folder stand beside each other
import make
import truth

DEFAULTS = {"level": "mix", "task": "statistics", "summary": "statistics"}  # of make.configuration


class Twins:
    """Folders of dumps; what does not differ in a variant is the plain dump."""

    def __init__(self, made_once):
        self.made_once = made_once

    def dump(self, net, framework, variant=None, bug=None, steps=1, **settings):
        """The folder of a dump: `step0`, `step1`, ... are in it."""
        if variant and not self._differs(net, framework, variant):
            variant = None
        settings = {name: value for name, value in settings.items() if DEFAULTS[name] != value}
        key = ("twin", net, framework, variant, bug, steps, *sorted(settings.values()))

        def make_it(folder):
            debugger = make.collect(net, framework, folder, variant, bug, steps, **settings)
            type(debugger)._known.clear()  # other tests in this process begin as if there had been none
            type(debugger)._latest = None

        return self.made_once("-".join(str(part) for part in key if part is not None), make_it)

    def pair(self, net, variant=None, **settings):
        """Both sides of a twin."""
        return tuple(self.dump(net, framework, variant, **settings) for framework in ("mindspore", "pytorch"))

    @staticmethod
    def _differs(net, framework, variant):
        truths, side = truth.load(net, variant), make.SIDE[framework]
        other_weights = {"equal_weights", "fused_qkv"} & set(truth.names_of(variant))
        return bool(other_weights) or truths.scrambled == side or bool(truths.patches[side])


@pytest.fixture(scope="session")
def twins(made_once):
    """Makes dumps of twins."""
    ms.set_context(mode=ms.PYNATIVE_MODE)
    return Twins(made_once)
